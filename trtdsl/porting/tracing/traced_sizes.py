"""Numbers that record which sizes they were computed from.

A :class:`TracedInt` is an int in every respect; what Python computes from it is one too. A module therefore runs as
with plain numbers, branches included, and a size can be written back as its author wrote it: ``h // 2 * w``.
Comparisons that the module makes of such numbers are noted as a Guard, so that they can be proven for all sizes.
Where the record of a size ends, since Python, numpy or a dict takes the number that it is, a Guard notes that it has
exactly this value there.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable
from fractions import Fraction
from typing import Any

from ...core.lazy import np, torch
from ...sizes.operators import ARITHMETIC, BITWISE, COMPARISONS, EXTREMA, FRACTIONS, FUNCTIONS, MATH, ROUNDING, SYMBOLS
from ..calls import SizeExpression, SizeOf, SizeOp, Tried, Weight, leaves, number_of, rebuilt
from .frames import asking, named_only
from .guards import BY_VALUES, GUARDS, again, note
from .names import ALIASES
from .tried import OfNumbers, fitted, is_plain, whole_number


class TracedInt(int):
    """An int and the expression that it came from."""

    expression: SizeExpression
    __hash__ = int.__hash__

    def __new__(cls, *given: Any) -> Any:
        """What ``type(size)(number)`` gives whoever computes so: the number itself."""
        return given[0] if given and isinstance(given[0], cls) else int(*given)

    def __invert__(self) -> Any:
        return -self - 1


class TracedFloat(float):
    """A float made from sizes, as ``h / 2``."""

    expression: SizeExpression
    __hash__ = float.__hash__

    def __new__(cls, *given: Any) -> Any:
        return given[0] if given and isinstance(given[0], cls) else float(*given)

    def is_integer(self) -> bool:
        return bool(self % 1 == 0)


class YieldingFloat(float):
    """A float of the author's code, which leaves what it computes with a size to the size.

    Python's own float takes an int as the number that it is, without asking it: ``0.5 * n`` and ``math.pi / n``.
    """


def yielding(number: Any) -> Any:
    """A float as one that yields; anything else as it is."""
    return YieldingFloat(number) if type(number) is float else number


def traced(number: Any, expression: SizeExpression) -> Any:
    """The number with its expression; anything but an int or a float stays what it is."""
    if type(number) is int:
        result = int.__new__(TracedInt, number)
    elif type(number) is float:
        result = float.__new__(TracedFloat, number)
    else:
        return number
    result.expression = expression
    return result


def expression_of(number: Any) -> Any:
    """The expression of a traced number; any other number is its own."""
    return number.expression if isinstance(number, (TracedInt, TracedFloat)) else plain_number(number)


NEUTRAL = {("+", 0), ("-", 0), ("*", 1), ("//", 1)}  # on the right of a size, and of + and * on its left


def plain_number(number: Any) -> Any:
    """The number without what it came from."""
    if isinstance(number, TracedInt):
        return int.__int__(number)
    return float.__float__(number) if isinstance(number, (TracedFloat, YieldingFloat)) else number


def lost(number: Any, how: str, location: Any = None) -> Any:
    """The plain number, after a note that the size is exactly this one where ``how`` takes it as a number."""
    plain = plain_number(number)
    note("==", expression_of(number), plain, True, location or asking(), how)
    return plain


def broadcast_shapes(*shapes: Any) -> tuple[Any, ...]:
    """The shape that tensors of these have together: of equal sizes a number above 1, else one that is traced."""
    given = [tuple(shape) if isinstance(shape, (list, tuple)) else (shape,) for shape in shapes]
    result: list[Any] = list(np.broadcast_shapes(*[tuple(map(plain_number, shape)) for shape in given]))
    for axis, size in enumerate(result, start=-len(result)):
        there = [shape[axis] for shape in given if len(shape) >= -axis and plain_number(shape[axis]) == size]
        result[axis] = min(there, key=lambda each: (size == 1) == isinstance(_value_of(each), (Weight, type(None))))
    return tuple(result)


def _value_of(size: Any) -> Any:
    """What a size is of; None for a number."""
    return getattr(expression_of(size), "value", size if is_traced(size) else None)


def _pythons(number: Any) -> Any:
    """A number of numpy's as the number that it is."""
    kind = type(number)
    return number.item() if kind.__module__ == "numpy" and kind.__name__ != "ndarray" else number


