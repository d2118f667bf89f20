"""Einsum and Mamba executed: the engine, the interpreter and torch."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from support import assert_close

import trtdsl as td
import trtdsl.functional as F
from trtdsl.engine.engine import engine_of

N = td.Dim("N", min=1, opt=2, max=4)
ROWS = [
    ("nctw,cd->ndtw", [(N, 64, 50, 18), (64, 128)], (1,)),
    ("nkctv,kvw->nctw", [(N, 3, 64, 50, 18), (3, 18, 18)], (1,)),
    ("nkctv,kcvw->nctw", [(N, 3, 64, 50, 18), (3, 64, 18, 18)], (1,)),
    ("bhnm,bdhm->bdhn", [(N, 4, 128, 128), (N, 64, 4, 128)], ()),
    ("b l d_in, d_in n -> b l d_in n", [(N, 64, 96), (96, 16)], (1,)),
    ("b d_in n, b n -> b d_in", [(N, 96, 16), (N, 16)], ()),
    ("b l d_in, b l n, b l d_in -> b l d_in n", [(N, 64, 96), (N, 64, 16), (N, 64, 96)], ()),
    ("bqhd,bkhd->bhqk", [(N, 64, 8, 32), (N, 64, 8, 32)], ()),
    ("bi,oij,bj->bo", [(N, 32), (64, 32, 32), (N, 32)], (1,)),
    ("ai,ibj,jck,kd->abcd", [(8, 16), (16, 12, 16), (16, 12, 16), (16, 8)], ()),
    ("nij,njk->nik", [(N, 3, 3), (N, 3, 3)], ()),
    ("nijij->nj", [(N, 5, 4, 5, 4)], ()),
]


@pytest.mark.parametrize(("equation", "dims", "constants"), ROWS, ids=[row[0] for row in ROWS])
def test_equations(equation, dims, constants):
    torch.manual_seed(0)
    operands = [torch.randn([size if isinstance(size, int) else 3 for size in shape]) for shape in dims]
    net = td.Network()
    inputs = [
        net.constant(operand) if index in constants else net.input(f"x{index}", shape)
        for index, (operand, shape) in enumerate(zip(operands, dims, strict=True))
    ]
    net.output(F.einsum(equation, *inputs), "y")
    feeds = {f"x{index}": operand for index, operand in enumerate(operands) if index not in constants}
    executed = engine_of(net)(feeds)["y"]
    assert_close(executed, torch.einsum(equation.replace("d_in", "d"), *operands))
    assert_close(executed, td.interpret(net, feeds)["y"])


@pytest.mark.real_gpu("the numbers of its kernels")
@pytest.mark.parametrize("name", ["mamba", "mamba_loop"])
def test_mamba(name):
    file = Path(__file__).parents[2] / "networks" / "mamba.py"
    assert td.check(td.load_spec(f"{file}:{name}"), on="engine").raise_for_mismatch().passed
