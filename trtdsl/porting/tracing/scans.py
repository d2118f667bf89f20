"""Loops of forward's over a dimension as one call, :class:`Scan`, whatever the dimension's size.

Where forward goes over ``range`` of a size, or over the parts of ``unbind``, a trace has the calls of all rounds, with
marks between them. They are a scan where the rounds make the same calls, of values from before the loop, of values of
the round before, and of one part after the other of a tensor; and where what is needed afterwards is of the last round,
or of all in a list that is stacked or joined, or written part by part into one tensor. Other loops stay as they are: as
many rounds as there are, which is a condition on the size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

from ...core.errors import Location
from ..calls import (
    Call,
    Op,
    Part,
    Scan,
    SizeOf,
    SizeOp,
    Value,
    apart,
    calls,
    change_trees,
    joined,
    keyed,
    leaves,
    operations,
    values_in,
    with_values,
)
from ..statements import size_key
from .guards import GUARDS, Guard, Record
from .traced_sizes import expression_of, plain_number

EARLIER = 3  # rounds that a round looks back


class Unlike(Exception):
    """The rounds are no scan."""


class Mark(Op):
    """Where a round of a loop begins, or the loop ends, in the calls of a module."""

    def __init__(self, loop: Going, container: Call, asked: int):
        super().__init__("mark", "", "mark", (), {}, None, loop.location)
        self.loop, self.container, self.asked = loop, container, asked


@dataclass(eq=False)
class Going:
    """A loop that runs: its length, the places of the guards that say it has this one, and its line."""

    length: Any
    asked: range
    location: Location | None
    marks: list[Mark] = field(default_factory=list)

    def over(self, items: Iterable[Any]) -> Iterator[Any]:
        """The items, with a mark before each and after the last."""
        record, loop = GUARDS.get(), replace(self, marks=[])
        for item in items:
            loop._mark(record)
            yield item
        loop._mark(record)
        if record is not None:
            record.loops.append(loop)

    def _mark(self, record: Record | None) -> None:
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


class Parts(tuple[Any, ...]):
    """The tensors that ``unbind`` gives, which mark the rounds of a loop over them."""

    going: Going

    def __iter__(self) -> Iterator[Any]:
        return self.going.over(super().__iter__())


def counted(given: Sequence[Any], asked: range) -> Any:
    """``range`` of these numbers, some of them sizes, which are what the guards in these places say."""
    numbers = range(*map(plain_number, given))
    record = GUARDS.get()
    start, stop = (0, given[0]) if len(given) == 1 else given[:2]
    if not _scanning(record) or numbers.step not in (1, -1) or not asked:
        return numbers
    assert record is not None
    length = expression_of(stop - start if numbers.step == 1 else start - stop)
    return Counted(numbers, Going(length, asked, record.guards[asked[0]].location))


def _scanning(record: Record | None) -> bool:
    return record is not None and record.scans is not None and record.scans.on


def parted(result: Any, op: Op, location: Location | None) -> Any:
    """What ``unbind`` gives."""
    record = GUARDS.get()
    if not _scanning(record) or not isinstance(result, tuple):
        return result
    found = Parts(result)
    found.going = Going(SizeOf(op.args[0], _taken_apart(op), len(result)), range(0), location)
    return found


# -- rounds as one call ------------------------------------------------------------------------------------------------


@dataclass(eq=False)
class Form:
    """What is known of a loop's rounds from a trace of several: their calls, and where their values come from."""

    kinds: list[Any]
    sources: list[Any]
    """Of each value that a round's calls take: ``local``, ``outside``, ``part``, or its place so many rounds before."""
    steps: dict[int, tuple[int, int]]
    """By the number of a call that takes a part of a tensor: which item of its index goes on, and how far."""
    apart: int
    """How many rounds are written out before the loop."""
    backwards: set[int] = field(default_factory=set)
    """The places of what lists have from the last round to the first."""


def with_scans(root: Call, results: Any, record: Record) -> Any:
    """Makes one call of each loop that is a scan; the results of forward, as these give them."""
    if not _scanning(record):
        return results
    assert record.scans is not None
    order = list(operations(root))
    found: dict[Any, int] = {}
    ended = {id(mark) for loop in record.loops for mark in loop.marks}
    _keep(root, lambda item: not isinstance(item, Mark) or id(item) in ended)
    for loop in record.loops:
        containers = {id(mark.container) for mark in loop.marks}
        place = (loop.location, loop.marks[0].container.path)
        found[place] = number = found.get(place, -1) + 1
        if len(containers) == 1:
            results = _as_one(loop, root, results, record, (*place, number))
        _keep(root, lambda item, loop=loop: not isinstance(item, Mark) or item.loop is not loop)
    kept = {op: place for place, op in enumerate(operations(root))}
    before = [0]
    for op in order:
        if not isinstance(op, Mark):
            before.append(kept.get(op, before[-1] - 1) + 1)
    last = len(before) - 1
    guards = [guard for guard in (*record.guards, *(guard for _, guard in record.more)) if guard is not None]
    record.guards[:] = [replace(guard, at=before[min(guard.at, last)]) for guard in guards]
    return results


