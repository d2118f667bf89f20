"""Tables of layers: what each costs, worked by hand."""

import json

import numpy as np
import pytest
import torch
from cases import BACKEND, CASES, Builder, outputs_of

import trtdsl as td
import trtdsl.functional as F
import trtdsl.layers as L
from trtdsl.display.folding import rows
from trtdsl.display.summary import summarize

WINDOW = {"stride": (1, 1), "pre_padding": (1, 1), "post_padding": (1, 1), "dilation": (1, 1)}


def of(build, *shapes, dtype="float32", feeds=None):
    """The summary of the last layer of ``build``."""
    net = td.Network()
    net.output(build(net, *(net.input(f"x{index}", shape, dtype) for index, shape in enumerate(shapes))), "y")
    return summarize(net, feeds)


def test_a_convolution():
    (layer,) = of(
        lambda n, x: L.convolution(x, n.constant(torch.ones(8, 3, 3, 3)), n.constant(torch.ones(8)), **WINDOW),
        (2, 3, 5, 4),
    ).layers
    assert layer.type == "CONVOLUTION"
    assert layer.flops == 2 * (2 * 8 * 5 * 4) * (3 * 3 * 3)
    assert layer.parameters == 8 * 3 * 3 * 3 + 8
    assert layer.bytes == 4 * (2 * 3 * 5 * 4 + 2 * 8 * 5 * 4 + 8 * 27 + 8)
    assert [str(tensor) for tensor in (*layer.inputs, *layer.outputs)] == ["FLOAT(2, 3, 5, 4)", "FLOAT(2, 8, 5, 4)"]
    assert layer.location is not None
    assert __file__ in layer.location


@pytest.mark.parametrize(
    ("build", "shapes", "flops", "moved"),
    [
        (lambda n, a, b: L.matrix_multiply(a, b), [(2, 3, 4), (2, 4, 5)], 2 * 2 * 3 * 4 * 5, 4 * (24 + 40 + 30)),
        (lambda n, a, b: L.matrix_multiply(a, b, "TRANSPOSE"), [(4, 3), (4, 5)], 2 * 3 * 4 * 5, 4 * (12 + 20 + 15)),
        (lambda n, x: L.unary(x, "EXP"), [(3, 4)], 12, 4 * 24),
        (lambda n, a, b: L.elementwise(a, b, "SUM"), [(3, 4), (1, 4)], 12, 4 * (12 + 4 + 12)),
        (lambda n, x: L.reduce(x, "SUM", [1]), [(3, 4)], 12, 4 * (12 + 3)),
        (lambda n, x: L.activation(x, "RELU"), [(3, 4)], 12, 4 * 24),
        (lambda n, x: L.softmax(x, 1), [(3, 8)], 5 * 24, 4 * 48),  # maximum, difference, exponential, sum, quotient
        (  # one product and one sum; a scale and a shift for each channel are read, too
            lambda n, x: L.scale(x, n.constant([0.0, 1.0, 2.0]), n.constant([1.0, 2.0, 3.0])),
            [(2, 3, 4, 5)],
            2 * 120,
            4 * (240 + 3 + 3),
        ),
        (lambda n, x: L.shuffle(x, None, (12,)), [(3, 4)], 0, 0),
        (lambda n, x: L.shuffle(x, (1, 0)), [(3, 4)], 0, 4 * 24),
        (lambda n, a, b: L.concatenation([a, b], 0), [(3, 4), (1, 4)], 0, 4 * 32),
        (lambda n, x: L.slice(x, (0, 1), (3, 2)), [(3, 4)], 0, 4 * (12 + 6)),
        (lambda n, x: L.gather(x, n.constant(torch.tensor([2, 0])), 1), [(3, 4)], 0, 4 * (12 + 6) + 8 * 2),
        (lambda n, x: L.cast(x, "float16"), [(3, 4)], 0, (4 + 2) * 12),
        (lambda n, x: L.shape(x), [(3, 4)], 0, 0),
        (
            lambda n, x: L.pooling(x, "MAX", (2, 2), stride=(2, 2), pre_padding=(0, 0), post_padding=(0, 0)),
            [(1, 2, 4, 4)],
            8 * 4,
            4 * (32 + 8),
        ),
        (lambda n, a, b: L.einsum("bij,jk->bik", a, b), [(2, 3, 4), (4, 5)], 2 * 2 * 3 * 4 * 5, 4 * (24 + 20 + 30)),
    ],
)
def test_costs(build, shapes, flops, moved):
    layer = of(build, *shapes).layers[-1]
    assert (layer.flops, layer.bytes) == (flops, moved)


