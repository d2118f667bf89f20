"""Whether an engine on disk is still the one that a build would write: a key of all that it is made from."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from ..core.dtypes import dtype_name
from ..core.files.reading import open_input, sha256_of
from ..core.files.writing import as_json
from ..core.lazy import torch
from ..core.version import __version__
from ..definition.network import Network
from ..definition.spec.spec import NetworkSpec
from ..definition.weights.source import Source
from ..engine.compiling.config import BuildConfig
from ..engine.loading.manifest import Manifest, manifest_path
from ..interpreter.fingerprint import fingerprint
from .manifest import plugin_entry, profile_entries, read_earlier_manifest, setting_entry


def is_up_to_date(spec: NetworkSpec, network: Network, engine: Path) -> bool:
    """Whether an engine was built from this very network, whatever the builder's options were."""
    previous = read_earlier_manifest(manifest_path(engine))
    built_for = previous.get("compute_capabilities", [])
    defined = fingerprint(network.definition, network.backend)
    config = previous.get("config")
    hashes = (_hash_of(defined, spec, network, config, list(each)) for each in ((), built_for))
    return any(is_unchanged(previous, content, engine) for content in hashes)


def differences(manifest: Manifest, spec: NetworkSpec, network: Network, weights: Source | None = None) -> list[str]:
    """In what an engine was built otherwise than this network would be: versions, precision, sizes, file, weights."""
    backend, opened = network.backend, spec.open_weights(weights)
    sizes = [each.dims for each in manifest.profiles], [entry["dims"] for entry in profile_entries(network)]
    pairs = {
        "TensorRT's version": (
            f"{manifest.backend.name} {manifest.backend.version}",
            f"{backend.name} {backend.version}",
        ),
        "trtdsl's version": (manifest.trtdsl, __version__),
        "precision": (manifest.precision, dtype_name(network.precision or torch.float32)),
        "sizes": tuple(
            "; ".join(", ".join(f"{n}={':'.join(map(str, r))}" for n, r in dims.items()) for dims in each)
            for each in sizes
        ),
    }
    found = [
        f"{what} {then or 'none'} instead of {now or 'none'}" for what, (then, now) in pairs.items() if then != now
    ]
    if manifest.source is not None and spec.source_sha256 not in (None, manifest.source.sha256):
        found.append("lines of the network's file")
    if manifest.weights is not None and opened is not None and opened.sha256() != manifest.weights.sha256:
        found.append("weights")
    return found


def content_hash(defined: str, spec: NetworkSpec, network: Network, config: BuildConfig) -> str:
    """The key of an engine: a SHA-256 of the network by its fingerprint, its profiles, the backend's version and the
    builder's options."""
    return _hash_of(defined, spec, network, config.facts(), list(config.compute_capabilities))


def is_unchanged(previous: dict[str, Any], content: str, engine: Path) -> bool:
    """Whether the manifest has this key and the file on disk is the one that it was written for."""
    return previous.get("content_sha256") == content and sha256_of(engine, open_input) == previous["engine"]["sha256"]


def _hash_of(defined: str, spec: NetworkSpec, network: Network, config: Any, compute_capabilities: list[str]) -> str:
    facts = {
        "network": defined,
        "profiles": profile_entries(network),
        "requirements": network.requirements(),
        "backend": [network.backend.name, network.backend.version],
        "trtdsl": __version__,
        "compute_capabilities": compute_capabilities,
        "config": config,
        **setting_entry(spec),
        **plugin_entry(network, fields=True),
    }
    return hashlib.sha256(as_json(facts, sort_keys=True).encode()).hexdigest()
