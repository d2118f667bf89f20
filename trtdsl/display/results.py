"""Results as people read them on a terminal: checks, builds, benchmarks, facts."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from ..programs.devices import LEFT_OUT
from .program import comparison_tables, program_line
from .table import make_table
from .terminal import print_error, print_line, terminal

if TYPE_CHECKING:
    from ..building.batch import Outcome
    from ..building.build import Build
    from ..checking.check import CheckReport
    from ..checking.compare_layers import LayerReport
    from ..engine.bench import BenchReport
    from ..programs.compare import Comparison
    from .summary import Summary


def print_check(report: CheckReport) -> None:
    """A row per output and case, a line for each that differs, and a sentence saying what was compared."""
    from rich.text import Text

    from ..checking.check import describe

    rows, failures = [], []
    for case in report.cases:
        at = " ".join(f"{name}={size}" for name, size in case.dims.items())
        for output in case.outputs:
            verdict = Text("equal", "green") if output.passed else Text("differs", "red")
            numbers = ("", "", "")
            if output.problem is None:
                relative = f"{output.max_abs / output.scale:.2e}" if output.scale else "0"
                noise = "exact" if output.snr_db is None else f"{output.snr_db:.0f} dB"
                numbers = (f"{output.max_abs:.2e}", relative, noise)
            rows.append((verdict, at, output.name, "×".join(map(str, output.shape)) or "scalar", *numbers))
            if not output.passed:
                failures.append(f"output {output.name!r}{f' at {at}' * bool(at)}: {describe(output)}")
    head = ("", "at", "output", "shape", "max abs", "of scale", "SNR")
    terminal().print(make_table(head, rows, numbers=head[-3:]))
    for failure in failures:
        print_line(failure)
    verdict = "equals its torch reference" if report.passed else "DIFFERS from its torch reference"
    terminal().print(f"{report.network} ({report.backend}) {verdict}. {report.statement}")


def print_layers(report: LayerReport) -> None:
    """Where a network and its reference part, in one line."""
    if report.difference is not None:
        print_line(f"first difference: {report.difference}")
    else:
        total = len(report.agreed) + len(report.absent)
        print_line(f"{len(report.agreed)} of {total} submodules have their output in the network")


def print_summary(summary: Summary) -> None:
    """A row per layer, and the totals."""
    terminal().print(summary.layout(below=os.getcwd() + os.sep))


def print_comparison(comparison: Comparison) -> None:
    """The figures of two programs side by side, and the ten lines whose bytes differ most."""
    print_line(f"A: {comparison.before}")
    print_line(f"B: {comparison.after}")
    for table in comparison_tables(comparison):
        terminal().print(table)
    print_line(f"floor: {LEFT_OUT}")


def print_build(result: Build, *, dry_run: bool, verbose: bool) -> None:
    """What was built, in a few lines."""
    from ..definition.profile import Profile

    manifest = result.manifest
    if verbose and result.report is not None:
        print_check(result.report)
    if dry_run:
        print_line(f"dry run: {result.engine} would be built from {manifest['layers']} layers; nothing was written")
    elif result.built:
        print_line(
            f"{result.engine}: {manifest['engine']['bytes']:,} bytes from {manifest['layers']} layers in "
            f"{manifest['build_seconds']:.2f} s ({manifest['backend']['name']} {manifest['backend']['version']}, "
            f"compute capability {', '.join(manifest['compute_capabilities'])})"
        )
    else:
        print_line(
            f"{result.engine} is up to date: nothing that it is built from has changed (--force builds it again)"
        )
    for kind in ("input", "output"):
        for name, tensor in manifest[f"{kind}s"].items():
            print_line(f"  {kind} {name}: {tensor['dtype']} ({', '.join(map(str, tensor['shape']))})")
    for index, served in enumerate(manifest["profiles"]):
        if served["dims"]:
            print_line(f"  profile {index}: {Profile(**served['dims'])}")
    if "program" in manifest:
        print_line(f"  {program_line(manifest['program'])}")
    checked = manifest["check"]
    if checked["done"]:
        print_line(
            f"checked against torch at {len(checked['cases'])} sizes: greatest error "
            f"{checked['max_relative_to_scale']:.1e} of the output's scale. {checked['statement']}"
        )
    else:
        print_line(f"not checked against torch: {checked['reason']}")


def print_outcome(outcome: Outcome, *, quiet: bool) -> None:
    """One of several builds: a line when it is done, or its error."""
    if outcome.error is not None:
        print_error(f"{outcome.network}: {outcome.error}")
    elif not quiet:
        size = "" if outcome.bytes is None else f", {outcome.bytes:,} bytes"
        print_line(f"{outcome.network}: {outcome.engine}{size if outcome.built else ' is up to date'}")


def print_bench(report: BenchReport) -> None:
    """A table with a row for each thing that was timed."""
    rows = []
    for times in report.times:
        numbers = (times.first, times.median, times.mean, times.minimum, times.p90, times.p99)
        rows.append([times.name, *(f"{number:.3f}" for number in numbers), f"{times.variation:.1%}", str(times.runs)])
    head = ("ms", "first run", "median", "mean", "min", "p90", "p99", "variation", "runs")
    terminal().print(make_table(head, rows, numbers=head[1:]))
    at = ", ".join(f"{name} = {size}" for name, size in report.dims.items())
    print_line(
        f"{report.name}{f' at {at}' * bool(at)} on {report.device} ({report.backend}); transfers apart take "
        f"{report.inputs:.3f} ms in and {report.outputs:.3f} ms out"
    )


def print_facts(facts: dict[str, Any]) -> None:
    """Facts by topic, one line each."""
    for topic, entries in facts.items():
        print_line(f"{topic}:")
        for name, fact in entries.items():
            print_line(f"  {name}: {fact}")
