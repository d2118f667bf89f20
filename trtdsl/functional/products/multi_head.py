"""torch.nn.MultiheadAttention's function: projections around attention."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

from ..common import DefinitionError, L, ShapeError, SizeLike, Tensor, UnsupportedError, operation, shape_text, torch
from ..operands import choose, combined, scaled, stretch
from ..pointwise.activation import softmax
from ..pointwise.logic import logical_and, logical_not, ne
from ..shaping.join import chunk, unbind
from .attention import is_open, open_rows, opened, scaled_dot_product_attention
from .matmul import linear, matmul


@operation
def multi_head_attention_forward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    embed_dim_to_check: SizeLike,
    num_heads: int,
    in_proj_weight: Tensor | None,
    in_proj_bias: Tensor | None,
    bias_k: Tensor | None,
    bias_v: Tensor | None,
    add_zero_attn: bool,
    dropout_p: float,
    out_proj_weight: Tensor,
    out_proj_bias: Tensor | None,
    training: bool = True,
    key_padding_mask: Tensor | None = None,
    need_weights: bool = True,
    attn_mask: Tensor | None = None,
    use_separate_proj_weight: bool = False,
    q_proj_weight: Tensor | None = None,
    k_proj_weight: Tensor | None = None,
    v_proj_weight: Tensor | None = None,
    static_k: Tensor | None = None,
    static_v: Tensor | None = None,
    average_attn_weights: bool = True,
    is_causal: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """torch.nn.MultiheadAttention's function: (L, N, E), (S, N, E), (S, N, E) to (L, N, E) and the attention weights.

    The projections as IMatrixMultiplyLayers, attention by head (without ``need_weights`` that of
    :func:`scaled_dot_product_attention`), the output projection. Tensors without the batch dimension N are taken too.
    Dropout is refused. A row that the masks hide wholly is NaN with ``need_weights`` and 0 without, as in torch's
    function; torch's module in evaluation gives NaN for either where the masks are bool.

    >>> x, w = net.input("x", (5, "N", 8)), net.constant(torch.ones(24, 8))
    >>> out = net.constant(torch.ones(8, 8))
    >>> F.multi_head_attention_forward(x, x, x, 8, 2, w, None, None, None, False, 0.0, out, None, False)[0].shape
    (5, N, 8)
    """
    if training and dropout_p:
        raise UnsupportedError("multi_head_attention_forward with dropout is random: use training=False")
    if not (batched := query.ndim == 3):
        query, key, value = (L.unsqueeze(x, [1]) for x in (query, key, value))
        key_padding_mask = None if key_padding_mask is None else L.unsqueeze(key_padding_mask, [0])
    length, batch, width = query.shape
    if width != embed_dim_to_check or not isinstance(width, int) or width % num_heads:
        raise ShapeError(f"{shape_text(query.shape)} has not the width {embed_dim_to_check} of {num_heads} equal heads")
    separate = (q_proj_weight, k_proj_weight, v_proj_weight) if use_separate_proj_weight else None
    parameters = (separate or _thirds(in_proj_weight), _thirds(in_proj_bias), (None, bias_k, bias_v))
    added = (bias_k is not None) + bool(add_zero_attn)
    if attn_mask is None and is_causal:
        raise DefinitionError("multi_head_attention_forward(is_causal=True) needs attn_mask, as in torch")
    attn_mask, key_padding_mask = _open(attn_mask, added), _open(key_padding_mask, added)
    if attn_mask is not None and attn_mask.ndim == 3:  # (N * heads, L, S)
        attn_mask = L.shuffle(attn_mask, reshape=(batch, num_heads, *attn_mask.shape[1:]))
    if key_padding_mask is not None:
        key_padding_mask = L.unsqueeze(key_padding_mask, [1, 2])
    if need_weights or added or static_k is not None or static_v is not None:
        q, k, v = (_heads(x, num_heads, *own) for x, *own in zip((query, key, value), *parameters, strict=True))
        k, v = (_lengthened(x, given, add_zero_attn) for x, given in ((k, static_k), (v, static_v)))
        attention = _attention_weights(q, k, attn_mask, key_padding_mask, keep_hidden=need_weights or added > 0)
        weights = attention if need_weights else None
        if need_weights and average_attn_weights:
            weights = L.reduce(attention, "AVG", [1])
        attended = matmul(attention, v)
    else:
        mask, whole = _one_mask(attn_mask, key_padding_mask, query), None if separate else in_proj_weight
        q, k, v, of_values = _bare((query, key, value), num_heads, parameters[:2], whole, in_proj_bias)
        v, out_proj_bias = _without_bias(v, of_values, is_open(mask), out_proj_weight, out_proj_bias)
        attended, weights = scaled_dot_product_attention(q, k, v, mask), None
    joined = L.shuffle(attended, (2, 0, 1, 3), (length, batch, width))
    result = linear(joined, out_proj_weight, out_proj_bias)
    if not batched:
        return L.squeeze(result, [1]), None if weights is None else L.squeeze(weights, [0])
    return result, weights


def _heads(x: Tensor, heads: int, weight: Tensor | None, bias: Tensor | None, extra: Tensor | None) -> Tensor:
    """(length, N, E) projected, a further position ``extra`` at its end, by head: (N, heads, length, E / heads)."""
    if weight is None:
        raise DefinitionError("multi_head_attention_forward needs the weights of its projections")
    x = linear(x, weight, bias)
    length, batch, width = x.shape
    if extra is not None:
        x = L.concatenation([x, stretch(L.shuffle(extra, reshape=(1, 1, width)), (1, batch, width))], 0)
        length = x.shape[0]
    assert isinstance(width, int)
    return L.shuffle(L.shuffle(x, reshape=(length, batch, heads, width // heads)), (1, 2, 0, 3))


def _lengthened(x: Tensor, static: Tensor | None, zero: bool) -> Tensor:
    """Keys or values by head (N, heads, S, E), or those given instead, and with ``zero`` a further one of zeros."""
    if static is not None:
        x = L.shuffle(static, reshape=(*x.shape[:2], *static.shape[1:]))
    return L.slice(x, (0,) * 4, (*x.shape[:2], x.shape[2] + 1, x.shape[3]), mode="FILL") if zero else x


def _bare(
    sources: Sequence[Tensor],
    heads: int,
    parameters: Sequence[Sequence[Tensor | None]],
    weight: Tensor | None,
    bias: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    """Queries, keys and values by head as attention without weights takes them, and a bias of the values.

    The builder's attention reads products as they are written, but each bias takes a launch that writes them once more.
    The keys' bias adds the same to all scores of a query, and softmax takes it away. The values' adds itself to every
    result that has weights, which add up to 1, so that the output projection can have it. An odd number of keys in
    float32 is written once more in any case.
    """
    x, length = sources[0], sources[0].shape[0]
    odd = isinstance(length, int) and length % 2 == 1
    full = x.dtype == torch.float32 and _followed(x) is None
    if odd and full and weight is not None and all(source is x for source in sources):
        each = L.shuffle(linear(x, weight, bias), reshape=(*x.shape[:2], 3, heads, weight.shape[1] // heads))
        q, k, v = unbind(L.shuffle(each, (2, 1, 3, 0, 4)))
        return q, k, v, None
    q, k, v = (_heads(x, heads, own, None, None) for x, own in zip(sources, parameters[0], strict=True))
    of_queries, _, of_values = (None if x is None else L.cast(x, q.dtype) for x in parameters[1])
    return q if of_queries is None else _biased(q, of_queries), k, v, of_values


def _without_bias(
    v: Tensor, bias: Tensor | None, is_open: bool, weight: Tensor, out_bias: Tensor | None
) -> tuple[Tensor, Tensor | None]:
    """The values, and the bias of the output projection with theirs where it can have it: no row is without weights."""
    if bias is not None and is_open and bias.is_constant and weight.is_constant:
        return v, linear(bias, weight, out_bias)
    return v if bias is None else _biased(v, bias), out_bias


def _biased(x: Tensor, bias: Tensor) -> Tensor:
    """(N, heads, length, E / heads) with a bias (E,)."""
    _, heads, _, width = x.shape
    return x + L.shuffle(bias, reshape=(1, heads, 1, width))


def _attention_weights(
    q: Tensor, k: Tensor, mask: Tensor | None, padding: Tensor | None, *, keep_hidden: bool
) -> Tensor:
    """(N, heads, L, E) and (N, heads, S, E): the softmax over S of their scaled products, masked: (N, heads, L, S)."""
    width = q.shape[-1]
    assert isinstance(width, int)
    scores = matmul(scaled(q, 1 / math.sqrt(width)), L.shuffle(k, (0, 1, 3, 2)))
    masks = [each for each in (mask, padding) if each is not None]
    masks = [each if each.dtype == torch.bool else L.cast(each, scores.dtype) for each in masks]
    for each in masks:
        scores = choose(each, -math.inf, scores, scores.dtype) if each.dtype == torch.bool else scores + each
    weights = softmax(scores, -1)
    if keep_hidden or not masks:
        return weights
    taking = [logical_not(mask) if mask.dtype == torch.bool else ne(mask, -math.inf) for mask in masks]
    return opened(weights, open_rows(functools.reduce(logical_and, taking)))  # a bool mask is True where it hides


def _one_mask(mask: Tensor | None, padding: Tensor | None, query: Tensor) -> Tensor | None:
    """Both masks as :func:`scaled_dot_product_attention` takes one: bool where they are, True where it takes part."""
    masks = [each for each in (mask, padding) if each is not None]
    if all(each.dtype == torch.bool for each in masks):
        return functools.reduce(logical_and, map(logical_not, masks)) if masks else None
    dtype = _followed(query) or query.dtype
    # The logarithm of True and False is 0 and -inf.
    added = [
        L.unary(L.cast(logical_not(x), dtype), "LOG") if x.dtype == torch.bool else L.cast(x, dtype) for x in masks
    ]
    return combined(added)


def _followed(x: Tensor) -> torch.dtype | None:
    """The low dtype of autocast that the parts of this call follow."""
    call = x.network.current_operation
    return None if call is None else call.precision


def _thirds(x: Tensor | None) -> Sequence[Tensor | None]:
    return (None, None, None) if x is None else chunk(x, 3)


def _open(mask: Tensor | None, added: int) -> Tensor | None:
    """A mask with further columns that exclude nothing."""
    if mask is None or not added:
        return mask
    return L.slice(mask, (0,) * mask.ndim, (*mask.shape[:-1], mask.shape[-1] + added), mode="FILL")
