"""Random networks: the interpreter against the programs in the engines that TensorRT builds of them."""

import itertools
import math
from dataclasses import replace

import pytest
import torch
from cases import BACKEND, trt
from fuzz.program import define, difference, draw, run_many, smallest

import trtdsl as td
import trtdsl.functional as F
import trtdsl.layers as L
from trtdsl.core.errors import ProgramFaultError, UnevaluatedProgramError, UnsupportedError
from trtdsl.layers.evaluation import Node

SUM = trt.ElementWiseOperation.SUM
SEEDS = range(24)
MANY = range(1000, 2000)
FEW = 6
"""Up to so many elements a builder makes slices of what is reduced."""
UNORDERED = {"CONVOLUTION", "DECONVOLUTION", "EINSUM", "MATRIX_MULTIPLY", "REDUCE"}
"""Types whose NaN and infinities depend on the order and on the way in which a builder sums."""


def judged(networks):
    """How many of each outcome; fails with the smallest part of each network that differs."""
    counts, found = {}, []
    for drawn, outcome in run_many(networks):
        kind = outcome.partition(":")[0]
        counts[kind] = counts.get(kind, 0) + 1
        if kind == "differs" and not settled(part := smallest(drawn)):
            found.append(f"{part}: {outcome}")
    assert not found, "\n".join(found)
    return counts


def settled(part):
    """Whether docs/engine-evaluated.md says why what is left of a network differs."""
    types = {step.type for step in part.steps}
    if part.special and UNORDERED & types:
        return True
    chain = define(part)
    nodes = [Node(BACKEND, layer) for layer in map(chain.network.get_layer, range(chain.network.num_layers))]
    unary = {node.layer.op.name for node in nodes if node.type == "UNARY"}
    casts = {(node.input_dtype(), node.dtype) for node in nodes if node.type == "CAST" and node.dtype.is_floating_point}
    cubic = [node for node in nodes if node.type == "GRID_SAMPLE" and node.layer.interpolation_mode.name == "CUBIC"]
    inputs = {chain.network.get_input(index).name for index in range(chain.network.num_inputs)}
    reduced = [
        math.prod(size for axis, size in enumerate(node.layer.get_input(0).shape) if node.layer.axes >> axis & 1)
        for node in nodes
        if node.type in ("REDUCE", "SOFTMAX", "NORMALIZATION")
    ]
    return (
        (len(reduced) > 1 and any(1 < count <= FEW for count in reduced))  # docs/traps/builder-broadcast.md
        or ({"DEQUANTIZE", "REDUCE"} <= types and any(not feed.numel() for feed in chain.feeds.values()))
        or (types & {"QUANTIZE", "DEQUANTIZE"} and unary & {"NEG", "ABS"})
        or (part.special and {(torch.float16, torch.bfloat16), (torch.bfloat16, torch.float16)} <= casts)
        or any(node.layer.sample_mode.name == "FILL" and node.needs[0] not in inputs for node in cubic)
    )


def test_programs_give_what_the_interpreter_gives():
    counts = judged(draw(f"usual-{seed}") for seed in SEEDS)
    assert counts["equal"] > sum(counts.values()) // 2


@pytest.mark.heavy
@pytest.mark.parametrize("special", [False, True])
def test_many_programs_give_what_the_interpreter_gives(special):
    counts = judged(draw(f"{'s' if special else 'f'}{seed}", special=special) for seed in MANY)
    assert counts["equal"] > sum(counts.values()) // 2


def test_a_scatter_in_place_keeps_the_rest():
    counts = judged(draw(f"scatter-{seed}", most=1, types=("SCATTER",)) for seed in range(6))
    assert counts["equal"] >= 2


def test_a_part_of_a_network_is_drawn_as_in_the_whole():
    drawn = next(drawn for seed in range(50) if (drawn := draw(f"part-{seed}")) is not None and len(drawn.steps) > 2)
    whole, part = define(drawn), define(replace(drawn, steps=drawn.steps[:1]))
    for name, feed in part.feeds.items():
        torch.testing.assert_close(whole.feeds[name], feed, equal_nan=True)


