"""Explicit quantization against torch's own, and small networks in int8, fp8 and int4, interpreted and built."""

import pytest
import torch
from safetensors.torch import save_file
from support import assert_close, evaluate, layer_types

import trtdsl as td
import trtdsl.functional as F
import trtdsl.layers as L
from trtdsl.engine.compiling.compiler import compile_engine
from trtdsl.functional.pointwise.quantization import product_in_int4

GENERATOR = torch.Generator().manual_seed(0)


def randn(*shape):
    return torch.randn(*shape, generator=GENERATOR)


def test_int8_per_tensor():
    x = randn(4, 33) * 3
    expected = torch.fake_quantize_per_tensor_affine(x, 0.05, 0, -128, 127)
    assert_close(evaluate(lambda x: F.quantize(x, 0.05), x), (expected / 0.05).round().to(torch.int8))
    assert_close(evaluate(lambda x: F.dequantize(F.quantize(x, 0.05), 0.05), x), expected)


def test_halves_go_to_even():
    x = torch.tensor([0.5, 1.5, 2.5, -0.5, -1.5, 1000.0, -1000.0])
    assert evaluate(lambda x: F.quantize(x, 1.0), x).tolist() == [0, 2, 2, 0, -2, 127, -128]


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_int8_per_channel(axis):
    x = randn(4, 6, 5)
    scale = torch.rand(x.shape[axis], generator=GENERATOR) * 0.1 + 0.01
    zero = torch.zeros(len(scale), dtype=torch.int32)
    expected = torch.fake_quantize_per_channel_affine(x, scale, zero, axis % 3, -128, 127)
    got = evaluate(lambda x: F.dequantize(F.quantize(x, scale, axis=axis), scale, axis=axis), x)
    assert_close(got, expected)


@pytest.mark.parametrize(
    ("zero", "low", "high"), [(0, -128, 127), (128, 0, 255), (3, -7, 8), (0, 0, 127), (0, 0, 255), (-40, -128, 127)]
)
def test_fake_quantization_is_torchs_between_any_bounds(zero, low, high):
    x, w = randn(4, 33) * 3, randn(5, 33)
    expected = torch.fake_quantize_per_tensor_affine(x, 0.05, zero, low, high)
    assert_close(evaluate(lambda x: F.fake_quantize_per_tensor_affine(x, 0.05, zero, low, high), x), expected)
    scale, zeros = w.abs().amax(1) / 127.5, torch.full((5,), zero, dtype=torch.int32)
    expected = x @ torch.fake_quantize_per_channel_affine(w, scale, zeros, 0, low, high).mT

    def product(x):
        kernel = F.fake_quantize_per_channel_affine(x.network.constant(w), scale, zeros, 0, low, high)
        return F.linear(x, kernel)

    assert_close(evaluate(product, x), expected)
    expected = torch.fake_quantize_per_channel_affine(x[:, :5], scale, zeros, 1, low, high)
    got = evaluate(lambda x: F.fake_quantize_per_channel_affine(x, scale, zeros, 1, low, high), x[:, :5])
    assert_close(got, expected)


@pytest.mark.parametrize("most", [1, 7, 64, 90, 127])
@pytest.mark.parametrize("sign", [1, -1])
def test_whole_numbers_of_any_step_are_a_weight_of_int8(most, sign):
    """A greatest number of 64 steps is 64 or -128 in int8, and never 128."""
    weight = torch.randint(-most, most + 1, (8, 33), generator=GENERATOR) * 0.0125
    weight[:, 0] = most * 0.0125 * sign
    weight[3] = 0

    def product(x):
        return F.linear(F.fake_quantize_per_tensor_affine(x, 0.05, 0, -128, 127), x.network.constant(weight))

    x = randn(4, 33)
    expected = torch.fake_quantize_per_tensor_affine(x, 0.05, 0, -128, 127) @ weight.mT
    torch.testing.assert_close(evaluate(product, x), expected, rtol=1e-5, atol=1e-5)
    net = td.Network()
    net.output(product(net.input("x", (4, 33))), "y")
    assert {launch.dtype for launch in td.program(net).launches if launch.kind == "product"} == {"int8"}


