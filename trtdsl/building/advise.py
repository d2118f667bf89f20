"""Advice: edits of a network's file that its program asks for, each kept where the changed network's program wins."""

from __future__ import annotations

import difflib
import io
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any

from ..checking.check import check
from ..checking.proof import Sources
from ..checking.report import CheckReport
from ..core.backend import Backend
from ..core.cancel import Progress, untold
from ..core.errors import CancelledError, TrtdslError, UsageError, several
from ..core.files.writing import Kind, check_writable, write_atomically
from ..definition.network import Network
from ..definition.spec.load import NetworkLike, as_spec, load_spec
from ..definition.spec.spec import NetworkSpec
from ..definition.weights.source import Source
from ..engine.compiling.config import BuildConfig
from ..programs.devices import DEFAULT, find_device
from ..programs.hazards import WORTH_TELLING, Hazard, find_hazards
from ..programs.program import megabytes
from ..sizes.profile import Profile, Range
from .build import check_unchanged, opened_once
from .edits import Edit, changed, edits_of
from .search import MEMORY, Figures, Truth, measured

PHASE = "trying edits"


@dataclass(frozen=True)
class Advised:
    """One edit that wins, and what the whole network costs before and after it."""

    name: str
    line: str
    """The place in the file as it was."""
    before: Figures
    after: Figures


@dataclass(frozen=True, repr=False)
class Advice:
    """What :func:`advise` found for the file of a network."""

    network: str
    file: Path
    device: str
    before: Figures
    after: Figures
    edits: tuple[Advised, ...]
    skipped: tuple[str, ...]
    """Edits that win nothing, or that give another network, and why."""
    hazards: tuple[Hazard, ...]
    """Those that the program has with the edits."""
    text: bytes = field(repr=False)
    """The file with the edits."""
    diff: str = field(repr=False)
    """From the file to that text, as ``patch`` takes it; empty where there is no edit."""
    check: CheckReport | None = None
    """That of the changed network, where it was to be written."""
    written: bool = False

    def __repr__(self) -> str:
        edits, hazards = several(len(self.edits), "edit"), several(len(self.hazards), "hazard")
        before, after = megabytes(self.before.bytes), megabytes(self.after.bytes)
        return f"Advice({self.network}: {edits}, {before} → {after} moved, {hazards} left)"

    def to_json(self) -> dict[str, Any]:
        """Everything as one JSON object."""
        return {
            "schema": 1, "kind": "advice", "network": self.network, "file": str(self.file), "device": self.device,
            "before": asdict(self.before), "after": asdict(self.after), "edits": [asdict(each) for each in self.edits],
            "skipped": self.skipped, "hazards": [vars(each) for each in self.hazards], "diff": self.diff,
            "check": None if self.check is None else self.check.to_json(), "written": self.written,
        }  # fmt: skip


def advise(
    source: NetworkLike,
    *,
    write: bool = False,
    weights: Source | None = None,
    dims: Mapping[str, Range] | None = None,
    profiles: Sequence[Profile] | None = None,
    precision: str | PathLike[str] | None = None,
    backend: str | Backend | None = None,
    allow_nonfinite: bool = False,
    config: BuildConfig | None = None,
    device: str = DEFAULT,
    progress: Progress | None = None,
) -> Advice:
    """Finds edits of a network's file with which its program costs less, and with ``write`` makes them.

    Attention that is written out, as two products by einsum, matmul or bmm with a softmax between them, becomes
    ``F.scaled_dot_product_attention``, its scale and its mask with it. Each edit is tried after those before it: the
    changed network is defined and built, and the edit is kept where the floor under its time on ``device`` falls, or at
    the same floor its bytes or launches, where it does not ask for much more memory, and where the interpreter gives
    the same outputs. ``source`` is a file (``FILE.py:NAME``) or a spec of one; the other arguments are those of
    :func:`build`, of the network as it is going to be built: in float16 TensorRT-RTX fuses what it does not in float32.

    With ``write`` the changed network is checked against its reference first, and the file is written only where it
    passes, whole or not at all. The file's text is that of now, whatever was loaded from it earlier.

    Raises UsageError for a network that is in no file, with ``write`` for one without a reference, for a file that
    cannot be written, may not be or has several names, and where one that was read changed meanwhile; and what
    ``spec.define``, the builder and :func:`check` raise.
    """
    spec = as_spec(source)
    if spec.file is None:
        raise UsageError(f"advice is on a network's file, and {spec.name!r} is in none: write it into one")
    output = None
    if write:
        spec.reference_class()
        output = check_writable(spec.file, Kind("a network file", "(?!)"), (), force=True)
        found = spec.file.stat()
        if not found.st_mode & 0o222 or found.st_nlink > 1:
            reason = "it has other names (hard links), which would keep the old text" if found.st_mode & 0o222 else ""
            raise UsageError(f"cannot write {spec.file}: {reason or 'its mode says that it is read-only'}")
    opened, sources = opened_once(spec, weights), Sources(spec)
    tell, data = progress or untold, spec.file.read_bytes()
    how = {"weights": opened, "dims": dims, "profiles": profiles, "precision": precision, "backend": backend}
    how["allow_nonfinite"] = allow_nonfinite
    trials = _Trials(spec, data, how, config or BuildConfig(), find_device(device).name, tell)
    trials.run()
    text = changed(data, trials.kept)
    report = None
    if output is not None and trials.kept:
        edited = trials.spec_of(text)
        network = edited.define(**how, exact=True)
        report = check(edited, network=network, weights=opened, progress=progress)
        if report.passed:
            check_unchanged(opened, sources)
            write_atomically(output, text)
    return Advice(
        spec.name,
        spec.file,
        trials.device,
        trials.first,
        trials.best,
        tuple(trials.edits),
        tuple(trials.skipped),
        trials.hazards,
        text,
        _diff(data, text, spec.file),
        report,
        report is not None and report.passed,
    )


