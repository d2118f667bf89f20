"""Recurrences along a dimension: in a loop, or in about log2(length) passes over it; Mamba's selective scan."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from ...core.errors import DefinitionError, ShapeError, UnsupportedError
from ..common import L, Tensor, bounds, broadcast, lowered, operation, product, require_rank, torch, way
from ..einsum import einsum
from ..einsum.equation import label_sizes, parse
from ..operands import align, along, axis_of, binary, combined, doubled, on_axis, promote, stretch
from ..pointwise.activation import silu, softplus
from ..pointwise.elementary import exp
from ..shaping.create import counted, filled
from ..shaping.reshape import reshape

# Up to this length a scan is made by doubling, which has fewer passes but touches everything in each: where the factors
# of a pass are read, and where they are computed anew.
SHORT, SHORT_DECAYS = 32, 16
LOOP = ", or use lowering='loop'"


@operation
def linear_recurrence(
    a: Tensor,
    b: Tensor,
    dim: int,
    initial: Tensor | None = None,
    *,
    reverse: bool = False,
    lowering: str = "auto",
) -> Tensor:
    """``h[t] = a[t] * h[t-1] + b[t]`` along ``dim`` for every t, from ``initial`` (0 when None, without ``dim``).

    ``a`` and ``b`` are broadcast; ``reverse`` runs from the end. Computed in float32 and rounded once.

    ``lowering="parallel"``, the default, puts steps together two by two, log2(length) times (Blelloch, 1990), and by
    doubling strides (Hillis and Steele, 1986) where the length is 32 or less: ISliceLayer, IElementWiseLayer PROD and
    SUM, IConcatenationLayer and IShuffleLayer. It needs an upper bound of the length. ``"loop"`` is an ILoop that holds
    one h at a time, for any length.

    Raises UnsupportedError for a length without an upper bound, unless in a loop.
    """
    dtype = promote(a, b)[0].dtype
    a, b = promote(a, b, dtype=torch.float32)
    axis = axis_of(dim, a.ndim)
    shape = broadcast(a.shape, b.shape)
    b = stretch(b, shape)
    if a.shape[axis] != shape[axis]:
        a = stretch(a, (*a.shape[:axis], shape[axis], *a.shape[axis + 1 :]))
    state = shape[:axis] + shape[axis + 1 :]
    if initial is not None:
        initial = L.cast(initial, torch.float32)
        initial = stretch(L.unsqueeze(initial, range(len(state) - initial.ndim)), state)
    result = lowered("linear_recurrence", lowering, a, b, axis=axis, initial=initial, reverse=reverse)
    return L.cast(result, dtype)


@dataclass(frozen=True)
class Factors:
    """The factors of the steps: a Tensor."""

    value: Tensor
    one: ClassVar = 1.0
    short: ClassVar = SHORT

    def tensor(self) -> Tensor:
        """The factors, to multiply by."""
        return self.value

    def times(self, other: Factors) -> Factors:
        """Those of two steps as one."""
        return replace(self, value=self.value * other.value)


def decay(since: Tensor, A: Tensor) -> Tensor:
    """``exp(since * A)`` with the states at the end. One A for all of them is read once."""
    return exp(L.unsqueeze(since, [since.ndim]) * A)


@dataclass(frozen=True)
class Decays(Factors):
    """``exp(value * A)`` for A of (1, dim, 1, state), with a dimension more than ``value``.

    Two steps are one of the sum of their values. So the factors of each pass are computed where they are used, from
    what is as many times smaller as A has states.
    """

    A: Tensor
    one: ClassVar = 0.0
    short: ClassVar = SHORT_DECAYS

    def tensor(self) -> Tensor:
        return decay(self.value, self.A)

    def times(self, other: Factors) -> Factors:
        return replace(self, value=self.value + other.value)


PASSES = "log2(length) passes over the whole of the operands"


way("linear_recurrence", "parallel", PASSES)(lambda a, b, **how: passes(Factors(a), b, **how))


@way("linear_recurrence", "loop", "ILoop over the elements")
def _in_a_loop(a: Tensor, b: Tensor, axis: int, initial: Tensor | None, reverse: bool) -> Tensor:
    if initial is None:
        initial = filled(b.network, b.shape[:axis] + b.shape[axis + 1 :], 0, b.dtype)
    loop = L.Loop(b.network)
    loop.count(b.shape[axis])
    factor, addend = loop.iterator(a, axis, reverse), loop.iterator(b, axis, reverse)
    before = loop.recurrence(initial)
    after = factor * before + addend
    loop.next(before, after)
    return loop.concatenate(after, b.shape[axis], axis, reverse)


def passes(a: Factors, b: Tensor, axis: int, initial: Tensor | None = None, reverse: bool = False) -> Tensor:
    """The recurrence along ``axis`` in about log2(length) passes."""
    if initial is not None:  # the first step's addend includes the state before it
        length = b.shape[axis]
        spread = along(L.unsqueeze(initial, [axis]), axis, 1 - length if reverse else 0, length, 1, *filled_by(b, 0.0))
        b = a.tensor() * spread + b
    return _halving(a, b, axis, reverse)


def filled_by(x: Tensor, value: float) -> tuple[str, Tensor]:
    """How ISliceLayer puts a number outside of ``x``."""
    return "FILL", x.network.constant(torch.tensor(value, dtype=x.dtype))


def _halving(a: Factors, b: Tensor, axis: int, reverse: bool) -> Tensor:
    """Combines steps two by two, which halves the length, and fills in the results between."""
    length = b.shape[axis]
    if 2 ** len(doubled(length, LOOP)) <= a.short:
        return _doubling(a, b, axis, reverse)
    half = (length + 1) // 2
    # Pairs end at the last step, or at the first one in reverse; a missing half has no effect.
    first, second = ((length - 1, length - 2), -2) if reverse else ((0, 1), 2)
    one, zero = filled_by(b, a.one), filled_by(b, 0.0)
    a1, a2 = (replace(a, value=along(a.value, axis, start, half, second, *one)) for start in first)
    b1, b2 = (along(b, axis, start, half, second, *zero) for start in first)
    h2 = _halving(a2.times(a1), a2.tensor() * b1 + b2, axis, False)
    h1 = a1.tensor() * shifted(h2, axis, 1, False, *zero) + b1
    woven = L.concatenation([L.unsqueeze(h, [axis + 1]) for h in (h1, h2)], axis + 1)
    woven = L.shuffle(woven, reshape=(*b.shape[:axis], 2 * half, *b.shape[axis + 1 :]))
    return along(woven, axis, length - 1 if reverse else 0, length, -1 if reverse else 1)


def _doubling(a: Factors, b: Tensor, axis: int, reverse: bool) -> Tensor:
    """After the pass with step s, (a, b) at t are those of the 2*s steps that end there, as one step."""
    steps = doubled(b.shape[axis], LOOP)
    for step in steps:
        b = a.tensor() * shifted(b, axis, step, reverse, *filled_by(b, 0.0)) + b
        if step != steps[-1]:
            a = a.times(replace(a, value=shifted(a.value, axis, step, reverse, *filled_by(b, a.one))))
    return b


def shifted(x: Tensor, axis: int, step: int, reverse: bool, mode: str, fill: Tensor | None = None) -> Tensor:
    """What stands ``step`` places before each element, after it in ``reverse``; ``mode`` says what is outside."""
    return along(x, axis, step if reverse else -step, x.shape[axis], 1, mode, fill)


@operation
def associative_scan(
    combine_fn: Callable[[Any, Any], Any],
    xs: Any,
    dim: int,
    reverse: bool = False,
    combine_mode: str = "pointwise",
    *,
    lowering: str = "auto",
) -> Any:
    """``xs`` along ``dim``, each element combined with all before it: ``y[t] = combine_fn(y[t-1], xs[t])``.

    ``combine_fn(earlier, later)`` is associative and takes and gives what ``xs`` is: a Tensor, or a tuple or list of
    Tensors with one size of ``dim``. It sees whole tensors under ``"parallel"``, and single elements, without ``dim``,
    in a loop: it must treat all elements alike (``combine_mode="pointwise"``).
    https://docs.pytorch.org/docs/main/higher_order_ops/associative_scan.html

    ``lowering`` as for :func:`linear_recurrence`: ISliceLayer, ISelectLayer and what ``combine_fn`` emits for each
    pass, or an ILoop.

    >>> x = net.input("x", (2, td.Dim("T", min=1, max=50)))
    >>> F.associative_scan(F.maximum, x, 1).shape
    (2, T)
    """
    if combine_mode != "pointwise":
        raise UnsupportedError(f"associative_scan: combine_mode is 'pointwise', not {combine_mode!r}")
    single = isinstance(xs, Tensor)
    tensors = [xs] if single else list(xs)
    if not tensors or not all(isinstance(x, Tensor) for x in tensors):
        raise DefinitionError("associative_scan takes a Tensor, or a tuple or list of Tensors")
    axes = [axis_of(dim, x.ndim) for x in tensors]
    sizes = {x.shape[axis] for x, axis in zip(tensors, axes, strict=True)}
    if len(sizes) > 1:
        raise ShapeError(f"associative_scan: the sizes of dimension {dim} differ: {' and '.join(map(str, sizes))}")

    def combine(earlier: Sequence[Tensor], later: Sequence[Tensor]) -> list[Tensor]:
        kind: Any = type(xs)
        result = combine_fn(earlier[0], later[0]) if single else combine_fn(kind(earlier), kind(later))
        results = [result] if single else list(result)
        for before, after in zip(later, results, strict=True):
            if (before.shape, before.dtype) != (after.shape, after.dtype):
                raise ShapeError(f"combine_fn must give what it takes: {before} became {after}")
        return results

    results = lowered("associative_scan", lowering, *tensors, combine=combine, axes=axes, reverse=reverse)
    return results[0] if single else type(xs)(results)


Combine = Callable[[Sequence[Tensor], Sequence[Tensor]], list[Tensor]]


@way("associative_scan", "parallel", PASSES)
def _scan_by_doubling(*operands: Tensor, combine: Combine, axes: list[int], reverse: bool) -> list[Tensor]:
    xs = list(operands)
    length = xs[0].shape[axes[0]]
    steps = doubled(length, LOOP)
    if not steps:
        return xs
    place = counted(xs[0].network, length, torch.int32)
    if reverse:
        place = L.slice(place, (length - 1,), (length,), (-1,))
    for step in steps:
        # Elements before the first one are not combined; the edge stands in for them until then.
        earlier = [shifted(x, axis, step, reverse, "CLAMP") for x, axis in zip(xs, axes, strict=True)]
        inside = binary(place, step, "LESS", torch.int32)
        made = combine(earlier, xs)
        xs = [L.select(on_axis(inside, axis, x.ndim), x, other) for x, axis, other in zip(xs, axes, made, strict=True)]
    return xs


@way("associative_scan", "loop", "ILoop over the elements")
def _scan_in_a_loop(*xs: Tensor, combine: Combine, axes: list[int], reverse: bool) -> list[Tensor]:
    network, length = xs[0].network, xs[0].shape[axes[0]]
    loop = L.Loop(network)
    loop.count(length)
    later = [loop.iterator(x, axis, reverse) for x, axis in zip(xs, axes, strict=True)]
    first = loop.recurrence(network.constant(True))
    loop.next(first, L.identity(network.constant(False)))
    before = [loop.recurrence(filled(network, x.shape, 0, x.dtype)) for x in later]
    pairs = zip(later, combine(before, later), strict=True)
    after = [L.select(*align([first, x, other])) for x, other in pairs]
    for earlier, value in zip(before, after, strict=True):
        loop.next(earlier, value)
    return [loop.concatenate(value, length, axis, reverse) for value, axis in zip(after, axes, strict=True)]


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
        raise ShapeError("selective_scan takes u of (batch, dim, length) and A of (dim, state)")
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
        grouped = reshape(x, (x.shape[0], self.groups, x.shape[1] // self.groups, *x.shape[2:]))
        result = einsum(f"bgh{time}{before},bgn{time}->bgh{time}{after}", grouped, self.value)
        return reshape(result, (*x.shape[: x.ndim - len(before)], *result.shape[result.ndim - len(after) :]))

    def beside(self, x: Tensor, axis: int) -> Tensor:
        """The values in the dimensions (b, d, t, s, n), time as ``axis`` of them; ``x`` is (b, d, l)."""
        if not self.varies:
            return L.unsqueeze(self.value, [0, 2, 3])
        if self.groups is None:
            return L.unsqueeze(L.shuffle(self.value, [0, 2, 1]), [1, 5 - axis])
        return L.unsqueeze(self.times(filled(x.network, x.shape, 1.0, x.dtype), "l", before=""), [5 - axis])


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


def _selective_in_a_loop(
    u: Tensor, delta: Tensor, A: Tensor, B: _Projection, C: _Projection, size: int = CHUNK
) -> Scanned:
    """A step that is added at the end, with delta 0, leaves h as it is: exp(0) h + 0."""
    loop, count, alone = L.Loop(u.network), (u.shape[2] + (size - 1)) // size, size == 1
    loop.count(count)

    def taken(x: Tensor) -> Tensor:
        """The loop's steps of the last dimension, which zeros make a multiple of their number."""
        return loop.iterator(x if alone else _blocks(x, size), x.ndim - 1)

    step, driven = taken(delta), taken(delta * u)
    state = loop.recurrence(filled(u.network, (*u.shape[:2], A.shape[1]), 0, u.dtype))
    if alone:
        h = last = exp(einsum("bd,dn->bdn", step, A)) * state + B.over_time(taken).times(driven, "", before="")
    else:
        h = passes(Decays(step, _by_channel(A, 4)), B.over_time(taken).times(driven, "l", before=""), 2, state)
        last = L.squeeze(along(h, 2, size - 1, 1), [2])
    loop.next(state, last)
    y = loop.concatenate(C.over_time(taken).times(h, "" if alone else "l", after=""), count, 2)
    if not alone:
        y = L.slice(L.shuffle(y, reshape=(*u.shape[:2], count * size)), (0, 0, 0), u.shape)
    return y, lambda: loop.last_value(state)


way("selective_scan", "chunked", "ILoop over chunks of 64 steps")(_selective_in_a_loop)
way("selective_scan", "loop", "ILoop over the steps")(functools.partial(_selective_in_a_loop, size=1))
