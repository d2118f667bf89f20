"""The files that a view can be written to: their formats, and the suffix of each."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import Literal

from ...core.errors import UsageError
from ...core.files.writing import JSON_TEXT, Kind, Output, Reads, check_writable, json_kind, make_folder

Format = Literal["html", "svg", "dot", "json", "onnx-json"]
FORMATS: tuple[str, ...] = ("html", "svg", "dot", "json", "onnx-json")
KINDS = {
    "html": Kind(
        "a page of trtdsl view",
        r'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        r'(<meta name="generator" content="trtdsl">|.{,1000}<style>/\* trtdsl view )',  # the second of earlier versions
    ),
    "svg": Kind(
        "a drawing of trtdsl view",
        r'<svg xmlns="http://www.w3.org/2000/svg" class="canvas" [^>]*><title>[^<]*</title><style>\.canvas text\{',
    ),
    "dot": Kind(
        "a graph of trtdsl view", rf"digraph {JSON_TEXT} \{{\n  rankdir=TB; compound=true;\n  node \[shape=box, "
    ),
    "json": json_kind("a view in JSON", "view"),
    "onnx-json": Kind("a view as ONNX in JSON", r'\s*\{\s*"irVersion":\s*"\d+",\s*"producerName":\s*"trtdsl"'),
}
SUFFIXES = {"html": ".html", "svg": ".svg", "dot": ".dot", "json": ".json", "onnx-json": ".onnx.json"}


def format_of(path: Path) -> Format:
    """The format that a file's suffix stands for; HTML without one. Raises UsageError for one of something else."""
    for format, suffix in sorted(SUFFIXES.items(), key=lambda item: -len(item[1])):
        if path.name.lower().endswith(suffix):
            return format  # type: ignore[return-value]
    if path.suffix.lower() in (".bmp", ".gif", ".jpeg", ".jpg", ".onnx", ".pdf", ".png", ".webp"):
        raise UsageError(f"a view is no {path.suffix}: name {path.stem} with one of {', '.join(SUFFIXES.values())}")
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
