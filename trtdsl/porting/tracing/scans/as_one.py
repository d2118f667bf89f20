"""The rounds of a loop as one call."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Any

from ....core.lazy import torch
from ...calls import Call, Op, Part, Scan, SizeOf, Value, along, calls, imaged, operations, operations_in
from ...statements import size_key
from ..guards import Guard, Record
from . import taking
from .marks import Going, Mark, between, scanning
from .rounds import Form, Rounds
from .taking import Unlike
from .uses import Uses

EARLIER = 3  # rounds that a round looks back
FIRST = "its first round does something else"


def with_scans(root: Call, results: Any, record: Record) -> Any:
    """Makes one call of each loop that is a scan; the results of forward, as these give them."""
    if not scanning(record):
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
            rounds = Written(loop, root, results, record, known, number)
            results = rounds.as_one()
        except Unlike as error:
            unlike = str(error) if unlike in ("", FIRST) else unlike
            if not any(not isinstance(item, Mark) for item in between(loop)):
                return results  # a list of the parts, say
        else:
            record.scans.forms.setdefault(place, rounds.form)
            return results
    record.scans.unlike.setdefault(loop.location, unlike)
    return results


def _keep(root: Call, wanted: Callable[[Any], bool]) -> None:
    for call in calls(root):
        call.body[:] = filter(wanted, call.body)


class Written(Rounds):
    """The rounds of one loop, which become one call."""

    def as_one(self) -> Any:
        """Puts one call in the place of the rounds. Raises Unlike, and changes nothing then."""
        kinds = self.known.kinds if self.known is not None else [taking.kind_of(item) for item in self.rounds[1]]
        self._align(self.rounds[0], kinds)
        self.ops = [[*operations_in(items)] for items in self.rounds]
        self.ops[0] = [op for op in self.ops[0] if id(op) not in self.without]
        if any([taking.kind_of(item) for item in items] != kinds for items in self.rounds[1:]):
            number, items = next((n, s) for n, s in enumerate(self.rounds) if n and [*map(taking.kind_of, s)] != kinds)
            other, kind = next(((x, kind) for x, kind in zip(items, kinds) if taking.kind_of(x) != kind), (None, None))
            taking.check_numbers(other, kind)
            raise Unlike(f"round {number + self.apart} does something else{taking.line_of(other)}")
        results = [[value for op in ops for value in op.made] for ops in self.ops]
        self.made = [{value: place for place, value in enumerate(values)} for values in results]
        self.made_first, self.made_last = list(self.made[0]), list(self.made[-1])
        for values in self.made[1:]:
            if [(v.shape, v.dtype) for v in values] != [(v.shape, v.dtype) for v in self.made[0]]:
                raise Unlike("what a round makes has another shape in the next")
        self.slots = [[value for op in ops for value in op.taken] for ops in self.ops]
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
            if taking.kind_of(item) == kind:
                place += 1
            elif isinstance(item, Call) and kind is not None and kind[:2] == (item.path, item.kind):
                self._align(item.body, kind[2])
                place += 1
            elif isinstance(item, Op) and not item.inner:
                taking.check_numbers(item, kind)
                self.without.add(id(item))
                self.before += self._made_of(item)
            else:
                raise Unlike(FIRST)
        if place < len(kinds):
            raise Unlike(FIRST)

    def _made_of(self, op: Op) -> list[Op]:
        """The call and copies of those in the round whose results it takes."""
        made = {value: each for each in operations_in(self.rounds[0]) for value in each.made}
        needed = dict[Value, Value]()
        found: list[Op] = []

        def copy(value: Value) -> Value:
            if value in needed or value not in made or id(made[value]) in self.without:
                return needed.get(value, value)
            its = made[value]
            if its.inner or not isinstance(its.results, Value):
                raise Unlike(FIRST)
            args, kwargs = imaged((its.args, its.kwargs), copy)
            needed[value] = replace(value)
            found.append(replace(its, args=args, kwargs=kwargs, results=needed[value]))
            needed[value].producer = found[-1]
            return needed[value]

        self.moved[op] = imaged((op.args, op.kwargs), copy)
        return [*found, op]

    def _steps(self) -> dict[int, tuple[int, int]]:
        """The calls whose index goes on from round to round."""
        steps: dict[int, tuple[int, int]] = {}
        for number, ops in enumerate(zip(*self.ops)):
            columns = list(zip(*map(taking.index_of, ops)))
            for item, column in enumerate(columns):
                firsts = [taking.first_number(each) for each in column]
                if (
                    taking.place_of(column[0]) == "value"
                    or len({size_key(taking.ends_of(each)) for each in column}) == 1
                ):
                    continue
                step = firsts[1] - firsts[0] if None not in firsts else 0
                even = step in (1, -1) and all(b - a == step for a, b in pairwise(firsts))
                if number in steps or not even:
                    raise Unlike(
                        f"an index does not go on by one{taking.line_of(ops[0])}: windows are x.unfold(dim, size, 1), "
                        "before the loop"
                    )
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
        whole, start = taking.part_of(values[0]) or (None, 0)
        step = 1 if source == "part" else -1
        found = [(whole, start + step * k) for k in range(len(values))]
        return whole is not None and (step > 0 or start == len(values) - 1) and [*map(taking.part_of, values)] == found

    def _asked_again(self) -> set[int]:
        """The guards that are left out, by their places: those of the first round stand for all."""
        guards = self.record.guards
        asked = [range(a.asked, b.asked) for a, b in pairwise(self.loop.marks[self.apart :])]
        own = {*self.loop.asked}
        found = [[guards[at] for at in some if guards[at] is not None and at not in own] for some in asked]
        kinds = [[(each.location, each.symbol, each.outcome, each.how) for each in some] for some in found]
        if any(kind != kinds[0] for kind in kinds):
            raise Unlike("it asks something else of sizes in some rounds")
        return own.union(*asked[1:])

    # -- the call ------------------------------------------------------------------------------------------------------

    def _written(self, left_out: set[int]) -> Any:
        self._read()
        dim, tensors = self._tensors()
        uses = Uses(self)
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
            args, kwargs = imaged((op.args, op.kwargs), lambda value: self._of_any(value, next(sources)))
            if number not in self.form.steps:
                self.changed[op] = args, kwargs
                continue
            item, step = self.form.steps[number]
            if op.form == "setitem":
                place = self.made[0][op.results]
                rest = taking.index_of(op)[1:] if item == 0 else []
                self._check_written(op, number, place, item, part=bool(rest))
                self.writes[place], self.changed[op] = (op, args[2]), None
                if rest:  # of a part, some elements: in the round it is a tensor of its own
                    target = op.args[0]
                    row, written = (Value(target.shape[1:], target.dtype) for _ in range(2))
                    self.along.append((target, row, 0, False))
                    given = args[1][1:] if len(rest) > 1 else args[1][1]
                    self.changed[op], self.rows[op] = ((row, given, args[2]), kwargs), written
                    self.writes[place] = op, written
            else:
                base, axis, rest = self._whole(op, item, step)
                value = Value(taking.without(base.shape, axis), base.dtype) if rest else op.results
                self.along.append((base, value, axis, step < 0))
                self.changed[op] = value, rest
        for place in self.writes:
            self.carried.pop((place, 1), None)
        if not self.along and not self.ops[0]:
            raise Unlike("its rounds compute nothing")
        if not self.along:  # its number of rounds alone comes from outside
            numbers = self.op("arange", (self.length,), (len(self.rounds),), torch.int64)
            self.along.append((numbers, Value((), torch.int64), 0, False))

    def _of_any(self, value: Value, place: tuple[int, Any]) -> Value:
        """What any round has in the place of a value of the first."""
        slot, source = place
        if source in ("part", "part from the end"):
            if value not in self.parts:
                whole, start = taking.part_of(value) or (value, 0)
                axis, backwards = taking.taken_apart(value.producer), source != "part"
                if backwards and (start, whole.shape[axis]) != (len(self.rounds) - 1, len(self.rounds)):
                    raise Unlike("it does not go along all parts of a tensor, the last of which is its first")
                if not backwards and (start or whole.shape[axis] != len(self.rounds)):
                    self.heads.append(value.producer)
                    whole = self._sliced(whole, axis, start or None, taking.more(start, self.length))
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
            tensor = self.op("flip", (whole, [axis]), whole.shape) if backwards else whole
            if axis != dim:
                tensor = self.op("movedim", (tensor, axis, 0), (whole.shape[axis], *taking.without(whole.shape, axis)))
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
        scan.round = Call(path, part, taking.by_name(taken), body, gives)
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
                    args = value, rest[0] if len(rest) == 1 else rest
                    taking.rewrite(item, **taking.GETITEM, args=args, kwargs={})
                    body.append(item)
                continue
            for inner in item.inner:
                inner.body = self._body(inner.body, changed)
            item.args, item.kwargs = new
            if item in self.rows:
                item.results = self.rows[item]
                item.results.producer = item
            for inner, results in zip(item.inner, item.args[len(item.args) - len(item.inner) :]):
                inner.results = results
            body.append(item)
        return body

    def _whole(self, op: Op, item: int, step: int) -> tuple[Value, int, tuple[Any, ...]]:
        """The tensor that a call takes the parts of one by one, along which dimension, and the rest of its index."""
        base, index = op.args[0], taking.index_of(op)
        axis = taking.axis_of(base, index, item)
        if not isinstance(base, Value) or axis is None or base in self.made[0]:
            beside = axis is None and base not in self.made[0]
            what = "beside tensors: index twice, x[i][places]" if beside else "in a tensor of the round's own"
            raise Unlike(f"an index goes on {what}{taking.line_of(op)}")
        place = next(
            sum(len(each.taken) for each in self.ops[0][:number])
            for number, each in enumerate(self.ops[0])
            if each is op
        )
        if self.form.sources[place] != "outside":
            raise Unlike(f"an index goes on in a tensor that changes from round to round{taking.line_of(op)}")
        axis_of_base, rest = axis, taking.rest_of(op, item)
        if any(
            taking.place_of(each) == "number" for each in [*index[:item], *index[item + 1 :]]
        ):  # what else is chosen, before
            all_of_it = (*index[:item], slice(None), *index[item + 1 :])
            taken_before = index[:item] if Ellipsis not in index[:item] else []
            axis -= sum(taking.place_of(each) == "number" for each in taken_before)
            one, shape = isinstance(index[item], slice), op.results.shape
            shape = (*shape[:axis], base.shape[axis_of_base], *shape[axis + one :])
            base, rest = self.op("getitem", (base, all_of_it), shape), (*[slice(None)] * axis, None) if one else ()
        first, length = taking.ends_of(index[item])[0], self.length
        count = len(self.rounds)
        begin = first if step > 0 else taking.less(first, taking.less(length, 1))
        number = taking.first_number(index[item]) - (0 if step > 0 else count - 1)
        if number == 0 and base.shape[axis] == count:
            if not isinstance(begin, int):
                self._ask("==", begin, 0)
            size = SizeOf(base, axis, count)
            if size_key(size) != size_key(length):
                self._ask("==", size, length)
            return base, axis, rest
        start = begin if number or not isinstance(begin, int) else None
        return self._sliced(base, axis, start, taking.more(begin, length)), axis, rest

    def _sliced(self, whole: Value, axis: int, start: Any, end: Any) -> Value:
        shape = (*whole.shape[:axis], len(self.rounds), *whole.shape[axis + 1 :])
        return self.op("getitem", (whole, along(axis, slice(start, end))), shape)

    def _ask(self, symbol: str, left: Any, right: Any) -> None:
        assert self.loop.location is not None
        self.asked.append(Guard(symbol, left, right, True, self.loop.location))

    def _check_written(self, op: Op, number: int, place: int, item: int, part: bool) -> None:
        target, _, given = op.args
        slot = sum(len(each.taken) for each in self.ops[0][:number])
        users = sum(isinstance(source, tuple) and source[0] == place for source in self.form.sources)
        local = sum(
            source == "local" and value is op.results for source, value in zip(self.form.sources, self.slots[0])
        )
        axis = taking.axis_of(target, taking.index_of(op), item)
        axis = 0 if part and isinstance(op.args[1][0], int) else axis
        alone = self.form.sources[slot] == (place, 1) and users == 1 and not local and axis is not None
        own = isinstance(given, Value) and given.dtype == target.dtype
        whole = own and axis is not None and given.shape == taking.without(target.shape, axis)
        rest = [each for each in taking.index_of(op) if each not in (slice(None), Ellipsis)]
        fits = (whole and len(rest) == 1) or (part and (own or not isinstance(given, Value)))
        if not (alone and fits and self.form.steps[number][1] == 1):
            raise Unlike(f"a tensor is written to and read in one round{taking.line_of(op)}")
