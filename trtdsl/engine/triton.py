"""A Triton model repository around an engine: config.pbtxt and the plan, for those who outgrow one process.

Triton's TensorRT backend loads plans of the TensorRT that it was built with; it has none for TensorRT-RTX.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

from ..core.caller import option
from ..core.errors import EngineError, UsageError
from ..core.files.names import file_name
from ..core.files.writing import Kind, check_all_writable, write_all_atomically
from .loading.loader import ENGINE, read_described
from .loading.manifest import Manifest, manifest_path
from .loading.signature import TensorInfo

# Triton's DataType (model_config.proto) for torch's dtypes; it has no float8.
DTYPES = {
    "float32": "TYPE_FP32",
    "float16": "TYPE_FP16",
    "bfloat16": "TYPE_BF16",
    "int8": "TYPE_INT8",
    "int32": "TYPE_INT32",
    "int64": "TYPE_INT64",
    "uint8": "TYPE_UINT8",
    "bool": "TYPE_BOOL",
}
MARK = "# Written by `trtdsl export triton`, which replaces no file that was edited: sha256 of the rest "


def _marked(text: str) -> bytes:
    """A configuration after a comment with its hash, by which an edited one is known."""
    return f"{MARK}{hashlib.sha256(text.encode()).hexdigest()}\n{text}".encode()


def _objection(data: bytes) -> str | None:
    return None if data == _marked(data.partition(b"\n")[2].decode(errors="replace")) else "that was edited"


TRITON_CONFIG = Kind("a configuration of trtdsl export triton", MARK, _objection)
MOST = 2**31 - 1  # of a batch


def export_triton(
    engine: str | os.PathLike[str],
    repository: str | os.PathLike[str],
    *,
    name: str | None = None,
    version: int = 1,
    instances: int = 1,
    queue_delay_us: int | None = None,
    allow_rtx: bool = False,
) -> Path:
    """Writes ``REPOSITORY/NAME/config.pbtxt`` and ``REPOSITORY/NAME/VERSION/model.plan``; gives the model's folder.

    Where the first dimension of every input and output is dynamic and the same, Triton batches requests along it
    (waiting ``queue_delay_us`` for more of them); otherwise each request is whole. Several profiles become Triton's
    ``profile``. States become Triton's implicit states, one sequence of requests at a time in each instance, from zeros
    on. ``allow_rtx`` exports a TensorRT-RTX engine for a backend of your own.

    Raises the loader's errors, EngineError for what Triton cannot serve, UsageError for what cannot be written.
    """
    if not 1 <= version < 1 << 63:
        raise UsageError(f"Triton's versions start at 1 and have 63 bits, unlike {version}")
    if queue_delay_us is not None and not 0 <= queue_delay_us < 1 << 63:
        raise UsageError(f"a queue's delay is a number of microseconds, not {queue_delay_us}")
    if not 1 <= instances < 1 << 31:
        raise UsageError(f"an instance group has 1 instance or more, in 31 bits, not {instances}")
    data, _, manifest = read_described(engine)
    if manifest.backend.name == "tensorrt-rtx" and not allow_rtx:
        raise EngineError(
            "Triton's TensorRT backend does not load engines of TensorRT-RTX: build it with "
            f"{option('backend', 'tensorrt')}, or say "
            f"{option('allow_rtx')} for a backend of your own"
        )
    folder = Path(repository) / file_name(manifest.network if name is None else name, what="the model's name")
    config = triton_config(manifest, folder.name, instances=instances, queue_delay_us=queue_delay_us)
    reads = [("engine", engine), ("manifest", manifest_path(Path(engine)))]
    kinds = {f"{folder.name}/{version}/model.plan": ENGINE, f"{folder.name}/config.pbtxt": TRITON_CONFIG}
    files = check_all_writable(repository, kinds, reads)
    write_all_atomically(dict(zip(files.values(), (data, _marked(config)), strict=True)))
    return folder


def triton_config(manifest: Manifest, name: str, *, instances: int = 1, queue_delay_us: int | None = None) -> str:
    """The text of config.pbtxt for an engine: a ModelConfig message in protobuf's text format."""
    signature = manifest.signature
    states = manifest.states
    if states and manifest.in_place is None:
        raise EngineError(
            "the engine was built by an earlier trtdsl, whose manifest does not say which states TensorRT writes in "
            "place, as Triton's backend does not: build it again"
        )
    for cache in manifest.in_place or ():
        raise EngineError(
            f"TensorRT writes the {'state' if cache in states else 'input'} {cache!r} in place, at one address for "
            "input and output, and Triton's backend binds the two on its own: serve it from Triton's Python backend"
        )
    for info in (*signature.inputs.values(), *signature.outputs.values()):
        if info.channels_last:
            raise EngineError(f"{info.name!r} lies channels last, and Triton hands over C order: leave out its format")
    batch = min(_batch(manifest), 1 if states else MOST)
    lines = [f"name: {_quoted(name)}", 'platform: "tensorrt_plan"', f"max_batch_size: {batch}"]
    for field, tensors in (("input", signature.inputs), ("output", signature.outputs)):
        for info in tensors.values():
            if info.name not in states and info.name not in states.values():
                lines += _tensor(field, info, batched=batch > 0)
    lines += ["instance_group {", f"  count: {instances}", "  kind: KIND_GPU"]
    if len(signature.profiles) > 1:
        lines += [f'  profile: "{index}"' for index in range(len(signature.profiles))]
    lines += ["}"]
    if states:
        lines += ["sequence_batching {"]
        for name, output in states.items():
            lines += _state(signature.inputs[name], output, batched=batch > 0)
        lines += ["}"]
    elif batch:
        lines += ["dynamic_batching {"]
        preferred = sorted({next(iter(each.values()))[1][0] for each in signature.profiles} - {1})
        lines += [f"  preferred_batch_size: {size}" for size in preferred]
        if queue_delay_us is not None:
            lines += [f"  max_queue_delay_microseconds: {queue_delay_us}"]
        lines += ["}"]
    return "\n".join(lines) + "\n"


