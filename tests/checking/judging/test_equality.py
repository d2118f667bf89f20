"""What counts as equal, by hand: figures, slices, torch's own error, exact values, integers."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from trtdsl.checking.judging.equality import Tolerance, compare, judge

EPS = 2.0**-23


def noisy(tensor, size, seed=0):
    """The tensor in float32 with normal errors of ``size`` times its root mean square."""
    generator = torch.Generator().manual_seed(seed)
    noise = torch.randn(tensor.shape, generator=generator, dtype=torch.float64)
    return (tensor + noise * size * tensor.square().mean().sqrt()).float()


def normal(*shape, seed=9):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_equal_values_pass_and_the_figures_are_right():
    expected = torch.tensor([[1.0, -2.0], [4.0, 0.5]])
    got = expected.clone()
    got[1, 0] += 2e-3
    result = compare("y", got, expected)
    assert not result.passed
    assert (result.worst_index, result.wrong, result.elements) == ((1, 0), 1, 4)
    assert result.max_abs == pytest.approx(2e-3, rel=1e-3)
    assert result.max_rel == pytest.approx(5e-4, rel=1e-3)
    assert result.scale == 4.0
    assert result.snr_db == pytest.approx(10 * math.log10((1 + 4 + 16 + 0.25) / 4e-6), abs=0.01)
    assert result.worst_expected == 4.0
    assert result.cosine == pytest.approx(1, abs=1e-6)
    assert compare("y", expected, expected).passed
    assert compare("y", expected, expected).snr_db is None


def test_nan_and_inf_must_stand_where_the_reference_has_the_same():
    nan, inf = float("nan"), float("inf")
    reference = torch.tensor([nan, inf, -inf, 1.0])
    assert compare("y", reference.clone(), reference).passed
    for wrong in ([0.0, inf, -inf, 1.0], [nan, -inf, -inf, 1.0], [nan, 1.0, -inf, 1.0], [nan, inf, -inf, nan]):
        assert not compare("y", torch.tensor(wrong), reference).passed


def test_dtype_rank_and_shape_must_match():
    x = torch.ones(2, 3)
    assert compare("y", x.double(), x).problem == "dtype float64, the reference has float32"
    assert compare("y", x.reshape(3, 2), x).problem == "shape (3, 2), the reference has (2, 3)"
    assert compare("y", x[None], x).problem == "shape (1, 2, 3), the reference has (2, 3)"
    assert compare("y", torch.ones(0), torch.ones(0)).passed
    assert not compare("y", torch.tensor([1, 2]), torch.tensor([1, 3])).passed


def test_a_result_may_be_a_few_times_as_far_from_the_truth_as_torchs_own():
    truth = normal(4, 8, 32)
    own = noisy(truth, 1e-4, seed=1)
    assert judge("y", noisy(truth, 1e-4, seed=2), own, truth).passed
    assert judge("y", noisy(truth, 2e-4, seed=2), own, truth).passed
    result = judge("y", noisy(truth, 5e-4, seed=2), own, truth)
    assert not result.passed
    assert result.own_part == pytest.approx(1e-4, rel=0.1)
    assert not judge("y", noisy(truth, 1e-4, seed=2), truth.float(), truth).passed  # torch itself is exact here


def test_one_element_may_be_a_few_times_as_far_as_torchs_worst():
    truth = normal(1024)
    own = noisy(truth, 1e-4, seed=1)
    worst = float((own - truth).abs().max())
    for times, passes in ((5, True), (7, False)):
        got = truth.float().clone()
        got[234] += times * worst
        result = judge("y", got, own, truth)
        assert result.passed == passes
        assert passes or (result.worst_index == (234,) and result.wrong == 1)


@pytest.mark.parametrize(
    ("axis", "label"), [(0, "sample 1"), (1, "channel 1"), (3, "last axis 1")], ids=["sample", "channel", "last"]
)
def test_every_slice_is_judged_by_its_own_scale(axis, label):
    truth = normal(4, 5, 6, 7)
    scale = torch.ones(truth.shape[axis], dtype=torch.float64)
    scale[1] = 1e-6
    shape = [1] * 4
    shape[axis] = -1
    truth = truth * scale.reshape(shape)
    got = truth * (1 + 0.01 * (scale == 1e-6).reshape(shape))
    result = judge("y", got.float(), truth.float(), truth)
    assert not result.passed
    assert result.part.startswith(label) or label.split()[0] in result.part


def test_a_large_slice_hides_no_error_in_a_small_one():
    truth = normal(16, 64)
    truth[:, ::7] = -1e9 * normal(16, 10).abs() - 1e9
    got = truth.float().clone()
    got[:, 1::7] *= 1.001
    assert not judge("y", got, truth.float(), truth).passed
    assert judge("y", noisy(truth, 0), truth.float(), truth).passed


def test_a_repeated_extreme_value_is_exact():
    truth = normal(16, 64)
    truth[:, ::7] = -1e9
    got = truth.float().clone()
    assert judge("y", got, truth.float(), truth).passed
    got[0, 0] = -1e9 + 64
    assert not judge("y", got, truth.float(), truth).passed


def test_the_true_value_passes_where_torch_overflows():
    truth = torch.tensor([1e30, 2.0, 3.0, 1e39], dtype=torch.float64)
    own = torch.tensor([float("inf"), 2.0, 3.0, float("inf")])
    assert judge("y", own, own, truth).passed
    assert judge("y", torch.tensor([1e30, 2.0, 3.0, float("inf")]), own, truth).passed
    assert not judge("y", torch.tensor([5.0, 2.0, 3.0, float("inf")]), own, truth).passed
    assert not judge("y", torch.tensor([1e30, 2.0, 3.0, 3e38]), own, truth).passed


def test_integers_are_the_truth_or_torchs_own():
    truth, own = torch.arange(100), torch.arange(100)
    own[3] = 7
    got = truth.clone()
    assert judge("i", got, own, truth).passed
    got[3] = 7
    assert judge("i", got, own, truth).passed
    got[[10, 11]] += 1  # torch has one wrong, and three times as many may be
    assert judge("i", got, own, truth).passed
    got[[12, 13]] += 1
    assert not judge("i", got, own, truth).passed
    assert not judge("i", truth + 1, truth, truth).passed
    assert not judge("b", truth > 50, truth > 49).passed


def test_perturbed_results_of_torch_widen_its_error():
    truth = normal(4, 256)
    own, got = truth.float(), noisy(truth, 1e-4, seed=2)
    assert not judge("y", got, own, truth).passed
    others = [noisy(truth, 1e-4, seed=seed) for seed in (3, 4, 5)]
    result = judge("y", got, own, truth, others)
    assert result.passed
    assert result.truth == "perturbed"
    assert judge("y", got, own, None, others).passed


def test_a_tolerance_is_a_part_of_a_slice():
    truth = normal(4, 256)
    got = (truth * 1.001).float()
    assert not judge("y", got, truth.float(), truth).passed
    assert judge("y", got, truth.float(), truth, tolerance=Tolerance(floor=2e-3)).passed
    assert Tolerance(floor=2e-3).relaxed("float32")
    assert not Tolerance().relaxed("float32")
    assert Tolerance(worst=7).relaxed("float16")


@settings(max_examples=60, deadline=None)
@given(
    shape=st.lists(st.integers(1, 7), min_size=0, max_size=4),
    scale=st.sampled_from([1e-20, 1e-3, 1.0, 1e6]),
    seed=st.integers(0, 1000),
)
def test_a_result_rounded_once_passes(shape, scale, seed):
    """Two orders of summation in float32, beside each other: numpy's sum is pairwise, the other one goes forward."""
    generator = np.random.default_rng(seed)
    terms = generator.standard_normal((*shape, 9)).astype(np.float32) * np.float32(scale)
    truth = torch.as_tensor(terms.astype(np.float64).sum(-1))
    forward = np.zeros(shape, np.float32)
    for index in range(9):
        forward = forward + terms[..., index]
    backward = np.zeros(shape, np.float32)
    for index in reversed(range(9)):
        backward = backward + terms[..., index]
    got, own = torch.as_tensor(forward), torch.as_tensor(backward)
    moved = [torch.as_tensor((terms[..., order]).astype(np.float32).cumsum(-1)[..., -1]) for order in _orders(seed)]
    assert judge("y", got, own, truth, moved).passed


