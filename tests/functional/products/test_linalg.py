"""Linear algebra of matrices, written out and in loops, and of those that have no inverse, beside torch's."""

import pytest
import torch

import trtdsl as td
import trtdsl.functional as F


def test_determinants_of_singular_matrices():
    class Reference(torch.nn.Module):
        def forward(self, x):
            return (torch.det(x), *torch.linalg.slogdet(x))

    x = torch.stack([torch.zeros(3, 3), torch.ones(3, 3), torch.eye(3), torch.eye(3)[[1, 0, 2]] * 2, torch.ones(3, 3)])
    x[4, 0, 0] = 3.0  # of rank 2
    network = td.from_module(Reference(), [x]).define()
    for got, want in zip(td.interpret(network, {"x": x}).values(), Reference()(x), strict=True):
        torch.testing.assert_close(got, want)
    assert F.det(td.Network().input("x", (0, 0))).shape == ()


FUNCTIONS = {
    "inverse": (lambda a, b: F.inverse(a), lambda a, b: torch.linalg.inv(a)),
    "solve": (F.solve, torch.linalg.solve),
    "det": (lambda a, b: F.det(a), lambda a, b: torch.linalg.det(a)),
    "slogdet": (lambda a, b: F.slogdet(a)[1], lambda a, b: torch.linalg.slogdet(a)[1]),
    "cholesky": (lambda a, b: F.cholesky(a @ a.mT), lambda a, b: torch.linalg.cholesky(a @ a.mT)),
    "upper": (
        lambda a, b: F.solve_triangular(a, b, upper=True, unitriangular=True),
        lambda a, b: torch.linalg.solve_triangular(a, b, upper=True, unitriangular=True),
    ),
    "lower": (
        lambda a, b: F.solve_triangular(a, b, upper=False),
        lambda a, b: torch.linalg.solve_triangular(a, b, upper=False),
    ),
}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("rows", [3, 17, td.Dim("R", min=2, opt=20, max=40)])
def test_rows_written_out_and_in_a_loop(name, rows):
    function, expected = FUNCTIONS[name]
    torch.manual_seed(0)
    net = td.Network()
    net.output(function(net.input("a", (2, rows, rows)), net.input("b", (2, rows, 3))), "y")
    for size in (rows,) if isinstance(rows, int) else (2, 20, 33):
        a, b = torch.randn(2, size, size) / size**0.5, torch.randn(2, size, 3)
        if name in ("upper", "lower"):  # whose conditions are bad without
            a = a + 2 * torch.eye(size)
        want = expected(a.double(), b.double()).float()
        found = td.interpret(net, {"a": a, "b": b})["y"]
        torch.testing.assert_close(found, want, rtol=2e-3, atol=2e-3 * float(want.abs().max()))
