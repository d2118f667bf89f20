"""A detector like YOLOv8-n with its post-processing inside: images in, the boxes that are left after suppression out.

Sides are multiples of 32. Its weights are made by `python tools/make_weights.py yolo`.
"""

import torch

import trtdsl as td
import trtdsl.functional as F

N = td.Dim("N", min=1, opt=1, max=8)
H, W = 32 * td.Dim("H32", min=4, opt=20, max=20), 32 * td.Dim("W32", min=4, opt=20, max=20)
CLASSES, BINS, STRIDES = 80, 16, (8, 16, 32)
CANDIDATES, OUTPUTS, THRESHOLD = 100, 50, 0.6
NORM, ALL = ("running_mean", "running_var", "weight", "bias"), slice(None)
PLAIN = "sigmoid"  # SiLU in the dtype of an image: in half precision, others are copied into concatenations


def conv(x: td.Tensor, w: td.Scope, stride: int = 1, maps: slice = ALL, silu: str = "auto"):
    weight, *norm = (each[maps] for each in (w.conv.weight, *(w.bn[name] for name in NORM)))
    x = F.batch_norm(F.conv2d(x, weight, stride=stride, padding=weight.shape[-1] // 2), *norm, eps=1e-3)
    return F.silu(x, lowering=silu)


def c2f(x: td.Tensor, w: td.Scope, count: int, shortcut: bool = False, apart: bool = True):
    if apart:  # two convolutions, which write into the concatenation; slices of one would be copied
        half = w.cv1.conv.weight.shape[0] // 2
        parts = [conv(x, w.cv1, maps=slice(half)), conv(x, w.cv1, maps=slice(half, None))]
    else:
        parts = list(conv(x, w.cv1).chunk(2, 1))
    for k in range(count):
        y = conv(conv(parts[-1], w.m[k].cv1), w.m[k].cv2, silu=PLAIN)
        parts.append(parts[-1] + y if shortcut else y)
    return conv(F.cat(parts, 1), w.cv2)


def sppf(x: td.Tensor, w: td.Scope):
    parts = [conv(x, w.cv1)]
    for _ in range(3):
        parts.append(F.max_pool2d(parts[-1], 5, 1, 2))
    return conv(F.cat(parts, 1), w.cv2)


def head(x: td.Tensor, w: td.Scope):
    x = conv(conv(x, w[0]), w[1])
    return F.conv2d(x, w[2].weight, w[2].bias)


def predictions(x: td.Tensor, stride: int, to_boxes: td.Scope, to_scores: td.Scope):
    """Boxes (N, h * w, 4) as corners in pixels, and class scores (N, h * w, 80), of a feature map (N, C, h, w)."""
    n, _, h, w = x.shape
    distances = head(x, to_boxes).reshape(n, 4, BINS, h * w).softmax(2)
    bins = F.arange(BINS, dtype=torch.float32).reshape(1, 1, BINS, 1)
    left, top, right, bottom = (distances * bins).sum(2).unbind(1)
    rows, columns = F.meshgrid(F.arange(h), F.arange(w), indexing="ij")
    cx, cy = columns.reshape(-1) + 0.5, rows.reshape(-1) + 0.5
    boxes = F.stack([cx - left, cy - top, cx + right, cy + bottom], 2) * stride
    return boxes, head(x, to_scores).reshape(n, CLASSES, h * w).transpose(1, 2).sigmoid()


def suppressed(boxes: td.Tensor, scores: td.Tensor):
    """The best boxes of each image that no better one of their class overlaps, 0 and class -1 behind the last."""
    best, classes = scores.max(2)
    best, order = best.topk(CANDIDATES, 1)
    boxes = F.take_along_dim(boxes, order.unsqueeze(2), 1)
    classes = F.take_along_dim(classes, order, 1)
    kept = F.batched_nms(boxes, best, classes, THRESHOLD, max_outputs=OUTPUTS)
    there, place = kept >= 0, kept.clamp(min=0)
    boxes = F.take_along_dim(boxes, place.unsqueeze(2), 1).masked_fill(~there.unsqueeze(2), 0)
    return {
        "boxes": boxes,
        "scores": F.take_along_dim(best, place, 1).masked_fill(~there, 0),
        "classes": F.take_along_dim(classes, place, 1).masked_fill(~there, -1),
        "number": there.sum(1),
    }


def detected(x: td.Tensor, w: td.Scope):
    """Boxes (N, A, 4) and class scores (N, A, 80) of all A cells of three feature maps."""
    m, kept = w.model, {}
    x = conv(conv(x, m[0], 2), m[1], 2)
    x = conv(c2f(x, m[2], 1, True), m[3], 2)
    x = kept[4] = c2f(x, m[4], 2, True)
    x = kept[6] = c2f(conv(x, m[5], 2), m[6], 2, True)
    x = kept[9] = sppf(c2f(conv(x, m[7], 2), m[8], 1, True), m[9])
    x = kept[12] = c2f(F.cat([F.interpolate(x, scale_factor=2), kept[6]], 1), m[12], 1)
    small = c2f(F.cat([F.interpolate(x, scale_factor=2), kept[4]], 1), m[15], 1)
    # With slices in this one, the builder needs 8 MB less memory at 640 × 640, for 2.5 MB more that are moved.
    middle = c2f(F.cat([conv(small, m[16], 2, silu=PLAIN), kept[12]], 1), m[18], 1, apart=False)
    large = c2f(F.cat([conv(middle, m[19], 2, silu=PLAIN), kept[9]], 1), m[21], 1)
    found = [
        predictions(x, stride, m[22].cv2[k], m[22].cv3[k])
        for k, (x, stride) in enumerate(zip((small, middle, large), STRIDES, strict=True))
    ]
    boxes, scores = (F.cat(parts, 1) for parts in zip(*found, strict=True))
    return boxes, scores


IMAGES, WEIGHTS = {"x": td.Input((N, 3, H, W), sample=(0.0, 1.0))}, "../weights/yolo.safetensors"


@td.network(inputs=IMAGES, weights=WEIGHTS, reference="reference/yolo.py:Model")
def yolo(x: td.Tensor, w: td.Scope):
    return suppressed(*detected(x, w))


@td.network(inputs=IMAGES, weights=WEIGHTS, reference="reference/yolo.py:Detector")
def without_suppression(x: td.Tensor, w: td.Scope):
    """Boxes and scores of all cells, for a suppression elsewhere."""
    boxes, scores = detected(x, w)
    return {"boxes": boxes, "scores": scores}
