"""From a network to a serialized engine in memory, with the figures that TensorRT's builder reports."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...core.backend import Backend, Messages
from ...core.cancel import Progress, noted, untold
from ...core.errors import BuildError, CancelledError, UsageError
from ...definition.network import Network
from ...sizes.profile import Profile
from .config import BuildConfig


@dataclass(frozen=True)
class Statistics:
    """Sizes that TensorRT's builder reported for an engine, in bytes; None for one that it did not report."""

    activation_memory: int | None
    weight_memory: int | None
    scratch_memory: int | None
    engine_layers: int | None
    """Layers after fusion."""
    seconds: float


@dataclass(frozen=True)
class Plan:
    """A serialized engine in memory."""

    data: bytes = field(repr=False)
    statistics: Statistics


def compile_engine(
    network: Network,
    config: BuildConfig | None = None,
    *,
    progress: Progress | None = None,
) -> Plan:
    """The serialized engine of a network, and what the builder reported about it.

    Raises BuildError with TensorRT's own message and, where it names a layer, the author's line; CancelledError after
    Ctrl-C; UsageError for a dynamic dimension without a range.
    """
    if not network.outputs:
        raise UsageError(f"network {network.name!r} has no output")
    network.check_sizes()
    network.check_states()
    network.check_weights()
    _refuse_attention_among_loops(network)
    profiles = [input_shapes(network, profile) for profile in network.profiles]
    plan, messages = compile_definition(network.definition, network.backend, profiles, config, progress=progress)
    if plan is None:
        raise _build_error(network, messages)
    return plan


def _refuse_attention_among_loops(network: Network) -> None:
    """BuildError where TensorRT-RTX 1.7 may end the process: loops came after an attention that was emitted."""
    for site in network.choices.sites if network.regions else ():
        if (site.key.function, site.lowering, site.given) == ("scaled_dot_product_attention", "layer", False):
            raise BuildError(
                f"{site.key.operation}: TensorRT-RTX 1.7 may crash where it builds IAttention in a network with "
                f"{network.regions} loops and branches, of which some came after it was emitted: ask for TensorRT's "
                "objects when all is written, or give F.scaled_dot_product_attention lowering='products'",
                location=site.location,
            )


def compile_definition(
    definition: Any,
    backend: Backend,
    profiles: Sequence[Mapping[str, Mapping[str, Sequence[int]]]] = (),
    config: BuildConfig | None = None,
    *,
    progress: Progress | None = None,
) -> tuple[Plan | None, Messages]:
    """The engine of any ``INetworkDefinition``, or None, and TensorRT's messages.

    A profile has for every input its shape at ``min``, ``opt`` and ``max``. Raises CancelledError after Ctrl-C.
    """
    with backend.listen() as messages:
        builder_config = backend.builder.create_builder_config()
        keep_timing_cache = (config or BuildConfig()).apply(builder_config, backend)
        for profile in profiles:
            served = backend.builder.create_optimization_profile()
            for name, shapes in profile.items():
                served.set_shape(name, *(tuple(shape) for shape in shapes.values()))
            builder_config.add_optimization_profile(served)
    if messages.errors():  # an option or a profile that TensorRT refuses by its log alone
        return None, messages
    started = time.perf_counter()
    with noted() as cancelled, backend.listen() as messages:
        builder_config.progress_monitor = _monitor(backend, progress, cancelled)
        data = backend.builder.build_serialized_network(definition, builder_config)
    seconds = time.perf_counter() - started
    if cancelled():
        raise CancelledError
    if data is None:
        return None, messages
    keep_timing_cache()
    return Plan(bytes(data), _statistics(messages, seconds)), messages


def _monitor(backend: Backend, progress: Progress | None, cancelled: Callable[[], bool]) -> Any:
    """A progress monitor that ends the build at its next step once it is cancelled."""
    sizes: dict[str, int] = {}
    tell = progress or untold

    class Monitor(backend.trt.IProgressMonitor):
        def __init__(self) -> None:
            backend.trt.IProgressMonitor.__init__(self)

        def phase_start(self, phase: str, parent: str | None, steps: int) -> None:
            sizes[phase] = steps
            if parent is None:  # one within another is told of when it has made a step
                tell(phase, 0, steps)

        def step_complete(self, phase: str, step: int) -> bool:
            tell(phase, step + 1, sizes.get(phase, step + 1))
            return not cancelled()

        def phase_finish(self, phase: str) -> None:
            tell(phase, sizes.get(phase, 1), sizes.get(phase, 1))

    return Monitor()


def _build_error(network: Network, messages: Messages) -> BuildError:
    text = messages.summary()
    named = sorted((name for name in network.layers if name in text), key=len, reverse=True)
    location = network.layers[named[0]].location if named else None
    return BuildError(f"TensorRT cannot build {network.name!r}: {text}", location=location)


def _statistics(messages: Messages, seconds: float) -> Statistics:
    text = "\n".join(message for _, message in messages)

    def number(label: str) -> int | None:
        found = re.search(rf"{label}: (\d+) bytes", text)
        return int(found[1]) if found else None

    listing = text.rpartition("Engine Layer Information:")[2] if "Engine Layer Information:" in text else None
    layers = None if listing is None else len(re.findall(r"^Layer\(", listing, re.MULTILINE))
    return Statistics(
        number("Total Activation Memory"),
        number("Total Weights Memory"),
        number("Max Scratch Memory"),
        layers,
        seconds,
    )


def input_shapes(network: Network, profile: Profile) -> dict[str, dict[str, list[int]]]:
    """For every input its shape at a profile's min, opt and max."""
    points = {"min": profile.at("min"), "opt": profile.at("opt"), "max": profile.at("max")}
    return {
        name: {which: list(network.input_shape(name, sizes)) for which, sizes in points.items()}
        for name in network.inputs
    }
