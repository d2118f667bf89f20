"""Functions that can be lowered in several ways, in their usual contexts: what the GPU would run of each way.

    python tools/bench/lowerings.py [NAME …] [--write]

The ways are those that stand under ``@way`` in trtdsl/functional, which ``lowering=`` and ``--tune`` choose from, and
those of tools/bench/compared.py, which nothing chooses. The bytes are those of all launches' operands; operations and
loads are counted in the source of the kernels that the builder generated. The way that F takes by default is marked in
each context. ``--write`` puts the tables into docs/lowerings.md, in the place of those of the same names: the page can
be made in several runs, of one version of TensorRT.
"""

import argparse
import functools
import re
import sys
from pathlib import Path

import torch

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tools" / "bench")]

import compared  # noqa: E402

import trtdsl as td  # noqa: E402
import trtdsl.functional as F  # noqa: E402
from trtdsl import layers as L  # noqa: E402
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


def same(x):
    return x


# Contexts: what stands before and after, and the input's shape.
IMAGES = {
    "alone": (same, same, IMAGE),
    "after a convolution": (conv, same, IMAGE),
    "between convolutions": (conv, conv, IMAGE),
}
SEQUENCES = {
    "alone": (same, same, TOKENS),
    "after a product": (lambda x: linear(x, 192), same, TOKENS),
    "between products": (lambda x: linear(x, 192), lambda y: linear(y, 192), TOKENS),
}
BOTH = {**IMAGES, **{context: SEQUENCES[context] for context in ("after a product", "between products")}}
HEADS = {"between products": SEQUENCES["between products"]}


def statistics(x):
    return constant(x, 64), x.network.constant(torch.rand(64) + 0.5, x.dtype)


def heads(x, attend):
    q, k, v = linear(x, 3 * 192).unflatten(2, (3, 3, 64)).permute(2, 0, 3, 1, 4)
    return attend(q, k, v).transpose(1, 2).flatten(2)


def attention(causal):
    def attend(x, **how):
        return heads(x, lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=causal, **how))

    return attend


def grouped(x):
    return F.group_norm(conv(x), 8, *statistics(x))


NORMED = {"between a group norm and a convolution": (grouped, conv, IMAGE)}


def squeeze_and_excite(x, **how):
    gate = conv(F.relu(conv(F.mean(x, (2, 3), True, **how), 16, 1)), 64, 1)
    return x * F.sigmoid(gate)


def channel_attention(x, **how):
    return x * F.sigmoid(F.amax(x, (2, 3), True, **how) + x.mean((2, 3), keepdim=True))


def sampled(mode):
    def sample(x, **how):
        grid = x.network.input("grid", (2, 56, 60, 2))
        return F.grid_sample(x, grid, mode, align_corners=False, **how)

    return sample


def graph_product(x, einsum=F.einsum, **how):
    y = conv(x, 192, 1).reshape(2, 3, 64, 56, 60)
    return einsum("nkctv,kvw->nctw", y, constant(x, 3, 60, 60), **how)


def embedded(x, embedding=F.embedding):
    ids = x.network.input("ids", (4, 200), "int64")
    return x + embedding(ids, constant(x, 512, 192))


def doubled(x, **how):
    return F.interpolate(x, scale_factor=2, mode="nearest", **how)


def doubled_and_added(x, **how):
    small = conv(x, x.shape[1], 1)
    return doubled(small, **how) + constant(x, 1, small.shape[1], 2 * small.shape[2], 2 * small.shape[3])


def doubled_skip(x, **how):
    n, c, h, w = x.shape
    return doubled(x, **how) + x.network.input("skip", (n, c, 2 * h, 2 * w), x.dtype)


def doubled_beside(x, **how):
    n, c, h, w = x.shape
    skip = conv(x.network.input("skip", (n, c, 2 * h, 2 * w), x.dtype))
    return F.cat([doubled(x, **how), skip], 1)


def gated(x, **how):
    return F.glu(x, 1 if x.ndim == 4 else -1, **how)


def normalized(x, **how):
    return F.layer_norm(x, (192,), constant(x, 192), constant(x, 192), **how)


def scan(x, **how):
    wide, narrow = x.transpose(1, 2), x[:, :, :16].transpose(1, 2)
    decay = x.network.constant(-torch.rand(int(x.shape[2]), 16), x.dtype)
    return F.selective_scan(wide, F.softplus(wide), decay, narrow, narrow, **how).transpose(1, 2)


