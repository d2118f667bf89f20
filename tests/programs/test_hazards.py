"""Hazards: networks that have one each, and ones that have none."""

import re

import pytest
import torch

import trtdsl as td
import trtdsl.functional as F
import trtdsl.layers as L


def found(program):
    return {hazard.name for hazard in td.find_hazards(program)}


def test_a_single_matrix_product_has_no_hazards(program_of, constant):
    assert td.find_hazards(program_of(lambda net: F.matmul(net.input("x", (64, 128)), constant(net, 128, 256)))) == ()


def test_a_transpose_is_told_with_its_line_and_its_share(program_of, constant):
    def write(net):
        x = F.conv2d(net.input("x", (2, 8, 16, 16)), constant(net, 32, 8, 3, 3), padding=1)
        return F.conv2d(F.relu(x.permute(0, 1, 3, 2)), constant(net, 8, 32, 1, 1))

    program = program_of(write)
    (hazard, *_) = [hazard for hazard in td.find_hazards(program) if hazard.name == "rearranging"]
    assert hazard.line.startswith("programs/test_hazards.py:")
    assert hazard.bytes == sum(program.launches[index].bytes for index in hazard.launches)
    assert hazard.share == hazard.bytes / program.bytes > 0.05
    assert "computes nothing" in hazard.text
    assert "channels last" in hazard.advice


def test_a_scale_that_is_not_folded(program_of, constant):
    def write(net):
        x = F.conv2d(net.input("x", (2, 8, 16, 16)), constant(net, 32, 8, 3, 3), padding=1)
        return F.tanh(x * constant(net, 32, 1, 1) + net.constant(torch.ones(32, 1, 1)))

    def folded(net):
        statistics = (constant(net, 32), net.constant(torch.ones(32)), 1e-5, constant(net, 32), constant(net, 32))
        kernel = td.of_constants(torch.nn.utils.fuse_conv_bn_weights, constant(net, 32, 8, 3, 3), None, *statistics)
        return F.tanh(F.conv2d(net.input("x", (2, 8, 16, 16)), *kernel, padding=1))

    assert "a scale not folded" in found(program_of(write))
    assert "a scale not folded" not in found(program_of(folded))


def test_attention_in_float32_is_not_fused_and_in_float16_it_is(program_of):
    def write(dtype):
        def attention(net):
            query, key, value = (net.input(name, (2, 4, 256, 64), dtype) for name in "qkv")
            weights = F.softmax(F.matmul(query, key.transpose(-1, -2)) * 0.125, -1)
            return F.matmul(weights, value)

        return attention

    assert "attention not fused" in found(program_of(write(torch.float32)))
    half = program_of(
        lambda net: F.scaled_dot_product_attention(*(net.input(n, (2, 4, 256, 64), "float16") for n in "qkv"))
    )
    assert "attention" in {launch.kind for launch in half.launches}
    assert "attention not fused" not in found(half)


def test_attention_is_told_at_its_own_line(program_of, constant):
    def write(net):
        q, k, v = (net.input(name, (2, 3, 4, 64, 16)) for name in "qkv")
        lengths = net.input("lengths", (2,), "int64")
        lengths = (lengths + 3) // 4
        mask = F.arange(64)[None] < lengths[:, None]
        found = []
        for part in range(3):  # the first kernel computes the mask, too
            s = F.matmul(q[:, part], k[:, part].transpose(-1, -2)) * 0.25
            s = s.masked_fill(~mask[:, None, None, :], float("-inf"))
            found.append(F.matmul(s.softmax(-1), v[:, part]))
        return *found, lengths

    first = write.__code__.co_firstlineno
    hazards = [each for each in td.find_hazards(program_of(write)) if each.name == "attention not fused"]
    assert {each.line for each in hazards} == {f"programs/test_hazards.py:{first + 9}"}


def test_a_softmax_on_its_own(program_of):
    assert "softmax on its own" in found(program_of(lambda net: F.softmax(net.input("x", (64, 256)), -1)))


def test_a_launch_per_loop_step(program_of, constant):
    def write(net):
        weight = constant(net, 16, 16)
        state = (net.constant(torch.tensor(0)), net.input("x", (32, 16)))
        return td.while_loop(lambda i, h: i < 10, lambda i, h: (i + 1, F.tanh(F.matmul(h, weight))), state)[1]

    (hazard,) = [hazard for hazard in td.find_hazards(program_of(write)) if hazard.name == "a launch per loop step"]
    assert "a loop makes 20 launches, 2 a turn" in hazard.text


