"""What torch computes of constants while a network is written equals torch's own, and nothing else is computed so."""

import pytest
import torch

import trtdsl as td
import trtdsl.functional as F

W = torch.tensor([[2.0, 1.0, 0.5], [0.0, 3.0, 1.0], [1.0, 0.0, 4.0]])


@pytest.mark.parametrize("function", [torch.linalg.pinv, torch.linalg.svdvals, torch.matrix_exp, torch.linalg.eigvals])
def test_of_constants_is_torchs(function):
    net = td.Network()
    found, expected = td.of_constants(function, net.constant(W)), function(W)
    parts = torch.complex(found.real.data, found.imag.data) if expected.is_complex() else found.data
    torch.testing.assert_close(parts, expected)


def test_several_results_and_complex_operands():
    net = td.Network()
    values, vectors = td.of_constants(torch.linalg.eig, net.constant(W))
    whole = vectors @ td.of_constants(torch.diag, values) @ F.inverse(vectors)
    torch.testing.assert_close(whole.real.data, W)
    powers = values[:, None] ** net.constant(torch.arange(3))
    torch.testing.assert_close(powers.real.data, (torch.linalg.eigvals(W)[:, None] ** torch.arange(3)).real)


def test_a_function_that_writes_leaves_the_constant_as_it_is():
    net = td.Network()
    weight = net.constant(W)
    torch.testing.assert_close(td.of_constants(torch.Tensor.exp_, weight).data, W.exp())
    torch.testing.assert_close(weight.data, W)


def test_a_constant_that_is_too_large_to_be_folded():
    net, column = td.Network(), torch.linspace(0, 1, 300)
    weight = net.constant(column)
    outer = weight[:, None] * weight[None]
    assert not outer.is_constant
    torch.testing.assert_close(td.of_constants(torch.linalg.matrix_rank, outer).data, torch.tensor(1))


def test_what_is_computed_when_the_network_runs_is_refused():
    net = td.Network()
    with pytest.raises(td.UnsupportedError, match=r"torch\.linalg\.pinv is computed of constants alone"):
        td.of_constants(torch.linalg.pinv, net.input("x", (3, 3)) + net.constant(W))


@pytest.mark.parametrize(
    "solved",
    [
        lambda w, x: (F.solve(w, x), torch.linalg.solve),
        lambda w, x: (
            F.solve_triangular(w, x, upper=True),
            lambda w, x: torch.linalg.solve_triangular(w, x, upper=True),
        ),
        lambda w, x: (F.matrix_norm(w, 2) * x, lambda w, x: torch.linalg.matrix_norm(w, 2) * x),
        lambda w, x: (F.det(w) * x, lambda w, x: torch.det(w) * x),
    ],
)
def test_a_system_of_constants_of_any_size(solved):
    torch.manual_seed(0)
    weight, net = torch.eye(20) * 3 + torch.rand(20, 20) / 4, td.Network()
    result, expected = solved(net.constant(weight), net.input("x", ("N", 20, 2)))
    net.output(result, "y")
    x = torch.rand(3, 20, 2)
    torch.testing.assert_close(td.interpret(net, {"x": x})["y"], expected(weight, x), rtol=1e-4, atol=1e-5)
