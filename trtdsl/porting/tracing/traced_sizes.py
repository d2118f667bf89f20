"""Numbers that record which sizes they were computed from.

A :class:`TracedInt` is an int in every respect; what Python computes from it is one too. A module therefore runs as
with plain numbers, branches included, and a size can be written back as its author wrote it: ``h // 2 * w``.
Comparisons that the module makes of such numbers are noted as a Guard, so that they can be proven for all sizes.
"""

from __future__ import annotations

import builtins
import math
import operator
import sys
import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from fractions import Fraction
from typing import Any

from ...core.errors import Location
from ...core.lazy import torch
from ..calls import SizeExpression, SizeOf, SizeOp
from .frames import is_inside
from .guards import GUARDS, Guard


class TracedInt(int):
    """An int and the expression that it came from."""

    expression: SizeExpression
    __hash__ = int.__hash__

    def __reduce__(self) -> Any:
        return int, (int(self),)  # a copy is a number


class TracedFloat(float):
    """A float made from sizes, as ``h / 2``."""

    expression: SizeExpression
    __hash__ = float.__hash__

    def __reduce__(self) -> Any:
        return float, (float(self),)


def traced(number: Any, expression: SizeExpression) -> Any:
    """The number with its expression; anything but an int or a float stays what it is."""
    kind = TracedInt if type(number) is int else TracedFloat if type(number) is float else None
    if kind is None:
        return number
    result = kind(number)
    result.expression = expression
    return result


def expression_of(number: Any) -> Any:
    """The expression of a traced number; any other number is its own."""
    return number.expression if isinstance(number, (TracedInt, TracedFloat)) else number


NEUTRAL = {("+", 0), ("-", 0), ("*", 1), ("//", 1)}  # on the right of a size


def _plain(number: Any) -> Any:
    if isinstance(number, TracedInt):
        return int(number)
    return float(number) if isinstance(number, TracedFloat) else number


def _operator(symbol: str, compute: Callable[..., Any], *, swapped: bool = False) -> Callable[..., Any]:
    def method(self: Any, *others: Any) -> Any:
        if not all(isinstance(other, (int, float)) for other in others):
            return NotImplemented
        operands = (*others, self) if swapped else (self, *others)
        if (symbol, operands[-1]) in NEUTRAL and type(operands[-1]) is int and len(operands) == 2:
            return self
        number = compute(*map(_plain, operands))
        return traced(number, SizeOp(symbol, tuple(map(expression_of, operands)), number))

    return method


