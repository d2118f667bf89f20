"""What an engine is, by its manifest: what it was built from and for, and what was proven of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from msgspec import to_builtins

from ..core.errors import several
from ..engine.loading.manifest import Manifest, Precisions, SourceFile, manifest_path
from ..sizes.profile import Profile


def engine_facts(manifest: Manifest) -> dict[str, Any]:
    """The entries of a manifest that a reader asks for, as one JSON object."""
    names = ("network", "trtdsl", "precision", "precisions", "backend", "compute_capabilities", "source", "weights")
    more = ("engine", "inputs", "outputs", "profiles", "check", "edited")
    return {name: to_builtins(getattr(manifest, name)) for name in (*names, *more)}


def engine_lines(engine: Path, manifest: Manifest) -> list[str]:
    """The same as lines for people."""

    def made_from(what: str, file: SourceFile | None) -> str:
        return f"  {what}: {file.file or 'given in Python'}, sha256 {file.sha256[:16]}…" if file else f"  {what}: none"

    backend, check, facts = manifest.backend, manifest.check, engine_facts(manifest)
    lines = [
        f"{engine}: {manifest.network}, {manifest.precision or 'precision not said'}, {manifest.engine.bytes:,} bytes",
        f"  built by trtdsl {manifest.trtdsl or '?'} with {backend.name} {backend.version} for compute capability "
        + ", ".join(manifest.compute_capabilities),
        made_from("network file", manifest.source),
        made_from("weights", manifest.weights),
        *([] if manifest.precisions is None else [_precisions(manifest.precisions)]),
        *interface_lines(facts),
        *(f"  requires {each.condition}" for each in manifest.requirements),
    ]
    if manifest.edited:
        lines.append("its manifest was changed after a build wrote it: what it says of a check proves nothing")
    elif check.passed:
        lines += [checked_line(facts["check"]), f"  {check.statement}"]
    else:
        lines.append(f"not checked against torch: {check.reason or 'the manifest does not say why'}")
    lines += [f"  relaxed: {text}" for text in check.relaxed]
    lines += [f"  not proven: {text}" for text in check.unproven]
    return [*lines, f"  all entries: {manifest_path(engine)}"]


def interface_lines(facts: Mapping[str, Any]) -> Iterator[str]:
    """A manifest's inputs, outputs and profiles."""
    for kind in ("input", "output"):
        for name, tensor in facts[f"{kind}s"].items():
            last = ", channels last" if tensor.get("format") else ""
            yield f"  {kind} {name}: {tensor['dtype']} ({', '.join(map(str, tensor['shape']))}){last}"
    for index, served in enumerate(facts["profiles"]):
        if served["dims"]:
            yield f"  profile {index}: {Profile(**served['dims'])}"


def checked_line(check: Mapping[str, Any]) -> str:
    """What a manifest says of a check that passed."""
    error, sizes = check["max_relative_to_scale"], several(len(check["cases"]), "size")
    if not check.get("quality", True):
        return f"checked against torch at {sizes}, in exact arithmetic alone"
    shown = f"{error:.1e}" if isinstance(error, float) else error
    return f"checked against torch at {sizes}: greatest error {shown} of the output's scale"


def _precisions(found: Precisions) -> str:
    calls = ", ".join(f"{count} in {dtype}" for dtype, count in found.calls.items())
    made = f" by {found.file}, sha256 {found.sha256[:16]}…" if found.file and found.sha256 else ""
    sqnr = ", ".join(
        "exact " + name if value is None else f"{value:.1f} dB {name}" for name, value in found.sqnr.items()
    )
    measured = f"; {sqnr or 'scales'}, measured on {found.data}" if sqnr or found.data else ""
    return f"  precision of each call{made}: {calls}{measured}"
