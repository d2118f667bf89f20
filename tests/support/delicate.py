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


def contrasted(f, x, temperature):
    a, b = f.normalize(f.linear(x, draw(16, 16)), dim=-1), f.normalize(f.linear(x, draw(16, 16, seed=1)), dim=-1)
    return f.log_softmax(f.matmul(a, b.transpose(1, 2)) / temperature, -1)


def balanced(f, x, rounds=20):
    for _ in range(rounds):
        x = x - f.logsumexp(x, -1, keepdim=True)
        x = x - f.logsumexp(x, -2, keepdim=True)
    return x.exp()


def orthogonal(f, x, rounds=8):
    x = x / (x * x).sum((1, 2), keepdim=True).sqrt()
    for _ in range(rounds):
        x = 1.5 * x - 0.5 * f.matmul(f.matmul(x, x.transpose(1, 2)), x)
    return x


def iterated(f, x, rounds=30):
    vector = f.ones_like(x[:, :, :1])
    for _ in range(rounds):
        vector = f.normalize(f.matmul(x, vector), dim=1)
    return vector


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
    delicate("a balanced transport" + of, lambda f, x: balanced(f, x / 0.1), half, x=(N, 6, 6))
    delicate("an orthogonal factor" + of, orthogonal, half, x=(N, 6, 6))
    delicate("a power iteration" + of, lambda f, x: iterated(f, f.matmul(x, x.transpose(1, 2))), half, x=(N, 6, 6))
    delicate("a variance far from zero" + of, lambda f, x: (x + 1000).var(-1), half, **X)
    delicate("a distance of near ones" + of, lambda f, x: (x - (x * 1.001)).norm(dim=-1), half, **X)
    delicate("a logarithm of sums of sharp exponentials" + of, lambda f, x: f.logcumsumexp(x * 20, 1), half, **X)
    delicate("a long product" + of, lambda f, x: (1 + 0.01 * x).cumprod(1), half, x=(1, 2048))
    delicate(
        "a norm of a small variance" + of, lambda f, x: f.layer_norm(f.layer_norm(x * 1e-4, [16]), [16]), half, **X
    )
    delicate("a long decay" + of, lambda f, x: recurrent(f, f.cat([x] * 3, 1)), half, x=(N, 25, 16))
    delicate("a contrast of views" + of, lambda f, x: contrasted(f, x, 0.01), half, x=(N, T, 16))
