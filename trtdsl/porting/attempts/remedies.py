"""Attempts a port again where the cause of its refusal has remedies, tried in order: one row for each cause."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from ...core.errors import UnsupportedError
from ..tracing.guards import BY_VALUES, DERIVATIVES, UNBOUNDED, WRITTEN, TakesDerivatives, WritesParameters
from ..tracing.scalars import NeedsBelow, NeedsLongest, NeedsMost
from ..tracing.trace import DrawsNumbers
from . import below, drawn_inputs, first_run, longest
from .attempt import Attempt, Made

REMEDIES = {
    NeedsLongest: (longest.remedy,),
    NeedsBelow: (below.remedy,),
    NeedsMost: (below.unbounded,),
    DrawsNumbers: (drawn_inputs.remedy, first_run.remedy),
    WritesParameters: (first_run.remedy,),
    TakesDerivatives: (lambda attempt, _, again: again(attempt.changed([], derivatives=True)),),
}


def attempted(made: Callable[[Attempt], Made], attempt: Attempt) -> tuple[Made, Attempt]:
    """What is ``made`` of the attempt, or of another, whose remarks say what is changed. Raises what ``made`` does."""
    states = {
        WRITTEN: attempt.settled,
        BY_VALUES: attempt.by_values,
        UNBOUNDED: attempt.unbounded,
        DERIVATIVES: attempt.derivatives,
    }
    tokens = {variable: variable.set(state) for variable, state in states.items()}
    try:
        return made(attempt), attempt
    except UnsupportedError as error:
        refusal = error
    finally:
        for variable, token in tokens.items():
            variable.reset(token)
    for remedy in REMEDIES.get(type(refusal.__cause__), ()):
        try:
            return remedy(attempt, refusal, partial(attempted, made))
        except UnsupportedError as error:
            if error is not refusal:
                raise
    raise refusal from refusal.__cause__
