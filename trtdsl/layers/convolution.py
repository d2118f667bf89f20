"""CONVOLUTION and DECONVOLUTION over two or three spatial dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from .base import PADDING_MODES, add_layer, adds
from .common import Network, Shape, ShapeError, SizeLike, Tensor, channels_last, operation, shape_text, torch
from .constant import read_weights
from .evaluation import Evaluate, Given, Mistakes, Node, Shapes, count, evaluates, widened
from .pooling import check_positive, count_windows, paddings


class Geometry(NamedTuple):
    """Where the windows lie: one number per spatial dimension."""

    stride: Sequence[int]
    pre_padding: Sequence[int]
    post_padding: Sequence[int]
    dilation: Sequence[int]
    groups: int = 1

    def extents(self, size: Sequence[int]) -> list[int]:
        """How many elements a kernel of that size spans."""
        return [gap * (taps - 1) + 1 for gap, taps in zip(self.dilation, size, strict=True)]

    @property
    def padding(self) -> list[int]:
        """On both sides together."""
        return [before + after for before, after in zip(self.pre_padding, self.post_padding, strict=True)]


@operation
def convolution(
    x: Tensor,
    kernel: Tensor,
    bias: Tensor | None = None,
    *,
    stride: Sequence[int],
    pre_padding: Sequence[int],
    post_padding: Sequence[int],
    dilation: Sequence[int],
    groups: int = 1,
) -> Tensor:
    """Correlates ``x`` (N, C, spatial…) with ``kernel`` (O, C / groups, size…): one IConvolutionLayer.

    Two or three spatial dimensions, and one value of each parameter per spatial dimension. A kernel that is a constant
    is part of the layer; one that is computed becomes its second input. ``bias`` (O,) is a constant.

    >>> kernel = net.constant(torch.ones(5, 3, 1, 1))
    >>> two = dict(stride=(1, 1), pre_padding=(0, 0), post_padding=(0, 0), dilation=(1, 1))
    >>> convolution(net.input("x", (2, 3, 8, 8)), kernel, **two).shape
    (2, 5, 8, 8)
    """
    how = Geometry(tuple(stride), tuple(pre_padding), tuple(post_padding), tuple(dilation), groups)
    return convolution_of_shape(convolution_shape(x, kernel, how), x, kernel, bias, how)


def convolution_shape(x: Tensor, kernel: Tensor, how: Geometry) -> Shape:
    """The shape of :func:`convolution`'s result; ShapeError where there is none."""
    size = _kernel_size(x.shape, kernel.shape)
    check_channels(x.network, x.shape[1], kernel.shape[1], how.groups, kernel.shape)
    sides = zip(x.shape[2:], how.extents(size), how.stride, how.padding, strict=True)
    return (x.shape[0], int(kernel.shape[0]), *(count_windows(x.network, *side) for side in sides))


@operation
def deconvolution(
    x: Tensor,
    kernel: Tensor,
    bias: Tensor | None = None,
    *,
    stride: Sequence[int],
    pre_padding: Sequence[int],
    post_padding: Sequence[int],
    dilation: Sequence[int],
    groups: int = 1,
) -> Tensor:
    """The transpose of a convolution: ``kernel`` is (C, O / groups, size…): one IDeconvolutionLayer.

    Paddings shorten the result; otherwise as :func:`convolution`.
    """
    how = Geometry(stride, pre_padding, post_padding, dilation, groups)
    return convolution_of_shape(deconvolution_shape(x, kernel, how), x, kernel, bias, how, "add_deconvolution_nd")


def deconvolution_shape(x: Tensor, kernel: Tensor, how: Geometry) -> Shape:
    """The shape of :func:`deconvolution`'s result; ShapeError where there is none."""
    size = _kernel_size(x.shape, kernel.shape)
    check_channels(x.network, x.shape[1], kernel.shape[0], 1, kernel.shape)
    spatial: list[SizeLike] = []
    for length, extent, stride, padding in zip(x.shape[2:], how.extents(size), how.stride, how.padding, strict=True):
        check_positive(extent, "a window")
        check_positive(stride, "stride")
        spatial.append((length - 1) * stride + (extent - padding))
        if isinstance(spatial[-1], int) and spatial[-1] < 0:
            raise ShapeError(f"{padding} of padding leave nothing of {spatial[-1] + padding} outputs")
    return (x.shape[0], int(kernel.shape[1]) * how.groups, *spatial)


