"""What the tests of weights share."""

import pytest
import torch


@pytest.fixture
def good():
    return {"a.weight": torch.randn(2, 3), "a.bias": torch.randn(2), "b.0.scale": torch.ones(1)}
