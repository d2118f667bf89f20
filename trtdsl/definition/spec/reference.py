"""The torch module that a network must equal: what it is given as, its weights, its call, what it draws."""

from __future__ import annotations

import contextlib
import copy
import functools
import gc
import inspect
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from types import CellType, FunctionType, MethodType, ModuleType
from typing import Any, NamedTuple

from ...core.tensors.memory import storage_of
from ...core.tensors.watched import each_call
from ..common import DefinitionError, Location, UsageError, nearest, torch
from ..weights.source import IGNORED, Weights


def as_reference(given: Any) -> Any:
    """A class by its file, or what makes the module: of a module its copies. UsageError for what is no reference."""
    if given is None or isinstance(given, (type, FunctionType)) or (isinstance(given, str) and ".py:" in given):
        return given
    if isinstance(given, torch.nn.Module):
        return lambda: with_hooks(given)
    if isinstance(given, str) or not callable(given):
        raise UsageError(f"reference is 'FILE.py:CLASS', a class or a torch.nn.Module, not {given!r}")
    return given


def check_makes(given: Callable[..., Any]) -> None:
    """UsageError for a class or function that does not make a module without arguments."""
    with contextlib.suppress(ValueError):  # one that says nothing of its parameters
        needed = [
            parameter.name
            for parameter in inspect.signature(given).parameters.values()
            if parameter.default is parameter.empty
            and parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
        ]
        if needed:
            name = getattr(given, "__name__", type(given).__name__)
            raise UsageError(
                f"the reference {name} is called without arguments to make a torch.nn.Module, and needs "
                f"{', '.join(needed)}: give a module, or a function that makes one, as lambda: Model(8)"
            )


def check_forward(module: torch.nn.Module) -> None:
    """DefinitionError, at the class, for a module that computes nothing."""
    cls = type(module)
    if getattr(forward_of(module), "__func__", None) is not torch.nn.Module.forward:  # one of its own may have another
        return
    similar = nearest("forward", [name for name in vars(cls) if not name.startswith("_")])
    text = f"has no method forward{similar}: a torch.nn.Module computes in `def forward(self, x)`"
    location = None
    with contextlib.suppress(OSError, TypeError):
        location = Location(inspect.getsourcefile(cls) or "", inspect.getsourcelines(cls)[1])
    raise DefinitionError(f"the reference {cls.__name__} {text}", location=location)


def forward_of(module: torch.nn.Module) -> Callable[..., Any]:
    """What a call of the module runs of the author's: its forward, or a ``__call__`` of a class without one."""
    own, unwritten = type(module).__call__, torch.nn.Module.forward
    if getattr(module.forward, "__func__", None) is unwritten and own is not torch.nn.Module.__call__:
        return MethodType(own, module)
    return module.forward


def parameters_of(module: torch.nn.Module) -> Mapping[str, inspect.Parameter]:
    """What a call of the module takes; of one that torch.jit has in C++, its code says it."""
    function: Any = forward_of(module)
    if not isinstance(function, torch.ScriptMethod):
        return inspect.signature(function).parameters
    kind, empty = inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.empty
    _, *taken = function.schema.arguments
    return {
        each.name: inspect.Parameter(each.name, kind, default=each.default_value if each.has_default_value() else empty)
        for each in taken
    }


def call_reference(module: torch.nn.Module, feeds: Mapping[str, torch.Tensor]) -> Any:
    """What the module gives for these feeds."""
    args, kwargs = given_to(module, feeds)
    try:
        return module(*args, **kwargs)
    except RuntimeError as error:
        if torch.is_grad_enabled() or "does not require grad" not in str(error):
            raise
        with torch.enable_grad():  # forward takes derivatives, and leaves it to its caller that torch can
            return module(*args, **kwargs)


