"""Evaluates a real INetworkDefinition on CPU tensors, layer by layer; knows no layer type itself."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from typing import Any, Literal, TypeVar

from .. import layers  # noqa: F401  (registers the evaluators)
from ..core.backend import backend_of
from ..core.errors import DefinitionError, FeedError, Location, ShapeError, TrtdslError, located, nearest
from ..core.lazy import torch
from ..core.tensors.watched import by_default
from ..definition.call import Operand
from ..definition.network import Network
from ..definition.spec.load import NetworkLike, as_network
from ..layers.evaluation import Evaluate, Meeting, Node, kind, read_nodes
from ..layers.region import Region, partition
from .feeds import by_name, check_written, fit, shared_out, whole

Keep = Collection[str] | Literal["all"] | None
Feeds = Mapping[str, Any]
Wrap = Callable[[Node, Evaluate], Evaluate]
Part = TypeVar("Part", bound="Node | Region")


@by_default
def interpret(
    network: NetworkLike | Any,
    feeds: Feeds,
    *,
    keep: Keep = None,
    observe: Callable[[str, torch.Tensor], None] | None = None,
) -> dict[str, torch.Tensor]:
    """The outputs of ``network`` for ``feeds``, evaluated on the CPU as TensorRT documents its layers.

    ``network`` is a spec, a :class:`Network`, a file (``FILE.py:NAME``) or any ``INetworkDefinition``. ``feeds`` has a
    torch tensor or numpy array of the right dtype, rank and static sizes for every input; sizes outside of a range are
    evaluated, too, but not those that :func:`trtdsl.require` excludes. ``keep`` names further tensors to give back, by
    their own name or their layer's (``"all"``: every one, by its own); ``observe(name, tensor)`` sees each tensor when
    it is made. Others are freed after their last use.

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
    """One layer or region, ready to run: where its inputs and outputs are, and which values end with it."""

    part: Node | Region
    run: Any
    inputs: list[int]
    outputs: list[int]
    last: list[int]
    inside: list[int] | None
    """What is made inside a region, and ends with it; None for a layer."""
    output: int = -1
    """The one output of a layer that has one."""

    @property
    def node(self) -> Node:
        """The layer; a region's first boundary layer."""
        return self.part if isinstance(self.part, Node) else self.part.boundary[0]


Steps = list[Step]


