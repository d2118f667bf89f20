"""docs/command-line.md says which exit codes there are, and which fields each command's JSON has."""

import dataclasses
import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

import trtdsl as td
from trtdsl.core import exit_codes
from trtdsl.engine.bench import BenchReport

TEXT = (Path(__file__).parents[2] / "docs" / "command-line.md").read_text()
ROWS = {
    kind: (int(schema), rest)
    for kind, schema, rest in re.findall(r"^\| `(\w+)` \| (\d+) \| [^|]+ \| (.*) \|$", TEXT, re.MULTILINE)
}


def fields(kind):
    return set(re.findall(r"`(\w+)`", ROWS[kind][1].split(":")[0])) | {"schema", "kind"}


def test_the_exit_codes_are_all_there():
    codes = {int(code) for code in re.findall(r"^\| (\d+) \|", TEXT, re.MULTILINE)}
    assert codes == {value for name, value in vars(exit_codes).items() if name.isupper()}


@pytest.fixture(scope="module")
def folder(small_folder, tmp_path_factory):
    folder = shutil.copytree(small_folder, tmp_path_factory.mktemp("commands") / "project")
    td.build(str(folder / "small.py"), folder / "small.engine", check=False)  # which several commands read
    return folder


@pytest.mark.parametrize(
    ("code", "line"),
    [
        (1, "check wrong.py"),
        (2, "check small.py --against nothing.saved"),
        (2, "check small.py --feed x=nothing.npy"),
        (2, "check nothing.py"),
        (2, "bench nothing.py"),
        (2, "check small.py --no-such-option"),
        (2, "build small.py -o small.py"),
        (2, "check small.py --weights nothing.safetensors"),
        (3, "check broken.py"),
        (6, "run small.engine --input x=x.npy"),
        (7, "check small.py --weights damaged"),
        (7, "check small.py --against damaged"),
        (7, "check small.py --feed x=damaged"),
    ],
)
def test_what_the_page_says_of_each_exit_code(code, line, folder, command_line):
    text = (folder / "small.py").read_text()
    (folder / "wrong.py").write_text(re.sub(r"def small\b", "def wrong", text).replace("F.relu", "F.silu"))
    (folder / "broken.py").write_text(
        re.sub(r"def small\b", "def broken", text).replace("return ", "raise ValueError\n    return ")
    )
    (folder / "damaged").write_bytes(b"no file of any kind, and longer than a header")
    np.save(folder / "x.npy", np.ones((2, 3, 5, 5), np.float32))
    command_line(folder)(*line.split(), code=code)


@pytest.mark.parametrize(
    ("kind", "code", "line"),
    [
        ("check", 0, "check small.py"),
        ("build", 0, "build small.py"),
        ("builds", 0, "build small.py copy.py -o out/"),
        ("summary", 0, "inspect small.py"),
        ("engine", 0, "inspect small.engine"),
        ("program", 0, "inspect small.engine --program"),
        ("advice", 0, "advise small.py"),
        ("view", 0, "view small.py -o small.html"),
        ("comparison", 0, "compare small.engine small.engine"),
        ("port", 0, "port torch.nn:ReLU --input input=N,3 --dim N=1:2:3"),
        ("einsum", 0, "explain einsum ij,jk->ik 2,3 3,4"),
        ("doctor", 0, "doctor"),
        ("stubs", 0, "stubs small.safetensors -o small.pyi"),
        ("weights", 0, "weights convert checkpoint.pt copy.safetensors"),
        ("export", 0, "export cpp small.engine service"),
        ("error", 2, "check nothing.py"),
    ],
)
def test_the_fields_of_each_kind_are_those_of_the_page(kind, code, line, folder, command_line):
    text = (folder / "small.py").read_text()
    torch.save({"w": torch.ones(2)}, folder / "checkpoint.pt")
    (folder / "copy.py").write_text(re.sub(r"def small\b", "def copy", text))
    value = json.loads(command_line(folder)(*line.split(), "--json", code=code).stdout)
    assert (value["kind"], value["schema"]) == (kind, ROWS[kind][0])
    assert set(value) == fields(kind)


def test_what_a_gpu_is_needed_for_has_its_fields_too():
    assert fields("bench") == {field.name for field in dataclasses.fields(BenchReport)} | {"schema", "kind"}
    assert fields("run") == {"engine", "outputs", "schema", "kind"}
