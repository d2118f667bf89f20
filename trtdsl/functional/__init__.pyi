"""torch's vocabulary: same names, same arguments, same meaning; written in terms of :mod:`trtdsl.layers`.

In the examples, ``net`` is a new ``td.Network()``.
"""

import builtins
from collections.abc import Sequence
from typing import Any

from trtdsl.definition.methods import Dims
from trtdsl.definition.tensor import Selected, Tensor
from trtdsl.functional.detection import batched_nms as batched_nms
from trtdsl.functional.detection import box_area as box_area
from trtdsl.functional.detection import box_convert as box_convert
from trtdsl.functional.detection import box_iou as box_iou
from trtdsl.functional.detection import deform_conv2d as deform_conv2d
from trtdsl.functional.detection import nms as nms
from trtdsl.functional.detection import roi_align as roi_align
from trtdsl.functional.einsum import einops_einsum as einops_einsum
from trtdsl.functional.einsum import einsum as einsum
from trtdsl.functional.indexing.gather import embedding as embedding
from trtdsl.functional.indexing.gather import gather as gather
from trtdsl.functional.indexing.gather import index_add as index_add
from trtdsl.functional.indexing.gather import index_copy as index_copy
from trtdsl.functional.indexing.gather import index_fill as index_fill
from trtdsl.functional.indexing.gather import index_put as index_put
from trtdsl.functional.indexing.gather import index_select as index_select
from trtdsl.functional.indexing.gather import masked_select as masked_select
from trtdsl.functional.indexing.gather import nonzero as nonzero
from trtdsl.functional.indexing.gather import scatter as scatter
from trtdsl.functional.indexing.gather import scatter_add as scatter_add
from trtdsl.functional.indexing.gather import scatter_reduce as scatter_reduce
from trtdsl.functional.indexing.gather import setitem as setitem
from trtdsl.functional.indexing.gather import take as take
from trtdsl.functional.indexing.gather import take_along_dim as take_along_dim
from trtdsl.functional.indexing.index import getitem as getitem
from trtdsl.functional.indexing.search import bincount as bincount
from trtdsl.functional.indexing.search import bucketize as bucketize
from trtdsl.functional.indexing.search import embedding_bag as embedding_bag
from trtdsl.functional.indexing.search import histc as histc
from trtdsl.functional.indexing.search import isin as isin
from trtdsl.functional.indexing.search import masked_scatter as masked_scatter
from trtdsl.functional.indexing.search import searchsorted as searchsorted
from trtdsl.functional.pointwise.activation import celu as celu
from trtdsl.functional.pointwise.activation import elu as elu
from trtdsl.functional.pointwise.activation import gelu as gelu
from trtdsl.functional.pointwise.activation import glu as glu
from trtdsl.functional.pointwise.activation import hardshrink as hardshrink
from trtdsl.functional.pointwise.activation import hardsigmoid as hardsigmoid
from trtdsl.functional.pointwise.activation import hardtanh as hardtanh
from trtdsl.functional.pointwise.activation import leaky_relu as leaky_relu
from trtdsl.functional.pointwise.activation import log_softmax as log_softmax
from trtdsl.functional.pointwise.activation import mish as mish
from trtdsl.functional.pointwise.activation import prelu as prelu
from trtdsl.functional.pointwise.activation import rrelu as rrelu
from trtdsl.functional.pointwise.activation import silu as silu
from trtdsl.functional.pointwise.activation import softmax as softmax
from trtdsl.functional.pointwise.activation import softmin as softmin
from trtdsl.functional.pointwise.activation import softplus as softplus
from trtdsl.functional.pointwise.activation import softshrink as softshrink
from trtdsl.functional.pointwise.activation import threshold as threshold
from trtdsl.functional.pointwise.arithmetic import addcdiv as addcdiv
from trtdsl.functional.pointwise.arithmetic import addcmul as addcmul
from trtdsl.functional.pointwise.arithmetic import atan2 as atan2
from trtdsl.functional.pointwise.arithmetic import clamp as clamp
from trtdsl.functional.pointwise.arithmetic import clamp_max as clamp_max
from trtdsl.functional.pointwise.arithmetic import clamp_min as clamp_min
from trtdsl.functional.pointwise.arithmetic import copysign as copysign
from trtdsl.functional.pointwise.arithmetic import div as div
from trtdsl.functional.pointwise.arithmetic import floor_divide as floor_divide
from trtdsl.functional.pointwise.arithmetic import fmod as fmod
from trtdsl.functional.pointwise.arithmetic import heaviside as heaviside
from trtdsl.functional.pointwise.arithmetic import hypot as hypot
from trtdsl.functional.pointwise.arithmetic import lerp as lerp
from trtdsl.functional.pointwise.arithmetic import maximum as maximum
from trtdsl.functional.pointwise.arithmetic import minimum as minimum
from trtdsl.functional.pointwise.arithmetic import mul as mul
from trtdsl.functional.pointwise.arithmetic import pow as pow
from trtdsl.functional.pointwise.arithmetic import remainder as remainder
from trtdsl.functional.pointwise.arithmetic import rsub as rsub
from trtdsl.functional.pointwise.elementary import entr as entr
from trtdsl.functional.pointwise.elementary import expm1 as expm1
from trtdsl.functional.pointwise.elementary import log1p as log1p
from trtdsl.functional.pointwise.elementary import logit as logit
from trtdsl.functional.pointwise.elementary import nan_to_num as nan_to_num
from trtdsl.functional.pointwise.elementary import round as round
from trtdsl.functional.pointwise.elementary import signbit as signbit
from trtdsl.functional.pointwise.elementary import sinc as sinc
from trtdsl.functional.pointwise.logic import bitwise_and as bitwise_and
from trtdsl.functional.pointwise.logic import bitwise_left_shift as bitwise_left_shift
from trtdsl.functional.pointwise.logic import bitwise_not as bitwise_not
from trtdsl.functional.pointwise.logic import bitwise_right_shift as bitwise_right_shift
from trtdsl.functional.pointwise.logic import isclose as isclose
from trtdsl.functional.pointwise.logic import isfinite as isfinite
from trtdsl.functional.pointwise.logic import logical_not as logical_not
from trtdsl.functional.pointwise.logic import masked_fill as masked_fill
from trtdsl.functional.pointwise.logic import where as where
from trtdsl.functional.pointwise.quantization import clone as clone
from trtdsl.functional.pointwise.quantization import dequantize as dequantize
from trtdsl.functional.pointwise.quantization import (
    fake_quantize_per_channel_affine as fake_quantize_per_channel_affine,
)
from trtdsl.functional.pointwise.quantization import fake_quantize_per_tensor_affine as fake_quantize_per_tensor_affine
from trtdsl.functional.pointwise.quantization import fused_moving_avg_obs_fake_quant as fused_moving_avg_obs_fake_quant
from trtdsl.functional.pointwise.quantization import quantize as quantize
from trtdsl.functional.pointwise.quantization import to as to
from trtdsl.functional.products.attention import multi_head_attention_forward as multi_head_attention_forward
from trtdsl.functional.products.attention import scaled_dot_product_attention as scaled_dot_product_attention
from trtdsl.functional.products.linalg import cholesky as cholesky
from trtdsl.functional.products.linalg import det as det
from trtdsl.functional.products.linalg import grouped_mm as grouped_mm
from trtdsl.functional.products.linalg import inverse as inverse
from trtdsl.functional.products.linalg import linear as linear
from trtdsl.functional.products.linalg import matmul as matmul
from trtdsl.functional.products.linalg import matrix_norm as matrix_norm
from trtdsl.functional.products.linalg import slogdet as slogdet
from trtdsl.functional.products.linalg import solve as solve
from trtdsl.functional.products.linalg import solve_triangular as solve_triangular
from trtdsl.functional.products.products import addbmm as addbmm
from trtdsl.functional.products.products import addmm as addmm
from trtdsl.functional.products.products import addmv as addmv
from trtdsl.functional.products.products import addr as addr
from trtdsl.functional.products.products import baddbmm as baddbmm
from trtdsl.functional.products.products import bilinear as bilinear
from trtdsl.functional.products.products import cdist as cdist
from trtdsl.functional.products.products import cosine_similarity as cosine_similarity
from trtdsl.functional.products.products import cross as cross
from trtdsl.functional.products.products import dot as dot
from trtdsl.functional.products.products import inner as inner
from trtdsl.functional.products.products import kron as kron
from trtdsl.functional.products.products import matrix_power as matrix_power
from trtdsl.functional.products.products import multi_dot as multi_dot
from trtdsl.functional.products.products import mv as mv
from trtdsl.functional.products.products import outer as outer
from trtdsl.functional.products.products import pairwise_distance as pairwise_distance
from trtdsl.functional.products.products import pdist as pdist
from trtdsl.functional.products.products import tensordot as tensordot
from trtdsl.functional.products.products import vdot as vdot
from trtdsl.functional.products.products import vecdot as vecdot
from trtdsl.functional.reducing.cumulative import cumprod as cumprod
from trtdsl.functional.reducing.cumulative import cumsum as cumsum
from trtdsl.functional.reducing.cumulative import cumulative_trapezoid as cumulative_trapezoid
from trtdsl.functional.reducing.cumulative import diff as diff
from trtdsl.functional.reducing.cumulative import logcumsumexp as logcumsumexp
from trtdsl.functional.reducing.cumulative import trapezoid as trapezoid
from trtdsl.functional.reducing.normalization import batch_norm as batch_norm
from trtdsl.functional.reducing.normalization import group_norm as group_norm
from trtdsl.functional.reducing.normalization import instance_norm as instance_norm
from trtdsl.functional.reducing.normalization import layer_norm as layer_norm
from trtdsl.functional.reducing.normalization import local_response_norm as local_response_norm
from trtdsl.functional.reducing.normalization import normalize as normalize
from trtdsl.functional.reducing.normalization import rms_norm as rms_norm
from trtdsl.functional.reducing.reduction import aminmax as aminmax
from trtdsl.functional.reducing.reduction import count_nonzero as count_nonzero
from trtdsl.functional.reducing.reduction import equal as equal
from trtdsl.functional.reducing.reduction import mean as mean
from trtdsl.functional.reducing.reduction import nanmean as nanmean
from trtdsl.functional.reducing.reduction import nansum as nansum
from trtdsl.functional.reducing.reduction import sum_to_size as sum_to_size
from trtdsl.functional.reducing.statistics import argsort as argsort
from trtdsl.functional.reducing.statistics import corrcoef as corrcoef
from trtdsl.functional.reducing.statistics import cov as cov
from trtdsl.functional.reducing.statistics import dist as dist
from trtdsl.functional.reducing.statistics import kthvalue as kthvalue
from trtdsl.functional.reducing.statistics import logsumexp as logsumexp
from trtdsl.functional.reducing.statistics import median as median
from trtdsl.functional.reducing.statistics import msort as msort
from trtdsl.functional.reducing.statistics import norm as norm
from trtdsl.functional.reducing.statistics import one_hot as one_hot
from trtdsl.functional.reducing.statistics import quantile as quantile
from trtdsl.functional.reducing.statistics import renorm as renorm
from trtdsl.functional.reducing.statistics import sort as sort
from trtdsl.functional.reducing.statistics import topk as topk
from trtdsl.functional.reducing.statistics import var as var
from trtdsl.functional.reducing.statistics import vector_norm as vector_norm
from trtdsl.functional.sampling.grid_sample import affine_grid as affine_grid
from trtdsl.functional.sampling.grid_sample import bilinear_sample as bilinear_sample
from trtdsl.functional.sampling.grid_sample import grid_sample as grid_sample
from trtdsl.functional.sampling.interpolate import Targets
from trtdsl.functional.sampling.interpolate import interpolate as interpolate
from trtdsl.functional.scanning.recurrent import lstm as lstm
from trtdsl.functional.scanning.recurrent import lstm_cell as lstm_cell
from trtdsl.functional.scanning.scan import associative_scan as associative_scan
from trtdsl.functional.scanning.scan import linear_recurrence as linear_recurrence
from trtdsl.functional.scanning.scan import selective_scan as selective_scan
from trtdsl.functional.shaping.arrange import channel_shuffle as channel_shuffle
from trtdsl.functional.shaping.arrange import constant_pad_nd as constant_pad_nd
from trtdsl.functional.shaping.arrange import diag as diag
from trtdsl.functional.shaping.arrange import diag_embed as diag_embed
from trtdsl.functional.shaping.arrange import diagflat as diagflat
from trtdsl.functional.shaping.arrange import diagonal as diagonal
from trtdsl.functional.shaping.arrange import diagonal_scatter as diagonal_scatter
from trtdsl.functional.shaping.arrange import flip as flip
from trtdsl.functional.shaping.arrange import fold as fold
from trtdsl.functional.shaping.arrange import pad as pad
from trtdsl.functional.shaping.arrange import pixel_shuffle as pixel_shuffle
from trtdsl.functional.shaping.arrange import pixel_unshuffle as pixel_unshuffle
from trtdsl.functional.shaping.arrange import roll as roll
from trtdsl.functional.shaping.arrange import rot90 as rot90
from trtdsl.functional.shaping.arrange import trace as trace
from trtdsl.functional.shaping.arrange import unfold as unfold
from trtdsl.functional.shaping.arrange import unfold_dimension as unfold_dimension
from trtdsl.functional.shaping.create import as_tensor as as_tensor
from trtdsl.functional.shaping.create import cartesian_prod as cartesian_prod
from trtdsl.functional.shaping.create import fill as fill
from trtdsl.functional.shaping.create import meshgrid as meshgrid
from trtdsl.functional.shaping.create import tensor as tensor
from trtdsl.functional.shaping.join import as_strided as as_strided
from trtdsl.functional.shaping.join import block_diag as block_diag
from trtdsl.functional.shaping.join import cat as cat
from trtdsl.functional.shaping.join import chunk as chunk
from trtdsl.functional.shaping.join import combinations as combinations
from trtdsl.functional.shaping.join import narrow as narrow
from trtdsl.functional.shaping.join import select as select
from trtdsl.functional.shaping.join import select_scatter as select_scatter
from trtdsl.functional.shaping.join import slice_scatter as slice_scatter
from trtdsl.functional.shaping.join import split as split
from trtdsl.functional.shaping.join import split_with_sizes as split_with_sizes
from trtdsl.functional.shaping.join import stack as stack
from trtdsl.functional.shaping.join import tensor_split as tensor_split
from trtdsl.functional.shaping.join import unbind as unbind
from trtdsl.functional.shaping.join import unravel_index as unravel_index
from trtdsl.functional.shaping.reshape import broadcast_tensors as broadcast_tensors
from trtdsl.functional.shaping.reshape import broadcast_to as broadcast_to
from trtdsl.functional.shaping.reshape import expand as expand
from trtdsl.functional.shaping.reshape import flatten as flatten
from trtdsl.functional.shaping.reshape import movedim as movedim
from trtdsl.functional.shaping.reshape import permute as permute
from trtdsl.functional.shaping.reshape import ravel as ravel
from trtdsl.functional.shaping.reshape import repeat as repeat
from trtdsl.functional.shaping.reshape import repeat_interleave as repeat_interleave
from trtdsl.functional.shaping.reshape import reshape as reshape
from trtdsl.functional.shaping.reshape import squeeze as squeeze
from trtdsl.functional.shaping.reshape import t as t
from trtdsl.functional.shaping.reshape import tile as tile
from trtdsl.functional.shaping.reshape import transpose as transpose
from trtdsl.functional.shaping.reshape import unflatten as unflatten
from trtdsl.functional.shaping.reshape import unsqueeze as unsqueeze
from trtdsl.functional.shaping.reshape import view as view
from trtdsl.functional.spectral.complex_tensor import angle as angle
from trtdsl.functional.spectral.complex_tensor import complex as complex
from trtdsl.functional.spectral.complex_tensor import conj as conj
from trtdsl.functional.spectral.complex_tensor import imag as imag
from trtdsl.functional.spectral.complex_tensor import polar as polar
from trtdsl.functional.spectral.complex_tensor import real as real
from trtdsl.functional.spectral.complex_tensor import view_as_complex as view_as_complex
from trtdsl.functional.spectral.complex_tensor import view_as_real as view_as_real
from trtdsl.functional.spectral.fourier import fft as fft
from trtdsl.functional.spectral.fourier import istft as istft
from trtdsl.functional.spectral.fourier import stft as stft
from trtdsl.functional.windows.adaptive import max_unpool2d as max_unpool2d
from trtdsl.functional.windows.convolution import conv1d as conv1d
from trtdsl.functional.windows.convolution import conv2d as conv2d
from trtdsl.functional.windows.convolution import conv3d as conv3d
from trtdsl.functional.windows.convolution import conv_transpose1d as conv_transpose1d
from trtdsl.functional.windows.convolution import conv_transpose2d as conv_transpose2d
from trtdsl.functional.windows.convolution import conv_transpose3d as conv_transpose3d
from trtdsl.functional.windows.extent import Window
from trtdsl.functional.windows.pooling import avg_pool2d as avg_pool2d
from trtdsl.functional.windows.pooling import max_pool2d as max_pool2d
from trtdsl.sizes.size import SizeLike

