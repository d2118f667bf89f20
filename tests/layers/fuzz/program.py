"""Random networks of a few layers: the interpreter against the programs of the engines that TensorRT builds of them.

A network is a seed and the steps that it was drawn with, each a recipe whose operands are results of earlier steps
where these fit. Many are parts of one network with inputs and outputs of their own, so that one build serves them all,
and one run of the C++ compiler takes all their kernels. Where a build fails, its halves are built to find which is
refused, and the others are built again as one. A network that differs is tried alone, and reduced to the fewest steps
that still differ.
"""

from __future__ import annotations

import math
import os
import random
import resource
import signal
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import Any

import torch
from cases import BACKEND, RECIPES, outputs_of, trt

from trtdsl.building.buildable import obstacles
from trtdsl.core.errors import (
    DefinitionError,
    ProgramFaultError,
    UnevaluatedProgramError,
    UnsupportedError,
    UsageError,
)
from trtdsl.engine.loading.loader import read_header
from trtdsl.interpreter.interpret import Interpreter
from trtdsl.programs.evaluation.contents import Contents
from trtdsl.programs.evaluation.evaluator import Evaluation, evaluate_programs
from trtdsl.programs.grammar import Record
from trtdsl.programs.plan import plain, read_plan
from trtdsl.programs.reader import Given, sizes_at

from . import Trial

STEPS = {torch.float32: 2e-6, torch.float16: 1e-3, torch.bfloat16: 8e-3}
"""The relative steps of the types; results may be a few of them apart."""
SPECIAL = torch.tensor([float("nan"), float("inf"), float("-inf"), 0.0, -0.0])
APART = {
    "KV_CACHE_UPDATE": "the cache that is given and the one that comes out are one memory, which the caller sees to",
    "DYNAMIC_QUANTIZE": "its header is not known",
    "SHAPE": "the engine holds no program",
}
"""Types that are left out, and why."""
UNBUILT = {
    "CAST": set(),
    "DECONVOLUTION": {torch.bfloat16},
    "EINSUM": {torch.uint8, torch.int8},
    "MATRIX_MULTIPLY": {torch.uint8, torch.int8},
}
"""Types of elements that TensorRT takes and does not build, of the layers that are named; of the others uint8."""
USUAL = (
    "ACTIVATION", "CAST", "CONCATENATION", "CONVOLUTION", "DECONVOLUTION", "DEQUANTIZE", "EINSUM", "ELEMENTWISE",
    "GATHER", "GRID_SAMPLE", "MATRIX_MULTIPLY", "NORMALIZATION", "ONE_HOT", "PADDING", "PARAMETRIC_RELU", "POOLING",
    "QUANTIZE", "REDUCE", "RESIZE", "REVERSE_SEQUENCE", "SCALE", "SELECT", "SHUFFLE", "SLICE", "SOFTMAX", "UNARY",
)  # fmt: skip
ATTEMPTS = 4  # to find a step that TensorRT takes
COMPARED = (torch.int8, torch.uint8, torch.bool, torch.int32, torch.int64, *STEPS)
BATCH = 100
TOGETHER = {False: 40, True: 5}
"""Networks that are parts of one, of static and of dynamic sizes, where the builder's time grows with the square."""
OUTCOMES = ("differs", "not evaluated")
PERTURBED = 6  # runs of the interpreter on inputs a rounding apart
MOST_ELEMENTS = 20_000
LONGEST = 4  # seconds of computing for one build: resizing dynamic sizes of several axes takes longer
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

    def __init__(self, drawn: Drawn, network: Any = None, prefix: str = ""):
        super().__init__(drawn.seed, "dynamic" if drawn.dynamic else "static")
        self.network, self.prefix = self.network if network is None else network, prefix
        self.special = drawn.special
        self.made: list[tuple[Any, tuple[int, ...], torch.dtype]] = []
        self.outputs: list[str] = []
        self.unbuilt: set[torch.dtype] = set()

    def begin(self, seed: str, step: Step) -> None:
        """Draws from a seed of its own: a step does not depend on what the others drew."""
        self.random = random.Random(f"{seed}-{step}")
        self.unbuilt = UNBUILT.get(step.type, {torch.uint8})
        self.generator = torch.Generator().manual_seed(self.random.randrange(1 << 30))

    def size(self) -> int:
        return self.random.choices((0, 1, 2, 3, 4, 5, 7, 8, 17, 33), (1, 8, 10, 10, 6, 4, 4, 2, 1, 1))[0]

    def shape(self, low: int = 0, high: int = 8) -> tuple[int, ...]:
        fits = [shape for _, shape, _ in self.made if low <= len(shape) <= high]
        shape = self.pick(fits) if fits and self.maybe(0.8) else super().shape(low, high)
        return shape if math.prod(shape) <= MOST_ELEMENTS else tuple(min(size, 4) for size in shape)

    def pick(self, options: Sequence[Any]) -> Any:
        options = list(options)
        known = []
        if isinstance(options[0], torch.dtype):
            options = [dtype for dtype in options if dtype not in self.unbuilt]
            known = [dtype for *_, dtype in self.made if dtype in options]
        return super().pick(known if known and self.maybe(0.8) else options)

    def values(self, shape: Sequence[int], dtype: torch.dtype, low: float = -4, high: float = 4) -> torch.Tensor:
        drawn = super().values(shape, dtype, low, high)
        if not self.special or not dtype.is_floating_point or low >= 0:  # scales, lengths
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


