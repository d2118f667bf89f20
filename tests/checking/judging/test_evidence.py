"""A network is judged by what it means, and apart from that by how well it computes it."""

import pytest
import torch
from torch import nn

import trtdsl as td
import trtdsl.functional as F
from trtdsl.checking.judging.equality import Tolerance
from trtdsl.checking.judging.evidence import Evidence, Rules, as_tolerances


class Function(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *inputs):
        return self.function(*inputs)


def checked(ours, theirs, shape=(4, 64), **how):
    spec = td.network(inputs={"x": td.Input(shape)}, reference=lambda: Function(theirs))(ours)
    return td.check(spec, **how)


@pytest.mark.parametrize("precision", [None, "fp16", "bf16"])
def test_a_difference_far_below_rounding_is_seen_in_every_precision(precision):
    weight = torch.randn(64, 64, generator=torch.Generator().manual_seed(0)) / 8
    assert checked(lambda x: F.linear(x, weight), lambda x: nn.functional.linear(x, weight), precision=precision).passed
    other = weight.clone()
    other[5, 7] *= 1.0001
    report = checked(lambda x: F.linear(x, weight), lambda x: nn.functional.linear(x, other), precision=precision)
    assert not report.passed and "in exact arithmetic" in "".join(report.problems())


def test_a_module_that_reads_its_dtype_is_run_as_it_is_written():
    def theirs(x):
        return x / (x.abs().sum(1, keepdim=True) + torch.finfo(x.dtype).eps * 1e4).float()

    eps = torch.finfo(torch.float32).eps * 1e4
    assert checked(lambda x: x / (F.abs(x).sum(1, keepdim=True) + eps), theirs).passed
    assert not checked(lambda x: x / (F.abs(x).sum(1, keepdim=True) + 1.01 * eps), theirs).passed


def test_an_epsilon_of_a_norm_is_seen_and_its_own_passes():
    def theirs(x):
        return nn.functional.layer_norm(x, (64,), eps=1e-6)

    assert checked(lambda x: F.layer_norm(x, (64,), eps=1e-6), theirs, precision="fp16").passed
    assert not checked(lambda x: F.layer_norm(x, (64,), eps=1.1e-6), theirs, precision="fp16").passed


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [(lambda x: F.exp(x) - 1.0, torch.expm1), (lambda x: F.log(1.0 + F.exp(x)), nn.functional.softplus)],
    ids=["expm1", "softplus"],
)
def test_what_means_the_same_and_is_computed_badly_is_refused(ours, theirs):
    report = checked(ours, theirs, shape=(8, 64))
    assert not report.passed


def test_an_operator_of_the_reference_that_takes_plain_tensors_alone_leaves_quality():
    def theirs(x):
        if "_exact" in vars(x * 1):
            raise RuntimeError("plain tensors alone")
        return x * 2

    report = checked(lambda x: x + x, theirs)
    assert report.passed
    assert any("what the network means" in line and "plain tensors alone" in line for line in report.unproven)
    assert not checked(lambda x: x + x * 1.01, theirs).passed


def test_a_number_that_is_read_of_half_precision_is_as_rounded_as_torchs():
    def ours(x, factor=1.0):
        return x * (F.mean(x.to(torch.float16)).to(torch.float32) * factor)

    def theirs(x):
        return x * x.half().mean().item()

    assert checked(ours, theirs).passed
    assert not checked(lambda x: ours(x, 1.001), theirs).passed


def test_chaos_is_excused_and_said():
    def theirs(x):
        for _ in range(60):
            x = 3.9 * x * (1 - x)
        return x

    def ours(x):
        for _ in range(60):
            x = 3.9 * (x - x * x)
        return x

    spec = td.network(inputs={"x": td.Input((4, 64), sample=(0.1, 0.9))}, reference=lambda: Function(theirs))(ours)
    report = td.check(spec)
    assert any("2**-52" in line for line in report.unproven)