def _as_one(loop: Going, root: Call, results: Any, record: Record, place: Any) -> Any:
    """Makes one call of a loop: of all its rounds, or, where the first is another, of those after it."""
    assert record.scans is not None
    known, unlike = record.scans.forms.get(place), ""
    for number in (0, 1) if known is None else (known.apart,):
        try:
            rounds = _Rounds(loop, root, results, record, known, number)
            results = rounds.as_one()
        except Unlike as error:
            unlike = unlike or str(error)
            if not any(not isinstance(item, Mark) for item in _between(loop)):
                return results  # a list of the parts, say
        else:
            record.scans.forms.setdefault(place, rounds.form)
            return results
    record.scans.unlike.setdefault(loop.location, unlike)
    return results


def _between(loop: Going) -> list[Any]:
    """What stands between the marks of a loop."""
    body = loop.marks[0].container.body
    places = [place for place, item in enumerate(body) if isinstance(item, Mark) and item.loop is loop]
    return body[places[0] : places[-1]] if places else []


def _keep(root: Call, wanted: Callable[[Any], bool]) -> None:
    for call in calls(root):
        call.body[:] = filter(wanted, call.body)


class _Rounds:
    """The rounds of one loop."""

    def __init__(self, loop: Going, root: Call, results: Any, record: Record, form: Form | None, apart: int):
        """``apart`` is how many rounds stay as they are, ``form`` what is known of the rounds."""
        self.loop, self.root, self.results, self.record, self.known = loop, root, results, record, form
        self.apart, self.length = apart, _less(loop.length, apart)
        self.container = loop.marks[0].container
        body = self.container.body
        places = [place for place, item in enumerate(body) if isinstance(item, Mark) and item.loop is loop][apart:]
        self.rounds = [[item for item in body[a + 1 : b] if not isinstance(item, Mark)] for a, b in pairwise(places)]
        if len(self.rounds) < (2 if form is None else 1):
            raise Unlike("it has one round where it is traced, or none")
        self.begin, self.end = places[0], places[-1]
        self.before: list[Op] = []
        self.after: list[Op] = []
        self.asked: list[Guard] = []
        self.without: set[int] = set()  # what the first round alone does, which goes before the loop
        self.moved: dict[Op, Any] = {}  # its arguments there
        self.carried: dict[tuple[int, int], tuple[Value, Value]] = {}
        """What goes in at first and what it is in each round, by its place and of how many rounds before it is."""
        self.along: list[tuple[Value, Value, int, bool]] = []
        """Tensors, what they are in each round, along which dimensions, and whether backwards."""
        self.writes: dict[int, tuple[Op, Value]] = {}
        """What is written part by part, by its place."""
        self.heads: list[Any] = []
        """Calls of unbind of whose parts the rounds have all but the first."""
        self.parts: dict[Value, Value] = {}
        """What stands for a part that unbind gives."""
        self.changed: dict[Op, Any] = {}

    def as_one(self) -> Any:
        """Puts one call in the place of the rounds. Raises Unlike, and changes nothing then."""
        kinds = self.known.kinds if self.known is not None else [_kind(item) for item in self.rounds[1]]
        self._align(self.rounds[0], kinds)
        self.ops = [[op for item in items for op in _own(item)] for items in self.rounds]
        self.ops[0] = [op for op in self.ops[0] if id(op) not in self.without]
        if any([_kind(item) for item in items] != kinds for items in self.rounds[1:]):
            number, items = next((n, s) for n, s in enumerate(self.rounds) if n and [*map(_kind, s)] != kinds)
            other = next((x for x, kind in zip(items, kinds) if _kind(x) != kind), None)
            raise Unlike(f"round {number + self.apart} does something else{_line_of(other)}")
        self.made = [{value: place for place, value in enumerate(_results(ops))} for ops in self.ops]
        self.made_first, self.made_last = list(self.made[0]), list(self.made[-1])
        for values in self.made[1:]:
            if [(v.shape, v.dtype) for v in values] != [(v.shape, v.dtype) for v in self.made[0]]:
                raise Unlike("what a round makes has another shape in the next")
        self.slots = [[value for op in ops for value in _taken(op)] for ops in self.ops]
        self.form = self.known or Form(kinds, self._sources(), self._steps(), self.apart)
        if self.known is not None and len(self.rounds) > 1:
            columns = zip(self.known.sources, zip(*self.slots))
            if self._steps() != self.known.steps or not all(self._holds(*each) for each in columns):
                raise Unlike("its rounds take other values than at other sizes")
        return self._written(self._asked_again())

    # -- what is the same ----------------------------------------------------------------------------------------------

    def _align(self, items: list[Any], kinds: list[Any]) -> None:
        """Finds what the first round alone does, which is done before the loop: such as a state of zeros."""
        place = 0
        for item in items:
            kind = kinds[place] if place < len(kinds) else None
            if _kind(item) == kind:
                place += 1
            elif isinstance(item, Call) and kind is not None and kind[:2] == (item.path, item.kind):
                self._align(item.body, kind[2])
                place += 1
            elif isinstance(item, Op) and not item.inner:
                self.without.add(id(item))
                self.before += self._made_of(item)
            else:
                raise Unlike("its first round does something else")
        if place < len(kinds):
            raise Unlike("its first round does something else")

    def _made_of(self, op: Op) -> list[Op]:
        """The call and copies of those in the round whose results it takes."""
        made = {value: each for item in self.rounds[0] for each in _own(item) for value in _results([each])}
        needed = dict[Value, Value]()
        found: list[Op] = []

        def copy(value: Value) -> Value:
            if value in needed or value not in made or id(made[value]) in self.without:
                return needed.get(value, value)
            its = made[value]
            if its.inner or not isinstance(its.results, Value):
                raise Unlike("its first round does something else")
            args, kwargs = _imaged((its.args, its.kwargs), copy)
            needed[value] = replace(value)
            found.append(replace(its, args=args, kwargs=kwargs, results=needed[value]))
            needed[value].producer = found[-1]
            return needed[value]

        self.moved[op] = _imaged((op.args, op.kwargs), copy)
        return [*found, op]

    def _steps(self) -> dict[int, tuple[int, int]]:
        """The calls whose index goes on from round to round."""
        steps: dict[int, tuple[int, int]] = {}
        for number, ops in enumerate(zip(*self.ops)):
            columns = list(zip(*map(_index, ops)))
            for item, column in enumerate(columns):
                firsts = [_first_number(each) for each in column]
                if _place(column[0]) == "value" or len({size_key(_ends(each)) for each in column}) == 1:
                    continue
                step = firsts[1] - firsts[0] if None not in firsts else 0
                even = step in (1, -1) and all(b - a == step for a, b in pairwise(firsts))
                if number in steps or not even:
                    raise Unlike(f"an index does not go on by one{_line_of(ops[0])}")
                steps[number] = (item, step)
        return steps

    def _sources(self) -> list[Any]:
        return [self._source(values) for values in zip(*self.slots)]

    def _source(self, values: tuple[Value, ...]) -> Any:
        later = [self.made[0].get(value) for value in values[1 : EARLIER + 1]]
        places = [(place, back) for back, place in enumerate(later, start=1) if place is not None]
        candidates = ["local", "outside", *places, "part", "part from the end"]
        found = next((source for source in candidates if self._holds(source, values)), None)
        if found is None:
            raise Unlike("a value is neither of before the loop nor of the round before")
        return found

    def _holds(self, source: Any, values: tuple[Value, ...]) -> bool:
        """Whether the values that the rounds take in one place are from there."""
        if source == "local":
            place = self.made[0].get(values[0])
            return place is not None and all(made.get(value) == place for made, value in zip(self.made, values))
        back = source[1] if isinstance(source, tuple) else len(values)
        if any(value in made for value in values[:back] for made in self.made):
            return False
        if isinstance(source, tuple):
            return all(made.get(value) == source[0] for made, value in zip(self.made, values[back:]))
        if source == "outside":
            return all(value is values[0] for value in values)
        whole, start = _part_of(values[0]) or (None, 0)
        step = 1 if source == "part" else -1
        found = [(whole, start + step * k) for k in range(len(values))]
        return whole is not None and (step > 0 or start == len(values) - 1) and [*map(_part_of, values)] == found

    def _asked_again(self) -> set[int]:
        """The guards that are left out, by their places: those of the first round stand for all."""
        guards = self.record.guards
        asked = [range(a.asked, b.asked) for a, b in pairwise(self.loop.marks[self.apart :])]
        found = [[guards[place] for place in some if guards[place] is not None] for some in asked]
        kinds = [[(each.location, each.symbol, each.outcome, each.how) for each in some] for some in found]
        if any(kind != kinds[0] for kind in kinds):
            raise Unlike("it asks something else of sizes in some rounds")
        return set(self.loop.asked).union(*asked[1:])

    # -- the call ------------------------------------------------------------------------------------------------------

    def _written(self, left_out: set[int]) -> Any:
        self._read()
        dim, tensors = self._tensors()
        uses = _Uses(self)
        outside = uses.changes()
        kept = [*uses.stacked]
        gives = [
            self.made_first[place] if back == 1 else self.carried[place, back - 1][1] for place, back in self.carried
        ]
        gives += [self.writes[place][1] if place in self.writes else self.made_first[place] for place in kept]
        results = [uses.last_of(*source) for source in self.carried] + [uses.stacked[place] for place in kept]
        # From here on everything is changed.
        for op, (args, kwargs) in self.moved.items():
            op.args, op.kwargs = args, kwargs
        scan = self._call(dim, tensors, gives, results)
        made = [*self.before, *([scan] if gives else []), *self.after]
        self.container.body[self.begin : self.end + 1] = made
        uses.change(outside)
        self._ask(">=", self.length, 1)
        guards, begin = self.record.guards, next(iter(self.loop.asked), self.loop.marks[0].asked)
        for loop in self.record.loops:
            loop.length = uses.instead(loop.length)
        for place, guard in enumerate(guards):
            if guard is not None:
                guards[place] = None if place in left_out else uses.of_guard(guard)  # pyright: ignore
        more = [(place, uses.of_guard(guard)) for place, guard in self.record.more if place not in left_out]
        self.record.more[:] = [*more, *((begin, guard) for guard in self.asked)]
        return uses.results

    def _read(self) -> None:
        """Finds what goes in, and what the first round's calls are of the values of any round."""
        sources = enumerate(self.form.sources)
        for number, op in enumerate(self.ops[0]):
            args, kwargs = _imaged((op.args, op.kwargs), lambda value: self._of_any(value, next(sources)))
            if number not in self.form.steps:
                self.changed[op] = args, kwargs
                continue
            item, step = self.form.steps[number]
            if op.form == "setitem":
                place = self.made[0][op.results]
                self._check_written(op, number, place, item)
                self.writes[place], self.changed[op] = (op, args[2]), None
            else:
                base, axis, rest = self._whole(op, item, step)
                value = Value(_without(base.shape, axis), base.dtype) if rest else op.results
                self.along.append((base, value, axis, step < 0))
                self.changed[op] = value, rest
        for place in self.writes:
            self.carried.pop((place, 1), None)
        if not self.along:
            raise Unlike("it goes along no tensor")

    def _of_any(self, value: Value, place: tuple[int, Any]) -> Value:
        """What any round has in the place of a value of the first."""
        slot, source = place
        if source in ("part", "part from the end"):
            if value not in self.parts:
                whole, start = _part_of(value) or (value, 0)
                axis, backwards = _taken_apart(value.producer), source != "part"
                if backwards and (start, whole.shape[axis]) != (len(self.rounds) - 1, len(self.rounds)):
                    raise Unlike("it does not go along all parts of a tensor, the last of which is its first")
                if not backwards and (start or whole.shape[axis] != len(self.rounds)):
                    self.heads.append(value.producer)
                    whole = self._sliced(whole, axis, start or None, _more(start, self.length))
                self.parts[value] = Value(value.shape, value.dtype, name=value.name)
                self.along.append((whole, self.parts[value], axis, backwards))
            return self.parts[value]
        if not isinstance(source, tuple):
            return value
        return self._carry(source[0], source[1], [row[slot] for row in self.slots[: source[1]]])

    def _carry(self, place: int, back: int, firsts: list[Value]) -> Value:
        """What a round has of one before it; ``firsts`` are what the first rounds have instead."""
        value, made = firsts[0], self.made_first[place]
        if back > 1 and (place, back - 1) not in self.carried:
            if len(firsts) < 2:
                raise Unlike("it has fewer rounds than it looks back")
            self._carry(place, back - 1, firsts[1:])
        if (value.shape, value.dtype) != (made.shape, made.dtype):
            raise Unlike("what is carried from round to round has another shape or dtype at first")
        inside = Value(value.shape, value.dtype, name=self.made_last[place].name or value.name)
        first, inside = self.carried.setdefault((place, back), (value, inside))
        if first is not value:
            raise Unlike("two values of before the loop are one in its rounds")
        return inside

    def _tensors(self) -> tuple[int, list[Value]]:
        """The dimension that the loop goes along, and the tensors, in which it is that one."""
        axes = {axis for _, _, axis, _ in self.along}
        dim = axes.pop() if len(axes) == 1 else 0
        tensors: list[Value] = []
        for whole, value, axis, backwards in self.along:
            value.name = value.name or whole.name
            tensor = self._op("flip", (whole, [axis]), whole.shape) if backwards else whole
            if axis != dim:
                tensor = self._op("movedim", (tensor, axis, 0), (whole.shape[axis], *_without(whole.shape, axis)))
            tensors.append(tensor)
        return dim, tensors

    def _call(self, dim: int, tensors: list[Value], gives: list[Value], results: list[Value]) -> Scan:
        location, path, carried = self.loop.location, self.container.path, self.carried.values()
        starts = [Op("carried", "carried", "function", (first,), {}, value, location, path) for first, value in carried]
        for tensor, (_, value, _, _) in zip(tensors, self.along):
            starts.append(Op("along", "along", "function", (tensor, dim), {}, value, location, path))
        for op in starts:
            op.results.producer = op
        taken = [op.results for op in starts]
        for result, (first, inside) in zip(results, carried):
            result.name, inside.name = result.name or inside.name, inside.name or first.name
        part = Part((location, "round"), f"{self.container.title}_step", len(carried))
        body = [*starts, *self._body(self.rounds[0], self.changed)]
        args = (self.length, [first for first, _ in carried], tensors, taken, gives)
        scan = Scan("scan", "td.scan", "scan", args, {"dim": dim}, results, location, path)
        scan.round = Call(path, part, _named(taken), body, gives)
        for result in results:
            result.producer = scan
        return scan

    def _body(self, items: list[Any], changed: Mapping[Op, Any]) -> list[Any]:
        """The first round's calls, of the values of any round."""
        body: list[Any] = []
        for item in items:
            if isinstance(item, Call):
                item.body = self._body(item.body, changed)
                body.append(item)
                continue
            if id(item) in self.without:
                continue
            new = changed[item]
            if new is None:
                continue
            if isinstance(new[0], Value):  # a part of a tensor, and what is left of its index
                value, rest = new
                if rest:
                    item.name, item.form, item.kwargs = "getitem", "method", {}
                    item.qualified, item.args = "torch.Tensor.__getitem__", (value, rest)
                    body.append(item)
                continue
            for inner in item.inner:
                inner.body = self._body(inner.body, changed)
            item.args, item.kwargs = new
            for inner, results in zip(item.inner, item.args[len(item.args) - len(item.inner) :]):
                inner.results = results
            body.append(item)
        return body

    def _whole(self, op: Op, item: int, step: int) -> tuple[Value, int, tuple[Any, ...]]:
        """The tensor that a call takes the parts of one by one, along which dimension, and the rest of its index."""
        base, index = op.args[0], _index(op)
        axis = _axis(base, index, item)
        if not isinstance(base, Value) or axis is None or base in self.made[0]:
            raise Unlike(f"an index goes on in a tensor of the round's own{_line_of(op)}")
        place = next(
            sum(len(_taken(each)) for each in self.ops[0][:number])
            for number, each in enumerate(self.ops[0])
            if each is op
        )
        if self.form.sources[place] != "outside":
            raise Unlike(f"an index goes on in a tensor that changes from round to round{_line_of(op)}")
        axis_of_base, rest = axis, _rest(op, item)
        if any(_place(each) == "number" for each in [*index[:item], *index[item + 1 :]]):  # what else is chosen, before
            all_of_it = (*index[:item], slice(None), *index[item + 1 :])
            taken_before = index[:item] if Ellipsis not in index[:item] else []
            axis -= sum(_place(each) == "number" for each in taken_before)
            one, shape = isinstance(index[item], slice), op.results.shape
            shape = (*shape[:axis], base.shape[axis_of_base], *shape[axis + one :])
            base, rest = self._op("getitem", (base, all_of_it), shape), (*[slice(None)] * axis, None) if one else ()
        first, length = _ends(index[item])[0], self.length
        count = len(self.rounds)
        begin = first if step > 0 else _less(first, _less(length, 1))
        number = _first_number(index[item]) - (0 if step > 0 else count - 1)
        if number == 0 and base.shape[axis] == count:
            if not isinstance(begin, int):
                self._ask("==", begin, 0)
            size = SizeOf(base, axis, count)
            if size_key(size) != size_key(length):
                self._ask("==", size, length)
            return base, axis, rest
        start = begin if number or not isinstance(begin, int) else None
        return self._sliced(base, axis, start, _more(begin, length)), axis, rest

    def _sliced(self, whole: Value, axis: int, start: Any, end: Any) -> Value:
        shape = (*whole.shape[:axis], len(self.rounds), *whole.shape[axis + 1 :])
        return self._op("getitem", (whole, _along(axis, slice(start, end))), shape)

    def _ask(self, symbol: str, left: Any, right: Any) -> None:
        assert self.loop.location is not None
        self.asked.append(Guard(symbol, left, right, True, self.loop.location))

    def _check_written(self, op: Op, number: int, place: int, item: int) -> None:
        target, _, given = op.args
        slot = sum(len(_taken(each)) for each in self.ops[0][:number])
        users = sum(isinstance(source, tuple) and source[0] == place for source in self.form.sources)
        local = sum(
            source == "local" and value is op.results for source, value in zip(self.form.sources, self.slots[0])
        )
        axis = _axis(target, _index(op), item)
        alone = self.form.sources[slot] == (place, 1) and users == 1 and not local and axis is not None
        fits = isinstance(given, Value) and axis is not None and given.shape == _without(target.shape, axis)
        rest = [each for each in _index(op) if each not in (slice(None), Ellipsis)]
        if not (alone and fits and given.dtype == target.dtype and len(rest) == 1 and self.form.steps[number][1] == 1):
            raise Unlike(f"a tensor is written to and read in one round{_line_of(op)}")

    def _op(self, name: str, args: Any, shape: Sequence[int], *, after: bool = False) -> Value:
        form = "method" if name in ("getitem", "movedim", "flatten") else "function"
        op = Op(name, f"torch.{name}", form, args, {}, None, self.loop.location, self.container.path)
        op.results = Value(tuple(shape), args[0].dtype if isinstance(args[0], Value) else args[0][0].dtype, producer=op)
        (self.after if after else self.before).append(op)
        return op.results


