"""Recipes: what moves elements."""

from __future__ import annotations

import math
from typing import Any

import torch
from cases import trt

from . import DTYPES, FLOATS, INTEGERS, Trial, recipe

MOVED = (*DTYPES, torch.float8_e4m3fn)


@recipe("SHUFFLE")
def shuffle(t: Trial) -> Any:
    shape = t.shape()
    layer = t.add_shuffle(t.input(shape, t.pick(MOVED)))
    if t.maybe() and shape:
        layer.first_transpose = tuple(t.random.sample(range(len(shape)), len(shape)))
        shape = tuple(shape[axis] for axis in tuple(layer.first_transpose)[: len(shape)])
    if t.maybe(0.7):
        target = _factored(t, shape)
        if t.maybe(0.3) and target and 0 not in target:
            place = t.number(0, len(target) - 1)
            target = (*target[:place], -1, *target[place + 1 :])
        if t.maybe(0.3):
            layer.set_input(1, t.constant(torch.tensor(target, dtype=torch.int64)))
        else:
            layer.reshape_dims = target
        if 0 in target or t.maybe(0.2):
            layer.zero_is_placeholder = t.maybe(0.2)
        shape = target
    if t.maybe(0.3) and shape:
        layer.second_transpose = tuple(t.random.sample(range(len(shape)), len(shape)))
    return layer


def _factored(t: Trial, shape: tuple[int, ...]) -> tuple[int, ...]:
    """A shape of as many elements."""
    total = math.prod(shape)
    if total == 0:
        return tuple(t.random.sample((*shape, *(1,) * t.number(0, 8 - len(shape))), len(shape)))
    sizes: list[int] = []
    while total > 1 and len(sizes) < 7:
        size = t.pick([size for size in range(1, total + 1) if total % size == 0])
        sizes.append(size)
        total //= size
    return tuple(sizes) if total == 1 else (*sizes, total)


@recipe("SQUEEZE")
def squeeze(t: Trial) -> Any:
    shape = t.shape()
    ones = [axis for axis, size in enumerate(shape) if size == 1]
    axes = t.random.sample(ones, t.number(0, len(ones)))
    axes = [axis - len(shape) if t.maybe(0.3) else axis for axis in axes]
    x = t.input(shape, t.pick(MOVED))
    if t.maybe(0.1):
        t.sizes_matter = True
        return t.add_squeeze(x, None)
    return t.add_squeeze(x, t.constant(torch.tensor(axes, dtype=t.pick(INTEGERS))))


@recipe("UNSQUEEZE")
def unsqueeze(t: Trial) -> Any:
    shape = t.shape(0, 6)
    more = t.number(0, 8 - len(shape))
    axes = t.random.sample(range(len(shape) + more), more)
    axes = [axis - len(shape) - more if t.maybe(0.3) else axis for axis in axes]
    x = t.input(shape, t.pick(MOVED))
    return t.add_unsqueeze(x, t.constant(torch.tensor(axes, dtype=t.pick(INTEGERS))))


@recipe("SHAPE")
def shape(t: Trial) -> Any:
    return t.add_shape(t.input(t.shape(), t.pick(MOVED)))


@recipe("CONCATENATION")
def concatenation(t: Trial) -> Any:
    shape, dtype = t.shape(), t.pick(MOVED)
    axis = t.axis(shape)
    parts = [(*shape[:axis], t.size(), *shape[axis + 1 :]) if shape else () for _ in range(t.number(1, 3))]
    layer = t.add_concatenation([t.input(part, dtype) for part in parts])
    if t.maybe(0.9):
        layer.axis = axis
    return layer


@recipe("SLICE")
def slice(t: Trial) -> Any:
    shape, dtype = t.shape(1), t.pick(MOVED)  # without dimensions: docs/traps/builder-slice.md
    mode = t.pick(("STRICT_BOUNDS", "STRICT_BOUNDS", "WRAP", "CLAMP", "FILL", "REFLECT"))
    rows = []
    for length in shape:
        step = t.pick((1, 1, 2, -1))
        if mode == "STRICT_BOUNDS":
            first = t.number(0, max(length - 1, 0))
            room = (length - 1 - first) // step + 1 if step > 0 else first // -step + 1
            rows.append((first, t.number(0, room) if length else 0, step))
        else:
            rows.append((t.number(-3, length + 2), t.number(0, 6), step))
    t.may_fail = mode in ("WRAP", "CLAMP", "REFLECT") and 0 in shape
    columns = [tuple(row[k] for row in rows) for k in range(3)]
    layer = t.add_slice(t.input(shape, dtype), *columns)
    layer.mode = getattr(trt.SampleMode, mode)
    if t.maybe(0.4):
        for index, column in enumerate(columns, 1):
            if t.maybe(0.7):
                layer.set_input(index, t.constant(torch.tensor(column, dtype=t.pick((torch.int64, torch.int32)))))
    if mode == "FILL" and t.maybe():
        layer.set_input(4, t.operand(t.values((), dtype)))
    return layer


