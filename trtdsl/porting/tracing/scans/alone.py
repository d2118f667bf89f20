"""Calls that compute each place of a dimension alone: of the parts of a tensor, they give the parts of a whole."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ....core.lazy import torch
from ...calls import Op, SizeOf, SizeOp, Value, argument, leaves, pads_of, sizes_of, tensors_in
from ..names import CONVERSIONS, IN_PLACE, RANDOM, UNCHANGED

Axes = Mapping[Value, int]
"""Operands that have parts in their place, and the dimension of each in which these go on."""


class Together(Exception):
    """A call takes several places of the dimension together, or is not known."""


def axis_of_result(op: Op, axes: Axes, parts: Axes) -> int:
    """The dimension of what a call gives in which its parts go on; ``parts`` are all values that sizes may be of.

    Raises Together where it does not keep them alone.
    """
    if op.inner or op.form == "setitem" or op.name in RANDOM:
        raise Together
    if op.name in ("reshape", "view"):
        return _of_shape(op, axes, parts)
    if has_lengths((op.args, op.kwargs), parts):
        raise Together
    if op.name in RULES:
        return RULES[op.name](op, axes)
    if op.name in CONVERSIONS | UNCHANGED or _is_pointwise(op.name):
        return _of_pointwise(op, axes)
    raise Together


def is_in_place(qualified: str) -> bool:
    """Whether torch's function writes to its first operand."""
    name = qualified.rpartition(".")[2]
    if name.endswith("__"):
        return name.startswith("__i") and name[3:-2] in IN_PLACE
    return name.endswith("_")


def has_lengths(tree: Any, parts: Axes) -> bool:
    """Whether something in a tree is computed of how long a part is."""
    return any(parts.get(size.value) == size.axis for size in sizes_of(tree))


@functools.cache
def _is_pointwise(name: str) -> bool:
    packet = None if name == "prelu" else getattr(torch.ops.aten, name, None)  # its weights are of the second dimension
    overloads = [] if packet is None else packet.overloads()
    return any(torch.Tag.pointwise in getattr(packet, overload).tags for overload in overloads)


def _first(op: Op, axes: Axes) -> tuple[Value, int]:
    """The operand that is in parts, where it is the first and the only one."""
    first = op.args[0] if op.args else None
    if len(axes) != 1 or not isinstance(first, Value) or first not in axes:
        raise Together
    return first, axes[first]


def _of_pointwise(op: Op, axes: Axes) -> int:
    operands = tensors_in((op.args, op.kwargs))
    shape = torch.broadcast_shapes(*(each.shape for each in operands))
    if not isinstance(op.results, Value) or op.results.shape != tuple(shape):
        raise Together
    return _broadcast(operands, axes, len(shape))


def _broadcast(operands: Sequence[Value], axes: Axes, rank: int) -> int:
    """The dimension of what operands are together, of which the others have no size but 1 there."""
    ends = {axis - len(value.shape) for value, axis in axes.items()}
    if len(ends) != 1:
        raise Together
    end = ends.pop()
    if any(value not in axes and len(value.shape) >= -end and value.shape[end] != 1 for value in operands):
        raise Together
    return rank + end


def _of_matmul(op: Op, axes: Axes) -> int:
    a, b = op.args[:2]
    if len(a.shape) < 2 or len(b.shape) < 2:
        raise Together
    if axes == {a: len(a.shape) - 2} and a is not b:
        return len(op.results.shape) - 2
    if axes == {b: len(b.shape) - 1} and a is not b:
        return len(op.results.shape) - 1
    if any(axis >= len(value.shape) - 2 for value, axis in axes.items()):
        raise Together
    return _broadcast([a, b], axes, len(op.results.shape))


def _of_einsum(op: Op, axes: Axes) -> int:
    equation = op.args[0]
    operands = op.args[1] if isinstance(op.args[1], (list, tuple)) else op.args[1:]
    if not isinstance(equation, str) or "." in equation or "->" not in equation:
        raise Together
    given, result = equation.replace(" ", "").split("->")
    letters = {(term[axes[each]] if each in axes else "") for term, each in zip(given.split(","), operands)} - {""}
    letter = letters.pop() if len(letters) == 1 else ""
    others = (term for term, each in zip(given.split(","), operands) if each not in axes)
    if not letter or letter not in result or any(letter in term for term in others):
        raise Together
    if any(term.count(letter) > 1 for term in given.split(",")):
        raise Together
    return result.index(letter)


