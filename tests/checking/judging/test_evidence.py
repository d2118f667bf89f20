"""What a network is judged by: torch's own result first, float64 where it decides, then torch's own error."""

import pytest
import torch
from torch import nn
from torch.nn import functional as TF

import trtdsl as td
import trtdsl.functional as F
from trtdsl.checking.judging.equality import Tolerance, judge
from trtdsl.checking.judging.evidence import Evidence, Rules, as_tolerances, gather
from trtdsl.checking.judging.isolate import Reference
from trtdsl.checking.judging.noise import Noise


def evidence(module, feeds, rules=None, **options):
    return gather(Reference(module.eval().requires_grad_(False)), feeds, ["y"], rules or Rules(), **options)


@pytest.fixture
def linear():
    torch.manual_seed(0)
    module = nn.Linear(256, 64)
    return module, {"x": torch.randn(8, 256)}


def test_float64_is_run_only_where_it_decides(linear):
    module, feeds = linear
    found = evidence(module, feeds)
    own = module(feeds["x"]).detach()
    assert found.compare({"y": own})[0].truth == "torch"
    assert "truth" not in vars(found)
    near = own.double() * (1 + 5e-7)
    result = found.compare({"y": near.float()})[0]
    assert result.truth in ("float64", "perturbed")
    assert found.truth["y"].dtype == torch.float64
    assert not found.compare({"y": own * 1.0001})[0].passed


def test_the_error_measured_at_smaller_sizes_stands_for_that_of_greater_ones(linear):
    module, feeds = linear
    own = module(feeds["x"]).detach()
    noise = Noise(moving=[0])
    noise.learn(own.double() * (1 + 3e-7), own.double())
    found = evidence(module, feeds, noise={"y": noise})
    result = found.compare({"y": (own.double() * (1 + 5e-7)).float()})[0]
    assert result.passed
    assert result.truth == "smaller"
    assert "truth" not in vars(found)
    assert not found.compare({"y": own * 1.0001})[0].passed


def test_an_error_measured_in_one_channel_does_not_excuse_another():
    """Noise is kept by static places: a channel of exact results stays exact, however loud the other one is."""
    noise = Noise(moving=[0])
    truth = torch.rand(20, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) + 0.5
    noise.learn(truth * torch.tensor([1 + 1e-4, 1.0]), truth)
    values = torch.rand(30, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(1)) + 0.5
    error = noise.at(values, torch.ones(30, 2, dtype=torch.bool))
    assert error[:, 1].max() == 0
    assert 0.5e-4 < float(error[:, 0].mean()) < 2e-4


def test_small_values_have_small_expected_errors():
    noise = Noise(moving=[0])
    truth = torch.rand(20, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) + 0.5
    noise.learn(truth * (1 + 1e-4), truth)
    values = truth * torch.logspace(-3, 0, 20, dtype=torch.float64)[:, None]
    error = noise.at(values, torch.ones(20, 8, dtype=torch.bool))
    parts = error.square().mean(1).sqrt() / values.square().mean(1).sqrt()
    assert float(parts.min()) > 0.7e-4
    assert float(parts.max()) < 1.4e-4


def test_an_error_measured_at_one_width_does_not_excuse_another():
    noise = Noise(moving=[0])
    truth = torch.ones(4, 8, dtype=torch.float64)
    assert noise.at(truth, truth > 0) is None
    noise.learn(truth * (1 + 1e-4), truth)
    assert noise.at(torch.ones(4, 9, dtype=torch.float64), torch.ones(4, 9, dtype=torch.bool)) is None