__all__: builtins.list[builtins.str]

def sigmoid(input: Tensor) -> Tensor:
    """``1 / (1 + exp(-input))``: IActivationLayer SIGMOID."""

def tanh(input: Tensor) -> Tensor:
    """The hyperbolic tangent: IActivationLayer TANH."""

def softsign(input: Tensor) -> Tensor:
    """``input / (1 + |input|)``: IActivationLayer SOFTSIGN."""

def logsigmoid(input: Tensor) -> Tensor:
    """``log(sigmoid(input))`` without underflow: ``-softplus(-input)``: IUnaryLayer NEG, IActivationLayer SOFTPLUS."""

def tanhshrink(input: Tensor) -> Tensor:
    """``input - tanh(input)``: IActivationLayer TANH and IElementWiseLayer SUB."""

def relu(input: Tensor, inplace: bool = False) -> Tensor:
    """``max(input, 0)``: IActivationLayer RELU, before a max_pool of a convolution, where it costs nothing."""

def relu6(input: Tensor, inplace: bool = False) -> Tensor:
    """``input`` between 0 and 6: IActivationLayer CLIP."""

def hardswish(input: Tensor, inplace: bool = False) -> Tensor:
    """``input * hardsigmoid(input)``: IActivationLayer HARD_SIGMOID and IElementWiseLayer PROD."""

