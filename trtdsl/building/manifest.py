"""The manifest that a build writes beside its engine: what the engine is, what it takes, and what was proven."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ..checking.report import CheckReport
from ..core.dtypes import dtype_name
from ..core.errors import ManifestDamagedError, ProgramFaultError, TrtdslError
from ..core.files.reading import LARGEST, parse_json, read_file
from ..core.files.writing import JSON_TEXT, Kind, as_json
from ..core.lazy import torch
from ..core.reads import Hashes
from ..core.version import __version__
from ..definition.input import CHANNELS_LAST
from ..definition.network import Network
from ..definition.settings import as_facts
from ..definition.spec.spec import NetworkSpec
from ..definition.tensor import Tensor
from ..definition.weights.source import Source
from ..engine.compiling.compiler import Plan, input_shapes
from ..engine.compiling.config import BuildConfig
from ..engine.loading.manifest import DIGEST, MANIFEST_SCHEMA, manifest_of
from ..engine.program import program_of_plan, refuse_uncomputed, replaced_inputs, texts_of_plan
from ..programs.devices import floor_of
from ..programs.handed import handed_sizes
from .reference_results import Results


def make_manifest(
    spec: NetworkSpec,
    network: Network,
    config: BuildConfig,
    content: str,
    defined: str,
    checked: dict[str, Any],
    weights: Source | None,
    plan: Plan | None,
    device: str,
) -> dict[str, Any]:
    """The whole manifest; without ``plan``, for a dry run, it has nothing of the engine."""
    backend = network.backend
    opened = spec.open_weights(weights)
    states, replaced = network.states, replaced_inputs(network)
    manifest: dict[str, Any] = {
        "schema": MANIFEST_SCHEMA,
        "network": spec.name,
        **setting_entry(spec),
        "source": None if spec.file is None else {"file": spec.file.name, "sha256": spec.source_sha256},
        "precision": dtype_name(network.precision or torch.float32),
        "trtdsl": __version__,
        "backend": {"name": backend.name, "version": backend.version},
        "compute_capabilities": list(config.compute_capabilities) or backend.default_compute_capabilities(),
        "config": config.facts(),
        "content_sha256": content,
        "inputs": _tensor_entries(network, network.inputs),
        "outputs": _tensor_entries(network, network.outputs),
        "profiles": profile_entries(network),
        "requirements": network.requirements(),
        **({"states": states, "slots": network.slots} if states else {}),
        **({"in_place": replaced} if states or replaced else {}),
        **plugin_entry(network),
        "weights": None
        if opened is None
        else {"file": opened.path.name if opened.path else None, "sha256": opened.sha256()},
        "check": checked,
        "layers": network.definition.num_layers,
        "fallbacks": list(network.choices.fallbacks),
        "tuning": network.choices.to_json(),
        "precisions": precision_entry(network, defined),
    }
    if plan is not None:
        statistics = asdict(plan.statistics)
        manifest["build_seconds"] = round(statistics.pop("seconds"), 3)
        manifest["statistics"] = statistics
        manifest["program"] = _program(plan, network, device)
        manifest["engine"] = {"sha256": hashlib.sha256(plan.data).hexdigest(), "bytes": len(plan.data)}
    return manifest


def _tensor_entries(network: Network, tensors: Mapping[str, Tensor]) -> dict[str, Any]:
    """Dtype, shape and format of each input or output, the longest of lengths or sequences; dynamic sizes as text."""
    longest = {
        name: {"longest": str(spec.longest)} | ({} if spec.padding is None else {"padding": float(spec.padding)})
        for name, spec in network.input_specs.items()
        if spec.longest is not None
    }
    return {
        name: {
            "dtype": dtype_name(tensor.dtype),
            "shape": [str(size) if not isinstance(size, int) else size for size in tensor.shape],
            **({"format": CHANNELS_LAST} if name in network.channels_last else {}),
            **longest.get(name, {}),
        }
        for name, tensor in tensors.items()
    }


def profile_entries(network: Network) -> list[dict[str, Any]]:
    """Each profile's ranges of the dimensions, and the shapes that they give the inputs."""
    return [
        {
            "dims": {name: list(bounds) for name, bounds in profile.items},
            "inputs": input_shapes(network, profile),
        }
        for profile in network.profiles
    ]


