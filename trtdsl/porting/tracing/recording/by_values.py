"""Sizes and ends of slices that values say: those of what a mask over all places chooses."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from ....core.errors import UnsupportedError
from ....core.lazy import torch
from ....core.tensors.memory import storage_of
from ....definition.input import Input
from ...calls import Value, along, leaves
from ...translating.unknown import is_mask
from ..frames import here
from ..guards import BY_VALUES, UNBOUNDED
from ..names import CONVERSIONS, UNCHANGED
from ..scalars import READ, WHOLE, NeedsBelow, NeedsMost, in_order
from ..traced_sizes import plain_number
from .numbers import with_axes

PARTS = {
    *WHOLE,
    *UNCHANGED,
    *CONVERSIONS,
    "getitem",
    "unbind",
    "select",
    "index_select",
    "gather",
    "narrow",
    "split",
    "chunk",
}
PARTS |= {"min", "amin", "clamp_max", "unique", "masked_select"}
"""Functions that give numbers of one tensor, and none besides."""
MOST = 4096
"""How great a size is at most that is made of values which nothing bounds."""
COUNTING = {"one_hot": ("input", "num_classes"), "bincount": ("input", "weights", "minlength")}
BESIDE = {"add", "sub", "mul", "div", "true_divide", "maximum", "minimum"}
"""Functions that compute each element of two tensors alone."""
_CUT = (
    "a slice whose end a value says, or to a tensor that has one, of which a network has a copy: "
    "write anew, as torch.where(torch.arange(n) < end, a, b)"
)
_DATA = "a tensor that is another one's .data, which a network has twice: write anew, as y = y + 1, before it is given"
JOINED = {"cat", "stack", "hstack", "vstack", "maximum", "max"}


class ByValues:
    """Makes sizes of the numbers without values in a Recorder's trace."""

    def __init__(self, recorder: Any):
        self._recorder = recorder
        self._inputs: dict[Value, tuple[str, Input]] = {}
        self._masks: dict[Any, torch.Tensor] = {}  # by the size, the ends' values, and the call that has them
        self._sizes: dict[Any, Any] = {}
        self._copies: list[tuple[torch.Tensor, torch.Tensor]] = []  # what is cut, and what stands for a view of it
        self._given: list[tuple[torch.Tensor, torch.Tensor]] = []  # a tensor whose data another one is, and that one
        self._masks_of: dict[Any, list[Any]] = {}  # of pieces, by how long they and the whole are
        self._pieces: dict[Value, tuple[Any, int]] = {}  # the key of what a piece is of, and its place there

    def take(self, input: Value, name: str, spec: Input) -> None:
        """Notes an input."""
        self._inputs[input] = name, spec

    def check_write(self, target: torch.Tensor, name: str) -> None:
        """UnsupportedError where a call writes to a cut, or to what was cut: in torch, one is a view of the other.

        Likewise where a tensor was given as another's ``data``.
        """
        for pair, what in [*((pair, _CUT) for pair in self._copies), *((pair, _DATA) for pair in self._given)]:
            if storage_of(target) in map(storage_of, pair):
                raise UnsupportedError(f"{name} writes to {what}", location=here())

    def give_data(self, tensor: torch.Tensor, given: torch.Tensor) -> None:
        """Notes that a tensor has the memory of another one from now on."""
        self._given.append((tensor, given))

    # -- ends of slices ------------------------------------------------------------------------------------------------

    def cut(self, input: torch.Tensor, index: Any) -> Callable[[], Any] | None:
        """What an index gives in which whole numbers without values end slices; None for another one."""
        parts = list(index) if isinstance(index, tuple) else [index]
        axes = self._axes_of_ends(input, parts)
        if not axes:
            return None

        def taken() -> Any:
            found = input
            for place, axis in axes.items():
                found = found[(*[slice(None)] * axis, self._mask(found.shape[axis], parts[place]))]
            found = found[tuple(slice(None) if place in axes else part for place, part in enumerate(parts))]
            self._copies.append((input, found))
            return found

        return taken

    def pieces(self, input: torch.Tensor, sizes: Any = None, dim: int = 0, **named: Any) -> Callable[[], Any] | None:
        """What ``split`` gives of a list in which numbers without values say how long pieces are; None for others."""
        sizes = next(iter(named.values()), None) if sizes is None else sizes
        if not isinstance(sizes, (list, tuple)) or not any(map(self._is_number, sizes)):
            return None

        def cut() -> tuple[torch.Tensor, ...]:
            whole = input.shape[dim]
            lengths = tuple(self._recorder.value(each) if self._is_number(each) else each for each in sizes)
            key = lengths, plain_number(whole), self._recorder.bodies.container()
            if key not in self._masks_of:
                self._masks_of[key] = masks_of_pieces(whole, sizes)
            found = tuple(input[along(dim % input.dim(), mask)] for mask in self._masks_of[key])
            self._copies += [(input, piece) for piece in found]
            self._pieces |= {self._recorder.value(piece): (key, place) for place, piece in enumerate(found)}
            return found

        return cut

    def joined(self, parts: Any, dim: int = 0, **named: Any) -> Callable[[], Any] | None:
        """What ``cat`` gives of what was computed of all pieces that ``split`` gave, which is as long as they were.

        A trace does not know of the sum of lengths that values say. None for other parts.
        """
        if named or not isinstance(parts, (list, tuple)) or not all(isinstance(each, torch.Tensor) for each in parts):
            return None
        if any(each.shape[dim : dim + 1 or None] != (self._recorder.count,) for each in parts):
            return None  # they are not as long as pieces, which in a trace have so many places
        found = [self._piece_behind(each) for each in parts]
        key = found[0][0] if found and found[0] is not None else None
        if key is None or found != [(key, place) for place in range(len(key[0]))]:
            return None

        def join() -> torch.Tensor:
            first, axis = parts[0], dim % parts[0].dim()
            masks = self._masks_of[key]
            whole = first.new_zeros((*first.shape[:axis], masks[0].shape[0], *first.shape[axis + 1 :]))
            for mask, part in zip(masks, parts):
                whole[along(axis, mask)] = part
            return whole

        return join

    def as_many(self, function: Any, name: str, args: tuple[Any, ...]) -> Callable[[], Any] | None:
        """What a call gives of rows that a mask chooses beside a tensor that has as many; None for other calls.

        Torch takes no other number of rows, so that the size is that tensor's and no value's.
        """
        count = self._recorder.count
        tensors = name in BESIDE and len(args) == 2 and all(isinstance(each, torch.Tensor) for each in args)
        if not tensors or function.__name__.startswith("__i") or function.__name__ == f"{name}_":  # in place
            return None
        for rows, other in (args, args[::-1]):
            if rows.dim() != other.dim() or not rows.dim() or rows.shape[0] != count or other.shape[0] in (1, count):
                continue
            if (found := self._rows_of(rows)) is not None:
                self._recorder.assumed[here()] = None
                return partial(beside, function, args, rows, other, *found)
        return None

    def _rows_of(self, rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor] | None:
        """The tensor of whose leading dimensions a mask chooses these rows, and the mask, while both are unchanged."""
        value = self._recorder.values.get(id(rows))
        op = value.producer if value is not None else None
        if op is None or op.name != "getitem":
            return None
        index = op.args[1] if isinstance(op.args[1], tuple) else (op.args[1],)
        if not index or any(part != slice(None) for part in index[1:]):
            return None
        named = {id(tensor): tensor for tensor in self._recorder.kept}
        held = {each: named[key] for key, each in self._recorder.values.items() if key in named}
        base, mask = (held.get(each) if isinstance(each, Value) else None for each in (op.args[0], index[0]))
        return (base, mask) if base is not None and mask is not None and is_mask(mask) else None

    def _piece_behind(self, part: torch.Tensor) -> tuple[Any, int] | None:
        """The one piece that a tensor is computed of, and of nothing else whose size values say."""
        found, seen, wanted = set(), set(), [self._recorder.values.get(id(part))]
        while wanted:
            value = wanted.pop()
            if value is None or value in seen:
                continue
            seen.add(value)
            if value in self._pieces:
                found.add(self._pieces[value])
            elif value.producer is not None:
                wanted += value.producer.taken
        return next(iter(found)) if len(found) == 1 else None

    def written(self, input: torch.Tensor, index: Any, value: Any) -> Callable[[], Any] | None:
        """What writes a number, or what is the same at all places, where such an index says; None for another one."""
        parts = list(index) if isinstance(index, tuple) else [index]
        axes = self._axes_of_ends(input, parts)
        plain = isinstance(value, (bool, int, float)) or (isinstance(value, torch.Tensor) and not value.dim())
        if len(axes) != 1 or not plain or any(isinstance(part, (torch.Tensor, list, bool)) for part in parts):
            return None
        ((place, axis),) = axes.items()
        whole = tuple(slice(None) if part is parts[place] else part for part in parts)
        first, last = (sum(not isinstance(part, int) for part in side) for side in (parts[:place], parts[place + 1 :]))

        def write() -> None:
            before = input[whole]
            axis_now = before.dim() - 1 - last if Ellipsis in parts[:place] else first
            mask = self._mask(input.shape[axis], parts[place])
            shape = [-1 if dim == axis_now else 1 for dim in range(before.dim())]
            fits = before.is_floating_point() or type(value) is (bool if before.dtype == torch.bool else int)
            given = value if fits and not isinstance(value, torch.Tensor) else torch.as_tensor(value).to(before.dtype)
            input[whole] = torch.where(mask.view(shape), given, before)

        return write

    def _axes_of_ends(self, input: torch.Tensor, parts: list[Any]) -> dict[int, int]:
        """The dimensions that slices cut at numbers without values, by their places in an index."""
        found = {
            place: axis
            for place, part, axis in with_axes(input, parts)
            if isinstance(part, slice) and any(map(self._is_number, (part.start, part.stop)))
        }
        return found if all(parts[place].step in (None, 1) for place in found) else {}

    def _is_number(self, given: Any) -> bool:
        """Whether it is a whole number without values, and none that is taken for a size of the inputs."""
        if not isinstance(given, torch.Tensor) or type(given) in (torch.Tensor, torch.nn.Parameter):
            return False
        if given.numel() != 1 or given.is_floating_point() or given.dtype == torch.bool:
            return False
        return BY_VALUES.get() or self._recorder.numbers.greatest(given) is None

    def _mask(self, size: Any, part: slice) -> torch.Tensor:
        """Which of so many places a slice has; the same for the same ends."""
        ends = [self._recorder.value(each) if self._is_number(each) else each for each in (part.start, part.stop)]
        key = (plain_number(size), *ends, self._recorder.bodies.container())
        if key not in self._masks:
            steps = torch.arange(size)
            ends = [
                each.reshape(()) if self._is_number(each) and each.dim() else each for each in (part.start, part.stop)
            ]
            ends = [torch.where(each < 0, each + size, each) if self._is_number(each) else each for each in ends]
            ends = [end + size if isinstance(end, int) and end < 0 else end for end in ends]
            masks = [steps >= ends[0]] if ends[0] is not None else []
            masks += [steps < ends[1]] if ends[1] is not None else []
            self._masks[key] = masks[0] if len(masks) == 1 else masks[0] & masks[1]
        return self._masks[key]

    # -- sizes ---------------------------------------------------------------------------------------------------------

    def size(self, name: str, given: Any) -> Any:
        """The size that a whole number without values is, which an input's range bounds; anything else as it is.

        Raises UnsupportedError from NeedsBelow where nothing says that of the inputs.
        """
        of_a_size = name == "index" and not BY_VALUES.get()  # of torch's own, which has no place for other numbers
        if (name in READ and not of_a_size) or name in ("getitem", "setitem") or not self._is_number(given):
            return given
        below: dict[str, int] = {}
        value = self._recorder.value(given)
        ends = self._ends(value, below)
        if ends is None:
            if not UNBOUNDED.get():
                raise UnsupportedError("a size is as great as computed values say", location=here()) from NeedsMost()
            ends = 0, MOST
        elif ends[0] < 0 or not below:
            return given
        elif not BY_VALUES.get() or any(spec.below is None for key, spec in self._inputs.values() if key in below):
            error = UnsupportedError(f"a size is as great as values of {' and '.join(below)} say", location=here())
            raise error from NeedsBelow(below)
        key = value, self._recorder.bodies.container()
        if key not in self._sizes:
            steps = torch.arange(ends[1])
            self._sizes[key] = steps[steps < (given.reshape(()) if given.dim() else given)].shape[0]
        return self._sizes[key]

    def _ends(self, value: Value, below: dict[str, int]) -> tuple[int, int] | None:
        """Between what numbers all of a value lie, and the inputs of which that is so; None where nothing says it."""
        if value in self._inputs:
            name, spec = self._inputs[value]
            if not isinstance(spec.sample, tuple) or value.dtype.is_floating_point:
                return None
            below[name] = int(spec.sample[1])
            return int(spec.sample[0]), int(spec.sample[1]) - 1
        op = value.producer
        if op is None or op.inner or not op.args:
            return None
        values = [leaf for leaf in leaves(op.args) if isinstance(leaf, Value)]
        if op.name in JOINED and len(values) > 1:
            every = [ends for each in values if (ends := self._ends(each, below)) is not None]
            return (min(low for low, _ in every), max(high for _, high in every)) if len(every) == len(values) else None
        if not isinstance(op.args[0], Value):
            return None
        function = (lambda each: each) if op.name in {*PARTS, *JOINED} else in_order(op.name, op.args[1:], op.kwargs)
        ends = None if function is None else self._ends(op.args[0], below)
        return None if ends is None or function is None else (int(function(ends[0])), int(function(ends[1])))


