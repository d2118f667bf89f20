"""The program of an engine, a network or a file, at given sizes: finds the plan and the names of its dimensions."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from os import PathLike
from pathlib import Path
from typing import Any

from ..core.backend import Backend, get_backend, has_cuda_device
from ..core.cancel import Progress
from ..core.errors import BuildError, ProgramDamagedError, UsageError, nearest, noted
from ..core.files.names import is_file
from ..definition.network import Network
from ..definition.spec.load import NetworkLike, load_spec
from ..definition.spec.spec import NetworkSpec
from ..definition.weights.source import Source
from ..programs.handed import handed_sizes, parse_size
from ..programs.hazards import UNCOMPUTED
from ..programs.launches import DENSE
from ..programs.plan import SHAPE_INPUT, PlanTexts, ProgramText, plain, read_plan
from ..programs.program import Program
from ..programs.reader import Given, make_program
from ..sizes.dim import Dim
from ..sizes.profile import Range
from .compiling.compiler import Plan, compile_engine
from .compiling.config import BuildConfig
from .compiling.onnx import compile_onnx, parse_onnx
from .inspector import program_of_inspector
from .loading.loaded import Loaded
from .loading.loader import judge, read_engine_file, read_header
from .loading.manifest import Manifest, manifest_path, read_manifest

Shapes = Mapping[str, Sequence[int]]


@dataclass(frozen=True)
class At:
    """The sizes that a program is asked for."""

    dims: Mapping[str, int] = field(default_factory=dict)
    shapes: Shapes = field(default_factory=dict)
    values: Mapping[str, int] = field(default_factory=dict)
    profile: int = 0


def program(
    source: NetworkLike,
    *,
    dims: Mapping[str, Range] | None = None,
    shapes: Shapes | None = None,
    values: Mapping[str, int] | None = None,
    profile: int = 0,
    weights: Source | None = None,
    precision: str | None = None,
    backend: str | Backend | None = None,
    allow_nonfinite: bool = False,
    config: BuildConfig | None = None,
    progress: Progress | None = None,
) -> Program:
    """What the GPU will run: every launch in order, the tensors that it reads and writes, and the memory.

    ``source`` is a network (built here, in memory), a network file (``FILE.py:NAME``), an engine file, or an ONNX file,
    which TensorRT's own parser reads. No GPU is needed: a plan of TensorRT-RTX holds its program as text, which is read
    and never guessed. For an engine of TensorRT, its IEngineInspector gives the program, on a machine with a GPU.

    ``dims`` are sizes of the dynamic dimensions, by default those that the ``profile`` is tuned for; a range instead of
    a size sets the sizes that the engine is built for. An engine without a manifest has no names for them, and takes
    the ``shapes`` of its inputs, and of outputs whose sizes TensorRT computes outside of the text. The sizes inside are
    evaluated from the plan's own text, so that the program is that of the one engine for all sizes. ``values`` are
    numbers by name that the text leaves open: integer inputs that a loop counts by, and sizes. ``weights``,
    ``precision``, ``backend``, ``allow_nonfinite`` and ``config`` are those of ``td.build``, for what is built here.

    Raises UnreadableProgramError for a plan of another product or version, ProgramDamagedError, UsageError for a
    dimension that is missing, not there or out of range, and what ``spec.define`` and the builder raise.

    >>> net = td.Network()
    >>> net.output(F.matmul(net.input("a", (64, 128)), net.input("b", (128, 32))), "y")
    >>> program = td.program(net)
    >>> program.launch_count, program.bytes == 4 * (64 * 128 + 128 * 32 + 64 * 32)
    (1, True)
    """
    sizes = {name: size for name, size in (dims or {}).items() if isinstance(size, int)}
    ranges = {name: size for name, size in (dims or {}).items() if not isinstance(size, int)}
    at = At(sizes, shapes or {}, values or {}, profile)
    if isinstance(source, (str, PathLike)):
        path = Path(source)
        if _is_file(path, ".onnx"):
            return _of_onnx(path, at, get_backend(backend) if isinstance(backend, str | None) else backend, config)
        if not _is_file(path, ".py"):
            return program_of_engine(path, at)
        source = load_spec(str(source))
    if isinstance(source, NetworkSpec):
        ranges |= {name: size for name, size in sizes.items() if _open(source, name)}
        at = replace(at, dims={name: size for name, size in sizes.items() if name not in ranges})
        how = {"precision": precision, "backend": backend, "allow_nonfinite": allow_nonfinite}
        source = source.define(weights=weights, dims=ranges or None, **how)
    elif not isinstance(source, Network):
        raise UsageError(f"a program is that of a network, an engine's file or an ONNX file, not of {source!r}")
    elif ranges:
        raise UsageError("a network that is defined has its ranges: give sizes of its dimensions")
    made = program_of_plan(compile_engine(source, config, progress=progress), source, at)
    refuse_uncomputed(source, made)
    return made


def refuse_uncomputed(network: Network, program: Program) -> None:
    """BuildError where calls are to be in int8 or fp8, and the program computes nothing so."""
    calls = () if network.policy is None or network.policy.calls is None else network.policy.calls.sites
    narrow = [site for site in calls if site.scales]
    dtypes = {launch.dtype for launch in program.launches if launch.kind in DENSE}
    if narrow and dtypes and not any(dtype.startswith(("int8", "float8")) for dtype in dtypes):
        first = narrow[0]
        raise BuildError(
            f"{first.key.function} in {first.lowering} is computed in {', '.join(sorted(dtypes))} by the engine's "
            f"program, as each call of {network.name} is: use precision='fp16'. {UNCOMPUTED}",
            location=first.location,
        )


def programs_alike(
    sources: Sequence[NetworkLike],
    *,
    dims: Mapping[str, Range] | None = None,
    shapes: Shapes | None = None,
    **options: Any,
) -> list[Program]:
    """The programs of several sources at the same sizes, for a comparison.

    A dimension is given to the sources that have it; an ONNX file with dynamic sizes takes the shapes of the first
    other source's inputs, by name or else in their order. ``options`` are those of :func:`program`.

    Raises UsageError for a dimension that no source has, and the errors of :func:`program`.
    """
    dims, found = dict(dims or {}), dict[int, Program]()
    loaded = [load_spec(str(source)) if _is_file(source, ".py") else source for source in sources]
    known = [_dims_of(source) for source in loaded]
    for name in dims:
        if not any(names is None or name in names for names in known):
            raise UsageError(
                f"none of them has a dimension {name!r}{nearest(name, [n for k in known for n in k or ()])}"
            )
    order = sorted(range(len(loaded)), key=lambda index: _is_file(loaded[index], ".onnx"))
    for index in order:
        names, like = known[index], next(iter(found.values()), None)
        own = {name: size for name, size in dims.items() if names is None or name in names}
        given = shapes
        if _is_file(loaded[index], ".onnx") and like is not None and shapes is None:
            given, own = like.inputs, {}
        found[index] = program(loaded[index], dims=own, shapes=given, **options)
    return [found[index] for index in range(len(loaded))]


def _is_file(source: object, suffix: str) -> bool:
    return isinstance(source, (str, PathLike)) and Path(source).suffix.partition(":")[0] == suffix


def _dims_of(source: NetworkLike) -> Collection[str] | None:
    """The names of a source's dimensions; None where they are known only after reading it."""
    if isinstance(source, (NetworkSpec, Network)):
        return source.dims
    if _is_file(source, ".onnx") or not is_file(manifest_path(Path(source))):
        return None
    return {name for profile in read_manifest(Path(source)).profiles for name in profile.dims}