class Interpreter:
    """A network prepared for many evaluations: its layers are read and sorted once.

    ``wrap(node, evaluate)`` gives what stands for each layer's evaluator: to watch its operands, or to change it.
    A network that is one rank's part is evaluated with the others: what they share out is fed and given whole.
    """

    def __init__(self, network: NetworkLike | Any, *, wrap: Wrap | None = None, alone: bool = False):
        self.wrap = wrap
        written: Any = as_network(network)
        self.network = written if isinstance(written, Network) else None
        self.ranks = [self]
        self.apart: dict[str, None] = {}
        """The outputs that differed by rank, though none is a part of one."""
        if self.network is not None and not alone and self.network.ranks > 1:
            self.ranks = [Interpreter(other, alone=True) for other in self.network.others()]
            self.ranks.insert(self.network.rank, self)
        if self.network is not None:
            self.network.check_weights()
        self.definition: Any = written if self.network is None else self.network.definition
        self.backend = backend_of(written) if self.network is None else self.network.backend
        with self.backend.listen():  # reading back logs complaints about attributes that are not there
            self._prepare()

    def _prepare(self) -> None:
        definition = self.definition
        self.inputs = [definition.get_input(index) for index in range(definition.num_inputs)]
        self.outputs = [definition.get_output(index) for index in range(definition.num_outputs)]
        self.nodes = read_nodes(self.backend, definition)
        network = self.network
        for node in self.nodes if network is not None else ():
            assert network is not None
            facts = network.layers[node.name]
            node.numbers = facts.numbers
            node.given = None if facts.plugin is None else facts.plugin.evaluate
        self.slots: dict[str, int] = {}
        for name in (*(t.name for t in self.inputs), *(name for node in self.nodes for name in node.makes)):
            self.slots.setdefault(name, len(self.slots))
        self.names = list(self.slots)
        self.makers = {name: node.name for node in self.nodes for name in node.makes}
        """The layer of each tensor: an output that was given a name has not its layer's."""
        self.layers: dict[str, int] = {}
        """The first output of each layer; of layers that share a name, the first one's."""
        for node in self.nodes:
            if node.makes:
                self.layers.setdefault(node.name, self.slots[node.makes[0]])
        self.fixed: set[str] = set()
        self.borrowed: set[int] = set()
        """Memory that ends with the network: what is given away of it is copied."""
        outputs = [tensor.name for tensor in self.outputs]
        nodes, regions = partition(self.nodes, outputs)
        self.steps = self.sequence([*nodes, *regions], outputs, {tensor.name for tensor in self.inputs})

    def sequence(self, parts: Sequence[Node | Region], targets: Sequence[str], ends: Collection[str] = ()) -> Steps:
        """The layers and regions in an order that works, each with the values that end with it.

        Values that the parts make, and those named in ``ends``, end after their last use, unless they are ``targets``.
        """
        steps = [self._step(part) for part in topological_order(parts, self._name_of)]
        mortal = {self.slots[name] for name in (*ends, *(name for part in parts for name in part.makes))}
        mortal.difference_update(self.slots[name] for name in targets)
        for step in reversed(steps):
            step.last = [slot for slot in dict.fromkeys((*step.inputs, *step.outputs)) if slot in mortal]
            mortal.difference_update(step.last)
        return steps

    def _name_of(self, part: Node | Region) -> str:
        name, location = part.name, self._location(part)
        return f"{location}: layer {name!r}" if location else f"layer {name!r}"

    def _step(self, part: Node | Region) -> Step:
        with located(self._location(part)):
            if isinstance(part, Region):
                run = part.kind.prepare(part, _Body(self, part))
                inputs = [self.slots[name] for name in part.needs]
            else:
                part.fixed = self.fixed
                if part.type == "CONSTANT" or (part.needs and self.fixed.issuperset(part.needs)):
                    self.fixed.update(part.makes)
                run = kind(part).prepare(part)
                if part.type == "DEQUANTIZE" and self.wrap is None and self.fixed.issuperset(part.makes):
                    run = self._once(run)
                if self.wrap is not None and kind(part).category != "collective":
                    run = self.wrap(part, run)
                if not part.inputs and not kind(part).moves:  # a view of the network's own memory
                    self.borrowed.add(run().untyped_storage().data_ptr())
                inputs = [-1 if tensor is None else self.slots[tensor.name] for tensor in part.inputs]
                while inputs and inputs[-1] < 0:
                    inputs.pop()
        outputs = [self.slots[name] for name in part.makes]
        if isinstance(part, Region):
            made = {self.slots[name] for index in part.inside for name in self.nodes[index].makes}
            return Step(part, run, inputs, outputs, [], sorted(made - set(outputs)))
        return Step(part, run, inputs, outputs, [], None, outputs[0] if len(outputs) == 1 else -1)

    def _once(self, run: Evaluate) -> Evaluate:
        """The evaluation of a layer of constants, such as a quantized weight: its value is kept, unless another is
        computed beside it."""
        kept: list[torch.Tensor] = []

        def evaluate(*operands: Any) -> Any:
            if torch._C._len_torch_dispatch_stack():
                return run(*operands)
            if not kept:
                kept.append(run(*operands))
                self.borrowed.add(kept[0].untyped_storage().data_ptr())
            return kept[0]

        return evaluate

    def _location(self, part: Node | Region) -> Location | None:
        return self.network.layers[part.name].location if self.network else None

    @by_default
    def __call__(
        self, feeds: Feeds, *, keep: Keep = None, observe: Callable[[str, torch.Tensor], None] | None = None
    ) -> dict[str, torch.Tensor]:
        """As :func:`interpret`."""
        kept = self._kept(keep)
        state = _State(self, frozenset(kept.values()), observe)
        states = [state if each is self else _State(each, frozenset(), None) for each in self.ranks]
        shared = shared_out(self.network, feeds) if len(self.ranks) > 1 else [by_name(feeds)]
        for each, parts in zip(states, shared, strict=True):
            for name, tensor in each.interpreter._check_feeds(parts).items():
                each.values[each.interpreter.slots[name]] = tensor
        with torch.no_grad(), torch.autocast("cpu", enabled=False):
            _execute(states)
        own = {t.name: [each.values[each.interpreter.slots[t.name]] for each in states] for t in self.outputs}
        results = {name: whole(self.network if len(states) > 1 else None, name, own[name]) for name in own}
        if len(states) > 1 and self.network is not None:
            for name in (name for name in own if self.network.sharded(name) is None):
                if not all(torch.equal(own[name][0], other) for other in own[name]):
                    self.apart[name] = None
        for name, slot in kept.items():
            if state.values[slot] is not None:
                results[name] = state.values[slot]
            elif keep != "all":
                raise FeedError(f"the tensor {name!r} was not evaluated: it stands in a branch that did not run")
        return {name: self._own(value) for name, value in results.items()}

    def _own(self, value: torch.Tensor) -> torch.Tensor:
        return value.clone() if value.untyped_storage().data_ptr() in self.borrowed else value

    def error(self, step: Step, values: list[Any], error: Exception) -> DefinitionError:
        """The error for a layer that failed, with its operands' shapes and the author's line."""
        operands = [values[slot] for slot in step.inputs]
        shapes = ", ".join("-" if x is None else str(tuple(x.shape)) for x in operands)
        return DefinitionError(
            f"layer {step.node.name!r} ({step.node.type}) does not fit operands of shapes {shapes}: {error}",
            location=self._location(step.part),
        )

    def _kept(self, keep: Keep) -> dict[str, int]:
        if keep is None:
            return {}
        known = {**self.layers, **self.slots}
        names = self.names if keep == "all" else [keep] if isinstance(keep, str) else list(keep)
        unknown = [f"{name!r}{nearest(name, known)}" for name in names if name not in known]
        if unknown:
            raise FeedError(f"the network has no tensor and no layer {', '.join(unknown)}")
        return {name: known[name] for name in names}

    # -- feeds ---------------------------------------------------------------------------------------------------------

    def _check_feeds(self, feeds: Feeds) -> dict[str, torch.Tensor]:
        expected = {
            handle.name: Operand(
                self.network.inputs[handle.name].shape if self.network else tuple(handle.shape),
                self.backend.torch_dtype(handle.dtype),
            )
            for handle in self.inputs
        }
        check_written(self.network.states if self.network else {}, feeds)
        tensors, env = fit(expected, feeds, network=self.network)
        if self.network:
            self.network.constraints.refuse(env)
        return tensors


