"""How places are written: files by their path, cells of a notebook by their number."""

import pytest

from trtdsl.core.errors import Location


@pytest.fixture
def shell():
    interactive = pytest.importorskip("IPython.core.interactiveshell").InteractiveShell
    yield interactive.instance()
    interactive.clear_instance()


def test_a_file_is_named_by_its_path():
    place = Location("/home/me/networks/stgcn.py", 21)
    assert str(place) == "/home/me/networks/stgcn.py:21"
    assert place.short == "networks/stgcn.py:21"


def test_a_cell_is_named_by_its_number(shell):
    file = shell.compile.cache("x = 1", 7)
    assert str(Location(file, 1)) == "In [7]:1"
    assert Location(file, 1).short == "In [7]:1"
    assert str(Location("a.py", 3)) == "a.py:3"


def test_an_error_in_a_notebook_shows_the_authors_lines_alone(shell, capsys):
    shell.run_cell("import trtdsl as td\nimport trtdsl.functional as F")
    shell.run_cell("x = td.Network().input('x', (2, 3))\nF.matmul(x, x)")
    shown = capsys.readouterr().out
    assert "F.matmul(x, x)" in shown and "ShapeError: " in shown
    assert "trtdsl/functional" not in shown and len(shown.splitlines()) < 8
