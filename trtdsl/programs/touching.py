"""How much of its operands a generated kernel can touch, by its source.

A kernel computes a place from indices below a size, ``(thread / 32) % 5``, and from what it reads elsewhere by such
indices, as a gather does. A place has no more values than there are values of the indices that it depends on: the
product of their ranges, which conditions around it narrow (the parts of a concatenation). Whatever is not understood
may touch an operand as a whole.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from math import inf, prod

from .plan import KERNEL

VARIANT = re.compile(r'(?=^extern "C" __global__ void\b)', re.MULTILINE)
VARIABLE = re.compile(r"__v\d+")
PARAMETER = re.compile(r"^ +(?P<type>[\w<>,]+)(?P<pointer>\*)?(?: __restrict__)? (?P<name>__v\d+)[,)]", re.MULTILINE)
KEPT = re.compile(r"__v\d+\[(?P<slot>\d+)\] = (?:reinterpret_cast<void\*>\(&?)?(?P<name>__v\d+)\)?;")
TAKEN = re.compile(r"(?P<name>__v\d+) = .*live_inouts\[(?P<slot>\d+)\]\)?;")
NUMBER = re.compile(r"(?:\w+ )?(?P<name>__v\d+) = \(\w+\)(?P<of>__v\d+);")
DECLARED = re.compile(r"(?:__align__\(\d+\) )?[\w<>,]+\*? (?P<name>__v\d+)(?P<array>\[\d+\])?(?: = (?P<value>.*))?;")
ASSIGNED = re.compile(r"(?:if \(.*\) )?(?P<target>(?P<name>__v\d+)(?:\.values\[\d+\])?) = (?P<value>.*);")
STORED = re.compile(r"(?P<target>(?:\(\([^()]*\*\)__v\d+\)|__v\d+)\[[^\[\]]*\]) = (?P<value>.*);")
ACCESS = re.compile(r"(?:\(\([^()]*\*\)(?P<cast>__v\d+)\)|(?P<plain>__v\d+))\[(?P<place>[^\[\]]*)\]")
INDEX = re.compile(r"(?P<of>.*)% ?(?P<size>__v\d+|\d+)")
UNROLLED = re.compile(r"\d+ \* __myln_int32\(blockDim\.x\) \+ ")
"""By which the indices that one thread has differ: together they have the values of one."""
RAW = re.compile(r"\b(?:blockIdx|threadIdx|index)\b")
GUARD = re.compile(r"if ?\((?P<condition>.*)\)(?: \[\[unlikely\]\])? \{")
BELOW = re.compile(r"(?P<name>__v\d+) < (?P<size>__v\d+|\d+)")
MOVED = re.compile(r"(?P<name>__v\d+)(?: (?P<sign>[+-]) (?P<by>\d+))?")
WIDTH = re.compile(r"__myln_vtype<\w+,(\d+),\d+>")

Size = int | str
"""A number, or the argument that holds it: ``#3``."""
EVERYWHERE = "everywhere"
"""An index that has any value."""


@dataclass(frozen=True)
class Index:
    """An index below a size."""

    text: str
    size: Size


@dataclass(frozen=True)
class Guard:
    """A condition around statements: ``index + moved < size``, or not; other conditions only have variables."""

    depends: frozenset[Index | str]
    index: Index | None = None
    limit: Size = 0
    moved: int = 0
    below: bool = True


@dataclass(frozen=True)
class Site:
    """A place in the text that reads or writes an operand."""

    argument: int
    writes: bool
    width: int
    place: str
    """Equal for equal places."""
    depends: frozenset[Index | str]
    guards: tuple[Guard, ...]

    def most(self, size: Callable[[Size], int | None]) -> float:
        """The elements that it can touch."""
        count = float(self.width)
        for index in self.depends:
            low, high = 0, size(index.size) if isinstance(index, Index) else None
            for guard in self.guards:
                limit = size(guard.limit) if guard.index == index else None
                if limit is not None and high is not None:
                    limit -= guard.moved
                    low, high = (low, min(high, limit)) if guard.below else (max(low, limit), high)
            count *= max(high - low, 0) if high is not None else inf
        return count


