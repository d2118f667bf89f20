"""Noise in computed values: how far it moves them, and what it leaves as it is."""

from __future__ import annotations

import math

import pytest
import torch

from trtdsl.core.tensors.noise import DRAWS, Noise


def test_each_computed_value_is_moved_by_less_than_the_size():
    value = torch.linspace(0.1, 7.0, DRAWS + 1001, dtype=torch.float64).reshape(2, -1).t()  # not contiguous
    moved = value.clone()
    Noise(0, 1e-6).add_to(moved)
    part = (moved / value - 1).abs()
    assert float(part.max()) < 1e-6
    assert float(part.mean()) == pytest.approx(0.5e-6, rel=0.02)
    other = value.clone()
    Noise(1, 1e-6).add_to(other)
    assert not torch.equal(other, moved)


def test_what_is_exact_stays():
    exact = torch.tensor([0.0, 0.5, 3.0, math.inf, -math.inf], dtype=torch.float64)
    value = exact.clone()
    Noise(0, 0.1).add_to(value)
    assert torch.equal(value, exact)


def test_infinite_values_become_no_nan():
    """A run with noise that gives NaN would excuse every result: the masks of attention are infinite."""
    infinite = torch.full((1000,), -math.inf, dtype=torch.float64)
    assert torch.equal(Noise(0, 0.1).of(infinite), infinite)
    both = torch.complex(infinite, infinite)
    assert not bool(torch.view_as_real(Noise(0, 0.1).of(both)).isnan().any())


def test_another_dtype_is_given_as_it_is():
    value = torch.arange(3)
    assert Noise(0, 0.1).of(value) is value
