"""An earlier verdict holds only where all that it depends on is the same."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import trtdsl as td
from trtdsl.checking.proof import _found, imported, proof_of

NETWORK = """\
import trtdsl as td
from drawings import draw

@td.network(inputs={"x": td.Input(("N", 3), sample=SAMPLE)}, reference="ref.py:Model")
def net(x):
    return x * 2
"""
REFERENCE = """\
import torch
from parts.scale import scale

class Model(torch.nn.Module):
    def forward(self, x):
        return x * scale()

def unused():
    import late
"""


@pytest.fixture
def project(tmp_path):
    (tmp_path / "parts").mkdir()
    files = {
        "net.py": NETWORK.replace("SAMPLE", "(-1.0, 1.0)"),
        "ref.py": REFERENCE,
        "parts/__init__.py": "",
        "parts/scale.py": "from .inner import TWO\n\ndef scale():\n    return TWO\n",
        "parts/inner.py": "TWO = 2\n",
        "late.py": "def zero():\n    return 0\n",
        "drawings.py": "import torch\n\ndef draw(shape, generator):\n    return torch.rand(shape)\n",
        "other.py": "",
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    yield tmp_path
    forget()


def forget():
    """Modules of a project are imported anew by the next."""
    for name in [name for name in sys.modules if name.split(".")[0] in ("parts", "late", "drawings", "other")]:
        del sys.modules[name]


def proof(project):
    return proof_of(td.load_spec(project / "net.py"), None)


def change(path, old="", new="# another\n"):
    text = path.read_text()
    path.write_text(text.replace(old, new) if old else text + new)


@pytest.mark.parametrize("file", ["ref.py", "parts/scale.py", "parts/inner.py", "parts/__init__.py", "late.py"])
def test_every_file_that_the_reference_imports_counts(project, file):
    before = proof(project)
    assert before is not None
    assert proof(project) == before
    change(project / file)
    assert proof(project) != before


def test_files_that_are_not_imported_do_not_count(project):
    before = proof(project)
    change(project / "other.py")
    change(project / "net.py")
    assert proof(project) == before


def test_samples_versions_and_tolerances_count(project, monkeypatch):
    seen = {proof(project)}
    for sample in ("(-1.0, 2.0)", "draw", '"x.npy"', "None"):
        np.save(project / "x.npy", np.ones(3, np.float32))
        (project / "net.py").write_text(NETWORK.replace("SAMPLE", sample))
        seen.add(proof(project))
        if sample == "draw":
            change(project / "drawings.py", "torch.rand(", "torch.randn(")
            seen.add(proof(project))
        elif sample == '"x.npy"':
            np.save(project / "x.npy", np.zeros(3, np.float32))
            seen.add(proof(project))
    change(project / "net.py", "reference=", "tolerance=1e-3, reference=")
    seen.add(proof(project))
    change(project / "net.py", "1e-3", "{'output': 1e-3}")
    seen.add(proof(project))
    change(project / "net.py", "reference=", "trivial='output', reference=")
    seen.add(proof(project))
    monkeypatch.setattr(torch, "__version__", "0.1")
    seen.add(proof(project))
    monkeypatch.setattr(sys.modules["trtdsl.checking.proof"], "_version", lambda name: "9")
    change(project / "late.py", new="import numpy\n")
    seen.add(proof(project))
    assert len(seen) == 11


def test_a_reference_without_a_file_is_always_checked_again(project):
    class Local(torch.nn.Module):
        def forward(self, x):
            return x

    for reference in (Local, lambda: Local()):
        assert proof_of(td.network(inputs={"x": td.Input((3,))}, reference=reference)(lambda x: x), None) is None
    scale = 3.0
    spec = td.load_spec(project / "net.py")
    inputs = {"x": td.Input((3,), sample=lambda shape, generator: torch.ones(shape) * scale)}
    assert proof_of(td.NetworkSpec("n", spec.function, inputs, None, spec.reference, spec.file), None) is None
    named = td.network(inputs={"x": td.Input((3,))}, reference=torch.nn.ReLU)(lambda x: x.relu())
    assert proof_of(named, None) is not None


def test_imports_are_followed_and_packages_named(project):
    (project / "a.py").write_text("import importlib, b\nimport numpy.linalg\nimportlib.import_module('c')\n")
    (project / "b.py").write_text("import a, parts.inner\n")
    (project / "c.py").write_text("import os, torch, nowhere\n")
    files, packages = imported([project / "a.py"])
    assert {path.relative_to(project).as_posix() for path in files} == {
        "a.py", "b.py", "c.py", "parts/__init__.py", "parts/inner.py"
    }  # fmt: skip
    assert packages == {"numpy", "nowhere"}


def manifest(project):
    return json.loads((project / "net.engine.json").read_text())["check"]


def build(project, **options):
    return td.build(td.load_spec(project / "net.py"), project / "net.engine", dims={"N": (1, 2)}, **options)


def test_a_changed_import_is_checked_anew(project):
    build(project)
    assert build(project).report is None
    change(project / "parts/inner.py", "TWO = 2", "TWO = 3")
    forget()
    with pytest.raises(td.MismatchError):
        build(project)


def test_no_check_never_repeats_an_old_verdict_as_new(project):
    build(project)
    assert manifest(project)["passed"]
    assert manifest(project)["tolerances"]["output"] == {"times": 100.0, "floor": None}
    build(project, check=False)
    said = manifest(project)
    assert not said["done"]
    assert said["earlier"]["passed"]
    change(project / "late.py")
    build(project, check=False)
    assert manifest(project) == {"done": False, "reason": "--no-check"}


@pytest.mark.parametrize("entry", [".", "/", "", "..", "a" * 300, None, b"bytes", "nowhere"])
def test_any_entry_of_the_import_path(project, monkeypatch, entry):
    before = proof(project)
    monkeypatch.setattr(sys, "path", [entry, *sys.path])
    assert proof(project) == before


def test_a_file_that_is_imported_from_the_working_directory_counts(project, tmp_path_factory, monkeypatch):
    here = tmp_path_factory.mktemp("here")
    (here / "beside.py").write_text("ONE = 1\n")
    change(project / "late.py", new="\nimport beside\n")
    monkeypatch.chdir(here)
    monkeypatch.setattr(sys, "path", ["", *sys.path])
    before = proof(project)
    change(here / "beside.py")
    assert proof(project) != before


@pytest.mark.parametrize("text", ["from . import x\n", "import importlib\nimportlib.import_module('a\\0b')\n"])
def test_imports_that_lead_nowhere(tmp_path, text):
    (tmp_path / "ref.py").write_text(text)
    assert imported([tmp_path / "ref.py"])[0] == {tmp_path / "ref.py"}


def test_a_relative_import_in_the_root_folder():
    assert list(_found("", 1, Path("/ref.py"), [])) == []


def test_an_expression_that_is_nested_too_deeply_for_python(tmp_path):
    (tmp_path / "ref.py").write_text("x = " + "-" * 200_000 + "1\n")
    assert imported([tmp_path / "ref.py"]) == ({tmp_path / "ref.py"}, set())