class _State:
    """The values of one evaluation, by slot; the last one, at -1, stands for an absent input."""

    def __init__(
        self, interpreter: Interpreter, kept: frozenset[int], observe: Callable[[str, torch.Tensor], None] | None
    ):
        self.interpreter, self.kept, self.observe = interpreter, kept, observe
        self.values: list[Any] = [None] * (len(interpreter.slots) + 1)

    def read(self, tensor: Any) -> torch.Tensor:
        """The value of a tensor."""
        return self.values[self.interpreter.slots[tensor.name]]

    def write(self, tensor: Any, value: torch.Tensor) -> None:
        """Gives a tensor its value."""
        name = tensor.name
        self.values[self.interpreter.slots[name]] = value
        if self.observe is not None:
            self.observe(name, value)

    def execute(self, steps: Steps) -> None:
        """Evaluates layers and regions in order."""
        values, observed = self.values, self.observe is not None
        for step in steps:
            if step.inside is not None:
                self._execute_region(step)
            else:
                try:
                    results = step.run(*[values[slot] for slot in step.inputs])
                except (RuntimeError, IndexError, TypeError, ValueError, TrtdslError) as error:
                    raise self.interpreter.error(step, values, error) from error
                if step.output >= 0:
                    values[step.output] = results
                else:
                    for slot, result in zip(step.outputs, results, strict=True):
                        values[slot] = result
                if observed:
                    self._show(step)
            self._end(step.last)

    def finish(self, step: Step, result: torch.Tensor) -> None:
        """Takes a layer's result, and lets go of what ends with it."""
        self.write(step.node.outputs[0], result)
        self._end(step.last)

    def _end(self, slots: Sequence[int]) -> None:
        for slot in slots:
            if slot not in self.kept:
                self.values[slot] = None

    def _show(self, step: Step) -> None:
        assert self.observe is not None
        for slot in step.outputs:
            self.observe(self.interpreter.names[slot], self.values[slot])

    def _execute_region(self, step: Step) -> None:
        try:
            step.run(self)
        except (RuntimeError, IndexError, ValueError, ShapeError) as error:  # those from inside are DefinitionErrors
            raise self.interpreter.error(step, self.values, error) from error
        finally:
            self._end(step.inside or ())


