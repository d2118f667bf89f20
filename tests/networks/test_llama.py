"""Checkpoints of four families in small: equal to transformers, one step and a whole generated text."""

import importlib.util
import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

import trtdsl as td

FILE = Path(__file__).parents[2] / "networks" / "llama.py"
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
FAMILIES = {
    "llama": {
        "rope_parameters": {"rope_type": "llama3", "rope_theta": 500.0, **LLAMA3},
        "tie_word_embeddings": True,
    },
    "llama-linear": {"rope_parameters": {"rope_type": "linear", "rope_theta": 1e4, "factor": 2.0}, "mlp_bias": True},
    "qwen2": {"use_sliding_window": True, "sliding_window": 6, "max_window_layers": 1},
    "qwen3": {"tie_word_embeddings": True},
    "mistral": {"sliding_window": 5},
}
CAPACITY, PROMPT = 32, 8


@pytest.fixture(scope="module")
def transformers():
    if importlib.util.find_spec("transformers") is None:
        pytest.skip("transformers is not installed")
    if importlib.util.find_spec("torchvision") is not None and not torch.version.cuda:
        for operator in ("nms", "qnms"):  # which a torchvision for CUDA does not bring to the CPU's torch
            if not hasattr(torch.ops.torchvision, operator):
                torch.library.define(f"torchvision::{operator}", "(Tensor a, Tensor b, float c) -> Tensor")
    return importlib.import_module("transformers")


@pytest.fixture
def checkpoint(transformers, tmp_path):
    """Writes a checkpoint of random weights as transformers publishes them, and gives its module."""

    def made(family):
        kind = transformers.AutoConfig.for_model(family.split("-")[0], **SIZES, **FAMILIES[family])
        torch.manual_seed(0)
        module = transformers.AutoModelForCausalLM.from_config(kind).eval()
        for name, parameter in module.named_parameters():
            scale = 0.3 if parameter.ndim > 1 else 0.1
            parameter.data.normal_(std=scale).add_(1.0 if "norm" in name else 0.0)
        module.save_pretrained(tmp_path, max_shard_size="20KB")
        return module

    return made


def spec_of(folder):
    return td.load_spec(str(FILE), {"folder": folder, "capacity": CAPACITY, "prompt": PROMPT, "batch": 2})


@pytest.mark.parametrize(
    "family", [pytest.param(name, marks=[] if name in ("llama", "qwen2") else pytest.mark.heavy) for name in FAMILIES]
)
def test_a_step_equals_transformers(family, checkpoint, tmp_path):
    checkpoint(family)
    report = td.check(spec_of(tmp_path), sizes="quick")
    assert report.passed, report


@pytest.mark.parametrize("family", FAMILIES)
def test_a_generated_text_equals_transformers(family, checkpoint, tmp_path):
    """Ragged prompts padded at their ends, beside each prompt by itself, without a cache and without our mask."""
    module = checkpoint(family)
    prompts = [[3, 4, 5, 6, 7, 8, 9], [11, 5, 29, 17]]
    wanted = [torch.tensor(prompt) for prompt in prompts]
    for _ in range(12):
        with torch.no_grad():
            wanted = [torch.cat((text, module(text[None]).logits[0, -1].argmax()[None])) for text in wanted]
    found = td.Generator(spec_of(tmp_path).define())(prompts, max_tokens=12)
    assert [[*prompt, *text] for prompt, text in zip(prompts, found, strict=True)] == [each.tolist() for each in wanted]


def test_what_is_no_checkpoint_is_refused(tmp_path):
    with pytest.raises(td.UsageError, match=r"has no config.json: name the folder of a checkpoint"):
        spec_of(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "bert"}))
    with pytest.raises(td.UnsupportedError, match="model_type 'bert', not of llama, qwen2, qwen3, mistral"):
        spec_of(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "llama", "rms_norm_eps": 1e-6, **SIZES}))
    with pytest.raises(td.WeightsError, match="has no weights"):
        spec_of(tmp_path)
    save_file({"a": torch.ones(1)}, tmp_path / "model.safetensors")
    with pytest.raises(td.UsageError, match="a prompt of 8 tokens needs a capacity"):
        td.load_spec(str(FILE), {"folder": tmp_path, "capacity": 4, "prompt": 8})


def test_a_step_of_decoding_is_nine_launches_a_layer(checkpoint, tmp_path):
    """Norm, q and k and v, rotation and cache, attention, output; norm, gate and up, product, down."""
    module = checkpoint("llama")
    module.to(torch.bfloat16).save_pretrained(tmp_path, max_shard_size="20KB")
    step = spec_of(tmp_path).define(dims={"N": 1, "S": 1}, profiles=[])
    assert len(td.program(step).launches) <= 2 * 9 + 3  # embedding and position, last norm, logits
