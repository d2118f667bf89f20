"""A reference that shares nothing with the network: run on copies, from the same state each time, in any precision."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from ...core.dtypes import dtype_name
from ...core.lazy import torch
from ...definition.spec.reference import call_reference
from .recurrent import computed_wide

Feeds = Mapping[str, "torch.Tensor"]
Within = AbstractContextManager[Any] | None
WIDE = {"float32": "float64", "float16": "float64", "bfloat16": "float64", "complex64": "complex128"}


class Reference:
    """A torch reference that can be run repeatedly, whatever it does to its inputs, buffers and attributes.

    ``notes`` lists what it changes. Such changes are undone before the next call and never reach the network.
    """

    def __init__(self, module: torch.nn.Module, precision: torch.dtype | None = None):
        self.module, self.precision = module, precision
        self.notes: dict[str, None] = {}
        self.no_truth: str | None = None
        """Why there is no result in float64, where there is none."""
        self._wide: torch.nn.Module | None = None
        self.watch: Callable[[], Any] | None = None
        """A context in which the results in the network's precision are made."""

    def __call__(self, feeds: Feeds, within: Within = None, watched: Within = None) -> Any:
        """Torch's result in the network's precision, under autocast where the network has one.

        ``within`` is a context to run it in, instead of ``watch``; ``watched`` one inside of it.
        """
        outer, inner = within or (self.watch() if self.watch else nullcontext()), watched or nullcontext()
        with _copied(self.module, self._note) as module, _as_written(), self._autocast(), outer, inner:
            return self._called(module, feeds)

    def truth(self, feeds: Feeds, within: Within = None) -> Any | None:
        """The reference's result in float64; None where it does not run in float64, for the reason in ``no_truth``.

        With ``within``, a context to run it in, it is also None where the reference fails there.
        """
        if self.no_truth is not None:
            return None
        try:
            if self._wide is None:
                self._wide = widened(self.module)
            context = within or nullcontext()
            with _copied(self._wide, lambda text: None) as module, torch.no_grad(), _in_float64(), context:
                return call_reference(module, {name: _wide(feed.clone()) for name, feed in feeds.items()})
        except Exception as error:
            if within is not None:
                return None
            self._wide = None
            self.no_truth = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}".strip(": ")
            return None

    def perturbed(self, feeds: Feeds, seed: int, *, inputs: bool = True, within: Within = None) -> Any | None:
        """As a call, of feeds (where ``inputs``) and weights that are moved by a unit in their last place.

        Convolutions have their operands in memory with channels first or last, by turns: torch sums in another order
        then, and for small images its errors are three times as great. None where the reference does not run that way.
        """
        generator = torch.Generator().manual_seed(seed)
        try:
            module = copy.deepcopy(self.module)
            with torch.no_grad():
                for tensor in (*module.parameters(), *module.buffers()):
                    tensor.copy_(_moved(tensor, generator, self.precision, zeros=False))
            moved = {name: feed.clone() for name, feed in feeds.items()}
            if inputs:
                moved = {name: _moved(feed, generator, self.precision) for name, feed in moved.items()}
            with _as_written(), _convolved(channels_last=seed % 2 == 1), self._autocast(), within or nullcontext():
                return call_reference(module, moved)
        except Exception:  # because of values that it was not made for, or because it cannot be copied
            return None

    @contextmanager
    def _autocast(self) -> Iterator[None]:
        with torch.autocast("cpu", self.precision, enabled=self.precision is not None):
            if self.precision is None:
                yield
            else:
                with computed_wide(self.precision, self._note):
                    yield

    def _called(self, module: torch.nn.Module, feeds: Feeds) -> Any:
        copies = {name: feed.clone() for name, feed in feeds.items()}
        versions = {name: feed._version for name, feed in copies.items()}
        returned = call_reference(module, copies)
        for name, feed in copies.items():
            if feed._version != versions[name]:
                self._note(f"the reference changes its input {name!r} in place")
        return returned

    def _note(self, text: str) -> None:
        self.notes[text] = None


