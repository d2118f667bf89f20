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


@pytest.mark.parametrize(
    "compute",
    [
        lambda t: t - 0.5,
        lambda t: 0.5 + t,
        lambda t: 1.5 - t,
        lambda t: t * 0.5,
        lambda t: (t - 1) / 2,
        lambda t: 3 / t,
        lambda t: t / (t + 1),
        lambda t: (t * t) ** 0.5,
        lambda t: t**-1,
        lambda t: t**2,
    ],
)
def test_a_size_as_a_number(compute):
    """Pixels to the range [-1, 1], a mean from a sum: what is no whole number is a scalar that is computed."""
    net = td.Network()
    x = net.input("x", ("T", 3))
    with net.current():
        number = compute(x.shape[0])
    net.output(x * number, "y")
    interpreter = td.Interpreter(net)
    for length in (1, 2, 7):
        feed = torch.randn(length, 3)
        assert_close(interpreter({"x": feed})["y"], feed * compute(length))


def test_a_size_as_a_number_needs_a_network():
    with pytest.raises(td.UsageError, match="no network here"):
        _ = td.Dim("T") / 2


@pytest.mark.parametrize(
    "arange",
    [
        lambda m, t: m.arange(t - 1, -t, -1.0),
        lambda m, t: m.arange(0.0, t, 1.0),
        lambda m, t: m.arange(0.5, t),
        lambda m, t: m.arange(0.5, t + 2, 2),
        lambda m, t: m.arange(0, t, 0.25),
        lambda m, t: m.arange(t, -0.75, -1.5),
        lambda m, t: m.arange(0.0, t, dtype=torch.int64),
        lambda m, t: m.linspace(0.5, t - 0.5, t) if m is F else m.linspace(0.5, t - 0.5, int(t)),
    ],
)
def test_ranges_of_floats_over_a_size(arange):
    net = td.Network()
    x = net.input("x", (td.Dim("T", min=1, opt=4, max=9),))
    with net.current():
        result = arange(F, x.shape[0])
    net.output(result, "y")
    interpreter = td.Interpreter(net)
    for length in (1, 2, 5, 9):
        assert_close(interpreter({"x": torch.zeros(length)})["y"], arange(torch, length))


def test_a_range_whose_length_is_open_is_refused():
    net = td.Network()
    x = net.input("x", ("T",))
    with net.current(), pytest.raises(td.UnsupportedError, match="0.1 is no exact fraction"):
        F.arange(0, x.shape[0], 0.1)


@pytest.mark.parametrize("kind", ["conv1d", "conv2d", "conv_transpose2d"])
def test_a_convolution_with_a_weight_for_each_sample(kind, tmp_path):
    """As StyleGAN2 has it: a group of channels for each sample of a dynamic batch."""

    class PerSample(torch.nn.Module):
        def forward(self, x, weight):
            n = x.shape[0]
            flat, weights = x.reshape(1, n * 8, *x.shape[2:]), weight.reshape(n * weight.shape[1], *weight.shape[2:])
            found = getattr(torch.nn.functional, kind)(flat, weights, stride=2, padding=1, groups=n)
            return found.view(n, 12, *found.shape[2:])

    sides, kernel = ("H", "3") if kind == "conv1d" else ("H,6", "3,3")
    channels = "8,12" if "transpose" in kind else "12,8"
    inputs = {"x": f"N,8,{sides}", "weight": f"N,{channels},{kernel}"}
    spec = td.from_module(PerSample(), inputs, dims={"N": (1, 2, 3), "H": (4, 5, 8)})
    td.check(spec).raise_for_mismatch()
    td.build(spec, tmp_path / "x.engine")


def test_a_convolution_with_open_weights_of_a_group_is_refused():
    net = td.Network()
    x, weight = net.input("x", ("N", 8, 5, 5)), net.input("weight", (12, "C", 3, 3))
    for function in (F.conv2d, F.conv_transpose2d):
        with pytest.raises(td.UnsupportedError, match="a group's weight must be static"):
            function(x, weight)


def test_half_of_a_dynamic_dimension():
    net = td.Network()
    x = net.input("x", ("H", 4))
    first = x[: x.shape[0] // 2]
    assert str(first.shape) == "(H//2, 4)"
    net.output(first, "y")
    assert_close(td.interpret(net, {"x": (feed := torch.randn(7, 4))})["y"], feed[:3])


def test_a_number_made_of_a_size_where_a_number_must_be_known():
    net = td.Network()
    x = net.input("x", (1, 3, "H", 8))
    with net.current(), pytest.raises(td.UnsupportedError, match="give size instead"):
        F.interpolate(x, scale_factor=(x.shape[2] / 4, 2))
    with net.current(), pytest.raises(td.DefinitionError, match=r"such as x.shape\[1\] // 2, not to Tensor"):
        _ = x[:, :, : x.shape[2] / 2]
    assert x[:, :, : torch.tensor(3).numpy()[()]].shape[0] == 1  # numpy's ints are ints


def test_sizes_in_a_tensor_and_parts_written_at_sizes():
    """The last pixel of each row and column, as RAFT's look-up needs it; a middle part written anew."""
    net = td.Network()
    x, y = net.input("x", ("N", "T", 3)), net.input("y", ("N", "T", 3))
    t = x.shape[1]
    with net.current():
        net.output(F.tensor([[x.shape[0], t - 1], [2, 0]]), "whole")
        net.output(F.tensor([t // 2, 0.5], dtype="float16"), "mixed")
    net.output(F.slice_scatter(x, y[:, t // 2 :], 1, start=t // 2), "tail")
    net.output(F.slice_scatter(x, y[:, : t - 2] * 2, 1, end=t - 2), "head")
    net.output(F.select_scatter(x, y[:, 0], 1, -1), "last")
    interpreter = td.Interpreter(net)
    for n, t in ((1, 2), (2, 5), (3, 8)):
        x, y = torch.randn(n, t, 3), torch.randn(n, t, 3)
        got = interpreter({"x": x, "y": y})
        assert torch.equal(got["whole"], torch.tensor([[n, t - 1], [2, 0]]))
        assert torch.equal(got["mixed"], torch.tensor([t // 2, 0.5], dtype=torch.float16))
        assert torch.equal(got["tail"], torch.slice_scatter(x, y[:, t // 2 :], 1, t // 2))
        assert torch.equal(got["head"], torch.slice_scatter(x, y[:, : t - 2] * 2, 1, 0, t - 2))
        assert torch.equal(got["last"], torch.select_scatter(x, y[:, 0], 1, -1))


def test_a_part_of_another_size_is_refused():
    net = td.Network()
    with pytest.raises(td.ShapeError, match=r"the sizes of src and of the slice do not match: 4 and 3"):
        F.slice_scatter(net.input("x", (2, 8)), net.input("y", (2, 4)), 1, end=3)
    with pytest.raises(td.ShapeError, match="tensor takes lists of equal lengths"), net.current():
        F.tensor([[1, 2], [3]])


@pytest.mark.parametrize("shape", [("N", 6), (3, 6)])
def test_a_shape_that_divides_at_no_size_is_refused_where_it_is_asked_for(shape):
    """Before TensorRT sees it, whose refusal names neither shape; N has no upper bound."""
    x = td.Network().input("x", shape)
    with pytest.raises(td.ShapeError, match=r"a tensor of shape \(., 6\) does not divide into \(., 4, -1\)"):
        F.reshape(x, (x.shape[0], 4, -1))
