"""What an error of the author's code says of the way that it was raised on."""

from __future__ import annotations

import math
from unittest import mock

import pytest
import torch
import torch._numpy

from trtdsl.porting.tracing.frames import is_raised
from trtdsl.porting.tracing.traced_sizes import traced


def raised(function, *given):
    try:
        function(*given)
    except Exception as error:
        return is_raised(error)
    raise AssertionError("nothing is raised")


@pytest.mark.parametrize(
    "function",
    [
        lambda: undefined,  # noqa: F821 # pyright: ignore[reportUndefinedVariable]
        lambda: None.scale,  # pyright: ignore[reportOptionalMemberAccess]
        lambda: math.infinite,  # pyright: ignore[reportAttributeAccessIssue]
        lambda: torch.nn.ReLU().fallback,
        lambda: {"a": 1}["b"],
    ],
)
def test_what_is_not_there_is_there_on_no_run(function):
    assert raised(function)


@pytest.mark.parametrize(
    "function",
    [
        lambda: torch.ones(2).absent,  # pyright: ignore[reportAttributeAccessIssue]
        lambda: traced(3, 3).absent,
        lambda: torch._numpy.ones(2).strides_of,
        lambda: mock.patch.reduce,  # a function, which may stand in for numpy's
        lambda: {3: 1}[4],
        lambda: [1][2],
        lambda: torch.ones(2) @ torch.ones(3),
        lambda: 1 + "a",  # pyright: ignore[reportOperatorIssue]
    ],
)
def test_what_fails_in_a_trace_may_be_computed_without_one(function):
    assert not raised(function)


def test_what_torch_is_asked_to_check_is_raised():
    def function():
        torch._check_value(False, lambda: "too short")

    assert raised(function)
