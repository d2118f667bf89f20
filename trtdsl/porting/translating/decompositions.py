"""What torch itself makes of a function that has no counterpart: calls of others, which are traced in its place."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import FunctionType
from typing import Any

from ...core.lazy import torch
from .aten import SPACES, bound_to, is_overload


def decompositions(function: Any, qualified: str) -> Iterator[tuple[Callable[..., Any], bool]]:
    """The functions that compute the same by others, best first, each with whether it runs in C++.

    They are rules for the operator of its name, torch's references in Python, its decompositions of operators, its own
    code in Python and in C++, or what ``torch.library`` was given for an operator. A function that writes in place
    is taken for the one that does not.
    """
    import torch._refs as references

    if is_overload(function):
        yield from ((_of_its_overload(function), False), (function, True), (_in_python(function), True))
        return
    *spaces, name = qualified.rstrip("_").split(".")
    left_out = {"torch", "Tensor", *([] if "nn" in spaces else ["functional"])}
    path = [part for part in spaces if part not in left_out] + [name]
    prefix = next((prefix for prefix, space in SPACES.items() if path[0] == space), "")
    packet = getattr(torch.ops.aten, prefix + name, None)
    if packet is not None:
        yield packet, False
    if (reference := _attribute(references, path)) is not None:
        yield reference, False
    if packet is not None:
        yield _of_its_overload(packet), False
    if isinstance(function, FunctionType):
        yield _opened(function), False
    elif (plain := _attribute(torch, path) or getattr(torch.Tensor, name, None)) is not None:
        yield plain, True


def _attribute(space: Any, path: list[str]) -> Any:
    for name in path:
        space = getattr(space, name, None)
    return space if callable(space) else None


def _of_its_overload(operator: Any) -> Callable[..., Any]:
    """torch's decomposition of the operator, or of its overload that takes the arguments."""

    def decomposed(*args: Any, **kwargs: Any) -> Any:
        from torch._decomp import decomposition_table

        overload, positional, named = bound_to(operator, args, kwargs)
        return decomposition_table[overload](*positional, **named)

    return decomposed


def _in_python(operator: Any) -> Callable[..., Any]:
    """The Python function that computes an operator, which ``torch.library`` keeps in its dispatcher alone."""

    def computed(*args: Any, **kwargs: Any) -> Any:
        overload, positional, named = bound_to(operator, args, kwargs)
        for line in torch._C._dispatch_dump(overload.name().removesuffix(".default")).splitlines():
            key, _, place = line.partition(": registered at ")
            if key.removesuffix("[alias]") in ("CPU", "CompositeExplicitAutograd") and ".py:" in place:
                return overload._op_dk(getattr(torch._C.DispatchKey, key.removesuffix("[alias]")), *positional, **named)
        raise LookupError(overload.name())

    return computed


def _opened(function: FunctionType) -> Callable[..., Any]:
    """A Python function of torch's, which runs its own code where it would hand itself over to a trace."""
    space = function.__globals__
    plain = {name: held for name, held in space.items() if name.startswith("has_torch_function")}

    def runs_itself(*_: Any) -> bool:
        space.update(plain)
        return False

    def opened(*args: Any, **kwargs: Any) -> Any:
        space.update(dict.fromkeys(plain, runs_itself))
        try:
            return function(*args, **kwargs)
        finally:
            space.update(plain)

    return opened