def _operator(symbol: str, compute: Callable[..., Any], *, swapped: bool = False) -> Callable[..., Any]:
    def method(self: Any, *others: Any) -> Any:
        others = tuple(map(_pythons, others))
        if not all(isinstance(other, (int, float)) for other in others):
            if symbol == "*" and type(others[0]) is list and isinstance(self, TracedInt):
                return Repeated(others[0], self)
            if isinstance(others[0], (str, bytes, list, tuple)):
                lost(self, "a sequence that it is multiplied with")
            return NotImplemented
        if len(others) == 2:  # pow(self, other, modulus)
            return (self ** others[0]) % others[1]
        operands = (*others, self) if swapped else (self, *others)
        other = others[0] if others and type(others[0]) is int else None
        if (symbol, other) in NEUTRAL and (not swapped or symbol in "+*"):
            return self
        number = compute(*map(plain_number, operands))
        return traced(number, SizeOp(symbol, tuple(map(expression_of, operands)), number))

    return method


def _magnitude(self: Any) -> Any:
    opposite = -self
    number = abs(plain_number(self))
    return traced(number, SizeOp("max", (self.expression, expression_of(opposite)), number))


def _bitwise(symbol: str, compute: Callable[..., Any], *, swapped: bool = False) -> Callable[..., Any]:
    """An operation whose result is no size: a number, which a guard says it is everywhere."""

    def method(self: Any, other: Any) -> Any:
        if not isinstance(self, int) or not isinstance(other, int):
            return NotImplemented
        operands = (other, self) if swapped else (self, other)
        number = compute(*map(plain_number, operands))
        expression = SizeOp(symbol, tuple(map(expression_of, operands)), number)
        note("==", expression, number, True, asking())
        return number

    return method


# -- comparisons -------------------------------------------------------------------------------------------------------


def _comparison(symbol: str, compute: Callable[..., bool]) -> Callable[..., Any]:
    def method(self: Any, other: Any) -> Any:
        other = _pythons(other)
        if not isinstance(other, (int, float)):
            return NotImplemented
        outcome = compute(plain_number(self), plain_number(other))
        note(symbol, expression_of(self), _whole_bound(self, symbol, expression_of(other)), outcome, asking())
        return outcome

    return method


def _whole_bound(size: Any, symbol: str, bound: Any) -> Any:
    """The whole number with which a size compares as it does with a float: ``n < 4.5`` is ``n < 5``."""
    if not isinstance(size, TracedInt) or not isinstance(bound, float) or not math.isfinite(bound):
        return bound
    if symbol in ("==", "!=") and not bound.is_integer():
        return bound
    return math.ceil(bound) if symbol in ("<", ">=") else math.floor(bound)


def _truth(self: Any) -> bool:
    outcome = bool(plain_number(self))
    note("!=", self.expression, 0, outcome, asking())
    return outcome


# -- whole numbers of fractions ----------------------------------------------------------------------------------------


def _ratio(expression: Any) -> tuple[Any, Any] | None:
    """A number computed from sizes as a quotient of integers, a float as a simple fraction near it; None for others."""
    if isinstance(expression, int):
        return expression, 1
    if isinstance(expression, float):
        if not math.isfinite(expression):
            return None
        fraction = Fraction(expression).limit_denominator(1 << 12)
        return fraction.numerator, fraction.denominator
    if isinstance(expression, SizeOf):
        return expression, 1
    if not isinstance(expression, SizeOp):
        return None
    if isinstance(expression.number, int):
        return expression, 1
    parts: list[Any] = [_ratio(operand) for operand in expression.operands]
    if len(parts) != 2 or parts[0] is None or parts[1] is None or expression.symbol not in ("+", "-", "*", "/"):
        return None
    (a, b), (c, d) = parts
    if expression.symbol == "*":
        return combined("*", a, c), combined("*", b, d)
    if expression.symbol == "/":
        return combined("*", a, d), combined("*", b, c)
    return combined(expression.symbol, combined("*", a, d), combined("*", c, b)), combined("*", b, d)


