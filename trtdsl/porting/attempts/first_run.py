"""Modules that set their parameters in their first run, of the data that it sees, or make parts there."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ...core.dtypes import as_dtype
from ...core.errors import UnsupportedError
from ...core.lazy import torch
from ...definition.input import Input
from ...definition.spec.reference import call_reference, evaluating
from ...interpreter.feeds import draw_feeds
from ..given import Given
from ..tracing.modes import numbers_of, tensors_of
from ..tracing.trace import copied
from .attempt import Again, Attempt, Made


def remedy(attempt: Attempt, refusal: UnsupportedError, again: Again[Made]) -> tuple[Made, Attempt]:
    """The attempt on a copy of the module that torch has run once: the network does as the next call does.

    Raises the ``refusal`` of the module as it was where further runs change something again.
    """
    if attempt.settled:
        raise refusal
    remark = (
        f"forward sets parameters in its first run, of the data that it sees ({refusal.location}): the network has "
        "those of a run on drawn inputs. Port a module that has run on data of yours, or has its trained weights"
    )
    return again(
        attempt.changed([remark], module=_after_first_run(attempt.module, attempt.given, refusal), settled=True)
    )


def _after_first_run(module: torch.nn.Module, given: Given, refusal: UnsupportedError) -> torch.nn.Module:
    """A copy of the module that torch has run, on drawn inputs, so that a further run, on others, changes nothing."""
    made, generator = copied(module), torch.Generator().manual_seed(0)
    inputs = {name: _sampled(spec) for name, spec in given.inputs.items()}
    before = None
    try:
        for _ in range(2):
            feeds = draw_feeds(inputs, given.points()[0], generator)
            before = _held(made)
            with torch.no_grad():
                call_reference(made, feeds)
            made = evaluating(made)
    except Exception:  # the author's own
        raise refusal from refusal.__cause__
    after = _held(made)
    if (
        before is None
        or before.keys() != after.keys()
        or not all(_is_same(before[each], after[each]) for each in after)
    ):
        raise refusal
    return made


def _sampled(spec: Input) -> Input:
    """The input; one of whole numbers, of which nothing says what they are, has 0 and 1."""
    said = spec.sample is not None or spec.longest is not None or as_dtype(spec.dtype).is_floating_point
    return spec if said else replace(spec, sample=(0, 2))


def _held(module: torch.nn.Module) -> dict[str, Any]:
    return {**{name: held.detach().clone() for name, held in tensors_of(module)}, **numbers_of(module)}


def _is_same(a: Any, b: Any) -> bool:
    return torch.equal(a, b) if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor) else a == b
