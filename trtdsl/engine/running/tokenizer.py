"""The tokenizer of a published checkpoint's folder."""

from __future__ import annotations

import importlib
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from msgspec import Struct

from ...core.errors import CorruptFileError, UsageError
from ...core.files.names import UNPRINTED, is_file
from ...core.files.reading import LARGEST, Count, as_struct, parse_json, read_file

TOKENIZER = "tokenizer.json"
LARGEST_TOKENIZER = 256 << 20
"""Bytes: that of Gemma 3 has 33 MB."""
CONFIGS = ("generation_config.json", "config.json")
"""Of which the first that names them says with which tokens a text ends."""


class _Ends(Struct, frozen=True):
    eos_token_id: Count | tuple[Count, ...] | None = None


class Tokenizer:
    """Text as tokens, and back; made by :func:`open_tokenizer`."""

    def __init__(self, tokens: Any, stop: frozenset[int]):
        self._tokens, self.stop = tokens, stop

    def encode(self, text: str) -> list[int]:
        """The tokens of a text, with those that the checkpoint begins one with."""
        with _refusing("the text cannot be made tokens", UsageError):
            return self._tokens.encode(text).ids

    def decode(self, tokens: Sequence[int]) -> str:
        """The text of tokens, without special ones."""
        with _refusing("the tokens cannot be made a text", UsageError):
            return self._tokens.decode(list(tokens))


def open_tokenizer(folder: str | os.PathLike[str]) -> Tokenizer:
    """The ``tokenizer.json`` of a checkpoint's folder, with the tokens that end a text from its configuration.

    Raises UsageError for a folder without one and where the package tokenizers is not installed, CorruptFileError for
    a file that is none.
    """
    path = Path(folder) / TOKENIZER
    if not is_file(path):
        raise UsageError(f"{folder} has no {TOKENIZER}: name the folder of a checkpoint that has one, or give tokens")
    try:
        library = importlib.import_module("tokenizers")
    except ImportError:
        raise UsageError("the package tokenizers is not installed: pip install tokenizers") from None
    with _refusing(f"{path} is no tokenizer", CorruptFileError):
        tokens = library.Tokenizer.from_buffer(read_file(path, LARGEST_TOKENIZER))
    return Tokenizer(tokens, _ends(path.parent))


@contextmanager
def _refusing(what: str, kind: type[Exception]) -> Iterator[None]:
    """The library's errors as ours. It has no class of its own for these, and its panics are no Exception."""
    try:
        yield
    except BaseException as error:
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        raise kind(f"{what}: {re.sub(f'[{UNPRINTED}]', '?', str(error)[:200])}") from None


def _ends(folder: Path) -> frozenset[int]:
    for path in (folder / name for name in CONFIGS):
        if is_file(path):
            facts = parse_json(read_file(path, LARGEST), str(path), "configuration", CorruptFileError)
            found = as_struct(facts, _Ends, str(path), CorruptFileError).eos_token_id
            if found is not None:
                return frozenset([found] if isinstance(found, int) else found)
    return frozenset()
