"""Values in dicts, lists and tuples, in one another."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def mapped(tree: Any, change: Callable[[Any], Any]) -> Any:
    """``change`` of each value in dicts, lists and tuples, which stay what they are.

    >>> mapped({"a": (1, [2, 3])}, str)
    {'a': ('1', ['2', '3'])}
    """
    if isinstance(tree, dict):
        return {key: mapped(part, change) for key, part in tree.items()}
    if isinstance(tree, (tuple, list)):
        parts = [mapped(part, change) for part in tree]
        return parts if isinstance(tree, list) else type(tree)(*parts) if hasattr(tree, "_fields") else tuple(parts)
    return change(tree)
