"""What torch is asked to do: every call of its functions, and modules that run on tensors without values."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


def each_call(called: Callable[..., Any]) -> Any:
    """A context in which every function of torch that is called goes through ``called(function, args, kwargs)``."""
    from torch.overrides import TorchFunctionMode

    class Calls(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return called(func, args, kwargs or {})

    return Calls()


@contextmanager
def unlogged() -> Iterator[None]:
    """A context in which torch does not log what fails on tensors without values, since it is raised as well."""
    logger = logging.getLogger("torch._subclasses.fake_tensor")
    before, logger.disabled = logger.disabled, True
    try:
        yield
    finally:
        logger.disabled = before
