"""A network against its torch reference: what is fed, what counts as equal, and the report."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, is_dataclass
from typing import Any

from ..compiling.compiler import Progress
from ..core.backend import Backend
from ..core.dtypes import dtype_name
from ..core.errors import DefinitionError, MismatchError, UsageError
from ..core.lazy import torch
from ..definition.network import Network
from ..definition.profile import Profile, Range
from ..definition.spec import NetworkSpec, authors_errors, call_reference
from ..definition.weights import Source
from ..interpreter.feeds import make_feeds, profile_points
from ..interpreter.interpret import Interpreter

SCHEMA = 1


@dataclass(frozen=True)
class Tolerance:
    """An element passes when ``|a - b| <= scale * max|b| + relative * |b|``, compared in float64."""

    relative: float
    scale: float


# Rounding errors of a sum grow with its terms, not with its result: an element's error is measured against the scale
# of the whole output. Integers and bool must be equal.
TOLERANCES = {
    "float32": Tolerance(1e-5, 1e-5),
    "float16": Tolerance(1e-2, 5e-3),
    "bfloat16": Tolerance(4e-2, 2e-2),
    "float8_e4m3fn": Tolerance(0.13, 0.02),
}
EXACT = Tolerance(0, 0)


@dataclass(frozen=True)
class OutputComparison:
    """One output beside its reference."""

    name: str
    passed: bool
    dtype: str
    shape: tuple[int, ...]
    problem: str | None = None
    """What differs before any value does: dtype, rank or shape."""
    max_abs: float = 0.0
    max_rel: float = 0.0
    scale: float = 0.0
    """The greatest absolute value of the reference."""
    cosine: float = 1.0
    snr_db: float | None = None
    """Signal to noise in decibels; None when there is no noise."""
    wrong: int = 0
    """Elements out of tolerance."""
    elements: int = 0
    worst_index: tuple[int, ...] | None = None
    worst_value: float | None = None
    worst_expected: float | None = None


@dataclass(frozen=True)
class Case:
    """One set of input shapes, compared."""

    dims: dict[str, int]
    outputs: list[OutputComparison]

    @property
    def passed(self) -> bool:
        return all(output.passed for output in self.outputs)


@dataclass(frozen=True)
class CheckReport:
    """What :func:`check` found. ``on`` says whether an engine was executed or only the network interpreted."""

    network: str
    backend: str
    on: str
    cases: list[Case]
    seed: int
    tolerances: dict[str, Tolerance] = field(default_factory=dict)

    @property
    def passed(self) -> bool:
        """Whether every output passed in every case."""
        return bool(self.cases) and all(case.passed for case in self.cases)

    @property
    def statement(self) -> str:
        """What was compared, in one sentence."""
        if self.on == "engine":
            return "The engine itself was executed on this machine's GPU."
        return "The network was interpreted on the CPU, layer by layer; no engine was executed."

    def to_json(self) -> dict[str, Any]:
        """Everything as one JSON object."""
        return {"schema": SCHEMA, "kind": "check", "passed": self.passed, "statement": self.statement, **asdict(self)}

    def raise_for_mismatch(self) -> CheckReport:
        """The report itself; MismatchError naming the first output that differs when it did not pass."""
        for case in self.cases:
            for output in case.outputs:
                if not output.passed:
                    at = ", ".join(f"{name} = {size}" for name, size in case.dims.items())
                    raise MismatchError(
                        f"{self.network}: output {output.name!r} differs{f' at {at}' * bool(at)}: {describe(output)}"
                    )
        return self


def describe(output: OutputComparison) -> str:
    """An output's failure in one line."""
    if output.problem:
        return output.problem
    return (
        f"{output.wrong} of {output.elements} elements are out of tolerance, the worst at {output.worst_index}: "
        f"{output.worst_value:.9g} instead of {output.worst_expected:.9g}"
    )


def check(
    spec: NetworkSpec,
    *,
    on: str = "interpreter",
    weights: Source | None = None,
    dims: Mapping[str, Range] | None = None,
    profiles: Sequence[Profile] | None = None,
    precision: str | None = None,
    backend: str | Backend | None = None,
    seed: int = 0,
    network: Network | None = None,
    allow_nonfinite: bool = False,
    progress: Progress | None = None,
) -> CheckReport:
    """Compares a network with its torch reference at the ends of every profile's ranges and in between.

    ``on`` is ``"interpreter"`` or, where there is a GPU, ``"engine"`` (which builds and executes it). ``network`` is
    the spec already defined, where the caller has it. The report says per output: greatest absolute and relative error,
    cosine, signal to noise, and the worst element with both values. ``progress`` is told when a size begins and ends.

    Raises UsageError when there is no reference, DefinitionError when the network cannot be defined.
    """
    if on not in ("interpreter", "engine"):
        raise UsageError(f"on is 'interpreter' or 'engine', not {on!r}")
    if network is None:
        network = spec.define(
            weights=weights,
            dims=dims,
            profiles=profiles,
            precision=precision,
            backend=backend,
            allow_nonfinite=allow_nonfinite,
        )
    run: Callable[[Mapping[str, torch.Tensor]], Mapping[str, torch.Tensor]]
    if on == "engine":
        from ..engine import engine_of

        run = engine_of(network)
    else:
        run = Interpreter(network)
    network.check_sizes()
    tell = progress or (lambda phase, done, total: None)
    reference = spec.reference_module(spec.open_weights(weights))
    cases = []
    for env in profile_points(network):
        at = ", ".join(f"{name} = {size}" for name, size in env.items())
        phase = f"checking against torch ({at or 'the one shape'})"
        tell(phase, 0, 1)
        feeds = make_feeds(spec.inputs, network, env, torch.Generator().manual_seed(seed))
        with authors_errors(reference.forward, f"the reference fails{f' at {at}' * bool(at)}: "):
            returned = _reference_outputs(reference, feeds, network.precision)
            expected = named_outputs(returned, list(network.outputs))
        tolerance = None
        if network.precision is not None:  # outputs keep float32, with the errors of what ran inside
            tolerance = TOLERANCES[dtype_name(network.precision)]
            expected = {name: tensor.float() if _is_half(tensor) else tensor for name, tensor in expected.items()}
        cases.append(Case(env, compare_outputs(run(feeds), expected, tolerance)))
        tell(phase, 1, 1)
    return CheckReport(
        spec.name, f"{network.backend.name} {network.backend.version}", on, cases, seed, dict(TOLERANCES)
    )