def selu(input: Tensor, inplace: bool = False) -> Tensor:
    """``scale * (max(0, input) + min(0, alpha * (exp(input) - 1)))`` with SELU's constants: IActivationLayer SELU."""

def dropout(input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False) -> Tensor:
    """``input`` itself: an engine is for inference.

    ``training=True``, the default in torch, is refused unless p is 0 or 1, which leave nothing to chance.
    """

def add(input: Any, other: Any, *, alpha: float = 1) -> Tensor:
    """``input + alpha * other``, broadcast: IElementWiseLayer SUM (OR for bool), PROD before it for an alpha."""

def sub(input: Any, other: Any, *, alpha: float = 1) -> Tensor:
    """``input - alpha * other``, broadcast: IElementWiseLayer SUB, PROD as in :func:`add`; not for bool."""

def fmax(input: Any, other: Any) -> Tensor:
    """The greater, the other one where one is NaN: IElementWiseLayer, IUnaryLayer ISNAN and ISelectLayer."""

def fmin(input: Any, other: Any) -> Tensor:
    """The lesser, the other one where one is NaN: IElementWiseLayer, IUnaryLayer ISNAN and ISelectLayer."""

def xlogy(input: Any, other: Any) -> Tensor:
    """``input * log(other)``, 0 where ``input`` is 0 unless ``other`` is NaN: IUnaryLayer LOG, ISelectLayers."""

