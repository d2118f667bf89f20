"""Random networks of a few layers: the interpreter against the programs of the engines that TensorRT builds of them.

A network is a seed and the steps that it was drawn with, each a recipe whose operands are results of earlier steps
where these fit. Many are built before one run of the C++ compiler takes the kernels of all; a network that differs is
reduced to the fewest steps that still do.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import torch
from cases import BACKEND, RECIPES, outputs_of, trt

import trtdsl as td
from trtdsl.core.errors import DefinitionError, ProgramFaultError, UnevaluatedProgramError, UnsupportedError
from trtdsl.interpreter.interpret import Interpreter
from trtdsl.programs.evaluation.contents import Contents
from trtdsl.programs.evaluation.kernels import compile_kernels
from trtdsl.programs.evaluation.sources import kernel_of

from . import Trial

STEPS = {torch.float32: 2e-6, torch.float16: 1e-3, torch.bfloat16: 8e-3}
"""The relative steps of the types; results may be a few of them apart."""
SPECIAL = torch.tensor([float("nan"), float("inf"), float("-inf"), 0.0, -0.0])
APART = {
    "ATTENTION_INPUT": "rows whose keys are all masked, and a single key: docs/engine-evaluated.md",
    "ATTENTION_OUTPUT": "as ATTENTION_INPUT",
    "KV_CACHE_UPDATE": "the cache that is given and the one that comes out are one memory, which the caller sees to",
    "SHAPE": "the engine holds no program",
}
"""Types that are left out, and why."""
USUAL = (
    "ACTIVATION", "CAST", "CONCATENATION", "CONVOLUTION", "DECONVOLUTION", "DEQUANTIZE", "EINSUM", "ELEMENTWISE",
    "GATHER", "GRID_SAMPLE", "MATRIX_MULTIPLY", "NORMALIZATION", "ONE_HOT", "PADDING", "PARAMETRIC_RELU", "POOLING",
    "QUANTIZE", "REDUCE", "RESIZE", "REVERSE_SEQUENCE", "SCALE", "SELECT", "SHUFFLE", "SLICE", "SOFTMAX", "UNARY",
)  # fmt: skip
ATTEMPTS = 4  # to find a step that TensorRT takes
COMPARED = (torch.int8, torch.uint8, torch.bool, torch.int32, torch.int64, *STEPS)
PERTURBED = 6  # runs of the interpreter on inputs a rounding apart
MOST_ELEMENTS = 20_000
TINY = torch.tensor([1e-40, -1e-40, 6e-8, 65504.0])  # denormal in float32, in float16, and its greatest number


@dataclass(frozen=True)
class Step:
    """One recipe, and which draw of it."""

    type: str
    recipe: int
    attempt: int

    def __str__(self) -> str:
        return f"{self.type}.{RECIPES[self.type][self.recipe].__name__}.{self.attempt}"


@dataclass(frozen=True)
class Drawn:
    """A network: the same seed and steps give it again."""

    seed: str
    steps: tuple[Step, ...]
    special: bool = False
    """Whether there are NaN, infinities and denormals among the values."""
    dynamic: bool = False

    def __str__(self) -> str:
        kinds = [name for name, flag in (("special", self.special), ("dynamic", self.dynamic)) if flag]
        return f"{self.seed!r} {' '.join(kinds)}: {', '.join(map(str, self.steps))}"


class Chain(Trial):
    """A network being drawn, whose steps take results of earlier ones for operands."""

    def __init__(self, drawn: Drawn):
        super().__init__(drawn.seed, "dynamic" if drawn.dynamic else "static")
        self.special = drawn.special
        self.made: list[tuple[Any, tuple[int, ...], torch.dtype]] = []

    def begin(self, seed: str) -> None:
        """Draws from a seed of its own: a step does not depend on what the others drew."""
        self.random = random.Random(seed)
        self.generator = torch.Generator().manual_seed(self.random.randrange(1 << 30))

    def size(self) -> int:
        return self.random.choices((0, 1, 2, 3, 4, 5, 7, 8, 17, 33), (1, 8, 10, 10, 6, 4, 4, 2, 1, 1))[0]

    def shape(self, low: int = 0, high: int = 8) -> tuple[int, ...]:
        fits = [shape for _, shape, _ in self.made if low <= len(shape) <= high]
        shape = self.pick(fits) if fits and self.maybe(0.8) else super().shape(low, high)
        return shape if math.prod(shape) <= MOST_ELEMENTS else tuple(min(size, 4) for size in shape)

    def pick(self, options: Sequence[Any]) -> Any:
        options = list(options)
        known = [dtype for *_, dtype in self.made if dtype in options] if isinstance(options[0], torch.dtype) else []
        return super().pick(known if known and self.maybe(0.8) else options)

    def values(self, shape: Sequence[int], dtype: torch.dtype, low: float = -4, high: float = 4) -> torch.Tensor:
        drawn = super().values(shape, dtype, low, high)
        if not self.special or not dtype.is_floating_point or low > -4:  # coordinates, scales and lengths stay
            return drawn
        every = torch.cat([SPECIAL, TINY])
        odd = every[torch.randint(len(every), drawn.shape, generator=self.generator)].to(dtype)
        return torch.where(torch.rand(drawn.shape, generator=self.generator) < 0.1, odd, drawn)

    def input(self, shape: Sequence[int], dtype: torch.dtype, low: float = -4, high: float = 4) -> Any:
        free = low <= -2 if dtype.is_floating_point else low <= -4  # no index, length, scale or coordinate
        fits = [
            made for made in self.made if free and math.prod(made[1]) == math.prod(shape) and _become(made[2], dtype)
        ]
        if not fits or self.maybe(0.2):
            return super().input(shape, dtype, low, high)
        handle, own, have = self.pick([made for made in fits if made[1] == tuple(shape)] or fits)
        if own != tuple(shape):
            shuffle = self.add_shuffle(handle)
            shuffle.reshape_dims = tuple(shape)
            shuffle.zero_is_placeholder = False
            handle = shuffle.get_output(0)
        return handle if have == dtype else self.add_cast(handle, BACKEND.data_type(dtype)).get_output(0)


def _become(have: torch.dtype, want: torch.dtype) -> bool:
    return have == want or (have in STEPS and want in STEPS)


def define(drawn: Drawn) -> Chain | None:
    """The network; None where TensorRT refuses it, or its values are random."""
    chain = Chain(drawn)
    with BACKEND.listen() as messages:
        try:
            for number, step in enumerate(drawn.steps):
                chain.begin(f"{drawn.seed}-{step}")
                for output in outputs_of(RECIPES[step.type][step.recipe](chain)):
                    sizes = tuple(output.shape)  # asking for the shape is what checks the layer
                    dtype = BACKEND.torch_dtype(output.dtype)
                    if -1 not in sizes:
                        chain.made.append((output, sizes, dtype))
                    if number == len(drawn.steps) - 1 or -1 in sizes or chain.maybe(0.3):
                        output.name = f"y{chain.network.num_outputs}"
                        chain.network.mark_output(output)
        except (RuntimeError, ValueError, TypeError, AttributeError, IndexError):
            return None
    return None if messages.errors() or chain.random_values or not chain.network.num_outputs else chain


def draw(seed: str, *, special: bool = False, most: int = 5, types: Sequence[str] = ()) -> Drawn | None:
    """A network of one to ``most`` steps that TensorRT takes; None where none was found.

    One in four has dynamic sizes, and then one step, since no sizes are known behind it.
    """
    choose = random.Random(seed)
    every = types or tuple(sorted(type for type in RECIPES if type not in APART))
    drawn = Drawn(seed, (), special, choose.random() < 0.25)
    for number in range(1 if drawn.dynamic else choose.choice(range(1, most + 1))):
        for attempt in range(number * ATTEMPTS, (number + 1) * ATTEMPTS):
            type = choose.choice(every if types or choose.random() < 0.2 else USUAL)
            step = Step(type, choose.randrange(len(RECIPES[type])), attempt)
            longer = Drawn(seed, (*drawn.steps, step), special, drawn.dynamic)
            if define(longer) is not None:
                drawn = longer
                break
    return drawn if drawn.steps else None


def build(chain: Chain) -> bytes | None:
    """The engine of a network; None where the builder refuses it."""
    builder = trt.Builder(BACKEND.logger)
    config = builder.create_builder_config()
    config.clear_flag(trt.BuilderFlag.TF32)
    if chain.mode == "dynamic":
        profile = builder.create_optimization_profile()
        for index in range(chain.network.num_inputs):
            given = chain.network.get_input(index)
            shape = tuple(chain.feeds[given.name].shape)
            low, high = (
                [
                    bound if declared < 0 else size
                    for size, bound, declared in zip(shape, bounds, given.shape, strict=True)
                ]
                for bounds in ([min(size, 1) for size in shape], [max(2 * size, 1) for size in shape])
            )
            profile.set_shape(given.name, low, shape, high)
        config.add_optimization_profile(profile)
    with BACKEND.listen():
        try:
            plan = builder.build_serialized_network(chain.network, config)
        except RuntimeError:
            return None
    return None if plan is None else bytes(plan)


def compile_together(plans: Iterable[bytes]) -> None:
    """Compiles the kernels of many engines at once, which takes a tenth of the time that one after the other takes."""
    kernels = {}
    for plan in plans:
        for name, source in Contents(plan).sources.items():
            with suppress(UnevaluatedProgramError):
                kernels[name] = kernel_of(name, source)
    with suppress(UnevaluatedProgramError):  # then each tells of its own
        compile_kernels(kernels.values())


def held(drawn: Drawn, chain: Chain, plan: bytes) -> str:
    """What became of a network: "equal", "differs: …", or why nothing was compared."""
    try:
        interpreter = Interpreter(chain.network)
        want = interpreter(chain.feeds)
    except (UnsupportedError, DefinitionError) as error:
        return f"not interpreted: {str(error)[:60]}"
    try:
        found = td.evaluate_engine(plan, chain.feeds, trust=True)
    except UnevaluatedProgramError as error:
        return f"not evaluated: {error.message.partition(',')[2][-70:]}"
    except ProgramFaultError as error:
        return f"differs: {error.message}"
    for name, value in want.items():
        have = found.get(name)
        if have is None or value.dtype not in COMPARED:
            continue
        problem = difference(have.reshape(value.shape), value)
        if problem is not None and not _rounds(interpreter, chain.feeds, name, have.reshape(value.shape), value):
            return f"differs: {name}: {problem}"
    return "equal"


def difference(engine: torch.Tensor, interpreter: torch.Tensor) -> str | None:
    """Where two results differ by more than their type's rounding; None where they do not."""
    if engine.dtype != interpreter.dtype:
        return f"{engine.dtype}, not {interpreter.dtype}"
    a, b = engine.double(), interpreter.double()
    known = b[b.isfinite()].abs()
    scale = float(known.max()) if known.numel() else 0.0
    limit = 8 * STEPS.get(engine.dtype, 0.0) * max(scale, 1e-6)
    same = (a == b) | (a.isnan() & b.isnan()) | ((a - b).abs() <= limit)
    if bool(same.all()):
        return None
    place = tuple((~same).nonzero()[0].tolist())
    return f"{int((~same).sum())} of {same.numel()} differ, {place}: engine {a[place]:.7g}, interpreter {b[place]:.7g}"


