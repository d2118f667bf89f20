"""Writes down each call of torch that a module's code makes, and which value each tensor is."""

from __future__ import annotations

import dataclasses
import functools
import math
import operator
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from ....core.dtypes import dtype_name, narrowed
from ....core.errors import Location, TrtdslError, UnsupportedError
from ....core.lazy import np, torch
from ....core.tensors.dense import writes
from ....core.tensors.memory import storage_of
from ....core.tensors.watched import each_call
from ....definition.input import Input
from ....definition.spec.reference import forward_of, given_to
from ....sizes.operators import COMPARISONS, SYMBOLS
from ...calls import Call, Op, SizeOf, Value, Weight, leaves, made_by, rebuilt, sizes_of, tensors_in
from ...translating.aten import is_overload, public_call, written_out
from ...translating.counterpart import counterpart
from ...translating.distinct import distinct
from ...translating.spellings import (
    as_array,
    by_position,
    held_by,
    joined_often,
    joined_to_zeros,
    numbers_last,
    of_an_array,
    python_type,
    respelled,
)
from ...translating.unknown import is_mask, sized, unlike_itself
from ...translating.windows import LINEAR, WINDOWS, rescaled, stepped
from ..frames import TRANSFORMS, authors_frame, bound, here, place_of, unless_it_raises
from ..guards import BY_VALUES, DERIVATIVES, GUARDS, Choices, Record, again, note
from ..modes import tensors_of, torch_tensors
from ..names import CONVERSIONS, FOLDED, MEASURES, OF_SHAPE, PEEKS, RANDOM, canonical, drawn, is_neutral, keeps_value
from ..scalars import READ, Compared, Greatest, NeedsLongest, SizesBehind, SizesHeld, measured
from ..scans.marks import count_parts, in_steps, parted, scanning, sliced
from ..scans.taking import taken_apart
from ..traced_sizes import (
    TracedFloat,
    TracedInt,
    YieldingFloat,
    expression_of,
    is_repeated,
    is_traced,
    lost,
    plain_number,
    sizes_as,
    traced,
    whole_of,
)
from . import shapes
from .apart import Apart
from .bodies import Bodies
from .by_values import ByValues, counting
from .constants import MOST_NUMBERS, Constants
from .failures import TRUTHS, failed, needs_values
from .lengths import CountedLengths
from .memory import Kept, Memory, check_writes, layout, refuse_set, target_of, writes_itself
from .numbers import (
    as_pythons,
    at_numbers,
    filled,
    lists_of_numbers,
    own_numbers,
    standing_in,
    stands_in,
    writes_at_a_place,
)
from .packed import PackedSequences, pad_sequence
from .sparse import SparseTensors
from .subclasses import with_own_way
from .transforms import SizesInside, among, inner, is_derived, seen_through, stands_around


