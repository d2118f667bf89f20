"""Recurrent layers under autocast on the CPU, where torch has none in the half precisions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ...core.lazy import torch

RECURRENT = {"lstm", "gru", "rnn_tanh", "rnn_relu", "lstm_cell", "gru_cell", "rnn_tanh_cell", "rnn_relu_cell"}


@contextmanager
def recurrent_layers_in(precision: torch.dtype, note: Callable[[str], None]) -> Iterator[None]:
    """A context in which torch's recurrent layers run as autocast runs them on CUDA: with operands and results in half.

    torch's CPU has no such layers. So their inputs, states and weights are rounded to ``precision``, the layer runs in
    float32, and its results are rounded; the rounding of the states between steps is left out, so that torch's own
    error appears smaller than it would be. ``note`` is told.
    """
    from torch.overrides import TorchFunctionMode

    class Recurrent(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            name = getattr(func, "__name__", "")
            if name not in RECURRENT:
                return func(*args, **(kwargs or {}))
            note(f"torch's CPU has no {name} in half: its operands and results are rounded to half, its states are not")
            with torch.autocast("cpu", enabled=False):
                results = func(*_each(args, lambda x: x.to(precision).float()), **(kwargs or {}))
                return _each(results, lambda x: x.to(precision))

    with Recurrent():
        yield


def _each(value: Any, function: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    if isinstance(value, torch.Tensor):
        return function(value) if value.is_floating_point() else value
    return type(value)(_each(item, function) for item in value) if type(value) in (list, tuple) else value
