"""SHUFFLE, SQUEEZE, UNSQUEEZE: transposing and reshaping."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

from ..core.errors import DefinitionError, ShapeError
from ..core.lazy import torch
from ..core.memory import reshaped
from ..definition.network import MAX_DIMS, Network
from ..definition.operation import Operation, operation
from ..definition.tensor import Tensor, weight_names_of
from ..sizes.shape import Shape, shape_text
from ..sizes.size import SizeLike, bounds, is_static, product
from .base import add_layer, normalize_axis
from .evaluation import Evaluate, Node, evaluates
from .shape import size_tensor

T = TypeVar("T")


class ShuffleSteps(NamedTuple):
    """What one IShuffleLayer does: it transposes, reshapes (None: it does not) and transposes again."""

    first: tuple[int, ...]
    reshape: Shape | None
    second: tuple[int, ...]

    def after(self, earlier: ShuffleSteps) -> ShuffleSteps | None:
        """One layer's steps for two layers' that follow one another; None where it takes two.

        >>> heads = ShuffleSteps((0, 1), (8, 4, 16), (1, 0, 2))  # a reshape and a transpose
        >>> ShuffleSteps((1, 0, 2), (8, 64), (0, 1)).after(heads)  # and back
        ShuffleSteps(first=(0, 1), reshape=(8, 64), second=(0, 1))
        >>> ShuffleSteps((0, 1, 2), (32, 16), (0, 1)).after(heads) is None
        True
        """
        if earlier.reshape is None:
            return ShuffleSteps(_permuted(earlier.first, self.first), self.reshape, self.second)
        if self.reshape is None:
            return ShuffleSteps(earlier.first, earlier.reshape, _permuted(earlier.second, self.first))
        between = [axis for axis in _permuted(earlier.second, self.first) if earlier.reshape[axis] != 1]
        return ShuffleSteps(earlier.first, self.reshape, self.second) if between == sorted(between) else None

    def on(self, shape: Shape) -> ShuffleSteps:
        """The same for a tensor of that shape, without the reshape where it changes nothing."""
        if self.reshape is not None and self.reshape != _permuted(shape, self.first):
            return self
        return ShuffleSteps(_permuted(self.first, self.second), None, tuple(range(len(self.second))))

    def result(self, shape: Shape) -> Shape:
        """The shape that comes out of a tensor of that shape."""
        return _permuted(shape, self.first) if self.reshape is None else _permuted(self.reshape, self.second)

    def transposed_first(self, shape: Shape) -> ShuffleSteps:
        """The same for a tensor of that shape with all transposing before the reshape, where that is possible.

        >>> ShuffleSteps((0, 1, 2), (2, 3, 4, 5), (0, 3, 1, 2)).transposed_first((2, 12, 5))
        ShuffleSteps(first=(0, 2, 1), reshape=(2, 5, 3, 4), second=(0, 1, 2, 3))
        """
        identity = tuple(range(len(self.second)))
        if self.reshape is None or self.second == identity:
            return self
        groups = regrouped(_permuted(shape, self.first), self.reshape)
        if groups is None:
            return self
        place = {axis: number for number, (_, after) in enumerate(groups) for axis in after}
        runs = [place[axis] for axis in self.second]
        sequence = [number for k, number in enumerate(runs) if k == 0 or number != runs[k - 1]]
        inside = all(a < b for a, b, p, q in zip(self.second, self.second[1:], runs, runs[1:]) if p == q)
        if sorted(sequence) != list(range(len(groups))) or not inside:
            return self
        first = tuple(self.first[axis] for number in sequence for axis in groups[number][0])
        return ShuffleSteps(first, _permuted(self.reshape, self.second), identity)

    def along(self, shape: Shape, order: tuple[int, ...]) -> ShuffleSteps:
        """The same for a tensor of that shape whose dimensions lie in memory in that order, reshaped as they lie there.

        A transpose that follows the order moves nothing, and a reshape of what then lies as it is written is a view;
        what is left is the transpose after it. The steps themselves where a reshape tears the order apart.

        >>> ShuffleSteps((0, 1, 2, 3), (2, 64, 48), (0, 2, 1)).along((2, 64, 6, 8), (0, 2, 3, 1))  # channels last
        ShuffleSteps(first=(0, 2, 3, 1), reshape=(2, 48, 64), second=(0, 1, 2))
        """
        if self.reshape is None:
            return self
        before = _permuted(shape, self.first)
        groups = regrouped(before, self.reshape)
        lying = None if groups is None else _as_they_lie(groups, before, tuple(map(self.first.index, order)))
        if lying is None:
            return self
        first = tuple(self.first[axis] for sources, _ in lying for axis in sources)
        if [axis for axis in first if shape[axis] != 1] == [axis for axis in self.first if shape[axis] != 1]:
            return self
        axes = [axis for _, results in lying for axis in results]
        return ShuffleSteps(
            first,
            _permuted(self.reshape, axes),
            tuple(axes.index(axis) for axis in self.second),
        )

    def merged_along(self, shape: Shape, order: tuple[int, ...]) -> tuple[ShuffleSteps, Shape, tuple[int, ...]] | None:
        """The same, but that the last dimension merges others in the order in which they lie in memory.

        Also the sizes of those, as they were merged, and the permutation of them. None where the last dimension merges
        none, or as they lie, or where more would have to move.

        >>> flat = ShuffleSteps((0, 1, 2, 3), (2, 3072), (0, 1))  # of what lies channels last
        >>> flat.merged_along((2, 64, 6, 8), (0, 2, 3, 1))
        (ShuffleSteps(first=(0, 2, 3, 1), reshape=(2, 3072), second=(0, 1)), (64, 6, 8), (1, 2, 0))
        """
        if self.reshape is None or not self.second:
            return None
        before, lies = _permuted(shape, self.first), tuple(map(self.first.index, order))
        place = self.second[-1]
        sources = next(
            (sources for sources, results in regrouped(before, self.reshape) or () if results == (place,)), ()
        )
        merged = [axis for axis in sources if before[axis] != 1]
        lying = sorted(merged, key=lies.index)
        if lying == merged or not is_static(sizes := _permuted(before, merged)):
            return None
        first = list(self.first)
        for axis, other in zip(merged, lying, strict=True):
            first[axis] = self.first[other]
        before = _permuted(shape, first)
        groups = regrouped(before, self.reshape)
        if groups is None or _as_they_lie(groups, before, tuple(map(first.index, order))) is None:
            return None
        steps = ShuffleSteps(tuple(first), self.reshape, self.second)
        return steps, sizes, tuple(map(merged.index, lying))

    def order(self, shape: Shape, order: tuple[int, ...]) -> tuple[int, ...]:
        """In which order the result's dimensions lie in memory, where those of a tensor of that shape lie in ``order``.

        A reshape of dimensions that do not lie together copies: the result is row-major then.
        """
        lies = tuple(self.first.index(axis) for axis in order)
        if self.reshape is not None:
            before, after = _permuted(shape, self.first), self.reshape
            groups = regrouped(before, after)
            if groups is None:
                lies = tuple(range(len(after)))
            else:
                lies = _carried(groups, before, lies)
        return tuple(self.second.index(axis) for axis in lies)


class PendingShuffle:
    """A shuffle that has not become a layer yet, and the author's call that it is for."""

    __slots__ = ("operation", "source", "steps")

    def __init__(self, source: Tensor, steps: ShuffleSteps, operation: Operation):
        self.source, self.steps, self.operation = source, steps, operation

    def __call__(self) -> Tensor:
        with self.operation:
            return _added(self.source, self._along())

    def _along(self) -> ShuffleSteps:
        """The steps, reshaping in the order of memory where that is no worse.

        In half precision the builder has its own way from channels last to a product whose result attention takes
        apart, which moves less. What lies as it is written is left as the author has it, too.
        """
        source, steps = self.source, self.steps
        if source.dtype.itemsize < 4 or source.order == tuple(range(source.ndim)):
            return steps
        along = steps.along(source.shape, source.order)
        needs_tensor = _dims(source.shape, along) is None and _dims(source.shape, steps) is not None
        return steps if needs_tensor else along

    def order(self) -> tuple[int, ...]:
        """In which order the result's dimensions lie in memory."""
        return self.steps.order(self.source.shape, self.source.order)


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

    >>> x = td.Network().input("x", ("N", 3, 4))
    >>> shuffle(x, (0, 2, 1), (x.shape[0], 12)).shape
    (N, 12)
    """
    network, shape = x.network, x.shape
    first = identity = tuple(range(len(shape)))
    if first_transpose is not None:
        first = _permutation(first_transpose, identity)
        shape = _permuted(shape, first)
    if reshape is not None:
        _check_elements(network, shape, reshape := tuple(reshape))
        shape = reshape
    if len(shape) > MAX_DIMS:
        raise DefinitionError(f"{shape_text(shape)} has {len(shape)} dimensions; TensorRT has at most {MAX_DIMS}")
    if x.data is not None and reshape is not None and first_transpose is second_transpose is None and is_static(shape):
        return _reshaped(x, shape)
    second = identity = tuple(range(len(shape)))
    if second_transpose is not None:
        second = _permutation(second_transpose, identity)
        shape = _permuted(shape, second)
    source, steps = x, ShuffleSteps(first, reshape, second).on(x.shape)
    if isinstance(x.pending, PendingShuffle) and not x.is_layer:
        source, steps = _joined(x, x.pending, steps)
    if steps.reshape is None and steps.first == identity:
        return source
    if x.data is not None:
        return _added(x, steps)
    if not is_static(shape):
        for size in shape:
            network.constraints.not_negative(size, network.current_operation)
    call = network.current_operation
    assert call is not None
    pending = PendingShuffle(source, steps, call)
    return Tensor(network, shape, x.dtype, name="a shuffle", scope=call.scope or source.scope, pending=pending)


def _reshaped(x: Tensor, shape: Shape) -> Tensor:
    """A constant in another shape: a view of the same values."""
    if shape == x.shape:
        return x
    return Tensor(
        x.network, shape, x.dtype, data=reshaped(x.data, [int(n) for n in shape]), weight_names=weight_names_of([x])
    )


def _joined(x: Tensor, earlier: PendingShuffle, steps: ShuffleSteps) -> tuple[Tensor, ShuffleSteps]:
    """Where the steps begin, with those of the shuffle before them, which gives ``x``."""
    composed = steps.after(earlier.steps) or steps.after(earlier.steps.transposed_first(earlier.source.shape))
    if composed is None:
        return x, steps
    source = earlier.source
    composed = composed.on(source.shape)
    if composed.reshape is not None and _dims(source.shape, composed) is None and _dims(x.shape, steps) is not None:
        return x, steps  # together they would need a shape tensor
    return source, composed


def _added(x: Tensor, steps: ShuffleSteps) -> Tensor:
    """The layer, or its value where that of ``x`` is known."""
    first, reshape, second = steps
    dims = _dims(x.shape, steps)
    sizes = size_tensor(x.network, reshape) if reshape is not None and dims is None else None

    def add(target, x, sizes):
        layer = target.definition.add_shuffle(x)
        if layer is None:
            return None
        if first != tuple(range(len(first))):
            layer.first_transpose = first
        if sizes is not None:
            layer.set_input(1, sizes)
            layer.zero_is_placeholder = False
        elif reshape is not None:
            layer.reshape_dims = dims
            if 0 in reshape:
                layer.zero_is_placeholder = False
        if reshape is not None and second != tuple(range(len(second))):
            layer.second_transpose = second
        return layer

    evaluate = (lambda x: _shuffled(x, first, dims, second)) if sizes is None else None
    return add_layer(add, x, sizes, shape=steps.result(x.shape), evaluate=evaluate)


Groups = list[tuple[tuple[int, ...], tuple[int, ...]]]


def regrouped(before: Shape, after: Shape) -> Groups | None:
    """Which dimensions of a reshape become which others, as small groups; None where sizes do not tell.

    >>> regrouped((2, 12, 5), (2, 3, 4, 5))
    [((0,), (0,)), ((1,), (1, 2)), ((2,), (3,))]
    """
    if 0 in before or 0 in after:
        return None
    groups: Groups = []
    i = j = 0
    while i < len(before) and j < len(after):
        ends = (1, 1) if before[i] == after[j] else _equal_parts(before[i:], after[j:])
        if ends is None:
            return None
        groups.append((tuple(range(i, i + ends[0])), tuple(range(j, j + ends[1]))))
        i, j = i + ends[0], j + ends[1]
    if i < len(before) or j < len(after):  # what is left is of size 1
        groups.append((tuple(range(i, len(before))), tuple(range(j, len(after)))))
    return groups


def _equal_parts(before: Shape, after: Shape) -> tuple[int, int] | None:
    """How many dimensions at the start of either have the same elements: the fewest; at least one of each."""
    parts = list(itertools.accumulate(before, operator.mul))
    for count, want in enumerate(itertools.accumulate(after, operator.mul), start=1):
        if want in parts:
            return parts.index(want) + 1, count
    return None


def _carried(groups: Groups, before: Shape, lies: tuple[int, ...]) -> tuple[int, ...]:
    """The order of a reshape's result; row-major where dimensions are merged that do not lie together."""
    lying = _as_they_lie(groups, before, lies)
    if lying is None:
        return tuple(range(sum(len(results) for _, results in groups)))
    return tuple(axis for _, results in lying for axis in results)


