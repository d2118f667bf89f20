"""What every file of this room is written with: errors, torch, dtypes, sizes, names of files."""
# ruff: noqa: F401

from ..core.caller import to_write
from ..core.dtypes import SHORT, as_dtype, dtype_name
from ..core.errors import DefinitionError, Location, UnsupportedError, UsageError, WeightsError, nearest
from ..core.files.names import check_characters, check_is_file, file_name, is_file, is_folder, nearest_beside
from ..core.html import folded, table
from ..core.lazy import CURRENT_NETWORK, F, np, torch
from ..sizes.dim import Dim
from ..sizes.shape import Shape, shape_text, substitute
from ..sizes.size import Atom, Size, SizeLike, value
