"""docs/functions.md: what the records' samples came to, written by tools/make_functions_doc.py, read by the tests."""

from __future__ import annotations

import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "functions.md"
ROW = re.compile(
    r"^\| `F\.(\w+)` \| (\d+) \| (\d+)(?: \((\d+) random\))? \| (\d+) \| (\d+) \| (.*?) \| (.*?) \|$", re.M
)


def reason_of(message):
    """A refusal's reason without what belongs to one call or one release: numbers, shapes, versions."""
    message = re.sub(r"tensorrt(-rtx)? [\d.]+", "TensorRT", message.splitlines()[0])
    message = re.sub(
        r"\((?:[\dDH*., ]+)\)|\[[\d, ]+\]|\b\d+\*H\d+|\b[DH]\d+\b|(?<![\w.])-?\d+(?:\.\d+)?\b", "…", message
    )
    return message.replace("|", "\\|")


def row_of(tally):
    return {
        "passed": tally.passed,
        "refused": sum(tally.refused.values()),
        "random": sum(tally.random.values()),
        "dynamic": tally.dynamic_passed,
        "dynamic_refused": sum(tally.dynamic_refused.values()),
        "layers": ", ".join(sorted(tally.layers)) or "none",
        "reasons": "; ".join(
            sorted({reason_of(message) for message in (*tally.refused, *tally.random, *tally.dynamic_refused)})
        ),
    }


def table_of(text):
    """The rows by function."""
    rows = {}
    for name, passed, refused, random, dynamic, dynamic_refused, layers, reasons in ROW.findall(text):
        rows[name] = {
            "passed": int(passed),
            "refused": int(refused),
            "random": int(random or 0),
            "dynamic": int(dynamic),
            "dynamic_refused": int(dynamic_refused),
            "layers": layers,
            "reasons": reasons,
        }
    return rows


def line_of(name, row):
    random = f" ({row['random']} random)" if row["random"] else ""
    return (
        f"| `F.{name}` | {row['passed']} | {row['refused']}{random} | {row['dynamic']} | {row['dynamic_refused']} "
        f"| {row['layers']} | {row['reasons']} |"
    )
