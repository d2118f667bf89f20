"""Small checkpoints of language models with random weights, as transformers publishes them, with a tokenizer."""

from __future__ import annotations

import importlib
import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest
import torch

LLAMA3 = {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 16}
SIZES = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "vocab_size": 40,
    "max_position_embeddings": 64,
    "eos_token_id": None,
    "bos_token_id": None,
}
EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 24}
FAMILIES: dict[str, dict[str, Any]] = {
    "llama": {
        "rope_parameters": {"rope_type": "llama3", "rope_theta": 500.0, **LLAMA3},
        "tie_word_embeddings": True,
    },
    "llama-linear": {"rope_parameters": {"rope_type": "linear", "rope_theta": 1e4, "factor": 2.0}, "mlp_bias": True},
    "qwen2": {"use_sliding_window": True, "sliding_window": 6, "max_window_layers": 1},
    "qwen3": {"tie_word_embeddings": True},
    "mistral": {"sliding_window": 5},
    "mixtral": {"num_local_experts": 4, "num_experts_per_tok": 2},
    "qwen2_moe": {**EXPERTS, "shared_expert_intermediate_size": 40, "mlp_only_layers": [0]},
    "qwen3_moe": {**EXPERTS, "norm_topk_prob": True},
}
SAFETENSORS = {torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16"}
LETTERS = "abcdefghijklmnopqrstuvwxyz .,:;!?'-()éß"


def transformers() -> Any:
    """The library; skips a test where it is not installed."""
    if importlib.util.find_spec("transformers") is None:
        pytest.skip("transformers is not installed")
    if importlib.util.find_spec("torchvision") is not None and not torch.version.cuda:
        for operator in ("nms", "qnms"):  # which a torchvision for CUDA does not bring to the CPU's torch
            if not hasattr(torch.ops.torchvision, operator):
                torch.library.define(f"torchvision::{operator}", "(Tensor a, Tensor b, float c) -> Tensor")
    return importlib.import_module("transformers")


def save_checkpoint(family: str, folder: Path, dtype: torch.dtype = torch.float32, **config: Any) -> torch.nn.Module:
    """Writes a checkpoint of random weights, in several files, and gives its module."""
    library = transformers()
    kind = library.AutoConfig.for_model(family.split("-")[0], **{**SIZES, **FAMILIES[family], **config})
    torch.manual_seed(0)
    module = library.AutoModelForCausalLM.from_config(kind).eval()
    for name, parameter in module.named_parameters():
        scale = 0.3 if parameter.ndim > 1 else 0.1
        parameter.data.normal_(std=scale).add_(1.0 if "norm" in name else 0.0)
    module.to(dtype).save_pretrained(folder, max_shard_size="20KB")
    return module


def save_zeros(family: str, folder: Path, dtype: torch.dtype = torch.float32, **config: Any) -> None:
    """Writes a checkpoint of any size in four files of zeros, which take no room, and their index."""
    library = transformers()
    kind = library.AutoConfig.for_model(family.split("-")[0], **{**SIZES, **FAMILIES[family], **config})
    with torch.device("meta"):
        module = library.AutoModelForCausalLM.from_config(kind)
    kind.dtype = dtype
    kind.save_pretrained(folder)
    revert = importlib.import_module("transformers.core_model_loading").revert_weight_conversion
    published = revert(module, module.state_dict())  # of experts, which the module keeps in one tensor
    shapes = {name: list(tensor.shape) for name, tensor in published.items()}
    if kind.tie_word_embeddings:
        del shapes["lm_head.weight"]
    files: list[list[str]] = [list(shapes)[part::4] for part in range(4)]
    for number, names in enumerate(files):
        header, end = {}, 0
        for name in names:
            start, end = end, end + dtype.itemsize * torch.Size(shapes[name]).numel()
            offsets = [start, end]
            header[name] = {"dtype": SAFETENSORS[dtype], "shape": shapes[name], "data_offsets": offsets}
        text = json.dumps(header).encode()
        text += b" " * (-len(text) % 8)  # as safetensors aligns them
        with open(folder / f"{number}.safetensors", "wb") as file:
            file.write(len(text).to_bytes(8, "little") + text)
            file.truncate(8 + len(text) + end)
    weight_map = {name: f"{number}.safetensors" for number, names in enumerate(files) for name in names}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))


def save_tokenizer(folder: Path) -> None:
    """One token for each letter, with 39 of them."""
    tokenizers = importlib.import_module("tokenizers")
    letters = {letter: index for index, letter in enumerate(LETTERS)}
    made = tokenizers.Tokenizer(tokenizers.models.WordLevel({**letters, "<s>": len(letters)}, unk_token="?"))
    made.pre_tokenizer = tokenizers.pre_tokenizers.Split("", "isolated")
    made.decoder = tokenizers.decoders.Fuse()
    made.add_special_tokens(["<s>"])
    made.save(str(folder / "tokenizer.json"))
