"""A plugin in a network: what the manifest and the interpreter know of its layer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class PluginUse:
    """The creator that made a layer's plugin, the fields that it got, and what evaluates it."""

    name: str
    version: str
    namespace: str
    fields: Mapping[str, Any]
    evaluate: Callable[..., Any] | None

    def to_json(self) -> dict[str, str]:
        """What an engine needs of the plugin where it runs."""
        return {"name": self.name, "version": self.version, "namespace": self.namespace}
