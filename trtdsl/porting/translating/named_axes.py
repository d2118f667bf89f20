"""einx's operations by named axes, whose own code is generated from sizes as text: as calls of torch, of traced sizes.

What einx does besides (brackets of several axes, compositions of an operand's axes, other backends) is einx's own.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable
from typing import Any

from ...core.lazy import torch

ELEMENTWISE = (
    *("add", "subtract", "multiply", "divide", "true_divide", "floor_divide", "maximum", "minimum", "where"),
    *("logical_and", "logical_or", "equal", "not_equal", "less", "less_equal", "greater", "greater_equal", "logaddexp"),
)


class Other(Exception):
    """A pattern that is einx's own to compute."""


def operations_of(module: Any) -> dict[str, Callable[..., Any]]:
    """What stands in for functions of the module."""
    found: dict[str, Any] = {
        name: functools.partial(_elementwise, getattr(torch, TORCHS.get(name, name))) for name in ELEMENTWISE
    }
    found["get_at"] = _get_at
    return {name: _or_its_own(new, getattr(module, name)) for name, new in found.items() if hasattr(module, name)}


TORCHS = {"equal": "eq", "not_equal": "ne"}


def _or_its_own(new: Callable[..., Any], own: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(own)
    def function(pattern: Any, *tensors: Any, **options: Any) -> Any:
        try:
            if options or not isinstance(pattern, str):
                raise Other
            return new(pattern, *tensors)
        except Other:
            return own(pattern, *tensors, **options)

    return function


def _axes(text: str, rank: int) -> list[str]:
    """The names of a tensor's axes; those of ``...`` are numbered from the last one."""
    names = text.split()
    more = rank - len(names) + 1
    if "..." in names:
        place = names.index("...")
        names[place : place + 1] = [f".{number}" for number in range(more, 0, -1)]
    if len(names) != rank or len({*names}) != rank or not all(re.fullmatch(r"\[?[\w.]+\]?", name) for name in names):
        raise Other
    if any(name.isdigit() for name in names):
        raise Other
    return names


def _result(text: str, sizes: dict[str, Any]) -> list[list[str]]:
    """The names that each axis of a result is composed of; none of one of length 1."""
    groups: list[list[str]] = []
    for part in re.findall(r"\([\w\s]*\)|\.\.\.|\w+|\S", text):
        if part == "...":
            groups += [[name] for name in sorted((name for name in sizes if name[0] == "."), key=lambda n: -int(n[1:]))]
        else:
            groups.append([name for name in part.strip("()").split() if name != "1"])
    names = [name for group in groups for name in group]
    if sorted(names) != sorted(sizes):
        raise Other
    return groups


def _elementwise(function: Callable[..., Any], pattern: str, *given: Any) -> Any:
    inputs, _, output = pattern.partition("->")
    texts = inputs.split(",")
    if len(texts) != len(given):
        raise Other
    axes = [_axes(text, each.dim() if isinstance(each, torch.Tensor) else 0) for text, each in zip(texts, given)]
    sizes: dict[str, Any] = {}
    for names, each in zip(axes, given):
        for name, size in zip(names, each.shape if names else ()):
            if sizes.setdefault(name, size) != size:
                raise Other
    whole = {tuple(names) for names in axes if {*names} == {*sizes}}
    if not output and len(whole) != 1:  # the result has the axes of the operand that has all
        raise Other
    groups = _result(output, sizes) if output else [[name] for name in whole.pop()]
    order = [name for group in groups for name in group]
    aligned = [_aligned(each, names, order) if names else each for names, each in zip(axes, given)]
    return _grouped(function(*aligned), groups, sizes)


def _aligned(tensor: torch.Tensor, names: list[str], order: list[str]) -> torch.Tensor:
    """The tensor with its axes in this order, and of length 1 where it has none."""
    places = [names.index(name) for name in order if name in names]
    if places != sorted(places):
        tensor = tensor.permute(places)
    return tensor[tuple(slice(None) if name in names else None for name in order)]


def _grouped(tensor: torch.Tensor, groups: list[list[str]], sizes: dict[str, Any]) -> torch.Tensor:
    if all(len(group) == 1 for group in groups):
        return tensor
    return tensor.reshape([math.prod(sizes[name] for name in group) for group in groups])


def _get_at(pattern: str, source: torch.Tensor, index: torch.Tensor) -> Any:
    """``get_at("[c] d, b n -> b n d", source, index)``: what is at these places of one axis; axes that both have, as b
    of ``"b [c] d, b n -> b n d"``, go together."""
    inputs, _, output = pattern.partition("->")
    first, _, second = inputs.partition(",")
    own, its = _axes(first, source.dim()), _axes(second, index.dim())
    chosen = [name for name in own if name[0] == "["]
    shared = [name for name in own if name in its]
    rest = [name for name in own if name not in (*chosen, *shared)]
    if len(chosen) != 1 or any("[" in name for name in its):
        raise Other
    groups = _result(output, dict.fromkeys((*its, *rest), 0))
    ones = dict(zip(shared, (_aligned(torch.arange(index.shape[its.index(name)]), [name], its) for name in shared)))
    found = source.permute([own.index(name) for name in (*shared, *chosen, *rest)])[(*ones.values(), index)]
    sizes = dict(zip([*its, *rest], found.shape))
    order = [name for group in groups for name in group]
    return _grouped(_aligned(found, [*its, *rest], order), groups, sizes)