class _Uses:
    """What is needed of a loop's rounds outside of them."""

    def __init__(self, rounds: _Rounds):
        self.rounds, self.made, self.count = rounds, [list(values) for values in rounds.made], len(rounds.rounds)
        self.writes, self.carried = rounds.writes, rounds.carried
        self.places = {
            value: (number, place) for number, row in enumerate(self.made) for place, value in enumerate(row)
        }
        self.stacked: dict[int, Value] = {}
        self.lasts: dict[Any, Value] = {}
        self.unbound: dict[int, Op] = {}
        self.whole: dict[Value, Value] = {}
        self.same: dict[Value, Value] = {}
        """What stands for results of calls that are left out."""
        self.results: Any = None

    def all_of(self, place: int) -> Value:
        """What all rounds give, along a new first dimension."""
        value = self.made[0][place]
        if value in self.whole:
            return self.whole[value]
        for tensor, own, axis, backwards in self.rounds.along:
            if own is value:  # a part of a tensor, as it is
                tensor = self.rounds._op("flip", (tensor, [axis]), tensor.shape) if backwards else tensor
                shape = (tensor.shape[axis], *_without(tensor.shape, axis))
                self.whole[own] = self.rounds._op("movedim", (tensor, axis, 0), shape) if axis else tensor
                return self.whole[own]
        if place not in self.stacked:
            self.stacked[place] = Value((self.count, *value.shape), value.dtype, name=value.hint)
        return self.stacked[place]

    def last_of(self, place: int, back: int = 1) -> Value:
        """What the last round gives, or one before it."""
        key = place, back
        if key not in self.lasts:
            value = self.made[-min(back, self.count)][place]
            if place in self.writes:
                self.lasts[key] = self._filled(place)
            elif key in self.carried:
                self.lasts[key] = Value(value.shape, value.dtype, name=value.name)
            else:
                self.lasts[key] = self.rounds._op("getitem", (self.all_of(place), -1), value.shape, after=True)
                self.lasts[key].name = value.name
        return self.lasts[key]

    def _filled(self, place: int) -> Value:
        """The tensor whose parts the rounds write."""
        op, given = self.writes[place]
        rounds, target = self.rounds, op.args[0]
        index = _index(op)
        item = next(item for item, each in enumerate(index) if each not in (slice(None), Ellipsis))
        axis = _axis(target, index, item)
        assert axis is not None
        parts = self.stacked[place] = Value((self.count, *given.shape), given.dtype)
        parts.name = given.name
        value = self._moved(parts, axis)
        begin = index[item]
        if begin == 0 and target.shape[axis] == self.count and _made_like(target, axis, rounds.length):
            value.name = value.name or op.results.name
            return value
        places = _along(axis, slice(begin, _more(begin, rounds.length)))
        write = Op("setitem", "torch.Tensor.__setitem__", "setitem", (target, places, value), {}, None, op.location)
        write.path = op.path
        write.results = Value(target.shape, target.dtype, name=self.made[-1][place].name, producer=write)
        rounds.after.append(write)
        return write.results

    def _moved(self, parts: Value, axis: int) -> Value:
        if axis == 0:
            return parts
        rest = parts.shape[1:]
        shape = (*rest[:axis], self.count, *rest[axis:])
        return self.rounds._op("movedim", (parts, 0, axis), shape, after=True)

    def changes(self) -> list[tuple[Any, Any, Any]]:
        """What stands outside of the rounds in the place of their values. Raises Unlike."""
        inside = {id(op) for ops in self.rounds.ops for op in ops}
        found: list[tuple[Any, Any, Any]] = []
        before = {id(op) for op in self.rounds.before}
        rest = {value for op in self.rounds.heads for value in op.results[1:]}
        self.looped = self._in_other_loops()
        for op in operations(self.rounds.root):
            if id(op) in inside or id(op) in before:
                continue
            taken = set(values_in((op.args, op.kwargs)))
            if taken & rest:
                raise Unlike("a part that it goes along is needed by itself")
            if taken & self.places.keys():
                found.append((op, *self._of_op(op)))
        self.results = self._strictly(self.rounds.results)
        return found

    def _of_op(self, op: Op) -> tuple[Any, Any]:
        given: Any = op.args[0] if op.args else op.kwargs.get("tensors")
        place = self._whole_list(given) if op.name in ("stack", "cat") else None
        if place is None:
            one = self._part if op in self.looped else self._one
            return _imaged(op.args, one), _imaged(op.kwargs, one)
        (place, start, backwards), value = place, self.made[0][place[0]]
        dim = op.kwargs.get("dim", op.args[1] if len(op.args) > 1 else 0)
        rank = len(value.shape) + (op.name == "stack")
        axis = dim % rank
        parts = self.all_of(place)
        if backwards:
            parts = self.rounds._op("flip", (parts, [0]), parts.shape, after=True)
        moved = self._moved(parts, axis)
        if op.name == "cat":
            shape = (*value.shape[:axis], self.count * value.shape[axis], *value.shape[axis + 1 :])
            moved = self.rounds._op("flatten", (moved, axis, axis + 1), shape, after=True)
        rest = [*given[:start], *given[start + self.count :]]
        if not rest:
            return ("same", moved), {}
        rest = self._strictly(rest)
        if op.name == "stack":
            rest = [
                self.rounds._op("unsqueeze", (each, axis), (*each.shape[:axis], 1, *each.shape[axis:]), after=True)
                for each in rest
            ]
        return ([*rest[:start], moved, *rest[start:]], axis), "cat"

    def _whole_list(self, given: Any) -> tuple[int, int, bool] | None:
        """The place of what a list has of all rounds, where it begins there, and whether the last is the first."""
        known = [self.places.get(item) for item in given] if isinstance(given, (list, tuple)) else []
        numbers = [place for place, item in enumerate(known) if item is not None]
        if len(numbers) < self.count:
            return None
        start = numbers[0]
        run: list[Any] = known[start : start + self.count]
        for backwards in (False, True):
            wanted = [(k, run[0][1]) for k in range(self.count)]
            if run == (wanted[::-1] if backwards else wanted):
                place, known_to_be = run[0][1], self.rounds.form.backwards
                if backwards:
                    known_to_be.add(place)
                return place, start, backwards if self.count > 1 else place in known_to_be
        return None

    def _strictly(self, tree: Any) -> Any:
        return _imaged(tree, self._one)

    def _in_other_loops(self) -> set[Op]:
        """The calls in rounds of later loops, which may go along what this one makes."""
        found: set[Op] = set()
        own = self.rounds.loop
        for loop in self.rounds.record.loops:
            inside = {op for item in _between(loop) for op in _own(item)}
            if loop is not own and not any(isinstance(op, Mark) and op.loop is own for op in inside):
                found |= inside
        return found

    def _part(self, value: Value) -> Value:
        """A round's value as one of all of them, for the round of another loop."""
        if value not in self.places:
            return value
        number, place = self.places[value]
        if place not in self.unbound:
            parts = self.all_of(place)
            op = Op("unbind", "torch.unbind", "function", (parts, 0), {}, None, self.rounds.loop.location)
            op.path = self.rounds.container.path
            op.results = [Value(each[place].shape, each[place].dtype, producer=op) for each in self.made]
            self.rounds.after.append(op)
            self.unbound[place] = op
        return self.unbound[place].results[number]

    def _one(self, value: Value) -> Value:
        if value not in self.places:
            return value
        number, place = self.places[value]
        back = self.count - number
        if back > 1 and (place, back) not in self.carried:
            raise Unlike("what one of its rounds makes is needed by itself")
        return self.last_of(place, back)

    def _leniently(self, tree: Any) -> Any:
        """As far as there is something in the place of it: names and guards alone look at these."""
        found = self._whole_list(tree)
        if found is not None and found[0] in self.stacked:
            return [self.stacked[found[0]]]
        node = apart(tree)
        if isinstance(tree, Value) or node is None:
            number, place = self.places.get(tree, (0, -1)) if isinstance(tree, Value) else (0, -1)
            return self.lasts.get((place, self.count - number), tree)
        return joined(tree, [self._leniently(each) for each in node[1]])

    def of_guard(self, guard: Guard) -> Guard:
        """The guard of values that are left."""
        return replace(guard, left=self.instead(guard.left), right=self.instead(guard.right))

    def instead(self, size: Any) -> Any:
        """The size of values that are left."""
        return self._without_same(self._leniently(size))

    def _without_same(self, tree: Any) -> Any:
        return _imaged(tree, lambda value: self.same.get(value, value))

    def change(self, changes: list[tuple[Any, Any, Any]]) -> None:
        """Writes all of it into the calls."""
        same = self.same
        for op, args, kwargs in changes:
            if len(args) == 2 and args[0] == "same":
                same[op.results] = args[1]
                args[1].name = args[1].name or op.results.name
            elif kwargs == "cat":
                op.name, op.qualified, op.args, op.kwargs = "cat", "torch.cat", args, {}
            else:
                op.args, op.kwargs = args, kwargs
        for op in self.rounds.heads:  # the first part alone is left
            op.args = (op.args[0], _along(_taken_apart(op), 0))
            op.name, op.form, op.kwargs = "getitem", "method", {}
            op.qualified, op.results = "torch.Tensor.__getitem__", op.results[0]
        gone = {id(op) for op, args, _ in changes if len(args) == 2 and args[0] == "same"}
        for call in calls(self.rounds.root):
            call.body[:] = [item for item in call.body if id(item) not in gone]
            call.arguments, call.results = self._leniently(call.arguments), self._leniently(call.results)
        if same:
            change_trees(self.rounds.root, self._without_same)
            self.results = self._without_same(self.results)


