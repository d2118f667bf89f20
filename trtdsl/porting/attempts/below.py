"""Sizes that values say: of inputs, below a number that the inputs' ranges say, or computed ones, up to a number."""

from __future__ import annotations

from dataclasses import replace

from ...core.errors import UnsupportedError
from ..tracing.recording.by_values import MOST
from ..tracing.scalars import NeedsBelow
from .attempt import Again, Attempt, Made


def remedy(attempt: Attempt, refusal: UnsupportedError, again: Again[Made]) -> tuple[Made, Attempt]:
    """The attempt where a network has the sizes that values say, and the inputs no greater values than their ranges."""
    assert isinstance(refusal.__cause__, NeedsBelow)
    given, below = attempt.given, refusal.__cause__.below
    inputs = {name: replace(spec, below=below.get(name, spec.below)) for name, spec in given.inputs.items()}
    ends = " and ".join(f"{name} below {number}" for name, number in below.items())
    remark = (
        f"a size at {refusal.location} is as great as values of inputs say: the network is for {ends} alone (below= in "
        "the file)"
    )
    return again(attempt.changed([remark], given=replace(given, inputs=inputs), by_values=True))


def unbounded(attempt: Attempt, refusal: UnsupportedError, again: Again[Made]) -> tuple[Made, Attempt]:
    """The attempt where a network has the sizes that computed values say, up to a number for all of them."""
    remark = (
        f"a size at {refusal.location} is as great as forward computes, and nothing says how great that is: the "
        f"network has at most {MOST} there, and where forward computes more, others than the module"
    )
    return again(attempt.changed([remark], by_values=True, unbounded=True))
