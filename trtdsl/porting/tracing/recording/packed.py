"""Packed sequences: a trace has them padded, as they were, with their lengths, which F.lstm, gru and rnn take."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from ....core.errors import UnsupportedError
from ....core.lazy import torch
from ....core.tensors.watched import each_call
from ...calls import leaves
from ..frames import here
from ..scalars import NeedsLongest
from ..traced_sizes import expression_of, plain_number, traced

RECURRENT = ("lstm", "gru", "rnn_tanh", "rnn_relu")
FACTS = {"dim", "ndim", "dtype", "device", "is_cuda", "layout", "requires_grad"}


@dataclass(frozen=True)
class Packed:
    """What stands for rows of sequences that are packed."""

    padded: torch.Tensor
    lengths: torch.Tensor
    batch_first: bool
    sizes: torch.Tensor
    """What stands for the number of sequences at each step."""
    longest: Any
    """The greatest length, or what stands for it."""
    settled: bool
    """Whether it is the greatest length."""
    zeros: bool = False
    """Whether the padded tensor is 0 behind the ends."""

    @property
    def steps(self) -> int:
        """The dimension of steps."""
        return int(self.batch_first)


class PackedSequences:
    """The packed sequences of a Recorder's trace; only recurrent networks and what unpacks them may take these."""

    def __init__(self, recorder: Any):
        self.recorder = recorder
        self.found: dict[int, Packed] = {}  # by the identity of their rows, and of their sizes

    def called(self, function: Any, name: str, args: tuple[Any, ...], kwargs: Any) -> Callable[[], Any] | None:
        """What gives the result of a call that is of packed sequences; None for others."""
        if name == "_pack_padded_sequence":
            return lambda: self._packed(*args, **kwargs)
        found = next((self.found[id(leaf)] for leaf in leaves((args, kwargs)) if id(leaf) in self.found), None)
        if found is None or name in FACTS:
            return None
        if args[0] is found.sizes and (name, args[1:]) == ("getitem", (0,)):
            return lambda: self._shape(found.padded)[1 - found.steps]
        if args[0] is found.sizes and (name, args[1:]) == ("size", (0,)):
            return lambda: found.longest
        if (name, args[1:]) == ("size", (-1,)):
            return lambda: found.padded.shape[-1]
        if name in RECURRENT:
            return lambda: self._run(function, name, found, *args[2:])
        if name == "_pad_packed_sequence":
            return lambda: self._unpacked(found, *args[2:])
        raise UnsupportedError(
            f"{name} of packed sequences: pack what it gives of the padded tensor, since a network has no packed ones",
            location=here(),
        )

    def refuse(self, results: Iterable[Any]) -> None:
        """UnsupportedError where forward gives the rows or the sizes of packed sequences."""
        if any(id(each) in self.found for each in results):
            raise UnsupportedError("forward gives packed sequences, and a network has none: pad_packed_sequence")

    def _packed(self, input: torch.Tensor, lengths: torch.Tensor, batch_first: bool) -> Any:
        steps = self._shape(input)[int(batch_first)]
        sizes = self._stands_for(lengths, [3], torch.int64)
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
        return self._rows(packed), sizes

    def _fill(self, lengths: torch.Tensor, steps: Any) -> bool:
        """Whether lengths that sizes alone make, and no input, are so many at most; a guard says that they are so."""
        if not self.recorder.value(lengths).known:
            return False
        with each_call(self.recorder.called):
            return bool(lengths.max() == steps)

    def _shape(self, tensor: torch.Tensor) -> Any:
        with each_call(self.recorder.called):
            return tensor.shape

    def _rows(self, packed: Packed) -> torch.Tensor:
        rows = self._stands_for(packed.padded, [3, packed.padded.shape[-1]], packed.padded.dtype)
        self.found[id(rows)] = packed
        return rows

    def _stands_for(self, tensor: torch.Tensor, shape: list[int], dtype: torch.dtype) -> torch.Tensor:
        """A tensor whose value in the program is that of another."""
        self.recorder.inside = True
        try:
            found = torch.empty([*map(plain_number, shape)], dtype=dtype)
        finally:
            self.recorder.inside = False
        self.recorder.values[id(found)] = self.recorder.value(tensor)
        self.recorder.kept.append(found)
        return found

    def _run(self, function: Any, name: str, found: Packed, *given: Any) -> Any:
        def padded(*args: Any, lengths: Any) -> Any:
            return function(*args)

        args, kwargs = (found.padded, *given, found.batch_first), {"lengths": found.lengths}
        first, *states = self.recorder.recorded(padded, name, f"torch.{name}", "function", args, kwargs)
        made = Packed(first, found.lengths, found.batch_first, found.sizes, found.longest, found.settled, zeros=True)
        return (self._rows(made), *states)

    def _unpacked(self, found: Packed, batch_first: bool, padding_value: float, total: Any) -> Any:
        """The padded tensor, and the lengths."""
        if total is found.longest and not found.settled:
            known = self.recorder.numbers.greatest(found.lengths)
            raise UnsupportedError(
                "how long the longest sequence is depends on values: give "
                f"pad_packed_sequence total_length=x.shape[{found.steps}], the length of what was packed",
                location=here(),
            ) from (NeedsLongest(known, lengths=True) if known is not None else None)
        with each_call(self.recorder.called):
            padded = found.padded if found.batch_first else found.padded.transpose(0, 1)
            steps = padded.shape[1]
            if total != steps:
                padded = torch.nn.functional.pad(padded, (0, 0, 0, total - steps))
            if padding_value or not found.zeros:
                inside = torch.arange(total)[None, :, None] < found.lengths[:, None, None]
                padded = torch.where(inside, padded, padding_value)
            return padded if batch_first else padded.transpose(0, 1), found.lengths
