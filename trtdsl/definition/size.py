"""Arithmetic of sizes: polynomials with integer coefficients over atoms, in one canonical form.

Equal sizes that are written differently compare equal: ``(T - 1) // 2 + 1 == (T + 1) // 2``. An atom is a named
dimension, a floor division, a maximum or minimum, or a dimension of a tensor that only TensorRT knows.
"""

from __future__ import annotations

import functools
import math
import sys
from collections.abc import Callable, Iterable, Mapping
from numbers import Real
from types import FrameType
from typing import TYPE_CHECKING, Any, Protocol, overload

from ..core.errors import PACKAGE, ShapeError
from .above import fractions

if TYPE_CHECKING:
    from .tensor import Tensor

INFINITY = 1 << 62  # the upper bound of a dimension that was given none
Monomial = tuple["Atom", ...]  # sorted atoms, repeated for powers; () is the constant term


class Atom:
    """What cannot be taken apart further; ordered and compared by ``key``."""

    key: tuple[Any, ...]

    def value(self, env: Mapping[str, int]) -> int:
        raise NotImplementedError

    def bounds(self) -> tuple[int, int]:
        raise NotImplementedError

    def atoms(self) -> set[Atom]:
        """The Dims and tensor dimensions that this atom is made of."""
        return {self}

    def __hash__(self) -> int:
        return hash(self.key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Atom) and self.key == other.key


class _Operator(Protocol):
    """What an operator gives: a size of ints and Sizes, or a Tensor where the result is none."""

    @overload
    def __call__(self, other: SizeLike, /) -> SizeLike: ...
    @overload
    def __call__(self, other: float, /) -> Tensor: ...


def _arithmetic(function: str, *, reflected: bool = False) -> Callable[[Callable[[Any, Any], SizeLike]], _Operator]:
    """An operator of Size: the decorated method's size of ints and Sizes, unless it gives NotImplemented.

    What is no size (a fraction, a true division, a root) is a Tensor, as ``function`` of torch's vocabulary makes it.
    """

    def decorate(exact: Callable[[Size, SizeLike], SizeLike]) -> Any:
        @functools.wraps(exact)
        def operator(self: Size, other: Any) -> Any:
            result: Any = exact(self, other) if isinstance(other, (int, Size)) else NotImplemented
            if result is not NotImplemented or not isinstance(other, (Real, Size)):
                return result
            number = other if isinstance(other, (int, Size)) else float(other)
            return (
                fractions.fraction(function, number, self) if reflected else fractions.fraction(function, self, number)
            )

        return operator

    return decorate


