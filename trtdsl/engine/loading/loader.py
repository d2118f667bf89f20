"""The checks that run before TensorRT reads an engine's bytes, in order, with an error of its own for each defect.

The file comes first (its size, its first bytes, the product and version that built it), then the manifest (the hash of
the bytes, what they were built for), then the machine (driver, device). `core/errors.py` has the table of codes, and
the C++ loader makes the same judgements.
"""

from __future__ import annotations

import hashlib
import importlib
import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...core.backend import Backend, Messages, cuda_status, get_backend, installed
from ...core.caller import option
from ...core.errors import (
    ComputeCapabilityError,
    EngineDamagedError,
    EngineMissingError,
    EnginePrefixError,
    EngineRefusedError,
    EngineTooShortError,
    EngineTruncatedError,
    HostCodeError,
    LibraryMismatchError,
    ManifestDamagedError,
    ManifestMissingError,
    MissingPluginError,
    NoDriverError,
    NotAnEngineError,
    OldDriverError,
    OutOfMemoryError,
    StrippedEngineError,
    TrtdslError,
    UsageError,
    VersionMismatchError,
    WrongProductError,
)
from ...core.files.names import as_path
from ...core.files.reading import others_beside, read_file
from ...core.files.writing import Kind
from .manifest import ENGINES, Manifest, manifest_bytes, manifest_path, parse_manifest, read_manifest

# The first four bytes of a serialized engine. TensorRT's is the one that trtexec's source checks (with the version at
# bytes 24 to 27, which its --getPlanVersionOnly prints); TensorRT-RTX's was read from engines that it built.
MAGIC = {b"ftrt": "tensorrt", b"vtrt": "tensorrt-rtx"}
ENGINE = Kind("an engine", "[fpv]trt")
NAMES = {"tensorrt": "TensorRT", "tensorrt-rtx": "TensorRT-RTX"}
VERSION_AT = 24
HEADER = 28  # bytes that both have
# TensorRT-RTX alone, measured on engines of version 1.7: the size of the whole at byte 16, and at byte 32 a bit for
# each GPU it was built for. An engine for no GPU in particular has one bit more, whose meaning is not documented.
RTX_HEADER = 64
RTX_SIZE_AT, RTX_TARGETS_AT = 16, 32
RTX_TARGETS = ("7.5", "8.0", "8.6", "8.9", "12.0", "12.1")

NEXT_MAJOR = ((8, 10), (10, 11))  # what TensorRT's support matrix says version compatible engines may cross

PREFIX_SEARCHED = 1 << 20


@dataclass(frozen=True)
class Header:
    """The facts in the first bytes of an engine."""

    product: str
    version: str
    size: int | None
    """Of the whole engine; None where the format does not say."""
    open_targets: bool
    """Whether it was built for no GPU in particular."""


def read_engine_file(path: str | os.PathLike[str]) -> bytes:
    """The file's bytes. Raises EngineMissingError."""
    try:
        return read_file(path)
    except FileNotFoundError:
        raise EngineMissingError(f"there is no engine {path}{others_beside(path)}") from None
    except OSError as error:
        raise EngineMissingError(f"the engine {path} cannot be read: {error.strerror}") from None


def read_header(data: bytes, label: str = "the file") -> Header:
    """Reads the first bytes of an engine.

    Raises EngineTooShortError, NotAnEngineError saying what it is instead, EnginePrefixError, EngineTruncatedError,
    EngineDamagedError when something follows the engine.
    """
    if len(data) < HEADER:
        what = "is empty" if not data else f"has {len(data)} bytes, less than an engine's header"
        raise EngineTooShortError(f"{label} {what}: it was not written to its end, or is not an engine")
    product = MAGIC.get(data[:4])
    if product is None:
        raise _foreign(data, label)
    version = ".".join(str(part) for part in data[VERSION_AT : VERSION_AT + 4])
    if product == "tensorrt":
        return Header(product, version, None, False)
    if len(data) < RTX_HEADER:
        raise EngineTooShortError(f"{label} has {len(data)} bytes, less than an engine's header")
    size = int.from_bytes(data[RTX_SIZE_AT : RTX_SIZE_AT + 8], "little")
    targets = int.from_bytes(data[RTX_TARGETS_AT : RTX_TARGETS_AT + 8], "little")
    if len(data) < size:
        raise EngineTruncatedError(f"{label} ends after {len(data):,} of its {size:,} bytes: copy or build it again")
    if len(data) > size:
        raise EngineDamagedError(f"{label} has {len(data) - size:,} bytes after the engine's end: build it again")
    return Header(product, version, size, targets >> len(RTX_TARGETS) != 0)


