"""The memory of an engine: every region in one buffer, poisoned first, and who wrote each part of it.

A tensor lies at its region's beginning, its offset and its strides. Reading what nothing wrote, or what another tensor
has overwritten since, is an error that names both.
"""

from __future__ import annotations

import math
import mmap
import os
from collections.abc import Mapping
from dataclasses import dataclass

import torch

from ...core.errors import ProgramFaultError, UnevaluatedProgramError
from ..host_sizes import Scalars
from ..plan import BITS, DTYPES, Descriptor, ProgramText, plain

NUMBER = "__d^"
"""How the names of the host's constants begin."""
POISON = 0x7F
PAGE = 4096
MOST_OWNERS = (1 << 15) - 1


@dataclass(frozen=True)
class Place:
    """Where a tensor lies at the current sizes."""

    start: int
    """In bytes from the beginning of the buffer."""
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    """In elements."""
    itemsize: int

    @property
    def end(self) -> int:
        """Behind its last byte."""
        if 0 in self.shape:
            return self.start
        reach = sum((size - 1) * stride for size, stride in zip(self.shape, self.strides, strict=True))
        return self.start + (reach + 1) * self.itemsize

    def meets(self, other: Place) -> bool:
        """Whether two tensors have a byte in common: slices of one tensor may lie between each other."""
        start, end = max(self.start, other.start), min(self.end, other.end)
        if start >= end:
            return False
        first = min(self.start, other.start)
        used = torch.zeros(max(self.end, other.end) - first, dtype=torch.bool)
        self.within(used, first).fill_(True)
        return bool(other.within(used, first).any())

    def within(self, bytes: torch.Tensor, first: int) -> torch.Tensor:
        """Its part of ``bytes``, or of what stands for them, of which the first is byte ``first`` of the buffer."""
        strides = tuple(stride * self.itemsize for stride in self.strides)
        return bytes.as_strided((*self.shape, self.itemsize), (*strides, 1), self.start - first)


