"""F.selective_scan in its two lowerings at Mamba's sizes: what TensorRT's builder says of each.

python tools/bench/scan.py
"""

import os
import platform

import torch

import trtdsl as td
import trtdsl.functional as F
from trtdsl.compiling.compiler import compile_engine

CHANNELS, STATE = 1536, 16  # of mamba-130m


def measure(longest, lowering):
    net = td.Network()
    n, t = td.Dim("N", min=1, opt=1, max=1), td.Dim("T", min=1, opt=longest, max=longest)
    u, delta = net.input("u", (n, CHANNELS, t)), net.input("delta", (n, CHANNELS, t))
    b, c = net.input("b", (n, STATE, t)), net.input("c", (n, STATE, t))
    torch.manual_seed(0)
    a = net.constant(-torch.rand(CHANNELS, STATE))
    net.output(F.selective_scan(u, delta, a, b, c, delta_softplus=True, lowering=lowering), "y")
    return net.definition.num_layers, compile_engine(net)


def main():
    backend = td.Network().backend
    print(f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores, {backend.name} {backend.version}.\n")
    print("| longest | h for all t, bytes | lowering | layers | activation memory | engine, bytes | build, s |")
    print("|---|---|---|---|---|---|---|")
    measure(16, "loop")  # the builder's own set-up is no row's
    for longest in (64, 256, 1024, 4096):
        states = longest * CHANNELS * STATE * 4
        for lowering in ("parallel", "loop"):
            layers, plan = measure(longest, lowering)
            memory, seconds = plan.statistics.activation_memory, plan.statistics.seconds
            print(
                f"| {longest} | {states:,} | {lowering} | {layers} | {memory:,} | {len(plan.data):,} | {seconds:.2f} |"
            )


if __name__ == "__main__":
    main()
