"""The functions that can be lowered in several ways: one table, and the choice that a call makes from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..core.errors import UnsupportedError, nearest
from ..definition.network import Network
from ..definition.operation import author_frame
from ..definition.tensor import Tensor
from ..definition.tuning.choices import Fallback, Site

AUTO = "auto"


@dataclass(frozen=True)
class Way:
    """One of the ways in which a function becomes layers."""

    text: str
    """What it emits, for the documentation."""
    needs: str | None = None
    """The method of INetworkDefinition without which a version of TensorRT cannot take it."""
    not_tuned: str | None = None
    """Why `--tune` does not try it."""


_SMALLER = "it is for comparison: few bytes and poor arithmetic, which the bytes do not show"
_NOWHERE = "it is better in no context of docs/lowerings.md"
_PRODUCT = Way("IMatrixMultiplyLayer with a row of equal weights", not_tuned=_NOWHERE)
_REDUCED = Way("IReduceLayer")
_POOLED = Way("IPoolingLayer, which wants the channels fastest in memory")
_BY_USE = Way("IPoolingLayer where a convolution or a linear product uses it, otherwise IReduceLayer")
_SLICED = Way("slices that start at each element of a window, put together by IElementWiseLayers")
LOWERINGS: dict[str, dict[str, Way]] = {
    "amax": {"by_use": _BY_USE, "reduce": _REDUCED, "pooling": _POOLED},
    "associative_scan": {
        "parallel": Way("log2(length) passes over the whole of the operands"),
        "loop": Way("ILoop over the elements"),
    },
    "avg_pool": {"pooling": _POOLED, "reduce": _REDUCED, "slices": _SLICED},
    "cat": {
        "layer": Way("IConcatenationLayer"),
        "padded": Way("the sum of the parts, each with zeros in the place of the others", not_tuned=_NOWHERE),
    },
    "batch_norm": {
        "folded": Way("no layer: the weights of the convolution before it take it in"),
        "scale": Way("IScaleLayer"),
    },
    "einsum": {
        "merged": Way("as matmul, with the weights of the pointwise convolution before it as an operand"),
        "matmul": Way("a plan of matrix products in the order in which the operands lie in memory"),
        "row_major": Way("the plan for operands that lie in memory as their dimensions are written"),
        "native": Way("one IEinsumLayer"),
        "broadcast": Way("everything multiplied out, then summed", not_tuned=_SMALLER),
    },
    "embedding": {
        "gather": Way("IGatherLayer"),
        "one_hot": Way("IMatrixMultiplyLayer of ones and zeros with the weight", not_tuned=_NOWHERE),
    },
    "gelu": {
        "layer": Way("IActivationLayer"),
        "erf": Way("IUnaryLayer ERF and IElementWiseLayers", not_tuned=_NOWHERE),
    },
    "glu": {
        "slices": Way("an ISliceLayer for each half"),
        "gather": Way("an IGatherLayer for each half", not_tuned=_NOWHERE),
    },
    "group_norm": {
        "layer": Way("INormalizationLayer"),
        "rows": Way("the moments of each group as a row, in float32"),
    },
    "hardswish": {
        "layer": Way("IActivationLayer HARD_SIGMOID and IElementWiseLayer PROD"),
        "clip": Way("IActivationLayer CLIP and IElementWiseLayers", not_tuned=_NOWHERE),
    },
    "interpolate": {
        "resize": Way("IResizeLayer, or the exact elements and weights where it means something else"),
        "expand": Way("an ISliceLayer that repeats elements, between two IShuffleLayers"),
    },
    "layer_norm": {
        "layer": Way("INormalizationLayer"),
        "means": Way("IReduceLayers and IElementWiseLayers in float32", not_tuned=_NOWHERE),
    },
    "leaky_relu": {
        "layer": Way("IActivationLayer"),
        "maximum": Way("two IElementWiseLayers", not_tuned=_NOWHERE),
    },
    "linear": {
        "product": Way("IMatrixMultiplyLayer, which transposes the weight"),
        "convolution": Way("IConvolutionLayer over (rows, in, 1, 1)", not_tuned=_NOWHERE),
    },
    "grid_sample": {
        "taps": Way("an IGatherLayer for each of a point's neighbours"),
        "resize": Way("one IResizeLayer, or a matrix product per dimension, for a constant grid along the axes"),
        "gather": Way("one IGatherLayer for all neighbours"),
        "native": Way(
            "IGridSampleLayer",
            needs="add_grid_sample",
            not_tuned="some versions of TensorRT compute it wrongly in half precision",
        ),
    },
    "instance_norm": {
        "rows": Way("the moments of each channel as a row, in float32"),
        "blocks": Way("the moments of parts of each row, put together"),
        "layer": Way("INormalizationLayer"),
    },
    "linear_recurrence": {
        "parallel": Way("log2(length) passes over the whole of the operands"),
        "loop": Way("ILoop over the elements"),
    },
    "max_pool": {"pooling": _POOLED, "reduce": _REDUCED, "slices": _SLICED},
    "mean": {"by_use": _BY_USE, "reduce": _REDUCED, "pooling": _POOLED, "product": _PRODUCT},
    "pixel_shuffle": {
        "shuffle": Way("IShuffleLayer"),
        "deconvolution": Way("IDeconvolutionLayer with a kernel of ones and zeros", not_tuned=_NOWHERE),
    },
    "prelu": {
        "fused": Way("relu(x) + weight * min(x, 0), which the builder makes part of a convolution"),
        "layer": Way("IParametricReLULayer"),
    },
    "scaled_dot_product_attention": {
        "layer": Way("one IAttention", needs="add_attention_v2"),
        "products": Way("two IMatrixMultiplyLayers and ISoftMaxLayer"),
    },
    "selective_scan": {
        "pairs": Way("every step from all steps before it, in one kernel"),
        "blocks": Way("the states at the ends of blocks of 4 steps, the others from the steps of their block"),
        "parallel": Way("all states at once, as F.linear_recurrence"),
        "chunked": Way("ILoop over chunks of 64 steps"),
        "loop": Way("ILoop over the steps"),
    },
    "softmax": {
        "layer": Way("ISoftMaxLayer"),
        "exp": Way("IReduceLayers, IUnaryLayer EXP and IElementWiseLayers", not_tuned=_NOWHERE),
    },
    "silu": {
        "sigmoid": Way("x * sigmoid(x), which the builder makes part of a convolution or a group norm"),
        "exp": Way("x / (1 + exp(-x)) in float32, which the builder makes part of a matrix product"),
        "float32": Way("x * sigmoid(x) in float32, rounded once"),
    },
}
"""By function: the first way that can express a call is what the function does unless it, the author or a tuning
says otherwise."""


def lowering_of(
    function: str,
    given: str,
    *operands: Tensor,
    cannot: Mapping[str, str] | None = None,
    default: str | None = None,
) -> str:
    """The way in which a call of ``function`` is lowered.

    ``given`` is what the author asks for; for "auto" the network's tuning decides, otherwise the ``default``, or the
    first way of the table. ``cannot`` has the reasons why ways cannot express this call. A way that needs a layer which
    this version of TensorRT lacks gives place to the first that needs none, and the network notes it.

    Raises UnsupportedError for a way that is not in the table, or that the author asks for where it cannot be.
    """
    ways = LOWERINGS[function]
    if given not in ways and given != AUTO:
        raise UnsupportedError(
            f"{function}: unknown lowering {given!r}; there are {', '.join([AUTO, *ways])}{nearest(str(given), ways)}"
        )
    network = operands[0].network
    if given == AUTO and default is None and function not in network.choices.start and _has_one(ways):
        return next(iter(ways))
    ruled_out = cannot or {}
    possible = [way for way in ways if way not in ruled_out] if ruled_out else list(ways)
    if given in ruled_out:
        raise UnsupportedError(
            f"{function}: lowering {given!r} cannot express this: {ruled_out[given]}; use {possible[0]!r}"
        )
    if default not in possible:
        default = possible[0]
    wanted = default if given == AUTO else given
    frame = author_frame()
    operation = network.current_operation
    key = None
    if operation is not None and frame is not None and any(operand.data is None for operand in operands):
        key = network.choices.key(frame, operation.name, function)
        asked = network.choices.wanted(key) if given == AUTO else None
        wanted = asked if asked in possible else wanted
    layers = network.trt.INetworkDefinition
    lacks = {way: needs for way in possible if (needs := ways[way].needs) and not hasattr(layers, needs)}
    used = next(way for way in (wanted, default, *possible) if way not in lacks) if lacks else wanted
    place = None if operation is None else operation.location
    if used != wanted:
        network.choices.fallbacks.append(Fallback(function, wanted, used, _missing(network, lacks[wanted]), place))
    if key is not None:
        tried = [way for way in dict.fromkeys((default, *possible)) if ways[way].not_tuned is None and way not in lacks]
        shapes = tuple([(operand.shape, operand.dtype) for operand in operands])
        network.choices.sites.append(Site(key, place, shapes, tuple(tried), used, given != AUTO))
    return used


def _has_one(ways: Mapping[str, Way]) -> bool:
    """Whether all ways but the first are for comparison alone."""
    first, *others = ways.values()
    return first.needs is None and None not in [way.not_tuned for way in others]


def _missing(network: Network, method: str) -> str:
    """That a version of TensorRT lacks a layer."""
    backend = network.backend
    layer = method.removeprefix("add_").removesuffix("_v2")
    return f"{backend.name} {backend.version} has no {layer} layer"
