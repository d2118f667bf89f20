"""`trtdsl port` as a new user meets it."""

import json
from pathlib import Path

import pytest

from trtdsl.core.backend import cuda_status

MODULES = Path(__file__).parents[1] / "porting" / "modules.py"


@pytest.fixture
def trtdsl(command_line, tmp_path):
    return command_line(tmp_path)


SMALL = (f"{MODULES}:Small", "--input", "image=N,3,16,16", "--dim", "N=1:2:3")


def test_port_prints_a_file_and_says_where_the_weights_are_to_be(trtdsl, tmp_path):
    done = trtdsl("port", *SMALL)
    assert done.stdout.startswith('"""Small, ported from ') and done.stdout.endswith("\n")
    assert "def small(image: td.Tensor, w: td.Scope) -> dict[str, td.Tensor]:" in done.stdout
    assert "--weights small.safetensors writes the module's own" in done.stderr
    assert not list(tmp_path.iterdir())
    assert trtdsl("port", *SMALL, "-q").stderr == ""


def test_port_check_and_build_in_three_commands(trtdsl, tmp_path):
    done = trtdsl("port", *SMALL, "-o", "small.py", "--weights", "small.safetensors")
    assert done.stdout == "" and "next: trtdsl build small.py" in done.stderr
    assert "checked: it equals the module at " in done.stderr
    assert "equals its torch reference" in trtdsl("check", "small.py").stdout
    trtdsl("build", "small.py")
    assert (tmp_path / "small.engine").exists()


def test_port_says_what_cannot_be_built(trtdsl, tmp_path):
    (tmp_path / "rows.py").write_text(
        "import torch\n\n\nclass Rows(torch.nn.Module):\n    def forward(self, x):\n        return torch.nonzero(x)\n"
    )
    done = trtdsl("port", "rows.py:Rows", "--input", "x=4,5", "-o", "net.py", "--weights", "net.safetensors")
    without = "it cannot be built here: NON_ZERO has no kernel without a GPU: "
    assert (done.stderr.count(without), "next: " in done.stderr) == ((0, True) if cuda_status() is None else (1, False))


def test_port_writes_over_nothing_without_force(trtdsl, tmp_path):
    (tmp_path / "small.py").write_text("mine")
    done = trtdsl("port", *SMALL, "-o", "small.py", "--weights", "small.safetensors", code=2)
    assert "small.py is there already: --force writes over it" in done.stderr
    assert (tmp_path / "small.py").read_text() == "mine" and not (tmp_path / "small.safetensors").exists()
    trtdsl("port", *SMALL, "-o", "small.py", "--force")
    assert "ported from" in (tmp_path / "small.py").read_text()


def test_port_names_files_as_a_shell_takes_them_and_weights_by_their_kind(trtdsl, tmp_path):
    done = trtdsl("port", *SMALL, "-o", "my net.py", "--weights", "small.pt", code=2)
    assert "weights are written as safetensors: name them small.safetensors" in done.stderr
    assert not (tmp_path / "small.pt").exists()
    done = trtdsl("port", *SMALL, "-o", "my net.py", "--weights", "small.safetensors")
    assert "next: trtdsl build 'my net.py'" in done.stderr


def test_port_refuses_an_input_of_float64_by_its_name(trtdsl):
    done = trtdsl("port", SMALL[0], "--input", "image=N,3,16,16:float64", code=2)
    assert "error: input 'image' is float64, which TensorRT does not have: give it as float32" in done.stderr


UNET = """
import torch
from torch import nn


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.down, self.up = nn.Conv2d(3, 8, 3, padding=1), nn.ConvTranspose2d(8, 8, 2, 2)

    def forward(self, x):
        x = self.down(x)
        return torch.cat([x, self.up(nn.functional.max_pool2d(x, 2))], 1)
"""


def test_port_of_what_holds_at_some_sizes_writes_nothing_and_says_all_ranges(trtdsl, tmp_path):
    (tmp_path / "unet.py").write_text(UNET)
    files = ("-o", "net.py", "--weights", "net.safetensors")
    ranges = ("--dim", "H=30:64:128", "--dim", "W=30:64:128")
    done = trtdsl("port", "unet.py:UNet", "--input", "x=1,3,H,W", *ranges, *files, code=3)
    assert "no file is written" in done.stderr and not list(tmp_path.glob("net.*"))
    proposed = done.stderr.split("with narrower ranges it holds: ")[1].split("\n")[0]
    assert proposed == "--input x=1,3,2*H,2*W --dim H=15:32:64 --dim W=15:32:64"
    assert "checked: it equals" in trtdsl("port", "unet.py:UNet", *proposed.split(), *files).stderr
    assert len(list(tmp_path.glob("net.*"))) == 2


def test_port_of_what_takes_arguments(trtdsl):
    done = trtdsl(
        "port", "torch.nn:Conv2d", "--input", "input=N,3,8,8", "--arg", "in_channels=3", "--arg", "out_channels=4",
        "--arg", "kernel_size=(3, 1)", "--arg", "padding=same", "--arg", "dilation=[1, 1]", "--arg", "bias=False",
        "--name", "conv",
    )  # fmt: skip
    made = 'Conv2d(in_channels=3, out_channels=4, kernel_size=(3, 1), padding="same", dilation=[1, 1], bias=False)'
    assert f"return {made}" in done.stdout
    assert 'F.conv2d(input, w.weight, padding="same")' in done.stdout


