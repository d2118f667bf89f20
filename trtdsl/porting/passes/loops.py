"""Loops in place of statements that are repeated for numbered parts of the weights: ``for block in w.blocks``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..calls import SizeOf, SizeOp, Value, Weight, rebuilt
from ..statements import Copy, Expression, Literal, Loop, Scope, Statement, pattern, uses_of

LONGEST = 64  # statements in a loop's body


def rolled(body: list[Any], results: list[Value], counts: Mapping[str, int]) -> tuple[list[Any], list[Value]]:
    """The statements with loops, and the results as the loops give them; ``counts`` has the numbered parts of each
    path.
    """
    written: list[Any] = []
    rest = list(body)
    while rest:
        found = _repeated(rest, results, counts)
        if found is None:
            written.append(rest.pop(0))
            continue
        loop, length = found
        after = rest[length:]
        uses = uses_of(after, results)
        if any(uses[first] for first, _ in loop.carried):
            for index, (first, again) in enumerate(loop.carried):
                if uses[first]:  # the input is needed later, so the loop changes a copy
                    copy = Value(first.shape, first.dtype, name=again.name)
                    written.append(Copy(copy, first))
                    substitute(loop.body, {first: copy})
                    loop.carried[index] = (copy, again)
        back = {last: first for first, last in loop.last.items()}
        substitute(after, back)
        results = [back.get(value, value) for value in results]
        written.append(loop)
        rest = after
    return written, results


def _repeated(body: list[Statement], results: list[Value], counts: Mapping[str, int]) -> tuple[Loop, int] | None:
    """The longest run of repeated statements that begins here, with the number of statements that it covers."""
    best: tuple[Loop, int] | None = None
    for period in range(1, min(LONGEST, len(body) // 2) + 1):
        match = _Match(body, period)
        count = 1
        while (count + 1) * period <= len(body) and match.round(count):
            count += 1
        while count > 1:
            loop = match.loop(count, results)
            if loop is not None:
                loop.whole = loop.start == 0 and all(counts.get(path) == count for path in loop.containers)
                loop.whole = loop.whole and bool(loop.containers)
            if loop is not None and (count > 2 or period > 1 or loop.whole):
                if best is None or count * period > best[1]:
                    best = loop, count * period
                break
            count -= 1
    return best


class _Match:
    """The first ``period`` statements beside later rounds of them."""

    def __init__(self, body: list[Statement], period: int):
        self.body, self.period = body, period
        self.first = body[:period]
        self.defined = {value for statement in self.first for value in statement.results}
        self.maps: list[dict[Value, Value]] = [{value: value for value in self.defined}]
        self.carried: dict[Value, Value] = {}
        self.fixed: set[Value] = set()
        self.containers: dict[str, int] = {}
        self.constant: set[str] = set()

    def round(self, index: int) -> bool:
        """Whether the statements of this round are the first ones, one part further each time."""
        current: dict[Value, Value] = {}
        state = dict(self.carried), set(self.fixed), dict(self.containers), set(self.constant)
        place = index * self.period
        for mine, other in zip(self.first, self.body[place : place + self.period]):
            if mine.note or pattern(mine) != pattern(other) or len(mine.results) != len(other.results):
                break
            if not self._expression(mine.expression, other.expression, index, current):
                break
            current.update(zip(mine.results, other.results))
        else:
            if not (set(self.carried) & self.fixed):
                self.maps.append(current)
                return True
        self.carried, self.fixed, self.containers, self.constant = state
        return False

    def _expression(self, a: Expression, b: Expression, index: int, current: dict[Value, Value]) -> bool:
        if (a.form, a.name, len(a.arguments)) != (b.form, b.name, len(b.arguments)):
            return False
        return all(
            mine.keyword == other.keyword and self._tree(mine.tree, other.tree, index, current)
            for mine, other in zip(a.arguments, b.arguments)
        )

    def _tree(self, a: Any, b: Any, index: int, current: dict[Value, Value]) -> bool:
        if isinstance(a, Expression) and isinstance(b, Expression):
            return self._expression(a, b, index, current)
        if type(a) is not type(b):
            return False
        if isinstance(a, (list, tuple)):
            return len(a) == len(b) and all(self._tree(x, y, index, current) for x, y in zip(a, b))
        if isinstance(a, slice):
            pairs = ((a.start, b.start), (a.stop, b.stop), (a.step, b.step))
            return all(self._tree(x, y, index, current) for x, y in pairs)
        if isinstance(a, dict):
            return list(a) == list(b) and all(self._tree(a[key], b[key], index, current) for key in a)
        if isinstance(a, Literal):
            return repr(a.value) == repr(b.value) and a.parameter == b.parameter
        if isinstance(a, (Weight, Scope)):
            return self._path(a.path, b.path, index)
        if isinstance(a, Value):
            return self._value(a, b, index, current)
        if isinstance(a, SizeOf):
            return a.axis == b.axis and self._tree(a.value, b.value, index, current)
        if isinstance(a, SizeOp):
            return a.symbol == b.symbol and self._tree(a.operands, b.operands, index, current)
        return a == b

    def _value(self, a: Value, b: Value, index: int, current: dict[Value, Value]) -> bool:
        if a in self.defined:
            return current.get(a) is b
        if a is b:
            self.fixed.add(a)
            return True
        former = self.maps[index - 1]
        source = next((first for first, later in former.items() if later is b), None)
        if (
            source is None
            or self.carried.get(a, source) is not source
            or (source in self.carried.values() and a not in self.carried)
        ):
            return False
        self.carried[a] = source
        return True

    def _path(self, a: str, b: str, index: int) -> bool:
        if a == b:
            self.constant.add(a)
            return True
        mine, other = a.split("."), b.split(".")
        different = [place for place, (x, y) in enumerate(zip(mine, other)) if x != y]
        if len(mine) != len(other) or len(different) != 1:
            return False
        (place,) = different
        if not (mine[place].isdigit() and other[place].isdigit() and int(other[place]) == int(mine[place]) + index):
            return False
        container = ".".join(mine[:place])
        start = int(mine[place])
        return self.containers.setdefault(container, start) == start

    def loop(self, count: int, results: list[Value]) -> Loop | None:
        """The loop of the first ``count`` rounds, where no value of an earlier round is needed outside of it."""
        if any(path.startswith(f"{container}.") for path in self.constant for container in self.containers):
            return None
        if not self.containers and not self.carried:
            return None
        length = count * self.period
        after = set(uses_of(self.body[length:], results))
        for index, round_ in enumerate(self.maps[: count - 1]):
            if any(value in after for value in round_.values()):
                return None
            if any(self._kept(value, index) for value in round_.values()):
                return None
        last = dict(self.maps[count - 1])
        starts = set(self.containers.values())
        if len(starts) > 1:
            return None
        carried = list(self.carried.items())
        return Loop(self.first, starts.pop() if starts else 0, count, list(self.containers), carried, last)

    def _kept(self, value: Value, index: int) -> bool:
        """Whether a value of one round is needed in a later one than the next."""
        begin = (index + 2) * self.period
        return uses_of(self.body[begin:], [])[value] > 0


def substitute(body: list[Any], values: dict[Value, Value]) -> None:
    """Writes other values in the place of some, in all statements."""

    def change(leaf: Any) -> Any:
        if isinstance(leaf, Value):
            return values.get(leaf, leaf)
        if isinstance(leaf, SizeOf):
            return SizeOf(values.get(leaf.value, leaf.value), leaf.axis, leaf.number, leaf.name)
        if isinstance(leaf, SizeOp):
            return SizeOp(leaf.symbol, tuple(map(change, leaf.operands)), leaf.number)
        if isinstance(leaf, Expression):
            enter(leaf)
        return leaf

    def enter(expression: Expression) -> None:
        for argument in expression.arguments:
            argument.tree = rebuilt(argument.tree, change)

    for statement in body:
        enter(statement.expression)