def test_a_result_of_another_rounding_is_equal_and_another_value_is_not():
    x = torch.tensor([1.0, float("nan"), float("inf"), 100.0])
    assert difference(x + 1e-4, x) is None
    assert "1 of 4 differ" in str(difference(x + torch.tensor([0.1, 0.0, 0.0, 0.0]), x))
    assert "nan" in str(difference(torch.where(x == 1, x, 0.0), x))
    assert "not torch.float32" in str(difference(x.half(), x))


class Built:
    """A network by TensorRT's own calls, and what its program gives."""

    def __init__(self):
        self.builder = trt.Builder(BACKEND.logger)
        self.network = self.builder.create_network(0)
        self.feeds = {}

    def input(self, value):
        name = f"x{len(self.feeds)}"
        self.feeds[name] = value
        return self.network.add_input(name, BACKEND.data_type(value.dtype), tuple(value.shape))

    def interpreted(self):
        return td.interpret(self.network, self.feeds)

    def output(self, tensor, name="y"):
        tensor.name = name
        self.network.mark_output(tensor)

    def run(self, *ranges):
        """What the program gives; ``ranges`` are the smallest, usual and greatest sizes of a dynamic x0."""
        config = self.builder.create_builder_config()
        if ranges:
            profile = self.builder.create_optimization_profile()
            profile.set_shape("x0", *ranges)
            config.add_optimization_profile(profile)
        plan = self.builder.build_serialized_network(self.network, config)
        return td.evaluate_engine(bytes(plan), self.feeds, trust=True)


