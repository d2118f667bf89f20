"""MobileFaceNet (Chen, Liu, Gao and Han, 2018), with ArcFace's head; names as in insightface's arcface_torch.

https://arxiv.org/abs/1804.07573, https://github.com/deepinsight/insightface/tree/master/recognition/arcface_torch
"""

import torch
from torch import nn


class ConvBlock(nn.Module):
    def __init__(self, channels, maps, kernel, stride=1, padding=0, groups=1):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(channels, maps, kernel, stride, padding, groups=groups, bias=False),
            nn.BatchNorm2d(maps),
            nn.PReLU(maps),
        )

    def forward(self, x):
        return self.layers(x)


class LinearBlock(nn.Module):
    def __init__(self, channels, maps, kernel, groups=1):
        super().__init__()
        self.layers = nn.Sequential(nn.Conv2d(channels, maps, kernel, groups=groups, bias=False), nn.BatchNorm2d(maps))

    def forward(self, x):
        return self.layers(x)


class DepthWise(nn.Module):
    def __init__(self, channels, maps, stride, groups, residual=False):
        super().__init__()
        self.residual = residual
        self.layers = nn.Sequential(
            ConvBlock(channels, groups, 1),
            ConvBlock(groups, groups, 3, stride, 1, groups),
            LinearBlock(groups, maps, 1),
        )

    def forward(self, x):
        return x + self.layers(x) if self.residual else self.layers(x)


class Residual(nn.Module):
    def __init__(self, channels, blocks, groups):
        super().__init__()
        self.layers = nn.Sequential(*(DepthWise(channels, channels, 1, groups, residual=True) for _ in range(blocks)))

    def forward(self, x):
        return self.layers(x)


class GDC(nn.Module):
    """A global depthwise convolution, a linear layer and a batch norm of (N, C)."""

    def __init__(self, features):
        super().__init__()
        self.layers = nn.Sequential(
            LinearBlock(512, 512, 7, groups=512),
            nn.Flatten(),
            nn.Linear(512, features, bias=False),
            nn.BatchNorm1d(features),
        )

    def forward(self, x):
        return self.layers(x)


class Model(nn.Module):
    def __init__(self, features=128, blocks=(4, 6, 2)):
        super().__init__()
        self.layers = nn.ModuleList(
            [
                ConvBlock(3, 64, 3, 2, 1),
                ConvBlock(64, 64, 3, 1, 1, groups=64),
                DepthWise(64, 64, 2, 128),
                Residual(64, blocks[0], 128),
                DepthWise(64, 128, 2, 256),
                Residual(128, blocks[1], 256),
                DepthWise(128, 128, 2, 512),
                Residual(128, blocks[2], 256),
            ]
        )
        self.conv_sep = ConvBlock(128, 512, 1)
        self.features = GDC(features)

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return torch.nn.functional.normalize(self.features(self.conv_sep(x)))