def xlog1py(input: Any, other: Any) -> Tensor:
    """``x log(1 + y)``, 0 where x is 0 unless y is NaN: the layers of :func:`log1p`, ISelectLayers."""

def logaddexp(input: Any, other: Any) -> Tensor:
    """``log(exp(input) + exp(other))`` without overflow: the greater and IActivationLayer SOFTPLUS of -distance."""

def logaddexp2(input: Any, other: Any) -> Tensor:
    """``log2(2 ** input + 2 ** other)`` without overflow: as :func:`logaddexp`."""

def ldexp(input: Any, other: Any) -> Tensor:
    """``x * 2 ** y``: IElementWiseLayers POW and PROD; integers become float32 first."""

def exp(input: Tensor) -> Tensor:
    """``e ** input``: IUnaryLayer EXP; integers become float32 first."""

def log(input: Tensor) -> Tensor:
    """The natural logarithm: IUnaryLayer LOG; integers become float32 first."""

def sqrt(input: Tensor) -> Tensor:
    """The square root: IUnaryLayer SQRT; integers become float32 first."""

def reciprocal(input: Tensor) -> Tensor:
    """``1 / input``: IUnaryLayer RECIP; integers become float32 first."""

def sin(input: Tensor) -> Tensor:
    """The sine of radians: IUnaryLayer SIN; integers become float32 first."""

def cos(input: Tensor) -> Tensor:
    """The cosine of radians: IUnaryLayer COS; integers become float32 first."""

def tan(input: Tensor) -> Tensor:
    """The tangent of radians: IUnaryLayer TAN; integers become float32 first."""

def sinh(input: Tensor) -> Tensor:
    """The hyperbolic sine: IUnaryLayer SINH; integers become float32 first."""

def cosh(input: Tensor) -> Tensor:
    """The hyperbolic cosine: IUnaryLayer COSH; integers become float32 first."""

def asin(input: Tensor) -> Tensor:
    """The inverse sine: IUnaryLayer ASIN; integers become float32 first."""

def acos(input: Tensor) -> Tensor:
    """The inverse cosine: IUnaryLayer ACOS; integers become float32 first."""

def atan(input: Tensor) -> Tensor:
    """The inverse tangent: IUnaryLayer ATAN; integers become float32 first."""

def asinh(input: Tensor) -> Tensor:
    """The inverse hyperbolic sine: IUnaryLayer ASINH; integers become float32 first."""

def acosh(input: Tensor) -> Tensor:
    """The inverse hyperbolic cosine: IUnaryLayer ACOSH; integers become float32 first."""

def atanh(input: Tensor) -> Tensor:
    """The inverse hyperbolic tangent: IUnaryLayer ATANH; integers become float32 first."""

def erf(input: Tensor) -> Tensor:
    """The error function: IUnaryLayer ERF; integers become float32 first."""

def abs(input: Tensor) -> Tensor:
    """The absolute value: IUnaryLayer ABS; bool is itself."""

def neg(input: Tensor) -> Tensor:
    """``-input``: IUnaryLayer NEG. bool is refused, as by torch."""

def positive(input: Tensor) -> Tensor:
    """``input`` itself; no layer."""

def sign(input: Tensor) -> Tensor:
    """-1, 0 or 1: IUnaryLayer SIGN; bool is itself."""

def sgn(input: Tensor) -> Tensor:
    """As :func:`sign`: TensorRT has no complex numbers."""

def square(input: Tensor) -> Tensor:
    """``input * input``: IElementWiseLayer PROD."""

def rsqrt(input: Tensor) -> Tensor:
    """``1 / sqrt(input)``: IUnaryLayer SQRT and RECIP."""

def exp2(input: Tensor) -> Tensor:
    """``2 ** input``: IElementWiseLayer POW."""

