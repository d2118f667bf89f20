"""Modules with complex numbers and Fourier transforms inside."""

import torch
from torch import nn


class Rotary(nn.Module):
    """Rotary embeddings with complex turns, as LLaMA's own code has them."""

    def __init__(self):
        super().__init__()
        angles = torch.outer(torch.arange(64.0), 10000.0 ** -torch.arange(0, 1, 0.25))
        self.register_buffer("turns", torch.polar(torch.ones_like(angles), angles), persistent=False)
        self.q = nn.Linear(8, 8)

    def forward(self, x):
        b, s, _ = x.shape
        z = torch.view_as_complex(self.q(x).float().reshape(b, s, 4, 2))
        return torch.view_as_real(z * self.turns[:s]).flatten(2)


class Turned(nn.Module):
    """Rotary embeddings whose complex turns forward makes, as many as there are positions."""

    def forward(self, x):
        angles = torch.outer(torch.arange(x.shape[1]), torch.tensor([1.0, 0.5]))
        z = torch.view_as_complex(x.unflatten(-1, (2, 2)))
        return torch.view_as_real(z * torch.polar(torch.ones_like(angles), angles)).flatten(2)


class ComplexUnits(nn.Module):
    """Linear recurrent units: a complex state that a loop carries along the sequence."""

    def __init__(self):
        super().__init__()
        self.decay = nn.Parameter(torch.polar(torch.rand(3) / 2 + 0.4, torch.rand(3) * 3))
        self.into = nn.Parameter(torch.randn(3, 4, dtype=torch.complex64))
        self.out = nn.Parameter(torch.randn(2, 3, dtype=torch.complex64))

    def forward(self, x):
        state = torch.zeros(x.shape[0], 3) + 0j
        given, outputs = x.to(self.into.dtype) @ self.into.T, []
        for t in range(x.shape[1]):
            state = self.decay * state + given[:, t]
            outputs.append((state @ self.out.T).real)
        return torch.stack(outputs, 1)


class Power(nn.Module):
    """The power of short-time spectra."""

    def __init__(self):
        super().__init__()
        self.register_buffer("window", torch.hann_window(32))

    def forward(self, x):
        return torch.stft(x, 32, 8, window=self.window, return_complex=True).abs().pow(2)


class Mixing(nn.Module):
    """FNet's mixing of tokens and channels."""

    def forward(self, x):
        return torch.fft.fft(torch.fft.fft(x, dim=-1), dim=-2).real


class Vocoder(nn.Module):
    """A complex spectrum of magnitudes and angles, and the signal that it is of."""

    def forward(self, x):
        size, angle = x.chunk(2, dim=1)
        spectrum = torch.exp(size) * (torch.cos(angle) + 1j * torch.sin(angle))
        return torch.fft.irfft(spectrum, 16, dim=1) + torch.abs(torch.exp(1j * size)).sum(1, keepdim=True)


class FourierLayer(nn.Module):
    """A layer of a Fourier neural operator: a few frequencies are weighted, and written into zeros."""

    def __init__(self):
        super().__init__()
        self.low, self.high = (nn.Parameter(torch.randn(2, 3, 4, 3, dtype=torch.cfloat)) for _ in range(2))

    def forward(self, x):
        n, _, height, width = x.shape
        found = torch.fft.rfft2(x)
        kept = torch.zeros(n, 3, height, width // 2 + 1, dtype=torch.cfloat)
        kept[:, :, :4, :3] = torch.einsum("bixy,ioxy->boxy", found[:, :, :4, :3], self.low)
        kept[..., -4:, :3] = torch.einsum("bixy,ioxy->boxy", found[:, :, -4:, :3], self.high)
        kept[:, 0, 0, 0] = 0
        return torch.fft.irfft2(kept, s=(height, width))


class Magnitudes(nn.Module):
    """Norms of complex numbers."""

    def forward(self, x):
        spectrum = torch.fft.rfft(x, dim=1)
        return torch.linalg.norm(spectrum, dim=1), torch.linalg.vector_norm(spectrum, 1, dim=1, keepdim=True)


class Shifted(nn.Module):
    """Complex values that are joined, written to, chosen between and multiplied along a dimension."""

    def forward(self, x):
        z = torch.view_as_complex(x.unflatten(-1, (2, 2)))
        later = torch.zeros_like(z)
        later[:, 1:] = z[:, :-1]
        turns = torch.cumprod(torch.polar(torch.ones_like(x), x), dim=1)
        mixed = torch.where(x.abs() > 0.3, torch.cat([later, z], -1).tanh(), turns)
        return torch.view_as_real(mixed @ mixed.mH).flatten(2), (z**2 + z**0.5).real


class Turning(nn.Module):
    """Few complex turns, which the file has as numbers, and their real and imaginary parts."""

    def forward(self, x):
        turns = torch.polar(torch.ones(4), torch.arange(4.0))
        turned = torch.view_as_complex(x.unflatten(-1, (4, 2))) * turns
        return torch.view_as_real(turned).flatten(-2), x[..., :4] * turns.real + x[..., 4:] * turns.imag


class Spectra(nn.Module):
    """Complex outputs, beside real ones and in containers."""

    def forward(self, x):
        spectrum = torch.fft.rfft(x, dim=1)
        return {"mean": x.mean(), "spectra": [spectrum, spectrum.conj()], "sum": torch.fft.fft2(x).sum()}
