"""Whether a check exercises the network: outputs that are never finite or never change, weights that nothing uses."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from ..core.lazy import torch
from ..definition.network import Network
from ..interpreter.reading import closure, depends_on_inputs
from ..layers.evaluation import read_nodes

Feeds = Mapping[str, "torch.Tensor"]


@dataclass
class Exercise:
    """What is known of the outputs of all cases: whether they are finite, not empty, and change with the feeds."""

    cases: int = 0
    seen: Counter[tuple[str, str]] = field(default_factory=Counter)
    """In how many cases an output was what."""
    first: dict[tuple[str, tuple[int, ...]], tuple[torch.Tensor, Feeds]] = field(default_factory=dict)
    """The first value of each output for feeds of some shapes."""

    def note(self, got: Mapping[str, torch.Tensor], feeds: Feeds, own: Mapping[str, object]) -> None:
        """Notes the outputs of one case; ``own`` has torch's, which may overflow where exact values do not."""
        self.cases += 1
        for name, value in got.items():
            given = own.get(name)
            finite = torch.isfinite(given if isinstance(given, torch.Tensor) else value)
            self.seen[name, "present"] += value.numel() > 0
            self.seen[name, "finite"] += bool(finite.any())
            self.seen[name, "not finite"] += not bool(finite.all())
            if self.seen[name, "changed"] or not value.numel():
                continue
            key = name, tuple(size for feed in feeds.values() for size in feed.shape)
            before, fed = self.first.setdefault(key, (value.clone(), feeds))
            if not all(torch.equal(feed, fed[input]) for input, feed in feeds.items()):
                same = before.shape == value.shape and torch.equal(before.nan_to_num(), value.nan_to_num())
                self.seen[name, "the same" if same else "changed"] += 1

    def stays_the_same(self, name: str) -> bool:
        """Whether an output stayed the same for different feeds."""
        return bool(self.seen[name, "the same"]) and not self.seen[name, "changed"]

    def undecided(self, network: Network) -> bool:
        """Whether an output of fractions stayed the same so far."""
        return any(self.stays_the_same(name) for name, each in network.outputs.items() if each.dtype.is_floating_point)

    def findings(self, network: Network, trivial: Collection[str]) -> list[str]:
        """One line for each output that shows nothing, except those in ``trivial``."""
        varying = depends_on_inputs(network, sizes=True) if network.inputs else set()
        lines = []
        for name, tensor in network.outputs.items():
            problems = {
                "is empty in every case": not self.seen[name, "present"],
                "has no finite value in any case": not self.seen[name, "finite"],
                "depends on no input": bool(network.inputs) and name not in varying,
                "is the same whatever is fed": tensor.dtype.is_floating_point and self.stays_the_same(name),
            }
            problem = next((text for text, is_so in problems.items() if is_so), None)
            if problem and name not in trivial:
                lines.append(f"output {name!r} {problem}: equal, but nothing is proven (trivial={name!r} allows it)")
        return lines

    def unproven(self, network: Network) -> list[str]:
        """One line for each finding that is worth knowing and is no error."""
        lines = []
        for name, tensor in network.outputs.items():
            if count := self.seen[name, "not finite"]:
                every = "every case: are the inputs what the network expects?"
                cases = f"{count} of {self.cases} cases" if count < self.cases else every
                lines.append(f"output {name!r} is NaN or infinite in places, in {cases}")
            if self.stays_the_same(name) and not tensor.dtype.is_floating_point:
                lines.append(f"output {name!r} is the same whatever was fed")
        return lines


def weights_without_effect(network: Network, names: Collection[str], unused: Sequence[str] = ()) -> list[str]:
    """The weights among ``names`` that no output depends on; ``unused`` modules are left out."""
    definition, nodes = network.definition, read_nodes(network.backend, network.definition)
    outputs = {definition.get_output(index).name for index in range(definition.num_outputs)}
    ends = [node for node in nodes if not node.makes]
    needed = closure([(node.makes, node.needs) for node in nodes], outputs.union(*(node.needs for node in ends)))
    using = [*ends, *(node for node in nodes if not needed.isdisjoint(node.makes))]
    used = {name for node in using for name in network.layers[node.name].weights}
    known = tuple(f"{part}." for part in unused)
    return [name for name in names if name not in used and not f"{name}.".startswith(known)]
