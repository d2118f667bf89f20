"""Networks as engineers write them; tests read the files that are ported from them."""

import torch
import torch.nn.functional as F
from torch import nn


class Block(nn.Module):
    def __init__(self, inside, outside, stride=1):
        super().__init__()
        self.conv1 = nn.Conv2d(inside, outside, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outside)
        self.conv2 = nn.Conv2d(outside, outside, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outside)
        self.downsample = None
        if stride != 1 or inside != outside:
            self.downsample = nn.Sequential(nn.Conv2d(inside, outside, 1, stride, bias=False), nn.BatchNorm2d(outside))

    def forward(self, x):
        identity = x
        out = F.relu(self.bn1(self.conv1(x)), inplace=True)
        out = self.bn2(self.conv2(out))
        if self.downsample is not None:
            identity = self.downsample(x)
        return F.relu(out + identity, inplace=True)


class ResNetFPN(nn.Module):
    """A ResNet with a feature pyramid of three levels."""

    def __init__(self, width=8):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, width, 7, 2, 3, bias=False), nn.BatchNorm2d(width), nn.ReLU())
        self.pool = nn.MaxPool2d(3, 2, 1)
        widths = [width, width * 2, width * 4]
        self.stages = nn.ModuleList(
            nn.Sequential(Block(inside, outside, stride), Block(outside, outside))
            for inside, outside, stride in zip([width, *widths], widths, (1, 2, 2))
        )
        self.lateral = nn.ModuleList(nn.Conv2d(each, width, 1) for each in widths)
        self.smooth = nn.ModuleList(nn.Conv2d(width, width, 3, 1, 1) for _ in widths)

    def forward(self, image):
        x = self.pool(self.stem(image))
        features = []
        for stage in self.stages:
            x = stage(x)
            features.append(x)
        top = self.lateral[-1](features[-1])
        levels = [self.smooth[-1](top)]
        for index in (1, 0):
            side = self.lateral[index](features[index])
            top = side + F.interpolate(top, size=side.shape[-2:], mode="nearest")
            levels.insert(0, self.smooth[index](top))
        return {f"p{index + 2}": level for index, level in enumerate(levels)}


class DecoderLayer(nn.Module):
    def __init__(self, width=16, heads=4):
        super().__init__()
        self.self_attn = nn.MultiheadAttention(width, heads, batch_first=True)
        self.cross_attn = nn.MultiheadAttention(width, heads, batch_first=True)
        self.linear1, self.linear2 = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)
        self.norm1, self.norm2, self.norm3 = (nn.LayerNorm(width) for _ in range(3))
        self.dropout = nn.Dropout(0.1)

    def forward(self, tgt, memory, query_pos, pos):
        q = k = tgt + query_pos
        tgt = self.norm1(tgt + self.dropout(self.self_attn(q, k, tgt, need_weights=False)[0]))
        attended = self.cross_attn(tgt + query_pos, memory + pos, memory, need_weights=False)[0]
        tgt = self.norm2(tgt + self.dropout(attended))
        return self.norm3(tgt + self.linear2(self.dropout(F.relu(self.linear1(tgt)))))


class Detr(nn.Module):
    """A decoder of object queries, with heads for classes and boxes."""

    def __init__(self, width=16, queries=10, classes=5, layers=3):
        super().__init__()
        self.query_embed = nn.Embedding(queries, width)
        self.layers = nn.ModuleList(DecoderLayer(width) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.class_embed = nn.Linear(width, classes + 1)
        self.bbox_embed = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 4))

    def forward(self, memory, pos):
        query_pos = self.query_embed.weight.unsqueeze(0).repeat(memory.shape[0], 1, 1)
        tgt = torch.zeros_like(query_pos)
        intermediate = []
        for layer in self.layers:
            tgt = layer(tgt, memory, query_pos, pos)
            intermediate.append(self.norm(tgt))
        hs = torch.stack(intermediate)
        outputs_class = self.class_embed(hs)
        outputs_coord = self.bbox_embed(hs).sigmoid()
        return {"pred_logits": outputs_class[-1], "pred_boxes": outputs_coord[-1]}


