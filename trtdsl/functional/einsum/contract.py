"""An einsum from its equation and operands: promoted, planned and emitted, perhaps with the weights of a product as an
operand, or as one dense convolution.

``einsum("nkctv,kvw->nctw", conv(z), a)`` is ``einsum("nitv,kvw,kci->nctw", z, a, w)`` and a constant for the bias.
Where the adjacency first and the weights then cost no more than the convolution and the adjacency, that is the plan.
The latter, which mixes channels and places alike for each of the rest, is a pointwise convolution from channels (v, i)
to (w, c), too, whose weights are made of both constants. It multiplies more often than two products do, and moves less.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ...core.errors import DefinitionError
from ...layers.convolution import Geometry, convolution
from ...layers.reduce import FEW
from ...layers.shuffle import Shuffle
from ...layers.shuffle_steps import ShuffleSteps, regrouped
from ..common import Call, L, SizeLike, Tensor, hint, is_static, product, require_network, torch, weight_names_of
from ..lowerings import Choice, reasons
from ..operands import as_tensor, result_type
from ..passes.places_in_channels import OPERATIONS, as_channels, as_places, constant_as_channels, followers
from ..pointwise.quantization import rounded_to
from ..products.folding import Adds, Found, deferred, made_of, product_of, wide_bias
from .equation import ITEM, Equation, Labels, label_sizes, parse
from .plan import EinsumPlan, emit
from .search import Path, Problem


class Operand(NamedTuple):
    """An operand that is a product: its number, and its dimensions before any reshape, in labels of the equation."""

    number: int
    labels: tuple[Labels, ...]
    found: Found


class Merge(NamedTuple):
    """An einsum with the weights of a product as an operand behind the others."""

    operand: Operand
    whole: Problem
    plan: EinsumPlan | None
    """None where it costs more than product and einsum."""
    apart: float
    """What these cost."""
    tensors: Sequence[Tensor]
    """The operands of the einsum, with the product's input in the place of the product."""
    weights: Tensor
    added: Tensor | None
    """What the bias adds to the result, which costs nothing where a norm or an activation follows."""

    @property
    def input(self) -> Tensor:
        """The product's."""
        return self.operand.found.product.input

    def emitted(self, add: Adds, *, by_value: bool = False) -> Tensor:
        """What ``add`` makes of weights and what the bias adds, as a product of its own, into which a norm may go."""
        (*terms, mine), output = self.whole.equation.terms, self.whole.equation.output
        label = output[1] if len(output) > 1 else ""
        if label not in mine or any(label in term for term in terms):
            return add(self.weights, self.added)  # no dimension of the weights is the result's channels
        sizes = label_sizes(self.whole.equation, self.whole.shapes)
        shape, axis = tuple(sizes[name] for name in output), mine.index(label)
        how = {"memory": None, "axis": axis, "channel": 1, "by_value": by_value}
        return deferred(add, self.tensors[self.operand.number], self.weights, self.added, shape, **how)

    def add(self, kernel: Tensor, bias: Tensor | None) -> Tensor:
        """The layers of the plan."""
        assert self.plan is not None
        result = emit(self.plan, [*self.tensors, kernel])
        return result if bias is None else L.elementwise(result, wide_bias(bias, 1, result.ndim), "SUM")


def merge_of(given: Problem, tensors: Sequence[Tensor]) -> Merge | None:
    """The einsum with the weights of a product as an operand, the first that has a plan; None where no operand is such
    a product, or where another layer needs it anyway."""
    without_plan: Merge | None = None
    for index, tensor in enumerate(tensors):
        found, steps = _product(tensor)
        if found is None or not _joins(given, tensors, index, found):
            continue
        source, labels = found.product, _labels(tensor, found, steps, given.equation.terms[index])
        if labels is None or not isinstance(source.input.shape[source.channel], int):
            continue
        operand = Operand(index, labels, found)
        whole, plan, apart = _chosen(given, operand, tensor.network.fold_limit)
        weights = _weights(given, operand, whole, tensors)
        if weights is not None:
            operands = list(tensors)
            operands[index] = L.shuffle(source.input, reshape=whole.shapes[index])
            merge = Merge(operand, whole, plan, apart, operands, *weights)
            if plan is not None:
                return merge
            without_plan = without_plan or merge
    return without_plan


def _product(x: Tensor) -> tuple[Found | None, ShuffleSteps | None]:
    """The product along channels that a Tensor is, perhaps through a shuffle; None where it is another value."""
    steps, node = None, x.node
    if isinstance(node, Shuffle) and node.made is None and x.network.graph.is_used_once(x):
        x, steps = node.source, node.steps
    found = product_of(x, free=True)
    return (None, None) if found is None or not found.product.pointwise else (found, steps)


