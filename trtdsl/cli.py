"""The command line. It has no logic of its own: it parses, calls, prints, and turns errors into exit codes."""

from __future__ import annotations

import json
import os
import platform
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

import trtdsl as td

from . import cli_engine, console
from .errors import TrtdslError
from .profile import Range, as_bounds, read_ranges
from .version import __version__

app = typer.Typer(
    name="trtdsl",
    help="TensorRT networks in Python with torch's vocabulary, without ONNX, proven equal to torch without a GPU.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
weights_app = typer.Typer(help="Weights files.", no_args_is_help=True)
app.add_typer(weights_app, name="weights")
explain_app = typer.Typer(help="What a lowering will do, from shapes alone.", no_args_is_help=True)
app.add_typer(explain_app, name="explain")

NetworkName = Annotated[str, typer.Argument(metavar="NETWORK", help="FILE.py or FILE.py:NAME")]
WeightsFile = Annotated[
    Path | None, typer.Option("--weights", metavar="FILE", help="safetensors instead of the network's own")
]
Dims = Annotated[
    list[str] | None,
    typer.Option("--dim", metavar="NAME=MIN:OPT:MAX", help="Range of a dynamic dimension, or NAME=SIZE to fix it."),
]
Profiles = Annotated[
    list[str] | None,
    typer.Option(
        "--profile", metavar="DIMS", help="Sizes to tune for, as N=1 or N=1:4:8,T=100; once for each profile."
    ),
]
BackendOption = Annotated[
    str | None,
    typer.Option("--backend", metavar="NAME", help="auto, tensorrt or tensorrt-rtx; TRTDSL_BACKEND sets it too."),
]
Precision = Annotated[
    str | None, typer.Option("--precision", metavar="DTYPE", help="fp16 or bf16, as torch.autocast; fp32 by default.")
]
Json = Annotated[bool, typer.Option("--json", help="One JSON object on stdout, everything else on stderr.")]
Quiet = Annotated[bool, typer.Option("-q", "--quiet", help="Print errors only.")]
Verbose = Annotated[bool, typer.Option("-v", "--verbose", help="Print more; tracebacks with errors.")]
AllowNonfinite = Annotated[bool, typer.Option("--allow-nonfinite", help="Accept NaN and Inf in weights.")]


@app.command()
def build(
    network: Annotated[
        list[str], typer.Argument(metavar="NETWORK...", help="FILE.py or FILE.py:NAME; several are built each apart.")
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "-o", "--output", metavar="FILE", help="Default: NAME.engine here. A folder for several networks."
        ),
    ] = None,
    jobs: Annotated[int, typer.Option("-j", "--jobs", metavar="N", help="How many networks at a time.")] = 1,
    dim: Dims = None,
    profile: Profiles = None,
    weights: WeightsFile = None,
    precision: Precision = None,
    backend: BackendOption = None,
    compute_capability: Annotated[
        list[str] | None,
        typer.Option("--compute-capability", metavar="X.Y", help="GPUs to build for (TensorRT-RTX); may be repeated."),
    ] = None,
    tf32: Annotated[bool, typer.Option("--tf32/--no-tf32", help="Allow TF32 in float32 products on the GPU.")] = True,
    optimization_level: Annotated[
        int | None, typer.Option("--optimization-level", metavar="0-5", help="How long to search (TensorRT).")
    ] = None,
    workspace: Annotated[
        int | None, typer.Option("--workspace", metavar="MIB", help="The most scratch memory a layer may use.")
    ] = None,
    timing_cache: Annotated[
        Path | None, typer.Option("--timing-cache", metavar="FILE", help="Measured kernels, kept (TensorRT).")
    ] = None,
    hardware_compatibility: Annotated[
        str | None,
        typer.Option(
            "--hardware-compatibility", metavar="LEVEL", help="ampere+ or same-compute-capability (TensorRT)."
        ),
    ] = None,
    version_compatible: Annotated[
        bool, typer.Option("--version-compatible", help="For later versions too (TensorRT).")
    ] = False,
    sparsity: Annotated[bool, typer.Option("--sparsity", help="Use sparse weights (TensorRT).")] = False,
    aux_streams: Annotated[
        int | None, typer.Option("--aux-streams", metavar="N", help="Streams besides the caller's (TensorRT).")
    ] = None,
    tiling: Annotated[
        str | None, typer.Option("--tiling", metavar="LEVEL", help="none, fast, moderate or full (TensorRT).")
    ] = None,
    profiling_verbosity: Annotated[
        str | None, typer.Option("--profiling-verbosity", metavar="LEVEL", help="none, names or detailed.")
    ] = None,
    weight_streaming: Annotated[bool, typer.Option("--weight-streaming", help="Let weights stay on the host.")] = False,
    refit: Annotated[bool, typer.Option("--refit", help="The engine takes new weights later.")] = False,
    strip_weights: Annotated[
        bool, typer.Option("--strip-weights", help="Write the engine without its weights.")
    ] = False,
    no_check: Annotated[
        bool, typer.Option("--no-check", help="Do not compare with torch first; the manifest says so.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Build even if nothing changed.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Define and check, but build and write nothing.")] = False,
    allow_nonfinite: AllowNonfinite = False,
    json_: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Define a network, check it against torch, and write NAME.engine and NAME.engine.json."""
    with _errors(json_, verbose), console.Progress(quiet or json_) as progress:
        options: dict[str, Any] = {
            "weights": weights,
            "dims": _dims(dim),
            "precision": precision,
            "backend": backend,
            "config": td.BuildConfig(
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
            ),
            "profiles": _profiles(profile),
            "run_check": not no_check,
            "force": force,
            "dry_run": dry_run,
            "allow_nonfinite": allow_nonfinite,
        }
        if len(network) > 1:
            _build_several(network, output, jobs, options, json_, quiet)
            return
        result = td.build(td.load_spec(network[0]), output, progress=progress.step, **options)
        progress.stop()
        if json_:
            _print_json(
                {"schema": 1, "kind": "build", "engine": str(result.engine), "built": result.built, **_nested(result)}
            )
        elif not quiet:
            console.print_build(result, dry_run=dry_run, verbose=verbose)


def _build_several(
    networks: list[str], output: Path | None, jobs: int, options: dict[str, Any], json_: bool, quiet: bool
) -> None:
    tell = None if json_ else lambda outcome: console.print_outcome(outcome, quiet=quiet)
    outcomes = td.build_several(networks, output, jobs=jobs, done=tell, **options)
    failed = [outcome for outcome in outcomes if outcome.exit_code]
    if json_:
        _print_json({"schema": 1, "kind": "builds", "builds": [outcome.to_json() for outcome in outcomes]})
    elif failed:
        console.complain(f"{len(failed)} of {len(outcomes)} networks were not built")
    if failed:
        raise typer.Exit(failed[0].exit_code)


def _nested(result: Any) -> dict[str, Any]:
    report = result.report.to_json() if result.report is not None else None
    return {"manifest_path": str(result.manifest_path), "manifest": result.manifest, "check": report}


@app.command()
def check(
    network: NetworkName,
    dim: Dims = None,
    profile: Profiles = None,
    weights: WeightsFile = None,
    precision: Precision = None,
    backend: BackendOption = None,
    on: Annotated[str, typer.Option("--on", help="interpreter (any machine) or engine (needs a GPU).")] = "interpreter",
    seed: Annotated[int, typer.Option("--seed", help="Of the random inputs.")] = 0,
    layers: Annotated[
        bool, typer.Option("--layers", help="Find the first submodule, layer and line that differ.")
    ] = False,
    allow_nonfinite: AllowNonfinite = False,
    json_: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Compare a network with its torch reference at the corners of every profile; exit code 1 when it differs."""
    with _errors(json_, verbose), console.Progress(quiet or json_) as progress:
        spec = td.load_spec(network)
        defined = spec.define(
            weights=weights,
            dims=_dims(dim),
            profiles=_profiles(profile),
            precision=precision,
            backend=backend,
            allow_nonfinite=allow_nonfinite,
        )
        report = td.check(
            spec,
            on=on,
            weights=weights,
            seed=seed,
            network=defined,
            progress=lambda case: progress.step(f"checking against torch ({case})", 0, 1),
        )
        found = td.locate_difference(spec, defined, report, weights) if layers else None
        progress.stop()
        if json_:
            _print_json({**report.to_json(), "layers": found.to_json() if found is not None else None})
        elif not quiet:
            console.print_check(report)
            if found is not None:
                console.print_layers(found)
    if not report.passed:
        raise typer.Exit(1)


@app.command()
def inspect(
    network: NetworkName,
    dim: Dims = None,
    weights: WeightsFile = None,
    backend: BackendOption = None,
    allow_nonfinite: AllowNonfinite = False,
    json_: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Print a network's layers at the sizes it is tuned for: shapes, parameters, FLOPs, bytes, the author's line."""
    with _errors(json_, verbose):
        spec = td.load_spec(network)
        summary = td.inspect(spec, weights=weights, dims=_dims(dim), backend=backend, allow_nonfinite=allow_nonfinite)
        if json_:
            _print_json(summary.to_json())
        elif not quiet:
            console.print_summary(summary)


@weights_app.command("convert")
def convert(
    source: Annotated[Path, typer.Argument(metavar="CHECKPOINT", help="A torch checkpoint (.pt, .pth).")],
    output: Annotated[Path, typer.Argument(metavar="OUTPUT", help="The safetensors file to write.")],
    json_: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Make a safetensors file of a torch checkpoint's state_dict; a pickle that would run code is refused."""
    with _errors(json_, verbose):
        names = td.convert_weights(source, output)
        if json_:
            _print_json({"schema": 1, "kind": "weights", "output": str(output), "names": names})
        elif not quiet:
            console.say(f"{output}: {len(names)} tensors")


@explain_app.command("einsum")
def explain_einsum(
    equation: Annotated[str, typer.Argument(metavar="EQUATION", help='Such as "nkctv,kvw->nctw".')],
    shapes: Annotated[list[str], typer.Argument(metavar="SHAPE…", help="One for each operand, such as N,3,64,300,18.")],
    constant: Annotated[
        list[int] | None, typer.Option("--constant", metavar="INDEX", help="An operand known in advance, from 0 on.")
    ] = None,
    dim: Dims = None,
    json_: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Print the plan of an einsum: its steps, what is transposed and why, and what it costs."""
    with _errors(json_, verbose):
        known = _dims(dim)
        plan = td.explain_einsum(equation, *(_shape(text, known) for text in shapes), constants=constant or ())
        if json_:
            _print_json({"schema": 1, "kind": "einsum", **plan.to_json()})
        elif not quiet:
            console.say(str(plan))


@app.command()
def doctor(backend: BackendOption = None, json_: Json = False, quiet: Quiet = False, verbose: Verbose = False) -> None:
    """Say what is installed here, what this machine can do with it, and what is missing."""
    with _errors(json_, verbose):
        facts = td.diagnose(backend)
        if json_:
            _print_json({"schema": 1, "kind": "doctor", **facts})
        elif not quiet:
            console.print_facts(facts)


def _version(show: bool) -> None:
    if show:
        typer.echo(f"trtdsl {__version__} (Python {platform.python_version()})")
        raise typer.Exit


@app.callback()
def _options(
    show_version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


# -- helpers -----------------------------------------------------------------------------------------------------------


def _dims(given: list[str] | None) -> dict[str, Range]:
    """Of ``--dim``: a range, or one size in the place of a dimension."""
    return read_ranges(given or [], "--dim")


def _profiles(given: list[str] | None) -> list[td.Profile] | None:
    return [td.Profile.parse(text) for text in given] if given else None


def _shape(text: str, dims: dict[str, Range]) -> tuple[int | td.Dim, ...]:
    """``N,3,18`` as a shape, with the ranges of ``--dim``; an empty text is a scalar's."""
    shape: list[int | td.Dim] = []
    for size in text.split(",") if text.strip("()") else []:
        size = size.strip(" ()")
        known = dims.get(size)
        if size.isdigit() or isinstance(known, int):
            shape.append(known if isinstance(known, int) else int(size))
        elif known is not None:
            low, opt, high = as_bounds(size, known)
            shape.append(td.Dim(size, min=low, opt=opt, max=high))
        else:
            shape.append(td.Dim(size))
    return tuple(shape)


def _print_json(value: Any) -> None:
    typer.echo(json.dumps(_finite(value), indent=2))


def _finite(value: Any) -> Any:
    """JSON has no NaN or Inf: they become strings."""
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return str(value)
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    return value


@contextmanager
def _errors(json_: bool, verbose: bool) -> Iterator[None]:
    """Prints an error as one message and exits with its code; the traceback only with -v."""
    try:
        yield
    except TrtdslError as error:
        _fail(error, error.exit_code, str(error), json_, verbose, error.location)
    except KeyboardInterrupt:
        _fail(None, 130, "cancelled; nothing was written", json_, False, None)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(0) from None
    except (MemoryError, OSError) as error:
        _fail(error, 8, f"{type(error).__name__}: {error}", json_, verbose, None)


def _fail(error: BaseException | None, code: int, text: str, json_: bool, verbose: bool, location: Any) -> None:
    if verbose and error is not None:
        traceback.print_exception(error)
    if json_:
        place = {"file": location.file, "line": location.line} if location else None
        kind = type(error).__name__ if error is not None else "Cancelled"
        details = {"type": kind, "message": text, "location": place, "exit_code": code}
        if isinstance(error, TrtdslError) and error.code is not None:
            details["code"] = error.code
        _print_json({"schema": 1, "kind": "error", "error": details})
    console.complain(text)
    raise typer.Exit(code)


cli_engine.register(app, weights_app, _errors, _print_json, _dims)


def main() -> None:
    """The entry point of the console script."""
    try:
        app()
    except KeyboardInterrupt:
        console.complain("cancelled; nothing was written")
        sys.exit(130)


if __name__ == "__main__":
    main()