def test_a_fake_quantization_with_computed_scales_is_refused():
    net = td.Network()
    x, scale = net.input("x", (2, 3)), net.input("scale", ())
    with pytest.raises(td.UnsupportedError, match="scale or zero point is computed: .*disable_observer"):
        F.fake_quantize_per_tensor_affine(x, scale, 0, -128, 127)
    one = torch.ones(1)
    with pytest.raises(td.UnsupportedError, match="disable_observer"):
        F.fused_moving_avg_obs_fake_quant(x, one, one, one, one, one, one, 0.01, -128, 127, 0)


@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize("each", [False, True], ids=["per tensor", "per channel"])
def test_fused_fake_quantization_has_the_scales_of_the_observed_bounds(each, symmetric):
    x, on, off = randn(4, 33) * 3, torch.ones(1), torch.zeros(1)
    low, high = (-torch.rand(4) - 1, 2 * torch.rand(4) + 1) if each else (torch.tensor(-1.0), torch.tensor(3.0))

    def given():  # other scales than the bounds', which torch overwrites
        return torch.full_like(low, 0.5).reshape(-1), torch.zeros(low.numel(), dtype=torch.int32)

    rest = 0.01, -128, 127, 0, each, symmetric
    expected = torch.fused_moving_avg_obs_fake_quant(x, off, on, low, high, *given(), *rest)
    got = evaluate(lambda x: F.fused_moving_avg_obs_fake_quant(x, off, on, low, high, *given(), *rest), x)
    assert_close(got, expected)
    net = td.Network()
    x, low = net.input("x", (4, 33)), net.input("low", low.shape)
    with pytest.raises(td.UnsupportedError, match="the bounds of a fake quantization are constants"):
        F.fused_moving_avg_obs_fake_quant(x, off, on, low, high, *given(), *rest)


def test_fp8():
    x = randn(4, 64) * 100
    expected = (x / 2.0).clamp(-448, 448).to(torch.float8_e4m3fn).float() * 2.0
    got = evaluate(lambda x: F.dequantize(F.quantize(x, 2.0, "float8_e4m3fn"), 2.0), x)
    assert_close(got, expected)


@pytest.mark.parametrize("blocks", [(32, 2), (4, 64)])
def test_int4_weights_in_blocks(blocks):
    weight = randn(32, 64)
    rows, columns = 32 // blocks[0], 64 // blocks[1]
    tiles = weight.reshape(blocks[0], rows, blocks[1], columns)
    scale = tiles.abs().amax((1, 3)) / 7
    wide = scale.repeat_interleave(rows, 0).repeat_interleave(columns, 1)
    expected = (weight / wide).round().clamp(-8, 7) * wide
    got = evaluate(
        lambda x: x + F.dequantize(F.quantize(x.network.constant(weight), scale, "int4"), scale), randn(1, 1)
    )
    assert_close(got - got[0, 0], expected - expected[0, 0])