def _as_they_lie(groups: Groups, before: Shape, lies: tuple[int, ...]) -> Groups | None:
    """The groups in the order in which they lie in memory; None where dimensions of one do not lie together."""
    solid = [axis for axis in lies if before[axis] != 1]
    places: list[tuple[int, int]] = []
    start = -1
    for number, (sources, _) in enumerate(groups):
        whole = [axis for axis in sources if before[axis] != 1]
        start = solid.index(whole[0]) if whole else start  # what is of size 1 stays beside its neighbour
        if whole and solid[start : start + len(whole)] != whole:
            return None
        places.append((start, number))
    return [groups[number] for _, number in sorted(places)]


def _permuted(values: Sequence[T], permutation: Sequence[int]) -> tuple[T, ...]:
    return tuple(map(values.__getitem__, permutation))


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
    return None if 0 in after else _placeholders(_permuted(shape, steps.first), after)


def _placeholders(before: Shape, after: Shape) -> tuple[int, ...] | None:
    """The sizes as TensorRT takes them: 0 copies the size at its place, -1 follows from the others.

    None where these cannot express them.
    """
    dims: list[int] = []
    for axis, size in enumerate(after):
        if isinstance(size, int):
            dims.append(size)
        elif axis < len(before) and before[axis] == size:
            dims.append(0)
        else:
            dims.append(-1)
    if -1 not in dims:
        return tuple(dims)
    others = [size for size, dim in zip(after, dims, strict=True) if dim != -1]
    alone = dims.count(-1) == 1 and all(bounds(size)[0] > 0 for size in others)  # of no elements nothing follows
    return tuple(dims) if alone else None


