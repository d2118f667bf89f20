"""NORMALIZATION, LRN and SCALE."""

from __future__ import annotations

from collections.abc import Sequence

from ..core.errors import DefinitionError, ShapeError
from .base import HEIGHT, add_layer, adds, axes_mask, axes_of, lifted, normalize_axis
from .common import Evaluate, Given, Mistakes, Node, Tensor, computes, evaluates, operation, torch
from .constant import read_weights
from .pointwise import cast, elementwise, unary
from .reduce import is_few, reduce


@operation
def normalization(
    x: Tensor,
    scale: Tensor,
    bias: Tensor,
    axes: Sequence[int],
    epsilon: float = 1e-5,
    groups: int = 1,
    version: int = 2,
) -> Tensor:
    """``(x - mean) / sqrt(variance + epsilon) * scale + bias`` over ``axes``: one INormalizationLayer.

    Over one axis of two to six elements it is written out in float32 by elementwise layers and two IReduceLayers, since
    TensorRT-RTX takes these elements wrongly together with a later reduction.

    ``scale`` and ``bias`` have the rank of ``x`` and are broadcast to it. ``groups`` splits dimension 1; ``axes`` are
    then all dimensions after it, and ``scale`` and ``bias`` (1, C, 1, …), or (1, groups, 1, …) in version 1, the only
    one that TensorRT has before 10.15.
    """
    axes = [normalize_axis(axis, x.ndim) for axis in axes]
    # Of a sequence in half precision, between casts, the builder has a kernel that takes in both.
    if x.network.precision is None and (image := lifted([x, scale, bias])) is not None:
        (x, scale, bias), back = image
        axes = sorted({HEIGHT, *(axis + (axis >= HEIGHT) for axis in axes)})
        return back(normalization(x, scale, bias, axes, epsilon, groups, version))
    if groups == 1 and is_few(x, axes) and x.data is None:
        return _written_out(x, scale, bias, axes, epsilon)
    mask = axes_mask(axes)
    if version not in (1, 2):
        raise DefinitionError(f"INormalizationLayer has versions 1 and 2, not {version}")
    method, parts = "add_normalization" if version == 1 else "add_normalization_v2", None if groups == 1 else groups
    add = adds(method, mask, numbers={"epsilon": epsilon}, num_groups=parts)
    return add_layer(add, x, scale, bias, shape=x.shape)


def _written_out(x: Tensor, scale: Tensor, bias: Tensor, axes: Sequence[int], epsilon: float) -> Tensor:
    wide, factor, shift = (cast(each, "float32") for each in (x, scale, bias))
    centred = elementwise(wide, reduce(wide, "AVG", axes, True), "SUB")
    variance = reduce(elementwise(centred, centred, "PROD"), "AVG", axes, True)
    least = x.network.constant(torch.full((1,) * x.ndim, epsilon))
    normal = elementwise(centred, unary(elementwise(variance, least, "SUM"), "SQRT"), "DIV")
    return cast(elementwise(elementwise(normal, factor, "PROD"), shift, "SUM"), x.dtype)


MISTAKES = Mistakes(axes=True, left_out=True, numbers={"epsilon": lambda x: x * 100 + 1e-2 * (x == 0)})


