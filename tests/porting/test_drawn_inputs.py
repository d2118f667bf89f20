"""What a module draws at random is an input of the network, which computes what torch does of these numbers."""

import pytest
import torch
import torch.nn.functional as TF
from torch import nn

import trtdsl as td
from trtdsl.porting import ported

pytestmark = pytest.mark.long


class Sampled(nn.Module):
    """The posterior of a variational encoder."""

    def __init__(self):
        super().__init__()
        self.encode, self.decode = nn.Linear(6, 8), nn.Linear(4, 6)

    def forward(self, x):
        mean, logvar = self.encode(x).chunk(2, -1)
        eps = torch.randn_like(mean)
        return self.decode(mean + eps * torch.exp(0.5 * logvar)), mean


class Steps(nn.Module):
    """Each draw has the shape of what was computed from the draw before."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(6, 6)

    def forward(self, x, scale=None):
        for _ in range(3):
            x = self.fc(x) + torch.randn_like(x) * (0.1 if scale is None else scale)
        return x


class Sizes(nn.Module):
    """A draw that nothing depends on stands before one of half as many columns."""

    def forward(self, *xs):
        torch.rand(xs[0].shape)
        half = torch.rand(xs[0].size(0), xs[0].size(1) // 2)
        return xs[0].sum(1) + half.sum(1) * xs[1]


class Distributions(nn.Module):
    def forward(self, x):
        return torch.distributions.Normal(x, x.abs() + 1).rsample() + torch.normal(1.0, 2.0, size=x.shape)


class InPlace(nn.Module):
    def forward(self, x):
        kept = torch.empty_like(x).uniform_(-2, 2)
        low = nn.init.normal_(x.new_zeros(x.shape), 1.0, 0.5)
        return kept * low + torch.zeros_like(x).bernoulli_(0.3)


class Integers(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(5, 6)

    def forward(self, x):
        return x + self.table(torch.randint(0, 5, (x.shape[0],)))


class Gumbel(nn.Module):
    def __init__(self, hard=False):
        super().__init__()
        self.hard = hard

    def forward(self, x):
        return TF.gumbel_softmax(x, tau=0.7, hard=self.hard)


class Half(nn.Module):
    def forward(self, x):
        return (x.half() + torch.randn_like(x.half())).float()


class Optional(nn.Module):
    """Draws what it is not given: the name is its parameter's already."""

    def forward(self, x, noise=None):
        noise = torch.randn(x.shape) if noise is None else noise
        return x + noise


class Named(nn.Module):
    """The ends of whole numbers, by place and by name."""

    def forward(self, x):
        places = torch.randint(high=6, size=(2,)), torch.randint(1, high=6, size=(3,)), torch.randint(6, (1, 1))
        by = torch.randint_like(x, high=5), torch.randint_like(x, 2, 5)
        return torch.cat([x[:, places[0]], x[:, places[1]] + places[2], *by], 1)


class Into(nn.Module):
    def forward(self, x):
        noise = torch.empty_like(x)
        torch.randn(x.shape, out=noise)
        return x + noise


SUBJECTS = {
    "posterior": (Sampled, {"x": "N,6"}, ("eps",)),
    "loop": (Steps, {"x": "N,6"}, ("noise", "noise_2", "noise_3")),
    "loop with a scale": (Steps, {"x": "N,6", "scale": "6"}, ("noise", "noise_2", "noise_3")),
    "in order": (Sizes, ["N,T", "N"], (None, "half")),
    "distributions": (Distributions, {"x": "N,T"}, ("noise", "noise_2")),
    "in place": (InPlace, {"x": "N,T"}, ("kept", "low", "noise")),
    "integers": (Integers, {"x": "N,6"}, ("noise",)),
    "half": (Half, {"x": "N,T"}, ("noise",)),
    "optional": (Optional, {"x": "N,6"}, ("noise_2",)),
    "ends by name": (Named, {"x": "N,6"}, tuple(f"noise{end}" for end in ("", "_2", "_3", "_4", "_5"))),
    "into another": (Into, {"x": "N,6"}, ("noise",)),
    "traced by torch.fx": (lambda: torch.fx.symbolic_trace(Into()), {"x": "N,6"}, ("empty_like",)),
    "gumbel": (Gumbel, {"x": "N,6"}, ("noise",)),
    "gumbel, one of them": (lambda: Gumbel(True), {"x": "N,6"}, ("noise",)),
}


