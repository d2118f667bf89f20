"""F.interpolate and its relatives against torch, through the interpreter."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import trtdsl as td
import trtdsl.functional as F
from trtdsl.functional.sampling.interpolate import scaled

MODES = [  # mode, rank, align_corners, antialias
    *(("nearest", rank, None, False) for rank in (3, 4, 5)),
    *(("nearest-exact", rank, None, False) for rank in (3, 4, 5)),
    *(("area", rank, None, False) for rank in (3, 4, 5)),
    *(
        (mode, rank, align, False)
        for mode, rank in (("linear", 3), ("bilinear", 4), ("bicubic", 4), ("trilinear", 5))
        for align in (False, True)
    ),
    *((mode, 4, align, True) for mode in ("bilinear", "bicubic") for align in (False, True)),
]
NAMES = [f"{m}-{r}d{'-align' if a else ''}{'-antialias' if s else ''}" for m, r, a, s in MODES]


def options(mode, align, antialias):
    return {"mode": mode, "align_corners": align, "antialias": antialias}


def resized(x, *args, dims=None, **kwargs):
    """F.interpolate of a tensor that is fed as an input; ``dims`` names its dynamic dimensions."""
    net = td.Network()
    net.output(F.interpolate(net.input("x", dims or x.shape, x.dtype), *args, **kwargs), "y")
    return td.interpret(net, {"x": x})["y"]


def close(got, expected, message=""):
    scale = max(expected.abs().max().item(), 1.0) if expected.numel() else 1.0
    torch.testing.assert_close(got, expected, rtol=0, atol=1e-5 * scale, msg=lambda text: f"{message}: {text}")


def layers_of(net):
    return [net.definition.get_layer(index).type.name for index in range(net.definition.num_layers)]


CASES = [pytest.param(*case, -1, id=name) for case, name in zip(MODES, NAMES, strict=True)] + [
    pytest.param(*case, 2, id=f"{name}-first", marks=pytest.mark.heavy)
    for case, name in zip(MODES, NAMES, strict=True)
    if case[1] > 3
]


@pytest.mark.parametrize(("mode", "rank", "align", "antialias", "axis"), CASES)
def test_every_pair_of_sizes_from_1_to_32(mode, rank, align, antialias, axis):
    """One dimension goes from each size to each other, while another goes from 3 to 4 in the modes of few taps."""
    kwargs = options(mode, align, antialias)
    torch.manual_seed(0)
    for length in range(1, 33):
        shape = [2, 1, *[3] * (rank - 2)]
        shape[axis] = length
        net, feed = td.Network(), torch.randn(shape)
        x = net.input("x", shape)
        sizes = {}
        for target in range(1, 33):
            size = [3] * (rank - 2)
            if rank > 3 and mode != "area" and not antialias:
                size[-2] = 4
            size[axis - 2 if axis > 0 else axis] = target
            sizes[f"y{target}"] = size
            net.output(F.interpolate(x, size=size, **kwargs), f"y{target}")
        got = td.interpret(net, {"x": feed})
        for name, size in sizes.items():
            expected = torch.nn.functional.interpolate(feed, size=size, **kwargs)
            close(got[name], expected, f"{shape} to {size}")
            assert got[name].dtype == expected.dtype


@pytest.mark.parametrize(("mode", "rank", "align", "antialias"), MODES, ids=NAMES)
@pytest.mark.parametrize("recompute", [None, False, True])
def test_scale_factors(mode, rank, align, antialias, recompute):
    kwargs = options(mode, align, antialias) | {"recompute_scale_factor": recompute}
    torch.manual_seed(0)
    factors = (0.3, 0.5, 2 / 3, 1.0, 1.05, 1.1, 1.5, 2.0, 2.05, 3.7)
    for length in (7, 10, 13):
        feed = torch.randn(2, 1, *[5] * (rank - 3), length)
        net = td.Network()
        x = net.input("x", feed.shape)
        given = [factor if rank == 3 else [0.7] * (rank - 3) + [factor] for factor in factors]
        for k, factor in enumerate(given):
            net.output(F.interpolate(x, scale_factor=factor, **kwargs), f"y{k}")
        got = td.interpret(net, {"x": feed})
        for k, factor in enumerate(given):
            expected = torch.nn.functional.interpolate(feed, scale_factor=factor, **kwargs)
            close(got[f"y{k}"], expected, f"{length} * {factor}")


@pytest.mark.parametrize(("mode", "rank", "align", "antialias"), MODES, ids=NAMES)
def test_dynamic_sizes_from_another_tensor(mode, rank, align, antialias):
    kwargs = options(mode, align, antialias)
    names = ["D", "H", "W"][5 - rank :]
    net = td.Network()
    x = net.input("x", ("N", 2, *names))
    other = net.input("other", ("M", *(f"{name}2" for name in names)))
    net.output(F.interpolate(x, size=other.shape[1:], **kwargs), "y")
    interpreter = td.Interpreter(net)
    for length, target in [(1, 1), (1, 5), (5, 1), (6, 3), (3, 6), (7, 7), (13, 5), (5, 13), (31, 29), (29, 31)]:
        feed = torch.randn(2, 2, *[4] * (rank - 3), length)
        like = torch.zeros(1, *[1 if rank == 4 and target > 1 else 3] * (rank - 3), target)
        if antialias and target == 1:
            like = torch.zeros(1, 4, 1)
        expected = torch.nn.functional.interpolate(feed, size=like.shape[1:], **kwargs)
        close(interpreter({"x": feed, "other": like})["y"], expected, f"{length} to {target}")


@pytest.mark.parametrize(("mode", "rank", "align", "antialias"), MODES, ids=NAMES)
@pytest.mark.parametrize("factor", [0.5, 1.1, 1.5, 2, 2.1, 3])
def test_dynamic_sizes_by_scale(mode, rank, align, antialias, factor):
    kwargs = options(mode, align, antialias)
    for recompute in (False, True):  # where a size stays or doubles by rounding, torch may ignore the scale
        net = td.Network()
        x = net.input("x", ("N", 2, *["D", "H", "W"][5 - rank :]))
        net.output(F.interpolate(x, scale_factor=factor, recompute_scale_factor=recompute, **kwargs), "y")
        interpreter = td.Interpreter(net)
        for length in (4, 5, 8, 21):
            feed = torch.randn(1, 2, *[4] * (rank - 3), length)
            expected = torch.nn.functional.interpolate(
                feed, scale_factor=factor, recompute_scale_factor=recompute, **kwargs
            )
            close(interpreter({"x": feed})["y"], expected, f"{length} * {factor}")


@pytest.mark.parametrize("mode", ["nearest", "nearest-exact"])
def test_nearest_of_every_pair_of_sizes_is_torchs(mode):
    """The layer and torch take a product in float32; where a compiler may round differently, there are gathers."""
    longs = [*range(1, 257, 15), 14, 26, 28, 49, 99, 197, 255]
    for length in longs:
        x = torch.arange(length, dtype=torch.float32).reshape(1, 1, length)
        net, targets = td.Network(), range(1 + length % 5, 257, 5)
        given = net.input("x", x.shape)
        for target in targets:
            net.output(F.interpolate(given, target, mode=mode), f"y{target}")
        found = td.interpret(net, {"x": x})
        for target in targets:
            want = torch.nn.functional.interpolate(x, target, mode=mode)
            assert torch.equal(found[f"y{target}"], want), (length, target)


@pytest.mark.parametrize("size", [(4, 2), (5, 3), (1, 3), (8, 5), (11, 9)])
def test_an_area_is_an_adaptive_average(size):
    def network(function):
        net = td.Network()
        net.output(function(net.input("x", (2, 3, 8, 9))), "y")
        return net

    resized = network(lambda x: F.interpolate(x, size, mode="area"))
    assert layers_of(resized) == layers_of(network(lambda x: F.adaptive_avg_pool2d(x, size)))
    x = torch.rand(2, 3, 8, 9)
    want = torch.nn.functional.interpolate(x, size, mode="area")
    torch.testing.assert_close(td.interpret(resized, {"x": x})["y"], want)


def test_windows_of_several_sizes_are_read_once():
    """A product with each window's weights takes nine launches and 16,463,872 bytes here."""
    net = td.Network()
    weight = net.constant(torch.ones(64, 64, 3, 3))
    x = F.conv2d(net.input("x", (2, 64, 56, 60)), weight, padding=1)
    net.output(F.conv2d(F.relu(F.adaptive_avg_pool2d(x, (20, 23))), weight, padding=1), "y")
    program = td.program(net)
    assert (program.launch_count, program.bytes) <= (5, 10_075_488)


