"""The author's call: its network, its file and line, and what layers and errors inside it get from it."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import FrameType
from typing import TYPE_CHECKING, Any, NamedTuple, ParamSpec, TypeVar

from ..core.dtypes import dtype_name
from ..core.errors import PACKAGE, DefinitionError, Location, TrtdslError, UsageError, nearest
from ..core.lazy import CURRENT_NETWORK, np, torch
from ..sizes.shape import Shape, shape_text
from ..sizes.size import SizeLike
from .precision import COMPOSED, follow
from .tensor import Tensor
from .tuning.choices import SiteKey

if TYPE_CHECKING:
    from .network import Network

P = ParamSpec("P")
R = TypeVar("R")

NUMPYS_NAMES = {"axis": "dim", "keepdims": "keepdim", "x": "input", "a": "input", "x1": "input", "x2": "other"}
"""numpy's names of arguments that torch's own functions take for theirs, as ``torch.sum(x, axis=1)`` does."""

COMPREHENSIONS = ("<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>")
PAIRS: dict[type, Callable[[str, Sequence[Any], Mapping[str, Any]], Any]] = {}
"""What a function gives of a value that is a pair of Tensors, by its type; NotImplemented where it takes it itself."""

_UNCHANGED = (Tensor, int, str, float, type(None))  # types that never become constants


class Operand(NamedTuple):
    """What a message says of an operand."""

    shape: Shape
    dtype: Any

    def __str__(self) -> str:
        return f"{shape_text(self.shape)} {dtype_name(self.dtype)}"


class Call(NamedTuple):
    """The author's call without the values of its operands, for a message."""

    function: Callable[..., Any]
    args: Sequence[Any]
    kwargs: Mapping[str, Any]

    def operands(self) -> list[tuple[str, Operand]]:
        """The operands with the names of their arguments: ``tensors[1]``."""
        given = inspect.signature(self.function).bind_partial(*self.args, **self.kwargs).arguments
        return [found for argument, value in given.items() for found in _labelled(argument, value)]

    def lines(self, *sizes: SizeLike) -> list[str]:
        """A line for each operand; it says which of its dimensions has one of the ``sizes`` that are in question."""
        texts, lines = list(map(str, sizes)), []
        for label, operand in self.operands():
            found = [(axis, text) for axis, text in enumerate(map(str, operand.shape)) if text in texts]
            note = f", dimension {found[0][0]} is {found[0][1]}" if len(found) == 1 and operand.shape[1:] else ""
            lines.append(f"{label}: {operand}{note}")
        return lines


