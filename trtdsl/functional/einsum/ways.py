"""The ways to contract two operands: the search compares what each costs."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from .costs import Costs
from .draft import Draft
from .equation import Labels

UNROLL = 4  # the longest contraction that is written product by product


class Way(NamedTuple):
    """A way to contract two values: what a plan calls it, the method of a Draft, and what it is given besides."""

    kind: str
    append: Callable[..., int]
    how: tuple[Any, ...]


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
        ways += [
            Way("products added up", Draft.unrolled, (order, *contracted)) for order in _orders((one, two, prefer))
        ]
    if not products or small or (integers and not unrolls):
        kind = "multiply and sum" if contracted else "multiply"
        ways += [Way(kind, Draft.multiply, (order, contracted)) for order in _orders((one, two, prefer))]
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
) -> list[Way]:
    """Matrix products of both orders of operands, over the layouts that may save a transposition."""
    ways: dict[Way, None] = {}
    for swap in (False, True):
        x, y = (two, one) if swap else (one, two)
        rows, columns = (right, left) if swap else (left, right)
        inner = list(dict.fromkeys([_ordered(contracted, by) for by in (x, y)]))
        for (batch_x, m), (batch_y, n) in itertools.product(_splits(rows, x, prefer), _splits(columns, y, prefer)):
            batch = {*both, *batch_x, *batch_y}
            parts = (_ordered(batch, x), _ordered(batch, y), _ordered(batch, prefer))
            for order in _batch_orders(parts):
                for k in inner:
                    ways[Way("matrix product", Draft.matrix_product, (swap, order, m, n, k))] = None
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
