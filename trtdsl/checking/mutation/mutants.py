"""Mutants: a layer with one attribute, operand or weight changed slightly, as an author's mistake would change it.

A mutant is evaluated by the layer's own evaluator, which reads the changed attribute, or by a function around it.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ...core.dtypes import dtype_name
from ...core.lazy import np, torch
from ...layers.base import axes_of
from ...layers.constant import Values, read_weights
from ...layers.evaluation import KINDS, Evaluate, Node, kind, weights_of
from ...layers.region import mistakes_of

HALVES = ("float16", "bfloat16")


class Altered:
    """A layer with some attributes replaced."""

    def __init__(self, layer: Any, **attributes: Any):
        self._layer, self._attributes = layer, attributes

    def __getattr__(self, name: str) -> Any:
        attributes = self._attributes
        return attributes[name] if name in attributes else getattr(self._layer, name)


@dataclass(frozen=True)
class Mutant:
    """One change of one layer: another ``layer`` for the evaluator to read, or a function ``instead`` of it."""

    node: Node
    change: str
    layer: Altered | None = None
    instead: Evaluate | None = None

    def evaluate(self) -> Evaluate:
        """The changed layer's evaluator."""
        node = self.node
        if self.layer is not None:
            node = copy.copy(node)
            node.layer = self.layer
        return self.around(kind(node).prepare(node))

    def around(self, evaluate: Evaluate) -> Evaluate:
        """What stands for an evaluator."""
        return evaluate if self.instead is None else functools.partial(self.instead, evaluate)


def mutants(node: Node) -> Iterator[Mutant]:
    """The mutants of a layer. For a layer without any, one mutant makes its result a little greater.

    >>> net = td.Network()
    >>> y = F.softmax(net.input("x", (2, 8)), 1)
    >>> [mutant.change for mutant in mutants(td.Interpreter(net).nodes[0])]
    ['axis 0 for 1', 'left out']
    """
    mistakes = mistakes_of(node.type)
    found = [Mutant(node, change, layer) for change, layer in _attributes(node)]
    if mistakes.left_out and node.inputs[0].dtype == node.outputs[0].dtype:
        found.append(Mutant(node, "left out", instead=lambda f, x, *rest: x))
    if node.type == "CONSTANT":
        found.append(Mutant(node, "moved", instead=lambda f: moved(f())))
    instead = {change: make(node) for change, make in mistakes.instead.items()}
    found += [Mutant(node, change, instead=function) for change, function in instead.items() if function is not None]
    still = node.type in KINDS and not KINDS[node.type].computes  # there is nothing to scale
    if not found and node.outputs and not still and node.dtype.is_floating_point:
        part = 1 / 8 if dtype_name(node.dtype) in HALVES else 1 / 50
        found.append(Mutant(node, f"result x {1 + part:g}", instead=lambda f, *x: _scaled(f(*x), 1 + part)))
    yield from found


# -- another attribute -------------------------------------------------------------------------------------------------

UNLIMITED = 1e30  # a bound without effect


def _attributes(node: Node) -> Iterator[tuple[str, Altered]]:
    layer, found = node.layer, mistakes_of(node.type)
    for attribute, table in found.members.items():
        member = getattr(layer, attribute)
        if other := table.get(member.name):
            yield f"{other} for {member.name}", Altered(layer, **{attribute: getattr(member.__class__, other)})
    for attribute in found.flags:
        if found.uses(layer, attribute):
            value = getattr(layer, attribute)
            yield f"{attribute} {not value} for {value}", Altered(layer, **{attribute: not value})
    for attribute, change in found.numbers.items():
        if found.uses(layer, attribute) and abs(value := getattr(layer, attribute)) < UNLIMITED:
            yield f"{attribute} {change(value):g} for {value:g}", Altered(layer, **{attribute: change(value)})
    if found.axes:
        yield from _moved_axis(node)
    if found.windows:
        yield from _moved_window(node)
    if node.type == "ATTENTION_INPUT":
        yield from _attention(node)
    if node.type != "CONSTANT":
        yield from _weights(node)


def _moved_axis(node: Node) -> Iterator[tuple[str, Altered]]:
    """The last axis that the layer works over, moved to the nearest axis that it does not work over."""
    shape = tuple(node.inputs[0].shape)
    axes = axes_of(node.layer.axes, len(shape))
    free = [axis for axis in range(len(shape)) if axis not in axes and shape[axis] != 1]
    if free and axes:
        axis = min(free, key=lambda axis: abs(axis - axes[-1]))
        mask = sum(1 << kept for kept in (*axes[:-1], axis))
        yield f"axis {axis} for {axes[-1]}", Altered(node.layer, axes=mask)


