"""A network as what is in it knows it: its Tensors, the nodes that give them, the author's calls.

Tensor is a handle on a TensorRT tensor, with torch's operators and methods. Every operator is one call into
:mod:`trtdsl.functional`, where its arguments are documented. Most methods are those functions themselves
(:mod:`trtdsl.definition.function_methods`); some differ (:mod:`trtdsl.definition.methods`).
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, ClassVar, NamedTuple, Protocol, TypeVar, Union

from ..core.backend import Backend, Messages
from ..core.errors import DefinitionError, Location, ShapeError, TrtdslError, UnsupportedError, UsageError
from ..core.lazy import CURRENT_NETWORK, F, complexes, np, torch
from ..core.tensors.dense import why_unreadable
from ..core.tensors.exact import Exact
from ..core.tensors.layer_target import LayerTarget
from ..sizes.constraints import Constraints
from ..sizes.shape import Shape, linear, shape_text
from ..sizes.size import Atom, SizeLike, product
from .call import COMPREHENSIONS, Call, author_frame, caller_of
from .common import Dim, as_dtype, dtype_name, folded, table
from .function_methods import OPERATORS, FunctionMethods
from .input import PluginUse
from .methods import NO_ITEM, NO_NUMBER, NO_TRUTH, ConversionMethods, NumpyCalls, Refusals, ShapeMethods
from .tuning.choices import Choices, SiteKey

Operand = Union["Tensor", "torch.Tensor", "np.ndarray", bool, int, float]
R = TypeVar("R")
T = TypeVar("T")
CONTROL_FLOW = {"scan", "while_loop", "cond"}


class swapped(AbstractContextManager[None]):
    """Inside, attributes of a network, a call or another object have these values."""

    def __init__(self, owner: Any, **values: Any):
        self.owner, self.values = owner, values

    def __enter__(self) -> None:
        for name, value in self.values.items():
            self.values[name] = getattr(self.owner, name)
            setattr(self.owner, name, value)

    def __exit__(self, *raised: object) -> None:
        self.__enter__()


def reached(start: Iterable[T], following: Callable[[T], Iterable[T]]) -> set[T]:
    """What it starts with, and all that is reached from there, where ``following`` gives the next ones of each.

    >>> sorted(reached([1], {1: [2, 3], 2: [1], 3: []}.__getitem__))
    [1, 2, 3]
    """
    found: set[T] = set()
    waiting = list(start)
    while waiting:
        each = waiting.pop()
        if each not in found:
            found.add(each)
            waiting += following(each)
    return found


@dataclass(eq=False, slots=True)
class Node:
    """Something that the author's calls need: its operands, its results, its users, and the call that it is for."""

    operation: Operation
    operands: Sequence[Tensor | None]
    results: list[Tensor] = field(default_factory=list, init=False)
    users: list[Node] = field(default_factory=list, init=False)
    is_refused: bool = field(default=False, init=False)
    is_product: ClassVar[bool] = False
    """Whether it is a product with weights."""

    def __post_init__(self) -> None:
        for tensor in self.operands:
            if tensor is not None and tensor.node is not None:
                tensor.node.users.append(self)


