"""Sizes that the greatest of a batch's lengths gives: a batch is padded to its longest sequence."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from typing import Any

from ...core.caller import to_write
from ...core.errors import TrtdslError, UnsupportedError
from ...sizes.size import Size
from ..given import Given, text_of
from ..tracing.scalars import Greatest, NeedsLongest
from .attempt import Again, Attempt, Made


def remedy(attempt: Attempt, refusal: UnsupportedError, again: Again[Made]) -> tuple[Made, Attempt]:
    """The attempt where the greatest number of an input, which forward asks for, is the size of another input.

    It is the one with which forward can be ported. Raises the ``refusal`` where no size or more than one is that.
    """
    assert isinstance(refusal.__cause__, NeedsLongest)
    given, known = attempt.given, refusal.__cause__.greatest
    name, axis = known.input, known.axis
    spec, first = given.inputs[name], refusal.__cause__.first
    if spec.descending if first else spec.longest is not None:
        raise refusal  # which is taken for it already
    if first:
        remarks, given = _in_order(given, name, refusal)
        return again(attempt.changed(remarks, given=given))
    sizes = _sizes(given, name) if axis is None else [given.inputs[name].shape[axis]]
    found, failed = list[tuple[Any, tuple[Made, Attempt]]](), list[TrtdslError]()

    def take_for(sizes: Iterable[Any], of: str) -> None:
        for size in sizes:
            inputs = {**given.inputs, name: replace(given.inputs[name], longest=size, padding=known.padding)}
            what = "the greatest" if axis is None else f"the longest sequence (padded with {known.padding})"
            remark = (
                f"forward asks for {what} of {name} at {refusal.location}: it is taken for {size}, as of {of}, and the "
                f"network is for such {name} alone (longest= in the file)"
            )
            try:
                found.append((size, again(attempt.changed([remark], given=replace(given, inputs=inputs)))))
            except TrtdslError as error:
                failed.append(error)

    take_for(sizes if _may_be_lengths(given, name, axis) else (), "a batch that is padded to its longest")
    if len(found) == 1:
        return found[0][1]
    with suppress(TrtdslError):
        if not found and not attempt.by_values:
            return again(attempt.changed([], by_values=True))
    if not found and not refusal.__cause__.lengths:
        tried = len(failed)
        take_for(_lasts(given, name, axis), "an index of all")
        del failed[tried:]  # of what nobody says that it is
        if len(found) == 1:
            return found[0][1]
    if len(failed) == len(sizes) == 1:
        asks = f"{refusal.location} asks for the greatest of {name}"
        failed[0].context.append(f"{asks}, which is taken for {sizes[0]}")
        raise failed[0]
    refusal.context.append(_instead(given, known, [size for size, _ in found] or sizes, bool(found)))
    raise refusal


def _in_order(given: Given, name: str, refusal: UnsupportedError) -> tuple[list[str], Given]:
    """The inputs of which one has the longest first, and a remark that says so."""
    remark = f"{name} is to have its longest first, which {refusal.location} asks for (descending= in the file)"
    return [remark], replace(given, inputs={**given.inputs, name: replace(given.inputs[name], descending=True)})


def _lasts(given: Given, name: str, axis: int | None) -> list[Any]:
    """What the greatest of an index from 0 on, such as which graph a node is of, may be: the last place of a size."""
    sample = given.inputs[name].sample
    if axis is not None or not isinstance(sample, tuple) or sample[0] != 0 or not _is_one_each(given, name):
        return []
    last = int(sample[1]) - 1
    sizes = _other_sizes(given, name)
    dynamic = [size - 1 for size in sizes if isinstance(size, Size)]
    return dynamic if last and dynamic else [last] * (not last or last + 1 in sizes)


def _other_sizes(given: Given, name: str) -> list[Any]:
    """The sizes that other inputs have and this one does not."""
    shape = [*map(str, given.inputs[name].shape)]
    found: dict[str, Any] = {}
    for other, spec in given.inputs.items():
        own = [*shape]
        for size in spec.shape if other != name else ():
            if str(size) in own:
                own.remove(str(size))  # the batch
            else:
                found[str(size)] = size
    return [*found.values()]


def _sizes(given: Given, name: str) -> list[Any]:
    """The sizes of other inputs that the greatest number of an input may be: dynamic ones, if there are any.

    Of fixed ones it is the last number of the input's range, if that is a size or no other in the range is. An input of
    one number alone, which may be any number, has that size or none.
    """
    found, spec = _other_sizes(given, name), given.inputs[name]
    sample, alone = spec.sample, {*map(str, spec.shape)} <= {"1"}
    fixed = [size for size in found if isinstance(size, int)]
    if len(fixed) < len(found):
        return [] if alone else [size for size in found if isinstance(size, Size)]
    if not isinstance(sample, tuple):
        return [] if alone else fixed
    low, last = int(sample[0]), int(sample[1]) - 1
    if last in fixed or alone:
        return [last] if last in fixed else []
    return [size for size in fixed if low <= size <= last] or [last]


def _may_be_lengths(given: Given, name: str, axis: int | None) -> bool:
    """Whether an input may have the lengths of a batch: one each, from 1 on where something says what they are.

    One whose sequences go on along an ``axis`` may where it has several of them.
    """
    spec = given.inputs[name]
    if axis is not None:
        return str(spec.shape[0 if axis else 1]) != "1"
    return _is_one_each(given, name) and (
        spec.sample[0] >= 1 if isinstance(spec.sample, tuple) else spec.sample is None
    )


def _is_one_each(given: Given, name: str) -> bool:
    return sum(str(size) != "1" for size in given.inputs[name].shape) <= 1


def _instead(given: Given, known: Greatest, sizes: list[Any], several: bool) -> str:
    """What to declare."""
    name, size = known.input, sizes[0] if sizes else "SIZE"
    text = text_of(replace(given.inputs[name], longest=size, padding=known.padding))
    which = f", and it may be {' or '.join(map(str, sizes))}" if several else ""
    written = to_write(f"inputs={{{name!r}: {text!r}}}", f"--input {name}={text}")
    return f"it asks for the greatest of {name}{which}: where a batch is padded to its longest, say so, as {written}"