# 8 FLOPs: mean, difference, square, variance, root, division, scale, bias
@computes("NORMALIZATION", category="normalization", wide=True, flops=8, mistakes=MISTAKES)
def _normalization(node: Node, x: torch.Tensor, scale: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """Assumed: float16 and bfloat16 are computed in float32 and rounded once, at the end."""
    shape, groups, version_2 = x.shape, node.layer.num_groups, getattr(node.layer, "is_v2", False)
    if not x.numel():  # var_mean warns of means of nothing
        return x
    axes = axes_of(node.layer.axes, x.ndim)
    if groups != 1:
        x = x.reshape(shape[0], groups, shape[1] // groups, *shape[2:])
        axes = list(range(2, x.ndim))
        if not version_2:
            scale, bias = scale.unsqueeze(2), bias.unsqueeze(2)
    # var_mean sums in float64: a long sum of like numbers in float32 has an error of its own, which no GPU has.
    variance, mean = torch.var_mean(x, axes, correction=0, keepdim=True)
    normal = (x - mean).div_(variance.add_(node.number("epsilon")).sqrt_())
    if groups != 1 and version_2:
        normal = normal.reshape(shape)
    return normal.mul_(scale).add_(bias).reshape(shape)


FLAT = "reshape the dimensions after the channels to two, (N, C, D * H, W)"


@operation
def lrn(x: Tensor, window: int, alpha: float, beta: float, k: float) -> Tensor:
    """``x / (k + alpha / window * sum(x**2)) ** beta``, summed over a window of dimension 1: one ILRNLayer.

    ``window`` is odd, 1 to 15. ``x`` is (N, C, H, W). Raises ShapeError for another rank.
    """
    if x.ndim != 4:
        raise ShapeError(f"lrn takes 4 dimensions, not {x.ndim}: {FLAT}")
    add = adds("add_lrn", window, alpha, beta, k, numbers={"alpha": alpha, "beta": beta, "k": k})
    return add_layer(add, x, shape=x.shape)


@evaluates(
    "LRN",
    category="normalization",
    wide=True,
    flops=lambda node, shapes: shapes.elements * (node.layer.window_size + 4),
    mistakes=Mistakes(left_out=True, numbers=dict.fromkeys(("alpha", "beta", "k"), lambda x: x * 1.25)),
)
def _lrn(node: Node) -> Evaluate:
    """Assumed: alpha is divided by the window, as in ONNX (whose parser hands alpha over unchanged) and Caffe."""
    layer = node.layer
    if len(node.inputs[0].shape) != 4:  # an engine normalizes the third dimension from the end
        raise node.unsupported(f"rank {len(node.inputs[0].shape)}, where the channels are not known ({FLAT}),")
    window, (alpha, beta, k) = layer.window_size, map(node.number, ("alpha", "beta", "k"))

    def evaluate(x: torch.Tensor) -> torch.Tensor:
        squares = x * x
        edge = squares.new_zeros((x.shape[0], window // 2, *x.shape[2:]))
        padded = torch.cat((edge, squares, edge), 1)
        total = sum(padded.narrow(1, shift, x.shape[1]) for shift in range(window))
        return x / torch.pow(k + alpha / window * total, beta)

    return evaluate


@operation
def scale(x: Tensor, shift: Tensor | None, scale: Tensor | None, power: Tensor | None = None, axis: int = 1) -> Tensor:
    """``(x * scale + shift) ** power`` per channel of ``axis``: one IScaleLayer. ``x`` has 4 dimensions or more.

    ``scale``, ``shift`` and ``power`` are constants of one element per channel and of the dtype of ``x``; None is 1,
    0, 1.
    """
    axis = normalize_axis(axis, x.ndim)
    constants, dtype = (shift, scale, power), x.dtype
    for constant in constants:
        if constant is not None and constant.shape != (x.shape[axis],):
            raise ShapeError(f"scale needs one value for each of the {x.shape[axis]} channels, not {constant.shape}")

    def add(target, x):
        shift, scale, power = (target.weights(constant, dtype) for constant in constants)
        return target.definition.add_scale_nd(x, target.trt.ScaleMode.CHANNEL, shift, scale, power, axis)

    return add_layer(add, x, weights=constants, shape=x.shape, order="kept")


WEIGHTS = {"shift": "SHIFT", "scale": "SCALE", "power": ""}


@evaluates("SCALE", category="normalization", wide=True, flops=2, weights=WEIGHTS)
def _scale(node: Node) -> Evaluate:
    """Computed in float32 and rounded once. Powers as those of C."""
    layer, ndim, dtype = node.layer, len(node.inputs[0].shape), node.dtype
    mode, axis = node.known(layer.mode, ("UNIFORM", "CHANNEL", "ELEMENTWISE"), "mode"), layer.channel_axis

    def parameter(weights) -> Given:
        size = weights.size
        if size == 0:
            return None
        if mode == "ELEMENTWISE":  # one value for each coordinate of the channel axis and those after it
            shape = tuple(node.inputs[0].shape)[axis:]
        elif mode == "CHANNEL":
            shape = (size,) + (1,) * (ndim - axis - 1)
        else:
            shape = ()
        return read_weights(node.backend, weights, shape, dtype).to(torch.float32)

    shift, scale, power = parameter(layer.shift), parameter(layer.scale), parameter(layer.power)

    def evaluate(x: torch.Tensor) -> torch.Tensor:
        if scale is not None and shift is not None:
            x = torch.addcmul(shift, x, scale)
        elif scale is not None:
            x = x * scale
        elif shift is not None:
            x = x + shift
        return x if power is None else torch.pow(x, power)

    return evaluate
