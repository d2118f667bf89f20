"""Normalizations without weights."""

import pytest
import torch
from support import assert_close, evaluate

import trtdsl.functional as F


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("dims", [None, [("N", 6, "H", "W")], [("N", "C", "H", "W")]])
def test_instance_norm_without_weights(dtype, dims):
    x = (torch.randn(2, 6, 5, 7) * 3 + 2).to(dtype)
    want = torch.nn.functional.instance_norm(x.double()).to(dtype)
    tolerance = 4 * float(torch.finfo(dtype).eps)
    assert_close(evaluate(F.instance_norm, x, dims=dims), want, tolerance)
    if dims is None:
        bias = torch.randn(6).to(dtype)
        want = torch.nn.functional.instance_norm(x.double(), bias=bias.double()).to(dtype)
        assert_close(evaluate(lambda x, b: F.instance_norm(x, bias=b), x, bias), want, tolerance)