def combined(symbol: str, left: Any, right: Any) -> Any:
    """An operation on whole expressions."""
    if isinstance(left, int) and symbol == "*" and not isinstance(right, int):
        left, right = right, left
    if (symbol, right) in NEUTRAL:
        return left
    number = ARITHMETIC[symbol](number_of(left), number_of(right))
    return number if isinstance(left, int) and isinstance(right, int) else SizeOp(symbol, (left, right), number)


def _rounding(name: str, compute: Callable[..., Any]) -> Callable[..., Any]:
    def method(self: Any, *digits: Any) -> Any:
        if isinstance(self, TracedInt) and not any(digits):
            return self
        if not digits or digits == (None,):
            return whole_of(name, self, compute(plain_number(self)))
        number = compute(plain_number(self), *digits)
        if digits != (0,):
            return number
        whole = whole_of(name, self, int(number))
        return traced(number, whole.expression) if isinstance(whole, TracedInt) else number

    return method


def whole_of(name: str, number: Any, rounded: int, location: Any = None) -> Any:
    """A float computed from sizes, rounded with integer arithmetic alone; a guard states that both are equal.

    Where these cannot express it, it is the number that it is here, which a guard says it is everywhere.
    """
    location = location or asking()
    if (root := _root_of(number.expression)) is not None and root.number == rounded:
        return traced(rounded, root)
    whole = SizeOp(name, (number.expression,), rounded)
    found = _ratio(number.expression)
    exact: Any = None if found is None or number_of(found[1]) <= 0 else _rounded(name, *found)
    if exact is None or number_of(exact) != rounded:
        exact = rounded
    elif found is not None:
        top, bottom = found
        if not isinstance(bottom, int):
            note(">", bottom, 0, True, location)
        if name in ("int", "trunc") and not isinstance(top, int):  # towards 0
            note("<", top, 0, number_of(top) < 0, location)
    if exact is rounded or not rounds_rightly(number.expression):
        note("==", whole, exact, True, location)
    return traced(rounded, exact) if isinstance(exact, (SizeOf, SizeOp)) else rounded


def root_of(size: SizeExpression) -> Any:
    """The size whose square this is, where it has one in this trace; a guard says that it has one everywhere."""
    number = number_of(size)
    root = math.isqrt(number) if isinstance(number, int) and number >= 0 else -1
    if root**2 != number:
        return None
    found = SizeOp("math.isqrt", (size,), root)
    note("==", SizeOp("*", (found, found), number), size, True, asking())
    return found


def _root_of(fraction: SizeExpression) -> Any:
    """The size that ``size ** 0.5`` is, where it is one in this trace."""
    if not isinstance(fraction, SizeOp) or fraction.symbol != "**" or fraction.operands[1] != 0.5:
        return None
    return root_of(fraction.operands[0])


