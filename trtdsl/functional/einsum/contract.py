"""An einsum from its equation and operands: promoted, planned and emitted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...layers.reduce import FEW
from ..common import Call, DefinitionError, L, Tensor, require_network, torch
from ..lowerings import Choice, reasons
from ..operands import as_tensor, result_type
from ..products.places import followers
from .dense import Dense, dense_of
from .emit import emit
from .equation import Equation, expand, label_sizes, parse, sublists
from .factors import merge_of
from .search import Problem


def contract(equation: str, operands: Sequence[Any], lowering: str, *, names: bool | None = None) -> Tensor:
    """The product of the operands that an equation says; ``names`` as for :func:`parse`."""
    tensors = _tensors(operands)
    return _einsum(parse(equation, [tensor.ndim for tensor in tensors], names=names), tensors, lowering)


def contract_sublists(arguments: Sequence[Any], lowering: str) -> Tensor:
    """The product of operands, each followed by its list of labels."""
    given, terms, output = sublists(arguments)
    tensors = _tensors(given)
    return _einsum(expand(terms, output, [tensor.ndim for tensor in tensors]), tensors, lowering)


def _tensors(operands: Sequence[Any]) -> list[Tensor]:
    if not operands:
        raise DefinitionError("einsum needs at least one operand")
    network = require_network(*operands)
    return [as_tensor(operand, network) for operand in operands]


def _einsum(equation: Equation, tensors: list[Tensor], lowering: str) -> Tensor:
    dtype = _dtype(equation, tensors)
    tensors = [L.cast(tensor, dtype) for tensor in tensors]
    sizes = label_sizes(equation, [tensor.shape for tensor in tensors])
    call = tensors[0].network.current_operation
    assert call is not None
    contraction = Contraction(call, tensors, equation, tensors, Choice("einsum", lowering, *tensors))
    if all(tensor.is_constant for tensor in tensors):
        return contraction.lower()
    scope = next((tensor.scope for tensor in tensors if not tensor.is_constant), "")
    result = contraction.tensor(tuple(sizes[label] for label in equation.output), dtype, "einsum", scope)
    result.partial |= any(size in FEW for label, size in sizes.items() if label not in equation.output)
    return result


@dataclass(eq=False, slots=True)
class Contraction(Call):
    """An einsum of operands of one dtype."""

    rule = "weights into einsum"
    equation: Equation
    tensors: list[Tensor]
    choice: Choice
    _how: dict[str, Any] | None = field(default=None, init=False)

    @property
    def how(self) -> dict[str, Any]:
        """What its ways are given besides the operands."""
        if self._how is None:
            merge = merge_of(_problem(self.equation, self.tensors), self.tensors)
            self._how = {"equation": self.equation, "merge": merge, "dense": dense_of(merge)}
        return self._how

    def place(self, places: Mapping[int, int]) -> int | None:
        """That of one convolution of all channels and places, where it takes less time."""
        if self.made is not None or all(tensor.node is None for tensor in self.tensors):
            return None
        with self.operation:
            dense: Dense | None = self.how["dense"]
            if dense is None:
                return None
            (result,), lies = self.results, places.get(id(dense.merge.input)) == dense.place
            otherwise, alone = dense.price(result, lies)
            follows = any(followers(result, dense.target))
            default = "dense" if follows and alone < otherwise else None
            chosen = self.choice.way(reasons("einsum", *self.tensors, **self.how), default)
            times = f"it takes as long as to move {alone:.3g} elements, and {otherwise:.3g} otherwise"
            which = "one convolution" if chosen == "dense" else "not one convolution"
            self.remark(f"{which} of all channels and places: {times}", chosen == "dense")
        return dense.target if chosen == "dense" else None

    def lower(self) -> Tensor:
        result = self.choice.lowered(*self.tensors, **self.how)
        if self.choice.used == "merged":
            self.remark("with the weights of the product before it as an operand")
        return result


def as_they_lie(equation: Equation, tensors: Sequence[Tensor]) -> Tensor:
    """The layers of the plan for operands as they are."""
    return emit(_problem(equation, tensors).plan(), tensors)


def _problem(equation: Equation, tensors: Sequence[Tensor]) -> Problem:
    orders = [None if x.is_constant or x.order == tuple(range(x.ndim)) else x.order for x in tensors]
    shapes, constants = tuple(x.shape for x in tensors), tuple(x.is_constant for x in tensors)
    return Problem(equation, shapes, constants, tuple(orders), not tensors[0].dtype.is_floating_point)


def _dtype(equation: Equation, tensors: Sequence[Tensor]) -> torch.dtype:
    """The dtype to compute in: torch's promoted one; int64 where torch's own einsum sums integers as int64."""
    dtype = result_type(*tensors)
    if dtype.is_floating_point:
        return dtype
    if dtype == torch.bool:
        summed = {label for labels in equation.terms for label in labels} - set(equation.output)
        return torch.int64 if summed else dtype
    # Which of its sums torch widens depends on the sizes that are 1; dynamic ones are taken not to be.
    sizes = label_sizes(equation, [tensor.shape for tensor in tensors])
    known = {label: size if isinstance(size, int) else 2 for label, size in sizes.items()}
    numbers = {label: number for number, label in enumerate(sizes)}
    arguments: list[Any] = []
    for labels, tensor in zip(equation.terms, tensors, strict=True):
        shape = [1 if size == 1 else known[label] for label, size in zip(labels, tensor.shape, strict=True)]
        arguments += [torch.empty(shape, dtype=dtype, device="meta"), [numbers[label] for label in labels]]
    return torch.einsum(*arguments, [numbers[label] for label in equation.output]).dtype
