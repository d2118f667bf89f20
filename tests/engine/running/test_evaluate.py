"""Engines evaluated on the CPU: the program in the plan gives what torch gives, and a damaged program does not.

The tests of trtdsl.programs.evaluation.built_here, trtdsl.programs.evaluation.evaluator,
trtdsl.programs.evaluation.kernels and
trtdsl.programs.evaluation.memory.
"""

import os
import re
import struct
from pathlib import Path

import pytest
import torch
import torch.nn.functional as nn

import trtdsl as td
import trtdsl.functional as F
import trtdsl.layers as L
from trtdsl.core.errors import (
    EngineDamagedError,
    FeedNameError,
    ProgramDamagedError,
    ProgramFaultError,
    UnevaluatedProgramError,
    UsageError,
)
from trtdsl.engine.compiling.compiler import compile_engine
from trtdsl.engine.compiling.config import BuildConfig
from trtdsl.engine.running.evaluate import evaluator_of, evaluator_of_plan
from trtdsl.programs.evaluation import built_here, kernels
from trtdsl.programs.evaluation.library import cast
from trtdsl.programs.plan import MARK, START

NETWORKS = Path(__file__).parents[3] / "networks"
needs_compiler = pytest.mark.skipif(kernels.compiler() is None, reason="needs a C++ compiler")
pytestmark = needs_compiler


