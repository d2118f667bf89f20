"""``torch.cond``, ``while_loop``, ``scan``, ``flex_attention`` and their like, by the calls that they are made of."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from unittest import mock

from ..lazy import torch


@contextmanager
def written_out(rules: Mapping[str, Callable[..., Any]] | None = None) -> Iterator[None]:
    """A context in which operators of higher order call functions of torch, and torch.compile compiles nothing.

    torch would compile what they are given, which it cannot while a mode of Python's looks at each call. ``rules`` are
    for some of them by name, in place of torch's own code.
    """
    from torch._C import DispatchKey
    from torch._ops import HigherOrderOperator

    plain: Callable[..., Any] = HigherOrderOperator.__call__

    def run(self: Any, /, *args: Any, **kwargs: Any) -> Any:
        eager = (
            (rules or {}).get(self.name())
            or _EAGER.get(self.name())
            or self.py_kernels.get(DispatchKey.CompositeExplicitAutograd)
        )
        return plain(self, *args, **kwargs) if eager is None else eager(*args, **kwargs)

    def uncompiled(model: Any = None, **_: Any) -> Any:
        return (lambda found: found) if model is None else model

    if plain.__name__ == run.__name__:  # within another such context
        yield
        return
    with mock.patch.object(HigherOrderOperator, "__call__", run), mock.patch("torch.compile", uncompiled):
        yield


def _while(condition: Any, body: Any, carried: Any, others: Any, **_: Any) -> Any:
    while condition(*carried, *others):
        carried = body(*carried, *others)
    return carried


def _scan(combine: Any, init: Any, xs: Any, others: Any) -> Any:
    """What is carried at the end, and what each step over the first dimension gives."""
    carried, given = [*init], []
    for each in zip(*(x.unbind() for x in xs)):
        found = combine(*carried, *each, *others)
        carried = list(found[: len(init)])
        given.append(found[len(init) :])
    return [*carried, *map(torch.stack, map(list, zip(*given)))]


_EAGER: dict[str, Callable[..., Any]] = {
    "cond": lambda condition, yes, no, operands: (yes if condition else no)(*operands),
    "while_loop": _while,
    "scan": _scan,
}
"""Those of which torch's own code refuses to run under a mode."""
