"""Arithmetic of sizes: polynomials with integer coefficients over atoms.

Equal sizes that are written differently compare equal: ``(T - 1) // 2 + 1 == (T + 1) // 2`` by their canonical form,
``T - T // 2 == (T + 1) // 2`` by their values for each remainder of T. An atom is a
named dimension, a floor division, a maximum or minimum, or a dimension of a tensor that only TensorRT knows.
"""

from __future__ import annotations

import functools
import hashlib
import math
import sys
import zlib
from collections import ChainMap
from collections.abc import Callable, Iterable, Mapping
from contextvars import ContextVar
from numbers import Integral, Real
from types import FrameType
from typing import Any, Protocol, cast, overload

from ..core.errors import PACKAGE, ShapeError
from ..core.lazy import conditions, fractions, proofs
from .text import text_of
from .torch_calls import TorchCalls

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

    def to_json(self) -> Any:
        """See :meth:`Size.to_json`."""
        return str(self)

    def __hash__(self) -> int:
        return hash(self.key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Atom) and self.key == other.key


class _Evaluated(ChainMap[Any, Any]):
    """The values of dimensions, and what was found of them by the identity of atoms: a size may be in another often."""


class Binary(Atom):
    """An operation on two sizes that does not reduce to a polynomial."""

    symbol: str
    compute: Callable[[Any, Any], Any]

    def __init__(self, left: SizeLike, right: SizeLike):
        self.left, self.right = left, right
        self.key = (self.symbol, size_key(left), size_key(right))

    def value(self, env: Mapping[str, Any]) -> Any:
        found = env.maps[1] if type(env) is _Evaluated else dict[int, Any]()
        if id(self) not in found:
            found[id(self)] = type(self).compute(value(self.left, env), value(self.right, env))
        return found[id(self)]

    def atoms(self) -> set[Atom]:
        return {atom for side in (self.left, self.right) if not isinstance(side, int) for atom in side.atoms()}

    def parts(self) -> tuple[SizeLike, ...]:
        return self.left, self.right

    def to_json(self) -> list[Any]:
        return [self.symbol, size_to_json(self.left), size_to_json(self.right)]

    def __repr__(self) -> str:
        return text_of(self.to_json())


