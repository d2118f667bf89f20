"""The placeholder in a ported file for a torch call without a counterpart."""

from __future__ import annotations

from typing import Any, NoReturn

from ..core.errors import UnsupportedError
from ..definition.operation import operation


@operation
def missing(call: str, *operands: Any, **options: Any) -> NoReturn:
    """Stands in a ported file where torch's ``call`` has no counterpart; raises UnsupportedError with the operands.

    >>> try:
    ...     td.missing("torch.fft.hfft", td.Network().input("x", (2, 8)))
    ... except td.UnsupportedError as error:
    ...     print(error.message)
    torch.fft.hfft has no counterpart in trtdsl.functional: write it with what dir(trtdsl.functional) lists
    """
    raise UnsupportedError(
        f"{call} has no counterpart in trtdsl.functional: write it with what dir(trtdsl.functional) lists"
    )
