"""From a network to an engine on disk, with a manifest that says what it is."""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from .backend import Backend, Messages
from .check import CheckReport, check
from .config import BuildConfig
from .errors import BuildError, CancelledError, MismatchError, UsageError
from .files import check_writable, write_all_atomically
from .fingerprint import fingerprint
from .network import Network
from .refit import recipe
from .spec import NetworkSpec, Range
from .version import __version__
from .weights import Source

MANIFEST_SCHEMA = 1

Progress = Callable[[str, int, int], None]  # phase, steps done, steps in all


@dataclass(frozen=True)
class Statistics:
    """What TensorRT's builder said of an engine, in bytes; None where it said nothing."""

    activation_memory: int | None
    weight_memory: int | None
    scratch_memory: int | None
    engine_layers: int | None
    """Layers after fusion."""
    seconds: float


@dataclass(frozen=True)
class Plan:
    """A serialized engine in memory."""

    data: bytes
    statistics: Statistics


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
    spec: NetworkSpec,
    output: str | Path | None = None,
    *,
    weights: Source | None = None,
    dims: Mapping[str, Range] | None = None,
    precision: str | None = None,
    backend: str | Backend | None = None,
    config: BuildConfig | None = None,
    profiles: Sequence[Mapping[str, Range]] = (),
    run_check: bool = True,
    force: bool = False,
    dry_run: bool = False,
    allow_nonfinite: bool = False,
    progress: Progress | None = None,
) -> Build:
    """Defines a network, checks it against its torch reference, builds it, and writes engine and manifest.

    ``output`` is ``NAME.engine`` in the working directory by default; the manifest stands beside it under
    ``output + ".json"``. Nothing is written before all is done, and nothing is built again that has not changed
    (unless ``force``). ``profiles`` are further ranges, within those of ``dims``, that the engine is tuned for.
    ``run_check=False`` says so in the manifest. ``dry_run`` stops before building.

    Raises DefinitionError, WeightsError, MismatchError when the check fails, BuildError with TensorRT's message,
    UsageError for what cannot be written or what the backend cannot honour, CancelledError.
    """
    engine = check_writable(Path(output) if output is not None else Path(f"{spec.name}.engine"))
    manifest_path = check_writable(engine.with_name(engine.name + ".json"))
    tell = progress or (lambda phase, done, total: None)
    tell("defining the network", 0, 1)
    network = spec.define(
        weights=weights, dims=dims, precision=precision, backend=backend, allow_nonfinite=allow_nonfinite
    )
    config = config or BuildConfig()
    config.validate(network.backend)
    plan_profiles = [_profile(network), *(_profile(network, ranges) for ranges in profiles)]
    content = _content_hash(network, plan_profiles, config)
    previous = _read_manifest(manifest_path)
    reference = _reference_hash(spec)

    unchanged = not force and _is_unchanged(previous, content, engine)
    report, checked = None, {"done": False, "reason": "--no-check"}
    if run_check and spec.reference is None:
        checked = {"done": False, "reason": "the network has no reference"}
    elif run_check and unchanged and _was_checked(previous, reference):
        checked = previous["check"]
    elif run_check:
        report = check(
            spec,
            weights=weights,
            network=network,
            allow_nonfinite=allow_nonfinite,
            progress=lambda case: tell(f"checking against torch ({case})", 0, 1),
        )
        checked = _check_summary(report, reference)
        if not report.passed:
            raise CheckFailedError(report)
    elif unchanged and previous["check"]["done"]:
        checked = previous["check"]

    if unchanged and checked == previous["check"]:
        return Build(engine, manifest_path, previous, False, report)
    if dry_run:
        manifest = _manifest(spec, network, plan_profiles, config, content, checked, weights, None)
        return Build(engine, manifest_path, manifest, False, report)
    if unchanged:  # only the check is new
        manifest = {**previous, "check": checked}
        write_all_atomically({manifest_path: _dump(manifest)})
        return Build(engine, manifest_path, manifest, False, report)
    plan = compile_engine(network, config, profiles=profiles, progress=progress)
    manifest = _manifest(spec, network, plan_profiles, config, content, checked, weights, plan)
    if config.refit or config.strip_weights:
        manifest["refit"] = {
            **recipe(spec, network, engine, dims, spec.open_weights(weights)),
            "identical": not config.refit,
        }
    write_all_atomically({engine: plan.data, manifest_path: _dump(manifest)})
    return Build(engine, manifest_path, manifest, True, report)


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


