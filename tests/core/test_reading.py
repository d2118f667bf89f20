"""Files from outside: what is no regular file, limits, and JSON whose entries are of other types."""

import os
import time
from typing import Annotated

import pytest
from msgspec import Meta, Struct

from trtdsl.core.errors import CorruptFileError
from trtdsl.core.reading import DEEPEST, as_struct, open_regular, parse_json, read_file


class Part(Struct):
    sizes: tuple[Annotated[int, Meta(ge=0)], ...] = ()
    parts: dict[str, "Part"] = {}

    def __post_init__(self):
        if len(self.sizes) > 3:
            raise ValueError("it has more than 3 sizes")


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ([], "expected object, got array"),
        ({"sizes": 3}, "sizes: expected array, got int"),
        ({"sizes": [1, True]}, "sizes[1]: expected int, got bool"),
        ({"sizes": [10**30, -1]}, "sizes[1]: expected int >= 0"),
        ({"parts": {"a": {}, "b": {"sizes": [1.0]}, "c": {"sizes": [1.0]}}}, "parts.b.sizes[0]: expected int"),
        ({"parts": {"a": {"parts": {"x": {}, "y z": {"parts": {"w": 3}}}}}}, "parts.a.parts['y z'].parts.w: expected"),
        ({"parts": {"a": {}, "b": {"parts": {"c": {"sizes": [1] * 4}}}}}, "parts.b.parts.c: it has more than 3 sizes"),
    ],
)
def test_the_entry_that_is_wrong_is_named(facts, words):
    with pytest.raises(CorruptFileError) as caught:
        as_struct(facts, Part, "f.json", CorruptFileError)
    assert caught.value.message.startswith(f"f.json: {words}")


def test_an_entry_is_found_quickly_among_many():
    facts = {"parts": {f"p{i}": {} for i in range(30_000)} | {"last": {"sizes": [None]}}}
    begun = time.monotonic()
    with pytest.raises(CorruptFileError, match=r"parts\.last\.sizes\[0\]: expected int"):
        as_struct(facts, Part, "f", CorruptFileError)
    assert time.monotonic() - begun < 2


@pytest.mark.parametrize(
    "data", [b"", b"{", b"\xff", b"[]", b"3", b"[" * 10**6, b'{"a":' * 10**6, b'{"a": 1' + b"0" * 5000]
)
def test_what_is_no_object(data):
    with pytest.raises(CorruptFileError, match="^f is not"):
        parse_json(data, "f", "report", CorruptFileError)


def test_depth():
    def nested(depth):
        return b'{"a": ' * depth + b"1" + b"}" * depth

    assert parse_json(nested(DEEPEST - 1), "f", "report", CorruptFileError)
    with pytest.raises(CorruptFileError, match="nested more than"):
        parse_json(nested(DEEPEST + 1), "f", "report", CorruptFileError)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes with names")
def test_a_pipe_is_refused_and_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path, "/dev/zero"):
        with pytest.raises(OSError, match="not a regular file|[Dd]irectory"):
            open_regular(path)


def test_names_and_sizes(tmp_path):
    (tmp_path / "f").write_bytes(bytes(1 << 20) + b"x")
    assert len(read_file(tmp_path / "f")) == (1 << 20) + 1
    with pytest.raises(OSError, match="larger than the 1 MiB"):
        read_file(tmp_path / "f", 1 << 20)
    for name in ("a\0b", "", "\ud800"):
        with pytest.raises(OSError):
            read_file(name)
