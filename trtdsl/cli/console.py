"""What the command line prints: progress and results on stderr and stdout."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

from ..display.table import make_table

if TYPE_CHECKING:
    from ..building.batch import Outcome
    from ..building.build import Build
    from ..checking.check import CheckReport
    from ..checking.compare_layers import LayerReport
    from ..display.summary import Summary
    from ..engine.bench import BenchReport


def say(text: str) -> None:
    """One line on stdout."""
    _console().print(text, highlight=False, markup=False, soft_wrap=True)


def remark(text: str) -> None:
    """A line on stderr that is no error."""
    _console(stderr=True).print(text, highlight=False, markup=False, soft_wrap=True)


def complain(text: str) -> None:
    """An error on stderr."""
    from rich.text import Text

    _console(stderr=True).print(Text.assemble(("error: ", "bold red"), text), soft_wrap=True)


def _console(*, stderr: bool = False) -> Any:
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() or "COLUMNS" in os.environ else 500  # what is piped is not wrapped
    # Without emoji: the range 1:100:200 is text.
    return Console(stderr=stderr, highlight=False, emoji=False, width=width)


class Progress:
    """A bar on a terminal, one plain line per phase elsewhere, nothing when silent; always on stderr."""

    def __init__(self, silent: bool):
        self.silent = silent
        self._bar: Any = None
        self._tasks: dict[str, Any] = {}
        self._last = ""

    def __enter__(self) -> Progress:
        if not self.silent and sys.stderr.isatty():
            from rich.progress import BarColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
            from rich.progress import Progress as Bar

            columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
            self._bar = Bar(*columns, console=_console(stderr=True), transient=True)
            self._bar.start()
        return self

    def step(self, phase: str, done: int, total: int) -> None:
        """``done`` of ``total`` steps of a phase; phases nest, and the innermost is shown."""
        if self._bar is not None:
            if phase not in self._tasks:
                self._tasks[phase] = self._bar.add_task(phase, total=total)
            self._bar.update(self._tasks[phase], completed=done, total=total)
            if done >= total:
                self._bar.remove_task(self._tasks.pop(phase))
        elif not self.silent and phase != self._last and done == 0:
            self._last = phase
            print(phase, file=sys.stderr, flush=True)

    def stop(self) -> None:
        """Clears the bar, so that results can be printed."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def __exit__(self, *error: object) -> None:
        self.stop()


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
    _console().print(make_table(head, rows, numbers=head[-3:]))
    for failure in failures:
        say(failure)
    verdict = "equals its torch reference" if report.passed else "DIFFERS from its torch reference"
    _console().print(f"{report.network} ({report.backend}) {verdict}. {report.statement}")


def print_layers(report: LayerReport) -> None:
    """Where a network and its reference part, in one line."""
    if report.difference is not None:
        say(f"first difference: {report.difference}")
    else:
        total = len(report.agreed) + len(report.absent)
        say(f"{len(report.agreed)} of {total} submodules have their output in the network")


def print_summary(summary: Summary) -> None:
    """A row per layer, and the totals."""
    _console().print(summary.layout(below=os.getcwd() + os.sep))


def print_build(result: Build, *, dry_run: bool, verbose: bool) -> None:
    """What was built, in a few lines."""
    from ..definition.profile import Profile

    manifest = result.manifest
    if verbose and result.report is not None:
        print_check(result.report)
    if dry_run:
        say(f"dry run: {result.engine} would be built from {manifest['layers']} layers; nothing was written")
    elif result.built:
        say(
            f"{result.engine}: {manifest['engine']['bytes']:,} bytes from {manifest['layers']} layers in "
            f"{manifest['build_seconds']:.2f} s ({manifest['backend']['name']} {manifest['backend']['version']}, "
            f"compute capability {', '.join(manifest['compute_capabilities'])})"
        )
    else:
        say(f"{result.engine} is up to date: nothing that it is built from has changed (--force builds it again)")
    for kind in ("input", "output"):
        for name, tensor in manifest[f"{kind}s"].items():
            say(f"  {kind} {name}: {tensor['dtype']} ({', '.join(map(str, tensor['shape']))})")
    for index, served in enumerate(manifest["profiles"]):
        if served["dims"]:
            say(f"  profile {index}: {Profile(**served['dims'])}")
    checked = manifest["check"]
    if checked["done"]:
        say(
            f"checked against torch at {len(checked['cases'])} sizes: greatest error "
            f"{checked['max_relative_to_scale']:.1e} of the output's scale. {checked['statement']}"
        )
    else:
        say(f"not checked against torch: {checked['reason']}")


def print_outcome(outcome: Outcome, *, quiet: bool) -> None:
    """One of several builds: a line when it is done, or its error."""
    if outcome.error is not None:
        complain(f"{outcome.network}: {outcome.error}")
    elif not quiet:
        size = "" if outcome.bytes is None else f", {outcome.bytes:,} bytes"
        say(f"{outcome.network}: {outcome.engine}{size if outcome.built else ' is up to date'}")


def print_bench(report: BenchReport) -> None:
    """A table with a row for each thing that was timed."""
    rows = []
    for times in report.times:
        numbers = (times.first, times.median, times.mean, times.minimum, times.p90, times.p99)
        rows.append([times.name, *(f"{number:.3f}" for number in numbers), f"{times.variation:.1%}", str(times.runs)])
    head = ("ms", "first run", "median", "mean", "min", "p90", "p99", "variation", "runs")
    _console().print(make_table(head, rows, numbers=head[1:]))
    at = ", ".join(f"{name} = {size}" for name, size in report.dims.items())
    say(
        f"{report.name}{f' at {at}' * bool(at)} on {report.device} ({report.backend}); transfers apart take "
        f"{report.inputs:.3f} ms in and {report.outputs:.3f} ms out"
    )


def print_facts(facts: dict[str, Any]) -> None:
    """Facts by topic, one line each."""
    for topic, entries in facts.items():
        say(f"{topic}:")
        for name, fact in entries.items():
            say(f"  {name}: {fact}")
