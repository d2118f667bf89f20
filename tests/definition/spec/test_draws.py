"""Inputs that the reference of a network draws for itself."""

import pytest
import torch
from torch import nn

import trtdsl as td


class Scaled(nn.Module):
    def forward(self, x):
        return x + 2 * torch.randn(x.shape[0], 3) + torch.rand(3)


def test_a_network_that_is_written_by_hand():
    n = td.Dim("N", min=1, opt=2, max=8)
    noise = {"x": td.Input((n, 3)), "normal": td.Input((n, 3)), "even": td.Input((3,), sample=(0, 1))}
    given = td.network(inputs=noise, reference=Scaled, draws=("normal", "even"))
    assert td.check(given(lambda x, normal, even: x + 2 * normal + even)).passed
    wrong = given(lambda x, normal, even: x + normal + even)
    assert not td.check(wrong).passed
    with pytest.raises(td.UsageError, match="draws= names inputs, and there is no 'nrmal' .nearest: normal"):
        td.network(inputs=noise, reference=Scaled, draws=("nrmal",))(lambda x, normal, even: x)


def test_a_draw_of_another_shape_is_an_error():
    n = td.Dim("N", min=1, opt=2, max=8)
    noise = {"x": td.Input((n, 3)), "normal": td.Input((1, 3)), "even": td.Input((3,), sample=(0, 1))}
    spec = td.network(inputs=noise, reference=Scaled, draws=("normal", "even"))(lambda x, normal, even: x + 2 * normal)
    with pytest.raises(td.DefinitionError, match=r"torch.randn draws \(8, 3\), and is given \(1, 3\)"):
        td.check(spec, sizes={"N": 8})
