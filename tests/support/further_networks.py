"""Further wrong networks and right ones, in a line each, of kinds that the classes in ``wrong_networks`` do not have.

``WRONG`` and ``RIGHT`` map names to functions that give a spec and the arguments of :func:`trtdsl.check`.
"""

import math

import torch
from torch import nn
from torch.nn import functional as TF

import trtdsl as td
import trtdsl.functional as F

from .wrong_networks import Function, net, ref

WRONG, RIGHT = {}, {}


def register(networks):
    """A function that enters a network and a reference, each a function of the inputs."""

    def enter(name, ours, theirs, check=None, **inputs):
        assert name not in networks, name
        networks[name] = lambda: net(ours, theirs if isinstance(theirs, type) else ref(theirs), check, **inputs)

    return enter


wrong, right = register(WRONG), register(RIGHT)


def seeded(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def ints(shape, low, high):
    return td.Input(shape, "int64", sample=(low, high))


N, T = td.Dim("N", min=1, opt=4, max=16), td.Dim("T", min=2, opt=16, max=40)
H, W = td.Dim("H", min=8, opt=32, max=64), td.Dim("W", min=8, opt=32, max=64)
WEIGHT = seeded(64, 64) / 8
KERNEL = seeded(6, 4, 3, 3) / 6
UNEVEN = seeded(6, 4, 3, 5) / 6
TAPS = seeded(4, 1, 3, 3)

# -- convolutions ------------------------------------------------------------------------------------------------------
wrong("a kernel is flipped", lambda x: F.conv2d(x, KERNEL.flip(-1)), lambda x: TF.conv2d(x, KERNEL), x=(N, 4, 9, 9))
wrong(
    "height and width of a kernel are swapped",
    lambda x: F.conv2d(x, UNEVEN.transpose(2, 3).contiguous(), padding=(2, 1)),
    lambda x: TF.conv2d(x, UNEVEN, padding=(1, 2)),
    x=(1, 4, 9, 9),
)
wrong(
    "correlation for a transposed convolution",
    lambda x: F.conv2d(x, TAPS.expand(4, 4, 3, 3).contiguous(), padding=1),
    lambda x: TF.conv_transpose2d(x, TAPS.expand(4, 4, 3, 3), padding=1),
    x=(1, 4, 9, 9),
)
wrong(
    "padding before and after swapped",
    lambda x: F.conv2d(F.pad(x, (1, 0, 1, 0)), KERNEL),
    lambda x: TF.conv2d(TF.pad(x, (0, 1, 0, 1)), KERNEL),
    x=(1, 4, 9, 9),
)
wrong(
    "dilation for stride",
    lambda x: F.conv1d(x, KERNEL[:, :, 0], padding=1, stride=1)[:, :, ::2],
    lambda x: TF.conv1d(x, KERNEL[:, :, 0], padding=2, dilation=2)[:, :, ::2],
    x=(1, 4, 16),
)
wrong(
    "groups interleaved",
    lambda x: F.conv2d(F.channel_shuffle(x, 2), TAPS, groups=4),
    lambda x: TF.conv2d(x, TAPS, groups=4),
    x=(1, 4, 9, 9),
)
wrong(
    "one group's bias",
    lambda x: F.conv2d(x, TAPS, torch.tensor([0.0, 0, 0, 1e-5]), groups=4),
    lambda x: TF.conv2d(x, TAPS, groups=4),
    x=(1, 4, 9, 9),
)
# -- pooling, resizing and sampling ------------------------------------------------------------------------------------
wrong(
    "padding counts in an average",
    lambda x: F.avg_pool2d(x, 3, 2, 1),
    lambda x: TF.avg_pool2d(x, 3, 2, 1, count_include_pad=False),
    x=(1, 2, H, W),
)
wrong(
    "a window of an adaptive pooling",
    lambda x: F.avg_pool2d(x, 2),
    lambda x: TF.adaptive_avg_pool2d(x, (x.shape[2] // 2, x.shape[3] // 2)),
    x=(1, 2, H, W),
)
wrong(
    "align_corners",
    lambda x: F.interpolate(x, size=(17, 17), mode="bilinear", align_corners=True),
    lambda x: TF.interpolate(x, size=(17, 17), mode="bilinear"),
    x=(1, 2, 9, 9),
)
wrong(
    "x and y of a grid",
    lambda x, g: F.grid_sample(x, g.flip(-1), align_corners=False),
    lambda x, g: TF.grid_sample(x, g, align_corners=False),
    x=(1, 2, 9, 9),
    g=(1, 6, 6, 2),
)
wrong(
    "a grid outside of the image",
    lambda x, g: F.grid_sample(x, g, padding_mode="border", align_corners=False),
    lambda x, g: TF.grid_sample(x, g, align_corners=False),
    x=(1, 2, 9, 9),
    g=td.Input((1, 6, 6, 2), sample=(-1.2, 1.2)),
)
wrong(
    "nearest by another rule",
    lambda x: F.interpolate(x, size=(7, 7), mode="nearest-exact"),
    lambda x: TF.interpolate(x, size=(7, 7), mode="nearest"),
    x=(1, 2, 10, 10),
)
wrong(
    "pixel shuffle by columns",
    lambda x: F.pixel_shuffle(x, 2).transpose(2, 3),
    lambda x: TF.pixel_shuffle(x, 2),
    x=(1, 4, 5, 5),
)
# -- sequences ---------------------------------------------------------------------------------------------------------
wrong("a sum that leaves itself out", lambda x: F.cumsum(x, 1) - x, lambda x: x.cumsum(1), x=(2, T))
wrong("reversed in time", lambda x: F.cumsum(x.flip(1), 1), lambda x: x.flip(1).cumsum(1).flip(1), x=(2, T))
wrong(
    "the second half by another position",
    lambda x: x + F.sin(F.arange(x.shape[1], device=None).to(torch.float32) * 0.1),
    lambda x: x + torch.sin((torch.arange(x.shape[1]) % 37) * 0.1),
    x=(2, T),
)
wrong(
    "rotary halves for pairs",
    lambda x: F.cat([-x[:, 4:], x[:, :4]], 1),
    lambda x: torch.stack([-x[:, 1::2], x[:, ::2]], -1).flatten(1),
    x=(N, 8),
)
wrong(
    "causal attention that sees one more",
    lambda x: F.scaled_dot_product_attention(x, x, x, attn_mask=F.ones((6, 6), dtype=torch.bool).tril(1)),
    lambda x: TF.scaled_dot_product_attention(x, x, x, is_causal=True),
    x=(1, 2, 6, 8),
)
wrong(
    "keys and values swapped",
    lambda x: F.scaled_dot_product_attention(x, x * 2, x),
    lambda x: TF.scaled_dot_product_attention(x, x, x * 2),
    x=(1, 2, 6, 8),
)
wrong(
    "heads before tokens",
    lambda x: x.reshape(1, 2, 6, 4).transpose(1, 2).reshape(1, 6, 8),
    lambda x: x.reshape(1, 6, 2, 4).flip(2).reshape(1, 6, 8),
    x=(1, 6, 8),
)
# -- reductions and norms ----------------------------------------------------------------------------------------------
wrong(
    "a norm over one axis too many",
    lambda x: F.layer_norm(x, (6, 8)),
    lambda x: TF.layer_norm(x, (8,)),
    x=(N, 6, 8),
)
wrong(
    "the mean of a mean",
    lambda x, m: (x * m).mean(1),
    lambda x, m: (x * m).sum(1) / m.sum(1).clamp(min=1),
    x=(N, 8),
    m=td.Input((N, 8), sample=lambda shape, generator: (torch.rand(shape, generator=generator) > 0.3).float()),
)
wrong("epsilon of a batch norm", lambda x: x / math.sqrt(1 + 1e-3), lambda x: x / math.sqrt(1 + 1e-5), x=(N, 8))
wrong("the least for the greatest", lambda x: F.amin(x, 1), lambda x: x.amax(1), x=(N, td.Dim("K", min=1, max=3)))
wrong("median of the upper middle", lambda x: F.sort(x, 1)[0][:, 2], lambda x: x.median(1).values, x=(N, 4))
wrong("the norm of the first", lambda x: F.vector_norm(x, ord=1, dim=1), lambda x: x.norm(dim=1), x=(N, 8))
wrong("log of base 2", lambda x: F.log1p(x.abs()), lambda x: torch.log2(1 + x.abs()), x=(N, 8))
# -- indices and ties --------------------------------------------------------------------------------------------------
wrong("ties from the end", lambda x: F.topk(x, 3, 1)[1].flip(1), lambda x: x.topk(3, 1).indices, x=(N, 20))
wrong("the least of three first", lambda x: F.topk(x, 3, 1)[0], lambda x: x.topk(3, 1).values.flip(1), x=(N, 9))
wrong(
    "a scatter that keeps the last",
    lambda i, x: F.zeros((1, 10)).scatter(1, i, x),
    lambda i, x: torch.zeros(1, 10).scatter_add(1, i, x),
    i=ints((1, 8), 0, 9),
    x=(1, 8),
)
wrong("an index of the wrong axis", lambda x: x[:, :, 0], lambda x: x[:, 0], x=(N, 6, 6))
wrong("one past the start", lambda x: F.roll(x, 1, 1), lambda x: torch.roll(x, -1, 1), x=(N, T))
wrong(
    "negative indices clamped",
    lambda x, i: F.gather(x, 1, F.clamp(i, min=0)),
    lambda x, i: x.gather(1, i % 8),
    x=(4, 8),
    i=ints((4, 3), -8, 7),
)
# -- integers and comparisons ------------------------------------------------------------------------------------------
wrong("at least for more than", lambda x: (x >= 0).to(torch.float32), lambda x: (x > 0).float(), x=(N, 16))
wrong("round half up", lambda x: F.floor(x + 0.5), lambda x: torch.round(x), x=(N, 64))
wrong("truncated for floored", lambda x: F.trunc(x), lambda x: torch.floor(x), x=(N, 64))
wrong("the sign of zero", lambda x: F.where(x < 0, -1.0, 1.0), lambda x: torch.sign(x), x=(N, 64))
wrong(
    "saturated, not wrapped", lambda i: F.clamp(i, max=127), lambda i: i.to(torch.int8).long(), i=ints((4, 64), 0, 300)
)
wrong(
    "quantized to one level less",
    lambda x: F.clamp(F.round(x * 10), -127, 127) / 10,
    lambda x: torch.clamp(torch.round(x * 10), -128, 127) / 10,
    x=(N, 256),
)
# -- what depends on the batch, on itself, on nothing ------------------------------------------------------------------
wrong("the first sample's mean", lambda x: x - x[:1].mean(), lambda x: x - x.mean((1,), keepdim=True), x=(N, 8))
M = td.Dim("M", min=2, max=9)
wrong("the last sample left as it is", lambda x: F.cat([x[:-1] * 2, x[-1:]], 0), lambda x: x * 2, x=(M, 8))
wrong(
    "the seventh sample is another",
    lambda x: x * 2.0,
    lambda x: torch.cat([x[:6] * 2, x[6:] * 2.0002], 0),
    x=(N, 8),
)
wrong(
    "one sample of a batch is off by 2e-5",
    lambda x: F.linear(x, WEIGHT),
    lambda x: torch.cat([TF.linear(x[:11], WEIGHT), TF.linear(x[11:], WEIGHT) * 1.00002], 0),
    x=(N, 64),
)
wrong(
    "one channel of a great batch is off by 2e-5",
    lambda x: F.linear(x, WEIGHT),
    lambda x: TF.linear(x, WEIGHT) * torch.cat([torch.ones(63), torch.tensor([1.00002 if x.shape[0] > 4 else 1.0])]),
    x=(N, 64),
)
wrong("a product of sizes", lambda x: x.sum((1, 2)) / 64.0, lambda x: x.mean((1, 2)), x=(N, 8, H))
wrong(
    "the wrong output of two",
    lambda x: {"best": F.max(x, 1)[0], "at": F.argmin(x, 1)},
    lambda x: {"best": x.max(1).values, "at": x.argmax(1)},
    x=(N, 8),
)
wrong("a scalar of the wrong sign", lambda x: -x.mean().abs(), lambda x: x.mean().abs(), x=(N, 8))
wrong("a conjugated pair", lambda x: F.stack([x, -(x * 2)], -1), lambda x: torch.stack([x, x * 2], -1), x=(N, 8))
wrong(
    "integers beyond 2**24 through float32",
    lambda i: i.to(torch.float32).to(torch.int64),
    lambda i: i * 1,
    i=ints((64,), 16777000, 16780000),
)


class Noisy(nn.Module):
    """A module in training mode: it drops half of its values."""

    def forward(self, x):
        return TF.dropout(x, 0.5, training=True)


wrong("a reference in training", lambda x: x * 1.0, Noisy, x=(N, 64))


# -- right -------------------------------------------------------------------------------------------------------------


class Deep(nn.Module):
    """Forty residual layers with attention: float32's own error adds up."""

    def __init__(self):
        super().__init__()
        self.function = Function(self.run)

    def run(self, x):
        for _ in range(20):
            x = x + TF.scaled_dot_product_attention(x, x, x)
            x = TF.layer_norm(x + TF.gelu(TF.linear(x, WEIGHT)), (64,))
        return x

    def forward(self, x):
        return self.run(x)


def deep(x):
    for _ in range(20):
        x = x + F.scaled_dot_product_attention(x, x, x)
        x = F.layer_norm(x + F.gelu(F.linear(x, WEIGHT)), (64,))
    return x


GREAT = torch.finfo(torch.float32).min
right("forty layers", deep, Deep, x=(1, 2, T, 64))
right(
    "a mask of the least number",
    lambda x, m: F.softmax(F.where(m, x, GREAT), -1),
    lambda x, m: torch.softmax(torch.where(m, x, GREAT), -1),
    x=(N, 20),
    m=td.Input((N, 20), "bool"),
)
right(
    "logits with a mask of -1e9 inside",
    lambda x, m: F.linear(x, WEIGHT) + F.where(m, 0.0, -1e9),
    lambda x, m: TF.linear(x, WEIGHT) + torch.where(m, 0.0, -1e9),
    x=(N, 64),
    m=td.Input((N, 64), "bool"),
)
right("integers", lambda i: i * 3 - i // 2, lambda i: i * 3 - i // 2, i=ints((N, 8), -99, 99))
right("bool", lambda x: x > 0.5, lambda x: x > 0.5, x=(N, 8))
right(
    "an empty output that is allowed",
    lambda x: {"y": x * 2, "none": x[:, :0]},
    lambda x: {"y": x * 2, "none": x[:, :0]},
    {"trivial": ("none",)},
    x=(N, 8),
)
right(
    "a constant that is allowed",
    lambda x: {"y": x * 2, "one": F.ones((3,))},
    lambda x: {"y": x * 2, "one": torch.ones(3)},
    {"trivial": ("one",)},
    x=(N, 8),
)
right("cancellation", lambda x: (x + 1000.0) - 1000.0, lambda x: (x + 1000.0) - 1000.0, x=(N, 64))
right("a great sum", lambda x: x.sum((1, 2)), lambda x: x.sum((1, 2)), x=(N, 64, H))
right(
    "a norm of nearly equal values",
    lambda x: F.layer_norm(x * 1e-2 + 5.0, (32,)),
    lambda x: TF.layer_norm(x * 1e-2 + 5.0, (32,)),
    x=(N, 32),
)
right(
    "a norm of values that differ in their last digits",
    lambda x: F.layer_norm(x * 1e-4 + 5.0, (32,)),
    lambda x: TF.layer_norm(x * 1e-4 + 5.0, (32,)),
    x=(N, 32),
)
right("exponentials of every size", lambda x: F.exp(x * 20), lambda x: torch.exp(x * 20), x=(N, 32))
right("infinities", lambda x: 1 / F.relu(x), lambda x: 1 / TF.relu(x), x=(N, 32))
right("division with a rest", lambda x: (x // 0.1, x % 0.1), lambda x: (x // 0.1, x % 0.1), x=(N, 32))
right("a scalar", lambda x: x.mean(), lambda x: x.mean(), x=(N, 32))
right(
    "batch statistics",
    lambda x: (x - x.mean(0, keepdim=True)) / F.sqrt(F.var(x, 0, correction=0, keepdim=True) + 1e-5),
    lambda x: TF.batch_norm(x, None, None, training=True),
    x=(td.Dim("B", min=3, opt=8, max=32), 16),
)
right(
    "a convolution of a great batch",
    lambda x: F.conv2d(F.relu(F.conv2d(x, KERNEL, padding=1)), KERNEL.permute(1, 0, 2, 3).contiguous()),
    lambda x: TF.conv2d(TF.relu(TF.conv2d(x, KERNEL, padding=1)), KERNEL.permute(1, 0, 2, 3)),
    x=(N, 4, 20, 20),
)
right(
    "half precision, deep",
    lambda x: F.linear(F.gelu(F.linear(F.layer_norm(F.linear(x, WEIGHT), (64,)), WEIGHT)), WEIGHT),
    lambda x: TF.linear(TF.gelu(TF.linear(TF.layer_norm(TF.linear(x, WEIGHT), (64,)), WEIGHT)), WEIGHT),
    {"precision": "fp16"},
    x=(N, 64),
)
right("what ties give", lambda x: F.argmax(F.round(x), 1), lambda x: torch.round(x).argmax(1), x=(N, 20))
