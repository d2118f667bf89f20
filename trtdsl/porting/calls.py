"""The parts of a trace of a torch module: values, sizes, calls of torch, and calls of modules.

A :class:`Call` is one call of a module; its body has, in order, the calls of torch (:class:`Op`) and of modules that it
made. Arguments are trees of lists, tuples, dicts and slices, whose leaves are values, sizes and plain Python objects.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import CodeType
from typing import TYPE_CHECKING, Any

from ..core.errors import Location

if TYPE_CHECKING:
    import torch


@dataclass(eq=False)
class Value:
    """A tensor: an input, or what a call gave. ``known`` says that no input and no weight had a part in it."""

    shape: tuple[int, ...]
    dtype: torch.dtype
    known: bool = False
    name: str | None = None
    """What the author calls it."""
    producer: Op | None = field(default=None, repr=False)
    hint: str | None = None
    """What the author calls a list that holds it."""


@dataclass(eq=False)
class Weight(Value):
    """A tensor that the module has: a parameter, a buffer, or an attribute (which is not in the state_dict)."""

    path: str = ""
    stored: bool = True
    """Whether it is in the state_dict."""
    location: Location | None = None
    """Where a tensor from outside of the module is used."""


@dataclass(eq=False)
class ValueList(Value):
    """Several tensors that a function takes as one list."""


@dataclass(eq=False)
class SizeOf:
    """One dimension of a tensor, as ``x.shape[axis]``."""

    value: Value
    axis: int
    number: int
    name: str | None = None
    """What the author calls it."""


@dataclass(eq=False)
class SizeOp:
    """Arithmetic on sizes and numbers, as the author wrote it."""

    symbol: str
    operands: tuple[Any, ...]
    number: int | float
    varies: bool = False
    """Whether it, or a size that it is computed from, has another number at other sizes of the inputs."""
    name: str | None = None
    """What the author calls it."""


SizeExpression = SizeOf | SizeOp


@dataclass(eq=False)
class Op:
    """A call of torch: ``name`` without underscores of in-place variants, ``qualified`` as torch prints it."""

    name: str
    qualified: str
    form: str
    """"function", "method", "attribute" or "setitem"."""
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    results: Any
    location: Location | None
    path: str = ""
    """The module that called."""


@dataclass(eq=False)
class Branch(Op):
    """One of two ways, by a comparison of sizes: ``args`` has what it compares, and what each side gives."""

    guard: Any = None
    sides: tuple[Call, Call] = ()  # pyright: ignore
    """Where the comparison holds, and where it does not."""

    @staticmethod
    def on(guard: Any, sides: tuple[Call, Call], path: str) -> Branch:
        """A branch that gives nothing yet: ``results`` and those of both sides are filled together."""
        args = (guard.left, guard.right, *(side.results for side in sides))
        return Branch("cond", "td.cond", "branch", args, {}, [], guard.location, path, guard, sides)


class Side:
    """One side of a branch, as what a :class:`Call` calls."""

    def __init__(self, guard: Any, outcome: bool, within: str):
        self._guard, self._outcome, self._within = guard, outcome, within


class Helper:
    """A function of the author's that forward calls; its plain arguments are the helper's attributes."""

    def __init__(self, code: CodeType, arguments: dict[str, Any]):
        self.__dict__.update(arguments)
        self._code = code


@dataclass(eq=False)
class Call:
    """A call of a module: its place in the tree of modules, its arguments, the calls that it made, its results.

    Where forward calls a function, ``module`` is a :class:`Helper` and ``path`` that of the module.
    """

    path: str
    module: Any
    arguments: dict[str, Any]
    """By the names of forward's parameters."""
    body: list[Op | Call] = field(default_factory=list)
    results: Any = None

    @property
    def kind(self) -> Any:
        """The identity of a kind of calls: the module's class, or the function's code."""
        if isinstance(self.module, Side):
            return self.module._guard.location, self.module._outcome
        return self.module._code if isinstance(self.module, Helper) else type(self.module)

    @property
    def title(self) -> str:
        """The name of the class or function."""
        if isinstance(self.module, Side):
            return f"{self.module._within}_{'where' if self.module._outcome else 'otherwise'}"
        return self.module._code.co_name if isinstance(self.module, Helper) else type(self.module).__name__

    @property
    def room(self) -> str:
        """The Python module of the class; empty for a function."""
        return "" if isinstance(self.module, (Helper, Side)) else type(self.module).__module__


def leaves(tree: Any) -> Iterator[Any]:
    """The leaves of a tree of arguments, in order."""
    if isinstance(tree, (list, tuple)):
        for item in tree:
            yield from leaves(item)
    elif isinstance(tree, dict):
        for item in tree.values():
            yield from leaves(item)
    elif isinstance(tree, slice):
        yield from leaves((tree.start, tree.stop, tree.step))
    else:
        yield tree


def rebuilt(tree: Any, change: Callable[[Any], Any]) -> Any:
    """The tree with each leaf changed; tuples and lists of every kind become plain ones."""
    if isinstance(tree, list):
        return [rebuilt(item, change) for item in tree]
    if isinstance(tree, tuple):
        return tuple(rebuilt(item, change) for item in tree)
    if isinstance(tree, dict):
        return {key: rebuilt(item, change) for key, item in tree.items()}
    if isinstance(tree, slice):
        return slice(*(rebuilt(item, change) for item in (tree.start, tree.stop, tree.step)))
    return change(tree)


def operations(call: Call) -> Iterator[Op]:
    """Every call of torch in a module's call and those below it, in order; a branch after those of its sides."""
    for item in call.body:
        if isinstance(item, Op):
            for side in item.sides if isinstance(item, Branch) else ():
                yield from operations(side)
            yield item
        else:
            yield from operations(item)


def values_in(tree: Any) -> Iterator[Value]:
    """The values that a tree of arguments needs, also those whose sizes it uses."""
    for leaf in leaves(tree):
        if isinstance(leaf, Value):
            yield leaf
        elif isinstance(leaf, (SizeOf, SizeOp)):
            yield from size_values(leaf)


def size_values(size: Any) -> Iterator[Value]:
    """The values whose dimensions a size is computed from."""
    if isinstance(size, SizeOf):
        yield size.value
    elif isinstance(size, SizeOp):
        for operand in size.operands:
            yield from size_values(operand)


def made_by(value: Value) -> Iterator[Op]:
    """The calls that a value is computed by."""
    found: set[Value] = set()
    wanted = [value]
    while wanted:
        value = wanted.pop()
        if value not in found and value.producer is not None:
            yield value.producer
            wanted += values_in((value.producer.args, value.producer.kwargs))
        found.add(value)
