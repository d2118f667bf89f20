"""Traces a torch module: runs it on tensors without values and writes down each call that its code makes.

Calls are recorded where the author makes them, before torch takes them apart (``F.conv2d(x, w, stride=2)``, not the
operations inside it), through torch's own :class:`~torch.overrides.TorchFunctionMode`. Inputs, and what is computed
from them, are fake tensors: they have a shape and no values, so that great sizes take no time. Parameters and buffers
are the module's own.
"""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any
from unittest import mock

from ...checking.judging.outputs import as_real, walk
from ...core.caller import to_write
from ...core.dtypes import as_dtype, dtype_name, narrowed
from ...core.errors import DefinitionError, Location, TrtdslError, UnsupportedError, UsageError
from ...core.lazy import torch
from ...core.tensors.higher_order import written_out
from ...core.tensors.watched import each_call, subclassed_by, unlogged
from ...definition.input import Input
from ...definition.spec.reference import forward_of, with_hooks
from ..calls import Call, Op, Value, Weight, operations, operations_for, tensors_in, values_in
from ..given import Fed
from ..translating.rules import HIGHER_ORDER
from ..translating.scripts import as_python, without_scripts
from .frames import returned_names
from .guards import DERIVATIVES, GUARDS, SCANS, Choice, Choices, Guard, Record, Scans
from .modes import free, modes_below, numbers_of, tensors_of
from .names import CONVERSIONS, OF_SHAPE, RANDOM, SPREAD, drawn
from .recording.numbers import read_as_numbers
from .recording.recorder import Recorder
from .recording.subclasses import as_class
from .scalars import NeedsDeclared
from .scans.as_one import with_scans
from .scans.marks import Whiles
from .scans.wholes import with_wholes
from .stand_ins import named_for_a_type, package_of, packages_of, pythons_functions, source_of, without_sizes
from .traced_sizes import broadcast_shapes, follow_here, yielding


@dataclass(eq=False)
class Trace:
    """One run of a module."""

    root: Call
    inputs: dict[str, Value]
    results: Any
    """What forward gave: a tree of values."""
    weights: dict[str, Weight]
    constants: dict[str, torch.Tensor] = field(default_factory=dict)
    """Tensors of many numbers that are not the module's, by the paths that they get."""
    remarks: list[str] = field(default_factory=list)
    """What forward does besides and a network does not."""
    tried: bool = False
    """Whether a size that depends on values has been tried."""
    guards: list[Guard] = field(default_factory=list)
    """What it asked of sizes."""
    requirements: list[Any] = field(default_factory=list)
    """What the file requires of its dimensions, so that the module would have done the same at all sizes."""
    branches: bool = False
    """Whether it has branches, which TensorRT does not always build."""
    elsewhere: Sequence[Mapping[str, int]] = ()
    """Sizes at which forward takes another path, which must be shown to give the same."""
    left_out: list[str] = field(default_factory=list)
    """What forward gives that is no output, by the paths under which a check knows it."""
    choices: list[Choice] = field(default_factory=list)
    """What it asked of values."""
    besides: list[Trace] = field(default_factory=list)
    """The traces with other outcomes of that, which are the same program."""
    held: Mapping[str, torch.Tensor] = field(default_factory=dict)
    """The tensors that the module had before, by path: forward may keep others in their places."""
    unasked: Sequence[str] = ()
    """Remarks on what it asks of how many elements values choose."""

    @property
    def several(self) -> bool:
        """Whether forward goes several ways."""
        return self.branches or bool(self.elsewhere)

    def set_constants_apart(self, others: Mapping[str, torch.Tensor]) -> None:
        """Gives its constants other paths where ``others``, of another network of the file, have other numbers."""
        for path, held in [*self.constants.items()]:
            other = others.get(path, held)
            if other is not held and not (other.dtype == held.dtype and torch.equal(other, held)):
                weight = self.weights.pop(path)
                weight.path = free(path, {*others, *self.constants, *self.weights, *self.held})
                self.weights[weight.path] = weight
                self.constants[weight.path] = self.constants.pop(path)

    def name_outputs(self, names: Sequence[str]) -> None:
        """Calls the results so, in order. Raises UsageError where these are not their names."""
        values = tensors_in(self.results)
        if names and (len(names) != len(values) or len({*names}) != len(values)):
            raise UsageError(f"forward gives {len(values)} tensors, and these names are given: {', '.join(names)}")
        if names:
            self.results = dict(zip(names, values))


