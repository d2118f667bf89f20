"""tools/bench/great.py, and what it is about: a definition reads no weight and copies none."""

from pathlib import Path

import pytest
import torch
from safetensors import safe_open

from trtdsl.core.author import load_module

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def tool():
    return load_module(ROOT / "tools" / "bench" / "great.py")


def test_the_sparse_file_is_a_file_of_zeros(tool, tmp_path):
    path = tmp_path / "w.safetensors"
    named = {"a.weight": (3, 5), "b.weight": (7,)}
    tool.sparse_file(path, named)
    with safe_open(path, "pt") as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  (it is no mapping)
    assert {name: tuple(tensor.shape) for name, tensor in tensors.items()} == named
    assert all(tensor.dtype == torch.bfloat16 and not tensor.any() for tensor in tensors.values())


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="only Linux tells the peak of a part of a run")
def test_no_weight_is_read_or_copied(tool):
    """Three blocks and two tables of words are 526 MB; one copy of every matrix of a block is 84 MiB."""
    found = tool.measured(3)
    assert found["file"] > 500 << 20
    assert found["peak"] < 8 << 10
    assert found["own"] < 8 << 10  # after looking for NaN, too: there the pages of the file are read
