"""TensorRT's vocabulary: one function per layer, with its evaluator and its cost beside it.

In the examples, ``net`` is a new ``td.Network()``.
"""

from typing import Any as _Any

from ..core.errors import no_attribute as _no_attribute
from .attention import attention, kv_cache_update, moe, rotary_embedding
from .collective import all_gather, all_reduce, reduce_scatter, shard
from .constant import constant, linspace, random
from .control import Conditional, Loop
from .convolution import convolution, deconvolution
from .gather import gather, one_hot, scatter
from .matrix_multiply import einsum, matrix_multiply
from .normalization import lrn, normalization, scale
from .plugin import plugin
from .pointwise import activation, cast, elementwise, identity, parametric_relu, select, unary
from .pooling import pooling
from .quantize import dequantize, dynamic_quantize, int4_constant, quantize, quantize_values
from .reduce import cumulative, ragged_softmax, reduce, reverse_sequence, softmax
from .sampling import grid_sample, resize
from .shape import concatenation, padding, shape, slice
from .shuffle import shuffle, squeeze, unsqueeze
from .topk import assertion, nms, non_zero, topk

__all__ = [
    "Conditional", "Loop", "activation", "all_gather", "all_reduce", "assertion", "attention", "cast", "concatenation",
    "constant", "convolution", "cumulative", "deconvolution", "dequantize", "dynamic_quantize", "einsum", "elementwise",
    "gather", "grid_sample", "identity", "int4_constant", "kv_cache_update", "linspace", "lrn", "matrix_multiply",
    "moe", "nms", "non_zero", "normalization", "one_hot", "padding", "parametric_relu", "plugin", "pooling", "quantize",
    "quantize_values", "ragged_softmax", "random", "reduce", "reduce_scatter", "resize", "reverse_sequence",
    "rotary_embedding", "scale", "scatter", "select", "shape", "shard", "shuffle", "slice", "softmax", "squeeze",
    "topk", "unary", "unsqueeze",
]  # fmt: skip


def __dir__() -> list[str]:
    return __all__


def __getattr__(name: str) -> _Any:
    raise _no_attribute(__name__, name, __all__)
