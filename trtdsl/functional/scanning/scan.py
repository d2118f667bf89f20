"""Recurrences along a dimension: in a loop, or in about log2(length) passes over the whole of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ... import layers as L
from ...core.errors import DefinitionError, ShapeError, UnsupportedError
from ...core.lazy import torch
from ...definition.operation import operation
from ...definition.tensor import Tensor
from ...layers.base import broadcast
from ...sizes.shape import INFINITY, SizeLike, bounds, shape_text
from ..einsum import einsum
from ..lowerings import lowering_of
from ..operands import align, axis_of, binary, promote, stretch
from ..pointwise.activation import silu, softplus
from ..pointwise.arithmetic import add, mul
from ..pointwise.elementary import exp
from ..shaping.create import arange, filled
from ..shaping.reshape import reshape

CHUNK = 64  # steps that are combined at once, where a loop runs over chunks of them
# The longest length of which F.selective_scan computes all states at once by default. Chunks move a fifth more bytes at
# this length, and take a quarter of the memory; docs/benchmarks.md, "Scans".
AT_ONCE = 256
SHORT = 32  # up to this length a scan is made by doubling, which has fewer passes but touches everything in each


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

    >>> net = td.Network()
    >>> T = td.Dim("T", min=1, max=100)
    >>> F.linear_recurrence(net.input("a", (2, T, 3)), net.input("b", (2, T, 3)), 1).shape
    (2, T, 3)
    """
    lowering = lowering_of("linear_recurrence", lowering, a, b)
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
    compute = _in_a_loop if lowering == "loop" else _in_passes
    return L.cast(compute(a, b, axis, initial, reverse), dtype)


def _in_a_loop(a: Tensor, b: Tensor, axis: int, initial: Tensor | None, reverse: bool) -> Tensor:
    if initial is None:
        initial = filled(b.network, b.shape[:axis] + b.shape[axis + 1 :], 0, b.dtype)
    loop = L.Loop(b.network)
    loop.count(b.shape[axis])
    factor, addend = loop.iterator(a, axis, reverse), loop.iterator(b, axis, reverse)
    before = loop.recurrence(initial)
    after = add(mul(factor, before), addend)
    loop.next(before, after)
    return loop.concatenate(after, b.shape[axis], axis, reverse)


def _in_passes(a: Tensor, b: Tensor, axis: int, initial: Tensor | None, reverse: bool) -> Tensor:
    if initial is not None:  # the first step's addend includes the state before it
        b = _with_initial(a, b, axis, initial, reverse)
    return _halving(a, b, axis, reverse)


def _with_initial(a: Tensor, b: Tensor, axis: int, initial: Tensor, reverse: bool) -> Tensor:
    before = L.unsqueeze(initial, [axis])
    start: list[SizeLike] = [0] * b.ndim
    if reverse:
        start[axis] = 1 - b.shape[axis]
    spread = L.slice(before, start, b.shape, mode="FILL", fill=_scalar(b, 0.0))
    return add(mul(a, spread), b)


def _scalar(x: Tensor, value: float) -> Tensor:
    return x.network.constant(torch.tensor(value, dtype=x.dtype))


def _halving(a: Tensor, b: Tensor, axis: int, reverse: bool) -> Tensor:
    """Combines steps two by two, which halves the length, and fills in the results between."""
    length = b.shape[axis]
    if _longest(length) <= SHORT:
        return _doubling(a, b, axis, reverse)
    half = (length + 1) // 2
    # Pairs end at the last step, or at the first one in reverse; a missing half has no effect.
    first, second = ((length - 1, length - 2), -2) if reverse else ((0, 1), 2)
    one, zero = _scalar(a, 1.0), _scalar(b, 0.0)
    (a1, a2), (b1, b2) = (
        [_every_other(x, axis, start, half, second, fill) for start in first] for x, fill in ((a, one), (b, zero))
    )
    h2 = _halving(mul(a2, a1), add(mul(a2, b1), b2), axis, False)
    h1 = add(mul(a1, _shifted(h2, axis, 1, False, mode="FILL", fill=zero)), b1)
    woven = L.concatenation([L.unsqueeze(h, [axis + 1]) for h in (h1, h2)], axis + 1)
    woven = L.shuffle(woven, reshape=(*b.shape[:axis], 2 * half, *b.shape[axis + 1 :]))
    return _every_other(woven, axis, length - 1 if reverse else 0, length, -1 if reverse else 1)


