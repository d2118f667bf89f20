"""New weights for an engine that was built: derived as the network derives them, and checked before TensorRT gets them.

An engine holds not the weights of the state_dict but values computed from them: a batch norm folded into a convolution,
an adjacency times its importance. The network's definition computes these values, so it is run again with the new
weights. If its structure (every layer, name, operand and attribute except the weights' values) is the one that the
engine was built from, each layer of the engine takes the value of the layer of the same name. Where the network's file
is not available, values derived elsewhere (:func:`derive_weights`, ``trtdsl weights derive``) are taken instead.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ..core.backend import Backend
from ..core.caller import option
from ..core.dtypes import dtype_name
from ..core.errors import ExecutionError, UnsupportedError, UsageError, WeightsError
from ..core.files.names import is_file
from ..core.files.writing import Kind, check_writable, write_atomically
from ..core.lazy import np, torch
from ..definition.network import Network
from ..definition.spec.load import load_spec
from ..definition.spec.spec import NetworkSpec
from ..definition.tuning.choices import Choices, SiteKey
from ..definition.tuning.precisions import Precisions
from ..definition.weights.source import Source, Weights
from ..interpreter.fingerprint import fingerprint
from ..layers.constant import read_weights
from ..layers.evaluation import Node, read_nodes, weights_of
from ..sizes.profile import Range
from .loading.manifest import Refit

PRECISIONS = {"float16": "fp16", "bfloat16": "bf16"}

DERIVED = "trtdsl-derived"  # the safetensors metadata of a file of derived weights

DERIVED_WEIGHTS = Kind("a file of derived weights", rf'.{{8}}\{{"__metadata__":\{{"{DERIVED}":')

Values = dict[str, "torch.Tensor"]
"""By ``LAYER:ROLE``, flat, in the dtype that the layer has."""


def layer_values(network: Network) -> Values:
    """The weights of every layer that has some."""
    return {f"{node.name}:{role}": value for node, role, value in _weights_of(network.definition, network.backend)}


def _weights_of(definition: Any, backend: Backend) -> Iterator[tuple[Node, str, torch.Tensor]]:
    for node in read_nodes(backend, definition):
        for attribute, role in weights_of(node).items():
            if not role:
                continue
            weights = getattr(node.layer, attribute)
            if isinstance(weights, np.ndarray) and weights.size:
                yield node, role, torch.from_numpy(weights.reshape(-1).copy())
            elif not isinstance(weights, np.ndarray) and weights.size:
                dtype = backend.torch_dtype(weights.dtype)
                if dtype_name(dtype) in ("int4", "float4_e2m1fn_x2"):
                    raise UnsupportedError(f"layer {node.name!r} has {dtype} weights: build without refit")
                yield node, role, read_weights(backend, weights, (weights.size,), dtype).clone()


def structure(network: Network) -> str:
    """A hash of the network without the values of its weights: networks of equal hashes take each other's weights."""
    return fingerprint(network.definition, network.backend, values=False)


