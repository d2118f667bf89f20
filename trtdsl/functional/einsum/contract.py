"""An einsum from its equation and operands: promoted, planned and emitted, perhaps as one dense convolution.

``einsum("nitv,kvw,kci->nctw", z, a, w)``, which mixes channels and places alike for each of the rest, is a pointwise
convolution from channels (v, i) to (w, c), whose weights are made of both constants. It multiplies more often than two
products do, and moves less.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ...layers.convolution import Geometry, convolution
from ...layers.reduce import FEW
from ..common import Call, DefinitionError, L, Tensor, hint, is_static, product, require_network, torch, weight_names_of
from ..lowerings import Choice, reasons
from ..operands import as_tensor, result_type
from ..passes.places_in_channels import OPERATIONS, as_channels, as_places, constant_as_channels, followers
from ..pointwise.quantization import rounded_to
from .equation import ITEM, Equation, Labels, expand, label_sizes, parse, sublists
from .factors import Merge, merge_of, wide_bias
from .plan import emit
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


class Dense(NamedTuple):
    """Such an einsum."""

    merge: Merge
    place: int
    """The dimension of the input's places."""
    target: int
    """That of the result's."""
    labels: Labels
    """Of the result's places and channels, then of the input's."""
    sizes: tuple[int, ...]

    def price(self, result: Tensor, lies: bool) -> tuple[float, float]:
        """What it takes otherwise, and as one convolution, in elements that are moved meanwhile.

        ``lies``: the input has its places as channels already. Otherwise it is copied; and where it is no such
        convolution, one that follows has its operand copied. That has its kernel once for each place here.
        """
        given, made = (int(product(map(hint, each.shape))) for each in (self.merge.input, result))
        kernel = math.prod(self.sizes)
        operations = 2 * made * math.prod(self.sizes[2:])
        further = sum(each.kernel.data.numel() for each in followers(result, self.target)) * (self.sizes[0] - 1)
        moved = max(given + made + kernel, operations / OPERATIONS) + further
        cost = self.merge.apart if self.merge.plan is None else self.merge.plan.cost
        return cost / ITEM + 2 * made, moved if lies else moved + 2 * given

    def emitted(self) -> Tensor:
        """The layers; a norm behind them may go into the weights."""
        return self.merge.emitted(self._convolution, by_value=True)

    def _convolution(self, weights: Tensor, bias: Tensor | None) -> Tensor:
        merge, network = self.merge, weights.network
        given = [*merge.tensors, weights]
        factors = [pair for pair in zip(given, merge.whole.equation.terms, strict=True) if pair[0].is_constant]
        numbers = {label: k for k, label in enumerate({each: None for _, term in factors for each in term})}
        operands = [part for x, term in factors for part in (x.data.float(), [numbers[each] for each in term])]
        dense = torch.einsum(*operands, [numbers[label] for label in self.labels])
        places, channels, *inputs = self.sizes
        dense = dense.reshape(places * channels, math.prod(inputs), 1, 1).to(weights.dtype)
        kernel = network.plain_constant(dense, weights.weight_names)
        if bias is not None:
            wide = constant_as_channels(wide_bias(bias, 4), self.target, channels, places).data
            bias = network.plain_constant(wide.flatten().expand(places * channels).contiguous(), bias.weight_names)
        how = Geometry((1, 1), (0, 0), (0, 0), (1, 1))._asdict()
        result = convolution(as_channels(merge.input, self.place), kernel, bias, **how)
        result.node.facts.weights += weight_names_of([x for x, _ in factors[:-1]])
        return as_places(result, self.target, places)


def dense_of(merge: Merge | None) -> Dense | None:
    """The einsum as one convolution; None where it does not mix channels and places alone, of sizes that are known, or
    computes in a narrow dtype."""
    if merge is None or merge.input.ndim != 4 or merge.found.product.channel != 1:
        return None
    equation, number, call = merge.whole.equation, merge.operand.number, merge.found.product.operation
    terms, output = equation.terms, equation.output
    term, others = terms[number], [x for k, x in enumerate(merge.tensors) if k != number]
    if len(term) != 4 or len(output) != 4 or not all(x.is_constant for x in others):
        return None
    inside = {label for k, each in enumerate(terms) if k != number for label in each}
    place, target = (3 if each[3] in inside else 2 for each in (term, output))
    kept = [(each[0], each[5 - side]) for each, side in ((term, place), (output, target))]
    mixed = output[target], output[1], term[place], term[1]
    sizes = label_sizes(equation, merge.whole.shapes)
    fits = kept[0] == kept[1] and inside.isdisjoint(kept[0]) and inside.issuperset(mixed) and len(set(mixed)) == 4
    if not fits or not is_static([sizes[label] for label in inside]) or call.narrow or rounded_to(merge.input):
        return None
    return Dense(merge, place, target, mixed, tuple(int(sizes[label]) for label in mixed))