def _foreign(data: bytes, label: str) -> TrtdslError:
    """The error for a file that does not begin as an engine does."""
    window = data[:PREFIX_SEARCHED]
    places = [place for place in (window.find(magic) for magic in MAGIC) if place > 0]
    for place in sorted(places):
        if _plausible(data[place : place + HEADER]):
            who = " (as Ultralytics writes it)" if data[4:5] == b"{" else ""
            return EnginePrefixError(
                f"{label} has {place:,} bytes of another program before its engine{who}: "
                f"cut them off, as in open(…, 'rb').read()[{place}:]"
            )
    return NotAnEngineError(f"{label} is not an engine{_guess(data)}")


def _plausible(header: bytes) -> bool:
    """Whether bytes after a magic are a header's: its format number is small, and no engine has version 0."""
    return len(header) == HEADER and header[5:8] == b"\0\0\0" and header[VERSION_AT : VERSION_AT + 2] != b"\0\0"


def _guess(data: bytes) -> str:
    """A description of a file that is no engine."""
    length = int.from_bytes(data[:8], "little")
    if length < len(data) and data[8:9] == b"{":
        return " but a safetensors file: weights for `trtdsl build`"
    if data.startswith(b"PK"):
        return " but a zip archive, such as a torch checkpoint or TorchScript"
    if data.startswith(b"\x80"):
        return " but a pickle, such as a torch checkpoint"
    if re.match(ENGINES.head.encode(), data):
        return (
            " but the manifest of several, each for some of the sizes: td.load_engine takes it; name one of its engines"
        )
    if data.lstrip()[:1] in (b"{", b"["):
        return " but JSON: the engine stands beside its manifest, without .json"
    if data[:1] == b"\x08" and b"onnx" in data[:4096].lower():
        return " but an ONNX model: trtdsl builds from networks written in Python"
    if data[:1] == b"\x08":
        return "; it looks like a protobuf message, such as an ONNX model"
    if data.startswith((b"\x7fELF", b"MZ")):
        return " but a program or a library"
    if not any(data[:HEADER]):
        return ": it begins with zeros, as a file does that was never written"
    return f": it begins with {data[:4].hex(' ')}"


# -- the engine, its manifest, and the TensorRT that is here -----------------------------------------------------------


def choose_backend(product: str, backend: str | Backend | None) -> Backend:
    """The backend to load an engine of ``product`` with: the one asked for, or the product's own.

    Raises WrongProductError when that one is not installed or another was asked for, LibraryMismatchError.
    """
    asked = backend if backend is not None else os.environ.get("TRTDSL_BACKEND")
    if asked is None or asked == "auto":
        if not installed(product):
            raise WrongProductError(
                f"this engine was built by {NAMES[product]}, which is not installed here: install it, or build the "
                "engine again with the TensorRT that is here"
            )
        asked = product
    chosen = asked if isinstance(asked, Backend) else get_backend(asked)
    check_library(chosen)
    if chosen.name != product:
        raise WrongProductError(
            f"this engine was built by {NAMES[product]} and cannot be loaded by {NAMES[chosen.name]}: use "
            f"{option('backend', product)}, or build it again with {option('backend', chosen.name)}"
        )
    return chosen


@dataclass(frozen=True)
class EngineFile:
    """An engine's file and the results of all checks that need no GPU."""

    path: Path
    data: bytes = field(repr=False)
    header: Header
    manifest: Manifest | None
    backend: Backend


