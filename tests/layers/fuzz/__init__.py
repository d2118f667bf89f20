"""Random layers of every type: what TensorRT infers and folds, against what the interpreter makes of the same layer.

A recipe draws one layer: ``@recipe("TYPE")``, here or beside the cases of its type. It is built three times from one
seed: on inputs of static sizes, on inputs whose sizes are all dynamic, and on constants, which TensorRT folds. A layer
that TensorRT refuses says nothing and is counted.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from cases import BACKEND, RECIPES, Builder, Recipe, outputs_of, recipe
from oracle import GREAT, folds

from trtdsl.core.errors import DefinitionError, UnsupportedError
from trtdsl.interpreter.interpret import Interpreter
from trtdsl.layers.evaluation import storage

FLOATS = (torch.float32, torch.float16, torch.bfloat16)
INTEGERS = (torch.int32, torch.int64)
NARROW = (torch.int8, torch.uint8, torch.bool)
DTYPES = (*FLOATS, *INTEGERS, *NARROW)
FOLDED = (torch.float32, torch.int8, torch.int32, torch.int64, torch.bool)
"""What TensorRT computes on the CPU as it does on the GPU; there the halves do not round."""

SCALE = 1 << 16
LIMIT = GREAT / SCALE


class Trial(Builder):
    """One layer being drawn: random numbers, the network, and its inputs."""

    def __init__(self, seed: object, mode: str):
        super().__init__()
        self.random = random.Random(str(seed))
        self.generator = torch.Generator().manual_seed(self.random.randrange(1 << 30))
        self.mode = mode
        self.prefix = ""
        self.feeds: dict[str, torch.Tensor] = {}
        self.foldable = True
        """Whether every operand is of a dtype that TensorRT folds."""
        self.may_fail = False
        """Whether the values may be such as the evaluator refuses when it runs, as documented."""
        self.sizes_matter = False
        """Whether the layer means something else where sizes are dynamic."""
        self.unsupported = False
        """Whether the interpreter says that it does not know the layer's result."""
        self.random_values = False
        """Whether no two runs give the same values."""

    # -- drawing -------------------------------------------------------------------------------------------------------

    def pick(self, options: Sequence[Any]) -> Any:
        return self.random.choice(list(options))

    def maybe(self, chance: float = 0.5) -> bool:
        return self.random.random() < chance

    def number(self, low: int, high: int) -> int:
        """Between both, which are included."""
        return self.random.randint(low, high)

    def size(self) -> int:
        return self.random.choices((0, 1, 2, 3, 4, 5), (2, 5, 5, 4, 2, 1))[0]

    def shape(self, low: int = 0, high: int = 8) -> tuple[int, ...]:
        rank = self.number(low, high)
        if rank > 5:
            return tuple(self.random.choices((0, 1, 2), (1, 10, 6))[0] for _ in range(rank))
        return tuple(self.size() for _ in range(rank))

    def axis(self, shape: Sequence[int]) -> int:
        return self.number(0, max(len(shape) - 1, 0))

    def mask(self, shape: Sequence[int]) -> int:
        """A bit mask of one axis or more."""
        return self.number(1, max((1 << len(shape)) - 1, 1))

    def beside(self, shape: Sequence[int]) -> tuple[int, ...]:
        """A shape that broadcasts with another one: some sizes are 1."""
        return tuple(1 if self.maybe(0.25) else size for size in shape)

    def values(self, shape: Sequence[int], dtype: torch.dtype, low: float = -4, high: float = 4) -> torch.Tensor:
        """Values between both, whole and halves more often than chance has them."""
        if dtype == torch.bool:
            return torch.rand(tuple(shape), generator=self.generator) < 0.5
        drawn = torch.rand(tuple(shape), generator=self.generator) * (high - low) + low
        if not dtype.is_floating_point:
            return drawn.round().clamp(min=0 if dtype == torch.uint8 else -128, max=127).to(dtype)
        coarse = (drawn * 2).round() / 2
        return torch.where(torch.rand(tuple(shape), generator=self.generator) < 0.5, coarse, drawn).to(dtype)

    # -- the network ---------------------------------------------------------------------------------------------------

    def input(self, shape: Sequence[int], dtype: torch.dtype, low: float = -4, high: float = 4) -> Any:
        """An operand with values between both bounds."""
        return self.operand(self.values(shape, dtype, low, high))

    def operand(self, value: torch.Tensor, *, static: bool = False) -> Any:
        """An operand of a value; ``static`` where TensorRT wants its sizes."""
        self.foldable = self.foldable and value.dtype in FOLDED
        if self.mode == "constants":
            return super().constant(value)
        name = f"{self.prefix}x{len(self.feeds)}"
        self.feeds[name] = value
        dynamic = self.mode == "dynamic" and not static
        shape = tuple(-1 for _ in value.shape) if dynamic else tuple(value.shape)
        return self.network.add_input(name, BACKEND.data_type(value.dtype), shape)


