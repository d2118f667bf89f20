"""MATRIX_MULTIPLY and EINSUM."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import nullcontext

from .base import add_layer, adds, folding, matched, member
from .common import Shape, ShapeError, SizeLike, Tensor, UnsupportedError, operation, shape_text, torch
from .evaluation import Evaluate, Mistakes, Node, Shapes, computes, evaluates


@operation
def matrix_multiply(a: Tensor, b: Tensor, op_a: str = "NONE", op_b: str = "NONE") -> Tensor:
    """Products of the matrices in the last two dimensions: one IMatrixMultiplyLayer.

    ``op_a`` and ``op_b`` (``trt.MatrixOperation``): NONE; TRANSPOSE swaps the last two dimensions first; VECTOR takes
    the last dimension alone as a vector. The dimensions before them have one rank and are broadcast.
    Floating-point only. A product of constants is computed at once, however large it is, unless nothing is summed:
    that one is part of whatever reads it.

    Raises ShapeError for ranks or sizes that do not match.

    >>> matrix_multiply(net.input("a", (8, 2, 3)), net.input("b", (1, 4, 3)), op_b="TRANSPOSE").shape
    (8, 2, 4)
    """
    batch_a, rows, inner_a = _split(a.shape, op_a, left=True)
    batch_b, columns, inner_b = _split(b.shape, op_b, left=False)
    if len(batch_a) != len(batch_b):
        raise ShapeError(f"the batch dimensions must have one rank: {shape_text(batch_a)} and {shape_text(batch_b)}")
    if isinstance(inner_a, int) and isinstance(inner_b, int) and inner_a != inner_b:
        turned = columns and columns[0] == inner_a
        hint = "; the second operand fits when it is transposed, by .mT" if turned else ""
        raise ShapeError(f"the contracted dimensions do not match: {inner_a} and {inner_b}{hint}")
    batch = matched(a.network, batch_a, batch_b)
    a.network.constraints.equal(inner_a, inner_b, "the contracted sizes", a.network.current_operation)
    shape = batch + rows + columns
    operations = [member(a.network.trt.MatrixOperation, op, "matrix operation") for op in (op_a, op_b)]

    def add(target, a, b):
        return target.definition.add_matrix_multiply(a, operations[0], b, operations[1])

    with nullcontext() if inner_a == 1 else folding(a.network):
        return add_layer(add, a, b, shape=shape)


def _split(shape: Shape, op: str, *, left: bool) -> tuple[Shape, Shape, SizeLike]:
    """Batch dimensions, the dimension that stays (none for a vector), the contracted one."""
    vector = op.upper() == "VECTOR"
    if len(shape) < (1 if vector else 2):
        raise ShapeError(f"{shape_text(shape)} has too few dimensions for a {'vector' if vector else 'matrix'}")
    if vector:
        return shape[:-1], (), shape[-1]
    rows, columns = shape[-2], shape[-1]
    if op.upper() == "TRANSPOSE":
        rows, columns = columns, rows
    return shape[:-2], (rows if left else columns,), columns if left else rows


REVERSED = {"first operand reversed": lambda node: lambda f, a, *rest: f(a.flip(-1), *rest)}


@computes(
    "MATRIX_MULTIPLY",
    known=dict.fromkeys(("op0", "op1"), ("NONE", "TRANSPOSE", "VECTOR")),
    category="product",
    wide=True,
    flops=lambda node, shapes: 2 * shapes.inputs[0][-2 if node.layer.op0.name == "TRANSPOSE" else -1] * shapes.elements,
    mistakes=Mistakes({op: {"NONE": "TRANSPOSE", "TRANSPOSE": "NONE"} for op in ("op0", "op1")}, instead=REVERSED),
)
def _matrix_multiply(node: Node, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """torch's kernel, in float32 for the half types, rounded once."""
    op_a, op_b = node.layer.op0.name, node.layer.op1.name
    a = a.unsqueeze(-2) if op_a == "VECTOR" else a.mT if op_a == "TRANSPOSE" else a
    b = b.unsqueeze(-1) if op_b == "VECTOR" else b.mT if op_b == "TRANSPOSE" else b
    if 2 < b.ndim <= a.ndim and all(size == 1 for size in b.shape[:-2]):  # one product instead of one for each batch
        b = b[(0,) * (b.ndim - 2)]
    product = torch.matmul(a, b)
    if op_b == "VECTOR":
        product = product.squeeze(-1)
    return product.squeeze(-1 if op_b == "VECTOR" else -2) if op_a == "VECTOR" else product


Labels = list[str]

APART = (
    "TensorRT-RTX 1.7 sums the wrong products where the second of two operands has one label between the two that are "
    "summed, and none is kept of both: functional.einsum plans products, or exchange the operands"
)


