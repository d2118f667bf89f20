"""What stands in for Python's own functions while a module is traced, so that what they give of sizes is known.

Names in the code of a few packages are replaced, and nothing in the modules that they come from.
"""

from __future__ import annotations

import builtins
import functools
import inspect
import itertools
import math
import operator
import sys
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from types import CodeType, FunctionType, ModuleType
from typing import Any

from ...core.lazy import np, torch
from ...sizes.operators import FRACTIONS, MATH
from ..calls import SizeOp, leaves, rebuilt
from ..translating.named_axes import operations_of
from ..translating.scripts import PACKAGE, SPACES, as_function
from ..translating.spellings import held_by
from .frames import asking, is_inside
from .guards import GUARDS, SCANS, again, note
from .recording.numbers import stands_in
from .scans.marks import backwards, counted
from .traced_sizes import (
    TracedFloat,
    TracedInt,
    YieldingFloat,
    as_float,
    expression_of,
    is_traced,
    plain_number,
    root_of,
    taken_as_numbers,
    traced,
    trying,
    whole_of,
    yielding,
)
from .tried import computes_numbers, is_function


class _StandInType(type):
    """The type of what stands in for a type, its ``plain``: it is that type to whoever asks."""

    plain: Any

    def __getattr__(cls, name: str) -> Any:
        return getattr(cls.plain, name)

    def __instancecheck__(cls, instance: Any) -> bool:
        if stands_in(instance):
            return cls.plain is (float if instance.is_floating_point() else int)
        return isinstance(instance, cls.plain)

    def __subclasscheck__(cls, subclass: type) -> bool:
        return issubclass(getattr(subclass, "plain", subclass), cls.plain)

    def __eq__(cls, other: object) -> bool:
        return other is cls.plain or other is cls

    def __hash__(cls) -> int:
        return hash(cls.plain)


def _of_its_own(given: Any, *names: str) -> Any:
    """What an object of the author's says that its number is, which Python would copy; anything else as it is."""
    methods = () if isinstance(given, (int, float)) else (getattr(type(given), name, None) for name in names)
    method = next((each for each in methods if each is not None), None)
    return method(given) if isinstance(method, FunctionType) else given


class _Int(int, metaclass=_StandInType):
    """``int``, which keeps the expression of a traced number."""

    plain = int

    def __new__(cls, *given: Any, **options: Any) -> Any:
        given = tuple(map(held_by, given))
        if len(given) == 1 and isinstance(given[0], TracedInt):
            return given[0]
        if len(given) == 1 and isinstance(given[0], TracedFloat):
            return whole_of("int", given[0], int(float.__int__(given[0])))
        if len(given) == 1 and isinstance(given[0], torch.Tensor):
            number = (given[0].long() if given[0].dtype == torch.bool else given[0]).item()  # which may stand for it
            if not isinstance(number, torch.Tensor):
                return cls(number)
            return number.trunc().long() if number.is_floating_point() else number
        if len(given) == 1 and (number := _of_its_own(*given, "__int__", "__index__")) is not given[0]:
            return cls(number)
        return int(*given, **options)


class _Float(float, metaclass=_StandInType):
    """``float``, which keeps the expression of a traced number."""

    plain = float

    def __new__(cls, *given: Any) -> Any:
        given = tuple(map(held_by, given))
        if len(given) == 1 and isinstance(given[0], torch.Tensor):
            number = (given[0].float() if given[0].dtype == torch.bool else given[0]).item()
            if not isinstance(number, torch.Tensor):
                return cls(number)
            return number if number.is_floating_point() else number.float()
        if len(given) == 1 and (number := _of_its_own(*given, "__float__", "__index__")) is not given[0]:
            return cls(number)
        return as_float(given[0]) if len(given) == 1 and is_traced(given[0]) else yielding(float(*given))


