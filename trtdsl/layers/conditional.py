"""Conditionals: CONDITION, CONDITIONAL_INPUT and CONDITIONAL_OUTPUT."""

from __future__ import annotations

import itertools

from ..definition.graph import Region as Span
from ..sizes.condition import Condition
from ..sizes.constraints import joined
from .common import DefinitionError, Evaluate, Network, Node, ShapeError, SizeLike, Tensor, add_region_layer, evaluates
from .loop import outer
from .region import Body, Region, Run, State, region


class Conditional:
    """An if-conditional under construction (IIfConditional): of two subgraphs one runs.

    ``condition`` is a bool scalar; ``sizes`` is the comparison of sizes that it is, where it is one. What a subgraph
    takes from outside goes through :meth:`input`; :meth:`output` gives the value of the subgraph that ran.

    >>> x = net.input("x", (3,))
    >>> branch = Conditional(net.input("negate", (), "bool"))
    >>> inside = branch.input(x)
    >>> net.output(branch.output(unary(inside, "NEG"), identity(inside)), "y")
    >>> td.interpret(net, {"x": torch.tensor([1.0, 2.0, 3.0]), "negate": torch.tensor(True)})["y"]
    tensor([-1., -2., -3.])
    """

    def __init__(self, condition: Tensor, sizes: Condition | None = None):
        if condition.ndim != 0:
            raise ShapeError(f"a condition must be a scalar, not of {condition.ndim} dimensions")
        self.network: Network = condition.network
        self._sizes = sizes
        self._region = Span(self.network, "add_if_conditional")
        add_region_layer(self._region, "conditional", "set_condition", condition, shape=[])

    def input(self, x: Tensor) -> Tensor:
        """``x`` for use in the subgraphs: one IIfConditionalInputLayer."""
        return add_region_layer(self._region, "conditional.input", "add_input", x, shape=x.shape)

    def output(self, then: Tensor, otherwise: Tensor) -> Tensor:
        """``then`` where the condition holds, else ``otherwise``: one IIfConditionalOutputLayer.

        Both have one rank and dtype. Where their sizes differ, those of the result follow from the condition, if that
        is one of sizes; else they are known only when the network runs.
        """
        if then.ndim != otherwise.ndim or then.dtype != otherwise.dtype:
            raise ShapeError(f"the subgraphs give {then} and {otherwise}: their ranks and dtypes must match")
        pairs = zip(outer(then.shape), outer(otherwise.shape), strict=True)
        shape: tuple[SizeLike | None, ...] = tuple(itertools.starmap(self._joined, pairs))
        facts = {"shape": shape, "ends": True}
        return add_region_layer(self._region, "conditional.output", "add_output", then, otherwise, **facts)

    def _joined(self, then: SizeLike, otherwise: SizeLike) -> SizeLike | None:
        if then == otherwise or self._sizes is None:
            return then if then == otherwise else None
        return joined(self._sizes, then, otherwise)


@evaluates("CONDITIONAL_INPUT", category="control", moves=False)
def _conditional_input(node: Node) -> Evaluate:
    """Its operand."""
    return lambda x: x


@region(
    "conditional",
    boundary={"CONDITION": "if", "CONDITIONAL_OUTPUT": "either"},
    owner=lambda node: node.layer.conditional,
    inner=lambda node: (0, 1) if node.type == "CONDITIONAL_OUTPUT" else (),
)
def _conditional(region: Region, body: Body) -> Run:
    """Layers that nothing but one subgraph needs are evaluated only where the condition chooses it."""
    if len(region.of("CONDITION")) != 1:
        raise DefinitionError(f"the conditional of layer {region.name!r} has no condition")
    condition = region.of("CONDITION")[0].inputs[0]
    outputs = region.of("CONDITIONAL_OUTPUT")
    branches = [body.stages([node.inputs[place] for node in outputs])[0] for place in (0, 1)]

    def run(state: State) -> None:
        place = 0 if bool(state.read(condition)) else 1
        state.execute(branches[place])
        for node in outputs:
            state.write(node.outputs[0], state.read(node.inputs[place]))

    return run
