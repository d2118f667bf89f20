"""RAFT, the small model (Teed and Deng, ECCV 2020): optical flow from two frames.

Frames are (N, 3, H, W) from -1 to 1, height and width multiples of 8; a flow is (N, 2, H, W), (x, y) in pixels.
Weights have the names of torchvision's `raft_small`. `raft_small` gives the flow after 12 updates, `raft_small_all`
those after each of 6; `raft(…, updates=…, every=…)` is there for networks of your own.
"""

from collections.abc import Callable

import trtdsl as td
import trtdsl.functional as F

N = td.Dim("N", min=1, opt=1, max=2)
HEIGHT = 8 * td.Dim("H8", min=16, opt=46, max=64)
WIDTH = 8 * td.Dim("W8", min=16, opt=62, max=64)

HIDDEN = 96  # channels of the GRU's state
LEVELS = 4  # of the correlation pyramid
RADIUS = 3  # a look-up reads (2 * 3 + 1) ** 2 correlations around a point


Norm = Callable[[td.Tensor], td.Tensor]


def convolution(x: td.Tensor, w: td.Scope, stride: int = 1):
    return F.conv2d(x, w.weight, w.bias, stride=stride, padding=w.weight.shape[-1] // 2)


def bottleneck(x: td.Tensor, w: td.Scope, stride: int, norm: Norm):
    y = F.relu(norm(convolution(x, w.convnormrelu1[0])))
    y = F.relu(norm(convolution(y, w.convnormrelu2[0], stride)))
    y = F.relu(norm(convolution(y, w.convnormrelu3[0])))
    if stride > 1:
        x = norm(convolution(x, w.downsample[0], stride))
    return F.relu(x + y)


def encoder(x: td.Tensor, w: td.Scope, norm: Norm):
    """An eighth of the size."""
    x = F.relu(norm(convolution(x, w.convnormrelu[0], stride=2)))
    for layer, stride in ((w.layer1, 1), (w.layer2, 2), (w.layer3, 2)):
        x = bottleneck(x, layer[0], stride, norm)
        x = bottleneck(x, layer[1], 1, norm)
    return convolution(x, w.conv)


def correlation_pyramid(first: td.Tensor, second: td.Tensor):
    """Products of every feature of the first frame with every one of the second, and their averages."""
    n, c, h, w = first.shape
    volume = F.einsum("nchw,ncij->nhwij", first / c**0.5, second)
    pyramid = [volume.reshape(n * h * w, 1, h, w)]
    for _ in range(LEVELS - 1):
        pyramid.append(F.avg_pool2d(pyramid[-1], 2, stride=2))
    return pyramid


def look_up(pyramid: list[td.Tensor], points: td.Tensor):
    """Correlations around `points` (N, 2, H, W), in pixels, at each level of the pyramid: (N, 4 * 7 * 7, H, W)."""
    n, _, h, w = points.shape
    reach = F.arange(-RADIUS, RADIUS + 1, dtype="float32")
    side = reach.shape[0]
    # The first of the two dimensions moves x, the second y, as the weights were trained.
    neighbours = F.stack(F.meshgrid(reach, reach, indexing="ij"), -1).reshape(1, side, side, 2)
    centres = points.permute(0, 2, 3, 1).reshape(n * h * w, 1, 1, 2)
    features: list[td.Tensor] = []
    for level, volume in enumerate(pyramid):
        values, _ = F.bilinear_sample(volume, centres / 2**level + neighbours, padding_mode="zeros")
        features.append(values.reshape(n, h, w, side * side))
    return F.cat(features, -1).permute(0, 3, 1, 2)


def motion(flow: td.Tensor, correlations: td.Tensor, w: td.Scope):
    a = F.relu(convolution(correlations, w.convcorr1[0]))
    b = F.relu(convolution(flow, w.convflow1[0]))
    b = F.relu(convolution(b, w.convflow2[0]))
    return F.cat([F.relu(convolution(F.cat([a, b], 1), w.conv[0])), flow], 1)


def gru(h: td.Tensor, x: td.Tensor, w: td.Scope):
    hx = F.cat([h, x], 1)
    z = F.sigmoid(convolution(hx, w.convz))
    r = F.sigmoid(convolution(hx, w.convr))
    q = F.tanh(convolution(F.cat([r * h, x], 1), w.convq))
    return (1 - z) * h + z * q


def raft(first: td.Tensor, second: td.Tensor, w: td.Scope, updates: int = 12, every: bool = False):
    """The flow after the last update, or a list of those after each."""
    n, _, height, width = first.shape
    rows, columns = height // 8, width // 8
    features = encoder(F.cat([first, second], 0), w.feature_encoder, F.instance_norm)
    pyramid = correlation_pyramid(features[:n], features[n:])
    context = encoder(first, w.context_encoder, lambda x: x)
    hidden, context = F.tanh(context[:, :HIDDEN]), F.relu(context[:, HIDDEN:])

    y, x = F.meshgrid(F.arange(rows, dtype="float32"), F.arange(columns, dtype="float32"), indexing="ij")
    start = F.stack([x, y], 0).reshape(1, 2, rows, columns).expand(n, 2, rows, columns)

    def update(state: tuple[td.Tensor, td.Tensor], _: td.Tensor):
        hidden, flow = state
        correlations = look_up(pyramid, start + flow)
        features = motion(flow.to(correlations.dtype), correlations, w.update_block.motion_encoder)
        hidden = gru(hidden, F.cat([context, features], 1), w.update_block.recurrent_block.convgru1)
        head = w.update_block.flow_head
        flow = flow + convolution(F.relu(convolution(hidden, head.conv1)), head.conv2)
        return (hidden, flow), flow if every else ()

    # In a loop, which holds the layers of one update.
    (_, flow), flows = td.scan(update, (hidden, F.zeros_like(start)), F.arange(updates))
    wanted = F.unbind(flows) if every else [flow]
    enlarged = [8 * F.interpolate(flow, (height, width), mode="bilinear", align_corners=True) for flow in wanted]
    return enlarged if every else enlarged[0]


def frames():
    return {name: td.Input((N, 3, HEIGHT, WIDTH), sample=(-1.0, 1.0)) for name in ("image1", "image2")}


@td.network(inputs=frames(), weights="../weights/raft_small.safetensors", reference="reference/raft_small.py:Model")
def raft_small(image1: td.Tensor, image2: td.Tensor, w: td.Scope):
    return {"flow": raft(image1, image2, w)}


@td.network(inputs=frames(), weights="../weights/raft_small.safetensors", reference="reference/raft_small.py:EveryFlow")
def raft_small_all(image1: td.Tensor, image2: td.Tensor, w: td.Scope):
    flows = raft(image1, image2, w, updates=6, every=True)
    return {f"flow{index}": flow for index, flow in enumerate(flows, 1)}
