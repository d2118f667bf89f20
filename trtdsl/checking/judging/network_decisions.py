"""The decisions that a network takes: the tensors in which those of a reference may be found again.

They are no more than a proposal. The reference takes of them what its own rounding leaves open, or what follows from
values that are as accurate as those of an output must be, and nothing else: see :mod:`.decisions`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from ...core.dtypes import dtype_name
from ...core.lazy import torch
from ...definition.network import Network
from ...interpreter.interpret import Interpreter
from ...layers.base import axes_of
from ...layers.evaluation import Evaluate, Node
from ..coverage import depends_on_inputs
from .equality import WORST_FLOOR, Tolerance, judge

ROUNDINGS = {"FLOOR", "CEIL", "ROUND", "SIGN"}
COMPARISONS = {"GREATER": 1, "LESS": -1}
ROOM = 1 << 27  # elements that are kept of one run
NEAR = 2.0  # times torch's own error that its values may be off and still be of a run with the same decisions
BLOCKS = 64  # of one tensor that are looked through: samples of a batch, steps of a loop


class Order(NamedTuple):
    """What a layer sorts, the greatest first along the last of two axes, and the places in that order."""

    keys: torch.Tensor
    places: torch.Tensor


class Sides(NamedTuple):
    """What a layer decides of each element. ``keys`` is what it rounds, or how much greater the first operand is."""

    keys: torch.Tensor | None
    result: torch.Tensor


@dataclass
class Proposal:
    """The decisions of one evaluation of a network."""

    orders: list[Order] = field(default_factory=list)
    sides: list[Sides] = field(default_factory=list)
    room: int = ROOM

    def add(self, node: Node, operands: Sequence[Any], outputs: Any) -> None:
        """Keeps what a layer decides."""
        output = outputs[-1] if isinstance(outputs, tuple) else outputs
        self.room -= output.numel() + operands[0].numel()
        if self.room < 0 or not output.numel():
            return
        if node.type == "TOPK":
            (axis,) = axes_of(node.layer.axes, output.ndim)
            keys, places = (part.movedim(axis, -1) for part in (operands[0], output.long()))
            keys = keys if node.layer.op.name == "MAX" else -keys
            self.orders.append(Order(keys.flatten(0, -2), places.flatten(0, -2)))
            return
        keys = None
        if node.type == "ELEMENTWISE" and node.layer.op.name in COMPARISONS and operands[0].is_floating_point():
            sign = COMPARISONS[node.layer.op.name]
            keys = (sign * (operands[0].double() - operands[1].double())).expand(output.shape).flatten()
        elif node.type in ("UNARY", "CAST") and operands[0].is_floating_point():
            keys = operands[0].flatten()
        self.sides.append(Sides(keys, output.clone().flatten()))

    def order_blocks(self, rows: int, size: int) -> Iterator[Order]:
        """Orders of so many rows of a size: each sample of a batch by itself."""
        for keys, places in self.orders:
            count, left = divmod(len(keys), rows)
            if not left and count <= BLOCKS and keys.shape[-1] == size:
                yield from map(Order, keys.reshape(count, rows, -1), places.reshape(count, rows, -1))

    def side_blocks(self, count: int, *, bools: bool) -> Iterator[Sides]:
        """What was decided of so many elements at once, in blocks of these, (…, count)."""
        for keys, result in self.sides:
            if result.numel() % count == 0 and (result.dtype == torch.bool) == bools:
                yield Sides(None if keys is None else keys.reshape(-1, count), result.reshape(-1, count))


@dataclass(frozen=True)
class OwnError:
    """Torch's own error in what a call compares, and what a network may have for it."""

    rms: float
    worst: float
    tolerance: Tolerance
    dtype: torch.dtype

    @property
    def limit(self) -> tuple[float, float]:
        """How far apart two values may be and still be open: a constant, and a part of the values."""
        return 2 * self.tolerance.rms * self.rms, 2 * self.floor

    @property
    def floor(self) -> float:
        return self.tolerance.floor_of(dtype_name(self.dtype))

    def distance(self, keys: torch.Tensor, own: torch.Tensor, true: torch.Tensor, sizes: torch.Tensor) -> float | None:
        """The error of a network's values; None where they are not as accurate as those of an output must be.

        ``own`` are torch's; they count where they were made with the same decisions as the ``true`` ones.
        """
        plain = torch.isfinite(true) & torch.isfinite(keys)
        if not bool(plain.any()) or not torch.equal(torch.isfinite(true), torch.isfinite(keys)):
            return None
        error, scale = (torch.where(plain, part, 0.0) for part in (keys - true, sizes))
        size, found = (float(part.square().mean().sqrt()) for part in (scale, error))
        if found > self.tolerance.rms * self.rms + self.floor * size:
            return None
        if float(error.abs().max()) > self.tolerance.worst * self.worst + WORST_FLOOR * self.floor * float(scale.max()):
            return None
        if not self.is_of(own, true, sizes):
            return found
        level = float(torch.where(plain, true, 0.0).square().mean().sqrt())
        tolerance = replace(self.tolerance, floor=self.floor * max(1.0, size / level)) if level else self.tolerance
        result = judge("", keys, own.double(), true, tolerance=tolerance, precision=self.dtype)
        return found if result.passed else None

    def is_of(self, own: torch.Tensor, true: torch.Tensor, sizes: torch.Tensor) -> bool:
        """Whether torch's own values were made with the same decisions as the true ones: they are as near as before."""
        if own.shape != true.shape:
            return False
        error, scale = (torch.where(torch.isfinite(part), part, 0.0) for part in (own.double() - true, sizes.double()))
        far = NEAR * self.rms + self.floor * float(scale.square().mean().sqrt())
        return float(error.square().mean().sqrt()) <= far


def decides(network: Network) -> bool:
    """Whether a network sorts, compares or rounds what depends on its inputs."""
    varying, definition = depends_on_inputs(network), network.definition
    nodes = (Node(network.backend, definition.get_layer(index)) for index in range(definition.num_layers))
    return any(_decides(node) and not varying.isdisjoint(node.makes) for node in nodes)


def proposals(network: Network) -> Callable[[Mapping[str, torch.Tensor]], Proposal]:
    """A function from feeds to the decisions that the network takes for them."""
    ready: list[tuple[Interpreter, list[Proposal]]] = []

    def propose(feeds: Mapping[str, torch.Tensor]) -> Proposal:
        if not ready:
            kept: list[Proposal] = []
            ready.append((_watching(network, kept), kept))
        interpreter, kept = ready[0]
        kept[:] = [Proposal()]
        interpreter(feeds)
        return kept.pop()

    return propose


def _watching(network: Network, kept: list[Proposal]) -> Interpreter:
    varying = depends_on_inputs(network)

    def wrap(node: Node, evaluate: Evaluate) -> Evaluate:
        if varying.isdisjoint(node.makes) or not _decides(node):
            return evaluate

        def watched(*operands: Any) -> Any:
            outputs = evaluate(*operands)
            if kept:
                kept[0].add(node, operands, outputs)
            return outputs

        return watched

    return Interpreter(network, wrap=wrap)


def _decides(node: Node) -> bool:
    if node.type == "UNARY" and node.layer.op.name in ROUNDINGS:
        return True
    if node.type in ("SHUFFLE", "SLICE", "CONCATENATION", "GATHER", "LOOP_OUTPUT", "RECURRENCE"):
        return False
    last = len(node.outputs) - 1
    return last >= 0 and not node.output_dtype(last).is_floating_point
