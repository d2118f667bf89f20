"""What sizes are made of beyond numbers: floor divisions, maxima and minima; named dimensions are Dims."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .size import Size, SizeLike

INFINITY = 1 << 62  # the upper bound of a dimension that was given none


class Atom:
    """What cannot be taken apart further; ordered and compared by ``key``."""

    key: tuple[Any, ...]

    def value(self, env: Mapping[str, Any]) -> Any:
        raise NotImplementedError

    def bounds(self) -> tuple[int, int]:
        raise NotImplementedError

    def atoms(self) -> set[Atom]:
        """The Dims and tensor dimensions that this atom is made of."""
        return {self}

    def parts(self) -> tuple[SizeLike, ...]:
        """The sizes that this atom combines; none for a dimension."""
        return ()

    def __hash__(self) -> int:
        return hash(self.key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Atom) and self.key == other.key


class Binary(Atom):
    """An operation on two sizes that does not reduce to a polynomial."""

    symbol: str
    compute: Callable[[Any, Any], Any]

    def __init__(self, left: SizeLike, right: SizeLike):
        self.left, self.right = left, right
        self.key = (self.symbol, size_key(left), size_key(right))

    def value(self, env: Mapping[str, Any]) -> Any:
        return type(self).compute(value(self.left, env), value(self.right, env))

    def atoms(self) -> set[Atom]:
        return {atom for side in (self.left, self.right) if not isinstance(side, int) for atom in side.atoms()}

    def parts(self) -> tuple[SizeLike, ...]:
        return self.left, self.right

    def __repr__(self) -> str:
        return f"{self.symbol}({self.left}, {self.right})"


class FloorDivision(Binary):
    """``left // right``."""

    symbol = "//"
    compute = staticmethod(lambda left, right: left // right)

    def bounds(self) -> tuple[int, int]:
        (low, high), (least, most) = bounds(self.left), bounds(self.right)
        if least <= 0:
            return -INFINITY, INFINITY
        return min(low // least, low // most), INFINITY if high >= INFINITY else max(high // least, high // most)

    def __repr__(self) -> str:
        def side(size: SizeLike) -> str:
            return str(size) if isinstance(size, int) or is_single(size) else f"({size})"

        return f"{side(self.left)}//{side(self.right)}"


class Extremum(Binary):
    """One of two sizes."""

    def bounds(self) -> tuple[int, int]:
        low, high = map(type(self).compute, bounds(self.left), bounds(self.right))
        return low, high


class Maximum(Extremum):
    """The greater of two sizes."""

    symbol = "max"
    compute = staticmethod(lambda left, right: left + (right - left) * (right > left))  # of numpy's arrays, too


class Minimum(Extremum):
    """The lesser of two sizes."""

    symbol = "min"
    compute = staticmethod(lambda left, right: left + (right - left) * (right < left))


def value(size: SizeLike, env: Mapping[str, Any]) -> Any:
    """The int that ``size`` is where the Dims have the values in ``env``."""
    return size if isinstance(size, int) else size.value(env)


def bounds(size: SizeLike) -> tuple[int, int]:
    """The least and the greatest value that the ranges of its dimensions allow (never too narrow)."""
    return (size, size) if isinstance(size, int) else size.bounds()


def is_single(size: Size) -> bool:
    """Whether the size is one atom, without a number."""
    return len(size.terms) == 1 and size.terms[0][1] == 1 and len(size.terms[0][0]) == 1


def atom_key(atom: Atom) -> str:
    """What atoms are sorted by."""
    return repr(atom.key)


def size_key(size: SizeLike) -> str:
    """What sizes are sorted by."""
    if isinstance(size, int):
        return f"{size:020d}"
    return repr([([atom_key(atom) for atom in monomial], coefficient) for monomial, coefficient in size.terms])


class _Probe(dict[str, int]):
    """A value for every name, always the same: sizes that differ there are different."""

    def __contains__(self, name: object) -> bool:
        return True

    def __missing__(self, name: str) -> int:
        return 10_007 + zlib.crc32(name.encode()) % 999_983


_PROBE = _Probe()


def value_at_probe(size: Size) -> int:
    """The value at one place, the same for all sizes that are equal; 0 where it is none there."""
    try:
        return hash(size.value(_PROBE))
    except ZeroDivisionError:
        return 0
