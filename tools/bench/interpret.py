"""The interpreter beside torch eager, and low precisions beside float32: runs in one process that take turns.

    python tools/bench/interpret.py [--rounds N]

Of low precisions it is the least processor time, for one sample of the least batch. "int8" is every product by one
scale a tensor, with float16 around.
"""

from __future__ import annotations

import argparse
import statistics
import time
from pathlib import Path

import torch
from torch import nn

import trtdsl as td
import trtdsl.functional as F
from trtdsl.core.author import load_module

ROOT = Path(__file__).resolve().parents[2]
TARGETS = {"ST-GCN, (1, 3, 300, 18, 2)": 1.5, "transformer block, (1, 256, 512)": 1.5, "500 small layers, (8, 16)": 3.0}
LOW = ("stn", "mamba", "crnn", "mobilefacenet", "vit", "ddrnet", "stgcn", "slowfast", "yolo")
SMALL = {"slowfast": {"T": 8, "H": 64, "W": 64}}


def stgcn():
    """The network of networks/stgcn.py, its torch module, and a feed."""
    spec = td.load_spec(str(ROOT / "networks" / "stgcn.py:stgcn"))
    network = spec.define(dims={"N": 1})
    reference = spec.reference_module(spec.open_weights()).eval()
    return network, reference, {"x": torch.randn(1, 3, 300, 18, 2)}


class Block(nn.Module):
    """A transformer block, normalization first."""

    def __init__(self, width=512, heads=8):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        n, s, d = x.shape
        q, k, v = self.qkv(self.norm1(x)).reshape(n, s, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        y = nn.functional.scaled_dot_product_attention(q, k, v)
        x = x + self.out(y.transpose(1, 2).reshape(n, s, d))
        return x + self.down(nn.functional.gelu(self.up(self.norm2(x))))


def transformer_block():
    """The same block from trtdsl's functions."""
    module = Block().eval()
    net = td.Network("block")
    w = {name: net.constant(value.detach(), source=name) for name, value in module.state_dict().items()}
    x = net.input("x", (1, 256, 512))

    def linear(x, name):
        return F.linear(x, w[f"{name}.weight"], w[f"{name}.bias"])

    def norm(x, name):
        return F.layer_norm(x, (512,), w[f"{name}.weight"], w[f"{name}.bias"])

    n, s, d = x.shape
    parts = linear(norm(x, "norm1"), "qkv").reshape(n, s, 3, 8, d // 8).permute(2, 0, 3, 1, 4)
    y = F.scaled_dot_product_attention(parts[0], parts[1], parts[2])
    x = x + linear(y.transpose(1, 2).reshape(n, s, d), "out")
    net.output(x + linear(F.gelu(linear(norm(x, "norm2"), "up")), "down"), "y")
    return net, module, {"x": torch.randn(1, 256, 512)}


class Chain(nn.Module):
    """100 times a product, a sum, a tanh, a transpose there and a product back: 500 operations."""

    def __init__(self):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.randn(16, 16) / 4), nn.Parameter(torch.randn(1, 16))
        self.back = nn.Parameter(torch.randn(8, 8) / 3)

    def forward(self, x):
        for _ in range(100):
            x = torch.tanh(torch.matmul(x, self.weight) + self.bias)
            x = torch.matmul(self.back, x) * x
        return x


def small_layers():
    """The same chain, one layer for each operation."""
    module = Chain().eval()
    net = td.Network("chain")
    x = net.input("x", (8, 16))
    weight, bias, back = (net.constant(p.detach()) for p in (module.weight, module.bias, module.back))
    for _ in range(100):
        x = F.tanh(F.matmul(x, weight) + bias)
        x = F.matmul(back, x) * x
    net.output(x, "y")
    return net, module, {"x": torch.randn(8, 16)}


def measure(network, module, feeds, rounds):
    """Median seconds of torch, of a prepared Interpreter, of td.interpret; runs take turns so that all see the same
    load."""
    interpreter = td.Interpreter(network)
    inputs = list(feeds.values())
    calls = {
        "torch": torch.inference_mode()(lambda: module(*inputs)),
        "prepared": lambda: interpreter(feeds),
        "once": lambda: td.interpret(network, feeds),
    }
    expected = calls["torch"]()
    (got,) = calls["prepared"]().values()
    worst = float((got - expected).abs().max() / expected.abs().max())
    assert worst < 1e-4, worst
    times = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            started = time.perf_counter()
            call()
            times[name].append(time.perf_counter() - started)
    return {name: statistics.median(values) for name, values in times.items()}


def low_precisions(name, rounds):
    """The least processor seconds of a network of the gallery in float32 and in each low precision."""
    spec, bench = (
        td.load_spec(str(ROOT / "networks" / f"{name}.py")),
        load_module(Path(__file__).parent / "precision.py"),
    )
    (feeds, _) = bench.samples(spec, SMALL.get(name, {}))
    precisions = {"float32": None, "fp16": "fp16", "bf16": "bf16", "int8": bench.narrowed(spec, None)}
    made = {each: td.Interpreter(spec.define(precision=precision)) for each, precision in precisions.items()}
    times = {each: [] for each in made}
    for _ in range(rounds):
        for each, interpreter in made.items():
            started = time.process_time()
            interpreter(feeds)
            times[each].append(time.process_time() - started)
    return {each: min(seconds) for each, seconds in times.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=21)
    rounds = parser.parse_args().rounds
    torch.manual_seed(0)
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads; median of {rounds} runs that take turns\n")
    print("| network | layers | torch eager | Interpreter, prepared | ratio | target | td.interpret, all of it |")
    print("|---|---|---|---|---|---|---|")
    for (name, target), make in zip(TARGETS.items(), (stgcn, transformer_block, small_layers), strict=True):
        network, module, feeds = make()
        times = measure(network, module, feeds, rounds)
        ratio = times["prepared"] / times["torch"]
        layers = network.definition.num_layers
        cells = [f"{1e3 * times[key]:.2f} ms" for key in ("torch", "prepared", "once")]
        print(f"| {name} | {layers} | {cells[0]} | {cells[1]} | {ratio:.2f} | {target} | {cells[2]} |")
    print("\n| network | float32 | fp16 | bf16 | int8 |\n|---|---|---|---|---|")
    for name in LOW:
        times = low_precisions(name, rounds)
        parts = [f"{seconds / times['float32']:.2f}" for each, seconds in times.items() if each != "float32"]
        print(f"| {name} | {1e3 * times['float32']:.1f} ms | {' | '.join(parts)} |", flush=True)


if __name__ == "__main__":
    main()
