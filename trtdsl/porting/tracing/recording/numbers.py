"""Tensors without dimensions and values that stand for Python's numbers: what ``.item()`` and ``int()`` give."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import Any
from unittest import mock

from ....core.errors import UnsupportedError
from ....core.lazy import torch
from ..frames import here, is_inside, named_only

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
    places: dict[int, int] = {}
    axis = 0
    for place, part in enumerate(parts):
        if part is Ellipsis:
            axis = input.dim() - sum(map(_axes, parts[place + 1 :]))
        elif _is_place(part):
            places[place] = axis
        axis += _axes(part)
    if not places:
        return None

    def taken() -> Any:
        found = input
        for place, axis in places.items():
            found = found[(*[slice(None)] * axis, parts[place].reshape(1))]
        return found[tuple(0 if place in places else part for place, part in enumerate(parts))]

    return taken


def writes_at_a_place(name: str, args: tuple[Any, ...]) -> bool:
    """Whether elements are written at a whole number that a tensor without values has."""
    index = args[1] if name == "setitem" else ()
    return any(map(_is_place, index if isinstance(index, tuple) else (index,)))


def _is_place(part: Any) -> bool:
    """Whether a part of an index is a whole number that a tensor without values has."""
    plain = not isinstance(part, torch.Tensor) or type(part) in (torch.Tensor, torch.nn.Parameter)
    return not plain and part.dim() == 0 and not part.is_floating_point() and part.dtype != torch.bool


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
    return mock.patch.multiple(kind, **patched)
