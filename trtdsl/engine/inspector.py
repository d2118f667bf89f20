"""The program of an engine from TensorRT's own report, for engines whose plans hold no text. It needs a GPU.

``IEngineInspector`` gives JSON, with operands where the engine was built with ``profiling_verbosity="detailed"``. The
fields are those that NVIDIA documents and shows (TensorRT 8.4 to 11); this has not been run on a device yet.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from ..core.caller import option
from ..core.errors import ProgramDamagedError, UnreadableProgramError, UsageError
from ..programs.launches import Kind, places_of
from ..programs.plan import BITS, DTYPES
from ..programs.program import Launch, Operand, Program, ProgramTensor

# The word of a dtype within "Row major linear FP32" or "Channel major FP16 format where channel % 8 == 0".
WORDS = {
    "fp32": "float", "float": "float", "fp16": "half", "half": "half", "bf16": "bf16", "bfloat16": "bf16",
    "int8": "int8", "int32": "int32", "int64": "int64", "bool": "bool", "uint8": "uint8", "fp8": "fp8",
    "fp4": "fp4", "int4": "int4",
}  # fmt: skip
WORD = re.compile("|".join(sorted(WORDS, key=len, reverse=True)), re.IGNORECASE)

KINDS: tuple[tuple[str, Kind], ...] = (
    ("attention", "attention"), ("mha", "attention"), ("deconv", "convolution"), ("conv", "convolution"),
    ("gemm", "product"), ("matmul", "product"), ("matrixmultiply", "product"), ("fullyconnected", "product"),
    ("pool", "pooling"), ("resize", "resize"), ("reformat", "rearranging"), ("shuffle", "rearranging"),
    ("concat", "rearranging"), ("slice", "rearranging"), ("softmax", "reduction"), ("reduce", "reduction"),
    ("topk", "reduction"), ("normalization", "reduction"), ("cast", "cast"), ("pointwise", "pointwise"),
    ("elementwise", "pointwise"), ("activation", "pointwise"), ("unary", "pointwise"), ("kgen", "pointwise"),
)  # fmt: skip
"""By what a layer's type contains, the first that fits."""
QUIET = ("noop", "constant", "signal", "wait", "shapehosttodevice", "shape_call")


def program_of_inspector(engine: Any, trt: Any, shapes: Mapping[str, Sequence[int]] | None = None) -> Program:
    """The program of a deserialized ``ICudaEngine``; ``shapes`` are those of its dynamic inputs.

    Raises UnreadableProgramError for an engine that was not built with detailed profiling verbosity.
    """
    inspector = engine.create_engine_inspector()
    if shapes:
        context = engine.create_execution_context()
        for name, shape in shapes.items():
            context.set_input_shape(name, tuple(shape))
        inspector.execution_context = context
    report = inspector.get_engine_information(trt.LayerInformationFormat.JSON)
    memory = getattr(engine, "device_memory_size_v2", None) or getattr(engine, "device_memory_size", 0)
    return program_of_report(report, network=engine.name, backend=f"tensorrt {trt.__version__}", memory=memory)


