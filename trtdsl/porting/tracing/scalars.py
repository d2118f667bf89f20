"""Small tensors of numbers that are computed from sizes, such as ``torch.as_tensor([(h, w), (h // 2, w // 2)])``.

Where such a tensor bounds a slice, or becomes numbers again, the sizes that it was made of take its place.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from ...core.dtypes import dtype_name
from ...core.errors import Location
from ...core.lazy import np, torch
from ...core.tensors.memory import storage_of
from ...sizes.operators import ARITHMETIC, COMPARISONS, FRACTIONS, FUNCTIONS, ROUNDING, SYMBOLS
from ..calls import TRUTH, Op, SizeOp, Value, leaves, made_by, number_of, rebuilt
from .frames import here
from .guards import note
from .modes import torch_tensors
from .names import CONVERSIONS, OF_SHAPE, SPREAD, UNCHANGED
from .recording.numbers import FILLING
from .stand_ins import NAMESAKES, STAND_INS
from .traced_sizes import expression_of, is_traced, plain_number, rounds_rightly

MADE = {"tensor", "as_tensor", "scalar_tensor"}
COMPUTED = {name: FUNCTIONS[symbol] for name, symbol in SYMBOLS.items() if symbol in ARITHMETIC}
COMPUTED |= {**ROUNDING, "neg": operator.neg, "rsub": lambda x, other: other - x, "rdiv": lambda x, other: other / x}
COMPUTED |= {name: STAND_INS[math][name] for name in ("sqrt", *(each.partition(".")[2] for each in FRACTIONS))}
COMPUTED |= {"rsqrt": lambda x: x**-0.5, "reciprocal": lambda x: 1 / x}
COMPUTED |= {"maximum": NAMESAKES["max"], "minimum": NAMESAKES["min"]}
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
FILLED = {"ones": 1, "ones_like": 1, "new_ones": 1, "zeros": 0, "zeros_like": 0, "new_zeros": 0}
"""Functions whose results are one number everywhere."""


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


@dataclass(frozen=True)
class Greatest:
    """What the greatest number of a tensor without values is, which is made of an input's."""

    input: str
    size: Any
    """None where nothing says it."""
    place: int | None = None
    """Where it is, in a tensor that is sorted."""
    padding: float | None = None
    """What stands behind the ends of the input's sequences, whose lengths the tensor has."""
    axis: int | None = None
    """The dimension of the input in which these go on."""
    descending: bool = False
    """Whether the input has the greatest first."""
    everywhere: bool = False
    """Whether all numbers are that."""


class NeedsDeclared(Exception):
    """The cause of a refusal: nothing says of the values of an input what a trace needs."""


class NeedsBelow(NeedsDeclared):
    """A size is made of values of inputs, which are ``below`` these numbers."""

    def __init__(self, below: Mapping[str, int]):
        super().__init__(*below)
        self.below = below


class NeedsMost(NeedsDeclared):
    """A size is made of values that forward computes, and nothing says how great they are."""


class NeedsLongest(NeedsDeclared):
    """A size is made of the ``greatest`` of an input, and nothing says what that is."""

    def __init__(self, greatest: Greatest, *, first: bool = False, lengths: bool = False):
        super().__init__(greatest.input)
        self.greatest = greatest
        self.first = first
        """Whether it is asked for that the greatest comes first."""
        self.lengths = lengths
        """Whether the numbers are lengths, and no index."""