def convolution_of_shape(
    shape: Shape, x: Tensor, kernel: Tensor, bias: Tensor | None, how: Geometry, method: str = "add_convolution_nd"
) -> Tensor:
    """The layer, with the attributes that differ from a new one's, and a computed kernel as its second input.

    Its shape is known: :func:`convolution_shape` has checked the operands.
    """
    size = _kernel_size(x.shape, kernel.shape)
    names = ("stride_nd", "pre_padding", "post_padding", "dilation_nd")
    attributes: dict[str, Any] = {
        name: tuple(values)
        for name, values, usual in zip(names, how[:4], (1, 0, 0, 1), strict=True)
        if any(value != usual for value in values)
    }
    if how.groups != 1:
        attributes["num_groups"] = how.groups

    def add(target, *handles):
        weights = target.weights(kernel) if handles[1] is None else target.trt.Weights()
        return adds(method, shape[1], size, weights, target.weights(bias), takes=1, **attributes)(target, *handles)

    computed = None if kernel.is_constant else kernel
    return add_layer(add, x, computed, weights=(kernel, bias), shape=shape, order=channels_last(x.ndim))


def _kernel_size(x: Shape, kernel: Shape) -> tuple[int, ...]:
    if len(x) not in (4, 5) or len(kernel) != len(x):
        raise ShapeError(f"a kernel {shape_text(kernel)} does not fit an input {shape_text(x)}")
    return tuple(map(int, kernel[2:]))


def check_channels(network: Network, channels: SizeLike, per_group: SizeLike, groups: int, kernel: Shape) -> None:
    """Raises ShapeError where a kernel is for another number of channels: a constraint where that is dynamic."""
    if not isinstance(channels, int):
        what = f"the channels of the input and of the kernel {shape_text(kernel)}"
        network.constraints.equal(channels, per_group * groups, what, network.current_operation)
    if isinstance(channels, int) and isinstance(per_group, int) and channels != per_group * groups:
        fits = groups == 1 and per_group > 0 and channels % per_group == 0 and kernel[0] == channels
        split = f" with {groups} groups" * (groups != 1)
        raise ShapeError(
            f"the kernel {shape_text(kernel)}{split} is for {per_group * groups} channels, "
            f"not {channels}{f': groups={channels // per_group} fits' if fits else ''}"
        )


def _flops(node: Node, shapes: Shapes) -> int:
    """2 * (kernel elements per output map) for each output (convolution) or input (deconvolution) element."""
    layer = node.layer
    maps = layer.num_output_maps
    x = shapes.inputs[0]
    if node.type == "CONVOLUTION":
        return 2 * shapes.elements * count(tuple(layer.kernel_size_nd)) * x[1] // layer.num_groups
    return 2 * count(x) * count(tuple(layer.kernel_size_nd)) * maps // layer.num_groups


def _reads_nothing(node: Node) -> str | None:
    if 0 in tuple(node.inputs[0].shape)[2:] and 0 not in tuple(node.outputs[0].shape)[2:]:
        return "a convolution of padding alone cannot be built: its result is the bias"
    return None


