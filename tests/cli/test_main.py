"""The command line as a new user meets it: messages, exit codes, JSON, nothing left behind."""

import io
import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from typer.testing import CliRunner

import trtdsl as td
from trtdsl.cli.app import app
from trtdsl.display.terminal import Progress

runner = CliRunner()


WIDE = """\
import torch
import trtdsl as td

N, H, W = (td.Dim(name, min=1, opt=20, max=64) for name in ("N", "H8", "W8"))

@td.network(inputs={"x": td.Input((N, 2, 4 * H, 4 * W))}, reference=torch.nn.ReLU)
def wide(x):
    return {"flow": x.relu()}
"""


@pytest.fixture
def trtdsl(command_line, small):
    """Runs a command line in the folder of the small network."""
    return command_line(small)


def edit(path, old, new):
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def test_build_writes_engine_and_manifest_here(trtdsl, small):
    done = trtdsl("build", "small.py")
    assert "small.engine: " in done.stdout
    assert "input x: float32 (N, 3, 5, 5)\n" in done.stdout
    assert "profile 0: N=1:2:4\n" in done.stdout
    assert "checked against torch at 4 sizes" in done.stdout
    assert "no engine was executed" in done.stdout
    phases = done.stderr.splitlines()
    assert phases == ["defining the network", "checking against torch", "Building engine"]
    assert {"small.engine", "small.engine.json"} <= {path.name for path in small.iterdir()}
    assert "is up to date" in trtdsl("build", "small.py").stdout
    assert "is up to date" not in trtdsl("build", "small.py", "--force").stdout
    assert trtdsl("build", "small.py", "-q").stdout == ""


def test_build_json_is_one_object(trtdsl, small):
    done = trtdsl("build", "small.py:small", "--json", "--dim", "N=1:2:3", "-o", "other.engine")
    result = json.loads(done.stdout)
    assert (result["schema"], result["kind"], result["built"]) == (1, "build", True)
    assert result["manifest"]["profiles"][0]["inputs"]["x"]["max"] == [3, 3, 5, 5]
    assert result["check"]["passed"]
    assert (small / "other.engine").exists()


def test_build_hands_its_options_on(trtdsl):
    def manifest(*options):
        return json.loads(trtdsl("build", "small.py", "--dry-run", "--json", *options).stdout)["manifest"]

    plain, half = manifest(), manifest("--no-tf32", "--precision", "fp16")
    assert (plain["config"]["tf32"], half["config"]["tf32"]) == (True, False)
    assert plain["check"]["max_relative_to_scale"] < 1e-5 < half["check"]["max_relative_to_scale"]


def test_below_float16_the_error_of_exact_arithmetic_is_not_said_to_be_the_engines(trtdsl):
    built = trtdsl("build", "small.py", "--precision", "int8", "-o", "my small.engine").stdout
    assert "checked against torch at 4 sizes, in exact arithmetic alone. The network was" in built
    assert "next: `trtdsl inspect --program 'my small.engine'` lists its launches" in built
    assert ", in exact arithmetic alone\n" in trtdsl("inspect", "my small.engine").stdout


def test_no_check_is_printed_and_recorded(trtdsl, small):
    done = trtdsl("build", "small.py", "--no-check")
    assert "not checked against torch: --no-check" in done.stdout
    assert json.loads((small / "small.engine.json").read_text())["check"] == {"done": False, "reason": "--no-check"}


def test_a_check_that_was_put_into_a_manifest_by_hand_proves_nothing(trtdsl, small):
    trtdsl("build", "small.py", "-o", "checked.engine")
    trtdsl("build", "small.py", "--no-check")
    file = small / "small.engine.json"
    check = json.loads((small / "checked.engine.json").read_text())["check"]
    file.write_text(json.dumps({**json.loads(file.read_text()), "check": check, "edited": False}))
    said = trtdsl("inspect", "small.engine").stdout
    assert "its manifest was changed after a build wrote it" in said and "checked against torch" not in said
    assert json.loads(trtdsl("inspect", "small.engine", "--json").stdout)["edited"] is True
    assert json.loads(trtdsl("inspect", "checked.engine", "--json").stdout)["edited"] is False
    for name, shown in (("small", ""), ("checked", check["statement"])):
        page = td.view(small / f"{name}.engine").model["engine"]
        assert page["check"] == shown