def test_a_loop_that_the_builder_unrolls_is_told_at_its_own_line(program_of):
    """Its launches have no lines; a kernel behind the loop, which reads what it gives, is not where it stands."""

    def write(net):
        x = net.input("x", (4, td.Dim("T", min=4, opt=20, max=64), 32))

        def step(state, each):
            state = state * 0.5 + each
            return state, state

        states = td.scan(step, F.zeros_like(x[:, 0]), x, dim=1)[1]
        return F.cat([states[:1] * 0, states[1:]]).sum(0)

    loop = write.__code__.co_firstlineno + 7
    hazards = [each for each in td.find_hazards(program_of(write)) if each.name == "a launch per loop step"]
    assert {each.line.rpartition(":")[2] for each in hazards} <= {str(loop), str(loop - 3), str(loop - 4)}
    assert any("a turn of several steps, by which TensorRT unrolled it" in each.text for each in hazards)


def test_a_product_whose_result_is_read_back(program_of, constant):
    def write(net):
        x = F.matmul(net.input("x", (8, 32, 64)), constant(net, 64, 128))
        return F.sin(x.permute(0, 2, 1)) * net.input("z", (8, 128, 32))

    assert "product without its epilogue" in found(program_of(write))


def test_products_of_one_line_are_one_hazard_with_all_lines_that_read_them_back(program_of, constant):
    def write(net):
        inputs = [net.input(name, (8, 32, 64)) for name in "xy"]
        x, y = (F.matmul(each, constant(net, 64, 128)).permute(0, 2, 1) for each in inputs)
        first = F.sin(x) * net.input("z", (8, 128, 32))
        second = F.cos(y) * net.input("v", (8, 128, 32))
        net.output(first, "first")
        return second

    (hazard,) = [
        hazard for hazard in td.find_hazards(program_of(write)) if hazard.name == "product without its epilogue"
    ]
    assert len(hazard.launches) == 2
    assert hazard.bytes == 2 * 2 * 4 * 8 * 32 * 128  # each is written and read
    assert len({part for part in hazard.text.split() if "test_hazards.py:" in part}) == 2


def test_a_constant_that_was_blown_up(program_of):
    def write(net):
        table = net.constant(torch.randn(64, 1, 256)).expand(64, 128, 256)
        return net.input("x", (64, 128, 256)) * net.constant(torch.randn(64, 128, 256)) + table

    assert "a constant blown up" in found(program_of(write))
    assert "a constant blown up" not in found(
        program_of(lambda net: net.input("x", (64, 256)) * net.constant(torch.randn(256)))
    )


def test_an_operand_that_is_padded(program_of):
    def write(net):
        query, key = net.input("q", (12, 197, 64)), net.input("k", (12, 64, 197))
        return F.matmul(F.exp(F.matmul(query, key)), net.input("v", (12, 197, 64)))

    hazards = [hazard for hazard in td.find_hazards(program_of(write)) if hazard.name == "padding"]
    assert hazards and "an operand is copied to pad its size 197 to 198" in hazards[0].text


def test_a_kernel_that_splits_and_pads_joins_nothing(program_of, constant):
    def write(net):
        x = net.input("x", (197, 4, 192))
        weights = (constant(net, 576, 192), constant(net, 576), None, None, False, 0.0, constant(net, 192, 192), None)
        return F.multi_head_attention_forward(x, x, x, 192, 3, *weights, need_weights=False)[0]

    hazards = td.find_hazards(program_of(write))
    assert any("to pad its size 197 to 198" in hazard.text for hazard in hazards if hazard.name == "padding")
    assert not any("Keep the parts apart" in hazard.advice for hazard in hazards)


def test_a_size_that_may_be_odd_is_padded_and_one_that_is_a_multiple_is_not(program_of):
    H, W = td.Dim("H", min=16, opt=128, max=256), td.Dim("W", min=16, opt=256, max=512)

    def attended(side):
        def write(net):
            query, key = (net.input(name, (2, 8, side, W), "float16").exp().flatten(2) for name in "qk")
            return F.matmul(query, key.transpose(1, 2))

        return program_of(write)

    (hazard,) = [hazard for hazard in td.find_hazards(attended(H)) if hazard.name == "padding"]
    assert "an operand is copied to pad its size H*W to 2*((H*W + 1)//2)" in hazard.text
    assert "2 * H" in hazard.advice  # which helps:
    assert "padding" not in found(attended(2 * H))
    assert not [launch for launch in attended(2 * H).launches if "Conc" in launch.name]


