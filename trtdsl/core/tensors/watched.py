"""What torch is asked to do: every call of its functions, modules that run on tensors without values, and its state."""

from __future__ import annotations

import functools
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
def each_call(called: Callable[..., Any]) -> Iterator[None]:
    """A context in which every function of torch that is called goes through ``called(function, args, kwargs)``."""
    from torch.overrides import TorchFunctionMode

    class Calls(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return called(func, args, kwargs or {})

    with written_out(), Calls():
        yield


@contextmanager
def subclassed_by(made: Callable[[Callable[..., Any], torch.Tensor, type], torch.Tensor]) -> Iterator[None]:
    """A context in which ``x.as_subclass(C)``, which torch tells nobody of, is ``made(torch's own, x, C)``."""
    plain: Any = torch._C.TensorBase.as_subclass

    def as_subclass(tensor: torch.Tensor, kind: type) -> torch.Tensor:
        with torch._C.DisableTorchFunctionSubclass():
            return made(plain, tensor, kind)

    with ExitStack() as stack:
        for space in (sys.modules["torch"], torch.Tensor):
            if getattr(space, "as_subclass", None) is plain:
                stack.enter_context(mock.patch.object(space, "as_subclass", as_subclass))
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
