"""Lengths that forward counts of the sequences in an input that are no padding, such as ``(ids != 0).sum(1)``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from ....core.dtypes import as_dtype
from ....core.lazy import torch
from ....definition.input import Input
from ....interpreter.feeds import draw_feeds, padded
from ...calls import Op, Value, Weight, leaves
from ..scalars import Greatest
from .doubles import Doubles

TRIED = 3  # draws of an input with sequences of other lengths
WORDS = (0, 9)  # what an input of whole numbers has of which nothing says what they are


@dataclass(frozen=True)
class _Made:
    """What a value is computed of: one input, by calls that have these numbers."""

    input: Value
    numbers: tuple[float, ...] = ()


class CountedLengths:
    """Values that are the lengths of an input's sequences, as is seen where they are computed of drawn ones."""

    def __init__(self) -> None:
        self._inputs: dict[Value, tuple[Input, Greatest]] = {}
        self._made: dict[Value, _Made] = {}

    def take(self, input: Value, spec: Input, greatest: Greatest) -> None:
        """Notes an input whose sequences may be padded, and what is known of the longest."""
        self._inputs[input] = spec, greatest
        self._made[input] = _Made(input)

    def greatest(self, op: Op) -> Greatest | None:
        """What the greatest number is that a call gives, where it gives such lengths."""
        given = [leaf for leaf in leaves((op.args, op.kwargs)) if isinstance(leaf, Value) and not leaf.known]
        made = {known.input: known for each in given if (known := self._made.get(each)) is not None}
        found = [leaf for leaf in leaves(op.results) if isinstance(leaf, Value)]
        if len(made) != 1 or any(isinstance(each, Weight) or each not in self._made for each in given):
            return None
        numbers = [leaf for leaf in leaves((op.args, op.kwargs)) if isinstance(leaf, (bool, int, float))]
        numbers += [number for each in given for number in self._made[each].numbers]
        one = _Made(next(iter(made)), tuple(dict.fromkeys(map(float, numbers))))
        self._made.update((each, one) for each in found)
        if len(found) != 1 or len(found[0].shape) > 2 or found[0].dtype == torch.bool or found[0].dtype.is_complex:
            return None
        spec, greatest = self._inputs[one.input]
        tried = (each for each in _declared(spec, one) if _are_lengths(found[0], one.input, each))
        counted = next(tried, None)
        return counted and replace(greatest, padding=counted.padding, axis=counted.steps)


def _declared(spec: Input, made: _Made) -> Iterator[Input]:
    """What may be declared of an input, of the sizes that it has in a trace."""
    shape, dtype = made.input.shape, as_dtype(spec.dtype)
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


def _are_lengths(value: Value, input: Value, spec: Input) -> bool:
    """Whether a value has the lengths of all sequences, whatever these are."""
    generator, behind = torch.Generator().manual_seed(0), slice(max(spec.steps, 1) + 1, None)
    sizes = [size for axis, size in enumerate(spec.shape) if axis != spec.steps]
    del sizes[behind.start - 1 :]
    count = spec.shape[spec.steps]
    if torch.Size(sizes).numel() != torch.Size(value.shape).numel():
        return False
    try:
        drawn = [draw_feeds({"x": replace(spec, longest=None, padding=None)}, {}, generator)["x"] for _ in range(TRIED)]
        for number, each in enumerate(drawn):
            lengths = torch.randint(1, count + 1, sizes, generator=generator) if number else torch.full(sizes, count)
            found = Doubles({input: padded(spec, each, lengths)}).value(value)
            if not torch.equal(found.flatten().double(), lengths.flatten().double()):
                return False
    except Exception:  # torch's own, and the author's, of what has no values there
        return False
    return True