def beside(
    function: Any, args: Any, rows: torch.Tensor, other: torch.Tensor, base: torch.Tensor, mask: torch.Tensor
) -> Any:
    """The result of a call in which one operand is the rows that the mask chooses of ``base``, as many as another."""
    chosen = first_rows(base, mask, other.shape[0])
    return function(*(chosen if each is rows else each for each in args))


def first_rows(base: torch.Tensor, mask: torch.Tensor, count: Any) -> torch.Tensor:
    """The ``count`` rows that a mask chooses of the leading dimensions, or the one as often: it stretches in torch."""
    chosen = mask.flatten()
    place = chosen.cumsum(0) - 1
    place = torch.where(chosen & (place < count), place, count)  # of what is not taken, behind them
    only = chosen.int().argmax().expand(count + 1)
    taken = only.scatter(0, place, torch.arange(chosen.shape[0]))[:count]
    return base.flatten(0, mask.dim() - 1)[taken]


def masks_of_pieces(whole: Any, sizes: Sequence[Any]) -> list[torch.Tensor]:
    """Which places of a dimension each piece has; the last one ends with the dimension."""
    steps, masks, start = torch.arange(whole), [], 0
    for size in sizes[:-1]:
        masks.append((steps >= start) & (steps < start + size) if masks else steps < size)
        start = start + size
    return [*masks, steps >= start]


def counting(name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Callable[[], Any] | None:
    """What gives as many classes or bins as values of a tensor without values say; None for other calls."""
    given = {**dict(zip(COUNTING.get(name, ()), args)), **kwargs}
    input = given.get("input")
    if not isinstance(input, torch.Tensor) or type(input) in (torch.Tensor, torch.nn.Parameter):
        return None
    if name == "one_hot" and given.get("num_classes", -1) == -1:
        return lambda: (input.unsqueeze(-1) == torch.arange(input.max().item() + 1)).long()
    if name == "bincount":
        weights, most = given.get("weights"), given.get("minlength", 0)

        def bins() -> torch.Tensor:
            count: Any = (input.max() + 1).clamp(min=most) if most else input.max() + 1
            ones = torch.ones_like(input) if weights is None else weights
            return torch.zeros(count.item(), dtype=ones.dtype).scatter_add(0, input, ones)

        return bins
    return None
