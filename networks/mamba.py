"""Mamba language models (Gu & Dao, 2023), with the weights' names of Hugging Face's MambaForCausalLM.

`mamba` is a small configuration, `mamba_loop` the same with its scan in a loop, `mamba_130m` the published one:

    pip install huggingface_hub
    hf download state-spaces/mamba-130m-hf model.safetensors --local-dir /tmp/mamba
    trtdsl check networks/mamba.py:mamba_130m --weights /tmp/mamba/model.safetensors --dim N=1 --dim T=1:16:48
    trtdsl build networks/mamba.py:mamba_130m --weights /tmp/mamba/model.safetensors --no-check

(The reference takes one step after the other: a check at the greatest length and batch takes very long.)
Other checkpoints of the family: `checkpoint` reads the configuration from the shapes in the file, as

    trtdsl build networks/mamba.py:checkpoint --set path=model.safetensors
"""

from pathlib import Path
from typing import Any, Literal

import trtdsl as td
import trtdsl.functional as F

N = td.Dim("N", min=1, opt=1, max=4)
T = td.Dim("T", min=1, opt=32, max=80)
LONG = td.Dim("T", min=1, opt=128, max=512)


def rms_norm(x: td.Tensor, w: td.Scope):
    return F.rms_norm(x, (x.shape[-1],), w.weight, eps=1e-5)


def mixer(x: td.Tensor, w: td.Scope, lowering: str):
    inner, rank = w.dt_proj.weight.shape
    state, kernel = w.A_log.shape[1], w.conv1d.weight.shape[2]
    u, gate = F.linear(x, w.in_proj.weight).transpose(1, 2).chunk(2, dim=1)
    u = F.conv1d(F.pad(u, (kernel - 1, 0)), w.conv1d.weight, w.conv1d.bias, groups=inner)
    u = F.silu(u)
    step, b, c = F.linear(u.transpose(1, 2), w.x_proj.weight).split([rank, state, state], dim=-1)
    y = F.selective_scan(
        u,
        F.linear(step, w.dt_proj.weight).transpose(1, 2),
        -w.A_log.exp(),
        b.transpose(1, 2),
        c.transpose(1, 2),
        D=w.D,
        z=gate,
        delta_bias=w.dt_proj.bias,
        delta_softplus=True,
        lowering=lowering,
    )
    return F.linear(y.transpose(1, 2), w.out_proj.weight)


def language_model(ids: td.Tensor, w: td.Scope, lowering: str = "auto"):
    embeddings = w.backbone.embeddings.weight
    x = F.embedding(ids, embeddings)
    for layer in w.backbone.layers:
        x = x + mixer(rms_norm(x, layer.norm), layer.mixer, lowering)
    x = rms_norm(x, w.backbone.norm_f)
    # einsum leaves a constant as it is where the product can transpose it: the tied weight is stored once.
    return {"logits": F.einsum("nth,vh->ntv", x, w.lm_head.weight if "lm_head" in w else embeddings)}


@td.network(
    inputs={"input_ids": td.Input((N, T), "int64", sample=(0, 96))},
    weights="../weights/mamba.safetensors",
    reference="reference/mamba.py:Model",
)
def mamba(input_ids: td.Tensor, w: td.Scope):
    return language_model(input_ids, w)


@td.network(
    inputs={"input_ids": td.Input((N, T), "int64", sample=(0, 96))},
    weights="../weights/mamba.safetensors",
    reference="reference/mamba.py:Model",
)
def mamba_loop(input_ids: td.Tensor, w: td.Scope):
    return language_model(input_ids, w, lowering="loop")


@td.network(
    inputs={"input_ids": td.Input((N, LONG), "int64", sample=(0, 50280))},
    weights="../weights/mamba_130m.safetensors",
    reference="reference/mamba.py:Mamba130M",
)
def mamba_130m(input_ids: td.Tensor, w: td.Scope):
    return language_model(input_ids, w)


def checkpoint(path: Path, lowering: Literal["auto", "blocks", "chunked", "loop"] = "auto") -> td.NetworkSpec:
    """The network of any checkpoint of the family, checked against a reference of the same configuration."""
    model: Any = mamba.reference_class()
    config = model.configuration(td.Weights(path).shapes)

    @td.network(
        inputs={"input_ids": td.Input((N, LONG), "int64", sample=(0, config.vocabulary))},
        weights=Path(path).resolve(),
        reference=lambda: model(config),
        name="mamba",
    )
    def network(input_ids: td.Tensor, w: td.Scope):
        return language_model(input_ids, w, lowering)

    return network
