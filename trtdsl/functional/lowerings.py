"""Functions that can be lowered in several ways: each way is registered beside its code, and a call takes one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeVar

from ..core.errors import UnsupportedError, nearest, placed
from ..definition.call import Operand
from ..definition.tensor import Tensor
from ..definition.tuning.choices import Site

AUTO = "auto"
Emit = TypeVar("Emit", bound=Callable[..., Any])


class Way(NamedTuple):
    """One of the ways in which a function becomes layers."""

    emit: Callable[..., Any]
    """Adds the layers; takes what the function hands to :func:`lowered`."""
    text: str
    """What it emits, for the documentation."""
    unless: Callable[..., str | None] | None = None
    """Why it cannot express a call, of the same arguments; None where it can."""
    needs: str | None = None
    """The method of INetworkDefinition without which a version of TensorRT cannot take it."""
    not_tuned: str | None = None
    """Why `--tune` does not try it."""


LOWERINGS: dict[str, dict[str, Way]] = {}
"""By function: the first way that can express a call is what the function does unless it, the author or a tuning says
otherwise. Complete when :mod:`trtdsl.functional` is imported."""


def way(functions: str, name: str, text: str, **rules: Any) -> Callable[[Emit], Emit]:
    """Registers what is decorated as a way of a function, or of several; ``rules`` are others of :class:`Way`."""

    def register(emit: Emit) -> Emit:
        for function in functions.split():
            LOWERINGS.setdefault(function, {})[name] = Way(emit, text, **rules)
        return emit

    return register


def lowered(function: str, given: str, *operands: Tensor, default: str | None = None, **how: Any) -> Any:
    """What one of the ways of ``function`` emits, chosen at once: see :class:`Choice`. A call of one way needs none."""
    ways, ruled_out = LOWERINGS[function], reasons(function, *operands, **how)
    if given == AUTO and len(ruled_out) == len(ways) - 1:
        (name,) = ways.keys() - ruled_out.keys()
    else:
        name = Choice(function, given, *operands).way(ruled_out, default)
    return ways[name].emit(*operands, **how)


def reasons(function: str, *operands: Tensor, **how: Any) -> dict[str, str]:
    """Why ways of ``function`` cannot express a call."""
    return {
        name: reason
        for name, each in LOWERINGS[function].items()
        if each.unless is not None and (reason := each.unless(*operands, **how)) is not None
    }


class Choice:
    """The choice among the ways of a call of ``function``: claimed when it is recorded, made when it is lowered.

    ``given`` is what the author asks for; for "auto" the network's tuning decides, otherwise the default, or the
    first way. A way that needs a layer which this version of TensorRT lacks gives place to the first that needs none,
    and the network notes it. Raises UnsupportedError for a way that there is not.
    """

    __slots__ = ("_key", "_place", "function", "given", "network", "operands", "operation", "used")

    def __init__(self, function: str, given: str, *operands: Tensor):
        ways = LOWERINGS[function]
        if given not in ways and given != AUTO:
            there_are = ", ".join([AUTO, *ways])
            raise UnsupportedError(
                f"{function}: unknown lowering {given!r}; there are {there_are}{nearest(str(given), ways)}"
            )
        self.function, self.given, self.network = function, given, operands[0].network
        self.operation = call = self.network.current_operation
        self.operands = [Operand(operand.shape, operand.dtype) for operand in operands]
        self.used: str | None = None
        """The way, once it is chosen."""
        self._key = None
        if call is not None and call.location is not None and any(operand.data is None for operand in operands):
            self._key = self.network.choices.key(call.location.file, call.within, call.name, function)
            self._place = self.network.choices.claim()

    def lowered(self, *operands: Tensor, default: str | None = None, **how: Any) -> Any:
        """What the way emits for the ``operands`` and the other arguments of the call.

        Raises UnsupportedError for a way that the author asks for where it cannot be.
        """
        chosen = self.way(reasons(self.function, *operands, **how), default)
        return LOWERINGS[self.function][chosen].emit(*operands, **how)

    def way(self, ruled_out: Mapping[str, str] = {}, default: str | None = None) -> str:
        """The way, of those that are not ruled out for the reasons given."""
        possible = [name for name in LOWERINGS[self.function] if name not in ruled_out]
        if self.used is None and self.given in ruled_out:
            why = f"lowering {self.given!r} cannot express this: {ruled_out[self.given]}"
            raise UnsupportedError(f"{self.function}: {why}; use {possible[0]!r}")
        self.used = self.used or self._chosen(possible, default)
        return self.used

    def _chosen(self, possible: list[str], default: str | None) -> str:
        network, ways = self.network, LOWERINGS[self.function]
        default = default if default in possible else possible[0]
        wanted = default if self.given == AUTO else self.given
        if self._key is not None and self.given == AUTO:
            asked = network.choices.wanted(self._key)
            wanted = asked if asked in possible else wanted
        layers = network.trt.INetworkDefinition
        lacks = {name: needs for name in possible if (needs := ways[name].needs) and not hasattr(layers, needs)}
        used = next(name for name in (wanted, default, *possible) if name not in lacks) if lacks else wanted
        place = None if self.operation is None else self.operation.location
        if used != wanted:
            layer = f"{lacks[wanted].removeprefix('add_').removesuffix('_v2')} layer"
            why = f"{network.backend.name} {network.backend.version} has no {layer}"
            text = f"{self.function} is lowered as {used!r} instead of {wanted!r}: {why}"
            network.choices.fallbacks.append(placed(place, text))
        if self._key is not None and place is not None:
            every = dict.fromkeys((default, *possible))
            tried = tuple([name for name in every if ways[name].not_tuned is None and name not in lacks])
            described = tuple(map(str, self.operands))
            network.choices.take(self._place, Site(self._key, place, described, tried, used, self.given != AUTO))
        return used
