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


def trained(config, fused, last=False):
    """With ``last`` the scales are those of the very weights, so that the greatest ones are ties."""
    torch.manual_seed(0)
    net = Net().train()
    net.qconfig = config
    if fused:
        net = quantization.fuse_modules_qat(net, [["conv", "bn", "relu"]])
    net = quantization.prepare_qat(net)
    for _ in range(2):
        net(torch.randn(2, 16, 8, 8))
    if last:
        for part in net.eval().modules():
            if isinstance(part, quantization.FakeQuantize):
                part.activation_post_process.reset_min_max_vals()
        net(torch.randn(2, 16, 8, 8))
    return net.eval().apply(quantization.disable_observer)


TENSOR = quantization.MinMaxObserver, torch.per_tensor_symmetric
CHANNELS = quantization.PerChannelMinMaxObserver, torch.per_channel_symmetric


def symmetric(weights=CHANNELS, low=-128):
    made = [
        quantization.FakeQuantize.with_args(
            observer=observer, quant_min=least, quant_max=-1 - least, dtype=torch.qint8, qscheme=scheme
        )
        for (observer, scheme), least in ((TENSOR, -128), (weights, low))
    ]
    return quantization.QConfig(*made)


def powers_of_two():
    net = trained(symmetric(), True)
    for part in net.modules():
        if isinstance(part, quantization.FakeQuantize):
            part.scale.copy_(2 ** part.scale.log2().round())
    return net


