"""Convolutions and linear products that become layers where they are first used, so that what follows may join them.

A batch norm with constant statistics becomes part of the weights (:func:`folded`); an einsum takes the weights as an
operand (:mod:`trtdsl.functional.einsum.factors`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from ... import layers as L
from ...core.lazy import torch
from ...definition.operation import Operation
from ...definition.tensor import Tensor, modules_of, weight_names_of
from ...layers.shuffle import PendingShuffle
from ...layers.shuffle_steps import ShuffleSteps, regrouped
from ...sizes.shape import Shape
from ..reducing.spatial import taken_by_product
from .fusion import made_of, scaled_weight, values_of


class Weighted:
    """A product with weights: how its layers are added, its own weights, and its results that are layers.

    ``axis`` is the kernel's dimension of output channels, ``channel`` the result's. The bias has one value a channel,
    or is of the result's rank, to be broadcast. ``pointwise``: the result is ``kernel @ input`` along the channels, and
    every other dimension is the input's.
    """

    def __init__(
        self,
        add: Callable[[Tensor, Tensor | None], Tensor],
        input: Tensor,
        kernel: Tensor,
        bias: Tensor | None,
        *,
        axis: int,
        channel: int,
        pointwise: bool = False,
    ):
        network = input.network
        operation = network.current_operation
        assert operation is not None
        self.add, self.input, self.kernel, self.bias = add, input, kernel, bias
        self.axis, self.channel, self.pointwise, self.operation = axis, channel, pointwise, operation
        self.key = network.choices.product(operation.location)
        self.plain: Tensor | None = None
        self.folded: PendingProduct | None = None

    @property
    def is_layer(self) -> bool:
        """Whether there is a layer of it, in any form."""
        return self.plain is not None or self.folded is not None

    def weights(self, scale: torch.Tensor, shift: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor] | None:
        """Kernel and bias that scale and shift the channels too; None where they overflow or lose digits."""
        dtype, bias = self.kernel.dtype, shift
        if self.bias is not None:
            bias = values_of(self.bias)
            if bias.ndim > 1:
                wide = [-1 if axis == self.channel else 1 for axis in range(bias.ndim)]
                bias = bias * scale.reshape(wide) + shift.reshape(wide)
            else:
                bias = bias * scale + shift
        if not bool(scale.isfinite().all()):
            return None
        added = bias.to(dtype)
        kernel = scaled_weight(self.kernel.data, scale.float(), self.axis)
        if dtype != torch.float32:
            digits, kernel = _keeps_digits(kernel, dtype, self.axis), kernel.to(dtype)
            if not digits or not bool(kernel.isfinite().all() and added.isfinite().all()):
                return None
        return kernel, added

    def build(self) -> Tensor:
        """Adds the layer with its own weights."""
        with self.operation:
            return self.add(self.kernel, self.bias)

    def build_folded(self, kernel: torch.Tensor, bias: torch.Tensor) -> Tensor:
        """Adds the layer with these weights, which keep the names of its own."""
        constant, names = self.kernel.network.plain_constant, () if self.bias is None else self.bias.weight_names
        with self.operation:
            return self.add(constant(kernel, self.kernel.weight_names), constant(bias, names))


def _keeps_digits(kernel: torch.Tensor, dtype: torch.dtype, axis: int) -> bool:
    """Whether the greatest channel's weights are mostly normal numbers in half precision, not too small for it.

    What a smaller channel loses is less than what half precision rounds in the greatest one: trained norms have scales
    near 0 in some channels.
    """
    others = [other for other in range(kernel.ndim) if other != axis]
    size = torch.linalg.vector_norm(kernel, dim=others) * math.sqrt(kernel.shape[axis] / max(1, kernel.numel()))
    greatest = float(size.max()) if size.numel() else 0.0
    return greatest == 0 or greatest >= torch.finfo(dtype).smallest_normal / 2


class PendingProduct:
    """The result of a product with weights, perhaps scaled and shifted, that has not become a layer yet.

    ``order`` is the order in which its dimensions lie in memory; None where only its layers tell.
    """

    def __init__(
        self,
        source: Weighted,
        order: tuple[int, ...] | None,
        scale: torch.Tensor | None = None,
        shift: torch.Tensor | None = None,
        given: Sequence[Tensor] = (),
        operation: Operation | None = None,
    ):
        self.source, self.memory, self.scale, self.shift, self.given = source, order, scale, shift, given
        self.operation = operation
        self.result: Tensor | None = None

    def __call__(self) -> Tensor:
        if self.result is None:
            self.result = self._plain() if self.scale is None else self._scaled()
        return self.result

    def _plain(self) -> Tensor:
        """The product with its own weights: a layer of its own where another one has a norm in them already.

        The network's next definition then folds no norm into it.
        """
        source = self.source
        if source.plain is None:
            if source.folded is not None:
                source.kernel.network.choices.used_plain.add(source.key)
            source.plain = source.build()
        return source.plain

    def _scaled(self) -> Tensor:
        source = self.source
        if not source.is_layer and source.key not in source.kernel.network.choices.known_plain:
            assert self.scale is not None and self.shift is not None
            weights = source.weights(self.scale, self.shift)
            if weights is not None:
                source.folded, result = self, source.build_folded(*weights)
                self._name(result)
                return result
        return self.apart()

    def order(self) -> tuple[int, ...]:
        """The order in which the result's dimensions lie in memory."""
        return self().order if self.memory is None else self.memory

    def _name(self, result: Tensor) -> None:
        """The layer has what its scale and shift were made from, too."""
        network, name, weight_names = result.network, result.name, weight_names_of(self.given)
        network.owners[name] |= modules_of(weight_names)
        network.weight_names[name] = network.weight_names.get(name, ()) + weight_names

    def apart(self) -> Tensor:
        """Scale and shift as layers of their own."""
        plain = self._plain()
        assert self.operation is not None
        with self.operation:
            return scaled_by(plain, self.given, self.scale, self.shift, self.source.channel)

    def as_tensor(self, shape: Shape, dtype: torch.dtype) -> Tensor:
        """The result as a Tensor whose layer is added when another one needs it."""
        network, scope = self.source.kernel.network, self.source.operation.scope
        return Tensor(network, shape, dtype, name="a product", scope=scope, pending=self)


