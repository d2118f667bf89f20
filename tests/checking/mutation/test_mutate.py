"""Mutants: what a check would not see is named, what it sees is not, and what cannot be seen is told by a rule."""

import json
import re
from collections import Counter
from dataclasses import dataclass, replace

import pytest
import torch
from cases import CASES
from layers_page import defined

import trtdsl as td
import trtdsl.functional as F
import trtdsl.layers as L
from trtdsl.checking.judging.equality import judge
from trtdsl.checking.mutation import mutate
from trtdsl.checking.mutation.mutants import moved, mutants
from trtdsl.checking.mutation.mutate import NOTHING, Hunt, agree
from trtdsl.core.tensors.exact import Exact
from trtdsl.interpreter.replay import Replay, same
from trtdsl.layers.region import nodes_of

pytestmark = pytest.mark.long

# Layers that have nothing to change: what they do is their shapes.
BARE = {"SQUEEZE", "UNSQUEEZE", "SHAPE", "IDENTITY", "ASSERTION", "ATTENTION_OUTPUT", "NON_ZERO", "NMS", "TRIP_LIMIT",
        "KV_CACHE_UPDATE", "RECURRENCE", "CONDITION", "CONDITIONAL_INPUT", "CONDITIONAL_OUTPUT"}  # fmt: skip


@dataclass
class Expected:
    """Feeds, and outputs that are known to be right."""

    feeds: dict
    outputs: dict
    exact: object = None
    alone: bool = False

    def compare(self, got):
        return [judge(name, got[name], expected) for name, expected in self.outputs.items()]


def hunted(net, feeds, outputs=None):
    """The report for a network and feeds, judged by its own outputs unless others are given."""
    hunt = Hunt(net, "network")
    for feed in feeds:
        hunt.add(Expected(feed, outputs or td.interpret(net, feed)))
    return hunt.report()


def of(found, type):
    return [one.change for one in found if one.type == type]


EVEN = [("DECONVOLUTION", "SAME_UPPER for SAME_LOWER"), ("CONVOLUTION", "SAME_UPPER for SAME_LOWER"),
        ("POOLING", "SAME_UPPER for SAME_LOWER")]  # fmt: skip
"""Whose cases have as much padding on both sides."""


# -- what is seen and what is not --------------------------------------------------------------------------------------


def test_a_relu_that_never_meets_a_negative_number_is_not_seen():
    net = td.Network()
    net.output(F.relu(net.input("x", (4,))), "y")
    report = hunted(net, [{"x": torch.tensor([1.0, 2.0, 3.0, 0.5])}])
    assert of(report.survivors, "ACTIVATION") == ["left out"]
    assert (report.mutants, report.caught, report.score) == (2, 1, 0.5)
    assert hunted(net, [{"x": torch.tensor([1.0, -2.0, 3.0, 0.5])}]).survivors == []


def test_a_mutant_that_passes_is_reported_with_its_line():
    net = td.Network()
    x = net.input("x", (4,))
    net.output(F.clamp(x, -10.0, 10.0), "y")
    survivors = hunted(net, [{"x": torch.tensor([1.0, -2.0, 3.0, 0.5])}]).survivors
    assert survivors
    assert all("test_mutate.py" in str(one) and one.location.line > 0 for one in survivors)


def test_every_weight_is_changed():
    net = td.Network()
    generator = torch.Generator().manual_seed(0)
    weight, bias = (net.constant(torch.randn(*size, generator=generator)) for size in ((5, 3, 3, 3), (5,)))
    net.output(F.conv2d(net.input("x", (1, 3, 6, 6)), weight, bias, padding=1), "y")
    feeds = {"x": torch.randn(1, 3, 6, 6, generator=generator)}
    report = hunted(net, [feeds])
    assert report.survivors == report.equivalent == []
    changes = {mutant.change for mutant in mutants(td.Interpreter(net).nodes[0])}
    assert {"kernel moved", "bias moved", "bias left out", "kernel flipped"} < changes


def test_the_rows_of_an_embedding_are_told_from_one_another():
    net = td.Network()
    table = net.constant(torch.arange(12.0).reshape(4, 3))
    net.output(F.embedding(net.input("ids", (2,), "int64"), table), "y")
    assert of(hunted(net, [{"ids": torch.tensor([0, 3])}]).survivors, "GATHER") == []


