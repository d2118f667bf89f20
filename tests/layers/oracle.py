"""TensorRT's own values: it folds shape tensors on the CPU, and gives them away as the dimensions of a FILL."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from cases import BACKEND, Builder, trt

OFFSET = 1 << 30  # dimensions are not negative
PART = 8  # so many dimensions has a FILL
SUM, PROD = trt.ElementWiseOperation.SUM, trt.ElementWiseOperation.PROD
NAN, INFINITE, GREAT = 3 << 28, 1 << 29, 1 << 28  # steps that stand for what is no number of steps


def folded(build: Any, *constants: Any, scale: float = 1.0) -> np.ndarray:
    """The first output of ``build(network, *tensors)`` as TensorRT computes it on constants.

    Floating-point values come in steps of 1 / ``scale``, and are limited to 2**28 / scale.
    """
    builder = Builder()
    tensor = build(builder, *(builder.constant(value) for value in constants)).get_output(0)
    result = folds(builder, tensor, scale)
    assert result is not None
    return result


def folds(builder: Builder, tensor: Any, scale: float = 1.0) -> np.ndarray | None:
    """The value that TensorRT knows of a tensor made of constants; None where it does not."""
    with BACKEND.listen() as messages:
        shape, dtype = tuple(tensor.shape), tensor.dtype
        if -1 in shape:
            return None
        count = int(np.prod(shape, dtype=np.int64))
        flat = builder.add_shuffle(tensor)
        flat.reshape_dims = (count,)
        flat.zero_is_placeholder = False
        tensor = flat.get_output(0)
        if dtype == trt.float32:
            tensor = _steps(builder, tensor, count, scale)
        whole = builder.add_cast(tensor, trt.int64).get_output(0)
        tensor = two(builder, whole, builder.constant(np.int64([OFFSET])), SUM)
        values: list[int] = []
        for start in range(0, count, PART):
            size = min(PART, count - start)
            fill = builder.add_fill((0,), trt.FillOperation.LINSPACE, trt.float32)
            fill.set_input(0, builder.add_slice(tensor, (start,), (size,), (1,)).get_output(0))
            fill.set_input(1, builder.constant(np.float32(0)))
            fill.set_input(2, builder.constant(np.zeros(size, np.float32)))
            try:
                values += tuple(fill.get_output(0).shape)
            except (RuntimeError, ValueError):
                return None
    if messages.errors() or -1 in values:
        return None
    result = np.array(values, dtype=np.int64).reshape(shape) - OFFSET
    if dtype != trt.float32:
        return result
    numbers = np.where(np.abs(result) >= INFINITE, np.copysign(np.inf, result), result / scale)
    return np.where(result == NAN, np.nan, numbers)


def _steps(builder: Builder, tensor: Any, count: int, scale: float) -> Any:
    """Floating-point values as whole numbers of steps, and as great ones what is none."""

    def every(value: float) -> Any:
        return builder.constant(np.full(count, value, np.float32))

    def chosen(condition: Any, value: Any, otherwise: Any) -> Any:
        return builder.add_select(condition, value, otherwise).get_output(0)

    def is_so(operation: Any) -> Any:
        return builder.add_unary(tensor, operation).get_output(0)

    scaled = builder.add_unary(two(builder, tensor, every(scale), PROD), trt.UnaryOperation.ROUND).get_output(0)
    limited = builder.add_activation(scaled, trt.ActivationType.CLIP)
    limited.alpha, limited.beta = -GREAT, GREAT
    sign = two(builder, builder.add_unary(tensor, trt.UnaryOperation.SIGN).get_output(0), every(INFINITE), PROD)
    finite = chosen(is_so(trt.UnaryOperation.ISINF), sign, limited.get_output(0))
    return chosen(is_so(trt.UnaryOperation.ISNAN), every(NAN), finite)


def two(builder: Builder, a: Any, b: Any, operation: Any) -> Any:
    return builder.add_elementwise(a, b, operation).get_output(0)


def interpreted(build: Any, *constants: Any) -> torch.Tensor:
    """The same, by the interpreter: the operands are fed, so that nothing is folded."""
    from trtdsl.interpreter.interpret import interpret

    builder = Builder()
    feeds = {}
    tensors = []
    with BACKEND.listen() as messages:
        for index, value in enumerate(constants):
            data = torch.as_tensor(value)
            feeds[f"x{index}"] = data
            tensors.append(builder.add_input(f"x{index}", BACKEND.data_type(data.dtype), tuple(data.shape)))
        output = build(builder, *tensors).get_output(0)
        output.name = "y"
        builder.mark_output(output)
    assert not messages.errors(), messages.errors()
    return interpret(builder.network, feeds)["y"]
