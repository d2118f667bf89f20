"""F.einsum against torch.einsum, through the interpreter."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from support import assert_close, layer_types
from support.einsum_cases import Case, cases
from torch.testing._internal.common_methods_invocations import op_db

import trtdsl as td
import trtdsl.functional as F


def emitted(net):
    """The types of the layers that compute, constants left out."""
    return [name for name in layer_types(net) if name != "CONSTANT"]


def build(equation, operands, *, dims=None, constants=(), function=F.einsum):
    """The network of one einsum; ``dims`` are the input shapes where they are not the operands' own."""
    net = td.Network()
    inputs = [
        net.constant(operand)
        if index in constants
        else net.input(f"x{index}", operand.shape if dims is None else dims[index], operand.dtype)
        for index, operand in enumerate(operands)
    ]
    arguments = (*inputs, equation) if function is F.einops_einsum else (equation, *inputs)
    net.output(function(*arguments), "y")
    return net


def run(equation, operands, **kwargs):
    """The interpreted value of one einsum."""
    net = build(equation, operands, **kwargs)
    return td.interpret(net, {f"x{k}": x for k, x in enumerate(operands) if f"x{k}" in net.inputs})["y"]


def whole_numbers(shapes, dtype=torch.float32, seed=0):
    """Small whole numbers: their products and sums are exact in every dtype and order."""
    generator = torch.Generator().manual_seed(seed)
    return [torch.randint(-3, 4, shape, generator=generator).to(dtype) for shape in shapes]


# -- all that torch takes ----------------------------------------------------------------------------------------------


@settings(max_examples=500, deadline=None)
@given(cases())
def test_random_equations(case: Case) -> None:
    operands = whole_numbers(case.shapes)
    expected = torch.einsum(case.equation, *operands)
    constants = [index for index, constant in enumerate(case.constants) if constant]
    got = run(case.equation, operands, dims=case.dims, constants=constants)
    assert got.shape == expected.shape
    assert torch.equal(got, expected)


@settings(max_examples=500, deadline=None)
@given(
    st.text("aabbAcB.,-> ?", max_size=12)
    | st.from_regex(r"\A[abA]{0,3}(\.\.\.)?[ab]?(,[abc]{0,3})?(->(\.\.\.)?[abcA]{0,3})?\Z"),
    st.lists(st.lists(st.integers(1, 3), max_size=4), min_size=1, max_size=2),
)
def test_equations_that_torch_refuses_are_refused(equation, shapes):
    operands = whole_numbers(shapes)
    try:
        expected = torch.einsum(equation, *operands)
    except (RuntimeError, ValueError):
        with pytest.raises(td.DefinitionError):
            build(equation, operands)
    else:
        assert torch.equal(run(equation, operands), expected)


SAMPLES = list(next(op for op in op_db if op.name == "einsum").sample_inputs("cpu", torch.float32))


@pytest.mark.parametrize("index", range(len(SAMPLES)))
def test_torchs_own_samples(index):
    sample = SAMPLES[index]
    operands = list(sample.input)
    assert_close(run(*sample.args, operands), torch.einsum(*sample.args, *operands))


@pytest.mark.parametrize(
    ("arguments", "shapes"),
    [
        (lambda a, b: (a, [0, 1], b, [1, 2], [0, 2]), [(2, 3), (3, 4)]),
        (lambda a, b: (a, [0, 1], b, [1, 2]), [(2, 3), (3, 4)]),
        (lambda a, b: (a, [30, 1], b, [1, 2]), [(2, 3), (3, 4)]),
        (lambda a, b: (a, [..., 1], b, [1, 2], [2, ...]), [(5, 2, 3), (3, 4)]),
        (lambda a, b: ("ij,jk", [a, b]), [(2, 3), (3, 4)]),
        (lambda a, b: ("ij,ij->", a, a), [(2, 3), (3, 4)]),
        (lambda a, b: ("ij,kj,ij->k", a, a, a), [(3, 3), (3, 4)]),
    ],
)
def test_forms_of_the_call(arguments, shapes):
    operands = whole_numbers(shapes)
    net = td.Network()
    net.output(F.einsum(*arguments(net.input("a", shapes[0]), net.input("b", shapes[1]))), "y")
    got = td.interpret(net, dict(zip("ab", operands, strict=True)))["y"]
    assert torch.equal(got, torch.einsum(*arguments(*operands)))


def test_long_names():
    x, a = whole_numbers([(2, 5, 6), (6, 4)])
    expected = torch.einsum("bld,dn->bldn", x, a)
    assert torch.equal(run("b l d_in, d_in n -> b l d_in n", [x, a]), expected)
    assert torch.equal(run("batch l d, d state -> batch l d state", [x, a], function=F.einops_einsum), expected)
    assert torch.equal(run("... d, d n -> ... d n", [x, a], function=F.einops_einsum), expected)


# -- dtypes ------------------------------------------------------------------------------------------------------------

