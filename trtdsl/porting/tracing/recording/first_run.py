"""Modules that set their parameters in their first run, of the data that it sees, or make parts there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ....core.errors import UnsupportedError
from ....core.lazy import torch
from ....definition.spec.reference import call_reference, evaluating
from ...given import Given
from ..guards import WRITTEN, WritesParameters
from ..modes import numbers_of, tensors_of
from ..trace import copied


@contextmanager
def written_to() -> Iterator[None]:
    """A context in which forward may write to parameters, as it may to buffers: the network does as the first call."""
    token = WRITTEN.set(True)
    try:
        yield
    finally:
        WRITTEN.reset(token)


def after_first_run(module: torch.nn.Module, given: Given, refusal: UnsupportedError) -> torch.nn.Module:
    """A copy of the module that torch has run once, on drawn inputs.

    Raises the ``refusal`` of the module as it was where it does not write to parameters, or a further run, on others,
    changes something again.
    """
    if not isinstance(refusal.__cause__, WritesParameters):
        raise refusal
    made, generator = copied(module), torch.Generator().manual_seed(0)
    before = None
    try:
        for _ in range(2):
            feeds = {
                name: _drawn(shape, dtype, given.inputs[name].sample, generator)
                for name, (shape, dtype, *_) in given.at(given.points()[0]).items()
            }
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


def _drawn(shape: Any, dtype: torch.dtype, sample: Any, generator: torch.Generator) -> torch.Tensor:
    low, high = sample if isinstance(sample, tuple) else (0, 2)
    if dtype.is_floating_point and not isinstance(sample, tuple):
        return torch.randn(shape, generator=generator).to(dtype)
    if dtype.is_floating_point:
        return (torch.rand(shape, generator=generator) * (high - low) + low).to(dtype)
    return torch.randint(int(low), int(high), shape, generator=generator).to(dtype)


def _held(module: torch.nn.Module) -> dict[str, Any]:
    return {**{name: held.detach().clone() for name, held in tensors_of(module)}, **numbers_of(module)}


def _is_same(a: Any, b: Any) -> bool:
    return torch.equal(a, b) if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor) else a == b


def remark(refusal: UnsupportedError) -> str:
    """What the network has then, and what to give instead."""
    return (
        f"forward sets parameters in its first run, of the data that it sees ({refusal.location}): the network has "
        "those of a run on drawn inputs. Port a module that has run on data of yours, or has its trained weights"
    )