def open_engine(
    path: str | os.PathLike[str],
    *,
    backend: str | Backend | None = None,
    manifest: bool = True,
    allow_host_code: bool = False,
) -> EngineFile:
    """Reads an engine and its manifest and makes every check that needs no GPU, in the order of this file.

    Raises the errors of :func:`read_header`, :func:`choose_backend`, :func:`check_version`, :func:`judge`,
    :func:`check_plugins` and :func:`check_host_code`, ManifestMissingError and ManifestDamagedError.
    """
    path = as_path(path, "an engine")
    data = read_engine_file(path)
    header = read_header(data, str(path))
    chosen = choose_backend(header.product, backend)
    read: Manifest | None = None
    unread: TrtdslError | None = None
    if manifest:
        try:
            read = read_manifest(path)
        except (ManifestMissingError, ManifestDamagedError) as error:
            unread = error
    compatible = read is not None and read.config.version_compatible
    network = read.network if read is not None else None
    check_version(header.version, chosen, product=header.product, version_compatible=compatible, network=network)
    if unread is not None:  # the first of two reasons: an engine of another version is refused without a manifest
        raise unread
    judge(data, read, header, str(path))
    check_plugins(read, chosen)
    check_host_code(read, allowed=allow_host_code)
    return EngineFile(path, data, header, read, chosen)


def check_library(backend: Backend) -> None:
    """LibraryMismatchError when TensorRT's library is not of the version that its Python bindings are of."""
    found = backend.library_version
    if found is not None and found != tuple(int(part) for part in backend.version.split(".")[: len(found)]):
        library = ".".join(map(str, found))
        raise LibraryMismatchError(
            f"the bindings are of {NAMES[backend.name]} {backend.version}, and the library that they loaded is "
            f"{library}: install both of one version, and look at LD_LIBRARY_PATH"
        )


def check_version(
    built: str, backend: Backend, *, product: str, version_compatible: bool = False, network: str | None = None
) -> None:
    """VersionMismatchError unless this backend loads engines built by the version ``built``.

    An engine of TensorRT-RTX always belongs to one version, and so does one of TensorRT by default. One that TensorRT
    built as version compatible also runs with later versions of its major version, and with those of
    :data:`NEXT_MAJOR`.
    """
    have = backend.version
    if _numbers(built) == _numbers(have):
        return
    if version_compatible and product == "tensorrt" and _numbers(built) < _numbers(have):
        majors = _numbers(built)[0], _numbers(have)[0]
        if majors[0] == majors[1] or majors in NEXT_MAJOR:
            return
    again = f"trtdsl build with the file of network {network!r}" if network else "build it again"
    raise VersionMismatchError(
        f"the engine was built by {NAMES[product]} {built}, and here is {have}: install {built}, or {again} here"
    )


def _numbers(version: str) -> tuple[int, ...]:
    """Major, minor, patch, build of a version; suffixes such as .post1 belong to the package, not to the library."""
    return tuple(int(part) for part in re.findall(r"\d+", version.partition(".post")[0])[:4])


def judge(data: bytes, manifest: Manifest | None, header: Header, label: str) -> None:
    """Checks that the bytes are those that the manifest describes.

    Raises EngineTruncatedError, EngineDamagedError, ManifestDamagedError when it is the manifest of another engine.
    """
    if manifest is None:
        return
    if manifest.backend.name != header.product:
        raise ManifestDamagedError(
            f"the manifest of {label} is that of a {NAMES[manifest.backend.name]} engine, and this is one of "
            f"{NAMES[header.product]}"
        )
    if len(data) < manifest.engine.bytes:
        raise EngineTruncatedError(
            f"{label} ends after {len(data):,} of its {manifest.engine.bytes:,} bytes: copy or build it again"
        )
    if hashlib.sha256(data).hexdigest() != manifest.engine.sha256:
        raise EngineDamagedError(
            f"{label} and its manifest are not of one build: its sha256 is not the one that the manifest says. One of "
            "them was replaced alone, as when a copy or a build is interrupted, or the engine is damaged: copy both "
            "again, or build again"
        )
    if _numbers(manifest.backend.version)[:3] != _numbers(header.version)[:3]:
        raise ManifestDamagedError(
            f"the manifest of {label} says {NAMES[manifest.backend.name]} {manifest.backend.version}, the engine "
            f"{header.version}"
        )


