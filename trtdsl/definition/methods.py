"""Methods of Tensor that differ from the functions of their names: sizes one by one, dtypes, copies, what numpy asks.

Each is one call into :mod:`trtdsl.functional`. The methods that are functions themselves are in
:mod:`trtdsl.definition.function_methods`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ..core.errors import DefinitionError
from ..core.lazy import F, np, torch

if TYPE_CHECKING:
    from .tensor import Tensor

Dims = int | Sequence[int] | None


class Extremes(NamedTuple):
    """What :func:`aminmax` gives."""

    min: Tensor
    max: Tensor


class Selected(NamedTuple):
    """Values and where they were, as :func:`max`, :func:`sort` and :func:`topk` give them."""

    values: Tensor
    indices: Tensor


def _listed(values: tuple[Any, ...]) -> tuple[Any, ...]:
    """``x.reshape(2, 3)`` and ``x.reshape((2, 3))`` alike: the values as one tuple."""
    return tuple(values[0]) if len(values) == 1 and isinstance(values[0], (list, tuple)) else values


class ShapeMethods:
    """Methods that take sizes or dimensions one by one, or as one tuple."""

    __slots__ = ()

    def reshape(self, *shape: Any) -> Tensor:
        """The elements in another shape: ``x.reshape(2, 3)`` or ``x.reshape((2, 3))``."""
        return F.reshape(self, _listed(shape))

    def permute(self, *dims: Any) -> Tensor:
        """The dimensions in another order: ``x.permute(1, 0)`` or ``x.permute((1, 0))``."""
        return F.permute(self, _listed(dims))

    def tile(self, *dims: Any) -> Tensor:
        """The tensor repeated: ``x.tile(2, 3)`` or ``x.tile((2, 3))``."""
        return F.tile(self, _listed(dims))

    def flip(self, *dims: Any) -> Tensor:
        """Some dimensions in reverse: ``x.flip(0, 1)`` or ``x.flip((0, 1))``."""
        return F.flip(self, _listed(dims))

    def unfold(self, dimension: Any, size: Any, step: Any) -> Tensor:
        """Windows of ``size`` along a dimension, every ``step``, as a new last dimension."""
        return F.unfold_dimension(self, dimension, size, step)

    def where(self, condition: Tensor, other: Any) -> Tensor:
        """The tensor's elements where ``condition`` holds, elsewhere those of ``other``."""
        return F.where(condition, self, other)

    @property
    def T(self) -> Tensor:
        """A matrix transposed."""
        return F.t(self)

    @property
    def mT(self) -> Tensor:
        """The last two dimensions transposed."""
        return F.transpose(self, -2, -1)


class ConversionMethods:
    """Other dtypes, and copies, which a network does not need."""

    __slots__ = ()

    def to(self, *args: Any, dtype: Any = None, **kwargs: Any) -> Tensor:
        """The tensor in another dtype: ``x.to(torch.float16)``, ``x.to(other)``; devices are left to the engine."""
        return F.to(self, *args, dtype=dtype, **kwargs)

    def type_as(self, other: Tensor) -> Tensor:
        """The tensor in the dtype of another."""
        return F.to(self, other.dtype)

    def float(self) -> Tensor:
        """The tensor as float32."""
        return F.to(self, torch.float32)

    def half(self) -> Tensor:
        """The tensor as float16."""
        return F.to(self, torch.float16)

    def bfloat16(self) -> Tensor:
        """The tensor as bfloat16."""
        return F.to(self, torch.bfloat16)

    def int(self) -> Tensor:
        """The tensor as int32."""
        return F.to(self, torch.int32)

    def long(self) -> Tensor:
        """The tensor as int64."""
        return F.to(self, torch.int64)

    def bool(self) -> Tensor:
        """Whether each element is not zero."""
        return F.to(self, torch.bool)

    def contiguous(self, memory_format: Any = None) -> Tensor:
        """The tensor itself: layouts are TensorRT's to choose."""
        return F.clone(self, memory_format=memory_format)

    def cpu(self) -> Tensor:
        """The tensor itself: an engine places its values."""
        return F.clone(self)

    def cuda(self, device: Any = None, non_blocking: Any = False) -> Tensor:
        """The tensor itself: an engine places its values."""
        return F.clone(self)

    def detach(self) -> Tensor:
        """The tensor itself: a network has no gradients."""
        return F.clone(self)


# -- numpy -----------------------------------------------------------------------------------------------------------

# What numpy calls for `array + tensor`: torch has these names, too, but for two.
OPERATORS = {
    *("add", "subtract", "multiply", "divide", "true_divide", "floor_divide", "remainder", "power", "matmul", "equal"),
    *("not_equal", "less", "less_equal", "greater", "greater_equal", "bitwise_and", "bitwise_or", "bitwise_xor"),
}
# Of numpy's functions, what torch calls them where it is not the same.
NAMESAKES = {
    "concatenate": "cat",
    "conjugate": "conj",
    "expand_dims": "unsqueeze",
    "power": "pow",
    "split": "chunk",
    "array_split": "tensor_split",
    "repeat": "repeat_interleave",
    "take": "index_select",
    "matrix_transpose": "transpose",
    "invert": "bitwise_not",
    "append": "cat",
    "equal": "eq",
    "max": "amax",
    "min": "amin",
    "rint": "round",
}


class NumpyCalls:
    """What numpy asks of an operand that is no array."""

    __slots__ = ()

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Tensor:
        name: str = ufunc.__name__
        if method == "__call__" and name in OPERATORS and not kwargs:
            return getattr(F, NAMESAKES.get(name, name))(*inputs)
        raise DefinitionError(_instead(name if method == "__call__" else f"{name}.{method}"))

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        raise DefinitionError(_instead(function.__name__))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        value = getattr(self, "data", None)
        if value is not None:
            return np.array(value.numpy(), dtype=dtype)
        raise DefinitionError(
            "a Tensor has no values while the network is written, so numpy cannot make an array of it: use the "
            "functions of trtdsl.functional on it, and numpy on what the engine gives"
        )


def _instead(name: str) -> str:
    """What to write instead of a function of numpy."""
    ours = NAMESAKES.get(name, name)
    known = hasattr(F, ours)
    instead = f"write F.{ours}(…), of trtdsl.functional" if known else "dir(trtdsl.functional) lists what there is"
    return f"numpy's {name} does not take a trtdsl Tensor: {instead}"