def test_a_scale_in_every_convolution_is_told_once(program_of, constant):
    def write(net):
        x = net.input("x", (2, 32, 16, 16))
        for _ in range(3):
            x = F.conv2d(x, constant(net, 32, 32, 3, 3), padding=1) * constant(net, 32, 1, 1) + constant(net, 32, 1, 1)
            x = F.relu(x)
        return x

    hazards = [hazard for hazard in td.find_hazards(program_of(write)) if hazard.name == "a scale not folded"]
    assert sum(len(hazard.launches) for hazard in hazards) == 3


def quantized(channels, batch, axis):
    """Two convolutions in int8; weights have a scale for each channel of ``axis``, or one for all."""

    def narrow(x):
        return F.dequantize(F.quantize(x, 0.03), 0.03, dtype=x.dtype)

    def write(net):
        x = net.input("x", (batch, channels, 28, 28), "float16")
        for _ in range(2):
            codes = torch.randint(-127, 127, (channels, channels, 3, 3)).to(torch.int8)
            scale = torch.full((channels,), 1e-3) if axis == 0 else torch.tensor(1e-3)
            weight = F.dequantize(net.constant(codes), net.constant(scale), dtype=torch.float16, axis=axis)
            x = F.relu(F.conv2d(narrow(x), weight, padding=1))
        return x

    return write


def test_int8_that_costs_more_than_half_precision_and_writes_what_it_need_not(program_of):
    small, large = (program_of(quantized(*sizes, None)) for sizes in ((16, 2), (256, 16)))
    wide = program_of(quantized(256, 16, 0))
    assert {"int8 costs more than fp16 here", "requantized in a launch of its own"} <= found(small)
    assert found(large) & {"int8 costs more than fp16 here", "wrote float32"} == set()
    assert "wrote float32" in found(wide)
    (hazard,) = [each for each in td.find_hazards(small) if each.name == "int8 costs more than fp16 here"]
    assert hazard.line.startswith("programs/test_hazards.py:") and "µs for" in hazard.text


def decoder(copied=False, repeated=False, all_positions=False, batch=1, profiles=()):
    """An attention layer of 4 heads that share 2 of keys and values, with a cache of 256 slots, and logits."""
    torch.manual_seed(0)
    dtype, slots = torch.float16, 224 if copied else 256
    sizes = {"q": (256, 256), "k": (128, 256), "v": (128, 256), "up": (512, 256), "gate": (512, 256)}
    cache = {name: td.Input((batch, 2, slots, 64), dtype) for name in ("keys", "values")}
    starts = {"i": td.Input((batch,), "int32", sample=(0, 1))}
    sizes |= {"down": (256, 512), "head": (1024, 256)}
    weights = {name: torch.randn(*size, dtype=dtype) for name, size in sizes.items()}

    @td.network(inputs={"x": td.Input((batch, "S", 256), dtype), **starts, **cache}, weights=weights, profiles=profiles)
    def decoder(x, i, keys, values, w):
        n, s, _ = x.shape
        q, k, v = (F.linear(x, part).view(n, s, -1, 64).transpose(1, 2) for part in (w.q, w.k, w.v))
        if copied:
            keys, values = F.cat([keys, k], 2), F.cat([values, v], 2)
        else:
            keys, values = L.kv_cache_update(keys, k, i), L.kv_cache_update(values, v, i)
        k, v = (F.repeat_interleave(x, 2, 1) if repeated else x for x in (keys, values))
        y = L.attention(q, k, v).transpose(1, 2).reshape(n, s, 256)
        y = F.linear(F.silu(F.linear(y, w.gate)) * F.linear(y, w.up), w.down)
        logits = F.linear(y if all_positions else y[:, -1], w.head)
        return {"logits": logits, "next_keys": keys, "next_values": values}

    return decoder


