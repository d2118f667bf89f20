"""Commands of a file whose network is in parts, each for some of the sizes: they take all of it, as a build does."""

import json

import pytest

TEXT = """
import torch
import trtdsl as td

N = td.Dim("N", min=2, opt=4, max=8)


class Whole(torch.nn.Module):
    def forward(self, x):
        return x * 2 if x.shape[0] == 1 else x * 3


@td.network(inputs={"x": td.Input((1, 4))}, reference=Whole, part_of="whole")
def one(x):
    return {"y": x * 2}


@td.network(inputs={"x": td.Input((N, 4))}, reference=Whole, part_of="whole")
def many(x):
    return {"y": x * 3}
"""


@pytest.fixture
def trtdsl(command_line, tmp_path):
    (tmp_path / "whole.py").write_text(TEXT)
    return command_line(tmp_path)


def test_a_check_is_of_all_parts_and_fails_where_one_differs(trtdsl, tmp_path):
    assert trtdsl("check", "whole.py", "-q").stdout.count(" equals its torch reference") == 2
    (tmp_path / "whole.py").write_text(TEXT.replace('{"y": x * 2}', '{"y": x * 4}'))
    result = json.loads(trtdsl("check", "whole.py", "--json", code=1).stdout)
    assert (result["kind"], result["network"]) == ("parts", "whole")
    assert [(part["network"], part["passed"]) for part in result["parts"]] == [("one", False), ("many", True)]
    alone = json.loads(trtdsl("check", "whole.py:many", "--json").stdout)
    assert (alone["kind"], alone["network"]) == ("check", "many")


def test_layers_and_programs_are_of_all_parts(trtdsl):
    shown = trtdsl("inspect", "whole.py").stdout
    assert shown.index("one (") < shown.index("many (")
    result = json.loads(trtdsl("inspect", "whole.py", "--program", "--json").stdout)
    assert [part["network"] for part in result["parts"]] == ["one", "many"]


def test_a_page_is_written_for_each_part(trtdsl, tmp_path):
    trtdsl("view", "whole.py")
    assert {path.name for path in tmp_path.glob("*.html")} == {"one.html", "many.html"}


@pytest.mark.parametrize(
    "line",
    [
        ("check", "whole.py", "--save", "kept.safetensors"),
        ("check", "whole.py", "--feed", "x=x.npy"),
        ("view", "whole.py", "-o", "page.html"),
        ("inspect", "whole.py", "--tuning", "whole.tuning.json"),
    ],
)
def test_what_is_of_one_network_is_refused_with_the_names_of_the_parts(trtdsl, line):
    said = trtdsl(*line, code=2).stderr
    assert "is for one network, and whole.py is in parts, each for some of the sizes: name one, as" in said
    assert "whole.py:one (of one, many)" in said


def test_an_error_says_in_which_part_it_is(trtdsl, tmp_path):
    (tmp_path / "whole.py").write_text(TEXT.replace('{"y": x * 3}', '{"y": x.view(5)}'))
    assert "in many, one of the parts of whole" in trtdsl("inspect", "whole.py", code=3).stderr