def test_dry_run(trtdsl, small):
    assert "nothing was written" in trtdsl("build", "small.py", "--dry-run").stdout
    assert not list(small.glob("*.engine*"))


def test_check_prints_a_table_and_a_sentence(trtdsl):
    done = trtdsl("check", "small.py")
    row = r"^equal +N=\d +(?:\w+ +)?scores +\d×6 +[\d.e-]+ +[\d.e-]+$"
    assert len(re.findall(row, done.stdout, re.M)) == 1
    assert "tried: N = 1; N = 2; N = 3; N = 4, with normal, small, large, offset, ties, sparse values" in done.stdout
    assert len(re.findall(row, trtdsl("check", "small.py", "-v").stdout, re.M)) == 9
    assert trtdsl("check", "small.py", "-q").stdout.count("\n") == 1
    assert "equals its torch reference. The network was interpreted on the CPU" in done.stdout
    report = json.loads(trtdsl("check", "small.py", "--json").stdout)
    assert (report["schema"], report["kind"]) == (3, "check")
    assert report["passed"]
    assert report["sizes"] == [{"N": 1}, {"N": 2}, {"N": 3}, {"N": 4}]
    assert report["on"] == "interpreter"


def test_check_hands_its_options_on(trtdsl):
    def report(*options):
        return json.loads(trtdsl("check", "small.py", "--json", *options).stdout)

    def sizes(*options):
        return [case["dims"]["N"] for case in report(*options)["cases"] if case["draw"] == "normal"]

    def errors(*options):
        return [output["max_abs"] / output["scale"] for case in report(*options)["cases"] for output in case["outputs"]]

    assert sizes("--dim", "N=1:3:4") == [1, 2, 3, 4]
    assert sizes("--profile", "N=3") == [3]
    assert sizes("--sizes", "N=3") == [3]
    assert sizes("--sizes", "quick") == [1, 2, 4]
    assert sizes("--sizes", "N=3", "--sizes", "N=2") == [2, 3]
    assert max(errors()) < 1e-5 < max(errors("--precision", "fp16"))
    assert errors("--seed", "0") == errors() != errors("--seed", "1")
    assert "unknown backend 'onnx'" in trtdsl("check", "small.py", "--backend", "onnx", code=2).stderr


def test_a_mismatch_exits_with_1(trtdsl, small):
    edit(small / "small.py", "padding=1)", "padding=1) * 1.001")
    done = trtdsl("check", "small.py", code=1)
    assert "DIFFERS" in done.stdout
    said = (
        r"^output 'scores' differs at N = \d.*: in exact arithmetic, \d+ of \d+ elements are out.*and in 8 other cases"
    )
    assert len(re.findall(said, done.stdout, re.M)) == 1
    assert done.stdout.endswith("next: the same with --layers finds the first call that differs\n")
    assert "DIFFERS" in trtdsl("check", "small.py", "-q", code=1).stdout
    report = json.loads(trtdsl("check", "small.py", "--json", code=1).stdout)
    assert not report["passed"]
    worst = report["cases"][0]["outputs"][0]
    assert worst["worst_value"] != worst["worst_expected"]
    done = trtdsl("build", "small.py", code=1)
    assert "error: small: output 'scores' differs at N = " in done.stderr
    assert "Nothing was built" in done.stderr
    assert not (small / "small.engine").exists()


def test_a_weights_file_in_the_place_of_a_network(trtdsl):
    for command in ("check", "build", "inspect"):
        said = trtdsl(command, "small.safetensors", code=2).stderr
        assert "small.safetensors is weights, not a network: name the network's file, as NETWORK.py --weights" in said


