"""`trtdsl generate`: text by a language model with a cache, on the CPU or by its engine."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

import trtdsl as td

from ...core import exit_codes
from ...core.errors import UsageError
from ...core.files.names import is_folder
from ...display.terminal import print_line, print_pieces
from ..command import Output, command
from ..options import Definition, Lowerings, Settings, Texts, option

Target = Annotated[str, typer.Argument(metavar="NETWORK|ENGINE", help="FILE.py or FILE.py:NAME, or NAME.engine")]


def sampling_options(
    max_tokens: Annotated[int, option("The most tokens that follow a prompt.", "COUNT")] = 64,
    temperature: Annotated[float, option("0 takes the likeliest token.", "T")] = 0.0,
    top_k: Annotated[int | None, option("Draw of so many tokens alone.", "COUNT")] = None,
    top_p: Annotated[float, option("Draw of the likeliest that have this probability.", "P")] = 1.0,
    stop: Annotated[list[int] | None, option("Ends a text, instead of the checkpoint's own.", "TOKEN")] = None,
    seed: Annotated[int, option("Of what is drawn.", "NUMBER")] = 0,
) -> dict[str, Any]:
    """How tokens are chosen, as :meth:`~trtdsl.Generator.stream` takes it."""
    how = {"max_tokens": max_tokens, "temperature": temperature, "top_k": top_k, "top_p": top_p, "seed": seed}
    return how if stop is None else {**how, "stop": stop}


@command
def generate(
    out: Output,
    network: Target,
    settings: Settings,
    lowerings: Lowerings,
    definition: Definition,
    sampling: Annotated[dict[str, Any], sampling_options],
    prompt: Annotated[Texts, option("Text to go on with; one of them is printed as it is made.", "TEXT")] = None,
    tokens: Annotated[Texts, option("The same as tokens, such as 1,2,3.", "LIST")] = None,
    tokenizer: Annotated[Path | None, option("With tokenizer.json; the weights' folder otherwise.", "FOLDER")] = None,
    check: Annotated[bool, option("Compare the likeliest tokens with transformers', instead.")] = False,
) -> None:
    """Generate text with a network like networks/llama.py, interpreted on the CPU, or with its engine on a GPU.

    Examples:
      trtdsl generate networks/llama.py --set folder=Llama-3.2-1B --prompt Once
      trtdsl generate networks/llama.py --set folder=Llama-3.2-1B --check
    """
    prompts = [*(prompt or ()), *map(_tokens_of, tokens or ())]
    if os.path.isdir(network):
        raise UsageError(f"{network} is a folder: name a network's file, as networks/llama.py --set folder={network}")
    spec = td.load_spec(network, settings).tuned(lowerings) if ".py" in Path(network).name else None
    if spec is None and (check or settings):
        raise UsageError(f"--check, --set and --ranks are for networks, such as FILE.py, and {network} is none")
    if spec is not None and check:
        asked = {name: sampling[name] for name in ("max_tokens", "seed")}
        if prompt or tokenizer or sampling != {**sampling_options(), **asked}:
            raise UsageError("--check takes --tokens, --max-tokens and --seed alone, and random prompts without tokens")
        how = {name: definition[name] for name in ("weights", "dims", "precision", "backend")}
        report = td.check_generation(spec, prompts=prompts or None, n=asked["max_tokens"], seed=asked["seed"], **how)
        out.result(report.to_json(), lambda: print_line(str(report)))
        if not report.passed:
            raise typer.Exit(exit_codes.MISMATCH)
        return
    if not prompts or (prompt and tokens):
        raise UsageError("say what to go on with, by --prompt TEXT or by --tokens 1,2,3")
    if tokenizer is not None and not is_folder(tokenizer):
        raise UsageError(f"--tokenizer names the folder of a checkpoint, and there is no folder {tokenizer}")
    folder = tokenizer
    if spec is not None:
        weights = spec.open_weights(definition["weights"])
        folder = tokenizer or (None if weights is None else weights.path)
        source = replace(spec, reference=None).define(**definition)  # no reference is asked
    else:
        source = td.load_engine(network, backend=definition["backend"])
    if prompt and folder is None:
        raise UsageError("a text needs a tokenizer: name its folder by --tokenizer, or give --tokens")
    from ...engine.running.tokenizer import stops_of

    generator = td.Generator(source, folder if prompt else None)
    if folder is not None:
        sampling = {"stop": stops_of(folder), **sampling}
    if len(prompts) == 1 and prompt and not out.json and not out.quiet:
        print_pieces(generator.stream_text(prompts[0], **sampling))
        return
    found = generator(prompts, **sampling)
    value = {"schema": 1, "kind": "generate", "network": network, "prompts": prompts, "results": found}
    out.result(value, lambda: [print_line(each if prompt else ",".join(map(str, each))) for each in found])


def _tokens_of(text: str) -> list[int]:
    try:
        return [int(each) for each in text.split(",")]
    except ValueError:
        raise UsageError(f"--tokens {text}: expected numbers such as 1,2,3") from None