EQUATIONS = [
    ("ij,jk->ik", [(2, 3), (3, 4)]),
    ("ij,ij->i", [(2, 3), (2, 3)]),
    ("ij,ij->ij", [(2, 3), (2, 3)]),
    ("ij->j", [(2, 3)]),
    ("ii->i", [(3, 3)]),
    ("ij,k->jk", [(2, 3), (4,)]),
    ("bij,bjk,bk->bi", [(2, 3, 4), (2, 4, 5), (2, 5)]),
]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.int32, torch.int64])
@pytest.mark.parametrize(("equation", "shapes"), EQUATIONS)
def test_dtypes(equation, shapes, dtype):
    operands = whole_numbers(shapes, dtype)
    expected = torch.einsum(equation, *operands)
    got = run(equation, operands)
    assert got.dtype == expected.dtype
    assert torch.equal(got, expected)


def test_integers_with_dynamic_and_with_wrong_sizes():
    operands = whole_numbers([(2, 5), (5, 3)], torch.int32)
    for dims in ([("A", "K"), (5, 3)], [(2, 5), ("K", "B")], [("A", "K"), ("K", "B")]):
        got = run("ij,jk->ik", operands, dims=dims)
        assert got.dtype == torch.int32
        assert torch.equal(got, torch.einsum("ij,jk->ik", *operands))
    with pytest.raises(td.ShapeError, match="label 'j' is 5 in operand 0"):
        build("ij,kj->ik", operands)


def test_half_precision_adds_up_in_float32():
    x = torch.full((4, 4096), 0.1, dtype=torch.float16)
    exact = torch.einsum("ij,ij->i", x.double(), x.double())
    got = run("ij,ij->i", [x, x])
    assert got.dtype == torch.float16
    assert torch.equal(got, exact.half())
    big = torch.full((1, 8), 300.0, dtype=torch.float16)  # each product is beyond float16, their sum is not
    other = big * torch.tensor([1, -1] * 4, dtype=torch.float16)
    assert torch.equal(run("ij,ij->i", [big, other]), torch.zeros(1, dtype=torch.float16))


def test_bool():
    a, b = (x > 0 for x in whole_numbers([(2, 3), (2, 3)]))
    assert torch.equal(run("ij,ij->ij", [a, b]), torch.einsum("ij,ij->ij", a, b))
    assert torch.equal(run("ij->i", [a]), torch.einsum("ij->i", a))
    assert torch.equal(run("ij->ji", [a]), torch.einsum("ij->ji", a))
    # torch has no product of bool matrices; the counts that its sums give
    assert torch.equal(run("ij,kj->ik", [a, b]), torch.einsum("ij,kj->ik", a.long(), b.long()))


def test_mixed_types_are_promoted():
    a, b = whole_numbers([(2, 3), (3, 4)])
    assert_close(run("ij,jk->ik", [a.half(), b]), torch.einsum("ij,jk->ik", a, b))
    assert_close(run("ij,jk->ik", [a.int(), b]), torch.einsum("ij,jk->ik", a, b))
    assert run("ij,jk->ik", [a.int(), b.long()]).dtype == torch.int64


# -- what comes out ----------------------------------------------------------------------------------------------------

N, B = td.Dim("N", min=1, opt=8, max=16), td.Dim("B", min=1, opt=8, max=16)
T, S, Q = (
    td.Dim("T", min=10, opt=300, max=500),
    td.Dim("S", min=1, opt=512, max=2048),
    td.Dim("Q", min=1, opt=1024, max=2048),
)
FORMS = [
    ("nctw,cd->ndtw", [(N, 64, T, 18), (64, 128)], [1], "SHUFFLE MATRIX_MULTIPLY SHUFFLE"),
    ("nkctv,kvw->nctw", [(N, 3, 64, T, 18), (3, 18, 18)], [1], "SHUFFLE MATRIX_MULTIPLY"),
    ("bhnm,bdhm->bdhn", [(B, 4, Q, Q), (B, 64, 4, Q)], [], "SHUFFLE MATRIX_MULTIPLY SHUFFLE"),
    ("nkctv,kcvw->nctw", [(N, 3, 64, T, 18), (3, 64, 18, 18)], [1], "SHUFFLE MATRIX_MULTIPLY"),
    ("b l d_in, d_in n -> b l d_in n", [(B, S, 1536), (1536, 16)], [1], "SHUFFLE ELEMENTWISE"),
    ("b d_in n, b n -> b d_in", [(B, 1536, 16), (B, 16)], [], "SHUFFLE ELEMENTWISE REDUCE"),
    (
        "b l d_in, b l n, b l d_in -> b l d_in n",
        [(B, S, 1536), (B, S, 16), (B, S, 1536)],
        [],
        "ELEMENTWISE SHUFFLE SHUFFLE ELEMENTWISE",
    ),
]


@pytest.mark.parametrize(("equation", "dims", "constants", "layers"), FORMS, ids=[form[0] for form in FORMS])
def test_the_forms_that_brought_people_here(equation, dims, constants, layers):
    env = {"N": 1, "B": 1, "T": 300, "S": 128, "Q": 1024}
    shapes = [tuple(size if isinstance(size, int) else size.value(env) for size in shape) for shape in dims]
    operands = [torch.randn(shape) for shape in shapes]
    net = build(equation, operands, dims=dims, constants=constants)
    assert emitted(net) == layers.split()
    got = td.interpret(net, {name: operands[int(name[1:])] for name in net.inputs})["y"]
    assert_close(got, torch.einsum(equation.replace("d_in", "d"), *operands))
    fixed = build(equation, operands, constants=constants)
    assert emitted(fixed) == layers.split()


