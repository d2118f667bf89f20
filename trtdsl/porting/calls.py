"""The parts of a trace of a torch module: values, sizes, calls of torch, and calls of modules.

A :class:`Call` is one call of a module; its body has, in order, the calls of torch (:class:`Op`) and of modules that it
made. Arguments are trees of lists, tuples, dicts and slices, whose leaves are values, sizes and plain Python objects.
"""

from __future__ import annotations

import functools
import operator
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import CodeType
from typing import TYPE_CHECKING, Any

from ..core.errors import Location
from ..sizes.operators import OF_SIZES

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

    @property
    def made(self) -> str:
        """Where it is from, of a tensor that is in no state_dict."""
        return ", drawn when the module is made" if self.location is None else f", made at {self.location.short}"


@dataclass(eq=False)
class ValueList(Value):
    """Several tensors that a function takes as one list."""


class Node:
    """A node of a tree of arguments beside Python's own."""

    @property
    def apart(self) -> tuple[Any, Sequence[Any]]:
        """What it is besides its parts, and these."""
        raise NotImplementedError


@dataclass(eq=False)
class SizeOf(Node):
    """One dimension of a tensor, as ``x.shape[axis]``."""

    value: Value
    axis: int
    number: int
    name: str | None = None
    """What the author calls it."""

    @property
    def apart(self) -> tuple[Any, tuple[Any, ...]]:
        return ("size", self.axis), (self.value,)


@dataclass(eq=False)
class SizeOp(Node):
    """Arithmetic on sizes and numbers, as the author wrote it."""

    symbol: str
    operands: tuple[Any, ...]
    number: int | float
    varies: bool = False
    """Whether it, or a size that it is computed from, has another number at other sizes of the inputs."""
    name: str | None = None
    """What the author calls it."""

    @property
    def apart(self) -> tuple[Any, tuple[Any, ...]]:
        return self.symbol, self.operands

    @property
    def function(self) -> Callable[..., Any]:
        """What computes it, of numbers and, where these can, of sizes."""
        return operator.neg if (self.symbol, len(self.operands)) == ("-", 1) else OF_SIZES[self.symbol]


@dataclass(eq=False)
class Tried(SizeOp):
    """What a function gives of which nothing is known: ``tried`` is called with numbers alone."""

    tried: Callable[..., Any] = None  # pyright: ignore

    @property
    def apart(self) -> tuple[Any, tuple[Any, ...]]:
        return self.tried, self.operands

    @property
    def function(self) -> Callable[..., Any]:
        return self.tried


SizeExpression = SizeOf | SizeOp
TRUTH = "bool"
"""The symbol of a tensor's truth: of its value, and of the sizes that it is computed from."""


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

    @property
    def made(self) -> list[Value]:
        """The values that it gives."""
        return tensors_in(self.results)

    @property
    def taken(self) -> list[Value]:
        """The values that it needs, also those whose sizes it uses, in order."""
        return [*values_in((self.args, self.kwargs))]

    @property
    def inner(self) -> tuple[Call, ...]:
        """What it runs of the program; the last of its ``args`` are their results, in order."""
        return ()


@dataclass(eq=False)
class Branch(Op):
    """One of two ways, by a comparison of sizes: ``args`` are what it compares, and what each side gives."""

    guard: Any = None
    sides: tuple[Call, Call] = ()  # pyright: ignore
    """Where the comparison holds, and where it does not."""

    @staticmethod
    def between(guard: Any, own: tuple[Any, Any], other: tuple[Any, Any], title: str, path: str) -> Branch:
        """A branch that goes its ``own`` way where the guard has its outcome; each way is calls, and what they give.

        It gives nothing yet: ``results`` and those of both sides are filled together.
        """
        ways = (own, other) if guard.outcome else (other, own)
        where, otherwise = (
            Call(path, Part((guard.location, holds), f"{title}_{name}"), {}, body, gives)
            for holds, name, (body, gives) in zip((True, False), ("where", "otherwise"), ways)
        )
        return Branch("cond", "td.cond", "branch", (), {}, [], guard.location, path, guard, (where, otherwise))

    @property
    def args(self) -> tuple[Any, ...]:
        return (self.guard.left, self.guard.right, *(side.results for side in self.sides))

    @args.setter
    def args(self, args: tuple[Any, ...]) -> None:  # pyright: ignore[reportIncompatibleVariableOverride]
        if args:  # those of a branch that is made are its guard's and its sides'
            self.guard = replace(self.guard, left=args[0], right=args[1])
            for side, results in zip(self.sides, args[2:], strict=True):
                side.results = results

    @property
    def inner(self) -> tuple[Call, ...]:
        return self.sides


