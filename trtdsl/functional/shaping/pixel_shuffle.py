"""torch's pixel_shuffle and pixel_unshuffle: channels to pixels and back."""

from __future__ import annotations

from ...sizes.size import divide_exactly, product
from ..common import L, ShapeError, Tensor, operation, shape_text


@operation
def pixel_shuffle(input: Tensor, upscale_factor: int) -> Tensor:
    """(…, C * r * r, H, W) to (…, C, H * r, W * r): IShuffleLayer.

    Raises ShapeError where r * r does not divide the channels.
    https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.pixel_shuffle.html

    >>> F.pixel_shuffle(net.input("x", ("N", 12, 4, 5)), 2).shape
    (N, 3, 8, 10)
    """
    r = _factor(input, upscale_factor, "pixel_shuffle")
    *lead, c, h, w = input.shape
    channels = divide_exactly(c, r * r)
    if channels is None:
        raise ShapeError(f"pixel_shuffle: {c} channels are not divisible by {r} * {r}")
    split = L.shuffle(input, reshape=(product(lead) * channels, r, r, h, w), second_transpose=(0, 3, 1, 4, 2))
    return L.shuffle(split, reshape=(*lead, channels, h * r, w * r))


@operation
def pixel_unshuffle(input: Tensor, downscale_factor: int) -> Tensor:
    """(…, C, H * r, W * r) to (…, C * r * r, H, W): IShuffleLayer.

    Raises ShapeError where r does not divide the height and the width.
    https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.pixel_unshuffle.html

    >>> F.pixel_unshuffle(net.input("x", ("N", 3, 8, 10)), 2).shape
    (N, 12, 4, 5)
    """
    r = _factor(input, downscale_factor, "pixel_unshuffle")
    *lead, c, height, width = input.shape
    h, w = divide_exactly(height, r), divide_exactly(width, r)
    if h is None or w is None:
        raise ShapeError(f"pixel_unshuffle: the height {height} and the width {width} are not both divisible by {r}")
    split = L.shuffle(input, reshape=(product(lead) * c, h, r, w, r), second_transpose=(0, 2, 4, 1, 3))
    return L.shuffle(split, reshape=(*lead, c * (r * r), h, w))


def _factor(x: Tensor, factor: int, name: str) -> int:
    if x.ndim < 3:
        raise ShapeError(f"{name} takes (…, C, H, W), not {shape_text(x.shape)}")
    if not isinstance(factor, int) or isinstance(factor, bool) or factor < 1:
        raise ShapeError(f"{name}: the factor must be a positive int, not {factor!r}")
    return factor
