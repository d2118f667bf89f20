"""Network files: found, loaded, defined, and their mistakes."""

import contextlib
import gc
import os
import subprocess
import sys

import pytest
import torch

import trtdsl as td
import trtdsl.functional as F
from trtdsl.definition.spec.load import load_spec


def write(folder, text):
    path = folder / "net.py"
    path.write_text("import trtdsl as td\nimport trtdsl.functional as F\n" + text)
    return str(path)


def test_a_spec_is_found_by_file_and_name(small):
    assert load_spec(str(small / "small.py")).name == "small"
    assert load_spec(f"{small / 'small.py'}:small").name == "small"
    with pytest.raises(td.UsageError, match="has no network 'other': it has small"):
        load_spec(f"{small / 'small.py'}:other")


def test_missing_and_empty_files(tmp_path):
    with pytest.raises(td.UsageError, match="no network file .*none.py"):
        load_spec(str(tmp_path / "none.py"))
    with pytest.raises(td.UsageError, match="defines no network: mark a function with @td.network"):
        load_spec(write(tmp_path, "x = 1\n"))
    for nothing in (5, None, []):
        with pytest.raises(td.UsageError, match="a network is the name of its file, not"):
            load_spec(nothing)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("small.safetensors", "is weights, not a network: name .* as NETWORK.py --weights .*small.safetensors$"),
        ("gone.safetensors", "is weights, not a network"),
        (
            "model.pt",
            "`trtdsl weights convert .*model.pt MODEL.safetensors`, .* NETWORK.py --weights MODEL.safetensors",
        ),
        ("model.pth", "is a torch checkpoint"),
        ("small.engine", "is an engine: `trtdsl run .*small.engine` and `trtdsl bench .*small.engine` take it"),
        ("small.engine.json", "is not a network"),
        ("model.onnx", "is an ONNX model, which trtdsl does not read"),
        ("notes.txt", "is not a Python file: a network is written in NETWORK.py"),
        ("", "is a folder: name a network's file in it, such as .*reference.py, .*small.py"),
        ("empty", "empty is a folder: name a network's file in it$"),
        ("smal.py", r"no network file .*smal.py \(nearest: small.py\)"),
        ("small:small", r"no network file .*: write .*small.py:small"),
        ("nowhere/small.py", "no network file .*nowhere/small.py$"),
    ],
)
def test_an_object_that_is_not_a_network_is_refused_with_advice(small, name, words):
    (small / "empty").mkdir()
    for file in ("model.pt", "model.pth", "small.engine", "small.engine.json", "model.onnx", "notes.txt"):
        (small / file).write_bytes(b"x")
    with pytest.raises(td.UsageError, match=words):
        load_spec(str(small / name))


def test_several_networks_without_one_of_the_files_name(tmp_path):
    name = write(tmp_path, "a, b = (td.network(inputs={}, name=n)(lambda: 1) for n in 'ab')\n")
    with pytest.raises(td.UsageError, match=r"has several networks: name one, as .*net.py:a \(of a, b\)"):
        load_spec(name)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("y = 1 / 0\n", "net.py:3: ZeroDivisionError: division by zero"),
        ("def f(:\n", "net.py:3: SyntaxError: "),
        ("import no_such_module\n", "net.py:3: ModuleNotFoundError: "),
    ],
)
def test_a_file_that_raises_names_its_line(tmp_path, text, message):
    with pytest.raises(td.DefinitionError, match=message):
        load_spec(write(tmp_path, text))


def test_helpers_beside_the_file_are_importable(tmp_path):
    (tmp_path / "helper_beside.py").write_text("def twice(x):\n    return x * 2\n")
    name = write(
        tmp_path,
        "from helper_beside import twice\n"
        "@td.network(inputs={'x': td.Input((2,))})\ndef net(x):\n    return twice(x)\n",
    )
    net = load_spec(name).define()
    assert td.interpret(net, {"x": torch.tensor([1.0, 2.0])})["output"].tolist() == [2, 4]


def test_a_function_that_raises_names_the_authors_line(tmp_path):
    name = write(tmp_path, "@td.network(inputs={'x': td.Input((2,))})\ndef net(x):\n    y = x\n    return x.no_such\n")
    with pytest.raises(td.DefinitionError, match=r"net.py:6: AttributeError: .*no_such"):
        load_spec(name).define()


