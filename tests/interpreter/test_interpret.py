"""The interpreter's loop: feeds, intermediates, memory, order, errors, networks that trtdsl did not write."""

import subprocess
import sys
import weakref

import numpy as np
import pytest
import torch

import trtdsl as td
import trtdsl.functional as F
import trtdsl.layers as L
from trtdsl.core.backend import get_backend
from trtdsl.core.errors import DefinitionError, FeedError, UnsupportedError
from trtdsl.core.tensors.exact import Exact
from trtdsl.interpreter.interpret import topological_order
from trtdsl.layers.evaluation import KINDS, Node

BACKEND = get_backend("tensorrt-rtx")
trt = BACKEND.trt


def small():
    """relu(x @ w) over a dynamic batch."""
    net = td.Network()
    x = net.input("x", ("N", 3))
    y = F.matmul(x, net.input("w", (3, 2)))
    net.output(F.relu(y), "y")
    return net


FEEDS = {
    "x": torch.tensor([[1.0, 2.0, 3.0], [-1.0, 0.0, 1.0]]),
    "w": torch.tensor([[1.0, 0.0], [0.0, 1.0], [-1.0, 1.0]]),
}

# -- feeds -------------------------------------------------------------------------------------------------------------


def test_numpy_and_torch_feeds_give_torch_outputs():
    expected = torch.tensor([[0.0, 5.0], [0.0, 1.0]])
    assert torch.equal(td.interpret(small(), FEEDS)["y"], expected)
    assert torch.equal(td.interpret(small(), {name: value.numpy() for name, value in FEEDS.items()})["y"], expected)


def test_a_spec_and_its_file_are_defined(tmp_path):
    file = tmp_path / "double.py"
    file.write_text(
        "import trtdsl as td\n\n\n"
        '@td.network(inputs={"x": td.Input(("N", 3))})\n'
        "def double(x: td.Tensor):\n    return {'y': x * 2}\n"
    )
    for source in (file, str(file), td.load_spec(str(file))):
        assert torch.equal(td.interpret(source, {"x": torch.ones(4, 3)})["y"], torch.full((4, 3), 2.0))
        assert td.obstacles(source, gpu=False) == []
    with pytest.raises(
        td.UsageError, match="a network is a spec, a td.Network, a file or an INetworkDefinition, not 3"
    ):
        td.interpret(3, {})


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"x": torch.zeros(2, 3, dtype=torch.float64)}, "'x' is float64, not float32"),
        ({"x": torch.zeros(2, 3, dtype=torch.int32)}, "'x' is int32, not float32"),
        ({"x": torch.zeros(2, 3, 1)}, r"'x' has shape \(2, 3, 1\)"),
        ({"x": torch.zeros(2, 4)}, r"'x' has shape \(2, 4\)"),
        ({"x": None}, "'x' is missing"),
        ({"z": torch.zeros(1)}, "there is no input 'z'"),
        ({"x": "text"}, "'x'"),
    ],
)
def test_feeds_that_do_not_fit_are_refused_with_the_signature(change, said):
    feeds = {name: value for name, value in {**FEEDS, **change}.items() if value is not None}
    with pytest.raises(FeedError, match=said) as caught:
        td.interpret(small(), feeds)
    assert "Expected x: float32 (N, 3), w: float32 (3, 2)" in str(caught.value)


def test_one_dimension_has_one_size():
    net = td.Network()
    net.output(F.add(net.input("a", ("N", 2)), net.input("b", ("N", 2))), "y")
    with pytest.raises(FeedError, match="dimension 0 of 'b' is N, which is not 3 where N = 2"):
        td.interpret(net, {"a": torch.zeros(2, 2), "b": torch.zeros(3, 2)})


def test_sizes_come_out_of_the_feeds():
    net = td.Network()
    x = net.input("x", ("N", "T", 2))
    n, t, c = x.shape
    net.output(x.reshape(t, n * c), "y")
    for shape in ((2, 3, 2), (1, 5, 2), (4, 0, 2)):
        value = torch.randn(shape)
        assert torch.equal(
            td.interpret(net, {"x": value})["y"], value.reshape(shape[1], -1) if shape[1] else value.reshape(0, 8)
        )


# -- intermediates -----------------------------------------------------------------------------------------------------