# name -> (function of the table, contexts, a call with ``lowering=``)
CHOICES = {
    "prelu": ("prelu", IMAGES, lambda x, **how: F.prelu(x, constant(x, 64), **how)),
    "leaky_relu": ("leaky_relu", BOTH, lambda x, **how: F.leaky_relu(x, 0.1, **how)),
    "hardswish": ("hardswish", IMAGES, F.hardswish),
    "silu": ("silu", {**BOTH, **NORMED}, F.silu),
    "gelu": ("gelu", BOTH, F.gelu),
    "glu": ("glu", BOTH, gated),
    "softmax": ("softmax", SEQUENCES, lambda x, **how: F.softmax(x, -1, **how)),
    "softmax over channels": ("softmax", IMAGES, lambda x, **how: F.softmax(x, 1, **how)),
    "layer_norm": ("layer_norm", SEQUENCES, normalized),
    "instance_norm": ("instance_norm", IMAGES, F.instance_norm),
    "group_norm": (
        "group_norm",
        IMAGES,
        lambda x, **how: F.group_norm(x, 8, constant(x, 64), constant(x, 64), **how),
    ),
    "batch_norm": (
        "batch_norm",
        {context: IMAGES[context] for context in ("after a convolution", "between convolutions")},
        lambda x, **how: F.relu(F.batch_norm(x, *statistics(x), **how)),
    ),
    "mean over all pixels": ("mean", IMAGES, lambda x, **how: F.mean(x, (2, 3), True, **how)),
    "mean over channels": ("mean", IMAGES, lambda x, **how: F.mean(x, 1, True, **how)),
    "mean over tokens": ("mean", SEQUENCES, lambda x, **how: F.mean(x, 1, True, **how)),
    "maximum over all pixels": ("amax", IMAGES, lambda x, **how: F.amax(x, (2, 3), True, **how)),
    "squeeze and excite": ("mean", IMAGES, squeeze_and_excite),
    "gate of maxima and means": ("amax", IMAGES, channel_attention),
    "average pooling": ("avg_pool", IMAGES, lambda x, **how: F.avg_pool2d(x, 2, **how)),
    "average pooling of everything": ("avg_pool", IMAGES, lambda x, **how: F.avg_pool2d(x, x.shape[2:], **how)),
    "max pooling": ("max_pool", IMAGES, lambda x, **how: F.max_pool2d(x, 2, **how)),
    "max pooling with padding": ("max_pool", IMAGES, lambda x, **how: F.max_pool2d(x, 3, 2, 1, **how)),
    "pixel_shuffle": ("pixel_shuffle", IMAGES, lambda x, **how: F.pixel_shuffle(x, 2, **how)),
    "nearest, twice the size": ("interpolate", IMAGES, doubled),
    "nearest, twice the size, and a sum": ("interpolate", IMAGES, doubled_and_added),
    "nearest, twice the size, and an input": ("interpolate", IMAGES, doubled_skip),
    "nearest, twice the size, and a concatenation": ("interpolate", IMAGES, doubled_beside),
    "concatenation": ("cat", IMAGES, lambda x, **how: F.cat([conv(x, 64, 1), F.relu(x)], 1, **how)),
    "embedding": ("embedding", SEQUENCES, embedded),
    "linear and gelu": (
        "linear",
        SEQUENCES,
        lambda x, **how: F.gelu(F.linear(x, constant(x, 768, 192), constant(x, 768), **how)),
    ),
    "attention": ("scaled_dot_product_attention", HEADS, attention(False)),
    "causal attention": ("scaled_dot_product_attention", HEADS, attention(True)),
    "einsum of a graph": ("einsum", {"between convolutions": IMAGES["between convolutions"]}, graph_product),
    "grid_sample, bilinear": ("grid_sample", IMAGES, sampled("bilinear")),
    "grid_sample, bicubic": ("grid_sample", IMAGES, sampled("bicubic")),
    "selective_scan": ("selective_scan", HEADS, scan),
}
# name of a choice -> the ways that are for comparison alone
COMPARED = {
    "leaky_relu": {"maximum": lambda x: L.elementwise(x, x * 0.1, "MAX")},
    "hardswish": {"clip": lambda x: x * (F.clamp(x + 3.0, 0.0, 6.0) * (1 / 6))},
    "gelu": {"erf": compared.gelu_by_erf},
    "glu": {"gather": compared.glu_by_gather},
    "softmax": {"exp": compared.softmax_by_powers(2)},
    "softmax over channels": {"exp": compared.softmax_by_powers(1)},
    "layer_norm": {"means": lambda x: compared.layer_norm_by_means(x, constant(x, 192), constant(x, 192))},
    "mean over channels": {"product": compared.mean_by_product},
    "mean over tokens": {"product": compared.mean_by_product},
    "pixel_shuffle": {"deconvolution": lambda x: compared.pixel_shuffle_by_deconvolution(x, 2)},
    "concatenation": {"padded": lambda x: compared.cat_as_sum([conv(x, 64, 1), F.relu(x)], 1)},
    "embedding": {"one_hot": lambda x: embedded(x, compared.embedding_by_ones)},
    "linear and gelu": {
        "convolution": lambda x: F.gelu(compared.linear_by_convolution(x, constant(x, 768, 192), constant(x, 768))),
    },
    "einsum of a graph": {
        "native": lambda x: graph_product(x, compared.by_einsum_layer),
        "broadcast": lambda x: graph_product(x, compared.multiplied_out),
    },
}


