"""The device's memory: addresses that are never given out twice, and every access checked for life and bounds."""

from __future__ import annotations

import bisect
import ctypes

import numpy as np

RANGE = 1 << 40  # what the addresses of one machine lie in
BASE = 0xA000_0000_0000  # no address of the host's: following one of the device's on the host ends the process
ALIGNMENT = 256  # of what cudaMalloc gives
FRESH = 0xFF  # memory that nobody has written: NaN in every floating-point type
STALE = 0xCD  # memory that was given back


class IllegalAccessError(Exception):
    """An access to memory that is freed, out of bounds, or not the device's."""


class Allocation:
    """One piece of memory."""

    def __init__(self, address: int, size: int, device: int, what: str):
        self.address, self.size, self.device, self.what = address, size, device, what
        self.bytes = np.full(size, FRESH, np.uint8)
        self.freed = False

    def __repr__(self) -> str:
        return f"{self.what} of {self.size} bytes at {self.address:#x}"


class Memory:
    """All devices' memory: one address space, as CUDA has it. ``number`` tells machines apart."""

    def __init__(self, total: int, number: int = 0):
        self.total = total
        self.used = 0
        self._begin = self._next = BASE + number % 16 * RANGE
        self._starts: list[int] = []
        self._allocations: list[Allocation] = []

    @property
    def live(self) -> list[Allocation]:
        """What was allocated and not freed."""
        return [allocation for allocation in self._allocations if not allocation.freed]

    def allocate(self, size: int, device: int, what: str = "memory") -> int | None:
        """An address; None when there is not as much."""
        if self.used + size > self.total:
            return None
        allocation = Allocation(self._next, size, device, what)
        self._next += -(-size // ALIGNMENT) * ALIGNMENT + 0x10000  # a gap that belongs to nobody
        self.used += size
        self._starts.append(allocation.address)
        self._allocations.append(allocation)
        return allocation.address

    def free(self, address: int) -> bool:
        """False for what is not the start of live memory; memory of an earlier machine is gone with that."""
        if not self._begin <= address < self._begin + RANGE:
            return is_device(address)
        allocation = self._at(address)
        if allocation is None or allocation.address != address or allocation.freed:
            return False
        allocation.freed = True
        allocation.bytes = np.full(0, STALE, np.uint8)
        self.used -= allocation.size
        return True

    def _at(self, address: int) -> Allocation | None:
        place = bisect.bisect_right(self._starts, address) - 1
        return self._allocations[place] if place >= 0 else None

    def owner(self, address: int) -> Allocation:
        """The live memory that an address belongs to. Raises IllegalAccessError."""
        allocation = self._at(address)
        if allocation is None or address >= allocation.address + max(allocation.size, 1):
            raise IllegalAccessError(f"{address:#x} is nobody's")
        if allocation.freed:
            raise IllegalAccessError(f"{address:#x} is in freed {allocation}")
        return allocation

    def bytes(self, address: int, size: int) -> np.ndarray:
        """The bytes themselves, to read and to write. Raises IllegalAccessError."""
        if not is_device(address):
            raise IllegalAccessError(f"{address:#x} is not the device's")
        allocation = self.owner(address)
        offset = address - allocation.address
        if offset + size > allocation.size:
            raise IllegalAccessError(f"{size} bytes at {address:#x} go beyond {allocation}")
        return allocation.bytes[offset : offset + size]


def is_device(address: int) -> bool:
    """Whether an address is one of the device's."""
    return address >= BASE


def host_bytes(address: int, size: int) -> np.ndarray:
    """The host's memory."""
    return np.frombuffer((ctypes.c_uint8 * size).from_address(address), np.uint8)
