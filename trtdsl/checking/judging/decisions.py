"""Decisions of a reference that its own rounding leaves open: the order of near ties, comparisons near equality.

Torch's error in float32 decides which of two nearly equal scores comes first, on which side of a threshold a value
lies, and to which integer one near a boundary is rounded. A right network may decide otherwise. The reference is
therefore run in float64 with each such decision taken either way, and every value behind it follows.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ...core.dtypes import dtype_name
from ...core.errors import Location
from ...core.lazy import torch
from ..coverage import author_of_reference
from .equality import Tolerance
from .noise import OUTLIER

SORTS = {"topk", "sort", "argsort"}
PICKS = {"argmax", "argmin", "max", "min"}
SIDES = {"gt", "ge", "lt", "le"}
ROUNDINGS = {"floor", "ceil", "round", "trunc", "sign", "floor_divide", "bucketize", "to", "_to_copy"}
DECIDING = SORTS | PICKS | SIDES | ROUNDINGS
LOST = {torch.float32: 1e-2, torch.float16: 0.3, torch.bfloat16: 0.3}
"""Part of the compared values: where torch's own error is greater, two runs have lost each other."""
MANY = 4096  # open decisions of one run that are considered


class Flip(NamedTuple):
    """One decision taken the other way: the number of the call, and the place in it."""

    call: int
    row: int
    place: int


IN_PLACE = Flip(-1, 0, 0)
"""Equal values come in the order of their places, in each sort."""


@dataclass
class Call:
    """One call that decides: what it compares, and what it decided."""

    name: str
    location: Location | None
    shape: torch.Size
    result: torch.Tensor
    """Indices of a sort; what an elementwise call gives."""
    keys: torch.Tensor
    """The values compared; of a sort with the best first, along the last axis. Empty where they are not kept."""
    limit: tuple[float, float] | None = None
    """How far apart two values may be and still be open: a constant, and a part of the values."""


@dataclass
class Run:
    """A run of the reference: its deciding calls, and the decisions that were open."""

    calls: list[Call] = field(default_factory=list)
    open: list[Flip] = field(default_factory=list)
    tied: bool = False
    """Whether equal values are among the open ones."""
    lost: bool = False
    """Whether torch's own run and this one do not make the same calls, so that what is open is not known of all."""
    faults: list[str] = field(default_factory=list)
    """Calls that could not be examined, and why."""


@contextmanager
def recording(run: Run) -> Iterator[None]:
    """A context in which the calls that decide are written down."""

    def record(index: int, op: _Op) -> None:
        run.calls.append(op.call(op.natural(), op.keys))

    with _mode(run, record):
        yield


@contextmanager
def deciding(
    run: Run, own: Sequence[Call], flips: Collection[Flip], tolerance: Tolerance, dtype: torch.dtype, *, first: bool
) -> Iterator[None]:
    """A context for a run in float64 that decides as ``own`` where that is open, except for ``flips``.

    With ``first`` it also measures torch's own error at each call, which says what is open. Where a call has no
    counterpart in ``own``, or their values are unrelated, nothing is open from there on.
    """
    chosen: dict[int, list[Flip]] = {}
    for flip in flips:
        chosen.setdefault(flip.call, []).append(flip)

    def decide(index: int, op: _Op) -> Call:
        call = op.call(op.natural())
        counterpart = own[index] if index < len(own) else None
        if counterpart is None or counterpart.name != call.name or counterpart.shape != call.shape:
            run.lost = True
        elif first and not run.lost:
            counterpart.limit = _limit(counterpart.keys, op.keys, op.sizes, tolerance, dtype)
            run.lost = counterpart.limit is None
        if not run.lost and counterpart is not None and counterpart.limit is not None:
            wanted = op.in_place(counterpart) if IN_PLACE in flips else counterpart.result
            call.result = op.agreeing(call.result, wanted, counterpart)
            found = op.open(call.result, counterpart)
            call.result = op.flipped(call.result, counterpart, chosen.get(index, ()))
            run.lost = run.lost or len(found) + len(run.open) > MANY
            run.tied = run.tied or (bool(found) and op.tied(call.result))
            run.open += [Flip(index, row, place) for row, place in found[: MANY - len(run.open)]]
            run.lost = run.lost or (first and not op.legal(call.result, counterpart))
        run.calls.append(call)
        return call

    with _mode(run, decide):
        yield


