"""The calls of a reference that decide: what each compares, and which of its decisions may be taken otherwise."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from ...core.errors import Location
from ...core.lazy import torch
from ..coverage import author_of_reference
from .network_decisions import OwnError, Proposal

SORTS = {"topk", "sort", "argsort"}
PICKS = {"argmax", "argmin", "max", "min"}
SIDES = {"gt", "ge", "lt", "le"}
ROUNDINGS = {"floor", "ceil", "round", "trunc", "sign", "floor_divide", "bucketize", "to", "_to_copy"}
RIVAL = 1.5  # times the error of the nearest values: two that are nearer to each other are not told apart
DECIDING = SORTS | PICKS | SIDES | ROUNDINGS


class Flip(NamedTuple):
    """One decision taken the other way: the number of the call, and the place in it."""

    call: int
    row: int
    place: int


IN_PLACE = Flip(-1, 0, 0)
"""Equal values come in the order of their places, in each sort."""
AS_PROPOSED = Flip(-2, 0, 0)
"""Decisions are those that the network takes, as far as they are found and open."""


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
    error: OwnError | None = None
    """Torch's own error in what is compared, where it is known."""

    @property
    def limit(self) -> tuple[float, float]:
        """How far apart two values may be and still be open: a constant, and a part of the values."""
        assert self.error is not None
        return self.error.limit


def op_of(func: Any, args: Any, kwargs: Any) -> Op | None:
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
        return None if name in ("max", "min") and "dim" not in bound else Order(func, args, kwargs, bound, name)
    if not any(isinstance(value, torch.Tensor) for value in floating):
        return None
    to = bound.get("dtype")
    if name in ("to", "_to_copy") and (to is None or to.is_floating_point or to.is_complex):
        return None
    if name in ("to", "_to_copy") and bound["dtype"] is torch.bool:
        return None
    return Elementwise(func, args, kwargs, bound, name)


def _floats(value: Any) -> bool:
    return isinstance(value, float) or value.is_floating_point()


@dataclass
class Op:
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

    def agreeing(
        self, natural: torch.Tensor, wanted: torch.Tensor, own: Call, *, accurate: bool = False
    ) -> torch.Tensor:
        """The wanted decisions where they are open, and the natural ones elsewhere.

        ``accurate`` are those that come from values that are as accurate as torch's: all but what was never rounded.
        """
        raise NotImplementedError

    def proposed(
        self, natural: torch.Tensor, agreed: torch.Tensor, proposal: Proposal, own: Call
    ) -> tuple[torch.Tensor, bool]:
        """The decisions of the network where these are found and open, and those agreed on elsewhere.

        The second result is whether all of them were found.
        """
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
class _Nearest:
    """The decisions that follow from the most accurate of several values."""

    found: torch.Tensor | None = None
    distance: float = float("inf")
    alone: bool = True
    """Whether values that are nearly as accurate decide the same."""

    def add(self, decided: torch.Tensor, distance: float) -> None:
        same = self.found is None or torch.equal(self.found, decided)
        if distance < self.distance:
            self.alone = same or distance < self.distance / RIVAL
            self.found, self.distance = decided, distance
        elif not same and distance <= RIVAL * self.distance:
            self.alone = False


@dataclass
class Order(Op):
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

    def agreeing(
        self, natural: torch.Tensor, wanted: torch.Tensor, own: Call, *, accurate: bool = False
    ) -> torch.Tensor:
        if natural.shape != wanted.shape or torch.equal(natural, wanted):
            return natural
        return torch.where(self._possible(natural, wanted, own, accurate=accurate), wanted, natural)

    def _possible(
        self, natural: torch.Tensor, wanted: torch.Tensor, own: Call, *, accurate: bool = False
    ) -> torch.Tensor:
        """Whether an order exchanges no two places, near in it or far, whose order is not open: (…, 1).

        One that comes from values that are as accurate as torch's may exchange all but values that were never rounded.
        """
        rows = (natural != wanted).any(-1)
        found = torch.ones(rows.shape, dtype=torch.bool)
        values, floats = self.keys[rows].double(), own.keys[rows].double()
        found[rows] = self._possible_rows(wanted[rows], values, floats, own, accurate).squeeze(-1)
        return found.unsqueeze(-1)

    def _possible_rows(
        self, wanted: torch.Tensor, values: torch.Tensor, floats: torch.Tensor, own: Call, accurate: bool
    ) -> torch.Tensor:
        taken = torch.zeros(values.shape, dtype=torch.bool).scatter(-1, wanted, True)
        v = values.gather(-1, wanted)
        rest = values.masked_fill(taken, -torch.inf).amax(-1, keepdim=True)
        after = _greatest_after(v, rest)
        far = torch.inf if accurate else own.limit[0] + own.limit[1] * torch.maximum(v.abs(), after.abs())
        right = (v >= after) | (after - v <= far)
        whole = right.all(-1, keepdim=True) & (taken.sum(-1, keepdim=True) == wanted.shape[-1])
        exact = values == floats
        if not bool(exact.any()):
            return whole
        v = values.masked_fill(~exact, -torch.inf).gather(-1, wanted)
        left = values.masked_fill(taken | ~exact, -torch.inf)
        rest = left.amax(-1, keepdim=True)
        after = _greatest_after(v, rest)
        there = exact.gather(-1, wanted)
        whole &= (~there | (v >= after)).all(-1, keepdim=True)
        if self.first:  # of equals the first comes first
            size = values.shape[-1]
            behind = torch.where((left == rest) & torch.isfinite(rest), torch.arange(size), size).amin(-1, keepdim=True)
            tied = torch.cat([v, rest], -1)
            places = torch.cat([wanted, behind], -1)
            chosen = torch.cat([there, behind < size], -1)
            order = torch.argsort((~chosen).byte(), dim=-1, stable=True)
            tied, places, chosen = (part.gather(-1, order) for part in (tied, places, chosen))
            wrong = chosen[..., 1:] & (tied[..., 1:] == tied[..., :-1]) & (places[..., 1:] < places[..., :-1])
            whole &= ~wrong.any(-1, keepdim=True)
        return whole

    def proposed(
        self, natural: torch.Tensor, agreed: torch.Tensor, proposal: Proposal, own: Call
    ) -> tuple[torch.Tensor, bool]:
        kept, true = natural.shape[-1], self.keys.double()
        rows = natural.numel() // kept
        best, most, accurate = agreed, 0, _Nearest()
        for keys, places in proposal.order_blocks(rows, true.shape[-1]):
            wanted = places.reshape(*natural.shape[:-1], -1)[..., :kept]
            if wanted.shape[-1] < kept:
                wanted = self._completed(wanted, kept)
            assert own.error is not None
            distance = own.error.distance(keys.reshape(true.shape).double(), own.keys, true, self.sizes)
            if distance is not None:
                possible = self._possible(natural, wanted, own, accurate=True)
                accurate.add(torch.where(possible, wanted, agreed), distance)
            elif accurate.found is None:
                possible = self._possible(natural, wanted, own)
                if int(possible.sum()) > most:
                    best, most = torch.where(possible, wanted, agreed), int(possible.sum())
        return (best, False) if accurate.found is None else (accurate.found, accurate.alone)

    def _completed(self, first: torch.Tensor, kept: int) -> torch.Tensor:
        """An order that begins with some places, and goes on with the best of the others."""
        rest = self.keys.double().scatter(-1, first, -torch.inf).argsort(dim=-1, descending=True, stable=True)
        return torch.cat([first, rest[..., : kept - first.shape[-1]]], -1)

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


