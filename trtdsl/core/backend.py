"""Which TensorRT: ``tensorrt`` or ``tensorrt_rtx``, what it can do here, and what differs between versions."""

from __future__ import annotations

import functools
import importlib
import importlib.util
import os
import re
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import ModuleType
from typing import Any

from .caller import option
from .errors import (
    BackendError,
    DefinitionError,
    EngineRefusedError,
    UnexaminedVersionWarning,
    UnsupportedError,
    UsageError,
)
from .lazy import torch

MODULES = {"tensorrt": "tensorrt", "tensorrt-rtx": "tensorrt_rtx"}
INSTALL = {
    "tensorrt": "pip install 'trtdsl[tensorrt]'",
    "tensorrt-rtx": "pip install 'trtdsl[rtx]' (Linux x86-64 and Windows)",
}

# Messages that follow every error on a machine without a driver, and are not about it.
NOISE = ("catchCudaError", "CUDA initialization failure", "cudaGetDevice")

# "ITensor::getDimensions: Error Code 4: Shape Error (the text In op at /_src/…:2699)", and before the text of Myelin's,
# which names a function of its own instead of op, there is "[pass.cpp:337: check] "
ERROR = re.compile(
    r"Error Code \d+: [\w /]+\((?:\[\S+:\d+: \w+\] )?(?P<text>.*?)(?:\s+In \S+ at \S+:\d+)?\)\s*$", re.DOTALL
)

DTYPES = {  # TensorRT's DataType member -> torch's dtype of that name
    "FLOAT": "float32",
    "HALF": "float16",
    "BF16": "bfloat16",
    "INT8": "int8",
    "INT32": "int32",
    "INT64": "int64",
    "BOOL": "bool",
    "UINT8": "uint8",
    "FP8": "float8_e4m3fn",
    "INT4": "int4",
    "FP4": "float4_e2m1fn_x2",
    "E8M0": "float8_e8m0fnu",
}

# Options of the builder that only one product honours, and why the other does not. Measured on TensorRT-RTX 1.7: with
# each of these the engine's bytes are the same as without it, or the builder says that it is unsupported; version
# compatibility asks for a library that it does not come with.
NO_EFFECT = "it would be ignored"
ONLY = {
    "compute_capabilities": (
        "tensorrt-rtx",
        "it builds for the GPU of this machine alone; leave compute capabilities out",
    ),
    "optimization_level": ("tensorrt", NO_EFFECT),
    "timing_cache": ("tensorrt", "it measures no kernels when it builds"),
    "hardware_compatibility": ("tensorrt", "name the GPUs by compute capability"),
    "version_compatible": ("tensorrt", "its engines are of one version"),
    "sparsity": ("tensorrt", NO_EFFECT),
    "aux_streams": ("tensorrt", NO_EFFECT),
    "tiling": ("tensorrt", NO_EFFECT),
}


class Messages(list[tuple[int, str]]):
    """What TensorRT logged in a while: ``(severity, message)`` pairs, oldest first; the worst severity is 0."""

    def errors(self) -> list[str]:
        """The messages of severity ERROR (1) or worse, without the noise that follows them."""
        return [text for severity, text in self if severity <= 1 and not any(noise in text for noise in NOISE)]

    def summary(self) -> str:
        """TensorRT's own words for the first error, without its boilerplate."""
        errors = self.errors()
        if not errors:
            return "TensorRT gave no message"
        match = ERROR.search(errors[0])
        return " ".join((match["text"] if match else errors[0]).split())

    def refused(self, what: str) -> DefinitionError | None:
        """``what`` with the first error; None where there is none. Nothing is kept of what was logged so far."""
        error = DefinitionError(f"{what}: {self.summary()}") if self.errors() else None
        self.clear()
        return error

    def check(self, what: str) -> None:
        """Raises the error that nobody has raised: TensorRT refuses what a setter is given by its log alone."""
        error = self.refused(what)
        if error is not None:
            raise error


class Sinks(threading.local):
    """The listeners of a thread, innermost last."""

    def __init__(self) -> None:
        self.stack: list[Messages] = []


EXAMINED = ("1.4", "1.5", "1.6", "1.7")
"""Of TensorRT-RTX: the versions whose programs the reader of plans knows."""


