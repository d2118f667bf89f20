"""Stubs of weights: a class for each structure, valid Python whatever a file calls its tensors, whole or not at all."""

import ast
import json
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import save_file

import trtdsl as td

MIXED = {
    "conv1.weight": (4, 3, 3, 3), "conv1.bias": (4,), "blocks.0.fc.weight": (2, 2), "blocks.1.fc.weight": (2, 2),
    "blocks.10.fc.weight": (2, 2), "head.0.bias": (1,), "head.2.gain": (), "down-sample": (3,), "class.x": (1,),
    "_network": (1,),
}  # fmt: skip


def weights(shapes):
    return {name: torch.zeros(shape) for name, shape in shapes.items()}


def classes(text):
    """By class, its attributes with their types, and its indices with theirs."""
    found = {}
    for node in ast.parse(text).body:
        if isinstance(node, ast.ClassDef):
            own = {
                each.target.id: ast.unparse(each.annotation) for each in node.body if isinstance(each, ast.AnnAssign)
            }
            for each in node.body:
                if isinstance(each, ast.FunctionDef) and each.name == "__getitem__":
                    own[ast.unparse(each.args.args[1].annotation)] = ast.unparse(each.returns)
            found[node.name] = own
    return found


def test_each_module_has_a_class_and_modules_of_one_structure_share_it():
    text = td.stubs(weights(MIXED))
    found = classes(text)
    root = found["Weights"]
    assert found[root["conv1"]] == {"weight": "td.Tensor", "bias": "td.Tensor"}
    blocks = found[root["blocks"]]
    assert found[blocks["int"]].keys() == {"fc"}
    assert blocks["slice"] == f"list[{blocks['int']}]"
    head = found[root["head"]]
    assert (found[head["Literal[0]"]], found[head["Literal[2]"]]) == ({"bias": "td.Tensor"}, {"gain": "td.Tensor"})
    assert root["Literal['down-sample']"] == root["Literal['_network']"] == "td.Tensor"
    assert found[root["Literal['class']"]] == {"x": "td.Tensor"}
    assert '"""(4, 3, 3, 3) float32"""' in text and '"""() float32"""' in text


printed = st.characters(exclude_categories=("Cc", "Cf", "Cs", "Zl", "Zp"))


@given(st.lists(st.text(printed, min_size=1, max_size=12), min_size=1, max_size=8, unique=True))
def test_any_names_give_valid_python(names):
    text = td.stubs(weights(dict.fromkeys(names, (1,))))
    named = [node.name for node in ast.parse(text).body if isinstance(node, ast.ClassDef)]
    assert len(set(named)) == len(named) and named[-1] == "Weights"


@pytest.mark.parametrize("name", ["my-weights.pyi", "class.pyi", "weights.py", "weights", "1.pyi"])
def test_a_stub_that_cannot_be_imported_is_not_written(tmp_path, name):
    with pytest.raises(td.UsageError, match=r"write it to NAME\.pyi where NAME is an identifier, such as \w+\.pyi"):
        td.stubs(weights(MIXED), tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_the_command_prints_or_writes_it(tmp_path, command_line):
    trtdsl = command_line(tmp_path)
    save_file(weights(MIXED), "model.safetensors")
    printed = trtdsl("stubs", "model.safetensors").stdout
    assert "class Weights(td.Scope):" in printed and "The weights of model.safetensors" in printed
    assert trtdsl("stubs", "model.safetensors", "-o", "weights.pyi").stdout.startswith("weights.pyi: ")
    assert classes(Path("weights.pyi").read_text()) == classes(printed)
    value = json.loads(trtdsl("stubs", "model.safetensors", "--json").stdout)
    assert (value["kind"], value["text"]) == ("stubs", printed)
    assert "no weights file nothing.safetensors" in trtdsl("stubs", "nothing.safetensors", code=2).stderr
    Path("bad.safetensors").write_bytes(b"12345678{}")
    trtdsl("stubs", "bad.safetensors", "-o", "bad.pyi", code=7)
    assert not Path("bad.pyi").exists()
