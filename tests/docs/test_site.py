"""The site: every link holds, nothing is fetched from elsewhere, and every public name is on it."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

import trtdsl as td
import trtdsl.functional as F
import trtdsl.layers as L

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.skipif(
    not all(map(importlib.util.find_spec, ("sphinx", "furo", "myst_parser"))), reason="Sphinx is not installed"
)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The folder of the pages; building them fails where a link or a docstring does not hold."""
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, str(ROOT / "tools/site.py"), str(folder)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_nothing_is_fetched_when_a_page_is_read(site):
    for page in site.rglob("*.html"):
        for tag in re.findall(r"<(?:script|link|img|iframe)\b[^>]*>", page.read_text()):
            assert not re.search(r"""(?:src|href)=["'](?:https?:)?//""", tag), f"{page.name}: {tag}"


def test_every_public_name_is_in_the_reference(site):
    text = "".join(page.read_text() for page in (site / "reference").rglob("*.html"))
    identifiers = set(re.findall(r'id="(trtdsl\.[\w.]+)"', text))
    assert {f"trtdsl.{name}" for name in td.__all__ if callable(getattr(td, name))} <= identifiers
    for module in (F, L):
        functions = [name for name, value in vars(module).items() if callable(value) and not name.startswith("_")]
        named = {f"{module.__name__}.{name}" for name in functions if getattr(module, name).__module__ != "builtins"}
        missing = {name for name in named - identifiers if name.rpartition(".")[2] not in ("Any", "absent")}
        assert not missing


def test_a_page_for_each_network_and_each_command(site):
    assert {page.stem for page in (site / "gallery").glob("*.html")} == {
        "index",
        *(path.stem for path in (ROOT / "networks").glob("*.py")),
    }
    index = (site / "gallery" / "index.html").read_text()
    assert "playground.html" in index and (site / "playground.html").is_file()
    assert re.search(r"stgcn</a>.*?</td>\s*<td>.*?</td>\s*<td>.*?\b39\b", index, re.DOTALL)  # launches
    assert "images/stgcn.webp" in (site / "gallery" / "stgcn.html").read_text()
    page = (site / "reference" / "command-line.html").read_text()
    for path in (ROOT / "trtdsl/cli/commands").glob("[a-z]*.py"):
        assert f'id="trtdsl-{path.stem}' in page