class _Settings:
    """What the evaluators of both layers read: the geometry, and the kernel and bias that are part of the layer."""

    def __init__(self, node: Node, channels_first: bool):
        layer, dtype, size = node.layer, node.input_dtype(), tuple(node.layer.kernel_size_nd)
        self.stride, self.dilation = tuple(layer.stride_nd), tuple(layer.dilation_nd)
        self.maps, self.groups = layer.num_output_maps, layer.num_groups
        self.extents = [gap * (taps - 1) + 1 for gap, taps in zip(self.dilation, size, strict=True)]
        self.mode = node.known(layer.padding_mode, PADDING_MODES, "padding mode")
        self.kernel = self.bias = None  # where they are inputs
        if not node.has_input(1):
            across = layer.kernel.size // (self.maps * count(size))
            lead = (self.maps, across) if channels_first else (across * self.groups, self.maps // self.groups)
            self.kernel = read_weights(node.backend, layer.kernel, (*lead, *size), dtype)
        if not node.has_input(2) and layer.bias.size:
            self.bias = read_weights(node.backend, layer.bias, (self.maps,), dtype)
        self.widen = widened(fixed=True), widened(fixed=True)

    def weights(self, kernel: Given, bias: Given) -> tuple[torch.Tensor, Given]:
        """In float32, which both accumulate in."""
        given = zip(self.widen, (self.kernel, self.bias), (kernel, bias), strict=True)
        kernel, bias = (widen(own) if other is None else other for widen, own, other in given)
        assert kernel is not None
        return kernel.float(), None if bias is None else bias.float()


WEIGHTS = {"kernel": "KERNEL", "bias": "BIAS"}


def _flipped(node: Node) -> Evaluate | None:
    size = tuple(node.layer.kernel_size_nd)
    axes = [axis - len(size) for axis, length in enumerate(size) if length > 1]
    return (lambda f, x, *rest: f(x.flip(axes), *rest).flip(axes)) if axes else None


MISTAKES = Mistakes(windows=True, instead={"kernel flipped": _flipped})
FACTS = {"category": "convolution", "wide": True, "flops": _flops, "weights": WEIGHTS, "mistakes": MISTAKES}


@evaluates("CONVOLUTION", unbuilt=_reads_nothing, **FACTS)
def _convolution(node: Node) -> Evaluate:
    """torch's kernel, in float32 for the half types, rounded once. Assumed: SAME padding is never negative; the sum of
    no elements is 0.
    """
    how = _Settings(node, channels_first=True)
    function = torch.conv2d if len(how.stride) == 2 else torch.conv3d

    def evaluate(x: torch.Tensor, kernel: Given = None, bias: Given = None) -> torch.Tensor:
        kernel, bias = how.weights(kernel, bias)
        sides = [(pre, post + extra) for pre, post, extra in paddings(node.layer, x.shape[2:], how.extents)]
        if not x.numel():  # what comes out is the bias
            each = zip(x.shape[2:], sides, how.extents, how.stride, strict=True)
            lengths = [max((length + sum(side) - extent) // step + 1, 0) for length, side, extent, step in each]
            return _biased(torch.zeros((x.shape[0], how.maps, *lengths)), bias)
        same = [pre for pre, post in sides if pre == post]
        if len(same) < len(sides):
            same, x = [0] * len(sides), _padded(x, sides)
        return function(x, kernel, bias, how.stride, same, how.dilation, how.groups)

    return evaluate


def _padded(x: torch.Tensor, sides: Sequence[tuple[int, int]]) -> torch.Tensor:
    """With so many zeros before and after each spatial dimension; negative numbers cut elements off."""
    return torch.nn.functional.pad(x, [side for pair in reversed(sides) for side in pair])


def _biased(x: torch.Tensor, bias: Given) -> torch.Tensor:
    return x if bias is None else x + bias.reshape((-1,) + (1,) * (x.ndim - 2))


def _unbuilt(node: Node) -> str | None:
    if max(node.layer.stride_nd) == 1 or max(node.layer.dilation_nd) == 1:
        return _reads_nothing(node)
    return (
        "a deconvolution with a stride and a dilation cannot be built without a GPU: spread the kernel with zeros, so "
        "that its dilation is 1"
    )


@evaluates("DECONVOLUTION", unbuilt=_unbuilt, **FACTS)
def _deconvolution(node: Node) -> Evaluate:
    """torch's kernel, in float32 for the half types, rounded once. Assumed: SAME cuts what exceeds the documented
    size."""
    how = _Settings(node, channels_first=False)
    function = torch.conv_transpose2d if len(how.stride) == 2 else torch.conv_transpose3d

    def evaluate(x: torch.Tensor, kernel: Given = None, bias: Given = None) -> torch.Tensor:
        kernel, bias = how.weights(kernel, bias)
        if x.numel():
            full = function(x, kernel, None, how.stride, 0, 0, how.groups, how.dilation)
        else:
            sides = zip(x.shape[2:], how.extents, how.stride, strict=True)
            lengths = [max((length - 1) * step + extent, 0) for length, extent, step in sides]
            full = torch.zeros((x.shape[0], how.maps, *lengths))
        cut = [(-pre, -post) for pre, post, _ in paddings(node.layer, x.shape[2:], how.extents, transposed=True)]
        if how.mode.startswith("SAME"):
            sizes = zip(cut, x.shape[2:], how.stride, full.shape[2:], strict=True)
            cut = [(pre, min(length * step, size) - pre - size) for (pre, _), length, step, size in sizes]
        return _biased(_padded(full, cut), bias)

    return evaluate
