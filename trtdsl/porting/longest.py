"""Sizes that the greatest of a batch's lengths gives: a batch is padded to its longest sequence."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

from ..core.caller import to_write
from ..core.dtypes import as_dtype, dtype_name
from ..core.errors import TrtdslError, UnsupportedError
from ..sizes.size import Size
from .given import LONGEST_IS, Given
from .tracing.scalars import NeedsLongest

Made = TypeVar("Made")


def with_longest(given: Given, made: Callable[[Given], Made]) -> tuple[Made, list[str]]:
    """What is ``made`` of the inputs, with a remark for each whose greatest number is taken for a size.

    Where forward asks for that of an input of lengths, it is the one size of another input with which forward can be
    ported. Raises what ``made`` does, also where no size or more than one is that.
    """
    try:
        return made(given), []
    except UnsupportedError as error:
        if not isinstance(error.__cause__, NeedsLongest):
            raise
        name, refusal = error.__cause__.input, error
    sizes, found, failed = _sizes(given, name), [], list[TrtdslError]()
    for size in sizes if _may_be_lengths(given, name) else ():
        inputs = {**given.inputs, name: replace(given.inputs[name], longest=size)}
        try:
            found.append((size, *with_longest(replace(given, inputs=inputs), made)))
        except TrtdslError as error:
            failed.append(error)
    if len(found) == 1:
        size, result, remarks = found[0]
        remark = (
            f"forward asks for the greatest of {name} at {refusal.location}: it is taken for {size}, as of a batch "
            f"that is padded to its longest, and the network is for such {name} alone (longest= in the file)"
        )
        return result, [remark, *remarks]
    if len(failed) == len(sizes) == 1:
        asks = f"{refusal.location} asks for the greatest of {name}"
        failed[0].context.append(f"{asks}, which is taken for {sizes[0]}")
        raise failed[0]
    refusal.context.append(_instead(given, name, [size for size, *_ in found] or sizes, bool(found)))
    raise refusal


def _sizes(given: Given, name: str) -> list[Any]:
    """The sizes of other inputs that the greatest number of an input may be: dynamic ones, if there are any.

    Of fixed ones it is the last number of the input's range, if that is a size or no other in the range is. An input of
    one number alone, which may be any number, has that size or none.
    """
    shape = [*map(str, given.inputs[name].shape)]
    found: dict[str, Any] = {}
    for other, spec in given.inputs.items():
        own = [*shape]
        for size in spec.shape if other != name else ():
            if str(size) in own:
                own.remove(str(size))  # the batch
            else:
                found[str(size)] = size
    sample, alone = given.inputs[name].sample, {*shape} <= {"1"}
    fixed = [size for size in found.values() if isinstance(size, int)]
    if len(fixed) < len(found):
        return [] if alone else [size for size in found.values() if isinstance(size, Size)]
    if not isinstance(sample, tuple):
        return [] if alone else fixed
    low, last = int(sample[0]), int(sample[1]) - 1
    if last in fixed or alone:
        return [last] if last in fixed else []
    return [size for size in fixed if low <= size <= last] or [last]


def _may_be_lengths(given: Given, name: str) -> bool:
    """Whether an input may have the lengths of a batch: one each, from 1 on where something says what they are."""
    spec = given.inputs[name]
    one_each = sum(str(size) != "1" for size in spec.shape) <= 1
    return one_each and (spec.sample[0] >= 1 if isinstance(spec.sample, tuple) else spec.sample is None)


def _instead(given: Given, name: str, sizes: list[Any], several: bool) -> str:
    """What to declare."""
    spec = given.inputs[name]
    shape = ",".join(str(size).replace(" ", "") for size in spec.shape)
    size = str(sizes[0]).replace(" ", "") if sizes else "SIZE"
    text = f"{shape}:{dtype_name(as_dtype(spec.dtype))}:{LONGEST_IS}{size}"
    which = f", and it may be {' or '.join(map(str, sizes))}" if several else ""
    written = to_write(f"inputs={{{name!r}: {text!r}}}", f"--input {name}={text}")
    return f"it asks for the greatest of {name}{which}: where a batch is padded to its longest, say so, as {written}"
