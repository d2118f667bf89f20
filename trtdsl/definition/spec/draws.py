"""Random numbers that a torch module draws, given to it as inputs: a network computes the same each time."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ...core.lazy import torch
from ...core.tensors.watched import each_call
from .reference import forward_of


class Draw(NamedTuple):
    """What a call draws: numbers of a distribution, of some size, from which its own follow."""

    sample: tuple[Any, Any] | None
    """As an :class:`~trtdsl.Input` has it: None for the normal distribution, the ends of a uniform one otherwise."""
    of: Any
    """A sequence of sizes, or a tensor of that shape."""
    result: Callable[[Any], Any] = lambda drawn: drawn
    whole: bool = False
    """Whether these are whole numbers."""


UNIFORM = 0.0, 1.0


def _size(size: tuple[Any, ...], named: Any = None) -> Any:
    given = size if named is None else named
    return given[0] if len(given) == 1 and isinstance(given[0], (tuple, list)) else given


def _normal(mean: Any = 0.0, std: Any = 1.0, size: Any = None, **_: Any) -> Draw:
    of = next((each for each in (mean, std) if not isinstance(each, (int, float))), None) if size is None else size
    return Draw(None, of, lambda drawn: drawn * std + mean)


def _randint(*given: Any, low: Any = 0, high: Any = None, size: Any = None, **_: Any) -> Draw:
    *ends, of = given if size is None else (*given, size)
    ends += [] if high is None else [high]
    return Draw((low, *ends) if len(ends) == 1 else (ends[0], ends[1]), of, whole=True)


def _uniform(tensor: Any, a: Any = 0.0, b: Any = 1.0, **options: Any) -> Draw:
    a, b = options.get("from", a), options.get("to", b)
    return Draw(UNIFORM, tensor, lambda drawn: drawn * (b - a) + a)


def _bernoulli(input: Any, p: Any = None, **_: Any) -> Draw:
    return Draw(UNIFORM, input, lambda drawn: drawn < (input if p is None else p))


def _gumbel_softmax(logits: Any, tau: float = 1, hard: bool = False, eps: float = 0, dim: int = -1) -> Draw:
    def result(drawn: Any) -> Any:
        soft = ((logits - torch.log(-torch.log1p(-drawn))) / tau).softmax(dim)
        return torch.zeros_like(soft).scatter(dim, soft.argmax(dim, keepdim=True), 1.0) if hard else soft

    return Draw(UNIFORM, logits, result)


DRAWS: Mapping[str, Callable[..., Draw]] = {
    "randn": lambda *size, **options: Draw(None, _size(size, options.get("size"))),
    "rand": lambda *size, **options: Draw(UNIFORM, _size(size, options.get("size"))),
    "randn_like": lambda input, **_: Draw(None, input),
    "rand_like": lambda input, **_: Draw(UNIFORM, input),
    "randint": _randint,
    "randint_like": lambda input, *ends, **named: _randint(*ends, size=input, **named),
    "normal": _normal,
    "normal_": lambda tensor, mean=0.0, std=1.0, **_: Draw(None, tensor, lambda drawn: drawn * std + mean),
    "uniform_": _uniform,
    "bernoulli": _bernoulli,
    "bernoulli_": lambda tensor, p=0.5, **_: _bernoulli(tensor, p),
    "gumbel_softmax": _gumbel_softmax,
    "exponential_": lambda tensor, lambd=1.0, **_: Draw(UNIFORM, tensor, lambda drawn: -torch.log1p(-drawn) / lambd),
}
"""By the names of torch's functions and methods."""


def with_draws(module: torch.nn.Module, names: Sequence[str | None]) -> torch.nn.Module:
    """The module, whose forward takes what it would draw as further inputs, in the order in which it draws.

    A draw whose name is None stays one. Uniform numbers lie between 0 and 1: what a call computes from them it computes
    still.
    """
    own = vars(module).get("forward")
    inputs = [name for name in names if name is not None]

    @functools.wraps(module.forward)
    def forward(*given: Any, **named: Any) -> Any:
        further = [named.pop(name) for name in inputs if name in named]
        first = len(given) - (len(inputs) - len(further))
        given, further = given[:first], [*given[first:], *further]
        drawn = dict(zip(inputs, further))
        with _given(iter([None if name is None else drawn[name] for name in names])):
            return type(module).forward(module, *given, **named) if own is None else own(*given, **named)

    signature = inspect.signature(forward_of(module))
    parameters = [*signature.parameters.values()]
    last = [parameters.pop()] if parameters and parameters[-1].kind is inspect.Parameter.VAR_KEYWORD else []
    more = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY) for name in inputs]
    forward.__dict__["__signature__"] = signature.replace(parameters=[*parameters, *more, *last])
    module.forward = forward
    return module


def _given(numbers: Iterator[torch.Tensor | None]) -> Any:
    """A context in which each draw gets the next of these numbers."""

    def called(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        name = getattr(function, "__name__", "")
        if name not in DRAWS:
            return function(*args, **kwargs)
        drawn = next(numbers, None)
        if drawn is None:
            return function(*args, **kwargs)
        draw = DRAWS[name](*args, **kwargs)
        like = draw.of if isinstance(draw.of, torch.Tensor) else None
        shape = tuple(draw.of if like is None else like.shape)
        if tuple(drawn.shape) != shape:
            raise ValueError(f"torch.{name} draws {shape}, and is given {tuple(drawn.shape)}")
        result = draw.result(drawn)
        target = like if name.endswith("_") else kwargs.get("out")
        if target is not None:
            return target.copy_(result)
        dtype = kwargs.get("dtype") or (None if like is None else like.dtype)
        return result if dtype is None else result.to(dtype)

    return each_call(called)