def most_touched(
    source: str, name: str, arguments: list[str], sizes: Mapping[str, int | float | bool]
) -> dict[str, tuple[float, float]]:
    """The most elements of each operand that a kernel reads and writes; infinite where the source does not say.

    ``arguments`` are the names of the kernel's arguments, and ``sizes`` the values of those that are numbers.
    """

    def size(of: Size) -> int | None:
        value = of if isinstance(of, int) else sizes.get(arguments[int(of[1:])])
        return None if value is None else int(value)

    found: dict[str, tuple[float, float]] = {}
    read = _read(variant_of(source, name) or "")
    for number, argument in enumerate(arguments):
        counts = found.get(argument, (0.0, 0.0))
        for site in read.sites:
            if site.argument == number:
                more = site.most(size)
                counts = (counts[0], counts[1] + more) if site.writes else (counts[0] + more, counts[1])
        whole = number in read.unknown or len(arguments) != len(read.parameters)
        found[argument] = (inf, inf) if whole else counts
    return found


def variant_of(source: str, name: str) -> str | None:
    """The text of one variant of a kernel, with the functions behind it that are its own."""
    for variant in VARIANT.split(source):
        match = KERNEL.match(variant)
        if match is not None and match[1] == name:
            return variant
    return None


@lru_cache(maxsize=1024)
def _read(text: str) -> _Text:
    found = _Text(text)
    found.read()
    return found


