"""SlowFast, narrow: actions in a clip of dynamic size, by a pathway of every fourth frame and a fast one of all."""

import trtdsl as td
import trtdsl.functional as F

N = td.Dim("N", min=1, opt=2, max=4)
T4 = td.Dim("T4", min=1, opt=4, max=8)
H, W = td.Dim("H", min=32, opt=112, max=160), td.Dim("W", min=32, opt=112, max=160)
ALPHA = 4


def conv(x, weight, bn, stride=1, padding=0):
    x = F.conv3d(x, weight, stride=stride, padding=padding)
    return F.batch_norm(x, bn.running_mean, bn.running_var, bn.weight, bn.bias)


def stem(x, w, kernel):
    x = F.relu(conv(x, w.conv.weight, w.bn, (1, 2, 2), (kernel // 2, 3, 3)))
    return F.max_pool3d(x, (1, 3, 3), (1, 2, 2), (0, 1, 1))


def fuse(slow, fast, w):
    lateral = F.relu(conv(fast, w.conv_f2s.weight, w.bn, (ALPHA, 1, 1), (2, 0, 0)))
    return F.cat([slow, lateral], 1)


def block(x, w, temporal, stride):
    inner = w.branch2
    y = F.relu(conv(x, inner.a.weight, inner.a_bn, 1, (temporal // 2, 0, 0)))
    y = F.relu(conv(y, inner.b.weight, inner.b_bn, (1, stride, stride), (0, 1, 1)))
    y = conv(y, inner.c.weight, inner.c_bn)
    return F.relu(conv(x, w.branch1.weight, w.branch1_bn, (1, stride, stride)) + y)


@td.network(
    inputs={"x": td.Input((N, 3, 4 * T4, H, W))},
    weights="../weights/slowfast.safetensors",
    reference="reference/slowfast.py:Model",
)
def slowfast(x, w):
    n, channels, frames, height, width = x.shape
    # Of a 4-D tensor (C, D, H, W): every fourth frame.
    slow = F.max_pool3d(x.reshape(n * channels, frames, height, width), (1, 1, 1), stride=(ALPHA, 1, 1))
    slow = slow.reshape(n, channels, frames // ALPHA, height, width)
    slow, fast = stem(slow, w.s1.pathway0_stem, 1), stem(x, w.s1.pathway1_stem, 5)
    slow = fuse(slow, fast, w.s1_fuse)
    slow, fast = block(slow, w.s2.pathway0_res0, 1, 1), block(fast, w.s2.pathway1_res0, 3, 1)
    slow = fuse(slow, fast, w.s2_fuse)
    slow, fast = block(slow, w.s3.pathway0_res0, 3, 2), block(fast, w.s3.pathway1_res0, 3, 2)
    features = F.cat([slow.mean((2, 3, 4)), fast.mean((2, 3, 4))], 1)
    return {"scores": F.linear(features, w.head.projection.weight, w.head.projection.bias)}
