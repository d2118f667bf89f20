"""The placeholder in a ported file for a torch call without a counterpart."""

from __future__ import annotations

from typing import Any, NoReturn

from ..core.errors import UnsupportedError
from ..definition.operation import operation
from ..functional.absent import REASONS


@operation
def missing(call: str, *operands: Any, **options: Any) -> NoReturn:
    """Stands in a ported file where torch's ``call`` has no counterpart; raises UnsupportedError with the operands.

    >>> try:
    ...     td.missing("torch.fft.hfft", td.Network().input("x", (2, 8)))
    ... except td.UnsupportedError as error:
    ...     print(error.message.partition(": ")[0])
    torch.fft.hfft has no counterpart in trtdsl.functional
    """
    raise UnsupportedError(no_counterpart(call))


def no_counterpart(call: str) -> str:
    """Why torch's ``call`` cannot be written, and what to do instead."""
    reason = REASONS.get(call.rpartition(".")[2])
    instead = "write what it computes with functions that dir(trtdsl.functional) lists"
    return f"{call} has no counterpart in trtdsl.functional: {instead}" if reason is None else f"{call} {reason}"
