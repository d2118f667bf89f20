"""Mistakes that people make when they write a network again, each beside the same network without it.

A row is a class, a name and two functions of a namespace and the inputs: the first is the network as it should be, the
second has the mistake. With torch's namespace the first is the reference; with trtdsl's it must pass, and the second
must be caught.
"""

import dataclasses
from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional as TF

import trtdsl as td
import trtdsl.functional as F


class Torch:
    """torch's functions under the names that ``trtdsl.functional`` has them."""

    def __getattr__(self, name):
        return next(getattr(place, name) for place in (TF, torch) if hasattr(place, name))


@dataclasses.dataclass
class Mistake:
    group: str
    name: str
    right: Callable
    wrong: Callable
    inputs: dict
    weights: dict | None = None
    theirs: Callable | None = None
    precision: str | None = None

    def spec(self, function):
        """A network of the one or the other function, beside torch's module of the first."""
        weights, theirs = self.weights, self.theirs or self.right

        class Reference(nn.Module):
            def __init__(self):
                super().__init__()
                for path, value in (weights or {}).items():
                    *scopes, last = path.split(".")
                    module = self
                    for scope in scopes:
                        if not hasattr(module, scope):
                            module.add_module(scope, nn.Module())
                        module = getattr(module, scope)
                    module.register_parameter(last, nn.Parameter(torch.zeros_like(value)))

            def forward(self, *inputs):
                return theirs(Torch(), *inputs, *([self] if weights else []))

        given = {key: shape if isinstance(shape, td.Input) else td.Input(shape) for key, shape in self.inputs.items()}
        return td.network(inputs=given, reference=Reference, name="t")(lambda *values: function(F, *values))

    def check(self, function):
        more = {"weights": {name: value.clone() for name, value in self.weights.items()}} if self.weights else {}
        return td.check(self.spec(function), precision=self.precision, **more)


MISTAKES: list[Mistake] = []


def group(title):
    """A function that enters the mistakes of one class."""

    def enter(name, right, wrong, weights=None, theirs=None, precision=None, **inputs):
        MISTAKES.append(Mistake(title, name, right, wrong, inputs, weights, theirs, precision))

    return enter


