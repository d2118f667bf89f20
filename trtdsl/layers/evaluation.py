"""Reading a layer back from an INetworkDefinition, and the registry of what evaluates each type.

A family file registers the evaluator of a layer type, and its cost, under :func:`evaluates`; the interpreter, which
knows no layer type, finds both through :func:`kind`.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Union

from ..core.backend import Backend
from ..core.dtypes import dtype_name
from ..core.errors import UnsupportedError
from ..core.lazy import torch
from ..core.tensors.exact import unrounded

Evaluate = Callable[..., Any]  # torch tensors in (None for an absent input), a tensor or a tuple of them out
Given = Union["torch.Tensor", None]
"""The value of an operand that may be absent."""

OTHER_NAMES = {"CONDITIONAL_INPUT": "IF_CONDITIONAL_INPUT", "CONDITIONAL_OUTPUT": "IF_CONDITIONAL_OUTPUT"}


def class_name(type: str, names: Iterable[str]) -> str | None:
    """The name among ``names`` of TensorRT's class for a layer type; None where there is none.

    >>> class_name("TOPK", ["ITensor", "ITopKLayer"]), class_name("CONDITIONAL_INPUT", ["IIfConditionalInputLayer"])
    ('ITopKLayer', 'IIfConditionalInputLayer')
    """
    wanted = f"I{OTHER_NAMES.get(type, type).replace('_', '')}Layer".lower()
    return next((name for name in names if name.lower() == wanted), None)


def given_dims(dims: Any) -> tuple[int, ...] | None:
    """TensorRT's Dims of a layer, None where they are not given: TensorRT-RTX 1.4 and 1.5 say so by a length of -1."""
    try:
        return None if dims is None else tuple(dims)
    except ValueError:
        return None


def storage(dtype: torch.dtype) -> torch.dtype:
    """The dtype in which an evaluator keeps values of ``dtype``: int4 unpacked as int8, and fp4 as float32."""
    return {"int4": torch.int8, "float4_e2m1fn_x2": torch.float32}.get(dtype_name(dtype), dtype)


@functools.cache
def _type_and_class(trt: Any, member: Any) -> tuple[str, Any]:
    type: str = member.name
    name = class_name(type, dir(trt))
    return type, None if name is None else getattr(trt, name)


class Node:
    """One layer read back from an INetworkDefinition: its own class, inputs and outputs.

    ``layer`` has TensorRT's class for its type, so that the attributes can be read; ``type`` is the LayerType's name.
    """

    def __init__(self, backend: Backend, layer: Any):
        self.backend = backend
        # The base class's property: activation and pooling layers have a `type` of their own.
        self.type, cls = _type_and_class(backend.trt, backend.trt.ILayer.type.fget(layer))
        if cls is not None:
            layer.__class__ = cls
        self.layer, self.name = layer, str(layer.name)
        self.inputs = [layer.get_input(index) for index in range(layer.num_inputs)]
        self.outputs = [layer.get_output(index) for index in range(layer.num_outputs)]
        self.needs: list[str] = [tensor.name for tensor in self.inputs if tensor is not None]
        """The names of the inputs that are there."""
        self.makes: list[str] = [tensor.name for tensor in self.outputs]
        """The names of the outputs."""
        self.given: Evaluate | None = None
        """The evaluator that the author gave for this one layer, a plugin's."""
        self.numbers: Mapping[str, float] = {}
        """Attributes that TensorRT keeps as C floats, as they were given: :meth:`number`."""
        self.fixed: Collection[str] = ()
        """The names of tensors that are constants, or computed from constants alone."""

    @property
    def trt(self) -> Any:
        return self.backend.trt

    @functools.cached_property
    def dtype(self) -> torch.dtype:
        """torch's dtype of the first output's value, as TensorRT infers it."""
        return self.output_dtype(0)

    @functools.cached_property
    def logical_dtype(self) -> torch.dtype:
        """As :attr:`dtype`, but int4 and fp4 as themselves."""
        return self.backend.torch_dtype(self.outputs[0].dtype)

    def output_dtype(self, index: int) -> torch.dtype:
        """torch's dtype of an output's value."""
        return storage(self.backend.torch_dtype(self.outputs[index].dtype))

    def input_dtype(self, index: int = 0) -> torch.dtype:
        """torch's dtype of an input's value."""
        return storage(self.backend.torch_dtype(self.inputs[index].dtype))

    def has_input(self, index: int) -> bool:
        """Whether the optional input is there."""
        return index < len(self.inputs) and self.inputs[index] is not None

    def number(self, name: str) -> float:
        """An attribute that TensorRT keeps as a C float: as it was given, if it is still that."""
        return unrounded(getattr(self.layer, name), self.numbers.get(name))

    def known(self, member: Any, names: Collection[str], what: str) -> str:
        """The name of an enum's member; UnsupportedError for one that is not among ``names``."""
        if member.name not in names:
            raise self.unsupported(f"{what} {member.name}")
        return member.name

    def unsupported(self, what: str) -> UnsupportedError:
        """The error for an attribute that the evaluator cannot honour."""
        return UnsupportedError(f"layer {self.name!r} ({self.type}): {what} cannot be interpreted")