# -- calls and their indices -------------------------------------------------------------------------------------------


def _own(item: Any) -> list[Op]:
    return list(operations(Call("", None, {}, [item])))


def _results(ops: Iterable[Op]) -> list[Value]:
    return [value for op in ops for value in leaves(op.results) if isinstance(value, Value)]


def _taken(op: Op) -> list[Value]:
    """The values that a call takes, in order."""
    found: list[Value] = []
    _imaged((op.args, op.kwargs), lambda value: found.append(value) or value)
    return found


def _imaged(tree: Any, image: Callable[[Value], Value]) -> Any:
    return with_values(tree, lambda leaf: image(leaf) if isinstance(leaf, Value) else leaf)


def _kind(item: Any) -> Any:
    """What calls have in common that may be one in all rounds."""
    if isinstance(item, Call):
        return item.path, item.kind, [_kind(each) for each in item.body]
    args, index = item.args, _index(item)
    if index:
        args = (args[0], *args[2:])
    inner = [_kind(each) for call in item.inner for each in call.body]
    return (
        item.qualified,
        item.name,
        item.form,
        item.path,
        keyed((args, item.kwargs), _leaf),
        list(map(_place, index)),
        inner,
    )


def _leaf(leaf: Any) -> Any:
    return "value" if isinstance(leaf, Value) else repr(leaf)