def test_the_table_of_a_check_fits_80_columns(trtdsl, small, monkeypatch):
    """Three dynamic dimensions, which is what a video or an image of any size has."""
    monkeypatch.setenv("COLUMNS", "80")
    (small / "wide.py").write_text(WIDE)
    lines = trtdsl("check", "wide.py", "-v").stdout.splitlines()
    rows = [line for line in lines if line.startswith("equal")]
    assert len(rows) == 12
    assert all(re.fullmatch(r"equal +N=\d+ H8=\d+ W8=\d+ +(\w+ +)?flow +[\d×]+( +\S+){2}", row) for row in rows)
    assert max(len(line.rstrip()) for line in rows) <= 80


def test_check_layers_names_the_first_submodule_that_differs(trtdsl, small):
    whole = trtdsl("check", "small.py", "--layers").stdout
    assert "no call differs: 4 of torch's calls and 2 of 3 submodules have their result in the network" in whole
    edit(small / "small.py", "padding=1)", "padding=1) * 1.001")
    done = trtdsl("check", "small.py", "--layers", code=1)
    said = (
        r"first call that differs: mul at .*small\.py:\d+ \(torch: batch_norm at .*reference\.py:\d+\) in module 'bn'"
    )
    assert re.search(said, done.stdout)
    report = json.loads(trtdsl("check", "small.py", "--layers", "--json", code=1).stdout)
    assert report["calls"]["difference"]["module"] == "bn"
    assert report["calls"]["modules"] == ["conv"]


def test_inspect(trtdsl):
    done = trtdsl("inspect", "small.py")
    assert re.search(r"conv2d +CONVOLUTION", done.stdout)
    summary = json.loads(trtdsl("inspect", "small.py", "--json", "--dim", "N=1:3:4").stdout)
    layers = {layer["name"]: layer for layer in summary["layers"]}
    assert layers["conv2d"]["flops"] == 2 * 3 * 4 * 25 * 27  # N = 3, 4 maps of 5 x 5, 3 x 3 x 3 products each
    assert layers["conv2d"]["parameters"] == 4 * 27 + 4
    assert layers["conv2d"]["location"].endswith("small.py:9")
    assert summary["totals"]["layers"] == len(layers)


def test_usage_errors_exit_with_2(trtdsl, small):
    assert "no network file nothere.py" in trtdsl("build", "nothere.py", code=2).stderr
    (small / "empty.py").write_text("x = 1\n")
    assert "empty.py defines no network: mark a function with @td.network" in trtdsl("build", "empty.py", code=2).stderr
    assert "small has no dimension 'M': it has N" in trtdsl("build", "small.py", "--dim", "M=1", code=2).stderr
    for text in ("N", "N=", "N=1:2:3:4", "N=a"):
        assert "expected NAME=MIN:OPT:MAX" in trtdsl("build", "small.py", "--dim", text, code=2).stderr
    assert "needs 0 <= min <= opt <= max" in trtdsl("build", "small.py", "--dim", "N=5:1:2", code=2).stderr
    assert "there is no directory" in trtdsl("build", "small.py", "-o", "no/where.engine", code=2).stderr
    done = trtdsl("build", "small.py", "--compute-capability", "9.9", code=2)
    assert "compute capability '9.9' is not one that tensorrt-rtx" in done.stderr
    assert "unknown backend 'onnx'" in trtdsl("build", "small.py", "--backend", "onnx", code=2).stderr
    trtdsl("build", "small.py", "--no-such-option", code=2)


def test_definition_errors_exit_with_3_and_name_the_line(trtdsl, small):
    edit(small / "small.py", "F.mean(x, (2, 3))", "F.mean(x, (2, 7))")
    done = trtdsl("build", "small.py", code=3)
    assert "small.py:11: dimension 7 is outside the 4 dimensions" in done.stderr
    edit(small / "small.py", "F.mean(x, (2, 7))", "F.einsum('ab,bc->ac', x, x)")
    assert "small.py:11: " in trtdsl("build", "small.py", code=3).stderr
    edit(small / "small.py", "F.einsum('ab,bc->ac', x, x)", "x + F.mean(x, 0, keepdim=True)[:, :2]")
    done = trtdsl("build", "small.py", code=3)
    assert "small.py:11: the sizes of dimension 1 do not match: 4 and 2" in done.stderr
    edit(small / "small.py", "x + F.mean(x, 0, keepdim=True)[:, :2]", "1 / 0")
    assert "small.py:11: ZeroDivisionError" in trtdsl("build", "small.py", code=3).stderr
    assert not list(small.glob("*.engine*"))