class Operation:
    """The author's call that is being lowered: its name, its file and line, and the scope that its layers are named in.

    Entered, it is its network's current operation; an error that leaves it gets its place and the operands' shapes.
    """

    def __init__(
        self,
        network: Draft,
        name: str,
        location: Location | None = None,
        call: tuple[Callable[..., Any], Sequence[Any], Mapping[str, Any]] | None = None,
    ):
        self.network, self.name, self.scope = network, name, network._scope
        frame = author_frame()
        self.location = location or (None if frame is None else Location(frame.f_code.co_filename, frame.f_lineno))
        while frame is not None and frame.f_code.co_name in COMPREHENSIONS:
            frame = frame.f_back  # Python 3.12 has no functions for them
        self.within = "" if frame is None else frame.f_code.co_name
        """The author's function that makes the call."""
        self.caller = caller_of(frame)
        """Where the author calls that function."""
        self.body_of = network.enclosing
        """The call of the loop or the branch whose function makes it; None outside of these."""
        self.precision: torch.dtype | None = None
        """What the calls inside follow of autocast's lists."""
        self.low: torch.dtype | None = None
        """Of a loop or a branch with a precision of its own, what the calls of its functions follow of these lists."""
        self.site: SiteKey | None = None
        """What names it where each call of the network has a precision of its own."""
        self.narrow = ""
        """The narrow dtype that its constant weight gets; "" for none."""
        self.peers: list[Tensor] = []
        """The weights of all linear products in fp8 that take what it takes, which have one scale."""
        self.step = 0.0
        """Of attention in a narrow dtype, the scale of its operands."""
        self._call = call
        self._outer: Any = None  # a stack: the operation that was current before, whether it listens, and the rest

    def __enter__(self) -> Operation:
        network = self.network
        if network.log:
            network.log.check("TensorRT refused a call before this one")
        listens = not network.listens
        if listens:
            network.listens = True
            network.backend.listening.append(network.log)
        self._outer = network.current_operation, listens, self._outer
        self._before = network.regions, len(network.constraints.needed)
        network.current_operation = self
        return self

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        network = self.network
        network.current_operation, listens, self._outer = self._outer
        regions, constraints = self._before
        if listens:
            network.listens = False
            network.backend.listening.pop()
        refused = None
        if network.log:  # what a setter refuses is in TensorRT's log alone
            refused = network.log.refused("TensorRT refuses a change of the network")
            error = error or refused
        if error is not None:  # in a notebook, the network goes on without this call
            network.constraints.take_back(constraints)
            network.graph.take_back(regions)
        if error is not None and isinstance(error, TrtdslError) and error.location is None:
            error.location = self.location
            error.context += self._operands()
        if refused is not None and error is refused:
            raise refused

    def forget(self) -> None:
        """Lets the operands go, once all layers of the call are added."""
        self._call = None

    def call(self) -> Call | None:
        """What a message says of the call later on; None where it has no operands."""
        return None if self._call is None else Call.of(*self._call)

    def _operands(self) -> list[str]:
        """The call, where its function is called from, and its operands' shapes, for a message; empty without both."""
        call = self.call()
        lines = [] if call is None else call.lines()
        here = f"in {self.name}(…){f', from {self.caller.short}' if self.caller is not None else ''}"
        return [here, *lines] if lines or self.caller is not None else []


@dataclass(slots=True)
class LayerFacts:
    """What is known of a layer beyond what TensorRT knows."""

    call: Operation | None = None
    """The author's call that it is part of."""
    weights: tuple[str, ...] = ()
    """The weights (by their names in the state_dict) that it uses."""
    numbers: dict[str, float] = field(default_factory=dict)
    """Its attributes that TensorRT keeps as C floats, as they were given."""
    plugin: PluginUse | None = None
    results: Sequence[Tensor] = ()
    """With their shapes in the author's dimensions, of which TensorRT leaves some open."""

    @property
    def location(self) -> Location | None:
        """The author's place for it."""
        return None if self.call is None else self.call.location


class AddedLayers(dict[str, LayerFacts]):
    """The layers that calls added, by name; nothing is known of one that was added by TensorRT's own API."""

    def __missing__(self, name: str) -> LayerFacts:
        return LayerFacts()


class Recording(Protocol):
    """The graph of a network, :class:`~trtdsl.definition.graph.Graph`, as layers and calls know it."""

    is_quantized: bool
    nodes: list[Any]
    recorded: int
    remarks: list[Any]

    @property
    def is_emitting(self) -> bool: ...
    @property
    def regions(self) -> list[Any]: ...
    def record(self, node: Any) -> None: ...
    def take_name(self, name: str) -> str: ...
    def take_back(self, regions: int) -> None: ...
    def users(self, tensor: Tensor) -> list[Node]: ...
    def is_used_once(self, tensor: Tensor) -> bool: ...
    def remark(self, rule: str, call: Operation, text: str, applied: bool = True) -> None: ...
    def add_output(self, name: str, call: Operation) -> None: ...


