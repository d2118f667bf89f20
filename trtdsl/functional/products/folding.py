"""Convolutions and linear products that become layers when all that uses them is known, so that it may join them.

A batch norm with constant statistics becomes part of the weights (:class:`Scaled`); an einsum takes the weights as an
operand (:mod:`trtdsl.functional.einsum.contract`); what is monotone goes before maxima over windows, into the product.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from ...layers.convolution import Geometry
from ...layers.shuffle import Shuffle, behind_shuffles
from ...layers.shuffle_steps import ShuffleSteps, regrouped
from ..common import Call, L, Shape, Tensor, channels_last, torch, weight_names_of
from ..lowerings import Choice
from ..operands import binary, on_axis
from ..pointwise.quantization import narrow_weight, product_in_int4

Adds = Callable[[Tensor, Tensor | None], Tensor]
"""Makes the layers of a product of a kernel and a bias."""


@dataclass(eq=False, slots=True)
class Product(Call):
    """A product with weights, which what follows may join: ``add`` makes its layers of a kernel and a bias.

    ``axis`` is the kernel's dimension of output channels, ``channel`` the result's. The bias has one value a channel,
    or is of the result's rank, to be broadcast. ``pointwise``: the result is ``kernel @ input`` along the channels, and
    every other dimension is the input's. ``geometry`` says where a convolution's windows lie. ``memory`` is the order
    in which the result's dimensions lie in memory; None where only its layers tell.
    """

    is_product = True
    add: Adds
    input: Tensor
    kernel: Tensor
    bias: Tensor | None
    memory: tuple[int, ...] | None
    axis: int
    channel: int
    pointwise: bool = False
    geometry: Geometry | None = None

    def lower(self) -> Tensor:
        return self.add(self.kernel, self.bias)

    def weights(self, scale: torch.Tensor, shift: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor] | None:
        """Kernel and bias that scale and shift the channels too; None where they overflow or lose digits."""
        dtype, bias = self.kernel.dtype, shift
        if self.bias is not None:
            ndim = self.bias.ndim
            wide = [-1 if axis == self.channel or ndim == 1 else 1 for axis in range(ndim)]
            bias = values_of(self.bias) * scale.reshape(wide) + shift.reshape(wide)
        if not bool(scale.isfinite().all()):
            return None
        added = bias.to(dtype)
        kernel = scaled_weight(self.kernel.data, scale.float(), self.axis)
        if dtype != torch.float32:
            digits, kernel = _keeps_digits(kernel, dtype, self.axis), kernel.to(dtype)
            if not digits or not bool(kernel.isfinite().all() and added.isfinite().all()):
                return None
        return kernel, added

    def folded(self, kernel: torch.Tensor, bias: torch.Tensor, given: Sequence[Tensor]) -> Tensor:
        """The layers with these weights, which have the names of its own, and of what they were made from."""
        network, names = self.operation.network, () if self.bias is None else self.bias.weight_names
        with self.operation:
            constant = network.plain_constant
            result = self.add(constant(kernel, self.kernel.weight_names), constant(bias, names))
        behind_shuffles(result).node.facts.weights += weight_names_of(given)
        self.memory = self.memory or result.order
        return result

    def expected_order(self) -> tuple[int, ...]:
        return self.resolved().order if self.memory is None else self.memory


def _keeps_digits(kernel: torch.Tensor, dtype: torch.dtype, axis: int) -> bool:
    """Whether the greatest channel's weights are mostly normal numbers in half precision, not too small for it.

    What a smaller channel loses is less than what half precision rounds in the greatest one: trained norms have scales
    near 0 in some channels.
    """
    others = [other for other in range(kernel.ndim) if other != axis]
    size = torch.linalg.vector_norm(kernel, dim=others) * math.sqrt(kernel.shape[axis] / max(1, kernel.numel()))
    greatest = float(size.max()) if size.numel() else 0.0
    return greatest == 0 or greatest >= torch.finfo(dtype).smallest_normal / 2


@dataclass(eq=False, slots=True)
class Scaled(Call):
    """``x * scale + shift`` per channel, made from the constants ``given``: part of the product that gives ``x``, or
    layers of their own."""

    rule = "norm into product"
    x: Tensor
    given: Sequence[Tensor]
    scale: torch.Tensor
    shift: torch.Tensor
    channel: int
    choice: Choice

    def lower(self) -> Tensor:
        within = self._within(self.x, self.channel, self.given, self.scale, self.shift)
        by = self.scale, self.shift
        result = self.choice.lowered(self.x, within=within, statistics=self.given, by=by)
        if self.choice.used != "folded":
            self.remark("a layer of its own: " + (within if isinstance(within, str) else "it is asked for"), False)
        return result

    def _within(
        self, x: Tensor, channel: int | None, given: Sequence[Tensor], scale: torch.Tensor, shift: torch.Tensor
    ) -> Callable[[], Tensor] | str:
        """Makes the product that gives ``x`` with this scale and shift in its weights; or why there is none.

        Reshapes and permutations that leave the channels whole are looked through.
        """
        node, graph = x.node, self.operation.network.graph
        if not isinstance(node, Call):
            return "no convolution and no linear product gives its input"
        if channel is None:
            return "the channels are not whole in what gives its input"
        if not graph.is_used_once(x):
            return f"the result of {node.operation.name} is used otherwise, too"
        if isinstance(node, Shuffle):
            inner = self._within(node.source, _before(node.steps, node.source.shape, channel), given, scale, shift)
            return inner if isinstance(inner, str) else lambda: L.shuffle(inner(), *node.steps)
        if isinstance(node, Scaled):
            if node.made is not None or channel != node.channel:
                return f"{node.operation.name} is a layer already"
            inner = self._within(node.x, channel, [*node.given, *given], node.scale * scale, node.shift * scale + shift)
            return inner if isinstance(inner, str) or node.choice.way() == "folded" else "the norm before it is a layer"
        if isinstance(node, Product):
            if node.made is not None:
                return f"{node.operation.name} is a layer already"
            if channel != node.channel:
                return f"its channels are not those of {node.operation.name}"
            weights = node.weights(scale, shift)
            if weights is None:
                return f"the weights of {node.operation.name} would become too great or too small for their dtype"
            return functools.partial(self._taken, node, *weights, given)
        return self._within(node.resolved(), channel, given, scale, shift)

    def _taken(self, product: Product, kernel: torch.Tensor, bias: torch.Tensor, given: Sequence[Tensor]) -> Tensor:
        self.remark(f"taken into {product.operation.name}")
        return product.folded(kernel, bias, given)

    def expected_order(self) -> tuple[int, ...]:
        return self.x.order


def deferred(
    add: Adds, input: Tensor, kernel: Tensor, bias: Tensor | None, shape: Shape, *, by_value: bool = False, **facts: Any
) -> Tensor:
    """The result of ``add(kernel, bias)`` as a :class:`Product`, of which ``facts`` are; its layers at once where a
    weight is computed. ``by_value``: the layers have numbers of the kernel, which cannot be narrow.
    """
    operation = input.network.current_operation
    if not by_value:
        add = functools.partial(weighted, add, input, axis=facts["axis"], channel=facts["channel"])
    constant = kernel.data is not None and (bias is None or bias.data is not None)
    if input.data is not None or not constant or input.dtype != kernel.dtype or operation is None:
        return add(kernel, bias)
    product = Product(operation, [input], add, input, kernel, bias, **facts)
    return product.tensor(shape, input.dtype, operation.name)


def weighted(add: Adds, input: Tensor, kernel: Tensor, bias: Tensor | None, *, axis: int, channel: int) -> Tensor:
    """A product; where its weight is narrow, then the scale of each channel and the bias."""
    operation = input.network.current_operation
    if operation is not None and operation.narrow == "int4":
        result = product_in_int4(input, kernel)
        return result if bias is None else L.elementwise(result, wide_bias(bias, channel, result.ndim), "SUM")
    narrow = narrow_weight(input, kernel, axis)
    if narrow is None:
        return add(kernel, bias)
    wide, factors = narrow
    beside = operation is not None and len(operation.peers) > 1
    if factors is None and (bias is not None or not beside):
        return add(wide, bias)
    result = add(wide, None)
    if beside:  # a launch behind it, by which it does not write fp8 itself: docs/traps/builder-fp8.md
        result = binary(result, -math.inf, "MAX", result.dtype)
    if factors is not None:
        result = L.elementwise(result, wide_bias(L.cast(factors, result.dtype), channel, result.ndim), "PROD")
    return result if bias is None else L.elementwise(result, wide_bias(bias, channel, result.ndim), "SUM")


def wide_bias(bias: Tensor, channel: int, ndim: int) -> Tensor:
    """One value a channel, or what has that many dimensions already, to be broadcast."""
    return bias if bias.ndim > 1 else on_axis(bias, channel % ndim, ndim)


class Found(NamedTuple):
    """A product with weights that nothing else needs, with the scale and shift behind it."""

    product: Product
    scale: torch.Tensor | None = None
    shift: torch.Tensor | None = None
    given: tuple[Tensor, ...] = ()


def product_of(x: Tensor, *, free: bool = False) -> Found | None:
    """The product that gives ``x``, perhaps with a scale and a shift; None where anything else does.

    ``free``: one that is no layer, and that nothing but ``x`` and one user of it needs.
    """
    node = x.node
    if not isinstance(node, (Product, Scaled)):
        return None
    if free and (node.made is not None or not x.network.graph.is_used_once(x)):
        return None
    if isinstance(node, Product):
        return Found(node)
    inner = product_of(node.x, free=free)
    if inner is None or node.channel != inner.product.channel:
        return None
    scale, shift = node.scale, node.shift
    if inner.scale is not None and inner.shift is not None:
        scale, shift = inner.scale * scale, inner.shift * scale + shift
    return Found(inner.product, scale, shift, (*inner.given, *node.given))


def is_linear(x: Tensor) -> bool:
    """Whether a linear product with constant weights gives ``x``, and not a convolution."""
    found = product_of(x)
    return found is not None and found.product.kernel.ndim == 2


def _before(steps: ShuffleSteps, shape: Shape, dim: int) -> int | None:
    """The dimension of a tensor of that shape that a shuffle makes dimension ``dim`` of; None where there is none."""
    first, reshape, second = steps
    place = second[dim]
    if reshape is None:
        return first[place]
    groups = regrouped(tuple(shape[axis] for axis in first), reshape) or ()
    for sources, results in groups:
        if place in results:
            whole = [axis for axis in sources if shape[first[axis]] != 1]
            alone = [axis for axis in results if reshape[axis] != 1] == [place]
            return first[whole[0]] if alone and len(whole) == 1 else None
    return None


@dataclass(eq=False, slots=True)
class Maximum(Call):
    """Maxima over windows of ``source``, which ``pool`` computes."""

    source: Tensor
    pool: Callable[[Tensor], Tensor]

    def lower(self) -> Tensor:
        return self.pool(self.source)

    def expected_order(self) -> tuple[int, ...]:
        return channels_last(self.source.ndim)


@dataclass(eq=False, slots=True)
class Monotone(Call):
    """A function that never falls, of ``x``: of maxima, the maxima of the function are the same.

    A product's own kernel computes the function; it goes there where nothing else needs the product or its maxima.
    """

    rule = "before maxima"
    x: Tensor
    function: Callable[[Tensor], Tensor]

    def lower(self) -> Tensor:
        """The function before the maxima, or behind them."""
        node, graph = self.x.node, self.operation.network.graph
        assert isinstance(node, Maximum)
        if node.made is not None or not graph.is_used_once(self.x):
            self.remark("behind the maxima: they are used otherwise, too", False)
        elif product_of(node.source, free=True) is None:
            self.remark("behind the maxima: what they are of is no product, or is used otherwise, too", False)
        else:
            self.remark("before the maxima, in the product that they are of")
            before = self.function(node.source)
            with node.operation:
                return node.pool(before)
        return self.function(self.x)

    def expected_order(self) -> tuple[int, ...]:
        return self.x.order


def monotone(x: Tensor, function: Callable[[Tensor], Tensor]) -> Tensor:
    """``function(x)``, which never falls; it may be computed before maxima that give ``x``."""
    operation = x.network.current_operation
    if not isinstance(x.node, Maximum) or operation is None:
        return function(x)
    return Monotone(operation, [x], x, function).tensor(x.shape, x.dtype, operation.name, x.scope)


def scaled_weight(weight: torch.Tensor, scale: torch.Tensor, axis: int) -> torch.Tensor:
    """``weight`` times a scale for each index of dimension ``axis``, in float32."""
    return weight.float() * scale.reshape([-1 if dim == axis else 1 for dim in range(weight.ndim)])


def affine(
    mean: Tensor, var: Tensor, eps: float, weight: Tensor | None, bias: Tensor | None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Scale and shift of the batch norm with these constants, in float64."""
    deviation = (values_of(var) + eps).sqrt()
    scale = (1 if weight is None else values_of(weight)) / deviation
    shift = values_of(mean) * scale
    return scale, -shift if bias is None else values_of(bias) - shift


def values_of(tensor: Tensor) -> torch.Tensor:
    """The values in float64."""
    return tensor.data.double()


def made_of(tensors: Sequence[Tensor], *values: torch.Tensor) -> list[Tensor]:
    """Constants computed from others, whose names they keep."""
    network, weight_names = tensors[0].network, weight_names_of(tensors)
    return [network.plain_constant(value, weight_names) for value in values]
