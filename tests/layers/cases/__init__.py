"""Cases of every layer type: real layers, added by TensorRT's own API, with values that trtdsl did not compute.

Values are worked by hand from TensorRT's documentation, or come from numpy; never from the evaluator under test.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from trtdsl.core.backend import get_backend
from trtdsl.core.errors import DefinitionError
from trtdsl.interpreter.interpret import Interpreter
from trtdsl.layers.evaluation import storage

BACKEND = get_backend("tensorrt-rtx")
trt = BACKEND.trt
NAN, INF = math.nan, math.inf


Recipe = Callable[[Any], Any]
"""Draws one layer with a ``Trial`` of tests/layers/fuzz."""
RECIPES: dict[str, list[Recipe]] = {}


def recipe(*types: str) -> Callable[[Recipe], Recipe]:
    """Registers a recipe for the layer types that it draws."""

    def register(function: Recipe) -> Recipe:
        for type in types:
            RECIPES.setdefault(type, []).append(function)
        return function

    return register


@dataclass(frozen=True)
class Case:
    """One layer (or a few), what it is fed and what must come out."""

    type: str
    name: str
    feeds: list[torch.Tensor]
    expected: list[Any]
    build: Callable[..., Any]
    tolerance: float = 1e-5
    dynamic: bool = False
    dtypes: dict[int, Any] = field(default_factory=dict)
    """TensorRT's type of an input whose values are fed unpacked (int4, fp4)."""
    raises: str | None = None
    """What the error says, where there must be one."""

    def __str__(self) -> str:
        return f"{self.type}-{self.name}"


CASES: list[Case] = []


def case(
    type: str, name: str, feeds: Sequence[Any], expected: Sequence[Any], build: Callable[..., Any], **options: Any
):
    """Adds a case; lists become tensors, floats of float32 and integers of int64."""
    CASES.append(Case(type, name, [as_tensor(feed) for feed in feeds], list(expected), build, **options))


def as_tensor(value: Any) -> torch.Tensor:
    """A torch tensor of a tensor, an array, or (nested) numbers."""
    if isinstance(value, torch.Tensor):
        return value
    if isinstance(value, (np.ndarray, np.generic)):
        array = np.asarray(value)
        return torch.from_numpy(array.astype(np.float32) if array.dtype == np.float64 else array.copy())
    return torch.tensor(value)


def constant(network: Any, value: Any, keep: list[Any]) -> Any:
    """An IConstantLayer's output; ``keep`` holds the memory that TensorRT points into."""
    data = as_tensor(value).contiguous()
    keep.append(data)
    weights = trt.Weights(BACKEND.data_type(data.dtype), data.data_ptr(), data.numel())
    return network.add_constant(tuple(data.shape), weights).get_output(0)


class Builder:
    """What a case's ``build`` gets: the network, with constants that stay alive."""

    def __init__(self) -> None:
        self.network = BACKEND.create_network()
        self.keep: list[Any] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self.network, name)

    def constant(self, value: Any) -> Any:
        return constant(self.network, value, self.keep)

    def weights(self, value: Any) -> Any:
        """trt.Weights of an array."""
        data = as_tensor(value).contiguous()
        self.keep.append(data)
        return trt.Weights(BACKEND.data_type(data.dtype), data.data_ptr(), data.numel())


def outputs_of(result: Any) -> list[Any]:
    """The tensors of what a build gives: a layer, a tensor, or several of them."""
    if isinstance(result, (list, tuple)):
        return [tensor for item in result for tensor in outputs_of(item)]
    if isinstance(result, trt.ITensor):
        return [result]
    return [result.get_output(index) for index in range(result.num_outputs)]


def run(item: Case) -> None:
    """Interprets the case; fails where values, dtypes or shapes differ from those expected and from TensorRT's own."""
    builder = Builder()
    with BACKEND.listen() as messages:
        inputs = []
        for index, feed in enumerate(item.feeds):
            shape = tuple(-1 for _ in feed.shape) if item.dynamic else tuple(feed.shape)
            inputs.append(
                builder.network.add_input(f"x{index}", item.dtypes.get(index, BACKEND.data_type(feed.dtype)), shape)
            )
        results = outputs_of(item.build(builder, *inputs))
        names = []
        for index, tensor in enumerate(results):
            tensor.name = f"y{index}"
            tensor.shape
            builder.network.mark_output(tensor)
            names.append(tensor.name)
    assert not messages.errors(), messages.errors()
    feeds = {f"x{index}": feed for index, feed in enumerate(item.feeds)}
    if item.raises is not None:
        said = None
        try:
            Interpreter(builder.network)(feeds)
        except DefinitionError as error:
            said = str(error)
        assert said is not None
        assert item.raises in said
        return
    interpreter = Interpreter(builder.network)
    assert item.type in {node.type for node in interpreter.nodes}
    values = interpreter(feeds, keep="all")
    inferred = {tensor.name: tensor for node in interpreter.nodes for tensor in node.outputs}
    for name, value in values.items():
        if name in inferred:
            dims = tuple(inferred[name].shape)
            assert value.dtype == storage(BACKEND.torch_dtype(inferred[name].dtype)), f"{name} has {value.dtype}"
            assert len(dims) == value.ndim, f"{name} has shape {tuple(value.shape)}, not {dims}"
            assert all(want in (-1, have) for want, have in zip(dims, value.shape)), (
                f"{name}: {value.shape}, not {dims}"
            )
    assert len(names) == len(item.expected) > 0
    for name, expected in zip(names, item.expected, strict=True):
        compare(values[name], expected, item.tolerance)


def compare(value: torch.Tensor, expected: Any, tolerance: float) -> None:
    """Fails where a value differs from what is expected by more than ``tolerance`` of the scale."""
    want = as_tensor(expected)
    assert tuple(value.shape) == tuple(want.shape), f"shape {tuple(value.shape)}, expected {tuple(want.shape)}"
    a, b = wide(value), wide(want)
    finite = torch.isfinite(b)
    assert torch.equal(torch.isfinite(a), finite), f"{a} is not finite where {b} is"
    assert torch.equal(torch.isnan(a), torch.isnan(b)), f"{a} has NaN where {b} has not"
    assert torch.equal(a[~finite & ~b.isnan()], b[~finite & ~b.isnan()]), f"{a}, expected {b}"
    scale = max(float(b[finite].abs().max()) if bool(finite.any()) else 0.0, 1e-30)
    exact = not want.dtype.is_floating_point
    limit = 0.0 if exact else tolerance * scale
    worst = float((a[finite] - b[finite]).abs().max()) if bool(finite.any()) else 0.0
    assert worst <= limit, f"{value} differs from {want} by {worst}"


def wide(x: torch.Tensor) -> torch.Tensor:
    """As float64."""
    return x.double() if x.dtype.is_floating_point and x.dtype.itemsize > 1 else x.float().double()


def signed(*shape: int, seed: int = 0) -> np.ndarray:
    """Reproducible values of both signs."""
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


from . import arithmetic, decoders, edges, gathers, movement, quantization, regions, windows  # noqa: E402

__all__ = [
    "CASES",
    "Case",
    "arithmetic",
    "decoders",
    "edges",
    "gathers",
    "movement",
    "quantization",
    "regions",
    "run",
    "windows",
]
