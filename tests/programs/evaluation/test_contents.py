"""What a plan holds beside its texts."""

import torch

import trtdsl as td
import trtdsl.functional as F
from trtdsl.engine.compiling.compiler import compile_engine
from trtdsl.engine.program import texts_of_plan
from trtdsl.programs.evaluation.contents import Contents


def test_constants_and_kernels_are_found():
    weight = torch.randn(8, 16, generator=torch.Generator().manual_seed(0))
    net = td.Network()
    net.output(F.softmax(F.linear(net.input("x", (3, 16)), weight), -1), "y")
    plan = compile_engine(net)
    (text,) = texts_of_plan(plan, net).programs
    contents = Contents(bytes(plan.data))
    assert weight.numpy().tobytes() in contents.constants(text).values()
    names = [record.text("fqn") for kind, record in text.statements if kind == "function"]
    assert names
    assert all(f"void {name}(" in contents.sources[name] for name in names)
