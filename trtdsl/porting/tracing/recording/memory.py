"""Tensors that share memory: what one of them is made of, and what a write to one does to the others.

torch's views share the memory of the tensor that they are made from. A network has no memory to share: a write gives
the tensor that is written to a new value, and the tensors that it is a view of, back to the first, each a new value
with that part in its place. Every other view is stale; it is made again from its tensor's new value when it is read.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass
from typing import Any

from ....core.errors import Location, UnsupportedError
from ....core.lazy import torch
from ....core.tensors.dense import writes
from ....core.tensors.memory import storage_of
from ...calls import Op, SizeOf, Value, along, leaves
from ..frames import here
from ..guards import WRITTEN, WritesParameters
from ..modes import torch_tensors
from ..names import canonical, in_place


@dataclass(eq=False)
class View:
    """How a tensor is made of another one that shares its memory."""

    base: torch.Tensor
    op: Op | None
    """The call that made it; None where it has the same value."""
    parts: list[torch.Tensor]
    """All that the call made, in order."""

    def place(self, tensor: torch.Tensor) -> int:
        return next(place for place, part in enumerate(self.parts) if part is tensor)


def layout(tensor: torch.Tensor) -> tuple[Any, ...]:
    """Which elements of its memory a tensor has."""
    return tensor.storage_offset(), tuple(map(int, tensor.shape)), tuple(map(int, tensor.stride()))


def overlaps_itself(tensor: torch.Tensor) -> bool:
    """Whether two of its elements are one place in memory, as after ``expand``."""
    if tensor.layout != torch.strided or not tensor.numel():
        return False
    reach = 1
    for stride, size in sorted((stride, size) for stride, size in zip(tensor.stride(), tensor.shape) if size > 1):
        if stride < reach:
            return int(marked(tensor).sum()) != tensor.numel()  # counted one by one
        reach += stride * (size - 1)
    return False


def marked(tensor: torch.Tensor) -> torch.Tensor:
    marks = torch.zeros(tensor.untyped_storage().nbytes() // tensor.element_size(), dtype=torch.bool)
    marks.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset()).fill_(True)
    return marks


RESHAPED = {
    *("view", "reshape", "flatten", "ravel", "unflatten", "squeeze", "unsqueeze", "view_as", "reshape_as"),
    *("atleast_1d", "atleast_2d", "atleast_3d"),
}
ARGUMENTS = {
    "select": ("dim", "index"),
    "unbind": ("dim",),
    "narrow": ("dim", "start", "length"),
    "transpose": ("dim0", "dim1"),
    "movedim": ("source", "destination"),
}
DIAGONAL = {"offset": 0, "dim1": 0, "dim2": 1}
OTHER_PART = {"real": "imag", "imag": "real"}
INVERSE = {name: name for name in ("t", "T", "mT", "transpose")}
INVERSE |= {"view_as_real": "view_as_complex", "view_as_complex": "view_as_real"}


def written_back(view: View, tensor: torch.Tensor, base: Value, value: Any) -> tuple[str, str, tuple[Any, ...]] | None:
    """Name, form and arguments of the call that gives the base with the view's new value in its place.

    ``base`` is the base's former value and ``value`` gives the value that a part of the view has now. None where there
    is no such call.
    """
    op = view.op
    assert op is not None
    now = value(tensor)
    rest = op.args[1:]
    if op.name in RESHAPED and now.dtype == base.dtype:
        return "reshape", "method", (now, *(SizeOf(base, axis, size) for axis, size in enumerate(base.shape)))
    if op.name == "diagonal" and op.qualified != "torch.linalg.diagonal":  # of other dimensions
        given = DIAGONAL | dict(zip(DIAGONAL, rest)) | op.kwargs
        return "diagonal_scatter", "function", (base, now, *given.values())
    if op.name in ARGUMENTS:
        rest = (*rest, *(op.kwargs[name] for name in ARGUMENTS[op.name][len(rest) :] if name in op.kwargs))
    elif op.kwargs and op.name not in PARTS:
        return None
    if op.name == "getitem":
        return "setitem", "setitem", (base, rest[0], now)
    if op.name in ("select", "unbind"):
        dim = rest[0] if rest else 0
        place = rest[1] if op.name == "select" else view.place(tensor)
        return "setitem", "setitem", (base, along(dim % len(base.shape), place), now)
    if op.name == "narrow" and isinstance(rest[1], int) and isinstance(rest[2], int):
        end = rest[1] + rest[2]
        place = slice(rest[1], end if end or rest[1] >= 0 else None)
        return "setitem", "setitem", (base, along(rest[0] % len(base.shape), place), now)
    if op.name in PARTS:
        dim = PARTS[op.name](base, (*rest, *(op.kwargs[key] for key in ("dim",) if key in op.kwargs)))
        return "cat", "function", ([value(part) for part in view.parts], dim)
    if op.name in INVERSE:
        return INVERSE[op.name], op.form, (now, *rest)
    if op.name == "permute":
        order = rest[0] if len(rest) == 1 and isinstance(rest[0], (list, tuple)) else rest
        order = [place % len(order) for place in order]
        return "permute", "method", (now, *(order.index(axis) for axis in range(len(order))))
    if op.name == "movedim":
        return "movedim", "function", (now, rest[1], rest[0])
    return None


PARTS: dict[str, Callable[[Value, tuple[Any, ...]], int]] = {
    **dict.fromkeys(
        ("chunk", "split", "tensor_split", "split_with_sizes"), lambda _, rest: rest[1] if len(rest) > 1 else 0
    ),
    "vsplit": lambda *_: 0,
    "hsplit": lambda base, _: min(1, len(base.shape) - 1),
    "dsplit": lambda *_: 2,
}


class Kept(list[torch.Tensor]):
    """The tensors of a trace, which are kept so that no identity is used twice."""

    def __init__(self) -> None:
        super().__init__()
        self._by_memory: dict[int, list[torch.Tensor]] = {}
        self._seen = 0

    def sharing(self, memory: int) -> list[torch.Tensor]:
        """Those of this memory."""
        for tensor in self[self._seen :]:
            self._by_memory.setdefault(storage_of(tensor), []).append(tensor)
        self._seen = len(self)
        return self._by_memory.get(memory, [])


class Memory:
    """Views and stale tensors of one trace. ``values`` and ``kept`` are the recorder's; ``note`` writes a call down."""

    def __init__(self, values: dict[int, Value], kept: Kept, note: Callable[[Op], None]):
        self.values, self.kept, self.note = values, kept, note
        self.stale: dict[int, Location | None] = {}
        self.views: dict[int, View] = {}

    def made(self, base: torch.Tensor, op: Op | None, results: list[torch.Tensor]) -> None:
        """Keeps which of the results of a call are views of its operand."""
        storage = storage_of(base)
        for tensor in results:
            if tensor is not base and storage_of(tensor) == storage:
                self.views[id(tensor)] = View(base, op, results)

    def again(self, tensor: torch.Tensor, value: Callable[[torch.Tensor], Value], path: str) -> Value | None:
        """The value of a stale view, made from that of its base; None where there is no way to make it."""
        view = self.views.get(id(tensor))
        if view is None:
            return None
        base = value(view.base)  # which may be stale itself
        former = self.values[id(tensor)]
        if view.op is None:
            made = base
        else:
            made = Value(former.shape, former.dtype, former.known and base.known, former.name)
            results: Any = made
            if not isinstance(view.op.results, Value):
                results = [
                    made if part is tensor else Value(tuple(part.shape), former.dtype, made.known)
                    for part in view.parts
                ]
            op = dataclasses.replace(view.op, args=(base, *view.op.args[1:]), results=results, path=path)
            for result in leaves(results):
                result.producer = op
            self.note(op)
        self.values[id(tensor)] = made
        del self.stale[id(tensor)]
        return made

    def changed(
        self,
        target: torch.Tensor,
        op: Op,
        value: Callable[[torch.Tensor], Value],
        new: Callable[[torch.Tensor, Op], Value],
    ) -> None:
        """Writes the target's new value into the tensors that it is a view of; others that share memory are stale."""
        before, line = set(self.stale), op.location
        chain = [target]
        formers: list[Value] = []  # of the tensors in the chain after the first
        parts: dict[int, Value] = {}  # values of parts that stay as they are, taken before their base changes
        while (view := self.views.get(id(chain[-1]))) is not None and id(view.base) not in before:
            for part in view.parts if view.op is not None and view.op.name in PARTS else ():
                if part is not chain[-1]:  # which no write to the others changes
                    parts[id(part)] = value(part)
            chain.append(view.base)
            formers.append(value(view.base))
        for other in self.kept.sharing(storage_of(target)):
            if other is not target and id(other) not in parts:
                self.stale[id(other)] = line
        self.stale.pop(id(target), None)
        for inner, base, former in zip(chain, chain[1:], formers):
            view = self.views[id(inner)]
            if overlaps_itself(base):
                break
            if view.op is None:
                self.values[id(base)] = self.values[id(inner)]
            else:
                if (other := OTHER_PART.get(view.op.name)) is not None:
                    kept = Value(former.shape, self.values[id(inner)].dtype, former.known, other)
                    own = view.op.qualified.replace(view.op.name, other)
                    kept.producer = Op(other, own, view.op.form, (former,), {}, kept, line, op.path)
                    self.note(kept.producer)
                    sides = {view.op.name: self.values[id(inner)], other: kept}
                    call = "complex", "function", (sides["real"], sides["imag"])
                else:
                    call = written_back(view, inner, former, lambda part: parts.get(id(part)) or self.values[id(part)])
                if call is None:
                    break
                name, form, args = call
                write = Op(name, op.qualified, form, args, {}, None, line, op.path)
                write.results = new(base, write)
                write.results.name = former.name
                self.note(write)
            self.stale.pop(id(base), None)

    def reshaped(self, target: torch.Tensor) -> None:
        """Forgets what the target is a view of, and what views it has, where its own shape changed in place."""
        self.views.pop(id(target), None)
        for key, view in list(self.views.items()):
            if view.base is target:
                del self.views[key]


