"""SCALE: ``(x * scale + shift) ** power`` with constants per tensor, channel or element."""

from __future__ import annotations

from .common import Evaluate, Given, Node, ShapeError, Tensor, add_layer, evaluates, normalize_axis, operation, torch
from .constant import read_weights


@operation
def scale(x: Tensor, shift: Tensor | None, scale: Tensor | None, power: Tensor | None = None, axis: int = 1) -> Tensor:
    """``(x * scale + shift) ** power`` per channel of ``axis``: one IScaleLayer. ``x`` has 4 dimensions or more.

    ``scale``, ``shift`` and ``power`` are constants of one element per channel and of the dtype of ``x``; None is 1,
    0, 1.

    >>> one = net.constant([1.0, 2.0, 3.0])
    >>> scale(net.input("x", (2, 3, 4, 4)), one, one).shape
    (2, 3, 4, 4)
    """
    axis = normalize_axis(axis, x.ndim)
    for constant in (shift, scale, power):
        if constant is not None and constant.shape != (x.shape[axis],):
            raise ShapeError(f"scale needs one value for each of the {x.shape[axis]} channels, not {constant.shape}")
    constants = (shift, scale, power)

    dtype = x.dtype

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
