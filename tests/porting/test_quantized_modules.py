"""Modules that were trained for quantization: ported, they keep their scales, equal the module, and run in int8."""

import warnings

import pytest
import torch
import torch.ao.quantization as quantization

import trtdsl as td


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.quant = quantization.QuantStub()
        self.conv, self.bn, self.relu = torch.nn.Conv2d(16, 32, 3, padding=1), torch.nn.BatchNorm2d(32), torch.nn.ReLU()
        self.fc = torch.nn.Linear(32, 32)

    def forward(self, x):
        return self.fc(self.relu(self.bn(self.conv(self.quant(x)))).mean((2, 3)))


class Written(torch.nn.Module):
    """As ModelOpt's TensorQuantizer computes."""

    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(16, 32, 3, padding=1)
        self.register_buffer("most", torch.tensor(3.9))

    @staticmethod
    def rounded(x, most):
        bound = torch.tensor(127.0)
        scale = bound / most
        return torch.clamp((x * scale).round(), -bound - 1, bound) / scale

    def forward(self, x):
        weight = self.rounded(self.conv.weight, self.conv.weight.abs().amax((1, 2, 3), keepdim=True))
        return torch.nn.functional.conv2d(self.rounded(x, self.most), weight, self.conv.bias, padding=1)


def trained(config, fused):
    torch.manual_seed(0)
    net = Net().train()
    net.qconfig = config
    if fused:
        net = quantization.fuse_modules_qat(net, [["conv", "bn", "relu"]])
    net = quantization.prepare_qat(net)
    for _ in range(2):
        net(torch.randn(2, 16, 8, 8))
    return net.eval().apply(quantization.disable_observer)


def symmetric():
    types = (
        (quantization.MinMaxObserver, torch.per_tensor_symmetric),
        (quantization.PerChannelMinMaxObserver, torch.per_channel_symmetric),
    )
    made = [
        quantization.FakeQuantize.with_args(
            observer=observer, quant_min=-128, quant_max=127, dtype=torch.qint8, qscheme=scheme
        )
        for observer, scheme in types
    ]
    return quantization.QConfig(*made)


MODULES = {
    "fake quantize": lambda: trained(symmetric(), False),
    "fused, with zero points": lambda: trained(quantization.get_default_qat_qconfig("x86"), True),
    "written": Written,
}


@pytest.mark.parametrize("make", MODULES.values(), ids=MODULES)
def test_a_module_trained_for_quantization_runs_in_int8(make):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        spec = td.from_module(make(), inputs={"x": td.Input((2, 16, 8, 8))})
        report = td.check(spec)
        half = td.check(spec, precision="fp16", feeds={"x": torch.randn(2, 16, 8, 8)})
    assert report.passed, report
    assert half.passed, half
    (convolution,) = (each for each in td.program(spec.define()).launches if each.kind == "convolution")
    assert convolution.dtype == "int8"
