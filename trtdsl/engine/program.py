"""The program of an engine, a network or a file, at given sizes: finds the plan, and what its dimensions are called."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..compiling.compiler import Plan, compile_engine
from ..compiling.config import BuildConfig
from ..core.backend import Backend
from ..core.errors import EngineDamagedError, UsageError, nearest
from ..definition.network import Network
from ..definition.spec import NetworkSpec, load_spec
from ..definition.weights import Source
from ..programs.plan import read_plan
from ..programs.program import Program, make_program
from .loader import read_engine_file, read_header
from .manifest import Manifest, manifest_path, read_manifest

Shapes = dict[str, tuple[int, ...]]


def program(
    source: NetworkSpec | Network | str | Path,
    *,
    dims: Mapping[str, int] | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
    values: Mapping[str, int] | None = None,
    profile: int = 0,
    weights: Source | None = None,
    precision: str | None = None,
    backend: str | Backend | None = None,
    config: BuildConfig | None = None,
) -> Program:
    """What the GPU will run: every launch in order, the tensors that it reads and writes, and the memory.

    ``source`` is a network (built here, in memory), a network file (``FILE.py:NAME``) or an engine file. No GPU is
    needed: a plan of TensorRT-RTX holds its program as text, which is read and never guessed at.

    ``dims`` are sizes of the dynamic dimensions, by default those that the ``profile`` is tuned for; an engine without
    a manifest has no names for them, and takes the ``shapes`` of its inputs. Sizes inside are evaluated from the
    plan's own text, so that the program is that of the one engine for all sizes. ``values`` are those of integer inputs
    that a loop counts by, where the text leaves them open. ``weights``, ``precision``, ``backend`` and ``config`` are
    those of ``td.build``, for a network that is built here.

    Raises UnreadableProgramError for a plan of another product or version, ProgramDamagedError, UsageError for a
    dimension that is missing, not there or out of range, and what ``spec.define`` and the builder raise.

    >>> net = td.Network()
    >>> net.output(F.matmul(net.input("a", (64, 128)), net.input("b", (128, 32))), "y")
    >>> program = td.program(net)
    >>> program.launch_count, program.bytes == 4 * (64 * 128 + 128 * 32 + 64 * 32)
    (1, True)
    """
    if isinstance(source, (str, Path)) and ".py" not in Path(str(source).rpartition(":")[0] or str(source)).suffix:
        return _of_engine(Path(source), dims or {}, shapes, values, profile)
    if isinstance(source, (str, Path)):
        source = load_spec(str(source))
    if isinstance(source, NetworkSpec):
        source = source.define(weights=weights, precision=precision, backend=backend)
    return program_of_plan(
        compile_engine(source, config), source, dims=dims, shapes=shapes, values=values, profile=profile
    )


def program_of_plan(
    plan: Plan,
    network: Network,
    *,
    dims: Mapping[str, int] | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
    values: Mapping[str, int] | None = None,
    profile: int = 0,
) -> Program:
    """The program of a network that was compiled."""
    if not 0 <= profile < max(len(network.profiles), 1):
        raise UsageError(f"the network has {len(network.profiles)} profiles, and no profile {profile}")
    tuned = network.profiles[profile].at("opt") if network.profiles else {}
    sizes = _sizes(tuned, dims or {}, network.name)
    found = {name: network.input_shape(name, sizes) for name in network.inputs}
    backend = network.backend
    texts = read_plan(plan.data, backend.name, backend.version, "the network's plan").of_profile(profile)
    return make_program(
        texts,
        found | {name: tuple(shape) for name, shape in (shapes or {}).items()},
        network=network.name,
        backend=f"{backend.name} {backend.version}",
        dims=sizes,
        engine_bytes=len(plan.data),
        values=values,
    )


def _of_engine(
    path: Path,
    dims: Mapping[str, int],
    shapes: Mapping[str, Sequence[int]] | None,
    values: Mapping[str, int] | None,
    profile: int,
) -> Program:
    data = read_engine_file(path)
    header = read_header(data, str(path))
    manifest = read_manifest(path) if manifest_path(path).exists() else None
    if manifest is not None and hashlib.sha256(data).hexdigest() != manifest.sha256:
        raise EngineDamagedError(f"{path} is not the engine that its manifest describes: build it again")
    plan = read_plan(data, header.product, header.version, str(path))
    texts = plan.of_profile(profile)
    if not texts:
        raise UsageError(f"{path} has no profile {profile}")
    sizes: dict[str, int] = {}
    found: Shapes = {}
    if manifest is not None:
        sizes, found = _of_manifest(manifest, dims, profile)
    elif dims:
        raise UsageError(f"{path} has no manifest to name its dimensions: give the shapes of its inputs instead")
    return make_program(
        texts,
        found | {name: tuple(shape) for name, shape in (shapes or {}).items()},
        network=manifest.network if manifest is not None else path.name,
        backend=f"{header.product} {header.version}",
        dims=sizes,
        engine_bytes=len(data),
        values=values,
    )


def _of_manifest(manifest: Manifest, dims: Mapping[str, int], profile: int) -> tuple[dict[str, int], Shapes]:
    """The sizes of the dimensions, and the shapes that they give the inputs."""
    facts: dict[str, Any] = manifest.facts["profiles"][profile]
    ranges = facts.get("dims", {})
    sizes = _sizes({name: bounds[1] for name, bounds in ranges.items()}, dims, manifest.network)
    if not dims:
        return sizes, {name: shapes[1] for name, shapes in manifest.signature.profiles[profile].items()}
    return sizes, {
        name: tuple(size if isinstance(size, int) else _evaluate(size, sizes) for size in tensor["shape"])
        for name, tensor in manifest.facts["inputs"].items()
    }


def _sizes(tuned: Mapping[str, int], given: Mapping[str, int], network: str) -> dict[str, int]:
    for name in given:
        if name not in tuned:
            there = ", ".join(tuned) or "none"
            raise UsageError(f"{network} has no dimension {name!r}: it has {there}{nearest(name, tuned)}")
    return {**tuned, **given}


def _evaluate(text: str, sizes: Mapping[str, int]) -> int:
    """A size as a manifest writes it: sums and products of dimensions and numbers."""

    def value(node: ast.expr) -> int:
        match node:
            case ast.Constant(value=int(number)):
                return number
            case ast.Name(id=name) if name in sizes:
                return sizes[name]
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return -value(operand)
            case ast.BinOp(left=left, op=ast.Add() | ast.Sub() | ast.Mult() as operator, right=right):
                a, b = value(left), value(right)
                return a * b if isinstance(operator, ast.Mult) else a + b if isinstance(operator, ast.Add) else a - b
        raise UsageError(f"the manifest has a size {text!r} that is not made of its dimensions")

    try:
        return value(ast.parse(text, mode="eval").body)
    except (SyntaxError, ValueError, RecursionError):
        raise UsageError(f"the manifest has a size {text!r} that is not made of its dimensions") from None
