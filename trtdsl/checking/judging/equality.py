"""What counts as equal: one output of a network beside torch's own results, slice by slice."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ...core.dtypes import dtype_name
from ...core.lazy import np, torch
from .noise import OUTLIER, Noise


@dataclass(frozen=True)
class Tolerance:
    """How far a slice of an output may be from the truth: a multiple of torch's own error and a part of the slice.

    A slice passes when the root mean square of its errors is at most ``rms`` times torch's own plus ``floor`` times the
    root mean square of the slice, and its worst element at most ``worst`` times torch's own worst plus
    ``WORST_FLOOR * floor`` times the slice's greatest element. ``floor`` None is that of the dtype (:data:`FLOORS`).

    >>> Tolerance(floor=1e-3).relaxed("float32")
    True
    """

    rms: float = 3.0
    worst: float = 6.0
    floor: float | None = None

    def floor_of(self, dtype: str) -> float:
        """The part of a slice that is always allowed."""
        return FLOORS.get(dtype, 0.0) if self.floor is None else self.floor

    def relaxed(self, dtype: str) -> bool:
        """Whether it allows more than the default."""
        return self.rms > 3.0 or self.worst > 6.0 or self.floor_of(dtype) > FLOORS.get(dtype, 0.0)


# About one unit in the last place of what is computed in float32, and half of one in the half precisions, where torch's
# own error is never nothing.
FLOORS = {"float64": 1e-15, "float32": 2e-7, "float16": 4e-4, "bfloat16": 3e-3, "float8_e4m3fn": 0.05}
TINY = {"float16": 6e-8}  # its least number: smaller ones underflow in one implementation or another
WORST_FLOOR = 4.0
UNLIKE = 0.5  # the part of integers or bools that may be like none of torch's results, however uncertain these are
PLAIN = Tolerance(floor=1e-5)
"""Of two results of which nobody knows the truth."""

# A small slice has few errors to measure torch's own by: (elements, factor on the tolerance's factors).
FEW = ((16, 1.0), (8, 3.0), (4, 10.0))


@dataclass(frozen=True)
class OutputComparison:
    """One output beside its reference."""

    name: str
    passed: bool
    dtype: str
    shape: tuple[int, ...]
    problem: str | None = None
    """What differs before any value does: dtype, rank or shape."""
    max_abs: float = 0.0
    max_rel: float = 0.0
    scale: float = 0.0
    """The greatest absolute value of the reference."""
    cosine: float = 1.0
    snr_db: float | None = None
    """Signal to noise in decibels; None when there is no noise."""
    wrong: int = 0
    """Elements out of tolerance."""
    elements: int = 0
    worst_index: tuple[int, ...] | None = None
    worst_value: float | None = None
    worst_expected: float | None = None
    part: str | None = None
    """The slice that is furthest from what it may be."""
    ratio: float = 0.0
    """Its error over what is allowed of it; above 1 it differs."""
    own_abs: float = 0.0
    """The worst error of torch's own result, where it was measured."""
    own_part: float = 0.0
    """The root mean square of torch's own errors, as a part of that of the output."""
    truth: str = "torch"
    """What was judged by: ``torch`` (its own result, which was near enough), ``smaller`` (the same, with the error that
    torch had at smaller sizes), ``start`` (with its error for the first samples), ``float64``, or ``perturbed``
    (float64, and torch's own error measured several times).
    """


def describe(output: OutputComparison) -> str:
    """An output's failure in one line."""
    if output.problem:
        return output.problem
    where = f" (the worst slice is {output.part}: {output.ratio:.3g} times what is allowed)" if output.part else ""
    at = f"the worst at {output.worst_index}: " if output.worst_index is not None else ""
    return (
        f"{output.wrong} of {output.elements} elements are out of tolerance, {at}"
        f"{output.worst_value:.9g} instead of {output.worst_expected:.9g}{where}"
    )