def trace(module: torch.nn.Module, inputs: Fed, count: int = 3, choices: Choices | None = None) -> Trace:
    """Runs ``module.forward`` on inputs of these names, shapes and dtypes; ``count`` are chosen where values choose.

    Beside these, ``inputs`` may say what gives the greatest number of each (:meth:`Given.longest`).

    Where a value would decide what runs, forward is run as torch.compile runs it: libraries leave out what they do for
    values alone. ``choices`` say instead how it goes on. A file that gives torch a type of Python (``dtype=int``) keeps
    Python's own. Raises UnsupportedError with the author's line where a value decides then too, DefinitionError with it
    for anything that forward raises.
    """
    from torch._subclasses.fake_tensor import DataDependentOutputException

    scans = SCANS.get() or Scans(on=False)
    packages, types_in = packages_of(module) | scans.packages, scans.types_in
    while True:
        record = Record(scans=SCANS.get())
        token = GUARDS.set(record)
        try:
            found = _trace(module, inputs, count, packages, types_in, choices)
            if not _more(packages, record):
                return found
        except UnsupportedError as error:
            if _more(packages, record):
                continue
            if choices is not None or not isinstance(error.__cause__, (DataDependentOutputException, NeedsDeclared)):
                raise
            with mock.patch.object(torch.compiler, "_is_compiling_flag", True), suppress(TrtdslError):
                return _trace(module, inputs, count, packages, types_in)
            raise
        except DefinitionError as error:
            place = error.location
            if place is None or place.file in types_in or not named_for_a_type(error.__cause__):
                raise
            types_in.add(place.file)
        finally:
            GUARDS.reset(token)
            scans.packages |= packages


def _more(packages: set[str], record: Record) -> bool:
    """Adds the packages in which sizes were lost, whose caches then have none."""
    found = {package_of(file) for file in record.packages} - packages - {"", "torch", "trtdsl"}
    if found:
        without_sizes(found)
    packages |= found
    return bool(found)


