"""A plan under construction: operations are appended, and their costs are added up."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial

from ..common import MAX_DIMS, UnsupportedError
from .costs import Costs, Move, Price
from .equation import ITEM, Labels, text
from .plan import Add, Axes, Diagonal, MatrixMultiply, Multiply, Operation, Reduce, Shuffle, Step, Take


class Draft:
    """The operations so far, with the dimensions of every value in labels."""

    def __init__(self, costs: Costs):
        self.costs = costs
        self.operations: list[Operation] = []
        self.axes: list[Axes] = []
        self.constant: list[bool] = []
        self.steps: list[Step] = []
        self.notes: list[str] | None = None
        """What is remarkable, while a step is recorded."""
        self.cost = 0.0
        self.layers = 0
        self.flops = 0
        self.moved = 0
        self.largest = 0

    # -- values --------------------------------------------------------------------------------------------------------

    def labels(self, value: int) -> Labels:
        """The labels of a value in the order in which its elements lie."""
        return self.costs.labels(self.axes[value])

    def operand(self, axes: Axes, constant: bool) -> int:
        """An operand of the einsum, or an operation's result."""
        self.axes.append(axes)
        self.constant.append(constant)
        return len(self.axes) - 1

    def _append(self, operation: Operation, price: Price, inputs: Sequence[int]) -> int:
        if len(price.axes) > MAX_DIMS:
            where = text(self.costs.labels(price.axes))
            raise UnsupportedError(
                f"{where} needs {len(price.axes)} dimensions on the way; TensorRT has at most {MAX_DIMS}"
            )
        constant = all(self.constant[index] for index in inputs)
        self.operations.append(operation)
        value = self.operand(price.axes, constant)
        if not constant:
            self.flops += price.flops
            self.moved += price.moved
            self.cost += price.cost
            self.layers += 1
            self.largest = max(self.largest, self.costs.elements(self.labels(value)))
        return value

    # -- operations ----------------------------------------------------------------------------------------------------

    def follow(self, value: int, order: Sequence[int]) -> int:
        """The value with its dimensions in the order in which they lie in memory; no element moves."""
        source = self.axes[value]
        target = tuple(source[axis] for axis in order)
        if target == source:
            return value
        self._note(lambda: f"{text(self.labels(value))} lies in memory as {text(self.costs.labels(target))}")
        return self._shuffle(value, self.costs.move(source, target, tuple(order), moves=False))

    def arrange(self, value: int, target: Axes, why: str = "") -> int:
        """The value with the dimensions ``target``: no operation, or one Shuffle; two where merged ones come apart."""
        for move in self.costs.moves(self.axes[value], target):
            if move.price.moved:
                self._note(partial(self._transposed, value, target, why))
            value = self._shuffle(value, move)
        return value

    def _note(self, note: Callable[[], str]) -> None:
        if self.notes is not None:
            self.notes.append(note())

    def _transposed(self, value: int, target: Axes, why: str) -> str:
        after = text(self.costs.labels(target))
        cost = "free: a constant" if self.constant[value] else f"{2 * self.costs.bytes_of(self.axes[value]):,} bytes"
        return f"transposes {text(self.labels(value))} to {after}{f', {why}' if why else ''} ({cost})"

    def _shuffle(self, value: int, move: Move) -> int:
        return self._append(Shuffle(value, move.first, move.axes, move.second), move.price, [value])

    def diagonal(self, value: int, term: Labels) -> int:
        """The operand's value without repeated labels: ``term`` are the labels of its dimensions."""
        costs = self.costs
        kept = list(dict.fromkeys(term))
        first = tuple(axis for label in kept for axis, other in enumerate(term) if other == label)
        counts = tuple(term.count(label) for label in kept)
        units = {label for label, axis in zip(term, self.axes[value], strict=True) if not axis}
        axes: Axes = tuple(() if label in units else (label,) for label in kept)
        moved = 2 * costs.bytes_of(axes)
        if first != tuple(range(len(first))):
            moved += 2 * costs.count(label for label in term if label not in units) * ITEM
        return self._append(Diagonal(value, first, counts), Price(axes, 0, moved, moved), [value])

    def reduce(self, value: int, labels: Iterable[str], *, fused: bool = False) -> int:
        """The sum over ``labels``; dimensions of size 1 go with them. ``fused``: the value was made for this alone."""
        labels = set(labels)
        if any(labels & set(axis) and not labels >= set(axis) for axis in self.axes[value]):
            value = self.arrange(value, tuple((label,) for label in self.labels(value)))
        axes, price = self.costs.reduction(self.axes[value], labels, fused=fused)
        return self._append(Reduce(value, axes), price, [value]) if axes else value

    def multiply(self, a: int, b: int, order: Labels, contracted: Iterable[str] = (), *, wide: bool = False) -> int:
        """The product of elements in the given order of labels, then the sum over ``contracted``."""
        contracted = set(contracted)
        one, two, result = self.costs.aligned(self.axes[a], self.axes[b], order, contracted)
        x = self.arrange(a, one, "to be multiplied in one order")
        y = self.arrange(b, two, "to be multiplied in one order")
        price = self.costs.elementwise_product(one, two, result, summed=bool(contracted))
        value = self._append(Multiply(x, y, wide), price, [x, y])
        return self.reduce(value, contracted, fused=True) if contracted else value

    def matrix_multiply(self, matrices: Sequence[int], turned: Sequence[bool], price: Price, flags: float) -> int:
        """The product of the matrices in the last two dimensions of two values whose batch dimensions are aligned.

        ``turned`` are the TRANSPOSE flags, which cost ``flags``.
        """
        (a, b), (turn_a, turn_b) = matrices, turned
        result = self._append(MatrixMultiply(a, b, turn_a, turn_b), price, matrices)
        self.cost += flags
        return result

    def unrolled(self, a: int, b: int, order: Labels, label: str) -> int:
        """The sum over one small label, product by product: no value is greater than the result."""
        costs, axis, total = self.costs, order.index(label), -1
        mine, other = ({*self.labels(value)} for value in (a, b))
        one, two = (tuple((name,) if name in own else () for name in order) for own in (mine, other))
        target: Axes = tuple(() if name == label else (name,) for name in order)
        x = self.arrange(a, one, "to be multiplied in one order")
        y = self.arrange(b, two, "to be multiplied in one order")
        steps = costs.sizes[label]
        for index in range(steps):
            parts = [
                self._append(Take(source, axis, index), Price((*axes[:axis], (), *axes[axis + 1 :]), 0, 0, 0), [source])
                for source, axes in ((x, one), (y, two))
            ]
            product = self._append(Multiply(*parts, wide=True), costs.term(one, two, target, first=index == 0), parts)
            if index == 0:
                total = product
                continue
            price = costs.sum_of_terms(target, last=index == steps - 1)
            total = self._append(Add(total, product), price, [total, product])
        return self.arrange(total, tuple(each for each in target if each))