def _orders(seed):
    generator = np.random.default_rng(seed)
    return [generator.permutation(9) for _ in range(3)]


@settings(max_examples=60, deadline=None)
@given(shape=st.lists(st.integers(1, 9), min_size=1, max_size=4), seed=st.integers(0, 1000), data=st.data())
def test_one_wrong_element_is_always_seen(shape, seed, data):
    """An element that is off by a thousandth of itself, where torch is off by a rounding."""
    truth = normal(*shape, seed=seed)
    index = tuple(data.draw(st.integers(0, size - 1)) for size in shape)
    truth[index] = truth[index].sign() * max(float(truth.abs().max()), 1e-3)  # a great one, so that it is no noise
    got = truth.float().clone()
    got[index] *= 1.001
    assert not judge("y", got, truth.float(), truth).passed


@pytest.mark.parametrize(("error", "passes"), [(7e-8, True), (1e-5, False)])
def test_a_sum_that_cancels_has_the_error_of_its_terms(error, passes):
    """Probabilities of 1e-5 beside coefficients of 0.2, of which one is small: its error is that of the others."""
    torch.manual_seed(0)
    truth = torch.cat([torch.rand(1, 30, 40) * 1e-5, 0.2 + 0.05 * torch.randn(1, 10, 40)], 1).double()
    truth[0, 35, 7] = 0.003
    noise = truth.abs() * 5e-8
    own, *others = ((truth + noise * torch.randn(truth.shape)).float() for _ in range(8))
    got = own.clone()
    got[0, 35, 7] = truth[0, 35, 7] + error
    assert judge("y", got, own, truth, others).passed == passes


