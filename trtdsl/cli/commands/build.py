"""`trtdsl build`: networks to engines on disk."""

from __future__ import annotations

import inspect
from dataclasses import Field, fields
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer
from msgspec import Meta

import trtdsl as td

from ...core.caller import as_argument
from ...core.errors import CancelledError, UsageError
from ...display.results import print_build, print_outcome, print_tuning
from ...display.terminal import print_error, shortened
from ...programs.devices import DEFAULT
from ..command import Output, command, print_json
from ..options import (
    Definition,
    Gpu,
    Lowerings,
    Set,
    Tolerances,
    of_build,
    of_builder,
    of_check,
    settings_of,
    tolerances_of,
)

Networks = Annotated[
    list[str], typer.Argument(metavar="NETWORK...", help="FILE.py or FILE.py:NAME; several are built each apart.")
]
OutputFile = Annotated[
    str | None,  # a Path would lose the stroke of FOLDER/
    of_build("Default: NAME.engine here. FOLDER/ is made.", "FILE|FOLDER/", "-o", "--output"),
]

BUILDER = {
    "compute_capabilities": ("X.Y", "GPUs to build for (TensorRT-RTX); may be repeated."),
    "tf32": ("", "Allow TF32 in float32 products on the GPU."),
    "optimization_level": ("0-5", "How long to search (TensorRT)."),
    "workspace": ("MIB", "The most scratch memory a layer may use."),
    "timing_cache": ("FILE", "Measured kernels, kept (TensorRT)."),
    "hardware_compatibility": ("LEVEL", "ampere+ or same-compute-capability (TensorRT)."),
    "version_compatible": ("", "For later versions too (TensorRT)."),
    "sparsity": ("", "Use sparse weights (TensorRT)."),
    "aux_streams": ("N", "Streams besides the caller's (TensorRT)."),
    "tiling": ("LEVEL", "none, fast, moderate or full (TensorRT)."),
    "profiling_verbosity": ("LEVEL", "none, names or detailed."),
    "weight_streaming": ("", "Let weights stay on the host."),
    "refit": ("", "The engine takes new weights later."),
    "strip_weights": ("", "Write the engine without its weights."),
}
"""The options of BuildConfig: what stands for a value, and the help."""


def build_config(**given: Any) -> td.BuildConfig:
    """The builder's options as :class:`~trtdsl.BuildConfig` has them."""
    given["compute_capabilities"] = tuple(given["compute_capabilities"] or ())
    if given["workspace"] is not None:
        mebibytes = as_argument("workspace", given["workspace"], Annotated[int, Meta(ge=1, le=2**43 - 1)])
        given["workspace"] = mebibytes << 20
    return td.BuildConfig(**given)


