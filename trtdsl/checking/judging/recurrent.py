"""Layers under autocast on the CPU that torch has not in a half precision, or only slowly: computed in float32."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ...core.lazy import torch

RECURRENT = {"lstm", "gru", "rnn_tanh", "rnn_relu", "lstm_cell", "gru_cell", "rnn_tanh_cell", "rnn_relu_cell"}

CONVOLUTIONS = {"conv1d", "conv2d", "conv3d"}


@contextmanager
def computed_wide(precision: torch.dtype, note: Callable[[str], None]) -> Iterator[None]:
    """A context in which some of torch's layers run with operands and results in half, as autocast runs them on CUDA.

    Their inputs, states and weights are rounded to ``precision``, the layer runs in float32, and its results are
    rounded. Convolutions in float16, for which torch's CPU takes 17 to 36 times as long as for float32, have the same
    result but for the order of their sums. Recurrent layers, which it has not in half, do not round the states between
    steps, so that torch's own error appears smaller than it would be: ``note`` is told.
    """
    from torch.overrides import TorchFunctionMode

    class Wide(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            name = getattr(func, "__name__", "")
            if name in RECURRENT:
                note(f"torch's CPU has no {name} in half: operands and results are rounded to half, states are not")
            elif not (name in CONVOLUTIONS and precision == torch.float16 and _low(args[0])):
                return func(*args, **(kwargs or {}))
            with torch.autocast("cpu", enabled=False):
                given = {key: _each(value, lambda x: x.to(precision).float()) for key, value in (kwargs or {}).items()}
                results = func(*_each(args, lambda x: x.to(precision).float()), **given)
                return _each(results, lambda x: x.to(precision))

    with Wide():
        yield


def _low(x: torch.Tensor) -> bool:
    """Whether autocast would take a convolution of ``x`` in half, or it is in half as it is."""
    return x.dtype == torch.float16 or (torch.is_autocast_enabled("cpu") and x.dtype == torch.float32)


def _each(value: Any, function: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    if isinstance(value, torch.Tensor):
        return function(value) if value.is_floating_point() else value
    return type(value)(_each(item, function) for item in value) if type(value) in (list, tuple) else value
