"""Which way a function is lowered at each call, where there are several: who chooses, and what was chosen."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ..common import Location, is_file

if TYPE_CHECKING:
    from typing_extensions import Self


class SiteKey(NamedTuple):
    """What names a call within a network, however its lines move: no line number is part of it."""

    file: str
    """Relative to the network's file; empty for code in no file, such as a notebook's."""
    within: str
    """The author's function."""
    operation: str
    """The function that the author calls."""
    function: str
    """The function that is lowered in one of several ways; the operation, or one that it calls."""
    ordinal: int
    """Which of the calls that agree in all of the above, from 0."""


class Site(NamedTuple):
    """A call whose function can be lowered in several ways, and the way that it took."""

    key: SiteKey
    location: Location
    operands: tuple[str, ...]
    """What a file says of each: its shape and dtype, or what made it."""
    ways: tuple[str, ...]
    """Those that can express this call and may be tried, the function's default first."""
    lowering: str
    given: bool
    """Whether the author named the way."""
    scales: tuple[float, ...] = ()
    """With which its operands are quantized, one for each that is not constant; 0 for one that is not."""
    values: str = ""
    """A hash of its numbers and of constants that no weights file has, by which calls that are alike are told apart."""
    said: str = "lowering"
    """What a file calls its way; "dtype" of a call that computes in floating point, whose ways are dtypes."""

    @property
    def open(self) -> bool:
        """Whether a file may say its way: it has several, and the author names none."""
        return len(self.ways) > 1 and not self.given

    @property
    def differs(self) -> bool:
        """Whether it is lowered otherwise than by default, and not because the author says so."""
        return not self.given and self.lowering != self.ways[0]


@dataclass(eq=False, repr=False)
class Choices:
    """The lowerings of one network's calls: what is asked for, and the calls in their order.

    ``tuned`` has the ways of calls by their keys, ``start`` those of functions by name; a way that the author names
    comes before both.
    """

    tuned: Mapping[SiteKey, str] = field(default_factory=dict)
    start: Mapping[str, str] = field(default_factory=dict, kw_only=True)
    folder: Path | None = field(default=None, init=False)
    """Of the network's file."""
    tuning: str | None = field(default=None, init=False)
    """The name of the tuning that it has the choices from."""
    unused: str | None = field(default=None, init=False)
    """Why a tuning that is there has nothing for this network."""
    fallbacks: list[str] = field(default_factory=list, init=False)
    """Which calls are lowered otherwise than they would be, because this version of TensorRT lacks a layer."""
    _sites: list[Site | None] = field(default_factory=list, init=False)  # in the order of the author's calls
    _counts: Counter[tuple[str, str, str, str]] = field(default_factory=Counter, init=False)
    _labels: dict[str, str] = field(default_factory=dict, init=False)

    def to_json(self) -> dict[str, Any] | None:
        """The tuning and the calls that it lowers otherwise than by default; None where there is none."""
        calls = sum(site.open for site in self.sites)
        if self.tuning is None:
            return None if self.unused is None else {"file": None, "unused": self.unused, "calls": calls}
        changed = [
            {"line": site.location.short, "function": site.key.function, "lowering": site.lowering}
            for site in self.sites
            if site.differs
        ]
        return {"file": self.tuning, "calls": calls, "changed": changed}

    def fresh(self) -> Self:
        """What is asked for, without the calls."""
        return replace(self)

    @property
    def sites(self) -> list[Site]:
        """The calls that can be lowered in several ways, in the author's order."""
        return [site for site in self._sites if site is not None]

    def claim(self) -> int:
        """The place of the next call among them."""
        self._sites.append(None)
        return len(self._sites) - 1

    def take(self, place: int, site: Site) -> None:
        """Says how the call of that place is lowered."""
        self._sites[place] = site

    def key(self, file: str, within: str, operation: str, function: str) -> SiteKey:
        """The key of the next call of a function that the author's function ``within`` of a file makes."""
        label = self._labels.get(file)
        if label is None:
            label = self._labels[file] = self._label(file)
        alike = label, within, operation, function
        self._counts[alike] += 1
        return SiteKey(*alike, self._counts[alike] - 1)

    def wanted(self, key: SiteKey) -> str | None:
        """The way that a call is to take; None where nobody says."""
        return self.tuned.get(key) or self.start.get(key.function)

    def _label(self, file: str) -> str:
        """A file's name that is the same on every machine; empty for code in no file."""
        if not is_file(file):
            return ""
        path = Path(file).resolve()
        if self.folder is not None and path.is_relative_to(self.folder):
            return path.relative_to(self.folder).as_posix()
        return path.name
