"""Overloads of aten as calls of torch's public functions.

``torch.ops.aten.X``, exported programs, graphs of fx and scripted functions call operators by their schemas. Each is
made here by the public function of the same meaning, which is then traced as if the author had written it. Most have
the same name and the same arguments; where torch's private operators differ from the public ones, there is a rule.
"""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable
from typing import Any

from ...core.errors import UnsupportedError
from ...core.lazy import torch
from ...sizes.operators import FUNCTIONS, SYMBOLS
from ..calls import rebuilt
from .rules import BY_NAME, LIBRARIES, RULES

OPERATORS = {name: FUNCTIONS[symbol] for name, symbol in SYMBOLS.items() if symbol != "@"}
OPERATORS |= {"__and__": operator.and_, "__or__": operator.or_, "__xor__": operator.xor}
SAME = {
    "_softmax": "softmax", "_log_softmax": "log_softmax", "log_sigmoid": "logsigmoid", "im2col": "unfold",
    "col2im": "fold", "_adaptive_avg_pool2d": "adaptive_avg_pool2d", "_adaptive_avg_pool3d": "adaptive_avg_pool3d",
    "_pdist_forward": "pdist",
}  # fmt: skip
"""Public functions that take the arguments of operators of other names."""
CODES = (
    *(torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16, torch.float32, torch.float64),
    *(torch.complex32, torch.complex64, torch.complex128, torch.bool, torch.qint8, torch.quint8, torch.qint32),
    torch.bfloat16,
)
"""The dtypes as torch's schemas count them."""
FOR_EACH = "_foreach_"
SPACES = {"special_": "special", "linalg_": "linalg", "fft_": "fft"}


def is_overload(function: Any) -> bool:
    """Whether the function is an operator, as ``torch.ops.aten.relu`` or ``torch.ops.aten.relu.default``."""
    from torch._ops import OpOverload, OpOverloadPacket

    return function is torch.sym_not or isinstance(function, (OpOverload, OpOverloadPacket))