def test_json_errors_are_one_object_too(trtdsl, small):
    edit(small / "small.py", "F.mean(x, (2, 3))", "F.mean(x, (2, 7))")
    error = json.loads(trtdsl("build", "small.py", "--json", code=3).stdout)["error"]
    assert error["type"] == "DefinitionError"
    assert error["exit_code"] == 3
    assert error["location"] == {"file": str(small / "small.py"), "line": 11}


def test_verbose_shows_the_traceback(small, monkeypatch):
    monkeypatch.chdir(small)
    edit(small / "small.py", "F.mean(x, (2, 3))", "1 / 0")
    done = runner.invoke(app, ["build", "small.py", "-v"])
    assert done.exit_code == 3
    assert "Traceback" in done.stderr
    assert "ZeroDivisionError: division by zero" in done.stderr


def test_weights_errors(trtdsl, small):
    path = small / "small.safetensors"
    weights = load_file(path)
    wrong = {name: tensor for name, tensor in weights.items() if name != "fc.bias"}
    wrong["conv.weight"] = torch.zeros(4, 3, 1, 1)
    wrong["fc.weight"] = weights["fc.weight"].double()
    wrong["extra"] = torch.zeros(2)
    wrong["bn.bias"] = torch.full((4,), float("nan"))
    save_file(wrong, small / "wrong.safetensors")
    done = trtdsl("build", "small.py", "--weights", "wrong.safetensors", code=3)
    assert done.stderr.split("do not fit the network:\n")[1].split("\n")[:5] == [
        "  bn.bias: has 4 NaN and 0 Inf (--allow-nonfinite builds it all the same)",
        "  conv.weight: has shape (4, 3, 1, 1), not (4, 3, 3, 3)",
        "  extra: unused: (2,)",
        "  fc.bias: missing: (6,) float32 (nearest: conv.bias, bn.bias)",
        "  fc.weight: is float64, not float32",
    ]
    for command in ("build small.py --weights", "check small.py --weights", "stubs"):
        done = trtdsl(*command.split(), "none.safetensors", code=2)
        assert "no weights file none.safetensors" in done.stderr
    path.write_bytes(path.read_bytes()[:-9])
    assert "truncated or not a safetensors file" in trtdsl("build", "small.py", code=7).stderr
    path.write_bytes(b"hello, this is no file of weights")
    assert "truncated or not a safetensors file" in trtdsl("build", "small.py", code=7).stderr


def test_nonfinite_weights_when_allowed(trtdsl, small):
    weights = load_file(small / "small.safetensors")
    weights["fc.bias"][0] = float("inf")
    save_file(weights, small / "inf.safetensors")
    for command in ("build", "check"):
        done = trtdsl(command, "small.py", "--weights", "inf.safetensors", code=3)
        assert "fc.bias: has 0 NaN and 1 Inf (--allow-nonfinite builds it all the same)" in done.stderr
        assert "small.py:" in done.stderr
    trtdsl("build", "small.py", "--weights", "inf.safetensors", "--allow-nonfinite")


def test_weights_convert(trtdsl, small):
    state = load_file(small / "small.safetensors")
    torch.save({"state_dict": state}, small / "model.pt")
    assert "model.safetensors: 9 tensors" in trtdsl("weights", "convert", "model.pt", "model.safetensors").stdout
    trtdsl("check", "small.py", "--weights", "model.safetensors")
    done = trtdsl("build", "small.py", "--weights", "model.pt", code=7)
    assert "trtdsl weights convert model.pt model.safetensors" in done.stderr


