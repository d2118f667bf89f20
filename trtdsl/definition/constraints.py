"""What a network takes for granted of its dynamic sizes: tried at the ends of their ranges before it is built."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ..core.errors import Location, ShapeError
from .shape import Dim, Size, SizeLike, TensorDim


@dataclass(frozen=True)
class Claim:
    """``left`` is at least ``least`` or, with a ``right``, the same as that."""

    left: SizeLike
    right: SizeLike | None
    what: str
    operation: str
    location: Location | None
    least: int = 0

    def broken(self, env: Mapping[str, int]) -> str | None:
        """What is wrong where the dimensions have the values in ``env``; None where nothing is."""
        left = _value(self.left, env)
        if self.right is None:
            return f"{self.what} {self.left} would be {left}" if left < self.least else None
        right = _value(self.right, env)
        return None if left == right else f"{self.what} do not match: {self.left} is {left}, {self.right} is {right}"


class Claims:
    """The claims of one network.

    >>> T = Dim("T", min=2, max=9)
    >>> claims = Claims()
    >>> claims.not_negative(T - 4, None)
    >>> claims.check({"T": (2, 9, 9)})
    Traceback (most recent call last):
    trtdsl.core.errors.ShapeError: where T = 2, the size T - 4 would be -2
    """

    def __init__(self) -> None:
        self._claims: dict[Any, Claim] = {}

    def not_negative(self, size: SizeLike, operation: Any) -> None:
        """``operation`` makes a dimension of this size."""
        if isinstance(size, Size) and not isinstance(size, Dim):
            self._add(size, None, "the size", operation)

    def positive(self, size: SizeLike, operation: Any) -> None:
        """``operation`` has this many parts, of which it needs one."""
        self._add(size, None, "the size", operation, least=1)

    def equal(self, left: SizeLike, right: SizeLike, what: str, operation: Any) -> None:
        """``operation`` needs the two to be the same."""
        if left != right:
            self._add(left, right, what, operation)

    def _add(self, left: SizeLike, right: SizeLike | None, what: str, operation: Any, least: int = 0) -> None:
        key = left, right, least
        if key in self._claims:
            return
        sizes = [size for size in (left, right) if isinstance(size, Size)]
        if any(isinstance(atom, TensorDim) for size in sizes for atom in size.atoms()):
            return  # known only when the network runs
        name, location = (operation.name, operation.location) if operation else ("", None)
        self._claims[key] = Claim(left, right, what, name, location, least)

    def check(self, ranges: Mapping[str, tuple[int, int, int]]) -> None:
        """Tries every claim at each of the dimensions' ``(min, opt, max)``, and beside the least.

        A dimension without a range is left out, with all claims about it. Raises ShapeError with the author's line.
        """
        for claim in self._claims.values():
            names = {str(atom) for size in (claim.left, claim.right) if isinstance(size, Size) for atom in size.atoms()}
            if not names <= set(ranges):
                continue
            for env in _points({name: ranges[name] for name in sorted(names)}):
                problem = claim.broken(env)
                if problem is not None:
                    values = ", ".join(f"{name} = {env[name]}" for name in sorted(names))
                    error = ShapeError(f"where {values}, {problem}", location=claim.location)
                    error.context += [f"in {claim.operation}(…)"] if claim.operation else []
                    raise error


def _points(ranges: Mapping[str, tuple[int, int, int]]) -> Iterator[dict[str, int]]:
    """Least, best and greatest values together, and each combination of them for few dimensions; one past the least."""
    for place in range(3):
        yield {name: bounds[place] for name, bounds in ranges.items()}
    yield {name: min(low + 1, high) for name, (low, _, high) in ranges.items()}
    if len(ranges) <= 3:
        choices = [sorted({low, min(low + 1, high), high}) for low, _, high in ranges.values()]
        for values in itertools.product(*choices):
            yield dict(zip(ranges, values, strict=True))


def _value(size: SizeLike, env: Mapping[str, int]) -> int:
    return size if isinstance(size, int) else size.value(env)
