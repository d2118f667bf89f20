"""Other spellings of torch's calls: numpy's names of arguments, Python's types as dtypes, sizes one by one."""

from __future__ import annotations

from typing import Any

from ...core.lazy import torch

ARGUMENTS = {"axis": "dim", "keepdims": "keepdim", "axis0": "dim0", "axis1": "dim1"}  # which torch takes for numpy's


def respelled(
    name: str, form: str, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any
) -> tuple[str, str, tuple[Any, ...], dict[str, Any]]:
    """The call's name, form and arguments as they are usually written; ``result`` is what it gives."""
    kwargs = {ARGUMENTS.get(key, key): item for key, item in kwargs.items()}
    if name.endswith("_with_indices"):  # what torch calls for return_indices
        return name.removesuffix("_with_indices"), form, args, {**kwargs, "return_indices": True}
    if form != "method":
        return name, form, args, kwargs
    if name in ("type", "byte", "char", "short") and isinstance(result, torch.Tensor):
        return "to", form, (args[0], result.dtype), {}
    if name == "new_tensor":
        return "tensor", "function", args[1:], {**kwargs, "dtype": result.dtype}
    if name == "broadcast_to" and len(args) > 2:
        return name, form, (args[0], args[1:]), kwargs
    return name, form, args, kwargs


def python_type(given: type) -> Any:
    """torch's dtype for a type of Python where torch takes one, as in ``dtype=int``; the type itself otherwise."""
    return {bool: torch.bool, int: torch.int64, float: torch.float64}.get(given, given)
