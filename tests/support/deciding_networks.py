"""Networks that order, choose, compare and round values that are equal but for rounding; right ones and wrong ones.

Each scores rows and the same rows with their elements reversed. The two sums are equal, and in float32 each order of
summation makes another one of them the greater: a right network may choose either row of a pair, if it does so in all
of its outputs.
"""

import torch
from torch import nn

import trtdsl as td
import trtdsl.functional as F

from .further_networks import register, seeded

WRONG, RIGHT = {}, {}
right = register(RIGHT)

N = td.Dim("N", min=1, opt=2, max=3)


def wrong(name, ours, theirs, **inputs):
    """A wrong network, checked at one size."""
    register(WRONG)(
        name,
        ours,
        theirs,
        {"sizes": "N=2"} if any(N in getattr(shape, "shape", shape) for shape in inputs.values()) else None,
        **inputs,
    )


ROWS = {"x": (N, 6, 16)}
KEPT = 5
CODES = seeded(7, 16)
CODES = torch.cat([CODES, CODES.flip(0)])
EXPERTS = seeded(4, 16, 16, seed=1) / 4


# -- the best rows ---------------------------------------------------------------------------------------------------


def best(x, order=lambda scores: scores.topk(KEPT, 1)):
    rows = torch.cat([x, x.flip(2)], 1)
    values, places = order(rows.sum(2))
    return {"boxes": rows.gather(1, places[:, :, None].expand(-1, -1, 16)), "scores": values, "places": places}


def scored(x):
    """The rows, and their scores summed in another order than torch's."""
    rows = F.cat([x, x.flip(2)], 1)
    return rows, (rows[:, :, ::2] + rows[:, :, 1::2]).sum(2)


def best_of(x, change=lambda values, places, scores: (values, places, places)):
    rows, scores = scored(x)
    values, places, taken = change(*scores.topk(KEPT, 1), scores)
    return {"boxes": F.take_along_dim(rows, taken[:, :, None], 1), "scores": values, "places": places}


def partner(places):
    """The other row of each pair."""
    return F.where(places < 6, places + 6, places - 6)


right("the best rows, with their scores and places", best_of, best, **ROWS)
right("only the rows", lambda x: {"boxes": best_of(x)["boxes"]}, lambda x: {"boxes": best(x)["boxes"]}, **ROWS)
right("only the places", lambda x: {"places": best_of(x)["places"]}, lambda x: {"places": best(x)["places"]}, **ROWS)
wrong("the worst rows", lambda x: worst_of(x), best, **ROWS)
wrong(
    "rows that are not ordered with their scores",
    lambda x: best_of(x, lambda v, p, s: (v, p, F.arange(KEPT).expand(p.shape))),
    best,
    **ROWS,
)
wrong(
    "rows gathered one further",
    lambda x: best_of(x, lambda v, p, s: (v, p, (p + 1).clamp(max=11))),
    best,
    **ROWS,
)
wrong(
    "the other row of each pair, but its own place",
    lambda x: best_of(x, lambda v, p, s: (v, p, partner(p))),
    best,
    **ROWS,
)
wrong("a place of the other row of each pair", lambda x: best_of(x, lambda v, p, s: (v, partner(p), p)), best, **ROWS)
wrong(
    "the same row for both of a pair",
    lambda x: best_of(x, lambda v, p, s: (v, *[F.where(p < 6, p, p - 6)] * 2)),
    best,
    **ROWS,
)
wrong(
    "the last row left out for the next",
    lambda x: best_of(x, lambda v, p, s: (v, *[F.cat([p[:, :-1], s.topk(KEPT + 2, 1)[1][:, -1:]], 1)] * 2)),
    best,
    **ROWS,
)
wrong(
    "neighbours exchanged that are no pair",
    lambda x: best_of(x, lambda v, p, s: (v, *[F.cat([p[:, :1], p[:, 2:3], p[:, 1:2], p[:, 3:]], 1)] * 2)),
    best,
    **ROWS,
)
wrong(
    "an order of coarse scores",
    lambda x: best_of(x, lambda v, p, s: (v, *[(s * 2).round().topk(KEPT, 1)[1]] * 2)),
    best,
    **ROWS,
)
wrong(
    "an order of absolute scores",
    lambda x: best_of(x, lambda v, p, s: (v, *[s.abs().topk(KEPT, 1)[1]] * 2)),
    best,
    **ROWS,
)


def worst_of(x):
    rows, scores = scored(x)
    values, places = scores.topk(KEPT, 1, largest=False)
    return {"boxes": F.take_along_dim(rows, places[:, :, None], 1), "scores": values, "places": places}


# -- sorting -----------------------------------------------------------------------------------------------------------
def sums(x):
    return torch.cat([x, x.flip(2)], 1).sum(2)


right("argsort of near ties", lambda x: scored(x)[1].argsort(1), lambda x: sums(x).argsort(1), **ROWS)
right("argsort, stable", lambda x: scored(x)[1].argsort(1), lambda x: sums(x).argsort(dim=1, stable=True), **ROWS)
right("sort, descending", lambda x: F.sort(scored(x)[1], 1, True), lambda x: tuple(sums(x).sort(1, True)), **ROWS)
right("argsort along the first axis", lambda x: scored(x)[1].argsort(0), lambda x: sums(x).argsort(0), x=(8, 6, 16))
wrong("argsort the other way", lambda x: scored(x)[1].argsort(1, True), lambda x: sums(x).argsort(1), **ROWS)
wrong(
    "argsort of the values of another row",
    lambda x: scored(x)[1].argsort(1).flip(0),
    lambda x: sums(x).argsort(1),
    x=(4, 6, 16),
)
wrong(
    "places for ranks",
    lambda x: scored(x)[1].argsort(1).argsort(1),
    lambda x: sums(x).argsort(1),
    **ROWS,
)
wrong(
    "values sorted, places not",
    lambda x: (F.sort(scored(x)[1], 1)[0], F.arange(12).expand(scored(x)[1].shape)),
    lambda x: tuple(sums(x).sort(1)),
    **ROWS,
)
wrong(
    "equal values in the other order",
    lambda x: 39 - F.argsort(x.flip(1), 1),
    lambda x: x.argsort(dim=1, stable=True),
    x=(N, 40),
)
wrong(
    "the last of equals",
    lambda x: 39 - x.flip(1).argmax(1),
    lambda x: x.argmax(1),
    x=(N, 40),
)

