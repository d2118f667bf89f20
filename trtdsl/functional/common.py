"""What every file of this floor is written with: the layers, Tensors, torch, sizes, errors, families and ways; and what
is refused of arguments: ranks, dtypes and names that a function does not take."""
# ruff: noqa: F401

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .. import layers as L
from ..core.dtypes import as_dtype, dtype_name
from ..core.errors import DefinitionError, ShapeError, UnsupportedError, UsageError
from ..core.lazy import complexes, np, torch
from ..definition.graph import Call, Graph, Later, Layer, made_by
from ..definition.input import MAX_DIMS
from ..definition.operation import operation, require_network
from ..definition.precision import is_low
from ..definition.tensor import Draft as Network
from ..definition.tensor import Node, Selected, Tensor, weight_names_of
from ..layers.base import as_constant, broadcast, folding, normalize_axis
from ..sizes.shape import Shape, channels_last, hint, shape_text
from ..sizes.size import INFINITY, Size, SizeLike, bounds, floor_divide, is_static, product, size_max, size_min
from .family import family, member, prepared
from .lowerings import lowered, way


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