class FloorDivision(Binary):
    """``left // right``."""

    symbol = "//"
    compute = staticmethod(lambda left, right: left // right)

    def bounds(self) -> tuple[int, int]:
        (low, high), (least, most) = bounds(self.left), bounds(self.right)
        if least <= 0:
            return -INFINITY, INFINITY
        return min(low // least, low // most), INFINITY if high >= INFINITY else max(high // least, high // most)


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


MOST_TOGETHER = 4
TOGETHER: ContextVar[int] = ContextVar("trtdsl_together", default=0)
"""How many sums of divisions are asked for within one another: each asks three times for what it is made of, and from
the fourth on bounds may be too wide."""

Monomial = tuple[Atom, ...]  # sorted atoms, repeated for powers; () is the constant term


class _Operator(Protocol):
    """What an operator gives: a size of ints and Sizes, or a Tensor where the result is none."""

    @overload
    def __call__(self, other: SizeLike, /) -> SizeLike: ...
    @overload
    def __call__(self, other: float, /) -> Any: ...  # a Tensor, of which this room knows nothing


def _arithmetic(function: str, *, reflected: bool = False) -> Callable[[Callable[[Any, Any], SizeLike]], _Operator]:
    """An operator of Size: the decorated method's size of ints and Sizes, unless it gives NotImplemented.

    What is no size (a fraction, a true division, a root) is a Tensor, as ``function`` of torch's vocabulary makes it.
    """

    def decorate(exact: Callable[[Size, SizeLike], SizeLike]) -> Any:
        @functools.wraps(exact)
        def operator(self: Size, other: Any) -> Any:
            if not isinstance(other, (int, Size)) and isinstance(other, Integral):  # numpy's ints are ints
                other = int(other)
            result: Any = exact(self, other) if isinstance(other, (int, Size)) else NotImplemented
            if result is not NotImplemented or not isinstance(other, (Real, Size)):
                return result
            number = other if isinstance(other, (int, Size)) else float(other)
            return (
                fractions.fraction(function, number, self) if reflected else fractions.fraction(function, self, number)
            )

        return operator

    return decorate


def _no_size(left: Any, right: SizeLike) -> SizeLike:
    return NotImplemented


class Size(TorchCalls):
    """The value of a dynamic dimension: ``+ - * // % **`` with ints and Sizes give an int or a Size.

    With a fraction (``size * 0.5``, ``size ** -0.5``, ``size / 2``) they give a Tensor without dimensions.

    Comparisons are decided from the ranges of the dimensions. What these leave open is a
    :class:`~trtdsl.sizes.condition.Condition`: ``td.require`` takes it, and a branch on it raises ShapeError,
    since the network is written once for all of them. trtdsl's own code takes what is open for different with ``==``.
    """

    __slots__ = ("_composed", "_hash", "terms")

    def __init__(self, terms: Iterable[tuple[Monomial, int]]):
        self.terms = tuple(terms)

    # -- arithmetic ----------------------------------------------------------------------------------------------

    @_arithmetic("add")
    def __add__(self, other: SizeLike) -> SizeLike:
        total = dict(self.terms)
        for monomial, coefficient in _terms(other):
            total[monomial] = total.get(monomial, 0) + coefficient
        return _collect(total)

    @_arithmetic("mul")
    def __mul__(self, other: SizeLike) -> SizeLike:
        if type(other) is int and other > 1:  # the terms keep their order
            return Size([(monomial, coefficient * other) for monomial, coefficient in self.terms])
        product: dict[Monomial, int] = {}
        for monomial, coefficient in self.terms:
            for factor, times in _terms(other):
                key = tuple(sorted(monomial + factor, key=atom_key))
                product[key] = product.get(key, 0) + coefficient * times
        return _collect(product)

    @_arithmetic("floor_divide")
    def __floordiv__(self, other: SizeLike) -> SizeLike:
        return floor_divide(self, other)

    @_arithmetic("floor_divide", reflected=True)
    def __rfloordiv__(self, other: SizeLike) -> SizeLike:
        return floor_divide(other, self)

    @_arithmetic("remainder")
    def __mod__(self, other: SizeLike) -> SizeLike:
        return self - floor_divide(self, other) * other

    @_arithmetic("remainder", reflected=True)
    def __rmod__(self, other: SizeLike) -> SizeLike:
        return other - floor_divide(other, self) * self

    @_arithmetic("sub")
    def __sub__(self, other: SizeLike) -> SizeLike:
        return self + (-1 * other)

    @_arithmetic("sub", reflected=True)
    def __rsub__(self, other: SizeLike) -> SizeLike:
        return (-1 * self) + other

    @_arithmetic("pow")
    def __pow__(self, other: SizeLike) -> SizeLike:
        return math.prod([self] * other, start=1) if isinstance(other, int) and other >= 0 else NotImplemented

    def __neg__(self) -> SizeLike:
        return -1 * self

    __rpow__ = _arithmetic("pow", reflected=True)(_no_size)
    __truediv__ = _arithmetic("div")(_no_size)
    __rtruediv__ = _arithmetic("div", reflected=True)(_no_size)
    __radd__ = __add__
    __rmul__ = __mul__
    __array_ufunc__ = None  # numpy leaves `number * size` to the Size

    def __divmod__(self, other: SizeLike) -> tuple[SizeLike, SizeLike]:
        return self // other, self % other

    def __abs__(self) -> SizeLike:
        return size_max(self, -self)

    def __floor__(self) -> Size:
        return self

    __ceil__ = __trunc__ = __floor__

    def __round__(self, ndigits: int | None = None) -> SizeLike:
        if ndigits is None or ndigits >= 0:
            return self
        unit = 10**-ndigits  # half to even, as Python rounds
        below = self // unit
        rest = self - below * unit
        up = (2 * rest + unit - 1 + below % 2) // (2 * unit)
        return (below + up) * unit

    # -- comparison ----------------------------------------------------------------------------------------------

    def __eq__(self, other: object) -> Any:
        return self is other or self._same(other) or _differs(self, "==", other, sys._getframe(1))

    def __ne__(self, other: object) -> Any:
        return not self._same(other) and _differs(self, "!=", other, sys._getframe(1))

    def _same(self, other: object) -> bool:
        """Whether the two are equal whatever the dimensions are."""
        if not isinstance(other, Size):
            return type(other) is int and self._composite and self._probed == other and proofs.identical(self - other)
        if self.terms == other.terms:
            return True
        if not (self._composite or other._composite) or self._probed != other._probed:
            return False
        return proofs.identical(self - other)

    def __hash__(self) -> int:
        return self._probed

    @property
    def _composite(self) -> bool:
        """Whether the size has other atoms than dimensions: then its form does not say what it is equal to."""
        if not hasattr(self, "_composed"):
            self._composed = any(atom.parts() for monomial, _ in self.terms for atom in monomial)
        return self._composed

    @property
    def _probed(self) -> int:
        """A hash that equal sizes have in common, however they are written: their value at one place."""
        if not hasattr(self, "_hash"):
            self._hash = value_at_probe(self)
        return self._hash

    def __lt__(self, other: SizeLike | float) -> Any:
        return self._compared("<", other)

    def __ge__(self, other: SizeLike | float) -> Any:
        return self._compared(">=", other)

    def __gt__(self, other: SizeLike | float) -> Any:
        return self._compared(">", other)

    def __le__(self, other: SizeLike | float) -> Any:
        return self._compared("<=", other)

    def _compared(self, sign: str, other: SizeLike | float) -> Any:
        if not isinstance(other, (int, float, Size)):
            return NotImplemented
        return conditions.compared(self, sign, other)

    def __bool__(self) -> bool:
        low, high = bounds(self)
        return True if low > 0 or high < 0 else bool(self._compared("!=", 0))

    def __index__(self) -> int:
        low, high = self.bounds()
        if low == high:  # (N + 127)//128 for N from 1 to 64
            return low
        raise ShapeError(
            f"the size {self} is dynamic ({ranges_text(self)}): it has no one value when the network is written. "
            "Leave int() out: sizes calculate with + - * // %, and shapes take them; a loop over one is td.scan"
        )

    __int__ = __index__

    def __float__(self) -> float:
        raise ShapeError(
            f"the size {self} is dynamic ({ranges_text(self)}): it has no one value when the network is written. "
            "Operators work where Python's math and float() do not: size ** 0.5, size / 2 and size * 1.5 give a Tensor"
        )

    # -- facts ---------------------------------------------------------------------------------------------------

    def bounds(self) -> tuple[int, int]:
        """The least and the greatest value that the ranges of its dimensions allow (never too narrow)."""
        floors: dict[Monomial, FloorDivision] = {
            monomial: monomial[0]
            for monomial, _ in self.terms
            if len(monomial) == 1 and isinstance(monomial[0], FloorDivision) and isinstance(monomial[0].right, int)
        }
        if not floors or len(self.terms) < 2 or TOGETHER.get() == MOST_TOGETHER:
            return self._interval()
        token = TOGETHER.set(TOGETHER.get() + 1)
        try:
            return self._together(floors)
        finally:
            TOGETHER.reset(token)

    def _together(self, floors: Mapping[Monomial, FloorDivision]) -> tuple[int, int]:
        """The bounds where (a - m + 1) / m <= a // m <= a / m is put in: H - H//2 is at least H / 2."""
        low, high = self._interval()
        scale = math.lcm(*(abs(int(atom.right)) for atom in floors.values()))
        ends: list[SizeLike] = [0, 0]
        for monomial, coefficient in self.terms:
            atom = floors.get(monomial)
            for end in (0, 1):
                term: SizeLike = coefficient * scale
                if atom is None:
                    term = product([term, *map(of_atom, monomial)])
                elif int(atom.right) > 0:
                    slack = int(atom.right) - 1 if (coefficient > 0) == (end == 0) else 0
                    term = term // int(atom.right) * (atom.left - slack)
                else:
                    return low, high
                ends[end] = ends[end] + term
        below, above = bounds(ends[0])[0], bounds(ends[1])[1]
        low, high = max(low, -(-below // scale)), min(high, above // scale)
        return low, high

    def _interval(self) -> tuple[int, int]:
        """The bounds of each term, summed: too wide where terms hang together."""
        low = high = 0
        for monomial, coefficient in self.terms:
            a = b = coefficient
            for atom in monomial:
                c, d = _bounds_of(atom)
                corners = [a * c, a * d, b * c, b * d]
                a, b = min(corners), max(corners)
            low, high = low + a, high + b
        return max(low, -INFINITY), min(high, INFINITY)

    def value(self, env: Mapping[str, int]) -> int:
        """The size where each Dim has the value that ``env`` gives for its name.

        >>> ((td.Dim("T") + 1) // 2).value({"T": 300})
        150
        """
        within: Any = _Evaluated(cast(Any, env), {}) if self._composite and type(env) is not _Evaluated else env
        return sum(times * math.prod(atom.value(within) for atom in monomial) for monomial, times in self.terms)

    def atoms(self) -> set[Atom]:
        """The Dims and tensor dimensions that the size is made of."""
        return {part for monomial, _ in self.terms for atom in monomial for part in atom.atoms()}

    def to_json(self) -> Any:
        """The size as nested lists: ints, names of dimensions, and ``[operation, size, …]`` with + * // max min."""
        terms = []
        for monomial, coefficient in self.terms:
            factors = [atom.to_json() for atom in monomial] + [coefficient] * (coefficient != 1 or not monomial)
            terms.append(factors[0] if len(factors) == 1 else ["*", *factors])
        return terms[0] if len(terms) == 1 else ["+", *terms]

    def __repr__(self) -> str:
        return text_of(self.to_json())


SizeLike = int | Size


# -- functions on ints and Sizes alike -------------------------------------------------------------------------------


def value(size: SizeLike, env: Mapping[str, Any]) -> Any:
    """The int that ``size`` is where the Dims have the values in ``env``."""
    return size if isinstance(size, int) else size.value(env)


def bounds(size: SizeLike) -> tuple[int, int]:
    """The least and the greatest value that the ranges of its dimensions allow (never too narrow)."""
    return (size, size) if isinstance(size, int) else size.bounds()


def _bounds_of(atom: Atom) -> tuple[int, int]:
    """The bounds of an atom, which may be in others many times: they are found once for each :data:`TOGETHER`."""
    found: dict[int, tuple[int, int]] = vars(atom).setdefault("_found", {}) if atom.parts() else {}
    depth = TOGETHER.get()
    if depth not in found:
        found[depth] = atom.bounds()
    return found[depth]


def atom_key(atom: Atom) -> str:
    """What atoms are sorted by."""
    return repr(atom.key)


LONGEST = 500
"""Of a key, in characters: each size around another doubles what its quotes take."""


def size_key(size: SizeLike) -> str:
    """What sizes are sorted by."""
    if isinstance(size, int):
        return f"{size:020d}"
    key = repr([([atom_key(atom) for atom in monomial], coefficient) for monomial, coefficient in size.terms])
    return key if len(key) < LONGEST else key[:40] + hashlib.sha256(key.encode()).hexdigest()


def size_to_json(size: SizeLike) -> Any:
    """See :meth:`Size.to_json`."""
    return size if isinstance(size, int) else size.to_json()


def ranges_text(*sizes: SizeLike | float) -> str:
    """The dimensions of some sizes with their ranges, for a message."""
    atoms = sorted(
        {atom for size in sizes if not isinstance(size, (int, float)) for atom in size.atoms()}, key=atom_key
    )
    texts = []
    for atom in atoms:
        low, high = atom.bounds()
        texts.append(f"{atom} >= {low}" if high >= INFINITY else f"{atom} from {low} to {high}")
    return ", ".join(texts)


def size_max(left: SizeLike, right: SizeLike) -> SizeLike:
    """The greater of two sizes, or of two numbers: a Tensor where one is a fraction that is computed of sizes."""
    return _extremum(Maximum, left, right)


def size_min(left: SizeLike, right: SizeLike) -> SizeLike:
    """The lesser of two sizes, or of two numbers: a Tensor where one is a fraction that is computed of sizes."""
    return _extremum(Minimum, left, right)


def size_sqrt(size: SizeLike) -> SizeLike:
    """The size whose square this is, as a square image's side is of its pixels; ShapeError where there is none.

    >>> T = td.Dim("T", min=2, max=8)
    >>> td.size_sqrt(T * T + 2 * T + 1), td.size_sqrt(16)
    (T + 1, 4)
    """
    monomial, times = _lead(size)
    root = _collect({monomial[::2]: math.isqrt(abs(times))})
    rest = size - root * root
    step: SizeLike | None = None if _terms(rest) and _lead(rest)[0] == monomial else 0
    while step is not None and _terms(rest):
        step = divide_exactly(_collect(dict([_lead(rest)])), 2 * _collect(dict([_lead(root)])))
        root = root + (step or 0)
        rest = size - root * root
    if step is None or bounds(root)[0] < 0:
        raise ShapeError(f"{size} is no square of a size: the sides of a square are one dimension, as in N,3,H,H")
    return root


def from_front(index: SizeLike, length: SizeLike) -> SizeLike:
    """An index into ``length`` elements counted from the first; where it is negative, it counts from the end.

    >>> T = td.Dim("T", min=2, max=8)
    >>> from_front(-1, T), from_front(1 - T, T), from_front(T - 2, T)
    (T - 1, 1, T - 2)
    >>> [from_front(T - 4, T).value({"T": t}) for t in (2, 3, 4, 5)]  # x[-2], x[-1], x[0], x[1]
    [0, 2, 0, 1]
    """
    low, high = bounds(index)
    if low >= 0:
        return index
    if high < 0:
        return index + length
    return index + length * size_min(size_max(-1 * index, 0), 1)


def fixed(size: SizeLike) -> int | None:
    """The one value that a size has whatever the dimensions are; None where it has several, or that is not known."""
    low, high = proofs.extent(size)
    return low if low == high else None


def product(sizes: Iterable[SizeLike]) -> SizeLike:
    """The product of the sizes; 1 for none of them."""
    number, result = 1, None
    for size in sizes:  # the numbers apart: a product of Sizes takes longer
        if type(size) is int:
            number *= size
        else:
            result = size if result is None else result * size
    return number if result is None else result if number == 1 else result * number


def is_static(sizes: Iterable[Any]) -> bool:
    """Whether all sizes are ints."""
    kinds = set(map(type, sizes))
    return kinds <= {int} or all(issubclass(kind, int) for kind in kinds)


def floor_divide(left: SizeLike, right: SizeLike) -> SizeLike:
    """``left // right`` in canonical form; ShapeError on division by zero."""
    if right == 0:
        raise ShapeError(f"{left} // 0: division by zero")
    if isinstance(left, int) and isinstance(right, int):
        return left // right
    if right == 1:
        return left
    exact = divide_exactly(left, right)
    if exact is not None:
        return exact
    if not isinstance(right, int) or right < 0:
        return of_atom(FloorDivision(left, right))
    # floor((right*q + r) / right) is q + floor(r / right): only remainders stay under the division, the smallest in
    # size, and the first of them positive: H - (3*H)//4 is (H + 3)//4.
    whole: dict[Monomial, int] = {}
    rest: dict[Monomial, int] = {}
    for monomial, coefficient in _terms(left):
        times, remainder = divmod(coefficient, right)
        if monomial and 2 * remainder > right:
            times, remainder = times + 1, remainder - right
        whole[monomial], rest[monomial] = times, remainder
    numerator = _collect(rest)
    if isinstance(numerator, int):
        return _collect(whole) + numerator // right
    if numerator.terms[0][1] < 0:  # floor(-a / m) is -floor((a + m - 1) / m)
        return _collect(whole) - floor_divide(right - 1 - numerator, right)
    common = math.gcd(right, *(coefficient for monomial, coefficient in numerator.terms if monomial))
    if common > 1:  # floor((2*a + 1) / 4) is floor(a / 2)
        reduced = {monomial: coefficient // common for monomial, coefficient in numerator.terms}
        return floor_divide(_collect(reduced), right // common) + _collect(whole)
    inner, offset = _single_floor(numerator)
    if inner is not None and isinstance(inner.right, int):  # floor(floor(a / m) / n) is floor(a / (m*n))
        return floor_divide(inner.left + offset * inner.right, inner.right * right) + _collect(whole)
    return of_atom(FloorDivision(numerator, right)) + _collect(whole)


def divide_exactly(left: SizeLike, right: SizeLike) -> SizeLike | None:
    """The quotient where ``right`` divides ``left`` whatever the dimensions are, otherwise None.

    >>> T = td.Dim("T")
    >>> divide_exactly(6 * T * T + 3 * T, 3 * T), divide_exactly(T + 1, 2)
    (2*T + 1, None)
    """
    divisor = dict(_terms(right))
    if not divisor:
        return None
    lead = max(divisor, key=_order)
    remainder = dict(_terms(left))
    quotient: dict[Monomial, int] = {}
    while remainder:
        top = max(remainder, key=_order)
        monomial = _without(top, lead)
        if monomial is None or remainder[top] % divisor[lead]:
            return None
        times = remainder[top] // divisor[lead]
        quotient[monomial] = quotient.get(monomial, 0) + times
        for part, coefficient in divisor.items():
            key = tuple(sorted(part + monomial, key=atom_key))
            remainder[key] = remainder.get(key, 0) - coefficient * times
            if remainder[key] == 0:
                del remainder[key]
    return _collect(quotient)


# -- canonical form ----------------------------------------------------------------------------------------------------


def _terms(size: SizeLike) -> Iterable[tuple[Monomial, int]]:
    return size.terms if isinstance(size, Size) else ([((), size)] if size else [])


def _collect(terms: dict[Monomial, int]) -> SizeLike:
    kept = {monomial: coefficient for monomial, coefficient in terms.items() if coefficient}
    if not kept:
        return 0
    if set(kept) == {()}:
        return kept[()]
    if len(kept) == 1:
        ((monomial, coefficient),) = kept.items()
        if coefficient == 1 and len(monomial) == 1 and isinstance(monomial[0], Size):
            return monomial[0]
    return Size(sorted(kept.items(), key=lambda term: _order(term[0]), reverse=True))


def _lead(size: SizeLike) -> tuple[Monomial, int]:
    """The first term."""
    return max(_terms(size), key=lambda term: _order(term[0]), default=((), 0))


def of_atom(atom: Atom) -> SizeLike:
    return _collect({(atom,): 1})


def _extremum(kind: type[Binary], left: SizeLike, right: SizeLike) -> SizeLike:
    if isinstance(left, (int, float)) and isinstance(right, (int, float)):
        return (max if kind is Maximum else min)(left, right)
    if not isinstance(left, (int, Size)) or not isinstance(right, (int, Size)):
        return fractions.fraction("maximum" if kind is Maximum else "minimum", left, right)
    low, high = bounds(difference := left - right)
    if low < 0 < high:
        low, high = proofs.extent(difference)
    if low >= 0 or high <= 0:
        greater, lesser = (left, right) if low >= 0 else (right, left)
        return greater if kind is Maximum else lesser
    return of_atom(kind(*sorted((left, right), key=size_key)))


def _single_floor(size: Size) -> tuple[FloorDivision | None, int]:
    offset, floors = 0, []
    for monomial, coefficient in size.terms:
        if not monomial:
            offset = coefficient
        elif len(monomial) == 1 and coefficient == 1 and isinstance(monomial[0], FloorDivision):
            floors.append(monomial[0])
        else:
            return None, 0
    return (floors[0], offset) if len(floors) == 1 else (None, 0)


def _without(monomial: Monomial, factor: Monomial) -> Monomial | None:
    rest = list(monomial)
    for atom in factor:
        if atom not in rest:
            return None
        rest.remove(atom)
    return tuple(rest)


def _order(monomial: Monomial) -> tuple[int, list[str]]:
    return len(monomial), [atom_key(atom) for atom in monomial]


# -- equality ----------------------------------------------------------------------------------------------------------


def _differs(size: Size, sign: str, other: object, asker: FrameType) -> Any:
    """What ``==`` and ``!=`` give where the two are not known to be the same.

    trtdsl's own code takes them for different. A branch of the author's that some sizes would take must not be dropped
    in silence: the Condition of it has no truth value where the ranges leave it open.
    """
    if isinstance(other, float) and other.is_integer():
        other = int(other)
    if not isinstance(other, (int, Size)) or asker.f_code.co_filename.startswith(PACKAGE):
        return sign == "!="
    return conditions.compared(size, sign, other)


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
