"""Loops (TRIP_LIMIT, ITERATOR, RECURRENCE, LOOP_OUTPUT) and conditionals (CONDITION and their INPUT and OUTPUT)."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from ..core.errors import DefinitionError, ShapeError, UnsupportedError
from ..definition.graph import Region as Span
from ..sizes.condition import Condition
from ..sizes.constraints import joined
from ..sizes.dim import depends_on_data
from .base import add_layer, add_region_layer, normalize_axis
from .common import Evaluate, Mistakes, Network, Node, Shape, SizeLike, Tensor, evaluates, torch
from .region import Body, Region, Run, State, region
from .shape import size_tensor
from .shuffle import squeeze


class Loop:
    """A loop under construction (ILoop): what depends on its iterators and recurrences runs once an iteration.

    Limit it with :meth:`count`, :meth:`while_` or both; carry values with :meth:`recurrence` and :meth:`next`; take
    results out with :meth:`last_value` and :meth:`concatenate`. Values from outside are used as they are. ``name`` is
    what `trtdsl view` calls it.

    >>> x = net.input("x", ("T", 3))
    >>> loop = Loop(net)
    >>> loop.count(x.shape[0])
    >>> row, total = loop.iterator(x), loop.recurrence(net.constant([0.0, 0.0, 0.0]))
    >>> loop.next(total, elementwise(total, row, "SUM"))
    >>> net.output(loop.last_value(total), "sum")
    >>> td.interpret(net, {"x": torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])})["sum"]
    tensor([5., 7., 9.])
    """

    def __init__(self, network: Network, name: str = ""):
        self.network = network
        self._region = Span(network, "add_loop", name)
        self._limits: set[str] = set()
        self._recurrences: dict[int, tuple[Tensor, list[Any]]] = {}

    def count(self, limit: Tensor | SizeLike) -> None:
        """Ends the loop after ``limit`` iterations: an int32 or int64 scalar Tensor, or a size. One ITripLimitLayer."""
        if not isinstance(limit, Tensor):
            limit = squeeze(size_tensor(self.network, [limit]), [0])
        self._limit(limit, "COUNT")

    def while_(self, condition: Tensor) -> None:
        """Ends the loop where ``condition``, a bool scalar made from recurrences, is false. One ITripLimitLayer.

        It is looked at before each iteration.
        """
        self._limit(condition, "WHILE")

    def _limit(self, tensor: Tensor, kind: str) -> None:
        if kind in self._limits:
            raise DefinitionError(f"the loop has a trip limit of the kind {kind} already")
        if tensor.ndim != 0:
            raise ShapeError(f"a trip limit must be a scalar, not of {tensor.ndim} dimensions")
        self._limits.add(kind)
        limit = getattr(self.network.trt.TripLimit, kind)
        name = f"loop.{kind.lower()}"
        add_region_layer(self._region, name, "add_trip_limit", tensor, arguments=[limit], shape=[])

    def iterator(self, x: Tensor, axis: int = 0, reverse: bool = False) -> Tensor:
        """The slice of ``x`` at the iteration's index along ``axis``; from the last one on for ``reverse``.

        One IIteratorLayer.
        """
        axis = normalize_axis(axis, x.ndim)
        shape, how = x.shape[:axis] + x.shape[axis + 1 :], (axis, reverse)
        facts = {"arguments": how, "shape": shape, "what": ("iterator",)}
        return add_region_layer(self._region, "loop.iterator", "add_iterator", x, **facts)

    def recurrence(self, initial: Tensor) -> Tensor:
        """A value that each iteration hands to the next: ``initial`` at first, then what :meth:`next` says.

        One IRecurrenceLayer.
        """
        layers: list[Any] = []
        facts = {"shape": initial.shape, "finish": lambda layer, *_: layers.append(layer)}
        value = add_region_layer(self._region, "loop.recurrence", "add_recurrence", initial, **facts)
        self._recurrences[id(value)] = (value, layers)
        return value

    def next(self, recurrence: Tensor, value: Tensor) -> None:
        """Makes ``value`` the ``recurrence``'s in the next iteration; it has the same shape and dtype."""
        if id(recurrence) not in self._recurrences:
            raise DefinitionError("this tensor is not a recurrence of the loop, or has its next value already")
        if recurrence.dtype != value.dtype or recurrence.ndim != value.ndim:
            raise ShapeError(f"a recurrence of {recurrence} cannot become {value}")
        _, layers = self._recurrences.pop(id(recurrence))
        with self.network.operation("loop.next"):
            add = lambda target, value: layers[0].set_input(1, value)  # noqa: E731
            add_layer(add, value, shape=[], fold=False, takes=True, completes=True)

    def last_value(self, recurrence: Tensor) -> Tensor:
        """The recurrence's value after the last iteration: one ILoopOutputLayer."""
        facts = {"arguments": [self.network.trt.LoopOutput.LAST_VALUE], "shape": outer(recurrence.shape), "ends": True}
        return add_region_layer(self._region, "loop.last_value", "add_loop_output", recurrence, **facts)

    def concatenate(self, value: Tensor, length: Tensor | SizeLike, axis: int = 0, reverse: bool = False) -> Tensor:
        """The values of all iterations, stacked along a new dimension ``axis`` of size ``length``.

        ``length`` is the number of iterations; ``reverse`` puts the last one first. One ILoopOutputLayer.
        """
        axis = normalize_axis(axis, value.ndim + 1)
        size: SizeLike | None = None
        if not isinstance(length, Tensor):
            size = length
            length = squeeze(size_tensor(self.network, [length]), [0])
        kinds, inner = self.network.trt.LoopOutput, outer(value.shape)
        how = kinds.REVERSE if reverse else kinds.CONCATENATE, axis
        facts = {"arguments": how, "shape": (*inner[:axis], size, *inner[axis:]), "ends": True}
        return add_region_layer(self._region, "loop.concatenate", "add_loop_output", value, length, **facts)


