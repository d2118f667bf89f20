"""Right networks whose results rounding moves far: each a function of a namespace and the inputs, on both sides."""

import trtdsl as td

from .mistakes import Mistake, draw

N, T = td.Dim("N", min=1, opt=2, max=5), td.Dim("T", min=2, opt=6, max=40)
DELICATE: list[Mistake] = []


def delicate(name, right, precision=None, **inputs):
    DELICATE.append(Mistake("delicate", name, right, right, inputs, precision=precision))


def blocks(f, x, count, size=16):
    for place in range(count):
        x = x + f.linear(f.gelu(f.linear(f.layer_norm(x, [size]), draw(size, size, seed=place))), draw(size, size)) / 4
    return x


def attended(f, x, scale):
    q, k, v = (f.linear(x, draw(16, 16, seed=seed)) for seed in range(3))
    return f.matmul(f.softmax(f.matmul(q, k.transpose(-1, -2)) * scale, -1), v)


def masked(f, x, hidden):
    scores = f.matmul(x, x.transpose(-1, -2))
    later = f.arange(x.shape[1]) > f.arange(x.shape[1])[:, None]
    return f.matmul(f.softmax(f.where(later, hidden, scores), -1), x)


def recurrent(f, x):
    state = x[:, 0]
    for place in range(x.shape[1]):
        state = f.tanh(f.linear(state, draw(16, 16, seed=1)) + x[:, place])
    return state


def turned(f, x):
    angles = f.arange(x.shape[1])[:, None] * 10000.0 ** -(f.arange(8) / 8)
    a, b = x[..., :8], x[..., 8:]
    return f.cat([a * angles.cos() - b * angles.sin(), b * angles.cos() + a * angles.sin()], -1)


for half in (None, "fp16", "bf16"):
    of = f" {half}" * bool(half)
    X, LONG, IMAGE = {"x": (N, T, 16)}, {"x": (1, 16384)}, {"x": (N, 4, 16, 16)}
    delicate("a cumulative sum of 16,384" + of, lambda f, x: x.cumsum(1), half, **LONG)
    delicate("a sum of 16,384" + of, lambda f, x: x.sum(1), half, **LONG)
    delicate("a mean of 16,384" + of, lambda f, x: x.mean(1), half, **LONG)
    delicate("a sharp softmax" + of, lambda f, x: f.softmax(f.linear(x, draw(16, 16)) / 0.05, -1), half, **X)
    delicate("a cosine distance" + of, lambda f, x: 1 - f.cosine_similarity(x, x + 1e-3, dim=-1), half, **X)
    delicate("two blocks" + of, lambda f, x: blocks(f, x, 2), half, **X)
    delicate("forty blocks" + of, lambda f, x: blocks(f, x, 40), half, **X)
    delicate("attention" + of, lambda f, x: attended(f, x, 0.25), half, **X)
    delicate("attention of great scores" + of, lambda f, x: attended(f, x, 4.0), half, **X)
    delicate("attention twice" + of, lambda f, x: attended(f, attended(f, x, 0.25), 0.25), half, **X)
    delicate("a mask of -1e9" + of, lambda f, x: masked(f, x, -1e9), half, **X)
    delicate("a mask of -inf" + of, lambda f, x: masked(f, x, -float("inf")), half, **X)
    delicate("rotated positions" + of, turned, half, **X)
    delicate("a group norm of few" + of, lambda f, x: f.group_norm(x, 2), half, x=(N, 4, 2, 2))
    delicate("a layer norm of equal values" + of, lambda f, x: f.layer_norm(x * 0 + 3 + 1e-3 * x, [16]), half, **X)
    delicate("a resize" + of, lambda f, x: f.interpolate(x, scale_factor=1.7, mode="bilinear"), half, **IMAGE)
    delicate("a cubic resize" + of, lambda f, x: f.interpolate(x, (23, 9), mode="bicubic"), half, **IMAGE)
    delicate("recurrence" + of, recurrent, half, x=(N, 30, 16))
    delicate("a logarithm of a softmax" + of, lambda f, x: f.log_softmax(x * 9, -1), half, **X)
    delicate("a determinant's products" + of, lambda f, x: f.matmul(x, x.transpose(1, 2)).prod(-1), half, **X)
    delicate("a sorted sum" + of, lambda f, x: f.linear(x, draw(16, 16)).sort(-1).values.cumsum(-1), half, **X)
    delicate("powers" + of, lambda f, x: (x.abs() + 0.1) ** 3.7, half, **X)
    delicate("a norm of products" + of, lambda f, x: f.normalize(f.matmul(x, draw(16, 16)), dim=-1), half, **X)
    delicate("sines of great angles" + of, lambda f, x: f.sin(x * 100), half, **X)
