"""Modules that do something else at other sizes, in the forms that libraries have."""

import math

import torch
import torch.nn.functional as F
from torch import nn


class Windows(nn.Module):
    """A pad to a multiple of the window, and a crop of what is computed (SwinIR)."""

    window, scale, mode = 4, 2, "reflect"

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(2, 8, 3, padding=1)

    def forward(self, x):
        h, w = x.shape[2:]
        pad_h, pad_w = (self.window - h % self.window) % self.window, (self.window - w % self.window) % self.window
        x = self.conv(F.pad(x, (0, pad_w, 0, pad_h), self.mode))
        x = F.pixel_shuffle(x, self.scale)
        return x[:, :, : h * self.scale, : w * self.scale]


class PadIf(nn.Module):
    """A pad under a condition, with a flag for the crop."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(2, 2, 4, stride=4)
        self.up = nn.ConvTranspose2d(2, 2, 4, stride=4)

    def forward(self, x):
        h = x.shape[2]
        padded = h % 4 != 0
        if padded:
            x = F.pad(x, (0, 0, 0, 4 - h % 4))
        x = self.up(F.relu(self.conv(x)))
        if padded:
            x = x[:, :, :h]
        return x


class EvenSides(nn.Module):
    """Pads each odd side, as Swin does: neither of one odd side alone is a program that has what the other needs."""

    def forward(self, x):
        _, _, h, w = x.shape
        if w % 2 != 0:
            x = F.pad(x, (0, 2 - w % 2))
        if h % 2 != 0:
            x = F.pad(x, (0, 0, 0, 2 - h % 2))
        count = int(x.shape[0] / (h * w / 2 / 2) * 8)  # of fractions, at all sizes of both sides
        return F.avg_pool2d(x, 2) * (2 if count < 9 else 3)


class OddSides(nn.Module):
    """Pads by one each side that is odd on the way down, of none, one or both (U-Nets of fastMRI and MONAI)."""

    def __init__(self):
        super().__init__()
        self.down = nn.Conv2d(2, 2, 3, padding=1)

    def forward(self, x):
        y = F.interpolate(F.max_pool2d(self.down(x), 2), scale_factor=2)
        pads = [0] * 4
        for axis in range(2):
            if y.shape[-axis - 1] != x.shape[-axis - 1]:
                pads[2 * axis + 1] = 1
        return x + F.pad(y, pads, "replicate")


class Trimmed(nn.Module):
    """A crop from both sides where there is more than went in, of weights that the author loads (Demucs)."""

    def __init__(self):
        super().__init__()
        self.down, self.up = nn.Conv1d(2, 3, 8, 4), nn.ConvTranspose1d(3, 2, 8, 4)

    def load_state_dict(self, state, strict=True):
        return super().load_state_dict(state, strict)

    def forward(self, x):
        y = self.up(F.relu(self.down(F.pad(x, (0, -x.shape[-1] % 4)))))
        more = y.shape[-1] - x.shape[-1]
        if more:
            y = y[..., more // 2 : -(more - more // 2)]
        return x + y


class Merging(nn.Module):
    """Patches of two: an odd side is padded by one (Swin)."""

    def __init__(self):
        super().__init__()
        self.reduction = nn.Linear(8, 3)

    def forward(self, x):
        h = x.shape[1]
        if h % 2 == 1:
            x = F.pad(x, (0, 0, 0, 0, 0, 1))
        x = torch.cat([x[:, 0::2, 0::2], x[:, 1::2, 0::2], x[:, 0::2, 1::2], x[:, 1::2, 1::2]], -1)
        return self.reduction(x)


class Skip(nn.Module):
    """A resize where the sides of two levels differ (U-Net)."""

    def __init__(self):
        super().__init__()
        self.down = nn.Conv2d(2, 2, 3, stride=2, padding=1)
        self.up = nn.ConvTranspose2d(2, 2, 2, stride=2)

    def forward(self, x):
        y = self.up(F.relu(self.down(x)))
        if y.shape != x.shape:
            y = F.interpolate(y, size=x.shape[2:], mode="bilinear")
        return torch.cat([x, y], 1)


class SkipPad(nn.Module):
    """A pad by the difference of two levels."""

    def __init__(self):
        super().__init__()
        self.down = nn.Conv2d(2, 2, 3, stride=2, padding=1)

    def forward(self, x):
        y = F.interpolate(self.down(x), scale_factor=2)
        dy = x.shape[2] - y.shape[2]
        if dy != 0:
            y = F.pad(y, (0, 0, dy // 2, dy - dy // 2))
        return x + y


class Positions(nn.Module):
    """Positions that are resized where there are more or fewer than were trained (ViT)."""

    def __init__(self):
        super().__init__()
        self.positions = nn.Parameter(torch.randn(1, 16, 4))

    def forward(self, x):
        positions = self.positions
        if x.shape[1] != positions.shape[1]:
            positions = F.interpolate(positions.transpose(1, 2), size=x.shape[1], mode="linear").transpose(1, 2)
        return x + positions


class Sinusoids(nn.Module):
    """Positions beyond the table are repeated."""

    def __init__(self):
        super().__init__()
        self.register_buffer("table", torch.randn(10, 4))

    def forward(self, x):
        length = x.shape[1]
        if length <= 10:
            table = self.table[:length]
        else:
            table = torch.cat([self.table, self.table[: length - 10] * 0.5])
        return torch.tanh(x + table)


class Short(nn.Module):
    """An input shorter than the kernel is padded."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1d(2, 3, 7)

    def forward(self, x):
        if x.shape[-1] < 7:
            x = F.pad(x, (0, 7 - x.shape[-1]))
        return self.conv(x)


