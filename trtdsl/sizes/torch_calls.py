"""torch's functions that are called with sizes: ``torch.arange(n)`` is ``F.arange(n)``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..core.errors import DefinitionError
from ..core.lazy import F

OPERATORS = {
    **{name: name for name in ("add", "sub", "mul", "div", "floor_divide", "remainder", "pow", "matmul")},
    **{name: name for name in ("eq", "ne", "lt", "le", "gt", "ge")},
    "true_divide": "div",
    "truediv": "div",
    "floordiv": "floor_divide",
    "mod": "remainder",
}
"""By torch's names of its operators, functional's."""
OF_MEMORY = {"device", "layout", "pin_memory", "requires_grad", "memory_format"}


class TorchCalls:
    """What torch asks of an argument that is a size: torch passes some of its calls on, those with sizes in a tuple."""

    __slots__ = ()

    @classmethod
    def __torch_function__(
        cls, function: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        name = getattr(function, "__name__", str(function))
        plain = name.strip("_")
        if plain in OPERATORS:
            name = OPERATORS[plain]
        elif plain.startswith("r") and plain[1:] in OPERATORS:  # of Tensor.__rsub__(tensor, size)
            name, args = OPERATORS[plain[1:]], args[::-1]
        elif name != plain:
            return NotImplemented
        try:
            namesake = getattr(F, name)
        except AttributeError as error:
            raise DefinitionError(f"torch.{name} takes no sizes of a network: {error}") from None
        return namesake(*args, **{key: value for key, value in (kwargs or {}).items() if key not in OF_MEMORY})
