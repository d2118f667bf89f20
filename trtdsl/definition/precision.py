"""Half precision as torch.autocast has it: which functions run low, and which in float32.

The lists are CUDA's, where engines run: https://docs.pytorch.org/docs/stable/amp.html#autocast-op-reference. A function
in neither runs in the dtype of its operands; several of them are promoted, as always.
"""

from __future__ import annotations

from typing import Any

from ..core.dtypes import dtype_name
from ..core.errors import UsageError
from ..core.lazy import torch
from .tensor import Tensor

LOW = frozenset(
    {
        "addbmm",
        "addmm",
        "addmv",
        "addr",
        "baddbmm",
        "bmm",
        "conv1d",
        "conv2d",
        "conv3d",
        "conv_transpose1d",
        "conv_transpose2d",
        "conv_transpose3d",
        "einops_einsum",
        "einsum",
        "gru",
        "gru_cell",
        "linear",
        "lstm",
        "lstm_cell",
        "matmul",
        "mm",
        "multi_dot",
        "mv",
        "prelu",
        "rnn_relu",
        "rnn_relu_cell",
        "rnn_tanh",
        "rnn_tanh_cell",
        "scaled_dot_product_attention",
    }
)
FLOAT32 = frozenset(
    {
        "acos",
        "asin",
        "binary_cross_entropy_with_logits",
        "cdist",
        "cosh",
        "cosine_embedding_loss",
        "cosine_similarity",
        "cumprod",
        "cumsum",
        "dist",
        "exp",
        "expm1",
        "group_norm",
        "hinge_embedding_loss",
        "kl_div",
        "l1_loss",
        "layer_norm",
        "log",
        "log10",
        "log1p",
        "log2",
        "log_softmax",
        "mse_loss",
        "multi_margin_loss",
        "nll_loss",
        "norm",
        "normalize",
        "pdist",
        "poisson_nll_loss",
        "pow",
        "prod",
        "reciprocal",
        "renorm",
        "rsqrt",
        "sinh",
        "smooth_l1_loss",
        "soft_margin_loss",
        "softmax",
        "softmin",
        "softplus",
        "sum",
        "tan",
        "triplet_margin_loss",
        "vector_norm",
    }
)
WIDEST = frozenset(
    {
        "addcdiv",
        "addcmul",
        "atan2",
        "bilinear",
        "cross",
        "dot",
        "grid_sample",
        "index_put",
        "scatter_add",
        "tensordot",
    }
)
COMPOSED = frozenset({"multi_head_attention_forward"})
"""Functions of which torch's own is made of others in these lists: the parts follow them."""


def as_precision(precision: Any) -> torch.dtype | None:
    """The low dtype of ``"fp16"`` or ``"bf16"`` (or torch's); None for ``"fp32"`` and None. UsageError for another."""
    names = {"fp16": torch.float16, "float16": torch.float16, "bf16": torch.bfloat16, "bfloat16": torch.bfloat16}
    if precision in (None, "fp32", "float32", torch.float32):
        return None
    dtype = names.get(dtype_name(precision))
    if dtype is None:
        raise UsageError(
            f"precision is 'fp32', 'fp16' or 'bf16' (or torch's names, such as 'float16'), not {precision!r}"
        )
    return dtype


def is_low(x: Any) -> bool:
    """Whether it is a Tensor of half precision."""
    return isinstance(x, Tensor) and x.dtype in (torch.float16, torch.bfloat16)


def follow(name: str, low: torch.dtype, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any] | None:
    """The arguments of a function in the dtype that it runs in; None for a function that no list has."""
    if name in LOW:
        wanted = low
    elif name in FLOAT32 or (name in WIDEST and _has_float32((args, kwargs))):
        wanted = torch.float32
    else:
        return None
    return _cast(args, wanted), _cast(kwargs, wanted)


def _has_float32(tree: Any) -> bool:
    if isinstance(tree, Tensor):
        return tree.dtype == torch.float32
    parts = tree.values() if isinstance(tree, dict) else tree if isinstance(tree, (tuple, list)) else ()
    return any(_has_float32(part) for part in parts)


def _cast(tree: Any, dtype: torch.dtype) -> Any:
    if isinstance(tree, dict):
        return {name: _cast(part, dtype) for name, part in tree.items()}
    if type(tree) in (tuple, list):
        return type(tree)(_cast(part, dtype) for part in tree)
    return tree.to(dtype) if isinstance(tree, Tensor) and tree.dtype.is_floating_point else tree