def log2(input: Tensor) -> Tensor:
    """The logarithm to base 2: IUnaryLayer LOG and IElementWiseLayer PROD."""

def log10(input: Tensor) -> Tensor:
    """The logarithm to base 10: IUnaryLayer LOG and IElementWiseLayer PROD."""

def deg2rad(input: Tensor) -> Tensor:
    """Degrees as radians: IElementWiseLayer PROD."""

def rad2deg(input: Tensor) -> Tensor:
    """Radians as degrees: IElementWiseLayer PROD."""

def erfc(input: Tensor) -> Tensor:
    """``1 - erf(input)``: IUnaryLayer ERF, IElementWiseLayer SUB; its tail below 1e-7 is lost to rounding."""

def ndtr(input: Tensor) -> Tensor:
    """The standard normal distribution up to x, ``erfc(-x / √2) / 2``: the layers of :func:`erfc`."""

def frac(input: Tensor) -> Tensor:
    """``input - trunc(input)``: the layers of :func:`trunc`, IElementWiseLayer SUB."""

def ceil(input: Tensor) -> Tensor:
    """Rounded up: IUnaryLayer CEIL; integers are themselves."""

def floor(input: Tensor) -> Tensor:
    """Rounded down: IUnaryLayer FLOOR; integers are themselves."""

def trunc(input: Tensor) -> Tensor:
    """Rounded towards zero: IUnaryLayer FLOOR, CEIL and ISelectLayer; integers are themselves."""

def eq(input: Any, other: Any) -> Tensor:
    """``input == other``, broadcast: IElementWiseLayer EQUAL."""

def ne(input: Any, other: Any) -> Tensor:
    """``input != other``, broadcast: IElementWiseLayer EQUAL and IUnaryLayer NOT."""

def lt(input: Any, other: Any) -> Tensor:
    """``input < other``, broadcast: IElementWiseLayer LESS."""

def le(input: Any, other: Any) -> Tensor:
    """``input <= other``, broadcast: as :func:`gt`, IUnaryLayer NOT; ISNAN for what may be NaN."""

def gt(input: Any, other: Any) -> Tensor:
    """``input > other``, broadcast: IElementWiseLayer GREATER."""

def ge(input: Any, other: Any) -> Tensor:
    """``input >= other``, broadcast: as :func:`lt`, IUnaryLayer NOT; ISNAN for what may be NaN."""

def isnan(input: Tensor) -> Tensor:
    """Whether an element is NaN: IUnaryLayer ISNAN; integers never are."""

def isinf(input: Tensor) -> Tensor:
    """Whether an element is infinite: IUnaryLayer ISINF; integers never are."""

def isposinf(input: Tensor) -> Tensor:
    """Whether an element is positive infinity: IElementWiseLayer EQUAL."""

def isneginf(input: Tensor) -> Tensor:
    """Whether an element is negative infinity: IElementWiseLayer EQUAL."""

def logical_and(input: Any, other: Any) -> Tensor:
    """Both, broadcast: IElementWiseLayer AND; numbers are true unless 0."""

def logical_or(input: Any, other: Any) -> Tensor:
    """Either or both, broadcast: IElementWiseLayer OR; numbers are true unless 0."""

def logical_xor(input: Any, other: Any) -> Tensor:
    """One of the two, broadcast: IElementWiseLayer XOR; numbers are true unless 0."""

def bitwise_or(input: Any, other: Any) -> Tensor:
    """The bits that either has: IElementWiseLayer OR for bool; integers as in :func:`bitwise_and`."""

def bitwise_xor(input: Any, other: Any) -> Tensor:
    """The bits that one of the two has: IElementWiseLayer XOR for bool; integers as in :func:`bitwise_and`."""

def mm(input: Tensor, mat2: Tensor) -> Tensor:
    """The product of two matrices: IMatrixMultiplyLayer."""

def bmm(input: Tensor, mat2: Tensor) -> Tensor:
    """The product of two batches of matrices: IMatrixMultiplyLayer."""

def cummax(input: Tensor, dim: int) -> Selected:
    """The greatest element up to each, and where it is (the last of equal ones): as :func:`cumprod`.

    ISliceLayer, IElementWiseLayers and ISelectLayers for each power of two. NaN is taken before all, as in torch.

    Raises UnsupportedError for a dimension without an upper bound.
    """

def cummin(input: Tensor, dim: int) -> Selected:
    """The least element up to each, and where it is (the last of equal ones): as :func:`cumprod`.

    ISliceLayer, IElementWiseLayers and ISelectLayers for each power of two. NaN is taken before all, as in torch.

    Raises UnsupportedError for a dimension without an upper bound.
    """