def test_attention_without_normalization_is_softmax():
    """docs/traps/builder-attention.md"""
    built = Built()
    q, k, v = (torch.rand(1, 1, size, 8, generator=torch.Generator().manual_seed(size)) for size in (4, 5, 5))
    none, causal = trt.AttentionNormalizationOp.NONE, trt.CausalMaskKind.NONE
    attention = built.network.add_attention_v2(*map(built.input, (q, k, v)), none, causal)
    attention.decomposable = True
    built.output(attention.get_output(0))
    torch.testing.assert_close(built.run()["y"], torch.softmax(q @ k.mT, -1) @ v, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("rank", [4, 5])
def test_dimensions_that_are_not_resized_are_those_that_are_refused(rank):
    """docs/traps/builder-resize.md"""
    built, x = Built(), torch.arange(720.0).reshape((2, 3, 4, 5, 6) if rank == 5 else (6, 4, 5, 6))
    given, expected, refused = built.input(x), {}, set()
    for before in itertools.product((False, True), repeat=rank - 2):
        chosen = (*before, False, True)
        layer = built.network.add_resize(given)
        layer.shape = [size + 1 if grows else size for size, grows in zip(x.shape, chosen)]
        name = "y" + "".join("01"[grows] for grows in chosen)
        built.output(layer.get_output(0), name)
        want = x
        for axis, (size, grows) in enumerate(zip(x.shape, chosen)):
            want = want.index_select(axis, torch.arange(size + 1) * size // (size + 1)) if grows else want
        expected[name] = want
        try:
            L.resize(td.Network().input("x", x.shape), size=tuple(layer.shape))
        except UnsupportedError:
            refused.add(name)
    found = built.run()
    assert {name for name, want in expected.items() if not torch.equal(found[name], want)} == refused
    assert len(refused) == {4: 1, 5: 3}[rank]


def test_one_element_that_is_broadcast_and_reduced_is_read_elsewhere():
    """docs/traps/builder-broadcast.md"""
    built, x = Built(), torch.rand(4, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    given = built.input(x)
    first = built.network.add_slice(given, (0, 0, 0, 0), (4, 1, 8, 8), (1, 1, 1, 1)).get_output(0)
    difference = built.network.add_elementwise(given, first, trt.ElementWiseOperation.SUB).get_output(0)
    built.output(built.network.add_reduce(difference, trt.ReduceOperation.MAX, 0b1100, False).get_output(0))
    assert not torch.equal((x - x[:, :1]).amax((2, 3)), torch.zeros(4, 3))
    assert torch.equal(built.run()["y"], torch.zeros(4, 3))


def _normal(x):
    x = x.permute(0, 2, 3, 1)
    return torch.nn.functional.layer_norm(x, (int(x.shape[-1]),)).amax((1, 2))


BROADCAST = [
    lambda x: (x - x[:, :1]).amax((2, 3)),
    lambda x: (x * 2 - x[:, 0].unsqueeze(1)).sum((0, 2, 3)),
    lambda x: (x - x.flip(1)[:, -1:]).amax((2, 3)),
    lambda x: (x - x[..., :1]).amax(3),
    lambda x: (x - x[:1]).mean((2, 3)),
    lambda x: (x.exp() / (x[:, :1] + x[:, 1:2]).exp()).sum((2, 3)),
    lambda x: torch.where(x > x[:, :1], x, x[:, :1]).sum((2, 3)),
    lambda x: x.softmax(1).mean((2, 3)),
    lambda x: x.log_softmax(1).mean((2, 3)),
    lambda x: (x - x.mean(1, keepdim=True)).amax((2, 3)),
    lambda x: (x * 2 - x.amax(1, keepdim=True)).amin((2, 3)),
    lambda x: torch.nn.functional.normalize(x, dim=1).amax((2, 3)),
    lambda x: (x * torch.einsum("nchw->nhw", x).unsqueeze(1)).amax((2, 3)),
    lambda x: (x.exp() / x.exp().sum(1, keepdim=True)).amax((2, 3)),
    _normal,
]


@pytest.mark.parametrize(
    ("batch", "dtype"),
    [(4, torch.float32), (td.Dim("N", min=1, opt=4, max=8), torch.float32), (4, torch.float16)],
    ids=["static", "dynamic", "half"],
)
def test_one_element_that_is_broadcast_and_reduced_is_torchs(batch, dtype):
    net, feeds, expected = td.Network(), {}, {}
    for number, (function, channels) in enumerate(itertools.product(BROADCAST, (2, 6))):
        name, shape = f"x{number}", (4, channels, 8, 8)
        feeds[name] = torch.rand(shape, generator=torch.Generator().manual_seed(number)).to(dtype) + 0.5
        net.output(function(net.input(name, (batch, *shape[1:]), str(dtype)[6:])), f"y{number}")
        expected[f"y{number}"] = function(feeds[name].float())
    room = 1e-4 if dtype == torch.float32 else 2e-2
    found = {name: value.float() for name, value in td.evaluate_engine(net, feeds).items()}
    torch.testing.assert_close(found, expected, rtol=room, atol=room)


def test_a_bicubic_grid_sample_of_a_mirrored_image_reads_other_pixels():
    """docs/traps/builder-cubic.md"""
    generator = torch.Generator().manual_seed(0)
    x, grid = torch.rand(1, 2, 8, 8, generator=generator), torch.rand(1, 6, 6, 2, generator=generator) * 2 - 1
    built = Built()
    mirrored = built.network.add_slice(built.input(x), (0, 0, 0, 7), x.shape, (1, 1, 1, -1)).get_output(0)
    layer = built.network.add_grid_sample(mirrored, built.input(grid))
    layer.interpolation_mode, layer.sample_mode = trt.InterpolationMode.CUBIC, trt.SampleMode.FILL
    built.output(layer.get_output(0))
    want = torch.nn.functional.grid_sample(x.flip(-1), grid, "bicubic", align_corners=False)
    torch.testing.assert_close(built.interpreted()["y"], want, rtol=1e-4, atol=1e-5)
    assert not torch.allclose(built.run()["y"], want, atol=0.1)
    net = td.Network()
    given, points = net.input("x", x.shape), net.input("grid", grid.shape)
    with pytest.raises(UnsupportedError, match="takes in the layer before it"):
        L.grid_sample(given.flip(-1), points, "CUBIC")
    with pytest.raises(UnsupportedError, match="takes in the layer before it"):
        F.grid_sample(given.flip(-1), points, "bicubic", align_corners=False, lowering="native")
    assert L.grid_sample(L.cast(given, torch.float16), L.cast(points, torch.float16), "CUBIC").shape == want.shape
    net.output(F.grid_sample(given.flip(-1), points, "bicubic", align_corners=False), "y")
    torch.testing.assert_close(td.evaluate_engine(net, {"x": x, "grid": grid})["y"], want, rtol=1e-4, atol=1e-5)


def _codes(x, scale):
    return (x / scale).round().clamp(-128, 127)


@pytest.mark.parametrize("transposes", [False, True])
def test_a_computed_scale_is_read_by_another_axis(transposes):
    """docs/traps/builder-scales.md"""
    x, scale = torch.linspace(-3, 3, 15).reshape(3, 5), torch.tensor([0.02, 0.05, 0.1])
    built = Built()
    given, steps = built.input(x), built.input(scale)
    if transposes:
        shuffle = built.network.add_shuffle(given)
        shuffle.first_transpose = (1, 0)
        given = shuffle.get_output(0)
    layer = built.network.add_quantize(given, steps, trt.int8)
    layer.axis = int(transposes)
    built.output(layer.get_output(0))
    want = _codes(x, scale[:, None])
    want = want.mT if transposes else want
    torch.testing.assert_close(built.interpreted()["y"].float(), want)
    assert int((built.run()["y"] != want).sum()) > 5


SCALED = {
    "first axis": (lambda x: x, 0),
    "last axis": (lambda x: x, 2),
    "transposed": (lambda x: x.permute(1, 2, 0), 2),
    "transposed, reshaped": (lambda x: x.permute(1, 2, 0).reshape(2, 28, 3), 2),
    "one dimension": (lambda x: x.reshape(-1), 0),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_computed_scales_of_an_axis_are_torchs(dtype):
    net, feeds, expected = td.Network(), {}, {}
    for name, (before, axis) in SCALED.items():
        x = torch.linspace(-3, 3, 168).reshape(3, 8, 7).to(dtype)
        moved = before(x)
        scale = torch.linspace(0.02, 0.1, moved.shape[axis]).to(dtype)
        feeds |= {f"x {name}": x, f"s {name}": scale}
        given, steps = net.input(f"x {name}", x.shape, dtype), net.input(f"s {name}", scale.shape, dtype)
        back = scale.reshape([-1 if dim == axis else 1 for dim in range(moved.ndim)]).float()
        expected[f"q {name}"] = _codes(moved.float(), back)
        expected[f"d {name}"] = expected[f"q {name}"] * back
        with net.current():
            codes = L.quantize(before(given), steps, axis=axis)
            net.output(codes, f"q {name}")
            net.output(L.dequantize(codes, steps, dtype, axis=axis), f"d {name}")
    found = td.evaluate_engine(net, feeds)
    for name, want in expected.items():
        step = 1 if name.startswith("q") else 0.1  # a value between two steps may be rounded to either
        torch.testing.assert_close(found[name].float(), want, rtol=2e-3, atol=1.01 * step)
        assert int(((found[name].float() - want).abs() > 0.01 * step + 2e-3 * want.abs()).sum()) <= want.numel() // 8


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int32])
@pytest.mark.parametrize("alone", [False, True])
def test_a_choice_between_equal_tensors_by_a_wider_condition(alone, dtype):
    """docs/traps/builder-select.md"""
    x, condition = torch.arange(8).to(dtype), torch.rand(2, 7, 1) < 0.5
    want = x.reshape(2, 1, 4).expand(2, 7, 4)
    built = Built()
    given, chosen = built.input(x), built.input(condition)
    reshapes = [built.network.add_shuffle(given) for _ in range(1 if alone else 2)]
    for reshape in reshapes:
        reshape.reshape_dims = (2, 1, 4)
    branches = [reshapes[0].get_output(0), reshapes[-1].get_output(0)]
    built.output(built.network.add_select(chosen, *branches).get_output(0))
    assert torch.equal(built.interpreted()["y"], want)
    assert not torch.equal(built.run()["y"], want)
    net = td.Network()
    given, chosen = net.input("x", x.shape, dtype), net.input("c", condition.shape, "bool")
    branches = [given.reshape(2, 1, 4)] * 2 if alone else [given.reshape(2, 1, 4), given.reshape(2, 1, 4)]
    net.output(F.where(chosen, *branches), "y")
    net.output(L.select(chosen, *branches), "z")
    found = td.evaluate_engine(net, {"x": x, "c": condition})
    assert torch.equal(found["y"], want)
    assert torch.equal(found["z"], want)


def test_a_slice_without_dimensions_that_clamps_is_never_written():
    """docs/traps/builder-slice.md"""
    built = Built()
    total = built.network.add_elementwise(*map(built.input, (torch.tensor(2.0), torch.tensor(3.0))), SUM).get_output(0)
    layer = built.network.add_slice(total, (), (), ())
    layer.mode = trt.SampleMode.CLAMP
    built.output(layer.get_output(0))
    with pytest.raises(ProgramFaultError, match="no launch writes the output y"):
        built.run()


def test_zeros_are_zeros_of_fp8():
    built, x = Built(), torch.tensor([0.0, -0.0, 1.0, 2**-9, 2**-10])
    one = built.input(torch.tensor(1.0))
    codes = built.network.add_quantize(built.input(x), one, trt.fp8).get_output(0)
    built.output(built.network.add_dequantize(codes, one, trt.float32).get_output(0))
    assert built.run()["y"].tolist() == [0.0, 0.0, 1.0, 2**-9, 0.0]


def test_bicubic_weights_beside_infinity_are_the_programs():
    """A weight that is 0 gives NaN beside an infinity, one that is almost 0 gives another: the order decides."""
    x = torch.tensor([[[[float("-inf"), 2.5, 0.0], [3.4, -2.9, 1.5]]]])
    rows, columns = torch.linspace(-1, 1, 8), (torch.arange(3) * 2 + 1) / 3 - 1 + 1e-7  # at pixels, almost
    grid = torch.stack(torch.meshgrid(columns, rows, indexing="xy"), -1)[None]
    built = Built()
    layer = built.network.add_grid_sample(built.input(x), built.input(grid))
    layer.interpolation_mode, layer.sample_mode = trt.InterpolationMode.CUBIC, trt.SampleMode.REFLECT
    built.output(layer.get_output(0))
    torch.testing.assert_close(built.interpreted()["y"], built.run()["y"], equal_nan=True)


@pytest.mark.parametrize("mode", ["NEAREST", "LINEAR", "CUBIC"])
@pytest.mark.parametrize("outside", ["FILL", "CLAMP", "REFLECT"])
def test_an_image_without_pixels_is_sampled_as_the_program_does(mode, outside):
    inf = float("inf")
    grid = torch.tensor([[0.0, 0.0], [inf, 0.0], [0.0, -inf], [0.5, float("nan")], [-0.7, 1.2]]).reshape(1, 1, 5, 2)
    built = Built()
    image = built.network.add_input("x0", trt.float32, (-1, -1, -1, -1))
    built.feeds["x0"] = torch.zeros(1, 2, 0, 4)
    layer = built.network.add_grid_sample(image, built.input(grid))
    layer.interpolation_mode, layer.sample_mode = getattr(trt.InterpolationMode, mode), getattr(trt.SampleMode, outside)
    built.output(layer.get_output(0))
    found = built.run((1, 1, 0, 1), (1, 2, 3, 4), (2, 4, 6, 8))["y"]
    torch.testing.assert_close(built.interpreted()["y"], found, equal_nan=True)


def test_a_launch_behind_a_size_that_tensorrt_computes_is_refused_by_its_name():
    built = Built()
    layer = built.network.add_resize(built.network.add_input("x0", trt.float32, (-1, -1, -1, -1)))
    built.feeds["x0"] = torch.rand(1, 2, 3, 4)
    layer.scales = (1, 1, 1, 1.3)
    built.output(layer.get_output(0))
    with pytest.raises(UnevaluatedProgramError, match="shapeInput, which TensorRT computes before the program runs"):
        built.run((1, 1, 1, 1), (1, 2, 3, 4), (2, 4, 6, 8))


@pytest.mark.parametrize("size", [0, 2, 3, 6])
def test_a_size_that_is_rounded_up_is_computed_by_the_host(size):
    built, x = Built(), torch.rand(1, 2, size, 5)
    weights = torch.rand(3, 2, 3, 3)
    built.feeds["x0"] = x
    given = built.network.add_input("x0", trt.float32, (1, 2, -1, 5))
    layer = built.network.add_convolution_nd(given, 3, (3, 3), weights.numpy(), trt.Weights())
    layer.stride_nd, layer.padding_mode = (3, 3), trt.PaddingMode.EXPLICIT_ROUND_UP
    built.output(layer.get_output(0))
    found = built.run((1, 2, 0, 5), (1, 2, 4, 5), (1, 2, 9, 5))["y"]
    if size:
        padded = torch.nn.functional.pad(x, (0, 1, 0, -(size - 3) % 3))
        torch.testing.assert_close(found, torch.conv2d(padded, weights, stride=3))
    else:
        assert found.shape == (1, 3, 0, 2)


@pytest.mark.parametrize(("stride", "fits"), [(2, True), (3, False)])
def test_an_average_that_counts_padding_is_refused_where_windows_reach_behind_it(stride, fits):
    """By what these are divided is the library's, and not in the program."""
    built, x = Built(), torch.arange(6.0).reshape(1, 1, 1, 6)
    layer = built.network.add_pooling_nd(built.input(x), trt.PoolingType.AVERAGE, (1, 2))
    layer.stride_nd, layer.padding_mode = (1, stride), trt.PaddingMode.EXPLICIT_ROUND_UP
    layer.average_count_excludes_padding = False
    built.output(layer.get_output(0))
    if fits:
        assert built.run()["y"].flatten().tolist() == [0.5, 2.5, 4.5]
    else:
        with pytest.raises(UnevaluatedProgramError, match="windows that reach behind the padding"):
            built.run()


def test_a_blend_of_int8_is_built_as_its_maximum():
    """docs/engine-evaluated.md"""
    built, x = Built(), torch.arange(-18, 18, dtype=torch.int8).reshape(1, 1, 6, 6)
    layer = built.network.add_pooling_nd(built.input(x), trt.PoolingType.MAX_AVERAGE_BLEND, (2, 2))
    layer.stride_nd, layer.blend_factor = (2, 2), 0.25
    built.output(layer.get_output(0))
    highest = torch.nn.functional.max_pool2d(x.float(), 2)
    assert torch.equal(built.run()["y"].float(), highest)
    assert not torch.equal(0.75 * highest + 0.25 * torch.nn.functional.avg_pool2d(x.float(), 2), highest)
    bounds = {"stride": (2, 2), "pre_padding": (0, 0), "post_padding": (0, 0)}
    with pytest.raises(UnsupportedError, match="dequantize what is pooled"):
        L.pooling(td.Network().input("x", x.shape, torch.int8), "MAX_AVERAGE_BLEND", (2, 2), **bounds)


def test_the_first_of_three_outputs_of_a_kernel_is_not_written():
    """docs/traps/builder-outputs.md"""
    built = Built()
    x = torch.rand(1, 8, 5, 7, generator=torch.Generator().manual_seed(0))
    weights = torch.ones(4, 8, 1, 1).numpy()
    value = built.network.add_convolution_nd(built.input(x), 4, (1, 1), weights, trt.Weights()).get_output(0)
    chain = []
    for name in ("SIN", "ABS", "NEG"):
        value = built.network.add_unary(value, getattr(trt.UnaryOperation, name)).get_output(0)
        chain.append(value)
        built.output(value, name)
    built.output(built.network.add_pooling_nd(chain[1], trt.PoolingType.MAX, (3, 3)).get_output(0), "pooled")
    with pytest.raises(ProgramFaultError, match="no launch writes the output SIN"):
        built.run()


@pytest.mark.parametrize("start", [0, 5])
def test_a_counter_on_the_host_loses_a_number_of_its_loop(start):
    """docs/traps/builder-loops.md"""
    built, x = Built(), torch.rand(4, 5, generator=torch.Generator().manual_seed(0))
    given = built.network.add_input("x0", trt.float32, (-1, 5))
    built.feeds["x0"] = x
    kept = [torch.tensor(value).numpy() for value in (start, 1, 9)]
    zero, one, nine = (built.network.add_constant((), trt.Weights(number)).get_output(0) for number in kept)
    loop = built.network.add_loop()
    count, value = loop.add_recurrence(zero), loop.add_recurrence(given)
    i, h = count.get_output(0), value.get_output(0)
    goes_on = built.network.add_elementwise(i, nine, trt.ElementWiseOperation.LESS).get_output(0)
    loop.add_trip_limit(goes_on, trt.TripLimit.WHILE)
    tanh = built.network.add_activation(h, trt.ActivationType.TANH).get_output(0)
    assert (i.dtype, tanh.dtype) == (trt.int64, trt.float32)  # types are inferred when they are asked for
    count.set_input(1, built.network.add_elementwise(i, one, SUM).get_output(0))
    value.set_input(1, tanh)
    built.output(loop.add_loop_output(h, trt.LoopOutput.LAST_VALUE).get_output(0))
    with pytest.raises(ProgramFaultError, match=rf"reads __d\^1i64, where __d\^{start}i64 lies"):
        built.run((1, 5), (4, 5), (8, 5))
