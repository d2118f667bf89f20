"""Small engines for the simulated device, and the feeds that they are asked with."""

from __future__ import annotations

import numpy as np
import torch

import trtdsl as td
import trtdsl.functional as F
from trtdsl.core.backend import get_backend
from trtdsl.engine.compiling.compiler import compile_engine
from trtdsl.engine.engine import Engine

SIZE = 4


def doubling(**options):
    """An engine that gives ``y``, twice ``x``, for one to eight rows of four."""
    net = td.Network()
    rows = td.Dim("N", min=1, opt=2, max=8)
    net.output(net.input("x", (rows, SIZE)) * 2, "y")
    return Engine(compile_engine(net).data, backend=net.backend, **options)


def picking():
    """An engine whose output's size depends on values: where its eight numbers are not zero."""
    net = td.Network()
    net.output(F.nonzero(net.input("x", (8,))), "where")
    return Engine(compile_engine(net).data, backend=net.backend)


def reshaping():
    """An engine that takes ``shape``, read on the host, as the shape of its output."""

    def define(network, trt):
        x, shape = network.add_input("x", trt.float32, (-1,)), network.add_input("shape", trt.int64, (2,))
        layer = network.add_shuffle(x)
        layer.set_input(1, shape)
        layer.get_output(0).name = "y"
        network.mark_output(layer.get_output(0))

    def serve(profile):
        profile.set_shape("x", (1,), (6,), (12,))
        profile.set_shape_input("shape", (1, 1), (2, 3), (12, 12))

    return _raw(define, serve)


def counting():
    """An engine that says, on the host and as a scalar, how many rows it was given."""

    def define(network, trt):
        shape = network.add_shape(network.add_input("x", trt.float32, (-1, 3))).get_output(0)
        zero = network.add_constant((), trt.Weights(np.array(0, np.int32))).get_output(0)
        rows = network.add_gather(shape, zero, 0).get_output(0)
        rows.name = "rows"
        network.mark_output_for_shapes(rows)

    return _raw(define, lambda profile: profile.set_shape("x", (1, 3), (2, 3), (8, 3)))


def _raw(define, serve):
    backend = get_backend("tensorrt-rtx")
    network = backend.builder.create_network(0)
    define(network, backend.trt)
    config, profile = backend.builder.create_builder_config(), backend.builder.create_optimization_profile()
    serve(profile)
    config.add_optimization_profile(profile)
    return Engine(bytes(backend.builder.build_serialized_network(network, config)), backend=backend)


def pinned(machine, values):
    """A torch tensor in pinned memory."""
    tensor = torch.as_tensor(values)
    array = machine.pinned_array(tuple(tensor.shape), np.dtype(str(tensor.dtype).removeprefix("torch.")))
    array[...] = tensor.numpy()
    return torch.from_numpy(array)


class Shared:
    """An array of another library on the device, by the CUDA array interface."""

    def __init__(self, pointer, shape, stream=None, typestr="<f4"):
        self.__cuda_array_interface__ = {
            "shape": shape, "typestr": typestr, "data": (pointer, False), "version": 3, "stream": stream,
        }  # fmt: skip
