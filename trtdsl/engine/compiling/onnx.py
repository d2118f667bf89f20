"""ONNX files by TensorRT's own parser: the road that trtdsl is measured against."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ...core.backend import Backend
from ...core.errors import BuildError, UsageError
from ...core.files.names import check_is_file
from .compiler import Plan, compile_definition
from .config import BuildConfig

Ranges = Mapping[str, Mapping[str, Any]]
"""For every input its shape at ``min``, ``opt`` and ``max``."""


def parse_onnx(path: str | Path, backend: Backend) -> Any:
    """The ``INetworkDefinition`` of an ONNX file. Raises UsageError, BuildError with the parser's words."""
    path = Path(path)
    check_is_file(path, f"no ONNX file {path}")
    if not path.stat().st_size:  # of Linux's own files some would have the parser wait
        raise UsageError(f"the ONNX file {path} is empty")
    with backend.listen() as messages:
        definition = backend.create_network()
        parser = backend.trt.OnnxParser(definition, backend.logger)
        parsed = parser.parse_from_file(str(path))
    if not parsed:
        raise BuildError(f"TensorRT's parser does not take {path}: {messages.summary()}")
    return definition


def compile_onnx(
    path: str | Path, backend: Backend, config: BuildConfig | None = None, ranges: Ranges | None = None
) -> Plan:
    """The engine of an ONNX file, with one profile of these ranges where its sizes are dynamic.

    Raises UsageError, BuildError.
    """
    definition = parse_onnx(path, backend)
    plan, messages = compile_definition(definition, backend, [ranges] if ranges else [], config)
    if plan is None:
        raise BuildError(f"TensorRT does not build {path}: {messages.summary()}")
    return plan
