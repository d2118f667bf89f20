"""Results as people read them on a terminal: checks, builds, benchmarks, facts."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..core.errors import several
from ..programs.devices import LEFT_OUT
from ..sizes.profile import sizes_text
from .table import make_table
from .terminal import print_error, print_line, print_parts, shortened, table_width, terminal

if TYPE_CHECKING:
    from ..building.advise import Advice
    from ..building.batch import Outcome
    from ..building.build import Build
    from ..building.find_precision import PrecisionReport
    from ..building.tune import TuneReport
    from ..checking.locate import CallReport
    from ..checking.losses import Loss
    from ..checking.mutation.mutate import MutationReport
    from ..checking.report import CheckReport
    from ..engine.bench import BenchReport
    from ..engine.running.compare_runs import RunComparison
    from ..programs.compare import Comparison
    from .summary import Summary


UNTRIED = 4  # the most lines on what a tuning had no time for, without -v
ALL = "all"  # of --depth: nothing is folded
UNPROVEN = 6  # the most lines on what is not proven, without -v


def print_check(report: CheckReport, *, verbose: bool = False) -> None:
    """A row per output with its worst case (every case with ``verbose``), what differs, what is not proven, verdict."""
    from rich.text import Text

    rows = []
    worst = [(case, output) for case, output in report.worst().values()]
    every = [(case, output) for case in report.cases for output in case.outputs]
    for case, output in every if verbose else worst:
        verdict = Text("equal", "green") if output.passed else Text("differs", "red")
        numbers = ("", "")
        if output.problem is None:
            numbers = (f"{output.max_abs / output.scale:.1e}" if output.scale else "0", f"{output.ratio:.2g}")
        shape = "×".join(map(str, output.shape)) or "scalar"
        at = " ".join(f"{name}={size}" for name, size in case.dims.items())
        rows.append((verdict, at, "" if case.draw == "normal" else case.draw, output.name, shape, *numbers))
    head = ("", "at" if verbose else "worst at", "fed", "output", "shape", "error", "of limit")
    terminal().print(make_table(head, rows, numbers=head[-2:]))
    print_parts(report.problems())
    print_parts(f"relaxed: {line}" for line in report.relaxed)
    _print_unproven(report.unproven, len(report.unproven) if verbose else UNPROVEN, "-v prints them")
    sizes = "; ".join(sizes_text(point) for point in report.sizes if point)
    print_line(f"tried: {sizes or 'the one shape'}, with {report.values}")
    print_verdict(report)


def _print_unproven(lines: Sequence[str], most: int, rest: str) -> None:
    """What is not proven, of which ``rest`` says where the lines above ``most`` are."""
    print_parts(f"not proven: {shortened(line)}" for line in lines[:most])
    if len(lines) > most:
        print_line(f"not proven: {len(lines) - most} more ({rest})")


def print_verdict(report: CheckReport) -> None:
    """Whether a network equals its reference, and which cases were tried."""
    terminal().print(f"{report.network} ({report.backend}) {report.verdict}. {report.statement}")


def print_calls(report: CallReport) -> None:
    """The first call that differs and the last that agrees, in one line."""
    if report.difference is not None:
        print_line(f"first call that differs: {report.difference}")
    else:
        modules = f"{len(report.modules)} of {len(report.modules) + len(report.absent_modules)} submodules"
        counts = f"{report.agreed} of torch's calls and {modules} have their result in the network"
        print_line(f"no call differs: {counts}, {report.absent} calls need not")


def print_mutation(report: MutationReport, *, verbose: bool = False) -> None:
    """The changes that a check would not see, one a line; with ``verbose`` also those that cannot be seen, and why."""
    print_parts(f"not seen, {survivor.reason}: {survivor}" for survivor in report.survivors)
    if verbose:
        print_parts(f"equivalent, since {equivalent.reason}: {equivalent}" for equivalent in report.equivalent)
    if report.mutants < report.possible:
        print_line(f"tried {report.mutants} of {report.possible} changes, evenly spread over the network")
    print_line(
        f"{report.network}: the check sees {report.caught} of {report.decidable} changes ({report.score:.1%}); "
        f"{len(report.equivalent)} more are equivalent"
    )


def print_summary(summary: Summary, *, depth: int | None = None, sort: str = "order") -> None:
    """A row per layer or module, the totals, and what is lowered otherwise because this TensorRT lacks a layer."""
    print_line(f"{summary.network} ({summary.backend}){summary.at}")
    table = summary.layout(below=os.getcwd() + os.sep, depth=depth, sort=sort, width=table_width())
    terminal().print(table)
    if table.row_count < len(summary.layers):
        print_line(f"modules are folded: --depth N unfolds N names of each, --depth {ALL} every layer")
    print_parts(summary.fallbacks)


def print_passes(summary: Summary) -> None:
    """A row for each of the author's lines and what a pass did there."""
    if summary.passes:
        terminal().print(summary.passes_layout(width=table_width()))
    else:
        print_line(f"{summary.network}: no pass found anything to do")


