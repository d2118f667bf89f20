"""Tensor: a handle on a TensorRT tensor, with torch's operators and methods.

Every operator is one call into :mod:`trtdsl.functional`, where its arguments are documented. Most methods are those
functions themselves (:mod:`trtdsl.definition.function_methods`); some differ (:mod:`trtdsl.definition.methods`).
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from ..core.dtypes import dtype_name
from ..core.errors import DefinitionError, ShapeError, nearest
from ..core.html import folded, table
from ..core.lazy import F, torch
from ..sizes.shape import Shape, shape_text
from ..sizes.size import SizeLike, product
from .function_methods import OPERATORS, FunctionMethods
from .methods import ConversionMethods, NumpyCalls, ShapeMethods

if TYPE_CHECKING:
    from .network import Network

NAMESAKES = {**OPERATORS, "expit": "sigmoid"}  # torch calls some of its operators otherwise than its functions
# Members of torch.Tensor that a value in a network cannot have, and what to write instead.
NO_VALUE = "has its value when the engine runs: return it from the network"
NO_LAYOUT = "lies in memory where and how TensorRT puts it"
NO_GRADIENT = "has no gradients: a network only runs forward"
ABSENT = {
    **dict.fromkeys(("numpy", "tolist"), NO_VALUE),
    **dict.fromkeys(("data_ptr", "storage", "untyped_storage", "stride", "is_contiguous"), NO_LAYOUT),
    **dict.fromkeys(("grad", "backward", "requires_grad_", "retain_grad", "register_hook"), NO_GRADIENT),
    "copy_": "does not change in place: write y = x, or F.where, F.cat or F.index_put for a part",
    "double": "makes float64, which TensorRT does not have: write x.float()",
    "new_tensor": "makes a constant: write torch.tensor(…), which any function takes beside Tensors",
}
NO_TRUTH = "a Tensor has no truth value while the network is written: use F.where, or td.cond for a branch at run time"
NO_NUMBER = (
    "a Tensor has no one value while the network is written, for Python's int(), float() and math: use the "
    "functions of trtdsl.functional (F.sqrt, F.floor); a size is calculated with //, as h * 3 // 2"
)
OF_MEMORY = {"device", "layout", "pin_memory", "requires_grad", "inplace", "_stacklevel"}  # say nothing of values


class Tensor(FunctionMethods, ShapeMethods, ConversionMethods, NumpyCalls):
    """A value in a network: a result of its graph, which becomes an ITensor when the graph is emitted, or a constant.

    ``shape`` has an int for a static dimension, a :class:`~trtdsl.Size` for a dynamic one; ``dtype`` is torch's.
    A constant has its value in ``data``; operations on constants alone are computed when the network is written.
    """

    __slots__ = (
        "_order",
        "data",
        "dtype",
        "handle",
        "name",
        "network",
        "node",
        "partial",
        "scope",
        "shape",
        "weight_names",
    )
    __hash__ = object.__hash__  # pyright: ignore[reportAssignmentType]

    @classmethod
    def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """torch's functions on Tensors are their namesakes in functional: ``torch.relu(x)``, ``torch_tensor + x``."""
        name = getattr(function, "__name__", str(function))
        plain = name.strip("_")
        for family in ("linalg_", "special_", "fft_"):
            plain = plain if plain == "linalg_norm" else plain.removeprefix(family)
        namesake = getattr(F, NAMESAKES.get(plain, plain), None)
        if namesake is None:
            raise DefinitionError(
                f"torch's own {name} does not take a trtdsl Tensor: dir(trtdsl.functional) lists what there is"
            )
        kwargs = dict(kwargs or {})
        if kwargs.pop("out", None) is not None:
            raise DefinitionError(
                f"torch.{name}(…, out=) writes into a tensor, and a network's do not change: use what it gives"
            )
        in_place = kwargs.get("inplace") or (name == f"{plain}_" and plain != name)
        given = {key: value for key, value in kwargs.items() if key not in OF_MEMORY}
        try:
            inspect.signature(namesake).bind(*args, **given)
        except TypeError as error:
            raise DefinitionError(f"torch's own {name} on a trtdsl Tensor is F.{namesake.__name__}: {error}") from None
        result = namesake(*args, **given)
        changed = args[0] if args else given.get("input")
        return changed._changed_to(result) if in_place and isinstance(changed, Tensor) else result

    def __init__(
        self,
        network: Network,
        shape: Shape,
        dtype: torch.dtype,
        *,
        handle: Any = None,
        data: torch.Tensor | None = None,
        name: str = "",
        scope: str = "",
        weight_names: tuple[str, ...] = (),
        node: Any = None,
    ):
        self.network = network
        self.shape = shape
        self.dtype = dtype
        self.handle = handle
        """The ITensor that there is already; None before the graph was emitted."""
        self._order: tuple[int, ...] | Callable[[], tuple[int, ...]] | None = None
        self.data: Any = data
        self.name = name
        self.scope = scope
        self.weight_names = weight_names
        self.node = node
        """The :class:`~trtdsl.definition.graph.Node` that gives it; None for a constant and for an input."""
        self.partial = False
        """Whether it is, but for what is done to each element, one of an axis, or of the few of one: TensorRT-RTX
        broadcasts these wrongly (docs/traps/builder-broadcast.md)."""

    @property
    def trt(self) -> Any:
        """The ITensor: what the network has so far is emitted; a constant becomes an IConstantLayer the first time."""
        if self.handle is None:
            self.network.graph.emit(self)
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

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if name == "network":
            raise DefinitionError(
                f"this Tensor, {shape_text(self.shape)} {dtype_name(self.dtype)}, was changed in place before (+=, "
                "inplace=True, torch.relu_), which torch does to each name of it, and a network to none: write "
                "x = x + y, and use the new one"
            )
        known = [each for each in dir(type(self)) if not each.startswith("_")]
        if name in ABSENT:
            raise AttributeError(f"a Tensor has no {name!r}: it {ABSENT[name]}")
        if name.endswith("_") and name[:-1] in known and callable(getattr(type(self), name[:-1])):
            hint = f"a network's tensors do not change in place, write x = x.{name[:-1]}(…)"
        elif not name.startswith("_") and hasattr(F, name):
            hint = f"write F.{name}(x, …), of trtdsl.functional"
        else:
            hint = f"dir(trtdsl.functional) lists what there is{nearest(name, known)}"
        raise AttributeError(f"a Tensor has no {name!r}: {hint}")

    def __setitem__(self, index: Any, value: Any) -> None:
        raise DefinitionError(
            "a network's tensors do not change in place: F.where, F.cat, F.index_put, F.scatter and F.masked_fill "
            "give a new one"
        )

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
        return self._value("only a constant has a value while the network is written")

    def _value(self, otherwise: str) -> Any:
        if self.data is None or self.data.numel() != 1:
            raise DefinitionError(otherwise)
        return self.data.item()

    def _changed_to(self, result: Tensor) -> Tensor:
        """The result of a change in place; this Tensor has the value from before, and must not be used any more."""
        if result is not self:
            del self.network  # nothing more is done with it
        return result


def _in_place(function: str) -> Callable[[Tensor, Any], Tensor]:
    return lambda tensor, other: tensor._changed_to(getattr(F, function)(tensor, other))


for _name in ("add", "sub", "mul", "truediv"):
    setattr(Tensor, f"__i{_name}__", _in_place(OPERATORS[_name]))


def weight_names_of(tensors: Iterable[Tensor]) -> tuple[str, ...]:
    """The names of the weights that a constant made from these constants was made from."""
    found: dict[str, None] = {}
    for tensor in tensors:
        for source in tensor.weight_names:
            found[source] = None
    return tuple(found)


@functools.lru_cache(maxsize=1 << 14)
def modules_of(weight_names: tuple[str, ...]) -> frozenset[str]:
    """The modules that have these weights; "" is the network itself."""
    return frozenset(source.rpartition(".")[0] for source in weight_names)


def common_parent(modules: Iterable[str]) -> str:
    """The longest module that holds all these; "" is the whole network."""
    parts = [module.split(".") for module in modules]
    shared: list[str] = []
    for names in zip(*parts, strict=False):
        if len(set(names)) > 1:
            break
        shared.append(names[0])
    return ".".join(shared)