def _moved_window(node: Node) -> Iterator[tuple[str, Altered]]:
    """One element of padding moved to the other side; the padding counted or not."""
    layer = node.layer
    pre, post = tuple(layer.pre_padding), tuple(layer.post_padding)
    if layer.padding_mode.name.startswith("EXPLICIT"):
        side, by = ("before", -1) if any(pre) else ("after", 1)
        axis = max((index for index, size in enumerate(pre if any(pre) else post) if size), default=None)
        if axis is not None:
            moved = {"pre_padding": _added(pre, axis, by), "post_padding": _added(post, axis, -by)}
            yield f"one element of padding not {side} dimension {axis - len(pre)}", Altered(layer, **moved)
    else:
        other = {"SAME_UPPER": "SAME_LOWER", "SAME_LOWER": "SAME_UPPER"}[layer.padding_mode.name]
        member = layer.padding_mode.__class__
        yield f"{other} for {layer.padding_mode.name}", Altered(layer, padding_mode=getattr(member, other))
    if node.type == "POOLING" and layer.type.name != "MAX" and any((*pre, *post)):
        flag = layer.average_count_excludes_padding
        yield f"padding counted {flag}", Altered(layer, average_count_excludes_padding=not flag)


def _added(sizes: tuple[int, ...], axis: int, number: int) -> tuple[int, ...]:
    return (*sizes[:axis], sizes[axis] + number, *sizes[axis + 1 :])


def _attention(node: Node) -> Iterator[tuple[str, Altered]]:
    attention = node.layer.attention
    kinds = attention.causal_kind.__class__
    for other in {"NONE": ("UPPER_LEFT",), "UPPER_LEFT": ("NONE", "LOWER_RIGHT")}.get(
        attention.causal_kind.name, ("UPPER_LEFT",)
    ):
        changed = Altered(attention, causal_kind=getattr(kinds, other))
        yield f"causal {other} for {attention.causal_kind.name}", Altered(node.layer, attention=changed)


# -- weights -----------------------------------------------------------------------------------------------------------


def _weights(node: Node) -> Iterator[tuple[str, Altered]]:
    """Each weight moved, and each weight that is added or multiplied left out."""
    for name, flat in _given(node):
        yield f"{name} moved", Altered(node.layer, **{name: Values(moved(flat))})
        if name != "kernel":
            yield f"{name} left out", Altered(node.layer, **{name: np.empty(0, np.float32)})


def _given(node: Node) -> Iterator[tuple[str, torch.Tensor]]:
    """The weights that a layer has, flat."""
    for name in weights_of(node):
        weights = getattr(node.layer, name)
        if weights.size:
            yield name, read_weights(node.backend, weights, (weights.size,), node.input_dtype())


def moved(values: torch.Tensor) -> torch.Tensor:
    """Other values: each float by a fiftieth of itself and of their size, an eighth for the half types; of integers and
    bool the last.

    >>> moved(torch.tensor([1.0, -2.0])), moved(torch.tensor([3, 4]))
    (tensor([ 1.0516, -2.0084]), tensor([3, 5]))
    """
    if not values.numel():
        return values
    if not values.is_floating_point():
        flat = values.clone().flatten()
        flat[-1] = ~flat[-1] if values.dtype == torch.bool else flat[-1] + 1
        return flat.reshape(values.shape)
    part = 1 / 8 if dtype_name(values.dtype) in HALVES else 1 / 50
    wide = values.float()
    finite = torch.where(torch.isfinite(wide) & (wide.abs() < UNLIMITED), wide, 0.0)
    size = float(finite.square().mean().sqrt()) or 1.0
    return torch.where(finite == wide, wide * (1 + part) + part * size, wide).to(values.dtype)


def varied(node: Node, factor: float, generator: torch.Generator) -> Evaluate | None:
    """The evaluator of a layer with other weights of that size, for layers that have weights; else None."""

    def another(values: torch.Tensor) -> torch.Tensor:
        if not values.is_floating_point():
            return values
        wide = values.float()
        spread = torch.rand(wide.shape, generator=generator) + 0.5
        size = float(wide.square().mean().sqrt()) if wide.numel() else 0.0
        more = torch.randn(wide.shape, generator=generator) * (0.1 * factor * size)
        return (wide * spread * factor + more).to(values.dtype)

    given = {name: Values(another(flat)) for name, flat in _given(node) if name != "power"}
    return Mutant(node, "", Altered(node.layer, **given)).evaluate() if given else None


def _scaled(result: Any, factor: float) -> Any:
    if isinstance(result, tuple):
        return (_scaled(result[0], factor), *result[1:])
    return (result.float() * factor).to(result.dtype)
