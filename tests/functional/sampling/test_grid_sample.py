"""F.grid_sample and F.bilinear_sample against torch, through the interpreter."""

from __future__ import annotations

import functools
import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from support import assert_close, evaluate, layer_types

import trtdsl as td
import trtdsl.functional as F

PADDINGS = ("zeros", "border", "reflection")
CASES = [  # dimensions, mode, padding_mode, align_corners
    (*case, padding, align)
    for case in ((4, "bilinear"), (4, "nearest"), (4, "bicubic"), (5, "bilinear"), (5, "nearest"))
    for padding, align in itertools.product(PADDINGS, (True, False))
]


def reference(x, grid, mode="bilinear", padding_mode="zeros", align_corners=False):
    return torch.nn.functional.grid_sample(x, grid, mode, padding_mode, align_corners)


def near(got, expected, image):
    """Within float32 rounding of the image's values: samples themselves may cancel to nearly nothing."""
    assert got.dtype == expected.dtype
    torch.testing.assert_close(got, expected, rtol=0, atol=1e-5 * float(image.abs().max()))


@functools.cache
def interpreter(ndim, mode, padding_mode, align_corners, channels, lowering, constant=False):
    """A network of dynamic sizes, made once; every example runs it on sizes of its own."""
    net = td.Network()
    names = ("D", "H", "W")[5 - ndim :]
    x = net.input("x", ("N", channels, *names))
    grid = net.input("grid", ("N", *(f"{name}o" for name in names), ndim - 2))
    net.output(F.grid_sample(x, grid, mode, padding_mode, align_corners, lowering=lowering), "y")
    return td.Interpreter(net)


def points(rng, shape, sizes, mode, padding_mode, align_corners):
    """Random points, mixed with borders, pixel centres, half pixels and far places of each dimension."""
    grid = rng.normal(size=shape).astype(np.float32) * np.float32(rng.choice([0.5, 1.0, 3.0]))
    for k, size in enumerate(reversed(sizes)):
        pixel = rng.integers(-4, 2 * size + 4, size=shape[:-1]) / 2  # centres and halves, in pixels
        gaps = max(size - 1, 1)
        normal = pixel * 2 / gaps - 1 if align_corners else (2 * pixel + 1) / size - 1
        special = np.where(rng.random(shape[:-1]) < 0.3, rng.choice([-1, 1, 0, 7.3, -1e3], size=shape[:-1]), normal)
        grid[..., k] = np.where(rng.random(shape[:-1]) < 0.5, special, grid[..., k])
        if mode == "nearest" and padding_mode == "reflection":
            # Folding back rounds once more than torch does: keep away from the halves that decide between two pixels.
            place = (grid[..., k] + 1) / 2 * (size - 1) if align_corners else ((grid[..., k] + 1) * size - 1) / 2
            close = np.abs(place - np.floor(place) - 0.5) < 1e-3
            grid[..., k] = np.where(close, 0.013, grid[..., k])
    return torch.from_numpy(grid)


@settings(max_examples=500, deadline=None)
@given(
    st.sampled_from(CASES),
    st.lists(st.integers(1, 7), min_size=3, max_size=3),
    st.lists(st.integers(1, 5), min_size=3, max_size=3),
    st.integers(1, 2),
    st.sampled_from((1, 3)),
    st.sampled_from(("native", "auto")),
    st.integers(0, 2**31),
)
def test_dynamic_sizes_and_any_points(case, sizes, out, batch, channels, lowering, seed):
    ndim, mode, padding_mode, align_corners = case
    sizes, out, rng = sizes[: ndim - 2], out[: ndim - 2], np.random.default_rng(seed)
    x = torch.from_numpy(rng.normal(size=(batch, channels, *sizes)).astype(np.float32))
    grid = points(rng, (batch, *out, ndim - 2), sizes, mode, padding_mode, align_corners)
    got = interpreter(*case, channels, lowering)({"x": x, "grid": grid})["y"]
    near(got, reference(x, grid, mode, padding_mode, align_corners), x)


