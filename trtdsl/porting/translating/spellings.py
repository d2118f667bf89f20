"""Other spellings of torch's calls: operands by name, numpy's names, Python's types as dtypes, sizes one by one."""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cache
from types import FunctionType
from typing import Any

from ...core.lazy import np, torch
from ..calls import SizeOp, Value
from .counterpart import NOISE, named_arguments

ARGUMENTS = {"axis": "dim", "keepdims": "keepdim"}  # which torch takes for numpy's
UNSAID = {"tensor": ("data", "dtype"), "as_tensor": ("data", "dtype")}  # of which torch has no schema


def by_position(
    function: Any, name: str, form: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments of a call with its first by position, and with it those whose names ``functional`` does not have.

    >>> by_position(torch.arange, "arange", "function", (), {"end": 8, "dtype": torch.int64})
    ((8,), {'dtype': torch.int64})
    >>> by_position(torch.Tensor.permute, "permute", "method", ("x",), {"dims": (1, 0)})
    (('x', (1, 0)), {})
    """
    taken = named_arguments(name, form)
    moved = {key for key in kwargs if taken is not None and key not in taken and key not in ARGUMENTS}
    for order, names in _orders(function, name, form == "method") if moved or not args else ():
        given, left = [*args], dict(kwargs)
        strangers = [key for key in left if key not in names]
        if order and not given and order[0] not in left and len(strangers) == 1:  # as F.one_hot calls it tensor
            left[order[0]] = left.pop(strangers.pop())
        if strangers:
            continue
        for key in order[len(args) :]:
            if key not in left or (given and not moved & left.keys()):
                break
            given.append(left.pop(key))
        if given and not moved & left.keys():
            return tuple(given), left
    return args, dict(kwargs)


FORMER = {
    **dict.fromkeys(("add", "sub"), ("alpha",)),
    **dict.fromkeys(("addcmul", "addcdiv"), ("value",)),
    **dict.fromkeys(("addmm", "addmv", "addr", "addbmm", "baddbmm"), ("beta", "alpha")),
}
"""What numbers are called that torch takes before tensors still, as it once did: ``torch.add(x, 2, y)``."""


def numbers_last(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments with numbers by name that stand before tensors.

    >>> numbers_last("add", (x := torch.ones(2), 2, x), {})[1]
    {'alpha': 2}
    """
    names = FORMER.get(name.rstrip("_"), ())
    tensors = [place for place, each in enumerate(args) if isinstance(each, torch.Tensor)]
    if not names or not tensors:
        return args, kwargs
    first = 0 if "beta" in names else tensors[0]  # of a difference, what stands first is what is subtracted from
    numbers = [place for place in range(first, tensors[-1]) if place not in tensors]
    named = dict(zip(names, (args[place] for place in numbers)))
    return tuple(each for place, each in enumerate(args) if place not in numbers), {**named, **kwargs}


@cache
def _orders(function: Any, name: str, method: bool) -> Sequence[tuple[Sequence[str], Collection[str]]]:
    """For each form of a function the arguments that it takes by position, in order, and the names of all."""
    if isinstance(function, FunctionType) or name in UNSAID:
        names = UNSAID.get(name) or [*inspect.signature(function).parameters]
        return [(names, {*names, *NOISE})]
    overloads = getattr(torch.ops.aten, getattr(function, "__name__", name), None)
    found = []
    for overload in overloads.overloads() if overloads is not None else ():
        arguments = getattr(overloads, overload)._schema.arguments
        order = ["input" if each.name == "self" else each.name for each in arguments if not each.kwarg_only]
        order.sort(key=lambda each: method and each != "input")
        found.append((order, {*order, *(each.name for each in arguments), *NOISE, *ARGUMENTS}))
    return found


def respelled(
    name: str, form: str, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any
) -> tuple[str, str, tuple[Any, ...], dict[str, Any]]:
    """The call's name, form and arguments as they are usually written; ``result`` is what it gives."""
    kwargs = {ARGUMENTS.get(key, key): item for key, item in kwargs.items()}
    if name.endswith("_with_indices"):  # what torch calls for return_indices
        return name.removesuffix("_with_indices"), form, args, {**kwargs, "return_indices": True}
    if name == "linalg_norm":
        return _norm(args, kwargs)
    if name == "where" and len(args) == 1 and not kwargs:
        return "nonzero", "function", args, {"as_tuple": True}
    if name in ("H", "mH", "adjoint") and not result.is_complex():
        return "mT", "attribute", args, kwargs
    if form != "method":
        return name, form, args, kwargs
    if name in ("type", "byte", "char", "short") and isinstance(result, torch.Tensor):
        return "to", form, (args[0], result.dtype), {}
    if name == "new_tensor":
        return "tensor", "function", args[1:], {**kwargs, "dtype": result.dtype}
    if name == "broadcast_to" and len(args) > 2:
        return name, form, (args[0], args[1:]), kwargs
    return name, form, args, kwargs


def _norm(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[str, str, tuple[Any, ...], dict[str, Any]]:
    """torch.linalg.norm: of vectors, or of matrices where it gets two dimensions, or a tensor of two, and an order."""
    given = {**dict(zip(("A", "ord", "dim", "keepdim"), args)), **kwargs}
    tensor, order, dim = given.pop("A", given.pop("input", None)), given.pop("ord", None), given.get("dim")
    pair = isinstance(dim, (tuple, list)) and len(dim) == 2
    if order is not None and (pair or (dim is None and tensor.dim() == 2)):
        options = {key: item for key, item in given.items() if key != "dim" or item is not None}
        return "matrix_norm", "function", (tensor, order), options
    return "vector_norm", "function", (tensor, 2 if order is None else order), given


ZEROS = ("zeros", "new_zeros")


def joined_to_zeros(
    value: Callable[[Any], Value | None], tensors: Any, dim: int = 0, **named: Any
) -> tuple[torch.Tensor, list[Any]] | None:
    """A tensor and the pads of ``F.pad``, where ``cat`` joins it to zeros of a computed size; None of other tensors.

    The pad may be by nothing, where a library writes ``if n % 8`` around it. ``value`` gives the value that a call of
    the program gave.
    """
    if named or len(tensors) != 2:
        return None
    values = [value(each) for each in tensors]
    zeros = [each.producer if each is not None and each.known else None for each in values]
    at = 1 if zeros[1] is not None and zeros[1].name in ZEROS else 0
    made, x, fill = zeros[at], tensors[1 - at], tensors[at]
    if made is None or made.name not in ZEROS or x.dtype != fill.dtype or x.dim() != fill.dim():
        return None
    sizes = made.args[made.name == "new_zeros" :]
    sizes = sizes[0] if len(sizes) == 1 and isinstance(sizes[0], (list, tuple)) else sizes
    if len(sizes) != x.dim() or not isinstance(sizes[dim], SizeOp):
        return None
    return x, [0] * (2 * (x.dim() - 1 - dim % x.dim())) + ([0, sizes[dim]] if at else [sizes[dim], 0])


def joined_often(name: str, items: list[Any], times: Any, dim: int = 0, **options: Any) -> torch.Tensor:
    """What ``cat``, ``stack`` or ``tensor`` gives of a list that has the items so many times."""
    along = {} if name == "tensor" else {"dim": dim}
    alone = name == "cat" and len(items) == 1
    whole = items[0] if alone else getattr(torch, name)(items, **along, **options)
    return whole.repeat([times if axis == dim % whole.dim() else 1 for axis in range(whole.dim())])


class Listed(list[Any]):
    """The numbers that ``tolist`` gives of a tensor without values, and the tensor for what is asked of all of them."""

    def __init__(self, numbers: list[Any], tensor: torch.Tensor):
        super().__init__(numbers)
        self._numbers, self._tensor = numbers, tensor

    @property
    def tensor(self) -> Any:
        """The list itself where it was changed."""
        same = len(self) == len(self._numbers) and all(map(operator.is_, self, self._numbers))
        return self._tensor if same else self


def held_by(given: Any) -> Any:
    """The tensor of an array that torch computes in numpy's place, or of a list; anything else as it is."""
    held = isinstance(given, Listed) or type(given).__module__.startswith("torch._numpy")
    return given.tensor if held else given


def as_array(tensor: torch.Tensor) -> Any:
    """The array of a tensor without values, which torch computes in numpy's place."""
    from torch._numpy._ndarray import ndarray

    return ndarray(tensor)


def of_an_array(given: Any, options: Mapping[str, Any]) -> Callable[[], torch.Tensor] | None:
    """``torch.tensor`` of an array of sizes, or of one that torch computes in numpy's place; None of anything else."""
    if isinstance(given, np.ndarray) and given.dtype == object:
        return lambda: torch.tensor(given.tolist(), **options)
    made = held_by(given)
    return None if made is given else lambda: made.to(options.get("dtype") or made.dtype)


def python_type(given: type) -> Any:
    """torch's dtype for a type of Python where torch takes one, as in ``dtype=int``; the type itself otherwise."""
    return {bool: torch.bool, int: torch.int64, float: torch.float64}.get(given, given)
