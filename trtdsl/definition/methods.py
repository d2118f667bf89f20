"""Methods of Tensor that differ from the functions of their names: sizes one by one, dtypes, copies, what numpy asks.

Each is one call into :mod:`trtdsl.functional`. The methods that are functions themselves are in
:mod:`trtdsl.definition.function_methods`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from ..sizes.torch_calls import OPERATORS as TORCH_OPERATORS
from .common import DefinitionError, F, Shape, dtype_name, nearest, np, shape_text, torch

if TYPE_CHECKING:
    from typing_extensions import Self

Dims = int | Sequence[int] | None
T = TypeVar("T")


def _listed(values: tuple[Any, ...]) -> tuple[Any, ...]:
    """``x.reshape(2, 3)`` and ``x.reshape((2, 3))`` alike: the values as one tuple."""
    return tuple(values[0]) if len(values) == 1 and isinstance(values[0], (list, tuple)) else values


class ShapeMethods:
    """Methods that take sizes or dimensions one by one, or as one tuple."""

    __slots__ = ()

    def reshape(self, *shape: Any) -> Self:
        """The elements in another shape: ``x.reshape(2, 3)`` or ``x.reshape((2, 3))``."""
        return F.reshape(self, _listed(shape))

    def permute(self, *dims: Any) -> Self:
        """The dimensions in another order: ``x.permute(1, 0)`` or ``x.permute((1, 0))``."""
        return F.permute(self, _listed(dims))

    def tile(self, *dims: Any) -> Self:
        """The tensor repeated: ``x.tile(2, 3)`` or ``x.tile((2, 3))``."""
        return F.tile(self, _listed(dims))

    def flip(self, *dims: Any) -> Self:
        """Some dimensions in reverse: ``x.flip(0, 1)`` or ``x.flip((0, 1))``."""
        return F.flip(self, _listed(dims))

    def unfold(self, dimension: Any, size: Any, step: Any) -> Self:
        """Windows of ``size`` along a dimension, every ``step``, as a new last dimension."""
        return F.unfold_dimension(self, dimension, size, step)

    def where(self, condition: Any, other: Any) -> Self:
        """The tensor's elements where ``condition`` holds, elsewhere those of ``other``."""
        return F.where(condition, self, other)

    @property
    def T(self) -> Self:
        """A matrix transposed."""
        return F.t(self)

    @property
    def mT(self) -> Self:
        """The last two dimensions transposed."""
        return F.transpose(self, -2, -1)


def _to(dtype: str) -> Callable[[T], T]:
    def method(self: T) -> T:
        return F.to(self, getattr(torch, dtype))

    method.__doc__ = f"The tensor as {dtype}."
    return method


class ConversionMethods:
    """Other dtypes, and copies, which a network does not need."""

    __slots__ = ()

    def to(self, *args: Any, dtype: Any = None, **kwargs: Any) -> Self:
        """The tensor in another dtype: ``x.to(torch.float16)``, ``x.to(other)``; devices are left to the engine."""
        return F.to(self, *args, dtype=dtype, **kwargs)

    def type_as(self, other: Any) -> Self:
        """The tensor in the dtype of another."""
        return F.to(self, other.dtype)

    float, half, bfloat16 = _to("float32"), _to("float16"), _to("bfloat16")
    int, long, bool = _to("int32"), _to("int64"), _to("bool")

    def contiguous(self, memory_format: Any = None) -> Self:
        """The tensor itself: layouts are TensorRT's to choose."""
        return F.clone(self, memory_format=memory_format)

    def detach(self, *args: Any, **kwargs: Any) -> Self:
        """The tensor itself: a network has no gradients, and an engine places its values."""
        return F.clone(self)

    cpu = cuda = detach


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

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Self:
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


