"""DDRNet-23-slim: classes of the pixels of an image of any size, in two branches that are fused by resizing.

Its weights are made by `python tools/make_weights.py ddrnet`.
"""

from collections.abc import Sequence

import trtdsl as td
import trtdsl.functional as F

N = td.Dim("N", min=1, opt=1, max=4)
H, W = td.Dim("H", min=64, opt=512, max=1024), td.Dim("W", min=64, opt=1024, max=2048)


def norm(x: td.Tensor, bn: td.Scope):
    return F.batch_norm(x, bn.running_mean, bn.running_var, bn.weight, bn.bias)


def conv(x: td.Tensor, w: td.Scope, stride: int = 1, padding: int = 0):
    return F.conv2d(x, w.weight, stride=stride, padding=padding)


def basic(x: td.Tensor, w: td.Scope, stride: int = 1, shortcut: bool = False, relu: bool = True):
    y = F.relu(norm(conv(x, w.conv1, stride, 1), w.bn1))
    y = norm(conv(y, w.conv2, 1, 1), w.bn2)
    y = y + (norm(conv(x, w.downsample[0], stride), w.downsample[1]) if shortcut else x)
    return F.relu(y) if relu else y


def bottleneck(x: td.Tensor, w: td.Scope, stride: int = 1):
    y = F.relu(norm(conv(x, w.conv1), w.bn1))
    y = F.relu(norm(conv(y, w.conv2, stride, 1), w.bn2))
    return norm(conv(y, w.conv3), w.bn3) + norm(conv(x, w.downsample[0], stride), w.downsample[1])


def pair(x: td.Tensor, w: td.Scope, stride: int = 1):
    return basic(basic(x, w[0], stride, shortcut=stride != 1), w[1], relu=False)


def resized(x: td.Tensor, size: Sequence[int | td.Size]):
    return F.interpolate(x, size=size, mode="bilinear")


def norm_relu_conv(x: td.Tensor, w: td.Scope, first: int = 0, padding: int = 0):
    return conv(F.relu(norm(x, w[first])), w[first + 2], padding=padding)


def dappm(x: td.Tensor, w: td.Scope):
    scales = [F.avg_pool2d(x, 5, 2, 2), F.avg_pool2d(x, 9, 4, 4), F.avg_pool2d(x, 17, 8, 8)]
    scales.append(F.adaptive_avg_pool2d(x, (1, 1)))
    found = [norm_relu_conv(x, w.scale0)]
    for k, pooled in enumerate(scales, 1):
        y = resized(norm_relu_conv(pooled, w[f"scale{k}"], 1), x.shape[2:])
        found.append(norm_relu_conv(y + found[-1], w[f"process{k}"], padding=1))
    return norm_relu_conv(F.cat(found, 1), w.compression) + norm_relu_conv(x, w.shortcut)


def head(x: td.Tensor, w: td.Scope):
    x = conv(F.relu(norm(x, w.bn1)), w.conv1, padding=1)
    return F.conv2d(F.relu(norm(x, w.bn2)), w.conv2.weight, w.conv2.bias)


@td.network(
    inputs={"x": td.Input((N, 3, H, W))},
    weights="../weights/ddrnet.safetensors",
    reference="reference/ddrnet.py:Model",
)
def ddrnet(x: td.Tensor, w: td.Scope):
    for k in (0, 3):
        x = F.conv2d(x, w.conv1[k].weight, w.conv1[k].bias, stride=2, padding=1)
        x = F.relu(norm(x, w.conv1[k + 1]))
    low = pair(F.relu(pair(x, w.layer1)), w.layer2, 2)
    size = low.shape[2:]
    x, high = pair(F.relu(low), w.layer3, 2), pair(F.relu(low), w.layer3_)
    fused = x + norm(conv(F.relu(high), w.down3[0], 2, 1), w.down3[1])
    high = high + resized(norm(conv(F.relu(x), w.compression3[0]), w.compression3[1]), size)
    x, y = pair(F.relu(fused), w.layer4, 2), pair(F.relu(high), w.layer4_)
    down = F.relu(norm(conv(F.relu(y), w.down4[0], 2, 1), w.down4[1]))
    fused = x + norm(conv(down, w.down4[3], 2, 1), w.down4[4])
    y = y + resized(norm(conv(F.relu(x), w.compression4[0]), w.compression4[1]), size)
    y = bottleneck(F.relu(y), w.layer5_[0])
    x = dappm(bottleneck(F.relu(fused), w.layer5[0], 2), w.spp)
    return {"scores": head(resized(x, size) + y, w.final_layer)}