def _beside(op: Op, axes: Axes) -> int:
    """Of a function of the last dimensions: ``linear``, ``layer_norm``, and others by the name."""
    first, axis = _first(op, axes)
    shape = argument(op, 1, "normalized_shape")
    last = len(shape) if op.name.endswith("norm") and isinstance(shape, (list, tuple)) else 1
    if axis >= len(first.shape) - last:
        raise Together
    return axis


def _of_samples(op: Op, axes: Axes) -> int:
    """Of a function of samples, each for itself."""
    first, axis = _first(op, axes)
    digits = [int(each) for each in op.name if each.isdigit()]
    least = 4 if op.name.startswith("pixel") else 2 if op.name in ("batch_norm", "group_norm") else 3
    if axis or (digits and len(first.shape) != digits[-1] + 2) or (not digits and len(first.shape) < least):
        raise Together
    if op.name == "batch_norm" and argument(op, 5, "training", False) is not False:
        raise Together
    if op.name == "instance_norm" and argument(op, 5, "use_input_stats", True) is not True:
        raise Together
    return 0


def _of_pad(op: Op, axes: Axes) -> int:
    first, axis = _first(op, axes)
    pads = pads_of(op)
    if not isinstance(pads, (list, tuple)) or axis >= len(first.shape) - len(pads) // 2:
        raise Together
    return axis


def _dims(op: Op, place: int, rank: int) -> set[int]:
    dim = argument(op, place, "dim", argument(op, place, "axis"))
    dims = [dim] if isinstance(dim, int) else dim
    if not isinstance(dims, (list, tuple)) or not dims or not all(type(each) is int for each in dims):
        raise Together
    return {each % rank for each in dims}


def _along_others(op: Op, axes: Axes, place: int = 1) -> int:
    """Of a function along dimensions, which are others, and stay."""
    first, axis = _first(op, axes)
    if axis in _dims(op, place, len(first.shape)):
        raise Together
    return axis


def _reducing(op: Op, axes: Axes) -> int:
    first, axis = _first(op, axes)
    dims, kept = _dims(op, 1, len(first.shape)), argument(op, 2, "keepdim", op.kwargs.get("keepdims", False))
    if axis in dims or type(kept) is not bool:
        raise Together
    return axis if kept else axis - sum(each < axis for each in dims)


def _greatest(op: Op, axes: Axes) -> int:
    """Of the greatest along a dimension, or of two tensors."""
    return (_of_pointwise if len(op.args) > 1 and isinstance(op.args[1], Value) else _reducing)(op, axes)


def _numbers(op: Op, name: str) -> Sequence[Any]:
    """Numbers that a call is given in a list, or one by one."""
    listed = len(op.args) == 2 and isinstance(op.args[1], (list, tuple))
    return op.kwargs.get(name, op.args[1] if listed else op.args[1:])


def _of_shape(op: Op, axes: Axes, parts: Axes) -> int:
    """Of another shape, which has the dimension between as many elements as before."""
    first, axis = _first(op, axes)
    shape = _numbers(op, "shape")
    new, size = op.results.shape, first.shape[axis]
    for place, asked in enumerate(shape):
        before = new[:place] == first.shape[:axis]
        if isinstance(asked, SizeOf) and has_lengths(asked, parts):
            before = math.prod(new[:place]) == math.prod(first.shape[:axis])
        elif asked != -1:
            continue
        if before and new[place] == size and not has_lengths([*shape[:place], *shape[place + 1 :]], parts):
            return place
    raise Together


def _transposed(op: Op, axes: Axes) -> int:
    first, axis = _first(op, axes)
    rank = len(first.shape)
    if op.name in ("t", "T", "mT"):
        pair = [rank - 2, rank - 1]
        if rank < 2 or (rank != 2 and op.name != "mT"):
            raise Together
    else:
        pair = [argument(op, 1, "dim0", argument(op, 1, "axis0")), argument(op, 2, "dim1", argument(op, 2, "axis1"))]
    if not all(type(each) is int for each in pair):
        raise Together
    a, b = (each % rank for each in pair)
    return {a: b, b: a}.get(axis, axis)


def _permuted(op: Op, axes: Axes) -> int:
    first, axis = _first(op, axes)
    dims = _numbers(op, "dims")
    if not all(type(each) is int for each in dims):
        raise Together
    return [each % len(first.shape) for each in dims].index(axis)


def _unsqueezed(op: Op, axes: Axes) -> int:
    first, axis = _first(op, axes)
    dim = argument(op, 1, "dim")
    if type(dim) is not int:
        raise Together
    return axis + (dim % (len(first.shape) + 1) <= axis)


