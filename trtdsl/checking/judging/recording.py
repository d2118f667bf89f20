"""A recording of a reference: what its author asks, its choices, its calls with their values."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

from ...core.errors import Location
from ...core.lazy import torch
from ...core.tensors.dense import writes
from ...core.tensors.exact import Exact, tensors_in
from ...core.tensors.watched import each_call
from ...definition.call import author_frame
from ...interpreter.reading import closure
from ...sizes.followed import FollowedInt, followed
from ..coverage import Coverage, author_of_reference

SAMPLES = 4096  # elements among which the typical one is found
REORDERED = 1e-12  # what the same values in another order may differ by
MOST_REPEATS = 1e8  # elements that a reference may make of others: torch makes more, too, or ends the process
SUMMED = 8.0  # times what an element may differ by: what sums of their powers may


@dataclass(frozen=True)
class Place:
    """A call: its name and where it stands."""

    name: str
    location: Location | None

    def __str__(self) -> str:
        return f"{self.name} at {self.location}" if self.location else self.name


class Moments:
    """What tells the values of a tensor from others, whatever their order: their greatest, least, and sums of powers.

    >>> Moments(torch.tensor([1.0, 2.0, 4.0])).agree(Moments(torch.tensor([4.0, 1.0, 2.0])), 1e-9)
    True
    """

    def __init__(self, value: torch.Tensor):
        x = value.double().flatten() if value.numel() else torch.zeros(1, dtype=torch.float64)
        squares = float(x @ x)
        if not math.isfinite(squares):
            x = x.nan_to_num(0.0, 0.0, 0.0)
            squares = float(x @ x)
        low, high = (float(each) for each in torch.aminmax(x))
        greatest = max(-low, high)
        few = x[:: max(len(x) // SAMPLES, 1)].abs()
        self.typical = float(few.median())
        self.values = low, high, float(x.sum()), squares, float(x.square() @ x)
        self.sizes = greatest, greatest, math.sqrt(squares * len(x)), squares, squares * greatest

    def agree(self, other: Moments, limit: float) -> bool:
        """Whether two tensors have the same values but for a part ``limit`` of them."""
        each = zip(self.values, other.values, self.sizes, strict=True)
        return all(abs(a - b) <= SUMMED * limit * size for a, b, size in each)


@dataclass(eq=False)
class Call:
    """One call of torch's that gave a tensor."""

    number: int
    place: Place
    module: str
    """The innermost submodule that made it."""
    own: torch.Tensor
    value: torch.Tensor
    """The exact value; of integers and bool ``own``."""
    moments: Moments
    operands: list[Call]
    varies: bool
    """Whether it depends on what is fed."""
    moves: bool
    """Whether its values are an operand's in another order: then the order is what matters."""
    found: str | None = None
    """The network's tensor with its values."""


ABOUT = {
    "isnan", "isinf", "isfinite", "isposinf", "isneginf", "nan_to_num", "nansum", "nanmean", "nanmedian",
    "fmax", "fmin",
}  # fmt: skip
"""Functions by which an author says what becomes of NaN and infinities."""
COMPARING = {f"{mark}{name}{mark}" for name in ("eq", "ne", "lt", "le", "gt", "ge") for mark in ("", "__")}


@functools.cache
def _reads() -> frozenset[Any]:
    """The functions that give an author a tensor's sizes."""
    tensor: Any = torch.Tensor
    names = ("size", "numel", "nelement", "stride")
    return frozenset((tensor.shape.__get__, *(getattr(tensor, name) for name in names)))