class Size:
    """The value of a dynamic dimension: ``+ - * // % **`` with ints and Sizes give an int or a Size.

    With a fraction (``size * 0.5``, ``size ** -0.5``, ``size / 2``) they give a Tensor without dimensions.

    Comparisons are decided from the ranges of the dimensions: ShapeError where these leave them open, since the network
    is written once for all of them. trtdsl's own code compares forms with ``==``, and takes what is open for different.
    """

    __slots__ = ("_hash", "terms")

    def __init__(self, terms: Iterable[tuple[Monomial, int]]):
        self.terms = tuple(terms)
        self._hash = hash(self.terms)

    # -- arithmetic ----------------------------------------------------------------------------------------------

    @_arithmetic("add")
    def __add__(self, other: SizeLike) -> SizeLike:
        total = dict(self.terms)
        for monomial, coefficient in _terms(other):
            total[monomial] = total.get(monomial, 0) + coefficient
        return _collect(total)

    @_arithmetic("mul")
    def __mul__(self, other: SizeLike) -> SizeLike:
        product: dict[Monomial, int] = {}
        for monomial, coefficient in self.terms:
            for factor, times in _terms(other):
                key = tuple(sorted(monomial + factor, key=_atom_key))
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

    @_arithmetic("pow", reflected=True)
    def __rpow__(self, other: SizeLike) -> SizeLike:
        return NotImplemented

    @_arithmetic("div")
    def __truediv__(self, other: SizeLike) -> SizeLike:
        return NotImplemented

    @_arithmetic("div", reflected=True)
    def __rtruediv__(self, other: SizeLike) -> SizeLike:
        return NotImplemented

    def __neg__(self) -> SizeLike:
        return -1 * self

    __radd__ = __add__
    __rmul__ = __mul__
    __array_ufunc__ = None  # numpy leaves `number * size` to the Size

    # -- comparison ----------------------------------------------------------------------------------------------

    def __eq__(self, other: object) -> bool:
        return self._same(other) or differs(self, other, sys._getframe(1))

    def _same(self, other: object) -> bool:
        return isinstance(other, Size) and self.terms == other.terms

    def __hash__(self) -> int:
        return self._hash

    def __lt__(self, other: SizeLike | float) -> bool:
        return not self._at_least(_ceil(other), "<", other)

    def __ge__(self, other: SizeLike | float) -> bool:
        return self._at_least(_ceil(other), ">=", other)

    def __gt__(self, other: SizeLike | float) -> bool:
        return self._at_least(1 - _ceil(-other), ">", other)

    def __le__(self, other: SizeLike | float) -> bool:
        return not self._at_least(1 - _ceil(-other), "<=", other)

    def _at_least(self, least: SizeLike, sign: str, other: SizeLike | float) -> bool:
        low, high = bounds(self - least)
        if low >= 0:
            return True
        if high < 0:
            return False
        raise _undecided(self, sign, other)

    def __bool__(self) -> bool:
        return self != 0 and self >= 1

    def __index__(self) -> int:
        raise ShapeError(
            f"the size {self} is dynamic ({_ranges(self)}): it has no one value when the network is written"
        )

    __int__ = __index__

    def __float__(self) -> float:
        raise ShapeError(
            f"the size {self} is dynamic ({_ranges(self)}): it has no one value when the network is written. "
            "Operators work where Python's math and float() do not: size ** 0.5, size / 2 and size * 1.5 give a Tensor"
        )

    # -- facts ---------------------------------------------------------------------------------------------------

    def value(self, env: Mapping[str, int]) -> int:
        """The size where each Dim has the value that ``env`` gives for its name.

        >>> ((td.Dim("T") + 1) // 2).value({"T": 300})
        150
        """
        return sum(times * math.prod(atom.value(env) for atom in monomial) for monomial, times in self.terms)

    def atoms(self) -> set[Atom]:
        """The Dims and tensor dimensions that the size is made of."""
        return {part for monomial, _ in self.terms for atom in monomial for part in atom.atoms()}

    def __repr__(self) -> str:
        parts: list[str] = []
        for monomial, coefficient in sorted(self.terms, key=lambda term: (not term[0], -len(term[0]))):
            alone = (coefficient == 1 or (coefficient == -1 and parts)) and len(monomial) == 1  # -(T//2) is not -T//2
            factors = [f"({atom})" if isinstance(atom, FloorDivision) and not alone else str(atom) for atom in monomial]
            if abs(coefficient) != 1 or not factors:
                factors.insert(0, str(abs(coefficient)))
            sign = "-" if coefficient < 0 else "+"
            text = "*".join(factors)
            parts.append(f" {sign} {text}" if parts else ("-" if coefficient < 0 else "") + text)
        return "".join(parts)


SizeLike = int | Size


class _Binary(Atom):
    """An operation on two sizes that does not reduce to a polynomial."""

    symbol: str
    compute: Callable[[int, int], int]

    def __init__(self, left: SizeLike, right: SizeLike):
        self.left, self.right = left, right
        self.key = (self.symbol, _key(left), _key(right))

    def value(self, env: Mapping[str, int]) -> int:
        return type(self).compute(value(self.left, env), value(self.right, env))

    def atoms(self) -> set[Atom]:
        return {atom for side in (self.left, self.right) if isinstance(side, Size) for atom in side.atoms()}

    def __repr__(self) -> str:
        return f"{self.symbol}({self.left}, {self.right})"