class _TypeType(type):
    def __call__(cls, *given: Any, **options: Any) -> Any:
        """The type that the author's code has to see: of a tensor without values, and of a size."""
        if len(given) != 1:
            return type(*given, **options)
        kind = type(given[0])
        if kind is torch.Tensor or kind.__name__ == "FakeTensor":
            return _constructors()[torch.Tensor] if again() else torch.Tensor
        return _Int if kind in (int, TracedInt) else _Float if kind in (float, TracedFloat, YieldingFloat) else kind

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, type)


class _Type(type, metaclass=_TypeType):
    """``type``, which says of what stands in for a tensor or a number that it is one."""


def _better(is_better: Callable[[Any, Any], Any], kept: Any, item: Any) -> Any:
    chosen = is_better(item, kept)
    return torch.where(chosen, item, kept) if isinstance(chosen, torch.Tensor) else item if chosen else kept


def _extremum(name: str) -> Callable[..., Any]:
    plain = getattr(builtins, name)

    def function(*given: Any, **options: Any) -> Any:
        whole = held_by(given[0]) if given and not options else None
        if len(given) == 1 and isinstance(whole, torch.Tensor) and whole.dim() == 1 and not whole.is_floating_point():
            found = getattr(whole, name)()  # of all numbers, however many there are
            return found if whole is given[0] else _Int(found)
        items = list(given[0]) if len(given) == 1 else list(given)
        if not options and any(map(stands_in, items)) and not any(map(is_traced, items)):
            return functools.reduce(functools.partial(_better, operator.lt if name == "min" else operator.gt), items)
        numbers = bool(items) and all(isinstance(item, (int, float)) for item in items)
        if options or not numbers or not any(map(is_traced, items)):
            return plain(items, **options) if len(given) == 1 else plain(*given, **options)
        number = plain(map(plain_number, items))
        return traced(number, SizeOp(name, tuple(map(expression_of, items)), number))

    return function


def _range(*given: Any) -> Any:
    record = GUARDS.get()
    before = len(record.guards) if record is not None else 0
    given = tuple(_Int(each) if isinstance(each, torch.Tensor) else each for each in given)
    for number in given:
        if isinstance(number, TracedInt):
            note("==", number.expression, plain_number(number), True, asking(), loop=True)
    return counted(given, range(before, len(record.guards) if record is not None else 0))


def _root(number: Any) -> Any:
    if isinstance(number, torch.Tensor):
        return number.sqrt()
    root = math.sqrt(plain_number(number))
    return traced(root, SizeOp("**", (number.expression, 0.5), root)) if is_traced(number) else yielding(root)


def _whole_root(number: Any) -> Any:
    root = root_of(number.expression) if is_traced(number) else None
    return _one_value("isqrt")(number) if root is None else traced(root.number, root)


def _fraction(name: str) -> Callable[..., Any]:
    """A function of ``math`` of one number, whose result keeps the expression of a size."""
    plain = getattr(math, name)

    def function(number: Any, *base: Any) -> Any:
        if isinstance(number, torch.Tensor):
            return getattr(torch, name)(number)
        if not is_traced(number) or any(map(is_traced, base)):
            return _one_value(name)(number, *base)
        found = plain(plain_number(number))
        found = traced(found, SizeOp(f"math.{name}", (number.expression,), found))
        return found / plain(*base) if base else found

    return function


def _one_value(name: str) -> Callable[..., Any]:
    """A function of ``math`` whose result is no size: of sizes it is a number, which a guard says it is everywhere."""
    plain = MATH[f"math.{name}"]

    def function(*given: Any) -> Any:
        number = plain(*map(plain_number, given))
        if any(map(is_traced, given)):
            note("==", SizeOp(f"math.{name}", tuple(map(expression_of, given)), number), number, True, asking())
        return yielding(number)

    return function


def _len(given: Any) -> int:
    given, record = held_by(given), GUARDS.get()
    if type(given) in (list, tuple) and record is not None and any(isinstance(each, torch.Tensor) for each in given):
        for parts, guard in [*record.parted.items()]:
            if len(getattr(parts, "made", parts)) == len(given):  # it may be that list, or what is made of each in it
                note("==", guard.left, guard.right, True, asking())
    return given.shape[0] if isinstance(given, torch.Tensor) and given.dim() else len(given)


