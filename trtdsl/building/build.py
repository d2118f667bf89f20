"""From a network to an engine on disk, with a manifest that says what it is."""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any

from ..checking.check import check
from ..checking.judging.evidence import Tolerances, as_tolerances
from ..checking.proof import Sources, proof_of
from ..checking.report import CheckReport
from ..core.backend import Backend
from ..core.cancel import Progress, untold
from ..core.errors import MismatchError, UsageError, several
from ..core.files.held import one_state
from ..core.files.names import file_name
from ..core.files.writing import Output, check_writable, make_folder, write_all_atomically
from ..core.html import folded, table
from ..core.tensors.watched import by_default
from ..definition.network import Network
from ..definition.spec.load import NetworkLike, Reference, as_spec
from ..definition.spec.spec import NetworkSpec
from ..definition.weights.source import Source, Weights
from ..engine.compiling.compiler import compile_engine
from ..engine.compiling.config import TIMING_CACHE, BuildConfig
from ..engine.loading.loader import ENGINE, read_engine_file
from ..engine.loading.manifest import sealed
from ..engine.refit import recipe
from ..interpreter.fingerprint import fingerprint
from ..programs.devices import DEFAULT, find_device
from ..programs.evaluation.built_here import remember
from ..sizes.profile import Profile, Range
from .buildable import refuse_obstacles
from .manifest import MANIFEST, check_entry, dump, make_manifest, precision_entry, read_earlier_manifest
from .reference_results import Results, agree, reference_results
from .up_to_date import content_hash, is_unchanged


@dataclass(frozen=True, repr=False)
class Build:
    """What :func:`build` left on disk, or found there unchanged."""

    engine: Path
    manifest_path: Path
    manifest: dict[str, Any]
    built: bool
    """False when the engine was there already and nothing had changed, or for a dry run."""
    report: CheckReport | None

    def __repr__(self) -> str:
        facts = [f"{self.manifest['engine']['bytes']:,} bytes"] if "engine" in self.manifest else []
        facts.append(several(self.manifest["layers"], "layer"))
        facts.append("built" if self.built else "up to date" if "engine" in self.manifest else "not written")
        if self.report is not None:
            facts.append(self.report.verdict)
        return f"Build({self.engine}: {', '.join(facts)})"

    def _repr_html_(self) -> str:
        kinds = [(kind, self.manifest[f"{kind}s"]) for kind in ("input", "output")]
        rows = [
            (kind, name, tensor["dtype"], f"({', '.join(map(str, tensor['shape']))})")
            for kind, tensors in kinds
            for name, tensor in tensors.items()
        ]
        return folded(repr(self), table(["", "name", "dtype", "shape"], rows))


