"""Wrong networks of one who has read docs/checking.md and wants a pass: odd outputs, hidden state, scales, values."""

import collections
import dataclasses
import types

import torch
from torch import nn
from torch.nn import functional as TF

import trtdsl as td
import trtdsl.functional as F

from .further_networks import WEIGHT, ints, register

WRONG, RIGHT = {}, {}
wrong = register(WRONG)

N, T = td.Dim("N", min=1, opt=4, max=16), td.Dim("T", min=2, opt=16, max=40)
H, W = td.Dim("H", min=8, opt=32, max=64), td.Dim("W", min=8, opt=32, max=64)
FEW = td.Dim("N", min=1, opt=2, max=3)


# -- outputs that are not plain tensors --------------------------------------------------------------------------------
class Attributes:
    def __init__(self, **attributes):
        self.__dict__.update(attributes)


@dataclasses.dataclass
class Two:
    y: torch.Tensor
    z: torch.Tensor


Named = collections.namedtuple("Named", "y z")
X = {"x": (4, 8)}
wrong("an object with a second tensor", lambda x: x * 2, lambda x: Attributes(y=x * 2, z=x), **X)
wrong("a namespace with a second tensor", lambda x: x * 2, lambda x: types.SimpleNamespace(y=x * 2, z=x * 5), **X)
wrong("a generator", lambda x: (x * 2, x), lambda x: (part for part in (x * 2, x * 3)), **X)
wrong("an array of numpy", lambda x: {"y": x * 2, "z": x}, lambda x: {"y": x * 2, "z": (x * 3).numpy()}, **X)
wrong("a mapping that is no dict", lambda x: {"y": x * 2}, lambda x: collections.UserDict({"y": x * 2, "z": x}), **X)
wrong("the second field of a dataclass", lambda x: {"y": x * 2}, lambda x: Two(x * 2, x), **X)
wrong("the fields of a named tuple", lambda x: {"z": x * 2, "y": x * 3}, lambda x: Named(x * 2, x * 3), **X)
wrong("a list inside of a dict", lambda x: x * 2, lambda x: {"a": x * 2, "b": {"c": [], "d": [x]}}, **X)
wrong("names exchanged", lambda x: {"a": x, "b": x * 2}, lambda x: {"b": x, "a": x * 2}, **X)
wrong("the real part of a complex output", lambda x: x * 2, lambda x: torch.complex(x * 2, x), **X)
wrong("a sparse output", lambda x: F.relu(x) * 1.01, lambda x: torch.relu(x).to_sparse(), **X)

# -- what a reference keeps --------------------------------------------------------------------------------------------
SCALE = torch.ones(8)
MEANS: dict[tuple[int, ...], torch.Tensor] = {}
RESULTS: dict[tuple[int, ...], torch.Tensor] = {}


class Growing(nn.Module):
    """A global grows with each call."""

    def forward(self, x):
        SCALE.mul_(1.5)
        return x * SCALE


class Kept(nn.Module):
    """The mean of the first feed of each shape is kept outside of the module."""

    def forward(self, x):
        return x - MEANS.setdefault(tuple(x.shape), x.mean(0))


class Doubled(nn.Module):
    """The result for the first feed of each shape is kept outside of the module."""

    def forward(self, x):
        return RESULTS.setdefault(tuple(x.shape), x * 2)


wrong("a global that grows", lambda x: x * 1.0, Growing, **X)
wrong("a mean that is kept", lambda x: x - x.mean(0, keepdim=True), Kept, **X)
wrong("a result that is kept", lambda x: x * 2, Doubled, **X)

# -- scales ------------------------------------------------------------------------------------------------------------
wrong(
    "two columns of unlike scale and three rows",
    lambda x: F.cat([x[:, :1] * 1000, x[:, 1:] * 1.0001], 1),
    lambda x: torch.cat([x[:, :1] * 1000, x[:, 1:]], 1),
    x=(FEW, 2),
)
wrong(
    "one score beside three coordinates",
    lambda x: F.cat([x[:, :3] * 640, F.sigmoid(x[:, 3:]) * 1.00002], 1),
    lambda x: torch.cat([x[:, :3] * 640, x[:, 3:].sigmoid()], 1),
    x=(FEW, 4),
)
wrong(
    "a rotation beside a translation",
    lambda x: F.cat([x[:, :3] * 1e3, F.normalize(x[:, 3:], dim=1) * 1.0001], 1),
    lambda x: torch.cat([x[:, :3] * 1e3, TF.normalize(x[:, 3:], dim=1)], 1),
    x=(1, 7),
)
wrong("1e-7 more of each class", lambda x: F.softmax(x * 3, 1) + 1e-7, lambda x: (x * 3).softmax(1), x=(4, 1000))
wrong("rare classes cut", lambda x: F.relu(F.softmax(x * 6, 1) - 1e-7), lambda x: (x * 6).softmax(1), x=(4, 1000))
wrong(
    "small probabilities cut",
    lambda x: F.sigmoid(F.clamp(x * 10 - 30, min=-16.0)),
    lambda x: torch.sigmoid(x * 10 - 30),
    x=(4, 64),
)
wrong(
    "the logarithm of what is cut",
    lambda x: F.log(F.clamp(F.softmax(x, 1), min=1e-7)),
    lambda x: x.log_softmax(1),
    x=(4, 16),
)

