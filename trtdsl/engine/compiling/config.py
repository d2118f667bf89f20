"""How an engine is built: options that are checked against the backend, so that none is accepted and ignored."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Annotated, Any, Literal, get_type_hints

from msgspec import Meta

from ...core.backend import Backend, cuda_status
from ...core.caller import Positive, as_argument, option
from ...core.errors import BackendError, UsageError
from ...core.files.reading import read_file
from ...core.files.writing import Kind, check_writable, write_atomically

HARDWARE = {"ampere+": "AMPERE_PLUS", "same-compute-capability": "SAME_COMPUTE_CAPABILITY"}
TILING = {"none": "NONE", "fast": "FAST", "moderate": "MODERATE", "full": "FULL"}
TIMING_CACHE = Kind("a timing cache", r"(?![fpv]trt|\x93NUMPY|PK\x03\x04|\x80[\x02-\x05]|.{4}\0{4}\s*\{)[^\0]*\0")
"""TensorRT's own bytes, which it judges: no text, and no engine, array, checkpoint or file of weights at least."""
VERBOSITY = {"none": "NONE", "names": "LAYER_NAMES_ONLY", "detailed": "DETAILED"}
CHOICES = {"hardware_compatibility": HARDWARE, "tiling": TILING, "profiling_verbosity": VERBOSITY}


