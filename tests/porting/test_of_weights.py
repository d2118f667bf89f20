"""What forward computes of weights alone is computed by torch while the network is written, whatever it is."""

import pytest
import torch
from torch import nn

import trtdsl as td
from trtdsl.porting import ported


class OfWeights(nn.Module):
    """A linear layer by what ``compute`` gives of its weight."""

    def __init__(self, compute):
        super().__init__()
        self.compute = compute
        self.weight = nn.Parameter(torch.randn(5, 5) + 3 * torch.eye(5))

    def forward(self, x):
        return x @ self.compute(self.weight)


def by_eigenvalues(w):
    values, vectors = torch.linalg.eigh(w + w.T)
    return vectors @ torch.diag(values.clamp(min=0.1).sqrt()) @ vectors.T


def by_svd(w):
    found = torch.linalg.svd(w, full_matrices=False)
    return (found.U * found.S.clamp(min=0.5)) @ found.Vh


def by_complex_eigenvalues(w):
    values, vectors = torch.linalg.eig(w)
    return (vectors @ torch.diag(values**2) @ torch.linalg.inv(vectors)).real


def in_place(w):
    given = w.detach().clone()
    given -= given.T.clone()
    found = torch.empty(5, 5)
    found.copy_(torch.matrix_exp(given))
    return found.lgamma_()


def by_spectra(w):
    turned = torch.fft.fft(torch.polar(w.abs(), w), dim=0)
    return torch.fft.hfft(turned, n=5, dim=1) / 10 + turned.angle()


FUNCTIONS = [
    *(by_eigenvalues, by_svd, by_complex_eigenvalues, in_place, by_spectra, torch.pinverse, torch.linalg.pinv),
    lambda w: torch.linalg.qr(w)[0],
    lambda w: torch.linalg.cholesky(w @ w.T),
    lambda w: w / torch.linalg.matrix_norm(w, 2),
    lambda w: w / w.svd()[1].max() + torch.linalg.cond(w),
    lambda w: torch.linalg.inv(w.double()).float(),
    lambda w: torch.special.bessel_j0(w) + torch.linalg.matrix_rank(w),
    lambda w: torch.linalg.lstsq(w, torch.eye(5)).solution,
]


@pytest.mark.parametrize("compute", FUNCTIONS)
def test_a_function_of_weights(compute):
    torch.manual_seed(0)
    td.check(td.from_module(OfWeights(compute).eval(), ["N,5"])).raise_for_mismatch()


def test_a_parametrization_by_a_matrix_exponential():
    layer = torch.nn.utils.parametrizations.orthogonal(nn.Linear(5, 5))
    td.check(td.from_module(layer.eval(), ["N,5"])).raise_for_mismatch()


def orthogonal():
    torch.manual_seed(0)
    return OfWeights(torch.linalg.pinv)


def test_the_file_has_the_call_and_follows_other_weights(port):
    made = port(f"{__file__}:orthogonal", {"x": "N,5"})
    assert "td.of_constants(torch.linalg.pinv, w.weight)" in made.text
    made.check()
    other = torch.randn(5, 5)
    network, x = made.spec.define(weights={"weight": other}), torch.rand(2, 5)
    torch.testing.assert_close(td.interpret(network, {"x": x})["output"], x @ torch.linalg.pinv(other))


def test_a_decomposition_of_an_input_is_refused():
    class Whitened(nn.Module):
        def forward(self, x):
            return torch.linalg.eigh(x @ x.mT).eigenvectors

    with pytest.raises(td.UnsupportedError, match=r"of_weights.py:\d+: torch.linalg.eigh needs a matrix decomposition"):
        td.from_module(Whitened(), ["N,3,3"])


def test_random_numbers_are_no_weights():
    """They become an input, whose decomposition is refused."""

    class Drawn(nn.Module):
        def forward(self, x):
            return x @ torch.linalg.qr(torch.randn(5, 5))[0]

    with pytest.raises(td.UnsupportedError, match=r"of_weights.py:\d+: torch.linalg.qr needs a matrix decomposition"):
        td.from_module(Drawn(), ["N,5"])


class Scaled(nn.Module):
    """Scales by numbers that ``read`` gives of a parameter and of a buffer that the weights do not have."""

    def __init__(self, read):
        super().__init__()
        self.read = read
        self.scale = nn.Parameter(torch.tensor(1.5))
        self.register_buffer("place", torch.tensor(2.5), persistent=False)

    def forward(self, x):
        return x * self.read(self.scale) + self.place.item()


@pytest.mark.parametrize(
    "read", [float, int, bool, torch.Tensor.item, torch.Tensor.tolist, lambda w: 2 if w else 3, lambda w: w in (1.0, w)]
)
def test_a_number_of_a_parameter_is_remarked(read):
    (note,) = ported(Scaled(read), ["N,5"]).notes
    assert "asks for values of the module's own tensors: the network is for weights that agree" in note


def test_an_input_may_be_called_as_the_weights_are():
    class Weighted(nn.Linear):
        def forward(self, x, w):
            return super().forward(x) * w

    td.check(td.from_module(Weighted(5, 5), ["N,5", "N,5"])).raise_for_mismatch()
    made = ported(Weighted(5, 5), ["N,5", "N,5"], check=True)
    assert made.verdict.passed, made.verdict.text