def _joins(given: Problem, tensors: Sequence[Tensor], index: int, found: Found) -> bool:
    """Whether the weights can stand in the equation: a bias beside what is computed would be computed, too."""
    term = given.equation.terms[index]
    biased = found.product.bias is not None or found.shift is not None
    alone = not biased or all(each.is_constant for k, each in enumerate(tensors) if k != index)
    return alone and len(set(term)) == len(term)


def _labels(x: Tensor, found: Found, steps: ShuffleSteps | None, term: Labels) -> tuple[Labels, ...] | None:
    """The labels of each dimension of the product itself; None where dimensions are merged or sizes open."""
    if steps is None:
        return tuple((label,) for label in term)
    before = tuple(x.node.source.shape[axis] for axis in steps.first)
    after = before if steps.reshape is None else steps.reshape
    named: list[str] = [""] * len(after)
    for label, place in zip(term, steps.second, strict=True):
        named[place] = label
    labels: list[Labels] = [()] * len(before)
    for sources, results in regrouped(before, after) or ():
        whole = [axis for axis in sources if before[axis] != 1] or list(sources[:1])
        if len(whole) != 1:
            return None
        labels[steps.first[whole[0]]] = tuple(named[axis] for axis in results)
    mine = labels[found.product.channel]
    return tuple(labels) if mine and is_static([x.shape[term.index(label)] for label in mine]) else None


def _chosen(given: Problem, operand: Operand, fold_limit: int) -> tuple[Problem, EinsumPlan | None, float]:
    """The einsum with the weights, its plan where that costs no more than both apart, and what these cost."""
    equation, index, source = given.equation, operand.number, operand.found.product
    term = equation.terms[index]
    taken = {label for each in (*equation.terms, equation.output) for label in each}
    inner = next(name for name in ("in", *(f"in_{k}" for k in range(len(taken) + 1))) if name not in taken)
    sizes = dict(zip((*term, inner), (*given.shapes[index], source.input.shape[source.channel]), strict=True))
    inputs = [(inner,) if axis == source.channel else names for axis, names in enumerate(operand.labels)]
    flat = tuple(label for names in inputs for label in names)
    order = tuple(flat.index(label) for axis in source.input.order for label in inputs[axis])
    weights: Labels = (*operand.labels[source.channel], inner)
    shape, kernel = tuple(sizes[label] for label in flat), tuple(sizes[label] for label in weights)
    whole = Problem(
        Equation((*equation.terms[:index], flat, *equation.terms[index + 1 :], weights), equation.output),
        (*given.shapes[:index], shape, *given.shapes[index + 1 :], kernel),
        (*given.constants, True),
        (*given.orders[:index], order, *given.orders[index + 1 :], None),
    )
    alone = Equation((flat, weights), tuple(label for names in operand.labels for label in names))
    apart = given.plan().cost + Problem(alone, (shape, kernel), (False, True), (order, None)).plan().cost
    paths = _paths(whole, index, fold_limit) if len(whole.shapes) == 3 else None
    return whole, whole.plan_within(apart, paths), apart


def _paths(whole: Problem, index: int, fold_limit: int) -> tuple[Path, ...]:
    """The pairs to try for an input at ``index``, another operand, and weights behind them.

    First the input and the other operand; also first the two constants, where together they make one that is as small
    as what is folded in any case. It has the dimensions of both, and most are greater than the two.
    """
    other, terms = 1 - index, whole.equation.terms
    paths: list[Path] = [((0, 1), (0, 1))]
    kept = {*terms[index], *whole.equation.output} & {*terms[other], *terms[2]}
    sizes = {label: size for k in (other, 2) for label, size in zip(terms[k], whole.shapes[k], strict=True)}
    together = product(sizes[label] for label in kept)
    if whole.constants[other] and isinstance(together, int) and together <= fold_limit:
        paths.append(((other, 2), (0, 1)))
    return tuple(paths)


def _weights(
    given: Problem, operand: Operand, whole: Problem, tensors: Sequence[Tensor]
) -> tuple[Tensor, Tensor | None] | None:
    """The weights as an operand, with what is folded into them, and what the bias adds; None where there are none."""
    found, source = operand.found, operand.found.product
    kernel, bias = source.kernel.data, None if source.bias is None else source.bias.data
    if found.scale is not None and found.shift is not None:
        made = source.weights(found.scale, found.shift)
        if made is None:
            return None
        kernel, bias = made
    kernel = kernel.reshape([int(size) for size in whole.shapes[-1]])
    (weights,) = made_of([source.kernel, *found.given], kernel)
    if bias is None:
        return weights, None
    value = _added(given, operand, bias.double(), tensors, source.kernel.network.fold_limit)
    if value is None:
        return None
    makers = [each for each in (source.bias, *found.given) if each is not None]
    return weights, made_of(makers, value.to(kernel.dtype))[0]


