"""What runs under ``torch.vmap`` and ``torch.func``, by the operators that torch's own rules make of it.

A tensor in there stands around one of the trace's, which may have a dimension more at some place. What torch computes
of it are operators of the tensors inside: these are recorded. Their sizes are numbers, since torch's rules are written
in C++; each is taken to be the size, of what runs there, that has this number, and traces at other sizes prove it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

from ....core.errors import UnsupportedError
from ....core.lazy import torch
from ...calls import leaves
from ...translating.aten import is_overload
from ..frames import here
from ..guards import DERIVATIVES, TakesDerivatives
from ..names import PEEKS
from ..scalars import READ
from ..traced_sizes import is_traced


def _functorch() -> Any:
    from torch._C import _functorch  # pyright: ignore[reportAttributeAccessIssue]

    return _functorch


def stands_around(tensor: torch.Tensor) -> bool:
    """Whether it is one of a transform's, with a tensor of the trace inside."""
    return _functorch().is_functorch_wrapped_tensor(tensor)


def inner(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor of the trace that is inside; another one is itself."""
    return seen_through(tensor)[0]


def seen_through(tensor: torch.Tensor) -> tuple[torch.Tensor, list[int]]:
    """The tensor of the trace that is inside, and its dimension for each that is seen."""
    wrapped = _functorch()
    axes = list(range(tensor.dim()))
    while stands_around(tensor):
        mapped = wrapped.maybe_get_bdim(tensor) if wrapped.is_batchedtensor(tensor) else -1
        tensor = wrapped.get_unwrapped(tensor)
        if mapped >= 0:
            axes = [axis + (axis >= mapped) for axis in axes]
    return tensor, axes


def among(tree: Any) -> list[torch.Tensor]:
    """The tensors of a transform that are in a tree of arguments."""
    return [leaf for leaf in leaves(tree) if isinstance(leaf, torch.Tensor) and stands_around(leaf)]


def is_derived(function: Any, name: str, operands: list[torch.Tensor]) -> bool:
    """Whether a call's operators are recorded, since a derivative is taken of it, or it is the derivative itself."""
    if function in (torch.Tensor.backward, torch.autograd.backward):
        raise UnsupportedError(
            "backward() writes derivatives to tensors: take them, as (slope,) = torch.autograd.grad(y.sum(), x)",
            location=here(),
        )
    if name == "_make_dual" and _functorch().maybe_current_level() is not None:  # which begins torch.func.jvp
        return True
    derives = function is torch.autograd.grad
    if derives and not DERIVATIVES.get():
        raise UnsupportedError(
            "forward takes a derivative of what it computes", location=here()
        ) from TakesDerivatives()
    follows = DERIVATIVES.get() and torch.is_grad_enabled() and any(each.requires_grad for each in operands)
    return derives or (follows and not is_overload(function) and name not in READ | PEEKS)


class SizesInside:
    """The sizes of what runs in a transform, by their numbers."""

    def __init__(self) -> None:
        self._known: dict[int, Any] = {}
        self._mapped: dict[int, Any] = {}  # the sizes that functions are mapped over, by level

    def see(self, given: Any, around: list[torch.Tensor], sizes_of: Callable[[torch.Tensor], Any]) -> None:
        """Notes the sizes that a call has: those that it is ``given`` and those of tensors."""
        now = _functorch().maybe_current_level() or 0
        self._mapped = {level: size for level, size in self._mapped.items() if level <= now}
        sizes = [leaf for leaf in leaves(given) if is_traced(leaf)]
        for each in around:
            tensor, axes = seen_through(each)
            own = sizes_of(tensor)
            sizes += own
            outside = sorted({*range(tensor.dim())} - {*axes})
            levels = sorted(_levels(each))
            self._mapped.update((level, own[axis]) for level, axis in zip(levels, outside, strict=True))
        plain = {1, *(leaf for leaf in leaves(given) if type(leaf) is int)}
        self._known = {int(size): size for size in sizes if int(size) not in plain}

    def given(self, overload: Any, args: tuple[Any, ...], kwargs: dict[str, Any], own: Any) -> tuple[Any, Any]:
        """The arguments of an operator with sizes for numbers; ``own`` are the sizes of its first operand."""
        if not self._mapped and not self._known:
            return args, kwargs
        name = overload._schema.name.removeprefix("aten::")
        sized = self._rearranged if name in ("view", "_unsafe_view", "reshape", "_reshape_alias") else self._sized
        names = [argument.name for argument in overload._schema.arguments]
        args = tuple(
            sized(each, own) if name == "size" and type(each) is not int else each for name, each in zip(names, args)
        )
        return args, {name: sized(each, own) if name == "size" else each for name, each in kwargs.items()}

    def _outer(self) -> list[Any]:
        return [self._mapped[level] for level in sorted(self._mapped)]

    def _sized(self, numbers: Any, own: Any) -> list[Any]:
        mapped = self._outer()
        while mapped and [*map(int, mapped)] != [*numbers[: len(mapped)]]:
            mapped.pop()
        before = [None] * (len(numbers) - len(own)) + [*own]
        rest = list(zip(numbers, before))[len(mapped) :]
        return mapped + [size if number == size else self._known.get(number, number) for number, size in rest]

    def _rearranged(self, numbers: Any, own: Any) -> list[Any]:
        """The sizes that a view gives, of those before; of what is parted, one follows from the others."""
        count, product = math.prod(map(int, own)), abs(math.prod(numbers)) or 1
        left, right = [*own], [(count // product, -1) if number == -1 else (number, None) for number in numbers]
        outer, found, follows = next(iter(self._outer()), None), list[Any](), -1 in numbers
        while right:
            first = not found and outer is not None and right[0][0] == int(outer)
            if right[0] == (1, None) and not first and not (left and int(left[0]) == 1):
                found.append(right.pop(0)[0])
                continue
            before, after = [left.pop(0)], [right.pop(0)]
            while (difference := math.prod(map(int, before)) - math.prod(number for number, _ in after)) != 0:
                before.append(left.pop(0)) if difference < 0 else after.append(right.pop(0))
            if len(after) == 1:
                found.append(math.prod(before))
                continue
            for place, (number, given) in enumerate(after):
                size = outer if first and not place else self._known.get(number, number)
                if given is None and type(size) is int and not follows:
                    size, follows = -1, True
                found.append(given or size)
        return found


def _levels(tensor: torch.Tensor) -> Iterator[int]:
    """The levels of the transforms in which a tensor is mapped."""
    wrapped = _functorch()
    while stands_around(tensor):
        if wrapped.is_batchedtensor(tensor):
            yield wrapped.maybe_get_level(tensor)
        tensor = wrapped.get_unwrapped(tensor)
