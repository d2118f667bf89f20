"""`trtdsl check`: is a network equal to its torch reference?"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

import trtdsl as td

from ...core import exit_codes
from ...core.errors import UsageError
from ...core.lazy import torch
from ...core.tensors.memory import keep_freed_memory
from ...display.results import print_calls, print_check, print_losses, print_mutation, print_verdict
from ...display.terminal import print_line
from ..command import Output, command
from ..options import (
    Definition,
    Lowerings,
    NetworkName,
    Settings,
    Texts,
    Tolerances,
    files_of,
    for_each_part,
    option,
    tolerances_of,
)

LOSSES = 5  # calls that lose most


def rule_options(
    sizes: Annotated[Texts, option("auto, quick, all, or sizes such as H=65,N=3 (may be repeated).", "SIZES")] = None,
    feed: Annotated[
        Texts, option("What to feed: a file for each input, or one folder of them.", "NAME=FILE.npy")
    ] = None,
    tolerance: Tolerances = None,
    leave_out: Annotated[Texts, option("An output that only the reference has.", "OUTPUT")] = None,
    trivial: Annotated[Texts, option("An output that may be constant, empty or not finite.", "OUTPUT")] = None,
    save: Annotated[Path | None, option("Keep feeds and the reference's outputs.", "FILE")] = None,
    against: Annotated[Path | None, option("Compare with what --save kept, without the reference.", "FILE")] = None,
) -> dict[str, Any]:
    """The options for what is tried and what counts as equal, as :func:`~trtdsl.check` takes them."""
    return {
        "sizes": sizes[0] if sizes and len(sizes) == 1 else sizes or None,
        "feeds": _feeds(feed),
        "tolerance": tolerances_of(tolerance),
        "leave_out": leave_out or (),
        "trivial": trivial or (),
        "save": save,
        "against": against,
    }


Rules = Annotated[dict[str, Any], rule_options]


@command
def check(
    out: Output,
    network: NetworkName,
    settings: Settings,
    definition: Definition,
    rules: Rules,
    lowerings: Lowerings,
    on: Annotated[str, option("interpreter or program (any machine), engine (a GPU).")] = "interpreter",
    seed: Annotated[int, option("Of the random inputs.")] = 0,
    layers: Annotated[bool, option("Find the first call that differs, its module and lines.")] = False,
    mutate: Annotated[bool, option("Change every weight and layer, one at a time: which change is not seen?")] = False,
    limit: Annotated[int | None, option("Of --mutate: try this many changes, evenly spread.", min=1)] = None,
) -> None:
    """Compare a network with its torch reference at many sizes and values; exit code 1 when it differs.

    With -q the verdict alone is printed.

    Examples:
      trtdsl check net.py
      trtdsl check net.py --sizes N=3 --layers
    """
    if mutate and (on != "interpreter" or rules["feeds"] or rules["against"]):
        raise UsageError(
            "--mutate draws its own feeds and interprets: not with --on program or engine, --feed and --against"
        )
    if limit is not None and not mutate:
        raise UsageError("--limit belongs to --mutate: without it nothing is changed")
    keep_freed_memory()
    keep = {f"--{name.removesuffix('s')}": rules[name] for name in ("feeds", "save", "against")}
    alone = {**keep, "--tuning": isinstance(lowerings, Path)}

    def one(out: Output, spec: td.NetworkSpec) -> None:
        with out.progress() as progress:
            spec = spec.tuned(lowerings)
            weights = spec.open_weights(definition["weights"])  # once: all of them see the same
            defined = spec.define(**{**definition, "weights": weights}, exact=True)
            report = td.check(spec, on=on, weights=weights, seed=seed, network=defined, progress=progress.step, **rules)
            calls = td.locate_call(spec, defined, report, weights) if layers else None
            mutation = None
            if mutate and report.passed:
                given = {key: rules[key] for key in ("sizes", "tolerance", "leave_out")}
                given |= {"network": defined, "limit": limit, "progress": progress.step}
                mutation = td.mutate(spec, weights=weights, seed=seed, **given)
            unbuildable = td.obstacles(defined)
            losses = _losses(spec, defined, rules["feeds"], seed)

        def show() -> None:
            print_check(report, verbose=out.verbose)
            if calls is not None:
                print_calls(calls)
            elif not report.passed and on == "interpreter" and not rules["against"]:  # it compares with the module
                print_line("next: the same with --layers finds the first call that differs")
            print_losses(losses)
            for obstacle in unbuildable:
                print_line(str(obstacle))
            if mutation is not None:
                print_mutation(mutation, verbose=out.verbose)

        parts = {"calls": calls, "mutation": mutation}
        more = {name: None if part is None else part.to_json() for name, part in parts.items()}
        more["losses"] = [asdict(each) for each in losses]
        out.result({**report.to_json(), **more, "unbuildable": [asdict(each) for each in unbuildable]}, show)
        if out.quiet and not out.json:
            print_verdict(report)
        if not report.passed:
            raise typer.Exit(exit_codes.MISMATCH)

    for_each_part(out, network, settings, one, alone)


def _losses(spec: td.NetworkSpec, network: td.Network, feeds: Any, seed: int) -> list[Any]:
    """The calls that lose most, where each has a precision of its own."""
    from ...checking.losses import precision_losses
    from ...interpreter.feeds import given_feeds, make_feeds

    if network.policy is None or network.policy.calls is None:
        return []
    env = network.profiles[0].at("opt") if network.profiles else {}
    generator = torch.Generator().manual_seed(seed)
    fed = make_feeds(spec.inputs, network, env, generator) if feeds is None else given_feeds(network, feeds)[0]
    return precision_losses(network, fed)[:LOSSES]


def _feeds(given: Texts) -> dict[str, str] | str | None:
    """Parses ``--feed``: a folder, or a file for each input."""
    if not given:
        return None
    if len(given) == 1 and "=" not in given[0]:
        return given[0]
    return files_of(given, "--feed", "NAME=FILE.npy, or one folder")
