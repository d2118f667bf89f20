"""Checks: what counts as equal, what is fed, and that they can fail."""

import math

import pytest
import torch

import trtdsl as td
import trtdsl.functional as F
from trtdsl.checking.check import CheckReport, Tolerance, compare, compare_outputs, named_outputs
from trtdsl.definition.spec import load_spec
from trtdsl.interpreter.feeds import make_feeds, profile_points


def test_equal_values_pass_and_figures_are_what_they_say():
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


def test_tolerance_is_relative_to_scale_and_element():
    expected = torch.tensor([100.0, 0.0])
    assert compare("y", expected + torch.tensor([0.0, 9e-4]), expected).passed  # 1e-5 of the scale
    assert not compare("y", expected + torch.tensor([0.0, 2e-3]), expected).passed
    assert compare("y", expected + torch.tensor([0.0, 2e-3]), expected, Tolerance(0, 1e-4)).passed


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


def test_the_set_of_outputs_must_match():
    x = torch.ones(1)
    results = {r.name: r for r in compare_outputs({"a": x, "b": x}, {"a": x, "c": x})}
    assert results["a"].passed
    assert results["b"].problem == "only the network has this output"
    assert results["c"].problem == "only the reference has this output"


def test_outputs_of_the_reference_by_name_or_in_order():
    a, b = torch.ones(1), torch.zeros(1)
    assert named_outputs({"p": a, "q": None}, ["x"]) == {"p": a}
    assert named_outputs((a, [b]), ["x", "y"]) == {"x": a, "y": b}
    assert list(named_outputs((a, b), ["x"])) == ["x", "reference output 1"]


def test_every_corner_and_a_point_between():
    net = td.Network()
    net.input("x", (td.Dim("N", min=1, opt=4, max=16), td.Dim("T", min=2, opt=8, max=8)))
    points = [tuple(point.values()) for point in profile_points(net)]
    assert points == [(1, 2), (4, 8), (16, 8), (8, 5), (16, 2), (1, 8)]
    assert profile_points(td.Network()) == [{}]


def test_a_network_without_ranges_says_what_to_give(small):
    net = td.Network()
    net.input("x", ("N", 3))
    with pytest.raises(td.UsageError, match=r"dimension N has no range: give one with td.Dim\('N'.* or --dim N="):
        profile_points(net)


def test_feeds_are_signed_or_as_the_input_says():
    net = td.Network()
    inputs = {
        "x": td.Input((100,)),
        "u": td.Input((100,), sample=(2.0, 3.0)),
        "i": td.Input((100,), "int64", sample=(5, 9)),
        "b": td.Input((100,), "bool"),
        "c": td.Input((2,), "int32", sample=lambda shape, generator: torch.full(shape, 7, dtype=torch.int32)),
    }
    for name, spec in inputs.items():
        net.add_input(name, spec)
    feeds = make_feeds(inputs, net, {}, torch.Generator().manual_seed(0))
    assert feeds["x"].min() < -1
    assert 2 <= feeds["u"].min() < 2.2
    assert 2.8 < feeds["u"].max() <= 3
    assert feeds["i"].unique().tolist() == [5, 6, 7, 8]
    assert feeds["b"].dtype == torch.bool
    assert feeds["c"].tolist() == [7, 7]
    again = make_feeds(inputs, net, {}, torch.Generator().manual_seed(0))
    assert all(torch.equal(feeds[name], again[name]) for name in feeds)


def test_integer_inputs_must_say_what_to_feed():
    net = td.Network()
    spec = td.Input((2,), "int64")
    net.add_input("i", spec)
    with pytest.raises(td.UsageError, match=r"input 'i' is int64: say what to feed it, as td.Input\(…, sample="):
        make_feeds({"i": spec}, net, {}, torch.Generator())
    wrong = td.Input((2,), "int64", sample=lambda shape, generator: torch.zeros(3))
    with pytest.raises(td.FeedError, match=r"the sample of input 'i' is torch.float32 \(3,\), not torch.int64 \(2,\)"):
        make_feeds({"i": wrong}, net, {}, torch.Generator())


def test_a_network_equals_its_reference(small):
    report = td.check(load_spec(str(small / "small.py")))
    assert report.passed
    assert [case.dims["N"] for case in report.cases] == [1, 2, 4, 3]
    assert "interpreted" in report.statement
    assert "no engine was executed" in report.statement
    assert report.to_json()["cases"][0]["outputs"][0]["name"] == "scores"
    assert report.raise_for_mismatch() is report


def test_a_report_says_what_was_executed():
    statements = {on: CheckReport("small", "tensorrt", on, [], 0).statement for on in ("engine", "interpreter")}
    assert statements == {
        "engine": "The engine itself was executed on this machine's GPU.",
        "interpreter": "The network was interpreted on the CPU, layer by layer; no engine was executed.",
    }


def test_a_wrong_weight_a_swapped_output_and_a_wrong_operation_are_caught(small):
    spec = load_spec(str(small / "small.py"))
    net = spec.define()
    opened = spec.open_weights()
    for name in opened.shapes:
        if name.endswith("num_batches_tracked"):
            continue
        wrong = {other: opened.get(other).clone() for other in opened.shapes}
        wrong[name].view(-1)[0] *= 1.01
        report = td.check(spec, network=spec.define(weights=wrong))
        assert not report.passed, name
    text = (small / "small.py").read_text()
    (small / "small.py").write_text(text.replace("F.relu(", "F.elu("))
    report = td.check(load_spec(str(small / "small.py")))
    assert not report.passed
    with pytest.raises(
        td.MismatchError, match=r"small: output 'scores' differs at N = 1: \d+ of 6 elements are out of"
    ):
        report.raise_for_mismatch()
    assert td.check(spec, network=net).passed


def test_a_reference_may_return_several_outputs():
    class Two(torch.nn.Module):
        def forward(self, x):
            return x * 2, x + 1

    good = td.network(inputs={"x": td.Input((3,))}, reference=Two)(lambda x: (x * 2, x + 1))
    swapped = td.network(inputs={"x": td.Input((3,))}, reference=Two)(lambda x: (x + 1, x * 2))
    fewer = td.network(inputs={"x": td.Input((3,))}, reference=Two)(lambda x: x * 2)
    assert td.check(good).passed
    assert not td.check(swapped).passed
    report = td.check(fewer)
    assert not report.passed
    assert report.cases[0].outputs[-1].problem == "only the reference has this output"


def test_a_reference_that_fails_is_named_with_its_line_and_sizes(small):
    reference = small / "reference.py"
    reference.write_text(reference.read_text().replace("mean((2, 3))", "mean((2, 3)).view(2, 4)"))
    with pytest.raises(td.DefinitionError, match=r"reference.py:13: the reference fails at N = 1: RuntimeError: shape"):
        td.check(load_spec(str(small / "small.py")))


def test_without_a_reference_there_is_nothing_to_check():
    spec = td.network(inputs={"x": td.Input((3,))}, name="lonely")(lambda x: F.relu(x))
    with pytest.raises(td.UsageError, match="lonely has no reference"):
        td.check(spec)
    with pytest.raises(td.UsageError, match="on is 'interpreter' or 'engine'"):
        td.check(spec, on="moon")
