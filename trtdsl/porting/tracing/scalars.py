"""Small tensors of numbers that are computed from sizes, such as ``torch.as_tensor([(h, w), (h // 2, w // 2)])``.

Where such a tensor bounds a slice, or becomes numbers again, the sizes that it was made of take its place.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from ...core.errors import Location
from ...core.lazy import np, torch
from ...sizes.operators import ARITHMETIC, COMPARISONS, FUNCTIONS, ROUNDING, SYMBOLS
from ..calls import TRUTH, SizeOp, Value, leaves, made_by, rebuilt
from .frames import here
from .guards import note
from .names import CONVERSIONS, UNCHANGED
from .stand_ins import NAMESAKES
from .traced_sizes import expression_of, is_traced, plain_number

MADE = {"tensor", "as_tensor", "scalar_tensor"}
COMPUTED = {name: FUNCTIONS[symbol] for name, symbol in SYMBOLS.items() if symbol in ARITHMETIC}
COMPUTED |= {**ROUNDING, "neg": operator.neg, "rsub": lambda x, other: other - x}
READ = {"item", "tolist", "int", "float", "index", "bool", "is_nonzero"}
REARRANGING = {
    *UNCHANGED,
    "getitem",
    "setitem",
    "unbind",
    "select",
    "view",
    "reshape",
    "flatten",
    "unsqueeze",
    "squeeze",
}
REARRANGING |= {"stack", "cat", "flip", "transpose", "permute", "t", "T", "split", "chunk", "expand", "repeat", "iter"}
REDUCING = {"prod", "sum", "cumsum", "cumprod", "max", "min", "amax", "amin"}
NUMPYS = {"dim": "axis", "keepdim": "keepdims"}
MOST_HELD = 64


@dataclass(frozen=True)
class Compared:
    """A comparison of sizes that a tensor holds; whoever reads it, asks it."""

    symbol: str
    left: Any
    right: Any
    outcome: bool

    def asked(self, location: Location | None) -> bool:
        note(self.symbol, expression_of(self.left), expression_of(self.right), self.outcome, location)
        return self.outcome


class SizesHeld:
    """The traced numbers that small tensors hold."""

    def __init__(self, kept: list[Any]):
        self._held: dict[int, Any] = {}  # arrays of objects by the identity of the tensor, or what is compared
        self._kept = kept

    def of(self, tensor: Any) -> Any:
        """A number, nested lists of numbers or a comparison, which the tensor holds; None where it holds none."""
        held = self._held.get(id(tensor))
        known = isinstance(held, Compared) or (held is not None and _equal(held, tensor))
        return held.tolist() if known and isinstance(held, np.ndarray) else held if known else None

    def remember(self, function: Any, name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any], result: Any) -> None:
        """Notes what the tensors hold that a call gives or writes to, computed from what its operands hold."""
        given = (args, kwargs) if name in {*MADE, "setitem"} else ()
        if not any(id(leaf) in self._held for leaf in leaves((args, kwargs))) and not any(
            map(is_traced, leaves(given))
        ):
            return
        tensors = [args[0]] if name == "setitem" else list(leaves(result))
        if not all(type(each) is torch.Tensor and each.numel() <= MOST_HELD for each in tensors):
            return
        with suppress(TypeError, ValueError, RuntimeError, IndexError):  # whatever is not computed of sizes this way
            for tensor, held in zip(tensors, self._computed(function, name, args, kwargs, tensors)):
                if isinstance(held, Compared) or (any(map(is_traced, held.flat)) and _equal(held, tensor)):
                    self._held[id(tensor)] = held
                    self._kept.append(tensor)

    def _computed(
        self, function: Any, name: str, args: Any, kwargs: Mapping[str, Any], tensors: list[Any]
    ) -> list[Any]:
        """What each tensor holds; nothing where that is not known."""
        if name in REARRANGING:
            return self._rearranged(function, name, args, kwargs)
        if name in MADE or name in CONVERSIONS:
            kind = NAMESAKES["float" if tensors[0].dtype.is_floating_point else "int"]
            return [_each(kind, self._array(args[0]))]
        if name in REDUCING:
            given = dict(zip(("axis", "keepdims"), args[1:])) | {
                NUMPYS.get(key, key): each for key, each in kwargs.items()
            }
            array, extremum = self._array(args[0]), name.removeprefix("a")
            if extremum in ("max", "min"):
                array = array if "axis" in given else array.reshape(-1)
                return [np.asarray(np.frompyfunc(NAMESAKES[extremum], 2, 1).reduce(array, **given), dtype=object)]
            return [np.asarray(getattr(array, name)(**given), dtype=object)]
        if name == "div" and kwargs.get("rounding_mode") == "floor":
            name, kwargs = "floor_divide", {}
        operands = [self._array(each) for each in args]
        if kwargs or not all(isinstance(number, (int, float)) for each in operands for number in each.flat):
            return []
        if (symbol := SYMBOLS.get(name)) in COMPARISONS and len(operands) == 2 and not tensors[0].dim():
            left, right = (each.item() for each in operands)
            outcome = COMPARISONS[symbol](plain_number(left), plain_number(right))
            return [Compared(symbol, left, right, outcome)] if outcome == tensors[0].item() else []
        return [_each(COMPUTED[name], *operands)] if name in COMPUTED else []

    def _array(self, given: Any) -> Any:
        """The numbers of a tensor, of nested lists or one number, as an array of objects."""

        def number(leaf: Any) -> Any:
            if not isinstance(leaf, torch.Tensor):
                return leaf
            held = self._held.get(id(leaf))  # of what is written to, before it was
            known = held.tolist() if isinstance(held, np.ndarray) else held
            return leaf.tolist() if held is None and type(leaf) is torch.Tensor else known

        return np.array(rebuilt(given, number), dtype=object)

    def _rearranged(self, function: Any, name: str, args: Any, kwargs: Mapping[str, Any]) -> list[Any]:
        """The numbers of a call that only moves them: it is done to their places."""
        numbers: list[Any] = []

        def places(given: Any) -> Any:
            array = self._array(given)
            numbers.extend(array.flat)
            return torch.arange(len(numbers) - array.size, len(numbers)).reshape(array.shape)

        first = [places(each) for each in args[0]] if isinstance(args[0], (list, tuple)) else places(args[0])
        more = (args[1], places(args[2])) if name == "setitem" else args[1:]
        moved = function(first, *more, **kwargs)
        found: Any = [first] if name == "setitem" else leaves(moved)
        return [
            np.array([numbers[place] for place in each.flatten()], dtype=object).reshape(each.shape) for each in found
        ]


def _each(compute: Callable[..., Any], *arrays: Any) -> Any:
    return np.asarray(np.frompyfunc(compute, len(arrays), 1)(*arrays), dtype=object)


def _equal(held: Any, tensor: torch.Tensor) -> bool:
    """Whether a tensor has these numbers now."""
    plain = np.array([*map(plain_number, held.flat)], dtype=float).reshape(held.shape)
    return plain.shape == tuple(tensor.shape) and bool(np.allclose(plain, tensor.tolist(), rtol=1e-6, atol=0))


def ends(name: str, sizes: Iterable[Any]) -> None:
    """Notes that the record of these sizes ends: what the call gives is known for them alone."""
    for size in sizes:
        note("==", size, size.number, True, here(), f"{name} of a tensor")


def measured(name: str, tensor: torch.Tensor, args: tuple[Any, ...], result: Any, shape: tuple[Any, ...]) -> Any:
    """What follows from a tensor's ``shape`` and its order in memory, such as its strides."""
    if name == "nbytes" and shape:
        return functools.reduce(operator.mul, shape) * tensor.element_size()
    if name == "stride" and shape:
        strides = tuple(functools.reduce(operator.mul, shape[axis + 1 :], 1) for axis in range(len(shape)))
        if tuple(map(plain_number, strides)) == tensor.stride():
            return strides[args[1]] if len(args) > 1 else strides
    ends(name, [size.expression for size in shape])
    return result