@contextmanager
def _as_written() -> Iterator[None]:
    """A context in which modules compute what their code says, without gradients.

    ``torch.nn.MultiheadAttention`` and ``TransformerEncoder`` take another way where nothing watches torch's functions:
    there a row that a mask hides wholly is NaN, not 0, and hidden positions of the result are 0. Under
    ``torch.inference_mode`` with autocast and a dispatch mode, einsum multiplies operands of different dtypes.
    """
    from torch.overrides import TorchFunctionMode

    class Watched(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if _is_read(func, args):
                with torch._C._DisableTorchDispatch():
                    return func(*args, **(kwargs or {}))
            return func(*args, **(kwargs or {}))

    with torch.no_grad(), Watched():
        yield


@functools.cache
def _reads() -> frozenset[Any]:
    return frozenset({torch.Tensor.__getitem__, torch.Tensor.__bool__, torch.Tensor.item})


def _is_read(func: Any, args: Any) -> bool:
    """Whether a call reads elements of a plain tensor: it decides nothing, so no dispatch mode needs to see it.

    A reference that suppresses boxes one by one makes ten thousands of such calls. Subclasses that dispatch to Python,
    ``torch.func`` and modes of the author's own do see them.
    """
    if torch.compiler.is_compiling() or func not in _reads() or type(args[0]) is not torch.Tensor:
        return False
    index = args[1] if len(args) > 1 else ()
    if any(type(place) not in (int, slice) for place in (index if type(index) is tuple else (index,))):
        return False
    modes = (torch._C._get_dispatch_stack_at(place) for place in range(torch._C._len_torch_dispatch_stack()))
    ours = all(type(mode).__module__.startswith("trtdsl.") for mode in modes)
    functions: Any = torch._C  # torch does not declare what it has of torch.func there
    return ours and functions._functorch.maybe_current_level() is None


CONVOLUTIONS = {"conv2d": "channels_last", "conv3d": "channels_last_3d"}


@contextmanager
def _convolved(channels_last: bool) -> Iterator[None]:
    """A context in which convolutions have their operands in one order in memory, whatever order they were made in."""
    from torch.overrides import TorchFunctionMode

    class Ordered(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            order = CONVOLUTIONS.get(getattr(func, "__name__", ""))
            if order is not None and len(args) > 1 and args[0].ndim == args[1].ndim:
                order = getattr(torch, order) if channels_last else torch.contiguous_format
                args = (*(operand.contiguous(memory_format=order) for operand in args[:2]), *args[2:])
            return func(*args, **(kwargs or {}))

    with Ordered():
        yield


@contextmanager
def _copied(module: torch.nn.Module, note: Callable[[str], None]) -> Iterator[torch.nn.Module]:
    """The module with copies of all that it keeps except its parameters; what it changes is noted."""
    parameters = dict(module.named_parameters())
    versions = {name: parameter._version for name, parameter in parameters.items()}
    try:
        made = copy.deepcopy(module, {id(parameter): parameter for parameter in parameters.values()})
    except Exception:  # a module may hold what cannot be copied: then the module itself is run
        note("the reference cannot be copied: what it keeps from one call is there in the next")
        made = module
    buffers = dict(made.named_buffers())
    before = {name: buffer._version for name, buffer in buffers.items()}
    yield made
    for name, buffer in made.named_buffers():
        if name in buffers and (buffer is not buffers[name] or buffer._version != before[name]):
            note(f"the reference changes its buffer {name!r}")
    for name, parameter in parameters.items():
        if parameter._version != versions[name]:
            note(f"the reference changes its parameter {name!r}")


def widened(module: torch.nn.Module) -> torch.nn.Module:
    """A copy of the module in float64: parameters, buffers, and tensors that it holds as attributes."""
    wide = copy.deepcopy(module)
    with torch.no_grad():
        wide.double()
    for part in wide.modules():
        for name, held in vars(part).items():
            if not name.startswith("_") or isinstance(held, torch.Tensor):
                vars(part)[name] = _map(held, _wide)
    return wide


def _map(value: Any, function: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    """Plain containers of tensors, with the function applied to each tensor."""
    if isinstance(value, torch.Tensor) and not isinstance(value, torch.nn.Parameter):
        return function(value)
    if type(value) in (list, tuple):
        items = [_map(item, function) for item in value]
        return items if type(value) is list else tuple(items)
    if type(value) is dict:
        return {key: _map(item, function) for key, item in value.items()}
    return value


def _wide(tensor: torch.Tensor) -> torch.Tensor:
    name = WIDE.get(dtype_name(tensor.dtype))
    return tensor if name is None else tensor.to(getattr(torch, name))


def _moved(
    tensor: torch.Tensor, generator: torch.Generator, low: torch.dtype | None, *, zeros: bool = True
) -> torch.Tensor:
    """The tensor with its elements moved by up to a unit in their last place; ``zeros`` are moved by a tiny amount."""
    if not tensor.is_floating_point():
        return tensor
    eps = torch.finfo(low or tensor.dtype).eps
    wide = tensor.double()
    by = torch.rand(tensor.shape, generator=generator, dtype=torch.float64) * 2 - 1
    moved = wide * (1 + (1.0 if low is None else 0.5) * eps * by)  # below half a unit float32 rounds back
    return (torch.where(wide == 0, 1e-30 * by.sign(), moved) if zeros else moved).to(tensor.dtype)


CASTS = {"float", "half", "bfloat16"}


@contextmanager
def _in_float64() -> Iterator[None]:
    """A context in which tensors are made and computed in float64, also where the author writes float32."""
    from torch.overrides import TorchFunctionMode

    narrow = {getattr(torch, name): getattr(torch, wide) for name, wide in WIDE.items()}

    def widen(value: Any) -> Any:
        if isinstance(value, torch.dtype):
            return narrow.get(value, value)
        if isinstance(value, torch.Tensor):  # a tensor that the author keeps outside of the module
            return _wide(value)
        return type(value)(widen(item) for item in value) if type(value) in (list, tuple) else value

    class Float64(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if _is_read(func, args) and dtype_name(args[0].dtype) not in WIDE:
                with torch._C._DisableTorchDispatch():
                    return func(*args, **(kwargs or {}))
            name = getattr(func, "__name__", "")
            if name in CASTS and args and isinstance(args[0], torch.Tensor) and hasattr(torch.Tensor, name):
                return args[0].double()
            if name in ("promote_types", "result_type", "can_cast", "is_floating_point", "finfo"):
                return func(*args, **(kwargs or {}))
            own = 1 if name.endswith("_") or "out" in (kwargs or {}) else 0  # what is written to stays itself
            args = (*(args[:own]), *(widen(arg) for arg in args[own:]))
            result = func(*args, **{key: arg if key == "out" else widen(arg) for key, arg in (kwargs or {}).items()})
            return _map(result, _wide) if isinstance(result, (torch.Tensor, list, tuple)) else result

    with torch.autocast("cpu", enabled=False), Float64():
        yield
