"""Makes a small checkpoint of a language model with random weights, in the folder's layout of Hugging Face.

    python tools/make_checkpoint.py qwen3 FOLDER [--dtype bfloat16] [--set hidden_size=256 …]
    python tools/make_checkpoint.py llama FOLDER --zeros --dtype bfloat16 --set num_hidden_layers=32 …

It has config.json, tokenizer.json (a token for each letter), several safetensors files and their index. ``--set`` gives
values of the config. With ``--zeros`` the files hold zeros that take no room on the disk, of any size. The kinds are
those of tests/support/checkpoints.py, which makes them.
"""

import argparse
import json
import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from support.checkpoints import FAMILIES, save_checkpoint, save_tokenizer, save_zeros


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=FAMILIES)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--dtype", default="float32", choices=("float32", "float16", "bfloat16"))
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--zeros", action="store_true", help="files of zeros that take no room")
    given = parser.parse_args(arguments)
    config = {name: json.loads(value) for name, _, value in (each.partition("=") for each in given.set)}
    save = save_zeros if given.zeros else save_checkpoint
    save(given.kind, given.folder, getattr(torch, given.dtype), **config)
    save_tokenizer(given.folder)


if __name__ == "__main__":
    main()
