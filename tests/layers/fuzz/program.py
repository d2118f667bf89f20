"""Random layers: the interpreter against the program of the engine that TensorRT builds of them."""

from __future__ import annotations

import torch
from cases import BACKEND, RECIPES, Recipe, outputs_of, trt

import trtdsl as td
from trtdsl.core.errors import DefinitionError, UnevaluatedProgramError, UnsupportedError
from trtdsl.interpreter.interpret import Interpreter

from . import Trial

STEPS = {torch.float32: 2e-6, torch.float16: 1e-3, torch.bfloat16: 8e-3}
"""The relative steps of the types; results may be a few of them apart."""
SPECIAL = torch.tensor([float("nan"), float("inf"), float("-inf"), 0.0, -0.0])


class Odd(Trial):
    """A trial with NaN and infinities among its floats."""

    def values(self, shape, dtype, low=-4, high=4):
        drawn = super().values(shape, dtype, low, high)
        if not dtype.is_floating_point or low > -4:  # coordinates, scales and lengths stay as they are
            return drawn
        odd = SPECIAL[torch.randint(len(SPECIAL), drawn.shape, generator=self.generator)].to(dtype)
        return torch.where(torch.rand(drawn.shape, generator=self.generator) < 0.2, odd, drawn)


def held_against_program(type: str, drawn: Recipe, seed: object, *, special: bool = False) -> str:
    """What became of one network: "equal", or why nothing was compared. Raises AssertionError where they differ."""
    trial = (Odd if special else Trial)(seed, "static")
    with BACKEND.listen() as messages:
        try:
            outputs = outputs_of(drawn(trial))
            for index, output in enumerate(outputs):
                output.name = f"y{index}"
                output.shape
                trial.network.mark_output(output)
        except (RuntimeError, ValueError, TypeError, AttributeError):
            return "refused"
        if messages.errors() or trial.random_values:
            return "refused"
        plan = _built(trial)
    if plan is None:
        return "not built"
    try:
        want = Interpreter(trial.network)(trial.feeds)
    except (UnsupportedError, DefinitionError):
        return "not interpreted"
    try:
        found = td.evaluate_engine(plan, trial.feeds, trust=True)
    except UnevaluatedProgramError as error:
        return f"not evaluated: {str(error)[:90]}"
    for name, value in want.items():
        have = found.get(name)
        if have is not None and value.dtype in (torch.int8, torch.uint8, torch.bool, *STEPS, torch.int32, torch.int64):
            problem = difference(have.reshape(value.shape), value)
            assert problem is None, f"{type}, {drawn.__name__}, seed {seed!r}: {problem}"
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


def _built(trial: Trial) -> bytes | None:
    builder = trt.Builder(BACKEND.logger)
    config = builder.create_builder_config()
    config.clear_flag(trt.BuilderFlag.TF32)
    try:
        plan = builder.build_serialized_network(trial.network, config)
    except RuntimeError:
        return None
    return None if plan is None else bytes(plan)


__all__ = ["RECIPES", "difference", "held_against_program"]
