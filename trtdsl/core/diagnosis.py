"""What is installed here and what this machine can do with it."""

from __future__ import annotations

import platform
from typing import Any

from .backend import INSTALL, MODULES, cuda_status, get_backend, installed
from .errors import BackendError, TrtdslError

PACKAGES = ("trtdsl", "torch", "numpy", "safetensors", "cuda-python", "tensorrt-rtx-cu13", "tensorrt")


def diagnose(backend: str | None = None) -> dict[str, Any]:
    """Versions of what trtdsl uses, the backends and what each can do here, and the CUDA device.

    >>> sorted(diagnose())
    ['abilities', 'backends', 'libraries', 'machine', 'packages']
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
        "backends": backends,
        "libraries": libraries,
        "abilities": abilities,
    }


def cmake_options(backend: str | None = None) -> list[str]:
    """Options of CMake with which the C++ library links against the library that the Python package loads.

    Raises BackendError where that is not known.
    """
    found = get_backend(backend)
    if found.library_file is None:
        raise BackendError(f"it is not known where the library of {found.name} is: look into its Python package")
    return [f"-DTRTDSL_BACKEND={found.name}", f"-D{found.library_name}_LIBRARY={found.library_file}"]


def _version(package: str) -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"
