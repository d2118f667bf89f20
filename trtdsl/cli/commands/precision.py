"""`trtdsl precision`: the dtype of each call, found on data of the author's."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import trtdsl as td

from ...core.errors import UsageError
from ...display.results import print_precision
from ...programs.devices import DEFAULT
from ..command import Output, command
from ..options import Backend, Dims, Gpu, NetworkName, Settings, Texts, WeightsFile, dims_of, option


@command
def precision(
    out: Output,
    network: NetworkName,
    settings: Settings,
    dim: Dims = None,
    weights: WeightsFile = None,
    backend: Backend = None,
    data: Annotated[
        Path | None, option("INPUT.npy files, or folders with these; drawn values without.", "FOLDER")
    ] = None,
    allow: Annotated[str, option("The low dtypes: fp16, bf16, int8, fp8, int4.", "DTYPES")] = "fp16,bf16",
    budget: Annotated[
        Texts, option("The least SQNR; 40dB by default. By output: y=45dB,z=30dB.", "[OUTPUT=]45dB")
    ] = None,
    device: Gpu = DEFAULT,
    seconds: Annotated[float, option("How long the search may take.", "N")] = 120.0,
    output: Annotated[
        Path | None, option("Default: NAME.precision.json beside the weights.", "FILE", "-o", "--output")
    ] = None,
) -> None:
    """Find in which precision each call may compute, within a budget of noise, and write NAME.precision.json.

    No GPU is needed. `build`, `check`, `inspect` and `view` take the file as --precision.

    Examples:
      trtdsl precision net.py --allow fp16,int8 --budget 40dB
    """
    with out.progress() as progress:
        report = td.find_precision(
            td.load_spec(network, settings),
            data=data,
            allow=allow.split(","),
            budget=_budget(budget),
            device=device,
            seconds=seconds,
            output=output,
            weights=weights,
            dims=dims_of(dim),
            backend=backend,
            progress=progress.step,
        )
    out.result(report.to_json(), lambda: print_precision(report))


def _budget(given: Texts) -> Any:
    """Parses ``--budget``: decibels for all outputs, or by output."""
    found: dict[str, td.SQNR] = {}
    for text in ",".join(given or ["40dB"]).split(","):
        name, _, value = text.rpartition("=")
        try:
            if text.startswith("=") or name in found:
                raise ValueError
            found[name] = td.SQNR(float(value.removesuffix("dB").removesuffix("db").strip()))
        except ValueError:
            raise UsageError(
                f"--budget {text}: expected decibels such as 45dB, or OUTPUT=45dB, once for each"
            ) from None
    if "" in found and len(found) > 1:
        raise UsageError("--budget is given for all outputs, and for some: say one of them")
    return found.get("", found)
