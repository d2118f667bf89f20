"""Random layers: the interpreter against the program in the engine that TensorRT builds of them."""

import pytest
import torch
from fuzz.program import RECIPES, difference, held_against_program

import trtdsl as td
from trtdsl.core.errors import UnevaluatedProgramError

APART = {
    "KV_CACHE_UPDATE": "the cache that is given and the one that comes out are one memory, which the caller sees to",
    "SHAPE": "the engine holds no program",
}
"""Types that are left out, and why."""
USUAL = (
    "ACTIVATION", "CAST", "CONCATENATION", "CONVOLUTION", "DEQUANTIZE", "ELEMENTWISE", "GATHER", "GRID_SAMPLE",
    "MATRIX_MULTIPLY", "NORMALIZATION", "ONE_HOT", "PADDING", "PARAMETRIC_RELU", "POOLING", "QUANTIZE", "REDUCE",
    "RESIZE", "REVERSE_SEQUENCE", "SCALE", "SELECT", "SHUFFLE", "SLICE", "UNARY",
)  # fmt: skip


def results(types, seeds, special):
    return [
        held_against_program(type, drawn, f"{type}-{drawn.__name__}-{seed}", special=special)
        for seed in seeds
        for type in types
        for drawn in RECIPES[type]
    ]


def test_programs_give_what_the_interpreter_gives():
    found = results(USUAL, range(1), False)
    assert found.count("equal") > len(found) // 2


@pytest.mark.heavy
@pytest.mark.parametrize("special", [False, True])
def test_many_programs_give_what_the_interpreter_gives(special):
    found = results([type for type in RECIPES if type not in APART], range(40), special)
    assert found.count("equal") > len(found) // 3


def test_a_scatter_in_place_keeps_the_rest():
    found = results(["SCATTER"], ("0", "1", "3"), False)
    assert found.count("equal") >= 2


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
