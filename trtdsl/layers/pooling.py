"""POOLING: maxima and averages over windows of the last two or three dimensions."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..lazy import torch
from ..network import operation
from ..shape import Shape, SizeLike
from ..tensor import Tensor
from .base import Evaluate, Node, Shapes, add_layer, count, evaluates, member


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
    kind, mode, blend = layer.type.name, layer.padding_mode.name, layer.blend_factor
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

    def over_windows(x: torch.Tensor, combine: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]) -> torch.Tensor:
        """What ``combine`` makes of each window's elements, one dimension after the other."""
        for place in range(ndim):
            axis = x.ndim - ndim + place
            number = (x.shape[axis] - window[place]) // stride[place] + 1
            total = None
            for offset in range(window[place]):
                part = _every(x, axis, offset, stride[place], number)
                total = part if total is None else combine(total, part)
            assert total is not None
            x = total
        return x

    def maximum(x: torch.Tensor, pads: list[tuple[int, int, int]]) -> torch.Tensor:
        low = float("-inf") if x.dtype.is_floating_point else torch.iinfo(x.dtype).min
        return over_windows(_pad(x, [(a, b + c) for a, b, c in pads], low), torch.maximum)

    def average(x: torch.Tensor, pads: list[tuple[int, int, int]]) -> torch.Tensor:
        ones = torch.ones(x.shape[-ndim:])
        if not exclusive:
            ones = _pad(ones, [(a, b) for a, b, _ in pads], 1.0)
            ones = _pad(ones, [(0, c) for _, _, c in pads], 0.0)
        else:
            ones = _pad(ones, [(a, b + c) for a, b, c in pads], 0.0)
        total = over_windows(_pad(x, [(a, b + c) for a, b, c in pads], 0.0), torch.add)
        return total / over_windows(ones, torch.add)

    def evaluate(x: torch.Tensor) -> torch.Tensor:
        pads = paddings(x.shape[-ndim:])
        if kind == "MAX":
            return maximum(x, pads)
        wide = x.float()
        if kind == "AVERAGE":
            return average(wide, pads).to(dtype)
        return ((1 - blend) * maximum(wide, pads) + blend * average(wide, pads)).to(dtype)

    return evaluate


def _every(x: torch.Tensor, axis: int, start: int, step: int, number: int) -> torch.Tensor:
    """A view of every ``step``-th element along an axis."""
    return x[(slice(None),) * axis + (slice(start, start + (number - 1) * step + 1, step),)]


def _pad(x: torch.Tensor, pads: list[tuple[int, int]], value: float) -> torch.Tensor:
    if not any(side for pair in pads for side in pair):
        return x
    return torch.nn.functional.pad(x, [side for pair in reversed(pads) for side in pair], value=value)
