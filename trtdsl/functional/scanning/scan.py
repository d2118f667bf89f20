"""Recurrences along a dimension: in a loop, or in about log2(length) passes over the whole of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from ..common import DefinitionError, L, ShapeError, Tensor, UnsupportedError, broadcast, lowered, operation, torch, way
from ..operands import align, along, axis_of, binary, doubled, on_axis, promote, stretch
from ..pointwise.elementary import exp
from ..shaping.create import counted, filled

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

    >>> T = td.Dim("T", min=1, max=100)
    >>> F.linear_recurrence(net.input("a", (2, T, 3)), net.input("b", (2, T, 3)), 1).shape
    (2, T, 3)
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


@way("linear_recurrence", "parallel", PASSES)
def _in_passes(a: Tensor, b: Tensor, axis: int, initial: Tensor | None, reverse: bool) -> Tensor:
    return passes(Factors(a), b, axis, initial, reverse)


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
        combined = combine(earlier, xs)
        xs = [
            L.select(on_axis(inside, axis, x.ndim), x, other) for x, axis, other in zip(xs, axes, combined, strict=True)
        ]
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
