"""Parts of models of other libraries, by the programs that come out: each was worse than the road through ONNX once.

The limits are the launches and megabytes of the programs of TensorRT-RTX 1.7.1 in float32 and in float16; what it was
before stands behind.
"""

import pytest
import torch
import torch.nn.functional as TF

import trtdsl as td
import trtdsl.functional as F

G = torch.Generator().manual_seed(0)


def rand(*shape):
    return torch.randn(shape, generator=G) / 8


IMAGE = (2, 64, 28, 30)
KERNEL, OTHER, SCALE, SHIFT = rand(64, 64, 3, 3), rand(64, 64, 3, 3), rand(64), rand(64)


def low(x, value):
    return value.to(x.dtype)


def conv(f, x, kernel=KERNEL):
    return f.conv2d(x, low(x, kernel), low(x, SHIFT), padding=kernel.shape[2] // 2)


def block_of_a_unet(f, x):
    """diffusers' ResnetBlock2D: a group norm, SiLU and a convolution, twice, and what goes around them."""
    y = x
    for kernel in (KERNEL, OTHER):
        y = conv(f, f.silu(f.group_norm(y, 8, low(x, SCALE), low(x, SHIFT))), kernel)
    return x + y


# name -> (input's shape, function of a namespace and the input, launches and megabytes in float32, in float16)
CASES = {
    "a block of a UNet": (IMAGE, block_of_a_unet, (8, 7.203), (8, 3.614)),  # 9, 8.063; 11, 5.764
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=["fp32", "fp16"])
@pytest.mark.parametrize("case", CASES)
def test_launches_bytes_and_values(case, dtype):
    shape, function, *limits = CASES[case]
    launches, megabytes = limits[dtype == torch.float16]
    net = td.Network()
    with net.current():
        net.output(function(F, net.input("x", shape, dtype)), "y")
    program = td.program(net)
    assert program.launch_count <= launches
    assert round(program.bytes / 1e6, 3) <= megabytes
    if dtype == torch.float32:
        x = rand(*shape)
        torch.testing.assert_close(td.interpret(net, {"x": x})["y"], function(TF, x), rtol=1e-4, atol=1e-4)
