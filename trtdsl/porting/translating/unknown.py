"""Results that torch does not make of tensors without values: a trial size stands in for one that depends on values."""

from __future__ import annotations

import functools
from typing import Any

from ...core.lazy import torch
from ..calls import leaves


def sized(name: str, args: tuple[Any, ...], kwargs: dict[str, Any], count: int) -> Any:
    """The result of the call where ``count`` elements are chosen; None for a call that has no rule here."""
    given = kwargs.get("input", args[0] if args else None)
    if not isinstance(given, torch.Tensor):
        return None
    if name in ("nonzero", "argwhere"):
        chosen = given.new_empty((count, given.dim()), dtype=torch.int64)
        return tuple(chosen.unbind(1)) if kwargs.get("as_tuple", args[1:] == (True,)) else chosen
    if name == "where" and len(args) == 1:
        return tuple(given.new_empty((count, given.dim()), dtype=torch.int64).unbind(1))
    if name == "masked_select":
        mask = torch.broadcast_tensors(kwargs.get("mask", args[-1]), given)[0]
        return given.new_empty((_chosen_by(mask, count),))
    if name == "nms":
        return given.new_empty((count,), dtype=torch.int64)
    if name == "getitem":
        index = args[1] if isinstance(args[1], tuple) else (args[1],)
        return given[tuple(place for item in index for place in _places(item, count))]
    return None


def _places(item: Any, count: int) -> list[Any]:
    """A mask as the places that it chooses, a tensor for each of its dimensions."""
    if is_mask(item):
        return [item.new_empty((_chosen_by(item, count),), dtype=torch.int64) for _ in range(item.dim())]
    return [item]


def is_mask(item: Any) -> bool:
    """Whether an index chooses by its values."""
    return isinstance(item, torch.Tensor) and item.dtype == torch.bool and item.dim() > 0


def _chosen_by(mask: torch.Tensor, count: int) -> int:
    """How many elements, where the mask has values; else ``count``."""
    return int(mask.sum()) if type(mask) is torch.Tensor else count


def unlike_itself(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The result of a call that torch's functions without values refuse and those with values take; else None."""
    if name == "grouped_mm":  # without values of bfloat16 alone
        a, b = args[:2]
        rows = a.shape[:-1] if a.dim() <= b.dim() else (b.shape[0], a.shape[-2])
        return a.new_empty((*rows, b.shape[-1]), dtype=kwargs.get("out_dtype") or a.dtype)
    if name == "pad":
        given = {**dict(zip(("input", "pad", "mode", "value"), args)), **kwargs}
        return _padded(given["input"], given["pad"]) if isinstance(given.get("value"), torch.Tensor) else None
    if name == "tensor" and isinstance(args[0], (list, tuple)):
        return _listed(args[0], kwargs.get("dtype"))
    return None


def _padded(x: torch.Tensor, pad: Any) -> torch.Tensor:
    """The result of a pad by a number of a tensor's values."""
    sides = [*pad, *[0] * (2 * x.dim() - len(pad))]
    return x.new_empty([size + before + after for size, before, after in zip(x.shape, sides[-2::-2], sides[::-2])])


def _listed(data: Any, dtype: torch.dtype | None) -> torch.Tensor | None:
    """The result of ``torch.tensor`` where nested lists have tensors without values; None where they have none."""
    parts = list(leaves(data))
    given = [part for part in parts if isinstance(part, torch.Tensor) and type(part) is not torch.Tensor]
    if not given:
        return None
    shape, inner = [], data
    while isinstance(inner, (list, tuple)):
        shape.append(len(inner))
        inner = inner[0]
    kinds = [part.dtype if isinstance(part, torch.Tensor) else torch.tensor(part).dtype for part in parts]
    return given[0].new_empty(shape, dtype=dtype or functools.reduce(torch.promote_types, kinds))