def public_call(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Callable[[], Any] | None:
    """The same result by public functions, or by the code of a library's own operator; None where there is neither."""
    if function is torch.sym_not:  # of a tensor of one bool
        return lambda: torch.logical_not(args[0].reshape(()))
    if _name(function).split("::")[0] not in ("aten", "prims"):
        own = LIBRARIES.get(_name(function)) or _own_code(_name(function))
        return None if own is None else lambda: own(*args, **kwargs)
    function, positional, named = bound_to(function, args, kwargs)
    name: str = function._schema.name.removeprefix("aten::").replace("::", ".")
    if (each := _for_each(name)) is not None:
        return lambda: each(*positional, **named)
    named_rule = BY_NAME.get(f"{name}.{function._overloadname}") or BY_NAME.get(name)
    if named_rule is not None:
        names = (argument.name for argument in function._schema.arguments)
        return lambda: named_rule(**dict(zip(names, positional)), **named)
    rule = RULES.get(f"{name}.{function._overloadname}") or RULES.get(name)
    if rule is not None:
        return lambda: rule(*positional, **named)
    if name in OPERATORS and not named and len(positional) == 2:
        return lambda: OPERATORS[name](*positional)
    found = _public(SAME.get(name, name))
    if inspect.isfunction(found):
        positional, named = _by_name(found, function._schema, positional, named)
    return None if found is None else lambda: found(*positional, **named)


def _for_each(name: str) -> Callable[..., Any] | None:
    """A function of lists of tensors, by the one of a tensor: an operand that is no list is the same for each."""
    plain = _public(name.removeprefix(FOR_EACH)) if name.startswith(FOR_EACH) else None
    if plain is None:
        return None

    def each(tensors: Any, *others: Any, **named: Any) -> Any:
        lists = ((other if isinstance(other, (list, tuple)) else [other] * len(tensors)) for other in others)
        found = tuple(plain(*operands, **named) for operands in zip(tensors, *lists))
        return None if name.endswith("_") else found

    return each


def _own_code(name: str) -> Callable[..., Any] | None:
    """The Python function that computes an operator of a library's (``torch.library.custom_op``); None for others."""
    from torch._library.custom_ops import OPDEFS

    found = OPDEFS.get(name)
    return None if found is None else found._backend_fns.get("cpu", found._backend_fns.get(None))


def written_out(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Callable[[], Any] | None:
    """A call by what it is made of; None of others.

    It is a choice by a mask in uint8, which torch takes with values alone, a tensor of an old constructor, a softmax
    whose dimension torch guesses, or elements of the memory that a view is of. One of lists of tensors is one for each
    of them.
    """
    if function in (torch.nn.functional.softmax, torch.nn.functional.log_softmax, torch.nn.functional.softmin):
        given = dict(zip(("input", "dim", "_stacklevel", "dtype"), args)) | kwargs
        if given.get("dim") is not None:
            return None
        dim = 0 if given["input"].dim() in (0, 1, 3) else 1
        return lambda: function(given["input"], dim, dtype=given.get("dtype"))
    if function is torch.Tensor.new and not kwargs:
        of_sizes = len(args) != 2 or isinstance(args[1], (int, torch.Size))
        return lambda: (args[0].new_empty if of_sizes else args[0].new_tensor)(*(args[1:] or (0,)))
    if function in (torch.as_strided, torch.Tensor.as_strided):
        return _of_memory(*args, **kwargs)
    if function is torch.Tensor.fill_diagonal_ and args[0].dim() == 2 and len(args) == 2 and not kwargs:
        return lambda: (args[0].diagonal().fill_(args[1]), args[0])[1]
    if getattr(function, "__name__", "") == "_index_put_impl_":
        return lambda: torch.ops.aten.index_put_(*args[:4], **{key: kwargs[key] for key in kwargs if key != "unsafe"})
    if (each := _for_each(getattr(function, "__name__", ""))) is not None:
        return lambda: each(*args, **kwargs)
    if function is torch.where and args and getattr(args[0], "dtype", None) == torch.uint8 and len(args) > 1:
        return lambda: torch.where(args[0].bool(), *args[1:], **kwargs)
    return None


def _of_memory(input: Any, size: Any, stride: Any, storage_offset: Any = None) -> Callable[[], Any] | None:
    """Elements of a view's memory, by those of the tensor that has it; UnsupportedError where they lie otherwise."""
    whole = input if input._base is None else input._base
    if not whole.is_contiguous() or whole.storage_offset():
        raise UnsupportedError(
            "as_strided reads memory whose elements are not in their order: write .contiguous() first"
        )
    first = input.storage_offset() if storage_offset is None else storage_offset
    return None if whole is input else lambda: torch.as_strided(whole, size, stride, first)


def _name(function: Any) -> str:
    from torch._ops import OpOverloadPacket

    return function._qualified_op_name if isinstance(function, OpOverloadPacket) else function._schema.name


def bound_to(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, list[Any], dict[str, Any]]:
    """The overload that takes the arguments, and these as :func:`_bound` gives them."""
    from torch._ops import OpOverloadPacket

    if isinstance(function, OpOverloadPacket):
        overload = torch._C._jit_resolve_packet(function._qualified_op_name, *args, **kwargs)
        function = getattr(function, overload or "default")
    return function, *_bound(function._schema, args, kwargs)


def _bound(schema: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """Positional and named arguments as the schema has them, without defaults at the end."""
    positional = [argument for argument in schema.arguments if not argument.kwarg_only]
    given = {argument.name: item for argument, item in zip(positional, args)} | kwargs
    for argument in schema.arguments:
        if argument.name in given and "Tensor" not in str(argument.type):
            given[argument.name] = rebuilt(given[argument.name], _number)
        if type(given.get(argument.name)) is int and argument.name in ("dtype", "layout", "memory_format"):
            given[argument.name] = CODES[given[argument.name]] if argument.name == "dtype" else None
    result = [given.get(argument.name, argument.default_value) for argument in positional]
    while (
        result
        and positional[len(result) - 1].has_default_value()
        and _same(result[-1], positional[len(result) - 1].default_value)
    ):
        result.pop()
    names = {argument.name for argument in positional}
    named = {
        argument.name: given[argument.name]
        for argument in schema.arguments
        if argument.name not in names
        and argument.name in given
        and not (argument.has_default_value() and _same(given[argument.name], argument.default_value))
    }
    return result, named


def _number(leaf: Any) -> Any:
    """A constant tensor of one number in the place of a number."""
    return leaf.item() if type(leaf) is torch.Tensor and leaf.dim() == 0 else leaf


HOW = {"cudnn_enable", "cudnn_enabled", "half_to_float"}
"""Arguments that say how torch computes, which public functions do not have."""


def _by_name(
    found: Callable[..., Any], schema: Any, positional: list[Any], named: dict[str, Any]
) -> tuple[list[Any], dict[str, Any]]:
    """The arguments of a public function that has all of them by the same names, but for how torch computes."""
    own = [*inspect.signature(found).parameters]
    if str(schema.arguments[0].type) == "List[Tensor]" and str(inspect.signature(found)).startswith("(*"):
        return [*positional[0], *positional[1:]], named  # of tensors one by one
    names = ["input" if argument.name == "self" else argument.name for argument in schema.arguments]
    if own[: len(names)] == names or not {*names} - HOW <= {*own}:
        return positional, named
    given = {**dict(zip(names, positional)), **named}
    return [], {name: item for name, item in given.items() if name not in HOW}


def _same(given: Any, default: Any) -> bool:
    return type(given) in (int, float, bool, str, type(None)) and type(given) is type(default) and given == default


def _is_loss(found: Callable[..., Any]) -> bool:
    """Whether it is a loss, whose reduction operators have as a number."""
    return inspect.isfunction(found) and "size_average" in inspect.signature(found).parameters


def _public(name: str) -> Callable[..., Any] | None:
    """The public function of the name: a method that writes in place, or a function of torch."""
    name = name.removeprefix("prims.")
    if name.endswith("_") and not name.endswith("__"):
        return getattr(torch.Tensor, name, None)
    for prefix, space in SPACES.items():
        if name.startswith(prefix):
            return getattr(getattr(torch, space), name.removeprefix(prefix), None)
    for space in (torch.nn.functional, torch, torch.Tensor):
        found = getattr(space, name, None)
        if found is not None and not name.startswith("_") and not _is_loss(found):
            return found
    return None
