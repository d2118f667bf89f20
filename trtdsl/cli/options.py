"""Options that several commands have, alone and in groups, and the parsing of their texts."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

import trtdsl as td

from ..core import exit_codes
from ..core.errors import TrtdslError, UsageError
from ..sizes.profile import Range, as_bounds, read_ranges
from .command import PANELS, Output, print_json

Texts = list[str] | None
"""Of an option that may be repeated."""


def option(help: str, metavar: str | None = None, *names: str, **how: Any) -> Any:
    """An option with its help, what stands for its value (of a flag None), and names where it has others than its
    parameter's; ``how`` is typer's."""
    return typer.Option(*names, metavar=metavar, help=help, **how)


# Options by the panel of the help that they stand in.
of_network, of_check, of_build, of_builder = (functools.partial(option, rich_help_panel=panel) for panel in PANELS)


def _names(*names: str) -> Callable[[str], list[str]]:
    """What a shell completes a value to."""

    def complete(incomplete: str) -> list[str]:
        return [name for name in names if name.startswith(incomplete)]

    return complete


def _devices(incomplete: str) -> list[str]:
    from ..programs.devices import DEVICES  # not for --help

    return _names(*DEVICES)(incomplete)


NetworkName = Annotated[str, typer.Argument(metavar="NETWORK", help="FILE.py or FILE.py:NAME")]
WeightsFile = Annotated[Path | None, of_network("safetensors instead of the network's own", "FILE")]
Dims = Annotated[Texts, of_network("Range of a dynamic dimension, or NAME=SIZE to fix it.", "NAME=MIN:OPT:MAX")]
Profiles = Annotated[Texts, of_network("Sizes to tune for, as N=1 or N=1:4:8,T=100; once for each profile.", "DIMS")]
Backend = Annotated[
    str | None,
    of_builder(
        "auto, tensorrt or tensorrt-rtx; TRTDSL_BACKEND sets it too.",
        "NAME",
        autocompletion=_names("auto", "tensorrt", "tensorrt-rtx"),
    ),
]
Precision = Annotated[
    str | None,
    of_network(
        "fp16 or bf16, as torch.autocast; NAME.precision.json; int8 or fp8, by scales of drawn values; or fp32.",
        "DTYPE",
        autocompletion=_names("fp16", "bf16", "int8", "fp8", "fp32"),
    ),
]
Set = Annotated[Texts, of_network("A parameter of the function that makes the network; repeatable.", "NAME=VALUE")]
Ranks = Annotated[int | None, of_network("Of a network for several GPUs: as --set ranks=N.", "N", min=1)]
Gpu = Annotated[str, option("Whose floor: h100, rtx-4090, orin, …", "GPU", autocompletion=_devices)]
Shapes = Annotated[Texts, option("Of an engine without a manifest, such as x=4,3,224,224.", "INPUT=SIZES")]
EngineName = Annotated[Path, typer.Argument(metavar="ENGINE", help="What `trtdsl build` wrote.")]
EngineBackend = Annotated[str | None, option("The engine's own when not said.", "NAME")]
NoTuning = Annotated[bool, of_network("Leave out what `build --tune` found earlier.")]
TuningFile = Annotated[Path | None, of_network("Instead of NAME.tuning.json beside the weights.", "FILE")]
Tolerances = Annotated[
    Texts,
    of_check("Error allowed beyond torch's own, as a part of each slice of an output: 1e-3.", "[OUTPUT=]PART"),
]
AllowNonfinite = Annotated[bool, of_check("Accept NaN and Inf in weights.")]


NUMBER = re.compile(r"[0-9]{1,18}")  # str.isdigit accepts other digits too, and longer numbers are no sizes


def dims_of(given: Texts) -> dict[str, Range]:
    """Parses ``--dim``: a range, or one size in the place of a dimension."""
    return read_ranges(given or [], "--dim")


def pairs_of(given: Texts, option: str, expected: str, is_right: Callable[[str, str], bool]) -> dict[str, str]:
    """Parses an option ``NAME=TEXT`` that may be repeated. Raises UsageError."""
    result: dict[str, str] = {}
    for text in given or []:
        name, found, rest = text.partition("=")
        if not found or not is_right(name, rest):
            raise UsageError(f"{option} {text}: expected {expected}")
        if name in result:
            raise UsageError(f"{option} gives {name} twice")
        result[name] = rest
    return result


def files_of(given: Texts, option: str, expected: str = "NAME=FILE.npy") -> dict[str, str]:
    """Parses an option that gives a file, or something else, for each input."""
    return pairs_of(given, option, expected, lambda name, text: bool(name and text))


def settings_of(set_: Set = None) -> dict[str, Any]:
    """Parses ``--set``; the network's function knows the types."""
    expected = "NAME=VALUE, such as path=model.safetensors"
    return {**pairs_of(set_, "--set", expected, lambda name, _: name.isidentifier())}


def setting_options(set_: Set = None, ranks: Ranks = None) -> dict[str, Any]:
    """What a network's function is given, of which all ranks are evaluated together."""
    given = settings_of(set_)
    if ranks is not None and "ranks" in given:
        raise UsageError("--ranks and --set ranks=N say the same: give one of them")
    return given if ranks is None else {**given, "ranks": ranks}


