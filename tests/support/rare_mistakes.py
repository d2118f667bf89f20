"""Mistakes that few people make: of sizes that agree by chance, of weights that an exchange leaves as they are."""

import math

import torch

import trtdsl as td

from .mistakes import IMAGE, MISTAKES, TOKENS, H, N, T, W, draw, group, ints

__all__ = ["MISTAKES"]  # those of every day, and these

P = td.Dim("P", min=1, opt=3, max=7)
PAST = {"q": (N, T, 8), "k": (N, P, 8)}
EYE, ROWS = torch.eye(8), torch.arange(1.0, 9.0).log().repeat(6, 1)
KERNEL = torch.zeros(4, 4, 3, 3)
KERNEL[range(4), range(4), 1, 1] = 1.0
rare = group("rare")


def seen(f, q, k, past):
    """Attention of the last tokens to what came before and to themselves; ``past`` is where the first one stands."""
    keys = f.cat([k, q], 1)
    scores = f.matmul(q, keys.transpose(1, 2))
    later = f.arange(keys.shape[1]) > f.arange(q.shape[1])[:, None] + past
    return f.matmul(f.softmax(f.where(later, -float("inf"), scores), -1), keys)


def merged(f, x, order):
    """Patches of 2 × 2 side by side, in an order."""
    return f.cat([x[:, :, a::2, b::2] for a, b in order], 1)


def scanned(f, a, x, last=True):
    """A gated sum from the last step to the first."""
    found = f.cumsum(f.flip(x * a, (1,)), 1)
    return f.flip(found, (1,)) if last else found