def test_signature_and_outputs_are_checked(tmp_path):
    name = write(tmp_path, "@td.network(inputs={'x': td.Input((2,))})\ndef net(x, y):\n    return x\n")
    with pytest.raises(td.DefinitionError, match=r"net.py:3: net\(x, y\) must take its inputs: \(x\); .*weights=…"):
        load_spec(name).define()
    head = "@td.network(inputs={}, weights='w.safetensors')\ndef net(image: td.Tensor, w: td.Scope) -> td.Tensor:\n"
    name = write(tmp_path, f"{head}    return image\n")
    wanted = r"net\(image, w\) must take its inputs and the weights: \(w\); inputs= lacks 'image': td.Input\(SHAPE\)"
    with pytest.raises(td.DefinitionError, match=wanted):
        load_spec(name).define(weights={})
    for returned in ("None", "{}", "3"):
        name = write(tmp_path, f"@td.network(inputs={{'x': td.Input((2,))}})\ndef net(x):\n    return {returned}\n")
        with pytest.raises(td.DefinitionError, match="must return its outputs"):
            load_spec(name).define()
    name = write(tmp_path, "@td.network(inputs={'x': td.Input((2,))})\ndef net(x):\n    return {'y': 3}\n")
    with pytest.raises(td.DefinitionError, match=r"net.py:3: output 'y' must be a td.Tensor, not int"):
        load_spec(name).define()
    name = write(tmp_path, "@td.network(inputs={'x': td.Input(('N',))})\ndef net(x):\n    return {'y': x.shape[0]}\n")
    with pytest.raises(td.DefinitionError, match=r"net.py:3: output 'y' must be a td.Tensor, not a size"):
        load_spec(name).define()


def test_outputs_by_name_in_order_or_alone():
    def spec(function):
        return td.network(inputs={"x": td.Input((2,))})(function)

    assert list(spec(lambda x: F.relu(x)).define().outputs) == ["output"]
    assert list(spec(lambda x: (F.relu(x), x)).define().outputs) == ["output_0", "output_1"]
    assert list(spec(lambda x: {"b": F.relu(x), "a": x}).define().outputs) == ["b", "a"]


def test_dimensions_can_be_given_another_range_or_fixed(small):
    spec = load_spec(str(small / "small.py"))
    assert spec.define().profiles[0].at("max") == {"N": 4}
    assert spec.define(dims={"N": (2, 3, 9)}).profiles[0].at("max") == {"N": 9}
    fixed = spec.define(dims={"N": 2})
    assert fixed.inputs["x"].shape == (2, 3, 5, 5)
    assert fixed.dims == {}
    with pytest.raises(td.UsageError, match="small has no dimension 'M': it has N"):
        spec.define(dims={"M": 1})
    with pytest.raises(td.UsageError, match="needs 0 <= min <= opt <= max, not 4, 1, 16"):
        spec.define(dims={"N": (4, 1, 16)})


def test_sizes_made_of_a_dimension():
    height = td.Dim("H", min=1, opt=2, max=4)
    spec = td.network(inputs={"x": td.Input((1, 8 * height + 1))})(lambda x: x[:, : x.shape[1] - 1])
    net = spec.define()
    assert str(net.outputs["output"].shape) == "(1, 8*H)"
    assert td.interpret(net, {"x": torch.zeros(1, 17)})["output"].shape == (1, 16)
    with pytest.raises(td.FeedError, match=r"8\*H \+ 1, which is not 18"):
        td.interpret(net, {"x": torch.zeros(1, 18)})
    assert spec.define(dims={"H": 3}).inputs["x"].shape == (1, 25)


def test_weights_are_compared_with_the_reference_before_the_function_runs(small):
    spec = load_spec(str(small / "small.py"))
    weights = {name: spec.open_weights().get(name) for name in spec.open_weights().shapes}
    weights["fc.bias"] = torch.ones(7)
    del weights["conv.weight"]
    with pytest.raises(
        td.WeightsError, match=r"2 weights .*\n  conv.weight: missing: .*\n  fc.bias: has shape \(7,\), not"
    ):
        spec.define(weights=weights)


