"""The first submodule in which a network and its reference part."""

import json
from pathlib import Path

import pytest
import torch
from torch import nn

import trtdsl as td
import trtdsl.functional as F

ROOT = Path(__file__).parents[3]


class Reference(nn.Module):
    """A stem, a block with a residual, a head; ReLU works in place."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 4, 3, padding=1)
        self.relu = nn.ReLU(inplace=True)
        self.block = nn.Sequential(nn.Conv2d(4, 4, 3, padding=1), nn.Tanh(), nn.Conv2d(4, 4, 1))
        self.head = nn.Linear(4, 5)

    def forward(self, x):
        x = self.relu(self.stem(x))
        return self.head((x + self.block(x)).mean((2, 3)))


def define(module, activation=F.relu, middle=F.tanh, change=None):
    net = td.Network()
    state = {name: value.detach().clone() for name, value in module.state_dict().items()}
    if change:
        state[change] *= 1.01
    w = {name: net.constant(value, source=name) for name, value in state.items()}
    x = net.input("x", (2, 3, 6, 6))
    x = activation(F.conv2d(x, w["stem.weight"], w["stem.bias"], padding=1))
    y = middle(F.conv2d(x, w["block.0.weight"], w["block.0.bias"], padding=1))
    y = F.conv2d(y, w["block.2.weight"], w["block.2.bias"])
    y = F.mean(x + y, (2, 3))
    net.output(F.linear(y, w["head.weight"], w["head.bias"]), "y")
    return net


@pytest.fixture
def module():
    torch.manual_seed(0)
    return Reference().eval()


FEEDS = {"x": torch.randn(2, 3, 6, 6, generator=torch.Generator().manual_seed(1))}


def test_equal_networks_agree_everywhere(module):
    report = td.compare_calls(define(module), FEEDS, module)
    assert report.passed
    assert set(report.modules) == {name for name, _ in module.named_modules() if name}
    assert report.absent_modules == []


@pytest.mark.parametrize("weight", ["stem.weight", "block.0.bias", "block.2.weight", "head.weight"])
def test_a_wrong_weight_is_found_where_it_is_used(module, weight):
    report = td.compare_calls(define(module, change=weight), FEEDS, module)
    assert report.difference is not None
    assert report.difference.module == weight.rpartition(".")[0]
    assert report.difference.network.location.file == __file__
    assert f"in module '{report.difference.module}', off by" in str(report.difference)
    json.dumps(report.to_json())


def test_a_layer_that_makes_an_output_is_named_as_a_layer():
    """Its tensor has the output's name."""
    module = nn.Sequential(nn.Conv2d(3, 4, 1), nn.Conv2d(4, 5, 1)).eval()
    net = td.Network()
    w = {name: net.constant(value.detach(), source=name) for name, value in module.state_dict().items()}
    x = F.conv2d(net.input("x", (2, 3, 6, 6)), w["0.weight"], w["0.bias"])
    net.output(F.conv2d(x, w["1.weight"] * 1.1, w["1.bias"]), "y")
    difference = td.compare_calls(net, FEEDS, module).difference
    assert (difference.module, difference.network.name) == ("1", "conv2d")
    assert difference.network.location.file == __file__


def test_a_wrong_operation_without_weights_is_found(module):
    report = td.compare_calls(define(module, middle=F.relu), FEEDS, module)
    assert report.difference is not None
    assert report.difference.module == "block.1"
    assert td.compare_calls(define(module, activation=F.gelu), FEEDS, module).difference.module == "relu"


def test_fused_modules_are_reported_as_absent():
    module = nn.Sequential(nn.Conv2d(3, 4, 1), nn.BatchNorm2d(4), nn.Conv2d(4, 2, 1)).eval()
    module[1].running_var.fill_(3.0)
    net = td.Network()
    w = {name: net.constant(value.detach(), source=name) for name, value in module.state_dict().items()}
    kernel, bias = td.of_constants(
        torch.nn.utils.fuse_conv_bn_weights,
        w["0.weight"],
        w["0.bias"],
        w["1.running_mean"],
        w["1.running_var"],
        1e-5,
        w["1.weight"],
        w["1.bias"],
    )
    x = F.conv2d(net.input("x", (1, 3, 5, 5)), kernel, bias)
    net.output(F.conv2d(x, w["2.weight"], w["2.bias"]), "y")
    report = td.compare_calls(net, {"x": torch.randn(1, 3, 5, 5)}, module)
    assert report.passed
    assert report.modules == ["1", "2"]
    assert report.absent_modules == ["0"]


def test_stgcn_agrees_and_a_perturbed_block_is_named():
    spec = td.load_spec(str(ROOT / "networks" / "stgcn.py:stgcn"))
    weights = spec.open_weights()
    reference = spec.reference_module(weights)
    feeds = {"x": torch.randn(1, 3, 300, 18, 2, generator=torch.Generator().manual_seed(0))}
    network = spec.define(dims={"N": 1})
    report = td.compare_calls(network, feeds, reference)
    assert report.passed
    assert len(report.modules) > 40
    with torch.no_grad():
        reference.st_gcn_networks[3].gcn.conv.weight.mul_(1.01)
    difference = td.compare_calls(network, feeds, reference).difference
    assert difference is not None
    assert difference.module == "st_gcn_networks.3.gcn.conv"
    assert difference.network.location.file.endswith("networks/stgcn.py")
