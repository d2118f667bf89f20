"""The plan of an einsum: made from shapes alone, executed with numpy."""

from __future__ import annotations

import math
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import opt_einsum
import pytest
from hypothesis import given, settings
from support.einsum_cases import cases, run_plan

import trtdsl as td
from trtdsl.functional.einsum.equation import parse
from trtdsl.functional.einsum.plan import MatrixMultiply, Shuffle
from trtdsl.functional.einsum.search import Problem

PAIRS = ("matrix product", "multiply", "multiply and sum", "products added up")


def operations(equation, *shapes, constants=()):
    plan = td.explain_einsum(equation, *shapes, constants=constants)
    return [type(operation).__name__ for operation in plan.operations]


def integers(shapes, seed=0):
    """Small whole numbers, whose products and sums are exact."""
    generator = np.random.default_rng(seed)
    return [generator.integers(-3, 4, shape).astype(np.float64) for shape in shapes]


@settings(max_examples=400, deadline=None)
@given(cases(dynamic=False))
def test_the_plan_means_the_equation_and_makes_nothing_large(case):
    equation = parse(case.equation, [len(shape) for shape in case.shapes])
    plan = Problem(equation, case.shapes, case.constants).plan()
    values = run_plan(plan, integers(case.shapes))
    labels = {label: chr(97 + k) for k, label in enumerate(plan.sizes)}
    terms, output = (
        ["".join(labels[label] for label in term) for term in terms] for terms in (equation.terms, [equation.output])
    )
    # numpy does not broadcast labels of size 1 as torch does: they are taken out, and put back at the end.
    squeezed = [
        (
            np.squeeze(x, tuple(axis for axis, size in enumerate(x.shape) if size == 1)),
            "".join(label for label, size in zip(term, x.shape, strict=True) if size != 1),
        )
        for term, x in zip(terms, integers(case.shapes), strict=True)
    ]
    wide = {label for _, term in squeezed for label in term}
    expected = np.einsum(
        ",".join(term for _, term in squeezed) + "->" + "".join(label for label in output[0] if label in wide),
        *[x for x, _ in squeezed],
    )
    shape = tuple(plan.sizes[label] for label in equation.output)
    assert np.array_equal(values[plan.result], expected.reshape(shape))
    if len(case.shapes) > 1:
        made = [math.prod(plan.sizes[label] for label in step.labels[-1]) for step in plan.steps if step.kind in PAIRS]
        limit = max([x.size for x in integers(case.shapes)] + made + [expected.size])
        assert all(value.size <= limit for value in values)
    assert all(value.ndim <= 8 for value in values)


@settings(max_examples=200, deadline=None)
@given(cases(dynamic=False))
def test_integers_mean_the_same(case):
    equation = parse(case.equation, [len(shape) for shape in case.shapes])
    operands = integers(case.shapes)
    plan = Problem(equation, case.shapes, case.constants).plan()
    expected = run_plan(plan, operands)[plan.result]
    other = Problem(equation, case.shapes, case.constants, integers=True).plan()
    assert not any(isinstance(operation, MatrixMultiply) for operation in other.operations)
    assert np.array_equal(run_plan(other, operands)[other.result], expected)


def test_the_path_is_as_good_as_opt_einsums():
    equation, shapes = "ab,bcd,def,fg,ch->aegh", [(9, 40), (40, 5, 30), (30, 7, 20), (20, 6), (5, 8)]
    plan = td.explain_einsum(equation, *shapes)
    _, info = opt_einsum.contract_path(equation, *shapes, shapes=True, optimize="optimal")
    assert plan.flops <= float(info.opt_cost)
    assert plan.largest <= max(float(info.largest_intermediate), *(math.prod(shape) for shape in shapes))


@pytest.mark.parametrize(
    ("equation", "shapes", "constants", "expected"),
    [
        # The flags of the product absorb what is transposed.
        ("ij,jk->ik", [(20, 30), (30, 40)], [], ["MatrixMultiply"]),
        ("ji,jk->ik", [(30, 20), (30, 40)], [], ["MatrixMultiply"]),
        ("ij,kj->ik", [(20, 30), (40, 30)], [], ["MatrixMultiply"]),
        ("bji,bkj->bik", [(2, 30, 20), (2, 40, 30)], [], ["MatrixMultiply"]),
        # The operands are swapped, and the result needs no transposition.
        ("ij,jk->ki", [(20, 30), (30, 40)], [], ["MatrixMultiply"]),
        ("bij,bjk->bki", [(2, 20, 30), (2, 30, 40)], [], ["MatrixMultiply"]),
        # A broadcast batch dimension saves two transpositions; what remains are reshapes.
        ("nctw,cd->ndtw", [("N", 64, 300, 18), (64, 128)], [1], ["Shuffle", "Shuffle", "MatrixMultiply", "Shuffle"]),
        # One transposition of the activation; the constant is permuted when the network is written.
        ("nkctv,kvw->nctw", [("N", 3, 64, 300, 18), (3, 18, 18)], [1], ["Shuffle", "Shuffle", "MatrixMultiply"]),
        # Nothing contracted, or nothing on one side: no matrix product.
        ("bld,dn->bldn", [("B", 5, 6), (6, 4)], [1], ["Shuffle", "Shuffle", "Multiply"]),
        ("bdn,bn->bd", [("B", 6, 4), ("B", 4)], [], ["Shuffle", "Multiply", "Reduce"]),
        ("i,i->", [(50,), (50,)], [], ["Multiply", "Reduce"]),
        # What is summed alone is summed first.
        ("ijx,jk->ik", [(20, 30, 9), (30, 40)], [], ["Reduce", "MatrixMultiply"]),
        ("iji->j", [(4, 5, 4)], [], ["Diagonal", "Reduce"]),
    ],
)
def test_plans_equal_those_worked_by_hand(equation, shapes, constants, expected):
    assert operations(equation, *shapes, constants=constants) == expected


