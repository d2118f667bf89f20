"""A decoder of 1.1 billion parameters from its weights file to a network: processor time and memory.

    python tools/bench/great.py [--blocks 22]

The file is sparse, all zeros, in a temporary folder: 2.2 GB of bfloat16 that take no room on the disk. The network is
defined once, in a process that has defined a small one before. Memory is the greatest resident size while it is
defined, with the pages of the mapped file that were read. The weights are looked through for NaN and Inf before they
are read anyway, for a build or an evaluation: that is the second figure of time, and the memory that is not the
file's is taken after it.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch

import trtdsl as td
import trtdsl.functional as F

WIDTH, HEADS, SHARED, HIDDEN, WORDS = 2048, 32, 4, 5632, 32000  # heads of queries, and of keys and values
HEAD = WIDTH // HEADS


def shapes(blocks):
    """Every weight by name, as torch keeps a linear layer's: (out, in)."""
    keys = SHARED * HEAD
    block = {
        "before.weight": (WIDTH,), "q.weight": (WIDTH, WIDTH), "k.weight": (keys, WIDTH), "v.weight": (keys, WIDTH),
        "o.weight": (WIDTH, WIDTH), "after.weight": (WIDTH,), "gate.weight": (HIDDEN, WIDTH),
        "up.weight": (HIDDEN, WIDTH), "down.weight": (WIDTH, HIDDEN),
    }  # fmt: skip
    named = {f"blocks.{index}.{name}": shape for index in range(blocks) for name, shape in block.items()}
    return {"words.weight": (WORDS, WIDTH), **named, "norm.weight": (WIDTH,), "head.weight": (WORDS, WIDTH)}


def sparse_file(path, named):
    """A safetensors file of zeros: its header, and a hole."""
    header, end = {}, 0
    for name, shape in named.items():
        begin, end = end, end + 2 * torch.Size(shape).numel()
        header[name] = {"dtype": "BF16", "shape": list(shape), "data_offsets": [begin, end]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        file.truncate(8 + len(text) + end)
    return end


def network(path):
    """The decoder for up to 2048 words at a time."""

    def heads(x, weight, count):
        return F.linear(x, weight).reshape(x.shape[0], x.shape[1], count, HEAD).transpose(1, 2)

    def decoder(words, cos, sin, w):
        x = F.embedding(words, w.words.weight)
        for block in w.blocks:
            y = F.rms_norm(x, (WIDTH,), block.before.weight, 1e-5)
            q, k = (rotated(heads(y, weight, count), cos, sin) for weight, count in
                    ((block.q.weight, HEADS), (block.k.weight, SHARED)))  # fmt: skip
            v = heads(y, block.v.weight, SHARED)
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
            x = x + F.linear(y.transpose(1, 2).flatten(2), block.o.weight)
            y = F.rms_norm(x, (WIDTH,), block.after.weight, 1e-5)
            x = x + F.linear(F.silu(F.linear(y, block.gate.weight)) * F.linear(y, block.up.weight), block.down.weight)
        return {"scores": F.linear(F.rms_norm(x, (WIDTH,), w.norm.weight, 1e-5), w.head.weight)}

    def rotated(x, cos, sin):
        first, second = x.chunk(2, -1)
        return x * cos + F.cat([-second, first], -1) * sin

    length = td.Dim("T", min=1, opt=512, max=2048)
    angle = td.Input((length, HEAD), torch.bfloat16)
    inputs = {"words": td.Input((1, length), torch.int64, sample=(0, WORDS)), "cos": angle, "sin": angle}
    return td.network(inputs=inputs, weights=path)(decoder)


def status(field):
    """A field of /proc/self/status in KiB."""
    lines = Path("/proc/self/status").read_text().split("\n")
    return next(int(line.split()[1]) for line in lines if line.startswith(field))


def measured(blocks):
    """Seconds of the processor, the resident memory added at its peak, and what is not of the file, in KiB."""
    with tempfile.TemporaryDirectory() as folder:
        small, great = Path(folder, "small.safetensors"), Path(folder, "great.safetensors")
        sparse_file(small, shapes(1))
        network(small).define()  # imports, and the builder's own set-up
        size = sparse_file(great, shapes(blocks))
        spec = network(great)
        Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew from here
        resident, own = status("VmRSS"), status("RssAnon")
        started = time.process_time()
        defined = spec.define()
        seconds = time.process_time() - started
        found = {"layers": defined.definition.num_layers, "seconds": seconds, "peak": status("VmHWM") - resident}
        started = time.process_time()
        defined.check_weights()
        search = {"search": time.process_time() - started, "own": status("RssAnon") - own}
        return {"file": size, **found, **search}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--blocks", type=int, default=22)
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measured(options.blocks)))
        return
    command = [sys.executable, __file__, "--one", "--blocks", str(options.blocks)]
    runs = [json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout) for _ in range(5)]
    backend = td.Network().backend
    print(f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores, torch {torch.__version__}, ", end="")
    print(f"{backend.name} {backend.version}; the median of five processes.\n")
    found = {key: sorted(run[key] for run in runs)[2] for key in runs[0]}
    heads = "definition, s | memory added, MiB | search for NaN, s | not the file's, MiB"
    print(f"| blocks | weights, bytes | layers | {heads} |")
    print("|---|---|---|---|---|---|---|")
    cells = [options.blocks, f"{found['file']:,}", f"{found['layers']:,}", f"{found['seconds']:.2f}"]
    cells += [f"{found['peak'] / 1024:.1f}", f"{found['search']:.2f}", f"{found['own'] / 1024:.1f}"]
    print("| " + " | ".join(map(str, cells)) + " |")


if __name__ == "__main__":
    main()