def _open(spec: NetworkSpec, name: str) -> bool:
    """Whether a dimension has no range of its own, so that it has one size."""
    return name in spec.dims and spec.dims[name].range is None


def texts_of_plan(plan: Plan, network: Network) -> PlanTexts:
    """The texts in the plan of a network that was compiled."""
    return read_plan(plan.data, network.backend.name, network.backend.version, "the network's plan")


def program_of_plan(plan: Plan, network: Network, at: At | None = None, texts: PlanTexts | None = None) -> Program:
    """The program of a network that was compiled; ``texts`` are those of its plan where they have been read."""
    at = at or At()
    profiles = network.profiles
    if not 0 <= at.profile < max(len(profiles), 1):
        raise UsageError(f"the network has {len(profiles)} profiles, and no profile {at.profile}")
    sizes = _sizes(profiles[at.profile].ranges if profiles else {}, at.dims, network.name)
    backend = network.backend
    texts = texts or texts_of_plan(plan, network)
    own, others = texts.of_profile(at.profile), texts.of_others(at.profile)
    shapes = {name: network.input_shape(name, sizes) for name in network.inputs}
    named = {name: tensor.shape for name, tensor in network.inputs.items()}
    given = _with(Given(shapes, sizes, named, handed_sizes(network, own)), at, own, network.name)
    made = make_program(own, given, network=network.name, backend=f"{backend.name} {backend.version}", others=others)
    return replace(made, engine_bytes=len(plan.data), build_seconds=plan.statistics.seconds)


