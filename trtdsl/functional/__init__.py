"""torch's vocabulary: same names, same arguments, same meaning; written in terms of :mod:`trtdsl.layers`."""

from .absent import absent as __getattr__  # noqa: F401
from .aliases import absolute as absolute
from .aliases import arccos as arccos
from .aliases import arccosh as arccosh
from .aliases import arcsin as arcsin
from .aliases import arcsinh as arcsinh
from .aliases import arctan as arctan
from .aliases import arctan2 as arctan2
from .aliases import arctanh as arctanh
from .aliases import divide as divide
from .aliases import fix as fix
from .aliases import greater as greater
from .aliases import greater_equal as greater_equal
from .aliases import less as less
from .aliases import less_equal as less_equal
from .aliases import moveaxis as moveaxis
from .aliases import multiply as multiply
from .aliases import negative as negative
from .aliases import not_equal as not_equal
from .aliases import subtract as subtract
from .aliases import swapaxes as swapaxes
from .aliases import swapdims as swapdims
from .aliases import trapz as trapz
from .detection.boxes import box_area as box_area
from .detection.boxes import box_convert as box_convert
from .detection.boxes import box_iou as box_iou
from .detection.regions import deform_conv2d as deform_conv2d
from .detection.regions import roi_align as roi_align
from .detection.suppression import batched_nms as batched_nms
from .detection.suppression import nms as nms
from .einsum import einops_einsum as einops_einsum
from .einsum import einsum as einsum
from .indexing.assign import setitem as setitem
from .indexing.bags import embedding_bag as embedding_bag
from .indexing.bags import masked_scatter as masked_scatter
from .indexing.gather import argwhere as argwhere
from .indexing.gather import embedding as embedding
from .indexing.gather import gather as gather
from .indexing.gather import index_add as index_add
from .indexing.gather import index_copy as index_copy
from .indexing.gather import index_fill as index_fill
from .indexing.gather import index_put as index_put
from .indexing.gather import index_select as index_select
from .indexing.gather import masked_select as masked_select
from .indexing.gather import nonzero as nonzero
from .indexing.gather import scatter as scatter
from .indexing.gather import scatter_add as scatter_add
from .indexing.gather import scatter_reduce as scatter_reduce
from .indexing.gather import take as take
from .indexing.gather import take_along_dim as take_along_dim
from .indexing.index import getitem as getitem
from .indexing.search import bincount as bincount
from .indexing.search import bucketize as bucketize
from .indexing.search import histc as histc
from .indexing.search import isin as isin
from .indexing.search import searchsorted as searchsorted
from .losses.classes import cross_entropy as cross_entropy
from .losses.classes import multi_margin_loss as multi_margin_loss
from .losses.classes import multilabel_soft_margin_loss as multilabel_soft_margin_loss
from .losses.classes import nll_loss as nll_loss
from .losses.pointwise import binary_cross_entropy as binary_cross_entropy
from .losses.pointwise import binary_cross_entropy_with_logits as binary_cross_entropy_with_logits
from .losses.pointwise import cosine_embedding_loss as cosine_embedding_loss
from .losses.pointwise import gaussian_nll_loss as gaussian_nll_loss
from .losses.pointwise import hinge_embedding_loss as hinge_embedding_loss
from .losses.pointwise import huber_loss as huber_loss
from .losses.pointwise import kl_div as kl_div
from .losses.pointwise import l1_loss as l1_loss
from .losses.pointwise import margin_ranking_loss as margin_ranking_loss
from .losses.pointwise import mse_loss as mse_loss
from .losses.pointwise import poisson_nll_loss as poisson_nll_loss
from .losses.pointwise import smooth_l1_loss as smooth_l1_loss
from .losses.pointwise import soft_margin_loss as soft_margin_loss
from .losses.pointwise import triplet_margin_loss as triplet_margin_loss
from .pointwise.activation import alpha_dropout as alpha_dropout
from .pointwise.activation import celu as celu
from .pointwise.activation import dropout as dropout
from .pointwise.activation import dropout1d as dropout1d
from .pointwise.activation import dropout2d as dropout2d
from .pointwise.activation import dropout3d as dropout3d
from .pointwise.activation import elu as elu
from .pointwise.activation import feature_alpha_dropout as feature_alpha_dropout
from .pointwise.activation import gelu as gelu
from .pointwise.activation import glu as glu
from .pointwise.activation import hardshrink as hardshrink
from .pointwise.activation import hardsigmoid as hardsigmoid
from .pointwise.activation import hardswish as hardswish
from .pointwise.activation import hardtanh as hardtanh
from .pointwise.activation import leaky_relu as leaky_relu
from .pointwise.activation import log_softmax as log_softmax
from .pointwise.activation import logsigmoid as logsigmoid
from .pointwise.activation import mish as mish
from .pointwise.activation import prelu as prelu
from .pointwise.activation import relu as relu
from .pointwise.activation import relu6 as relu6
from .pointwise.activation import rrelu as rrelu
from .pointwise.activation import selu as selu
from .pointwise.activation import sigmoid as sigmoid
from .pointwise.activation import silu as silu
from .pointwise.activation import softmax as softmax
from .pointwise.activation import softmin as softmin
from .pointwise.activation import softplus as softplus
from .pointwise.activation import softshrink as softshrink
from .pointwise.activation import softsign as softsign
from .pointwise.activation import tanh as tanh
from .pointwise.activation import tanhshrink as tanhshrink
from .pointwise.activation import threshold as threshold
from .pointwise.arithmetic import add as add
from .pointwise.arithmetic import addcdiv as addcdiv
from .pointwise.arithmetic import addcmul as addcmul
from .pointwise.arithmetic import atan2 as atan2
from .pointwise.arithmetic import clamp as clamp
from .pointwise.arithmetic import clamp_max as clamp_max
from .pointwise.arithmetic import clamp_min as clamp_min
from .pointwise.arithmetic import clip as clip
from .pointwise.arithmetic import copysign as copysign
from .pointwise.arithmetic import div as div
from .pointwise.arithmetic import floor_divide as floor_divide
from .pointwise.arithmetic import fmax as fmax
from .pointwise.arithmetic import fmin as fmin
from .pointwise.arithmetic import fmod as fmod
from .pointwise.arithmetic import heaviside as heaviside
from .pointwise.arithmetic import hypot as hypot
from .pointwise.arithmetic import lerp as lerp
from .pointwise.arithmetic import logaddexp as logaddexp
from .pointwise.arithmetic import logaddexp2 as logaddexp2
from .pointwise.arithmetic import maximum as maximum
from .pointwise.arithmetic import minimum as minimum
from .pointwise.arithmetic import mul as mul
from .pointwise.arithmetic import pow as pow
from .pointwise.arithmetic import remainder as remainder
from .pointwise.arithmetic import rsub as rsub
from .pointwise.arithmetic import sub as sub
from .pointwise.arithmetic import true_divide as true_divide
from .pointwise.arithmetic import xlogy as xlogy
from .pointwise.conversion import clone as clone
from .pointwise.conversion import to as to
from .pointwise.elementary import abs as abs
from .pointwise.elementary import acos as acos
from .pointwise.elementary import acosh as acosh
from .pointwise.elementary import asin as asin
from .pointwise.elementary import asinh as asinh
from .pointwise.elementary import atan as atan
from .pointwise.elementary import atanh as atanh
from .pointwise.elementary import cos as cos
from .pointwise.elementary import cosh as cosh
from .pointwise.elementary import deg2rad as deg2rad
from .pointwise.elementary import erf as erf
from .pointwise.elementary import erfc as erfc
from .pointwise.elementary import exp as exp
from .pointwise.elementary import exp2 as exp2
from .pointwise.elementary import expm1 as expm1
from .pointwise.elementary import log as log
from .pointwise.elementary import log1p as log1p
from .pointwise.elementary import log2 as log2
from .pointwise.elementary import log10 as log10
from .pointwise.elementary import logit as logit
from .pointwise.elementary import nan_to_num as nan_to_num
from .pointwise.elementary import neg as neg
from .pointwise.elementary import positive as positive
from .pointwise.elementary import rad2deg as rad2deg
from .pointwise.elementary import reciprocal as reciprocal
from .pointwise.elementary import rsqrt as rsqrt
from .pointwise.elementary import sgn as sgn
from .pointwise.elementary import sign as sign
from .pointwise.elementary import signbit as signbit
from .pointwise.elementary import sin as sin
from .pointwise.elementary import sinc as sinc
from .pointwise.elementary import sinh as sinh
from .pointwise.elementary import sqrt as sqrt
from .pointwise.elementary import square as square
from .pointwise.elementary import tan as tan
from .pointwise.logic import bitwise_and as bitwise_and
from .pointwise.logic import bitwise_left_shift as bitwise_left_shift
from .pointwise.logic import bitwise_not as bitwise_not
from .pointwise.logic import bitwise_or as bitwise_or
from .pointwise.logic import bitwise_right_shift as bitwise_right_shift
from .pointwise.logic import bitwise_xor as bitwise_xor
from .pointwise.logic import eq as eq
from .pointwise.logic import ge as ge
from .pointwise.logic import gt as gt
from .pointwise.logic import isclose as isclose
from .pointwise.logic import isfinite as isfinite
from .pointwise.logic import isinf as isinf
from .pointwise.logic import isnan as isnan
from .pointwise.logic import isneginf as isneginf
from .pointwise.logic import isposinf as isposinf
from .pointwise.logic import le as le
from .pointwise.logic import logical_and as logical_and
from .pointwise.logic import logical_not as logical_not
from .pointwise.logic import logical_or as logical_or
from .pointwise.logic import logical_xor as logical_xor
from .pointwise.logic import lt as lt
from .pointwise.logic import masked_fill as masked_fill
from .pointwise.logic import ne as ne
from .pointwise.logic import where as where
from .pointwise.quantization import dequantize as dequantize
from .pointwise.quantization import quantize as quantize
from .pointwise.rounding import ceil as ceil
from .pointwise.rounding import floor as floor
from .pointwise.rounding import frac as frac
from .pointwise.rounding import round as round
from .pointwise.rounding import trunc as trunc
from .pointwise.special import entr as entr
from .pointwise.special import ldexp as ldexp
from .pointwise.special import ndtr as ndtr
from .pointwise.special import xlog1py as xlog1py
from .products.attention import scaled_dot_product_attention as scaled_dot_product_attention
from .products.distances import cdist as cdist
from .products.distances import cosine_similarity as cosine_similarity
from .products.distances import pairwise_distance as pairwise_distance
from .products.distances import pdist as pdist
from .products.fusion import fuse_conv_bn_weights as fuse_conv_bn_weights
from .products.linalg import det as det
from .products.linalg import inverse as inverse
from .products.linalg import matrix_norm as matrix_norm
from .products.linalg import solve as solve
from .products.matmul import grouped_mm as grouped_mm
from .products.matmul import linear as linear
from .products.matmul import matmul as matmul
from .products.multi_head import multi_head_attention_forward as multi_head_attention_forward
from .products.products import addbmm as addbmm
from .products.products import addmm as addmm
from .products.products import addmv as addmv
from .products.products import addr as addr
from .products.products import baddbmm as baddbmm
from .products.products import bilinear as bilinear
from .products.products import bmm as bmm
from .products.products import cross as cross
from .products.products import dot as dot
from .products.products import ger as ger
from .products.products import inner as inner
from .products.products import kron as kron
from .products.products import matrix_power as matrix_power
from .products.products import mm as mm
from .products.products import multi_dot as multi_dot
from .products.products import mv as mv
from .products.products import outer as outer
from .products.products import tensordot as tensordot
from .products.products import vdot as vdot
from .products.products import vecdot as vecdot
from .reducing.cumulative import cummax as cummax
from .reducing.cumulative import cummin as cummin
from .reducing.cumulative import cumprod as cumprod
from .reducing.cumulative import cumsum as cumsum
from .reducing.cumulative import cumulative_trapezoid as cumulative_trapezoid
from .reducing.cumulative import diff as diff
from .reducing.cumulative import logcumsumexp as logcumsumexp
from .reducing.cumulative import trapezoid as trapezoid
from .reducing.normalization import batch_norm as batch_norm
from .reducing.normalization import group_norm as group_norm
from .reducing.normalization import instance_norm as instance_norm
from .reducing.normalization import layer_norm as layer_norm
from .reducing.normalization import local_response_norm as local_response_norm
from .reducing.normalization import normalize as normalize
from .reducing.normalization import rms_norm as rms_norm
from .reducing.order import corrcoef as corrcoef
from .reducing.order import cov as cov
from .reducing.order import quantile as quantile
from .reducing.order import renorm as renorm
from .reducing.reduction import all as all
from .reducing.reduction import amax as amax
from .reducing.reduction import amin as amin
from .reducing.reduction import aminmax as aminmax
from .reducing.reduction import any as any
from .reducing.reduction import argmax as argmax
from .reducing.reduction import argmin as argmin
from .reducing.reduction import count_nonzero as count_nonzero
from .reducing.reduction import equal as equal
from .reducing.reduction import max as max
from .reducing.reduction import mean as mean
from .reducing.reduction import min as min
from .reducing.reduction import nanmean as nanmean
from .reducing.reduction import nansum as nansum
from .reducing.reduction import prod as prod
from .reducing.reduction import sum as sum
from .reducing.sort import argsort as argsort
from .reducing.sort import kthvalue as kthvalue
from .reducing.sort import median as median
from .reducing.sort import msort as msort
from .reducing.sort import one_hot as one_hot
from .reducing.sort import sort as sort
from .reducing.sort import topk as topk
from .reducing.statistics import dist as dist
from .reducing.statistics import logsumexp as logsumexp
from .reducing.statistics import norm as norm
from .reducing.statistics import std as std
from .reducing.statistics import std_mean as std_mean
from .reducing.statistics import var as var
from .reducing.statistics import var_mean as var_mean
from .reducing.statistics import vector_norm as vector_norm
from .sampling.affine_grid import affine_grid as affine_grid
from .sampling.grid_sample import bilinear_sample as bilinear_sample
from .sampling.grid_sample import grid_sample as grid_sample
from .sampling.interpolate import interpolate as interpolate
from .sampling.interpolate import upsample as upsample
from .sampling.interpolate import upsample_bilinear as upsample_bilinear
from .sampling.interpolate import upsample_nearest as upsample_nearest
from .scanning.recurrent import gru_cell as gru_cell
from .scanning.recurrent import lstm_cell as lstm_cell
from .scanning.recurrent import rnn_relu_cell as rnn_relu_cell
from .scanning.recurrent import rnn_tanh_cell as rnn_tanh_cell
from .scanning.recurrent_layers import gru as gru
from .scanning.recurrent_layers import lstm as lstm
from .scanning.recurrent_layers import rnn_relu as rnn_relu
from .scanning.recurrent_layers import rnn_tanh as rnn_tanh
from .scanning.scan import associative_scan as associative_scan
from .scanning.scan import linear_recurrence as linear_recurrence
from .scanning.selective import selective_scan as selective_scan
from .shaping.allocate import as_tensor as as_tensor
from .shaping.allocate import empty as empty
from .shaping.allocate import empty_like as empty_like
from .shaping.allocate import empty_strided as empty_strided
from .shaping.allocate import logspace as logspace
from .shaping.allocate import new_empty as new_empty
from .shaping.allocate import scalar_tensor as scalar_tensor
from .shaping.allocate import sum_to_size as sum_to_size
from .shaping.arrange import channel_shuffle as channel_shuffle
from .shaping.arrange import constant_pad_nd as constant_pad_nd
from .shaping.arrange import diag as diag
from .shaping.arrange import diag_embed as diag_embed
from .shaping.arrange import diagflat as diagflat
from .shaping.arrange import diagonal as diagonal
from .shaping.arrange import flip as flip
from .shaping.arrange import fliplr as fliplr
from .shaping.arrange import flipud as flipud
from .shaping.arrange import fold as fold
from .shaping.arrange import pad as pad
from .shaping.arrange import roll as roll
from .shaping.arrange import rot90 as rot90
from .shaping.arrange import trace as trace
from .shaping.arrange import unfold as unfold
from .shaping.arrange import unfold_dimension as unfold_dimension
from .shaping.create import arange as arange
from .shaping.create import cartesian_prod as cartesian_prod
from .shaping.create import eye as eye
from .shaping.create import fill as fill
from .shaping.create import full as full
from .shaping.create import full_like as full_like
from .shaping.create import linspace as linspace
from .shaping.create import meshgrid as meshgrid
from .shaping.create import new_full as new_full
from .shaping.create import new_ones as new_ones
from .shaping.create import new_zeros as new_zeros
from .shaping.create import ones as ones
from .shaping.create import ones_like as ones_like
from .shaping.create import tensor as tensor
from .shaping.create import tril as tril
from .shaping.create import triu as triu
from .shaping.create import zeros as zeros
from .shaping.create import zeros_like as zeros_like
from .shaping.join import cat as cat
from .shaping.join import chunk as chunk
from .shaping.join import column_stack as column_stack
from .shaping.join import concat as concat
from .shaping.join import dsplit as dsplit
from .shaping.join import dstack as dstack
from .shaping.join import hsplit as hsplit
from .shaping.join import hstack as hstack
from .shaping.join import narrow as narrow
from .shaping.join import select as select
from .shaping.join import select_scatter as select_scatter
from .shaping.join import slice_scatter as slice_scatter
from .shaping.join import split as split
from .shaping.join import split_with_sizes as split_with_sizes
from .shaping.join import stack as stack
from .shaping.join import tensor_split as tensor_split
from .shaping.join import unbind as unbind
from .shaping.join import vsplit as vsplit
from .shaping.join import vstack as vstack
from .shaping.pixel_shuffle import pixel_shuffle as pixel_shuffle
from .shaping.pixel_shuffle import pixel_unshuffle as pixel_unshuffle
from .shaping.reshape import atleast_1d as atleast_1d
from .shaping.reshape import atleast_2d as atleast_2d
from .shaping.reshape import atleast_3d as atleast_3d
from .shaping.reshape import broadcast_tensors as broadcast_tensors
from .shaping.reshape import broadcast_to as broadcast_to
from .shaping.reshape import expand as expand
from .shaping.reshape import expand_as as expand_as
from .shaping.reshape import flatten as flatten
from .shaping.reshape import movedim as movedim
from .shaping.reshape import permute as permute
from .shaping.reshape import ravel as ravel
from .shaping.reshape import repeat as repeat
from .shaping.reshape import repeat_interleave as repeat_interleave
from .shaping.reshape import reshape as reshape
from .shaping.reshape import reshape_as as reshape_as
from .shaping.reshape import squeeze as squeeze
from .shaping.reshape import t as t
from .shaping.reshape import tile as tile
from .shaping.reshape import transpose as transpose
from .shaping.reshape import unflatten as unflatten
from .shaping.reshape import unsqueeze as unsqueeze
from .shaping.reshape import view as view
from .shaping.reshape import view_as as view_as
from .shaping.tables import as_strided as as_strided
from .shaping.tables import block_diag as block_diag
from .shaping.tables import combinations as combinations
from .shaping.tables import tril_indices as tril_indices
from .shaping.tables import triu_indices as triu_indices
from .shaping.tables import unravel_index as unravel_index
from .spectral.complex_tensor import angle as angle
from .spectral.complex_tensor import complex as complex
from .spectral.complex_tensor import conj as conj
from .spectral.complex_tensor import imag as imag
from .spectral.complex_tensor import polar as polar
from .spectral.complex_tensor import real as real
from .spectral.complex_tensor import view_as_complex as view_as_complex
from .spectral.complex_tensor import view_as_real as view_as_real
from .spectral.fourier import fft as fft
from .spectral.fourier import fft2 as fft2
from .spectral.fourier import fftn as fftn
from .spectral.fourier import fftshift as fftshift
from .spectral.fourier import ifft as ifft
from .spectral.fourier import ifft2 as ifft2
from .spectral.fourier import ifftn as ifftn
from .spectral.fourier import ifftshift as ifftshift
from .spectral.fourier import irfft as irfft
from .spectral.fourier import irfft2 as irfft2
from .spectral.fourier import irfftn as irfftn
from .spectral.fourier import rfft as rfft
from .spectral.fourier import rfft2 as rfft2
from .spectral.fourier import rfftn as rfftn
from .spectral.short_time import istft as istft
from .spectral.short_time import stft as stft
from .windows.adaptive import adaptive_avg_pool1d as adaptive_avg_pool1d
from .windows.adaptive import adaptive_avg_pool2d as adaptive_avg_pool2d
from .windows.adaptive import adaptive_avg_pool3d as adaptive_avg_pool3d
from .windows.adaptive import adaptive_max_pool1d as adaptive_max_pool1d
from .windows.adaptive import adaptive_max_pool2d as adaptive_max_pool2d
from .windows.adaptive import adaptive_max_pool3d as adaptive_max_pool3d
from .windows.convolution import conv1d as conv1d
from .windows.convolution import conv2d as conv2d
from .windows.convolution import conv3d as conv3d
from .windows.convolution import conv_transpose1d as conv_transpose1d
from .windows.convolution import conv_transpose2d as conv_transpose2d
from .windows.convolution import conv_transpose3d as conv_transpose3d
from .windows.pooling import avg_pool1d as avg_pool1d
from .windows.pooling import avg_pool2d as avg_pool2d
from .windows.pooling import avg_pool3d as avg_pool3d
from .windows.pooling import lp_pool1d as lp_pool1d
from .windows.pooling import lp_pool2d as lp_pool2d
from .windows.pooling import lp_pool3d as lp_pool3d
from .windows.pooling import max_pool1d as max_pool1d
from .windows.pooling import max_pool2d as max_pool2d
from .windows.pooling import max_pool3d as max_pool3d