class Recorder:
    """The state while the module runs: which value each tensor is now, and which module is running."""

    def __init__(self, module: torch.nn.Module, count: int, choices: Choices | None):
        self.module = module
        self.choices = choices  # None where no value chooses
        if choices is not None:
            choices.made.clear()
            choices.places.clear()
        self.count = count  # the size that is tried where one depends on values
        self.tried = False
        self.weights: dict[str, Weight] = {}
        self.values: dict[int, Value] = {}  # by the identity of the tensor
        self.bodies = Bodies(module, self.values)
        self.kept = Kept()
        self.packed = PackedSequences(self)
        self.memory = Memory(self.values, self.kept, self.note)
        self.known_names: dict[int, list[str]] = {}
        self.state = set(module.state_dict(keep_vars=True))
        named = list(tensors_of(module))
        for name, tensor in named:
            self.known_names.setdefault(id(tensor), []).append(name)
        self.owners = {storage_of(tensor): name for name, tensor in named}
        self.held = dict(named)
        self.kept.extend(self.held.values())
        self.updated: dict[str, Location | None] = {}  # tensors of the module that forward writes to
        self.constants = Constants(self.bodies, self.weights, {*self.state, *self.held}, self.kept)
        self.folded: set[int] = set()  # identities of tensors that are computed while tracing
        self.filled: dict[int, Any] = {}  # memory with what inputs were written to, and the mode of their stand-ins
        self.widened: dict[torch.dtype, Location | None] = {}  # dtypes that a network computes in less than, and where
        self.sizes = SizesBehind(self.kept)
        self.numbers = SizesHeld(self.kept, self.sizes)
        self.apart = Apart(self)
        self.by_values = ByValues(self)
        self.sparse = SparseTensors(self._is_of_no_input, self.sizes.end)
        self.taken_apart: dict[Op, torch.Tensor] = {}
        self.iterated: Any = None  # the tensor that was taken apart last, and where
        self.assumed: dict[Location | None, None] = {}  # where forward raises by values, as if it did not
        self.asked: dict[Location | None, str] = {}  # where forward asks for values of the module's own tensors
        self.failure: Exception | None = None  # that a value is needed, which the module's code may have caught
        self.needed = ""  # the function that needs it
        self.longest: Greatest | None = None  # the number that it is, of an input
        self.counted = CountedLengths()
        self.place: Location | None = None
        self.inside = False  # whether a function of torch is running
        self.transformed = False  # whether one runs whose operators are recorded
        self.inputs: list[torch.Tensor] = []  # whose sizes derivatives have as numbers
        self.sizes_inside = SizesInside()

    def run(self, module: torch.nn.Module, tensors: Mapping[str, torch.Tensor]) -> Any:
        """Calls the module; errors get the author's line."""
        from torch._subclasses.fake_tensor import DataDependentOutputException, DynamicOutputShapeException

        self.inputs = [*tensors.values()]
        args, kwargs = given_to(module, tensors)
        self.bodies.begin(self._call("", module, args, kwargs))  # a __call__ of the author's may call no hooks
        try:
            returned = module(*args, **kwargs)
            if self.failure is None:
                self.bodies.end(self.tree(returned))
                return returned
            raise self.failure  # which the module's own try statement has caught
        except (TrtdslError, KeyboardInterrupt):
            raise
        except BaseException as raised:
            # torch.Size says another one than what it was told when it asked for a number.
            error = self.failure if self.failure is not None and "torch.Size() takes" in str(raised) else raised
            if isinstance(error, TrtdslError):
                raise error from error.__cause__
            if isinstance(error, (DataDependentOutputException, DynamicOutputShapeException)):
                location, sized = self.place or place_of(error), isinstance(error, DynamicOutputShapeException)
                cause = error if self.longest is None else NeedsLongest(self.longest)
                raise UnsupportedError(needs_values(self.needed, sized), location=location) from cause
            tried = needs_values(self.needed, True) if self.tried else None
            raise failed(error, tensors, tried, self.place) from error

    # -- modules -----------------------------------------------------------------------------------------------------

    def hooks(self, path: str, part: torch.nn.Module) -> list[Any]:
        """Hooks that note when a part begins and ends; a __call__ of the author's may give them no names."""

        def begin(module: Any, args: Any, kwargs: Any = None) -> None:
            self.names()
            self.bodies.begin(self._call(path, module, args, kwargs or {}))

        def end(module: Any, args: Any, *rest: Any) -> None:
            self.bodies.end(self.tree(rest[-1]))

        return [
            part.register_forward_pre_hook(begin, with_kwargs=True),
            part.register_forward_hook(end, with_kwargs=True, always_call=True),  # it may raise what forward catches
        ]

    def _call(self, path: str, module: torch.nn.Module, args: Any, kwargs: Any) -> Call:
        arguments = bound(forward_of(module), args, kwargs)
        return Call(path, module, {name: self.tree(given) for name, given in arguments.items()})

    # -- tensors -----------------------------------------------------------------------------------------------------

    def take(self, tensor: torch.Tensor, name: str | None = None, *, known: bool = False) -> Value:
        """A new value that the tensor is from now on."""
        if stands_around(tensor):
            raise UnsupportedError(TRANSFORMS.format(""), location=here())
        dtype = narrowed(tensor.dtype)
        if dtype != tensor.dtype:
            self.widened.setdefault(tensor.dtype, here())
        value = Value(tuple(tensor.shape), dtype if name is None else tensor.dtype, known, name)
        self.values[id(tensor)] = value
        self.kept.append(tensor)
        return value

    def reaches(
        self,
        name: str,
        tensors: Mapping[str, torch.Tensor],
        longest: Callable[..., Any] | None = None,
        spec: Input | None = None,
    ) -> None:
        """Notes of an input of whole numbers what its greatest is, and of sequences how long the longest is."""
        tensor = tensors[name]
        if spec is not None:
            self.by_values.take(self.value(tensor), name, spec)
        size = longest and longest(lambda key, axis: self._sizes(tensors[key].shape[axis], tensors[key], axis))
        known = Greatest(name, size, descending=spec is not None and spec.descending)
        padded = spec is not None and spec.padding is not None
        whole = not tensor.is_floating_point() and tensor.dtype != torch.bool
        sequences = tensor.dim() > 1 and (padded or size is None)
        if spec is not None and (sequences or (tensor.dim() == 1 and whole)):
            self.counted.take(self.value(tensor), spec, known)
        if not padded and whole:
            self.numbers.reaches(tensor, known)

    def value(self, tensor: torch.Tensor) -> Value:
        """The value that the tensor is now."""
        tensor = inner(tensor)
        key = id(tensor)
        if key in self.memory.stale:
            again = self.memory.again(tensor, self.value, self.bodies.path) if key in self.values else None
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
                return self.constants.value(tensor)
            if narrowed(tensor.dtype) != tensor.dtype:
                self.widened.setdefault(tensor.dtype, here())
                return self.constants.narrowed(tensor, self._weight(tensor, names[0]))
            # Tied weights have several names: the one of the module that asks.
            prefix = self.bodies.path + "." if self.bodies.path else ""
            name = next((name for name in names if name.startswith(prefix)), names[0])
            self.kept.append(tensor)
            return self._weight(tensor, name)
        return self.values[key]

    def _weight(self, tensor: torch.Tensor, name: str) -> Weight:
        """A tensor of the module's as a weight."""
        if name not in self.weights:
            self.weights[name] = Weight(tuple(tensor.shape), tensor.dtype, path=name, stored=name in self.state)
        return self.weights[name]

    def tree(self, given: Any) -> Any:
        """A tree of arguments with values for tensors and expressions for traced numbers."""
        if isinstance(given, torch.Tensor):
            if self._is_constant(given) and given.dim() == 0 and given.dtype == torch.float64:
                return given.item()  # which does not promote what it meets
            return self.value(given)
        if isinstance(given, (TracedInt, TracedFloat, YieldingFloat)):
            return expression_of(given)
        if is_repeated(given):
            return self.tree(given.parts)
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
            return slice(*map(self.tree, self._whole((given.start, given.stop, given.step))))
        return given

    def runs_itself(self, function_runs: bool) -> bool:
        """Whether an operator is part of what is recorded already, and is none of a transform's."""
        return self.inside or (function_runs and not self.transformed)

    # -- calls of torch ----------------------------------------------------------------------------------------------

    def called(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Makes one call of torch, and records it where it returns a tensor."""
        if self.inside:
            return function(*args, **kwargs)
        if args and is_repeated(args[0]) and (name := canonical(function)[0]) in ("cat", "stack", "tensor"):
            with each_call(self.called):
                return joined_often(name, *args[0].parts, *args[1:], **kwargs)
        if (operand := with_own_way(args, kwargs)) is not None:
            with each_call(self.called):
                return operand.__torch_function__(function, (type(operand),), args, kwargs)
        if around := among((args, kwargs)):
            return self._in_transform(function, args, kwargs, around)
        if is_overload(function):
            if isinstance(function, torch._ops.OpOverload):
                args, kwargs = self.sizes_inside.given(function, args, kwargs, self.own_sizes(*args[:1]))
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
        args, kwargs = numbers_last(name, args, kwargs)
        if kwargs:
            args, kwargs = by_position(function, name, form, args, kwargs)
        if (unpacked := self.packed.called(function, name, args, kwargs)) is not None:
            return unpacked()
        if (dense := self._of_dense(function, name, args, kwargs)) is not None:
            with each_call(self.called):
                return dense()
        if name == "shape" or (name == "size" and form == "method"):
            return self._sizes(function(*args, **kwargs), args[0], *args[1:], **kwargs)
        if name in ("numel", "nelement"):
            return self._numel(args[0])
        if name in ("getitem", "setitem"):
            arrays = rebuilt(args[1], lambda x: torch.from_numpy(x) if isinstance(x, np.ndarray) else held_by(x))
            if (lists := lists_of_numbers(arrays)) is not None:
                with each_call(self.called):
                    arrays = lists()
            args = (args[0], rebuilt(arrays, self.numbers.number), *args[2:])
            cut = self.by_values.cut if name == "getitem" else self.by_values.written
            if (cut_at := cut(*args)) is not None:
                with each_call(self.called):
                    return cut_at()
        if (own := own_numbers(name, args, kwargs, self._has_values)) is not None:
            with each_call(self.called):
                args, kwargs = own()
        if name == "type":  # with what stands in for a class of torch's
            args = tuple(getattr(each, "plain", each) for each in args)
        if name in ARRANGING:
            args, kwargs = args[:1] + self._whole(args[1:]), self._whole(kwargs)
        if name in MAKING:
            args, kwargs = self._whole((args, kwargs))
        if changes := as_pythons(name, {**dict(enumerate(args)), **kwargs}):
            with each_call(self.called):
                made = {key: change() for key, change in changes.items()}
            args = tuple(made.get(place, each) for place, each in enumerate(args))
            kwargs = {key: made.get(key, each) for key, each in kwargs.items()}
        self.names()
        reads = name in ("item", "is_nonzero") or (name in READ and "__" in qualified)  # bool(x), not x.bool()
        if reads and self._stays(args[0]) and self.numbers.of(args[0]) is not None:
            number, place = self._fact(name, [], args, None), here()
            if name in ("int", "float") and place is not None:  # of a package that has Python's own
                (GUARDS.get() or Record()).packages.add(place.file)
                return lost(number, f"{name}(), outside of what a trace follows,", place)
            return number
        others = self._by_others(function, name, args, kwargs)
        if others is not None:
            with each_call(self.called):
                found = others()
            if found is not None:
                return found
        if name == "set" and self._given_data(function, *args):
            return None
        if name == "squeeze" and not self._is_constant(args[0]):
            self._squeezed(*args, **kwargs)
        if qualified == "torch.cross" and len(args) == 2 and kwargs.get("dim") is None:
            args = (*args, self._first_of_three(args[0]))
        if function is torch.nn.functional.batch_norm:
            args, kwargs = self._by_its_batch(function, args, kwargs)
        return self.recorded(function, name, qualified, form, args, kwargs)

    def _of_dense(
        self, function: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Callable[[], Any] | None:
        """What gives the result of a call of sparse tensors; None for others."""
        self.inside = True
        try:
            return self.sparse.called(function, name, args, kwargs)
        finally:
            self.inside = False

    def _is_of_no_input(self, tensor: torch.Tensor) -> bool:
        """Whether no input and no weight has a part in a tensor."""
        known = self.values.get(id(tensor))
        return type(tensor) is torch.Tensor and id(tensor) not in self.known_names and (known is None or known.known)

    def _in_transform(self, function: Any, args: Any, kwargs: Any, around: list[torch.Tensor]) -> Any:
        """Makes a call of tensors that stand around others, whose operators are recorded."""
        name, _, form = canonical(function)
        if name == "shape" or (name == "size" and form == "method"):
            inside, axes = seen_through(args[0])
            sizes = sizes_as([self.own_sizes(inside)[axis] for axis in axes])
            return sizes if name == "shape" or not (args[1:] or kwargs) else sizes[(*args[1:], *kwargs.values())[0]]
        if name in ("numel", "nelement"):
            return math.prod(self._in_transform(torch.Tensor.size, args, {}, around))
        return self._by_operators(function, args, kwargs, around)

    def _by_operators(self, function: Any, args: Any, kwargs: Any, around: list[torch.Tensor]) -> Any:
        """Makes a call of which the operators below are recorded, as torch's own rules for it make them."""
        of_inputs = [self.own_sizes(each) for each in self.inputs] if DERIVATIVES.get() else []
        self.sizes_inside.see((of_inputs, args, kwargs), around, self.own_sizes)
        before, self.transformed = self.transformed, True
        try:
            return function(*args, **kwargs)
        finally:
            self.transformed = before

    def own_sizes(self, tensor: Any) -> Any:
        return self._sizes(tensor.shape, tensor) if isinstance(tensor, torch.Tensor) else ()

    def _by_others(
        self, function: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Callable[[], Any] | None:
        """What gives the call's result, or None, by calls of which a network or a loop is made; None of most calls."""
        if name == "pad_sequence":
            return lambda: pad_sequence(*args, **kwargs)
        if name in ("split", "split_with_sizes") and (cut := self.by_values.pieces(*args, **kwargs)) is not None:
            return cut
        if (beside := self.by_values.as_many(function, name, args)) is not None:
            return beside
        if name in ("split", "chunk") and type(args[0]) is not torch.Tensor and not self._is_constant(args[0]):
            return lambda: sliced(name, *args, **kwargs)
        if name in ("cat", "stack") and (whole := self._rejoined(name, *args, **kwargs)) is not None:
            return whole
        if name == "cat" and (whole := self.by_values.joined(*args, **kwargs)) is not None:
            return whole
        if name == "cat" and (padded := joined_to_zeros(self._written, *args, **kwargs)) is not None:
            x, pads = padded
            return lambda: torch.nn.functional.pad(x, [each and traced(each.number, each) for each in pads])
        if name == "getitem" and scanning(GUARDS.get()) and (steps := in_steps(args[1])) is not None:
            return lambda: args[0][steps[0]][steps[1]]
        if name == "getitem" and (taken := at_numbers(*args)) is not None:
            return taken
        if name in ("getitem", "masked_select"):
            return self._chosen(name, *args, **kwargs)
        if (made := filled(name, args, kwargs)) is not None:
            return made
        if (made := counting(name, args, kwargs) or distinct(name, args, kwargs)) is not None:
            return made
        if name in ("equal", "allclose") and not {*map(type, args[:2])} <= {torch.Tensor, torch.nn.Parameter}:
            a, b = args[:2]
            if name == "allclose":  # which broadcasts
                return lambda: bool(torch.isclose(*args, **kwargs).all())
            return lambda: a.shape == b.shape and bool((a == b).all())
        if name == "numpy" and again() and type(args[0]) not in (torch.Tensor, torch.nn.Parameter):
            return lambda: as_array(args[0])
        if name == "item" and self._stays(args[0]):
            return lambda: self._number(args[0])
        if name == "tolist" and type(args[0]) is torch.Tensor and not self._has_values(args[0]):
            return lambda: args[0].clone().tolist()
        if name in ("H", "mH", "adjoint") and args[0].is_complex():
            return lambda: args[0].conj().mT
        if name in WINDOWS and args and is_traced(args[0]) and again():
            if name.endswith("window"):
                note("==", expression_of(args[0]), 1, bool(args[0] == 1), here())
            return lambda: WINDOWS[name](*args, **kwargs)
        if name == "arange" and any(isinstance(each, TracedFloat) for each in args):
            start, end, step = (0, *args, 1) if len(args) == 1 else (*args, 1)[:3]
            steps = (end - start) / step
            count = whole_of("ceil", steps, math.ceil(plain_number(steps)), here())
            return lambda: stepped(count, start, step, **kwargs)
        functional = torch.nn.functional
        given = bound(function, args, kwargs) if function in (functional.interpolate, functional.embedding) else {}
        if given.get("scale_factor"):
            return self._by_factors(**given)
        if given.get("max_norm") is not None:  # it would shorten rows in place first
            rows = functools.partial(torch.renorm, given["weight"], given.get("norm_type", 2.0), 0, given["max_norm"])
            return lambda: functional.embedding(given["input"], rows(), given.get("padding_idx"))
        data: Any = args[0] if args else None
        if name in ("tensor", "as_tensor") and self._are_numbers(data):
            dtype = kwargs.get("dtype") or (args[1] if len(args) > 1 else data[0].dtype)
            return lambda: torch.stack(data).to(dtype)
        if name in ("tensor", "as_tensor", "new_tensor") and args:
            dtype = {"dtype": args[0].dtype} if name == "new_tensor" else {}
            return of_an_array(args[-1], {**dtype, **kwargs})
        return None

    def _by_factors(
        self, input: torch.Tensor, scale_factor: Any, mode: str = "nearest", antialias: bool = False, **options: Any
    ) -> Callable[[], Any] | None:
        """``interpolate`` by factors that are computed of sizes; None for others."""
        factors = list(scale_factor) if isinstance(scale_factor, (list, tuple)) else [scale_factor] * (input.dim() - 2)
        if not any(map(is_traced, factors)):
            return None
        own = self.own_sizes(input)[2:]
        products = [n * by for n, by in zip(own, factors)]
        sizes = [
            whole_of("int", each, int(plain_number(each)), here()) if isinstance(each, TracedFloat) else int(each)
            for each in products
        ]
        by_sizes = mode == "area" or options.get("recompute_scale_factor") or options.get("align_corners")
        over = [product - size for product, size in zip(products, sizes)]
        if by_sizes or all(_holds("<", each, NEARLY) for each in over):
            return lambda: torch.nn.functional.interpolate(
                input, sizes, mode=mode, antialias=antialias, align_corners=options.get("align_corners")
            )
        copied = [(antialias or mode in LINEAR) and _holds("==", *pair) for pair in zip(sizes, own)]
        shrinks = [_holds("<", *pair) if antialias else None for pair in zip(sizes, own)]

        def by_factors() -> torch.Tensor:
            found = input
            for axis, each in enumerate(zip(sizes, factors), start=2):
                if not copied[axis - 2]:
                    found = rescaled(found, axis, *each, mode, shrinks[axis - 2])
            return found

        return by_factors

    def recorded(
        self, function: Any, name: str, qualified: str, form: str, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Makes a call, and records it where it gives a tensor or writes to one."""
        from torch._subclasses.fake_tensor import DataDependentOutputException

        before = torch_tensors((args, kwargs))
        if is_derived(function, name, before):
            return self._by_operators(function, args, kwargs, before)
        target = target_of(function, name, args, kwargs, self.owners, self.held)
        if target is not None:
            self.by_values.check_write(target, qualified)
        versions = [writes(tensor) for tensor in before]
        self.inside = True
        try:
            itself = target is not None and writes_itself(name, qualified, target, args, kwargs, self.memory.stale)
        finally:
            self.inside = False
        former = None if target is None else layout(target)
        written = tuple(self.tree(args)) if name == "setitem" else None
        try:
            result = self._made(function, name, args, kwargs, target)
        except DataDependentOutputException:
            numbers = rebuilt((args, kwargs), self.numbers.number)
            if all(map(operator.is_, leaves(numbers), leaves((args, kwargs)))):
                if self.longest is not None:
                    raise
                try:
                    with each_call(self.called):
                        numbers = rebuilt((args, kwargs), lambda leaf: self.by_values.size(name, leaf))
                except UnsupportedError as error:
                    self.failure = error  # torch.Size says another one
                    raise
            if all(map(operator.is_, leaves(numbers), leaves((args, kwargs)))):
                raise
            self.failure = self.place = None
            return self.called(function, *numbers)
        check_writes(qualified, before, versions, target)
        if itself or (target is not None and is_neutral(name, args, kwargs)):  # y[:2] *= 3 ends with y[:2] = y[:2]
            return result
        if name in ("numpy", "array"):
            self._expose(args[0])
        self.numbers.remember(function, name, args, kwargs, result, target)
        if target is None and not torch_tensors(result):
            return self._fact(name, before, args, result)
        self.sizes.remember(before[name in OF_SHAPE :], (args, kwargs), result)
        if target is None and all(map(stands_in, before)):
            standing_in(torch_tensors(result) if before else ())
        for tensor in before if name not in CONVERSIONS else ():  # TensorRT's layers convert uint8, and nothing else
            if (value := self.values.get(id(tensor))) is not None and value.dtype == torch.uint8:
                cast = self._cast(tensor, torch.int32)
                self.packed.follow(cast)
                self.bodies.root.body.insert(0, cast)
        name, form, args, kwargs = respelled(name, form, args, kwargs, result)
        options = {key: self.tree(item) for key, item in kwargs.items() if key != "out"}
        given = tuple(self.tree(args)) if written is None else written
        op = Op(name, qualified, form, given, {} if written is not None else options, None, here(), self.bodies.path)
        if self._folds(op, args, kwargs, result if target is None else target):
            return result
        if (found := self.apart.taken(op, function, args, kwargs, result, target)) is not None:
            return found
        if target is not None:
            self._changed(target, op, layout(target) != former)
        else:
            self._noted(op, before, args, result)
        if name == "unbind" and not self._is_constant(args[0]):
            self.taken_apart[op] = args[0]
            self.iterated = id(args[0]), _instruction()
            return parted(result, op, here())
        if name in ("split", "chunk") and not self._is_constant(args[0]):
            count_parts(op, self._sizes, result, *args, **kwargs)
        return result

    def _by_its_batch(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        """The arguments of a batch norm, without statistics that it changes and does not read (V-Net, in eval too)."""
        given = bound(function, args, kwargs)
        changed = [each for each in ("running_mean", "running_var") if given.get(each) is not None]
        if not changed or not given.get("training"):
            return args, kwargs
        for each in changed:
            for name in self.known_names.get(id(given[each]), ()):
                self.updated.setdefault(name, here())
        return (), {**given, **dict.fromkeys(changed)}

    def _squeezed(self, input: torch.Tensor, dim: Any = None) -> None:
        """Notes which of the sizes are 1, since the rank of what a squeeze gives depends on it."""
        axes = range(input.dim()) if dim is None else [dim] if isinstance(dim, int) else dim
        for axis in axes if input.dim() else ():
            size = self._sizes(input.shape[axis], input, axis)
            note("==", expression_of(size), 1, bool(input.shape[axis] == 1), here())

    def _first_of_three(self, input: torch.Tensor) -> int:
        """The first dimension of three elements, of which ``torch.cross`` takes its vectors."""
        return next((axis for axis, size in enumerate(self.own_sizes(input)) if _holds("==", size, 3)), -1)

    def _noted(self, op: Op, operands: list[torch.Tensor], args: tuple[Any, ...], result: Any) -> None:
        """Writes down a call that gives tensors, unless its result is its operand's value."""
        if operands and keeps_value(op, operands[0], result):
            self.values[id(result)] = self.value(operands[0])
            self.kept.append(result)
            self.memory.made(operands[0], None, [result])
            return
        known = _known(op)
        op.results = rebuilt(result, lambda x: self._new(x, op, known) if isinstance(x, torch.Tensor) else x)
        self.note(op)
        self._count(op, result)
        if len(operands) == 1 and args and args[0] is operands[0]:
            self.memory.made(operands[0], op, torch_tensors(result))

    def note(self, op: Op, container: Call | None = None) -> None:
        """Writes a call down: into the body that is being written, or a ``container``'s."""
        self.packed.follow(op)
        self.bodies.note(op, container)

    def _count(self, op: Op, result: Any) -> None:
        """Notes of a call's result that it has the lengths of an input's sequences."""
        if not isinstance(result, torch.Tensor) or self.numbers.greatest(result) is not None:
            self.counted.follow(op)
            return
        self.inside = True
        try:
            found = self.counted.greatest(op)
        finally:
            self.inside = False
        if found is not None:
            self.numbers.reaches(result, found)

    def _loaded(self, overload: Any, args: tuple[Any, ...]) -> bool:
        """Whether a new tensor gets the memory that was read from a file: from now on it is a constant."""
        if "aten.set_" not in str(overload) or len(torch_tensors(args)) > 1:
            return False
        key = id(args[0])
        if type(args[0]) is not torch.Tensor or key in self.known_names:
            return False
        if key in self.values and not self.values[key].known:
            return False
        self.values.pop(key, None)
        self.kept.append(args[0])
        return True

    def _chosen(self, name: str, input: Any, index: Any = None, **named: Any) -> Callable[[], Any] | None:
        """What masks choose that no input has a part in: by constant places, at first; None for other masks."""
        index = named.get("mask", index)
        parts: tuple[Any, ...] = index if isinstance(index, tuple) else (index,)
        masks = [part for part in parts if is_mask(part)]
        if not masks or named.get("out") is not None or again():
            return None
        if not isinstance(input, torch.Tensor) or self._is_constant(input):
            return None
        if not all(map(self._has_values, masks)):
            return None
        for mask in masks:
            value = self.values.get(id(mask))
            self._refuse_drawn(value)
            if id(mask) in self.known_names or (value is not None and not value.known):
                self.asked.setdefault(here(), name)
        shape = None
        if name == "masked_select":
            shape = torch.broadcast_shapes(input.shape, masks[0].shape)
            parts = (masks[0].expand(shape),)
        places = [place for part in parts for place in (part.nonzero(as_tuple=True) if is_mask(part) else [part])]
        return lambda: (input if shape is None else input.expand(shape))[tuple(places)]

    def _whole(self, given: Any) -> Any:
        """Whole numbers, also those of tensors that have one now."""
        kinds = torch.int64, torch.int32
        with each_call(self.called):
            return rebuilt(given, lambda x: x.item() if type(x) is torch.Tensor and x.dtype in kinds else x)

    def _are_numbers(self, given: Any) -> bool:
        """Whether it is a list of numbers of one dtype that are traced as tensors, as ``list(lengths)`` is."""
        tensors = isinstance(given, (list, tuple)) and all(isinstance(x, torch.Tensor) and not x.dim() for x in given)
        return tensors and not any(map(self._has_values, given)) and len({x.dtype for x in given}) == 1

    def _stays(self, tensor: torch.Tensor) -> bool:
        """Whether a number of the tensor's is traced as the tensor itself, which has no values."""
        return not self._has_values(tensor) and tensor.numel() == 1

    def _has_values(self, tensor: torch.Tensor) -> bool:
        """Whether a tensor has its values while tracing: a constant, a weight, or what is computed of such alone."""
        return type(tensor) in (torch.Tensor, torch.nn.Parameter) and storage_of(tensor) not in self.filled

    def _number(self, tensor: torch.Tensor) -> Any:
        """What stands for a number: a tensor without dimensions that computes as Python's number would; of bool, it."""
        if tensor.dtype == torch.bool:
            return bool(tensor)
        number = tensor.reshape(()) if tensor.dim() else tensor.detach()
        if tensor.dtype.is_floating_point and tensor.dtype.itemsize < 4:
            number = number.float()
        return standing_in([number])[0]

    def _given_data(self, function: Any, tensor: torch.Tensor, given: Any) -> bool:
        """``weight.data = y`` of one of the module's own tensors, which is y from now on; whether it is that."""
        names = self.known_names.get(id(tensor))
        if function.__self__.__name__ != "data" or names is None or given.shape != tensor.shape:
            return False
        self.values[id(tensor)] = self.value(given)
        self.updated.setdefault(names[0], here())
        self.by_values.give_data(tensor, given)
        return True

    def _made(self, function: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], target: Any) -> Any:
        """The result of the call, with a trial size where its size depends on values."""
        from torch._subclasses.fake_tensor import DataDependentOutputException, DynamicOutputShapeException

        if name in ("numpy", "array") and not self._is_constant(args[0]) and type(args[0]) is not torch.nn.Parameter:
            self._fact(name, torch_tensors(args), args, None)
        result = unlike_itself(name, args, kwargs)
        if result is not None:
            return result
        self.inside = True
        try:
            made = self._run(function, args, kwargs, target)
            return self._without_values(made) if name in RANDOM and target is None else made
        except DynamicOutputShapeException as error:
            result = sized(name, args, kwargs, self.count)
            if result is None:
                self.failure, self.place, self.needed = error, here(), canonical(function)[1]
                raise
            self.tried, self.place, self.needed = True, here(), canonical(function)[1]
            return result
        except DataDependentOutputException as error:
            outcome = unless_it_raises() if name in ("bool", "is_nonzero") else None
            if outcome is not None:
                self.assumed[here()] = None
                return outcome
            if name in ("bool", "is_nonzero") and self.choices is not None and args[0].numel() == 1:
                chosen = self.choices.choose(self.values.get(id(args[0])), here())
                if chosen is not None:
                    return chosen.guard.outcome
            if name in TRUTHS:
                self._refuse_drawn(self.values.get(id(args[0])))
            if name in ("int", "float") and (place := here()) is not None:  # of a package that has Python's own
                (GUARDS.get() or Record()).packages.add(place.file)
            of_an_index = "place" if writes_at_a_place(name, args) else "index"
            needed = of_an_index if name in ("getitem", "setitem") else name
            asks = name not in TRUTHS and not BY_VALUES.get()
            self.longest = self.numbers.asked((args, kwargs)) if asks else None
            self.failure, self.place, self.needed = error, here(), needed
            raise
        finally:
            self.inside = False

    def _refuse_drawn(self, value: Value | None) -> None:
        """UnsupportedError where a value, which something depends on, is made of random numbers."""
        for op in made_by(value) if value is not None else ():
            if op.name in RANDOM:
                raise drawn(op)

    def _without_values(self, numbers: Any) -> Any:
        """What is drawn as an input is, which it will be: nothing may depend on its numbers."""
        modes = [*filter(None, (getattr(each, "fake_mode", None) for each in self.inputs))]
        if type(numbers) is not torch.Tensor or stands_around(numbers) or not modes:
            return numbers
        with modes[0]:
            return torch.empty_strided(numbers.shape, numbers.stride(), dtype=numbers.dtype)

    def _run(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], target: torch.Tensor | None) -> Any:
        """The result of the function itself: without values where an operand's memory has inputs written to it.

        A view of such memory stays one, so that what is written to it later is found.
        """
        given = torch_tensors((args, kwargs)) if self.filled or target is not None else []
        filled = [each for each in given if storage_of(each) in self.filled]
        if target is not None:
            modes = [*filter(None, (getattr(each, "fake_mode", None) for each in given))]
            modes += [self.filled[storage_of(each)] for each in filled]
            if modes and self._has_values(target):
                self.filled[storage_of(target)] = modes[0]
        if target is not None:
            return function(*args, **kwargs)
        if not filled:
            return shapes.made(function, args, kwargs)
        with suppress(Exception):  # which numbers that were not written may raise
            result = function(*args, **kwargs)
            if any(storage_of(each) in map(storage_of, filled) for each in torch_tensors(result)):
                return result

        def emptied(leaf: Any) -> Any:
            if not any(leaf is each for each in filled):
                return leaf
            with self.filled[storage_of(leaf)]:
                return torch.empty_strided(leaf.shape, leaf.stride(), dtype=leaf.dtype)

        args, kwargs = rebuilt((args, kwargs), emptied)
        return function(*args, **kwargs)

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
        if (dtype := _computed_in(op, target.dtype)) != target.dtype:
            op.results = Value(tuple(target.shape), dtype, known, producer=op)
            self.note(op)
            op = Op("to", "torch.Tensor.to", "method", (op.results, target.dtype), {}, None, op.location, op.path)
        op.results = self._new(target, op, known)
        op.results.name = former.name if former is not None else None
        self.note(op)
        if reshaped:
            self.memory.reshaped(target)
        else:
            self.memory.changed(target, op, self.value, lambda base, write: self._new(base, write, _known(write)))

    # -- what is known while tracing -----------------------------------------------------------------------------------

    def _rejoined(self, name: str, parts: Any, dim: int = 0, **named: Any) -> Callable[[], Any] | None:
        """What gives all parts of a tensor together again, of the tensor, however many there are; None for others."""
        items = tuple.__iter__(parts) if isinstance(parts, tuple) else parts  # which is no loop over them
        values = [self.values.get(id(part)) for part in items] if isinstance(parts, (list, tuple)) else []
        op = values[0].producer if values and values[0] is not None else None
        whole, scans = self.taken_apart.get(op) if op is not None else None, getattr(GUARDS.get(), "scans", None)
        if op is None or whole is None or scans is None or not scans.on or named:
            return None
        changed = self.values.get(id(whole)) is not op.args[0]
        if changed or [*map(id, values)] != [*map(id, op.made)] or (name == "cat" and whole.dim() == 1):
            return None
        scans.forms.setdefault(op.location, None)
        axis, dim = taken_apart(op), dim % (whole.dim() - (name == "cat"))
        if name == "stack":
            return lambda: whole.movedim(axis, dim).clone()
        return lambda: whole.movedim(axis, dim).flatten(dim, dim + 1).clone()

    def _written(self, tensor: torch.Tensor) -> Value | None:
        """The value of a tensor that a call of the program gave; None for others."""
        return None if self._is_constant(tensor) else self.values.get(id(tensor))

    def _is_constant(self, tensor: torch.Tensor) -> bool:
        """Whether the tensor has its values now and is neither the module's nor written in the program."""
        key = id(tensor)
        outside = key not in self.values and key not in self.known_names and type(tensor) is torch.Tensor
        return key in self.folded or outside

    def _folds(self, op: Op, args: Any, kwargs: Any, result: Any) -> bool:
        """Whether a known value is computed while tracing: it has no counterpart, is float64, or comes from numpy."""
        tensors = torch_tensors(result)
        if not _known(op) or op.name in RANDOM or not all(type(tensor) is torch.Tensor for tensor in tensors):
            return False
        given = torch_tensors((args, kwargs))
        operands = [*given, *tensors]
        sized = any(True for _ in sizes_of((op.args, op.kwargs))) or self.sizes.behind(given)
        varies = sized and again()
        written = {"complex64", "float64"} if varies else {"complex64"} if sized else set()
        double = any((name := dtype_name(each.dtype)) in FOLDED and name not in written for each in operands)
        numpys = (leaf for leaf in leaves((args, kwargs)) if type(leaf).__module__ == "numpy")
        arrays = any(not isinstance(leaf, (int, float)) for leaf in numpys)
        folded = double or arrays or (not varies and any(id(tensor) in self.folded for tensor in operands))
        kept = op.form == "setitem" or bool(given and keeps_value(op, given[0], result))
        if not folded and (kept or counterpart(op) is not None):
            return False
        for tensor in tensors:
            self.folded.add(id(tensor))
            self.values.pop(id(tensor), None)
            self.constants.forget(tensor)
            self.kept.append(tensor)
        self.inside = True
        try:
            self.constants.folded(op, result)
        finally:
            self.inside = False
        return True

    def _expose(self, tensor: torch.Tensor) -> None:
        """From now on a known tensor is what it holds when it is read, since numpy may write to its memory."""
        for each in [tensor, *self.kept.sharing(storage_of(tensor))]:
            value = self.values.get(id(each))
            if value is not None and value.known:
                self.folded.add(id(each))
                del self.values[id(each)]

    def converted(self, result: torch.Tensor) -> None:
        """Notes that forward's result is its value in the dtype that the result itself has."""
        if self.value(result).dtype != result.dtype:
            self.note(self._cast(result, result.dtype), self.bodies.root)

    def _cast(self, tensor: torch.Tensor, dtype: torch.dtype) -> Op:
        """The call after which the tensor's value has another dtype."""
        given = self.value(tensor)
        op = Op("to", "torch.Tensor.to", "method", (given, dtype), {}, None, None)
        op.results = self.values[id(tensor)] = Value(given.shape, dtype, name=given.name, producer=op)
        return op

    def _sizes(self, sizes: Any, tensor: torch.Tensor, dim: int = 0) -> Any:
        if self._is_constant(tensor):
            return sizes
        value = self.value(tensor)
        if isinstance(sizes, int):
            axis = int(dim) % max(len(value.shape), 1)
            return traced(int(sizes), SizeOf(value, axis, int(sizes)))
        known = [traced(int(size), SizeOf(value, axis, int(size))) for axis, size in enumerate(sizes)]
        return sizes_as(known, followed=value in self.packed.axes)

    def _numel(self, tensor: torch.Tensor) -> Any:
        if self._is_constant(tensor):
            return tensor.numel()
        sizes = list(self._sizes(tensor.shape, tensor)) or [1]
        return functools.reduce(operator.mul, sizes)

    def _fact(self, name: str, tensors: list[torch.Tensor], args: tuple[Any, ...], result: Any) -> Any:
        """A call that gives no tensor: a fact of the tensor, unless it is what the tensor holds."""
        if name in READ and args and (held := self.numbers.of(args[0])) is not None:
            held = rebuilt(held, lambda each: each.asked(here()) if isinstance(each, Compared) else each)
            return next(leaves(held)) if name != "tolist" else held
        if name == "len" and self.iterated == (id(args[0]), _instruction()):
            return result  # list(x) goes over the parts of x, and asks how many there are to have room for them
        if name in MEASURES and tensors:
            self.sizes.end(name, tensors[0])
            shape = () if self._is_constant(tensors[0]) else self._sizes(tensors[0].shape, tensors[0])
            return measured(name, tensors[0], args, result, shape)
        chosen = self.choices.places if self.choices is not None else ()
        if name in PEEKS and here() not in {*self.assumed, *chosen}:
            for tensor in tensors:
                value = self.values.get(id(tensor))
                truth = name in ("bool", "is_nonzero") or (name == "item" and tensor.dtype == torch.bool)
                if truth and value is not None and self.sizes.ask(tensor, value, result):
                    continue
                self.sizes.end(name, tensor)
                if value.known if value is not None else self.state.isdisjoint(self.known_names.get(id(tensor), ())):
                    continue
                self._refuse_drawn(value)
                if self._has_values(tensor):  # of the module's own
                    self.asked.setdefault(here(), name)
                else:
                    raise UnsupportedError(
                        f"{name} needs a tensor's values, which a trace does not have: compute it with torch's "
                        "functions",
                        location=here(),
                    )
        return result

    # -- the author's code -------------------------------------------------------------------------------------------

    def names(self) -> None:
        """Values without a name get that of the author's variable that holds them."""
        frame = authors_frame()
        if frame is None:
            return
        for name, held in frame.f_locals.items():
            if not name.strip("_"):  # which a file calls what it does not use
                continue
            if isinstance(held, torch.Tensor):
                value = self.values.get(id(held))
                if value is not None and value.name is None:
                    value.name = name
            elif isinstance(held, TracedInt) and held.expression.name is None:
                held.expression.name = name
            elif isinstance(held, (list, tuple)) and not is_repeated(held):
                for item in (*held[:MOST_NUMBERS], *held[MOST_NUMBERS:][-MOST_NUMBERS:]):  # it may grow at its end
                    value = self.values.get(id(item)) if isinstance(item, torch.Tensor) else None
                    if value is not None and value.hint is None:
                        value.hint = name


def _instruction() -> tuple[Location | None, int]:
    """The author's instruction that is running."""
    frame = authors_frame()
    return here(), -1 if frame is None else frame.f_lasti


ARRANGING = {"permute", "transpose", "movedim", "flip", "roll", "view", "reshape", "expand", "repeat", "tile", "pad"}
"""Functions of a tensor and whole numbers."""

NEARLY = 1e-6
"""What a size times a factor may be more than the whole number that it is."""

MAKING = {"arange", "linspace", "zeros", "ones", "full", "eye", "interpolate"}
"""Functions of whole numbers alone, or of a tensor that is none."""


def _holds(symbol: str, left: Any, right: Any) -> bool:
    """Whether a comparison of sizes, which torch makes itself, holds; a guard says that it does so everywhere."""
    outcome = COMPARISONS[symbol](plain_number(left), plain_number(right))
    if is_traced(left) or is_traced(right):
        note(symbol, expression_of(left), expression_of(right), outcome, here())
    return outcome


def _computed_in(op: Op, written: torch.dtype) -> torch.dtype:
    """The dtype in which a call computes what it writes to a tensor of that dtype."""
    symbol = SYMBOLS.get(op.name)
    if symbol in COMPARISONS or op.name.startswith("logical_"):
        return torch.bool
    if symbol is None or len(op.args) != 2 or (not written.is_floating_point and symbol == "/"):
        return written
    a, b = (torch.empty((1,) * len(x.shape), dtype=x.dtype) if isinstance(x, Value) else x for x in op.args)
    return torch.result_type(a, b) if isinstance(b, (torch.Tensor, bool, int, float)) else written


def _known(op: Op) -> bool:
    """Whether it is computed from sizes and numbers alone."""
    return op.name not in RANDOM and all(value.known for value in tensors_in((op.args, op.kwargs)))
