"""What every layer family is made of: adding a layer, and small helpers.

A family file holds, for each layer type, three functions side by side: the public one that adds it
(through :func:`add_layer`), the one that evaluates it (under ``evaluates``, in :mod:`trtdsl.layers.evaluation`), and
its FLOPs.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal

from ..core.backend import Messages
from ..core.errors import DefinitionError, ShapeError, UnsupportedError
from ..core.lazy import torch
from ..core.tensors.layer_target import LayerTarget
from ..definition.network import Network
from ..definition.tensor import Tensor, weight_names_of
from ..sizes.dim import tensor_dim
from ..sizes.shape import Shape, shape_text
from ..sizes.size import SizeLike
from .evaluation import Evaluate, Node, count, kind
from .lifting import image_shape, lifted

# -- adding ------------------------------------------------------------------------------------------------------------


def add_layer(
    add: Callable[..., Any],
    *operands: Tensor | None,
    weights: Sequence[Tensor | None] = (),
    shape: Sequence[Any] | None = None,
    network: Network | None = None,
    fold: bool = True,
    evaluate: Evaluate | None = None,
    order: tuple[int, ...] | Literal["kept"] | None = None,
) -> Any:
    """Adds a layer and gives its output Tensor, or a tuple of them when there are several.

    ``add(target, *itensors)`` adds the layer for the operands' ITensors (None for an absent one) and returns it.
    ``weights`` are constants that ``add`` hands over as Weights: they count for the layer's name. ``shape`` is
    the first output's shape as the author's dimensions say it (a list: each output's), with None for a size that only
    TensorRT knows; its own inference must agree with it.
    A layer on constants alone is evaluated instead, unless its result is much larger than they are; where TensorRT
    would surely take it, by ``evaluate`` at once. ``order`` is the result's :attr:`Tensor.order`: "kept" is that of the
    first operand of its shape, for a layer that does the same to all elements whatever the rank; None row-major.

    Raises DefinitionError with TensorRT's own message.
    """
    if order == "kept" and (image := lifted(operands)) is not None:
        operands, back = tuple(image[0]), image[1]
        assert shape is not None
        return back(add_layer(add, *operands, weights=weights, shape=image_shape(tuple(shape)), order=order))
    used = [tensor for tensor in (*operands, *weights) if tensor is not None]
    for tensor in used:
        if network is None:
            network = tensor.network
        elif tensor.network is not network:
            raise DefinitionError("the operands are of two networks")
        if tensor.data is None:
            fold = False
    assert network is not None
    if fold:
        folded = _fold(network, add, operands, used) if evaluate is None else _evaluated(network, evaluate, used, shape)
        if folded is not None:
            return folded
    operation = network.current_operation
    label = add.__qualname__.split(".")[0] if operation is None else operation.name
    for tensor in operands:
        if tensor is not None and tensor.handle is None:
            tensor.trt  # noqa: B018 - all are added before one is taken: adding one can move another to a later layer
    layer, outputs = _add(add, network.target, [None if tensor is None else tensor.handle for tensor in operands])
    name, scope = network.name_layer(layer, label, used)
    if network.target.numbers:
        network.numbers[name], network.target.numbers = network.target.numbers, {}
    shapes = shape if isinstance(shape, list) else [shape]
    results = []
    for index, output in enumerate(outputs):
        own = name if index == 0 else network._take_name(f"{name}.{index}")
        results.append(_result(network, own, scope, output, shapes[index] if index < len(shapes) else None))
    if order is not None:
        results[0].order = _kept(results[0], operands) if order == "kept" else order
    return results[0] if len(results) == 1 else tuple(results)


def _kept(result: Tensor, operands: Sequence[Tensor | None]) -> tuple[int, ...]:
    for tensor in operands:
        if tensor is not None and tensor.data is None and tensor.shape == result.shape:
            return tensor.order
    return result.order


def channels_last(ndim: int) -> tuple[int, ...]:
    """The :attr:`Tensor.order` in which convolutions and pooling write."""
    return (0, *range(2, ndim), 1)


def _result(network: Network, name: str, scope: str, output: Output, ours: Sequence[Any] | None) -> Tensor:
    """The Tensor of an output, its shape as the author's dimensions say it."""
    handle, dims, dtype = output
    handle.name = name
    result = Tensor(network, dims, dtype, handle=handle, name=name, scope=scope)
    if dims != ours:
        result.shape = _merge(dims, ours, result)
        network.shapes[name] = result.shape
        for size in result.shape:
            if type(size) is not int:
                network.constraints.not_negative(size, network.current_operation)
    return result


Output = tuple[Any, tuple[int, ...], "torch.dtype"]


def _add(add: Callable[..., Any], target: LayerTarget, handles: Sequence[Any]) -> tuple[Any, list[Output]]:
    """The layer and its outputs; TensorRT reports a bad layer only when its shape is asked for."""
    backend = target.network.backend
    found: list[Output] = []
    messages, listening = Messages(), backend.listening
    listening.append(messages)  # what `with backend.listen()` does would take longer than some layers
    try:
        try:
            layer = add(target, *handles)
        except AttributeError as error:
            raise backend.lacking(error) from None
        try:
            if layer is not None:
                for handle in map(layer.get_output, range(layer.num_outputs)):
                    found.append((handle, handle.shape[:], backend.torch_dtype(handle.dtype)))
        except (RuntimeError, ValueError):
            layer = None
    finally:
        listening.pop()
    if layer is None or (messages and messages.errors()):
        raise DefinitionError(f"TensorRT refuses the layer: {messages.summary()}")
    return layer, found


def _merge(dims: tuple[int, ...], shape: Sequence[Any] | None, tensor: Tensor) -> Shape:
    if shape is not None and len(shape) != len(dims):
        raise AssertionError(f"trtdsl inferred {shape_text(tuple(shape))}, TensorRT {dims}")
    merged: list[SizeLike] = []
    for axis, size in enumerate(dims):
        ours = shape[axis] if shape is not None else None
        if size >= 0:
            if isinstance(ours, int) and ours != size:
                raise AssertionError(f"trtdsl inferred {shape_text(tuple(shape or ()))}, TensorRT {dims}")
            merged.append(size)
        else:
            merged.append(ours if ours is not None else tensor_dim(tensor, axis, tensor.name))
    return tuple(merged)


@contextmanager
def folding(network: Network) -> Iterator[None]:
    """Inside, every layer on constants alone is folded, however large its result.

    For products, whose result is read where their operands would be, and grids of coordinates.
    """
    before, network.fold_limit = network.fold_limit, sys.maxsize
    try:
        yield
    finally:
        network.fold_limit = before


def _fold(network: Network, add: Callable[..., Any], operands: Sequence[Tensor | None], used: Sequence[Tensor]) -> Any:
    """The layer's value, from the evaluator that checks use; None when it would bloat the engine.

    The layer is added to a scratch network, so that TensorRT judges it and infers its dtype like any other.
    """
    backend = network.backend
    scratch = backend.create_network()
    target = LayerTarget(network, scratch)
    handles = []
    for tensor in operands:
        handle = None
        if tensor is not None:
            handle = scratch.add_constant(tensor.shape, target.weights(tensor)).get_output(0)
        handles.append(handle)
    layer, outputs = _add(add, target, handles)
    sizes = [size for _, dims, _ in outputs for size in dims]
    elements = sum(count(dims) for _, dims, _ in outputs)
    if min(sizes, default=0) < 0 or elements > _most_elements(network, used):
        return None
    node = Node(backend, layer)
    node.numbers = target.numbers
    values = kind(node).prepare(node)(*(None if tensor is None else tensor.data for tensor in operands))
    values = values if isinstance(values, tuple) else (values,)
    weight_names = weight_names_of(used)
    results = tuple(
        Tensor(network, tuple(dims), dtype, data=value, weight_names=weight_names)
        for value, (_, dims, dtype) in zip(values, outputs, strict=True)
    )
    return results[0] if len(results) == 1 else results


def _evaluated(network: Network, evaluate: Evaluate, used: Sequence[Tensor], shape: Any) -> Tensor | None:
    """As :func:`_fold`, of a layer that TensorRT need not judge."""
    if count(shape) > _most_elements(network, used):
        return None
    value = evaluate(*(tensor.data for tensor in used))
    return Tensor(network, tuple(value.shape), value.dtype, data=value, weight_names=weight_names_of(used))


def _most_elements(network: Network, used: Sequence[Tensor]) -> int:
    return max(network.fold_limit, sum(tensor.data.numel() for tensor in used))


# -- small helpers of the families -------------------------------------------------------------------------------------


PADDING_MODES = ("EXPLICIT_ROUND_DOWN", "EXPLICIT_ROUND_UP", "SAME_UPPER", "SAME_LOWER")


def normalize_axis(axis: int, ndim: int) -> int:
    """A non-negative axis; DefinitionError when it is outside the rank."""
    if not -ndim <= axis < max(ndim, 1):
        raise DefinitionError(f"dimension {axis} is outside the {ndim} dimensions of the tensor")
    return axis + ndim if axis < 0 else axis


def axes_mask(axes: Sequence[int]) -> int:
    """TensorRT's bit mask of axes."""
    return sum(1 << axis for axis in set(axes))


def axes_of(mask: int, ndim: int) -> list[int]:
    """The axes in TensorRT's bit mask."""
    return [axis for axis in range(ndim) if mask >> axis & 1]


@functools.lru_cache(maxsize=1024)
def member(enum: Any, name: str, what: str) -> Any:
    """A member of a TensorRT enum by name; UnsupportedError listing the names when there is none."""
    found = getattr(enum, name.upper(), None)
    if not isinstance(found, enum):
        raise UnsupportedError(f"unknown {what} {name!r}: one of {', '.join(enum.__members__)}")
    return found


def broadcast(*shapes: Shape) -> Shape:
    """The common shape of operands of one rank, where sizes of 1 stretch; ShapeError naming the dimension."""
    if shapes.count(shapes[0]) == len(shapes):
        return shapes[0]
    result: list[SizeLike] = []
    for axis, sizes in enumerate(zip(*shapes, strict=True)):
        common: SizeLike = 1
        for size in sizes:
            if common == 1:
                common = size
            elif size != 1 and size != common and isinstance(size, int):
                if isinstance(common, int):
                    raise ShapeError(f"the sizes of dimension {axis} do not match: {' and '.join(map(str, sizes))}")
                common = size
        result.append(common)
    return tuple(result)


def require_match(network: Network, result: Shape, *shapes: Shape) -> None:
    """Notes the dynamic sizes that :func:`broadcast` took for the same: those of ``shapes`` beside the ``result``'s."""
    for shape in shapes:
        for size, common in zip(shape, result, strict=True) if shape != result else ():
            if size is not common and size != 1:
                network.constraints.equal(size, common, "the sizes of the operands", network.current_operation)
