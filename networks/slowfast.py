"""SlowFast 8×8 R50: actions in a clip of any length and size, by a pathway of every fourth frame and a fast one of all.

Its weights are made by `python tools/make_weights.py slowfast`.
"""

import trtdsl as td
import trtdsl.functional as F

N = td.Dim("N", min=1, opt=1, max=2)
T = td.Dim("T", min=4, opt=32, max=64)
H, W = td.Dim("H", min=64, opt=224, max=256), td.Dim("W", min=64, opt=224, max=256)
ALPHA, DEPTHS = 4, {2: 3, 3: 4, 4: 6, 5: 3}


def conv(x: td.Tensor, w: td.Scope, bn: td.Scope, stride: int | tuple[int, int, int] = 1):
    x = F.conv3d(x, w.weight, stride=stride, padding=[side // 2 for side in w.weight.shape[2:]])
    return F.batch_norm(x, bn.running_mean, bn.running_var, bn.weight, bn.bias)


def stem(x: td.Tensor, w: td.Scope):
    return F.max_pool3d(F.relu(conv(x, w.conv, w.bn, (1, 2, 2))), (1, 3, 3), (1, 2, 2), (0, 1, 1))


def fuse(slow: td.Tensor, fast: td.Tensor, w: td.Scope):
    return F.cat([slow, F.relu(conv(fast, w.conv_f2s, w.bn, (ALPHA, 1, 1)))], 1)


def block(x: td.Tensor, w: td.Scope, stride: int):
    y = F.relu(conv(x, w.branch2.a, w.branch2.a_bn))
    y = F.relu(conv(y, w.branch2.b, w.branch2.b_bn, (1, stride, stride)))
    y = conv(y, w.branch2.c, w.branch2.c_bn)
    if "branch1" in w:
        x = conv(x, w.branch1, w.branch1_bn, (1, stride, stride))
    return F.relu(x + y)


def stage(x: td.Tensor, w: td.Scope, pathway: int, depth: int, stride: int):
    for k in range(depth):
        x = block(x, w[f"pathway{pathway}_res{k}"], stride if k == 0 else 1)
    return x


@td.network(
    inputs={"x": td.Input((N, 3, T, H, W))},
    weights="../weights/slowfast.safetensors",
    reference="reference/slowfast.py:Model",
)
def slowfast(x: td.Tensor, w: td.Scope):
    # Of four dimensions (C, T, H, W): every fourth frame.
    slow = F.max_pool3d(x.flatten(0, 1), (1, 1, 1), stride=(ALPHA, 1, 1)).unflatten(0, x.shape[:2])
    slow, fast = stem(slow, w.s1.pathway0_stem), stem(x, w.s1.pathway1_stem)
    for k, depth in DEPTHS.items():
        slow = fuse(slow, fast, w[f"s{k - 1}_fuse"])
        slow, fast = (stage(y, w[f"s{k}"], p, depth, 1 if k == 2 else 2) for p, y in enumerate((slow, fast)))
    features = F.cat([slow.mean((2, 3, 4)), fast.mean((2, 3, 4))], 1)
    return {"scores": F.softmax(F.linear(features, w.head.projection.weight, w.head.projection.bias), 1)}
