"""Complex numbers, which TensorRT does not have: a pair of Tensors with torch's operators and methods."""

from __future__ import annotations

import builtins
import functools
import inspect
import itertools
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ...core.html import folded
from ...core.lazy import F
from ...definition.function_methods import FunctionMethods
from ...definition.methods import ConversionMethods, ShapeMethods
from ...definition.operation import PAIRS
from ..common import DefinitionError, Network, ShapeError, Size, Tensor, operation, require_network, shape_text, torch
from ..constants import are_constants, of_constants
from ..operands import choose, floating

# Functions that move elements of values, or add them up: they are done to both parts.
OF_BOTH_PARTS = {
    *("atleast_1d", "atleast_2d", "atleast_3d", "broadcast_to", "cat", "chunk", "clone", "column_stack", "cumsum"),
    *("diag", "diag_embed", "diagonal", "dstack", "expand", "flatten", "flip", "fliplr", "flipud", "full_like"),
    *("gather", "getitem", "hstack", "index_add", "index_copy", "index_put", "index_select", "masked_fill"),
    *("masked_scatter", "mean", "movedim", "narrow", "neg", "pad", "permute", "ravel", "repeat", "repeat_interleave"),
    *("reshape", "roll", "rot90", "scatter", "scatter_add", "select", "select_scatter", "setitem", "slice_scatter"),
    *("split", "squeeze", "stack", "sum", "t", "take", "take_along_dim", "tile", "trace", "transpose", "tril", "triu"),
    *("unbind", "unflatten", "unfold_dimension", "unsqueeze", "view", "vstack", "where", "zeros_like"),
}
VALUES = {"input", "other", "tensor", "tensors", "src", "source", "value", "values", "fill_value"}
"""The parameters of these that are values, and not places or sizes."""
BIASED = {"linear", "conv1d", "conv2d", "conv3d"}
CONJUGATED = {"vdot", "vecdot"}  # of the first operand
PRODUCTS = {"bmm", "dot", "vdot", "vecdot", "mm", "mv", "outer", "inner", "kron", "tensordot"}


class ComplexTensor(FunctionMethods, ShapeMethods, ConversionMethods):
    """A complex value: ``real`` and ``imag`` are Tensors of one ``shape``.

    It has the operators ``+ - * / @ ** == !=``, indexing, and the methods of Tensor that move elements or
    add them up, and functions of these names take it: ``F.mul(x, z)``, ``F.exp(1j * x)``. A network's outputs are real:
    give :func:`view_as_real`, ``.real``, ``.imag`` or :func:`abs`.

    >>> z = F.view_as_complex(net.input("x", ("N", 3, 2)))
    >>> (z * z.conj()).real.shape
    (N, 3)
    """

    __array_ufunc__ = None

    def __init__(self, real: Tensor, imag: Tensor):
        self.real, self.imag = (real, imag) if real.shape == imag.shape else F.broadcast_tensors(real, imag)

    @property
    def dtype(self) -> torch.dtype:
        """torch's complex64 for parts of float32."""
        return torch.complex64 if self.real.dtype == torch.float32 else torch.complex32

    def _repr_html_(self) -> str:
        return folded(repr(self), self.real._repr_html_(), self.imag._repr_html_())

    def __repr__(self) -> str:
        return f"ComplexTensor({shape_text(self.shape)})"

    def __getattr__(self, name: str) -> Any:
        if name in ("ndim", "network", "shape", "size"):
            return getattr(self.real, name)
        if name in ("H", "mH"):
            return self.conj().mT
        raise AttributeError(f"a ComplexTensor has no {name!r}: of .real and .imag there is everything")

    def is_complex(self) -> bool:
        """True."""
        return True


def _added(a: Any, b: Any) -> ComplexTensor:
    if not isinstance(a, ComplexTensor):
        a, b = b, a
    return ComplexTensor(a.real + b, a.imag) if _is_real(b) else ComplexTensor(a.real + b.real, a.imag + b.imag)


def _divided(a: Any, b: Any) -> ComplexTensor:
    return ComplexTensor(a.real / b, a.imag / b) if _is_real(b) else F.mul(a, b.reciprocal())


