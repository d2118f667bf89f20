"""Determinants of matrices that have an inverse and of some that have none, beside torch's."""

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
