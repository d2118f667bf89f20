"""einsum follows the order in which its operands lie in memory."""

import pytest
import torch
from support import assert_close

import trtdsl as td
import trtdsl.functional as F
from trtdsl.core.errors import UsageError

N = td.Dim("N", min=1, opt=4, max=8)
EQUATIONS = {
    "nkctv,kvw->nctw": (3, 7, 7),
    "nkctv,kcvw->nctw": (3, 8, 7, 7),
    "nkctv,kvw->nwtc": (3, 7, 7),
    "nkctv,ck->ntv": (8, 3),
    "nkctv,tp->nkcpv": (6, 5),
}


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize("equation", EQUATIONS)
def test_after_a_convolution(equation, dtype, dynamic):
    torch.manual_seed(0)
    value, weight, other = torch.randn(2, 4, 6, 7), torch.randn(24, 4, 1, 1), torch.randn(EQUATIONS[equation])
    net = td.Network()
    x = F.conv2d(net.input("x", (N if dynamic else 2, 4, 6, 7), dtype), net.constant(weight, dtype))
    x = F.relu(x).reshape(-1, 3, 8, 6, 7)
    assert x.order == (0, 3, 4, 1, 2)
    net.output(F.einsum(equation, x, net.constant(other, dtype)), "y")
    value, weight, other = (v.to(dtype).double() for v in (value, weight, other))
    want = torch.einsum(equation, torch.conv2d(value, weight).relu().reshape(2, 3, 8, 6, 7), other)
    got = td.interpret(net, {"x": value.to(dtype)})["y"]
    assert_close(got, want.to(dtype), 1e-6 if dtype == torch.float32 else 4e-3)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_a_graph_convolution_transposes_nothing(dtype):
    net = td.Network()

    def conv(x, channels, size=1):
        weight = net.constant(torch.randn(channels, x.shape[1], size, 1), dtype)
        return F.conv2d(x, weight, net.constant(torch.randn(channels), dtype), padding=(size // 2, 0))

    x = F.relu(conv(net.input("x", (4, 64, 60, 18), dtype), 64, 3))
    y = conv(x, 192).reshape(4, 3, 64, 60, 18)
    y = F.relu(F.einsum("nkctv,kvw->nctw", y, net.constant(torch.randn(3, 18, 18), dtype)))
    net.output(F.relu(conv(y, 64, 3)), "y")
    program = td.program(net)
    inner = [launch for launch in program.launches if launch.rearranges and launch.lines]
    sizes = {operand.tensor: program.tensors[operand.tensor].bytes for launch in inner for operand in launch.writes}
    largest = 4 * 192 * 60 * 18 * dtype.itemsize
    assert not [name for name, size in sizes.items() if size == largest]


def test_explain_says_how_an_operand_lies():
    shapes = [(8, 3, 64, 300, 18), (3, 18, 18)]
    plan = td.explain_einsum("nkctv,kvw->nctw", *shapes, constants=[1], orders={0: (0, 3, 4, 1, 2)})
    assert [step.kind for step in plan.steps] == ["follow", "matrix product", "arrange"]
    assert "n k c t v lies in memory as n t v k c" in str(plan)
    # One reading of x and one writing of the result and of the constant.
    assert plan.bytes == 4 * (8 * 3 * 64 * 300 * 18 + 8 * 64 * 300 * 18 + 3 * 18 * 18)
    with pytest.raises(UsageError, match="ntvk"):
        td.explain_einsum("nkctv,kvw->nctw", *shapes, orders={0: "ntvk"})
    with pytest.raises(UsageError, match="operands"):
        td.explain_einsum("nkctv,kvw->nctw", *shapes, orders={2: "kvw"})
