"""Writes docs/layers.md: the layers that TensorRT-RTX cannot build without a GPU, and what to write instead.

Run from anywhere, without a GPU: ``python tools/make_layers_doc.py``. Builds an engine for every case of
tests/layers/cases (about half a minute), and fails where one does not do what is announced.
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests"), str(ROOT / "tests" / "layers")]

from layers_page import PAGE, announced, buildable_cases, builds, defined, page  # noqa: E402


def main() -> None:
    for item in buildable_cases():
        builder = defined(item)
        reasons, built = [obstacle.reason for obstacle in announced(builder)], builds(builder)
        if built == bool(reasons):
            raise SystemExit(f"{item} is {'built' if built else 'not built'}, but announced is {reasons or 'nothing'}")
    PAGE.write_text(page())


if __name__ == "__main__":
    main()
