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


IMAGE, TOKENS = (2, 64, 28, 30), (2, 128, 128)
KERNEL, OTHER, SCALE, SHIFT = rand(64, 64, 3, 3), rand(64, 64, 3, 3), rand(64), rand(64)
SQUARES, BIASES, POSITIONS = rand(3, 128, 128), rand(3, 128), rand(1, 4, 128, 128)


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


def attended(f, x, mask, bias, scale=None):
    """Attention of four heads of 32 with projections of their own, and the sum with what came in."""
    heads = [f.linear(x, low(x, w), low(x, b) if bias else None) for w, b in zip(SQUARES, BIASES, strict=True)]
    q, k, v = (y.reshape(*y.shape[:2], 4, 32).transpose(1, 2) for y in heads)
    y = f.scaled_dot_product_attention(q, k, v, mask, scale=scale).transpose(1, 2).reshape(x.shape)
    return x + f.linear(y, low(x, SQUARES[0]))


def attention_of_t5(f, x):
    """No biases, no scale, and a constant position bias."""
    return attended(f, x, low(x, POSITIONS), bias=False, scale=1.0)


def attention_of_bert(f, x):
    """A mask that hides keys, made of an input."""
    return attended(f, x, (x[:, :, 0] > -10.0)[:, None, None], bias=True)


# name -> (input's shape, function of a namespace and the input, launches and megabytes in float32, in float16)
CASES = {
    "a block of a UNet": (IMAGE, block_of_a_unet, (8, 7.203), (8, 3.614)),  # 9, 8.063; 11, 5.764
    "attention of T5": (TOKENS, attention_of_t5, (8, 4.981), (8, 1.638)),  # 9, 5.243; 8, 1.638
    "attention of BERT with a mask": (TOKENS, attention_of_bert, (11, 5.245), (9, 1.574)),  # 12, 5.507; 9, 1.574
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
