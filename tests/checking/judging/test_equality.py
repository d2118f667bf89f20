"""What counts as equal: values by hand, and errors that are known."""

import math

import numpy as np
import pytest
import torch

from trtdsl.checking.judging.equality import Tolerance, allowed, deviation, excess, judge
from trtdsl.checking.judging.limits import LIMIT


def seeded(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def differs(got, expected, room=None):
    return bool((excess(got, expected, allowed(expected, LIMIT, None) if room is None else room) > 1).any())


@pytest.mark.parametrize("place", [(0, 0, 0, 0), (1, 2, 3, 4), (1, 0, 3, 0)])
@pytest.mark.parametrize("scale", [1e-7, 1.0, 1e6])
def test_one_element_alone_is_seen_at_every_scale(place, scale):
    expected = seeded(2, 3, 4, 5) * scale
    expected[0] *= 1e-6
    got = expected.clone()
    assert not differs(got * (1 + 1e-12), expected)
    got[place] *= 1 + 1e-6
    assert differs(got, expected)


def test_zeros_may_be_as_far_off_as_a_part_of_the_typical_element():
    expected = torch.cat([torch.zeros(4), torch.ones(12)]).double()
    got = expected.clone()
    got[0] = 1e-13
    assert not differs(got, expected)
    got[0] = 1e-11
    assert differs(got, expected)


def test_extreme_values_hide_nothing():
    expected = torch.ones(8).double()
    expected[:3] = torch.finfo(torch.float32).min
    got = expected.clone()
    got[-1] += 1e-8
    assert differs(got, expected)


@pytest.mark.parametrize("values", [(math.nan, 1.0), (math.inf, -math.inf), (1.0, math.nan), (math.inf, math.nan)])
def test_what_is_not_finite_is_exact(values):
    got, expected = (torch.tensor([value, 1.0]).double() for value in values)
    assert differs(got, expected)
    assert not differs(expected, expected)


def test_what_noise_moves_is_allowed_and_no_more():
    expected = torch.ones(4).double()
    moved = [expected + torch.tensor([1e-3, 0, 0, 0]), expected]
    room = allowed(expected, LIMIT, None) + 30 * deviation(expected, moved)
    assert not differs(expected + torch.tensor([2e-2, 0, 0, 0]), expected, room)
    assert differs(expected + torch.tensor([0, 1e-6, 0, 0]), expected, room)


def test_noise_that_makes_nan_of_numbers_excuses_nothing():
    expected = torch.ones(4).double()
    moved = [torch.full_like(expected, math.nan), expected + 1e-9]
    room = allowed(expected, LIMIT, None) + 30 * deviation(expected, moved)
    assert differs(expected + torch.tensor([0.5, 0, 0, 0]), expected, room)
    assert differs(torch.full_like(expected, math.nan), expected, room)
    assert not differs(expected + 1e-8, expected, room)
    unknown = torch.full_like(expected, math.nan)  # which noise makes a number: whether it is NaN depends on rounding
    assert not differs(expected, unknown, allowed(unknown, LIMIT, None) + 30 * deviation(unknown, [expected]))


def test_the_figures_are_right():
    own = torch.tensor([3.0, 4.0])
    found = judge("y", torch.tensor([3.0, 4.5]), own, own.double())
    assert (found.max_abs, found.max_rel, found.scale, found.wrong) == (0.5, 0.125, 4.0, 2)
    assert found.worst_index == (1,) and found.worst_value == 4.5 and found.worst_expected == 4.0
    assert found.snr_db == pytest.approx(20.0)
    assert found.cosine == pytest.approx((9 + 18) / (5 * math.hypot(3, 4.5)))


def test_an_error_that_is_beyond_float64_has_figures():
    """``exp(700)`` where the reference clamps first, as the exact values have it."""
    own = torch.full((400,), 62.5, dtype=torch.float64)
    found = judge("y", torch.full((400,), 1e308, dtype=torch.float64), own, own)
    assert not found.passed and found.snr_db == -math.inf


def test_what_overflows_in_torch_too_is_no_error_in_the_figures():
    true = torch.tensor([1.0, 1e45], dtype=torch.float64)
    own = true.float()
    found = judge("y", torch.tensor([1.5, math.inf]), own, true)
    assert own.isinf().any() and (found.max_abs, found.max_rel) == (0.5, 0.5)
    assert judge("y", torch.tensor([1.0, -math.inf]), own, true).max_abs == math.inf


def test_dtype_and_shape_must_match():
    one = torch.ones(2)
    assert "dtype float16, the reference has float32" in (judge("y", one.half(), one).problem or "")
    assert "shape (1, 2), the reference has (2,)" in (judge("y", one[None], one).problem or "")
    assert judge("y", one[:0], one[:0]).passed


def test_a_row_may_be_a_hundred_times_as_far_off_as_torchs_own():
    true = seeded(8, 64)
    own = true + 1e-3 * seeded(8, 64, seed=1)
    noise = seeded(8, 64, seed=2) * 1e-3
    assert judge("y", (true + 20 * noise).float(), own.float(), true).passed
    assert not judge("y", (true + 500 * noise).float(), own.float(), true).passed


def test_an_error_in_a_small_row_is_seen_beside_large_ones():
    true = seeded(8, 64)
    true[3] *= 1e-5
    own = true.float()
    got = own.clone()
    got[3] *= 1.1
    assert not judge("y", got, own, true).passed


def test_what_overflows_where_torch_does_not_is_refused():
    true = seeded(4, 4) * 1e4
    got = true.half().float()
    assert judge("y", got, true.float(), true, precision=torch.float16).passed
    got[1, 2] = math.inf
    assert not judge("y", got, true.float(), true, precision=torch.float16).passed


def test_integers_may_be_wrong_where_torchs_own_are():
    true = torch.arange(100)
    own = true.clone()
    own[:3] += 1
    got = true.clone()
    got[50:59] += 1
    assert judge("y", got, own, true).passed
    got[59] += 1
    assert not judge("y", got, own, true).passed
    assert not judge("y", true.clone().index_fill(0, torch.tensor([7]), 0), true, true).passed


def test_a_given_floor_relaxes_both():
    expected = torch.ones(4).double()
    assert Tolerance(floor=1e-3).relaxed("float32") and not Tolerance().relaxed("float16")
    assert not bool((excess(expected * 1.0005, expected, allowed(expected, LIMIT, 1e-3)) > 1).any())
    assert bool((excess(expected * 1.005, expected, allowed(expected, LIMIT, 1e-3)) > 1).any())


def test_two_results_without_a_truth():
    x = torch.from_numpy(np.linspace(1, 2, 8, dtype=np.float32))
    assert judge("y", x * (1 + 1e-6), x).passed
    assert not judge("y", x * (1 + 1e-4), x).passed