def test_keep_gives_names_or_all_and_refuses_unknown_ones():
    net = small()
    interpreter = td.Interpreter(net)
    everything = interpreter(FEEDS, keep="all")
    (between,) = set(everything) - {"x", "w", "y"}
    assert torch.equal(everything[between], FEEDS["x"] @ FEEDS["w"])
    assert set(interpreter(FEEDS, keep=[between])) == {between, "y"}
    assert set(interpreter(FEEDS)) == {"y"}
    with pytest.raises(FeedError, match="no tensor and no layer 'nothing'$"):
        interpreter(FEEDS, keep=["nothing"])


def test_keep_knows_an_output_by_its_layer_too():
    net = td.Network()
    x = net.input("x", (2, 3))
    net.output(F.softplus(F.relu(x)), "y")
    values, indices = L.topk(x, 2, 1)
    net.output(values, "best")
    net.output(indices, "at")
    feeds = {"x": torch.tensor([[1.0, -2.0, 3.0], [0.5, 4.0, -1.0]])}
    assert net.definition.num_outputs == 3
    last = next(name for name in reversed(net.layers) if name.startswith("softplus"))
    got = td.interpret(net, feeds, keep=[last, "y", "topk", "relu"])
    assert list(got) == ["y", "best", "at", last, "topk", "relu"]
    assert torch.equal(got[last], got["y"])
    assert torch.equal(got["topk"], got["best"])  # the first of a layer's outputs
    assert torch.equal(got["relu"], feeds["x"].relu())
    with pytest.raises(FeedError, match=r"no tensor and no layer 'topkk' \(nearest: topk\)"):
        td.interpret(net, feeds, keep=["topkk"])
    assert set(td.interpret(net, feeds, keep="relu")) == {"y", "best", "at", "relu"}


def test_observe_sees_each_tensor_when_it_is_made():
    seen = []
    td.interpret(small(), FEEDS, observe=lambda name, tensor: seen.append((name, tuple(tensor.shape))))
    assert [shape for _, shape in seen] == [(2, 2), (2, 2)]
    assert seen[-1][0] == "y"


def test_tensors_are_freed_after_their_last_use():
    net = td.Network()
    x = net.input("x", (1000,))
    y = x
    for _ in range(20):
        y = F.exp(F.neg(y))
    net.output(y, "y")
    alive, most = [], 0

    def observe(name, tensor):
        nonlocal alive, most
        alive = [reference for reference in alive if reference() is not None]
        most = max(most, len(alive))
        alive.append(weakref.ref(tensor))

    td.interpret(net, {"x": torch.zeros(1000)}, observe=observe)
    assert most <= 1  # the operand of the layer that was just evaluated
    alive, most = [], 0
    td.interpret(net, {"x": torch.zeros(1000)}, keep="all", observe=observe)
    assert most == 39


