"""td.explain_einsum: the plan of an einsum from shapes alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ...core.errors import DefinitionError, UsageError
from ...sizes.dim import Dim
from ...sizes.size import Size, SizeLike
from .equation import parse, text
from .plan import EinsumPlan
from .search import Problem


def explain_einsum(
    equation: str,
    *shapes: Sequence[SizeLike | str],
    constants: Iterable[int] = (),
    names: bool | None = None,
    integers: bool = False,
    orders: Mapping[int, str | Sequence[int]] | None = None,
) -> EinsumPlan:
    """The plan by which F.einsum would compute ``equation``, from the operands' shapes alone; ``print`` it.

    A size is an int, a :class:`Dim` or a name. ``constants`` are the numbers of the operands that are known when the
    network is written, ``names`` reads einops' long names even where the equation has no underscore or digit,
    ``integers`` plans for operands that IMatrixMultiplyLayer does not take. ``orders`` says of an operand, by its
    number, in which order its dimensions lie in memory: as labels, ``"ntvkc"``, or as axes; F.einsum knows it
    (:attr:`Tensor.order`). Needs neither TensorRT nor data.

    Raises DefinitionError for a malformed equation, ShapeError for sizes that disagree, UsageError for a bad size or
    order.

    >>> plan = td.explain_einsum("nkctv,kvw->nctw", ("N", 3, 64, 300, 18), (3, 18, 18), constants=[1])
    >>> [step.kind for step in plan.steps], plan.steps[0].contracted
    (['matrix product'], ('k', 'v'))
    >>> after_a_convolution = td.explain_einsum(
    ...     "nkctv,kvw->nctw", ("N", 3, 64, 300, 18), (3, 18, 18), constants=[1], orders={0: "ntvkc"}
    ... )
    >>> plan.bytes > after_a_convolution.bytes
    True
    """
    known = tuple(tuple(_size(size) for size in shape) for shape in shapes)
    chosen, given, numbers = set(constants), orders or {}, range(len(known))
    if not known:
        raise DefinitionError("einsum needs at least one operand")
    if not chosen <= set(numbers):
        raise UsageError(f"constants are numbers of operands, from 0 to {len(known) - 1}: {sorted(chosen)}")
    parsed = parse(equation, [len(shape) for shape in known], names=names)
    if not given.keys() <= set(numbers):
        raise UsageError(f"orders are of operands, from 0 to {len(known) - 1}: {sorted(given)}")
    lies = tuple(_order(given.get(k), labels) for k, labels in enumerate(parsed.terms))
    return Problem(parsed, known, tuple(k in chosen for k in numbers), lies, integers).plan()


def _order(order: str | Sequence[int] | None, labels: Sequence[str]) -> tuple[int, ...] | None:
    if order is None:
        return None
    names = order.split() if isinstance(order, str) and " " in order else order
    axes = tuple(labels.index(x) if isinstance(x, str) and x in labels else x for x in names)
    if sorted(map(str, axes)) != sorted(map(str, range(len(labels)))):
        raise UsageError(f"the order {order!r} does not name each dimension of {text(tuple(labels))} once")
    return axes  # type: ignore[return-value]


def _size(size: SizeLike | str) -> SizeLike:
    if isinstance(size, str):
        return Dim(size)
    if isinstance(size, bool) or not isinstance(size, (int, Size)) or (isinstance(size, int) and size < 0):
        raise UsageError(f"a size is an int from 0 on, a Dim or a name, not {size!r}")
    return size
