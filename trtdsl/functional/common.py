"""What every file of this floor is written with: the layers, Tensors, torch, sizes, errors, families and ways."""
# ruff: noqa: F401

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
from .checks import require_floats, require_one_of, require_rank
from .family import family, member, prepared
from .lowerings import lowered, way