@dataclass(frozen=True)
class BuildConfig:
    """What the builder may do; None leaves TensorRT's own default.

    :meth:`validate` refuses by name the options that a backend does not take (:meth:`Backend.refusal`).

    >>> BuildConfig(optimization_level=7)
    Traceback (most recent call last):
    trtdsl.core.errors.UsageError: optimization_level=7: expected int <= 5
    """

    tf32: bool = True
    """Whether float32 products may be computed in TF32 on the GPU."""
    compute_capabilities: tuple[str, ...] = ()
    """GPUs to build for, such as ``"8.9"`` (TensorRT-RTX); by default 8.0 and later."""
    optimization_level: Annotated[int, Meta(ge=0, le=5)] | None = None
    """0 to 5: how long the builder searches (TensorRT)."""
    workspace: Positive | None = None
    """The most bytes of scratch memory that a layer may use."""
    timing_cache: Path | None = None
    """A file of measured kernels, read and updated (TensorRT)."""
    hardware_compatibility: Literal["ampere+", "same-compute-capability"] | None = None
    """Further GPUs that the engine is to run on (TensorRT)."""
    version_compatible: bool = False
    """Whether later versions are to run the engine too; it then carries code for the CPU (TensorRT)."""
    sparsity: bool = False
    """Whether weights with two zeros in four may use sparse kernels (TensorRT)."""
    aux_streams: Annotated[int, Meta(ge=0, le=64)] | None = None
    """How many streams besides the caller's the engine may use (TensorRT)."""
    tiling: Literal["none", "fast", "moderate", "full"] | None = None
    """How hard the builder tries to keep tiles in the L2 cache (TensorRT from 10.8)."""
    profiling_verbosity: Literal["none", "names", "detailed"] | None = None
    """How much the engine tells of its layers."""
    weight_streaming: bool = False
    """Whether weights may stay on the host and be sent as they are needed."""
    refit: bool = False
    """Whether the engine takes new weights later."""
    strip_weights: bool = False
    """Whether the engine is written without its weights, which it then gets by refitting."""

    def __post_init__(self) -> None:
        for name, kind in get_type_hints(type(self), include_extras=True).items():
            value, choices = getattr(self, name), CHOICES.get(name, ())
            if choices and value not in (None, *choices):
                raise UsageError(f"{name} must be one of {', '.join(choices)}, not {value!r}")
            if name != "timing_cache":  # whose path is judged where it is read
                as_argument(name, value, kind)
        for text in self.compute_capabilities:
            if self.compute_capabilities.count(text) > 1:
                raise UsageError(f"compute capability {text} is given twice")

    def facts(self) -> dict[str, Any]:
        """What was asked for, for the manifest; the timing cache changes no result and is left out."""
        return {
            name: value for name, value in asdict(self).items() if name not in ("timing_cache", "compute_capabilities")
        }

    def asked(self) -> list[str]:
        """The options that differ from their defaults."""
        return [field.name for field in fields(self) if getattr(self, field.name) != field.default]

    def validate(self, backend: Backend) -> None:
        """UsageError for an option that the backend would ignore or refuse; BackendError for what needs a GPU here."""
        for name in self.asked():
            reason = backend.refusal(name)
            if reason is not None:
                raise UsageError(f"{backend.name} has no {name.replace('_', ' ')}: {reason}")
        if backend.builds_without_gpu and (self.refit or self.strip_weights) and cuda_status() is not None:
            what = "without weights" if self.strip_weights else "that can be refitted"
            raise BackendError(
                f"TensorRT-RTX builds engines {what} only on a machine with a GPU, and {cuda_status()}: leave "
                f"{option('strip_weights' if self.strip_weights else 'refit')} out here"
            )
        for text in self.compute_capabilities:
            backend.compute_capability(text)
        levels = backend.trt.HardwareCompatibilityLevel.__members__
        if self.hardware_compatibility is not None and HARDWARE[self.hardware_compatibility] not in levels:
            raise UsageError(f"{backend.name} {backend.version} has no {self.hardware_compatibility}: it came later")
        if self.tiling is not None and not hasattr(backend.trt, "TilingOptimizationLevel"):
            raise UsageError(f"{backend.name} {backend.version} has no tiling: it came with TensorRT 10.8")

    def apply(self, config: Any, backend: Backend) -> Callable[[], None]:
        """Sets the options on an IBuilderConfig; gives a function to call after a build: it keeps the timing cache."""
        self.validate(backend)
        trt = backend.trt
        flags = {
            "TF32": self.tf32,
            "VERSION_COMPATIBLE": self.version_compatible,
            "SPARSE_WEIGHTS": self.sparsity,
            "WEIGHT_STREAMING": self.weight_streaming,
            "REFIT": self.refit,
            "STRIP_PLAN": self.strip_weights,
            "REFIT_IDENTICAL": self.strip_weights and not self.refit,
        }
        for name, value in flags.items():
            (config.set_flag if value else config.clear_flag)(trt.BuilderFlag.__members__[name])
        if self.compute_capabilities:
            config.num_compute_capabilities = len(self.compute_capabilities)
            for index, text in enumerate(self.compute_capabilities):
                config.set_compute_capability(backend.compute_capability(text), index)
        if self.optimization_level is not None:
            config.builder_optimization_level = self.optimization_level
        if self.workspace is not None:
            config.set_memory_pool_limit(trt.MemoryPoolType.WORKSPACE, self.workspace)
        if self.hardware_compatibility is not None:
            levels = trt.HardwareCompatibilityLevel.__members__
            config.hardware_compatibility_level = levels[HARDWARE[self.hardware_compatibility]]
        if self.aux_streams is not None:
            config.max_aux_streams = self.aux_streams
        if self.tiling is not None:
            config.tiling_optimization_level = trt.TilingOptimizationLevel.__members__[TILING[self.tiling]]
        if self.profiling_verbosity is not None:
            verbosities = trt.ProfilingVerbosity.__members__
            config.profiling_verbosity = verbosities[VERBOSITY[self.profiling_verbosity]]
        return self._timing_cache(config) if self.timing_cache is not None else lambda: None

    def _timing_cache(self, config: Any) -> Callable[[], None]:
        assert self.timing_cache is not None
        output, path = check_writable(self.timing_cache, TIMING_CACHE, ()), Path(self.timing_cache)
        try:
            before = read_file(path)
        except FileNotFoundError:
            before = b""
        except OSError as error:
            raise UsageError(f"the timing cache {path} cannot be read: {error.strerror}") from None
        cache = config.create_timing_cache(before)
        if cache is None or not config.set_timing_cache(cache, False):
            raise UsageError(f"TensorRT does not take the timing cache {path}: delete it, and it is measured anew")

        def keep() -> None:
            write_atomically(output, bytes(config.get_timing_cache().serialize()))

        return keep
