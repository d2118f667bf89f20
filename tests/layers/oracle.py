"""TensorRT's own values: it folds shape tensors on the CPU, and gives them away as the dimensions of a FILL."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from cases import BACKEND, Builder, trt

OFFSET = 1 << 30  # dimensions are not negative
SUM, PROD, EQUAL = (getattr(trt.ElementWiseOperation, name) for name in ("SUM", "PROD", "EQUAL"))


def folded(build: Any, *constants: Any, scale: float = 1.0) -> np.ndarray:
    """The first output of ``build(network, *tensors)`` as TensorRT computes it on constants.

    Floating-point values come in steps of 1 / ``scale``, and must be less than 2**30 / scale.
    """
    builder = Builder()
    with BACKEND.listen() as messages:
        tensor = build(builder, *(builder.constant(value) for value in constants)).get_output(0)
        shape, dtype = tuple(tensor.shape), tensor.dtype
        if dtype == trt.float32:
            tensor = two(builder, tensor, builder.constant(np.full((1,) * len(shape), scale, np.float32)), PROD)
            tensor = builder.add_unary(tensor, trt.UnaryOperation.ROUND).get_output(0)
        tensor = builder.add_cast(tensor, trt.int64).get_output(0)
        flat = builder.add_shuffle(tensor)
        flat.reshape_dims = (-1,)
        tensor = two(builder, flat.get_output(0), builder.constant(np.int64([OFFSET])), SUM)
        count = int(np.prod(shape, dtype=np.int64))
        values: list[int] = []
        for start in range(0, count, 8):
            part = builder.add_slice(tensor, (start,), (min(8, count - start),), (1,)).get_output(0)
            fill = builder.add_fill((0,), trt.FillOperation.LINSPACE, trt.float32)
            fill.set_input(0, part)
            fill.set_input(1, builder.constant(np.float32(0)))
            fill.set_input(2, builder.constant(np.zeros(min(8, count - start), np.float32)))
            values += [size - OFFSET for size in fill.get_output(0).shape]
    assert not messages.errors(), messages.errors()
    result = np.array(values, dtype=np.int64).reshape(shape)
    return result / scale if dtype == trt.float32 else result


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
