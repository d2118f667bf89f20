"""An einsum takes in the weights of a convolution or a linear product that nothing else uses."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from support import assert_close, layer_types

import trtdsl as td
import trtdsl.functional as F

N = td.Dim("N", min=1, opt=4, max=8)


def graph_convolution(module, x, weight, bias, adjacency):
    """A pointwise convolution that widens its input, and the sum over neighbours."""
    y = module.conv2d(x, weight, bias)
    n, _, t, v = y.shape
    k = adjacency.shape[0]
    return module_einsum(module, "nkctv,kvw->nctw", y.reshape(n, k, weight.shape[0] // k, t, v), adjacency)


def module_einsum(module, *arguments):
    return (torch if module is torch.nn.functional else F).einsum(*arguments)


def compare(write, values, dtype=torch.float32, shape=None, tolerance=None):
    """The layer types of what ``write(functions, x, *constants)`` defines; its result is torch's."""
    net = td.Network()
    x, *constants = values
    given = [None if value is None else net.constant(value, dtype) for value in constants]
    net.output(write(F, net.input("x", shape or tuple(x.shape), dtype), *given), "y")
    exact = [None if value is None else value.to(dtype).double() for value in values]
    want = write(torch.nn.functional, *exact)
    got = td.interpret(net, {"x": x.to(dtype)})["y"]
    assert_close(got, want.to(dtype), tolerance or (2e-6 if dtype == torch.float32 else 6e-3))
    return [kind for kind in layer_types(net) if kind not in ("CONSTANT", "SHUFFLE")]


def values(inputs, outputs, *, bias=True, k=3, t=6, v=7):
    torch.manual_seed(0)
    return (
        torch.randn(2, inputs, t, v),
        torch.randn(k * outputs, inputs, 1, 1),
        torch.randn(k * outputs) if bias else None,
        torch.randn(k, v, v),
    )


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_a_graph_convolution_that_widens_is_two_products(dtype, bias, dynamic):
    """The constants together would be more than 65,536 numbers."""
    shape = (N, 32, 6, 7) if dynamic else None
    types = compare(graph_convolution, values(32, 64, bias=bias), dtype, shape)
    assert types == ["MATRIX_MULTIPLY", "MATRIX_MULTIPLY", *["ELEMENTWISE"] * bias]


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_a_convolution_of_few_channels_becomes_one_product_with_both_constants(dtype, bias, dynamic):
    shape = (N, 4, 6, 7) if dynamic else None
    types = compare(graph_convolution, values(4, 16, bias=bias), dtype, shape)
    assert types == ["MATRIX_MULTIPLY", *["ELEMENTWISE"] * bias]


def test_a_convolution_to_fewer_channels_stays():
    types = compare(graph_convolution, values(64, 2, t=40))
    assert types == ["CONVOLUTION", "MATRIX_MULTIPLY"]


def test_the_convolution_stays_where_its_result_is_used_too():
    def write(module, x, weight, bias, adjacency):
        y = module.conv2d(x, weight, bias)
        n, _, t, v = y.shape
        summed = module_einsum(module, "nkctv,kvw->nctw", y.reshape(n, 3, 16, t, v), adjacency)
        return summed + y[:, :16]

    compare(write, values(4, 16))

    def used_before(module, x, weight, bias, adjacency):
        y = module.conv2d(x, weight, bias)
        n, _, t, v = y.shape
        z = module.relu(y)[:, :16]
        return module_einsum(module, "nkctv,kvw->nctw", y.reshape(n, 3, 16, t, v), adjacency) + z

    assert compare(used_before, values(4, 16)).count("CONVOLUTION") == 1


def test_a_batch_norm_between_them_is_taken_in_too():
    x, weight, bias, adjacency = values(4, 16)
    norm = torch.randn(48), torch.rand(48) + 0.2, torch.randn(48), torch.randn(48)

    def write(module, x, weight, bias, adjacency, *norm):
        y = module.batch_norm(module.conv2d(x, weight, bias), *norm)
        n, _, t, v = y.shape
        return module_einsum(module, "nkctv,kvw->nctw", y.reshape(n, 3, 16, t, v), adjacency)

    types = compare(write, (x, weight, bias, adjacency, *norm))
    assert types == ["MATRIX_MULTIPLY", "ELEMENTWISE"]


def test_a_convolution_that_is_no_product_along_channels_stays():
    x, weight, bias, adjacency = values(4, 16)

    def write(module, x, weight, bias, adjacency, **options):
        y = module.conv2d(x, weight, bias, **options)
        n, _, t, v = y.shape
        return module_einsum(module, "nkctv,kvw->nctw", y.reshape(n, 3, 16, t, v), adjacency)

    strided = lambda *given: write(*given, stride=(2, 1))  # noqa: E731
    assert "CONVOLUTION" in compare(strided, (x, weight, bias, adjacency))
    padded = lambda *given: write(*given, padding=(1, 0))  # noqa: E731
    assert "CONVOLUTION" in compare(padded, (x, weight, bias, adjacency))
    groups = lambda *given: write(*given, groups=2)  # noqa: E731
    assert "CONVOLUTION" in compare(groups, (x, weight[:, :2], bias, adjacency))


def test_a_bias_beside_what_is_computed_stays():
    """The bias would have to be multiplied when the network runs."""

    def write(module, x, weight, bias):
        return module_einsum(module, "nctv,nsuv->ncts", module.conv2d(x, weight, bias), x)

    x, weight, bias, _ = values(4, 16)
    assert "CONVOLUTION" in compare(write, (x, weight, bias))


TERMS = {
    "nctv,cd->ndtv": (12, 5),
    "nctv,vw->nctw": (7, 9),
    "nctv,cvw->nw": (12, 7, 3),
    "nctv->nct": None,
    "nctv,c->tv": (12,),
    "nctv,tcp->npv": (6, 12, 4),
    "nkctv,kc->ntv": (3, 4),
    "nckvt,kw->nwct": (3, 5),
}


@given(st.sampled_from(sorted(TERMS)), st.booleans(), st.booleans(), st.integers(1, 40))
@settings(max_examples=60, deadline=None)
def test_any_equation_is_torchs(equation, bias, norm, inputs):
    torch.manual_seed(inputs)
    term = equation.partition("->")[0].partition(",")[0]
    shape = {"nctv": (2, 12, 6, 7), "nkctv": (2, 3, 4, 6, 7), "nckvt": (2, 4, 3, 7, 6)}[term]
    other = TERMS[equation]
    statistics = (torch.randn(12), torch.rand(12) + 0.2, torch.randn(12), torch.randn(12))

    def write(module, x, weight, bias, *rest):
        y = module.conv2d(x, weight, bias)
        y = module.batch_norm(y, *rest[:4]) if norm else y
        y = y.permute(0, 1, 3, 2) if term == "nckvt" else y
        return module_einsum(module, equation, y.reshape(shape), *rest[4:])

    x = torch.randn(2, inputs, 6, 7)
    constants = [torch.randn(12, inputs, 1, 1), torch.randn(12) if bias else None, *statistics]
    compare(write, (x, *constants, *([] if other is None else [torch.randn(other)])), tolerance=2e-5)
