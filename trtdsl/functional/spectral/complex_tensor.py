"""Complex numbers, which TensorRT does not have: a pair of Tensors with torch's operators and methods."""

from __future__ import annotations

import builtins
import functools
import itertools
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ...core.html import folded
from ...definition.operation import PAIRS
from ...sizes.shape import shape_text
from ..common import DefinitionError, Network, ShapeError, Tensor, UnsupportedError, operation, torch
from ..constants import are_constants, of_constants
from ..einsum import einsum
from ..indexing.index import getitem
from ..operands import choose, floating
from ..pointwise.arithmetic import atan2, hypot, maximum, minimum, mul
from ..pointwise.elementary import cos, exp, log, log1p, neg, sin, sqrt
from ..pointwise.logic import isnan, where
from ..products.matmul import matmul
from ..products.products import bmm, inner, kron, mm, mv, outer, tensordot
from ..shaping.join import stack, unbind
from ..shaping.reshape import broadcast_tensors

# Methods that move elements, or add them up: they are done to both parts.
OF_BOTH_PARTS = {
    *("broadcast_to", "chunk", "clone", "contiguous", "cumsum", "diagonal", "expand", "flatten", "flip", "gather"),
    *("index_select", "mean", "moveaxis", "movedim", "narrow", "permute", "ravel", "repeat", "repeat_interleave"),
    *("reshape", "roll", "select", "split", "squeeze", "sum", "swapaxes", "swapdims", "t", "tile", "transpose", "tril"),
    *("triu", "unbind", "unflatten", "unfold", "unsqueeze", "view"),
}
OF_EITHER_PART = {"ndim", "network", "shape", "size"}
OPERATORS = {name: name for name in ("add", "sub", "mul", "matmul", "pow")} | dict.fromkeys(
    ("div", "true_divide"), "truediv"
)

OF_ITSELF = {"abs", "exp", "log", "neg", "reciprocal", "sqrt", "square", "to"}
TAKING = {"real", "imag", "conj", "angle", "view_as_real", "istft"}  # which take complex values themselves
PRODUCTS = {"bmm": bmm, "mm": mm, "mv": mv, "outer": outer, "inner": inner, "kron": kron, "tensordot": tensordot}


class ComplexTensor:
    """A complex value: ``real`` and ``imag`` are Tensors of one ``shape``.

    It has the operators ``+ - * / @ **`` (with whole powers), indexing, and the methods of Tensor that move elements or
    add them up, and functions of these names take it: ``F.mul(x, z)``, ``F.exp(1j * x)``. A network's outputs are real:
    give :func:`view_as_real`, ``.real``, ``.imag`` or :func:`abs`.

    >>> z = F.view_as_complex(net.input("x", ("N", 3, 2)))
    >>> (z * z.conj()).real.shape
    (N, 3)
    """

    __array_ufunc__ = None

    def __init__(self, real: Tensor, imag: Tensor):
        self.real, self.imag = (real, imag) if real.shape == imag.shape else broadcast_tensors(real, imag)

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
        if name not in OF_BOTH_PARTS:
            raise AttributeError(
                f"a ComplexTensor has no {name!r}: it has the operators, {', '.join(sorted(OF_BOTH_PARTS))}; "
                "of .real and .imag there is everything"
            )
        return lambda *args, **kwargs: self._both(lambda part: getattr(part, name)(*args, **kwargs))

    def _both(self, change: Callable[[Tensor], Any]) -> Any:
        real, imag = change(self.real), change(self.imag)
        if isinstance(real, Tensor):
            return ComplexTensor(real, imag)
        return type(real)(ComplexTensor(a, b) for a, b in zip(real, imag, strict=True))

    def __getitem__(self, index: Any) -> ComplexTensor:
        return self._both(lambda part: getitem(part, index))

    def __neg__(self) -> ComplexTensor:
        return self._both(neg)

    def __add__(self, other: Any) -> ComplexTensor:
        if _is_real(other):
            return ComplexTensor(self.real + other, self.imag)
        b = _as_complex(other, self.network)
        return ComplexTensor(self.real + b.real, self.imag + b.imag)

    def __sub__(self, other: Any) -> ComplexTensor:
        return self + -other

    def __mul__(self, other: Any) -> ComplexTensor:
        return _by_parts(mul, (self, other))

    def __matmul__(self, other: Any) -> ComplexTensor:
        return _by_parts(matmul, (self, other))

    def __truediv__(self, other: Any) -> ComplexTensor:
        if _is_real(other):
            return self._both(lambda part: part / other)
        return self * _as_complex(other, self.network).reciprocal()

    def __pow__(self, other: Any) -> ComplexTensor:
        if are_constants((self, other)) and not isinstance(other, int):
            return of_constants(torch.pow, self, other)
        if not isinstance(other, int) or other < 1:
            raise UnsupportedError(f"a complex power is a whole number from 1 on, not {other!r}")
        return functools.reduce(operator.mul, [self] * other)

    def __rsub__(self, other: Any) -> ComplexTensor:
        return -self + other

    def __rtruediv__(self, other: Any) -> ComplexTensor:
        return self.reciprocal() * other

    __radd__ = __add__
    __rmul__ = __mul__

    neg = __neg__

    def conj(self) -> ComplexTensor:
        """The conjugate: IUnaryLayer NEG of the imaginary part."""
        return ComplexTensor(self.real, neg(self.imag))

    def abs(self) -> Tensor:
        """The absolute value, as :func:`hypot` of both parts."""
        return hypot(self.real, self.imag)

    def angle(self) -> Tensor:
        """The angle, as :func:`atan2` of both parts."""
        return atan2(self.imag, self.real)

    def exp(self) -> ComplexTensor:
        """``exp(real) * (cos(imag) + i sin(imag))``."""
        return polar(exp(self.real), self.imag)

    def log(self) -> ComplexTensor:
        """``log(abs) + i angle``; of the larger part and the ratio of both, so that an abs near 1 loses nothing."""
        parts = self.real.abs(), self.imag.abs()
        large, small = maximum(*parts), minimum(*parts)
        ratio = small / choose(large == 0, 1.0, large)
        return ComplexTensor(log(large) + log1p(ratio * ratio) * 0.5, self.angle())

    def sqrt(self) -> ComplexTensor:
        """The root whose real part is not negative: half of the angle."""
        return polar(sqrt(self.abs()), self.angle() * 0.5)

    def square(self) -> ComplexTensor:
        """The product with itself."""
        return self * self

    def reciprocal(self) -> ComplexTensor:
        """``conj / (real * real + imag * imag)``."""
        size = self.real * self.real + self.imag * self.imag
        return self.conj()._both(lambda part: part / size)

    def to(self, *args: Any, **kwargs: Any) -> ComplexTensor:
        """Itself: an engine has a place of its own for its values, and complex numbers of one precision."""
        if any(isinstance(each, torch.dtype) and each != self.dtype for each in (*args, *kwargs.values())):
            raise UnsupportedError(f"a ComplexTensor stays {self.dtype}: .real and .imag have other dtypes")
        return self

    __abs__ = abs

    def is_complex(self) -> bool:
        """True."""
        return True


