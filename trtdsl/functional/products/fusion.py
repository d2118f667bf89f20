"""Weights that combine two operations, under the names of torch.nn.utils."""

from __future__ import annotations

from collections.abc import Sequence

from ..common import Tensor, UnsupportedError, operation, torch, weight_names_of


@operation
def fuse_conv_bn_weights(
    conv_w: Tensor,
    conv_b: Tensor | None,
    bn_rm: Tensor,
    bn_rv: Tensor,
    bn_eps: float,
    bn_w: Tensor | None,
    bn_b: Tensor | None,
    transpose: bool = False,
) -> tuple[Tensor, Tensor]:
    """Weight and bias of one convolution that does what a convolution and the batch norm after it do. No layer.

    All are constants; the scale and the bias are computed in float64. ``transpose`` is for a transposed convolution,
    whose weight has its output channels in dimension 1.

    >>> weight, one = net.constant(torch.ones(4, 3, 1, 1)), net.constant(torch.ones(4))
    >>> [fused.shape for fused in F.fuse_conv_bn_weights(weight, None, one, one, 1e-5, one, one)]
    [(4, 3, 1, 1), (4,)]
    """
    given = [tensor for tensor in (conv_w, conv_b, bn_rm, bn_rv, bn_w, bn_b) if tensor is not None]
    if not all(tensor.is_constant for tensor in given):
        raise UnsupportedError("fuse_conv_bn_weights takes constants: use F.batch_norm for what is computed")
    scale, bias = affine(bn_rm, bn_rv, bn_eps, bn_w, bn_b)
    if conv_b is not None:
        bias = bias + values_of(conv_b) * scale
    weight = scaled_weight(conv_w.data, scale.float(), 1 if transpose else 0)
    fused, shift = made_of(given, weight.to(conv_w.dtype), bias.to(conv_w.dtype))
    return fused, shift


def scaled_weight(weight: torch.Tensor, scale: torch.Tensor, axis: int) -> torch.Tensor:
    """``weight`` times a scale for each index of dimension ``axis``, in float32."""
    return weight.float() * scale.reshape([-1 if dim == axis else 1 for dim in range(weight.ndim)])


def affine(
    mean: Tensor, var: Tensor, eps: float, weight: Tensor | None, bias: Tensor | None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Scale and shift of the batch norm with these constants, in float64."""
    deviation = (values_of(var) + eps).sqrt()
    scale = (1 if weight is None else values_of(weight)) / deviation
    shift = values_of(mean) * scale
    return scale, -shift if bias is None else values_of(bias) - shift


def values_of(tensor: Tensor) -> torch.Tensor:
    """The values in float64."""
    return tensor.data.double()


def made_of(tensors: Sequence[Tensor], *values: torch.Tensor) -> list[Tensor]:
    """Constants computed from others, whose names they keep."""
    network, weight_names = tensors[0].network, weight_names_of(tensors)
    return [Tensor(network, tuple(value.shape), value.dtype, data=value, weight_names=weight_names) for value in values]
