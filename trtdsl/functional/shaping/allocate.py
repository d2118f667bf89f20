"""Tensors that torch leaves uninitialized, which are zeros here, and tensors from single numbers and ranges."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import operands
from ..common import (
    L,
    Size,
    SizeLike,
    Tensor,
    UnsupportedError,
    as_dtype,
    operation,
    require_network,
    shape_text,
    torch,
)
from ..operands import varargs
from ..reducing.reduction import sum as total
from .create import full, linspace, refuse_storage, tensor


@operation
def empty_strided(
    size: Sequence[SizeLike],
    stride: Sequence[SizeLike],
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """As :func:`empty`; ``stride`` is about torch's memory and has no meaning in an engine.

    >>> with td.Network().current():
    ...     F.empty_strided((2, 3), (3, 1)).shape
    (2, 3)
    """
    return full(size, 0, dtype=dtype or torch.float32, layout=layout, device=device, requires_grad=requires_grad)


@operation
def scalar_tensor(
    s: Any, *, dtype: Any = None, layout: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """A number as a tensor without dimensions, float32 unless ``dtype`` says otherwise: a constant.

    >>> with td.Network().current():
    ...     F.scalar_tensor(3).dtype
    torch.float32
    """
    refuse_storage(layout, requires_grad)
    return operands.as_tensor(s, require_network(s), as_dtype(dtype or torch.float32))


@operation
def as_tensor(data: Any, dtype: Any = None, device: Any = None) -> Tensor:
    """``data`` as a Tensor: itself, cast to ``dtype``, or a constant of numbers in (nested) lists, as :func:`tensor`.

    >>> net = td.Network()
    >>> F.as_tensor(net.input("x", ("N",), "int64"), dtype=torch.float32).dtype
    torch.float32
    """
    if isinstance(data, (list, tuple, int, float, Size)):
        return tensor(data, dtype=dtype)
    return operands.as_tensor(data, require_network(data), None if dtype is None else as_dtype(dtype))


@operation
def logspace(
    start: Any,
    end: Any,
    steps: int,
    base: float = 10.0,
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """``base`` to the powers of :func:`linspace`: a constant; IElementWiseLayer POW where something is dynamic.

    >>> with td.Network().current():
    ...     F.logspace(0, 2, 3).shape
    (3,)
    """
    refuse_storage(layout, requires_grad)
    wanted = as_dtype(dtype or torch.float32)
    start, end = (value.data if isinstance(value, Tensor) and value.is_constant else value for value in (start, end))
    if not any(isinstance(value, (Tensor, Size)) for value in (start, end, steps)):
        return require_network().constant(torch.logspace(start, end, steps, base, dtype=wanted))
    if not wanted.is_floating_point:
        raise UnsupportedError("logspace: integers between computed ends: cast the result of floats")
    powers = linspace(start, end, steps, dtype=torch.float32)
    return L.cast(operands.binary(powers.network.constant(float(base)), powers, "POW"), wanted)


@operation
def sum_to_size(input: Tensor, *size: Any) -> Tensor:
    """The sums that undo a broadcast to the shape of ``input``: IReduceLayer SUM.

    >>> F.sum_to_size(td.Network().input("x", (5, 2, 3)), 2, 1).shape
    (2, 1)
    """
    wanted = varargs(size)
    if not wanted:
        return total(input)
    extra = input.ndim - len(wanted)
    if extra < 0:
        raise UnsupportedError(f"sum_to_size: {shape_text(input.shape)} is no broadcast of {shape_text(wanted)}")
    axes = [axis for axis, length in enumerate(wanted, extra) if length == 1 and input.shape[axis] != 1]
    x = total(input, axes, True) if axes else input
    return total(x, list(range(extra))) if extra else x