def setting_entry(spec: NetworkSpec) -> dict[str, Any]:
    """The entry on the settings that the network was made for; none for a network without any."""
    return {"settings": as_facts(spec.settings)} if spec.maker is not None else {}


def precision_entry(network: Network, defined: str) -> dict[str, Any] | None:
    """The entry on the precision of each call, of a network with this fingerprint; None where these have none.

    What was measured of a network with other weights, constants or dtypes is not in it.
    """
    calls = None if network.policy is None else network.policy.calls
    if calls is None:
        return None
    entry = calls.to_json()
    if calls.file is not None and calls.measured.get("network") != defined:
        return {name: value for name, value in entry.items() if name not in calls.measured}
    return entry


def plugin_entry(network: Network, *, fields: bool = False) -> dict[str, Any]:
    """The entry on the plugins that the engine needs, with their fields; none for a network without any."""
    found = [{**used.to_json(), **({"fields": used.fields} if fields else {})} for used in network.plugins]
    unique = [each for index, each in enumerate(found) if fields or each not in found[:index]]
    return {"plugins": unique} if unique else {}


def check_entry(report: CheckReport, proof: str | None, read: Hashes, results: Results | None) -> dict[str, Any]:
    """The entry on a check that was made: with the hash of all that its verdict depends on, what was read, and what
    the reference gave."""
    outputs = [output for case in report.cases for output in case.outputs]
    return {
        "done": True,
        "passed": report.passed,
        "on": report.on,
        "witnesses": report.witnesses,
        "statement": report.statement,
        "cases": report.sizes,
        "draws": report.draws,
        "tolerances": {name: asdict(tolerance) for name, tolerance in report.tolerances.items()},
        "relaxed": report.relaxed,
        "unproven": report.unproven,
        "quality": any(output.truth != "meaning alone" for output in outputs),
        "max_abs": max((output.max_abs for output in outputs), default=0.0),
        "max_relative_to_scale": max(
            (output.max_abs / output.scale for output in outputs if output.scale), default=0.0
        ),
        "torch": torch.__version__,
        "proof_sha256": proof,
        "read": read,
        "results": results,
    }


def _program(plan: Plan, network: Network, device: str) -> dict[str, Any]:
    """What the engine's program costs at the sizes that it is tuned for; where it cannot be read, why not."""
    try:
        texts = texts_of_plan(plan, network)
        program = program_of_plan(plan, network, texts=texts)
    except ProgramFaultError:  # its results would be wrong
        raise
    except TrtdslError as error:
        return {"unreadable": error.message}
    refuse_uncomputed(network, program)
    floor = floor_of(program, device)
    handed = {name: str(size) for name, size in handed_sizes(network, texts.programs).items()}
    return {
        "dims": program.dims,
        **program.totals(),
        "floor": {"device": floor.device.name, "seconds": floor.seconds, "estimate": True},
        "notes": list(program.notes),
        **({"handed": handed} if handed else {}),
    }


MANIFEST = Kind("a manifest", rf'\s*\{{\s*"schema":\s*\d+,\s*"network":\s*{JSON_TEXT},\s*"(settings|source|trtdsl)":')


def dump(manifest: dict[str, Any]) -> bytes:
    """The file's bytes."""
    return (as_json(manifest, indent=2) + "\n").encode()


def read_earlier_manifest(path: Path) -> dict[str, Any]:
    """The manifest of an earlier build; empty when there is none, or none as this trtdsl wrote it."""
    try:
        manifest = parse_json(read_file(path, LARGEST), str(path), "manifest", ManifestDamagedError)
        found = manifest_of(manifest)
    except (OSError, ManifestDamagedError):
        return {}
    whole = manifest["schema"] == MANIFEST_SCHEMA and DIGEST in manifest and not found.edited
    return manifest if whole and {"content_sha256", "check"} <= manifest.keys() else {}
