"""Where a network first differs from its torch reference: the first submodule whose output it does not have."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from ..core.dtypes import dtype_name
from ..core.errors import Location, placed
from ..core.lazy import torch
from ..definition.network import Network
from ..definition.spec.reference import call_reference
from ..definition.spec.spec import NetworkSpec
from ..definition.weights import Source
from ..interpreter.feeds import make_feeds
from ..interpreter.interpret import Interpreter
from .judging.equality import OutputComparison, compare, describe
from .report import CheckReport


@dataclass(frozen=True)
class LayerDifference:
    """A submodule's output beside the layer that should have made it."""

    module: str
    """The submodule, by its name in the reference."""
    layer: str
    location: Location | None
    """The author's line that made the layer."""
    comparison: OutputComparison

    def __str__(self) -> str:
        text = f"layer {self.layer!r} differs from module {self.module!r}: {describe(self.comparison)}"
        return placed(self.location, text)


@dataclass(frozen=True)
class LayerReport:
    """What :func:`compare_layers` found, with the submodules in the order in which torch ran them."""

    agreed: list[str] = field(default_factory=list)
    """Submodules whose output is among the network's tensors."""
    absent: list[str] = field(default_factory=list)
    """Submodules whose output the network does not have as such: fused with what follows, or laid out otherwise."""
    difference: LayerDifference | None = None
    """The first that differs."""

    @property
    def passed(self) -> bool:
        """Whether nothing differs."""
        return self.difference is None

    def to_json(self) -> dict[str, Any]:
        """Everything as a JSON object."""
        return asdict(self)


ROUGHLY = {"float32": 2e-4, "float16": 2e-2, "bfloat16": 6e-2}  # how much a few elements may differ
SAMPLES = 64  # elements compared first, before all of them


@dataclass
class _Output:
    """One output of a submodule, and the tensors of the network nearest to it."""

    module: str
    value: torch.Tensor
    sample: torch.Tensor
    greatest: float
    agreed: bool = False
    own: tuple[float, str] | None = None
    """The nearest tensor of a layer that uses the weights of this module and of no other, and its distance."""
    near: tuple[tuple[int, float], str] | None = None
    """The nearest tensor of all: first by how much of the module's name the layer shares."""


def compare_layers(
    network: Network, feeds: Mapping[str, torch.Tensor], reference: torch.nn.Module, *, equal: bool = False
) -> LayerReport:
    """Runs the network and its reference on the same feeds and says where they first differ.

    Submodules are matched with layers by the weights that both use (``network.owners``), others by shape and value. A
    module that owns layers of the right shape differs when none of them has its output; any other one only when
    nothing after it agrees either, since a network need not have every tensor that torch makes. Where the outputs are
    known to be ``equal``, nothing differs, and what the network does not have as such is absent.

    >>> module = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Linear(3, 3)).eval()
    >>> net = td.Network()
    >>> w = {name: net.constant(value.detach(), source=name) for name, value in module.state_dict().items()}
    >>> x = net.input("x", (2, 3))
    >>> x = F.linear(x, w["0.weight"], w["0.bias"])
    >>> net.output(F.linear(x, w["1.weight"] * 1.1, w["1.bias"]), "y")
    >>> compare_layers(net, {"x": torch.ones(2, 3)}, module).difference.module
    '1'
    """
    outputs = _reference_outputs(reference, feeds)
    by_shape: dict[tuple[int, ...], list[_Output]] = {}
    for output in outputs:
        by_shape.setdefault(tuple(output.value.shape), []).append(output)

    interpreter = Interpreter(network)

    def observe(name: str, tensor: torch.Tensor) -> None:
        layer = interpreter.makers.get(name, name)
        for output in by_shape.get(tuple(tensor.shape), ()):
            if not output.agreed:
                _weigh(output, name, layer, tensor, network.owners.get(layer, frozenset()))

    interpreter(feeds, observe=observe)
    found = None if equal else _first_difference(outputs)
    difference = None
    if found is not None:
        output, name = found
        value = interpreter(feeds, keep=[name])[name]
        layer = interpreter.makers[name]
        comparison = compare(layer, value, output.value.to(value.dtype))
        difference = LayerDifference(output.module, layer, network.locations.get(layer), comparison)
    agreed = list(dict.fromkeys(output.module for output in outputs if output.agreed))
    absent = [] if found else list(dict.fromkeys(output.module for output in outputs if not output.agreed))
    return LayerReport(agreed, [module for module in absent if module not in agreed], difference)


def locate_difference(
    spec: NetworkSpec, network: Network, report: CheckReport, weights: Source | None = None
) -> LayerReport:
    """:func:`compare_layers` at the first sizes where a check failed, or at the first of all, on the check's feeds.

    Where all outputs passed nothing differs: the error of a submodule's output is not judged by torch's own in float64,
    as that of the outputs is.
    """
    env = next((case.dims for case in report.cases if not case.passed), report.cases[0].dims)
    feeds = make_feeds(spec.inputs, network, env, torch.Generator().manual_seed(report.seed))
    equal = all(case.passed for case in report.cases)
    return compare_layers(network, feeds, spec.reference_module(spec.open_weights(weights)), equal=equal)


def _reference_outputs(reference: torch.nn.Module, feeds: Mapping[str, torch.Tensor]) -> list[_Output]:
    """The output of every call of a submodule, in order. Outputs are copied, since a later module may work in place."""
    outputs: list[_Output] = []

    def hook(name: str) -> Callable[[torch.nn.Module, Any, Any], None]:
        def remember(module: torch.nn.Module, inputs: Any, result: Any) -> None:
            if isinstance(result, torch.Tensor):
                value = result.detach().clone()
                greatest = float(value.double().abs().max()) if value.numel() else 0.0
                outputs.append(_Output(name, value, _sample(value), greatest))

        return remember

    handles = [module.register_forward_hook(hook(name)) for name, module in reference.named_modules() if name]
    try:
        with torch.inference_mode():
            call_reference(reference, feeds)
    finally:
        for handle in handles:
            handle.remove()
    return outputs


def _sample(tensor: torch.Tensor) -> torch.Tensor:
    """A few elements, the same ones for every tensor of a shape."""
    flat = tensor.reshape(-1)
    return flat[:: max(flat.numel() // SAMPLES, 1)].double()


def _weigh(output: _Output, name: str, layer: str, tensor: torch.Tensor, owners: frozenset[str]) -> None:
    """Notes a layer's tensor where it has the output's values, or is nearer to them than the tensors before."""
    distance = float((_sample(tensor) - output.sample).abs().nan_to_num(float("inf")).max()) if tensor.numel() else 0.0
    possible = not distance > ROUGHLY.get(dtype_name(tensor.dtype), 0.0) * output.greatest
    if possible and compare(layer, tensor, output.value.to(tensor.dtype)).passed:
        output.agreed = True
        return
    if owners == {output.module} and (output.own is None or distance < output.own[0]):
        output.own = distance, name
    shared = 0
    for part, other in zip(output.module.split("."), layer.split("."), strict=False):
        if part != other:
            break
        shared += 1
    key = (shared + (output.module in owners), -distance)
    if output.near is None or key > output.near[0]:
        output.near = key, name


def _first_difference(outputs: list[_Output]) -> tuple[_Output, str] | None:
    """The first output that the network should have and does not have, and the name of the tensor nearest to it."""
    last = max((index for index, output in enumerate(outputs) if output.agreed), default=-1)
    for index, output in enumerate(outputs):
        if output.agreed:
            continue
        if output.own is not None:
            return output, output.own[1]
        if output.near is not None and index > last:
            return output, output.near[1]
    return None
