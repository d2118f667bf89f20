"""Networks: names, places, constants, eager errors."""

import inspect

import numpy as np
import pytest
import torch
from support import layer_types

import trtdsl as td
import trtdsl.functional as F
import trtdsl.layers as L
from trtdsl.definition.tensor import modules_of
from trtdsl.engine.compiling.compiler import compile_engine


def names(net):
    return [net.definition.get_layer(index).name for index in range(net.definition.num_layers)]


def test_dynamic_inputs_have_sizes_and_tensorrt_knows_their_names():
    net = td.Network()
    x = net.input("x", (2, "T", 3))
    assert x.shape == (2, td.Dim("T"), 3)
    assert tuple(x.trt.shape) == (2, -1, 3)
    assert x.trt.get_dimension_name(1) == "T"
    assert repr(x) == "Tensor(x: (2, T, 3) float32)"


def test_one_name_with_two_ranges_is_refused():
    net = td.Network()
    net.input("x", (td.Dim("N", min=1, opt=2, max=3),))
    with pytest.raises(td.UsageError, match="two dimensions are named N"):
        net.input("y", (td.Dim("N", min=1, opt=2, max=9),))
    net.input("z", ("N",))  # the name alone is the same dimension
    assert net.profiles[0].at("max") == {"N": 3}


def test_layers_are_named_after_the_weights_they_use_and_the_scope_they_stand_in():
    net = td.Network()
    weight = net.constant(torch.randn(4, 3, 1, 1), source="blocks.0.gcn.conv.weight")
    norm = [net.constant(torch.rand(4), source=f"blocks.0.tcn.3.{name}") for name in ("mean", "var", "weight", "bias")]
    x = F.relu(F.conv2d(net.input("x", (1, 3, 5, 5)), weight))  # between them, so that the norm is not folded
    y = F.batch_norm(x, *norm)
    z = F.relu(y)
    with net.scope("head"):
        F.relu(F.relu(z))
    assert names(net) == [
        "blocks.0.gcn.conv2d",
        "blocks.0.gcn.relu",
        "blocks.0.tcn.3.batch_norm",
        "blocks.0.tcn.relu",
        "head.relu",
        "head.relu_1",
    ]
    assert {name: modules_of(facts.weights) for name, facts in net.layers.items() if facts.weights} == {
        "blocks.0.gcn.conv2d": {"blocks.0.gcn.conv"},
        "blocks.0.tcn.3.batch_norm": {"blocks.0.tcn.3"},
    }


@pytest.mark.parametrize(
    ("module", "expected"),
    [("block.conv", "block.conv2d"), ("block.c", "block.c.conv2d"), ("block.conv1", "block.conv1.conv2d")],
)
def test_a_module_that_is_called_like_the_operation_is_not_named_twice(module, expected):
    net = td.Network()
    weight = net.constant(torch.randn(4, 3, 1, 1), source=f"{module}.weight")
    net.output(F.conv2d(net.input("x", (1, 3, 5, 5)), weight), "y")
    assert names(net) == [expected]


def test_outputs_may_have_the_names_of_operations():
    net = td.Network(precision="fp16")
    x = net.input("x", (td.Dim("N", min=1, opt=2, max=3), 3))
    probabilities = F.softmax(x, 1)
    net.output(F.relu(probabilities - 0.4), "softmax")
    net.output(probabilities, "relu")
    net.output(F.linear(x, torch.eye(3)), "output")  # in half precision a cast goes before it
    net.output(x.mean(0), "mean")
    net.output(F.linear(x, torch.ones(1, 3)), "linear")
    feed = torch.randn(2, 3)
    got = td.interpret(net, {"x": feed})
    assert list(got) == list(net.outputs) == ["softmax", "relu", "output", "mean", "linear"]
    torch.testing.assert_close(got["softmax"], torch.relu(feed.softmax(1) - 0.4))
    torch.testing.assert_close(got["relu"], feed.softmax(1))
    torch.testing.assert_close(got["mean"], feed.mean(0))
    assert net.outputs["softmax"].shape == net.outputs["relu"].shape
    assert len(compile_engine(net).data) > 0


