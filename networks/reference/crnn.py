"""CRNN in plain torch: Shi, Bai and Yao, "An End-to-End Trainable Neural Network for Image-based Sequence Recognition",
TPAMI 2017: seven convolutions, two bidirectional LSTM layers, and scores for connectionist temporal classification.
"""

import torch
import torch.nn.functional as F
from torch import nn

# Channels, kernel, padding, batch norm, and the pooling after it (kernel, stride, padding).
LAYERS = [
    (64, 3, 1, False, (2, 2, 0)),
    (128, 3, 1, False, (2, 2, 0)),
    (256, 3, 1, True, None),
    (256, 3, 1, False, ((2, 2), (2, 1), (0, 1))),
    (512, 3, 1, True, None),
    (512, 3, 1, False, ((2, 2), (2, 1), (0, 1))),
    (512, 2, 0, True, None),
]


class Model(nn.Module):
    """Log-probabilities (W // 4 + 1, N, 37) of blank, digits and letters for grey images (N, 1, 32, W)."""

    def __init__(self, classes=37, hidden=256):
        super().__init__()
        channels = 1
        for index, (width, kernel, padding, norm, _) in enumerate(LAYERS):
            self.add_module(f"conv{index}", nn.Conv2d(channels, width, kernel, padding=padding))
            if norm:
                self.add_module(f"norm{index}", nn.BatchNorm2d(width))
            channels = width
        self.rnn = nn.LSTM(channels, hidden, num_layers=2, bidirectional=True)
        self.fc = nn.Linear(2 * hidden, classes)

    def forward(self, x):
        for index, (*_, norm, pooling) in enumerate(LAYERS):
            x = getattr(self, f"conv{index}")(x)
            if norm:
                x = getattr(self, f"norm{index}")(x)
            x = torch.relu(x)
            if pooling is not None:
                x = F.max_pool2d(x, *pooling)
        x, _ = self.rnn(x.squeeze(2).permute(2, 0, 1))
        return {"log_probabilities": F.log_softmax(self.fc(x), dim=2)}