def networks_of(names: Sequence[str], settings: dict[str, Any]) -> list[td.NetworkSpec | str]:
    """Networks with these settings; engines and ONNX files by their names. UsageError where none is a network."""
    networks = [name for name in names if ".py" in Path(name).name]
    if settings and not networks:
        raise UsageError(f"--set is for networks, such as FILE.py:NAME, and {' and '.join(names)} is none")
    return [td.load_spec(name, settings) if settings and name in networks else name for name in names]


def for_each_part(
    out: Output,
    name: str,
    settings: dict[str, Any],
    run: Callable[[Output, td.NetworkSpec], None],
    alone: Mapping[str, Any],
) -> None:
    """Runs a command of a network; of one in parts, of each of them, whose results are one JSON object.

    ``alone`` has options that are of one network, by name: UsageError where one is given and the network has parts.
    Exits with the greatest exit code of the parts.
    """
    from ..definition.spec.load import open_file

    file = open_file(name)
    whole, parts = file.parts()
    if not parts:
        run(out, file.spec(settings))
        return
    if given := [option for option, value in alone.items() if value]:
        raise UsageError(
            f"{given[0]} is for one network, and {name} is in parts, each for some of the sizes: name one, as "
            f"{file.path}:{parts[0].name} (of {', '.join(part.name for part in parts)})"
        )
    kept, code = list[Any](), exit_codes.FINE
    for part in parts:
        try:
            run(replace(out, kept=kept), replace(file, wanted=part.name).spec(settings))
        except typer.Exit as ended:
            code = max(code, ended.exit_code)
        except TrtdslError as error:
            error.context.append(f"in {part.name}, one of the parts of {whole}")
            raise
    if out.json:
        print_json({"schema": 1, "kind": "parts", "network": whole, "parts": kept})
    if code:
        raise typer.Exit(code)


def tolerances_of(given: Texts) -> dict[str | None, float] | None:
    """Parses ``--tolerance``: parts by output, None for all of them."""
    found: dict[str | None, float] = {}
    for text in given or []:
        name, _, part = text.rpartition("=")
        try:
            found[name or None] = float(part)
        except ValueError:
            raise UsageError(f"--tolerance {text}: expected a part of a slice such as 1e-3, or OUTPUT=1e-3") from None
    return found or None


def shape_of(text: str, dims: dict[str, Range]) -> tuple[int | td.Dim, ...]:
    """``N,3,18`` as a shape, with the ranges of ``--dim``; an empty text is a scalar's."""
    shape: list[int | td.Dim] = []
    for size in text.split(",") if text.strip("()") else []:
        size = size.strip(" ()")
        known = dims.get(size)
        if NUMBER.fullmatch(size) or isinstance(known, int):
            shape.append(known if isinstance(known, int) else int(size))
        elif known is not None:
            low, opt, high = as_bounds(size, known)
            shape.append(td.Dim(size, min=low, opt=opt, max=high))
        else:
            shape.append(td.Dim(size))
    return tuple(shape)


def shapes_of(given: Texts) -> dict[str, tuple[int, ...]]:
    """Parses ``--shape``."""
    shapes = {}
    for text in given or []:
        name, found, sizes = text.partition("=")
        shape = shape_of(sizes, {})
        if not found or not name or not all(isinstance(size, int) for size in shape):
            raise UsageError(f"--shape {text}: expected INPUT=SIZES, such as x=4,3,224,224")
        shapes[name] = shape
    return shapes


def common_options(
    dim: Dims = None,
    weights: WeightsFile = None,
    precision: Precision = None,
    backend: Backend = None,
    allow_nonfinite: AllowNonfinite = False,
) -> dict[str, Any]:
    """How a network is defined, as :func:`~trtdsl.inspect` and :func:`~trtdsl.view` take it."""
    how = {"weights": weights, "precision": precision, "backend": backend, "allow_nonfinite": allow_nonfinite}
    return {"dims": dims_of(dim), **how}


def define_options(
    dim: Dims = None,
    profile: Profiles = None,
    weights: WeightsFile = None,
    precision: Precision = None,
    backend: Backend = None,
    allow_nonfinite: AllowNonfinite = False,
) -> dict[str, Any]:
    """The same with profiles, as :func:`~trtdsl.build` and :meth:`~trtdsl.NetworkSpec.define` take it."""
    common = common_options(dim, weights, precision, backend, allow_nonfinite)
    return {**common, "profiles": [td.Profile.parse(text) for text in profile] if profile else None}


def tuning_options(no_tuning: NoTuning = False, tuning: TuningFile = None) -> bool | Path:
    """Which tuning a spec takes, as :meth:`~trtdsl.NetworkSpec.tuned` has it."""
    if no_tuning and tuning is not None:
        raise UsageError("--no-tuning leaves out every tuning, and --tuning names one: say one of them")
    return not no_tuning if tuning is None else tuning


Settings = Annotated[dict[str, Any], setting_options]
Lowerings = Annotated[bool | Path, tuning_options]
Common = Annotated[dict[str, Any], common_options]
Definition = Annotated[dict[str, Any], define_options]