def _index(given: Any) -> int:
    return operator.index(taken_as_numbers(_of_its_own, "operator.index")(_of_its_own(given, "__index__")))


NAMESAKES: dict[str, Any] = {
    "int": _Int, "float": _Float, "type": _Type, "range": _range, "reversed": backwards, "len": _len,
    "min": _extremum("min"), "max": _extremum("max"),
    **{name: taken_as_numbers(getattr(builtins, name), name) for name in ("bin", "hex", "oct", "chr", "bytes")},
}  # fmt: skip
STAND_INS: dict[Any, dict[str, Any]] = {
    math: {
        **{
            name: taken_as_numbers(plain, f"math.{name}")
            for name, plain in vars(math).items()
            if callable(plain) and name not in ("ceil", "floor", "trunc")  # which call a method of the number
        },
        **{name.removeprefix("math."): _one_value(name.removeprefix("math.")) for name in MATH},
        **{name.removeprefix("math."): _fraction(name.removeprefix("math.")) for name in FRACTIONS},
        **{name: yielding(held) for name, held in vars(math).items() if type(held) is float},
        "sqrt": _root,
        "isqrt": _whole_root,
    },
    operator: {"index": _index},
    itertools: {
        name: taken_as_numbers(getattr(itertools, name), f"itertools.{name}")
        for name in ("islice", "repeat", "combinations", "permutations", "count")
    },
}
"""What stands in for functions of Python's modules where numbers may be sizes."""


def _numpys() -> dict[str, Callable[..., Any]]:
    """Functions of numpy that give arrays of sizes, or what these come to, where they are given sizes."""

    class Sizes(np.ndarray):
        def astype(self, dtype: Any, *args: Any, **options: Any) -> Any:
            kind = {"i": _Int, "u": _Int, "f": _Float}.get(np.dtype(dtype).kind)
            if kind is None:
                return super().astype(dtype, *args, **options)
            return np.asarray(np.frompyfunc(kind, 1, 1)(np.asarray(self)), dtype=object).view(Sizes)

        def __array_wrap__(self, array: Any, *_: Any) -> Any:
            return array.view(Sizes) if array.ndim else array.item()

    def of_sizes(plain: Callable[..., Any], makes: bool) -> Callable[..., Any]:
        def function(given: Any, *args: Any, **options: Any) -> Any:
            if not any(map(is_traced, leaves(given))):
                return plain(given, *args, **options)
            sizes = np.array(given, dtype=object).view(Sizes)
            if not makes:
                return plain(sizes, *args, **options)
            dtype = (*args, options.get("dtype"))[0]
            return sizes if dtype is None else sizes.astype(dtype)

        return function

    names = {"array": True, "asarray": True, "prod": False, "sum": False, "cumprod": False, "cumsum": False}
    known: dict[str, Any] = {name: of_sizes(getattr(np, name), makes) for name, makes in names.items()}
    known |= {name: yielding(held) for name, held in vars(sys.modules["numpy"]).items() if type(held) is float}
    return {**known, **_of_torchs_arrays(known)} if again() else known