# -- choosing ----------------------------------------------------------------------------------------------------------


def nearest_code(x):
    return CODES[(x[:, :, None] - CODES).square().sum(-1).argmin(-1)]


def nearest(x, k=0):
    distances = (x.square().sum(-1)[:, :, None] - 2 * F.matmul(x, CODES.t().contiguous())) + CODES.square().sum(-1)
    places = distances.topk(4, 2, largest=False)[1][:, :, k]
    return F.embedding(places, CODES)


def routed(x):
    scores = torch.stack([x.sum(1), x.flip(1).sum(1), x.square().mean(1), -x.sum(1)], 1)
    return torch.einsum("ni,nij->nj", x, EXPERTS[scores.argmax(1)])


def routing(x, choose=lambda scores: scores.argmax(1)):
    halves = x[:, ::2] + x[:, 1::2]
    scores = F.stack([x.sum(1), halves.sum(1), x.square().mean(1), -x.sum(1)], 1)
    chosen = F.one_hot(choose(scores), 4).to(torch.float32)
    return F.einsum("ni,eij,ne->nj", x, EXPERTS, chosen)


right("an expert for each sample", routing, routed, x=(N, 16))
wrong("the second expert", lambda x: routing(x, lambda s: s.topk(3, 1)[1][:, 2]), routed, x=(N, 16))
wrong("always the first expert", lambda x: routing(x, lambda s: s.argmax(1) * 0), routed, x=(N, 16))
right("the nearest code", nearest, nearest_code, x=(N, 5, 16))
wrong("the code after the nearest", lambda x: nearest(x, 2), nearest_code, x=(N, 5, 16))


# -- comparing and rounding --------------------------------------------------------------------------------------------
def halves(x):
    return (x[:, :, ::2] + x[:, :, 1::2]).sum(2)


right(
    "rounding down near whole numbers",
    lambda x: F.floor(halves(x * 0.1) / x.flip(2).sum(2) * 30),
    lambda x: torch.floor((x * 0.1).sum(2) / x.flip(2).sum(2) * 30),
    x=td.Input((N, 6, 16), sample=(0.5, 2.0)),
)
wrong(
    "above for below a bound",
    lambda x: F.where(halves(x)[:, :, None] > x[:, :1].sum(2)[:, :, None], -x, x),
    lambda x: torch.where(x.sum(2, keepdim=True) > x[:, :1].sum(2, keepdim=True), x, -x),
    **ROWS,
)
wrong(
    "equal counts as greater",
    lambda x: x >= 0.5,
    lambda x: x > 0.5,
    **ROWS,
)
wrong(
    "a part masked by the comparison of another",
    lambda x: F.where((halves(x) > x.flip(2).sum(2)).flip(1)[:, :, None], x, -x),
    lambda x: torch.where(x.sum(2, keepdim=True) > x.mean(), x, -x),
    **ROWS,
)
wrong(
    "rounding up near whole numbers",
    lambda x: F.ceil(halves(x * 0.1) / x.flip(2).sum(2) * 30.5),
    lambda x: torch.floor((x * 0.1).sum(2) / x.flip(2).sum(2) * 30.5),
    x=td.Input((N, 6, 16), sample=(0.5, 2.0)),
)


# -- suppression -------------------------------------------------------------------------------------------------------
class Suppressed(nn.Module):
    """Boxes in pairs that overlap, with scores that are equal but for rounding: the first of each pair remains."""

    def forward(self, x):
        values, order = torch.cat([x, x.flip(2)], 1).sum(2).topk(8, 1)
        kept = []
        for row, places in zip(values, order, strict=True):
            seen, found = set(), []
            for score, place in zip(row, places, strict=True):
                if int(place) % 6 not in seen:
                    seen.add(int(place) % 6)
                    found.append(torch.stack([score, place.to(score.dtype)]))
            kept.append(torch.stack((found + [torch.zeros(2)] * 8)[:4]))
        return torch.stack(kept)


def suppressing(x, drop=False):
    _, scores = scored(x)
    values, order = scores.topk(8, 1)
    pair = order - F.where(order < 6, order * 0, order * 0 + 6)
    earlier = torch.ones(8, 8).tril(-1).bool()
    again = ((pair[:, :, None] == pair[:, None, :]) & earlier).any(2)
    if drop:
        again = again & (order < 0)
    rank = F.where(again, 8, 0) + F.arange(8)
    first = rank.argsort(1)[:, :4]
    there = ~F.take_along_dim(again, first, 1)
    parts = [F.take_along_dim(part, first, 1) for part in (values, order.to(torch.float32))]
    return F.stack([F.where(there, part, 0.0) for part in parts], 2)


right("suppression among near ties", suppressing, Suppressed, **ROWS)
wrong("suppression left out", lambda x: suppressing(x, drop=True), Suppressed, **ROWS)