def _transposes(node: Node) -> bool:
    """Whether a shuffle transposes: a reshape alone moves nothing."""
    before, after = len(node.inputs[0].shape), len(node.outputs[0].shape)
    first, second = tuple(node.layer.first_transpose)[:before], tuple(node.layer.second_transpose)[:after]
    return first != tuple(range(before)) or second != tuple(range(after))


@evaluates("SHUFFLE", moves=_transposes)
def _shuffle(node: Node) -> Evaluate:
    """A reshape is a view where the transposes allow it. -1 is inferred and 0 copied, unless zero is no placeholder."""
    layer = node.layer
    ndim = len(node.inputs[0].shape)
    dynamic = node.has_input(1)
    # None means that nothing is reshaped; () reshapes to a scalar. bool(Dims()) is False for both.
    static = None if dynamic or layer.reshape_dims is None else tuple(layer.reshape_dims)
    first = tuple(layer.first_transpose)[:ndim]
    reshaped = ndim if not dynamic and static is None else len(node.outputs[0].shape)
    second = tuple(layer.second_transpose)[:reshaped]
    placeholder = layer.zero_is_placeholder

    def evaluate(x: torch.Tensor, sizes: torch.Tensor | None = None) -> torch.Tensor:
        dims = static if sizes is None else sizes.tolist()
        if dims is not None and placeholder:
            dims = [x.shape[first[axis]] if size == 0 else size for axis, size in enumerate(dims)]
        return _shuffled(x, first, dims, second)

    return evaluate


