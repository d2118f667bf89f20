"""The text of a program in a plan of TensorRT-RTX, read into statements without interpreting them.

A text is a sequence of sections, ``header``, ``descriptors``, ``main`` and, where sizes are dynamic, ``shape_main``
and a ``shape_subg NAME`` for each branch::

    main {
     label bb1:
      fully_connected={ name="matmul" output={"y.1" } input={"x.1" "w" } stream=0 trA=false layers="net.py:12" }
    }

A value is a word, a string in quotes (with ``\\"`` and ``\\\\``, and with line breaks as they are) or a record in
braces: fields ``key=value`` and bare items in any order.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from ..core.errors import ProgramDamagedError

DEPTH = 8  # records in records: the deepest that was seen is 4

TOKEN = re.compile(r'\s*(?:(?P<string>"(?:[^"\\]|\\.)*")|(?P<mark>[{}=])|(?P<word>[^\s{}="]+)|(?P<bad>\S))', re.DOTALL)
ESCAPE = re.compile(r"\\(.)", re.DOTALL)


class Quoted(str):
    """A string that stands in quotes: a name, where a bare word may be a number."""

    __slots__ = ()


@dataclass
class Record:
    """The contents of a pair of braces."""

    fields: dict[str, Value] = field(default_factory=dict)
    """A key that comes twice keeps its first value."""
    items: list[Value] = field(default_factory=list)
    repeated: list[tuple[str, Value]] = field(default_factory=list)
    """The further values of a key that comes more than once."""

    def text(self, key: str, default: str = "") -> str:
        """A word or a string."""
        value = self.fields.get(key, default)
        if isinstance(value, Record):
            raise ProgramDamagedError(f"the plan's program has a record where {key} is a word")
        return value

    def records(self, key: str) -> list[Record]:
        """Every record of a key, in order."""
        values = [self.fields.get(key), *(value for name, value in self.repeated if name == key)]
        return [value for value in values if isinstance(value, Record)]

    def number(self, key: str, default: int = 0) -> int:
        """A whole number."""
        return as_number(self.text(key, str(default)), key)

    def texts(self, key: str) -> list[str]:
        """The words and strings in braces; none where the key is missing."""
        value = self.fields.get(key)
        if value is None:
            return []
        if not isinstance(value, Record) or value.fields:
            raise ProgramDamagedError(f"the plan's program has no list of names where {key} is one")
        return [item for item in value.items if isinstance(item, str)]


Value = str | Record
Statement = tuple[str, Record | str]
"""``("label", "bb1")``, ``("function", Record)``; of a header also ``("version", "5")``."""


def as_number(text: str, what: str) -> int:
    """A whole number from a word."""
    try:
        return int(text[:40])
    except ValueError:
        raise ProgramDamagedError(f"the plan's program has {text[:40]!r} where {what} is a number") from None


def read_sections(text: str) -> dict[str, list[Statement]]:
    """The sections by name. Raises ProgramDamagedError where the text does not follow the grammar.

    >>> read_sections('main {\\n label bb1: \\n  add={ stream=0 }\\n}')["main"][0]
    ('label', 'bb1')
    """
    tokens = _tokens(text)
    sections: dict[str, list[Statement]] = {}
    for kind, name in tokens:
        following = next(tokens, None)
        if kind == "word" and following is not None and following[0] == "word":  # "shape_subg subg1", of one branch
            name, following = f"{name} {following[1]}", next(tokens, None)
        if kind != "word" or following != ("mark", "{"):
            raise ProgramDamagedError(f"the plan's program has {name[:40]!r} where a section begins")
        if name in sections:
            raise ProgramDamagedError(f"the plan's program has two sections {name[:40]!r}")
        sections[name] = list(_statements(tokens))
    return sections


def _tokens(text: str) -> Iterator[tuple[str, str]]:
    for match in TOKEN.finditer(text):
        kind = match.lastgroup
        assert kind is not None
        token = match[kind]
        if kind == "bad":
            raise ProgramDamagedError("the plan's program has a string that does not end")
        if kind == "string":
            token = token[1:-1]
            token = ESCAPE.sub(r"\1", token) if "\\" in token else token
        yield kind, token


def _statements(tokens: Iterator[tuple[str, str]]) -> Iterator[Statement]:
    """The statements of a section, to its closing brace."""
    key = None
    for kind, token in tokens:
        if (kind, token) == ("mark", "}"):
            if key is not None:
                raise ProgramDamagedError(f"the plan's program has {key[:40]!r} without a value")
            return
        if key == "label":
            yield "label", token.removesuffix(":")
            key = None
        elif (kind, token) == ("mark", "="):
            if key is None:
                raise ProgramDamagedError("the plan's program has a value without a name")
            value = _value(tokens, 0)
            yield key, value
            key = None
        elif kind != "word" or key is not None:
            raise ProgramDamagedError(f"the plan's program has {token[:40]!r} where a statement begins")
        else:
            key = token
    raise ProgramDamagedError("the plan's program ends in the middle of a section")


def _value(tokens: Iterator[tuple[str, str]], depth: int) -> Value:
    kind, token = next(tokens, ("end", ""))
    if kind == "word":
        return token
    if kind == "string":
        return Quoted(token)
    if (kind, token) == ("mark", "{"):
        return _record(tokens, depth + 1)
    raise ProgramDamagedError("the plan's program has a name without a value")


def _record(tokens: Iterator[tuple[str, str]], depth: int) -> Record:
    if depth > DEPTH:
        raise ProgramDamagedError("the plan's program has records nested too deep")
    record = Record()
    for kind, token in tokens:
        if kind == "mark" and token == "}":
            return record
        if kind == "mark" and token == "{":
            record.items.append(_record(tokens, depth + 1))
        elif kind == "mark":  # "=": the item before it was a key
            key = record.items.pop() if record.items else None
            if not isinstance(key, str) or isinstance(key, Quoted):
                raise ProgramDamagedError("the plan's program has a value without a name")
            value = _value(tokens, depth)
            if key in record.fields:
                record.repeated.append((key, value))
            else:
                record.fields[key] = value
        else:
            record.items.append(Quoted(token) if kind == "string" else token)
    raise ProgramDamagedError("the plan's program ends in the middle of a record")
