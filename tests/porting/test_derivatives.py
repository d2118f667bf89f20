"""Modules whose forward takes derivatives of what it computes, as networks of molecules give forces."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import trtdsl as td
from trtdsl.porting import ported


class Energy(nn.Module):
    """Gives an energy, and its derivative by what is given."""

    def __init__(self, energy, *parts):
        super().__init__()
        self.parts, self.energy = nn.ModuleList(parts), energy

    def forward(self, x):
        with torch.enable_grad():
            x = x.detach().requires_grad_(True)
            energy = self.energy(x, *self.parts)
            (derivative,) = torch.autograd.grad(energy.sum(), x)
        return energy.detach(), derivative


class Molecule(nn.Module):
    """Forces, of a caller who leaves gradients on."""

    def __init__(self):
        super().__init__()
        self.kinds, self.filter, self.out = nn.Embedding(10, 4), nn.Linear(4, 4), nn.Linear(4, 1)
        self.register_buffer("centers", torch.linspace(0, 5, 4))

    def forward(self, position, edges, kind):
        position.requires_grad_(True)
        i, j = edges
        distance = ((position[i] - position[j]).square().sum(-1) + 1e-3).sqrt()
        shells = torch.exp(-((distance[:, None] - self.centers) ** 2))
        state = self.kinds(kind)
        message = state[j] * F.silu(self.filter(shells))
        energy = self.out(torch.zeros_like(state).index_add(0, i, message)).sum()
        return {"energy": energy, "forces": -torch.autograd.grad(energy, position, create_graph=self.training)[0]}


def convolved(x, conv, norm):
    y = F.max_pool2d(F.relu(norm(conv(x))), 2)
    y = F.interpolate(F.avg_pool2d(y, 2, 1, 1), (5, 7), mode="bilinear") * F.adaptive_avg_pool2d(x, (5, 7))
    return F.conv_transpose2d(y, conv.weight, stride=2).tanh()


def indexed(x):
    places = torch.tensor([0, 2, 1, 2])
    y = x.clone()
    y[:, 1] = y[:, 1] * 2
    y[y > 1] = 0.0
    ordered, _ = x.sort(1)
    return torch.cat([x[:, places], y, ordered, x.unfold(1, 2, 1).sum(-1), torch.cdist(x, x)[..., :3]], 1)


@pytest.mark.parametrize(
    ("energy", "parts", "shape"),
    [
        (
            lambda x, layer: layer(x).pow(2),
            [nn.TransformerEncoderLayer(8, 2, 16, 0.0, "gelu", batch_first=True)],
            (2, 3, 8),
        ),
        (lambda x, layer: layer(x)[0], [nn.LSTM(4, 3, batch_first=True)], (2, 3, 4)),
        (convolved, [nn.Conv2d(3, 3, 3, 2, 1, bias=False), nn.BatchNorm2d(3)], (2, 3, 8, 9)),
        (indexed, [], (2, 4, 3)),
    ],
    ids=["attention", "lstm", "convolutions", "indices"],
)
def test_derivatives(energy, parts, shape):
    torch.manual_seed(0)
    made = ported(Energy(energy, *parts).eval(), [torch.randn(shape)], check=True)
    assert made.verdict.passed, made.verdict.text


def test_forces_at_all_sizes():
    torch.manual_seed(0)
    inputs = {"position": "N,3", "edges": "2,M:int64:0:4", "kind": "N:int64:0:9"}
    made = ported(Molecule().eval(), inputs, dims={"N": (5, 6, 9), "M": (2, 3, 8)}, check=True)
    assert made.verdict.passed, made.verdict.text


def test_second_derivative():
    class Curved(nn.Module):
        def forward(self, x):
            with torch.enable_grad():
                x = x.requires_grad_()
                (slope,) = torch.autograd.grad(torch.tanh(x).prod(-1).sum(), x, create_graph=True)
                return torch.autograd.grad(slope.square().sum(), x)[0]

    made = ported(Curved(), [torch.randn(2, 3)], check=True)
    assert made.verdict.passed, made.verdict.text


def test_backward_is_refused():
    class Slope(nn.Module):
        def forward(self, x):
            with torch.enable_grad():
                x = x.detach().requires_grad_()
                x.tanh().sum().backward()
            return x.grad

    with pytest.raises(
        td.UnsupportedError, match=r"test_derivatives.py:\d+: backward\(\) writes derivatives to tensors"
    ):
        ported(Slope(), [torch.randn(2, 3)])


class ByWeight(nn.Module):
    """The derivatives by the weight and the bias of a convolution, as one step of training takes them."""

    def __init__(self, conv):
        super().__init__()
        self.conv = conv

    def forward(self, x):
        parts = {name: each.detach().requires_grad_() for name, each in self.conv.named_parameters()}
        with torch.enable_grad():
            found = torch.func.functional_call(self.conv, parts, x).tanh().square().mean()
        return torch.autograd.grad(found, list(parts.values()))


@pytest.mark.parametrize(
    ("conv", "shape"),
    [
        (nn.Conv2d(4, 6, 3, stride=2, padding=1, dilation=2, groups=2), (2, 4, 9, 8)),
        (nn.ConvTranspose2d(3, 2, 3, stride=2, padding=1), (2, 3, 4, 5)),
    ],
)
def test_derivatives_by_the_weights_of_a_convolution(conv, shape):
    td.check(td.from_module(ByWeight(conv), [torch.randn(shape)])).raise_for_mismatch()


def test_functions_of_torch_func():
    class Curved(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(3, 4)

        def forward(self, x):
            def energy(row):
                return torch.tanh(self.layer(row)).sum()

            value, along = torch.func.jvp(lambda x: torch.sin(self.layer(x)), (x,), (x * 2,))
            return value, along, torch.func.vmap(torch.func.hessian(energy))(x)

    made = ported(Curved(), [torch.randn(2, 3)], check=True)
    assert made.verdict.passed, made.verdict.text
