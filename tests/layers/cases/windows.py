"""CONVOLUTION, DECONVOLUTION, POOLING, RESIZE, GRID_SAMPLE: everything that looks at neighbours."""

from __future__ import annotations

import itertools

import numpy as np
import torch

from . import case, signed, trt


def pads(mode, length, extent, stride, pre, post):
    """Padding before and after, by the formulas of PaddingMode."""
    if mode.startswith("SAME"):
        total = max((length - 1) // stride * stride + extent - length, 0)
        small = total // 2
        return (small, total - small) if mode == "SAME_UPPER" else (total - small, small)
    return pre, post


def sizes(mode, length, extent, stride, pre, post):
    if mode.startswith("SAME"):
        return -(-length // stride)
    whole = length + pre + post - extent
    return (-(-whole // stride) if mode == "EXPLICIT_ROUND_UP" else whole // stride) + 1


def convolve(x, kernel, bias=None, stride=1, pre=0, post=0, dilation=1, groups=1, mode="EXPLICIT_ROUND_DOWN"):
    """The correlation, one output element after the other."""
    rank = x.ndim - 2
    stride, pre, post, dilation = ((v,) * rank if isinstance(v, int) else v for v in (stride, pre, post, dilation))
    extent = [d * (k - 1) + 1 for d, k in zip(dilation, kernel.shape[2:])]
    rules = list(zip(x.shape[2:], extent, stride, pre, post))
    out = [sizes(mode, *rule) for rule in rules]
    before = [pads(mode, *rule)[0] for rule in rules]
    result = np.zeros((x.shape[0], kernel.shape[0], *out))
    per_group = kernel.shape[0] // groups
    for index in np.ndindex(*result.shape):
        n, o, place = index[0], index[1], index[2:]
        total = 0.0 if bias is None else float(bias[o])
        for c in range(kernel.shape[1]):
            for tap in np.ndindex(*kernel.shape[2:]):
                at = [p * s - b + t * d for p, s, b, t, d in zip(place, stride, before, tap, dilation)]
                if all(0 <= a < size for a, size in zip(at, x.shape[2:])):
                    total += float(x[(n, o // per_group * kernel.shape[1] + c, *at)]) * float(kernel[(o, c, *tap)])
        result[index] = total
    return result


def deconvolve(x, kernel, bias=None, stride=1, pre=0, post=0, dilation=1, groups=1, mode="EXPLICIT_ROUND_DOWN"):
    """The transpose, each input element spread over the outputs."""
    rank = x.ndim - 2
    stride, pre, post, dilation = ((v,) * rank if isinstance(v, int) else v for v in (stride, pre, post, dilation))
    extent = [d * (k - 1) + 1 for d, k in zip(dilation, kernel.shape[2:])]
    out, before = [], []
    for length, dk, s, b, a in zip(x.shape[2:], extent, stride, pre, post):
        if mode.startswith("SAME"):
            total = max(dk - s, 0)
            out.append(min(length * s, (length - 1) * s + dk))
            before.append(total // 2 if mode == "SAME_UPPER" else total - total // 2)
        else:
            out.append((length - 1) * s + dk - b - a)
            before.append(b)
    maps = kernel.shape[1] * groups
    result = np.zeros((x.shape[0], maps, *out))
    if bias is not None:
        result += bias.reshape(1, -1, *(1,) * rank)
    channels = x.shape[1] // groups
    for index in np.ndindex(*x.shape):
        n, c, place = index[0], index[1], index[2:]
        for o in range(kernel.shape[1]):
            for tap in np.ndindex(*kernel.shape[2:]):
                at = [p * s - b + t * d for p, s, b, t, d in zip(place, stride, before, tap, dilation)]
                if all(0 <= a < size for a, size in zip(at, out)):
                    result[(n, c // channels * kernel.shape[1] + o, *at)] += float(x[index]) * float(
                        kernel[(c, o, *tap)]
                    )
    return result


def layer_of(transpose, kernel, bias=None, given=False, **options):
    groups = options.get("groups", 1)
    maps = kernel.shape[1] * groups if transpose else kernel.shape[0]
    rank = kernel.ndim - 2

    def build(n, x, *computed):
        add = n.add_deconvolution_nd if transpose else n.add_convolution_nd
        weights = trt.Weights() if given else n.weights(kernel)
        layer = add(x, maps, kernel.shape[2:], weights, trt.Weights() if bias is None else n.weights(bias))
        names = {"stride": "stride_nd", "dilation": "dilation_nd", "pre": "pre_padding", "post": "post_padding"}
        for name, value in options.items():
            if name in names:
                setattr(layer, names[name], (value,) * rank if isinstance(value, int) else value)
        layer.num_groups = groups
        if "mode" in options:
            layer.padding_mode = getattr(trt.PaddingMode, options["mode"])
        if given:
            layer.set_input(1, computed[0])
        return layer

    return build


VARIANTS = {
    "plain": {}, "stride": {"stride": 2}, "padding": {"pre": (1, 0), "post": (2, 1)}, "dilation": {"dilation": (1, 2)},
    "all": {"stride": (2, 1), "pre": 1, "post": (0, 1), "dilation": (2, 1)}, "groups": {"groups": 2},
    "round-up": {"stride": 2, "mode": "EXPLICIT_ROUND_UP"}, "same-upper": {"stride": 2, "mode": "SAME_UPPER"},
    "same-lower": {"stride": (3, 2), "mode": "SAME_LOWER"},
}  # fmt: skip
X2, K2, B2 = signed(2, 4, 6, 7), signed(4, 4, 3, 2, seed=1), signed(4, seed=2)
for name, options in VARIANTS.items():
    kernel = K2[:, :2].copy() if "groups" in options else K2
    case("CONVOLUTION", name, [X2], [convolve(X2, kernel, B2, **options)], layer_of(False, kernel, B2, **options))
    if name != "round-up":
        case(
            "DECONVOLUTION", name, [X2], [deconvolve(X2, kernel, B2, **options)], layer_of(True, kernel, B2, **options)
        )
X3, K3 = signed(1, 2, 4, 3, 4, seed=3), signed(3, 2, 2, 2, 3, seed=4)
case(
    "CONVOLUTION",
    "3d",
    [X3],
    [convolve(X3, K3, stride=(2, 1, 1), pre=1, post=(0, 1, 1))],
    layer_of(False, K3, stride=(2, 1, 1), pre=1, post=(0, 1, 1)),
)
case("CONVOLUTION", "depthwise", [X2], [convolve(X2, K2[:, :1], groups=4)], layer_of(False, K2[:, :1].copy(), groups=4))
case("CONVOLUTION", "kernel-input", [X2, K2], [convolve(X2, K2, B2)], layer_of(False, K2, B2, given=True))
case(
    "CONVOLUTION",
    "one-dimension",
    [X2[:, :, :1].copy()],
    [convolve(X2[:, :, :1], K2[:, :, :1], stride=(1, 2))],
    layer_of(False, K2[:, :, :1].copy(), stride=(1, 2)),
)
case(
    "CONVOLUTION",
    "half",
    [torch.ones(1, 64, 8, 8).half()],
    [torch.full((1, 1, 1, 1), 4096.0)],
    layer_of(False, np.ones((1, 64, 8, 8), np.float16)),
    tolerance=0.0,
)
case(
    "CONVOLUTION",
    "bfloat16",
    [torch.full((1, 1, 2, 2), 3.0).bfloat16()],
    [torch.full((1, 1, 1, 1), 12.0)],
    lambda n, x: n.add_convolution_nd(x, 1, (2, 2), n.weights(torch.ones(1, 1, 2, 2).bfloat16())),
)
case("CONVOLUTION", "dynamic", [X2], [convolve(X2, K2, B2)], layer_of(False, K2, B2))
T3, U3 = signed(1, 2, 2, 3, 2, seed=5), signed(2, 3, 2, 2, 3, seed=6)
case(
    "DECONVOLUTION",
    "3d",
    [T3],
    [deconvolve(T3, U3, stride=2, pre=(0, 1, 0), post=0)],
    layer_of(True, U3, stride=2, pre=(0, 1, 0), post=0),
)
case(
    "DECONVOLUTION",
    "gaps",
    [np.ones((1, 1, 2, 2), np.float32)],
    [[[[[1.0, 0.0, 0.0, 1.0], [0.0] * 4, [0.0] * 4, [1.0, 0.0, 0.0, 1.0]]]]],
    layer_of(True, np.ones((1, 1, 1, 1), np.float32), stride=3),
)
case(
    "DECONVOLUTION",
    "half",
    [torch.ones(1, 2, 2, 2).half()],
    [torch.tensor([[[[2.0, 2.0], [2.0, 2.0]]]])],
    layer_of(True, np.ones((2, 1, 1, 1), np.float16)),
)


# -- pooling -----------------------------------------------------------------------------------------------------------


def pool(x, kind, window, stride, pre=(0, 0), post=(0, 0), mode="EXPLICIT_ROUND_DOWN", exclusive=True, blend=0.0):
    """One window after the other; what rounding up adds never counts, the padding where it is not excluded."""
    rank = len(window)
    rules = list(zip(x.shape[-rank:], window, stride, pre, post))
    out = [sizes(mode, *rule) for rule in rules]
    sides = [pads(mode, *rule) for rule in rules]
    result = np.zeros((*x.shape[:-rank], *out))
    for place in itertools.product(*map(range, out)):
        taps = [range(p * s - b, p * s - b + w) for p, s, (b, _), w in zip(place, stride, sides, window)]
        inside = [[t for t in tap if 0 <= t < size] for tap, size in zip(taps, x.shape[-rank:])]
        padded = [[t for t in tap if -b <= t < size + a] for tap, size, (b, a) in zip(taps, x.shape[-rank:], sides)]
        values = x[(..., *np.ix_(*inside))]
        axes = tuple(range(-rank, 0))
        number = np.prod([len(i) for i in (inside if exclusive else padded)])
        highest, mean = values.max(axes), values.sum(axes, dtype=np.float64) / number
        chosen = {"MAX": highest, "AVERAGE": mean, "MAX_AVERAGE_BLEND": (1 - blend) * highest + blend * mean}[kind]
        result[(..., *place)] = chosen
    return result


def pooling(kind, window, stride, pre=(0, 0), post=(0, 0), mode="EXPLICIT_ROUND_DOWN", exclusive=True, blend=0.0):
    def build(n, x):
        layer = n.add_pooling_nd(x, getattr(trt.PoolingType, kind), window)
        layer.stride_nd, layer.padding_mode = stride, getattr(trt.PaddingMode, mode)
        if any(pre) or any(post):
            layer.pre_padding, layer.post_padding = pre, post
        layer.average_count_excludes_padding, layer.blend_factor = exclusive, blend
        return layer

    return build


P2 = signed(2, 2, 6, 7, seed=7)
for kind in ("MAX", "AVERAGE", "MAX_AVERAGE_BLEND"):
    for name, options in {
        "plain": {"window": (2, 3), "stride": (2, 2)},
        "padding": {"window": (3, 3), "stride": (2, 1), "pre": (1, 0), "post": (0, 2)},
        "inclusive": {"window": (3, 3), "stride": (2, 1), "pre": (1, 0), "post": (0, 2), "exclusive": False},
        "round-up": {"window": (3, 2), "stride": (2, 2), "mode": "EXPLICIT_ROUND_UP", "exclusive": False},
        "same-upper": {"window": (3, 3), "stride": (2, 2), "mode": "SAME_UPPER"},
        "same-lower": {"window": (2, 3), "stride": (1, 2), "mode": "SAME_LOWER", "exclusive": False},
    }.items():
        more = {"blend": 0.25} if kind == "MAX_AVERAGE_BLEND" else {}
        case("POOLING", f"{kind}-{name}", [P2], [pool(P2, kind, **options, **more)], pooling(kind, **options, **more))
P3 = signed(1, 2, 4, 4, 3, seed=8)
three = {"window": (2, 3, 2), "stride": (2, 1, 1), "pre": (0, 1, 0), "post": (0, 1, 1)}
case("POOLING", "3d-max", [P3], [pool(P3, "MAX", **three)], pooling("MAX", **three))
case("POOLING", "3d-average", [P3], [pool(P3, "AVERAGE", **three)], pooling("AVERAGE", **three))
case(
    "POOLING",
    "half",
    [torch.ones(1, 1, 64, 64).half()],
    [torch.ones(1, 1, 1, 1)],
    pooling("AVERAGE", (64, 64), (1, 1)),
    tolerance=0.0,
)

# -- resize and grid sample: more of them stand in test_resize.py and test_grid_sample.py ------------------------------


def resize(shape, mode="NEAREST", transformation="ASYMMETRIC", **attributes):
    def build(n, x):
        layer = n.add_resize(x)
        layer.shape, layer.resize_mode = shape, getattr(trt.InterpolationMode, mode)
        layer.coordinate_transformation = getattr(trt.ResizeCoordinateTransformation, transformation)
        for name, value in attributes.items():
            setattr(layer, name, value)
        return layer

    return build


ROW = [[[[0.0, 1.0, 2.0, 3.0]]]]
case(
    "RESIZE",
    "nearest-floor",
    [ROW],
    [[[[[0.0, 0.0, 1.0, 2.0, 2.0, 3.0]]]]],
    resize((1, 1, 1, 6), nearest_rounding=trt.ResizeRoundMode.FLOOR),
)
case("RESIZE", "linear-half-pixel", [ROW], [[[[[0.5, 2.5]]]]], resize((1, 1, 1, 2), "LINEAR", "HALF_PIXEL"))
case(
    "RESIZE",
    "linear-align-corners",
    [ROW],
    [[[[[0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0]]]]],
    resize((1, 1, 1, 7), "LINEAR", "ALIGN_CORNERS"),
)


def grid_sample(mode="LINEAR", align=False, outside="FILL"):
    def build(n, x, grid):
        layer = n.add_grid_sample(x, grid)
        layer.interpolation_mode, layer.align_corners = getattr(trt.InterpolationMode, mode), align
        layer.sample_mode = getattr(trt.SampleMode, outside)
        return layer

    return build


IMAGE = [[[[1.0, 2.0], [3.0, 4.0]]]]
CORNERS = [[[[-1.0, -1.0], [1.0, -1.0], [0.0, 0.0], [1.0, 1.0]]]]
case("GRID_SAMPLE", "corners", [IMAGE, CORNERS], [[[[[1.0, 2.0, 2.5, 4.0]]]]], grid_sample(align=True))
case("GRID_SAMPLE", "edges-fill", [IMAGE, CORNERS], [[[[[0.25, 0.5, 2.5, 1.0]]]]], grid_sample())
# Halfway beyond the edge: points -2.5 and -1.5 are pixel -2, which reflects to pixel 1; 4.5 is pixel 4, that is 3.
BEYOND = [[[[-2.0, 0.0], [-1.5, 0.0], [1.5, 0.0]]]]
case(
    "GRID_SAMPLE",
    "nearest-reflected",
    [[[[[1.0, 2.0, 3.0, 4.0]]]], BEYOND],
    [[[[[2.0, 2.0, 4.0]]]]],
    grid_sample(mode="NEAREST", outside="REFLECT"),
)
case("GRID_SAMPLE", "edges-clamp", [IMAGE, CORNERS], [[[[[1.0, 2.0, 2.5, 4.0]]]]], grid_sample(outside="CLAMP"))