def _of_onnx(path: Path, at: At, backend: Backend, config: BuildConfig | None) -> Program:
    """An ONNX file, built for one size of each dynamic dimension; its names are those of the file."""
    definition = parse_onnx(path, backend)
    shapes: dict[str, tuple[int, ...]] = {}
    missing = []
    inputs = [definition.get_input(index) for index in range(definition.num_inputs)]
    for tensor, given in zip(inputs, _in_order([tensor.name for tensor in inputs], at.shapes), strict=True):
        shape = list(given if given is not None and len(given) == len(tensor.shape) else tensor.shape)
        for axis, size in enumerate(shape):
            if size < 0:
                name = tensor.get_dimension_name(axis) or f"{tensor.name}.{axis}"
                shape[axis] = at.dims.get(name, -1)
                missing += [name] * (name not in at.dims)
        shapes[tensor.name] = tuple(shape)
    if missing:
        raise UsageError(f"{path} has dynamic dimensions: give sizes of {', '.join(dict.fromkeys(missing))}")
    ranges = {name: {"min": shape, "opt": shape, "max": shape} for name, shape in shapes.items()}
    plan = compile_onnx(path, backend, config, ranges)
    texts = read_plan(plan.data, backend.name, backend.version, str(path)).of_profile(0)
    made = make_program(
        texts, Given(shapes, at.dims, handed=at.values), network=path.name, backend=f"{backend.name} {backend.version}"
    )
    return replace(made, engine_bytes=len(plan.data), build_seconds=plan.statistics.seconds)


def _with(given: Given, at: At, texts: Sequence[ProgramText], network: str) -> Given:
    """With the shapes and values that a caller gave; UsageError for a name that the program does not have."""
    inputs = dict.fromkeys([*given.shapes, *(plain(name) for text in texts for name in text.names("inputs"))])
    outputs = dict.fromkeys(plain(name) for text in texts for name in text.names("outputs"))
    tensors = [name for name in inputs | outputs if not SHAPE_INPUT.fullmatch(name)]
    _refuse_unknown(at.shapes, tensors, "input or output", network)
    _refuse_unknown(at.values, inputs, "input", network)
    return replace(given, shapes={**given.shapes, **at.shapes}, handed={**given.handed, **at.values})


def _refuse_unknown(given: Iterable[str], names: Collection[str], what: str, network: str) -> None:
    for name in given:
        if name not in names:
            there = ", ".join(names) or "none"
            raise UsageError(f"{network} has no {what} {name!r}: it has {there}{nearest(name, names)}")