def _place(item: Any) -> Any:
    """The kind of an item of an index."""
    if isinstance(item, slice):
        return "slice", *(None if end is None else "number" for end in (item.start, item.stop, item.step))
    if isinstance(item, (int, SizeOf, SizeOp)) and not isinstance(item, bool):
        return "number"
    return _leaf(item)


def _index(op: Op) -> list[Any]:
    """The items of a call's index; none for a call without one."""
    if op.name == "select" and len(op.args) == 3 and isinstance(op.args[1], int):
        return [*[slice(None)] * (op.args[1] % max(len(op.args[0].shape), 1)), op.args[2]]
    if op.name not in ("getitem", "setitem") or not isinstance(op.args[0], Value):
        return []
    return list(op.args[1]) if isinstance(op.args[1], tuple) else [op.args[1]]


def _ends(item: Any) -> tuple[Any, ...]:
    """The numbers of an item of an index."""
    return (item.start, item.stop, item.step) if isinstance(item, slice) else (item,)


def _first_number(item: Any) -> Any:
    """The number at which an item of an index begins; None for one that is no single place."""
    ends = [getattr(end, "number", end) for end in _ends(item)]
    if isinstance(item, slice):
        whole = isinstance(ends[0], int) and isinstance(ends[1], int) and ends[2] in (None, 1)
        return ends[0] if whole and ends[0] >= 0 and ends[1] - ends[0] == 1 else None
    return ends[0] if isinstance(ends[0], int) and ends[0] >= 0 else None