def _builder_option(field: Field[Any], hint: Any) -> inspect.Parameter:
    """A field of BuildConfig as an option."""
    metavar, text = BUILDER[field.name]
    name = "--" + field.name.replace("_", "-").replace("capabilities", "capability")
    flag = f"{name}/--no-{field.name}" if field.default is True else name
    kind = {tuple[str, ...]: list[str] | None}.get(
        hint, hint if hint in (bool, int | None, Path | None) else str | None
    )
    annotation = Annotated[kind, of_builder(text, metavar or None, flag)]
    default = field.default or None if kind is not bool else field.default
    return inspect.Parameter(field.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


_HINTS = get_type_hints(td.BuildConfig)
_FIELDS = {field.name: _builder_option(field, _HINTS[field.name]) for field in fields(td.BuildConfig)}
build_config.__signature__ = inspect.Signature([_FIELDS[name] for name in BUILDER])  # type: ignore[attr-defined]


@command
def build(
    out: Output,
    network: Networks,
    definition: Definition,
    config: Annotated[td.BuildConfig, build_config],
    lowerings: Lowerings,
    set_: Set = None,
    output: OutputFile = None,
    jobs: Annotated[int, of_build("How many networks at a time.", "N", "-j", "--jobs")] = 1,
    ranks: Annotated[
        int, of_build("One engine for each of so many GPUs, of a network that has ranks.", "N", min=1)
    ] = 1,
    device: Gpu = DEFAULT,
    no_check: Annotated[bool, of_check("Do not compare with torch first; the manifest says so.")] = False,
    check: Annotated[
        str, of_check("interpreter, or program: the engine itself, evaluated, too.", "ON")
    ] = "interpreter",
    tolerance: Tolerances = None,
    force: Annotated[bool, of_build("Build even if nothing changed.")] = False,
    dry_run: Annotated[bool, of_build("Define and check, but build and write nothing.")] = False,
    tune: Annotated[bool, of_build("First find the best lowering of each call, and write NAME.tuning.json.")] = False,
    tune_seconds: Annotated[float | None, of_build("As --tune, for so long; 60 by default.", "N")] = None,
) -> None:
    """Define a network, check it against torch, and write NAME.engine and NAME.engine.json.

    Examples:
      trtdsl build net.py --dim N=1:4:16 --precision fp16
      trtdsl build net.py other.py -o engines/ --no-check
    """
    if jobs < 1:
        raise UsageError(f"-j must be at least 1, not {jobs}")
    options = {**definition, "config": config, "device": device}
    options |= {"check": not no_check, "on": check, "tolerance": tolerances_of(tolerance)}
    options |= {"force": force, "dry_run": dry_run}
    with out.progress():
        from ...building.tune import SECONDS  # which imports most rooms
        from ...definition.spec.load import open_file

    seconds = tune_seconds if tune_seconds is not None else SECONDS if tune else None
    if seconds is not None and (lowerings is False or dry_run):
        raise UsageError(f"--tune writes a tuning, and {'--dry-run' if dry_run else '--no-tuning'} is against it")
    with out.progress():
        file = None if len(network) > 1 or ranks > 1 else open_file(network[0])
    if file is None or file.parts()[1]:
        if isinstance(lowerings, Path):
            raise UsageError("--tuning names the file of one network, and there are several")
        more = {"settings": settings_of(set_), "ranks": ranks, "tuning": lowerings, "tune_seconds": seconds}
        _build_several(out, network, output, jobs, {**options, **more})
    else:
        with out.progress():
            spec = file.spec(settings_of(set_))
        _build_one(out, spec, lowerings, seconds, output, options)


def _build_one(
    out: Output,
    spec: td.NetworkSpec,
    lowerings: bool | Path,
    seconds: float | None,
    output: str | None,
    options: dict[str, Any],
) -> None:
    tuned = None
    if seconds is not None:
        tuned = _tune(out, spec, None if isinstance(lowerings, bool) else lowerings, seconds, options)
        lowerings = False if tuned.file is None else tuned.file
    try:
        with out.progress() as progress:
            result = td.build(spec.tuned(lowerings), output, progress=progress.step, **options)
    except (CancelledError, KeyboardInterrupt):
        if tuned is None or tuned.file is None:
            raise
        raise CancelledError(f"cancelled; the tuning is in {shortened(tuned.file)}, and no engine was built") from None
    report = result.report.to_json() if result.report is not None else None
    facts = {"engine": str(result.engine), "built": result.built, "manifest_path": str(result.manifest_path)}
    value = {"schema": 1, "kind": "build", **facts, "manifest": result.manifest, "check": report}
    value |= {"tuning": None if tuned is None else tuned.to_json()}
    out.result(value, lambda: print_build(result, out.seconds, dry_run=options["dry_run"], verbose=out.verbose))


def _tune(
    out: Output, spec: td.NetworkSpec, file: Path | None, seconds: float, options: dict[str, Any]
) -> td.TuneReport:
    """Tunes a network and prints what that won. CancelledError, after printing, where it was cancelled."""
    from ...building.tune import tune_options

    with out.progress() as progress:
        given = tune_options(options)
        report = td.tune(spec, seconds=seconds, output=file, progress=progress.step, **given)
    if not out.json and not out.quiet:
        print_tuning(report, verbose=out.verbose)
    if report.cancelled:
        kept = (
            f"what was found until then is in {shortened(report.file)}"
            if report.file
            else "nothing was found until then"
        )
        raise CancelledError(f"cancelled while the network was tuned; {kept}, and no engine was built")
    return report


def _build_several(out: Output, networks: list[str], output: str | None, jobs: int, options: dict[str, Any]) -> None:
    tell = None if out.json else lambda outcome: print_outcome(outcome, quiet=out.quiet)
    with out.progress() as progress:
        outcomes = td.build_several(networks, output, jobs=jobs, done=tell, progress=progress.step, **options)
    failed = [outcome for outcome in outcomes if outcome.exit_code]
    if out.json:
        print_json({"schema": 1, "kind": "builds", "builds": [outcome.to_json() for outcome in outcomes]})
    elif failed:
        print_error(f"{len(failed)} of {len(outcomes)} networks were not built")
    if failed:
        raise typer.Exit(failed[0].exit_code)
