"""What torch is asked to do: every call of its functions, modules that run on tensors without values, and its state.

And that of Python's collector of garbage.
"""

from __future__ import annotations

import functools
import gc
import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, ParamSpec, TypeVar
from unittest import mock

from ..errors import UsageError
from ..lazy import torch
from .higher_order import written_out

P = ParamSpec("P")
R = TypeVar("R")


def by_default(function: Callable[P, R]) -> Callable[P, R]:
    """The function, in which tensors are made as torch makes them by default: on the CPU, and with a count of writes.

    Its caller may be in torch.inference_mode, or have another default device. UsageError in torch's FakeTensorMode,
    where no tensor has values.
    """

    @functools.wraps(function)
    def call(*given: P.args, **named: P.kwargs) -> R:
        from torch._guards import detect_fake_mode

        if detect_fake_mode() is not None:
            raise UsageError(f"{function.__name__} computes values, and within torch's FakeTensorMode there are none")
        with ExitStack() as stack:
            if torch.is_inference_mode_enabled():
                stack.enter_context(torch.inference_mode(False))
            if torch.get_default_device().type != "cpu":
                stack.enter_context(torch.device("cpu"))
            return function(*given, **named)

    return call


@contextmanager
def uncollected() -> Iterator[None]:
    """A context, or a decorator, without collections of garbage: for what makes many objects that stay.

    Each would look through these, and some through all that torch has imported, and find nothing.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


@contextmanager
def each_call(called: Callable[..., Any]) -> Iterator[None]:
    """A context in which every function of torch that is called goes through ``called(function, args, kwargs)``."""
    from torch.overrides import TorchFunctionMode

    class Calls(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return called(func, args, kwargs or {})

    with written_out(), Calls():
        yield


@contextmanager
def subclassed_by(
    made: Callable[[Callable[..., Any], torch.Tensor, type], torch.Tensor],
    before: Callable[[torch.Tensor], None] = lambda _: None,
) -> Iterator[None]:
    """A context in which a tensor as one of a class, which torch tells nobody of, is ``made(torch's own, x, C)``.

    It is written ``x.as_subclass(C)``, ``C(x)`` or ``torch.Tensor._make_subclass(C, x)``. torch's own classes are made
    as ever, after ``before(x)``.
    """
    base: Any = torch._C.TensorBase
    plain: Any = base.as_subclass

    def as_subclass(tensor: torch.Tensor, kind: type) -> torch.Tensor:
        with torch._C.DisableTorchFunctionSubclass():
            return made(plain, tensor, kind)

    def of_a_tensor(own: Callable[..., Any], kind: type, *given: Any, **named: Any) -> Any:
        if not given or not isinstance(given[0], torch.Tensor):
            return own(kind, *given, **named)
        if kind.__module__.startswith("torch.") or named:
            before(given[0])
            return own(kind, *given, **named)
        return as_subclass(given[0], kind)

    with ExitStack() as stack:
        for space in (sys.modules["torch"], torch.Tensor):
            if getattr(space, "as_subclass", None) is plain:
                stack.enter_context(mock.patch.object(space, "as_subclass", as_subclass))
        for name in ("__new__", "_make_subclass") if "__new__" not in vars(torch.Tensor) else ():
            wrapped = functools.partial(of_a_tensor, getattr(base, name))
            setattr(torch.Tensor, name, staticmethod(wrapped))
            stack.callback(delattr, torch.Tensor, name)
        yield


@contextmanager
def unlogged() -> Iterator[None]:
    """A context in which torch does not log what fails on tensors without values, since it is raised as well."""
    logger = logging.getLogger("torch._subclasses.fake_tensor")
    before, logger.disabled = logger.disabled, True
    try:
        yield
    finally:
        logger.disabled = before