class Draft:
    """A network that is being written, as its tensors, calls and layers know it: what a Network is made on."""

    graph: Recording
    emit: Callable[..., None]
    """Adds the layers that are not added yet in their order, and what the Tensors need that it is given."""

    def __init__(self, name: str, backend: Backend):
        self.name, self.backend, self.trt = name, backend, backend.trt
        self.target = LayerTarget(self, backend.create_network())
        self.inputs: dict[str, Tensor] = {}
        self.outputs: dict[str, Tensor] = {}
        self.channels_last: set[str] = set()
        """The inputs and outputs that lie so in memory."""
        self.dims: dict[str, Dim] = {}
        self.precision: torch.dtype | None = None
        """The lowest that it computes in, where that is not float32: it is judged by it."""
        self.policy: Any = None
        """The Policy that says in which dtype each call computes; None where that is its operands'."""
        self.rank, self.ranks = 0, 1
        """Which part it is of a network on several GPUs."""
        self.layers = AddedLayers()
        self.cache: dict[Any, Any] = {}  # what lowerings share within the network: shape tensors, small constants
        self.choices = Choices()
        """Which way each call is lowered that has several."""
        self.has_tensors = False
        """Whether constants were given that have no exact values beside: numbers that may have been rounded before."""
        self.exact: Exact | None = None
        """The exact values of its constants, beside those that TensorRT has; None where nobody needs them."""
        self.fold_limit = 1 << 16  # elements that a folded constant may have in any case
        self.constraints = Constraints()
        self.current_operation: Operation | None = None
        """The author's call that is being lowered."""
        self.enclosing: Operation | None = None
        """The call of the loop or the branch whose function runs."""
        self.log = Messages()
        """What TensorRT has logged of its definition and nobody has looked at."""
        self.listens = False  # whether that is collected now
        self._names: dict[str, int] = {}
        self._scope = ""

    def constant(self, data: Operand | Sequence[Any], dtype: Any = None, *, source: str | None = None) -> Tensor:
        """A constant Tensor; becomes a layer only where a layer needs it as an input.

        ``data`` is a torch tensor, a numpy array, a number or a list of them: Python floats are float32, ints int64.
        ``source`` is the weight's name in the state_dict, for the names of the layers that use it.
        """
        weight_names, given = (source,) if source else (), data
        if isinstance(data, Tensor):
            if dtype is None or as_dtype(dtype) == data.dtype:
                return data
            if not data.is_constant:
                raise UsageError("this Tensor is computed when the network runs: use its .to(dtype)")
            weight_names = data.weight_names
            data = data.data
        if reason := why_unreadable(data):
            raise UnsupportedError(f"no constant is made of {type(data).__name__}: {reason}")
        try:
            tensor = data if isinstance(data, torch.Tensor) else torch.as_tensor(data)
        except (TypeError, ValueError, RuntimeError) as error:  # texts, dates, records, another order of bytes
            raise UnsupportedError(f"no constant is made of {type(data).__name__}: {str(error)[:200]}") from None
        if dtype is not None:
            tensor = tensor.to(as_dtype(dtype))
        if isinstance(given, (torch.Tensor, np.ndarray)):  # the caller may change his own
            self.has_tensors |= tensor.is_floating_point() and (self.exact is None or not self.exact.has(tensor))
            tensor = tensor.clone()
        elif isinstance(data, float):
            tensor = tensor.to(torch.float32)
        if not tensor.is_cpu:
            raise UsageError(f"constants are made from CPU tensors, not from one on {tensor.device}")
        return self.plain_constant(tensor.detach() if tensor.requires_grad else tensor, weight_names)

    def plain_constant(self, data: torch.Tensor, weight_names: tuple[str, ...]) -> Tensor:
        """As :meth:`constant`, of a CPU tensor without history, which is made from the weights ``weight_names``."""
        if data.dtype.is_complex:
            return complexes.complex_constant(self, data, weight_names)
        return Tensor(self, tuple(data.shape), data.dtype, data=data, weight_names=weight_names)

    @contextmanager
    def current(self) -> Iterator[Draft]:
        """Makes this the network of functions that take no Tensor (``F.zeros``, ``F.arange``).

        Raises DefinitionError in the end for what TensorRT refuses by its log alone, of the author's own calls too.
        """
        token = CURRENT_NETWORK.set(self)
        before, self.listens = self.listens, True
        self.backend.listening.append(self.log)
        try:
            yield self
        finally:
            self.backend.listening.pop()
            self.listens = before
            CURRENT_NETWORK.reset(token)
        self.log.check("TensorRT refused a call while the network was defined")

    def authors_code(self) -> AbstractContextManager[None]:
        """Inside, calls are the author's again: of the functions that a control flow is given."""
        return swapped(self, enclosing=self.current_operation, current_operation=None)

    def place_layer(self, operation: str, operands: Sequence[Tensor]) -> tuple[str, str, tuple[str, ...]]:
        """What the name of a layer begins with, its users' scope, and the weights that it uses."""
        weight_names: tuple[str, ...] = ()
        scope = prefix = ""
        for tensor in reversed(operands):
            weight_names += tensor.weight_names
            if tensor.data is None:
                scope = tensor.scope
        owners = modules_of(weight_names)
        if len(owners) == 1:
            (owner,) = owners
            module, _, part = owner.rpartition(".")
            if part not in ("", operation, operation[:-2]):
                prefix = owner  # tcn.2.conv2d, but gcn.conv's is gcn.conv2d
            scope = module if owner else scope
        elif owners:
            scope = common_parent(owners) or scope
        current = self.current_operation  # a loop stands where it is written, whatever it goes along
        inner = "" if current is not None and current.name in CONTROL_FLOW else scope
        scope = (self._scope if current is None else current.scope) or inner
        return prefix or scope, scope, weight_names

    def take_name(self, name: str) -> str:
        """A name that nothing in the network has yet: this one, or with a number."""
        count = self._names.get(name)
        if count is None:
            self._names[name] = 1
            return name
        self._names[name] = count + 1
        return self.take_name(f"{name}_{count}")

    def operation(self, name: str, location: Location | None = None) -> AbstractContextManager[Any]:
        """The author's call that layers are added for; nothing within another one, since the outermost counts."""
        return Operation(self, name, location) if self.current_operation is None else nullcontext()

    def shared(self, key: Any, make: Callable[[], R]) -> R:
        """What lowerings have in common, made by the first of them."""
        if key not in self.cache:
            self.cache[key] = make()
        return self.cache[key]

    @property
    def regions(self) -> int:
        """Loops and branches, all that there are so far."""
        return len(self.graph.regions)

    def place_of(self, dim: Atom) -> tuple[Tensor, int, int, int]:
        """An input and its axis of size ``a * dim + b``, a and b: alone where there is one. ShapeError for none."""
        candidates = [
            (tensor, axis, *solution)
            for tensor in self.inputs.values()
            for axis, size in enumerate(tensor.shape)
            if (solution := linear(size, dim)) is not None
        ]
        if not candidates:
            raise ShapeError(f"no input has the dimension {dim}")
        return min(candidates, key=lambda found: (found[2], abs(found[3])))


