"""Patterns of layers: what matches, in which order of operands, and what does not."""

import pytest
import torch

import trtdsl as td
import trtdsl.functional as F
from trtdsl.functional.passes.patterns import Number, made, matches

GATE = made("elementwise PROD", "x", made("activation SIGMOID", "x"))
RATIO = made("elementwise DIV", "x", Number("by"))


def found(pattern, write):
    net = td.Network()
    x, y = (net.input(name, (2, 3)) for name in "xy")
    net.output(write(x, y), "z")
    return list(matches(net.graph, pattern)), net, {"x": x, "y": y}


@pytest.mark.parametrize(
    ("pattern", "write", "named"),
    [
        (GATE, lambda x, y: x * F.sigmoid(x), "x"),
        (GATE, lambda x, y: F.sigmoid(y) * y, "y"),
        (GATE, lambda x, y: x * F.sigmoid(y), None),  # a name is one value
        (GATE, lambda x, y: x * F.tanh(x), None),
        (GATE, lambda x, y: x + F.sigmoid(x), None),
        (RATIO, lambda x, y: x / 3, "x"),
        (RATIO, lambda x, y: 3 / x, None),  # no operation of two that can be exchanged
        (RATIO, lambda x, y: x / y, None),
        (RATIO, lambda x, y: x / torch.ones(1, 3), None),
        (made("elementwise SUM", 2.0, "x"), lambda x, y: x + 2, "x"),
        (made("elementwise SUM", 2.0, "x"), lambda x, y: x + 3, None),
        (made("elementwise SUM", "x", "y"), lambda x, y: x + 3, None),
    ],
)
def test_a_pattern_matches(pattern, write, named):
    results, _, inputs = found(pattern, write)
    assert [each.tensors["x"] for each in results] == ([inputs[named]] if named else [])


def test_a_match_has_its_layers_and_what_shares_them():
    def write(x, y):
        gate = F.sigmoid(x)
        return x * gate + gate

    (match,), net, _ = found(GATE, write)
    assert [layer.what for layer in match.layers] == [("elementwise", "PROD"), ("activation", "SIGMOID")]
    assert match.shared(net.graph) is match.layers[1]
    (alone,), net, _ = found(GATE, lambda x, y: (x * F.sigmoid(x)) + y)
    assert alone.shared(net.graph) is None


def test_a_layer_that_only_the_pattern_needs_is_not_shared_however_often_it_needs_it():
    scaled = made("elementwise PROD", "x", Number("by"))
    pattern = made("select", made("unary ISNAN", scaled), scaled, made("elementwise MAX", "x", scaled))

    def write(x, y):
        return F.maximum(x, x * 3)

    (match,), net, _ = found(pattern, write)
    assert match.shared(net.graph) is None
    product = next(layer for layer in match.layers if layer.what == ("elementwise", "PROD"))
    net.output(product.results[0], "three times")
    assert match.shared(net.graph) is product


def test_every_match_is_found():
    results, _, _ = found(RATIO, lambda x, y: (x / 2) / 3)
    assert [float(each.tensors["by"].data) for each in results] == [2, 3]
