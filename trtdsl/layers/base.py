"""What every layer family is made of: adding a layer, and small helpers.

A family file holds, for each layer type, three functions side by side: the public one that adds it
(through :func:`add_layer`), the one that evaluates it (under ``evaluates``, in :mod:`trtdsl.layers.evaluation`), and
its FLOPs.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Literal

from ..core.errors import DefinitionError, ShapeError, UnsupportedError
from ..core.lazy import layers, torch
from ..core.tensors.layer_target import LayerTarget
from ..definition.emission import add_to
from ..definition.graph import Call, Layer, Region
from ..definition.input import PluginUse
from ..definition.operation import Operation
from ..definition.tensor import Draft as Network
from ..definition.tensor import LayerFacts, Tensor, swapped, weight_names_of
from ..sizes.dim import tensor_dim
from ..sizes.shape import Shape
from ..sizes.size import INFINITY, SizeLike
from .evaluation import Node, count, kind
from .shuffle_steps import ShuffleSteps

# A convolution over a sequence is one over an image of height 1, between two reshapes. Work of one dimension less
# between two of them makes the builder rearrange both sides, since a convolution writes and reads channels last; on the
# image it is part of the convolution, and the reshapes cancel.
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


def add_layer(
    add: Callable[..., Any],
    *operands: Tensor | None,
    weights: Sequence[Tensor | None] = (),
    shape: Sequence[Any] | None = None,
    network: Network | None = None,
    fold: bool = True,
    order: tuple[int, ...] | Callable[[], tuple[int, ...]] | Literal["kept"] | None = None,
    dtype: torch.dtype | list[torch.dtype] | None = None,
    partial: bool | None = None,
    numbers: dict[str, float] | None = None,
    plugin: PluginUse | None = None,
    **facts: Any,
) -> Any:
    """Records a layer and gives its output Tensor, or a tuple of them when there are several, or none.

    ``add(target, *itensors)`` adds the layer for the operands' ITensors (None for an absent one) and returns it, once
    the graph is emitted. ``weights`` are constants that ``add`` hands over as Weights: they count for the layer's name.
    ``shape`` is the output's shape as the author's dimensions say it (a list: each output's), with None for a size that
    only TensorRT knows, and ``dtype`` its dtype, by default the first operand's; TensorRT's own inference must agree
    with both. Where no shape is given, the network is emitted up to here, and TensorRT says it. ``facts`` are those of
    :class:`~trtdsl.definition.graph.Layer`.
    A layer on constants alone is evaluated instead, unless its result is much larger than they are. ``order`` is the
    result's :attr:`Tensor.order`: "kept" is that of the first operand of its shape, for a layer that does the same to
    all elements whatever the rank; None row-major.
    ``partial`` is the result's :attr:`Tensor.partial`, by default that of the operands of such a layer. ``numbers`` and
    ``plugin`` are what is known of it (:class:`~trtdsl.definition.tensor.LayerFacts`).

    Raises DefinitionError for operands of two networks; what TensorRT refuses is raised when the graph is emitted.
    """
    if order == "kept" and (image := lifted(operands)) is not None:
        operands, back = tuple(image[0]), image[1]
        assert shape is not None
        facts = {**facts, "dtype": dtype, "order": order}
        return back(add_layer(add, *operands, weights=weights, shape=image_shape(tuple(shape)), **facts))
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
        folded = _fold(network, add, operands, used)
        if folded is not None:
            return folded
    operation = network.current_operation
    if operation is None:
        operation = Operation(network, add.__qualname__.split(".")[0])
    given = [each for each in weights if each is not None]
    facts = {"label": operation.name, **facts}
    known = LayerFacts(operation, numbers=numbers or {}, plugin=plugin)
    node = Layer(operation, operands, add, given, facts=known, asks=shape is None, **facts)
    if shape is None:
        network.graph.record(node)
        network.emit()
        for result in node.results:
            result.shape = _sizes(network, [size if size >= 0 else None for size in result.shape], result, operation)
        return node.results[0] if len(node.results) == 1 else tuple(node.results)
    shapes = shape if isinstance(shape, list) else [shape]
    dtypes = dtype if isinstance(dtype, list) else [dtype or used[0].dtype] * len(shapes) if shapes else []
    if dtype is not None:
        for each in dtypes:
            network.backend.data_type(each)
    if partial is None:
        partial = order == "kept" and any(x.partial for x in operands if x is not None)
    prefix, scope, *_ = network.place_layer(node.label, node.used)
    name = f"{prefix}.{node.label}" if prefix else node.label
    for sizes, each in zip(shapes, dtypes, strict=True):
        result = Tensor(network, (), each, name=name, scope=scope, node=node)
        result.shape = _sizes(network, sizes, result, operation)
        result.partial = partial
        node.results.append(result)
    if order is not None:
        result = node.results[0]
        result.order = functools.partial(_kept, result, operands) if order == "kept" else order
    network.graph.record(node)
    return node.results[0] if len(node.results) == 1 else tuple(node.results)


def adds(
    method: str,
    *arguments: Any,
    takes: int | None = None,
    together: bool = False,
    named: Sequence[str] = (),
    numbers: Mapping[str, float | None] = {},
    region: Region | None = None,
    **attributes: Any,
) -> Callable[..., Any]:
    """For :func:`add_layer`: ``method`` of INetworkDefinition with the operands and ``arguments``, then attributes.

    It gets the first ``takes`` operands, all of them by default, as one list where they go ``together``; the others
    become attributes of these names, or inputs at their places. ``numbers`` are attributes that TensorRT keeps as C
    floats. None leaves an attribute or an input as it is. ``region`` is the loop or branch that has the method.
    """

    def add(target: LayerTarget, *handles: Any) -> Any:
        owner = target.definition if region is None else region.made
        taken = handles[:takes]
        layer = getattr(owner, method)(*([list(taken)] if together else taken), *arguments)
        if layer is None:
            return None
        for name, number in numbers.items():
            if number is not None:
                target.set_number(layer, name, number)
        rest = handles[len(taken) :]
        for name, value in (*attributes.items(), *zip(named, rest)):
            if value is not None:
                setattr(layer, name, value)
        for place, handle in enumerate(() if named else rest, len(taken)):
            if handle is not None:
                layer.set_input(place, handle)
        return layer

    add.__qualname__ = method.removeprefix("add_")
    return add


def add_region_layer(
    region: Region,
    name: str,
    method: str,
    *operands: Tensor,
    arguments: Sequence[Any] = (),
    ends: bool = False,
    **facts: Any,
) -> Any:
    """As :func:`add_layer`, by a method of the loop or the conditional, for a call of this name.

    It gets the first operand, or all where there is nothing else that it takes (``arguments``). ``ends``: the result is
    the region's, which has all up to here.
    """
    with region.network.operation(name):
        if ends:
            region.extend()
        add = adds(method, *arguments, takes=1 if arguments else None, region=region)
        return add_layer(add, *operands, fold=False, ends=ends, takes=not ends, **facts)


def _sizes(network: Network, sizes: Sequence[Any], result: Tensor, operation: Operation) -> Shape:
    """The shape of a result, in which a size that only TensorRT knows is its own; none may become negative.

    Such a size is None, or the ``range`` in which it is.
    """
    found: list[SizeLike] = []
    name = ""
    for axis, size in enumerate(sizes):
        if type(size) is not int:
            if size is None or isinstance(size, range):
                name = name or network.graph.take_name(result.name)
                size = tensor_dim(result, axis, name, INFINITY if size is None else size.stop - 1)
            network.constraints.not_negative(size, operation)
        elif size < 0:
            raise ShapeError(f"the result's dimension {axis} would have the size {size}")
        found.append(size)
    return tuple(found)


def _kept(result: Tensor, operands: Sequence[Tensor | None]) -> tuple[int, ...]:
    alike = (x for x in operands if x is not None and x.data is None and x.shape == result.shape)
    return next((x.order for x in alike), tuple(range(result.ndim)))


def folding(network: Network) -> AbstractContextManager[None]:
    """Inside, every layer on constants alone is folded, however large its result.

    For products, whose result is read where their operands would be, and grids of coordinates.
    """
    return swapped(network, fold_limit=sys.maxsize)


def as_constant(tensor: Tensor) -> Tensor | None:
    """The constant that a Tensor is, or that constants alone make and was too large to be folded; None of others."""
    node = tensor.node
    if tensor.data is not None:
        return tensor
    if not _is_made_of_constants(tensor, DEEPEST):
        return None
    if isinstance(node, Call):
        return as_constant(node.resolved())
    assert isinstance(node, Layer)
    operands = [None if each is None else as_constant(each) for each in node.operands]
    with folding(tensor.network):
        found = _fold(tensor.network, node.add, operands, [*(x for x in operands if x is not None), *node.weights])
    results = found if isinstance(found, tuple) else (found,)
    return None if found is None else results[node.results.index(tensor)]


DEEPEST = 16  # layers on constants that are not folded, since their results are large


def _is_made_of_constants(tensor: Tensor, depth: int) -> bool:
    """Whether up to ``depth`` layers make it of constants, none of them of a loop or a branch."""
    node = tensor.node
    if node is None or not depth:
        return tensor.data is not None
    if isinstance(node, Layer) and (node.emitted or node.takes or node.ends or node.completes):
        return False
    operands = [each for each in node.operands if each is not None]
    return bool(operands) and all(_is_made_of_constants(each, depth - 1) for each in operands)


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
    layer, outputs = add_to(target, add, handles)
    sizes = [size for _, dims, _ in outputs for size in dims]
    elements = sum(count(dims) for _, dims, _ in outputs)
    if min(sizes, default=0) < 0 or elements > max(network.fold_limit, sum(tensor.data.numel() for tensor in used)):
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
            if common is size or common == 1:
                common = size
            elif isinstance(size, int) and size != 1 and size != common:
                if isinstance(common, int):
                    raise ShapeError(f"the sizes of dimension {axis} do not match: {' and '.join(map(str, sizes))}")
                common = size
        result.append(common)
    return tuple(result)


def repeated(x: Tensor, shape: Shape, *, always: bool = False) -> Tensor:
    """``x`` in a shape that it is broadcast to: itself, and by an ISliceLayer where TensorRT-RTX broadcasts it wrongly,
    or ``always``.

    >>> x = net.input("x", (4, 3, 8))
    >>> repeated(x, (4, 3, 8)) is x, repeated(x[:, :1], (4, 3, 8)).shape
    (True, (4, 3, 8))
    """
    pairs = zip(x.shape, shape, strict=True) if x.partial or always else ()
    if all(stride := [0 if have == 1 and want != 1 else 1 for have, want in pairs]):
        return x
    sizes = [have if step else want for have, want, step in zip(x.shape, shape, stride, strict=True)]
    return layers.slice(x, (0,) * x.ndim, sizes, stride)


def matched(network: Network, *shapes: Shape) -> Shape:
    """As :func:`broadcast`; notes the dynamic sizes that it takes for the same."""
    result = broadcast(*shapes)
    for shape in shapes:
        for size, common in zip(shape, result, strict=True) if shape != result else ():
            if size is not common and size != 1:
                network.constraints.equal(size, common, "the sizes of the operands", network.current_operation)
    return result