def define(drawn: Drawn, network: Any = None, prefix: str = "") -> Chain | None:
    """The network, alone or as a part of another; None where TensorRT or the interpreter refuses it, or its values are
    random.
    """
    chain = Chain(drawn, network, prefix)
    with BACKEND.listen() as messages:
        try:
            for number, step in enumerate(drawn.steps):
                chain.begin(drawn.seed, step)
                for output in outputs_of(RECIPES[step.type][step.recipe](chain)):
                    sizes = tuple(output.shape)  # asking for the shape is what checks the layer
                    dtype = BACKEND.torch_dtype(output.dtype)
                    ends = -1 in sizes or dtype == torch.uint8  # which TensorRT takes and gives, and no more
                    if not ends:
                        chain.made.append((output, sizes, dtype))
                    if number == len(drawn.steps) - 1 or ends or chain.maybe(0.3):
                        output.name = f"{prefix}y{len(chain.outputs)}"
                        chain.outputs.append(output.name)
                        chain.network.mark_output(output)
                if chain.unsupported or chain.random_values:
                    return None
        except (RuntimeError, ValueError, TypeError, AttributeError, IndexError):
            return None
    return None if messages.errors() or not chain.outputs else chain


@dataclass(frozen=True)
class Member:
    """One of the networks that are built together."""

    drawn: Drawn
    chain: Chain
    interpreter: Interpreter
    want: dict[str, torch.Tensor]
    """What the interpreter computes."""


def member(drawn: Drawn) -> Member | str:
    """A network with the interpreter's results; or why there are none."""
    chain = define(drawn)
    if chain is None:
        return "not defined"
    unbuilt = obstacles(chain.network, gpu=False)
    if unbuilt:
        return f"not built: {unbuilt[0].type}"
    try:
        interpreter = Interpreter(chain.network)
        return Member(drawn, chain, interpreter, interpreter(chain.feeds))
    except (UnsupportedError, DefinitionError) as error:
        return f"not interpreted: {str(error)[:60]}"


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
            if isinstance(member(longer), Member):
                drawn = longer
                break
    return drawn if drawn.steps else None


