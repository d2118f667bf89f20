"""What makes a function one that the author calls: its network is found, and its arguments become what it takes. And
``td.require``: sizes that a network serves, beyond the ranges of its dimensions."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from numbers import Real
from typing import Any, ParamSpec, TypeVar

from ..core.errors import ShapeError, located
from ..sizes.condition import Condition
from ..sizes.dim import TensorDim
from .call import author_location as author_location
from .common import CURRENT_NETWORK, DefinitionError, Size, UsageError, nearest, np, torch
from .precision import follow
from .tensor import Draft, NoValueError, Operation, Tensor, swapped

P = ParamSpec("P")
R = TypeVar("R")

NUMPYS_NAMES = {"axis": "dim", "keepdims": "keepdim", "x": "input", "a": "input", "x1": "input", "x2": "other"}
"""numpy's names of arguments that torch's own functions take for theirs, as ``torch.sum(x, axis=1)`` does."""

PAIRS: dict[type, Callable[[str, Sequence[Any], Mapping[str, Any]], Any]] = {}
"""What a function gives of a value that is a pair of Tensors, by its type; NotImplemented where it takes it itself."""

_TYPES = {"Tensor": Tensor, "SizeLike": (int, Size), "int": (int, Size), "float": Real, "str": str, "None": type(None)}
_ALIASES = {
    "Window": "SizeLike | Sequence[SizeLike]",
    "Sizes": "int | Sequence[int]",
    "Dims": "int | Sequence[int] | None",
}
_UNCHANGED = (Tensor, int, str, float, type(None))  # types that never become constants


def operation(function: Callable[P, R]) -> Callable[P, R]:
    """Marks a public function of a floor: the outermost call of one is the network's current :class:`Operation`."""
    follows = ".functional." in function.__module__  # the layers floor takes dtypes as they are
    label = function.__name__.rstrip("_")

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        if kwargs and follows and (names := _names(function)) is not None and not names.issuperset(kwargs):
            kwargs = _as_torch_names(function, names, kwargs)  # type: ignore[assignment]
        if follows and PAIRS and (of_pairs := _of_pairs(args[:3])) is not None:
            result = of_pairs(label, args, kwargs)
            if result is not NotImplemented:
                return result
        network = args[0].network if args and isinstance(args[0], Tensor) else find_network(args, kwargs)
        current = None if network is None else network.current_operation
        if current is not None:  # the call of a lowering: the author's call names the layers
            low = current.precision if follows else None
            followed = None if low is None else follow(function.__name__, low, args, kwargs)
            if followed is None:
                return function(*args, **kwargs)
            with swapped(current, precision=None):  # within it, dtypes stay as they are
                return function(*followed[0], **followed[1])  # pyright: ignore[reportCallIssue]
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
        except (AttributeError, TypeError, NoValueError) as error:
            if isinstance(error, TypeError) and (wrong := _not_bound(function, args, kwargs, follows)):
                raise TypeError(wrong) from None
            _refuse_other_types(function, arguments, options)
            if isinstance(error, NoValueError) or any(map(callable, (*args, *kwargs.values()))):
                raise  # it may be of a function of the author's
            given = [f"{each!r:.60}" for each in args[1:]] + [f"{name}={each!r:.60}" for name, each in kwargs.items()]
            raise TypeError(
                f"{'F' if follows else 'L'}.{function.__name__} does not take ({', '.join(given)}): {error}"
            ) from error

    return call


def _of_pairs(args: Sequence[Any]) -> Callable[[str, Sequence[Any], Mapping[str, Any]], Any] | None:
    """What gives the result where there is a pair of Tensors among the arguments, or in a list that is the first."""
    first = args[0] if args and type(args[0]) in (list, tuple) else ()
    return next((PAIRS[type(each)] for each in (*args, *first) if type(each) in PAIRS), None)


