"""What every file of this floor is written with: adding and evaluating layers, Tensors, torch, sizes, errors."""
# ruff: noqa: F401

from ..core.dtypes import as_dtype, dtype_name
from ..core.errors import DefinitionError, ShapeError, UnsupportedError
from ..core.lazy import np, torch
from ..definition.operation import operation
from ..definition.tensor import Draft as Network
from ..definition.tensor import Tensor
from ..sizes.shape import Shape, channels_last, shape_text
from ..sizes.size import Size, SizeLike, is_static
from .base import add_layer, add_region_layer, adds, axes_mask, axes_of, broadcast, folding, member, normalize_axis
from .evaluation import Evaluate, Given, Mistakes, Node, Shapes, computes, count, evaluates, is_half, storage
