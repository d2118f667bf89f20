"""Weights that say two operations at once, under the names of torch.nn.utils."""

from __future__ import annotations

from ..errors import UnsupportedError
from ..lazy import torch
from ..network import operation
from ..tensor import Tensor


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
    https://docs.pytorch.org/docs/stable/generated/torch.nn.utils.fuse_conv_bn_weights.html

    >>> net = td.Network()
    >>> weight, one = net.constant(torch.ones(4, 3, 1, 1)), net.constant(torch.ones(4))
    >>> [fused.shape for fused in F.fuse_conv_bn_weights(weight, None, one, one, 1e-5, one, one)]
    [(4, 3, 1, 1), (4,)]
    """
    given = [tensor for tensor in (conv_w, conv_b, bn_rm, bn_rv, bn_w, bn_b) if tensor is not None]
    if not all(tensor.is_constant for tensor in given):
        raise UnsupportedError("fuse_conv_bn_weights takes constants: use F.batch_norm for what is computed")
    scale = torch.rsqrt(bn_rv.data.double() + bn_eps)
    if bn_w is not None:
        scale = scale * bn_w.data.double()
    bias = -bn_rm.data.double() if conv_b is None else conv_b.data.double() - bn_rm.data.double()
    bias = bias * scale
    if bn_b is not None:
        bias = bias + bn_b.data.double()
    channels = [1] * conv_w.ndim
    channels[1 if transpose else 0] = -1
    weight = conv_w.data * scale.reshape(channels).to(conv_w.dtype)
    sources = tuple(dict.fromkeys(source for tensor in given for source in tensor.sources))
    fused_weight, fused_bias = (
        Tensor(conv_w.network, tuple(value.shape), conv_w.dtype, data=value.to(conv_w.dtype), sources=sources)
        for value in (weight, bias)
    )
    return fused_weight, fused_bias