def _added(
    given: Problem, operand: Operand, bias: torch.Tensor, tensors: Sequence[Tensor], limit: int
) -> torch.Tensor | None:
    """What the bias adds to the result: its einsum with the other operands, all constants, to be broadcast.

    None where it is more than the constants that it is made of, or where a dynamic size decides it.
    """
    output, mine = given.equation.output, operand.labels[operand.found.product.channel]
    terms = dict(enumerate(given.equation.terms))
    term, elsewhere = terms.pop(operand.number), {label for labels in terms.values() for label in labels}
    sizes: dict[str, SizeLike] = {}
    for k in (operand.number, *terms):
        sizes.update((x, size) for x, size in zip(given.equation.terms[k], given.shapes[k], strict=True) if size != 1)
    # What the product has alone and the result has not is added as often as it is long.
    repeats = product(sizes.get(label, 1) for label in set(term).difference(elsewhere, output, mine))
    shape = tuple(sizes.get(label, 1) if label in elsewhere or label in mine else 1 for label in output)
    most = max(limit, sum(tensors[k].data.numel() for k in terms))
    if not is_static((repeats, *shape)) or int(product(shape)) > most:
        return None
    numbers = {label: k for k, label in enumerate(dict.fromkeys([*mine, *sorted(elsewhere)]))}
    arguments: list[Any] = [bias.reshape([int(sizes.get(label, 1)) for label in mine]), [*map(numbers.get, mine)]]
    for k, labels in terms.items():
        arguments += [tensors[k].data.double(), [*map(numbers.get, labels)]]
    kept = [numbers[label] for label in output if label in numbers]
    return (torch.einsum(*arguments, kept) * int(repeats)).reshape([int(size) for size in shape])


def contract(equation: str, operands: Sequence[Any], lowering: str, *, names: bool | None = None) -> Tensor:
    """The product of the operands that an equation says; ``names`` as for :func:`parse`."""
    if not operands:
        raise DefinitionError("einsum needs at least one operand")
    network = require_network(*operands)
    tensors = [as_tensor(operand, network) for operand in operands]
    parsed = parse(equation, [tensor.ndim for tensor in tensors], names=names)
    dtype = _dtype(parsed, tensors)
    tensors = [L.cast(tensor, dtype) for tensor in tensors]
    sizes = label_sizes(parsed, [tensor.shape for tensor in tensors])
    call = network.current_operation
    assert call is not None
    contraction = Contraction(call, tensors, parsed, tensors, Choice("einsum", lowering, *tensors))
    if all(tensor.is_constant for tensor in tensors):
        return contraction.lower()
    scope = next((tensor.scope for tensor in tensors if not tensor.is_constant), "")
    result = contraction.tensor(tuple(sizes[label] for label in parsed.output), dtype, "einsum", scope)
    result.partial |= any(size in FEW for label, size in sizes.items() if label not in parsed.output)
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
            merge = merge_of(problem_of(self.equation, self.tensors), self.tensors)
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


def problem_of(equation: Equation, tensors: Sequence[Tensor]) -> Problem:
    """The einsum of operands as they lie in memory."""
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

    def add(self, weights: Tensor, bias: Tensor | None) -> Tensor:
        """The layers, made of the values of the weights."""
        merge, network = self.merge, weights.network
        given = [*merge.tensors, weights]
        factors = [pair for pair in zip(given, merge.whole.equation.terms, strict=True) if pair[0].is_constant]
        numbers = {label: k for k, label in enumerate({each: None for _, term in factors for each in term})}
        operands: list[Any] = []
        for x, term in factors:  # with the rows' labels in all, torch writes the product as it is to lie in memory
            rows = {each: size for each, size in zip(self.labels[:2], self.sizes) if each not in term}
            operands += [x.data.float().expand(*rows.values(), *x.shape), [*map(numbers.get, (*rows, *term))]]
        dense = torch.einsum(*operands, [numbers[label] for label in self.labels])
        places, channels, *inputs = self.sizes
        dense = dense.reshape(places * channels, math.prod(inputs), 1, 1).to(weights.dtype)
        kernel = network.plain_constant(dense, weights.weight_names)
        if bias is not None:
            wide = constant_as_channels(wide_bias(bias, 1, 4), self.target, channels, places).data
            bias = network.plain_constant(wide.flatten().expand(places * channels).contiguous(), bias.weight_names)
        how = Geometry((1, 1), (0, 0), (0, 0), (1, 1))._asdict()
        result = convolution(as_channels(merge.input, self.place), kernel, bias, **how)
        result.node.facts.weights += weight_names_of([x for x, _ in factors[:-1]])
        return as_places(result, self.target, places)


def dense_of(merge: Merge | None) -> Dense | None:
    """The einsum as one convolution; None where it does not mix channels and places alone, of sizes that are known, or
    computes in a narrow dtype."""
    if merge is None or merge.input.ndim != 4 or merge.operand.found.product.channel != 1:
        return None
    equation, number, call = merge.whole.equation, merge.operand.number, merge.operand.found.product.operation
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
