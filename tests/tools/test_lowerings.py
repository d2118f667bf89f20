"""docs/lowerings.md is what tools/bench/lowerings.py writes, and its first way is what F does."""

import re
from pathlib import Path

import pytest

import trtdsl as td
from trtdsl.core.author import load_module

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def tool():
    return load_module(ROOT / "tools" / "bench" / "lowerings.py")


@pytest.fixture(scope="module")
def page():
    return (ROOT / "docs" / "lowerings.md").read_text()


def test_every_choice_has_its_table(tool, page):
    assert re.findall(r"^## (.*)$", page, re.MULTILINE) == list(tool.CHOICES)
    sections = dict(zip(tool.CHOICES, page.split("\n## ")[1:], strict=True))
    for name, (contexts, ways) in tool.CHOICES.items():
        rows = [line for line in sections[name].splitlines() if line.startswith("| ")][1:]
        assert [row.split("|")[1].strip(" *") for row in rows] == list(ways)
        assert {row.count("|") for row in rows} == {2 + len(contexts) * len(tool.DTYPES)}


@pytest.mark.parametrize("name", ["prelu", "batch_norm", "einsum of a graph", "grid_sample, bicubic"])
def test_the_page_is_current(tool, page, name):
    backend = td.Network().backend
    if f"for {backend.name} {backend.version}." not in page:
        pytest.skip(f"the page is for another version than {backend.name} {backend.version}")
    assert "\n".join(tool.table(name)) in page