def judge(
    name: str,
    got: torch.Tensor,
    own: torch.Tensor,
    truth: torch.Tensor | None = None,
    others: Sequence[torch.Tensor] = (),
    *,
    known: Noise | None = None,
    tolerance: Tolerance | None = None,
    precision: torch.dtype | None = None,
) -> OutputComparison:
    """Compares one output of a network with ``own``, torch's result in the same precision.

    ``truth`` is the reference's result in float64; without it, ``own`` is the truth. ``others`` are torch's results for
    feeds and weights moved by half a unit in their last place: further measures of torch's own error. ``known`` is
    torch's own error at smaller sizes, where there is no ``truth``. ``precision`` is the dtype that the network
    computes in, where it is not the output's.

    NaN and infinities, and extreme values that repeat (masks), must be exactly torch's. Integers and bool must be the
    truth's or one of torch's, except for at most ``tolerance.rms`` times as many elements as are wrong in torch's own
    result, and at most half of all.
    """
    dtype, shape = dtype_name(got.dtype), tuple(got.shape)
    if got.dtype != own.dtype:
        return OutputComparison(name, False, dtype, shape, f"dtype {dtype}, the reference has {dtype_name(own.dtype)}")
    if got.shape != own.shape:
        return OutputComparison(name, False, dtype, shape, f"shape {shape}, the reference has {tuple(own.shape)}")
    got, own = got.detach(), own.detach()
    source = "perturbed" if others else "float64" if truth is not None else "smaller" if known else "torch"
    if got.numel() == 0:
        return OutputComparison(name, True, dtype, shape)
    tolerance = tolerance or Tolerance()
    if not got.is_floating_point():
        return _judge_exactly(name, got, own, truth, others, tolerance, source)
    working = dtype if precision is None else dtype_name(precision)
    verdict = _Verdict(got, own, truth, others, tolerance, tolerance.floor_of(working), known, TINY.get(working, 0.0))
    return verdict.comparison(name, source)


def compare(
    name: str, got: torch.Tensor, expected: torch.Tensor, tolerance: Tolerance | None = None
) -> OutputComparison:
    """Compares two results where the truth is not known: :func:`judge` with a floor of 1e-5.

    >>> compare("y", torch.tensor([1.0, 2.0]), torch.tensor([1.0, 2.1])).wrong
    1
    """
    if tolerance is None:
        tolerance = Tolerance(floor=max(PLAIN.floor_of("float32"), 4 * FLOORS.get(dtype_name(got.dtype), 0.0)))
    return judge(name, got, expected, tolerance=tolerance)


# -- integers and bool -------------------------------------------------------------------------------------------------


def _judge_exactly(
    name: str,
    got: torch.Tensor,
    own: torch.Tensor,
    truth: torch.Tensor | None,
    others: Sequence[torch.Tensor],
    tolerance: Tolerance,
    source: str,
) -> OutputComparison:
    right = got == own
    allowed = 0.0
    if truth is not None or others:
        true = (own if truth is None else truth).to(own.dtype)
        results = [own, *(other for other in others if other.shape == own.shape)]
        allowed = tolerance.rms * max(int((result != true).sum()) for result in results)
        allowed = min(allowed, UNLIKE * got.numel())
        for result in (true, *results):
            right |= got == result
    wrong = ~right
    count = int(wrong.sum())
    error = (got.double() - own.double()).abs()
    worst = int((error * wrong).flatten().argmax()) if count else int(error.flatten().argmax())
    return OutputComparison(
        name,
        count <= allowed,
        dtype_name(got.dtype),
        tuple(got.shape),
        max_abs=float(error.max()),
        scale=float(own.double().abs().max()),
        snr_db=None if not float(error.max()) else _decibels(own.double().square().sum(), error.square().sum()),
        wrong=count,
        elements=got.numel(),
        worst_index=_index(worst, got),
        worst_value=float(got.flatten()[worst]),
        worst_expected=float(own.flatten()[worst]),
        ratio=count / allowed if allowed else math.inf if count else 0.0,
        truth=source,
    )


