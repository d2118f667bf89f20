"""The author's call: which network it is for, where it stands, and what it puts on the layers and errors below it."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Any, NamedTuple, ParamSpec, TypeVar

from ..core.dtypes import dtype_name
from ..core.errors import PACKAGE, Location, TrtdslError, UsageError
from ..core.lazy import np, torch
from .precision import COMPOSED, follow
from .shape import shape_text
from .tensor import Tensor

if TYPE_CHECKING:
    from .network import Network

P = ParamSpec("P")
R = TypeVar("R")

CURRENT_NETWORK: ContextVar[Network | None] = ContextVar("trtdsl_network", default=None)
"""The network of functions that take no Tensor."""

_AS_IT_IS = (Tensor, int, str, float, type(None))


class Operation(NamedTuple):
    """The author's call that is being lowered: its name, and where it stands."""

    name: str
    location: Location | None


def operation(function: Callable[P, R]) -> Callable[P, R]:
    """Marks a public function of a floor: finds its network, names its layers, and puts facts on its errors."""

    floor = ".functional." in function.__module__  # the layers floor takes dtypes as they are
    label = function.__name__.rstrip("_")
    lowered: Callable[..., R] = function

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        network = args[0].network if args and isinstance(args[0], Tensor) else find_network(args, kwargs)
        if network is None:
            return function(*args, **kwargs)
        if network._operation is not None:  # the outermost call names the layers
            if floor and network.precision is not None and network._operation.name in COMPOSED:
                return _in_precision(network, function, args, kwargs)
            return function(*args, **kwargs)
        location = author_location()
        network._operation = Operation(label, location)
        try:
            arguments = [given if isinstance(given, _AS_IT_IS) else _operand(network, given) for given in args]
            options = {name: _operand(network, given) for name, given in kwargs.items()} if kwargs else kwargs
            if floor and network.precision is not None:
                return _in_precision(network, function, arguments, options)
            return lowered(*arguments, **options)
        except TrtdslError as error:
            if error.location is None:
                error.location = location
                error.context += _operand_lines(label, {**_named(function.__code__, args), **kwargs})
            raise
        finally:
            network._operation = None

    return call


def _named(code: CodeType, args: Sequence[Any]) -> dict[str, Any]:
    """Positional arguments by their names; those of ``*operands`` under that name, as a tuple."""
    names = code.co_varnames[: code.co_argcount]
    named = dict(zip(names, args, strict=False))
    if len(args) > len(names):
        named[code.co_varnames[code.co_argcount + code.co_kwonlyargcount]] = tuple(args[len(names) :])
    return named


def _in_precision(network: Network, function: Callable[..., R], args: Any, kwargs: Any) -> R:
    """The function in the dtype that autocast's lists give it; within it, dtypes stay as they are."""
    low = network.precision
    followed = None if low is None else follow(function.__name__, low, args, kwargs)
    if followed is None:
        return function(*args, **kwargs)
    network.precision = None
    try:
        return function(*followed[0], **followed[1])
    finally:
        network.precision = low


def _operand(network: Network, argument: Any) -> Any:
    """torch tensors and numpy arrays, also in a list, become constants; anything else stays what it is."""
    if isinstance(argument, _AS_IT_IS):
        return argument
    arrays = (torch.Tensor, np.ndarray)
    if isinstance(argument, arrays):
        return network.constant(argument)
    if type(argument) in (list, tuple):
        for item in argument:
            if isinstance(item, arrays):
                return type(argument)(_operand(network, item) for item in argument)
    return argument


def find_network(args: Sequence[Any], kwargs: Mapping[str, Any] | None = None) -> Network | None:
    """The network of the Tensors among the arguments, else the current one, else None."""
    for argument in (*args, *kwargs.values()) if kwargs else args:
        if isinstance(argument, Tensor):
            return argument.network
        if isinstance(argument, (list, tuple)):
            for item in argument:
                if isinstance(item, Tensor):
                    return item.network
    return CURRENT_NETWORK.get()


def require_network(*args: Any) -> Network:
    """As :func:`find_network`; UsageError where there is none."""
    network = find_network(args)
    if network is None:
        raise UsageError(
            "no network here: call this from a @td.network function, with a Tensor, or inside `with net.current():`",
            location=author_location(),
        )
    return network


def author_location() -> Location | None:
    """The author's place: the first frame outside trtdsl."""
    frame: FrameType | None = sys._getframe(2)  # trtdsl's own functions call this one
    while frame is not None:
        file = frame.f_code.co_filename
        if not _is_passed(file):
            return Location(file, frame.f_lineno)
        frame = frame.f_back
    return None


@functools.lru_cache(maxsize=1024)
def _is_passed(file: str) -> bool:
    """Whether a frame of this file stands between the author's code and the layers."""
    return file.startswith(PACKAGE) or file.endswith(("contextlib.py", "functools.py"))


def _operand_lines(name: str, arguments: Mapping[str, Any]) -> list[str]:
    lines = [
        f"{label}: {shape_text(tensor.shape)} {dtype_name(tensor.dtype)}"
        for argument, given in arguments.items()
        for label, tensor in _labelled(argument, given)
    ]
    return [f"in {name}(…)", *lines] if lines else []


def _labelled(label: str, given: Any) -> Iterator[tuple[str, Tensor]]:
    """The Tensors in an argument, with where they stand in it."""
    if isinstance(given, Tensor):
        yield label, given
    elif isinstance(given, (list, tuple)):
        for index, item in enumerate(given):
            yield from _labelled(f"{label}[{index}]", item)