MEMORY = """
import pathlib, torch, trtdsl as td, trtdsl.functional as F

def status(field):
    lines = pathlib.Path("/proc/self/status").read_text().split("\\n")
    return next(int(line.split()[1]) for line in lines if line.startswith(field))

net = td.Network()
x = net.input("x", (4, 4, 1024, 1024))
one = net.constant(torch.ones(4, 1, 1))
y = x
for index in range(6):
    y = F.relu(y + x * 0.5)
    y = F.max_pool2d(y, 3, stride=1, padding=1) if index == 2 else F.gelu(y)
    y = F.layer_norm(y, (1024,))
    y = F.softmax(y, 3)
net.output(y, "y")
interpreter = td.Interpreter(net)
interpreter.network.target.buffers.clear()
feeds = {"x": torch.randn(4, 4, 1024, 1024)}
pathlib.Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew; a child inherits its parent's otherwise
before = status("VmRSS")
interpreter(feeds)
print((status("VmHWM") - before) / 1024)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the peak is read from /proc")
def test_peak_memory_is_near_the_live_set():
    # Beside x, already there, at most two other tensors of 64 MiB live at once: a sum's operands and its result.
    done = subprocess.run([sys.executable, "-c", MEMORY], capture_output=True, text=True, check=True, env=environment())
    peak = float(done.stdout)
    assert 64 < peak < 1.3 * (64 + 3 * 64) - 64, f"{peak} MiB"


def environment():
    import os

    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "OMP_NUM_THREADS": "1"}


# -- networks of others ------------------------------------------------------------------------------------------------


def test_outputs_outlive_the_network():
    net = BACKEND.create_network()
    values = np.arange(1000, dtype=np.float32)
    with BACKEND.listen():
        reshaped = net.add_shuffle(net.add_constant((1000,), values).get_output(0))
        reshaped.reshape_dims = (10, 100)
        reshaped.get_output(0).name = "y"
        net.mark_output(reshaped.get_output(0))
    got = td.interpret(net, {})["y"]
    del net, values, reshaped
    junk = [np.full(1000, 7, dtype=np.float32) for _ in range(50)]
    assert torch.equal(got.flatten(), torch.arange(1000.0))
    del junk


def test_layers_stand_in_any_order():
    net = BACKEND.create_network()
    with BACKEND.listen():
        x = net.add_input("x", trt.float32, (2,))
        late = net.add_elementwise(x, x, trt.ElementWiseOperation.SUM)
        first = net.add_unary(x, trt.UnaryOperation.NEG)
        late.set_input(0, first.get_output(0))  # needs what was added after it
        late.get_output(0).name = "y"
        net.mark_output(late.get_output(0))
    assert td.interpret(net, {"x": torch.tensor([1.0, 2.0])})["y"].tolist() == [0.0, 0.0]
    nodes = [Node(BACKEND, net.get_layer(index)) for index in range(2)]
    assert [node.type for node in topological_order(nodes)] == ["UNARY", "ELEMENTWISE"]


def test_a_cycle_of_layers_is_an_error():
    net = BACKEND.create_network()
    with BACKEND.listen():
        x = net.add_input("x", trt.float32, (2,))
        a = net.add_elementwise(x, x, trt.ElementWiseOperation.SUM)
        b = net.add_elementwise(x, a.get_output(0), trt.ElementWiseOperation.SUM)
        a.set_input(1, b.get_output(0))
    with pytest.raises(DefinitionError, match="needs its own result"):
        td.Interpreter(net)


# -- errors ------------------------------------------------------------------------------------------------------------


def test_an_unknown_layer_type_names_layer_type_and_line(monkeypatch):
    net = small()
    monkeypatch.delitem(KINDS, "ACTIVATION")
    with pytest.raises(UnsupportedError, match=r"test_interpret.py:\d+: layer 'relu' has type ACTIVATION, which"):
        td.interpret(net, FEEDS)


def test_an_unknown_attribute_value_names_layer_type_and_line(monkeypatch):
    from importlib import import_module

    net = small()
    monkeypatch.delitem(import_module("trtdsl.layers.pointwise")._ACTIVATIONS, "RELU")
    with pytest.raises(UnsupportedError, match=r"test_interpret.py:\d+: layer 'relu' \(ACTIVATION\): activation RELU"):
        td.interpret(net, FEEDS)


def test_a_layer_that_does_not_fit_names_itself_its_operands_and_the_line():
    net = td.Network()
    a, b = net.input("a", ("N", 2)), net.input("b", ("M", 2))
    net.output(F.add(a, b), "y")
    said = r"test_interpret.py:\d+: layer 'add' \(ELEMENTWISE\) does not fit operands of shapes \(3, 2\), \(2, 2\)"
    with pytest.raises(DefinitionError, match=said):
        td.interpret(net, {"a": torch.zeros(3, 2), "b": torch.zeros(2, 2)})


# -- loops and conditionals --------------------------------------------------------------------------------------------


def chooser():
    """log(x) where the condition holds, else sqrt(x), each with an assertion-like reshape that can fail."""
    net = td.Network()
    x = net.input("x", ("N",))
    branch = L.Conditional(net.input("c", (), "bool"))
    inside = branch.input(x)
    then = L.unary(inside, "LOG")
    otherwise = L.unary(L.unary(inside, "ABS"), "SQRT")
    net.output(branch.output(then, otherwise), "y")
    assert net.definition.num_outputs == 1
    return net, then.name, otherwise.name


def test_only_the_chosen_branch_is_evaluated():
    net, then, otherwise = chooser()
    for condition, taken, left in ((True, then, otherwise), (False, otherwise, then)):
        seen = []
        feeds = {"x": torch.tensor([4.0, 9.0]), "c": torch.tensor(condition)}
        td.interpret(net, feeds, observe=lambda name, tensor, seen=seen: seen.append(name))
        assert taken in seen
        assert left not in seen
        assert taken in td.interpret(net, feeds, keep="all")
        assert left not in td.interpret(net, feeds, keep="all")
        with pytest.raises(FeedError, match="stands in a branch that did not run"):
            td.interpret(net, feeds, keep=[left])


def test_an_error_in_a_branch_is_raised_only_where_it_runs():
    net = td.Network()
    x = net.input("x", ("N",))
    branch = L.Conditional(net.input("c", (), "bool"))
    inside = branch.input(x)
    picked = L.slice(inside, (5,), (1,))
    net.output(branch.output(picked, L.slice(inside, (0,), (1,))), "y")
    feeds = {"x": torch.tensor([1.0, 2.0]), "c": torch.tensor(False)}
    assert td.interpret(net, feeds)["y"].tolist() == [1.0]
    with pytest.raises(DefinitionError, match="leaves the dimension of size 2"):
        td.interpret(net, {**feeds, "c": torch.tensor(True)})


def scan(net, x):
    """Running products of the rows, by a loop over a dynamic dimension."""
    loop = L.Loop(net)
    loop.count(x.shape[0])
    row = loop.iterator(x)
    product = loop.recurrence(net.constant(torch.ones(2)))
    after = L.elementwise(product, row, "PROD")
    loop.next(product, after)
    return loop.last_value(product), loop.concatenate(after, x.shape[0])


def test_loops_over_dynamic_dimensions():
    net = td.Network()
    x = net.input("x", ("T", 2))
    last, every = scan(net, x)
    assert every.shape == x.shape
    net.output(last, "last")
    net.output(every, "every")
    for length in (1, 4):
        value = torch.randn(length, 2)
        got = td.interpret(net, {"x": value})
        assert torch.allclose(got["every"], torch.cumprod(value, 0))
        assert torch.allclose(got["last"], value.prod(0))
    none = td.interpret(net, {"x": torch.zeros(0, 2)})
    assert none["every"].shape == (0, 2)
    assert none["last"].tolist() == [1.0, 1.0]


def test_a_body_runs_once_an_iteration_and_its_values_end_with_it():
    net = td.Network()
    x = net.input("x", ("T", 2))
    _, every = scan(net, x)
    net.output(every, "every")
    seen = []
    td.interpret(net, {"x": torch.ones(5, 2)}, observe=lambda name, tensor: seen.append(name))
    counts = {name: seen.count(name) for name in seen}
    assert sorted(counts.values())[-3:] == [5, 5, 6]  # the row, the product; the recurrence also before the first


def test_loops_end_with_what_is_not_iterable():
    net = td.Network()
    loop = L.Loop(net)
    x = net.input("x", ("T", 2))
    loop.count(net.input("n", (), "int32"))
    value = loop.concatenate(L.identity(loop.iterator(x)), x.shape[0])
    net.output(value, "y")
    feeds = {"x": torch.ones(3, 2), "n": torch.tensor(5, dtype=torch.int32)}
    with pytest.raises(DefinitionError, match="iteration 3 leaves an iterator's dimension of size 3"):
        td.interpret(net, feeds)
    early = td.interpret(net, {**feeds, "n": torch.tensor(2, dtype=torch.int32)})["y"]
    assert early.tolist() == [[1.0, 1.0], [1.0, 1.0], [0.0, 0.0]]  # the rest is 0


def test_loops_inside_loops_inside_branches():
    """The sum over i < n of the sum over j < i of x, in a branch; n * (n - 1) / 2 * x."""
    net = td.Network()
    x, n = net.input("x", (2,)), net.input("n", (), "int32")
    branch = L.Conditional(net.input("c", (), "bool"))
    inside = branch.input(x)
    zero, one = net.constant(torch.zeros(2)), net.constant(torch.tensor(1, dtype=torch.int32))
    outer = L.Loop(net)
    outer.count(n)
    index = outer.recurrence(net.constant(torch.tensor(0, dtype=torch.int32)))
    outer.next(index, L.elementwise(index, one, "SUM"))
    inner = L.Loop(net)
    inner.count(index)
    part = inner.recurrence(zero)
    inner.next(part, L.elementwise(part, inside, "SUM"))
    total = outer.recurrence(zero)
    outer.next(total, L.elementwise(total, inner.last_value(part), "SUM"))
    net.output(branch.output(outer.last_value(total), L.unary(inside, "NEG")), "y")
    feeds = {"x": torch.tensor([1.0, 2.0]), "n": torch.tensor(5, dtype=torch.int32), "c": torch.tensor(True)}
    assert td.interpret(net, feeds)["y"].tolist() == [10.0, 20.0]
    seen = []
    got = td.interpret(net, {**feeds, "c": torch.tensor(False)}, observe=lambda name, tensor: seen.append(name))
    assert got["y"].tolist() == [-1.0, -2.0]
    assert not any("recurrence" in name for name in seen)


def test_wrong_parts_of_a_loop_are_refused():
    net = td.Network()
    loop = L.Loop(net)
    x = net.input("x", (3, 2))
    value = loop.recurrence(net.constant(torch.zeros(2)))
    with pytest.raises(DefinitionError, match="not a recurrence of the loop"):
        loop.next(x, x)
    loop.count(3)
    with pytest.raises(DefinitionError, match="a trip limit of the kind COUNT already"):
        loop.count(4)
    net.output(loop.last_value(value), "y")
    with pytest.raises(DefinitionError, match="has no next value"):
        td.interpret(net, {"x": torch.zeros(3, 2)})


def test_layers_off_the_tensors_of_a_network_are_built():
    """Loops and conditionals that the interpreter runs are ones that TensorRT builds."""
    net = td.Network()
    x = net.input("x", (4, 2))
    last, every = scan(net, x)
    branch = L.Conditional(net.input("c", (), "bool"))
    inside = branch.input(last)
    net.output(branch.output(L.unary(inside, "NEG"), L.identity(inside)), "y")
    net.output(every, "every")
    with BACKEND.listen() as messages:
        config = BACKEND.builder.create_builder_config()
        engine = BACKEND.builder.build_serialized_network(net.definition, config)
    assert engine is not None, messages.summary()


def test_a_quantized_weight_is_dequantized_once_and_exact_values_are_computed_anew():
    net = td.Network()
    codes = net.constant(torch.tensor([[1, -2], [3, 4]], dtype=torch.int8))
    weight = L.dequantize(codes, net.constant(0.5))
    net.output(net.input("x", (2, 2)) @ weight, "y")
    net.output(weight, "weight")
    interpreter, feeds = td.Interpreter(net), {"x": torch.eye(2)}
    want = torch.tensor([[0.5, -1.0], [1.5, 2.0]])
    for _ in range(2):
        got = interpreter(feeds)
        assert torch.equal(got["y"], want) and torch.equal(got["weight"], want)
        got["weight"].zero_()  # is the caller's own
    (step,) = (each for each in interpreter.steps if each.node.type == "DEQUANTIZE")
    operands = torch.tensor([[1, -2], [3, 4]], dtype=torch.int8), torch.tensor(0.5)
    assert step.run(*operands) is step.run(*operands)
    with Exact():
        assert step.run(*operands) is not step.run(*operands)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_weights_are_converted_to_float32_once_and_exact_values_are_computed_anew(dtype):
    net = td.Network()
    x = net.input("x", (1, 2, 1, 1), dtype)
    kernel, weight = (net.constant(torch.tensor([[1.0, -2.0], [3.0, 4.0]]), dtype) for _ in range(2))
    y = F.conv2d(x, kernel.reshape(2, 2, 1, 1))
    net.output(y.reshape(1, 2) @ weight, "y")
    interpreter, converted = td.Interpreter(net), []

    class Converted(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, function, types, args=(), kwargs=None):
            if function is torch.Tensor.float and args[0].dtype == dtype:
                converted.append(tuple(args[0].shape))
            return function(*args, **(kwargs or {}))

    def run(value):
        converted.clear()
        with Converted():
            (got,) = interpreter({"x": torch.tensor([1.0, value], dtype=dtype).reshape(1, 2, 1, 1)}).values()
        return got.tolist()

    weights = {(2, 2, 1, 1), (2, 2)}
    assert run(1.0) == [[-1 + 3 * 7, 2 + 4 * 7]] and weights <= {*converted}
    assert run(0.0) == [[1 + 3 * 3, -2 + 4 * 3]]
    assert run(-1.0) == [[3 + 3 * -1, -6 + 4 * -1]] and weights.isdisjoint(converted)
    with Exact():
        assert run(1.0) == [[-1 + 3 * 7, 2 + 4 * 7]] and weights <= {*converted}
