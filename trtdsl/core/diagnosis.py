"""What is installed here and what this machine can do with it."""

from __future__ import annotations

import platform
from typing import Any

from .backend import INSTALL, MODULES, cuda_status, get_backend, installed
from .errors import TrtdslError

PACKAGES = ("trtdsl", "torch", "numpy", "safetensors", "cuda-python", "tensorrt-rtx-cu13", "tensorrt")


def diagnose(backend: str | None = None) -> dict[str, Any]:
    """Versions of what trtdsl uses, the backends and what each can do here, and the CUDA device.

    >>> sorted(diagnose())
    ['abilities', 'backends', 'machine', 'packages']
    """
    backends: dict[str, str] = {}
    for name in MODULES:
        if not installed(name):
            backends[name] = f"not installed: {INSTALL[name]}"
            continue
        try:
            backends[name] = get_backend(name).version
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
        "abilities": abilities,
    }


def _version(package: str) -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"
