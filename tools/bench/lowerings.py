"""Functions that can be written in several ways, in their usual contexts: what the GPU would run of each way.

    python tools/bench/lowerings.py [NAME …] [--write]

The bytes are those of all launches' operands; operations and loads are counted in the source of the kernels that the
builder generated. ``--write`` makes docs/lowerings.md. The way that F takes by default is marked.
"""

import argparse
import functools
import math
import re
import sys
from pathlib import Path

import torch

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

import trtdsl as td  # noqa: E402
import trtdsl.functional as F  # noqa: E402
import trtdsl.layers as L  # noqa: E402
from trtdsl.engine.compiling.compiler import compile_engine  # noqa: E402
from trtdsl.engine.program import program_of_plan  # noqa: E402
from trtdsl.functional.lowerings import LOWERINGS  # noqa: E402

PAGE = ROOT / "docs" / "lowerings.md"
DTYPES = (torch.float32, torch.float16, torch.bfloat16)
IMAGE, TOKENS = (2, 64, 56, 60), (4, 200, 192)


def constant(x, *shape, scale=1.0):
    generator = torch.Generator().manual_seed(len(shape))
    return x.network.constant(torch.randn(shape, generator=generator) * scale, x.dtype)


def conv(x, channels=64, size=3):
    kernel = constant(x, channels, x.shape[1], size, size)
    return F.conv2d(x, kernel, constant(x, channels), padding=size // 2)


def linear(x, width):
    return F.linear(x, constant(x, width, x.shape[-1]), constant(x, width))


# Contexts: what stands before and after, and the input's shape.
ALONE = {"alone": (lambda x: x, lambda y: y, IMAGE)}
CONVOLUTIONS = {**ALONE, "between convolutions": (conv, conv, IMAGE)}
PRODUCTS = {
    "alone": (lambda x: x, lambda y: y, TOKENS),
    "between products": (lambda x: linear(x, 192), lambda y: linear(y, 192), TOKENS),
}
BOTH = {**CONVOLUTIONS, "between products": PRODUCTS["between products"]}


def channels(x, values):
    return F.reshape(values, (1, -1, *(1,) * (x.ndim - 2)))


def unfused_norm(x, axes):
    wide = x.to(torch.float32)
    centred = wide - wide.mean(axes, keepdim=True)
    return (centred * F.rsqrt((centred * centred).mean(axes, keepdim=True) + 1e-5)).to(x.dtype)


def one_for_all(x, axes):
    one = x.network.constant(torch.ones((1,) * x.ndim), x.dtype)
    return L.normalization(x, one, one * 0, axes)


def each_channel(x):
    one = x.network.constant(torch.ones(1, x.shape[1], 1, 1), x.dtype)
    return L.normalization(x, one, one * 0, [2, 3])


def statistics(x):
    return constant(x, 64), x.network.constant(torch.rand(64) + 0.5, x.dtype)


def batch_norm_apart(x):
    mean, var = statistics(x)
    scale = F.rsqrt(var + 1e-5)
    return x * channels(x, scale) + channels(x, -mean * scale)


def by_layer(causal):
    return lambda x: heads(x, lambda q, k, v: L.attention(q * 0.125, k, v, causal="UPPER_LEFT" if causal else "NONE"))


def by_products(causal):
    def attend(q, k, v):
        scores = F.matmul(q * 0.125, k.transpose(-1, -2))
        if causal:
            mask = torch.ones(q.shape[2], q.shape[2]).triu(1).bool()
            scores = F.masked_fill(scores, q.network.constant(mask), -math.inf)
        return F.matmul(F.softmax(scores, -1), v)

    return lambda x: heads(x, attend)


def heads(x, attend):
    q, k, v = linear(x, 3 * 192).unflatten(2, (3, 3, 64)).permute(2, 0, 3, 1, 4)
    return attend(q, k, v).transpose(1, 2).flatten(2)


def squeeze_and_excite(form):
    def block(x):
        pooled = x.mean((2, 3), keepdim=True) if form != "pooling" else F.avg_pool2d(x, x.shape[2:])
        if form == "products":
            gate = F.sigmoid(linear(F.relu(linear(pooled.flatten(1), 16)), 64)).reshape(-1, 64, 1, 1)
        else:
            gate = F.sigmoid(conv(F.relu(conv(pooled, 16, 1)), 64, 1))
        return x * gate

    return block


def sampled(lowering, mode="bilinear"):
    def sample(x):
        grid = x.network.input("grid", (2, 56, 60, 2))
        return F.grid_sample(x, grid, mode, align_corners=False, lowering=lowering)

    return sample


def graph_product(how):
    def product(x):
        adjacency = constant(x, 3, 60, 60)
        y = conv(x, 192, 1).reshape(2, 3, 64, 56, 60)
        if how == "by names":
            y = F.where(y.network.constant(True), y.transpose(0, 1), y.transpose(0, 1)).transpose(0, 1)
        return F.einsum("nkctv,kvw->nctw", y, adjacency, lowering="native" if how == "native" else "matmul")

    return product


def shuffled_by_deconvolution(x):
    kernel = torch.zeros(64, 16, 2, 2)
    for k in range(64):
        kernel[k, k // 4, k % 4 // 2, k % 2] = 1
    return F.conv_transpose2d(x, x.network.constant(kernel, x.dtype), stride=2)


def doubled_by_reshape(x):
    n, c, h, w = x.shape
    return x.reshape(n, c, h, 1, w, 1).expand(n, c, h, 2, w, 2).reshape(n, c, 2 * h, 2 * w)


def exponentials(x):
    powers = F.exp(x - x.amax(-1, keepdim=True))
    return powers / powers.sum(-1, keepdim=True)


def with_pointwise(x):
    """A product with a matrix as a convolution, which has an epilogue."""
    n, t, c = x.shape
    y = conv(x.transpose(1, 2).reshape(n, c, t, 1), 768, 1)
    return F.gelu(y).reshape(n, 768, t).transpose(1, 2)


def ways(function, call):
    """A call in each way of the table of lowerings, the default first."""
    return {way: functools.partial(call, lowering=way) for way in LOWERINGS[function]}


def embedded(how):
    def embed(x):
        ids, table = x.network.input("ids", (4, 200), "int64"), constant(x, 512, 192)
        if how == "gather":
            return x + F.embedding(ids, table)
        return x + F.matmul(F.one_hot(ids, 512).to(x.dtype), table)

    return embed


def joined(how):
    """Two branches, concatenated and convolved; or each convolved by its part of the kernel, and added up."""

    def join(x):
        a, b = conv(x, 64, 1), F.relu(x)
        if how == "concatenation":
            return F.conv2d(F.cat([a, b], 1), constant(x, 64, 128, 1, 1))
        kernel = constant(x, 64, 128, 1, 1)
        return F.conv2d(a, kernel[:, :64]) + F.conv2d(b, kernel[:, 64:])

    return join


def doubled_and_added(how):
    def add(x):
        n, c, h, w = x.shape
        small = conv(x, c, 1)
        large = constant(x, 1, c, 2 * h, 2 * w)
        if how == "resize":
            return F.interpolate(small, scale_factor=2, mode="nearest") + large
        return (small.reshape(n, c, h, 1, w, 1) + large.reshape(1, c, h, 2, w, 2)).reshape(n, c, 2 * h, 2 * w)

    return add


def separable(how):
    def convolve(x):
        depth, point = constant(x, 64, 1, 3, 3), constant(x, 64, 64, 1, 1)
        if how == "depthwise, pointwise":
            return F.conv2d(F.conv2d(x, depth, padding=1, groups=64), point)
        return F.conv2d(x, x.network.constant(point.data * depth.data[:, 0], x.dtype), padding=1)

    return convolve


def mean_of_channels(how):
    def mean(x):
        if how == "IReduceLayer":
            return x.mean(1, keepdim=True)
        return F.conv2d(x, x.network.constant(torch.full((1, 64, 1, 1), 1 / 64), x.dtype))

    return mean


def mean_of_tokens(how):
    def mean(x):
        if how == "IReduceLayer":
            return x.mean(1, keepdim=True)
        return F.matmul(x.network.constant(torch.full((1, 1, 200), 1 / 200), x.dtype), x)

    return mean


def grouped_norm(how):
    def norm(x):
        if how == "F.group_norm":
            return F.group_norm(x, 8, constant(x, 64), constant(x, 64))
        y = unfused_norm(x.reshape(x.shape[0], 8, 8, *x.shape[2:]), (2, 3, 4)).reshape(x.shape)
        return y * channels(x, constant(x, 64)) + channels(x, constant(x, 64))

    return norm


def root_mean_square(x):
    wide = x.to(torch.float32)
    return (wide * F.rsqrt((wide * wide).mean(-1, keepdim=True) + 1e-6)).to(x.dtype) * constant(x, 192)


# name -> (contexts, {way: function}); the first way is what F does.
CHOICES = {
    "prelu": (
        CONVOLUTIONS,
        {
            **ways("prelu", lambda x, lowering: F.prelu(x, constant(x, 64), lowering=lowering)),
            "select": lambda x: F.where(x > 0, x, x * channels(x, constant(x, 64))),
        },
    ),
    "leaky_relu": (
        BOTH,
        {"F.leaky_relu": lambda x: F.leaky_relu(x, 0.1), "max(x, a x)": lambda x: F.maximum(x, x * 0.1)},
    ),
    "hardswish": (
        CONVOLUTIONS,
        {"F.hardswish": F.hardswish, "x clip(x + 3, 0, 6) / 6": lambda x: x * F.clamp(x + 3.0, 0.0, 6.0) * (1 / 6)},
    ),
    "silu": (BOTH, ways("silu", F.silu)),
    "gelu": (
        BOTH,
        {"F.gelu": F.gelu, "by erf": lambda x: x * 0.5 * (F.erf(x * 0.7071067811865476) + 1.0)},
    ),
    "softmax": (PRODUCTS, {"F.softmax": lambda x: F.softmax(x, -1), "by exp": exponentials}),
    "layer_norm": (
        PRODUCTS,
        {
            "F.layer_norm": lambda x: F.layer_norm(x, (192,), constant(x, 192), constant(x, 192)),
            "by means": lambda x: unfused_norm(x, (2,)) * constant(x, 192) + constant(x, 192),
        },
    ),
    "instance_norm": (
        CONVOLUTIONS,
        {
            "F.instance_norm": F.instance_norm,
            "parts of rows": lambda x: F.instance_norm(x, lowering="blocks"),
            "one scale": lambda x: one_for_all(x, [2, 3]),
            "a scale for each channel": each_channel,
            "by means": lambda x: unfused_norm(x, (2, 3)),
        },
    ),
    "batch_norm": (
        {"between convolutions": CONVOLUTIONS["between convolutions"]},
        {
            "F.batch_norm": lambda x: F.relu(F.batch_norm(x, *statistics(x))),
            "product and sum": lambda x: F.relu(batch_norm_apart(x)),
        },
    ),
    "global average": (
        CONVOLUTIONS,
        {
            "F.adaptive_avg_pool2d": lambda x: F.adaptive_avg_pool2d(x, 1),
            "IReduceLayer": lambda x: x.mean((2, 3), keepdim=True),
            "IPoolingLayer": lambda x: F.avg_pool2d(x, x.shape[2:]),
        },
    ),
    "squeeze and excite": (
        CONVOLUTIONS,
        {form: squeeze_and_excite(form) for form in ("convolutions", "products", "pooling")},
    ),
    "glu": (
        BOTH,
        {
            "F.glu": lambda x: F.glu(x, 1 if x.ndim == 4 else -1),
            "gather": lambda x: _gathered_glu(x, 1 if x.ndim == 4 else 2),
        },
    ),
    "pixel_shuffle": (
        CONVOLUTIONS,
        {"F.pixel_shuffle": lambda x: F.pixel_shuffle(x, 2), "deconvolution": shuffled_by_deconvolution},
    ),
    "nearest, twice the size": (
        CONVOLUTIONS,
        {"F.interpolate": lambda x: F.interpolate(x, scale_factor=2, mode="nearest"), "expand": doubled_by_reshape},
    ),
    "nearest, twice the size, and a sum": (
        CONVOLUTIONS,
        {how: doubled_and_added(how) for how in ("resize", "broadcast")},
    ),
    "depthwise and pointwise": (
        CONVOLUTIONS,
        {how: separable(how) for how in ("depthwise, pointwise", "one dense convolution")},
    ),
    "concatenation before a convolution": (
        CONVOLUTIONS,
        {how: joined(how) for how in ("concatenation", "a convolution each, added")},
    ),
    "embedding": (PRODUCTS, {how: embedded(how) for how in ("gather", "product with one-hot")}),
    "mean over channels": (
        CONVOLUTIONS,
        {how: mean_of_channels(how) for how in ("IReduceLayer", "pointwise convolution")},
    ),
    "mean over tokens": (PRODUCTS, {how: mean_of_tokens(how) for how in ("IReduceLayer", "product with a row")}),
    "group_norm": (CONVOLUTIONS, {how: grouped_norm(how) for how in ("F.group_norm", "by means")}),
    "rms_norm": (
        PRODUCTS,
        {"F.rms_norm": lambda x: F.rms_norm(x, (192,), constant(x, 192), 1e-6), "by means": root_mean_square},
    ),
    "linear and gelu": (
        PRODUCTS,
        {
            "F.linear": lambda x: F.gelu(linear(x, 768)),
            "transposed weight": lambda x: F.gelu(F.matmul(x, constant(x, 192, 768)) + constant(x, 768)),
            "pointwise convolution": with_pointwise,
        },
    ),
    "attention": (
        {"between products": PRODUCTS["between products"]},
        {
            "F.scaled_dot_product_attention": lambda x: heads(x, F.scaled_dot_product_attention),
            "IAttention": by_layer(False),
            "products": by_products(False),
        },
    ),
    "causal attention": (
        {"between products": PRODUCTS["between products"]},
        {
            "F.scaled_dot_product_attention": lambda x: heads(
                x, lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True)
            ),
            "IAttention": by_layer(True),
            "products": by_products(True),
        },
    ),
    "einsum of a graph": (
        {"between convolutions": CONVOLUTIONS["between convolutions"]},
        {"F.einsum": graph_product("order"), "native": graph_product("native"), "by names": graph_product("by names")},
    ),
    "grid_sample, bilinear": (CONVOLUTIONS, {how: sampled(how) for how in ("taps", "gather", "native")}),
    "grid_sample, bicubic": (CONVOLUTIONS, {how: sampled(how, "bicubic") for how in ("taps", "gather", "native")}),
}


def _gathered_glu(x, axis):
    half = x.shape[axis] // 2
    first, second = (F.index_select(x, axis, torch.arange(start, start + half)) for start in (0, half))
    return first * F.sigmoid(second)


def measure(way, context, dtype):
    """Launches, bytes, and the operations and loads in generated kernels; None where it cannot be built."""
    before, after, shape = context
    net = td.Network()
    try:
        with net.current():
            net.output(after(way(before(net.input("x", shape, dtype)))), "y")
        plan = compile_engine(net)
        program = program_of_plan(plan, net)
    except td.TrtdslError as error:
        print(f"  refused: {error}", file=sys.stderr)
        return None
    source = "".join(text.decode("latin1") for text in re.findall(rb"__global__[^\0]*", plan.data))
    operations = len(re.findall(r"= __myln_\w+\(", source))
    loads = len(re.findall(r"= \(\(__myln_\w+\*\)__v\d+\)\[", source))
    return program.launch_count, program.bytes, operations, loads


def table(name):
    """The lines of one choice's table, and where another way moves fewer bytes in fewer launches than the default."""
    contexts, ways = CHOICES[name]
    lines = [f"\n## {name}\n", "| way | " + " | ".join(f"{c}, {_short(d)}" for c in contexts for d in DTYPES) + " |"]
    lines.append("|---" * (1 + len(contexts) * len(DTYPES)) + "|")
    values = {way: [measure(f, c, d) for c in contexts.values() for d in DTYPES] for way, f in ways.items()}
    default = next(iter(ways))
    for way, cells in values.items():
        label = f"**{way}**" if way == default else way
        lines.append(f"| {label} | " + " | ".join(_cell(cell) for cell in cells) + " |")
    better = []
    for index, (context, dtype) in enumerate((c, d) for c in contexts for d in DTYPES):
        mine = values[default][index]
        for way, cells in values.items():
            other = cells[index]
            if mine and other and other[0] <= mine[0] and other[1] < 0.995 * mine[1]:
                better.append(f"{way}: {context}, {_short(dtype)}")
    if better:
        lines.append(f"\nFewer bytes in no more launches than the default: {'; '.join(better)}.")
    return lines


def _cell(value):
    if value is None:
        return "refused"
    launches, moved, operations, loads = value
    return f"{launches}, {moved / 1e6:.2f} MB, {operations}/{loads}"


def _short(dtype):
    return {"float32": "fp32", "float16": "fp16", "bfloat16": "bf16"}[str(dtype).removeprefix("torch.")]


TEXT = f"""\
Functions that can be written in several ways with TensorRT's layers, in their usual contexts. The first way, in bold,
is what `trtdsl.functional` does. A cell has the launches that the GPU would get, the bytes of their operands, and the
operations and loads in the source of the kernels that the builder generates. Images are {IMAGE}, tokens
{TOKENS}; with half precision the whole network is in it. Where another way moves fewer bytes in no more launches
somewhere, a line below the table says so: it is no default because it is worse elsewhere, less exact, has been wrong
in some version of TensorRT, or takes several times the arithmetic, as one dense convolution for two separable ones."""


def head():
    backend = td.Network().backend
    return [
        "# Lowerings",
        "",
        f"Written by `python tools/bench/lowerings.py --write`, for {backend.name} {backend.version}.",
        "",
        TEXT,
    ]


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", default=list(CHOICES))
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    lines = head()
    for name in options.names:
        lines += table(name)
        print("\n".join(lines[-12:]) if options.write else "\n".join(lines), flush=True)
        if not options.write:
            lines = []
    if options.write:
        PAGE.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
