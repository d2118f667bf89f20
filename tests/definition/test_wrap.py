"""Tensors of TensorRT's own API in the middle of a network of the DSL."""

import pytest
import torch

import trtdsl as td
import trtdsl.functional as F
from trtdsl.engine.compiling.compiler import compile_engine


def relu(net, tensor, name="custom"):
    layer = net.definition.add_activation(tensor.trt, net.trt.ActivationType.RELU)
    layer.name = name
    return layer.get_output(0)


@pytest.mark.parametrize("shape", [("N", 3), None])
def test_a_layer_of_tensorrts_own_api_between_two_of_ours(shape):
    net = td.Network()
    x = net.input("x", (td.Dim("N", min=1, opt=2, max=4), 3))
    y = net.wrap(relu(net, x * 2), shape)
    assert y.dtype == torch.float32
    assert str(y.shape) == ("(N, 3)" if shape else "(custom_output.shape[0], 3)")
    net.output(y.reshape(y.shape[0] * 3) - 1, "y")
    feed = torch.randn(3, 3)
    torch.testing.assert_close(td.interpret(net, {"x": feed})["y"], torch.relu(feed * 2).flatten() - 1)
    assert td.check(net, reference=Reference).passed
    assert len(compile_engine(net).data) > 0


class Reference(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x * 2).flatten() - 1


def test_sizes_and_dtypes_that_tensorrt_knows():
    net = td.Network()
    x = net.input("x", (2, 8), "float16")
    _, indices = (net.definition.add_topk(x.trt, net.trt.TopKOperation.MAX, 3, 2).get_output(i) for i in (0, 1))
    k = net.wrap(indices)
    assert (k.shape, k.dtype) == ((2, 3), torch.int32)
    assert net.wrap(x.trt, (2, 8)).shape == (2, 8)


def test_a_later_layer_does_not_take_the_name_of_a_wrapped_tensor():
    net = td.Network()
    x = net.input("x", (2,))
    handle = relu(net, x, "relu")
    handle.name = "relu"
    y = F.relu(net.wrap(handle) - 1)
    assert y.trt.name == y.name == "relu_1"
    net.output(y, "y")
    feed = torch.tensor([0.5, 3.0])
    torch.testing.assert_close(td.interpret(net, {"x": feed})["y"], torch.tensor([0.0, 2.0]))


def test_mismatches_are_refused_with_the_authors_line():
    net, other = td.Network("mine"), td.Network()
    x = net.input("x", ("N", 3))
    handle = relu(net, x)
    cases = [
        ((x,), td.UsageError, "takes an ITensor of .*, not Tensor"),
        ((other.input("x", (2,)).trt,), td.UsageError, "the tensor 'x' is none of the network 'mine'"),
        ((handle, ("N",)), td.ShapeError, "has 2 dimensions, .* and the shape 1"),
        ((handle, ("N", 4)), td.ShapeError, r"TensorRT has the shape \(-1, 3\) for .*, not 4 at 1"),
        ((handle, ("M", 3)), td.UsageError, "no input has the dimension 'M'"),
    ]
    for arguments, kind, message in cases:
        with pytest.raises(kind, match=message) as caught:
            net.wrap(*arguments)
        assert caught.value.location.file == __file__