def print_comparison(comparison: Comparison) -> None:
    """The figures of two programs side by side, and the ten lines whose bytes differ most."""
    from .program import comparison_tables

    print_line(f"A: {comparison.before}")
    print_line(f"B: {comparison.after}")
    print_parts(comparison_tables(comparison))
    print_line(f"floor: {LEFT_OUT}")


def print_runs(found: RunComparison) -> None:
    """A row for each output of two evaluated engines, whether they give the same, and where they part."""
    rows = []
    for each in found.outputs:
        verdict = "equal" if each.equal else "differs"
        rows.append((verdict, each.name, f"{each.greatest:.2e}", f"{each.scale:.2e}", f"{each.differ:,}"))
    print_line(f"A: {found.before}")
    print_line(f"B: {found.after}")
    head = ("", "output", "greatest difference", "greatest value", "elements not the same")
    terminal().print(make_table(head, rows, numbers=head[2:]))
    if found.equal:
        print_line(f"both give the same, within {found.room:g} of an output's greatest value")
    elif found.parting is None:
        print_line("they differ, and no single launch of B differs from those of A at its lines")
    else:
        print_line(f"they differ: the first launch of B that no launch of A equals is {found.parting}")


def print_tuning(report: TuneReport, *, verbose: bool = False) -> None:
    """A line for each change that was kept, the totals, and what there was no time for; with ``verbose`` all of it."""
    from .program import figures_text

    calls = several(report.calls, "call")
    engines = "1 engine was" if report.builds == 1 else f"{report.builds} engines were"
    print_line(f"{report.network}: {calls} can be lowered in several ways; {engines} built in {report.seconds:.1f} s")
    for change in report.changes:
        calls = f"{change.function} ×{change.calls}" if change.calls > 1 else change.function
        print_line(
            f"  {', '.join(change.places)}: {calls}: {change.before} → {change.after}: {figures_text(*change.figures)}"
        )
    print_line(f"  in all: {figures_text(report.before, report.after)}, of the floor on {report.device}")
    shown = report.untried if verbose else report.untried[:UNTRIED]
    print_parts(f"  no time for {text}" for text in shown)
    if len(shown) < len(report.untried):
        print_line(f"  no time for {len(report.untried) - len(shown)} more (-v prints them)")
    for text in report.skipped if verbose else ():
        print_line(f"  not possible: {text}")
    print_line(
        f"  written to {shortened(report.file)}"
        if report.file
        else "  the default lowerings are the best that were found"
    )


def print_advice(advice: Advice, *, verbose: bool = False) -> None:
    """The diff, what each edit wins, other hazards, whether it was written; with ``verbose`` what was tried in vain."""
    from .program import figures_text, megabytes

    print_parts(advice.diff.splitlines())
    for edit in advice.edits:
        memory = f"{megabytes(edit.before.memory)} → {megabytes(edit.after.memory)} of activations"
        print_line(f"{shortened(edit.line)}: {edit.name}: {figures_text(edit.before, edit.after)}, {memory}")
    if not advice.edits:
        tried = f"; {len(advice.skipped)} tried in vain" if advice.skipped else ""
        print_line(f"{advice.network}: no edit of {shortened(advice.file)} is known that wins anything{tried}")
    for text in advice.skipped if verbose or not advice.edits else ():
        print_line(f"  {shortened(text)}")
    if advice.hazards:
        print_parts(["hazards without an edit:", *(f"  {hazard}" for hazard in advice.hazards)])
    if advice.check is not None:
        print_check(advice.check)
        print_line(f"{shortened(advice.file)} was {'written' if advice.written else 'left as it is'}")
    elif advice.edits:
        print_line("next: the same with --write checks the changed network, and then writes the file")


def print_losses(losses: Sequence[Loss]) -> None:
    """The calls that lose most of a network whose calls have a precision each."""
    if losses:
        print_parts(["calls that lose most precision:", *(f"  {each}" for each in losses)])


def print_precision(report: PrecisionReport) -> None:
    """A table of the author's lines, the figures of the programs, and what is to be known of both."""
    from .program import megabytes

    def db(value: float | None) -> str:
        return "" if value is None else f"{value:.1f} dB"

    rows = [
        [
            line.line, _counted(line.calls) or "no call", ", ".join(line.dtypes), db(line.decibels),
            f"{line.greatest:.3g}" if line.calls else "", str(line.launches), megabytes(line.bytes),
            f"{line.won * 1e6:.1f}",
        ]
        for line in report.lines
    ]  # fmt: skip
    head = ["line", "calls", "dtypes", "own SQNR", "greatest", "launches", "bytes", "µs won"]
    width = terminal().width
    cut, drop = ("line", "calls"), ("greatest", "launches", "bytes")
    print_parts([make_table(head, rows, numbers=head[3:], width=width, drop=drop, cut=cut)])
    for name, figures in report.figures.items():
        quality = ", ".join(f"{output} {value:.1f} dB" for output, value in report.decibels[name].items())
        floor = f"{figures.floor_seconds * 1e3:.3g} ms on {report.device} (estimate)"
        print_line(
            f"{name}: {quality}; {figures.launches} launches, {megabytes(figures.bytes)} moved, at least {floor}"
        )
    print_parts(f"note: {note}" for note in report.notes)
    samples = f"{several(report.samples, 'sample')} of {report.data}"
    print_line(f"{samples}, {report.evaluations} evaluations in {report.seconds:.1f} s")
    print_line(f"written to {shortened(report.file)}")