@dataclass
class Asked:
    """What the author of a reference asks of tensors."""

    nonfinite: bool = False
    """Whether a value is NaN or infinite."""
    branches: bool = False
    """Whether something is decided by a size, or nobody wants to know: then sizes are plain ints."""
    numbers: set[float] = field(default_factory=set)
    """How values compare with these."""

    inside: int = 0
    """How many functions of torch's are running, which decide by what they are given."""

    def answer(self, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """What a call of the author's gives, with sizes that tell where they decide; notes what it asks for."""
        name = getattr(func, "__name__", "")
        if name in COMPARING and type(args[1]) in (int, float, FollowedInt):
            self.numbers.add(args[1])
        self.nonfinite |= name in ABOUT or (name in COMPARING and args[0] is args[1])
        self.inside += 1
        try:
            result = func(*args, **kwargs)
        finally:
            self.inside -= 1
        if self.branches or func not in _reads() or isinstance(args[0], torch.nn.Parameter) or not _is_authors():
            return result
        return followed(result, self._decided)

    def _decided(self) -> None:
        self.branches |= not self.inside and _is_authors()


def _is_authors() -> bool:
    """Whether it is the author who asks, not torch."""
    frame = author_frame()
    return frame is not None and "/torch/" not in frame.f_code.co_filename


def _check_repeats(*given: Any, repeats: Any = None, **_: Any) -> None:
    """ValueError where elements would be repeated more often than memory has room, which ends torch's process."""
    repeats = next(iter((*given[1:2], *given[:1])), None) if repeats is None else repeats
    if isinstance(repeats, torch.Tensor) and (count := float(repeats.double().sum())) > MOST_REPEATS:
        raise ValueError(f"repeat_interleave makes {count:.0e} of its elements")


class Recording:
    """What a reference does, in whatever precision it runs.

    That are its author's questions and the sides of its choices, of all runs, and with ``values`` all calls of the last
    one, with those that gave the results of its submodules, by their names.
    """

    def __init__(self, exact: Exact, *, values: bool = False):
        self.exact, self.values = exact, values
        self.asked, self.choices = Asked(branches=values), Coverage()
        self._begin()

    def _begin(self) -> None:
        self.calls: list[Call] = []
        self.modules: dict[str, list[Call]] = {}
        self._makers: dict[int, Call] = {}
        self._fed: set[int] = set()
        self._alive: list[Any] = []  # so that no identity is used twice
        self._within: list[str] = []

    @contextmanager
    def of(self, module: torch.nn.Module) -> Iterator[None]:
        """A context in which a module is recorded, and computes what its code says, without gradients.

        ``torch.nn.MultiheadAttention`` and ``TransformerEncoder`` take another way where nothing watches torch's
        functions: there a row that a mask hides wholly is NaN, not 0, and hidden positions of the result are 0. Under
        ``torch.inference_mode`` with autocast and a dispatch mode, einsum multiplies operands of different dtypes.
        """
        self._begin()
        with ExitStack() as stack:
            for name, part in module.named_modules() if self.values else ():
                entered = functools.partial(self._entered, name)
                stack.callback(part.register_forward_pre_hook(entered, with_kwargs=True).remove)
                stack.callback(part.register_forward_hook(self._left).remove)
            stack.enter_context(torch.no_grad())
            stack.enter_context(each_call(self._called))
            yield

    def _entered(self, name: str, module: torch.nn.Module, *given: Any) -> None:
        if not self._within:
            self._fed.update(map(id, tensors_in(given)))
        self._within.append(name)

    def _left(self, module: torch.nn.Module, given: Any, result: Any) -> None:
        made = [self._makers[id(x)] for x in tensors_in(result) if id(x) in self._makers]
        self.modules.setdefault(self._within.pop(), []).extend(made)

    def _called(self, function: Any, args: Any, kwargs: Any) -> Any:
        """What a function of torch's gives, noted where it is a tensor that was not there before."""
        if getattr(function, "__name__", "") == "repeat_interleave":
            _check_repeats(*args, **kwargs)
        before = tensors_in((args, kwargs)) if self._within else []
        versions = {id(x): writes(x) for x in before}
        result = self.asked.answer(function, args, kwargs)
        if not self._within:
            return result
        # What gives its operand as it is, such as a cast to the dtype that it has, is no call.
        tensors = [x for x in tensors_in(result) if id(x) not in versions or versions[id(x)] != writes(x)]
        given = list(dict.fromkeys(self._makers[id(x)] for x in before if id(x) in self._makers))
        varies = any(call.varies for call in given) or any(id(x) in self._fed for x in before)
        name = getattr(function, "__name__", str(function)).strip("_")
        for tensor in tensors:
            place = Place(name, author_of_reference())
            with torch._C._DisableTorchDispatch(), torch._C.DisableTorchFunction():
                floating = tensor.is_floating_point()
                value = self.exact.of(tensor).detach().clone() if floating else tensor.detach().clone()
                own = tensor.detach().clone() if floating else value
                moments = Moments(value)
                others = [x for x in before if x is not tensor and (x.numel(), x.dtype) == (own.numel(), own.dtype)]
                values = (self.exact.of(x) if x.is_floating_point() else x.detach() for x in others)
                moves = any(moments.agree(Moments(each), REORDERED) for each in values)
            call = Call(len(self.calls), place, self._within[-1], own, value, moments, given, varies, moves)
            self._makers[id(tensor)] = call
            self.calls.append(call)
            self._alive.append(tensor)
        return result

    def right(self) -> set[Call]:
        """The calls whose result the network has, and the calls that these depend on."""
        known = {call for call in self.calls if call.found is not None or not call.varies}
        return closure([([call], call.operands) for call in self.calls], known)
