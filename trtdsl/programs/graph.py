"""The launches of a program: which reads what another wrote, and why one that computes nothing is needed."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .launches import Kind, Place


@dataclass(frozen=True)
class ProgramTensor:
    """A tensor of a program."""

    name: str
    shape: tuple[int, ...]
    dims: tuple[str, ...]
    """The shape in the author's dimensions: ``("N", "64", "2*T")``."""
    dtype: str
    order: tuple[int, ...]
    """The axes from the slowest to the fastest in memory: ``(0, 2, 3, 1)`` is channels last."""
    bytes: int
    place: str = "device"
    """``device``, ``host``, or ``caller`` for the network's inputs and outputs."""
    region: str = ""
    offset: int = 0
    view_of: str | None = None
    constant: bool = False
    scratch: bool = False
    live: tuple[int, int] | None = None
    """The first and the last launch that use it, by their indexes; None where none does."""


@dataclass(frozen=True)
class Operand:
    """A tensor that a launch reads or writes, and how many bytes of it."""

    tensor: str
    bytes: int


@dataclass(frozen=True)
class Launch:
    """One instruction to the GPU: a kernel or a copy."""

    index: int
    kind: Kind
    name: str
    """A generated kernel's name says what it fuses (``MulAddRelu``); another's is its layer's."""
    reads: tuple[Operand, ...]
    writes: tuple[Operand, ...]
    times: int
    """How often it runs: more than once in a loop."""
    flops: int | None
    """Of one run; None where the program does not tell."""
    dtype: str
    """Of what it computes with: that of its first operand, or of its product's where that is one step of several."""
    grid: tuple[int, ...]
    block: tuple[int, ...]
    stream: int
    lines: tuple[str, ...]
    """The author's lines, ``folder/file.py:12``."""
    scopes: tuple[str, ...]
    """The scopes of the layers that it is made of."""
    epilogue: tuple[str, ...] = ()
    """What a product or a convolution does to its result before it writes it."""
    body: tuple[str, ...] = ()
    """The steps of a fusion that is compiled where it runs."""
    loop: int | None = None
    """The index of the first launch of the loop that it is in."""
    places: tuple[Place, ...] = ()
    """Where the layers that it is made of come from."""

    @property
    def bytes(self) -> int:
        """Read and written by one run."""
        return sum(operand.bytes for operand in (*self.reads, *self.writes))

    @property
    def rearranges(self) -> bool:
        """Whether it only moves values: a transpose, a copy, a concatenation."""
        return self.kind in ("rearranging", "transfer")


class Graph:
    """The launches of a program joined by their tensors; a view stands for the tensor that it is of."""

    def __init__(self, launches: Sequence[Launch], tensors: Mapping[str, ProgramTensor]):
        self.launches, self.tensors = launches, tensors
        self.writers: dict[str, list[int]] = {}
        self.readers: dict[str, list[int]] = {}
        for launch in launches:
            for operands, table in ((launch.writes, self.writers), (launch.reads, self.readers)):
                for operand in operands:
                    table.setdefault(self.root(operand.tensor), []).append(launch.index)

    def root(self, name: str) -> str:
        """The tensor that a view is of."""
        tensor = self.tensors.get(name)
        return name if tensor is None or tensor.view_of is None else self.root(tensor.view_of)

    def consumers(self, launch: Launch) -> list[Launch]:
        """The launches that read what it writes, in order; in a loop, those of the next step too."""
        return self._others(launch, launch.writes, self.readers)

    def producers(self, launch: Launch) -> list[Launch]:
        """The launches that wrote what it reads."""
        return self._others(launch, launch.reads, self.writers)

    def _others(self, launch: Launch, operands: Sequence[Operand], table: dict[str, list[int]]) -> list[Launch]:
        found = {index for operand in operands for index in table.get(self.root(operand.tensor), ())}
        return [self.launches[index] for index in sorted(found - {launch.index})]

    def lines(self, launch: Launch) -> tuple[str, ...]:
        """The author's lines of a launch; without any, those of the launches that it writes for or reads from."""
        return self._places(launch, "lines")

    def scopes(self, launch: Launch) -> tuple[str, ...]:
        """The scopes of a launch; without any, those of its neighbours."""
        return self._places(launch, "scopes")

    def places(self, launch: Launch) -> tuple[Place, ...]:
        """Where the layers of a launch come from; without any, those of its neighbours."""
        return self._places(launch, "places")

    def _places(self, launch: Launch, what: str) -> tuple[Any, ...]:
        own = getattr(launch, what)
        if own:
            return own
        # an unrolled loop has no lines in any of its launches: the loop of the steps that are left has them
        within = (True, False) if launch.loop is not None else (False,)
        for inside, step in itertools.product(within, (self.consumers, self.producers)):
            seen, near = {launch.index}, [launch]
            while near:
                further = (far for other in near for far in step(other) if far.index not in seen)
                near = list({far.index: far for far in further if far.loop is not None or not inside}.values())
                for other in near if step == self.consumers else near[::-1]:
                    if getattr(other, what):
                        return getattr(other, what)[:1]
                seen |= {other.index for other in near}
        return ()

    def seconds(self, launches: Sequence[float], what: Callable[[Launch], Sequence[str]]) -> dict[str, float]:
        """The time of launches shared out to their lines, or to what else ``what`` gives of one."""
        times: dict[str, float] = {}
        for launch, seconds in zip(self.launches, launches, strict=True):
            names = what(launch) or ("",)
            for name in names:
                times[name] = times.get(name, 0) + seconds / len(names)
        return times

    def cause(self, launch: Launch) -> str:
        """The purpose of a launch that only rearranges: ``for the convolution at net.py:3``."""
        before, after = self.neighbours(launch)
        words = []
        if before:
            words.append(f"after the {described(before)}")
        elif launch.reads and all(self.is_callers(operand) for operand in launch.reads):
            words.append("of an input")
        if after:
            words.append(f"before the {described(after)}")
        elif all(self.is_callers(operand) for operand in launch.writes):
            words.append("into an output")
        return ", ".join(words)

    def neighbours(self, launch: Launch) -> tuple[Launch | None, Launch | None]:
        """The nearest launches before and after it that compute something, past others that only rearrange."""
        return next(iter(self.before(launch)), None), next(iter(self.after(launch)), None)

    def before(self, launch: Launch) -> list[Launch]:
        """The launches that computed what it reads, past those that only rearrange, the nearest first."""
        return self._through(launch, self.producers)

    def after(self, launch: Launch) -> list[Launch]:
        """The launches that compute with what it writes, past those that only rearrange, the nearest first."""
        return self._through(launch, self.consumers)

    def _through(self, launch: Launch, step: Callable[[Launch], list[Launch]]) -> list[Launch]:
        seen, near = {launch.index}, step(launch)
        found: list[Launch] = []
        while near:
            found += [other for other in near if not other.rearranges]
            seen |= {other.index for other in near}
            passed = [far for other in near if other.rearranges for far in step(other)]
            near = list({far.index: far for far in passed if far.index not in seen}.values())
        return found

    def is_callers(self, operand: Operand) -> bool:
        """Whether it is an input or an output of the network."""
        tensor = self.tensors.get(self.root(operand.tensor))
        return tensor is not None and tensor.place == "caller"


def described(launch: Launch) -> str:
    """``convolution at net.py:3``."""
    name = {"pointwise": "kernel", "reduction": "reduction", "other": "launch"}.get(launch.kind, launch.kind)
    return f"{name} at {launch.lines[-1]}" if launch.lines else f"{name} {launch.name}"
