"""A recording of a reference: the calls that its author wrote, with their values, both exact and as they are."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ...core.errors import Location
from ...core.lazy import torch
from ...core.tensors.exact import Exact
from ..coverage import author_of_reference, closure

SAMPLES = 4096  # elements among which the typical one is found
REORDERED = 1e-12  # what the same values in another order may differ by
SUMMED = 8.0  # times what an element may differ by: what sums of their powers may


@dataclass(frozen=True)
class Place:
    """A call: its name and where it stands."""

    name: str
    location: Location | None

    def __str__(self) -> str:
        return f"{self.name} at {self.location}" if self.location else self.name


class Moments:
    """What tells the values of a tensor from others, whatever their order: their greatest, least, and sums of powers.

    >>> Moments(torch.tensor([1.0, 2.0, 4.0])).agree(Moments(torch.tensor([4.0, 1.0, 2.0])), 1e-9)
    True
    """

    def __init__(self, value: torch.Tensor):
        x = value.double().flatten() if value.numel() else torch.zeros(1, dtype=torch.float64)
        squares = float(x @ x)
        if not math.isfinite(squares):
            x = x.nan_to_num(0.0, 0.0, 0.0)
            squares = float(x @ x)
        low, high = (float(each) for each in torch.aminmax(x))
        greatest = max(-low, high)
        few = x[:: max(len(x) // SAMPLES, 1)].abs()
        self.typical = float(few.median())
        self.values = low, high, float(x.sum()), squares, float(x.square() @ x)
        self.sizes = greatest, greatest, math.sqrt(squares * len(x)), squares, squares * greatest

    def agree(self, other: Moments, limit: float) -> bool:
        """Whether two tensors have the same values but for a part ``limit`` of them."""
        each = zip(self.values, other.values, self.sizes, strict=True)
        return all(abs(a - b) <= SUMMED * limit * size for a, b, size in each)


@dataclass(eq=False)
class Call:
    """One call of torch's that gave a tensor."""

    number: int
    place: Place
    module: str
    """The innermost submodule that made it."""
    own: torch.Tensor
    value: torch.Tensor
    """The exact value; of integers and bool ``own``."""
    moments: Moments
    operands: list[Call]
    varies: bool
    """Whether it depends on what is fed."""
    moves: bool
    """Whether its values are an operand's in another order: then the order is what matters."""
    found: str | None = None
    """The network's tensor with its values."""


class Recording:
    """All calls of one run of a reference, and those that gave the results of its submodules, by their names."""

    def __init__(self, exact: Exact):
        self.exact = exact
        self.calls: list[Call] = []
        self.modules: dict[str, list[Call]] = {}
        self._makers: dict[int, Call] = {}
        self._fed: set[int] = set()
        self._alive: list[Any] = []  # so that no identity is used twice
        self._within: list[str] = []

    def around(self, call: Callable[[torch.nn.Module, Any], Any]) -> Callable[[torch.nn.Module, Any], Any]:
        """A function that calls a module and records what it does; anew where it is called again."""

        def called(module: torch.nn.Module, feeds: Any) -> Any:
            self.__init__(self.exact)
            handles = []
            for name, part in module.named_modules():
                entered = functools.partial(self._entered, name)
                handles.append(part.register_forward_pre_hook(entered, with_kwargs=True))
                handles.append(part.register_forward_hook(self._left))
            try:
                return call(module, feeds)
            finally:
                for handle in handles:
                    handle.remove()

        return called

    def _entered(self, name: str, module: torch.nn.Module, *given: Any) -> None:
        if not self._within:
            self._fed.update(map(id, _tensors(given)))
        self._within.append(name)

    def _left(self, module: torch.nn.Module, given: Any, result: Any) -> None:
        made = [self._makers[id(x)] for x in _tensors(result) if id(x) in self._makers]
        self.modules.setdefault(self._within.pop(), []).extend(made)

    def made(self, function: Any, args: Any, kwargs: Any) -> Any:
        """What a function of torch's gives, noted where it is a tensor that was not there before."""
        if not self._within:
            return function(*args, **kwargs)
        before = list(_tensors((args, kwargs)))
        versions = {id(x): x._version for x in before if not x.is_inference()}
        result = function(*args, **kwargs)
        # What gives its operand as it is, such as a cast to the dtype that it has, is no call.
        tensors = [x for x in _tensors(result) if id(x) not in versions or versions[id(x)] != x._version]
        given = list(dict.fromkeys(self._makers[id(x)] for x in before if id(x) in self._makers))
        varies = any(call.varies for call in given) or any(id(x) in self._fed for x in before)
        name = getattr(function, "__name__", str(function)).strip("_")
        for tensor in tensors:
            place = Place(name, author_of_reference())
            with torch._C._DisableTorchDispatch(), torch._C.DisableTorchFunction():
                floating = tensor.is_floating_point()
                value = self.exact.of(tensor).detach().clone() if floating else tensor.detach().clone()
                own = tensor.detach().clone() if floating else value
                moments = Moments(value)
                others = [x for x in before if x is not tensor and (x.numel(), x.dtype) == (own.numel(), own.dtype)]
                moves = any(moments.agree(Moments(self._value(x)), REORDERED) for x in others)
            call = Call(len(self.calls), place, self._within[-1], own, value, moments, given, varies, moves)
            self._makers[id(tensor)] = call
            self.calls.append(call)
            self._alive.append(tensor)
        return result

    def _value(self, tensor: torch.Tensor) -> torch.Tensor:
        return self.exact.of(tensor) if tensor.is_floating_point() else tensor.detach()

    def right(self) -> set[Call]:
        """The calls whose result the network has, and the calls that these depend on."""
        known = {call for call in self.calls if call.found is not None or not call.varies}
        return closure([([call], call.operands) for call in self.calls], known)


def _tensors(tree: Any) -> Iterator[torch.Tensor]:
    if isinstance(tree, torch.Tensor):
        yield tree
    elif isinstance(tree, Mapping):
        for item in tree.values():
            yield from _tensors(item)
    elif isinstance(tree, (list, tuple)):
        for item in tree:
            yield from _tensors(item)
