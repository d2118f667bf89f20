"""MobileFaceNet: the embedding of a face, 112 by 112 pixels, as a unit vector."""

import trtdsl as td
import trtdsl.functional as F

N = td.Dim("N", min=1, opt=4, max=16)
BLOCKS = (4, 6, 2)


def norm(x: td.Tensor, bn: td.Scope):
    return F.batch_norm(x, bn.running_mean, bn.running_var, bn.weight, bn.bias)


def linear_block(x: td.Tensor, w: td.Scope, groups: int = 1):
    w = w.layers
    return norm(F.conv2d(x, w[0].weight, groups=groups), w[1])


def conv_block(x: td.Tensor, w: td.Scope, stride: int = 1, padding: int = 0, groups: int = 1):
    w = w.layers
    x = norm(F.conv2d(x, w[0].weight, stride=stride, padding=padding, groups=groups), w[1])
    return F.prelu(x, w[2].weight)


def depthwise(x: td.Tensor, w: td.Scope, stride: int, groups: int, residual: bool = False):
    w = w.layers
    y = conv_block(x, w[0])
    y = conv_block(y, w[1], stride, 1, groups)
    y = linear_block(y, w[2])
    return x + y if residual else y


def residual(x: td.Tensor, w: td.Scope, blocks: int, groups: int):
    for k in range(blocks):
        x = depthwise(x, w.layers[k], 1, groups, residual=True)
    return x


@td.network(
    inputs={"x": td.Input((N, 3, 112, 112))},
    weights="../weights/mobilefacenet.safetensors",
    reference="reference/mobilefacenet.py:Model",
)
def mobilefacenet(x: td.Tensor, w: td.Scope):
    layers = w.layers
    x = conv_block(x, layers[0], stride=2, padding=1)
    x = conv_block(x, layers[1], padding=1, groups=64)
    x = depthwise(x, layers[2], 2, 128)
    x = residual(x, layers[3], BLOCKS[0], 128)
    x = depthwise(x, layers[4], 2, 256)
    x = residual(x, layers[5], BLOCKS[1], 256)
    x = depthwise(x, layers[6], 2, 512)
    x = residual(x, layers[7], BLOCKS[2], 256)
    x = conv_block(x, w.conv_sep)
    head = w.features.layers
    x = linear_block(x, head[0], groups=512).flatten(1)
    x = norm(F.linear(x, head[2].weight), head[3])
    return {"embedding": F.normalize(x)}
