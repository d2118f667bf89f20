"""The program of an engine, a network or a file, at given sizes: finds the plan, and what its dimensions are called."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..compiling.compiler import Plan, compile_engine
from ..compiling.config import BuildConfig
from ..core.backend import Backend
from ..core.errors import EngineDamagedError, UsageError, nearest
from ..definition.network import Network
from ..definition.shape import Dim
from ..definition.size import SizeLike
from ..definition.spec import NetworkSpec, load_spec
from ..definition.tensor import Tensor
from ..definition.weights import Source
from ..programs.plan import read_plan
from ..programs.program import Program
from ..programs.reader import Given, make_program, plain
from .loader import read_engine_file, read_header
from .manifest import Manifest, manifest_path, read_manifest

Shapes = Mapping[str, Sequence[int]]


def program(
    source: NetworkSpec | Network | str | Path,
    *,
    dims: Mapping[str, int] | None = None,
    shapes: Shapes | None = None,
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
    shapes: Shapes | None = None,
    values: Mapping[str, int] | None = None,
    profile: int = 0,
) -> Program:
    """The program of a network that was compiled."""
    if not 0 <= profile < max(len(network.profiles), 1):
        raise UsageError(f"the network has {len(network.profiles)} profiles, and no profile {profile}")
    tuned = network.profiles[profile].at("opt") if network.profiles else {}
    sizes = _sizes(tuned, dims or {}, network.name)
    backend = network.backend
    texts = read_plan(plan.data, backend.name, backend.version, "the network's plan").of_profile(profile)
    handed = [name for text in texts for name in map(plain, text.names("inputs")) if name not in network.inputs]
    given = Given(
        {name: network.input_shape(name, sizes) for name in network.inputs} | dict(shapes or {}),
        sizes,
        {name: tensor.shape for name, tensor in network.inputs.items()},
        _values(network, handed, sizes) | dict(values or {}),
    )
    return make_program(
        texts,
        given,
        network=network.name,
        backend=f"{backend.name} {backend.version}",
        engine_bytes=len(plan.data),
    )


def _values(network: Network, handed: Sequence[str], sizes: Mapping[str, int]) -> dict[str, int]:
    """The values of the sizes that TensorRT computes outside the program and hands it, by which loops count."""
    if not handed:
        return {}
    known = {
        tensor.name: key[1].value(sizes)
        for key, tensor in network.cache.items()
        if isinstance(key, tuple) and key[0] == "size" and isinstance(tensor, Tensor)
    }
    definition, sources = network.definition, {}
    moved = ("SHUFFLE", "SQUEEZE", "UNSQUEEZE", "IDENTITY", "CAST")
    for layer in map(definition.get_layer, range(definition.num_layers)):
        if layer.type.name in moved:
            sources[layer.get_output(0).name] = layer.get_input(0).name
    found = {}
    for name in handed:
        source = name
        while source not in known and source in sources:
            source = sources.pop(source)
        if source in known:
            found[name] = known[source]
    return found


def _of_engine(
    path: Path, dims: Mapping[str, int], shapes: Shapes | None, values: Mapping[str, int] | None, profile: int
) -> Program:
    data = read_engine_file(path)
    header = read_header(data, str(path))
    manifest = read_manifest(path) if manifest_path(path).exists() else None
    if manifest is not None and hashlib.sha256(data).hexdigest() != manifest.sha256:
        raise EngineDamagedError(f"{path} is not the engine that its manifest describes: build it again")
    texts = read_plan(data, header.product, header.version, str(path)).of_profile(profile)
    if not texts:
        raise UsageError(f"{path} has no profile {profile}")
    if manifest is not None:
        given = _of_manifest(manifest, dims, profile)
    elif dims:
        raise UsageError(f"{path} has no manifest to name its dimensions: give the shapes of its inputs instead")
    else:
        given = Given({})
    return make_program(
        texts,
        replace(given, shapes={**given.shapes, **(shapes or {})}, values=values or {}),
        network=manifest.network if manifest is not None else path.name,
        backend=f"{header.product} {header.version}",
        engine_bytes=len(data),
    )


def _of_manifest(manifest: Manifest, dims: Mapping[str, int], profile: int) -> Given:
    """The sizes of the dimensions, and the shapes that they give the inputs."""
    facts: dict[str, Any] = manifest.facts["profiles"][profile]
    sizes = _sizes({name: bounds[1] for name, bounds in facts.get("dims", {}).items()}, dims, manifest.network)
    known = {name: Dim(name) for name in sizes}
    named = {
        name: tuple(size if isinstance(size, int) else _size(size, known) for size in tensor["shape"])
        for name, tensor in manifest.facts["inputs"].items()
    }
    shapes = {
        name: tuple(size if isinstance(size, int) else size.value(sizes) for size in shape)
        for name, shape in named.items()
    }
    return Given(shapes, sizes, named)


def _sizes(tuned: Mapping[str, int], given: Mapping[str, int], network: str) -> dict[str, int]:
    for name in given:
        if name not in tuned:
            there = ", ".join(tuned) or "none"
            raise UsageError(f"{network} has no dimension {name!r}: it has {there}{nearest(name, tuned)}")
    return {**tuned, **given}


def _size(text: str, dims: Mapping[str, Dim]) -> SizeLike:
    """A size as a manifest writes it: sums and products of dimensions and numbers."""

    def value(node: ast.expr) -> SizeLike:
        match node:
            case ast.Constant(value=int(number)):
                return number
            case ast.Name(id=name) if name in dims:
                return dims[name]
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
