"""tools/bench/evaluated.py: what its table says of an engine."""

import sys
from pathlib import Path

from trtdsl.core.author import load_module

TOOLS = Path(__file__).parents[2] / "tools"


def test_a_row_says_whether_engine_and_interpreter_agree(monkeypatch):
    monkeypatch.setattr(sys, "path", [*sys.path])
    evaluated = load_module(TOOLS / "bench" / "evaluated.py")
    row = {"sizes": {"N": 2}, "launches": 3, "error": 0.5, "scale": 1.0, "equal": True, "seconds": 0.25}
    rows = [row, row | {"equal": False}, row | {"error": 1e-6}, {"refused": "UnevaluatedProgramError: topk"}]
    lines = evaluated.table([("net", "fp16", each) for each in rows]).splitlines()[2:]
    said = [
        "by its parts: rounding changes what is selected",
        "**not equal**",
        "| equal | 1.0e-06 | 1 | 0.2 |",
        "| UnevaluatedProgramError: topk |",
    ]
    assert all(word in line for word, line in zip(said, lines, strict=True))
