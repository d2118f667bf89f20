"""Recipes for sizes that are known only when the network runs, each tested at several sizes from one network."""

from __future__ import annotations

import pytest
import torch
from support import assert_close, layer_types

import trtdsl as td
import trtdsl.functional as F


@pytest.mark.parametrize(
    "kwargs",
    [{"mode": "nearest"}, {"mode": "bilinear", "align_corners": False}, {"mode": "bilinear", "align_corners": True}],
    ids=str,
)
def test_odd_sizes_after_strides_are_resized_to_another_tensors_and_added(kwargs):
    """A feature pyramid: each level has half the size, rounded up, and is brought back to the size before it."""
    weights = [torch.randn(4, 3 if level == 0 else 4, 3, 3) / 5 for level in range(3)]

    def pyramid(x, conv2d, interpolate):
        levels = []
        for weight in weights:
            x = conv2d(x, weight, stride=2, padding=1)
            levels.append(x)
        top = levels.pop()
        while levels:
            level = levels.pop()
            top = level + interpolate(top, size=level.shape[2:], **kwargs)
        return top

    net = td.Network()
    x = net.input("x", ("N", 3, "H", "W"))
    result = pyramid(x, lambda x, w, **more: F.conv2d(x, net.constant(w), **more), F.interpolate)
    assert str(result.shape) == "(N, 4, (H + 1)//2, (W + 1)//2)"
    net.output(result, "y")
    interpreter = td.Interpreter(net)
    for n, h, w in ((1, 17, 23), (2, 32, 32), (1, 33, 18), (1, 57, 41), (2, 9, 100)):
        feed = torch.randn(n, 3, h, w)
        expected = pyramid(feed, torch.nn.functional.conv2d, torch.nn.functional.interpolate)
        assert_close(interpreter({"x": feed})["y"], expected)


def test_pooling_over_a_whole_dynamic_height():
    net = td.Network()
    q = net.input("q", ("N", 4, "H", "W"))
    height = q.shape[2]
    net.output(F.avg_pool2d(q, (height, 1)), "y")
    assert layer_types(net) == ["REDUCE"]
    interpreter = td.Interpreter(net)
    for n, h, w in ((1, 1, 5), (2, 7, 3), (1, 30, 1), (3, 12, 12)):
        feed = torch.randn(n, 4, h, w)
        assert_close(interpreter({"q": feed})["y"], torch.nn.functional.avg_pool2d(feed, (h, 1)))


def test_sampling_at_points_of_another_tensors_size():
    """A warp by a flow of dynamic size: absolute coordinates from arange, without normalising them."""
    net = td.Network()
    image, flow = net.input("image", ("N", 3, "H", "W")), net.input("flow", ("N", "H", "W", 2))
    n, h, w, _ = flow.shape
    with net.current():
        y, x = F.meshgrid(F.arange(h, dtype="float32"), F.arange(w, dtype="float32"), indexing="ij")
    samples, _ = F.bilinear_sample(image, F.stack([x, y], -1).unsqueeze(0) + flow, padding_mode="border")
    net.output(samples, "y")
    interpreter = td.Interpreter(net)
    for n, h, w in ((1, 5, 7), (2, 8, 4), (1, 13, 2)):
        image, flow = torch.randn(n, 3, h, w), torch.randn(n, h, w, 2) * 2
        ys, xs = torch.meshgrid(torch.arange(float(h)), torch.arange(float(w)), indexing="ij")
        at = torch.stack((xs, ys), -1) + flow
        grid = (at * 2 + 1) / torch.tensor([w, h]) - 1
        expected = torch.nn.functional.grid_sample(image, grid, padding_mode="border", align_corners=False)
        torch.testing.assert_close(interpreter({"image": image, "flow": flow})["y"], expected, rtol=0, atol=3e-5)