def build(members: Sequence[Member]) -> bytes | str:
    """The engine of one network whose parts they are, each with inputs and outputs of its own; or the outcome where
    there is none.

    It is built in a process of its own: some networks end the builder's process.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.close(reading)
        resource.setrlimit(resource.RLIMIT_CPU, (LONGEST, LONGEST + 1))
        with suppress(RuntimeError), BACKEND.listen(), open(writing, "wb") as to:
            to.write(_plan_of(members))
        os._exit(0)
    os.close(writing)
    with open(reading, "rb") as given:
        plan = given.read()
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return "not built: takes too long" if os.WTERMSIG(status) == signal.SIGXCPU else "crashes the builder"
    return plan or "not built"


def _plan_of(members: Sequence[Member]) -> bytes:
    builder = trt.Builder(BACKEND.logger)
    config = builder.create_builder_config()
    config.clear_flag(trt.BuilderFlag.TF32)
    network = BACKEND.create_network()
    parts = [define(member.drawn, network, prefix(number)) for number, member in enumerate(members)]
    profile = builder.create_optimization_profile()
    for part in parts:
        assert part is not None
        given = {given.name: given for given in map(network.get_input, range(network.num_inputs))}
        tuned = part.random.choice((1, 2))  # kernels may have a variant for these very sizes
        for name, feed in part.feeds.items():
            sizes = ([min(size, 1), tuned * size, max(2 * size, 1)] for size in feed.shape)
            bounds = [own if declared < 0 else [declared] * 3 for own, declared in zip(sizes, given[name].shape)]
            profile.set_shape(name, *(tuple(bound[which] for bound in bounds) for which in range(3)))
    config.add_optimization_profile(profile)
    return bytes(builder.build_serialized_network(network, config) or b"")


def prefix(number: int) -> str:
    """What the names of a part's inputs and outputs begin with."""
    return f"n{number}_"


class Tolerant(Evaluation):
    """A run that goes on where a launch fails or is not known; what depends on it is absent."""

    def _launch(self, kind: str, record: Record, given: Sequence[torch.Tensor] | None = None) -> None:
        try:
            super()._launch(kind, record, given)
        except (UnevaluatedProgramError, ProgramFaultError) as error:
            outcome = "differs" if isinstance(error, ProgramFaultError) else "not evaluated"
            reason = error.message if error.message.startswith(OUTCOMES) else f"{outcome}: {error.message}"
            for name in record.texts("output_args") + record.texts("output"):
                self.absent[self.text.root(name).name] = reason

    def outputs(self) -> dict[str, Any]:
        """The outputs; why there is none, where it is absent."""
        found: dict[str, Any] = {}
        for name in self.text.names("outputs"):
            root = self.text.root(name).name
            if root in self.absent or root not in self.written:
                found[plain(name)] = self.absent.get(root, "differs: no launch writes it")
                continue
            try:
                found[plain(name)] = self.memory.view(name).clone(memory_format=torch.contiguous_format)
            except UnevaluatedProgramError as error:
                found[plain(name)] = f"not evaluated: {error.message}"
        return found


def evaluate(plan: bytes, feeds: Mapping[str, torch.Tensor]) -> dict[str, Any]:
    """The outputs of an engine, or why there is none."""
    header = read_header(plan, "the plan")
    (text,) = read_plan(plan, header.product, header.version, "the plan").of_profile(0)
    given = Given({name: tuple(feed.shape) for name, feed in feeds.items()})
    contents = Contents(plan)
    return evaluate_programs([(Tolerant(text, contents, contents.constants(text), sizes_at(text, given)), feeds)])[0]


def outcomes(members: Sequence[Member], plan: bytes) -> Iterator[tuple[Member, str]]:
    """What the program gives of each network: "equal", "differs: …", or why nothing was compared."""
    try:
        feeds = {prefix(i) + name: feed for i, own in enumerate(members) for name, feed in own.chain.feeds.items()}
        found = evaluate(plan, feeds)
    except (UnevaluatedProgramError, ProgramFaultError, UsageError) as error:  # by the host's own statements
        if len(members) > 1:
            yield from run_all(_halves(members))
        else:
            outcome = "differs" if isinstance(error, ProgramFaultError) else "not evaluated"
            yield members[0], f"{outcome}: {error.message}"
        return
    for number, own in enumerate(members):
        outcome = compare(own, {name: found.get(prefix(number) + name) for name in own.want})
        if outcome.startswith(OUTCOMES) and len(members) > 1:  # a kernel may be of several networks
            ((_, alone),) = run_all([[own]])
            together = outcome.startswith("differs") and not alone.startswith("differs")
            outcome = f"{outcome}, not alone but with {members[0].drawn.seed}" if together else alone
        yield own, outcome


