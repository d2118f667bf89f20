"""From a network to an engine on disk, with a manifest that says what it is."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any

from ..checking.buildable import obstacles
from ..checking.check import check
from ..checking.judging.evidence import Tolerances, as_tolerances
from ..checking.report import CheckReport
from ..core.backend import Backend
from ..core.dtypes import dtype_name
from ..core.errors import BuildError, MismatchError, TrtdslError
from ..core.files import check_writable, make_folder, write_all_atomically
from ..core.lazy import torch
from ..core.version import __version__
from ..definition.network import Network
from ..definition.settings import as_facts
from ..definition.spec.opened import NetworkLike, Reference, as_spec
from ..definition.spec.spec import NetworkSpec
from ..definition.weights import Source
from ..engine.compiling.compiler import Plan, Progress, compile_engine, input_shapes
from ..engine.compiling.config import BuildConfig
from ..engine.loading.manifest import MANIFEST_SCHEMA
from ..engine.program import program_of_plan
from ..engine.refit import recipe
from ..interpreter.fingerprint import fingerprint
from ..programs.devices import DEFAULT, find_device, floor_of
from ..sizes.profile import Profile, Range
from .check_fingerprint import proof_of


@dataclass(frozen=True)
class Build:
    """What :func:`build` left on disk, or found there unchanged."""

    engine: Path
    manifest_path: Path
    manifest: dict[str, Any]
    built: bool
    """False when the engine was there already and nothing had changed, or for a dry run."""
    report: CheckReport | None


def build(
    source: NetworkLike,
    output: str | PathLike[str] | None = None,
    *,
    reference: Reference | None = None,
    weights: Source | None = None,
    dims: Mapping[str, Range] | None = None,
    precision: str | None = None,
    backend: str | Backend | None = None,
    config: BuildConfig | None = None,
    profiles: Sequence[Profile] | None = None,
    run_check: bool = True,
    force: bool = False,
    dry_run: bool = False,
    allow_nonfinite: bool = False,
    device: str = DEFAULT,
    tolerance: Tolerances = None,
    progress: Progress | None = None,
) -> Build:
    """Defines a network, checks it against its torch reference, builds it, and writes engine and manifest.

    ``source`` is a NetworkSpec, a file (``FILE.py:NAME``) or a :class:`Network`; a Network is checked against the
    ``reference`` that is given, which takes the place of a spec's own, as in :func:`check`.
    ``output`` is ``NAME.engine`` in the working directory by default; ``FOLDER/`` gets it under that name, and is made
    where there is none. The manifest stands beside it under ``output + ".json"``. Nothing is written before all is
    done, and nothing is built again that has not changed (unless ``force``). ``profiles`` are the sets of sizes that
    the engine is tuned for, instead of the spec's own. ``run_check=False`` says so in the manifest, ``tolerance`` is
    the check's, as in :func:`check`. ``dry_run`` stops
    before building. The manifest has the figures of the engine's program at the sizes of its first profile, with a
    floor under its time on ``device`` (:func:`floor_of`).

    Raises DefinitionError, WeightsError, MismatchError when the check fails, BuildError with TensorRT's message or,
    before anything is checked, with the author's line of a layer that this machine cannot build, UsageError for what
    cannot be written or what the backend cannot honour, CancelledError.
    """
    spec = _with_tolerance(as_spec(source, reference), tolerance)
    engine = check_writable(engine_file(spec.name, output))
    manifest_path = check_writable(engine.with_name(engine.name + ".json"))
    tell = progress or (lambda phase, done, total: None)
    tell("defining the network", 0, 1)
    how: dict[str, Any] = {"precision": precision, "backend": backend, "allow_nonfinite": allow_nonfinite}
    network = spec.define(weights=weights, dims=dims, profiles=profiles, **how)
    tell("defining the network", 1, 1)
    device = find_device(device).name
    config = config or BuildConfig()
    config.validate(network.backend)
    content = _content_hash(spec, network, config)
    previous = _read_manifest(manifest_path)
    unchanged = not force and _is_unchanged(previous, content, engine)
    if not unchanged:
        _refuse_obstacles(network)
    report = None
    proof = None if network.plugins else proof_of(spec, weights)  # a plugin's evaluator may have changed unseen
    checked = _known_check(proof, spec, previous.get("check", {}) if unchanged else {}, run_check)
    if checked is None:
        report = _check(spec, network, weights, tell)
        checked = _check_summary(report, proof)
    plan = None if unchanged or dry_run else compile_engine(network, config, progress=progress)
    if unchanged:
        manifest = {**previous, "check": checked, "tuning": network.choices.to_json()}
    else:
        manifest = _manifest(spec, network, config, content, checked, weights, plan, device)
    if plan is not None and (config.refit or config.strip_weights):
        made = recipe(spec, network, engine, dims, spec.open_weights(weights))
        manifest["refit"] = {**made, "identical": not config.refit}
    if not dry_run and (plan is not None or manifest != previous):
        written = {} if plan is None else {engine: plan.data}
        write_all_atomically({**written, manifest_path: _dump(manifest)})
    return Build(engine, manifest_path, manifest, plan is not None, report)


def _with_tolerance(spec: NetworkSpec, tolerance: Tolerances) -> NetworkSpec:
    return spec if tolerance is None else replace(spec, tolerance=as_tolerances(spec.tolerance, tolerance))


def _refuse_obstacles(network: Network) -> None:
    """BuildError where the network has layers that this machine's TensorRT cannot build."""
    found = obstacles(network)
    if found:
        first = found[0]
        others = "".join(f"\n{obstacle}" for obstacle in found[1:])
        raise BuildError(f"layer {first.layer!r} cannot be built here: {first.reason}{others}", location=first.location)