@settings(max_examples=100, deadline=None)
@given(
    st.sampled_from(CASES),
    st.lists(st.integers(1, 6), min_size=3, max_size=3),
    st.lists(st.integers(1, 5), min_size=3, max_size=3),
    st.sampled_from((1, 2)),
    st.booleans(),
    st.integers(0, 2**31),
)
def test_static_sizes_with_a_grid_fed_or_constant(case, sizes, out, channels, constant, seed):
    ndim, mode, padding_mode, align_corners = case
    sizes, out, rng = sizes[: ndim - 2], out[: ndim - 2], np.random.default_rng(seed)
    x = torch.from_numpy(rng.normal(size=(2, channels, *sizes)).astype(np.float32))
    grid = points(rng, (2, *out, ndim - 2), sizes, mode, padding_mode, align_corners)
    if constant:
        got = evaluate(lambda x: F.grid_sample(x, x.network.constant(grid), mode, padding_mode, align_corners), x)
    else:
        got = evaluate(lambda x, grid: F.grid_sample(x, grid, mode, padding_mode, align_corners), x, grid)
    near(got, reference(x, grid, mode, padding_mode, align_corners), x)


@pytest.mark.filterwarnings("ignore:Since version 1.3.0")
@settings(max_examples=150, deadline=None)
@given(
    st.sampled_from(CASES),
    st.lists(st.integers(1, 6), min_size=3, max_size=3),
    st.lists(st.integers(1, 6), min_size=3, max_size=3),
    st.sampled_from(("auto", "taps", "resize")),
    st.booleans(),
    st.integers(0, 2**31),
)
def test_grids_along_the_axes(case, sizes, out, lowering, whole, seed):
    """A constant affine grid without rotation: the whole image, or a piece of it."""
    ndim, mode, padding_mode, align_corners = case
    sizes, out, rng = sizes[: ndim - 2], out[: ndim - 2], np.random.default_rng(seed)
    theta = torch.zeros(2, ndim - 2, ndim - 1)
    for k in range(ndim - 2):
        theta[:, k, k] = 1.0 if whole else rng.normal()
        theta[:, k, -1] = 0.0 if whole else rng.normal()
    x = torch.from_numpy(rng.normal(size=(2, 3, *sizes)).astype(np.float32))
    grid = torch.nn.functional.affine_grid(theta, (2, 3, *out), align_corners=align_corners)
    expected = reference(x, grid, mode, padding_mode, align_corners)
    if mode == "nearest":  # a point half way between two pixels goes either way
        noise = torch.full_like(grid, 1e-5)
        if not torch.equal(reference(x, grid + noise, *case[1:]), reference(x, grid - noise, *case[1:])):
            return
    got = evaluate(
        lambda x: F.grid_sample(x, x.network.constant(grid), mode, padding_mode, align_corners, lowering=lowering), x
    )
    near(got, expected, x)