class Operation:
    """The author's call that is being lowered: its name, its file and line, and the scope that its layers are named in.

    Entered, it is its network's current operation; an error that leaves it gets its place and the operands' shapes.
    """

    __slots__ = (
        *("_before", "_call", "_outer", "location", "name"),
        *("network", "narrow", "precision", "scope", "site", "within"),
    )

    def __init__(
        self,
        network: Network,
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
        self.precision = network.policy.autocast if network.policy is not None and name in COMPOSED else None
        """What the calls inside follow of autocast's lists."""
        self.site: SiteKey | None = None
        """What names it where each call of the network has a precision of its own."""
        self.narrow = ""
        """The narrow dtype that its constant weight gets; "" for none."""
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
        self._before = len(network.graph.regions), len(network.constraints.needed)
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
            for region in network.graph.regions[regions : regions + 1]:
                network.graph.take_back(region)
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
        if self._call is None:
            return None
        function, args, kwargs = self._call
        return Call(function, list(map(_seen, args)), {name: _seen(given) for name, given in kwargs.items()})

    def _operands(self) -> list[str]:
        """The call with the shapes of its operands, for a message; empty where it has none."""
        call = self.call()
        lines = [] if call is None else call.lines()
        return [f"in {self.name}(…)", *lines] if lines else []


def _seen(given: Any) -> Any:
    """An argument with the shape and the dtype of a tensor in its place."""
    if isinstance(given, Tensor):
        return Operand(given.shape, given.dtype)
    if isinstance(given, (list, tuple)):
        return list(map(_seen, given))
    if isinstance(given, (torch.Tensor, np.ndarray)):
        return Operand(tuple(given.shape), given.dtype if isinstance(given, torch.Tensor) else str(given.dtype))
    return given


def operation(function: Callable[P, R]) -> Callable[P, R]:
    """Marks a public function of a floor: the outermost call of one is the network's current :class:`Operation`."""

    follows = ".functional." in function.__module__  # the layers floor takes dtypes as they are
    label = function.__name__.rstrip("_")

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        if kwargs and follows and (names := _names(function)) is not None and not names.issuperset(kwargs):
            kwargs = _as_torch_names(function, names, kwargs)  # type: ignore[assignment]
        if follows and (of_pairs := next((PAIRS[type(each)] for each in args[:2] if type(each) in PAIRS), None)):
            result = of_pairs(label, args, kwargs)
            if result is not NotImplemented:
                return result
        network = args[0].network if args and isinstance(args[0], Tensor) else find_network(args, kwargs)
        current = None if network is None else network.current_operation
        if current is not None:  # the call of a lowering: the author's call names the layers
            if follows and current.precision is not None:
                return _in_precision(current, current.precision, function, args, kwargs)
            return function(*args, **kwargs)
        arguments, options = args, kwargs
        try:
            if network is None:
                return function(*args, **kwargs)
            with Operation(network, label, None, (function, args, kwargs)) as current:
                arguments = [given if isinstance(given, _UNCHANGED) else _operand(network, given) for given in args]
                options = {name: _operand(network, given) for name, given in kwargs.items()} if kwargs else kwargs
                if follows and network.policy is not None:
                    arguments, options = network.policy.cast(current, function, arguments, options)
                return function(*arguments, **options)  # pyright: ignore[reportCallIssue]
        except AttributeError:
            _refuse_others_than_tensors(function, arguments, options)
            raise
        except TypeError:
            if wrong := _not_bound(function, args, kwargs, follows):
                raise TypeError(wrong) from None
            raise

    return call


def _refuse_others_than_tensors(function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    """DefinitionError where a number, a tuple or the like was given for a Tensor."""
    for name, given in inspect.signature(function).bind_partial(*args, **kwargs).arguments.items():
        if function.__annotations__.get(name) == "Tensor" and not isinstance(given, Tensor):
            text = f"F.{function.__name__} takes a Tensor as {name!r}, not {type(given).__name__}: {given!r:.60}"
            raise DefinitionError(text, location=author_location())


def _not_bound(
    function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], follows: bool
) -> str | None:
    """How a call's arguments are not the function's, with those that it takes; None where they are."""
    signature = inspect.signature(function)
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        taken = ", ".join(str(each.replace(annotation=each.empty)) for each in signature.parameters.values())
        return f"{'F' if follows else 'L'}.{function.__name__}(): {error}; it takes ({taken})"
    return None


@functools.cache
def _names(function: Callable[..., Any]) -> frozenset[str] | None:
    """The names of a function's parameters; None where it takes any."""
    parameters = inspect.signature(function).parameters
    takes_any = any(each.kind is each.VAR_KEYWORD for each in parameters.values())
    return None if takes_any else frozenset(parameters)


def _as_torch_names(function: Callable[..., Any], names: frozenset[str], given: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments under torch's names; TypeError, with the nearest, for one that the function does not take."""
    found = {}
    for name, value in given.items():
        ours = name if name in names else NUMPYS_NAMES.get(name, name)
        if ours not in names or (ours != name and ours in given):
            known = ", ".join(inspect.signature(function).parameters)
            raise TypeError(f"F.{function.__name__} takes no argument {name!r}{nearest(name, names)}: it has {known}")
        found[ours] = value
    return found


def _in_precision(operation: Operation, low: torch.dtype, function: Callable[..., R], args: Any, kwargs: Any) -> R:
    """The function in the dtype that autocast's lists give it; within it, dtypes stay as they are."""
    followed = follow(function.__name__, low, args, kwargs)
    if followed is None:
        return function(*args, **kwargs)
    before, operation.precision = operation.precision, None
    try:
        return function(*followed[0], **followed[1])
    finally:
        operation.precision = before


def _operand(network: Network, argument: Any) -> Any:
    """torch tensors and numpy arrays become constants and numpy's numbers Python's, also in a list; else unchanged."""
    if isinstance(argument, _UNCHANGED):
        return argument
    if isinstance(argument, (torch.Tensor, np.ndarray)):
        return network.constant(argument)
    if isinstance(argument, np.generic):
        return argument.item()
    if type(argument) in (list, tuple):
        for item in argument:
            if isinstance(item, (torch.Tensor, np.ndarray, np.generic)):
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
    frame = author_frame()
    return None if frame is None else Location(frame.f_code.co_filename, frame.f_lineno)


def author_frame() -> FrameType | None:
    """The first frame outside trtdsl."""
    frame: FrameType | None = sys._getframe(2)  # trtdsl's own functions call this one
    while frame is not None:
        if not _is_passed(frame.f_code.co_filename):
            return frame
        frame = frame.f_back
    return None


@functools.lru_cache(maxsize=1024)
def _is_passed(file: str) -> bool:
    """Whether a frame of this file stands between the author's code and the layers."""
    return file.startswith(PACKAGE) or file.endswith(("contextlib.py", "functools.py"))


def _labelled(label: str, given: Any) -> Iterator[tuple[str, Operand]]:
    """The operands in an argument, each with its place: ``tensors[1]``."""
    if isinstance(given, Operand):
        yield label, given
    elif isinstance(given, (list, tuple)):
        for index, item in enumerate(given):
            yield from _labelled(f"{label}[{index}]", item)
