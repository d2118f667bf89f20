"""Windows that move along a dimension: what convolution, pooling and unfolding refuse alike, as torch does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..core.errors import ShapeError
from ..definition.tensor import Draft as Network
from ..sizes.size import SizeLike


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
