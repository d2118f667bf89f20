"""What counts as equal: what an output means, in exact arithmetic, and how well it is computed in its precision."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from ...core.dtypes import dtype_name
from ...core.lazy import np, torch
from ...interpreter.replay import same
from . import limits


@dataclass(frozen=True)
class Tolerance:
    """How far an output may be from the exact result: a multiple of torch's own error, and a part of each row.

    A row is what lies along the last axis. Its root mean square error may be ``times`` torch's own plus ``floor`` of
    the row; ``floor`` None is that of the dtype (``limits.FLOORS``). A floor that is given also says how far the
    meaning may be off: without one, that is a billionth.

    >>> Tolerance(floor=1e-3).relaxed("float32")
    True
    """

    times: float = 100.0
    floor: float | None = None

    def floor_of(self, dtype: str) -> float:
        """The part of a row that is always allowed."""
        return limits.FLOORS.get(dtype, 0.0) if self.floor is None else self.floor

    def relaxed(self, dtype: str) -> bool:
        """Whether it allows more than the default."""
        return self.times > 100.0 or (self.floor is not None and self.floor > limits.LIMIT)


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
    ratio: float = 0.0
    """The worst error over what is allowed; above 1 it differs."""
    own_abs: float = 0.0
    """The worst error of torch's own result."""
    truth: str = "torch"
    """What was compared: ``meaning`` (both sides in exact arithmetic) and quality, ``meaning alone``, ``quality`` or a
    precision's ``budget`` alone, against the exact result, or ``torch``, where that is not known.
    """
    meaning: float | None = None
    """The greatest difference of an element in exact arithmetic, as a part of it and of the typical one."""


def describe(output: OutputComparison) -> str:
    """An output's failure in one line."""
    if output.problem:
        return output.problem
    if output.truth == "budget" and output.snr_db is not None:
        return f"its SQNR is {output.snr_db:.1f} dB, {20 * math.log10(output.ratio):.2g} below its precision's budget"
    what = "in exact arithmetic, " if output.truth.startswith("meaning") else ""
    at = f"the worst at {output.worst_index}: " if output.worst_index is not None else ""
    return (
        f"{what}{output.wrong} of {output.elements} elements are out of tolerance, {at}"
        f"{output.worst_value:.9g} instead of {output.worst_expected:.9g} ({output.ratio:.3g} times what is allowed)"
    )


# -- meaning -----------------------------------------------------------------------------------------------------------


def allowed(expected: torch.Tensor, limit: float, given: float | None) -> torch.Tensor:
    """How far each element may be off in exact arithmetic; ``given`` is a floor of the author's."""
    size = expected.abs()
    typical = _typical(size)
    size = torch.where(torch.isfinite(size), size, 0.0)
    least = limits.LEAST if limit < limits.ROUNDED else 1.0  # what is rounded is so by what it is among
    room = limit * (size + least * typical)
    return room if given is None else torch.maximum(room, given * (size + typical))


def _typical(size: torch.Tensor) -> torch.Tensor:
    """The size that the elements have among which each is: all, its sample, and so on to its row; the greatest of them.

    What cancels is as far off as what it is among, and rows may be of very different sizes.
    """
    if not size.numel():
        return size
    known = torch.where(torch.isfinite(size) & (size > 0), size, math.nan)
    among = [known.reshape(*size.shape[:axis], -1).nanmedian(-1).values for axis in range(max(size.ndim, 1))]
    found = [
        each.reshape((*each.shape, *[1] * (size.ndim - each.ndim))).nan_to_num(0.0).clamp(max=1e30) for each in among
    ]
    return functools.reduce(torch.maximum, found)


def excess(got: torch.Tensor, expected: torch.Tensor, room: torch.Tensor) -> torch.Tensor:
    """How far each element is from what is expected, over what is allowed."""
    same = (got == expected) | (torch.isnan(got) & torch.isnan(expected))
    error = (got - expected).abs()
    error = torch.where(torch.isfinite(error), error, math.inf)
    over = torch.where(torch.isinf(room), 0.0, error / room.nan_to_num(0.0).clamp(min=1e-300))
    return torch.where(same, 0.0, over)


