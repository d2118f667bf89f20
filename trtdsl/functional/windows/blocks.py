"""An odd number of channels in half precision: blocks of pixels as channels, or one channel of zeros more."""

from __future__ import annotations

import math

from ...layers.convolution import Geometry
from ..common import L, Tensor, is_static, torch

Sides = tuple[int, ...]  # one value per spatial dimension


def with_even_channels(x: Tensor, weight: Tensor, how: Geometry) -> tuple[Tensor, Tensor, Geometry]:
    """Operands and windows of the same convolution with an even number of channels.

    In half precision, TensorRT has kernels for even numbers alone. It copies an input to have its channels last, and
    adds one of zeros, which it reads from the engine. Where the stride divides an image, blocks of that size become
    the channels: as many values as the image has. Elsewhere the zeros come from an ISliceLayer (FILL). Clips are not
    divided: less memory for the first tensor made SlowFast's engine need more in all. Nor are images of open sizes,
    which the builder then copies once more.
    """
    size = tuple(int(length) for length in weight.shape[2:])
    if not weight.is_constant or not _padded(x) or max(size) == 1:
        return x, weight, how
    sides = zip(x.shape[2:], size, how.stride, how.dilation, strict=True)
    steps = tuple(
        step if step <= taps and spread == 1 and length % step == 0 else 1 for length, taps, step, spread in sides
    )
    if len(size) == 2 and any(step % 2 == 0 for step in steps):
        return _in_blocks(x, weight, size, steps, how)
    if is_static(x.shape):
        x = L.slice(x, (0,) * x.ndim, (x.shape[0], x.shape[1] + 1, *x.shape[2:]), mode="FILL")
        padded = torch.nn.functional.pad(weight.data, (0, 0) * len(size) + (0, 1))
        weight = weight.network.plain_constant(padded, weight.weight_names)
    return x, weight, how


def _padded(x: Tensor) -> bool:
    """Whether the builder gives ``x`` a channel of zeros while it copies it."""
    half = x.dtype in (torch.float16, torch.bfloat16)
    odd = is_static(x.shape[1:]) and x.shape[1] % 2 == 1
    return half and odd and not x.is_constant and x.order == tuple(range(x.ndim))


def _in_blocks(x: Tensor, weight: Tensor, size: Sides, steps: Sides, how: Geometry) -> tuple[Tensor, Tensor, Geometry]:
    """Blocks of ``steps`` elements as channels: two IShuffleLayers.

    A window need not begin where a block does: the kernel has zeros before its first element and behind its last. An
    infinite element so makes NaN of what reads its block, where torch keeps it to the windows that have it.
    """
    first, behind, taps, margins = [], [], [], []
    for length, step, before, after in zip(size, steps, how.pre_padding, how.post_padding, strict=True):
        begin, end = -(-before // step), (length - 1 - before) // step  # blocks before the input, and its last one
        first.append(begin)
        taps.append(begin + end + 1)
        margins.append((begin * step - before, (end + 1) * step + before - length))
        behind.append((before + after - length) // step + 1 + end)  # for as many windows as before
    kernel = torch.nn.functional.pad(weight.data, [side for margin in reversed(margins) for side in margin])
    lengths = [length // step for length, step in zip(x.shape[2:], steps, strict=True)]
    channels, ndim = weight.data.shape[1] * math.prod(steps), len(steps)
    order = (0, 1, *range(3, 2 + 2 * ndim, 2), *range(2, 2 + 2 * ndim, 2))
    pairs = [each for pair in zip(lengths, steps, strict=True) for each in pair]
    split = L.shuffle(x, None, (*x.shape[:2], *pairs), order)
    apart = [each for pair in zip(taps, steps, strict=True) for each in pair]
    kernel = kernel.reshape(*kernel.shape[:2], *apart).permute(order)
    stride = tuple(1 if step > 1 else given for step, given in zip(steps, how.stride, strict=True))
    return (
        L.shuffle(split, reshape=(x.shape[0], channels, *lengths)),
        weight.network.plain_constant(kernel.reshape(len(kernel), channels, *taps), weight.weight_names),
        how._replace(stride=stride, pre_padding=tuple(first), post_padding=tuple(behind)),
    )