class Spectral(nn.Module):
    """A convolution by Fourier transforms of an even length: the kernel is padded to what the input was (fft_conv)."""

    def __init__(self):
        super().__init__()
        self.kernel = nn.Parameter(torch.linspace(-1, 1, 10).reshape(1, 2, 5))

    def forward(self, x):
        length = x.size(-1)
        if x.size(-1) % 2 != 0:
            x = F.pad(x, [0, 1])
        kernel = F.pad(self.kernel, [0, x.size(-1) - self.kernel.size(-1)])
        return torch.fft.irfft(torch.fft.rfft(x) * torch.fft.rfft(kernel))[..., :length]


class Multiples(nn.Module):
    """A picture of any size is padded to a multiple, cut into windows and cropped (super resolution)."""

    def forward(self, x):
        b, c, h, w = x.shape
        bottom, right = (4 - h % 4) % 4, (4 - w % 4) % 4
        if bottom or right:
            x = F.pad(x, (0, right, 0, bottom), "reflect")
        high, wide = x.shape[2:]
        if high % 4 or wide % 4:
            raise ValueError("the windows do not fit")
        windows = x.reshape(b, c, high // 4, 4, wide // 4, 4)
        return (windows - windows.mean((3, 5), keepdim=True)).reshape(b, c, high, wide)[:, :, :h, :w]


class Reflecting(nn.Module):
    """A reflecting pad, which short inputs are lengthened for (EnCodec)."""

    def forward(self, x):
        length, left, right = x.shape[-1], 5, 3
        most, extra = max(left, right), 0
        if length <= most:
            extra = most - length + 1
            x = F.pad(x, (0, extra))
        padded = F.pad(x, (left, right), "reflect")
        return padded[..., : padded.shape[-1] - extra]


class Frames(nn.Module):
    """Frames of a signal, with a pad for the last (codecs)."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1d(1, 4, 8, stride=4)

    def forward(self, x):
        frames = (x.shape[-1] - 8) / 4 + 1
        ideal = (math.ceil(frames) - 1) * 4 + 8
        return self.conv(F.pad(x, (0, ideal - x.shape[-1])))


class Separator(nn.Module):
    """Overlapping segments of a sequence (DPRNN)."""

    size = 8

    def forward(self, x):
        n, c, length = x.shape
        stride = self.size // 2
        rest = self.size - (stride + length % self.size) % self.size
        if rest > 0:
            x = torch.cat([x, x.new_zeros(n, c, rest)], 2)
        border = x.new_zeros(n, c, stride)
        x = torch.cat([border, x, border], 2)
        a = x[:, :, :-stride].reshape(n, c, -1, self.size)
        b = x[:, :, stride:].reshape(n, c, -1, self.size)
        return torch.cat([a, b], 3).reshape(n, c, -1, self.size).transpose(2, 3)


class TwoWays(nn.Module):
    """Attention in one way or another."""

    def __init__(self):
        super().__init__()
        self.q, self.k = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x):
        q, k = self.q(x), self.k(x)
        if x.shape[1] > 12:
            context = torch.softmax(k, 1).transpose(1, 2) @ x
            return torch.softmax(q, -1) @ context
        return torch.softmax(q @ k.transpose(1, 2), -1) @ x


class Alibi(nn.Module):
    """Biases that grow with the distance, of a table where it is long enough."""

    def __init__(self):
        super().__init__()
        self.register_buffer("slopes", torch.tensor([0.5, 0.25]))
        self.register_buffer("cached", self.bias(8), persistent=False)

    def bias(self, length):
        places = torch.arange(length)
        return (places[None] - places[:, None]).abs()[None] * -torch.tensor([0.5, 0.25])[:, None, None]

    def forward(self, x):
        length = x.shape[1]
        if length <= self.cached.shape[-1]:
            bias = self.cached[:, :length, :length]
        else:
            places = torch.arange(length)
            bias = (places[None] - places[:, None]).abs()[None] * -self.slopes[:, None, None]
        return torch.softmax((x @ x.transpose(1, 2))[:, None] + bias, -1)


class Relative(nn.Module):
    """Embeddings of clipped distances."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(9, 4)

    def forward(self, x):
        places = torch.arange(x.shape[1])
        distance = (places[None] - places[:, None]).clamp(-4, 4) + 4
        return x @ self.table(distance).sum(1).transpose(0, 1)


class RelativeSlice(nn.Module):
    """Embeddings of distances, padded where they are too few (VITS)."""

    def __init__(self):
        super().__init__()
        self.table = nn.Parameter(torch.randn(1, 9, 4))

    def forward(self, x):
        length, window = x.shape[1], 4
        pad, start = max(length - (window + 1), 0), max(window + 1 - length, 0)
        table = F.pad(self.table, (0, 0, pad, pad)) if pad > 0 else self.table
        used = table[:, start : start + 2 * length - 1]
        return x @ used.transpose(1, 2)


class Last(nn.Module):
    """A single element is taken otherwise."""

    def forward(self, x):
        if x.shape[1] == 1:
            return x[:, 0] * 2
        return x[:, 1:].mean(1) + x[:, 0]


class PoolIf(nn.Module):
    """A pool where there is enough to pool."""

    def forward(self, x):
        if x.shape[2] >= 6:
            x = F.avg_pool2d(x, (2, 1))
        return F.relu(x - 0.1)


class Clipped(nn.Module):
    """Only the last of a long input."""

    def forward(self, x):
        if x.shape[1] > 9:
            x = x[:, -9:]
        return x.cumsum(1)


class Causal(nn.Module):
    """A mask for more than one."""

    def forward(self, x):
        length, scores = x.shape[1], x @ x.transpose(1, 2)
        if length > 1:
            mask = torch.full((length, length), -1e4).triu(1)
            scores = scores + mask
        return torch.softmax(scores, -1)


class Wide(nn.Module):
    """A picture is turned so that it is never higher than wide."""

    def forward(self, x):
        if x.shape[2] > x.shape[3]:
            return x.transpose(2, 3).relu().transpose(2, 3) + 1
        return x.relu()


class Sizes(nn.Module):
    """Three ranges of sizes."""

    def __init__(self):
        super().__init__()
        self.small, self.large = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x):
        n = x.shape[1]
        if n < 4:
            return self.small(x)
        if n < 9:
            return self.large(x) + self.small(x)
        return self.large(x)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x):
        y = self.fc(x)
        if x.shape[1] > 8:
            y = y - y.mean(1, keepdim=True)
        return x + torch.tanh(y)


