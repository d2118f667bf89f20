"""A network however it came: a spec, one that is written already, or the name of a file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from os import PathLike
from typing import Any

from ...core.errors import UsageError
from ...core.lazy import torch
from ..network import Network
from ..weights.source import Source, Weights
from .load import load_spec
from .reference import as_reference
from .spec import NetworkSpec

NetworkLike = NetworkSpec | Network | str | PathLike[str]
Reference = str | Callable[[], "torch.nn.Module"]
"""``"FILE.py:CLASS"``, what makes a module, or a module itself, which is a callable."""


@dataclass(frozen=True)
class WrittenSpec(NetworkSpec):
    """The spec of a :class:`Network` that is written already: its definition is that network."""

    network: Network | None = None

    def define(self, **options: Any) -> Network:
        """The network, whose constants are ``exact`` or not. UsageError for other options, which came too late."""
        options.pop("exact", None)
        given = [f"{name}=" for name, value in options.items() if value is not None and value is not False]
        if given or self.network is None:
            raise UsageError(f"the network {self.name!r} is written already: {', '.join(given)} would change nothing")
        self.network.check_states()
        return self.network

    def open_weights(self, weights: Source | None = None) -> Weights | None:
        """None. UsageError for weights, which came too late."""
        self.define(weights=weights)
        return None

    def _ask_for_reference(self) -> str:
        return "give td.check its reference=, a torch module"


def as_spec(source: NetworkLike, reference: Reference | None = None) -> NetworkSpec:
    """The spec of a network that is given as a spec, as a :class:`Network`, or by its file (``FILE.py:NAME``).

    ``reference`` takes the place of the spec's own; a module is copied when it is run. Raises UsageError for what is
    none of these, and what :func:`load_spec` raises.

    >>> net = td.Network("double")
    >>> net.output(net.input("x", (3,)) * 2, "y")
    >>> as_spec(net).name, as_spec(net).define() is net
    ('double', True)
    """
    if isinstance(source, Network):
        spec: NetworkSpec = WrittenSpec(source.name, _written, source.input_specs, network=source)
    elif isinstance(source, (str, PathLike)):
        spec = load_spec(str(source))
    elif isinstance(source, NetworkSpec):
        spec = source
    else:
        raise UsageError(f"a network is a NetworkSpec, a td.Network or the name of its file, not {source!r}")
    if reference is None:
        return spec
    return replace(spec, reference=as_reference(reference), _state={})


def as_network(source: NetworkLike | Any) -> Any:
    """The network of a spec or a file, defined as they say; another as it is: a Network or an INetworkDefinition."""
    return as_spec(source).define() if isinstance(source, (NetworkSpec, str, PathLike)) else source


def _written(*arguments: Any) -> Any:
    raise UsageError("this network is written already, and has no function to define it again")
