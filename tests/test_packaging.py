"""What an installation brings: by platform, by extra, and in the versions that CI pins."""

from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from trtdsl.cli import main as command_line

tomllib = pytest.importorskip("tomllib", reason="Python 3.10 does not read TOML")

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]


def named(texts):
    """The requirements by their names, as pip compares them."""
    requirements = map(Requirement, texts)
    return {canonicalize_name(requirement.name): requirement for requirement in requirements}


REQUIRED = named(PROJECT["dependencies"])
BUILDS = named(EXTRAS["rtx"] + EXTRAS["runtime"])
PINS = named(line for line in (ROOT / "constraints.txt").read_text().splitlines() if line[:1] not in ("", "#"))


def test_required_packages():
    assert {"numpy", "safetensors", "typer", "rich"} <= REQUIRED.keys()
    assert not {"torch", "cuda-python", "tensorrt-rtx-cu13", "tensorrt"} & REQUIRED.keys()  # an extra brings them
    served = [f"3.{minor}" for minor in range(8, 15) if f"3.{minor}" in SpecifierSet(PROJECT["requires-python"])]
    assert served == ["3.10", "3.11", "3.12", "3.13", "3.14"]
    text = (ROOT / "tools/versions.py").read_text()
    tried = {f"3.{minor}" for minor in range(8, 15) if f'("3.{minor}", ' in text} | {"3.11"}  # CI's
    named = {label.rpartition(" :: ")[2] for label in PROJECT["classifiers"] if "Python :: 3." in label}
    assert named == tried  # an index says what was tried, not what may work


@pytest.mark.parametrize(
    ("system", "machine", "rtx", "cuda"),
    [
        ("linux", "x86_64", True, True),
        ("win32", "AMD64", True, True),
        ("linux", "aarch64", False, True),  # TensorRT-RTX has no wheel for it
        ("darwin", "arm64", False, False),
    ],
)
def test_each_platform_gets_what_there_is_for_it(system, machine, rtx, cuda):
    def wanted(name):
        marker = BUILDS[name].marker
        return marker is None or marker.evaluate({"sys_platform": system, "platform_machine": machine})

    assert (wanted("tensorrt-rtx-cu13"), wanted("cuda-python")) == (rtx, cuda)
    assert not [each for each in REQUIRED.values() if "platform" in str(each.marker)]  # tomli's is of Python's version


def test_extras_have_the_packages_that_they_name():
    assert BUILDS.keys() == {"torch", "trtdsl", "tensorrt-rtx-cu13", "cuda-python"}
    assert named(EXTRAS["runtime"]).keys() == {"tensorrt-rtx-cu13", "cuda-python"}  # no torch
    assert named(EXTRAS["tensorrt"]).keys() == {"torch", "tensorrt", "cuda-python"}  # no second TensorRT
    assert {"pytest", "hypothesis"} <= named(EXTRAS["test"]).keys()
    assert {"ruff", "pyright"} <= named(EXTRAS["dev"]).keys()
    assert {"rtx", "test"} <= named(EXTRAS["dev"])["trtdsl"].extras


def test_the_console_script_is_the_command_line():
    assert PROJECT["scripts"].keys() == {"trtdsl"}
    assert EntryPoint("trtdsl", PROJECT["scripts"]["trtdsl"], "console_scripts").load() is command_line.main


def test_everything_that_ci_installs_is_pinned_within_its_range():
    assert [str(PINS[name]) for name in ("torch", "tensorrt-rtx-cu13")] == [
        "torch==2.13.0",
        "tensorrt_rtx_cu13==1.7.1.116",
    ]
    for texts in (
        PROJECT["dependencies"],
        EXTRAS["rtx"],
        EXTRAS["runtime"],
        EXTRAS["test"],
        EXTRAS["dev"],
        EXTRAS["models"],
    ):
        for name, requirement in named(texts).items():
            if name != "trtdsl":
                (pin,) = PINS[name].specifier
                assert pin.operator == "=="
                assert pin.version in requirement.specifier, f"{requirement} is pinned to {pin.version}"
    assert "-c constraints.txt" in (ROOT / "Makefile").read_text()


def test_the_wheel_has_the_whole_package():
    """Stubs and py.typed included: hatchling leaves out only what git ignores."""
    wheel = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
    assert wheel["packages"] == ["trtdsl"]
    assert set(wheel) == {"packages", "force-include"}
    assert all(place.startswith("trtdsl/cpp/") for place in wheel["force-include"].values())  # for export cpp
    ignored = (ROOT / ".gitignore").read_text().split()
    assert not [pattern for pattern in ignored if pattern.endswith((".typed", ".pyi", "trtdsl/"))]
