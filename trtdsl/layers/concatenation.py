"""CONCATENATION."""

from __future__ import annotations

from collections.abc import Sequence

from .common import DefinitionError, ShapeError, SizeLike, Tensor, add_layer, adds, normalize_axis, operation, torch
from .evaluation import Evaluate, Mistakes, Node, evaluates
from .lifting import HEIGHT, lifted


@operation
def concatenation(tensors: Sequence[Tensor], axis: int) -> Tensor:
    """Tensors of one rank and dtype, one after the other along ``axis``: one IConcatenationLayer.

    >>> concatenation([net.input("a", (2, 3)), net.input("b", (2, 5))], 1).shape
    (2, 8)
    """
    if not tensors:
        raise DefinitionError("concatenation needs at least one tensor")
    axis = normalize_axis(axis, tensors[0].ndim)
    if len({tensor.ndim for tensor in tensors}) > 1:
        raise ShapeError(f"tensors to concatenate must have one rank, not {[tensor.ndim for tensor in tensors]}")
    shape = list(tensors[0].shape)
    total: SizeLike = 0
    for tensor in tensors:
        total = total + tensor.shape[axis]
        for other, size in enumerate(tensor.shape):
            if other != axis and isinstance(size, int) and not isinstance(shape[other], int):
                shape[other] = size
    network = tensors[0].network
    for tensor in tensors:
        for other, size in enumerate(tensor.shape):
            if other != axis and size is not shape[other]:
                what = f"the sizes of dimension {other}, along which nothing is joined,"
                network.constraints.equal(size, shape[other], what, network.current_operation)
    shape[axis] = total
    if (image := lifted(tensors)) is not None:
        images, back = image
        return back(concatenation(images, axis + (axis >= HEIGHT)))

    def order() -> tuple[int, ...]:
        orders = {tensor.order for tensor in tensors}
        return orders.pop() if len(orders) == 1 else tuple(range(len(shape)))

    return add_layer(adds("add_concatenation", together=True, axis=axis), *tensors, shape=tuple(shape), order=order)


MISTAKES = Mistakes(
    instead={
        "parts in reverse order": lambda node: (lambda f, *x: f(*x[::-1])) if len(node.inputs) > 1 else None,
    }
)
FACTS = {"category": "rearranging", "carries_sizes": True, "computes": False, "mistakes": MISTAKES}


@evaluates("CONCATENATION", fp8="takes gives", **FACTS)
def _concatenation(node: Node) -> Evaluate:
    axis = node.layer.axis
    return lambda *tensors: torch.cat(tensors, axis)
