"""dtypes and their names: one place for both."""

import re
from pathlib import Path

import pytest
import torch

import trtdsl as td
from trtdsl.core.dtypes import as_dtype, dtype_name

SOURCES = Path(td.__file__).parent


def test_names_and_back():
    for dtype in (torch.float32, torch.bfloat16, torch.int64, torch.bool, torch.float8_e4m3fn):
        assert as_dtype(dtype_name(dtype)) == as_dtype(dtype) == dtype
    with pytest.raises(td.UsageError, match="unknown dtype 'floaty'"):
        as_dtype("floaty")
    with pytest.raises(td.UsageError, match="unknown dtype 'nn'"):
        as_dtype("nn")


def test_no_other_place_spells_a_name():
    spelled = re.compile(r"""removeprefix\(["']torch\.|str\(\w*\.?dtype\) (?:==|in) """)
    found = [str(file) for file in SOURCES.rglob("*.py") if spelled.search(file.read_text())]
    assert found == [str(SOURCES / "core" / "dtypes.py")]
