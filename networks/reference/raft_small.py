"""RAFT, the small model, in plain torch: Teed and Deng, "RAFT: Recurrent All-Pairs Field Transforms for Optical Flow",
ECCV 2020. The state_dict has the names of torchvision's `raft_small`.
"""

import torch
import torch.nn.functional as F
from torch import nn


def stage(inputs, outputs, kernel, stride=1, norm=None, relu=True):
    """A convolution at index 0, and what follows it."""
    parts = [nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2)]
    if norm is not None:
        parts.append(norm(outputs))
    if relu:
        parts.append(nn.ReLU())
    return nn.Sequential(*parts)


class Bottleneck(nn.Module):
    def __init__(self, inputs, outputs, stride, norm):
        super().__init__()
        narrow = outputs // 4
        self.convnormrelu1 = stage(inputs, narrow, 1, norm=norm)
        self.convnormrelu2 = stage(narrow, narrow, 3, stride, norm)
        self.convnormrelu3 = stage(narrow, outputs, 1, norm=norm)
        self.downsample = stage(inputs, outputs, 1, stride, norm, relu=False) if stride > 1 else nn.Identity()

    def forward(self, x):
        y = self.convnormrelu3(self.convnormrelu2(self.convnormrelu1(x)))
        return torch.relu(self.downsample(x) + y)


class Encoder(nn.Module):
    """Features of an eighth of the size."""

    def __init__(self, outputs, norm):
        super().__init__()
        self.convnormrelu = stage(3, 32, 7, 2, norm)
        self.layer1 = nn.Sequential(Bottleneck(32, 32, 1, norm), Bottleneck(32, 32, 1, norm))
        self.layer2 = nn.Sequential(Bottleneck(32, 64, 2, norm), Bottleneck(64, 64, 1, norm))
        self.layer3 = nn.Sequential(Bottleneck(64, 96, 2, norm), Bottleneck(96, 96, 1, norm))
        self.conv = nn.Conv2d(96, outputs, 1)

    def forward(self, x):
        return self.conv(self.layer3(self.layer2(self.layer1(self.convnormrelu(x)))))


class Motion(nn.Module):
    def __init__(self, correlations):
        super().__init__()
        self.convcorr1 = stage(correlations, 96, 1)
        self.convflow1 = stage(2, 64, 7)
        self.convflow2 = stage(64, 32, 3)
        self.conv = stage(128, 80, 3)

    def forward(self, flow, correlations):
        joined = torch.cat((self.convcorr1(correlations), self.convflow2(self.convflow1(flow))), 1)
        return torch.cat((self.conv(joined), flow), 1)


class Gru(nn.Module):
    def __init__(self, hidden, inputs):
        super().__init__()
        self.convz = nn.Conv2d(hidden + inputs, hidden, 3, padding=1)
        self.convr = nn.Conv2d(hidden + inputs, hidden, 3, padding=1)
        self.convq = nn.Conv2d(hidden + inputs, hidden, 3, padding=1)

    def forward(self, h, x):
        hx = torch.cat((h, x), 1)
        z, r = torch.sigmoid(self.convz(hx)), torch.sigmoid(self.convr(hx))
        return (1 - z) * h + z * torch.tanh(self.convq(torch.cat((r * h, x), 1)))


class Recurrent(nn.Module):
    def __init__(self, hidden, inputs):
        super().__init__()
        self.convgru1 = Gru(hidden, inputs)

    def forward(self, h, x):
        return self.convgru1(h, x)


class FlowHead(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.conv1 = nn.Conv2d(hidden, 128, 3, padding=1)
        self.conv2 = nn.Conv2d(128, 2, 3, padding=1)

    def forward(self, h):
        return self.conv2(torch.relu(self.conv1(h)))


class Update(nn.Module):
    def __init__(self, hidden, context, correlations):
        super().__init__()
        self.motion_encoder = Motion(correlations)
        self.recurrent_block = Recurrent(hidden, context + 82)
        self.flow_head = FlowHead(hidden)

    def forward(self, h, context, correlations, flow):
        h = self.recurrent_block(h, torch.cat((context, self.motion_encoder(flow, correlations)), 1))
        return h, self.flow_head(h)


def correlation_pyramid(first, second, levels):
    n, c, h, w = first.shape
    volume = torch.matmul(first.flatten(2).transpose(1, 2), second.flatten(2)) / c**0.5
    pyramid = [volume.reshape(n * h * w, 1, h, w)]
    for _ in range(levels - 1):
        pyramid.append(F.avg_pool2d(pyramid[-1], 2, 2))
    return pyramid


def look_up(pyramid, points, radius):
    """Correlations on the square around each point; its first dimension moves x, its second y."""
    n, _, h, w = points.shape
    reach = torch.arange(-radius, radius + 1, dtype=points.dtype)
    square = torch.cartesian_prod(reach, reach).reshape(1, len(reach), len(reach), 2)
    centres = points.permute(0, 2, 3, 1).reshape(-1, 1, 1, 2)
    features = []
    for level, volume in enumerate(pyramid):
        last = torch.tensor([volume.shape[3] - 1, volume.shape[2] - 1], dtype=points.dtype)
        grid = (centres / 2**level + square) * 2 / last - 1
        features.append(F.grid_sample(volume, grid, align_corners=True).reshape(n, h, w, -1))
    return torch.cat(features, -1).permute(0, 3, 1, 2)


class Model(nn.Module):
    """The flow after the last update, (N, 2, H, W) in pixels, from two frames (N, 3, H, W)."""

    levels, radius, hidden = 4, 3, 96

    def __init__(self, updates=12):
        super().__init__()
        self.updates = updates
        self.feature_encoder = Encoder(128, nn.InstanceNorm2d)
        self.context_encoder = Encoder(160, None)
        self.update_block = Update(self.hidden, 160 - self.hidden, self.levels * (2 * self.radius + 1) ** 2)

    def flows(self, first, second):
        n, _, height, width = first.shape
        features = self.feature_encoder(torch.cat((first, second)))
        pyramid = correlation_pyramid(*features.chunk(2), self.levels)
        context = self.context_encoder(first)
        h, context = torch.tanh(context[:, : self.hidden]), torch.relu(context[:, self.hidden :])
        y, x = torch.meshgrid(torch.arange(height // 8.0), torch.arange(width // 8.0), indexing="ij")
        start = torch.stack((x, y)).expand(n, -1, -1, -1)
        points = start
        for _ in range(self.updates):
            h, change = self.update_block(h, context, look_up(pyramid, points, self.radius), points - start)
            points = points + change
            yield 8 * F.interpolate(points - start, (height, width), mode="bilinear", align_corners=True)

    def forward(self, first, second):
        *_, last = self.flows(first, second)
        return last


class EveryFlow(Model):
    """The flow after each of six updates."""

    def __init__(self):
        super().__init__(updates=6)

    def forward(self, first, second):
        return tuple(self.flows(first, second))