TORCHS_NAMES = {**TORCH_OPERATORS, "expit": "sigmoid"}  # torch calls some of its operators otherwise than its functions
# Members of torch.Tensor that a value in a network cannot have, and what to write instead.
NO_VALUE = "has its value when the engine runs: return it from the network"
NO_LAYOUT = "lies in memory where and how TensorRT puts it"
NO_GRADIENT = "has no gradients: a network only runs forward"
ABSENT = {
    **dict.fromkeys(("numpy", "tolist"), NO_VALUE),
    **dict.fromkeys(("data_ptr", "storage", "untyped_storage", "stride", "is_contiguous"), NO_LAYOUT),
    **dict.fromkeys(("grad", "backward", "requires_grad_", "retain_grad", "register_hook"), NO_GRADIENT),
    "copy_": "does not change in place: write y = x, or F.where, F.cat or F.index_put for a part",
    "double": "makes float64, which TensorRT does not have: write x.float()",
    "new_tensor": "makes a constant: write torch.tensor(…), which any function takes beside Tensors",
}
NO_TRUTH = "a Tensor has no truth value while the network is written: use F.where, or td.cond for a branch at run time"
NO_ITEM = (
    "only a constant has a value while the network is written: leave .item() out, a Tensor of one element calculates "
    "as a number does"
)
NO_NUMBER = (
    "a Tensor has no one value while the network is written, for Python's int(), float() and math: use the "
    "functions of trtdsl.functional (F.sqrt, F.floor); a size is calculated with //, as h * 3 // 2"
)
OF_MEMORY = {"device", "layout", "pin_memory", "requires_grad", "inplace", "_stacklevel"}  # say nothing of values


class Refusals:
    """What torch.Tensor has and a value in a network cannot have: each refusal says what to write instead."""

    __slots__ = ()
    shape: Shape
    dtype: torch.dtype

    @classmethod
    def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """torch's functions on Tensors are their namesakes in functional: ``torch.relu(x)``, ``torch_tensor + x``."""
        name = getattr(function, "__name__", str(function))
        plain = name.strip("_")
        for family in ("linalg_", "special_", "fft_"):
            plain = plain if plain == "linalg_norm" else plain.removeprefix(family)
        namesake = getattr(F, TORCHS_NAMES.get(plain, plain), None)
        if namesake is None:
            raise DefinitionError(
                f"torch's own {name} does not take a trtdsl Tensor: dir(trtdsl.functional) lists what there is"
            )
        kwargs = dict(kwargs or {})
        if kwargs.pop("out", None) is not None:
            raise DefinitionError(
                f"torch.{name}(…, out=) writes into a tensor, and a network's do not change: use what it gives"
            )
        in_place = kwargs.get("inplace") or (name == f"{plain}_" and plain != name)
        given = {key: value for key, value in kwargs.items() if key not in OF_MEMORY}
        try:
            inspect.signature(namesake).bind(*args, **given)
        except TypeError as error:
            raise DefinitionError(f"torch's own {name} on a trtdsl Tensor is F.{namesake.__name__}: {error}") from None
        result = namesake(*args, **given)
        changed = args[0] if args else given.get("input")
        return changed._changed_to(result) if in_place and isinstance(changed, cls) else result

    if not TYPE_CHECKING:  # for which a name that a value does not have is an error

        def __getattr__(self, name: str) -> Any:
            if name.startswith("__"):
                raise AttributeError(name)
            if name == "network":
                raise DefinitionError(
                    f"this Tensor, {shape_text(self.shape)} {dtype_name(self.dtype)}, was changed in place before (+=, "
                    "inplace=True, torch.relu_), which torch does to each name of it, and a network to none: write "
                    "x = x + y, and use the new one"
                )
            known = [each for each in dir(type(self)) if not each.startswith("_")]
            if name in ABSENT:
                raise AttributeError(f"a Tensor has no {name!r}: it {ABSENT[name]}")
            if name.endswith("_") and name[:-1] in known and callable(getattr(type(self), name[:-1])):
                hint = f"a network's tensors do not change in place, write x = x.{name[:-1]}(…)"
            elif not name.startswith("_") and hasattr(F, name):
                hint = f"write F.{name}(x, …), of trtdsl.functional"
            else:
                hint = f"dir(trtdsl.functional) lists what there is{nearest(name, known)}"
            raise AttributeError(f"a Tensor has no {name!r}: {hint}")

    def __setitem__(self, index: Any, value: Any) -> None:
        raise DefinitionError(
            "a network's tensors do not change in place: F.where, F.cat, F.index_put, F.scatter and F.masked_fill "
            "give a new one"
        )

    def _changed_to(self, result: Self) -> Self:
        """The result of a change in place; this Tensor has the value from before, and must not be used any more."""
        if result is not self:
            delattr(self, "network")  # nothing more is done with it
        return result
