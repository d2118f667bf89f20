"""Windows that move along a dimension, as convolutions have them; POOLING: maxima and averages over windows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from .base import PADDING_MODES, add_layer, adds, member
from .common import Network, Shape, ShapeError, SizeLike, Tensor, UnsupportedError, channels_last, operation, torch
from .evaluation import Evaluate, Mistakes, Node, count, evaluates


def count_windows(network: Network, length: SizeLike, extent: SizeLike, stride: SizeLike, padding: int = 0) -> SizeLike:
    """How many windows of ``extent`` elements there are, one every ``stride``, in ``length`` with ``padding`` in all.

    Raises ShapeError for a stride or a window below 1, and where no window fits: a constraint of the ``network`` for
    dynamic sizes.
    """
    check_positive(extent, "a window")
    check_positive(stride, "stride")
    number = (length + (padding - extent)) // stride + 1
    if type(number) is not int or number < 1:
        require_windows(network, number, length, extent, padding)
    return number


def check_positive(value: SizeLike, name: str) -> None:
    """Raises ShapeError for a stride, a window or a dilation below 1."""
    if isinstance(value, int) and value < 1:
        raise ShapeError(f"{name} must be at least 1, not {value}")


def require_windows(network: Network, number: SizeLike, length: SizeLike, extent: SizeLike, padding: int) -> None:
    """Raises ShapeError unless there is a window; a constraint where the ``number`` of them is dynamic."""
    if not isinstance(number, int):
        network.constraints.positive(number, network.current_operation)
    elif number < 1:
        around = f" and {padding} of padding" * bool(padding)
        raise ShapeError(f"a window of {extent} does not fit a dimension of {length}{around}")


def paddings(
    layer: Any, lengths: Sequence[int], extents: Sequence[int], *, transposed: bool = False
) -> list[tuple[int, int, int]]:
    """Padding before and after each dimension of a layer with windows, and what rounding its size up adds.

    PaddingMode SAME computes it from the sizes.
    """
    mode, found = layer.padding_mode.name, []
    given = zip(layer.pre_padding, layer.post_padding, lengths, extents, layer.stride_nd, strict=True)
    for pre, post, length, extent, stride in given:
        extra = 0
        if mode.startswith("SAME"):
            total = max(extent - stride if transposed else (length - 1) // stride * stride + extent - length, 0)
            small = total // 2
            pre, post = (small, total - small) if mode == "SAME_UPPER" else (total - small, small)
        elif mode == "EXPLICIT_ROUND_UP":
            extra = -(length + pre + post - extent) % stride
        found.append((pre, post, extra))
    return found


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


class Windows(NamedTuple):
    """The windows along one dimension."""

    size: int
    stride: int
    before: int
    after: int
    extra: int = 0
    """What rounding the size up adds after the padding."""

    def over(self, x: torch.Tensor, axis: int, padding: float) -> torch.Tensor:
        """The elements of each along ``axis``, as a new last dimension."""
        sides = [0, 0] * (x.ndim - 1 - axis) + [self.before, self.after + self.extra]
        wide = torch.nn.functional.pad(x, sides, value=padding)
        if wide.shape[axis] < self.size:
            return x.new_zeros((*x.shape[:axis], 0, *x.shape[axis + 1 :], self.size))
        return wide.unfold(axis, self.size, self.stride)

    def counts(self, length: int, *, exclusive: bool) -> torch.Tensor:
        """How many elements of each count, those of the padding only where it is not excluded."""
        counted = torch.nn.functional.pad(torch.ones(length), (self.before, self.after), value=float(not exclusive))
        return self._replace(before=0, after=0).over(counted, 0, 0.0).sum(-1)


def _maximum(x: torch.Tensor, windows: Sequence[Windows]) -> torch.Tensor:
    low = float("-inf") if x.dtype.is_floating_point else torch.iinfo(x.dtype).min
    for axis, along in enumerate(windows, x.ndim - len(windows)):
        x = along.over(x, axis, low).amax(-1)
    return x


def _average(x: torch.Tensor, windows: Sequence[Windows], *, exclusive: bool) -> torch.Tensor:
    lengths = x.shape[-len(windows) :]
    for axis, along in enumerate(windows, x.ndim - len(windows)):
        x = along.over(x, axis, 0.0).sum(-1)
    for place, (along, length) in enumerate(zip(windows, lengths, strict=True)):
        counts = along.counts(length, exclusive=exclusive).clamp(min=0 if exclusive else 1)
        x = x / counts.reshape((-1,) + (1,) * (len(windows) - place - 1))
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
        sides = zip(sizes, layer.stride_nd, paddings(layer, lengths, sizes), strict=True)
        windows = [Windows(size, step, *padding) for size, step, padding in sides]
        if kind == "MAX":
            return _maximum(x, windows)
        wide = x.float()
        average = _average(wide, windows, exclusive=exclusive)
        if kind == "MAX_AVERAGE_BLEND":  # not torch.lerp, whose difference of infinities is NaN
            average = (1 - blend) * _maximum(wide, windows) + blend * average
        return average.to(dtype)

    return evaluate