def _power(a: Any, b: Any) -> ComplexTensor:
    if isinstance(b, int):
        power = functools.reduce(operator.mul, [a] * abs(b)) if b else F.ones_like(a)
        return power.reciprocal() if b < 0 else power
    if are_constants((a, b)):
        return of_constants(torch.pow, a, b)
    return F.exp(F.log(_as_complex(a, require_network(a, b))) * b)


def _are_equal(a: Any, b: Any) -> Tensor:
    a, b = (_as_complex(each, require_network(a, b)) for each in (a, b))
    return F.logical_and(a.real == b.real, a.imag == b.imag)


OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "add": _added,
    "sub": lambda a, b: _added(a, -b),
    "mul": lambda a, b: _by_parts(F.mul, (a, b) if isinstance(a, ComplexTensor) else (b, a)),
    "matmul": lambda a, b: _by_parts(F.matmul, (a, b)),
    "div": _divided,
    "pow": _power,
    "eq": _are_equal,
    "ne": lambda a, b: F.logical_not(_are_equal(a, b)),
}
"""Functions of two operands, one of them complex."""


def _log(z: ComplexTensor) -> ComplexTensor:
    """``log(abs) + i angle``; of the larger part and the ratio of both, so that an abs near 1 loses nothing."""
    parts = z.real.abs(), z.imag.abs()
    large, small = F.maximum(*parts), F.minimum(*parts)
    ratio = small / choose(large == 0, 1.0, large)
    return ComplexTensor(F.log(large) + F.log1p(ratio * ratio) * 0.5, F.angle(z))


def _tanh(z: ComplexTensor) -> ComplexTensor:
    """``(t + i s c (1 - t²)) / (c² + s² t²)``, of the real part's tanh t, and the other's sine s and cosine c."""
    t, s, c = F.tanh(z.real), F.sin(z.imag), F.cos(z.imag)
    return ComplexTensor(t, s * c * (1 - t * t)) / (c * c + s * s * t * t)


def _reciprocal(z: ComplexTensor) -> ComplexTensor:
    """``conj / (real * real + imag * imag)``, of both parts over the larger, whose squares neither overflow nor
    vanish."""
    large = F.maximum(z.real.abs(), z.imag.abs())
    real, imag = z.real / large, z.imag / large
    size = real * real + imag * imag
    return ComplexTensor(real / size / large, -imag / size / large)


def _to(z: ComplexTensor, *args: Any, dtype: Any = None, **_: Any) -> Any:
    """Itself, since complex numbers have one precision; of a real dtype the real part, as torch gives it."""
    dtype = dtype or next((each for each in args if isinstance(each, torch.dtype)), z.dtype)
    return z if dtype.is_complex else z.real.to(dtype)


OF_ITSELF: dict[str, Callable[..., Any]] = {
    "real": lambda z: z.real,
    "imag": lambda z: z.imag,
    "conj": lambda z: ComplexTensor(z.real, -z.imag),
    "abs": lambda z: F.hypot(z.real, z.imag),
    "angle": lambda z: F.atan2(z.imag, z.real),
    "log": _log,
    "tanh": _tanh,
    "reciprocal": _reciprocal,
    "to": _to,
    "exp": lambda z: polar(F.exp(z.real), z.imag),
    "sqrt": lambda z: polar(F.sqrt(z.abs()), z.angle() * 0.5),  # whose real part is not negative
    "rsqrt": lambda z: z.sqrt().reciprocal(),
    "square": lambda z: z * z,
    "sgn": lambda z: z / choose((size := z.abs()) == 0, 1.0, size),
    "sinh": lambda z: ComplexTensor(F.sinh(z.real) * F.cos(z.imag), F.cosh(z.real) * F.sin(z.imag)),
    "cosh": lambda z: ComplexTensor(F.cosh(z.real) * F.cos(z.imag), F.sinh(z.real) * F.sin(z.imag)),
    "sin": lambda z: (z * 1j).sinh() * -1j,
    "cos": lambda z: (z * 1j).cosh(),
    "tan": lambda z: (z * 1j).tanh() * -1j,
    "cumprod": lambda z, dim: polar(F.cumprod(z.abs(), dim), z.angle().cumsum(dim)),
    "prod": lambda z, dim=None, keepdim=False: polar(F.prod(z.abs(), dim, keepdim), z.angle().sum(dim, keepdim)),
    "ones_like": lambda z, **options: F.full_like(z, 1, **options),
    "isnan": lambda z: F.logical_or(F.isnan(z.real), F.isnan(z.imag)),
    "isinf": lambda z: F.logical_or(F.isinf(z.real), F.isinf(z.imag)),
    "isfinite": lambda z: F.logical_and(F.isfinite(z.real), F.isfinite(z.imag)),
}
"""Functions of one value, by what they compute of it."""


