"""Random networks: the interpreter against the programs in the engines that TensorRT builds of them."""

from dataclasses import replace

import pytest
import torch
from fuzz.program import define, difference, draw, run_many, smallest

import trtdsl as td
from trtdsl.core.errors import UnevaluatedProgramError

SEEDS = range(24)
MANY = range(1000, 2000)
ORDERS_OF_NAN = {"REDUCE"}
"""Types that keep or lose NaN by its place among the elements: docs/interpreter.md."""


def judged(networks):
    """How many of each outcome; fails with the smallest part of each network that differs."""
    counts, found = {}, []
    for drawn, outcome in run_many(networks):
        kind = outcome.partition(":")[0]
        counts[kind] = counts.get(kind, 0) + 1
        if kind == "differs" and not (drawn.special and ORDERS_OF_NAN & {step.type for step in drawn.steps}):
            found.append(f"{smallest(drawn)}: {outcome}")
    assert not found, "\n".join(found)
    return counts


def test_programs_give_what_the_interpreter_gives():
    counts = judged(draw(f"usual-{seed}") for seed in SEEDS)
    assert counts["equal"] > sum(counts.values()) // 2


@pytest.mark.heavy
@pytest.mark.parametrize("special", [False, True])
def test_many_programs_give_what_the_interpreter_gives(special):
    counts = judged(draw(f"{'s' if special else 'f'}{seed}", special=special) for seed in MANY)
    assert counts["equal"] > sum(counts.values()) // 2


def test_a_scatter_in_place_keeps_the_rest():
    counts = judged(draw(f"scatter-{seed}", most=1, types=("SCATTER",)) for seed in range(6))
    assert counts["equal"] >= 2


def test_a_part_of_a_network_is_drawn_as_in_the_whole():
    drawn = next(drawn for seed in range(50) if (drawn := draw(f"part-{seed}")) is not None and len(drawn.steps) > 2)
    whole, part = define(drawn), define(replace(drawn, steps=drawn.steps[:1]))
    for name, feed in part.feeds.items():
        torch.testing.assert_close(whole.feeds[name], feed, equal_nan=True)


def test_a_result_of_another_rounding_is_equal_and_another_value_is_not():
    x = torch.tensor([1.0, float("nan"), float("inf"), 100.0])
    assert difference(x + 1e-4, x) is None
    assert "1 of 4 differ" in str(difference(x + torch.tensor([0.1, 0.0, 0.0, 0.0]), x))
    assert "nan" in str(difference(torch.where(x == 1, x, 0.0), x))
    assert "not torch.float32" in str(difference(x.half(), x))


def test_builders_errors_are_those_that_the_traps_describe():
    """The program of attention without normalization is softmax: docs/traps/builder-attention.md."""
    from cases import BACKEND, trt

    q, k, v = (torch.rand(1, 1, size, 8, generator=torch.Generator().manual_seed(size)) for size in (4, 5, 5))
    builder = trt.Builder(BACKEND.logger)
    definition = builder.create_network(0)
    inputs = [definition.add_input(f"x{i}", trt.float32, tuple(x.shape)) for i, x in enumerate((q, k, v))]
    attention = definition.add_attention_v2(*inputs, trt.AttentionNormalizationOp.NONE, trt.CausalMaskKind.NONE)
    attention.decomposable = True
    definition.mark_output(attention.get_output(0))
    attention.get_output(0).name = "y"
    plan = builder.build_serialized_network(definition, builder.create_builder_config())
    try:
        found = td.evaluate_engine(bytes(plan), {"x0": q, "x1": k, "x2": v}, trust=True)["y"]
    except UnevaluatedProgramError as error:
        pytest.skip(str(error))
    torch.testing.assert_close(found, torch.softmax(q @ k.mT, -1) @ v, rtol=1e-4, atol=1e-4)
