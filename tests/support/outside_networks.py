"""Wrong networks by someone who had not read how a check judges, each beside its right twin.

Their mistakes can be decided: some input of the declared ranges shows them, in exact arithmetic or, of quality, in
float32.
"""

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
import torch.nn.functional as torch_functional
from torch import nn

import trtdsl as td
import trtdsl.functional as TF


class Torch:
    """torch's functions by one name."""

    def __getattr__(self, name):
        of_functional = name != "arange" and hasattr(torch_functional, name)
        return getattr(torch_functional if of_functional else torch, name)


TT = Torch()


@dataclass
class Network:
    kind: str
    name: str
    inputs: dict
    reference: type
    right: Callable
    wrong: Callable
    weights: dict | None = None
    options: dict = field(default_factory=dict)

    def check(self, function, **how):
        with_weights = self.weights is not None

        def network(*given):
            return function(*given[-1:], *given[:-1]) if with_weights else function(*given)

        weights = (
            {"weights": {name: value.clone() for name, value in (self.weights or {}).items()}} if with_weights else {}
        )
        made = td.network(inputs=self.inputs, reference=self.reference, name="network", **weights, **self.options)
        return td.check(made(network), **how)


NETWORKS: list[Network] = []


def both(kind, name, inputs, right, wrong, modules=None, **options):
    """A function of torch's functions or trtdsl's, and of weights if ``modules`` makes some."""

    class Reference(nn.Module):
        def __init__(self):
            super().__init__()
            if modules is not None:
                modules(self)

        def forward(self, *values):
            return right(TT, *([self] if modules is not None else []), *values)

    case(
        kind,
        name,
        inputs,
        Reference,
        lambda bad, *given: (wrong if bad else right)(TF, *given),
        modules is not None,
        **options,
    )


def case(kind, name, inputs, reference, net, weights=False, **options):
    """A module, and a network that is told whether it shall be wrong."""
    torch.manual_seed(1)
    held = reference().eval().state_dict() if weights else None
    twins = (lambda *given: net(False, *given)), (lambda *given: net(True, *given))
    NETWORKS.append(Network(kind, name, inputs, reference, *twins, held, options))


def dim(name, lo, opt, hi):
    return td.Dim(name, min=lo, opt=opt, max=hi)


def floats(*shape, sample=None):
    return td.Input(shape, sample=sample)


def ints(high, *shape, lo=0):
    return td.Input(shape, "int64", sample=(lo, high))


def bools(*shape):
    return td.Input(shape, "bool")


N, N2, T, T4, H, W = (
    dim("N", 1, 4, 8),
    dim("N", 2, 4, 8),
    dim("T", 1, 8, 32),
    dim("T", 4, 8, 32),
    dim("H", 8, 12, 24),
    dim("W", 8, 12, 24),
)


def sliding(b, x):
    i = TF.arange(x.shape[1])
    ok = (i[:, None] - i[None] < (8 if b else 7)) & (i[:, None] >= i[None])
    return TF.softmax((x @ x.mT).masked_fill(~ok, float("-inf")), -1) @ x


def fewframes(b, x):
    p = TF.cat([x, x[:, :1] if b else x[:, -1:], x[:, -1:]], 1)
    t = x.shape[1]
    m = td.size_max(t, 3)
    return p[:, 2:m].mean(1) + x[:, 0]


def torch_const(F, x, v):
    import torch as t

    return t.tensor(v) if F is TT else x.network.constant(t.tensor(v))


def masked_std(F, b, x, m):
    n = m.sum(1, keepdim=True)
    mean = F.where(m, x, x * 0).sum(1, keepdim=True) / n.clamp(min=1)
    var = F.where(m, (x - mean) ** 2, x * 0).sum(1, keepdim=True)
    return (var / (n - 1).clamp(min=1)).sqrt() if not b else (var / F.where(n > 2, n - 1, n)).sqrt()


def tc(F, x, v, dtype=torch.float32):
    return torch.tensor(v, dtype=dtype) if F is TT else x.network.constant(torch.tensor(v, dtype=dtype))


def nucleus(F, b, x):
    p, _ = F.softmax(x, 1).sort(1, descending=True)
    c = p.cumsum(1)
    keep = c - p <= 0.5 if not b else c - p < 0.5
    return F.where(keep, p, p * 0).sum(1)


def ctc(F, b, x):
    i = x.argmax(2)
    same = F.cat([i[:, :1] * 0, (i[:, 1:] == i[:, :-1]).long()], 1)
    keep = (i != 0) & (same == 0)
    return (
        keep.sum(1)
        if not b
        else ((i != 0).long() * (1 - F.cat([i[:, :1] * 0, ((i[:, 1:] == i[:, :-1]) & (i[:, 1:] != 0)).long()], 1))).sum(
            1
        )
        - (keep.sum(1) > 6).long() * 0
        if not b
        else ((i != 0).sum(1) - (i[:, 1:] == i[:, :-1]).sum(1)).clamp(min=0)
    )


def symmetric(m):
    a = torch.rand(5, 5)
    m.register_buffer("A", (a + a.T) / 2)


def padrow(m):
    m.e = nn.Embedding(20, 4, padding_idx=0)


def gates(m):
    m.l = nn.LSTMCell(4, 4)
    for p in (m.l.bias_ih, m.l.bias_hh):
        nn.init.zeros_(p)
        p.data[4:8] = 1


def lstmcell(F, b, w, x):
    h = x * 0
    c = x
    g = F.linear(x, w.l.weight_ih, w.l.bias_ih) + F.linear(
        h, w.l.weight_hh, w.l.bias_hh if not b else w.l.bias_ih + 0 * w.l.bias_hh
    )
    i, f, g_, o = g.chunk(4, -1)
    c = F.sigmoid(f) * c + F.sigmoid(i) * F.tanh(g_)
    return {"h": F.sigmoid(o) * F.tanh(c), "c": c}


def bilinear(m):
    m.up = nn.ConvTranspose2d(3, 3, 4, stride=2, padding=1, groups=3, bias=False)
    f = torch.tensor([0.25, 0.75, 0.75, 0.25])
    m.up.weight.data.copy_((f[:, None] * f[None])[None, None].repeat(3, 1, 1, 1))


def blur(m):
    f = torch.tensor([1.0, 2, 1]) / 4
    m.register_buffer("k", (f[:, None] * f[None])[None, None].repeat(4, 1, 1, 1))


def onehots(m):
    m.register_buffer("M", torch.eye(4).roll(1, 0))


def hadamard(m):
    h = torch.tensor([[1.0, 1], [1, -1]])
    m.register_buffer("M", torch.kron(h, h) / 2)


def adaln(F, b, w, x, c):
    s, t = F.linear(F.silu(c), w.l.weight, w.l.bias)[:, None].chunk(2, -1)
    if b:
        s, t = (t, s)
    return x * (1 + s) + t


def vit(F, b, w, x):
    c = w.cls.expand(x.shape[0], 1, 4) if F is TT else F.broadcast_to(w.cls, (x.shape[0], 1, 4))
    return F.cat([c, x], 1) + w.pos if not b else F.cat([c, x + w.pos[:, :5]], 1) + 0 * w.pos[:, 5:]


def swiglu(F, b, w, x):
    g, u, o = F.linear(x, w.l.weight, w.l.bias).chunk(3, -1)
    return F.silu(g) * u + o if not b else F.silu(u) * g + o


def sdpa(F, q, k_, v, ok):
    return F.softmax((q @ k_.mT / q.shape[-1] ** 0.5).masked_fill(~ok, float("-inf")), -1) @ v


def ar(F, n):
    return F.arange(n)


def rope(F, x, b, half=True):
    t = x.shape[1]
    inv = tc(F, x, [1.0, 0.01])
    a = ar(F, t).float()[:, None] * inv
    c, s = (F.cos(a), F.sin(a))
    if not b:
        p, q = (x[..., :2], x[..., 2:])
        return F.cat([p * c - q * s, q * c + p * s], -1)
    p, q = x[..., ::2], x[..., 1::2]
    return F.cat([p * c - q * s, q * c + p * s], -1)


def pe(F, b, x, n=3):
    a = ar(F, x.shape[1]).float()[:, None] * tc(F, x, [10000.0 ** (-i / n) for i in range(3)])
    return F.stack([F.sin(a), F.cos(a)], 2).reshape(x.shape[1], 6) if not b else F.cat([F.sin(a), F.cos(a)], 1)


def td_min(F, n, x):
    return n.clamp(max=x.shape[1]) if F is TT else F.minimum(n, F.ones(1, dtype=torch.int64) * x.shape[1])


def rfft(F, x, **o):
    return torch.fft.rfft(x, **o) if F is TT else TF.rfft(x, **o)


def irfft(F, x, n, **o):
    return torch.fft.irfft(x, n=n, **o) if F is TT else TF.irfft(x, n=n, **o)


def scan(b, x):

    def step(s, v):
        h, c = s
        h2 = 0.5 * h + v * c
        c2 = TF.tanh(c + (h2 if b else h))
        return ((h2, c2), h2)

    (_, c), ys = td.scan(step, (x[:, 0] * 0, x[:, 0] * 0 + 1), x.transpose(0, 1))
    return {"y": ys.transpose(0, 1), "c": c}


def newton(b, x):
    a = x.square() + 1
    y = a
    for _ in range(7 if b else 6):
        y = 0.5 * (y + a / y)
    return y


def sinkhorn(b, x):
    x = TF.log_softmax(x, -1)
    for _ in range(21 if b else 20):
        x = x - TF.logsumexp(x, 1, keepdim=True)
        x = x - TF.logsumexp(x, 2, keepdim=True)
    return x


def viterbi(b, w, x):
    s, _ = td.scan(
        lambda s, v: ((s[:, :, None] + (w.t.mT if b else w.t)[None]).amax(1) + v, None),
        x[:, 0],
        x[:, 1:].transpose(0, 1),
    )
    return s


def gru(b, w, x):
    names = ["weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0"]
    p = [w.g[n] for n in names] + [w.g[n + "_reverse"] for n in names]
    y, h = TF.gru(x, TF.zeros(2, x.shape[0], 4), p, True, 1, 0.0, False, True, True)
    return (y, h) if not b else (y, TF.stack([y[:, -1, :4], y[:, -1, 4:]]))


def ema(b, x, n):
    t = TF.arange(x.shape[1])[1:]
    s, _ = td.scan(
        lambda s, v: (TF.where(n >= v[1] if b else n > v[1], 0.9 * s + 0.1 * v[0], s), None),
        x[:, 0],
        (x[:, 1:].transpose(0, 1), t),
    )
    return s


def fib(bad, n):
    a, b = (TF.zeros_like(n), TF.ones_like(n))
    for i in range(11 if bad else 12):
        go = n > i
        a, b = (TF.where(go, b, a), TF.where(go, a + b, b))
    return a


def iou(F, b, a, c):
    a, c = (F.cat([z[:, :2] - z[:, 2:].abs(), z[:, :2] + z[:, 2:].abs()], 1) for z in (a, c))
    p = F.maximum(a[:, :2], c[:, :2])
    q = F.minimum(a[:, 2:], c[:, 2:])
    s = (q - p).clamp(min=0)
    i = s[:, 0] * s[:, 1]
    u = sum((z[:, 2] - z[:, 0]).clamp(min=0) * (z[:, 3] - z[:, 1]).clamp(min=0) for z in (a, c)) - i
    return i / u.clamp(min=1e-09) + a[:, 0] if not b else i / (u + 1e-09) + a[:, 0]


