"""`trtdsl build`: networks to engines on disk."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

import trtdsl as td

from ...core.errors import CancelledError, UsageError
from ...display.results import print_build, print_outcome, print_tuning, shortened
from ...display.terminal import print_error
from ...programs.devices import DEFAULT
from ..command import Output, command, print_json
from ..options import (
    Definition,
    Gpu,
    Lowerings,
    Settings,
    Tolerances,
    of_build,
    of_builder,
    of_check,
    settings_of,
    tolerances_of,
)

app = typer.Typer()

Networks = Annotated[
    list[str], typer.Argument(metavar="NETWORK...", help="FILE.py or FILE.py:NAME; several are built each apart.")
]
OutputFile = Annotated[
    str | None,  # a Path would lose the stroke of FOLDER/
    of_build("-o", "--output", metavar="FILE|FOLDER/", help="Default: NAME.engine here. FOLDER/ is made."),
]
Jobs = Annotated[int, of_build("-j", "--jobs", metavar="N", help="How many networks at a time.")]

# Options of the builder

ComputeCapabilities = Annotated[
    list[str] | None,
    of_builder("--compute-capability", metavar="X.Y", help="GPUs to build for (TensorRT-RTX); may be repeated."),
]
TF32 = Annotated[bool, of_builder("--tf32/--no-tf32", help="Allow TF32 in float32 products on the GPU.")]
OptimizationLevel = Annotated[
    int | None, of_builder("--optimization-level", metavar="0-5", help="How long to search (TensorRT).")
]
Workspace = Annotated[
    int | None, of_builder("--workspace", metavar="MIB", help="The most scratch memory a layer may use.")
]
TimingCache = Annotated[
    Path | None, of_builder("--timing-cache", metavar="FILE", help="Measured kernels, kept (TensorRT).")
]
HardwareCompatibility = Annotated[
    str | None,
    of_builder("--hardware-compatibility", metavar="LEVEL", help="ampere+ or same-compute-capability (TensorRT)."),
]
VersionCompatible = Annotated[bool, of_builder("--version-compatible", help="For later versions too (TensorRT).")]
Sparsity = Annotated[bool, of_builder("--sparsity", help="Use sparse weights (TensorRT).")]
AuxStreams = Annotated[
    int | None, of_builder("--aux-streams", metavar="N", help="Streams besides the caller's (TensorRT).")
]
Tiling = Annotated[str | None, of_builder("--tiling", metavar="LEVEL", help="none, fast, moderate or full (TensorRT).")]
ProfilingVerbosity = Annotated[
    str | None, of_builder("--profiling-verbosity", metavar="LEVEL", help="none, names or detailed.")
]
WeightStreaming = Annotated[bool, of_builder("--weight-streaming", help="Let weights stay on the host.")]
Refit = Annotated[bool, of_builder("--refit", help="The engine takes new weights later.")]
StripWeights = Annotated[bool, of_builder("--strip-weights", help="Write the engine without its weights.")]


def build_config(
    compute_capability: ComputeCapabilities = None,
    tf32: TF32 = True,
    optimization_level: OptimizationLevel = None,
    workspace: Workspace = None,
    timing_cache: TimingCache = None,
    hardware_compatibility: HardwareCompatibility = None,
    version_compatible: VersionCompatible = False,
    sparsity: Sparsity = False,
    aux_streams: AuxStreams = None,
    tiling: Tiling = None,
    profiling_verbosity: ProfilingVerbosity = None,
    weight_streaming: WeightStreaming = False,
    refit: Refit = False,
    strip_weights: StripWeights = False,
) -> td.BuildConfig:
    """The builder's options as :class:`~trtdsl.BuildConfig` has them."""
    return td.BuildConfig(
        tf32=tf32,
        compute_capabilities=tuple(compute_capability or ()),
        optimization_level=optimization_level,
        workspace=None if workspace is None else workspace << 20,
        timing_cache=timing_cache,
        hardware_compatibility=hardware_compatibility,  # pyright: ignore[reportArgumentType] (checked there)
        version_compatible=version_compatible,
        sparsity=sparsity,
        aux_streams=aux_streams,
        tiling=tiling,  # pyright: ignore[reportArgumentType]
        profiling_verbosity=profiling_verbosity,  # pyright: ignore[reportArgumentType]
        weight_streaming=weight_streaming,
        refit=refit,
        strip_weights=strip_weights,
    )


@app.command()
@command
def build(
    out: Output,
    network: Networks,
    definition: Definition,
    config: Annotated[td.BuildConfig, build_config],
    lowerings: Lowerings,
    set_: Settings = None,
    output: OutputFile = None,
    jobs: Jobs = 1,
    ranks: Annotated[
        int,
        of_build(
            "--ranks", min=1, metavar="N", help="One engine for each of so many GPUs, of a network that has ranks."
        ),
    ] = 1,
    device: Gpu = DEFAULT,
    no_check: Annotated[
        bool, of_check("--no-check", help="Do not compare with torch first; the manifest says so.")
    ] = False,
    check: Annotated[
        str, of_check("--check", metavar="ON", help="interpreter, or program: the engine itself, evaluated, too.")
    ] = "interpreter",
    tolerance: Tolerances = None,
    force: Annotated[bool, of_build("--force", help="Build even if nothing changed.")] = False,
    dry_run: Annotated[bool, of_build("--dry-run", help="Define and check, but build and write nothing.")] = False,
    tune: Annotated[
        bool, of_build("--tune", help="First find the best lowering of each call, and write NAME.tuning.json.")
    ] = False,
    tune_seconds: Annotated[
        float | None, of_build("--tune-seconds", metavar="N", help="As --tune, for so long; 60 by default.")
    ] = None,
) -> None:
    """Define a network, check it against torch, and write NAME.engine and NAME.engine.json."""
    if jobs < 1:
        raise UsageError(f"-j must be at least 1, not {jobs}")
    options = {**definition, "config": config, "device": device}
    options |= {"check": not no_check, "on": check, "tolerance": tolerances_of(tolerance)}
    options |= {"force": force, "dry_run": dry_run}
    from ...building.tune import SECONDS  # which imports most rooms

    seconds = tune_seconds if tune_seconds is not None else SECONDS if tune else None
    if seconds is not None and (lowerings is False or dry_run):
        raise UsageError(f"--tune writes a tuning, and {'--dry-run' if dry_run else '--no-tuning'} is against it")
    if len(network) > 1 or ranks > 1:
        if isinstance(lowerings, Path):
            raise UsageError("--tuning names the file of one network, and there are several")
        more = {"settings": settings_of(set_), "ranks": ranks, "tuning": lowerings, "tune_seconds": seconds}
        _build_several(out, network, output, jobs, {**options, **more})
    else:
        with out.progress():
            spec = td.load_spec(network[0], settings_of(set_))
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
    out.result(value, lambda: print_build(result, dry_run=options["dry_run"], verbose=out.verbose))


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