def test_a_missing_reference(small):
    text = (small / "small.py").read_text()
    (small / "small.py").write_text(text.replace("reference.py:Model", "reference.py:Modle"))
    with pytest.raises(td.UsageError, match=r"reference.py has no 'Modle'"):
        load_spec(str(small / "small.py")).define()
    (small / "small.py").write_text(text.replace("reference.py:Model", "nowhere.py:Model"))
    with pytest.raises(td.UsageError, match=r"must be FILE.py:CLASS; no file .*nowhere.py"):
        load_spec(str(small / "small.py")).define()


COMPUTING = """\
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.rates = [rate.item() for rate in torch.linspace(0, 1, 3)]  # as timm's models have them
        self.offset = torch.arange(3.0) * self.rates[1]  # not a buffer, not in the state_dict
        self.register_buffer("scale", torch.full((3,), 2.0), persistent=False)
        self.embedding = nn.Embedding(7, 3)
        self.tied = nn.Linear(3, 7, bias=False)
        self.tied.weight = self.embedding.weight
        nn.init.trunc_normal_(self.embedding.weight, std=0.02)

    def forward(self, x):
        return self.tied(self.embedding(x) * self.scale + self.offset)
"""
COMPUTED = """\
import trtdsl as td
import trtdsl.functional as F


@td.network(inputs={"x": td.Input((2, 5), "int64", sample=(0, 7))}, weights="w.safetensors", reference="ref.py:Model")
def net(x, w):
    x = F.embedding(x, w.embedding.weight) * 2 + F.arange(3.0) * 0.5
    return F.linear(x, w.tied.weight)
"""


def test_a_reference_that_computes_while_it_is_built(tmp_path):
    from safetensors.torch import save_file

    (tmp_path / "ref.py").write_text(COMPUTING)
    (tmp_path / "net.py").write_text(COMPUTED)
    weight = torch.randn(7, 3)
    save_file({"embedding.weight": weight, "tied.weight": weight.clone()}, tmp_path / "w.safetensors")
    assert td.check(load_spec(str(tmp_path / "net.py"))).passed


def test_weights_of_a_reference_are_known_without_the_second_that_torchs_compiler_takes_to_import(tmp_path):
    (tmp_path / "ref.py").write_text(COMPUTING)
    (tmp_path / "net.py").write_text(COMPUTED)
    code = "import sys, trtdsl as td; print(td.load_spec('net.py').expected_weights(), 'torch._dynamo' in sys.modules)"
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    ran = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True, env=env
    )
    assert ran.stdout.strip() == "{'embedding.weight': ((7, 3), 'float32'), 'tied.weight': ((7, 3), 'float32')} False"


