"""Which sides of the choices in a network and its reference the feeds reached: select, min, max, clip, comparisons."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..core.errors import PACKAGE, Location
from ..core.lazy import torch
from ..core.tensors.exact import Exact
from ..definition.network import Network
from ..interpreter.interpret import Interpreter
from ..interpreter.reading import depends_on_inputs
from ..layers.evaluation import Evaluate, Node, read_nodes

Sides = Mapping[str, "torch.Tensor"]
UNBOUNDED = 1e30  # a bound that no value reaches


class Coverage:
    """The choices that were seen, and what of each was reached.

    A choice is identified by the author's line and its name. Of several choices in one line all must be reached, each
    by itself.
    """

    def __init__(self) -> None:
        self.seen: dict[tuple[str, str, Location | None], dict[str, bool]] = {}

    def note(self, site: str, what: str, location: Location | None, sides: Callable[[], Sides]) -> None:
        """Notes the sides reached; ``sides`` gives a mask for each side, and is called only while some are missing."""
        if not self.is_whole(site, what, location):
            masks = sides()
            reached = self.seen.setdefault((site, what, location), dict.fromkeys(masks, False))
            for side, mask in masks.items():  # a bound that is made of sizes has another name at other sizes
                reached[side] = reached.get(side, False) or bool(mask.any())

    def is_whole(self, site: str, what: str, location: Location | None) -> bool:
        """Whether every side of a choice was reached."""
        reached = self.seen.get((site, what, location))
        return reached is not None and all(reached.values())

    def of_operation(
        self, exact: Exact, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Callable[[Any], None] | None:
        """Notes a choice of torch's: what an :class:`Exact` has that sees its operations."""
        in_place = name.endswith("_") and not name.startswith("_")
        plain = name.rstrip("_") if in_place else name
        sides, location = _ATEN.get(plain), None
        if sides is not None and not _is_small(args):
            location = author_of_reference()
        if sides is None or location is None or self.is_whole(plain, plain, location):
            return None
        with torch._C._DisableTorchDispatch():
            before, how = exact.widened(args), {key: exact.widened(value) for key, value in kwargs.items()}
            before = (before[0].clone(), *before[1:]) if in_place else before

        def told(made: Any) -> None:
            with torch._C._DisableTorchDispatch():
                self.note(plain, plain, location, lambda: sides(exact.widened(made), *before, **how))

        return told

    def missed(self) -> list[str]:
        """One line for each kind of choice of which no value reached some sides, with all its places."""
        places: dict[tuple[str, str], dict[str, None]] = {}  # by the choice and its sides
        for (_, what, location), reached in self.seen.items():
            sides = " and ".join(side for side, there in reached.items() if not there)
            if sides:
                places.setdefault((what, sides), {})[f"{location}: " if location else ""] = None
        return [
            f"{'; '.join(place.removesuffix(': ') for place in found)}{': ' * any(found)}{what}: {sides} never occurred"
            for (what, sides), found in places.items()
        ]


# -- the network -------------------------------------------------------------------------------------------------------


def watching(network: Network, coverage: Coverage) -> Interpreter:
    """An interpreter of the network that notes which sides its choices take."""
    varying, about_nan = depends_on_inputs(network), _tests_for_nan(network)
    choices: Counter[int] = Counter()  # of each of the author's calls

    def wrap(node: Node, evaluate: Evaluate) -> Evaluate:
        sides = _sides_of(node)
        if sides is None or not varying.intersection(node.needs) or not about_nan.isdisjoint(node.needs):
            return evaluate
        facts = network.layers[node.name]
        location, call = facts.location, facts.call
        choices[id(call)] += 1

        def watched(*operands: Any) -> Any:
            what = _named(node)
            if call is not None and choices[id(call)] > 1:  # the lowering's, which the author did not write
                what += f" in {call.name}"
            made = evaluate(*operands)
            if all(operand is None or operand.numel() for operand in operands):
                coverage.note(node.name, what, location, lambda: sides(made, *operands))
            return made

        return watched

    return Interpreter(network, wrap=wrap)


def _tests_for_nan(network: Network) -> set[str]:
    """The names of the tensors that say where another is NaN: lowerings emit these comparisons, not the author."""
    nodes = read_nodes(network.backend, network.definition)
    return {name for node in nodes if node.type == "UNARY" and node.layer.op.name == "ISNAN" for name in node.makes}


def _named(node: Node) -> str:
    kind = {"ACTIVATION": "type", "ELEMENTWISE": "op"}.get(node.type)
    return (getattr(node.layer, kind).name if kind else node.type).lower()