_BINARY: dict[str, tuple[str, Callable[..., Any]]] = {
    "add": ("+", operator.add),
    "sub": ("-", operator.sub),
    "mul": ("*", operator.mul),
    "floordiv": ("//", operator.floordiv),
    "truediv": ("/", operator.truediv),
    "mod": ("%", operator.mod),
    "pow": ("**", operator.pow),
}
ARITHMETIC = dict(_BINARY.values())
COMPARISONS: dict[str, Callable[..., bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
    ">": operator.gt,
    ">=": operator.ge,
}


def _magnitude(self: Any) -> Any:
    opposite = -self
    number = abs(_plain(self))
    return traced(number, SizeOp("max", (self.expression, expression_of(opposite)), number))


BITWISE: dict[str, Callable[..., Any]] = {"&": operator.and_, "|": operator.or_, "^": operator.xor}


def _bitwise(symbol: str, *, swapped: bool = False) -> Callable[..., Any]:
    """An operation whose result is no size: a number, which a guard says it is everywhere."""

    def method(self: Any, other: Any) -> Any:
        if not isinstance(self, int) or not isinstance(other, int):
            return NotImplemented
        operands = (other, self) if swapped else (self, other)
        number = BITWISE[symbol](*map(_plain, operands))
        expression = SizeOp(symbol, tuple(map(expression_of, operands)), number)
        _note("==", traced(number, expression), number, True)
        return number

    return method


# -- comparisons -------------------------------------------------------------------------------------------------------


def _note(symbol: str, left: Any, right: Any, outcome: bool, depth: int = 2) -> None:
    """Notes comparisons of the author's code and ignores those of torch's own code."""
    guards = GUARDS.get()
    frame = sys._getframe(depth)
    if guards is not None and not is_inside(frame.f_code.co_filename):
        place = Location(frame.f_code.co_filename, frame.f_lineno)
        guards.append(Guard(symbol, expression_of(left), expression_of(right), outcome, place))


def _comparison(symbol: str, compute: Callable[..., bool]) -> Callable[..., Any]:
    def method(self: Any, other: Any) -> Any:
        if not isinstance(other, (int, float)):
            return NotImplemented
        outcome = compute(_plain(self), _plain(other))
        _note(symbol, self, other, outcome)
        return outcome

    return method


def _truth(self: Any) -> bool:
    outcome = bool(_plain(self))
    _note("!=", self, 0, outcome)
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
        return _whole("*", a, c), _whole("*", b, d)
    if expression.symbol == "/":
        return _whole("*", a, d), _whole("*", b, c)
    return _whole(expression.symbol, _whole("*", a, d), _whole("*", c, b)), _whole("*", b, d)


def _number(expression: Any) -> Any:
    return expression.number if isinstance(expression, (SizeOf, SizeOp)) else expression


def _whole(symbol: str, left: Any, right: Any) -> Any:
    """An operation on whole expressions."""
    if isinstance(left, int) and symbol == "*" and not isinstance(right, int):
        left, right = right, left
    if (symbol, right) in NEUTRAL:
        return left
    number = ARITHMETIC[symbol](_number(left), _number(right))
    return number if isinstance(left, int) and isinstance(right, int) else SizeOp(symbol, (left, right), number)


def _rounding(name: str, compute: Callable[..., Any]) -> Callable[..., Any]:
    def method(self: Any, *digits: Any) -> Any:
        if isinstance(self, TracedInt) and not any(digits):
            return self
        if not digits or digits == (None,):
            return whole_of(name, self, compute(_plain(self)), depth=3)
        number = compute(_plain(self), *digits)
        if digits != (0,):
            return number
        whole = whole_of(name, self, int(number), depth=3)
        return traced(number, whole.expression) if isinstance(whole, TracedInt) else number

    return method


def whole_of(name: str, number: Any, rounded: int, depth: int = 2) -> Any:
    """A float computed from sizes, rounded with integer arithmetic alone; a guard states that both are equal.

    Where these cannot express it, it is the number that it is here, which a guard says it is everywhere.
    """
    whole = traced(rounded, SizeOp(name, (number.expression,), rounded))
    found = _ratio(number.expression)
    exact: Any = None if found is None or _number(found[1]) <= 0 else _rounded(name, *found)
    if exact is None or _number(exact) != rounded:
        exact = rounded
    if exact is rounded or not _rounds_rightly(number.expression):
        _note("==", whole, traced(rounded, exact) if exact is not rounded else rounded, True, depth + 1)
    return traced(rounded, exact) if isinstance(exact, (SizeOf, SizeOp)) else rounded


def _rounded(name: str, top: Any, bottom: Any) -> Any:
    """``top / bottom``, rounded."""
    if name == "ceil":
        return SizeOp(
            "-",
            (_whole("//", SizeOp("-", (top,), -_number(top)), bottom),),
            -(-_number(top) // _number(bottom)),
        )
    if name == "round":  # half to even
        odd = _whole("%", _whole("//", top, bottom), 2)
        twice = _whole("+", _whole("-", _whole("+", _whole("*", top, 2), bottom), 1), odd)
        return _whole("//", twice, _whole("*", bottom, 2))
    return _whole("//", top, bottom)


def _rounds_rightly(expression: SizeExpression) -> bool:
    """Whether a float computed from sizes (below 2**53) rounds to the same integer as the exact number."""
    if isinstance(expression, SizeOp) and expression.symbol == "/":
        whole = all(isinstance(_number(each), int) for each in expression.operands)
        return whole or _is_exact(expression)
    return _is_exact(expression)


def _is_exact(expression: Any) -> bool:
    """Whether a float is the exact number: for binary fractions that are divided by powers of two alone."""
    if isinstance(expression, (int, SizeOf)) or isinstance(_number(expression), int):
        return True
    if isinstance(expression, float):
        return math.isfinite(expression) and Fraction(expression).denominator <= 1 << 20
    if not isinstance(expression, SizeOp) or not all(map(_is_exact, expression.operands)):
        return False
    by = expression.operands[-1]
    return expression.symbol in ("+", "-", "*") or (
        expression.symbol == "/" and by in {2**power for power in range(21)}
    )


# -- Python's own functions --------------------------------------------------------------------------------------------


class _IntType(type):
    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, int)

    def __subclasscheck__(cls, subclass: type) -> bool:
        return issubclass(subclass, int)

    def __eq__(cls, other: object) -> bool:
        return other is int or other is cls

    def __hash__(cls) -> int:
        return hash(int)


class _Int(int, metaclass=_IntType):
    """``int``, which keeps the expression of a traced number."""

    def __new__(cls, *given: Any, **options: Any) -> Any:
        if len(given) == 1 and isinstance(given[0], TracedInt):
            return given[0]
        if len(given) == 1 and isinstance(given[0], TracedFloat):
            return whole_of("int", given[0], int(given[0]))
        if len(given) == 1 and isinstance(given[0], torch.Tensor):
            return cls(given[0].item())  # which may be traced
        return int(*given, **options)


def _extremum(name: str) -> Callable[..., Any]:
    plain = getattr(builtins, name)

    def function(*given: Any, **options: Any) -> Any:
        items = list(given[0]) if len(given) == 1 else list(given)
        numbers = bool(items) and all(isinstance(item, (int, float)) for item in items)
        if options or not numbers or not any(isinstance(item, (TracedInt, TracedFloat)) for item in items):
            return plain(items, **options) if len(given) == 1 else plain(*given, **options)
        number = plain(map(_plain, items))
        return traced(number, SizeOp(name, tuple(map(expression_of, items)), number))

    return function


def _range(*given: Any) -> Any:
    for number in given:
        if isinstance(number, TracedInt):
            _note("==", number, int(number), True)
    return range(*map(_plain, given))


_SQRT = math.sqrt


def _root(number: Any) -> Any:
    root = _SQRT(_plain(number))
    traces = isinstance(number, (TracedInt, TracedFloat))
    return traced(root, SizeOp("**", (number.expression, 0.5), root)) if traces else root


def _one_value(name: str) -> Callable[..., Any]:
    """A function of ``math`` whose result is no size: of sizes it is a number, which a guard says it is everywhere."""
    plain = MATH[f"math.{name}"]

    def function(*given: Any) -> Any:
        number = plain(*map(_plain, given))
        if any(isinstance(item, (TracedInt, TracedFloat)) for item in given):
            expression = SizeOp(f"math.{name}", tuple(map(expression_of, given)), number)
            _note("==", traced(number, expression), number, True)
        return number

    return function


MATH: dict[str, Callable[..., Any]] = {
    f"math.{name}": getattr(math, name)
    for name in ("log", "log2", "log10", "log1p", "exp", "pow", "gcd", "lcm", "isqrt", "hypot", "fabs", "copysign")
}
IN_MATH = {"sqrt": _root, **{name.removeprefix("math."): _one_value(name.removeprefix("math.")) for name in MATH}}


class _FloatType(_IntType):
    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, float)

    def __subclasscheck__(cls, subclass: type) -> bool:
        return issubclass(subclass, float)

    def __eq__(cls, other: object) -> bool:
        return other is float or other is cls

    def __hash__(cls) -> int:
        return hash(float)