def test_weights_left_aside_and_tensors_that_are_not_stored():
    """``unused`` names modules and weights; with ``buffers`` the scope has what the module makes for itself."""

    class Module(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.head, self.scale = torch.nn.Linear(2, 2), torch.nn.Parameter(torch.ones(2))
            self.register_buffer("steps", torch.arange(3.0), persistent=False)
            self.half = torch.tensor(0.5)

        def forward(self, y, x):
            return x * self.steps * self.half - y

    def network(x, y, w):
        return x * w.steps * w.half - y

    inputs = {"x": td.Input(("N", 3)), "y": td.Input(("N", 3))}
    options = {"inputs": inputs, "weights": "none.safetensors", "reference": Module}
    state = Module().state_dict()
    with pytest.raises(td.WeightsError, match="no weight 'steps'"):
        td.network(**options)(network).define(weights=state)
    with pytest.raises(td.WeightsError, match="3 weights in the weights given do not fit"):
        td.network(**options, buffers=True)(network).define(weights=state)
    with pytest.raises(td.WeightsError, match="scale: unused"):
        td.network(**options, buffers=True, unused=["head", "scal"])(network).define(weights=state)
    spec = td.network(**options, buffers=True, unused=["head", "scale"])(network)
    report = td.check(spec, weights=state, dims={"N": (1, 2, 3)})  # forward is given y first: inputs go by name
    assert report.passed


def test_a_reference_whose_state_dict_fails_is_named_with_its_line(small):
    reference = small / "reference.py"
    reference.write_text(reference.read_text() + "\n    def state_dict(self, *given, **more):\n        return 1 / 0\n")
    with pytest.raises(td.DefinitionError, match=r"reference.py:16: the reference cannot be made: ZeroDivisionError"):
        load_spec(str(small / "small.py")).define()


def test_a_reference_that_does_not_take_the_weights(small):
    """A network that was defined with other weights than the check is given."""
    spec = load_spec(str(small / "small.py"))
    network = spec.define()
    with pytest.raises(
        td.DefinitionError, match=r"(?s)small.py:7: the reference cannot be made: .*Missing key.*fc.bias"
    ):
        td.check(spec, network=network, weights={"conv.bias": torch.zeros(4)})


@pytest.mark.parametrize(
    ("counters", "steps"),
    [
        ({"bn.num_batches_tracked": torch.tensor(3)}, 3),
        ({"bn.num_batches_tracked": torch.tensor([3, 4])}, 0),
        ({"other.num_batches_tracked": torch.tensor(3)}, 0),
        ({}, 0),
    ],
)
def test_step_counters_of_the_file_need_not_be_the_references(small, counters, steps):
    spec = load_spec(str(small / "small.py"))
    opened = spec.open_weights()
    weights = {name: opened.get(name) for name in opened.shapes if name != "bn.num_batches_tracked"} | counters
    assert td.check(spec, weights=weights, dims={"N": 2}).passed
    assert torch.equal(spec.reference_module(td.Weights(weights)).bn.num_batches_tracked, torch.tensor(steps))


def test_a_class_is_no_network():
    with pytest.raises(td.UsageError, match="makes a network of a function, not of <class"):

        @td.network(inputs={"x": td.Input((2,))})
        class Net:
            pass


def test_a_network_without_parentheses_is_told_to_give_its_inputs():
    with pytest.raises(td.UsageError, match=r"write @td.network\(inputs="):

        @td.network
        def net(x):
            return x


def test_a_keyword_that_is_none_of_the_decorators_names_the_nearest():
    with pytest.raises(td.UsageError, match=r"@td.network has no 'input' \(nearest: inputs\)"):

        @td.network(input={"x": td.Input((2,))})  # type: ignore[call-arg]
        def net(x):
            return x


def test_a_missing_engine_is_said_to_be_missing(tmp_path):
    with pytest.raises(td.UsageError, match=r"there is no file .*nothing\.engine"):
        td.load_spec(str(tmp_path / "nothing.engine"))


def test_a_spec_is_one_line():
    spec = td.from_module(torch.nn.Linear(3, 1000), {"input": "N,3"}, dims={"N": (1, 2, 4)})
    assert repr(spec) == "NetworkSpec(linear: input: (N, 3) float32)"


@pytest.mark.parametrize("name", [5, b"net", ["net"]])
def test_a_name_is_text(name):
    with pytest.raises(td.UsageError, match="the network's name must be text, not"):
        td.network(inputs={"x": td.Input((2,))}, name=name)(lambda x: x)


def test_a_reference_whose_package_is_broken_is_needed_by_a_check_alone():
    def reference():
        raise ImportError("no such library")

    @td.network(inputs={"x": td.Input((2, 3))}, weights={"w": torch.ones(3)}, reference=reference)
    def scaled(x, w):
        return x * w.w

    assert scaled.define().outputs["output"].shape == (2, 3)
    with pytest.raises(td.DefinitionError, match="the reference cannot be made: ImportError: no such library"):
        td.check(scaled)


def test_code_that_is_in_no_file_may_be_called_as_no_file_can_be():
    """`trtdsl port` calls what it writes after the network, whose name no file system takes with a suffix."""
    code = 'import trtdsl as td\n@td.network(inputs={"x": td.Input((2,), sample="a.npy")})\ndef net(x):\n    return x\n'
    names = {}
    exec(compile(code, "x" * 300, "exec"), names)
    assert names["net"].file is None and names["net"].inputs["x"].sample == "a.npy"


@pytest.mark.parametrize("collects", [True, False])
@pytest.mark.parametrize("fails", [True, False])
def test_nothing_is_collected_while_a_network_is_defined(collects, fails):
    """And what was so before is so again, whatever becomes of the definition."""
    seen = []

    @td.network(inputs={"x": td.Input((2,))})
    def network(x):
        seen.append(gc.isenabled())
        return F.relu(x).nothing if fails else F.relu(x)

    before = gc.isenabled()
    (gc.enable if collects else gc.disable)()
    try:
        with pytest.raises(td.DefinitionError) if fails else contextlib.nullcontext():
            network.define()
        assert gc.isenabled() == collects
    finally:
        (gc.enable if before else gc.disable)()
    assert seen == [False]