@recipe("SLICE")
def slice_of_axes(t: Trial) -> Any:
    shape, dtype = t.shape(1), t.pick(MOVED)
    axes = t.random.sample(range(len(shape)), t.number(1, len(shape)))
    sizes = tuple(t.number(0, shape[axis]) for axis in axes)
    layer = t.add_slice(t.input(shape, dtype), (0,) * len(axes), sizes, (1,) * len(axes))
    if t.maybe():
        layer.axes = tuple(axes)
    else:
        layer.set_input(5, t.constant(torch.tensor(axes, dtype=torch.int64)))
    return layer


@recipe("GATHER")
def gather(t: Trial) -> Any:
    shape, dtype = t.shape(1), t.pick(MOVED)
    axis, count = t.axis(shape), 0
    if t.maybe(0.3):
        count = t.number(0, min(axis, 2))
    sizes = (*shape[:count], *t.shape(0, 3))
    layer = t.add_gather(t.input(shape, dtype), t.input(sizes, t.pick(INTEGERS), 0, max(shape[axis] - 1, 0)), axis)
    if count:
        layer.num_elementwise_dims = count
    return layer


@recipe("GATHER")
def gather_elements(t: Trial) -> Any:
    shape, dtype = t.shape(1), t.pick(MOVED)
    axis = t.axis(shape)
    sizes = (*shape[:axis], t.size(), *shape[axis + 1 :])
    indices = t.input(sizes, t.pick(INTEGERS), 0, max(shape[axis] - 1, 0))
    layer = t.add_gather_v2(t.input(shape, dtype), indices, trt.GatherMode.ELEMENT)
    layer.axis = axis
    return layer


@recipe("GATHER")
def gather_nd(t: Trial) -> Any:
    shape, dtype = t.shape(1), t.pick(MOVED)
    count = t.number(0, min(len(shape) - 1, 2))
    depth = t.number(1, len(shape) - count)
    sizes = (*shape[:count], *t.shape(0, 2), depth)
    limit = max(min(shape[count : count + depth]) - 1, 0)
    layer = t.add_gather_v2(t.input(shape, dtype), t.input(sizes, t.pick(INTEGERS), 0, limit), trt.GatherMode.ND)
    if count:
        layer.num_elementwise_dims = count
    return layer


@recipe("SCATTER")
def scatter_elements(t: Trial) -> Any:
    shape, dtype = t.shape(1), t.pick(MOVED)
    axis = t.axis(shape)
    sizes = tuple(t.number(0, size) for size in shape)
    x, indices = t.input(shape, dtype), t.input(sizes, t.pick(INTEGERS), 0, max(shape[axis] - 1, 0))
    layer = t.add_scatter(x, indices, t.input(sizes, dtype), trt.ScatterMode.ELEMENT)
    layer.axis = axis
    return layer


@recipe("SCATTER")
def scatter_nd(t: Trial) -> Any:
    shape, dtype = t.shape(1), t.pick(MOVED)
    depth = t.number(1, len(shape))
    places = t.shape(0, 2)
    limit = min(shape[:depth])
    if limit == 0:
        places = (*places[:1], 0)
    x, indices = t.input(shape, dtype), t.input((*places, depth), t.pick(INTEGERS), 0, max(limit - 1, 0))
    return t.add_scatter(x, indices, t.input((*places, *shape[depth:]), dtype), trt.ScatterMode.ND)


@recipe("ONE_HOT")
def one_hot(t: Trial) -> Any:
    shape, dtype = t.shape(0, 6), t.pick(MOVED)
    indices, values = t.input(shape, torch.int32, -3, 4), t.operand(t.values((2,), dtype), static=True)
    depth = t.constant(torch.tensor(t.number(1, 4), dtype=torch.int32))
    return t.add_one_hot(indices, values, depth, t.number(-1, len(shape)))


@recipe("REVERSE_SEQUENCE")
def reverse_sequence(t: Trial) -> Any:
    shape, dtype = t.shape(2), t.pick(MOVED)
    batch, sequence = t.random.sample(range(len(shape)), 2)
    lengths = t.input((shape[batch],), t.pick(INTEGERS), min(1, shape[sequence]), shape[sequence])
    layer = t.add_reverse_sequence(t.input(shape, dtype), lengths)
    layer.batch_axis, layer.sequence_axis = batch, sequence
    return layer


@recipe("PADDING")
def padding(t: Trial) -> Any:
    shape = t.shape(4, 4) if t.maybe(0.8) else t.shape(2, 6)
    pre, post = (tuple(t.number(-1, 2) for _ in range(2)) for _ in range(2))
    return t.add_padding_nd(t.input(shape, t.pick(DTYPES if t.maybe(0.3) else FLOATS)), pre, post)


@recipe("ASSERTION")
def assertion(t: Trial) -> Any:
    x = t.input(t.shape(1, 8), t.pick(MOVED))
    condition = t.constant(torch.ones(t.number(0, 3), dtype=torch.bool))
    t.add_assertion(condition, "never")
    return t.add_identity(x)