class _Float(float, metaclass=_FloatType):
    """``float``, which keeps the expression of a traced number."""

    def __new__(cls, *given: Any) -> Any:
        if len(given) == 1 and isinstance(given[0], (TracedInt, TracedFloat)):
            return traced(float(_plain(given[0])), given[0].expression)
        return float(*given)


def _len(given: Any) -> int:
    return given.shape[0] if isinstance(given, torch.Tensor) and given.dim() else len(given)


NAMESAKES = {
    "int": _Int, "float": _Float, "min": _extremum("min"), "max": _extremum("max"), "range": _range, "len": _len,
}  # fmt: skip


def named_for_a_type(error: BaseException | None) -> bool:
    """Whether torch was given what stands in for ``int`` or ``float``, and takes the types themselves alone."""
    names = (_IntType.__name__, _FloatType.__name__)
    return isinstance(error, TypeError) and any(name in str(error) for name in names)


@contextmanager
def pythons_functions(module: torch.nn.Module, types_in: Collection[str] = ()) -> Iterator[None]:
    """A context in which Python's own functions support traced numbers.

    ``int``, ``min``, ``max``, ``range`` and ``len`` in the packages of the module's classes, and the functions of
    ``math``. Files in ``types_in`` keep their ``int`` and ``float``.
    """
    changed: list[tuple[dict[str, Any], str]] = []
    packages = {kind.__module__.partition(".")[0] for part in module.modules() for kind in type(part).__mro__}
    packages -= {"builtins", "torch"}
    for name, file in list(sys.modules.items()):
        if name.partition(".")[0] not in packages:
            continue
        space, path = vars(file), str(getattr(file, "__file__", None) or "<frozen")
        if not is_inside(path):
            own = ("int", "float") if path in types_in else ()
            changed += [(space, key) for key in NAMESAKES if key not in space and key not in own]
    with _ONE_AT_A_TIME:
        before = {name: getattr(math, name) for name in IN_MATH}
        sym = {name: getattr(torch, name) for name in ("sym_max", "sym_min", "sym_int")}
        for space, key in changed:
            space[key] = NAMESAKES[key]
        math.__dict__.update(IN_MATH)
        vars(sys.modules["torch"]).update(sym_max=NAMESAKES["max"], sym_min=NAMESAKES["min"], sym_int=_Int)
        try:
            yield
        finally:
            math.__dict__.update(before)
            vars(sys.modules["torch"]).update(sym)
            for space, key in changed:
                space.pop(key, None)


