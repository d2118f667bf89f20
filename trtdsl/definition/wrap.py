"""What comes from outside: any ITensor of TensorRT's own API as a Tensor of the DSL, and plugins."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..core.errors import ShapeError, UsageError, nearest
from ..sizes.dim import Dim, tensor_dim
from ..sizes.shape import Shape
from ..sizes.size import Size, SizeLike
from .tensor import Tensor

if TYPE_CHECKING:
    from .network import Network


def wrap(network: Network, handle: Any, shape: Sequence[int | str | Size] | None) -> Tensor:
    """See :meth:`Network.wrap`."""
    if not isinstance(handle, network.trt.ITensor):
        raise UsageError(f"net.wrap takes an ITensor of {network.backend.name}, not {type(handle).__name__}")
    if not any(handle is own for own in _handles(network.definition)):
        raise UsageError(f"the tensor {handle.name!r} is none of the network {network.name!r}")
    with network.backend.listen() as messages:
        try:
            dims = tuple(handle.shape)
        except ValueError:  # how TensorRT tells that a layer before it is not valid
            raise UsageError(f"TensorRT has no shape of {handle.name!r}: {messages.summary()}") from None
    network._names.setdefault(handle.name, 1)  # no later layer takes it
    dtype = network.backend.torch_dtype(handle.dtype)
    tensor = Tensor(network, dims, dtype, handle=handle, name=handle.name)
    tensor.shape = _sizes(network, tensor, dims, shape)
    for size in tensor.shape:
        network.constraints.not_negative(size, network.current_operation)
    return tensor


def _handles(definition: Any) -> list[Any]:
    """Every ITensor of a definition."""
    layers = map(definition.get_layer, range(definition.num_layers))
    made = [layer.get_output(index) for layer in layers for index in range(layer.num_outputs)]
    return [*map(definition.get_input, range(definition.num_inputs)), *made]


def _sizes(network: Network, tensor: Tensor, dims: tuple[int, ...], shape: Sequence[int | str | Size] | None) -> Shape:
    """TensorRT's sizes where it knows them; those that it leaves open in the author's words, or as the tensor's own."""
    if shape is not None and len(shape) != len(dims):
        raise ShapeError(f"{tensor.name!r} has {len(dims)} dimensions, {dims}, and the shape {len(shape)}")
    sizes: list[SizeLike] = []
    for axis, size in enumerate(dims):
        if shape is None:
            sizes.append(size if size >= 0 else tensor_dim(tensor, axis, tensor.name))
            continue
        given = shape[axis]
        ours = network.resolved(Dim(given) if isinstance(given, str) else given)
        for atom in ours.atoms() if isinstance(ours, Size) else ():
            if isinstance(atom, Dim) and atom.name not in network.dims:
                raise UsageError(f"no input has the dimension {atom.name!r}{nearest(atom.name, network.dims)}")
        if size >= 0 and ours != size:
            raise ShapeError(f"TensorRT has the shape {dims} for {tensor.name!r}, not {ours} at {axis}")
        sizes.append(ours)
    return tuple(sizes)


@dataclass(frozen=True)
class PluginUse:
    """A plugin in a network: the creator that made a layer's plugin, the fields that it got, and what evaluates it."""

    name: str
    version: str
    namespace: str
    fields: Mapping[str, Any]
    evaluate: Callable[..., Any] | None

    def to_json(self) -> dict[str, str]:
        """What an engine needs of the plugin where it runs."""
        return {"name": self.name, "version": self.version, "namespace": self.namespace}
