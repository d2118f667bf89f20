"""Attention, and torch.nn.MultiheadAttention's function: projections around it."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from ...core.errors import DefinitionError, ShapeError, UnsupportedError
from ...definition.tuning.precisions import NARROW
from ...layers.shuffle import behind_shuffles
from ...sizes.proof import extent
from ..common import L, Later, SizeLike, Tensor, is_low, made_by, operation, shape_text, torch, way
from ..lowerings import Choice
from ..operands import as_tensor, binary, choose, combined, scaled, stretch
from ..pointwise.activation import softmax
from ..pointwise.arithmetic import pow
from ..pointwise.logic import logical_and, logical_not, ne
from ..pointwise.quantization import rounded
from ..reducing.reduction import any as any_of
from ..shaping.arrange import pad
from ..shaping.create import indices_of
from ..shaping.join import chunk, unbind
from ..shaping.reshape import repeat_interleave
from .folding import is_linear, product_of
from .linalg import linear, matmul


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
    do no worse: half precision without ``enable_gqa``; float32 with a bool mask that is constant, or any for a fixed
    number of keys that a linear product without bias gives, or one that is not constant for a batch or a head of one;
    for a single key, where threads of the layer's kernel read what others computed; in loops and branches; and where
    the layer cannot express the case. In half precision the builder makes one fused kernel of either. Where ``scale``
    makes scores greater than by default, these stay in float32, as in torch, in the layer or in products that are not
    fused. ``scale`` is ``1 / sqrt(E)`` when None. ``is_causal`` masks what lies above
    the diagonal. With ``enable_gqa`` heads of the query share one of key and value, which the kernel reads once: those
    of inputs and caches for one query, or where there are never fewer than two. ``dropout_p`` must be 0. In float32
    keys become an even number.

    ``attn_mask`` is bool (True takes part) or is added. A row that it hides wholly, False or -inf throughout, gives 0,
    as in torch; one hidden by finite numbers has, in half precision, nearly equal weights, or NaN where all sums
    overflow. A constant mask without such rows costs nothing. One that is added, (2, 8, 256, 256) for (2, 8, 256, 64),
    takes 4 launches as without the rule in float32, and 6 instead of 5 in half precision, with 1.25 times the bytes;
    (2, 1, 1, 256) takes one launch more in each, and no more bytes (TensorRT-RTX 1.7).
    """
    _check(query, key, value, attn_mask, dropout_p, is_causal)
    groups = [_heads_of_each(x, query) for x in (key, value)] if enable_gqa else None
    network = query.network
    choice, call = Choice("scaled_dot_product_attention", lowering, query, key, value), network.current_operation
    assert call is not None
    operands = query, key, value
    how = _Attention(attn_mask, is_causal, scale, groups, network.enclosing is not None, _was_low(query), lowering)
    lower = functools.partial(_attention, choice, *operands, how)
    leads = [x.shape[: -3 if enable_gqa else -2] for x in operands]
    alike = leads.count(leads[0]) == 3 and len({x.dtype for x in operands}) == 1
    if not alike or all(x.is_constant for x in operands):
        return lower()
    shape = (*query.shape[:-1], value.shape[-1])
    given = [*operands, attn_mask, scale if isinstance(scale, Tensor) else None]
    return Later(call, given, lower).tensor(shape, query.dtype, call.name, query.scope)


