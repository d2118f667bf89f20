"""What `trtdsl doctor` says of packages that do not fit each other."""

import sys

import pytest

from trtdsl.core import diagnosis
from trtdsl.core.author import authors_code
from trtdsl.core.errors import DefinitionError


@pytest.fixture
def installed(monkeypatch, tmp_path):
    """Installs packages alone, each with its version and what it requires."""

    def install(**packages):
        monkeypatch.setattr(sys, "path", [str(tmp_path)])
        for name, (version, *required) in packages.items():
            folder = tmp_path / f"{name}-{version}.dist-info"
            folder.mkdir()
            lines = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}"]
            (folder / "METADATA").write_text("\n".join([*lines, *(f"Requires-Dist: {each}" for each in required)]))

    return install


@pytest.mark.parametrize("package", ["torchvision", "torchaudio"])
@pytest.mark.parametrize(
    ("torch", "version", "required", "says"),
    [
        ("2.13.0+cpu", "0.28.0", "torch (==2.13.0)", "0.28.0 is built for CUDA and torch 2.13.0+cpu"),
        ("2.12.1", "0.28.0", "torch==2.13.0", "is built for torch 2.13.0, and torch 2.12.1 is installed: pip install"),
        ("2.13.0+cpu", "0.28.0+cpu", "torch==2.13.0", None),
        ("2.13.0", "0.28.0", "torch==2.13.0", None),
        ("2.13.0", "0.28.0", "torch>=2.4", None),
    ],
)
def test_packages_that_do_not_fit_torch(installed, package, torch, version, required, says):
    installed(torch=(torch,), **{package: (version, "numpy", required)})
    found = diagnosis.misfits()
    assert list(found) == ([package] if says else [])
    assert all(text.startswith(package) and says in text for text in found.values())


def test_any_package_that_is_built_for_another_torch_is_named_and_none_that_only_may_use_one(installed):
    installed(torch=("2.13.0",), torch_scatter=("2.1", "torch==2.12.0"), models=("1.0", "torch==2.1; extra == 'old'"))
    assert diagnosis.misfits() == {
        "torch_scatter": "torch_scatter 2.1 is built for torch 2.12.0, and torch 2.13.0 is installed: "
        "pip install torch==2.12.0"
    }


def test_nothing_fits_a_torch_that_is_not_there(installed):
    installed(torchvision=("0.28.0", "torch==2.13.0"))
    assert diagnosis.misfits() == {}


@pytest.mark.parametrize(
    ("error", "named"),
    [
        (RuntimeError("operator torchvision::nms does not exist"), ["torchvision"]),
        (OSError("Could not load this library: /site-packages/torchaudio/lib/_torchaudio.abi3.so"), ["torchaudio"]),
        (OSError("/site-packages/torchaudio/lib/libtorchaudio.so: undefined symbol: _ZNK3c1010"), ["torchaudio"]),
        (OSError("libcudart.so.13: cannot open shared object file: No such file"), ["torchvision", "torchaudio"]),
        (OSError("No such file or directory"), []),
    ],
)
def test_an_import_that_fails_for_it_names_the_package(installed, error, named):
    installed(torch=("2.13.0+cpu",), torchvision=("0.28.0", "torch==2.13.0"), torchaudio=("2.8.0", "torch==2.8.0"))
    with pytest.raises(DefinitionError) as raised, authors_code():
        raise error
    said = {"torchvision": "0.28.0 is built for CUDA", "torchaudio": "2.8.0 is built for torch 2.8.0"}
    assert [package for package in said if f"; {package} {said[package]}" in str(raised.value)] == named
