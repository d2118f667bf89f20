"""What sampling and resizing emit is what TensorRT builds: engines with static and dynamic sizes."""

from __future__ import annotations

import itertools

import pytest
import torch
from support import layer_types

import trtdsl as td
import trtdsl.functional as F
from trtdsl.engine.compiling.compiler import compile_engine

N = td.Dim("N", min=1, opt=2, max=3)
DIMS = {name: td.Dim(name, min=1, opt=9, max=33) for name in ("D", "H", "W", "Do", "Ho", "Wo")}
D, H, W, Do, Ho, Wo = DIMS.values()


def build(net):
    return compile_engine(net).statistics


@pytest.mark.parametrize("ndim", [4, 5])
@pytest.mark.parametrize("lowering", [pytest.param("taps", marks=pytest.mark.heavy), "native"])
def test_grid_sample(ndim, lowering):
    """All modes and paddings in one engine, of dynamic sizes that may be 1."""
    spatial, out = ((H, W), (Ho, Wo)) if ndim == 4 else ((D, H, W), (Do, Ho, Wo))
    net = td.Network()
    x, grid = net.input("x", (N, 3, *spatial)), net.input("grid", (N, *out, ndim - 2))
    modes = ("bilinear", "nearest", "bicubic")[: 7 - ndim]
    for k, case in enumerate(itertools.product(modes, ("zeros", "border", "reflection"), (True, False))):
        net.output(F.grid_sample(x, grid, *case, lowering=lowering), f"y{k}")
    build(net)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision(dtype):
    net = td.Network()
    x, grid = net.input("x", (2, 3, 8, 8), dtype), net.input("grid", (2, 5, 5, 2), dtype)
    net.output(F.grid_sample(x, grid, align_corners=False), "sampled")
    for k, kwargs in enumerate(({"mode": "area"}, {"mode": "bicubic"}, {"mode": "bilinear", "antialias": True})):
        net.output(F.interpolate(x, (5, 13), **kwargs), f"y{k}")
    build(net)


def test_sampling_in_pixels_and_along_the_axes():
    net = td.Network()
    image, coords = net.input("image", (N, 1, H, W)), net.input("coords", (N, Ho, Wo, 2))
    for k, padding in enumerate(("valid", "zeros", "border", "reflection")):
        samples, valid = F.bilinear_sample(image, coords, padding)
        net.output(samples, f"samples{k}")
        net.output(valid, f"valid{k}")
    static = net.input("static", (2, 3, 8, 8))
    theta = net.constant(torch.tensor([[[0.5, 0, 0], [0, -0.7, 0.2]]]))
    grid = F.affine_grid(theta.expand(2, 2, 3), (2, 3, 6, 7), align_corners=False)
    net.output(F.grid_sample(static, grid, lowering="resize"), "along")
    net.output(F.affine_grid(net.input("theta", (N, 2, 3)), image.shape, True), "grid")
    build(net)


MODES = [
    ("nearest", {}),
    ("nearest-exact", {}),
    ("bilinear", {"align_corners": False}),
    ("bilinear", {"align_corners": True}),
    ("bicubic", {"align_corners": False}),
    ("bicubic", {"align_corners": True}),
    ("area", {}),
    ("bilinear", {"antialias": True}),
    ("bicubic", {"antialias": True}),
]


def test_interpolate_to_dynamic_sizes():
    net = td.Network()
    x, other = net.input("x", (N, 2, H, W)), net.input("other", (1, 1, Ho, Wo))
    for k, (mode, kwargs) in enumerate(MODES):
        net.output(F.interpolate(x, other.shape[2:], mode=mode, **kwargs), f"sized{k}")
    build(net)


def test_interpolate_by_scales():
    net = td.Network()
    rows, columns = td.Dim("R", min=4, opt=9, max=33), td.Dim("C", min=4, opt=9, max=33)
    x = net.input("x", (N, 2, rows, columns))
    for k, (mode, kwargs) in enumerate(MODES):
        for factor in (1.5, 2.0):
            y = F.interpolate(x, scale_factor=factor, mode=mode, **kwargs)
            net.output(y, f"y{k}_{int(factor * 10)}")
    build(net)


def test_gathered_taps_are_fused():
    """Coordinates, gather and sum leave nothing in memory: all taps lie along one dimension."""
    for shape, points in (((1, 1, 120, 160), (120, 160)), ((1, 64, 60, 80), (60, 80)), ((60, 1, 12, 14), (7, 7))):
        net = td.Network()
        image, coords = net.input("image", shape), net.input("coords", (shape[0], *points, 2))
        net.output(F.bilinear_sample(image, coords, "zeros")[0], "y")
        assert layer_types(net).count("GATHER") == 4
        assert build(net).activation_memory == 0
