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
from ...definition.operation import PAIRS
from ..common import DefinitionError, Network, ShapeError, Size, Tensor, operation, require_network, shape_text, torch
from ..constants import are_constants, of_constants
from ..operands import choose, floating

# Methods that move elements, or add them up: they are done to both parts.
OF_BOTH_PARTS = {
    *("broadcast_to", "chunk", "clone", "contiguous", "cumsum", "diagonal", "expand", "flatten", "flip", "gather"),
    *("index_select", "mean", "moveaxis", "movedim", "narrow", "permute", "ravel", "repeat", "repeat_interleave"),
    *("reshape", "roll", "select", "split", "squeeze", "sum", "swapaxes", "swapdims", "t", "tile", "transpose", "tril"),
    *("triu", "unbind", "unflatten", "unfold", "unsqueeze", "view"),
}
OF_EITHER_PART = {"ndim", "network", "shape", "size"}
OPERATORS = {
    **{name: (f"__{name}__", f"__r{name}__") for name in ("add", "sub", "mul", "matmul", "pow")},
    **dict.fromkeys(("div", "true_divide"), ("__truediv__", "__rtruediv__")),
    **{name: (f"__{name}__", f"__{name}__") for name in ("eq", "ne")},
}
"""The method of the first operand, and that of the second where it alone is complex."""

# Functions of several values that move elements of these: they are done to both parts.
MOVING = {
    *("cat", "stack", "hstack", "vstack", "dstack", "column_stack", "pad", "setitem", "slice_scatter", "scatter"),
    *("select_scatter", "index_put", "index_copy", "index_add", "scatter_add", "masked_fill", "masked_scatter"),
    *("zeros_like", "full_like", "diag", "diag_embed", "trace", "rot90", "fliplr", "flipud", "take_along_dim", "take"),
    "where",
}
VALUES = {"input", "other", "tensor", "tensors", "src", "source", "value", "values", "fill_value"}
"""The parameters of these that are values, and not places or sizes."""
TAKING = {"real", "imag", "conj", "angle", "view_as_real", "istft"}  # which take complex values themselves
BIASED = {"linear", "conv1d", "conv2d", "conv3d"}
CONJUGATED = {"vdot", "vecdot"}  # of the first operand
PRODUCTS = {"bmm", "dot", "vdot", "vecdot", "mm", "mv", "outer", "inner", "kron", "tensordot"}


class ComplexTensor:
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
        if name in OF_EITHER_PART:
            return getattr(self.real, name)
        if name in ("T", "mT"):
            return self._both(lambda part: getattr(part, name))
        if name in ("H", "mH"):
            return self.conj().mT
        if name in OF_BOTH_PARTS:
            return lambda *args, **kwargs: self._both(lambda part: getattr(part, name)(*args, **kwargs))
        if name in OF_ITSELF:
            return functools.partial(OF_ITSELF[name], self)
        if name.startswith("_") or not hasattr(F, name):
            raise AttributeError(
                f"a ComplexTensor has no {name!r}: it has the operators, {', '.join(sorted(OF_BOTH_PARTS))}; "
                "of .real and .imag there is everything"
            )
        return functools.partial(getattr(F, name), self)

    def _both(self, change: Callable[[Tensor], Any]) -> Any:
        real, imag = change(self.real), change(self.imag)
        if isinstance(real, Tensor):
            return ComplexTensor(real, imag)
        return type(real)(ComplexTensor(a, b) for a, b in zip(real, imag, strict=True))

    def __getitem__(self, index: Any) -> ComplexTensor:
        return self._both(lambda part: part[index])

    def __neg__(self) -> ComplexTensor:
        return self._both(operator.neg)

    def __add__(self, other: Any) -> ComplexTensor:
        if _is_real(other):
            return ComplexTensor(self.real + other, self.imag)
        b = _as_complex(other, self.network)
        return ComplexTensor(self.real + b.real, self.imag + b.imag)

    def __sub__(self, other: Any) -> ComplexTensor:
        return self + -other

    def __mul__(self, other: Any) -> ComplexTensor:
        return _by_parts(F.mul, (self, other))

    def __matmul__(self, other: Any) -> ComplexTensor:
        return _by_parts(F.matmul, (self, other))

    def __truediv__(self, other: Any) -> ComplexTensor:
        if _is_real(other):
            return self._both(lambda part: part / other)
        return self * _as_complex(other, self.network).reciprocal()

    def __pow__(self, other: Any) -> ComplexTensor:
        if isinstance(other, int):
            power = functools.reduce(operator.mul, [self] * abs(other)) if other else self.ones_like()
            return power.reciprocal() if other < 0 else power
        if are_constants((self, other)):
            return of_constants(torch.pow, self, other)
        return (self.log() * other).exp()

    def __rpow__(self, other: Any) -> ComplexTensor:
        return (_as_complex(other, self.network).log() * self).exp()

    def __eq__(self, other: Any) -> Any:
        b = _as_complex(other, self.network)
        return F.logical_and(self.real == b.real, self.imag == b.imag)

    def __ne__(self, other: Any) -> Any:
        return F.logical_not(self == other)

    def __rsub__(self, other: Any) -> ComplexTensor:
        return -self + other

    def __rtruediv__(self, other: Any) -> ComplexTensor:
        return self.reciprocal() * other

    __radd__ = __add__
    __rmul__ = __mul__

    neg = __neg__

    def conj(self) -> ComplexTensor:
        """The conjugate: IUnaryLayer NEG of the imaginary part."""
        return ComplexTensor(self.real, -self.imag)

    def abs(self) -> Tensor:
        """The absolute value, as :func:`hypot` of both parts."""
        return F.hypot(self.real, self.imag)

    def angle(self) -> Tensor:
        """The angle, as :func:`atan2` of both parts."""
        return F.atan2(self.imag, self.real)

    def log(self) -> ComplexTensor:
        """``log(abs) + i angle``; of the larger part and the ratio of both, so that an abs near 1 loses nothing."""
        parts = self.real.abs(), self.imag.abs()
        large, small = F.maximum(*parts), F.minimum(*parts)
        ratio = small / choose(large == 0, 1.0, large)
        return ComplexTensor(F.log(large) + F.log1p(ratio * ratio) * 0.5, self.angle())

    def tanh(self) -> ComplexTensor:
        """``(t + i s c (1 - t²)) / (c² + s² t²)``, of the real part's tanh t, and the other's sine s and cosine c."""
        t, s, c = F.tanh(self.real), F.sin(self.imag), F.cos(self.imag)
        return ComplexTensor(t, s * c * (1 - t * t)) / (c * c + s * s * t * t)

    def reciprocal(self) -> ComplexTensor:
        """``conj / (real * real + imag * imag)``, of both parts over the larger, whose squares neither overflow nor
        vanish."""
        large = F.maximum(self.real.abs(), self.imag.abs())
        scaled = self / large
        size = scaled.real * scaled.real + scaled.imag * scaled.imag
        return scaled.conj()._both(lambda part: part / size / large)

    def to(self, *args: Any, **kwargs: Any) -> Any:
        """Itself, since complex numbers have one precision; of a real dtype the real part, as torch gives it."""
        dtype = kwargs.get("dtype", next((each for each in args if isinstance(each, torch.dtype)), self.dtype))
        return self if dtype.is_complex else self.real.to(dtype)

    __abs__ = abs
    __hash__ = object.__hash__

    def is_complex(self) -> bool:
        """True."""
        return True


