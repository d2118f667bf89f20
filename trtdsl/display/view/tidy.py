"""The tree's boxes, and how they are arranged so that a reader finds the modules that the author wrote."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from itertools import chain
from typing import Literal

from ...definition.network import Network
from ...definition.tensor import reached
from ..folding import belongs
from .layers import Layer

Kind = Literal["network", "module", "part", "loop", "conditional", "branch", "call", "layer", "input", "output"]
MOST = 150
"""Children that one box shows; more are shown in parts."""
PART = 64


@dataclass(eq=False)
class Item:
    """A box of the picture."""

    kind: Kind
    label: str
    scope: str = ""
    """The module, by its full name."""
    note: str = ""
    """How often a loop runs."""
    layers: list[Layer] = field(default_factory=list)
    """A call's layers; of a layer, itself and the constants that only it is given."""
    children: list[Item] = field(default_factory=list)
    parent: Item | None = None
    number: int = -1

    @property
    def order(self) -> int:
        """Where it begins in the definition."""
        if self.layers:
            return self.layers[0].index
        if self.kind == "output":
            return 1 << 60
        return min((child.order for child in self.children), default=-1)

    def leaves(self) -> Iterator[Item]:
        """The boxes in it that hold no others, itself where it is one."""
        if not self.children:
            yield self
        for child in self.children:
            yield from child.leaves()

    def all_layers(self) -> Iterator[Layer]:
        """The layers in it."""
        yield from self.layers if not self.children else ()
        for child in self.children:
            yield from child.all_layers()

    def add(self, child: Item) -> Item:
        """The child, which is put in."""
        child.parent = self
        self.children.append(child)
        return child


@dataclass(frozen=True)
class Edge:
    """A tensor on its way from one box to another."""

    source: Item
    target: Item
    tensor: str
    kind: Literal["value", "size", "back"] = "value"
    """``back`` is what a loop hands to its next turn."""


def tidy(root: Item, network: Network, edges: Sequence[tuple[Item, Item]]) -> None:
    """Arranges the boxes. ``edges`` are those between the boxes that hold no others, without those back in a loop."""
    _split_repeats(root, edges, network)
    _split_cycles(root, edges, network)
    _keep_modules(root, network)
    _take_in(root, edges, network)
    _count_uses(root)
    _shorten(root)
    _divide(root)
    _name(root)


# -- modules -----------------------------------------------------------------------------------------------------------


def _keep_modules(box: Item, network: Network) -> None:
    """Takes away the boxes of modules of which no weight is used inside.

    A layer without weights has the scope of its first operand, wherever it stands.
    """
    children = []
    for child in box.children:
        _keep_modules(child, network)
        if child.kind == "module" and not _uses(child.all_layers(), child.scope, network):
            for inner in child.children:
                inner.parent = box
            children += child.children
        else:
            children.append(child)
    box.children = children


def _uses(layers: Iterable[Layer], scope: str, network: Network) -> bool:
    return any(belongs(network, layer.node.name, scope) for layer in layers)


def _split_repeats(box: Item, edges: Sequence[tuple[Item, Item]], network: Network) -> None:
    """A module whose weights are used again and again, each time all of them, becomes a box for each time."""
    for child in list(box.children):
        if child.kind == "module":
            groups = _turns(child, edges, network)
            if len(groups) > 1:
                place = box.children.index(child)
                made = [copy for leaves in groups if (copy := _copied(child, leaves)) is not None]
                for copy in made:
                    copy.parent = box
                box.children[place : place + 1] = made
                continue
        if child.kind != "call":
            _split_repeats(child, edges, network)


def _turns(module: Item, edges: Sequence[tuple[Item, Item]], network: Network) -> list[set[Item]]:
    """The leaves of a module by how often its weights were used before; one group where not all are used each time."""
    inside = set(module.leaves())
    makers = _neighbours([(a, b) for a, b in edges if a in inside and b in inside], False)
    last: dict[str, Item] = {}
    turn: dict[Item, int] = {}
    for leaf in sorted(inside, key=lambda leaf: leaf.order):
        names = _weights(leaf, network)
        earlier = {last[name] for name in names if name in last and _call(last[name]) is not _call(leaf)}
        again = [turn[other] + 1 for other in earlier & _reached(leaf, makers)] if earlier else []
        turn[leaf] = max((*again, *(turn[other] for other in makers.get(leaf, ()) if other in turn)), default=0)
        last.update(dict.fromkeys(names, leaf))
    found: list[set[Item]] = [set() for _ in range(max(turn.values(), default=0) + 1)]
    for leaf, number in turn.items():
        found[number].add(leaf)
    weights = [{name for leaf in leaves for name in _weights(leaf, network)} for leaves in found]
    follows = {turn[target] for target in makers for source in makers[target] if turn[source] == turn[target] - 1}
    alike = all(each == weights[0] for each in weights) and len(follows) == len(found) - 1
    return found if alike else [inside]


