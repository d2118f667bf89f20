"""SlowFast 8×8 R50: actions in a clip of any length and size, by a pathway of every fourth frame and a fast one of all.

Its weights are made by `python tools/make_weights.py slowfast`.
"""

import trtdsl as td
import trtdsl.functional as F
import trtdsl.layers as L

N = td.Dim("N", min=1, opt=1, max=2)
T = td.Dim("T", min=4, opt=32, max=64)
H, W = td.Dim("H", min=64, opt=224, max=256), td.Dim("W", min=64, opt=224, max=256)
ALPHA, DEPTHS = 4, {2: 3, 3: 4, 4: 6, 5: 3}
SUMS = (3, 4)  # stages whose first convolutions are sums over both pathways: the two largest copies, in as many bytes
Joined = td.Tensor | tuple[td.Tensor, td.Tensor]  # a pair is the concatenation of both


def conv(x: Joined, w: td.Scope, bn: td.Scope, stride: int | tuple[int, int, int] = 1):
    padding = [side // 2 for side in w.weight.shape[2:]]
    if isinstance(x, td.Tensor):
        x = F.conv3d(x, w.weight, stride=stride, padding=padding)
        return F.batch_norm(x, bn.running_mean, bn.running_var, bn.weight, bn.bias)
    # A sum, since the builder would copy the slow pathway into the concatenation.
    slow, fast = x
    scale = bn.weight / F.sqrt(bn.running_var + 1e-5)
    weight, bias = w.weight * scale.reshape(-1, 1, 1, 1, 1), bn.bias - bn.running_mean * scale
    y = F.conv3d(fast, weight[:, slow.shape[1] :], stride=stride, padding=padding)
    return y + F.conv3d(slow, weight[:, : slow.shape[1]], bias, stride=stride, padding=padding)


def maxima(x: td.Tensor):
    """Of windows of 3 × 3, two apart, by slices: a pooling layer's result would be copied into the concatenation.

    Slices of open sizes are copies themselves, and larger ones.
    """
    if not all(isinstance(size, int) for size in x.shape[3:]):
        return F.max_pool3d(x, (1, 3, 3), (1, 2, 2), (0, 1, 1))
    x = F.pad(x, (1, 1, 1, 1))  # zeros, and no value is below zero behind a ReLU
    x = F.maximum(F.maximum(x[..., :-2:2], x[..., 1:-1:2]), x[..., 2::2])
    return F.maximum(F.maximum(x[..., :-2:2, :], x[..., 1:-1:2, :]), x[..., 2::2, :])


def block(x: Joined, w: td.Scope, stride: int):
    shortcut = x
    if "branch1" in w:  # a layer at once, not where it is first used: the builder orders launches so, and saves 2 MB
        shortcut = L.identity(conv(x, w.branch1, w.branch1_bn, (1, stride, stride)))
    y = F.relu(conv(x, w.branch2.a, w.branch2.a_bn))
    y = F.relu(conv(y, w.branch2.b, w.branch2.b_bn, (1, stride, stride)))
    return F.relu(shortcut + conv(y, w.branch2.c, w.branch2.c_bn))


def stage(x: Joined, blocks: list[td.Scope], stride: int):
    y = block(x, blocks[0], stride)
    for w in blocks[1:]:
        y = block(y, w, 1)
    return y


@td.network(
    inputs={"x": td.Input((N, 3, T, H, W))},
    weights="../weights/slowfast.safetensors",
    reference="reference/slowfast.py:Model",
)
def slowfast(x: td.Tensor, w: td.Scope):
    # The slow pathway's convolution takes every fourth frame, with a kernel of one frame.
    slow = maxima(F.relu(conv(x, w.s1.pathway0_stem.conv, w.s1.pathway0_stem.bn, (ALPHA, 2, 2))))
    fast = F.relu(conv(x, w.s1.pathway1_stem.conv, w.s1.pathway1_stem.bn, (1, 2, 2)))
    fast = F.max_pool3d(fast, (1, 3, 3), (1, 2, 2), (0, 1, 1))
    for k, depth in DEPTHS.items():
        lateral, stride = w[f"s{k - 1}_fuse"], 1 if k == 2 else 2
        both = slow, F.relu(conv(fast, lateral.conv_f2s, lateral.bn, (ALPHA, 1, 1)))
        blocks = [[w[f"s{k}"][f"pathway{pathway}_res{n}"] for n in range(depth)] for pathway in range(2)]
        slow = stage(both if k in SUMS else F.cat(both, 1), blocks[0], stride)
        fast = stage(fast, blocks[1], stride)
    features = F.cat([slow.mean((2, 3, 4)), fast.mean((2, 3, 4))], 1)
    return {"scores": F.softmax(F.linear(features, w.head.projection.weight, w.head.projection.bias), 1)}
