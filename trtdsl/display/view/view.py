"""td.view: what the page is made of, and where it is written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from html import escape
from os import PathLike
from pathlib import Path
from typing import Any

from msgspec import to_builtins

from ...building.up_to_date import differences, is_up_to_date
from ...checking.check import check as run_check
from ...checking.locate import first_case, located
from ...checking.proof import subject_of
from ...checking.report import CheckReport
from ...core.backend import Backend
from ...core.caller import option, to_write
from ...core.cancel import Progress, untold
from ...core.errors import CorruptFileError, EngineError, UnsupportedError, UsageError, several
from ...core.files.held import one_state
from ...core.files.names import check_is_file, is_file
from ...core.files.reading import read_json
from ...core.files.writing import Reads, as_json, write_atomically
from ...definition.network import Network
from ...definition.spec.load import NetworkLike, WrittenSpec, as_spec
from ...definition.spec.spec import NetworkSpec
from ...definition.weights.source import Source
from ...engine.loading.manifest import manifest_path, read_manifest
from ...engine.program import At, Shapes, program, program_of_engine
from ...engine.refit import PRECISIONS
from ...programs.devices import DEFAULT, find_device
from ...programs.program import Program
from ...sizes.profile import Range
from .files import FORMATS as FORMATS
from .files import SUFFIXES as SUFFIXES
from .files import Format, check_format, format_of, output_of
from .formats import as_dot, as_onnx_json, as_svg
from .model import make_model
from .page import page
from .programs import program_model

INLINE = 620  # pixels of a notebook's height


@dataclass(frozen=True)
class View:
    """A network or an engine as a page. Made by :func:`view`."""

    model: dict[str, Any]
    """What the page shows, as one JSON object."""
    note: str = ""
    """Why a program that one expects is not shown; empty otherwise."""
    reads: Reads = field(default=(), repr=False)
    """The files that it was made from, over which it is not written."""

    @property
    def html(self) -> str:
        """The page: one file that needs no other."""
        return page(self.model)

    def text(self, format: Format = "html") -> str:
        """The view in a format. Raises UsageError for a format that there is not, or that needs a network."""
        check_format(format)
        if format == "html":
            return self.html
        if format == "json":
            return as_json(self.to_json(), indent=1) + "\n"
        if self.model["network"] is None:
            raise UsageError(f"{format} draws a network, and this is an engine: give the network's file")
        return {"svg": as_svg, "dot": as_dot, "onnx-json": as_onnx_json}[format](self.model["network"])

    def save(self, path: str | PathLike[str], format: Format | None = None) -> Path:
        """Writes the view, by default in the format of the file's suffix, and makes its folder where there is none.

        Raises UsageError for a file that cannot be written.
        """
        path = Path(path)
        format = format or format_of(path)
        write_atomically(output_of(path, format, self.reads), self.text(format).encode("utf-8"))
        return path

    def to_json(self) -> dict[str, Any]:
        """All that the page shows."""
        return self.model

    def _repr_html_(self) -> str:
        frame = f'<iframe srcdoc="{escape(self.html)}" width="100%" height="{INLINE}" sandbox="allow-scripts"'
        return f'{frame} style="border:1px solid #8883;border-radius:8px"></iframe>'

    def __repr__(self) -> str:
        network, made = self.model["network"], self.model["program"]
        parts = [several(len(network["layers"]), "layer")] if network else []
        parts += [several(made["totals"]["launches"], "launch")] if made else []
        return f"View({self.model['name']}: {', '.join(parts)}{f'; {self.note}' * bool(self.note)})"


@one_state
def view(
    source: NetworkLike,
    *,
    check: bool | CheckReport | str | PathLike[str] = False,
    build: bool = False,
    engine: str | PathLike[str] | None = None,
    dims: Mapping[str, Range] | None = None,
    shapes: Shapes | None = None,
    profile: int = 0,
    weights: Source | None = None,
    precision: str | None = None,
    backend: str | Backend | None = None,
    allow_nonfinite: bool = False,
    device: str = DEFAULT,
    progress: Progress | None = None,
) -> View:
    """A network and what the GPU will run of it, as one page that a browser opens without a network connection.

    ``source`` is a NetworkSpec, a :class:`Network`, a file (``FILE.py:NAME``) or an engine. The first tab is the
    network, folded by module: each call with its shapes, parameters, FLOPs, bytes and the author's line. The second is
    the engine's program, linked with the first by the author's lines: of the ``engine`` that is given, of one that is
    built here in memory where ``build`` says so, or of ``NAME.engine`` in the working directory or beside the network's
    file, where that was built from this very network. Of an engine alone there is only the second.

    ``check`` colours each call by its distance from torch: True runs :func:`check`, and a report of one or the file
    with ``trtdsl check --json``'s spares that. ``dims``, ``weights``, ``precision``, ``backend`` and
    ``allow_nonfinite`` are those of ``spec.define``; costs are at the sizes that the first profile is tuned for.
    ``shapes`` and ``profile`` are an engine's, as :func:`program` takes them, and ``device`` is the GPU of the floor.

    Raises UsageError for what is neither, EngineError for another network's ``engine``, UnreadableProgramError for that
    of another version, CorruptFileError for a damaged one or report, and what ``spec.define`` raises.

    >>> net = td.Network("double")
    >>> net.output(net.input("x", ("N", 3)) * 2, "y")
    >>> td.view(net)
    View(double: 2 layers)
    """
    find_device(device)
    if _is_engine(source):
        if check or build or engine is not None:
            raise UsageError(f"{source} is an engine: give the network's file for a check, a build or both tabs")
        return _engine_view(Path(str(source)), dims, shapes, profile, device)
    spec = as_spec(source)
    if engine is not None and precision is None and is_file(manifest_path(Path(engine))):
        precision = PRECISIONS.get(read_manifest(Path(engine)).precision)  # both tabs show one network
    how: dict[str, Any] = {"precision": precision, "backend": backend, "allow_nonfinite": allow_nonfinite}
    tell = progress or untold
    tell("defining the network", 0, 1)
    opened = spec.open_weights(weights)
    network = spec.define(weights=opened, dims=dims, exact=check is True, **how)
    tell("defining the network", 1, 1)
    made, note = (program(network, progress=progress), "") if build else (None, "")
    if not build:
        found, note = (Path(engine), "") if engine is not None else _beside(spec, network)
        if found is not None:
            made = program_of_engine(found, At(shapes=shapes or {}, profile=profile))
            note = _fit(made, spec, network, found, opened) if engine is not None else ""
            made = replace(made, notes=(*made.notes, note)) if note else made
    model = make_model(network)
    report = _report(check, spec, network, opened, progress)
    checked = None if report is None else _check_model(report, spec, network, opened, model)
    shown = _model(network.name, network=model, program=made and program_model(made, device), check=checked)
    return View(shown, note, reads_of(spec, weights, engine, check))


def _model(name: str, *, network: Any = None, program: Any = None, check: Any = None, **more: Any) -> dict[str, Any]:
    facts = {"schema": 1, "kind": "view", "name": name}
    return {**facts, "network": network, "program": program, "check": check, **more}


def reads_of(
    source: NetworkSpec | Path, weights: Source | None = None, engine: object = None, check: object = None
) -> Reads:
    """The files that a view is made from, each with what it is."""
    if isinstance(source, NetworkSpec):
        return [*source.reads(weights), ("engine", engine), ("report", check)]
    return [("engine", source), ("manifest", manifest_path(source))]


# -- engines -----------------------------------------------------------------------------------------------------------


def _is_engine(source: object) -> bool:
    """Whether it is the name of a file that is neither Python nor anything else that is known."""
    if not isinstance(source, (str, PathLike)):
        return False
    path = Path(source)
    other = (".py", ".safetensors", ".pt", ".pth", ".ckpt", ".bin", ".json", ".onnx")
    return is_file(path) and path.suffix.lower() not in other


def _engine_view(
    path: Path, dims: Mapping[str, Range] | None, shapes: Shapes | None, profile: int, device: str
) -> View:
    made = program(path, dims=dims, shapes=shapes, profile=profile)
    facts: dict[str, Any] = {"file": path.name, "bytes": made.engine_bytes, "manifest": is_file(manifest_path(path))}
    if facts["manifest"]:
        known = read_manifest(path)
        facts |= {"inputs": to_builtins(known.inputs), "outputs": to_builtins(known.outputs)}
        facts |= {"capabilities": list(known.compute_capabilities), "precision": known.precision}
        facts["check"] = known.check.statement if known.check.passed and not known.edited else ""
    return View(_model(made.network, program=program_model(made, device), engine=facts), reads=reads_of(path))


def _beside(spec: NetworkSpec, network: Network) -> tuple[Path | None, str]:
    """The engine of this very network in the working directory or beside its file; else None, and why not that one."""
    if isinstance(spec, WrittenSpec):
        return None, ""
    other = ""
    folders = [Path(), *([spec.file.parent] if spec.file is not None else [])]
    for folder in folders:
        engine = folder / f"{spec.name}.engine"
        if not is_file(engine):
            continue
        if is_up_to_date(spec, network, engine):
            return engine, ""
        other = other or (
            f"{engine} is of other sizes or another state of the network, and its program is not shown: "
            f"{option('build')} builds this one, {option('engine', str(engine))} shows that one"
        )
    return None, other


def _fit(made: Program, spec: NetworkSpec, network: Network, engine: Path, weights: Source | None) -> str:
    """Empty for an engine of this very network, and a note for one of another state of it.

    Raises EngineError for an engine of another network: one with another name, or with other inputs or outputs.
    """
    manifest = read_manifest(engine) if is_file(manifest_path(engine)) else None
    if manifest is not None and made.network != spec.name:
        raise EngineError(f"{engine} is of the network {made.network[:60]}, not of {spec.name}: give that one's engine")
    inputs = set(made.inputs) if manifest is None else set(manifest.inputs)
    if inputs != set(network.inputs):
        raise EngineError(
            f"{engine} takes {', '.join(sorted(inputs))}, and {spec.name} takes {', '.join(sorted(network.inputs))}: "
            "it is another network's"
        )
    if manifest is None:
        return f"there is no manifest beside {engine.name}: whether it is of this state of the network is not known"
    if is_up_to_date(spec, network, engine):
        return ""
    found = ", ".join(differences(manifest, spec, network, weights)) or "what it imports or is set to"
    return (
        f"{engine.name} was built from another state of this network, which differs in {found}: the program shown is "
        f"that engine's; {option('build')} builds this network's"
    )


# -- checks ------------------------------------------------------------------------------------------------------------


def _report(
    given: bool | CheckReport | str | PathLike[str],
    spec: NetworkSpec,
    network: Network,
    weights: Source | None,
    progress: Progress | None,
) -> CheckReport | None:
    if given is True and spec.reference is None:
        variable = "net" if isinstance(spec, WrittenSpec) else "spec"
        wanted = to_write(f"check=td.check({variable}, reference=…)", "@td.network(reference=…) in its file")
        raise UsageError(f"{spec.name} has no reference to check against: give {wanted}")
    if isinstance(given, bool):
        return run_check(spec, network=network, weights=weights, progress=progress) if given else None
    report, label = (given, "the report") if isinstance(given, CheckReport) else (_read_report(Path(given)), str(given))
    if report.network != network.name:
        raise UsageError(f"{label} is of the network {report.network[:60]!r}, and this one is {network.name!r}")
    here = subject_of(spec, network, weights)
    if report.of[0] != here[0] or (spec.reference is not None and report.of != here):
        raise UsageError(
            f"{label} is of another state of {network.name} or of its reference (lines, weights, sizes, precision, "
            "versions): check again, with the same options"
        )
    if spec.reference is not None:
        first_case(network, report, label)
    return report


def _read_report(path: Path) -> CheckReport:
    check_is_file(path, f"cannot read the report {path}: there is no such file")
    return CheckReport.from_json(read_json(path, "report of `trtdsl check --json`", CorruptFileError), str(path))


def _check_model(
    report: CheckReport, spec: NetworkSpec, network: Network, weights: Source | None, model: Mapping[str, Any]
) -> dict[str, Any]:
    places = {tensor["name"]: index for index, tensor in enumerate(model["tensors"])}
    notes: list[str] = []
    try:
        found = located(spec, network, report, weights).nearness() if spec.reference is not None else {}
    except UnsupportedError as error:
        found = {}
        notes.append(f"calls were not compared one by one: {error.message}")
    tensors = {}
    for name, each in found.items():
        if name in places and each.state != "unseen":
            more = {"torch": each.torch} if each.torch else {}
            tensors[str(places[name])] = {"state": each.state, "error": each.error, **more}
    outputs = [
        {
            "name": name, "passed": output.passed, "error": f"{output.max_abs:.2g}",
            "limit": f"{output.ratio:.0%} of what is allowed", "at": case.at,
        }
        for name, (case, output) in report.worst().items()
    ]  # fmt: skip
    return {
        "passed": report.passed,
        "verdict": f"{report.network} {report.verdict}",
        "statement": report.statement,
        "outputs": outputs,
        "problems": [*report.problems(), *notes],
        "first": _first_item(tensors, model["items"], model["layers"]),
        "tensors": tensors,
    }


def _first_item(tensors: Mapping[str, Any], items: Sequence[Any], layers: Sequence[Any]) -> int | None:
    """The first box of which a tensor differs."""
    for number, item in enumerate(items):
        for layer in item.get("layers", ()):
            if any(tensors.get(str(index), {}).get("state") == "differs" for index in layers[layer]["outputs"]):
                return number
    return None
