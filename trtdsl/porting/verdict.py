"""A port checks itself: the written file is defined and compared with the module that it was written for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ..core import exit_codes
from ..core.cancel import Progress
from ..core.errors import ShapeError, TrtdslError
from .module import defined, written_spec
from .served_range import served_range
from .writing.comments import Shapes

if TYPE_CHECKING:
    import torch

    from ..checking.check import CheckReport
    from ..definition.network import Network
    from ..definition.spec.spec import NetworkSpec
    from .writing.write import File


@dataclass(frozen=True)
class Verdict:
    """The result of checking a ported file: its report, or the reason that there is none."""

    text: str
    """In one line."""
    passed: bool
    exit_code: int
    report: CheckReport | None = None
    unbuilt: tuple[str, ...] = ()
    """Why it cannot be built here."""

    @staticmethod
    def of(reports: Sequence[CheckReport], unbuilt: Iterable[str]) -> Verdict:
        """That of checks that pass."""
        count = sum(len(report.sizes) for report in reports)
        sizes = f"at {count} sets of sizes" if count > 1 else "at its sizes"
        text = f"checked: it equals the module {sizes}"
        return Verdict(text, True, exit_codes.FINE, reports[-1], tuple(dict.fromkeys(unbuilt)))

    @staticmethod
    def of_all(names: Sequence[str], verdicts: Sequence[Verdict]) -> Verdict:
        """That of one file's networks: the first one's that does not pass, or of all."""
        for name, each in zip(names, verdicts):
            if not each.passed:
                return replace(each, text=f"{name}: {each.text}")
        reports = [each.report for each in verdicts if each.report is not None]
        return Verdict.of(reports, (reason for each in verdicts for reason in each.unbuilt))

    def to_json(self) -> dict[str, Any]:
        """Everything as one JSON object."""
        report = self.report.to_json() if self.report is not None else None
        return {"passed": self.passed, "text": self.text, "report": report}


def finished(
    text: str, files: Sequence[File], module: torch.nn.Module, *, checked: bool, tell: Progress
) -> tuple[str, Verdict | None]:
    """The text with its shapes as comments, and, where it is to be checked, what the check of its last network says.

    The text is defined once, with the module's own weights. One that cannot be defined has no comments.
    """
    if any(written.missing for written in files):
        unknown = Verdict("not checked: it cannot be defined before what is missing is written", False, exit_codes.FINE)
        return text, unknown if checked else None
    shapes, phase = Shapes(), "defining what is written"
    tell(phase, 0, 1)
    constants = {path: held for written in files for path, held in written.trace.constants.items()}

    def made(written: File) -> tuple[NetworkSpec, Network]:
        spec = written_spec(written, text, module, constants, shapes.note)
        return spec, defined(spec, written.trace)

    try:
        *_, (spec, network) = map(made, files)
    except TrtdslError as error:
        if any(written.trace.several for written in files):
            raise
        return text, Verdict(f"it cannot be checked: {error}", False, error.exit_code) if checked else None
    tell(phase, 1, 1)
    return shapes.commented(text), _verdict(spec, network, files[-1], tell) if checked else None


def _verdict(spec: NetworkSpec, network: Network, written: File, tell: Progress) -> Verdict:
    from ..building.buildable import obstacles
    from ..checking.check import check

    try:
        report = check(spec, network=network, progress=tell)
    except TrtdslError as error:
        given = written.given
        served = network.constraints.served(given.ranges) if isinstance(error, ShapeError) else None
        ranges = served_range(given, *served) if served is not None else ""
        if ranges and error.context:  # in the place of what an author of a network writes
            error.context[-1] = f"with narrower ranges it holds: {ranges}"
        return Verdict(f"it cannot be checked: {error}", False, error.exit_code)
    for problem in report.problems():
        text = f"it does not pass its check: {problem}"
        for unasked in written.trace.unasked[:1]:
            text += (
                f". {unasked}. Have the module do the same for any number of them, as with a mask of those that count"
            )
        return Verdict(text, False, exit_codes.MISMATCH, report)
    return Verdict.of([report], (each.reason for each in obstacles(network)))
