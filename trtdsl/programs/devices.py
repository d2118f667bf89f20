"""GPUs by name, and the least time of a program on one: an estimate from figures that NVIDIA publishes."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from ..core.errors import UsageError, nearest
from .launches import DENSE

if TYPE_CHECKING:
    from .graph import Launch
    from .program import Program

LEFT_OUT = (
    "an estimate: each launch takes the greatest of its bytes over the memory's bandwidth, its operations over their "
    "rate, and a launch's overhead; caches, occupancy, clocks and launches that overlap are left out"
)
"""What stands beside every floor."""

OVERHEAD = 2e-6
"""Seconds from one launch to the next; an assumption and no datasheet's figure: kernels that a CUDA graph replays start
one to three microseconds apart."""


@dataclass(frozen=True)
class Device:
    """A GPU: bytes and floating-point operations a second, dense, without sparsity."""

    name: str
    bandwidth: float
    vector: float
    """Of float32 outside the tensor cores."""
    tf32: float
    half: float
    """Of float16 and bfloat16 on the tensor cores, adding in float32."""
    int8: float
    fp8: float | None
    source: str
    overhead: float = OVERHEAD

    def rate(self, launch: Launch, *, tf32: bool) -> float:
        """Operations per second for a launch's kind and dtype."""
        dense = launch.kind in DENSE
        if launch.dtype in ("float16", "bfloat16"):
            return self.half if dense else 2 * self.vector
        if dense and launch.dtype == "int8":
            return self.int8
        if dense and launch.dtype.startswith("float8"):
            return self.fp8 or self.half
        return self.tf32 if dense and tf32 and launch.dtype == "float32" else self.vector


_T = 1e12
_DATASHEET = "NVIDIA {} datasheet"
_PAPER = "NVIDIA {} GPU architecture white paper, appendix A"
DEVICES = {
    device.name: device
    for device in (
        Device("h200", 4.8e12, 67 * _T, 494.5 * _T, 989.5 * _T, 1979 * _T, 1979 * _T, _DATASHEET.format("H200 (SXM)")),
        Device("h100", 3.35e12, 67 * _T, 494.5 * _T, 989.5 * _T, 1979 * _T, 1979 * _T, _DATASHEET.format("H100 (SXM)")),
        Device("a100", 2.039e12, 19.5 * _T, 156 * _T, 312 * _T, 624 * _T, None, _DATASHEET.format("A100 80GB (SXM)")),
        Device("l40s", 864e9, 91.6 * _T, 183 * _T, 362.05 * _T, 733 * _T, 733 * _T, _DATASHEET.format("L40S")),
        Device("l4", 300e9, 30.3 * _T, 60 * _T, 121 * _T, 242.5 * _T, 242.5 * _T, _DATASHEET.format("L4") + ", halved"),
        Device("rtx-5090", 1792e9, 104.8 * _T, 104.8 * _T, 209.5 * _T, 838 * _T, 419 * _T, _PAPER.format("Blackwell")),
        Device("rtx-4090", 1008e9, 82.6 * _T, 82.6 * _T, 165.2 * _T, 660.6 * _T, 330.3 * _T, _PAPER.format("Ada")),
        Device("rtx-3090", 936e9, 35.6 * _T, 35.6 * _T, 71 * _T, 284 * _T, None, _PAPER.format("Ampere GA102")),
        Device(
            "orin", 204.8e9, 5.3 * _T, 21.25 * _T, 42.5 * _T, 85 * _T, None,
            "NVIDIA Jetson AGX Orin technical brief (64 GB): 170 sparse INT8 TOPS, the others derived from them",
        ),
    )
}  # fmt: skip
DEFAULT = "rtx-4090"


@dataclass(frozen=True)
class Floor:
    """The least time of a program on a device, in seconds: an estimate (:data:`LEFT_OUT`)."""

    device: Device
    launches: tuple[float, ...]
    """Of each launch, all its runs."""

    @property
    def seconds(self) -> float:
        """The sum."""
        return sum(self.launches)

    def to_json(self) -> dict[str, Any]:
        """As a JSON object."""
        return {
            "device": asdict(self.device), "seconds": self.seconds, "launches": list(self.launches), "note": LEFT_OUT
        }  # fmt: skip


def find_device(name: str) -> Device:
    """A device of the table; UsageError with the nearest names for another.

    >>> find_device("RTX 4090").bandwidth
    1008000000000.0
    """
    plain = {re.sub("[^a-z0-9]", "", known): known for known in DEVICES}
    asked = str(name).lower()
    key = re.sub("[^a-z0-9]", "", asked).removeprefix("nvidia").removeprefix("geforce")
    key = plain.get(key, plain.get(f"rtx{key}", asked))
    if key not in DEVICES:
        raise UsageError(f"no device {name!r} in the table: it has {', '.join(DEVICES)}{nearest(key, DEVICES)}")
    return DEVICES[key]


def floor_of(program: Program, device: str | Device = DEFAULT) -> Floor:
    """The least time that a program takes on a device."""
    device = find_device(device) if isinstance(device, str) else device
    return Floor(device, tuple(seconds(launch, device, tf32=program.tf32) for launch in program.launches))


def seconds(launch: Launch, device: Device, *, tf32: bool) -> float:
    """The least time of all runs of a launch."""
    work = (launch.flops or 0) / device.rate(launch, tf32=tf32)
    return max(launch.bytes / device.bandwidth, work, device.overhead) * launch.times