def outer(shape: Shape) -> tuple[SizeLike | None, ...]:
    """The sizes that mean something outside of the loop; None for those that are known only inside."""
    return tuple(None if depends_on_data(size) else size for size in shape)


def _inner(node: Node) -> Sequence[int]:
    """The inputs that come from inside the loop."""
    if node.type == "TRIP_LIMIT":
        return (0,) if node.layer.kind.name == "WHILE" else ()
    return {"RECURRENCE": (1,), "LOOP_OUTPUT": (0,)}.get(node.type, ())


@region(
    "loop",
    boundary={"TRIP_LIMIT": "limit", "ITERATOR": "each", "RECURRENCE": "state", "LOOP_OUTPUT": "result"},
    owner=lambda node: node.layer.loop,
    opens=("ITERATOR", "RECURRENCE"),
    inner=_inner,
    mistakes={
        "LOOP_OUTPUT": Mistakes({"kind": {"CONCATENATE": "REVERSE", "REVERSE": "CONCATENATE"}}),
        "ITERATOR": Mistakes(flags=("reverse",)),
    },
)
def _loop(region: Region, body: Body) -> Run:
    """The WHILE condition is looked at before each iteration, the COUNT limit is read once.

    Assumed: where a loop ends before a concatenation's length, the rest is 0 (the documentation leaves it open); an
    iterator that is too short, and more iterations than the length, are errors.
    """
    limits = {
        node.known(node.layer.kind, ("COUNT", "WHILE"), "trip limit"): node.inputs[0]
        for node in region.of("TRIP_LIMIT")
    }
    if not limits:
        raise DefinitionError(f"the loop of layer {region.name!r} has no trip limit")
    count, condition = limits.get("COUNT"), limits.get("WHILE")
    iterators = [
        (node.inputs[0], node.outputs[0], node.layer.axis, node.layer.reverse) for node in region.of("ITERATOR")
    ]
    if count is None and any(reverse for *_, reverse in iterators):
        raise UnsupportedError(f"the loop of layer {region.name!r} iterates backwards without a trip count")
    recurrences = []
    for node in region.of("RECURRENCE"):
        if not node.has_input(1):
            raise DefinitionError(f"the recurrence {node.name!r} has no next value")
        recurrences.append((node.outputs[0], node.inputs[0], node.inputs[1]))
    results = [_Output(node) for node in region.of("LOOP_OUTPUT")]
    targets = [following for _, _, following in recurrences] + [result.source for result in results]
    tested = [] if condition is None else [[condition]]
    *tests, main = body.stages(*tested, targets, sinks=True)

    def run(state: State) -> None:
        total = None if count is None else int(state.read(count))
        collected: list[list[torch.Tensor]] = [[] for _ in results]
        for value, initial, _ in recurrences:
            state.write(value, state.read(initial))
        done = 0
        while total is None or done < total:
            for test in tests:
                state.execute(test)
            if condition is not None and not bool(state.read(condition)):
                break
            for source, value, axis, reverse in iterators:
                x, index = state.read(source), total - 1 - done if reverse and total is not None else done
                if not 0 <= index < x.shape[axis]:
                    raise ShapeError(f"iteration {done} leaves an iterator's dimension of size {x.shape[axis]}")
                state.write(value, x.select(axis, index))
            state.execute(main)
            for result, values in zip(results, collected, strict=True):
                if result.length is not None:
                    values.append(state.read(result.source))
            following = [state.read(tensor) for _, _, tensor in recurrences]
            for (value, _, _), tensor in zip(recurrences, following, strict=True):
                state.write(value, tensor)
            done += 1
        for result, values in zip(results, collected, strict=True):
            state.write(result.target, result.finish(state, values))

    return run