@dataclass(eq=False)
class Scan(Op):
    """A loop over a dimension: ``args`` has its length, what is carried at first, what it goes along, and the values
    that these are in a round, and what a round gives.

    A round gives what it carries to the next, and what is kept of it. ``results`` are the last of the former, and the
    latter of all rounds, along a new first dimension.
    """

    round: Call = None  # pyright: ignore

    @property
    def inner(self) -> tuple[Call, ...]:
        return (self.round,)


class Part:
    """A part of a module's code, as what a :class:`Call` calls: the side of a branch, or the round of a loop."""

    def __init__(self, kind: Any, title: str, carried: int | None = None):
        self._kind, self._title = kind, title
        self._carried = carried
        """How many of its results are for the next round; None where it is none of a loop."""


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
    def prefix(self) -> str:
        """What the paths of its weights begin with."""
        return f"{self.path}." if self.path else ""

    @property
    def kind(self) -> Any:
        """The identity of a kind of calls: the module's class, or the function's code."""
        if isinstance(self.module, Part):
            return self.module._kind
        return self.module._code if isinstance(self.module, Helper) else type(self.module)

    @property
    def title(self) -> str:
        """The name of the class or function."""
        if isinstance(self.module, Part):
            return self.module._title
        return self.module._code.co_name if isinstance(self.module, Helper) else type(self.module).__name__

    @property
    def room(self) -> str:
        """The Python module of the class; empty for a function."""
        return "" if isinstance(self.module, (Helper, Part)) else type(self.module).__module__


def apart(node: Any) -> tuple[Any, Sequence[Any]] | None:
    """What a node of a tree of arguments is besides its parts, and these, down to those of sizes; None for a leaf."""
    if isinstance(node, (list, tuple)):
        return type(node).__name__, node
    if isinstance(node, slice):
        return "slice", (node.start, node.stop, node.step)
    if isinstance(node, dict):
        return ("dict", *node), list(node.values())
    return node.apart if isinstance(node, Node) else None


def joined(node: Any, parts: list[Any]) -> Any:
    """The node with other parts."""
    if isinstance(node, (list, tuple)):
        return tuple(parts) if isinstance(node, tuple) else parts
    if isinstance(node, slice):
        return slice(*parts)
    if isinstance(node, SizeOf):
        return replace(node, value=parts[0])
    return replace(node, operands=tuple(parts)) if isinstance(node, SizeOp) else dict(zip(node, parts))


def alike(a: Any, b: Any, same: Callable[[Any, Any], bool]) -> bool:
    """Whether two trees are of one structure and their leaves, pair by pair, the ``same``."""
    mine, its = apart(a), apart(b)
    if mine is None or its is None:
        return mine is its and same(a, b)
    return (
        mine[0] == its[0] and len(mine[1]) == len(its[1]) and all(alike(*each, same) for each in zip(mine[1], its[1]))
    )


def keyed(tree: Any, leaf: Callable[[Any], Any]) -> Any:
    """A key that trees have in common whose structure is one and whose leaves give the same."""
    node = apart(tree)
    return leaf(tree) if node is None else (node[0], *(keyed(each, leaf) for each in node[1]))


def leaves(tree: Any) -> Iterator[Any]:
    """The leaves of a tree of arguments, in order."""
    node = None if isinstance(tree, Node) else apart(tree)
    if node is None:
        yield tree
        return
    for each in node[1]:
        yield from leaves(each)


def tensors_in(tree: Any) -> list[Value]:
    """The values that are leaves of a tree of arguments, in order: not those of which it has sizes alone."""
    return [leaf for leaf in leaves(tree) if isinstance(leaf, Value)]


def number_of(size: Any) -> Any:
    """The number that a size is in its trace; a plain number is itself."""
    return size.number if isinstance(size, (SizeOf, SizeOp)) else size


def operators(size: Any, *, named: bool = True) -> int:
    """How many operations a size takes; those of sizes inside of it that the author has named too, where ``named``."""
    if not isinstance(size, SizeOp):
        return 0
    inside = (each for each in size.operands if named or getattr(each, "name", None) is None)
    return 1 + sum(operators(each, named=named) for each in inside)


def along(axis: int, item: Any) -> Any:
    """The index that has the item in a dimension, and all of the ones before it."""
    return (*[slice(None)] * axis, item) if axis else item


def rebuilt(tree: Any, change: Callable[[Any], Any]) -> Any:
    """The tree with each leaf changed; tuples and lists of every kind become plain ones."""
    if isinstance(tree, (list, tuple, dict, slice)):
        node = apart(tree)
        assert node is not None
        return joined(tree, [rebuilt(each, change) for each in node[1]])
    return change(tree)


def with_values(tree: Any, image: Callable[[Any], Any]) -> Any:
    """The tree with other values, in sizes too, and other leaves: what ``image`` gives for each."""
    sizes = apart(tree) if isinstance(tree, (SizeOf, SizeOp)) else None
    if sizes is not None:
        return joined(tree, [with_values(each, image) for each in sizes[1]])
    return rebuilt(tree, lambda leaf: with_values(leaf, image) if isinstance(leaf, (SizeOf, SizeOp)) else image(leaf))