def test_a_gpu_is_asked_for_where_there_is_none(trtdsl):
    from trtdsl.core.backend import cuda_status

    if cuda_status() is None:
        pytest.skip("a CUDA device is here")
    done = trtdsl("check", "small.py", "--on", "engine", code=6)
    assert cuda_status() in done.stderr


def test_tensorrt_that_is_not_installed(trtdsl):
    from trtdsl.core.backend import installed

    if installed("tensorrt"):
        pytest.skip("TensorRT is installed here")
    done = trtdsl("build", "small.py", "--backend", "tensorrt", code=6)
    assert "the Python package tensorrt is not installed; pip install 'trtdsl[tensorrt]'" in done.stderr


def test_no_tensorrt_at_all(trtdsl, monkeypatch):
    from trtdsl.core import backend

    monkeypatch.delenv("TRTDSL_BACKEND", raising=False)
    for module in backend.MODULES.values():
        monkeypatch.setitem(sys.modules, module, None)  # not to be imported
    monkeypatch.setattr(backend, "_load", backend._load.__wrapped__)
    monkeypatch.setattr(backend, "installed", backend.installed.__wrapped__)
    for command in ("build", "check", "inspect"):
        done = trtdsl(command, "small.py", code=6)
        assert "error: TensorRT is missing: the Python package tensorrt_rtx is not installed" in done.stderr


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (OSError(5, "Input/output error"), "error: OSError: [Errno 5] Input/output error\n"),
        (MemoryError("4 TiB"), "error: MemoryError: 4 TiB\n"),
    ],
)
def test_a_failure_of_the_machine_exits_with_8(trtdsl, monkeypatch, error, message):
    def fail(*given, **how):
        raise error

    monkeypatch.setattr(td, "check", fail)
    assert trtdsl("check", "small.py", code=8).stderr == message


def test_explain_einsum_refuses(trtdsl):
    done = trtdsl("explain", "einsum", "ij,jk->ik", "2,3", "4,5", code=3)
    assert "label 'j' is 3 in operand 0 (i j: (2, 3)), but 4 in operand 1" in done.stderr
    trtdsl("explain", "einsum", "ij->i", "2;3", code=2)


def test_doctor(trtdsl):
    said = trtdsl("doctor").stdout
    assert "define, check and build networks: yes" in said
    assert "\nmisfits: none\n" in said or "\nmisfits:\n  " in said
    facts = json.loads(trtdsl("doctor", "--json").stdout)
    assert facts["packages"]["trtdsl"] != "not installed"
    library = Path(facts["libraries"]["tensorrt-rtx"])
    assert library.is_file() and library.name.startswith("libtensorrt_rtx.so.")
    options = ["-DTRTDSL_BACKEND=tensorrt-rtx", f"-Dtensorrt_rtx_LIBRARY={library}"]
    assert trtdsl("doctor", "--cmake").stdout.split() == options
    assert json.loads(trtdsl("doctor", "--cmake", "--json").stdout)["cmake"] == options