def _known_check(
    proof: str | None, spec: NetworkSpec, before: dict[str, Any], run_check: bool
) -> dict[str, Any] | None:
    """What the manifest says of the check where none is to be made; ``before``, what it said of the very same engine.

    A verdict is only kept where all that it depends on is the same; without a check it is told as an earlier one.
    """
    holds = proof is not None and bool(before.get("passed")) and before.get("proof_sha256") == proof
    if not run_check:
        earlier = before.get("earlier") or (before if holds else None)
        kept = earlier is not None and earlier.get("proof_sha256") == proof
        return {"done": False, "reason": "--no-check", **({"earlier": earlier} if kept else {})}
    if spec.reference is None:
        return {"done": False, "reason": "the network has no reference"}
    return before if holds else None


def _check(spec: NetworkSpec, network: Network, weights: Source | None, tell: Progress) -> CheckReport:
    """The report of a check that passed; CheckFailedError for another."""
    report = check(spec, weights=weights, network=network, progress=tell)
    if not report.passed:
        raise CheckFailedError(report)
    return report


def engine_file(name: str, output: str | PathLike[str] | None) -> Path:
    """Where a network's engine is written: ``NAME.engine`` in the working directory, or in a folder that is given."""
    if output is None:
        return Path(f"{name}.engine")
    if os.fspath(output).endswith(("/", os.sep)):
        return make_folder(output) / f"{name}.engine"
    return Path(output)


class CheckFailedError(MismatchError):
    """The network differs from its reference: nothing was built. ``report`` says where."""

    def __init__(self, report: CheckReport):
        try:
            report.raise_for_mismatch()
            message = "the check failed"
        except MismatchError as error:
            message = f"{error.message}. Nothing was built"
        super().__init__(message)
        self.report = report


# -- the manifest ------------------------------------------------------------------------------------------------------


def _profiles(network: Network) -> list[dict[str, Any]]:
    """Each profile's ranges of the dimensions, and the shapes that they give the inputs."""
    return [
        {
            "dims": {name: list(bounds) for name, bounds in profile.items},
            "inputs": input_shapes(network, profile),
        }
        for profile in network.profiles
    ]


def is_up_to_date(spec: NetworkSpec, network: Network, engine: Path) -> bool:
    """Whether an engine was built from this very network, whatever the builder's options were."""
    previous = _read_manifest(engine.with_name(engine.name + ".json"))
    built_for = previous.get("compute_capabilities", [])
    hashes = (_hash_of(spec, network, previous.get("config"), list(capabilities)) for capabilities in ((), built_for))
    return any(_is_unchanged(previous, content, engine) for content in hashes)


def _content_hash(spec: NetworkSpec, network: Network, config: BuildConfig) -> str:
    return _hash_of(spec, network, config.facts(), list(config.compute_capabilities))


def _hash_of(spec: NetworkSpec, network: Network, config: Any, compute_capabilities: list[str]) -> str:
    facts = {
        "network": fingerprint(network.definition, network.backend),
        "profiles": _profiles(network),
        "requirements": network.requirements(),
        "backend": [network.backend.name, network.backend.version],
        "trtdsl": __version__,
        "compute_capabilities": compute_capabilities,
        "config": config,
        **_settings(spec),
        **_plugins(network, fields=True),
    }
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


