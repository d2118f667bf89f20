"""What `trtdsl inspect` and `build` say where this version of TensorRT lacks a layer that a lowering needs."""

import json

import pytest

from trtdsl.core.backend import get_backend

TEXT = """
import torch
import trtdsl as td
import trtdsl.functional as F

class Model(torch.nn.Module):
    def forward(self, x):
        return torch.nn.functional.scaled_dot_product_attention(x, x, x, is_causal=True)

@td.network(inputs={"x": td.Input((2, 3, 6, 8))}, reference=Model)
def attend(x):
    return F.scaled_dot_product_attention(x, x, x, is_causal=True)
"""
SAID = "scaled_dot_product_attention is lowered as 'products' instead of 'layer': {} {} has no attention layer"


@pytest.fixture
def trtdsl(command_line, tmp_path, monkeypatch):
    """The command line of a TensorRT without IAttention."""
    (tmp_path / "attend.py").write_text(TEXT)
    monkeypatch.delattr(get_backend().trt.INetworkDefinition, "add_attention_v2")
    return command_line(tmp_path)


def test_a_fallback_is_said(trtdsl):
    backend = get_backend()
    said = f"attend.py:12: {SAID.format(backend.name, backend.version)}"
    text = " ".join(trtdsl("inspect", "attend.py").stdout.split())
    assert said in text and "ATTENTION" not in text
    (fallback,) = json.loads(trtdsl("inspect", "attend.py", "--json").stdout)["fallbacks"]
    assert fallback.endswith(said)
    assert said in " ".join(trtdsl("build", "attend.py").stdout.split())
    assert "equal" in trtdsl("check", "attend.py").stdout
