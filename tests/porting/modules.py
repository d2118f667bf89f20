"""Modules as people write them, each with something that a port must see."""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn


class Small(nn.Module):
    """The exact text of its port is in test_text.py."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU())
        self.blocks = nn.ModuleList(Residual(8) for _ in range(3))
        self.head = nn.Linear(8, 5)

    def forward(self, image):
        x = self.stem(image)
        for block in self.blocks:
            x = block(x)
        n, c, _, _ = x.shape
        return self.head(F.adaptive_avg_pool2d(x, 1).view(n, c))


class Residual(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.conv = nn.Conv2d(width, width, 3, padding=1)
        self.norm = nn.BatchNorm2d(width)
        self.drop = nn.Dropout(0.1)

    def forward(self, x):
        y = F.relu(self.norm(self.conv(x)))
        return x + self.drop(y)


class InPlace(nn.Module):
    """Changes in place, by method, operator, index and argument."""

    def forward(self, x):
        y = x.clone()
        y += 1
        y.mul_(2).clamp_(-1, 3)
        y[:, 0] = x[:, 1]
        y[:, 1:2, 2:4] = 5.0
        y[:, 2, :, 0] = x[:, 0, :, 1]
        y[:, :1, 1:] *= 0.5
        mask = torch.zeros(x.shape[2], x.shape[3])
        mask[:2] = 1
        mask[-1, :] = 7
        y = F.relu(y * mask, inplace=True)
        y[y > 4] = 0
        return y


class Views(nn.Module):
    """Every way to ask for a size."""

    def forward(self, x):
        n, c, h, w = x.size()
        y = x.view(n, -1, h * w).transpose(1, 2)
        y = y.reshape(x.size(0), x.shape[-2], w, c).permute(0, 3, 1, 2).contiguous()
        z = F.interpolate(x, size=(h // 2 + 1, (w - 1) // 2), mode="nearest")
        z = F.interpolate(z, size=x.shape[2:], mode="bilinear", align_corners=False)
        grid = torch.arange(w, dtype=x.dtype, device=x.device) / max(len(x.shape), 1)
        return y + z * grid + x.numel() // n


class Tied(nn.Module):
    """One weight under two names, and what forward leaves aside."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(11, 6)
        self.mix = nn.Linear(6, 6)
        self.head = nn.Linear(6, 11, bias=False)
        self.head.weight = self.embed.weight
        self.unused = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
        self.spare = nn.Parameter(torch.ones(2))

    def forward(self, ids):
        x = self.mix(self.embed(ids))
        return self.head(self.mix(x))  # the same module twice


class Buffers(nn.Module):
    """Buffers of several dtypes, stored and not, and a plain tensor."""

    def __init__(self):
        super().__init__()
        self.register_buffer("order", torch.tensor([2, 0, 1]))
        self.register_buffer("mask", torch.tensor([True, False, True]))
        self.register_buffer("steps", torch.arange(3.0) ** 2, persistent=False)
        self.scale = torch.tensor(0.5)

    def forward(self, x):
        x = torch.where(self.mask, x[:, self.order], -x) * self.scale
        return x + self.steps


@dataclass
class Output:
    first: torch.Tensor
    second: torch.Tensor
    nothing: torch.Tensor = None


class Named(nn.Module):
    """Keyword inputs, one left out, and a dataclass as the result."""

    def forward(self, a, skipped=None, *, b=None):
        if skipped is not None:
            a = a + skipped
        return Output(first=a * b, second=(a - b).abs().sum(-1, keepdim=True))


class Several(nn.Module):
    def forward(self, a, b):
        low, high = torch.minimum(a, b), torch.maximum(a, b)
        values, _ = high.max(dim=1)
        return [low, (values, None), {"sum": a + b}]


class Attention(nn.Module):
    """torch's own attention, whose fast path would hide its calls."""

    def __init__(self):
        super().__init__()
        self.layers = nn.TransformerEncoder(
            nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 2, enable_nested_tensor=False
        )
        self.own = nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, x):
        y, weights = self.own(x, x, x)
        return self.layers(y), weights


class Recurrent(nn.Module):
    """A cell in a loop of Python's."""

    def __init__(self):
        super().__init__()
        self.cell = nn.GRUCell(4, 6)
        self.lstm = nn.LSTMCell(6, 5)

    def forward(self, x):
        h = x.new_zeros(x.shape[0], 6)
        hidden, state = x.new_zeros(x.shape[0], 5), x.new_zeros(x.shape[0], 5)
        for t in range(3):
            h = self.cell(x[:, t], h)
            hidden, state = self.lstm(h, (hidden, state))
        return h, hidden


class Stages(nn.Module):
    """Blocks that differ in numbers, in a parameter, and in what they consist of."""

    def __init__(self):
        super().__init__()
        sizes = [(4, 8, 2), (8, 8, 1), (8, 16, 2), (16, 16, 1)]
        self.stages = nn.Sequential(*(Stage(*sizes_of) for sizes_of in sizes))
        self.scales = nn.ParameterList(nn.Parameter(torch.ones(1)) for _ in range(2))
        self.table = nn.ParameterDict({"in": nn.Parameter(torch.ones(1)), "b c": nn.Parameter(torch.ones(1))})

    def forward(self, x):
        for scale in self.scales:
            x = x * scale
        return self.stages(x) * self.table["in"] + self.table["b c"]


class Stage(nn.Module):
    def __init__(self, channels, width, stride):
        super().__init__()
        self.conv = nn.Conv2d(channels, width, 3, stride, 1)
        self.short = nn.Conv2d(channels, width, 1, stride) if stride > 1 else None

    def forward(self, x):
        return F.gelu(self.conv(x), approximate="tanh") + (x if self.short is None else self.short(x))


def halves(x):
    middle = x.shape[-1] // 2
    return torch.cat((-x[..., middle:], x[..., :middle]), dim=-1)


class Helpers(nn.Module):
    """A function that forward calls twice."""

    def forward(self, x, y):
        return halves(x) * y + halves(y) * x


class Fft(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(8, 8)

    def forward(self, x):
        spectrum = torch.fft.hfft(self.fc(x), norm="ortho")
        return spectrum.abs() + 1


class Branch(nn.Module):
    def forward(self, x):
        if x.sum() > 0:
            return x[:, :2]
        return x


class Number(nn.Module):
    def forward(self, x):
        return x[:, : int(x.shape[1] ** 0.5)] * 2


class Root(nn.Module):
    def forward(self, x):
        return x[:, : int(math.sqrt(x.shape[1]))] * 2


class Stale(nn.Module):
    def forward(self, x):
        y = x * 2
        y.unfold(1, 1, 1).add_(1)
        return y.sum(1)


class Fails(nn.Module):
    def forward(self, x):
        return x.reshape(7, 7)


CONSTANT = torch.ones(70, 3)


class Positions(nn.Module):
    """A mask, given as integers that no table is looked up with."""

    def forward(self, x, mask):
        return x.masked_fill(mask == 0, -1.0)