@contextmanager
def imposing(run: Run) -> Iterator[None]:
    """A context for a run that decides as this one did, as long as both make the same calls."""
    calls, lost = run.calls, False

    def impose(index: int, op: _Op) -> Call | None:
        nonlocal lost
        call = calls[index] if index < len(calls) else None
        lost = lost or call is None or call.name != op.name or call.shape != op.keys.shape
        return op.call(op.natural()) if lost else call

    with _mode(run, impose):
        yield


def locations(calls: Sequence[Call], flips: Collection[Flip]) -> dict[tuple[str, Location | None], int]:
    """How many decisions each author's line has among some."""
    found: dict[tuple[str, Location | None], int] = {}
    for flip in flips:
        if flip == IN_PLACE:
            continue
        call = calls[flip.call]
        found[call.name, call.location] = found.get((call.name, call.location), 0) + 1
    return found


class DecisionWarning(UserWarning):
    """A decision of the reference could not be examined, because of a mistake in this file: it counts as lost."""


def warn_of_faults(run: Run) -> None:
    """Warns of what this file could not examine. It is called outside of the run, where a reference may fail."""
    for fault in dict.fromkeys(run.faults):
        warnings.warn(f"a decision of the reference could not be examined: {fault}", DecisionWarning, stacklevel=2)
    run.faults.clear()


def _mode(run: Run, act: Callable[[int, _Op], Any]) -> Any:
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
                op = _op(func, args, kwargs)
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


def _op(func: Any, args: Any, kwargs: Any) -> _Op | None:
    name = func._schema.name.partition("::")[2]
    if name not in DECIDING or not args or not isinstance(args[0], torch.Tensor) or "out" in kwargs:
        return None
    bound = {arg.name: arg.default_value for arg in func._schema.arguments}
    bound |= dict(zip(bound, args, strict=False)) | kwargs
    values = [bound.get("self"), bound.get("other")]
    floating = [value for value in values if isinstance(value, float | torch.Tensor) and _floats(value)]
    if name in SORTS | PICKS:
        if not args[0].is_floating_point() or not args[0].numel() or not args[0].ndim:
            return None
        return None if name in ("max", "min") and "dim" not in bound else _Order(func, args, kwargs, bound, name)
    if not any(isinstance(value, torch.Tensor) for value in floating):
        return None
    to = bound.get("dtype")
    if name in ("to", "_to_copy") and (to is None or to.is_floating_point or to.is_complex):
        return None
    if name in ("to", "_to_copy") and bound["dtype"] is torch.bool:
        return None
    return _Elementwise(func, args, kwargs, bound, name)


def _floats(value: Any) -> bool:
    return isinstance(value, float) or value.is_floating_point()


Limit = tuple[float, float]


def _limit(
    own: torch.Tensor, true: torch.Tensor, size: torch.Tensor, tolerance: Tolerance, dtype: torch.dtype
) -> Limit | None:
    """What :attr:`Call.limit` says: each of two values may have the error that the tolerance allows a network."""
    error = (own.double() - true.double()).abs()
    counts = torch.isfinite(error) & torch.isfinite(size)
    nonzero = size[counts & (size > 0)]
    if nonzero.numel():
        counts &= size <= OUTLIER * float(nonzero.median())
    if not bool(counts.any()):
        return (0.0, 0.0)
    rms, scale = (float(part[counts].square().mean().sqrt()) for part in (error, size))
    if rms > LOST.get(dtype, 1e-2) * scale:
        return None
    return 2 * tolerance.rms * rms, 2 * tolerance.floor_of(dtype_name(dtype))


