"""Where layers are added: a network's own definition, or a scratch one in which constants are folded."""

from __future__ import annotations

from typing import Any

from ..errors import UnsupportedError
from ..lazy import torch
from .memory import contiguous


class LayerTarget:
    """Where layers are added: a network's own definition, or a scratch one in which constants are folded."""

    __slots__ = ("buffers", "definition", "network", "numbers", "trt")

    def __init__(self, network: Any, definition: Any):
        self.network, self.definition, self.trt = network, definition, network.trt
        self.numbers: dict[str, float] = {}  # of the layer that is being added
        self.buffers: list[Any] = []  # buffers that TensorRT points into: they live as long as the network

    def set_number(self, layer: Any, name: str, number: float) -> None:
        """Sets an attribute that TensorRT keeps as a C float, and notes what it is exactly."""
        setattr(layer, name, number)
        self.numbers[name] = number

    def weights(self, tensor: Any, dtype: torch.dtype | None = None) -> Any:
        """``trt.Weights`` of a constant Tensor; empty ones, of ``dtype``, for None."""
        if tensor is None:
            return self.trt.Weights() if dtype is None else self.trt.Weights(self.network.backend.data_type(dtype))
        if tensor.data is None:
            raise UnsupportedError("these weights must be constants, not values computed when the network runs")
        return self.buffer(tensor.data)

    def buffer(self, data: torch.Tensor) -> Any:
        """``trt.Weights`` over the tensor's own memory, which is kept."""
        data = contiguous(data)
        self.buffers.append(data)
        if self.network.exact is not None and self is self.network.target:  # a scratch network does not keep it
            self.network.exact.settle(data)
        return self.trt.Weights(self.network.backend.data_type(data.dtype), data.data_ptr(), data.numel())