def test_shape_tensors_are_shared():
    net = td.Network()
    x = net.input("x", (3, "N", 4))
    parts = [part.expand(2, -1, -1) for part in x.split(1)]
    assert [str(part.shape) for part in parts] == ["(2, N, 4)"] * 3
    types = layer_types(net)
    assert types.count("SHAPE") == 1
    assert types.count("CONCATENATION") == 2  # the shape of a part, and that of one expanded


def test_every_layer_remembers_the_authors_line():
    net = td.Network()
    x = net.input("x", (2, 3))
    line = inspect.currentframe().f_lineno + 1
    F.softplus(x)
    assert layer_types(net) == ["ACTIVATION", "CONSTANT", "ELEMENTWISE", "SELECT"]
    for name in names(net):
        assert (net.layers[name].location.file, net.layers[name].location.line) == (__file__, line)
    assert net.definition.get_layer(0).metadata == f"definition/test_network.py:{line} softplus"


def test_a_layers_metadata_says_its_scope():
    net = td.Network()
    x = net.input("x", (2, 3))
    with net.scope("encoder"):
        line = inspect.currentframe().f_lineno + 1
        F.relu(x)
    assert net.definition.get_layer(0).metadata == f"definition/test_network.py:{line} relu in encoder"


def test_a_refused_layer_raises_tensorrts_message_with_the_authors_line():
    net = td.Network()
    a, b = net.input("a", (2, 3), "int32"), net.input("b", (3, 4), "int32")
    line = inspect.currentframe().f_lineno + 1
    L.matrix_multiply(a, b)
    with pytest.raises(td.DefinitionError) as caught:
        net.definition
    text = str(caught.value)
    assert text.startswith(f"{__file__}:{line}: TensorRT refuses the layer: ")
    assert "in matrix_multiply(…)\n  a: (2, 3) int32\n  b: (3, 4) int32" in text
    assert "cudaError" not in text


def test_mismatched_shapes_name_the_dimension():
    net = td.Network()
    with pytest.raises(td.ShapeError, match=r"the sizes of dimension 1 do not match: 3 and 4"):
        net.input("a", (2, 3)) + net.input("b", (2, 4))


def test_work_on_constants_alone_makes_no_layer():
    net = td.Network()
    a = net.constant(torch.arange(6.0).reshape(2, 3))
    b = F.softmax(a * 2 + 1, dim=1)
    assert b.is_constant
    assert net.definition.num_layers == 0
    torch.testing.assert_close(b.data, torch.softmax(torch.arange(6.0).reshape(2, 3) * 2 + 1, 1))


def test_a_constant_that_would_bloat_the_engine_is_a_layer():
    net = td.Network()
    row = net.constant(torch.randn(1, 1024))
    column = net.constant(torch.randn(1024, 1))
    assert not (row * column).is_constant
    assert layer_types(net) == ["CONSTANT", "CONSTANT", "ELEMENTWISE"]


def test_small_constants_are_shared_and_signed_zeros_are_not():
    net = td.Network()
    x = net.input("x", (2, 3))
    y = (x + 1.0) * (x * 1.0)
    net.output(y, "y")
    assert layer_types(net).count("CONSTANT") == 1
    z = F.mul(x, 0.0) + F.mul(x, -0.0)
    net.output(z, "z")
    assert layer_types(net).count("CONSTANT") == 3


def test_inputs_constants_and_one_tensor_twice_can_be_outputs():
    net = td.Network()
    x = net.input("x", (2,))
    y = F.relu(x)
    for name, tensor in {"same": x, "fixed": net.constant([1.0, 2.0]), "y": y, "again": y}.items():
        net.output(tensor, name)
    got = td.interpret(net, {"x": torch.tensor([-1.0, 3.0])})
    assert {name: value.tolist() for name, value in got.items()} == {
        "same": [-1, 3], "fixed": [1, 2], "y": [0, 3], "again": [0, 3],
    }  # fmt: skip


def test_names_of_outputs_are_unique():
    net = td.Network()
    x = net.input("x", (2,))
    net.output(F.relu(x), "y")
    with pytest.raises(td.UsageError, match="the output 'x' has the name of an input"):
        net.output(F.exp(x), "x")
    with pytest.raises(td.UsageError, match="there are two outputs 'y'"):
        net.output(F.exp(x), "y")
    with pytest.raises(td.UsageError, match="tensor of another network"):
        net.output(td.Network().input("z", (2,)), "z")