class Blocks(nn.Module):
    """A branch in each of several blocks."""

    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(3))

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x


class Levels(nn.Module):
    """A branch on the size of each level."""

    def __init__(self):
        super().__init__()
        self.convs = nn.ModuleList(nn.Conv1d(2, 2, 3, padding=1) for _ in range(3))

    def forward(self, x):
        levels = []
        for conv in self.convs:
            x = conv(x)
            if x.shape[-1] % 2:
                x = F.pad(x, (0, 1))
            x = F.max_pool1d(x, 2)
            levels.append(x)
        return levels


class Batch(nn.Module):
    """A batch of one is computed otherwise."""

    def forward(self, x):
        if x.shape[0] == 1:
            return (x - x.mean()) * 2
        return (x - x.mean(0, keepdim=True)) / 2


class Flagged(nn.Module):
    """One flag decides in two places, far apart."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x):
        long = x.shape[1] > 6
        y = self.a(x)
        if long:
            y = y * 0.5
        y = torch.tanh(y)
        y = self.b(y) if long else self.b(F.relu(y))
        return y + x


class Both(nn.Module):
    """Two branches that do not depend on each other."""

    def forward(self, x):
        if x.shape[1] > 4:
            x = x * 2
        x = torch.sigmoid(x)
        if x.shape[2] % 2 == 0:
            x = x + x.mean(2, keepdim=True)
        return x * 3


class Several(nn.Module):
    """A function with several results takes one of two ways."""

    def moments(self, x):
        if x.shape[1] > 5:
            return x.mean(1), x.amax(1)
        return x[:, 0], x.amin(1)

    def forward(self, x):
        mean, most = self.moments(x)
        return mean * most, mean - most


class ShiftIf(nn.Module):
    """Windows are shifted where there is more than one (Swin)."""

    window = 4

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 3)

    def forward(self, x):
        n, h, c = x.shape
        shift = 0 if h <= self.window else 2
        if shift:
            x = torch.roll(x, -shift, 1)
        x = self.fc(x.reshape(n, h // self.window, self.window, c).softmax(2)).reshape(n, h, c)
        if shift:
            x = torch.roll(x, shift, 1)
        return x


class Upsample(nn.Module):
    """At least so large."""

    def forward(self, x):
        if x.shape[-1] < 8:
            x = F.interpolate(x, size=8, mode="linear")
        return x.softmax(1)


class Ceil(nn.Module):
    """Sides in the mode of a pool that rounds up, cropped to what they were."""

    def forward(self, x):
        y = F.max_pool1d(x, 2, ceil_mode=True)
        y = F.interpolate(y, scale_factor=2.0)
        return y[..., : x.shape[-1]] if y.shape[-1] > x.shape[-1] else y


class Doubling(nn.Module):
    """A prefix sum in log2 of the length steps."""

    def forward(self, x):
        step = 1
        while step < x.shape[1]:
            x = x + F.pad(x, (0, 0, step, 0))[:, : x.shape[1]]
            step *= 2
        return x


class GhostNorm(nn.Module):
    """A norm of each part of a batch, whose number of parts is computed from the batch (TabNet)."""

    def __init__(self):
        super().__init__()
        self.norm = nn.InstanceNorm1d(5)

    def forward(self, x):
        return torch.cat([self.norm(part.t()).t() for part in x.chunk(math.ceil(x.shape[0] / 8), 0)])


class KeptMask(nn.Module):
    """A mask that is kept for the size of training, and made for every other one (SwinIR)."""

    own = (6, 6)

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(6, 6)
        self.register_buffer("mask", self.made(*self.own))

    def made(self, h, w):
        mask = torch.zeros(h, w)
        for place, rows in enumerate((slice(0, -3), slice(-3, -1), slice(-1, None))):
            mask[rows] = place
        return mask / 4

    def forward(self, x):
        size = x.shape[2], x.shape[3]
        mask = self.mask if size == self.own else self.made(*size).to(x.device)
        return F.relu(x * mask - 0.3) + self.linear(x.mean((2, 3)))[..., None, None]


class Joined(nn.Module):
    """A pad to a multiple that is zeros joined to the end (SuDoRM-RF)."""

    at_end = True

    def forward(self, x):
        more = x.shape[2] % 4
        if more:
            zeros = torch.zeros([*x.shape[:-1], 4 - more])
            x = torch.cat([x, zeros] if self.at_end else [zeros, x], dim=-1)
        return x.unflatten(2, (-1, 4)).softmax(2).flatten(2)


class JoinedBefore(Joined):
    """The same, joined to the beginning."""

    at_end = False


class KeptFromBefore(nn.Module):
    """Positions that an earlier forward has kept for its own length."""

    def __init__(self):
        super().__init__()
        self.kept = None
        self.forward(torch.zeros(1, 7, 4))

    def forward(self, x):
        if self.kept is None or self.kept.shape[0] != x.shape[1]:
            self.kept = torch.cos(torch.arange(x.shape[1], dtype=torch.float32)[:, None] * torch.ones(4))
        return x * self.kept


class TowardsZero(nn.Module):
    """Python's int() of a quotient goes towards 0, and // down."""

    def forward(self, x):
        return x + math.trunc((14 - x.shape[0]) / 2)