def random(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def network(write, *shapes, outputs=("y",), dtype=torch.float32):
    """A network of inputs x0, x1, … of these shapes."""
    net = td.Network()
    results = write(*(net.input(f"x{index}", shape, dtype=dtype) for index, shape in enumerate(shapes)))
    for name, result in zip(outputs, results if isinstance(results, tuple) else (results,), strict=True):
        net.output(result, name)
    return net


def feeds_of(*tensors):
    return {f"x{index}": tensor for index, tensor in enumerate(tensors)}


# -- library operations, fusions, kernels: one small network each, against torch ---------------------------------------

SMALL = {
    "conv2d": (
        lambda x, w: F.conv2d(x, w, stride=(2, 1), padding=(1, 0)),
        lambda x, w: nn.conv2d(x, w, stride=(2, 1), padding=(1, 0)),
        ((2, 3, 9, 8),),
        (4, 3, 3, 2),
    ),
    "depthwise conv1d": (
        lambda x, w: F.conv1d(x, w, groups=4, dilation=2, padding=2),
        lambda x, w: nn.conv1d(x, w, groups=4, dilation=2, padding=2),
        ((2, 4, 11),),
        (4, 1, 3),
    ),
    "conv3d": (
        lambda x, w: F.relu(F.conv3d(x, w)),
        lambda x, w: nn.relu(nn.conv3d(x, w)),
        ((1, 2, 5, 6, 7),),
        (3, 2, 3, 2, 3),
    ),
    "conv_transpose2d": (
        lambda x, w: F.conv_transpose2d(x, w, stride=2, padding=1, output_padding=1),
        lambda x, w: nn.conv_transpose2d(x, w, stride=2, padding=1, output_padding=1),
        ((1, 3, 5, 4),),
        (3, 2, 3, 3),
    ),
    "linear": (
        lambda x, w: F.gelu(F.linear(x, w)),
        lambda x, w: nn.gelu(nn.linear(x, w)),
        ((5, 8),),
        (6, 8),
    ),
    "matmul": (
        lambda x, y: F.matmul(x, y.transpose(-1, -2)),
        lambda x, y: x @ y.mT,
        ((3, 5, 8), (3, 7, 8)),
        None,
    ),
    "max_pool2d": (
        lambda x: F.max_pool2d(x, 3, stride=2, padding=1),
        lambda x: nn.max_pool2d(x, 3, stride=2, padding=1),
        ((1, 3, 9, 8),),
        None,
    ),
    "avg_pool2d": (
        lambda x: F.avg_pool2d(x, 3, stride=2, padding=1, count_include_pad=False),
        lambda x: nn.avg_pool2d(x, 3, stride=2, padding=1, count_include_pad=False),
        ((1, 3, 9, 8),),
        None,
    ),
    "softmax": (lambda x: F.softmax(x, -1), lambda x: x.softmax(-1), ((3, 70),), None),
    "layer_norm": (lambda x: F.layer_norm(x, (33,)), lambda x: nn.layer_norm(x, (33,)), ((2, 5, 33),), None),
    "reductions": (
        lambda x: F.cat([x.sum(1), x.amax(1), x.amin(1), x.mean(1), x.prod(1)]),
        lambda x: torch.cat([x.sum(1), x.amax(1), x.amin(1), x.mean(1), x.prod(1)]),
        ((3, 40, 5),),
        None,
    ),
    "transposes": (
        lambda x: F.cat([x.permute(2, 0, 1).reshape(7, 6), x.permute(2, 1, 0).reshape(7, 6)], 1),
        lambda x: torch.cat([x.permute(2, 0, 1).reshape(7, 6), x.permute(2, 1, 0).reshape(7, 6)], 1),
        ((2, 3, 7),),
        None,
    ),
    "bilinear": (
        lambda x: F.interpolate(x, size=(7, 9), mode="bilinear"),
        lambda x: nn.interpolate(x, size=(7, 9), mode="bilinear"),
        ((1, 2, 4, 5),),
        None,
    ),
    "pointwise": (
        lambda x, y: F.sin(x) * F.exp(-y) + F.sigmoid(x) / (1.0 + y * y) - F.sqrt(F.abs(x)) ** 1.5,
        lambda x, y: x.sin() * (-y).exp() + x.sigmoid() / (1.0 + y * y) - x.abs().sqrt() ** 1.5,
        ((4, 1, 5), (3, 1)),
        None,
    ),
}


@pytest.mark.parametrize("name", SMALL)
def test_small_networks_equal_torch(name):
    write, reference, shapes, weight = SMALL[name]
    feeds = [random(*shape, seed=index) for index, shape in enumerate(shapes)]
    if weight is not None:
        value = random(*weight, seed=9)
        net = network(lambda x: write(x, value), *shapes)
        expected = reference(*feeds, value)
    else:
        net, expected = network(write, *shapes), reference(*feeds)
    got = td.evaluate_engine(net, feeds_of(*feeds))["y"]
    torch.testing.assert_close(got, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("rows", [3, td.Dim("N", min=1, opt=3, max=4)])
@pytest.mark.parametrize(("start", "end", "step"), [(0, 3, 1), (5, 9, 2), (0.0, 3.0, 1.0), (3, 0, -1)])
def test_a_loop_that_counts_equals_torch(start, end, step, rows):
    """docs/traps/builder-loops.md"""
    net = td.Network()
    with net.current():
        x = net.input("x", (rows, 4))

        def goes_on(i, h):
            return i > end if step < 0 else i < end

        count, last = td.while_loop(goes_on, lambda i, h: (i + step, F.tanh(h)), (start, x))
        net.output(last, "last")
        net.output(count, "count")
    feed, expected, number = random(3, 4), random(3, 4), start
    while goes_on(number, None):
        number, expected = number + step, expected.tanh()
    got = td.evaluate_engine(net, {"x": feed})
    torch.testing.assert_close(got["last"], expected)
    assert got["count"] == number


@pytest.mark.parametrize("chosen", [(0, 1, 2), (1, 2, 3), (0, 2, 3), (0, 1, 3), (0, 1, 2, 3)])
@pytest.mark.parametrize("pooled", range(4))
def test_each_of_several_outputs_is_written(chosen, pooled):
    """docs/traps/builder-outputs.md"""
    net = td.Network()
    with net.current():
        values = [F.conv2d(net.input("x", (1, 8, 5, 7)), random(4, 8, 1, 1))]
        for function in (F.sin, F.abs, F.cos):
            values.append(function(values[-1]))
        for index in chosen:
            net.output(values[index], f"v{index}")
        net.output(F.max_pool2d(values[pooled], 3), "pooled")
    feed = random(1, 8, 5, 7, seed=1)
    expected = [nn.conv2d(feed, random(4, 8, 1, 1))]
    for function in (torch.sin, torch.abs, torch.cos):
        expected.append(function(expected[-1]))
    got = td.evaluate_engine(net, {"x": feed})
    for index in chosen:
        torch.testing.assert_close(got[f"v{index}"], expected[index], rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(got["pooled"], nn.max_pool2d(expected[pooled], 3), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("rows", [3, td.Dim("N", min=1, opt=3, max=4)])
@pytest.mark.parametrize("bound", [0.137, -0.5, 2.0, 10.0, 1e-5, 1e7])
def test_a_branch_on_a_float_equals_torch_in_both_its_ways(bound, rows):
    """The host's constant has decimal digits ("2f32"); a select reads what the other branch has not written."""
    net = td.Network()
    with net.current():
        x = net.input("x", (rows, 4))
        net.output(td.cond(x.amax() > bound, lambda x: x + 1, lambda x: x - 1, (x,)), "y")
    run = evaluator_of(net)
    for x in (torch.full((3, 4), bound + scale * max(abs(bound), 1.0)) for scale in (0.3, -0.3)):
        torch.testing.assert_close(run({"x": x})["y"], x + 1 if x.amax() > bound else x - 1)


@pytest.mark.parametrize("size", [1, 2, 5, 8])
def test_a_dynamic_engine_is_one_for_all_sizes(size):
    net = td.Network()
    with net.current():
        x = net.input("x", (td.Dim("N", min=1, opt=4, max=8), 6, 10))
        net.output(F.softmax(F.linear(x, random(7, 10)), -1).sum(1), "y")
    feed = random(size, 6, 10, seed=2)
    got = td.evaluate_engine(net, {"x": feed})["y"]
    torch.testing.assert_close(got, (feed @ random(7, 10).T).softmax(-1).sum(1), rtol=1e-5, atol=1e-5)


def test_selections_scans_and_group_norms_equal_torch_at_every_size():
    net = td.Network()
    with net.current():
        x = net.input("x", (td.Dim("N", min=1, opt=2, max=4), 6, td.Dim("T", min=2, opt=8, max=16)))
        results = (*F.topk(x, 2, 1), *F.sort(x, -1), F.flip(F.cumsum(F.flip(x, (2,)), 2), (2,)), F.group_norm(x, 3))
        for name, result in zip("abcdef", results, strict=True):
            net.output(result, name)
    evaluate = evaluator_of(net)
    for feed in (random(3, 6, 5), random(2, 6, 8), torch.randint(2, (4, 6, 16)).float()):
        expected = (
            *feed.topk(2, 1),
            *feed.sort(dim=-1, stable=True),
            feed.flip(2).cumsum(2).flip(2),
            nn.group_norm(feed, 3),
        )
        got = evaluate({"x": feed})
        for name, value in zip("abcdef", expected, strict=True):
            if name != "b":
                torch.testing.assert_close(got[name], value, rtol=1e-5, atol=1e-5)
        assert torch.equal(feed.gather(1, got["b"]), got["a"])
        assert bool((got["b"][:, 0] < got["b"][:, 1])[got["a"][:, 0] == got["a"][:, 1]].all())  # of ties, the first


@pytest.mark.parametrize("dtype", [torch.int8, torch.float8_e4m3fn])
def test_quantized_networks_equal_torch(dtype):
    """The constants of these engines do not begin at a multiple of 8 bytes in the file."""
    weight, x, scale = random(8, 16), random(5, 16, seed=1).clamp(-3, 3), 0.03125
    steps = weight.abs().amax(1, keepdim=True) / 100
    net = td.Network()
    with net.current():
        sizes = [net.constant(value) for value in (torch.tensor(scale), steps.flatten())]
        given = L.dequantize(L.quantize(net.input("x", (5, 16)), sizes[0], dtype=dtype), sizes[0])
        known = L.dequantize(L.quantize(net.constant(weight), sizes[1], dtype=dtype, axis=0), sizes[1], axis=0)
        net.output(F.relu(F.linear(given, known)), "y")

    def narrow(value):
        return (value.round() if dtype == torch.int8 else value).to(dtype).float()

    expected = ((narrow(x / scale) * scale) @ (narrow(weight / steps) * steps).T).relu()
    torch.testing.assert_close(td.evaluate_engine(net, {"x": x})["y"], expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("inner", "outer"), [(0.05, 0.05), (0.05, 0.03), (0.01, 0.03), (0.05, 0.2)])
@pytest.mark.parametrize("kind", ["avg_pool2d", "max_pool2d"])
def test_a_pooling_in_int8_has_a_factor_and_is_rounded(kind, inner, outer):
    """What is pooled between two roundings is int8, by the ratio of their scales; torch pools what they mean."""
    x, net = 2 * random(1, 16, 9, 9), td.Network()

    def faked(x, scale, functions=F):
        return functions.fake_quantize_per_tensor_affine(x, scale, 0, -128, 127)

    net.output(faked(getattr(F, kind)(faked(net.input("x", x.shape), inner), 3, 2, 1), outer), "y")
    (pooling,) = (launch for launch in td.program(net).launches if launch.kind == "pooling")
    assert pooling.dtype == "int8"
    wanted = faked(getattr(torch.nn.functional, kind)(faked(x, inner, torch), 3, 2, 1), outer, torch)
    away = (td.evaluate_engine(net, {"x": x})["y"] - wanted).abs()
    assert float(away.max()) < 1.01 * outer and float((away > 0.01 * outer).float().mean()) < 0.02  # ties


ATTENTIONS = {
    "masked": lambda F, q, k, m: F.scaled_dot_product_attention(q, k, k, attn_mask=m),
    "causal": lambda F, q, k, m: F.scaled_dot_product_attention(q, k, k * 2, is_causal=True) + m[0, 0, 0, 0],
    "one query": lambda F, q, k, m: F.scaled_dot_product_attention(q[:, :, :1], k, k) + m[0, 0, 0, 0],
    "shared heads": lambda F, q, k, m: F.scaled_dot_product_attention(
        q, k[:, :2] * 1, k[:, 2:] * 1, attn_mask=m, enable_gqa=True
    ),
}


def test_a_weight_in_4_bits_equals_torch():
    """A product of one row, whose weight is two codes a byte; in torch its rows are rounded in groups of 128."""
    draw = torch.Generator().manual_seed(3)
    x, weight = torch.randn(1, 256, generator=draw), torch.randn(96, 256, generator=draw)
    groups = weight.reshape(-1, 128)
    steps = groups.abs().amax(1) / 7

    @td.network(inputs={"x": td.Input((1, 256))})
    def row(x):
        codes = td.quantize(x.network.constant(groups), steps, "int4", axis=0)
        wide = td.dequantize(codes, steps, axis=0).reshape(96, 256)
        return {"y": (x.unsqueeze(-2) * wide).sum(-1)}

    network = row.define()
    assert any(launch.dtype == "int4" for launch in td.program(network).launches)
    rounded = (groups / steps[:, None]).round().clamp(-8, 7) * steps[:, None]
    wanted = x.double() @ rounded.reshape(96, 256).double().T
    torch.testing.assert_close(td.evaluate_engine(network, {"x": x})["y"].double(), wanted, atol=1e-4, rtol=1e-4)


def test_a_product_that_writes_fp8_equals_torch():
    """The first of two products rounds its result by the second one's scale: to fp8, not to whole numbers."""
    draw = torch.Generator().manual_seed(0)
    x, *weights = (torch.randn(64, 64, generator=draw) for _ in range(3))
    fp8, net = torch.float8_e4m3fn, td.Network()

    def rounded(x, scale):
        return td.dequantize(td.quantize(x, scale, fp8), scale, "float16")

    one, other = (rounded(net.constant(weight.half()), 0.01) for weight in weights)
    y = F.linear(rounded(F.linear(rounded(net.input("x", (64, 64)).half(), 0.01), one), 0.1), other)
    net.output(y.float(), "y")
    assert "float8_e4m3fn" in {launch.dtype for launch in td.program(net).launches[2:]}

    def codes(x, scale):
        step = torch.tensor(scale).half()
        return (x.half() / step).float().clamp(-448, 448).to(fp8).double() * step.double()

    between = codes(codes(x, 0.01) @ codes(weights[0], 0.01).T, 0.1)
    noise = td.evaluate_engine(net, {"x": x})["y"] - (expected := between @ codes(weights[1], 0.01).T)
    assert noise.square().sum() < 1e-3 * expected.square().sum()


@pytest.mark.parametrize("name", ATTENTIONS)
def test_fused_attention_equals_torch(name):
    net, half = td.Network(), torch.float16
    with net.current():
        size = td.Dim("T", min=2, opt=16, max=32)
        q, k = (net.input(name, (2, 4, size, 32), dtype=half) for name in "qk")
        mask = net.input("m", (1, 4, size, size), dtype=half)
        net.output(ATTENTIONS[name](F, q, k, mask), "y")
    evaluate = evaluator_of(net)
    for length in (16, 7):
        q, k = (random(2, 4, length, 32, seed=seed).half() for seed in range(2))
        mask = random(1, 4, length, length, seed=2).half() / 16
        expected = ATTENTIONS[name](nn, q.float(), k.float(), mask.float())
        got = evaluate({"q": q, "k": k, "m": mask})["y"]
        torch.testing.assert_close(got.float(), expected, rtol=4e-3, atol=4e-3)


def test_a_query_that_sees_no_key_is_refused():
    net = td.Network()
    with net.current():
        q, mask = (net.input(name, (2, 4, 16, size), dtype=torch.float16) for name, size in (("q", 32), ("m", 16)))
        net.output(L.attention(q, q, q, mask=mask), "y")
    feeds = {"q": random(2, 4, 16, 32).half(), "m": torch.full((2, 4, 16, 16), -torch.inf).half()}
    with pytest.raises(UnevaluatedProgramError, match="_gemm_mha.* a query that sees no key is not known"):
        td.evaluate_engine(net, feeds)


def test_attention_of_several_queries_over_one_key_is_refused():
    """Which threads hold the one weight is in NVIDIA's header."""
    net = network(lambda q, k: L.attention(q, k, k), (1, 1, 2, 3), (1, 1, 1, 3))
    with pytest.raises(UnevaluatedProgramError, match="launch 0, .*: rows of fewer elements than results"):
        td.evaluate_engine(net, feeds_of(random(1, 1, 2, 3), random(1, 1, 1, 3)))


@pytest.mark.parametrize("precision", [None, "fp16", "bf16"])
def test_the_spatial_transformer_equals_the_interpreter(precision):
    net = td.load_spec(str(NETWORKS / "stn.py")).define(precision=precision)
    feed = {"x": random(3, 1, 28, 28)}
    got, expected = td.evaluate_engine(net, feed), td.interpret(net, feed)
    room = {None: 1e-5, "fp16": 5e-3, "bf16": 4e-2}[precision]
    for name, value in expected.items():
        torch.testing.assert_close(got[name], value, rtol=room, atol=room)


@pytest.mark.parametrize("order", [("a", "b"), ("b", "a")])
def test_outputs_that_the_program_calls_otherwise_are_told_apart(order):
    def normed(x, weight):
        return x * F.rsqrt(F.mean(x * x, (-1,), keepdim=True) + 1e-6) * weight

    net = td.Network()
    first = normed(F.linear(net.input("x0", (4, 8, 16)), random(16, 16)), random(16, seed=1))
    results = {"a": first, "b": normed(F.linear(first, random(16, 16, seed=2)), random(16, seed=3))}
    for name in order:
        net.output(results[name], name)
    feeds = feeds_of(random(4, 8, 16, seed=4))
    found, expected = td.evaluate_engine(net, feeds), td.interpret(net, feeds)
    assert list(found) == list(order)
    for name in order:
        torch.testing.assert_close(found[name], expected[name], rtol=1e-4, atol=1e-5)


# -- damaged engines ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def victim():
    """An engine of a convolution with a bias, a product, reductions and pointwise kernels; its feeds and results."""

    def write(x):
        x = F.relu(F.conv2d(x, random(8, 3, 3, 3), random(8, seed=1))).flatten(2)
        y = F.linear(F.softmax(x, -1), random(36, 36, seed=2))
        return F.minimum(y * 2.0, F.sin(x)), y.amax(-1)

    net = network(write, (2, 3, 8, 8), outputs=("y", "z"))
    data = bytes(compile_engine(net, BuildConfig(tf32=False)).data)
    feeds = feeds_of(random(2, 3, 8, 8, seed=3))
    return data, feeds, td.interpret(net, feeds)


def edited(data, change):
    """The engine with its program's text changed, in as many bytes: blanks make up for the difference."""
    start = next(m.end() for m in re.finditer(re.escape(MARK), data) if data[m.end() + 12 :].startswith(START)) + 12
    length = struct.unpack_from("<Q", data, start - 8)[0]
    text = change(data[start : start + length].decode())
    assert text != data[start : start + length].decode()
    text = text.replace("  lpadding", " lpadding", max(len(text) - length, 0)).ljust(length)
    return data[:start] + text.encode() + data[start + length :]


def caught(data, feeds, expected):
    """Whether the evaluation of an engine finds a fault, or gives something else; to know nothing of it is no catch."""
    try:
        got = td.evaluate_engine(data, feeds, trust=True)
    except (ProgramFaultError, ProgramDamagedError):
        return True
    return any(not torch.allclose(got[name], value, rtol=1e-4, atol=1e-5) for name, value in expected.items())


def test_the_victim_itself_is_fine(victim):
    assert not caught(*victim)


def test_a_bias_that_is_switched_off_is_an_operand_that_nothing_uses(victim):
    data, feeds, _ = victim
    with pytest.raises(UnevaluatedProgramError, match="corrltn has 1 operands more than are known"):
        td.evaluate_engine(edited(data, lambda text: text.replace("bias=true", "bias=false", 1)), feeds, trust=True)


def test_a_weight_whose_strides_are_transposed_is_caught(victim):
    data, feeds, expected = victim

    def change(text):
        return re.sub(
            r"(const_payload_size=864 dims=\{ 8 3 3 3 \}.*?strides=\{ )(\d+) (\d+) (\d+) (\d+) ",
            r"\1\2 \3 \5 \4 ",
            text,
        )

    assert caught(edited(data, change), feeds, expected)


def test_two_live_tensors_in_one_place_are_named(victim):
    data, feeds, _ = victim

    def change(text):
        return re.sub(r'(offset=)\d+( rank0=0 region="devmem")', r"\g<1>0\2", text)

    with pytest.raises(
        ProgramFaultError, match=r"launch \d+, .*\(.*test_evaluate.py:\d+.*\), (reads|writes to) .* where .* lies"
    ):
        td.evaluate_engine(edited(data, change), feeds, trust=True)


def test_a_bit_of_a_weight_is_caught(victim):
    data, feeds, expected = victim
    weight = random(36, 36, seed=2).numpy().tobytes()
    place = data.find(weight[:16])
    place = place if place >= 0 else data.find(random(8, 3, 3, 3).permute(0, 2, 3, 1).numpy().tobytes()[:16])
    assert place >= 0
    changed = bytearray(data)
    changed[place + 3] ^= 0x01  # of the exponent
    assert caught(bytes(changed), feeds, expected)


def test_a_minimum_that_becomes_a_maximum_in_a_kernel_is_caught(victim):
    data, feeds, expected = victim
    name = b"__myln_min___myln_float___myln_float("
    begin = data.rfind(b"= " + name)
    assert begin > 0
    assert caught(data.replace(b"= " + name, b"= " + name.replace(b"min", b"max")), feeds, expected)


FRESH = {
    "a launch is dropped": lambda text: re.sub(r"\n  function=\{[^\n]*", "", text, count=1),
    "a kernel's operands are exchanged": lambda text: re.sub(
        r'(function=[^\n]* args=\{ )("[^"]+") ("[^"]+")', r"\1\3 \2", text, count=1
    ),
    "a convolution is scaled": lambda text: re.sub(r"(corrltn=[^\n]* alpha=)3F800000", r"\g<1>40000000", text),
    "a product is scaled": lambda text: re.sub(r"(fully_connected=[^\n]* alpha=)3F800000", r"\g<1>BF800000", text),
    "two biases are taken from one place": lambda text: re.sub(
        r'(name="__mye\d+\w*" offset=)1( [^\n]*-consts )', r"\g<1>0\2", text
    ),
    "a block is missing": lambda text: re.sub(r"grid = \{ ([2-9]) ", lambda m: f"grid = {{ {int(m[1]) - 1} ", text),
}


def test_a_read_of_what_nothing_wrote_is_named(victim):
    data, feeds, _ = victim
    with pytest.raises(ProgramFaultError, match=r"launch 0, .* reads .*, which nothing wrote"):
        td.evaluate_engine(edited(data, FRESH["a launch is dropped"]), feeds, trust=True)


def test_a_launch_on_another_stream_races_where_no_event_orders_it(victim):
    data, feeds, _ = victim

    def change(text):
        first, *rest = text.replace("n_streams = 1", "n_streams = 2").split(" stream=0 ")
        return f"{first} stream=0 {rest[0]} stream=1 {' stream=0 '.join(rest[1:])}"

    with pytest.raises(ProgramFaultError, match=r"launch 1, .* races with launch 0, .*: streams 1 and 0 use one piece"):
        td.evaluate_engine(edited(data, change), feeds, trust=True)


def test_a_stream_that_the_program_has_not_is_named(victim):
    data, feeds, _ = victim
    with pytest.raises(ProgramFaultError, match="is on stream 1, and the program has 1"):
        td.evaluate_engine(edited(data, lambda text: text.replace(" stream=0 ", " stream=1 ", 1)), feeds, trust=True)


def test_a_block_of_more_threads_than_its_kernel_takes_is_named():
    net = network(lambda x: x.cumsum(1), (8, 64))
    data, feeds = bytes(compile_engine(net, BuildConfig(tf32=False)).data), feeds_of(random(8, 64))
    fewer = re.sub(rb"__launch_bounds__\((\d+)\)", lambda m: b"__launch_bounds__(8%s)" % (b" " * (len(m[1]) - 1)), data)
    with pytest.raises(ProgramFaultError, match=r"has blocks of \d+ threads, and its kernel takes 8"):
        td.evaluate_engine(fewer, feeds, trust=True)


def test_shared_memory_that_is_smaller_than_what_is_used_is_named():
    net = network(lambda x: F.log_softmax(x @ random(64, 64), 1), (64, 64))
    data, feeds = bytes(compile_engine(net, BuildConfig(tf32=False)).data), feeds_of(random(64, 64, seed=1))
    with pytest.raises(ProgramFaultError, match="writes behind its shared memory"):
        td.evaluate_engine(edited(data, lambda text: re.sub(r"shmem=[1-9]\d*", "shmem=0", text)), feeds, trust=True)


@pytest.mark.parametrize(("shape", "barrier"), [((16, 300), b"__syncthreads();"), ((64, 64), b"__syncwarp();")])
def test_a_kernel_that_misses_a_barrier_races_with_itself(shape, barrier):
    """In the order of the threads' numbers its result is right."""
    net = network(lambda x: F.softmax(x * 2, -1), shape)
    data, feeds = bytes(compile_engine(net, BuildConfig(tf32=False)).data), feeds_of(random(*shape))
    assert barrier in data
    with pytest.raises(ProgramFaultError, match="launch 0, .* races with itself"):
        td.evaluate_engine(data.replace(barrier, b";".rjust(len(barrier))), feeds, trust=True)


def test_a_kernel_that_writes_over_what_other_threads_read_races_with_itself():
    weights = random(3, 3, 1, 1)
    net = network(lambda x: F.conv2d(F.conv2d(x, weights).permute(0, 1, 3, 2) * 2, weights), (1, 3, 32, 32))
    data, feeds = bytes(compile_engine(net, BuildConfig(tf32=False)).data), feeds_of(random(1, 3, 32, 32))

    def change(text):
        return re.sub(r'(name="__mye\d+_4" offset=)0', r"\g<1>12288", text).replace('layers="running/', 'layers="', 1)

    with pytest.raises(ProgramFaultError, match="launch 2, __myl_TranMul.* races with itself"):
        td.evaluate_engine(edited(data, change), feeds, trust=True)


def test_a_setting_of_a_library_that_is_always_the_same_is_refused_otherwise():
    net = network(lambda x: x @ random(64, 64), (64, 64))
    data, feeds = bytes(compile_engine(net, BuildConfig(tf32=False)).data), feeds_of(random(64, 64, seed=1))
    changed = edited(data, lambda text: text.replace("accumulation_type=0", "accumulation_type=1"))
    with pytest.raises(UnevaluatedProgramError, match="has the setting accumulation_type"):
        td.evaluate_engine(changed, feeds, trust=True)


@pytest.mark.parametrize("what", ["the operand of a product", "the memory that an operation computes in"])
def test_a_library_that_writes_to_its_operands_is_named(what):
    net = network(lambda x: x @ random(64, 64) @ random(64, 64, seed=1) @ random(64, 64, seed=2), (64, 64))
    data, feeds = bytes(compile_engine(net, BuildConfig(tf32=False)).data), feeds_of(random(64, 64, seed=1))

    def change(text):
        if what.startswith("the operand"):
            return re.sub(r'(name="(?!__scratch)[^"]*" offset=)\d+( rank0=0 region="devmem")', r"\g<1>0\2", text)
        return re.sub(r'(name="__scratch[^"]*" offset=)\d+', r"\g<1>0", text)

    with pytest.raises(ProgramFaultError, match="writes to .*, where .* lies"):
        td.evaluate_engine(edited(data, change), feeds, trust=True)


def test_a_bool_that_is_written_in_part_is_named():
    net = network(lambda x: x > -100, (40, 50))
    data, feeds = bytes(compile_engine(net, BuildConfig(tf32=False)).data), feeds_of(random(40, 50))
    fewer = edited(data, lambda text: re.sub(r"grid = \{ [2-9] ", "grid = { 1 ", text))
    with pytest.raises(ProgramFaultError, match="no launch writes the output"):
        td.evaluate_engine(fewer, feeds, trust=True)


def test_a_tensor_that_reaches_outside_of_its_memory_is_named(victim):
    data, feeds, _ = victim
    change = lambda text: re.sub(r'offset=\d+( rank0=0 region="devmem")', r"offset=99999872\1", text, count=1)  # noqa: E731
    with pytest.raises(ProgramFaultError, match="lies outside of its memory"):
        td.evaluate_engine(edited(data, change), feeds, trust=True)


def test_a_tensor_that_is_not_aligned_is_named(victim):
    data, feeds, _ = victim
    change = lambda text: re.sub(r'offset=\d+( rank0=0 region="devmem")', r"offset=68\1", text, count=1)  # noqa: E731
    with pytest.raises(ProgramDamagedError, match="is not aligned as it says"):
        td.evaluate_engine(edited(data, change), feeds, trust=True)


@pytest.mark.parametrize("change", FRESH.values(), ids=FRESH)
def test_a_damaged_program_is_caught(victim, change):
    data, feeds, expected = victim
    assert caught(edited(data, change), feeds, expected)


def replaced(pattern, replacement, which=0):
    """Changes one place in the program's text."""

    def change(text):
        match = list(re.finditer(pattern, text))[which]
        return text[: match.start()] + match.expand(replacement) + text[match.end() :]

    return lambda data: edited(data, change)


def computed_otherwise(before, after, which):
    """Changes one operation of a kernel's source."""
    before, after = (f"= __myln_{name}___myln_float___myln_float(".encode() for name in (before, after))

    def change(data):
        place = [match.start() for match in re.finditer(re.escape(before), data)][which]
        return data[:place] + after + data[place + len(before) :]

    return change


def everywhere(before, after):
    """Changes every kernel that has this text."""

    def change(data):
        assert before in data
        assert len(before) == len(after)
        return data.replace(before, after)

    return change


def negated(place):
    """Changes the sign of a number among the constants, by its distance from the end."""

    def change(data):
        changed = bytearray(data)
        changed[len(data) - 4 - place + 3] ^= 0x80
        return bytes(changed)

    return change


DAMAGES = {
    "stn": {
        "a window of another size": replaced(r"sizes=\{ 2 2 \}", "sizes={ 1 2 }"),
        "a view that begins later": replaced(r'const_offset=0( dims=\{ "[^"]+" 320 \})', r"const_offset=4\1"),
        "two launches the other way around": replaced(r"(\n  corrltn=[^\n]*)(\n  maxpool=[^\n]*)", r"\2\1", 1),
        "a dilation": replaced(r"dilation=\{ 1 1 \}", "dilation={ 1 2 }", 4),
        "a sum for a product in a kernel": computed_otherwise("mul", "add", 0),
    },
    "mamba": {
        "a product less": replaced(r"\n  fully_connected=[^\n]*", "", 2),
        "two kernels the other way around": replaced(r"(\n  function=[^\n]*)(\n  f[^\n]*)", r"\2\1", 3),
        "half of a product": replaced(r"(fully_connected=[^\n]* alpha=)3F8", r"\g<1>3F0", 3),
        "a weight of the other sign": negated(20_000),
        "an absolute value for an exponential": computed_otherwise("exp", "abs", -1),
    },
    "mobilefacenet": {
        "another tensor that is added": replaced(r'("\w*arg__bb1_)38(" "\w*" \} s[^\n]*accu=true)', r"\g<1>35\2"),
        "a sum with twice an operand": replaced(r"beta=3F800000", "beta=40000000"),
        "the bias of another convolution": replaced(r'__mye3721dconst" \}', '__mye3751dconst" }'),
        "the weights of another convolution": replaced(r'("layers.2.layers.2.layers.add.1_37" "__mye37)1', r"\g<1>4"),
        "a rounded root in a kernel": computed_otherwise("sqrt", "ceil", -1),
    },
    "crnn": {
        "a loop in steps of another length": replaced(r'src="8i32"', 'src="7i32"'),
        "a view that moves the other way": replaced(r'\n  add=(\{ name="adv_off)', r"\n  sub=\1"),
        "a window that is moved": replaced(r"(maxpool=[^\n]*lpadding=\{) 0 1 ", r"\1 1 0 "),
        "a sum for a product in every kernel": everywhere(
            b"= __myln_mul___myln_float___myln_float(", b"= __myln_add___myln_float___myln_float("
        ),
        "a branch that goes the other way": replaced("op=gt", "op=le"),
    },
    "ddrnet": {
        "less padding in front": replaced(r"(corrltn=[^\n]*lpadding=\{) 1 1 ", r"\1 0 1 ", 5),
        "an activation that ends at 1": replaced(r"(relu=true[^\n]*relu_high=)7F800000", r"\g<1>3F800000", 3),
        "an activation that is missing": replaced("relu=true", "relu=false", 7),
        "an index that wraps earlier": everywhere(b") % 128;", b") % 127;"),
        "a difference for a sum in a kernel": computed_otherwise("add", "sub", -1),
    },
    "vit": {
        "sums for means": everywhere(b",true>(__v", b",   0>(__v"),
        "a half of vectors in the other's place": everywhere(b".values[1]);", b".values[0]);"),
        "half the scale of the scores": everywhere(b" 0, 0x1p+0f, 0x1p+0f,", b" 0, 0x1p-1f, 0x1p+0f,"),
        "another block's weights": replaced(
            r'(?s)("__mye\d+_dconst")([^\n]*binary=3 .*?)("__mye\d+_dconst")([^\n]*binary=4 )', r"\3\2\3\4"
        ),
        "differences for sums of halves": everywhere(b"= __myln_add___myln_half___", b"= __myln_sub___myln_half___"),
    },
}
DAMAGED_AT = {
    "stn": {"N": 8}, "mamba": {"N": 1, "T": 8}, "mobilefacenet": {"N": 1}, "crnn": {"N": 1, "W": 128},
    "ddrnet": {"N": 1, "H": 64, "W": 64}, "vit": {"N": 1},
}  # fmt: skip


def test_the_bytes_that_launches_touch_are_counted_once():
    """Of x, (2, 64, 32): rows 3 to 6, and 1, 5, 7, 7 and 9; and all of it for the softmax, with a factor."""
    net, index = td.Network(), torch.tensor([1, 5, 7, 7, 9])
    with net.current():
        x = net.input("x", (2, 64, 32))
        net.output(F.softmax(F.relu(x) * 2, -1), "all")
        net.output(F.index_select(x, 1, net.input("index", (5,), dtype="int64")), "rows")
        net.output(x[:, 3:7].exp(), "sliced")
    row, seen = 2 * 32 * 4, {}

    def observe(step, results):
        seen[step.name.removeprefix("__myl_")] = step.touched

    td.evaluate_engine(net, {"x": torch.randn(2, 64, 32), "index": index}, observe=observe, count=True)
    assert seen.pop("MoveSlicExpGath") == (7 * row + 5 * 8, 9 * row)
    assert list(seen.values()) == [(64 * row + 4, 64 * row)]
    seen.clear()
    td.evaluate_engine(net, {"x": torch.randn(2, 64, 32), "index": index}, observe=observe)
    assert set(seen.values()) == {(0, 0)}


def test_a_library_s_operation_touches_its_operands():
    net, seen = td.Network(), []
    with net.current():
        net.output(F.matmul(net.input("a", (3, 4, 8)), net.input("b", (3, 8, 6))), "y")
    feeds = {"a": torch.randn(3, 4, 8), "b": torch.randn(3, 8, 6)}
    td.evaluate_engine(net, feeds, observe=lambda step, _: seen.append(step.touched), count=True)
    factors = 2  # of the product, and of what is added to it
    assert seen == [(4 * (3 * (4 * 8 + 8 * 6) + factors), 4 * 3 * 4 * 6)]


@pytest.mark.heavy
@pytest.mark.parametrize("name", DAMAGES)
def test_damages_of_engines_of_the_gallery_are_caught(name, made_weights):
    spec, half = td.load_spec(str(NETWORKS / f"{name}.py")), name == "vit"
    made = {} if spec.weights.exists() else {"weights": made_weights(name)}
    net = spec.define(**made, precision="fp16" if half else None)
    data = compile_engine(net, BuildConfig(tf32=False)).data
    feeds = td.sample_feeds(spec, DAMAGED_AT[name], torch.Generator().manual_seed(0))
    expected = td.interpret(net, feeds)

    def apart(data):
        got = evaluator_of_plan(data, net)(feeds)
        return any(
            not torch.allclose(got[key], value, rtol=0, atol=(5e-3 if half else 1e-3) * float(value.abs().max()))
            for key, value in expected.items()
        )

    assert not apart(data)
    for damage, change in DAMAGES[name].items():
        try:
            assert apart(change(data)), damage
        except (ProgramFaultError, ProgramDamagedError):
            continue


def test_a_kernel_that_writes_outside_of_its_tensors_is_named(victim):
    data, feeds, _ = victim
    store = re.search(rb"\(\(__myln_float\*\)__v\d+\)\[0 \+ (?=[^;]*\] = __v\d+;\n)", data)
    assert store is not None
    changed = data[: store.end() - 4] + b"-9 " + b"+" + data[store.end() :]
    with pytest.raises(ProgramFaultError, match="launch"):
        td.evaluate_engine(changed, feeds, trust=True)


# -- who may be evaluated ----------------------------------------------------------------------------------------------


def test_an_engine_from_elsewhere_is_run_only_with_trust(victim, monkeypatch, tmp_path):
    data, feeds, _ = victim
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(UsageError, match="was not built by trtdsl on this machine.*trust=True"):
        td.evaluate_engine(data, feeds)
    assert not list(tmp_path.iterdir())


def test_an_engine_that_was_built_here_is_evaluated_from_its_file(tmp_path, monkeypatch):
    cache = built_here.folder()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "cache" / "trtdsl").mkdir(parents=True)
    (tmp_path / "cache" / "trtdsl" / "kernels").symlink_to(cache / "kernels")

    spec = td.network(inputs={"x": td.Input((td.Dim("N", min=1, opt=2, max=4), 3))})(lambda x: F.relu(x) + 1.0)
    built = td.build(spec, tmp_path / "small.engine", check=False)
    feed = random(3, 3)
    got = td.evaluate_engine(built.engine, {"x": feed})
    (value,) = got.values()
    torch.testing.assert_close(value, feed.relu() + 1.0)
    with pytest.raises(FeedNameError, match="'x' is missing; there is no input 'y'"):
        td.evaluate_engine(built.engine, {"y": feed})
    with pytest.raises(td.FeedError, match="no profile has N = 9"):
        td.evaluate_engine(built.engine, {"x": random(9, 3)})
    built.engine.write_bytes(built.engine.read_bytes() + b"\0")
    with pytest.raises(EngineDamagedError):
        td.evaluate_engine(built.engine, {"x": feed}, trust=True)


def test_sizes_that_the_author_excludes_are_refused(tmp_path):
    """As load_engine and the interpreter do; evaluated, the network and its file alike."""

    @td.network(inputs={"x": td.Input((td.Dim("N", min=1, opt=2, max=4), 3))})
    def even(x):
        td.require(x.shape[0] % 2 == 0, "pairs alone")
        return {"y": F.relu(x)}

    engine = td.build(even, tmp_path / "even.engine", check=False).engine
    feed = random(2, 3)
    for each in (even, engine):
        torch.testing.assert_close(td.evaluate_engine(each, {"x": feed})["y"], feed.relu())
        with pytest.raises(td.FeedError, match="pairs alone"):
            td.evaluate_engine(each, {"x": random(3, 3)})


def test_a_cache_that_cannot_be_written_says_what_to_set(victim, monkeypatch, tmp_path):
    data, feeds, _ = victim
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(UnevaluatedProgramError, match=r"cannot be written \(Not a directory\): set XDG_CACHE_HOME to"):
        td.evaluate_engine(data, feeds, trust=True)


DAMAGE = {
    "an empty executable": lambda note, executable: executable.write_bytes(b""),
    "half of one": lambda note, executable: os.truncate(executable, executable.stat().st_size // 2),
    "a byte of one": lambda note, executable: executable.write_bytes(executable.read_bytes()[:-1] + b"x"),
    "none": lambda note, executable: executable.unlink(),
    "another number": lambda note, executable: note.write_text(note.read_text().replace(" 0 ", " 7 ")),
    "a number that is none": lambda note, executable: note.write_text(note.read_text().replace(" 0 ", " -1 ")),
    "half a note": lambda note, executable: note.write_text(note.read_text()[:70]),
    "another file": lambda note, executable: note.write_text("../../../../bin/true 0"),
}


@pytest.mark.parametrize("what", DAMAGE)
def test_what_is_damaged_in_the_cache_is_compiled_again(tmp_path, monkeypatch, what):
    """As power that fails leaves it: the cache is not synced."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    spec = td.network(inputs={"x": td.Input((2, 3))})(lambda x: F.relu(x) + 1.0)
    feed = random(2, 3)
    td.evaluate_engine(spec.define(), {"x": feed})
    (note,) = (file for file in (tmp_path / "trtdsl/kernels").iterdir() if not file.suffix)
    (executable,) = (tmp_path / "trtdsl/kernels").glob("*.kernels")
    before = note.read_text(), executable.read_bytes()
    DAMAGE[what](note, executable)
    assert (note.read_text(), executable.exists() and executable.read_bytes()) != before
    (value,) = td.evaluate_engine(spec.define(), {"x": feed}).values()
    torch.testing.assert_close(value, feed.relu() + 1.0)
    name, number, _ = note.read_text().split()
    assert (name, number) == (executable.name, "0")
    executable.chmod(0o600)  # as where the folder is mounted so that nothing in it is run
    with pytest.raises(UnevaluatedProgramError, match="cannot be .Permission denied.: set XDG_CACHE_HOME to a folder"):
        td.evaluate_engine(spec.define(), {"x": feed})


def test_what_was_built_here_is_not_told_by_files_of_the_working_directory(tmp_path, monkeypatch):
    """They may have come with a download, and what they name is run unasked."""
    known = "0" * 64
    for place in ("cache", "~/.cache", "home/.cache"):
        (tmp_path / place / "trtdsl" / "built").mkdir(parents=True)
        (tmp_path / place / "trtdsl" / "built" / known).touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "nowhere"))
    monkeypatch.setenv("XDG_CACHE_HOME", "cache")
    assert not built_here.is_known(known)
    monkeypatch.setenv("HOME", "home")
    assert not built_here.is_known(known)
    built_here.remember("1" * 64)  # nowhere
    assert len(list(tmp_path.rglob("1*"))) == 0


@pytest.mark.parametrize("op", ["MAX", "MIN"])
@pytest.mark.parametrize(("shape", "axis"), [((300, 8), 1), ((1, 1000), 0), ((2000, 5), 1)])
def test_the_first_of_a_short_row_of_halves_is_found_by_a_warp(shape, axis, op):
    """Without the header of top-k: of equal elements the first, too."""
    net, x = td.Network(), (random(*shape) * 4).round().half()
    values, indices = L.topk(net.input("x", shape, "float16"), 1, axis, op)
    net.output(indices, "indices")
    net.output(values, "values")
    found = td.evaluate_engine(net, {"x": x})
    wanted = (-x if op == "MIN" else x).float()
    first = (wanted == wanted.amax(axis, keepdim=True)).int().argmax(axis, keepdim=True)
    assert torch.equal(found["indices"].long(), first)
    assert torch.equal(found["values"], x.gather(axis, first))


def test_nan_in_a_selection_is_refused_by_the_launch():
    net = network(lambda x: F.topk(x, 2), (3, 6), outputs=("y", "z"))
    feed = random(3, 6).index_fill(1, torch.tensor([2]), float("nan"))
    with pytest.raises(UnevaluatedProgramError, match=r"launch 0, .*the place of NaN among the greatest"):
        td.evaluate_engine(net, feeds_of(feed))


def test_without_a_compiler_the_package_is_named(victim, monkeypatch):
    data, feeds, _ = victim
    monkeypatch.setattr(kernels, "compiler", lambda: None)
    with pytest.raises(UnevaluatedProgramError, match=r"install the package g\+\+"):
        td.evaluate_engine(data, feeds, trust=True)


def test_floats_become_integers_as_on_the_device():
    x = torch.tensor([300.7, -1.9, 3e9, -3e9, float("nan"), float("inf")])
    assert cast(x, torch.int32).tolist() == [300, -1, 2**31 - 1, -(2**31), 0, 2**31 - 1]
    assert cast(x[:2], torch.int8).tolist() == [44, -1]
    assert cast(x[3:], torch.int64).tolist() == [-3_000_000_000, 0, 2**63 - 1]


@pytest.mark.parametrize("manifest", [True, False])
def test_feeds_that_an_engine_does_not_take_are_named_with_what_it_takes(manifest, tmp_path):
    @td.network(inputs={"x": td.Input(("N", 3)), "mask": td.Input(("N", 3))})
    def net(x, mask):
        return {"y": x * mask}

    engine = tmp_path / "net.engine"
    td.build(net, engine, dims={"N": (1, 2, 4)}, check=False)
    if not manifest:
        (tmp_path / "net.engine.json").unlink()
    x, mask = torch.rand(2, 3), torch.ones(2, 3)
    assert torch.equal(next(iter(td.evaluate_engine(engine, {"x": x, "mask": mask}).values())), x)
    for fed, said in (
        ({"x": x, "mask": mask.bool()}, r"'mask' is bool, not float32"),
        ({"x": x.double(), "mask": mask}, r"'x' is float64, not float32"),
        ({"x": x, "mask": mask[:, :2]}, r"'mask' has shape \(2, 2\), not \((N|-1), 3\)"),
        ({"x": x[0], "mask": mask}, r"'x' has shape \(3,\), not \((N|-1), 3\)"),
        ({"x": x, "mask": mask, "z": x}, r"there is no input 'z'"),
    ):
        with pytest.raises(td.FeedError, match=said):
            td.evaluate_engine(engine, fed)
    if manifest:
        with pytest.raises(td.FeedError, match="dimension 0 of 'mask' is N, which is not 1 where N = 2"):
            td.evaluate_engine(engine, {"x": x, "mask": mask[:1]})
        with pytest.raises(td.FeedError, match="no profile has N = 9: N=1:2:4"):
            td.evaluate_engine(engine, {"x": torch.ones(9, 3), "mask": torch.ones(9, 3)})


def caching():
    """Rows go into two caches of one shape from ``at`` on, each in place; the sum of one is given, too."""

    @td.network(
        inputs={
            "x": td.Input(("N", 1, 2, 4)),
            "at": td.Input(("N",), "int32", sample=(0, 4)),
            "a": td.State(("N", 1, 6, 4)),
            "b": td.State(("N", 1, 6, 4)),
        }
    )
    def caching(x, at, a, b):
        after = L.kv_cache_update(b, x * 2, at)
        return {"next_b": after, "y": after.sum(2), "next_a": L.kv_cache_update(a, x, at)}

    return caching


@pytest.mark.parametrize("kind", [td.State, td.Input])
def test_caches_that_are_written_in_the_place_of_another(kind, tmp_path):
    """Two states that take turns, or inputs that are none: a file's manifest says which output lies where."""

    @td.network(
        inputs={
            "x": td.Input((1, 1, 1, 2)),
            "at": td.Input((1,), "int32", sample=(0, 4)),
            "a": kind((1, 1, 4, 2)),
            "b": kind((1, 1, 4, 2)),
        }
    )
    def turning(x, at, a, b):
        return {"next_a": L.kv_cache_update(b, x, at), "next_b": L.kv_cache_update(a, x * 2, at), "y": a.sum(2)}

    x, at, a, b = random(1, 1, 1, 2), torch.tensor([2]), random(1, 1, 4, 2, seed=1), random(1, 1, 4, 2, seed=2)
    wanted = {"next_a": b.clone(), "next_b": a.clone(), "y": a.sum(2)}
    wanted["next_a"][:, :, 2:3], wanted["next_b"][:, :, 2:3] = x, x * 2
    engine = tmp_path / "turning.engine"
    td.build(turning, engine, check=False)
    found = td.evaluate_engine(engine, {"x": x, "at": at.int(), "a": a, "b": b})
    assert all(torch.allclose(found[name], value, atol=1e-6) for name, value in wanted.items())


@pytest.mark.parametrize("of_file", [True, False])
def test_caches_that_are_written_in_place(of_file, tmp_path):
    """The program calls the memory of a cache by its output's name."""
    x, a, b, at = random(2, 1, 2, 4), random(2, 1, 6, 4, seed=1), random(2, 1, 6, 4, seed=2), torch.tensor([1, 4])
    wanted = {"next_a": a.clone(), "next_b": b.clone()}
    for row in range(2):
        place = slice(int(at[row]), int(at[row]) + 2)
        wanted["next_a"][row, :, place], wanted["next_b"][row, :, place] = x[row], 2 * x[row]
    dims, engine = {"N": (1, 2, 3)}, tmp_path / "caching.engine"
    if of_file:
        td.build(caching(), engine, check=False, dims=dims)
    feeds = {"x": x, "at": at.int(), "a": a.clone(), "b": b.clone()}
    found = td.evaluate_engine(engine if of_file else caching().define(dims=dims), feeds)
    assert all(torch.equal(found[name], value) for name, value in wanted.items())
    assert torch.allclose(found["y"], wanted["next_b"].sum(2), atol=1e-6)
    assert torch.equal(feeds["a"], a) and torch.equal(feeds["b"], b)
