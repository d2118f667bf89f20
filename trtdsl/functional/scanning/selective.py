"""Mamba's selective scan: by pairs of steps, by blocks, at once, in chunks, in a loop."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from ..common import L, ShapeError, Tensor, bounds, lowered, operation, product, require_rank, shape_text, torch, way
from ..einsum import einsum
from ..einsum.equation import label_sizes, parse
from ..operands import along, combined, doubled
from ..pointwise.activation import silu, softplus
from ..pointwise.elementary import exp
from ..shaping.create import counted, filled
from ..shaping.reshape import reshape
from .scan import Decays, decay, filled_by, passes, shifted

BLOCK = 4  # steps of which F.selective_scan keeps the last state
CHUNK = 64  # steps that are combined at once, where a loop runs over chunks of them
# The longest length of which F.selective_scan computes y at once by default. Chunks move twice as many bytes at this
# length, in ten times as many launches, and take a third of the memory; docs/benchmarks.md, "Scans".
AT_ONCE = 1024
# The most exponentials of a sequence for which every step is computed from all steps before it: that many are a few
# microseconds of a GPU's arithmetic (an estimate), as one or two launches are; docs/benchmarks.md, "Scans".
PAIRS = 1 << 24
Scanned = tuple[Tensor, Callable[[], Tensor]]
"""The result, and what makes the last state."""


@operation
def selective_scan(
    u: Tensor,
    delta: Tensor,
    A: Tensor,
    B: Tensor,
    C: Tensor,
    D: Tensor | None = None,
    z: Tensor | None = None,
    delta_bias: Tensor | None = None,
    delta_softplus: bool = False,
    return_last_state: bool = False,
    *,
    lowering: str = "auto",
) -> Any:
    """Mamba's recurrence: ``h[t] = exp(delta[t] A) h[t-1] + delta[t] B[t] u[t]``, ``y[t] = C[t] h[t] + D u[t]``.

    ``u``, ``delta`` and ``z`` are (batch, dim, length), ``A`` (dim, state); ``B`` and ``C`` are (dim, state),
    (batch, state, length) or (batch, groups, state, length); ``D`` and ``delta_bias`` (dim,). ``z`` gates the result
    with ``silu(z)``. ``return_last_state`` gives (result, last h) with h (batch, dim, state). Computed in float32; the
    result has the dtype of ``u``. As ``selective_scan_fn`` of https://github.com/state-spaces/mamba (Gu and Dao, 2023).

    ``lowering="pairs"`` computes every y from all steps before it, in kernels that keep no h, as long as length *
    length * dim * state is at most 16,777,216. ``"blocks"`` keeps h at the end of every fourth step, and computes y
    from those and from the steps between; ``"chunked"`` is an ILoop over chunks of 64 steps, each of which is computed
    at once from the last h of the one before, as :func:`linear_recurrence` computes h; ``"loop"`` an ILoop that holds
    one h. ``"auto"`` is "pairs" where it can be, "chunked" where the length may be greater than 1024, otherwise
    "blocks".

    Raises ShapeError naming the label whose sizes disagree, UnsupportedError as :func:`linear_recurrence`.

    >>> T = td.Dim("T", min=1, max=64)
    >>> u, delta = net.input("u", ("N", 8, T)), net.input("delta", ("N", 8, T))
    >>> b, c = net.input("b", ("N", 4, T)), net.input("c", ("N", 4, T))
    >>> F.selective_scan(u, delta, net.constant(-torch.ones(8, 4)), b, c, delta_softplus=True).shape
    (N, 8, T)
    """
    if u.ndim != 3 or A.ndim != 2:
        shapes = f"{shape_text(u.shape)} and {shape_text(A.shape)}"
        raise ShapeError(f"selective_scan takes u of (batch, dim, length) and A of (dim, state), not {shapes}")
    label_sizes(parse("bdl,dn,bdl->bdln", (3, 2, 3)), [u.shape, A.shape, delta.shape])
    longest = bounds(u.shape[2])[1]
    best = "pairs" if _why_not_pairs(u, delta, A) is None else "chunked" if longest > AT_ONCE else "blocks"
    dtype = u.dtype
    u, delta, A, B, C = (L.cast(x, torch.float32) for x in (u, delta, A, B, C))
    if delta_bias is not None:
        delta = delta + L.unsqueeze(L.cast(delta_bias, torch.float32), [1])
    if delta_softplus:
        delta = softplus(delta)
    for name, value in (("B", B), ("C", C)):
        require_rank(value, f"{name} has 2, 3 or 4 dimensions", 2, 4)
    how = {"B": _Projection.of(B), "C": _Projection.of(C)}
    y, make_last = lowered("selective_scan", lowering, u, delta, A, default=best, **how)
    last = make_last() if return_last_state else None
    if D is not None:
        y = y + u * L.unsqueeze(L.cast(D, torch.float32), [1])
    if z is not None:
        y = y * silu(L.cast(z, torch.float32))
    y = L.cast(y, dtype)
    return (y, last) if return_last_state else y


@dataclass(frozen=True)
class _Projection:
    """B or C: fixed (d n), by time (b n l), or by time and group of channels (b g n l)."""

    value: Tensor
    varies: bool = True
    groups: Any = None

    @classmethod
    def of(cls, value: Tensor) -> _Projection:
        """The projection by its dimensions."""
        return cls(value, value.ndim > 2, value.shape[1] if value.ndim == 4 else None)

    def over_time(self, change: Callable[[Tensor], Tensor]) -> _Projection:
        """The same of another stretch of time; itself where it is fixed."""
        return replace(self, value=change(self.value)) if self.varies else self

    def times(self, x: Tensor, time: str, before: str = "n", after: str = "n") -> Tensor:
        """``x`` (b d, ``time``, ``before``) times the projection: (b d, ``time``, ``after``)."""
        if self.groups is None:
            own = f"bn{time}" if self.varies else "dn"
            return einsum(f"bd{time}{before},{own}->bd{time}{after}", x, self.value)
        result = einsum(f"bgh{time}{before},bgn{time}->bgh{time}{after}", self._grouped(x), self.value)
        return reshape(result, (*x.shape[: x.ndim - len(before)], *result.shape[result.ndim - len(after) :]))

    def beside(self, x: Tensor, axis: int) -> Tensor:
        """The values in the dimensions (b, d, t, s, n), time as ``axis`` of them; ``x`` is (b, d, l)."""
        if not self.varies:
            return L.unsqueeze(self.value, [0, 2, 3])
        if self.groups is None:
            return L.unsqueeze(L.shuffle(self.value, [0, 2, 1]), [1, 5 - axis])
        return L.unsqueeze(self.times(filled(x.network, x.shape, 1.0, x.dtype), "l", before=""), [5 - axis])

    def _grouped(self, x: Tensor) -> Tensor:
        assert self.groups is not None
        channels = x.shape[1]
        if isinstance(channels, int) and isinstance(self.groups, int) and channels % self.groups:
            raise ShapeError(f"{channels} channels do not divide into {self.groups} groups")
        return reshape(x, (x.shape[0], self.groups, channels // self.groups, *x.shape[2:]))


def _why_not_pairs(u: Tensor, delta: Tensor, A: Tensor, **_: Any) -> str | None:
    longest = bounds(u.shape[2])[1]
    few = longest * longest * bounds(product(A.shape))[1] <= PAIRS
    return None if few else f"length * length * dim * state may be more than {PAIRS:,}"


@way("selective_scan", "pairs", "every step from all steps before it, in one kernel", unless=_why_not_pairs)
def _selective_pairs(u: Tensor, delta: Tensor, A: Tensor, B: _Projection, C: _Projection) -> Scanned:
    """``y[t]`` is the sum over s up to t of ``C[t] exp(A * d) B[s] delta[s] u[s]``, d the sum of delta between them."""
    length = u.shape[2]
    steps = counted(u.network, length)
    past = L.unsqueeze(~(L.unsqueeze(steps, [0]) > L.unsqueeze(steps, [1])), [0, 1])  # (t, s)
    zero = L.unsqueeze(filled_by(delta, 0.0)[1], range(4))
    between = L.select(past, _between(delta, past, zero), zero)
    driven = L.select(past, L.unsqueeze(delta * u, [2]), zero)
    decays = exp(L.unsqueeze(between, [4]) * _by_channel(A, 5))
    states = decays * (L.unsqueeze(driven, [4]) * B.beside(u, 3))
    y = L.reduce(states * C.beside(u, 2), "SUM", [3, 4])
    return y, lambda: L.reduce(along(states, 2, length - 1, 1), "SUM", [2, 3])


def _between(delta: Tensor, past: Tensor, zero: Tensor) -> Tensor:
    """The sum of delta behind s up to t (b, d, t, s), as differences of sums from the first step.

    A small sum between great ones would be lost in such a difference. So delta is split in two: parts that are
    multiples of one number so coarse that their sums are exact, and what is left of it.
    """
    coarse = L.reduce(L.unary(delta, "ABS"), "SUM", [2], True)
    coarse = coarse + coarse
    high = (delta + coarse) - coarse
    uptos = [L.reduce(L.select(past, L.unsqueeze(x, [2]), zero), "SUM", [3]) for x in (high, delta - high)]
    return combined(L.unsqueeze(upto, [3]) - L.unsqueeze(upto, [2]) for upto in uptos)


@way(
    "selective_scan",
    "blocks",
    "the states at the ends of blocks of 4 steps, the others from the steps of their block",
)
def _selective_blocks(u: Tensor, delta: Tensor, A: Tensor, B: _Projection, C: _Projection) -> Scanned:
    """The states at the ends of blocks by passes; every other one from the block's steps and the state before it.

    What a step adds to a later state is ``exp(A * d)`` times what it adds to its own, d the sum of delta between them:
    so no state but those of the ends is kept. Steps that are added at the end have delta 0 and change nothing.
    """
    driven, step = _blocks(delta * u), _blocks(delta)
    B, C = B.over_time(_blocks), C.over_time(_blocks)
    after, whole = _sums_after(step)
    inside, between = _by_channel(A, 5), _by_channel(A, 4)
    # In another order of factors than below: what both would share would be kept.
    ends = L.reduce(B.times(decay(after, inside) * L.unsqueeze(driven, [4]), "cl"), "SUM", [3])
    states = passes(Decays(whole, between), ends, 2)
    before = shifted(states, 2, 1, False, *filled_by(states, 0.0))
    total, here, since = None, driven, None
    for back in range(BLOCK):
        part = B.over_time(functools.partial(_earlier, steps=back)).times(here, "cl", before="")
        part = part if since is None else decay(since, inside) * part
        total = part if total is None else total + part
        since = step if since is None else since + _earlier(step, back)
        here = _earlier(driven, back + 1)
    assert total is not None and since is not None
    h = total + decay(since, inside) * L.unsqueeze(before, [3])
    y = L.shuffle(C.times(h, "cl", after=""), reshape=(*u.shape[:2], step.shape[2] * BLOCK))
    y = L.slice(y, (0, 0, 0), u.shape)
    return y, lambda: L.squeeze(along(states, 2, step.shape[2] - 1, 1), [2])


def _earlier(x: Tensor, steps: int) -> Tensor:
    """What stands that many steps before, within a block."""
    return shifted(x, x.ndim - 1, steps, False, *filled_by(x, 0.0)) if steps else x


def _blocks(x: Tensor, size: int = BLOCK) -> Tensor:
    """The last dimension, which zeros make a multiple of their size, as blocks."""
    length, lead = x.shape[-1], x.shape[:-1]
    count = (length + (size - 1)) // size
    if count * size != length:
        x = along(x, x.ndim - 1, 0, count * size, 1, *filled_by(x, 0.0))
    return L.shuffle(x, reshape=(*lead, count, size))


def _sums_after(step: Tensor) -> tuple[Tensor, Tensor]:
    """For each step of a block the sum of those after it, and the sum of the whole block."""
    zero, axis = filled_by(step, 0.0), step.ndim - 1
    run = step  # of steps that begin here: one, two, …, the whole block
    for by in doubled(BLOCK):
        run = run + shifted(run, axis, -by, False, *zero)
    after = shifted(run, axis, -1, False, *zero)  # not run - step, where a great step hides small ones
    return after, L.squeeze(along(run, axis, 0, 1), [axis])


def _by_channel(A: Tensor, ndim: int) -> Tensor:
    return L.unsqueeze(A, [0, *range(2, ndim - 1)])


@way("selective_scan", "chunked", "ILoop over chunks of 64 steps")
def _selective_chunks(u: Tensor, delta: Tensor, A: Tensor, B: _Projection, C: _Projection) -> Scanned:
    """A step that is added at the end, with delta 0, leaves h as it is: exp(0) h + 0."""
    length = u.shape[2]
    loop = L.Loop(u.network)
    count = (length + (CHUNK - 1)) // CHUNK
    loop.count(count)
    chunk = functools.partial(_chunk, loop)
    step, driven = chunk(delta), chunk(delta * u)
    state = loop.recurrence(filled(u.network, (*u.shape[:2], A.shape[1]), 0, u.dtype))
    h = passes(Decays(step, _by_channel(A, 4)), B.over_time(chunk).times(driven, "l", before=""), 2, state)
    loop.next(state, L.squeeze(along(h, 2, CHUNK - 1, 1), [2]))
    y = loop.concatenate(C.over_time(chunk).times(h, "l", after=""), count, 2)
    y = L.shuffle(y, reshape=(*u.shape[:2], count * CHUNK))
    return L.slice(y, (0, 0, 0), u.shape), lambda: loop.last_value(state)


def _chunk(loop: L.Loop, x: Tensor) -> Tensor:
    """The loop's chunk of the last dimension, which zeros make a multiple of its size."""
    return loop.iterator(_blocks(x, CHUNK), x.ndim - 1)


@way("selective_scan", "loop", "ILoop over the steps")
def _selective_loop(u: Tensor, delta: Tensor, A: Tensor, B: _Projection, C: _Projection) -> Scanned:
    length = u.shape[2]
    loop = L.Loop(u.network)
    loop.count(length)

    def at(x: Tensor) -> Tensor:
        return loop.iterator(x, x.ndim - 1)

    step, driven = at(delta), at(delta * u)
    before = loop.recurrence(filled(u.network, (*u.shape[:2], A.shape[1]), 0, u.dtype))
    after = exp(einsum("bd,dn->bdn", step, A)) * before + B.over_time(at).times(driven, "", before="")
    loop.next(before, after)
    y = loop.concatenate(C.over_time(at).times(after, "", after=""), length, 2)
    return y, lambda: loop.last_value(before)
