"""TensorRT's vocabulary: one function per layer, with its evaluator and its cost beside it.

In the examples, ``net`` is a new ``td.Network()``.
"""

from typing import Any as _Any

from ..core.errors import no_attribute as _no_attribute
from .activation import activation as activation
from .activation import parametric_relu as parametric_relu
from .attention import attention as attention
from .attention import kv_cache_update as kv_cache_update
from .attention import moe as moe
from .attention import rotary_embedding as rotary_embedding
from .collective import all_gather as all_gather
from .collective import all_reduce as all_reduce
from .collective import reduce_scatter as reduce_scatter
from .collective import shard as shard
from .concatenation import concatenation as concatenation
from .constant import constant as constant
from .constant import linspace as linspace
from .constant import random as random
from .control import Conditional as Conditional
from .control import Loop as Loop
from .convolution import convolution as convolution
from .convolution import deconvolution as deconvolution
from .gather import gather as gather
from .gather import one_hot as one_hot
from .gather import scatter as scatter
from .matrix_multiply import einsum as einsum
from .matrix_multiply import matrix_multiply as matrix_multiply
from .normalization import lrn as lrn
from .normalization import normalization as normalization
from .normalization import scale as scale
from .plugin import plugin as plugin
from .pointwise import cast as cast
from .pointwise import elementwise as elementwise
from .pointwise import identity as identity
from .pointwise import select as select
from .pointwise import unary as unary
from .pooling import pooling as pooling
from .quantize import dequantize as dequantize
from .quantize import dynamic_quantize as dynamic_quantize
from .quantize import int4_constant as int4_constant
from .quantize import quantize as quantize
from .quantize import quantize_values as quantize_values
from .reduce import cumulative as cumulative
from .reduce import ragged_softmax as ragged_softmax
from .reduce import reduce as reduce
from .reduce import reverse_sequence as reverse_sequence
from .reduce import softmax as softmax
from .sampling import grid_sample as grid_sample
from .sampling import resize as resize
from .shape import shape as shape
from .shuffle import shuffle as shuffle
from .shuffle import squeeze as squeeze
from .shuffle import unsqueeze as unsqueeze
from .slice import padding as padding
from .slice import slice as slice
from .topk import assertion as assertion
from .topk import nms as nms
from .topk import non_zero as non_zero
from .topk import topk as topk

__all__ = sorted(name for name, made in globals().items() if callable(made) and name[0] != "_")  # pyright: ignore[reportUnsupportedDunderAll]


def __dir__() -> list[str]:
    return __all__


def __getattr__(name: str) -> _Any:
    raise _no_attribute(__name__, name, __all__)