def compile_engine(
    network: Network,
    config: BuildConfig | None = None,
    *,
    profiles: Sequence[Mapping[str, Range]] = (),
    progress: Progress | None = None,
) -> Plan:
    """The serialized engine of a network, and what the builder said of it.

    Raises BuildError with TensorRT's own message and, where it names a layer, the author's line; CancelledError after
    Ctrl-C; UsageError for a dynamic dimension without a range.
    """
    backend = network.backend
    if not network.outputs:
        raise UsageError(f"network {network.name!r} has no output")
    network.check_sizes()
    builder_config = backend.builder.create_builder_config()
    keep_timing_cache = (config or BuildConfig()).apply(builder_config, backend)
    for ranges in ({}, *profiles):
        profile = backend.builder.create_optimization_profile()
        for name, shapes in _profile(network, ranges).items():
            profile.set_shape(name, *(tuple(shape) for shape in shapes.values()))
        builder_config.add_optimization_profile(profile)
    started = time.perf_counter()
    with _monitor(backend, progress) as (monitor, cancelled), backend.listen() as messages:
        builder_config.progress_monitor = monitor
        data = backend.builder.build_serialized_network(network.definition, builder_config)
    seconds = time.perf_counter() - started
    if cancelled.is_set():
        raise CancelledError("cancelled; nothing was written")
    if data is None:
        raise _build_error(network, messages)
    keep_timing_cache()
    return Plan(bytes(data), _statistics(messages, seconds))


@contextlib.contextmanager
def _monitor(backend: Backend, progress: Progress | None) -> Iterator[tuple[Any, threading.Event]]:
    """A progress monitor that also cancels the build after Ctrl-C.

    Python's own handler would raise inside TensorRT's callback; this one leaves a note that the next step finds.
    """
    cancelled = threading.Event()
    sizes: dict[str, int] = {}
    tell = progress or (lambda phase, done, total: None)

    class Monitor(backend.trt.IProgressMonitor):
        def __init__(self) -> None:
            backend.trt.IProgressMonitor.__init__(self)

        def phase_start(self, phase: str, parent: str | None, steps: int) -> None:
            sizes[phase] = steps
            tell(phase, 0, steps)

        def step_complete(self, phase: str, step: int) -> bool:
            tell(phase, step + 1, sizes.get(phase, step + 1))
            return not cancelled.is_set()

        def phase_finish(self, phase: str) -> None:
            tell(phase, sizes.get(phase, 1), sizes.get(phase, 1))

    main = threading.current_thread() is threading.main_thread()
    before = signal.signal(signal.SIGINT, lambda number, frame: cancelled.set()) if main else None
    try:
        yield Monitor(), cancelled
    finally:
        if main:
            signal.signal(signal.SIGINT, before)


def _build_error(network: Network, messages: Messages) -> BuildError:
    text = messages.summary()
    named = sorted((name for name in network.locations if name in text), key=len, reverse=True)
    location = network.locations[named[0]] if named else None
    return BuildError(f"TensorRT cannot build {network.name!r}: {text}", location=location)


def _statistics(messages: Messages, seconds: float) -> Statistics:
    text = "\n".join(message for _, message in messages)

    def number(label: str) -> int | None:
        found = re.search(rf"{label}: (\d+) bytes", text)
        return int(found[1]) if found else None

    listing = text.rpartition("Engine Layer Information:")[2] if "Engine Layer Information:" in text else None
    layers = None if listing is None else len(re.findall(r"^Layer\(", listing, re.MULTILINE))
    return Statistics(
        number("Total Activation Memory"),
        number("Total Weights Memory"),
        number("Max Scratch Memory"),
        layers,
        seconds,
    )


# -- the manifest ------------------------------------------------------------------------------------------------------


