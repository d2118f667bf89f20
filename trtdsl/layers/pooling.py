"""POOLING: maxima and averages over windows of the last two or three dimensions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..sizes.shape import channels_last
from .base import PADDING_MODES, add_layer, adds, member
from .common import Shape, SizeLike, Tensor, UnsupportedError, operation, torch
from .evaluation import Evaluate, Mistakes, Node, count, evaluates
from .windows import check_positive, paddings

INTEGER_BLEND = "TensorRT-RTX 1.7 rounds both shares of a MAX_AVERAGE_BLEND of int8: dequantize what is pooled"


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
    """MAX or AVERAGE over windows of the last two or three dimensions of ``x`` (N, C, spatial…): one IPoolingLayer.

    Sizes are rounded down. ``exclude_padding`` leaves the padding out of an average's count. Raises UnsupportedError
    for a MAX_AVERAGE_BLEND of int8.

    >>> x = net.input("x", (2, 3, 8, 8))
    >>> pooling(x, "MAX", (2, 2), stride=(2, 2), pre_padding=(0, 0), post_padding=(0, 0)).shape
    (2, 3, 4, 4)
    """
    if type == "MAX_AVERAGE_BLEND" and x.dtype == torch.int8:
        raise UnsupportedError(INTEGER_BLEND)
    lead = x.ndim - len(window)
    check_positive(min(stride), "stride")
    spatial: list[SizeLike] = [
        (length + (pre_padding[axis] + post_padding[axis] - window[axis])) // stride[axis] + 1
        for axis, length in enumerate(x.shape[lead:])
    ]
    shape: Shape = (*x.shape[:lead], *spatial)
    add = adds(
        "add_pooling_nd",
        member(x.network.trt.PoolingType, type, "pooling type"),
        tuple(window),
        stride_nd=tuple(stride),
        pre_padding=tuple(pre_padding),
        post_padding=tuple(post_padding),
        average_count_excludes_padding=exclude_padding,
    )
    return add_layer(add, x, shape=shape, order=channels_last(x.ndim))


@dataclass(frozen=True)
class Windows:
    """The windows along one dimension of ``length`` elements."""

    length: int
    window: int
    stride: int
    before: int
    after: int
    extra: int
    """What rounding the size up adds after the padding."""

    @property
    def number(self) -> int:
        """How many there are."""
        return (self.length + self.before + self.after + self.extra - self.window) // self.stride + 1

    def combined(self, x: torch.Tensor, axis: int, combine: Callable[..., torch.Tensor], start: float) -> torch.Tensor:
        """What ``combine`` makes of ``start`` and each window's elements along ``axis``."""
        total = x.new_full((*x.shape[:axis], self.number, *x.shape[axis + 1 :]), start)
        for offset in range(self.window):
            # Window i has its element `offset` at i * stride + offset - before, which must lie inside.
            shift, step = offset - self.before, self.stride
            first = max(-(shift // step), 0)
            last = min((self.length - 1 - shift) // step, self.number - 1)
            if first <= last:
                part = total.narrow(axis, first, last - first + 1)
                begin = first * step + shift
                places = slice(begin, begin + (last - first) * step + 1, step)
                combine(part, x[(slice(None),) * axis + (places,)], out=part)
        return total

    def counts(self, *, exclusive: bool) -> torch.Tensor:
        """How many elements of each window count, those of the padding only where it is not excluded."""
        begin = torch.arange(self.number) * self.stride - self.before
        low, high = (0, self.length) if exclusive else (-self.before, self.length + self.after)
        return (begin + self.window).clamp(max=high) - begin.clamp(min=low)


def _maximum(x: torch.Tensor, windows: Sequence[Windows]) -> torch.Tensor:
    low = float("-inf") if x.dtype.is_floating_point else torch.iinfo(x.dtype).min
    for axis, along in enumerate(windows, x.ndim - len(windows)):
        x = along.combined(x, axis, torch.maximum, low)
    return x


def _average(x: torch.Tensor, windows: Sequence[Windows], *, exclusive: bool) -> torch.Tensor:
    for axis, along in enumerate(windows, x.ndim - len(windows)):
        x = along.combined(x, axis, torch.add, 0.0)
    for place, along in enumerate(windows):
        counts = along.counts(exclusive=exclusive).clamp(min=0 if exclusive else 1)
        x.div_(counts.reshape((-1,) + (1,) * (len(windows) - place - 1)))
    return x


MISTAKES = Mistakes(
    windows=True,
    members={"type": {"MAX": "AVERAGE", "AVERAGE": "MAX", "MAX_AVERAGE_BLEND": "AVERAGE"}},
    numbers={"blend_factor": lambda x: 1 - x},
    uses=lambda layer, attribute: attribute != "blend_factor" or layer.type.name == "MAX_AVERAGE_BLEND",
)


@evaluates(
    "POOLING",
    category="reduction",
    flops=lambda node, shapes: shapes.elements * count(tuple(node.layer.window_size_nd)),
    mistakes=MISTAKES,
)
def _pooling(node: Node) -> Evaluate:
    """Computed in float32. Assumed: the elements that rounding a size up adds never count in an average (of them
    alone it is 0), the padding only where it is not excluded; SAME padding is never negative.
    """
    layer, dtype = node.layer, node.dtype
    # The subclass's `type` is the pooling type.
    kind = node.known(layer.type, ("MAX", "AVERAGE", "MAX_AVERAGE_BLEND"), "pooling type")
    if kind == "MAX_AVERAGE_BLEND" and dtype == torch.int8:
        raise UnsupportedError(f"layer {node.name!r} (POOLING): {INTEGER_BLEND}")
    node.known(layer.padding_mode, PADDING_MODES, "padding mode")
    blend, exclusive, sizes = layer.blend_factor, layer.average_count_excludes_padding, tuple(layer.window_size_nd)

    def evaluate(x: torch.Tensor) -> torch.Tensor:
        lengths = x.shape[-len(sizes) :]
        sides = zip(lengths, sizes, layer.stride_nd, paddings(layer, lengths, sizes), strict=True)
        windows = [Windows(length, size, step, *padding) for length, size, step, padding in sides]
        if kind == "MAX":
            return _maximum(x, windows)
        wide = x.float()
        average = _average(wide, windows, exclusive=exclusive)
        if kind == "MAX_AVERAGE_BLEND":  # not torch.lerp, whose difference of infinities is NaN
            average = (1 - blend) * _maximum(wide, windows) + blend * average
        return average.to(dtype)

    return evaluate