def test_tolerances_are_parts_or_tolerances_by_output():
    given = as_tolerances(1e-3, {"y": Tolerance(times=5)})
    assert given == {None: Tolerance(floor=1e-3), "y": Tolerance(times=5)}
    for wrong in (2, -1, "1e-3", True):
        with pytest.raises(td.UsageError, match=r"1e-3, or a td\.Tolerance"):
            as_tolerances(wrong)


def test_a_tolerance_is_of_an_output():
    with pytest.raises(
        td.UsageError, match=r"has no output 'outputs', of which a tolerance was given \(nearest: output\)"
    ):
        checked(lambda x: x, lambda x: x, tolerance={"outputs": 1e-3})


def test_a_relaxed_tolerance_is_reported_and_used():
    report = checked(lambda x: x * 1.0001, lambda x: x, tolerance=1e-3)
    assert report.passed and len(report.relaxed) == 1
    assert not checked(lambda x: x * 1.0001, lambda x: x).passed


def test_a_sum_in_half_that_overflows_is_refused_for_its_quality():
    report = checked(lambda x: F.softmax(x, 1), lambda x: torch.softmax(x, 1))
    assert report.passed
    ours = checked(lambda x: F.exp(x) / F.exp(x).sum(1, keepdim=True), lambda x: torch.softmax(x, 1))
    outputs = [output for case in ours.cases for output in case.outputs if not output.passed]
    assert outputs and all(output.truth == "quality" for output in outputs)


def test_what_cancels_among_great_elements_passes_beside_rows_a_billion_times_smaller():
    turns = torch.arange(4).double() * torch.pi  # float64 has no π, and so not 0 for its sine
    waves = torch.stack([torch.arange(1.0, 5.0), turns.sin().float()], 1)

    def theirs(x):
        return torch.stack([x @ torch.arange(1.0, 5.0), torch.zeros_like(x[:, 0])], 1)

    assert checked(lambda x: x @ waves, theirs, shape=(6, 4)).passed
    assert not checked(lambda x: x @ (waves + 1e-7), theirs, shape=(6, 4)).passed


def test_of_two_that_round_differently_one_may_overflow():
    """Where float16 is left, the engine's program of a quantized network has infinities in other places."""

    def compared(got):
        own = {"y": torch.tensor([torch.inf, 65248.0, 1.0])}
        evidence = Evidence({}, Rules({}, (), {"y": 20.0}), None, None, own)
        return evidence.compare({"y": torch.tensor(got)}, meaning=False)[0].passed

    assert compared([65248.0, torch.inf, 1.0])
    assert not compared([1000.0, torch.inf, 1.0])
    assert not compared([65248.0, torch.nan, 1.0])


def test_how_many_elements_the_last_bit_chooses_is_no_error_and_what_is_made_of_them_is():
    def theirs(x):
        return x[(x * 3).sum(1) / 3 >= x.sum(1)]

    def ours(x, factor=1.0):
        return (x * factor)[F.sum(x / 7.0, 1) * 7.0 >= F.sum(x, 1)]

    report = checked(ours, theirs, shape=(2, 64))
    assert report.passed, report
    assert not checked(lambda x: ours(x, 1.0001), theirs, shape=(2, 64)).passed
    assert not checked(lambda x: x[F.sum(x, 1) > 0.0], theirs, shape=(2, 64)).passed


def test_a_table_that_is_used_whole_and_in_part_has_its_exact_values_in_both():
    def theirs(x):
        table = torch.arange(9 * 64).view(9, 64).float().div(7).cos()
        return torch.cat([x, x[:, :1]], 1) * table, x * table[:8]

    def ours(x):
        table = F.cos(F.arange(9 * 64).view(9, 64).float() / 7.0)
        return F.cat([x, x[:, :1]], 1) * table, x * table[:8]

    assert checked(ours, theirs, shape=(2, 8, 64)).passed
