"""torch.Tensor's methods: functions of elements.

Each is one call into :mod:`trtdsl.functional`, where its arguments are documented.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..above import F

if TYPE_CHECKING:
    from ..tensor import Tensor


class ElementMethods:
    """Arithmetic, comparison and logic, element by element."""

    __slots__ = ()

    # -- pointwise -----------------------------------------------------------------------------------------------------

    def abs(self) -> Tensor:
        return F.abs(self)

    def neg(self) -> Tensor:
        return F.neg(self)

    def positive(self) -> Tensor:
        return F.positive(self)

    def sign(self) -> Tensor:
        return F.sign(self)

    def sgn(self) -> Tensor:
        return F.sgn(self)

    def exp(self) -> Tensor:
        return F.exp(self)

    def log(self) -> Tensor:
        return F.log(self)

    def sqrt(self) -> Tensor:
        return F.sqrt(self)

    def reciprocal(self) -> Tensor:
        return F.reciprocal(self)

    def sin(self) -> Tensor:
        return F.sin(self)

    def cos(self) -> Tensor:
        return F.cos(self)

    def tan(self) -> Tensor:
        return F.tan(self)

    def sinh(self) -> Tensor:
        return F.sinh(self)

    def cosh(self) -> Tensor:
        return F.cosh(self)

    def asin(self) -> Tensor:
        return F.asin(self)

    def acos(self) -> Tensor:
        return F.acos(self)

    def atan(self) -> Tensor:
        return F.atan(self)

    def asinh(self) -> Tensor:
        return F.asinh(self)

    def acosh(self) -> Tensor:
        return F.acosh(self)

    def atanh(self) -> Tensor:
        return F.atanh(self)

    def erf(self) -> Tensor:
        return F.erf(self)

    def erfc(self) -> Tensor:
        return F.erfc(self)

    def ceil(self) -> Tensor:
        return F.ceil(self)

    def floor(self) -> Tensor:
        return F.floor(self)

    def trunc(self) -> Tensor:
        return F.trunc(self)

    def frac(self) -> Tensor:
        return F.frac(self)

    def round(self, *, decimals: int = 0) -> Tensor:
        return F.round(self, decimals=decimals)

    def square(self) -> Tensor:
        return F.square(self)

    def rsqrt(self) -> Tensor:
        return F.rsqrt(self)

    def exp2(self) -> Tensor:
        return F.exp2(self)

    def expm1(self) -> Tensor:
        return F.expm1(self)

    def log1p(self) -> Tensor:
        return F.log1p(self)

    def log2(self) -> Tensor:
        return F.log2(self)

    def log10(self) -> Tensor:
        return F.log10(self)

    def logit(self, eps: float | None = None) -> Tensor:
        return F.logit(self, eps)

    def nan_to_num(self, nan: float | None = None, posinf: float | None = None, neginf: float | None = None) -> Tensor:
        return F.nan_to_num(self, nan, posinf, neginf)

    def deg2rad(self) -> Tensor:
        return F.deg2rad(self)

    def rad2deg(self) -> Tensor:
        return F.rad2deg(self)

    def sinc(self) -> Tensor:
        return F.sinc(self)

    def signbit(self) -> Tensor:
        return F.signbit(self)

    def sigmoid(self) -> Tensor:
        return F.sigmoid(self)

    def tanh(self) -> Tensor:
        return F.tanh(self)

    def relu(self, inplace: bool = False) -> Tensor:
        return F.relu(self, inplace)

    def prelu(self, weight: Tensor) -> Tensor:
        return F.prelu(self, weight)

    def hardshrink(self, lambd: float = 0.5) -> Tensor:
        return F.hardshrink(self, lambd)

    def softmax(self, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Tensor:
        return F.softmax(self, dim, _stacklevel, dtype)

    def log_softmax(self, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Tensor:
        return F.log_softmax(self, dim, _stacklevel, dtype)

    # -- arithmetic ----------------------------------------------------------------------------------------------------

    def add(self, other: Any, *, alpha: float = 1) -> Tensor:
        return F.add(self, other, alpha=alpha)

    def sub(self, other: Any, *, alpha: float = 1) -> Tensor:
        return F.sub(self, other, alpha=alpha)

    def mul(self, other: Any) -> Tensor:
        return F.mul(self, other)

    def div(self, other: Any, *, rounding_mode: str | None = None) -> Tensor:
        return F.div(self, other, rounding_mode=rounding_mode)

    def true_divide(self, other: Any) -> Tensor:
        return F.true_divide(self, other)

    def floor_divide(self, other: Any) -> Tensor:
        return F.floor_divide(self, other)

    def remainder(self, other: Any) -> Tensor:
        return F.remainder(self, other)

    def fmod(self, other: Any) -> Tensor:
        return F.fmod(self, other)

    def pow(self, exponent: Any) -> Tensor:
        return F.pow(self, exponent)

    def atan2(self, other: Any) -> Tensor:
        return F.atan2(self, other)

    def maximum(self, other: Any) -> Tensor:
        return F.maximum(self, other)

    def minimum(self, other: Any) -> Tensor:
        return F.minimum(self, other)

    def fmax(self, other: Any) -> Tensor:
        return F.fmax(self, other)

    def fmin(self, other: Any) -> Tensor:
        return F.fmin(self, other)

    def clamp(self, min: Any = None, max: Any = None) -> Tensor:
        return F.clamp(self, min, max)

    def clip(self, min: Any = None, max: Any = None) -> Tensor:
        return F.clip(self, min, max)

    def clamp_min(self, min: Any) -> Tensor:
        return F.clamp_min(self, min)

    def clamp_max(self, max: Any) -> Tensor:
        return F.clamp_max(self, max)

    def lerp(self, end: Tensor, weight: Any) -> Tensor:
        return F.lerp(self, end, weight)

    def addcmul(self, tensor1: Any, tensor2: Any, *, value: float = 1) -> Tensor:
        return F.addcmul(self, tensor1, tensor2, value=value)

    def addcdiv(self, tensor1: Any, tensor2: Any, *, value: float = 1) -> Tensor:
        return F.addcdiv(self, tensor1, tensor2, value=value)

    def xlogy(self, other: Any) -> Tensor:
        return F.xlogy(self, other)

    def hypot(self, other: Any) -> Tensor:
        return F.hypot(self, other)

    def copysign(self, other: Any) -> Tensor:
        return F.copysign(self, other)

    def logaddexp(self, other: Any) -> Tensor:
        return F.logaddexp(self, other)

    def logaddexp2(self, other: Any) -> Tensor:
        return F.logaddexp2(self, other)

    def heaviside(self, values: Any) -> Tensor:
        return F.heaviside(self, values)

    # -- comparisons and logic -----------------------------------------------------------------------------------------

    def eq(self, other: Any) -> Tensor:
        return F.eq(self, other)

    def ne(self, other: Any) -> Tensor:
        return F.ne(self, other)

    def lt(self, other: Any) -> Tensor:
        return F.lt(self, other)

    def le(self, other: Any) -> Tensor:
        return F.le(self, other)

    def gt(self, other: Any) -> Tensor:
        return F.gt(self, other)

    def ge(self, other: Any) -> Tensor:
        return F.ge(self, other)

    def equal(self, other: Tensor) -> Tensor:
        return F.equal(self, other)

    def isnan(self) -> Tensor:
        return F.isnan(self)

    def isinf(self) -> Tensor:
        return F.isinf(self)

    def isposinf(self) -> Tensor:
        return F.isposinf(self)

    def isneginf(self) -> Tensor:
        return F.isneginf(self)

    def isfinite(self) -> Tensor:
        return F.isfinite(self)

    def isclose(self, other: Tensor, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> Tensor:
        return F.isclose(self, other, rtol, atol, equal_nan)

    def logical_not(self) -> Tensor:
        return F.logical_not(self)

    def logical_and(self, other: Any) -> Tensor:
        return F.logical_and(self, other)

    def logical_or(self, other: Any) -> Tensor:
        return F.logical_or(self, other)

    def logical_xor(self, other: Any) -> Tensor:
        return F.logical_xor(self, other)

    def bitwise_not(self) -> Tensor:
        return F.bitwise_not(self)

    def bitwise_and(self, other: Any) -> Tensor:
        return F.bitwise_and(self, other)

    def bitwise_or(self, other: Any) -> Tensor:
        return F.bitwise_or(self, other)

    def bitwise_xor(self, other: Any) -> Tensor:
        return F.bitwise_xor(self, other)

    def bitwise_left_shift(self, other: Any) -> Tensor:
        return F.bitwise_left_shift(self, other)

    def bitwise_right_shift(self, other: Any) -> Tensor:
        return F.bitwise_right_shift(self, other)

    def masked_fill(self, mask: Tensor, value: Any) -> Tensor:
        return F.masked_fill(self, mask, value)
