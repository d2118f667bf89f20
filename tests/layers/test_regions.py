"""Which layers stand inside a loop or a conditional: nested ones and shared ones.

Random ones are among those of tests/functional/test_random_networks.py.
"""

import numpy as np
import pytest
import torch
from cases import BACKEND, Builder, trt

import trtdsl as td
import trtdsl.layers as L
from trtdsl.core.errors import DefinitionError
from trtdsl.layers.evaluation import Node
from trtdsl.layers.region import partition

i32 = torch.int32


def number(net, value, dtype=torch.int64):
    return net.constant(torch.tensor(value, dtype=dtype))


def run(net, **feeds):
    """The output ``y``, and the names of the tensors that were made, as often as they were."""
    seen = []
    value = td.interpret(net, {k: torch.as_tensor(v) for k, v in feeds.items()}, observe=lambda n, t: seen.append(n))[
        "y"
    ]
    return value.item(), seen


def nested_names(net):
    """For each region its kind, the names of the layers directly in it, and its regions."""
    nodes = [Node(BACKEND, net.definition.get_layer(index)) for index in range(net.definition.num_layers)]

    def of(region):
        return region.kind.name, sorted(node.name for node in region.nodes), [of(other) for other in region.regions]

    with BACKEND.listen():
        rest, regions = partition(nodes, list(net.outputs))
        return sorted(node.name for node in rest), [of(region) for region in regions]


def test_an_inner_loop_may_depend_on_the_outer_one_by_its_limit_alone():
    """1 + 2 + … + n by adding ones: the inner body has nothing of the outer loop but the number of its iterations."""
    net = td.Network()
    outer = L.Loop(net)
    outer.count(net.input("n", (), "int32"))
    index = outer.recurrence(number(net, 1, i32))
    outer.next(index, L.elementwise(index, number(net, 1, i32), "SUM"))
    inner = L.Loop(net)
    inner.count(index)
    ones = inner.recurrence(number(net, 0))
    inner.next(ones, L.elementwise(ones, number(net, 1), "SUM"))
    total = outer.recurrence(number(net, 0))
    outer.next(total, L.elementwise(total, inner.last_value(ones), "SUM"))
    net.output(outer.last_value(total), "y")
    assert run(net, n=torch.tensor(4, dtype=i32))[0] == 10
    rest, ((kind, _, ((inner_kind, body, _),)),) = nested_names(net)
    assert (kind, inner_kind) == ("loop", "loop")
    assert len(body) == 1
    assert not any("elementwise" in name for name in rest)


def test_a_loop_after_a_loop_is_not_inside_it():
    net = td.Network()
    x = net.input("x", ("T",), "int64")
    first = L.Loop(net)
    first.count(x.shape[0])
    doubled = first.concatenate(L.elementwise(first.iterator(x), number(net, 2), "PROD"), x.shape[0])
    second = L.Loop(net)
    second.count(x.shape[0])
    total = second.recurrence(number(net, 0))
    second.next(total, L.elementwise(total, second.iterator(doubled), "SUM"))
    net.output(second.last_value(total), "y")
    assert run(net, x=[1, 2, 3])[0] == 12
    assert [kind for kind, _, inner in nested_names(net)[1] if not inner] == ["loop", "loop"]


def test_loop_invariants_are_computed_once():
    net = td.Network()
    x = net.input("x", (), "int64")
    square = L.elementwise(x, x, "PROD")
    loop = L.Loop(net)
    loop.count(5)
    total = loop.recurrence(number(net, 0))
    loop.next(total, L.elementwise(total, square, "SUM"))
    net.output(loop.last_value(total), "y")
    value, seen = run(net, x=3)
    assert value == 45
    assert seen.count(square.name) == 1


def test_values_of_one_branch_are_computed_there_and_shared_ones_once():
    net = td.Network()
    x, c = net.input("x", (), "int64"), net.input("c", (), "bool")
    branch = L.Conditional(c)
    both = L.elementwise(x, number(net, 1), "SUM")
    other = L.elementwise(x, number(net, 7), "SUM")
    then = L.elementwise(L.elementwise(both, number(net, 2), "PROD"), other, "SUM")
    otherwise = L.elementwise(both, number(net, 3), "PROD")
    chosen = branch.output(then, otherwise)
    net.output(L.elementwise(chosen, other, "SUB"), "y")
    for condition, want in ((True, 2 * 6), (False, 3 * 6 - 12)):
        value, seen = run(net, x=5, c=condition)
        assert value == want
        assert seen.count(both.name) == seen.count(other.name) == 1
        assert (then.name in seen, otherwise.name in seen) == (condition, not condition)


def test_a_loop_of_which_one_result_is_needed_outside_runs_in_any_case():
    net = td.Network()
    x, c = net.input("x", (), "int64"), net.input("c", (), "bool")
    branch = L.Conditional(c)
    loop = L.Loop(net)
    loop.count(3)
    a, b = loop.recurrence(x), loop.recurrence(number(net, 0))
    loop.next(a, L.elementwise(a, a, "SUM"))
    loop.next(b, L.elementwise(b, a, "SUM"))
    inside, outside = loop.last_value(a), loop.last_value(b)
    chosen = branch.output(L.unary(inside, "NEG"), L.identity(x))
    net.output(L.elementwise(chosen, outside, "SUM"), "y")
    assert run(net, x=1, c=True)[0] == -8 + 7
    assert run(net, x=1, c=False)[0] == 1 + 7


def test_a_condition_made_by_a_conditional():
    net = td.Network()
    x = net.input("x", (), "int64")
    positive = L.elementwise(number(net, 0), x, "LESS")
    first = L.Conditional(positive)
    middle = first.output(L.elementwise(x, number(net, 10), "SUB"), L.elementwise(x, number(net, 10), "SUM"))
    second = L.Conditional(L.elementwise(number(net, 0), middle, "LESS"))
    net.output(second.output(L.identity(middle), L.unary(middle, "NEG")), "y")
    assert [run(net, x=v)[0] for v in (15, 5, -5, -15)] == [5, 5, 5, 5]


def test_an_assertion_in_a_loop_is_looked_at_in_each_iteration():
    builder = Builder()
    with BACKEND.listen():
        x = builder.add_input("x", trt.int64, (4,))
        loop = builder.add_loop()
        loop.add_trip_limit(builder.constant(np.int32(4)), trt.TripLimit.COUNT)
        row = loop.add_iterator(x).get_output(0)
        small = builder.add_elementwise(row, builder.constant(np.int64(5)), trt.ElementWiseOperation.LESS).get_output(0)
        builder.add_assertion(small, "all less than five")
        total = loop.add_recurrence(builder.constant(np.int64(0)))
        total.set_input(
            1, builder.add_elementwise(total.get_output(0), row, trt.ElementWiseOperation.SUM).get_output(0)
        )
        result = loop.add_loop_output(total.get_output(0), trt.LoopOutput.LAST_VALUE).get_output(0)
        result.name = "y"
        builder.mark_output(result)
    assert td.interpret(builder.network, {"x": torch.tensor([1, 2, 3, 4])})["y"].item() == 10
    with pytest.raises(DefinitionError, match="all less than five"):
        td.interpret(builder.network, {"x": torch.tensor([1, 2, 5, 4])})
