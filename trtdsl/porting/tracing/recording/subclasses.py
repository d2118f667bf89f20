"""Objects of the author's own classes, which carry names or compute otherwise, while tensors have no values."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator
from typing import Any

from ....core.lazy import torch


def with_own_way(args: Any, kwargs: Any) -> Any:
    """The operand, a tensor or not, whose class's own way of calling torch runs now; None where there is none."""
    if not torch._C._is_torch_function_enabled():  # its own way has begun, and calls torch's
        return None
    from torch._subclasses.fake_tensor import FakeTensor

    plain = (torch.Tensor, torch.nn.Parameter, FakeTensor)
    disabled, given = torch._C._disabled_torch_function_impl, _operands((*args, *kwargs.values()))
    own = [each for each in given if type(each) not in plain and type(each).__torch_function__ is not disabled]
    kinds = {*map(type, own)}
    return next((each for each in own if all(issubclass(type(each), kind) for kind in kinds)), own[0] if own else None)


def _operands(given: Iterable[Any]) -> Iterator[Any]:
    """What is given of classes that may have their own way; torch looks into lists and tuples, too."""
    for each in given:
        if hasattr(type(each), "__torch_function__"):
            yield each
        elif isinstance(each, (list, tuple)):
            yield from _operands(each)


def as_class(tensor: torch.Tensor, kind: type) -> torch.Tensor:
    """The tensor as one of a class, by a call that gives it as it is, which a trace sees as any other."""
    from torch._subclasses.fake_tensor import FakeTensor

    found = tensor.detach()
    if isinstance(found, FakeTensor):
        kind = FakeTensor if issubclass(FakeTensor, kind) else _without_values(kind)
    found.__class__ = kind
    return found


@functools.cache
def _without_values(kind: type) -> type:
    """The class of tensors without values that are of a kind of the author's."""
    from torch._subclasses.fake_tensor import FakeTensor

    if issubclass(kind, FakeTensor):
        return kind

    class Named(type(kind)):  # whose own rules for making instances do not count
        def __call__(cls, *args: Any, **kwargs: Any) -> Any:
            return type.__call__(cls, *args, **kwargs)

    def own_way(cls: Any, function: Any, types: Iterable[type], *given: Any, **named: Any) -> Any:
        return kind.__torch_function__.__func__(
            cls, function, [kind if each is made else each for each in types], *given, **named
        )

    made: Any = Named(kind.__name__, (FakeTensor, kind), {"__module__": kind.__module__})
    made.__torch_function__ = classmethod(own_way)  # torch gives such a class none of its own
    if kind.__init__ is not torch.Tensor.__init__:
        made.__init__ = kind.__init__
    return made
