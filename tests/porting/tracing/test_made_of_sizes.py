"""Tensors and arrays whose shape is of sizes, made outside of what torch tells a trace: torch's values at each size."""

import math
from types import SimpleNamespace

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


HALF = 0.5


def fractions(x, share=0.75):
    """Floats before sizes: of the code, of its module, of an argument, of tuples and of math."""
    n = x.shape[0]
    shares = [max(1, int(each * n)) for each in (0.25, share, HALF)]
    middle = -1.0 * (0.5 - 0.5 * n)
    wave = torch.sin(2 * math.pi / n * torch.arange(n)) * (1.0 / n) + torch.pi / n + math.log(10000.0) / n
    return x[: shares[0]], x[: shares[1]] + middle, x[: math.ceil(HALF * n)], x * wave[:, None] * np.sqrt(2.0) / n


def compared_with_a_float(x):
    return x * 2 if 4.5 > x.shape[0] else x + 1  # noqa: SIM300


class Ratio(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.ratio = 0.3
        self.config = SimpleNamespace(factor=1.5)

    def forward(self, x):
        n = x.shape[0]
        return x[: max(1, int(self.ratio * n))] * (self.config.factor * n)


def frames(x):
    """Frames that overlap, by strides."""
    y = x.reshape(-1)
    n = 1 + (y.numel() - 3) // 2
    return y.as_strided((n, 3), (2, 1)) * 2, x.as_strided((2, x.shape[0]), (1, x.stride(0)), 1)


def padded_by_tensors(x):
    more = torch.tensor([12 - x.shape[0]])
    return torch.nn.functional.pad(x, (0, 0, more // 2, more - more // 2))


def padded_to_the_most(x):
    """As detectron2 pads a list of images, with numpy's numbers beside what sizes make."""
    most = torch.stack([torch.as_tensor(x.shape), torch.as_tensor([2, 3])]).max(0).values
    most = (most + 3).div(4, rounding_mode="floor") * 4
    padded = torch.nn.functional.pad(x, [0, most[-1] - x.shape[-1], 0, most[-2] - x.shape[-2]])
    return padded, torch.nn.functional.linear(torch.arange(x.shape[0])[:, None] / np.log2(8), torch.ones(2, 1))


def by_factors(x):
    """Factors of sizes: a little more than the size, as DINOv2 interpolates its positions, and quotients of sizes."""
    n, interpolate = x.shape[0], torch.nn.functional.interpolate
    grid = (torch.arange(32.0) ** 2 % 7).reshape(1, 2, 4, 4)
    more = (n + 0.6) / 4
    return (
        interpolate(grid, scale_factor=(float(n + 0.1) / 4, 2.1), mode="bicubic"),
        interpolate(x.mT[None], scale_factor=(n + 2.5) / n, mode="linear"),
        interpolate(grid, scale_factor=(more, 1.0), mode="bilinear", align_corners=True),
        interpolate(grid, scale_factor=(more, 1.3), recompute_scale_factor=True, mode="bicubic"),
        interpolate(grid, scale_factor=(n / 4, 2.0)) + x.sum(),
        interpolate(grid, scale_factor=(n + 0.3) / 4, mode="nearest-exact"),
    )


def joined(x):
    """Sizes that are joined and counted as torch.Size has it."""
    whole = x.shape[:1] + (1,) + x.size()[1:]
    assert isinstance(whole, torch.Size)
    return (x.reshape(whole) * whole.numel()).sum(1), x * x.shape[1:].numel() + x.new_ones(torch.Size(x.shape) * 1)


def often(x):
    """Lists that a size says how often they have their items."""
    n = x.shape[0]
    rows = torch.cat([x, 2 * x] * n), torch.stack(n * [x[0], x[-1]], 1), torch.stack([x.sum(0)] * (n + 1), dim=-1)
    return *rows, x + torch.tensor([1.0, 2.0] * n)[:n, None]


def roots(x):
    """Numbers that tensors of sizes hold, and the greatest of fractions."""
    n = x.shape[0]
    most = torch.tensor([n, 3]).float().log().max().item() + max(math.log2(n), 1.5)
    root = torch.tensor(n).sqrt().item()
    return x * root + most, x * min(n / 7, 1.0, x.shape[1]), x + torch.tensor(n).rsqrt().item()


def antialiased(x):
    grid = (torch.arange(32.0) ** 2 % 7).reshape(1, 2, 4, 4)
    return torch.nn.functional.interpolate(
        grid, scale_factor=(float(x.shape[0] + 0.1) / 4, 0.8), mode="bicubic", antialias=True
    )


class Applied(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


@pytest.mark.parametrize(
    "function",
    [old_constructors, kinds, double, hann, windows, sines, grid, masks, places, extrema, steps, frequencies]
    + [
        fractions,
        compared_with_a_float,
        Ratio(),
        frames,
        padded_by_tensors,
        padded_to_the_most,
        by_factors,
        antialiased,
        joined,
        often,
        roots,
    ],
    ids=lambda each: getattr(each, "__name__", None),
)
def test_made_of_sizes(function):
    module = Applied(function)
    code = fractions.__code__
    classes = torch.Tensor, torch.FloatTensor, np.arange, dict(vars(torch._numpy.ndarray))
    low = 2 if function in (hann, windows) else LOW  # a window of one place is made otherwise
    network = td.from_module(module, {"x": "N,3"}, dims={"N": (low, 4, HIGH)}).define()
    assert (torch.Tensor, torch.FloatTensor, np.arange, dict(vars(torch._numpy.ndarray))) == classes
    assert fractions.__code__ is code and type(HALF) is type(math.pi) is type(torch.pi) is float
    run = Interpreter(network.definition)
    for size in range(low, HIGH + 1):
        x = torch.randn(size, 3) * 4
        wanted = module(x)
        wanted = wanted if isinstance(wanted, tuple) else (wanted,)
        for got, each in zip(run({"x": x}).values(), wanted, strict=True):
            torch.testing.assert_close(got, each.to(got.dtype), msg=lambda text, size=size: f"at {size}: {text}")


def test_a_count_that_is_one_number_at_some_sizes_is_one_network_for_these():
    """As Informer counts, ``factor * ceil(log(n))``: numpy's numbers, which sizes do not express."""

    class Counted(torch.nn.Module):
        def forward(self, x):
            n = x.shape[0]
            return x[: 2 * np.ceil(np.log(n)).astype("int").item()] + np.floor(n / 2).astype(int)

    module = Counted()
    network = td.from_module(module, {"x": "N,3"}, dims={"N": (8, 12, 20)}).define()
    for size in (8, 13, 20):
        x = torch.randn(size, 3)
        torch.testing.assert_close(*Interpreter(network.definition)({"x": x}).values(), module(x))


def test_steps_whose_number_depends_on_rounding_are_refused():
    """1 / (1 / 49) is a little more than 49."""
    module = Applied(lambda x: x + torch.arange(0, 1, 1 / x.shape[0]).shape[0])
    with pytest.raises(td.UnsupportedError, match="what ceil.. gives to be 49, and it is 50"):
        td.from_module(module, {"x": "N,3"}, dims={"N": (1, 4, 60)})
