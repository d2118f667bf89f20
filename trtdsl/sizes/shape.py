"""Sizes of dimensions: static ones are ints, dynamic ones are :class:`Size`, made from named :class:`Dim`.

A Size is a polynomial with integer coefficients over atoms, in canonical form, so that equal sizes that are
written differently compare equal: ``(T - 1) // 2 + 1 == (T + 1) // 2``. An atom is a Dim, a floor division,
a maximum or minimum, or a dimension of a tensor that only TensorRT knows. Arithmetic emits no layer; it stands in
:mod:`trtdsl.sizes.size`.

>>> N, T = Dim("N", min=1, opt=4, max=16), Dim("T")
>>> (N * T * 6) // (N * 3)
2*T
>>> (T - 1) // 2 + 1
(T + 1)//2
>>> N * 2 - N - N
0
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..core.errors import ShapeError, UsageError
from .atoms import Binary
from .size import INFINITY as INFINITY
from .size import Atom as Atom
from .size import FloorDivision as FloorDivision
from .size import Maximum as Maximum
from .size import Minimum as Minimum
from .size import Size as Size
from .size import SizeLike as SizeLike
from .size import bounds as bounds
from .size import differs, of_atom
from .size import divide_exactly as divide_exactly
from .size import fixed as fixed
from .size import floor_divide as floor_divide
from .size import from_front as from_front
from .size import is_static as is_static
from .size import product as product
from .size import size_max as size_max
from .size import size_min as size_min
from .size import value as value

if TYPE_CHECKING:
    from ..definition.tensor import Tensor

Shape = tuple[SizeLike, ...]


class Dim(Size, Atom):
    """A named dynamic dimension, with the range an engine is built for; ``opt`` is the size it is tuned for.

    The name alone (``"T"``) stands for a Dim whose range is given when the network is built (``--dim T=1:4:16``).

    Raises UsageError unless ``0 <= min <= opt <= max``.

    >>> Dim("N", min=1, opt=4, max=16).range
    (1, 4, 16)
    """

    __slots__ = ("key", "max", "min", "name", "opt")

    def __init__(self, name: str, *, min: int | None = None, opt: int | None = None, max: int | None = None):
        given = [value for value in (min, opt, max) if value is not None]
        if not name.isidentifier():
            raise UsageError(f"a dimension's name must be an identifier, not {name!r}")
        if given and (min is None or max is None):
            raise UsageError(f"dimension {name}: give min and max together (and opt, or it is max)")
        if given != sorted(given) or any(value < 0 for value in given):
            raise UsageError(f"dimension {name}: needs 0 <= min <= opt <= max, not {min}, {opt}, {max}")
        self.name = name
        self.min, self.max = min, max
        self.opt = max if opt is None else opt
        self.key = ("dim", name)
        Size.__init__(self, [((self,), 1)])

    @property
    def range(self) -> tuple[int, int, int] | None:
        """``(min, opt, max)``, or None when no range was given."""
        return None if self.min is None or self.opt is None or self.max is None else (self.min, self.opt, self.max)

    def value(self, env: Mapping[str, int]) -> int:
        try:
            return env[self.name]
        except KeyError:
            raise ShapeError(f"the dimension {self.name} has no value here") from None

    def bounds(self) -> tuple[int, int]:
        return (self.min if self.min is not None else 1, self.max if self.max is not None else INFINITY)

    def atoms(self) -> set[Atom]:
        return {self}

    def __hash__(self) -> int:
        return self._probed

    def __eq__(self, other: object) -> Any:
        return self._same(other) or differs(self, "==", other, sys._getframe(1))

    def __ne__(self, other: object) -> Any:
        return not self._same(other) and differs(self, "!=", other, sys._getframe(1))

    def _same(self, other: object) -> bool:
        return self.name == other.name if isinstance(other, Dim) else Size._same(self, other)

    def __repr__(self) -> str:
        return self.name


class TensorDim(Atom):
    """A dimension of a tensor of which only TensorRT (or the data) knows the size."""

    def __init__(self, tensor: Tensor, axis: int, name: str, upper: int = INFINITY):
        self.tensor, self.axis, self.name, self.upper = tensor, axis, name, upper
        self.key = ("tensor", name, axis)

    def value(self, env: Mapping[str, int]) -> int:
        key = str(self)
        if key in env:
            return env[key]
        raise ShapeError(f"the size {self} is known only when the network runs")

    def bounds(self) -> tuple[int, int]:
        return 0, self.upper

    def __repr__(self) -> str:
        return f"{self.name}.shape[{self.axis}]"


def hint(size: SizeLike) -> int:
    """The size to tune for: each Dim at its opt, one without a range at 8; for choices that cost speed alone."""
    if isinstance(size, int):
        return size
    env = {str(atom): atom.opt if isinstance(atom, Dim) and atom.opt is not None else 8 for atom in size.atoms()}
    return size.value(env)


def shape_text(sizes: Sequence[SizeLike]) -> str:
    """A shape as it is printed: ``(N, 64, T//2, 18)``."""
    return "(" + ", ".join(map(str, sizes)) + ("," if len(sizes) == 1 else "") + ")"


def tensor_dim(tensor: Tensor, axis: int, name: str, upper: int = INFINITY) -> Size:
    """The Size of a dimension that only TensorRT knows."""
    size = of_atom(TensorDim(tensor, axis, name, upper))
    assert isinstance(size, Size)
    return size


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
