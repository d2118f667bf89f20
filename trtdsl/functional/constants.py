"""What torch computes of constants while a network is written, such as decompositions, which TensorRT does not have."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

from ..core.tensors.trees import mapped
from ..definition.operation import PAIRS
from .common import Tensor, UnsupportedError, as_constant, operation, require_network, torch

Function = TypeVar("Function", bound=Callable[..., Any])


@operation
def of_constants(function: Callable[..., Any], *operands: Any, **options: Any) -> Any:
    """What torch's ``function`` gives of constants alone, such as weights: constants, without a layer.

    They are Tensors, complex values or Python's numbers, in the tuples or lists in which torch gives them. Raises
    UnsupportedError for an operand that is computed when the network runs.

    >>> w = net.constant(torch.tensor([[2.0, 0.0], [0.0, 3.0]]))
    >>> values, vectors = td.of_constants(torch.linalg.eigh, w)
    >>> values.data
    tensor([2., 3.])
    """
    found: list[Tensor] = []
    given, named = mapped((operands, options), lambda leaf: _value(leaf, function, found))
    network = found[0].network if found else require_network()
    with torch.no_grad():
        result = function(*given, **named)
    names = tuple(dict.fromkeys(name for tensor in found for name in tensor.weight_names))
    return mapped(result, lambda leaf: network.plain_constant(leaf, names) if isinstance(leaf, torch.Tensor) else leaf)


def by_torch(name: str) -> Callable[[Function], Function]:
    """Marks a function that gives what torch's of this name does, where it gets constants alone."""

    def marked(function: Function) -> Function:
        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            if are_constants((args, kwargs)):
                return of_constants(functools.reduce(getattr, name.split("."), torch), *args, **kwargs)
            return function(*args, **kwargs)

        return call  # type: ignore[return-value]

    return marked


def are_constants(operands: Any) -> bool:
    """Whether there are Tensors or complex values among the operands, and all of them are constants."""
    found: list[bool] = []

    def look(leaf: Any) -> None:
        parts = (leaf.real, leaf.imag) if _is_pair(leaf) else (leaf,)
        found.extend(as_constant(each) is not None for each in parts if isinstance(each, Tensor))

    mapped(operands, look)
    return bool(found) and all(found)


def _is_pair(leaf: Any) -> bool:
    return type(leaf) in PAIRS and not isinstance(leaf, complex)


def _value(leaf: Any, function: Callable[..., Any], found: list[Tensor]) -> Any:
    """torch's tensor of a constant, which ``function`` may write to; anything but a constant as it is."""
    if _is_pair(leaf):
        return torch.complex(*(_value(part, function, found) for part in (leaf.real, leaf.imag)))
    from torch.overrides import resolve_name

    if not isinstance(leaf, Tensor):
        return leaf
    constant = as_constant(leaf)
    if constant is None:
        raise UnsupportedError(
            f"{resolve_name(function)} is computed of constants alone, and this operand is computed when the network "
            "runs: write it with what dir(trtdsl.functional) lists"
        )
    found.append(constant)
    return constant.data.clone()