@dataclass
class _Op:
    """A call that decides, about to be made."""

    func: Any
    args: Any
    kwargs: Any
    bound: dict[str, Any]
    name: str

    @property
    def keys(self) -> torch.Tensor:
        raise NotImplementedError

    @property
    def sizes(self) -> torch.Tensor:
        """The absolute values of what is compared."""
        return self.keys.double().abs()

    def call(self, result: torch.Tensor, keys: torch.Tensor | None = None) -> Call:
        kept = torch.empty(0) if keys is None else keys
        return Call(self.name, author_of_reference(), self.keys.shape, result, kept)

    def made(self, *args: Any) -> Any:
        return self.func(*(args or self.args), **self.kwargs)

    def natural(self) -> torch.Tensor:
        """The decisions that torch takes."""
        raise NotImplementedError

    def agreeing(self, natural: torch.Tensor, wanted: torch.Tensor, own: Call) -> torch.Tensor:
        """The wanted decisions where they are open, and the natural ones elsewhere."""
        raise NotImplementedError

    def tied(self, result: torch.Tensor) -> bool:
        """Whether a sort has equal values among the first."""
        return False

    def in_place(self, own: Call) -> torch.Tensor:
        """The decisions of ``own``, with equal values in the order of their places."""
        return own.result

    def open(self, result: torch.Tensor, own: Call) -> list[tuple[int, int]]:
        """The rows and places where either decision is possible."""
        raise NotImplementedError

    def flipped(self, result: torch.Tensor, own: Call, flips: Sequence[Flip]) -> torch.Tensor:
        """The decisions with some taken the other way, where that is open."""
        raise NotImplementedError

    def legal(self, result: torch.Tensor, own: Call) -> bool:
        """Whether own and these agree but for what is open: otherwise the runs have lost each other."""
        return True

    def returned(self, result: torch.Tensor) -> Any:
        """What the call returns for these decisions."""
        return result


@dataclass
class _Order(_Op):
    """A call that sorts, or picks the greatest."""

    def __post_init__(self) -> None:
        dim = self.bound.get("dim", -1)
        x = self.args[0]
        self.flat = dim is None
        self.dim = -1 if self.flat else dim
        descending = self.bound.get("descending", False) if self.name in ("sort", "argsort") else None
        if descending is None:
            descending = self.bound.get("largest", True) if self.name == "topk" else self.name in ("max", "argmax")
        self.best_first = x.flatten() if self.flat else x.movedim(self.dim, -1)
        self.sign = 1.0 if descending else -1.0
        self.first = self.name in PICKS or bool(self.bound.get("stable"))  # of equals the first comes first

    @property
    def keys(self) -> torch.Tensor:
        return self.best_first if self.sign > 0 else -self.best_first

    def natural(self) -> torch.Tensor:
        made = self.made()
        indices = made if isinstance(made, torch.Tensor) else made[1]
        if self.name not in PICKS:
            return indices.movedim(self.dim, -1)
        if self.flat:
            return indices.reshape(1)
        return indices.movedim(self.dim, -1) if self.bound.get("keepdim") else indices.unsqueeze(-1)

    def _near(self, a: torch.Tensor, b: torch.Tensor, own: Call) -> torch.Tensor:
        """Whether either of two places, in each row, may come before the other."""
        assert own.limit is not None
        values, floats = self.keys.double(), own.keys.double()
        va, vb, fa, fb = (part.gather(-1, at) for part in (values, floats) for at in (a, b))
        near = (va - vb).abs() <= own.limit[0] + own.limit[1] * torch.maximum(va.abs(), vb.abs())
        near |= va == vb
        exact = (va == fa) & (vb == fb)
        return near & ~(exact & ((va != vb) | self.first))

    def _extended(self, result: torch.Tensor) -> torch.Tensor:
        """The places in order, and the best of the rest behind the last."""
        if result.shape[-1] == self.keys.shape[-1]:
            return result
        rest = self.keys.double().scatter(-1, result, -torch.inf).argmax(-1, keepdim=True)
        return torch.cat([result, rest], -1)

    def tied(self, result: torch.Tensor) -> bool:
        values = self.keys.gather(-1, self._extended(result)).to(torch.float32)
        return bool((values[..., 1:] == values[..., :-1]).any())

    def in_place(self, own: Call) -> torch.Tensor:
        ordered = own.keys.argsort(dim=-1, descending=True, stable=True)
        return ordered[..., : own.result.shape[-1]]

    def agreeing(self, natural: torch.Tensor, wanted: torch.Tensor, own: Call) -> torch.Tensor:
        if natural.shape != wanted.shape or torch.equal(natural, wanted):
            return natural
        placed = self._extended(wanted)
        values = self.keys.double().gather(-1, placed)
        right = (values[..., :-1] >= values[..., 1:]) | self._near(placed[..., :-1], placed[..., 1:], own)
        return torch.where(right.all(-1, keepdim=True), wanted, natural)

    def open(self, result: torch.Tensor, own: Call) -> list[tuple[int, int]]:
        placed = self._extended(result)
        near = self._near(placed[..., :-1], placed[..., 1:], own)
        return [(int(row), int(place)) for row, place in near.reshape(-1, near.shape[-1]).nonzero()]

    def flipped(self, result: torch.Tensor, own: Call, flips: Sequence[Flip]) -> torch.Tensor:
        if not flips:
            return result
        placed = self._extended(result).clone()
        rows = placed.reshape(-1, placed.shape[-1])
        for _, row, place in sorted(flips):
            if row < len(rows) and place + 1 < rows.shape[1]:
                swapped = rows.clone()
                swapped[row, place], swapped[row, place + 1] = rows[row, place + 1], rows[row, place]
                a, b = (each.reshape(placed.shape)[..., place : place + 1] for each in (rows, swapped))
                if bool(self._near(a, b, own).reshape(-1)[row]):
                    rows = swapped
        return rows.reshape(placed.shape)[..., : result.shape[-1]]

    def legal(self, result: torch.Tensor, own: Call) -> bool:
        values = self.keys.double().gather(-1, result)
        theirs = self.keys.double().gather(-1, own.result)
        assert own.limit is not None
        far = own.limit[0] + own.limit[1] * torch.maximum(values.abs(), theirs.abs())
        return bool(((values - theirs).abs() <= far).logical_or(values == theirs).all())

    def returned(self, result: torch.Tensor) -> Any:
        back = [each.movedim(-1, self.dim) for each in (self.best_first.gather(-1, result), result)]
        if self.name in PICKS and not self.bound.get("keepdim"):
            back = [each.squeeze(self.dim) for each in back]
        elif self.flat:
            back = [each.reshape((1,) * self.args[0].ndim) for each in back]
        if self.name in ("argsort", "argmax", "argmin"):
            return back[1]
        return getattr(torch.return_types, self.name)(back)


