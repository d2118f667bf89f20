"""The program that a trace becomes: statements of functions of trtdsl, before they have names and lines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..core.errors import Location
from .calls import Call, Node, SizeOf, SizeOp, Value, keyed, leaves, rebuilt, values_in, with_values


@dataclass(eq=False)
class Literal:
    """A plain Python object among the arguments; ``parameter`` is its name where the function takes it as one."""

    value: Any
    name: str = ""
    """What the argument is called."""
    parameter: str | None = None
    usual: Any = ...
    """The argument's default; ``...`` where it has none."""


@dataclass(eq=False)
class Argument:
    """One argument: its keyword (None for a positional one) and a tree of values, sizes, literals and expressions."""

    keyword: str | None
    tree: Any
    default: Any = ...
    """What it is when left out; ``...`` where it must be given."""


@dataclass(eq=False)
class Expression(Node):
    """A call, an operator, an index or an attribute.

    ``form`` is one of function (``F.name``), method, operator, swapped (an operator with its operands exchanged),
    unary, index, attribute, torch (torch's own, on constants), missing, sequence (of its argument), and module (a
    function of the file).
    """

    form: str
    name: str
    arguments: list[Argument]
    call: Call | None = None
    """For a module: the call that it stands for."""
    location: Location | None = None

    @property
    def apart(self) -> tuple[Any, list[Any]]:
        keywords = (argument.keyword for argument in self.arguments)
        return (self.form, self.name, *keywords), [argument.tree for argument in self.arguments]


def made(form: str, name: str, *given: Any, **named: Any) -> Expression:
    """An expression of arguments, and of trees of which plain objects are literals."""
    arguments = [each if isinstance(each, Argument) else Argument(None, plain(each)) for each in given]
    return Expression(form, name, [*arguments, *(Argument(key, plain(each)) for key, each in named.items())])


def plain(tree: Any) -> Any:
    """A tree of arguments, in which plain Python objects are literals."""
    return rebuilt(tree, lambda leaf: leaf if isinstance(leaf, (Value, Node, Literal)) else Literal(leaf))


@dataclass(eq=False)
class Statement:
    """``results = expression``."""

    results: list[Value]
    expression: Expression
    several: list[Any] | None = None
    """What the expression gives where that is a sequence: values, and None for anything else."""
    note: list[str] = field(default_factory=list)
    """Comment lines above it."""

    def give(self, results: list[Value]) -> Statement:
        """The statement, which gives these from now on: one, or a sequence."""
        self.results, self.several = results, [*results] if len(results) > 1 else None
        return self


@dataclass(eq=False)
class Unpack:
    """``n, c, _ = x.shape``: sizes by name."""

    sizes: list[SizeOf]


@dataclass(eq=False)
class SizeName:
    """``half = height // 2``: a size that is used more than once."""

    size: SizeOp


@dataclass(eq=False)
class Copy:
    """``x = y``, before a loop that changes x."""

    target: Value
    source: Value


@dataclass(eq=False)
class Loop:
    """Statements that are repeated: for numbered parts of the weights, for values and numbers of lists."""

    body: list[Any]
    start: int
    count: int
    containers: list[str]
    """What stands before the number in the paths of numbered parts: ``blocks.``, or ``layer`` of layer1 and layer2."""
    carried: list[tuple[Value, Value]]
    """What goes in at first, and what comes out of one round and goes into the next."""
    last: dict[Value, Value] = field(default_factory=dict)
    """Values of the last round, by those of the first."""
    whole: bool = False
    """Whether these are all parts that there are."""
    step: int = 1
    """-1 where the numbers of the parts go down."""
    over: list[tuple[Value, Any]] = field(default_factory=list)
    """What else goes in: its name in a round, and the values or literals of all rounds, or their list."""
    rounds: Literal | None = None
    """The count, where functions may differ in it: that of parts that are numbered in their names."""


@dataclass(frozen=True)
class Scope:
    """The weights of a module, as an argument."""

    path: str


def parts(expression: Expression) -> Iterator[Any]:
    """The leaves of all arguments: values, sizes, literals; nested expressions are entered."""
    for argument in expression.arguments:
        for leaf in leaves(argument.tree):
            if isinstance(leaf, Expression):
                yield from parts(leaf)
            else:
                yield leaf


def expressions(expression: Expression) -> Iterator[Expression]:
    """The expression and those nested in it."""
    yield expression
    for argument in expression.arguments:
        for leaf in leaves(argument.tree):
            if isinstance(leaf, Expression):
                yield from expressions(leaf)


def is_of_names(container: str) -> bool:
    """Whether its parts are numbered in their own names, as layer1 and layer2, and are none of a list."""
    return bool(container) and not container.endswith(".")


def fills_a_list(statement: Statement) -> bool:
    """Whether it appends a value to a list."""
    return (statement.expression.form, statement.expression.name) == ("method", "append")


def pattern(statement: Statement) -> Any:
    """Which parts of the results of a statement are values; None where it has one result alone."""
    return statement.several and tuple(value is not None for value in statement.several)


def flat(items: Iterable[Any]) -> Iterator[Statement]:
    """The statements, those in loops included."""
    for item in items:
        if isinstance(item, Loop):
            yield from flat(item.body)
        elif isinstance(item, Statement):
            yield item


def uses_of(body: Iterable[Statement], results: Iterable[Value]) -> Counter[Value]:
    """How often each value is used, its sizes included."""
    return Counter({value: len(places) for value, places in places_of([*body], results).items()})


def places_of(body: Sequence[Statement], results: Iterable[Value]) -> dict[Value, list[int]]:
    """The numbers of the statements that use each value, in order; results are used behind the last."""
    places: dict[Value, list[int]] = {}
    for place, statement in enumerate(body):
        for leaf in parts(statement.expression):
            for value in values_in(leaf):
                places.setdefault(value, []).append(place)
    for value in results:
        places.setdefault(value, []).append(len(body))
    return places


def substitute(body: Iterable[Statement], values: Mapping[Any, Value]) -> None:
    """Writes other values in the place of some values and literals, in all statements."""

    def change(leaf: Any) -> Any:
        if isinstance(leaf, Expression):
            enter(leaf)
        return values.get(leaf, leaf) if isinstance(leaf, (Value, Literal)) else leaf

    def enter(expression: Expression) -> None:
        for argument in expression.arguments:
            argument.tree = with_values(argument.tree, change)

    for statement in body:
        enter(statement.expression)


def size_key(size: Any) -> Any:
    """Sizes that are the same expression have the same key."""
    return keyed(size, lambda leaf: id(leaf) if isinstance(leaf, Value) else repr(getattr(leaf, "value", leaf)))


def key_of(item: Any) -> Any:
    """What a value, or a size, is known by."""
    return item if isinstance(item, Value) else size_key(item)


def same(value: Any, default: Any) -> bool:
    """Whether an argument equals its default: 1 equals (1, 1) and 1.0."""
    if isinstance(value, (tuple, list)) and value and isinstance(default, (int, float)):
        return all(same(item, default) for item in value)
    if isinstance(value, bool) or isinstance(default, bool):
        return value is default
    if isinstance(value, (int, float)) and isinstance(default, (int, float)):
        return value == default
    return type(value) is type(default) and repr(value) == repr(default)
