"""Lengths that forward counts of the sequences in an input that are no padding, such as ``(ids != 0).sum(1)``, or
orders by their size, such as ``lengths[(-lengths).argsort()]``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from ....core.dtypes import as_dtype
from ....core.lazy import torch
from ....definition.input import Input
from ....interpreter.feeds import draw_feeds, padded
from ...calls import Op, Value, Weight, leaves
from ..scalars import Greatest
from .doubles import Doubles

MOST_NUMBERS = 8  # of which one may be padding
MOST = 100  # of the lengths that are drawn for an input of lengths
WORDS = (0, 9)  # what an input of whole numbers has of which nothing says what they are


@dataclass(frozen=True)
class _Made:
    """What a value is computed of: one input, by calls that have these numbers."""

    input: Value
    numbers: tuple[float, ...] = ()


class CountedLengths:
    """Values that are the lengths of an input's sequences, or the numbers of an input of lengths, in some order, as is
    seen where they are computed of drawn ones."""

    def __init__(self) -> None:
        self._inputs: dict[Value, tuple[Input, Greatest]] = {}
        self._made: dict[Value, _Made] = {}
        self._tried: dict[Any, _Tried] = {}

    def take(self, input: Value, spec: Input, greatest: Greatest) -> None:
        """Notes an input whose sequences may be padded, or of lengths, and what is known of the longest."""
        self._inputs[input] = spec, greatest
        self._made[input] = _Made(input)

    def follow(self, op: Op) -> _Made | None:
        """Notes what a call's results are computed of, where that is one input."""
        given = [leaf for leaf in leaves((op.args, op.kwargs)) if isinstance(leaf, Value) and not leaf.known]
        made = {known.input: known for each in given if (known := self._made.get(each)) is not None}
        if len(made) != 1 or any(isinstance(each, Weight) or each not in self._made for each in given):
            return None
        numbers = [number for each in given for number in self._made[each].numbers]
        if op.name != "getitem":
            numbers += [leaf for leaf in leaves((op.args, op.kwargs)) if isinstance(leaf, (bool, int, float))]
        one = _Made(next(iter(made)), tuple(dict.fromkeys(map(float, numbers)))[:MOST_NUMBERS])
        self._made.update((leaf, one) for leaf in leaves(op.results) if isinstance(leaf, Value))
        return one

    def greatest(self, op: Op) -> Greatest | None:
        """What the greatest number is that a call gives, where it gives such lengths."""
        one, found = self.follow(op), [leaf for leaf in leaves(op.results) if isinstance(leaf, Value)]
        if one is None or len(found) != 1 or len(found[0].shape) > 2:
            return None
        if found[0].dtype == torch.bool or found[0].dtype.is_complex:
            return None
        spec, greatest = self._inputs[one.input]
        unknown = True
        for each in _declared(spec, one):
            tried = self._tried.setdefault((one.input, each.longest, each.padding), _Tried(one.input, each))
            try:
                orders = tried.orders(found[0])
            except Exception:  # torch's own, and the author's, of what has no values there
                continue
            unknown = False
            if orders is not None:
                place = 0 if "descending" in orders else -1 if "ascending" in orders else None
                return replace(greatest, padding=each.padding, axis=each.longest and each.steps, place=place)
        if unknown:
            del self._made[found[0]]  # of what follows it, nothing is known either
        return None


def _declared(spec: Input, made: _Made) -> Iterator[Input]:
    """What may be declared of an input, of the sizes that it has in a trace."""
    shape, dtype = made.input.shape, as_dtype(spec.dtype)
    if len(shape) == 1:
        yield Input(shape, spec.dtype)
        return
    known: tuple[Any, ...] = (spec.padding,)
    if spec.padding is None:
        ends = (spec.sample[0], spec.sample[1] - 1) if isinstance(spec.sample, tuple) else ()
        known = (0, 1) if dtype == torch.bool else (*made.numbers, 0, *ends)
    sample = (WORDS if spec.sample is None else spec.sample) if not dtype.is_floating_point else spec.sample
    sample = None if dtype == torch.bool or not isinstance(sample, tuple) else sample
    for axis in [spec.steps] if spec.padding is not None else [*range(1, len(shape)), 0]:
        for number in dict.fromkeys(known):
            whole = int(number) if float(number).is_integer() else number
            each = Input(shape, spec.dtype, sample, longest=shape[axis], padding=whole)
            if each.steps == axis and (shape[axis] > 1 or spec.padding is not None):
                yield each


class _Tried:
    """What is computed of an input whose sequences have some lengths, or of lengths; each value once."""

    def __init__(self, input: Value, spec: Input):
        self._input, self._spec = input, spec

    @cached_property
    def _lengths(self) -> list[torch.Tensor]:
        spec, its_own = self._spec, self._spec.longest is None  # the input has the lengths itself
        sizes = [
            size for axis, size in enumerate(spec.shape[: max(spec.steps, 1) + 1]) if its_own or axis != spec.steps
        ]
        count, number = MOST if its_own else spec.shape[spec.steps], torch.Size(sizes).numel()
        rising = torch.linspace(1, count, number).long().view(sizes)
        drawn = torch.randint(1, count + 1, sizes, generator=torch.Generator().manual_seed(0))
        return [torch.full(sizes, count), rising, rising.flip(0), drawn]

    @cached_property
    def _doubles(self) -> list[Doubles]:
        generator, spec = torch.Generator().manual_seed(0), self._spec

        def fed(lengths: torch.Tensor) -> torch.Tensor:
            if spec.longest is None:
                return lengths
            drawn = draw_feeds({"x": replace(spec, longest=None, padding=None)}, {}, generator)["x"]
            return padded(spec, drawn, lengths)

        return [Doubles({self._input: fed(lengths)}) for lengths in self._lengths]

    def orders(self, value: Value) -> set[str] | None:
        """The orders in which a value has the lengths of all sequences, whatever these are; None where it has others.

        Raises what torch does where it cannot be computed.
        """
        number = self._lengths[0].numel()
        orders = {"ascending", "descending"} if number > 1 else set[str]()
        if number != torch.Size(value.shape).numel():
            return None
        for lengths, doubles in zip(self._lengths, self._doubles):
            found, ascending = doubles.value(value).flatten().double(), lengths.flatten().double().sort()[0]
            if not torch.equal(found.sort()[0], ascending):
                return None
            orders -= set() if torch.equal(found, ascending) else {"ascending"}
            orders -= set() if torch.equal(found, ascending.flip(0)) else {"descending"}
        return orders
