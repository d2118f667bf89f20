"""A plan under construction: operations are appended, and their costs are added up."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ...core.errors import UnsupportedError
from ...definition.network import MAX_DIMS
from .equation import ITEM, Labels, text
from .plan import Add, Axes, Diagonal, MatrixMultiply, Multiply, Operation, Reduce, Shuffle, Step, Take

# The cost of arithmetic relative to traffic: a GPU does this many operations in the time of moving one byte.
MATRIX_FLOPS_PER_BYTE = 64
VECTOR_FLOPS_PER_BYTE = 16
TILE = 16  # rows and columns of the smallest tile that a matrix product is computed in
FLAGGED = 0.9  # the most that TRANSPOSE flags cost, as a part of the cost of transposing the result
SCATTERED = 1.2  # a transposition that moves the innermost dimension reads or writes in small pieces
TILE_BYTES = 512  # the least cost of one matrix of a batch


class TooDear(Exception):
    """A draft costs more than a plan that is complete."""


class Draft:
    """The operations so far, with the dimensions of every value in labels; sizes are those to tune for."""

    def __init__(self, sizes: Mapping[str, int], dynamic: Iterable[str] = (), item: int = ITEM):
        self.sizes = sizes
        self.dynamic = frozenset(dynamic)
        self.trivial = frozenset(label for label, size in sizes.items() if size == 1) - self.dynamic
        self.item = item
        self.operations: list[Operation] = []
        self.axes: list[Axes] = []
        self.flat: list[Labels] = []
        self.elements: list[int] = []
        self.constant: list[bool] = []
        self.steps: list[Step] = []
        self.notes: list[str] = []
        self.cost = 0.0
        self.layers = 0
        self.flops = 0
        self.moved = 0
        self.largest = 0
        self.bound = [math.inf]  # the cost of the best plan that is complete: the same in all copies
        self.tried: dict[Any, Any] = {}  # ways to go on from here, and what came of them

    def copy(self) -> Draft:
        """A copy of the draft, to be continued in another way."""
        other = object.__new__(Draft)
        facts = other.__dict__
        facts.update(self.__dict__)
        for name in ("operations", "axes", "flat", "elements", "constant", "steps", "notes"):
            facts[name] = facts[name].copy()
        facts["tried"] = {}
        return other

    # -- facts ---------------------------------------------------------------------------------------------------------

    def count(self, labels: Iterable[str]) -> int:
        """The product of the labels' sizes."""
        return math.prod(map(self.sizes.__getitem__, labels))

    def labels(self, value: int) -> Labels:
        """The labels of a value in the order in which its elements lie."""
        return self.flat[value]

    def core(self, labels: Iterable[str]) -> Labels:
        """The labels without those that are always 1, whose place does not affect where the elements lie."""
        trivial = self.trivial
        return tuple(label for label in labels if label not in trivial) if trivial else tuple(labels)

    def bytes_of(self, value: int) -> int:
        """The bytes that a value takes."""
        return self.elements[value] * self.item

    # -- values --------------------------------------------------------------------------------------------------------

    def operand(self, axes: Axes, constant: bool) -> int:
        """An operand of the einsum."""
        return self._value(axes, constant)

    def _value(self, axes: Axes, constant: bool) -> int:
        labels = _flat(axes)
        self.axes.append(axes)
        self.flat.append(labels)
        self.elements.append(self.count(labels))
        self.constant.append(constant)
        return len(self.axes) - 1

    def _append(
        self, operation: Operation, axes: Axes, inputs: Sequence[int], *, flops: int, moved: int, cost: float
    ) -> int:
        if len(axes) > MAX_DIMS:
            where = text(_flat(axes))
            raise UnsupportedError(f"{where} needs {len(axes)} dimensions on the way; TensorRT has at most {MAX_DIMS}")
        constant = all(self.constant[index] for index in inputs)
        self.operations.append(operation)
        value = self._value(axes, constant)
        if not constant:
            self.flops += flops
            self.moved += moved
            self.cost += cost
            if self.cost > self.bound[0]:
                raise TooDear
            self.layers += 1
            self.largest = max(self.largest, self.elements[value])
        return value

    # -- operations ----------------------------------------------------------------------------------------------------

    def follow(self, value: int, order: Sequence[int]) -> int:
        """The value with its dimensions in the order in which they lie in memory; no element moves."""
        target = tuple(self.axes[value][axis] for axis in order)
        if target == self.axes[value]:
            return value
        self.notes.append(f"{text(self.labels(value))} lies in memory as {text(_flat(target))}")
        return self._shuffle(value, Shuffle(value, tuple(order)), target, moves=False)

    def arrange(self, value: int, target: Axes, why: str = "") -> int:
        """The value with the dimensions ``target``: no operation, or one Shuffle; two where merged ones come apart."""
        source = self.axes[value]
        if source == target:
            return value
        if self.core(self.flat[value]) == self.core(_flat(target)):
            return self._shuffle(value, Shuffle(value, axes=target), target, moves=False)
        order = _permutation(source, target)
        if order is not None:
            moved = tuple(source[axis] for axis in order)
            self._note(value, target, why)
            return self._shuffle(value, Shuffle(value, order, None if moved == target else target), target)
        fine = self._fine(self.labels(value), target)
        order = _permutation(fine, target)
        assert order is not None
        moved = tuple(fine[axis] for axis in order)
        self._note(value, target, why)
        value = self._shuffle(value, Shuffle(value, None, fine, order), moved)
        return self.arrange(value, target)

    def _note(self, value: int, target: Axes, why: str) -> None:
        after = text(_flat(target))
        cost = "free: a constant" if self.constant[value] else f"{2 * self.bytes_of(value):,} bytes"
        self.notes.append(f"transposes {text(self.labels(value))} to {after}{f', {why}' if why else ''} ({cost})")

    def _shuffle(self, value: int, operation: Shuffle, target: Axes, *, moves: bool = True) -> int:
        moved = 2 * self.bytes_of(value) if moves else 0
        cost: float = moved
        if moves and self.core(self.labels(value))[-1:] != self.core(_flat(target))[-1:]:
            cost *= SCATTERED
        before = self.axes[value]
        if operation.first is not None:
            before = tuple(before[axis] for axis in operation.first)
        if operation.axes is not None and not self.constant[value]:
            self.layers += _shape_layers(before, operation.axes, self.dynamic, self.trivial)
        return self._append(operation, target, [value], flops=0, moved=moved, cost=cost)

    def _fine(self, labels: Labels, target: Axes) -> Axes:
        """The labels apart, as far as the order of ``target`` asks for it."""
        place = {label: k for k, label in enumerate(_flat(target))}
        runs: list[list[str]] = []
        for label in labels:
            if runs and place[label] == place[runs[-1][-1]] + 1:
                runs[-1].append(label)
            else:
                runs.append([label])
        return tuple(map(tuple, runs))

    def diagonal(self, value: int, term: Labels) -> int:
        """The operand's value without repeated labels: ``term`` are the labels of its dimensions."""
        kept = list(dict.fromkeys(term))
        first = tuple(axis for label in kept for axis, other in enumerate(term) if other == label)
        counts = tuple(term.count(label) for label in kept)
        units = {label for label, axis in zip(term, self.axes[value], strict=True) if not axis}
        axes = tuple(() if label in units else (label,) for label in kept)
        elements = self.count(_flat(axes))
        moved = 2 * elements * self.item
        if first != tuple(range(len(first))):
            moved += 2 * self.count(label for label in term if label not in units) * self.item
        return self._append(Diagonal(value, first, counts), axes, [value], flops=0, moved=moved, cost=moved)

    def reduce(self, value: int, labels: Iterable[str], *, fused: bool = False) -> int:
        """The sum over ``labels``; dimensions of size 1 go with them. ``fused``: the value was made for this alone."""
        labels = set(labels)
        source = self.axes[value]
        if any(labels & set(axis) and not labels >= set(axis) for axis in source):
            source = tuple((label,) for label in self.labels(value))
            value = self.arrange(value, source)
        axes = tuple(k for k, axis in enumerate(source) if labels.issuperset(axis))
        if not axes:
            return value
        target = tuple(axis for k, axis in enumerate(source) if k not in axes)
        read, written = self.bytes_of(value), self.count(_flat(target)) * self.item
        flops = read // self.item if labels else 0
        moved = written if fused else read + written
        cost = moved + (0 if fused else flops / VECTOR_FLOPS_PER_BYTE)
        return self._append(Reduce(value, axes), target, [value], flops=flops, moved=moved, cost=cost)

    def multiply(
        self, a: int, b: int, order: Sequence[str], contracted: Iterable[str] = (), *, wide: bool = False
    ) -> int:
        """The product of elements in the given order of labels, then the sum over ``contracted``."""
        contracted = set(contracted)
        mine, other = set(self.labels(a)), set(self.labels(b))
        groups = [(label,) for label in order]
        if len(groups) > MAX_DIMS:
            alike = itertools.groupby(order, key=lambda x: (x in mine, x in other, x in contracted))
            groups = [tuple(group) for _, group in alike]
        x = self.arrange(a, tuple(axis if axis[0] in mine else () for axis in groups), "to be multiplied in one order")
        y = self.arrange(b, tuple(axis if axis[0] in other else () for axis in groups), "to be multiplied in one order")
        elements = self.count(order)
        read = self.bytes_of(x) + self.bytes_of(y)
        moved = read + (0 if contracted else elements * self.item)
        cost = moved + (2 if contracted else 1) * elements / VECTOR_FLOPS_PER_BYTE
        result = self._append(Multiply(x, y, wide), tuple(groups), [x, y], flops=elements, moved=moved, cost=cost)
        return self.reduce(result, contracted, fused=True) if contracted else result

    def matrix_multiply(self, a: int, b: int, transpose_a: bool, transpose_b: bool) -> int:
        """The product of the matrices in the last two dimensions of two values whose batch dimensions are aligned."""
        x, y = self.axes[a], self.axes[b]
        rows, inner = (x[-1], x[-2]) if transpose_a else (x[-2], x[-1])
        columns = y[-2] if transpose_b else y[-1]
        batch = tuple(p or q for p, q in zip(x[:-2], y[:-2], strict=True))
        axes = (*batch, rows, columns)
        elements = self.count(_flat(axes))
        m, n, k = self.count(rows), self.count(columns), self.count(inner)
        matrices = self.count(_flat(batch))
        if not transpose_a and not any(y[:-2]):  # one matrix for all: the batch is more rows
            m, matrices = m * matrices, 1
        moved = self.bytes_of(a) + self.bytes_of(b) + elements * self.item
        tiles = 2 * matrices * _round_up(m, TILE) * _round_up(n, TILE) * _round_up(k, TILE // 2)
        cost = moved + tiles / MATRIX_FLOPS_PER_BYTE + matrices * TILE_BYTES
        return self._append(
            MatrixMultiply(a, b, transpose_a, transpose_b), axes, [a, b], flops=2 * elements * k, moved=moved, cost=cost
        )

    def flag(self, product: int, operands: Iterable[int]) -> None:
        """Adds the cost of a product that transposes ``operands`` itself.

        TensorRT-RTX 1.7 copies them (its activation memory shows it), TensorRT need not. So the flags decide between
        operands, but never for a Shuffle that they can save.
        """
        copied = sum(2 * self.bytes_of(value) for value in operands if not self.constant[value])
        self.cost += min(copied, FLAGGED * 2 * self.bytes_of(product))

    def unrolled(self, a: int, b: int, order: Sequence[str], label: str) -> int:
        """The sum over one small label, product by product: no value is greater than the result."""
        mine, other = set(self.labels(a)), set(self.labels(b))
        x = self.arrange(a, tuple((name,) if name in mine else () for name in order), "to be multiplied in one order")
        y = self.arrange(b, tuple((name,) if name in other else () for name in order), "to be multiplied in one order")
        axis = list(order).index(label)
        target = tuple(() if name == label else (name,) for name in order)
        elements = self.count(name for name in order if name != label)
        steps = self.sizes[label]
        read = self.bytes_of(x) + self.bytes_of(y)
        total = -1
        for index in range(steps):
            parts = []
            for source in (x, y):
                axes = tuple(() if k == axis else group for k, group in enumerate(self.axes[source]))
                parts.append(self._append(Take(source, axis, index), axes, [source], flops=0, moved=0, cost=0))
            last = index == steps - 1
            product = self._append(
                Multiply(*parts, wide=True),
                target,
                parts,
                flops=elements,
                moved=read if index == 0 else 0,
                cost=(read if index == 0 else 0) + 2 * elements / VECTOR_FLOPS_PER_BYTE,
            )
            if index == 0:
                total = product
                continue
            written = elements * self.item if last else 0
            total = self._append(
                Add(total, product), target, [total, product], flops=elements, moved=written, cost=written
            )
        return self.arrange(total, tuple(axis for axis in target if axis))


def _flat(axes: Iterable[Labels]) -> Labels:
    return tuple(itertools.chain.from_iterable(axes))


def shape_layers(source: Axes, target: Axes, dynamic: frozenset[str], trivial: frozenset[str]) -> int:
    """Layers of a shape tensor that it takes to bring a value with the dimensions ``source`` to ``target``."""
    order = _permutation(source, target)
    return 0 if order is None else _shape_layers(tuple([source[axis] for axis in order]), target, dynamic, trivial)


@functools.lru_cache(maxsize=4096)
def _shape_layers(before: Axes, after: Axes, dynamic: frozenset[str], trivial: frozenset[str]) -> int:
    """Layers of a shape tensor that a reshape needs: none while the placeholders 0 and -1 express it."""
    odd = [
        axis for k, axis in enumerate(after) if dynamic.intersection(axis) and (k >= len(before) or before[k] != axis)
    ]
    only_ones = [axis for axis in before if not trivial.issuperset(axis)] == [
        axis for axis in after if not trivial.issuperset(axis)
    ]
    return 0 if len(odd) <= 1 or only_ones else 2 + 2 * len(odd)


@functools.lru_cache(maxsize=4096)
def _permutation(source: Axes, target: Axes) -> tuple[int, ...] | None:
    """The order of ``source``'s dimensions that gives the labels of ``target``; None where one must be torn apart.

    Dimensions of size 1 stand where ``target`` has one, as far as there are any.
    """
    place = {axis[0]: k for k, axis in enumerate(source) if axis}
    units = [k for k, axis in enumerate(source) if not axis]
    order: list[int] = []
    pending: list[str] = []
    for axis in target:
        if not axis and units:
            order.append(units.pop(0))
        for label in axis:
            if pending:
                if pending.pop(0) != label:
                    return None
                continue
            if label not in place:
                return None
            order.append(place[label])
            pending = list(source[place[label]][1:])
    return (*order, *units) if not pending else None


def _round_up(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple
