"""A detector like YOLOv8-n in plain torch, with the layer names of ultralytics: a CSP backbone, a path aggregation
neck, and heads without anchors that predict distributions of distances (Li et al., "Generalized Focal Loss", 2020).
`Detector` ends with the predictions; `Model` has non-maximum suppression, too.
"""

import torch
from torch import nn

CLASSES, BINS, STRIDES = 80, 16, (8, 16, 32)


class Conv(nn.Module):
    def __init__(self, c1, c2, k=1, s=1):
        super().__init__()
        self.conv = nn.Conv2d(c1, c2, k, s, k // 2, bias=False)
        self.bn = nn.BatchNorm2d(c2, eps=1e-3)

    def forward(self, x):
        return nn.functional.silu(self.bn(self.conv(x)))


class Bottleneck(nn.Module):
    def __init__(self, c, shortcut):
        super().__init__()
        self.cv1, self.cv2, self.add = Conv(c, c, 3), Conv(c, c, 3), shortcut

    def forward(self, x):
        y = self.cv2(self.cv1(x))
        return x + y if self.add else y


class C2f(nn.Module):
    """Two halves, one of which goes through bottlenecks; all that came on the way is put together."""

    def __init__(self, c1, c2, n, shortcut=False):
        super().__init__()
        self.cv1, self.cv2 = Conv(c1, c2), Conv((2 + n) * (c2 // 2), c2)
        self.m = nn.ModuleList(Bottleneck(c2 // 2, shortcut) for _ in range(n))

    def forward(self, x):
        y = list(self.cv1(x).chunk(2, 1))
        for part in self.m:
            y.append(part(y[-1]))
        return self.cv2(torch.cat(y, 1))


class SPPF(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.cv1, self.cv2, self.pool = Conv(c, c // 2), Conv(2 * c, c), nn.MaxPool2d(5, 1, 2)

    def forward(self, x):
        y = [self.cv1(x)]
        for _ in range(3):
            y.append(self.pool(y[-1]))
        return self.cv2(torch.cat(y, 1))


class Detect(nn.Module):
    """Boxes (N, A, 4) as corners in pixels and class scores (N, A, 80) of all A cells of three feature maps."""

    def __init__(self, channels):
        super().__init__()
        inner, wide = max(16, channels[0] // 4, BINS * 4), max(channels[0], min(CLASSES, 100))
        self.cv2 = nn.ModuleList(
            nn.Sequential(Conv(c, inner, 3), Conv(inner, inner, 3), nn.Conv2d(inner, 4 * BINS, 1)) for c in channels
        )
        self.cv3 = nn.ModuleList(
            nn.Sequential(Conv(c, wide, 3), Conv(wide, wide, 3), nn.Conv2d(wide, CLASSES, 1)) for c in channels
        )

    def forward(self, maps):
        boxes, scores = [], []
        for x, stride, to_boxes, to_scores in zip(maps, STRIDES, self.cv2, self.cv3, strict=True):
            n, _, h, w = x.shape
            distances = to_boxes(x).reshape(n, 4, BINS, h * w).softmax(2)
            bins = torch.arange(BINS, dtype=x.dtype).reshape(1, 1, BINS, 1)
            left, top, right, bottom = (distances * bins).sum(2).unbind(1)
            rows, columns = torch.meshgrid(torch.arange(h), torch.arange(w), indexing="ij")
            cx, cy = columns.reshape(-1) + 0.5, rows.reshape(-1) + 0.5
            boxes.append(torch.stack([cx - left, cy - top, cx + right, cy + bottom], 2) * stride)
            scores.append(to_scores(x).reshape(n, CLASSES, h * w).transpose(1, 2).sigmoid())
        return torch.cat(boxes, 1), torch.cat(scores, 1)


class Detector(nn.Module):
    """Predictions for images (N, 3, H, W) whose sides are multiples of 32."""

    def __init__(self):
        super().__init__()
        self.model = nn.ModuleList(
            [
                Conv(3, 16, 3, 2), Conv(16, 32, 3, 2), C2f(32, 32, 1, True), Conv(32, 64, 3, 2), C2f(64, 64, 2, True),
                Conv(64, 128, 3, 2), C2f(128, 128, 2, True), Conv(128, 256, 3, 2), C2f(256, 256, 1, True), SPPF(256),
                nn.Upsample(scale_factor=2), nn.Identity(), C2f(384, 128, 1), nn.Upsample(scale_factor=2),
                nn.Identity(), C2f(192, 64, 1), Conv(64, 64, 3, 2), nn.Identity(), C2f(192, 128, 1),
                Conv(128, 128, 3, 2), nn.Identity(), C2f(384, 256, 1), Detect((64, 128, 256)),
            ]
        )  # fmt: skip

    def forward(self, x):
        m, kept = self.model, {}
        for k in range(10):
            x = kept[k] = m[k](x)
        x = kept[12] = m[12](torch.cat([m[10](x), kept[6]], 1))
        small = m[15](torch.cat([m[13](x), kept[4]], 1))
        middle = m[18](torch.cat([m[16](small), kept[12]], 1))
        large = m[21](torch.cat([m[19](middle), kept[9]], 1))
        return m[22]([small, middle, large])


class Model(Detector):
    """The best `outputs` boxes after suppression by class among the best `candidates`, 0 where there are fewer.

    Boxes (N, 50, 4), scores (N, 50), classes (N, 50) of -1 behind the last, and their number (N,).
    """

    def __init__(self, candidates=100, outputs=50, threshold=0.6):
        super().__init__()
        self.candidates, self.outputs, self.threshold = candidates, outputs, threshold

    def forward(self, x):
        results = [self.suppressed(*item) for item in zip(*super().forward(x), strict=True)]
        names = ("boxes", "scores", "classes", "number")
        return {name: torch.stack(parts) for name, parts in zip(names, zip(*results, strict=True), strict=True)}

    def suppressed(self, boxes, scores):
        best, classes = scores.max(1)
        best, order = best.topk(self.candidates)
        boxes, classes = boxes[order], classes[order]
        low, high = torch.max(boxes[:, None, :2], boxes[None, :, :2]), torch.min(boxes[:, None, 2:], boxes[None, :, 2:])
        inter = (high - low).clamp(min=0).prod(2)
        area = (boxes[:, 2:] - boxes[:, :2]).prod(1)
        over = inter / (area[:, None] + area[None] - inter) > self.threshold
        over &= classes[:, None] == classes[None]
        kept = []
        for index in range(self.candidates):
            if not any(over[index, other] for other in kept):
                kept.append(index)
        kept = torch.tensor(kept[: self.outputs])
        missing = self.outputs - len(kept)

        def padded(values, fill):
            return torch.cat([values[kept], values.new_full((missing, *values.shape[1:]), fill)])

        return padded(boxes, 0), padded(best, 0), padded(classes, -1), torch.tensor(len(kept))
