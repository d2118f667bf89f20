"""Sampling and resizing on the GPU: engines against torch, in every mode; here IResizeLayer's own rounding shows."""

import itertools

import pytest
import torch

import trtdsl as td
import trtdsl.functional as F
from trtdsl.engine.engine import engine_of

kernels = pytest.mark.real_gpu("the numbers of its kernels")
PADDINGS = ("zeros", "border", "reflection")


def near(got, expected, scale, message):
    torch.testing.assert_close(got, expected, rtol=0, atol=2e-5 * scale, msg=lambda text: f"{message}: {text}")


@kernels
@pytest.mark.parametrize("channels", [1, 5])
@pytest.mark.parametrize("lowering", ["taps", "native"])
@pytest.mark.parametrize("ndim", [4, 5])
def test_grid_sample(ndim, lowering, channels):
    torch.manual_seed(0)
    modes = ("bilinear", "nearest", "bicubic")[: 7 - ndim]
    x = torch.randn(2, channels, *(6, 7, 5)[: ndim - 2])
    grid = torch.randn(2, *(9, 8, 4)[: ndim - 2], ndim - 2) * 1.3
    net = td.Network()
    image, points = net.input("x", x.shape), net.input("grid", grid.shape)
    cases = dict(enumerate(itertools.product(modes, PADDINGS, (True, False))))
    for k, case in cases.items():
        net.output(F.grid_sample(image, points, *case, lowering=lowering), f"y{k}")
    got = engine_of(net)({"x": x, "grid": grid})
    for k, case in cases.items():
        near(got[f"y{k}"], torch.nn.functional.grid_sample(x, grid, *case), 4, case)


def test_points_at_nan_and_far_outside():
    x = torch.randn(1, 2, 5, 5)
    bad = [float("nan"), float("inf"), float("-inf"), 1e20, -1e20]
    grid = torch.tensor([[value, 0.1] for value in bad]).reshape(1, 1, -1, 2)
    net = td.Network()
    image, points = net.input("x", x.shape), net.input("grid", grid.shape)
    net.output(F.grid_sample(image, points, "bilinear", "zeros", False), "zeros")
    net.output(F.grid_sample(image, points, "bilinear", "border", False), "border")
    got = engine_of(net)({"x": x, "grid": grid})
    assert not got["zeros"].any()
    edges = torch.tensor([[edge, 0.1] for edge in (-1.0, 1.0, -1.0, 1.0, -1.0)]).reshape(1, 1, -1, 2)
    expected = torch.nn.functional.grid_sample(x, edges, "bilinear", "border", False)
    near(got["border"], expected, 4, "border")


@kernels
@pytest.mark.parametrize(
    ("mode", "kwargs"),
    [
        ("nearest", {}),
        ("nearest-exact", {}),
        ("area", {}),
        ("bilinear", {"align_corners": False}),
        ("bilinear", {"align_corners": True}),
        ("bicubic", {"align_corners": False}),
        ("bicubic", {"align_corners": True}),
        ("bilinear", {"antialias": True}),
    ],
)
def test_interpolate_every_pair_of_sizes_to_16(mode, kwargs):
    torch.manual_seed(0)
    for length in range(1, 17):
        x = torch.randn(1, 2, 3, length)
        net = td.Network()
        image = net.input("x", x.shape)
        for target in range(1, 17):
            net.output(F.interpolate(image, (3, target), mode=mode, **kwargs), f"y{target}")
        got = engine_of(net)({"x": x})
        for target in range(1, 17):
            expected = torch.nn.functional.interpolate(x, (3, target), mode=mode, **kwargs)
            near(got[f"y{target}"], expected, 4, f"{length} to {target}")


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision(dtype):
    x, grid = torch.randn(1, 4, 6, 900).to(dtype), torch.rand(1, 5, 300, 2) * 2 - 1
    net = td.Network()
    y = F.grid_sample(net.input("x", x.shape, dtype), net.input("grid", grid.shape), align_corners=False)
    net.output(y, "y")
    expected = torch.nn.functional.grid_sample(x.float(), grid, align_corners=False)
    near(engine_of(net)({"x": x, "grid": grid})["y"].float(), expected, 4e5 * torch.finfo(dtype).eps, dtype)


@kernels
@pytest.mark.parametrize("name", ["raft_small", "stn"])
def test_networks(name):
    from pathlib import Path

    spec = td.load_spec(str(Path(__file__).parents[2] / "networks" / f"{name}.py"))
    dims = {"N": 1, "H8": 16, "W8": 18} if name == "raft_small" else {"N": 2}
    assert td.check(spec, on="engine", dims=dims).passed
