"""Marks between the rounds of a loop, in the calls of a trace."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ....core.errors import Location
from ....core.lazy import torch
from ...calls import Call, Op, SizeOf
from ...statements import size_key
from ..frames import here
from ..guards import GUARDS, Guard, Record, note
from ..traced_sizes import expression_of, is_traced, plain_number
from . import taking


class Mark(Op):
    """Where a round of a loop begins, or the loop ends, in the calls of a module."""

    def __init__(self, loop: Going, container: Call, asked: int):
        super().__init__("mark", "", "mark", (), {}, None, loop.location)
        self.loop, self.container, self.asked = loop, container, asked


@dataclass(eq=False)
class Going:
    """A loop that runs: its length, the places of the guards that say it has this one, and its line."""

    length: Any
    asked: Sequence[int]
    location: Location | None
    marks: list[Mark] = field(default_factory=list)

    def over(self, items: Iterable[Any]) -> Iterator[Any]:
        """The items, with a mark before each and after the last."""
        record, loop = GUARDS.get(), replace(self, marks=[])
        for item in items:
            loop.mark(record)
            yield item
        loop.mark(record)
        if record is not None:
            record.loops.append(loop)

    def mark(self, record: Record | None) -> None:
        if record is not None and record.container is not None:
            container = record.container()
            self.marks.append(Mark(self, container, len(record.guards)))
            container.body.append(self.marks[-1])


class Counted(Sequence[int]):
    """``range`` of sizes, which marks the rounds of a loop over it."""

    def __init__(self, numbers: range, going: Going):
        self._numbers, self._going = numbers, going

    def __iter__(self) -> Iterator[int]:
        return self._going.over(self._numbers)

    def __reversed__(self) -> Iterator[int]:
        return self._going.over(reversed(self._numbers))

    def __len__(self) -> int:
        return len(self._numbers)

    def __getitem__(self, place: Any) -> Any:
        return self._numbers[place]


class Strided(Sequence[int]):
    """``range`` from 0 to a size in steps, which keeps how many calls there were before each round."""

    def __init__(self, numbers: range, length: Any, guard: Guard, record: Record):
        self.numbers, self.length, self._record = numbers, length, record
        self._calls: list[int] = []
        record.parted[self] = guard

    def __iter__(self) -> Iterator[int]:
        for number in self.numbers:
            self._calls.append(self._record.calls)
            yield number
        self._calls.append(self._record.calls)

    @property
    def places(self) -> range:
        """The places of the calls of all rounds; of none where it is not one loop."""
        whole = len(self._calls) == len(self.numbers) + 1
        return range(self._calls[0], self._calls[-1]) if whole else range(0)

    @property
    def later(self) -> range | None:
        """The places of the calls of all rounds but the first; None where there are none."""
        return range(self._calls[1], self._calls[-1]) if len(self.numbers) > 1 and self.places else None

    def __len__(self) -> int:
        return len(self.numbers)

    def __getitem__(self, place: Any) -> Any:
        return self.numbers[place]

    __hash__ = object.__hash__


class Parts(tuple[Any, ...]):
    """The tensors that ``unbind`` gives, which mark the rounds of a loop over them."""

    going: Going

    def __iter__(self) -> Iterator[Any]:
        return self.going.over(super().__iter__())


class Slices(Parts):
    """Parts of size 1 of ``split`` or ``chunk``; a loop over them goes over those of ``unbind``."""

    apart: Parts
    dim: int

    def __iter__(self) -> Iterator[Any]:
        return (part.unsqueeze(self.dim) for part in self.apart)


class Whiles:
    """Loops while a number that counts up is below a size (``while len(rows) < n``), by what they ask of it.

    Each time they ask, a round begins, or the loop has ended.
    """

    def __init__(self) -> None:
        self._open: dict[Location, tuple[int, list[int], Going | None]] = {}  # first numbers, places of guards

    def asked(self, record: Record, guard: Guard) -> None:
        """Looks at the last guard of the record."""
        if guard.symbol not in (">", "!=") or type(guard.right) is not int:
            return
        first, places, going = self._open.pop(guard.location, (guard.right, [], None))
        goes_on = going is not None and guard.right == first + len(places)
        if going is None or not goes_on or size_key(guard.left) != size_key(record.guards[places[0]].left):
            first, places = guard.right, []
            going = Going(taking.less(guard.left, first), places, guard.location)
        places.append(len(record.guards) - 1)
        if scanning(record):
            going.mark(record)
        if guard.outcome:
            self._open[guard.location] = first, places, going
        elif len(places) > 1:
            for place in places if len(places) > 2 else ():
                record.guards[place] = replace(record.guards[place], loop=True)
            record.loops += [going] if scanning(record) else []


def counted(given: Sequence[Any], asked: range) -> Any:
    """``range`` of these numbers, some of them sizes, which are what the guards in these places say."""
    numbers = range(*map(plain_number, given))
    record = GUARDS.get()
    start, stop = (0, given[0]) if len(given) == 1 else given[:2]
    if record is None or not asked:
        return numbers
    if record.scans is not None and record.scans.on and numbers.step not in (1, -1):
        unlike = f"it goes on by {numbers.step}: loop over the parts of every so many, as x[:, ::{numbers.step}]"
        record.scans.unlike.setdefault(record.guards[asked[0]].location, unlike)
    if len(given) == 3 and is_traced(stop) and not any(map(is_traced, (start, given[2]))) and start == 0 < numbers.step:
        return Strided(numbers, expression_of(stop), record.guards[asked[-1]], record)
    if not scanning(record) or numbers.step not in (1, -1):
        return numbers
    length = expression_of(stop - start if numbers.step == 1 else start - stop)
    return Counted(numbers, Going(length, asked, record.guards[asked[0]].location))


def scanning(record: Record | None) -> bool:
    return record is not None and record.scans is not None and record.scans.on


def parted(result: Any, op: Op, location: Location | None) -> Any:
    """What ``unbind`` gives, which is as many tensors at all sizes of one program, but for a loop that is a scan."""
    if not isinstance(result, tuple):
        return result
    length = SizeOf(op.args[0], taking.taken_apart(op), len(result))
    if not scanning(GUARDS.get()):
        note("==", length, len(result), True, location, loop=True)
        return result
    found = Parts(result)
    found.going = Going(length, range(0), location)
    return found


def backwards(given: Any) -> Iterator[Any]:
    """``reversed``, which marks the rounds of a loop over a list with a value of each round of one before."""
    record = GUARDS.get()
    found = reversed(given)
    if record is None or not scanning(record) or type(given) is not list:
        return found
    loops = (loop for loop in record.loops[::-1] if len(loop.marks) == len(given) + 1)
    filling = next(loops, None)
    return found if filling is None else Going(filling.length, range(0), here()).over(found)


def sliced(name: str, tensor: Any, size: Any = None, dim: int = 0, **named: Any) -> Slices | None:
    """What ``split`` or ``chunk`` gives, where that is each part of a dimension; None for other parts."""
    size = next(iter(named.values()), None) if size is None else size  # under the name that the function has for it
    whole = tensor.shape[dim]
    each = size == 1 if name == "split" else is_traced(size) and plain_number(size) == plain_number(whole)
    if not each or not is_traced(whole) or not scanning(GUARDS.get()):
        return None
    parts = tensor.unbind(dim)
    found = Slices(part.unsqueeze(dim) for part in tuple.__iter__(parts))
    found.apart, found.dim = parts, dim
    return found


def count_parts(
    op: Op, sizes: Callable[..., Any], parts: Any, tensor: Any, size: Any = None, dim: int = 0, **named: Any
) -> None:
    """Notes how many parts ``split`` or ``chunk`` gives of a size: they are as many at all sizes of one program.

    But for those whose parts are joined again, which may be one call of the whole.

    ``sizes(shape, tensor, dim)`` gives a size of the tensor as one that is traced.
    """
    size = next(iter(named.values()), None) if size is None else size
    whole = sizes(tensor.shape[dim], tensor, dim)
    if isinstance(size, int) and is_traced(whole):
        each = size if op.name == "split" else -(-whole // size)
        count, record = expression_of(-(-whole // each)), GUARDS.get()
        note("==", count, len(parts), True, here(), loop=plain_number(each) == 1)
        if record is not None and op.location is not None:
            record.parted[op] = record.guards[-1]


def in_steps(index: Any) -> tuple[Any, Any] | None:
    """``[i, places]`` as ``[i]`` and ``[places]``, so that a loop over i takes one part after the other; else None."""
    items = index if isinstance(index, tuple) else ()
    at = next((place for place, each in enumerate(items) if not isinstance(each, slice)), len(items))
    numbers = isinstance(items[at], int) and not isinstance(items[at], bool) if at + 1 < len(items) else False
    if not numbers or not isinstance(items[at + 1], torch.Tensor) or not items[at + 1].dim():
        return None
    return items[: at + 1], (*[slice(None)] * at, *items[at + 1 :])


def between(loop: Going) -> list[Any]:
    """What stands between the marks of a loop."""
    body = loop.marks[0].container.body
    places = [place for place, item in enumerate(body) if isinstance(item, Mark) and item.loop is loop]
    return body[places[0] : places[-1]] if places else []