def test_a_constant_costs_where_it_is_read():
    constant, total = of(lambda n, x: x + n.constant(torch.ones(3, 4)), (3, 4)).layers
    assert (constant.type, constant.parameters, constant.flops, constant.bytes) == ("CONSTANT", 12, 0, 0)
    assert (total.type, total.parameters, total.flops, total.bytes) == ("ELEMENTWISE", 0, 12, 4 * 36)


def test_options_are_those_of_define(small):
    assert (
        td.summarize(small / "small.py", precision="fp16").layers
        == td.inspect(small / "small.py", precision="fp16").layers
    )
    assert td.summarize(small / "small.py", dims={"N": 1}).flops == td.inspect(small / "small.py", dims={"N": 1}).flops
    net = td.Network("defined")
    net.output(net.input("x", (2,)) * 2, "y")
    with pytest.raises(td.UsageError, match="'defined' is written already: precision= would change nothing"):
        td.summarize(net, precision="fp16")
    with pytest.raises(td.UsageError, match="precision= is for a network that is defined here"):
        td.summarize(net.definition, precision="fp16")


def test_half_precision_moves_half_the_bytes():
    assert of(lambda n, x: L.unary(x, "EXP"), (3, 4), dtype="float16").bytes == 2 * 24


def test_dynamic_sizes_are_unknown_until_fed():
    def build(n, x):
        return F.relu(x)

    unknown = of(build, ("N", 4)).layers[0]
    assert (unknown.flops, unknown.bytes) == (None, None)
    assert unknown.inputs[0].shape == (-1, 4)
    assert str(unknown.inputs[0]) == "FLOAT(N, 4)"
    known = of(build, ("N", 4), feeds={"x0": torch.zeros(3, 4)}).layers[0]
    assert (known.flops, known.bytes, known.executions) == (12, 4 * 24, 1)


def test_layers_in_a_loop_count_as_often_as_they_run():
    net = td.Network()
    x = net.input("x", ("T", 4))
    loop = L.Loop(net)
    loop.count(x.shape[0])
    total = loop.recurrence(net.constant(torch.zeros(4)))
    loop.next(total, L.elementwise(total, loop.iterator(x), "SUM"))
    net.output(loop.last_value(total), "y")
    (layer,) = [layer for layer in summarize(net, {"x": torch.zeros(5, 4)}).layers if layer.type == "ELEMENTWISE"]
    assert (layer.executions, layer.flops) == (5, 5 * 4)


def test_totals_table_and_json():
    summary = of(lambda n, a, b: F.relu(F.matmul(a, b)), (2, 3), (3, 4))
    assert (summary.flops, summary.bytes, summary.parameters) == (48 + 8, 4 * (6 + 12 + 8) + 4 * 16, 0)
    head, _, first, second, _, totals = str(summary).splitlines()
    assert head.split() == ["layer", "type", "inputs", "outputs", "parameters", "FLOPs", "bytes", "times", "line"]
    assert [line.split()[1] for line in (first, second)] == ["MATRIX_MULTIPLY", "ACTIVATION"]
    assert first.split()[-4:-1] == ["48", "104", "1"]
    assert "test_summary.py:" in first
    assert totals.split() == ["2", "layers", "56", "168"]
    data = json.loads(json.dumps(summary.to_json()))
    assert data["kind"] == "summary"
    assert data["totals"] == {"layers": 2, "parameters": 0, "flops": 56, "bytes": 168}
    assert data["layers"][0]["outputs"] == [{"name": "matmul", "dtype": "FLOAT", "shape": [2, 4], "sizes": []}]