def _scales(shape, **of):
    """Truth of order one, parts of it in another scale: the scale of the elements of an index, by its name."""
    truth = normal(*shape)
    for index, scale in of.values():
        truth[index] *= scale
    return truth


SAMPLE, CHANNELS, FEW = (3,), (0, slice(8, 16)), (slice(None), 20)
ATTACKS = {
    "a small sample beside great ones": (_scales((8, 32), a=(SAMPLE, 1e-2)), SAMPLE, 2e-5),
    "a small sample of images": (_scales((8, 16, 4, 4), a=(SAMPLE, 1e-2)), SAMPLE, 2e-5),
    "small channels of one sample": (_scales((4, 32, 64), a=(CHANNELS, 1e-2)), CHANNELS, 2e-5),
    "a small place of the last axis": (_scales((2, 32, 64), a=((..., 9), 1e-2)), (..., 9), 2e-5),
    "small rows beside a great last axis": (_scales((1, 64, 4), a=((0, 5), 1e-2)), (0, 5), 2e-4),
    "the middle one of three scales": (
        _scales((1, 100, 84), a=((0, slice(0, 60)), 1e-5), b=((0, slice(96, 100)), 500.0)),
        (0, slice(60, 96)),
        2e-5,
    ),
    "a channel of the greatest of three scales": (
        _scales((1, 100, 84), a=((0, slice(0, 60)), 1e-5), b=((0, slice(96, 99)), 500.0)),
        (0, 99),
        2e-5,
    ),
    "a sample of what is much greater": (_scales((6, 40, 30), a=((slice(None), slice(0, 30)), 1e-5)), SAMPLE, 2e-5),
    "a tenth of the tiny channels": (
        _scales((1, 100, 84), a=((0, slice(0, 60)), 1e-5)),
        (0, slice(0, 60), slice(0, 84, 10)),
        2e-5,
    ),
    "one element of each channel": (_scales((1, 64, 16)), (0, slice(None), 3), 2e-5),
    "one great element of each sample": (_scales((32, 40), a=(FEW, 30.0)), FEW, 2e-5),
}


@pytest.mark.parametrize("name", ATTACKS)
def test_no_scale_hides_an_error_in_another(name):
    """Torch's own error is a rounding, and measured eight times; the network is off by many times that."""
    truth, index, part = ATTACKS[name]
    torch.manual_seed(1)
    own, *others = ((truth * (1 + 5e-8 * torch.randn(truth.shape))).float() for _ in range(8))
    got = truth.clone()
    assert judge("y", got.float(), own, truth, others).passed
    got[index] *= 1 + part
    assert not judge("y", got.float(), own, truth, others).passed
    assert not judge("y", got.float(), own, truth).passed


def test_zeros_of_a_sparse_output_are_exact_in_their_slices():
    """A sample, a channel and a channel of a sample that are 0 beside others that are not."""
    for index in ((2,), (slice(None), 5), (1, 7)):
        truth = torch.relu(normal(4, 12, 32))
        truth[index] = 0
        own, *others = ((truth * (1 + 5e-8 * torch.randn(truth.shape))).float() for _ in range(8))
        got = truth.float().clone()
        got[index] += 1e-7
        assert not judge("y", got, own, truth, others).passed


def test_every_element_is_judged_in_some_group():
    """Where each great element's channel or column is great for the most part, and no ordinary one is left."""
    truth = torch.full((1, 12, 12), torch.nan).double()
    truth[0, :4, 4:7] = truth[0, 4:7, :4] = 1e-6
    truth[0, :4, :4] = 1.0
    got = truth.float()
    assert judge("y", got, truth.float(), truth).passed
    got[0, 1, 5] *= 1.5
    assert not judge("y", got, truth.float(), truth).passed
