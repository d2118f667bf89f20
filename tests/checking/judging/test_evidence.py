"""What a network is judged by: torch's own result first, float64 where it decides, then torch's own error."""

import pytest
import torch
from torch import nn

import trtdsl as td
import trtdsl.functional as F
from trtdsl.checking.judging.evidence import Rules, as_tolerances, gather
from trtdsl.checking.judging.isolate import Reference
from trtdsl.checking.judging.judge import Tolerance


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
    found = evidence(module, feeds, noise={"y": 3e-7})
    result = found.compare({"y": (own.double() * (1 + 5e-7)).float()})[0]
    assert result.passed
    assert result.truth == "smaller"
    assert "truth" not in vars(found)
    assert not found.compare({"y": own * 1.0001})[0].passed


def test_integers_of_equal_values_may_be_others():
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


def test_a_relaxed_tolerance_is_said_and_kept():
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