@pytest.mark.parametrize(
    ("how", "length", "name"),
    [
        ({"copied": True}, 1, "cache copied"),
        ({"repeated": True}, 1, "heads repeated"),
        ({"all_positions": True}, 32, "logits of all positions"),
        ({}, 1, None),
    ],
)
def test_what_decoders_need_not_do(how, length, name):
    hazards = td.find_hazards(td.program(decoder(**how), dims={"S": length}))
    ours = {"cache copied", "logits of all positions"} | ({"heads repeated"} if length == 1 else set())
    found = [hazard for hazard in hazards if hazard.name in ours]
    assert {hazard.name for hazard in found} == {name} - {None}
    assert all(hazard.line.startswith("programs/test_hazards.py:") for hazard in found)


@pytest.mark.parametrize("batch", [1, td.Dim("N", min=1, opt=1, max=2)])
def test_weights_that_two_profiles_store_in_two_forms(batch, tmp_path):
    """With a batch that may be greater both profiles read the same ones, and the engine is smaller."""
    spec = decoder(batch=batch, profiles=[td.Profile(S=1), td.Profile(S=(1, 32, 32))])
    td.build(spec, tmp_path / "decoder.engine", check=False)
    for program in (td.program(tmp_path / "decoder.engine", profile=1), td.program(spec)):
        twice = [hazard for hazard in td.find_hazards(program) if hazard.name == "weights stored twice"]
        assert bool(twice) == bool(program.unshared) == isinstance(batch, int)
        assert sum(hazard.bytes for hazard in twice) == (2 * 256 * (512 + 1024) if isinstance(batch, int) else 0)


@pytest.mark.parametrize(("queries", "copies"), [(1, 0), (64, 2), (td.Dim("S", min=2, opt=64, max=64), 2)], ids=str)
@pytest.mark.parametrize("is_cache", [False, True])
def test_heads_that_are_shared_are_read_once(queries, copies, is_cache):
    """One launch for several queries copies keys and values, without repeating them."""
    net, opt = td.Network(), 64 if copies else 1
    q = net.input("q", (1, 8, queries, 64), "float16")
    k, v = (net.input(name, (1, 2, 256, 64), "float16") for name in "kv")
    if is_cache:
        new, place = net.input("new", (1, 2, 1, 64), "float16"), net.input("place", (1,), "int32")
        k, v = (L.kv_cache_update(x, new, place) for x in (k, v))
        net.output(k, "next_k")
        net.output(v, "next_v")
    net.output(F.scaled_dot_product_attention(q, k, v, enable_gqa=True), "y")
    program = td.program(net)
    moved = 2 * (2 * 2 * 256 * 64 * (1 + copies) + 6 * 8 * opt * 64)
    assert program.bytes <= moved + 2000 and "heads repeated" not in found(program)


def test_a_concatenation_in_a_helper_is_named_by_its_own_line_and_by_the_helpers_callers(program_of, constant):
    def joined(x, y):
        return F.cat([F.relu(x), y], 1)  # told

    def write(net):
        x = net.input("x", (2, 16, 32, 32))
        one, two = (F.conv2d(x, constant(net, 16, 16, 1, 1)) for _ in range(2))
        both = joined(one, two)  # told of, too
        both = both.reshape(2, 2, 16, 32, 32).transpose(1, 2).reshape(2, 32, 32, 32)
        net.output(both, "both")
        return F.conv2d(both, constant(net, 8, 32, 3, 3), padding=1)

    line, caller = write.__code__.co_firstlineno - 2, write.__code__.co_firstlineno + 3
    found = [each for each in td.find_hazards(program_of(write)) if "concatenation" in each.text]
    here = "programs/test_hazards.py"
    assert [(each.line, each.callers) for each in found] == [(f"{here}:{line}", (f"{here}:{caller}",))]
    assert str(found[0]).startswith(f"{here}:{line} (from {here}:{caller}): a concatenation")