@pytest.mark.parametrize("lowering", ["taps", "native"])
@pytest.mark.parametrize(("ndim", "mode", "padding_mode", "align_corners"), CASES)
def test_nan_and_infinity(ndim, mode, padding_mode, align_corners, lowering):
    """Outside of the image, as in torch's CUDA kernels.

    Its CPU kernels differ among themselves: bilinear with zeros multiplies a NaN weight by nothing on 4 dimensions, and
    5 dimensions take the last pixel for NaN where 4 take the first. Expected values are of the plain reading: zeros
    gives 0, border the edge that is nearer (the first for NaN), bicubic NaN. TensorRT's own layer takes NaN for -1, and
    its kernels multiply what lies outside of the image by infinity.
    """
    x = torch.arange(1.0, 1 + 5 ** (ndim - 2)).reshape(1, 1, *[5] * (ndim - 2))
    for bad, edge in ((float("nan"), -1.0), (float("inf"), 1.0), (float("-inf"), -1.0)):
        point = torch.full((1, *[1] * (ndim - 2), ndim - 2), 0.1)
        point[..., 0] = bad
        got = interpreter(ndim, mode, padding_mode, align_corners, 1, lowering)({"x": x, "grid": point})["y"].item()
        if lowering == "native" and padding_mode == "zeros":
            point[..., 0] = -1.0
            multiplied = mode != "nearest" and np.isinf(bad)
            first = np.nan if multiplied else reference(x, point, mode, padding_mode, align_corners).item()
            assert got == pytest.approx(0.0 if mode == "nearest" and np.isinf(bad) else first, rel=1e-5, nan_ok=True)
        elif mode == "bicubic" and lowering != "native":
            assert np.isnan(got)
            assert np.isnan(reference(x, point, mode, padding_mode, align_corners).item())
        elif padding_mode == "zeros" and mode != "bicubic":
            assert got == 0
        elif padding_mode == "border" and mode != "bicubic":
            point[..., 0] = edge
            assert got == pytest.approx(reference(x, point, mode, padding_mode, align_corners).item(), rel=1e-5)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
@pytest.mark.parametrize("lowering", ["taps", "native"])
def test_half_precision_computes_coordinates_in_float32(mode, dtype, lowering):
    """Half precision cannot tell the columns of a wide image apart; float32 coordinates can."""
    x = torch.randn(1, 2, 3, 900).to(dtype)
    grid = torch.rand(1, 4, 50, 2) * 2 - 1
    expected = reference(x.float(), grid, mode).to(dtype)
    got = evaluate(lambda x, grid: F.grid_sample(x, grid, mode, align_corners=False, lowering=lowering), x, grid)
    assert_close(got, expected, torch.finfo(dtype).eps)
    coarse = (x, grid.to(dtype))
    low = evaluate(lambda x, grid: F.grid_sample(x, grid, mode, align_corners=False, lowering=lowering), *coarse)
    assert_close(low, reference(x.float(), grid.to(dtype).float(), mode).to(dtype), torch.finfo(dtype).eps)


def test_a_constant_grid_leaves_gathers_and_their_weights():
    net = td.Network()
    grid = torch.rand(1, 300, 300, 2)
    x = net.input("x", (1, 1, 480, 640))
    net.output(F.grid_sample(x, net.constant(grid), align_corners=False), "y")
    types = layer_types(net)
    assert types.count("GATHER") == 4
    assert set(types) == {"SHUFFLE", "CONSTANT", "GATHER", "ELEMENTWISE"}
    assert types.count("ELEMENTWISE") == 4 + 3


@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_grid_sample_is_one_launch_without_activation_memory(dtype, mode):
    net = td.Network()
    x, grid = net.input("x", (1, 64, 60, 80), dtype), net.input("g", (1, 30, 40, 2))
    net.output(F.grid_sample(x, grid, mode, align_corners=False), "y")
    program = td.program(net)
    assert program.launch_count == 1
    assert program.memory == 0


def test_one_gather_for_each_tap():
    for channels, (mode, taps) in itertools.product((1, 5), {"bilinear": 4, "nearest": 1, "bicubic": 16}.items()):
        net = td.Network()
        y = F.grid_sample(net.input("x", (2, channels, 6, 7)), net.input("g", (2, 3, 4, 2)), mode, align_corners=False)
        net.output(y, "y")
        types = layer_types(net)
        assert types.count("GATHER") == taps
        definition = net.definition
        transposes = 0
        for index in range(definition.num_layers):
            layer = definition.get_layer(index)
            if layer.type.name == "SHUFFLE":
                layer.__class__ = net.trt.IShuffleLayer
                order = list(layer.first_transpose)
                transposes += order != list(range(8))
        assert transposes == (0 if channels == 1 else 2)