def imaged(tree: Any, image: Callable[[Value], Any]) -> Any:
    """The tree with other values, in sizes too."""
    return with_values(tree, lambda leaf: image(leaf) if isinstance(leaf, Value) else leaf)


def with_sizes(tree: Any, changed: Mapping[SizeOp, SizeOp]) -> Any:
    """The tree with other sizes, in what is computed from them too."""
    node = None if isinstance(tree, SizeOp) and tree in changed else apart(tree)
    if node is None:
        return changed.get(tree, tree) if isinstance(tree, SizeOp) else tree
    parts = [with_sizes(each, changed) for each in node[1]]
    return tree if all(a is b for a, b in zip(parts, node[1])) else joined(tree, parts)


def _called(function: Callable[..., Any], *operands: Any) -> Any:
    return function(*operands)


def computed(size: Any, of: Callable[[SizeOf], Any], apply: Callable[..., Any] = _called) -> Any:
    """What a size is computed to be, by Python's own functions, where ``of`` says what each dimension is.

    ``apply`` gives what a function gives of operands.
    """
    if isinstance(size, SizeOf):
        return of(size)
    if not isinstance(size, SizeOp):
        return size
    operands = [computed(each, of, apply) for each in size.operands]
    return apply(size.function, *operands)


def calls(call: Call, *, inner: bool = False) -> Iterator[Call]:
    """A module's call and those below it, in order; with ``inner`` sides of branches and rounds of loops too."""
    yield call
    for item in call.body:
        for below in [item] if isinstance(item, Call) else item.inner if inner else ():
            yield from calls(below, inner=inner)


def operations(call: Call) -> Iterator[Op]:
    """Every call of torch in a module's call and those below it, in order; a branch or a loop after those inside."""
    for item in call.body:
        if isinstance(item, Op):
            for inner in item.inner:
                yield from operations(inner)
            yield item
        else:
            yield from operations(item)


def operations_in(items: Iterable[Op | Call]) -> Iterator[Op]:
    """Every call of torch in a part of a body, as :func:`operations` gives those of a whole one."""
    return operations(Call("", None, {}, [*items]))


def operations_for(root: Call, values: Iterable[Value], image: Callable[[Value], Value | None]) -> dict[Op, None]:
    """The calls that the values are made by, in order; what ``image`` gives for a value is needed in its place."""
    needed, found = {*map(image, values)}, dict[Op, None]()
    for op in reversed([*operations(root)]):
        if not needed.isdisjoint(op.made):
            found[op] = None
            needed.update(map(image, op.taken))
    return dict.fromkeys(reversed(found))


def values_in(tree: Any) -> Iterator[Value]:
    """The values that a tree of arguments needs, also those whose sizes it uses."""
    return _within(tree, Value)


def sizes_of(tree: Any) -> Iterator[SizeOf]:
    """The dimensions that a tree of arguments uses, in what is computed from them too."""
    return _within(tree, SizeOf)


def _within(tree: Any, kind: type[Any]) -> Iterator[Any]:
    """What a tree has of this kind, the outermost of what is inside of each other."""
    node = None if isinstance(tree, kind) else apart(tree)
    if isinstance(tree, kind):
        yield tree
    for each in node[1] if node is not None else ():
        yield from _within(each, kind)


def change_trees(call: Call, change: Callable[[Any], Any]) -> None:
    """Changes the arguments and the results of a module's call, and of all calls below it."""
    call.arguments, call.results = change(call.arguments), change(call.results)
    for item in call.body:
        if isinstance(item, Call):
            change_trees(item, change)
            continue
        item.args, item.kwargs = change(item.args), change(item.kwargs)
        for inner, results in zip(item.inner, item.args[len(item.args) - len(item.inner) :]):
            change_trees(inner, change)
            inner.results = results


def argument(op: Op, place: int, name: str, default: Any = None) -> Any:
    """An argument of a call, by its place or its name."""
    return op.args[place] if len(op.args) > place else op.kwargs.get(name, default)


def pads_of(op: Op) -> Any:
    """The numbers of a pad; None for another call."""
    return argument(op, 1, "pad") if op.name == "pad" else None


def function_of(path: str) -> Any:
    """What is found in torch under a path, such as torch.linalg.pinv; None where nothing is."""
    return functools.reduce(lambda found, name: getattr(found, name, None), path.split(".")[1:], sys.modules["torch"])


def made_by(value: Value) -> Iterator[Op]:
    """The calls that a value is computed by."""
    found: set[Value] = set()
    wanted = [value]
    while wanted:
        value = wanted.pop()
        if value not in found and value.producer is not None:
            yield value.producer
            wanted += value.producer.taken
        found.add(value)
