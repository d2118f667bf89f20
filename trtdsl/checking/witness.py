"""The engine's program as a third witness beside torch and the network, and the first launch that differs from it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..core.lazy import torch
from ..definition.network import Network
from ..engine.running.evaluate import evaluator_of
from ..interpreter.interpret import Interpreter
from ..layers.evaluation import Evaluate, Node
from ..programs.evaluation.evaluator import Step
from ..programs.launches import REARRANGING, parts

ROOM = {torch.float16: 2e-2, torch.bfloat16: 1e-1}
"""What a launch's values may be off by, of their scale; 1e-3 in float32."""

Feeds = Mapping[str, torch.Tensor]


class ProgramWitness:
    """An engine of a network, built here, whose program is evaluated on the CPU."""

    def __init__(self, network: Network):
        self.network = network
        self.evaluate = evaluator_of(network, observe=self._note)
        self.steps: list[tuple[Step, list[torch.Tensor]]] | None = None

    def __call__(self, feeds: Feeds) -> dict[str, torch.Tensor]:
        return self.evaluate(feeds)

    def _note(self, step: Step, results: Mapping[str, torch.Tensor]) -> None:
        if self.steps is not None:
            self.steps.append((step, [_sorted(result) for result in results.values()]))

    def first_difference(self, feeds: Feeds) -> str:
        """The first launch with a result that no layer of its lines has, whatever the order of the values.

        A launch is compared with the layers that stand at its lines and have as many values; one that has no such
        layer, or that only moves values, is not compared.
        """
        layers = self._layers(feeds)
        self.steps = []
        try:
            self.evaluate(feeds)
            for step, results in self.steps:
                if REARRANGING.issuperset(parts(step.name)):
                    continue
                for result in results:
                    known = [
                        layer for line in step.lines for layer in layers.get(line, ()) if len(layer) == len(result)
                    ]
                    if known and not any(_alike(layer, result) for layer in known):
                        return f"the first launch that differs from the network's layers is {str(step).rstrip(',')}"
        finally:
            self.steps = None
        return "no single launch differs from the network's layers: the engine differs where layers are fused"

    def _layers(self, feeds: Feeds) -> dict[str, list[torch.Tensor]]:
        """The results of the network's layers, their values sorted, by the author's line."""
        found: dict[str, list[torch.Tensor]] = {}

        def wrap(node: Node, evaluate: Evaluate) -> Evaluate:
            location = self.network.locations.get(node.name)

            def noted(*operands: Any) -> Any:
                results = evaluate(*operands)
                for result in results if isinstance(results, (list, tuple)) else [results]:
                    if location is not None and isinstance(result, torch.Tensor):
                        found.setdefault(location.short, []).append(_sorted(result))
                return results

            return noted

        Interpreter(self.network, wrap=wrap)(feeds)
        return found


def _sorted(value: torch.Tensor) -> torch.Tensor:
    return value.detach().reshape(-1).clone() if value.dtype == torch.bool else value.detach().reshape(-1).sort().values


def _alike(layer: torch.Tensor, result: torch.Tensor) -> bool:
    room = max(ROOM.get(layer.dtype, 1e-3), ROOM.get(result.dtype, 1e-3))
    expected, got = layer.double().nan_to_num(), result.double().nan_to_num()
    scale = float(expected.abs().max()) if len(expected) else 0.0
    return bool(((expected - got).abs() <= room * max(scale, 1e-30)).all())
