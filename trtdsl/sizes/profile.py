"""Ranges of dynamic dimensions: the sets of sizes that an engine is built and tuned for."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from ..core.errors import Location, UsageError
from .dim import Dim

Range = int | tuple[int, int] | tuple[int, int, int]
"""One size, ``(min, max)``, which is tuned for max, or ``(min, opt, max)``."""
Bounds = tuple[int, int, int]
PLACES = {"min": 0, "opt": 1, "max": 2}


@dataclass(frozen=True, init=False, repr=False)
class Profile:
    """A set of sizes that an engine serves and is tuned for: ranges of some dimensions, the others at their Dim's own.

    A range is one size, ``(min, max)``, tuned for max, or ``(min, opt, max)``. ``td.Profile()`` is the whole ranges of
    all dimensions, which a network without profiles has.

    Raises UsageError, with the line that it stands in, unless ``0 <= min <= opt <= max``.

    >>> td.Profile(N=1, T=(100, 300, 600))
    Profile(N=1, T=(100, 300, 600))
    """

    items: tuple[tuple[str, Bounds], ...]
    """The dimensions' names and ``(min, opt, max)``."""
    location: Location | None = field(compare=False)
    """The author's place; None for one of the command line."""

    def __init__(self, /, **ranges: Range):
        frame = sys._getframe(1)
        location = Location(frame.f_code.co_filename, frame.f_lineno)
        self._set(((name, as_bounds(name, ranges[name], location)) for name in sorted(ranges)), location)

    def _set(self, items: Iterable[tuple[str, Bounds]], location: Location | None) -> Profile:
        object.__setattr__(self, "items", tuple(items))
        object.__setattr__(self, "location", location)
        return self

    @classmethod
    def parse(cls, text: str) -> Profile:
        """A profile as the command line writes it; UsageError for anything else.

        >>> td.Profile.parse("N=1:8,T=100:300:600")
        Profile(N=(1, 8, 8), T=(100, 300, 600))
        """
        ranges = read_ranges(filter(None, text.split(",")), "--profile")
        return cls.__new__(cls)._set(((name, as_bounds(name, ranges[name])) for name in sorted(ranges)), None)

    @property
    def ranges(self) -> dict[str, Bounds]:
        """``(min, opt, max)`` by the dimension's name."""
        return dict(self.items)

    def at(self, which: Literal["min", "opt", "max"]) -> dict[str, int]:
        """The size of each dimension at one end of its range, or the one that is tuned for.

        >>> td.Profile(N=(1, 4, 16), T=300).at("opt")
        {'N': 4, 'T': 300}
        """
        return {name: bounds[PLACES[which]] for name, bounds in self.items}

    def holds(self, sizes: Mapping[str, int]) -> bool:
        """Whether it has these sizes of all its dimensions.

        >>> td.Profile(N=(1, 4, 16), T=300).holds({"N": 2, "T": 301})
        False
        """
        return all(low <= sizes[name] <= high for name, (low, _, high) in self.items)

    def check(self, dims: Mapping[str, Dim], network: str) -> None:
        """Raises UsageError, with the author's line, for a dimension that is not there and a range outside its own."""
        for name, (low, opt, high) in self.items:
            if name not in dims:
                raise self._error(f"{network} has no dimension {name!r}: it has {', '.join(dims) or 'none'}")
            own = dims[name].range
            if own is not None and not own[0] <= low <= high <= own[2]:
                raise self._error(
                    f"a profile's range of {name}, {low} to {high} (best at {opt}), is not within the dimension's, "
                    f"{own[0]} to {own[2]}"
                )

    def within(self, dims: Mapping[str, Dim]) -> Profile:
        """The ranges of all ``dims``, in their order: those not given here at the Dim's own, where it has one.

        >>> td.Profile(T=(10, 20)).within({"N": td.Dim("N", min=1, max=8), "T": td.Dim("T")})
        Profile(N=(1, 8, 8), T=(10, 20, 20))
        """
        ranges = self.ranges
        bounds = {name: ranges.get(name, dim.range) for name, dim in dims.items()}
        return self._with((name, given) for name, given in bounds.items() if given is not None)

    def fixed(self, sizes: Mapping[str, int]) -> Profile:
        """What is left of the profile where some dimensions have one size; UsageError for a size outside its range."""
        for name, (low, _, high) in self.items:
            if name in sizes and not low <= sizes[name] <= high:
                raise self._error(
                    f"the profile {self} does not hold {name} = {sizes[name]}: give other profiles, or td.Profile()"
                )
        return self._with(item for item in self.items if item[0] not in sizes)

    def _with(self, items: Iterable[tuple[str, Bounds]]) -> Profile:
        return Profile.__new__(Profile)._set(items, self.location)

    def _error(self, text: str) -> UsageError:
        return UsageError(text, location=self.location)

    def __str__(self) -> str:
        """As the command line reads it: ``N=1,T=100:300:600``."""
        return ",".join(
            f"{name}={low}" if low == high else f"{name}={low}:{opt}:{high}" for name, (low, opt, high) in self.items
        )

    def __repr__(self) -> str:
        ranges = ((name, bounds[0] if bounds[0] == bounds[2] else bounds) for name, bounds in self.items)
        return f"Profile({', '.join(f'{name}={given}' for name, given in ranges)})"


