"""The search for an einsum's plan: its prices are the costs of what is drafted, and nothing cheaper is overlooked."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.einsum_cases import cases

import trtdsl as td
from trtdsl.core.errors import UnsupportedError
from trtdsl.functional.einsum import search
from trtdsl.functional.einsum.draft import Costs, Draft, Value
from trtdsl.functional.einsum.equation import Equation, parse
from trtdsl.functional.einsum.search import kinds_of, ways_of

pytestmark = pytest.mark.long

LABELS = "abcde"


@st.composite
def products(draw, operands):
    """An equation in which nothing is summed alone, its labels' sizes, the dynamic ones and the constants."""
    sizes = {label: draw(st.sampled_from([2, 3, 16, 18, 64, 300])) for label in LABELS}
    places = {label: draw(st.sets(st.integers(0, operands - 1), min_size=1)) for label in LABELS}
    terms = tuple(tuple(draw(st.permutations([x for x in LABELS if k in places[x]]))) for k in range(operands))
    kept = [label for label in LABELS if len(places[label]) == 1 or draw(st.booleans())]
    dynamic = draw(st.sets(st.sampled_from(LABELS), max_size=2))
    constants = tuple(draw(st.integers(0, 3)) == 0 for _ in terms)
    return Equation(terms, tuple(draw(st.permutations(kept)))), sizes, dynamic, constants


def start(case):
    """A draft of the operands alone."""
    equation, sizes, dynamic, constants = case
    operands = [tuple((label,) for label in term) for term in equation.terms]
    return Draft(Costs(sizes, dynamic), map(Value, operands, constants))


def cheapest(draft, path, equation, limit):
    """The least cost of all plans along a path, each drafted whole."""
    if not path:
        final = draft.copy()
        final.arrange(*draft.left, tuple((label,) for label in equation.output))
        return final.cost
    a, b = (draft.left[k] for k in path[0])
    one, two = draft.labels(a), draft.labels(b)
    later = [draft.labels(value) for value in draft.left if value not in (a, b)]
    kinds = kinds_of(one, two, set(equation.output).union(*later))
    found = math.inf
    for way in ways_of(draft.costs, one, two, kinds, equation.output, limit, False):
        other = draft.copy()
        try:
            other.step(way.kind, (a, b), way.append, *way.how)
        except UnsupportedError:
            continue
        found = min(found, cheapest(other, path[1:], equation, limit))
    return found


def plan_of(case, paths=None):
    equation, sizes, dynamic, constants = case
    dims = {
        label: td.Dim(label, min=1, opt=size, max=size) if label in dynamic else size for label, size in sizes.items()
    }
    shapes = tuple(tuple(dims[label] for label in term) for term in equation.terms)
    return search.Problem(equation, shapes, constants).plan(paths)


@settings(max_examples=150, deadline=None)
@given(products(2))
def test_no_plan_of_two_operands_is_cheaper_than_the_one_found(case):
    equation, draft = case[0], start(case)
    path = [(0, 1)]
    limit = search.greatest(draft.costs, equation.terms, equation, path)
    assert plan_of(case).cost == pytest.approx(cheapest(draft, path, equation, limit), rel=1e-12)


@settings(max_examples=40, deadline=None)
@given(products(3))
def test_no_plan_along_a_path_is_cheaper_where_all_layouts_are_carried_on(case):
    equation, draft = case[0], start(case)
    path = ((0, 1), (0, 1))
    limit = search.greatest(draft.costs, equation.terms, equation, path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(search, "BEAM", 1 << 20)
        search._searched.cache_clear()
        found = plan_of(case, (path,)).cost
        search._searched.cache_clear()
    assert found == pytest.approx(cheapest(draft, path, equation, limit), rel=1e-12)


@settings(max_examples=100, deadline=None)
@given(cases(), st.floats(0.5, 1.5))
def test_a_plan_within_a_cost_is_the_plan_or_none(case, part):
    equation = parse(case.equation, [len(shape) for shape in case.dims])
    problem = search.Problem(equation, case.dims, case.constants)
    try:
        plan = problem.plan()
    except UnsupportedError:
        return
    within = problem.plan_within(plan.cost * part)
    if part < 1:
        assert within is None or plan.cost == 0
    else:  # at the very cost it may be another plan that costs as much
        assert within is not None and (within == plan or (part == 1 and within.cost == plan.cost))