class _Trials:
    """The edits of a file, tried one after the other, each with those that were kept before it."""

    def __init__(
        self, spec: NetworkSpec, data: bytes, how: dict[str, Any], config: BuildConfig, device: str, tell: Progress
    ):
        self.spec, self.data, self.how, self.config, self.device, self.tell = spec, data, how, config, device, tell
        self.kept: list[Edit] = []
        self.edits: list[Advised] = []
        self.skipped: list[str] = []

    def spec_of(self, text: bytes) -> NetworkSpec:
        """The spec as its file would have it."""
        name = f"{self.spec.file}:{self.spec.name_in_file}"
        return load_spec(name, self.spec.settings, text=text).tuned(self.spec.tuning)

    def run(self) -> None:
        """Tries every edit at a line that a call of the network comes from."""
        base = self.spec_of(self.data)
        network = base.define(**self.how)
        found = [edit for edit in edits_of(self.data) if self._is_of(edit, network)]
        self.tell(PHASE, 0, len(found) + 1)
        program, self.first = measured(network, self.device, self.config)
        self.best, self.hazards = self.first, find_hazards(program)
        truth = Truth(base, network) if found else None
        for number, edit in enumerate(found, 1):
            place = f"{self.spec.file}:{edit.first}" + f"-{edit.last}" * (edit.last > edit.first)
            self.tell(f"{PHASE} ({edit.name} at {place})", number, len(found) + 1)
            try:
                reason = self._try(edit, place, truth)
            except CancelledError:
                raise
            except TrtdslError as error:
                reason = error.message.splitlines()[0]
            if reason:
                self.skipped.append(f"{place}: {edit.name}: {reason}")
        self.tell(PHASE, len(found) + 1, len(found) + 1)

    def _is_of(self, edit: Edit, network: Network) -> bool:
        assert self.spec.file is not None
        file = self.spec.file.resolve()
        return any(
            edit.first <= place.line <= edit.last and Path(place.file).resolve() == file
            for place in {facts.location for facts in network.layers.values()}
            if place is not None
        )

    def _try(self, edit: Edit, place: str, truth: Truth | None) -> str:
        """Keeps an edit that wins; otherwise why it does not."""
        network = self.spec_of(changed(self.data, [*self.kept, edit])).define(**self.how)
        program, figures = measured(network, self.device, self.config)
        if not figures.beats(self.best, WORTH_TELLING):
            changes = (
                f"{self.best.launches} → {figures.launches} launches, {self.best.bytes:,} → {figures.bytes:,} bytes"
            )
            return f"it wins nothing: {changes}"
        if figures.memory > MEMORY * self.first.memory:
            return f"it asks for {figures.memory:,} bytes of memory instead of {self.first.memory:,}"
        different = truth.difference(network) if truth is not None else ""
        if not different:
            self.kept.append(edit)
            self.edits.append(Advised(edit.name, place, self.best, figures))
            self.best, self.hazards = figures, find_hazards(program)
        return different


def _diff(before: bytes, after: bytes, file: Path) -> str:
    if before == after:  # as of a file in another encoding than UTF-8, in which nothing is edited
        return ""
    old, new = ([line.decode() for line in io.BytesIO(data)] for data in (before, after))
    made = difflib.unified_diff(old, new, str(file), str(file))
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in made)
