"""Calls without a counterpart, by those that torch itself makes of them, recorded as if the author had made these."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection
from contextlib import nullcontext
from typing import Any

from ....core.tensors.memory import storage_of
from ....core.tensors.watched import each_call
from ...calls import Op
from ...translating.decompositions import decompositions
from ...translating.lowering import written
from ..guards import GUARDS, Record
from ..modes import torch_tensors
from ..names import RANDOM, keeps_value
from .memory import layout
from .transforms import SizesInside

OF_MEMORY = {"out", "inplace"}
"""Arguments that say where a result is written."""
WHOLE = {"_weight_norm", "_make_dual"}
"""What is written by a rule of its own, and what begins a derivative, which has none."""


class Apart:
    """Takes calls apart, one inside of another."""

    def __init__(self, recorder: Any):
        self._recorder = recorder
        self._open: list[str] = []

    def taken(self, op: Op, function: Any, args: Any, kwargs: Any, result: Any, target: Any) -> Any:
        """The result of a call without a counterpart, by others; None where it has one, or where there are no others.

        Where it is itself one of those that another call is taken apart into, that one cannot be taken apart so.
        """
        recorder, given = self._recorder, torch_tensors((args, kwargs))
        keeps = target is None and given and keeps_value(op, given[0], result)
        drawn = op.name in RANDOM or op.form in ("setitem", "attribute")
        if keeps or drawn or op.name in WHOLE or written(op) is not None:
            return None
        options = {key: item for key, item in kwargs.items() if key not in OF_MEMORY}
        shared = {storage_of(each) for each in given}
        for apart, below in decompositions(function, op.qualified) if op.qualified not in self._open else ():
            try:
                found = self._run(op, apart, args, options, below, given)
                values = [*map(recorder.value, torch_tensors(found))]
            except Exception:  # of torch's own: it is the call that has no counterpart
                continue
            if target is not None and found.shape == target.shape:
                with each_call(recorder.called):
                    return target.copy_(found)
            if not _alike(result, found, shared):
                continue
            if not shared.isdisjoint(map(storage_of, torch_tensors(result))):
                return found
            recorder.values.update((id(own), value) for own, value in zip(torch_tensors(result), values))
            recorder.kept.extend(torch_tensors(result))
            return result
        if self._open:
            raise LookupError(op.qualified)
        return None

    def _run(self, op: Op, apart: Callable[..., Any], args: Any, kwargs: Any, below: bool, given: Any) -> Any:
        """What the function gives whose calls are recorded: those of torch, or, in C++, the operators below."""
        recorder, record = self._recorder, GUARDS.get() or Record()
        state, asked = (recorder.transformed, recorder.sizes_inside), len(record.guards)
        recorder.transformed, recorder.sizes_inside = below, SizesInside()
        self._open.append(op.qualified)
        try:
            if below:
                recorder.sizes_inside.see((args, kwargs), given, recorder.own_sizes)
            with nullcontext() if below else each_call(recorder.called):
                return apart(*args, **kwargs)
        except Exception:
            recorder.failure = recorder.place = None
            del record.guards[asked:]
            raise
        finally:
            self._open.pop()
            recorder.transformed, recorder.sizes_inside = state


def _alike(result: Any, found: Any, given: Collection[Any]) -> bool:
    """Whether two results have the same shapes and dtypes, and share the same memory of that which was given."""
    pairs = list(itertools.zip_longest(torch_tensors(result), torch_tensors(found)))
    if any(a is None or b is None or (a.shape, a.dtype) != (b.shape, b.dtype) for a, b in pairs):
        return False
    memories = [({storage_of(a), storage_of(b)}, layout(a) == layout(b)) for a, b in pairs]
    return all(each.isdisjoint(given) or (len(each) == 1 and same) for each, same in memories)
