"""Exact values: what floating-point tensors would hold without rounding, computed beside them in float64.

Inside of ``with Exact():`` every operation of torch is made twice: on the tensors as they are, and on the exact values
that they carry. Casts between floating-point types do nothing to an exact value, so the same computation in float32,
float16 or under autocast has one exact result, while ``x.dtype``, ``torch.finfo`` and factory functions are as ever.
"""

from __future__ import annotations

import functools
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

from ..lazy import np, torch
from .dense import computes_itself
from .noise import Noise
from .operators import (
    COMPARING,
    INSTEAD,
    LEFT_OPEN,
    MOVING,
    NEAREST,
    ORDERING,
    READING,
    RECURRENT,
    REMAINDERS,
    STEPS,
    by_channel,
    converted,
    faked,
    finite_of,
    nearest,
    observed,
)
from .watched import subclassed_by

ROUNDED = {"float32": "float64", "float16": "float64", "bfloat16": "float64", "complex64": "complex128"}
MADE = {"tensor", "as_tensor", "asarray", "scalar_tensor", "new_tensor"}
OUTSIDE = {"numpy", "__array__", "__dlpack__", "__deepcopy__", "__reduce_ex__", "data_ptr", "storage", "apply_", "map_"}
"""Functions of a tensor that read its memory without an operation."""
_WIDE: dict[Any, Any] = {}


def _filled() -> dict[Any, Any]:
    _WIDE.update({getattr(torch, name): getattr(torch, wide) for name, wide in ROUNDED.items()})
    _WIDE.update({torch.float64: torch.float64, torch.complex128: torch.complex128})
    return _WIDE


def _wide(dtype: torch.dtype) -> torch.dtype | None:
    """The dtype of exact values; None for one that is not floating-point, or is meant to be rounded to (fp8)."""
    return _WIDE.get(dtype) if _WIDE else _filled().get(dtype)


Seen = Callable[["Exact", str, "tuple[Any, ...]", "dict[str, Any]"], "Callable[[Any], None] | None"]


