"""What cannot be built on a machine without a GPU is said at the author's line, with the alternative."""

import inspect
import json

import torch

import trtdsl as td
import trtdsl.functional as F
import trtdsl.layers as L
from trtdsl.building import buildable
from trtdsl.building.buildable import obstacles


def line():
    return inspect.currentframe().f_back.f_lineno


def found(net):
    return [(obstacle.type, obstacle.location.line) for obstacle in obstacles(net, gpu=False)]


def test_each_layer_without_a_kernel_is_named_at_its_line():
    net = td.Network()
    x = net.input("x", (2, 8))
    rows, here = L.non_zero(x), line()
    net.output(rows, "rows")
    chosen, there = L.nms(net.input("b", (1, 10, 4)), net.input("s", (1, 10, 3)), 2, 0.5)[0], line()
    net.output(chosen, "chosen")
    net.output(F.relu(x), "y")
    assert found(net) == [("NON_ZERO", here), ("NMS", there)]
    text = str(obstacles(net, gpu=False)[0])
    assert f"test_buildable.py:{here}: layer 'non_zero' cannot be built here" in text
    assert "F.where" in text


def test_only_a_stride_with_a_dilation_hinders_a_deconvolution():
    for stride, dilation, hindered in (((2, 2), (1, 1), []), ((1, 1), (2, 2), []), ((2, 2), (2, 1), ["DECONVOLUTION"])):
        net = td.Network()
        kernel = net.constant(torch.ones(3, 5, 2, 2))
        sides = {"stride": stride, "pre_padding": (0, 0), "post_padding": (0, 0), "dilation": dilation}
        net.output(L.deconvolution(net.input("x", (2, 3, 8, 8)), kernel, **sides), "y")
        assert [type for type, _ in found(net)] == hindered


def test_fp8_has_few_consumers():
    net = td.Network()
    x = F.quantize(net.input("x", (2, 8)), 0.5, "float8_e4m3fn")
    net.output(F.dequantize(F.reshape(x, (8, 2)), 0.5), "y")
    assert found(net) == []
    net.output(L.cast(x, "float32"), "z")
    (obstacle,) = obstacles(net, gpu=False)
    assert "CAST does not take float8_e4m3fn: dequantize it first" in obstacle.reason


def test_no_remark_with_a_gpu_or_a_backend_that_needs_one(monkeypatch):
    net = td.Network()
    net.output(L.non_zero(net.input("x", (2, 8))), "y")
    assert obstacles(net, gpu=True) == []
    monkeypatch.setattr(buildable, "has_cuda_device", lambda: True)
    assert obstacles(net) == []
    monkeypatch.setattr(buildable, "has_cuda_device", lambda: False)
    assert len(obstacles(net)) == 1
    monkeypatch.setattr(type(net.backend), "builds_without_gpu", property(lambda self: False))
    assert obstacles(net) == []


def test_a_definition_that_is_not_ours_is_judged_too():
    by_hand = td.Network().backend.create_network()
    trt = td.Network().trt
    layer = by_hand.add_non_zero(by_hand.add_input("x", trt.float32, (2, 3)))
    layer.name = "by hand"
    (obstacle,) = obstacles(by_hand, gpu=False)
    assert (obstacle.layer, obstacle.location) == ("by hand", None)


NETWORK = """\
import trtdsl as td
import trtdsl.layers as L


@td.network(inputs={"x": td.Input((2, 8))}, reference="reference.py:Model")
def places(x):
    return L.cast(L.non_zero(x), "int64")
"""
REFERENCE = """\
import torch


class Model(torch.nn.Module):
    def forward(self, x):
        return x.nonzero().T
"""


def test_check_prints_it_with_the_line_and_in_json(tmp_path, monkeypatch, command_line):
    monkeypatch.setattr(buildable, "has_cuda_device", lambda: False)
    (tmp_path / "places.py").write_text(NETWORK)
    (tmp_path / "reference.py").write_text(REFERENCE)
    trtdsl = command_line(tmp_path)
    said = trtdsl("check", "places.py")
    assert said.exit_code == 0
    assert "places.py:7: layer 'non_zero' cannot be built here" in said.output.replace("\n", " ")
    (obstacle,) = json.loads(trtdsl("check", "places.py", "--json").stdout)["unbuildable"]
    assert (obstacle["type"], obstacle["location"][1]) == ("NON_ZERO", 7)