def _flattened(op: Op, axes: Axes) -> int:
    first, axis = _first(op, axes)
    rank = len(first.shape)
    start, end = argument(op, 1, "start_dim", 0) % rank, argument(op, 2, "end_dim", -1) % rank
    if start <= axis <= end and start < end:
        raise Together
    return axis - (end - start) * (end < axis)


def _squeezed(op: Op, axes: Axes) -> int:
    first, axis = _first(op, axes)
    dims = _dims(op, 1, len(first.shape))
    if axis in dims:
        raise Together
    return axis - sum(each < axis and first.shape[each] == 1 for each in dims)


def _parted(op: Op, axes: Axes) -> int:
    first, axis = _first(op, axes)
    if argument(op, 2, "dim", 0) % len(first.shape) == axis:
        raise Together
    return axis


INDEX = (int, slice, SizeOf, SizeOp, type(None), type(Ellipsis))


def _indexed(op: Op, axes: Axes) -> int:
    first, axis = _first(op, axes)
    index = op.args[1] if isinstance(op.args[1], tuple) else (op.args[1],)
    if any(isinstance(each, bool) or not isinstance(each, INDEX) for each in index):
        raise Together
    taken = sum(each is not None and each is not Ellipsis for each in index)
    before = place = 0
    for item in index:
        if item is None:
            place += 1
            continue
        many = len(first.shape) - taken if item is Ellipsis else 1
        if before <= axis < before + many:
            if item is not Ellipsis and item != slice(None):
                raise Together
            return place + axis - before
        before, place = before + many, place + (many if item is Ellipsis or isinstance(item, slice) else 0)
    return place + axis - before


def _joined(op: Op, axes: Axes) -> int:
    values = op.args[0]
    dim, rank = argument(op, 1, "dim", 0), len(values[0].shape)
    own = {axes.get(each) for each in values}
    axis = own.pop() if len(own) == 1 else None
    stacked = op.name == "stack"
    if axis is None or type(dim) is not int or (not stacked and dim % rank == axis):
        raise Together
    return axis + (stacked and dim % (rank + 1) <= axis)


def _as_first(op: Op, axes: Axes) -> int:
    """Of a function of each element, whose result may have a dimension more at the end."""
    return _first(op, axes)[1]


def _of_attention(op: Op, axes: Axes) -> int:
    """Of samples, or of queries, alone: a mask, or heads that are fewer, may be of several."""
    if len(op.args) != 3 or any(isinstance(each, Value) or each is True for each in leaves(op.kwargs)):
        raise Together
    query, *others = op.args
    if axes == dict.fromkeys(op.args, 0) or (axes == {query: len(query.shape) - 2} and query not in others):
        return axes[query]
    raise Together


WINDOWS = ("conv", "conv_transpose", "max_pool", "avg_pool", "adaptive_avg_pool", "adaptive_max_pool")
SAMPLES = {
    *(f"{kind}{n}d" for n in (1, 2, 3) for kind in WINDOWS),
    *("batch_norm", "instance_norm", "group_norm", "interpolate", "pixel_shuffle", "pixel_unshuffle"),
}  # fmt: skip
RULES: dict[str, Callable[[Op, Axes], int]] = {
    **dict.fromkeys(SAMPLES, _of_samples),
    **dict.fromkeys(("linear", "layer_norm", "rms_norm"), _beside),
    **dict.fromkeys(("softmax", "log_softmax", "cumsum", "cumprod", "glu"), _along_others),
    **dict.fromkeys(("sum", "mean", "amax", "amin", "logsumexp", "argmax", "argmin", "prod"), _reducing),
    **dict.fromkeys(("max", "min"), _greatest),
    **dict.fromkeys(("embedding", "one_hot", "zeros_like", "ones_like", "full_like"), _as_first),
    **dict.fromkeys(("transpose", "swapaxes", "t", "T", "mT"), _transposed),
    **dict.fromkeys(("chunk", "split"), _parted),
    **dict.fromkeys(("cat", "concat", "concatenate", "stack"), _joined),
    "pad": _of_pad,
    "matmul": _of_matmul,
    "bmm": _of_matmul,
    "einsum": _of_einsum,
    "permute": _permuted,
    "unsqueeze": _unsqueezed,
    "getitem": _indexed,
    "flatten": _flattened,
    "squeeze": _squeezed,
    "scaled_dot_product_attention": _of_attention,
}
