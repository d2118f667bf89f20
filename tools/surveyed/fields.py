"""Further published libraries: graphs, super resolution, proteins, spikes, music, kinds of attention."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from .subject import BATCH

Row = tuple[str, Callable[[Any], Any], dict[str, str] | list[str], dict[str, Any]]
IMAGE = {"N": (1, 2, 3)}
SIDES = {**BATCH, "H": (16, 24, 33), "W": (16, 24, 30)}
TIME = {**BATCH, "T": (6, 9, 14)}
GRAPH = {"V": (4, 6, 9), "E": (3, 10, 20)}
NODES = {"x": "V,8", "edge_index": "2,E:int64:0:4"}


def _graph(name: str, **options: Any) -> Row:
    make = lambda at: at(f"torch_geometric.nn:{name}")(8, 16, num_layers=2, **options)  # noqa: E731
    return (name, make, NODES, GRAPH)


def _upscaler(name: str, **options: Any) -> Row:
    def make(at: Any) -> Any:
        return at(f"super_image:{name}Model")(at(f"super_image:{name}Config")(scale=2, **options))

    return (name, make, ["N,3,H,W:float32:0:1"], SIDES)


def _mlstm(at: Any) -> Any:
    config = at("xlstm:mLSTMBlockConfig")(
        mlstm=at("xlstm:mLSTMLayerConfig")(conv1d_kernel_size=4, qkv_proj_blocksize=4, num_heads=2)
    )
    options = {"context_length": 16, "num_blocks": 2, "embedding_dim": 16}
    return at("xlstm:xLSTMBlockStack")(at("xlstm:xLSTMBlockStackConfig")(mlstm_block=config, **options))


FIELDS: dict[str, list[Row]] = {
    "torch_geometric": [
        _graph("GCN"),
        _graph("GraphSAGE"),
        _graph("GIN"),
        _graph("GAT", heads=2),
        ("EdgeConv", lambda at: at("torch_geometric.nn:EdgeConv")(torch.nn.Linear(16, 8)), NODES, GRAPH),
        (
            "DenseGCNConv",
            lambda at: at("torch_geometric.nn:DenseGCNConv")(8, 16),
            {"x": "N,T,8", "adj": "N,T,T"},
            TIME,
        ),
    ],
    "super_image": [
        _upscaler("Edsr", n_resblocks=2, n_feats=8),
        _upscaler("Msrn", n_blocks=2, n_feats=8),
        _upscaler("Pan", nf=8, unf=8, nb=2),
        _upscaler("Rcan", n_resgroups=1, n_resblocks=2, n_feats=16),
        _upscaler("Carn"),
    ],
    "deformable_attention": [
        (
            "DeformableAttention",
            lambda at: at("deformable_attention:DeformableAttention")(dim=16, dim_head=8, heads=2, offset_groups=2),
            {"x": "N,16,8*H,8*W"},
            {**BATCH, "H": (1, 2, 3), "W": (1, 2, 4)},
        ),
        (
            "DeformableAttention1D",
            lambda at: at("deformable_attention:DeformableAttention1D")(dim=16, dim_head=8, heads=2, offset_groups=2),
            {"x": "N,16,8*T"},
            TIME,
        ),
    ],
    "invariant_point_attention": [
        (
            "InvariantPointAttention",
            lambda at: at("invariant_point_attention:InvariantPointAttention")(
                dim=16, heads=2, require_pairwise_repr=False
            ),
            {"single_repr": "N,T,16", "rotations": "N,T,3,3", "translations": "N,T,3"},
            TIME,
        ),
    ],
    "snntorch": [
        ("Leaky", lambda at: at("snntorch:Leaky")(beta=0.9), {"input_": "N,8", "mem": "N,8"}, IMAGE),
    ],
    "xlstm": [("mLSTM", _mlstm, {"x": "N,T,16"}, TIME)],
    "openunmix": [
        (
            "OpenUnmix",
            lambda at: at("openunmix.model:OpenUnmix")(nb_bins=16, nb_channels=1, hidden_size=8, nb_layers=1),
            {"x": "N,1,16,T"},
            TIME,
        ),
    ],
}
