"""SlowFast 8×8 R50 (Feichtenhofer, Fan, Malik and He, ICCV 2019), as PySlowFast's SLOWFAST_8x8_R50.yaml.

https://arxiv.org/abs/1812.03982, https://github.com/facebookresearch/SlowFast (names and shapes are its own)

It takes all frames and gives the slow pathway every fourth, as the paper says (PySlowFast's data loader gives both
pathways, the slow one spread from the first frame to the last). The head pools each pathway whole, as PySlowFast's does
for clips of varying size (MULTIGRID.SHORT_CYCLE), so that any length and sides will do; at 32 frames of 224×224 that is
the published window.
"""

import torch
from torch import nn
from torch.nn import functional as F

ALPHA = 4  # the slow pathway sees every fourth frame
BETA = 8  # the fast pathway has an eighth of the channels
FUSION = 7  # frames that a lateral connection sees
DEPTHS = (3, 4, 6, 3)  # blocks of the stages s2 to s5
TEMPORAL = ((1, 3), (1, 3), (3, 3), (3, 3))  # and frames that their blocks see, slow and fast


class Stem(nn.Module):
    def __init__(self, width, frames):
        super().__init__()
        self.conv = nn.Conv3d(3, width, (frames, 7, 7), (1, 2, 2), (frames // 2, 3, 3), bias=False)
        self.bn = nn.BatchNorm3d(width)

    def forward(self, x):
        return F.max_pool3d(torch.relu(self.bn(self.conv(x))), (1, 3, 3), (1, 2, 2), (0, 1, 1))


class Stems(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.pathway0_stem = Stem(width, 1)
        self.pathway1_stem = Stem(width // BETA, 5)

    def forward(self, slow, fast):
        return self.pathway0_stem(slow), self.pathway1_stem(fast)


class FuseFastToSlow(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.conv_f2s = nn.Conv3d(width, 2 * width, (FUSION, 1, 1), (ALPHA, 1, 1), (FUSION // 2, 0, 0), bias=False)
        self.bn = nn.BatchNorm3d(2 * width)

    def forward(self, slow, fast):
        return torch.cat([slow, torch.relu(self.bn(self.conv_f2s(fast)))], 1), fast


class Bottleneck(nn.Module):
    def __init__(self, channels, inner, width, frames, stride):
        super().__init__()
        self.a = nn.Conv3d(channels, inner, (frames, 1, 1), 1, (frames // 2, 0, 0), bias=False)
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
    def __init__(self, channels, inner, width, frames, stride):
        super().__init__()
        self.shortcut = channels != width or stride != 1
        if self.shortcut:
            self.branch1 = nn.Conv3d(channels, width, 1, (1, stride, stride), bias=False)
            self.branch1_bn = nn.BatchNorm3d(width)
        self.branch2 = Bottleneck(channels, inner, width, frames, stride)

    def forward(self, x):
        residual = self.branch1_bn(self.branch1(x)) if self.shortcut else x
        return torch.relu(residual + self.branch2(x))


class Stage(nn.Module):
    """``depth`` blocks a pathway; ``channels`` come in, by pathway; ``inner`` are those within the slow blocks."""

    def __init__(self, channels, inner, frames, depth, stride):
        super().__init__()
        self.depth = depth
        for pathway, share in enumerate((1, BETA)):
            width = 4 * inner // share
            for k in range(depth):
                first = (channels[pathway], stride) if k == 0 else (width, 1)
                block = ResBlock(first[0], inner // share, width, frames[pathway], first[1])
                self.add_module(f"pathway{pathway}_res{k}", block)

    def forward(self, slow, fast):
        for k in range(self.depth):
            slow = self.get_submodule(f"pathway0_res{k}")(slow)
            fast = self.get_submodule(f"pathway1_res{k}")(fast)
        return slow, fast


class Head(nn.Module):
    def __init__(self, width, classes):
        super().__init__()
        self.projection = nn.Linear(width, classes)

    def forward(self, slow, fast):
        x = torch.cat([slow.mean((2, 3, 4)), fast.mean((2, 3, 4))], 1)
        return torch.softmax(self.projection(x), 1)


class Model(nn.Module):
    """Probabilities (N, classes) of clips (N, 3, T, H, W)."""

    def __init__(self, width=64, classes=400):
        super().__init__()
        self.s1 = Stems(width)
        slow, fast, inner = width, width // BETA, width
        for k, (depth, frames) in enumerate(zip(DEPTHS, TEMPORAL, strict=True), 2):
            self.add_module(f"s{k - 1}_fuse", FuseFastToSlow(fast))
            self.add_module(f"s{k}", Stage((slow + 2 * fast, fast), inner, frames, depth, 1 if k == 2 else 2))
            slow, fast, inner = 4 * inner, 4 * inner // BETA, 2 * inner
        self.head = Head(slow + fast, classes)

    def forward(self, x):
        # Of four dimensions (C, T, H, W): every fourth frame.
        slow = F.max_pool3d(x.flatten(0, 1), (1, 1, 1), stride=(ALPHA, 1, 1))
        pathways = slow.unflatten(0, x.shape[:2]), x
        pathways = self.s1_fuse(*self.s1(*pathways))
        pathways = self.s2_fuse(*self.s2(*pathways))
        pathways = self.s3_fuse(*self.s3(*pathways))
        pathways = self.s4_fuse(*self.s4(*pathways))
        return self.head(*self.s5(*pathways))