def test_one_cause_of_all_errors_of_a_slice_is_expected_in_every_slice():
    """Each sample is off by its own mean: of sixteen samples, torch's is nearly exact in one by chance."""
    truth = torch.randn(16, 64, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    means = torch.linspace(0.5e-3, 1.5e-3, 16, dtype=torch.float64)
    own = (truth + means[:, None] * torch.tensor([1e-3] + [1.0] * 15, dtype=torch.float64)[:, None]).float()
    got = (truth + means[:, None]).float()
    assert not judge("y", got, own, truth).passed
    assert judge("y", got, own, truth, [own]).passed
    assert not judge("y", (truth + 10 * means[:, None]).float(), own, truth, [own]).passed


def test_indices_of_equal_values_may_differ():
    """The greatest of two that differ by a rounding: torch itself says either, as its inputs are moved."""

    class Greatest(nn.Module):
        def forward(self, x):
            return (x * 1.1).argmax(1)

    x = torch.tensor([[1.0, 1.0 + 2**-23, 0.5]] * 16)
    found = evidence(Greatest(), {"x": x})
    assert found.compare({"y": torch.zeros(16, dtype=torch.int64)})[0].passed
    assert not found.compare({"y": torch.full((16,), 2)})[0].passed


def test_tolerances_are_parts_or_tolerances_by_output():
    rules = Rules(as_tolerances(1e-3, {"a": 1e-2, "b": Tolerance(rms=9)}))
    assert rules.of("a").floor == 1e-2
    assert rules.of("b").rms == 9
    assert rules.of("c").floor == 1e-3
    assert rules.relaxed("a", "float32")
    assert not Rules().relaxed("a", "float32")
    for wrong in ("1e-3", 2, {"a": None}, True, -1):
        with pytest.raises(td.UsageError, match="a tolerance is a part of a slice"):
            as_tolerances(wrong)


def test_a_relaxed_tolerance_is_reported_and_used():
    class Sines(nn.Module):
        def forward(self, x):
            return torch.sin(x)

    def spec(**options):
        return td.network(inputs={"x": td.Input((4, 8))}, reference=Sines, **options)(lambda x: F.sin(x) * 1.0005)

    assert not td.check(spec()).passed
    for report in (td.check(spec(), tolerance=1e-3), td.check(spec(tolerance={"output": 1e-3}))):
        assert report.passed
        assert report.relaxed[0].startswith("output 'output' has more room than by default")
        assert report.to_json()["tolerances"]["output"]["floor"] == 1e-3
    assert not td.check(spec(tolerance=1e-3), tolerance=1e-4).passed  # the call's counts


@pytest.mark.parametrize("order", [torch.channels_last, torch.contiguous_format])
@pytest.mark.parametrize("part", [0.0, 3e-6])
def test_a_convolution_may_sum_in_either_order_of_memory(order, part):
    """Torch's kernel for channels first has three times the error of that for channels last, where images are small."""
    kernel = torch.randn(512, 1024, 3, 3, generator=torch.Generator().manual_seed(0)) / 96

    class Model(torch.nn.Module):
        def forward(self, x):
            w = kernel.to(x.dtype).contiguous(memory_format=order)
            return TF.silu(torch.conv2d(x.contiguous(memory_format=order), w, padding=1))

    spec = td.network(inputs={"x": td.Input((1, 1024, 2, 2))}, reference=Model)(
        lambda x: F.silu(F.conv2d(x, kernel, padding=1)) * (1 + part)
    )
    assert td.check(spec).passed == (part == 0)


def of_a_batch(off: list[int], truth_differs: bool = False):
    """A batch of 8 with torch's error of 1e-4 known everywhere, and a network that is 5 times as far off at one place
    of some samples: each passes by itself, where the place has 4 elements, and the place of all samples does not.
    """
    generator = torch.Generator().manual_seed(0)
    own = torch.randn(8, 50, 4, generator=generator) + 3
    errors = 1e-4 * torch.randn(8, 50, 4, generator=generator, dtype=torch.float64).sign()
    known = Noise([0])
    known.learn(own, own.double() + errors)
    got = own.clone()
    got[off, 7] += 5e-4
    asked: list[list[int]] = []

    def part(samples):
        asked.append(list(samples))
        true = (own if truth_differs else got)[list(samples)].double()
        return Evidence({}, ["y"], Rules(), None, {"y": own[list(samples)]}, lambda: {"y": true + 1e-9})

    def whole():
        asked.append(list(range(8)))
        return {"y": own.double() + errors}

    how = {"noise": {"y": known}, "samples": 8, "part": part}
    return Evidence({}, ["y"], Rules(), None, {"y": own}, whole, **how).compare({"y": got}), asked


def test_of_a_slice_through_a_batch_float64_judges_the_samples_that_make_it_differ():
    (result,), asked = of_a_batch([1, 3, 4, 6])
    assert result.passed
    assert len(asked) == 1
    assert len(asked[0]) == 2
    assert set(asked[0]) < {1, 3, 4, 6}


def test_the_whole_batch_is_judged_where_most_samples_make_it_differ_or_some_fail():
    (result,), asked = of_a_batch(list(range(8)))
    assert not result.passed
    assert asked == [list(range(8))]
    (result,), asked = of_a_batch([1, 3, 4, 6], truth_differs=True)
    assert not result.passed
    assert asked[-1] == list(range(8))