def given_to(module: torch.nn.Module, feeds: Mapping[str, torch.Tensor]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """How feeds are given: by name where forward has parameters of these names, otherwise in order.

    In order, too, where they are its first ones and hooks of the module's, which see no names, may look at them.
    """
    parameters = parameters_of(module)
    if (module._forward_pre_hooks or module._forward_hooks) and [*feeds] == [*parameters][: len(feeds)]:
        first = [parameters[name].kind for name in feeds]
        if all(kind in (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD) for kind in first):
            return (*feeds.values(),), {}
    kinds = {parameter.kind for parameter in parameters.values()}
    open_ended = inspect.Parameter.VAR_KEYWORD in kinds and inspect.Parameter.VAR_POSITIONAL not in kinds
    by_name = open_ended or all(name in parameters for name in feeds)
    return ((), {**feeds}) if by_name else ((*feeds.values(),), {})


def with_hooks(module: torch.nn.Module, memo: dict[int, Any] | None = None) -> torch.nn.Module:
    """A deep copy of a module. The variables of its hooks, and its parts where functions or methods have them as
    variables, are of the copy, which Python does not do with functions.

    Modules of Python that it holds, as ModelOpt's LSTM holds ``torch._VF``, are the same, and so are what its hooks
    know as global variables (MiDaS keeps activations so) and what else has no copy and no tensor, such as a lock.
    UsageError for what has a tensor.
    """
    shared: dict[int, Any] = {id(held): held for held in sys.modules.values()} | _of_hooks(module) | (memo or {})
    while True:
        try:
            return _with_hooks(module, {**shared})
        except Exception as error:  # of the author's own classes any
            held = _without_copy(error)
            if id(held) in shared or held is module or any(True for _ in _tensors_in([held])):
                text = f"{type(module).__name__} cannot be copied, as is done before it runs"
                text = f"{text}: {type(error).__name__}: {error}"
                raise UsageError(f"{text}: keep what has no copy outside of the module") from error
            shared[id(held)] = held


def _of_hooks(module: torch.nn.Module) -> dict[int, Any]:
    """The dicts and lists that parts of a module hold and its hooks know as global variables, by their identity."""
    parts = [*module.modules()]
    hooks = (
        hook for part in parts for each in (part._forward_hooks, part._forward_pre_hooks) for hook in each.values()
    )
    functions = (hook for hook in hooks if isinstance(hook, FunctionType))
    known = {
        id(hook.__globals__[name]) for hook in functions for name in hook.__code__.co_names if name in hook.__globals__
    }
    held = (each for part in parts for each in vars(part).values() if isinstance(each, (dict, list)))
    return {id(each): each for each in held if id(each) in known}


def _without_copy(error: BaseException) -> Any:
    """The innermost object of which Python's copy raises the error."""
    found, traceback = None, error.__traceback__
    while traceback is not None:
        if traceback.tb_frame.f_code is copy.deepcopy.__code__:
            found = traceback.tb_frame.f_locals["x"]
        traceback = traceback.tb_next
    return found


def _tensors_in(held: Iterable[Any]) -> Iterator[torch.Tensor | torch.nn.Module]:
    """The tensors and modules that are among these, or that their attributes and items, and theirs, have."""
    known: dict[int, Any] = {}
    waiting = [*held]
    while waiting:
        each = waiting.pop()
        if id(each) in known or isinstance(each, (type, ModuleType, FunctionType)):
            continue
        known[id(each)] = each
        if isinstance(each, (torch.Tensor, torch.nn.Module)):
            yield each
        else:
            waiting += gc.get_referents(each)


def _held_again(module: torch.nn.Module) -> Iterator[tuple[torch.Tensor, torch.Tensor | None]]:
    """A tensor that a part holds besides, and the parameter or buffer that it is, or is a view of; None of others."""
    own = {id(tensor): tensor for tensor in (*module.parameters(), *module.buffers())}
    memory = {  # parameters that share theirs do not in a copy, which has each alone
        storage_of(tensor): tensor
        for tensor in own.values()
        if tensor.layout == torch.strided and tensor.untyped_storage().nbytes() == tensor.nbytes
    }
    names = ("_parameters", "_buffers", "_modules")
    others = (held for part in module.modules() for name, held in vars(part).items() if name not in names)
    for held in _tensors_in(others):
        if isinstance(held, torch.Tensor):
            yield held, own.get(id(held), memory.get(storage_of(held)))


def _with_hooks(module: torch.nn.Module, memo: dict[int, Any]) -> torch.nn.Module:
    for held, first in _held_again(module):
        if first is held:
            continue
        if first is not None and held.dtype == first.dtype:  # as a distribution has them, which must have their copies
            mine = copy.deepcopy(first, memo).detach()
            memo.setdefault(id(held), mine.as_strided(held.shape, held.stride(), held.storage_offset()))
        elif not held.is_leaf:  # what old forms of weight_norm and pruning have computed of parameters
            memo.setdefault(id(held), held.detach().clone())
    children = [child for part in module.modules() for child in part.children()]
    around = [child for child in children if not issubclass(type(child), torch.nn.Module)]  # stands in for a module
    memo |= {id(child): object.__new__(type(child)) for child in around}  # Python's copy asks one that has nothing yet
    for child in around:
        vars(memo[id(child)]).update(copy.deepcopy(vars(child), memo))
    made = copy.deepcopy(module, memo)
    parts = {id(part) for part in (*module.modules(), *module.parameters(), *module.buffers())}
    if "forward" in vars(module) and not isinstance(module, torch.jit.ScriptModule):  # torch.fx's copies lose it
        vars(made).setdefault("forward", _rebound(module.forward, memo, parts))

    def of_copy(names: Mapping[str, Any]) -> dict[str, Any]:
        found = {name: held for name, held in names.items() if isinstance(held, FunctionType) and _has(held, parts)}
        return {name: _rebound(held, memo, parts) for name, held in found.items()}

    kinds: dict[type, type] = {}
    for part in made.modules():
        for hooks in (part._forward_hooks, part._forward_pre_hooks):
            hooks.update((key, _rebound(hook, memo)) for key, hook in hooks.items())
        vars(part).update(of_copy(vars(part)))
        kind = type(part)  # one that is made in a function can have that function's modules
        if kind not in kinds:
            methods = of_copy(vars(kind))
            kinds[kind] = type(kind.__name__, (kind,), {"__module__": kind.__module__, **methods}) if methods else kind
        if kinds[kind] is not kind:
            part.__class__ = kinds[kind]
    return made


def _has(held: Any, parts: Collection[int], seen: frozenset[int] = frozenset()) -> bool:
    """Whether it is one of the parts, or has one as a variable or an item."""
    if id(held) in parts or id(held) in seen:
        return id(held) in parts
    cells = held.__closure__ or () if isinstance(held, FunctionType) else ()
    items = held.values() if isinstance(held, dict) else held if isinstance(held, (list, tuple)) else ()
    inside = [*items, *(cell.cell_contents for cell in cells if cell != CellType())]
    return any(_has(item, parts, seen | {id(held)}) for item in inside)


def _rebound(function: Any, memo: dict[int, Any], parts: Collection[int] | None = None) -> Any:
    """The function with copies of the variables that are not its own, in functions among these too.

    With ``parts`` of those that have any of them: others are shared with what is outside of the module.
    """
    if not isinstance(function, FunctionType) or not function.__closure__ or id(function) in memo:
        return memo.get(id(function), function)
    cells = tuple(CellType() for _ in function.__closure__)
    made = FunctionType(function.__code__, function.__globals__, function.__name__, function.__defaults__, cells)
    made.__kwdefaults__ = function.__kwdefaults__
    made.__dict__.update(function.__dict__)
    memo[id(function)] = made
    try:
        for cell, own in zip(cells, function.__closure__):
            if own != CellType():
                held = own.cell_contents
                if parts is None or _has(held, parts):
                    is_function = isinstance(held, FunctionType)
                    held = _rebound(held, memo, parts) if is_function else copy.deepcopy(held, memo)
                cell.cell_contents = held
    except (TypeError, ValueError, RuntimeError, copy.Error):
        memo[id(function)] = function
    return memo[id(function)]


def evaluating(module: torch.nn.Module) -> torch.nn.Module:
    """The module in evaluation mode; one of an exported program stays as it was exported."""
    with contextlib.suppress(NotImplementedError):
        module.eval()
    return module


def fill(module: torch.nn.Module, weights: Weights, constants: Sequence[str]) -> None:
    """Gives the module these weights; of the network's ``constants`` those that it has as buffers or attributes."""
    from torch.utils._python_dispatch import _disable_current_modes

    with _disable_current_modes():  # what it has is replaced: nothing is computed of it
        state = module.state_dict()
    load = module.load_state_dict
    parameters = inspect.signature(load).parameters.values()  # it may be the author's own
    takes_assign = any(each.name == "assign" or each.kind is each.VAR_KEYWORD for each in parameters)
    twice = any(first is not None for _, first in _held_again(module))  # such a one must be filled where it is
    assign = {"assign": True} if takes_assign and not twice else {}
    load(filled(state, weights, {*constants} - {*state}), **assign)
    for name in {*constants} & {*outside_state(module)}:
        path, _, own = name.rpartition(".")
        part, given = module.get_submodule(path), weights.get(name).clone()
        setattr(part, own, torch.nn.Parameter(given, False) if own in part._parameters else given)


def filled(state: dict[str, torch.Tensor], weights: Weights, besides: Collection[str] = ()) -> dict[str, torch.Tensor]:
    """The module's state_dict with these weights; its metadata tells the module that they are of its own version.

    A counter of training steps is the file's where it fits the module's: neither needs to have the other's. What is no
    dense tensor is the module's own.
    """
    counters = {name: tensor for name, tensor in state.items() if name.endswith(IGNORED)}
    others = {name: held for name, held in state.items() if not _is_dense(held)}
    state.clear()
    state.update({**counters, **others})
    for name, shape in weights.shapes.items():
        if name in besides:
            continue
        if not name.endswith(IGNORED) or (name in counters and tuple(counters[name].shape) == shape):
            state[name] = weights.get(name)
    return state


def state_of(module: torch.nn.Module, *, keep_vars: bool = False) -> dict[str, torch.Tensor]:
    """The dense tensors of a module's state_dict, which may have others, of get_extra_state."""
    held = module.state_dict(keep_vars=keep_vars).items()
    return {name: each for name, each in held if _is_dense(each)}


def _is_dense(held: Any) -> bool:
    return isinstance(held, torch.Tensor) and held.layout == torch.strided


def outside_state(module: torch.nn.Module) -> dict[str, torch.Tensor]:
    """The tensors of a module that its state_dict does not have: buffers, attributes, and what a hook joins."""
    state = module.state_dict(keep_vars=True)
    renamed = {*map(id, state.values())}
    named = [*module.named_parameters(remove_duplicate=False), *module.named_buffers(remove_duplicate=False)]
    found = {name: held for name, held in named if name not in state and id(held) not in renamed}
    for path, part in module.named_modules():
        for name, held in vars(part).items():
            if isinstance(held, torch.Tensor):
                found[f"{path}.{name}".lstrip(".")] = held
    return found


class Draw(NamedTuple):
    """What a call draws: numbers of a distribution, of some size, from which its own follow."""

    sample: tuple[Any, Any] | None
    """As an :class:`~trtdsl.Input` has it: None for the normal distribution, the ends of a uniform one otherwise."""
    of: Any
    """A sequence of sizes, or a tensor of that shape."""
    result: Callable[[Any], Any] = lambda drawn: drawn
    whole: bool = False
    """Whether these are whole numbers."""


UNIFORM = 0.0, 1.0


def _size(size: tuple[Any, ...], named: Any = None) -> Any:
    given = size if named is None else named
    return given[0] if len(given) == 1 and isinstance(given[0], (tuple, list)) else given


def _normal(mean: Any = 0.0, std: Any = 1.0, size: Any = None, **_: Any) -> Draw:
    of = next((each for each in (mean, std) if not isinstance(each, (int, float))), None) if size is None else size
    return Draw(None, of, lambda drawn: drawn * std + mean)


def _randint(*given: Any, low: Any = 0, high: Any = None, size: Any = None, **_: Any) -> Draw:
    *ends, of = given if size is None else (*given, size)
    ends += [] if high is None else [high]
    return Draw((low, *ends) if len(ends) == 1 else (ends[0], ends[1]), of, whole=True)


def _uniform(tensor: Any, a: Any = 0.0, b: Any = 1.0, **options: Any) -> Draw:
    a, b = options.get("from", a), options.get("to", b)
    return Draw(UNIFORM, tensor, lambda drawn: drawn * (b - a) + a)


def _bernoulli(input: Any, p: Any = None, **_: Any) -> Draw:
    return Draw(UNIFORM, input, lambda drawn: drawn < (input if p is None else p))


def _gumbel_softmax(logits: Any, tau: float = 1, hard: bool = False, eps: float = 0, dim: int = -1) -> Draw:
    def result(drawn: Any) -> Any:
        soft = ((logits - torch.log(-torch.log1p(-drawn))) / tau).softmax(dim)
        return torch.zeros_like(soft).scatter(dim, soft.argmax(dim, keepdim=True), 1.0) if hard else soft

    return Draw(UNIFORM, logits, result)


DRAWS: Mapping[str, Callable[..., Draw]] = {
    "randn": lambda *size, **options: Draw(None, _size(size, options.get("size"))),
    "rand": lambda *size, **options: Draw(UNIFORM, _size(size, options.get("size"))),
    "randn_like": lambda input, **_: Draw(None, input),
    "rand_like": lambda input, **_: Draw(UNIFORM, input),
    "randint": _randint,
    "randint_like": lambda input, *ends, **named: _randint(*ends, size=input, **named),
    "normal": _normal,
    "normal_": lambda tensor, mean=0.0, std=1.0, **_: Draw(None, tensor, lambda drawn: drawn * std + mean),
    "uniform_": _uniform,
    "bernoulli": _bernoulli,
    "bernoulli_": lambda tensor, p=0.5, **_: _bernoulli(tensor, p),
    "gumbel_softmax": _gumbel_softmax,
    "exponential_": lambda tensor, lambd=1.0, **_: Draw(UNIFORM, tensor, lambda drawn: -torch.log1p(-drawn) / lambd),
}
"""By the names of torch's functions and methods."""


def with_draws(module: torch.nn.Module, names: Sequence[str | None]) -> torch.nn.Module:
    """The module, whose forward takes what it would draw as further inputs, in the order in which it draws.

    A draw whose name is None stays one. Uniform numbers lie between 0 and 1: what a call computes from them it computes
    still.
    """
    own = vars(module).get("forward")
    inputs = [name for name in names if name is not None]

    @functools.wraps(module.forward)
    def forward(*given: Any, **named: Any) -> Any:
        further = [named.pop(name) for name in inputs if name in named]
        first = len(given) - (len(inputs) - len(further))
        given, further = given[:first], [*given[first:], *further]
        drawn = dict(zip(inputs, further))
        with _given(iter([None if name is None else drawn[name] for name in names])):
            return type(module).forward(module, *given, **named) if own is None else own(*given, **named)

    signature = inspect.signature(forward_of(module))
    parameters = [*signature.parameters.values()]
    last = [parameters.pop()] if parameters and parameters[-1].kind is inspect.Parameter.VAR_KEYWORD else []
    more = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY) for name in inputs]
    forward.__dict__["__signature__"] = signature.replace(parameters=[*parameters, *more, *last])
    module.forward = forward
    return module