class Backend:
    """One TensorRT: its module, version and abilities. Made by :func:`get_backend`."""

    def __init__(self, name: str, trt: Any):
        self.name = name
        self.trt = trt
        self.version: str = trt.__version__
        self.is_rtx = name == "tensorrt-rtx"
        self.major = int(self.version.split(".")[0])
        if self.is_rtx and tuple(map(int, self.version.split(".")[:2])) > tuple(map(int, EXAMINED[-1].split("."))):
            warnings.warn(
                f"TensorRT-RTX {self.version} is newer than {EXAMINED[-1]}, the last whose programs were examined: "
                "engines are built, and their programs are not read",
                UnexaminedVersionWarning,
                stacklevel=4,
            )
        self._sinks = Sinks()
        self._open: dict[int, Messages] = {}  # sinks of all threads: TensorRT's own threads have none
        self.logger = self._make_logger()
        members = trt.DataType.__members__
        self._data_types = {dtype: members[member] for member, dtype in DTYPES.items() if member in members}
        # By number: a DataType takes five times as long to look up.
        self._names = {int(data_type): dtype for dtype, data_type in self._data_types.items()}

    def __repr__(self) -> str:
        return f"Backend({self.name} {self.version})"

    @functools.cached_property
    def _to_torch(self) -> dict[int, torch.dtype]:
        return {number: getattr(torch, name) for number, name in self._names.items() if hasattr(torch, name)}

    @functools.cached_property
    def _to_trt(self) -> dict[torch.dtype, Any]:
        return {dtype: self._data_types[self._names[number]] for number, dtype in self._to_torch.items()}

    @functools.cached_property
    def builder(self) -> Any:
        """The one IBuilder that all networks of this process are made with."""
        with self.listen() as messages:
            builder = self.trt.Builder(self.logger)
        if builder is None:
            raise BackendError(f"{self.name} {self.version} cannot work here: {messages.summary()}")
        return builder

    @functools.cached_property
    def _library(self) -> Any:
        """The bindings by ctypes, which also looks symbols up in the libraries that they are linked with."""
        import ctypes

        return ctypes.CDLL(sys.modules[self.trt.Builder.__module__].__file__)

    @functools.cached_property
    def library_version(self) -> tuple[int, ...] | None:
        """Major, minor and patch of the library that the bindings loaded; None when it does not say."""
        try:
            return tuple(getattr(self._library, f"getInferLib{part}Version")() for part in ("Major", "Minor", "Patch"))
        except (AttributeError, OSError, TypeError):
            return None

    @property
    def library_name(self) -> str:
        """TensorRT's library, as a linker names it."""
        return "tensorrt_rtx" if self.is_rtx else "nvinfer"

    @functools.cached_property
    def library_file(self) -> str | None:
        """Where the library that the bindings loaded is; None where the system does not say."""
        import ctypes

        class Found(ctypes.Structure):  # Dl_info of dladdr(3)
            _fields_ = (
                ("file", ctypes.c_char_p),
                ("base", ctypes.c_void_p),
                ("name", ctypes.c_char_p),
                ("at", ctypes.c_void_p),
            )

        found = Found()
        try:
            function = ctypes.cast(self._library.getInferLibMajorVersion, ctypes.c_void_p)
            known = ctypes.CDLL(None).dladdr(function, ctypes.byref(found))
        except (AttributeError, OSError, TypeError):  # Windows has no dladdr
            return None
        return os.path.realpath(os.fsdecode(found.file)) if known and found.file else None

    @functools.cached_property
    def cuda_major(self) -> int | None:
        """The CUDA that this TensorRT was built for, by its package's name; None when that does not say."""
        from importlib.metadata import PackageNotFoundError, version  # slow to import, and rarely needed

        for major in range(11, 20):
            with suppress(PackageNotFoundError):
                if version(f"{self.name}-cu{major}") == self.version:
                    return major
        return None

    @property
    def builds_without_gpu(self) -> bool:
        """Whether an engine is built for GPUs that need not be here (unless it is to take new weights)."""
        return self.is_rtx

    @property
    def compiles_where_it_runs(self) -> bool:
        """Whether an engine's kernels are compiled where it runs.

        Then its execution contexts take a configuration, with a cache of kernels, and capture CUDA graphs themselves.
        """
        return self.is_rtx

    def refusal(self, option: str) -> str | None:
        """Why this TensorRT does not honour an option of its builder; None where it does."""
        only, reason = ONLY.get(option, (self.name, ""))
        return None if only == self.name else reason

    def engine_validity(self, runtime: Any, data: bytes) -> tuple[str, int, dict[str, int]] | None:
        """TensorRT-RTX's judgement of an engine, the bits of its reasons, and what each bit means.

        None of TensorRT, whose deserializing only fails.
        """
        if not self.is_rtx:
            return None
        validity, diagnostics = runtime.get_engine_validity(data)
        bits = {name: int(bit) for name, bit in self.trt.EngineInvalidityDiagnostics.__members__.items()}
        return validity.name, int(diagnostics), bits

    def create_network(self) -> Any:
        """A new, strongly typed INetworkDefinition."""
        flags = 0
        if not self.is_rtx and self.major < 11:  # from 11 on, and on RTX, all networks are strongly typed
            flags = 1 << int(self.trt.NetworkDefinitionCreationFlag.STRONGLY_TYPED)
        return self.builder.create_network(flags)

    def lacking(self, error: AttributeError) -> Exception:
        """The UnsupportedError for a layer or an enum that this version does not have; any other ``error`` as it is.

        TensorRT 10.3 lacks squeeze, unsqueeze, cumulative and attention, among others: see tests/data/api.
        """
        owner = error.obj if isinstance(error.obj, (ModuleType, type)) else type(error.obj)
        if error.name is None or not (getattr(owner, "__module__", None) or owner.__name__).startswith("tensorrt"):
            return error
        return UnsupportedError(f"{self.name} {self.version} has no {error.name}: it came with another version")

    def torch_dtype(self, data_type: Any) -> torch.dtype:
        """torch's dtype for a ``trt.DataType``."""
        return self._to_torch[int(data_type)]

    def dtype_name(self, data_type: Any) -> str:
        """The name of torch's dtype for a ``trt.DataType``; torch need not be installed."""
        return self._names[int(data_type)]

    def lay_channels_last(self, tensor: Any) -> None:
        """Has an input or output of 4 or 5 dimensions lie so in memory."""
        formats = self.trt.TensorFormat
        tensor.allowed_formats = 1 << int(formats.HWC if len(tensor.shape) == 4 else formats.DHWC)

    def is_channels_last(self, engine: Any, name: str) -> bool:
        """Whether an input or output of an engine lies so. EngineRefusedError for one in a format of another kind."""
        formats, found = self.trt.TensorFormat, engine.get_tensor_format(name)
        if found not in (formats.LINEAR, formats.HWC, formats.DHWC):
            raise EngineRefusedError(
                f"{name!r} lies in memory in TensorRT's format {found.name}, which cannot be fed here"
            )
        return found != formats.LINEAR

    def data_type(self, dtype: torch.dtype) -> Any:
        """``trt.DataType`` for a torch dtype; UnsupportedError for one that TensorRT does not have."""
        try:
            return self._to_trt[dtype]
        except KeyError:
            hint = "; use float32" if dtype == torch.float64 else ""
            raise UnsupportedError(f"{self.name} {self.version} has no data type for {dtype}{hint}") from None

    def index_type(self, dtype: torch.dtype) -> tuple[Any, ...]:
        """The last argument of a layer that gives indices: their type, which TensorRT 10.3 does not take yet."""
        if "indices_type" in self.trt.INetworkDefinition.add_topk.__doc__:
            return (self.data_type(dtype),)
        if dtype != torch.int32:
            raise UnsupportedError(f"{self.name} {self.version} has int32 indices alone, not {dtype}: cast them")
        return ()

    def compute_capability(self, text: str) -> Any:
        """``trt.ComputeCapability`` for ``"8.9"``; refuses what this backend does not know."""
        if not self.is_rtx:
            raise UsageError(
                f"{self.name} builds for the GPU of this machine alone: leave compute capabilities out, "
                f"or use {option('backend', 'tensorrt-rtx')}"
            )
        if text not in (known := self._capabilities):
            raise UsageError(
                f"compute capability {text!r} is not one that {self.name} {self.version} knows: {', '.join(known)}"
            )
        return known[text]

    @property
    def _capabilities(self) -> dict[str, Any]:
        """The members by texts such as ``"8.9"``."""
        members = self.trt.ComputeCapability.__members__.items()
        return {f"{name[2:-1]}.{name[-1]}": member for name, member in members if name.startswith("SM")}

    def default_compute_capabilities(self) -> list[str]:
        """What an engine serves when nothing else was asked for: on RTX 8.0 and later, else this machine's GPU."""
        if not self.is_rtx:
            return ["current"]
        return [text for text in self._capabilities if float(text) >= 8]

    @property
    def listening(self) -> list[Messages]:
        """The listeners of this thread: the last one gets what TensorRT logs from it."""
        return self._sinks.stack

    @contextmanager
    def listen(self) -> Iterator[Messages]:
        """Collects what TensorRT logs from this thread (or a thread of its own) inside the block."""
        messages = Messages()
        self.listening.append(messages)
        self._open[id(messages)] = messages
        try:
            yield messages
        finally:
            self.listening.pop()
            del self._open[id(messages)]

    def _make_logger(self) -> Any:
        backend = self

        class Logger(self.trt.ILogger):
            def __init__(self) -> None:
                backend.trt.ILogger.__init__(self)

            def log(self, severity: Any, message: str) -> None:
                stack = backend._sinks.stack
                sink = stack[-1] if stack else next(reversed(list(backend._open.values())), None)
                if sink is not None:
                    sink.append((int(severity), message))

        return Logger()


