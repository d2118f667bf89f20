"""ST-GCN (Yan et al., AAAI 2018): action recognition from skeletons.

`stgcn` is for the 18 joints of openpose and the 400 classes of Kinetics, `stgcn_ntu` for the 25 joints and 60 classes
of NTU RGB+D. Weights have the names of the authors' implementation.
"""

from typing import Any

import trtdsl as td
import trtdsl.functional as F

N = td.Dim("N", min=1, opt=4, max=16)


def batch_norm(x: td.Tensor, bn: td.Scope):
    return F.batch_norm(x, bn.running_mean, bn.running_var, bn.weight, bn.bias)


def convolution(x: td.Tensor, conv: td.Scope, bn: td.Scope, **arguments: Any):
    return batch_norm(F.conv2d(x, conv.weight, conv.bias, **arguments), bn)


def graph_convolution(x: td.Tensor, adjacency: td.Tensor, w: td.Scope):
    """A 1 x 1 convolution per partition k, its results summed over the neighbours v of each joint w."""
    x = F.conv2d(x, w.conv.weight, w.conv.bias)
    n, kc, t, v = x.shape
    k = adjacency.shape[0]
    x = x.reshape(n, k, kc // k, t, v)
    return F.einsum("nkctv,kvw->nctw", x, adjacency)


def block(x: td.Tensor, adjacency: td.Tensor, w: td.Scope, stride: int, residual: bool):
    skipped = x
    if "residual" in w:
        skipped = convolution(x, w.residual[0], w.residual[1], stride=(stride, 1))
    y = graph_convolution(x, adjacency, w.gcn)
    y = F.relu(batch_norm(y, w.tcn[0]))
    y = convolution(y, w.tcn[2], w.tcn[3], stride=(stride, 1), padding=(4, 0))
    return F.relu(y + skipped if residual else y)


def classify(x: td.Tensor, w: td.Scope):
    n, c, t, v, m = x.shape
    x = x.permute(0, 4, 3, 1, 2).reshape(n * m, v * c, t)
    x = batch_norm(x, w.data_bn)
    x = x.reshape(n, m, v, c, t).permute(0, 1, 3, 4, 2).reshape(n * m, c, t, v)
    for index, scope in enumerate(w.st_gcn_networks):
        adjacency = w.A * w.edge_importance[index]
        x = block(x, adjacency, scope, stride=2 if index in (4, 7) else 1, residual=index > 0)
    x = F.avg_pool2d(x, x.shape[2:])
    x = x.reshape(n, m, -1, 1, 1).mean(dim=1)
    x = F.conv2d(x, w.fcn.weight, w.fcn.bias)
    return {"logits": x.reshape(n, -1)}


@td.network(
    inputs={"x": td.Input((N, 3, 300, 18, 2))},
    weights="../weights/stgcn.safetensors",
    reference="reference/stgcn.py:Model",
)
def stgcn(x: td.Tensor, w: td.Scope):
    return classify(x, w)


@td.network(
    inputs={"x": td.Input((N, 3, 300, 25, 2))},
    weights="../weights/stgcn_ntu.safetensors",
    reference="reference/stgcn.py:NTU",
)
def stgcn_ntu(x: td.Tensor, w: td.Scope):
    return classify(x, w)