rare(
    "a causal mask with past, one early",
    lambda f, q, k: seen(f, q, k, k.shape[1]),
    lambda f, q, k: seen(f, q, k, k.shape[1] - 1),
    **PAST,
)
rare(
    "a causal mask without its past",
    lambda f, q, k: seen(f, q, k, k.shape[1]),
    lambda f, q, k: seen(f, q, k, 1),
    **PAST,
)
rare(
    "the strides of a rectangular pooling",
    lambda f, x: f.avg_pool2d(x, (2, 3), (1, 2))[..., :2, :2],
    lambda f, x: f.avg_pool2d(x, (2, 3), (2, 1))[..., :2, :2],
    **IMAGE,
)
rare(
    "the dilations of a rectangular kernel",
    lambda f, x: f.max_pool2d(x, 2, 1, 0, (1, 2))[..., :3, :3],
    lambda f, x: f.max_pool2d(x, 2, 1, 0, (2, 1))[..., :3, :3],
    **IMAGE,
)
rare(
    "corners aligned in one direction of two",
    lambda f, x: f.interpolate(x, (9, 9), mode="bilinear"),
    lambda f, x: f.interpolate(
        f.interpolate(x, (9, x.shape[3]), mode="bilinear"), (9, 9), mode="bilinear", align_corners=True
    ),
    **IMAGE,
)
rare(
    "a reversed scan that is not turned back",
    lambda f, x: scanned(f, 0.5, x),
    lambda f, x: scanned(f, 0.5, x, False),
    **TOKENS,
)
rare(
    "a middle that is rounded to even",
    lambda f, x: x[:, int(x.shape[1]) // 2] if isinstance(x, torch.Tensor) else x[:, x.shape[1] // 2],
    lambda f, x: x[:, (x.shape[1] - 1) // 2],
    **TOKENS,
)
rare(
    "half a length rolled the other way",
    lambda f, x: f.roll(x, x.shape[1] // 2, 1),
    lambda f, x: f.roll(x, -(x.shape[1] // 2), 1),
    **TOKENS,
)
rare(
    "a spectrum shifted back for forth",
    lambda f, x: f.fftshift(x, dim=1) if not isinstance(x, torch.Tensor) else torch.fft.fftshift(x, dim=1),
    lambda f, x: f.ifftshift(x, dim=1),
    **TOKENS,
)
rare(
    "an average of integers rounded up",
    lambda f, a, b: (a + b) // 2,
    lambda f, a, b: (a + b + 1) // 2,
    a=ints((N, 6), -9, 9),
    b=ints((N, 6), -9, 9),
)
rare(
    "a shift for a division of negatives",
    lambda f, x: f.div(x, 4, rounding_mode="trunc"),
    lambda f, x: x // 4,
    x=ints((N, 6), -99, 99),
)
rare(
    "a quotient of integers by way of floats",
    lambda f, x: x // 3,
    lambda f, x: (x / 3).round().long(),
    x=ints((N, 6), 0, 99),
)
rare(
    "an integer and a mask multiplied before they are halved",
    lambda f, x, m: x * m / 2,
    lambda f, x, m: (x // 2) * m * 1.0,
    x=ints((N, 6), 0, 9),
    m=td.Input((N, 6), "bool"),
)
rare("dropout's scale", lambda f, x: f.dropout(x, 0.1, training=False), lambda f, x: x * 0.9, **TOKENS)
rare(
    "an epsilon beside the variance's root",
    lambda f, x: x / (x.var(1, correction=0, keepdim=True) + 1e-5).sqrt(),
    lambda f, x: x / (x.var(1, correction=0, keepdim=True).sqrt() + 1e-5),
    **TOKENS,
)
rare(
    "patches merged by columns first",
    lambda f, x: merged(f, x, [(0, 0), (1, 0), (0, 1), (1, 1)]),
    lambda f, x: merged(f, x, [(0, 0), (0, 1), (1, 0), (1, 1)]),
    x=(N, 4, 8, 8),
)
rare(
    "an average of overlaps for their sum",
    lambda f, x: f.fold(x, (4, 4), 3),
    lambda f, x: f.fold(x, (4, 4), 3) / f.fold(f.ones_like(x), (4, 4), 3),
    x=(N, 18, 4),
)
rare(
    "a transform's norm",
    lambda f, x: abs(torch.fft.rfft(x, norm="ortho") if isinstance(x, torch.Tensor) else f.rfft(x, norm="ortho")),
    lambda f, x: abs(f.rfft(x)),
    x=(N, 16),
)
rare(
    "a product with a square weight turned, fresh as the identity",
    lambda f, x, w: f.linear(x, w.w),
    lambda f, x, w: f.matmul(x, w.w),
    {"w": EYE},
    **TOKENS,
)
rare(
    "a kernel turned, fresh as the identity",
    lambda f, x, w: f.conv2d(x, w.w, padding=1),
    lambda f, x, w: f.conv2d(x, w.w.transpose(2, 3), padding=1),
    {"w": KERNEL},
    **IMAGE,
)
rare(
    "a kernel of the other channels, fresh as the identity",
    lambda f, x, w: f.conv2d(x, w.w, padding=1),
    lambda f, x, w: f.conv2d(x, w.w.transpose(0, 1), padding=1),
    {"w": KERNEL},
    **IMAGE,
)
rare(
    "the first row of a state's decays for all",
    lambda f, x, w: x[:, :, :6, None] * (-w.a.exp()).exp(),
    lambda f, x, w: x[:, :, :6, None] * (-w.a[:1].exp()).exp(),
    {"a": ROWS},
    **TOKENS,
)
rare(
    "a graph's neighbours turned",
    lambda f, x, w: f.matmul(w.a, x[:, :2]),
    lambda f, x, w: f.matmul(w.a.transpose(0, 1), x[:, :2]),
    {"a": torch.tensor([[0.5, 0.25], [0.25, 0.5]])},
    **TOKENS,
)
rare(
    "the other axis of a square map",
    lambda f, x: x - x.mean(2, keepdim=True),
    lambda f, x: x - x.mean(3, keepdim=True),
    x=(N, 4, 6, 6),
)
rare(
    "a bias that is taken twice by a residual",
    lambda f, x, w: x + f.linear(x, w.w, w.b),
    lambda f, x, w: x + w.b + f.linear(x, w.w, w.b),
    {"w": draw(8, 8), "b": torch.zeros(8)},
    **TOKENS,
)
rare(
    "keys that are masked with the least float",
    lambda f, x, m: f.softmax(f.where(m, x, -float("inf")), -1),
    lambda f, x, m: f.softmax(f.where(m, x, -3e4), -1),
    x=(N, 8),
    m=td.Input((N, 8), "bool"),
)
rare("the sign of a zero", lambda f, x: f.atan2(x * 0, x - 1), lambda f, x: f.atan2(abs(x) * 0, x - 1), **TOKENS)
rare(
    "lengths that are one to high",
    lambda f, x, n: x * (f.arange(x.shape[1]) < n[:, None])[..., None],
    lambda f, x, n: x * (f.arange(x.shape[1]) <= f.clamp(n, max=5)[:, None])[..., None],
    x=(N, 6, 4),
    n=ints((N,), 0, 7),
)
rare(
    "a mean over what is there, of none",
    lambda f, x, m: (x * m).sum(1) / f.clamp(m.sum(1), min=1),
    lambda f, x, m: (x * m).sum(1) / (m.sum(1) + 1e-7),
    x=(N, 8),
    m=td.Input((N, 8), "bool"),
)
rare(
    "a beta of the smooth loss",
    lambda f, x: f.where(abs(x) < 1, 0.5 * x * x, abs(x) - 0.5),
    lambda f, x: f.where(abs(x) < 0.5, x * x, abs(x) - 0.25),
    **TOKENS,
)
rare(
    "a scale by the square root of a size",
    lambda f, x: x / math.sqrt(8) * f.ones((x.shape[1], 1)),
    lambda f, x: x * f.ones((x.shape[1], 1)) / (f.ones((x.shape[1], 1)) * x.shape[1] ** 0.5),
    **TOKENS,
)
rare("a window of the range's end", lambda f, x: x[:, :, -3:, -2:], lambda f, x: x[:, :, 2:5, 3:5], x=(N, 4, H, W))
