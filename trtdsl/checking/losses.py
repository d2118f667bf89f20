"""Where a network's precision is lost: how far each call's results are from their exact values, beside its operands."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from ..core.lazy import torch
from ..definition.network import Network
from ..definition.tuning.choices import Site
from ..interpreter.interpret import Interpreter
from .judging.quality import sqnr


@dataclass(frozen=True)
class Loss:
    """What one call loses, in decibels: its rounding, and what it makes of the noise that it is given."""

    line: str
    call: str
    dtype: str
    before: float
    """SQNR of the worst of its operands; infinite where they are exact."""
    after: float
    """SQNR of its result."""

    def __str__(self) -> str:
        given = "exact operands" if math.isinf(self.before) else f"{self.before:.1f} dB"
        return f"{self.line}: {self.call} in {self.dtype}: {given} → {self.after:.1f} dB"


def precision_losses(network: Network, feeds: Mapping[str, torch.Tensor]) -> list[Loss]:
    """What each call of a network loses whose calls have a precision each, those that lose most first.

    One evaluation in both arithmetics. The network is defined with ``exact=True`` and has a precision per call.

    >>> network = td.Network()
    >>> precision_losses(network, {})
    []
    """
    if network.policy is None or network.policy.calls is None:
        return []
    sites = {site.key: site for site in network.policy.calls.sites}
    exact = network.exact_values()
    found: dict[str, float] = {}

    def observe(name: str, value: torch.Tensor) -> None:
        with torch._C._DisableTorchDispatch(), torch._C.DisableTorchFunction():  # which would measure exact values
            if value.is_floating_point() and value.numel():
                found[name] = sqnr(value.detach(), exact.of(value))

    with exact:
        interpreter = Interpreter(network)
        interpreter({name: feed.clone() for name, feed in feeds.items()}, observe=observe)
    before: dict[Site, float] = {}
    after: dict[Site, float] = {}
    makers: dict[str, Site] = {}
    for part in (step.part for step in interpreter.steps):
        call = network.layers[part.name].call
        site = None if call is None or call.site is None else sites.get(call.site)
        if site is None:
            continue
        given = [found[name] for name in part.needs if name in found and makers.get(name) is not site]
        before[site] = min([before.get(site, math.inf), *given])
        results = [found[name] for name in part.makes if name in found]
        makers |= dict.fromkeys(part.makes, site)
        if results and part.needs:
            after[site] = min(results)
    losses = [
        Loss(site.location.short, site.key.function, site.lowering, before[site], value)
        for site, value in after.items()
    ]
    return sorted(losses, key=lambda each: each.after - min(each.before, 200.0))  # that of exact operands
