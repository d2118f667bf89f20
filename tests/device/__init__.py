"""A CUDA device that is simulated: cuda-python's and TensorRT's Python names, as far as trtdsl calls them.

It shows what order, lifetime, bounds and errors do, which no machine without a GPU shows otherwise. It says nothing
about the numbers of real kernels, nor about time: durations are invented.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import cuda.bindings as bindings
import pytest

import trtdsl as td
from trtdsl.core.backend import cuda_status, get_backend
from trtdsl.engine import cuda

from .cudart import Driver as Driver
from .cudart import Runtime as CudaRuntime
from .machine import CudaError as CudaError
from .machine import Machine as Machine
from .nvinfer import Builder, Forwarding, Refitter, Runtime, Simulated


class TensorRT(Forwarding):
    """The module of TensorRT-RTX with doubles for what needs a device."""

    def __init__(self, real: Any, simulated: Simulated):
        super().__init__(real)
        self._simulated = simulated

    def Runtime(self, logger: Any) -> Runtime:
        return Runtime(self._simulated, logger)

    def Refitter(self, engine: Any, logger: Any) -> Refitter:
        return Refitter(self._simulated, engine, logger)

    def OnnxParser(self, network: Any, logger: Any) -> Any:
        parser = self._real.OnnxParser(network, logger)
        self._simulated.shelf.parsers[id(network)] = parser
        return parser


@contextmanager
def simulated_device(machine: Machine | None = None) -> Iterator[Machine]:
    """Puts a simulated machine in the place of CUDA's and TensorRT's device; at the end nothing may be amiss."""
    machine = machine or Machine()
    backend = get_backend("tensorrt-rtx")
    simulated = Simulated(backend, backend.trt, machine)
    with pytest.MonkeyPatch.context() as patch:
        for name, double in (("runtime", CudaRuntime(machine)), ("driver", Driver(machine))):
            patch.setitem(sys.modules, f"cuda.bindings.{name}", double)
            patch.setattr(bindings, name, double, raising=False)
        builder = backend.builder
        patch.setitem(backend.__dict__, "builder", Builder(builder, backend.trt, simulated.shelf))
        patch.setattr(backend, "trt", TensorRT(backend.trt, simulated))
        define = td.Network.__init__

        def remember(self: td.Network, *arguments: Any, **keywords: Any) -> None:
            define(self, *arguments, **keywords)
            simulated.shelf.networks[id(self.definition)] = self

        patch.setattr(td.Network, "__init__", remember)
        _forget_probes()
        try:
            yield machine
        finally:
            gc.collect()
            _forget_probes()
    _forget_probes()


def _forget_probes() -> None:
    cuda_status.cache_clear()
    cuda.runtime.cache_clear()