def _trace(
    module: torch.nn.Module,
    inputs: Fed,
    count: int,
    packages: Collection[str],
    types_in: Collection[str],
    choices: Choices | None = None,
) -> Trace:
    from torch._subclasses.fake_tensor import FakeTensor

    module = copied(module, parameters=False)
    _yield_to_sizes(module)
    tensors = without_values(inputs)
    recorder, before = Recorder(module, count, choices), numbers_of(module)
    values = {name: recorder.take(tensor, name) for name, tensor in tensors.items()}
    for name, (_, _, *longest) in inputs.items():
        recorder.reaches(name, tensors, *longest)
    with ExitStack() as stack:
        stack.enter_context(torch.set_grad_enabled(DERIVATIVES.get()))
        stack.enter_context(torch.autocast("cpu", enabled=False))
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore")
        if DERIVATIVES.get():  # of attention and recurrent networks by products, whose derivatives are operators, too
            stack.enter_context(torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH))
            stack.enter_context(torch.backends.mkldnn.flags(enabled=False))
        # Python copies the size that an author's __int__ gives, and warns of it.
        warnings.filterwarnings("always", ".*__ returned non-", DeprecationWarning)
        stack.enter_context(mock.patch.object(warnings, "showwarning", follow_here))
        stack.enter_context(unlogged())
        stack.enter_context(mock.patch.object(torch.distributions.Distribution, "_validate_args", False))  # asserts
        stack.enter_context(mock.patch("torch.broadcast_shapes", lambda *s: torch.Size(broadcast_shapes(*s))))
        stack.enter_context(read_as_numbers(FakeTensor))
        stack.enter_context(written_out(HIGHER_ORDER))
        for path, part in module.named_modules():
            for handle in recorder.hooks(path, part) if part is not module else ():
                stack.callback(handle.remove)
        stack.enter_context(modes_below(recorder.called, recorder.runs_itself))
        stack.enter_context(each_call(recorder.called))
        stack.enter_context(subclassed_by(lambda _, tensor, kind: as_class(tensor, kind)))
        stack.enter_context(pythons_functions(packages, types_in))
        record = GUARDS.get() or Record()
        record.guards.clear()
        record.loops.clear()
        record.more.clear()
        record.parted.clear()
        record.calls, record.container, record.told = 0, recorder.bodies.container, Whiles().asked
        returned = recorder.run(module, tensors)
        found = dict(walk(returned))
        recorder.packed.refuse(found.values(), record.guards)
        complex_ones = [path for path, leaf in found.items() if isinstance(leaf, torch.Tensor) and leaf.is_complex()]
        found.update({path: as_real(found[path]) for path in complex_ones})
    for op in operations(recorder.bodies.root):
        _choose(op)
    left_out = {path: leaf for path, leaf in found.items() if not isinstance(leaf, torch.Tensor)}
    changed = [name for name, number in numbers_of(module).items() if before.get(name, number) != number]
    remarks = [*_updates(recorder, module, changed), *_differences(recorder), *map(_remark, left_out.items())]
    remarks += (
        f"forward gives complex numbers{_at(path)}: the network gives torch.view_as_real of them"
        for path in complex_ones
    )
    for path, leaf in found.items():
        dtype = leaf.dtype if isinstance(leaf, torch.Tensor) else torch.float32
        if dtype == torch.uint8:  # as which an engine has inputs and outputs
            recorder.converted(leaf)
        elif narrowed(dtype) != dtype:
            own, instead = map(dtype_name, (dtype, narrowed(dtype)))
            remarks.append(f"forward gives {own}{_at(path)}: the network gives {instead}")
    results = _outputs(returned, module, {path: recorder.value(found[path]) for path in found if path not in left_out})
    results = with_wholes(recorder.bodies.root, results, record)
    results = with_scans(recorder.bodies.root, results, record)
    made = Trace(
        recorder.bodies.root, values, results, recorder.weights, recorder.constants.large, remarks, recorder.tried
    )
    made.guards = [guard for guard in record.guards if guard is not None]
    made.left_out = list(left_out)
    made.choices, made.held = choices.made if choices is not None else [], recorder.held
    refuse_random(made)
    return made


def _yield_to_sizes(module: torch.nn.Module) -> None:
    """Has the floats of a copied module, and of what its parts hold, such as a config, leave results to sizes."""
    for part in module.modules():
        for holder in (part, *vars(part).values()):
            held = not callable(holder) and not isinstance(holder, ModuleType) and hasattr(holder, "__dict__")
            if holder is part or (held and not hasattr(type(holder), "__deepcopy__")):
                own = vars(holder)
                own.update({name: yielding(each) for name, each in own.items() if type(each) is float})


class DrawsNumbers(Exception):
    """The cause of a refusal: the results of a trace depend on random numbers."""

    trace: Trace


def refuse_random(found: Trace) -> None:
    """Raises UnsupportedError where the results depend on random numbers."""
    for op in live_operations(found):
        if op.name in RANDOM:
            cause = DrawsNumbers()
            cause.trace = found
            raise drawn(op) from cause


