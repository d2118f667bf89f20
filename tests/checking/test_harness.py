"""The judge can fail: every evaluator that is broken, in each of several ways, fails a case of its table."""

import dataclasses
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from cases import CASES, run, trt

from trtdsl.core.errors import UnsupportedError
from trtdsl.layers.evaluation import KINDS, Node
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
@pytest.mark.parametrize(
    "type", sorted(set(KINDS) - {"ASSERTION", "PLUGIN_V2", "PLUGIN_V3", "DIST_COLLECTIVE"})
)  # a plugin's is the author's, and one rank alone evaluates no collective: tests/layers/test_collective.py
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


OPERATIONS = {
    "ACTIVATION": ("type", trt.ActivationType), "UNARY": ("op", trt.UnaryOperation),
    "ELEMENTWISE": ("op", trt.ElementWiseOperation), "REDUCE": ("op", trt.ReduceOperation),
}  # fmt: skip


@pytest.mark.parametrize(
    ("type", "name"),
    [(type, name) for type, (_, members) in OPERATIONS.items() for name in members.__members__ if name != "NONE"],
)
def test_a_broken_operation_is_caught(type, name, monkeypatch):
    kind, (attribute, _) = KINDS[type], OPERATIONS[type]

    def prepare(node):
        evaluate = kind.prepare(node)
        broken = getattr(node.layer, attribute).name == name
        return (lambda *operands: one_element(evaluate(*operands))) if broken else evaluate

    monkeypatch.setitem(KINDS, type, dataclasses.replace(kind, prepare=prepare))
    assert fails_somewhere(type)


def test_unbroken_evaluators_pass():
    assert not any(fails_somewhere(type) for type in ("UNARY", "GATHER", "LOOP_OUTPUT", "CONDITION"))


@pytest.mark.parametrize(
    ("type", "names"),
    [
        ("POOLING", ["AVERAGE", "MAX", "MAX_AVERAGE_BLEND", "EXPLICIT_ROUND_UP", "SAME_UPPER"]),
        ("CONVOLUTION", ["SAME_LOWER"]),
        ("SLICE", ["WRAP", "CLAMP", "REFLECT", "FILL"]), ("GATHER", ["ELEMENT", "ND"]), ("SCATTER", ["ELEMENT", "ND"]),
        ("FILL", ["LINSPACE", "RANDOM_NORMAL"]), ("ATTENTION_INPUT", ["SOFTMAX", "LOWER_RIGHT", "PACKED_NHD"]),
        ("KV_CACHE_UPDATE", ["LINEAR"]), ("NMS", ["CENTER_SIZES"]), ("TOPK", ["MIN"]), ("MOE", ["SILU"]),
        ("MATRIX_MULTIPLY", ["VECTOR"]), ("CUMULATIVE", ["SUM"]), ("SCALE", ["UNIFORM"]), ("TRIP_LIMIT", ["WHILE"]),
        ("LOOP_OUTPUT", ["CONCATENATE"]),
    ],
)  # fmt: skip
def test_an_attribute_value_that_is_not_known_is_an_error(type, names, monkeypatch):
    """A version of TensorRT that has more members than the evaluator: each one in turn is taken away from it."""
    known = Node.known
    for name in names:

        def without(node, member, choices, what, name=name):
            return known(node, member, [choice for choice in choices if choice != name], what)

        monkeypatch.setattr(Node, "known", without)
        errors = []
        for item in CASES:
            if item.type == type:
                try:
                    run(item)
                except UnsupportedError as error:
                    errors.append(str(error))
        assert any(f"({type}" in text and f"{name} cannot be interpreted" in text for text in errors), (name, errors)


@pytest.mark.parametrize("file", ["trtdsl/layers/quantize.py", "trtdsl/functional/windows/pooling.py"])
def test_the_doctests_of_one_file_alone(file):
    """Its evaluators are registered once, though pytest imports the file by itself."""
    command = [sys.executable, "-m", "pytest", "-q", "--collect-only", "-p", "no:cacheprovider", file]
    done = subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    assert file in done.stdout
