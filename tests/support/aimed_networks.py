"""Wrong networks that are aimed at the rules by which a check spares itself float64, or gives room.

Errors at great sizes alone, in samples for which float64 is not run, in integers, in exact slices beside noisy ones,
and in decisions that are not near. Beside each rule stands a right network that needs it.
"""

import torch
from torch.nn import functional as TF

import trtdsl as td
import trtdsl.functional as F

from .further_networks import WEIGHT, register

WRONG, RIGHT = {}, {}
wrong, right = register(WRONG), register(RIGHT)

N = td.Dim("N", min=1, opt=4, max=16)
X = {"x": (N, 64)}


def mixed(x):
    return TF.gelu(TF.linear(x, WEIGHT))


def ours(x):
    return F.gelu(F.linear(x, WEIGHT))


def rows(x, first, last=99):
    """True for the samples from the first to the last, (N, 1)."""
    places = F.arange(x.shape[0])
    return ((places >= first) & (places <= last)).reshape(-1, 1)


def scaled(x, which, part):
    """The values with a relative error in some rows."""
    return F.where(which, x * (1 + part), x)


# -- at great sizes, and in samples beyond the first ones --------------------------------------------------------------
right("a layer and its activation", ours, mixed, **X)
wrong("the ninth sample and those after it are off by 1e-5", lambda x: scaled(ours(x), rows(x, 8), 1e-5), mixed, **X)
wrong("the ninth sample is off by 3e-6", lambda x: scaled(ours(x), rows(x, 8, 8), 3e-6), mixed, **X)
wrong("the last of sixteen is off by 1e-5", lambda x: scaled(ours(x), rows(x, 15), 1e-5), mixed, **X)
wrong("the second of two is off by 1e-5", lambda x: scaled(ours(x), rows(x, 1, 1), 1e-5), mixed, **X)
wrong(
    "one channel of the sixth sample is off by 1e-4",
    lambda x: scaled(ours(x), rows(x, 5, 5) & (F.arange(64) == 17), 1e-4),
    mixed,
    **X,
)
wrong(
    "negative values of the samples after the first quarter leak",
    lambda x: F.where(rows(x, 4), F.leaky_relu(F.linear(x, WEIGHT), 1e-4), F.relu(F.linear(x, WEIGHT))),
    lambda x: TF.relu(TF.linear(x, WEIGHT)),
    **X,
)
wrong(
    "two of the later samples exchanged",
    lambda x: F.where(rows(x, 6, 6), F.roll(ours(x), 1, 0), F.where(rows(x, 5, 5), F.roll(ours(x), -1, 0), ours(x))),
    mixed,
    **X,
)
wrong(
    "a small sample beside great ones is off by 1e-4",
    lambda x: scaled(ours(x) * F.where(rows(x, 7, 7), 1e-5, 1.0), rows(x, 7, 7), 1e-4),
    lambda x: mixed(x) * torch.where(torch.arange(len(x)) == 7, 1e-5, 1.0)[:, None],
    **X,
)
wrong(
    "a mean over the batch at great sizes",
    lambda x: ours(x) + F.where(rows(x, 12), ours(x).mean(0, keepdim=True) * 1e-4, 0.0),
    mixed,
    **X,
)
# -- exact slices beside noisy ones ------------------------------------------------------------------------------------
NOISY = {"x": (N, 8, 16)}


def noisy(x):
    return torch.cat([x[:, :1], (x[:, 1:] + 300.0) - 300.0], 1)


def ours_noisy(x, part=0.0, which=None):
    first = x[:, :1] if which is None else F.where(which, x[:, :1] * (1 + part), x[:, :1])
    return F.cat([first, (x[:, 1:] + 300.0) - 300.0], 1)


right("an exact channel beside noisy ones", ours_noisy, noisy, **NOISY)
wrong(
    "an exact channel is off by 1e-4 beside ones with an error of 1e-5",
    lambda x: ours_noisy(x, 1e-4, F.arange(16) >= 0),
    noisy,
    **NOISY,
)
wrong(
    "an exact channel is off by 1e-4 in the later samples",
    lambda x: ours_noisy(x, 1e-4, rows(x, 8).reshape(-1, 1, 1)),
    noisy,
    **NOISY,
)
wrong("an exact channel is off by 3e-6", lambda x: ours_noisy(x, 3e-6, F.arange(16) >= 0), noisy, **NOISY)

# -- integers and bool -------------------------------------------------------------------------------------------------
right("integers of sums", lambda x: (ours(x) * 100).to(torch.int64), lambda x: (mixed(x) * 100).long(), **X)
wrong(
    "integers off by one in the later samples",
    lambda x: (ours(x) * 100).to(torch.int64) + F.where(rows(x, 4), 1, 0),
    lambda x: (mixed(x) * 100).long(),
    **X,
)
wrong(
    "every third integer off by one",
    lambda x: (ours(x) * 100).to(torch.int64) + F.where(F.arange(64) % 3 == 0, 1, 0),
    lambda x: (mixed(x) * 100).long(),
    **X,
)
wrong(
    "one integer off by one",
    lambda x: (ours(x) * 100).to(torch.int64) + F.where(rows(x, 0, 0) & (F.arange(64) == 40), 1, 0),
    lambda x: (mixed(x) * 100).long(),
    **X,
)
right("an order of sums", lambda x: ours(x).argsort(1), lambda x: mixed(x).argsort(1), **X)
wrong(
    "half of an order in the later samples reversed",
    lambda x: F.where(rows(x, 8) & (F.arange(64) < 32), ours(x).argsort(1).flip(1), ours(x).argsort(1)),
    lambda x: mixed(x).argsort(1),
    **X,
)
wrong(
    "two neighbours of an order exchanged",
    lambda x: F.cat([ours(x).argsort(1)[:, p : p + 1] for p in (1, 0, *range(2, 64))], 1),
    lambda x: mixed(x).argsort(1),
    **X,
)
right("a mask near a bound", lambda x: ours(x) > 0.3, lambda x: mixed(x) > 0.3, **X)
wrong("a bound off by 1e-2", lambda x: ours(x) > 0.31, lambda x: mixed(x) > 0.3, **X)
wrong("a mask of one sample inverted", lambda x: (ours(x) > 0.3) ^ rows(x, 9, 9), lambda x: mixed(x) > 0.3, **X)
wrong("a mask that is never", lambda x: (ours(x) > 0.3) & rows(x, 0, 7), lambda x: mixed(x) > 0.3, **X)

# -- decisions ---------------------------------------------------------------------------------------------------------
wrong(
    "a class preferred by 1e-2",
    lambda x: (ours(x) + F.where(F.arange(64) == 3, 1e-2, 0.0)).topk(5, 1)[1],
    lambda x: mixed(x).topk(5, 1)[1],
    **X,
)
wrong(
    "rounding with an offset of 1e-2", lambda x: F.floor(ours(x) * 10 + 1e-2), lambda x: torch.floor(mixed(x) * 10), **X
)
wrong("halves rounded up", lambda x: F.floor(x + 0.5), lambda x: torch.round(x), **X)
right("halves rounded to even", lambda x: F.round(x), lambda x: torch.round(x), **X)
wrong(
    "the best of another sample",
    lambda x: F.where(rows(x, 8), F.roll(ours(x).topk(4, 1)[1], 1, 0), ours(x).topk(4, 1)[1]),
    lambda x: mixed(x).topk(4, 1)[1],
    **X,
)