@dataclass(eq=False, repr=False, slots=True)
class Tensor(FunctionMethods, ShapeMethods, ConversionMethods, NumpyCalls, Refusals):
    """A value in a network: a result of its graph, which becomes an ITensor when the graph is emitted, or a constant.

    ``shape`` has an int for a static dimension, a :class:`~trtdsl.Size` for a dynamic one; ``dtype`` is torch's.
    A constant has its value in ``data``; operations on constants alone are computed when the network is written.
    """

    network: Draft
    shape: Shape
    dtype: torch.dtype
    _: KW_ONLY
    handle: Any = None
    """The ITensor that there is already; None before the graph was emitted."""
    data: Any = None
    name: str = ""
    scope: str = ""
    weight_names: tuple[str, ...] = ()
    node: Any = None
    """The :class:`Node` that gives it; None for a constant and for an input."""
    partial: bool = field(default=False, init=False)
    """Whether it is, but for what is done to each element, one of an axis, or of the few of one: TensorRT-RTX
    broadcasts these wrongly (docs/traps/builder-broadcast.md)."""
    _order: tuple[int, ...] | Callable[[], tuple[int, ...]] | None = field(default=None, init=False)
    __hash__ = object.__hash__  # pyright: ignore[reportAssignmentType]

    @property
    def trt(self) -> Any:
        """The ITensor: what the network has so far is emitted; a constant becomes an IConstantLayer the first time."""
        if self.handle is None:
            self.network.emit(self)
        return self.handle

    @property
    def order(self) -> tuple[int, ...]:
        """The dimensions from the slowest to the fastest in memory, as the builder is expected to lay them out.

        ``(0, 2, 3, 1)`` is channels last, which convolutions write; elementwise layers keep their operand's order, a
        shuffle permutes it (docs/einsum.md).
        """
        order = self._order
        if not isinstance(order, tuple):
            follow = order or getattr(self.node, "order", None)
            self._order = order = tuple(range(len(self.shape))) if follow is None else follow()
        return order

    @order.setter
    def order(self, order: tuple[int, ...] | Callable[[], tuple[int, ...]] | None) -> None:
        self._order = order

    @property
    def is_constant(self) -> bool:
        """Whether the value is known while the network is written."""
        return self.data is not None

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    def dim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    def numel(self) -> SizeLike:
        """The number of elements."""
        return product(self.shape)

    def size(self, dim: int | None = None) -> Any:
        """The shape, or the size of one dimension."""
        return self.shape if dim is None else self.shape[dim]

    def is_floating_point(self) -> bool:
        """Whether the dtype is a floating-point one."""
        return self.dtype.is_floating_point

    is_nested = is_sparse = is_quantized = is_cuda = requires_grad = False  # which torch's modules ask for

    @property
    def device(self) -> torch.device:
        """Where constants are made: the CPU. An engine places its values itself."""
        return torch.device("cpu")

    def __repr__(self) -> str:
        kind = "constant" if self.is_constant else self.name
        return f"Tensor({kind}: {shape_text(self.shape)} {dtype_name(self.dtype)})"

    def _repr_html_(self) -> str:
        line = "" if self.node is None or self.node.operation.location is None else self.node.operation.location
        facts = {"scope": self.scope, "weights": ", ".join(self.weight_names), "line": line}
        return folded(repr(self), table(["", ""], [(name, fact) for name, fact in facts.items() if fact]))

    def __len__(self) -> int:
        if not self.shape:
            raise ShapeError("len() of a Tensor without dimensions")
        if not isinstance(self.shape[0], int):
            raise ShapeError(
                f"the first dimension {self.shape[0]} is dynamic, and len() gives an int: write "
                "x.shape[0], a size that can be calculated with"
            )
        return self.shape[0]

    def __iter__(self) -> Any:
        if self.shape and not isinstance(self.shape[0], int):
            raise ShapeError(
                f"a loop over a Tensor is unrolled, and its first dimension, {self.shape[0]}, is dynamic: write the "
                "calculation for all of it at once, or td.scan for one step after the other"
            )
        return iter(F.unbind(self))

    def __bool__(self) -> bool:
        return bool(self._value(NO_TRUTH))

    def __float__(self) -> float:
        return float(self._value(NO_NUMBER))

    def __int__(self) -> int:
        return int(self._value(NO_NUMBER))

    def item(self) -> Any:
        """The value of a constant with one element."""
        return self._value(NO_ITEM)

    def _value(self, otherwise: str) -> Any:
        if self.data is None or self.data.numel() != 1:
            raise NoValueError(otherwise)
        return self.data.item()