class OldState(nn.Module):
    """A first state as code of before torch 0.4 makes it: an empty tensor of a tensor's dtype, made larger."""

    def forward(self, x):
        h = x.data.new().resize_((x.size(0), 3)).fill_(0)
        return h + x[:, 1:], x.new().resize_(x.size(0), x.size(1)).zero_() - x


CASES = {
    "OldState": ("N,4", {"N": (1, 2, 4)}),
    "KeptMask": ("N,6,H,W", {"N": (1, 2, 3), "H": (5, 7, 9), "W": (5, 6, 7)}),
    "Windows": ("1,2,H,W", {"H": (5, 8, 13), "W": (6, 8, 9)}),
    "TowardsZero": ("N,3", {"N": (1, 4, 20)}),
    "Trimmed": ("N,2,S", {"N": (1, 2, 3), "S": (16, 21, 29)}),
    "PadIf": ("1,2,H,4", {"H": (4, 8, 13)}),
    "EvenSides": ("1,2,H,W", {"H": (4, 6, 9), "W": (4, 7, 9)}),
    "OddSides": ("1,2,H,W", {"H": (4, 6, 7), "W": (4, 4, 7)}),
    "Merging": ("1,H,4,2", {"H": (2, 4, 9)}),
    "Skip": ("1,2,H,6", {"H": (4, 8, 11)}),
    "SkipPad": ("1,2,H,6", {"H": (4, 8, 11)}),
    "Positions": ("2,T,4", {"T": (8, 16, 24)}),
    "Sinusoids": ("2,T,4", {"T": (4, 8, 16)}),
    "Short": ("1,2,T", {"T": (3, 9, 12)}),
    "Spectral": ("N,2,T", {"N": (1, 2, 3), "T": (7, 12, 20)}),
    "Multiples": ("1,2,H,W", {"H": (4, 8, 9), "W": (4, 8, 9)}),
    "Reflecting": ("1,2,T", {"T": (2, 9, 12)}),
    "Frames": ("1,1,T", {"T": (8, 16, 30)}),
    "Separator": ("1,2,T", {"T": (5, 16, 24)}),
    "TwoWays": ("2,T,4", {"T": (8, 12, 16)}),
    "Alibi": ("2,T,4", {"T": (4, 8, 12)}),
    "Relative": ("2,T,4", {"T": (2, 8, 12)}),
    "RelativeSlice": ("2,T,4", {"T": (2, 8, 12)}),
    "Last": ("2,T,4", {"T": (1, 4, 8)}),
    "PoolIf": ("1,2,H,4", {"H": (3, 6, 9)}),
    "Clipped": ("2,T,4", {"T": (4, 8, 14)}),
    "Causal": ("2,T,4", {"T": (1, 4, 8)}),
    "Wide": ("1,2,H,W", {"H": (3, 5, 8), "W": (3, 6, 8)}),
    "Sizes": ("2,T,4", {"T": (2, 6, 12)}),
    "Blocks": ("2,T,4", {"T": (4, 8, 12)}),
    "Levels": ("2,2,T", {"T": (8, 16, 24)}),
    "GhostNorm": ("N,5", {"N": (9, 12, 16)}),
    "Batch": ("N,5", {"N": (1, 2, 4)}),
    "Flagged": ("2,T,4", {"T": (3, 6, 9)}),
    "Both": ("1,T,K", {"T": (3, 4, 6), "K": (3, 4, 6)}),
    "Several": ("2,T,4", {"T": (3, 5, 8)}),
    "ShiftIf": ("2,4*H,3", {"H": (1, 2, 3)}),
    "Upsample": ("1,2,T", {"T": (4, 8, 12)}),
    "Ceil": ("1,2,T", {"T": (4, 8, 11)}),
    "Joined": ("2,2,T", {"T": (4, 6, 9)}),
    "JoinedBefore": ("2,2,T", {"T": (4, 6, 9)}),
    "KeptFromBefore": ("2,T,4", {"T": (2, 5, 9)}),
    "Doubling": ("2,T,3", {"T": (2, 4, 9)}),
}
