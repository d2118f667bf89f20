"""The sizes of a trace's values as expressions of the inputs' dimensions."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, TypeGuard, cast

from ....core.errors import TrtdslError
from ....core.lazy import F, np, torch
from ....definition.input import Input
from ....definition.network import Network
from ....functional.constants import of_constants
from ....interpreter.interpret import Interpreter
from ....sizes.proof import Env, evaluated
from ....sizes.size import Size, SizeLike, size_max, size_min
from ...calls import (
    TRUTH,
    Branch,
    Op,
    SizeOf,
    SizeOp,
    Value,
    Weight,
    along,
    apart,
    argument,
    computed,
    operations_for,
    sizes_of,
    values_in,
)
from ...given import Given
from ...render import Renderer
from ...statements import Statement
from ...translating.lowering import statements
from ..guards import Guard
from ..trace import Trace

TRUTHS = 2_048  # those at which a tensor is computed


class Unknown(Exception):
    """An unknown size: one that depends on data, or follows a call that has no counterpart."""


class Symbols:
    """The sizes of a trace's values as expressions of the inputs' dimensions.

    What the values are computed by is executed as the file will have it, line by line, of symbolic sizes.
    """

    def __init__(
        self,
        trace: Trace,
        given: Given,
        guards: Iterable[Guard],
        values: Iterable[Value] = (),
        drawn: Mapping[Value, Input] | None = None,
    ):
        """Of what ``guards`` ask, and of these ``values``; what is ``drawn`` has the shapes of such inputs."""
        self.trace, self.given = trace, given
        self.weights = {**trace.held, **trace.constants}
        self.network = Network("sizes")
        self.names: dict[Value, str] = {}
        self.asked: dict[Value, Interpreter] = {}
        self.space: dict[str, Any] = {
            "F": F,
            "td": SimpleNamespace(size_max=size_max, size_min=size_min, of_constants=of_constants),
            "torch": torch,
            "math": math,
        }
        with self.network.current():
            for name, spec in given.inputs.items():
                self.space[self._name(trace.inputs[name])] = self.network.add_input(name, spec)
            for number, (value, spec) in enumerate((drawn or {}).items()):
                self.space[self._name(value)] = self.network.add_input(f"drawn_{number}", spec)
            wanted = {*values, *(value for guard in guards for value in values_in((guard.left, guard.right)))}
            for op in operations_for(trace.root, wanted, lambda value: value):
                if isinstance(op, Branch):  # whose sides give tensors of one shape, unless a size chooses
                    inside = (self.space.get(self._name(value)) for value in op.sides[0].results)
                    self.space.update(zip(map(self._name, op.results), inside))
                    continue
                self._mark((op.args, op.kwargs))
                for statement in statements(op):
                    self._run(statement, self.space)
                if op.name in ("split", "chunk") and not all(self._name(value) in self.space for value in op.made):
                    self._take_apart(op)
                if op.name == "squeeze":
                    self._squeeze(op)

    def _run(self, statement: Statement, space: dict[str, Any]) -> None:
        """Executes one line; one that fails leaves its values unknown, and those of every line that needs them."""
        names = ["_" if value is None else self._name(value) for value in statement.several or statement.results]
        text = Renderer("\0", self._name).expression(statement.expression)[0]
        with suppress(NameError, TrtdslError, TypeError, AttributeError, KeyError, ValueError, ZeroDivisionError):
            exec(f"{', '.join(names)}{',' if statement.several else ''} = {text}", space)

    def _take_apart(self, op: Op) -> None:
        """The parts of a tensor one by one: as many as there are here, and not at all sizes."""
        with suppress(KeyError, TrtdslError, TypeError):
            whole, given = self.space[self._name(op.args[0])], next(iter([*op.args[1:], *op.kwargs.values()]))
            axis, size = argument(op, 2, "dim", 0) % whole.ndim, cast(int, self.whole(given))
            each = size if op.name == "split" else -(-whole.shape[axis] // size)
            for place, value in enumerate(op.made, start=1):
                end = place * each if place < len(op.made) else None
                self.space[self._name(value)] = whole[along(axis, slice((place - 1) * each, end))]

    def _squeeze(self, op: Op) -> None:
        """A tensor without the dimensions that are 1 here, and not at all sizes."""
        dims, rank = argument(op, 1, "dim"), len(op.args[0].shape)
        asked = range(rank) if dims is None else [dims] if isinstance(dims, int) else dims
        ones = {axis % rank for axis in asked if rank and op.args[0].shape[axis] == 1}
        with suppress(KeyError, TrtdslError, TypeError):
            index = tuple(0 if axis in ones else slice(None) for axis in range(rank))
            self.space[self._name(op.results)] = self.space[self._name(op.args[0])][index]

    def _mark(self, tree: Any) -> None:
        """Notes which sizes are no one number everywhere: these stand in the text as they are computed."""
        node = apart(tree)
        if isinstance(tree, SizeOp) and not tree.varies:
            tree.varies = any(map(self._is_dynamic, sizes_of(tree)))
        for each in node[1] if node is not None else ():
            self._mark(each)

    def _is_dynamic(self, size: SizeOf) -> bool:
        with suppress(Unknown):
            return isinstance(self.size_of(size), Size)
        return True

    def _name(self, value: Value) -> str:
        if value not in self.names:
            name = self.names[value] = f"value_{len(self.names)}"
            if isinstance(value, Weight) and value.path in self.weights:
                data = self.weights[value.path].detach()
                self.space[name] = self.network.constant(data if data.is_cpu else torch.empty_like(data, device="cpu"))
        return self.names[value]

    def size_of(self, size: SizeOf) -> SizeLike:
        """A dimension of a value; Unknown where that is not known."""
        tensor = self.space.get(self._name(size.value))
        if tensor is None:
            raise Unknown
        return tensor.shape[size.axis]

    def whole(self, expression: Any) -> SizeLike | None:
        """An expression of sizes as a size; None where it has fractions, Unknown where nothing is known of it."""
        if asks_a_tensor(expression):
            return None
        with suppress(AttributeError, TrtdslError, TypeError, ValueError, ZeroDivisionError), self.network.current():
            found = computed(expression, self.size_of)
            return found if isinstance(found, (int, Size)) else None
        return None

    def numbers(self, expression: Any, columns: Mapping[str, Any]) -> list[Any]:
        """An expression's numbers at many values of the dimensions, calculated as Python does; NaN where it fails."""
        count = max(map(len, columns.values()), default=1)
        if asks_a_tensor(expression):
            points = [dict(zip(columns, point)) for point in zip(*(column.tolist() for column in columns.values()))]
            truths = [self._truth(expression.operands[0], point) for point in points[:TRUTHS]]
            return truths + [math.nan] * (count - len(truths))

        def of(size: SizeOf) -> list[Any]:
            found = evaluated(self.size_of(size), columns)
            return [math.nan] * count if found is None else np.broadcast_to(found, count).tolist()

        def apply(function: Callable[..., Any], *operands: Any) -> list[Any]:
            given = [each if isinstance(each, list) else [each] * count for each in operands]
            return [_or_nan(function, *each) for each in zip(*given)]

        found = computed(expression, of, apply)
        return found if isinstance(found, list) else [found] * count

    def _truth(self, value: Value, env: Env) -> bool:
        """The truth of a tensor of whole numbers that is made of sizes alone, as the file would compute it."""
        if value not in self.asked:
            network, space = Network("truth"), dict(self.space)
            with network.current():
                for name, spec in self.given.inputs.items():
                    network.add_input(name, replace(spec, longest=None))  # it is fed zeros
                for op in operations_for(self.trace.root, [value], lambda each: each if each.known else None):
                    for statement in statements(op):
                        self._run(statement, space)
            if space.get(self._name(value)) is None:
                raise Unknown
            network.output(space[self._name(value)], "truth")
            self.asked[value] = Interpreter(network)
        fed = self.given.at({**self.given.usual, **env})
        feeds = {each: torch.zeros(shape, dtype=dtype) for each, (shape, dtype, *_) in fed.items()}
        return bool(self.asked[value](feeds)["truth"])


def asks_a_tensor(expression: Any) -> TypeGuard[SizeOp]:
    return isinstance(expression, SizeOp) and expression.symbol == TRUTH


def _or_nan(function: Callable[..., Any], *operands: Any) -> Any:
    try:
        return function(*operands)
    except (ArithmeticError, ValueError):  # as forward does there: no size at which it does the same
        return math.nan