_ONE_AT_A_TIME = threading.RLock()  # the change is visible to all threads


_kind: Any
for _kind in (TracedInt, TracedFloat):
    for _name, (_symbol, _compute) in _BINARY.items():
        setattr(_kind, f"__{_name}__", _operator(_symbol, _compute))
        setattr(_kind, f"__r{_name}__", _operator(_symbol, _compute, swapped=True))
    for _name, _symbol in (("lt", "<"), ("le", "<="), ("eq", "=="), ("ne", "!="), ("gt", ">"), ("ge", ">=")):
        setattr(_kind, f"__{_name}__", _comparison(_symbol, COMPARISONS[_symbol]))
    for _name, _compute in (("ceil", math.ceil), ("floor", math.floor), ("trunc", math.trunc), ("round", round)):
        setattr(_kind, f"__{_name}__", _rounding(_name, _compute))
    for _name, _symbol in (("and", "&"), ("or", "|"), ("xor", "^")):
        setattr(_kind, f"__{_name}__", _bitwise(_symbol))
        setattr(_kind, f"__r{_name}__", _bitwise(_symbol, swapped=True))
    _kind.__divmod__ = lambda self, other: (self // other, self % other)
    _kind.__rdivmod__ = lambda self, other: (other // self, other % self)
    _kind.__rshift__ = lambda self, bits: self // 2**bits
    _kind.__lshift__ = lambda self, bits: self * 2**bits
    _kind.__abs__ = _magnitude
    _kind.__neg__ = _operator("-", operator.neg)
    _kind.__bool__ = _truth
