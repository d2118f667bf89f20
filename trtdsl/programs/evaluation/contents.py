"""The constants of a plan, which stand beside its texts."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from ...core.errors import ProgramDamagedError
from ..plan import BITS, Descriptor, ProgramText

POOL_ALIGNMENT = 128  # of each constant but the last
FILE_TAIL = 4  # bytes behind the pool
CODE_END = b"\x8f\x8b\x8d\x8b"
"""What stands before the pool, which begins at the next multiple of 8."""
ONE = struct.pack("<f", 1.0)
UNUSED_ALIGNMENT = 512  # of what quantization leaves before the pool
BODY_POOL = b"runtime-fusion-consts".ljust(128, b"\0")
"""What a fusion's constants begin with: then their bytes, their alignment, their number, each one's name and place."""


@dataclass(frozen=True)
class Contents:
    """The bytes of a plan, and what they hold."""

    data: bytes = field(repr=False)

    @cached_property
    def body_pools(self) -> list[dict[str, bytes]]:
        """The constants of each fusion that has some, by name: each with all that follows it in the pool."""
        pools, start = [], self.data.find(BODY_POOL)
        while start >= 0:
            try:
                pools.append(_body_pool(self.data, start + len(BODY_POOL)))
            except (struct.error, UnicodeDecodeError):
                raise ProgramDamagedError("the plan has constants of a fusion that cannot be read") from None
            start = self.data.find(BODY_POOL, start + 1)
        return pools

    def constants_of_body(self, body: ProgramText) -> dict[str, bytes]:
        """The bytes of each constant of a fusion's body, by its name."""
        sizes = {tensor.name: _size(tensor) for tensor in body.tensors.values() if tensor.constant and not tensor.base}
        for pool in self.body_pools:
            if sizes and sizes.keys() <= pool.keys():
                return {name: pool[name][:size] for name, size in sizes.items()}
        if sizes:
            raise ProgramDamagedError("the plan has no constants of one of its fusions")
        return {}

    def constants(self, text: ProgramText, programs: Sequence[ProgramText] = ()) -> Mapping[str, bytes]:
        """The bytes of each constant of a program, by its name.

        Those of all ``programs`` of the plan lie in one pool at the end of the file, in the order of their numbers.
        """
        tensors = [tensor for program in (*programs, text) for tensor in program.tensors.values()]
        sizes = {each.offset: _size(each) for each in tensors if each.constant and each.base is None}
        if set(sizes) != set(range(len(sizes))):
            raise ProgramDamagedError("the plan's constants are not where its program says")
        places, whole = _places(sizes)
        end = len(self.data) - FILE_TAIL
        begin = end - -(-whole // 8) * 8
        begin += self._moved(whole, begin) if sizes else 0
        if begin < 0:
            raise ProgramDamagedError("the plan's constants are not where its program says")
        return {
            tensor.name: self.data[begin + places[tensor.offset] :][: sizes[tensor.offset]]
            for tensor in text.tensors.values()
            if tensor.constant and tensor.base is None
        }

    def _moved(self, size: int, begin: int) -> int:
        """How far behind ``begin`` the pool of so many bytes begins.

        For each quantization the builder leaves a one and a zero for each channel before the pool, which then begins
        right behind the last of them: the end alone is a multiple of 8.
        """
        code = self.data.rfind(CODE_END, 0, begin)
        first = -(-(code + len(CODE_END)) // 8) * 8
        end, whole = 0, len(self.data) - FILE_TAIL - first
        while code >= 0 and end < whole:
            start = ones = -(-end // UNUSED_ALIGNMENT) * UNUSED_ALIGNMENT
            while self.data[first + ones : first + ones + 4] == ONE and ones < whole:
                ones += 4
            if ones == start:
                return 0
            end = -(-ones // UNUSED_ALIGNMENT) * UNUSED_ALIGNMENT + ones - start
            if -(-(end + size) // 8) * 8 == whole:
                return first + end - begin
        return 0


def _body_pool(data: bytes, position: int) -> dict[str, bytes]:
    size, _, count = struct.unpack_from("<QQ12xQ", data, position)
    position += 36
    places = {}
    for _ in range(min(count, 10_000)):
        (length,) = struct.unpack_from("<I", data, position)
        name = data[position + 4 : position + 4 + length].decode()
        (places[name],) = struct.unpack_from("<Q", data, position + 4 + length)
        position += 12 + length
    return {name: data[position + place : position + size] for name, place in places.items()}


def _places(sizes: Mapping[int, int]) -> tuple[dict[int, int], int]:
    """Where each constant lies in the pool, by its number, and the bytes from the first one to the end of the last."""
    places, place, end = {}, 0, 0
    for number in sorted(sizes):
        places[number], end = place, place + sizes[number]
        place += -(-sizes[number] // POOL_ALIGNMENT) * POOL_ALIGNMENT
    return places, end


def _size(tensor: Descriptor) -> int:
    elements = 1
    for size in tensor.dims:
        if not isinstance(size, int):
            raise ProgramDamagedError(f"the plan's program has a constant {tensor.name[:40]!r} of a dynamic size")
        elements *= size
    return (elements * BITS[tensor.dtype] + 7) // 8
