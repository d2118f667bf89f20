"""Functions that can be lowered in several ways: each way is registered beside its code, and a call takes one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from ..core.errors import UnsupportedError, nearest
from ..definition.network import Network
from ..definition.operation import author_frame
from ..definition.tensor import Tensor
from ..definition.tuning.choices import Fallback, Site

AUTO = "auto"
Emit = TypeVar("Emit", bound=Callable[..., Any])


@dataclass(frozen=True)
class Way:
    """One of the ways in which a function becomes layers."""

    emit: Callable[..., Any]
    """Adds the layers; takes what the function hands to :func:`lowered`."""
    text: str
    """What it emits, for the documentation."""
    unless: Callable[..., str | None] | None
    """Why it cannot express a call, of the same arguments; None where it can."""
    needs: str | None
    """The method of INetworkDefinition without which a version of TensorRT cannot take it."""
    not_tuned: str | None
    """Why `--tune` does not try it."""


LOWERINGS: dict[str, dict[str, Way]] = {}
"""By function: the first way that can express a call is what the function does unless it, the author or a tuning says
otherwise. Complete when :mod:`trtdsl.functional` is imported."""


def way(
    function: str,
    name: str,
    text: str,
    *,
    unless: Callable[..., str | None] | None = None,
    needs: str | None = None,
    not_tuned: str | None = None,
) -> Callable[[Emit], Emit]:
    """Registers what is decorated as a way of ``function``; the fields are those of :class:`Way`."""

    def register(emit: Emit) -> Emit:
        LOWERINGS.setdefault(function, {})[name] = Way(emit, text, unless, needs, not_tuned)
        return emit

    return register


def lowered(function: str, given: str, *operands: Tensor, default: str | None = None, **how: Any) -> Any:
    """What one of the ways of ``function`` emits for the ``operands`` and the other arguments of the call.

    ``given`` is what the author asks for; for "auto" the network's tuning decides, otherwise the ``default``, or the
    first way. A way that needs a layer which this version of TensorRT lacks gives place to the first that needs none,
    and the network notes it.

    Raises UnsupportedError for a way that there is not, or that the author asks for where it cannot be.
    """
    ways = LOWERINGS[function]
    if given not in ways and given != AUTO:
        raise UnsupportedError(
            f"{function}: unknown lowering {given!r}; there are {', '.join([AUTO, *ways])}{nearest(str(given), ways)}"
        )
    ruled_out = reasons(function, *operands, **how)
    possible = [name for name in ways if name not in ruled_out]
    if given in ruled_out:
        raise UnsupportedError(
            f"{function}: lowering {given!r} cannot express this: {ruled_out[given]}; use {possible[0]!r}"
        )
    if default not in possible:
        default = possible[0]
    return ways[_chosen(function, given, operands, possible, default)].emit(*operands, **how)


def reasons(function: str, *operands: Tensor, **how: Any) -> dict[str, str]:
    """Why ways of ``function`` cannot express a call."""
    return {
        name: reason
        for name, each in LOWERINGS[function].items()
        if each.unless is not None and (reason := each.unless(*operands, **how)) is not None
    }


def _chosen(function: str, given: str, operands: tuple[Tensor, ...], possible: list[str], default: str) -> str:
    """One of the possible ways, by the author's word, the tuning or the default; the network notes the call."""
    network, ways = operands[0].network, LOWERINGS[function]
    wanted = default if given == AUTO else given
    frame = author_frame()
    operation = network.current_operation
    key = None
    if operation is not None and frame is not None and any(operand.data is None for operand in operands):
        key = network.choices.key(frame, operation.name, function)
        asked = network.choices.wanted(key) if given == AUTO else None
        wanted = asked if asked in possible else wanted
    layers = network.trt.INetworkDefinition
    lacks = {name: needs for name in possible if (needs := ways[name].needs) and not hasattr(layers, needs)}
    used = next(name for name in (wanted, default, *possible) if name not in lacks) if lacks else wanted
    place = None if operation is None else operation.location
    if used != wanted:
        network.choices.fallbacks.append(Fallback(function, wanted, used, _missing(network, lacks[wanted]), place))
    if key is not None:
        tried = [
            name for name in dict.fromkeys((default, *possible)) if ways[name].not_tuned is None and name not in lacks
        ]
        shapes = tuple([(operand.shape, operand.dtype) for operand in operands])
        network.choices.sites.append(Site(key, place, shapes, tuple(tried), used, given != AUTO))
    return used


def _missing(network: Network, method: str) -> str:
    """That a version of TensorRT lacks a layer."""
    backend = network.backend
    layer = method.removeprefix("add_").removesuffix("_v2")
    return f"{backend.name} {backend.version} has no {layer} layer"