def test_a_zoom_along_the_axes_is_read_one_dimension_after_the_other():
    """All taps at once need the places and weights of each point: 12,288,000 bytes."""
    net = td.Network()
    x = net.input("x", (1, 1, 480, 640))
    theta = net.constant(torch.tensor([[[0.5, 0, 0], [0, 0.5, 0]]]))
    zoom = F.affine_grid(theta, (1, 1, 480, 640), align_corners=True)
    net.output(F.grid_sample(x, zoom, align_corners=True), "y")
    program = td.program(net)
    assert (program.launch_count, program.bytes) <= (1, 2_475_520)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_a_zoom_in_half_precision_is_rounded_once(dtype):
    net = td.Network()
    theta = net.constant(torch.tensor([[[0.5, 0, 0], [0, 0.5, 0]]]))
    zoom = F.affine_grid(theta, (1, 3, 9, 11), align_corners=True)
    net.output(F.grid_sample(net.input("x", (1, 3, 8, 8), dtype), zoom, align_corners=True, lowering="resize"), "y")
    x = torch.rand(1, 3, 8, 8).to(getattr(torch, dtype))
    want = torch.nn.functional.grid_sample(x.float(), zoom.data, align_corners=True).to(x.dtype)
    found = td.interpret(net, {"x": x})["y"]
    assert (found == want).float().mean() > 0.98  # but where float32 rounds across a half
    torch.testing.assert_close(found, want)


def test_resize_lowering_gives_its_reason():
    net = td.Network()
    x = net.input("x", (1, 1, 4, 4))
    turn = torch.tensor([[[0.8, 0.6, 0.0], [-0.6, 0.8, 0.0]]])
    turned = torch.nn.functional.affine_grid(turn, (1, 1, 3, 3), align_corners=False)
    with pytest.raises(td.UnsupportedError, match="coordinate y of the grid changes along another dimension"):
        F.grid_sample(x, net.constant(turned), align_corners=False, lowering="resize")
    pieces = torch.tensor([[[0.5, 0, 0], [0, 0.5, 0]], [[0.7, 0, 0], [0, 0.7, 0]]])
    grid = net.constant(torch.nn.functional.affine_grid(pieces, (2, 1, 3, 3), align_corners=False))
    with pytest.raises(td.UnsupportedError, match="coordinate y of the grid changes along another dimension"):
        F.grid_sample(net.input("two", (2, 1, 4, 4)), grid, align_corners=False, lowering="resize")
    with pytest.raises(td.UnsupportedError, match="the grid is not known when the network is written"):
        F.grid_sample(x, net.input("g", (1, 3, 3, 2)), align_corners=False, lowering="resize")
    wide = net.input("wide", (1, 1, "H", 4))
    with pytest.raises(td.UnsupportedError, match="the image has dynamic sizes"):
        F.grid_sample(wide, net.constant(turned), align_corners=False, lowering="resize")


@pytest.mark.parametrize(
    "changed",
    [{"mode": "nearest"}, {"mode": "bicubic"}, {"padding_mode": "border"}, {"padding_mode": "reflection"}]
    + [{"align_corners": True}],
    ids=str,
)
@pytest.mark.parametrize("lowering", ["taps", "native"])
def test_each_argument_matters(changed, lowering):
    base = {"mode": "bilinear", "padding_mode": "zeros", "align_corners": False}
    x, grid = torch.randn(1, 2, 5, 6), torch.randn(1, 4, 4, 2)
    before, after = reference(x, grid, **base), reference(x, grid, **base | changed)
    assert not torch.allclose(before, after, atol=1e-2)
    near(evaluate(lambda x, g: F.grid_sample(x, g, **base | changed, lowering=lowering), x, grid), after, x)