class Conv(nn.Module):
    def __init__(self, inside, outside, kernel=1, stride=1):
        super().__init__()
        self.conv = nn.Conv2d(inside, outside, kernel, stride, kernel // 2, bias=False)
        self.bn = nn.BatchNorm2d(outside)
        self.act = nn.SiLU()

    def forward(self, x):
        return self.act(self.bn(self.conv(x)))


class YoloHead(nn.Module):
    """Boxes by distributions over distances, and scores, of three levels."""

    def __init__(self, classes=3, widths=(8, 16, 32), bins=4):
        super().__init__()
        self.bins, self.classes, self.outputs = bins, classes, classes + 4 * bins
        self.cv2 = nn.ModuleList(
            nn.Sequential(Conv(each, 8, 3), Conv(8, 8, 3), nn.Conv2d(8, 4 * bins, 1)) for each in widths
        )
        self.cv3 = nn.ModuleList(
            nn.Sequential(Conv(each, 8, 3), Conv(8, 8, 3), nn.Conv2d(8, classes, 1)) for each in widths
        )
        self.register_buffer("project", torch.arange(float(bins)))

    def forward(self, p3, p4, p5):
        x = [p3, p4, p5]
        for i in range(3):
            x[i] = torch.cat((self.cv2[i](x[i]), self.cv3[i](x[i])), 1)
        anchors, strides = [], []
        for i, stride in enumerate((8, 16, 32)):
            _, _, h, w = x[i].shape
            sx, sy = torch.arange(w) + 0.5, torch.arange(h) + 0.5
            sy, sx = torch.meshgrid(sy, sx, indexing="ij")
            anchors.append(torch.stack((sx, sy), -1).view(-1, 2))
            strides.append(torch.full((h * w, 1), float(stride)))
        anchors, strides = torch.cat(anchors).transpose(0, 1), torch.cat(strides).transpose(0, 1)
        joined = torch.cat([xi.view(xi.shape[0], self.outputs, -1) for xi in x], 2)
        box, cls = joined.split((4 * self.bins, self.classes), 1)
        b, _, a = box.shape
        distance = box.view(b, 4, self.bins, a).softmax(2).mul(self.project.view(1, 1, -1, 1)).sum(2)
        lt, rb = distance.chunk(2, 1)
        x1y1, x2y2 = anchors.unsqueeze(0) - lt, anchors.unsqueeze(0) + rb
        boxes = torch.cat(((x1y1 + x2y2) / 2, x2y2 - x1y1), 1) * strides
        return boxes, cls.sigmoid()


class Double(nn.Module):
    def __init__(self, inside, outside):
        super().__init__()
        self.double_conv = nn.Sequential(
            nn.Conv2d(inside, outside, 3, padding=1), nn.BatchNorm2d(outside), nn.ReLU(inplace=True),
            nn.Conv2d(outside, outside, 3, padding=1), nn.BatchNorm2d(outside), nn.ReLU(inplace=True),
        )  # fmt: skip

    def forward(self, x):
        return self.double_conv(x)


class Up(nn.Module):
    def __init__(self, inside, outside):
        super().__init__()
        self.up = nn.ConvTranspose2d(inside, inside // 2, 2, stride=2)
        self.conv = Double(inside, outside)

    def forward(self, x1, x2):
        x1 = self.up(x1)
        dy, dx = x2.shape[2] - x1.shape[2], x2.shape[3] - x1.shape[3]
        x1 = F.pad(x1, [dx // 2, dx - dx // 2, dy // 2, dy - dy // 2])
        return self.conv(torch.cat([x2, x1], dim=1))


class UNet(nn.Module):
    def __init__(self, width=4):
        super().__init__()
        self.inc = Double(3, width)
        self.down1 = nn.Sequential(nn.MaxPool2d(2), Double(width, 2 * width))
        self.down2 = nn.Sequential(nn.MaxPool2d(2), Double(2 * width, 4 * width))
        self.up1, self.up2 = Up(4 * width, 2 * width), Up(2 * width, width)
        self.outc = nn.Conv2d(width, 2, 1)

    def forward(self, x):
        x1 = self.inc(x)
        x2 = self.down1(x1)
        x3 = self.down2(x2)
        x = self.up1(x3, x2)
        x = self.up2(x, x1)
        return self.outc(x) * 1 + 0


SIDES = {"H": (2, 8, 12), "W": (2, 8, 12), "N": (1, 2, 4)}


class Rotary(nn.Module):
    """Attention whose queries and keys are rotated by their places."""

    def __init__(self, width=16, heads=2):
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width)
        steps = torch.arange(0, width // heads, 2) / (width // heads)
        self.register_buffer("freqs", 1.0 / 10000**steps)

    @staticmethod
    def rotate(x, cos, sin):
        half = x.shape[-1] // 2
        x1, x2 = x[..., :half], x[..., half:]
        return x * cos + torch.cat((-x2, x1), dim=-1) * sin

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = self.qkv(x).view(batch, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        angles = torch.arange(length, dtype=torch.float32)[:, None] * self.freqs[None, :]
        angles = torch.cat([angles, angles], dim=-1)
        cos, sin = angles.cos(), angles.sin()
        q, k = self.rotate(q, cos, sin), self.rotate(k, cos, sin)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.transpose(1, 2).reshape(batch, length, width))


class Windows(nn.Module):
    """Mixes the pixels of windows, half of them shifted, and leaves a margin out."""

    def __init__(self, channels=8, window=4):
        super().__init__()
        self.window = window
        self.mix = nn.Linear(window * window, window * window)
        self.norm = nn.BatchNorm2d(channels)

    def forward(self, x):
        n, c, height, width = x.shape
        rows, columns = height // self.window, width // self.window
        y = self.norm(x).float().contiguous() * 1.0
        y = y.view(n, c, rows, self.window, columns, self.window).permute(0, 1, 2, 4, 3, 5)
        y = self.mix(y.reshape(n, c, rows * columns, -1))
        y = y.view(n, c, rows, columns, self.window, self.window).permute(0, 1, 2, 4, 3, 5).reshape(x.shape)
        keep = torch.ones(height, width, dtype=torch.bool) & True
        keep[: self.window] = False
        return torch.where(keep, y + x, x + 0)


class Cache(nn.Module):
    """Writes new keys and values into halves of one state, through views of it."""

    def __init__(self, width=8):
        super().__init__()
        self.key, self.value = nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, state, x, place):
        state = state.clone()
        keys, values = state.chunk(2, dim=-1)
        here = place.long()
        keys[:, here] = self.key(x)[:, None]
        values[:, here] = self.value(x)[:, None]
        scores = torch.einsum("nd,ntd->nt", x, keys) / x.shape[-1] ** 0.5
        return torch.einsum("nt,ntd->nd", scores.softmax(-1), values), state


class Dense(nn.Module):
    """Blocks of which each takes all features so far, and an early exit."""

    def __init__(self, width=8, growth=4, blocks=3):
        super().__init__()
        self.blocks = nn.ModuleList(
            nn.Conv1d(width + growth * number, growth, 3, padding=1) for number in range(blocks)
        )
        self.exit, self.head = nn.Linear(width, 5), nn.Linear(width + growth * blocks, 5)

    def forward(self, x):
        early = self.exit(x.mean(-1))
        for block in self.blocks:
            x = torch.cat([x, F.relu(block(x))], 1)
        return {"early": early, "late": self.head(x.amax(-1))}


PORTED = {
    "ResNetFPN": ({"image": "N,3,8*H,8*W"}, SIDES),
    "Detr": ({"memory": "N,T,16", "pos": "N,T,16"}, {"N": (1, 2, 4), "T": (4, 9, 20)}),
    "YoloHead": ({"p3": "N,8,4*H,4*W", "p4": "N,16,2*H,2*W", "p5": "N,32,H,W"}, SIDES),
    "UNet": ({"x": "N,3,4*H,4*W"}, SIDES),
    "Rotary": ({"x": "N,T,16"}, {"N": (1, 2, 4), "T": (2, 9, 20)}),
    "Windows": ({"x": "N,8,4*H,4*W"}, SIDES),
    "Cache": ({"state": "N,12,16", "x": "N,8", "place": "1"}, {"N": (1, 2, 4)}),
    "Dense": ({"x": "N,8,T"}, {"N": (1, 2, 4), "T": (4, 9, 20)}),
}