def test_layers_of_each_mode():
    def layers(shape, *args, **kwargs):
        net = td.Network()
        net.output(F.interpolate(net.input("x", shape), *args, **kwargs), "y")
        return layers_of(net)

    dynamic = ("N", 3, "H", "W")
    assert layers((1, 3, 8, 8), (16, 12), mode="bilinear") == ["RESIZE"]
    assert layers((1, 3, 8, 8), (16, 12), mode="bicubic", align_corners=True) == ["RESIZE"]
    assert layers((1, 3, 8, 8), (16, 16)) == [
        "SHUFFLE",
        "SLICE",
        "SHUFFLE",
    ]  # repeated: a launch less than IResizeLayer
    assert layers(dynamic, scale_factor=2, mode="bilinear") == ["RESIZE"]
    assert "RESIZE" not in layers(dynamic, scale_factor=2)
    assert layers(dynamic, 1, mode="area") == ["REDUCE"]
    assert layers((1, 3, 8, 8), (5, 3), mode="area").count("GATHER") == 2
    assert layers(dynamic, (7, 7))[-1] == "RESIZE"  # its float32 positions are torch's, whatever the sizes
    assert layers((1, 1, 1, 24), (1, 15)) == ["RESIZE"]


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_random_calls(data):
    mode, rank, align, antialias = data.draw(st.sampled_from(MODES))
    sizes = st.lists(st.integers(1, 12), min_size=rank - 2, max_size=rank - 2)
    shape = [data.draw(st.integers(1, 3)), data.draw(st.integers(1, 3)), *data.draw(sizes)]
    kwargs = options(mode, align, antialias)
    if data.draw(st.booleans()):
        kwargs["size"] = data.draw(sizes)
        targets = kwargs["size"]
    else:
        factors = st.lists(st.floats(0.26, 3.0), min_size=rank - 2, max_size=rank - 2)
        kwargs["scale_factor"] = data.draw(factors)
        kwargs["recompute_scale_factor"] = data.draw(st.sampled_from([None, True, False]))
        targets = [int(size * factor) for size, factor in zip(shape[2:], kwargs["scale_factor"], strict=True)]
    if min(targets) < 1 or (antialias and targets[-1] == 1):
        return
    feed = torch.randn(shape, generator=torch.Generator().manual_seed(data.draw(st.integers(0, 99))))
    dims = [f"D{axis}" if data.draw(st.booleans()) else size for axis, size in enumerate(shape)]
    if "scale_factor" in kwargs:  # an arbitrary float is no fraction that stands for a dynamic size
        dims[2:] = shape[2:]
    got = resized(feed, dims=dims, **kwargs)
    close(got, torch.nn.functional.interpolate(feed, **kwargs), f"{shape} {kwargs}")


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_antialias_to_a_width_of_1_is_that_of_the_transposed_image(mode):
    """Where torch 2.13 mistakes the height, it does not mistake the width."""
    feed, kwargs = torch.randn(1, 2, 5, 7), {"mode": mode, "antialias": True}
    expected = torch.nn.functional.interpolate(feed.mT.contiguous(), (1, 8), **kwargs).mT
    close(resized(feed, (8, 1), **kwargs), expected)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize(("mode", "rank", "align", "antialias"), MODES, ids=NAMES)
