"""Convolutions with folded batch norms: a batch norm with constant statistics becomes part of the weights before it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ... import layers as L
from ...core.lazy import np, torch
from ...definition.network import Network
from ...definition.operation import Operation
from ...definition.tensor import Tensor, weight_names_of
from ...layers.evaluation import Node
from ...layers.shuffle import PendingShuffle
from .fusion import in_dtype, made_of, scaled_weight, values_of


class Convolved:
    """A convolution in the network, its own weights, and the form in which its result is used so far."""

    def __init__(self, result: Tensor, kernel: Tensor, bias: Tensor | None, axis: int):
        network = result.network
        added = network.definition.get_layer(network.definition.num_layers - 1)
        self.result, self.kernel, self.bias, self.axis = result, kernel, bias, axis
        self.layer = Node(network.backend, added).layer
        self.used: PendingConvolution | None = None

    def weights(self, scale: np.ndarray, shift: np.ndarray) -> tuple[torch.Tensor, torch.Tensor] | None:
        """Kernel and bias of the convolution that scales and shifts its channels too; None where they overflow."""
        channels = [1] * self.kernel.ndim
        channels[self.axis] = -1
        bias = shift if self.bias is None else values_of(self.bias) * scale + shift
        kernel = scaled_weight(self.kernel.data, in_dtype(scale, self.kernel.dtype).view(channels))
        added = in_dtype(bias, self.kernel.dtype)
        narrow = self.kernel.dtype != torch.float32
        if not np.isfinite(scale).all() or (narrow and not bool(kernel.isfinite().all() and added.isfinite().all())):
            return None
        return kernel, added

    def give(self, kernel: torch.Tensor, bias: torch.Tensor | None) -> None:
        """The layer's weights from now on."""
        target = self.result.network.target
        self.layer.kernel = target.buffer(kernel)
        self.layer.bias = target.weights(None, kernel.dtype) if bias is None else target.buffer(bias)


class PendingConvolution:
    """A convolution's result, perhaps scaled and shifted by the layer's own weights, where nothing else uses it.

    The layer exists; its weights are decided when another layer needs the result.
    """

    def __init__(
        self,
        source: Convolved,
        scale: np.ndarray | None = None,
        shift: np.ndarray | None = None,
        given: Sequence[Tensor] = (),
        operation: Operation | None = None,
    ):
        self.source, self.scale, self.shift, self.given, self.operation = source, scale, shift, given, operation
        self.tensor: Tensor | None = None

    def __call__(self) -> Tensor:
        source = self.source
        if source.used is None:
            if self.scale is None:
                source.used = self
                return source.result
            assert self.shift is not None
            weights = source.weights(self.scale, self.shift)
            if weights is not None:
                source.give(*weights)
                source.used = self
                network = source.result.network
                name = source.result.name
                network.owners[name] |= frozenset().union(*(tensor.owners for tensor in self.given))
                network.weight_names[name] = network.weight_names.get(name, ()) + weight_names_of(self.given)
                return source.result
        before, plain = source.used, PendingConvolution(source)
        if before is None or before.scale is not None:
            source.used = plain
            if before is not None:
                _unfold(before)
        return source.result if self.scale is None else self.apart()

    def order(self) -> tuple[int, ...]:
        """The order in which the result's dimensions lie in memory."""
        return self.source.result.order

    def apart(self) -> Tensor:
        """Scale and shift as a layer of their own."""
        x = self.source.result
        assert self.operation is not None
        with self.operation:
            return scaled_by(x, self.given, self.scale, self.shift)

    def as_tensor(self) -> Tensor:
        """The result as a Tensor whose form is decided when a layer needs it."""
        x = self.source.result
        self.tensor = Tensor(x.network, x.shape, x.dtype, name=x.name, scope=x.scope, pending=self)
        return self.tensor


def _unfold(folded: PendingConvolution) -> None:
    """Gives the convolution its own weights again, because its result is also used without the batch norm."""
    source, network = folded.source, folded.source.result.network
    handle = source.result.trt
    source.give(source.kernel.data, None if source.bias is None else source.bias.data)
    readers = [
        (layer, index)
        for layer in map(network.definition.get_layer, range(network.definition.num_layers))
        for index in range(layer.num_inputs)
        if (operand := layer.get_input(index)) is not None and operand.name == handle.name
    ]
    apart = folded.apart()
    for layer, index in readers:
        layer.set_input(index, apart.trt)
    if handle.is_network_output:
        _move_output(network, handle, apart.trt)
    if folded.tensor is not None:
        folded.tensor.move_to(apart)


def _move_output(network: Network, before: Any, after: Any) -> None:
    """Another ITensor becomes the output, under the same name and at the same place among the outputs."""
    definition, name = network.definition, before.name
    outputs = [definition.get_output(index) for index in range(definition.num_outputs)]
    for output in outputs:
        definition.unmark_output(output)
    before.name = network._take_name(f"{name}.plain")
    after.name = name
    for output in outputs:
        definition.mark_output(after if output.name == before.name else output)


def scaled_by(x: Tensor, given: Sequence[Tensor], scale: Any, shift: Any) -> Tensor:
    """``x * scale + shift`` per channel: IScaleLayer."""
    return L.scale(x, *made_of(given, in_dtype(shift, x.dtype), in_dtype(scale, x.dtype)), axis=1)


def convolved(result: Tensor, kernel: Tensor, bias: Tensor | None, axis: int = 0) -> Tensor:
    """The result of a convolution that has just been added, with constant weights, for :func:`folded` to fold into.

    ``axis`` is the kernel's dimension of output channels; ``result`` itself where it is a constant.
    """
    if result.is_constant or not kernel.is_constant:
        return result
    return PendingConvolution(Convolved(result, kernel, bias, axis)).as_tensor()


def folded(x: Tensor, given: Sequence[Tensor], scale: np.ndarray, shift: np.ndarray) -> Tensor | None:
    """``x * scale + shift`` per channel of dimension 1 by the weights of the convolution that gives ``x``.

    ``given`` are the constants that scale and shift were made from. None where no convolution gives ``x``, or where it
    has been used already. Reshapes that leave batch and channels alone are looked through.
    """
    pending = x.pending
    if x.is_layer or pending is None:
        return None
    if isinstance(pending, PendingShuffle):
        source, steps = pending.source, pending.steps
        alone = steps.first[:2] == steps.second[:2] == (0, 1) and steps.first == tuple(range(source.ndim))
        if not alone or steps.reshape is None or steps.reshape[:2] != source.shape[:2]:
            return None
        inner = folded(source, given, scale, shift)
        return None if inner is None else L.shuffle(inner, *steps)
    if not isinstance(pending, PendingConvolution) or pending.source.used is not None:
        return None
    if pending.scale is not None:
        assert pending.shift is not None
        given, scale, shift = [*pending.given, *given], pending.scale * scale, pending.shift * scale + shift
    operation = x.network._operation
    assert operation is not None
    return PendingConvolution(pending.source, scale, shift, given, operation).as_tensor()