def _in_place(function: str) -> Callable[[Tensor, Any], Tensor]:
    return lambda tensor, other: tensor._changed_to(getattr(F, function)(tensor, other))


for _name in ("add", "sub", "mul", "truediv"):
    setattr(Tensor, f"__i{_name}__", _in_place(OPERATORS[_name]))


class NoValueError(DefinitionError):
    """A Tensor where Python asks for its value: where an argument is of another type, the call says so instead."""


class Extremes(NamedTuple):
    """What :func:`aminmax` gives."""

    min: Tensor
    max: Tensor


class Selected(NamedTuple):
    """Values and where they were, as :func:`max`, :func:`sort` and :func:`topk` give them."""

    values: Tensor
    indices: Tensor


def weight_names_of(tensors: Iterable[Tensor]) -> tuple[str, ...]:
    """The names of the weights that a constant made from these constants was made from."""
    return tuple(dict.fromkeys(source for tensor in tensors for source in tensor.weight_names))


@functools.lru_cache(maxsize=1 << 14)
def modules_of(weight_names: tuple[str, ...]) -> frozenset[str]:
    """The modules that have these weights; "" is the network itself."""
    return frozenset(source.rpartition(".")[0] for source in weight_names)


def common_parent(modules: Iterable[str]) -> str:
    """The longest module that holds all these; "" is the whole network."""
    names = zip(*(module.split(".") for module in modules), strict=False)
    return ".".join(each[0] for each in itertools.takewhile(lambda each: len({*each}) == 1, names))
