"""docs/lowerings.md is what tools/bench/lowerings.py writes, of the ways that are registered and those compared."""

import re
from pathlib import Path

import pytest
import torch

import trtdsl as td
from trtdsl.core.author import load_module
from trtdsl.functional.lowerings import LOWERINGS

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def tool():
    return load_module(ROOT / "tools" / "bench" / "lowerings.py")


@pytest.fixture(scope="module")
def page():
    return (ROOT / "docs" / "lowerings.md").read_text()


def test_every_choice_has_its_table(tool, page):
    assert re.findall(r"^## (.*)$", page, re.MULTILINE) == list(tool.CHOICES)
    for name, (_function, contexts, _) in tool.CHOICES.items():
        head, _, *rows = [line for line in tool.sections()[name].splitlines() if line.startswith("|")]
        assert [cell.strip() for cell in head.split("|")[2:-1]] == list(tool.calls_of(name))
        assert [row.split(",")[0].strip("| ") for row in rows[:: len(tool.DTYPES)]] == list(contexts)
        assert len(rows) == len(contexts) * len(tool.DTYPES)
        assert all(row.count("**") == 2 for row in rows)


def test_every_function_with_a_choice_is_measured(tool):
    """Those of scans are in tools/bench/scan.py."""
    measured = {function for function, _, _ in tool.CHOICES.values()}
    assert measured | {"associative_scan", "linear_recurrence"} >= set(LOWERINGS)


def test_no_way_is_better_somewhere_and_worse_nowhere(tool):
    """That way would be the default."""
    better, worse = set(), set()
    for name, (function, _, _) in tool.CHOICES.items():
        rows = [line for line in tool.sections()[name].splitlines() if line.startswith("| ")][1:]
        for row in rows:
            cells = dict(zip(tool.calls_of(name), (cell.strip() for cell in row.split("|")[2:-1]), strict=True))
            mine = _figures(next(cell for cell in cells.values() if "**" in cell))
            for way, cell in cells.items():
                if (
                    cell == "–"
                    or "**" in cell
                    or way not in LOWERINGS.get(function, ())
                    or LOWERINGS[function][way].not_tuned
                ):
                    continue
                launches, moved = _figures(cell)
                if launches > mine[0] or moved > 1.005 * mine[1]:
                    worse.add((function, way))
                elif launches < mine[0] or moved < 0.995 * mine[1]:
                    better.add((function, way))
    assert better
    assert not better - worse


def _figures(cell):
    launches, moved, _ = cell.strip("*").split(", ")
    return int(launches), float(moved.removesuffix(" MB"))


@pytest.mark.parametrize("name", ["prelu", "batch_norm", "einsum of a graph", "squeeze and excite"])
def test_the_page_is_current(tool, page, name):
    backend = td.Network().backend
    if f"for {backend.name} {backend.version}." not in page:
        pytest.skip(f"the page is for another version than {backend.name} {backend.version}")
    assert "\n".join(tool.table(name)) in page


def test_what_is_compared_gives_the_functions_values(tool):
    generator = torch.Generator().manual_seed(0)
    for name, others in tool.COMPARED.items():
        _, contexts, call = tool.CHOICES[name]
        shape = next(iter(contexts.values()))[2]
        nets = [tool.written(each, (tool.same, tool.same, shape), torch.float32) for each in (call, *others.values())]
        feeds = {name: torch.rand(tuple(x.shape), generator=generator) for name, x in nets[0].inputs.items()}
        if "ids" in feeds:
            feeds["ids"] = torch.randint(0, 512, (4, 200), generator=generator)
        want, *found = (td.interpret(net, feeds)["y"] for net in nets)
        for value in found:
            torch.testing.assert_close(value, want, rtol=1e-4, atol=1e-4)
