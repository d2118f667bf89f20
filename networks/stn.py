"""A spatial transformer (Jaderberg et al., NeurIPS 2015): a digit is turned upright before it is classified.

A small network finds an affine transformation for each image, `affine_grid` makes the points at which it is read, and
`grid_sample` reads it there. Layers and names are those of PyTorch's tutorial on spatial transformers.
"""

import trtdsl as td
import trtdsl.functional as F

N = td.Dim("N", min=1, opt=8, max=32)


def transformed(x: td.Tensor, w: td.Scope):
    """The image as the localization network wants it seen."""
    y = F.conv2d(x, w.localization[0].weight, w.localization[0].bias)
    y = F.relu(F.max_pool2d(y, 2, stride=2))
    y = F.conv2d(y, w.localization[3].weight, w.localization[3].bias)
    y = F.relu(F.max_pool2d(y, 2, stride=2))
    y = F.relu(F.linear(y.flatten(1), w.fc_loc[0].weight, w.fc_loc[0].bias))
    theta = F.linear(y, w.fc_loc[2].weight, w.fc_loc[2].bias).reshape(-1, 2, 3)
    return F.grid_sample(x, F.affine_grid(theta, x.shape, align_corners=False), align_corners=False)


@td.network(
    inputs={"x": td.Input((N, 1, 28, 28))},
    weights="../weights/stn.safetensors",
    reference="reference/stn.py:Model",
)
def stn(x: td.Tensor, w: td.Scope):
    seen = transformed(x, w)
    y = F.relu(F.max_pool2d(F.conv2d(seen, w.conv1.weight, w.conv1.bias), 2))
    y = F.relu(F.max_pool2d(F.conv2d(y, w.conv2.weight, w.conv2.bias), 2))
    y = F.relu(F.linear(y.flatten(1), w.fc1.weight, w.fc1.bias))
    logits = F.linear(y, w.fc2.weight, w.fc2.bias)
    return {"log_probabilities": F.log_softmax(logits, dim=1), "seen": seen}