def calls_of(name):
    """Each way of a choice by its name: those of the function, or what F does where it has one, and the compared."""
    function, _, call = CHOICES[name]
    ways = {way: functools.partial(call, lowering=way) for way in LOWERINGS.get(function, ())}
    return (ways or {"F": call}) | COMPARED.get(name, {})


def written(call, context, dtype):
    """The network of a call in a context; None where this way cannot express it."""
    before, after, shape = context
    net = td.Network()
    try:
        with net.current():
            net.output(after(call(before(net.input("x", shape, dtype)))), "y")
    except td.TrtdslError as error:
        print(f"  refused: {error}", file=sys.stderr)
        return None
    return net


def measure(net):
    """Launches, bytes, and the operations and loads in generated kernels; None where it cannot be built."""
    try:
        plan = compile_engine(net)
    except td.TrtdslError as error:
        print(f"  refused: {error}", file=sys.stderr)
        return None
    program = program_of_plan(plan, net)
    source = "".join(text.decode("latin1") for text in re.findall(rb"__global__[^\0]*", plan.data))
    operations = len(re.findall(r"= __myln_\w+\(", source))
    loads = len(re.findall(r"= \(\(__myln_\w+\*\)__v\d+\)\[", source))
    return program.launch_count, program.bytes, operations, loads


def taken(net, values):
    """The way that F takes by default; the first that can express the call where it has no other."""
    ways = [site.lowering for site in net.choices.sites if site.lowering in values and not site.given]
    return ways[0] if ways else next(way for way, value in values.items() if value is not None)


def table(name):
    """The lines of one choice's table, and where another way moves fewer bytes in no more launches than the default."""
    function, contexts, call = CHOICES[name]
    ways = calls_of(name)
    lines = [f"\n## {name}\n", "| " + " | ".join(["`" + function + "`", *ways]) + " |", "|---" * (1 + len(ways)) + "|"]
    better = []
    for context, dtype in ((context, dtype) for context in contexts for dtype in DTYPES):
        values = {}
        for way, one in ways.items():
            net = written(one, contexts[context], dtype)
            values[way] = None if net is None else measure(net)
        default = taken(written(call, contexts[context], dtype), values)
        cells = [f"**{_cell(values[way])}**" if way == default else _cell(values[way]) for way in ways]
        lines.append(f"| {context}, {_short(dtype)} | " + " | ".join(cells) + " |")
        mine = values[default]
        for way, other in values.items():
            if mine and other and other[0] <= mine[0] and other[1] < 0.995 * mine[1]:
                better.append(f"{way}: {context}, {_short(dtype)}")
    if better:
        lines.append(f"\nFewer bytes in no more launches than the default: {'; '.join(better)}.")
    return lines


def _cell(value):
    if value is None:
        return "–"
    launches, moved, operations, loads = value
    return f"{launches}, {moved / 1e6:.2f} MB, {operations}/{loads}"


def _short(dtype):
    return {"float32": "fp32", "float16": "fp16", "bfloat16": "bf16"}[str(dtype).removeprefix("torch.")]


TEXT = f"""\
Functions that can be written in several ways with TensorRT's layers, in their usual contexts: the ways that `lowering=`
and `--tune` choose from ("F" where a function has one), and others for comparison, a column each. What
`trtdsl.functional` does by default in a context is in bold. A cell has the launches that the GPU would get, the bytes
of their operands, and the operations and loads in the source of the kernels that the builder generates; a dash stands
where a way cannot express the call. Images are {IMAGE}, tokens {TOKENS}; with half precision the whole network is in
it. Where another way moves fewer bytes in no more launches somewhere, a line below the table says so: it is no default
because it is worse where something else is around it, less exact, has been wrong in some version of TensorRT, or takes
more memory or time that the bytes do not show."""


def head():
    backend = td.Network().backend
    return [
        "# Lowerings",
        "",
        f"Written by `python tools/bench/lowerings.py --write`, for {backend.name} {backend.version}.",
        "",
        TEXT,
    ]


def sections():
    """The tables that the page has, by name; none where they are of another version or in another form."""
    if not PAGE.exists():
        return {}
    first, *rest = PAGE.read_text().split("\n## ")
    return (
        {text.partition("\n")[0]: "\n## " + text.rstrip() for text in rest}
        if first.rstrip() == "\n".join(head())
        else {}
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", default=list(CHOICES))
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    for name in options.names:
        lines = "\n".join(table(name))
        print(lines, flush=True)
        if options.write:
            known = {**sections(), name: lines}
            PAGE.write_text("\n".join([*head(), *(known[each] for each in CHOICES if each in known)]) + "\n")


if __name__ == "__main__":
    main()
