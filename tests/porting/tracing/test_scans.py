"""Loops of forward's over a dynamic dimension become td.scan, or are refused with what keeps them from it."""

from pathlib import Path

import pytest

import trtdsl as td
from trtdsl.core.author import load_module
from trtdsl.engine.compiling.compiler import compile_engine
from trtdsl.porting import ported

pytestmark = pytest.mark.long

MODULES = Path(__file__).parents[1] / "scanned_modules.py"
SCANS = {
    "Selective": {"x": "N,T,6"},
    "LastAxis": {"a": "N,6,T,4", "b": "N,6,T,4", "c": "N,T,4"},
    "Written": {"key": "N,T,3", "value": "N,T,3"},
    "Cells": {"x": "N,T,5"},
    "BothWays": {"x": "N,T,3"},
    "Reversed": {"x": "N,T,3"},
    "Filter": {"x": "N,T"},
    "Parts": {"x": "N,T,3", "g": "N,T,3"},
    "Nested": {"x": "N,T,4,3"},
    "Half": {"x": "N,T,3"},
    "Tracker": {"z": "N,T,1"},
    "Layers": {"x": "N,T,3"},
    "Sums": {"x": "N,T,3"},
    "OwnAtFirst": {"x": "N,T,3"},
    "Chosen": {"x": "N,T,3", "table": "3,3"},
    "InVain": {"x": "N,T,3", "y": "N,T,3"},
    "Autoregressive": {"x": "N,T,3"},
    "InPieces": {"x": "N,T,3"},
    "Steps": {"x": "N,T,3"},
    "Scattered": {"x": "T,4,3"},
    "Field": {"x": "N,T,3", "labels": "N,T:int64:0:3"},
    "Best": {"x": "N,T,3"},
    "While": {"x": "N,T,3"},
    "Between": {"x": "N,T,3"},
    "InTurn": {"x": "N,T,3"},
    "Unneeded": {"x": "N,T,3"},
}
LEAST = {
    "Filter": 3,
    "Parts": 2,
    "Half": 2,
    "InPieces": 2,
    "OwnAtFirst": 2,
    "Chosen": 2,
    "Field": 2,
    "Best": 2,
    "While": 2,
    "Between": 2,
}  # the others' least length is 1: one round


@pytest.mark.parametrize("name", SCANS)
def test_a_loop_over_a_dynamic_dimension_is_a_scan(port, name):
    made = port(f"{MODULES}:{name}", SCANS[name], dims=_dims(name)).check()
    assert "td.scan(" in made.text
    assert not any("not proven" in remark for remark in made.result.notes)


def _dims(name):
    texts = ",".join(SCANS[name].values()).split(",")
    return {"T": (LEAST.get(name, 1), 5, 9), **({"N": (1, 2, 3)} if "N" in texts else {})}


def test_a_list_of_as_many_tensors_as_there_are_rounds_is_refused_by_their_number(port):
    with pytest.raises(
        td.UnsupportedError, match=r"torch\.stack gets 5 tensors at T = 5 and 2 at T = 2, and a network"
    ):
        port(f"{MODULES}:Same", {"x": "1,T,3"}, dims={"T": (2, 5, 40)})


def test_what_a_scan_looks_like(port):
    text = port(f"{MODULES}:Selective", SCANS["Selective"], dims={"N": 1, "T": (1, 5, 9)}).text
    line = "    _, ys = td.scan(lambda carry, item: selective_step(carry, *item), state, (decay, given, c), dim=1)"
    assert line in text
    assert text.count("    return state, ys\n") == 1


def test_a_loop_of_a_fixed_length_stays_as_many_rounds(port):
    assert "td.scan(" not in port(f"{MODULES}:Reversed", {"x": "N,4,3"}).text


@pytest.mark.parametrize("name", ["Selective", "Cells"])
def test_tensorrt_builds_the_scan(name):
    spec = td.from_module(_made(name), SCANS[name], dims={"N": (1, 2, 3), "T": (1, 5, 9)})
    assert compile_engine(spec.define())


def _made(name):
    return getattr(load_module(MODULES), name)()


def test_a_loop_that_is_no_scan_is_a_network_for_each_number_of_rounds_which_says_why():
    result = ported(f"{MODULES}:Growing", {"x": "N,T,3"}, dims={"N": 2, "T": (2, 3, 4)}, check=True)
    assert result.verdict is not None and result.verdict.passed and result.text.count("@td.network(") == 3
    assert any("becomes no td.scan: what a round makes has another shape in the next" in note for note in result.notes)


@pytest.mark.parametrize(
    ("name", "line", "why"),
    [
        ("OneRound", 1, "round 7 does something else (torch.Tensor.mul, line {})"),
        ("Around", 1, "an index does not go on by one (torch.Tensor.__getitem__, line {}): windows are x.unfold("),
        ("Every", None, "it goes on by 2: loop over the parts of every so many, as x[:, ::2]"),
        ("FarBack", None, "its rounds take other values than at other sizes"),
        ("ItsNumber", 1, "round 2 does something else (torch.Tensor.mul, line {})"),
        ("Averages", 1, "each round computes with another number (torch.Tensor.div, line {}): take it from a tensor"),
        ("Alone", None, "what one of its rounds makes is needed by itself"),
        ("Growing", None, "what a round makes has another shape in the next"),
        ("Across", 1, "an index goes on beside tensors: index twice, x[i][places] (torch.Tensor.__getitem__, line {})"),
        ("ReadBack", None, "an index goes on in a tensor that changes from round to round"),
        ("Ended", None, "something else"),
    ],
)
def test_other_loops_are_refused_with_the_reason(port, name, line, why):
    lines = MODULES.read_text().splitlines()
    begin = next(number for number, each in enumerate(lines) if each == f"class {name}(nn.Module):")
    loop = next(number for number, each in enumerate(lines) if number > begin and " in range(" in each) + 1
    with pytest.raises(td.UnsupportedError) as error:
        port(f"{MODULES}:{name}", {"x": "N,T,3"}, dims={"N": 2, "T": (2, 5, 40)})
    assert f"scanned_modules.py:{loop}: " in str(error.value)
    assert "becomes no td.scan: " in str(error.value)
    assert why.format(loop + (line or 0)) in str(error.value)