def scaled_by(x: Tensor, given: Sequence[Tensor], scale: Any, shift: Any, channel: int = 1) -> Tensor:
    """``x * scale + shift`` per channel: IScaleLayer, or IElementWiseLayers where it cannot say which dimension.

    In float32: a mean far greater than the deviation makes a shift that half precision rounds to more than the result.
    """
    made, dtype = made_of(given, shift.float(), scale.float()), x.dtype
    x = L.cast(x, torch.float32)
    if x.ndim > 3 and channel == 1:
        return L.cast(L.scale(x, *made, axis=1), dtype)
    shape = tuple(-1 if axis == channel else 1 for axis in range(x.ndim))
    added, factor = (L.shuffle(each, reshape=tuple(each.shape[0] if n < 0 else n for n in shape)) for each in made)
    return L.cast(L.elementwise(L.elementwise(x, factor, "PROD"), added, "SUM"), dtype)


def deferred(
    add: Callable[[Tensor, Tensor | None], Tensor],
    input: Tensor,
    kernel: Tensor,
    bias: Tensor | None,
    shape: Shape,
    order: tuple[int, ...] | None,
    **facts: Any,
) -> Tensor:
    """The result of ``add(kernel, bias)``, added where it is first used; at once where a weight is computed.

    ``facts`` are those of :class:`Weighted`.
    """
    taken_by_product(input)
    constant = kernel.data is not None and (bias is None or bias.data is not None)
    if input.data is not None or not constant or input.dtype != kernel.dtype:
        return add(kernel, bias)
    source = Weighted(add, input, kernel, bias, **facts)
    return PendingProduct(source, order).as_tensor(shape, input.dtype)


def folded(
    x: Tensor, given: Sequence[Tensor], scale: torch.Tensor, shift: torch.Tensor, channel: int = 1
) -> Tensor | None:
    """``x * scale + shift`` per channel by the weights of the convolution or linear product that gives ``x``.

    ``given`` are the constants that scale and shift were made from, ``channel`` is the dimension of ``x`` that they
    belong to. None where nothing such gives ``x``, or where it has been used already. Reshapes and permutations that
    leave the channels whole are looked through.
    """
    pending = x.pending
    if x.is_layer or pending is None:
        return None
    if isinstance(pending, PendingShuffle):
        source, steps = pending.source, pending.steps
        before = _before(steps, source.shape, channel)
        inner = None if before is None else folded(source, given, scale, shift, before)
        return None if inner is None else L.shuffle(inner, *steps)
    if not isinstance(pending, PendingProduct) or pending.source.is_layer or channel != pending.source.channel:
        return None
    if pending.scale is not None:
        assert pending.shift is not None
        given, scale, shift = [*pending.given, *given], pending.scale * scale, pending.shift * scale + shift
    joined = PendingProduct(pending.source, pending.memory, scale, shift, given, x.network.current_operation)
    return joined.as_tensor(x.shape, x.dtype)


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
