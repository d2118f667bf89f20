"""Convolutions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ...core.errors import ShapeError, UnsupportedError
from ...layers.convolution import Geometry, check_channels, convolution_of_shape, convolution_shape, deconvolution_shape
from ...layers.pooling import count_windows
from ..common import L, Tensor, channels_last, is_low, is_static, member, product, require_rank, shape_text, torch
from ..operands import along, combined, on_axis, per_axis
from ..products.folding import deferred
from ..shaping.arrange import flip, windows_of
from .extent import batched

TAPS = 16  # the widest kernel of a depthwise conv1d that is multiplied out
Sizes = int | Sequence[int]  # one value, or one per spatial dimension
Sides = tuple[int, ...]  # one value per spatial dimension


@batched
def _convolution(
    ndim: int,
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Sizes = 1,
    padding: Sizes | str = 0,
    dilation: Sizes = 1,
    groups: int = 1,
) -> Tensor:
    x = input
    require_rank(weight, f"conv{ndim}d takes a weight of {ndim + 2} dimensions", ndim + 2)
    _check_static(weight, groups)
    steps, gaps = per_axis(stride, ndim, "stride"), per_axis(dilation, ndim, "dilation")
    how = Geometry(steps, *_paddings(padding, ndim, weight.shape[2:], steps, gaps), gaps, groups)
    if not x.dtype.is_floating_point or not is_static((groups, *weight.shape)):
        return _biased(_by_products(x, weight, how), bias)
    bias, late = (None, bias) if bias is not None and not bias.is_constant else (bias, None)
    depthwise = weight.shape[:2] == (groups, 1) and weight.is_constant and not x.is_constant and late is None
    if ndim == 1 and depthwise and int(weight.shape[2]) <= TAPS and x.dtype == weight.dtype:
        return _by_taps(x, weight, bias, how)
    if ndim == 1:
        x, weight, how = L.unsqueeze(x, [2]), L.unsqueeze(weight, [2]), _on_a_row(how)
    shape = convolution_shape(x, weight, how)
    if groups == 1:
        x, weight, how = _with_even_channels(x, weight, how)

    def add(kernel: Tensor, bias: Tensor | None) -> Tensor:
        return convolution_of_shape(shape, x, kernel, bias, how)

    pointwise = groups == 1 and shape[2:] == x.shape[2:] and set(weight.shape[2:]) == {1} and not any(how.padding)
    facts = {"memory": channels_last(x.ndim), "axis": 0, "channel": 1, "pointwise": pointwise, "geometry": how}
    result = _biased(deferred(add, x, weight, bias, shape, **facts), late)
    return L.squeeze(result, [2]) if ndim == 1 else result


def _on_a_row(how: Geometry) -> Geometry:
    """Windows over a sequence as windows over an image of height 1."""
    return Geometry((1, *how.stride), (0, *how.pre_padding), (0, *how.post_padding), (1, *how.dilation), how.groups)


@member(_convolution, 1)
def conv1d():
    """Correlation of ``input`` (N, C, L) or (C, L) with ``weight`` (O, C / groups, k).

    IConvolutionLayer between two IShuffleLayers, since TensorRT has two spatial dimensions or three. Where each
    channel has a constant kernel of its own, of at most 16 values, an ISliceLayer and an IElementWiseLayer PROD for
    each value, summed in float32.
    """


@member(_convolution, 2)
def conv2d():
    """Correlation of ``input`` (N, C, H, W) or (C, H, W) with ``weight`` (O, C / groups, kH, kW).

    IConvolutionLayer. ``padding`` is a number of zeros per side, ``"valid"`` or (for stride 1) ``"same"``. ``bias``
    is (O,). An odd number of channels in half precision becomes an even one: by IShuffleLayers that make blocks of
    pixels the channels, where the stride divides the image, else by an ISliceLayer (FILL). A window of blocks may
    reach further than the kernel, with weights of 0: an infinite pixel there makes the result NaN.
    """


@member(_convolution, 3)
def conv3d():
    """Correlation of ``input`` (N, C, D, H, W) or (C, D, H, W) with ``weight`` (O, C / groups, kD, kH, kW).

    IConvolutionLayer; arguments as :func:`conv2d`.
    """


def _by_taps(x: Tensor, weight: Tensor, bias: Tensor | None, how: Geometry) -> Tensor:
    """A convolution of each channel by itself, summed in float32: one kernel, which what is around it may join.

    IConvolutionLayer would have its input and its result rearranged.
    """
    check_channels(x.network, x.shape[1], 1, int(weight.shape[0]), weight.shape)
    taps, ((stride,), (pre,), (post,), (dilation,), _) = int(weight.shape[2]), how
    length = count_windows(x.network, x.shape[2], dilation * (taps - 1) + 1, stride, pre + post)
    shape = (*x.shape[:2], length)

    def add(kernel: Tensor, bias: Tensor | None) -> Tensor:
        wide = L.cast(x, torch.float32)
        zero = x.network.constant(torch.tensor(0.0))

        def product(tap: int) -> Tensor:
            start = tap * dilation - pre
            inside = start >= 0 and post <= (taps - 1 - tap) * dilation
            whole = start == 0 and stride == 1 and length == x.shape[2]
            mode, fill = ("STRICT_BOUNDS", None) if inside else ("FILL", zero)
            part = wide if whole else L.slice(wide, (0, 0, start), shape, (1, 1, stride), mode, fill)
            factor = kernel.data[:, 0, tap].float().reshape(1, -1, 1)
            return part * x.network.plain_constant(factor, kernel.weight_names)

        total = _biased(combined(map(product, range(taps))), None if bias is None else L.cast(bias, torch.float32))
        return L.cast(total, x.dtype)

    return deferred(add, x, weight, bias, shape, memory=None, axis=0, channel=1, by_value=True)


def _check_static(weight: Tensor, groups: Any) -> None:
    if not is_static((weight.shape[0] // groups, *weight.shape[1:])):
        raise UnsupportedError(
            f"groups={groups} with a weight of {shape_text(weight.shape)}: a group's weight must be static"
        )


def _by_products(x: Tensor, weight: Tensor, how: Geometry) -> Tensor:
    """IConvolutionLayer takes no integers, and no number of channels that is open, as where each sample has a group.

    ISliceLayer, IGatherLayers of the windows, and IMatrixMultiplyLayer, or where a map has one channel, and of
    integers, IElementWiseLayer PROD and IReduceLayer SUM.
    """
    size = [int(length) for length in weight.shape[2:]]
    x = windows_of(x, size, how)
    counts, groups, batch, maps = x.shape[2 + len(size) :], how.groups, x.shape[0], weight.shape[0]
    taps, places = int(weight.shape[1]) * math.prod(size), product(counts)
    each = maps // groups
    if each > 1 and x.dtype.is_floating_point:
        columns = L.shuffle(x, reshape=(batch, groups, taps, places))
        found = L.matrix_multiply(L.shuffle(weight, reshape=(1, groups, each, taps)), columns)
        return L.shuffle(found, reshape=(batch, maps, *counts))
    columns = L.shuffle(x, reshape=(batch, groups, 1, taps, places))
    kernel = L.shuffle(weight, reshape=(1, groups, each, taps, 1))
    return L.shuffle(L.reduce(columns * kernel, "SUM", [3]), reshape=(batch, maps, *counts))


def _transposed_by_products(x: Tensor, weight: Tensor, how: Geometry, further: Sequence[int]) -> Tensor:
    """IDeconvolutionLayer takes neither integers nor an open number of channels: a convolution of the input, with zeros
    between its elements, and of the kernel from its end."""
    for axis, step in enumerate(how.stride, 2):
        if step > 1:
            before, (length, *after) = x.shape[:axis], x.shape[axis:]
            wide = along(L.unsqueeze(x, [axis + 1]), axis + 1, 0, step, mode="FILL")
            flat = L.shuffle(wide, reshape=(*before, length * step, *after))
            x = along(flat, axis, 0, (length - 1) * step + 1)
    groups, (channels, maps, *sides) = how.groups, weight.shape
    size = [int(length) for length in sides]
    kernel = flip(weight, tuple(range(2, weight.ndim)))
    kernel = L.shuffle(kernel, reshape=(groups, channels // groups, maps, *size))
    kernel = L.shuffle(kernel, (0, 2, 1, *range(3, kernel.ndim)), (groups * maps, channels // groups, *size))
    pre = [extent - 1 - pad for extent, pad in zip(how.extents(size), how.pre_padding, strict=True)]
    post = [side + extra for side, extra in zip(pre, further, strict=True)]
    return _by_products(x, kernel, Geometry((1,) * len(size), pre, post, how.dilation, groups))


def _paddings(
    padding: Any, ndim: int, size: Sequence[Any], stride: Sequence[int], dilation: Sequence[int]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    if padding == "valid":
        return (0,) * ndim, (0,) * ndim
    if padding == "same":
        if any(step != 1 for step in stride):
            raise UnsupportedError("padding='same' is not defined for strided convolutions, in torch either")
        totals = [d * (k - 1) for d, k in zip(dilation, size, strict=True)]
        return tuple(total // 2 for total in totals), tuple(total - total // 2 for total in totals)
    if isinstance(padding, str):
        raise UnsupportedError(f"padding is a number, 'valid' or 'same', not {padding!r}")
    sides = per_axis(padding, ndim, "padding")
    return sides, sides


@batched
def _transposed(
    ndim: int,
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Sizes = 1,
    padding: Sizes = 0,
    output_padding: Sizes = 0,
    groups: int = 1,
    dilation: Sizes = 1,
) -> Tensor:
    x = input
    require_rank(weight, f"conv_transpose{ndim}d takes a weight of {ndim + 2} dimensions", ndim + 2)
    if x.dtype == torch.bfloat16:  # which builders have no kernel for: https://github.com/NVIDIA/TensorRT/issues/4829
        x, weight = (L.cast(each, torch.float32) for each in (x, weight))
        bias = None if bias is None else L.cast(bias, torch.float32)
        wide = _transposed(ndim, x, weight, bias, stride, padding, output_padding, groups, dilation)
        return L.cast(wide, torch.bfloat16)
    _check_static(weight, groups)
    steps, gaps = per_axis(stride, ndim, "stride"), per_axis(dilation, ndim, "dilation")
    pads, further = per_axis(padding, ndim, "padding"), per_axis(output_padding, ndim, "output_padding")
    for extra, step, gap in zip(further, steps, gaps, strict=True):
        if extra >= max(step, gap):
            raise ShapeError(f"output_padding {extra} must be less than the stride or the dilation")
    post = tuple(max(pad - extra, 0) for pad, extra in zip(pads, further, strict=True))
    beyond = tuple(max(extra - pad, 0) for pad, extra in zip(pads, further, strict=True))
    how = Geometry(steps, pads, post, gaps, groups)
    if not x.dtype.is_floating_point or not is_static((groups, *weight.shape)):
        return _biased(_transposed_by_products(x, weight, how, further), bias)
    if ndim == 1:
        x, weight, how, beyond = L.unsqueeze(x, [2]), L.unsqueeze(weight, [2]), _on_a_row(how), (0, *beyond)
    bias, late = (None, bias) if bias is not None and (not bias.is_constant or any(beyond)) else (bias, None)

    def add(kernel: Tensor, bias: Tensor | None) -> Tensor:
        return L.deconvolution(x, kernel, bias, **how._asdict())

    if groups == 1 and late is None and not any(beyond):
        shape = deconvolution_shape(x, weight, how)
        result = deferred(add, x, weight, bias, shape, memory=channels_last(x.ndim), axis=1, channel=1)
    else:
        result = add(weight, bias)
    if any(beyond):  # outputs that no input reaches
        sizes = [size + extra for size, extra in zip(result.shape, (0, 0, *beyond), strict=True)]
        result = L.slice(result, (0,) * result.ndim, sizes, mode="FILL")
    if 0 in result.shape[2:]:
        raise ShapeError(f"the output {shape_text(result.shape)} would be empty, which torch refuses, too")
    result = _biased(result, late)
    return L.squeeze(result, [2]) if ndim == 1 else result


@member(_transposed, 1)
def conv_transpose1d():
    """The transpose of :func:`conv1d`; ``weight`` is (C, O / groups, k).

    IDeconvolutionLayer between two IShuffleLayers; of integers the layers of a convolution of integers, of the
    input with zeros between its elements.
    """


@member(_transposed, 2)
def conv_transpose2d():
    """The transpose of :func:`conv2d`; ``weight`` is (C, O / groups, kH, kW): IDeconvolutionLayer.

    That of bfloat16 is computed in float32 and rounded, between ICastLayers: builders have no kernel for it. An
    ``output_padding`` larger than ``padding`` adds ISliceLayer (FILL) and IElementWiseLayer SUM for the bias.
    """


@member(_transposed, 3)
def conv_transpose3d():
    """The transpose of :func:`conv3d`, as :func:`conv_transpose2d`."""


def _biased(x: Tensor, bias: Tensor | None) -> Tensor:
    return x if bias is None else x + on_axis(bias, 1, x.ndim)


# -- an odd number of channels in half precision -----------------------------------------------------------------------


def _with_even_channels(x: Tensor, weight: Tensor, how: Geometry) -> tuple[Tensor, Tensor, Geometry]:
    """Operands and windows of the same convolution with an even number of channels.

    In half precision, TensorRT has kernels for even numbers alone. It copies an input to have its channels last, and
    adds one of zeros, which it reads from the engine. Where the stride divides an image, blocks of that size become
    the channels: as many values as the image has. Elsewhere the zeros come from an ISliceLayer (FILL). Clips are not
    divided: less memory for the first tensor made SlowFast's engine need more in all. Nor are images of open sizes,
    which the builder then copies once more.
    """
    size = tuple(int(length) for length in weight.shape[2:])
    odd = is_static(x.shape[1:]) and x.shape[1] % 2 == 1
    padded = is_low(x) and odd and not x.is_constant and x.order == tuple(range(x.ndim))
    if not weight.is_constant or not padded or max(size) == 1:
        return x, weight, how
    sides = zip(x.shape[2:], size, how.stride, how.dilation, strict=True)
    steps = tuple(
        step if step <= taps and spread == 1 and length % step == 0 else 1 for length, taps, step, spread in sides
    )
    if len(size) == 2 and any(step % 2 == 0 for step in steps):
        return _in_blocks(x, weight, size, steps, how)
    if is_static(x.shape):
        x = L.slice(x, (0,) * x.ndim, (x.shape[0], x.shape[1] + 1, *x.shape[2:]), mode="FILL")
        kernel = torch.nn.functional.pad(weight.data, (0, 0) * len(size) + (0, 1))
        weight = weight.network.plain_constant(kernel, weight.weight_names)
    return x, weight, how


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