class SizesHeld:
    """The traced numbers that small tensors hold, and the greatest that a tensor of lengths has."""

    def __init__(self, kept: list[Any], behind: SizesBehind):
        self._behind = behind
        self._held: dict[int, Any] = {}  # arrays of objects by the identity of the tensor, or what is compared
        self._kept = kept
        self._greatest: dict[int, tuple[torch.Tensor, Greatest]] = {}

    def reaches(self, tensor: torch.Tensor, greatest: Greatest) -> None:
        """Notes the greatest number of a tensor."""
        self._greatest[id(tensor)] = tensor, greatest

    def greatest(self, tensor: Any) -> Greatest | None:
        """What is known of the greatest number of a tensor; None where it is made of no input's."""
        found = self._greatest[id(tensor)][1] if id(tensor) in self._greatest else None
        if found is not None and found.everywhere and type(tensor) is torch.Tensor:  # NumPy may have written to it
            return found if bool((tensor == plain_number(found.size)).all()) else None
        return found

    def number(self, leaf: Any) -> Any:
        """The size that is the number of a tensor without dimensions and values; any other leaf as it is."""
        known = self.greatest(leaf)
        return leaf if known is None or known.size is None or leaf.dim() else known.size

    def asked(self, given: Any) -> Greatest | None:
        """What a call is given that is the greatest number of an input, and nothing says what it is."""
        known = (self.greatest(leaf) for leaf in leaves(given) if isinstance(leaf, torch.Tensor) and leaf.numel() == 1)
        return next((each for each in known if each is not None and each.size is None), None)

    def of(self, tensor: Any) -> Any:
        """A number, nested lists of numbers or a comparison, which the tensor holds; None where it holds none."""
        known = self.greatest(tensor)
        if known is not None and known.size is not None and tensor.numel() == 1:
            return known.size
        held = self._held.get(id(tensor))
        known = isinstance(held, Compared) or (held is not None and _equal(held, tensor))
        return held.tolist() if known and isinstance(held, np.ndarray) else held if known else None

    def remember(
        self, function: Any, name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any], result: Any, target: Any
    ) -> None:
        """Notes what the tensors hold that a call gives or writes to, computed from what its operands hold."""
        if name in FILLED or name in FILLING:
            self._fill(name, args, kwargs, result)
        elif self._greatest:
            self._follow(name, args, kwargs, result, target)
        operands = torch_tensors((args, () if name in ("div", "rdiv") else result))
        computes = name in COMPUTED or SYMBOLS.get(name) in COMPARISONS
        whole = computes and not any(each.is_floating_point() for each in operands)
        given = (args, kwargs) if whole or name in {*MADE, "setitem"} else ()
        if not any(id(leaf) in self._held for leaf in leaves((args, kwargs))) and not any(
            map(is_traced, leaves(given))
        ):
            return
        tensors = [args[0]] if name == "setitem" else list(leaves(result))
        if not all(type(each) is torch.Tensor and each.numel() <= MOST_HELD for each in tensors):
            return
        with suppress(TypeError, ValueError, RuntimeError, IndexError):  # whatever is not computed of sizes this way
            for tensor, held in zip(tensors, self._computed(function, name, args, kwargs, tensors)):
                if isinstance(held, Compared) or _equal(held, tensor):
                    self._held[id(tensor)] = held
                    self._kept.append(tensor)

    def _fill(self, name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any], result: Any) -> None:
        """Notes the one number of what a call fills with it."""
        fill = {"fill_value": FILLED.get(name), **dict(zip(FILLING.get(name, ()), args)), **kwargs}["fill_value"]
        whole = isinstance(result, torch.Tensor) and dtype_name(result.dtype) in ("int64", "int32")
        if whole and result.dim() and (is_traced(fill) or type(fill) is int):
            self.reaches(result, Greatest("", fill, descending=True, everywhere=True))

    def _follow(self, name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any], result: Any, target: Any) -> None:
        """Notes the greatest number of what a call gives, where it is made of operands'; forgets its target's."""
        made = next((leaf for leaf in leaves(result) if isinstance(leaf, torch.Tensor) and leaf.numel()), None)
        given = torch_tensors((args, kwargs))
        known = list(filter(None, map(self.greatest, given)))
        found = None
        if made is not None and known and len(known) == len(given) and args and args[0] is given[0]:
            others, named = rebuilt((args[1:], kwargs), self.number)
            if not any(isinstance(each, torch.Tensor) for each in leaves((others, named))):
                exact = not args[0].dim() or known[0].everywhere
                found = greatest_of(known[0], name, others, named, made, exact=exact)
            elif name in COMPUTED and all(each.size is None for each in known):
                found = replace(known[0], place=None)  # of numbers of which nothing says what they are, either
        if target is not None:
            written = storage_of(target)
            self._greatest = {key: each for key, each in self._greatest.items() if storage_of(each[0]) != written}
        if found is not None and made is not None:
            self.reaches(made, found)
        elif len(args) == 2 and not kwargs and (symbol := SYMBOLS.get(name)) in COMPARISONS and made is not None:
            left, right = map(self.number, args)
            if any(map(is_traced, (left, right))) and not any(isinstance(each, torch.Tensor) for each in (left, right)):
                outcome = COMPARISONS[symbol](plain_number(left), plain_number(right))
                self._held[id(made)] = Compared(symbol, left, right, outcome)
                self._kept.append(made)

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
        if name in CLAMPS and (bounded := in_order(name, args[1:], kwargs)) is not None:
            return [_each(bounded, self._array(args[0]))]
        operands = [self._array(each) for each in args]
        if name == "where" and len(operands) == 3 and not tensors[0].dim():
            return _chosen(*(each.item() for each in operands))
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
            if held is None and self._behind.of(leaf):
                raise ValueError("it is computed of sizes in another way")
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


WHOLE = {"max", "amax", "sort", "view", "reshape", "flatten", "unsqueeze", "squeeze", "transpose", "permute", "t", "T"}
WHOLE |= {"expand", "repeat", "flip", "roll"}
"""Functions that give all numbers of a tensor in another order, or at least the greatest."""
DIVIDING = {"mul", "div", "true_divide", "floor_divide"}  # in order where the number is above 0
CLAMPS = {"clamp", "clip", "clamp_min", "clamp_max"}
NUMBERS = ("int64", "int32", "float32", "float64")


