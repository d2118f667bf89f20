"""Calls of modules as calls of functions: their statements, their inputs, and the results that others need."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from ...core.lazy import torch
from ...definition.spec.reference import state_of
from ..calls import (
    Branch,
    Call,
    Helper,
    Op,
    Scan,
    SizeOf,
    SizeOp,
    Value,
    ValueList,
    Weight,
    calls,
    leaves,
    sizes_of,
    tensors_in,
    values_in,
)
from ..statements import Argument, Expression, Literal, Statement, flat, key_of, parts, size_key
from ..tracing.trace import Trace, live_operations
from ..translating.lowering import STARTS, statements
from .idle import without_idle_pads, without_idle_parts


@dataclass(eq=False)
class Instance:
    """A call of a module that is a call of a function in the file."""

    call: Call
    body: list[Statement]
    inputs: list[Any] = field(default_factory=list)
    results: list[Value] = field(default_factory=list)
    holes: list[Literal] = field(default_factory=list)
    numbers: dict[Any, int] = field(default_factory=dict)
    """Which value of the function each of the instance's is."""
    key: Any = None
    height: int = 0
    children: list[Instance] = field(default_factory=list)
    statement: Statement | None = None
    bound: dict[str, Any] = field(default_factory=dict)


class Builder:
    """Makes instances of a trace's calls, the innermost first."""

    def __init__(self, trace: Trace):
        without_idle_pads(trace)
        without_idle_parts(trace)
        self.trace = trace
        self.live = live_operations(trace)
        self.instances: list[Instance] = []
        self.lowered = {op: statements(op) for op in self.live if not op.inner and op.name not in STARTS}
        self.uses: Counter[Value] = Counter(values_in(trace.results))
        self.deep: dict[Statement, Counter[Value]] = {}  # uses inside of what a statement calls
        for op in self.live:
            if op.inner:
                self.uses.update(values_in(op.args))
        for lowered in self.lowered.values():
            for statement in lowered:
                self.deep[statement] = Counter(_uses(statement))
                self.uses.update(self.deep[statement])
        self.repeated = Counter(call.room for call in calls(trace.root, inner=True))
        self.shared = _shared_helpers(trace.root)
        self.counts = numbered_parts([*state_of(trace.root.module), *trace.weights])

    def instance(self, call: Call, above: list[Instance]) -> Instance:
        """The call with its statements; the statements of small modules replace the calls of these."""
        instance = Instance(call, [])
        for item in call.body:
            if isinstance(item, Op) and item.inner:
                if item in self.live:
                    write: Any = self._branch if isinstance(item, Branch) else self._scan
                    write(instance, item, [*above, instance])
            elif isinstance(item, Op):
                instance.body += self.lowered.get(item, [])
            else:
                self._module(instance, self.instance(item, [*above, instance]))
        if not above:
            instance.results = tensors_in(self.trace.results)
        return instance

    def _module(self, instance: Instance, inner: Instance) -> None:
        kept = self._keeps(inner)
        if kept:
            self._close(inner)
            assert inner.statement is not None
            instance.body.append(inner.statement)
        else:
            instance.body += inner.body
        self._take(instance, inner, kept)

    def _take(self, instance: Instance, inner: Instance, kept: bool) -> None:
        instance.children += [inner] if kept else inner.children
        if kept:
            self.instances.append(inner)
        instance.height = max(instance.height, inner.height + kept)

    def _branch(self, instance: Instance, branch: Branch, above: list[Instance]) -> None:
        """``td.cond``: each side a function of the file, or one call, or the values that it gives."""
        left, right, *_ = branch.args
        compared: Any = Expression("operator", branch.guard.symbol, [Argument(None, left), Argument(None, right)])
        if isinstance(left, Value) and left.dtype == torch.bool:  # its truth is itself
            compared = left
        sides: list[Any] = []
        operands: dict[Value, None] = {}
        deep = Counter(values_in(branch.args))
        for side in branch.sides:
            inner = self.instance(side, above)
            self._close(inner, side.results)
            assert inner.statement is not None
            deep.update(self.deep.pop(inner.statement))
            alone = len(inner.body) == 1 and inner.body[0].results == side.results and not inner.body[0].several
            kept = bool(inner.body) and not (alone and not inner.body[0].note)
            if kept:
                sides.append(inner.statement.expression)
            elif alone:
                sides.append(inner.body[0].expression)
            else:
                sides.append(tuple(side.results) if len(side.results) > 1 else side.results[0])
            operands.update(dict.fromkeys(item for item in _tensors(sides[-1]) if not isinstance(item, Weight)))
            self._take(instance, inner, kept)
        arguments = [Argument(None, tree) for tree in (compared, *sides, tuple(operands))]
        statement = Statement([], Expression("cond", "cond", arguments)).give(branch.results)
        self.deep[statement] = deep
        instance.body.append(statement)

    def _scan(self, instance: Instance, scan: Scan, above: list[Instance]) -> None:
        """``td.scan``, whose round is a function of the file."""
        _, carried, along, taken, given = scan.args
        inner = self.instance(scan.round, above)
        self._close(inner, given)
        assert inner.statement is not None
        step = inner.statement.expression
        inner.inputs = taken + [item for item in inner.inputs if item not in taken]
        step.arguments = [argument for argument in step.arguments if argument.tree not in taken]
        arguments = [Argument(None, tree) for tree in (step, tuple(carried), tuple(along))]
        arguments.append(Argument("dim", Literal(scan.kwargs["dim"], "dim"), 0))
        statement = Statement(scan.results, Expression("scan", "scan", arguments), list(scan.results))
        self.deep[statement] = self.deep.pop(inner.statement) + Counter(values_in(scan.args))
        instance.body.append(statement)
        self._take(instance, inner, True)

    def _keeps(self, inner: Instance) -> bool:
        """Whether the module becomes a function of its own."""
        prefix = inner.call.prefix
        if any(not f"{child.call.path}.".startswith(prefix) for child in inner.children):
            return False  # it calls a module that stands elsewhere: only the one above has its weights
        room = inner.call.room
        count = len(inner.body)
        if isinstance(inner.call.module, Helper):
            return count > 1 and inner.call.kind in self.shared
        if room.startswith("torch.nn.") and room != "torch.nn.modules.container":
            many = len(set(weights_in(inner.body))) > 2 and self.repeated[room] > 1
            return many or count > 3
        return count > 1 and not room.startswith("torch.nn.")

    def _close(self, instance: Instance, results: list[Value] | None = None) -> None:
        """Determines inputs and outputs, where these are not given."""
        defined = {value for statement in instance.body for value in statement.results}
        inside: Counter[Value] = Counter()
        for statement in instance.body:
            inside.update(self.deep[statement])
        wanted = [value for value in defined if self.uses[value] > inside[value]]
        order = {value: index for index, value in enumerate(_ordered(instance))}
        instance.results = sorted(wanted, key=lambda value: order.get(value, len(order)))
        if results is not None:
            instance.results = results
        prefix = instance.call.prefix
        tensors: dict[Value, None] = {}
        for statement in instance.body:
            for leaf in parts(statement.expression):
                if isinstance(leaf, Value) and leaf not in defined and not under(leaf, prefix):
                    tensors[leaf] = None
        tensors.update((value, None) for value in results or () if value not in defined and not under(value, prefix))
        lists = _lists(instance, tensors)
        tensors = {value: None for value in tensors if not any(value in items for items in lists.values())}
        given = {size_key(leaf) for leaf in leaves(instance.call.arguments) if isinstance(leaf, (SizeOf, SizeOp))}
        free: dict[Any, Any] = {}

        def resolve(leaf: Any) -> None:
            if isinstance(leaf, (SizeOf, SizeOp)):
                near = (size.value in {*defined, *tensors} or under(size.value, prefix) for size in sizes_of(leaf))
                if all(near):
                    return
                if isinstance(leaf, SizeOf) or size_key(leaf) in given:
                    free[size_key(leaf)] = leaf
                    return
                for operand in leaf.operands:
                    resolve(operand)

        for statement in instance.body:
            for leaf in parts(statement.expression):
                resolve(leaf)
        places = {}
        for index, item in enumerate(leaves(instance.call.arguments)):
            places.setdefault(key_of(item), index)
        for value, items in lists.items():
            places[value] = places[items[0]]
        inputs = [*tensors, *lists, *free.values()]
        instance.inputs = sorted(inputs, key=lambda item: places.get(key_of(item), len(places)))
        arguments = [Argument(None, lists.get(item, item)) for item in instance.inputs]
        expression = Expression("module", "", arguments, call=instance.call)
        instance.statement = Statement([], expression).give(instance.results)
        self.deep[instance.statement] = inside


