"""Attention."""

from __future__ import annotations

import functools
import math

from ... import layers as L
from ...core.errors import DefinitionError, ShapeError, UnsupportedError
from ...core.lazy import torch
from ...definition.operation import operation
from ...definition.precision import is_low
from ...definition.tensor import Tensor
from ...sizes.shape import shape_text
from ...sizes.size import SizeLike
from ..lowerings import lowering_of
from ..operands import as_tensor, binary, choose, scaled, stretch
from ..pointwise.activation import softmax
from ..pointwise.arithmetic import pow
from ..pointwise.logic import logical_and, logical_not, ne
from ..reducing.reduction import any as any_of
from ..shaping.arrange import pad
from ..shaping.create import indices_of
from ..shaping.reshape import repeat_interleave
from .matmul import linear, matmul


@operation
def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | Tensor | None = None,
    enable_gqa: bool = False,
    *,
    lowering: str = "auto",
) -> Tensor:
    """``softmax(query @ key.T * scale + mask) @ value`` for (…, L, E), (…, S, E) and (…, S, V): (…, L, V).

    One IAttention (``lowering="layer"``), or two IMatrixMultiplyLayers and ISoftMaxLayer (``"products"``) where these
    do no worse (half precision with no mask or one that is added, float32 with a mask that is not constant, a bool mask
    that is constant, in float32, or in float16 for up to 512 tokens of 32 or 64 numbers) and where the layer cannot
    express the case. In half precision the builder makes one fused kernel of either. Where ``scale`` makes scores
    greater than by default, these stay in float32, as in torch: in the layer, or in products that are not fused.
    ``scale`` is ``1 / sqrt(E)`` when None. ``is_causal`` masks what lies above the diagonal. ``enable_gqa`` repeats the
    heads of dimension -3 of key and value. An odd number of keys in float32 gets one more, which the mask rules out.
    ``dropout_p`` above 0 is refused.

    ``attn_mask`` is bool (True takes part) or is added. A row that it hides wholly, False or -inf throughout, gives 0,
    as in torch. For a constant mask this is decided while the network is defined and costs nothing without such rows.
    For another one that is added, (2, 8, 256, 64) with a mask (2, 8, 256, 256) takes 4 launches as without the rule in
    float32, and 6 instead of 5 in half precision, with 1.25 times the bytes; with a mask (2, 1, 1, 256) it takes one
    launch more in each, and no more bytes (TensorRT-RTX 1.7, read from the programs).

    >>> net = td.Network()
    >>> q, k, v = (net.input(name, ("N", 4, length, 8)) for name, length in (("q", 5), ("k", 7), ("v", 7)))
    >>> F.scaled_dot_product_attention(q, k, v).shape
    (N, 4, 5, 8)
    """
    _check(query, key, value, attn_mask, dropout_p, is_causal)
    groups = [_heads_of_each(x, query) for x in (key, value)] if enable_gqa else [1, 1]
    factor = _default_scale(query) if scale is None else scale
    key, value, attn_mask = _even(query, key, value, attn_mask, is_causal)
    if attn_mask is not None and attn_mask.dtype not in (torch.bool, query.dtype):
        attn_mask = L.cast(attn_mask, query.dtype)  # first of all: what half precision has no number for becomes -inf
    mask, open_rows = attn_mask, None if attn_mask is None else _open_rows(attn_mask)
    chosen = mask is not None and mask.dtype == torch.bool and is_low(query) and not mask.is_constant
    inside = chosen and scale is None and not enable_gqa and _keeps_choices(query, key, value)
    if mask is not None and chosen and not inside:
        # The logarithm of a bool mask is 0 or -inf, and the builder fuses it. It fuses ISelectLayer for some sizes,
        # and in front of IAttention it turns one into a search for padding that takes seven launches.
        mask = L.unary(L.cast(mask, query.dtype), "LOG")
    # Unmasked attention in half precision is one kernel either way, with better ways to and from it for the products.
    sharpness = _sharpness(query, scale) if is_low(query) else 0
    plain = is_low(query) and not (is_causal or enable_gqa or sharpness or chosen)
    # In float32 hidden rows become part of the products' softmax; after the layer they take a launch of their own.
    wholly = open_rows is not None and not is_low(query) and not enable_gqa
    fits = _is_for_layer(query, key, value, mask, enable_gqa)
    way = lowering_of(
        "scaled_dot_product_attention",
        lowering,
        query,
        key,
        value,
        cannot={} if fits else {"layer": "IAttention takes floats of one width in one batch, and a mask that is added"},
        default="products" if plain or inside or wholly or sharpness == 2 else "layer",
    )
    if way == "layer":
        return _opened(_by_layer(scaled(query, factor), key, value, mask, is_causal), open_rows)
    key, value = (repeat_interleave(x, n, -3) if n > 1 else x for x, n in zip((key, value), groups, strict=True))
    if sharpness:  # scores in float32, as torch has them
        query, key = L.cast(query, torch.float32), L.cast(key, torch.float32)
    within = None if is_low(value) and not inside else open_rows  # a choice there keeps products from being fused
    result = _by_products(scaled(query, factor), key, value, attn_mask, is_causal, within)
    return result if within is open_rows else _opened(result, open_rows)


