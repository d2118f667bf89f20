"""Stubs: the names in a file of weights as a .pyi, so that an editor completes ``w.layer1[0].conv1.weight``."""

from __future__ import annotations

import keyword
import re
import unicodedata
from collections.abc import Iterator
from os import PathLike
from pathlib import Path

from ..core.errors import UsageError
from ..core.files.writing import Kind, check_writable, write_atomically
from ..definition.weights.source import Scope, Source, Weights
from ..sizes.shape import shape_text

HEAD = '''\
"""The weights of {file}: written by `trtdsl stubs`, for editors and type checkers.

    if TYPE_CHECKING:
        from {module} import {root}

    def network(x: td.Tensor, w: "{root}"): ...
"""

'''
STUB = Kind("a stub of trtdsl", r'"""The weights of [^\n]*: written by `trtdsl stubs`')
ROOT = "Weights"
OWN = {name for name in dir(Scope) if not name.startswith("__")} | {"_network", "_prefix", "_tensors", "_weights"}


def stubs(source: Source, output: str | PathLike[str] | None = None) -> str:
    """A .pyi with a class for each module in a file of weights, the outermost called ``Weights``; its text.

    ``output`` is the file to write it to, whole or not at all. Modules of one structure share a class. Numbered
    modules, and names that are no identifiers, are typed by their index: ``w.blocks[3]``, ``w["down-sample"]``.

    Raises UsageError for an output that no module can be called after, and what :class:`Weights` raises.

    >>> print(stubs({"fc.weight": torch.ones(2, 3)}).partition("import trtdsl as td")[2].strip())
    class Fc(td.Scope):
        weight: td.Tensor
        \"\"\"(2, 3) float32\"\"\"
    <BLANKLINE>
    <BLANKLINE>
    class Weights(td.Scope):
        fc: Fc
    """
    path = None if output is None else Path(output)
    if path is not None and (path.suffix != ".pyi" or not _is_name(path.stem)):
        raise UsageError(
            f"a stub is imported by its name: write it to NAME.pyi where NAME is an identifier, such as "
            f"{_identifier(path.stem)}.pyi, not {path.name}"
        )
    target = None if path is None else check_writable(path, STUB, [("weights", source)])
    weights = Weights(source)
    file = weights.path.name if weights.path is not None else "a mapping"
    head = HEAD.format(
        file=file.replace("\\", "/").replace('"', "'"), module=path.stem if path is not None else "weights", root=ROOT
    )
    body = "".join(f"\n\n{each}" for each in _Classes(weights).texts)
    text = head + _imports(body) + body
    if target is not None:
        write_atomically(target, text.encode())
    return text


class _Classes:
    """The classes of a file's modules, innermost first."""

    def __init__(self, weights: Weights):
        self.weights = weights
        self.names: dict[str, str] = {}
        """By the body of a class, its name."""
        self.taken = {ROOT, "Any", "Literal", "Iterator", "td"}
        body = self._body("")
        self.names[body] = ROOT
        self.texts = [f"class {name}(td.Scope):\n{body}" for body, name in self.names.items()]

    def _type(self, name: str) -> str:
        """The type of a module or a weight; the class of a module is made the first time."""
        if name not in self.weights.children or not name:
            return "td.Tensor" if name in self.weights.shapes else "Any"  # that of a name which begins with a dot
        body = self._body(name)
        if body not in self.names:
            self.names[body] = self._class_name(name)
        return self.names[body]

    def _class_name(self, module: str) -> str:
        """A name that is still free, after the last parts of the module's that are words."""
        words = [_camel(part) for part in module.split(".") if not part.isdecimal()]
        wanted = "".join(words[-1:]) or "Module"
        longer = "".join(words[-2:]) or wanted
        name = wanted if wanted not in self.taken else longer
        number = 2
        while name in self.taken:
            name, number = f"{longer}{number}", number + 1
        self.taken.add(name)
        return name

    def _body(self, module: str) -> str:
        """The attributes and indices of a module's class."""
        lines: list[str] = []
        numbered: dict[int, str] = {}
        quoted: dict[str, str] = {}
        for part in self.weights.children.get(module, ()):
            name = f"{module}.{part}" if module else part
            kind = self._type(name)
            if part.isdecimal() and part.isascii():
                numbered[int(part)] = kind
            elif _is_name(part) and part not in OWN and not part.startswith("__"):
                lines += [f"    {part}: {kind}", *self._note(name)]
            else:
                quoted[part] = kind
        lines += _indices(numbered, quoted)
        return "\n".join(lines or ["    ..."]) + "\n"

    def _note(self, name: str) -> Iterator[str]:
        """Shape and dtype of a weight."""
        if name in self.weights.shapes and name not in self.weights.children:
            yield f'    """{shape_text(self.weights.shapes[name])} {self.weights.dtypes[name]}"""'


def _indices(numbered: dict[int, str], quoted: dict[str, str]) -> list[str]:
    """``__getitem__`` of numbered modules and of names that are no identifiers, and iteration over the former."""
    if not numbered and not quoted:
        return []
    kinds = list(dict.fromkeys(numbered[number] for number in sorted(numbered)))
    union = " | ".join(kinds)
    indices: list[tuple[str, str]] = [(f"Literal[{part!r}]", kind) for part, kind in quoted.items()]
    if len(kinds) > 1:
        indices += [(f"Literal[{number}]", numbered[number]) for number in sorted(numbered)]
    if numbered:
        indices += [("int", union), ("slice", f"list[{union}]")]
    indices.append(("str | int | slice", "Any"))
    lines: list[str] = []
    for key, kind in indices:
        lines += ["    @overload", f"    def __getitem__(self, key: {key}) -> {kind}: ..."]
    if numbered:
        lines.append(f"    def __iter__(self) -> Iterator[{union}]: ...")
    return lines


def _imports(body: str) -> str:
    """The imports of what the classes name."""
    names = [name for name in ("Any", "Literal", "overload") if re.search(rf"\b{name}\b", body)]
    lines = ["from collections.abc import Iterator"] if "Iterator[" in body else []
    lines += [f"from typing import {', '.join(names)}"] if names else []
    return "\n".join([*lines, *([""] if lines else []), "import trtdsl as td"]) + "\n"


def _is_name(text: str) -> bool:
    """Whether ``w.text`` asks for this very name: Python reads some letters as others."""
    return text.isidentifier() and not keyword.iskeyword(text) and unicodedata.normalize("NFKC", text) == text


def _camel(text: str) -> str:
    """``dt_proj`` as DtProj."""
    name = "".join(word[:1].upper() + word[1:] for word in _identifier(text).split("_"))
    name = unicodedata.normalize("NFKC", name)
    if not name.isidentifier() or keyword.iskeyword(name):
        name = f"_{name}"
    return name if name.isidentifier() else "Module"


def _identifier(text: str) -> str:
    """A text with what no identifier has made underscores."""
    plain = "".join(mark if f"a{mark}".isidentifier() else "_" for mark in unicodedata.normalize("NFKC", text))
    return plain if plain.isidentifier() else f"_{plain}"