def program_of_report(report: str, *, network: str = "", backend: str = "tensorrt", memory: int = 0) -> Program:
    """The program in the JSON that ``IEngineInspector`` gives.

    Raises ProgramDamagedError for anything but such JSON, UnreadableProgramError for a report of names alone,
    UsageError where sizes are not known.
    """
    try:
        facts = json.loads(report)
        layers = facts["Layers"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise ProgramDamagedError("the inspector's report is not the JSON that TensorRT documents") from None
    if not isinstance(layers, list) or not all(isinstance(layer, dict) and "Name" in layer for layer in layers):
        raise UnreadableProgramError(
            "the engine tells only the names of its layers: build it with " + option("profiling_verbosity", "detailed")
        )
    bound = _bound(facts)
    tensors: dict[str, ProgramTensor] = {}
    launches: list[Launch] = []
    for layer in layers:
        named = str(layer.get("LayerType", "")).lower().replace("_", "")
        if any(word.replace("_", "") in named for word in QUIET):
            continue
        reads = [_operand(tensor, bound, tensors) for tensor in _listed(layer, "Inputs")]
        writes = [_operand(tensor, bound, tensors) for tensor in _listed(layer, "Outputs")]
        reads += [operand for key in ("Weights", "Bias") if (operand := _weights(layer, key, tensors)) is not None]
        lines, scopes = places_of(str(layer.get("Metadata") or ""))
        first = next((tensors[operand.tensor].dtype for operand in (*reads, *writes)), "")
        kind: Any = next((found for word, found in KINDS if word in named), "other")
        launches.append(
            Launch(
                len(launches), kind, str(layer["Name"]),
                tuple(reads), tuple(writes), 1, None, first, (), (), int(layer.get("StreamId") or 0), lines, scopes,
            )
        )  # fmt: skip
    inputs = {name: tensors[name].shape for name in bound if name in tensors and bound[name] != "output"}
    outputs = tuple(name for name in bound if bound[name] == "output")
    note = "FLOPs and loops are not in the inspector's report: each layer counts once"
    return Program(
        network, backend, "engine inspector", {}, inputs, outputs, tuple(launches), tensors, (), memory, False,
        notes=(note,),
    )  # fmt: skip


def _bound(facts: Mapping[str, Any]) -> dict[str, str]:
    """The network's inputs and outputs: ``I/O Tensors`` since TensorRT 11, names alone in ``Bindings`` before."""
    told = facts.get("I/O Tensors")
    if isinstance(told, list):
        return {str(each["Name"]): str(each.get("IOMode", "")).lower() for each in told if isinstance(each, dict)}
    bindings = facts.get("Bindings")
    return {str(name): "" for name in bindings} if isinstance(bindings, list) else {}


def _listed(layer: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
    found = layer.get(key, [])
    if not isinstance(found, list) or not all(isinstance(tensor, dict) for tensor in found):
        raise ProgramDamagedError(f"the inspector's report has no list of tensors where {key} is one")
    return [tensor for tensor in found if str(tensor.get("Location", "Device")).lower() == "device"]


def _operand(tensor: Mapping[str, Any], bound: Mapping[str, str], tensors: dict[str, ProgramTensor]) -> Operand:
    name = str(tensor.get("Name", ""))
    shape = tensor.get("Dimensions")
    words = " ".join(str(tensor.get(key, "")) for key in ("DataType", "Datatype", "Format/Datatype", "Format"))
    dtype = WORD.search(words)
    if not isinstance(shape, list) or not all(isinstance(size, int) for size in shape) or dtype is None:
        raise ProgramDamagedError(f"the inspector's report does not tell the shape and the dtype of {name!r}")
    if any(size < 0 for size in shape):
        raise UsageError(f"the size of {name!r} is open: give the shapes of the engine's inputs")
    word = WORDS[dtype[0].lower()]
    size = (math.prod(shape) * BITS[word] + 7) // 8
    last = len(shape) - 1
    order = (0, *range(2, last + 1), 1) if re.search("channel|HWC|NHWC", words) and last > 1 else tuple(range(last + 1))
    tensors.setdefault(
        name,
        ProgramTensor(
            name, tuple(shape), tuple(map(str, shape)), DTYPES.get(word, word), order, size,
            "caller" if name in bound else "device", "", 0, None, False, False,
        ),
    )  # fmt: skip
    return Operand(name, size)


def _weights(layer: Mapping[str, Any], key: str, tensors: dict[str, ProgramTensor]) -> Operand | None:
    """The constants of a layer, ``{"Type": "Float", "Count": 864}``."""
    told = layer.get(key)
    if not isinstance(told, dict) or not isinstance(told.get("Count"), int) or told["Count"] <= 1:
        return None
    dtype = WORD.search(str(told.get("Type", "")))
    word = WORDS[dtype[0].lower()] if dtype else "float"
    name, count = f"{layer['Name']}.{key.lower()}", told["Count"]
    size = (count * BITS[word] + 7) // 8
    tensors[name] = ProgramTensor(
        name, (count,), (str(count),), DTYPES.get(word, word), (0,), size, "device", "", 0, None, True, False
    )
    return Operand(name, size)