def _attention(choice: Choice, query: Tensor, key: Tensor, value: Tensor, how: _Attention) -> Tensor:
    """Attention in one of its ways, by what gives its operands and by what else the network has."""
    enable_gqa = how.groups is not None
    factor = _default_scale(query) if how.factor is None else how.factor
    given, (key, value, attn_mask) = key, _even(query, key, value, how.mask, how.is_causal)
    if attn_mask is not None and attn_mask.dtype not in (torch.bool, query.dtype):
        attn_mask = L.cast(attn_mask, query.dtype)  # first of all: what half precision has no number for becomes -inf
    mask, shown = attn_mask, None if attn_mask is None else open_rows(attn_mask)
    # In loops and branches TensorRT-RTX 1.7 builds no IAttention, but in half precision without a mask.
    wide = how.in_body or (not enable_gqa and _are_products_better(query, given, mask, shown))
    if mask is not None and mask.dtype == torch.bool and not wide and not mask.is_constant:
        # The logarithm of a bool mask is 0 or -inf, and the builder fuses it. It fuses ISelectLayer for some sizes,
        # and in front of IAttention it turns one into a search for padding that takes seven launches.
        mask = L.unary(L.cast(mask, query.dtype), "LOG")
    # In half precision attention is one kernel either way, with better ways to and from it for the products. Those of
    # heads that are repeated are not fused in every network.
    sharpness = _sharpness(query, how.factor) if is_low(query) else 0
    plain = is_low(query) and not (enable_gqa or sharpness)
    within = None if is_low(value) else shown  # a choice there keeps products from being fused
    call = query.network.current_operation
    step = 0.0 if call is None or not isinstance(factor, float) else call.step
    how = how._replace(mask=attn_mask, added=mask, factor=factor, sharp=sharpness > 0, within=within, step=step)
    against = {
        "in fp8 the builder fuses two products": step > 0,
        "it is in a loop or a branch": how.in_body,
        "two products move less": wide,
        "its kernel for a single key reads weights that other threads have": key.shape[-2] == 1
        and query.shape[-2] != 1,
        "in half precision the builder fuses two products": plain,
        "scores as great as these stay in float32": sharpness == 2,
    }
    better = next((reason for reason, holds in against.items() if holds), None)
    result, hides = choice.lowered(query, key, value, how=how, default="layer" if better is None else "products")
    if choice.used == "products" and choice.operation is not None:
        why = _against_layer(query, key, value, how) or better or "products are asked for, or TensorRT lacks it"
        query.network.graph.remark("fused attention", choice.operation, f"no IAttention: {why}", plain)
    return result if hides else opened(result, shown)


class _Attention(NamedTuple):
    """What a call says, and what its ways are told."""

    mask: Tensor | None
    is_causal: bool
    factor: Any
    """A number or a Tensor; None for the default, until a way is chosen."""
    groups: Sequence[int] | None
    """How many heads of the query share one of key and value, where several may."""
    in_body: bool
    """Whether it is in a loop or a branch."""
    was_low: bool
    """Whether the query is float32 of a half type."""
    lowering: str
    added: Tensor | None = None
    """The mask as it is added, where it can be."""
    sharp: bool = False
    """Whether scores stay in float32."""
    within: Tensor | None = None
    """The rows that are not hidden wholly, where that is chosen between products."""
    step: float = 0.0
    """The scale by which operands become fp8, and weights by that of 1; 0 where they do not."""

    def narrow(self, x: Tensor, step: float) -> Tensor:
        """An operand of a product."""
        return rounded(x, step, "float8_e4m3fn") if self.step else x


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


def open_rows(mask: Tensor) -> Tensor | None:
    """Whether some position of a row takes part, (…, 1); None where the mask is constant and one does in every row."""
    if mask.is_constant:
        taking = mask.data if mask.dtype == torch.bool else mask.data != -math.inf
        rows = taking.any(-1, keepdim=True)
        return None if bool(rows.all()) else mask.network.constant(rows)
    return any_of(mask if mask.dtype == torch.bool else ne(mask, -math.inf), -1, keepdim=True)


def opened(x: Tensor, shown: Tensor | None) -> Tensor:
    """The weights or the result of attention with 0 in the other rows."""
    return x if shown is None else choose(shown, x, 0, x.dtype)


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


def _are_products_better(query: Tensor, key: Tensor, mask: Tensor | None, shown: Tensor | None) -> bool:
    """Whether two products take fewer launches than the layer in float32, seen in TensorRT-RTX 1.7.

    Before the layer, the builder copies keys that come from a linear product without a bias; with a bias, and whatever
    else is computed after the product, it does that on the way. Rows that may be hidden become part of the products'
    softmax and a launch after the layer, but the products need two copies more in a batch of keys that are no inputs.
    """
    if mask is None or is_low(query) or not isinstance(key.shape[-2], int):
        return False
    key = behind_shuffles(key)
    found = product_of(key)
    if found is not None and is_linear(key) and found.product.bias is None:
        return True
    given = key.node is None and not key.is_constant
    return shown is not None and (given or 1 in query.shape[:-2])


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