class Memory:
    """The regions of a program, and the caller's own tensors, in one buffer that other processes can share.

    Behind them lies the stage, where a kernel gets its operands with guards around them.
    """

    def __init__(self, text: ProgramText, scalars: Scalars, constants: Mapping[str, bytes], marks: bool = False):
        self.text = text
        self.scalars = scalars
        self.loops = any(kind in ("jmp", "cjmp") for kind, _ in text.statements)
        self.starts: dict[str, int] = {}
        self._end = 0
        pooled = {tensor.region for tensor in text.tensors.values() if tensor.constant}
        for region in text.regions.values():
            if region.name not in pooled:
                self.starts[region.name] = self._reserve(region.bytes)
        self.tracked = self._end  # the bytes whose writers are known
        own = [tensor for tensor in text.tensors.values() if tensor.base is None]
        for tensor in own:
            if tensor.constant or not tensor.region:
                payload = constants.get(tensor.name)
                self.starts[f"\0{tensor.name}"] = self._reserve(self._size(tensor) if payload is None else len(payload))
        self.stage = self._end
        self.size = 2 * self._end + (1 << 20) + 64 * PAGE
        self.marked = self.size if marks else 0
        """The bytes that have a mark each, behind them, of who touches them."""
        self.size += self.marked
        self.file = os.memfd_create("trtdsl")
        try:
            os.ftruncate(self.file, self.size)
            self._map = mmap.mmap(self.file, self.size)
        except OSError as error:
            os.close(self.file)
            raise UnevaluatedProgramError(f"a program's {self.size:,} bytes cannot be had: {error.strerror}") from None
        self.bytes = torch.frombuffer(self._map, dtype=torch.uint8)
        self.bytes[: self.stage].fill_(POISON)
        for name, payload in constants.items():
            start = self.starts[f"\0{name}"]
            if payload:
                self.bytes[start : start + len(payload)] = torch.frombuffer(bytearray(payload), dtype=torch.uint8)
        self.unit = min(
            (BITS[t.dtype] // 8 for t in own if t.region and not t.constant and BITS[t.dtype] >= 8), default=1
        )
        if any(tensor.offset % self.unit for tensor in text.tensors.values() if not tensor.constant):
            self.unit = 1
        self.owners = torch.zeros(self.tracked // self.unit + 1, dtype=torch.int16)
        self.numbers: dict[str, int] = {}
        self.writers: dict[int, str] = {}
        self.passed: set[str] = set()
        """Tensors that a jump passed over, and that lie nowhere since: a select reads both branches' results."""

    def close(self) -> None:
        """Gives the memory back."""
        del self.bytes, self.owners
        os.close(self.file)

    def _reserve(self, size: int) -> int:
        start = self._end
        self._end = start + -(-max(size, 1) // PAGE) * PAGE
        return start

    def _size(self, tensor: Descriptor) -> int:
        """The bytes of a tensor of the caller's; 0 for one whose sizes are not known."""
        sizes = self.scalars.sizes(tensor.dims)
        return 0 if sizes is None else math.prod(sizes) * BITS[tensor.dtype] // 8

    # -- tensors -------------------------------------------------------------------------------------------------------

    def place(self, name: str) -> Place:
        """Where a tensor lies; raises UnevaluatedProgramError for one whose size is not known yet."""
        tensor = self.text.tensor(name)
        start, whole = 0, tensor
        while whole.base is not None:
            moved = 0 if whole.moving is None else self._known(name, whole.moving)
            start, whole = start + whole.offset + moved, self.text.tensor(whole.base)
        if whole.constant or not whole.region:
            start += self.starts[f"\0{whole.name}"]
        else:
            start += self.starts[whole.region] + whole.offset
        shape = tuple(self._known(name, size) for size in tensor.dims)
        strides = tuple(self._known(name, size) for size in tensor.strides)
        if BITS[tensor.dtype] < 8:
            shape, strides = _in_bytes(tensor, shape, strides)
        found = Place(start, shape, strides, max(BITS[tensor.dtype] // 8, 1))
        low, high = self._bounds(whole)
        if start < low or found.end > high:
            raise ProgramFaultError(
                f"{plain(name)} lies outside of its memory: bytes {start - low} to {found.end - low} of {high - low}"
            )
        return found

    def _bounds(self, whole: Descriptor) -> tuple[int, int]:
        if whole.constant or not whole.region:
            start = self.starts[f"\0{whole.name}"]
            return start, start + -(-max(self._size(whole), 1) // PAGE) * PAGE
        start = self.starts[whole.region]
        return start, start + self.text.regions[whole.region].bytes

    def _known(self, name: str, size: int | str) -> int:
        value = self.scalars.size(size)
        if value is None:
            raise UnevaluatedProgramError(f"{plain(name)} has a size that is known only after the GPU computed it")
        return value

    def view(self, name: str) -> torch.Tensor:
        """A tensor in the buffer; what is written to it is written there."""
        place, dtype = self.place(name), dtype_of(self.text.tensor(name))
        part = self.bytes[place.start : max(place.end, place.start)].view(dtype)
        return part.as_strided(place.shape, place.strides) if part.numel() else part.reshape(place.shape)

    # -- who wrote what ------------------------------------------------------------------------------------------------

    def check_read(self, name: str, what: str) -> None:
        """Raises ProgramFaultError where a part of a tensor was not written, or another tensor was written there."""
        owners = self._owned(name)
        if owners is None or self.text.root(name).name in self.passed:
            return
        number = self.numbers.get(self.text.root(name).name, 0)
        wrong = owners != number if number else torch.ones_like(owners, dtype=torch.bool)
        if not wrong.any():
            return
        others = [owner for owner in owners[wrong].unique().tolist() if not self._same(owner, name)]
        if not others:
            return
        if others == [0] and self.loops and not bool((owners == 0).all()):
            return  # what a loop fills step by step; whoever reads the rest reads the poison
        if others == [0]:
            share = "" if bool((owners == 0).all()) else "a part of "
            raise ProgramFaultError(f"{what} reads {share}{plain(name)}, which nothing wrote")
        owner = max(others)
        other = next(known for known, value in self.numbers.items() if value == owner)
        raise ProgramFaultError(
            f"{what} reads {plain(name)}, where {plain(other)} lies since {self.writers[owner]} wrote it"
        )

    def _same(self, owner: int, name: str) -> bool:
        """Whether a tensor of the owner is the same memory by intent: what a loop carries has two names."""
        if not owner or not self.loops or name.startswith(NUMBER):
            return False
        other = next((known for known, value in self.numbers.items() if value == owner), None)
        return other is not None and self.place(other) == self.place(self.text.root(name).name)

    def note_write(self, name: str, what: str) -> None:
        """Remembers that a tensor was written."""
        owners = self._owned(name)
        if owners is not None:
            number = self.numbers.setdefault(self.text.root(name).name, len(self.numbers) + 1)
            if number > MOST_OWNERS:
                raise UnevaluatedProgramError("the program has more tensors than are told apart")
            owners.fill_(number)
            self.writers[number] = what
            self.passed.discard(self.text.root(name).name)

    def note_passed(self, name: str) -> None:
        """Remembers that a jump passed over the launch that writes a tensor, unless its earlier result is there."""
        root = self.text.root(name).name
        if root not in self.numbers or not self.holds(root):
            self.passed.add(root)

    def holds(self, name: str) -> bool:
        """Whether a part of a tensor's memory is its own already."""
        owners, number = self._owned(name), self.numbers.get(self.text.root(name).name)
        return owners is not None and number is not None and bool((owners == number).any())

    def note_missing(self, name: str) -> None:
        """Forgets the parts of a tensor that still hold the poison: its launch did not write them."""
        owners, poison = self._owned(name), self.poisoned(name)
        if owners is not None and owners.numel() and bool(poison.any()):
            owners[poison.unsqueeze(-1).expand(owners.shape)] = 0

    def poisoned(self, name: str) -> torch.Tensor:
        """Where a tensor holds the poison; nowhere for integers of one byte and fp8, in which it is a usual value."""
        size = self.place(name).itemsize
        value = int.from_bytes(bytes([POISON]) * size, "little")
        is_told = size > 1 or dtype_of(self.text.tensor(name)) == torch.bool
        return (self.view(name).view(INTEGERS[size]) == value) & is_told

    def _owned(self, name: str) -> torch.Tensor | None:
        """The numbers of who wrote a tensor's parts, by element; None where that is not followed."""
        whole = self.text.root(name)
        if whole.constant or not whole.region:
            return None
        place = self.place(name)
        parts = place.itemsize // self.unit
        strides = tuple(stride * parts for stride in place.strides)
        return self.owners.as_strided((*place.shape, parts), (*strides, 1), place.start // self.unit)


INTEGERS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def _in_bytes(
    tensor: Descriptor, shape: tuple[int, ...], strides: tuple[int, ...]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The shape and strides in bytes of a weight in 4 bits, of which two that follow one another share a byte."""
    *outer, inner = strides or (0,)
    if tensor.base is not None or BITS[tensor.dtype] != 4 or inner != 1 or any(n % 2 for n in (shape[-1], *outer)):
        raise UnevaluatedProgramError(f"{plain(tensor.name)} has the type {tensor.dtype}, which is not evaluated")
    return (*shape[:-1], shape[-1] // 2), (*(stride // 2 for stride in outer), 1)


def dtype_of(tensor: Descriptor) -> torch.dtype:
    """torch's type of a tensor of the program."""
    found = getattr(torch, DTYPES.get(tensor.dtype, tensor.dtype), None)
    if not isinstance(found, torch.dtype) or BITS[tensor.dtype] < 8:
        raise UnevaluatedProgramError(f"{plain(tensor.name)} has the type {tensor.dtype}, which is not evaluated")
    return found