class FloorDivision(_Binary):
    symbol = "//"
    compute = staticmethod(lambda left, right: left // right)

    def bounds(self) -> tuple[int, int]:
        (low, high), (least, most) = bounds(self.left), bounds(self.right)
        if least <= 0:
            return -INFINITY, INFINITY
        return min(low // least, low // most), INFINITY if high >= INFINITY else max(high // least, high // most)

    def __repr__(self) -> str:
        def side(size: SizeLike) -> str:
            atomic = isinstance(size, int) or (
                len(size.terms) == 1 and size.terms[0][1] == 1 and len(size.terms[0][0]) == 1
            )
            return str(size) if atomic else f"({size})"

        return f"{side(self.left)}//{side(self.right)}"


class Maximum(_Binary):
    symbol = "max"
    compute = staticmethod(max)

    def bounds(self) -> tuple[int, int]:
        (a, b), (c, d) = bounds(self.left), bounds(self.right)
        return max(a, c), max(b, d)


class Minimum(_Binary):
    symbol = "min"
    compute = staticmethod(min)

    def bounds(self) -> tuple[int, int]:
        (a, b), (c, d) = bounds(self.left), bounds(self.right)
        return min(a, c), min(b, d)


# -- functions on ints and Sizes alike -------------------------------------------------------------------------------


def value(size: SizeLike, env: Mapping[str, int]) -> int:
    """The int that ``size`` is where the Dims have the values in ``env``."""
    return size if isinstance(size, int) else size.value(env)


def bounds(size: SizeLike) -> tuple[int, int]:
    """The least and the greatest value that the ranges of its dimensions allow (never too narrow)."""
    if isinstance(size, int):
        return size, size
    low, high = _interval(size)
    floors: dict[Monomial, FloorDivision] = {
        monomial: monomial[0]
        for monomial, _ in size.terms
        if len(monomial) == 1 and isinstance(monomial[0], FloorDivision) and isinstance(monomial[0].right, int)
    }
    if floors and len(size.terms) > 1:  # (a - m + 1) / m <= a // m <= a / m: H - H//2 is at least H / 2
        scale = math.lcm(*(abs(int(atom.right)) for atom in floors.values()))
        ends: list[SizeLike] = [0, 0]
        for monomial, coefficient in size.terms:
            atom = floors.get(monomial)
            for end in (0, 1):
                term: SizeLike = coefficient * scale
                if atom is None:
                    term = product([term, *(Size([((part,), 1)]) for part in monomial)])
                elif int(atom.right) > 0:
                    slack = int(atom.right) - 1 if (coefficient > 0) == (end == 0) else 0
                    term = term // int(atom.right) * (atom.left - slack)
                else:
                    return low, high
                ends[end] = ends[end] + term
        below, above = bounds(ends[0])[0], bounds(ends[1])[1]
        low, high = max(low, -(-below // scale)), min(high, above // scale)
    return low, high


def _interval(size: Size) -> tuple[int, int]:
    """The bounds of each term, summed: too wide where terms hang together."""
    low = high = 0
    for monomial, coefficient in size.terms:
        a = b = coefficient
        for atom in monomial:
            c, d = atom.bounds()
            corners = [a * c, a * d, b * c, b * d]
            a, b = min(corners), max(corners)
        low, high = low + a, high + b
    return max(low, -INFINITY), min(high, INFINITY)


def size_max(left: SizeLike, right: SizeLike) -> SizeLike:
    """The greater of two sizes."""
    return _extremum(Maximum, left, right)


def size_min(left: SizeLike, right: SizeLike) -> SizeLike:
    """The lesser of two sizes."""
    return _extremum(Minimum, left, right)


def product(sizes: Iterable[SizeLike]) -> SizeLike:
    """The product of the sizes; 1 for none of them."""
    return math.prod(sizes)  # type: ignore[arg-type]  # which multiplies whatever can be multiplied


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
            key = tuple(sorted(part + monomial, key=_atom_key))
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


def of_atom(atom: Atom) -> SizeLike:
    return _collect({(atom,): 1})


def _extremum(kind: type[_Binary], left: SizeLike, right: SizeLike) -> SizeLike:
    low, high = bounds(left - right)
    if low >= 0 or high <= 0:
        greater, lesser = (left, right) if low >= 0 else (right, left)
        return greater if kind is Maximum else lesser
    return of_atom(kind(*sorted((left, right), key=_key)))


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


def _atom_key(atom: Atom) -> str:
    return repr(atom.key)


def _order(monomial: Monomial) -> tuple[int, list[str]]:
    return len(monomial), [_atom_key(atom) for atom in monomial]


def _key(size: SizeLike) -> str:
    if isinstance(size, int):
        return f"{size:020d}"
    return repr([([_atom_key(atom) for atom in monomial], coefficient) for monomial, coefficient in size.terms])


def _ceil(number: SizeLike | float) -> SizeLike:
    """The least whole number from here on; infinity is one that no size reaches."""
    return math.ceil(max(min(number, 2 * INFINITY), -2 * INFINITY)) if isinstance(number, float) else number


def _undecided(left: SizeLike, sign: str, right: SizeLike | float) -> ShapeError:
    hint = "" if sign == "==" else " (the greater and the lesser of two: td.size_max, td.size_min)"
    return ShapeError(
        f"whether {left} {sign} {right} depends on the dynamic dimensions ({_ranges(left, right)}), "
        f"but the network is written once for all of them{hint}"
    )


def differs(size: Size, other: object, asker: FrameType) -> bool:
    """False, for ``==``. A branch of the author's that some sizes would take must not be dropped in silence."""
    if isinstance(other, float) and other.is_integer():
        other = int(other)
    if isinstance(other, (int, Size)) and not asker.f_code.co_filename.startswith(PACKAGE):
        low, high = bounds(size - other)
        if low <= 0 <= high:
            raise _undecided(size, "==", other)
    return False


def _ranges(*sizes: SizeLike | float) -> str:
    atoms = sorted({atom for size in sizes if isinstance(size, Size) for atom in size.atoms()}, key=_atom_key)
    texts = []
    for atom in atoms:
        low, high = atom.bounds()
        texts.append(f"{atom} >= {low}" if high >= INFINITY else f"{atom} from {low} to {high}")
    return ", ".join(texts)
