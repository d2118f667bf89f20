"""A first network file for a torch module: `trtdsl port`."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..core.caller import option, to_write
from ..core.cancel import Progress, untold
from ..core.tensors.watched import by_default
from .missing import missing as missing

if TYPE_CHECKING:
    import torch

    from ..core.files.writing import Output
    from ..definition.spec.spec import NetworkSpec
    from ..sizes.profile import Range
    from .given import Given
    from .tracing.trace import Trace
    from .verdict import Verdict
    from .writing.write import File


@dataclass(frozen=True)
class Ported:
    """A ported module: the file's text, and remarks for the caller."""

    text: str
    name: str
    missing: list[str]
    """torch's functions that have no counterpart, one for each place."""
    module: torch.nn.Module
    notes: list[str] = field(default_factory=list)
    """What forward does besides and the network does not."""
    requirements: list[str] = field(default_factory=list)
    """The conditions on its dimensions that the file has from the module, with the module's lines."""
    verdict: Verdict | None = None
    """What a check of the text says; None where it was not asked for."""
    constants: dict[str, torch.Tensor] = field(default_factory=dict)
    """What its weights have besides the module's state_dict."""

    @property
    def weights(self) -> dict[str, torch.Tensor]:
        """The network's weights, as the module has them."""
        from ..definition.spec.reference import state_of

        return {**state_of(self.module), **self.constants}

    @staticmethod
    def of_parts(text: str, names: Sequence[str], parts: Sequence[Ported], why: Sequence[str]) -> Ported:
        """One file of several networks, each for some of the sizes; ``why`` says it of lines of the module."""
        from .verdict import Verdict

        note = (
            f"forward takes paths that are no one program: the file has {len(parts)} networks, each for some of the "
            f"sizes ({', '.join(names)}). trtdsl build writes {parts[0].name}.engines.json beside their engines, by "
            "which td.load_engine runs each set of sizes with the one that serves it"
        )
        kept = [
            [*dict.fromkeys(item for part in parts for item in getattr(part, kind))] for kind in ("missing", "notes")
        ]
        conditions = [f"{each} in {name}" for name, part in zip(names, parts) for each in part.requirements]
        verdicts = [part.verdict for part in parts if part.verdict is not None]
        verdict = Verdict.of_all(names, verdicts) if verdicts else None
        constants = {name: held for part in parts for name, held in part.constants.items()}
        first = parts[0]
        return Ported(text, first.name, kept[0], first.module, [note, *why, *kept[1]], conditions, verdict, constants)

    def remarks(self, file: Path | None, weights: Path | None) -> list[str]:
        """Remarks for the caller, and the next step."""
        count = len(self.missing)
        lines = list(self.notes)
        if count:
            calls = ", ".join(dict.fromkeys(self.missing))
            lines.append(
                f"{count} call{'s have' if count > 1 else ' has'} no counterpart ({calls}): see td.missing in the file"
            )
        if weights is None and "    weights=" in self.text:
            lines.append(
                f"its weights are to be in {self.name}.safetensors: "
                f"{to_write('weights=', '--weights ')}{self.name}.safetensors writes the module's own"
            )
        if "reference=" not in self.text:
            lines.append(
                "it has no reference: give @td.network(reference=…) what makes the module, so that it is checked"
            )
        lines += [f"true at these sizes, and required of all others: {condition}" for condition in self.requirements]
        if self.verdict is not None:
            lines += [self.verdict.text, *(f"it cannot be built here: {reason}" for reason in self.verdict.unbuilt)]
        ready = self.verdict is None or (self.verdict.passed and not self.verdict.unbuilt)
        if file is not None and weights is not None and ready:
            lines.append(f"next: trtdsl {'check' if self.verdict is None else 'build'} {shlex.quote(str(file))}")
        return lines


@by_default
def from_module(
    module: torch.nn.Module,
    inputs: Mapping[str, Any] | Sequence[Any],
    *,
    dims: Mapping[str, Range] | None = None,
    name: str | None = None,
) -> NetworkSpec:
    """The spec of a network that computes what ``module`` does, in evaluation mode and with its weights as they are.

    ``inputs`` are for forward's parameters, in order or by name: example tensors, an :class:`~trtdsl.Input` each, or a
    text as on the command line (``"N,3,224,224"``). An example tensor gives a fixed shape, and a check draws between
    its least and its greatest value. ``dims`` gives the dimensions ranges or fixed sizes. The spec serves as any other:
    ``td.check(spec)``, ``td.build(spec)``.

    Raises what :func:`port` raises.

    >>> spec = td.from_module(torch.nn.Linear(3, 2), [torch.randn(4, 3)])
    >>> td.check(spec).passed
    True
    """
    from . import module as modules

    return modules.spec_of(module, inputs, dict(dims or {}), name)


def outputs_of(
    file: Path | None, weights: Path | None, target: str | type, *, force: bool = False
) -> tuple[Output | None, Output | None]:
    """The files for the text and the weights of ``target``, the module's name or class.

    Raises UsageError for what is there already, unless ``force`` is given, and for the module's own file.
    """
    from ..core.errors import UsageError
    from ..core.files.writing import Kind, check_writable

    own = getattr(sys.modules.get(target.__module__), "__file__", None) if isinstance(target, type) else None
    reads = [("module", target.rpartition(":")[0] if isinstance(target, str) else own)]
    if weights is not None and weights.suffix in (".pt", ".pth", ".bin", ".ckpt"):
        raise UsageError(f"weights are written as safetensors: name them {weights.with_suffix('.safetensors')}")
    made = [
        None if path is None else check_writable(path, Kind("a ported network", "(?!)"), reads, force=True)
        for path in (file, weights)
    ]
    for path in (file, weights):
        if path is not None and os.path.lexists(path) and not force:
            raise UsageError(f"{path} is there already: {option('force')} writes over it")
    return made[0], made[1]