def _check(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, dropout_p: float, is_causal: bool) -> None:
    """Raises for what attention does not take; dynamic sizes that must be equal become constraints."""
    if dropout_p:
        raise UnsupportedError(f"dropout_p={dropout_p} is random: an engine is for inference")
    if is_causal and mask is not None:
        raise DefinitionError("give attn_mask or is_causal, not both, as in torch")
    for a, b, axis, what in (
        (query, key, -1, "query and key, their last,"),
        (key, value, -2, "key and value, of tokens,"),
    ):
        if min(a.ndim, b.ndim) >= 2:
            what = f"the dimensions of {what}"
            query.network.constraints.equal(a.shape[axis], b.shape[axis], what, query.network.current_operation)


def _open_rows(mask: Tensor) -> Tensor | None:
    """Whether some position of a row takes part, (…, 1); None where the mask is constant and one does in every row."""
    if mask.is_constant:
        taking = mask.data if mask.dtype == torch.bool else mask.data != -math.inf
        rows = taking.any(-1, keepdim=True)
        return None if bool(rows.all()) else mask.network.constant(rows)
    return any_of(mask if mask.dtype == torch.bool else ne(mask, -math.inf), -1, keepdim=True)


def _opened(x: Tensor, open_rows: Tensor | None) -> Tensor:
    """The weights or the result of attention with 0 in the other rows."""
    return x if open_rows is None else choose(open_rows, x, 0, x.dtype)


def _sharpness(query: Tensor, scale: float | Tensor | None) -> int:
    """How great the scale makes the scores in half precision: 0 as by default, 1 greater, 2 far greater.

    Scores of 60 that are rounded to float16 between two layers change the weights by more than a percent (1). Still
    greater ones change as much where the query is rounded after its scaling, which a power of two does not do (2).
    """
    width = query.shape[-1]
    if scale is None or not isinstance(width, int):
        return 0
    if not isinstance(scale, (int, float)):
        return 1
    deviation = abs(scale) * math.sqrt(width)  # of the scores, where query and key have a deviation of 1
    return 0 if deviation < 1.01 else 2 if deviation > 8 and abs(math.frexp(scale)[0]) != 0.5 else 1


def _keeps_choices(query: Tensor, key: Tensor, value: Tensor) -> bool:
    """Whether the builder fuses products with choices between them, of a mask and of rows that it hides wholly.

    Seen in TensorRT-RTX 1.7 in float16, with at most 512 queries and as many keys of 32 or 64 numbers: the mask is then
    part of the kernel. It does not fuse 1024, nor bfloat16 or other widths.
    """
    length, width = query.shape[-2:]
    same = isinstance(length, int) and (length, width) == tuple(key.shape[-2:]) == tuple(value.shape[-2:])
    low = query.dtype == key.dtype == value.dtype == torch.float16
    return low and same and isinstance(length, int) and length <= 512 and width in (32, 64)


