"""Expressions as Python text."""

from __future__ import annotations

import cmath
import inspect
import keyword
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from .. import functional
from ..core.lazy import torch
from ..sizes.operators import FRACTIONS
from .calls import SizeOf, SizeOp, Value, Weight
from .statements import Argument, Expression, Literal, Scope, same, size_key

# How tightly operators bind; a call, a name and an index bind tightest.
BINDING = {"==": 1, "!=": 1, ">": 1, ">=": 1, "<": 1, "<=": 1, "|": 2, "^": 3, "&": 4, "+": 5, "-": 5}
BINDING |= {"*": 6, "/": 6, "//": 6, "%": 6, "@": 6, "**": 8}
UNARY, ATOM = 7, 9
MOST_POSITIONAL = 7  # arguments of a function without their names, else all but BY_PLACE have theirs
BY_PLACE = 3


class Renderer:
    """Text of expressions, where values have the names that ``name_of`` gives and weights stand under ``prefix``.

    ``sizes`` has the names of sizes by their keys; ``numbered`` says what stands for the part of the weights
    that the first round of a loop has.
    """

    def __init__(
        self,
        prefix: str,
        name_of: Callable[[Value], str],
        sizes: Mapping[Any, str] | None = None,
        numbered: Mapping[str, str] | None = None,
    ):
        self.prefix, self.name_of = prefix, name_of
        self.sizes = dict(sizes or {})
        self.numbered = numbered or {}

    def expression(self, expression: Expression) -> tuple[str, int]:
        """The text and how tightly it binds."""
        form, arguments = expression.form, expression.arguments
        if form == "operator":
            return self._operator(expression.name, *(argument.tree for argument in arguments))
        if form == "swapped":
            return self._operator(expression.name, arguments[1].tree, arguments[0].tree)
        if form == "unary":
            return f"{expression.name}{self.operand(arguments[0].tree, UNARY)}", UNARY
        if form == "attribute":
            return f"{self.operand(arguments[0].tree, ATOM)}.{expression.name}", ATOM
        if form == "index":
            return f"{self.operand(arguments[0].tree, ATOM)}[{self._index(arguments[1].tree)}]", ATOM
        if form == "sequence":
            return self.tree(arguments[0].tree), ATOM
        if form == "method":
            receiver, rest = self.operand(arguments[0].tree, ATOM), arguments[1:]
            return f"{receiver}.{expression.name}({', '.join(self.arguments(rest))})", ATOM
        return f"{self.callee(expression)}({', '.join(self.given(expression))})", ATOM

    def callee(self, expression: Expression) -> str:
        """The text of the callee, for a function, a module, and a missing call."""
        names = {"function": f"F.{expression.name}", "constants": "td.of_constants"}
        names |= {form: f"td.{form}" for form in ("missing", "cond", "scan")}
        return names.get(expression.form, expression.name)

    def given(self, expression: Expression) -> list[str]:
        """The texts of a function's arguments."""
        if expression.form == "scan":
            return self._scanned(expression)
        if expression.form != "cond":
            first = [expression.name] if expression.form == "constants" else []
            return [*first, *self.arguments(self.ordered(expression))]
        compared, *sides, operands = (argument.tree for argument in expression.arguments)
        names = ", ".join(map(self.value, operands))
        functions = [f"lambda {names}: {self.tree(side)}" for side in sides]
        return [self.tree(compared), *functions, self.tree(operands)]

    def _scanned(self, expression: Expression) -> list[str]:
        step, carried, along = (argument.tree for argument in expression.arguments[:3])
        own = [name if len(each) == 1 else f"*{name}" for name, each in zip(IN_A_ROUND, (carried, along))]
        called = f"{step.name}({', '.join([*own, *self.arguments(self.ordered(step))])})"
        given = [grouped([self.tree(value) for value in each], "()") for each in (carried, along)]
        function = f"lambda {', '.join(IN_A_ROUND)}: {called}"
        return [function, *given, *self.arguments(expression.arguments[3:])]

    def ordered(self, expression: Expression) -> list[Argument]:
        """Arguments in the order in which they are written: the weights after the tensors, then literals."""
        scopes = [argument for argument in expression.arguments if isinstance(argument.tree, Scope)]
        positional = [argument for argument in expression.arguments if argument.keyword is None]
        named = [argument for argument in expression.arguments if argument.keyword and argument not in scopes]
        if expression.form == "function" and len(positional) > MOST_POSITIONAL:
            names = list(inspect.signature(getattr(functional, expression.name)).parameters)
            pairs = list(zip(names, positional))[BY_PLACE:]
            positional[BY_PLACE:] = [replace(argument, keyword=name) for name, argument in pairs]
        return positional + scopes + named

    def arguments(self, arguments: list[Argument]) -> list[str]:
        """The texts of arguments, without those that are what they are by default."""
        texts: list[str] = []
        last = True  # positional ones can be left out at the end only
        for argument in reversed(arguments):
            tree, positional = argument.tree, argument.keyword is None
            usual = isinstance(tree, Literal) and argument.default is not ... and tree.parameter is None
            if usual and same(tree.value, argument.default) and (last or not positional):
                continue
            last = last and not positional
            text = self.tree(tree)
            named = argument.keyword if not isinstance(tree, Scope) else None
            texts.insert(0, f"{named}={text}" if named else text)
        return texts

    def operand(self, tree: Any, binding: int) -> str:
        """Text in parentheses where its operator binds less tightly than the one beside it."""
        text, own = self.bound(tree)
        return f"({text})" if own < binding else text

    def bound(self, tree: Any) -> tuple[str, int]:
        """The text of an argument and how tightly it binds."""
        if isinstance(tree, Expression):
            return self.expression(tree)
        if isinstance(tree, SizeOp) and size_key(tree) not in self.sizes:
            return self._size(tree)
        if isinstance(tree, Literal) and tree.parameter is None and isinstance(tree.value, (int, float)):
            text = literal(tree.value)
            return text, UNARY if text.startswith("-") else ATOM
        return self.tree(tree), ATOM

    def tree(self, tree: Any) -> str:
        """The text of an argument."""
        if isinstance(tree, Literal):
            return tree.parameter or literal(tree.value)
        if isinstance(tree, Expression):
            return self.expression(tree)[0]
        if isinstance(tree, Scope):
            return self.path(tree.path)
        if isinstance(tree, Value):
            return self.value(tree)
        if isinstance(tree, (SizeOf, SizeOp)):
            return self._size(tree)[0]
        if isinstance(tree, (list, tuple)):
            return self._sequence(tree)
        if isinstance(tree, slice):
            ends = [self.tree(end) for end in (tree.start, tree.stop, tree.step)]
            return f"slice({', '.join(ends[: 3 if ends[2] != 'None' else 2][ends[0] == ends[2] == 'None' :])})"
        if isinstance(tree, dict):
            return "{" + ", ".join(f"{key!r}: {self.tree(item)}" for key, item in tree.items()) + "}"
        return literal(tree)

    def value(self, value: Value) -> str:
        """A tensor's name; a weight's path where it is one of the module's own."""
        if isinstance(value, Weight) and value.path.startswith(self.prefix):
            return self.path(value.path)
        return self.name_of(value)

    def path(self, path: str) -> str:
        """A path in the weights from the function's own scope: ``w.blocks[3].weight``."""
        for part, text in self.numbered.items():
            if f"{path}.".startswith(f"{part}."):
                return text + "".join(map(attribute, path[len(part) + 1 :].split(".") if path != part else ()))
        rest = path[len(self.prefix) :] if f"{path}.".startswith(self.prefix) else path
        return "w" + "".join(map(attribute, [part for part in rest.split(".") if part]))

    def _sequence(self, tree: Any) -> str:
        part = self._shape_part(tree)
        if part is not None:
            return part
        items = [self.tree(item) for item in tree]
        if isinstance(tree, list):
            return f"[{', '.join(items)}]"
        return f"({', '.join(items)}{',' if len(items) == 1 else ''})"

    def _shape_part(self, tree: list[Any] | tuple[Any, ...]) -> str | None:
        """``x.shape[2:]`` for all sizes of a tensor from one on."""
        start = next(iter(tree), None)
        if not isinstance(start, SizeOf) or any(getattr(item, "value", None) is not start.value for item in tree):
            return None
        value, first = start.value, start.axis
        axes = list(range(first, len(value.shape)))
        if [item.axis for item in tree] != axes or all(size_key(item) in self.sizes for item in tree):
            return None
        return f"{self.value(value)}.shape" + (f"[{first}:]" if first else "")

    def _index(self, tree: Any) -> str:
        if isinstance(tree, tuple):
            return ", ".join(map(self._index_item, tree)) + ("," if len(tree) == 1 else "")
        return self._index_item(tree)

    def _index_item(self, item: Any) -> str:
        item = item.value if isinstance(item, Literal) and item.parameter is None else item
        if item is Ellipsis:
            return "..."
        if isinstance(item, slice):
            start, stop, step = (
                "" if end is None or (isinstance(end, Literal) and end.value is None) else self.tree(end)
                for end in (item.start, item.stop, item.step)
            )
            return _slice(start, stop, step)
        return self.tree(item)

    def _operator(self, symbol: str, left: Any, right: Any) -> tuple[str, int]:
        binding = BINDING[symbol]
        first, second = self.operand(left, binding + (symbol == "**")), self.operand(right, binding + 1)
        tight = symbol == "**" and _simple(first) and _simple(second)
        return f"{first}{symbol}{second}" if tight else f"{first} {symbol} {second}", binding

    def _size(self, size: Any) -> tuple[str, int]:
        if size_key(size) in self.sizes:
            return self.sizes[size_key(size)], ATOM
        if isinstance(size, SizeOf):
            return f"{self.value(size.value)}.shape[{size.axis}]", ATOM
        if size.symbol in ("min", "max"):
            text = self.bound(size.operands[0])[0]
            for operand in size.operands[1:]:
                text = f"td.size_{size.symbol}({text}, {self.bound(operand)[0]})"
            return text, ATOM
        if size.symbol == "math.isqrt":
            return f"td.size_sqrt({self.bound(size.operands[0])[0]})", ATOM
        if size.symbol in FRACTIONS:
            return f"F.{size.symbol.removeprefix('math.')}({self.tree(size.operands[0])})", ATOM
        if len(size.operands) == 1:
            return f"-{self.operand(size.operands[0], UNARY)}", UNARY
        return self._operator(size.symbol, *size.operands)