def _axis(base: Any, index: list[Any], item: int) -> int | None:
    """The dimension of the tensor that an item of its index is of; None where tensors are among the items."""
    if not isinstance(base, Value) or any(isinstance(each, (Value, list, bool)) for each in index):
        return None
    before = [each for each in index[:item] if each is not None]
    after = [each for each in index[item + 1 :] if each is not None]
    return len(base.shape) - 1 - len(after) if Ellipsis in [x for x in before if x is Ellipsis] else len(before)


def _rest(op: Op, item: int) -> tuple[Any, ...]:
    """The index that is left of one part of a tensor; empty where all of it is taken."""
    index = _index(op)
    one = index[item]
    rest = [*index[:item], *([None] if isinstance(one, slice) else []), *index[item + 1 :]]
    whole = all((isinstance(each, slice) and _ends(each) == (None, None, None)) or each is Ellipsis for each in rest)
    return () if whole else tuple(rest)


def _along(axis: int, item: Any) -> Any:
    """The index that has the item in a dimension, and all of the ones before it."""
    return (*[slice(None)] * axis, item) if axis else item


def _without(shape: Sequence[int], axis: int) -> tuple[int, ...]:
    return (*shape[:axis], *shape[axis + 1 :])


def _part_of(value: Value) -> tuple[Value, int] | None:
    """The tensor that ``unbind`` took apart, and which of its parts the value is."""
    op = value.producer
    if op is None or op.name != "unbind" or not isinstance(op.results, (tuple, list)):
        return None
    return op.args[0], next(place for place, part in enumerate(op.results) if part is value)


