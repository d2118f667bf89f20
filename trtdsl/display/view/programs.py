"""What the page shows of a program: its launches with their floors, its tensors and its hazards."""

from __future__ import annotations

from typing import Any

from ...programs.devices import DEFAULT, LEFT_OUT, floor_of
from ...programs.hazards import find_hazards
from ...programs.launches import Place
from ...programs.program import Program


def program_model(program: Program, device: str = DEFAULT) -> dict[str, Any]:
    """Everything about a program that the page shows; tensors are named by their index."""
    graph, floor = program.graph, floor_of(program, device)
    used = {op.tensor: None for launch in program.launches for op in (*launch.reads, *launch.writes)}
    places = {name: index for index, name in enumerate(used)}
    launches = [
        {
            "kind": launch.kind, "name": launch.name, "stream": launch.stream, "times": launch.times,
            "moved": launch.bytes * launch.times,
            "flops": None if launch.flops is None else launch.flops * launch.times,
            "floor": floor.launches[launch.index], "dtype": launch.dtype,
            "lines": graph.lines(launch), "calls": sorted({called(place) for place in graph.places(launch)}),
            "grid": launch.grid, "block": launch.block, "epilogue": launch.epilogue, "loop": launch.loop,
            "cause": graph.cause(launch) if launch.rearranges else "",
            "reads": [[places[op.tensor], op.bytes] for op in launch.reads],
            "writes": [[places[op.tensor], op.bytes] for op in launch.writes],
        }
        for launch in program.launches
    ]  # fmt: skip
    tensors = [
        {
            "name": tensor.name, "shape": tensor.shape, "dims": tensor.dims, "dtype": tensor.dtype,
            "order": tensor.order, "place": tensor.place, "constant": tensor.constant,
        }
        for tensor in map(program.tensors.__getitem__, used)
    ]  # fmt: skip
    return {
        "backend": program.backend,
        "dims": program.dims,
        "totals": program.totals(),
        "floor": {
            "seconds": floor.seconds,
            "device": floor.device.name,
            "overhead": floor.device.overhead,
            "note": LEFT_OUT,
        },
        "launches": launches,
        "tensors": tensors,
        "hazards": [{**vars(hazard), "place": hazard.place} for hazard in find_hazards(program)],
        "notes": program.notes,
    }


def called(place: Place) -> str:
    """A call by its line, its function and where the author calls the function around it; a box has the same."""
    return f"{place.line} {place.call} {place.caller}"