def test_half_precision(mode, rank, align, antialias, dtype):
    kwargs = options(mode, align, antialias)
    feed = torch.randn(1, 2, *[7] * (rank - 2)).to(dtype)
    for size in (5, 14):
        got = resized(feed, size=(size,) * (rank - 2), **kwargs)
        expected = torch.nn.functional.interpolate(feed.float(), size=(size,) * (rank - 2), **kwargs)
        assert got.dtype == dtype
        torch.testing.assert_close(got.float(), expected, atol=3 * torch.finfo(dtype).eps, rtol=torch.finfo(dtype).eps)


@pytest.mark.parametrize(
    "changed",
    [
        {"size": (9, 5)},
        {"mode": "nearest", "align_corners": None},
        {"mode": "bicubic"},
        {"align_corners": True},
        {"antialias": True},
        {"size": None, "scale_factor": (0.7, 1.3)},
    ],
    ids=lambda changed: next(iter(changed)),
)
def test_each_argument_matters(changed):
    """What is changed changes torch's result, and ours with it: an ignored argument cannot pass."""
    base = {"size": (5, 9), "mode": "bilinear", "align_corners": False}
    feed = torch.randn(1, 2, 7, 8)
    before = torch.nn.functional.interpolate(feed, **base)
    after = torch.nn.functional.interpolate(feed, **base | changed)
    assert before.shape != after.shape or not torch.allclose(before, after, atol=1e-3)
    close(resized(feed, **base | changed), after)


