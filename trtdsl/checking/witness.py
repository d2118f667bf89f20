"""The engine's program as a third witness beside torch and the network, and the first launch that differs from it."""

from __future__ import annotations

from collections.abc import Mapping

from ..core.lazy import torch
from ..definition.network import Network
from ..engine.compiling.compiler import compile_engine
from ..engine.compiling.config import BuildConfig
from ..engine.running.evaluate import evaluator_of_plan
from ..engine.running.trace import Trace, first_unlike, sorted_values
from ..interpreter.interpret import Interpreter
from .tried_sizes import Point

Feeds = Mapping[str, torch.Tensor]


class ProgramWitness:
    """An engine of a network, given or built here, whose programs are evaluated on the CPU: one for each profile."""

    def __init__(self, network: Network, plan: bytes | None = None):
        self.network, self.trace = network, Trace()
        data = compile_engine(network, BuildConfig(tf32=False)).data if plan is None else plan
        count = max(len(network.profiles), 1)
        self.programs = [evaluator_of_plan(data, network, index, self.trace) for index in range(count)]

    def profiles_at(self, dims: Point) -> list[int]:
        """The profiles that serve these sizes."""
        profiles = self.network.profiles
        return [index for index, profile in enumerate(profiles) if profile.holds(dims)] if profiles else [0]

    def first_difference(self, feeds: Feeds, profile: int) -> str:
        """The first launch with a result that no layer of its lines has."""
        known = self._layers(feeds)
        with self.trace.kept() as steps:
            self.programs[profile](feeds)
            found = first_unlike(steps, known)
        if found is None:
            return "no single launch differs from the network's layers: the engine differs where layers are fused"
        return f"the first launch that differs from the network's layers is {str(found[0]).rstrip(',')}"

    def _layers(self, feeds: Feeds) -> dict[str, list[torch.Tensor]]:
        """The results of the network's layers, their values sorted, by the author's line."""
        found: dict[str, list[torch.Tensor]] = {}
        interpreter = Interpreter(self.network)

        def observe(name: str, value: torch.Tensor) -> None:
            location = self.network.layers[interpreter.makers.get(name, "")].location
            if location is not None:
                found.setdefault(location.short, []).append(sorted_values(value))

        interpreter(feeds, observe=observe)
        return found
