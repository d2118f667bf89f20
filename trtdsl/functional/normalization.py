"""Normalizations."""

from __future__ import annotations

from .. import layers as L
from ..errors import ShapeError, UnsupportedError
from ..lazy import torch
from ..network import operation
from ..shape import shape_text
from ..tensor import Tensor
from .operands import promote


@operation
def batch_norm(
    input: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """``(input - mean) / sqrt(var + eps) * weight + bias`` per channel of dimension 1, for any rank from 2 on.

    One IScaleLayer, its constants computed in float64; between two IShuffleLayers below rank 4. Statistics that are not
    constants take two IElementWiseLayers. ``training=True`` is refused; ``momentum`` matters only there.

    >>> net = td.Network()
    >>> one = net.constant(torch.ones(3))
    >>> F.batch_norm(net.input("x", ("N", 3)), one, one, one, one).shape
    (N, 3)
    """
    if training:
        raise UnsupportedError("batch_norm(training=True) uses the batch's statistics: an engine is for inference")
    if running_mean is None or running_var is None:
        raise UnsupportedError(
            "batch_norm without running statistics uses the batch's: use F.instance_norm or F.layer_norm"
        )
    if input.ndim < 2:
        raise ShapeError(f"batch_norm takes (N, C, …), not {shape_text(input.shape)}")
    given = [tensor for tensor in (running_mean, running_var, weight, bias) if tensor is not None]
    for tensor in given:
        if tensor.shape != (input.shape[1],):
            raise ShapeError(
                f"batch_norm: {shape_text(tensor.shape)} is not one value for each of {input.shape[1]} channels"
            )
    if not all(tensor.is_constant for tensor in given):
        return _computed(input, running_mean, running_var, weight, bias, eps)
    mean, var = running_mean.data.double(), running_var.data.double()
    scale = torch.rsqrt(var + eps)
    if weight is not None:
        scale = scale * weight.data.double()
    shift = -mean * scale
    if bias is not None:
        shift = shift + bias.data.double()
    constants = [
        Tensor(input.network, tuple(value.shape), input.dtype, data=value.to(input.dtype), sources=_sources(given))
        for value in (shift, scale)
    ]
    x = L.shuffle(input, reshape=(*input.shape, *(1,) * (4 - input.ndim))) if input.ndim < 4 else input
    result = L.scale(x, constants[0], constants[1], axis=1)
    return L.shuffle(result, reshape=input.shape) if input.ndim < 4 else result


def _sources(tensors: list[Tensor]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(source for tensor in tensors for source in tensor.sources))


def _computed(x: Tensor, mean: Tensor, var: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float) -> Tensor:
    scale = L.unary(L.unary(L.elementwise(*promote(var, eps, dtype=var.dtype), "SUM"), "SQRT"), "RECIP")
    if weight is not None:
        scale = L.elementwise(scale, weight, "PROD")
    shift = L.unary(L.elementwise(mean, scale, "PROD"), "NEG")
    if bias is not None:
        shift = L.elementwise(shift, bias, "SUM")
    channels = (1, x.shape[1], *(1,) * (x.ndim - 2))
    scaled = L.elementwise(*promote(x, L.shuffle(scale, reshape=channels), dtype=x.dtype), "PROD")
    return L.elementwise(*promote(scaled, L.shuffle(shift, reshape=channels), dtype=x.dtype), "SUM")