def as_profiles(given: Iterable[Profile]) -> tuple[Profile, ...]:
    """The profiles as a tuple; UsageError for anything else among them."""
    profiles = tuple(given)
    for profile in profiles:
        if not isinstance(profile, Profile):
            raise UsageError(f"profiles are td.Profile(…), not {type(profile).__name__}: {profile!r}")
    return profiles


def as_bounds(name: str, given: Range | Sequence[int], location: Location | None = None) -> Bounds:
    """``(min, opt, max)`` of a size or a range; UsageError for anything else."""
    sizes: list[Any] = list(given) if isinstance(given, (tuple, list)) else [given]
    if not 1 <= len(sizes) <= 3 or any(isinstance(size, bool) or not isinstance(size, int) for size in sizes):
        text = f"the range of {name} is a size, (min, max) or (min, opt, max), not {given!r}"
        raise UsageError(text, location=location)
    low, opt, high = sizes[0], sizes[-1] if len(sizes) < 3 else sizes[1], sizes[-1]
    if not 0 <= low <= opt <= high:
        text = f"dimension {name}: needs 0 <= min <= opt <= max, not {low}, {opt}, {high}"
        raise UsageError(text, location=location)
    return low, opt, high


def sizes_text(sizes: Mapping[str, int]) -> str:
    """Sizes in words.

    >>> sizes_text({"N": 2, "H": 64})
    'N = 2, H = 64'
    """
    return ", ".join(f"{name} = {size}" for name, size in sizes.items())


def read_ranges(texts: Iterable[str], option: str) -> dict[str, Range]:
    """``NAME=4``, ``NAME=1:16`` and ``NAME=1:4:16`` of a command line's option by name. Raises UsageError.

    >>> read_ranges(["N=4", "T=1:300"], "--dim")
    {'N': 4, 'T': (1, 300, 300)}
    """
    ranges: dict[str, Range] = {}
    for text in texts:
        name, _, sizes = (part.strip() for part in text.partition("="))
        try:
            numbers = tuple(int(size) for size in sizes.split(":"))
        except ValueError:
            numbers = ()
        if not name or len(numbers) not in (1, 2, 3):
            raise UsageError(f"{option} {text}: expected NAME=MIN:OPT:MAX or NAME=SIZE")
        if name in ranges:
            raise UsageError(f"{option} gives {name} twice")
        ranges[name] = numbers[0] if len(numbers) == 1 else as_bounds(name, numbers)
    return ranges