def _lists(instance: Instance, tensors: Iterable[Value]) -> dict[ValueList, Any]:
    """Lists of tensors that the module takes and only uses as a whole; each becomes one input."""
    result: dict[ValueList, Any] = {}
    for name, given in instance.call.arguments.items():
        items = tuple(given) if isinstance(given, (list, tuple)) else ()
        if not items or not all(isinstance(item, Value) and item in tensors for item in items):
            continue
        trees = [argument for statement in instance.body for argument in statement.expression.arguments]
        whole = [
            argument for argument in trees if isinstance(argument.tree, (list, tuple)) and tuple(argument.tree) == items
        ]
        uses = [leaf for statement in instance.body for leaf in parts(statement.expression)]
        sized = any(value in items for leaf in uses if not isinstance(leaf, Value) for value in values_in(leaf))
        if not whole or sized or any(uses.count(item) != len(whole) * items.count(item) for item in items):
            continue
        value = ValueList((), items[0].dtype, name=name)
        for argument in whole:
            argument.tree = value
        result[value] = given
    return result


def _shared_helpers(root: Call) -> set[Any]:
    """Functions that one module calls more than once, or several kinds of modules."""
    counts: Counter[Any] = Counter()
    callers: dict[Any, set[Any]] = {}

    def enter(call: Call, module: Call) -> None:
        for item in call.body:
            if isinstance(item, Op):
                for inner in item.inner:
                    enter(inner, module)
            elif isinstance(item.module, Helper):
                counts[item.kind, id(module)] += 1
                callers.setdefault(item.kind, set()).add(module.kind)
                enter(item, module)
            else:
                enter(item, item)

    enter(root, root)
    return {kind for (kind, _), count in counts.items() if count > 1 or len(callers[kind]) > 1}