@pytest.mark.parametrize("lowering", ["parallel", "loop"])
def test_the_layers_of_a_loop_are_changed_too(lowering):
    net = td.Network()
    a, b = net.input("a", (2, 5)), net.input("b", (2, 5))
    net.output(F.linear_recurrence(a, b, 1, lowering=lowering), "y")
    generator = torch.Generator().manual_seed(0)
    feeds = {name: torch.rand(2, 5, generator=generator) + 0.5 for name in "ab"}
    report = hunted(net, [feeds])
    assert report.mutants > 5
    assert report.score == 1.0
    if lowering == "loop":
        kinds = {mutant.node.type for _, mutant in _all(net)}
        assert {"ITERATOR", "LOOP_OUTPUT", "ELEMENTWISE"} <= kinds


def _all(net):
    interpreter = td.Interpreter(net)
    return [(node, mutant) for node in interpreter.nodes for mutant in mutants(node)]


def test_cases_that_are_too_large_are_left_out_and_nothing_is_kept(monkeypatch):
    class Model(torch.nn.Module):
        def forward(self, x):
            return torch.relu(x.floor()).to(torch.int32)

    spec = td.network(inputs={"x": td.Input((td.Dim("N", min=2, max=6), 3))}, reference=Model)(
        lambda x: L.cast(F.relu(F.floor(x)), "int32")
    )
    whole = td.mutate(spec)
    monkeypatch.setattr(mutate, "MEMORY", 1)
    small = td.mutate(spec)
    assert small.cases == 1 < whole.cases
    assert small.equivalent == whole.equivalent
    # trunc(relu(x)) is relu(floor(x)), and what is whole need not be rounded
    assert [one.change for one in small.equivalent] == ["left out", "rounded"]


def test_a_network_that_differs_is_an_error():
    net = td.Network()
    net.output(F.relu(net.input("x", (2,))), "y")
    with pytest.raises(td.MismatchError, match="'y' differs before anything is changed"):
        hunted(net, [{"x": torch.tensor([1.0, 2.0])}], {"y": torch.tensor([1.0, 2.5])})


# -- what cannot be seen -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("write", "type", "change"),
    [
        (lambda x: F.abs(x - x.flip(0)), "ELEMENTWISE", "operands swapped"),
        (lambda x: F.log_softmax(x, 0), "REDUCE", "MIN for MAX"),
        (lambda x: F.relu(F.relu(x)), "ACTIVATION", "left out"),
        (lambda x: L.shuffle(x.reshape(1, 6), (1, 0)), "SHUFFLE", "transposes left out"),
        (lambda x: L.cast(F.floor(x), "int32"), "CAST", "rounded"),
    ],
)
def test_equivalent_mutants_are_excused(write, type, change):
    net = td.Network()
    net.output(write(net.input("x", (6,))), "y")
    report = hunted(net, [{"x": torch.tensor([0.3, -1.2, 2.5, -0.7, 1.1, 0.9])}])
    assert report.survivors == []
    if change in {mutant.change for _, mutant in _all(net) if mutant.node.type == type}:
        assert NOTHING in [one.reason for one in report.equivalent if (one.type, one.change) == (type, change)]


@pytest.mark.parametrize(
    ("write", "shape"),
    [
        (lambda x: F.gelu(x), (20,)),
        (lambda x: F.conv2d(x, torch.ones(2, 2, 3, 3), padding=1, stride=2), (1, 2, 6, 6)),
        (lambda x: F.avg_pool2d(x, 3, stride=2, padding=1), (1, 2, 6, 6)),
        (lambda x: F.layer_norm(x, (8,), eps=1e-5), (3, 8)),
        (lambda x: F.softmax(x, 1), (3, 8)),
        (lambda x: F.cumsum(x, 0), (4, 3)),
        (lambda x: x.transpose(0, 1), (3, 4)),
        (lambda x: F.interpolate(x, size=(7, 5), mode="bilinear"), (1, 1, 4, 4)),
    ],
)
def test_harmful_mutants_are_caught_and_not_excused(write, shape):
    net = td.Network()
    with net.current():
        net.output(write(net.input("x", shape)), "y")
    feeds = {"x": torch.randn(shape, generator=torch.Generator().manual_seed(0))}
    report = hunted(net, [feeds])
    assert report.survivors == report.equivalent == []


def test_a_mask_that_is_moved_as_a_whole_changes_nothing():
    """Softmax undoes it, up to the rounding of the fused attention in float32; to move a part of it is a change."""
    mask = torch.zeros(1, 1, 1, 40)
    mask[..., -1] = float("-inf")
    for part, found in ((mask, NOTHING), (mask + torch.linspace(0, 1, 40), None)):
        net = td.Network()
        with net.current():
            x = net.input("x", (1, 4, 40, 16))
            net.output(F.scaled_dot_product_attention(x, x * 2, x + 1, net.constant(part)), "y")
        feeds = {"x": torch.randn(1, 4, 40, 16, generator=torch.Generator().manual_seed(0))}
        report = hunted(net, [feeds, {"x": feeds["x"] * 3}, {"x": feeds["x"] * 1e-3}])
        moved_masks = [one for one in report.equivalent if (one.type, one.change) == ("CONSTANT", "moved")]
        assert report.survivors == []
        assert (found in [one.reason for one in moved_masks]) == (found == NOTHING)


