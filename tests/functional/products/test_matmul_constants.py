"""Products of constants are computed while the network is written."""

import math

import pytest
import torch

import trtdsl as td
from trtdsl import layers as L


@pytest.mark.parametrize("op_a", ["NONE", "TRANSPOSE"])
@pytest.mark.parametrize("op_b", ["NONE", "transpose"])
@pytest.mark.parametrize("batches", [((), ()), ((3,), (1,)), ((0,), (1,))])
def test_products_of_constants_are_torchs(op_a: str, op_b: str, batches: tuple[tuple[int, ...], tuple[int, ...]]):
    torch.manual_seed(0)
    a, b = torch.randn(*batches[0], 4, 5), torch.randn(*batches[1], 5, 6)
    net = td.Network()
    left = net.constant(a.mT if op_a == "TRANSPOSE" else a)
    right = net.constant(b.mT if op_b == "transpose" else b)
    product = L.matrix_multiply(left, right, op_a, op_b)
    assert product.is_constant and net.definition.num_layers == 0
    torch.testing.assert_close(product.data, (a.double() @ b.double()).float())


@pytest.mark.filterwarnings("error")
def test_what_is_not_finite_is_computed_without_a_warning():
    net = td.Network()
    a, b = net.constant(torch.tensor([[math.inf, 1.0]])), net.constant(torch.tensor([[0.0, 3e38], [1.0, 3e38]]))
    data = L.matrix_multiply(a, b).data
    assert data[0, 0].isnan() and data[0, 1].isposinf()