def read_described(engine: str | os.PathLike[str]) -> tuple[bytes, bytes, Manifest]:
    """An engine, its manifest's file and what that says, judged against each other and not against TensorRT here.

    Raises the errors of :func:`read_header` and :func:`judge`, ManifestMissingError and ManifestDamagedError.
    """
    path = Path(engine)
    data = read_engine_file(path)
    header = read_header(data, str(path))
    described = manifest_bytes(path)
    manifest = parse_manifest(described, str(manifest_path(path)))
    judge(data, manifest, header, str(path))
    return data, described, manifest


def check_plugins(manifest: Manifest | None, backend: Backend) -> None:
    """MissingPluginError naming what the engine needs and TensorRT's registry does not have."""
    for each in manifest.plugins if manifest is not None else ():
        name, version, namespace = each.name, each.version, each.namespace
        with backend.listen():
            creator = backend.trt.get_plugin_registry().get_creator(name, version, namespace)
        if creator is None:
            raise missing_plugin(name, version)


def missing_plugin(name: str, version: str) -> MissingPluginError:
    return MissingPluginError(
        f"the engine needs the plugin {name} (version {version}), which is not registered: load its library first"
    )


def check_stripped(manifest: Manifest | None, *, refitted: bool) -> None:
    """StrippedEngineError naming the weights that an engine lacks."""
    if manifest is not None and manifest.config.strip_weights and not refitted:
        names = list(manifest.refit.weights if manifest.refit else ())
        shown = ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")
        raise StrippedEngineError(
            f"the engine was built without its weights and needs them first: engine.refit(FILE), for {shown or 'all'}"
        )


def check_host_code(manifest: Manifest | None, *, allowed: bool) -> None:
    """HostCodeError for an engine that carries code for the CPU (a version compatible one), unless that is allowed."""
    if manifest is not None and manifest.config.version_compatible and not allowed:
        raise HostCodeError(
            "the engine carries code for the CPU, as version compatible ones do: load it with allow_host_code=True "
            "if you trust where it comes from"
        )


LAUNCHERS = (
    ("RANK", "WORLD_SIZE"),  # torchrun
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),
)
"""Where those who start several processes say which of how many one is."""


def check_world(manifest: Manifest | None, communicator: Any) -> None:
    """UsageError for an engine of several ranks without a communicator, or in a process of another rank or number."""
    settings = manifest.settings if manifest is not None else {}
    rank, ranks = settings.get("rank"), settings.get("ranks")
    if not isinstance(rank, int) or not isinstance(ranks, int) or ranks < 2:
        return
    for names in LAUNCHERS:
        started = [os.environ.get(name) for name in names]
        if None not in started and started != [str(rank), str(ranks)]:
            raise UsageError(
                f"the engine is rank {rank} of {ranks}, and this process is {started[0]} of {started[1]}, by "
                f"{' and '.join(names)}: each process loads the engine of its own rank"
            )
    if communicator is None:
        raise UsageError(
            f"the engine is rank {rank} of {ranks}, which exchange values by NCCL: give "
            "load_engine(…, communicator=…), a pointer to this rank's ncclComm_t"
        )


# -- the machine -------------------------------------------------------------------------------------------------------


def check_driver(backend: Backend) -> None:
    """Raises NoDriverError or OldDriverError, whose messages say that the engine was not judged."""
    status = cuda_status()
    if status is not None:
        raise NoDriverError(
            f"an engine runs on an NVIDIA GPU, and {status}; whether this one fits a GPU was not judged"
        )
    _, version = importlib.import_module("cuda.bindings.driver").cuDriverGetVersion()
    judge_driver(int(version), backend.cuda_major)


def judge_driver(version: int, needed: int | None) -> None:
    """OldDriverError when a driver that serves CUDA ``version`` (13000 for 13.0) is older than CUDA ``needed``."""
    if needed is not None and version // 1000 < needed:
        raise OldDriverError(
            f"the NVIDIA driver here serves CUDA {version // 1000}.{version % 1000 // 10}, and this TensorRT needs "
            f"CUDA {needed}.0 or later: update the driver; the engine was not judged"
        )