def _refuse_other_types(function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    """DefinitionError for an argument that is not of its parameter's type, as a number for a Tensor."""
    signature = inspect.signature(function)
    for name, given in signature.bind_partial(*args, **kwargs).arguments.items():
        annotation = str(signature.parameters[name].annotation)
        kind = re.sub(r"\b(Window|Sizes|Dims)\b", lambda alias: _ALIASES[alias[0]], annotation)
        several = signature.parameters[name].kind is inspect.Parameter.VAR_POSITIONAL
        for wrong in (each for each in (given if several else (given,)) if not _fits(kind, each)):
            found = "torch's outside of a network" if isinstance(wrong, torch.Tensor) else type(wrong).__name__
            article, kind = "a " * (kind == "Tensor"), kind.replace("SizeLike", "int | Size")
            text = f"F.{function.__name__} takes {article}{kind} as {name!r}, not {found}: {wrong!r:.60}"
            raise DefinitionError(text, location=author_location()) from None


def _fits(kind: str, given: Any) -> bool:
    """Whether a value is of the type that an annotation says; true of annotations with other types."""
    if " | " in kind:
        return any(_fits(each, given) for each in kind.split(" | "))
    if kind.startswith("Sequence["):
        return isinstance(given, Sequence) and all(_fits(kind[9:-1], each) for each in given)
    if kind == "torch.dtype":
        return isinstance(given, torch.dtype)
    return kind not in _TYPES or isinstance(given, _TYPES[kind])


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


def _operand(network: Draft, argument: Any) -> Any:
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


def find_network(args: Sequence[Any], kwargs: Mapping[str, Any] | None = None) -> Draft | None:
    """The network of the Tensors among the arguments, else the current one, else None."""
    for argument in (*args, *kwargs.values()) if kwargs else args:
        if isinstance(argument, Tensor) or (type(argument) in PAIRS and not isinstance(argument, complex)):
            return argument.network
        if isinstance(argument, (list, tuple)):
            for item in argument:
                if isinstance(item, Tensor):
                    return item.network
    return CURRENT_NETWORK.get()


def require_network(*args: Any) -> Draft:
    """As :func:`find_network`; UsageError where there is none."""
    network = find_network(args)
    if network is None:
        raise UsageError(
            "no network here: call this from a @td.network function, with a Tensor, or inside `with net.current():`",
            location=author_location(),
        )
    return network


def require(condition: Condition | bool, why: str = "") -> None:
    """The network serves only sizes where ``condition``, a comparison of sizes, holds.

    It is taken for granted from here on: a branch on it is decided, and what the layers need of the sizes is proven for
    those where it holds. A check draws no other sizes, the manifest has it, and interpreter and engine refuse feeds
    where it does not hold. ``why`` stands in these messages.

    Adds no layer. Raises ShapeError where the condition holds for no size in the ranges of its dimensions, and when the
    network is checked or built, where it does not hold for the sizes to tune for; UsageError for anything else than a
    comparison of sizes.

    >>> x = td.Network().input("x", (1, 3, td.Dim("H", min=32, max=256), 64))
    >>> with x.network.current():
    ...     td.require(x.shape[2] % 32 == 0, "five stages that halve")
    ...     x.shape[2] // 32 * 32 == x.shape[2] or "not for every size"
    H == 32*(H//32)
    """
    network, place = require_network(), author_location()
    if condition is True:
        return
    with located(place):
        if condition is False:
            raise ShapeError(f"what is required here holds for no size{f': {why}' * bool(why)}")
        if not isinstance(condition, Condition):
            raise UsageError(f"td.require takes a comparison of sizes, such as x.shape[2] % 32 == 0, not {condition!r}")
        if atoms := [atom for atom in condition.atoms() if isinstance(atom, TensorDim)]:
            raise UsageError(
                f"td.require takes sizes made of the inputs' dimensions: {atoms[0]} is known only when the network runs"
            )
    network.constraints.require(condition, why, place)
