"""How much of its operands a generated kernel can touch, by its source.

A kernel computes a place from indices below a size, ``(thread / 32) % 5``, and from what it reads elsewhere by such
indices, as a gather does. A place has no more values than there are values of the indices that it depends on: the
product of their ranges, which conditions around it narrow (the parts of a concatenation). Whatever is not understood
may touch an operand as a whole.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from math import inf, prod

from ..core.errors import ManifestDamagedError
from .handed import parse_size
from .plan import KERNEL

VARIANT = re.compile(r'(?=^extern "C" __global__ void\b)', re.MULTILINE)
VARIABLE = re.compile(r"__v\d+")
PARAMETER = re.compile(
    r"^ +(?P<type>\w+(?:<[\w<>, ]+>)?)(?P<pointer>\*)?(?: __restrict__)? (?P<name>__v\d+)[,)]", re.MULTILINE
)
KEPT = re.compile(r"(?P<array>__v\d+)\[(?P<slot>\d+)\] = (?:reinterpret_cast<void\*>\(&?)?(?P<name>__v\d+)\)?;")
TAKEN = re.compile(r"(?P<name>__v\d+) = .*live_inouts\[(?P<slot>\d+)\]\)?;")
DECLARED = re.compile(
    r"(?:__align__\(\d+\) )?\w+(?:<[\w<>, ]+>)?\*? (?P<name>__v\d+)(?:\[\d+\])?(?: = (?P<value>.*))?;"
)
ASSIGNED = re.compile(r"(?:if \(.*\) )?(?P<name>__v\d+)(?:\.values\[\d+\])? = (?P<value>.*);")
STORED = re.compile(r"(?P<target>(?:\(\([^()]*\*\)__v\d+\)|__v\d+)\[[^\[\]]*\]) = (?P<value>.*);")
ACCESS = re.compile(r"(?:\(\([^()]*\*\)(?P<cast>__v\d+)\)|(?P<plain>__v\d+))\[(?P<place>[^\[\]]*)\]")
REMAINDER = re.compile(r"(?P<of>\)|__v\d+) ?% ?(?P<size>__v\d+|\d+)")
THREAD = re.compile(
    r"\d+ \* \(__myln_int32\(blockIdx\.x\) \* __myln_int32\(blockDim\.x\)\) \+ "
    r"\d+ \* __myln_int32\(blockDim\.x\) \+ __myln_int32\(threadIdx\.x\)"
)
"""The number of a thread among all; a thread may have several, which together have the values of one."""
RAW = re.compile(r"\b(?:blockIdx|threadIdx|index)\b")
GUARD = re.compile(r"if ?\((?P<condition>.*)\)(?: \[\[unlikely\]\])? \{")
BELOW = re.compile(r"(?P<name>__v\d+|thread) < (?P<size>[^<>=&|]+)")
MOVED = re.compile(r"(?P<name>__v\d+)(?: (?P<sign>[+-]) (?P<by>\d+))?")
WIDTH = re.compile(r"__myln_vtype(?:<\w+,|_packed<\w+, \w+, (?!1,)\d+, )(\d+),")
"""How many elements are taken at once. Of two that share one byte it is one, at half of its place."""
CAST = re.compile(r"\((?:__myln_)?int(?:32|64)?\)|__myln_int32(?=\()")
ARITHMETIC = re.compile(r"[\d ()+*/-]{1,200}")


@dataclass(frozen=True)
class Index:
    """An index below a size."""

    text: str
    size: float


Indices = frozenset[Index]
NUMBERED = Index("thread", inf)
EVERYWHERE = Index("everywhere", inf)
"""What has any value."""


@dataclass(frozen=True)
class Guard:
    """A condition around statements: ``index + moved < limit``, or not; other conditions only have variables."""

    depends: Indices
    index: Index | None = None
    limit: int = 0
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
    depends: Indices
    guards: tuple[Guard, ...]

    @property
    def most(self) -> float:
        """The elements that it can touch."""
        count: float = self.width
        for index in self.depends:
            low, high = 0, index.size
            for guard in self.guards:
                if guard.index == index:
                    limit = guard.limit - guard.moved
                    low, high = (low, min(high, limit)) if guard.below else (max(low, limit), high)
            count *= max(high - low, 0)
        return count


def most_touched(
    source: str, name: str, arguments: Sequence[str], sizes: Mapping[str, int | float | bool]
) -> dict[str, tuple[float, float]]:
    """The most elements of each operand that a kernel reads and writes; infinite where the source does not say.

    ``arguments`` are the names of the kernel's arguments, and ``sizes`` the values of those that are numbers.
    """
    read = _read(variant_of(source, name) or "", tuple(map(sizes.get, arguments)))
    found = dict.fromkeys(arguments, (0.0, 0.0))
    for site in read.sites:
        reads, writes = found[arguments[site.argument]]
        found[arguments[site.argument]] = (reads, writes + site.most) if site.writes else (reads + site.most, writes)
    return found | {arguments[number]: (inf, inf) for number in read.unknown}


def variant_of(source: str, name: str) -> str | None:
    """The text of one variant of a kernel, with the functions behind it that are its own."""
    for variant in VARIANT.split(source):
        match = KERNEL.match(variant)
        if match is not None and match[1] == name:
            return variant
    return None


@lru_cache(maxsize=1024)
def _read(text: str, values: tuple[int | float | bool | None, ...]) -> _Kernel:
    """Reads a kernel, of whose arguments some are numbers."""
    head, _, body = text.partition("{")
    parameters = list(PARAMETER.finditer(head))
    if len(parameters) != len(values):
        return _Kernel(unknown=set(range(len(values))))
    kernel = _Kernel()
    for number, (match, value) in enumerate(zip(parameters, values, strict=True)):
        if match["pointer"]:
            kernel.pointers[match["name"]] = (number, _width(match["type"]))
        elif value is not None:
            kernel.numbers[match["name"]] = int(value)
    for line in body.splitlines():
        kernel.read(line.partition("//")[0].strip())
    return kernel


@dataclass
class _Kernel:
    """What is known of a kernel's text so far."""

    sites: dict[Site, None] = field(default_factory=dict)
    unknown: set[int] = field(default_factory=set)
    """Arguments that are used otherwise than by places."""
    pointers: dict[str, tuple[int, int]] = field(default_factory=dict)
    """The argument that a variable points to, and how many elements it takes at once."""
    numbers: dict[str, int] = field(default_factory=dict)
    values: dict[str, tuple[str, Indices]] = field(default_factory=dict)
    """What a variable is, equal for equal values, and what it depends on."""
    moved: dict[str, tuple[Index, int]] = field(default_factory=lambda: {NUMBERED.text: (NUMBERED, 0)})
    """The index that a variable is, and what is added to it."""
    slots: dict[str, str] = field(default_factory=dict)
    """What the functions of a kernel's own are given, by its place."""
    depths: dict[str, int] = field(default_factory=dict)
    guards: list[Guard] = field(default_factory=list)
    closed: Guard = Guard(frozenset())

    def read(self, line: str) -> None:
        """Follows one line."""
        line = THREAD.sub(NUMBERED.text, line)
        if (kept := KEPT.fullmatch(line)) is not None and kept["array"] not in self.pointers:
            self.slots.setdefault(kept["slot"], kept["name"])
        elif (taken := TAKEN.fullmatch(line)) is not None:
            self._take(taken["name"], self.slots.get(taken["slot"], ""), line)
        elif line in ("}", "} else {", "else {"):
            if line.startswith("}"):
                self.closed = self.guards.pop() if self.guards else Guard(frozenset())
            if line != "}":
                self.guards.append(replace(self.closed, below=not self.closed.below))
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
                self.guards.append(Guard(frozenset([EVERYWHERE])))

    def _take(self, name: str, given: str, line: str) -> None:
        """A variable that stands for an argument, or for what the kernel keeps, in a function of the kernel's own."""
        if given in self.pointers:
            self.pointers[name] = (self.pointers[given][0], _width(line))
        elif given in self.numbers:
            self.numbers[name] = self.numbers[given]
        else:
            self.values[name] = (line, frozenset())

    def _assign(self, name: str, value: str) -> None:
        around = self.guards[self.depths.get(name, 0) :]
        before = self.values.get(name, ("", frozenset()))
        number, moved = self._number(value), MOVED.fullmatch(value)
        depends, rest = self._depends(value)
        if number is not None and not around and name not in self.values:
            self.numbers[name] = number
        elif len(depends) == 1 and rest.strip() in ("", NUMBERED.text):
            self.moved[name] = (next(iter(depends)), 0)
        elif moved is not None and moved["name"] in self.moved:
            index, by = self.moved[moved["name"]]
            self.moved[name] = (index, by + int(f"{moved['sign'] or ''}{moved['by'] or 0}"))
        depends = depends.union(before[1], *(each.depends for each in around))
        self.values[name] = (str(hash((before[0], self._named(value)))), depends)

    def _number(self, text: str) -> int | None:
        """The value of an expression of numbers alone."""
        text = CAST.sub("", VARIABLE.sub(lambda name: str(self.numbers.get(name[0], name[0])), text))
        if ARITHMETIC.fullmatch(text) is None:
            return None
        try:
            return int(parse_size(text.replace("/", "//"), {}))
        except ManifestDamagedError:
            return None

    def _guard(self, condition: str) -> Guard:
        below, (depends, _) = BELOW.fullmatch(condition), self._depends(condition)
        limit = self._number(below["size"]) if below is not None else None
        if below is None or limit is None or below["name"] not in self.moved:
            return Guard(depends)
        index, moved = self.moved[below["name"]]
        return Guard(depends, index, limit, moved)

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
                width = _width(match[0]) if match["cast"] else width
                place = self._named(match["place"])
                depends, _ = self._depends(match["place"])
                self.sites[Site(argument, writes, width, place, depends, tuple(self.guards))] = None

    def _depends(self, text: str) -> tuple[Indices, str]:
        """The indices that an expression depends on, and what it has beside those that stand in it."""
        found: set[Index] = set()
        taken = len(text)
        for match in reversed(list(REMAINDER.finditer(text))):
            if match.start() >= taken:
                continue  # inside of the remainder behind it
            begin, end = _opening(text, match.start("of")) if match["of"] == ")" else match.start(), match.end("of")
            inside, size = text[begin:end], self._number(match["size"])
            if size is not None and any(index.size == inf for index in self._plain(inside)):
                found.add(Index(f"{self._named(inside)} % {size}", size))
                text, taken = text[:begin] + text[match.end() :], begin
        return frozenset(found) | self._plain(text), text

    def _plain(self, text: str) -> Indices:
        found = {EVERYWHERE} if RAW.search(text) else set()
        found |= {NUMBERED} if NUMBERED.text in text else set()
        for match in ACCESS.finditer(text):
            if (match["cast"] or match["plain"]) not in self.pointers:
                found.add(EVERYWHERE)  # what the kernel keeps in shared memory or in registers
        return frozenset(found).union(*(self.values.get(name, ("", ()))[1] for name in VARIABLE.findall(text)))

    def _named(self, text: str) -> str:
        """An expression with what its variables are in the place of their names."""

        def named(match: re.Match[str]) -> str:
            name = match[0]
            if name in self.pointers:
                return f"@{self.pointers[name][0]}"
            return str(self.numbers[name] if name in self.numbers else self.values.get(name, (name,))[0])

        return VARIABLE.sub(named, text)


def _opening(text: str, end: int) -> int:
    """Where the parenthesis begins that ends there."""
    depth = 0
    for place in range(end, -1, -1):
        depth += {")": 1, "(": -1}.get(text[place], 0)
        if not depth:
            return place
    return 0


def _width(text: str) -> int:
    return prod(map(int, WIDTH.findall(text)[:1]))
