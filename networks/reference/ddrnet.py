"""DDRNet-23-slim (Hong, Pan, Sun and Jia, 2021) without its auxiliary head; names as in the authors' code.

https://arxiv.org/abs/2101.06085, https://github.com/ydhongHIT/DDRNet
"""

import torch
from torch import nn
from torch.nn import functional as F


def conv3(channels, maps, stride=1):
    return nn.Conv2d(channels, maps, 3, stride, 1, bias=False)


class BasicBlock(nn.Module):
    def __init__(self, channels, maps, stride=1, downsample=None, no_relu=False):
        super().__init__()
        self.conv1, self.bn1 = conv3(channels, maps, stride), nn.BatchNorm2d(maps)
        self.conv2, self.bn2 = conv3(maps, maps), nn.BatchNorm2d(maps)
        self.downsample, self.no_relu = downsample, no_relu

    def forward(self, x):
        y = self.bn2(self.conv2(torch.relu(self.bn1(self.conv1(x)))))
        y = y + (x if self.downsample is None else self.downsample(x))
        return y if self.no_relu else torch.relu(y)


class Bottleneck(nn.Module):
    def __init__(self, channels, maps, stride=1, downsample=None):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(channels, maps, 1, bias=False), nn.BatchNorm2d(maps)
        self.conv2, self.bn2 = conv3(maps, maps, stride), nn.BatchNorm2d(maps)
        self.conv3, self.bn3 = nn.Conv2d(maps, 2 * maps, 1, bias=False), nn.BatchNorm2d(2 * maps)
        self.downsample = downsample

    def forward(self, x):
        y = torch.relu(self.bn1(self.conv1(x)))
        y = self.bn3(self.conv3(torch.relu(self.bn2(self.conv2(y)))))
        return y + (x if self.downsample is None else self.downsample(x))


def blocks(kind, channels, maps, count, stride=1):
    width = maps * (2 if kind is Bottleneck else 1)
    downsample = None
    if stride != 1 or channels != width:
        downsample = nn.Sequential(nn.Conv2d(channels, width, 1, stride, bias=False), nn.BatchNorm2d(width))
    first = kind(channels, maps, stride, downsample)
    rest = [kind(width, maps, 1, None, no_relu=k == count - 1) for k in range(1, count)]
    return nn.Sequential(first, *rest)


def norm_relu_conv(channels, maps, kernel=1, padding=0):
    return [nn.BatchNorm2d(channels), nn.ReLU(), nn.Conv2d(channels, maps, kernel, padding=padding, bias=False)]


class DAPPM(nn.Module):
    def __init__(self, channels, branch, maps):
        super().__init__()
        pools = [nn.AvgPool2d(5, 2, 2), nn.AvgPool2d(9, 4, 4), nn.AvgPool2d(17, 8, 8), nn.AdaptiveAvgPool2d((1, 1))]
        self.scale1, self.scale2, self.scale3, self.scale4 = (
            nn.Sequential(pool, *norm_relu_conv(channels, branch)) for pool in pools
        )
        self.scale0 = nn.Sequential(*norm_relu_conv(channels, branch))
        self.process1, self.process2, self.process3, self.process4 = (
            nn.Sequential(*norm_relu_conv(branch, branch, 3, 1)) for _ in range(4)
        )
        self.compression = nn.Sequential(*norm_relu_conv(5 * branch, maps))
        self.shortcut = nn.Sequential(*norm_relu_conv(channels, maps))

    def forward(self, x):
        found = [self.scale0(x)]
        for scale, process in (
            (self.scale1, self.process1),
            (self.scale2, self.process2),
            (self.scale3, self.process3),
            (self.scale4, self.process4),
        ):
            found.append(process(F.interpolate(scale(x), size=x.shape[2:], mode="bilinear") + found[-1]))
        return self.compression(torch.cat(found, 1)) + self.shortcut(x)


class SegmentHead(nn.Module):
    def __init__(self, channels, inner, classes):
        super().__init__()
        self.bn1, self.conv1 = nn.BatchNorm2d(channels), conv3(channels, inner)
        self.bn2, self.conv2 = nn.BatchNorm2d(inner), nn.Conv2d(inner, classes, 1)

    def forward(self, x):
        return self.conv2(torch.relu(self.bn2(self.conv1(torch.relu(self.bn1(x))))))


def compressed(channels, maps):
    return nn.Sequential(nn.Conv2d(channels, maps, 1, bias=False), nn.BatchNorm2d(maps))


class Model(nn.Module):
    """Class scores (N, classes, H/8, W/8) of images (N, 3, H, W), sizes rounded up."""

    def __init__(self, planes=32, spp=128, head=64, classes=19):
        super().__init__()
        high = 2 * planes
        self.conv1 = nn.Sequential(
            nn.Conv2d(3, planes, 3, 2, 1), nn.BatchNorm2d(planes), nn.ReLU(),
            nn.Conv2d(planes, planes, 3, 2, 1), nn.BatchNorm2d(planes), nn.ReLU(),
        )  # fmt: skip
        self.layer1 = blocks(BasicBlock, planes, planes, 2)
        self.layer2 = blocks(BasicBlock, planes, 2 * planes, 2, 2)
        self.layer3 = blocks(BasicBlock, 2 * planes, 4 * planes, 2, 2)
        self.layer4 = blocks(BasicBlock, 4 * planes, 8 * planes, 2, 2)
        self.compression3, self.compression4 = compressed(4 * planes, high), compressed(8 * planes, high)
        self.down3 = nn.Sequential(nn.Conv2d(high, 4 * planes, 3, 2, 1, bias=False), nn.BatchNorm2d(4 * planes))
        self.down4 = nn.Sequential(
            nn.Conv2d(high, 4 * planes, 3, 2, 1, bias=False), nn.BatchNorm2d(4 * planes), nn.ReLU(),
            nn.Conv2d(4 * planes, 8 * planes, 3, 2, 1, bias=False), nn.BatchNorm2d(8 * planes),
        )  # fmt: skip
        self.layer3_, self.layer4_ = blocks(BasicBlock, high, high, 2), blocks(BasicBlock, high, high, 2)
        self.layer5_, self.layer5 = blocks(Bottleneck, high, high, 1), blocks(Bottleneck, 8 * planes, 8 * planes, 1, 2)
        self.spp = DAPPM(16 * planes, spp, 4 * planes)
        self.final_layer = SegmentHead(4 * planes, head, classes)

    def forward(self, x):
        x = self.layer1(self.conv1(x))
        x = low = self.layer2(torch.relu(x))
        size = low.shape[2:]
        x = self.layer3(torch.relu(low))
        high = self.layer3_(torch.relu(low))
        fused = x + self.down3(torch.relu(high))
        high = high + F.interpolate(self.compression3(torch.relu(x)), size=size, mode="bilinear")
        x = self.layer4(torch.relu(fused))
        y = self.layer4_(torch.relu(high))
        fused = x + self.down4(torch.relu(y))
        y = y + F.interpolate(self.compression4(torch.relu(x)), size=size, mode="bilinear")
        y = self.layer5_(torch.relu(y))
        x = F.interpolate(self.spp(self.layer5(torch.relu(fused))), size=size, mode="bilinear")
        return self.final_layer(x + y)