def compare(member: Member, found: Mapping[str, torch.Tensor | str | None]) -> str:
    """The outcome of one network, of its outputs as far as its program writes them."""
    outcome = "nothing compared"
    for name, value in member.want.items():
        have = found[name]
        if isinstance(have, str):
            return have
        if have is None or value.dtype not in COMPARED:
            continue
        if have.numel() != value.numel():  # of no dimensions, the engine has one
            return f"differs: {name}: the engine gives {tuple(have.shape)}, the interpreter {tuple(value.shape)}"
        have = have.reshape(value.shape)
        problem = difference(have, value)
        if problem is not None and not _rounds(member, name, have, value):
            return f"differs: {name}: {problem}"
        outcome = "equal"
    return outcome


def _halves(members: Sequence[Member]) -> list[Sequence[Member]]:
    middle = len(members) // 2
    return [members[:middle], members[middle:]]


def run_all(groups: Iterable[Sequence[Member]]) -> Iterator[tuple[Member, str]]:
    """What became of each network of some groups, each built as one, without those that TensorRT refuses."""
    for group in groups:
        plan = build(group)
        if not isinstance(plan, bytes) and len(group) > 1:
            refused = dict(_refused(group))
            yield from ((own, outcome) for own, outcome in zip(group, map(refused.get, map(id, group))) if outcome)
            built = [own for own in group if id(own) not in refused]
            # Where each half is built and the whole is not, the halves are.
            yield from run_all([built] if refused else _halves(built)) if built else ()
        elif not isinstance(plan, bytes):
            yield group[0], plan
        else:
            yield from outcomes(group, plan)


def _refused(group: Sequence[Member]) -> Iterator[tuple[int, str]]:
    """The networks of a group that are not built even alone, by their ids, and why."""
    for half in _halves(group):
        plan = build(half)
        if not isinstance(plan, bytes):
            yield from _refused(half) if len(half) > 1 else [(id(half[0]), plan)]


def run_many(networks: Iterable[Drawn | None]) -> Iterator[tuple[Drawn, str]]:
    """What became of each of many networks; those of dynamic sizes are built apart, a few at a time."""
    drawn = iter(networks)
    while batch := list(islice(drawn, BATCH)):
        made = [(network, member(network)) for network in batch if network is not None]
        yield from ((network, reason) for network, reason in made if isinstance(reason, str))
        members = [own for _, own in made if isinstance(own, Member)]
        for dynamic, together in TOGETHER.items():
            kind = [own for own in members if own.drawn.dynamic == dynamic]
            groups = (kind[start : start + together] for start in range(0, len(kind), together))
            yield from ((own.drawn, outcome) for own, outcome in run_all(groups))


def run(drawn: Drawn) -> str:
    """What became of one network."""
    ((_, outcome),) = run_many([drawn])
    return outcome


def smallest(drawn: Drawn) -> Drawn:
    """The same network with the fewest steps that still differs."""
    for count in range(1, len(drawn.steps)):
        for start in range(len(drawn.steps) - count + 1):
            part = Drawn(drawn.seed, drawn.steps[start : start + count], drawn.special, drawn.dynamic)
            if run(part).startswith("differs"):
                return part
    return drawn


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


def _rounds(member: Member, name: str, engine: torch.Tensor, value: torch.Tensor) -> bool:
    """Whether inputs that are a rounding away give results as far apart: a floor, a comparison, a cancellation."""
    if engine.dtype != value.dtype:
        return False
    truncates = not value.dtype.is_floating_point and any(step.type == "RESIZE" for step in member.drawn.steps)
    if truncates and bool(((engine.double() - value.double()).abs() <= 1).all()):
        return True  # sums of weighted integers that are a rounding off a whole number
    generator = torch.Generator().manual_seed(0)
    results = [value.double()]
    types = (value.dtype, *(feed.dtype for feed in member.chain.feeds.values()))
    step = max(STEPS.get(dtype, STEPS[torch.float32]) for dtype in types)
    for _ in range(PERTURBED):
        moved = {
            key: feed * (1 + step * (2 * torch.rand(feed.shape, generator=generator) - 1)).to(feed.dtype)
            if feed.dtype in STEPS
            else feed
            for key, feed in member.chain.feeds.items()
        }
        try:
            results.append(member.interpreter(moved)[name].double())
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