def without_values(inputs: Fed) -> dict[str, torch.Tensor]:
    """Tensors that have shapes and dtypes, and no values."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode(allow_non_fake_inputs=True):
        return {name: torch.empty(shape, dtype=dtype) for name, (shape, dtype, *_) in inputs.items()}


def _choose(op: Op) -> None:
    """Makes ``y[mask] = x[mask]`` the choice between the two that it is, which needs no size that depends on data."""
    if op.form != "setitem" or not all(isinstance(item, Value) for item in op.args) or op.args[1].dtype != torch.bool:
        return
    target, mask, given = op.args
    made = given.producer
    if made is None or made.name != "getitem" or made.args[1] is not mask or not isinstance(made.args[0], Value):
        return
    source = made.args[0]
    if source.shape == target.shape and source.dtype == target.dtype and mask.shape:
        op.name, op.args = "masked_where", (target, mask, source)


def _updates(recorder: Recorder, module: torch.nn.Module, changed: list[str]) -> Iterator[str]:
    """A remark for each tensor of the module that forward writes to or replaces, and the numbers ``changed``."""
    places = {**recorder.updated, **dict.fromkeys(changed)}
    for name, tensor in tensors_of(module):
        if name not in recorder.held or recorder.held[name] is not tensor:
            places.setdefault(name, None)
    for name, place in places.items():
        at = f" at {place}" if place is not None else ""
        yield f"forward changes its {name}{at}: the network does as the first call does, and keeps nothing"


def _differences(recorder: Recorder) -> Iterator[str]:
    """A remark for each way in which the network computes otherwise than forward does, or does only for its weights."""
    yield from map(taken_for_granted, recorder.assumed)
    for dtype, place in recorder.widened.items():
        name, instead = dtype_name(dtype), dtype_name(narrowed(dtype))
        yield f"forward computes in {name} at {place}: the network computes in {instead}"
    for place, name in recorder.asked.items():
        yield f"{name} at {place} asks for values of the module's own tensors: the network is for weights that agree"


def taken_for_granted(place: Location | None) -> str:
    """The remark on an error that forward raises by values, at a line."""
    return f"what forward asserts of values at {place} is taken for granted: the network does not look"


def _at(path: str) -> str:
    return f" ({path})" if path else ""


def _remark(left_out: tuple[str, Any]) -> str:
    path, leaf = left_out
    kind = "a number" if isinstance(leaf, (int, float)) else f"a {type(leaf).__name__}"
    return f"forward also gives {kind} ({path}), which is no output of the network"


def _outputs(returned: Any, module: torch.nn.Module, tensors: dict[str, Value]) -> Any:
    """The results of forward that a check compares: a tensor, tensors by name, or all tensors of a tuple.

    Those of a tuple have the names of the variables that forward returns, where it returns such alone.
    """
    if isinstance(returned, torch.Tensor):
        return next(iter(tensors.values()))
    if not tensors:
        kind = "None" if returned is None else f"a {type(returned).__name__}"
        raise UsageError(
            f"forward gives {kind}: a network gives tensors, alone or in tuples, lists, dicts, dataclasses"
        )
    if isinstance(returned, Mapping) or dataclasses.is_dataclass(returned):
        return {path.replace(".", "_"): value for path, value in tensors.items()}
    names = returned_names(forward_of(module))
    named = len(names) == len(tensors) == len(returned) and len(
        {*names, *(f"{name}_out" for name in names)}
    ) == 2 * len(names)
    return dict(zip(names, tensors.values())) if named else tuple(tensors.values())


# Functions that take no more than the shape and dtype of their first operand.
SHAPE_ALONE = {"zero", "fill", "copy", *OF_SHAPE}
# Functions that take no more than that of their second one.
AS_ANOTHER = {"expand_as", "view_as", "reshape_as", "type_as", "to"}


def trivial(trace: Trace) -> list[str]:
    """The outputs that depend on no input's values, as far as they are finite."""
    results = {"output": trace.results} if isinstance(trace.results, Value) else trace.results
    named = results if isinstance(results, dict) else {f"output_{place}": each for place, each in enumerate(results)}
    given = trace.inputs.values()
    return [name for name, value in named.items() if values_read(trace, value, finite=True).isdisjoint(given)]