def _shuffled(
    x: torch.Tensor, first: tuple[int, ...], reshape: Sequence[int] | None, second: tuple[int, ...]
) -> torch.Tensor:
    if first != tuple(range(len(first))):
        x = x.permute(first)
    if reshape is not None:
        x = reshaped(x, reshape)
    return x if second == tuple(range(len(second))) else x.permute(second)


@operation
def unsqueeze(x: Tensor, axes: Sequence[int]) -> Tensor:
    """Inserts dimensions of size 1 at ``axes`` of the result.

    One IShuffleLayer, or IUnsqueezeLayer where sizes are dynamic.

    >>> unsqueeze(td.Network().input("x", ("N", "T", 3)), [0, 3]).shape
    (1, N, T, 1, 3)
    """
    ndim = x.ndim + len(axes)
    places = sorted(normalize_axis(axis, ndim) for axis in axes)
    if ndim > MAX_DIMS:
        raise DefinitionError(f"the result would have {ndim} dimensions; TensorRT has at most {MAX_DIMS}")
    sizes = iter(x.shape)
    shape: Shape = tuple(1 if axis in places else next(sizes) for axis in range(ndim))
    return _with_axes(
        lambda target, x, axes: target.definition.add_unsqueeze(x, axes), "IUnsqueezeLayer", x, places, shape
    )