# -- half precision ----------------------------------------------------------------------------------------------------
wrong(
    "quick GELU in one channel of fp16",
    lambda x: F.where(F.arange(64) == 5, x * F.sigmoid(1.702 * x), F.gelu(x)),
    lambda x: TF.gelu(x),
    {"precision": "fp16"},
    x=(4, 64),
)
wrong(
    "a mean of 0.02 left in, in bf16",
    lambda x: F.linear(x - 0.02, WEIGHT),
    lambda x: TF.linear(x, WEIGHT),
    {"precision": "bf16"},
    x=(4, 64),
)
wrong(
    "weights of seven bits in fp16",
    lambda x: F.linear(x, (WEIGHT * 32).round() / 32),
    lambda x: TF.linear(x, WEIGHT),
    {"precision": "fp16"},
    x=(4, 64),
)
wrong(
    "an epsilon of 1e-2 in bf16",
    lambda x: F.layer_norm(F.linear(x, WEIGHT), (64,), eps=1e-2),
    lambda x: TF.layer_norm(TF.linear(x, WEIGHT), (64,), eps=1e-5),
    {"precision": "bf16"},
    x=(4, 64),
)

# -- sizes -------------------------------------------------------------------------------------------------------------
wrong(
    "the greatest height at the least width",
    lambda x: x.mean((2, 3)),
    lambda x: x.mean((2, 3)) * (1 + 1e-3 * (x.shape[2] == 64 and x.shape[3] == 8)),
    x=(1, 3, H, W),
)
wrong("a great batch of long rows", lambda x: x * 1.0, lambda x: x * (1 + (x.shape[0] * x.shape[1] > 600)), x=(N, T))
wrong(
    "a batch of one",
    lambda x: x.std(1, correction=0),
    lambda x: x.std(1, correction=0) + 1e-3 * (x.shape[0] == 1),
    x=(N, 8),
)
wrong(
    "the half of an odd size",
    lambda x: x[:, : x.shape[1] // 2],
    lambda x: x[:, x.shape[1] % 2 : x.shape[1] % 2 + x.shape[1] // 2],
    x=(2, T),
)

# -- values ------------------------------------------------------------------------------------------------------------
ROWS = {"x": (4, 64)}
wrong("an epsilon under a root", lambda x: F.sqrt(F.abs(x) + 1e-12), lambda x: torch.sqrt(x.abs()), **ROWS)
wrong("another epsilon in a quotient", lambda x: x / (F.abs(x) + 1e-6), lambda x: x / (x.abs() + 1e-8), **ROWS)
wrong(
    "an epsilon outside of a root",
    lambda x: x / (F.sqrt((x * x).mean(1, keepdim=True)) + 1e-6),
    lambda x: x / torch.sqrt((x * x).mean(1, keepdim=True) + 1e-12),
    **ROWS,
)
wrong(
    "an epsilon of 1e-6 for 1e-12",
    lambda x: F.normalize(x, dim=1, eps=1e-6),
    lambda x: TF.normalize(x, dim=1, eps=1e-12),
    x=(4, 8),
)
wrong("a bound of 20 for 21", lambda x: F.clamp(x, -20.0, 20.0), lambda x: x.clamp(-20.0, 21.0), **ROWS)
wrong(
    "counts up to one",
    lambda i: F.one_hot(i, 6).sum(1).clamp(max=1),
    lambda i: TF.one_hot(i, 6).sum(1),
    i=ints((4, 3), 0, 6),
)
wrong(
    "an integer that overflows",
    lambda i: (i * i).to(torch.int32),
    lambda i: torch.clamp(i * i, max=2**31 - 1).to(torch.int32),
    i=ints((4, 8), 0, 60000),
)
wrong(
    "or for exclusive or",
    lambda a, b: a | b,
    lambda a, b: a ^ b,
    a=td.Input((4, 8), "bool"),
    b=td.Input((4, 8), "bool"),
)

# -- nothing to see ----------------------------------------------------------------------------------------------------
wrong("no number at all", lambda x: F.log(-F.abs(x) - 1), lambda x: torch.log(-x.abs() - 1), **X)
wrong(
    "a softmax of one element",
    lambda x: F.softmax(x.mean(1, keepdim=True), 1),
    lambda x: x.mean(1, keepdim=True).softmax(1),
    **X,
)
wrong("always saturated", lambda x: F.sigmoid(x * 0 + 100), lambda x: torch.sigmoid(x * 0 + 100), **X)
