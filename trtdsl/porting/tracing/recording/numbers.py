"""Tensors without dimensions and values that stand for Python's numbers: what ``.item()`` and ``int()`` give."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any
from unittest import mock

from ....core.errors import UnsupportedError
from ....core.lazy import torch
from ...calls import along, leaves, rebuilt
from ...translating.spellings import Listed
from ..frames import here, is_inside, named_only
from ..traced_sizes import is_traced

STANDS = "_stands_for_a_number"
FILLING = {
    "full": ("size", "fill_value"),
    "full_like": ("input", "fill_value"),
    "new_full": ("input", "size", "fill_value"),
}


def standing_in(tensors: Iterable[torch.Tensor]) -> list[torch.Tensor]:
    """The tensors, which stand for numbers from now on."""
    found = list(tensors)
    for each in found:
        if each.dim() == 0:
            setattr(each, STANDS, True)
    return found


def at_numbers(input: torch.Tensor, index: Any) -> Callable[[], Any] | None:
    """What an index gives in which whole numbers are tensors without values; None for another one."""
    parts = list(index) if isinstance(index, tuple) else [index]
    places = {place: axis for place, part, axis in with_axes(input, parts) if _is_place(part)}
    if not places:
        return None

    def taken() -> Any:
        found = input
        for place, axis in places.items():
            found = found[along(axis, parts[place].reshape(1))]
        return found[tuple(0 if place in places else part for place, part in enumerate(parts))]

    return taken


def own_numbers(
    name: str, args: tuple[Any, ...], kwargs: dict[str, Any], has_values: Callable[[torch.Tensor], bool]
) -> Callable[[], Any] | None:
    """The arguments, with numbers where torch takes no tensors of those that have values; None for other calls."""

    def is_number(leaf: Any) -> bool:
        return isinstance(leaf, torch.Tensor) and not leaf.dim() and not leaf.is_complex() and has_values(leaf)

    given: dict[Any, Any] = {**dict(enumerate(args)), **kwargs}
    known = {id(leaf) for leaf in leaves([*given.values()]) if is_number(leaf)}
    places = [place for place, each in given.items() if place != 0 and any(id(x) in known for x in leaves(each))]
    plain = [place for place in places if not _takes_tensor(name, place)]
    if not plain:
        return None

    def numbers() -> tuple[tuple[Any, ...], dict[str, Any]]:
        given.update({place: rebuilt(given[place], lambda x: x.item() if id(x) in known else x) for place in plain})
        return tuple(given[place] for place in range(len(args))), {key: given[key] for key in kwargs}

    return numbers


@functools.cache
def _takes_tensor(name: str, place: int | str) -> bool:
    """Whether an operator of that name takes a tensor there, or nothing is known of it."""
    packet = getattr(torch.ops.aten, name, None)
    types = list[str]()
    for overload in packet.overloads() if packet else ():
        schema = getattr(packet, overload)._schema.arguments
        positional = [str(each.type) for each in schema if not each.kwarg_only]
        types += [str(each.type) for each in schema if each.name == place]
        if isinstance(place, int):
            several = [kind for kind in positional[-1:] if "List" in kind]  # of which each may stand for itself
            types += positional[place : place + 1] or several
    return not types or any("Tensor" in kind for kind in types)


def lists_of_numbers(index: Any) -> Callable[[], Any] | None:
    """An index in which lists of whole numbers are tensors, where some have no values; None for another one."""

    def is_list(part: Any) -> bool:
        return isinstance(part, (list, tuple)) and any(map(_is_place, part))

    def joined(part: Any) -> Any:
        return torch.stack([torch.as_tensor(each) for each in part]) if is_list(part) else part

    if isinstance(index, tuple):
        return (lambda: tuple(map(joined, index))) if any(map(is_list, index)) else None
    return (lambda: joined(index)) if is_list(index) else None


def writes_at_a_place(name: str, args: tuple[Any, ...]) -> bool:
    """Whether elements are written at a whole number that a tensor without values has."""
    index = args[1] if name == "setitem" else ()
    return any(map(_is_place, index if isinstance(index, tuple) else (index,)))


def _is_place(part: Any) -> bool:
    """Whether a part of an index is a whole number that a tensor without values has."""
    plain = not isinstance(part, torch.Tensor) or type(part) in (torch.Tensor, torch.nn.Parameter)
    return not plain and part.dim() == 0 and not part.is_floating_point() and part.dtype != torch.bool


def with_axes(input: torch.Tensor, parts: Sequence[Any]) -> Iterator[tuple[int, Any, int]]:
    """The parts of an index by number, each with the dimension of what is indexed at which it begins."""
    axis = 0
    for place, part in enumerate(parts):
        if part is Ellipsis:
            axis = input.dim() - sum(map(_axes, parts[place + 1 :]))
        yield place, part, axis
        axis += _axes(part)


def _axes(part: Any) -> int:
    """How many dimensions a part of an index takes."""
    if isinstance(part, torch.Tensor) and part.dtype in (torch.bool, torch.uint8):
        return part.dim()
    return int(part is not None and part is not Ellipsis and not isinstance(part, bool))


def filled(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Callable[[], Any] | None:
    """What ``full`` and its like give of a number that a tensor stands for; None for other calls."""
    names = FILLING.get(name, ())
    given: dict[str, Any] = {**dict(zip(names, args)), **kwargs}
    fill: Any = given.get("fill_value")
    like: Any = given.get("input")
    if not names or not stands_in(fill) or given.get("out") is not None:
        return None
    dtype = given.get("dtype") or (fill if like is None else like).dtype
    return lambda: fill.to(dtype).expand(given["size"] if "size" in given else given["input"].shape).clone()


def as_pythons(name: str, given: Mapping[Any, Any]) -> dict[Any, Callable[[], Any]]:
    """What takes the place of operands of a call, so that numbers among them compute as Python's do."""
    numbers = {key: each for key, each in given.items() if stands_in(each)}
    tensors = [each for each in given.values() if isinstance(each, torch.Tensor)]
    if numbers and name == "clamp":  # which takes two numbers or two tensors
        ends = {key: each for key, each in given.items() if isinstance(each, (int, float)) and not is_traced(each)}
        return {key: functools.partial(torch.full, (), each) for key, each in ends.items()}
    if not numbers or any(each.dim() for each in tensors):
        return {}
    others = [each.dtype for each in tensors if not stands_in(each)]
    if not others and name in ("add", "sub", "mul"):
        return {key: each.long for key, each in numbers.items() if each.dtype == torch.bool}
    if not others and name == "pow" and type(given.get(1)) is int and given[1] < 0:
        return {key: each.float for key, each in numbers.items()}
    alike = {key: [dtype for dtype in others if _kind(dtype) == _kind(each.dtype)] for key, each in numbers.items()}
    return {
        key: functools.partial(numbers[key].to, functools.reduce(torch.promote_types, dtypes))
        for key, dtypes in alike.items()
        if dtypes
    }


