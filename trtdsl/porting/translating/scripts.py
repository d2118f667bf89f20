"""Modules and functions of torch.jit as Python's, by the code that torch writes of them into a file.

It is Python but for the names of its operators, its casts and what raises. Run as Python's, its sizes, branches and
loops are traced as those of any module; in C++ its sizes are numbers, and its branches are gone.
"""

from __future__ import annotations

import ast
import builtins
import collections
import copy
import enum
import hashlib
import io
import itertools
import linecache
import math
import operator
import pickle
import weakref
from collections.abc import Callable, Collection
from contextlib import suppress
from functools import partial
from types import ModuleType, SimpleNamespace
from typing import Any

from ...core.errors import UnsupportedError, told
from ...core.lazy import torch
from ..calls import leaves
from .aten import CODES, OPERATORS

PACKAGE = "__torch__"  # as torch calls it, too
_READ: dict[int, _Code] = {}  # by the identity of what has it, as long as that is there
_NUMBERS = itertools.count()
SPACES: weakref.WeakValueDictionary[str, ModuleType] = weakref.WeakValueDictionary()
"""The modules of such code, whose names a trace may replace."""
UNKNOWN = (AttributeError, LookupError, RuntimeError, SyntaxError, ValueError)
"""What is raised where the code is not as it is known here."""


def as_python(part: torch.nn.Module, memo: dict[int, Any]) -> torch.nn.Module:
    """A module of torch.jit as Python's, with the same parameters; ``memo`` gets its parts by theirs, as a copy's.

    Raises UnsupportedError for one whose code says more than is known here.
    """
    known = {id(held) for held in (*part.parameters(), *part.buffers())}
    try:
        return _as_python(part, _code_of(part), memo, known)
    except UNKNOWN as error:
        raise UnsupportedError(f"code of torch.jit is not all known here: {told(error)}") from error


def without_scripts(module: torch.nn.Module) -> torch.nn.Module:
    """A copied module, in which parts of torch.jit that it has made anew, as e3nn's do, are Python's."""
    for part in [*module.modules()]:
        for name, held in part._modules.items():
            if isinstance(held, torch.jit.ScriptModule) and not isinstance(part, torch.jit.ScriptModule):
                part._modules[name] = as_python(held, {})
    return module


def as_function(held: Any) -> Callable[..., Any] | None:
    """A function of torch.jit as Python's; None for one whose code says more than is known here."""
    with suppress(UnsupportedError, *UNKNOWN):
        made: Any = _code_of(held)["__torch__.PlaceholderModule"]()
        return made.forward


def _code_of(held: Any) -> _Code:
    if id(held) not in _READ:
        _READ[id(held)] = _Code(held)
        weakref.finalize(held, _READ.pop, id(held))
    return _READ[id(held)]


def _as_python(part: Any, code: _Code, memo: dict[int, Any], known: Collection[int]) -> torch.nn.Module:
    """The part with its parameters and buffers that are ``known`` by a name; others, of frozen ones, are constants."""
    from torch.jit._recursive import wrap_cpp_module

    if id(part) in memo:
        return memo[id(part)]
    if part._c._get_forward_hooks() or part._c._get_forward_pre_hooks():
        raise UnsupportedError(f"{part.original_name} has hooks")
    kind = code[part._c.qualified_name]
    made = memo[id(part)] = kind.__new__(kind)
    memo.setdefault(id(memo), []).append(part)  # so that no identity is used twice
    torch.nn.Module.__init__(made)
    made.constants, made.training = {}, getattr(part, "training", False)
    memo |= {id(held): held for held in part._parameters.values()}
    modules, parameters, buffers = (dict(each.items()) for each in (part._modules, part._parameters, part._buffers))
    for name in dict.fromkeys((*modules, *parameters, *buffers, *kind.attributes)):
        held = modules[name] if name in modules else part._c.getattr(name)
        held = wrap_cpp_module(held) if isinstance(held, torch.ScriptModule) else held  # of a frozen one
        if isinstance(held, torch.jit.ScriptModule):
            made.register_module(name, _as_python(held, code, memo, known))
        elif not isinstance(held, torch.Tensor):
            vars(made)[name] = copy.deepcopy(held, memo)
        elif id(held) in known and name in parameters:
            made._parameters[name] = held  # pyright: ignore[reportArgumentType]
        else:
            own = made._buffers if id(held) in known and name in buffers else made.constants
            own[name] = copy.deepcopy(held, memo)
    return made


