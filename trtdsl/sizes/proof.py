"""Proofs about sizes over the whole ranges of their dimensions: by bounds, by remainders, and by trying every value."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..core.lazy import np
from .dim import Dim
from .shape import substitute
from .size import INFINITY, Extremum, FloorDivision, Size, SizeLike, bounds, value

CLASSES = 512
"""How many combinations of remainders are looked at."""
POINTS = 1 << 17
"""How many combinations of values are tried."""
FEW = 1 << 10
"""Those that are tried before anything else."""
Env = dict[str, int]


def classes(size: Size, *, most: int = CLASSES, ranged: bool = True) -> list[SizeLike] | None:
    """The size for each remainder of its Dims by what they are divided by: forms without those divisions.

    None for sizes without divisions by numbers and for more than ``most`` of them. ``ranged`` keeps to the ranges of
    the Dims; otherwise each is any whole number.

    >>> classes(td.Dim("T") - td.Dim("T") // 2 * 2)
    [0, 1]
    """
    periods = _periods(size)
    dims = {str(atom): atom for atom in size.atoms() if isinstance(atom, Dim) and str(atom) in periods}
    if not dims or math.prod(periods[name] for name in dims) > most:
        return None
    choices = []
    for name, dim in dims.items():
        low, high = dim.bounds() if ranged else (0, INFINITY)
        choices.append([(name, each) for each in _residues(dim, periods[name], low, high)])
    return [substitute(size, dict(combination)) for combination in itertools.product(*choices)]


def _residues(dim: Dim, period: int, low: int, high: int) -> Iterator[SizeLike]:
    """``period * k + r`` for each r, with the range that k has then."""
    for rest in range(period):
        least, greatest = -((rest - low) // period), INFINITY if high >= INFINITY else (high - rest) // period
        if least == greatest:
            yield period * least + rest
        elif least < greatest:
            yield period * Dim(dim.name, min=least, max=greatest) + rest


def _periods(size: SizeLike) -> dict[str, int]:
    """By what each Dim is divided, one division inside of another counted as their product."""
    result: dict[str, int] = {}
    for atom in (atom for monomial, _ in size.terms for atom in monomial) if isinstance(size, Size) else ():
        inner: dict[str, int] = {}
        for part in atom.parts():
            for name, period in _periods(part).items():
                inner[name] = math.lcm(inner.get(name, 1), period)
        if isinstance(atom, FloorDivision) and isinstance(atom.right, int):
            for dim in atom.atoms():
                inner[str(dim)] = inner.get(str(dim), 1) * abs(atom.right)
        for name, period in inner.items():
            result[name] = math.lcm(result.get(name, 1), period)
    return result


def identical(difference: SizeLike) -> bool:
    """Whether a size is proven to be 0 whatever the dimensions are.

    A size of Dims and divisions by numbers is a polynomial for each remainder of its Dims by what they are divided by,
    and one that is 0 at more places of each Dim than its degree is 0 everywhere. Of another its form is looked at, for
    each remainder.
    """
    if isinstance(difference, int):
        return difference == 0
    degrees, periods = _degrees(difference), _periods(difference)
    if degrees is None:
        ranges = tuple(sorted((str(atom), atom.bounds()) for atom in difference.atoms()))
        return _is_zero_in_each_class(difference.terms, ranges)
    places = {name: (0, periods.get(name, 1) * (degree + 1) - 1) for name, degree in degrees.items()}
    values = evaluated(difference, grid(places)) if is_few(places) else None
    return values is not None and not values.any()


@functools.lru_cache(maxsize=1024)
def _is_zero_in_each_class(terms: Any, ranges: Any) -> bool:
    """Of a size of these terms, whose atoms have these ranges."""
    found = classes(Size(terms), ranged=False)
    return found is not None and all(isinstance(each, int) and each == 0 for each in found)


def _degrees(size: SizeLike) -> dict[str, int] | None:
    """The degree in each Dim of a size of Dims and divisions by numbers; None for another size."""
    found: dict[str, int] = {}
    for monomial, _ in size.terms if isinstance(size, Size) else ():
        here: dict[str, int] = {}
        for atom in monomial:
            degrees = {atom.name: 1} if isinstance(atom, Dim) else None
            if isinstance(atom, FloorDivision) and isinstance(atom.right, int):
                degrees = _degrees(atom.left)
            if degrees is None:
                return None
            for name, degree in degrees.items():
                here[name] = here.get(name, 0) + degree
        for name, degree in here.items():
            found[name] = max(found.get(name, 0), degree)
    return found


def extent(size: SizeLike) -> tuple[int, int]:
    """As :func:`bounds`, narrower where the size is a simple one for each remainder of its dimensions.

    One that has the greater of others inside is known by its values, where these are few: each remainder would simplify
    these anew, and each of them those that it has inside.
    """
    ranges = ranges_of(size) if _has_extremum(size) else None
    if ranges and math.prod(high - low + 1 for low, high in ranges.values()) <= FEW:
        values = evaluated(size, grid(ranges))
        if values is not None:
            return int(values.min()), int(values.max())
    found = classes(size, most=64) if isinstance(size, Size) else None
    if not found:
        return bounds(size)
    ends = [bounds(each) for each in found]
    return min(low for low, _ in ends), max(high for _, high in ends)


def _has_extremum(size: SizeLike) -> bool:
    """Whether the size has the greater or the lesser of two sizes inside."""
    atoms = (atom for monomial, _ in size.terms for atom in monomial) if isinstance(size, Size) else ()
    return any(isinstance(atom, Extremum) or any(map(_has_extremum, atom.parts())) for atom in atoms)


def sign_of(size: SizeLike) -> tuple[bool, bool, bool]:
    """Whether the size may be negative, zero, positive: True for each that is not excluded."""
    low, high = bounds(size)
    return low < 0, low <= 0 <= high, high > 0


def signs(size: SizeLike) -> tuple[bool, bool, bool]:
    """As :func:`sign_of`, over all values of the dimensions: exact where they are simple or few."""
    found = sign_of(size)
    if sum(found) == 1 or isinstance(size, int):
        return found
    parts = classes(size)
    if parts:
        each = [sign_of(part) for part in parts]
        negative, zero, positive = (any(column) for column in zip(*each, strict=True))
        found = negative, zero, positive
        if sum(found) == 1:
            return found
    ranges = ranges_of(size)
    if ranges is None or not is_few(ranges):
        return found
    values = evaluated(size, grid(ranges))
    if values is None:
        return found
    return bool((values < 0).any()), bool((values == 0).any()), bool((values > 0).any())


def ranges_of(*sizes: SizeLike) -> dict[str, tuple[int, int]] | None:
    """The ranges of the Dims; None where one has no end, or a size is not made of Dims alone."""
    atoms = {atom for size in sizes if isinstance(size, Size) for atom in size.atoms()}
    ranges = {}
    for atom in sorted(atoms, key=str):
        low, high = atom.bounds()
        if high >= INFINITY or not isinstance(atom, Dim):
            return None
        ranges[str(atom)] = (low, high)
    return ranges


def is_few(ranges: Mapping[str, tuple[int, int]]) -> bool:
    """Whether every combination of values may be tried."""
    return math.prod(high - low + 1 for low, high in ranges.values()) <= POINTS


def grid(ranges: Mapping[str, tuple[int, int]]) -> dict[str, Any]:
    """Every combination of values, as one vector for each name; the last name's value changes fastest."""
    axes = np.meshgrid(*(np.arange(low, high + 1) for low, high in ranges.values()), indexing="ij")
    return {name: axis.reshape(-1) for name, axis in zip(ranges, axes, strict=True)}


def samples(ranges: Mapping[str, tuple[int, int]], each: int = 40) -> dict[str, Any]:
    """Some combinations of values: ends, their neighbours, odd sizes, primes and powers of 2."""
    chosen = [_some(low, high, each) for low, high in ranges.values()]
    while math.prod(map(len, chosen)) > POINTS:
        chosen = [values[:: 2 if len(values) > 8 else 1] for values in chosen]
        if all(len(values) <= 8 for values in chosen):
            break
    combinations = itertools.islice(itertools.product(*chosen), POINTS)
    columns = np.array(list(combinations), dtype=np.int64)
    return {name: columns[:, index] for index, name in enumerate(ranges)}


def _some(low: int, high: int, count: int) -> list[int]:
    if high - low < count:
        return list(range(low, high + 1))
    near = {low, low + 1, low + 2, low + 3, high, high - 1, high - 2, (low + high) // 2, (low + high) // 2 + 1}
    primes = (2, 3, 5, 7, 11, 13, 17, 31, 61, 97, 127, 251, 509, 1021, 2039, 4093)
    powers = (1, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048)
    return sorted({*near, *(number for number in (*primes, *powers) if low <= number <= high)})


def evaluated(size: SizeLike, env: Mapping[str, Any]) -> Any:
    """The size at many values of the dimensions at once; None where it is none there (a division by zero)."""
    try:
        with np.errstate(divide="raise"):
            return value(size, env) + np.zeros(next(iter(env.values())).shape if env else (), dtype=np.int64)
    except ArithmeticError:
        return None


def within(size: SizeLike, ranges: Mapping[str, Sequence[int]]) -> SizeLike:
    """The size with these ranges ``(min, …, max)`` of its Dims instead of their own."""
    return substitute(size, {name: Dim(name, min=given[0], max=given[-1]) for name, given in ranges.items()})
