"""Tensors that no input has a part in and no call of the program gives: their numbers, or weights of the network's."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from ....core.dtypes import narrowed
from ....core.errors import UnsupportedError
from ....core.lazy import torch
from ...calls import Op, Value, Weight
from ..frames import authors_frame, here
from ..modes import free
from .bodies import Bodies
from .doubles import WIDE, in_double

MOST_NUMBERS = 16  # that are written out in a file


class Constants:
    """The values of such tensors, in the body of each call that uses them.

    Those of many numbers become ``weights``, called as their author does but for the names in ``taken``; ``large`` has
    them by path.
    """

    def __init__(self, bodies: Bodies, weights: dict[str, Weight], taken: Collection[str], kept: list[torch.Tensor]):
        self.large: dict[str, torch.Tensor] = {}
        self._bodies, self._weights, self._taken, self._kept = bodies, weights, taken, kept
        self._made: dict[tuple[int, int], Value] = {}  # by tensor and by the call that has them
        self._doubles: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}
        """Without rounding, by tensor, with the numbers that it had then."""

    def value(self, tensor: torch.Tensor) -> Value:
        """A value for a tensor that is not the module's."""
        if type(tensor) not in (torch.Tensor, torch.nn.Parameter):
            raise UnsupportedError(
                f"a tensor of shape {tuple(tensor.shape)} was computed where a trace does not see it", location=here()
            )
        self._kept.append(tensor)
        if tensor._is_zerotensor():  # of a derivative, which has no memory
            return self.value(torch.zeros(tensor.shape, dtype=tensor.dtype))
        container = self._bodies.container()
        key = (id(tensor), id(container))
        held = self._made.get(key)
        if held is not None and self._holds(held, tensor):  # it may have been written to since
            return held
        shape, dtype = tuple(tensor.shape), narrowed(tensor.dtype)
        if tensor.numel() > MOST_NUMBERS:
            path = free(_called(tensor) or "constant", {*self._taken, *self.large})
            self.large[path] = tensor.detach().clone().to(dtype)
            self._made[key] = self._weights[path] = Weight(shape, dtype, True, path=path, stored=False, location=here())
        else:
            given = (self._numbers(tensor).tolist(),)
            op = Op("tensor", "torch.tensor", "function", given, {"dtype": dtype}, None, here(), self._bodies.path)
            op.results = self._made[key] = Value(shape, dtype, known=True, producer=op)
            self._bodies.note(op, container)
        return self._made[key]

    def folded(self, op: Op, result: Any) -> None:
        """Has a tensor be what a call gave, of which the file has numbers alone: as many digits as float64 says."""
        few = isinstance(result, torch.Tensor) and result.numel() <= MOST_NUMBERS
        if few and result.dtype in WIDE:
            double = in_double(op, result)
            if double is not None:
                self._doubles[id(result)] = double, result.detach().clone()

    def _numbers(self, tensor: torch.Tensor) -> torch.Tensor:
        own = tensor.detach().cpu()
        double, single = self._doubles.get(id(tensor), (own, own))
        return double if torch.equal(single, tensor) else own

    def narrowed(self, tensor: torch.Tensor, weight: Weight) -> Value:
        """A tensor of the module's in a dtype that a network has."""
        container = self._bodies.container()
        key = (id(tensor), id(container))
        if key not in self._made:
            dtype = narrowed(tensor.dtype)
            op = Op("to", "torch.Tensor.to", "method", (weight, dtype), {}, None, here(), self._bodies.path)
            op.results = self._made[key] = Value(weight.shape, dtype, producer=op)
            self._kept.append(tensor)
            self._bodies.note(op, container)
        return self._made[key]

    def forget(self, tensor: torch.Tensor) -> None:
        """Has a tensor's value made anew where it is used next."""
        for key in [key for key in self._made if key[0] == id(tensor)]:
            del self._made[key]

    def _holds(self, constant: Value, tensor: torch.Tensor) -> bool:
        """Whether a constant has a tensor's numbers still."""
        if isinstance(constant, Weight):
            return torch.equal(self.large[constant.path], tensor.to(constant.dtype))
        return constant.producer is not None and repr(constant.producer.args[0]) == repr(self._numbers(tensor).tolist())


def _called(tensor: torch.Tensor) -> str | None:
    """The author's name for a tensor that is in use."""
    frame = authors_frame()
    held = frame.f_locals if frame is not None else {}
    return next((name for name, each in held.items() if each is tensor and name.isidentifier()), None)