def _ordered(instance: Instance) -> Iterator[Value]:
    yield from tensors_in(instance.call.results)
    for statement in instance.body:
        yield from statement.results


def numbered_parts(names: Iterable[str]) -> dict[str, int]:
    """For each path in the weights that has numbered parts, the number after the last."""
    found: dict[str, int] = {}
    for name in names:
        pieces = name.split(".")
        for depth, piece in enumerate(pieces):
            if piece.isdigit():
                path = ".".join(pieces[:depth])
                found[path] = max(found.get(path, 0), int(piece) + 1)
    return found


def under(value: Any, prefix: str) -> bool:
    return isinstance(value, Weight) and value.path.startswith(prefix)


def weights_in(body: list[Any]) -> Iterator[Weight]:
    for statement in flat(body):
        for leaf in parts(statement.expression):
            for value in values_in(leaf):
                if isinstance(value, Weight):
                    yield value


def _tensors(tree: Any) -> Iterator[Value]:
    """The values that an argument has, in expressions too."""
    for leaf in parts(tree) if isinstance(tree, Expression) else leaves(tree):
        if isinstance(leaf, Value):
            yield leaf


def _uses(statement: Statement) -> Iterator[Value]:
    for leaf in parts(statement.expression):
        yield from values_in(leaf)
