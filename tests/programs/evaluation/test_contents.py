"""What a plan holds beside its texts."""

import re

import pytest
import torch

import trtdsl as td
import trtdsl.functional as F
import trtdsl.layers as L
from trtdsl.core.errors import ProgramDamagedError
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
    assert all(f"void {name}(" in text.sources()[name] for name in names)


def test_copies_of_a_kernel_that_differ_are_damage():
    """Each fused attention has a copy of its kernel's source, of which one was changed."""
    net = td.Network()
    x = net.input("x", (1, 2, 32, 64), torch.float16)
    y = F.scaled_dot_product_attention(x, x, x)
    net.output(F.scaled_dot_product_attention(y, x, y), "y")
    data = bytes(compile_engine(net).data)
    calls = list(re.finditer(rb"\.initialize\(DATA_TYPE_FP16[^;]*? (0x1p\+0f),", data))
    assert len(calls) == 2
    place = calls[0].start(1)
    changed = data[:place] + b"0x1p+1f" + data[place + 7 :]
    feeds = {"x": torch.randn(1, 2, 32, 64).half()}
    td.evaluate_engine(data, feeds, trust=True)
    with pytest.raises(ProgramDamagedError, match="two copies of the kernel .* differ"):
        td.evaluate_engine(changed, feeds, trust=True)


@pytest.mark.parametrize("scales", [1, 2])
@pytest.mark.parametrize("channels", [3])
def test_the_scales_of_quantized_tensors_are_found_behind_what_the_builder_leaves(channels, scales):
    """An odd number of floats: the pool begins at no multiple of 8."""
    net = td.Network()
    x, value = net.input("x", (channels, 5)), torch.rand(channels) + 0.5
    for number in range(scales):
        scale = net.constant(value[: channels - number])
        y = L.quantize(x[: channels - number], scale, axis=0)
        net.output(L.dequantize(y, scale, axis=0), f"y{number}")
    feeds = {"x": torch.randn(channels, 5) * 20}
    found, expected = td.evaluate_engine(net, feeds), td.interpret(net, feeds)
    for name, want in expected.items():
        torch.testing.assert_close(found[name], want)