__all__ = [
    "abs",
    "absolute",
    "acos",
    "acosh",
    "adaptive_avg_pool1d",
    "adaptive_avg_pool2d",
    "adaptive_avg_pool3d",
    "adaptive_max_pool1d",
    "adaptive_max_pool2d",
    "adaptive_max_pool3d",
    "add",
    "addbmm",
    "addcdiv",
    "addcmul",
    "addmm",
    "addmv",
    "addr",
    "affine_grid",
    "all",
    "alpha_dropout",
    "amax",
    "amin",
    "aminmax",
    "angle",
    "any",
    "arange",
    "arccos",
    "arccosh",
    "arcsin",
    "arcsinh",
    "arctan",
    "arctan2",
    "arctanh",
    "argmax",
    "argmin",
    "argsort",
    "argwhere",
    "as_strided",
    "as_tensor",
    "asin",
    "asinh",
    "associative_scan",
    "atan",
    "atan2",
    "atanh",
    "atleast_1d",
    "atleast_2d",
    "atleast_3d",
    "avg_pool1d",
    "avg_pool2d",
    "avg_pool3d",
    "baddbmm",
    "batch_norm",
    "batched_nms",
    "bilinear",
    "bilinear_sample",
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "bincount",
    "bitwise_and",
    "bitwise_left_shift",
    "bitwise_not",
    "bitwise_or",
    "bitwise_right_shift",
    "bitwise_xor",
    "block_diag",
    "bmm",
    "box_area",
    "box_convert",
    "box_iou",
    "broadcast_tensors",
    "broadcast_to",
    "bucketize",
    "cartesian_prod",
    "cat",
    "cdist",
    "ceil",
    "celu",
    "channel_shuffle",
    "chunk",
    "clamp",
    "clamp_max",
    "clamp_min",
    "clip",
    "clone",
    "column_stack",
    "combinations",
    "complex",
    "concat",
    "conj",
    "constant_pad_nd",
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
    "copysign",
    "corrcoef",
    "cos",
    "cosh",
    "cosine_embedding_loss",
    "cosine_similarity",
    "count_nonzero",
    "cov",
    "cross",
    "cross_entropy",
    "cummax",
    "cummin",
    "cumprod",
    "cumsum",
    "cumulative_trapezoid",
    "deform_conv2d",
    "deg2rad",
    "dequantize",
    "det",
    "diag",
    "diag_embed",
    "diagflat",
    "diagonal",
    "diff",
    "dist",
    "div",
    "divide",
    "dot",
    "dropout",
    "dropout1d",
    "dropout2d",
    "dropout3d",
    "dsplit",
    "dstack",
    "einops_einsum",
    "einsum",
    "elu",
    "embedding",
    "embedding_bag",
    "empty",
    "empty_like",
    "empty_strided",
    "entr",
    "eq",
    "equal",
    "erf",
    "erfc",
    "exp",
    "exp2",
    "expand",
    "expand_as",
    "expm1",
    "eye",
    "feature_alpha_dropout",
    "fft",
    "fft2",
    "fftn",
    "fftshift",
    "fill",
    "fix",
    "flatten",
    "flip",
    "fliplr",
    "flipud",
    "floor",
    "floor_divide",
    "fmax",
    "fmin",
    "fmod",
    "fold",
    "frac",
    "full",
    "full_like",
    "fuse_conv_bn_weights",
    "gather",
    "gaussian_nll_loss",
    "ge",
    "gelu",
    "ger",
    "getitem",
    "glu",
    "greater",
    "greater_equal",
    "grid_sample",
    "group_norm",
    "grouped_mm",
    "gru",
    "gru_cell",
    "gt",
    "hardshrink",
    "hardsigmoid",
    "hardswish",
    "hardtanh",
    "heaviside",
    "hinge_embedding_loss",
    "histc",
    "hsplit",
    "hstack",
    "huber_loss",
    "hypot",
    "ifft",
    "ifft2",
    "ifftn",
    "ifftshift",
    "imag",
    "index_add",
    "index_copy",
    "index_fill",
    "index_put",
    "index_select",
    "inner",
    "instance_norm",
    "interpolate",
    "inverse",
    "irfft",
    "irfft2",
    "irfftn",
    "isclose",
    "isfinite",
    "isin",
    "isinf",
    "isnan",
    "isneginf",
    "isposinf",
    "istft",
    "kl_div",
    "kron",
    "kthvalue",
    "l1_loss",
    "layer_norm",
    "ldexp",
    "le",
    "leaky_relu",
    "lerp",
    "less",
    "less_equal",
    "linear",
    "linear_recurrence",
    "linspace",
    "local_response_norm",
    "log",
    "log1p",
    "log2",
    "log10",
    "log_softmax",
    "logaddexp",
    "logaddexp2",
    "logcumsumexp",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "logit",
    "logsigmoid",
    "logspace",
    "logsumexp",
    "lp_pool1d",
    "lp_pool2d",
    "lp_pool3d",
    "lstm",
    "lstm_cell",
    "lt",
    "margin_ranking_loss",
    "masked_fill",
    "masked_scatter",
    "masked_select",
    "matmul",
    "matrix_norm",
    "matrix_power",
    "max",
    "max_pool1d",
    "max_pool2d",
    "max_pool3d",
    "maximum",
    "mean",
    "median",
    "meshgrid",
    "min",
    "minimum",
    "mish",
    "mm",
    "moveaxis",
    "movedim",
    "mse_loss",
    "msort",
    "mul",
    "multi_dot",
    "multi_head_attention_forward",
    "multi_margin_loss",
    "multilabel_soft_margin_loss",
    "multiply",
    "mv",
    "nan_to_num",
    "nanmean",
    "nansum",
    "narrow",
    "ndtr",
    "ne",
    "neg",
    "negative",
    "new_empty",
    "new_full",
    "new_ones",
    "new_zeros",
    "nll_loss",
    "nms",
    "nonzero",
    "norm",
    "normalize",
    "not_equal",
    "one_hot",
    "ones",
    "ones_like",
    "outer",
    "pad",
    "pairwise_distance",
    "pdist",
    "permute",
    "pixel_shuffle",
    "pixel_unshuffle",
    "poisson_nll_loss",
    "polar",
    "positive",
    "pow",
    "prelu",
    "prod",
    "quantile",
    "quantize",
    "rad2deg",
    "ravel",
    "real",
    "reciprocal",
    "relu",
    "relu6",
    "remainder",
    "renorm",
    "repeat",
    "repeat_interleave",
    "reshape",
    "reshape_as",
    "rfft",
    "rfft2",
    "rfftn",
    "rms_norm",
    "rnn_relu",
    "rnn_relu_cell",
    "rnn_tanh",
    "rnn_tanh_cell",
    "roi_align",
    "roll",
    "rot90",
    "round",
    "rrelu",
    "rsqrt",
    "rsub",
    "scalar_tensor",
    "scaled_dot_product_attention",
    "scatter",
    "scatter_add",
    "scatter_reduce",
    "searchsorted",
    "select",
    "select_scatter",
    "selective_scan",
    "selu",
    "setitem",
    "sgn",
    "sigmoid",
    "sign",
    "signbit",
    "silu",
    "sin",
    "sinc",
    "sinh",
    "slice_scatter",
    "smooth_l1_loss",
    "soft_margin_loss",
    "softmax",
    "softmin",
    "softplus",
    "softshrink",
    "softsign",
    "solve",
    "sort",
    "split",
    "split_with_sizes",
    "sqrt",
    "square",
    "squeeze",
    "stack",
    "std",
    "std_mean",
    "stft",
    "sub",
    "subtract",
    "sum",
    "sum_to_size",
    "swapaxes",
    "swapdims",
    "t",
    "take",
    "take_along_dim",
    "tan",
    "tanh",
    "tanhshrink",
    "tensor",
    "tensor_split",
    "tensordot",
    "threshold",
    "tile",
    "to",
    "topk",
    "trace",
    "transpose",
    "trapezoid",
    "trapz",
    "tril",
    "tril_indices",
    "triplet_margin_loss",
    "triu",
    "triu_indices",
    "true_divide",
    "trunc",
    "unbind",
    "unflatten",
    "unfold",
    "unfold_dimension",
    "unravel_index",
    "unsqueeze",
    "upsample",
    "upsample_bilinear",
    "upsample_nearest",
    "var",
    "var_mean",
    "vdot",
    "vecdot",
    "vector_norm",
    "view",
    "view_as",
    "view_as_complex",
    "view_as_real",
    "vsplit",
    "vstack",
    "where",
    "xlog1py",
    "xlogy",
    "zeros",
    "zeros_like",
]


def __dir__() -> list[str]:
    return __all__
