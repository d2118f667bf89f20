"""Spellings that torch.nn.functional does not have: numpy's names and functions, Python's own, and typos."""

import math

import numpy as np
import pytest
import torch

import trtdsl as td
import trtdsl.functional as F
import trtdsl.layers as L

X = torch.randn(2, 3, 4, generator=torch.Generator().manual_seed(0))


def given(function):
    """The network's result for X, and torch's own."""
    net = td.Network()
    net.output(function(net.input("x", X.shape), F), "y")
    return td.interpret(net, {"x": X})["y"], function(X, torch)


@pytest.mark.parametrize(
    "function",
    [
        lambda x, F: F.sum(x, axis=1),
        lambda x, F: F.sum(x, axis=(0, 2), keepdims=True),
        lambda x, F: F.mean(x, axis=-1, keepdims=True),
        lambda x, F: x.mean(axis=(1, 2)),
        lambda x, F: F.amax(x, axis=(0, 1)),
        lambda x, F: x.amin(axis=[1, 2], keepdims=True),
        lambda x, F: F.prod(x, axis=1),
        lambda x, F: F.std(x, axis=(1, 2), keepdims=True),
        lambda x, F: F.var(x, axis=0, unbiased=False),
        lambda x, F: x.argmax(axis=1, keepdims=True),
        lambda x, F: x.max(axis=1, keepdims=True).values,
        lambda x, F: F.logsumexp(x, axis=(0, 2)),
        lambda x, F: F.cumsum(x, axis=1),
        lambda x, F: F.softmax(x, axis=1),
        lambda x, F: F.cat([x, x], axis=2),
        lambda x, F: F.stack([x, x], axis=1),
        lambda x, F: F.unsqueeze(x, axis=1),
        lambda x, F: x[:1].squeeze(axis=0),
        lambda x, F: F.median(x, axis=1, keepdims=True).values,
        lambda x, F: F.count_nonzero(x, axis=1),
        lambda x, F: F.all(x > -9, axis=1, keepdims=True),
        lambda x, F: F.add(x, other=x),
        lambda x, F: F.maximum(input=x, other=-x),
        lambda x, F: F.exp(x=x),
    ],
)
def test_numpys_names_of_arguments_mean_torchs(function):
    ours, theirs = given(function)
    torch.testing.assert_close(ours, theirs, check_dtype=False)


def test_an_argument_that_a_function_does_not_take_is_said_with_the_nearest():
    x = td.Network().input("x", (2, 3))
    with pytest.raises(TypeError, match=r"F.sum takes no argument 'dims' \(nearest: dim\): it has input, dim, keepdim"):
        F.sum(x, dims=1)
    with pytest.raises(TypeError, match="F.sum takes no argument 'axis'"):
        F.sum(x, dim=1, axis=1)
    with pytest.raises(TypeError, match=r"F.relu takes no argument 'axis'"):
        F.relu(x, axis=1)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda x: np.maximum(x, 0.0), r"numpy's maximum does not take a trtdsl Tensor: write F\.maximum\(…\)"),
        (lambda x: np.exp(x), r"numpy's exp .*write F\.exp"),
        (lambda x: np.absolute(x), r"numpy's absolute .*write F\.abs"),
        (lambda x: np.concatenate([x, x]), r"numpy's concatenate .*write F\.cat"),
        (lambda x: np.stack([x, x]), r"numpy's stack .*write F\.stack"),
        (lambda x: np.mean(x, axis=1), r"numpy's mean .*write F\.mean"),
        (lambda x: np.expand_dims(x, 0), r"numpy's expand_dims .*write F\.unsqueeze"),
        (lambda x: np.add.reduce(x), r"numpy's add\.reduce .*dir\(trtdsl\.functional\)"),
        (lambda x: np.convolve(x, x), r"numpy's convolve .*dir\(trtdsl\.functional\)"),
        (lambda x: np.asarray(x), "a Tensor has no values while the network is written, so numpy cannot"),
        (lambda x: np.array([x, x]), "a Tensor has no values while the network is written"),
        (lambda x: float(x), r"no one value while the network is written.*F\.sqrt"),
        (lambda x: int(x), "no one value while the network is written"),
        (lambda x: math.sqrt(x), "no one value while the network is written"),
        (lambda x: x.item(), "only a constant has a value"),
        (lambda x: 1 if x else 2, r"no truth value while the network is written: use F\.where, or td\.cond"),
        (lambda x: x.sum() > 0 and x, "no truth value"),
        (len, r"the first dimension N is dynamic, and len\(\) gives an int: write x\.shape\[0\]"),
        (list, r"a loop over a Tensor is unrolled, and its first dimension, N, is dynamic: .* or td\.scan"),
        (lambda x: len(x.sum()), "without dimensions"),
    ],
)
def test_errors_about_missing_values_have_advice_and_the_authors_line(function, message):
    @td.network(inputs={"x": td.Input(("N", 3))})
    def network(x):
        return {"y": function(x)}

    with pytest.raises(td.DefinitionError, match=message) as caught:
        network.define()
    assert caught.value.location.file == __file__