def write_files(result: Ported, file: Path | None, weights: Path | None, *, force: bool = False) -> None:
    """Writes the text and the module's state_dict, both or neither. Raises what :func:`outputs_of` does."""
    from ..core.files.writing import write_all_atomically
    from .checkpoint import as_safetensors

    text, values = outputs_of(file, weights, type(result.module), force=force)
    files = {} if text is None else {text: result.text.encode()}
    if values is not None:
        files[values] = as_safetensors(result.weights)
    write_all_atomically(files)


@by_default
def port(
    target: str | Callable[..., torch.nn.Module] | torch.nn.Module | torch.export.ExportedProgram,
    inputs: Mapping[str, Any] | Sequence[Any],
    *,
    dims: Mapping[str, Range] | None = None,
    arguments: Mapping[str, Any] | None = None,
    name: str | None = None,
    file: str | os.PathLike[str] | None = None,
    weights: str | os.PathLike[str] | None = None,
    outputs: Sequence[str] = (),
) -> str:
    """The text of a network file for the torch module that ``target`` makes.

    ``target`` is ``"MODULE:NAME"``, ``"FILE.py:NAME"`` or something that can be imported: a class, its method
    (``"transformers:AutoModel.from_pretrained"``) or a function, called with ``arguments``. It may also be an
    exported program, or a file ``"FILE.pt2"`` of one, or a module, and then the text names no reference. ``inputs``
    are for forward's parameters, in order or by name, as :func:`from_module` takes them: an :class:`~trtdsl.Input`,
    a text as on the command line (``"N,3,224,224"``, ``"N,T:int64:0:1000"``) or an example tensor each. ``dims``
    gives the dimensions ranges or fixed sizes. ``file`` is where the text will stand and ``weights`` where the
    weights are: paths in the text are relative to the file.
    ``outputs`` names what forward gives, in order; without it they have the names of forward's ``return``.

    Raises UsageError where something is not there or not given, UnsupportedError with the line of the torch module
    where what it does depends on values, DefinitionError with the line where it fails.

    >>> text = td.port("torch.nn:Linear", {"input": "N,3"}, arguments={"in_features": 3, "out_features": 2})
    >>> print(text[text.index("def linear") :])
    def linear(input: td.Tensor, w: td.Scope) -> dict[str, td.Tensor]:
        return {"output": F.linear(input, w.weight, w.bias)}
    <BLANKLINE>
    """
    more: dict[str, Any] = {"arguments": arguments, "name": name, "file": file, "weights": weights, "outputs": outputs}
    return ported(target, inputs, dims=dims, **more).text


@by_default
def ported(
    target: str | Callable[..., torch.nn.Module] | torch.nn.Module | torch.export.ExportedProgram,
    inputs: Mapping[str, Any] | Sequence[Any],
    *,
    dims: Mapping[str, Range] | None = None,
    arguments: Mapping[str, Any] | None = None,
    name: str | None = None,
    file: str | os.PathLike[str] | None = None,
    weights: str | os.PathLike[str] | None = None,
    outputs: Sequence[str] = (),
    check: bool = False,
    progress: Progress | None = None,
) -> Ported:
    """As :func:`port`, with the module, the calls without a counterpart and, with ``check``, the verdict of a check."""
    from ..core.author import at_place, import_path
    from ..core.errors import UsageError
    from .attempts.attempt import Attempt
    from .attempts.remedies import attempted
    from .given import checked_inputs
    from .origin import Origin
    from .tracing.agree import traced_at_all_sizes
    from .verdict import finished
    from .writing.parts import joined, made_in_parts
    from .writing.write import File

    tell, phase = progress or untold, "importing and making the module"
    tell(phase, 0, 1)
    found = Origin.find(target, dict(arguments or {}))
    with import_path(found.folder), at_place():
        module = found.make()
        tell(phase, 1, 1)
        given = checked_inputs(module, inputs, dict(dims or {}))
        for key, each in given.inputs.items():
            if callable(each.sample):
                raise UsageError(
                    f"the sample of input {key!r} is a function, which a text cannot hold: give (low, high), and write "
                    "sample=FUNCTION into the file that is written, or use td.from_module"
                )

        def made(attempt: Attempt) -> list[tuple[File, Ported]]:
            def made_of(given: Given, part: str) -> tuple[File, Ported]:
                written, result = traced_at_all_sizes(
                    attempt.source, given, partial(of, attempt.module, given, part), tell
                )
                constants.update(result.constants)
                return written, result

            return made_in_parts(attempt.given, made_of, why)

        def of(module: torch.nn.Module, given: Given, part: str, trace: Trace) -> tuple[File, Ported]:
            trace.set_constants_apart(constants)
            trace.constants.update(found.drawn(module, trace.weights.values()))
            trace.name_outputs(outputs)
            tell("writing what was traced", 0, 1)
            written = File(found, trace, given, name, file, weights, part)
            text, judged = finished(written.text(), [written], module, checked=check, tell=tell)
            trace.remarks += written.unrolled()
            conditions = [f"{each.text} ({each.place})" for each in trace.requirements]
            more = trace.remarks, conditions, judged, trace.constants
            return written, Ported(text, written.whole, written.missing, module, *more)

        constants: dict[str, torch.Tensor] = {}  # of all parts
        why: list[str] = []
        results, attempt = attempted(made, Attempt(module, given))
        files, parts = zip(*results)
        parts[0].notes[:0] = attempt.remarks
        if len(parts) == 1:
            return parts[0]
        text, _ = finished(joined(files), files, attempt.module, checked=False, tell=tell)
        return Ported.of_parts(text, [each.name for each in files], parts, [*dict.fromkeys(why)])
