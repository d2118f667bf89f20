"""The notebooks of the documentation run as they stand, and what they show is small."""

import re
from pathlib import Path

import nbclient
import nbformat
import pytest

NOTEBOOKS = Path(__file__).parents[2] / "docs" / "notebooks"


def shown(cell):
    """The text that a cell prints or shows."""
    return "".join(
        output.get("text") or output.get("data", {}).get("text/plain", "")
        for output in cell.outputs
        if output.get("name") != "stderr"
    )


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("file", sorted(NOTEBOOKS.glob("*.ipynb")), ids=lambda file: file.stem)
def test_a_notebook_runs(file, tmp_path):
    kept = nbformat.read(file, as_version=4)
    assert file.stat().st_size < 40_000
    fresh = nbformat.read(file, as_version=4)
    nbclient.NotebookClient(
        fresh, timeout=200, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}
    ).execute()
    for before, now in zip(kept.cells, fresh.cells, strict=True):
        if now.cell_type == "code":
            assert re.sub(r"\d+", "#", shown(before)) == re.sub(r"\d+", "#", shown(now))
    texts = [shown(cell) for cell in fresh.cells if cell.cell_type == "code"]
    assert any(text.startswith("In [5]:4: ") for text in texts)  # a mistake is reported by its cell
    assert (tmp_path / "classifier.html").stat().st_size < 200_000