def test_arrays_and_numpys_numbers_beside_a_tensor():
    array = np.arange(12, dtype=np.float32).reshape(3, 4)
    net = td.Network()
    x = net.input("x", X.shape)
    results = {
        "add": array + x,
        "mul": np.float32(3) * x,
        "sub": array - x,
        "div": array / x,
        "pow": np.float32(2) ** x,
        "matmul": array.T @ x,
        "less": array < x,
    }
    for name, tensor in results.items():
        net.output(tensor, name)
    there = torch.from_numpy(array)
    expected = {
        "add": there + X,
        "mul": 3 * X,
        "sub": there - X,
        "div": there / X,
        "pow": 2**X,
        "matmul": there.T @ X,
        "less": there < X,
    }
    for name, value in td.interpret(net, {"x": X}).items():
        torch.testing.assert_close(value, expected[name])
    assert np.asarray(net.constant(array)).tolist() == array.tolist()


TYPOS = {
    "F": {
        "layernorm": "layer_norm", "LayerNorm": "layer_norm", "conv2": "conv2d", "Conv2d": "conv2d", "ReLU": "relu",
        "LeakyReLU": "leaky_relu", "GELU": "gelu", "SiLU": "silu", "batchnorm": "batch_norm", "swish": "silu",
        "max_pool": "max_pool2d", "maxpool2d": "max_pool2d", "softmaks": "softmax", "gridsample": "grid_sample",
        "mulitply": "multiply", "substract": "subtract", "einsm": "einsum", "sdpa": "scaled_dot_product_attention",
        "cosine_sim": "cosine_similarity",
        "embeding": "embedding", "topK": "topk", "transpos": "transpose", "adaptive_avgpool2d":
        "adaptive_avg_pool2d", "pixelshuffle": "pixel_shuffle", "chunck": "chunk", "maximun": "maximum",
    },
    "x": {
        "softmaks": "softmax", "permut": "permute", "reshap": "reshape", "flaten": "flatten", "contigous": "contiguous",
        "Float": "float", "unsqeeze": "unsqueeze", "dims": "dim", "repeat_interleve": "repeat_interleave",
    },
    "L": {"conv": "convolution", "shufle": "shuffle", "elementwis": "elementwise", "matrixmultiply": "matrix_multiply"},
    "td": {"networks": "network", "buid": "build", "loadspec": "load_spec", "sumarize": "summarize", "dim": "Dim"},
}  # fmt: skip


@pytest.mark.parametrize(("owner", "typo", "meant"), [(o, t, m) for o, row in TYPOS.items() for t, m in row.items()])
def test_the_nearest_name_of_a_typo(owner, typo, meant):
    found = {"F": F, "L": L, "td": td, "x": td.Network().input("x", (2, 3))}[owner]
    with pytest.raises(AttributeError, match=rf"no '{typo}'.*\(nearest: (\w+, )*{meant}\b"):
        getattr(found, typo)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("add_", r"do not change in place, write x = x\.add"),
        ("copy_", "does not change in place"),
        ("numpy", "its value when the engine runs"),
        ("backward", "has no gradients"),
        ("stride", "TensorRT puts it"),
        ("double", r"write x\.float"),
        ("conv2d", r"write F\.conv2d\(x"),
    ],
)
def test_members_of_torchs_tensor_that_a_network_cannot_have(name, message):
    x = td.Network().input("x", (2, 3))
    assert hasattr(torch.Tensor, name) or hasattr(torch, name)
    assert not hasattr(x, name)
    with pytest.raises(AttributeError, match=message):
        getattr(x, name)


def test_a_weight_that_is_not_there_is_named_by_its_nearest():
    @td.network(inputs={"x": td.Input((2, 3))})
    def network(x, w):
        return x @ w.conv1

    with pytest.raises(td.WeightsError, match=r"no weight 'conv1'.*\(nearest: conv2\)") as caught:
        network.define(weights={"conv2": torch.ones(3, 3)})
    assert caught.value.location.file == __file__