def test_ctrl_c_leaves_nothing_behind(small, tmp_path):
    began = tmp_path / "began"
    text = (small / "small.py").read_text()
    waiting = f"    import pathlib, time\n    pathlib.Path({str(began)!r}).touch()\n    time.sleep(600)\n"
    (small / "small.py").write_text(text.replace("    x = F.conv2d", waiting + "    x = F.conv2d"))
    process = subprocess.Popen(
        [sys.executable, "-m", "trtdsl.cli.main", "build", "small.py"],
        cwd=small, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a test runner's workers may ignore it
    )  # fmt: skip
    try:
        while process.poll() is None and not began.exists():  # the network is being defined
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        _, error = process.communicate(timeout=300)
    finally:
        process.kill()
    assert began.exists(), error
    assert process.returncode == 130, error
    assert "cancelled" in error
    assert "Traceback" not in error
    assert not list(small.glob("*.engine*"))
    assert not list(small.glob(".*"))


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_on_a_terminal_no_phase_outlives_its_end(small, monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    spec = td.load_spec(str(small / "small.py"))
    shown = []  # the bars, at each step
    with Progress(silent=False) as progress:

        def step(phase, done, total):
            progress.step(phase, done, total)
            shown.append([task.description for task in progress._bar.tasks])

        td.build(spec, small / "small.engine", progress=step)
        td.check(spec, progress=step)
    assert ["defining the network"] in shown
    assert ["checking against torch (N = 4)"] in shown
    assert ["Building engine"] in shown
    assert all(len(bars) == 1 for bars in shown if any("defining" in bar or "checking" in bar for bar in bars))
    assert shown[-1] == []


def test_help_needs_neither_torch_nor_tensorrt():
    code = (
        "import sys\nfrom trtdsl.cli.app import app\n"
        "try:\n    app(['--help'])\nexcept SystemExit:\n    pass\n"
        "print([name for name in ('torch', 'numpy', 'tensorrt_rtx') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip().endswith("[]")


def test_explain_einsum(trtdsl):
    arguments = (
        "explain",
        "einsum",
        "nkctv,kvw->nctw",
        "N,3,64,300,18",
        "3,18,18",
        "--constant",
        "1",
        "--dim",
        "N=1:8:16",
    )
    done = trtdsl(*arguments)
    assert "contracted k v; left n c t; right w" in done.stdout
    assert "costs where N = 8" in done.stdout
    plan = json.loads(trtdsl(*arguments, "--json").stdout)
    assert (plan["schema"], plan["kind"]) == (1, "einsum")
    assert plan["steps"][0]["kind"] == "matrix product"
    assert plan["flops"] == 2 * 8 * 64 * 300 * 18 * 54
    assert plan["naive"]["largest"] == 8 * 3 * 64 * 300 * 18 * 18
    ordered = trtdsl(*arguments, "--order", "0=ntvkc").stdout
    assert "n k c t v lies in memory as n t v k c" in ordered and "0 FLOPs, 0 bytes" in ordered
    assert "not an operand's number and its labels" in trtdsl(*arguments, "--order", "ntvkc", code=2).stderr
    assert "does not name each dimension" in trtdsl(*arguments, "--order", "0=ntv", code=2).stderr
    assert trtdsl("explain", "einsum", ",i->i", "", "N").stdout.startswith("(), i -> i")
    assert "label 'j' is 3 in operand 0" in trtdsl("explain", "einsum", "ij,jk", "2,3", "4,5", code=3).stderr
    assert "an identifier" in trtdsl("explain", "einsum", "ij", "2,3x", code=2).stderr
    assert (
        "constants are numbers of operands" in trtdsl("explain", "einsum", "i", "2", "--constant", "3", code=2).stderr
    )


@pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="no processes are forked there")
def test_processes_that_a_reference_forks_answer_signals_by_themselves(tmp_path):
    (tmp_path / "net.py").write_text(
        "import multiprocessing, torch, trtdsl as td\n"
        "def one(_): return 1.0\n"
        "class Reference(torch.nn.Module):\n"
        "    def forward(self, x):\n"
        "        with multiprocessing.get_context('fork').Pool(2) as pool:\n"
        "            return x * pool.map(one, [0])[0]\n"
        "@td.network(inputs={'x': td.Input((2, 3))}, reference=Reference)\n"
        "def net(x): return x * 1.0\n"
    )
    command = [sys.executable, "-m", "trtdsl", "check", "net.py", "--sizes", "quick"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0 and "cancelling" not in done.stderr and "Traceback" not in done.stderr, done.stderr


def test_a_saved_check_holds_in_another_process(tmp_path):
    (tmp_path / "net.py").write_text(
        "import torch, trtdsl as td\n"
        "class Own(torch.nn.ReLU): pass\n"
        "@td.network(inputs={'x': td.Input((2, 3))}, reference=Own)\n"
        "def net(x): return x.relu()\n"
    )
    for more in (["--save", "saved"], ["--against", "saved"]):
        command = [sys.executable, "-m", "trtdsl", "check", "net.py", *more]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=100)
        assert done.returncode == 0, done.stdout + done.stderr
