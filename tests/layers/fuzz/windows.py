"""Recipes: windows over spatial dimensions, resizing and sampling."""

from __future__ import annotations

from typing import Any

import torch
from cases import trt

from . import DTYPES, FLOATS, Trial, recipe

MODES = ("EXPLICIT_ROUND_DOWN", "EXPLICIT_ROUND_DOWN", "EXPLICIT_ROUND_UP", "SAME_UPPER", "SAME_LOWER")


def _window(t: Trial, layer: Any, dims: int, dilates: bool) -> None:
    layer.stride_nd = tuple(t.number(1, 3) for _ in range(dims))
    layer.pre_padding = tuple(t.number(0, 2) for _ in range(dims))
    layer.post_padding = tuple(t.number(0, 2) for _ in range(dims))
    if dilates:
        layer.dilation_nd = tuple(t.number(1, 2) for _ in range(dims))
    layer.padding_mode = getattr(trt.PaddingMode, t.pick(MODES))


def _convolution(t: Trial, transposed: bool) -> Any:
    dims, dtype = t.pick((2, 2, 3)), t.pick(FLOATS)
    groups = t.pick((1, 1, 2))
    channels, maps = groups * t.number(1, 2), groups * t.number(1, 2)
    size = tuple(t.number(1, 3) for _ in range(dims))
    shape = (t.pick((0, 1, 2)), channels, *(t.number(0, 6) for _ in range(dims)))
    outer = (channels, maps // groups) if transposed else (maps, channels // groups)
    kernel, bias = t.values((*outer, *size), dtype), t.values((maps,), dtype)
    fed = t.maybe(0.3)
    add = t.add_deconvolution_nd if transposed else t.add_convolution_nd
    static = trt.Weights() if fed else t.weights(kernel)
    x = t.input(shape, dtype)
    layer = add(x, maps, size, static, t.weights(bias) if t.maybe() else trt.Weights())
    if fed:
        layer.set_input(1, t.operand(kernel, static=True))
    if groups != 1:
        layer.num_groups = groups
    _window(t, layer, dims, dilates=True)
    return layer


@recipe("CONVOLUTION")
def convolution(t: Trial) -> Any:
    return _convolution(t, transposed=False)


@recipe("DECONVOLUTION")
def deconvolution(t: Trial) -> Any:
    return _convolution(t, transposed=True)


@recipe("POOLING")
def pooling(t: Trial) -> Any:
    dims = t.pick((2, 2, 3))
    shape = (*t.shape(1, 3)[:2], t.size(), *(t.number(0, 7) for _ in range(dims)))
    dtype = t.pick(DTYPES if t.maybe(0.3) else FLOATS)
    kind = t.pick(("MAX", "AVERAGE", "MAX_AVERAGE_BLEND"))
    x = t.input(shape, dtype)
    layer = t.add_pooling_nd(x, getattr(trt.PoolingType, kind), tuple(t.number(1, 3) for _ in range(dims)))
    _window(t, layer, dims, dilates=False)
    if t.maybe() and layer.padding_mode != trt.PaddingMode.EXPLICIT_ROUND_UP:  # docs/engine-evaluated.md
        layer.average_count_excludes_padding = False
    if kind == "MAX_AVERAGE_BLEND":
        layer.blend_factor = 0.25
    return layer


@recipe("RESIZE")
def resize(t: Trial) -> Any:
    shape, dtype = t.shape(1, 6), t.pick(DTYPES if t.maybe(0.4) else FLOATS)
    layer = t.add_resize(t.input(shape, dtype))
    mode = t.pick(("NEAREST", "LINEAR", "CUBIC"))
    layer.resize_mode = getattr(trt.InterpolationMode, mode)
    layer.coordinate_transformation = t.pick(trt.ResizeCoordinateTransformation.__members__.values())
    layer.nearest_rounding = t.pick(trt.ResizeRoundMode.__members__.values())
    layer.selector_for_single_pixel = trt.ResizeSelector.UPPER
    layer.exclude_outside = mode == "CUBIC" and t.maybe(0.3)
    resized = {"NEAREST": len(shape), "LINEAR": 3, "CUBIC": 2}[mode]
    # Of rank 4 and 5, what stands before the last three is refused beside these: docs/traps/builder-resize.md.
    kept = max(len(shape) - (min(resized, 3) if len(shape) in (4, 5) else resized), 0)
    if t.maybe(0.3):
        layer.scales = [1.0] * kept + [t.pick((0.5, 1.0, 2.0, 1.5, 0.7)) for _ in shape[kept:]]
    else:
        target = (*shape[:kept], *(t.number(1, 6) if size else 0 for size in shape[kept:]))
        if t.maybe(0.3):
            layer.set_input(1, t.constant(torch.tensor(target, dtype=torch.int64)))
        else:
            layer.shape = target
    return layer


@recipe("GRID_SAMPLE")
def grid_sample(t: Trial) -> Any:
    batch, dtype = t.size(), t.pick(FLOATS)
    x = t.input((batch, t.size(), t.size(), t.size()), dtype)
    layer = t.add_grid_sample(x, t.input((batch, t.size(), t.size(), 2), dtype, -1.5, 1.5))
    layer.interpolation_mode = t.pick(trt.InterpolationMode.__members__.values())
    layer.sample_mode = t.pick((trt.SampleMode.FILL, trt.SampleMode.CLAMP, trt.SampleMode.REFLECT))
    layer.align_corners = t.maybe()
    return layer