def _kind(dtype: torch.dtype) -> tuple[bool, bool]:
    """Numbers do not promote tensors of their own kind."""
    return dtype.is_floating_point, dtype == torch.bool


def _whole(name: str) -> Callable[[torch.Tensor], torch.Tensor]:
    return lambda tensor: getattr(tensor, name)().long() if tensor.is_floating_point() else tensor


def _rounded(tensor: torch.Tensor, places: int | None = None) -> torch.Tensor:
    return _whole("round")(tensor) if places is None else tensor.round(decimals=places)


ROUNDED = {
    "__round__": _rounded,
    **{f"__{name}__": _whole(name) for name in ("floor", "ceil", "trunc")},
    "__divmod__": lambda tensor, by: (tensor // by, tensor % by),
    "__rdivmod__": lambda tensor, given: (given // tensor, given % tensor),
}
"""What Python makes whole of its numbers, and torch has no methods for."""


def stands_in(given: Any) -> bool:
    """Whether what is given is a tensor that stands for a number."""
    return isinstance(given, torch.Tensor) and STANDS in vars(given)


def read_as_numbers(kind: type[torch.Tensor]) -> Any:
    """A context in which tensors of this kind that stand for numbers are no keys, and no texts that decide anything."""

    def refused(own: Callable[..., Any], becomes: str, *, logged: bool) -> Callable[..., Any]:
        def function(tensor: torch.Tensor, *given: Any) -> Any:
            asks = stands_in(tensor) and not is_inside(sys._getframe(1).f_code.co_filename)
            if asks and not (logged and named_only()):
                raise UnsupportedError(
                    f"a number of a tensor's values becomes {becomes} here, and a trace does not have it: compare it "
                    "(if k == 1: …), or index a tensor that has all entries",
                    location=here(),
                )
            return own(tensor, *given)

        return function

    patched: dict[str, Any] = {"__hash__": refused(kind.__hash__, "a key of a dict, a set or a cache", logged=False)}
    for name in ("__format__", "__repr__"):
        patched[name] = refused(getattr(kind, name), "a text", logged=True)
    own = kind.tolist

    def tolist(tensor: Any) -> Any:
        found = own(tensor)
        listed = isinstance(found, list) and tensor.dtype in (torch.int64, torch.int32)
        return Listed(found, tensor.long()) if listed else found

    return mock.patch.multiple(kind, tolist=tolist, **patched, **ROUNDED, create=True)