class Exact:
    """The exact values of the tensors of one computation, which may be entered again and again as a context.

    ``decide`` says by which values sorts, comparisons and conversions to integers are decided for both: by the exact
    ones (the default), or by the rounded ones. ``known`` has exact values by the places in memory that torch does not
    own, such as a network's constants.

    >>> exact = Exact()
    >>> with exact:
    ...     third = (torch.ones(()).half() / 3).float() * 3
    >>> third.item(), exact.of(third).item()
    (0.999755859375, 1.0)
    """

    def __init__(self, *, decide: bool = True, known: dict[tuple[int, int], torch.Tensor] | None = None):
        self.decide, self.known = decide, known if known is not None else {}
        self.alone = False
        """Whether exact values alone are computed, and the tensors are rounded only where somebody reads them."""
        self.seen: Seen | None = None
        """What is told of each operation before it is made, and gives what is told of its result."""
        self.rounded: dict[str, None] = {}
        """The operators that have no float64 kernel, and ran rounded."""
        self.rounded_constants = False
        """Whether there are constants that may have been rounded before they could be seen."""
        self.read_half = False
        """Whether a number was read of half precision, of which the plain results have the exact one, too."""
        self.complete = False
        """Whether all tensors have an exact value that are neither constants nor made while this is entered."""
        self.numbers: dict[float, float] = {}
        """Numbers that are rounded, by torch to float32 in the call that is running, and their exact ones."""
        self.noise: Noise | None = None
        self._entered: list[Any] = []
        self._open: list[weakref.ref[torch.Tensor]] = []

    def __deepcopy__(self, memo: Any) -> Exact:
        return self  # what is copied belongs to the same computation

    def of(self, tensor: torch.Tensor) -> torch.Tensor:
        """The exact value of a tensor in float64 or complex128; its own value where it has no other."""
        held = vars(tensor).get("_exact")
        if held is not None and held[0] is self:
            return held[1]
        with torch._C._DisableTorchDispatch(), torch._C.DisableTorchFunction(), torch.no_grad():
            value = self.known.get(_place(tensor)) if self.known and tensor.numel() else None
            if value is not None:
                value = value.reshape(tensor.shape).clone()
            else:
                self.rounded_constants |= self.complete and tensor.dtype in _WIDE and "_empty" not in vars(tensor)
                value = tensor.detach().resolve_conj().resolve_neg().to(_wide(tensor.dtype) or torch.float64, copy=True)
        self.keep(tensor, value)
        return value

    def widened(self, value: Any) -> Any:
        """What an operation is given or gives, with exact values in place of the tensors that have some."""
        if isinstance(value, torch.Tensor):
            return self.of(value) if _is_floating(value) or self._is_quantized(value) else value
        if isinstance(value, torch.dtype):
            return _wide(value) or value
        if self.numbers and type(value) is float:
            return self.numbers.get(value, value)
        if type(value) in (list, tuple):
            return type(value)(self.widened(item) for item in value)
        return value

    def keep_rounded(self, tensor: torch.Tensor) -> None:
        """Has what is made of such tensors alone, such as a module's, rounded as torch does even where exact values are
        alone: where weights are quantized, the last digit decides."""
        vars(tensor)["_own"] = True

    def keep(self, tensor: torch.Tensor, value: torch.Tensor) -> None:
        """Gives a tensor its exact value."""
        vars(tensor)["_exact"] = self, value

    def _is_quantized(self, tensor: torch.Tensor) -> bool:
        """Whether these are the rounded steps of exact values."""
        return tensor.dtype in (torch.int8, torch.float8_e4m3fn) and self.has(tensor)

    def settle(self, tensor: torch.Tensor, address: int | None = None) -> None:
        """Keeps the exact value of a tensor under its address, which must stay; only where it is another one.

        ``address`` is that of the memory that has its values packed.
        """
        held = self.released(tensor)
        if held is not None:
            del vars(tensor)["_exact"]
            self.known[_place(tensor, address)] = held

    def released(self, tensor: torch.Tensor) -> torch.Tensor | None:
        """The exact value of a tensor where it has another one than its own, which is forgotten: it is made again."""
        held = vars(tensor).get("_exact")
        if held is None or held[0] is not self:
            return None
        with torch._C._DisableTorchDispatch(), torch._C.DisableTorchFunction():
            if not _is_hollow(tensor) and torch.equal(held[1], tensor.to(held[1].dtype)):
                del vars(tensor)["_exact"]
                return None
        return held[1]

    def number(self, value: float, dtype: torch.dtype) -> torch.Tensor:
        """A number as a tensor."""
        with torch._C._DisableTorchDispatch(), torch._C.DisableTorchFunction():
            made = torch.tensor(value, dtype=dtype)
            self.keep(made, torch.tensor(value, dtype=_wide(dtype)))
        return made

    def has(self, tensor: torch.Tensor) -> bool:
        """Whether the tensor was computed, or looked at, in this computation."""
        if self.known and tensor.layout == torch.strided and _place(tensor) in self.known:
            return True
        return vars(tensor).get("_exact", (None,))[0] is self

    @contextmanager
    def noisy(self, seed: int, size: float = 2.0**-52) -> Iterator[None]:
        """A context in which every computed value that is no float32 number is moved by up to ``size`` of itself."""
        self.noise = Noise(seed, size)
        try:
            yield
        finally:
            self.noise = None

    def __enter__(self) -> Exact:
        functions, operations = _modes()
        self._entered.append((functions(self), operations(self), subclassed_by(self._subclassed, self.fill)))
        _active().append(self)
        for mode in self._entered[-1]:
            mode.__enter__()
        return self

    def __exit__(self, *raised: Any) -> None:
        _active().pop()
        for mode in reversed(self._entered.pop()):
            mode.__exit__(*raised)
        if not self._entered:
            left = [tensor for tensor in (each() for each in self._open) if tensor is not None]  # in a cache, say
            self.fill(left)
            self._open.clear()
            for tensor in left:
                del vars(tensor)["_hollow"]

    def _subclassed(self, plain: Callable[..., Any], tensor: torch.Tensor, kind: type) -> torch.Tensor:
        """A tensor as one of another class, which has the same exact value."""
        self.fill([tensor])
        made: torch.Tensor = plain(tensor, kind)
        if _is_floating(tensor):
            self.keep(made, self.of(tensor))
        return made

    # -- one operation -------------------------------------------------------------------------------------------------

    def made(self, func: Any, args: Any, kwargs: Any, operands: list[torch.Tensor]) -> Any:
        """What an operation gives, with exact values beside; ``operands`` are the tensors among its arguments."""
        name = func._schema.name.partition("::")[2]
        told = None if self.seen is None else self.seen(self, name, args, kwargs)
        made = self._made(func, name, args, kwargs, operands)
        if told is not None:
            told(made)
        return made

    def _made(self, func: Any, name: str, args: Any, kwargs: Any, operands: list[torch.Tensor]) -> Any:
        is_view = _is_view(func)
        if self.alone and operands and all("_own" in vars(x) for x in operands):
            made = self._made_both(func, name, args, kwargs, operands)
            for tensor in tensors_in(made):
                vars(tensor)["_own"] = True
            return made
        hollow = self.alone and any(map(_is_hollow, operands))
        if not is_view and (self.alone or name in COMPARING) and self.decide:
            made = self._claimed(func, name, args, kwargs, operands)
            if made is not NotImplemented:
                return made
            if hollow:
                self.fill(operands)
        made = self._made_both(func, name, args, kwargs, operands)
        if is_view and hollow:
            for tensor in tensors_in(made):
                self._leave_open(tensor)
        return made

    def fill(self, value: Any) -> None:
        """Gives tensors that were not computed the values that they claim: the exact ones, rounded."""
        with torch._C._DisableTorchDispatch(), torch._C.DisableTorchFunction(), torch.no_grad():
            for tensor in tensors_in(value):
                if _is_hollow(tensor):
                    tensor.copy_(self.of(tensor))

    def _claimed(self, func: Any, name: str, args: Any, kwargs: Any, operands: list[torch.Tensor]) -> Any:
        """The exact results of an operation, in tensors without values that claim its dtype; NotImplemented where it
        depends on rounded values.
        """
        given = [x for x in operands if _is_floating(x)]
        asked = next((x for x in (*args, *kwargs.values()) if isinstance(x, torch.dtype)), None)
        dtypes = {x.dtype for x in given} if asked is None else {asked}
        in_place = func._schema.is_mutable
        written = kwargs.get("out", args[0] if in_place and name.endswith("_") else None)
        if not given or (len(dtypes) > 1 and not in_place) or func.namespace != "aten" or name in READING:
            return NotImplemented
        if not all(_wide(dtype) for dtype in dtypes) or _draws(func, args, kwargs):
            return NotImplemented
        if in_place and not (isinstance(written, torch.Tensor) and _is_hollow(written)):
            return NotImplemented
        wide = self.widened(args), {key: self.widened(value) for key, value in kwargs.items()}
        try:
            with torch._C._DisableTorchDispatch():
                exact = self._evaluated(func, name, wide, args, kwargs)
                if in_place:
                    return written
                if any(_is_narrow(x) or x.layout != torch.strided for x in tensors_in(exact)):
                    return NotImplemented
                return _each(exact, lambda x: self._hollow(x, *dtypes) if _wide(x.dtype) else x)
        except (RuntimeError, NotImplementedError, TypeError):
            if in_place:
                raise
            return NotImplemented

    def _hollow(self, exact: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        """A tensor for an exact value, which says that it has a dtype."""
        if dtype.is_complex != exact.is_complex():
            dtype = torch.zeros((), dtype=dtype).abs().dtype if dtype.is_complex else dtype.to_complex()
        made = torch.empty_strided(exact.shape, exact.stride(), dtype=dtype)
        self.keep(made, exact)
        self._leave_open(made)
        return made

    def _leave_open(self, tensor: torch.Tensor) -> None:
        """Notes that a tensor has an exact value alone. What of them is left in the end is filled."""
        vars(tensor)["_hollow"] = True
        self._open.append(weakref.ref(tensor))

    def _made_both(self, func: Any, name: str, args: Any, kwargs: Any, operands: list[torch.Tensor]) -> Any:
        if func is torch.ops.aten.view.dtype:  # the bits of other numbers, or the same
            plain = func(*args, **kwargs)
            if args[0].dtype == args[1] and _is_floating(plain):
                self.keep(plain, self.of(args[0]))
            return plain
        floating = any(map(_is_floating, operands))
        moved = name in ORDERING and any(map(self._is_quantized, operands))
        if not floating and not moved and not _makes(func, kwargs):
            with torch._C._DisableTorchDispatch() if name in LEFT_OPEN else nullcontext():
                plain = LEFT_OPEN.get(name, func)(*args, **kwargs)
            if not any(_is_floating(value) for value in tensors_in(plain)):
                return plain
            if _draws(func, args, kwargs):
                return self._random(plain)
            return self._joined(plain, self._of_integers(func, args, kwargs, plain), name)
        if name.startswith(("empty", "new_empty")):
            made = func(*args, **kwargs)
            vars(made)["_empty"] = True
            return made
        if name == "set_":  # to other memory, as torch.load does
            made = func(*args, **kwargs)
            for known in ("_exact", "_empty"):
                vars(args[0]).pop(known, None)
            return made
        if name == "_local_scalar_dense":
            self.read_half |= self.decide and args[0].dtype in (torch.float16, torch.bfloat16)
            return func(self.of(args[0])) if self.decide else func(*args)
        if not self.decide and name in ORDERING and not any(map(self.has, operands)):
            return func(*args, **kwargs)  # of a network's weights, nothing is rounded yet
        wide = self.widened(args), {key: self.widened(value) for key, value in kwargs.items()}
        # Looked at before what is computed in place: integers that float32 does not have.
        lost = self.decide and name.removesuffix("_") in STEPS and _lost(args[0], wide[0][0])
        try:
            plain = (converted if name == "_to_copy" else func)(*args, **kwargs)
        except RuntimeError:  # of a half precision, in which torch's CPU lacks some operators
            if not floating or func._schema.is_mutable:
                raise
            plain = None
        if _draws(func, args, kwargs) and not name.startswith("_scaled_dot"):
            return self._random(plain)
        with torch._C._DisableTorchDispatch():
            exact = self._made_wide(func, name, wide, args, kwargs, plain)
            if plain is None:
                plain = _narrowed(exact, args)
            if self.decide and name == "_to_copy" and not _is_floating(plain):
                lost = _lost(args[0], wide[0][0])
            if lost:
                return self._joined(plain, exact, "") if _is_floating(plain) else plain
            return self._joined(plain, exact, name.removesuffix("_"))

    def _made_wide(self, func: Any, name: str, wide: Any, args: Any, kwargs: Any, plain: Any) -> Any:
        try:
            exact = self._evaluated(func, name, wide, args, kwargs)
        except (RuntimeError, NotImplementedError, TypeError):
            if plain is None:
                raise
            self.rounded[name] = None
            if func._schema.is_mutable:
                return _each(plain, lambda x: self.of(x).copy_(x) if _is_floating(x) else x)
            rounded = _rounded(wide[0], args), {key: _rounded(value, kwargs[key]) for key, value in wide[1].items()}
            exact = _each(func(*rounded[0], **rounded[1]), lambda x: x.to(_wide(x.dtype)) if _is_floating(x) else x)
        if any(_is_narrow(value) for value in tensors_in(exact)):  # of integers and numbers
            exact = self._of_integers(func, args, kwargs, plain)
        return exact

    def _evaluated(self, func: Any, name: str, wide: Any, args: Any, kwargs: Any) -> Any:
        """What an operation makes of exact values, with noise where it is asked for."""
        if name in NEAREST:
            return nearest(func, args, kwargs, *wide)
        if self.noise is not None and name.startswith(UNSEEN):  # whose scores, or mean, nobody else sees
            wide = tuple(_each(value, self.noise.of) for value in wide[0]), wide[1]
        if self.noise is not None and name.startswith("grid_sampler"):  # whose coordinates begin at -1
            wide = (wide[0][0], self.noise.of(wide[0][1] + 1) - 1, *wide[0][2:]), wide[1]
        if name.rstrip("_") == "nan_to_num":  # whose greatest number is that of the dtype
            wide = (wide[0][0], *finite_of(args[0].dtype, *args[1:], **kwargs)), {}
        if INSTEAD.get(name) in (faked, observed) and (
            isinstance(args[0], torch.nn.Parameter) or by_channel(name, args)
        ):
            self.fill(args[0])
            wide[1]["weight"] = args[0]
        exact = INSTEAD.get(name, func)(*wide[0], **wide[1])
        if self.noise is not None and name.rstrip("_") not in MOVING:
            for value in tensors_in(exact):
                self.noise.add_to(value)
        return exact

    def _of_integers(self, func: Any, args: Any, kwargs: Any, plain: Any) -> Any:
        """What an operation on integers gives in float64: a quotient, a mean."""
        with torch._C._DisableTorchDispatch():
            if func._schema.is_mutable:
                return _each(plain, lambda x: self.of(x) if _is_floating(x) else x)
            try:
                wide = _each(args, lambda x: self.of(x) if _is_floating(x) or self._is_quantized(x) else x.double())
                how = {key: self.widened(value) for key, value in kwargs.items()}
                if not tensors_in(args) and any(arg.name == "dtype" for arg in func._schema.arguments):
                    how["dtype"] = _wide(next(x.dtype for x in tensors_in(plain) if _is_floating(x)))
                made = func(*wide, **how)
                if [x.shape for x in tensors_in(made)] == [x.shape for x in tensors_in(plain)]:
                    return made
            except (RuntimeError, IndexError):
                pass
            return _each(plain, lambda x: x.to(_wide(x.dtype), copy=True) if _is_floating(x) else x)

    def _random(self, plain: Any) -> Any:
        """Random numbers are drawn as they are, and are exact."""
        with torch._C._DisableTorchDispatch():
            for tensor in tensors_in(plain):
                if _is_floating(tensor):
                    value = tensor.detach().to(_wide(tensor.dtype), copy=True)
                    if self.has(tensor):
                        self.of(tensor).copy_(value)
                    else:
                        self.keep(tensor, value)
        return plain

    def _joined(self, plain: Any, exact: Any, name: str) -> Any:
        """The results, each with its exact value; indices and comparisons are those of the side that decides."""
        if isinstance(plain, torch.Tensor):
            if _is_floating(plain):
                if plain.shape != exact.shape:
                    plain = exact.to(plain.dtype)
                elif name in STEPS:
                    decided, other = (exact, plain) if self.decide else (plain, exact)
                    # Only a jump is taken of what decides, not the precision of what is no whole number.
                    if name in REMAINDERS:
                        decided = torch.where((plain - exact).abs() > exact.abs().max() / 2, decided, other)
                    elif not self.decide:
                        decided = torch.where(plain == plain.round(), decided, other)
                    other.copy_(decided)
                if plain.stride() != exact.stride() and plain.numel() > 1 and 0 not in plain.stride():
                    exact = torch.empty_strided(plain.shape, plain.stride(), dtype=exact.dtype).copy_(exact)
                self.keep(plain, exact)
                return plain
            if name in ORDERING and _is_floating(exact):  # rounded steps, of which these are the exact values
                self.keep(plain, exact)
                return plain
            return self._decided(plain, exact)
        if type(plain) in (list, tuple):
            joined = [self._joined(one, two, name) for one, two in zip(plain, exact, strict=True)]
            if self.decide and any(
                a is not b and not torch.equal(a, b) for a, b in zip(*map(tensors_in, (plain, joined)), strict=True)
            ):
                for tensor in tensors_in(joined):  # a sort's values follow its indices
                    if _is_floating(tensor):
                        tensor.copy_(self.of(tensor))
            return type(plain)(joined)
        return exact if self.decide else plain

    def _decided(self, plain: torch.Tensor, exact: torch.Tensor) -> torch.Tensor:
        if not self.decide or exact is plain:
            return plain
        return exact if exact.dtype == plain.dtype else exact.to(plain.dtype)


def _is_floating(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and _wide(value.dtype) is not None and value.layout == torch.strided


def _is_hollow(value: torch.Tensor) -> bool:
    return "_hollow" in vars(value)


UNSEEN = (
    *("_scaled_dot", "native_layer_norm", "native_group_norm", "native_batch_norm", "var", "std", "_fft"),
    *("linalg_", "_linalg_"),
)
"""Operations whose results between come of operands that differ little, or whose sums cancel."""


@functools.cache
def _is_view(func: Any) -> bool:
    """Whether an operation gives a tensor of its operand's memory, or lays that out otherwise, and changes nothing in
    it.
    """
    if torch.Tag.inplace_view in func.tags:
        return True
    if func._schema.is_mutable or func is torch.ops.aten.view.dtype:  # whose values are read
        return False
    return any(one.alias_info is not None for one in func._schema.returns)


def _draws(func: Any, args: Any, kwargs: Any) -> bool:
    """Whether an operation draws random numbers, as some do in training alone."""
    if torch.Tag.nondeterministic_seeded not in func.tags:
        return False
    given = dict(zip((argument.name for argument in func._schema.arguments), args)) | kwargs
    return given.get("training", func._schema.name != "aten::rrelu_with_noise") is not False


def _is_narrow(value: torch.Tensor) -> bool:
    return _wide(value.dtype) not in (None, value.dtype)


def tensors_in(value: Any) -> list[torch.Tensor]:
    """The tensors in a tree of dicts, lists and tuples, in order."""
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        value = value.values()
    elif not isinstance(value, (list, tuple)):
        return []
    found = []
    for item in value:
        if isinstance(item, torch.Tensor):
            found.append(item)
        elif isinstance(item, (list, tuple, dict)):
            found += tensors_in(item)
    return found


def _lost(plain: torch.Tensor, exact: torch.Tensor) -> bool:
    """Whether these are integers that float32 does not have."""
    if plain.dtype not in (torch.float32, torch.float64) or not plain.numel():
        return False
    return bool((exact == exact.round()).all() and ((plain - exact).abs() >= 0.5).any())


def _each(value: Any, function: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return function(value)
    return type(value)(_each(item, function) for item in value) if type(value) in (list, tuple) else value


def _rounded(wide: Any, plain: Any) -> Any:
    """Arguments again in the dtypes of the rounded ones, with the exact values."""
    if isinstance(plain, torch.Tensor):
        return wide.to(plain.dtype)
    if type(plain) in (list, tuple):
        return type(plain)(_rounded(one, two) for one, two in zip(wide, plain, strict=True))
    return plain


def _narrowed(exact: Any, args: Any) -> Any:
    """Results rounded to the dtype of the first operand."""
    dtype = next(x.dtype for x in tensors_in(args) if _is_floating(x))
    return _each(exact, lambda x: x.to(dtype) if _is_floating(x) else x)


def _makes(func: Any, kwargs: Any) -> bool:
    """Whether an operation is asked for floating-point values, whatever it is given."""
    dtype = kwargs.get("dtype")
    return isinstance(dtype, torch.dtype) and _wide(dtype) is not None


_local = threading.local()


def _active() -> list[Exact]:
    """The contexts that are open in this thread."""
    if not hasattr(_local, "active"):
        _local.active = []
    return _local.active


def beside(made: torch.Tensor, function: Callable[..., torch.Tensor], *operands: torch.Tensor) -> torch.Tensor:
    """``made``, with ``function`` of the operands' exact values beside it: for what numpy computed."""
    for exact in _active()[-1:]:
        with torch._C._DisableTorchDispatch(), torch._C.DisableTorchFunction():
            exact.keep(made, function(*map(exact.of, operands)))
    return made


def unpacked(value: torch.Tensor, address: int) -> torch.Tensor:
    """``value``, with the exact one beside it that is known of the packed memory at an address."""
    for exact in _active()[-1:]:
        if (place := _place(value, address)) in exact.known:
            exact.keep(value, exact.known[place].reshape(value.shape).clone())
    return value


def _place(tensor: torch.Tensor, address: int | None = None) -> tuple[int, int]:
    """Where a tensor lies, and how many elements it has there: a part of it may begin at the same address."""
    return tensor.data_ptr() if address is None else address, tensor.numel()


class Rounded(float):
    """A number rounded to float32, with the exact one beside it.

    >>> third = Rounded(1 / 3)
    >>> float(third), third.exact
    (0.3333333432674408, 0.3333333333333333)
    """

    exact: float

    def __new__(cls, exact: float, rounded: float | None = None) -> Rounded:
        made = super().__new__(cls, np.float32(exact) if rounded is None else rounded)
        made.exact = exact
        return made


_classes: list[Any] = []


def _modes() -> Any:
    """The two modes of torch by which operations are seen, made when torch is first used."""
    if _classes:
        return _classes
    from torch.overrides import TorchFunctionMode
    from torch.utils._python_dispatch import TorchDispatchMode

    class Functions(TorchFunctionMode):
        """What is not an operation: tensors from Python's numbers, and lists from tensors."""

        def __init__(self, exact: Exact):
            super().__init__()
            self.exact = exact

        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            kwargs = kwargs or {}
            name = getattr(func, "__name__", "")
            if name in RECURRENT:  # otherwise one call of a library that has no float64
                before = torch._C._get_mkldnn_enabled()
                torch._C._set_mkldnn_enabled(False)
                try:
                    return func(*args, **kwargs)
                finally:
                    torch._C._set_mkldnn_enabled(before)
            if self.exact.alone and name in OUTSIDE | MADE:
                self.exact.fill(args)
            if name == "rms_norm" and isinstance(eps := kwargs.get("eps", args[3] if len(args) > 3 else None), float):
                before = self.exact.numbers
                self.exact.numbers = before | {float(np.float32(eps)): eps}
                try:
                    return func(*args, **kwargs)
                finally:
                    self.exact.numbers = before
            if name == "tolist" and self.exact.decide and _is_floating(args[0]):
                return self.exact.of(args[0]).tolist()
            if name == "__setitem__" and type(args[2]) is float and _is_floating(args[0]):
                args = (*args[:2], self.exact.number(args[2], args[0].dtype))
            if name == "__set__" and func.__self__ is torch.Tensor.data and _is_narrow(args[1]):
                self.exact.keep(args[0], self.exact.of(args[1]))  # before the memory is that of both
            result = func(*args, **kwargs)
            if name in MADE and isinstance(result, torch.Tensor) and _is_narrow(result):
                self._keep(result, *args[name == "new_tensor" :], **kwargs)
            return result

        def _keep(self, result: torch.Tensor, data: Any = None, *rest: Any, **how: Any) -> None:
            if data is None or isinstance(data, torch.Tensor):
                return
            with torch._C._DisableTorchDispatch(), torch._C.DisableTorchFunction():
                try:
                    exact = _each(getattr(data, "exact", data), self.exact.of)
                    value = torch.tensor(exact, dtype=_wide(result.dtype))
                except (TypeError, ValueError, RuntimeError):
                    return
                if value.shape == result.shape:
                    self.exact.keep(result, value)

    class Operations(TorchDispatchMode):
        def __init__(self, exact: Exact):
            super().__init__()
            self.exact = exact

        @classmethod
        def _should_skip_dynamo(cls) -> bool:
            return False  # otherwise torch imports its compiler, which takes a second

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            operands = tensors_in((args, kwargs))
            if any(map(computes_itself, map(type, operands))):
                return NotImplemented  # the author's own class makes it of plain tensors
            if any(x.is_meta for x in operands):
                return func(*args, **(kwargs or {}))
            return self.exact.made(func, args, kwargs or {}, operands)

    _classes.extend((Functions, Operations))
    return _classes


def unrounded(number: float, exact: float | None) -> float:
    """The exact value of a number that TensorRT keeps as a C float, if it is one of that number's."""
    if exact is None:
        return number
    import struct

    return exact if struct.unpack("f", struct.pack("f", exact))[0] == number else number
