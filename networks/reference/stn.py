"""A spatial transformer in plain torch: Jaderberg et al., "Spatial Transformer Networks", NeurIPS 2015, with the layers
and names of PyTorch's tutorial.
"""

import torch
import torch.nn.functional as F
from torch import nn


class Model(nn.Module):
    """Log-probabilities (N, 10) of digits (N, 1, 28, 28), and the images as they were transformed."""

    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 10, 5)
        self.conv2 = nn.Conv2d(10, 20, 5)
        self.fc1 = nn.Linear(320, 50)
        self.fc2 = nn.Linear(50, 10)
        self.localization = nn.Sequential(
            nn.Conv2d(1, 8, 7), nn.MaxPool2d(2, 2), nn.ReLU(), nn.Conv2d(8, 10, 5), nn.MaxPool2d(2, 2), nn.ReLU()
        )
        self.fc_loc = nn.Sequential(nn.Linear(10 * 3 * 3, 32), nn.ReLU(), nn.Linear(32, 6))

    def forward(self, x):
        theta = self.fc_loc(self.localization(x).flatten(1)).reshape(-1, 2, 3)
        seen = F.grid_sample(x, F.affine_grid(theta, x.shape, align_corners=False), align_corners=False)
        y = torch.relu(F.max_pool2d(self.conv1(seen), 2))
        y = torch.relu(F.max_pool2d(self.conv2(y), 2))
        y = torch.relu(self.fc1(y.flatten(1)))
        return {"log_probabilities": F.log_softmax(self.fc2(y), dim=1), "seen": seen}