def draw(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def ints(shape, low, high):
    return td.Input(shape, "int64", sample=(low, high))


N, T, C = td.Dim("N", min=1, opt=2, max=5), td.Dim("T", min=2, opt=6, max=12), td.Dim("C", min=1, opt=4, max=6)
H, W = td.Dim("H", min=5, opt=8, max=13), td.Dim("W", min=5, opt=8, max=13)
IMAGE = {"x": (N, 4, H, W)}
TOKENS = {"x": (N, T, 8)}
SQUARE = {"x": (N, 6, 6)}
SIGNAL = {"x": (N, 4, T)}

# -- axes --------------------------------------------------------------------------------------------------------------
axis = group("axes")
axis("softmax over queries", lambda f, x: f.softmax(x, -1), lambda f, x: f.softmax(x, -2), **SQUARE)
axis("log_softmax over the batch", lambda f, x: f.log_softmax(x, 1), lambda f, x: f.log_softmax(x, 0), x=(N, 8))
axis("mean over channels", lambda f, x: x.mean((2, 3)), lambda f, x: x.mean((1, 3)), x=(N, 4, 4, 4))
axis("cumsum over channels", lambda f, x: x.cumsum(2), lambda f, x: x.cumsum(1), **SIGNAL)
axis("flip of the height", lambda f, x: f.flip(x, (3,)), lambda f, x: f.flip(x, (2,)), **IMAGE)
axis("roll of the width", lambda f, x: f.roll(x, 1, 2), lambda f, x: f.roll(x, 1, 3), **IMAGE)
axis("glu of the tokens", lambda f, x: f.glu(x, 2), lambda f, x: f.glu(x, 1).transpose(1, 2), x=(N, 8, 8))
axis(
    "heads from the wrong dimension",
    lambda f, x: x.reshape(x.shape[0], x.shape[1], 2, 4).transpose(1, 2),
    lambda f, x: x.reshape(x.shape[0], 2, x.shape[1], 4),
    **TOKENS,
)
axis(
    "heads beside channels",
    lambda f, x: x.reshape(x.shape[0], x.shape[1], 2, 4).sum(2),
    lambda f, x: x.reshape(x.shape[0], x.shape[1], 4, 2).sum(3),
    **TOKENS,
)
axis("flattened columns first", lambda f, x: x.flatten(1), lambda f, x: x.transpose(2, 3).flatten(1), **IMAGE)
axis("normalize over tokens", lambda f, x: f.normalize(x, dim=2), lambda f, x: f.normalize(x, dim=1), **TOKENS)
axis("argmax over tokens", lambda f, x: x.argmax(1), lambda f, x: x.argmax(2), x=(N, 7, 7))
axis(
    "an outer product turned",
    lambda f, x: x[:, :, None] * x[:, None, :].exp(),
    lambda f, x: x[:, None] * x[:, :, None].exp(),
    x=(N, 6),
)
axis(
    "a bias of rows for one of columns",
    lambda f, x: x + f.arange(6),
    lambda f, x: x + f.arange(6)[:, None],
    **SQUARE,
)
axis("a matrix not transposed", lambda f, x: f.linear(x, draw(8, 8)), lambda f, x: f.matmul(x, draw(8, 8)), **TOKENS)
axis(
    "an einsum of the transposed operand",
    lambda f, x: f.einsum("nij,njk->nik", x, x),
    lambda f, x: f.einsum("nij,nkj->nik", x, x),
    **SQUARE,
)
axis(
    "stacked instead of concatenated rows",
    lambda f, x: f.cat([x, -x], 1),
    lambda f, x: f.stack([x, -x], 2).flatten(1, 2),
    **TOKENS,
)
axis(
    "take_along_dim of the other axis",
    lambda f, x: f.take_along_dim(x, x.argsort(2), 2),
    lambda f, x: f.take_along_dim(x, x.argsort(1), 1),
    **SQUARE,
)

# -- epsilons and constants --------------------------------------------------------------------------------------------
eps = group("epsilons")
eps(
    "normalize by 1e-8",
    lambda f, x: f.normalize(x, dim=-1, eps=1e-12),
    lambda f, x: f.normalize(x, dim=-1, eps=1e-8),
    **TOKENS,
)
eps("layer_norm 1e-6", lambda f, x: f.layer_norm(x, [8]), lambda f, x: f.layer_norm(x, [8], eps=1e-6), **TOKENS)
eps("group_norm 1e-6", lambda f, x: f.group_norm(x, 2), lambda f, x: f.group_norm(x, 2, eps=1e-6), **IMAGE)
eps("rms_norm 1e-5", lambda f, x: f.rms_norm(x, [8], eps=1e-6), lambda f, x: f.rms_norm(x, [8], eps=1e-5), **TOKENS)
eps(
    "rms_norm without its epsilon",
    lambda f, x: f.rms_norm(x, [8]),
    lambda f, x: x * x.square().mean(-1, keepdim=True).rsqrt(),
    **TOKENS,
)
eps(
    "normalize 1e-6",
    lambda f, x: f.normalize(x, dim=2),
    lambda f, x: x / (f.norm(x, dim=2, keepdim=True) + 1e-6),
    **TOKENS,
)
eps(
    "eps outside of the root",
    lambda f, x: x / (x.var(-1, keepdim=True) + 1e-5).sqrt(),
    lambda f, x: x / (x.std(-1, keepdim=True) + 1e-5),
    **TOKENS,
)
eps("instance_norm 1e-3", lambda f, x: f.instance_norm(x), lambda f, x: f.instance_norm(x, eps=1e-3), **IMAGE)
eps("log with an epsilon", lambda f, x: f.log(x.abs() + 1e-8), lambda f, x: f.log(x.abs() + 1e-7), **TOKENS)
eps("a slope of 0.02", lambda f, x: f.leaky_relu(x, 0.01), lambda f, x: f.leaky_relu(x, 0.011), **TOKENS)
eps("pi in four digits", lambda f, x: f.sin(x * 3.141592653589793), lambda f, x: f.sin(x * 3.1416), **TOKENS)
eps("a scale of 2.7183", lambda f, x: x * 2.718281828459045, lambda f, x: x * 2.71828, **TOKENS)
eps(
    "cosine_similarity 1e-6",
    lambda f, x: f.cosine_similarity(x, x.flip(2), dim=2),
    lambda f, x: f.cosine_similarity(x, x.flip(2), dim=2, eps=1e-2),
    **TOKENS,
)
eps(
    "pairwise_distance without eps",
    lambda f, x: f.pairwise_distance(x, x.flip(1)),
    lambda f, x: f.norm(x - x.flip(1), dim=-1),
    x=(N, 8),
)
eps("ELU's alpha", lambda f, x: f.elu(x), lambda f, x: f.elu(x, 1.0001), **TOKENS)
eps("selu for elu", lambda f, x: f.selu(x), lambda f, x: f.elu(x, 1.6733) * 1.0507, **TOKENS)
eps("softplus's beta", lambda f, x: f.softplus(x, 2), lambda f, x: f.softplus(x) / 2, **TOKENS)
eps("softplus's threshold", lambda f, x: f.softplus(x * 3, 1, 5), lambda f, x: f.softplus(x * 3), **TOKENS)
eps("hardshrink's lambda", lambda f, x: f.hardshrink(x), lambda f, x: f.hardshrink(x, 0.45), **TOKENS)

# -- activations that look alike ---------------------------------------------------------------------------------------
alike = group("functions that look alike")
alike("gelu by tanh", lambda f, x: f.gelu(x), lambda f, x: f.gelu(x, approximate="tanh"), **TOKENS)
alike("quick gelu", lambda f, x: f.gelu(x), lambda f, x: x * f.sigmoid(1.702 * x), **TOKENS)
alike("relu6 for relu", lambda f, x: f.relu(x), lambda f, x: f.relu6(x), **TOKENS)
alike("hardswish for silu", lambda f, x: f.silu(x), lambda f, x: f.hardswish(x), **TOKENS)
alike("softsign for tanh", lambda f, x: f.tanh(x), lambda f, x: f.softsign(x), **TOKENS)
alike("celu for elu", lambda f, x: f.elu(x, 0.5), lambda f, x: f.celu(x, 0.5), **TOKENS)
alike("hardsigmoid of keras", lambda f, x: f.hardsigmoid(x), lambda f, x: f.clamp(0.2 * x + 0.5, 0, 1), **TOKENS)
alike("fmod for remainder", lambda f, x: f.remainder(x, 0.7), lambda f, x: f.fmod(x, 0.7), **TOKENS)
alike("trunc for floor", lambda f, x: f.floor(x), lambda f, x: f.trunc(x), **TOKENS)
alike("half up for half even", lambda f, x: f.round(x), lambda f, x: f.floor(x + 0.5), **TOKENS)
alike("half away for half even", lambda f, x: f.round(x), lambda f, x: f.sign(x) * f.floor(x.abs() + 0.5), **TOKENS)
alike("ceil for round", lambda f, x: f.round(x), lambda f, x: f.ceil(x - 0.49), **TOKENS)
alike(
    "division that truncates",
    lambda f, x: f.div(x, 0.3, rounding_mode="floor"),
    lambda f, x: f.div(x, 0.3, rounding_mode="trunc"),
    **TOKENS,
)
alike(
    "integers divided towards zero",
    lambda f, x: f.floor_divide(x, 3),
    lambda f, x: f.div(x, 3, rounding_mode="trunc"),
    x=ints((N, 6), -20, 20),
)
alike("fmax for maximum", lambda f, x: f.maximum(x, x.flip(1).log()), lambda f, x: f.fmax(x, x.flip(1).log()), **TOKENS)
alike("sign of zero", lambda f, x: f.where(x >= 0, 1.0, -1.0), lambda f, x: f.sign(x), **TOKENS)
alike(
    "heaviside at zero",
    lambda f, x: f.heaviside(x, f.full_like(x, 0.5)),
    lambda f, x: f.where(x >= 0, 1.0, 0.0),
    **TOKENS,
)
alike("greater or equal", lambda f, x: x > 0.5, lambda f, x: x >= 0.5, **TOKENS)
alike("threshold's value", lambda f, x: f.threshold(x, 0.1, 0.0), lambda f, x: f.threshold(x, 0.1, 0.1), **TOKENS)
alike("a clamp of one side", lambda f, x: f.clamp(x, -3, 3), lambda f, x: f.clamp(x, -3), **TOKENS)
alike("logsumexp as maximum", lambda f, x: f.logsumexp(x * 30, 2) / 30, lambda f, x: x.amax(2), **TOKENS)
alike("l1 norm for l2", lambda f, x: f.normalize(x, 2, 2), lambda f, x: f.normalize(x, 1, 2), **TOKENS)
alike("atan of a quotient", lambda f, x: f.atan2(x, x.flip(2)), lambda f, x: f.atan(x / x.flip(2)), **TOKENS)
alike("tanh of a half", lambda f, x: f.sigmoid(x), lambda f, x: f.tanh(x / 2) * 0.5 + 0.5 * (1 + 1e-7), **TOKENS)
alike(
    "xlogy at zero",
    lambda f, x: f.xlogy(f.relu(x), f.relu(x)),
    lambda f, x: f.relu(x) * f.log(f.relu(x) + 1e-12),
    **TOKENS,
)

# -- reductions and statistics -----------------------------------------------------------------------------------------
statistics = group("statistics")
statistics("biased variance", lambda f, x: x.var(1), lambda f, x: x.var(1, correction=0), **TOKENS)
statistics("biased std", lambda f, x: f.std(x, 2), lambda f, x: f.std(x, 2, correction=0), **TOKENS)
statistics(
    "layer_norm by the unbiased variance",
    lambda f, x: f.layer_norm(x, [8]),
    lambda f, x: (x - x.mean(-1, keepdim=True)) / (x.var(-1, keepdim=True) + 1e-5).sqrt(),
    **TOKENS,
)
statistics(
    "norm of the batch for each sample",
    lambda f, x: x - x.mean((1, 2), keepdim=True),
    lambda f, x: x - x.mean(),
    **TOKENS,
)
statistics(
    "a maximum of the batch",
    lambda f, x: x / x.abs().amax((1, 2), keepdim=True),
    lambda f, x: x / x.abs().amax(),
    **TOKENS,
)
statistics(
    "group_norm with the other number of groups",
    lambda f, x: f.group_norm(x, 2),
    lambda f, x: f.group_norm(x, 4),
    **IMAGE,
)
statistics(
    "group_norm of interleaved channels",
    lambda f, x: f.group_norm(x, 2),
    lambda f, x: f.group_norm(x[:, [0, 2, 1, 3]], 2)[:, [0, 2, 1, 3]],
    **IMAGE,
)
statistics("instance_norm for layer_norm", lambda f, x: f.group_norm(x, 1), lambda f, x: f.instance_norm(x), **IMAGE)
statistics(
    "median of an even number",
    lambda f, x: x.median(1).values,
    lambda f, x: (x.sort(1).values[:, 2] + x.sort(1).values[:, 3]) / 2,
    x=(N, 6, 3),
)
statistics(
    "quantile of the nearest",
    lambda f, x: f.quantile(x, 0.3, 1),
    lambda f, x: f.quantile(x, 0.3, 1, interpolation="nearest"),
    x=(N, 9),
)
statistics(
    "a mean of padded values",
    lambda f, x, m: (x * m).sum(1) / m.sum(1).clamp(min=1),
    lambda f, x, m: (x * m).mean(1),
    x=(N, T),
    m=td.Input((N, T), sample=(0, 2)),
)
statistics(
    "a masked mean without the clamp",
    lambda f, x, m: f.where(m, x, 0.0).sum(1) / m.sum(1).clamp(min=1),
    lambda f, x, m: f.where(m, x, 0.0).sum(1) / m.sum(1),
    x=(N, T),
    m=td.Input((N, T), "bool"),
)
statistics(
    "a maximum of masked values from zero",
    lambda f, x, m: f.where(m, x, -float("inf")).amax(1),
    lambda f, x, m: f.where(m, x, 0.0).amax(1),
    x=(N, T),
    m=td.Input((N, T), "bool"),
)
statistics("nanmean", lambda f, x: f.nanmean(f.log(x), 1), lambda f, x: f.nansum(f.log(x), 1) / x.shape[1], **TOKENS)
statistics(
    "a geometric mean",
    lambda f, x: (x.abs() + 1e-3).log().mean(1).exp(),
    lambda f, x: (x.abs() + 1e-3).mean(1),
    **TOKENS,
)
statistics("std_mean exchanged", lambda f, x: f.std_mean(x, 2), lambda f, x: f.std_mean(x, 2)[::-1], **TOKENS)
statistics("the last time step's mean", lambda f, x: x[:, 1:].mean(1), lambda f, x: x[:, :-1].mean(1), **TOKENS)
statistics(
    "batch statistics of three dimensions",
    lambda f, x: f.batch_norm(x, None, None, training=True),
    lambda f, x: (x - x.mean((2,), keepdim=True)) / (x.var((2,), correction=0, keepdim=True) + 1e-5).sqrt(),
    x=(td.Dim("N", min=1, opt=2, max=4), 4, 9),
)

# -- windows -----------------------------------------------------------------------------------------------------------
windows = group("windows")
windows(
    "count_include_pad",
    lambda f, x: f.avg_pool2d(x, 3, 2, 1),
    lambda f, x: f.avg_pool2d(x, 3, 2, 1, count_include_pad=False),
    **IMAGE,
)
windows(
    "ceil_mode of a maximum",
    lambda f, x: f.max_pool2d(x, 2, 2, ceil_mode=True)[:, :, :2],
    lambda f, x: f.max_pool2d(f.pad(x, (0, 1, 0, 1)), 2, 2)[:, :, :2],
    x=(N, 4, 9, 9),
)
windows(
    "divisor_override",
    lambda f, x: f.avg_pool2d(x, 3, 1, divisor_override=8),
    lambda f, x: f.avg_pool2d(x, 3, 1),
    **IMAGE,
)
windows(
    "padded with zeros under a maximum",
    lambda f, x: f.max_pool2d(x, 3, 2, 1),
    lambda f, x: f.max_pool2d(f.pad(x, (1, 1, 1, 1)), 3, 2),
    **IMAGE,
)
windows(
    "one-sided padding on the other side",
    lambda f, x: f.conv1d(f.pad(x, (2, 0)), draw(4, 4, 3)),
    lambda f, x: f.conv1d(f.pad(x, (0, 2)), draw(4, 4, 3)),
    **SIGNAL,
)
windows(
    "same padding of an even kernel",
    lambda f, x: f.conv1d(f.pad(x, (1, 2)), draw(4, 4, 4)),
    lambda f, x: f.conv1d(f.pad(x, (2, 1)), draw(4, 4, 4)),
    **SIGNAL,
)
windows(
    "dilation forgotten",
    lambda f, x: f.conv2d(x, draw(4, 4, 3, 3), padding=2, dilation=2),
    lambda f, x: f.conv2d(x, draw(4, 4, 3, 3), padding=1),
    **IMAGE,
)
windows(
    "groups in the other order",
    lambda f, x: f.conv2d(x, draw(4, 2, 3, 3), groups=2),
    lambda f, x: f.conv2d(x[:, [0, 2, 1, 3]], draw(4, 2, 3, 3), groups=2),
    **IMAGE,
)
windows(
    "channel shuffle of the transpose",
    lambda f, x: f.channel_shuffle(x, 2),
    lambda f, x: f.channel_shuffle(x, 4),
    x=(N, 8, 4, 4),
)
windows(
    "a true convolution for a correlation",
    lambda f, x: f.conv2d(x, draw(4, 4, 3, 3)),
    lambda f, x: f.conv2d(x, draw(4, 4, 3, 3).flip(2, 3)),
    **IMAGE,
)
windows(
    "a kernel with its rows as columns",
    lambda f, x: f.conv2d(x, draw(4, 4, 3, 3)),
    lambda f, x: f.conv2d(x, draw(4, 4, 3, 3).transpose(2, 3).contiguous()),
    **IMAGE,
)
windows(
    "a transposed kernel's channels",
    lambda f, x: f.conv_transpose2d(x, draw(4, 4, 2, 2), stride=2),
    lambda f, x: f.conv_transpose2d(x, draw(4, 4, 2, 2).transpose(0, 1).contiguous(), stride=2),
    **IMAGE,
)
windows(
    "output_padding on the first side",
    lambda f, x: f.conv_transpose1d(x, draw(4, 4, 3), stride=2, padding=1, output_padding=1),
    lambda f, x: f.conv_transpose1d(x, draw(4, 4, 3), stride=2, padding=0)[:, :, :-1],
    **SIGNAL,
)
windows(
    "reflect for replicate",
    lambda f, x: f.pad(x, (2, 2, 2, 2), mode="reflect"),
    lambda f, x: f.pad(x, (2, 2, 2, 2), mode="replicate"),
    **IMAGE,
)
windows(
    "circular for reflect",
    lambda f, x: f.pad(x, (1, 1), mode="circular"),
    lambda f, x: f.pad(x, (1, 1), mode="reflect"),
    **SIGNAL,
)
windows(
    "padding of zeros before a norm",
    lambda f, x: f.pad(f.layer_norm(x, [8]), (0, 0, 1, 0)),
    lambda f, x: f.layer_norm(f.pad(x, (0, 0, 1, 0)), [8], None, draw(8)),
    **TOKENS,
)
windows(
    "unfold's order of channels",
    lambda f, x: f.unfold(x, 2),
    lambda f, x: f.unfold(x, 2).unflatten(1, (4, 4)).transpose(1, 2).flatten(1, 2),
    **IMAGE,
)
windows(
    "pixel_shuffle of depth to space",
    lambda f, x: f.pixel_shuffle(x, 2),
    lambda f, x: f.pixel_shuffle(x[:, [0, 2, 1, 3]], 2),
    **IMAGE,
)
windows(
    "an adaptive window",
    lambda f, x: f.adaptive_avg_pool2d(x, 3),
    lambda f, x: f.avg_pool2d(x, 3, 2)[:, :, :3, :3],
    x=(N, 4, 8, 8),
)
windows(
    "lp_pool without its root",
    lambda f, x: f.lp_pool2d(x, 2, 2),
    lambda f, x: f.avg_pool2d(x * x, 2).sqrt() * 1.99,
    **IMAGE,
)
windows(
    "frames off by one",
    lambda f, x: x.unfold(2, 3, 2),
    lambda f, x: f.pad(x, (1, 0)).unfold(2, 3, 2)[:, :, : (x.shape[2] - 3) // 2 + 1],
    x=(N, 4, 9),
)
windows(
    "window partition",
    lambda f, x: x.unflatten(1, (2, 4)).unflatten(3, (2, 4)).permute(0, 1, 3, 2, 4),
    lambda f, x: x.unflatten(1, (4, 2)).unflatten(3, (2, 4)).permute(0, 2, 3, 1, 4),
    x=(N, 8, 8),
)
windows(
    "the shift of windows undone in the same direction",
    lambda f, x: f.roll(f.relu(f.roll(x, -2, 1)), 2, 1),
    lambda f, x: f.roll(f.relu(f.roll(x, -2, 1)), -2, 1),
    **TOKENS,
)

# -- resampling --------------------------------------------------------------------------------------------------------
resampling = group("resampling")
resampling(
    "align_corners",
    lambda f, x: f.interpolate(x, (9, 9), mode="bilinear"),
    lambda f, x: f.interpolate(x, (9, 9), mode="bilinear", align_corners=True),
    **IMAGE,
)
resampling(
    "nearest-exact",
    lambda f, x: f.interpolate(x, (7, 7), mode="nearest"),
    lambda f, x: f.interpolate(x, (7, 7), mode="nearest-exact"),
    **IMAGE,
)
resampling(
    "antialias",
    lambda f, x: f.interpolate(x, (4, 4), mode="bilinear", antialias=True),
    lambda f, x: f.interpolate(x, (4, 4), mode="bilinear"),
    **IMAGE,
)
resampling(
    "bicubic for bilinear",
    lambda f, x: f.interpolate(x, scale_factor=2, mode="bicubic"),
    lambda f, x: f.interpolate(x, scale_factor=2, mode="bilinear"),
    **IMAGE,
)
resampling(
    "recompute_scale_factor",
    lambda f, x: f.interpolate(x, scale_factor=1.3, mode="bilinear"),
    lambda f, x: f.interpolate(x, scale_factor=1.3, mode="bilinear", recompute_scale_factor=True),
    x=(N, 4, 7, 7),
)
GRID = draw(1, 5, 5, 2, seed=4).clamp(-1.3, 1.3)
resampling(
    "grid_sample's corners",
    lambda f, x: f.grid_sample(x[:1], GRID, align_corners=False),
    lambda f, x: f.grid_sample(x[:1], GRID, align_corners=True),
    **IMAGE,
)
resampling(
    "grid_sample's border",
    lambda f, x: f.grid_sample(x[:1], GRID, align_corners=False),
    lambda f, x: f.grid_sample(x[:1], GRID, padding_mode="border", align_corners=False),
    **IMAGE,
)
resampling(
    "grid_sample's x and y",
    lambda f, x: f.grid_sample(x[:1], GRID, align_corners=False),
    lambda f, x: f.grid_sample(x[:1], GRID.flip(3), align_corners=False),
    x=(N, 4, 8, 8),
)
resampling(
    "affine_grid's corners",
    lambda f, x: f.affine_grid(x, (2, 3, 5, 5), align_corners=False),
    lambda f, x: f.affine_grid(x, (2, 3, 5, 5), align_corners=True),
    x=(2, 2, 3),
)
resampling(
    "a resize before the activation",
    lambda f, x: f.interpolate(f.relu(x), (9, 9), mode="bilinear"),
    lambda f, x: f.relu(f.interpolate(x, (9, 9), mode="bilinear")),
    **IMAGE,
)
resampling(
    "half a pixel",
    lambda f, x: (f.arange(x.shape[2]) + 0.5) / x.shape[2] + x,
    lambda f, x: f.arange(x.shape[2]) / x.shape[2] + x,
    **SIGNAL,
)
resampling(
    "linspace without its end", lambda f, x: x * f.linspace(-1, 1, 8), lambda f, x: x * (f.arange(8) / 4 - 1), **TOKENS
)

# -- attention ---------------------------------------------------------------------------------------------------------
attention = group("attention")
Q, K = td.Dim("Q", min=1, opt=3, max=6), td.Dim("K", min=1, opt=5, max=7)
QKV = {"q": (N, 2, T, 8), "k": (N, 2, T, 8), "v": (N, 2, T, 8)}


def weighted(f, scores, v):
    return f.matmul(f.softmax(scores, -1), v)


def scores(f, q, k, scale=8**-0.5):
    return f.matmul(q, k.transpose(-1, -2)) * scale


def causal(f, q, k, diagonal=0):
    return f.ones(q.shape[2], k.shape[2]).tril(diagonal) > 0


attention(
    "a scale by the model's width",
    lambda f, q, k, v: weighted(f, scores(f, q, k), v),
    lambda f, q, k, v: weighted(f, scores(f, q, k, 16**-0.5), v),
    **QKV,
)
attention(
    "a scale twice",
    lambda f, q, k, v: f.scaled_dot_product_attention(q, k, v),
    lambda f, q, k, v: f.scaled_dot_product_attention(q * 8**-0.5, k, v),
    **QKV,
)
attention(
    "a scale after the softmax",
    lambda f, q, k, v: weighted(f, scores(f, q, k), v),
    lambda f, q, k, v: weighted(f, scores(f, q, k, 1), v) * 8**-0.5,
    **QKV,
)
attention(
    "a causal mask that sees the next",
    lambda f, q, k, v: f.scaled_dot_product_attention(q, k, v, is_causal=True),
    lambda f, q, k, v: weighted(f, f.where(causal(f, q, k, 1), scores(f, q, k), -float("inf")), v),
    **QKV,
)
attention(
    "a causal mask aligned at its end",
    lambda f, q, k, v: weighted(f, f.where(causal(f, q, k), scores(f, q, k), -float("inf")), v),
    lambda f, q, k, v: weighted(f, f.where(causal(f, q, k, 2), scores(f, q, k), -float("inf")), v),
    q=(N, 2, T, 8),
    k=(N, 2, T + 2, 8),
    v=(N, 2, T + 2, 8),
)
attention(
    "a mask that is added as numbers",
    lambda f, q, k, v: f.scaled_dot_product_attention(q, k, v, attn_mask=causal(f, q, k)),
    lambda f, q, k, v: f.scaled_dot_product_attention(q, k, v, attn_mask=causal(f, q, k).to(torch.float32)),
    **QKV,
)
attention(
    "a mask inverted",
    lambda f, q, k, v: f.scaled_dot_product_attention(q, k, v, attn_mask=causal(f, q, k)),
    lambda f, q, k, v: f.scaled_dot_product_attention(q, k, v, attn_mask=~causal(f, q, k, -1) & ~causal(f, q, k, -1)),
    **QKV,
)
attention(
    "a padding mask of queries",
    lambda f, q, m: weighted(f, f.where(m[:, None, :], scores(f, q, q), -1e9), q),
    lambda f, q, m: weighted(f, f.where(m[:, :, None], scores(f, q, q), -1e9), q),
    q=(N, T, 8),
    m=td.Input((N, T), "bool"),
)
attention(
    "-1e4 for -inf",
    lambda f, q, m: weighted(f, f.where(m[:, None, :], scores(f, q, q), -1e9), q),
    lambda f, q, m: weighted(f, f.where(m[:, None, :], scores(f, q, q), -3.0), q),
    q=(N, T, 8),
    m=td.Input((N, T), "bool"),
)
attention(
    "a mask multiplied after the softmax",
    lambda f, q, m: weighted(f, f.where(m[:, None, :], scores(f, q, q), -1e9), q),
    lambda f, q, m: f.matmul(f.softmax(scores(f, q, q), -1) * m[:, None, :], q),
    q=(N, T, 8),
    m=td.Input((N, T), "bool"),
)
attention(
    "rows without a key",
    lambda f, q, m: weighted(f, f.where(m[:, None, :], scores(f, q, q), -1e9), q),
    lambda f, q, m: f.where(
        m.any(1)[:, None, None], weighted(f, f.where(m[:, None, :], scores(f, q, q), -1e9), q), 0.0
    ),
    q=(N, T, 8),
    m=td.Input((N, T), "bool"),
)
attention(
    "any over the batch",
    lambda f, q, m: f.where(m.any(1)[:, None, None], q, 0.0),
    lambda f, q, m: f.where(m.any(), q, 0.0),
    q=(N, T, 8),
    m=td.Input((N, T), "bool"),
)
attention(
    "all over the batch",
    lambda f, q, m: f.where(m.all(1)[:, None, None], q, 0.0),
    lambda f, q, m: f.where(m.all(), q, 0.0),
    q=(N, T, 8),
    m=td.Input((N, T), "bool"),
)
attention(
    "grouped keys repeated in the other order",
    lambda f, q, k: scores(f, q, k.repeat_interleave(2, 1)),
    lambda f, q, k: scores(f, q, k.repeat(1, 2, 1, 1)),
    q=(N, 4, T, 8),
    k=(N, 2, T, 8),
)
attention(
    "a window of one less",
    lambda f, x: f.where((f.arange(x.shape[1])[:, None] - f.arange(x.shape[1])).abs() <= 3, x, 0.0),
    lambda f, x: f.where((f.arange(x.shape[1])[:, None] - f.arange(x.shape[1])).abs() < 3, x, 0.0),
    x=(N, T, T),
)
attention(
    "relative positions of the other sign",
    lambda f, x: x + (f.arange(x.shape[1])[:, None] - f.arange(x.shape[1])),
    lambda f, x: x - (f.arange(x.shape[1])[:, None] - f.arange(x.shape[1])),
    x=(N, T, T),
)
attention(
    "ALiBi's slopes from the first head",
    lambda f, x: x - 2.0 ** -(f.arange(4) + 1)[:, None, None] * f.arange(x.shape[2]),
    lambda f, x: x - 2.0 ** -(f.arange(4))[:, None, None] * f.arange(x.shape[2]),
    x=(N, 4, T, T),
)


def rotated(f, x, interleaved=False, base=10000.0, offset=0, sign=1.0):
    angles = (f.arange(x.shape[1]) + offset)[:, None] * base ** -(f.arange(4) / 4)
    cos, sin = angles.cos(), angles.sin() * sign
    a, b = (x[..., ::2], x[..., 1::2]) if interleaved else (x[..., :4], x[..., 4:])
    pair = [a * cos - b * sin, b * cos + a * sin]
    return f.stack(pair, -1).flatten(2) if interleaved else f.cat(pair, -1)


attention("rope interleaved", rotated, lambda f, x: rotated(f, x, True), **TOKENS)
attention("rope of another base", rotated, lambda f, x: rotated(f, x, base=10001.0), **TOKENS)
attention("rope from one", rotated, lambda f, x: rotated(f, x, offset=1), **TOKENS)
attention("rope turned back", rotated, lambda f, x: rotated(f, x, sign=-1.0), **TOKENS)
attention(
    "sines and cosines exchanged",
    lambda f, x: (
        x
        + f.cat(
            [
                f.sin(f.arange(x.shape[1])[:, None] * f.arange(1, 5)),
                f.cos(f.arange(x.shape[1])[:, None] * f.arange(1, 5)),
            ],
            1,
        )
    ),
    lambda f, x: (
        x
        + f.cat(
            [
                f.cos(f.arange(x.shape[1])[:, None] * f.arange(1, 5)),
                f.sin(f.arange(x.shape[1])[:, None] * f.arange(1, 5)),
            ],
            1,
        )
    ),
    **TOKENS,
)
attention(
    "a residual of the normed value",
    lambda f, x: x + f.gelu(f.layer_norm(x, [8])),
    lambda f, x: f.layer_norm(x, [8]) + f.gelu(f.layer_norm(x, [8])),
    **TOKENS,
)
attention(
    "a norm after for before",
    lambda f, x: x + f.linear(f.layer_norm(x, [8]), draw(8, 8)),
    lambda f, x: f.layer_norm(x + f.linear(x, draw(8, 8)), [8]),
    **TOKENS,
)
attention(
    "keys and values exchanged",
    lambda f, q, k, v: f.scaled_dot_product_attention(q, k, v),
    lambda f, q, k, v: f.scaled_dot_product_attention(q, v, k),
    **QKV,
)
attention(
    "a soft cap before the scale",
    lambda f, q, k, v: weighted(f, 5 * f.tanh(scores(f, q, k) / 5), v),
    lambda f, q, k, v: weighted(f, 5 * f.tanh(scores(f, q, k, 1) / 5) * 8**-0.5, v),
    **QKV,
)

# -- indices and order -------------------------------------------------------------------------------------------------
order = group("indices and order")
order(
    "ascending for descending", lambda f, x: x.sort(1, descending=True).values, lambda f, x: x.sort(1).values, x=(N, 7)
)
order("topk's smallest", lambda f, x: x.topk(3, 1).values, lambda f, x: x.topk(3, 1, largest=False).values, x=(N, 7))
order("indices of the sorted for ranks", lambda f, x: x.argsort(1).argsort(1), lambda f, x: x.argsort(1), x=(N, 7))
order(
    "the last of the greatest",
    lambda f, x: f.round(x).argmax(1),
    lambda f, x: 6 - f.round(x).flip(1).argmax(1),
    x=(N, 7),
)
order("the last of the least", lambda f, x: f.argmin(x, 1), lambda f, x: 6 - f.argmin(x.flip(1), 1), x=(N, 7))
order(
    "cummax's index of ties",
    lambda f, x: f.round(x).cummax(1).indices,
    lambda f, x: f.argmax(f.where(f.arange(7) <= f.arange(7)[:, None], f.round(x)[:, None], -99.0), 2),
    x=(N, 7),
)
order("kthvalue from zero", lambda f, x: f.kthvalue(x, 2, 1).values, lambda f, x: f.kthvalue(x, 3, 1).values, x=(N, 7))
order(
    "searchsorted's side",
    lambda f, x: f.searchsorted(f.arange(-1.5, 2, 0.5), x),
    lambda f, x: f.searchsorted(f.arange(-1.5, 2, 0.5), x, right=True),
    x=(N, 7),
)
order(
    "an embedding off by one",
    lambda f, x: f.embedding(x, draw(9, 4)),
    lambda f, x: f.embedding((x + 1).clamp(max=8), draw(9, 4)),
    x=ints((N, T), 0, 9),
)
order(
    "padding_idx's row",
    lambda f, x: f.embedding(x, draw(9, 4)),
    lambda f, x: f.embedding(x, draw(9, 4)) * (x != 0)[..., None],
    x=ints((N, T), 0, 9),
)
order(
    "one_hot of a class less",
    lambda f, x: f.one_hot(x, 5),
    lambda f, x: f.one_hot(x.clamp(max=3), 5),
    x=ints((N,), 0, 5),
)
order(
    "scatter for scatter_add",
    lambda f, x, i: f.scatter_add(f.zeros_like(x), 1, i, x),
    lambda f, x, i: f.scatter(f.zeros_like(x), 1, i, x),
    x=(N, 6),
    i=ints((N, 6), 0, 6),
)
order(
    "include_self",
    lambda f, x, i: f.scatter_reduce(x, 1, i, x.flip(1), "amax"),
    lambda f, x, i: f.scatter_reduce(x, 1, i, x.flip(1), "amax", include_self=False),
    x=(N, 6),
    i=ints((N, 6), 0, 6),
)
order("exclusive cumsum", lambda f, x: x.cumsum(1), lambda f, x: x.cumsum(1) - x, **TOKENS)
order("cumsum from the end", lambda f, x: x.cumsum(1), lambda f, x: x.flip(1).cumsum(1).flip(1), **TOKENS)
order("a difference of the other sign", lambda f, x: f.diff(x, dim=1), lambda f, x: x[:, :-1] - x[:, 1:], **TOKENS)
order(
    "the last step of each sequence",
    lambda f, x, n: f.take_along_dim(x, (n - 1)[:, None], 1),
    lambda f, x, n: x[:, -1:],
    x=(N, 6),
    n=ints((N,), 1, 7),
)
order(
    "lengths inclusive",
    lambda f, x, n: f.where(f.arange(6) < n[:, None], x, 0.0),
    lambda f, x, n: f.where(f.arange(6) <= n[:, None], x, 0.0),
    x=(N, 6),
    n=ints((N,), 0, 7),
)
order("a triangle without its diagonal", lambda f, x: f.tril(x), lambda f, x: f.tril(x, -1), **SQUARE)
order("slices of a stride from one", lambda f, x: x[:, ::2], lambda f, x: x[:, 1::2], x=(N, 8, 3))
order(
    "chunks in the other order",
    lambda f, x: f.sigmoid(x.chunk(2, -1)[0]) * x.chunk(2, -1)[1],
    lambda f, x: f.sigmoid(x.chunk(2, -1)[1]) * x.chunk(2, -1)[0],
    **TOKENS,
)
order(
    "a split of uneven parts",
    lambda f, x: f.split(x, [3, 5], 2)[1].sum(2),
    lambda f, x: f.split(x, [5, 3], 2)[0].sum(2),
    **TOKENS,
)
order("repeat for repeat_interleave", lambda f, x: x.repeat_interleave(2, 1), lambda f, x: f.cat([x, x], 1), **TOKENS)
order("a class of background counted", lambda f, x: x[:, 1:].argmax(1) + 1, lambda f, x: x.argmax(1), x=(N, 5))
order(
    "boxes as corners",
    lambda f, x: f.box_convert(x, "cxcywh", "xyxy"),
    lambda f, x: f.box_convert(x, "xywh", "xyxy"),
    theirs=lambda f, x: f.cat([x[:, :2] - x[:, 2:] / 2, x[:, :2] + x[:, 2:] / 2], 1),
    x=(N, 4),
)
order(
    "iou with one pixel more",
    lambda f, x: f.box_area(f.box_convert(x.abs(), "xywh", "xyxy")),
    lambda f, x: f.box_area(f.box_convert(x.abs(), "xywh", "xyxy")) + 1,
    theirs=lambda f, x: x.abs()[:, 2] * x.abs()[:, 3],
    x=(N, 4),
)
order(
    "an index of the flattened map",
    lambda f, x: f.stack([x.flatten(1).argmax(1) // 7, x.flatten(1).argmax(1) % 7], 1),
    lambda f, x: f.stack([x.flatten(1).argmax(1) // 5, x.flatten(1).argmax(1) % 5], 1),
    x=(N, 5, 7),
)
order(
    "ctc's repeats", lambda f, x: x[:, 1:] != x[:, :-1], lambda f, x: x[:, 1:] != x[:, 1:].flip(1), x=ints((N, 7), 0, 3)
)

# -- what a module does at some of its sizes ---------------------------------------------------------------------------
sizes = group("sizes")
FOUR = {"x": (td.Dim("A", min=1, opt=6, max=12), td.Dim("B", min=1, opt=6, max=12), td.Dim("D", min=1, opt=6, max=12))}


def counted(f, x, dim):
    return f.ones(x.shape[dim]).sum()


def branch(name, decide, wide=None, **inputs):
    """A module that doubles at some sizes; the network decides alike, or never."""

    def theirs(f, x):
        return x * 2 if decide(*x.shape) else x.clone()

    def ours(f, x):
        return f.where(decide(*(counted(f, x, dim) for dim in range(x.ndim))), x * 2, x)

    sizes(name, ours, lambda f, x: x + 0.0, theirs=theirs, **(inputs or FOUR))


branch("three dimensions at once", lambda a, b, d: (a > 4) & (b > 4) & (d < 3))
branch("three dimensions, each in a band", lambda a, b, d: (a > 7) & (b < 4) & (d > 8))
branch("a product of sizes", lambda a, b, d: a * b * d > 1000)
branch("a size that is odd and great", lambda a, b, d: (a % 2 == 1) & (a > 8))
branch("one size exactly", lambda a, b, d: b == 9)
branch("two equal sizes", lambda a, b, d: (a == b) & (d > 10))
branch("a multiple of seven", lambda a, b, d: a % 7 == 0)
branch("a size greater than twice another", lambda a, b, d: a > 2 * b + 3)
branch("between two sizes", lambda a, b, d: (b > 3) & (b < 6) & (a > 3) & (a < 6))
branch("a sum of sizes", lambda a, b, d: a + b + d == 20)
branch("a long sequence", lambda n, t: t > 700, x=(N, td.Dim("T", min=1, opt=64, max=1024)))
branch("a band of a long range", lambda n, t: (t > 300) & (t < 310), x=(N, td.Dim("T", min=1, opt=64, max=1024)))
branch(
    "a band for one sample only",
    lambda n, t: (t > 300) & (t < 310) & (n == 1),
    x=(N, td.Dim("T", min=1, opt=64, max=1024)),
)
branch("few samples of many", lambda n, t: (n > 2) & (t == 100), x=(N, td.Dim("T", min=1, opt=64, max=1024)))
sizes(
    "pad to a multiple of four",
    lambda f, x: f.pad(x, (0, 0, 0, -x.shape[1] % 4)),
    lambda f, x: f.pad(x, (0, 0, 0, 4 - x.shape[1] % 4)),
    **TOKENS,
)
sizes(
    "a middle of even lengths", lambda f, x: x[:, x.shape[1] // 2], lambda f, x: x[:, (x.shape[1] - 1) // 2], **TOKENS
)
sizes(
    "a table of positions from its end",
    lambda f, x: x + f.arange(12)[: x.shape[1], None],
    lambda f, x: x + f.arange(12)[12 - x.shape[1] :, None],
    **TOKENS,
)
sizes("a size of the range's optimum", lambda f, x: x / x.shape[1], lambda f, x: x / 6, **TOKENS)
sizes(
    "a product of opt's sizes",
    lambda f, x: x.sum((2, 3)) / (x.shape[2] * x.shape[3]),
    lambda f, x: x.sum((2, 3)) / (x.shape[2] * x.shape[2]),
    **IMAGE,
)

# -- reads of a dtype --------------------------------------------------------------------------------------------------
dtypes = group("dtypes")
for half in (None, "fp16", "bf16"):
    dtypes(
        f"an epsilon of the type {half}",
        lambda f, x: x.clamp(min=0.0) + 1e-5,
        lambda f, x: x.clamp(min=0.0),
        precision=half,
        **TOKENS,
    )
    dtypes(
        f"integers of a mean {half}",
        lambda f, x: x.to(torch.float32).mean(1),
        lambda f, x: f.floor(x.to(torch.float32).mean(1)),
        theirs=lambda f, x: x.double().mean(1).float(),
        precision=half,
        x=ints((N, 6), 0, 9),
    )
    dtypes(
        f"a true division {half}",
        lambda f, x: x / 4,
        lambda f, x: (x // 4).to(torch.float32),
        precision=half,
        x=ints((N, 6), 0, 9),
    )
    dtypes(
        f"norm's epsilon {half}",
        lambda f, x: f.layer_norm(x, [8], eps=1e-5),
        lambda f, x: f.layer_norm(x, [8], eps=1e-3),
        precision=half,
        **TOKENS,
    )
    dtypes(
        f"a scale off by a thousandth {half}",
        lambda f, x: f.linear(x, draw(8, 8)),
        lambda f, x: f.linear(x, draw(8, 8)) * 1.001,
        precision=half,
        **TOKENS,
    )
    dtypes(
        f"a head's bias off by 1e-4 {half}",
        lambda f, x: f.linear(x, draw(8, 8), draw(8)),
        lambda f, x: f.linear(x, draw(8, 8), draw(8) + 1e-4),
        precision=half,
        **TOKENS,
    )
    dtypes(
        f"a residual left out of one channel {half}",
        lambda f, x: x + 0.01 * f.relu(x),
        lambda f, x: x + 0.01 * f.relu(x) * (f.arange(8) != 3),
        precision=half,
        **TOKENS,
    )
    dtypes(
        f"an approximation of erf {half}",
        lambda f, x: f.erf(x),
        lambda f, x: f.tanh(x * (1.1283791670955126 + 0.1009 * x * x)),
        precision=half,
        **TOKENS,
    )
    dtypes(
        f"a mask of -100 {half}",
        lambda f, x: f.softmax(f.where(f.arange(6) < 4, x, -float("inf")), -1),
        lambda f, x: f.softmax(f.where(f.arange(6) < 4, x, -10.0), -1),
        precision=half,
        **SQUARE,
    )
    dtypes(
        f"sigmoid for softmax of two {half}",
        lambda f, x: f.softmax(x, -1)[..., 0],
        lambda f, x: f.sigmoid(x[..., 0] - 0.999 * x[..., 1]),
        precision=half,
        x=(N, T, 2),
    )
    dtypes(
        f"the last key left out of long rows {half}",
        lambda f, x: f.softmax(x, -1).sum((0, 1)),
        lambda f, x: f.cat([f.softmax(x[..., :-1], -1), 0 * x[..., -1:]], -1).sum((0, 1)),
        precision=half,
        x=(N, 3, 512),
    )

# -- weights that distinguish nothing ----------------------------------------------------------------------------------
neutral = group("neutral weights")
ONES, ZEROS = torch.ones(4), torch.zeros(4)
NORM = {"n.weight": ONES, "n.bias": ZEROS, "n.running_mean": ZEROS, "n.running_var": ONES}
TWO = {**NORM, **{name.replace("n.", "m."): value for name, value in NORM.items()}}


def norm(f, x, w, mean="running_mean", var="running_var", weight="weight", bias="bias"):
    return f.batch_norm(x, *(getattr(w, name) for name in (mean, var, weight, bias)))


neutral(
    "mean and bias",
    lambda f, x, w: norm(f, x, w.n),
    lambda f, x, w: norm(f, x, w.n, mean="bias", bias="running_mean"),
    NORM,
    **IMAGE,
)
neutral(
    "variance and weight",
    lambda f, x, w: norm(f, x, w.n),
    lambda f, x, w: norm(f, x, w.n, var="weight", weight="running_var"),
    NORM,
    **IMAGE,
)
neutral(
    "two norms exchanged",
    lambda f, x, w: norm(f, f.relu(norm(f, x, w.n)), w.m),
    lambda f, x, w: norm(f, f.relu(norm(f, x, w.m)), w.n),
    TWO,
    **IMAGE,
)
neutral(
    "one norm used twice",
    lambda f, x, w: norm(f, x, w.n) + norm(f, x.flip(1), w.m),
    lambda f, x, w: norm(f, x, w.m) + norm(f, x.flip(1), w.n),
    TWO,
    **IMAGE,
)
neutral(
    "LayerNorm's weight as its bias",
    lambda f, x, w: f.layer_norm(x, [4], w.a, w.b) * w.g,
    lambda f, x, w: f.layer_norm(x, [4], w.g, w.b) * w.a,
    {"a": ONES, "b": ZEROS, "g": ONES},
    x=(N, T, 4),
)
neutral(
    "LayerNorm's bias before its weight",
    lambda f, x, w: f.layer_norm(x, [4]) * w.a + w.b,
    lambda f, x, w: (f.layer_norm(x, [4]) + w.b) * w.a,
    {"a": ONES, "b": ZEROS},
    x=(N, T, 4),
)
neutral("gamma as 1 + gamma", lambda f, x, w: x * (1 + w.g), lambda f, x, w: x * (1 - w.g), {"g": ZEROS}, x=(N, T, 4))
neutral(
    "adaLN's shift and scale",
    lambda f, x, w: f.layer_norm(x, [4]) * (1 + f.linear(x, w.m)[..., :4]) + f.linear(x, w.m)[..., 4:],
    lambda f, x, w: f.layer_norm(x, [4]) * (1 + f.linear(x, w.m)[..., 4:]) + f.linear(x, w.m)[..., :4],
    {"m": torch.zeros(8, 4)},
    x=(N, T, 4),
)
neutral(
    "LoRA's scale",
    lambda f, x, w: x + f.linear(f.linear(x, w.a), w.b) * 2,
    lambda f, x, w: x + f.linear(f.linear(x, w.a), w.b) * 4,
    {"a": draw(3, 4), "b": torch.zeros(4, 3)},
    x=(N, T, 4),
)
neutral(
    "LoRA taken off",
    lambda f, x, w: x + f.linear(f.linear(x, w.a), w.b),
    lambda f, x, w: x - f.linear(f.linear(x, w.a), w.b),
    {"a": draw(3, 4), "b": torch.zeros(4, 3)},
    x=(N, T, 4),
)
neutral(
    "a layer's scale",
    lambda f, x, w: x + w.s * f.gelu(x),
    lambda f, x, w: x + w.s[0] * f.gelu(x),
    {"s": ONES * 1e-4},
    x=(N, T, 4),
)
neutral(
    "a bias twice",
    lambda f, x, w: f.linear(x, w.a, w.b),
    lambda f, x, w: f.linear(x, w.a, w.b) + w.b,
    {"a": draw(4, 4), "b": ZEROS},
    x=(N, T, 4),
)
neutral(
    "a bias of the rows",
    lambda f, x, w: f.matmul(x, w.a) + w.b,
    lambda f, x, w: f.matmul(x, w.a) + w.b[:, None],
    {"a": draw(4, 4), "b": ZEROS},
    x=(N, 4, 4),
)
neutral(
    "a position for each channel",
    lambda f, x, w: x + w.p,
    lambda f, x, w: x + w.p.t(),
    {"p": torch.zeros(4, 4)},
    x=(N, 4, 4),
)
neutral(
    "a temperature",
    lambda f, x, w: f.softmax(x / w.t, -1),
    lambda f, x, w: f.softmax(x * w.t, -1),
    {"t": torch.ones(1)},
    x=(N, 4, 4),
)
neutral(
    "PReLU's slopes", lambda f, x, w: f.prelu(x, w.p), lambda f, x, w: f.prelu(x, w.p.flip(0)), {"p": ONES / 4}, **IMAGE
)
neutral(
    "a class token of zeros",
    lambda f, x, w: f.cat([w.c.expand(x.shape[0], 1, 4), x], 1).cumsum(1),
    lambda f, x, w: f.cat([-w.c.expand(x.shape[0], 1, 4), x], 1).cumsum(1),
    {"c": torch.zeros(1, 1, 4)},
    x=(N, T, 4),
)
neutral(
    "the gates' biases exchanged",
    lambda f, x, w: f.lstm_cell(x, (x, x), w.i, w.h, w.a, w.b)[0],
    lambda f, x, w: f.lstm_cell(x, (x, x), w.i, w.h, w.a, -w.b)[0],
    {"i": draw(16, 4), "h": draw(16, 4, seed=1), "a": torch.zeros(16), "b": torch.zeros(16)},
    x=(N, 4),
)
neutral(
    "a norm's statistics of two inputs",
    lambda f, x, w: f.relu(norm(f, x, w.n)),
    lambda f, x, w: f.relu(
        (x - w.n.running_mean[:, None, None]) * w.n.weight[:, None, None] / (w.n.running_var[:, None, None] + 1e-5)
        + w.n.bias[:, None, None]
    ),
    {**NORM, "n.running_var": ONES - 1e-5},
    **IMAGE,
)

# -- values that draws of N(0, 1) do not have --------------------------------------------------------------------------
values = group("values")
values("a maximum from zero", lambda f, x: x.amax(1), lambda f, x: f.relu(x.amax(1)), x=(N, 40))
values("a product for a sign", lambda f, x: f.copysign(f.ones_like(x), x), lambda f, x: f.sign(x), **TOKENS)
values("a fourth root of the negative", lambda f, x: f.where(x < -8, x * 2, x), lambda f, x: x + 0, **TOKENS)
values("a bound at 60", lambda f, x: f.clamp(x, -60, 60), lambda f, x: x + 0, **TOKENS)
values("a bound at 100", lambda f, x: f.clamp(x, -100, 100), lambda f, x: x + 0, **TOKENS)
values("a bound at 1e-5", lambda f, x: f.clamp(x.abs(), min=1e-5), lambda f, x: x.abs(), **TOKENS)
values("a NaN for zero", lambda f, x: f.nan_to_num(x), lambda f, x: x + 0, **TOKENS)
values("an infinity for the greatest", lambda f, x: f.where(f.isinf(x), 0.0, x), lambda f, x: x + 0, **TOKENS)
values("isfinite for isnan", lambda f, x: f.isnan(x), lambda f, x: ~f.isfinite(x), **TOKENS)
values("a mean above 200", lambda f, x: f.where(x.mean(-1, keepdim=True) > 200, x * 2, x), lambda f, x: x + 0, **TOKENS)
values("a sum of all zeros", lambda f, x: f.where((x == 0).all(-1, keepdim=True), 1.0, x), lambda f, x: x + 0, **TOKENS)
values(
    "a row of equal values",
    lambda f, x: f.where((x == x[..., :1]).all(-1, keepdim=True), 7.0, x),
    lambda f, x: x + 0,
    **TOKENS,
)
values(
    "rows of differing scale",
    lambda f, x: x / x.abs().amax(-1, keepdim=True),
    lambda f, x: f.where(
        x.abs().amax(-1, keepdim=True) > 1e-4 * x.abs().amax(), x / x.abs().amax(-1, keepdim=True), 0.0
    ),
    **TOKENS,
)
values(
    "uint8 as signed",
    lambda f, x: x.to(torch.float32) / 255,
    lambda f, x: f.where(x > 127, x - 256, x).to(torch.float32) / 255,
    x=ints((N, 6), 0, 256),
)
values(
    "the greatest id",
    lambda f, x: f.embedding(x, draw(300, 4)),
    lambda f, x: f.embedding(x.clamp(max=298), draw(300, 4)),
    x=ints((N, 2), 0, 300),
)
values(
    "id zero",
    lambda f, x: f.embedding(x, draw(300, 4)),
    lambda f, x: f.embedding(x.clamp(min=1), draw(300, 4)),
    x=ints((N, 2), 0, 300),
)
values(
    "ties over the batch",
    lambda f, x: f.round(x).argmax(0),
    lambda f, x: x.shape[0] - 1 - f.round(x).flip(0).argmax(0),
    x=(N, 5),
)
values(
    "the first of ties among channels",
    lambda f, x: x.argmax(2),
    lambda f, x: x.shape[2] - 1 - x.flip(2).argmax(2),
    x=(N, td.Dim("H", min=1, opt=3, max=6), td.Dim("W", min=1, opt=4, max=6)),
)
values(
    "any over all",
    lambda f, m: m.any(1),
    lambda f, m: m.any() & (m.any(1) | ~m.any(1)),
    m=td.Input((N, td.Dim("L", min=1, opt=4, max=8)), "bool"),
)
values(
    "a mask for each sample",
    lambda f, x, m: x * m.to(torch.float32).amax(1, keepdim=True),
    lambda f, x, m: x * m.to(torch.float32).amax(0, keepdim=True).amax(1, keepdim=True),
    x=(N, 1),
    m=td.Input((N, 1), "bool"),
)
values(
    "samples that stop together",
    lambda f, x: f.where((x > 0).all(1, keepdim=True), 0.0, x),
    lambda f, x: f.where((x > 0).all(), 0.0, x),
    x=(N, td.Dim("L", min=1, opt=3, max=6)),
)
values(
    "empty at the smallest size",
    lambda f, x: x[:, 1:].argmax(2),
    lambda f, x: 4 - x[:, 1:].flip(2).argmax(2),
    x=(N, td.Dim("L", min=1, opt=3, max=6), 5),
)

# -- the same in exact arithmetic, badly computed ----------------------------------------------------------------------
quality = group("quality")
quality("expm1 as it is written", lambda f, x: f.expm1(x), lambda f, x: f.exp(x) - 1, **TOKENS)
quality("log1p as it is written", lambda f, x: f.log1p(x.abs()), lambda f, x: f.log(1 + x.abs()), **TOKENS)
quality(
    "a softmax without its maximum",
    lambda f, x: f.softmax(x, -1),
    lambda f, x: x.exp() / x.exp().sum(-1, keepdim=True),
    **TOKENS,
)
quality("logsumexp without its maximum", lambda f, x: f.logsumexp(x, -1), lambda f, x: x.exp().sum(-1).log(), **TOKENS)
quality("log of a softmax", lambda f, x: f.log_softmax(x, -1), lambda f, x: f.softmax(x, -1).log(), **TOKENS)
quality("softplus as it is written", lambda f, x: f.softplus(x), lambda f, x: f.log(1 + x.exp()), **TOKENS)
quality("logsigmoid as it is written", lambda f, x: f.logsigmoid(x), lambda f, x: f.sigmoid(x).log(), **TOKENS)
quality(
    "the square of the mean",
    lambda f, x: x.var(-1, correction=0),
    lambda f, x: (x * x).mean(-1) - x.mean(-1).square(),
    **TOKENS,
)
quality(
    "a norm of moments",
    lambda f, x: f.layer_norm(x, [8]),
    lambda f, x: (
        (x - x.mean(-1, keepdim=True))
        * ((x * x).mean(-1, keepdim=True) - x.mean(-1, keepdim=True).square() + 1e-5).rsqrt()
    ),
    **TOKENS,
)
quality(
    "distances by products",
    lambda f, x: (x[:, :, None] - x[:, None]).square().sum(-1),
    lambda f, x: (x * x).sum(-1)[:, :, None] + (x * x).sum(-1)[:, None] - 2 * f.matmul(x, x.transpose(1, 2)),
    **TOKENS,
)
quality(
    "integers by way of float32",
    lambda f, x: x * 3 + 1,
    lambda f, x: (x.to(torch.float32) * 3 + 1).to(torch.int64),
    x=ints((N, 6), 16_000_000, 90_000_000),
)
quality("tanh by exp", lambda f, x: f.tanh(x), lambda f, x: (f.exp(2 * x) - 1) / (f.exp(2 * x) + 1), **TOKENS)
quality("sigmoid by exp", lambda f, x: f.sigmoid(x), lambda f, x: f.exp(x) / (1 + f.exp(x)), **TOKENS)
quality(
    "hypot by squares",
    lambda f, x: f.hypot(x * 1e20, x.flip(2) * 1e20),
    lambda f, x: ((x * 1e20).square() + (x.flip(2) * 1e20).square()).sqrt(),
    **TOKENS,
)
quality(
    "logaddexp by exp", lambda f, x: f.logaddexp(x, x.flip(2)), lambda f, x: f.log(x.exp() + x.flip(2).exp()), **TOKENS
)
quality(
    "a product of many", lambda f, x: x.abs().log().mean(-1).exp(), lambda f, x: x.abs().prod(-1) ** (1 / 64), x=(N, 64)
)
quality("one minus a sigmoid", lambda f, x: f.sigmoid(-x), lambda f, x: 1 - f.sigmoid(x), **TOKENS)
quality("sinh by exp", lambda f, x: f.sinh(x), lambda f, x: (f.exp(x) - f.exp(-x)) / 2, **TOKENS)
quality("asinh as it is written", lambda f, x: f.asinh(x), lambda f, x: f.log(x + (x * x + 1).sqrt()), **TOKENS)
quality(
    "a cross entropy of probabilities",
    lambda f, x: -f.logsigmoid(x),
    lambda f, x: -f.log(f.sigmoid(x) + 1e-30),
    **TOKENS,
)


def moments(f, x, dtype):
    x = (x + 30).to(dtype)
    return ((x * x).mean(1) - x.mean(1).square()).to(torch.float32)


quality(
    "moments of halves",
    lambda f, x: (x + 30).var(1, correction=0),
    lambda f, x: moments(f, x, torch.float16),
    precision="fp16",
    x=(N, 256),
)
quality(
    "moments of bfloat16",
    lambda f, x: (x + 30).var(1, correction=0),
    lambda f, x: moments(f, x, torch.bfloat16),
    precision="bf16",
    x=(N, 256),
)

# -- recurrence and state ----------------------------------------------------------------------------------------------
recurrence = group("recurrence")
CELL = {"i": draw(16, 4), "h": draw(16, 4, seed=1), "a": draw(16, seed=2), "b": draw(16, seed=3)}
GRU = {"i": draw(12, 4), "h": draw(12, 4, seed=1), "a": draw(12, seed=2), "b": draw(12, seed=3)}


def lstm(f, x, w, i=0, f_=1, g=2, o=3):
    gates = (f.linear(x, w.i, w.a) + f.linear(x, w.h, w.b)).chunk(4, -1)
    c = f.sigmoid(gates[f_]) * x + f.sigmoid(gates[i]) * f.tanh(gates[g])
    return f.sigmoid(gates[o]) * f.tanh(c)


def gru(f, x, w, inner=True, swap=False):
    r, z, n = f.linear(x, w.i, w.a).chunk(3, -1)
    hr, hz, hn = f.linear(x, w.h, w.b).chunk(3, -1)
    r, z = f.sigmoid(r + hr), f.sigmoid(z + hz)
    n = f.tanh(n + r * hn) if inner else f.tanh(n + f.linear(r * x, w.h, w.b).chunk(3, -1)[2])
    return (1 - z) * x + z * n if swap else (1 - z) * n + z * x


recurrence(
    "an LSTM's gates of keras",
    lambda f, x, w: f.lstm_cell(x, (x, x), w.i, w.h, w.a, w.b)[0],
    lambda f, x, w: lstm(f, x, w, 0, 1, 3, 2),
    CELL,
    x=(N, 4),
)
recurrence(
    "an LSTM written out",
    lambda f, x, w: lstm(f, x, w),
    lambda f, x, w: lstm(f, x, w, 1, 0),
    CELL,
    theirs=lambda f, x, w: f.lstm_cell(x, (x, x), w.i, w.h, w.a, w.b)[0],
    x=(N, 4),
)
recurrence(
    "a GRU that resets before",
    lambda f, x, w: gru(f, x, w),
    lambda f, x, w: gru(f, x, w, False),
    GRU,
    theirs=lambda f, x, w: f.gru_cell(x, x, w.i, w.h, w.a, w.b),
    x=(N, 4),
)
recurrence(
    "a GRU's update inverted",
    lambda f, x, w: gru(f, x, w),
    lambda f, x, w: gru(f, x, w, swap=True),
    GRU,
    theirs=lambda f, x, w: f.gru_cell(x, x, w.i, w.h, w.a, w.b),
    x=(N, 4),
)
recurrence(
    "an exponential average from zero",
    lambda f, x: f.cat([x[:, :1], 0.5 * x[:, 1:] + 0.5 * x[:, :-1]], 1),
    lambda f, x: 0.5 * x + 0.5 * f.pad(x, (0, 0, 1, 0))[:, :-1],
    **TOKENS,
)
recurrence(
    "a state one step late",
    lambda f, x: x.cumsum(1) * x,
    lambda f, x: f.pad(x.cumsum(1), (0, 0, 1, 0))[:, :-1] * x,
    **TOKENS,
)
recurrence(
    "a token's shift in the other direction",
    lambda f, x: x + f.pad(x, (0, 0, 1, 0))[:, :-1],
    lambda f, x: x + f.pad(x, (0, 0, 0, 1))[:, 1:],
    **TOKENS,
)
recurrence(
    "a discount from the end", lambda f, x: x * 0.9 ** f.arange(8), lambda f, x: x * 0.9 ** (7 - f.arange(8)), **TOKENS
)