# -- floats ------------------------------------------------------------------------------------------------------------


@dataclass
class _Sums:
    """For every slice of one kind: the number of elements that count, and sums and maxima of squares."""

    count: torch.Tensor
    error: torch.Tensor
    own: torch.Tensor
    size: torch.Tensor
    worst_error: torch.Tensor
    worst_own: torch.Tensor
    worst_size: torch.Tensor

    def __iter__(self) -> Iterator[torch.Tensor]:
        return iter(vars(self).values())

    def expect_typical(self) -> None:
        """Raises torch's own error in each slice to the typical one, as a part of the slice.

        Where all errors of a slice have one cause, such as its mean, torch's may be small by chance.
        """
        there = (self.count > 0) & (self.size > 0)
        if bool(there.any()):
            typical = float((self.own[there] / self.size[there]).median())
            self.own = torch.maximum(self.own, typical * self.size)
            self.worst_own = torch.maximum(self.worst_own, (typical * self.size / self.count.clamp(min=1)).sqrt())


@dataclass
class _Verdict:
    """The judgement of one floating-point output."""

    got: torch.Tensor
    own: torch.Tensor
    truth: torch.Tensor | None
    others: Sequence[torch.Tensor]
    tolerance: Tolerance
    floor: float
    known: Noise | None
    tiny: float

    def comparison(self, name: str, source: str) -> OutputComparison:
        """The judgement, with what is worst."""
        expected = self.own if self.truth is None else self.truth
        a, o, b = self.got.double(), self.own.double(), expected.double()
        limit = torch.finfo(self.own.dtype).max
        exact, right = self._exact(a, o, b, limit)
        b = torch.where(exact, 0.0, b)
        error = torch.where(exact, 0.0, (a - b).abs())  # what is not finite here counts as infinitely far
        error = torch.where(torch.isfinite(error), error, math.inf)
        noise = self._noise(o, b, exact)
        size = b.abs()
        part, ratio, allowed = self._slices(error, noise, size, ~exact)
        wrong = (exact & ~right) | (error > allowed)
        count = int(wrong.sum())
        passed = not bool((exact & ~right).any()) and ratio <= 1
        if bool((exact & ~right).any()):
            error = torch.where(exact & ~right, math.inf, error)
        worst = int((error / allowed.clamp(min=1e-300)).flatten().argmax()) if not passed else int(error.argmax())
        if not passed and not count:
            count = 1
        return self._described(name, source, passed, error, size, noise[1], (worst, count), part, ratio)

    def _exact(
        self, a: torch.Tensor, o: torch.Tensor, b: torch.Tensor, limit: float
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """The elements that are compared exactly, and those of them that have the right value."""
        exact = ~torch.isfinite(o) | ~torch.isfinite(b) | (b.abs() > limit)
        rounded = b.to(self.own.dtype).double()
        right = (a == o) | (torch.isnan(a) & (torch.isnan(o) | torch.isnan(b))) | (a == rounded)
        for extreme in (o.where(~exact, torch.zeros(())).amin(), o.where(~exact, torch.zeros(())).amax()):
            if abs(float(extreme)) >= 1e4:
                there = o == extreme
                if int(there.sum()) > 1 and bool((b[there] == extreme).all()):
                    exact = exact | there
        # where only torch's own result overflowed, and the truth is finite, the network may have either
        own_only = ~torch.isfinite(o) & torch.isfinite(b) & (b.abs() <= limit) & ~right
        return exact & ~own_only, right

    def _noise(self, o: torch.Tensor, b: torch.Tensor, exact: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Torch's own error at each element: the root mean square and the greatest of its results."""
        if self.known is not None:
            counts = ordinary(b.abs(), ~exact)
            noise = self.known.at(b, counts)
            noise = torch.zeros_like(b) if noise is None else torch.where(counts, noise, 0.0)
            return noise, noise
        squares, greatest, count = torch.zeros_like(b), torch.zeros_like(b), 0
        for result in (o, *(other.double() for other in self.others if other.shape == b.shape)):
            own = (result - b).abs()
            own = torch.where(exact | ~torch.isfinite(own), 0.0, own)
            greatest = torch.maximum(greatest, own)
            squares += own.square_()
            count += self.truth is not None or result is not o  # without a truth, torch's own result is it
        return (squares / max(count, 1)).sqrt_(), greatest

    def _slices(
        self, error: torch.Tensor, noise: tuple[torch.Tensor, torch.Tensor], size: torch.Tensor, counts: torch.Tensor
    ) -> tuple[str | None, float, torch.Tensor]:
        """The slice that exceeds its allowed error most, by how much, and the allowed error of each element."""
        allowed = torch.full_like(error, math.inf)
        worst: tuple[str | None, float] = (None, 0.0)
        for text, mask in _groups(size, counts):
            for label, kept in _kinds(error.ndim):
                sums = _sums(error, noise, size, mask, kept)
                if self.others:
                    sums.expect_typical()
                ratio, limit = self._ratio(sums, label == "the whole")
                top = float(ratio.max())
                if top > worst[1]:
                    place = _place_of(int(ratio.argmax()), ratio.shape)
                    worst = (f"{label}{_place(place, kept)}{text}", top)
                allowed = torch.where(mask, torch.minimum(allowed, limit), allowed)
        return worst[0], worst[1], allowed

    def _ratio(self, sums: _Sums, whole: bool) -> tuple[torch.Tensor, torch.Tensor]:
        """Error over allowed error, for every slice, and the allowed error of an element there."""
        count, error, own, size, worst_error, worst_own, worst_size = sums
        few = torch.full_like(count, 1.0 if whole else math.inf)
        for least, factor in reversed(FEW):
            few = torch.where(count >= least, factor, few)
        number = count.clamp(min=1)
        rms = (error / number).sqrt()
        allowed_rms = few * self.tolerance.rms * (own / number).sqrt() + self.floor * (size / number).sqrt() + self.tiny
        limit = few * self.tolerance.worst * worst_own + WORST_FLOOR * self.floor * worst_size + self.tiny
        if self.others:  # one element may have the whole error of its slice, and is judged as the worst
            rms = ((error - worst_error.square()).clamp(min=0) / number).sqrt()
        ratios = torch.maximum(_over(rms, allowed_rms), _over(worst_error, limit))
        judged = (count > 0) & torch.isfinite(few)
        return torch.where(judged, ratios, 0.0), torch.where(judged, limit, math.inf)

    def _described(
        self,
        name: str,
        source: str,
        passed: bool,
        error: torch.Tensor,
        size: torch.Tensor,
        noise: torch.Tensor,
        worst: tuple[int, int],
        part: str | None,
        ratio: float,
    ) -> OutputComparison:
        index, wrong = worst
        expected = self.own if self.truth is None else self.truth
        a, b = self.got.double().flatten(), expected.double().flatten()
        finite = torch.isfinite(a) & torch.isfinite(b)
        a0, b0 = torch.where(finite, a, 0.0), torch.where(finite, b, 0.0)
        norms = float(a0.norm() * b0.norm())
        flat, sizes = error.flatten(), size.flatten()
        return OutputComparison(
            name,
            passed,
            dtype_name(self.got.dtype),
            tuple(self.got.shape),
            max_abs=float(error.max()),
            max_rel=float((flat / sizes.clamp(min=1e-30)).where(sizes > 0, torch.zeros(())).max()),
            scale=float(size.max()),
            cosine=float(a0 @ b0) / norms if norms else 1.0,
            snr_db=_decibels(b0.square().sum(), flat.square().sum()),
            wrong=0 if passed else wrong,
            elements=self.got.numel(),
            worst_index=_index(index, self.got),
            worst_value=float(a[index]),
            worst_expected=float(b[index]),
            part=part if ratio > 0 else None,
            ratio=ratio if not math.isnan(ratio) else math.inf,
            own_abs=float(noise.max()),
            own_part=float(noise.norm() / size.norm()) if float(size.norm()) else 0.0,
            truth=source,
        )


def _kinds(ndim: int) -> list[tuple[str, tuple[int, ...]]]:
    """The kinds of slices of an output: a label, and the axes that are kept."""
    kinds: dict[tuple[int, ...], str] = {(): "the whole"}
    for label, axes in (
        ("sample", (0,)),
        ("channel", (1,)),
        ("last axis", (ndim - 1,)),
        ("sample and channel", (0, 1)),
    ):
        if all(0 <= axis < ndim for axis in axes) and len(axes) < ndim:
            kinds.setdefault(axes, label)
    return [(label, axes) for axes, label in kinds.items()]


def _sums(
    error: torch.Tensor,
    noise: tuple[torch.Tensor, torch.Tensor],
    size: torch.Tensor,
    mask: torch.Tensor,
    kept: tuple[int, ...],
) -> _Sums:
    """The sums of all slices along the axes ``kept``, each as wide as one slice there (the others have size 1)."""
    over = tuple(axis for axis in range(error.ndim) if axis not in kept)

    def total(values: torch.Tensor) -> torch.Tensor:
        return values.sum(over, keepdim=True) if over else values

    def greatest(values: torch.Tensor) -> torch.Tensor:
        return values.amax(over, keepdim=True) if over else values

    error, squares, worst, size = (torch.where(mask, values, 0.0) for values in (error, *noise, size))
    sums = (total(part.square()) for part in (error, squares, size))
    return _Sums(total(mask.double()), *sums, *(greatest(part) for part in (error, worst, size)))


def ordinary(size: torch.Tensor, counts: torch.Tensor) -> torch.Tensor:
    """Those elements of ``counts`` that are not much greater than most of them."""
    nonzero = size[counts & (size > 0)]
    return counts & (size <= OUTLIER * float(nonzero.median())) if nonzero.numel() else counts


def _groups(size: torch.Tensor, counts: torch.Tensor) -> Iterator[tuple[str, torch.Tensor]]:
    """The elements that are judged together: the ordinary ones, and those much greater than these, by themselves.

    A channel, or a place on the last axis, belongs where most of it does: a sum of great terms that cancel is small by
    chance, and has the error of its terms.
    """
    text = ""
    while bool(counts.any()):
        mask = ordinary(size, counts)
        great = counts & ~mask
        for axis in {1, size.ndim - 1} if size.ndim > 1 and bool(great.any()) else ():
            over = [other for other in range(size.ndim) if other != axis]
            mask = mask & ~(2 * great.sum(over, keepdim=True) > counts.sum(over, keepdim=True))
        mask = mask if bool(mask.any()) else counts
        yield text, mask
        counts, text = counts & ~mask, " of what is much greater than the rest"


def _over(value: torch.Tensor, allowed: torch.Tensor) -> torch.Tensor:
    """Value over allowed, where 0 over 0 is 0."""
    return torch.where(value == 0, 0.0, value / allowed)


def _place(place: tuple[int, ...], kept: tuple[int, ...]) -> str:
    return "".join(f" {place[axis]}" if axis == kept[0] else f", {place[axis]}" for axis in kept)


def _index(flat: int, tensor: torch.Tensor) -> tuple[int, ...]:
    return _place_of(flat, tensor.shape)


def _place_of(flat: int, shape: Sequence[int]) -> tuple[int, ...]:
    """The indices of an element. torch.unravel_index imports sympy for it, which takes a second."""
    return tuple(int(i) for i in np.unravel_index(flat, tuple(shape)))


def _decibels(signal: torch.Tensor, noise: torch.Tensor) -> float | None:
    s, n = float(signal), float(noise)
    return 10 * math.log10(s / n) if n and s and math.isfinite(n) and math.isfinite(s) else None