@operation
def einsum(equation: str, *operands: Tensor) -> Tensor:
    """Sums of products by the equation's labels: one IEinsumLayer.

    Lower-case labels, ``...`` and an optional ``->``; floating-point operands of one dtype. ``functional.einsum`` plans
    matrix products instead, which is what usually runs faster. Raises UnsupportedError for the form of ``"ad,abd->b"``,
    of which TensorRT's builder sums the wrong products (docs/traps/builder-einsum.md).
    """
    inputs, output = parse(equation, [tensor.ndim for tensor in operands])
    if _are_apart(inputs, output):
        raise UnsupportedError(f"{equation!r}: {APART}")
    sizes: dict[str, SizeLike] = {}
    for labels, tensor in zip(inputs, operands, strict=True):
        for label, size in zip(labels, tensor.shape, strict=True):
            if sizes.get(label, 1) == 1 or (isinstance(size, int) and size != 1):
                sizes[label] = size
    add = adds("add_einsum", equation, together=True)
    summed = [size for label, size in sizes.items() if label not in output and size != 1]
    with folding(operands[0].network) if summed else nullcontext():  # as matrix_multiply
        return add_layer(add, *operands, shape=tuple(sizes[label] for label in output))


def parse(equation: str, ranks: Sequence[int]) -> tuple[list[Labels], Labels]:
    """The labels of each operand's dimensions and of the result's; those under ``...`` are numbers from the right."""
    left, arrow, right = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    if len(terms) != len(ranks):
        raise ShapeError(f"the equation {equation!r} has {len(terms)} operands, not {len(ranks)}")
    inputs = [_expand(term, rank, equation) for term, rank in zip(terms, ranks, strict=True)]
    dots = max((sum(label.isdigit() for label in labels) for labels in inputs), default=0)
    hidden = [str(index) for index in reversed(range(dots))]
    if arrow:
        before, _, after = right.partition("...")
        output = [*before, *hidden, *after] if "..." in right else list(right)
    else:
        named = [label for labels in inputs for label in labels if not label.isdigit()]
        output = [*hidden, *sorted(label for label in set(named) if named.count(label) == 1)]
    return inputs, output


def _are_apart(inputs: Sequence[Labels], output: Labels) -> bool:
    """Whether the builder sums the wrong products: ``"acd,abd->bc"`` and its like."""
    if len(inputs) != 2 or len(inputs[1]) != 3:
        return False
    first, (before, between, after) = inputs
    summed = [label for label in first if label in (before, after) and label not in output]
    return summed == [before, after] and between in output and set(first).isdisjoint(between)


def _expand(term: str, rank: int, equation: str) -> Labels:
    before, dots, after = term.partition("...")
    hidden = rank - len(before) - len(after)
    if hidden < 0 or (hidden and not dots):
        raise ShapeError(f"{term!r} of the equation {equation!r} does not fit an operand of {rank} dimensions")
    return [*before, *(str(index) for index in reversed(range(hidden))), *after]


def _flops(node: Node, shapes: Shapes) -> int:
    """2 for each product of the labels' sizes and each operand after the first."""
    present = [shape for shape in shapes.inputs if shape is not None]
    inputs, _ = parse(node.layer.equation, [len(shape) for shape in present])
    sizes: dict[str, int] = {}
    for labels, shape in zip(inputs, present, strict=True):
        for label, size in zip(labels, shape, strict=True):
            sizes[label] = max(size, sizes.get(label, 1))
    return math.prod(sizes.values()) * max(2 * (len(present) - 1), 1)


@evaluates("EINSUM", category="product", wide=True, flops=_flops, mistakes=Mistakes(instead=REVERSED))
def _einsum(node: Node) -> Evaluate:
    """torch's kernel for a pair at a time, from left to right, in float32 for the half types, rounded once."""
    equation = node.layer.equation
    if _are_apart(*parse(equation, [len(operand.shape) for operand in node.inputs if operand is not None])):
        raise UnsupportedError(f"layer {node.name!r} ({node.type}): {equation!r}: {APART}")

    def evaluate(result: torch.Tensor, *others: torch.Tensor) -> torch.Tensor:
        terms, output = parse(equation, [x.ndim for x in (result, *others)])
        numbers = {label: number for number, label in enumerate({label: None for term in terms for label in term})}
        given, *following, wanted = ([numbers[label] for label in labels] for labels in (*terms, output))
        for place, (x, own) in enumerate(zip(others, following, strict=True), 1):
            needed = {label for labels in (*following[place:], wanted) for label in labels}
            kept = [label for label in dict.fromkeys((*given, *own)) if label in needed]
            result, given = torch.einsum(result, given, x, own, kept), kept
        return torch.einsum(result, given, wanted)

    return evaluate
