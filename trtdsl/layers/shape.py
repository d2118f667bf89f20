"""CONCATENATION; SHAPE, and shape tensors for sizes that are known only when the network runs."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from ..sizes.dim import TensorDim
from ..sizes.size import Atom, FloorDivision, Maximum, Minimum, Size, SizeLike
from .base import HEIGHT, add_layer, adds, lifted, normalize_axis
from .common import DefinitionError, Evaluate, Mistakes, Network, Node, ShapeError, Tensor, evaluates, operation, torch
from .gather import gather
from .pointwise import elementwise


@operation
def concatenation(tensors: Sequence[Tensor], axis: int) -> Tensor:
    """Tensors of one rank and dtype, one after the other along ``axis``: one IConcatenationLayer."""
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


@operation
def shape(x: Tensor) -> Tensor:
    """The shape of ``x`` as an int64 tensor with one element per dimension: one IShapeLayer, shared by all its uses."""
    network = x.network
    if x.is_constant:
        return network.constant(torch.tensor(x.data.shape, dtype=torch.int64))
    return network.shared(("shape", x), lambda: add_layer(adds("add_shape"), x, shape=(x.ndim,), dtype=torch.int64))


@evaluates("SHAPE", category="constant", carries_sizes=True, computes=False, moves=False, fp8="takes")
def _shape(node: Node) -> Evaluate:
    return lambda x: torch.tensor(x.shape, dtype=torch.int64)


def size_tensor(network: Network, sizes: Sequence[SizeLike]) -> Tensor:
    """The sizes as one int64 shape tensor of shape ``(len(sizes),)``; static ones are constants.

    Emits nothing for static sizes; for dynamic ones IShapeLayer and IGatherLayer, an IElementWiseLayer for each step
    of arithmetic, and one IConcatenationLayer. Sizes that were needed before are reused.
    """
    parts: list[Tensor] = []
    run: list[int] = []
    for size in sizes:
        if isinstance(size, int):
            run.append(size)
            continue
        if run:
            parts.append(_int64(network, run))
            run = []
        parts.append(_one_size(network, size))
    if run or not parts:
        parts.append(_int64(network, run))
    if len(parts) == 1:
        return parts[0]
    return network.shared(("sizes", tuple(sizes)), lambda: concatenation(parts, 0))


def size_tensors(network: Network) -> dict[str, SizeLike]:
    """The sizes that tensors of a network hold, by the tensors' names."""
    found = ((key, tensor) for key, tensor in network.cache.items() if isinstance(key, tuple) and key[0] == "size")
    return {tensor.name: key[1] for key, tensor in found if tensor.handle is not None}


def _int64(network: Network, values: Sequence[int]) -> Tensor:
    return network.constant(torch.tensor(values, dtype=torch.int64))


def _one_size(network: Network, size: SizeLike) -> Tensor:
    """A shape tensor of one element."""
    if isinstance(size, int):
        return _int64(network, [size])
    return network.shared(("size", size), lambda: _sum(network, size))


def _sum(network: Network, size: Size) -> Tensor:
    total: Tensor | None = None
    for monomial, coefficient in size.terms:
        term: Tensor | None = None
        for factor in (network.shared(("atom", atom), functools.partial(_atom, network, atom)) for atom in monomial):
            term = factor if term is None else elementwise(term, factor, "PROD")
        if term is None:
            term = _int64(network, [coefficient])
        elif coefficient == -1 and total is not None:
            total = elementwise(total, term, "SUB")
            continue
        elif coefficient != 1:
            term = elementwise(term, _int64(network, [coefficient]), "PROD")
        total = term if total is None else elementwise(total, term, "SUM")
    assert total is not None
    return total


_BINARY = {FloorDivision: "FLOOR_DIV", Maximum: "MAX", Minimum: "MIN"}


def _atom(network: Network, atom: Atom) -> Tensor:
    """A Dim from an input that has it: by itself where there is such an input, else from ``a*Dim + b``."""
    if isinstance(atom, (FloorDivision, Maximum, Minimum)):
        return elementwise(_one_size(network, atom.left), _one_size(network, atom.right), _BINARY[type(atom)])
    if isinstance(atom, TensorDim):
        return gather(shape(atom.tensor), _int64(network, [atom.axis]))
    tensor, axis, factor, offset = network.place_of(atom)
    result = gather(shape(tensor), _int64(network, [axis]))
    if offset:
        result = elementwise(result, _int64(network, [offset]), "SUB")
    if factor != 1:
        result = elementwise(result, _int64(network, [factor]), "FLOOR_DIV")
    return result