def _is_real(other: Any) -> bool:
    if isinstance(other, torch.Tensor):
        return not other.is_complex()
    return isinstance(other, (int, float, Tensor))


def _of_pairs(name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """What a function of torch's gives of complex values: their operator's result, or their method's; of constants
    that have neither, torch's. NotImplemented for other functions."""
    if name in OPERATORS and len(args) == 2 and not kwargs:
        network = next(each.network for each in args if isinstance(each, (Tensor, ComplexTensor)))
        a, b = (each if _is_real(each) else _as_complex(each, network) for each in args)
        if isinstance(a, ComplexTensor):
            return getattr(a, f"__{OPERATORS[name]}__")(b)
        return getattr(b, f"__r{OPERATORS[name]}__")(a)
    if name == "einsum" and isinstance(args[0], str):
        return _by_parts(lambda *parts: einsum(args[0], *parts, **kwargs), args[1:])
    if name in PRODUCTS and len(args) > 1:
        return _by_parts(lambda a, b: PRODUCTS[name](a, b, *args[2:], **kwargs), args[:2])
    if name == "where" and not kwargs:
        a, b = (_as_complex(each, args[1].network) for each in args[1:])
        return ComplexTensor(where(args[0], a.real, b.real), where(args[0], a.imag, b.imag))
    if name in OF_BOTH_PARTS or name in OF_ITSELF:
        return getattr(args[0], name)(*args[1:], **kwargs)
    function = getattr(torch, name, getattr(torch.linalg, name, None))
    if callable(function) and name not in TAKING and are_constants((args, kwargs)):
        return of_constants(function, *args, **kwargs)
    return NotImplemented


def _by_parts(product: Callable[..., Tensor], operands: Sequence[Any]) -> ComplexTensor:
    """What is linear in each of the operands, as a sum of it of their parts, each with its power of i."""
    network = next(each.network for each in operands if isinstance(each, ComplexTensor))
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
    real, imag = unbind(input, -1)
    return ComplexTensor(real, imag)


@operation
def view_as_real(input: Any) -> Tensor:
    """Complex numbers (…) as pairs (…, 2) of Tensors: IConcatenationLayer."""
    if not isinstance(input, ComplexTensor):
        raise DefinitionError("view_as_real takes a complex value: F.view_as_complex and F.fft make them")
    return stack([input.real, input.imag], -1)


@operation
def complex(real: Tensor, imag: Tensor) -> Any:
    """A complex value of its two parts; no layer."""
    return ComplexTensor(real, imag)


@operation
def polar(abs: Tensor, angle: Tensor) -> Any:
    """``abs * (cos(angle) + i sin(angle))``: the layers of :func:`cos` and :func:`sin`, IElementWiseLayers PROD."""
    return ComplexTensor(abs * cos(angle), abs * sin(angle))


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
    return choose(x < 0, math.pi, choose(isnan(x), x, 0.0), x.dtype)