def deviation(expected: torch.Tensor, moved: Sequence[torch.Tensor]) -> torch.Tensor:
    """How far noise moves each element: the most that was seen of it, and no less than of most in its row.

    Noise that makes NaN of a number says nothing of how far it moves that: what excuses it is another run of noise.
    """
    room = torch.zeros_like(expected)
    for other in moved:
        if other.shape != expected.shape:
            return torch.full_like(expected, math.inf)
        away = torch.where((other == expected) | torch.isnan(other), 0.0, (other - expected).abs())
        room = torch.maximum(room, away.nan_to_num(math.inf))
    return torch.maximum(room, room.median(-1, keepdim=True).values) if room.numel() and room.ndim else room


def alike(a: torch.Tensor, b: torch.Tensor, part: float) -> bool:
    """Whether two results have one dtype, one shape, and elements that differ by a part of them and of the greatest.

    >>> alike(torch.tensor([1.0, 2.0]), torch.tensor([1.0, 2.1]), 1e-3)
    False
    """
    if a.dtype != b.dtype or a.shape != b.shape or not a.is_floating_point():
        return same(a, b)
    greatest = float(b.nan_to_num(0.0, 0.0, 0.0).abs().max()) if b.numel() else 0.0
    return torch.allclose(a.double(), b.double(), rtol=part, atol=part * greatest, equal_nan=True)


# -- quality -----------------------------------------------------------------------------------------------------------


def judge(
    name: str,
    got: torch.Tensor,
    own: torch.Tensor,
    truth: torch.Tensor | None = None,
    *,
    tolerance: Tolerance | None = None,
    precision: torch.dtype | None = None,
) -> OutputComparison:
    """Compares one output of a network with ``own``, torch's result in the same precision, and the exact ``truth``.

    ``precision`` is the dtype that the network computes in, where it is not the output's. Without a truth, ``own`` is
    it. Refused are values that are not finite where torch's are, rows whose error is more than a tolerance allows, and
    integers and bool that differ from the truth in more places than three times torch's own.

    >>> judge("y", torch.tensor([1.0, 2.0]), torch.tensor([1.0, 2.1])).passed
    False
    """
    dtype, shape = dtype_name(got.dtype), tuple(got.shape)
    if got.dtype != own.dtype:
        return OutputComparison(name, False, dtype, shape, f"dtype {dtype}, the reference has {dtype_name(own.dtype)}")
    if got.shape != own.shape:
        return OutputComparison(name, False, dtype, shape, f"shape {shape}, the reference has {tuple(own.shape)}")
    if got.numel() == 0:
        return OutputComparison(name, True, dtype, shape)
    got, own = got.detach(), own.detach()
    tolerance = tolerance or Tolerance()
    true = own.double() if truth is None or truth.shape != own.shape else truth.detach().double()
    source = "torch" if truth is None else "quality"
    if not got.is_floating_point():
        differs = got.double() != true
        most = 3 * int((own.double() != true).sum()) + (limits.FLIPPED * got.numel() if precision is not None else 0)
        over = int(differs.sum()) / most if most else math.inf
        return described(name, got, own, true, torch.where(differs, over, 0.0), source)
    working = dtype if precision is None else dtype_name(precision)
    among = 0.1 if truth is None else 0.0
    over = _rows(got.double(), own.double(), true, tolerance, working, among)
    limit = torch.finfo(own.dtype).max
    finite = torch.isfinite(own) & (true.abs() <= limit)
    wrong = torch.where(finite & ~torch.isfinite(got), math.inf, over)
    special = ~torch.isfinite(true) & ~torch.isfinite(own)
    same = (got == own) | (torch.isnan(got) & torch.isnan(own)) | (got.double() == true) | (got.isnan() & true.isnan())
    wrong = torch.where(special & ~same, math.inf, wrong)
    return described(name, got, own, true, wrong, source)


