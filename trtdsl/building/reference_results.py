"""What a reference computes, in short: by it a later build knows that it computes the same still.

The files of a reference and what they read are compared by their content. What else decides what it computes (the
command line, environment variables, the clock, what a program sets in its class) shows in its results alone.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..checking.check import LARGE, Run
from ..checking.judging.evidence import Evidence, Rules, gather
from ..checking.judging.outputs import Other
from ..checking.judging.recording import Asked
from ..checking.tried_sizes import elements, sizes_to_try
from ..core.errors import TrtdslError
from ..core.lazy import torch
from ..definition.network import Network
from ..definition.spec.spec import NetworkSpec
from ..definition.weights.source import Weights
from ..interpreter.feeds import DRAWS, has_draw
from ..interpreter.fingerprint import fingerprint
from ..sizes.profile import sizes_text

Results = dict[str, dict[str, Any]]
EXACT, ROUNDED = 1e-11, 1e-5
"""The parts of a sum that threads and machines may move it by: of exact values, and of rounded ones."""


def reference_results(spec: NetworkSpec, network: Network, weights: Weights | None) -> Results | None:
    """By sizes and kind of values, a hash of the calls that the reference makes and sums of its results.

    It runs at the cheapest size that a check tries and, where that is not large, there with every kind of values, and
    at the greatest size that is not large either. None where it fails. Of ranks that are checked together, the others'
    networks are told by their fingerprints.
    """
    cheapest, *larger = sorted(sizes_to_try(network), key=lambda env: elements(network, env))
    small = [env for env in (cheapest, *larger) if elements(network, env) <= LARGE]
    draws = [draw for draw in DRAWS if has_draw(spec.inputs, draw)] if small else ["normal"]
    cases = [*((cheapest, draw) for draw in draws), *((env, "normal") for env in small[1:][-1:])]
    ranks = [fingerprint(rank.definition, rank.backend) for rank in network.others()]
    found: Results = {"other ranks": {"sha256": " ".join(ranks), "limit": 0.0, "sums": []}} if ranks else {}
    try:
        run = Run(spec, network, "interpreter", 0, Rules.of_spec(spec), weights)
        reference = run.open_reference()
        for env, draw in cases:
            reference.recording.asked = calls = Calls(branches=True)
            evidence = gather(reference, run.feeds(env, draw), [*network.outputs], run.rules, "meaning")
            found[f"{draw} {sizes_text(env)}".strip()] = _summed(evidence, calls)
    except TrtdslError:  # a check tells it
        return None
    return found


def agree(results: Results | None, others: Results | None) -> bool:
    """Whether a reference gave the same twice, but for what threads and machines do to sums; of nothing it did not."""
    if not results or not others or results.keys() != others.keys():
        return False
    for one, two in zip(results.values(), (others[name] for name in results), strict=True):
        if one["sha256"] != two["sha256"] or len(one["sums"]) != len(two["sums"]):
            return False
        pairs = zip(one["sums"], two["sums"], strict=True)
        if any(abs(a - b) > one["limit"] * size for (a, size), (b, _) in pairs):
            return False
    return True


@dataclass
class Calls(Asked):
    """The calls of torch's functions with the numbers and shapes that they are given."""

    digest: Any = field(default_factory=hashlib.sha256)

    def answer(self, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        self.digest.update(f"{getattr(func, '__name__', '')} {_given(args)} {_given(kwargs)}\n".encode())
        return super().answer(func, args, kwargs)


def _given(value: Any) -> str:
    """Numbers, texts and shapes; of anything else its type alone."""
    if isinstance(value, torch.Tensor):
        return f"{value.dtype}{[*value.shape]}"
    if isinstance(value, Mapping):
        return str({str(name): _given(each) for name, each in value.items()})
    if isinstance(value, (list, tuple)):
        return str([_given(each) for each in value])
    if isinstance(value, slice):
        return _given((value.start, value.stop, value.step))
    plain = isinstance(value, (bool, int, float, complex, str, torch.dtype)) or value is None
    return str(value) if plain else type(value).__name__


def _summed(evidence: Evidence, calls: Calls) -> dict[str, Any]:
    """A hash of what is alike wherever the reference runs, and for each output a sum, beside that of its sizes.

    Each element counts with another weight, so that elements that change places change the sum.
    """
    sums = []
    for name, own in sorted(evidence.own.items()):
        if isinstance(own, Other):
            calls.digest.update(f"{name} {own.kind}\n".encode())
            continue
        value = (evidence.truth or {}).get(name, own)
        value = (torch.view_as_real(value.resolve_conj()) if value.is_complex() else value).detach().double().flatten()
        finite = torch.isfinite(value)
        calls.digest.update(f"{name} {own.dtype} {[*own.shape]} {value[~finite].tolist()}\n".encode())
        weights = torch.rand(len(value), generator=torch.Generator().manual_seed(len(value)), dtype=torch.float64)
        parts = torch.where(finite, value, torch.full_like(value, 0.5)) * (weights + 0.5) / max(len(value), 1)
        sums.append([float(parts.sum()), float(parts.abs().sum())])
    limit = ROUNDED if evidence.truth is None else EXACT
    return {"sha256": calls.digest.hexdigest(), "limit": limit, "sums": sums}
