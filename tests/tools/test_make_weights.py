"""The weights in the repository are what tools/make_weights.py makes, to the byte, on any number of cores.

Another CPU has other errors in the last bits of float64; what is stored has been rounded to float32 or less.
"""

from pathlib import Path

import pytest
import torch

from trtdsl.core.author import load_module

ROOT = Path(__file__).parents[2]
OTHERS = ("mamba", "mobilefacenet", "raft_small", "stgcn_ntu", "stn")  # too large for the repository: ddrnet and more


@pytest.fixture(scope="module")
def tool():
    return load_module(ROOT / "tools" / "make_weights.py")


@pytest.fixture(params=[1, 2])
def threads(request):
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)


def test_stgcn_is_the_same_on_one_core_and_on_two(tool, threads, tmp_path):
    made = tool.make("stgcn", tmp_path).read_bytes()
    assert made == (ROOT / "weights" / "stgcn.safetensors").read_bytes()
    assert (torch.get_num_threads(), torch.get_default_dtype()) == (threads, torch.float32)


@pytest.mark.parametrize("name", OTHERS)
def test_the_other_files_are_as_they_are_made(tool, name, tmp_path):
    assert tool.make(name, tmp_path).read_bytes() == (ROOT / "weights" / f"{name}.safetensors").read_bytes()