def _split_cycles(box: Item, edges: Sequence[tuple[Item, Item]], network: Network) -> None:
    """Arranges modules of which values flow out and in again, which would make a circle of boxes.

    A module that is used several times becomes a box for each time; otherwise the calls in between are put into it.
    ``edges`` are those between leaves anywhere.
    """
    waiting = [box]
    while waiting:
        current = waiting.pop()
        changed = True
        while changed:
            owner = {leaf: child for child in current.children for leaf in child.leaves()}
            inner = [(a, b) for a, b in edges if a in owner and b in owner]
            between = {(owner[a], owner[b]) for a, b in inner if owner[a] is not owner[b]}
            cyclic = [each for each in _on_cycles(current.children, between) if each.kind == "module"]
            cyclic.sort(key=current.children.index)
            ways = chain(
                ((child, _by_use(child, owner, inner)) for child in cyclic),
                ((child, _by_end(child, cyclic, owner, inner, network)) for child in cyclic),
            )
            changed = any(_arrange(current, child, groups, between, network) for child, groups in ways)
        waiting += [child for child in current.children if child.children and child.kind != "call"]


def _arrange(
    parent: Item,
    child: Item,
    groups: Sequence[set[Item]],
    between: set[tuple[Item, Item]],
    network: Network,
) -> bool:
    """Whether a module on a circle was changed, as the groups of its leaves say, so that it is on none."""
    if len(groups) == 1:
        return False
    weights = [{name for leaf in leaves for name in _weights(leaf, network)} for leaves in groups]
    if sum(map(len, weights)) == len(set().union(*weights)):  # no weight is used twice: it is one use
        around = _reached(child, _neighbours(between, True)) & _reached(child, _neighbours(between, False))
        if all(other.kind == "call" and not _weights(other, network) for other in around):
            parent.children = [each for each in parent.children if each not in around]
            for call in sorted(around, key=lambda call: call.order):
                child.add(call)
            return True
    place = parent.children.index(child)
    made = []
    for leaves in groups:
        copy = _copied(child, leaves)
        assert copy is not None
        made += [copy] if _uses(copy.all_layers(), child.scope, network) else copy.children
    for copy in made:
        copy.parent = parent
    parent.children[place : place + 1] = made
    return True


def _weights(item: Item, network: Network) -> set[str]:
    return {name for layer in item.all_layers() for name in network.layers[layer.node.name].weights}


def _reached(item: Item, after: Mapping[Item, Sequence[Item]]) -> set[Item]:
    """What can be reached from an item, without itself."""
    return reached([item], lambda other: after.get(other, ())) - {item}


def _neighbours(edges: Iterable[tuple[Item, Item]], forward: bool) -> dict[Item, list[Item]]:
    """The items to which edges lead from each, or, backwards, from which they come."""
    found: dict[Item, list[Item]] = {}
    for a, b in edges:
        source, target = (a, b) if forward else (b, a)
        found.setdefault(source, []).append(target)
    return found


def _call(leaf: Item) -> Item:
    """The call that a box is, or is a layer of."""
    found = leaf
    while leaf.kind == "layer" and found.kind != "call":
        assert found.parent is not None
        found = found.parent
    return found


def _by_use(child: Item, owner: Mapping[Item, Item], edges: Sequence[tuple[Item, Item]]) -> list[set[Item]]:
    """The leaves of a box, in groups such that no path leaves a group and comes back to it."""
    inputs = _neighbours(edges, False)
    level: dict[Item, int] = {}
    for leaf in sorted(owner, key=lambda leaf: leaf.order):
        inside = owner[leaf] is child
        before = [(level.get(other, 0), owner[other] is child) for other in inputs.get(leaf, ())]
        level[leaf] = max((number + (was and not inside) for number, was in before), default=0)
    groups: dict[int, set[Item]] = {}
    for leaf in child.leaves():
        groups.setdefault(level[leaf], set()).add(leaf)
    return [groups[number] for number in sorted(groups)]


def _by_end(
    child: Item,
    circle: Sequence[Item],
    owner: Mapping[Item, Item],
    edges: Sequence[tuple[Item, Item]],
    network: Network,
) -> list[set[Item]]:
    """The leaves of a box, and those that end it with what comes in from a circle, where they have no weights.

    Such as a sum of two branches that exchange what they computed: it has the scope of its first operand.
    """
    inside = set(child.leaves())
    readers = _neighbours([(a, b) for a, b in edges if a in inside and b in inside], True)
    entered = {b for a, b in edges if b in inside and owner[a] is not child and owner[a] in circle}
    calls = {_call(leaf) for leaf in entered.union(*(_reached(leaf, readers) for leaf in entered))}
    end = {leaf for leaf in inside if _call(leaf) in calls}
    alone = end != inside and not any(_weights(leaf, network) for leaf in end)
    return [inside - end, end] if end and alone else [inside]