def _reference_outputs(
    reference: torch.nn.Module, feeds: Mapping[str, torch.Tensor], precision: torch.dtype | None
) -> Any:
    """What the reference gives, under autocast where the network has a precision."""
    with torch.inference_mode(), torch.autocast("cpu", precision, enabled=precision is not None):
        return call_reference(reference, feeds)


def _is_half(tensor: torch.Tensor) -> bool:
    return tensor.dtype in (torch.float16, torch.bfloat16)


def named_outputs(returned: Any, names: Sequence[str]) -> dict[str, torch.Tensor]:
    """What the reference returned, by the network's output names: a mapping by its own, a tuple in order.

    Raises DefinitionError for anything else.
    """
    if isinstance(returned, torch.Tensor):
        returned = (returned,)
    if is_dataclass(returned) and not isinstance(returned, (type, Mapping)):
        returned = {part.name: getattr(returned, part.name) for part in fields(returned)}
    if isinstance(returned, Mapping):
        return {str(name): tensor for name, tensor in returned.items() if isinstance(tensor, torch.Tensor)}
    if not isinstance(returned, (tuple, list)):
        raise DefinitionError(
            f"the reference gives a {type(returned).__name__}, not a tensor, a tuple or a dict of them"
        )
    tensors = list(_flatten(returned))
    labels = [*names, *(f"reference output {index}" for index in range(len(names), len(tensors)))]
    return dict(zip(labels, tensors, strict=False))


def _flatten(returned: Any) -> Iterator[torch.Tensor]:
    for item in returned:
        if isinstance(item, torch.Tensor):
            yield item
        elif isinstance(item, (tuple, list)):
            yield from _flatten(item)


def compare_outputs(
    got: Mapping[str, torch.Tensor], expected: Mapping[str, torch.Tensor], tolerance: Tolerance | None = None
) -> list[OutputComparison]:
    """Every output of either side compared; one that only one side has fails. ``tolerance``: of floats."""
    results = []
    for name in dict.fromkeys((*got, *expected)):
        if name not in got or name not in expected:
            side, tensor = ("reference", expected[name]) if name in expected else ("network", got[name])
            problem = f"only the {side} has this output"
            results.append(OutputComparison(name, False, dtype_name(tensor.dtype), tuple(tensor.shape), problem))
        else:
            floating = got[name].dtype.is_floating_point
            results.append(compare(name, got[name], expected[name], tolerance if floating else None))
    return results


def compare(
    name: str, got: torch.Tensor, expected: torch.Tensor, tolerance: Tolerance | None = None
) -> OutputComparison:
    """One output beside its reference; NaN and Inf must stand where the reference has the same."""
    dtype, shape = dtype_name(got.dtype), tuple(got.shape)
    if got.dtype != expected.dtype:
        return OutputComparison(
            name, False, dtype, shape, f"dtype {dtype}, the reference has {dtype_name(expected.dtype)}"
        )
    if got.shape != expected.shape:
        return OutputComparison(name, False, dtype, shape, f"shape {shape}, the reference has {tuple(expected.shape)}")
    if got.numel() == 0:
        return OutputComparison(name, True, dtype, shape)
    tolerance = tolerance or TOLERANCES.get(dtype, EXACT)
    a, b = got.detach().double().flatten(), expected.detach().double().flatten()
    finite = torch.isfinite(a) & torch.isfinite(b)
    same = (a == b) | (torch.isnan(a) & torch.isnan(b))
    error = torch.where(finite, (a - b).abs(), torch.where(same, 0.0, math.inf))
    size = torch.where(torch.isfinite(b), b.abs(), 0.0)
    scale = float(size.max())
    wrong = (error > tolerance.scale * scale + tolerance.relative * size) & ~same
    worst = int(error.argmax())
    noise, signal = float(error.square().sum()), float(size.square().sum())
    a, b = torch.where(finite, a, 0.0), torch.where(finite, b, 0.0)
    norms = float(a.norm() * b.norm())
    return OutputComparison(
        name,
        not bool(wrong.any()),
        dtype,
        shape,
        max_abs=float(error.max()),
        max_rel=float((error / size.clamp(min=1e-30)).where(size > 0, torch.zeros(())).max()),
        scale=scale,
        cosine=float(a @ b) / norms if norms else 1.0,
        snr_db=10 * math.log10(signal / noise) if noise and signal and math.isfinite(noise) else None,
        wrong=int(wrong.sum()),
        elements=got.numel(),
        worst_index=tuple(int(i) for i in torch.unravel_index(torch.tensor(worst), shape)),
        worst_value=float(got.detach().double().flatten()[worst]),
        worst_expected=float(expected.detach().double().flatten()[worst]),
    )
