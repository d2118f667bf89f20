"""SlowFast (Feichtenhofer, Fan, Malik and He, ICCV 2019), narrow and shallow; names as in PySlowFast.

https://arxiv.org/abs/1812.03982, https://github.com/facebookresearch/SlowFast
"""

import torch
from torch import nn
from torch.nn import functional as F

ALPHA = 4  # the slow pathway sees every fourth frame


class Stem(nn.Module):
    def __init__(self, channels, width, kernel):
        super().__init__()
        self.conv = nn.Conv3d(channels, width, (kernel, 7, 7), (1, 2, 2), (kernel // 2, 3, 3), bias=False)
        self.bn = nn.BatchNorm3d(width)

    def forward(self, x):
        return F.max_pool3d(torch.relu(self.bn(self.conv(x))), (1, 3, 3), (1, 2, 2), (0, 1, 1))


class FuseFastToSlow(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.conv_f2s = nn.Conv3d(width, 2 * width, (5, 1, 1), (ALPHA, 1, 1), (2, 0, 0), bias=False)
        self.bn = nn.BatchNorm3d(2 * width)

    def forward(self, slow, fast):
        return torch.cat([slow, torch.relu(self.bn(self.conv_f2s(fast)))], 1), fast


class Bottleneck(nn.Module):
    def __init__(self, channels, inner, width, temporal, stride):
        super().__init__()
        self.a = nn.Conv3d(channels, inner, (temporal, 1, 1), 1, (temporal // 2, 0, 0), bias=False)
        self.a_bn = nn.BatchNorm3d(inner)
        self.b = nn.Conv3d(inner, inner, (1, 3, 3), (1, stride, stride), (0, 1, 1), bias=False)
        self.b_bn = nn.BatchNorm3d(inner)
        self.c = nn.Conv3d(inner, width, 1, bias=False)
        self.c_bn = nn.BatchNorm3d(width)

    def forward(self, x):
        x = torch.relu(self.a_bn(self.a(x)))
        x = torch.relu(self.b_bn(self.b(x)))
        return self.c_bn(self.c(x))


class ResBlock(nn.Module):
    def __init__(self, channels, inner, width, temporal, stride):
        super().__init__()
        self.branch1 = nn.Conv3d(channels, width, 1, (1, stride, stride), bias=False)
        self.branch1_bn = nn.BatchNorm3d(width)
        self.branch2 = Bottleneck(channels, inner, width, temporal, stride)

    def forward(self, x):
        return torch.relu(self.branch1_bn(self.branch1(x)) + self.branch2(x))


class Stage(nn.Module):
    def __init__(self, slow, fast, temporal, stride):
        super().__init__()
        self.pathway0_res0 = ResBlock(*slow, temporal[0], stride)
        self.pathway1_res0 = ResBlock(*fast, temporal[1], stride)

    def forward(self, slow, fast):
        return self.pathway0_res0(slow), self.pathway1_res0(fast)


class Stems(nn.Module):
    def __init__(self, slow, fast):
        super().__init__()
        self.pathway0_stem = Stem(3, slow, 1)
        self.pathway1_stem = Stem(3, fast, 5)

    def forward(self, slow, fast):
        return self.pathway0_stem(slow), self.pathway1_stem(fast)


class Head(nn.Module):
    def __init__(self, width, classes):
        super().__init__()
        self.projection = nn.Linear(width, classes)

    def forward(self, slow, fast):
        return self.projection(torch.cat([slow.mean((2, 3, 4)), fast.mean((2, 3, 4))], 1))


class Model(nn.Module):
    """Scores (N, classes) of clips (N, 3, T, H, W), where T is a multiple of 4."""

    def __init__(self, slow=16, fast=4, classes=60):
        super().__init__()
        self.s1 = Stems(slow, fast)
        self.s1_fuse = FuseFastToSlow(fast)
        self.s2 = Stage((slow + 2 * fast, slow, 4 * slow), (fast, fast, 4 * fast), (1, 3), 1)
        self.s2_fuse = FuseFastToSlow(4 * fast)
        self.s3 = Stage((4 * slow + 8 * fast, 2 * slow, 8 * slow), (4 * fast, 2 * fast, 8 * fast), (3, 3), 2)
        self.head = Head(8 * slow + 8 * fast, classes)

    def forward(self, x):
        n, channels, frames, height, width = x.shape
        # Of a 4-D tensor (C, D, H, W): every fourth frame.
        slow = F.max_pool3d(x.reshape(n * channels, frames, height, width), (1, 1, 1), stride=(ALPHA, 1, 1))
        slow = slow.reshape(n, channels, frames // ALPHA, height, width)
        slow, fast = self.s1_fuse(*self.s1(slow, x))
        slow, fast = self.s2_fuse(*self.s2(slow, fast))
        return self.head(*self.s3(slow, fast))