def test_recompute_scale_factor_matters():
    feed = torch.randn(1, 2, 7)
    kwargs = {"scale_factor": 1.5, "mode": "linear"}
    kept, computed = (resized(feed, recompute_scale_factor=flag, **kwargs) for flag in (False, True))
    assert not torch.allclose(kept, computed, atol=1e-3)


@pytest.mark.parametrize(
    ("shape", "kwargs", "message"),
    [
        ((1, 2, 4, 4), {}, "either size or scale_factor"),
        ((1, 2, 4, 4), {"size": 2, "scale_factor": 2}, "either size or scale_factor"),
        ((1, 2, 4, 4), {"size": (2, 2, 2)}, "size and scale_factor have 2 values, not 3"),
        ((1, 2, 4, 4), {"scale_factor": (2.0,) * 3}, "size and scale_factor have 2 values, not 3"),
        ((1, 2, 4, 4), {"size": 2, "mode": "linear"}, "mode 'linear' takes 3 dimensions"),
        ((1, 2, 4), {"size": 2, "mode": "bilinear"}, "mode 'bilinear' takes 4 dimensions"),
        ((1, 2), {"size": 2}, "takes 3 or 4 or 5 dimensions"),
        ((1, 2, 4, 4), {"size": 2, "mode": "cubic"}, "mode is one of .*, not 'cubic'"),
        ((1, 2, 4, 4), {"size": 2, "align_corners": True}, "align_corners has no meaning with mode 'nearest'"),
        ((1, 2, 4, 4), {"size": 2, "mode": "area", "align_corners": False}, "align_corners has no meaning"),
        ((1, 2, 4, 4), {"size": 2, "antialias": True}, "antialias goes with bilinear and bicubic"),
        ((1, 2, 4, 4), {"size": 2, "recompute_scale_factor": True}, "recompute_scale_factor goes with scale_factor"),
        ((1, 2, 4, 4), {"size": 0}, "sizes must be positive"),
        ((1, 2, 4, 4), {"size": 2.5}, "sizes are ints and Sizes, not 2.5"),
        ((1, 2, 4, 4), {"size": (2, 2.5)}, "sizes are ints and Sizes, not 2.5"),
        ((1, 2, 4, 4), {"scale_factor": -1.0}, "scale_factor must be positive"),
    ],
)
def test_bad_arguments_have_one_clear_error(shape, kwargs, message):
    with pytest.raises(Exception) as theirs:
        torch.nn.functional.interpolate(torch.zeros(shape), **kwargs)
    assert theirs.value is not None
    with pytest.raises(td.DefinitionError, match=message) as error:
        F.interpolate(td.Network().input("x", shape), **kwargs)
    assert error.value.location is not None
    assert error.value.location.file == __file__