def _rounded(name: str, top: Any, bottom: Any) -> Any:
    """``top / bottom``, rounded."""
    if name == "ceil" or (name in ("int", "trunc") and number_of(top) < 0):
        return SizeOp(
            "-",
            (combined("//", SizeOp("-", (top,), -number_of(top)), bottom),),
            -(-number_of(top) // number_of(bottom)),
        )
    if name == "round":  # half to even
        odd = combined("%", combined("//", top, bottom), 2)
        twice = combined("+", combined("-", combined("+", combined("*", top, 2), bottom), 1), odd)
        return combined("//", twice, combined("*", bottom, 2))
    return combined("//", top, bottom)


def rounds_rightly(expression: SizeExpression) -> bool:
    """Whether a float computed from sizes (below 2**53) rounds to the same integer as the exact number."""
    if isinstance(expression, SizeOp) and expression.symbol == "/":
        whole = all(isinstance(number_of(each), int) for each in expression.operands)
        return whole or _is_exact(expression)
    if isinstance(expression, SizeOp) and expression.symbol in ("+", "-") and len(expression.operands) == 2:
        rest = [each for each in expression.operands if not isinstance(number_of(each), int)]  # beside a whole number
        return len(rest) < 2 and all(map(rounds_rightly, rest))
    return _is_exact(expression)


def _is_exact(expression: Any) -> bool:
    """Whether a float is the exact number: for binary fractions that are divided by powers of two alone."""
    if isinstance(expression, (int, SizeOf)) or isinstance(number_of(expression), int):
        return True
    if isinstance(expression, float):
        return math.isfinite(expression) and Fraction(expression).denominator <= 1 << 20
    if not isinstance(expression, SizeOp) or not all(map(_is_exact, expression.operands)):
        return False
    by = expression.operands[-1]
    return expression.symbol in ("+", "-", "*") or (
        expression.symbol == "/" and by in {2**power for power in range(21)}
    )


# -- where the record ends ---------------------------------------------------------------------------------------------


def _losing(name: str, how: str) -> Callable[..., Any]:
    """A method of ``int`` or ``float`` that gives no size."""

    def method(self: Any, *given: Any, **options: Any) -> Any:
        return getattr(lost(self, how), name)(*given, **options)

    return method


def _as_text(name: str) -> Callable[..., Any]:
    """A method that gives a text. One that a message or a log alone gets decides nothing."""

    def method(self: Any, *given: Any) -> Any:
        dropped = GUARDS.get() is None or named_only()
        return getattr(plain_number(self) if dropped else lost(self, "a text"), name)(*given)

    return method


def follow_here(*_: Any, **__: Any) -> None:
    """Has the package that runs followed, which has lost a size. It may hear so by a warning of Python's."""
    record, location = GUARDS.get(), asking()
    if record is not None and location is not None:
        record.packages.add(location.file)


def _as_number(name: str) -> Callable[..., Any]:
    """``int`` and ``float`` of a package whose own names are not replaced yet, numpy, or a function in C."""

    def method(self: Any) -> Any:
        follow_here()
        return getattr(lost(self, f"{name.strip('_')}(), outside of what a trace follows,"), name)()

    return method


def _hashed(self: Any) -> int:
    follow_here()
    return hash(lost(self, "a dict, a set or a cache that it is looked up in"))


def as_float(number: Any) -> Any:
    """The number as a float, with its expression."""
    return traced(float(plain_number(number)), expression_of(number)) if is_traced(number) else float(number)


class TracedSizes(tuple[Any, ...]):
    """A torch.Size that takes sizes which values say, too: torch's own asks each for its number."""

    @property
    def __class__(self) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        return torch.Size

    def numel(self) -> Any:
        """The product of all."""
        return math.prod(self)

    def __getitem__(self, place: Any) -> Any:
        found = super().__getitem__(place)
        return TracedSizes(found) if isinstance(place, slice) else found

    def __add__(self, other: Any) -> Any:
        return TracedSizes(super().__add__(other))

    def __radd__(self, other: Any) -> Any:
        return TracedSizes((*other, *self))

    def __mul__(self, times: Any) -> Any:
        return TracedSizes(super().__mul__(times))

    __rmul__ = __mul__

    def __repr__(self) -> str:
        return f"torch.Size([{', '.join(map(str, self))}])"


class Repeated(list[Any]):
    """``items * times``, of a size: torch joins them as often; for anything else, the size is the number that it is."""

    def __init__(self, items: list[Any], times: Any):
        super().__init__(items * plain_number(times))
        self.parts: tuple[list[Any], Any] | None = ([*items], times)
        """The items, and how often the list has them; None of a list that was asked for anything else."""
        self._place = asking()

    def _plain(self) -> None:
        if self.parts is not None:
            lost(self.parts[1], "a list that it is multiplied with", self._place)
            self.parts = None

    def __radd__(self, other: list[Any]) -> list[Any]:
        return [*other, *self]


def sizes_as(sizes: list[Any], *, followed: bool = False) -> Any:
    """A tensor's sizes, as torch has them; where values say some, or they are ``followed``, as what keeps these."""
    return TracedSizes(sizes) if followed or BY_VALUES.get() or again() else torch.Size(sizes)


def is_repeated(given: Any) -> bool:
    """Whether it is a list of which nothing is known but how often it has its items."""
    return isinstance(given, Repeated) and given.parts is not None


def is_traced(number: Any) -> bool:
    return isinstance(number, (TracedInt, TracedFloat))


def _ufunc(self: Any, ufunc: Any, method: str, *given: Any, **options: Any) -> Any:
    """A function of numpy that gets sizes."""
    numbers = [_pythons(item) for item in given]
    plain = method == "__call__" and not options and all(isinstance(number, (int, float)) for number in numbers)
    name = ALIASES.get(ufunc.__name__, ufunc.__name__)
    if plain and name in SYMBOLS:
        return FUNCTIONS[SYMBOLS[name]](*numbers)
    if plain and name in ("maximum", "minimum") and all(isinstance(number, int) for number in numbers):
        found = EXTREMA[name[:3]](*map(plain_number, numbers))
        return traced(found, SizeOp(name[:3], tuple(map(expression_of, numbers)), found))
    if plain and name == "sqrt":
        return numbers[0] ** 0.5
    if plain and f"math.{name}" in FRACTIONS:
        found = MATH[f"math.{name}"](plain_number(numbers[0]))
        return traced(found, SizeOp(f"math.{name}", (expression_of(numbers[0]),), found))
    if plain and name in ("ceil", "floor"):
        found = as_float(ROUNDING[name](*numbers))
        return found if is_traced(found) else np.float64(found)
    how = f"numpy.{ufunc.__name__}()"
    tried = found_by_trying(ufunc, how, given, options) if method == "__call__" else None
    if tried is not None:
        return tried
    return getattr(ufunc, method)(*(lost(item, how) if is_traced(item) else item for item in given), **options)


def _astype(self: Any, dtype: Any, **options: Any) -> Any:
    """What numpy's numbers have: a size that its functions give is one."""
    kind = np.dtype(dtype).kind
    if kind == "f":
        return as_float(self)
    if kind in "iu":
        return self if isinstance(self, TracedInt) else whole_of("int", self, int(plain_number(self)))
    return np.asarray(lost(self, "astype()")).astype(dtype, **options)[()]


def found_by_trying(
    function: Callable[..., Any], name: str, given: Any, options: Any, *, as_sizes: bool = False
) -> Any:
    """The whole numbers that a function gives of plain arguments, some of them sizes; None where it gives others.

    A guard says of each what it is everywhere: a size, where one is found that goes on as the function does, or this
    number. ``as_sizes`` has it give None where it is no size.
    """
    place, tree = asking(), (given, options)
    sizes = [leaf for leaf in leaves(tree) if is_traced(leaf)]
    record = GUARDS.get()
    if not sizes or record is None or place is None or not is_plain(tree):
        return None
    args, named = rebuilt(tree, plain_number)
    try:
        result = function(*args, **named)
    except Exception:  # whoever calls sees it, too
        return None
    several = type(result) is tuple
    numbers = list(map(whole_number, result if several else (result,)))
    if any(number != number for number in numbers):
        return None
    found: list[tuple[Tried, Any]] = []
    for at, number in enumerate(numbers):
        key = function, at if several else None, repr(rebuilt(tree, lambda leaf: ... if is_traced(leaf) else leaf))
        of_numbers = record.tried.setdefault(key, OfNumbers(function, tree, is_traced, key[1]))
        whole = len(sizes) == 1 and isinstance(sizes[0], TracedInt) and type(number) is int
        size = fitted(of_numbers, sizes[0].expression) if whole else None
        if size is None and as_sizes:
            return None
        found.append((Tried(name, tuple(map(expression_of, sizes)), number, tried=of_numbers), size))
    for asked, size in found:
        note("==", asked, asked.number if size is None else size, True, place)
    made = tuple(number if size is None else traced(number, size) for number, (_, size) in zip(numbers, found))
    return made if several else made[0]


def taken_as_numbers(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    """The function, which takes sizes as the numbers that they are: guards say what it gives of them everywhere."""

    def called(*given: Any, **options: Any) -> Any:
        found = found_by_trying(function, f"{name}()", given, options)
        if found is not None:
            return found
        for item in leaves((given, options)):
            if is_traced(item):
                lost(item, f"{name}()")
        return function(*given, **options)

    return called


def trying(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of numbers, which is tried where it asks of sizes, or loses what is known of them."""
    name = f"{function.__name__}()"

    @functools.wraps(function)
    def called(*given: Any, **options: Any) -> Any:
        record, tree = GUARDS.get(), (given, options)
        if record is None or not is_plain(tree) or not any(map(is_traced, leaves(tree))):
            return function(*given, **options)
        before, loops, calls, told = len(record.guards), len(record.loops), record.calls, record.told
        record.told = None  # a loop in here computes no tensors
        try:
            result = function(*given, **options)
        finally:
            record.told = told
        numbers = [*leaves(result)]
        sizes = all(map(is_traced, numbers))
        if record.calls != calls or (sizes and len(record.guards) == before):
            return result
        asked = record.guards[before:]
        del record.guards[before:]
        found = found_by_trying(function, name, given, options, as_sizes=sizes)
        if found is None:
            record.guards += asked
            return result
        del record.loops[loops:]
        return found

    return called


def _of_all(name: str) -> Callable[..., Any]:
    """A method of a list, which has as many items as there are."""

    def method(self: Repeated, *given: Any, **options: Any) -> Any:
        self._plain()
        return getattr(list, name)(self, *given, **options)

    return method


def _yields(name: str) -> Callable[..., Any]:
    """A method of a float that a size, or a number of numpy's, has for itself."""

    def method(self: Any, *others: Any) -> Any:
        if any(is_traced(other) or type(other).__module__ == "numpy" for other in others):
            return NotImplemented
        return yielding(getattr(float, name)(self, *others))

    return method


for _name in (*(compute.__name__.strip("_") for compute in {**ARITHMETIC, **COMPARISONS}.values()), "neg", "abs"):
    for _place in ("", "r"):
        if hasattr(float, _name := f"__{_place}{_name.strip('_')}__"):
            setattr(YieldingFloat, _name, _yields(_name))

for _name, _method in vars(list).items():
    if callable(_method) and _name not in ("__init__", "__new__", "__getattribute__", "__class_getitem__"):
        setattr(Repeated, _name, _of_all(_name))

_kind: Any
for _kind in (TracedInt, TracedFloat):
    for _symbol, _compute in {**ARITHMETIC, **BITWISE, **COMPARISONS}.items():
        _name = _compute.__name__.strip("_")
        if _symbol in COMPARISONS:
            setattr(_kind, f"__{_name}__", _comparison(_symbol, _compute))
            continue
        _method = _bitwise if _symbol in BITWISE else _operator
        setattr(_kind, f"__{_name}__", _method(_symbol, _compute))
        setattr(_kind, f"__r{_name}__", _method(_symbol, _compute, swapped=True))
    for _name in ("ceil", "floor", "trunc", "round"):
        setattr(_kind, f"__{_name}__", _rounding(_name, ROUNDING[_name]))
    for _name in ("hex", "as_integer_ratio", "bit_length", "bit_count", "to_bytes", "__getnewargs__"):
        if hasattr(_kind, _name):
            setattr(_kind, _name, taken_as_numbers(getattr(_kind.__base__, _name), _name))
    for _name in ("__str__", "__repr__", "__format__"):
        setattr(_kind, _name, _as_text(_name))
    for _name in ("__int__", "__float__"):
        setattr(_kind, _name, _as_number(_name))
    _kind.__hash__ = _hashed
    _kind.__array_ufunc__, _kind.astype, _kind.item = _ufunc, _astype, lambda self: self
    _kind.__reduce__ = lambda self: (type(plain_number(self)), (lost(self, "a copy"),))
    _kind.__copy__ = _kind.__pos__ = _kind.conjugate = lambda self: self
    _kind.__deepcopy__ = lambda self, memo: self
    _kind.__divmod__ = lambda self, other: (self // other, self % other)
    _kind.__rdivmod__ = lambda self, other: (other // self, other % self)
    _kind.__rshift__ = lambda self, bits: self // 2**bits
    _kind.__lshift__ = lambda self, bits: self * 2**bits
    _kind.__rrshift__ = lambda self, number: number // 2**self
    _kind.__rlshift__ = lambda self, number: number * 2**self
    _kind.__abs__ = _magnitude
    _kind.__neg__ = _operator("-", operator.neg)
    _kind.__bool__ = _truth
    _kind.real, _kind.imag = property(lambda self: self), property(lambda self: type(plain_number(self))(0))
TracedInt.numerator, TracedInt.denominator = property(lambda self: self), property(lambda self: 1)  # pyright: ignore
TracedInt.__index__ = _losing("__index__", "an index")