def _copied(item: Item, leaves: set[Item]) -> Item | None:
    """The box with only these leaves in it."""
    if not item.children:
        return item if item in leaves else None
    kept = [copy for child in item.children if (copy := _copied(child, leaves)) is not None]
    if not kept:
        return None
    if len(kept) == len(item.children) and all(a is b for a, b in zip(kept, item.children, strict=True)):
        return item
    copy = Item(item.kind, item.label, item.scope, item.note, list(item.layers))
    for child in kept:
        copy.add(child)
    return copy


def _on_cycles(items: Sequence[Item], edges: set[tuple[Item, Item]]) -> set[Item]:
    """The items that lie on a cycle: what is left when those without inputs or outputs are taken away repeatedly."""
    left = set(items)
    for forward in (True, False):
        before = _neighbours([(a, b) for a, b in edges if a in left and b in left], forward)
        sorter = TopologicalSorter({item: before.get(item, ()) for item in left})
        with suppress(CycleError):
            sorter.prepare()
        while ready := sorter.get_ready():
            left.difference_update(ready)
            sorter.done(*ready)
    return left


def _take_in(box: Item, edges: Sequence[tuple[Item, Item]], network: Network) -> None:
    """Puts the sum that ends a residual block into the block, with its activation.

    It has the scope of its first operand, which may be that of the block before.
    """
    makers, readers = _neighbours(edges, False), _neighbours(edges, True)

    def visit(item: Item) -> None:
        taken: dict[Item, Item] = {}
        for call in [child for child in item.children if child.kind == "call" and not _weights(child, network)]:
            leaves = set(call.leaves())
            operands = {other for leaf in leaves for other in makers.get(leaf, ()) if other not in leaves}
            types = {layer.node.type for layer in call.all_layers()} - {"CONSTANT"}
            if types == {"ACTIVATION"} and len(operands) == 1:
                (sum_,) = operands
                module = taken.get(sum_)
            elif types == {"ELEMENTWISE"} and len(operands) > 1:
                module = _ended_by(item, operands, readers)
            else:
                module = None
            if module is not None:
                item.children.remove(call)
                module.add(call)
                taken.update(dict.fromkeys(leaves, module))
        for child in item.children:
            if child.kind != "call":
                visit(child)

    visit(box)


def _ended_by(box: Item, operands: set[Item], readers: Mapping[Item, Sequence[Item]]) -> Item | None:
    """The one module in a box that gives some of the operands and reads the others; None where there is not one."""
    found = []
    for child in box.children:
        if child.kind == "module" and len(child.children) > 1:
            inside = set(child.leaves())
            outside = operands - inside
            if outside != operands and all(any(x in inside for x in readers.get(other, ())) for other in outside):
                found.append(child)
    return found[0] if len(found) == 1 else None


def _count_uses(box: Item) -> None:
    """Notes which use of a module a box is, where there are several."""
    uses: dict[str, list[Item]] = {}
    for child in box.children:
        _count_uses(child)
        if child.kind == "module":
            uses.setdefault(child.scope, []).append(child)
    for several in uses.values():
        for number, child in enumerate(several, 1):
            child.note = f"use {number} of {len(several)}" if len(several) > 1 else child.note


def _shorten(box: Item) -> None:
    """A module that holds one module or one call alone becomes one box with it: ``encoder.layers``, ``fc.linear``."""
    for place, child in enumerate(box.children):
        while child.kind == "module" and len(child.children) == 1 and child.children[0].kind in ("module", "call"):
            (inner,) = child.children
            inner.label, inner.note = f"{child.label}.{inner.label}", inner.note or child.note
            inner.parent = box
            box.children[place] = child = inner
        _shorten(child)


def _divide(box: Item) -> None:
    """Children in the order of the definition; where there are very many, in parts."""
    box.children.sort(key=lambda child: child.order)
    for child in box.children:
        _divide(child)
    while len(box.children) > MOST:
        own, rest = [], []
        for child in box.children:
            (own if child.kind in ("input", "output") else rest).append(child)
        if len(rest) <= PART:
            break
        parts = []
        for start in range(0, len(rest), PART):
            group = rest[start : start + PART]
            first, last = start + 1, start + len(group)
            if group[0].kind == "part":
                first, last = group[0].label.split()[1], group[-1].label.split()[-1]
            part = Item("part", f"boxes {first} to {last}", box.scope)
            for child in group:
                part.add(child)
            part.parent = box
            parts.append(part)
        box.children = sorted([*own, *parts], key=lambda child: child.order)


def _name(root: Item) -> None:
    """Numbers in the order in which the boxes are written; a module that is called by a number gets its list's name."""
    waiting, number = [root], 0
    while waiting:
        item = waiting.pop()
        item.number, number = number, number + 1
        if item.kind in ("module", "call") and item.label[:1].isdigit() and item.scope:
            own = item.label.count(".") + (item.kind == "module")
            item.label = ".".join([*item.scope.split(".")[: -own or None][-1:], item.label])
        waiting.extend(reversed(item.children))
