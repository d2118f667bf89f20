"""Arithmetic on sizes whose result is not a size: fractions, roots, true division."""

from __future__ import annotations

from typing import Any

from ...definition.operation import author_location, find_network
from ..common import Size, Tensor, UsageError, torch
from ..operands import as_tensor
from . import arithmetic

SIGNS = {"add": "+", "sub": "-", "mul": "*", "div": "/", "floor_divide": "//", "remainder": "%", "pow": "**"}


def fraction(function: str, left: Any, right: Any) -> Tensor:
    """The result of an operator on a Size and a number where it is not a size: a 0-d Tensor.

    Computed when the network runs. It is float32, as a Python float counts in torch; a power of an int by a size is
    int64. IShapeLayer and IGatherLayer for the size, ICastLayer, and the layers of ``function``.

    Raises UsageError, with the author's line, where no network is being written.

    >>> x = net.input("x", (2, "T", 3))
    >>> with net.current():
    ...     scale = x.shape[1] ** -0.5
    >>> (x * scale).shape, scale.shape, scale.dtype
    ((2, T, 3), (), torch.float32)
    """
    network = find_network(())
    if network is None:
        raise UsageError(
            f"no network here to compute {left} {SIGNS.get(function, function)} {right}, which is a Tensor: write it "
            "in a @td.network function, or inside `with net.current():`",
            location=author_location(),
        )
    whole = function == "pow" and isinstance(left, int)
    with network.operation(function):
        operands = (
            as_tensor(x, network, None if whole else torch.float32)
            if isinstance(x, Size) or function in ("maximum", "minimum")
            else x
            for x in (left, right)
        )
        return getattr(arithmetic, function)(*operands)