def _counted(names: Sequence[str]) -> str:
    """Each name once, with how often it is there."""
    return ", ".join(name if (n := names.count(name)) == 1 else f"{name} ×{n}" for name in dict.fromkeys(names))


def print_build(result: Build, seconds: float, *, dry_run: bool, verbose: bool) -> None:
    """The results of a build that took so many seconds in all, in a few lines."""
    from .engine import checked_line, interface_lines

    manifest = result.manifest
    if verbose and result.report is not None:
        print_check(result.report, verbose=True)
    layers = several(manifest["layers"], "layer")
    if dry_run:
        print_line(f"dry run: {result.engine} would be built from {layers}; nothing was written")
    elif result.built:
        backend, took = (
            manifest["backend"],
            f"in {seconds:.0f} s, of which TensorRT took {manifest['build_seconds']:.2f} s",
        )
        print_line(
            f"{result.engine}: {manifest['precision']}, {manifest['engine']['bytes']:,} bytes from {layers} {took} "
            f"({backend['name']} {backend['version']}, "
            f"compute capability {', '.join(manifest['compute_capabilities'])})"
        )
    else:
        print_line(
            f"{result.engine} is up to date: nothing that it is built from has changed (--force builds it again)"
        )
    print_parts(interface_lines(manifest))
    tuning = manifest.get("tuning")
    if tuning is not None:
        calls = several(tuning["calls"], "call")
        tuned = f"lowerings of {len(tuning.get('changed', ()))} of {calls} by {tuning['file']}"
        print_line(f"  {tuned if tuning['file'] else 'not tuned: ' + tuning['unused']}")
    print_parts(f"  {text}" for text in manifest.get("fallbacks", ()))
    if "program" in manifest:
        from .program import program_line

        print_line(f"  {program_line(manifest['program'])}")
    checked = manifest["check"]
    if checked["done"]:
        print_line(f"{checked_line(checked)}. {checked['statement']}")
        print_parts(f"relaxed: {line}" for line in checked.get("relaxed", ()))
        _print_unproven(checked.get("unproven", ()), 2, f"`trtdsl inspect {result.engine}` lists them")
    else:
        earlier = " (an earlier check passed, and nothing that it depends on has changed)" * ("earlier" in checked)
        print_line(f"not checked against torch: {checked['reason']}{earlier}")
    if result.built:
        engine = shlex.quote(str(result.engine))
        print_line(f"next: `trtdsl inspect --program {engine}` lists its launches, `trtdsl view {engine}` draws them")


def print_outputs(paths: Mapping[str, Path], shapes: Mapping[str, Sequence[int | str]]) -> None:
    """The files of a run's outputs, with dtypes and sizes; ``shapes`` has the names of dynamic ones."""
    import numpy as np

    for name, path in paths.items():
        array = np.load(path, mmap_mode="r")
        known = shapes.get(name, ())
        named = known if len(known) == array.ndim else array.shape
        sizes = [f"{n}={size}" if isinstance(n, str) else str(size) for n, size in zip(named, array.shape, strict=True)]
        print_line(f"{path}: {array.dtype} ({', '.join(sizes)})")


def print_outcome(outcome: Outcome, *, quiet: bool) -> None:
    """One of several builds: a line when it is done, what tuning it won, or its error."""
    from ..building.search import Figures
    from .program import figures_text

    if outcome.error is not None:
        print_error(f"{outcome.network}: {outcome.error}")
    elif not quiet:
        size = "" if outcome.bytes is None else f", {outcome.bytes:,} bytes"
        print_line(f"{outcome.network}: {outcome.engine}{size if outcome.built else ' is up to date'}")
        if outcome.tuning is not None:
            before, after = (Figures(**outcome.tuning[name]) for name in ("before", "after"))
            print_line(f"  tuned: {figures_text(before, after)}")


def print_bench(report: BenchReport) -> None:
    """A table with one row for each measurement."""
    rows = []
    for times in report.times:
        numbers = (times.first, times.median, times.mean, times.minimum, times.p90, times.p99)
        rows.append([times.name, *(f"{number:.3f}" for number in numbers), f"{times.variation:.1%}", str(times.runs)])
    head = ("ms", "first run", "median", "mean", "min", "p90", "p99", "variation", "runs")
    terminal().print(make_table(head, rows, numbers=head[1:]))
    at = sizes_text(report.dims)
    print_line(
        f"{report.name}{f' at {at}' * bool(at)} on {report.device} ({report.backend}); transfers apart take "
        f"{report.inputs:.3f} ms in and {report.outputs:.3f} ms out"
    )


def print_facts(facts: dict[str, Any]) -> None:
    """Facts by topic, one line each."""
    for topic, entries in facts.items():
        print_line(f"{topic}:{'' if entries else ' none'}")
        for name, fact in entries.items():
            print_line(f"  {name}: {fact}")
