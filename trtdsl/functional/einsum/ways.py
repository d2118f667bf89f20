"""The ways to contract two operands: each drafts its operations, whose price the search compares."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from ..common import UnsupportedError
from .costs import Costs
from .draft import Draft
from .equation import Labels
from .plan import Axes

UNROLL = 4  # the longest contraction that is written product by product


class Value(NamedTuple):
    """A value of a plan that is not drafted yet."""

    axes: Axes
    constant: bool


class MatrixProduct(NamedTuple):
    """A product of matrices (batch, m, k) and (batch, k, n); ``swap``: the second operand is the left one."""

    swap: bool
    batch: Labels
    m: Labels
    n: Labels
    k: Labels

    kind = "matrix product"

    def draft(self, draft: Draft, a: int, b: int) -> int:
        """Appends its operations; the number of the result."""
        costs = draft.costs
        values = (b, a) if self.swap else (a, b)
        axes, read = [draft.axes[value] for value in values], 0
        left, right = (costs.matrix(own, self.batch, free, self.k) for own, free in zip(axes, (self.m, self.n)))
        turned = left.inner_first, not right.inner_first
        copied = 0  # an operand that is moved anyway can be moved once more in the same go
        for value, own, matrix, flag in zip(values, axes, (left, right), turned):
            read += costs.bytes_of(own)
            copied += costs.bytes_of(own) if flag and not matrix.moved and not draft.constant[value] else 0
        one_right = not left.inner_first and not any(right.axes[:-2])
        product = costs.matrix_product(self.batch, self.m, self.n, self.k, read, one_right=one_right)
        matrices = [
            draft.arrange(value, matrix.axes, f"{free} and contracted together")
            for value, matrix, free in zip(values, (left, right), ("rows", "columns"))
        ]
        return draft.matrix_multiply(matrices, turned, product, costs.flags(copied, product.axes))


class ElementwiseProduct(NamedTuple):
    """A product of elements in one order of all labels, and the sum over what is contracted."""

    order: Labels
    contracted: Labels

    @property
    def kind(self) -> str:
        """The name of the step."""
        return "multiply and sum" if self.contracted else "multiply"

    def draft(self, draft: Draft, a: int, b: int) -> int:
        """Appends its operations; the number of the result."""
        return draft.multiply(a, b, self.order, self.contracted, wide=bool(self.contracted))


class AddedProducts(NamedTuple):
    """Products of elements, one for each place of a short contracted dimension, added up."""

    order: Labels
    label: str

    kind = "products added up"

    def draft(self, draft: Draft, a: int, b: int) -> int:
        """Appends its operations; the number of the result."""
        return draft.unrolled(a, b, self.order, self.label)


Way = MatrixProduct | ElementwiseProduct | AddedProducts


def price_of(way: Way, costs: Costs, a: Value, b: Value) -> tuple[float, int, Axes] | None:
    """What a way costs, its layers, and the dimensions of its result.

    None where it needs more dimensions than TensorRT has.
    """
    draft = Draft(costs)
    values = [draft.operand(*value) for value in (a, b)]
    try:
        result = way.draft(draft, *values)
    except UnsupportedError:
        return None
    return draft.cost, draft.layers, draft.axes[result]


def kinds_of(one: Labels, two: Labels, keep: Iterable[str]) -> dict[str, Labels]:
    """The labels of two operands by what becomes of them: those in both are summed unless they are to be kept."""
    both = set(one) & set(two)
    kept = both.intersection(keep)
    return {
        "batch": tuple(label for label in one if label in kept),
        "contracted": tuple(label for label in one if label in both and label not in kept),
        "left": tuple(label for label in one if label not in both),
        "right": tuple(label for label in two if label not in both),
    }


def ways_of(
    costs: Costs, one: Labels, two: Labels, kinds: Mapping[str, Labels], prefer: Labels, limit: int, integers: bool
) -> Sequence[Way]:
    """The ways to contract two values; ``prefer`` is an order of labels.

    Nothing with more than ``limit`` elements is made, except of integers where there is no other way.
    """
    contracted = kinds["contracted"]
    ways: list[Way] = []
    products = contracted and costs.core(kinds["left"]) and costs.core(kinds["right"])
    small = costs.count((*one, *kinds["right"])) <= limit
    unrolls = len(contracted) == 1 and contracted[0] not in costs.dynamic and costs.sizes[contracted[0]] <= UNROLL
    if products and not integers:
        ways += _matrix_products(one, two, *kinds.values(), prefer)
    if products and not small and unrolls:
        ways += [AddedProducts(order, contracted[0]) for order in _orders((one, two, prefer))]
    if not products or small or (integers and not unrolls):
        ways += [ElementwiseProduct(order, contracted) for order in _orders((one, two, prefer))]
    return ways


@functools.lru_cache(maxsize=4096)
def _orders(sequences: tuple[Labels, Labels, Labels]) -> list[Labels]:
    """Orders of all labels of two values that leave one of them, or the output, the last of the three, as it is."""
    one, two, prefer = sequences
    every = {*one, *two}
    wanted = tuple([label for label in prefer if label in every])
    return list(dict.fromkeys([merge(order) for order in itertools.permutations((one, two, wanted))]))


@functools.lru_cache(maxsize=4096)
def merge(sequences: tuple[Labels, ...]) -> Labels:
    """All labels: in the order of the first sequence, those of the next ones put in after their predecessors there."""
    result: list[str] = []
    for sequence in sequences:
        position = 0
        for label in sequence:
            if label in result:
                position = max(position, result.index(label) + 1)
            else:
                result.insert(position, label)
                position += 1
    return tuple(result)


@functools.lru_cache(maxsize=1024)
def _matrix_products(
    one: Labels, two: Labels, both: Labels, contracted: Labels, left: Labels, right: Labels, prefer: Labels
) -> list[MatrixProduct]:
    """Matrix products of both orders of operands, over the layouts that may save a transposition."""
    ways: dict[MatrixProduct, None] = {}
    for swap in (False, True):
        x, y = (two, one) if swap else (one, two)
        rows, columns = (right, left) if swap else (left, right)
        inner = list(dict.fromkeys([_ordered(contracted, by) for by in (x, y)]))
        for (batch_x, m), (batch_y, n) in itertools.product(_splits(rows, x, prefer), _splits(columns, y, prefer)):
            batch = {*both, *batch_x, *batch_y}
            parts = (_ordered(batch, x), _ordered(batch, y), _ordered(batch, prefer))
            for order in _batch_orders(parts):
                for k in inner:
                    ways[MatrixProduct(swap, order, m, n, k)] = None
    return list(ways)


@functools.lru_cache(maxsize=4096)
def _batch_orders(parts: tuple[Labels, Labels, Labels]) -> list[Labels]:
    x, y, prefer = parts
    return list(dict.fromkeys([merge(order) for order in itertools.permutations((prefer, x, y))]))


def _ordered(labels: Iterable[str], by: Sequence[str]) -> Labels:
    chosen = set(labels)
    return tuple([label for label in by if label in chosen])


def _splits(labels: Labels, own: Labels, prefer: Labels) -> list[tuple[Labels, Labels]]:
    """The labels of one side in two: batch dimensions over which the other side is broadcast, and the matrix's own."""
    found: dict[tuple[Labels, Labels], None] = {}
    mine, wanted = _ordered(labels, own), _ordered(labels, prefer)
    kept_first = (*wanted, *(label for label in mine if label not in wanted))  # the others are summed by a later pair
    for order in (mine, merge((wanted, mine)), kept_first):
        for cut in range(len(order)):
            found[order[:cut], order[cut:]] = None
    return list(found)
