"""The branches that a reference takes on its sizes, found by running it on tensors without values and named sizes."""

from __future__ import annotations

import contextlib
import functools
import linecache
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any
from unittest import mock

from ...core.errors import DefinitionError, Location, placed
from ...core.lazy import np, torch
from ...core.tensors.watched import unlogged
from ...definition.network import Network
from ...definition.spec.reference import call_reference
from ...sizes.proof import grid, is_few, samples
from ...sizes.size import value
from ..tried_sizes import Point

RUNS = 12  # of the reference
FURTHER = 8  # sizes that are found
SECONDS = 3.0  # of the processor, after which no further run begins
BRANCHES = re.compile(r"\b(if|elif|while|and|or|not|assert|min|max|bool)\b")  # and not a call that checks its operands


class Branches:
    """Sizes on both sides of each branch on sizes that a reference takes.

    ``copied`` gives a context with the module, as it was made. ``further`` are the sizes of sides that no point of
    ``points`` has, ``unreached`` a line for each side that no size of the ranges has. What a reference does after it
    reads a value of a tensor is not seen.
    """

    def __init__(self, network: Network, copied: Callable[[], Any], points: Sequence[Point]):
        self.network, self.copied = network, copied
        self.points, self.further, self.unreached = list(points), list[Point](), dict[str, None]()
        self.ranges = _ranges(network)
        waiting, done = [{name: size for name, (_, size, _) in self.ranges.items()}], set[Any]()
        branches, until = set[Any](), time.process_time() + SECONDS
        for _ in range(RUNS):
            if not waiting or time.process_time() > until or len(self.further) >= FURTHER:
                break
            before: list[Any] = []
            for holds, fails, location in self._asked_at(waiting.pop(0)):
                is_one_number = type(holds).__name__ == "Equality" and any(side.is_number for side in holds.args)
                if is_one_number and holds not in branches:
                    continue  # a size that Python took as a number
                branches.add(fails)
                path = frozenset((*before, fails))
                if path not in done:
                    done.add(path)
                    waiting += self._found([*before, fails], location)
                    list(self._found([*before, holds], location))
                before.append(holds)

    def _asked_at(self, point: Point) -> list[tuple[Any, Any, Location]]:
        """What the reference compares at these sizes, in order: what holds there, what on the other side, and where."""
        import sympy

        (shapes, mode, sizes, named), feeds = _symbols(point), {}
        # Of a value that is asked for: what was asked before counts.
        squeezed = mock.patch.object(torch.Tensor, "squeeze_", _squeezed)
        with contextlib.suppress(DefinitionError), unlogged(), self.copied() as module, torch.no_grad(), mode, squeezed:
            for name, tensor in self.network.inputs.items():
                feeds[name] = torch.empty([value(size, sizes) for size in tensor.shape], dtype=tensor.dtype)
            call_reference(module, feeds)
        found = []
        for guard in shapes.guards:
            place: Any = getattr(getattr(guard, "sloc", None), "framework_loc", None)
            file = getattr(place, "filename", "")
            if file and "/torch/" not in file:
                holds = guard.expr.xreplace(named)
                found.append((holds, sympy.Not(holds), Location(file, place.lineno)))
        return found

    def _found(self, conditions: Sequence[Any], location: Location) -> Iterator[Point]:
        """The cheapest size at which these hold, the last, if it is of order, by the least; noted where none is one."""
        columns = self._columns(conditions)
        for point in self.points:
            columns = {name: np.append(column, point[name]) for name, column in columns.items()}
        try:
            there = np.logical_and.reduce([_evaluated(each, columns) for each in conditions])
            sides = conditions[-1].args if conditions[-1].func.__name__.endswith("Than") else ()
            away = np.abs(np.subtract(*(_computed(side, columns) for side in sides))) if sides else 0
        except Exception:  # of a function of torch's that numpy does not have
            return
        cost = np.sum([np.log(np.maximum(column, 1)) for column in columns.values()], axis=0)
        cost[-len(self.points) :] = -1.0  # what is tried anyway costs nothing
        for place in np.lexsort((cost, away + 0 * cost, ~there))[: int(there.sum())][:64]:
            point = {name: int(column[place]) for name, column in columns.items()}
            served = any(profile.holds(point) for profile in self.network.profiles)
            if served and self.network.constraints.allow(point):
                if point not in self.points:
                    self.further.append(point)
                    self.points.append(point)
                yield point
                return
        if len(conditions) == 1 and BRANCHES.search(linecache.getline(location.file, location.line)):
            text = f"the reference's branch on sizes: no size of the ranges has {_text(conditions[0])}"
            self.unreached[placed(location, text)] = None

    def _columns(self, conditions: Sequence[Any]) -> dict[str, Any]:
        """All sizes of the ranges; where these are many, of the dimensions that are asked about, or some of these."""
        ranges = {name: (low, high) for name, (low, _, high) in self.ranges.items()}
        if not is_few(ranges):
            about = {str(symbol) for each in conditions for symbol in each.free_symbols}
            ranges |= {name: (opt, opt) for name, (_, opt, _) in self.ranges.items() if name not in about}
        return grid(ranges) if is_few(ranges) else samples(ranges)


