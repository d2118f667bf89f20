"""The files that a view can be written to: their formats, and the suffix of each."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import Literal

from ...core.errors import UsageError
from ...core.files import DOT, HTML, ONNX_JSON, SVG, VIEW, Output, Reads, check_writable, make_folder

Format = Literal["html", "svg", "dot", "json", "onnx-json"]
FORMATS: tuple[str, ...] = ("html", "svg", "dot", "json", "onnx-json")
KINDS = {"html": HTML, "svg": SVG, "dot": DOT, "json": VIEW, "onnx-json": ONNX_JSON}
SUFFIXES = {"html": ".html", "svg": ".svg", "dot": ".dot", "json": ".json", "onnx-json": ".onnx.json"}


def format_of(path: Path) -> Format:
    """The format that a file's suffix stands for; HTML for any other."""
    for format, suffix in sorted(SUFFIXES.items(), key=lambda item: -len(item[1])):
        if path.name.lower().endswith(suffix):
            return format  # type: ignore[return-value]
    return "html"


def check_format(format: str) -> None:
    """UsageError for a format that there is not."""
    if format not in FORMATS:
        raise UsageError(f"the format is one of {', '.join(FORMATS)}, not {format!r}")


def output_of(path: str | PathLike[str], format: Format, reads: Reads) -> Output:
    """The file, and its folder where there is none. Raises UsageError for a file that cannot be written."""
    check_format(format)
    make_folder(Path(path).parent)
    return check_writable(path, KINDS[format], reads)
