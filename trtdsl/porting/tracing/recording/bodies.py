"""The calls of modules, and of the author's functions inside of them, whose bodies a trace is writing."""

from __future__ import annotations

from collections.abc import Mapping
from types import FrameType
from typing import Any

from ....core.lazy import torch
from ...calls import Call, Helper, Op, Value
from ..frames import helper_frames
from ..guards import GUARDS
from ..traced_sizes import TracedFloat, TracedInt


class Bodies:
    """The calls that are open, the innermost last; ``values`` has those of tensors by their identity."""

    def __init__(self, module: torch.nn.Module, values: Mapping[int, Value]):
        self.root = Call("", module, {})
        self._values = values
        self._open: list[Call] = []
        self._functions: list[list[tuple[FrameType, Call]]] = []  # open ones of each module that is open

    @property
    def path(self) -> str:
        """The path of the module that runs."""
        return self._open[-1].path if self._open else ""

    def begin(self, call: Call) -> None:
        """A module's call begins."""
        if self._open:
            self.container(begins=True).body.append(call)
        else:
            self.root = call
        self._open.append(call)
        self._functions.append([])

    def end(self, results: Any) -> None:
        """The innermost module's call ends with these results."""
        self._open.pop().results = results
        self._functions.pop()

    def note(self, op: Op, container: Call | None = None) -> None:
        """Writes a call of torch's into a body: that of ``container``, or the one that is being written."""
        (container or self.container()).body.append(op)
        record = GUARDS.get()
        if record is not None:
            record.calls += 1

    def container(self, begins: bool = False) -> Call:
        """The call whose body is being written: the running module's, or that of a function that its forward called.

        ``begins`` says that another module is about to run.
        """
        if not self._open:  # forward has ended: what it gives is a constant
            return self.root
        functions = self._functions[-1]
        frames = helper_frames(begins)
        common = 0
        while common < min(len(functions), len(frames)) and functions[common][0] is frames[common]:
            common += 1
        del functions[common:]
        for frame in frames[common:]:
            inside = functions[-1][1] if functions else self._open[-1]
            call = Call(self.path, *self._given(frame))
            inside.body.append(call)
            functions.append((frame, call))
        return functions[-1][1] if functions else self._open[-1]

    def _given(self, frame: FrameType) -> tuple[Helper, dict[str, Any]]:
        """A function of the author's, and the tensors and sizes that it was given."""
        code = frame.f_code
        arguments: dict[str, Any] = {}
        plain: dict[str, Any] = {}
        for name in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]:
            held = frame.f_locals.get(name)
            if isinstance(held, torch.Tensor) and id(held) in self._values:
                arguments[name] = self._values[id(held)]
            elif isinstance(held, (TracedInt, TracedFloat)):
                arguments[name] = held.expression
            elif isinstance(held, (int, float, str)):
                plain[name] = held
        return Helper(code, plain), arguments
