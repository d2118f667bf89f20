"""Exact values beside rounded ones: against the same module in float64, and against fractions."""

import copy
import threading

import pytest
import torch
from torch import nn

import trtdsl as td
import trtdsl.functional as F
import trtdsl.layers as L
from trtdsl.core.tensors.exact import Exact, Rounded, beside, unrounded
from trtdsl.interpreter.interpret import Interpreter

MODULES = {
    "convolution": (lambda: nn.Sequential(nn.Conv2d(4, 4, 3), nn.BatchNorm2d(4), nn.Upsample(scale_factor=2)), 4),
    "recurrent": (lambda: nn.LSTM(8, 8, 2, bidirectional=True), 3),
    "attention": (lambda: nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 3),
}


@pytest.mark.parametrize("precision", [None, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("name", MODULES)
@pytest.mark.parametrize("alone", [False, True])
def test_a_module_has_one_exact_value_in_every_precision(name, precision, alone):
    make, ndim = MODULES[name]
    torch.manual_seed(0)
    module, x = make().eval(), torch.randn((2, 4, 8, 8)[:ndim] if ndim == 4 else (2, 5, 8))
    truth = copy.deepcopy(module).double()
    exact = Exact()
    exact.alone = alone
    with torch.no_grad(), exact, torch.autocast("cpu", precision or torch.bfloat16, enabled=precision is not None):
        got = module(x)
    with torch.no_grad():
        expected = truth(x.double())
    got, expected = (y[0] if isinstance(y, tuple) else y for y in (got, expected))
    assert got.dtype in (torch.float32, precision)
    torch.testing.assert_close(exact.of(got), expected, rtol=1e-13, atol=1e-14)
    assert not exact.rounded
    assert alone or 0 < (got.double() - expected).abs().max() < 0.1


def _read_by_numpy(x):
    return torch.from_numpy((x * 3).numpy() + 1)


def _changed_in_place(x):
    y, part = x * 3, torch.zeros(4, 4)
    y.relu_()
    part[1:3] = y[:2]
    return part + y


def _cut_to_integers(x):
    return (x * 3).long() + (x * 3).floor()


def _seen_as_bits(x):
    return (x * 4).view(torch.int32) & 0x7F800000


def _copied(x):
    return copy.deepcopy(x * 3).sort(0).values.t()


def _laid_out_otherwise_in_place(x):
    y = (x * 3).unsqueeze_(0).transpose_(0, 1).squeeze_(1)
    return y[:, :2].resize_(4, 2).t_() + torch.arange(y.shape[1] - 2.0 + y.shape[0]).sum()


def _recurrent(x):
    """torch lays the result of ``batch_first`` out otherwise in place."""
    gru = torch.nn.GRU(4, 3, batch_first=True)
    with torch.no_grad():
        for weight in gru.parameters():
            weight.fill_(0.1)
        y, _ = gru(x.reshape(1, 4, 4))
    return y * torch.arange(float(y.shape[1])).reshape(1, -1, 1)


@pytest.mark.parametrize(
    "function",
    [
        _laid_out_otherwise_in_place,
        _recurrent,
        _read_by_numpy,
        _changed_in_place,
        _cut_to_integers,
        _seen_as_bits,
        _copied,
    ],
)
def test_what_is_computed_exactly_alone_is_what_is_computed_beside(function):
    x = torch.randn(4, 4, generator=torch.Generator().manual_seed(0))
    found = []
    for alone in (False, True):
        exact = Exact()
        exact.alone = alone
        with exact:
            y = function(x)
        assert (y.dtype, y.shape, y.stride()) == (function(x).dtype, function(x).shape, function(x).stride())
        found.append(exact.widened(y))
    torch.testing.assert_close(found[1], found[0], rtol=1e-6, atol=0)
    torch.testing.assert_close(found[0], function(x).to(found[0].dtype), rtol=1e-5, atol=1e-6)


def test_factories_casts_changes_in_place_and_numbers_lose_nothing():
    exact = Exact()
    with exact:
        y = torch.arange(4) / 3 + torch.tensor(0.1) + torch.full((4,), 0.3) + torch.linspace(0, 1, 4)
        y = y.half().float()
        y[0] = 1 / 7
        y[1:].mul_(torch.tensor([1 / 3]))
        number = y.sum().item()
    expected = [1 / 7, *((i / 3 + 0.1 + 0.3 + i / 3) / 3 for i in (1, 2, 3))]
    torch.testing.assert_close(exact.of(y), torch.tensor(expected, dtype=torch.float64), rtol=1e-15, atol=0)
    assert number == pytest.approx(sum(expected), rel=1e-15)


def test_decisions_are_those_of_the_exact_values():
    with Exact():
        x = torch.ones(3).bfloat16() + torch.tensor([1e-5, 2e-5, 0.0])  # equal in bfloat16
        x = x.bfloat16()
        assert x.argmax() == 1
        assert x.sort().indices.tolist() == [2, 0, 1]
        assert (x > 1).tolist() == [True, True, False]
        assert (x * 0.999995).floor().tolist() == [1, 1, 0]
        tie = torch.full((1,), 2.5) + 1e-9  # which float32 rounds to 2
        rounded = tie.round(), tie.clone().round_()
    assert [value.tolist() for value in rounded] == [[3], [3]]


@pytest.mark.parametrize("alone", [False, True])
def test_what_an_integer_cannot_hold_saturates_as_on_a_gpu(alone):
    """C++ leaves it open, and torch's CPU gives the least integer for all of it."""
    exact = Exact()
    exact.alone = alone
    with exact:
        x = torch.tensor([300.0, -1.0, torch.nan, 2.7])
        y = torch.where(x > 0, torch.exp(x), x) * torch.tensor([1.0, 1e30, 1.0, 1.0])
        assert y.long().tolist() == [2**63 - 1, -(2**63), 0, 14]
        assert y.int().tolist() == [2**31 - 1, -(2**31), 0, 14]


def test_of_a_definition_the_rounded_values_decide():
    with Exact(decide=False):
        assert (torch.ones(1).bfloat16() + torch.tensor([1e-5])).bfloat16().gt(1).tolist() == [False]


def test_random_numbers_are_drawn_as_ever():
    torch.manual_seed(0)
    expected = torch.rand(3), torch.empty(3).normal_()
    torch.manual_seed(0)
    exact = Exact()
    with exact:
        got = torch.rand(3), torch.empty(3).normal_()
    assert all(torch.equal(a, b) and torch.equal(exact.of(a), b.double()) for a, b in zip(got, expected, strict=True))


def test_noise_moves_what_is_rounded_and_nothing_else():
    exact = Exact()
    with exact, exact.noisy(0):
        half, third = torch.ones(8) / 2, torch.ones(8) / 3
    assert torch.equal(exact.of(half), torch.full((8,), 0.5, dtype=torch.float64))
    moved = (exact.of(third) * 3 - 1).abs()
    assert 0 < moved.max() <= 2.0**-51


def test_noise_moves_small_elements_of_an_inverse_as_far_as_great_ones():
    """They are sums that cancel: another elimination gives them as far off."""
    wanted = torch.tensor([[1e-9, 1.0, 2.0], [3.0, 1e-9, -1.0], [1.0, 2.0, 1e-9]], dtype=torch.float64)
    exact, x = Exact(), torch.linalg.inv(wanted).float()
    with exact:
        plain = exact.of(torch.linalg.inv(x))
        with exact.noisy(0):
            moved = exact.of(torch.linalg.inv(x))
    small = plain.abs() < 1e-6
    assert small.sum() == 3
    assert (moved - plain).abs()[small].max() > 1e-18


def test_two_threads_have_nothing_in_common():
    found = []

    def other():
        found.append(beside(torch.ones(1), lambda: torch.zeros(1).double()))

    with Exact() as exact:
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        assert not exact.has(found[0])


def _listed(x):
    return torch.tensor([x.max() / 3, x.argmax(), 0.1])


@pytest.mark.parametrize("alone", [False, True], ids=["beside", "alone"])
@pytest.mark.parametrize("make", [_listed, lambda x: x.new_tensor([x.max() / 3, x.argmax(), 0.1])])
def test_a_tensor_of_tensors_and_numbers_is_made_of_their_exact_values(make, alone):
    exact = Exact()
    exact.alone = alone
    with exact:
        made = make(torch.tensor([0.5, 2.0]))
    assert made.dtype == torch.float32
    assert exact.of(made).tolist() == [2 / 3, 1.0, 0.1]


def test_a_folded_constant_keeps_its_exact_value_in_half():
    @td.network(inputs={"x": td.Input((2, 3))})
    def scaled(x: td.Tensor):
        weight = torch.tensor([0.1, 0.2, 0.3]) / 3
        return {"y": F.leaky_relu(x * weight, 0.3)}

    net = scaled.define(precision="fp16", exact=True)
    x = -torch.ones(2, 3)
    exact = net.exact_values()
    with exact:
        y = Interpreter(net)({"x": x})["y"]
    expected = -0.3 * torch.tensor([0.1, 0.2, 0.3], dtype=torch.float64) / 3
    torch.testing.assert_close(exact.of(y), expected.expand(2, 3), rtol=1e-14, atol=0)


def test_numbers_that_tensorrt_keeps_as_c_floats():
    net = td.Network()
    net.output(L.activation(net.input("x", (1,)), "LEAKY_RELU", alpha=0.1), "y")
    exact = Exact()
    with exact:
        y = Interpreter(net)({"x": torch.tensor([-1.0])})["y"]
    assert exact.of(y).item() == -0.1
    assert unrounded(0.5, 0.1) == 0.5
    assert float(Rounded(0.1)) == 0.10000000149011612


@pytest.mark.parametrize("mmap", [False, True])
def test_tensors_of_a_file_are_loaded(tmp_path, mmap):
    """torch.load gives an empty tensor the file's memory."""
    torch.save({"k": torch.full((3, 2), 0.5), "h": torch.ones(4).half(), "n": torch.arange(3)}, tmp_path / "k.pt")
    with Exact() as exact:
        loaded = torch.load(tmp_path / "k.pt", mmap=mmap)
        assert float((loaded["k"] / 3 * 3).sum()) == 3.0
        third = loaded["h"] / 3
        assert exact.of(third).tolist() == [1 / 3] * 4
    assert loaded["n"].tolist() == [0, 1, 2]


def test_of_a_definition_steps_are_those_of_the_rounded_values():
    """An index and what is left beside it come of one step, also where they are computed apart."""
    exact = Exact(decide=False)
    with exact:
        below = torch.ones(2) / 41 * 41  # exactly 1, and 0.99999994 in float32
        assert below.floor().tolist() == [0, 0] and exact.of(below.floor()).tolist() == [0, 0]
        decimals = (torch.ones(2) / 3).round(decimals=1)
    assert exact.of(decimals).tolist() == [0.3, 0.3]


def test_a_class_of_parameters_without_operations_of_its_own_is_a_tensor():
    class Marked(nn.Parameter):  # as geoopt's ManifoldParameter
        def __new__(cls, data, manifold):
            made = torch.Tensor._make_subclass(cls, data, True)
            made.manifold = manifold
            return made

    class Product(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = Marked(torch.rand(4, 3), "sphere")

        def forward(self, x):
            return x @ self.weight

    td.check(td.from_module(Product(), {"x": "N,4"})).raise_for_mismatch()


def test_a_parameter_that_is_made_of_what_is_computed_has_its_values():
    exact = Exact()
    exact.alone = True
    with exact:
        made = torch.nn.Parameter(torch.ones(3) / 3) * 3
    torch.testing.assert_close(made.detach(), torch.ones(3))
    torch.testing.assert_close(exact.of(made), torch.ones(3, dtype=torch.float64), rtol=1e-7, atol=0)
