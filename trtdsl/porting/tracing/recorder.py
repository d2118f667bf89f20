"""Writes down each call of torch that a module's code makes, and which value each tensor is."""

from __future__ import annotations

import dataclasses
import functools
import operator
import re
from collections.abc import Mapping, Sequence
from types import FrameType
from typing import Any

from ...core.caller import to_write
from ...core.dtypes import dtype_name
from ...core.errors import DefinitionError, Location, TrtdslError, UnsupportedError, told
from ...core.lazy import np, torch
from ...core.tensors.watched import each_call
from ...definition.spec.reference import call_reference
from ..calls import Call, Helper, Op, SizeOf, SizeOp, Value, Weight, leaves, made_by, rebuilt, sizes_of
from ..translating.aten import is_overload, own_code, public_call, written_out
from ..translating.counterpart import counterpart
from ..translating.lowering import COMPLEX_ZEROS
from ..translating.spellings import python_type, respelled
from ..translating.unknown import is_mask, sized, unlike_itself
from .frames import TRANSFORMS, authors_frame, bound, helper_frames, here, place_of, transforms, unless_it_raises
from .guards import GUARDS, MOST, SCANS, Shortcut, asked_of, note
from .memory import Memory, check_writes, layout, refuse_set, target_of, writes_itself
from .modes import free, storage_of, tensors_of
from .names import FOLDED, MEASURES, PEEKS, RANDOM, canonical, drawn, is_neutral, keeps_value, narrowed
from .scalars import READ, Compared, SizesBehind, measured, number_of
from .scans.marks import in_steps, parted, scanning, sliced
from .traced_sizes import TracedFloat, TracedInt, expression_of, is_traced, plain_number, traced


