"""The counterpart of a torch call: a function of :mod:`trtdsl.functional`, a method or an operator of Tensor.

What there is, is read from the contents page of ``functional`` and from Tensor; each call is bound to the signature it
finds there, so that an argument that is not taken is noticed when the file is written.
"""

from __future__ import annotations

import inspect
from dataclasses import replace
from functools import cache
from typing import Any

from ...core.lazy import torch
from ...definition.tensor import Tensor
from ...sizes.operators import SYMBOLS
from ..calls import Op, SizeOf, SizeOp, Value, leaves, operators, rebuilt
from ..statements import Argument, Expression, Literal

SWAPPED = {"rsub": "-", "rdiv": "/", "rpow": "**", "rfloordiv": "//", "rmod": "%", "rmatmul": "@"}
UNARY = {"neg": "-", "bitwise_not": "~"}
ATTRIBUTES = {"T", "mT"}

# Arguments about memory, training and Python, which mean nothing to a network.
NOISE = {
    "inplace", "out", "device", "layout", "pin_memory", "requires_grad", "memory_format", "non_blocking", "copy",
    "generator", "_stacklevel", "momentum", "use_deterministic_algorithms", "sparse", "scale_grad_by_freq",
}  # fmt: skip
# Optional tensors that are given by position.
STATE = {"weight", "bias", "running_mean", "running_var", "b_ih", "b_hh"}
# Numbers that are usually given by position.
PLAIN = {"end", "step", "size", "kernel_size", "repeats"}
# torch's functions that take a number or a tuple of equal ones alike.
PER_AXIS = {"stride", "padding", "dilation", "kernel_size", "output_padding", "output_size"}


BINARY = {"min": "minimum", "max": "maximum"}  # of two tensors
SHIFTS = {"bitwise_left_shift": "*", "bitwise_right_shift": "//"}
LONG = {"lshift": "bitwise_left_shift", "rshift": "bitwise_right_shift"}
LONGEST_SHIFT = 6  # whose power of two each dtype has


def counterpart(op: Op) -> Expression | None:
    """The call as it is written with trtdsl; None where no function takes these arguments."""
    if op.name in BINARY and not op.kwargs and len(op.args) == 2 and isinstance(op.args[1], Value):
        op = replace(op, name=BINARY[op.name])
    if op.name in LONG:
        op = replace(op, name=LONG[op.name], form="function")
    if op.name in SHIFTS and not op.kwargs and type(op.args[1]) is int and 0 <= op.args[1] <= LONGEST_SHIFT:
        return _made("operator", SHIFTS[op.name], (op.args[0], 2 ** op.args[1]))
    noise = NOISE | {"padding_idx"} if op.name == "embedding" else NOISE  # which a bag leaves out
    args, kwargs = op.args, {key: item for key, item in op.kwargs.items() if key not in noise}
    expression = _operator(op, args, kwargs) or _method(op, args, kwargs) or _function(op, args, kwargs)
    if expression is not None:
        expression.location = op.location
    return expression