def _sides_of(node: Node) -> Callable[..., Sides] | None:
    """A function from a layer's result and operands to the sides of its choice; None for one that makes no choice."""
    name = _named(node)
    chosen = _ATEN.get(_LAYERS.get(name, name))
    if chosen is None:
        return None
    bounds: tuple[Any, ...] = (node.layer.alpha, node.layer.beta) if node.type == "ACTIVATION" else ()
    if name == "hard_sigmoid":
        alpha, beta = node.layer.alpha, node.layer.beta
        bounds = (-beta / alpha, (1 - beta) / alpha) if alpha else (None, None)
    return lambda out, *operands: chosen(out, *operands, *bounds)


_LAYERS = {
    "selu": "elu", "parametric_relu": "_prelu_kernel", "clip": "clamp", "hard_sigmoid": "clamp", "select": "where",
    "thresholded_relu": "threshold", "max": "maximum", "min": "minimum", "equal": "eq", "greater": "gt", "less": "lt",
}  # fmt: skip
"""The layers that choose as operations of torch's do that have other names."""


def _of_condition(condition: torch.Tensor) -> Sides:
    return {"true": condition, "false": ~condition}


def _of_sign(x: torch.Tensor) -> Sides:
    return {"a negative value": x < 0, "a positive value": x > 0}


def _of_order(a: torch.Tensor, b: torch.Tensor) -> Sides:
    return {"a first operand that is greater": a > b, "a second operand that is greater": a < b}


def _of_bounds(x: torch.Tensor, low: Any, high: Any) -> Sides:
    """Bounds are numbers, tensors or None."""
    sides: dict[str, torch.Tensor] = {}
    if _bounds(low):
        sides[f"a value below {_text(low)}"] = x < low
    if _bounds(high):
        sides[f"a value above {_text(high)}"] = x > high
    inside = torch.ones((), dtype=torch.bool)
    for side in list(sides.values()):
        inside = inside & ~side
    return {**sides, "a value within": inside} if sides else {}


def _bounds(bound: Any) -> bool:
    return bound is not None and (isinstance(bound, torch.Tensor) or abs(bound) < UNBOUNDED)


def _text(bound: Any) -> str:
    return "the bound" if isinstance(bound, torch.Tensor) else f"{bound:g}"


# -- the reference -----------------------------------------------------------------------------------------------------

# torch's own operations that choose, by their names in aten: each gives the sides from arguments and result.
_ATEN: dict[str, Callable[..., Sides]] = {
    "relu": lambda out, x, *rest: _of_sign(x),
    "leaky_relu": lambda out, x, *rest: _of_sign(x),
    "elu": lambda out, x, *rest: _of_sign(x),
    "_prelu_kernel": lambda out, x, slope: _of_sign(x),
    "clamp": lambda out, x, min=None, max=None: _of_bounds(x, min, max),
    "clamp_min": lambda out, x, low: _of_bounds(x, low, None),
    "clamp_max": lambda out, x, high: _of_bounds(x, None, high),
    "hardtanh": lambda out, x, low=-1.0, high=1.0: _of_bounds(x, low, high),
    "hardsigmoid": lambda out, x: _of_bounds(x, -3.0, 3.0),
    "hardswish": lambda out, x: _of_bounds(x, -3.0, 3.0),
    "threshold": lambda out, x, low, *rest: _of_bounds(x, low, None),
    "where": lambda out, condition, *rest: _of_condition(condition.bool()),
    "masked_fill": lambda out, x, mask, *rest: _of_condition(mask),
    "maximum": lambda out, a, b: _of_order(a, b),
    "minimum": lambda out, a, b: _of_order(a, b),
    **{name: lambda out, *given: _of_condition(out) for name in ("gt", "lt", "ge", "le", "eq", "ne", "any", "all")},
}


def _is_small(args: Sequence[Any]) -> bool:
    """Whether there is nothing to choose from: no tensor, or only empty ones."""
    return not min((arg.numel() for arg in args if isinstance(arg, torch.Tensor)), default=0)


def author_of_reference() -> Location | None:
    """The innermost line that is neither torch's nor trtdsl's."""
    frame: Any = sys._getframe(2)
    while frame is not None:
        file: str = frame.f_code.co_filename
        if not (file.startswith((PACKAGE, "<")) or "/torch/" in file):
            return Location(file, frame.f_lineno)
        frame = frame.f_back
    return None