def _batch(manifest: Manifest) -> int:
    """The greatest batch; 0 where the first dimensions are not one dynamic dimension from 1 up."""
    signature = manifest.signature
    tensors = [*manifest.inputs.values(), *manifest.outputs.values()]
    firsts = [tensor.shape[0] if tensor.shape else None for tensor in tensors]
    if not firsts or not isinstance(firsts[0], str) or len(set(firsts)) > 1:
        return 0
    ranges = [profile[name] for profile in signature.profiles for name in signature.inputs]
    if not ranges or min(low[0] for low, _, _ in ranges) > 1:
        return 0  # Triton sends single requests too
    return max(high[0] for _, _, high in ranges)


def _tensor(field: str, info: TensorInfo, *, batched: bool) -> list[str]:
    if info.dtype not in DTYPES:
        raise EngineError(f"Triton has no data type for {info.dtype}, which {field} {info.name!r} has")
    dims = info.shape[1:] if batched else info.shape
    lines = [f"{field} {{", f"  name: {_quoted(info.name)}", f"  data_type: {DTYPES[info.dtype]}"]
    if dims:
        lines += [f"  dims: {size}" for size in dims]
    else:  # Triton wants a dimension: a scalar per request is one element, reshaped to none
        lines += ["  dims: 1", "  reshape { }"]
    return [*lines, "}"]


def _state(info: TensorInfo, output: str, *, batched: bool) -> list[str]:
    """An implicit state, which begins with zeros. EngineError for one that is dynamic besides its batch."""
    dtype, *sizes = (line.strip() for line in _tensor("state", info, batched=batched)[2:-1])
    if -1 in (info.shape[1:] if batched else info.shape):
        raise EngineError(f"the state {info.name!r} has dynamic sizes, {info.shape}: Triton cannot begin it with zeros")
    first = ["initial_state {", dtype, *sizes, "zero_data: true", f"name: {_quoted(info.name)}", "}"]
    return [
        "  state {",
        *(f"    {line}" for line in (f"input_name: {_quoted(info.name)}", f"output_name: {_quoted(output)}")),
        *(f"    {line}" for line in (dtype, *sizes, *first)),
        "  }",
    ]


def _quoted(text: str) -> str:
    """A string of protobuf's text format, where other than ASCII is written as it is."""
    return json.dumps(text, ensure_ascii=False)