def _operator(op: Op, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Expression | None:
    if op.form == "attribute":
        return _made("attribute", op.name, args) if op.name in ATTRIBUTES else None
    if op.form != "method" or kwargs:
        return None
    if op.name == "getitem":
        index = rebuilt(args[1], lambda leaf: _leaf(leaf, ""))
        return Expression("index", "", [Argument(None, args[0]), Argument(None, index)])
    for table, form, count in ((SYMBOLS, "operator", 2), (SWAPPED, "swapped", 2), (UNARY, "unary", 1)):
        if op.name in table and len(args) == count:
            return _made(form, table[op.name], args)
    return None


def _method(op: Op, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Expression | None:
    method = getattr(Tensor, op.name, None)
    if op.form != "method" or method is None or not args or not isinstance(args[0], Value):
        return None
    args = tuple(item for item in args if not isinstance(item, (torch.device, torch.memory_format)))
    if op.name == "to":  # .to(device, dtype, non_blocking, copy)
        args = (args[0], *(item for item in args[1:] if isinstance(item, (torch.dtype, Value))))
    if op.name == "type_as" and isinstance(args[1], Value):
        return Expression("method", "to", [*_positional(args[:1]), Argument(None, Literal(args[1].dtype))])
    signature = inspect.signature(method)
    try:
        signature.bind(*args, **kwargs)
    except TypeError:
        return None
    names = [*signature.parameters]
    given = [(None, names[min(place, len(names) - 1)], item) for place, item in enumerate(args)]
    arguments = []
    for keyword, name, item in (*given, *((key, key, item) for key, item in kwargs.items())):
        default = _default(signature.parameters.get(name))
        arguments.append(Argument(keyword, _tree(item, name, default), default))
    return Expression("method", op.name, arguments)


def _default(parameter: inspect.Parameter | None) -> Any:
    """What an argument is where it is left out; ``...`` where it has no default."""
    return ... if parameter is None or parameter.default is parameter.empty else parameter.default


def _function(op: Op, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Expression | None:
    signature = _signature(op.name)
    if signature is None:
        return None
    args = _without_noise(op, args, signature)
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError:
        return None
    bound.apply_defaults()
    arguments = []
    positional = True
    for name, given in bound.arguments.items():
        parameter = signature.parameters[name]
        if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
            arguments += [Argument(None, _tree(item, name)) for item in given]
            continue
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            arguments += [Argument(key, _tree(item, key)) for key, item in given.items()]
            continue
        if name in NOISE:
            continue
        given = given if "Sequence" in str(parameter.annotation) else _even(name, given)
        default = _default(parameter)
        holds = any(isinstance(leaf, Value) for leaf in leaves(given))
        named = default is not ... and not (holds and name in STATE) and name not in PLAIN
        positional = positional and not named and parameter.kind is not inspect.Parameter.KEYWORD_ONLY
        arguments.append(Argument(None if positional else name, _tree(given, name, default), default))
    return Expression("function", op.name, arguments)


def _without_noise(op: Op, args: tuple[Any, ...], signature: inspect.Signature) -> tuple[Any, ...]:
    """Positional arguments that torch has and trtdsl leaves out, at the end: F.hardswish(x, inplace)."""
    most = sum(parameter.kind is not inspect.Parameter.KEYWORD_ONLY for parameter in signature.parameters.values())
    open_ended = any(parameter.kind is inspect.Parameter.VAR_POSITIONAL for parameter in signature.parameters.values())
    if open_ended or len(args) <= most:
        return args
    return args[:most] if all(item in (None, False) for item in args[most:]) else args


def _even(name: str, given: Any) -> Any:
    if name in PER_AXIS and isinstance(given, (tuple, list)) and given and all(type(item) is int for item in given):
        return given[0] if len(set(given)) == 1 and name != "output_size" else tuple(given)
    return given


@cache
def named_arguments(name: str, form: str) -> set[str] | None:
    """What a call of this name may be given by name; None where there is no counterpart, or it takes any."""
    method = getattr(Tensor, name, None) if form == "method" else None
    signature = inspect.signature(method) if callable(method) else _signature(name)
    parameters = signature.parameters.values() if signature is not None else ()
    if signature is None or any(each.kind is inspect.Parameter.VAR_KEYWORD for each in parameters):
        return None
    return NOISE | {each.name for each in parameters if each.kind is not inspect.Parameter.VAR_POSITIONAL}


@cache
def _signature(name: str) -> inspect.Signature | None:
    from ... import functional

    function = getattr(functional, name, None)
    if function is None or not callable(function) or name.startswith("_"):
        return None
    return inspect.signature(function)


def _made(form: str, name: str, args: tuple[Any, ...]) -> Expression:
    return Expression(form, name, _positional(args))


def _positional(args: tuple[Any, ...]) -> list[Argument]:
    return [Argument(None, _tree(item, "")) for item in args]


def _tree(given: Any, name: str, usual: Any = ...) -> Any:
    """Plain objects as literals that know which argument they are; a tuple of them is one literal."""
    if (
        isinstance(given, (tuple, list))
        and given
        and not any(isinstance(x, (Value, SizeOf, SizeOp)) for x in leaves(given))
    ):
        return Literal(given, name, usual=usual)
    return rebuilt(given, lambda leaf: _leaf(leaf, name, usual))


def _leaf(leaf: Any, name: str, usual: Any = ...) -> Any:
    if isinstance(leaf, SizeOp):
        if not leaf.varies and (operators(leaf) > 2 or leaf.symbol == "math.isqrt"):
            return Literal(leaf.number, name, usual=usual)
        operands = leaf.operands
        if leaf.symbol == "//":  # of floats too it gives a whole number
            operands = tuple(int(x) if isinstance(x, float) and x.is_integer() else x for x in operands)
        return replace(leaf, operands=tuple(_leaf(operand, "") for operand in operands))
    return leaf if isinstance(leaf, (Value, SizeOf)) else Literal(leaf, name, usual=usual)
