"""The documentation's Python runs as it stands: each file's blocks in order, in one namespace."""

import contextlib
import re
import runpy
import shlex
from pathlib import Path
from unittest import mock

import pytest
import torch
from device import simulated_device
from support.checkpoints import transformers

from trtdsl.core import errors
from trtdsl.core.backend import cuda_status
from trtdsl.functional.lowerings import LOWERINGS

ROOT = Path(__file__).parents[2]
FILES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


ON_A_DEVICE = ("engines.md", "production.md")  # these execute engines


def blocks(file):
    text = file.read_text()
    for match in re.finditer(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        line = text[: match.start()].count("\n") + 1
        yield "\n" * line + match[1]  # so that errors name the line in the document


@pytest.mark.parametrize(
    "file",
    [file for file in FILES if "```python" in file.read_text()],
    ids=lambda file: file.relative_to(ROOT).as_posix(),
)
def test_python_blocks_run(file, tmp_path, monkeypatch):
    (tmp_path / "networks").symlink_to(ROOT / "networks")
    (tmp_path / "weights").symlink_to(ROOT / "weights")
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)
    namespace = {"__name__": "__main__"}
    simulated = file.name in ON_A_DEVICE and cuda_status() is not None
    ways = mock.patch.dict(LOWERINGS)  # CONTRIBUTING.md registers one of its own
    with ways, simulated_device() if simulated else contextlib.nullcontext() as machine:
        for block in blocks(file):
            exec(compile(block, str(file), "exec"), namespace)
        assert not simulated or (machine.counts["execute_async_v3"] and not machine.violations)


@pytest.mark.parametrize(
    ("page", "part", "name"),
    [
        ("README.md", "your own module", "encoder"),
        ("docs/five-commands.md", "five commands", "layer"),
        ("docs/cookbook/mixed-precision.md", "from NaN to an engine", "scorer"),
    ],
)
def test_commands_of_pages_run(page, part, name, tmp_path, command_line, monkeypatch):
    text = (ROOT / page).read_text()
    if name == "scorer":  # whose network file and data the page itself writes
        monkeypatch.chdir(tmp_path)
        exec(next(blocks(ROOT / page)), {})
    (block,) = re.findall(rf"<!-- {part} -->\n```sh\n(.*?)```\n<!-- end -->", text, re.DOTALL)
    run = command_line(tmp_path)
    for line in block.replace("\\\n", " ").splitlines():
        program, *arguments = shlex.split(line)
        assert program == "trtdsl"
        run(*arguments)
    assert {file.name for file in tmp_path.iterdir()} >= {f"{name}{suffix}" for suffix in (".py", ".engine", ".html")}


def test_a_folder_becomes_text_in_five_commands(tmp_path, command_line):
    text = (ROOT / "docs" / "cookbook" / "language-model.md").read_text()
    making, block = (
        re.findall(rf"<!-- {part} -->\n```sh\n(.*?)```\n<!-- end -->", text, re.DOTALL)
        for part in ("a folder for a first look", "from a folder to text")
    )
    assert text.index(block[0]) < text.index("```python")
    transformers()
    run, shown = command_line(tmp_path), []
    (tmp_path / "networks").symlink_to(ROOT / "networks")
    program, tool, *arguments = shlex.split(making[0])
    assert program == "python"
    runpy.run_path(str(ROOT / tool))["main"](arguments)
    for line in block[0].splitlines():
        _, *arguments = shlex.split(line)
        shown.append(run(*arguments).stdout)
    assert len(shown) == 5
    assert "equals its torch reference" in shown[0] and "96 tokens are the reference's" in shown[1]
    assert len(shown[2].strip("\n")) == 32 and "launches" in shown[3]
    assert (tmp_path / "decoder.engine.json").is_file()


def test_the_production_page_has_every_error_code():
    text = (ROOT / "docs" / "production.md").read_text()
    rows = dict(re.findall(r"^\| `([a-z-]+)` \| (\d*) ?\|", text, re.MULTILINE))
    kinds, seen = [errors.TrtdslError, errors.RuntimeCacheWarning], {}
    while kinds:
        kind = kinds.pop()
        kinds += kind.__subclasses__()
        if getattr(kind, "code", None):
            seen[kind.code] = str(getattr(kind, "exit_code", ""))
    assert rows == seen


def test_links_between_documents_hold():
    for file in FILES:
        text = re.sub(r"^```.*?^```", "", file.read_text(), flags=re.DOTALL | re.MULTILINE)
        for target in re.findall(r"\]\((?!https?://|#)([^)#]+)", text):
            assert (file.parent / target).exists(), f"{file.name} links to {target}"


def test_every_table_has_a_head():
    """Rows that a merge left behind stand in the text without one."""
    for file in FILES:
        lines = ["", *file.read_text().split("\n")]
        for number, (before, line, after) in enumerate(zip(lines, lines[1:], lines[2:]), 1):
            if line.startswith("|") and not before.startswith("|"):
                assert re.fullmatch(r"[|: -]+", after), f"{file.name}:{number}: a table without a head"


def test_code_on_the_readme_is_short():
    (block,) = blocks(ROOT / "README.md")
    network = block[block.index("@td.network") : block.index("weights = Reference")]
    assert len([line for line in network.split("\n") if line.strip()]) <= 20


def test_the_versions_on_the_readme_are_those_that_were_looked_at():
    def shown(column, words):
        """The versions in the rows of the table that say so in a column."""
        rows = [line.strip("| ").split(" | ") for line in (ROOT / "README.md").read_text().split("\n")]
        rows = [row for row in rows if row[0].startswith("TensorRT") and len(row) == 5 and words in row[column]]
        return {
            (row[0].split()[0].lower(), version) for row in rows for version in re.findall(r"\d+\.\d+\.\d+", row[0])
        }

    stems = [path.stem.rpartition("-") for path in (ROOT / "tests/data/api").glob("*.json")]
    assert shown(4, "yes") == {(product, ".".join(version.split(".")[:3])) for product, _, version in stems}
    pinned = re.search(r"^tensorrt_rtx_cu13==(\d+\.\d+\.\d+)", (ROOT / "constraints.txt").read_text(), re.MULTILINE)
    assert shown(1, "in every run of the tests") == {("tensorrt-rtx", pinned[1])}
