"""RESIZE against values worked by hand from TensorRT's formulas, numpy, and the ONNX operator's published examples."""

from __future__ import annotations

import importlib

import numpy as np
import pytest
import torch

import trtdsl as td
import trtdsl.layers as L


def run(x, *args, dims=None, **kwargs):
    """The interpreted layer for a tensor fed as an input."""
    net = td.Network()
    net.output(L.resize(net.input("x", dims or x.shape, x.dtype), *args, **kwargs), "y")
    return td.interpret(net, {"x": x})["y"]


def row(*values):
    return torch.tensor(values, dtype=torch.float32).reshape(1, 1, 1, -1)


def test_nearest_maps_and_rounds_as_documented():
    x = row(10, 20, 30)
    size = (1, 1, 1, 4)  # i * 3 / 4: 0, 0.75, 1.5, 2.25; (i + 0.5) * 3 / 4 - 0.5: -0.125, 0.625, 1.375, 2.125
    by = {r: run(x, size=size, rounding=r).flatten().tolist() for r in ("FLOOR", "CEIL", "HALF_UP", "HALF_DOWN")}
    assert by == {
        "FLOOR": [10, 10, 20, 30],
        "CEIL": [10, 20, 30, 30],
        "HALF_UP": [10, 20, 30, 30],
        "HALF_DOWN": [10, 20, 20, 30],
    }
    half = run(x, size=size, coordinates="HALF_PIXEL", rounding="HALF_UP").flatten().tolist()
    assert half == [10, 20, 20, 30]
    corners = run(x, size=size, coordinates="ALIGN_CORNERS", rounding="HALF_DOWN")  # 0, 2/3, 4/3, 2
    assert corners.flatten().tolist() == [10, 20, 20, 30]


def test_linear_maps_and_keeps_the_edge():
    x = row(10, 20)
    size = (1, 1, 1, 4)
    assert run(x, "LINEAR", size=size).flatten().tolist() == [10, 15, 20, 20]
    half = run(x, "LINEAR", size=size, coordinates="HALF_PIXEL").flatten().tolist()
    assert half == [10, 12.5, 17.5, 20]
    corners = run(x, "LINEAR", size=size, coordinates="ALIGN_CORNERS").flatten()
    torch.testing.assert_close(corners, torch.tensor([10, 10 + 10 / 3, 10 + 20 / 3, 20]))


def test_cubic_weights_are_the_documented_ones():
    # At 1.5, half way between elements 1 and 2: weights of distances 1.5, 0.5, 0.5, 1.5 for A = -0.5: -1/16 and 9/16.
    x = row(1, 2, 4, 8)
    y = run(x, "CUBIC", size=(1, 1, 1, 8), cubic_coefficient=-0.5).flatten()
    assert y[3].item() == pytest.approx((-1 + 9 * 2 + 9 * 4 - 8) / 16)
    # A = -0.75 (the default) gives -3/32 and 19/32; at 0.5 the element before the first is the first.
    y = run(x, "CUBIC", size=(1, 1, 1, 8)).flatten()
    assert y[3].item() == pytest.approx((-3 * 1 + 19 * 2 + 19 * 4 - 3 * 8) / 32)
    assert y[1].item() == pytest.approx((-3 * 1 + 19 * 1 + 19 * 2 - 3 * 4) / 32)
    # Excluded, it counts nothing, and the other weights are scaled by 32 / 35.
    y = run(x, "CUBIC", size=(1, 1, 1, 8), exclude_outside=True).flatten()
    assert y[1].item() == pytest.approx((19 * 1 + 19 * 2 - 3 * 4) / 35)


def test_scales_say_the_ratio_and_sizes_are_rounded_down():
    x = row(*range(7))
    assert run(x, scales=(1, 1, 1, 1.5)).shape == (1, 1, 1, 10)
    # i / 1.5, where the size alone would say i * 0.7
    y = run(x, "LINEAR", scales=(1, 1, 1, 1.5)).flatten()
    torch.testing.assert_close(y, torch.arange(10) / 1.5)


@pytest.mark.parametrize(("length", "scale"), [(10, 0.7), (180, 0.7), (370, 2.3), (90, 1 / 3), (7, 1.5)])
def test_a_length_is_rounded_to_float32_before_it_is_rounded_down(length, scale):
    """As TensorRT has it for a static length, which it says itself; interpreted, a dynamic one is as long."""
    static, dynamic = td.Network(), td.Network()
    y = L.resize(static.input("x", (1, 1, length, 2)), "NEAREST", scales=(1, 1, scale, 1))
    dynamic.output(L.resize(dynamic.input("x", (1, 1, "T", 2)), "NEAREST", scales=(1, 1, scale, 1)), "y")
    found = td.interpret(dynamic, {"x": torch.zeros(1, 1, length, 2)})["y"]
    assert tuple(found.shape) == tuple(y.trt.shape)


def test_selector_decides_for_a_single_element():
    x = row(10, 20, 30)
    size = (1, 1, 1, 1)
    assert run(x, "LINEAR", size=size, coordinates="HALF_PIXEL").item() == 20
    assert run(x, "LINEAR", size=size, coordinates="HALF_PIXEL", selector="UPPER").item() == 10
    assert run(x, "LINEAR", size=size, coordinates="ALIGN_CORNERS", selector="UPPER").item() == 10
    assert run(x, "LINEAR", size=size, coordinates="ALIGN_CORNERS").item() == 10


def test_nearest_positions_are_products_in_float32():
    # float(23) * (14.f / 46.f) is below 7, which 23 * 14 / 46 is.
    assert np.float32(23) * (np.float32(14) / np.float32(46)) < 7
    assert run(row(*range(14)), size=(1, 1, 1, 46)).flatten()[23] == 6
    # With scales the kernel has 1.f / 0.333333f: 2 is 6 of 9 elements, and not element 5 or 7.
    assert run(row(*range(9)), scales=(1, 1, 1, 1 / 3)).flatten().tolist() == [0, 3, 6]