def test_a_part_of_a_concatenation_that_is_pooled_is_told_as_what_it_is(program_of, constant):
    """A U-Net's skip: its convolution writes into the concatenation, and the pooling reads a copy of that part."""

    def half(net, *shape):
        return constant(net, *shape, dtype=torch.float16)

    def write(net):
        x = F.conv2d(net.input("x", (2, 16, 64, 64), "float16"), half(net, 32, 16, 3, 3), padding=1)
        low = F.conv2d(F.max_pool2d(x, 2), half(net, 32, 32, 3, 3), padding=1)  # told
        up = F.conv_transpose2d(low, half(net, 32, 32, 2, 2), stride=2)
        return F.conv2d(F.cat([up, x], 1), half(net, 8, 64, 3, 3), padding=1)

    line = write.__code__.co_firstlineno + 2
    (hazard,) = [each for each in td.find_hazards(program_of(write)) if "a part of" in each.text]
    assert str(hazard).startswith(f"programs/test_hazards.py:{line}: what is a part of a concatenation, too, is copied")
    assert "No edit is known" in hazard.advice


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_attention_whose_weights_are_an_output_is_not_to_become_a_call_that_does_not_give_them(program_of, dtype):
    def write(net):
        query, key, value = (net.input(name, (2, 64, 64), dtype) for name in "qkv")
        weights = F.softmax(F.matmul(query, key.mT) * 0.125, -1)
        net.output(weights, "weights")
        return F.matmul(weights, value)

    (hazard,) = [each for each in td.find_hazards(program_of(write)) if each.name == "attention not fused"]
    assert "whose weights are an output" in hazard.text and "advise" not in hazard.advice
    assert "does not give the weights" in hazard.advice


def test_a_softmax_that_a_product_reads_is_not_advised_to_be_left_out(program_of):
    def write(net):
        scores = net.input("x", (4, 64, 64))
        return F.matmul(F.softmax(F.tanh(scores), -1), net.input("v", (4, 64, 32)))

    assert "softmax on its own" not in found(program_of(write))


def written_narrow(conv, weight_alone=False):
    """A convolution of an operand and a weight that are both in int8, or of such a weight alone."""

    def write(net):
        x = net.input("x", (4, 64, 16, 16), "float16")
        codes = net.constant(torch.randint(-127, 127, (64, 64, 3, 3)).to(torch.int8))
        scale = torch.full((64,), 1e-3) if weight_alone else torch.tensor(1e-3)
        weight = F.dequantize(codes, net.constant(scale), dtype=torch.float16, axis=0 if weight_alone else None)
        narrow = x if weight_alone else F.dequantize(F.quantize(x, 0.03), 0.03, dtype=x.dtype)
        return conv(narrow, weight)

    return write


def in_blocks(net):
    """A product of two MXFP8 operands."""
    halves = net.input("x", (64, 256), "float16"), net.constant(torch.randn(256, 256, dtype=torch.float16))
    (x, a), (w, b) = (L.dynamic_quantize(each, (1, 32)) for each in halves)
    x, w = (L.dequantize(q, scale, "float16", block_shape=(1, 32)) for q, scale in ((x, a), (w, b)))
    return x @ w.mT


@pytest.mark.parametrize(
    ("write", "capability"),
    [
        (written_narrow(F.conv2d), "7.5"),
        (written_narrow(F.conv_transpose2d), "8.9"),
        (written_narrow(F.conv2d, weight_alone=True), "8.9"),
        (in_blocks, "12.0"),
    ],
    ids=["7.5", "transposed", "weight alone", "MXFP8"],
)
def test_what_is_quantized_and_computed_in_float16_all_the_same(write, capability):
    net = td.Network()
    with net.current():
        net.output(write(net), "y")
    program = td.program(net, config=td.BuildConfig(compute_capabilities=(capability,)))
    (product,) = (launch for launch in program.launches if launch.kind in ("convolution", "product"))
    assert product.dtype == "float16"
    (hazard,) = (each for each in td.find_hazards(program) if each.name == "dequantized before its product")
    assert re.match(r"programs/test_hazards\.py:\d+", hazard.line) and "no convolution for compute" in hazard.advice


def test_a_weight_in_int8_that_its_product_reads_is_told_to_be_computed_in_float16(program_of):
    """No launch is lost by it, and it reads half of the bytes."""

    def write(net):
        codes = net.constant(torch.randint(-127, 127, (256, 256)).to(torch.int8))
        weight = F.dequantize(codes, net.constant(torch.tensor(1e-3)), dtype=torch.float16)
        return F.relu(F.linear(net.input("x", (64, 256), "float16"), weight))

    program = program_of(write)
    assert [(each.kind, each.dtype) for each in program.launches] == [("product", "float16")]
    assert "dequantized before its product" not in found(program)