@pytest.mark.parametrize("limit", [6.0, 1e3, 1e4])
def test_a_bound_that_no_feed_reaches_is_not_excused(limit):
    net = td.Network()
    with net.current():
        net.output(L.activation(net.input("x", (4,)), "CLIP", alpha=-limit, beta=limit), "y")
    report = hunted(net, [{"x": torch.tensor([1.0, -2.0, 3.0, 0.5])}])
    assert report.equivalent == []
    assert len(report.survivors) == report.mutants == 3


def test_agreement_is_rounding_and_no_more():
    x, exact = torch.tensor([1.0, 2.0, 1e-3]), Exact()
    with exact:
        rounded = (x / 3).half().float() * 3
    assert not torch.equal(rounded, x) and agree(exact, rounded, x)
    assert not agree(exact, x, x * (1 + 1e-7))
    assert not agree(exact, x, x.double())
    assert not agree(exact, x.int(), x.int() + 1)
    assert agree(exact, torch.tensor([float("nan"), 1.0]), torch.tensor([float("nan"), 1.0]))


# -- mutants of every layer --------------------------------------------------------------------------------------------


def test_every_kind_of_mutant_changes_some_case():
    """Of the cases of every layer type: a change that never changes anything would be no change."""
    effect: dict[tuple[str, str], bool] = {}
    with_mutants = set()
    for item in CASES:
        if item.raises is not None or item.dynamic or item.type in BARE:
            continue
        builder = defined(item)
        interpreter = td.Interpreter(builder.network)
        replay = None
        for step in interpreter.steps:
            for mutant in mutants(step.part) if step.part in interpreter.nodes else ():
                node = mutant.node
                with_mutants.add(node.type)
                key = node.type, re.sub(r"-?[0-9.]+(e-?[0-9]+)?", "", mutant.change)
                if effect.get(key):
                    continue
                replay = replay or Replay(interpreter, {f"x{index}": feed for index, feed in enumerate(item.feeds)})
                operands = [replay.values[slot] for slot in step.inputs]
                before = [replay.values[slot] for slot in step.outputs]
                try:
                    after = mutant.evaluate()(*operands)
                except (td.TrtdslError, RuntimeError, IndexError, ValueError, TypeError):
                    effect[key] = True  # it is refused
                    continue
                after = after if isinstance(after, tuple) else (after,)
                effect[key] = not all(same(a, b) for a, b in zip(after, before, strict=True))
    assert [key for key, changes in effect.items() if not changes and key not in EVEN] == []
    assert {item.type for item in CASES} - with_mutants - BARE == {"ITERATOR", "LOOP_OUTPUT"}  # those of regions


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.bool])
def test_moved_values_differ(dtype):
    values = torch.tensor([0, 1, 1]).to(dtype)
    after = moved(values)
    assert after.dtype == dtype
    assert not torch.equal(after, values)
    assert not torch.equal(moved(torch.zeros(3, dtype=dtype)), torch.zeros(3, dtype=dtype))
    limits = moved(torch.tensor([float("-inf"), 1.0]))
    assert limits[0] == float("-inf")


def test_replay_evaluates_what_depends_on_the_change_alone():
    net = td.Network()
    x = net.input("x", (3,))
    net.output(F.relu(x) * 2, "y")
    net.output(F.exp(x), "z")
    replay = Replay(td.Interpreter(net), {"x": torch.tensor([-1.0, 0.0, 1.0])})
    (place,) = [i for i, step in enumerate(replay.interpreter.steps) if step.node.type == "ACTIVATION"]
    left_out = next(mutant for mutant in mutants(replay.interpreter.steps[place].node) if mutant.change == "left out")
    changed = replay.changed(place, replace(replay.interpreter.steps[place], run=left_out.evaluate()))
    assert list(changed) == ["y"]
    assert torch.equal(changed["y"], torch.tensor([-2.0, 0.0, 2.0]))


def a_loop():
    """A scan over (T, 3) whose state is doubled and limited in each turn, with a layer that looks at the feed alone."""
    net = td.Network()
    x = net.input("x", ("T", 3))
    with net.current():
        start = F.zeros((3,))
        last, ys = td.scan(
            lambda state, part: (L.activation(state * 2 + F.exp(part), "CLIP", alpha=-50.0, beta=50.0), state), start, x
        )
        net.output(last, "last")
        net.output(ys, "ys")
    return net


