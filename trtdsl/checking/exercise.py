"""Whether a check exercises the network: outputs that are never finite or never change, weights that nothing uses."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from ..core.lazy import torch
from ..definition.network import Network
from .coverage import closure, depends_on_inputs, nodes_of

Feeds = Mapping[str, "torch.Tensor"]


@dataclass
class Exercise:
    """What is known of the outputs of all cases: whether they are finite, not empty, and change with the feeds.

    ``first`` is the first value of each output for feeds of some shapes.
    """

    finite: dict[str, bool] = field(default_factory=dict)
    present: dict[str, bool] = field(default_factory=dict)
    partly: dict[str, int] = field(default_factory=dict)
    cases: int = 0
    first: dict[tuple[str, tuple[int, ...]], tuple[torch.Tensor, Feeds]] = field(default_factory=dict)
    repeated: dict[str, int] = field(default_factory=dict)
    changed: set[str] = field(default_factory=set)

    def note(self, got: Mapping[str, torch.Tensor], feeds: Feeds) -> None:
        """Notes the outputs of one case."""
        self.cases += 1
        for name, tensor in got.items():
            self.present[name] = self.present.get(name, False) or tensor.numel() > 0
            finite = torch.isfinite(tensor) if tensor.is_floating_point() else torch.ones_like(tensor, dtype=torch.bool)
            self.finite[name] = self.finite.get(name, False) or bool(finite.any())
            if tensor.numel() and not bool(finite.all()):
                self.partly[name] = self.partly.get(name, 0) + 1
            if name in self.changed or not tensor.numel():
                continue
            key = name, tuple(size for feed in feeds.values() for size in feed.shape)
            first = self.first.get(key)
            if first is None:
                self.first[key] = tensor.clone(), feeds
            elif not all(name in feeds and torch.equal(feed, feeds[name]) for name, feed in first[1].items()):
                self.repeated[name] = self.repeated.get(name, 0) + 1
                same = first[0].shape == tensor.shape and torch.equal(first[0].nan_to_num(), tensor.nan_to_num())
                if not same:
                    self.changed.add(name)

    def constant(self, network: Network) -> list[str]:
        """The outputs that stayed the same for different feeds."""
        return [name for name in network.outputs if name not in self.changed and self.repeated.get(name)]

    def findings(self, network: Network, trivial: Collection[str]) -> list[str]:
        """One line for each output that shows nothing, except those in ``trivial``."""
        varying = depends_on_inputs(network, sizes=True) if network.inputs else set()
        lines, constant = [], self.constant(network)
        for name in network.outputs:
            problem = None
            if not self.present.get(name, True):
                problem = "is empty in every case"
            elif not self.finite.get(name, True):
                problem = "has no finite value in any case"
            elif network.inputs and name not in varying:
                problem = "depends on no input"
            elif name in constant and _is_float(network, name):
                problem = "is the same whatever is fed"
            if problem and name not in trivial:
                lines.append(f"output {name!r} {problem}: equal, but nothing is proven (trivial={name!r} allows it)")
        return lines

    def unproven(self, network: Network) -> list[str]:
        """One line for each finding that is worth knowing and is no error."""
        lines = []
        for name, n in self.partly.items():
            cases = (
                f"{n} of {self.cases} cases"
                if n < self.cases
                else "every case: are the inputs what the network expects?"
            )
            lines.append(f"output {name!r} is NaN or infinite in places, in {cases}")
        for name in self.constant(network):
            if not _is_float(network, name):
                lines.append(f"output {name!r} is the same whatever was fed")
        return lines


def _is_float(network: Network, output: str) -> bool:
    return network.outputs[output].dtype.is_floating_point


def weights_without_effect(network: Network, names: Collection[str], unused: Sequence[str] = ()) -> list[str]:
    """The weights among ``names`` that no output depends on; ``unused`` modules are left out."""
    definition, nodes = network.definition, nodes_of(network)
    outputs = {definition.get_output(index).name for index in range(definition.num_outputs)}
    ends = [node for node in nodes if not node.makes]
    needed = closure([(node.makes, node.needs) for node in nodes], outputs.union(*(node.needs for node in ends)))
    using = [*ends, *(node for node in nodes if not needed.isdisjoint(node.makes))]
    used = {name for node in using for name in network.weight_names.get(node.name, ())}
    known = tuple(f"{part}." for part in unused)
    return [name for name in names if name not in used and not f"{name}.".startswith(known)]