@dataclass
class _Elementwise(_Op):
    """A comparison, or a rounding."""

    def __post_init__(self) -> None:
        x, other = self.args[0], self.bound.get("other")
        self.broadcast = x
        if isinstance(other, torch.Tensor):
            shape = torch.broadcast_shapes(x.shape, other.shape)
            self.broadcast = x.expand(shape)
        self.other = other

    @property
    def keys(self) -> torch.Tensor:
        """What is compared, as its distance from the other where this is a tensor."""
        return self.broadcast.double() - self.other if isinstance(self.other, torch.Tensor) else self.broadcast

    @property
    def sizes(self) -> torch.Tensor:
        size = self.broadcast.double().abs()
        return torch.maximum(size, self.other.double().abs()) if isinstance(self.other, torch.Tensor) else size

    def natural(self) -> torch.Tensor:
        return self.made()

    def returned(self, result: torch.Tensor) -> torch.Tensor:
        return result.to(self.args[0].dtype) if result.is_floating_point() else result.clone()

    def _sides(self, own: Call) -> tuple[torch.Tensor, torch.Tensor]:
        """What the call gives for slightly smaller and greater values."""
        assert own.limit is not None
        keys = self.keys.double()
        far = 0.5 * (own.limit[0] + own.limit[1] * self.sizes)
        exact = (keys == own.keys.double()) | ~torch.isfinite(keys)
        far = torch.where(exact, 0.0, far)
        args = self.args[1:]
        if self.other is not None:
            args = (self.other.double() if isinstance(self.other, torch.Tensor) else self.other, *args[1:])
        x = self.broadcast.double()
        return self.made(x - far, *args), self.made(x + far, *args)

    def agreeing(self, natural: torch.Tensor, wanted: torch.Tensor, own: Call) -> torch.Tensor:
        low, high = self._sides(own)
        possible = (wanted == low) | (wanted == high)
        return torch.where(possible & (low != high), wanted.to(natural.dtype), natural)

    def open(self, result: torch.Tensor, own: Call) -> list[tuple[int, int]]:
        low, high = self._sides(own)
        return [(0, int(place)) for place in (low != high).flatten().nonzero()]

    def flipped(self, result: torch.Tensor, own: Call, flips: Sequence[Flip]) -> torch.Tensor:
        if not flips:
            return result
        low, high = (side.to(result.dtype) for side in self._sides(own))
        chosen = torch.zeros(result.numel(), dtype=torch.bool)
        chosen[[flip.place for flip in flips if flip.place < result.numel()]] = True
        other = torch.where(result == low, high, low)
        return torch.where(chosen.reshape(result.shape), other, result)
