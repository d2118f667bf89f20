"""F.einsum against torch.einsum, through the interpreter."""

from __future__ import annotations

import pytest
import torch
from torch.testing import assert_close

import trtdsl as td
import trtdsl.functional as F


def layer_types(net: td.Network) -> list[str]:
    """The types of the layers that compute, constants left out."""
    types = [net.trt.ILayer.type.fget(net.definition.get_layer(k)).name for k in range(net.definition.num_layers)]
    return [name for name in types if name != "CONSTANT"]


def run(equation: str, *operands: torch.Tensor, constants: tuple[int, ...] = (), shapes=None):
    """The interpreter's result and the network; ``shapes`` where the inputs' are not the operands' own."""
    net = td.Network()
    inputs = []
    for index, operand in enumerate(operands):
        shape = tuple(operand.shape) if shapes is None else shapes[index]
        name = f"x{index}"
        inputs.append(net.constant(operand) if index in constants else net.input(name, shape, operand.dtype))
    net.output(F.einsum(equation, *inputs), "y")
    feeds = {f"x{index}": operand for index, operand in enumerate(operands) if index not in constants}
    return td.interpret(net, feeds)["y"], net


@pytest.mark.parametrize(
    ("equation", "shapes"),
    [
        ("ij,jk->ik", [(2, 3), (3, 4)]),
        ("ij->ji", [(2, 3)]),
        ("ii", [(3, 3)]),
        ("ii->i", [(3, 3)]),
        ("bijij->bj", [(2, 3, 4, 3, 4)]),
        ("iii->i", [(3, 3, 3)]),
        ("ij->", [(2, 3)]),
        ("ij,kl->ijkl", [(2, 3), (4, 5)]),
        ("...ij,...jk->...ik", [(2, 5, 3, 4), (5, 4, 2)]),
        ("...ij->ij", [(2, 5, 3, 4)]),
        ("a...,...b", [(2, 3), (3, 4)]),
        ("Ba", [(2, 3)]),
        (" i j , j k ", [(2, 3), (3, 4)]),
        (",ij,->ji", [(), (2, 3), ()]),
        ("ij,jk->ik", [(2, 1), (5, 4)]),
        ("bij,bjk->bik", [(1, 2, 3), (4, 3, 5)]),
        ("ab,bc,cd,de->ae", [(2, 3), (3, 4), (4, 5), (5, 6)]),
    ],
)
def test_what_torch_takes(equation, shapes):
    operands = [torch.randn(shape) for shape in shapes]
    got, _ = run(equation, *operands)
    assert_close(got, torch.einsum(equation, *operands), rtol=1e-5, atol=1e-5)


def test_stgcn_is_one_shuffle_and_one_matrix_product():
    x, a = torch.randn(2, 3, 8, 10, 6), torch.randn(3, 6, 6)
    for shape in ((2, 3, 8, 10, 6), ("N", 3, 8, "T", 6)):
        got, net = run("nkctv,kvw->nctw", x, a, constants=(1,), shapes=[shape, None])
        assert layer_types(net) == ["SHUFFLE", "MATRIX_MULTIPLY"]
        assert_close(got, torch.einsum("nkctv,kvw->nctw", x, a), rtol=1e-5, atol=1e-5)


def test_a_size_that_disagrees_is_named():
    net = td.Network()
    message = r"label 'j' is 3 in operand 0 \(i j: \(2, 3\)\), but 4 in operand 1"
    with pytest.raises(td.ShapeError, match=message) as caught:
        F.einsum("ij,jk->ik", net.input("a", (2, 3)), net.input("b", (4, 5)))
    assert str(caught.value).startswith(__file__)