def _squeezed(tensor: torch.Tensor, *dims: Any, **named: Any) -> torch.Tensor:
    """``squeeze_``, with which torch ends the process where it has nothing to do and a size is a symbol."""
    found = tensor.squeeze(*dims, **named)
    return tensor if found.dim() == tensor.dim() else tensor.as_strided_(found.shape, found.stride())


def _ranges(network: Network) -> Mapping[str, tuple[int, int, int]]:
    """The range of each dimension over all profiles."""
    found: dict[str, tuple[int, int, int]] = {}
    for profile in network.profiles:
        for name, (low, opt, high) in profile.ranges.items():
            a, b, c = found.get(name, (low, opt, high))
            found[name] = min(a, low), b, max(c, high)
    return found


def _text(condition: Any) -> str:
    from torch.utils._sympy.printers import PythonPrinter

    return PythonPrinter().doprint(condition)


def _evaluated(condition: Any, columns: Mapping[str, Any]) -> Any:
    """Whether a condition holds at each of the sizes."""
    import sympy

    joined = {sympy.And: np.logical_and, sympy.Or: np.logical_or}.get(condition.func)
    if joined is not None:  # Python's own words are for single values
        return joined.reduce([_evaluated(each, columns) for each in condition.args])
    if condition.func is sympy.Not:
        return ~_evaluated(condition.args[0], columns)
    found = np.asarray(_computed(condition, columns), dtype=bool)
    return np.broadcast_to(found, np.shape(next(iter(columns.values()))))


def _computed(expression: Any, columns: Mapping[str, Any]) -> Any:
    """An expression of sizes at each of these."""
    functions = {
        "math": np,
        "round": np.round,
        "float": lambda x: np.asarray(x, dtype=float),
        "max": lambda *sizes: functools.reduce(np.maximum, sizes),
        "min": lambda *sizes: functools.reduce(np.minimum, sizes),
    }
    return eval(_text(expression), {"__builtins__": {}, **functions}, dict(columns))


def _symbols(point: Point) -> tuple[Any, Any, Mapping[str, Any], Mapping[Any, Any]]:
    """What notes how sizes are compared, its mode, sizes that stand for all of their range, and their names."""
    import sympy
    from torch._guards import Source
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv

    class Text(str):
        def __call__(self) -> str:  # older versions of torch call the name
            return str(self)

    class Named(Source):
        def __init__(self, text: str):
            object.__setattr__(self, "text", text)

        @property
        def name(self) -> Any:  # pyright: ignore[reportIncompatibleVariableOverride]
            return Text(getattr(self, "text", ""))

    shapes = ShapeEnv(specialize_zero_one=False, duck_shape=False)
    sizes, named = {}, {}
    for name, size in point.items():
        source = Named(name)
        symbol = shapes.create_symbol(
            size, source, dynamic_dim=DimDynamic.DYNAMIC, constraint_dim=None, do_not_specialize_zero_one=True
        )
        sizes[name] = shapes.create_symintnode(symbol, hint=size, source=source)
        named[symbol] = sympy.Symbol(name, integer=True)
    return shapes, FakeTensorMode(shape_env=shapes, allow_non_fake_inputs=True), sizes, named