class _Member(enum.Enum):
    """A member of an enumeration, which is that of the author's class, too, as attributes have it."""

    def __eq__(self, other: object) -> bool:
        own = type(self).__name__, self.name
        return isinstance(other, enum.Enum) and own == (type(other).__name__, other.name)

    def __hash__(self) -> int:
        return hash(self.name)


class Scripted(torch.nn.Module):
    """A module that was one of torch.jit. What it has besides parameters and buffers are constants."""

    constants: dict[str, torch.Tensor]

    def __getattr__(self, name: str) -> Any:
        constants = vars(self).get("constants", {})
        return constants[name] if name in constants else super().__getattr__(name)


class _Code:
    """The classes and functions in the code of a module or a function, by their whole names."""

    def __init__(self, held: Any):
        reader = torch._C.PyTorchFileReader(io.BytesIO(held.save_to_buffer()))
        constants = _Constants(io.BytesIO(reader.get_record("constants.pkl")), reader).load()
        self._constants = SimpleNamespace(**{f"c{number}": each for number, each in enumerate(constants)})
        records = sorted(each for each in reader.get_all_records() if each.startswith("code/") and each.endswith(".py"))
        texts = {each[5:-3].replace("/", "."): reader.get_record(each).decode() for each in records}
        self._package = f"{PACKAGE}.{next(_NUMBERS)}"
        self._modules: dict[str, ModuleType] = {}
        self._known: dict[str, Any] = {}
        kinds = ast.FunctionDef, ast.ClassDef
        nodes = ((room, node) for room, text in texts.items() for node in ast.parse(text).body)
        self._waiting = {f"{room}.{node.name}": node for room, node in nodes if isinstance(node, kinds)}

    def __contains__(self, name: str) -> bool:
        return name in self._waiting

    def __getitem__(self, name: str) -> Any:
        if name not in self._known:
            self._known[name] = self._made(name, self._waiting[name])
        return self._known[name]

    def _made(self, name: str, node: ast.FunctionDef | ast.ClassDef) -> Any:
        if isinstance(node, ast.FunctionDef):
            return self._run(name, [node])[node.name]
        attributes = [*map(_annotated, node.body)]
        base = ast.unparse(node.bases[0]) if node.bases else ""
        if base == "NamedTuple":
            return collections.namedtuple(node.name, [each for each in attributes if each is not None])
        if base == "Enum":
            members = [each for each in node.body if isinstance(each, ast.Assign)]
            return _Member(
                node.name, [(ast.unparse(each.targets[0]), ast.literal_eval(each.value)) for each in members]
            )
        if base not in ("Module", ""):
            raise UnsupportedError(f"{node.name} is a class of the kind {base}")
        # Not as a class: there, Python has other names for those that begin with underscores.
        functions = [each for each in node.body if isinstance(each, ast.FunctionDef)]
        given = {_given(each): each for each in node.body if _given(each)}
        space = self._run(name, [*functions, *given.values()])
        own = {key: space[key] for key in (*(each.name for each in functions), *given)}
        own |= {"__module__": space["__name__"], "attributes": [each for each in attributes if each is not None]}
        return type(node.name, (Scripted,) if base else (), own)

    def _run(self, name: str, statements: list[ast.stmt]) -> dict[str, Any]:
        """The names that the statements define, and those that they are given."""
        module = ModuleType(f"{self._package}.{name}")
        SPACES[module.__name__] = self._modules[name] = module
        space = vars(module)
        text = ast.unparse(ast.fix_missing_locations(_AsPython().visit(ast.Module(statements, []))))
        digest = hashlib.sha256(text.encode()).hexdigest()[:6]  # what is known of a file is kept by its name
        space["__file__"] = file = f"{name.removeprefix(PACKAGE + '.')} (torch.jit {digest})"
        linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
        space.update(self._names(space))
        exec(compile(text, file, "exec"), space)
        return space

    def _names(self, space: dict[str, Any]) -> dict[str, Any]:
        """The names that code has from outside; those of Python a trace may replace in its ``space``."""
        aten, prim = (_Names(partial(made, space)) for made in (_aten, _prim))
        ops = _Names(lambda name: {"aten": aten, "prim": prim}.get(name) or getattr(torch.ops, name))
        return {
            "__torch__": _qualified(self, PACKAGE), "torch": aten, "ops": ops,
            "CONSTANTS": self._constants, "inf": math.inf, "nan": math.nan, "number": _number, "math": math,
            "Tensor": torch.Tensor, "List": list, "Dict": dict, "Tuple": tuple, "NoneType": type(None),
        }  # fmt: skip