@functools.cache
def installed(name: str) -> bool:
    """Whether the backend's module can be found (it is not imported)."""
    return importlib.util.find_spec(MODULES[name]) is not None


def has_cuda_device() -> bool:
    """Whether a CUDA driver with at least one device is here (asked of the driver, not of torch)."""
    return cuda_status() is None


@functools.cache
def cuda_status() -> str | None:
    """None when a CUDA device is usable, otherwise one sentence saying what is missing."""
    try:
        from cuda.bindings import driver  # pyright: ignore[reportAttributeAccessIssue]
    except ImportError:
        return "the package cuda-python is not installed"
    try:
        (status,) = driver.cuInit(0)
        if status == driver.CUresult.CUDA_ERROR_NO_DEVICE:
            return "the CUDA driver finds no device"
        if status != driver.CUresult.CUDA_SUCCESS:
            return f"the CUDA driver does not start: {status.name}"
        status, count = driver.cuDeviceGetCount()
    except RuntimeError:  # cuda-python: the driver's library is not found
        return "no NVIDIA driver is installed"
    return None if status == driver.CUresult.CUDA_SUCCESS and count > 0 else "the CUDA driver finds no device"


def get_backend(name: str | None = None) -> Backend:
    """The backend of that name; None asks ``TRTDSL_BACKEND``, else ``"auto"``.

    ``"auto"`` takes ``tensorrt`` when it imports and a CUDA device is there, else ``tensorrt-rtx``.

    Raises UsageError for an unknown name, BackendError when it is not installed or does not import.

    >>> get_backend("tensorrt-rtx").name
    'tensorrt-rtx'
    """
    name = name or os.environ.get("TRTDSL_BACKEND") or "auto"
    if name == "auto":
        if installed("tensorrt") and has_cuda_device():
            try:
                return _load("tensorrt")
            except BackendError:
                if not installed("tensorrt-rtx"):
                    raise
        return _load("tensorrt-rtx")
    if name not in MODULES:
        raise UsageError(f"unknown backend {name!r}: use auto, tensorrt or tensorrt-rtx")
    return _load(name)


def backend_of(definition: Any) -> Backend:
    """The backend that an INetworkDefinition belongs to; UsageError for what is none."""
    if "tensorrt" not in type(definition).__module__:
        raise UsageError(f"a network is a spec, a td.Network, a file or an INetworkDefinition, not {definition!r}")
    return get_backend("tensorrt-rtx" if "tensorrt_rtx" in type(definition).__module__ else "tensorrt")


@functools.cache
def _load(name: str) -> Backend:
    try:
        trt = importlib.import_module(MODULES[name])
    except ImportError as error:
        reason = f"is missing: the Python package {MODULES[name]} is not installed; {INSTALL[name]}"
        if installed(name):
            reason = f"does not start: the Python package {MODULES[name]} does not import ({error})"
            with suppress(ImportError):  # there is none on Windows
                import resource

                if (bound := resource.getrlimit(resource.RLIMIT_AS)[0]) != resource.RLIM_INFINITY:
                    reason += f"; of memory this process may have {bound >> 20} MiB alone (ulimit -v)"
        raise BackendError(f"TensorRT {reason}") from error
    return Backend(name, trt)