def _rows(
    got: torch.Tensor, own: torch.Tensor, true: torch.Tensor, tolerance: Tolerance, working: str, among: float
) -> torch.Tensor:
    """The error of each row over what is allowed of it, at each of its elements.

    ``among`` is the part of the whole output that a row counts as at least, where torch's own error is not known.
    """
    plain = torch.isfinite(got) & torch.isfinite(own) & torch.isfinite(true)
    extreme = plain & (true.abs() >= 1e4) & (got == own)  # masks
    counts = plain & ~extreme

    def rms(values: torch.Tensor) -> torch.Tensor:
        values = torch.where(counts, values, 0.0)
        number = counts.double().sum(-1, keepdim=True) if values.ndim else counts.double()
        total = values.square().sum(-1, keepdim=True) if values.ndim else values.square()
        return (total / number.clamp(min=1)).sqrt()

    error, noise, size = rms(got - true), rms(own - true), rms(true)
    tiny = 6e-6 if working == "float16" else 0.0  # what underflows there
    there = size > max(tiny, torch.finfo(torch.float32).tiny)
    typical = float((noise[there] / size[there]).median()) if bool(there.any()) else 0.0
    eps = torch.finfo(getattr(torch, working)).eps if working in limits.FLOORS else 0.0
    whole = float(size.square().mean().sqrt())
    size = size.clamp(min=among * whole)
    part = tolerance.floor_of(working) + limits.TYPICAL * typical
    room = tolerance.times * noise + part * size + eps * whole + tiny
    return torch.where(error == 0, 0.0, error / room.clamp(min=1e-300)).expand(true.shape)


def described(
    name: str, got: torch.Tensor, own: torch.Tensor, true: torch.Tensor, over: torch.Tensor, source: str
) -> OutputComparison:
    """The comparison, with what is worst; ``over`` has each element's error over what is allowed of it."""
    wrong, ratio = over > 1, float(over.max())
    a, b, o = got.double(), true, own.double()
    same = (a == b) | (a.isnan() & b.isnan()) | ((a == o) & a.isinf())  # what overflows in torch, too, is no error
    error = torch.where(same, 0.0, (a - b).abs()).nan_to_num(math.inf, math.inf)
    noise = torch.where((o == b) | ~torch.isfinite(o - b), 0.0, (o - b).abs())
    finite = torch.isfinite(a) & torch.isfinite(b)
    a0, b0 = torch.where(finite, a, 0.0).flatten(), torch.where(finite, b, 0.0).flatten()
    places = torch.where(wrong, error, -1.0) if ratio > 1 else error
    worst, norms, size = int(places.flatten().argmax()), float(a0.norm() * b0.norm()), float(b0.norm())
    away = float((a0 - b0).norm())
    return OutputComparison(
        name,
        ratio <= 1,
        dtype_name(got.dtype),
        tuple(got.shape),
        max_abs=float(error.max()),
        max_rel=float((error / b.abs().clamp(min=1e-30)).where(b != 0, torch.zeros(())).nan_to_num(0.0).max()),
        scale=float(b0.abs().max()),
        cosine=float(a0 @ b0) / norms if norms else 1.0,
        snr_db=20 * (math.log10(size) - math.log10(away)) if size and away else None,
        wrong=int(wrong.sum()),
        elements=got.numel(),
        worst_index=tuple(int(i) for i in np.unravel_index(worst, tuple(got.shape))),
        worst_value=float(a.flatten()[worst]),
        worst_expected=float(b.flatten()[worst]),
        ratio=ratio,
        own_abs=float(noise.max()),
        truth=source,
    )


def compare(
    name: str, got: torch.Tensor, expected: torch.Tensor, tolerance: Tolerance | None = None
) -> OutputComparison:
    """Compares two results where the exact one is not known: :func:`judge` with a floor of 1e-5.

    >>> compare("y", torch.tensor([1.0, 2.0]), torch.tensor([1.0, 2.1])).wrong
    2
    """
    if tolerance is None:
        tolerance = Tolerance(floor=max(1e-5, limits.FLOORS.get(dtype_name(got.dtype), 0.0) / 2))
    return judge(name, got, expected, tolerance=tolerance)
