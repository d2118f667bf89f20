"""An einsum's plan as text and as JSON, and td.explain_einsum."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ...core.errors import DefinitionError, UsageError
from ...definition.shape import Dim, Shape, Size, SizeLike, hint, shape_text
from .draft import ITEM
from .equation import parse, text
from .plan import EinsumPlan, Step
from .search import make_plan


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
    network is written, ``names`` reads einops' long names even where no underscore or digit betrays them, ``integers``
    plans for operands that IMatrixMultiplyLayer does not take. ``orders`` says of an operand, by its number, in which
    order its dimensions lie in memory: as labels, ``"ntvkc"``, or as axes; F.einsum knows it (:attr:`Tensor.order`).
    Needs neither TensorRT nor data.

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
    chosen = set(constants)
    if not known:
        raise DefinitionError("einsum needs at least one operand")
    if not chosen <= set(range(len(known))):
        raise UsageError(f"constants are numbers of operands, from 0 to {len(known) - 1}: {sorted(chosen)}")
    parsed = parse(equation, [len(shape) for shape in known], names=names)
    given = orders or {}
    if not given.keys() <= set(range(len(known))):
        raise UsageError(f"orders are of operands, from 0 to {len(known) - 1}: {sorted(given)}")
    lies = [_order(given.get(k), labels) for k, labels in enumerate(parsed.terms)]
    return make_plan(parsed, known, [k in chosen for k in range(len(known))], integers=integers, orders=lies)


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


def naive(plan: EinsumPlan) -> dict[str, int]:
    """What the usual rewrite costs: operands multiplied one after the other without summing, then one sum."""
    sizes = {label: hint(size) for label, size in plan.sizes.items()}

    def count(labels: Iterable[str]) -> int:
        return math.prod(sizes[label] for label in set(labels))

    operands = [math.prod(map(hint, shape)) for shape in plan.shapes]
    labels, before, flops, moved = set(plan.equation.terms[0]), operands[0], 0, 0
    largest = before
    for term, elements in zip(plan.equation.terms[1:], operands[1:], strict=True):
        labels |= set(term)
        product = count(labels)
        flops, moved = flops + product, moved + (before + elements + product) * ITEM
        before, largest = product, max(largest, product)
    result = count(plan.equation.output)
    if labels - set(plan.equation.output):
        flops, moved = flops + before, moved + (before + result) * ITEM
    return {"flops": flops, "bytes": moved, "largest": max(largest, result)}


def to_json(plan: EinsumPlan) -> dict[str, Any]:
    """The plan's facts for ``trtdsl explain --json``."""
    return {
        "equation": str(plan.equation),
        "shapes": [[size if isinstance(size, int) else str(size) for size in shape] for shape in plan.shapes],
        "constants": [k for k, constant in enumerate(plan.constants) if constant],
        "steps": [
            {
                "kind": step.kind,
                "operands": [list(labels) for labels in step.labels[:-1]],
                "result": list(step.labels[-1]),
                **{name: list(getattr(step, name)) for name in ("batch", "contracted", "left", "right")},
                "layers": [name(plan, k) for k in step.operations],
                "notes": list(step.notes),
                "flops": step.flops,
                "bytes": step.bytes,
                "elements": step.elements,
            }
            for step in plan.steps
        ],
        "flops": plan.flops,
        "bytes": plan.bytes,
        "largest": plan.largest,
        "naive": naive(plan),
    }


def name(plan: EinsumPlan, operation: int) -> str:
    """What one of the operations is called in print; "of constants": it is computed when the network is written."""
    known = list(plan.constants)
    for other in plan.operations[: operation + 1]:
        sources = [getattr(other, field) for field in ("x", "a", "b") if hasattr(other, field)]
        known.append(all(known[source] for source in sources))
    return type(plan.operations[operation]).__name__ + (" of constants" if known[-1] else "")


def report(plan: EinsumPlan) -> str:
    """The plan as text."""
    operands = ", ".join(
        shape_text(shape) + (" constant" if constant else "")
        for shape, constant in zip(plan.shapes, plan.constants, strict=True)
    )
    lines = [f"{plan.equation}", f"  for {operands}"]
    dynamic = {str(size): hint(size) for size in _dynamic(plan.shapes)}
    if dynamic:
        lines.append(f"  costs where {', '.join(f'{size} = {value:,}' for size, value in dynamic.items())}")
    for number, step in enumerate(plan.steps, 1):
        lines += _step_lines(plan, number, step)
    if not plan.steps:
        lines.append("the operand as it is")
    other = naive(plan)
    rows = [
        ("", "FLOPs", "bytes moved", "largest value"),
        ("this plan", f"{plan.flops:,}", f"{plan.bytes:,}", f"{plan.largest:,} elements"),
        ("multiplied out", f"{other['flops']:,}", f"{other['bytes']:,}", f"{other['largest']:,} elements"),
    ]
    widths = [max(len(row[k]) for row in rows) for k in range(4)]
    lines += ["", *("  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)]
    return "\n".join(lines)


def _step_lines(plan: EinsumPlan, number: int, step: Step) -> list[str]:
    sources = ", ".join(map(text, step.labels[:-1]))
    lines = [f"{number}. {step.kind}: {sources} -> {text(step.labels[-1])}"]
    kinds = [(kind, getattr(step, kind)) for kind in ("batch", "contracted", "left", "right")]
    if any(labels for _, labels in kinds):
        lines.append("   " + "; ".join(f"{kind} {text(labels)}" for kind, labels in kinds if labels))
    lines += [f"   {note}" for note in step.notes]
    lines.append(f"   {', '.join(name(plan, k) for k in step.operations)}")
    lines.append(f"   {step.flops:,} FLOPs, {step.bytes:,} bytes, largest {step.elements:,} elements")
    return lines


def _dynamic(shapes: Sequence[Shape]) -> list[Size]:
    return list(dict.fromkeys(size for shape in shapes for size in shape if isinstance(size, Size)))