def _settings(spec: NetworkSpec) -> dict[str, Any]:
    """The entry on the settings that the network was made for; none for a network without any."""
    return {"settings": as_facts(spec.settings)} if spec.maker is not None else {}


def _plugins(network: Network, *, fields: bool = False) -> dict[str, Any]:
    """The entry on the plugins that the engine needs, with their fields; none for a network without any."""
    found = [{**used.to_json(), **({"fields": used.fields} if fields else {})} for used in network.plugins.values()]
    unique = [each for index, each in enumerate(found) if fields or each not in found[:index]]
    return {"plugins": unique} if unique else {}


def _is_unchanged(previous: dict[str, Any], content: str, engine: Path) -> bool:
    if previous.get("content_sha256") != content or not engine.is_file():
        return False
    data = engine.read_bytes()
    return hashlib.sha256(data).hexdigest() == previous["engine"]["sha256"]


def _check_summary(report: CheckReport, proof: str | None) -> dict[str, Any]:
    outputs = [output for case in report.cases for output in case.outputs]
    return {
        "done": True,
        "passed": report.passed,
        "on": report.on,
        "statement": report.statement,
        "cases": report.sizes,
        "draws": report.draws,
        "tolerances": {name: asdict(tolerance) for name, tolerance in report.tolerances.items()},
        "relaxed": report.relaxed,
        "unproven": report.unproven,
        "max_abs": max((output.max_abs for output in outputs), default=0.0),
        "max_relative_to_scale": max(
            (output.max_abs / output.scale for output in outputs if output.scale), default=0.0
        ),
        "torch": torch.__version__,
        "proof_sha256": proof,
    }


def _manifest(
    spec: NetworkSpec,
    network: Network,
    config: BuildConfig,
    content: str,
    checked: dict[str, Any],
    weights: Source | None,
    plan: Plan | None,
    device: str,
) -> dict[str, Any]:
    backend = network.backend
    opened = spec.open_weights(weights)
    manifest: dict[str, Any] = {
        "schema": MANIFEST_SCHEMA,
        "network": spec.name,
        **_settings(spec),
        "trtdsl": __version__,
        "backend": {"name": backend.name, "version": backend.version},
        "compute_capabilities": list(config.compute_capabilities) or backend.default_compute_capabilities(),
        "config": config.facts(),
        "content_sha256": content,
        "inputs": {
            name: {
                "dtype": dtype_name(tensor.dtype),
                "shape": [str(size) if not isinstance(size, int) else size for size in tensor.shape],
            }
            for name, tensor in network.inputs.items()
        },
        "outputs": {
            name: {
                "dtype": dtype_name(tensor.dtype),
                "shape": [str(size) if not isinstance(size, int) else size for size in tensor.shape],
            }
            for name, tensor in network.outputs.items()
        },
        "profiles": _profiles(network),
        "requirements": network.requirements(),
        **_plugins(network),
        "weights": None
        if opened is None
        else {"file": opened.path.name if opened.path else None, "sha256": opened.sha256()},
        "check": checked,
        "layers": network.definition.num_layers,
        "fallbacks": [str(each) for each in network.choices.fallbacks],
        "tuning": network.choices.to_json(),
    }
    if plan is not None:
        statistics = asdict(plan.statistics)
        manifest["build_seconds"] = round(statistics.pop("seconds"), 3)
        manifest["statistics"] = statistics
        manifest["program"] = _program(plan, network, device)
        manifest["engine"] = {"sha256": hashlib.sha256(plan.data).hexdigest(), "bytes": len(plan.data)}
    return manifest


def _program(plan: Plan, network: Network, device: str) -> dict[str, Any]:
    """What the engine's program costs at the sizes that it is tuned for; where it cannot be read, why not."""
    try:
        program = program_of_plan(plan, network)
    except TrtdslError as error:
        return {"unreadable": error.message}
    floor = floor_of(program, device)
    return {
        "dims": program.dims,
        **program.totals(),
        "floor": {"device": floor.device.name, "seconds": floor.seconds, "estimate": True},
        "notes": list(program.notes),
    }


def _dump(manifest: dict[str, Any]) -> bytes:
    return (json.dumps(manifest, indent=2) + "\n").encode()


def _read_manifest(path: Path) -> dict[str, Any]:
    """The manifest of an earlier build; empty when there is none that can be trusted."""
    try:
        manifest = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    complete = isinstance(manifest, dict) and {"content_sha256", "engine", "check"} <= manifest.keys()
    return manifest if complete and manifest.get("schema") == MANIFEST_SCHEMA else {}