# -- writes in place -------------------------------------------------------------------------------------------------


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
        if attribute in ("requires_grad", "grad", "_backward_hooks"):
            return None
        raise UnsupportedError(f"a tensor's .{attribute} cannot be set in a network", location=here())
    target = kwargs.get("out")
    if target is None and (name == "setitem" or in_place(function, args, kwargs)):
        target = args[0] if args else next(iter(kwargs.values()))
    if target is None:
        return None
    if not isinstance(target, torch.Tensor):
        raise UnsupportedError(
            f"{canonical(function)[1]} writes to several tensors: write it without changing in place", location=here()
        )
    owner = owners.get(storage_of(target))
    parameter = isinstance(target, torch.nn.Parameter) or isinstance(held.get(owner or ""), torch.nn.Parameter)
    if parameter and not WRITTEN.get():
        raise UnsupportedError(
            f"forward changes {'a parameter that it makes' if owner is None else f'the parameter {owner} in place'}: a "
            "network's weights stay as they are. Compute from it what is needed, as weight = 0.9 * self.weight",
            location=here(),
        ) from WritesParameters()
    return target


def check_writes(qualified: str, before: list[torch.Tensor], versions: list[int], target: torch.Tensor | None) -> None:
    """Raises UnsupportedError where an unknown tensor was written to, so that no write is dropped."""
    storage = None if target is None else storage_of(target)
    for tensor, version in zip(before, versions):
        if writes(tensor) != version and storage_of(tensor) != storage:
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
    return all(
        item is None or item is Ellipsis or (type(item) is not bool and isinstance(item, (slice, int)))
        for item in items
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
    written, operands = target, torch_tensors((args, kwargs))
    if kwargs.get("out") is None or name == "setitem":
        operands.pop(0)  # the target itself
    else:
        operands = torch_tensors((args, {key: item for key, item in kwargs.items() if key != "out"}))
    if name == "setitem" and is_basic(args[1]):
        written = target[args[1]]
    check_operands(qualified, name, target, written, operands)
    same = [each for each in operands if storage_of(each) == storage_of(written) and layout(each) == layout(written)]
    fresh = id(target) not in stale and not any(id(each) in stale for each in same)
    return (name == "copy" or (name == "setitem" and written is not target)) and bool(same) and fresh


def refuse_set(overload: Any) -> None:
    """Raises UnsupportedError for ``x.set_(y)``, which torch's functions do not see."""
    if "aten.set_" in str(overload):
        raise UnsupportedError("a tensor's memory cannot be set in a network: assign the other tensor", location=here())
