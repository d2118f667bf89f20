"""PADDING: zeros around the last two dimensions."""

from __future__ import annotations

from collections.abc import Sequence

from .common import Mistakes, Node, ShapeError, Tensor, add_layer, adds, computes, operation, torch


@operation
def padding(x: Tensor, pre_padding: Sequence[int], post_padding: Sequence[int]) -> Tensor:
    """Zeros before and after the last two dimensions; negative numbers trim: one IPaddingLayer.

    >>> padding(net.input("x", (1, 2, 4, 4)), (1, 0), (0, -1)).shape
    (1, 2, 5, 3)
    """
    if len(pre_padding) != 2 or len(post_padding) != 2 or x.ndim < 2:
        raise ShapeError("padding needs two values before and two after, for the last two dimensions")
    lead = x.ndim - 2
    sizes = [x.shape[lead + axis] + (pre_padding[axis] + post_padding[axis]) for axis in range(2)]
    add = adds("add_padding_nd", tuple(pre_padding), tuple(post_padding))
    return add_layer(add, x, shape=(*x.shape[:lead], *sizes))


MISTAKES = Mistakes(instead={"one element further on": lambda node: lambda f, x: f(x).roll(1, -1)})


@computes("PADDING", category="rearranging", computes=False, mistakes=MISTAKES)
def _padding(node: Node, x: torch.Tensor) -> torch.Tensor:
    """Zeros; negative numbers trim, the padding of the other side too where nothing else is left."""
    sides = list(zip(node.layer.pre_padding_nd, node.layer.post_padding_nd, strict=True))
    for axis, (pre, post) in enumerate(sides, x.ndim - len(sides)):
        length = x.shape[axis]
        result = x.new_zeros((*x.shape[:axis], length + pre + post, *x.shape[axis + 1 :]))
        first, last = max(-pre, 0), length - max(-post, 0)
        if first < last:
            result.narrow(axis, first + pre, last - first).copy_(x.narrow(axis, first, last - first))
        x = result
    return x