def _execute(states: Sequence[_State]) -> None:
    """Evaluates the networks of all ranks, up to each layer where they meet and from there on.

    Raises DefinitionError where they do not meet at the same ones.
    """
    rest = [state.interpreter.steps for state in states]
    while len(states) > 1:
        ends = [next((at for at, step in enumerate(steps) if isinstance(step.run, Meeting)), None) for steps in rest]
        met = [None if end is None else steps[end] for steps, end in zip(rest, ends, strict=True)]
        if len({step and step.node.name for step in met}) > 1:
            names = ", ".join("the end" if step is None else step.node.name for step in met)
            raise DefinitionError(f"the ranks' networks do not meet at one layer, but at {names}")
        meeting = [step for step in met if step is not None]
        if not meeting:
            break
        for state, steps, end in zip(states, rest, ends, strict=True):
            state.execute(steps[:end])
        operands = [state.values[step.inputs[0]] for state, step in zip(states, meeting, strict=True)]
        results = meeting[0].run.together(operands)
        for state, step, result in zip(states, meeting, results, strict=True):
            state.finish(step, result)
        rest = [steps[(end or 0) + 1 :] for steps, end in zip(rest, ends, strict=True)]
    for state, steps in zip(states, rest, strict=True):
        state.execute(steps)


@dataclass
class _Body:
    """The layers in a region, from which its runner takes programs."""

    interpreter: Interpreter
    region: Region

    def stages(self, *targets: Sequence[Any], sinks: bool = False) -> list[Steps]:
        """Programs to be run one after the other; see :class:`trtdsl.layers.region.Body`."""
        parts: list[Node | Region] = [*self.region.nodes, *self.region.regions]
        makers = {name: part for part in parts for name in part.makes}
        chosen: set[int] = set()
        stages: list[list[Node | Region]] = []
        for place, tensors in enumerate(targets):
            roots = [part for part in parts if sinks and not part.makes] if place == len(targets) - 1 else []
            new = {id(part) for part in roots} - chosen
            waiting = [*(tensor.name for tensor in tensors), *(name for part in roots for name in part.needs)]
            while waiting:
                part = makers.get(waiting.pop())
                if part is not None and id(part) not in chosen | new:
                    new.add(id(part))
                    waiting.extend(part.needs)
            chosen |= new
            stages.append([part for part in parts if id(part) in new])
        programs: list[Steps] = []
        for place, stage in enumerate(stages):
            before = [name for earlier in stages[:place] for part in earlier for name in part.makes]
            needed = {name for later in stages[place + 1 :] for part in later for name in part.needs}
            needed.update(tensor.name for tensors in targets[place:] for tensor in tensors)
            programs.append(self.interpreter.sequence(stage, sorted(needed), before))
        return programs


def topological_order(nodes: Sequence[Part], name_of: Callable[[Part], str] = lambda part: part.name) -> list[Part]:
    """The layers (and regions) such that each comes after those it needs, otherwise as they were added.

    TensorRT does not keep them so: a parser adds some before their inputs.
    """
    maker = {name: index for index, node in enumerate(nodes) for name in node.makes}
    makers = {index: {maker[name] for name in node.needs if name in maker} for index, node in enumerate(nodes)}
    sorter = TopologicalSorter(makers)
    try:
        sorter.prepare()
    except CycleError as error:
        raise DefinitionError(f"{name_of(nodes[min(error.args[1])])} needs its own result") from None
    ready: list[int] = []
    order: list[Part] = []
    while sorter:
        for index in sorter.get_ready():
            heapq.heappush(ready, index)
        index = heapq.heappop(ready)
        order.append(nodes[index])
        sorter.done(index)
    return order