def _against_layer(query: Tensor, key: Tensor, value: Tensor, how: _Attention) -> str | None:
    """Why IAttention is out of the question; None where it is not."""
    shapes, mask = [tensor.shape for tensor in (query, key, value)], how.added
    lead = [shape[: -2 if how.groups is None else -3] for shape in shapes]
    widths = {shape[-1] for shape in shapes}
    of_floats = query.dtype.is_floating_point and len({tensor.dtype for tensor in (query, key, value)}) == 1
    in_batch = {len(shape) for shape in shapes} <= {3, 4} and lead.count(lead[0]) == 3
    one_width = len(widths) == 1 and all(isinstance(width, int) and width for width in widths)
    checks = {
        "its operands are not floats of one dtype": of_floats,
        "its operands are not matrices in one batch": in_batch,
        "its operands have not one width": one_width,
        "there is nothing to attend to": not any(size == 0 for shape in shapes for size in shape),
        "the mask is not float": mask is None or mask.dtype != torch.bool,
        "the mask has more dimensions than the query": mask is None or mask.ndim <= query.ndim,
        "TensorRT-RTX 1.7 may crash where it builds it beside loops or branches": (
            not query.network.regions or how.lowering != "auto"
        ),
        "TensorRT-RTX 1.7 does not build it in float32 of a query that was in half precision": not how.was_low,
    }
    return next((reason for reason, holds in checks.items() if not holds), None)


def _is_given(x: Tensor) -> bool:
    """Whether keys or values are an input, or a cache that is written in place, at most rearranged."""
    x = behind_shuffles(x)
    return made_by(x, "kv_cache_update") is not None or (x.node is None and not x.is_constant)


def _was_low(query: Tensor) -> bool:
    """Whether a query is a half type's, cast, and otherwise at most rearranged and multiplied by numbers."""
    query = behind_shuffles(query)
    if (cast := made_by(query, "cast")) is not None:
        return is_low(cast.operands[0])
    product = made_by(query, "elementwise", "PROD") or made_by(query, "elementwise", "DIV")
    given = [] if product is None else [x for x in product.operands if x is not None]
    numbers = [x for x in given if x.is_constant and x.data.numel() == 1]
    return bool(numbers) and any(_was_low(x) for x in given if not x.is_constant)


@way("scaled_dot_product_attention", "layer", "one IAttention", unless=_against_layer, needs="add_attention_v2")
def _by_layer(query: Tensor, key: Tensor, value: Tensor, how: _Attention) -> tuple[Tensor, bool]:
    """One IAttention, which has four dimensions; and that rows that are hidden wholly are not 0."""
    query, mask = scaled(query, how.factor), how.added
    rank = query.ndim
    query, key, value = (L.unsqueeze(x, [0]) if rank == 3 else x for x in (query, key, value))
    is_shared = how.groups is not None and max(how.groups) > 1 and key.shape == value.shape
    if is_shared and extent(query.shape[2])[0] > 1 and (_is_given(key) or _is_given(value)):
        # For several queries TensorRT-RTX 1.7 repeats heads of inputs and caches, and none of parts of one tensor.
        both, count = L.concatenation([key, value], 2), key.shape[2]
        key, value = both[:, :, :count], both[:, :, count:]
    if mask is not None:
        mask = L.unsqueeze(L.cast(mask, query.dtype), range(4 - mask.ndim))
    result = L.attention(query, key, value, mask, causal="UPPER_LEFT" if how.is_causal else "NONE")
    return L.squeeze(result, [0]) if rank == 3 else result, False