@one_state
@by_default
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
    check: bool = True,
    on: str = "interpreter",
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
    where there is none. The manifest stands beside it under ``output + ".json"``; of a link, both are written where it
    leads. Nothing is written before all is done, and nothing is built again that has not changed (unless ``force``).
    ``profiles`` are the sets of sizes that the engine is tuned for, instead of the spec's own. ``check=False`` says
    so in the manifest; ``on`` and ``tolerance`` are the check's, as in :func:`check`: ``on="program"`` evaluates the
    very engine that will be written, or that stands there unchanged. ``dry_run`` stops before building. The manifest
    has the figures of the engine's program at the sizes of its first profile, with a floor under its time on
    ``device`` (:func:`floor_of`).

    Raises DefinitionError, WeightsError, MismatchError when the check fails, BuildError with TensorRT's message or,
    before anything is checked, with the author's line of a layer that this machine cannot build, UsageError for what
    cannot be written or what the backend cannot honour, CancelledError.
    """
    spec = as_spec(source, reference)
    if tolerance is not None:
        spec = replace(spec, tolerance=as_tolerances(spec.tolerance, tolerance))
    config = config or BuildConfig()
    if on not in ("interpreter", "program"):
        raise UsageError(f"a build checks on 'interpreter' or 'program', not {on!r}")
    if on == "program" and (config.strip_weights or not check):
        reason = "an engine without weights cannot be evaluated" if check else "no check was asked for"
        raise UsageError(f"{reason}: do not check on 'program'")
    files = _files(spec, output, weights, config)
    engine, manifest_path = (file.path for file in files)
    tell = progress or untold
    tell("defining the network", 0, 1)
    how: dict[str, Any] = {"precision": precision, "backend": backend, "allow_nonfinite": allow_nonfinite}
    opened = opened_once(spec, weights)
    sources = Sources(spec)
    before = proof_of(spec, opened, sources)
    network = spec.define(weights=opened, dims=dims, profiles=profiles, exact=check, **how)
    network.check_weights()
    tell("defining the network", 1, 1)
    device = find_device(device).name
    config.validate(network.backend)
    defined = fingerprint(network.definition, network.backend)
    content = content_hash(defined, spec, network, config)
    previous = read_earlier_manifest(manifest_path)
    unchanged = not force and is_unchanged(previous, content, engine)
    if not unchanged:
        refuse_obstacles(network)
    judged_alike = unchanged and previous.get("precisions") == precision_entry(network, defined)  # has what is allowed
    known = previous.get("check", {}) if judged_alike else {}
    proof = None if network.plugins else before  # a plugin's evaluator may have changed unseen
    judge = _Judge(spec, network, opened, sources, proof, on)
    known = judge.known(known) if check else judge.unchecked(known)
    early = on == "program" and known is None and not dry_run
    plan = compile_engine(network, config, progress=progress) if early and not unchanged else None
    data = read_engine_file(engine) if early and plan is None else None if plan is None else bytes(plan.data)
    checked, report = judge.checked(data, tell) if known is None else (known, None)
    if plan is None and not unchanged and not dry_run:
        plan = compile_engine(network, config, progress=progress)
    if unchanged:
        manifest = {**previous, "check": checked, "tuning": network.choices.to_json()}
        manifest["precisions"] = precision_entry(network, defined)
    else:
        manifest = make_manifest(spec, network, config, content, defined, checked, opened, plan, device)
    if plan is not None and (config.refit or config.strip_weights):
        made = recipe(spec, network, engine, dims, opened)
        manifest["refit"] = {**made, "identical": not config.refit}
    manifest = sealed(manifest)
    check_unchanged(opened, sources)
    if not dry_run and (plan is not None or manifest != previous):
        both = ({} if plan is None else {files[0]: plan.data}) | {files[1]: dump(manifest)}
        write_all_atomically(both, lambda: None if plan is not None else _check_is_unchanged(previous, content, engine))
        remember(manifest["engine"]["sha256"])
    return Build(engine, manifest_path, manifest, plan is not None, report)


def opened_once(spec: NetworkSpec, weights: Source | None) -> Weights | None:
    """The weights, opened once: what is defined, checked, compiled and hashed is one state of their file."""
    opened = spec.open_weights(weights)
    if opened is not None and opened.path is not None:
        opened.sha256()
    return opened


def check_unchanged(weights: Weights | None, sources: Sources) -> None:
    """WeightsError or UsageError where a file that was read is another one than when work began."""
    if weights is not None:
        weights.check_unchanged()
    path = sources.changed()
    if path is not None:
        raise UsageError(
            f"{path} changed while it was in use: what was defined and checked is not what is there now, and nothing "
            "was written. Start again"
        )


def _check_is_unchanged(previous: dict[str, Any], content: str, engine: Path) -> None:
    """UsageError where an engine that stands there is not the one any more that a manifest is written for."""
    if not is_unchanged(previous, content, engine):
        raise UsageError(f"another build wrote {engine} meanwhile, whose files stay: nothing was written. Start again")


def _files(
    spec: NetworkSpec, output: str | PathLike[str] | None, weights: Source | None, config: BuildConfig
) -> tuple[Output, Output]:
    """The engine and its manifest. UsageError for what cannot be written, or what the network is made from."""
    engine = engine_file(spec.name, output)
    cache = config.timing_cache
    reads = [*spec.reads(weights), *([] if cache is None else [("timing cache", cache)])]
    if cache is not None:
        check_writable(cache, TIMING_CACHE, spec.reads(weights))
    written = check_writable(engine, ENGINE, reads)
    target = written.judged()  # where a link leads: both files stand there
    beside = f"{engine}.json"
    if target != engine and os.path.lexists(beside) and os.path.realpath(beside) != f"{target}.json":
        raise UsageError(
            f"cannot write {engine}: it is a link to {target}, beside which the manifest belongs, and {beside} is "
            "another file: remove it, or make it a link to that manifest"
        )
    return replace(written, path=target), check_writable(f"{target}.json", MANIFEST, reads)


@dataclass
class _Judge:
    """Whether a network equals its reference: by an earlier check where that holds still, and else by one now."""

    spec: NetworkSpec
    network: Network
    weights: Weights | None
    sources: Sources
    proof: str | None
    on: str

    @functools.cached_property
    def results(self) -> Results | None:
        """What the reference gives, where its verdict can be kept."""
        judges = self.proof is not None and self.spec.reference is not None
        return reference_results(self.spec, self.network, self.weights) if judges else None

    def _holds(self, entry: dict[str, Any]) -> bool:
        """Whether a manifest's entry is of a check that passed, and all that it depends on is the same."""
        alike = self.proof is not None and entry.get("proof_sha256") == self.proof
        return alike and bool(entry.get("passed")) and self.sources.have_read(entry.get("read", {}))

    def unchecked(self, before: dict[str, Any]) -> dict[str, Any]:
        """The manifest's entry where no check is asked for; ``before`` is that of the very same engine."""
        earlier = before.get("earlier") or before
        return {"done": False, "reason": "--no-check", **({"earlier": earlier} if self._holds(earlier) else {})}

    def known(self, before: dict[str, Any]) -> dict[str, Any] | None:
        """The entry where no check is needed; None where one is."""
        if self.spec.reference is None:
            return {"done": False, "reason": "the network has no reference"}
        if self.on not in ("interpreter", before.get("on")) or not self._holds(before):
            return None
        is_alike = agree(before.get("results"), self.results)  # running it, it may read more
        return before if is_alike and self._holds(before) else None

    def checked(self, plan: bytes | None, tell: Progress) -> tuple[dict[str, Any], CheckReport]:
        """The entry on a check that is made now, and its report. CheckFailedError for one that failed."""
        spec, network = self.spec, self.network
        report = check(spec, on=self.on, weights=self.weights, network=network, plan=plan, progress=tell)
        if not report.passed:
            raise CheckFailedError(report)
        found, read = self.results, self.sources.read()
        counts = read is not None and self.sources.import_alike()
        return check_entry(report, self.proof if counts else None, read or {}, found), report


def engine_file(name: str, output: str | PathLike[str] | None) -> Path:
    """Where a network's engine is written: ``NAME.engine`` in the working directory, or in a folder that is given."""
    if output is not None and not os.fspath(output).endswith(("/", os.sep)):
        return Path(output)
    called = file_name(name, ".engine", "the network's name")
    return Path(called) if output is None else make_folder(output) / called


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