def test_a_small_contraction_under_a_large_batch_is_no_matrix_product():
    assert "MatrixMultiply" not in operations("bij,bjk->bik", (100000, 3, 3), (100000, 3, 3))
    assert "MatrixMultiply" in operations("bij,bjk->bik", (16, 128, 3), (16, 3, 128))


def test_the_innermost_dimension_stays_when_a_result_is_transposed():
    plan = td.explain_einsum("bhnm,bdhm->bdhn", ("B", 4, 64, 64), ("B", 1024, 4, 64))
    shuffles = [operation for operation in plan.operations if isinstance(operation, Shuffle)]
    assert [operation.first for operation in shuffles] == [(0, 2, 1, 3), (0, 2, 1, 3)]


def test_a_large_operand_is_not_the_one_to_be_flagged_as_transposed():
    # TensorRT-RTX copies an operand that a flag transposes; here one of the operands is transposed anyway.
    plan = td.explain_einsum("bhnm,bdhm->bdhn", ("B", 4, 1024, 1024), ("B", 64, 4, 1024))
    (product,) = [operation for operation in plan.operations if isinstance(operation, MatrixMultiply)]
    assert (product.a, product.transpose_a) == (0, False)


def test_constants_are_contracted_first_where_that_is_free():
    plan = td.explain_einsum("nctv,kvw,kvw->nkctw", ("N", 64, 300, 18), (3, 18, 18), (3, 18, 18), constants=[1, 2])
    assert plan.steps[0].operands == (1, 2)
    assert plan.steps[0].flops == 0


def test_more_than_eight_labels_are_merged():
    # Four operands of eight dimensions; whichever two come first, their product has ten labels or more.
    equation, shapes = "aidbejcf,kagblhmc,dnkeolfp,gihnojpm->", [(2,) * 8] * 4
    operands = integers(shapes)
    plan = td.explain_einsum(equation, *shapes)
    values = run_plan(plan, operands)
    assert max(len(step.labels[-1]) for step in plan.steps) > 8
    assert max(value.ndim for value in values) <= 8
    assert values[plan.result] == np.einsum(equation, *operands, optimize=True)


def test_the_text_says_what_is_done_and_why():
    plan = td.explain_einsum(
        "nkctv,kvw->nctw", (td.Dim("N", min=1, opt=8, max=16), 3, 64, 300, 18), (3, 18, 18), constants=[1]
    )
    lines = str(plan).splitlines()
    assert lines[0] == "n k c t v, k v w -> n c t w"
    assert "  costs where N = 8" in lines
    assert "   contracted k v; left n c t; right w" in lines
    assert (
        f"   transposes n k c t v to n c t k v, rows and contracted together ({2 * 4 * 8 * 3 * 64 * 300 * 18:,} bytes)"
        in lines
    )
    flops = 2 * 8 * 64 * 300 * 18 * 54
    assert plan.flops == flops
    assert f"{flops:,}" in str(plan)
    assert plan.largest == 8 * 3 * 64 * 300 * 18


def test_names_and_integers():
    shapes = [("B", 6), (6, 4)]
    assert td.explain_einsum("batch in, in out -> batch out", *shapes, names=True).equation.output == ("batch", "out")
    assert str(td.explain_einsum("b d_in, d_in n -> b n", *shapes).equation) == "b d_in, d_in n -> b n"
    plan = td.explain_einsum("ij,jk->ik", *shapes, integers=True)
    assert [type(operation).__name__ for operation in plan.operations] == ["Shuffle", "Shuffle", "Multiply", "Reduce"]
    few = td.explain_einsum("ij,jk->ik", (100, 3), (3, 100), integers=True)  # product by product: nothing large
    assert few.largest == 100 * 100


def test_the_plan_needs_neither_tensorrt_nor_torch():
    code = (
        "import sys, trtdsl as td; print(td.explain_einsum('ij,jk', (2, 3), (3, 4))); "
        "sys.exit(any(name in sys.modules for name in ('torch', 'tensorrt', 'tensorrt_rtx')))"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (("ij,jk->ik", (2, 3), (4, 5)), td.ShapeError, "label 'j' is 3 in operand 0"),
        (("ij", (2, 3, 4)), td.DefinitionError, r"operand 0 \(i j\) has 2 labels, but 3 dimensions"),
        (("ij->ik", (2, 3)), td.DefinitionError, "the output's label 'k' is in no operand"),
        (("ij", (2, -3)), td.UsageError, "a size is an int"),
        (("ij",), td.DefinitionError, "at least one operand"),
        (("abcd,efgh,ijkl", (1,) * 4, (1,) * 4, (1,) * 4), td.DefinitionError, "12 dimensions; TensorRT has at most 8"),
    ],
)
def test_refusals(arguments, error, message):
    with pytest.raises(error, match=message):
        td.explain_einsum(*arguments)


def test_the_guide_shows_what_is_printed(capsys):
    guide = (Path(__file__).parents[3] / "docs" / "einsum.md").read_text()
    names, printed, compared = {}, "", 0
    for language, block in re.findall(r"^```(\w*)\n(.*?)^```", guide, re.DOTALL | re.MULTILINE):
        if language == "python":
            exec(compile(block, "docs/einsum.md", "exec"), names)
            printed = capsys.readouterr().out
        elif printed:
            assert block == printed
            printed, compared = "", compared + 1
    assert compared == 3
