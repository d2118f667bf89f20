"""What is refused of arguments: ranks, dtypes and names that a function does not take."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..core.dtypes import dtype_name
from ..core.errors import DefinitionError, ShapeError, UnsupportedError
from ..definition.tensor import Tensor
from ..sizes.shape import shape_text


def require_rank(x: Tensor, takes: str, least: int, most: int | None = None) -> None:
    """ShapeError, which says what a function takes, for another number of dimensions: ``least``, or up to ``most``."""
    if not least <= x.ndim <= (least if most is None else most):
        raise ShapeError(f"{takes}, not {shape_text(x.shape)}")


def require_floats(takes: str, *tensors: Tensor) -> None:
    """UnsupportedError, which says what a function takes, for tensors of another kind."""
    for tensor in tensors:
        if not tensor.dtype.is_floating_point:
            instead = "compute with .real and .imag" if tensor.dtype.is_complex else "cast it first"
            raise UnsupportedError(f"{takes} floating-point numbers, not {dtype_name(tensor.dtype)}: {instead}")


def require_one_of(names: str, given: Any, known: Iterable[str | None]) -> None:
    """DefinitionError, which says what ``given`` names, for a name that is not among those known."""
    if given not in known:
        raise DefinitionError(f"{names} is one of {', '.join(map(repr, known))}, not {given!r}")
