"""Sums and products in a dtype that is asked for."""

import pytest
import torch
from support import assert_close, evaluate

import trtdsl.functional as F


@pytest.mark.parametrize("dtype", [torch.bool, torch.int32, torch.float16])
@pytest.mark.parametrize("name", ["sum", "nansum", "prod"])
def test_numbers_become_the_dtype_before_they_are_added_up(name, dtype):
    for x in (torch.tensor([1, -1]), torch.tensor([0.5, -0.5]), torch.tensor([256, 256])):
        made = evaluate(lambda x: getattr(F, name)(x, dtype=dtype), x)
        assert_close(made, getattr(torch, name)(x, dtype=dtype), 0.0)