def test_integers_and_odd_fractions_of_dynamic_sizes_are_refused():
    net = td.Network()
    with pytest.raises(td.UnsupportedError, match="cast it first"):
        F.interpolate(net.input("n", (1, 1, 4), "int32"), 2)
    with pytest.raises(td.UnsupportedError, match="give size="):
        F.interpolate(net.input("x", (1, 1, "H")), scale_factor=1.2345678)


def test_scaled_sizes_of_dynamic_lengths():
    height = td.Dim("H")
    assert scaled(height, 2.0) == 2 * height
    for factor in (0.5, 0.3, 1 / 3, 0.9, 1.1, 1.5, 2.25):
        size = scaled(height, factor)
        for length in range(4, 300):
            expected = torch.nn.functional.interpolate(torch.zeros(1, 1, length), scale_factor=factor)
            assert size.value({"H": length}) == expected.shape[-1]
    assert scaled(td.Dim("H", min=1, max=80), 0.7).value({"H": 80}) == 56
    with pytest.raises(td.UnsupportedError, match="give size="):
        scaled(td.Dim("H", min=1, max=90), 0.7)  # in double precision 90 * 0.7 falls short of 63


def test_functions_that_are_interpolate_by_another_name():
    feed = torch.randn(1, 2, 5, 6)
    net = td.Network()
    x = net.input("x", feed.shape)
    net.output(F.upsample(x, scale_factor=2, mode="bilinear", align_corners=True), "a")
    net.output(F.upsample_nearest(x, (7, 9)), "b")
    net.output(F.upsample_bilinear(x, (7, 9)), "c")
    got = td.interpret(net, {"x": feed})
    interpolate = torch.nn.functional.interpolate
    close(got["a"], interpolate(feed, scale_factor=2, mode="bilinear", align_corners=True))
    close(got["b"], interpolate(feed, (7, 9)))
    close(got["c"], interpolate(feed, (7, 9), mode="bilinear", align_corners=True))


OPS = ["nn.functional.interpolate", "nn.functional.upsample_bilinear", "nn.functional.upsample_nearest"]


def samples():
    from torch.testing._internal.common_methods_invocations import op_db

    for info in op_db:
        if info.name in OPS:
            for k, sample in enumerate(info.sample_inputs("cpu", torch.float32)):
                yield pytest.param(info, sample, id=f"{info.formatted_name}-{k}")


@pytest.mark.filterwarnings("ignore:.*is deprecated")
@pytest.mark.parametrize(("info", "sample"), list(samples()))
def test_torch_opinfo_samples(info, sample):
    feed = sample.input.detach()
    expected = info.op(feed, *sample.args, **sample.kwargs)
    function = getattr(F, info.name.rpartition(".")[2])
    net = td.Network()
    net.output(function(net.input("x", feed.shape), *sample.args, **sample.kwargs), "y")
    close(td.interpret(net, {"x": feed})["y"], expected)


def test_torch_opinfo_samples_of_the_antialiased_operator():
    from torch.testing._internal.common_methods_invocations import op_db

    (info,) = (info for info in op_db if info.name == "_upsample_bilinear2d_aa")
    for sample in info.sample_inputs("cpu", torch.float32):
        feed, kwargs = sample.input.detach(), sample.kwargs
        if kwargs.get("scales_h") is not None:
            continue  # a size and other ratios at once: nothing that interpolate could be asked for
        arguments = {"mode": "bilinear", "align_corners": kwargs["align_corners"], "antialias": True}
        scales = kwargs.get("scale_factors")
        got = resized(feed, kwargs["output_size"], scales, **arguments)
        close(got, torch.nn.functional.interpolate(feed, kwargs["output_size"], scales, **arguments))
