"""What every file of this floor is written with: the layers, Tensors, torch, sizes and errors."""
# ruff: noqa: F401

from .. import layers as L
from ..core.dtypes import as_dtype, dtype_name
from ..core.errors import DefinitionError, ShapeError, UnsupportedError
from ..core.lazy import np, torch
from ..definition.graph import Call
from ..definition.input import MAX_DIMS
from ..definition.operation import operation, require_network
from ..definition.tensor import Draft as Network
from ..definition.tensor import Tensor
from ..layers.base import as_constant, broadcast, folding, normalize_axis
from ..sizes.shape import Shape, channels_last, shape_text
from ..sizes.size import Size, SizeLike, bounds, is_static, product
