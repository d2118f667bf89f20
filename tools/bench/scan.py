"""F.selective_scan in its lowerings at Mamba's sizes: what the GPU would run of each.

python tools/bench/scan.py
"""

import os
import platform

import torch

import trtdsl as td
import trtdsl.functional as F
from trtdsl.engine.compiling.compiler import compile_engine
from trtdsl.engine.program import program_of_plan
from trtdsl.functional.scanning.scan import PAIRS

CHANNELS, STATE = 1536, 16  # of mamba-130m


def measure(longest, lowering):
    net = td.Network()
    n, t = td.Dim("N", min=1, opt=1, max=1), td.Dim("T", min=1, opt=longest, max=longest)
    u, delta = net.input("u", (n, CHANNELS, t)), net.input("delta", (n, CHANNELS, t))
    b, c = net.input("b", (n, STATE, t)), net.input("c", (n, STATE, t))
    torch.manual_seed(0)
    a = net.constant(-torch.rand(CHANNELS, STATE))
    net.output(F.selective_scan(u, delta, a, b, c, delta_softplus=True, lowering=lowering), "y")
    plan = compile_engine(net)
    return program_of_plan(plan, net), plan


def main():
    backend = td.Network().backend
    print(f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores, {backend.name} {backend.version}.\n")
    heads = "launches | bytes moved | rearranged | activation memory | engine, bytes | build, s"
    print(f"| longest | h for all t, bytes | lowering | {heads} |")
    print("|---" * 9 + "|")
    measure(16, "loop")  # the builder's own set-up is no row's
    for longest in (24, 64, 256, 1024):
        states = longest * CHANNELS * STATE * 4
        short = ("pairs",) if longest * states <= 4 * PAIRS else ()
        for lowering in (*short, "blocks", "chunked", "loop"):
            program, plan = measure(longest, lowering)
            cells = [longest, states, lowering, program.launch_count, program.bytes, program.rearranged_bytes]
            cells += [program.memory, len(plan.data), plan.statistics.seconds]
            print("| " + " | ".join(map(cell, cells)) + " |", flush=True)


def cell(value):
    if isinstance(value, str):
        return value
    return f"{value:,}" if isinstance(value, int) else f"{value:.2f}"


if __name__ == "__main__":
    main()