def quantized(kind):
    """A linear layer with quantized weights, and what torch makes of the same numbers."""

    def network(x, w):
        if kind == "int4":  # weights alone
            weight = td.dequantize(td.quantize(w.weight, w.weight_scale, "int4"), w.weight_scale)
            return {"y": F.relu(x @ weight.t())}
        dtype = {"int8": "int8", "fp8": "float8_e4m3fn"}[kind]
        axis = 0 if kind == "int8" else None
        weight = td.dequantize(td.quantize(w.weight, w.weight_scale, dtype, axis), w.weight_scale, axis=axis)
        x = td.dequantize(td.quantize(x, w.input_scale, dtype), w.input_scale)
        return {"y": F.relu(x @ weight.t())}

    def narrow(x, scale):
        scale = scale[:, None] if scale.ndim == 1 else scale
        if kind == "fp8":
            return (x / scale).clamp(-448, 448).to(torch.float8_e4m3fn).float() * scale
        if kind == "int4":
            scale = scale.repeat_interleave(x.shape[1] // scale.shape[1], 1)
        low, high = (-8, 7) if kind == "int4" else (-128, 127)
        return (x / scale).round().clamp(low, high) * scale

    def reference(x, weights):
        weight = narrow(weights["weight"], weights["weight_scale"])
        if "input_scale" in weights:
            x = narrow(x, weights["input_scale"])
        return torch.relu(x @ weight.t())

    return network, reference


def test_a_row_of_one_group_has_two_scales():
    """docs/traps/builder-int4.md: with one the builder writes a kernel that no compiler takes."""
    net = td.Network()
    x = F.rms_norm(net.input("x", (td.Dim("N", min=1, opt=1, max=4), 128)), (128,))
    net.output(product_in_int4(x, net.constant(randn(64, 128))), "y")
    assert td.program(net, dims={"N": 1}).launch_count == 2


@pytest.mark.parametrize("kind", ["int8", "fp8", "int4"])
def test_a_network_with_scales_from_its_weights_file(kind, tmp_path):
    weight = randn(48, 64)
    weights = {"weight": weight, "weight_scale": weight.abs().amax(1) / 127, "input_scale": torch.tensor(0.03)}
    if kind == "fp8":
        weights["weight_scale"] = weight.abs().amax() / 448
    if kind == "int4":
        weights["weight_scale"] = weight.reshape(48, 4, 16).abs().amax(2) / 7
        del weights["input_scale"]
    save_file(weights, tmp_path / "w.safetensors")
    function, reference = quantized(kind)
    spec = td.network(
        inputs={"x": td.Input((td.Dim("N", min=1, opt=4, max=8), 64))}, weights=str(tmp_path / "w.safetensors")
    )(function)
    network = spec.define()
    x = randn(4, 64)
    assert_close(td.interpret(network, {"x": x})["y"], reference(x, weights))
    types = layer_types(network)
    assert types.count("DEQUANTIZE") == (1 if kind == "int4" else 2)
    assert types.count("QUANTIZE") == (0 if kind == "int4" else 2)
    assert compile_engine(network).data


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda x: F.quantize(x, 0.5, "uint8"), td.UnsupportedError, "not to uint8"),
        (lambda x: F.quantize(x, 0.5, "int4"), td.UnsupportedError, "int4 is for weights"),
        (lambda x: F.quantize(x, 0.0), td.ShapeError, "positive"),
        (lambda x: F.quantize(x, torch.tensor([1.0, -1.0]), axis=0), td.ShapeError, "positive"),
        (lambda x: F.quantize(x, torch.ones(3), axis=0), td.ShapeError, r"must be \(2,\), not \(3,\)"),
        (lambda x: F.quantize(x, torch.ones(2)), td.ShapeError, "one per index of axis=, or has 2 dimensions"),
        (lambda x: F.quantize(x, torch.ones(2, 3)), td.ShapeError, "does not divide"),
        (
            lambda x: F.quantize(x.network.constant(torch.ones(4, 4)), torch.ones(2, 2), "int4"),
            td.ShapeError,
            "one dim",
        ),
        (lambda x: F.dequantize(x, 0.5), td.UnsupportedError, "float32"),
        (lambda x: x.to(torch.float8_e5m2), td.UnsupportedError, r"to one fp8, torch\.float8_e4m3fn"),
        (lambda x: F.dequantize(F.quantize(x, 0.5), 0.5, "int32"), td.UnsupportedError, "not int32"),
    ],
)
def test_refusals(call, error, words):
    with pytest.raises(error, match=words):
        call(td.Network().input("x", (2, 8)))


