"""Decoders with a cache by what the GPU will run: networks/llama.py beside transformers' models by torch.onnx.

    python tools/bench/decoders.py [--only PATTERN] [--write]

Checkpoints of random weights in bfloat16 (tools/make_checkpoint.py), a cache of 512 slots: one token after 511, and a
prompt of 512. "limit" is all weights once and the cache once. The ONNX files are those of the exporter based on dynamo
(it needs onnxscript), with a cache that is concatenated and the logits of the last token, read by TensorRT's parser.
"engine" is that of both profiles together: its constants, in parts of the bytes of the weights, and the megabytes of
everything else, which are kernels' texts.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
import warnings
from pathlib import Path

import torch
from torch import nn

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tools"), str(ROOT / "tests")]

from measured import alone, versions, write_part  # noqa: E402
from support.checkpoints import save_checkpoint, transformers  # noqa: E402

import trtdsl as td  # noqa: E402
from trtdsl.core.backend import get_backend  # noqa: E402
from trtdsl.programs.evaluation.contents import Contents  # noqa: E402
from trtdsl.programs.plan import read_plan  # noqa: E402

DOCUMENT = ROOT / "docs" / "benchmarks.md"
PART = "<!-- decoders: python tools/bench/decoders.py --write -->", "<!-- end of decoders -->"
SLOTS, SECONDS = 512, 300
TIED = {"tie_word_embeddings": True, "max_position_embeddings": 2048}


def shape(layers, width, heads, groups, head_dim, inner, words):
    return {
        "num_hidden_layers": layers, "hidden_size": width, "num_attention_heads": heads, "num_key_value_heads": groups,
        "head_dim": head_dim, "intermediate_size": inner, "vocab_size": words, **TIED,
    }  # fmt: skip


SHAPES = {
    "Llama's, 2 layers of 2048": ("llama", shape(2, 2048, 32, 4, 64, 5632, 8192)),
    "Qwen3's, 2 layers of 1024": ("qwen3", shape(2, 1024, 16, 8, 128, 3072, 8192)),
    "Llama's, 4 layers of 512": ("llama", shape(4, 512, 8, 2, 64, 1408, 2048)),
}


class Step(nn.Module):
    """A step of transformers' model: the logits of the last token, and the whole cache."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, tokens, positions, *past):
        from transformers.cache_utils import DynamicCache

        cache = DynamicCache()
        for layer in range(len(past) // 2):
            cache.update(past[2 * layer], past[2 * layer + 1], layer)
        found = self.model(
            input_ids=tokens, position_ids=positions, past_key_values=cache, use_cache=True, logits_to_keep=1
        )
        return (found.logits, *(x for layer in found.past_key_values.layers for x in (layer.keys, layer.values)))


def by_onnx(folder, config, past):
    """The program of a step after so many tokens."""
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16).eval()
    kept = (1, config["num_key_value_heads"], past, config["head_dim"])
    cache = [torch.zeros(kept, dtype=torch.bfloat16) for _ in range(2 * config["num_hidden_layers"] if past else 0)]
    feeds = torch.zeros(1, SLOTS - past, dtype=torch.long), torch.arange(past, SLOTS)[None], *cache
    with tempfile.TemporaryDirectory() as place, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        path = Path(place) / "step.onnx"
        torch.onnx.export(Step(model), feeds, str(path), dynamo=True, verbose=False)
        return td.program(path)


def row(name):
    """The figures of one shape."""
    transformers()
    family, config = SHAPES[name]
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "checkpoint"
        save_checkpoint(family, folder, torch.bfloat16, **config)
        weights = sum(2 * torch.Size(size).numel() for size in td.Weights(folder).shapes.values())
        slots = config["num_hidden_layers"] * 2 * config["num_key_value_heads"] * SLOTS * config["head_dim"]
        found = {"weights": weights, "limit": weights + 2 * slots, "layers": config["num_hidden_layers"]}
        spec = td.load_spec(str(ROOT / "networks" / "llama.py"), {"folder": folder, "capacity": SLOTS, "prompt": SLOTS})
        td.build(spec, Path(place) / "decoder.engine", check=False)
        data = (Path(place) / "decoder.engine").read_bytes()
        backend = get_backend()
        programs = read_plan(data, backend.name, backend.version).programs
        stored = {
            program.tensors[name].offset: len(value)
            for program in programs
            for name, value in Contents(data).constants(program, programs).items()
        }
        found["engine"] = sum(stored.values()), len(data) - sum(stored.values())
        for profile, kind in enumerate(("decode", "prefill")):
            ours = td.program(Path(place) / "decoder.engine", profile=profile)
            found[kind] = [ours.launch_count, ours.bytes]
        for kind, past in (("decode", SLOTS - 1), ("prefill", 0)):
            theirs = by_onnx(folder, config, past)
            found[f"{kind} by ONNX"] = [theirs.launch_count, theirs.bytes]
    return found


def table(rows):
    heads = (
        "one token: launches, MB",
        "of the limit",
        "by ONNX",
        "512 tokens: launches, MB",
        "by ONNX",
        "engine: constants, other MB",
    )
    lines = [f"| shape | {' | '.join(heads)} |", f"|---{'|---:' * len(heads)}|"]
    for name, found in rows.items():
        cells = {key: f"{value[0]}, {value[1] / 1e6:.1f}" for key, value in found.items() if isinstance(value, list)}
        lines.append(
            f"| {name} | {cells['decode']} | {found['decode'][1] / found['limit']:.3f} | {cells['decode by ONNX']} | "
            f"{cells['prefill']} | {cells['prefill by ONNX']} | "
            f"{found['engine'][0] / found['weights']:.3f}, {found['engine'][1] / 1e6:.1f} |"
        )
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="shapes whose name has this pattern")
    parser.add_argument("--write", action="store_true", help=f"write the table in {DOCUMENT.name}")
    given = parser.parse_args(arguments)
    rows = {name: alone(row, name, seconds=SECONDS) for name in SHAPES if re.search(given.only, name)}
    text = f"{table(rows)}\n\n{versions()}."
    print(text)
    if given.write:
        write_part(DOCUMENT, *PART, text)


if __name__ == "__main__":
    main()
