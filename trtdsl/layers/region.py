"""Regions: the parts of a network that run several times, or not at all, between the boundary layers of their kind.

A kind of region (a loop, a conditional) says which layer types bound it, which object its boundary layers share, and
how it runs. Which layers stand inside is computed here, since TensorRT does not say.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from ..core.lazy import torch
from ..definition.tensor import reached
from .evaluation import KINDS, Mistakes, Node

Program = Any
"""Layers made ready to run, in order."""


class State(Protocol):
    """The values of one evaluation, as a region's runner sees them."""

    def read(self, tensor: Any) -> torch.Tensor:
        """The value of a tensor."""
        ...

    def write(self, tensor: Any, value: torch.Tensor) -> None:
        """Gives a tensor its value."""
        ...

    def execute(self, program: Program) -> None:
        """Evaluates the layers of a program."""
        ...


class Body(Protocol):
    """The layers inside a region."""

    def stages(self, *targets: Sequence[Any], sinks: bool = False) -> list[Program]:
        """A program for each of ``targets``, to be run in this order: the layers that its tensors need and no earlier
        program has run. ``sinks`` adds the layers without outputs to the last one.
        """
        ...


Run = Callable[[State], None]
Prepare = Callable[["Region", Body], Run]


@dataclass(frozen=True)
class RegionKind:
    """What trtdsl knows of a kind of region."""

    name: str
    prepare: Prepare
    boundary: Mapping[str, str]
    """The layer types that bound it, and what the view calls each."""
    owner: Callable[[Node], Any]
    """The TensorRT object that all its boundary layers share."""
    inner: Callable[[Node], Collection[int]]
    """The inputs of a boundary layer that come from inside."""
    opens: tuple[str, ...] = ()
    """The boundary types whose results begin the inside: what depends on them stands inside. Where there is none, what
    nothing but the region needs stands inside, so that it runs only on demand."""
    mistakes: Mapping[str, Mistakes] = field(default_factory=dict)
    """By boundary layer type."""


@dataclass
class Region:
    """One region of a network, with the layers directly in it and the regions nested in it."""

    kind: RegionKind
    boundary: list[Node]
    inside: set[int]
    """The indices of all layers in it: boundary, body and nested regions."""
    nodes: list[Node] = field(default_factory=list)
    regions: list[Region] = field(default_factory=list)

    @property
    def name(self) -> str:
        return self.boundary[0].name

    def of(self, type: str) -> list[Node]:
        """The boundary layers of a type."""
        return [node for node in self.boundary if node.type == type]

    @property
    def makes(self) -> list[str]:
        """The tensors that the region gives to the layers around it."""
        return [name for node in self.boundary if node.type not in self.kind.opens for name in node.makes]

    @property
    def needs(self) -> list[str]:
        """The tensors that the region takes from the layers around it."""
        parts: list[Node | Region] = [*self.boundary, *self.nodes, *self.regions]
        made = {name for part in parts for name in part.makes}
        return list(dict.fromkeys(name for part in parts for name in part.needs if name not in made))


REGIONS: dict[str, RegionKind] = {}
"""By boundary layer type."""


def nodes_of(part: Node | Region) -> Iterator[Node]:
    """A layer, or all those of a region."""
    if isinstance(part, Node):
        yield part
        return
    for inside in (*part.boundary, *part.nodes, *part.regions):
        yield from nodes_of(inside)


def category_of(type: str) -> str:
    """What the view calls layers of a type."""
    if type in REGIONS:
        return "control"
    return KINDS[type].category if type in KINDS else "other"


def mistakes_of(type: str) -> Mistakes:
    """What is easily mistaken in layers of a type."""
    if type in REGIONS:
        return REGIONS[type].mistakes.get(type, Mistakes())
    return KINDS[type].mistakes if type in KINDS else Mistakes()


def region(name: str, **facts: Any) -> Callable[[Prepare], Prepare]:
    """Registers a kind of region; the decorated ``prepare(region, body)`` gives the function that runs it.

    ``facts`` are the others of :class:`RegionKind`.
    """

    def register(prepare: Prepare) -> Prepare:
        kind = RegionKind(name, prepare, **facts)
        REGIONS.update(dict.fromkeys(kind.boundary, kind))
        return prepare

    return register


