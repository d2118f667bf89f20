"""Tensors and arrays whose shape is of sizes, made outside of what torch tells a trace: torch's values at each size."""

import numpy as np
import pytest
import torch
import torch._numpy

import trtdsl as td
from trtdsl.interpreter.interpret import Interpreter

LOW, HIGH = 1, 9


def old_constructors(x):
    n = x.shape[0]
    made = torch.Tensor(n, 3).zero_() + torch.FloatTensor(n, 3).fill_(2.0) + torch.LongTensor(x.size()).fill_(3)
    return made * x + torch.FloatTensor([n, 2.0, 1.0]) + x.new(n, 3).fill_(1.0) + x.new([n])


def kinds(x):
    made = torch.Tensor(x.shape[0], 3).zero_().type(torch.FloatTensor)
    if type(x) is torch.Tensor and isinstance(x, torch.Tensor) and issubclass(type(x), torch.Tensor):
        made = torch.Tensor.add(made, 2)
    return (x * made).type(torch.LongTensor).float()


def double(x):
    places = torch.linspace(0, x.shape[0] - 1, 4, dtype=torch.float64)
    bell = torch.exp(-((torch.arange(x.shape[0], dtype=torch.float64) - (x.shape[0] - 1) / 2) ** 2) / 8)
    return x[places.round().long()], (x * (bell / bell.sum())[:, None]).float()


def hann(x):
    n = x.shape[0]
    return x * torch.hann_window(n)[:, None] + torch.hann_window(n)[:, None]


def windows(x):
    n = x.shape[0]
    both = (
        torch.hann_window(n) + torch.hamming_window(n) + torch.hamming_window(n, False, 0.6) + torch.blackman_window(n)
    )
    return (
        x
        * (
            both
            + torch.bartlett_window(n, periodic=False)
            + torch.hamming_window(n, periodic=True, alpha=0.6, beta=0.3)
        )[:, None]
    )


def sines(x):
    table = np.zeros((x.shape[0], 4))
    places = np.arange(0, x.shape[0])[:, np.newaxis]
    rates = np.exp(np.arange(0, 4, 2) * -(np.log(10000.0) / 4))
    table[:, 0::2] = np.sin(places * rates)
    table[:, 1::2] = np.cos(places * rates)
    return x + torch.from_numpy(table).float()[:, :3]


def grid(x):
    across, down = np.meshgrid(np.arange(3, dtype=np.float32), np.linspace(0, 1, x.shape[0]))
    places = np.stack([across, down], axis=-1).astype(np.float32)
    return x * torch.from_numpy(places)[..., 0] + torch.FloatTensor(places)[..., 1]


def masks(x):
    n = x.shape[0]
    later = torch.from_numpy(np.triu(np.ones((1, n, n)), k=1).astype("uint8")) == 0
    near = torch.tensor(np.abs(np.arange(n)[:, None] - np.arange(n)[None]) < 3)
    return (later[0] & near).float() @ x


def places(x):
    n = x.shape[0]
    turned = np.arange(n)[::-1].copy()
    chosen = np.round(np.linspace(0, n - 1, 5)).astype(int)
    return (
        x[torch.from_numpy(turned)] * len(turned),
        x[chosen],
        x + torch.as_tensor(np.tile(np.array([1, 2, 3]), (n, 1))),
    )


def extrema(x):
    n = x.shape[0]
    return torch.cat([x, torch.ones(np.maximum(n, 5), 3)]) * np.minimum(4, n)


def steps(x):
    n = x.shape[0]
    evenly = torch.from_numpy(np.linspace(0.0, 1.0, n, endpoint=False)) + torch.from_numpy(np.eye(n)[0])
    return x * (torch.arange(0.5, n + 0.5) + evenly.float())[:, None] + torch.arange(n / 2).sum()


def frequencies(x):
    n = x.shape[0]
    turned = torch.fft.fft(x, dim=0) * torch.exp(2j * torch.pi * torch.fft.fftfreq(n))[:, None]
    half = torch.fft.rfftfreq(n, d=0.5)
    return turned.real + half.sum(), half


class Applied(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


@pytest.mark.parametrize(
    "function",
    [old_constructors, kinds, double, hann, windows, sines, grid, masks, places, extrema, steps, frequencies],
    ids=lambda each: each.__name__,
)
def test_made_of_sizes(function):
    module = Applied(function)
    classes = torch.Tensor, torch.FloatTensor, np.arange, dict(vars(torch._numpy.ndarray))
    low = 2 if function in (hann, windows) else LOW  # a window of one place is made otherwise
    network = td.from_module(module, {"x": "N,3"}, dims={"N": (low, 4, HIGH)}).define()
    assert (torch.Tensor, torch.FloatTensor, np.arange, dict(vars(torch._numpy.ndarray))) == classes
    run = Interpreter(network.definition)
    for size in range(low, HIGH + 1):
        x = torch.randn(size, 3) * 4
        wanted = module(x)
        wanted = wanted if isinstance(wanted, tuple) else (wanted,)
        for got, each in zip(run({"x": x}).values(), wanted, strict=True):
            torch.testing.assert_close(got, each.to(got.dtype), msg=lambda text, size=size: f"at {size}: {text}")


def test_steps_whose_number_depends_on_rounding_are_refused():
    """1 / (1 / 49) is a little more than 49."""
    module = Applied(lambda x: x + torch.arange(0, 1, 1 / x.shape[0]).shape[0])
    with pytest.raises(td.UnsupportedError, match="what ceil.. gives to be 49, and it is 50"):
        td.from_module(module, {"x": "N,3"}, dims={"N": (1, 4, 60)})