@pytest.mark.parametrize(("make", "inputs", "draws"), SUBJECTS.values(), ids=SUBJECTS)
def test_what_is_drawn_is_an_input(make, inputs, draws):
    dims = {"T": (4, 6, 9)} if any("T" in shape for shape in getattr(inputs, "values", lambda: inputs)()) else {}
    module = make()
    found = ported(module, inputs, dims=dims, check=True)
    assert found.verdict.passed, found.verdict.text
    assert f"draws={draws!r}," in found.text.replace('"', "'")
    assert sum("what forward draws at" in note for note in found.notes) == len(draws) - draws.count(None)
    assert "forward" not in vars(module)
    spec = td.from_module(module, inputs, dims=dims)
    assert spec.draws == draws and td.check(spec).passed


def test_the_numbers_are_those_that_torch_draws():
    """Torch's own generator gives the same numbers to forward and, in the same order, to the network."""
    module = InPlace()
    spec = td.from_module(module, {"x": "N,T"}, dims={"N": (1, 2, 3), "T": (2, 5, 7)})
    x = torch.rand(3, 7)
    torch.manual_seed(5)
    expected = module(x)
    torch.manual_seed(5)
    kept, low = torch.rand(3, 7), torch.randn(3, 7)
    noise = 1 - torch.zeros(3, 7).bernoulli_(0.3)  # 0 is below 0.3, and 1 is not
    (found,) = td.interpret(spec, {"x": x, "kept": kept, "low": low, "noise": noise}).values()
    torch.testing.assert_close(torch.as_tensor(found), expected)


class Permuted(nn.Module):
    def forward(self, x):
        return x[:, torch.randperm(6)] + torch.rand(6)


class OfValues(nn.Module):
    def forward(self, x):
        return torch.randn(int(x.sum()), 6).sum(0) + x


class Uneven(nn.Module):
    def forward(self, x):
        return x + torch.empty(6).cauchy_()


class Complex(nn.Module):
    def forward(self, x):
        return (x * torch.randn(6, dtype=torch.complex64)).abs()


@pytest.mark.parametrize("make", [Permuted, Uneven, Complex])
def test_what_is_no_input_is_refused(make):
    with pytest.raises(td.UnsupportedError, match="draws random numbers, and a network computes the same each time"):
        td.from_module(make(), {"x": "N,6"})


class LikeWhatValuesChoose(nn.Module):
    def forward(self, x):
        chosen = x[x[:, 0] > 0]
        return chosen + torch.rand_like(chosen) * x.mean()


@pytest.mark.parametrize(("make", "most"), [(OfValues, 4096), (LikeWhatValuesChoose, 8)])
def test_as_many_as_values_say_are_the_first_of_the_most(make, most):
    """Of numbers for the most that values may say, forward takes the first ones."""
    spec = td.from_module(make(), {"x": td.Input(("N", 6), sample=(-1.0, 2.0))})
    (name,) = spec.draws
    assert spec.inputs[name].shape == (most, 6) and td.check(spec).passed
    x, drawn = torch.rand(3, 6) - 0.2, torch.rand(most, 6)
    count = int(x.sum()) if make is OfValues else int((x[:, 0] > 0).sum())
    expected = drawn[:count].sum(0) + x if make is OfValues else x[x[:, 0] > 0] + drawn[:count] * x.mean()
    (found,) = td.interpret(spec, {"x": x, name: drawn}).values()
    torch.testing.assert_close(torch.as_tensor(found), expected)


class LongAlone(nn.Module):
    def forward(self, x):
        noise = torch.randn_like(x)
        return torch.stack([x[i] + (noise if x.shape[0] > 2 else x)[i] * i for i in range(x.shape[0])])


def test_ranges_are_advised_for_what_forward_takes():
    with pytest.raises(td.UnsupportedError, match=r"inputs=\{'x': '[^']*'\}, dims="):
        td.from_module(LongAlone(), {"x": "N,6"}, dims={"N": (1, 3, 40)})