def values_hash(values: Values) -> str:
    """SHA-256 over names and values."""
    digest = hashlib.sha256()
    for name in sorted(values):
        digest.update(f"{name} {values[name].dtype}".encode())
        digest.update(values[name].contiguous().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def recipe(
    spec: NetworkSpec, network: Network, engine: Path, dims: Mapping[str, Range] | None, weights: Weights | None
) -> dict[str, Any]:
    """The manifest's entry on how the weights of a refittable engine are derived."""
    file = None if spec.file is None else _from_engine(spec.file, engine)
    names = sorted(weights.shapes) if weights is not None else []
    followed, calls = (None, None) if network.policy is None else (network.policy.autocast, network.policy.calls)
    return {
        "network": None if file is None else f"{file}:{spec.name_in_file}",
        **({"settings": _settings(spec, engine)} if spec.maker is not None else {}),
        "precision": None if followed is None else PRECISIONS[dtype_name(followed)],
        "dims": {name: given if isinstance(given, int) else list(given) for name, given in (dims or {}).items()},
        "lowerings": [[*site.key, site.lowering] for site in network.choices.sites if site.differs],
        "precisions": [] if calls is None else [[*site.key, site.lowering, site.scales] for site in calls.sites],
        "structure_sha256": structure(network),
        "values_sha256": values_hash(layer_values(network)),
        "weights": names,
        "expected": {} if weights is None else {n: [list(weights.shapes[n]), weights.dtypes[n]] for n in names},
        "values": {name: [value.numel(), dtype_name(value.dtype)] for name, value in layer_values(network).items()},
    }


def _from_engine(file: Path, engine: Path) -> str:
    """A file as it is found from the engine's folder."""
    return Path(os.path.relpath(file.resolve(), engine.resolve().parent)).as_posix()


def _settings(spec: NetworkSpec, engine: Path) -> dict[str, Any]:
    """The settings of a network in JSON: a path as ``{"file": …}``."""
    return {
        name: {"file": _from_engine(value, engine)} if isinstance(value, Path) else value
        for name, value in spec.settings.items()
    }


def derive_weights(
    spec: NetworkSpec,
    weights: Source | None,
    *,
    dims: Mapping[str, Range] | None = None,
    precision: str | None = None,
    backend: str | Backend | None = None,
    output: str | os.PathLike[str] | None = None,
) -> Values:
    """The value of every layer of a network with these weights; ``output`` is a safetensors file to write them to.

    :meth:`Engine.refit` takes that file where the network's own file is not available. Raises the errors of
    ``spec.define``, and UsageError, before any work is done, for an ``output`` that cannot be written.
    """
    target = None if output is None else check_writable(output, DERIVED_WEIGHTS, spec.reads(weights))
    opened = spec.open_weights(weights)
    network = spec.define(weights=opened, dims=dims, precision=precision, backend=backend)
    values = layer_values(network)
    if opened is not None:
        opened.check_unchanged()
    if target is not None:
        from safetensors.torch import save

        write_atomically(target, save(values, metadata={DERIVED: structure(network)}))
    return values


def new_values(
    facts: Refit,
    weights: Source,
    *,
    backend: Backend,
    folder: Path,
    network: str | None = None,
    trust_network_file: bool = False,
) -> Values:
    """The values for an engine whose manifest has ``facts`` under "refit", derived from ``weights``.

    ``weights`` is a safetensors file (or mapping) with the names of the state_dict, or a file of derived ones.
    ``network`` is the network's ``FILE.py:NAME``; without it, the one that the manifest names, found from the engine's
    ``folder``, which is Python that is run only with ``trust_network_file``.

    Raises WeightsError with every missing, misshapen or unknown weight at once, or when the network is not the one that
    the engine was built from; UsageError when the network's file is missing, or must not be run.
    """
    opened = Weights(weights)
    derived = _derived(opened)
    if derived is not None:
        found, values = derived
    else:
        opened.check(
            {name: (tuple(shape), dtype) for name, (shape, dtype) in facts.expected.items()}, allow_nonfinite=True
        )
        lowerings, precisions = (
            {SiteKey(*each[:5]): each[5] for each in given} for given in (facts.lowerings, facts.precisions)
        )
        scales = {SiteKey(*each[:5]): each[6] for each in facts.precisions}
        precision = Precisions(precisions, scales) if precisions else facts.precision
        defined = (
            _spec(facts, folder, network, trust_network_file)
            .tuned(Choices(lowerings))
            .define(
                weights=opened,
                dims=facts.dims,  # type: ignore[arg-type]
                profiles=(),  # they do not change the layers
                precision=precision,
                backend=backend,
            )
        )
        found, values = structure(defined), layer_values(defined)
    opened.check_unchanged()
    if found != facts.structure_sha256:
        raise WeightsError(
            "the network is not the one that the engine was built from: its layers differ. Build the engine again"
        )
    if facts.identical and values_hash(values) != facts.values_sha256:
        raise WeightsError(
            "the engine was built without its weights and for these alone: with others its results are undefined. "
            f"Build it with {option('refit')} to give it new ones"
        )
    return values


def _derived(opened: Weights) -> tuple[str, Values] | None:
    """Structure and values of a file of derived weights; None for any other source."""
    found = (opened.metadata() or {}).get(DERIVED)
    return None if found is None else (found, {name: opened.get(name) for name in opened.shapes})


def _spec(facts: Refit, folder: Path, network: str | None, trusted: bool) -> NetworkSpec:
    place = network
    if place is None and facts.network is not None:
        place = os.path.normpath(folder / facts.network)
    file = (place or "").rpartition(":")[0] or place or ""
    if not file or not is_file(file):
        raise UsageError(
            f"the network's file {file or '(none)'} is not here, and new weights are made with it: say where with "
            "network='FILE.py', or derive them where it is with `trtdsl weights derive`"
        )
    if network is None and not trusted:
        raise UsageError(
            f"the manifest says that {place} makes the engine's weights. That is Python, and a manifest's word is not "
            f"enough to run it: say {option('trust_network_file')}, or derive "
            "the weights elsewhere with `trtdsl weights derive`"
        )
    settings = facts.settings or {}
    return load_spec(
        place or "",
        {name: folder / given["file"] if isinstance(given, dict) else given for name, given in settings.items()},
    )


def check_against(refittable: Mapping[str, tuple[int, str] | None], values: Values) -> None:
    """Compares ``values`` with every weight that an engine takes, by ``LAYER:ROLE`` with its size and dtype.

    Raises WeightsError that names all values that are missing or of another size or dtype.
    """
    problems = [f"{name}: missing" for name in refittable if name not in values]
    for name, known in refittable.items():
        if known and name in values:
            count, dtype = values[name].numel(), dtype_name(values[name].dtype)
            problems += [f"{name}: has {count} elements, not {known[0]}"] if count != known[0] else []
            problems += [f"{name}: is {dtype}, not {known[1]}"] if dtype != known[1] else []
    if problems:
        raise WeightsError("the engine takes other weights:\n" + "\n".join(f"  {line}" for line in sorted(problems)))


def apply(engine: Any, backend: Backend, values: Values, known: Mapping[str, tuple[int, str]]) -> None:
    """Refits a deserialized engine. Raises WeightsError for missing values, ExecutionError with TensorRT's message."""
    trt = backend.trt
    with backend.listen() as messages:
        refitter = trt.Refitter(engine, backend.logger)
        layers, roles = refitter.get_all()
        wanted = {f"{layer}:{role.name}": (layer, role) for layer, role in zip(layers, roles, strict=True)}
        check_against({name: known.get(name) for name in wanted}, values)
        kept, refused = [], []
        for name, (layer, role) in wanted.items():
            value = values[name].contiguous()
            kept.append(value)
            weights = trt.Weights(backend.data_type(value.dtype), value.data_ptr(), value.numel())
            if not refitter.set_weights(layer, role, weights):
                refused.append(name)
        if refused:
            raise WeightsError(f"TensorRT refuses the new weights of {', '.join(refused)}: {messages.summary()}")
        if not refitter.refit_cuda_engine():
            raise ExecutionError(f"TensorRT did not take the new weights: {messages.summary()}")
