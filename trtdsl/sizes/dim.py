"""Dimensions of dynamic size: a :class:`Dim` has a name and a range, a :class:`TensorDim` is known to TensorRT alone.

>>> N, T = Dim("N", min=1, opt=4, max=16), Dim("T")
>>> (N * T * 6) // (N * 3)
2*T
"""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any

from ..core.errors import ShapeError, UsageError
from .size import INFINITY, Atom, Size, SizeLike, of_atom


class Dim(Size, Atom):
    """A named dynamic dimension, with the range an engine is built for; ``opt`` is the size it is tuned for.

    The name alone (``"T"``) stands for a Dim whose range is given when the network is built (``--dim T=1:4:16``).

    Raises UsageError unless these are whole numbers and ``0 <= min <= opt <= max``.

    >>> Dim("N", min=1, opt=4, max=16).range
    (1, 4, 16)
    """

    __slots__ = ("key", "max", "min", "name", "opt")

    def __init__(self, name: str, *sizes: int, min: int | None = None, opt: int | None = None, max: int | None = None):
        if not isinstance(name, str) or not name.isidentifier():
            computed = ": sizes are computed of dimensions, as td.Dim('N') * 2 + 1"
            more = computed if isinstance(name, str) and not {*"+-*/"}.isdisjoint(name) else ""
            raise UsageError(f"a dimension's name must be an identifier, such as 'N', not {name!r}{more}")
        if sizes:
            parts = zip(("min", "max") if len(sizes) == 2 else ("min", "opt", "max"), sizes, strict=False)
            written = ", ".join(f"{part}={size}" for part, size in parts)
            raise UsageError(f"the range of a dimension is given by name: td.Dim({name!r}, {written})")
        try:
            min, opt, max = (None if value is None else operator.index(value) for value in (min, opt, max))
        except TypeError:
            written = f"{min!r}, {opt!r}, {max!r}"
            raise UsageError(f"dimension {name}: min, opt and max are whole numbers, not {written}") from None
        given = [value for value in (min, opt, max) if value is not None]
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

    def to_json(self) -> str:
        return self.name

    def _same(self, other: object) -> bool:
        if isinstance(other, Dim):
            return self.name == other.name
        return type(other) is not int and Size._same(self, other)

    def __repr__(self) -> str:
        return self.name


class TensorDim(Atom):
    """A dimension of a tensor of which only TensorRT (or the data) knows the size."""

    def __init__(self, tensor: Any, axis: int, name: str, upper: int = INFINITY):
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


def tensor_dim(tensor: Any, axis: int, name: str, upper: int = INFINITY) -> Size:
    """The Size of a dimension of a Tensor that only TensorRT knows."""
    size = of_atom(TensorDim(tensor, axis, name, upper))
    assert isinstance(size, Size)
    return size


def depends_on_data(size: SizeLike) -> bool:
    """Whether only TensorRT, or the data, knows a part of the size."""
    return isinstance(size, Size) and any(isinstance(atom, TensorDim) for atom in size.atoms())