def test_port_says_what_has_no_counterpart_and_that_is_no_error(trtdsl):
    done = trtdsl("port", f"{MODULES}:Fft", "--input", "x=N,8")
    assert "1 call has no counterpart (torch.fft.hfft): see td.missing in the file" in done.stderr
    assert "not checked: it cannot be defined before what is missing is written" in done.stderr
    written = trtdsl("port", f"{MODULES}:Fft", "--input", "x=N,8", "-o", "fft.py", "--weights", "fft.safetensors")
    assert "next:" not in written.stderr
    unchecked = trtdsl("port", *SMALL, "-o", "small.py", "--weights", "small.safetensors", "--no-check")
    assert "checked" not in unchecked.stderr and "next: trtdsl check small.py" in unchecked.stderr


def test_port_json_is_one_object(trtdsl):
    result = json.loads(trtdsl("port", f"{MODULES}:Fft", "--input", "x=N,8", "--json").stdout)
    assert (result["schema"], result["kind"], result["name"], result["missing"]) == (
        1,
        "port",
        "fft",
        ["torch.fft.hfft"],
    )
    assert "def fft(x: td.Tensor, w: td.Scope) ->" in result["text"] and not result["check"]["passed"]
    error = json.loads(trtdsl("port", f"{MODULES}:Branch", "--input", "x=N,8", "--json", code=3).stdout)["error"]
    assert error["type"] == "UnsupportedError" and error["location"]["file"].endswith("modules.py")


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("torch.nn:ReLU",), 2, "ReLU.forward takes (input: torch.Tensor): give its inputs"),
        (("torch.nn:ReLU", "--input", "N,3"), 2, "--input N,3: expected NAME=SHAPE, such as x=N,3,224,224"),
        (("torch.nn:ReLU", "--input", "input=3", "--input", "input=4"), 2, "--input gives input twice"),
        (("torch.nn:ReLU", "--input", "input=3", "--arg", "inplace"), 2, "--arg inplace: expected NAME=VALUE"),
        (("torch.nn:ReLU", "--input", "input=3", "-o", "nowhere/a.py"), 2, "there is no directory nowhere"),
        ((f"{MODULES}:Branch", "--input", "x=N,3"), 3, "depends on a tensor's values"),
    ],
)
def test_errors_of_port_are_one_line(trtdsl, arguments, code, message):
    done = trtdsl("port", *arguments, code=code)
    assert message in done.stderr and done.stdout == ""


@pytest.mark.parametrize(
    ("module", "options", "name"),
    [
        ("mine.py:Net", (), "mine"),
        ("mine.py:Net", ("-o", "tide.py"), "tide"),
        ("mine.py:Net", ("-o", "tide.py", "--name", "gauge"), "gauge"),
        ("mine.py:build", (), "gauge_net"),
        ("mine.py:build_model", ("-o", "tide.py"), "tide"),
        ("mine.py:GaugeNet", ("-o", "tide.py"), "gauge_net"),
        ("mine.py:gauge_18", ("-o", "tide.py"), "gauge_18"),
    ],
)
def test_a_network_has_a_name_that_says_which(trtdsl, tmp_path, module, options, name):
    (tmp_path / "mine.py").write_text(
        "import torch\n\nclass GaugeNet(torch.nn.Module):\n    def forward(self, x):\n        return x * 2\n\n"
        "class Net(GaugeNet): pass\n\ndef build(): return GaugeNet()\n\nbuild_model = gauge_18 = build\n"
    )
    printed = json.loads(trtdsl("port", module, "--input", "x=2,3", "--no-check", "--json", *options).stdout)
    assert printed["name"] == name


def test_port_says_how_to_give_indices(trtdsl, tmp_path):
    (tmp_path / "mine.py").write_text(
        "import torch\n\nclass Station(torch.nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.place = torch.nn.Embedding(5, 4)\n\n    def forward(self, x, at):\n"
        "        return x + self.place(at)\n"
    )
    said = trtdsl("port", "mine.py:Station", "--input", "x=N,4", "--input", "at=N", "--dim", "N=1:2:3", code=3).stderr
    assert "mine.py:9: forward fails: RuntimeError: Expected tensor" in said
    assert "the dtype of an input (x or at) stands behind its shape: --input NAME=SHAPE:int64" in said
    trtdsl("port", "mine.py:Station", "--input", "x=N,4", "--input", "at=N:int64", "--dim", "N=1:2:3")


def test_port_says_what_to_do_about_a_module_that_is_not_there(trtdsl, tmp_path):
    (tmp_path / "mine.py").write_text("import torch\nimport not_there_at_all\n")
    said = trtdsl("port", "mine.py:Station", "--input", "x=2,4", code=3).stderr
    assert "mine.py:2: ModuleNotFoundError: No module named 'not_there_at_all': install what has it for " in said


SIZED = """
import torch

class Sized(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.fc = torch.nn.Linear(width, 3)

    def forward(self, x):
        return self.fc(x)
"""


def test_a_class_in_a_file_takes_arguments(trtdsl, tmp_path):
    (tmp_path / "sized_by_width.py").write_text(SIZED)
    given = ("sized_by_width.py:Sized", "--input", "x=2,4")
    said = trtdsl("port", *given, code=2).stderr
    assert "Sized takes (width): missing a required argument: 'width'; --arg NAME=VALUE gives one" in said
    written = ("-o", "sized.py", "--weights", "sized.safetensors")
    trtdsl("port", *given, "--arg", "width=4", *written)
    assert "equals its torch reference" in trtdsl("check", "sized.py").stdout
