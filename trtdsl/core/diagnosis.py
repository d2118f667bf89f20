"""What is installed here and what this machine can do with it."""

from __future__ import annotations

import platform
import re
from importlib.metadata import PackageNotFoundError, distributions, version
from typing import Any

from .backend import INSTALL, MODULES, cuda_status, get_backend, installed
from .errors import BackendError, TrtdslError

PACKAGES = ("trtdsl", "torch", "numpy", "safetensors", "cuda-python", "tensorrt-rtx-cu13", "tensorrt")
TORCH_FAMILY = ("torchvision", "torchaudio")
_EXACT_TORCH = re.compile(r"torch\s*\(?==\s*([\w.+]+)")


def diagnose(backend: str | None = None) -> dict[str, Any]:
    """Versions of what trtdsl uses, the backends and what each can do here, and the CUDA device.

    >>> sorted(diagnose())
    ['abilities', 'backends', 'libraries', 'machine', 'misfits', 'packages']
    """
    backends: dict[str, str] = {}
    libraries: dict[str, str] = {}
    for name in MODULES:
        if not installed(name):
            backends[name] = f"not installed: {INSTALL[name]}"
            continue
        try:
            found = get_backend(name)
            backends[name] = found.version
            libraries[name] = found.library_file or "not known"
        except TrtdslError as error:
            backends[name] = error.message
    device = cuda_status()
    machine = {
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "CUDA device": "present" if device is None else f"none: {device}",
    }
    try:
        chosen = get_backend(backend)
        building = f"yes, with {chosen.name} {chosen.version}"
        if not chosen.builds_without_gpu and device is not None:
            building = f"no: {chosen.name} needs a GPU to build; use --backend tensorrt-rtx"
    except TrtdslError as error:
        building = f"no: {error.message}"
    abilities = {
        "define, check and build networks": building,
        "run engines": "yes" if device is None else f"no: {device}",
    }
    return {
        "machine": machine,
        "packages": {p: _version(p) for p in PACKAGES},
        "misfits": misfits(),
        "backends": backends,
        "libraries": libraries,
        "abilities": abilities,
    }


def misfits() -> dict[str, str]:
    """Installed packages with torch operators of their own that do not fit the installed torch, with what to install.

    Such a package requires one version of torch; those of torch's family are built for CUDA or for CPUs alone, too.
    Otherwise their operators are missing, and importing them fails far from the cause.
    """
    torch = _version("torch")
    base, _, build = torch.partition("+")
    found: dict[str, str] = {}
    installed = {each.name: each for each in reversed([*distributions()])}  # the first on the path counts
    for package, each in installed.items() if torch != "not installed" else ():
        own, pins = each.version, (_EXACT_TORCH.match(line) for line in each.requires or () if "extra ==" not in line)
        wanted = next((pin[1] for pin in pins if pin), base)
        if wanted.partition("+")[0] != base:
            found[package] = (
                f"{package} {own} is built for torch {wanted}, and torch {torch} is installed: "
                f"pip install torch=={wanted}"
            )
        elif package in TORCH_FAMILY and build == "cpu" and own.partition("+")[2] != "cpu":
            found[package] = (
                f"{package} {own} is built for CUDA and torch {torch} for CPUs alone: pip install "
                f"--force-reinstall torch {package} --index-url https://download.pytorch.org/whl/cpu"
            )
    return found


def cmake_options(backend: str | None = None) -> list[str]:
    """Options of CMake with which the C++ library links against the library that the Python package loads.

    Raises BackendError where that is not known.
    """
    found = get_backend(backend)
    if found.library_file is None:
        raise BackendError(f"it is not known where the library of {found.name} is: look into its Python package")
    return [f"-DTRTDSL_BACKEND={found.name}", f"-D{found.library_name}_LIBRARY={found.library_file}"]


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"