def _greatest_after(values: torch.Tensor, last: torch.Tensor) -> torch.Tensor:
    """For each value along the last axis the greatest of those after it, and of one more that is last."""
    following = torch.cat([values[..., 1:], last], -1).flip(-1)
    return following.cummax(-1).values.flip(-1)


@dataclass
class Elementwise(Op):
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
        if not result.is_floating_point():
            return result.clone()
        x = self.args[0]
        return result.to(x.dtype if self.other is None else torch.result_type(x, self.other))

    def _sides(self, own: Call) -> tuple[torch.Tensor, torch.Tensor]:
        """What the call gives for slightly smaller and greater values."""
        far = 0.5 * (own.limit[0] + own.limit[1] * self.sizes)
        far = torch.where(self._exact(own), 0.0, far)
        x = self.broadcast.double()
        return self.made(x - far, *self._others()), self.made(x + far, *self._others())

    def agreeing(
        self, natural: torch.Tensor, wanted: torch.Tensor, own: Call, *, accurate: bool = False
    ) -> torch.Tensor:
        if accurate:
            return torch.where(self._exact(own), natural, wanted.to(natural.dtype))
        low, high = self._sides(own)
        possible = (wanted == low) | (wanted == high)
        return torch.where(possible & (low != high), wanted.to(natural.dtype), natural)

    def proposed(
        self, natural: torch.Tensor, agreed: torch.Tensor, proposal: Proposal, own: Call
    ) -> tuple[torch.Tensor, bool]:
        if not natural.numel():
            return agreed, True
        low, high = (side.reshape(-1) for side in self._sides(own))
        true, either = natural.reshape(-1), low != high
        best, most, accurate = agreed, 0, _Nearest()
        bools = natural.dtype == torch.bool
        for keys, results in proposal.side_blocks(natural.numel(), bools=bools):
            for sign in (1, -1)[: 1 + bools]:
                each = results if sign > 0 else ~results
                for found, distance in self._accurate(None if keys is None else keys * sign, each, own):
                    accurate.add(torch.where(self._exact(own), natural, found.to(natural.dtype)), distance)
                if accurate.found is not None:
                    continue
                possible = (each == true) | (either & ((each == low) | (each == high)))
                count, place = (int(part) for part in possible.sum(-1).max(0))
                if count > most:
                    chosen = torch.where(possible[place], each[place].to(true.dtype), agreed.reshape(-1))
                    best, most = chosen.reshape(natural.shape), count
        return (best, False) if accurate.found is None else (accurate.found, accurate.alone)

    def _accurate(
        self, keys: torch.Tensor | None, results: torch.Tensor, own: Call
    ) -> Iterator[tuple[torch.Tensor, float]]:
        """What follows from values that are as accurate as torch's, of (…, elements), and their error."""
        compares = self.name in SIDES
        if keys is None or own.error is None or (self.other is not None and not compares):
            return
        sign = -1 if self.name in ("lt", "le") else 1
        beside = self.other if compares and isinstance(self.other, int | float) else 0.0
        true, theirs = self.keys.double() - beside, own.keys.double() - beside
        for values, result in zip(keys.double() * sign, results, strict=True):
            values = values.reshape(true.shape)
            distance = own.error.distance(values, theirs, true, self.sizes.expand(true.shape))
            if distance is not None:
                yield result.reshape(true.shape) if compares else self.made(values, *self._others()), distance

    def _others(self) -> Sequence[Any]:
        """The arguments behind the first, what is compared with in float64."""
        if self.other is None:
            return self.args[1:]
        other = self.other.double() if isinstance(self.other, torch.Tensor) else self.other
        return (other, *self.args[2:])

    def _exact(self, own: Call) -> torch.Tensor:
        """Values that were never rounded."""
        keys = self.keys.double()
        return (keys == own.keys.double()) | ~torch.isfinite(keys)

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