def _is_real(other: Any) -> bool:
    if isinstance(other, torch.Tensor):
        return not other.is_complex()
    return isinstance(other, (int, float, Size, Tensor))


def _of_pairs(name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """What a function of torch's gives of complex values; torch's own result of constants, where nothing here is for
    it. NotImplemented for other functions."""
    if name in ("add", "sub") and "alpha" in kwargs:
        args, kwargs = (args[0], args[1] * kwargs["alpha"]), {}
    if name in OPERATORS and len(args) == 2 and not kwargs:
        network = require_network(*args)
        return OPERATORS[name](*(each if _is_real(each) else _as_complex(each, network) for each in args))
    if name == "einsum" and isinstance(args[0], str):
        return _by_parts(lambda *parts: F.einsum(args[0], *parts, **kwargs), args[1:])
    if name in BIASED:
        return _with_bias(name, *args, **kwargs)
    if name in CONJUGATED:
        args = (F.conj(args[0]), *args[1:])
    if name in PRODUCTS and len(args) > 1:
        return _by_parts(lambda a, b: getattr(F, name)(a, b, *args[2:], **kwargs), args[:2])
    if name in OF_BOTH_PARTS:
        return _of_both_parts(getattr(F, name), args, kwargs)
    if name in OF_ITSELF:
        return OF_ITSELF[name](*args, **kwargs)
    function = getattr(torch, name, getattr(torch.linalg, name, None))
    if callable(function) and name not in ("view_as_real", "istft") and are_constants((args, kwargs)):
        return of_constants(function, *args, **kwargs)
    return NotImplemented


def _with_bias(name: str, input: Any, weight: Any, bias: Any = None, *args: Any, **kwargs: Any) -> ComplexTensor:
    """A product with weights, whose bias is added along the channels."""
    product = _by_parts(lambda a, b: getattr(F, name)(a, b, None, *args, **kwargs), (input, weight))
    if bias is None:
        return product
    return product + (bias if name == "linear" else bias.reshape(-1, *[1] * (weight.ndim - 2)))


def _of_both_parts(function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """What is done to the real and to the imaginary parts of its operands alike."""
    bound = inspect.signature(function).bind(*args, **kwargs)
    given = bound.arguments
    operands = [each for value in given.values() for each in (value if isinstance(value, (list, tuple)) else [value])]
    network, dtype = require_network(*operands), given.pop("dtype", None)
    values = VALUES - {"source"} if function.__name__ == "movedim" else VALUES  # there it is places

    def of(name: str) -> Any:
        bound.arguments = {key: _part(name, network, x) if key in values else x for key, x in given.items()}
        if wrong := [key for key, x in bound.arguments.items() if isinstance(x, ComplexTensor)]:
            raise DefinitionError(f"F.{function.__name__} takes no complex value as {wrong[0]!r}")
        return function(*bound.args, **bound.kwargs)

    real = of("real")
    if dtype is not None and not dtype.is_complex:
        return real
    imag = of("imag")
    return ComplexTensor(real, imag) if isinstance(real, Tensor) else tuple(map(ComplexTensor, real, imag))


def _part(name: str, network: Network, value: Any) -> Any:
    """The real or the imaginary part of a value, which may be a number, or of each in a list; None of none."""
    if type(value) in (list, tuple):
        return [_part(name, network, each) for each in value]
    if isinstance(value, (int, float, builtins.complex)) or value is None:
        return value if value is None else getattr(value, name)
    return getattr(_as_complex(value, network), name)


def _by_parts(product: Callable[..., Tensor], operands: Sequence[Any]) -> ComplexTensor:
    """What is linear in each of the operands, as a sum of it of their parts, each with its power of i."""
    network = require_network(*operands)
    values = [each if _is_real(each) else _as_complex(each, network) for each in operands]
    parts = [(each.real, each.imag) if isinstance(each, ComplexTensor) else (each,) for each in values]
    sums: list[list[Any]] = [[None, None], [None, None]]  # added and subtracted, of the real and the imaginary part
    for taken in itertools.product(*(range(len(pair)) for pair in parts)):
        power = sum(taken) % 4
        term, kept = product(*(pair[i] for pair, i in zip(parts, taken))), sums[power % 2]
        kept[power // 2] = term if kept[power // 2] is None else kept[power // 2] + term
    return ComplexTensor(*(plus if minus is None else plus - minus for plus, minus in sums))


PAIRS.update(dict.fromkeys((ComplexTensor, builtins.complex), _of_pairs))


def complex_constant(network: Network, data: torch.Tensor, weight_names: tuple[str, ...] = ()) -> ComplexTensor:
    """A complex torch tensor as two constants."""
    return ComplexTensor(*(network.plain_constant(part.contiguous(), weight_names) for part in (data.real, data.imag)))


def of_real(real: Tensor) -> ComplexTensor:
    """Complex values without an imaginary part, which is a constant that is repeated: an ISliceLayer."""
    return ComplexTensor(real, real.network.constant(torch.tensor(0.0, dtype=real.dtype)))


def _as_complex(value: Any, network: Network) -> ComplexTensor:
    if isinstance(value, ComplexTensor):
        return value
    if isinstance(value, builtins.complex):
        return ComplexTensor(network.constant(float(value.real)), network.constant(float(value.imag)))
    if isinstance(value, torch.Tensor) and value.is_complex():
        return complex_constant(network, value)
    if isinstance(value, (Tensor, torch.Tensor, int, float)):
        return of_real(network.constant(float(value) if isinstance(value, int) else value))
    raise DefinitionError(f"expected a complex value, a Tensor or a number, not {type(value).__name__}")


@operation
def view_as_complex(input: Tensor) -> Any:
    """Pairs in the last dimension (…, 2) as complex numbers (…): two ISliceLayers."""
    if input.ndim == 0 or input.shape[-1] != 2:
        raise ShapeError(f"view_as_complex takes pairs in the last dimension, not {shape_text(input.shape)}")
    return ComplexTensor(*F.unbind(input, -1))


@operation
def view_as_real(input: Any) -> Tensor:
    """Complex numbers (…) as pairs (…, 2) of Tensors: IConcatenationLayer."""
    if not isinstance(input, ComplexTensor):
        raise DefinitionError("view_as_real takes a complex value: F.view_as_complex and F.fft make them")
    return F.stack([input.real, input.imag], -1)


@operation
def complex(real: Tensor, imag: Tensor) -> Any:
    """A complex value of its two parts; no layer."""
    return ComplexTensor(real, imag)


@operation
def polar(abs: Tensor, angle: Tensor) -> Any:
    """``abs * (cos(angle) + i sin(angle))``: the layers of :func:`cos` and :func:`sin`, IElementWiseLayers PROD."""
    return ComplexTensor(abs * F.cos(angle), abs * F.sin(angle))


@operation
def real(input: Any) -> Any:
    """The real part; of a Tensor itself. No layer."""
    return input


@operation
def imag(input: Any) -> Tensor:
    """The imaginary part of a complex value; no layer."""
    raise DefinitionError("imag takes a complex value, as torch does")


@operation
def conj(input: Any) -> Any:
    """The conjugate; of a Tensor itself: IUnaryLayer NEG."""
    return input


@operation
def angle(input: Any) -> Any:
    """The angle of complex values: the layers of :func:`atan2`; pi or 0 of real ones: ISelectLayers."""
    x = floating(input)
    return choose(x < 0, math.pi, choose(F.isnan(x), x, 0.0), x.dtype)
