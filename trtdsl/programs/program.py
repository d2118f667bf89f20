"""The program that an engine runs on the GPU: launches in order, the tensors that they read and write, the memory."""

from __future__ import annotations

import functools
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from ..core.errors import several
from ..core.html import folded, table
from .graph import Graph, Launch, ProgramTensor
from .plan import Region

By = Literal["line", "module", "kind", "launch"]
ALIGNMENT = 512  # of activation memory: the builder's unit when it adds up the regions


def megabytes(count: int) -> str:
    """``12.3 MB``.

    >>> megabytes(12_345_678), megabytes(2_500)
    ('12.3 MB', '2.5 kB')
    """
    for size, unit in ((10**9, "GB"), (10**6, "MB"), (10**3, "kB")):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count} bytes"


@dataclass(frozen=True)
class Share:
    """The launches and bytes of one line, one module or one kind."""

    name: str
    launches: int
    bytes: int
    rearranged_bytes: int
    flops: int


@dataclass(frozen=True)
class Program:
    """The program of an engine at given sizes of its dimensions. Made by :func:`trtdsl.program`."""

    network: str
    backend: str
    source: str
    """``plan`` for the text of a plan, ``engine inspector`` for TensorRT's own report."""
    dims: dict[str, int]
    inputs: dict[str, tuple[int, ...]]
    """The shapes of the network's inputs."""
    outputs: tuple[str, ...]
    launches: tuple[Launch, ...]
    tensors: dict[str, ProgramTensor]
    regions: tuple[Region, ...]
    memory: int
    """Activation memory that the engine asks for, at the greatest sizes that it serves."""
    tf32: bool
    """Whether float32 products may be computed in TF32."""
    engine_bytes: int | None = None
    build_seconds: float | None = None
    """Where it was built for this; None for one read from a file."""
    file_sha256: str | None = None
    """The hash of the author's file, where an engine's manifest has it."""
    notes: tuple[str, ...] = field(default=())
    """What could not be told, in words."""
    unshared: tuple[str, ...] = ()
    """Constants that no other profile of the engine reads, where it has several."""

    @property
    def label(self) -> str:
        """The network, the backend and the sizes, for people."""
        at = ", ".join(f"{name}={size}" for name, size in self.dims.items())
        return f"{self.network} ({self.backend}){f' at {at}' if at else ''}"

    @property
    def launch_count(self) -> int:
        """Launches of one run, loops counted."""
        return sum(launch.times for launch in self.launches)

    @property
    def bytes(self) -> int:
        """Bytes that one run reads and writes."""
        return sum(launch.bytes * launch.times for launch in self.launches)

    @property
    def rearranged_bytes(self) -> int:
        """Bytes of launches that only move values."""
        return sum(launch.bytes * launch.times for launch in self.launches if launch.rearranges)

    @property
    def copied_bytes(self) -> int:
        """Bytes of intermediate tensors that only hold another's values again, and so were never needed."""
        made = {
            operand.tensor: operand.bytes
            for launch in self.launches
            if launch.rearranges
            for operand in launch.writes
            if self.tensors[operand.tensor].place == "device"
        }
        return sum(made.values())

    @property
    def flops(self) -> int:
        """Floating-point operations of one run, as far as they are known."""
        return sum((launch.flops or 0) * launch.times for launch in self.launches)

    @property
    def constant_bytes(self) -> int:
        """Bytes of weights and folded constants that launches read; a constant that several share counts once."""
        held = {(tensor.region, tensor.offset): tensor.bytes for tensor in self.tensors.values() if tensor.constant}
        return sum(held.values())

    @property
    def live_memory(self) -> int:
        """The most that intermediate tensors take at one time at these sizes, without the kernels' scratch space."""
        change = [0] * (len(self.launches) + 1)
        for tensor in self.tensors.values():
            if tensor.live is not None and tensor.place == "device" and not tensor.constant and tensor.view_of is None:
                change[tensor.live[0]] += tensor.bytes
                change[tensor.live[1] + 1] -= tensor.bytes
        most = now = 0
        for step in change:
            now += step
            most = max(most, now)
        return most

    @functools.cached_property
    def graph(self) -> Graph:
        """Which launch reads what another wrote."""
        return Graph(self.launches, self.tensors)

    def by(self, what: By) -> list[Share]:
        """The launches and bytes of each line, module, kind or launch, most bytes first.

        The bytes of a launch of several lines are shared out to them equally; it counts as a launch of the first. A
        launch without a line, such as a transpose of TensorRT's own, belongs to the line that reads its result.
        """
        graph = self.graph
        table: dict[str, list[float]] = {}
        for launch in self.launches:
            names = {
                "line": graph.lines(launch),
                "module": graph.scopes(launch),
                "kind": (launch.kind,),
                "launch": (f"{launch.index} {launch.name}",),
            }[what] or ("",)
            for position, name in enumerate(names):
                row = table.setdefault(name, [0, 0, 0, 0])
                row[0] += launch.times if position == 0 else 0
                row[1] += launch.bytes * launch.times / len(names)
                row[2] += launch.bytes * launch.times / len(names) if launch.rearranges else 0
                row[3] += (launch.flops or 0) * launch.times / len(names)
        shares = [Share(name, *map(round, row)) for name, row in table.items()]
        return sorted(shares, key=lambda share: (-share.bytes, share.name))

    def _repr_html_(self) -> str:
        head = ["launches", "bytes", "rearranged", "FLOPs"]
        rows = [
            (each.name, each.launches, megabytes(each.bytes), megabytes(each.rearranged_bytes), f"{each.flops or 0:,}")
            for each in self.by("line")
        ]
        return folded(repr(self), table(["line", *head], rows))

    def __repr__(self) -> str:
        launches = several(self.launch_count, "launch")
        return f"Program({self.network}: {launches}, {megabytes(self.bytes)} moved)"

    def totals(self) -> dict[str, int]:
        """The figures of the whole."""
        return {
            "launches": self.launch_count,
            "bytes": self.bytes,
            "rearranged_bytes": self.rearranged_bytes,
            "copied_bytes": self.copied_bytes,
            "flops": self.flops,
            "memory": self.memory,
            "live_memory": self.live_memory,
            "constant_bytes": self.constant_bytes,
        }

    def to_json(self) -> dict[str, Any]:
        """Everything as one JSON object."""
        return {"schema": 1, "kind": "program", "totals": self.totals(), **asdict(self)}
