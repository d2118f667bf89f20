"""Calls of torch are seen from outside, and what fails on tensors without values is not logged."""

import logging

import pytest
import torch

from trtdsl.core.tensors.watched import each_call, unlogged


def test_every_call_of_torch_goes_through_the_function():
    seen = []

    def called(function, args, kwargs):
        seen.append(function.__name__)
        return function(*args, **kwargs)

    with each_call(called):
        y = torch.relu(torch.ones(2) - 2)
    assert torch.equal(y, torch.zeros(2))
    assert seen == ["ones", "sub", "relu"] and torch.relu(y) is not None and len(seen) == 3


def test_the_log_is_as_before_after_an_error():
    logger = logging.getLogger("torch._subclasses.fake_tensor")

    @unlogged()
    def raising():
        raise ValueError(logger.disabled)

    with pytest.raises(ValueError, match="True"):
        raising()
    assert not logger.disabled