def _every_other(
    x: Tensor, axis: int, start: SizeLike, size: SizeLike, stride: int, fill: Tensor | None = None
) -> Tensor:
    starts, sizes, strides = [0] * x.ndim, list(x.shape), [1] * x.ndim
    starts[axis], sizes[axis], strides[axis] = start, size, stride  # type: ignore[call-overload]
    return L.slice(x, starts, sizes, strides, "STRICT_BOUNDS" if fill is None else "FILL", fill)


def _doubling(a: Tensor, b: Tensor, axis: int, reverse: bool) -> Tensor:
    """After the pass with step s, (a, b) at t are those of the 2*s steps that end there, as one step."""
    steps = _steps(b.shape[axis])
    for step in steps:
        earlier = _shifted(b, axis, step, reverse, mode="FILL", fill=_scalar(b, 0.0))
        b = add(mul(a, earlier), b)
        if step != steps[-1]:
            a = mul(a, _shifted(a, axis, step, reverse, mode="FILL", fill=_scalar(a, 1.0)))
    return b


def _steps(length: SizeLike) -> list[int]:
    """The powers of two below the greatest length."""
    longest = _longest(length)
    return [1 << k for k in range((longest - 1).bit_length())] if longest > 1 else []


def _longest(length: SizeLike) -> int:
    longest = bounds(length)[1]
    if longest >= INFINITY:
        raise UnsupportedError(
            f"the length {length} has no upper bound, which says how many passes are needed: "
            "give the Dim a max, or use lowering='loop'"
        )
    return longest


def _shifted(x: Tensor, axis: int, step: int, reverse: bool, **mode: Any) -> Tensor:
    start = [(step if reverse else -step) if other == axis else 0 for other in range(x.ndim)]
    return L.slice(x, start, x.shape, **mode)


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

    >>> net = td.Network()
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
    lowering = lowering_of("associative_scan", lowering, *tensors)
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

    compute = _scan_in_a_loop if lowering == "loop" else _scan_by_doubling
    results = compute(combine, tensors, axes, reverse)
    return results[0] if single else type(xs)(results)


Combine = Callable[[Sequence[Tensor], Sequence[Tensor]], list[Tensor]]


def _scan_by_doubling(combine: Combine, xs: list[Tensor], axes: list[int], reverse: bool) -> list[Tensor]:
    length = xs[0].shape[axes[0]]
    steps = _steps(length)
    if not steps:
        return xs
    with xs[0].network.current():
        place = arange(length, dtype=torch.int32)
    if reverse:
        place = L.slice(place, (length - 1,), (length,), (-1,))
    for step in steps:
        # Elements before the first one are not combined; the edge stands in for them until then.
        earlier = [_shifted(x, axis, step, reverse, mode="CLAMP") for x, axis in zip(xs, axes, strict=True)]
        inside = binary(place, step, "LESS", torch.int32)
        combined = combine(earlier, xs)
        xs = [
            L.select(_along(inside, x.ndim, axis), x, other) for x, axis, other in zip(xs, axes, combined, strict=True)
        ]
    return xs


def _along(x: Tensor, ndim: int, axis: int) -> Tensor:
    """A vector as the dimension ``axis`` of ``ndim``."""
    return L.unsqueeze(x, [other for other in range(ndim) if other != axis])