def _profile(network: Network, ranges: Mapping[str, Range] | None = None) -> dict[str, dict[str, list[int]]]:
    """For every input its shape at min, opt and max, where ``ranges`` narrow those of the network's dimensions.

    Raises UsageError for an unknown dimension or a range that is not within the network's.
    """
    if not network.dims:
        if ranges:
            raise UsageError(f"{network.name} has no dynamic dimensions: a further profile needs one")
        return {
            name: {w: list(network.input_shape(name, {})) for w in ("min", "opt", "max")} for name in network.inputs
        }
    points = {which: network.profile(which) for which in ("min", "opt", "max")}
    for name, given in (ranges or {}).items():
        if name not in network.dims:
            raise UsageError(f"{network.name} has no dimension {name!r}: it has {', '.join(network.dims)}")
        low, opt, high = (given, given, given) if isinstance(given, int) else given
        if not points["min"][name] <= low <= opt <= high <= points["max"][name]:
            raise UsageError(
                f"a profile for {name} from {low} to {high} (best at {opt}) is not within the network's "
                f"{points['min'][name]} to {points['max'][name]}"
            )
        for which, size in zip(("min", "opt", "max"), (low, opt, high), strict=True):
            points[which] = {**points[which], name: size}
    return {
        name: {which: list(network.input_shape(name, env)) for which, env in points.items()} for name in network.inputs
    }


def _content_hash(network: Network, profiles: Sequence[Any], config: BuildConfig) -> str:
    facts = {
        "network": fingerprint(network.definition, network.backend),
        "profiles": profiles,
        "backend": [network.backend.name, network.backend.version],
        "trtdsl": __version__,
        "compute_capabilities": list(config.compute_capabilities),
        "config": config.facts(),
    }
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


def _reference_hash(spec: NetworkSpec) -> str | None:
    """The hash of the reference's file; None where it is not a file, and so may have changed unseen."""
    if not isinstance(spec.reference, str) or spec.file is None:
        return None
    path = spec.file.parent / spec.reference.rpartition(":")[0]
    return hashlib.sha256(path.read_bytes() + spec.reference.encode()).hexdigest() if path.is_file() else None


def _is_unchanged(previous: dict[str, Any], content: str, engine: Path) -> bool:
    if previous.get("content_sha256") != content or not engine.is_file():
        return False
    data = engine.read_bytes()
    return hashlib.sha256(data).hexdigest() == previous["engine"]["sha256"]


def _was_checked(previous: dict[str, Any], reference: str | None) -> bool:
    done = previous.get("check", {})
    return bool(reference and done.get("passed") and done.get("reference_sha256") == reference)


def _check_summary(report: CheckReport, reference: str | None) -> dict[str, Any]:
    outputs = [output for case in report.cases for output in case.outputs]
    return {
        "done": True,
        "passed": report.passed,
        "on": report.on,
        "statement": report.statement,
        "cases": [case.dims for case in report.cases],
        "max_abs": max((output.max_abs for output in outputs), default=0.0),
        "max_relative_to_scale": max(
            (output.max_abs / output.scale for output in outputs if output.scale), default=0.0
        ),
        "reference_sha256": reference,
    }


def _manifest(
    spec: NetworkSpec,
    network: Network,
    profiles: Sequence[dict[str, dict[str, list[int]]]],
    config: BuildConfig,
    content: str,
    checked: dict[str, Any],
    weights: Source | None,
    plan: Plan | None,
) -> dict[str, Any]:
    backend = network.backend
    opened = spec.open_weights(weights)
    manifest: dict[str, Any] = {
        "schema": MANIFEST_SCHEMA,
        "network": spec.name,
        "trtdsl": __version__,
        "backend": {"name": backend.name, "version": backend.version},
        "compute_capabilities": list(config.compute_capabilities) or backend.default_compute_capabilities(),
        "config": config.facts(),
        "content_sha256": content,
        "inputs": {
            name: {
                "dtype": _short(tensor.dtype),
                "shape": [str(size) if not isinstance(size, int) else size for size in tensor.shape],
                "profile": profiles[0][name],
            }
            for name, tensor in network.inputs.items()
        },
        "outputs": {
            name: {
                "dtype": _short(tensor.dtype),
                "shape": [str(size) if not isinstance(size, int) else size for size in tensor.shape],
            }
            for name, tensor in network.outputs.items()
        },
        "weights": None
        if opened is None
        else {"file": opened.path.name if opened.path else None, "sha256": opened.sha256()},
        "check": checked,
        "layers": network.definition.num_layers,
    }
    if len(profiles) > 1:
        manifest["profiles"] = list(profiles[1:])
    if plan is not None:
        statistics = asdict(plan.statistics)
        manifest["build_seconds"] = round(statistics.pop("seconds"), 3)
        manifest["statistics"] = statistics
        manifest["engine"] = {"sha256": hashlib.sha256(plan.data).hexdigest(), "bytes": len(plan.data)}
    return manifest


def _short(dtype: Any) -> str:
    return str(dtype).removeprefix("torch.")


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
