"""Detectors and selectors in half precision, whose scores are near ties by the hundred; right ones and wrong ones.

Half precision sorts, chooses and suppresses otherwise than float64. A right network may do so, if all of its outputs
follow; the wrong ones here use the room that this gives.
"""

import torch
from torch import nn
from torch.nn import functional as TF

import trtdsl as td
import trtdsl.functional as F

from .further_networks import register, seeded

WRONG, RIGHT = {}, {}
ANCHORS, CLASSES, CANDIDATES, OUTPUTS, THRESHOLD = 80, 3, 30, 12, 0.6
TO_SCORES, TO_BOXES = seeded(CLASSES, 32, seed=1) / 8, seeded(4, 32, seed=2) / 4
CORNERS = torch.tensor([-1.0, -1.0, 1.0, 1.0])
CENTRES = 0.02 * seeded(ANCHORS, 2, seed=3).repeat(1, 2)
N = td.Dim("N", min=1, opt=2, max=3)
X = {"x": (N, ANCHORS, 32)}


def wrong(name, ours, theirs=None, **inputs):
    """A wrong network, checked with two sets of feeds; the smaller ones have boxes that overlap more."""
    shapes = {key: (2, *shape[1:]) for key, shape in (inputs or X).items()}
    feeds = [{key: seeded(*shape, seed=8) * size for key, shape in shapes.items()} for size in (1.0, 0.3)]
    register(WRONG)(name, ours, theirs or Detector, {"dims": {"N": 2}, "feeds": feeds}, **(inputs or X))


def right(name, ours, theirs=None, **inputs):
    register(RIGHT)(name, ours, theirs or Detector, {"dims": {"N": 2}}, **(inputs or X))


# -- a detector --------------------------------------------------------------------------------------------------------
class Detector(nn.Module):
    """Scores and boxes of 80 anchors, and what greedy suppression by class leaves of the best 30."""

    def forward(self, x):
        scores = TF.linear(x, TO_SCORES).sigmoid()
        boxes = CENTRES + CORNERS * TF.softplus(TF.linear(x, TO_BOXES)).float()
        results = [self.suppressed(*sample) for sample in zip(boxes, scores, strict=True)]
        names = ("boxes", "scores", "classes", "number")
        return {name: torch.stack(parts) for name, parts in zip(names, zip(*results, strict=True), strict=True)}

    def suppressed(self, boxes, scores):
        best, classes = scores.max(1)
        best, order = best.topk(CANDIDATES)
        boxes, classes = boxes[order], classes[order]
        low, high = torch.max(boxes[:, None, :2], boxes[None, :, :2]), torch.min(boxes[:, None, 2:], boxes[None, :, 2:])
        shared = (high - low).clamp(min=0).prod(2)
        area = (boxes[:, 2:] - boxes[:, :2]).prod(1)
        over = shared / (area[:, None] + area[None] - shared) > THRESHOLD
        over &= classes[:, None] == classes[None]
        kept = []
        for index in range(CANDIDATES):
            if not over[index, kept].any():
                kept.append(index)
        kept = torch.tensor(kept[:OUTPUTS])
        missing = OUTPUTS - len(kept)

        def padded(values, fill):
            return torch.cat([values[kept], values.new_full((missing, *values.shape[1:]), fill)])

        return padded(boxes, 0), padded(best, 0), padded(classes, -1), torch.tensor(len(kept))


def take(values, places):
    return F.take_along_dim(values, places.unsqueeze(2) if values.ndim == 3 else places, 1)


def detector(
    x,
    rate=lambda scores: scores,
    choose=lambda scores: scores.max(2),
    sort=lambda best: best.topk(CANDIDATES, 1),
    taken=lambda order: order,
    overlapping=lambda boxes: boxes,
    grouped=lambda classes: classes,
    threshold=THRESHOLD,
    shown=lambda best, order, scores: best,
    rated=lambda best, order: best,
    final=lambda kept: kept,
):
    scores = rate(F.linear(x, TO_SCORES).sigmoid())
    boxes = CENTRES + CORNERS * F.softplus(F.linear(x, TO_BOXES)).to(torch.float32)
    best, classes = choose(scores)
    best, order = sort(best)
    boxes, classes = take(boxes, taken(order)), take(classes, order)
    kept = F.batched_nms(overlapping(boxes), rated(best, order), grouped(classes), threshold, max_outputs=OUTPUTS)
    kept = final(kept)
    there, place = kept >= 0, kept.clamp(min=0)
    return {
        "boxes": take(boxes, place).masked_fill(~there.unsqueeze(2), 0),
        "scores": take(shown(best, order, scores), place).masked_fill(~there, 0),
        "classes": take(classes, place).masked_fill(~there, -1),
        "number": there.sum(1),
    }


