"""torch's functions that are called with sizes: ``torch.arange(n)`` is ``F.arange(n)``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..core.errors import DefinitionError
from ..core.lazy import F

SAME = ("add", "sub", "mul", "pow", "matmul", "neg", "abs", "getitem", "eq", "ne", "lt", "le", "gt", "ge")
OPERATORS = {
    **dict(zip(SAME, SAME, strict=True)),
    "truediv": "div",
    "floordiv": "floor_divide",
    "mod": "remainder",
    "invert": "bitwise_not",
    "and": "bitwise_and",
    "or": "bitwise_or",
    "xor": "bitwise_xor",
}
"""By Python's name of an operator, without underscores, the function that it is."""
OF_MEMORY = {"device", "layout", "pin_memory", "requires_grad", "memory_format"}


class TorchCalls:
    """What torch asks of an argument that is a size: torch passes some of its calls on, those with sizes in a tuple."""

    __slots__ = ()

    @classmethod
    def __torch_function__(
        cls, function: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        name = getattr(function, "__name__", str(function))
        plain, known = name.strip("_"), {**OPERATORS, "div": "div"}
        if plain in known:
            name = known[plain]
        elif name != plain and plain[1:] in known:  # of Tensor.__rsub__(tensor, size)
            name, args = known[plain[1:]], args[::-1]
        elif name != plain:
            return NotImplemented
        try:
            namesake = getattr(F, name)
        except AttributeError as error:
            raise DefinitionError(f"torch.{name} takes no sizes of a network: {error}") from None
        return namesake(*args, **{key: value for key, value in (kwargs or {}).items() if key not in OF_MEMORY})