def greatest_of(
    known: Greatest,
    name: str,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    made: torch.Tensor,
    *,
    exact: bool = False,
) -> Greatest | None:
    """What is known of the greatest number that a call gives of a tensor whose own is ``known``; None for nothing.

    Of an ``exact`` number, the only one, it is what the call computes.
    """
    reads_bits = name == "view" and any(isinstance(each, torch.dtype) for each in (*args, *kwargs.values()))
    if dtype_name(made.dtype) not in NUMBERS or reads_bits or "dropout" in name:
        return None
    if known.everywhere and name in {"getitem", "min", "amin", "median", *WHOLE}:
        return known
    if name == "getitem":
        first = type(args[0]) is int and args == (known.place,)  # or the last one
        return replace(known, place=None) if first else None
    if name == "sort" and made.dim() == 1:
        return replace(known, place=0 if {**dict(zip(("dim", "descending"), args)), **kwargs}.get("descending") else -1)
    if name in WHOLE or name in UNCHANGED:
        return known if name in UNCHANGED else replace(known, place=None)
    function = in_order(name, args, kwargs)
    if function is None and exact and name in COMPUTED and not kwargs:
        function = lambda size: COMPUTED[name](size, *args)  # noqa: E731
    if function is None:
        return None
    kind = NAMESAKES["float" if made.dtype.is_floating_point else "int"]
    size = None if known.size is None else kind(function(known.size))
    return replace(known, size=size) if size is None or rounds_rightly(expression_of(size)) else None


def in_order(name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Callable[[Any], Any] | None:
    """What a call computes of one number, where it keeps the order of numbers: of the greatest, it gives the greatest.

    None for another call.
    """
    if name in CONVERSIONS:
        return lambda size: size
    if name in ROUNDING and not args and not kwargs:
        return ROUNDING[name]
    if name in CLAMPS:
        names = (name[6:],) if name[6:] else ("min", "max")
        ends = {**dict(zip(names, args)), **kwargs}
        if not all(isinstance(end, int) for end in ends.values() if end is not None):
            return None
        chosen = [(NAMESAKES[{"min": "max", "max": "min"}[key]], end) for key, end in ends.items() if end is not None]
        return lambda size: functools.reduce(lambda found, each: each[0](found, each[1]), chosen, size)
    number = args[0] if len(args) == 1 and isinstance(args[0], (int, float)) else None
    whole = kwargs.get("rounding_mode") if name == "div" and kwargs.keys() == {"rounding_mode"} else None
    if number is None or (kwargs and whole not in ("floor", "trunc")):
        return None
    if name in ("add", "sub"):
        return lambda size: COMPUTED[name](size, number)
    if is_traced(number) or number <= 0:
        return None
    if name in ("rshift", "bitwise_right_shift") and isinstance(number, int):
        return lambda size: size // 2**number
    if whole is not None:
        return lambda size: size // number if whole == "floor" else NAMESAKES["int"](size / number)
    return (lambda size: COMPUTED[name](size, number)) if name in DIVIDING else None


def _each(compute: Callable[..., Any], *arrays: Any) -> Any:
    return np.asarray(np.frompyfunc(compute, len(arrays), 1)(*arrays), dtype=object)


def _chosen(condition: Any, first: Any, second: Any) -> list[Any]:
    """The greater or the lesser one of two numbers, where it is chosen by comparing them; else nothing."""
    if not isinstance(condition, Compared) or condition.symbol not in ("<", "<=", ">", ">="):
        return []
    sides = [*map(expression_of, (first, second))]
    compared = [*map(expression_of, (condition.left, condition.right))]
    if compared not in (sides, sides[::-1]):
        return []
    greater = condition.symbol.startswith(">") == (compared == sides)
    return [np.asarray(NAMESAKES["max" if greater else "min"](first, second), dtype=object)]


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


WHOLES = {*FILLED, *SPREAD, *CONVERSIONS, *OF_SHAPE, "full", "add", "sub", "rsub", "mul", "neg", "masked_fill", "where"}
WHOLES |= {"any", "all", "max", "min", "amax", "amin", *(name for name, sign in SYMBOLS.items() if sign in COMPARISONS)}
"""Functions that give whole numbers of whole numbers, in fractions too."""


def _is_whole(op: Op) -> bool:
    """Whether what a call gives of sizes is rounded nowhere."""
    numbers = [number for leaf in leaves((op.args, op.kwargs)) if isinstance(number := number_of(leaf), float)]
    fractions = [each.dtype for each in op.made if each.known and each.dtype.is_floating_point]
    exact = op.name in WHOLES and all(number.is_integer() or math.isinf(number) for number in numbers)
    return not fractions or (exact and all(dtype.itemsize >= 4 for dtype in fractions))


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

    def of(self, tensor: torch.Tensor) -> tuple[Any, ...]:
        """What stands behind the tensor."""
        return self._sizes.get(id(tensor), ())

    def end(self, name: str, tensor: torch.Tensor) -> None:
        """The record of what stands behind the tensor ends with the call."""
        ends(name, self.of(tensor))

    def ask(self, tensor: torch.Tensor, value: Value, outcome: bool) -> bool:
        """Notes what the truth of a tensor of whole numbers is; whether it is a question of sizes alone."""
        sizes = self._sizes.get(id(tensor), ())
        if not sizes or not value.known or not all(map(_is_whole, made_by(value))):
            return False
        note("==", SizeOp(TRUTH, (value, *sizes), outcome, varies=True), outcome, True, here())
        return True
