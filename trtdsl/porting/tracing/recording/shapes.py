"""What calls give of tensors without values, which is a shape: torch finds it out once for operands of one layout.

For some functions it runs code in Python to do so, as for norms, resampling and products of more than two dimensions:
some milliseconds for each call of each trace.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ....core.lazy import torch
from ....core.tensors.dense import writes
from ....core.tensors.memory import storage_of
from ..modes import torch_tensors
from ..traced_sizes import YieldingFloat, is_traced, plain_number

MOST = 1 << 14
"""Calls that are known."""
PLAIN = {int, float, bool, str, type(None)}
_FOUND: dict[Any, tuple[type | None, list[Any]]] = {}


def made(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What the function gives, without running it where it gave new tensors of operands of the same layout before.

    It is run each time where it may give an operand's memory, writes to an operand, or may depend on numbers.
    """
    with torch._C.DisableTorchFunction():
        key = None if torch.is_grad_enabled() else _key((function, args, kwargs))
        operands: list[Any] = [] if key is None else torch_tensors((args, kwargs))
        mode = next((each.fake_mode for each in operands if _is_fake(each)), None)
        if mode is not None and key in _FOUND:
            return _again(mode, *_FOUND[key])
        versions = [writes(each) for each in operands]
    result = function(*args, **kwargs)
    if mode is not None:
        with torch._C.DisableTorchFunction():
            if versions == [writes(each) for each in operands] and (found := _layouts(result, operands)) is not None:
                if len(_FOUND) >= MOST:
                    _FOUND.clear()
                _FOUND[key] = found
    return result


def _is_fake(tensor: torch.Tensor) -> bool:
    from torch._subclasses.fake_tensor import FakeTensor

    return type(tensor) is FakeTensor


def _layout(tensor: torch.Tensor) -> tuple[Any, ...]:
    return tuple(tensor.shape), tensor.stride(), tensor.dtype


def _key(tree: Any) -> Any:
    """What decides the layout of a call's result, of the function and its arguments; None where numbers may."""
    kind = type(tree)
    if kind in PLAIN or isinstance(tree, (torch.dtype, torch.device, torch.layout, torch.memory_format)):
        return kind, tree
    if kind is YieldingFloat or is_traced(tree):
        return _key(plain_number(tree))
    if kind in (tuple, list):
        parts = tuple(map(_key, tree))
        return None if None in parts else (kind, parts)
    if kind is dict:
        parts = tuple(map(_key, tree.values()))
        return None if None in parts else (kind, (*tree,), parts)
    if isinstance(tree, torch.Tensor):
        plain = kind in (torch.Tensor, torch.nn.Parameter) and tree.is_floating_point()
        known = plain or (_is_fake(tree) and vars(tree).get("constant") is None)
        strided = known and tree.layout == torch.strided and tree.is_cpu
        return (kind, *_layout(tree), tree.is_conj(), tree.is_neg()) if strided else None
    return (tree,) if callable(tree) and not isinstance(tree, type) else None


def _layouts(result: Any, operands: list[torch.Tensor]) -> tuple[type | None, list[Any]] | None:
    """The layouts of what a call gave: of a tensor, or of a tuple or list; None for anything but new tensors alone."""
    kind = type(result) if type(result) in (tuple, list) else None
    results = [result] if kind is None else [*result]
    if not results or not all(isinstance(each, torch.Tensor) and _is_fake(each) for each in results):
        return None
    memory = {*map(storage_of, (*operands, *results))}
    if len(memory) < len({*map(storage_of, operands)}) + len(results):
        return None
    simple = all(each.layout == torch.strided and not each.storage_offset() for each in results)
    return (kind, [_layout(each) for each in results]) if simple else None


def _again(mode: Any, kind: type | None, layouts: list[Any]) -> Any:
    from torch._subclasses.fake_tensor import FakeTensor

    with torch._C._DisableTorchDispatch():
        results = [
            FakeTensor(mode, torch.empty_strided(shape, stride, dtype=dtype, device="meta"), torch.device("cpu"))
            for shape, stride, dtype in layouts
        ]
    return results[0] if kind is None else kind(results)
