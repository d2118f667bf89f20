"""Writes the table of evaluated layer types into docs/interpreter.md, from the registry.

python tools/coverage.py [--check]
"""

from __future__ import annotations

import inspect
import sys
from pathlib import Path

from trtdsl.core.backend import get_backend
from trtdsl.layers.evaluation import KINDS
from trtdsl.layers.region import REGIONS

DOCUMENT = Path(__file__).resolve().parents[1] / "docs" / "interpreter.md"
BEGIN, END = "<!-- coverage: written by tools/coverage.py -->", "<!-- end of coverage -->"
NOT_EVALUATED = {
    "PLUGIN": "code that is not TensorRT's",
    "DIST_COLLECTIVE": "needs several devices",
}


def row(type: str) -> str:
    """A layer type's line: where it is evaluated, and what its evaluator says of itself."""
    if type in REGIONS:
        prepare, how = REGIONS[type].prepare, f"boundary of a {REGIONS[type].name}"
    elif type in KINDS:
        prepare, how = KINDS[type].prepare, "evaluated"
    else:
        return f"| {type} | no: {NOT_EVALUATED[type]} | | |"
    file = Path(inspect.getsourcefile(inspect.unwrap(prepare)) or "").name
    note = " ".join((inspect.getdoc(prepare) or "").split())
    return f"| {type} | {how} | `layers/{file}` | {note} |"


def table() -> str:
    """The table of all layer types of this version of TensorRT-RTX."""
    types = get_backend("tensorrt-rtx").trt.LayerType.__members__
    lines = ["| layer type | | file | computed and assumed |", "|---|---|---|---|", *map(row, types)]
    return "\n".join(lines)


def updated(text: str) -> str:
    """The document with the table as it should be."""
    head, rest = text.split(BEGIN)
    _, tail = rest.split(END)
    return f"{head}{BEGIN}\n{table()}\n{END}{tail}"


def main() -> int:
    text = DOCUMENT.read_text()
    new = updated(text)
    if "--check" in sys.argv:
        return int(new != text)
    DOCUMENT.write_text(new)
    return 0


if __name__ == "__main__":
    sys.exit(main())