def check_compute_capability(capabilities: tuple[str, ...], device: str, *, open_targets: bool) -> None:
    """ComputeCapabilityError when the engine was built for other GPUs than this one.

    One that was built for no GPU in particular is left to TensorRT's own judgement.
    """
    if device in capabilities or open_targets or "current" in capabilities:
        return
    raise ComputeCapabilityError(
        f"the engine was built for compute capability {', '.join(capabilities)}, and this GPU has {device}: build it "
        f"again with {option('compute_capabilities', device)}"
    )


def judge_validity(validity: str, diagnostics: int, members: dict[str, int], device: str) -> None:
    """The error for TensorRT-RTX's diagnosis of an engine on a machine with a driver; None when it is valid.

    ``members`` are EngineInvalidityDiagnostics' bits by name.
    """
    if validity != "INVALID":
        return
    found = [name for name, bit in members.items() if diagnostics & bit]
    errors: dict[str, TrtdslError] = {
        "MALFORMED_ENGINE": EngineDamagedError("TensorRT-RTX finds the engine malformed: build it again"),
        "VERSION_MISMATCH": VersionMismatchError(
            "TensorRT-RTX says that another version built the engine: build it again"
        ),
        "UNSUPPORTED_CC": ComputeCapabilityError(
            f"TensorRT-RTX says that the engine is not for this GPU: build it with "
            f"{option('compute_capabilities', device)}"
        ),
        "OLD_CUDA_DRIVER": OldDriverError("TensorRT-RTX says that the NVIDIA driver is too old: update it"),
        "OLD_CUDA_RUNTIME": OldDriverError("TensorRT-RTX says that the CUDA runtime is too old: update it"),
        "CUDA_ERROR": NoDriverError(
            "TensorRT-RTX says that the CUDA driver or runtime is not installed correctly; the engine was not judged"
        ),
        "INSUFFICIENT_GPU_MEMORY": OutOfMemoryError(None, None, "the engine"),
    }
    reasons = ", ".join(found) or "no reason given"
    refused = EngineRefusedError(f"TensorRT-RTX says that the engine is invalid ({reasons})")
    raise next((error for name, error in errors.items() if name in found), refused)


OUT_OF_MEMORY = re.compile(r"out\s?of\s?memory|memory ?allocation|insufficient memory|not enough memory", re.IGNORECASE)

# "Cannot find plugin: NAME, version: 1" (from 10), "getPluginCreator could not find plugin NAME version 1" (before)
PLUGIN = re.compile(
    r"(?:cannot|could not) find plugin:? (?P<name>[^\s,]+),? version:? (?P<version>[^\s,]+)", re.IGNORECASE
)


def says_out_of_memory(messages: Messages) -> bool:
    """Whether TensorRT complains of too little memory, rather than of wrong use of memory.

    >>> from trtdsl.core.backend import Messages
    >>> says_out_of_memory(Messages([(1, "Error Code 2: OutOfMemory (Requested size was 7 bytes.)")]))
    True
    >>> says_out_of_memory(Messages([(1, "Error Code 1: Cuda Runtime (an illegal memory access was encountered)")]))
    False
    """
    return OUT_OF_MEMORY.search(" ".join(messages.errors())) is not None


def judge_messages(messages: Messages, size: int | None = None, free: int | None = None) -> TrtdslError:
    """The error for an engine that TensorRT did not deserialize, by what it logged."""
    text = " ".join(messages.errors())
    plugin = PLUGIN.search(text)
    if plugin:
        return missing_plugin(plugin["name"], plugin["version"])
    lowered = text.lower()
    if (
        "version tag" in lowered
        or "expecting library version" in lowered
        or "not compatible with this version" in lowered
    ):
        return VersionMismatchError(f"TensorRT says that another version built the engine: {messages.summary()}")
    if ("compute" in lowered and "does not match" in lowered) or "generated on an incompatible device" in lowered:
        return ComputeCapabilityError(f"TensorRT says that the engine is for another GPU: {messages.summary()}")
    if "host code" in lowered:
        return HostCodeError(f"the engine carries code for the CPU, which is off: {messages.summary()}")
    if says_out_of_memory(messages):
        return OutOfMemoryError(size, free, "the engine")
    return EngineRefusedError(f"TensorRT does not load this engine: {messages.summary()}")