IN_A_ROUND = ("carry", "item")
"""What a round of td.scan gets."""


def grouped(names: Sequence[str], none: str) -> str:
    """One name, a tuple of several, or ``none``."""
    return names[0] if len(names) == 1 else f"({', '.join(names)})" if names else none


def _simple(text: str) -> bool:
    return re.fullmatch(r"-?[\w.]+(e-?\d+)?", text) is not None


def _slice(start: str, stop: str, step: str) -> str:
    """A slice; where an end is more than a name or a number, there are spaces around the colon."""
    ends = [start, stop, step] if step else [start, stop]
    if all(re.fullmatch(r"-?\w*", end) for end in ends):
        return ":".join(ends)
    return re.sub(" +", " ", " : ".join(ends)).strip()


def attribute(name: str) -> str:
    """A part of a path in the weights: ``.conv1``, ``[3]``, ``["lambda"]``."""
    if name.isdigit():
        return f"[{name}]"
    if name.isidentifier() and not keyword.iskeyword(name) and not name.startswith("__") and name not in HIDDEN:
        return f".{name}"
    return f'["{name}"]'


HIDDEN = {"_network", "_weights", "_prefix", "_children"}


def kind(values: Iterable[Any]) -> str:
    """The type of plain Python objects, as an annotation."""
    names = {type(value).__name__ for value in values} - {"int" if any(type(v) is float for v in values) else ""}
    if names <= {"tuple", "list"}:
        inner = kind([item for value in values for item in value])
        return " | ".join(f"tuple[{inner}, ...]" if name == "tuple" else f"list[{inner}]" for name in sorted(names))
    written = {"NoneType": "None", "dtype": "torch.dtype"}
    return " | ".join(written.get(name, name) for name in sorted(names, key=lambda name: (name == "NoneType", name)))


