"""Wrong networks and right ones that were found by attacking the check, in a line each.

``WRONG`` and ``RIGHT`` map names to functions that give a spec and the arguments of :func:`trtdsl.check`.
"""

import torch
from torch import nn
from torch.nn import functional as TF

import trtdsl as td
import trtdsl.functional as F

from .further_networks import H, N, T, W, ints, register, seeded

WRONG, RIGHT = {}, {}
wrong, right = register(WRONG), register(RIGHT)

TABLE = seeded(10, 4)
OTHER_TABLE = torch.cat([TABLE[:9], TABLE[9:] * 1.5])
WEIGHT = seeded(64, 64, seed=1) / 8
OTHER = torch.cat([WEIGHT[:5], WEIGHT[5:6] * 1.05, WEIGHT[6:]])

# -- small errors, and functions that are nearly the same --------------------------------------------------------------
wrong("rel 1e5", lambda x: x * 1.00001, lambda x: x * 1.0, x=(4, 32))
wrong("rel 3e6", lambda x: x * 1.000003, lambda x: x * 1.0, x=(4, 32))
wrong("add tiny", lambda x: x + 1e-5, lambda x: x * 1.0, x=(4, 32))
wrong("one column offset", lambda x: F.cat([x[:, :1] + 1e-4, x[:, 1:]], 1), lambda x: x * 1.0, x=(4, 32))
wrong("var biased", lambda x: F.var(x, 1, correction=0), lambda x: x.var(1), x=(4, 512))
wrong(
    "std eps",
    lambda x: (x - x.mean(1, keepdim=True)) / (F.std(x, 1, keepdim=True) + 1e-6),
    lambda x: (x - x.mean(1, keepdim=True)) / (x.std(1, keepdim=True) + 1e-5),
    x=(4, 64),
)
wrong("gelu tanh", lambda x: F.gelu(x, approximate="tanh"), lambda x: TF.gelu(x), x=(4, 64))
wrong("bf16 gelu tanh like", lambda x: F.gelu(x) * 1.01, lambda x: TF.gelu(x), {"precision": "bf16"}, x=(4, 64))
wrong("softplus threshold", lambda x: F.log(1 + F.exp(F.clamp(x, max=10.0))), lambda x: TF.softplus(x), x=(4, 64))
wrong("leaky slope", lambda x: F.leaky_relu(x, 0.011), lambda x: TF.leaky_relu(x, 0.01), x=(4, 64))
wrong("elu alpha tail", lambda x: F.elu(x) + F.relu(-x - 5) * 1e-3, lambda x: TF.elu(x), x=(4, 64))
wrong("hardswish is silu", lambda x: F.silu(x), lambda x: TF.hardswish(x), x=(4, 64))
wrong("log no eps", lambda x: F.log(F.abs(x) + 1e-7), lambda x: torch.log(x.abs() + 1e-8), x=(4, 64))
wrong(
    "rsqrt eps place",
    lambda x: x / (F.sqrt((x * x).mean(1, keepdim=True)) + 1e-6),
    lambda x: x * torch.rsqrt((x * x).mean(1, keepdim=True) + 1e-6),
    x=(4, 64),
)
wrong(
    "normalize eps",
    lambda x: x / (F.vector_norm(x, dim=1, keepdim=True) + 1e-12),
    lambda x: TF.normalize(x, dim=1, eps=1e-4),
    x=(4, 64),
)
wrong(
    "max nan",
    lambda x: F.where(x != x, F.zeros_like(x), x),
    lambda x: x * 1.0 / torch.where(x == 0, x, torch.ones_like(x)),
    x=(4, 64),
)
wrong("inf sign", lambda x: 1 / F.abs(x), lambda x: 1 / x.abs() * torch.where(x == 0, -1.0, 1.0), x=(4, 64))
# -- indices -----------------------------------------------------------------------------------------------------------
wrong(
    "argmax last tie",
    lambda x: 7 - F.argmax(F.flip(x, (1,)), 1),
    lambda x: x.sort(dim=1, descending=True, stable=True).indices[:, 0],
    x=(16, 8),
)
wrong(
    "gather shift",
    lambda x, i: F.gather(x, 1, F.clamp(i + 1, max=7)),
    lambda x, i: x.gather(1, i),
    x=(4, 8),
    i=ints((4, 3), 0, 8),
)
wrong("embedding pad", lambda i: F.embedding(i, OTHER_TABLE), lambda i: TF.embedding(i, TABLE), i=ints((4, 6), 0, 10))
wrong("one hot last", lambda i: F.one_hot(F.clamp(i, max=8), 10), lambda i: TF.one_hot(i, 10), i=ints((4, 30), 0, 10))
wrong("mod negative", lambda i: i - (i // 3) * 3 + 0 * i, lambda i: torch.fmod(i, 3), i=ints((4, 8), -9, 9))
wrong(
    "int div trunc",
    lambda i: F.div(i, 2, rounding_mode="trunc"),
    lambda i: torch.div(i, 2, rounding_mode="floor"),
    i=ints((4, 8), -9, 9),
)
wrong("int last value", lambda i: F.where(i == 99, F.zeros_like(i), i), lambda i: i + 0, i=ints((2, 3), 0, 100))
# -- structure and dtypes ----------------------------------------------------------------------------------------------
wrong("swapped outputs same shape", lambda x: (x + 1, x * 2), lambda x: (x * 2, x + 1), x=(4, 8))
wrong("extra output", lambda x: {"y": x * 2, "z": x}, lambda x: {"y": x * 2}, x=(4, 8))
wrong("wrong dtype", lambda x: F.argmax(x, 1).to(torch.int32), lambda x: x.argmax(1), x=(4, 8))
wrong("shape 1", lambda x: x.sum(1, keepdim=True), lambda x: x.sum(1), x=(4, 8))
wrong("squeeze at 1", lambda x: x.sum(1), lambda x: x.sum(1).squeeze(0) if x.shape[0] == 1 else x.sum(1), x=(N, 8))
wrong("none output", lambda x: {"y": x * 2}, lambda x: {"y": x * 2, "loss": x.sum()}, x=(4, 8))
wrong("number output", lambda x: {"y": x * 2}, lambda x: {"y": x * 2, "n": 3}, x=(4, 8))
# -- sizes -------------------------------------------------------------------------------------------------------------
wrong("ceil mode", lambda x: F.max_pool2d(x, 2, 2), lambda x: TF.max_pool2d(x, 2, 2, ceil_mode=True), x=(1, 2, H, 8))
wrong("only at odd", lambda x: x * 1.0, lambda x: x + (1e-2 if x.shape[0] % 2 else 0), x=(N, 8))
wrong("H vs W", lambda x: F.mean(x, (2, 3)) * x.shape[2] * x.shape[2], lambda x: x.sum((2, 3)), x=(1, 2, H, W))
wrong(
    "batch mix",
    lambda x: x - x.mean(0, keepdim=True),
    lambda x: x - x.mean(0, keepdim=True) * (1 if x.shape[0] < 16 else 1.001),
    x=(N, 8),
)
wrong("T over 32", lambda x: x.cumsum(1), lambda x: torch.cat([x[:, :32].cumsum(1), x[:, 32:].cumsum(1)], 1), x=(2, T))
wrong(
    "prime T",
    lambda x: x * 1.0,
    lambda x: x * (2.0 if x.shape[1] in (3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37) else 1.0),
    x=(2, T),
)
wrong("N ge 3", lambda x: x * 1.0, lambda x: x * (2.0 if x.shape[0] == 3 else 1.0), x=(td.Dim("N", min=1, max=5), 4))
wrong(
    "interp half",
    lambda x: F.interpolate(x, scale_factor=0.5, mode="nearest"),
    lambda x: TF.interpolate(x, size=((x.shape[2] + 1) // 2, x.shape[3] // 2), mode="nearest"),
    x=(1, 2, H, 8),
)
wrong("pad mode", lambda x: F.pad(x, (1, 1)), lambda x: TF.pad(x, (1, 1), mode="replicate"), x=(2, 3, T))
wrong("causal off by one", lambda x: F.tril(x, diagonal=0), lambda x: torch.tril(x, diagonal=1), x=(2, T, T))


# -- attention and masks -----------------------------------------------------------------------------------------------
def attention(x, m, value):
    return torch.softmax((x @ x.transpose(1, 2)).masked_fill(~m[:, None, :], value), -1) @ x


wrong(
    "mask value small",
    lambda x, m: F.matmul(
        F.softmax(F.masked_fill(F.matmul(x, x.transpose(1, 2)), F.logical_not(m).unsqueeze(1), -20.0), -1), x
    ),
    lambda x, m: attention(x, m, -1e9),
    x=(2, 5, 8),
    m=td.Input((2, 5), "bool"),
)
wrong(
    "mask inverted rare",
    lambda x, m: F.masked_fill(x, m, 0.0),
    lambda x, m: x.masked_fill(m, 0.0) + m.all() * 1.0,
    x=(4, 8),
    m=td.Input((4, 8), "bool"),
)
wrong(
    "sdpa scale",
    lambda x: F.scaled_dot_product_attention(x, x, x, scale=0.36),
    lambda x: TF.scaled_dot_product_attention(x, x, x),
    x=(2, 2, 5, 8),
)
wrong("logsoftmax dim", lambda x: F.log_softmax(x, 1), lambda x: TF.log_softmax(x, 2), x=(2, 5, 5))
wrong(
    "layernorm no affine bias",
    lambda x: F.layer_norm(x, (16,)),
    lambda x: TF.layer_norm(x, (16,), bias=torch.full((16,), 1e-4)),
    x=(4, 16),
)
wrong("temperature", lambda x: F.softmax(x / 1.001, -1), lambda x: torch.softmax(x, -1), x=(4, 16))
# -- errors beside greater values --------------------------------------------------------------------------------------
wrong(
    "small value in sum",
    lambda x: F.cat([x * 1e6, F.sigmoid(x) * 1.001], 1),
    lambda x: torch.cat([x * 1e6, torch.sigmoid(x)], 1),
    x=(4, 32),
)
wrong(
    "flat boxes scores",
    lambda x: F.cat([x[:, :40] * 640, F.sigmoid(x[:, 40:]) * 1.003], 1),
    lambda x: torch.cat([x[:, :40] * 640, torch.sigmoid(x[:, 40:])], 1),
    x=(1, 50),
)
wrong(
    "six numbers",
    lambda x: F.cat([x[:, :4] * 640, F.sigmoid(x[:, 4:]) * 1.003], 1),
    lambda x: torch.cat([x[:, :4] * 640, torch.sigmoid(x[:, 4:])], 1),
    x=(1, 6),
)
wrong(
    "mask minus 1e4", lambda x: F.where(x > 0, x * 1.002, x - 1e4), lambda x: torch.where(x > 0, x, x - 1e4), x=(4, 64)
)
wrong(
    "half outlier channel",
    lambda x: x * torch.tensor([1e3] + [1.0] * 7) * torch.tensor([1.0] + [1.02] * 7),
    lambda x: x * torch.tensor([1e3] + [1.0] * 7),
    {"precision": "fp16"},
    x=(8, 8),
)
wrong("cos cancel", lambda x: (1 - F.cos(x * 1.0)) * 1.001, lambda x: 2 * torch.sin(x / 2) ** 2, x=(4, 32))


# -- state -------------------------------------------------------------------------------------------------------------
class State(nn.Module):
    """A module that counts its calls."""

    def __init__(self):
        super().__init__()
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        return x * self.calls


wrong("python state", lambda x: x * 2, State, x=(4, 8))


class Norm(nn.Module):
    """A batch norm that does not use the batch's own statistics."""

    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(8)
        self.norm.running_var.fill_(4.0)

    def forward(self, x):
        return self.norm(x)


wrong(
    "batchnorm train",
    lambda x: (x - x.mean(0, keepdim=True)) / F.sqrt(F.var(x, 0, correction=0, keepdim=True) + 1e-5),
    Norm,
    x=(16, 8),
)
wrong("dropout ignored scale", lambda x: x * 0.5, lambda x: TF.dropout(x, 0.5, training=False), x=(4, 8))
# -- half precision ----------------------------------------------------------------------------------------------------
wrong(
    "bf16 scale 2pct",
    lambda x: F.linear(x, WEIGHT * 1.02),
    lambda x: TF.linear(x, WEIGHT),
    {"precision": "bf16"},
    x=(8, 64),
)
wrong("bf16 one weight", lambda x: F.linear(x, OTHER), lambda x: TF.linear(x, WEIGHT), {"precision": "bf16"}, x=(8, 64))
wrong(
    "fp16 bias",
    lambda x: F.linear(x, WEIGHT),
    lambda x: TF.linear(x, WEIGHT, torch.full((64,), 0.01)),
    {"precision": "fp16"},
    x=(8, 64),
)
wrong(
    "fp16 relu missing small",
    lambda x: F.linear(x, WEIGHT),
    lambda x: TF.linear(x, WEIGHT).clamp(min=-2.5),
    {"precision": "fp16"},
    x=(32, 64),
)
# -- outputs that show nothing -----------------------------------------------------------------------------------------
wrong("zero times", lambda x: x * 0.0, lambda x: torch.zeros_like(x), x=(4, 8))
wrong("all inf", lambda x: F.abs(x) / 0.0 + 1e38 * 10, lambda x: torch.full_like(x, float("inf")), x=(4, 8))
wrong("no input used", lambda x: F.ones((4, 8)), lambda x: torch.ones(4, 8), x=(4, 8))
# -- right -------------------------------------------------------------------------------------------------------------
right("softplus", lambda x: F.softplus(x), lambda x: TF.softplus(x), x=(4, 64))
right("expm1", lambda x: F.expm1(x), lambda x: torch.expm1(x), x=(4, 64))
right("log1p", lambda x: F.log1p(F.abs(x)), lambda x: torch.log1p(x.abs()), x=(4, 64))
right("gelu", lambda x: F.gelu(x), lambda x: TF.gelu(x), x=(4, 64))
right("gelu t", lambda x: F.gelu(x, approximate="tanh"), lambda x: TF.gelu(x, approximate="tanh"), x=(4, 64))
right("var", lambda x: F.var(x, 1), lambda x: x.var(1), x=(4, 512))
right("cumsum", lambda x: F.cumsum(x, 1), lambda x: x.cumsum(1), x=(4, 700))
right("logsumexp", lambda x: F.logsumexp(x, 1), lambda x: x.logsumexp(1), x=(4, 70))
right("softmax", lambda x: F.softmax(x, 1), lambda x: x.softmax(1), x=(4, 70))
right("layer norm", lambda x: F.layer_norm(x, (70,)), lambda x: TF.layer_norm(x, (70,)), x=(4, 70))
right("group norm", lambda x: F.group_norm(x, 2), lambda x: TF.group_norm(x, 2), x=(4, 4, 7, 7))
right("instance norm1", lambda x: F.instance_norm(x), lambda x: TF.instance_norm(x), x=(4, 4, 7, 7))
right(
    "sdpa",
    lambda x: F.scaled_dot_product_attention(x, x, x),
    lambda x: TF.scaled_dot_product_attention(x, x, x),
    x=(2, 2, 50, 8),
)
right("matmul", lambda x: F.matmul(x, x.transpose(1, 2)), lambda x: x @ x.transpose(1, 2), x=(2, 50, 300))
right("topk", lambda x: tuple(F.topk(x, 3, 1)), lambda x: tuple(x.topk(3, 1)), x=(4, 20))
right("argmax", lambda x: F.argmax(x, 1), lambda x: x.argmax(1), x=(4, 20))
right("argsort", lambda x: F.argsort(x, 1), lambda x: x.argsort(1), x=(4, 20))
right(
    "grid nearest",
    lambda x, g: F.grid_sample(x, g, mode="nearest", align_corners=False),
    lambda x, g: TF.grid_sample(x, g, mode="nearest", align_corners=False),
    x=(1, 2, 9, 9),
    g=(1, 6, 6, 2),
)
right(
    "grid bilinear",
    lambda x, g: F.grid_sample(x, g, align_corners=False),
    lambda x, g: TF.grid_sample(x, g, align_corners=False),
    x=(1, 2, 9, 9),
    g=(1, 6, 6, 2),
)
right(
    "interpolate",
    lambda x: F.interpolate(x, scale_factor=1.7, mode="bilinear"),
    lambda x: TF.interpolate(x, scale_factor=1.7, mode="bilinear"),
    x=(1, 2, 9, 9),
)
right(
    "bicubic",
    lambda x: F.interpolate(x, size=(20, 13), mode="bicubic"),
    lambda x: TF.interpolate(x, size=(20, 13), mode="bicubic"),
    x=(1, 2, 9, 9),
)
right("floor div", lambda x: F.floor_divide(x, 0.1), lambda x: torch.floor_divide(x, 0.1), x=(4, 20))
right("norm", lambda x: F.normalize(x, dim=1), lambda x: TF.normalize(x, dim=1), x=(4, 20))
right("sin big", lambda x: F.sin(x * 100), lambda x: torch.sin(x * 100), x=(4, 20))
right(
    "mask softmax",
    lambda x, m: F.softmax(F.masked_fill(x, m, float("-inf")), -1),
    lambda x, m: torch.softmax(x.masked_fill(m, float("-inf")), -1),
    x=(4, 20),
    m=td.Input((4, 20), "bool"),
)
right(
    "bf16 mlp",
    lambda x: F.linear(F.gelu(F.linear(x, WEIGHT)), WEIGHT),
    lambda x: TF.linear(TF.gelu(TF.linear(x, WEIGHT)), WEIGHT),
    {"precision": "bf16"},
    x=(8, 64),
)
right(
    "fp16 mlp",
    lambda x: F.softmax(F.linear(F.gelu(F.linear(x, WEIGHT)), WEIGHT), -1),
    lambda x: torch.softmax(TF.linear(TF.gelu(TF.linear(x, WEIGHT)), WEIGHT), -1),
    {"precision": "fp16"},
    x=(8, 64),
)
right(
    "bf16 ln",
    lambda x: F.layer_norm(F.linear(x, WEIGHT), (64,)),
    lambda x: TF.layer_norm(TF.linear(x, WEIGHT), (64,)),
    {"precision": "bf16"},
    x=(8, 64),
)
right(
    "bf16 argmax",
    lambda x: F.argmax(F.linear(x, WEIGHT), 1),
    lambda x: TF.linear(x, WEIGHT).argmax(1),
    {"precision": "bf16"},
    x=(100, 64),
)
right("pow", lambda x: F.pow(F.abs(x), 2.3), lambda x: x.abs() ** 2.3, x=(4, 64))
right("tan", lambda x: F.tan(x), lambda x: torch.tan(x), x=(4, 64))
right("atan2", lambda x, y: F.atan2(x, y), lambda x, y: torch.atan2(x, y), x=(4, 64), y=(4, 64))
right("prod", lambda x: F.prod(x, 1), lambda x: x.prod(1), x=(4, 20))
right("std", lambda x: F.std(x, 1), lambda x: x.std(1), x=(4, 1000))
right("int sum", lambda i: F.sum(i), lambda i: i.sum(), i=ints((4, 8), -9, 9))
right("asinh", lambda x: F.asinh(x), lambda x: torch.asinh(x), x=(4, 64))
right("erfc", lambda x: F.sigmoid(x) * F.tanh(x), lambda x: torch.sigmoid(x) * torch.tanh(x), x=(4, 64))
right("mish", lambda x: F.mish(x), lambda x: TF.mish(x), x=(4, 64))
right("logit", lambda x: F.log_softmax(x, 1), lambda x: TF.log_softmax(x, 1), x=(4, 64))