@pytest.mark.parametrize("type", sorted({item.type for item in CASES}))
def test_every_layer_type_has_a_cost(type):
    item = next(item for item in CASES if item.type == type and item.raises is None)
    builder = Builder()
    with BACKEND.listen():
        inputs = [
            builder.network.add_input(
                f"x{index}", item.dtypes.get(index, BACKEND.data_type(feed.dtype)), tuple(feed.shape)
            )
            for index, feed in enumerate(item.feeds)
        ]
        for tensor in outputs_of(item.build(builder, *inputs)):
            builder.network.mark_output(tensor)
    summary = summarize(builder.network, {f"x{index}": feed for index, feed in enumerate(item.feeds)})
    layers = [layer for layer in summary.layers if layer.type == type]
    assert layers
    assert all(layer.flops is not None and layer.bytes is not None and layer.flops >= 0 for layer in layers)
    assert np.isfinite(summary.flops)


def of_a_product(rows):
    net = td.Network()
    x = net.input("x", (rows, 3))
    net.output(F.linear(F.relu(x) + net.constant(torch.ones(1, 3)), net.constant(torch.ones(5, 3))), "y")
    return net


def test_the_sizes_that_are_tuned_for_make_the_cost():
    summary = td.summarize(of_a_product(td.Dim("N", min=1, opt=2, max=4)))
    assert summary.flops == 2 * 3 + 2 * 3 + 2 * (2 * 5 * 3)  # activation, sum, product
    assert summary.dims == {"N": 2}
    assert repr(summary).endswith("72 FLOPs at N=2)")
    assert td.inspect(of_a_product(td.Dim("N", min=1, opt=2, max=4))).flops == summary.flops


def test_no_part_of_a_total_is_given_for_the_whole():
    net = of_a_product("N")
    net.output(net.input("z", (2, 3)) * net.constant(torch.ones(2, 3)), "w")  # the one layer whose cost is known
    summary = td.summarize(net)
    assert summary.flops is None
    assert summary.bytes is None
    assert "? FLOPs" in repr(summary)
    assert "3 of 7 layers are of open sizes; give each td.Dim a range" in str(summary)
    assert "3 of 7 layers" in summary._repr_html_()
    assert td.summarize(net, {"x": torch.ones(1, 3), "z": torch.ones(2, 3)}).flops == 3 + 3 + 30 + 6


def test_the_cost_of_a_loop_is_that_of_a_run():
    net = td.Network()
    x = net.input("x", (3,))
    net.output(td.scan(lambda c, i: (c + i, c), x[0], x)[0], "y")
    summary = td.summarize(net)
    assert summary.flops is None
    assert "1 of 9 layers are in a loop or a branch; td.inspect(network) runs it once" in str(summary)
    assert td.summarize(net, {"x": torch.ones(3)}).flops == 3
    assert td.inspect(net).flops == 3


def test_layers_are_grouped_by_the_module_and_the_call_that_the_author_wrote():
    net = td.Network()
    x = net.input("x", (1, 3, 8, 8))
    weights = {"down.conv.weight": torch.randn(4, 3, 3, 3), "up.conv.weight": torch.randn(4, 7, 3, 3)}
    w = net.weights(weights)
    y = F.relu(F.conv2d(x, w.down.conv.weight, padding=1))
    z = F.log_softmax(F.conv2d(F.cat([y, x], 1), w.up.conv.weight, padding=1), 1)
    net.output(z, "z")
    found = {row.label: row for row in rows(summarize(net).layers, 1)}
    assert found["down.*"].outputs == "FLOAT(1, 4, 8, 8)"  # what is joined to it is no part of it
    assert found["cat"].outputs == "FLOAT(1, 7, 8, 8)"
    (last,) = [row for name, row in found.items() if "log_softmax" in name]
    assert len(last.layers) > 1 and last.outputs == "FLOAT(1, 4, 8, 8)"
