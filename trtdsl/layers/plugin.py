"""PLUGIN_V2 and PLUGIN_V3: layers of a library outside TensorRT, found in its registry by name and version."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..core.backend import Backend
from ..core.caller import option
from ..core.errors import DefinitionError, UnsupportedError, nearest
from ..definition.input import PluginUse
from ..definition.operation import operation, require_network
from .common import Evaluate, Node, Tensor, add_layer, evaluates, np, torch

FIELD_TYPES = "FLOAT16", "FLOAT32", "FLOAT64", "INT8", "INT16", "INT32", "INT64", "CHAR"
"""Of PluginFieldType texts, and the numbers that numpy has, under its names for them."""


@operation
def plugin(
    name: str,
    inputs: Tensor | Sequence[Tensor],
    version: str = "1",
    namespace: str = "",
    *,
    fields: Mapping[str, Any] | None = None,
    shape_inputs: Sequence[Tensor] = (),
    shape: Sequence[Any] | None = None,
    evaluate: Evaluate | None = None,
) -> Any:
    """A plugin by the name and version of its creator in TensorRT's registry: one IPluginV3Layer or IPluginV2Layer.

    ``fields`` are the plugin's parameters: numbers, texts, lists or arrays, in the types that the creator declares, or
    else float32, int32 and text. ``shape_inputs`` are shape tensors beside the ``inputs`` (of a V3 plugin). ``shape``
    is the output's in the author's dimensions (a list of tuples: each output's), for sizes that TensorRT leaves open.
    ``evaluate`` computes the output, or a tuple of them, from torch tensors: a check interprets the layer with it, and
    so believes it; without one the network cannot be checked by the interpreter.

    The library that has the plugin is loaded before, as with ``trt.get_plugin_registry().load_library(path)``.
    TensorRT-RTX has no plugins in its networks.

    Raises UnsupportedError where the backend has no plugins, DefinitionError for a creator that is not registered (with
    the nearest ones) and for fields that it does not take.
    """
    operands = [inputs] if isinstance(inputs, Tensor) else list(inputs)
    network = require_network(*operands, *shape_inputs)
    backend = network.backend
    if not (hasattr(network.target.definition, "add_plugin_v3") or hasattr(network.target.definition, "add_plugin_v2")):
        raise UnsupportedError(
            f"{backend.name} {backend.version} has no plugins in its networks: write {name} with trtdsl.functional, or "
            f"build for standard TensorRT ({option('backend', 'tensorrt')})"
        )
    creator = find_creator(backend, name, version, namespace)
    values = field_values(backend, creator, fields or {})
    made = make_plugin(backend, creator, name, values)
    is_v2 = isinstance(made, backend.trt.IPluginV2)
    if is_v2 and shape_inputs:
        raise DefinitionError(f"the plugin {name} (version {version}) is of V2, which takes no shape_inputs")

    def add(target: Any, *handles: Any) -> Any:
        first, rest = list(handles[: len(operands)]), list(handles[len(operands) :])
        if is_v2:
            return target.definition.add_plugin_v2(first, made)
        return target.definition.add_plugin_v3(first, rest, made)

    facts = {key: (kind, data.tolist()) for key, (kind, data) in values.items()}
    used = PluginUse(name, version, namespace, facts, evaluate)
    result = add_layer(add, *operands, *shape_inputs, network=network, fold=False, plugin=used)
    results = result if isinstance(result, tuple) else (result,)
    for each, sizes in zip(results, shape if isinstance(shape, list) else [shape]):
        if sizes is not None:
            each.shape = tuple(
                known if isinstance(known, int) else ours for known, ours in zip(each.shape, sizes, strict=True)
            )
    return result


def find_creator(backend: Backend, name: str, version: str, namespace: str = "") -> Any:
    """The creator in the registry; DefinitionError with those that there are."""
    registry = backend.trt.get_plugin_registry()
    with backend.listen():
        creator = registry.get_creator(name, version, namespace)
        if creator is None:  # TensorRT's own are registered when they are asked for
            backend.trt.init_libnvinfer_plugins(backend.logger, namespace)
            creator = registry.get_creator(name, version, namespace)
    if creator is not None:
        return creator
    there = registry.all_creators
    versions = [each.plugin_version for each in there if each.name == name and each.plugin_namespace == namespace]
    if versions:
        raise DefinitionError(
            f"the plugin {name} has the version{'s' * (len(versions) > 1)} {', '.join(versions)}, not {version}"
        )
    names = sorted({each.name for each in there})
    hint = nearest(name, names) or (f": there are {', '.join(names)}" if 0 < len(names) <= 12 else "")
    raise DefinitionError(
        f"no plugin {name!r} (version {version}{f', namespace {namespace}' * bool(namespace)}) is registered{hint}; "
        "load its library first, with trt.get_plugin_registry().load_library(…)"
    )


def field_values(backend: Backend, creator: Any, fields: Mapping[str, Any]) -> dict[str, tuple[str, Any]]:
    """By name, the type and the data of each field, as the creator declares it; DefinitionError for another.

    A creator that declares no fields takes any.
    """
    declared = {field.name: field.type.name for field in creator.field_names}
    found = {}
    for name, value in fields.items():
        if declared and name not in declared:
            raise DefinitionError(
                f"the plugin {creator.name} has no field {name!r}{nearest(name, declared)}: "
                f"it has {', '.join(declared)}"
            )
        kind = declared.get(name, "UNKNOWN")
        found[name] = _field(creator.name, name, value, _inferred(value) if kind == "UNKNOWN" else kind)
    return found


def _inferred(value: Any) -> str:
    """The type of a field that its creator does not declare."""
    if isinstance(value, (str, bytes)):
        return "CHAR"
    if isinstance(value, (np.ndarray, np.generic, torch.Tensor)):
        return str(np.asarray(value).dtype).upper()
    return "FLOAT32" if np.asarray(value).dtype.kind == "f" else "INT32"


def _field(plugin: str, name: str, value: Any, kind: str) -> tuple[str, Any]:
    """The type and the data of one field; DefinitionError where the value does not fit it."""
    if kind not in FIELD_TYPES:
        raise DefinitionError(f"the plugin {plugin}: a field of type {kind}, as {name} is, cannot be given from here")
    if kind == "CHAR":
        if not isinstance(value, (str, bytes)):
            raise DefinitionError(f"the plugin {plugin}: the field {name} is a text, not {value!r}")
        data = value.encode() if isinstance(value, str) else value
        return kind, np.frombuffer(data, dtype=np.int8).copy()
    dtype = np.dtype(kind.lower())
    try:
        given = np.asarray(value)
        if given.dtype.kind not in "biuf":
            raise ValueError
        data = np.ascontiguousarray(given.reshape(-1).astype(dtype))
    except (TypeError, ValueError):
        raise DefinitionError(f"the plugin {plugin}: the field {name} is {kind.lower()}, not {value!r}") from None
    if dtype.kind == "i" and not np.array_equal(data, given.reshape(-1)):
        raise DefinitionError(f"the plugin {plugin}: the field {name} is {kind.lower()}, which {value!r} does not fit")
    return kind, data


def make_plugin(backend: Backend, creator: Any, name: str, values: Mapping[str, tuple[str, Any]]) -> Any:
    """The plugin that a creator makes of these fields; DefinitionError with TensorRT's message where it makes none."""
    trt = backend.trt
    kinds = trt.PluginFieldType.__members__
    collection = trt.PluginFieldCollection(
        [trt.PluginField(field, data, kinds[kind]) for field, (kind, data) in values.items()]
    )
    with backend.listen() as messages:
        if isinstance(creator, trt.IPluginCreatorV3One):
            made = creator.create_plugin(name, collection, trt.TensorRTPhase.BUILD)
        else:
            made = creator.create_plugin(name, collection)
    if made is None:
        given = ", ".join(values) or "no fields"
        raise DefinitionError(f"the creator of the plugin {name} makes none of {given}: {messages.summary()}")
    return made


@evaluates("PLUGIN_V2", fp8="takes constants gives")
@evaluates("PLUGIN_V3", fp8="takes constants gives")
def _plugin(node: Node) -> Evaluate:
    """What the author says that the plugin computes: ``L.plugin(…, evaluate=…)``."""
    if node.given is None:
        raise node.unsupported("a plugin without an evaluator, L.plugin(…, evaluate=…),")
    return node.given