def _rounds(
    interpreter: Interpreter, feeds: Mapping[str, torch.Tensor], name: str, engine: torch.Tensor, value: torch.Tensor
) -> bool:
    """Whether inputs that are a rounding away give results as far apart: a floor, a comparison, a cancellation."""
    if engine.dtype != value.dtype:
        return False
    generator = torch.Generator().manual_seed(0)
    results = [value.double()]
    types = (value.dtype, *(feed.dtype for feed in feeds.values()))
    step = max(STEPS.get(dtype, STEPS[torch.float32]) for dtype in types)
    for _ in range(PERTURBED):
        moved = {
            key: feed * (1 + step * (2 * torch.rand(feed.shape, generator=generator) - 1)).to(feed.dtype)
            if feed.dtype in STEPS
            else feed
            for key, feed in feeds.items()
        }
        try:
            results.append(interpreter(moved)[name].double())
        except (DefinitionError, KeyError):
            return False
        if results[-1].shape != value.shape:
            return False
    runs, have = torch.stack(results), engine.double()
    odd = ~runs.isfinite().all(0) | ~have.isfinite()
    near = (have - runs[0]).abs() <= 8 * (runs.amax(0) - runs.amin(0))
    same = ((runs == have) | (runs.isnan() & have.isnan())).any(0)
    close = (have - runs[0]).abs() <= 8 * STEPS.get(engine.dtype, 0.0) * runs[0].abs().clamp(min=1e-6)
    scale = runs[0][runs[0].isfinite()].abs()
    coarse = (have - runs[0]).abs() <= 8 * step * (float(scale.max()) if scale.numel() else 0.0)
    return bool(torch.where(odd, same, near | same | close | coarse).all())


