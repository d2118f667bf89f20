"""POOLING: maxima and averages over windows of the last two or three dimensions."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..lazy import torch
from ..network import operation
from ..shape import Shape, SizeLike
from ..tensor import Tensor
from .base import PADDING_MODES, Evaluate, Node, Shapes, add_layer, count, evaluates, member


@operation
def pooling(
    x: Tensor,
    type: str,
    window: Sequence[int],
    *,
    stride: Sequence[int],
    pre_padding: Sequence[int],
    post_padding: Sequence[int],
    exclude_padding: bool = True,
) -> Tensor:
    """MAX or AVERAGE over windows of the last two or three dimensions of ``x`` (N, C, *spatial): one IPoolingLayer.

    Sizes are rounded down. ``exclude_padding`` leaves the padding out of an average's count.

    >>> x = td.Network().input("x", (2, 3, 8, 8))
    >>> pooling(x, "MAX", (2, 2), stride=(2, 2), pre_padding=(0, 0), post_padding=(0, 0)).shape
    (2, 3, 4, 4)
    """
    lead = x.ndim - len(window)
    spatial: list[SizeLike] = [
        (length + (pre_padding[axis] + post_padding[axis] - window[axis])) // stride[axis] + 1
        for axis, length in enumerate(x.shape[lead:])
    ]
    shape: Shape = (*x.shape[:lead], *spatial)

    def add(site, x):
        layer = site.definition.add_pooling_nd(x, member(site.trt.PoolingType, type, "pooling type"), tuple(window))
        if layer is not None:
            layer.stride_nd = tuple(stride)
            layer.pre_padding, layer.post_padding = tuple(pre_padding), tuple(post_padding)
            layer.average_count_excludes_padding = exclude_padding
        return layer

    return add_layer(add, x, shape=shape)


def _flops(node: Node, shapes: Shapes) -> int:
    return shapes.elements * count(tuple(node.layer.window_size_nd))


@evaluates("POOLING", flops=_flops)
def _pooling(node: Node) -> Evaluate:
    """Computed in float32. Assumed: the elements that rounding a size up adds never count in an average, the padding
    only where it is not excluded; SAME padding is never negative.
    """
    layer, dtype = node.layer, node.dtype
    # The subclass's `type` is the pooling type.
    kind = node.known(layer.type, ("MAX", "AVERAGE", "MAX_AVERAGE_BLEND"), "pooling type")
    mode, blend = node.known(layer.padding_mode, PADDING_MODES, "padding mode"), layer.blend_factor
    window, stride = tuple(layer.window_size_nd), tuple(layer.stride_nd)
    pre_padding, post_padding = tuple(layer.pre_padding), tuple(layer.post_padding)
    exclusive = layer.average_count_excludes_padding
    ndim = len(window)

    def paddings(lengths: Sequence[int]) -> list[tuple[int, int, int]]:
        """Padding before and after, and what rounding up adds after that."""
        result = []
        for axis, length in enumerate(lengths):
            size, step, pre, post, extra = window[axis], stride[axis], pre_padding[axis], post_padding[axis], 0
            if mode == "EXPLICIT_ROUND_UP":
                extra = -(length + pre + post - size) % step
            elif mode.startswith("SAME"):
                total = max((length - 1) // step * step + size - length, 0)
                small = total // 2
                pre, post = (small, total - small) if mode == "SAME_UPPER" else (total - small, small)
            result.append((pre, post, extra))
        return result

    def over_windows(
        x: torch.Tensor, pads: list[tuple[int, int, int]], combine: Callable[..., torch.Tensor], start: float
    ) -> torch.Tensor:
        """What ``combine`` makes of ``start`` and each window's elements, one dimension after the other."""
        for place, pad in enumerate(pads):
            axis = x.ndim - ndim + place
            total = x.new_full((*x.shape[:axis], number(x.shape[axis], place, pad), *x.shape[axis + 1 :]), start)
            for offset in range(window[place]):
                # Window i has its element `offset` at i * stride + offset - pre, which must lie inside.
                shift, step = offset - pad[0], stride[place]
                first = max(-(shift // step), 0)
                last = min((x.shape[axis] - 1 - shift) // step, total.shape[axis] - 1)
                if first <= last:
                    part = total.narrow(axis, first, last - first + 1)
                    begin = first * step + shift
                    places = slice(begin, begin + (last - first) * step + 1, step)
                    combine(part, x[(slice(None),) * axis + (places,)], out=part)
            x = total
        return x

    def number(length: int, place: int, pad: tuple[int, int, int]) -> int:
        return (length + sum(pad) - window[place]) // stride[place] + 1

    def maximum(x: torch.Tensor, pads: list[tuple[int, int, int]]) -> torch.Tensor:
        low = float("-inf") if x.dtype.is_floating_point else torch.iinfo(x.dtype).min
        return over_windows(x, pads, torch.maximum, low)

    def counts(length: int, place: int, pad: tuple[int, int, int]) -> torch.Tensor:
        """The elements of each window that count along one dimension."""
        pre, post, _ = pad
        begin = torch.arange(number(length, place, pad)) * stride[place] - pre
        low, high = (0, length) if exclusive else (-pre, length + post)
        return (begin + window[place]).clamp(max=high) - begin.clamp(min=low)

    def average(x: torch.Tensor, pads: list[tuple[int, int, int]]) -> torch.Tensor:
        total = over_windows(x, pads, torch.add, 0.0)
        for place, pad in enumerate(pads):
            each = counts(x.shape[x.ndim - ndim + place], place, pad)
            total.div_(each.reshape((-1,) + (1,) * (ndim - place - 1)))
        return total

    def evaluate(x: torch.Tensor) -> torch.Tensor:
        pads = paddings(x.shape[-ndim:])
        if kind == "MAX":
            return maximum(x, pads)
        wide = x.float()
        if kind == "AVERAGE":
            return average(wide, pads).to(dtype)
        return torch.lerp(maximum(wide, pads), average(wide, pads), blend).to(dtype)

    return evaluate
