"""tools/bench/pages.py: the figures in the documents are those of today's programs."""

import re
from pathlib import Path

from trtdsl.core.author import load_module

ROOT = Path(__file__).parents[2]


def test_a_row_of_the_gallery_is_as_it_is_measured(tmp_path):
    tool = load_module(ROOT / "tools" / "bench" / "pages.py")
    row = tool.programs(["stn"], tmp_path).splitlines()[-1]
    assert row.startswith("| stn, N = 8 | 15 | 1.2 | ")
    assert row in (ROOT / "docs" / "program.md").read_text(), "run python tools/bench/pages.py --write"


def test_each_part_has_its_place():
    tool = load_module(ROOT / "tools" / "bench" / "pages.py")
    for name, document in tool.PARTS.items():
        before, begin, rest = (
            (ROOT / document).read_text().partition(f"<!-- {name}: python tools/bench/pages.py --write")
        )
        assert before and begin and f"<!-- end of {name} -->" in rest


def test_the_readme_has_what_a_build_prints_but_for_its_seconds():
    tool = load_module(ROOT / "tools" / "bench" / "pages.py")
    made = tool.build("--no-check").splitlines()
    figures = made[: 1 + next(at for at, line in enumerate(made) if line.startswith("  program at"))]
    written = (ROOT / "README.md").read_text()
    assert _without_seconds("\n".join(figures)) in _without_seconds(written), "run python tools/bench/pages.py --write"
    assert made[-2].startswith("next: ") and f"\n{made[-2]}\n```\n\n<!-- end of build -->" in written


def _without_seconds(text):
    return re.sub(r"in \d+ s, of which TensorRT took [\d.]+ s ", "in … s ", text)
