"""Evaluates a real INetworkDefinition on CPU tensors, layer by layer; knows no layer type itself."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from . import layers  # noqa: F401  (registers the evaluators)
from .backend import Backend, get_backend
from .errors import DefinitionError, FeedError, Location, TrtdslError
from .layers.base import Evaluate, Node, kind
from .layers.shape import linear
from .lazy import np, torch
from .network import Network
from .shape import shape_text, value

Keep = Collection[str] | Literal["all"] | None
Feeds = Mapping[str, Any]


def interpret(
    network: Network | Any,
    feeds: Feeds,
    *,
    keep: Keep = None,
    observe: Callable[[str, torch.Tensor], None] | None = None,
) -> dict[str, torch.Tensor]:
    """The outputs of ``network`` for ``feeds``, evaluated on the CPU as TensorRT documents its layers.

    ``network`` is a :class:`Network` or any ``INetworkDefinition``. ``feeds`` has a torch tensor or numpy array of the
    right dtype, rank and static sizes for every input. ``keep`` names further tensors to give back (``"all"``: every
    one); ``observe(name, tensor)`` sees each tensor when it is made. Other tensors are freed after their last use.

    Raises FeedError with the expected signature, UnsupportedError for a layer that cannot be evaluated, and
    DefinitionError, naming the layer and the author's line, for one that does not fit the sizes fed.

    >>> net = td.Network()
    >>> net.output(F.relu(net.input("x", ("N",))), "y")
    >>> td.interpret(net, {"x": torch.tensor([-1.0, 2.0])})["y"]
    tensor([0., 2.])
    """
    return Interpreter(network)(feeds, keep=keep, observe=observe)


@dataclass
class Step:
    """One layer, ready to run: where its inputs and outputs are, and which values end with it."""

    node: Node
    run: Evaluate
    inputs: list[int]
    outputs: list[int]
    last: list[int]


class Interpreter:
    """A network made ready to be evaluated many times: its layers read and sorted once."""

    def __init__(self, network: Network | Any):
        self.network = network if isinstance(network, Network) else None
        self.definition = network.definition if isinstance(network, Network) else network
        self.backend = network.backend if isinstance(network, Network) else backend_of(network)
        with self.backend.listen():  # reading back logs complaints about attributes that are not there
            self._prepare()

    def _prepare(self) -> None:
        definition = self.definition
        self.inputs = [definition.get_input(index) for index in range(definition.num_inputs)]
        self.outputs = [definition.get_output(index) for index in range(definition.num_outputs)]
        nodes = [Node(self.backend, definition.get_layer(index)) for index in range(definition.num_layers)]
        self.slots: dict[str, int] = {}
        for tensor in (*self.inputs, *(output for node in nodes for output in node.outputs)):
            self.slots.setdefault(tensor.name, len(self.slots))
        self.steps = [self._step(node) for node in topological_order(nodes, self._name_of)]
        needed = {self.slots[tensor.name] for tensor in self.outputs}
        seen = set(needed)
        for step in reversed(self.steps):
            step.last = [
                slot for slot in dict.fromkeys((*step.inputs, *step.outputs)) if slot >= 0 and slot not in seen
            ]
            seen.update(step.last)

    def _name_of(self, node: Node) -> str:
        location = self._location(node)
        return f"{location}: layer {node.name!r}" if location else f"layer {node.name!r}"

    def _step(self, node: Node) -> Step:
        try:
            run = kind(node).prepare(node)
        except TrtdslError as error:
            error.location = error.location or self._location(node)
            raise
        inputs = [-1 if tensor is None else self.slots[tensor.name] for tensor in node.inputs]
        while inputs and inputs[-1] < 0:
            inputs.pop()
        return Step(node, run, inputs, [self.slots[tensor.name] for tensor in node.outputs], [])

    def _location(self, node: Node) -> Location | None:
        return self.network.locations.get(node.name) if self.network else None

    def __call__(
        self, feeds: Feeds, *, keep: Keep = None, observe: Callable[[str, torch.Tensor], None] | None = None
    ) -> dict[str, torch.Tensor]:
        """As :func:`interpret`."""
        kept = self._kept(keep)
        values: list[Any] = [None] * len(self.slots)
        for name, tensor in self._check_feeds(feeds).items():
            values[self.slots[name]] = tensor
        with torch.inference_mode():
            for step in self.steps:
                self._run(step, values, observe)
                for slot in step.last:
                    if slot not in kept:
                        values[slot] = None
        names = {tensor.name: self.slots[tensor.name] for tensor in self.outputs} | {n: s for s, n in kept.items()}
        return {name: values[slot] for name, slot in names.items()}

    def _run(self, step: Step, values: list[Any], observe: Callable[[str, torch.Tensor], None] | None) -> None:
        operands = [values[slot] if slot >= 0 else None for slot in step.inputs]
        try:
            results = step.run(*operands)
        except (RuntimeError, IndexError, ValueError, TrtdslError) as error:
            shapes = ", ".join("-" if x is None else str(tuple(x.shape)) for x in operands)
            raise DefinitionError(
                f"layer {step.node.name!r} ({step.node.type}) does not fit operands of shapes {shapes}: {error}",
                location=self._location(step.node),
            ) from error
        if not isinstance(results, tuple):
            results = (results,)
        for slot, tensor, result in zip(step.outputs, step.node.outputs, results, strict=True):
            values[slot] = result
            if observe is not None:
                observe(tensor.name, result)

    def _kept(self, keep: Keep) -> dict[int, str]:
        if keep is None:
            return {}
        names = list(self.slots) if keep == "all" else list(keep)
        unknown = [name for name in names if name not in self.slots]
        if unknown:
            raise FeedError(f"the network has no tensor {', '.join(map(repr, unknown))}")
        return {self.slots[name]: name for name in names}

    # -- feeds ---------------------------------------------------------------------------------------------------------

    def _check_feeds(self, feeds: Feeds) -> dict[str, torch.Tensor]:
        problems: list[str] = []
        tensors: dict[str, torch.Tensor] = {}
        expected = {tensor.name: tensor for tensor in self.inputs}
        for name in feeds:
            if name not in expected:
                problems.append(f"there is no input {name!r}")
        for name, handle in expected.items():
            if name not in feeds:
                problems.append(f"{name!r} is missing")
                continue
            try:
                tensors[name] = _as_cpu_tensor(feeds[name])
            except (TypeError, ValueError) as error:
                problems.append(f"{name!r} cannot be read as a tensor: {error}")
                continue
            problems += self._check_feed(name, handle, tensors[name])
        if not problems and self.network:
            problems += _check_dims(self.network, tensors)
        if problems:
            raise FeedError("the feeds do not fit: " + "; ".join(problems) + f". Expected {self.signature()}")
        return tensors

    def _check_feed(self, name: str, handle: Any, tensor: torch.Tensor) -> list[str]:
        dtype, shape = self.backend.torch_dtype(handle.dtype), tuple(handle.shape)
        problems = []
        if tensor.dtype != dtype:
            problems.append(f"{name!r} is {_short(tensor.dtype)}, not {_short(dtype)}")
        if tensor.ndim != len(shape) or any(
            size not in (-1, got) for size, got in zip(shape, tensor.shape, strict=False)
        ):
            problems.append(f"{name!r} has shape {tuple(tensor.shape)}")
        return problems

    def signature(self) -> str:
        """The inputs as ``name: dtype (shape)``."""
        texts = []
        for handle in self.inputs:
            shape = self.network.inputs[handle.name].shape if self.network else tuple(handle.shape)
            texts.append(f"{handle.name}: {_short(self.backend.torch_dtype(handle.dtype))} {shape_text(shape)}")
        return ", ".join(texts) or "no inputs"


def backend_of(definition: Any) -> Backend:
    """The backend that an INetworkDefinition belongs to."""
    return get_backend("tensorrt-rtx" if "tensorrt_rtx" in type(definition).__module__ else "tensorrt")


def topological_order(nodes: Sequence[Node], name_of: Callable[[Node], str] = lambda node: node.name) -> list[Node]:
    """The layers such that each comes after those it needs, otherwise as they were added.

    TensorRT does not keep them so: a parser adds some before their inputs.
    """
    maker = {tensor.name: index for index, node in enumerate(nodes) for tensor in node.outputs}
    needs = [{maker[t.name] for t in node.inputs if t is not None and t.name in maker} for node in nodes]
    users: list[list[int]] = [[] for _ in nodes]
    for index, makers in enumerate(needs):
        for other in makers:
            users[other].append(index)
    waiting = [len(makers) for makers in needs]
    ready = [index for index, count in enumerate(waiting) if count == 0]
    order: list[Node] = []
    while ready:
        index = heapq.heappop(ready)
        order.append(nodes[index])
        for user in users[index]:
            waiting[user] -= 1
            if waiting[user] == 0:
                heapq.heappush(ready, user)
    if len(order) < len(nodes):
        stuck = next(index for index, count in enumerate(waiting) if count > 0)
        raise DefinitionError(f"{name_of(nodes[stuck])} needs its own result")
    return order


def dims_of(network: Network, shapes: Mapping[str, Sequence[int]]) -> dict[str, int]:
    """The value of each Dim, solved from the inputs' concrete shapes; FeedError where they contradict each other."""
    env: dict[str, int] = {}
    for name, tensor in network.inputs.items():
        for axis, (size, got) in enumerate(zip(tensor.shape, shapes[name], strict=True)):
            for dim in network.dims.values():
                solution = linear(size, dim)
                if solution is None:
                    continue
                factor, offset = solution
                found = env.setdefault(dim.name, (got - offset) // factor)
                if value(size, {dim.name: found}) != got:
                    raise FeedError(
                        f"dimension {axis} of {name!r} is {size}, which is not {got} where {dim.name} = {found}"
                    )
    return env


def _check_dims(network: Network, tensors: Mapping[str, torch.Tensor]) -> list[str]:
    try:
        dims_of(network, {name: tuple(tensor.shape) for name, tensor in tensors.items()})
    except FeedError as error:
        return [error.message]
    return []


def _as_cpu_tensor(feed: Any) -> torch.Tensor:
    if isinstance(feed, torch.Tensor):
        return feed.detach().cpu()
    array = np.asarray(feed)
    return torch.from_numpy(array if array.flags.writeable else array.copy())


def _short(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