def _given(numbers: Iterator[torch.Tensor | None]) -> Any:
    """A context in which each draw gets the next of these numbers."""

    def called(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        name = getattr(function, "__name__", "")
        if name not in DRAWS:
            return function(*args, **kwargs)
        drawn = next(numbers, None)
        if drawn is None:
            return function(*args, **kwargs)
        draw = DRAWS[name](*args, **kwargs)
        like = draw.of if isinstance(draw.of, torch.Tensor) else None
        sizes: Any = draw.of if like is None else like.shape
        by_values = any(isinstance(size, torch.Tensor) for size in sizes)
        shape: tuple[Any, ...] = tuple(torch.empty(sizes).shape if by_values else sizes)
        given = tuple(drawn.shape)
        if len(given) != len(shape) or any(map(int.__lt__, given, shape)):
            raise ValueError(f"torch.{name} draws {shape}, and is given {given}")
        if any(map(int.__gt__, given, shape)):  # as many as values may say
            ends = (size if int.__lt__(size, most) else None for size, most in zip(shape, given))
            drawn = drawn[tuple(map(slice, ends))]
        result = draw.result(drawn)
        target = like if name.endswith("_") else kwargs.get("out")
        if target is not None:
            return target.copy_(result)
        dtype = kwargs.get("dtype") or (None if like is None else like.dtype)
        return result if dtype is None else result.to(dtype)

    return each_call(called)
