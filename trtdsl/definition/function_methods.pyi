"""Functions of trtdsl.functional as methods of Tensor; written by tools/make_contents.py."""

from collections.abc import Sequence
from typing import Any

from trtdsl.core.lazy import torch
from trtdsl.definition.methods import Dims
from trtdsl.definition.tensor import Extremes, Selected, Tensor
from trtdsl.sizes.size import SizeLike

NAMES: tuple[str, ...]
OPERATORS: dict[str, str]
REFLECTED: tuple[str, ...]

class FunctionMethods:
    __slots__ = ()

    def abs(self) -> Tensor:
        """The absolute value: IUnaryLayer ABS; bool is itself."""

    def absolute(self) -> Tensor:
        """The absolute value: IUnaryLayer ABS; bool is itself."""

    def acos(self) -> Tensor:
        """The inverse cosine: IUnaryLayer ACOS; integers become float32 first."""

    def acosh(self) -> Tensor:
        """The inverse hyperbolic cosine: IUnaryLayer ACOSH; integers become float32 first."""

    def add(self, other: Any, *, alpha: float = 1) -> Tensor:
        """``input + alpha * other``, broadcast: IElementWiseLayer SUM (OR for bool), PROD before it for an
        alpha.
        """

    def addbmm(self, batch1: Tensor, batch2: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
        """``beta * input + alpha * sum(batch1 @ batch2)`` over the batch: as :func:`addmm`, IReduceLayer SUM."""

    def addcdiv(self, tensor1: Any, tensor2: Any, *, value: float = 1) -> Tensor:
        """``input + value * tensor1 / tensor2``: IElementWiseLayer DIV, PROD and SUM; half types as in
        :func:`addcmul`.
        """

    def addcmul(self, tensor1: Any, tensor2: Any, *, value: float = 1) -> Tensor:
        """``input + value * tensor1 * tensor2``: IElementWiseLayer PROD and SUM."""

    def addmm(self, mat1: Tensor, mat2: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
        """``beta * input + alpha * (mat1 @ mat2)``: IMatrixMultiplyLayer and IElementWiseLayer SUM, PROD for
        the factors.
        """

    def addmv(self, mat: Tensor, vec: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
        """``beta * input + alpha * (mat @ vec)``, as :func:`addmm`."""

    def addr(self, vec1: Tensor, vec2: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
        """``beta * input + alpha * outer(vec1, vec2)``: IElementWiseLayers."""

    def all(self, dim: Dims = None, keepdim: bool = False) -> Tensor:
        """Whether all elements are true over ``dim``: IReduceLayer PROD of zeros and ones, between two
        ICastLayers.
        """

    def amax(self, dim: Dims = (), keepdim: bool = False, *, lowering: str = "auto") -> Tensor:
        """The greatest element over ``dim`` (all dimensions when empty)."""

    def amin(self, dim: Dims = (), keepdim: bool = False, *, lowering: str = "auto") -> Tensor:
        """The least element over ``dim`` (all dimensions when empty)."""

    def aminmax(self, *, dim: int | None = None, keepdim: bool = False) -> Extremes:
        """The least and the greatest element over ``dim`` (all dimensions when None): two IReduceLayers."""

    def angle(self) -> Any:
        """The angle of complex values: the layers of :func:`atan2`."""

    def any(self, dim: Dims = None, keepdim: bool = False) -> Tensor:
        """Whether any element is true over ``dim``: IReduceLayer SUM of zeros and ones, between two
        ICastLayers.
        """

    def arccos(self) -> Tensor:
        """The inverse cosine: IUnaryLayer ACOS; integers become float32 first."""

    def arccosh(self) -> Tensor:
        """The inverse hyperbolic cosine: IUnaryLayer ACOSH; integers become float32 first."""

    def arcsin(self) -> Tensor:
        """The inverse sine: IUnaryLayer ASIN; integers become float32 first."""

    def arcsinh(self) -> Tensor:
        """The inverse hyperbolic sine: IUnaryLayer ASINH; integers become float32 first."""

    def arctan(self) -> Tensor:
        """The inverse tangent: IUnaryLayer ATAN; integers become float32 first."""

    def arctan2(self, other: Any) -> Tensor:
        """The angle of the point (``other``, ``input``) up to pi: IUnaryLayer ATAN, IElementWiseLayers,
        ISelectLayers.
        """

    def arctanh(self) -> Tensor:
        """The inverse hyperbolic tangent: IUnaryLayer ATANH; integers become float32 first."""

    def argmax(self, dim: int | None = None, keepdim: bool = False) -> Tensor:
        """Where the greatest element is over ``dim``, or in the flattened tensor; the first of equal ones:
        ITopKLayer.
        """

    def argmin(self, dim: int | None = None, keepdim: bool = False) -> Tensor:
        """Where the least element is over ``dim``, or in the flattened tensor; the first of equal ones:
        ITopKLayer.
        """

    def argsort(self, dim: int = -1, descending: bool = False, stable: bool = True) -> Tensor:
        """Where the elements were that :func:`sort` puts in order: ITopKLayer."""

    def argwhere(self) -> Tensor:
        """As :func:`nonzero`."""

    def as_strided(self, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None) -> Tensor:
        """The elements of the flattened ``input`` at ``storage_offset + Σ index * stride``: IShuffleLayer,
        IGatherLayer.
        """

    def asin(self) -> Tensor:
        """The inverse sine: IUnaryLayer ASIN; integers become float32 first."""

    def asinh(self) -> Tensor:
        """The inverse hyperbolic sine: IUnaryLayer ASINH; integers become float32 first."""

    def atan(self) -> Tensor:
        """The inverse tangent: IUnaryLayer ATAN; integers become float32 first."""

    def atan2(self, other: Any) -> Tensor:
        """The angle of the point (``other``, ``input``) up to pi: IUnaryLayer ATAN, IElementWiseLayers,
        ISelectLayers.
        """

    def atanh(self) -> Tensor:
        """The inverse hyperbolic tangent: IUnaryLayer ATANH; integers become float32 first."""

    def baddbmm(self, batch1: Tensor, batch2: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
        """``beta * input + alpha * (batch1 @ batch2)``, as :func:`addmm`."""

    def bincount(self, weights: Tensor | None = None, minlength: int = 0) -> Tensor:
        """How often each number from 0 occurs in a constant vector ``input``, or the sum of its ``weights``."""

    def bitwise_and(self, other: Any) -> Tensor:
        """The bits that both have: IElementWiseLayer AND for bool."""

    def bitwise_left_shift(self, other: Any) -> Tensor:
        """``input * 2 ** other``: IGatherLayer in the powers of two, and IElementWiseLayer PROD."""

    def bitwise_not(self) -> Tensor:
        """Every bit inverted: IUnaryLayer NOT for bool, ``-1 - input`` (IElementWiseLayer SUB) for integers."""

    def bitwise_or(self, other: Any) -> Tensor:
        """The bits that either has: IElementWiseLayer OR for bool; integers as in :func:`bitwise_and`."""

    def bitwise_right_shift(self, other: Any) -> Tensor:
        """``floor(input / 2 ** other)``: IGatherLayer in the powers of two, and IElementWiseLayer FLOOR_DIV."""

    def bitwise_xor(self, other: Any) -> Tensor:
        """The bits that one of the two has: IElementWiseLayer XOR for bool; integers as in
        :func:`bitwise_and`.
        """

    def bmm(self, mat2: Tensor) -> Tensor:
        """The product of two batches of matrices: IMatrixMultiplyLayer."""

    def broadcast_to(self, size: Sequence[SizeLike]) -> Tensor:
        """As :func:`expand`."""

    def ceil(self) -> Tensor:
        """Rounded up: IUnaryLayer CEIL; integers are themselves."""

    def chunk(self, chunks: SizeLike, dim: int = 0) -> tuple[Tensor, ...]:
        """``chunks`` parts of equal size, the last one perhaps less, perhaps fewer parts, as torch has it:
        ISliceLayers.
        """

    def clamp(self, min: Any = None, max: Any = None) -> Tensor:
        """``input`` not below ``min`` and not above ``max``, numbers or tensors; ``max`` wins where they
        cross.
        """

    def clamp_max(self, max: Any) -> Tensor:
        """``input`` not above ``max``: IElementWiseLayer MIN."""

    def clamp_min(self, min: Any) -> Tensor:
        """``input`` not below ``min``: IElementWiseLayer MAX."""

    def clip(self, min: Any = None, max: Any = None) -> Tensor:
        """``input`` not below ``min`` and not above ``max``, numbers or tensors; ``max`` wins where they
        cross.
        """

    def clone(self, *, memory_format: Any = None) -> Tensor:
        """``input`` itself: Tensors of a network are values. ``memory_format`` is TensorRT's own choice."""

    def conj(self) -> Any:
        """The conjugate; of a Tensor itself: IUnaryLayer NEG."""

    def copysign(self, other: Any) -> Tensor:
        """The size of ``input`` with the sign of ``other``: IUnaryLayer ABS and NEG, ISelectLayer."""

    def corrcoef(self) -> Tensor:
        """The correlations of the rows of a matrix, between -1 and 1: the layers of :func:`cov`,
        IElementWiseLayers.
        """

    def cos(self) -> Tensor:
        """The cosine of radians: IUnaryLayer COS; integers become float32 first."""

    def cosh(self) -> Tensor:
        """The hyperbolic cosine: IUnaryLayer COSH; integers become float32 first."""

    def count_nonzero(self, dim: Dims = None) -> Tensor:
        """How many elements over ``dim`` are not zero, as int64: ICastLayers and IReduceLayer SUM."""

    def cov(self, *, correction: int = 1, fweights: Tensor | None = None, aweights: Tensor | None = None) -> Tensor:
        """The covariances of the rows of a matrix, the variance of a vector: IReduceLayer AVG,
        IMatrixMultiplyLayer.
        """

    def cross(self, other: Tensor, dim: int | None = None) -> Tensor:
        """The cross product along ``dim`` of size 3, the first such one when None: ISliceLayers (WRAP),
        IElementWiseLayers.
        """

    def cummax(self, dim: int) -> Selected:
        """The greatest element up to each, and where it is (the last of equal ones): as :func:`cumprod`."""

    def cummin(self, dim: int) -> Selected:
        """The least element up to each, and where it is (the last of equal ones): as :func:`cumprod`."""

    def cumprod(self, dim: int, *, dtype: Any = None) -> Tensor:
        """Products of the elements up to each: ISliceLayer and IElementWiseLayer PROD for each power of two."""

    def cumsum(self, dim: int, *, dtype: Any = None) -> Tensor:
        """Sums of the elements up to each: ICumulativeLayer SUM; integers and bool as int64."""

    def deg2rad(self) -> Tensor:
        """Degrees as radians: IElementWiseLayer PROD."""

    def det(self) -> Tensor:
        """The determinant of square matrices (…, n, n) of up to 16 rows: as :func:`inverse`."""

    def diag(self, diagonal: SizeLike = 0) -> Tensor:
        """A vector on the diagonal of a matrix, or a matrix's diagonal: :func:`diag_embed` or
        :func:`diagonal`.
        """

    def diag_embed(self, offset: SizeLike = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
        """The last dimension on the diagonal of two new ones of zeros: ISliceLayer (FILL), ISelectLayer,
        IShuffleLayer.
        """

    def diagflat(self, offset: SizeLike = 0) -> Tensor:
        """All elements on the diagonal of a matrix: :func:`diag_embed` of the flattened tensor."""

    def diagonal(self, offset: SizeLike = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
        """The diagonal of two dimensions as the last one: IShuffleLayer, ISliceLayer with the stride of a row
        and one.
        """

    def diff(self, n: int = 1, dim: int = -1, prepend: Tensor | None = None, append: Tensor | None = None) -> Tensor:
        """The differences of neighbours along ``dim``, ``n`` times: ISliceLayers and IElementWiseLayer SUB
        (XOR for bool).
        """

    def dist(self, other: Tensor, p: float = 2) -> Tensor:
        """The ``p``-norm of ``input - other``: IElementWiseLayer SUB and the layers of :func:`vector_norm`."""

    def div(self, other: Any, *, rounding_mode: str | None = None) -> Tensor:
        """``input / other``, broadcast: IElementWiseLayer DIV; integers become float32 first."""

    def divide(self, other: Any, *, rounding_mode: str | None = None) -> Tensor:
        """``input / other``, broadcast: IElementWiseLayer DIV; integers become float32 first."""

    def dot(self, tensor: Tensor) -> Tensor:
        """The product of two vectors, a scalar: IMatrixMultiplyLayer."""

    def dsplit(self, indices_or_sections: Any) -> tuple[Tensor, ...]:
        """:func:`tensor_split` along dimension 2; sections must divide it."""

    def eq(self, other: Any) -> Tensor:
        """``input == other``, broadcast: IElementWiseLayer EQUAL."""

    def equal(self, other: Tensor) -> Tensor:
        """Whether shapes and all elements are the same, as a bool scalar: IElementWiseLayer EQUAL and
        :func:`all`.
        """

    def erf(self) -> Tensor:
        """The error function: IUnaryLayer ERF; integers become float32 first."""

    def erfc(self) -> Tensor:
        """``1 - erf(input)``: IUnaryLayer ERF, IElementWiseLayer SUB; its tail below 1e-7 is lost to rounding."""

    def exp(self) -> Tensor:
        """``e ** input``: IUnaryLayer EXP; integers become float32 first."""

    def exp2(self) -> Tensor:
        """``2 ** input``: IElementWiseLayer POW."""

    def expand(self, *size: SizeLike | Sequence[SizeLike]) -> Tensor:
        """Dimensions of size 1 repeated to ``size`` (-1 keeps one), new ones in front: ISliceLayer with a
        stride of 0.
        """

    def expand_as(self, other: Tensor) -> Tensor:
        """``input`` in the shape of ``other``: ISliceLayer with a stride of 0."""

    def expm1(self) -> Tensor:
        """``exp(input) - 1``, exact near 0 too, where it is ``2t / (1 - t)`` with ``t = tanh(input / 2)``."""

    def fix(self) -> Tensor:
        """Rounded towards zero: IUnaryLayer FLOOR, CEIL and ISelectLayer; integers are themselves."""

    def flatten(self, start_dim: int = 0, end_dim: int = -1) -> Tensor:
        """Dimensions ``start_dim`` to ``end_dim`` as one: IShuffleLayer."""

    def fliplr(self) -> Tensor:
        """The elements of dimension 1 in reverse: ISliceLayer with a stride of -1."""

    def flipud(self) -> Tensor:
        """The elements of dimension 0 in reverse: ISliceLayer with a stride of -1."""

    def floor(self) -> Tensor:
        """Rounded down: IUnaryLayer FLOOR; integers are themselves."""

    def floor_divide(self, other: Any) -> Tensor:
        """``input // other``, rounded down: IElementWiseLayer FLOOR_DIV on integers and for a constant power
        of two.
        """

    def fmax(self, other: Any) -> Tensor:
        """The greater, the other one where one is NaN: IElementWiseLayer MAX, IUnaryLayer ISNAN and
        ISelectLayer.
        """

    def fmin(self, other: Any) -> Tensor:
        """The lesser, the other one where one is NaN: IElementWiseLayer MIN, IUnaryLayer ISNAN and
        ISelectLayer.
        """

    def fmod(self, other: Any) -> Tensor:
        """``input - other * trunc(input / other)``, with the sign of ``input``: IElementWiseLayer DIV, PROD
        and SUB.
        """

    def frac(self) -> Tensor:
        """``input - trunc(input)``: the layers of :func:`trunc` and IElementWiseLayer SUB."""

    def gather(self, dim: int, index: Tensor, *, sparse_grad: bool = False) -> Tensor:
        """``input`` at ``index`` along ``dim``, at its own place in the other dimensions: IGatherLayer
        (ELEMENT).
        """

    def ge(self, other: Any) -> Tensor:
        """``input >= other``, broadcast: IElementWiseLayer LESS, IUnaryLayer NOT; ISNAN for what may be NaN."""

    def ger(self, vec2: Tensor) -> Tensor:
        """The products of all pairs of elements of two vectors: IElementWiseLayer PROD."""

    def greater(self, other: Any) -> Tensor:
        """``input > other``, broadcast: IElementWiseLayer GREATER."""

    def greater_equal(self, other: Any) -> Tensor:
        """``input >= other``, broadcast: IElementWiseLayer LESS, IUnaryLayer NOT; ISNAN for what may be NaN."""

    def gt(self, other: Any) -> Tensor:
        """``input > other``, broadcast: IElementWiseLayer GREATER."""

    def hardshrink(self, lambd: float = 0.5) -> Tensor:
        """``input`` where ``|input| > lambd``, else 0: IUnaryLayer ABS, IElementWiseLayer GREATER,
        ISelectLayer.
        """

    def heaviside(self, values: Any) -> Tensor:
        """0 below zero, ``values`` at zero, 1 above: IElementWiseLayer GREATER and EQUAL, ICastLayer,
        ISelectLayer.
        """

    def histc(self, bins: int = 100, min: float = 0, max: float = 0) -> Tensor:
        """How many elements are in each of ``bins`` equal parts of the range from ``min`` to ``max``, which it
        includes.
        """

    def hsplit(self, indices_or_sections: Any) -> tuple[Tensor, ...]:
        """:func:`tensor_split` along dimension 1 (0 for vectors); sections must divide it."""

    def hypot(self, other: Any) -> Tensor:
        """``sqrt(input ** 2 + other ** 2)`` without overflow: scaled by the greater of the two first."""

    def imag(self) -> Any:
        """The imaginary part of a complex value; no layer."""

    def index_add(self, dim: int, index: Tensor, source: Tensor, *, alpha: float = 1) -> Tensor:
        """``alpha * source`` added to the parts of ``dim`` at ``index``: the layers of :func:`scatter_reduce`."""

    def index_copy(self, dim: int, index: Tensor, source: Tensor) -> Tensor:
        """``source`` in the parts of ``dim`` at ``index``: IScatterLayer (ELEMENT)."""

    def index_fill(self, dim: int, index: Tensor, value: Any) -> Tensor:
        """``value`` in the parts of ``dim`` at ``index``: IScatterLayer (ELEMENT)."""

    def index_put(self, indices: Sequence[Any], values: Any, accumulate: bool = False) -> Tensor:
        """``input`` with ``values`` at the places that ``indices`` (int, bool, None for all) name:
        IScatterLayer (ND).
        """

    def index_select(self, dim: int, index: Tensor) -> Tensor:
        """The parts of ``dim`` at ``index``, a vector: IGatherLayer."""

    def inner(self, other: Tensor) -> Tensor:
        """The products along the last dimensions of both; a product with a scalar: IMatrixMultiplyLayer."""

    def inverse(self) -> Tensor:
        """The inverse of square matrices (…, n, n) of up to 16 rows; of a singular one infinities or NaN."""

    def isclose(self, other: Tensor, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> Tensor:
        """``|input - other| <= atol + rtol * |other|``, or equal: IElementWiseLayers and IUnaryLayers."""

    def isfinite(self) -> Tensor:
        """Whether an element is neither infinite nor NaN: IUnaryLayer ISINF, ISNAN and NOT, IElementWiseLayer
        OR.
        """

    def isinf(self) -> Tensor:
        """Whether an element is infinite: IUnaryLayer ISINF; integers never are."""

    def isnan(self) -> Tensor:
        """Whether an element is NaN: IUnaryLayer ISNAN; integers never are."""

    def isneginf(self) -> Tensor:
        """Whether an element is negative infinity: IElementWiseLayer EQUAL."""

    def isposinf(self) -> Tensor:
        """Whether an element is positive infinity: IElementWiseLayer EQUAL."""

    def istft(
        self,
        n_fft: int,
        hop_length: int | None = None,
        win_length: int | None = None,
        window: Tensor | None = None,
        center: bool = True,
        normalized: bool = False,
        onesided: bool | None = None,
        length: int | None = None,
        return_complex: bool = False,
    ) -> Tensor:
        """The real signal (…, T) of complex spectra (…, frequencies, frames): the inverse of :func:`stft`."""

    def kron(self, other: Tensor) -> Tensor:
        """The products of all pairs of elements as blocks: IShuffleLayers and IElementWiseLayer PROD."""

    def kthvalue(self, k: SizeLike, dim: int = -1, keepdim: bool = False) -> Selected:
        """The ``k``-th least element along ``dim`` and where it is: ITopKLayer and ISliceLayer."""

    def ldexp(self, other: Any) -> Tensor:
        """``x * 2 ** y``: IElementWiseLayers POW and PROD; integers become float32 first."""

    def le(self, other: Any) -> Tensor:
        """``input <= other``, broadcast: IElementWiseLayer GREATER, IUnaryLayer NOT; ISNAN for what may be
        NaN.
        """

    def lerp(self, end: Tensor, weight: Any) -> Tensor:
        """``input + weight * (end - input)``: IElementWiseLayer SUB, PROD and SUM."""

    def less(self, other: Any) -> Tensor:
        """``input < other``, broadcast: IElementWiseLayer LESS."""

    def less_equal(self, other: Any) -> Tensor:
        """``input <= other``, broadcast: IElementWiseLayer GREATER, IUnaryLayer NOT; ISNAN for what may be
        NaN.
        """

    def log(self) -> Tensor:
        """The natural logarithm: IUnaryLayer LOG; integers become float32 first."""

    def log10(self) -> Tensor:
        """The logarithm to base 10: IUnaryLayer LOG and IElementWiseLayer PROD."""

    def log1p(self) -> Tensor:
        """``log(1 + input)``, exact near 0 too, where it is ``2 * atanh(input / (2 + input))``."""

    def log2(self) -> Tensor:
        """The logarithm to base 2: IUnaryLayer LOG and IElementWiseLayer PROD."""

    def log_softmax(self, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Tensor:
        """``input - logsumexp(input)`` over ``dim``, exact also where the softmax itself underflows."""

    def logaddexp(self, other: Any) -> Tensor:
        """``log(exp(input) + exp(other))`` without overflow: the greater and IActivationLayer SOFTPLUS of
        -distance.
        """

    def logaddexp2(self, other: Any) -> Tensor:
        """``log2(2 ** input + 2 ** other)`` without overflow: as :func:`logaddexp`."""

    def logcumsumexp(self, dim: int) -> Tensor:
        """``log(cumsum(exp(input)))`` without overflow, as :func:`cumprod`, by :func:`logaddexp`."""

    def logical_and(self, other: Any) -> Tensor:
        """Both, broadcast: IElementWiseLayer AND; numbers are true unless 0."""

    def logical_not(self) -> Tensor:
        """Whether an element is 0: IUnaryLayer NOT, after ICastLayer for numbers."""

    def logical_or(self, other: Any) -> Tensor:
        """Either or both, broadcast: IElementWiseLayer OR; numbers are true unless 0."""

    def logical_xor(self, other: Any) -> Tensor:
        """One of the two, broadcast: IElementWiseLayer XOR; numbers are true unless 0."""

    def logit(self, eps: float | None = None) -> Tensor:
        """``log(input / (1 - input))`` of ``input`` from ``eps`` to ``1 - eps``: IElementWiseLayers and
        IUnaryLayer LOG.
        """

    def logsumexp(self, dim: Dims, keepdim: bool = False) -> Tensor:
        """``log(sum(exp(input)))`` over ``dim`` without overflow."""

    def lt(self, other: Any) -> Tensor:
        """``input < other``, broadcast: IElementWiseLayer LESS."""

    def masked_fill(self, mask: Tensor, value: Any) -> Tensor:
        """``input`` with ``value`` where ``mask`` holds: ISelectLayer; the dtype is that of ``input``."""

    def masked_scatter(self, mask: Tensor, source: Any) -> Tensor:
        """The elements of ``source``, one after the other, where ``mask`` is true; ``input`` elsewhere."""

    def masked_select(self, mask: Tensor) -> Tensor:
        """The elements where ``mask`` holds as a vector, whose size depends on data: INonZeroLayer and
        IGatherLayer.
        """

    def matmul(self, other: Tensor) -> Tensor:
        """torch's product for every pair of ranks: IMatrixMultiplyLayer, VECTOR for a 1-d operand."""

    def matrix_power(self, n: int) -> Tensor:
        """A square matrix multiplied ``n`` times with itself: IMatrixMultiplyLayers, about 2 * log2(n)."""

    def max(self, dim: Any = None, keepdim: bool = False) -> Any:
        """The greatest element of all, or (values, indices) over ``dim``, or :func:`maximum` with a second
        tensor.
        """

    def maximum(self, other: Any) -> Tensor:
        """The greater, NaN where either is NaN: IElementWiseLayer MAX (OR for bool)."""

    def mean(self, dim: Dims = None, keepdim: bool = False, *, dtype: Any = None, lowering: str = "auto") -> Tensor:
        """The mean over ``dim`` (all dimensions when None: a true scalar): IReduceLayer AVG
        (``lowering="reduce"``).
        """

    def median(self, dim: int | None = None, keepdim: bool = False) -> Tensor | Selected:
        """The lower median of all elements, or (values, indices) along ``dim``: ITopKLayer and ISliceLayer."""

    def min(self, dim: Any = None, keepdim: bool = False) -> Any:
        """The least element of all, or (values, indices) over ``dim``, or :func:`minimum` with a second
        tensor.
        """

    def minimum(self, other: Any) -> Tensor:
        """The lesser, NaN where either is NaN: IElementWiseLayer MIN (AND for bool), as :func:`maximum`."""

    def mm(self, mat2: Tensor) -> Tensor:
        """The product of two matrices: IMatrixMultiplyLayer."""

    def moveaxis(self, source: int | Sequence[int], destination: int | Sequence[int]) -> Tensor:
        """Dimensions ``source`` moved to ``destination``, the others in their order: IShuffleLayer."""

    def movedim(self, source: int | Sequence[int], destination: int | Sequence[int]) -> Tensor:
        """Dimensions ``source`` moved to ``destination``, the others in their order: IShuffleLayer."""

    def msort(self) -> Tensor:
        """:func:`sort` along dimension 0, values alone: ITopKLayer."""

    def mul(self, other: Any) -> Tensor:
        """``input * other``, broadcast: IElementWiseLayer PROD (AND for bool)."""

    def multiply(self, other: Any) -> Tensor:
        """``input * other``, broadcast: IElementWiseLayer PROD (AND for bool)."""

    def mv(self, vec: Tensor) -> Tensor:
        """The product of a matrix and a vector: IMatrixMultiplyLayer."""

    def nan_to_num(self, nan: float | None = None, posinf: float | None = None, neginf: float | None = None) -> Tensor:
        """NaN and infinities replaced by numbers: IUnaryLayer ISNAN, IElementWiseLayer EQUAL, ISelectLayers."""

    def nanmean(self, dim: Dims = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
        """The mean of what is not NaN: the layers of :func:`nansum`, divided by how many there are."""

    def nansum(self, dim: Dims = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
        """The sum of what is not NaN: IUnaryLayer ISNAN, ISelectLayer, IReduceLayer SUM."""

    def narrow(self, dim: int, start: SizeLike, length: SizeLike) -> Tensor:
        """``length`` elements of ``dim`` from ``start`` on: ISliceLayer; IGatherLayer for a start that is
        computed.
        """

    def ne(self, other: Any) -> Tensor:
        """``input != other``, broadcast: IElementWiseLayer EQUAL and IUnaryLayer NOT."""

    def neg(self) -> Tensor:
        """``-input``: IUnaryLayer NEG. bool is refused, as by torch."""

    def negative(self) -> Tensor:
        """``-input``: IUnaryLayer NEG. bool is refused, as by torch."""

    def new_empty(
        self, *size: Any, dtype: Any = None, layout: Any = None, device: Any = None, requires_grad: bool = False
    ) -> Tensor:
        """Values that nobody may use, which are zeros, in a tensor of ``size`` and the dtype of ``input``, as
        :func:`full`.
        """

    def new_full(
        self,
        size: Sequence[SizeLike],
        fill_value: Any,
        *,
        dtype: Any = None,
        layout: Any = None,
        device: Any = None,
        requires_grad: bool = False,
    ) -> Tensor:
        """``fill_value`` in a tensor of ``size`` and the dtype of ``input``, as :func:`full`."""

    def new_ones(
        self, *size: Any, dtype: Any = None, layout: Any = None, device: Any = None, requires_grad: bool = False
    ) -> Tensor:
        """Ones in a tensor of ``size`` and the dtype of ``input``, as :func:`full`."""

    def new_zeros(
        self, *size: Any, dtype: Any = None, layout: Any = None, device: Any = None, requires_grad: bool = False
    ) -> Tensor:
        """Zeros in a tensor of ``size`` and the dtype of ``input``, as :func:`full`."""

    def nonzero(self, *, as_tuple: bool = False) -> Any:
        """The positions of elements that are not zero, (count, rank) in int64: INonZeroLayer and
        IShuffleLayer.
        """

    def norm(self, p: Any = "fro", dim: Dims = None, keepdim: bool = False, dtype: Any = None) -> Tensor:
        """The ``p``-norm of vectors (``"fro"`` is 2) over ``dim``; as :func:`vector_norm`, which it is made
        of.
        """

    def not_equal(self, other: Any) -> Tensor:
        """``input != other``, broadcast: IElementWiseLayer EQUAL and IUnaryLayer NOT."""

    def outer(self, vec2: Tensor) -> Tensor:
        """The products of all pairs of elements of two vectors: IElementWiseLayer PROD."""

    def positive(self) -> Tensor:
        """``input`` itself; no layer."""

    def pow(self, exponent: Any) -> Tensor:
        """``input ** exponent``, broadcast: IElementWiseLayer POW."""

    def prelu(self, weight: Tensor, *, lowering: str = "auto") -> Tensor:
        """``input`` where positive, ``weight * input`` elsewhere, one weight or one per channel of dimension
        1.
        """

    def prod(self, dim: int | None = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
        """The product over ``dim`` (all dimensions when None): IReduceLayer PROD; integers and bool as int64."""

    def quantile(
        self, q: Any, dim: int | None = None, keepdim: bool = False, *, interpolation: str = "linear"
    ) -> Tensor:
        """The ``q`` quantile (a number, or a vector of them in front) of all elements, or along ``dim``."""

    def rad2deg(self) -> Tensor:
        """Radians as degrees: IElementWiseLayer PROD."""

    def ravel(self) -> Tensor:
        """All elements in one dimension: IShuffleLayer."""

    def real(self) -> Any:
        """The real part; of a Tensor itself. No layer."""

    def reciprocal(self) -> Tensor:
        """``1 / input``: IUnaryLayer RECIP; integers become float32 first."""

    def relu(self, inplace: bool = False) -> Tensor:
        """``max(input, 0)``: IActivationLayer RELU, before a max_pool of a convolution, where it costs
        nothing.
        """

    def remainder(self, other: Any) -> Tensor:
        """``input - other * floor(input / other)``, with the sign of ``other``: IElementWiseLayer FLOOR_DIV,
        PROD, SUB.
        """

    def renorm(self, p: float, dim: int, maxnorm: float) -> Tensor:
        """The parts of ``dim`` whose ``p``-norm is above ``maxnorm``, shortened to it: the layers of
        :func:`vector_norm`.
        """

    def repeat(self, *repeats: SizeLike | Sequence[SizeLike]) -> Tensor:
        """The whole repeated along each dimension, new ones in front: ISliceLayer (WRAP)."""

    def repeat_interleave(
        self, repeats: SizeLike, dim: int | None = None, *, output_size: SizeLike | None = None
    ) -> Tensor:
        """Each element repeated ``repeats`` times along ``dim`` (of the flattened tensor when None)."""

    def reshape_as(self, other: Tensor) -> Tensor:
        """``input`` in the shape of ``other``: IShuffleLayer."""

    def roll(self, shifts: Any, dims: Any = None) -> Tensor:
        """The elements shifted along ``dims``, those pushed out coming in at the other end: ISliceLayer
        (WRAP).
        """

    def rot90(self, k: int = 1, dims: Sequence[int] = (0, 1)) -> Tensor:
        """A quarter turn ``k`` times, from the first of ``dims`` to the second: ISliceLayer and IShuffleLayer."""

    def round(self, *, decimals: int = 0) -> Tensor:
        """Rounded to ``decimals`` places, halves to even: IUnaryLayer ROUND, between two scalings; integers
        are themselves.
        """

    def rsqrt(self) -> Tensor:
        """``1 / sqrt(input)``: IUnaryLayer SQRT and RECIP."""

    def scatter(self, dim: int, index: Tensor, src: Any, *, reduce: str | None = None) -> Tensor:
        """``input`` with ``src``, a tensor or a number, written at ``index`` along ``dim``: IScatterLayer
        (ELEMENT).
        """

    def scatter_add(self, dim: int, index: Tensor, src: Tensor) -> Tensor:
        """``src`` added to ``input`` at ``index`` along ``dim``, as often as an index appears: as
        :func:`scatter_reduce`.
        """

    def scatter_reduce(self, dim: int, index: Tensor, src: Any, reduce: str, *, include_self: bool = True) -> Tensor:
        """The values of ``src`` that ``index`` sends to one place of ``dim`` combined with what is there."""

    def select(self, dim: int, index: SizeLike) -> Tensor:
        """The part at ``index`` of ``dim``, without that dimension: ISliceLayer and IShuffleLayer."""

    def select_scatter(self, src: Tensor, dim: int, index: SizeLike) -> Tensor:
        """``input`` with ``src`` in the place of ``input.select(dim, index)``: as :func:`slice_scatter`."""

    def sgn(self) -> Tensor:
        """As :func:`sign`: TensorRT has no complex numbers."""

    def sigmoid(self) -> Tensor:
        """``1 / (1 + exp(-input))``: IActivationLayer SIGMOID."""

    def sign(self) -> Tensor:
        """-1, 0 or 1: IUnaryLayer SIGN; bool is itself."""

    def signbit(self) -> Tensor:
        """Whether the sign is set, of -0.0 too, by ``1 / input``: IElementWiseLayer LESS and OR, IUnaryLayer
        RECIP.
        """

    def sin(self) -> Tensor:
        """The sine of radians: IUnaryLayer SIN; integers become float32 first."""

    def sinc(self) -> Tensor:
        """``sin(pi * input) / (pi * input)``, 1 at 0: IUnaryLayer SIN, IElementWiseLayers, ISelectLayer."""

    def sinh(self) -> Tensor:
        """The hyperbolic sine: IUnaryLayer SINH; integers become float32 first."""

    def slice_scatter(
        self, src: Tensor, dim: int = 0, start: SizeLike | None = None, end: SizeLike | None = None, step: int = 1
    ) -> Tensor:
        """``input`` with ``src`` in the place of ``input[start:end:step]`` of ``dim``: ISliceLayers,
        IConcatenationLayer.
        """

    def softmax(self, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Tensor:
        """``exp(input) / sum(exp(input))`` over ``dim``: ISoftMaxLayer."""

    def sort(self, dim: int = -1, descending: bool = False, stable: bool = True) -> Selected:
        """All elements along ``dim`` in order, and where they were: ITopKLayer, which takes 3840 elements at
        most.
        """

    def split(self, split_size_or_sections: Any, dim: int = 0) -> tuple[Tensor, ...]:
        """Parts of ``split_size_or_sections`` elements, the last perhaps less, or of the sizes in that list:
        ISliceLayers.
        """

    def split_with_sizes(self, split_sizes: Sequence[SizeLike], dim: int = 0) -> tuple[Tensor, ...]:
        """Parts of the sizes in the list: ISliceLayers."""

    def sqrt(self) -> Tensor:
        """The square root: IUnaryLayer SQRT; integers become float32 first."""

    def square(self) -> Tensor:
        """``input * input``: IElementWiseLayer PROD."""

    def squeeze(self, dim: int | Sequence[int] | None = None) -> Tensor:
        """Without the dimensions ``dim`` (all when None) that are 1: IShuffleLayer. Dynamic dimensions stay."""

    def std(
        self, dim: Any = None, unbiased: bool | None = None, keepdim: bool = False, *, correction: float | None = None
    ) -> Tensor:
        """The square root of the variance: the layers of :func:`var`, IUnaryLayer SQRT."""

    def stft(
        self,
        n_fft: int,
        hop_length: int | None = None,
        win_length: int | None = None,
        window: Tensor | None = None,
        center: bool = True,
        pad_mode: str = "reflect",
        normalized: bool = False,
        onesided: bool | None = None,
        return_complex: bool | None = None,
        align_to_window: bool | None = None,
    ) -> Any:
        """Spectra (…, frequencies, frames) of windows of a real signal (…, T), which may be dynamic, as
        complex values.
        """

    def sub(self, other: Any, *, alpha: float = 1) -> Tensor:
        """``input - alpha * other``, broadcast: IElementWiseLayer SUB. bool is refused, as by torch."""

    def subtract(self, other: Any, *, alpha: float = 1) -> Tensor:
        """``input - alpha * other``, broadcast: IElementWiseLayer SUB. bool is refused, as by torch."""

    def sum(self, dim: Dims = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
        """The sum over ``dim`` (all dimensions when None): IReduceLayer SUM; integers and bool are summed as
        int64.
        """

    def sum_to_size(self, *size: Any) -> Tensor:
        """The sums that undo a broadcast to the shape of ``input``: IReduceLayer SUM."""

    def swapaxes(self, dim0: int, dim1: int) -> Tensor:
        """Two dimensions exchanged: IShuffleLayer."""

    def swapdims(self, dim0: int, dim1: int) -> Tensor:
        """Two dimensions exchanged: IShuffleLayer."""

    def t(self) -> Tensor:
        """A matrix transposed; fewer dimensions as they are: IShuffleLayer."""

    def take(self, index: Tensor) -> Tensor:
        """The elements of the flattened ``input`` at ``index``: IShuffleLayer and IGatherLayer."""

    def take_along_dim(self, indices: Tensor, dim: int | None = None) -> Tensor:
        """As :func:`gather` where the other dimensions are broadcast; of the flattened tensor when ``dim`` is
        None.
        """

    def tan(self) -> Tensor:
        """The tangent of radians: IUnaryLayer TAN; integers become float32 first."""

    def tanh(self) -> Tensor:
        """The hyperbolic tangent: IActivationLayer TANH."""

    def tensor_split(self, indices_or_sections: Any, dim: int = 0) -> tuple[Tensor, ...]:
        """That many parts, the first ones one longer where needed, or parts between the indices: ISliceLayers."""

    def topk(self, k: SizeLike, dim: int = -1, largest: bool = True, sorted: bool = True) -> Selected:
        """The ``k`` greatest (or least) elements along ``dim``, in order, and their indices: ITopKLayer."""

    def trace(self) -> Tensor:
        """The sum of a matrix's diagonal: the layers of :func:`diagonal` and IReduceLayer SUM; integers as
        int64.
        """

    def transpose(self, dim0: int, dim1: int) -> Tensor:
        """Two dimensions exchanged: IShuffleLayer."""

    def tril(self, diagonal: SizeLike = 0) -> Tensor:
        """The lower triangle of the last two dimensions, zeros above ``diagonal``: ISelectLayer with a
        constant mask.
        """

    def triu(self, diagonal: SizeLike = 0) -> Tensor:
        """The upper triangle of the last two dimensions, zeros below ``diagonal``: ISelectLayer with a
        constant mask.
        """

    def true_divide(self, other: Any, *, rounding_mode: str | None = None) -> Tensor:
        """``input / other``, broadcast: IElementWiseLayer DIV; integers become float32 first."""

    def trunc(self) -> Tensor:
        """Rounded towards zero: IUnaryLayer FLOOR, CEIL and ISelectLayer; integers are themselves."""

    def unbind(self, dim: int = 0) -> tuple[Tensor, ...]:
        """The parts along ``dim``, without that dimension: ISliceLayers and IShuffleLayers."""

    def unflatten(self, dim: int, sizes: Sequence[SizeLike]) -> Tensor:
        """Dimension ``dim`` taken apart into ``sizes``, of which one may be -1: IShuffleLayer."""

    def unsqueeze(self, dim: int) -> Tensor:
        """A dimension of size 1 put in at ``dim``: IShuffleLayer."""

    def var(
        self, dim: Any = None, unbiased: bool | None = None, keepdim: bool = False, *, correction: float | None = None
    ) -> Tensor:
        """The variance over ``dim`` (all dimensions when None): the squares over their number less
        ``correction`` (1).
        """

    def vdot(self, other: Tensor) -> Tensor:
        """As :func:`dot`."""

    def view(self, *shape: SizeLike | Sequence[SizeLike] | torch.dtype) -> Any:
        """As :func:`reshape`: tensors of a network have no strides. A single dtype is refused: it reinterprets
        bits.
        """

    def view_as(self, other: Tensor) -> Tensor:
        """``input`` in the shape of ``other``: IShuffleLayer."""

    def vsplit(self, indices_or_sections: Any) -> tuple[Tensor, ...]:
        """:func:`tensor_split` along dimension 0; sections must divide it."""

    def xlogy(self, other: Any) -> Tensor:
        """``input * log(other)``, 0 where ``input`` is 0 and ``other`` is not NaN."""

    def __add__(self, other: Any) -> Tensor: ...
    def __sub__(self, other: Any) -> Tensor: ...
    def __mul__(self, other: Any) -> Tensor: ...
    def __pow__(self, other: Any) -> Tensor: ...
    def __matmul__(self, other: Any) -> Tensor: ...
    def __neg__(self) -> Tensor: ...
    def __abs__(self) -> Tensor: ...
    def __getitem__(self, index: Any) -> Tensor: ...
    def __eq__(self, other: Any) -> Tensor: ...  # type: ignore[override]
    def __ne__(self, other: Any) -> Tensor: ...  # type: ignore[override]
    def __lt__(self, other: Any) -> Tensor: ...
    def __le__(self, other: Any) -> Tensor: ...
    def __gt__(self, other: Any) -> Tensor: ...
    def __ge__(self, other: Any) -> Tensor: ...
    def __truediv__(self, other: Any) -> Tensor: ...
    def __floordiv__(self, other: Any) -> Tensor: ...
    def __mod__(self, other: Any) -> Tensor: ...
    def __invert__(self) -> Tensor: ...
    def __and__(self, other: Any) -> Tensor: ...
    def __or__(self, other: Any) -> Tensor: ...
    def __xor__(self, other: Any) -> Tensor: ...
    def __radd__(self, other: Any) -> Tensor: ...
    def __rsub__(self, other: Any) -> Tensor: ...
    def __rmul__(self, other: Any) -> Tensor: ...
    def __rtruediv__(self, other: Any) -> Tensor: ...
    def __rfloordiv__(self, other: Any) -> Tensor: ...
    def __rmod__(self, other: Any) -> Tensor: ...
    def __rpow__(self, other: Any) -> Tensor: ...
    def __rmatmul__(self, other: Any) -> Tensor: ...
    def __rand__(self, other: Any) -> Tensor: ...
    def __ror__(self, other: Any) -> Tensor: ...
    def __rxor__(self, other: Any) -> Tensor: ...
