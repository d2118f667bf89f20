"""Elementwise work on what :func:`functional.conv1d` gives, before its dimension of one is taken out.

A convolution over a sequence is one over an image of height 1, between two reshapes. Work of one dimension less between
two of them makes the builder rearrange both sides, since a convolution writes and reads channels last; on the image it
is part of the convolution, and the reshapes cancel.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..core.lazy import torch
from ..definition.tensor import Tensor
from ..sizes.shape import Shape
from .shuffle_steps import ShuffleSteps

HEIGHT, LAST = 2, (0, 2, 3, 1)


def lifted(operands: Sequence[Tensor | None]) -> tuple[list[Any], Callable[[Tensor], Tensor]] | None:
    """The operands of three dimensions as images of height 1, and what makes a sequence of the result again.

    None where no operand is an image that lies channels last and becomes a sequence; where another one is itself a
    shuffle that is no layer yet; and where autocast adds one in float32 that is no image: it would be cast there.
    """
    lead = next((x for x in operands if x is not None and _image_of(x) is not None), None)
    if lead is None:
        return None
    network, call = lead.network, lead.network.current_operation
    kind: Any = type(lead.node)
    images: list[Any] = []
    for x in operands:
        image = None if x is None else _image_of(x)
        if x is None or image is not None:
            images.append(image)
            continue
        mixed = network.precision is not None and x.dtype == torch.float32 and x.data is None
        if x.ndim != 3 or mixed or (isinstance(x.node, kind) and not x.node.is_layer):
            return None
        shape = image_shape(x.shape)
        if x.data is not None:
            data = x.data.unsqueeze(HEIGHT)
            images.append(Tensor(network, shape, x.dtype, data=data, weight_names=x.weight_names))
        else:
            steps = ShuffleSteps((0, 1, 2), shape, (0, 1, 2, 3))
            images.append(kind(call, [x], x, steps).tensor(shape, x.dtype, lead.name, x.scope))

    def lowered(result: Tensor) -> Tensor:
        shape = (*result.shape[:HEIGHT], *result.shape[HEIGHT + 1 :])
        steps = ShuffleSteps((0, 1, 2, 3), shape, (0, 1, 2))
        return kind(call, [result], result, steps).tensor(shape, result.dtype, lead.name, result.scope)

    return images, lowered


def image_shape(sizes: Shape) -> Shape:
    """The sizes of a sequence as those of an image of height 1."""
    return (*sizes[:HEIGHT], 1, *sizes[HEIGHT:])


def _image_of(x: Tensor) -> Tensor | None:
    """What ``x`` is, but for a dimension of one; None where that is not an image that lies channels last."""
    node = x.node
    steps = getattr(node, "steps", None)
    if steps is None or len(x.shape) != 3 or node.is_layer:
        return None
    source = node.source
    fits = source.ndim == 4 and steps == ((0, 1, 2, 3), x.shape, (0, 1, 2)) and image_shape(x.shape) == source.shape
    return source if fits and source.order == LAST else None
