"""The ways to contract two operands: each has a price, which the search compares, and operations."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from ...definition.network import MAX_DIMS
from .costs import Costs, Matrix, Price
from .draft import Draft, unrolled_axes
from .equation import Labels
from .plan import Axes

UNROLL = 4  # the longest contraction that is written product by product


class Value(NamedTuple):
    """A value of a plan that is not drafted yet."""

    axes: Axes
    constant: bool


class WayPrice(NamedTuple):
    """What a way costs, and the dimensions of its result."""

    cost: float
    layers: int
    axes: Axes


class MatrixProduct(NamedTuple):
    """A product of matrices (batch, m, k) and (batch, k, n); ``swap``: the second operand is the left one."""

    swap: bool
    batch: Labels
    m: Labels
    n: Labels
    k: Labels

    kind = "matrix product"

    def price(self, costs: Costs, a: Value, b: Value) -> WayPrice | None:
        """What it costs; None where it needs more dimensions than TensorRT has."""
        x, y = (b, a) if self.swap else (a, b)
        left, right, product, flags = self._product(costs, x, y)
        lefts, rights = costs.arrangement(x.axes, left.axes), costs.arrangement(y.axes, right.axes)
        if len(product.axes) > MAX_DIMS or not (lefts.fits and rights.fits):
            return None
        if x.constant and y.constant:
            return WayPrice(0, 0, product.axes)
        cost, layers = product.cost + flags, 1
        if not x.constant:
            cost, layers = cost + lefts.cost, layers + lefts.layers
        if not y.constant:
            cost, layers = cost + rights.cost, layers + rights.layers
        return WayPrice(cost, layers, product.axes)

    def _product(self, costs: Costs, x: Value, y: Value) -> tuple[Matrix, Matrix, Price, float]:
        """The two matrices, their product, and what the TRANSPOSE flags cost."""
        batch, rows, columns, inner = self.batch, self.m, self.n, self.k
        left, right = costs.matrix(x.axes, batch, rows, inner), costs.matrix(y.axes, batch, columns, inner)
        read = costs.bytes_of(x.axes) + costs.bytes_of(y.axes)
        one_right = not left.inner_first and not any(right.axes[:-2])
        product = costs.matrix_product(batch, rows, columns, inner, read, one_right=one_right)
        copied = 0  # an operand that is moved anyway can be moved once more in the same go
        if left.inner_first and not left.moved and not x.constant:
            copied += costs.bytes_of(x.axes)
        if not right.inner_first and not right.moved and not y.constant:
            copied += costs.bytes_of(y.axes)
        return left, right, product, costs.flags(copied, product.axes)

    def draft(self, draft: Draft, a: int, b: int) -> int:
        """Appends its operations; the number of the result."""
        x, y = (b, a) if self.swap else (a, b)
        values = [Value(draft.axes[value], draft.constant[value]) for value in (x, y)]
        left, right, product, flags = self._product(draft.costs, *values)
        x = draft.arrange(x, left.axes, "rows and contracted together")
        y = draft.arrange(y, right.axes, "columns and contracted together")
        return draft.matrix_multiply(x, y, product, left.inner_first, not right.inner_first, flags)


class ElementwiseProduct(NamedTuple):
    """A product of elements in one order of all labels, and the sum over what is contracted."""

    order: Labels
    contracted: Labels

    @property
    def kind(self) -> str:
        """The name of the step."""
        return "multiply and sum" if self.contracted else "multiply"

    def price(self, costs: Costs, a: Value, b: Value) -> WayPrice | None:
        """What it costs; None where it needs more dimensions than TensorRT has."""
        one, two, result = costs.aligned(a.axes, b.axes, self.order, self.contracted)
        x, y = costs.arrangement(a.axes, one), costs.arrangement(b.axes, two)
        if len(result) > MAX_DIMS or not (x.fits and y.fits):
            return None
        cost, layers = costs.elementwise_product(one, two, result, summed=bool(self.contracted)).cost, 1
        if self.contracted:
            axes, price = costs.reduction(result, self.contracted, fused=True)
            result = price.axes
            cost, layers = (cost + price.cost, layers + 1) if axes else (cost, layers)
        if a.constant and b.constant:
            return WayPrice(0, 0, result)
        for value, arrangement in ((a, x), (b, y)):
            if not value.constant:
                cost, layers = cost + arrangement.cost, layers + arrangement.layers
        return WayPrice(cost, layers, result)

    def draft(self, draft: Draft, a: int, b: int) -> int:
        """Appends its operations; the number of the result."""
        return draft.multiply(a, b, self.order, self.contracted, wide=bool(self.contracted))


class AddedProducts(NamedTuple):
    """Products of elements, one for each place of a short contracted dimension, added up."""

    order: Labels
    label: str

    kind = "products added up"

    def price(self, costs: Costs, a: Value, b: Value) -> WayPrice | None:
        """What it costs; None where it needs more dimensions than TensorRT has."""
        one, two, _, target, result = unrolled_axes(costs, a.axes, b.axes, self.order, self.label)
        x, y, last = costs.arrangement(a.axes, one), costs.arrangement(b.axes, two), costs.arrangement(target, result)
        if len(target) > MAX_DIMS or not (x.fits and y.fits):
            return None
        if a.constant and b.constant:
            return WayPrice(0, 0, result)
        steps = costs.sizes[self.label]
        cost = costs.term(one, two, target, first=True).cost + last.cost
        cost += (steps - 1) * costs.term(one, two, target, first=False).cost
        cost += costs.sum_of_terms(target, last=True).cost if steps > 1 else 0
        layers = 2 * steps - 1 + last.layers
        for value, arrangement in ((a, x), (b, y)):
            if not value.constant:
                cost, layers = cost + arrangement.cost, layers + arrangement.layers + steps
        return WayPrice(cost, layers, result)

    def draft(self, draft: Draft, a: int, b: int) -> int:
        """Appends its operations; the number of the result."""
        return draft.unrolled(a, b, self.order, self.label)


Way = MatrixProduct | ElementwiseProduct | AddedProducts


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