MODULES = {
    "fake quantize": lambda: trained(symmetric(), False),
    "a scale for all channels": lambda: trained(symmetric(TENSOR), False),
    "four bits": lambda: trained(symmetric(low=-8), True),
    "batch norm folded, scales of the last weights": lambda: trained(symmetric(), True, last=True),
    "powers of two": powers_of_two,
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
    for precision in (None, "fp16"):
        launches = td.program(spec.define(precision=precision)).launches
        assert [each.dtype for each in launches if each.kind == "convolution"] == ["int8"]


def to_fp8(x, most):
    """As ModelOpt computes it on a CPU."""
    steps = 448.0 / most
    return (x * steps).clamp(-448.0, 448.0).to(torch.float8_e4m3fn).to(torch.float32) * (1 / steps)


torch.library.define(
    "tensorrt::quantize_op", "(Tensor x, Tensor amax, int bits, int exponent, bool unsigned, bool narrow) -> Tensor"
)
torch.library.impl("tensorrt::quantize_op", "cpu")(lambda x, amax, *_: to_fp8(x, amax))
torch.library.register_fake("tensorrt::quantize_op")(lambda x, *_: torch.empty_like(x))


def by_operator(x, most):
    """As ModelOpt calls it."""
    return torch.ops.tensorrt.quantize_op(x, most, 8, 4, False, False)


class Fp8(torch.nn.Module):
    def __init__(self, rounded, by_channel=False):
        super().__init__()
        self.rounded, self.by_channel = rounded, by_channel
        self.conv = torch.nn.Conv2d(16, 32, 3, padding=1)
        self.linears = torch.nn.ModuleList(torch.nn.Linear(32, 32) for _ in range(3))
        for size, each in enumerate(self.linears, 1):
            each.weight.data *= size
        self.register_buffer("most", torch.tensor(3.9))
        self.register_buffer("second", torch.tensor(1.7))

    def weight(self, layer):
        others = tuple(range(1, layer.weight.ndim))
        greatest = layer.weight.abs().amax(others, keepdim=True) if self.by_channel else layer.weight.abs().amax()
        return self.rounded(layer.weight, greatest)

    def forward(self, x):
        x = torch.nn.functional.conv2d(self.rounded(x, self.most), self.weight(self.conv), self.conv.bias, padding=1)
        x = self.rounded(torch.relu(x).mean(3).mT, self.second)
        return tuple(torch.nn.functional.linear(x, self.weight(each), each.bias) for each in self.linears)


FP8 = {
    "written": lambda: Fp8(to_fp8),
    "by channel": lambda: Fp8(to_fp8, by_channel=True),
    "ModelOpt's operator": lambda: Fp8(by_operator),
}


@pytest.mark.parametrize("precision", [None, "fp16"])
@pytest.mark.parametrize("make", FP8.values(), ids=FP8)
def test_a_module_trained_for_fp8_runs_in_it_with_its_scales(make, precision):
    """Its linear products of one tensor, with scales of their own, too: docs/traps/builder-fp8.md."""
    torch.manual_seed(0)
    module = make().eval()
    spec = td.from_module(module, inputs={"x": td.Input((2, 16, 8, 8))})
    x = torch.randn(2, 16, 8, 8)
    report = td.check(spec, precision=precision, feeds=None if precision is None else {"x": x})
    assert report.passed, report
    network = spec.define(precision=precision)
    launches = [each.dtype for each in td.program(network).launches if each.kind in ("convolution", "product")]
    assert {*launches} == {"float8_e4m3fn"}, launches
    tolerance = 1e-5 if precision is None else 2e-2
    for got, want in zip(td.evaluate_engine(network, {"x": x}).values(), module(x), strict=True):
        torch.testing.assert_close(got.float(), want, rtol=tolerance, atol=tolerance)


class ByChannel(torch.nn.Module):
    """Asymmetric scales of what is fed, one for each channel."""

    def __init__(self):
        super().__init__()
        self.quant = quantization.FakeQuantize(
            quantization.PerChannelMinMaxObserver,
            quant_min=0,
            quant_max=255,
            dtype=torch.quint8,
            qscheme=torch.per_channel_affine,
            ch_axis=1,
        )
        self.quant(torch.randn(4, 16, 8, 8) * torch.arange(1, 17).reshape(16, 1, 1))
        self.apply(quantization.disable_observer)

    def forward(self, x):
        return self.quant(x) * 2


DISABLED = {
    "by channel": ByChannel,
    "no fake quantization": lambda: trained(symmetric(), True).apply(quantization.disable_fake_quant),
    "observers that clamp": lambda: trained(quantization.get_default_qat_qconfig("qnnpack"), True),
}


@pytest.mark.parametrize("make", DISABLED.values(), ids=DISABLED)
def test_what_int8_does_not_have_is_computed_in_floating_point_and_equals_the_module(make):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module = make()
        spec = td.from_module(module, inputs={"x": td.Input((2, 16, 8, 8))})
        assert (report := td.check(spec)).passed, report
        x = torch.randn(2, 16, 8, 8)
        (got,) = td.interpret(spec.define(), {"x": x}).values()
        torch.testing.assert_close(got, module(x), rtol=1e-5, atol=1e-5)


def test_an_observer_that_is_on_is_refused():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        net = trained(quantization.get_default_qat_qconfig("x86"), True).apply(quantization.enable_observer)
        with pytest.raises(td.UnsupportedError, match="its observer is on: .*disable_observer"):
            td.from_module(net, inputs={"x": td.Input((2, 16, 8, 8))}).define()


class Aside(Net):
    """A layer that is there and not called: its observers see nothing."""

    def __init__(self, called=False):
        super().__init__()
        self.aside, self.called = torch.nn.Linear(32, 32), called

    def forward(self, x):
        y = super().forward(x)
        return self.aside(y) if self.called else y


@pytest.mark.filterwarnings("ignore")  # torch calls this part of it deprecated
@pytest.mark.parametrize("version", [0, 1])
def test_an_observer_that_saw_nothing_is_refused_where_it_is_used_alone(version):
    torch.manual_seed(0)
    net = Aside().train()
    net.qconfig = quantization.get_default_qat_qconfig("qnnpack", version=version)
    net = quantization.prepare_qat(net)
    net(torch.randn(2, 16, 8, 8))
    net.eval().apply(quantization.disable_observer)
    spec = td.from_module(net, inputs={"x": td.Input((2, 16, 8, 8))})
    assert td.check(spec).passed
    net.called = True
    if version:  # whose scale is that of what was observed
        with pytest.raises(td.UnsupportedError, match="its observer has seen no values"):
            td.from_module(net, inputs={"x": td.Input((2, 16, 8, 8))}).define()


class Views(torch.nn.Module):
    """Linear layers of views of what is rounded."""

    def __init__(self):
        super().__init__()
        self.quant, self.first, self.second = quantization.QuantStub(), *(torch.nn.Linear(32, 32) for _ in range(2))

    def forward(self, x):
        return self.second(self.first(self.quant(x).reshape(8, 32)).reshape(4, 2, 32))


@pytest.mark.filterwarnings("ignore")  # torch calls this part of it deprecated
def test_a_product_of_a_view_of_what_is_rounded_runs_in_int8():
    torch.manual_seed(0)
    net = Views().train()
    net.qconfig = symmetric()
    net = quantization.prepare_qat(net)
    net(torch.randn(2, 4, 32))
    net.eval().apply(quantization.disable_observer)
    spec = td.from_module(net, inputs={"x": td.Input((2, 4, 32))})
    assert td.check(spec).passed
    products = [each.dtype for each in td.program(spec.define()).launches if each.kind == "product"]
    assert products[0] == "int8", products


@pytest.mark.filterwarnings("ignore")  # torch calls this part of it deprecated
def test_a_conv1d_that_has_a_rounded_weight_runs_in_int8():
    torch.manual_seed(0)
    net = torch.nn.Sequential(quantization.QuantStub(), torch.nn.Conv1d(32, 32, 3, padding=1)).train()
    net.qconfig = symmetric()
    modules = {**quantization.get_default_qat_module_mappings(), torch.nn.Conv1d: torch.ao.nn.qat.Conv1d}
    net = quantization.prepare_qat(net, mapping=modules)
    net(torch.randn(2, 32, 8))
    net.eval().apply(quantization.disable_observer)
    spec = td.from_module(net, inputs={"input": td.Input((2, 32, 8))})
    assert td.check(spec).passed
    assert [each.dtype for each in td.program(spec.define()).launches if each.kind == "convolution"] == ["int8"]
