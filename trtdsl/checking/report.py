"""What a check found, and what it did not prove."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from ..core.errors import CorruptFileError, MismatchError, several
from ..core.files.reading import as_struct, check_schema
from ..core.files.writing import finite
from ..core.html import folded, preformatted, table
from ..sizes.profile import sizes_text
from .judging.drawn_weights import OTHER
from .judging.equality import OutputComparison, Tolerance, describe

SCHEMA = 3

Executor = Literal["interpreter", "program", "engine"]
"""What a check evaluates a network on."""


@dataclass(frozen=True)
class Case:
    """The comparison for one set of feeds: its sizes, the kind of values, and the outputs."""

    dims: dict[str, int]
    outputs: list[OutputComparison]
    draw: str = "normal"

    @property
    def passed(self) -> bool:
        return all(output.passed for output in self.outputs)

    @property
    def at(self) -> str:
        """The sizes and the values in words; empty for the one shape and normal values."""
        kind = {"normal": "", OTHER: f"with {OTHER}"}.get(self.draw, f"{self.draw} values")
        return ", ".join(filter(None, (sizes_text(self.dims), kind)))


RAN = {"interpreter": "interpreted", "program": "interpreted and its engine's program evaluated", "engine": "executed"}


@dataclass(frozen=True)
class CheckReport:
    """What :func:`check` found. ``on`` says what was run: the network, its engine's program too, or the engine."""

    network: str
    backend: str
    on: Executor
    cases: list[Case]
    seed: int
    tolerances: dict[str, Tolerance] = field(default_factory=dict)
    """The tolerance of each output."""
    findings: list[str] = field(default_factory=list)
    """What is wrong besides values: outputs that are NaN, empty or constant, weights that nothing depends on."""
    unproven: list[str] = field(default_factory=list)
    """What the check does not prove: choices that no feed reached, what was left out, what was not tried."""
    relaxed: list[str] = field(default_factory=list)
    """Outputs that have more room than by default."""
    of: tuple[str, str | None] = ("", None)
    """Hashes of what was checked: the network as defined, with weights and sizes; its reference, with its imports."""

    @property
    def passed(self) -> bool:
        """Whether every output passed in every case and there is no other failure."""
        return bool(self.cases) and all(case.passed for case in self.cases) and not self.findings

    @property
    def statement(self) -> str:
        """What was compared, in one sentence."""
        if self.on == "engine":
            return "The engine itself was executed on this machine's GPU."
        if self.on == "program":
            both = "The network was interpreted and its engine's program evaluated, both on the CPU"
            return f"{both}: torch, network and program were compared; no engine was executed."
        return "The network was interpreted on the CPU, layer by layer; no engine was executed."

    @property
    def witnesses(self) -> list[str]:
        """Who agrees, where the check passed."""
        agreed = {"interpreter": ["network"], "program": ["network", "engine's program"], "engine": ["engine"]}
        return ["torch", *agreed[self.on]] if self.passed else []

    @property
    def verdict(self) -> str:
        """Whether the network equals its reference, in words."""
        if not self.passed:
            return "DIFFERS from its torch reference"
        return f"equals its torch reference{', within relaxed tolerances' if self.relaxed else ''}"

    def __repr__(self) -> str:
        tried = f"{several(len(self.sizes), 'size')}, with {self.values}"
        head = f"{self.network} {self.verdict}, {RAN[self.on]} at {tried}"
        return f"CheckReport({'; '.join([head, *self.problems()])})"

    def _repr_html_(self) -> str:
        rows = [
            (name, case.at, "equal" if output.passed else "differs", f"{output.max_abs:.3g}", f"{output.ratio:.2g}")
            for name, (case, output) in self.worst().items()
        ]
        lines = {"wrong": self.problems(), "relaxed": self.relaxed, "not proven": self.unproven}
        return folded(
            f"CheckReport({self.network} {self.verdict})",
            preformatted(self.statement),
            table(["output", "worst at", "", "greatest error", "of limit"], rows),
            table(["", ""], [(kind, line) for kind, found in lines.items() for line in found]),
        )

    @property
    def sizes(self) -> list[dict[str, int]]:
        """The sizes that were tried, each once."""
        return [dict(items) for items in dict.fromkeys(tuple(case.dims.items()) for case in self.cases)]

    @property
    def draws(self) -> list[str]:
        """The kinds of values that were fed."""
        return list(dict.fromkeys(case.draw for case in self.cases if case.draw != OTHER))

    @property
    def values(self) -> str:
        """The kinds of values in words, and whether other weights were tried."""
        other = f", and with {OTHER}" * any(case.draw == OTHER for case in self.cases)
        return f"{', '.join(self.draws) or 'no'} values{other}"

    def worst(self) -> dict[str, tuple[Case, OutputComparison]]:
        """For each output, the case in which its error is largest against the allowed error."""
        found: dict[str, tuple[Case, OutputComparison]] = {}
        for case in self.cases:
            for output in case.outputs:
                before = found.get(output.name)
                if before is None or _badness(output) > _badness(before[1]):
                    found[output.name] = case, output
        return found

    def to_json(self) -> dict[str, Any]:
        """Everything as one JSON object."""
        facts = {"passed": self.passed, "statement": self.statement, "sizes": self.sizes, "draws": self.draws}
        return finite({"schema": SCHEMA, "kind": "check", **facts, **asdict(self)})

    @classmethod
    def from_json(cls, facts: Any, label: str = "the report") -> CheckReport:
        """A report from what :meth:`to_json` gave, as ``trtdsl check --json`` prints it.

        Raises CorruptFileError for anything else.
        """
        if not isinstance(facts, dict) or facts.get("kind") != "check":
            raise CorruptFileError(f"{label} is no report of `trtdsl check --json`")
        check_schema(facts, (SCHEMA,), label, CorruptFileError)
        return as_struct(facts, cls, label, CorruptFileError, strict=False)

    def problems(self) -> Iterator[str]:
        """One line for each output that differs, with its worst case, and one for each finding."""
        for name, (case, output) in self.worst().items():
            if not output.passed:
                others = sum(1 for other in self.cases for o in other.outputs if o.name == name and not o.passed) - 1
                more = f" (and in {others} other case{'s' * (others > 1)})" if others else ""
                yield f"output {name!r} differs{f' at {case.at}' * bool(case.at)}: {describe(output)}{more}"
        yield from self.findings

    def raise_for_mismatch(self) -> CheckReport:
        """The report itself; MismatchError naming what differs when it did not pass."""
        for problem in self.problems():
            raise MismatchError(f"{self.network}: {problem}")
        return self


def _badness(output: OutputComparison) -> tuple[bool, bool, float]:
    return not output.passed, output.problem is not None, output.ratio
