"""Medians and quantiles of rows with NaN, and differences of what has none, against torch's own."""

import pytest
import torch
from support import evaluate

import trtdsl.functional as F

NAN, INF = torch.nan, torch.inf
ROWS = torch.tensor([[1, 2, 3, 4], [1, NAN, 3, 4], [NAN, NAN, -INF, INF], [INF, INF, INF, 2], [-INF, INF, 3, NAN]])


def same(found, expected):
    torch.testing.assert_close(found, expected, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("keepdim", [False, True])
def test_a_median_of_a_row_with_nan_is_nan_at_the_first(keepdim):
    found = evaluate(lambda x: tuple(F.median(x, 1, keepdim)), ROWS)
    same(tuple(found), tuple(torch.median(ROWS, 1, keepdim)))
    same(evaluate(lambda x: F.median(x), ROWS), torch.median(ROWS))


@pytest.mark.parametrize("interpolation", ["lower", "higher", "nearest"])
def test_a_quantile_of_a_row_with_nan_is_nan(interpolation):
    q = torch.tensor([0.0, 0.3, 1.0])
    expected = torch.quantile(ROWS, q, 1, interpolation=interpolation)
    same(evaluate(lambda x: F.quantile(x, q, 1, interpolation=interpolation), ROWS), expected)


def test_more_differences_than_there_are_numbers_are_none():
    """And are not added one after the other."""
    assert evaluate(lambda x: F.diff(x, 10**9), ROWS).shape == torch.diff(ROWS, 10**9).shape == (5, 0)


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_one_hot_of_as_many_classes_as_a_dynamic_size(dtype):
    classes, rows = torch.tensor([[0, 2], [1, 1]], dtype=dtype), torch.ones(3, 2)
    found = evaluate(lambda classes, rows: F.one_hot(classes, rows.shape[0]), classes, rows, dims=[(2, 2), ("N", 2)])
    same(found, torch.nn.functional.one_hot(classes.long(), 3))
