"""The tensors of a module that a trace sees, and every call of torch while a mode is on."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import nullcontext
from typing import Any

from ...core.lazy import torch
from ..calls import leaves


def tensors_of(module: torch.nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    """Parameters, buffers and other tensors that a module has, by path; one with several names is there with each.

    What a hook of its state_dict renames has the name that it has there.
    """
    state = module.state_dict(keep_vars=True)
    renamed = {id(held): name for name, held in state.items()}
    for named in (module.named_parameters, module.named_buffers):
        for name, held in named(remove_duplicate=False):
            yield name if name in state else renamed.get(id(held), name), held
    for path, part in module.named_modules():
        for name, held in vars(part).items():
            if isinstance(held, torch.Tensor):
                yield f"{path}.{name}".lstrip("."), held


def torch_tensors(tree: Any) -> list[torch.Tensor]:
    """torch's tensors that are leaves of a tree of arguments, in order."""
    return [leaf for leaf in leaves(tree) if isinstance(leaf, torch.Tensor)]


def free(name: str, taken: Collection[str]) -> str:
    """The name, with a number where weights or parts of ``taken`` have it."""
    names = {part for path in taken for part in (path, path.partition(".")[0])}
    while name in names:
        stem, _, number = name.rpartition("_")
        name = f"{stem}_{int(number) + 1}" if number.isdigit() and stem else f"{name}_2"
    return name


def numbers_of(module: torch.nn.Module) -> dict[str, Any]:
    """The numbers that a module and its parts have as attributes, by path."""
    return {
        f"{path}.{name}".lstrip("."): held
        for path, part in module.named_modules()
        for name, held in vars(part).items()
        if isinstance(held, (bool, int, float))
    }


FACTS = {"prim::device", "aten::_fused_sdp_choice"}
"""Operators that give no tensor and read no values, which torch's code in C++ asks."""


def modes_below(called: Callable[..., Any], is_own: Callable[[bool], bool]) -> Any:
    """Has every operator that runs without a function of torch go through ``called``: of scripted functions, in C++.

    Operators of which ``is_own`` is true, asked with whether a function of torch is running, are the recorder's own.
    """
    from torch.overrides import _get_current_function_mode, _pop_mode_temporarily
    from torch.utils._python_dispatch import TorchDispatchMode

    class Below(TorchDispatchMode):
        def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            runs = _get_current_function_mode() is None
            if is_own(runs) or function._schema.name in FACTS:
                return function(*args, **(kwargs or {}))
            with torch.no_grad(), nullcontext() if runs else _pop_mode_temporarily():
                return called(function, args, kwargs or {})

    return Below()
