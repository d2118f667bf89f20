"""GRID_SAMPLE against values worked by hand and a scalar loop in numpy."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch

import trtdsl as td
import trtdsl.layers as L


def run(x, grid, *args, **kwargs):
    net = td.Network()
    y = L.grid_sample(net.input("x", x.shape, x.dtype), net.input("grid", grid.shape, grid.dtype), *args, **kwargs)
    net.output(y, "y")
    return td.interpret(net, {"x": x, "grid": grid})["y"]


def sample_row(values, points, *args, **kwargs):
    """A row of pixels read at x coordinates in pixels (ALIGN_CORNERS' normalisation undone here)."""
    x = torch.tensor(values, dtype=torch.float32).reshape(1, 1, 1, -1)
    normal = torch.tensor(points, dtype=torch.float32) * 2 / (len(values) - 1) - 1
    grid = torch.stack((normal, torch.zeros_like(normal)), -1).reshape(1, 1, -1, 2)
    return run(x, grid, *args, align_corners=True, **kwargs).flatten().tolist()


def test_linear_sampling_equals_values_worked_by_hand():
    values, points = [10, 20, 40], [0, 0.5, 1.75, 2, -0.25, 2.5, -1, 3]
    assert sample_row(values, points) == pytest.approx([10, 15, 35, 40, 7.5, 20, 0, 0], abs=1e-4)
    assert sample_row(values, points, sample_mode="CLAMP") == pytest.approx([10, 15, 35, 40, 10, 40, 10, 40], abs=1e-4)
    reflected = sample_row(values, points, sample_mode="REFLECT")
    assert reflected == pytest.approx([10, 15, 35, 40, 12.5, 30, 20, 20], abs=1e-4)


def test_nearest_rounds_half_to_even():
    values, points = [10, 20, 40, 80, 160], [0.5, 1.5, 2.5, 0.75, -0.5, 4.5, 4.75]
    assert sample_row(values, points, "NEAREST") == [10, 40, 40, 20, 10, 160, 0]
    assert sample_row(values, points, "NEAREST", "CLAMP") == [10, 40, 40, 20, 10, 160, 160]


def test_cubic_by_hand():
    # Half way between two pixels the weights for A = -0.75 are -3/32, 19/32, 19/32, -3/32.
    values = [1, 2, 4, 8]
    inner = (-3 * 1 + 19 * 2 + 19 * 4 - 3 * 8) / 32
    edge = {"FILL": 0, "CLAMP": 1, "REFLECT": 2}
    for mode, before in edge.items():
        first = (-3 * before + 19 * 1 + 19 * 2 - 3 * 4) / 32
        assert sample_row(values, [1.5, 0.5], "CUBIC", mode) == pytest.approx([inner, first], abs=1e-5)


def test_nan_and_infinite_coordinates_give_what_the_generated_kernels_give():
    nan, inf = float("nan"), float("inf")
    x = torch.arange(1.0, 5.0).reshape(1, 1, 2, 2)
    grid = torch.tensor([[nan, 0], [inf, 0], [-inf, 0], [0, inf]]).reshape(1, 1, 4, 2)
    expected = {
        ("NEAREST", "FILL", False): [1, 0, 0, 0],
        ("NEAREST", "CLAMP", False): [1, 2, 1, 3],
        ("LINEAR", "FILL", False): [1, nan, nan, nan],
        ("LINEAR", "FILL", True): [2, nan, nan, nan],
        ("LINEAR", "CLAMP", False): [2, 3, 2, 3.5],
        ("LINEAR", "REFLECT", True): [2, 2, 2, 1.5],
        ("CUBIC", "FILL", False): [1.076171875, nan, nan, nan],
        ("CUBIC", "CLAMP", False): [1.90625, nan, nan, nan],
    }
    for (mode, outside, align), values in expected.items():
        y = run(x, grid, mode, outside, align)
        torch.testing.assert_close(y.flatten(), torch.tensor(values, dtype=torch.float32), equal_nan=True)


def test_one_pixel():
    for mode, outside in itertools.product(("LINEAR", "NEAREST", "CUBIC"), ("CLAMP", "REFLECT")):
        x = torch.full((1, 1, 1, 1), 7.0)
        grid = torch.tensor([[0.0, 0.0], [0.9, -3.0]]).reshape(1, 1, 2, 2)
        for align in (True, False):
            y = run(x, grid, mode, outside, align)
            torch.testing.assert_close(y, torch.full_like(y, 7.0))


def reference(x, grid, mode, outside, align):
    """A loop over points and taps, in float64."""
    n, c, *sizes = x.shape
    result = np.zeros((n, c, *grid.shape[1:-1]))

    def bring(p, s):
        if outside == "REFLECT":
            low, high = (0, s - 1) if align else (-0.5, s - 0.5)
            if low == high:
                return 0.0
            while p < low or p > high:
                p = 2 * low - p if p < low else 2 * high - p
        return p if outside == "FILL" else min(max(p, 0), s - 1)

    def weight(d):
        d = abs(d)
        if d <= 1:
            return 1.25 * d**3 - 2.25 * d**2 + 1
        return -0.75 * (d**3 - 5 * d**2 + 8 * d - 4) if d < 2 else 0

    for index in np.ndindex(n, *grid.shape[1:-1]):
        axes = []
        for k, s in enumerate(sizes):
            g = float(grid[index][len(sizes) - 1 - k])
            p = (g + 1) / 2 * (s - 1) if align else ((g + 1) * s - 1) / 2
            if mode == "CUBIC":
                b = math.floor(p)
                axes.append([(int(bring(b + o, s)), weight(p - b - o)) for o in (-1, 0, 1, 2)])
                continue
            p = bring(p, s)
            b = math.floor(p)
            axes.append([(round(p), 1.0)] if mode == "NEAREST" else [(b, b + 1 - p), (b + 1, p - b)])
        for taps in itertools.product(*axes):
            where = [t for t, _ in taps]
            if all(0 <= t < s for t, s in zip(where, sizes, strict=True)):
                value = x[(index[0], slice(None), *where)] * math.prod(w for _, w in taps)
                result[(index[0], slice(None), *index[1:])] += value
    return result


@pytest.mark.parametrize("align", [True, False])
@pytest.mark.parametrize("outside", ["FILL", "CLAMP", "REFLECT"])
@pytest.mark.parametrize(("mode", "ndim"), [("LINEAR", 4), ("NEAREST", 4), ("CUBIC", 4), ("LINEAR", 5), ("NEAREST", 5)])
def test_all_modes_against_a_scalar_loop(mode, ndim, outside, align):
    rng = np.random.default_rng(1)
    x = rng.normal(size=(2, 3, 4, 5, 3)[:ndim])
    # no point within rounding of a half, where the loop's float64 would choose another pixel
    grid = rng.integers(-40, 40, size=(2, 3, 4, 2)[: ndim - 1] + (ndim - 2,)) / 16 + 0.013
    y = run(torch.from_numpy(x).float(), torch.from_numpy(grid).float(), mode, outside, align)
    np.testing.assert_allclose(y.numpy(), reference(x, grid, mode, outside, align), atol=1e-4)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_rounds_once(dtype):
    x, grid = torch.randn(1, 2, 5, 5).to(dtype), (torch.rand(1, 3, 4, 2) * 2 - 1).to(dtype)
    y = run(x, grid)
    assert y.dtype == dtype
    assert torch.equal(y, run(x.float(), grid.float()).to(dtype))


def test_shapes_that_do_not_fit_are_refused():
    net = td.Network()
    x = net.input("x", (1, 1, 4, 4))
    with pytest.raises(td.ShapeError, match="do not fit"):
        L.grid_sample(x, net.input("g", (1, 4, 4, 3)))
    with pytest.raises(td.ShapeError, match="do not fit"):
        L.grid_sample(x, net.input("g5", (1, 4, 4, 4, 3)))
    with pytest.raises(td.ShapeError, match="do not fit"):
        L.grid_sample(x, net.input("g2", (2, 4, 4, 2)))
    with pytest.raises(td.UnsupportedError, match="unknown sample mode 'BORDER'"):
        L.grid_sample(x, net.input("g1", (1, 4, 4, 2)), sample_mode="BORDER")
