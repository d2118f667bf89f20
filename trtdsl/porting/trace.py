"""Traces a torch module: runs it on tensors without values and writes down each call that its code makes.

Calls are seen where the author makes them, before torch takes them apart (``F.conv2d(x, w, stride=2)``, not what it is
made of), through torch's own :class:`~torch.overrides.TorchFunctionMode`. Inputs, and what is computed from them, are
fake tensors: they have a shape and no values, so that no size costs time. Parameters and buffers are what they are.
"""

from __future__ import annotations

import copy
import logging
import warnings
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

from ..core.errors import UsageError
from ..core.lazy import torch
from .graph import Call, Op, SizeOf, SizeOp, Value, Weight, leaves, operations, values_in
from .recorder import Recorder, modes, modes_below, tensors_of
from .sizes import GUARDS, Guard, pythons_functions


@dataclass
class Trace:
    """One run of a module."""

    root: Call
    inputs: dict[str, Value]
    results: Any
    """What forward gave: a tree of values."""
    weights: dict[str, Weight]
    constants: dict[str, torch.Tensor] = field(default_factory=dict)
    """Tensors of many numbers that are not the module's, by the paths that they get."""
    remarks: list[str] = field(default_factory=list)
    """What forward does besides and a network does not."""
    tried: bool = False
    """Whether a size that depends on values has been tried."""
    guards: list[Guard] = field(default_factory=list)
    """What it asked of sizes."""
    requirements: list[Any] = field(default_factory=list)
    """What the file requires of its dimensions, so that the module would have done the same at all sizes."""


def trace(module: torch.nn.Module, inputs: Mapping[str, tuple[tuple[int, ...], torch.dtype]], count: int = 3) -> Trace:
    """Runs ``module.forward`` on inputs of these names, shapes and dtypes; ``count`` are chosen where values choose.

    Raises UnsupportedError with the author's line where a value would decide what runs, DefinitionError with it for
    anything that forward raises.
    """
    from torch._subclasses.fake_tensor import FakeTensorMode

    module = copied(module, parameters=False)
    fake = FakeTensorMode(allow_non_fake_inputs=True)
    with fake:
        tensors = {name: torch.empty(shape, dtype=dtype) for name, (shape, dtype) in inputs.items()}
    recorder = Recorder(module, count)
    values = {name: recorder.take(tensor, name) for name, tensor in tensors.items()}
    with ExitStack() as stack:
        stack.enter_context(torch.no_grad())
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore")
        stack.enter_context(_quiet(logging.getLogger("torch._subclasses.fake_tensor")))
        for path, part in module.named_modules():
            for handle in recorder.hooks(path, part):
                stack.callback(handle.remove)
        stack.enter_context(modes_below(recorder))
        stack.enter_context(modes(recorder))
        stack.enter_context(pythons_functions(module))
        token = GUARDS.set([])
        stack.callback(GUARDS.reset, token)
        returned = recorder.run(module, tensors)
        guards = GUARDS.get() or []
    for op in operations(recorder.root):
        _choose(op)
    tree = recorder.tree(returned)
    remarks = [*_updates(recorder, module), *_left_out(tree)]
    constants, tried = recorder.constants, recorder.tried
    return Trace(recorder.root, values, outputs(tree), recorder.weights, constants, remarks, tried, guards)


def _choose(op: Op) -> None:
    """Makes ``y[mask] = x[mask]`` the choice between the two that it is, which needs no size that depends on data."""
    if op.form != "setitem" or not all(isinstance(item, Value) for item in op.args) or op.args[1].dtype != torch.bool:
        return
    target, mask, given = op.args
    made = given.producer
    if made is None or made.name != "getitem" or made.args[1] is not mask or not isinstance(made.args[0], Value):
        return
    source = made.args[0]
    if source.shape == target.shape and source.dtype == target.dtype and mask.shape:
        op.name, op.args = "masked_where", (target, mask, source)


def _updates(recorder: Recorder, module: torch.nn.Module) -> Iterator[str]:
    """A remark for each tensor of the module that forward writes to, or puts another in the place of."""
    places = dict(recorder.updated)
    for name, tensor in tensors_of(module):
        if name not in recorder.held or recorder.held[name] is not tensor:
            places.setdefault(name, None)
    for name, place in places.items():
        at = f" at {place}" if place is not None else ""
        yield f"forward changes its {name}{at}: the network does as the first call does, and keeps nothing"


def _left_out(results: Any) -> Iterator[str]:
    """A remark for what forward gives and a network does not."""
    items = results.items() if isinstance(results, dict) else enumerate(_flat(results))
    for name, item in items:
        if not isinstance(item, Value) and item is not None:
            number = isinstance(item, (int, float, SizeOf, SizeOp))
            kind = "a number" if number else f"a {type(item).__name__}"
            yield f"forward also gives {kind} ({name!r}), which is no output of the network"


def _flat(results: Any) -> Iterator[Any]:
    if isinstance(results, (tuple, list)):
        for item in results:
            yield from _flat(item)
    else:
        yield results


def outputs(results: Any) -> Any:
    """What a check compares of what forward gave: a tensor, tensors by name, or all tensors of a tuple.

    Those inside a mapping's tuples and mappings have the names of the way to them, joined by dots.
    """
    if isinstance(results, Value):
        return results
    found = dict(_named_values(results, ()))
    if not found:
        raise UsageError("forward gives no tensor")
    return found if isinstance(results, dict) else tuple(found.values())


def _named_values(results: Any, path: tuple[str, ...]) -> Iterator[tuple[str, Value]]:
    """The tensors of nested tuples, lists and mappings, by the way to them."""
    if isinstance(results, Value):
        yield ".".join(path), results
    elif isinstance(results, (tuple, list, dict)):
        items = results.items() if isinstance(results, dict) else enumerate(results)
        for key, item in items:
            yield from _named_values(item, (*path, str(key)))


def live_operations(trace: Trace) -> dict[Op, None]:
    """The calls that have a part in the results, in order."""
    needed = set(values_in(trace.results))
    live: dict[Op, None] = {}
    for op in reversed(list(operations(trace.root))):
        if any(value in needed for value in leaves(op.results) if isinstance(value, Value)):
            live[op] = None
            needed.update(values_in((op.args, op.kwargs)))
    return dict.fromkeys(reversed(live))


def copied(module: torch.nn.Module, *, parameters: bool = True) -> torch.nn.Module:
    """A copy of the module: what it keeps from one run, in its buffers too, is not in the next.

    Without ``parameters`` it has the same ones. Scripted functions, which cannot be copied, it has in any case.
    """
    same: list[Any] = [] if parameters else list(module.parameters())
    for part in module.modules():
        same += [held for held in vars(part).values() if isinstance(held, torch.jit.ScriptFunction)]
    return copy.deepcopy(module, {id(held): held for held in same})


@contextmanager
def _quiet(logger: logging.Logger) -> Iterator[None]:
    """What fails is raised, and need not be logged besides."""
    before = logger.disabled
    logger.disabled = True
    try:
        yield
    finally:
        logger.disabled = before