OF_ITSELF: dict[str, Callable[..., Any]] = {
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
"""Functions of one value that are no methods, by what they compute of it."""
METHODS = {"abs", "log", "neg", "reciprocal", "tanh", "to"}


def _is_real(other: Any) -> bool:
    if isinstance(other, torch.Tensor):
        return not other.is_complex()
    return isinstance(other, (int, float, Size, Tensor))


def _of_pairs(name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """What a function of torch's gives of complex values: their operator's result, or their method's; of constants
    that have neither, torch's. NotImplemented for other functions."""
    if name in ("add", "sub") and "alpha" in kwargs:
        args, kwargs = (args[0], args[1] * kwargs["alpha"]), {}
    if name in OPERATORS and len(args) == 2 and not kwargs:
        network, (first, second) = require_network(*args), OPERATORS[name]
        a, b = (each if _is_real(each) else _as_complex(each, network) for each in args)
        return getattr(a, first)(b) if isinstance(a, ComplexTensor) else getattr(b, second)(a)
    if name == "einsum" and isinstance(args[0], str):
        return _by_parts(lambda *parts: F.einsum(args[0], *parts, **kwargs), args[1:])
    if name in BIASED:
        return _with_bias(name, *args, **kwargs)
    if name in CONJUGATED:
        args = (conj(args[0]), *args[1:])
    if name in PRODUCTS and len(args) > 1:
        return _by_parts(lambda a, b: getattr(F, name)(a, b, *args[2:], **kwargs), args[:2])
    if name in MOVING:
        return _moved(getattr(F, name), args, kwargs)
    if name in OF_BOTH_PARTS or name in OF_ITSELF or name in METHODS:
        return getattr(args[0], name)(*args[1:], **kwargs)
    function = getattr(torch, name, getattr(torch.linalg, name, None))
    if callable(function) and name not in TAKING and are_constants((args, kwargs)):
        return of_constants(function, *args, **kwargs)
    return NotImplemented


def _with_bias(name: str, input: Any, weight: Any, bias: Any = None, *args: Any, **kwargs: Any) -> ComplexTensor:
    """A product with weights, whose bias is added along the channels."""
    product = _by_parts(lambda a, b: getattr(F, name)(a, b, None, *args, **kwargs), (input, weight))
    if bias is None:
        return product
    return product + (bias if name == "linear" else bias.reshape(-1, *[1] * (weight.ndim - 2)))


def _moved(function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """What moves elements of its operands, done to their real and to their imaginary parts."""
    given = dict(inspect.signature(function).bind(*args, **kwargs).arguments)
    operands = [each for value in given.values() for each in (value if isinstance(value, (list, tuple)) else [value])]
    network, dtype = require_network(*operands), given.pop("dtype", None)

    def of(name: str) -> Any:
        return function(**{key: _part(name, network, x) if key in VALUES else x for key, x in given.items()})

    return of("real") if dtype is not None and not dtype.is_complex else ComplexTensor(of("real"), of("imag"))


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
    return input.real if isinstance(input, ComplexTensor) else input


@operation
def imag(input: Any) -> Tensor:
    """The imaginary part of a complex value; no layer."""
    if not isinstance(input, ComplexTensor):
        raise DefinitionError("imag takes a complex value, as torch does")
    return input.imag


@operation
def conj(input: Any) -> Any:
    """The conjugate; of a Tensor itself: IUnaryLayer NEG."""
    return input.conj() if isinstance(input, ComplexTensor) else input


@operation
def angle(input: Any) -> Any:
    """The angle of complex values: the layers of :func:`atan2`; pi or 0 of real ones: ISelectLayers."""
    if isinstance(input, ComplexTensor):
        return input.angle()
    x = floating(input)
    return choose(x < 0, math.pi, choose(F.isnan(x), x, 0.0), x.dtype)
