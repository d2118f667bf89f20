"""Arrays whose memory holds their values, element by element, and why others do not."""

from __future__ import annotations

import sys
from typing import Any

from ..lazy import np, torch


def is_torch(value: Any) -> bool:
    """Whether it is a torch tensor or of a subclass of one; torch is not imported for the answer."""
    return "torch" in sys.modules and isinstance(value, torch.Tensor)


def why_not_dense(value: Any) -> str | None:
    """Why the elements of an array, or of a list of arrays, are not its values alone; None where they are.

    >>> why_not_dense(np.ma.array([1.0, 2.0], mask=[True, False]))
    'elements of it are masked: give its filled(…), and the mask as an input of its own'
    """
    if isinstance(value, (list, tuple)):
        return next(filter(None, map(why_not_dense, value)), None)
    if isinstance(value, np.ndarray):
        masked = "elements of it are masked: give its filled(…), and the mask as an input of its own"
        return masked if np.ma.is_masked(value) else None
    if not is_torch(value):
        return None
    if value.is_nested:
        return "it is a nested tensor: give its to_padded_tensor(…), and the lengths as an input of their own"
    if value.layout != torch.strided:
        return f"its layout is {value.layout}: give its to_dense()"
    return "it is a quantized tensor: give its dequantize(), or its int_repr()" if value.is_quantized else None


def why_unreadable(value: Any) -> str | None:
    """As :func:`why_not_dense`, and where a tensor of torch has no memory: a fake one, a subclass that holds others."""
    reason = why_not_dense(value)
    if reason or not is_torch(value):
        return reason
    computes = value.device.type == "cpu" and computes_itself(type(value))
    elsewhere = computes or torch.nn.parameter.is_lazy(value)
    empty = elsewhere or (value.device.type in ("cpu", "cuda") and value.numel() and not value.data_ptr())
    return f"this {type(value).__name__} has no memory that holds its values" if empty else None


def computes_itself(kind: Any) -> bool:
    """Whether a class of tensors computes what torch's operations give of them: one for a name or a mark does not."""
    plain: Any = torch.Tensor
    return kind.__torch_dispatch__ is not plain.__torch_dispatch__


def writes(tensor: torch.Tensor) -> int:
    """How often a tensor was written to; 0 for one of torch.inference_mode, which keeps no count."""
    return 0 if tensor.is_inference() else tensor._version