def test_in_a_loop_too_the_layers_with_other_operands_alone_are_evaluated():
    calls = []

    def counted(node, evaluate):
        return lambda *operands: (calls.append(node.type), evaluate(*operands))[1]

    interpreter = td.Interpreter(a_loop(), wrap=counted)
    replay = Replay(interpreter, {"x": torch.linspace(-2, 1, 15).reshape(5, 3)})
    (place,) = [i for i, step in enumerate(interpreter.steps) if step.inside is not None]
    loop = interpreter.steps[place]
    (exp,) = [node for node in nodes_of(loop.part) if node.type == "UNARY"]
    (clip,) = [node for node in nodes_of(loop.part) if node.type == "ACTIVATION"]
    calls.clear()
    unlimited = replay.changed(place, loop, (clip, lambda x: x))
    assert Counter(calls)["UNARY"] == 0
    whole = Replay(interpreter, {"x": torch.linspace(-2, 1, 15).reshape(5, 3)}, unlimited_steps(interpreter, clip))
    for name, value in unlimited.items():
        assert torch.equal(value, whole.values[replay.outputs[name]])
    calls.clear()
    assert replay.changed(place, loop, (exp, torch.exp)) == {}
    assert not calls


def unlimited_steps(interpreter, clip):
    """The steps with another evaluator inside the loop, prepared in the ordinary way."""
    interpreter.wrap = lambda node, evaluate: (lambda x: x) if node is clip else evaluate
    return [interpreter._step(step.part) if step.inside is not None else step for step in interpreter.steps]


def test_the_state_of_a_loop_is_changed_too():
    net = a_loop()
    report = hunted(net, [{"x": torch.linspace(-2, 1, 15).reshape(5, 3)}])
    assert {mutant.node.type for _, mutant in _all(net)} >= {"RECURRENCE", "LOOP_OUTPUT", "ITERATOR"}
    assert of(report.survivors + report.equivalent, "RECURRENCE") == []


@pytest.mark.parametrize("place", [(0, 0), (9, 9), None])
def test_two_tensors_are_the_same_where_each_element_is(place):
    a = torch.arange(100.0).reshape(10, 10)
    a[0, 0] = a[9, 0] = torch.nan
    b = a.clone()
    if place is not None:
        b[place] = 0.0
    assert same(a, b) == same(a.T, b.T) == (place is None)
    assert not same(a, b[:9])
    assert not same(a, b.double())
    assert same(a[:0], b[:0])


# -- the command -------------------------------------------------------------------------------------------------------


def test_the_command_lists_survivors_and_scores(small, command_line):
    trtdsl = command_line(small)
    said = trtdsl("check", "small.py", "--mutate")
    assert "the check sees" in said.stdout
    result = json.loads(trtdsl("check", "small.py", "--mutate", "--json").stdout)["mutation"]
    assert result["score"] >= 0.99, result["survivors"]
    assert result["mutants"] == result["caught"] + len(result["survivors"]) + len(result["equivalent"])
    assert "--mutate draws its own feeds" in trtdsl("check", "small.py", "--mutate", "--feed", ".", code=2).stderr


def gallery(name, made_weights, **arguments):
    spec = td.load_spec(f"networks/{name}.py")
    return td.mutate(spec, weights=made_weights(name), **arguments)


def test_the_check_of_stn_sees_what_can_be_seen(made_weights):
    report = gallery("stn", made_weights)
    assert report.score >= 0.99, report.survivors


@pytest.mark.heavy
@pytest.mark.parametrize("name", ["mamba", "stgcn", "mobilefacenet"])
def test_the_checks_of_the_gallery_see_what_can_be_seen(name, made_weights):
    report = gallery(name, made_weights)
    assert report.score >= 0.99, report.survivors


def test_a_limit_tries_some_of_the_changes_evenly():
    class Twice(torch.nn.Module):
        def forward(self, x):
            return torch.relu(x * 2) - 1

    spec = td.network(inputs={"x": td.Input((4,))}, reference=Twice)(lambda x: F.relu(x * 2) - 1)
    whole, some = td.mutate(spec), td.mutate(spec, limit=3)
    assert whole.mutants == whole.possible == some.possible > some.mutants == 3
    assert some.caught == some.decidable


def test_a_change_that_makes_a_loop_endless_is_caught():
    net = td.Network()
    x = net.input("x", (3,))
    net.output(td.while_loop(lambda x: x.sum() < 9, lambda x: (x + 1,), (x,))[0], "y")
    report = hunted(net, [{"x": torch.tensor([-1.0, 0.0, last])} for last in (2.0, 1.1)])
    assert report.score == 1 and report.mutants > 3, report.survivors