def _in_order(names: Sequence[str], shapes: Shapes) -> list[Sequence[int] | None]:
    """The shape of each input, by its name, or by its place where no name fits."""
    if any(name in shapes for name in names) or len(names) != len(shapes):
        return [shapes.get(name) for name in names]
    return list(shapes.values())


def program_of_engine(path: Path, at: At) -> Program:
    """The program of an engine's file. Raises what :func:`program` does, and NotAnEngineError for any other file."""
    with noted(ProgramDamagedError, f"in {path}"):
        return _of_engine(path, at)


def _of_engine(path: Path, at: At) -> Program:
    data = read_engine_file(path)
    header = read_header(data, str(path))
    manifest = read_manifest(path) if is_file(manifest_path(path)) else None
    judge(data, manifest, header, str(path))
    if manifest is not None:
        given = given_of_manifest(manifest, at.dims, at.profile)
    elif at.dims:
        raise UsageError(f"{path} has no manifest to name its dimensions: give the shapes of its inputs instead")
    else:
        given = Given({})
    name = manifest.network if manifest is not None else path.name
    if header.product == "tensorrt" and has_cuda_device():  # its plans hold no text, but TensorRT reports them here
        loaded = Loaded(data, get_backend("tensorrt"), 0, manifest=manifest, header=header)
        told = program_of_inspector(loaded.trt, loaded.backend.trt, {**given.shapes, **at.shapes})
        return replace(told, network=name, dims=dict(given.dims), engine_bytes=len(data))
    texts = read_plan(data, header.product, header.version, str(path))
    own, others = texts.of_profile(at.profile), texts.of_others(at.profile)
    if not own:
        raise UsageError(f"{path} has no profile {at.profile}")
    given = _with(given, at, own, name)
    made = make_program(own, given, network=name, backend=f"{header.product} {header.version}", others=others)
    source = None if manifest is None else manifest.source
    return replace(made, engine_bytes=len(data), file_sha256=None if source is None else source.sha256)


def replaced_inputs(network: Network) -> dict[str, str]:
    """The inputs that TensorRT overwrites, each with the output that takes its memory: caches that are updated."""
    definition, found = network.definition, {}
    for index in range(definition.num_layers):
        layer = definition.get_layer(index)
        if layer.type.name == "KV_CACHE_UPDATE":
            found[layer.get_input(0).name] = layer.get_output(0).name
    return {name: output for name, output in found.items() if name in network.inputs and output in network.outputs}


def given_of_manifest(manifest: Manifest, dims: Mapping[str, int], profile: int) -> Given:
    """The sizes of the dimensions, and the input shapes that follow from them."""
    if not 0 <= profile < len(manifest.profiles):
        raise UsageError(f"{manifest.network} has {len(manifest.profiles)} profiles, and no profile {profile}")
    sizes = _sizes(manifest.profiles[profile].dims, dims, manifest.network)
    known = {name: Dim(name) for name in sizes}
    named = {
        name: tuple(size if isinstance(size, int) else parse_size(size, known) for size in tensor.shape)
        for name, tensor in manifest.inputs.items()
    }
    shapes = {
        name: tuple(size if isinstance(size, int) else size.value(sizes) for size in shape)
        for name, shape in named.items()
    }
    handed = {name: parse_size(size, known) for name, size in manifest.program.handed.items()}
    return Given(shapes, sizes, named, handed)


def _sizes(ranges: Mapping[str, Sequence[int]], given: Mapping[str, int], network: str) -> dict[str, int]:
    """The sizes that are given, and of the other dimensions those that the profile is tuned for."""
    _refuse_unknown(given, ranges, "dimension", network)
    for name, size in given.items():
        low, _, high = ranges[name]
        if not low <= size <= high:
            raise UsageError(f"{name} = {size} is not within {low} to {high}, for which {network} is built")
    return {**{name: bounds[1] for name, bounds in ranges.items()}, **given}
