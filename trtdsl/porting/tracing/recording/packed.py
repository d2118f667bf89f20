"""Packed sequences: a trace has them padded, as they were, with their lengths, which F.lstm, gru and rnn take.

Their rows are those of the padded tensor, with those behind the ends: forward may compute of them what computes each
row alone (scans/alone.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from ....core.errors import UnsupportedError
from ....core.lazy import torch
from ....core.tensors.watched import each_call
from ...calls import Op, Value, leaves, tensors_in
from ..frames import here
from ..guards import Guard
from ..scalars import NeedsLongest
from ..scans.alone import Together, axis_of_result, has_lengths
from ..stand_ins import NAMESAKES
from ..traced_sizes import expression_of, plain_number, traced

RECURRENT = ("lstm", "gru", "rnn_tanh", "rnn_relu")
FACTS = {"dim", "ndim", "dtype", "device", "is_cuda", "layout", "requires_grad"}
REFUSED = (
    "of packed sequences: a network has them padded, with rows behind the ends: compute what takes several rows "
    "together of the padded tensor"
)


@dataclass(frozen=True, eq=False)
class Packed:
    """Sequences that are packed."""

    padded: torch.Tensor
    lengths: torch.Tensor
    batch_first: bool
    sizes: torch.Tensor
    """What stands for the number of sequences at each step."""
    longest: Any
    """The greatest length, or what stands for it."""
    settled: bool
    """Whether it is the greatest length."""

    @property
    def steps(self) -> int:
        """The dimension of steps."""
        return int(self.batch_first)


def pad_sequence(
    sequences: Iterable[torch.Tensor],
    batch_first: bool = False,
    padding_value: float = 0.0,
    padding_side: str = "right",
) -> torch.Tensor:
    """``torch.nn.utils.rnn.pad_sequence``, of sequences whose lengths sizes or values say."""
    each = [*sequences]
    longest = NAMESAKES["max"]([x.shape[0] for x in each])

    def pads(x: torch.Tensor) -> list[Any]:
        further = longest - x.shape[0]
        return [*[0, 0] * (x.dim() - 1), *([further, 0] if padding_side == "left" else [0, further])]

    padded = [torch.nn.functional.pad(x, pads(x), value=padding_value) for x in each]
    return torch.stack(padded, dim=0 if batch_first else 1)


class PackedSequences:
    """The packed sequences of a Recorder's trace."""

    def __init__(self, recorder: Any):
        self.recorder = recorder
        self.found: dict[int, Packed] = {}  # by the identity of their sizes
        self.padded: dict[Value, torch.Tensor] = {}  # of what is packed, or what a network gives, by its rows
        self.axes: dict[Value, int] = {}  # the dimension of rows, of them and what is computed of them
        self.packings: dict[Value, Packed] = {}
        self.ended: set[Value] = set()  # padded tensors that are 0 behind the ends

    def called(self, function: Any, name: str, args: tuple[Any, ...], kwargs: Any) -> Callable[[], Any] | None:
        """What gives the result of a call that is of packed sequences; None for others, such as of their rows."""
        if name == "_pack_padded_sequence":
            return lambda: self._packed(*args, **kwargs)
        found = next((self.found[id(leaf)] for leaf in leaves((args, kwargs)) if id(leaf) in self.found), None)
        if found is None or name in FACTS:
            return None
        if args[0] is found.sizes and (name, args[1:]) == ("getitem", (0,)):
            return lambda: self._shape(found.padded)[1 - found.steps]
        if args[0] is found.sizes and (name, args[1:]) == ("size", (0,)):
            return lambda: found.longest
        if name in RECURRENT:
            return lambda: self._run(function, name, found, args[0], *args[2:])
        if name == "_pad_packed_sequence":
            return lambda: self._unpacked(found, args[0], *args[2:])
        raise UnsupportedError(f"{name} {REFUSED}", location=here())

    def follow(self, op: Op) -> None:
        """Notes the rows that a call gives of rows. Raises UnsupportedError where it takes several of them together."""
        given = {each: self.axes[each] for each in tensors_in((op.args, op.kwargs)) if each in self.axes}
        if not given and not (self.axes and has_lengths((op.args, op.kwargs), self.axes)):
            return
        packings = {self.packings[each] for each in given}
        try:
            if len(packings) != 1:
                raise Together
            axis = axis_of_result(op, given, self.axes)
        except Together:
            raise UnsupportedError(f"{op.name} {REFUSED}", location=op.location) from None
        self.axes.update(dict.fromkeys(op.made, axis))
        self.packings.update(dict.fromkeys(op.made, packings.pop()))

    def refuse(self, results: Iterable[Any], guards: Iterable[Guard]) -> None:
        """UnsupportedError where forward gives packed sequences, or asks how many rows they have."""
        given = [each for each in results if isinstance(each, torch.Tensor)]
        if any(id(each) in self.found or (self.axes and self.recorder.value(each) in self.axes) for each in given):
            raise UnsupportedError("forward gives packed sequences, and a network has none: pad_packed_sequence")
        for guard in guards:
            if self.axes and has_lengths((guard.left, guard.right), self.axes):
                raise UnsupportedError(f"the number of rows {REFUSED}", location=guard.location)

    def _packed(self, input: torch.Tensor, lengths: torch.Tensor, batch_first: bool) -> Any:
        steps = self._shape(input)[int(batch_first)]
        sizes = self._stands_for(lengths)
        known = self.recorder.numbers.greatest(lengths)
        unsorted = known is not None and known.place is None and not known.descending and lengths.numel() > 1
        if known is not None and unsorted and (known.size or known.axis is None):
            raise UnsupportedError(
                "pack_padded_sequence takes lengths of which the longest is the first: give it enforce_sorted=False",
                location=here(),
            ) from NeedsLongest(known, first=True)
        if known is None or known.size is None:
            longest = traced(plain_number(steps), expression_of(steps))
            settled = self._fill(lengths, steps)
        elif known.size > steps:
            raise ValueError(f"a sequence is {known.size} long, and what is packed {steps}")
        else:
            longest, settled = known.size, True
        packed = Packed(input, lengths, batch_first, sizes, longest, settled)
        self.found[id(sizes)] = packed
        return self._rows(packed, input), sizes

    def _fill(self, lengths: torch.Tensor, steps: Any) -> bool:
        """Whether lengths that sizes alone make, and no input, are so many at most; a guard says that they are so."""
        if not self.recorder.value(lengths).known:
            return False
        with each_call(self.recorder.called):
            return bool(lengths.max() == steps)

    def _shape(self, tensor: torch.Tensor) -> Any:
        with each_call(self.recorder.called):
            return tensor.shape

    def _stands_for(self, lengths: torch.Tensor) -> torch.Tensor:
        """A tensor in the place of the number of sequences at each step."""
        self.recorder.inside = True
        try:
            found = torch.empty(3, dtype=torch.int64)
        finally:
            self.recorder.inside = False
        self.recorder.values[id(found)] = self.recorder.value(lengths)
        self.recorder.kept.append(found)
        return found

    def _rows(self, packed: Packed, padded: torch.Tensor) -> torch.Tensor:
        with each_call(self.recorder.called):
            rows = padded.flatten(0, 1).clone()  # which forward may write to
        value = self.recorder.value(rows)
        self.padded[value], self.axes[value], self.packings[value] = padded, 0, packed
        return rows

    def _padded(self, packed: Packed, rows: torch.Tensor) -> torch.Tensor:
        value = self.recorder.value(rows)
        if value in self.padded:
            return self.padded[value]
        if self.axes.pop(value, None) != 0:  # or these calls were refused
            raise UnsupportedError(f"another dimension {REFUSED}", location=here())
        with each_call(self.recorder.called):
            padded = rows.reshape(*packed.padded.shape[:2], *rows.shape[1:])
        self.axes[value] = 0
        return padded

    def _run(self, function: Any, name: str, found: Packed, rows: torch.Tensor, *given: Any) -> Any:
        def padded(*args: Any, lengths: Any) -> Any:
            return function(*args)

        args, kwargs = (self._padded(found, rows), *given, found.batch_first), {"lengths": found.lengths}
        first, *states = self.recorder.recorded(padded, name, f"torch.{name}", "function", args, kwargs)
        self.ended.add(self.recorder.value(first))
        return (self._rows(found, first), *states)

    def _unpacked(self, found: Packed, rows: torch.Tensor, batch_first: bool, padding_value: float, total: Any) -> Any:
        """The padded tensor, and the lengths."""
        if total is found.longest and not found.settled:
            known = self.recorder.numbers.greatest(found.lengths)
            raise UnsupportedError(
                "how long the longest sequence is depends on values: give "
                f"pad_packed_sequence total_length=x.shape[{found.steps}], the length of what was packed",
                location=here(),
            ) from (NeedsLongest(known, lengths=True) if known is not None else None)
        padded = self._padded(found, rows)
        zeros = self.recorder.value(padded) in self.ended
        with each_call(self.recorder.called):
            padded = padded if found.batch_first else padded.transpose(0, 1)
            steps = padded.shape[1]
            if total != steps:
                padded = torch.nn.functional.pad(padded, (*(0, 0) * (padded.dim() - 2), 0, total - steps))
            if padding_value or not zeros:
                inside = torch.arange(total)[None] < found.lengths[:, None]
                inside = inside[(..., *(None,) * (padded.dim() - 2))]
                padded = torch.where(inside, padded, padding_value)
            return padded if batch_first else padded.transpose(0, 1), found.lengths
