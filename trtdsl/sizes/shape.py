"""Shapes, which are tuples of sizes, and sizes in which a dimension is replaced.

>>> from trtdsl.sizes.dim import Dim
>>> shape_text((Dim("N"), 64, Dim("T") // 2, 18))
'(N, 64, T//2, 18)'
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .dim import Dim
from .size import (
    Atom,
    Binary,
    FloorDivision,
    Maximum,
    Minimum,
    Size,
    SizeLike,
    floor_divide,
    of_atom,
    size_max,
    size_min,
)

Shape = tuple[SizeLike, ...]


def hint(size: SizeLike) -> int:
    """The size to tune for: each Dim at its opt, one without a range at 8; for choices that cost speed alone."""
    if isinstance(size, int):
        return size
    env = {str(atom): atom.opt if isinstance(atom, Dim) and atom.opt is not None else 8 for atom in size.atoms()}
    return size.value(env)


def channels_last(ndim: int) -> tuple[int, ...]:
    """The dimensions of (N, C, …) in the order in which they lie in memory where a pixel's channels are neighbours.

    Convolutions and pooling write so.
    """
    return (0, *range(2, ndim), 1)


def shape_text(sizes: Sequence[SizeLike]) -> str:
    """A shape as it is printed: ``(N, 64, T//2, 18)``."""
    return "(" + ", ".join(map(str, sizes)) + ("," if len(sizes) == 1 else "") + ")"


def substitute(size: SizeLike, replacements: Mapping[str, SizeLike]) -> SizeLike:
    """The size with other sizes in the place of some Dims.

    >>> substitute(8 * td.Dim("H") + td.Dim("W") // 2, {"W": 3})
    8*H + 1
    """
    if isinstance(size, int):
        return size
    total: SizeLike = 0
    for monomial, coefficient in size.terms:
        term: SizeLike = coefficient
        for atom in monomial:
            term = term * _substituted(atom, replacements)
        total = total + term
    return total


def _substituted(atom: Atom, replacements: Mapping[str, SizeLike]) -> SizeLike:
    if isinstance(atom, Binary):
        return _REBUILT[type(atom)](substitute(atom.left, replacements), substitute(atom.right, replacements))
    return replacements.get(str(atom), of_atom(atom))


_REBUILT = {FloorDivision: floor_divide, Maximum: size_max, Minimum: size_min}


def linear(size: SizeLike, atom: Atom) -> tuple[int, int] | None:
    """``(a, b)`` where the size is ``a*atom + b`` with a > 0, else None."""
    if not isinstance(size, Size):
        return None
    terms = dict(size.terms)
    factor, offset = terms.pop((atom,), 0), terms.pop((), 0)
    return (factor, offset) if factor > 0 and not terms else None