@way("scaled_dot_product_attention", "products", "two IMatrixMultiplyLayers and ISoftMaxLayer")
def _by_products(query: Tensor, key: Tensor, value: Tensor, how: _Attention) -> tuple[Tensor, bool]:
    """The result, and whether its rows that are hidden wholly are 0."""
    mask, is_causal, shown = how.mask, how.is_causal, how.within
    groups = how.groups or [1, 1]
    key, value = (repeat_interleave(x, n, -3) if n > 1 else x for x, n in zip((key, value), groups, strict=True))
    if how.sharp:  # as torch has them
        query, key = L.cast(query, torch.float32), L.cast(key, torch.float32)
    query = scaled(query, how.factor)
    if isinstance(how.factor, float):
        query, key, value = (
            how.narrow(x, how.step * factor) for x, factor in ((query, how.factor), (key, 1), (value, 1))
        )
    keys = L.shuffle(key, [*range(key.ndim - 2), key.ndim - 1, key.ndim - 2])
    scores = matmul(query, keys)
    if is_causal:
        rows, columns = indices_of(query.network, query.shape[-2], key.shape[-2])
        scores = choose(columns > rows, -math.inf, scores, scores.dtype)
    else:
        scores = _masked(scores, mask)
    weights = how.narrow(L.cast(softmax(scores, -1), value.dtype), 1 / NARROW["float8_e4m3fn"])
    return matmul(opened(weights, shown), value), shown is not None


def _masked(scores: Tensor, mask: Tensor | None) -> Tensor:
    if mask is not None and mask.dtype == torch.bool:
        return choose(mask, scores, -math.inf, scores.dtype)
    return scores if mask is None else binary(scores, mask, "SUM", scores.dtype)


def _default_scale(query: Tensor) -> float | Tensor:
    width = query.shape[-1]
    if isinstance(width, int):
        return 1 / math.sqrt(width) if width else 1.0
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
    mask = _one_mask(attn_mask, key_padding_mask, query)
    if need_weights or added or static_k is not None or static_v is not None:
        q, k, v = (_heads(x, num_heads, *own) for x, *own in zip((query, key, value), *parameters, strict=True))
        k, v = (_lengthened(x, given, add_zero_attn) for x, given in ((k, static_k), (v, static_v)))
        attention = _attention_weights(q, k, mask, keep_hidden=need_weights or added > 0)
        weights = attention if need_weights else None
        if need_weights and average_attn_weights:
            weights = L.reduce(attention, "AVG", [1])
        attended = matmul(attention, v)
    else:
        whole = None if separate else in_proj_weight
        q, k, v, of_values = _bare((query, key, value), num_heads, parameters[:2], whole, in_proj_bias)
        v, out_proj_bias = _without_bias(v, of_values, mask, out_proj_weight, out_proj_bias)
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
    return pad(x, (0, 0, 0, 1)) if zero else x


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
    v: Tensor, bias: Tensor | None, mask: Tensor | None, weight: Tensor, out_bias: Tensor | None
) -> tuple[Tensor, Tensor | None]:
    """The values, and the bias of the output projection with theirs where it can have it: no row is without weights."""
    is_open = mask is None or (mask.is_constant and open_rows(mask) is None)
    if bias is not None and is_open and bias.is_constant and weight.is_constant:
        return v, linear(bias, weight, out_bias)
    return v if bias is None else _biased(v, bias), out_bias


def _biased(x: Tensor, bias: Tensor) -> Tensor:
    """(N, heads, length, E / heads) with a bias (E,)."""
    _, heads, _, width = x.shape
    return x + L.shuffle(bias, reshape=(1, heads, 1, width))


def _attention_weights(q: Tensor, k: Tensor, mask: Tensor | None, *, keep_hidden: bool) -> Tensor:
    """(N, heads, L, E) and (N, heads, S, E): the softmax over S of their scaled products, masked: (N, heads, L, S)."""
    width = q.shape[-1]
    assert isinstance(width, int)
    weights = softmax(_masked(matmul(scaled(q, 1 / math.sqrt(width)), L.shuffle(k, (0, 1, 3, 2))), mask), -1)
    return weights if keep_hidden or mask is None else opened(weights, open_rows(mask))


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
    return pad(mask, (0, added)) if mask is not None and added else mask
