"""The tokenizer of a published checkpoint's folder."""

from __future__ import annotations

import base64
import importlib
import math
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from ...core.errors import CorruptFileError, UsageError, printed
from ...core.files.names import check_is_file, is_file
from ...core.files.reading import Count, as_struct, read_file, read_json

TOKENIZER = "tokenizer.json"
LARGEST_TOKENIZER = 64 << 20
"""Bytes: that of Gemma 3 has 33 MB."""
LONGEST = 1 << 12
"""Characters or tokens that a tokenizer may make of one: published ones make some ten."""
MOST = 1 << 22
"""Characters of the pieces, and of the added tokens once they are normalized: for each of which the library takes up to
350 bytes. Those of XLM-R have some 2.3 million.
"""
BYTE = re.compile("<0x[0-9A-F]{2}>")
"""How a token is called that is one byte of a character that has none of its own."""
CONFIGS = ("generation_config.json", "config.json")
"""Of which the first that names them says with which tokens a text ends."""


class _Ends(Struct, frozen=True):
    eos_token_id: Count | tuple[Count, ...] | None = None


class _Token(Struct, frozen=True):
    content: str = ""


class _Model(Struct, frozen=True):
    vocab: Any = None


class _Steps(Struct, frozen=True):
    """What a tokenizer's file does to texts: each a step, or several in their order; and what it knows."""

    normalizer: Any = None
    pre_tokenizer: Any = None
    post_processor: Any = None
    decoder: Any = None
    added_tokens: tuple[_Token, ...] = ()
    model: _Model = _Model()

    def check(self) -> None:
        """ValueError where the library would take much more memory than the file has bytes."""
        normalized = _growth(self.normalizer)
        made = normalized * _growth(self.pre_tokenizer) * _growth(self.post_processor)
        if max(made, _growth(self.decoder)) > LONGEST:
            raise ValueError(f"it makes more than {LONGEST:,} characters or tokens of one")
        pieces = self.model.vocab if isinstance(self.model.vocab, list) else ()  # a trie holds these
        known = (
            sum(len(piece) for piece, _ in pieces) + sum(len(each.content) for each in self.added_tokens) * normalized
        )
        if known > MOST:
            raise ValueError(f"its pieces and added tokens have {known:,} characters, of at most {MOST:,}")


class Tokenizer:
    """Text as tokens, and back; made by :func:`open_tokenizer`."""

    def __init__(self, tokens: Any, stop: frozenset[int], label: str):
        self._tokens, self.stop, self._label = tokens, stop, label

    def encode(self, text: str) -> list[int]:
        """The tokens of a text, with those that the checkpoint begins one with. UsageError for one that is no UTF-8."""
        try:
            text.encode()
        except UnicodeEncodeError:
            raise UsageError(f"the text {printed(text)!r:.60} is not UTF-8") from None
        with _refusing(f"{self._label} cannot make tokens of the text", UsageError):
            return self._tokens.encode(text).ids

    def decode(self, tokens: Sequence[int]) -> str:
        """The text of tokens, without special ones."""
        with _refusing(f"{self._label} cannot make a text of the tokens", UsageError):
            return self._tokens.decode(list(tokens))

    def is_open(self, token: int) -> bool:
        """Whether what follows may change the text of a token: a byte, since a run of bytes is decoded as a whole."""
        return BYTE.fullmatch(self._tokens.id_to_token(token) or "") is not None


def open_tokenizer(folder: str | os.PathLike[str]) -> Tokenizer:
    """The ``tokenizer.json`` of a checkpoint's folder, with the tokens that end a text from its configuration.

    A text is neither cut nor filled up, whatever the file says. Raises UsageError for a folder without one and where
    the package tokenizers is not installed, CorruptFileError for a file that is none, or that makes texts much longer.
    """
    path = Path(folder) / TOKENIZER
    check_is_file(path, f"{folder} has no {TOKENIZER}: name the folder of a checkpoint that has one, or give tokens")
    try:
        library = importlib.import_module("tokenizers")
    except ImportError:
        raise UsageError("the package tokenizers is not installed: pip install tokenizers") from None
    with _refusing(f"{path} is no tokenizer", CorruptFileError):
        data = read_file(path, LARGEST_TOKENIZER)
        msgspec.json.decode(data, type=_Steps).check()
        tokens = library.Tokenizer.from_buffer(data)
    tokens.no_truncation()
    tokens.no_padding()
    return Tokenizer(tokens, stops_of(path.parent), str(path))


def _growth(step: Any) -> int:
    """How many characters, or tokens, a step may make of one. ValueError for a table that is not what it says."""
    if not isinstance(step, dict):
        return 1
    lists = ("normalizers", "pretokenizers", "processors", "decoders")
    made = math.prod(math.prod(map(_growth, step[key])) for key in lists if isinstance(step.get(key), list))
    if "precompiled_charsmap" in step:  # the library would make room for as much as its table says
        table = base64.b64decode(str(step["precompiled_charsmap"]))
        size = int.from_bytes(table[:4], "little")
        if not 0 < size <= len(table) - 4:
            raise ValueError("the table of its normalizer is damaged")
        made *= max(map(len, table[4 + size :].split(b"\0"))) or 1
    if isinstance(special := step.get("special_tokens"), dict):  # each piece of the template may be one of these
        made *= max([1, *(len(each["ids"]) for each in special.values())])
    made *= 2 if step.get("type") == "ByteLevel" else 1
    beside = step.get("type") == "Prepend" or "Regex" in (step.get("pattern") or ())  # which may match nothing
    texts = [step[key] for key in ("content", "prepend", "single") if isinstance(step.get(key), (str, list))]
    return made * max([1, *(len(text) + beside for text in texts)])


@contextmanager
def _refusing(what: str, kind: type[Exception]) -> Iterator[None]:
    """The library's errors as ours. It has no class of its own for these, and its panics are no Exception."""
    try:
        yield
    except BaseException as error:
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        reason = str(getattr(error, "strerror", None) or error)[:200]
        raise kind(f"{what}: {printed(reason)}") from None


def stops_of(folder: Path) -> frozenset[int]:
    """The tokens with which a checkpoint ends a text. CorruptFileError for a configuration that is none."""
    for path in (folder / name for name in CONFIGS):
        if is_file(path):
            found = as_struct(
                read_json(path, "configuration", CorruptFileError), _Ends, str(path), CorruptFileError
            ).eos_token_id
            if found is not None:
                return frozenset([found] if isinstance(found, int) else found)
    return frozenset()
