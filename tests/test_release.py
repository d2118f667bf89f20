"""A release as people get it: made by `python -m build`, judged by twine, installed in an empty environment."""

import importlib.util
import os
import re
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
NETWORK = """
import torch
import trtdsl as td
import trtdsl.functional as F


@td.network(inputs={"x": td.Input((td.Dim("N", min=1, opt=2, max=4), 3))}, reference=torch.nn.ReLU)
def rectify(x):
    return F.relu(x)
"""

pytestmark = pytest.mark.skipif(
    not all(map(importlib.util.find_spec, ("build", "twine", "hatchling"))), reason="build and twine are not installed"
)


def run(*command, cwd=None, **variables):
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | variables
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, cwd=cwd, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def cpp_sources():
    """What the C++ library consists of, by places below cpp: all but its tests."""
    folder = ROOT / "cpp"
    paths = [path.relative_to(folder) for path in folder.rglob("*") if path.is_file()]
    return {path.as_posix() for path in paths if path.parts[0] != "tests" and path.name[0] != "."}


@pytest.fixture(scope="module")
def release(tmp_path_factory):
    """The folder with the wheel and the source distribution."""
    folder = tmp_path_factory.mktemp("release")
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, ROOT)
    return folder


def test_twine_accepts_what_is_released(release):
    files = sorted(release.iterdir())
    assert [file.suffix for file in files] == [".whl", ".gz"] or [file.suffix for file in files] == [".gz", ".whl"]
    assert run(sys.executable, "-m", "twine", "check", "--strict", *files).count("PASSED") == 2


def test_the_files_of_a_release(release):
    wheel = zipfile.ZipFile(*release.glob("*.whl")).namelist()
    assert {"trtdsl/__init__.pyi", "trtdsl/py.typed", "trtdsl/definition/function_methods.pyi"} <= set(wheel)
    assert all(name.startswith(("trtdsl/", "trtdsl-")) for name in wheel)
    assert {name.removeprefix("trtdsl/cpp/") for name in wheel if name.startswith("trtdsl/cpp/")} == cpp_sources()
    with tarfile.open(*release.glob("*.tar.gz")) as archive:
        source = {name.partition("/")[2] for name in archive.getnames()}
    assert {"networks/stgcn.py", "cpp/CMakeLists.txt", "docs/engines.md", "CHANGELOG.md", "LICENSE"} <= source
    assert not [name for name in source if name.endswith((".engine", ".pyc")) or ".venv" in name]


def test_the_description_links_to_nothing_that_an_index_has_not(release):
    wheel = zipfile.ZipFile(*release.glob("*.whl"))
    (metadata,) = (name for name in wheel.namelist() if name.endswith("METADATA"))
    text = wheel.read(metadata).decode()
    assert not re.search(r"\]\((?!https?:)|<!--", text)
    with tarfile.open(*release.glob("*.tar.gz")) as archive:
        source = {name.partition("/")[2] for name in archive.getnames()}
    named = set(re.findall(r"`(docs/[^`…]+)`", text))
    assert "docs/checking.md" in named and named <= source


def test_an_empty_environment_builds_a_network_outside_the_repository(release, tmp_path):
    """The environment has the wheel alone; what it depends on is found where this one has it."""
    venv.create(tmp_path / "empty", with_pip=False)
    (packages,) = (tmp_path / "empty" / "lib").glob("python*/site-packages")
    run(sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", packages, *release.glob("*.whl"))
    here = Path(pytest.__file__).parents[1]
    # The path file comes after the wheel, so that the package of this repository is not the one that is imported.
    (packages / "dependencies.pth").write_text(f"{here}\n")
    script = packages / "bin" / "trtdsl"
    script.write_text(f"#!{tmp_path / 'empty/bin/python'}\n" + script.read_text().split("\n", 1)[1])
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "rectify.py").write_text(NETWORK)
    where = run(tmp_path / "empty/bin/python", "-c", "import trtdsl; print(trtdsl.__file__)", cwd=tmp_path)
    assert Path(where.strip()).is_relative_to(packages)
    assert "build networks: yes" in run(script, "doctor", cwd=tmp_path / "work")
    run(script, "build", "rectify.py", cwd=tmp_path / "work")
    assert (tmp_path / "work" / "rectify.engine").exists()
    assert (tmp_path / "work" / "rectify.engine.json").exists()
    run(script, "export", "cpp", "rectify.engine", "service", cwd=tmp_path / "work")
    service = tmp_path / "work" / "service"
    assert (service / "rectify.engine").read_bytes() == (tmp_path / "work" / "rectify.engine").read_bytes()
    assert 'feeds["x"] = zeros("float32", {2, 3})' in (service / "main.cpp").read_text()
    for place in cpp_sources():
        assert (service / "trtdsl" / place).read_bytes() == (ROOT / "cpp" / place).read_bytes(), place
