"""`trtdsl generate`: text by a language model with a cache, on the CPU or by its engine."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

import trtdsl as td

from ...core import exit_codes
from ...core.errors import UsageError
from ...display.terminal import print_line, print_pieces
from ..command import Output, command
from ..options import Definition, Lowerings, Settings, settings_of

app = typer.Typer()

Target = Annotated[str, typer.Argument(metavar="NETWORK|ENGINE", help="FILE.py or FILE.py:NAME, or NAME.engine")]
Prompt = Annotated[
    list[str] | None,
    typer.Option("--prompt", metavar="TEXT", help="Text to go on with; one of them is printed as it is made."),
]
Tokens = Annotated[
    list[str] | None, typer.Option("--tokens", metavar="LIST", help="The same as tokens, such as 1,2,3.")
]
Folder = Annotated[
    Path | None,
    typer.Option("--tokenizer", metavar="FOLDER", help="With tokenizer.json; the weights' folder otherwise."),
]
Most = Annotated[int, typer.Option("--max-tokens", metavar="COUNT", help="The most tokens that follow a prompt.")]
Temperature = Annotated[float, typer.Option("--temperature", metavar="T", help="0 takes the likeliest token.")]
TopK = Annotated[int | None, typer.Option("--top-k", metavar="COUNT", help="Draw of so many tokens alone.")]
TopP = Annotated[float, typer.Option("--top-p", metavar="P", help="Draw of the likeliest that have this probability.")]
Stop = Annotated[
    list[int] | None, typer.Option("--stop", metavar="TOKEN", help="Ends a text, instead of the checkpoint's own.")
]
Check = Annotated[bool, typer.Option("--check", help="Compare the likeliest tokens with transformers', instead.")]
Seed = Annotated[int, typer.Option("--seed", metavar="NUMBER", help="Of what is drawn.")]


@app.command()
@command
def generate(
    out: Output,
    network: Target,
    lowerings: Lowerings,
    definition: Definition,
    set_: Settings = None,
    prompt: Prompt = None,
    tokens: Tokens = None,
    tokenizer: Folder = None,
    max_tokens: Most = 64,
    temperature: Temperature = 0.0,
    top_k: TopK = None,
    top_p: TopP = 1.0,
    stop: Stop = None,
    seed: Seed = 0,
    check: Check = False,
) -> None:
    """Generate text with a network like networks/llama.py, interpreted on the CPU, or with its engine on a GPU."""
    prompts = [*(prompt or ()), *map(_tokens_of, tokens or ())]
    if check:
        if prompt or stop or temperature:
            raise UsageError("--check takes --tokens and --max-tokens alone, and random prompts without the former")
        how = {name: definition[name] for name in ("weights", "dims", "precision", "backend")}
        spec = td.load_spec(network, settings_of(set_)).tuned(lowerings)
        report = td.check_generation(spec, prompts=prompts or None, n=max_tokens, seed=seed, **how)
        out.result(report.to_json(), lambda: print_line(str(report)))
        if not report.passed:
            raise typer.Exit(exit_codes.MISMATCH)
        return
    if not prompts or (prompt and tokens):
        raise UsageError("say what to go on with, by --prompt TEXT or by --tokens 1,2,3")
    if ".py" in Path(network).name:
        spec = replace(td.load_spec(network, settings_of(set_)).tuned(lowerings), reference=None)  # none is asked
        source, weights = spec.define(**definition), spec.open_weights(definition["weights"])
        folder = tokenizer or (None if weights is None else weights.path)
    else:
        source, folder = td.load_engine(network, backend=definition["backend"]), tokenizer
    if prompt and folder is None:
        raise UsageError("a text needs a tokenizer: name its folder by --tokenizer, or give --tokens")
    from ...engine.running.tokenizer import stops_of

    generator = td.Generator(source, folder if prompt else None)
    how = {"max_tokens": max_tokens, "temperature": temperature, "top_k": top_k, "top_p": top_p, "seed": seed}
    how["stop"] = stops_of(folder) if stop is None and folder is not None else stop
    if len(prompts) == 1 and prompt and not out.json and not out.quiet:
        print_pieces(generator.stream_text(prompts[0], **how))
        return
    found = generator(prompts, **how)
    value = {"schema": 1, "kind": "generate", "network": network, "prompts": prompts, "results": found}
    out.result(value, lambda: [print_line(each if prompt else ",".join(map(str, each))) for each in found])


def _tokens_of(text: str) -> list[int]:
    try:
        return [int(each) for each in text.split(",")]
    except ValueError:
        raise UsageError(f"--tokens {text}: expected numbers such as 1,2,3") from None