def sum(input: Tensor, dim: Dims = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """The sum over ``dim`` (all dimensions when None): IReduceLayer SUM; integers and bool as int64."""

def prod(input: Tensor, dim: Dims = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """The product over ``dim`` (all dimensions when None): IReduceLayer PROD; integers and bool as int64."""

def amax(input: Tensor, dim: Dims = (), keepdim: bool = False, *, lowering: str = "auto") -> Tensor:
    """The greatest element over ``dim`` (all dimensions when empty).

    IReduceLayer MAX (``lowering="reduce"``), which skips NaN where torch gives NaN; maxima may be an IPoolingLayer
    (``"pooling"``, ``"by_use"``) as in :func:`mean`.
    """

def amin(input: Tensor, dim: Dims = (), keepdim: bool = False, *, lowering: str = "auto") -> Tensor:
    """The least element over ``dim`` (all dimensions when empty).

    IReduceLayer MIN (``lowering="reduce"``), which skips NaN where torch gives NaN; maxima may be an IPoolingLayer
    (``"pooling"``, ``"by_use"``) as in :func:`mean`.
    """

def max(input: Tensor, dim: Any = None, keepdim: bool = False) -> Any:
    """The greatest element of all, or (values, indices) over ``dim``, or :func:`maximum` with a second tensor.

    IReduceLayer MAX; ITopKLayer of one element with ``dim``, the first of equal ones.
    """

def min(input: Tensor, dim: Any = None, keepdim: bool = False) -> Any:
    """The least element of all, or (values, indices) over ``dim``, or :func:`minimum` with a second tensor.

    IReduceLayer MIN; ITopKLayer of one element with ``dim``, the first of equal ones.
    """

def argmax(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
    """Where the greatest element is over ``dim``, or in the flattened tensor; the first of equal ones: ITopKLayer."""

def argmin(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
    """Where the least element is over ``dim``, or in the flattened tensor; the first of equal ones: ITopKLayer."""

def all(input: Tensor, dim: Dims = None, keepdim: bool = False) -> Tensor:
    """Whether all elements are true over ``dim``: IReduceLayer PROD of zeros and ones, between two ICastLayers."""

def any(input: Tensor, dim: Dims = None, keepdim: bool = False) -> Tensor:
    """Whether any element is true over ``dim``: IReduceLayer SUM of zeros and ones, between two ICastLayers."""

def std(
    input: Tensor,
    dim: Any = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    *,
    correction: float | None = None,
) -> Any:
    """The square root of the variance: the layers of :func:`var`, IUnaryLayer SQRT."""

def var_mean(
    input: Tensor,
    dim: Any = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    *,
    correction: float | None = None,
) -> Any:
    """The variance and the mean, as :func:`var`."""

def std_mean(
    input: Tensor,
    dim: Any = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    *,
    correction: float | None = None,
) -> Any:
    """The standard deviation and the mean, as :func:`std`."""

def upsample_nearest(
    input: Tensor, size: Targets | None = None, scale_factor: float | Sequence[float] | None = None
) -> Tensor:
    """As :func:`interpolate` with mode nearest."""

def upsample_bilinear(
    input: Tensor, size: Targets | None = None, scale_factor: float | Sequence[float] | None = None
) -> Tensor:
    """As :func:`interpolate` with mode bilinear and ``align_corners=True``."""

def gru_cell(
    input: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = None, b_hh: Tensor | None = None
) -> Tensor:
    """The next state (N, hidden) of a gated recurrent unit, as torch.nn.GRUCell has it: two products and the gates."""

def rnn_tanh_cell(
    input: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = None, b_hh: Tensor | None = None
) -> Tensor:
    """The next state (N, hidden) of torch.nn.RNNCell: two products, their sum, and its tanh."""

def rnn_relu_cell(
    input: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = None, b_hh: Tensor | None = None
) -> Tensor:
    """The next state (N, hidden) of torch.nn.RNNCell: two products, their sum, and its relu."""

def gru(
    input: Tensor,
    hx: Tensor | Sequence[Tensor],
    params: Sequence[Tensor],
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
    *,
    lengths: Tensor | None = None,
) -> tuple[Tensor, ...]:
    """Gated recurrent units (torch.nn.GRU): all hidden states and the last ones, as :func:`lstm`."""

def rnn_tanh(
    input: Tensor,
    hx: Tensor | Sequence[Tensor],
    params: Sequence[Tensor],
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
    *,
    lengths: Tensor | None = None,
) -> tuple[Tensor, ...]:
    """A plain recurrent network (torch.nn.RNN) with tanh: all hidden states and the last ones, as :func:`lstm`."""

def rnn_relu(
    input: Tensor,
    hx: Tensor | Sequence[Tensor],
    params: Sequence[Tensor],
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
    *,
    lengths: Tensor | None = None,
) -> tuple[Tensor, ...]:
    """A plain recurrent network (torch.nn.RNN) with relu: all hidden states and the last ones, as :func:`lstm`."""

def fliplr(input: Tensor) -> Tensor:
    """The elements of dimension 1 in reverse: ISliceLayer with a stride of -1."""

def flipud(input: Tensor) -> Tensor:
    """The elements of dimension 0 in reverse: ISliceLayer with a stride of -1."""

def full(
    size: Sequence[SizeLike],
    fill_value: Any,
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """``fill_value`` in every place of a new tensor: a constant; ISliceLayer with a stride of 0 for dynamic sizes.

    ``device`` has no meaning in an engine.
    """

def zeros(*size: Any, dtype: Any = None, layout: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Zeros (float32 unless ``dtype`` says otherwise), as :func:`full`."""

def ones(*size: Any, dtype: Any = None, layout: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Ones (float32 unless ``dtype`` says otherwise), as :func:`full`."""

def empty(*size: Any, dtype: Any = None, layout: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Values that nobody may use, which are zeros (float32 unless ``dtype`` says otherwise), as :func:`full`."""

def full_like(
    input: Tensor,
    fill_value: Any,
    *,
    dtype: Any = None,
    memory_format: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """``fill_value`` in the shape and dtype of ``input``, as :func:`full`."""

def zeros_like(
    input: Tensor,
    *,
    dtype: Any = None,
    memory_format: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Zeros in the shape and dtype of ``input``, as :func:`full`."""

def ones_like(
    input: Tensor,
    *,
    dtype: Any = None,
    memory_format: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Ones in the shape and dtype of ``input``, as :func:`full`."""

def empty_like(
    input: Tensor,
    *,
    dtype: Any = None,
    memory_format: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Values that nobody may use, which are zeros, in the shape and dtype of ``input``, as :func:`full`."""

def new_full(
    input: Tensor,
    size: Sequence[SizeLike],
    fill_value: Any,
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """``fill_value`` in a tensor of ``size`` and the dtype of ``input``, as :func:`full`."""

def new_zeros(
    input: Tensor, *size: Any, dtype: Any = None, layout: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """Zeros in shape ``size`` and the dtype of ``input``, as :func:`full`."""

def new_ones(
    input: Tensor, *size: Any, dtype: Any = None, layout: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """Ones in shape ``size`` and the dtype of ``input``, as :func:`full`."""

def new_empty(
    input: Tensor, *size: Any, dtype: Any = None, layout: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """Values that nobody may use, which are zeros, in shape ``size`` and the dtype of ``input``, as :func:`full`."""

def arange(
    start: SizeLike | float,
    end: SizeLike | float | None = None,
    step: SizeLike | float = 1,
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """``start``, ``start + step``, … before ``end``: a constant; IFillLayer where a size is dynamic.

    int64 for ints and Sizes, float32 when one is a float. Over a dynamic size the step must be a Size above 0, or an
    exact fraction such as 0.25.

    >>> x = net.input("x", ("N", "T"))
    >>> with x.network.current():
    ...     F.arange(x.shape[1]).shape
    (T,)
    """

def linspace(
    start: Any,
    end: Any,
    steps: SizeLike,
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """``steps`` values from ``start`` to ``end``, both included: a constant; IFillLayer where something is computed."""

def eye(
    n: SizeLike,
    m: SizeLike | None = None,
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Ones on the diagonal of zeros (n, m): a constant; IFillLayers and IElementWiseLayer EQUAL for dynamic sizes."""

def tril(input: Tensor, diagonal: SizeLike = 0) -> Tensor:
    """The lower triangle of the last two dimensions, zeros above ``diagonal``: ISelectLayer with a constant mask."""

def triu(input: Tensor, diagonal: SizeLike = 0) -> Tensor:
    """The upper triangle of the last two dimensions, zeros below ``diagonal``: ISelectLayer with a constant mask."""

def empty_strided(
    size: Sequence[SizeLike],
    stride: Sequence[SizeLike],
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """As :func:`empty`; ``stride`` is about torch's memory and has no meaning in an engine."""

def scalar_tensor(
    s: Any, *, dtype: Any = None, layout: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """A number as a tensor without dimensions, float32 unless ``dtype`` says otherwise: a constant."""

def logspace(
    start: Any,
    end: Any,
    steps: int,
    base: float = 10.0,
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """``base`` to the powers of :func:`linspace`: a constant; IElementWiseLayer POW where something is dynamic."""

def hstack(tensors: Sequence[Tensor]) -> Tensor:
    """The tensors one after the other along dimension 1 (0 for vectors): IConcatenationLayer."""

def vstack(tensors: Sequence[Tensor]) -> Tensor:
    """The tensors one after the other along dimension 0, vectors as rows: IConcatenationLayer."""

def dstack(tensors: Sequence[Tensor]) -> Tensor:
    """The tensors one after the other along dimension 2: IConcatenationLayer."""

def column_stack(tensors: Sequence[Tensor]) -> Tensor:
    """The tensors one after the other along dimension 1, vectors as columns: IConcatenationLayer."""

def hsplit(input: Tensor, indices_or_sections: Any) -> tuple[Tensor, ...]:
    """:func:`tensor_split` along dimension 1 (0 for vectors); sections must divide it."""

def vsplit(input: Tensor, indices_or_sections: Any) -> tuple[Tensor, ...]:
    """:func:`tensor_split` along dimension 0; sections must divide it."""

def dsplit(input: Tensor, indices_or_sections: Any) -> tuple[Tensor, ...]:
    """:func:`tensor_split` along dimension 2; sections must divide it."""

def tril_indices(
    row: SizeLike, col: SizeLike, offset: int = 0, *, dtype: Any = None, layout: Any = None, device: Any = None
) -> Tensor:
    """Rows and columns (2, n) of the lower triangle of a matrix, up to the diagonal ``offset``."""

def triu_indices(
    row: SizeLike, col: SizeLike, offset: int = 0, *, dtype: Any = None, layout: Any = None, device: Any = None
) -> Tensor:
    """Rows and columns (2, n) of the upper triangle of a matrix, from the diagonal ``offset``."""

def atleast_1d(*tensors: Any) -> Any:
    """The tensor (or each of several) with one dimension at least: IShuffleLayer."""

def atleast_2d(*tensors: Any) -> Any:
    """The tensor (or each of several) with two dimensions at least, new ones in front: IShuffleLayer."""

def atleast_3d(*tensors: Any) -> Any:
    """The tensor (or each of several) with three dimensions at least, (1, L, 1) and (H, W, 1): IShuffleLayer."""

def reshape_as(input: Tensor, other: Tensor) -> Tensor:
    """``input`` in the shape of ``other``: IShuffleLayer."""

def expand_as(input: Tensor, other: Tensor) -> Tensor:
    """``input`` in the shape of ``other``: ISliceLayer with a stride of 0."""

def ifft(input: Any, n: int | None = None, dim: int = -1, norm: str | None = None) -> Any:
    """The inverse of :func:`fft`."""

def rfft(input: Any, n: int | None = None, dim: int = -1, norm: str | None = None) -> Any:
    """The half of :func:`fft` of real values that says all, ``length // 2 + 1`` frequencies: two products."""

def irfft(input: Any, n: int | None = None, dim: int = -1, norm: str | None = None) -> Any:
    """The inverse of :func:`rfft`, ``n`` real values (twice the frequencies less 2): two products."""

def fftn(input: Any, s: Sequence[int] | None = None, dim: Sequence[int] | None = None, norm: str | None = None) -> Any:
    """:func:`fft` along several dimensions, all of them by default."""

def ifftn(input: Any, s: Sequence[int] | None = None, dim: Sequence[int] | None = None, norm: str | None = None) -> Any:
    """The inverse of :func:`fftn`."""

def rfftn(input: Any, s: Sequence[int] | None = None, dim: Sequence[int] | None = None, norm: str | None = None) -> Any:
    """:func:`rfft` along the last of several dimensions, then :func:`fft` along the others."""

def irfftn(
    input: Any, s: Sequence[int] | None = None, dim: Sequence[int] | None = None, norm: str | None = None
) -> Any:
    """The inverse of :func:`rfftn`."""

def fft2(input: Any, s: Sequence[int] | None = None, dim: Sequence[int] = (-2, -1), norm: str | None = None) -> Any:
    """:func:`fftn` along the last two dimensions."""

def ifft2(input: Any, s: Sequence[int] | None = None, dim: Sequence[int] = (-2, -1), norm: str | None = None) -> Any:
    """:func:`ifftn` along the last two dimensions."""

def rfft2(input: Any, s: Sequence[int] | None = None, dim: Sequence[int] = (-2, -1), norm: str | None = None) -> Any:
    """:func:`rfftn` along the last two dimensions."""

def irfft2(input: Any, s: Sequence[int] | None = None, dim: Sequence[int] = (-2, -1), norm: str | None = None) -> Any:
    """:func:`irfftn` along the last two dimensions."""

def fftshift(input: Any, dim: Any = None) -> Any:
    """The frequency 0 in the middle: as :func:`roll`."""

def ifftshift(input: Any, dim: Any = None) -> Any:
    """The inverse of :func:`fftshift`."""

def adaptive_avg_pool1d(input: Tensor, output_size: Any) -> Tensor:
    """Averages over ``output_size`` windows of the last dimension, as :func:`adaptive_avg_pool2d`."""

def adaptive_avg_pool2d(input: Tensor, output_size: Any) -> Tensor:
    """Averages over ``output_size`` windows of the last two dimensions; None keeps a dimension.

    One window: IReduceLayer AVG, or IPoolingLayer after a convolution. Windows of one size: IPoolingLayer.
    Otherwise IGatherLayer of each window's elements, their product with its weights and IReduceLayer SUM; where a
    size is dynamic IMatrixMultiplyLayer with weights that are computed from the shape.
    """

def adaptive_avg_pool3d(input: Tensor, output_size: Any) -> Tensor:
    """Averages over ``output_size`` windows of the last three dimensions, as :func:`adaptive_avg_pool2d`."""

def adaptive_max_pool1d(input: Tensor, output_size: Any, return_indices: bool = False) -> Any:
    """Maxima over ``output_size`` windows of the last dimension, as :func:`adaptive_max_pool2d`."""

def adaptive_max_pool2d(input: Tensor, output_size: Any, return_indices: bool = False) -> Any:
    """Maxima over ``output_size`` windows of the last two dimensions; None keeps a dimension.

    One window: IReduceLayer MAX. Windows of one size: IPoolingLayer. Otherwise IGatherLayer of each window's
    elements and IReduceLayer MAX, or ITopKLayer for ``return_indices``.
    """

def adaptive_max_pool3d(input: Tensor, output_size: Any, return_indices: bool = False) -> Any:
    """Maxima over ``output_size`` windows of the last three dimensions, as :func:`adaptive_max_pool2d`."""

def max_unpool1d(
    input: Tensor,
    indices: Tensor,
    kernel_size: Window,
    stride: Window | None = None,
    padding: Window = 0,
    output_size: Sequence[SizeLike] | None = None,
) -> Tensor:
    """The inverse of :func:`max_pool1d`, as :func:`max_unpool2d`."""

def max_unpool3d(
    input: Tensor,
    indices: Tensor,
    kernel_size: Window,
    stride: Window | None = None,
    padding: Window = 0,
    output_size: Sequence[SizeLike] | None = None,
) -> Tensor:
    """The inverse of :func:`max_pool3d`, as :func:`max_unpool2d`."""

def lp_pool1d(
    input: Tensor, norm_type: float, kernel_size: Window, stride: Window | None = None, ceil_mode: bool = False
) -> Tensor:
    """``sum(input ** norm_type) ** (1 / norm_type)`` over windows of the last dimension.

    The layers of :func:`pow` and :func:`avg_pool2d`.
    """

def lp_pool2d(
    input: Tensor, norm_type: float, kernel_size: Window, stride: Window | None = None, ceil_mode: bool = False
) -> Tensor:
    """``sum(input ** norm_type) ** (1 / norm_type)`` over windows of the last two dimensions.

    The layers of :func:`pow` and :func:`avg_pool2d`.
    """

def lp_pool3d(
    input: Tensor, norm_type: float, kernel_size: Window, stride: Window | None = None, ceil_mode: bool = False
) -> Tensor:
    """``sum(input ** norm_type) ** (1 / norm_type)`` over windows of the last three dimensions.

    The layers of :func:`pow` and :func:`avg_pool2d`.
    """

def avg_pool1d(
    input: Tensor,
    kernel_size: Window,
    stride: Window | None = None,
    padding: Window = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
    *,
    lowering: str = "auto",
) -> Tensor:
    """Averages over windows of the last dimension, as :func:`avg_pool2d`."""

def avg_pool3d(
    input: Tensor,
    kernel_size: Window,
    stride: Window | None = None,
    padding: Window = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
    *,
    lowering: str = "auto",
) -> Tensor:
    """Averages over windows of the last three dimensions, as :func:`avg_pool2d`."""

def max_pool1d(
    input: Tensor,
    kernel_size: Window,
    stride: Window | None = None,
    padding: Window = 0,
    dilation: Window = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
    *,
    lowering: str = "auto",
) -> Any:
    """Maxima over windows of the last dimension, as :func:`max_pool2d`."""

def max_pool3d(
    input: Tensor,
    kernel_size: Window,
    stride: Window | None = None,
    padding: Window = 0,
    dilation: Window = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
    *,
    lowering: str = "auto",
) -> Any:
    """Maxima over windows of the last three dimensions, as :func:`max_pool2d`; four dimensions are (C, D, H, W)."""

absolute = abs
arccos = acos
arccosh = acosh
arcsin = asin
arcsinh = asinh
arctan = atan
arctan2 = atan2
arctanh = atanh
argwhere = nonzero
clip = clamp
concat = cat
divide = div
fix = trunc
ger = outer
greater = gt
greater_equal = ge
less = lt
less_equal = le
moveaxis = movedim
multiply = mul
negative = neg
not_equal = ne
subtract = sub
swapaxes = transpose
swapdims = transpose
trapz = trapezoid
true_divide = div
upsample = interpolate
view_as = reshape_as
dropout1d = dropout
dropout2d = dropout
dropout3d = dropout
alpha_dropout = dropout
feature_alpha_dropout = dropout