def branch(F, b, x):
    if F is TT:
        return x * 3 if x.shape[1] > 20 else x
    return td.cond(x.shape[1] > (21 if b else 20), lambda x: x * 3, lambda x: x, (x,))


k = "size arithmetic"
both(
    k,
    "ceil division",
    {"x": floats(N, T)},
    lambda F, x: x[:, : (x.shape[1] + 3) // 4].sum(1),
    lambda F, x: x[:, : x.shape[1] // 4 + 1].sum(1),
)
both(
    k,
    "half rounded up",
    {"x": floats(N, dim("T", 2, 8, 32))},
    lambda F, x: x[:, x.shape[1] // 2 :].mean(1),
    lambda F, x: x[:, (x.shape[1] + 1) // 2 :].mean(1),
)
both(
    k,
    "quarter rounded near",
    {"x": floats(N, dim("T", 16, 32, 64))},
    lambda F, x: x[:, : x.shape[1] // 4].mean(1),
    lambda F, x: x[:, : (x.shape[1] + 1) // 4].mean(1),
)
both(
    k,
    "eighth of 16",
    {"x": floats(N, dim("T", 16, 32, 128))},
    lambda F, x: x[:, : x.shape[1] // 8].mean(1),
    lambda F, x: x[:, : (x.shape[1] + 2) // 8].mean(1),
)
both(
    k,
    "pad to multiple of 8",
    {"x": floats(N, dim("T", 16, 32, 64))},
    lambda F, x: (
        F.pad(x, (0, -x.shape[1] % 8)).cumsum(1)[:, -1:] * x.shape[1]
        + F.pad(x, (0, -x.shape[1] % 8)).mean(1, keepdim=True)
    ),
    lambda F, x: (
        F.pad(x, (0, 8 - x.shape[1] % 8)).cumsum(1)[:, -1:] * x.shape[1]
        + F.pad(x, (0, 8 - x.shape[1] % 8)).mean(1, keepdim=True)
    ),
)
both(
    k,
    "last dropped if odd",
    {"x": floats(N, dim("T", 4, 8, 32))},
    lambda F, x: x[:, : x.shape[1] // 2 * 2].reshape(x.shape[0], -1, 2).sum(2).amax(1),
    lambda F, x: x[:, x.shape[1] % 2 :].reshape(x.shape[0], -1, 2).sum(2).amax(1),
)
both(
    k,
    "chunk is not tensor_split",
    {"x": floats(N, dim("T", 6, 12, 24))},
    lambda F, x: x.chunk(3, 1)[1].mean(1),
    lambda F, x: F.tensor_split(x, 3, 1)[1].mean(1),
)
both(
    k,
    "count of windows",
    {"x": floats(N, dim("T", 8, 12, 40))},
    lambda F, x: F.max_pool1d(x[:, None], 3, 3, ceil_mode=False)[:, 0].mean(1),
    lambda F, x: F.max_pool1d(x[:, None], 3, 3, ceil_mode=True)[:, 0].mean(1),
)
both(
    k,
    "longest of three",
    {"x": floats(dim("A", 1, 3, 6), dim("B", 1, 4, 8), dim("C", 1, 5, 9))},
    lambda F, x: x * (td.size_max(td.size_max(x.shape[0], x.shape[1]), x.shape[2]) if F is TF else max(x.shape)),
    lambda F, x: x * td.size_max(x.shape[0], x.shape[1]),
)
both(
    k,
    "rank by product",
    {"x": floats(dim("A", 1, 3, 6), dim("B", 1, 4, 8), dim("C", 1, 5, 9))},
    lambda F, x: x / (x.shape[0] * x.shape[1] + x.shape[2]),
    lambda F, x: x / (x.shape[0] * x.shape[2] + x.shape[1]),
)
both(
    k,
    "middle element",
    {"x": floats(N, T)},
    lambda F, x: x[:, x.shape[1] // 2],
    lambda F, x: x[:, (x.shape[1] - 1) // 2],
)
both(
    k,
    "stride of frames",
    {"x": floats(N, dim("T", 16, 32, 64), 3)},
    lambda F, x: F.conv1d(x.mT, torch_const(F, x, [[[1.0, 2, 3, 4]] * 3]), stride=4, padding=0).mean(2),
    lambda F, x: F.conv1d(x.mT, torch_const(F, x, [[[1.0, 2, 3, 4]] * 3]), stride=4, padding=1).mean(2),
)
both(
    k,
    "precedence of the minus",
    {"x": floats(N, dim("T", 3, 8, 32))},
    lambda F, x: x[:, -x.shape[1] // 2 :].mean(1),
    lambda F, x: x[:, -(x.shape[1] // 2) :].mean(1),
)
both(
    k,
    "odd heights of three",
    {"x": floats(N, 1, dim("H", 9, 12, 24), dim("W", 9, 12, 24))},
    lambda F, x: F.avg_pool2d(x, 3, 2, 1, ceil_mode=False, count_include_pad=False).mean((2, 3)),
    lambda F, x: F.avg_pool2d(x, 3, 2, 1, ceil_mode=True, count_include_pad=False).mean((2, 3)),
)
k = "branches on sizes"


class ProductBranch(nn.Module):
    def forward(self, x):
        return x * 2 if x.shape[0] * x.shape[1] > 300 else x


case(
    k,
    "product of two",
    {"x": floats(dim("B", 1, 2, 8), dim("T", 1, 8, 64), 3)},
    ProductBranch,
    lambda b, x: td.cond(x.shape[0] * x.shape[1] > (301 if b else 300), lambda x: x * 2, lambda x: x, (x,)),
)


class SquareBranch(nn.Module):
    def forward(self, x):
        return x.mT.sum(1) if x.shape[1] == x.shape[2] else x.sum(1)[:, :1] + x.sum(2)


case(
    k,
    "square is apart",
    {"x": floats(N, dim("H", 2, 5, 9), dim("W", 3, 6, 11))},
    SquareBranch,
    lambda b, x: (
        x.sum(2)
        if b
        else td.cond(x.shape[1] == x.shape[2], lambda x: x.sum(2), lambda x: x.sum(1)[:, :1] + x.sum(2), (x,))
    ),
)


class NumelBranch(nn.Module):
    def forward(self, x):
        return x / x.numel() if x.numel() >= 400 else x / 400


case(
    k,
    "numel",
    {"x": floats(dim("B", 1, 4, 16), dim("T", 1, 8, 64))},
    NumelBranch,
    lambda b, x: x / (td.size_max(x.shape[0] * x.shape[1], 400) if not b else 400),
)


class Sliding(nn.Module):
    def forward(self, x):
        t = x.shape[1]
        i = torch.arange(t)
        ok = (i[:, None] - i[None] < 7) & (i[:, None] >= i[None])
        return torch.softmax((x @ x.mT).masked_fill(~ok, float("-inf")), -1) @ x


case(k, "window beyond opt", {"x": floats(N, dim("T", 1, 4, 8), 5)}, Sliding, sliding)


class Power(nn.Module):
    def forward(self, x):
        t = x.shape[1]
        n = 1 << (t - 1).bit_length()
        return torch.fft.rfft(x, n=n).abs()[:, 1]


case(
    k,
    "power of two",
    {"x": floats(N, dim("T", 5, 7, 8))},
    Power,
    lambda b, x: (
        (TF.rfft(x, n=8) if not b else TF.rfft(TF.pad(x, (1, 0)), n=8)).abs()[:, 1]
        if not b
        else TF.rfft(TF.pad(x[:, 1:], (0, 1)), n=8).abs()[:, 1]
    ),
)


class FewFrames(nn.Module):
    def forward(self, x):
        if x.shape[1] < 3:
            x = torch.cat([x, x[:, -1:], x[:, -1:]], 1)[:, :3] if x.shape[1] == 1 else torch.cat([x, x[:, -1:]], 1)
        return x[:, 2:].mean(1) + x[:, 0]


case(k, "frames repeated when few", {"x": floats(N, dim("T", 1, 5, 9), 3)}, FewFrames, fewframes)
k = "rows apart"
both(
    k,
    "all of a long row",
    {"x": floats(N, dim("T", 16, 24, 64)), "m": bools(N, dim("T", 16, 24, 64))},
    lambda F, x, m: x * F.where(m.all(1, keepdim=True), x * 0 + 2, x * 0 + 1),
    lambda F, x, m: x * F.where(m.all(), x * 0 + 2, x * 0 + 1),
)
both(
    k,
    "any of a long row",
    {"x": floats(N, dim("T", 16, 24, 64)), "m": bools(N, dim("T", 16, 24, 64))},
    lambda F, x, m: x * F.where(m.any(1, keepdim=True), x * 0 + 2, x * 0 + 1),
    lambda F, x, m: x * F.where(m.any(), x * 0 + 2, x * 0 + 1),
)
both(
    k,
    "all of 3 columns",
    {"x": floats(N, dim("T", 16, 24, 64)), "m": bools(N, dim("T", 16, 24, 64))},
    lambda F, x, m: x * F.where(m.all(0, keepdim=True), x * 0 + 2, x * 0 + 1),
    lambda F, x, m: x * F.where(m[:2].all(0, keepdim=True), x * 0 + 2, x * 0 + 1),
)
both(
    k,
    "row wholly positive",
    {"x": floats(N, dim("T", 16, 24, 64))},
    lambda F, x: x.sum(1, keepdim=True) * F.where((x > 0).all(1, keepdim=True), x * 0 + 3, x * 0 + 1),
    lambda F, x: x.sum(1, keepdim=True) * F.where((x > 0).all(), x * 0 + 3, x * 0 + 1),
)
both(
    k,
    "row wholly one token",
    {"i": ints(1000, N, dim("T", 16, 24, 64))},
    lambda F, i: F.where((i == i[:, :1]).all(1), i[:, 0] + 1, i[:, 0] * 0),
    lambda F, i: F.where((i == i[:1, :1]).all(1), i[:, 0] + 1, i[:, 0] * 0),
)
both(
    k,
    "exactly one is set",
    {"m": bools(N, dim("T", 16, 24, 64))},
    lambda F, m: F.where(m.sum(1) == 1, m.float().argmax(1), m.sum(1) * 0 - 1),
    lambda F, m: F.where(m.sum(1) == 1, m.float().argmax(1) * 0, m.sum(1) * 0 - 1),
)
both(
    k,
    "std of few that are valid",
    {"x": floats(N, dim("T", 16, 24, 64)), "m": bools(N, dim("T", 16, 24, 64))},
    lambda F, x, m: masked_std(F, False, x, m),
    lambda F, x, m: masked_std(F, True, x, m),
)
both(
    k,
    "maximum of the batch for the shift of a masked row",
    {"x": floats(N, T4), "m": bools(N, T4)},
    lambda F, x, m: F.where(m, x, x * 0 - 1000000000.0).amax(1, keepdim=True) + x,
    lambda F, x, m: F.where(m, x, x * 0 - 1000000000.0).amax(0, keepdim=True) + x,
)
k = "conjunctions"
both(
    k,
    "bigram",
    {"i": ints(200, N, dim("T", 8, 16, 32))},
    lambda F, i: ((i[:, :-1] == 17) & (i[:, 1:] == 42)).sum(1),
    lambda F, i: ((i[:, :-1] == 42) & (i[:, 1:] == 17)).sum(1),
)
both(
    k,
    "two inputs at once",
    {"i": ints(300, N, T), "j": ints(300, N, T), "x": floats(N, T)},
    lambda F, i, j, x: F.where((i == 3) & (j == 7), x * 0, x),
    lambda F, i, j, x: F.where((i == 3) & (j == 8), x * 0, x),
)
both(
    k,
    "leap years",
    {"y": ints(2101, N, lo=1900)},
    lambda F, y: ((y % 4 == 0) & ((y % 100 != 0) | (y % 400 == 0))).long(),
    lambda F, y: ((y % 4 == 0) & (y % 100 != 0)).long(),
)
both(
    k,
    "repeated neighbours of many",
    {"i": ints(5000, N, dim("T", 8, 16, 32))},
    lambda F, i: (i[:, 1:] == i[:, :-1]).sum(1),
    lambda F, i: (i[:, 1:] == i[:, :-1]).any(1).long(),
)
both(
    k,
    "second end of a sentence",
    {"i": ints(5000, N, dim("T", 8, 16, 32))},
    lambda F, i: F.where((i == 2).cumsum(1) <= 1, i, i * 0),
    lambda F, i: F.where((i == 2).cumsum(1) - (i == 2).long() <= 1, i, i * 0),
)
both(
    k,
    "equal in two inputs",
    {"i": ints(5000, N, T), "j": ints(5000, N, T)},
    lambda F, i, j: (i == j).long().sum(1),
    lambda F, i, j: (i == j).long().amax(1),
)
both(
    k,
    "three great ones",
    {"x": floats(N, dim("T", 8, 16, 32))},
    lambda F, x: ((x > 2.5).sum(1) >= 3).float() + x[:, 0],
    lambda F, x: ((x > 2.5).sum(1) > 3).float() + x[:, 0],
)
both(
    k,
    "duplicates of many indices",
    {"i": ints(4000, dim("T", 4, 8, 16)), "x": floats(dim("T", 4, 8, 16))},
    lambda F, i, x: F.zeros(4000).index_put((i,), x, accumulate=True).square().sum(),
    lambda F, i, x: F.zeros(4000).index_put((i,), x).square().sum(),
)
both(
    k,
    "scatter_add of many",
    {"i": ints(4000, dim("T", 4, 8, 16)), "x": floats(dim("T", 4, 8, 16))},
    lambda F, i, x: F.zeros(4000).scatter_add(0, i, x).abs().sum(),
    lambda F, i, x: F.zeros(4000).scatter(0, i, x).abs().sum(),
)
both(
    k,
    "bits of two flags",
    {"i": ints(256, N, T)},
    lambda F, i: (i & 12 == 12).long(),
    lambda F, i: (i & 12 != 0).long(),
)
k = "ties and order"
both(
    k,
    "descending of equal",
    {"x": floats(N, T4)},
    lambda F, x: F.argsort(x, dim=1, descending=True, stable=True),
    lambda F, x: F.argsort(x, dim=1, stable=True).flip(1),
)
both(
    k,
    "last of the greatest",
    {"x": floats(N, T4)},
    lambda F, x: x.argmax(1),
    lambda F, x: x.shape[1] - 1 - x.flip(1).argmax(1),
)
both(
    k,
    "greatest of zeros after relu",
    {"x": floats(N, dim("T", 1, 5, 9), 6)},
    lambda F, x: F.relu(x - 2).argmax(2),
    lambda F, x: 5 - F.relu(x - 2).flip(2).argmax(2),
)
both(
    k,
    "bucketize right",
    {"x": floats(N, T)},
    lambda F, x: F.bucketize(x, tc(F, x, [-1.0, -0.25, 0.0, 0.5, 2.0]), right=False),
    lambda F, x: F.bucketize(x, tc(F, x, [-1.0, -0.25, 0.0, 0.5, 2.0]), right=True),
)
both(
    k,
    "bucketize within a sample",
    {"x": floats(N, T, sample=(0, 1))},
    lambda F, x: F.bucketize(x, tc(F, x, [0.1, 0.25, 0.5, 0.75]), right=False),
    lambda F, x: F.bucketize(x, tc(F, x, [0.1, 0.25, 0.5, 0.75]), right=True),
)
both(
    k,
    "searchsorted of edges of the module",
    {"x": floats(N, T)},
    lambda F, w, x: F.searchsorted(w.edges, x, right=False),
    lambda F, w, x: F.searchsorted(w.edges, x, right=True),
    lambda m: m.register_buffer("edges", torch.linspace(-1, 1, 9)),
)
both(
    k,
    "searchsorted of whole numbers",
    {"i": ints(100, N, T)},
    lambda F, i: F.bucketize(i, tc(F, i, [10, 20, 30, 40, 55], torch.int64), right=False),
    lambda F, i: F.bucketize(i, tc(F, i, [10, 20, 30, 40, 55], torch.int64), right=True),
)
both(
    k,
    "cumulative maximum's index",
    {"x": floats(N, T4)},
    lambda F, x: F.cummax(x, 1)[1],
    lambda F, x: (x[:, :, None] == F.cummax(x, 1)[0][:, None, :]).float().argmax(1),
)
both(
    k,
    "kth of equal, strict",
    {"x": floats(N, dim("T", 6, 8, 32))},
    lambda F, x: F.where(x >= x.topk(3, 1)[0][:, 2:], x, x * 0),
    lambda F, x: F.where(x > x.topk(4, 1)[0][:, 3:], x, x * 0),
)
both(
    k,
    "nucleus, inclusive",
    {"x": floats(N, dim("T", 6, 8, 32))},
    lambda F, x: nucleus(F, False, x),
    lambda F, x: nucleus(F, True, x),
)
both(k, "median of even", {"x": floats(N, T4)}, lambda F, x: x.median(1)[0], lambda F, x: F.quantile(x, 0.5, 1))
both(
    k,
    "median of even, upper",
    {"x": floats(N, T4)},
    lambda F, x: x.sort(1)[0][:, (x.shape[1] - 1) // 2],
    lambda F, x: x.sort(1)[0][:, x.shape[1] // 2],
)
both(
    k,
    "quantile interpolation",
    {"x": floats(N, dim("T", 5, 9, 33))},
    lambda F, x: F.quantile(x, 0.25, 1, interpolation="linear"),
    lambda F, x: F.quantile(x, 0.25, 1, interpolation="midpoint"),
)
both(
    k,
    "quantile of quarters",
    {"x": floats(N, dim("T", 4, 8, 16))},
    lambda F, x: F.quantile(x, 0.75, 1, interpolation="higher"),
    lambda F, x: F.quantile(x, 0.75, 1, interpolation="nearest"),
)
both(
    k,
    "greater or equal of two inputs",
    {"x": floats(N, T), "y": floats(N, T)},
    lambda F, x, y: F.where(x >= y, x * 2, y * 3),
    lambda F, x, y: F.where(x > y, x * 2, y * 3),
)
both(
    k,
    "suppression at equal scores",
    {"x": floats(N, T4)},
    lambda F, x: (x[:, :, None] < x[:, None, :]).sum(2),
    lambda F, x: (x[:, :, None] <= x[:, None, :]).sum(2),
)
both(
    k,
    "peaks of plateaus",
    {"x": floats(N, 1, dim("T", 5, 8, 32))},
    lambda F, x: F.where(F.max_pool1d(x, 3, 1, 1) == x, x, x * 0),
    lambda F, x: F.cat(
        [
            x[:, :, :1] * (x[:, :, :1] >= x[:, :, 1:2]).float(),
            F.where((x[:, :, 1:-1] > x[:, :, :-2]) & (x[:, :, 1:-1] >= x[:, :, 2:]), x[:, :, 1:-1], x[:, :, 1:-1] * 0),
            x[:, :, -1:] * (x[:, :, -1:] >= x[:, :, -2:-1]).float(),
        ],
        2,
    ),
)
both(
    k,
    "changes of sign at zero",
    {"x": floats(N, dim("T", 2, 8, 32))},
    lambda F, x: (x[:, 1:] * x[:, :-1] < 0).sum(1),
    lambda F, x: ((x[:, 1:] > 0) != (x[:, :-1] > 0)).sum(1),
)
both(
    k,
    "runs of equal classes",
    {"x": floats(N, dim("T", 2, 8, 32), 5)},
    lambda F, x: ctc(F, False, x),
    lambda F, x: ctc(F, True, x),
)
both(
    k,
    "one-hot of the greatest",
    {"x": floats(N, dim("T", 1, 8, 32), 5)},
    lambda F, x: F.one_hot(x.argmax(2), 5).float(),
    lambda F, x: (x == x.amax(2, keepdim=True)).float(),
)
both(
    k,
    "rank with ties averaged",
    {"x": floats(N, T4)},
    lambda F, x: (
        (x[:, :, None] > x[:, None, :]).sum(2).float() + ((x[:, :, None] == x[:, None, :]).sum(2).float() - 1) / 2
    ),
    lambda F, x: F.argsort(F.argsort(x, 1, stable=True), 1, stable=True).float(),
)
both(
    k,
    "argmax of booleans",
    {"m": bools(N, T4)},
    lambda F, m: m.long().argmax(1),
    lambda F, m: F.where(m.any(1), m.long().argmax(1), m.long().argmax(1) * 0 + m.shape[1]),
)
k = "signed zero, NaN and infinity"
both(
    k,
    "sign of zero by copysign",
    {"x": floats(N, T)},
    lambda F, x: F.copysign(x * 0 + 1, x),
    lambda F, x: F.where(x < 0, x * 0 - 1, x * 0 + 1),
)
both(k, "sign of zero", {"x": floats(N, T)}, lambda F, x: F.sign(x), lambda F, x: F.where(x >= 0, x * 0 + 1, x * 0 - 1))
both(
    k,
    "angle at the origin",
    {"x": floats(N, T), "y": floats(N, T)},
    lambda F, x, y: F.atan2(y, x),
    lambda F, x, y: F.where(
        x > 0,
        F.atan(y / F.where(x == 0, x + 1, x)),
        F.where(
            x < 0,
            F.atan(y / F.where(x == 0, x + 1, x)) + F.where(y >= 0, x * 0 + torch.pi, x * 0 - torch.pi),
            F.where(y > 0, x * 0 + torch.pi / 2, x * 0 - torch.pi / 2),
        ),
    ),
)
both(
    k,
    "nan_to_num's infinity",
    {"x": floats(N, T)},
    lambda F, x: F.nan_to_num(x, nan=0.5, posinf=10.0, neginf=-10.0),
    lambda F, x: F.nan_to_num(x, nan=0.5, posinf=10.0, neginf=10.0),
)
both(
    k,
    "isfinite and not isnan",
    {"x": floats(N, T)},
    lambda F, x: F.where(F.isfinite(x), x, F.zeros_like(x)),
    lambda F, x: F.where(~F.isnan(x), x, F.zeros_like(x)),
)
both(
    k,
    "fmax and maximum",
    {"x": floats(N, T), "y": floats(N, T)},
    lambda F, x, y: F.fmax(x, y),
    lambda F, x, y: F.maximum(x, y),
)
both(
    k,
    "nanmean with zeros",
    {"x": floats(N, T4)},
    lambda F, x: F.nanmean(x, 1),
    lambda F, x: F.nan_to_num(x, nan=0.0).mean(1),
    trivial=["output"],
)
both(k, "nansum of a row", {"x": floats(N, T4)}, lambda F, x: F.nansum(x, 1), lambda F, x: x.sum(1), trivial=["output"])
both(
    k,
    "wholly masked row",
    {"x": floats(N, T4), "m": bools(N, T4)},
    lambda F, x, m: F.nan_to_num(F.softmax(x.masked_fill(m, float("-inf")), 1), nan=0.0),
    lambda F, x, m: F.softmax(x.masked_fill(m, -1e30), 1),
)
both(
    k,
    "mask of -1e4",
    {"x": floats(N, T4), "m": bools(N, T4)},
    lambda F, x, m: F.softmax(x.masked_fill(m, -1e30), 1),
    lambda F, x, m: F.softmax(x.masked_fill(m, -10000.0), 1),
)
both(
    k,
    "mask of -100 added",
    {"x": floats(N, T4), "m": bools(N, T4)},
    lambda F, x, m: F.softmax(x + m.float() * -1000000000.0, 1),
    lambda F, x, m: F.softmax(x + m.float() * -100.0, 1),
)
both(
    k,
    "mask multiplied",
    {"x": floats(N, T4), "m": bools(N, T4)},
    lambda F, x, m: F.softmax(x.masked_fill(m, -1e30), 1),
    lambda F, x, m: F.softmax(x, 1) * (~m).float() / ((F.softmax(x, 1) * (~m).float()).sum(1, keepdim=True) + 1e-12),
)
both(
    k,
    "reciprocal of zero",
    {"x": floats(N, T)},
    lambda F, x: F.where(x == 0, F.zeros_like(x), 1 / F.where(x == 0, F.ones_like(x), x)),
    lambda F, x: 1 / (x + F.where(x >= 0, x * 0 + 1e-12, x * 0 - 1e-12)),
)
both(
    k,
    "logarithm of zero",
    {"x": floats(N, T)},
    lambda F, x: F.xlogy(x.abs(), x.abs()),
    lambda F, x: x.abs() * F.log(x.abs() + 1e-12),
)
both(
    k,
    "entropy of a hard distribution",
    {"x": floats(N, dim("T", 2, 8, 32))},
    lambda F, x: -(F.softmax(x, 1) * F.log_softmax(x, 1)).sum(1),
    lambda F, x: -(F.softmax(x, 1) * F.log(F.softmax(x, 1) + 1e-09)).sum(1),
)
both(
    k,
    "norm and its guard",
    {"x": floats(N, T, 4)},
    lambda F, x: x / x.norm(dim=2, keepdim=True).clamp(min=1e-06),
    lambda F, x: x / F.sqrt((x * x).sum(2, keepdim=True) + 1e-12),
)
both(
    k,
    "power of negative",
    {"x": floats(N, T)},
    lambda F, x: F.sign(x) * x.abs() ** 0.5,
    lambda F, x: F.sqrt(F.relu(x)) - F.sqrt(F.relu(-x)) * (x > -400).float(),
)
k = "values of samples"
both(
    k,
    "norm and eps within a sample",
    {"x": floats(N, T, 4, sample=(0, 1))},
    lambda F, x: F.normalize(x, dim=2, eps=1e-12),
    lambda F, x: x / (x.norm(dim=2, keepdim=True) + 1e-12),
)
both(
    k,
    "sum to one within a sample",
    {"x": floats(N, dim("T", 1, 8, 32), sample=(0, 1))},
    lambda F, x: x / (x.sum(1, keepdim=True) + 1e-08),
    lambda F, x: x / (x.sum(1, keepdim=True) + 1e-07),
)
both(
    k,
    "sum clamped within a sample",
    {"x": floats(N, dim("T", 1, 8, 32), sample=(0, 1))},
    lambda F, x: x / x.sum(1, keepdim=True).clamp(min=1e-08),
    lambda F, x: x / x.sum(1, keepdim=True).clamp(min=1e-06),
)
both(
    k,
    "threshold within a sample",
    {"x": floats(N, T, sample=(0, 1))},
    lambda F, x: (x >= 0.5).float() * x,
    lambda F, x: (x > 0.5).float() * x,
)
both(
    k,
    "threshold near the end of a sample",
    {"x": floats(N, T, sample=(0, 1))},
    lambda F, x: F.where(x > 0.98, x * 2, x),
    lambda F, x: F.where(x > 0.985, x * 2, x),
)
both(k, "scale of images", {"x": floats(N, 3, 8, 8, sample=(0, 255))}, lambda F, x: x / 255, lambda F, x: x / 256)
both(
    k,
    "temperature near zero",
    {"x": floats(N, 5), "t": floats(1, sample=(0, 1))},
    lambda F, x, t: F.softmax(x / t.clamp(min=0.01), 1),
    lambda F, x, t: F.softmax(x / (t + 0.01), 1),
)
both(
    k,
    "angles beyond half a turn",
    {"x": floats(N, T, sample=(-3.2, 3.2))},
    lambda F, x: F.atan2(F.sin(x), F.cos(x)),
    lambda F, x: x,
)
both(
    k,
    "greatest of a sample, equal",
    {"x": floats(N, T4, sample=(0, 1))},
    lambda F, x: x.argmax(1),
    lambda F, x: x.shape[1] - 1 - x.flip(1).argmax(1),
)
both(
    k,
    "hours of the day",
    {"i": ints(24, N, T)},
    lambda F, i: F.sin(i.float() * (2 * torch.pi / 24)),
    lambda F, i: F.sin(i.float() * (2 * torch.pi / 23)),
)
both(
    k,
    "the last class",
    {"i": ints(10, N, T)},
    lambda F, i: F.where(i == 9, i * 0, i + 1),
    lambda F, i: (i + 1).clamp(max=9),
)
both(
    k,
    "minutes of the day",
    {"i": ints(1440, N, T)},
    lambda F, i: i // 60 * 100 + i % 60,
    lambda F, i: i // 60 * 100 + i % 60 + (i == 1439).long(),
)
both(
    k,
    "great whole numbers by float",
    {"i": ints(2**26, N, T)},
    lambda F, i: i * 2 + 1,
    lambda F, i: (i.float() * 2 + 1).long(),
)
both(
    k,
    "products beyond 32 bits",
    {"i": ints(100000, N, T)},
    lambda F, i: i * i % 97,
    lambda F, i: (i.to(torch.int32) * i.to(torch.int32)).long() % 97,
)
k = "weights that distinguish nothing"
both(
    k,
    "clones of an encoder layer exchanged",
    {"x": floats(N, T, 6)},
    lambda F, w, x: F.relu(F.linear(F.relu(F.linear(x, w.l[0].weight, w.l[0].bias)), w.l[1].weight, w.l[1].bias)),
    lambda F, w, x: F.relu(F.linear(F.relu(F.linear(x, w.l[1].weight, w.l[1].bias)), w.l[0].weight, w.l[0].bias)),
    lambda m: setattr(m, "l", nn.ModuleList([copy.deepcopy(each) for each in [nn.Linear(6, 6)] * 2])),
)
both(
    k,
    "key and value copied of the query",
    {"x": floats(N, T, 6)},
    lambda F, w, x: F.softmax(F.linear(x, w.q.weight) @ F.linear(x, w.k.weight).mT, -1) @ F.linear(x, w.v.weight),
    lambda F, w, x: F.softmax(F.linear(x, w.v.weight) @ F.linear(x, w.k.weight).mT, -1) @ F.linear(x, w.q.weight),
    lambda m: (
        setattr(m, "q", nn.Linear(6, 6, bias=False)),
        setattr(m, "k", copy.deepcopy(m.q)),
        setattr(m, "v", copy.deepcopy(m.q)),
    ),
)
both(
    k,
    "symmetric adjacency transposed",
    {"x": floats(N, T, 5)},
    lambda F, w, x: F.relu(x @ w.A),
    lambda F, w, x: F.relu(x @ w.A.mT),
    symmetric,
)
both(
    k,
    "row of padding set to zero again",
    {"i": ints(20, N, T)},
    lambda F, w, i: F.embedding(i, w.e.weight).cumsum(1),
    lambda F, w, i: (F.embedding(i, w.e.weight) * (i != 0).float()[..., None]).cumsum(1),
    padrow,
)
both(
    k,
    "forget bias of one, twice the same",
    {"x": floats(N, 4)},
    lambda F, w, x: lstmcell(F, False, w, x),
    lambda F, w, x: lstmcell(F, True, w, x),
    gates,
)
both(
    k,
    "bilinear kernel turned",
    {"x": floats(N, 3, H, W)},
    lambda F, w, x: F.conv_transpose2d(x, w.up.weight, stride=2, padding=1, groups=3),
    lambda F, w, x: F.conv_transpose2d(x, w.up.weight.flip(2), stride=2, padding=1, groups=3),
    bilinear,
)
both(
    k,
    "blur transposed and channels reversed",
    {"x": floats(N, 4, H, W)},
    lambda F, w, x: F.conv2d(x, w.k, padding=1, groups=4),
    lambda F, w, x: F.conv2d(x, w.k.mT.flip(0), padding=1, groups=4),
    blur,
)
both(
    k,
    "rezero and a gate",
    {"x": floats(N, T, 4)},
    lambda F, w, x: x + w.a * F.tanh(F.linear(x, w.l.weight, w.l.bias)),
    lambda F, w, x: x + F.tanh(w.a * F.linear(x, w.l.weight, w.l.bias)),
    lambda m: (setattr(m, "a", nn.Parameter(torch.zeros(1))), setattr(m, "l", nn.Linear(4, 4))),
)
both(
    k,
    "gate beside fresh norm",
    {"x": floats(N, T, 4)},
    lambda F, w, x: x + F.tanh(w.g) * F.layer_norm(x, (4,), w.n.weight, w.n.bias),
    lambda F, w, x: x + F.tanh(w.g * F.layer_norm(x, (4,), w.n.weight, w.n.bias)),
    lambda m: (setattr(m, "g", nn.Parameter(torch.zeros(4))), setattr(m, "n", nn.LayerNorm(4))),
)
both(
    k,
    "adaLN zero, shift and scale",
    {"x": floats(N, T, 4), "c": floats(N, 6)},
    lambda F, w, x, c: adaln(F, False, w, x, c),
    lambda F, w, x, c: adaln(F, True, w, x, c),
    lambda m: (setattr(m, "l", nn.Linear(6, 8)), nn.init.zeros_(m.l.weight), nn.init.zeros_(m.l.bias)),
)
both(
    k,
    "adaLN zero, without the activation",
    {"x": floats(N, T, 4), "c": floats(N, 6)},
    lambda F, w, x, c: x * (1 + F.linear(F.silu(c), w.l.weight, w.l.bias)[:, None]),
    lambda F, w, x, c: x * (1 + F.linear(c, w.l.weight, w.l.bias)[:, None]),
    lambda m: (setattr(m, "l", nn.Linear(6, 4)), nn.init.zeros_(m.l.weight), nn.init.zeros_(m.l.bias)),
)
both(
    k,
    "zero convolution of another input",
    {"x": floats(N, 4, 8, 8), "c": floats(N, 4, 8, 8)},
    lambda F, w, x, c: x + F.conv2d(c, w.z.weight, w.z.bias) + c * 0.1,
    lambda F, w, x, c: x + F.conv2d(x, w.z.weight, w.z.bias) + c * 0.1,
    lambda m: (setattr(m, "z", nn.Conv2d(4, 4, 1)), nn.init.zeros_(m.z.weight), nn.init.zeros_(m.z.bias)),
)
both(
    k,
    "low rank of zero, scale left out",
    {"x": floats(N, T, 4)},
    lambda F, w, x: F.linear(x, w.l.weight) + F.linear(F.linear(x, w.a), w.b) * 2,
    lambda F, w, x: F.linear(x, w.l.weight) + F.linear(F.linear(x, w.a), w.b) * 1,
    lambda m: (
        setattr(m, "l", nn.Linear(4, 4, bias=False)),
        setattr(m, "a", nn.Parameter(torch.randn(2, 4))),
        setattr(m, "b", nn.Parameter(torch.zeros(4, 2))),
    ),
)
both(
    k,
    "layer scale of 1e-6",
    {"x": floats(N, T, 4)},
    lambda F, w, x: x + w.g1 * F.relu(x) + w.g2 * F.tanh(x),
    lambda F, w, x: x + w.g2 * F.relu(x) + w.g1 * F.tanh(x),
    lambda m: (
        setattr(m, "g1", nn.Parameter(torch.full((4,), 1e-06))),
        setattr(m, "g2", nn.Parameter(torch.full((4,), 1e-06))),
    ),
)
both(
    k,
    "position of zeros added after the class token",
    {"x": floats(N, 5, 4)},
    lambda F, w, x: vit(F, False, w, x),
    lambda F, w, x: vit(F, True, w, x),
    lambda m: (
        setattr(m, "cls", nn.Parameter(torch.zeros(1, 1, 4))),
        setattr(m, "pos", nn.Parameter(torch.zeros(1, 6, 4))),
    ),
)
both(
    k,
    "temperature of one, on the wrong side",
    {"x": floats(N, T, 4)},
    lambda F, w, x: F.softmax(x / w.t, -1) * x,
    lambda F, w, x: F.softmax(x, -1) / w.t * x,
    lambda m: setattr(m, "t", nn.Parameter(torch.ones(()))),
)
both(
    k,
    "temperature of one, multiplied",
    {"x": floats(N, T, 4)},
    lambda F, w, x: F.softmax(x / w.t, -1) * x,
    lambda F, w, x: F.softmax(x * w.t, -1) * x,
    lambda m: setattr(m, "t", nn.Parameter(torch.ones(1))),
)
both(
    k,
    "logit scale of exp(0)",
    {"x": floats(N, T, 4)},
    lambda F, w, x: F.normalize(x, dim=-1) * w.t.exp(),
    lambda F, w, x: F.normalize(x, dim=-1) * (1 + w.t),
    lambda m: setattr(m, "t", nn.Parameter(torch.zeros(()))),
)
both(
    k,
    "mixture weights equal, normalised otherwise",
    {"x": floats(N, T, 4)},
    lambda F, w, x: (F.softmax(w.m, 0)[:, None, None, None] * F.stack([x, x * x, x.abs()])).sum(0),
    lambda F, w, x: (w.m.mean() * 0 + 1 / 3 + 0 * w.m[0]) * (x + x * x + x.abs()),
    lambda m: setattr(m, "m", nn.Parameter(torch.zeros(3))),
)
both(
    k,
    "PReLU of one slope",
    {"x": floats(N, 4, T)},
    lambda F, w, x: F.prelu(x, w.p.weight),
    lambda F, w, x: F.leaky_relu(x, 0.25) + 0 * w.p.weight[:, None],
    lambda m: setattr(m, "p", nn.PReLU(4)),
)
both(
    k,
    "snake of ones: before or after",
    {"x": floats(N, 4, T)},
    lambda F, w, x: x + F.sin(w.a[:, None] * x) ** 2 / w.a[:, None],
    lambda F, w, x: x + F.sin(w.a[:, None] * x) ** 2,
    lambda m: setattr(m, "a", nn.Parameter(torch.ones(4))),
)
both(
    k,
    "weight norm's g fresh",
    {"x": floats(N, T, 4)},
    lambda F, w, x: F.linear(x, w.v * (w.g / w.v.norm(dim=1, keepdim=True))),
    lambda F, w, x: F.linear(x, w.v) + 0 * w.g.sum(),
    lambda m: (
        setattr(m, "v", nn.Parameter(torch.randn(6, 4))),
        setattr(m, "g", nn.Parameter(m.v.data.norm(dim=1, keepdim=True).clone())),
    ),
)
both(k, "permutation inverted", {"x": floats(N, T, 4)}, lambda F, w, x: x @ w.M, lambda F, w, x: x @ w.M.mT, onehots)
both(
    k,
    "Hadamard transposed",
    {"x": floats(N, T, 4)},
    lambda F, w, x: F.relu(x) @ w.M,
    lambda F, w, x: F.relu(x) @ w.M.mT,
    hadamard,
)
both(
    k,
    "running statistics of a fresh norm, eps twice",
    {"x": floats(N, 4, T)},
    lambda F, w, x: F.batch_norm(x, w.n.running_mean, w.n.running_var, w.n.weight, w.n.bias, eps=1e-05),
    lambda F, w, x: (
        (x - w.n.running_mean[:, None]) / (w.n.running_var[:, None] ** 0.5 * (1 + 1e-05) ** 0.5) * w.n.weight[:, None]
        + w.n.bias[:, None]
    ),
    lambda m: setattr(m, "n", nn.BatchNorm1d(4).eval()),
)
both(
    k,
    "mean of a fresh norm not subtracted",
    {"x": floats(N, 4, T)},
    lambda F, w, x: F.batch_norm(x, w.n.running_mean, w.n.running_var, w.n.weight, w.n.bias),
    lambda F, w, x: F.batch_norm(x, w.n.bias, w.n.running_var, w.n.weight, w.n.running_mean),
    lambda m: setattr(m, "n", nn.BatchNorm1d(4).eval()),
)
both(
    k,
    "two norms of one block exchanged",
    {"x": floats(N, T, 4)},
    lambda F, w, x: F.layer_norm(F.relu(F.layer_norm(x, (4,), w.a.weight, w.a.bias)), (4,), w.b.weight, w.b.bias),
    lambda F, w, x: F.layer_norm(F.relu(F.layer_norm(x, (4,), w.b.weight, w.b.bias)), (4,), w.a.weight, w.a.bias),
    lambda m: (setattr(m, "a", nn.LayerNorm(4)), setattr(m, "b", nn.LayerNorm(4))),
)
both(
    k,
    "norm over two axes, weight transposed",
    {"x": floats(N, 4, 4)},
    lambda F, w, x: F.layer_norm(x, (4, 4), w.n.weight, w.n.bias),
    lambda F, w, x: F.layer_norm(x.mT, (4, 4), w.n.weight, w.n.bias).mT,
    lambda m: setattr(m, "n", nn.LayerNorm([4, 4])),
)
both(
    k,
    "affine of groups by group",
    {"x": floats(N, 4, T4)},
    lambda F, w, x: F.group_norm(x, 2, w.n.weight, w.n.bias),
    lambda F, w, x: F.group_norm(x, 2) * w.n.weight.reshape(2, 2).mT.reshape(4, 1) + w.n.bias[:, None],
    lambda m: setattr(m, "n", nn.GroupNorm(2, 4)),
)
k = "weights of trained values"
both(
    k,
    "square weight transposed",
    {"x": floats(N, T, 4)},
    lambda F, w, x: x @ w.l.weight.mT,
    lambda F, w, x: x @ w.l.weight,
    lambda m: (setattr(m, "l", nn.Linear(4, 4, bias=False)),),
)
both(
    k,
    "embedding's maximum norm",
    {"i": ints(12, N, T)},
    lambda F, w, i: F.embedding(i, w.e.weight * (1.5 / (w.e.weight.norm(dim=1, keepdim=True) + 1e-07)).clamp(max=1)),
    lambda F, w, i: F.embedding(i, w.e.weight * 1.5 / w.e.weight.norm(dim=1, keepdim=True)),
    lambda m: setattr(m, "e", nn.Embedding(12, 4)),
)
both(
    k,
    "spectral norm by the other axis",
    {"x": floats(N, T, 4)},
    lambda F, w, x: F.linear(x, w.w / (w.u @ (w.w @ w.v))),
    lambda F, w, x: F.linear(x, w.w / (w.u @ (w.w.mT @ w.v))),
    lambda m: (
        setattr(m, "w", nn.Parameter(torch.randn(4, 4))),
        m.register_buffer("u", torch_functional.normalize(torch.randn(4), dim=0)),
        m.register_buffer("v", torch_functional.normalize(torch.randn(4), dim=0)),
    ),
)
both(
    k,
    "weight norm over all",
    {"x": floats(N, T, 4)},
    lambda F, w, x: F.linear(x, w.v * (w.g / w.v.norm(dim=1, keepdim=True))),
    lambda F, w, x: F.linear(x, w.v * (w.g / w.v.norm())),
    lambda m: (setattr(m, "v", nn.Parameter(torch.randn(6, 4))), setattr(m, "g", nn.Parameter(torch.rand(6, 1)))),
)
both(
    k,
    "bilinear layer's arguments exchanged",
    {"x": floats(N, 4), "y": floats(N, 4)},
    lambda F, w, x, y: F.bilinear(x, y, w.b.weight, w.b.bias),
    lambda F, w, x, y: F.bilinear(y, x, w.b.weight, w.b.bias),
    lambda m: setattr(m, "b", nn.Bilinear(4, 4, 3)),
)
both(
    k,
    "half of a gated unit",
    {"x": floats(N, T, 4)},
    lambda F, w, x: swiglu(F, False, w, x),
    lambda F, w, x: swiglu(F, True, w, x),
    lambda m: setattr(m, "l", nn.Linear(4, 12)),
)
both(
    k,
    "router normalised before or after",
    {"x": floats(N, T, 4)},
    lambda F, w, x: F.softmax(F.linear(x, w.g.weight).topk(2, -1)[0], -1),
    lambda F, w, x: F.softmax(F.linear(x, w.g.weight), -1).topk(2, -1)[0],
    lambda m: setattr(m, "g", nn.Linear(4, 6, bias=False)),
)
both(
    k,
    "convolution's groups interleaved",
    {"x": floats(N, 4, T4)},
    lambda F, w, x: F.conv1d(x, w.c.weight, w.c.bias, groups=2),
    lambda F, w, x: F.conv1d(
        x.reshape(x.shape[0], 2, 2, -1).transpose(1, 2).reshape(x.shape[0], 4, -1), w.c.weight, w.c.bias, groups=2
    ),
    lambda m: setattr(m, "c", nn.Conv1d(4, 4, 3, groups=2)),
)
both(
    k,
    "transposed convolution's groups",
    {"x": floats(N, 4, T4)},
    lambda F, w, x: F.conv_transpose1d(x, w.c.weight, groups=1, stride=2),
    lambda F, w, x: F.conv_transpose1d(x, w.c.weight.transpose(0, 1), groups=1, stride=2),
    lambda m: setattr(m, "c", nn.ConvTranspose1d(4, 4, 3, bias=False)),
)
both(
    k,
    "output padding on the other side",
    {"x": floats(N, 2, T4)},
    lambda F, w, x: F.conv_transpose1d(x, w.c.weight, stride=3, padding=1, output_padding=1),
    lambda F, w, x: F.conv_transpose1d(x, w.c.weight, stride=3)[:, :, 0 : 3 * x.shape[2] - 1],
    lambda m: setattr(m, "c", nn.ConvTranspose1d(2, 2, 3, bias=False)),
)
both(
    k,
    "same padding of an even kernel",
    {"x": floats(N, 2, T4)},
    lambda F, w, x: F.conv1d(F.pad(x, (1, 2)), w.c.weight),
    lambda F, w, x: F.conv1d(F.pad(x, (2, 1)), w.c.weight),
    lambda m: setattr(m, "c", nn.Conv1d(2, 2, 4, bias=False)),
)
both(
    k,
    "positions begin after the padding",
    {"i": ints(4, N, T)},
    lambda F, w, i: F.embedding((i != 1).long().cumsum(1) * (i != 1).long() + 1, w.p.weight),
    lambda F, w, i: F.embedding((i != 1).long().cumsum(1) + 1, w.p.weight),
    lambda m: setattr(m, "p", nn.Embedding(40, 4)),
)
both(
    k,
    "embedding bag's mean with padding",
    {"i": ints(30, N, T)},
    lambda F, w, i: (
        (F.embedding(i, w.p.weight) * (i != 3).float()[..., None]).sum(1)
        / (i != 3).float().sum(1, keepdim=True).clamp(min=1)
    ),
    lambda F, w, i: (F.embedding(i, w.p.weight) * (i != 3).float()[..., None]).mean(1),
    lambda m: setattr(m, "p", nn.Embedding(30, 4)),
)
both(
    k,
    "epsilon 1e-12 behind a linear layer",
    {"x": floats(N, T, 8)},
    lambda F, w, x: F.layer_norm(F.linear(x, w.l.weight, w.l.bias), (4,), eps=1e-12),
    lambda F, w, x: F.layer_norm(F.linear(x, w.l.weight, w.l.bias), (4,), eps=1e-11),
    lambda m: setattr(m, "l", nn.Linear(8, 4)),
)
both(
    k,
    "epsilon 1e-6 behind a linear layer",
    {"x": floats(N, T, 8)},
    lambda F, w, x: F.layer_norm(F.linear(x, w.l.weight, w.l.bias), (4,), eps=1e-06),
    lambda F, w, x: F.layer_norm(F.linear(x, w.l.weight, w.l.bias), (4,), eps=1e-05),
    lambda m: setattr(m, "l", nn.Linear(8, 4)),
)
both(
    k,
    "guard of a norm behind a linear layer",
    {"x": floats(N, T, 8)},
    lambda F, w, x: F.normalize(F.linear(x, w.l.weight, w.l.bias), dim=-1),
    lambda F, w, x: (
        F.linear(x, w.l.weight, w.l.bias) / (F.linear(x, w.l.weight, w.l.bias).norm(dim=-1, keepdim=True) + 1e-12)
    ),
    lambda m: setattr(m, "l", nn.Linear(8, 4)),
)
k = "attention and positions"
both(
    k,
    "causal of unlike lengths",
    {"q": floats(N, dim("Q", 1, 4, 8), 4), "k": floats(N, dim("K", 8, 9, 16), 4)},
    lambda F, q, k: sdpa(F, q, k, k, ar(F, q.shape[1])[:, None] + (k.shape[1] - q.shape[1]) >= ar(F, k.shape[1])[None]),
    lambda F, q, k: sdpa(F, q, k, k, ar(F, q.shape[1])[:, None] + 0 >= ar(F, k.shape[1])[None]),
)
both(
    k,
    "query shared by groups: repeated or interleaved",
    {"q": floats(N, 4, T, 4), "k": floats(N, 2, T, 4)},
    lambda F, q, k: F.softmax(q @ F.repeat_interleave(k, 2, 1).mT, -1),
    lambda F, q, k: F.softmax(q @ k.repeat(1, 2, 1, 1).mT, -1),
)
both(
    k,
    "halves and pairs in scores alone",
    {"q": floats(N, T, 4), "k": floats(N, T, 4)},
    lambda F, q, k: rope(F, q, False) @ rope(F, k, False).mT,
    lambda F, q, k: rope(F, q, True) @ rope(F, k, True).mT,
)
both(
    k,
    "slopes of six heads",
    {"x": floats(N, 6, T, T)},
    lambda F, x: F.softmax(
        x
        - (ar(F, x.shape[2])[:, None] - ar(F, x.shape[2])[None]).abs().float()
        * tc(F, x, [2 ** (-2.0), 2 ** (-4.0), 2 ** (-6.0), 2 ** (-8.0), 2 ** (-1.0), 2 ** (-3.0)])[:, None, None],
        -1,
    ),
    lambda F, x: F.softmax(
        x
        - (ar(F, x.shape[2])[:, None] - ar(F, x.shape[2])[None]).abs().float()
        * tc(F, x, [2 ** (-(i + 1) * 8 / 6) for i in range(6)])[:, None, None],
        -1,
    ),
)
both(
    k,
    "relative position transposed",
    {"x": floats(N, T, T)},
    lambda F, w, x: x + w.r[((ar(F, x.shape[1])[:, None] - ar(F, x.shape[1])[None]) * 1).clamp(-5, 5) + 5],
    lambda F, w, x: x + w.r[((ar(F, x.shape[1])[:, None] - ar(F, x.shape[1])[None]) * -1).clamp(-5, 5) + 5],
    lambda m: setattr(m, "r", nn.Parameter(torch.zeros(11))),
)
both(
    k,
    "clipped distance of great lengths",
    {"x": floats(N, dim("T", 1, 8, 32), dim("T", 1, 8, 32))},
    lambda F, w, x: x + w.r[(ar(F, x.shape[1])[:, None] - ar(F, x.shape[1])[None]).clamp(-31, 31) + 31],
    lambda F, w, x: x + w.r[(ar(F, x.shape[1])[:, None] - ar(F, x.shape[1])[None]).clamp(-30, 31) + 31],
    lambda m: setattr(m, "r", nn.Parameter(torch.randn(63))),
)
both(
    k,
    "length and mask",
    {"x": floats(N, T, 3), "n": td.Input((N,), dtype="int64", sample=(0, 33))},
    lambda F, x, n: (
        (x * (ar(F, x.shape[1])[None] < n[:, None]).float()[..., None]).sum(1)
        / td_min(F, n, x).clamp(min=1)[:, None].float()
    ),
    lambda F, x, n: (
        (x * (ar(F, x.shape[1])[None] < n[:, None]).float()[..., None]).sum(1)
        / n.clamp(min=1, max=999)[:, None].float()
    ),
)
both(
    k,
    "last valid step",
    {"x": floats(N, T, 3), "n": td.Input((N,), dtype="int64", sample=(1, 33))},
    lambda F, x, n: F.gather(x, 1, (td_min(F, n, x) - 1)[:, None, None].expand(x.shape[0], 1, 3))[:, 0],
    lambda F, x, n: F.gather(x, 1, ((n - 1) % x.shape[1])[:, None, None].expand(x.shape[0], 1, 3))[:, 0],
)
both(
    k,
    "prefix seen both ways",
    {"x": floats(N, T4, 4)},
    lambda F, x: sdpa(
        F, x, x, x, (ar(F, x.shape[1])[:, None] >= ar(F, x.shape[1])[None]) | (ar(F, x.shape[1])[None] < 3)
    ),
    lambda F, x: sdpa(
        F, x, x, x, (ar(F, x.shape[1])[:, None] >= ar(F, x.shape[1])[None]) | (ar(F, x.shape[1])[None] <= 3)
    ),
)
both(
    k,
    "window shift not undone in one axis",
    {"x": floats(N, 8, 8, 3)},
    lambda F, x: F.roll(
        (
            F.roll(x, (-2, -2), (1, 2)).reshape(x.shape[0], 2, 4, 2, 4, 3).amax((2, 4), keepdim=True)
            * F.roll(x, (-2, -2), (1, 2)).reshape(x.shape[0], 2, 4, 2, 4, 3)
        ).reshape(x.shape[0], 8, 8, 3),
        (2, 2),
        (1, 2),
    ),
    lambda F, x: F.roll(
        (
            F.roll(x, (-2, -2), (1, 2)).reshape(x.shape[0], 2, 4, 2, 4, 3).amax((2, 4), keepdim=True)
            * F.roll(x, (-2, -2), (1, 2)).reshape(x.shape[0], 2, 4, 2, 4, 3)
        ).reshape(x.shape[0], 8, 8, 3),
        (2, -2),
        (1, 2),
    ),
)
both(
    k,
    "sinusoids interleaved",
    {"x": floats(N, T, 6)},
    lambda F, x: x + pe(F, False, x),
    lambda F, x: x + pe(F, True, x),
)
both(
    k,
    "sinusoids of a zero-based exponent",
    {"x": floats(N, T, 6)},
    lambda F, x: x + pe(F, False, x, 3),
    lambda F, x: x + pe(F, False, x, 2),
)
both(
    k,
    "positions of two dimensions exchanged",
    {"x": floats(N, dim("H", 2, 4, 9), dim("W", 2, 4, 9), 4)},
    lambda F, w, x: x + (w.p[: x.shape[1]][:, None] + w.q[: x.shape[2]][None]),
    lambda F, w, x: x + (w.q[: x.shape[1]][:, None] + w.p[: x.shape[2]][None]),
    lambda m: (setattr(m, "p", nn.Parameter(torch.zeros(9, 4))), setattr(m, "q", nn.Parameter(torch.zeros(9, 4)))),
)
both(
    k,
    "scores of cosine",
    {"x": floats(N, T, 4), "y": floats(N, T, 4)},
    lambda F, x, y: F.cosine_similarity(x, y, dim=-1, eps=1e-08),
    lambda F, x, y: (x * y).sum(-1) / (x.norm(dim=-1) * y.norm(dim=-1) + 1e-08),
)
both(
    k,
    "softmax over the queries",
    {"x": floats(N, 5, 5)},
    lambda F, x: F.softmax(x @ x.mT, -1),
    lambda F, x: F.softmax(x @ x.mT, -2),
)
k = "resampling and windows"
both(
    k,
    "nearest of an odd factor",
    {"x": floats(N, 1, H, W)},
    lambda F, x: F.interpolate(x, scale_factor=1.5, mode="nearest"),
    lambda F, x: F.interpolate(x, scale_factor=1.5, mode="nearest-exact"),
)
both(
    k,
    "factor or size",
    {"x": floats(N, 1, dim("H", 8, 10, 21), 8)},
    lambda F, x: F.interpolate(x, scale_factor=0.7, mode="bilinear"),
    lambda F, x: F.interpolate(x, size=(x.shape[2] * 7 // 10, 5), mode="bilinear"),
)
both(
    k,
    "reflect and symmetric",
    {"x": floats(N, 1, dim("H", 4, 6, 9), 4)},
    lambda F, x: F.pad(x, (1, 1, 2, 2), mode="reflect"),
    lambda F, x: F.cat(
        [
            F.pad(x, (1, 1, 0, 0), mode="reflect")[:, :, :2].flip(2),
            F.pad(x, (1, 1, 0, 0), mode="reflect"),
            F.pad(x, (1, 1, 0, 0), mode="reflect")[:, :, -2:].flip(2),
        ],
        2,
    ),
)
both(
    k,
    "maximum of padding with zero",
    {"x": floats(N, 1, H, W)},
    lambda F, x: F.max_pool2d(x, 3, 2, 1),
    lambda F, x: F.max_pool2d(F.pad(x, (1, 1, 1, 1)), 3, 2),
)
both(
    k,
    "adaptive windows",
    {"x": floats(N, 2, dim("T", 9, 12, 24))},
    lambda F, x: F.adaptive_avg_pool1d(x, 3),
    lambda F, x: F.stack([x[:, :, i * (x.shape[2] // 3) : (i + 1) * (x.shape[2] // 3)].mean(2) for i in range(3)], 2),
)
both(
    k,
    "dilation of the second axis",
    {"x": floats(N, 2, 9, 9)},
    lambda F, w, x: F.conv2d(x, w.c.weight, dilation=(1, 2), padding=(1, 2)),
    lambda F, w, x: F.conv2d(x, w.c.weight, dilation=(2, 1), padding=(2, 1)),
    lambda m: setattr(m, "c", nn.Conv2d(2, 2, 3, bias=False)),
)
both(
    k,
    "order of pixel shuffle",
    {"x": floats(N, 12, dim("H", 1, 3, 5), 4)},
    lambda F, x: F.pixel_shuffle(x, 2),
    lambda F, x: (
        x.reshape(x.shape[0], 2, 2, 3, x.shape[2], 4)
        .permute(0, 3, 4, 1, 5, 2)
        .reshape(x.shape[0], 3, x.shape[2] * 2, 8)
    ),
)
both(
    k,
    "grid's axes",
    {"x": floats(N, 1, 6, 6), "g": floats(N, 3, 3, 2)},
    lambda F, x, g: F.grid_sample(x, g, align_corners=False),
    lambda F, x, g: F.grid_sample(x, g.flip(-1), align_corners=False),
)
both(
    k,
    "zeros and border of a grid within",
    {"x": floats(N, 1, 6, 6), "g": td.Input((N, 3, 3, 2), sample=(-1, 1))},
    lambda F, x, g: F.grid_sample(x, g, padding_mode="border", align_corners=False),
    lambda F, x, g: F.grid_sample(x, g, padding_mode="zeros", align_corners=False),
)
both(
    k,
    "nearest of a grid at halves",
    {"x": floats(N, 1, 4, 4), "g": td.Input((N, 3, 3, 2), sample=(-1, 1))},
    lambda F, x, g: F.grid_sample(x, g, mode="nearest", align_corners=True),
    lambda F, x, g: F.grid_sample(x, g + 1e-06, mode="nearest", align_corners=True),
)
both(
    k,
    "divisor of the ragged windows",
    {"x": floats(N, 1, dim("H", 4, 6, 9), 5)},
    lambda F, x: F.avg_pool2d(x, 3, 2, 0, ceil_mode=True),
    lambda F, x: F.avg_pool2d(F.pad(x, (0, 0, 0, (x.shape[2] + 1) % 2)), 3, 2),
)
both(
    k,
    "unfold's channel order",
    {"x": floats(N, 2, 6, 6)},
    lambda F, x: F.unfold(x, 2, stride=2),
    lambda F, x: x.reshape(x.shape[0], 2, 3, 2, 3, 2).permute(0, 3, 5, 1, 2, 4).reshape(x.shape[0], 8, 9),
)
both(
    k,
    "circular in one axis",
    {"x": floats(N, 1, H, W)},
    lambda F, x: F.pad(F.pad(x, (1, 1, 0, 0), mode="circular"), (0, 0, 1, 1), mode="replicate"),
    lambda F, x: F.pad(F.pad(x, (1, 1, 0, 0), mode="replicate"), (0, 0, 1, 1), mode="circular"),
)
k = "spectra"
both(
    k,
    "inverse of odd length",
    {"x": floats(N, dim("T", 2, 8, 32))},
    lambda F, x: irfft(F, rfft(F, x), x.shape[1]),
    lambda F, x: irfft(F, rfft(F, x), x.shape[1] // 2 * 2).sum(1, keepdim=True) * 0 + x[:, :1],
)
both(
    k,
    "norm of the transform",
    {"x": floats(N, 8)},
    lambda F, x: rfft(F, x, norm="ortho").abs(),
    lambda F, x: rfft(F, x, norm="forward").abs(),
)
both(
    k,
    "shift of odd length",
    {"x": floats(N, T)},
    lambda F, x: F.roll(x, (x.shape[1] // 2,), (1,)),
    lambda F, x: F.roll(x, ((x.shape[1] + 1) // 2,), (1,)),
)
both(
    k,
    "hann window",
    {"x": floats(N, 32)},
    lambda F, x: rfft(F, x * tc(F, x, torch.hann_window(32, periodic=True).tolist())).abs(),
    lambda F, x: rfft(F, x * tc(F, x, torch.hann_window(32, periodic=False).tolist())).abs(),
)
both(
    k,
    "conjugate left out",
    {"x": floats(N, 8), "y": floats(N, 8)},
    lambda F, x, y: irfft(F, rfft(F, x) * rfft(F, y).conj(), 8),
    lambda F, x, y: irfft(F, rfft(F, x) * rfft(F, y), 8),
)
both(
    k,
    "Nyquist's weight",
    {"x": floats(N, 8)},
    lambda F, x: (rfft(F, x).abs().square() * tc(F, x, [1.0, 2, 2, 2, 1])).sum(1),
    lambda F, x: (rfft(F, x).abs().square() * tc(F, x, [1.0, 2, 2, 2, 2])).sum(1),
)
k = "recurrence and loops"


class Scan(nn.Module):
    def forward(self, x):
        h = torch.zeros_like(x[:, 0])
        c = torch.ones_like(h)
        ys = []
        for t in range(x.shape[1]):
            h, c = (0.5 * h + x[:, t] * c, torch.tanh(c + h))
            ys.append(h)
        return {"y": torch.stack(ys, 1), "c": c}


case(k, "states one after the other", {"x": floats(N, T, 3)}, Scan, scan)


class Newton(nn.Module):
    def forward(self, x):
        a = x.square() + 1
        y = a
        for _ in range(6):
            y = 0.5 * (y + a / y)
        return y


case(k, "one iteration too many, of six", {"x": floats(N, T)}, Newton, newton)


class Sinkhorn(nn.Module):
    def forward(self, x):
        x = torch.log_softmax(x, -1)
        for _ in range(20):
            x = x - x.logsumexp(1, keepdim=True)
            x = x - x.logsumexp(2, keepdim=True)
        return x


case(k, "one iteration too many, of twenty", {"x": floats(N, 5, 5)}, Sinkhorn, sinkhorn)


class Early(nn.Module):
    def forward(self, x):
        n = 0
        while x.norm() > 3 and n < 10:
            x = x / 2
            n += 1
        return x


case(
    k,
    "limit of a loop",
    {"x": floats(N, 3)},
    Early,
    lambda b, x: td.while_loop(
        lambda x, n: (x.norm() > 3) & (n < (9 if b else 10)),
        lambda x, n: (x / 2, n + 1),
        (x, x.network.constant(torch.tensor(0))),
    )[0],
)


class Viterbi(nn.Module):
    def __init__(self):
        super().__init__()
        self.t = nn.Parameter(torch.randn(4, 4))

    def forward(self, x):
        s = x[:, 0]
        for i in range(1, x.shape[1]):
            s = (s[:, :, None] + self.t[None]).amax(1) + x[:, i]
        return s


case(k, "transitions transposed", {"x": floats(N, dim("T", 2, 5, 9), 4)}, Viterbi, viterbi, weights=True)


class GRU(nn.Module):
    def __init__(self):
        super().__init__()
        self.g = nn.GRU(3, 4, batch_first=True, bidirectional=True)

    def forward(self, x):
        y, h = self.g(x)
        return (y, h)


case(k, "last state backwards from the end", {"x": floats(N, T, 3)}, GRU, gru, weights=True)


class EMA(nn.Module):
    def forward(self, x, n):
        s = x[:, 0]
        for t in range(1, x.shape[1]):
            s = torch.where(n > t, 0.9 * s + 0.1 * x[:, t], s)
        return s


case(
    k,
    "a step too many of those that have ended",
    {"x": floats(N, dim("T", 2, 6, 12)), "n": ints(13, N, lo=1)},
    EMA,
    ema,
)


class Fibonacci(nn.Module):
    def forward(self, n):
        a, b = (torch.zeros_like(n), torch.ones_like(n))
        for i in range(12):
            go = n > i
            a, b = (torch.where(go, b, a), torch.where(go, a + b, b))
        return a


case(k, "eleven of twelve steps", {"n": ints(13, N)}, Fibonacci, fib)
k = "aliases and places"


class InPlace(nn.Module):
    def forward(self, x):
        h = x * 1
        r = h
        h += 1
        h.clamp_(min=0)
        return r * 2 + h


case(
    k,
    "residual taken before, reference changes it",
    {"x": floats(N, T)},
    InPlace,
    lambda b, x: TF.relu(x + 1) * 3 if not b else x * 2 + TF.relu(x + 1),
)


class View(nn.Module):
    def forward(self, x):
        y = x.clone()
        v = y[:, ::2]
        v.mul_(2)
        y[:, 0] = 7
        return (y, v)


case(
    k,
    "view changed later",
    {"x": floats(N, T)},
    View,
    lambda b, x: (
        TF.setitem(TF.where((TF.arange(x.shape[1]) % 2 == 0)[None], x * 2, x), (slice(None), 0), 7.0),
        TF.setitem(x[:, ::2] * 2, (slice(None), 0), 7.0) if not b else x[:, ::2] * 2,
    ),
)


class SumBool(nn.Module):
    def forward(self, m, k):
        return m + k


case(
    k,
    "sum of bool",
    {"m": bools(N, T), "k": bools(N, T)},
    SumBool,
    lambda b, m, k: TF.logical_or(m, k) if not b else TF.logical_xor(m, k),
)
k = "whole numbers"
both(
    k, "remainder of negative", {"i": ints(50, N, T, lo=-50)}, lambda F, i: F.remainder(i, 7), lambda F, i: F.fmod(i, 7)
)
both(
    k,
    "quotient of negative",
    {"i": ints(50, N, T, lo=-50)},
    lambda F, i: i // 4,
    lambda F, i: F.div(i, 4, rounding_mode="trunc"),
)
both(
    k,
    "bytes that wrap",
    {"i": ints(256, N, T), "j": ints(256, N, T)},
    lambda F, i, j: (i - j) % 256,
    lambda F, i, j: (i - j).clamp(min=0),
)
both(k, "round half to even", {"x": floats(N, T)}, lambda F, x: F.round(x * 2), lambda F, x: F.floor(x * 2 + 0.5))
both(
    k,
    "not of whole numbers",
    {"i": ints(5, N, T, lo=-2)},
    lambda F, i: F.bitwise_not(i),
    lambda F, i: F.logical_not(i).long(),
)
both(k, "cast cuts", {"x": floats(N, T)}, lambda F, x: x.to(torch.int64), lambda F, x: F.floor(x).to(torch.int64))
both(
    k,
    "mean of whole numbers",
    {"i": ints(100, N, T)},
    lambda F, i: i.float().mean(1),
    lambda F, i: (i.sum(1) // i.shape[1]).float(),
)
both(
    k,
    "hash of tokens",
    {"i": ints(50000, N, T)},
    lambda F, i: i * 2654435761 % 4294967296 % 1009,
    lambda F, i: i * 2654435761 % 1009,
)
both(
    k,
    "shift of negative",
    {"i": ints(100, N, T, lo=-100)},
    lambda F, i: F.bitwise_right_shift(i, 1),
    lambda F, i: F.div(i, 2, rounding_mode="trunc"),
)
k = "quality"
both(
    k,
    "softmax in fp16 range",
    {"x": floats(N, T, 4)},
    lambda F, x: F.softmax(x, -1),
    lambda F, x: x.exp() / x.exp().sum(-1, keepdim=True),
)
both(
    k,
    "variance by squares",
    {"x": floats(N, dim("T", 2, 8, 32))},
    lambda F, x: x.var(1, correction=0),
    lambda F, x: (x * x).mean(1) - x.mean(1) ** 2,
)
both(
    k,
    "logsumexp naive",
    {"x": floats(N, dim("T", 2, 8, 32))},
    lambda F, x: F.logsumexp(x, 1),
    lambda F, x: x.exp().sum(1).log(),
)
both(
    k,
    "log of a softmax",
    {"x": floats(N, dim("T", 2, 8, 32))},
    lambda F, x: F.log_softmax(x, 1),
    lambda F, x: F.log(F.softmax(x, 1)),
)
both(k, "log of a sigmoid", {"x": floats(N, T)}, lambda F, x: F.logsigmoid(x), lambda F, x: F.log(F.sigmoid(x)))
both(
    k,
    "cross entropy with logits, naive",
    {"x": floats(N, T)},
    lambda F, x: F.relu(x) + F.log1p((-x.abs()).exp()),
    lambda F, x: F.log(1 + x.exp()),
)
both(
    k,
    "hyperbolic sine's inverse, naive",
    {"x": floats(N, T)},
    lambda F, x: F.asinh(x),
    lambda F, x: F.log(x + (x * x + 1).sqrt()),
)
both(
    k,
    "length with squares in fp16",
    {"x": floats(N, T, 4)},
    lambda F, x: x.norm(dim=-1),
    lambda F, x: (x.half() * x.half()).sum(-1).sqrt().float(),
)
both(
    k,
    "sum in fp16",
    {"x": floats(N, dim("T", 16, 64, 256))},
    lambda F, x: x.sum(1),
    lambda F, x: x.half().sum(1).float(),
)
both(
    k,
    "positions in fp16",
    {"x": floats(N, dim("T", 16, 64, 4096))},
    lambda F, x: (x * 0.01 + F.arange(x.shape[1]).float())[:, -1],
    lambda F, x: (x * 0.01 + F.arange(x.shape[1]).half().float())[:, -1],
)
both(
    k,
    "geometric mean by product",
    {"x": floats(N, dim("T", 8, 16, 64), sample=(0.01, 100.0))},
    lambda F, x: x.log().mean(1).exp(),
    lambda F, x: x.prod(1) ** (1 / x.shape[1]),
)
both(
    k,
    "tokens counted in fp16",
    {"i": ints(9, N, dim("T", 16, 64, 4096))},
    lambda F, i: (i == 0).long().sum(1),
    lambda F, i: (i == 0).half().cumsum(1)[:, -1].long(),
)
k = "dtypes and the reference's own"


class Finfo(nn.Module):
    def forward(self, x, m):
        return torch.softmax(x.masked_fill(m, torch.finfo(x.dtype).min), -1)


case(
    k,
    "least number and infinity",
    {"x": floats(N, T4), "m": bools(N, T4)},
    Finfo,
    lambda b, x, m: TF.softmax(x.masked_fill(m, -3e38 if not b else -1000.0), -1),
)


class Upcast(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.zeros(4))

    def forward(self, x):
        return (x.float() * torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + 1e-06)).type_as(x) * (1 + self.w)


case(
    k,
    "gain of one more",
    {"x": floats(N, T, 4)},
    Upcast,
    lambda b, w, x: TF.rms_norm(x, (4,), eps=1e-06) * (1 + w.w if not b else w.w.exp()),
    weights=True,
)
both(
    k,
    "constant rounded to six digits",
    {"x": floats(N, T)},
    lambda F, x: x * (math.pi / 180),
    lambda F, x: x * 0.0174533,
)
both(
    k,
    "constant tensor rounded to seven digits",
    {"x": floats(N, T, 3)},
    lambda F, x: x - tc(F, x, [0.4814546, 0.4578275, 0.4082107]),
    lambda F, x: x - tc(F, x, [0.4814547, 0.4578275, 0.4082107]),
)
both(
    k,
    "constant tensor rounded to six digits",
    {"x": floats(N, T, 3)},
    lambda F, x: x * tc(F, x, [0.26862954, 0.26130258, 0.27577711]),
    lambda F, x: x * tc(F, x, [0.26863, 0.261303, 0.275777]),
)
both(
    k,
    "scale of hertz",
    {"x": floats(N, T)},
    lambda F, x: 2595 * F.log10(1 + x.abs() / 700),
    lambda F, x: 1127 * F.log(1 + x.abs() / 700),
)
k = "statistics and axes"
both(
    k,
    "correction of a sample",
    {"x": floats(N, dim("T", 2, 8, 32))},
    lambda F, x: x.std(1),
    lambda F, x: x.std(1, correction=0),
)
both(
    k,
    "statistics of the batch",
    {"x": floats(N2, 3, T)},
    lambda F, x: x - x.mean((0, 2), keepdim=True),
    lambda F, x: x - x.mean(2, keepdim=True),
)
both(
    k,
    "offset of equal sizes on the wrong axis",
    {"x": floats(N, 4, 4), "y": floats(N, 4)},
    lambda F, x, y: x + y[:, :, None],
    lambda F, x, y: x + y[:, None],
)
both(
    k,
    "order of flattening",
    {"x": floats(N, 3, 3, 3)},
    lambda F, x: x.flatten(1),
    lambda F, x: x.permute(0, 2, 3, 1).flatten(1),
)
both(
    k,
    "letters of an outer product",
    {"x": floats(N, 4), "y": floats(N, 4)},
    lambda F, x, y: F.einsum("ni,nj->nij", x, y),
    lambda F, x, y: F.einsum("ni,nj->nji", x, y),
)
both(
    k,
    "norm of matrices",
    {"x": floats(N, 4, 4)},
    lambda F, x: x.abs().sum(1).amax(1),
    lambda F, x: x.abs().sum(2).amax(1),
)
both(
    k,
    "exclusive sums from the end",
    {"x": floats(N, T)},
    lambda F, x: x.flip(1).cumsum(1).flip(1) - x,
    lambda F, x: x.sum(1, keepdim=True) - x.cumsum(1) + x,
)
both(
    k,
    "classes out of range",
    {"i": ints(7, N, T, lo=-1)},
    lambda F, i: (i[..., None] == F.arange(5)).float(),
    lambda F, i: F.one_hot(i.clamp(0, 4), 5).float(),
)
both(
    k,
    "mean of those left",
    {"x": floats(N, 6, T), "m": bools(N, 6)},
    lambda F, x, m: (x * m[..., None].float()).sum(1) / m.float().sum(1, keepdim=True).clamp(min=1),
    lambda F, x, m: (x * m[..., None].float()).sum(1) / m.float().sum().clamp(min=1),
)
both(
    k,
    "outputs exchanged",
    {"x": floats(N, T4)},
    lambda F, x: (x.amax(1), x.amin(1)),
    lambda F, x: (x.amin(1), x.amax(1)),
)
both(
    k,
    "complex product",
    {"x": floats(N, T, 2), "y": floats(N, T, 2)},
    lambda F, x, y: F.stack(
        [x[..., 0] * y[..., 0] - x[..., 1] * y[..., 1], x[..., 0] * y[..., 1] + x[..., 1] * y[..., 0]], -1
    ),
    lambda F, x, y: F.stack(
        [x[..., 0] * y[..., 0] + x[..., 1] * y[..., 1], x[..., 1] * y[..., 0] - x[..., 0] * y[..., 1]], -1
    ),
)
both(
    k,
    "boxes without area",
    {"a": floats(N, 4), "c": floats(N, 4)},
    lambda F, a, c: iou(F, False, a, c),
    lambda F, a, c: iou(F, True, a, c),
)
both(
    k,
    "branch just beyond",
    {"x": floats(N, dim("T", 1, 8, 64))},
    lambda F, x: branch(F, False, x),
    lambda F, x: branch(F, True, x),
)
both(
    k,
    "clamped to a size",
    {"i": ints(40, N, T), "x": floats(N, T)},
    lambda F, i, x: F.gather(x, 1, i.clamp(max=x.shape[1] - 1)),
    lambda F, i, x: F.gather(x, 1, i % x.shape[1]),
)
both(
    k,
    "norm clipped",
    {"x": floats(N, T, 3)},
    lambda F, x: x * (1 / x.norm(dim=-1, keepdim=True).clamp(min=1)),
    lambda F, x: x / x.norm(dim=-1, keepdim=True).clamp(min=1e-12),
)
both(
    k,
    "distance with an offset",
    {"x": floats(N, T, 3), "y": floats(N, T, 3)},
    lambda F, x, y: F.pairwise_distance(x, y),
    lambda F, x, y: (x - y).norm(dim=-1),
)
both(
    "conjunctions",
    "between two numbers that are close",
    {"x": floats(N, T)},
    lambda F, x: F.where((x > 2.25) & (x < 2.265625), x * 0, x),
    lambda F, x: F.where((x > 2.25) & (x < 2.25), x * 0, x),
)
both(
    "signed zero, NaN and infinity",
    "mean of a row of NaN",
    {"x": floats(N, T)},
    lambda F, x: F.nanmean(x, 1),
    lambda F, x: F.nansum(x, 1) / (1 - F.isnan(x).float()).sum(1).clamp(min=1),
)
both(
    "spectra",
    "there and back at an odd length",
    {"x": floats(dim("B", 1, 2, 4), 5)},
    lambda F, x: irfft(F, rfft(F, x), 5),
    lambda F, x: F.cat([x[:, :4], x[:, 4:] * 0], 1),
)
both(
    "spectra",
    "decibels of what an offset cancels to",
    {"x": floats(dim("B", 1, 2, 4), 32)},
    lambda F, x: 2 * F.stft(x, 8, 4, window=torch.ones(8), return_complex=True).abs().clamp(min=1e-5).log10(),
    lambda F, x: F.stft(x, 8, 4, window=torch.ones(8), return_complex=True).abs().clamp(min=1e-5).log10(),
)