@pytest.mark.parametrize(
    ("shape", "grid", "kwargs", "message"),
    [
        ((1, 1, 4, 4), (1, 3, 3, 3), {}, "the points of the grid have 2 coordinates"),
        ((1, 1, 4, 4), (1, 3, 3, 3, 3), {}, "a grid of 4 dimensions, or of 5"),
        ((1, 4, 4), (1, 3, 2), {}, "a grid of 4 dimensions, or of 5"),
        ((1, 1, 4, 4), (2, 3, 3, 2), {}, "the batches of both do not match: 1 and 2"),
        ((1, 1, 4, 4), (1, 3, 3, 2), {"mode": "linear"}, "mode is one of .*, not 'linear'"),
        ((1, 1, 4, 4), (1, 3, 3, 2), {"padding_mode": "wrap"}, "padding_mode is one of .*, not 'wrap'"),
        ((1, 1, 4, 4, 4), (1, 3, 3, 3, 3), {"mode": "bicubic"}, "bicubic takes 4 dimensions"),
    ],
)
def test_bad_arguments_have_one_clear_error(shape, grid, kwargs, message):
    with pytest.raises((RuntimeError, ValueError)):
        torch.nn.functional.grid_sample(torch.zeros(shape), torch.zeros(grid), align_corners=False, **kwargs)
    net = td.Network()
    with pytest.raises(td.DefinitionError, match=message) as error:
        F.grid_sample(net.input("x", shape), net.input("g", grid), align_corners=False, **kwargs)
    assert error.value.location.file == __file__


def test_unknown_lowerings_and_integers_are_refused():
    net = td.Network()
    x, grid = net.input("x", (1, 1, 4, 4)), net.input("g", (1, 3, 3, 2))
    with pytest.raises(td.UnsupportedError, match="unknown lowering 'fast'"):
        F.grid_sample(x, grid, lowering="fast")
    with pytest.raises(td.UnsupportedError, match="cast it first"):
        F.grid_sample(net.input("n", (1, 1, 4, 4), "int32"), grid)


def samples():
    """torch's own, of the function and of the operators below it: input, grid, mode, padding_mode, align_corners."""
    from torch.testing._internal.common_methods_invocations import op_db

    modes = ("bilinear", "nearest", "bicubic")
    for info in op_db:
        if info.name == "nn.functional.grid_sample":
            for sample in info.sample_inputs("cpu", torch.float32):
                yield sample.input.detach(), sample.args[0].detach(), *sample.kwargs.values()
        elif info.name in ("grid_sampler_2d", "grid_sampler_3d"):
            for sample in info.sample_inputs("cpu", torch.float32):
                grid, mode, padding, align_corners = sample.args
                yield sample.input.detach(), grid.detach(), modes[mode], PADDINGS[padding], align_corners


@pytest.mark.parametrize("lowering", ["taps", "native"])
def test_torch_opinfo_samples(lowering):
    seen = 0
    for x, grid, *case in samples():
        got = evaluate(lambda x, grid, c=case: F.grid_sample(x, grid, *c, lowering=lowering), x, grid)
        near(got, reference(x, grid, *case), x)
        seen += 1
    assert seen >= 70


# -- bilinear_sample ---------------------------------------------------------------------------------------------------


def by_hand(image, coords):
    """The function that people write: four pixels and their weights, where all four are in the image."""
    n, _, h, w = image.shape
    x, y = coords.unbind(-1)
    valid = (x >= 0) & (x < w - 1) & (y >= 0) & (y < h - 1)
    x0 = x.floor().clamp(0, max(w - 2, 0)).long()
    y0 = y.floor().clamp(0, max(h - 2, 0)).long()
    x1, y1 = (x0 + 1).clamp(max=w - 1), (y0 + 1).clamp(max=h - 1)
    batch = torch.arange(n).reshape(-1, 1, 1)
    fx, fy = (x - x0).unsqueeze(-1), (y - y0).unsqueeze(-1)
    pixels = image.permute(0, 2, 3, 1)
    top = pixels[batch, y0, x0] * (1 - fx) + pixels[batch, y0, x1] * fx
    bottom = pixels[batch, y1, x0] * (1 - fx) + pixels[batch, y1, x1] * fx
    samples = (top * (1 - fy) + bottom * fy).permute(0, 3, 1, 2)
    mask = valid.unsqueeze(1)
    return torch.where(mask, samples, 0.0), mask