def read_nodes(backend: Backend, definition: Any) -> list[Node]:
    """The layers of an INetworkDefinition, as they were added."""
    return [Node(backend, definition.get_layer(index)) for index in range(definition.num_layers)]


@dataclass(frozen=True)
class Shapes:
    """Concrete shapes of a layer's inputs and outputs, from which its cost is computed."""

    inputs: list[Any]
    """None for an input that is absent."""
    outputs: list[tuple[int, ...]]

    @property
    def elements(self) -> int:
        """The elements of the first output."""
        return count(self.outputs[0]) if self.outputs else 0


def count(shape: Sequence[int] | None) -> int:
    """The number of elements of a shape; 0 for an absent tensor."""
    return 0 if shape is None else math.prod(shape)


@dataclass(frozen=True)
class Mistakes:
    """What an author may write for another in a layer of one type, and a mutation test changes."""

    members: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """For each attribute that is a member of an enum, the member that each may be confused with."""
    flags: tuple[str, ...] = ()
    """Attributes that are true or false."""
    numbers: Mapping[str, Callable[[float], float]] = field(default_factory=dict)
    """Attributes that are numbers, and another one for each."""
    axes: bool = False
    """Whether ``axes`` has the dimensions that the layer works over."""
    windows: bool = False
    """Whether the layer has windows with padding."""
    left_out: bool = False
    """Whether its operand could stand in its place."""
    instead: Mapping[str, Callable[[Node], Evaluate | None]] = field(default_factory=dict)
    """By its name, what computes something else: for a layer a function of its evaluator and its operands, or None."""
    uses: Callable[[Any, str], bool] = lambda layer, attribute: True
    """Whether a layer of this kind uses an attribute: one that it does not use cannot be mistaken."""


@dataclass(frozen=True)
class Kind:
    """What trtdsl knows of a layer type: how it is evaluated, what it costs, and what sort of layer it is."""

    type: str
    prepare: Callable[[Node], Evaluate]
    flops: Callable[[Node, Shapes], int]
    moves: bool | Callable[[Node], bool]
    """Whether it moves data; a reshape does not."""
    unbuilt: Callable[[Node], str | None] = lambda node: None
    """Why a TensorRT that builds without a GPU cannot build the layer there, and what to write instead; else None."""
    category: str = "other"
    """What the view calls it."""
    settings: bool = False
    """Whether the operands behind the first say what the layer does, and are not data."""
    carries_sizes: bool = False
    """Whether it computes with sizes where all its operands are sizes or constants."""
    computes: bool = True
    """Whether its result has other numbers than its operands."""
    weights: Mapping[str, str] = field(default_factory=dict)
    """The attributes that keep weights, each with the role by which an engine takes others; "" where it takes none."""
    fp8: str = ""
    """Whether builders let it take a tensor of fp8 ("takes"), a quantized constant ("constants"), and give fp8
    ("gives"), by their own messages."""
    mistakes: Mistakes = Mistakes()


KINDS: dict[str, Kind] = {}