def columns(values, *places):
    return F.cat([values[:, place : place + 1] for place in places], 1)


def ranks(*places):
    """A sort that gives some ranks, in their order."""

    def sort(best):
        values, order = best.topk(CANDIDATES + 1, 1)
        return columns(values, *places), columns(order, *places)

    return sort


def sorted_by(function):
    """A sort by other values, of which the right ones are shown."""

    def sort(best):
        order = function(best).topk(CANDIDATES, 1)[1]
        return take(best, order), order

    return sort


right("a detector", detector)
right("a detector that sorts by negative scores", lambda x: detector(x, sort=negative))
right("a detector that sorts by logits", lambda x: detector(x, sort=sorted_by(lambda best: best / (1 - best))))
wrong("another threshold", lambda x: detector(x, threshold=0.45))
wrong("a threshold that is never reached", lambda x: detector(x, threshold=0.99))
wrong("suppression of all classes together", lambda x: detector(x, grouped=lambda classes: classes * 0))
wrong("suppression by pairs of classes", lambda x: detector(x, grouped=lambda classes: classes // 2))
wrong("boxes of the next anchor", lambda x: detector(x, taken=lambda order: (order + 1).clamp(max=ANCHORS - 1)))
wrong("boxes that are not sorted", lambda x: detector(x, taken=lambda order: F.arange(CANDIDATES).expand(order.shape)))
wrong("ranks off by one", lambda x: detector(x, sort=ranks(*range(1, CANDIDATES + 1))))
wrong("the two best exchanged", lambda x: detector(x, final=lambda kept: columns(kept, 1, 0, *range(2, OUTPUTS))))
wrong("the third best left out", lambda x: detector(x, sort=ranks(0, 1, *range(3, CANDIDATES + 1))))
wrong("each four ranks reversed", lambda x: detector(x, final=lambda kept: columns(kept, *(k ^ 3 for k in range(12)))))
wrong("scores that are not sorted", lambda x: detector(x, shown=lambda best, order, scores: scores.max(2)[0]))
wrong("the next class's score", lambda x: detector(x, shown=lambda best, order, scores: take(scores[:, :, 1], order)))
wrong(
    "a class preferred by 0.05",
    lambda x: detector(x, choose=lambda s: (s.max(2)[0], (s + 0.05 * (F.arange(CLASSES) == 2)).max(2)[1])),
)
wrong("the first class left out", lambda x: detector(x, choose=lambda s: (s.max(2)[0], s[:, :, 1:].max(2)[1] + 1)))
wrong("an order of coarse scores", lambda x: detector(x, sort=sorted_by(lambda best: (best * 16).round())))
wrong(
    "an order of scores with an offset of 0.03 for every third anchor",
    lambda x: detector(x, rated=lambda best, order: best + 0.03 * (order % 3 == 0)),
)
wrong(
    "an order of scores that fall by a hundredth with the place",
    lambda x: detector(x, sort=sorted_by(lambda best: best - F.arange(ANCHORS) * 0.01)),
)
wrong("boxes with one more pixel to the right", lambda x: detector(x, overlapping=lambda b: b + CORNERS.clamp(min=0)))
wrong("boxes of the other sample", lambda x: detector(x, taken=lambda order: F.roll(order, 1, 0)))
wrong("scores with another temperature", lambda x: detector(x, rate=lambda s: s * 0.98))
wrong("suppression left out", lambda x: detector(x, overlapping=lambda b: b * F.tensor([0.0, 0, 0, 0])))


def negative(best):
    values, order = (-best).topk(CANDIDATES, 1, largest=False)
    return -values, order


# -- selectors ---------------------------------------------------------------------------------------------------------
CODES = seeded(24, 16, seed=4)
CODES = torch.cat([CODES, CODES + 0.004 * seeded(24, 16, seed=5)])  # each twice, but for half's rounding
EXPERTS = seeded(4, 16, 16, seed=6) / 4
GATE = seeded(4, 16, seed=7) / 4
TOKENS = {"x": (N, 40, 16)}


def coded(x):
    """The nearest of 48 codes for each token, by matrix products."""
    return CODES[(CODES.square().sum(1) - 2 * TF.linear(x, CODES)).argmin(2)]


def coding(x, change=lambda places: places):
    return F.embedding(change((CODES.square().sum(1) - 2 * F.linear(x, CODES)).argmin(2)), CODES)


def routed(x):
    chosen = TF.one_hot(TF.linear(x, GATE).argmax(2), 4).to(x.dtype)
    return torch.einsum("nte,ntj->ntj", chosen, x) + (chosen @ GATE[:, :1]) * x


def routing(x, change=lambda places: places):
    chosen = F.one_hot(change(F.linear(x, GATE).argmax(2)), 4).to(x.dtype)
    return F.einsum("nte,ntj->ntj", chosen, x) + F.matmul(chosen, GATE[:, :1].contiguous()) * x


def masked(x):
    return torch.where(TF.linear(x, EXPERTS[0]) > 0.25, x, -x)


def masking(x, bound=0.25, shift=0):
    return (
        F.where(F.linear(x, EXPERTS[0]) > bound, x, -x)
        if not shift
        else F.where(F.roll(F.linear(x, EXPERTS[0]), shift, 2) > bound, x, -x)
    )


right("codes in half precision", coding, coded, **TOKENS)
wrong("the twin of each code", lambda x: coding(x, lambda p: (p + 24) % 48), coded, **TOKENS)
wrong("the next code", lambda x: coding(x, lambda p: (p + 1) % 48), coded, **TOKENS)
right("experts in half precision", routing, routed, **TOKENS)
wrong("the last expert never", lambda x: routing(x, lambda p: p.clamp(max=2)), routed, **TOKENS)
wrong("the next token's expert", lambda x: routing(x, lambda p: F.roll(p, 1, 1)), routed, **TOKENS)
right("a mask in half precision", masking, masked, **TOKENS)
wrong("a mask with a bound that is 0.05 off", lambda x: masking(x, 0.3), masked, **TOKENS)
wrong("a mask of the next channel", lambda x: masking(x, shift=1), masked, **TOKENS)
right(
    "steps in half precision",
    lambda x: F.floor(F.linear(x, EXPERTS[0]) * 4),
    lambda x: torch.floor(TF.linear(x, EXPERTS[0]) * 4),
    **TOKENS,
)
wrong(
    "steps that are rounded",
    lambda x: F.round(F.linear(x, EXPERTS[0]) * 4),
    lambda x: torch.floor(TF.linear(x, EXPERTS[0]) * 4),
    **TOKENS,
)
right(
    "an order in half precision",
    lambda x: F.linear(x, EXPERTS[1]).argsort(2),
    lambda x: TF.linear(x, EXPERTS[1]).argsort(2),
    **TOKENS,
)
wrong(
    "an order of another product",
    lambda x: F.linear(x, EXPERTS[1] + 0.02 * EXPERTS[2]).argsort(2),
    lambda x: TF.linear(x, EXPERTS[1]).argsort(2),
    **TOKENS,
)
wrong(
    "an order whose last is its first",
    lambda x: F.roll(F.linear(x, EXPERTS[1]).argsort(2), 1, 2),
    lambda x: TF.linear(x, EXPERTS[1]).argsort(2),
    **TOKENS,
)


# -- sorting, counting and masking -------------------------------------------------------------------------------------
def product(x):
    return TF.linear(x, EXPERTS[1])


def ours(x):
    return F.linear(x, EXPERTS[1])


def nucleus(x):
    return torch.where(product(x).softmax(2).sort(2, True).values.cumsum(2) < 0.9, 1.0, 0.0)


def probable(x, bound):
    return F.where(F.sort(F.softmax(ours(x), 2), 2, True)[0].cumsum(2) < bound, 1.0, 0.0)


def front(x, last):
    return ours(x).masked_fill(F.arange(16) > last, float("-inf")).topk(6, 2)


def fronts(x):
    return tuple(product(x).masked_fill(torch.arange(16) > 10, float("-inf")).topk(6, 2))


right(
    "the rank of each value",
    lambda x: ours(x).argsort(2).argsort(2),
    lambda x: product(x).argsort(2).argsort(2),
    **TOKENS,
)
wrong("an order for ranks", lambda x: ours(x).argsort(2), lambda x: product(x).argsort(2).argsort(2), **TOKENS)
right("the best of those not hidden", lambda x: front(x, 10), fronts, **TOKENS)
wrong("the best of one more", lambda x: front(x, 11), fronts, **TOKENS)
right(
    "a median by sorting",
    lambda x: F.sort(ours(x), 2)[0][:, :, 7],
    lambda x: product(x).sort(2).values[:, :, 7],
    **TOKENS,
)
wrong(
    "the value after the median",
    lambda x: F.sort(ours(x), 2)[0][:, :, 8],
    lambda x: product(x).sort(2).values[:, :, 7],
    **TOKENS,
)
right("the most probable nine tenths", lambda x: probable(x, 0.9), nucleus, **TOKENS)
wrong("the most probable eight tenths", lambda x: probable(x, 0.8), nucleus, **TOKENS)
right("how many lie above", lambda x: (ours(x) > 0.1).sum(2), lambda x: (product(x) > 0.1).sum(2), **TOKENS)
wrong("one more than lie above", lambda x: (ours(x) > 0.1).sum(2) + 1, lambda x: (product(x) > 0.1).sum(2), **TOKENS)
