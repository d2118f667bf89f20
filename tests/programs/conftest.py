"""Programs of small networks, built here."""

import pytest
import torch

import trtdsl as td
from trtdsl.engine.compiling.compiler import compile_engine
from trtdsl.engine.program import At, program_of_plan


@pytest.fixture
def program_of():
    """The program of the network that a function writes; its memory is held against what the builder logs."""

    def make(write, **dims):
        net = td.Network()
        with net.current():
            result = write(net)
        for index, output in enumerate(result if isinstance(result, tuple) else (result,)):
            net.output(output, f"y{index}")
        plan = compile_engine(net)
        program = program_of_plan(plan, net, At(dims, {}, {}, 0))
        assert program.memory == plan.statistics.activation_memory
        assert program.engine_bytes == len(plan.data)
        return program

    return make


@pytest.fixture
def constant():
    """A constant of a network, the same at every run."""

    def make(net, *shape, dtype=torch.float32):
        return net.constant(torch.randn(shape, generator=torch.Generator().manual_seed(0)).to(dtype))

    return make