def test_nvfp4_is_built_by_blocks_along_one_dimension():
    """Blocks of 16 whose scales are in fp8, by one scale for all."""
    x, double = randn(32, 64).half(), 0.5
    net = td.Network()
    data, scales = td.layers.dynamic_quantize(
        net.input("x", (32, 64), "float16"), (1, 16), "float4_e2m1fn_x2", "float8_e4m3fn", net.constant(double)
    )
    wide = td.layers.dequantize(scales, net.constant(double), "float32")
    net.output(td.layers.dequantize(data, wide, "float32", block_shape=(1, 16)), "y")
    parts = x.float().reshape(32, 4, 16)
    steps = (parts.abs().amax(-1, keepdim=True) / 6 / double).to(torch.float8_e4m3fn).float() * double
    grid = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6])
    away = ((parts / steps).abs()[..., None] - grid).abs()
    expected = (grid[away.argmin(-1)] * parts.sign() * steps).reshape(32, 64)
    first, second = away.sort(-1).values[..., :2].reshape(32, 64, 2).unbind(-1)
    untied = first < second
    assert_close(td.interpret(net, {"x": x})["y"][untied], expected[untied])
    assert td.program(net).launch_count <= 2 and not td.obstacles(net)


@pytest.mark.parametrize("operand", [torch.float16, torch.float32])
@pytest.mark.parametrize("weights", [torch.float16, torch.float32])
@pytest.mark.parametrize("dtype", ["int8", "float8_e4m3fn"])
def test_a_product_whose_operands_have_scales_of_any_dtype_is_built(operand, weights, dtype):
    """docs/traps/builder-scales.md: of float16 the sums are infinite, of two dtypes builders refuse them."""
    weight, x = randn(256, 128) + 1, randn(64, 128).abs().half()
    most = 127 if dtype == "int8" else 448
    step, scale = torch.tensor(2 / most), weight.abs().amax(1) / most

    def narrow(values, scale):
        whole = values.float() / scale
        whole = whole.round().clamp(-128, 127) if dtype == "int8" else whole.clamp(-448, 448).to(torch.float8_e4m3fn)
        return (whole.float() * scale).half().float()

    net = td.Network()
    rounded = F.quantize(net.input("x", (64, 128), "float16"), step.half(), dtype)
    codes = F.quantize(net.constant(weight), scale.to(weights).float(), dtype, axis=0)
    wide = F.dequantize(codes, scale.to(weights), dtype="float16", axis=0)
    net.output(F.linear(F.dequantize(rounded, step.half().to(operand), dtype="float16"), wide), "y")
    want = narrow(x, step.half().float()) @ narrow(weight, scale.to(weights).float()[:, None]).mT
    (got,) = td.interpret(net, {"x": x}).values()
    assert (got - want).norm() < 1e-2 * want.norm()
    (program,) = td.evaluate_engine(net, {"x": x}).values()
    assert (program - want).norm() < 1e-2 * want.norm()
    if dtype == "int8":
        assert "int8" in {launch.dtype for launch in td.program(net).launches if launch.kind == "product"}


@pytest.mark.parametrize("kind", ["AVERAGE", "MAX"])
@pytest.mark.parametrize("constant", [True, False])
def test_int8_is_pooled_as_its_numbers_are(kind, constant):
    codes = torch.randint(-128, 128, (1, 4, 8, 8), generator=torch.Generator().manual_seed(0)).to(torch.int8)
    net = td.Network()
    x = net.constant(codes) if constant else td.quantize(net.input("x", (1, 4, 8, 8)), 0.5)
    sides = {"window": (2, 2), "stride": (2, 2), "pre_padding": (0, 0), "post_padding": (0, 0)}
    net.output(td.dequantize(L.pooling(x, kind, **sides), 0.5), "y")
    feeds = {} if constant else {"x": 0.5 * codes.float()}
    pool = torch.nn.functional.max_pool2d if kind == "MAX" else torch.nn.functional.avg_pool2d
    expected = 0.5 * pool(codes.float(), 2).trunc()  # as integers are divided
    torch.testing.assert_close(td.interpret(net, feeds)["y"], expected)
    torch.testing.assert_close(td.evaluate_engine(net, feeds)["y"], expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_attention_whose_weights_alone_are_in_fp8_is_built_by_a_scale_of_any_dtype(dtype):
    net = td.Network()
    q, k, v = (net.input(name, (1, 2, 64, 64), dtype) for name in "qkv")
    scale = net.constant(torch.tensor(1 / 448))
    net.output(L.attention(q, k, v, quantize_scale=scale, quantize_dtype="float8_e4m3fn"), "y")
    assert td.program(net).launches
