"""Which sides of a choice the feeds reached: in the network, and in torch."""

import pytest
import torch

import trtdsl as td
import trtdsl.functional as F
import trtdsl.layers as L
from trtdsl.checking.coverage import Coverage, watching
from trtdsl.checking.judging.isolate import Reference
from trtdsl.checking.judging.recording import Asked
from trtdsl.core.tensors.exact import Exact
from trtdsl.interpreter.reading import depends_on_inputs

ONES, MIXED = torch.ones(2, 3), torch.tensor([[-9.0, 0.5, 9.0], [-1.0, 0.0, 1.0]])


def missed_by_network(function, *feeds):
    net = td.Network()
    net.output(function(net.input("x", (2, 3))), "y")
    coverage = Coverage()
    run = watching(net, coverage)
    for feed in feeds:
        run({"x": feed})
    return [line.split(": ", 1)[1] for line in coverage.missed()]


def missed_by_torch(function, *feeds):
    coverage = Coverage()
    exact = Exact()
    exact.seen = coverage.of_operation
    with torch.no_grad(), exact:
        for feed in feeds:
            function(feed)
    return [line.split(": ", 1)[1] for line in coverage.missed()]


CHOICES = [
    (F.relu, torch.relu, ["relu: a negative value never occurred"]),
    (
        lambda x: L.activation(x, "CLIP", alpha=-4.0, beta=4.0),
        lambda x: x.clamp(-4, 4),
        ["clip: a value below -4 and a value above 4 never occurred"],
    ),
    (lambda x: F.where(x > 5, x, -x), lambda x: torch.where(x > 5, x, -x), ["greater: true never occurred"]),
    (
        lambda x: F.maximum(x, x * 0),
        lambda x: torch.maximum(x, x * 0),
        ["max: a second operand that is greater never occurred"],
    ),
]


@pytest.mark.parametrize(("network", "reference", "said"), CHOICES, ids=["relu", "clamp", "where", "maximum"])
def test_a_side_of_a_comparison_that_no_value_reached_is_named(network, reference, said):
    missed = missed_by_network(network, ONES)
    assert set(said) <= set(missed)
    assert missed_by_network(network, ONES, MIXED) == []
    torchs = missed_by_torch(reference, ONES)
    words = {line.split(": ")[1] for line in said}
    assert words <= {line.split(": ")[1] for line in torchs}
    assert missed_by_torch(reference, ONES, MIXED) == []


def test_a_choice_inside_of_a_function_has_the_functions_name():
    missed = missed_by_network(F.softplus, ONES)
    assert missed and all(" in softplus: " in line for line in missed)


def test_choices_of_torch_in_place_see_what_was_there_before():
    assert missed_by_torch(lambda x: x.clone().relu_(), MIXED) == []


@pytest.mark.parametrize("ask", [torch.isnan, torch.nan_to_num, torch.Tensor.isfinite, lambda x: x != x])
def test_an_author_who_asks_for_nan_is_noted(ask):
    class Asking(torch.nn.Module):
        def __init__(self, function):
            super().__init__()
            self.forward = lambda x: function(x)

    def asked(function):
        reference = Reference(lambda: Asking(function), None, Exact())
        reference({"x": MIXED})
        return reference.recording.asked

    assert not asked(lambda x: x.quantile(0.5)).nonfinite  # which asks inside
    assert asked(ask).nonfinite


def test_an_author_who_compares_with_a_number_is_noted():
    asked = Asked()
    asked.answer(torch.Tensor.__gt__, (MIXED, 2.5), {})
    asked.answer(torch.eq, (MIXED, MIXED + 1), {})
    assert asked.numbers == {2.5} and not asked.nonfinite and not asked.branches


def test_choices_that_depend_on_sizes_alone_are_ignored():
    net = td.Network()
    x = net.input("x", ("N", 3))
    with net.current():
        y = x + F.where(F.arange(x.shape[0]) > 100, 1.0, 0.0).unsqueeze(1)
    net.output(y, "y")
    coverage = Coverage()
    watching(net, coverage)({"x": torch.ones(2, 3)})
    assert coverage.missed() == []
    assert "y" in depends_on_inputs(net)


def test_a_report_names_the_lines_that_nothing_reached():
    class Reference(torch.nn.Module):
        def forward(self, x):
            return x.clamp(max=1e4)

    spec = td.network(inputs={"x": td.Input((2, 3))}, reference=Reference)(lambda x: x * 1)
    report = td.check(spec)
    assert report.passed  # nothing tells the two apart, and the report says what was not seen
    (line,) = report.unproven  # none of what the check compares itself
    assert line.endswith("the reference's clamp: a value above 10000 never occurred")
    assert "test_coverage.py:" in line


def test_one_choice_at_several_lines_is_one_line_with_the_list():
    net = td.Network()
    x = net.input("x", (2,))
    y = F.relu(x)
    y = F.relu(y + 1)
    net.output(F.relu(y + 2), "y")
    coverage = Coverage()
    watching(net, coverage)({"x": torch.ones(2)})
    lines = [facts.location for facts in net.layers.values() if facts.call.name == "relu"]
    assert coverage.missed() == [f"{'; '.join(map(str, lines))}: relu: a negative value never occurred"]


def test_what_a_check_compares_itself_is_no_choice_of_the_reference():
    spec = td.network(inputs={"x": td.Input((2, 3))}, reference=torch.nn.Softplus)(F.softplus)
    assert not [line for line in td.check(spec).unproven if "eq" in line or "ne" in line]
