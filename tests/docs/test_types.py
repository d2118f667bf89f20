"""Networks are typed: those of the gallery and of the documents pass pyright's strict mode, and stubs complete weights.

In a document that is every function that is annotated with td.Tensor, in its blocks and in the files that these write;
applications and torch modules around them may be as loose as they like.
"""

import ast
import json
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

import trtdsl as td

ROOT = Path(__file__).parents[2]
FILES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
NETWORKS = sorted((ROOT / "networks").glob("*.py"))
# Functions turn torch's tensors into constants, which their annotations do not say.
CONSTANT = '"torch._tensor.Tensor" is not assignable to "trtdsl.definition.tensor.Tensor"'
BAD = ("loose", "misspelt", "uses_a_stub")  # on purpose
pytestmark = pytest.mark.skipif(find_spec("pyright") is None, reason="pyright is not installed")


def blocks(file):
    """The Python of a document, each block on its own lines."""
    return re.findall(r"^```python\n(.*?)^```$", file.read_text(), re.MULTILINE | re.DOTALL)


def written(text):
    """The network files that a block of a document writes."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and "import trtdsl as td" in node.value:
            yield node.value


def is_networks(function):
    """Whether a function is an annotated part of a network: it takes a Tensor."""
    taken = [ast.unparse(each.annotation) for each in function.args.args if each.annotation is not None]
    return any("td.Tensor" in text for text in taken)


def lines_of_networks(text):
    found = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef) and is_networks(node):
            found |= {*range(node.lineno, node.end_lineno + 1)}
    return found


def complaints(folder, texts):
    """What pyright's strict mode says of some texts, by name: the lines and the messages."""
    for name, text in texts.items():
        (folder / f"{name}.py").write_text(text)
    config = {
        "include": [str(folder)],
        "typeCheckingMode": "strict",
        "pythonVersion": "3.10",
        "extraPaths": [str(ROOT), str(ROOT / "networks")],
        "reportMissingTypeStubs": False,
        "reportMissingModuleSource": False,
    }
    (folder / "pyrightconfig.json").write_text(json.dumps(config))
    done = subprocess.run(
        [sys.executable, "-m", "pyright", "-p", str(folder), "--pythonpath", sys.executable, "--outputjson"],
        capture_output=True,
        text=True,
    )
    found = {name: [] for name in texts}
    for each in json.loads(done.stdout)["generalDiagnostics"]:
        if each["severity"] == "error" and CONSTANT not in each["message"]:
            found[Path(each["file"]).stem].append((each["range"]["start"]["line"] + 1, each["message"]))
    return found


def stubbed(folder):
    """A network whose weights have a stub in the folder: each assignment holds for one type alone."""
    names = ["stem.conv.weight", "blocks.0.fc.weight", "blocks.1.fc.weight", "head.0.fc.weight", "head.2.bias"]
    names += ["down-sample.weight", "class.weight", "plain"]
    save_file({name: torch.zeros(2, 3) for name in names}, folder / "w.safetensors")
    td.stubs(folder / "w.safetensors", folder / "stub_of_weights.pyi")
    return """
from __future__ import annotations

from typing import TYPE_CHECKING

import trtdsl as td
from typing_extensions import assert_type

if TYPE_CHECKING:
    from stub_of_weights import Blocks, Head, Weights


def block(x: td.Tensor, w: Blocks):
    return x @ w.fc.weight


def network(x: td.Tensor, w: Weights):
    assert_type(w.stem.conv.weight, td.Tensor)
    assert_type(w.plain, td.Tensor)
    assert_type(w.blocks[0], Blocks)
    assert_type(w.blocks[1:], list[Blocks])
    assert_type([each for each in w.blocks], list[Blocks])
    assert_type(w.head[0], Blocks)  # of the same structure
    assert_type(w.head[2], Head)
    assert_type(w["down-sample"].weight, td.Tensor)
    assert_type(w["class"].weight, td.Tensor)
    x = block(x, w.head[2])  # not this one
    scope: td.Scope = w.stem
    return x, scope
"""


def ported():
    """Network files as a port writes them: with lists, sizes and numbers as parameters, and tuples."""
    frames = {"first": "1,3,128,8*W8", "second": "1,3,128,8*W8"}
    cell = {"input_size": 4, "hidden_size": 4}
    reference = ROOT / "networks" / "reference"
    yield "raft", td.port(f"{reference}/raft_small.py:Model", frames, dims={"W8": (16, 16, 16)})
    yield "faces", td.port(f"{reference}/mobilefacenet.py:Model", {"x": "N,3,112,112"})
    yield "gru", td.port("torch.nn:GRU", {"input": "T,N,4"}, dims={"N": (1, 2, 3), "T": (4, 5, 6)}, arguments=cell)


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """Complaints about the networks' lines, by file; with a network that has something to complain about."""
    texts = {f"gallery_{path.stem}": path.read_text() for path in NETWORKS}
    for file in FILES:
        text = "\n".join(blocks(file))
        name = re.sub(r"\W", "_", file.stem.lower())
        texts[f"document_{name}"] = text
        texts |= {f"{name}_writes_{index}": each for index, each in enumerate(written(text))}
    texts |= {f"gallery_ported_{name}": text for name, text in ported()}
    misspelt = texts["gallery_ported_raft"].replace(".permute(", ".permut(").replace("F.conv2d(", "F.convolve(")
    texts["misspelt"] = misspelt
    texts["loose"] = "import trtdsl as td\ndef loose(x: td.Tensor, w):\n    return x.relu(w.fc) + x.mean(dim='1')\n"
    folder = tmp_path_factory.mktemp("types")
    texts["uses_a_stub"] = stubbed(folder)
    said = complaints(folder, texts)
    lines = {name: None if name.startswith("gallery") else lines_of_networks(text) for name, text in texts.items()}
    lines |= {"uses_a_stub": None, "misspelt": None}
    return {name: [each for each in said[name] if lines[name] is None or each[0] in lines[name]] for name in texts}


def test_networks_of_the_gallery_and_of_the_documents_pass_strict(found):
    assert sum(name.startswith("gallery") for name in found) == len(NETWORKS) + 3 >= 10
    assert sum("_writes_" in name for name in found) >= 2
    said = [f"{name}:{line}: {text}" for name, each in found.items() for line, text in each if name not in BAD]
    assert not said, "\n".join(said)


def test_strict_checking_reports_loose_types(found):
    messages = " ".join(text for _, text in found["loose"])
    assert 'missing for parameter "w"' in messages
    assert "cannot be assigned to parameter" in messages


def test_a_misspelt_method_of_a_ported_file_is_an_error(found):
    messages = " ".join(text for _, text in found["misspelt"])
    assert 'attribute "permut"' in messages and '"convolve" is not a known attribute' in messages


def test_a_stub_types_what_stands_behind_a_scope(found):
    """All assertions of the types hold, and the one call with another module does not pass."""
    ((line, message),) = found["uses_a_stub"]
    assert "not this one" in stubbed_line(line) and '"Head" is not assignable to "Blocks"' in message


def stubbed_line(line, folder=None):
    import inspect

    return inspect.getsource(stubbed).partition('return """')[2].split("\n")[line - 1]
