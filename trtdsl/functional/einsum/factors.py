"""Operands that are products themselves: an einsum may take the weights of a pointwise convolution as an operand.

``einsum("nkctv,kvw->nctw", conv(z), a)`` is ``einsum("nitv,kvw,kci->nctw", z, a, w)`` and a constant for the bias.
Where the adjacency first and the weights then cost no more than the convolution and the adjacency, that is the plan.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ...layers.shuffle import Shuffle
from ...layers.shuffle_steps import ShuffleSteps, regrouped
from ..common import L, SizeLike, Tensor, is_static, product, torch, weight_names_of
from ..products.folding import Adds, Found, deferred, product_of
from .equation import Equation, Labels, label_sizes
from .plan import EinsumPlan, emit
from .search import Order, Path, Problem


class Operand(NamedTuple):
    """An operand that is a product: its number, and its dimensions before any reshape, in labels of the equation."""

    number: int
    labels: tuple[Labels, ...]
    channel: int
    """The dimension along which it is a product."""
    inputs: int
    """The size of that dimension of its input."""
    order: Order
    """The order in which its input's dimensions lie in memory."""


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
    found: Found
    weights: Tensor
    added: Tensor | None
    """What the bias adds to the result, which costs nothing where a norm or an activation follows."""

    @property
    def input(self) -> Tensor:
        """The product's."""
        return self.found.product.input

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

    def by_plan(self) -> Tensor:
        """The layers of the plan."""
        plan = self.plan
        assert plan is not None

        def add(kernel: Tensor, bias: Tensor | None) -> Tensor:
            result = emit(plan, [*self.tensors, kernel])
            return result if bias is None else L.elementwise(result, wide_bias(bias, result.ndim), "SUM")

        return self.emitted(add)


def wide_bias(bias: Tensor, ndim: int) -> Tensor:
    """One value a channel, or what has that many dimensions already, to be broadcast."""
    return bias if bias.ndim > 1 else L.shuffle(bias, reshape=(1, *bias.shape, *(1,) * (ndim - 2)))


def merge_of(given: Problem, tensors: Sequence[Tensor]) -> Merge | None:
    """The einsum with the weights of a product as an operand, the first that has a plan; None where no operand is such
    a product, or where another layer needs it anyway."""
    without_plan: Merge | None = None
    for index, tensor in enumerate(tensors):
        found, steps = _product(tensor)
        if found is None or not _joins(given, tensors, index, found):
            continue
        source, labels = found.product, _labels(tensor, found, steps, given.equation.terms[index])
        inputs = source.input.shape[source.channel]
        if labels is None or not isinstance(inputs, int):
            continue
        operand = Operand(index, labels, source.channel, inputs, source.input.order)
        whole, plan, apart = _chosen(given, operand, tensor.network.fold_limit)
        weights = _weights(given, operand, whole, tensors, found)
        if weights is not None:
            operands = list(tensors)
            operands[index] = L.shuffle(source.input, reshape=whole.shapes[index])
            merge = Merge(operand, whole, plan, apart, operands, found, *weights)
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
    equation, index = given.equation, operand.number
    term = equation.terms[index]
    taken = {label for each in (*equation.terms, equation.output) for label in each}
    inner = next(name for name in ("in", *(f"in_{k}" for k in range(len(taken) + 1))) if name not in taken)
    sizes: Mapping[str, SizeLike] = {**dict(zip(term, given.shapes[index], strict=True)), inner: operand.inputs}
    inputs = [(inner,) if axis == operand.channel else names for axis, names in enumerate(operand.labels)]
    flat = tuple(label for names in inputs for label in names)
    order = tuple(flat.index(label) for axis in operand.order for label in inputs[axis])
    weights: Labels = (*operand.labels[operand.channel], inner)
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
    given: Problem, operand: Operand, whole: Problem, tensors: Sequence[Tensor], found: Found
) -> tuple[Tensor, Tensor | None] | None:
    """The weights as an operand, with what is folded into them, and what the bias adds; None where there are none."""
    source = found.product
    kernel, bias = source.kernel.data, None if source.bias is None else source.bias.data
    if found.scale is not None and found.shift is not None:
        made = source.weights(found.scale, found.shift)
        if made is None:
            return None
        kernel, bias = made
    kernel = kernel.reshape([int(size) for size in whole.shapes[-1]])
    weights = _constant(source.kernel, kernel, source.kernel, *found.given)
    if bias is None:
        return weights, None
    value = _added(given, operand, bias.double(), tensors, source.kernel.network.fold_limit)
    if value is None:
        return None
    return weights, _constant(source.kernel, value.to(kernel.dtype), source.bias, *found.given)


def _constant(like: Tensor, value: torch.Tensor, *made_of: Tensor | None) -> Tensor:
    names = weight_names_of([each for each in made_of if each is not None])
    return like.network.plain_constant(value, names)


def _added(
    given: Problem, operand: Operand, bias: torch.Tensor, tensors: Sequence[Tensor], limit: int
) -> torch.Tensor | None:
    """What the bias adds to the result: its einsum with the other operands, all constants, to be broadcast.

    None where it is more than the constants that it is made of, or where a dynamic size decides it.
    """
    output, mine = given.equation.output, operand.labels[operand.channel]
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
