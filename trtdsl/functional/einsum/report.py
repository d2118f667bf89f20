"""An einsum's plan as text and as JSON."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from ...sizes.shape import Shape, hint, shape_text
from ...sizes.size import Size
from .equation import ITEM, text

if TYPE_CHECKING:
    from .plan import EinsumPlan, Step


def naive(plan: EinsumPlan) -> dict[str, int]:
    """The costs of the usual rewrite: operands multiplied one after the other without summing, then one sum."""
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