def literal(value: Any) -> str:
    """A plain Python object as text."""
    if isinstance(value, torch.dtype):
        return str(value)
    if isinstance(value, bool) or value is None:
        return repr(value)
    if isinstance(value, float):
        return _number(value) if math.isfinite(value) else "-math.inf" if value < 0 else f"math.{value}"
    if isinstance(value, complex):
        if not cmath.isfinite(value):
            return f"complex({literal(value.real)}, {literal(value.imag)})"
        return re.sub(r"(?<=[^(e])[+-]", r" \g<0> ", repr(value))
    if isinstance(value, str):
        text = repr(value)
        return f'"{text[1:-1]}"' if '"' not in text and not text.startswith('"') else text
    if isinstance(value, list):
        return f"[{', '.join(map(literal, value))}]"
    if isinstance(value, tuple):
        return f"({', '.join(map(literal, value))}{',' if len(value) == 1 else ''})"
    if isinstance(value, slice):
        return f"slice({literal(value.start)}, {literal(value.stop)}, {literal(value.step)})"
    if value is Ellipsis:
        return "..."
    if isinstance(value, int):
        return str(int(value))
    return repr(value)


def _number(value: float) -> str:
    text = repr(float(value))
    return re.sub(r"e([+-])0*(\d)", lambda match: "e" + match[1].replace("+", "") + match[2], text)
