"""Decisions of a reference that its own rounding leaves open: the order of near ties, comparisons near equality.

Torch's error in float32 decides which of two nearly equal scores comes first, on which side of a threshold a value
lies, and to which integer one near a boundary is rounded. A right network may decide otherwise. The reference is
therefore run in float64 with each such decision taken either way, and every value behind it follows.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from ...core.errors import Location
from ...core.lazy import torch
from .calls import AS_PROPOSED, DECIDING, IN_PLACE, Call, Flip, Op, op_of
from .equality import Tolerance
from .network_decisions import OwnError, Proposal
from .noise import OUTLIER

LOST = {torch.float32: 1e-2, torch.float16: 0.3, torch.bfloat16: 0.3}
"""Part of the compared values: where torch's own error is greater, two runs have lost each other."""
SOME = 1 << 16  # elements of which the median is taken
MANY = 4096  # open decisions of one run that are considered


@dataclass
class Run:
    """A run of the reference: its deciding calls, and the decisions that were open."""

    calls: list[Call] = field(default_factory=list)
    open: list[Flip] = field(default_factory=list)
    tied: bool = False
    """Whether equal values are among the open ones."""
    lost: bool = False
    """Whether torch's own run and this one do not make the same calls, so that what is open is not known of all."""
    matched: bool = True
    """Whether the network's own decision was found for each call, where these were looked for."""
    faults: list[str] = field(default_factory=list)
    """Calls that could not be examined, and why."""


@contextmanager
def recording(run: Run) -> Iterator[None]:
    """A context in which the calls that decide are written down."""

    def record(index: int, op: Op) -> None:
        run.calls.append(op.call(op.natural(), op.keys))

    with _mode(run, record):
        yield


@contextmanager
def deciding(
    run: Run,
    own: Sequence[Call],
    flips: Collection[Flip],
    tolerance: Tolerance,
    dtype: torch.dtype,
    *,
    first: bool,
    proposal: Proposal | None = None,
) -> Iterator[None]:
    """A context for a run in float64 that decides as ``own`` where that is open, except for ``flips``.

    ``proposal`` is what the network decides, which is taken where it is open and ``flips`` has ``AS_PROPOSED``.

    With ``first`` it also measures torch's own error at each call, which says what is open. Where a call has no
    counterpart in ``own``, or their values are unrelated, nothing is open from there on.
    """
    chosen: dict[int, list[Flip]] = {}
    for flip in flips:
        chosen.setdefault(flip.call, []).append(flip)

    def decide(index: int, op: Op) -> Call:
        call = op.call(op.natural())
        counterpart = own[index] if index < len(own) else None
        if counterpart is None or counterpart.name != call.name or counterpart.shape != call.shape:
            run.lost = True
        elif first and not run.lost:
            counterpart.error = _own_error(counterpart.keys, op.keys, op.sizes, tolerance, dtype)
            run.lost = counterpart.error is None
        if not run.lost and counterpart is not None and counterpart.error is not None:
            natural = call.result
            if IN_PLACE in flips:
                call.result = op.agreeing(natural, op.in_place(counterpart), counterpart)
            else:
                accurate = first or counterpart.error.is_of(counterpart.keys, op.keys.double(), op.sizes)
                call.result = op.agreeing(natural, counterpart.result, counterpart, accurate=accurate)
            if proposal is not None and AS_PROPOSED in flips:
                call.result, found = op.proposed(natural, call.result, proposal, counterpart)
                run.matched = run.matched and found
            places = op.open(call.result, counterpart)
            call.result = op.flipped(call.result, counterpart, chosen.get(index, ()))
            run.tied = run.tied or (bool(places) and op.tied(call.result))
            run.open += [Flip(index, row, place) for row, place in places[: MANY - len(run.open)]]
            run.lost = run.lost or (first and not op.legal(call.result, counterpart))
        run.calls.append(call)
        return call

    with _mode(run, decide):
        yield


@contextmanager
def imposing(run: Run) -> Iterator[None]:
    """A context for a run that decides as this one did, as long as both make the same calls."""
    calls, lost = run.calls, False

    def impose(index: int, op: Op) -> Call | None:
        nonlocal lost
        call = calls[index] if index < len(calls) else None
        lost = lost or call is None or call.name != op.name or call.shape != op.keys.shape
        return op.call(op.natural()) if lost else call

    with _mode(run, impose):
        yield


def locations(
    calls: Sequence[Call], flips: Collection[Flip], taken: Run | None = None
) -> dict[tuple[str, Location | None], int]:
    """How many decisions each author's line has among some; where the network proposed them, among those ``taken``."""
    found: dict[tuple[str, Location | None], int] = {}
    for flip in flips:
        if flip.call >= 0:
            call = calls[flip.call]
            found[call.name, call.location] = found.get((call.name, call.location), 0) + 1
    if AS_PROPOSED in flips and taken is not None:
        for own, call in zip(calls, taken.calls, strict=False):
            if own.shape == call.shape and not torch.equal(own.result, call.result):
                found[call.name, call.location] = found.get((call.name, call.location), 0) + 1
    return found


class DecisionWarning(UserWarning):
    """A decision of the reference could not be examined, because of a mistake in this file: it counts as lost."""


def warn_of_faults(run: Run) -> None:
    """Warns of what this file could not examine. It is called outside of the run, where a reference may fail."""
    for fault in dict.fromkeys(run.faults):
        warnings.warn(f"a decision of the reference could not be examined: {fault}", DecisionWarning, stacklevel=2)
    run.faults.clear()


def _mode(run: Run, act: Callable[[int, Op], Any]) -> Any:
    from torch.utils._python_dispatch import TorchDispatchMode

    class Decide(TorchDispatchMode):
        count = 0

        @classmethod
        def _should_skip_dynamo(cls) -> bool:
            return False

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            kwargs = kwargs or {}
            if func._schema.name.partition("::")[2] not in DECIDING:
                return func(*args, **kwargs)
            try:
                op = op_of(func, args, kwargs)
                if op is not None:
                    call = act(self.count, op)
                    self.count += 1
                    return op.returned(op.natural() if call is None else call.result)
            except Exception as error:
                result = func(*args, **kwargs)  # raises itself where it is the reference that fails
                run.faults.append(f"{func}: {type(error).__name__}: {error}")
                run.lost = True
                return result
            return func(*args, **kwargs)

    return Decide()


def _own_error(
    own: torch.Tensor, true: torch.Tensor, size: torch.Tensor, tolerance: Tolerance, dtype: torch.dtype
) -> OwnError | None:
    """Torch's own error in what is compared; None where two runs have nothing to do with each other."""
    error = (own.double() - true.double()).abs()
    counts = torch.isfinite(error) & torch.isfinite(size)
    some = size.flatten()[:: max(size.numel() // SOME, 1) | 1]  # an odd step meets every column of even rows
    nonzero = some[torch.isfinite(some) & (some > 0)]
    if nonzero.numel():
        counts &= size <= OUTLIER * float(nonzero.median())
    if not bool(counts.any()):
        return OwnError(0.0, 0.0, replace(tolerance, floor=0.0), dtype)
    if bool(counts.all()):
        rms, scale = (float(part.square().mean().sqrt()) for part in (error, size))
        worst = float(error.max())
    else:
        rms, scale = (float(part[counts].square().mean().sqrt()) for part in (error, size))
        worst = float(error[counts].max())
    if rms > LOST.get(dtype, 1e-2) * scale:
        return None
    return OwnError(rms, worst, tolerance, dtype)
