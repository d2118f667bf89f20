"""Random layers of every type: TensorRT's inferred shape and dtype, and what it folds, against the interpreter."""

import pytest
import torch
from cases import Builder, trt
from fuzz import RECIPES, Trial, judge
from test_cases import EXCLUDED

import trtdsl as td
import trtdsl.functional as F
from trtdsl.core.errors import DefinitionError, UnsupportedError
from trtdsl.interpreter.interpret import Interpreter
from trtdsl.layers import evaluation

EACH = 60  # layers of each recipe; a heavy run draws many more
FOLDED = {
    "ACTIVATION", "ASSERTION", "CAST", "CONCATENATION", "CONDITION", "CONDITIONAL_INPUT", "CONDITIONAL_OUTPUT",
    "CONSTANT", "ELEMENTWISE", "FILL", "GATHER", "IDENTITY", "MATRIX_MULTIPLY", "ONE_HOT", "REDUCE", "SCALE",
    "SELECT", "SHAPE", "SHUFFLE", "SLICE", "SQUEEZE", "UNARY", "UNSQUEEZE",
}  # fmt: skip


def draws(type, count, start=0):
    """What was compared of each layer drawn."""
    return [judge(type, drawn, f"{type}-{drawn.__name__}-{start + seed}")
            for drawn in RECIPES[type] for seed in range(count)]  # fmt: skip


@pytest.mark.parametrize("type", sorted(RECIPES))
def test_random_layers(type):
    compared = draws(type, EACH)
    share = sum("static" in seen for seen in compared) / len(compared)
    assert share > 0.3, f"TensorRT refuses {1 - share:.0%} of the layers drawn"
    assert any("dynamic" in seen for seen in compared) or type in ("DECONVOLUTION", "NMS", "ROTARY_EMBEDDING")
    assert type not in FOLDED or any("folded" in seen for seen in compared)


@pytest.mark.heavy
@pytest.mark.parametrize("type", sorted(RECIPES))
def test_many_random_layers(type):
    draws(type, 3000, EACH)


def test_every_layer_type_is_drawn():
    assert set(RECIPES) == set(trt.LayerType.__members__) - EXCLUDED


@pytest.mark.parametrize(
    ("type", "wrong"),
    [
        ("UNARY", lambda run: lambda x: run(x).double()),
        ("REDUCE", lambda run: lambda x: run(x).unsqueeze(0)),
        ("CONCATENATION", lambda run: lambda *x: run(*x[::-1])),
        ("SELECT", lambda run: lambda c, a, b: run(c, b, a)),
        ("SLICE", lambda run: lambda x, *rest: run(x.flip(0) if x.ndim else x, *rest)),
    ],
)
def test_a_wrong_evaluator_is_caught(type, wrong, monkeypatch):
    right = evaluation.KINDS[type]
    changed = evaluation.Kind(type, lambda node: wrong(right.prepare(node)), right.flops, right.moves)
    monkeypatch.setitem(evaluation.KINDS, type, changed)
    with pytest.raises(AssertionError, match="seed"):
        draws(type, EACH)


def test_a_trial_draws_the_same_again():
    first, second = (Trial("a seed", "static") for _ in range(2))
    assert first.shape() == second.shape()
    assert torch.equal(first.values((5,), torch.float32), second.values((5,), torch.float32))


@pytest.mark.parametrize(
    ("add", "message"),
    [
        (lambda n, x: n.add_unary(x, trt.UnaryOperation.EXP), "EXP of int8"),
        (lambda n, x: n.add_activation(x, trt.ActivationType.SIGMOID), "SIGMOID of int8"),
        (lambda n, x: n.add_softmax(x), "softmax of int8"),
    ],
)
def test_int8_that_has_no_documented_result_is_refused(add, message):
    builder = Builder()
    builder.network.mark_output(add(builder, builder.add_input("x", trt.int8, (2, 3))).get_output(0))
    with pytest.raises(UnsupportedError, match=message):
        Interpreter(builder.network)


def test_a_constant_division_by_zero_names_the_line():
    net = td.Network()
    with pytest.raises(DefinitionError, match="an integer is divided by 0"):
        F.floor_divide(net.constant(torch.tensor([4, 3])), net.constant(torch.tensor([2, 0])))