def _with_axes(add: Callable[..., Any], layer: str, x: Tensor, places: Sequence[int], shape: Shape) -> Tensor:
    """``x`` with other dimensions of size 1, by a reshape or by the layer for it, where there is one."""
    if not places:
        return x
    if _placeholders(x.shape, shape) is not None or not hasattr(x.network.trt, layer):
        return shuffle(x, reshape=shape)
    return add_layer(add, x, x.network.constant(torch.tensor(places, dtype=torch.int64)), shape=shape)


@evaluates("UNSQUEEZE", moves=False)
def _unsqueeze(node: Node) -> Evaluate:
    def evaluate(x: torch.Tensor, axes: torch.Tensor) -> torch.Tensor:
        ndim = x.ndim + axes.numel()
        for axis in sorted(axis % ndim for axis in axes.tolist()):
            x = x.unsqueeze(axis)
        return x

    return evaluate


@operation
def squeeze(x: Tensor, axes: Sequence[int]) -> Tensor:
    """Removes the dimensions ``axes``, all of size 1: one IShuffleLayer, or ISqueezeLayer where sizes are dynamic.

    Raises ShapeError for a dimension that is known not to be 1.

    >>> squeeze(td.Network().input("x", ("N", 1, "T")), [1]).shape
    (N, T)
    """
    places = sorted(normalize_axis(axis, x.ndim) for axis in axes)
    for axis in places:
        if isinstance(x.shape[axis], int) and x.shape[axis] != 1:
            raise ShapeError(f"dimension {axis} of {shape_text(x.shape)} is not 1: it cannot be squeezed")
    shape: Shape = tuple(size for axis, size in enumerate(x.shape) if axis not in places)
    return _with_axes(lambda target, x, axes: target.definition.add_squeeze(x, axes), "ISqueezeLayer", x, places, shape)


@evaluates("SQUEEZE", moves=False)
def _squeeze(node: Node) -> Evaluate:
    """Without axes, all dimensions that are of size 1 in the network; dynamic ones stay, whatever size they have."""
    ones = tuple(axis for axis, size in enumerate(tuple(node.inputs[0].shape)) if size == 1)

    def evaluate(x: torch.Tensor, axes: torch.Tensor | None = None) -> torch.Tensor:
        return x.squeeze(ones if axes is None else tuple(axes.tolist()))

    return evaluate
