"""The program of an engine from TensorRT's own report, for engines whose plans hold no text. It needs a GPU.

``IEngineInspector`` gives JSON, with operands where the engine was built with ``profiling_verbosity="detailed"``. The
fields are those that NVIDIA documents and shows (TensorRT 8.4 to 11); this has not been run on a device yet.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from msgspec import Struct, field

from ..core.caller import option
from ..core.errors import ProgramDamagedError, UnreadableProgramError, UsageError
from ..core.files.reading import Count, Int, as_struct, parse_json
from ..programs.graph import Launch, Operand, ProgramTensor
from ..programs.launches import Kind, each_once, places_of
from ..programs.plan import BITS, DTYPES
from ..programs.program import Program

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


class Tensor(Struct):
    """An operand of a layer. Its dtype is in one of several entries, by TensorRT's version."""

    name: str = field(name="Name")
    location: str = field(name="Location", default="Device")
    dimensions: tuple[Int, ...] | None = field(name="Dimensions", default=None)
    dtype: str = field(name="DataType", default="")
    dtype_9: str = field(name="Datatype", default="")
    dtype_and_format: str = field(name="Format/Datatype", default="")
    format: str = field(name="Format", default="")


class Constants(Struct):
    """The constants of a layer."""

    type: str = field(name="Type", default="")
    count: Count = field(name="Count", default=0)


class Layer(Struct):
    """A layer of an engine that was built with detailed verbosity."""

    name: str = field(name="Name")
    type: str = field(name="LayerType", default="")
    inputs: tuple[Tensor, ...] = field(name="Inputs", default=())
    outputs: tuple[Tensor, ...] = field(name="Outputs", default=())
    weights: Constants | Literal[""] | None = field(name="Weights", default=None)
    bias: Constants | Literal[""] | None = field(name="Bias", default=None)
    metadata: str | None = field(name="Metadata", default=None)
    stream: Count | None = field(name="StreamId", default=None)


class Bound(Struct):
    """An input or an output, since TensorRT 11."""

    name: str = field(name="Name")
    mode: str = field(name="IOMode", default="")


class Report(Struct):
    """What ``IEngineInspector`` says."""

    layers: tuple[str | Layer, ...] = field(name="Layers")
    bound: tuple[Bound, ...] | None = field(name="I/O Tensors", default=None)
    bindings: tuple[str, ...] = field(name="Bindings", default=())


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
    label = "the inspector's report"
    facts = as_struct(
        parse_json(report.encode(), label, "report", ProgramDamagedError), Report, label, ProgramDamagedError
    )
    layers = [layer for layer in facts.layers if isinstance(layer, Layer)]
    if len(layers) != len(facts.layers):
        raise UnreadableProgramError(
            "the engine tells only the names of its layers: build it with " + option("profiling_verbosity", "detailed")
        )
    bound = _bound(facts)
    tensors: dict[str, ProgramTensor] = {}
    launches: list[Launch] = []
    for layer in layers:
        named = layer.type.lower().replace("_", "")
        if any(word.replace("_", "") in named for word in QUIET):
            continue
        reads, writes = (
            [_operand(tensor, bound, tensors) for tensor in part if tensor.location.lower() == "device"]
            for part in (layer.inputs, layer.outputs)
        )
        for what, constants in (("weights", layer.weights), ("bias", layer.bias)):
            if isinstance(constants, Constants) and constants.count > 1:
                reads.append(_constants(f"{layer.name}.{what}", constants, tensors))
        places = places_of(layer.metadata or "")
        first = next((tensors[operand.tensor].dtype for operand in (*reads, *writes)), "")
        kind: Any = next((found for word, found in KINDS if word in named), "other")
        launches.append(
            Launch(
                len(launches), kind, layer.name,
                tuple(reads), tuple(writes), 1, None, first, (), (), layer.stream or 0,
                each_once(places, "line"), each_once(places, "scope"), places=places,
            )
        )  # fmt: skip
    inputs = {name: tensors[name].shape for name in bound if name in tensors and bound[name] != "output"}
    outputs = tuple(name for name in bound if bound[name] == "output")
    note = "FLOPs and loops are not in the inspector's report: each layer counts once"
    return Program(
        network, backend, "engine inspector", {}, inputs, outputs, tuple(launches), tensors, (), memory, False,
        notes=(note,),
    )  # fmt: skip


def _bound(facts: Report) -> dict[str, str]:
    """The network's inputs and outputs: ``I/O Tensors`` since TensorRT 11, names alone in ``Bindings`` before."""
    if facts.bound is not None:
        return {each.name: each.mode.lower() for each in facts.bound}
    return dict.fromkeys(facts.bindings, "")


def _operand(tensor: Tensor, bound: Mapping[str, str], tensors: dict[str, ProgramTensor]) -> Operand:
    name, shape = tensor.name, tensor.dimensions
    words = " ".join((tensor.dtype, tensor.dtype_9, tensor.dtype_and_format, tensor.format))
    dtype = WORD.search(words)
    if shape is None or dtype is None:
        raise ProgramDamagedError(f"the inspector's report does not tell the shape and the dtype of {name[:80]!r}")
    if any(size < 0 for size in shape):
        raise UsageError(f"the size of {name[:80]!r} is open: give the shapes of the engine's inputs")
    word = WORDS[dtype[0].lower()]
    size = (math.prod(shape) * BITS[word] + 7) // 8
    last = len(shape) - 1
    order = (0, *range(2, last + 1), 1) if re.search("channel|HWC|NHWC", words) and last > 1 else tuple(range(last + 1))
    place, sizes = "caller" if name in bound else "device", tuple(map(str, shape))
    tensors.setdefault(name, ProgramTensor(name, shape, sizes, DTYPES.get(word, word), order, size, place))
    return Operand(name, size)


def _constants(name: str, told: Constants, tensors: dict[str, ProgramTensor]) -> Operand:
    dtype = WORD.search(told.type)
    word = WORDS[dtype[0].lower()] if dtype else "float"
    size = (told.count * BITS[word] + 7) // 8
    sizes = (str(told.count),)
    tensors[name] = ProgramTensor(name, (told.count,), sizes, DTYPES.get(word, word), (0,), size, constant=True)
    return Operand(name, size)