def judge(type: str, drawn: Recipe, seed: object) -> set[str]:
    """Draws one layer and compares; what was compared. Raises AssertionError with the seed where something differs."""
    seen: set[str] = set()
    results = {}
    for mode in ("static", "dynamic"):  # what TensorRT refuses in the first, it may not see in the second
        try:
            found = _interpreted(type, drawn, seed, mode)
        except AssertionError as error:
            raise AssertionError(f"{type}, {drawn.__name__}, seed {seed!r}, {mode}: {error}") from None
        if found is None:
            return seen
        seen.add(mode)
        results[mode], trial = found
    if trial.random_values:
        return seen
    for name, value in results["dynamic"].items() if not trial.sizes_matter else ():
        same = torch.equal(bits(value), bits(results["static"][name]))
        assert same, f"{type}, seed {seed!r}: {name} depends on whether sizes are static"
    if trial.foldable and results["static"]:
        trial = Trial(seed, "constants")
        with BACKEND.listen():
            outputs = outputs_of(drawn(trial))
        for index, (value, output) in enumerate(zip(results["static"].values(), outputs, strict=True)):
            folded = folds(trial, output, SCALE)
            if folded is None or value.dtype not in FOLDED or not value.numel():
                continue
            seen.add("folded")
            have = value.double().numpy()
            if value.dtype.is_floating_point:
                have = np.where(np.isinf(have), have, np.clip(have, -LIMIT, LIMIT))
            agree = np.allclose(have, folded, rtol=1e-5, atol=2 / SCALE, equal_nan=True)
            assert agree, f"{type}, seed {seed!r}, output {index}: {value} is not TensorRT's {folded}"
    return seen


def _interpreted(type: str, drawn: Recipe, seed: object, mode: str) -> tuple[dict[str, torch.Tensor], Trial] | None:
    """The outputs as the interpreter computes them; None where TensorRT refuses the layer."""
    trial = Trial(seed, mode)
    with BACKEND.listen() as messages:
        try:
            outputs = outputs_of(drawn(trial))
            inferred = [(tuple(output.shape), BACKEND.torch_dtype(output.dtype)) for output in outputs]
        except (RuntimeError, ValueError, TypeError, AttributeError):  # also what is done to a layer that is None
            return None
        for index, output in enumerate(outputs):
            output.name = f"y{index}"
            trial.network.mark_output(output)
    if messages.errors():
        return None
    try:
        interpreter = Interpreter(trial.network)
    except UnsupportedError:
        assert trial.unsupported, "the interpreter does not know it"
        return None
    assert not trial.unsupported, "the interpreter claims to know it"
    assert type in {node.type for node in interpreter.nodes}, f"the recipe made {[n.type for n in interpreter.nodes]}"
    try:
        values = interpreter(trial.feeds)
    except DefinitionError as error:
        if not trial.may_fail:
            raise AssertionError(f"TensorRT takes it, the interpreter does not: {error}") from None
        return {}, trial
    for (shape, dtype), (name, value) in zip(inferred, values.items(), strict=True):
        assert value.dtype == storage(dtype), f"{name} is {value.dtype}, TensorRT says {dtype}"
        fits = len(shape) == value.ndim and all(want in (-1, have) for want, have in zip(shape, value.shape))
        assert fits, f"{name} has shape {tuple(value.shape)}, TensorRT says {shape}"
    return values, trial


def bits(value: torch.Tensor) -> torch.Tensor:
    """For a comparison in which NaN equals itself."""
    wide = value.float() if value.dtype.is_floating_point else value
    return wide.nan_to_num(nan=12345.0) if wide.dtype.is_floating_point else wide


from . import elements, models, movement, regions, windows  # noqa: E402

__all__ = ["RECIPES", "Trial", "elements", "judge", "models", "movement", "recipe", "regions", "windows"]