class _Output:
    """A LOOP_OUTPUT: what it gives of the values of all iterations, or of the last one where it has no length."""

    def __init__(self, node: Node):
        self.kind = node.known(node.layer.kind, ("LAST_VALUE", "CONCATENATE", "REVERSE"), "loop output")
        self.axis = node.layer.axis
        self.source, self.target = node.inputs[0], node.outputs[0]
        self.length = None if self.kind == "LAST_VALUE" else node.inputs[1]
        self.shape = tuple(self.target.shape)
        self.dtype = node.dtype

    def finish(self, state: State, values: list[torch.Tensor]) -> torch.Tensor:
        """The output's value, of those of the iterations."""
        if self.length is None:
            return state.read(self.source)
        length = int(state.read(self.length))
        if len(values) > length:
            raise ShapeError(f"{len(values)} iterations do not fit a concatenation of length {length}")
        if not values:
            shape = [length if axis == self.axis else size for axis, size in enumerate(self.shape)]
            if min(shape, default=0) < 0:
                raise ShapeError("a loop without iterations leaves the shape of its concatenation unknown")
            return torch.zeros(shape, dtype=self.dtype)
        rest = [torch.zeros_like(values[0])] * (length - len(values))
        stacked = [*values, *rest]
        return torch.stack(stacked[::-1] if self.kind == "REVERSE" else stacked, self.axis)


class Conditional:
    """An if-conditional under construction (IIfConditional): of two subgraphs one runs.

    ``condition`` is a bool scalar; ``sizes`` is the comparison of sizes that it is, where it is one. What a subgraph
    takes from outside goes through :meth:`input`; :meth:`output` gives the value of the subgraph that ran.

    >>> x = net.input("x", (3,))
    >>> branch = Conditional(net.input("negate", (), "bool"))
    >>> inside = branch.input(x)
    >>> net.output(branch.output(unary(inside, "NEG"), identity(inside)), "y")
    >>> td.interpret(net, {"x": torch.tensor([1.0, 2.0, 3.0]), "negate": torch.tensor(True)})["y"]
    tensor([-1., -2., -3.])
    """

    def __init__(self, condition: Tensor, sizes: Condition | None = None):
        if condition.ndim != 0:
            raise ShapeError(f"a condition must be a scalar, not of {condition.ndim} dimensions")
        self.network: Network = condition.network
        self._sizes = sizes
        self._region = Span(self.network, "add_if_conditional")
        add_region_layer(self._region, "conditional", "set_condition", condition, shape=[])

    def input(self, x: Tensor) -> Tensor:
        """``x`` for use in the subgraphs: one IIfConditionalInputLayer."""
        return add_region_layer(self._region, "conditional.input", "add_input", x, shape=x.shape)

    def output(self, then: Tensor, otherwise: Tensor) -> Tensor:
        """``then`` where the condition holds, else ``otherwise``: one IIfConditionalOutputLayer.

        Both have one rank and dtype. Where their sizes differ, those of the result follow from the condition, if that
        is one of sizes; else they are known only when the network runs.
        """
        if then.ndim != otherwise.ndim or then.dtype != otherwise.dtype:
            raise ShapeError(f"the subgraphs give {then} and {otherwise}: their ranks and dtypes must match")
        pairs = zip(outer(then.shape), outer(otherwise.shape), strict=True)
        shape: tuple[SizeLike | None, ...] = tuple(itertools.starmap(self._joined, pairs))
        facts = {"shape": shape, "ends": True}
        return add_region_layer(self._region, "conditional.output", "add_output", then, otherwise, **facts)

    def _joined(self, then: SizeLike, otherwise: SizeLike) -> SizeLike | None:
        if then == otherwise or self._sizes is None:
            return then if then == otherwise else None
        return joined(self._sizes, then, otherwise)


@evaluates("CONDITIONAL_INPUT", category="control", moves=False)
def _conditional_input(node: Node) -> Evaluate:
    """Its operand."""
    return lambda x: x


@region(
    "conditional",
    boundary={"CONDITION": "if", "CONDITIONAL_OUTPUT": "either"},
    owner=lambda node: node.layer.conditional,
    inner=lambda node: (0, 1) if node.type == "CONDITIONAL_OUTPUT" else (),
)
def _conditional(region: Region, body: Body) -> Run:
    """Layers that nothing but one subgraph needs are evaluated only where the condition chooses it."""
    if len(region.of("CONDITION")) != 1:
        raise DefinitionError(f"the conditional of layer {region.name!r} has no condition")
    condition = region.of("CONDITION")[0].inputs[0]
    outputs = region.of("CONDITIONAL_OUTPUT")
    branches = [body.stages([node.inputs[place] for node in outputs])[0] for place in (0, 1)]

    def run(state: State) -> None:
        place = 0 if bool(state.read(condition)) else 1
        state.execute(branches[place])
        for node in outputs:
            state.write(node.outputs[0], state.read(node.inputs[place]))

    return run
