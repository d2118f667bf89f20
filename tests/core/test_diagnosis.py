"""What `trtdsl doctor` says of packages that do not fit each other."""

import pytest

from trtdsl.core import diagnosis
from trtdsl.core.author import authors_code
from trtdsl.core.errors import DefinitionError


def installed(monkeypatch, versions, required):
    monkeypatch.setattr(diagnosis, "_version", lambda package: versions.get(package, "not installed"))
    monkeypatch.setattr(diagnosis, "requires", required.get)


@pytest.mark.parametrize(
    ("torch", "torchvision", "required", "says"),
    [
        ("2.13.0+cpu", "0.28.0", "torch (==2.13.0)", "torchvision 0.28.0 is built for CUDA and torch 2.13.0+cpu"),
        ("2.12.1", "0.28.0", "torch==2.13.0", "is built for torch 2.13.0, and torch 2.12.1 is installed: pip install"),
        ("2.13.0+cpu", "0.28.0+cpu", "torch==2.13.0", None),
        ("2.13.0", "0.28.0", "torch==2.13.0", None),
        ("2.13.0+cpu", "not installed", "torch==2.13.0", None),
        ("2.13.0", "0.28.0", "torch>=2.4", None),
    ],
)
def test_packages_that_do_not_fit_torch(monkeypatch, torch, torchvision, required, says):
    installed(monkeypatch, {"torch": torch, "torchvision": torchvision}, {"torchvision": ["numpy", required]})
    found = diagnosis.misfits()
    assert list(found) == (["torchvision"] if says else [])
    assert all(says in text for text in found.values())


def test_an_import_that_fails_for_it_says_so(monkeypatch):
    versions = {"torch": "2.13.0+cpu", "torchvision": "0.28.0"}
    installed(monkeypatch, versions, {"torchvision": ["torch==2.13.0"]})
    with (
        pytest.raises(DefinitionError, match="nms does not exist; torchvision 0.28.0 is built for CUDA"),
        authors_code(),
    ):
        raise RuntimeError("operator torchvision::nms does not exist")