def evaluates(
    type: str,
    *,
    flops: Callable[[Node, Shapes], int] | int = 0,
    moves: bool | Callable[[Node], bool] = True,
    unbuilt: Callable[[Node], str | None] | str | None = None,
    wide: bool = False,
    **facts: Any,
) -> Callable[[Callable[[Node], Evaluate]], Callable[[Node], Evaluate]]:
    """Registers the evaluator of a layer type.

    The decorated ``prepare(node)`` reads the layer's attributes once and gives a function from input tensors to the
    output tensor(s). ``flops`` is a number per element of the first output, or a function of the node and its shapes.
    ``unbuilt`` says why, and which nodes, TensorRT-RTX cannot build without a GPU, with the alternative.
    Where it is ``wide``, the function of a layer of a half type gets float32 and gives what is rounded once. ``facts``
    are others of :class:`Kind`.
    """

    def register(prepare: Callable[[Node], Evaluate]) -> Callable[[Node], Evaluate]:
        if type in KINDS:
            raise AssertionError(f"two evaluators for {type}")
        cost = flops if callable(flops) else lambda node, shapes, each=flops: each * shapes.elements
        refusal = unbuilt if callable(unbuilt) else lambda node, reason=unbuilt: reason
        KINDS[type] = Kind(type, _rounded_once(prepare) if wide else prepare, cost, moves, refusal, **facts)
        return prepare

    return register


def computes(type: str, *, known: Mapping[str, Collection[str]] = {}, **facts: Any) -> Callable[[Evaluate], Evaluate]:
    """As :func:`evaluates`, of a function of the node and its input tensors, which reads the attributes in each run.

    ``known`` are the members that the function knows, by attribute: of others, the layer is refused before any runs.
    """

    def register(evaluate: Evaluate) -> Evaluate:
        @functools.wraps(evaluate)
        def prepare(node: Node) -> Evaluate:
            for name, names in known.items():
                node.known(getattr(node.layer, name), names, name.replace("_", " "))
            return functools.partial(evaluate, node)

        evaluates(type, **facts)(prepare)
        return evaluate

    return register


def is_half(x: torch.Tensor) -> bool:
    """Whether a value is of one of the half types."""
    return x.dtype in (torch.float16, torch.bfloat16)


def widened(fixed: bool) -> Callable[[Given], Given]:
    """A function that gives values of half types in float32, and others as they are.

    Where they are ``fixed``, the value of one that comes again is kept: a product's weights, in a loop above all.
    """
    last: Given = None
    kept: Given = None

    def widen(x: Given) -> Given:
        nonlocal last, kept
        if x is None or not is_half(x):
            return x
        if not fixed or torch._C._len_torch_dispatch_stack():  # another value is computed beside it
            return x.float()
        if x is not last:
            last, kept = x, None
            return x.float()
        kept = x.float() if kept is None else kept
        return kept

    return widen


def _rounded_once(prepare: Callable[[Node], Evaluate]) -> Callable[[Node], Evaluate]:
    @functools.wraps(prepare)
    def prepared(node: Node) -> Evaluate:
        evaluate, dtype, half = prepare(node), node.dtype, (torch.float16, torch.bfloat16)
        operands = (node.backend.torch_dtype(each.dtype) for each in node.inputs if each is not None)
        if not any(each in half for each in (dtype, *operands)):
            return evaluate
        wide = [widened(each is not None and each.name in node.fixed) for each in node.inputs]
        return lambda *xs: evaluate(*(widen(x) for widen, x in zip(wide, xs, strict=False))).to(dtype)

    return prepared


def kind(node: Node) -> Kind:
    """The node's Kind; UnsupportedError naming the layer for a type that the interpreter does not know."""
    if node.type not in KINDS:
        raise UnsupportedError(f"layer {node.name!r} has type {node.type}, which the interpreter does not know")
    return KINDS[node.type]


@dataclass(frozen=True)
class Meeting:
    """The evaluator of a layer that all ranks reach together: each one's result, of all their operands in order."""

    ranks: int
    together: Callable[[list[torch.Tensor]], list[torch.Tensor]]

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        raise UnsupportedError(
            f"the network is one of {self.ranks} ranks, which are evaluated together: make it by a function of its "
            "file that takes rank and ranks, and td.load_spec finds the others"
        )


def weights_of(node: Node) -> Mapping[str, str]:
    """The attributes in which a layer keeps weights: :attr:`Kind.weights`."""
    return KINDS[node.type].weights if node.type in KINDS else {}


def compact(x: torch.Tensor) -> torch.Tensor:
    """A view that holds less than a quarter of its memory as a copy, so that the rest can be freed."""
    return x.clone() if 4 * x.numel() * x.itemsize < x.untyped_storage().nbytes() else x
