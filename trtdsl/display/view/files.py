"""The files that a view can be written to: their formats, and the suffix of each."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from ...core.errors import UsageError
from ...core.files import check_writable

Format = Literal["html", "svg", "dot", "json", "onnx-json"]
FORMATS: tuple[str, ...] = ("html", "svg", "dot", "json", "onnx-json")
SUFFIXES = {"html": ".html", "svg": ".svg", "dot": ".dot", "json": ".json", "onnx-json": ".onnx.json"}


def format_of(path: Path) -> Format:
    """The format that a file's suffix stands for; HTML for any other."""
    for format, suffix in sorted(SUFFIXES.items(), key=lambda item: -len(item[1])):
        if path.name.lower().endswith(suffix):
            return format  # type: ignore[return-value]
    return "html"


def check_output(path: Path) -> None:
    """Makes a file's folder where there is none. Raises UsageError for a file that cannot be written."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"cannot write {path}: cannot make the folder {path.parent}: {error.strerror}") from None
    check_writable(path)