def test_bad_inputs():
    net = td.Network()
    with pytest.raises(td.DefinitionError, match="at most 8"):
        net.input("x", (1,) * 9)
    with pytest.raises(td.UsageError, match="must not be negative"):
        net.input("x", (-1, 3))
    with pytest.raises(td.UsageError, match="unknown dtype 'float'?"):
        net.input("x", (1,), "floaty")
    with pytest.raises(td.UnsupportedError, match="no data type for torch.float64"):
        net.input("x", (1,), "float64")
    net.input("x", (1,))
    with pytest.raises(td.UsageError, match="has an input 'x' already"):
        net.input("x", (1,))


def test_arrays_and_torch_tensors_on_either_side():
    net = td.Network()
    x = net.input("x", (2, 3))
    array, tensor = np.full((2, 3), 2.0, dtype=np.float32), torch.full((2, 3), 3.0)
    outputs = {"a": array + x, "b": tensor + x, "c": x * array, "d": tensor * x, "e": tensor - x, "f": array / x}
    for name, value in outputs.items():
        net.output(value, name)
    got = td.interpret(net, {"x": torch.full((2, 3), 4.0)})
    assert {name: value[0, 0].item() for name, value in got.items()} == {
        "a": 6,
        "b": 7,
        "c": 8,
        "d": 12,
        "e": -1,
        "f": 0.5,
    }
    with pytest.raises(
        td.DefinitionError, match="torch's own svd does not take a trtdsl Tensor: dir.trtdsl.functional. lists"
    ):
        torch.svd(x)
    assert torch.relu(x).shape == x.shape
    with pytest.raises(td.DefinitionError, match="expected a Tensor or a number, not str"):
        x + "1"
    with pytest.raises(td.DefinitionError, match="the operands are of two networks"):
        x + td.Network().input("x", (2, 3))


def test_a_tensor_has_no_truth_value():
    net = td.Network()
    with pytest.raises(td.DefinitionError, match="no truth value"):
        bool(net.input("x", (1,)))
    assert bool(net.constant(1.0))


def test_functions_without_tensors_need_a_network():
    with pytest.raises(td.UsageError, match="no network here"):
        L.constant([1.0])
    with td.Network().current():
        assert L.constant([1.0]).shape == (1,)


def test_constants_outlive_their_arrays():
    net = td.Network()
    x = net.input("x", (1000,))

    def add():
        return x + torch.full((1000,), 3.0)

    net.output(add(), "y")
    _ = [torch.randn(1000) for _ in range(100)]
    torch.testing.assert_close(td.interpret(net, {"x": torch.ones(1000)})["y"], torch.full((1000,), 4.0))


def test_an_input_of_a_written_network_says_what_a_check_feeds(tmp_path, monkeypatch):
    class Lookup(torch.nn.Module):
        def forward(self, ids):
            return torch.arange(10.0).sqrt()[ids]

    def written(sample):
        net = td.Network()
        table = net.constant(torch.arange(10.0).sqrt())
        net.output(table[net.input("ids", (4,), "int64", sample=sample)], "y")
        return net

    assert td.check(written((0, 10)), reference=Lookup).passed
    monkeypatch.chdir(tmp_path)
    np.save("ids.npy", np.array([9, 0, 3, 3]))
    assert td.check(written("ids.npy"), reference=Lookup).passed  # found from the working directory
    with pytest.raises(td.UsageError, match="an input's sample is"):
        written(3)


@pytest.mark.parametrize("data", [np.arange(6.0).reshape(2, 3), torch.ones(2, 2), np.ones(2, np.int32)])
@pytest.mark.parametrize("make", [F.tensor, F.as_tensor])
def test_constants_of_arrays(make, data):
    with td.Network().current():
        made = make(data, dtype=torch.float32)
        assert torch.equal(made.data, torch.as_tensor(data).float())
        assert make(data).dtype == torch.as_tensor(data).dtype


@pytest.mark.parametrize("data", [np.ones(2, ">f4"), np.zeros(2, "U3"), np.zeros(1, "M8[D]"), np.array([1, None])])
def test_arrays_that_torch_does_not_take_are_no_constants(data):
    with pytest.raises(td.UnsupportedError, match="no constant is made of ndarray"):
        td.Network().input("x", (2,)) + data