def _annotated(node: ast.stmt) -> str | None:
    """The attribute that a statement of a class says that its objects have."""
    if isinstance(node, ast.AnnAssign) and node.value is None:
        return ast.unparse(node.target)
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Subscript):  # __annotations__["0"] = …
        return ast.literal_eval(node.targets[0].slice)
    return None


def _given(node: ast.stmt) -> str:
    """The constant of a class that a statement gives; none for another one."""
    return ast.unparse(node.target) if isinstance(node, ast.AnnAssign) and node.value is not None else ""


class _Constants(pickle.Unpickler):
    """Reads the tensors that code has as constants."""

    def __init__(self, file: Any, reader: Any):
        super().__init__(file)
        self._reader = reader

    def persistent_load(self, pid: Any) -> Any:
        _, dtype, key, _, count = pid
        held = bytearray(self._reader.get_record(f"constants/{key}"))
        return torch.frombuffer(held, dtype=dtype) if count else torch.empty(0, dtype=dtype)

    def find_class(self, module_name: str, global_name: str) -> Any:
        dtypes = torch.storage._storage_type_to_dtype_map()
        if module_name == "torch" and global_name in dtypes:
            return dtypes[global_name]
        if global_name == "_rebuild_tensor_v2":
            return lambda held, start, size, stride, *_: held.as_strided(size, stride, start).clone()
        if module_name == "collections":
            return super().find_class(module_name, global_name)
        raise UnsupportedError(f"it has a constant that is no tensor ({global_name})")


class _AsPython(ast.NodeTransformer):
    """Code without casts and annotations, which calls modules, and raises as Python does."""

    def visit_Call(self, node: ast.Call) -> Any:
        self.generic_visit(node)
        name = ast.unparse(node.func)
        if name in ("annotate", "unchecked_cast"):
            kind, held = node.args
            number = isinstance(kind, ast.Name) and kind.id in ("int", "float", "bool", "number")
            return ast.Call(kind, [held], []) if number and not isinstance(held, ast.Constant) else held
        if name == "isinstance":  # of a list, whatever is in it
            node.args[1] = _WithoutItems().visit(node.args[1])
        if name == "uninitialized":
            return ast.Constant(None)
        if isinstance(node.func, ast.Attribute) and node.func.attr == "forward" and name != "self.forward":
            node.func = node.func.value
        return node

    def visit_Expr(self, node: ast.Expr) -> Any:
        self.generic_visit(node)
        called = node.value
        if isinstance(called, ast.Call) and ast.unparse(called.func) == "ops.prim.RaiseException":
            return ast.Raise(ast.Call(ast.Name("RuntimeError"), called.args[:1], []))
        return node

    def visit_If(self, node: ast.If) -> Any:
        """The side that raises has nothing behind that, and the other one follows."""
        self.generic_visit(node)
        body, others = _to_its_end(node.body), _to_its_end(node.orelse)
        if (others and isinstance(others[-1], ast.Raise)) or not body:
            body, others, node.test = others, body, ast.UnaryOp(ast.Not(), node.test)
        if not body:
            return ast.Expr(node.test)
        if isinstance(body[-1], ast.Raise):
            return [ast.If(node.test, body, []), *others]
        return ast.If(node.test, body, others)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> Any:
        self.generic_visit(node)
        return ast.Assign([node.target], node.value) if node.value is not None else None

    def visit_FunctionDef(self, node: ast.FunctionDef) -> Any:
        self.generic_visit(node)
        node.returns = None
        for each in node.args.args:
            each.annotation = None
        return node


class _WithoutItems(ast.NodeTransformer):
    def visit_Subscript(self, node: ast.Subscript) -> Any:
        return node.value


def _to_its_end(statements: list[ast.stmt]) -> list[ast.stmt]:
    """The statements up to the one that raises, without those that do nothing."""
    found: list[ast.stmt] = []
    for each in statements:
        found += [] if isinstance(each, ast.Pass) else [each]
        if isinstance(each, ast.Raise):
            break
    return found


# -- what the code calls -----------------------------------------------------------------------------------------------


def _number(given: Any) -> Any:
    return given.item() if isinstance(given, torch.Tensor) else given


class _Names:
    """What has attributes by any name, each found when it is asked for."""

    def __init__(self, found: Callable[[str], Any]):
        self._found = found

    def __getattr__(self, name: str) -> Any:
        vars(self)[name] = self._found(name)
        return vars(self)[name]


