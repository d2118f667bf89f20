"""The commands around engines: run, bench, export triton, weights derive. As in cli.py, no logic of their own."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import trtdsl as td

from ..display.results import print_bench
from ..display.terminal import print_error, print_line
from .common import Json, Quiet, Verbose, dims_of, errors, pairs_of, print_json

EngineName = Annotated[Path, typer.Argument(metavar="ENGINE", help="What `trtdsl build` wrote.")]
Backend = Annotated[str | None, typer.Option("--backend", metavar="NAME", help="The engine's own when not said.")]
Device = Annotated[int, typer.Option("--device", metavar="N", help="Which GPU.")]
Inputs = Annotated[list[str] | None, typer.Option("--input", metavar="NAME=FILE.npy", help="An input; once for each.")]
Weights = Annotated[
    Path | None, typer.Option("--weights", metavar="FILE", help="Put these into a refittable engine first.")
]


def run(
    engine: EngineName,
    input: Inputs = None,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FOLDER", help="For NAME.npy.")] = Path("."),
    weights: Weights = None,
    backend: Backend = None,
    device: Device = 0,
    no_manifest: Annotated[bool, typer.Option("--no-manifest", help="The engine has none.")] = False,
    trust_network_file: Annotated[
        bool, typer.Option("--trust-network-file", help="With --weights: run the Python that the manifest names.")
    ] = False,
    allow_host_code: Annotated[
        bool, typer.Option("--allow-host-code", help="Load an engine that carries code for the CPU.")
    ] = False,
    json_: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Run an engine on .npy files and write its outputs as FOLDER/NAME.npy."""
    with errors(json_, verbose):
        paths = td.run_files(
            engine,
            pairs_of(input, "--input", "NAME=FILE.npy", lambda name, path: bool(name and path)),
            output,
            backend=backend,
            device=device,
            manifest=not no_manifest,
            weights=weights,
            trust_network_file=trust_network_file,
            allow_host_code=allow_host_code,
        )
        if json_:
            outputs = {name: str(path) for name, path in paths.items()}
            print_json({"schema": 1, "kind": "run", "engine": str(engine), "outputs": outputs})
        elif not quiet:
            for path in paths.values():
                print_line(str(path))


def bench(
    target: Annotated[str, typer.Argument(metavar="ENGINE|NETWORK", help="NAME.engine, or FILE.py[:NAME].")],
    runs: Annotated[int, typer.Option("--runs", help="Timed runs.")] = 100,
    warm_up: Annotated[int, typer.Option("--warm-up", help="Runs before them.")] = 10,
    dim: Annotated[
        list[str] | None, typer.Option("--dim", metavar="NAME=SIZE", help="Of a network's dynamic dimension.")
    ] = None,
    profile: Annotated[int, typer.Option("--profile", metavar="INDEX", help="At whose best sizes.")] = 0,
    precision: Annotated[
        str | None, typer.Option("--precision", metavar="fp16|bf16", help="Of a network; torch runs in it too.")
    ] = None,
    against: Annotated[
        str, typer.Option("--against", metavar="LIST", help="torch, compile, onnx: the reference, beside it.")
    ] = "",
    backend: Backend = None,
    tf32: Annotated[bool, typer.Option("--tf32/--no-tf32", help="For all that is measured.")] = True,
    graphs: Annotated[bool, typer.Option("--graphs", help="Capture the engine as a CUDA graph.")] = False,
    fail_above: Annotated[
        float | None, typer.Option("--fail-above", metavar="MS", help="Exit code 1 for a slower median.")
    ] = None,
    json_: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Time an engine, or a network built here, on this machine's GPU."""
    with errors(json_, verbose):
        report = td.bench(
            target,
            runs=runs,
            warm_up=warm_up,
            dims=dims_of(dim),
            profile=profile,
            precision=precision,
            against=[name for name in against.split(",") if name],
            backend=backend,
            tf32=tf32,
            graphs=graphs,
        )
        if json_:
            print_json(report.to_json())
        elif not quiet:
            print_bench(report)
    if fail_above is not None and report.times[0].median > fail_above:
        print_error(f"the median is {report.times[0].median:.3f} ms, above {fail_above} ms")
        raise typer.Exit(1)


def triton(
    engine: EngineName,
    repository: Annotated[Path, typer.Argument(metavar="REPOSITORY", help="Triton's model repository.")],
    name: Annotated[str | None, typer.Option("--name", help="The model's; the network's when not said.")] = None,
    version: Annotated[int, typer.Option("--version", help="The model's version.")] = 1,
    instances: Annotated[int, typer.Option("--instances", help="Per GPU.")] = 1,
    queue_delay: Annotated[
        int | None, typer.Option("--queue-delay", metavar="US", help="Microseconds to wait for a fuller batch.")
    ] = None,
    allow_rtx: Annotated[
        bool, typer.Option("--allow-rtx", help="Export a TensorRT-RTX engine, for a backend of your own.")
    ] = False,
    json_: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Write a Triton model repository around an engine."""
    with errors(json_, verbose):
        folder = td.export_triton(
            engine,
            repository,
            name=name,
            version=version,
            instances=instances,
            queue_delay_us=queue_delay,
            allow_rtx=allow_rtx,
        )
        if json_:
            print_json({"schema": 1, "kind": "export", "folder": str(folder)})
        elif not quiet:
            print_line(str(folder))


def derive(
    network: Annotated[str, typer.Argument(metavar="NETWORK", help="FILE.py or FILE.py:NAME")],
    output: Annotated[Path, typer.Argument(metavar="OUTPUT", help="The safetensors file to write.")],
    weights: Annotated[Path | None, typer.Option("--weights", metavar="FILE", help="The new weights.")] = None,
    dim: Annotated[
        list[str] | None, typer.Option("--dim", metavar="NAME=MIN:OPT:MAX", help="As the engine was built with.")
    ] = None,
    precision: Annotated[
        str | None, typer.Option("--precision", metavar="fp16|bf16", help="As the engine was built with.")
    ] = None,
    json_: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Make what a refittable engine takes of new weights, where the network's file is and the engine is not."""
    with errors(json_, verbose):
        spec = td.load_spec(network)
        values = td.derive_weights(spec, weights, dims=dims_of(dim), precision=precision, output=output)
        if json_:
            print_json({"schema": 1, "kind": "weights", "output": str(output), "names": list(values)})
        elif not quiet:
            print_line(f"{output}: {len(values)} values")


def register(app: typer.Typer, weights_app: typer.Typer) -> None:
    """Adds the commands to the command line."""
    app.command()(run)
    app.command()(bench)
    export_app = typer.Typer(help="Engines for other programs.", no_args_is_help=True)
    export_app.command()(triton)
    app.add_typer(export_app, name="export")
    weights_app.command()(derive)