class Recorder:
    """The state while the module runs: which value each tensor is now, and which module is running."""

    def __init__(self, module: torch.nn.Module, count: int = 3, taken: Sequence[bool] | None = None):
        self.module = module
        self.taken = taken  # shortcuts by values, by their number; None where none is known of
        self.shortcuts: list[Shortcut] = []
        self.count = count  # the size that is tried where one depends on values
        self.tried = False
        self.weights: dict[str, Weight] = {}
        self.root: Call = Call("", module, {})
        self.stack: list[Call] = []
        self.helpers: list[list[tuple[FrameType, Call]]] = []  # open functions of each module on the stack
        self.values: dict[int, Value] = {}  # by the identity of the tensor
        self.kept: list[Any] = []  # so that no identity is used twice
        self.memory = Memory(self.values, self.kept, self._note)
        self.known_names: dict[int, list[str]] = {}
        self.state = set(module.state_dict(keep_vars=True))
        for name, tensor in tensors_of(module):
            self.known_names.setdefault(id(tensor), []).append(name)
        self.owners = {storage_of(tensor): name for name, tensor in tensors_of(module)}
        self.held = dict(tensors_of(module))
        self.updated: dict[str, Location | None] = {}  # tensors of the module that forward writes to
        self.constants: dict[str, torch.Tensor] = {}  # great ones from outside of the module, by path
        self.folded: set[int] = set()  # identities of tensors that are computed while tracing
        self.emitted: dict[tuple[int, int], Value] = {}  # constants by tensor and by the call that has them
        self.widened: dict[torch.dtype, Location | None] = {}  # dtypes that a network computes in less than, and where
        self.numbers: dict[int, Any] = {}  # traced numbers by the identity of the tensor that holds one
        self.sizes = SizesBehind(self.kept)
        self.assumed: dict[Location | None, None] = {}  # where forward raises by values, as if it did not
        self.asked: dict[Location | None, str] = {}  # where forward asks for values of the module's own tensors
        self.failure: Exception | None = None  # that a value is needed, which the module's code may have caught
        self.needed = ""  # the function that needs it
        self.place: Location | None = None
        self.inside = False  # whether a function of torch is running

    def run(self, module: torch.nn.Module, tensors: Mapping[str, torch.Tensor]) -> Any:
        """Calls the module; errors get the author's line."""
        from torch._subclasses.fake_tensor import DataDependentOutputException, DynamicOutputShapeException

        try:
            returned = call_reference(module, tensors)
            if self.failure is None:
                return returned
            raise self.failure  # which the module's own try statement has caught
        except (TrtdslError, KeyboardInterrupt):
            raise
        except (DataDependentOutputException, DynamicOutputShapeException) as error:
            location, sized = self.place or place_of(error), isinstance(error, DynamicOutputShapeException)
            raise UnsupportedError(_needs_values(self.needed, sized), location=location) from error
        except BaseException as error:
            if transforms(error):
                raise UnsupportedError(TRANSFORMS, location=place_of(error)) from error
            text = told(error).split("\nWhile executing")[0]
            taken = (
                " (an input is one tensor: where forward takes a tuple, a list or a dict, write a module that takes "
            )
            more = f"{taken}the tensors one by one and gives it that)" if re.search(OF_SEVERAL, text) else ""
            if re.search(OF_WHOLE, text) and (
                real := [key for key, each in tensors.items() if each.is_floating_point()]
            ):
                one = real[0] if len(real) == 1 else "NAME"
                example = to_write(f"inputs={{{one!r}: 'SHAPE:int64'}}", f"--input {one}=SHAPE:int64")
                which = f" ({' or '.join(real)})" * (len(real) > 1)
                more = f"; the dtype of an input{which} stands behind its shape: {example}"
            elif self.tried and self.place is not None:
                more = f", after {self.place.short}, where {_needs_values(self.needed, True)}"
            raise DefinitionError(f"forward fails: {text}{more}", location=place_of(error)) from error

    # -- modules -----------------------------------------------------------------------------------------------------

    def hooks(self, path: str, part: torch.nn.Module) -> list[Any]:
        """Hooks that note when the module begins and ends."""

        def begin(module: Any, args: Any, kwargs: Any) -> None:
            self.names()
            arguments = bound(module.forward, args, kwargs)
            call = Call(path, module, {name: self.tree(given) for name, given in arguments.items()})
            if self.stack:
                self.container(begins=True).body.append(call)
            else:
                self.root = call
            self.stack.append(call)
            self.helpers.append([])

        def end(module: Any, args: Any, kwargs: Any, returned: Any) -> None:
            self.stack.pop().results = self.tree(returned)
            self.helpers.pop()

        return [
            part.register_forward_pre_hook(begin, with_kwargs=True),
            part.register_forward_hook(end, with_kwargs=True),
        ]

    # -- tensors -----------------------------------------------------------------------------------------------------

    def take(self, tensor: torch.Tensor, name: str | None = None, *, known: bool = False) -> Value:
        """A new value that the tensor is from now on."""
        dtype = narrowed(tensor.dtype)
        if dtype != tensor.dtype:
            self.widened.setdefault(tensor.dtype, here())
        value = Value(tuple(tensor.shape), dtype if name is None else tensor.dtype, known, name)
        self.values[id(tensor)] = value
        self.kept.append(tensor)
        return value

    def value(self, tensor: torch.Tensor) -> Value:
        """The value that the tensor is now."""
        key = id(tensor)
        if key in self.memory.stale:
            again = self.memory.again(tensor, self.value, self._path()) if key in self.values else None
            if again is not None:
                return again
            raise UnsupportedError(
                f"this tensor shares memory with one that {self.memory.stale[key]} changed in place: "
                "write that line without changing in place",
                location=here(),
            )
        if key not in self.values:
            names = self.known_names.get(key)
            if names is None:
                return self._constant(tensor)
            if narrowed(tensor.dtype) != tensor.dtype:
                return self._narrowed(tensor, names[0])
            # Tied weights have several names: the one of the module that asks.
            prefix = self.stack[-1].path + "." if self.stack and self.stack[-1].path else ""
            name = next((name for name in names if name.startswith(prefix)), names[0])
            if name not in self.weights:
                self.weights[name] = Weight(
                    tuple(tensor.shape), tensor.dtype, path=name, stored=name in self.state, known=False
                )
            self.kept.append(tensor)
            return self.weights[name]
        return self.values[key]

    def tree(self, given: Any) -> Any:
        """A tree of arguments with values for tensors and expressions for traced numbers."""
        if isinstance(given, torch.Tensor):
            if self._is_constant(given) and given.dim() == 0 and given.dtype == torch.float64:
                return given.item()  # which does not promote what it meets
            return self.value(given)
        if isinstance(given, (TracedInt, TracedFloat)):
            return expression_of(given)
        if isinstance(given, (list, tuple)):
            return type(given)(map(self.tree, given)) if type(given) in (list, tuple) else tuple(map(self.tree, given))
        if isinstance(given, Mapping):
            return {str(key): self.tree(item) for key, item in given.items()}
        if dataclasses.is_dataclass(given) and not isinstance(given, type):
            fields = dataclasses.fields(given)
            return {field.name: self.tree(getattr(given, field.name)) for field in fields}
        given = python_type(given) if isinstance(given, type) else given
        if type(given).__module__ == "numpy" and getattr(given, "shape", None) == () and hasattr(given, "item"):
            return given.item()
        if isinstance(given, torch.dtype):
            return narrowed(given)
        if isinstance(given, slice):
            return slice(*(self.tree(self.numbers.get(id(end), end)) for end in (given.start, given.stop, given.step)))
        return given

    # -- calls of torch ----------------------------------------------------------------------------------------------

    def called(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Makes one call of torch, and records it where it returns a tensor."""
        if self.inside:
            return function(*args, **kwargs)
        if (own := own_code(function)) is not None:
            with each_call(self.called):
                return own(*args, **kwargs)
        if is_overload(function):
            if self._loaded(function, args):
                return function(*args, **kwargs)
            refuse_set(function)
            public = public_call(function, args, kwargs)
        else:
            public = written_out(function, args, kwargs)
        if public is not None:
            with each_call(self.called):
                return public()
        name, qualified, form = canonical(function)
        if name == "shape" or (name == "size" and form == "method"):
            return self._sizes(function(*args, **kwargs), args[0], *args[1:], **kwargs)
        if name in ("numel", "nelement"):
            return self._numel(args[0])
        if name in ("split", "chunk") and type(args[0]) is not torch.Tensor and not self._is_constant(args[0]):
            with each_call(self.called):
                found = sliced(name, *args, **kwargs)
            if found is not None:
                return found
        if name == "cat" and (padded := self._padded(*args, **kwargs)) is not None:
            with each_call(self.called):
                return torch.nn.functional.pad(*padded)
        if name in ("getitem", "setitem"):
            index = rebuilt(args[1], lambda x: torch.from_numpy(x) if isinstance(x, np.ndarray) else x)
            args = (args[0], index, *args[2:])
        if name == "getitem" and scanning(GUARDS.get()) and (steps := in_steps(args[1])) is not None:
            with each_call(self.called):
                return args[0][steps[0]][steps[1]]
        if name in ("getitem", "masked_select") and (found := self._chosen(name, *args, **kwargs)) is not None:
            return found
        if name in ARRANGING:
            args = args[:1] + self._whole(args[1:])
        self.names()
        if name == "set" and self._given_data(function, *args):
            return None
        if name == "item" and self._stays(args[0]):
            with each_call(self.called):
                return args[0].reshape(()) if args[0].dim() else args[0]
        before = list(_tensors((args, kwargs)))
        target = target_of(function, name, args, kwargs, self.owners, self.held)
        versions = [tensor._version for tensor in before]
        self.inside = True
        try:
            itself = target is not None and writes_itself(name, qualified, target, args, kwargs, self.memory.stale)
        finally:
            self.inside = False
        former = None if target is None else layout(target)
        written = tuple(self.tree(args)) if name == "setitem" else None
        result = self._made(function, name, args, kwargs)
        check_writes(qualified, before, versions, target)
        if itself:  # y[:2] *= 3 ends with y[:2] = y[:2]
            return result
        if target is not None and is_neutral(name, args, kwargs):
            return result
        if name in ("numpy", "array"):
            self._expose(args[0])
        number = number_of(name, args, kwargs, result, self.numbers)
        if number is not None:
            self.numbers[id(result)] = number
            self.kept.append(result)
        if target is None and not any(True for _ in _tensors(result)):
            return self._fact(name, before, args, result)
        self.sizes.remember(before, (args, kwargs), result)
        name, form, args, kwargs = respelled(name, form, args, kwargs, result)
        options = {key: self.tree(item) for key, item in kwargs.items() if key != "out"}
        given = tuple(self.tree(args)) if written is None else written
        op = Op(name, qualified, form, given, {} if written is not None else options, None, here(), self._path())
        if self._folds(op, args, kwargs, result if target is None else target):
            return result
        if target is not None:
            self._changed(target, op, layout(target) != former)
        elif before and keeps_value(op, before[0], result):
            self.values[id(result)] = self.value(before[0])
            self.kept.append(result)
            self.memory.made(before[0], None, [result])
        else:
            known = _known(op)
            op.results = rebuilt(
                result, lambda leaf: self._new(leaf, op, known) if isinstance(leaf, torch.Tensor) else leaf
            )
            self._note(op)
            if len(before) == 1 and args and args[0] is before[0]:
                self.memory.made(before[0], op, list(_tensors(result)))
        if name == "unbind" and not self._is_constant(args[0]):
            return parted(result, op, here())
        if name in ("split", "chunk"):
            self._count_parts(name, result, *args, **kwargs)
        return result

    def _loaded(self, overload: Any, args: tuple[Any, ...]) -> bool:
        """Whether a new tensor gets the memory that was read from a file: from now on it is a constant."""
        if "aten.set_" not in str(overload) or len(list(_tensors(args))) > 1:
            return False
        key = id(args[0])
        if type(args[0]) is not torch.Tensor or key in self.known_names:
            return False
        if key in self.values and not self.values[key].known:
            return False
        self.values.pop(key, None)
        self.kept.append(args[0])
        return True

    def _padded(self, tensors: Any, dim: int = 0, **named: Any) -> tuple[torch.Tensor, list[Any]] | None:
        """A tensor, and the pads with which it is joined to zeros of a size at one end; None of other tensors.

        They are a pad, which may be by nothing, where a library writes ``if n % 8`` around them.
        """
        if named or len(tensors) != 2:
            return None
        more = [None if self._is_constant(each) else self.values.get(id(each)) for each in tensors]
        zeros = [each.producer if each is not None and each.known else None for each in more]
        at = 1 if zeros[1] is not None and zeros[1].name in ZEROS else 0
        made, x, fill = zeros[at], tensors[1 - at], tensors[at]
        if made is None or made.name not in ZEROS or x.dtype != fill.dtype or x.dim() != fill.dim():
            return None
        sizes = made.args[made.name == "new_zeros" :]
        sizes = sizes[0] if len(sizes) == 1 and isinstance(sizes[0], (list, tuple)) else sizes
        if len(sizes) != x.dim() or not isinstance(sizes[dim], SizeOp):
            return None
        size = traced(fill.shape[dim], sizes[dim])
        return x, [0] * (2 * (x.dim() - 1 - dim % x.dim())) + ([0, size] if at else [size, 0])

    def _count_parts(self, name: str, parts: Any, tensor: Any, size: Any = None, dim: int = 0, **named: Any) -> None:
        """Notes how many parts there are of a size: they are as many at all sizes of one program."""
        size = next(iter(named.values()), None) if size is None else size
        whole: Any = None if self._is_constant(tensor) else self._sizes(tensor.shape[dim], tensor, dim)
        if isinstance(size, int) and is_traced(whole):
            each = size if name == "split" else -(-whole // size)
            count = expression_of(-(-whole // each))
            note("==", count, len(parts), True, here(), loop=plain_number(each) == 1)

    def _chosen(self, name: str, input: Any, index: Any = None, **named: Any) -> Any:
        """What masks choose that no input has a part in: by constant places, at first; None for other masks."""
        index, scans = named.get("mask", index), SCANS.get()
        parts: tuple[Any, ...] = index if isinstance(index, tuple) else (index,)
        masks = [part for part in parts if is_mask(part)]
        if not masks or named.get("out") is not None or (scans is not None and scans.again):
            return None
        if not isinstance(input, torch.Tensor) or self._is_constant(input):
            return None
        if not {*map(type, masks)} <= {torch.Tensor, torch.nn.Parameter}:
            return None
        for mask in masks:
            value = self.values.get(id(mask))
            for op in made_by(value) if value is not None else ():
                if op.name in RANDOM:
                    raise drawn(op)
            if id(mask) in self.known_names or (value is not None and not value.known):
                self.asked.setdefault(here(), name)
        shape = None
        if name == "masked_select":
            shape = torch.broadcast_shapes(input.shape, masks[0].shape)
            parts = (masks[0].expand(shape),)
        places = [place for part in parts for place in (part.nonzero(as_tuple=True) if is_mask(part) else [part])]
        with each_call(self.called):
            return (input if shape is None else input.expand(shape))[tuple(places)]

    def _whole(self, given: tuple[Any, ...]) -> tuple[Any, ...]:
        """Whole numbers, also those of tensors that have one now."""
        kinds = torch.int64, torch.int32
        with each_call(self.called):
            return rebuilt(given, lambda x: x.item() if type(x) is torch.Tensor and x.dtype in kinds else x)

    def _stays(self, tensor: torch.Tensor) -> bool:
        """Whether a number of the tensor's can be the tensor itself: a fraction, of which no shape can be made."""
        if type(tensor) in (torch.Tensor, torch.nn.Parameter) or id(tensor) in self.numbers:
            return False
        return tensor.dtype.is_floating_point and tensor.numel() == 1

    def _given_data(self, function: Any, tensor: torch.Tensor, given: Any) -> bool:
        """``weight.data = y`` of one of the module's own tensors, which is y from now on; whether it is that."""
        names = self.known_names.get(id(tensor))
        if function.__self__.__name__ != "data" or names is None or given.shape != tensor.shape:
            return False
        self.values[id(tensor)] = self.value(given)
        self.updated.setdefault(names[0], here())
        return True

    def _made(self, function: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The result of the call, with a trial size where its size depends on values."""
        from torch._subclasses.fake_tensor import DataDependentOutputException, DynamicOutputShapeException

        if name in ("numpy", "array") and not self._is_constant(args[0]) and type(args[0]) is not torch.nn.Parameter:
            self._fact(name, list(_tensors(args)), args, None)
        result = unlike_itself(name, args, kwargs)
        if result is not None:
            return result
        self.inside = True
        try:
            return function(*args, **kwargs)
        except DynamicOutputShapeException as error:
            result = sized(name, args, kwargs, self.count)
            if result is None:
                self.failure, self.place, self.needed = error, here(), canonical(function)[1]
                raise
            self.tried, self.place, self.needed = True, here(), canonical(function)[1]
            return result
        except DataDependentOutputException as error:
            if name in ("getitem", "setitem"):
                raise UnsupportedError(
                    "an index that is a tensor without dimensions is a number to torch, which a trace does not have: "
                    "index with a tensor of one element (place.reshape(1)), and keep its dimension of 1 in the result",
                    location=here(),
                ) from error
            outcome = unless_it_raises() if name in ("bool", "is_nonzero") else None
            if outcome is not None:
                self.assumed[here()] = None
                return outcome
            if name in ("bool", "is_nonzero") and (found := self._shortcut(args[0])) is not None:
                return found.outcome
            self.failure, self.place, self.needed = error, here(), name
            raise
        finally:
            self.inside = False

    def _shortcut(self, truth: torch.Tensor) -> Shortcut | None:
        """The shortcut that forward takes or not by this truth; None where it is none."""
        number = len(self.shortcuts)
        if self.taken is None or number >= MOST:  # a loop that runs until the values say so takes one after the other
            return None
        taken = number < len(self.taken) and self.taken[number]
        found = asked_of(self.values.get(id(truth)), taken, here())
        self.shortcuts += [found] if found is not None else []
        return found

    def _new(self, tensor: torch.Tensor, op: Op, known: bool) -> Value:
        value = self.take(tensor, known=known)
        value.producer = op
        return value

    def _changed(self, target: torch.Tensor, op: Op, reshaped: bool) -> None:
        """Gives the tensor, and the tensors that it is a view of, new values."""
        known, former = _known(op), self.values.get(id(target))
        storage = storage_of(target)
        if storage in self.owners and not reshaped:
            self.updated.setdefault(self.owners[storage], op.location)
        op.results = self._new(target, op, known)
        op.results.name = former.name if former is not None else None
        self._note(op)
        if reshaped:
            self.memory.reshaped(target)
        else:
            others = [*self.kept, *self.held.values()]
            self.memory.changed(
                target, op, others, self.value, lambda base, write: self._new(base, write, _known(write))
            )

    # -- what is known while tracing -----------------------------------------------------------------------------------

    def _is_constant(self, tensor: torch.Tensor) -> bool:
        """Whether the tensor has its values now and is neither the module's nor written in the program."""
        key = id(tensor)
        outside = key not in self.values and key not in self.known_names and type(tensor) is torch.Tensor
        return key in self.folded or outside

    def _folds(self, op: Op, args: Any, kwargs: Any, result: Any) -> bool:
        """Whether a known value is computed while tracing: it has no counterpart, is float64, or comes from numpy."""
        tensors = list(_tensors(result))
        if not _known(op) or op.name in RANDOM or not all(type(tensor) is torch.Tensor for tensor in tensors):
            return False
        given = list(_tensors((args, kwargs)))
        operands = [*given, *tensors]
        zeros = op.name in COMPLEX_ZEROS and not given and any(True for _ in sizes_of((op.args, op.kwargs)))
        double = not zeros and any(dtype_name(tensor.dtype) in FOLDED for tensor in operands)
        arrays = any(type(leaf).__module__ == "numpy" for leaf in leaves((args, kwargs)))
        folded = double or arrays or any(id(tensor) in self.folded for tensor in operands)
        kept = op.form == "setitem" or bool(given and keeps_value(op, given[0], result))
        if zeros or (not folded and (kept or counterpart(op) is not None)):
            return False
        for tensor in tensors:
            self.folded.add(id(tensor))
            self.values.pop(id(tensor), None)
            self.emitted = {key: value for key, value in self.emitted.items() if key[0] != id(tensor)}
            self.kept.append(tensor)
        return True

    def _expose(self, tensor: torch.Tensor) -> None:
        """From now on a known tensor is what it holds when it is read, since numpy may write to its memory."""
        for each in [tensor, *self.kept]:
            value = self.values.get(id(each))
            if value is not None and value.known and storage_of(each) == storage_of(tensor):
                self.folded.add(id(each))
                del self.values[id(each)]

    def _constant(self, tensor: torch.Tensor) -> Value:
        """A value for a tensor that is not the module's: its numbers, or, of many, a weight of the network's own."""
        if type(tensor) not in (torch.Tensor, torch.nn.Parameter):
            raise UnsupportedError(
                f"a tensor of shape {tuple(tensor.shape)} was computed where a trace does not see it", location=here()
            )
        self.kept.append(tensor)
        container = self.container()
        key = (id(tensor), id(container))
        held = self.emitted.get(key)
        if held is not None and not self._holds(held, tensor):
            del self.emitted[key]  # it was written to since
        if key not in self.emitted:
            if tensor.numel() > MOST_NUMBERS:
                path = free(self._called(tensor) or "constant", {*self.state, *self.held, *self.constants})
                self.constants[path] = tensor.detach().clone().to(narrowed(tensor.dtype))
                weight = Weight(tuple(tensor.shape), self.constants[path].dtype, True, path=path, stored=False)
                weight.location = here()
                self.emitted[key] = self.weights[path] = weight
            else:
                numbers, dtype = tensor.detach().cpu().tolist(), narrowed(tensor.dtype)
                op = Op("tensor", "torch.tensor", "function", (numbers,), {"dtype": dtype}, None, here())
                op.path = self._path()
                op.results = self.emitted[key] = Value(tuple(tensor.shape), dtype, known=True, producer=op)
                self._note(op, container)
        return self.emitted[key]

    def _called(self, tensor: torch.Tensor) -> str | None:
        """The author's name for a tensor that is in use."""
        frame = authors_frame()
        held = frame.f_locals if frame is not None else {}
        return next((name for name, each in held.items() if each is tensor and name.isidentifier()), None)

    def _holds(self, constant: Value, tensor: torch.Tensor) -> bool:
        """Whether a constant has a tensor's numbers still."""
        if isinstance(constant, Weight):
            return torch.equal(self.constants[constant.path], tensor.to(constant.dtype))
        return constant.producer is not None and repr(constant.producer.args[0]) == repr(tensor.tolist())

    def _narrowed(self, tensor: torch.Tensor, name: str) -> Value:
        """A tensor of the module in a dtype that a network has."""
        container = self.container()
        key = (id(tensor), id(container))
        if key not in self.emitted:
            shape, dtype = tuple(tensor.shape), narrowed(tensor.dtype)
            self.widened.setdefault(tensor.dtype, here())
            if name not in self.weights:
                self.weights[name] = Weight(shape, tensor.dtype, path=name, stored=name in self.state)
            op = Op("to", "torch.Tensor.to", "method", (self.weights[name], dtype), {}, None, here(), self._path())
            op.results = self.emitted[key] = Value(shape, dtype, producer=op)
            self.kept.append(tensor)
            self._note(op, container)
        return self.emitted[key]

    def converted(self, result: torch.Tensor) -> None:
        """Notes that forward's result is its value in the dtype that the result itself has."""
        given = self.value(result)
        if given.dtype != result.dtype:
            op = Op("to", "torch.Tensor.to", "method", (given, result.dtype), {}, None, None)
            op.results = self.values[id(result)] = Value(given.shape, result.dtype, name=given.name, producer=op)
            self._note(op, self.root)

    def _note(self, op: Op, container: Call | None = None) -> None:
        (container or self.container()).body.append(op)
        record = GUARDS.get()
        if record is not None:
            record.calls += 1

    def container(self, begins: bool = False) -> Call:
        """The call whose body is being written: the running module's, or that of a function that its forward called.

        ``begins`` says that another module is about to run.
        """
        if not self.stack:  # forward has ended: what it gives is a constant
            return self.root
        helpers = self.helpers[-1]
        frames = helper_frames(begins)
        common = 0
        while common < min(len(helpers), len(frames)) and helpers[common][0] is frames[common]:
            common += 1
        del helpers[common:]
        for frame in frames[common:]:
            inside = helpers[-1][1] if helpers else self.stack[-1]
            call = Call(self._path(), *self._given(frame))
            inside.body.append(call)
            helpers.append((frame, call))
        return helpers[-1][1] if helpers else self.stack[-1]

    def _given(self, frame: FrameType) -> tuple[Helper, dict[str, Any]]:
        code = frame.f_code
        arguments: dict[str, Any] = {}
        plain: dict[str, Any] = {}
        for name in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]:
            held = frame.f_locals.get(name)
            if isinstance(held, torch.Tensor) and id(held) in self.values:
                arguments[name] = self.values[id(held)]
            elif isinstance(held, (TracedInt, TracedFloat)):
                arguments[name] = held.expression
            elif isinstance(held, (int, float, str)):
                plain[name] = held
        return Helper(code, plain), arguments

    def _sizes(self, sizes: Any, tensor: torch.Tensor, dim: int = 0) -> Any:
        if self._is_constant(tensor):
            return sizes
        value = self.value(tensor)
        if isinstance(sizes, int):
            axis = int(dim) % max(len(value.shape), 1)
            return traced(int(sizes), SizeOf(value, axis, int(sizes)))
        return torch.Size([traced(int(size), SizeOf(value, axis, int(size))) for axis, size in enumerate(sizes)])

    def _numel(self, tensor: torch.Tensor) -> Any:
        if self._is_constant(tensor):
            return tensor.numel()
        sizes = list(self._sizes(tensor.shape, tensor)) or [1]
        return functools.reduce(operator.mul, sizes)

    def _fact(self, name: str, tensors: list[torch.Tensor], args: tuple[Any, ...], result: Any) -> Any:
        """A call that gives no tensor: a fact of the tensor, unless it is what the tensor holds."""
        if name in READ and args and id(args[0]) in self.numbers:
            held = self.numbers[id(args[0])]
            return held.asked(here()) if isinstance(held, Compared) else held
        if name in MEASURES and tensors:
            self.sizes.end(name, tensors[0])
            shape = () if self._is_constant(tensors[0]) else self._sizes(tensors[0].shape, tensors[0])
            return measured(name, tensors[0], args, result, shape)
        if name in PEEKS and here() not in {*self.assumed, *(each.place for each in self.shortcuts)}:
            for tensor in tensors:
                self.sizes.end(name, tensor)
                value = self.values.get(id(tensor))
                if value is None or value.known:
                    continue
                for op in made_by(value):
                    if op.name in RANDOM:
                        raise drawn(op)
                if type(tensor) in (torch.Tensor, torch.nn.Parameter):  # it has its values: of the module's own
                    self.asked.setdefault(here(), name)
                else:
                    raise UnsupportedError(
                        f"{name} needs a tensor's values, which a trace does not have: compute it with torch's "
                        "functions",
                        location=here(),
                    )
        return result

    # -- the author's code -------------------------------------------------------------------------------------------

    def _path(self) -> str:
        return self.stack[-1].path if self.stack else ""

    def names(self) -> None:
        """Values without a name get that of the author's variable that holds them."""
        frame = authors_frame()
        if frame is None:
            return
        for name, held in frame.f_locals.items():
            if isinstance(held, torch.Tensor):
                value = self.values.get(id(held))
                if value is not None and value.name is None:
                    value.name = name
            elif isinstance(held, TracedInt) and held.expression.name is None:
                held.expression.name = name
            elif isinstance(held, (list, tuple)):
                for item in held[:MOST_NUMBERS]:
                    value = self.values.get(id(item)) if isinstance(item, torch.Tensor) else None
                    if value is not None and value.hint is None:
                        value.hint = name


ZEROS = ("zeros", "new_zeros")
MOST_NUMBERS = 16  # that are written out in a file
ARRANGING = {"permute", "transpose", "movedim", "flip", "roll", "view", "reshape", "expand", "repeat", "tile"}
"""Functions of a tensor and whole numbers."""
OF_WHOLE = r"scalar types: Long|used as indices must be|must be (an )?(int|long)|expected index|dtype int64"
"""How torch refuses floating-point numbers where it takes indices."""
OF_SEVERAL = r"values to unpack|invalid data type 'str'|is not a mapping|only integers, slices"
NUMBERS = ("item", "int", "float", "index", "tolist")


def _needs_values(name: str, sized: bool) -> str:
    """What forward asks of values where a trace has none, and what to write instead."""
    if sized:
        gives = f"the size of what {name} gives" if name else "the size of a result"
        what, instead = f"{gives} depends on a tensor's values", "keep all elements, and a mask that says which count"
    elif name in NUMBERS:
        what, instead = f"{name} makes a number of a tensor's values", "compute with the tensor itself"
    else:
        what, instead = "what runs here depends on a tensor's values", "compute both, and torch.where(condition, a, b)"
    by_hand = "write this part by hand (td.cond, td.while_loop)"
    return f"{what}, which a trace does not have: make it independent of the inputs ({instead}), or {by_hand}"


def _known(op: Op) -> bool:
    """Whether it is computed from sizes and numbers alone."""
    return op.name not in RANDOM and all(leaf.known for leaf in leaves((op.args, op.kwargs)) if isinstance(leaf, Value))


def _tensors(tree: Any) -> Any:
    return (leaf for leaf in leaves(tree) if isinstance(leaf, torch.Tensor))