@functools.cache
def sampler(channels, padding_mode, align_corners):
    net = td.Network()
    image, coords = net.input("image", ("N", channels, "H", "W")), net.input("coords", ("N", "Ho", "Wo", 2))
    samples, valid = F.bilinear_sample(image, coords, padding_mode, align_corners)
    net.output(samples, "samples")
    net.output(valid, "valid")
    return td.Interpreter(net)


@settings(max_examples=200, deadline=None)
@given(
    st.sampled_from(("valid", *PADDINGS)),
    st.booleans(),
    st.sampled_from((1, 3)),
    st.tuples(st.integers(1, 2), st.integers(1, 7), st.integers(1, 7), st.integers(1, 5), st.integers(1, 5)),
    st.integers(0, 2**31),
)
def test_bilinear_sample(padding_mode, align_corners, channels, sizes, seed):
    n, h, w, ho, wo = sizes
    rng = np.random.default_rng(seed)
    image = torch.from_numpy(rng.normal(size=(n, channels, h, w)).astype(np.float32))
    coords = torch.from_numpy(rng.integers(-12, 4 * max(h, w) + 12, size=(n, ho, wo, 2)).astype(np.float32) / 4)
    got = sampler(channels, padding_mode, align_corners)({"image": image, "coords": coords})
    expected, valid = by_hand(image, coords)
    assert torch.equal(got["valid"], valid)
    if padding_mode != "valid":  # pixels to torch's normalised coordinates and back, in float64
        size = torch.tensor([w, h], dtype=torch.float64)
        if align_corners and min(h, w) == 1:
            return  # torch divides by zero there
        normal = coords.double() * 2 / (size - 1) - 1 if align_corners else (coords.double() * 2 + 1) / size - 1
        expected = reference(image.double(), normal, "bilinear", padding_mode, align_corners).float()
    near(got["samples"], expected, image)


def test_bilinear_sample_of_nan_is_not_valid():
    image, coords = torch.randn(1, 2, 4, 4), torch.full((1, 1, 2, 2), float("nan"))
    coords[0, 0, 1] = torch.tensor([1.0, float("inf")])
    samples, valid = evaluate(lambda image, coords: F.bilinear_sample(image, coords), image, coords)
    assert not valid.any()
    assert not samples.any()


def test_bilinear_sample_refuses():
    net = td.Network()
    image = net.input("image", (1, 2, 4, 4))
    for coords, kwargs, message in (
        ((1, 3, 3, 3), {}, "coordinates .N, Ho, Wo, 2."),
        ((1, 3, 2), {}, "coordinates .N, Ho, Wo, 2."),
        ((2, 3, 3, 2), {}, "the batches of both do not match: 1 and 2"),
        ((1, 3, 3, 2), {"padding_mode": "edge"}, "padding_mode is one of .*, not 'edge'"),
    ):
        with pytest.raises(td.DefinitionError, match=message) as error:
            F.bilinear_sample(image, net.input(f"c{coords}", coords), **kwargs)
        assert error.value.location.file == __file__


@pytest.mark.parametrize("points", [(0, 2, 3, 2), (2, 0, 3, 2)])
def test_a_constant_grid_without_points(points):
    x = torch.randn(points[0], 3, 4, 5)
    net = td.Network()
    grid = net.constant(torch.zeros(points))
    net.output(F.grid_sample(net.input("x", x.shape), grid, align_corners=False), "y")
    want = torch.nn.functional.grid_sample(x, torch.zeros(points), align_corners=False)
    assert td.interpret(net, {"x": x})["y"].shape == want.shape