def test_align_corners_by_scales_reaches_the_last_element():
    # (in - 1) / (out - 1), whatever the scales: the ONNX operator has in * scale - 1.
    y = run(row(0, 1, 2, 3, 4), "LINEAR", scales=(1, 1, 1, 0.7), coordinates="ALIGN_CORNERS")
    assert y.flatten().tolist() == [0, 2, 4]


def test_the_batch_is_not_resized_with_other_dimensions():
    x = torch.zeros(2, 1, 3, 4, dtype=torch.int8)
    with pytest.raises(td.UnsupportedError, match="a layer of its own"):
        run(x, size=(5, 1, 3, 8))
    assert run(x, size=(5, 1, 3, 4)).shape == (5, 1, 3, 4)


@pytest.mark.parametrize("shape", [(5, 7), (2, 3, 4), (2, 3, 4, 5), (2, 3, 4, 5, 6)])
def test_trilinear_is_numpys_interp_along_each_axis(shape):
    rng = np.random.default_rng(0)
    x = rng.normal(size=shape).astype(np.float32)
    changed = range(max(len(shape) - 3, 0), len(shape))
    size = tuple(2 * s + 1 if axis in changed else s for axis, s in enumerate(shape))
    expected = x.astype(np.float64)
    for axis in changed:
        where = (np.arange(size[axis]) + 0.5) * shape[axis] / size[axis] - 0.5
        expected = np.apply_along_axis(
            lambda line, where=where: np.interp(where, np.arange(len(line)), line), axis, expected
        )
    y = run(torch.from_numpy(x), "LINEAR", size=size, coordinates="HALF_PIXEL")
    np.testing.assert_allclose(y.numpy(), expected, atol=1e-5)


def test_the_size_may_be_dynamic():
    net = td.Network()
    x = net.input("x", ("N", 2, "H", 3))
    y = L.resize(x, size=(x.shape[0], 2, x.shape[2] * 2 - 1, 6))
    assert str(y.shape) == "(N, 2, 2*H - 1, 6)"
    net.output(y, "y")
    for n, h in ((1, 2), (3, 5)):
        x = torch.randn(n, 2, h, 3)
        rows = [i * h // (2 * h - 1) for i in range(2 * h - 1)]
        expected = x[:, :, rows][:, :, :, [0, 0, 1, 1, 2, 2]]
        assert torch.equal(td.interpret(net, {"x": x})["y"], expected)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_rounds_once(dtype):
    x = torch.randn(1, 1, 6, 6).to(dtype)
    kwargs = {"size": (1, 1, 9, 11), "coordinates": "HALF_PIXEL"}
    y = run(x, "CUBIC", **kwargs)
    assert y.dtype == dtype
    assert torch.equal(y, run(x.float(), "CUBIC", **kwargs).to(dtype))


def test_cost_counts_the_taps_along_changed_axes():
    from trtdsl.layers.evaluation import Node, Shapes, kind

    net = td.Network()
    net.output(L.resize(net.input("x", (1, 2, 4, 4)), "LINEAR", size=(1, 2, 8, 8)), "y")
    node = Node(net.backend, net.definition.get_layer(0))
    shapes = Shapes([(1, 2, 4, 4)], [(1, 2, 8, 8)])
    assert kind(node).flops(node, shapes) == 2 * 4 * 128


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({}, "either size or scales"),
        ({"size": (1, 1, 1, 4), "scales": (1, 1, 1, 2)}, "either size or scales"),
        ({"size": (4,)}, "one value for each of 4"),
        ({"mode": "SPLINE", "size": (1, 1, 1, 4)}, "unknown interpolation mode 'SPLINE'"),
    ],
)
def test_bad_arguments_are_refused(kwargs, message):
    with pytest.raises(td.DefinitionError, match=message) as error:
        run(row(1, 2, 3), **kwargs)
    assert error.value.location is not None


@pytest.mark.filterwarnings("ignore")  # making the cases warns
def test_onnx_examples():
    """ONNX's published cases of Resize and GridSample, parsed by TensorRT's own parser where it takes them."""
    numpy_helper = pytest.importorskip("onnx").numpy_helper
    from onnx.backend.test.case.node import collect_testcases

    cases = {}
    for operator in ("Resize", "GridSample"):
        importlib.import_module(f"onnx.backend.test.case.node.{operator.lower()}")
        cases |= {case.name: case for case in collect_testcases(operator)}
    backend = td.Network().backend
    passed = 0
    for case in cases.values():
        model, (inputs, (expected,)) = case.model, case.data_sets[0]
        names = [tensor.name for tensor in model.graph.input]
        if "resize" in case.name:  # scales and sizes are known when the network is written
            for name, value in list(zip(names, inputs, strict=True))[1:]:
                model.graph.initializer.append(numpy_helper.from_array(value, name))
            del model.graph.input[1:]
        definition = backend.create_network()
        parser = backend.trt.OnnxParser(definition, backend.logger)
        if not parser.parse(model.SerializeToString()):
            continue
        if "scales" in case.name and "align_corners" in case.name and not case.name.endswith("upsample"):
            continue  # TensorRT takes (in - 1) / (out - 1) whatever the scales
        feeds = dict(zip(names, inputs, strict=False)) if "grid" in case.name else {names[0]: inputs[0]}
        (result,) = td.interpret(definition, feeds).values()
        np.testing.assert_allclose(result.numpy(), expected, atol=1e-4, err_msg=case.name)
        passed += 1
    assert passed >= 20
