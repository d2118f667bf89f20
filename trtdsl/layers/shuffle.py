"""SHUFFLE, SQUEEZE, UNSQUEEZE: transposing and reshaping."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ..core.errors import DefinitionError, ShapeError
from ..core.tensors.memory import reshaped
from ..definition.graph import Call
from ..definition.input import MAX_DIMS
from ..sizes.size import Size, SizeLike, bounds, is_static, product
from .common import Network, Shape, Tensor, add_layer, adds, normalize_axis, operation, shape_text, torch
from .evaluation import Evaluate, Given, Mistakes, Node, computes, evaluates, given_dims
from .shape import size_tensor
from .shuffle_steps import ShuffleSteps, permuted


@dataclass(eq=False, slots=True)
class Shuffle(Call):
    """A shuffle that one layer does, perhaps with those before it."""

    source: Tensor
    steps: ShuffleSteps

    def lower(self) -> Tensor:
        """The layer, for a shuffle too that the call before this one ends with."""
        made = self.source
        while isinstance(made.node, Call) and not isinstance(made.node, Shuffle):
            made = made.node.resolved()
        earlier, source, steps = joined_shuffle(made), self.source, self.steps
        if earlier is not None and made is not source and made.network.graph.is_used_once(source):
            source, steps = _joined(made, earlier, steps)
            if steps.reshape is None and steps.first == tuple(range(source.ndim)):
                return source
        return _added(source, _along(source, steps))

    def expected_order(self) -> tuple[int, ...]:
        return self.steps.order(self.source.shape, self.source.order)


def _along(source: Tensor, steps: ShuffleSteps) -> ShuffleSteps:
    """The steps, reshaping in the order of memory where that is no worse.

    Where a transpose is left behind a reshape that does more than to add dimensions of one, the builder copies
    twice, instead of once in whatever reads the result. In half precision it has its own way from channels last to
    a product whose result attention takes apart, which moves less. What lies as it is written is left as the
    author has it, too.
    """
    if source.dtype.itemsize < 4 or source.order == tuple(range(source.ndim)):
        return steps
    along = steps.along(source.shape, source.order)
    if along.second != tuple(range(len(along.second))) and not _only_inserts(
        permuted(source.shape, steps.first), steps.reshape
    ):
        return steps
    needs_tensor = _dims(source.shape, along) is None and _dims(source.shape, steps) is not None
    return steps if needs_tensor else along


def behind_shuffles(x: Tensor) -> Tensor:
    """What ``x`` is shuffled from."""
    while isinstance(x.node, Shuffle):
        x = x.node.source
    return x


def joined_shuffle(x: Tensor) -> Shuffle | None:
    """The shuffle that gives ``x``, unless it is a layer for another one."""
    node = x.node
    return node if isinstance(node, Shuffle) and not node.is_layer else None


@operation
def shuffle(
    x: Tensor,
    first_transpose: Sequence[int] | None = None,
    reshape: Sequence[SizeLike] | None = None,
    second_transpose: Sequence[int] | None = None,
) -> Tensor:
    """Transposes, reshapes and transposes again: one IShuffleLayer; ``x`` itself when that changes nothing.

    ``reshape`` has the sizes wanted (no -1). Dynamic ones are expressed by TensorRT's placeholders, 0 for a size that
    stays and -1 for one that follows from the others, and by a shape tensor only where these do not suffice.
    The layer is added where another one needs it: shuffles that follow one another are one layer where one can do it.

    Raises ShapeError when the number of elements would change.

    >>> x = net.input("x", ("N", 3, 4))
    >>> shuffle(x, (0, 2, 1), (x.shape[0], 12)).shape
    (N, 12)
    """
    network, shape = x.network, x.shape
    first = identity = tuple(range(len(shape)))
    if first_transpose is not None:
        first = _permutation(first_transpose, identity)
        shape = permuted(shape, first)
    if reshape is not None:
        _check_elements(network, shape, reshape := tuple(reshape))
        shape = reshape
    if len(shape) > MAX_DIMS:
        raise DefinitionError(f"{shape_text(shape)} has {len(shape)} dimensions; TensorRT has at most {MAX_DIMS}")
    second = identity = tuple(range(len(shape)))
    if second_transpose is not None:
        second = _permutation(second_transpose, identity)
        shape = permuted(shape, second)
    steps = ShuffleSteps(first, reshape, second)
    if x.data is not None and is_static(shape):
        before, value = x.data, _shuffled(x.data, steps)
        if shape == x.shape and value.data_ptr() == before.data_ptr() and value.stride() == before.stride():
            return x  # nothing changes
        return Tensor(network, shape, x.dtype, data=value, weight_names=x.weight_names)
    source, steps = x, steps.on(x.shape)
    earlier = joined_shuffle(x)
    if earlier is not None:
        source, steps = _joined(x, earlier, steps)
    if steps.reshape is None and steps.first == identity:
        return source
    if x.data is not None:
        return _added(x, steps)
    if not is_static(shape):
        for size in shape:
            network.constraints.not_negative(size, network.current_operation)
    call = network.current_operation
    assert call is not None
    return Shuffle(call, [source], source, steps).tensor(shape, x.dtype, call.name, source.scope)


def _joined(x: Tensor, earlier: Shuffle, steps: ShuffleSteps) -> tuple[Tensor, ShuffleSteps]:
    """Where the steps begin, with those of the shuffle before them, which gives ``x``."""
    composed = steps.after(earlier.steps) or steps.after(earlier.steps.transposed_first(earlier.source.shape))
    if composed is None:
        return x, steps
    source = earlier.source
    composed = composed.on(source.shape)
    if composed.reshape is not None and _dims(source.shape, composed) is None and _dims(x.shape, steps) is not None:
        return x, steps  # together they would need a shape tensor
    return source, composed


def _only_inserts(before: Shape, after: Shape | None) -> bool:
    """Whether a reshape does nothing but to add dimensions of one."""
    if after is None or len(after) <= len(before):
        return after is None
    sizes = [[size for size in shape if not isinstance(size, int) or size != 1] for shape in (before, after)]
    return sizes[0] == sizes[1]


def _added(x: Tensor, steps: ShuffleSteps) -> Tensor:
    """The layer."""
    first, reshape, second = steps
    dims = _dims(x.shape, steps)
    sizes = size_tensor(x.network, reshape) if reshape is not None and dims is None else None
    add = adds(
        "add_shuffle",
        takes=1,
        first_transpose=None if first == tuple(range(len(first))) else first,
        reshape_dims=dims,
        zero_is_placeholder=False if sizes is not None or (reshape is not None and 0 in reshape) else None,
        second_transpose=None if reshape is None or second == tuple(range(len(second))) else second,
    )
    return add_layer(add, x, sizes, shape=steps.result(x.shape))


def _permutation(axes: Sequence[int], identity: tuple[int, ...]) -> tuple[int, ...]:
    normal = tuple([normalize_axis(axis, len(identity)) for axis in axes])
    if tuple(sorted(normal)) != identity:
        raise ShapeError(f"{tuple(axes)} is not a permutation of the {len(identity)} dimensions")
    return normal


def _check_elements(network: Network, before: Shape, after: Shape) -> None:
    if before == after or (have := product(before)) == (want := product(after)):
        return
    low, high = bounds(have - want)
    if low > 0 or high < 0:
        raise ShapeError(
            f"a tensor of shape {shape_text(before)} has {have} elements; {shape_text(after)} would have {want}"
        )
    network.constraints.equal(have, want, f"the elements of a {shape_text(before)} reshaped", network.current_operation)


def _dims(shape: Shape, steps: ShuffleSteps) -> tuple[int, ...] | None:
    """The sizes of the reshape as numbers; None where it takes a shape tensor, and where there is no reshape."""
    after = steps.reshape
    if after is None or is_static(after):
        return after  # type: ignore[return-value]
    return None if 0 in after else _placeholders(permuted(shape, steps.first), after)


def _placeholders(before: Shape, after: Shape) -> tuple[int, ...] | None:
    """The sizes as TensorRT takes them: 0 copies the size at its place, -1 follows from the others.

    None where these cannot express them, and where a size is even since an input's is (``2*H``): TensorRT pads an
    operand of a product that it does not know to be even, and a shape tensor shows it the multiple.
    """
    dims: list[int] = []
    for axis, size in enumerate(after):
        if isinstance(size, int):
            dims.append(size)
        elif axis < len(before) and before[axis] == size:
            dims.append(0)
        else:
            dims.append(-1)
            if _is_even(size) and _hides_a_multiple(before, after):
                return None
    if -1 not in dims:
        return tuple(dims)
    others = [size for size, dim in zip(after, dims, strict=True) if dim != -1]
    alone = dims.count(-1) == 1 and all(bounds(size)[0] > 0 for size in others)  # of no elements nothing follows
    return tuple(dims) if alone else None


def _is_even(size: SizeLike) -> bool:
    """Whether a dynamic size is even by its form."""
    return isinstance(size, Size) and all(coefficient % 2 == 0 for _, coefficient in size.terms)


def _hides_a_multiple(before: Shape, after: Shape) -> bool:
    """Whether a product of dynamic sizes is even by one of them, and not by a number, which TensorRT would see."""
    known, kept = (math.prod(size for size in shape if isinstance(size, int)) for shape in (before, after))
    dynamic, left = (sum(not isinstance(size, int) for size in shape) for shape in (before, after))
    return dynamic > left and any(_is_even(size) for size in before) and known % (2 * kept) != 0


def _transposes(node: Node) -> bool:
    """Whether a shuffle transposes: a reshape alone moves nothing."""
    before, after = len(node.inputs[0].shape), len(node.outputs[0].shape)
    first, second = tuple(node.layer.first_transpose)[:before], tuple(node.layer.second_transpose)[:after]
    return first != tuple(range(before)) or second != tuple(range(after))


def _reshaped(node: Node) -> Evaluate | None:
    return (lambda f, x, *rest: x.reshape(f(x, *rest).shape)) if _transposes(node) else None


def _reordered(node: Node) -> Evaluate | None:
    if _transposes(node) or len(node.inputs[0].shape) < 2:
        return None
    return lambda f, x, *rest: f(x.mT.reshape(x.shape), *rest)


@evaluates(
    "SHUFFLE",
    category="rearranging",
    settings=True,
    carries_sizes=True,
    computes=False,
    moves=_transposes,
    fp8="takes gives",
    mistakes=Mistakes(instead={"transposes left out": _reshaped, "elements in another order": _reordered}),
)
def _shuffle(node: Node) -> Evaluate:
    """A reshape is a view where the transposes allow it. -1 is inferred and 0 copied, unless zero is no placeholder."""
    layer = node.layer
    ndim = len(node.inputs[0].shape)
    dynamic = node.has_input(1)
    # None means that nothing is reshaped; () reshapes to a scalar. bool(Dims()) is False for both.
    static = None if dynamic else given_dims(layer.reshape_dims)
    first = tuple(layer.first_transpose)[:ndim]
    reshaped = ndim if not dynamic and static is None else len(node.outputs[0].shape)
    second = tuple(layer.second_transpose)[:reshaped]
    placeholder = layer.zero_is_placeholder

    def evaluate(x: torch.Tensor, sizes: Given = None) -> torch.Tensor:
        dims = static if sizes is None else sizes.tolist()
        if dims is not None and placeholder:
            dims = [x.shape[first[axis]] if size == 0 else size for axis, size in enumerate(dims)]
        return _shuffled(x, ShuffleSteps(first, None if dims is None else tuple(dims), second))

    return evaluate


def _shuffled(x: torch.Tensor, steps: ShuffleSteps) -> torch.Tensor:
    first, reshape, second = steps
    if first != tuple(range(len(first))):
        x = x.permute(first)
    if reshape is not None:
        x = reshaped(x, reshape)  # pyright: ignore[reportArgumentType]
    return x if second == tuple(range(len(second))) else x.permute(second)


@operation
def unsqueeze(x: Tensor, axes: Sequence[int]) -> Tensor:
    """Inserts dimensions of size 1 at ``axes`` of the result.

    One IShuffleLayer, or IUnsqueezeLayer where sizes are dynamic.

    >>> unsqueeze(net.input("x", ("N", "T", 3)), [0, 3]).shape
    (1, N, T, 1, 3)
    """
    ndim = x.ndim + len(axes)
    places = sorted(normalize_axis(axis, ndim) for axis in axes)
    if ndim > MAX_DIMS:
        raise DefinitionError(f"the result would have {ndim} dimensions; TensorRT has at most {MAX_DIMS}")
    sizes = iter(x.shape)
    shape: Shape = tuple(1 if axis in places else next(sizes) for axis in range(ndim))
    return _with_axes("unsqueeze", x, places, shape)


def _with_axes(name: str, x: Tensor, places: Sequence[int], shape: Shape) -> Tensor:
    """``x`` with other dimensions of size 1, by a reshape or by the layer for it, where there is one."""
    if not places:
        return x
    if _placeholders(x.shape, shape) is not None or not hasattr(x.network.trt, f"I{name.title()}Layer"):
        return shuffle(x, reshape=shape)
    return add_layer(adds(f"add_{name}"), x, x.network.constant(torch.tensor(places, dtype=torch.int64)), shape=shape)


@computes("UNSQUEEZE", category="rearranging", carries_sizes=True, computes=False, moves=False)
def _unsqueeze(node: Node, x: torch.Tensor, axes: torch.Tensor) -> torch.Tensor:
    ndim = x.ndim + axes.numel()
    for axis in sorted(axis % ndim for axis in axes.tolist()):
        x = x.unsqueeze(axis)
    return x


@operation
def squeeze(x: Tensor, axes: Sequence[int]) -> Tensor:
    """Removes the dimensions ``axes``, all of size 1: one IShuffleLayer, or ISqueezeLayer where sizes are dynamic.

    Raises ShapeError for a dimension that is known not to be 1.
    """
    places = sorted(normalize_axis(axis, x.ndim) for axis in axes)
    for axis in places:
        if isinstance(x.shape[axis], int) and x.shape[axis] != 1:
            raise ShapeError(f"dimension {axis} of {shape_text(x.shape)} is not 1: it cannot be squeezed")
    shape: Shape = tuple(size for axis, size in enumerate(x.shape) if axis not in places)
    return _with_axes("squeeze", x, places, shape)


@computes("SQUEEZE", category="rearranging", carries_sizes=True, computes=False, moves=False)
def _squeeze(node: Node, x: torch.Tensor, axes: Given = None) -> torch.Tensor:
    """Without axes, all dimensions that are of size 1 in the network; dynamic ones stay, whatever size they have."""
    ones = (axis for axis, size in enumerate(tuple(node.inputs[0].shape)) if size == 1)
    return x.squeeze(tuple(ones) if axes is None else tuple(axes.tolist()))
