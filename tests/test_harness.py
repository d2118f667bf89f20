"""The judge can fail: every evaluator that is broken, in each of several ways, fails a case of its table."""

import dataclasses
import importlib

import pytest
import torch
from cases import CASES, run

from trtdsl.layers.base import KINDS
from trtdsl.layers.region import REGIONS


def shifted(value):
    """Every element is another."""
    if value.dtype == torch.bool:
        return ~value
    return (value.float() + 1).to(value.dtype) if value.dtype.is_floating_point else value + 1


def one_element(value):
    """The last element alone is another."""
    if not value.numel():
        return value
    flat = value.clone().flatten()
    flat[-1:] = shifted(flat[-1:])
    return flat.reshape(value.shape)


def reversed_order(value):
    """Right values in wrong places."""
    return value.flatten().flip(0).reshape(value.shape)


def another_type(value):
    """Right values of a wrong dtype."""
    return value.int() if value.dtype != torch.int32 else value.long()


def longer(value):
    """A dimension of the wrong size."""
    return torch.cat((value, value)) if value.ndim else value.reshape(1)


BREAKAGES = [shifted, one_element, reversed_order, another_type, longer]


def fails_somewhere(type):
    """Whether a case of the type fails; a broken evaluator may fail in any way."""
    for item in CASES:
        if item.type == type:
            try:
                run(item)
            except Exception:
                return True
    return False


def broken_values(results, breakage):
    if isinstance(results, tuple):
        return tuple(breakage(value) for value in results)
    return breakage(results)


@pytest.mark.parametrize("breakage", BREAKAGES, ids=lambda breakage: breakage.__name__)
@pytest.mark.parametrize("type", sorted(set(KINDS) - {"ASSERTION"}))
def test_a_broken_evaluator_is_caught(type, breakage, monkeypatch):
    kind = KINDS[type]

    def prepare(node):
        evaluate = kind.prepare(node)
        return lambda *operands: broken_values(evaluate(*operands), breakage)

    monkeypatch.setitem(KINDS, type, dataclasses.replace(kind, prepare=prepare))
    assert fails_somewhere(type)


def test_an_assertion_that_never_or_always_fails_is_caught(monkeypatch):
    kind = KINDS["ASSERTION"]

    def never(condition):
        return ()

    def always(condition):
        raise ValueError

    for evaluate in (never, always):
        monkeypatch.setitem(KINDS, "ASSERTION", dataclasses.replace(kind, prepare=lambda node, e=evaluate: e))
        assert fails_somewhere("ASSERTION")


class Distorted:
    """A region's view of its values, in which one type of boundary layer goes wrong."""

    def __init__(self, state, region, type):
        self.state = state
        nodes = [node for node in region.boundary if node.type == type]
        self.written = {name for node in nodes for name in node.makes}
        self.read_wrong = {name for node in nodes if not node.makes for name in node.needs}

    def read(self, tensor):
        value = self.state.read(tensor)
        return shifted(value) if tensor.name in self.read_wrong else value

    def write(self, tensor, value):
        self.state.write(tensor, shifted(value) if tensor.name in self.written else value)

    def execute(self, program):
        self.state.execute(program)


@pytest.mark.parametrize("type", sorted(REGIONS))
def test_a_broken_boundary_of_a_region_is_caught(type, monkeypatch):
    kind = REGIONS[type]

    def prepare(region, body):
        evaluate = kind.prepare(region, body)
        return lambda state: evaluate(Distorted(state, region, type))

    broken = dataclasses.replace(kind, prepare=prepare)
    for boundary in kind.boundary:
        monkeypatch.setitem(REGIONS, boundary, broken)
    assert fails_somewhere(type)


TABLES = {
    type: importlib.import_module(f"trtdsl.layers.{type.lower()}")._EVALUATE
    for type in ("ACTIVATION", "UNARY", "ELEMENTWISE", "REDUCE")
}


@pytest.mark.parametrize(("type", "name"), [(type, name) for type, table in TABLES.items() for name in table])
def test_a_broken_operation_of_a_table_is_caught(type, name, monkeypatch):
    evaluate = TABLES[type][name]
    monkeypatch.setitem(TABLES[type], name, lambda *operands: one_element(evaluate(*operands)))
    assert fails_somewhere(type)


def test_unbroken_evaluators_pass():
    assert not any(fails_somewhere(type) for type in ("UNARY", "GATHER", "LOOP_OUTPUT", "CONDITION"))