class SizesBehind:
    """The sizes that tensors with values are computed from."""

    def __init__(self, kept: list[Any]):
        self._sizes: dict[int, tuple[Any, ...]] = {}
        self._kept = kept

    def remember(self, operands: list[torch.Tensor], given: Any, result: Any) -> None:
        """Notes them for the result of a call with these operands and arguments."""
        sizes = [leaf.expression for leaf in leaves(given) if is_traced(leaf)]
        for operand in operands:
            sizes += self._sizes.get(id(operand), ())
        for tensor in leaves(result) if sizes else ():
            if type(tensor) is torch.Tensor:
                self._sizes[id(tensor)] = tuple(dict.fromkeys(sizes))
                self._kept.append(tensor)

    def behind(self, tensors: Iterable[torch.Tensor]) -> bool:
        """Whether any of the tensors is computed from sizes."""
        return any(id(tensor) in self._sizes for tensor in tensors)

    def end(self, name: str, tensor: torch.Tensor) -> None:
        """The record of what stands behind the tensor ends with the call."""
        ends(name, self._sizes.get(id(tensor), ()))

    def ask(self, tensor: torch.Tensor, value: Value, outcome: bool) -> bool:
        """Notes what the truth of a tensor of whole numbers is; whether it is a question of sizes alone."""
        sizes = self._sizes.get(id(tensor), ())
        made = [leaf for op in made_by(value) for leaf in leaves(op.results) if isinstance(leaf, Value) and leaf.known]
        if not sizes or not value.known or any(each.dtype.is_floating_point for each in made):
            return False
        note("==", SizeOp(TRUTH, (value, *sizes), outcome, varies=True), outcome, True, here())
        return True