def _qualified(code: _Code, name: str) -> _Names:
    """What a part of the whole name of a class or a function stands for."""
    return _Names(lambda part: code[whole] if (whole := f"{name}.{part}") in code else _qualified(code, whole))


OF_ANY: dict[str, Callable[..., Any]] = {
    "__is__": operator.is_,
    "__isnot__": operator.is_not,
    "__not__": operator.not_,
    "_set_item": operator.setitem,
    "dim": lambda x: x.dim(),
    "size": lambda x, *axis: x.size(*axis) if axis else [*x.shape],
    "item": lambda x: x.item(),
    "list": list,
    "warn": lambda *_, **__: None,
    "tensor": lambda *args, **kwargs: torch.tensor(*args, **_with_dtype(kwargs)),
}
"""Operators that take tensors, or none of their own."""
QUOTIENTS: dict[str | None, Callable[[Any, Any], Any]] = {
    None: operator.truediv,
    "floor": operator.floordiv,
    "trunc": lambda a, b: math.trunc(a / b),
}
OF_NUMBERS: dict[str, Callable[..., Any]] = {
    **OPERATORS,
    "div": lambda a, b, rounding_mode=None: QUOTIENTS[rounding_mode](a, b),
    "floordiv": operator.floordiv,
    "remainder": operator.mod,
    "neg": operator.neg,
    "round": lambda x: float(round(x)),
}


def _with_dtype(kwargs: dict[str, Any]) -> dict[str, Any]:
    return {**kwargs, "dtype": CODES[kwargs["dtype"]]} if type(kwargs.get("dtype")) is int else kwargs


def _aten(space: dict[str, Any], name: str) -> Any:
    """An operator of aten, which may be of lists, texts or numbers."""
    if name in OF_ANY:
        return OF_ANY[name]
    if name == "device":
        return torch.device

    def called(*args: Any, **kwargs: Any) -> Any:
        first = args[0] if args else None
        if isinstance(first, (list, tuple, dict, str)):
            if hasattr(first, name):
                return getattr(first, name)(*args[1:], **kwargs)
            if name == "slice":
                start, end, step = (*args[1:], None, None, None)[:3]
                return first[start:end:step]
            if name in ("all", "any", "sum", "sorted"):
                return _python(space, name)(*args, **kwargs)
            if name in OF_NUMBERS and not isinstance(first, dict):
                return OF_NUMBERS[name](*args)
        if name == "len":
            return _python(space, name)(first)
        given = [*leaves((args, kwargs))]
        tensors = [each for each in given if isinstance(each, torch.Tensor)]
        if not tensors or _are_numbers(given):
            found = OF_NUMBERS.get(name) or getattr(space["math"], name, None)
            if found is not None:
                return found(*map(_number, args), **kwargs)
        function = getattr(torch.ops.aten, name)
        if isinstance(first, (int, float)) and _takes_a_tensor(function):  # as traced code has sizes
            args = (torch.tensor(first), *args[1:])
        made = function(*args, **kwargs)
        if isinstance(made, (bool, int, float)) and not tensors and _is_traced(given):
            raise UnsupportedError(f"torch.jit computes {name} of sizes, which is not known here")
        return made

    return called


def _python(space: dict[str, Any], name: str) -> Any:
    return space.get(name) or getattr(builtins, name)


def _takes_a_tensor(function: Any) -> bool:
    """Whether an operator takes a tensor first, in each of its forms."""
    schemas = (getattr(function, each)._schema for each in function.overloads())
    return all(schema.arguments and str(schema.arguments[0].type) == "Tensor" for schema in schemas)


def _are_numbers(given: list[Any]) -> bool:
    """Whether they are numbers and constants of one number, as traced code has them of sizes."""
    plain = [not isinstance(each, torch.Tensor) or (type(each) is torch.Tensor and not each.dim()) for each in given]
    return all(plain) and _is_traced(given)


def _is_traced(given: list[Any]) -> bool:
    """Whether there is what stands for a size."""
    return any(type(each).__module__.startswith("trtdsl") for each in given)


def _prim(space: dict[str, Any], name: str) -> Any:
    """An operator of torch's interpreter's own."""

    def called(*args: Any) -> Any:
        if name == "dtype":
            return CODES.index(args[0].dtype)
        if name in ("NumToTensor", "unchecked_unwrap_optional"):
            return args[0]
        if name in ("min", "max", "abs"):
            return _python(space, name)(*args)
        if name == "rangelist":
            return [*_python(space, "range")(*args)]
        if name == "Print":
            return None
        return getattr(args[0], name)

    return called