def _taken_apart(op: Any) -> int:
    """The dimension that ``unbind`` takes apart."""
    return op.kwargs.get("dim", op.args[1] if len(op.args) > 1 else 0) % len(op.args[0].shape)


def _more(a: Any, b: Any) -> Any:
    """The sum of two sizes."""
    if isinstance(a, int) and isinstance(b, int):
        return a + b
    if isinstance(a, int) and (a == 0 or (isinstance(b, SizeOp) and (b.symbol, *b.operands[1:]) == ("-", a))):
        return b if a == 0 else b.operands[0]
    return SizeOp("+", (b, a) if isinstance(a, int) else (a, b), _number(a) + _number(b))


def _less(a: Any, b: Any) -> Any:
    if isinstance(b, int) and b == 0:
        return a
    if isinstance(a, int) and isinstance(b, int):
        return a - b
    return SizeOp("-", (a, b), _number(a) - _number(b))


def _number(size: Any) -> Any:
    return size.number if isinstance(size, (SizeOf, SizeOp)) else size


def _made_like(target: Value, axis: int, length: Any) -> bool:
    """Whether a tensor was made with this length, so that the rounds write all of it."""
    op = target.producer
    if op is None:
        return False
    if op.name in ("zeros_like", "ones_like", "full_like") and isinstance(op.args[0], Value):
        return size_key(SizeOf(op.args[0], axis, 0)) == size_key(length)
    if op.name in ("zeros", "ones", "new_zeros", "new_ones"):
        sizes = op.args[1:] if op.name.startswith("new") else op.args
        sizes = sizes[0] if len(sizes) == 1 and isinstance(sizes[0], (list, tuple)) else sizes
        return len(sizes) == len(target.shape) and size_key(sizes[axis]) == size_key(length)
    return False


def _named(values: list[Value]) -> dict[str, Value]:
    """The values by the names of a round's parameters."""
    found: dict[str, Value] = {}
    for value in values:
        name = value.name or "x"
        while name in found:
            name = f"{name}_"
        found[name] = value
    return found


def _line_of(item: Any) -> str:
    op = next(iter(_own(item)), None) if item is not None else None
    return f" ({op.qualified}, line {op.location.line})" if op is not None and op.location is not None else ""
