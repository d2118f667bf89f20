"""Normalizations: their values, and the kernels that they become."""

import pytest
import torch
import torch.nn.functional as F_torch
from support import assert_close, evaluate

import trtdsl as td
import trtdsl.functional as F


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("dims", [None, [("N", 6, "H", "W")], [("N", "C", "H", "W")]])
def test_instance_norm_without_weights(dtype, dims):
    x = (torch.randn(2, 6, 5, 7) * 3 + 2).to(dtype)
    want = torch.nn.functional.instance_norm(x.double()).to(dtype)
    tolerance = 4 * float(torch.finfo(dtype).eps)
    assert_close(evaluate(F.instance_norm, x, dims=dims), want, tolerance)
    if dims is None:
        bias = torch.randn(6).to(dtype)
        want = torch.nn.functional.instance_norm(x.double(), bias=bias.double()).to(dtype)
        assert_close(evaluate(lambda x, b: F.instance_norm(x, bias=b), x, bias), want, tolerance)


SIZES = {
    "rows of a known length": ((2, 24, 46, 62), None, 1),
    "long rows": ((2, 8, 128, 160), None, 3),
    "more long rows": ((2, 32, 128, 160), None, 2),
    "rows of any length": ((2, 8, 30, 40), ("N", 8, "H", "W"), 3),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize("case", SIZES)
def test_instance_norm_between_convolutions_reads_its_input_in_one_or_two_kernels(case, dtype):
    shape, dims, most = SIZES[case]
    x = torch.randn(shape).to(dtype) * 3 + 20
    net = td.Network()
    names = {"N": td.Dim("N", min=1, opt=2, max=4), **{k: td.Dim(k, min=8, opt=30, max=64) for k in "HW"}}
    given = net.input("x", [names.get(size, size) for size in dims or shape], dtype)
    kernel = torch.eye(shape[1])[..., None, None].to(dtype)
    result = F.instance_norm(F.conv2d(given, kernel))
    net.output(F.conv2d(F.relu(result), kernel), "y")
    want = F_torch.relu(F_torch.instance_norm(x.double())).to(dtype)
    assert_close(td.interpret(net, {"x": x})["y"], want, 8 * float(torch.finfo(dtype).eps))
    between = [launch for launch in td.program(net).launches if launch.kind in ("pointwise", "reduction", "other")]
    assert len(between) == most
    map_bytes = x.numel() * x.element_size() if not dims else 0
    if map_bytes:  # the layer's kernels move the map six times
        assert sum(launch.bytes for launch in between) < 3.1 * map_bytes


@pytest.mark.parametrize("lowering", ["rows", "blocks", "layer"])
@pytest.mark.parametrize("shape", [(2, 3, 6, 4), (1, 3, 2, 5, 4), (2, 3, 1, 9)])
def test_instance_norm_of_values_far_from_zero(shape, lowering):
    """The moments of a row's parts are put together as exactly as those of the whole row."""
    x = torch.randn(shape) * 0.1 + torch.tensor([1000.0, -3.0, 0.0]).reshape(3, *[1] * (len(shape) - 2))
    weight, bias = torch.randn(3), torch.randn(3)
    want = F_torch.instance_norm(x.double(), weight=weight.double(), bias=bias.double())
    got = evaluate(lambda x, w, b: F.instance_norm(x, weight=w, bias=b, lowering=lowering), x, weight, bias)
    torch.testing.assert_close(got.double(), want, rtol=1e-3, atol=1e-2)


def test_a_row_of_one_dimension_has_no_blocks():
    x = td.Network().input("x", (2, 3, 50))
    with pytest.raises(td.UnsupportedError, match="'blocks' cannot express this: a row of one dimension has no parts"):
        F.instance_norm(x, lowering="blocks")
    assert F.instance_norm(x).shape == (2, 3, 50)


@pytest.mark.parametrize("constant", [True, False])
@pytest.mark.parametrize("shape", [(64, 4), (8, 4, 6), (3, 4, 5, 6)])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_batch_norm_in_half_precision_of_means_far_from_zero(dtype, shape, constant):
    """The shift is thousands of deviations: half precision would round it to more than the result, or to infinity."""
    torch.manual_seed(0)
    channels = (1, 4, *(1,) * (len(shape) - 2))
    mean, var = torch.tensor([1e3, 1e4, 6e4, 0.0]).to(dtype), torch.tensor([1e-2, 1.0, 1e-3, 1.0]).to(dtype)
    weight, bias = torch.rand(4).to(dtype) + 1, torch.randn(4).to(dtype)
    x = (mean.float().view(channels) + torch.randn(shape)).to(dtype)
    given = (mean, var, weight, bias)
    net = td.Network()
    operands = [net.constant(v) if constant else net.input(f"v{k}", (4,), dtype) for k, v in enumerate(given)]
    net.output(F.batch_norm(net.input("x", shape, dtype), *operands), "y")
    feeds = {"x": x} | ({} if constant else {f"v{k}": value for k, value in enumerate(given)})
    want = F_torch.batch_norm(x.double(), *(value.double() for value in given)).to(dtype)
    assert_close(td.interpret(net, feeds)["y"], want, 2 * float(torch.finfo(dtype).eps))


@pytest.mark.filterwarnings("ignore:Mismatch dtype")
@pytest.mark.parametrize("weighed", [None, "half", "float32"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_rms_norm_has_the_epsilon_and_the_dtype_of_torchs(dtype, weighed):
    """Of rows so small that the epsilon decides: torch's is that of float32, whatever the input's dtype is."""
    torch.manual_seed(0)
    x = (torch.randn(4, 32) * torch.tensor([1.0, 1e-2, 1e-3, 1e-4])[:, None]).to(dtype)
    weight = None if weighed is None else torch.rand(32).to(dtype if weighed == "half" else torch.float32)
    want = F_torch.rms_norm(x, (32,), weight)
    operands = [x] if weight is None else [x, weight]
    got = evaluate(lambda x, *weight: F.rms_norm(x, (32,), *weight), *operands)
    assert got.dtype == want.dtype
    torch.testing.assert_close(got, want, rtol=4 * float(torch.finfo(dtype).eps), atol=0)
