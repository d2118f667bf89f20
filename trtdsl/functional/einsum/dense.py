"""An einsum that mixes channels and places alike for each of the rest, as one dense convolution.

``einsum("nitv,kvw,kci->nctw", z, a, w)`` is a pointwise convolution from channels (v, i) to (w, c), whose weights are
made of both constants. It multiplies more often than two products do, and moves less.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from ...layers.convolution import Geometry, convolution
from ..common import Tensor, hint, is_static, product, torch, weight_names_of
from ..pointwise.quantization import rounded_to
from ..products.places import OPERATIONS, as_channels, as_places, constant_as_channels, followers
from .equation import ITEM, Labels, label_sizes
from .factors import Merge, wide_bias


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