def _of_torchs_arrays(known: Mapping[str, Callable[..., Any]]) -> dict[str, Callable[..., Any]]:
    """Functions of numpy that give torch's arrays of its tensors, which a trace follows, of these and of sizes.

    ``known`` are functions that serve for sizes alone.
    """
    import torch._numpy as arrays
    from torch._numpy._ndarray import ndarray

    def followed(plain: Callable[..., Any], torchs: Callable[..., Any]) -> Callable[..., Any]:
        def function(*args: Any, **options: Any) -> Any:
            given = list(leaves((args, options)))
            of_arrays = any(isinstance(each, ndarray) for each in given)
            if of_arrays or (plain not in of_sizes and any(map(is_traced, given))):
                args, options = rebuilt((args, options), _named_dtype)
                return torchs(*args, **options)
            return plain(*args, **options)

        return function

    plain = vars(arrays)

    def linspace(start: Any, stop: Any, num: Any = 50, endpoint: bool = True, **options: Any) -> Any:
        if endpoint or options:
            return plain["linspace"](start, stop, num, endpoint, **options)
        return plain["arange"](num) * ((1 / num) * (stop - start)) + start

    def eye(N: Any, M: Any = None, k: int = 0, dtype: Any = None, **options: Any) -> Any:
        if k or (M is not None and M is not N):
            return plain["eye"](N, M, k, dtype, **options)
        return plain["identity"](N, dtype=dtype or "float64")

    plains = {name: known.get(name, held) for name, held in vars(sys.modules["numpy"]).items()}
    of_sizes = {*known.values(), *(held for held in plains.values() if isinstance(held, np.ufunc))}
    named = {**plain, "linspace": linspace, "eye": eye}
    pairs = {name: (plains.get(name), held) for name, held in named.items()}
    return {
        name: followed(plain, held)
        for name, (plain, held) in pairs.items()
        if callable(plain) and callable(held) and not isinstance(plain, type)
    }


def _as_numpys() -> list[tuple[Any, str, Any]]:
    """What torch's arrays do besides while they stand in for numpy's: they take its dtypes, and meet its arrays."""
    from torch._numpy import _dtypes_impl
    from torch._numpy._ndarray import ndarray

    astype, dtype_of = ndarray.astype, _dtypes_impl._dtype_for_scalar
    plain = {TracedInt: int, TracedFloat: float, YieldingFloat: float}
    return [
        (vars(_dtypes_impl), "_dtype_for_scalar", lambda kind: dtype_of(plain.get(kind, kind))),
        (ndarray, "astype", lambda self, dtype, *args, **options: astype(self, _named_dtype(dtype))),
        (ndarray, "__array__", lambda self, *args, **options: np.asarray(self.tensor.numpy(), *args)),
        (ndarray, "__array_ufunc__", None),
    ]


def _named_dtype(leaf: Any) -> Any:
    """The name of a dtype of numpy's; anything else as it is."""
    return (
        np.dtype(leaf).name
        if isinstance(leaf, np.dtype) or (isinstance(leaf, type) and issubclass(leaf, np.generic))
        else leaf
    )


@functools.cache
def _constructors() -> dict[Any, Any]:
    """What stands in for torch's classes of tensors, by these: of sizes, they make tensors that a trace follows."""

    def made(cls: Any, *given: Any, **options: Any) -> Any:
        plain, first = cls.plain, given[0] if given else None
        array = held_by(first)
        if options or (array is first and not any(map(is_traced, leaves(given)))):
            return plain(*given, **options)
        dtype = torch.get_default_dtype() if plain is torch.Tensor else plain.dtype
        if array is not first:
            return array.to(dtype)
        of_sizes = len(given) > 1 or isinstance(first, (int, torch.Size))
        return torch.empty(*given, dtype=dtype) if of_sizes else torch.tensor(first, dtype=dtype)

    kinds = [
        torch.Tensor,
        *(held for held in list(vars(sys.modules["torch"]).values()) if isinstance(held, type(torch.FloatTensor))),
    ]
    return {kind: _StandInType(kind.__name__, (), {"plain": kind, "__new__": made}) for kind in kinds}


def named_for_a_type(error: BaseException | None) -> bool:
    """Whether torch was given what stands in for ``int`` or ``float``, and takes the types themselves alone."""
    return isinstance(error, TypeError) and _StandInType.__name__ in str(error)


class _StandIn:
    """A module of Python's with functions that support traced numbers."""

    def __init__(self, module: Any, names: Mapping[str, Any]):
        self.__dict__.update(names)
        self._module = module

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, name)


class _Outside(_StandIn):
    """A module of a package that is not followed, whose functions are tried."""

    def __getattr__(self, name: str) -> Any:
        held = getattr(self._module, name)
        return _outside(held) or held


