"""Writes in place: which tensor a call writes to, and what a network cannot do as torch does."""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import Any

from ...core.errors import UnsupportedError
from ...core.lazy import torch
from ..calls import leaves
from .frames import here
from .memory import layout, marked, overlaps_itself
from .modes import storage_of
from .names import canonical, in_place


def target_of(
    function: Any,
    name: str,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    owners: Mapping[Any, str],
    held: Mapping[str, Any],
) -> torch.Tensor | None:
    """The tensor that the call writes to; ``owners`` of memory are the module's tensors, ``held``, by name."""
    if name == "set":
        attribute = getattr(getattr(function, "__self__", None), "__name__", "memory")
        if attribute in ("requires_grad", "grad"):
            return None
        raise UnsupportedError(f"a tensor's .{attribute} cannot be set in a network", location=here())
    target = kwargs.get("out")
    if target is None and (name == "setitem" or in_place(function, args, kwargs)):
        target = args[0] if args else next(iter(kwargs.values()))
    if target is None:
        return None
    if not isinstance(target, torch.Tensor):
        raise UnsupportedError(
            f"{canonical(function)[1]} writes to several tensors: write it without changing in place",
            location=here(),
        )
    owner = owners.get(storage_of(target))
    if isinstance(target, torch.nn.Parameter) or isinstance(held.get(owner or ""), torch.nn.Parameter):
        raise UnsupportedError(
            f"forward changes the parameter {owner} in place: a network's weights stay as they are. Compute from it "
            "what is needed, as weight = 0.9 * self.weight",
            location=here(),
        )
    return target


def check_writes(qualified: str, before: list[torch.Tensor], versions: list[int], target: torch.Tensor | None) -> None:
    """Raises UnsupportedError where an unknown tensor was written to, so that no write is dropped."""
    storage = None if target is None else storage_of(target)
    for tensor, version in zip(before, versions):
        if tensor._version != version and storage_of(tensor) != storage:
            raise UnsupportedError(
                f"{qualified} changes an operand in place, which a network cannot: write it anew", location=here()
            )


def overlap(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether two tensors of one memory have an element in common."""
    if not a.numel() or not b.numel() or a.element_size() != b.element_size():
        return bool(a.numel() and b.numel())
    marks = marked(a)
    return bool(marks.as_strided(b.shape, b.stride(), b.storage_offset()).any())


def is_basic(index: Any) -> bool:
    """Whether an index has numbers and slices alone, so that it gives a view."""
    items = index if isinstance(index, tuple) else (index,)
    return all(item is None or item is Ellipsis or isinstance(item, (slice, int)) for item in items) and not any(
        isinstance(item, bool) for item in items
    )


def check_operands(
    op: str, name: str, target: torch.Tensor, written: torch.Tensor, operands: list[torch.Tensor]
) -> None:
    """Raises UnsupportedError where a write reads what it writes, elsewhere: torch's result depends on the order.

    ``written`` is the target, or the part of it that is written to.
    """
    if overlaps_itself(target):
        raise UnsupportedError(
            f"{op} writes to a tensor of which several elements are one place in memory, as expand makes them: write "
            "to a .clone() of it",
            location=here(),
        )
    storage = storage_of(written)
    for operand in operands:
        if storage_of(operand) != storage or not overlap(written, operand):
            continue
        if layout(operand) != layout(written) or not _is_pointwise(name):
            raise UnsupportedError(
                f"{op} writes to memory that it also reads, through another view, and torch's result depends on the "
                "order in which it does so: read from a .clone()",
                location=here(),
            )


def _is_pointwise(name: str) -> bool:
    """Whether each element of the result is computed from the same element of the operands."""
    packet = getattr(torch.ops.aten, name, None)
    if packet is None:
        return name in ("setitem", "true_divide")
    tags = [torch.Tag.pointwise in getattr(packet, each).tags for each in packet.overloads()]
    return any(tags) or name in ("copy", "floor_divide")


def writes_itself(
    name: str,
    qualified: str,
    target: torch.Tensor,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    stale: Container[int],
) -> bool:
    """Whether the call copies a part of a tensor onto that same part; refuses one that reads what it overwrites.

    ``stale`` are the tensors, by id, whose memory another one has written to.
    """
    written, operands = target, _tensors((args, kwargs))
    if kwargs.get("out") is None or name == "setitem":
        operands.pop(0)  # the target itself
    else:
        operands = _tensors((args, {key: item for key, item in kwargs.items() if key != "out"}))
    if name == "setitem" and is_basic(args[1]):
        written = target[args[1]]
    check_operands(qualified, name, target, written, operands)
    same = [each for each in operands if storage_of(each) == storage_of(written) and layout(each) == layout(written)]
    fresh = id(target) not in stale and not any(id(each) in stale for each in same)
    return name in ("setitem", "copy") and written is not target and bool(same) and fresh


def refuse_set(overload: Any) -> None:
    """Raises UnsupportedError for ``x.set_(y)``, which torch's functions do not see."""
    if "aten.set_" in str(overload):
        raise UnsupportedError("a tensor's memory cannot be set in a network: assign the other tensor", location=here())


def _tensors(tree: Any) -> list[torch.Tensor]:
    return [leaf for leaf in leaves(tree) if isinstance(leaf, torch.Tensor)]