def test_dynamic_sizes_in_every_place():
    dims = [("B", "I", "K", "I"), ("B", "K", "J")]
    operands = [torch.randn(2, 4, 5, 4), torch.randn(2, 5, 3)]
    for equation in ("biki,bkj->bij", "biki,bkj->j", "biki,bkj->ijb", "biki,bkj->bikj"):
        assert_close(run(equation, operands, dims=dims), torch.einsum(equation, *operands))


def test_shape_tensors_only_where_placeholders_do_not_suffice():
    dims = [("B", "S", 8, 16), ("B", "S", 8, 16)]
    assert "SHAPE" not in emitted(build("bqhd,bkhd->bhqk", [torch.empty(2, 5, 8, 16)] * 2, dims=dims))
    operands = [torch.randn(2, 3, 4, 5), torch.randn(5, 4, 3, 6)]  # contracted sizes that must be merged
    dims = [("A", "I", "B", "J"), ("J", "B", "I", "C")]
    assert_close(run("aibj,jbic->ac", operands, dims=dims), torch.einsum("aibj,jbic->ac", *operands))
    # Two sizes that come apart again: only a shape tensor can say them.
    operands, dims = [torch.randn(2, 3, 4), torch.randn(4, 5, 6)], [("A", "B", 4), (4, "C", "D")]
    assert "SHAPE" in emitted(build("abi,icd->abcd", operands, dims=dims))
    assert_close(run("abi,icd->abcd", operands, dims=dims), torch.einsum("abi,icd->abcd", *operands))


# -- errors ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("equation", "shapes", "error", "message"),
    [
        (
            "ij,jk->ik",
            [(2, 3), (4, 5)],
            td.ShapeError,
            r"label 'j' is 3 in operand 0 \(i j: \(2, 3\)\), but 4 in operand 1",
        ),
        ("ii->i", [(2, 3)], td.ShapeError, r"label 'i' is repeated in operand 0 \(i i\), but with the sizes 2 and 3"),
        ("ij,jk->il", [(2, 3), (3, 5)], td.DefinitionError, "the output's label 'l' is in no operand"),
        ("ij,jk->ii", [(2, 3), (3, 5)], td.DefinitionError, "the label 'i' is more than once in the output"),
        ("ij", [(2, 3), (3, 5)], td.DefinitionError, "is for 1 operands, but 2 are given"),
        ("i,jk", [(2, 3), (3, 5)], td.DefinitionError, r"operand 0 \(i\) has 1 labels, but 2 dimensions"),
        ("i...jk,jk", [(2, 3), (3, 5)], td.DefinitionError, "3 labels beside the ellipsis, but only 2 dimensions"),
        ("i.j,jk", [(2, 3), (3, 5)], td.DefinitionError, "a '.' in operand 0"),
        ("i?,jk", [(2, 3), (3, 5)], td.DefinitionError, r"'\?' in operand 0 \(i\?\): labels are letters"),
        ("ij->i->j", [(2, 3)], td.DefinitionError, "one '->'"),
        ("batch time, time out -> batch out", [(2, 3), (3, 5)], td.DefinitionError, "F.einops_einsum reads long names"),
        ("abcde,fghij->abcdefghij", [(1,) * 5, (1,) * 5], td.UnsupportedError, "10 dimensions; TensorRT has at most 8"),
    ],
)
def test_one_clear_error_with_the_authors_line(equation, shapes, error, message):
    net = td.Network()
    inputs = [net.input(f"x{k}", shape) for k, shape in enumerate(shapes)]
    with pytest.raises(error, match=message) as caught:
        F.einsum(equation, *inputs)
    assert str(caught.value).startswith(__file__)
    assert f"  operands[0]: {shapes[0]} float32" in str(caught.value).splitlines()


def test_unsupported_arguments_are_refused():
    net = td.Network()
    x = net.input("x", (2, 3))
    with pytest.raises(
        td.UnsupportedError,
        match="einsum: unknown lowering 'fast'; there are auto, merged, matmul",
    ):
        F.einsum("ij->i", x, lowering="fast")
    with pytest.raises(td.DefinitionError, match="from 0 to 51"):
        F.einsum(x, [0, 52])
    with pytest.raises(td.DefinitionError, match=r"equation stands first.* a list of label numbers"):
        F.einsum(x, "ij")
    with pytest.raises(td.DefinitionError, match="at least one operand"):
        F.einsum("ij")
    with pytest.raises(td.DefinitionError, match="operands first"):
        F.einops_einsum("i j -> i", x)
    with pytest.raises(td.DefinitionError, match="name their output"):
        F.einops_einsum(x, "i j")
    with pytest.raises(td.ShapeError, match="label 'i' is N"):
        F.einsum("ij,ik->jk", net.input("a", (td.Dim("N", min=4, max=8), 2)), x)
