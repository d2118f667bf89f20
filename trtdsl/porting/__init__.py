"""A first network file for a torch module: `trtdsl port`."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .missing import missing as missing

if TYPE_CHECKING:
    import torch

    from ..definition.network import Input
    from ..definition.profile import Range


@dataclass(frozen=True)
class Ported:
    """A ported module: the file's text, and what the caller should know of it."""

    text: str
    name: str
    missing: list[str]
    """torch's functions that have no counterpart, one for each place."""
    module: torch.nn.Module

    def remarks(self, file: Path | None, weights: Path | None) -> list[str]:
        """What the caller should know, and do next."""
        count = len(self.missing)
        lines = []
        if count:
            calls = ", ".join(dict.fromkeys(self.missing))
            lines.append(
                f"{count} call{'s have' if count > 1 else ' has'} no counterpart ({calls}): see td.missing in the file"
            )
        if weights is None and self.module.state_dict():
            lines.append(
                f"its weights are to be in {self.name}.safetensors: "
                f"--weights {self.name}.safetensors writes the module's own"
            )
        if file is not None and weights is not None:
            lines.append(f"next: trtdsl check {file}")
        return lines


def write_files(result: Ported, file: Path | None, weights: Path | None, *, force: bool = False) -> None:
    """Writes the text and the module's state_dict, both or neither. Raises UsageError for what is there already."""
    from ..core.errors import UsageError
    from ..core.files import check_writable, write_all_atomically
    from ..definition.weights import as_safetensors

    files: dict[Any, bytes] = {}
    for path in (file, weights):
        if path is not None and check_writable(path).exists() and not force:
            raise UsageError(f"{path} is there already: --force writes over it")
    if file is not None:
        files[file] = result.text.encode()
    if weights is not None:
        files[weights] = as_safetensors(result.module.state_dict())
    if files:
        write_all_atomically(files)


def port(
    target: str | Callable[..., torch.nn.Module],
    inputs: Mapping[str, Input | str],
    *,
    dims: Mapping[str, Range] | None = None,
    arguments: Mapping[str, Any] | None = None,
    name: str | None = None,
    file: str | os.PathLike[str] | None = None,
    weights: str | os.PathLike[str] | None = None,
) -> str:
    """The text of a network file for the torch module that ``target`` makes.

    ``target`` is ``"MODULE:NAME"``, ``"FILE.py:NAME"`` or something that can be imported: a class or a function, called
    with ``arguments``. ``inputs`` has an :class:`~trtdsl.Input` or a text as on the command line (``"N,3,224,224"``,
    ``"N,T:int64:0:1000"``) for parameters of forward. ``dims`` gives the dimensions ranges or fixed sizes. ``file`` is
    where the text will stand and ``weights`` where the weights are: paths in the text are relative to the file.

    Raises UsageError where something is not there or not given, UnsupportedError with the line of the torch module
    where what it does depends on values, DefinitionError with the line where it fails.

    >>> text = td.port("torch.nn:Linear", {"input": "N,3"}, arguments={"in_features": 3, "out_features": 2})
    >>> print(text[text.index("def linear") :])
    def linear(input, w):
        return {"output": F.linear(input, w.weight, w.bias)}
    <BLANKLINE>
    """
    return ported(target, inputs, dims=dims, arguments=arguments, name=name, file=file, weights=weights).text


def ported(
    target: str | Callable[..., torch.nn.Module],
    inputs: Mapping[str, Input | str],
    *,
    dims: Mapping[str, Range] | None = None,
    arguments: Mapping[str, Any] | None = None,
    name: str | None = None,
    file: str | os.PathLike[str] | None = None,
    weights: str | os.PathLike[str] | None = None,
) -> Ported:
    """As :func:`port`, with the module and what has no counterpart."""
    from .agree import traced_at_all_sizes
    from .given import checked_inputs
    from .origin import Origin
    from .write import File

    found = Origin.find(target, dict(arguments or {}))
    module = found.make()
    given = checked_inputs(module, inputs, dict(dims or {}))
    trace = traced_at_all_sizes(module, given)
    written = File(found, trace, given, name, file, weights)
    return Ported(written.text(), written.name, written.missing, module)
