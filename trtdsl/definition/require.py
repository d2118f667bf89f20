"""``td.require``: sizes that a network serves, beyond the ranges of its dimensions."""

from __future__ import annotations

from ..core.errors import ShapeError, UsageError
from ..sizes.condition import Condition
from ..sizes.dim import TensorDim
from .operation import author_location, require_network


def require(condition: Condition | bool, why: str = "") -> None:
    """The network serves only sizes where ``condition``, a comparison of sizes, holds.

    It is taken for granted from here on: a branch on it is decided, and what the layers need of the sizes is proven for
    those where it holds. A check draws no other sizes, the manifest has it, and interpreter and engine refuse feeds
    where it does not hold. ``why`` stands in these messages.

    Adds no layer. Raises ShapeError where the condition holds for no size in the ranges of its dimensions, and when the
    network is checked or built, where it does not hold for the sizes to tune for; UsageError for anything else than a
    comparison of sizes.

    >>> x = td.Network().input("x", (1, 3, td.Dim("H", min=32, max=256), 64))
    >>> with x.network.current():
    ...     td.require(x.shape[2] % 32 == 0, "five stages that halve")
    ...     x.shape[2] // 32 * 32 == x.shape[2] or "not for every size"
    H == 32*(H//32)
    """
    network = require_network()
    if condition is True:
        return
    if condition is False:
        raise ShapeError(f"what is required here holds for no size{f': {why}' * bool(why)}", location=author_location())
    if not isinstance(condition, Condition):
        raise UsageError(
            f"td.require takes a comparison of sizes, such as x.shape[2] % 32 == 0, not {condition!r}",
            location=author_location(),
        )
    for atom in condition.atoms():
        if isinstance(atom, TensorDim):
            raise UsageError(
                f"td.require takes sizes made of the inputs' dimensions: {atom} is known only when the network runs",
                location=author_location(),
            )
    network.constraints.require(condition, why, author_location())