def values_read(trace: Trace, results: Any, *, finite: bool = False) -> set[Value]:
    """The values that some of a trace's depend on by their numbers, not by their sizes alone, these included.

    Of ``finite`` numbers, none depends on another by ``x * 0``.
    """
    read = {*tensors_in(results)}
    for op in reversed(list(operations(trace.root))):
        vanishes = finite and op.name == "mul" and any(type(each) in (int, float) and each == 0 for each in op.args)
        if not vanishes and not read.isdisjoint(op.made):
            given = op.args[1:] if op.name in SHAPE_ALONE else op.args[: 1 if op.name in AS_ANOTHER else None]
            if op.name == "broadcast_tensors":
                given = [each for each, made in zip(op.args, op.results) if made in read]
            read.update(tensors_in((given, op.kwargs)))
    return read


def sample_of(trace: Trace, name: str, spec: Input) -> Any:
    """What a check feeds an input: what was given, or for integers the rows of the table that they index.

    Raises UsageError for integers of which nothing says their range.
    """
    dtype = as_dtype(spec.dtype)
    if spec.sample is not None or spec.longest is not None or dtype == torch.bool or dtype.is_floating_point:
        return spec.sample
    rows = [
        op.args[1].shape[0]
        for op in operations(trace.root)
        if op.name == "embedding" and _source(op.args[0]) is trace.inputs[name] and isinstance(op.args[1], Value)
    ]
    if not rows:
        asked = f"SHAPE:{dtype_name(dtype)}:LOW:HIGH"
        raise UsageError(
            f"input {name!r} is {dtype_name(dtype)}: say what a check feeds it, as "
            + to_write(f"inputs={{{name!r}: {asked!r}}}", f"--input {name}={asked}")
        )
    return 0, min(rows)


def _source(value: Any) -> Any:
    """The value before it was only rearranged."""
    while isinstance(value, Value) and value.producer is not None and value.producer.name in SPREAD | CONVERSIONS:
        value = value.producer.args[0]
    return value


def live_operations(trace: Trace, instead: Mapping[Value, Value] | None = None) -> dict[Op, None]:
    """The calls that the results depend on, in order, where these values stand ``instead`` of others."""
    found = instead or {}
    return operations_for(trace.root, values_in(trace.results), lambda value: found.get(value, value))


def copied(module: torch.nn.Module, *, parameters: bool = True) -> torch.nn.Module:
    """A copy of the module, so that nothing that a run keeps, in buffers too, is in the next run.

    Without ``parameters`` it has the same ones, and modules and functions of torch.jit as Python's: functions
    cannot be copied, and the copy has them otherwise.
    """
    from torch.utils._python_dispatch import _disable_current_modes

    memo: dict[int, Any] = {} if parameters else {id(held): held for held in module.parameters()}
    for part in module.modules():
        if not parameters and isinstance(part, torch.jit.ScriptModule):
            as_python(part, memo)
        for held in vars(part).values():
            if isinstance(held, torch.jit.ScriptFunction):
                memo[id(held)] = held if parameters else source_of(held) or held
    with _disable_current_modes():  # a check may lift what it computes with; what is copied stays what it is
        made = with_hooks(module, memo)
    return made if parameters else without_scripts(made)


def check_traceable(module: torch.nn.Module) -> None:
    """UnsupportedError for a module without Python code, UsageError for one without forward or weights."""
    if getattr(forward_of(module), "__func__", None) is torch.nn.Module.forward:
        raise UsageError(
            f"{type(module).__name__} has no forward: write `def forward(self, x)`, which is what is ported"
        )
    for path, part in module.named_modules():
        named = path or type(module).__name__
        if isinstance(part, torch.jit.ScriptModule):
            try:
                as_python(part, {})
            except UnsupportedError as error:
                raise UnsupportedError(
                    f"{named} is a module of torch.jit ({error.message}): give the module that it was scripted or "
                    "traced from, with its state_dict"
                ) from error
        held = (*part._parameters.values(), *part._buffers.values())
        if any(each is not None and torch.nn.parameter.is_lazy(each) for each in held):
            raise UsageError(
                f"{named} ({type(part).__name__}) has no weights before it has run once: call the module with an "
                "example of its inputs first"
            )
