"""Tensors of the author's own classes, which carry names or compute otherwise, while tensors have no values."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ....core.lazy import torch
from ...calls import leaves


def authors_class(args: Any, kwargs: Any) -> type | None:
    """The class of an operand whose own way of calling torch runs now; None where there is none."""
    if not torch._C._is_torch_function_enabled():  # its own way has begun, and calls torch's
        return None
    from torch._subclasses.fake_tensor import FakeTensor

    plain = (torch.Tensor, torch.nn.Parameter, FakeTensor)
    kinds = {type(leaf): None for leaf in leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)}
    own = [kind for kind in kinds if kind not in plain and "__torch_function__" in dir(kind)]
    disabled = torch._C._disabled_torch_function_impl
    own = [kind for kind in own if kind.__torch_function__ is not disabled]
    return next((kind for kind in own if all(issubclass(kind, each) or kind is each for each in own)), None) or (
        own[0] if own else None
    )


def as_class(called: Callable[..., Any], tensor: torch.Tensor, kind: type) -> torch.Tensor:
    """The tensor as one of a class, by a call that gives it as it is."""
    from torch._subclasses.fake_tensor import FakeTensor

    found = called(torch.Tensor.detach, (tensor,), {})
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

    made: Any = Named(kind.__name__, (FakeTensor, kind), {"__module__": kind.__module__})
    made.__torch_function__ = classmethod(kind.__torch_function__.__func__)  # torch gives such a class none of its own
    return made