def run(drawn: Drawn) -> str:
    """What became of one network."""
    chain = define(drawn)
    plan = None if chain is None else build(chain)
    return "not built" if chain is None or plan is None else held(drawn, chain, plan)


def smallest(drawn: Drawn) -> Drawn:
    """The same network with the fewest steps that still differs."""
    for count in range(1, len(drawn.steps)):
        for start in range(len(drawn.steps) - count + 1):
            part = Drawn(drawn.seed, drawn.steps[start : start + count], drawn.special, drawn.dynamic)
            if run(part).startswith("differs"):
                return part
    return drawn


def run_many(networks: Iterable[Drawn | None], batch: int = 40) -> Iterator[tuple[Drawn, str]]:
    """What became of each of many networks, compiled together in batches."""
    group: list[tuple[Drawn, Chain, bytes]] = []
    for drawn in networks:
        chain = None if drawn is None else define(drawn)
        plan = None if chain is None else build(chain)
        if drawn is None or chain is None or plan is None:
            continue
        group.append((drawn, chain, plan))
        if len(group) == batch:
            yield from _all_of(group)
            group = []
    yield from _all_of(group)


def _all_of(group: Sequence[tuple[Drawn, Chain, bytes]]) -> Iterator[tuple[Drawn, str]]:
    compile_together(plan for *_, plan in group)
    for drawn, chain, plan in group:
        yield drawn, held(drawn, chain, plan)