def _scan_in_a_loop(combine: Combine, xs: list[Tensor], axes: list[int], reverse: bool) -> list[Tensor]:
    network, length = xs[0].network, xs[0].shape[axes[0]]
    loop = L.Loop(network)
    loop.count(length)
    later = [loop.iterator(x, axis, reverse) for x, axis in zip(xs, axes, strict=True)]
    first = loop.recurrence(network.constant(True))
    loop.next(first, L.identity(network.constant(False)))
    before = [loop.recurrence(filled(network, x.shape, 0, x.dtype)) for x in later]
    after = [
        L.select(*align([first, x, other])) if x.ndim else L.select(first, x, other)
        for x, other in zip(later, combine(before, later), strict=True)
    ]
    for earlier, value in zip(before, after, strict=True):
        loop.next(earlier, value)
    return [loop.concatenate(value, length, axis, reverse) for value, axis in zip(after, axes, strict=True)]


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

    ``lowering="parallel"`` computes h for all t at once, as :func:`linear_recurrence`, in values of (batch, dim,
    length, state); ``"loop"`` is an ILoop that holds one h; ``"chunked"`` an ILoop over chunks of 64 steps, each of
    which is computed as a whole from the last h of the one before. All use :func:`einsum`. ``"auto"`` is "chunked"
    where the length may be greater than 256, otherwise "parallel".

    Raises ShapeError naming the label whose sizes disagree, UnsupportedError as :func:`linear_recurrence`.

    >>> net = td.Network()
    >>> T = td.Dim("T", min=1, max=64)
    >>> u, delta = net.input("u", ("N", 8, T)), net.input("delta", ("N", 8, T))
    >>> b, c = net.input("b", ("N", 4, T)), net.input("c", ("N", 4, T))
    >>> F.selective_scan(u, delta, net.constant(-torch.ones(8, 4)), b, c, delta_softplus=True).shape
    (N, 8, T)
    """
    if u.ndim != 3 or A.ndim != 2:
        raise ShapeError(
            "selective_scan takes u of (batch, dim, length) and A of (dim, state), "
            f"not {shape_text(u.shape)} and {shape_text(A.shape)}"
        )
    best = "chunked" if bounds(u.shape[2])[1] > AT_ONCE else "parallel"
    lowering = lowering_of("selective_scan", lowering, u, delta, A, B, C, default=best)
    dtype = u.dtype
    u, delta, A, B, C = (L.cast(x, torch.float32) for x in (u, delta, A, B, C))
    if delta_bias is not None:
        delta = add(delta, L.unsqueeze(L.cast(delta_bias, torch.float32), [1]))
    if delta_softplus:
        delta = softplus(delta)
    y, last = SELECTIVE[lowering](u, delta, A, _Projection("B", B), _Projection("C", C), return_last_state)
    if D is not None:
        y = add(y, mul(u, L.unsqueeze(L.cast(D, torch.float32), [1])))
    if z is not None:
        y = mul(y, silu(L.cast(z, torch.float32)))
    y = L.cast(y, dtype)
    return (y, last) if return_last_state else y


class _Projection:
    """B or C: fixed (d n), by time (b n l), or by time and group of channels (b g n l)."""

    def __init__(self, name: str, value: Tensor):
        if value.ndim not in (2, 3, 4):
            raise ShapeError(f"{name} has 2, 3 or 4 dimensions, not {shape_text(value.shape)}")
        self.value = value
        self.varies = value.ndim > 2
        self.groups = value.shape[1] if value.ndim == 4 else None

    def at(self, loop: L.Loop) -> _Projection:
        """The same at the loop's iteration."""
        here = object.__new__(_Projection)
        here.__dict__.update(self.__dict__)
        here.value = loop.iterator(self.value, self.value.ndim - 1) if self.varies else self.value
        return here

    def chunk(self, loop: L.Loop) -> _Projection:
        """The same for the loop's chunk of time."""
        here = object.__new__(_Projection)
        here.__dict__.update(self.__dict__)
        here.value = _chunk(loop, self.value) if self.varies else self.value
        return here

    def spread(self, x: Tensor, time: str) -> Tensor:
        """``x`` (b d, and l) times the projection: with n at the end."""
        if self.groups is None:
            own = f"bn{time}" if self.varies else "dn"
            return einsum(f"bd{time},{own}->bd{time}n", x, self.value)
        result = einsum(f"bgh{time},bgn{time}->bgh{time}n", self._grouped(x), self.value)
        return reshape(result, (*x.shape, result.shape[-1]))

    def gathered(self, h: Tensor, time: str) -> Tensor:
        """``h`` (b d, perhaps l, n) times the projection, summed over n."""
        if self.groups is None:
            own = f"bn{time}" if self.varies else "dn"
            return einsum(f"bd{time}n,{own}->bd{time}", h, self.value)
        result = einsum(f"bgh{time}n,bgn{time}->bgh{time}", self._grouped(h), self.value)
        return reshape(result, h.shape[:-1])

    def _grouped(self, x: Tensor) -> Tensor:
        assert self.groups is not None
        channels = x.shape[1]
        if isinstance(channels, int) and isinstance(self.groups, int) and channels % self.groups:
            raise ShapeError(f"{channels} channels do not divide into {self.groups} groups")
        return reshape(x, (x.shape[0], self.groups, channels // self.groups, *x.shape[2:]))


def _selective_parallel(
    u: Tensor, delta: Tensor, A: Tensor, B: _Projection, C: _Projection, return_last_state: bool
) -> tuple[Tensor, Tensor | None]:
    decay = exp(einsum("bdl,dn->bdln", delta, A))
    h = linear_recurrence(decay, B.spread(mul(delta, u), "l"), 2)
    last = None
    if return_last_state:
        start = (0, 0, u.shape[2] - 1, 0)
        last = L.squeeze(L.slice(h, start, (*h.shape[:2], 1, h.shape[3])), [2])
    return C.gathered(h, "l"), last


def _selective_loop(
    u: Tensor, delta: Tensor, A: Tensor, B: _Projection, C: _Projection, return_last_state: bool
) -> tuple[Tensor, Tensor | None]:
    length = u.shape[2]
    loop = L.Loop(u.network)
    loop.count(length)
    step, driven = loop.iterator(delta, 2), loop.iterator(mul(delta, u), 2)
    before = loop.recurrence(filled(u.network, (*u.shape[:2], A.shape[1]), 0, u.dtype))
    after = add(mul(exp(einsum("bd,dn->bdn", step, A)), before), B.at(loop).spread(driven, ""))
    loop.next(before, after)
    y = loop.concatenate(C.at(loop).gathered(after, ""), length, 2)
    return y, loop.last_value(before) if return_last_state else None


def _selective_chunks(
    u: Tensor, delta: Tensor, A: Tensor, B: _Projection, C: _Projection, return_last_state: bool
) -> tuple[Tensor, Tensor | None]:
    """A step that is added at the end, with delta 0, leaves h as it is: exp(0) h + 0."""
    length = u.shape[2]
    loop = L.Loop(u.network)
    count = (length + (CHUNK - 1)) // CHUNK
    loop.count(count)
    step, driven = _chunk(loop, delta), _chunk(loop, mul(delta, u))
    state = loop.recurrence(filled(u.network, (*u.shape[:2], A.shape[1]), 0, u.dtype))
    h = linear_recurrence(exp(einsum("bdl,dn->bdln", step, A)), B.chunk(loop).spread(driven, "l"), 2, state)
    end = L.slice(h, (0, 0, CHUNK - 1, 0), (*h.shape[:2], 1, h.shape[3]))
    loop.next(state, L.squeeze(end, [2]))
    y = loop.concatenate(C.chunk(loop).gathered(h, "l"), count, 2)
    y = L.shuffle(y, reshape=(*u.shape[:2], count * CHUNK))
    return L.slice(y, (0, 0, 0), u.shape), loop.last_value(state) if return_last_state else None


def _chunk(loop: L.Loop, x: Tensor) -> Tensor:
    """The loop's chunk of the last dimension, which zeros make a multiple of its size."""
    length, lead = x.shape[-1], x.shape[:-1]
    count = (length + (CHUNK - 1)) // CHUNK
    padded = L.slice(x, (0,) * x.ndim, (*lead, count * CHUNK), mode="FILL", fill=_scalar(x, 0.0))
    chunks = L.shuffle(padded, reshape=(*lead, count, CHUNK))
    return loop.iterator(chunks, x.ndim - 1)


SELECTIVE = {"parallel": _selective_parallel, "loop": _selective_loop, "chunked": _selective_chunks}