def _outside(held: Any, new: Any = None) -> Any:
    """What stands in for a module, or a function, of a package that is not followed; ``new`` for anything else."""
    if isinstance(held, ModuleType):
        return new if new is not None or _is_known(held.__name__) else _Outside(held, {})
    return trying(new or held) if is_function(held) and not _is_known(held.__module__) else new


def _is_known(module: Any) -> bool:
    """Whether a module is Python's own, or one whose functions are followed as they are."""
    package = str(module).partition(".")[0]
    return package in ("torch", "trtdsl", "numpy", "None") or package in sys.stdlib_module_names


def _remembering(function: Any) -> Callable[..., Any]:
    """A function with a cache, which during one trace has one of its own; a size is no key of it."""
    kept: dict[Any, Any] = {}

    @functools.wraps(function.__wrapped__)
    def called(*given: Any, **options: Any) -> Any:
        if any(map(is_traced, leaves((given, options)))):
            return function.__wrapped__(*given, **options)
        key = (given, tuple(options.items()), tuple(map(type, given)))
        if key not in kept:
            kept[key] = function.__wrapped__(*given, **options)
        return kept[key]

    called.__dict__.update({"cache_clear": kept.clear, "cache_info": function.cache_info})
    return called


CACHED = type(functools.cache(len))


def source_of(held: Any) -> Callable[..., Any] | None:
    """The Python function that a scripted one was made from, or its code: in C++ sizes are numbers. None for others."""
    if not isinstance(held, torch.jit.ScriptFunction):
        return None
    source = getattr(held, "_torchdynamo_inline", None)  # traced functions, which go one way alone, have one, too
    from torch.jit._state import _try_get_jit_cached_function

    scripted = source is not None and _try_get_jit_cached_function(source)
    return source if scripted and scripted.qualified_name == held.qualified_name else as_function(held)