@dataclass
class _Text:
    """Reads a kernel line by line."""

    text: str
    sites: dict[Site, None] = field(default_factory=dict)
    unknown: set[int] = field(default_factory=set)
    """Arguments that are used otherwise than by places."""
    pointers: dict[str, tuple[int, int]] = field(default_factory=dict)
    """The argument that a variable points to, and how many elements it takes at once."""
    numbers: dict[str, Size] = field(default_factory=dict)
    values: dict[str, tuple[str, frozenset[Index | str]]] = field(default_factory=dict)
    """What a variable is, equal for equal values, and what it depends on."""
    moved: dict[str, tuple[Index, int]] = field(default_factory=dict)
    depths: dict[str, int] = field(default_factory=dict)
    guards: list[Guard] = field(default_factory=list)

    @cached_property
    def parameters(self) -> dict[str, int]:
        head = self.text.partition("{")[0]
        return {match["name"]: number for number, match in enumerate(PARAMETER.finditer(head))}

    def read(self) -> None:
        """Finds the sites."""
        head, _, body = self.text.partition("{")
        for match in PARAMETER.finditer(head):
            number = self.parameters[match["name"]]
            if match["pointer"]:
                self.pointers[match["name"]] = (number, _width(match["type"]))
            else:
                self.numbers[match["name"]] = f"#{number}"
        slots: dict[str, str] = {}
        for line in body.splitlines():
            line = line.partition("//")[0].strip()
            if (kept := KEPT.fullmatch(line)) is not None and kept["name"] in self.parameters:
                slots[kept["slot"]] = kept["name"]
            elif (taken := TAKEN.fullmatch(line)) is not None:
                self._take(taken["name"], slots.get(taken["slot"]), line)
            elif (number := NUMBER.fullmatch(line)) is not None and number["of"] in self.numbers:
                self.numbers[number["name"]] = self.numbers[number["of"]]
            else:
                self._statement(line)

    def _take(self, name: str, parameter: str | None, line: str) -> None:
        """A variable that stands for an argument in a function of the kernel's own."""
        if parameter in self.pointers:
            self.pointers[name] = (self.pointers[parameter][0], _width(line))
        elif parameter in self.numbers and "*(" not in line:
            self.numbers[name] = self.numbers[parameter]
        else:
            self.values[name] = (line, frozenset([EVERYWHERE] if parameter is None else []))

    def _statement(self, line: str) -> None:
        if line in ("}", "} else {", "else {"):
            closed = self.guards.pop() if self.guards and line.startswith("}") else None
            if line != "}":
                last = closed or self._closed
                self.guards.append(Guard(last.depends, last.index, last.limit, last.moved, not last.below))
            elif closed is not None:
                self._closed = closed
        elif (guard := GUARD.fullmatch(line)) is not None:
            self._use(guard["condition"])
            self.guards.append(self._guard(guard["condition"]))
        elif (stored := STORED.fullmatch(line)) is not None:
            self._use(stored["value"])
            self._access(stored["target"], writes=True)
        elif (made := ASSIGNED.fullmatch(line) or DECLARED.fullmatch(line)) is not None:
            if made.re is DECLARED:
                self.depths[made["name"]] = len(self.guards)
            if made["value"] is not None:
                self._use(made["value"])
                self._assign(made["name"], made["value"])
        else:
            self._use(line)
            self.values |= dict.fromkeys(VARIABLE.findall(line), (line, frozenset([EVERYWHERE])))
            if line.endswith("{"):
                self.guards.append(Guard(self._depends(line)))

    _closed = Guard(frozenset())

    def _assign(self, name: str, value: str) -> None:
        around = self.guards[self.depths.get(name, 0) :]
        before = self.values.get(name, ("", frozenset[Index | str]()))
        depends = frozenset[Index | str]().union(before[1], self._depends(value), *(each.depends for each in around))
        index, moved = INDEX.fullmatch(value), MOVED.fullmatch(value)
        if index is not None and EVERYWHERE in depends and (size := self._size(index["size"])) is not None:
            own = Index(self._named(value), size)
            self.moved[name], depends = (own, 0), frozenset([own])
        elif moved is not None and moved["name"] in self.moved:
            own, by = self.moved[moved["name"]]
            self.moved[name] = (own, by + int(f"{moved['sign'] or ''}{moved['by'] or 0}"))
        self.values[name] = (str(hash((before[0], self._named(value)))), depends)

    def _guard(self, condition: str) -> Guard:
        below, depends = BELOW.fullmatch(condition), self._depends(condition)
        if below is not None and below["name"] in self.moved and (size := self._size(below["size"])) is not None:
            index, moved = self.moved[below["name"]]
            return Guard(depends, index, size, moved)
        return Guard(depends)

    def _size(self, text: str) -> Size | None:
        return int(text) if text.isdigit() else self.numbers.get(text)

    def _use(self, text: str) -> None:
        """The accesses in an expression; what has a pointer besides may touch all that it points to."""
        self._access(text, writes=False)
        for name in VARIABLE.findall(ACCESS.sub("", text)):
            if name in self.pointers:
                self.unknown.add(self.pointers[name][0])

    def _access(self, text: str, *, writes: bool) -> None:
        for match in ACCESS.finditer(text):
            argument, width = self.pointers.get(match["cast"] or match["plain"], (None, 1))
            if argument is not None:
                place, depends = match["place"], self._depends(match["place"])
                width = _width(match[0]) if match["cast"] else width
                self.sites[Site(argument, writes, width, self._named(place), depends, tuple(self.guards))] = None

    def _depends(self, text: str) -> frozenset[Index | str]:
        """The indices that an expression depends on; those behind an access are those of its place."""
        return frozenset(self._each(text))

    def _each(self, text: str) -> Iterator[Index | str]:
        if RAW.search(text):
            yield EVERYWHERE
        for match in ACCESS.finditer(text):
            if (match["cast"] or match["plain"]) not in self.pointers:
                yield EVERYWHERE  # what the kernel keeps in shared memory or in registers
        for name in VARIABLE.findall(text):
            yield from self.values.get(name, ("", ()))[1]

    def _named(self, text: str) -> str:
        """An expression with what its variables are in the place of their names."""

        def named(match: re.Match[str]) -> str:
            name = match[0]
            if name in self.pointers:
                return f"@{self.pointers[name][0]}"
            return self.values[name][0] if name in self.values else str(self.numbers.get(name, name))

        return VARIABLE.sub(named, UNROLLED.sub("", text))


def _width(text: str) -> int:
    return prod(map(int, WIDTH.findall(text)[:1]))
