"""ST-GCN in plain torch: Yan, Xiong, Lin, "Spatial Temporal Graph Convolutional Networks for Skeleton-Based Action
Recognition", AAAI 2018. The state_dict has the names of the authors' implementation.
"""

import numpy as np
import torch
from torch import nn

# Bones as pairs of joints, and the joint that counts as the body's centre.
OPENPOSE = (
    18,
    [(4, 3), (3, 2), (7, 6), (6, 5), (13, 12), (12, 11), (10, 9), (9, 8), (11, 5)]
    + [(8, 2), (5, 1), (2, 1), (0, 1), (15, 0), (14, 0), (17, 15), (16, 14)],
    1,
)
NTU_RGBD = (
    25,
    [(0, 1), (1, 20), (2, 20), (3, 2), (4, 20), (5, 4), (6, 5), (7, 6), (8, 20), (9, 8), (10, 9), (11, 10)]
    + [(12, 0), (13, 12), (14, 13), (15, 14), (16, 0), (17, 16), (18, 17), (19, 18), (21, 22), (22, 7)]
    + [(23, 24), (24, 11)],
    20,
)


def spatial_partitions(joints, bones, centre):
    """The normalised adjacency matrix split by where a neighbour stands: (3, joints, joints).

    Partition 0 is the joint itself, 1 its neighbours as near to the centre or nearer than it, 2 those farther away
    (the paper's spatial configuration partitioning, section 3.3).
    """
    adjacency = np.eye(joints)
    for a, b in bones:
        adjacency[a, b] = adjacency[b, a] = 1
    distance = np.where(adjacency > 0, 1.0, np.inf)
    np.fill_diagonal(distance, 0)
    for middle in range(joints):  # shortest paths
        distance = np.minimum(distance, distance[:, middle : middle + 1] + distance[middle : middle + 1])
    normalised = adjacency / adjacency.sum(axis=0)
    depth = distance[:, centre]
    partitions = np.zeros((3, joints, joints))
    for a in range(joints):
        for b in range(joints):
            if distance[a, b] == 0:
                partitions[0, a, b] = normalised[a, b]
            elif distance[a, b] == 1:
                partitions[1 if depth[a] >= depth[b] else 2, a, b] = normalised[a, b]
    return torch.tensor(partitions, dtype=torch.float32, device="cpu")


class GraphConvolution(nn.Module):
    """A 1 x 1 convolution per partition, its results summed over the neighbours of each joint."""

    def __init__(self, in_channels, out_channels, partitions):
        super().__init__()
        self.partitions = partitions
        self.conv = nn.Conv2d(in_channels, out_channels * partitions, kernel_size=1)

    def forward(self, x, adjacency):
        x = self.conv(x)
        n, kc, t, v = x.shape
        x = x.view(n, self.partitions, kc // self.partitions, t, v)
        adjacency = adjacency.to(x.dtype)  # which autocast does on a GPU; on the CPU it leaves einsum alone
        return torch.einsum("nkctv,kvw->nctw", x, adjacency).contiguous()


class Block(nn.Module):
    """Spatial graph convolution, then convolution over time, with a residual connection."""

    def __init__(self, in_channels, out_channels, partitions, stride=1, residual=True):
        super().__init__()
        self.gcn = GraphConvolution(in_channels, out_channels, partitions)
        self.tcn = nn.Sequential(
            nn.BatchNorm2d(out_channels),
            nn.ReLU(),
            nn.Conv2d(out_channels, out_channels, (9, 1), (stride, 1), padding=(4, 0)),
            nn.BatchNorm2d(out_channels),
            nn.Dropout(0.5),
        )
        self.has_residual = residual
        self.residual = None
        if residual and (in_channels != out_channels or stride != 1):
            self.residual = nn.Sequential(
                nn.Conv2d(in_channels, out_channels, kernel_size=1, stride=(stride, 1)),
                nn.BatchNorm2d(out_channels),
            )

    def forward(self, x, adjacency):
        skipped = self.residual(x) if self.residual is not None else x if self.has_residual else 0
        return torch.relu(self.tcn(self.gcn(x, adjacency)) + skipped)


class Model(nn.Module):
    """Skeletons (N, C, T, V, M): batch, channels, frames, joints, people; to class scores (N, classes)."""

    def __init__(self, graph=OPENPOSE, in_channels=3, classes=400):
        super().__init__()
        adjacency = spatial_partitions(*graph)
        partitions, joints, _ = adjacency.shape
        self.register_buffer("A", adjacency)
        self.data_bn = nn.BatchNorm1d(in_channels * joints)
        widths = [(in_channels, 64, 1), (64, 64, 1), (64, 64, 1), (64, 64, 1), (64, 128, 2)]
        widths += [(128, 128, 1), (128, 128, 1), (128, 256, 2), (256, 256, 1), (256, 256, 1)]
        self.st_gcn_networks = nn.ModuleList(
            Block(*channels, partitions, stride, residual=index > 0) for index, (*channels, stride) in enumerate(widths)
        )
        self.edge_importance = nn.ParameterList(nn.Parameter(torch.ones(adjacency.shape)) for _ in widths)
        self.fcn = nn.Conv2d(256, classes, kernel_size=1)

    def forward(self, x):
        n, c, t, v, m = x.shape
        x = x.permute(0, 4, 3, 1, 2).reshape(n * m, v * c, t)
        x = self.data_bn(x)
        x = x.view(n, m, v, c, t).permute(0, 1, 3, 4, 2).reshape(n * m, c, t, v)
        for block, importance in zip(self.st_gcn_networks, self.edge_importance, strict=True):
            x = block(x, self.A * importance)
        x = nn.functional.avg_pool2d(x, x.shape[2:])
        x = x.view(n, m, -1, 1, 1).mean(dim=1)
        return self.fcn(x).view(n, -1)


class NTU(Model):
    """The same for the 25 joints and 60 classes of NTU RGB+D."""

    def __init__(self):
        super().__init__(NTU_RGBD, classes=60)