def partition(nodes: Sequence[Node], outputs: Collection[str]) -> tuple[list[Node], list[Region]]:
    """The layers and the regions outside every region; ``outputs`` are the network's."""
    regions = boundaries(nodes)
    if not regions:
        return list(nodes), []
    first = {min(item.inside): item for item in regions}
    graph = _Graph(nodes, regions, outputs)
    for item in regions:
        if item.kind.opens:
            item.inside |= graph.after(item)
    for item in regions:
        if not item.kind.opens:
            item.inside |= graph.exclusive(item)
    for item in regions:  # the layers of a nested region count among its own
        item.inside = reached(item.inside, lambda index: first[index].inside if index in first else ())
    return _nest(nodes, regions)


def boundaries(nodes: Sequence[Node]) -> list[Region]:
    """The regions, with only their boundary layers."""
    found: dict[int, tuple[Any, Region]] = {}  # the owner is kept alive, or its id would be given to another
    for index, node in enumerate(nodes):
        kind = REGIONS.get(node.type)
        if kind is None:
            continue
        owner = kind.owner(node)
        _, item = found.setdefault(id(owner), (owner, Region(kind, [], set())))
        item.boundary.append(node)
        item.inside.add(index)
    return [item for _, item in found.values()]


class _Graph:
    """Who makes and who uses each tensor, by layer index."""

    def __init__(self, nodes: Sequence[Node], regions: Sequence[Region], outputs: Collection[str]):
        self.nodes, self.outputs = nodes, set(outputs)
        self.maker = {name: index for index, node in enumerate(nodes) for name in node.makes}
        self.users: list[set[int]] = [set() for _ in nodes]
        for index, node in enumerate(nodes):
            for name in node.needs:
                if name in self.maker:
                    self.users[self.maker[name]].add(index)
        self.bounds = {index: item for item in regions for index in item.inside}  # boundary layers only, at this time
        self.boundary = {id(item): frozenset(item.inside) for item in regions}

    def after(self, item: Region) -> set[int]:
        """What depends on the opening layers, up to the region's own end."""
        own = self.boundary[id(item)]
        opening = [index for index in own if self.nodes[index].type in item.kind.opens]
        return reached(opening, lambda at: [each for user in self.users[at] - own for each in self._whole(user)]) - own

    def exclusive(self, item: Region) -> set[int]:
        """What nothing but the region's inner inputs needs."""
        own = self.boundary[id(item)]
        lazy, others = set[str](), set(self.outputs)
        for node in map(self.nodes.__getitem__, own):
            inner = item.kind.inner(node)
            for place, tensor in enumerate(node.inputs):
                if tensor is not None:
                    (lazy if place in inner else others).add(tensor.name)
        found = self._before(lazy, own)
        for index, node in enumerate(self.nodes):
            if index not in found and index not in own:
                others.update(node.needs)
            elif index in self.bounds and index not in own and own & self.bounds[index].inside:  # of one around this
                others.update(node.makes)
        return found - self._before(others, own)

    def _before(self, names: Iterable[str], own: frozenset[int]) -> set[int]:
        """What makes these tensors, up to the region's own layers."""

        def makers(names: Iterable[str]) -> set[int]:
            found = {self.maker[name] for name in names if name in self.maker} - own
            return {each for index in found for each in self._whole(index)}

        return reached(makers(names), lambda index: makers(self.nodes[index].needs))

    def _whole(self, index: int) -> frozenset[int]:
        """A layer; at the boundary of a region all of its boundary: a region that is reached counts as a whole."""
        return self.boundary[id(self.bounds[index])] if index in self.bounds else frozenset((index,))


def _nest(nodes: Sequence[Node], regions: Sequence[Region]) -> tuple[list[Node], list[Region]]:
    """Puts each layer and region into the smallest region around it."""
    ordered = sorted(regions, key=lambda item: len(item.inside))
    bounds = {id(node) for item in regions for node in item.boundary}
    top_nodes: list[Node] = []
    top_regions: list[Region] = []
    for index, node in enumerate(nodes):
        if id(node) not in bounds:
            around = next((item for item in ordered if index in item.inside), None)
            (top_nodes if around is None else around.nodes).append(node)
    for place, item in enumerate(ordered):
        around = next((other for other in ordered[place + 1 :] if item.inside < other.inside), None)
        (top_regions if around is None else around.regions).append(item)
    return top_nodes, top_regions