def _even(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, is_causal: bool
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Key, value and mask with one key more where their number is odd and in float32: it takes no part.

    The builder pads products of float32 to even sizes: the keys, their scores and the weights, each in a launch of its
    own. A padded key becomes part of the launch that writes the keys, and the scores are even from then on.
    """
    count = key.shape[-2]
    if query.dtype != torch.float32 or not isinstance(count, int) or count % 2 == 0 or count == 1:
        return key, value, mask
    if mask is None:
        length = query.shape[-2]
        if is_causal and not (isinstance(length, int) and length <= count):
            return key, value, None  # rows below the last key would take part in the one after it
        if not is_causal:
            mask = key.network.constant(torch.zeros(1, count))
    elif mask.shape[-1] != count:
        return key, value, mask
    if mask is not None:
        mask = pad(mask, (0, 1), value=None if mask.dtype == torch.bool else -math.inf)
    return pad(key, (0, 0, 0, 1)), pad(value, (0, 0, 0, 1)), mask


def _is_for_layer(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, grouped: bool) -> bool:
    """Whether IAttention takes them: matrices of one width in a common batch, and a mask that is added."""
    shapes = [tensor.shape for tensor in (query, key, value)]
    lead = [shape[:-3] if grouped else shape[:-2] for shape in shapes]
    widths = {shape[-1] for shape in shapes}
    return (
        query.dtype.is_floating_point
        and len({tensor.dtype for tensor in (query, key, value)}) == 1
        and {len(shape) for shape in shapes} <= {3, 4}
        and lead.count(lead[0]) == 3
        and len(widths) == 1
        and all(isinstance(width, int) and width for width in widths)
        and not any(size == 0 for shape in shapes for size in shape)
        and (mask is None or (mask.dtype != torch.bool and mask.ndim <= query.ndim))
    )


def _by_layer(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, is_causal: bool) -> Tensor:
    """One IAttention, which has four dimensions."""
    rank = query.ndim
    heads = [L.unsqueeze(x, [0]) if x.ndim == 3 else x for x in (query, key, value)]
    if mask is not None:
        mask = L.unsqueeze(L.cast(mask, query.dtype), range(4 - mask.ndim))
    query, key, value = heads
    result = L.attention(query, key, value, mask, causal="UPPER_LEFT" if is_causal else "NONE")
    return L.squeeze(result, [0]) if rank == 3 else result


def _by_products(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, is_causal: bool, open_rows: Tensor | None
) -> Tensor:
    """Two IMatrixMultiplyLayers and ISoftMaxLayer; the query is scaled already, and may be wider than the values."""
    keys = L.shuffle(key, [*range(key.ndim - 2), key.ndim - 1, key.ndim - 2])
    scores = matmul(query, keys)
    if is_causal:
        rows, columns = indices_of(query.network, query.shape[-2], key.shape[-2])
        scores = choose(L.elementwise(columns, rows, "GREATER"), -math.inf, scores, scores.dtype)
    elif mask is not None and mask.dtype == torch.bool:
        scores = choose(mask, scores, -math.inf, scores.dtype)
    elif mask is not None:
        scores = binary(scores, mask, "SUM", scores.dtype)
    weights = L.cast(softmax(scores, -1), value.dtype)
    return matmul(_opened(weights, open_rows), value)


def _default_scale(query: Tensor) -> float | Tensor:
    width = query.shape[-1]
    if isinstance(width, int):
        return 1 / math.sqrt(width)
    return pow(as_tensor(width, query.network, torch.float32), -0.5)


def _heads_of_each(x: Tensor, query: Tensor) -> int:
    """How many heads of the query share one of ``x``."""
    heads, wanted = x.shape[-3], query.shape[-3]
    if not isinstance(heads, int) or not isinstance(wanted, int) or wanted % heads:
        raise ShapeError(f"enable_gqa: {wanted} heads of the query are not a multiple of the key's {heads}")
    return wanted // heads


@operation
def multi_head_attention_forward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    embed_dim_to_check: int,
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

    The projections as IMatrixMultiplyLayers, attention by head, the output projection. In half precision attention
    without ``need_weights`` is :func:`scaled_dot_product_attention`. Tensors without the batch dimension N are taken
    too. Dropout is refused. A row that the masks hide wholly is NaN with ``need_weights`` and 0 without, as in torch's
    function; torch's module in evaluation gives NaN for either where the masks are bool.

    >>> net = td.Network()
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
        raise ShapeError(
            f"{shape_text(query.shape)} has not the width {embed_dim_to_check}, a multiple of {num_heads} heads"
        )
    separate = (q_proj_weight, k_proj_weight, v_proj_weight) if use_separate_proj_weight else None
    parameters = (separate or _thirds(in_proj_weight, width), _thirds(in_proj_bias, width), (None, bias_k, bias_v))
    q, k, v = (_heads(x, num_heads, *own) for x, *own in zip((query, key, value), *parameters, strict=True))
    k, v = (
        x if given is None else L.shuffle(given, reshape=(batch, num_heads, *given.shape[1:]))
        for x, given in ((k, static_k), (v, static_v))
    )
    if add_zero_attn:
        k, v = (L.slice(x, (0,) * 4, (*x.shape[:2], x.shape[2] + 1, x.shape[3]), mode="FILL") for x in (k, v))
    added = (bias_k is not None) + bool(add_zero_attn)
    attn_mask, key_padding_mask = _by_head(_open(attn_mask, added), _open(key_padding_mask, added), batch, num_heads)
    if attn_mask is None and is_causal:
        raise DefinitionError("multi_head_attention_forward(is_causal=True) needs attn_mask, as in torch")
    attended, weights = _attended(q, k, v, attn_mask, key_padding_mask, need_weights, added)
    joined = L.shuffle(attended, (2, 0, 1, 3), (length, batch, width))
    result = linear(joined, out_proj_weight, out_proj_bias)
    weights = L.reduce(weights, "AVG", [1]) if weights is not None and average_attn_weights else weights
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


def _attended(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, padding: Tensor | None, need_weights: bool, added: int
) -> tuple[Tensor, Tensor | None]:
    """Attention by head and, if they are needed, its weights; the last ``added`` keys are hidden by no mask."""
    floats = any(each is not None and each.dtype != torch.bool for each in (mask, padding))
    if is_low(q) and not (need_weights or added or (floats and _keeps_choices(q, k, v))):
        return scaled_dot_product_attention(q, k, v, _one_mask(mask, padding, q.dtype)), None
    # In float32 the products take a launch less with such masks.
    weights = _attention_weights(q, k, mask, padding, keep_hidden=need_weights or added > 0)
    return matmul(weights, v), weights if need_weights else None


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
        scores = _masked(scores, each)
    weights = softmax(scores, -1)
    return weights if keep_hidden else _without_hidden_rows(weights, masks)


def _one_mask(mask: Tensor | None, padding: Tensor | None, dtype: torch.dtype) -> Tensor | None:
    """Both masks as :func:`scaled_dot_product_attention` takes one: bool where they are, True where it takes part."""
    masks = [each for each in (mask, padding) if each is not None]
    if all(each.dtype == torch.bool for each in masks):
        return functools.reduce(logical_and, map(logical_not, masks)) if masks else None
    # The logarithm of True and False is 0 and -inf.
    added = [
        L.unary(L.cast(logical_not(x), dtype), "LOG") if x.dtype == torch.bool else L.cast(x, dtype) for x in masks
    ]
    return functools.reduce(lambda a, b: binary(a, b, "SUM", dtype), added)


def _by_head(
    mask: Tensor | None, padding: Tensor | None, batch: SizeLike, heads: int
) -> tuple[Tensor | None, Tensor | None]:
    """The masks of :func:`multi_head_attention_forward`, to be broadcast to (N, heads, L, S)."""
    if mask is not None and mask.ndim == 3:  # (N * heads, L, S)
        mask = L.shuffle(mask, reshape=(batch, heads, *mask.shape[1:]))
    return mask, None if padding is None else L.unsqueeze(padding, [1, 2])


def _without_hidden_rows(weights: Tensor, masks: list[Tensor]) -> Tensor:
    """The weights with 0 in rows that the masks hide wholly: a bool mask is True where it hides."""
    if not masks:
        return weights
    taking = [logical_not(mask) if mask.dtype == torch.bool else ne(mask, -math.inf) for mask in masks]
    return _opened(weights, _open_rows(functools.reduce(logical_and, taking)))


def _thirds(x: Tensor | None, width: int) -> list[Tensor | None]:
    if x is None:
        return [None, None, None]
    rest = tuple(x.shape[1:])
    return [L.slice(x, (k * width, *(0,) * len(rest)), (width, *rest)) for k in range(3)]


def _open(mask: Tensor | None, added: int) -> Tensor | None:
    """A mask with further columns that exclude nothing."""
    if mask is None or not added:
        return mask
    return L.slice(mask, (0,) * mask.ndim, (*mask.shape[:-1], mask.shape[-1] + added), mode="FILL")


def _masked(scores: Tensor, mask: Tensor) -> Tensor:
    """The scores with the mask added, or, where it is bool, without the positions that it excludes."""
    if mask.dtype == torch.bool:
        return choose(mask, -math.inf, scores, scores.dtype)
    return binary(scores, mask, "SUM", scores.dtype)
