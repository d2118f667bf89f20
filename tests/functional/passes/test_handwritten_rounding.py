"""clamp(round(x * s), -128, 127) / s in several calls: executed with the pass and without, and its layers."""

import pytest
import torch
from support import assert_close

import trtdsl as td
import trtdsl.functional as F
from trtdsl.core.lazy import passes

X = torch.randn(5, 32, generator=torch.Generator().manual_seed(1)) * 3
STEPS = 127 / 4.1
ROUNDED = {
    "ModelOpt": lambda x: F.clamp((x * STEPS).round(), x.network.constant(-128.0), x.network.constant(127.0)) / STEPS,
    "divided first": lambda x: (x / 0.03).round().clamp(-127, 127) * 0.03,
    "fp8": lambda x: (x * 110).clamp(-448, 448).to(torch.float8_e4m3fn).to(torch.float32) * (1 / 110),
    "narrower": lambda x: (x / 0.5).round().clamp(min=-4).clamp(max=3) * 0.5,
}
OTHER = {
    "wider than int8": lambda x: (x / 0.03).round().clamp(0, 255) * 0.03,
    "another step": lambda x: (x / 0.03).round().clamp(-128, 127) * 0.04,
    "not bounded": lambda x: (x / 0.03).round().clamp(max=127) * 0.03,
}


def network(write):
    net = td.Network()
    net.output(write(net.input("x", ("N", 32))), "y")
    return net


def types(net):
    return {net.definition.get_layer(index).type.name for index in range(net.definition.num_layers)}


@pytest.mark.parametrize("write", ROUNDED.values(), ids=ROUNDED)
def test_it_is_rounded_in_a_narrow_dtype(write, monkeypatch):
    net = network(write)
    got = td.interpret(net, {"x": X})["y"]
    assert {"QUANTIZE", "DEQUANTIZE"} <= types(net) and "UNARY" not in types(net)
    (remark,) = net.graph.remarks
    assert remark.applied and remark.text in ("rounded in int8", "rounded in float8_e4m3fn")
    monkeypatch.setattr(passes, "PASSES", ())
    before = network(write)
    assert net.definition.num_layers < before.definition.num_layers
    assert_close(got, td.interpret(before, {"x": X})["y"])


@pytest.mark.parametrize("write", OTHER.values(), ids=OTHER)
def test_other_roundings_stay(write):
    net = network(write)
    assert "QUANTIZE" not in types(net) and not net.graph.remarks


def test_it_stays_where_a_part_is_used_otherwise():
    def twice(x):
        codes = (x / 0.03).round()
        return codes.clamp(-128, 127) * 0.03 + codes

    net = network(twice)
    assert "QUANTIZE" not in types(net)
    (remark,) = net.graph.remarks
    assert not remark.applied and remark.text.endswith("is used otherwise, too")