def _spaces(packages: Collection[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The names in each module of packages that is loaded. No attribute is asked for: it may load one."""
    for name, module in [*sys.modules.items(), *SPACES.items()]:
        if name.partition(".")[0] in packages and isinstance(module, ModuleType):
            yield name, vars(module)


def package_of(file: str) -> str:
    """The package of a file's code."""
    modules = ((name, module) for name, module in sys.modules.items() if isinstance(module, ModuleType))
    found = (name for name, module in [*modules, *SPACES.items()] if vars(module).get("__file__") == file)
    return next(found, "").partition(".")[0]


def packages_of(module: torch.nn.Module) -> set[str]:
    """The packages of the module's classes; what is of torch.jit has one, too."""
    scripted = any(isinstance(part, torch.jit.ScriptModule) for part in module.modules())
    kinds = {kind.__module__.partition(".")[0] for part in module.modules() for kind in type(part).__mro__}
    return kinds - {"builtins", "torch"} | ({PACKAGE} if scripted else set())


@dataclass
class _Changes:
    """What a trace changes in the names of packages, while these hold what they held when it was found."""

    changed: list[tuple[Any, str, Any]] = field(default_factory=list)
    before: list[Any] = field(default_factory=list)
    """What is there otherwise."""
    dicts: list[dict[Any, Any]] = field(default_factory=list)
    """Those in which results may be kept by hand."""
    caches: dict[int, Any] = field(default_factory=dict)
    """What stands in for functions with a cache, by their identity."""
    read: list[tuple[Mapping[str, Any], list[str], list[Any]]] = field(default_factory=list)
    """The names of modules and classes that were looked through, with what they held."""
    modules: list[Any] = field(default_factory=list)

    def hold(self, modules: Sequence[Any]) -> bool:
        """Whether they are the changes of these modules still."""
        return same(self.modules, modules) and all(
            list(space) == names and same(space.values(), values) for space, names, values in self.read
        )


def same(held: Collection[Any], others: Collection[Any]) -> bool:
    """Whether both have the same objects in the same order."""
    return len(held) == len(others) and all(map(operator.is_, held, others))


@contextmanager
def pythons_functions(packages: Collection[str], types_in: Collection[str]) -> Iterator[None]:
    """A context in which Python's own functions support traced numbers in the code of these packages.

    They are ``int``, ``min``, ``max``, ``range``, ``len`` and others, ``math`` and what comes from it, functions with a
    cache, and dicts in which results are kept by hand, which keep nothing, and scripted functions, which run as
    Python's. Files in ``types_in`` keep their ``int``
    and ``float``.
    """
    with _ONE_AT_A_TIME:
        spaces = [each for each in _spaces(packages) if not is_inside(str(each[1].get("__file__") or "<frozen"))]
        modules = [*(space for _, space in spaces), sys.modules.get("einx")]
        scans = SCANS.get()
        plans: dict[Any, _Changes] = {} if scans is None else scans.changes
        key = frozenset(packages), frozenset(types_in), again()
        if key not in plans or not plans[key].hold(modules):
            plans[key] = _changes(spaces, packages, types_in)
            plans[key].modules = modules
        plan = plans[key]
        kept = [(held, dict(held)) for held in plan.dicts]
        for cache in plan.caches.values():
            cache.cache_clear()
        for space, name, new in plan.changed:
            _set(space, name, new)
        try:
            yield
        finally:
            for (space, name, _), held in zip(reversed(plan.changed), reversed(plan.before)):
                _set(space, name, held)
            for held, items in kept:
                for each in [each for each in held if each not in items and type(held[each]) not in (bool, int, float)]:
                    del held[each]  # what is counted stays, so that a run that counts differs from the next one


def _changes(
    spaces: Sequence[tuple[str, dict[str, Any]]], packages: Collection[str], types_in: Collection[str]
) -> _Changes:
    """What is to be changed in the names of these packages' modules."""
    known = {**STAND_INS, sys.modules["numpy"]: _numpys()}
    known |= {module: operations_of(module) for name, module in sys.modules.items() if name == "einx"}
    if again():
        known[sys.modules["torch"]] = {kind.__name__: new for kind, new in _constructors().items()}
    functions = {id(getattr(module, name)): new for module, names in known.items() for name, new in names.items()}
    functions |= {id(module): _StandIn(module, names) for module, names in known.items()}
    plan = _Changes()
    changed, caches = plan.changed, plan.caches

    def replaced(held: Any) -> Any:
        cached = type(held) is CACHED and hasattr(held, "__wrapped__")
        if cached:
            new = caches.setdefault(id(held), _remembering(held))
        else:
            new = functions.get(id(held)) or source_of(held)
        if not again() or (new is not None and not cached):
            return new
        name = held.__name__ if isinstance(held, ModuleType) else getattr(held, "__module__", None)
        return new if str(name).partition(".")[0] in packages else _outside(held, new)

    def of_class(held: Any) -> Any:
        if issubclass(type(held), (staticmethod, classmethod)):
            return None if (new := of_class(held.__func__)) is None else type(held)(new)
        return replaced(held) if type(held) is CACHED else None

    codes: set[Any] = set()
    tried: list[Callable[..., Any]] = []
    for name, space in spaces:
        plan.read.append((space, list(space), list(space.values())))
        own = ("int", "float", "type") if str(space.get("__file__") or "<frozen") in types_in else ()
        changed += [(space, key, new) for key, new in NAMESAKES.items() if key not in space and key not in own]
        for key, held in list(space.items()):
            if type(held) is dict and not key.startswith("__"):
                plan.dicts.append(held)
            elif (new := replaced(held)) is not None:
                changed.append((space, key, new))
            elif type(held) is float:
                changed.append((space, key, yielding(held)))
            elif issubclass(type(held), type) and held.__module__ == name:
                inside = vars(held)
                plan.read.append((inside, list(inside), list(inside.values())))
                news = [(held, key, of_class(each)) for key, each in inside.items()]
                changed += [each for each in news if each[2] is not None]
                changed += [each for own in inside.values() for each in _changed_inside(own, codes, tried)]
                plan.dicts += [own for key, own in inside.items() if type(own) is dict and key[:2] != "__"]
            else:
                changed += _changed_inside(held, codes, tried)
    container = sys.modules["torch.nn.modules.container"]
    changed.append((vars(container), "operator", _StandIn(operator, STAND_INS[operator])))
    tops = vars(sys.modules["torch"])
    changed += [(tops, f"sym_{name}", NAMESAKES[name]) for name in ("max", "min", "int")]
    changed.append((tops, "pi", yielding(math.pi)))
    plain = tops["from_numpy"]

    def from_numpy(given: Any) -> torch.Tensor:
        tensor = held_by(given)
        return (torch.as_tensor if given.dtype == object else plain)(given) if tensor is given else tensor

    changed.append((tops, "from_numpy", from_numpy))
    changed += _as_numpys() if again() else []
    plan.before = [_get(space, key) for space, key, _ in changed]
    return plan


def _get(space: Any, key: str) -> Any:
    if isinstance(space, FunctionType):
        return getattr(space, key, _ABSENT)
    return (vars(space) if isinstance(space, type) else space).get(key, _ABSENT)


def _set(space: Any, key: str, held: Any) -> None:
    if not isinstance(space, dict):
        delattr(space, key) if held is _ABSENT else setattr(space, key, held)
    elif held is _ABSENT:
        space.pop(key, None)
    else:
        space[key] = held


def _changed_inside(held: Any, seen: set[Any], tried: list[Callable[..., Any]]) -> Iterator[tuple[Any, str, Any]]:
    """The attributes of a function, and of those inside of it, with floats that leave their results to sizes.

    One that computes numbers alone is ``tried`` instead: it stays the same function to whoever holds it.
    """
    if issubclass(type(held), (staticmethod, classmethod)):
        held = held.__func__
    elif issubclass(type(held), property):
        held = held.fget
    if type(held) is not FunctionType or held in seen or is_inside(held.__code__.co_filename):
        return
    seen.add(held)
    own = {"__code__": _yielding_code(held.__code__), "__defaults__": _yielding_floats(held.__defaults__)}
    if again() and computes_numbers(held):
        plain = FunctionType(own["__code__"], held.__globals__, held.__name__, own["__defaults__"])
        plain.__kwdefaults__ = held.__kwdefaults__
        text = f"lambda *given, **options: {TRIED}[{len(tried)}](*given, **options)"
        tried.append(trying(plain))
        own = {"__code__": eval(compile(text, __file__, "eval")).__code__, "__defaults__": None, "__kwdefaults__": None}
        own["__signature__"] = inspect.signature(plain)  # which forward may ask
        yield held.__globals__, TRIED, tried
    yield from ((held, key, new) for key, new in own.items() if new is not getattr(held, key, None))
    for cell in held.__closure__ or ():
        with suppress(ValueError):  # of a cell that is empty
            yield from _changed_inside(cell.cell_contents, seen, tried)


TRIED = "__trtdsl_tried__"  # what the names of a module have the functions under that are tried
_CODES: dict[int, tuple[CodeType, CodeType]] = {}  # by identity: equal ones may stand in different files


def _yielding_code(code: CodeType) -> CodeType:
    """The code with floats that leave their results to sizes; the same one where it has none."""
    if id(code) not in _CODES:
        constants = _yielding_floats(code.co_consts)
        _CODES[id(code)] = code, code if constants is code.co_consts else code.replace(co_consts=constants)
    return _CODES[id(code)][1]


def _yielding_floats(given: Any) -> Any:
    """Constants of a function in which floats leave their results to sizes; the same where there are none."""
    if isinstance(given, CodeType):
        return _yielding_code(given)
    if type(given) is not tuple:
        return yielding(given)
    new = tuple(map(_yielding_floats, given))
    return new if any(a is not b for a, b in zip(new, given)) else given


def without_sizes(packages: Collection[str]) -> None:
    """Empties the caches of these packages' functions, which a size may have been a key of."""
    for _, space in _spaces(packages):
        for held in list(space.values()):
            if type(held) is CACHED:
                held.cache_clear()


_ONE_AT_A_TIME = threading.RLock()  # the change is visible to all threads
_ABSENT = object()  # what a name has that is not there
