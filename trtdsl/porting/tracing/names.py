"""The names of torch's calls: one name for a function, a method, an operator and its in-place variant."""

from __future__ import annotations

import inspect
from typing import Any

from ...core.dtypes import narrowed
from ...core.errors import UnsupportedError
from ...core.lazy import torch
from ..calls import Op

FOURIER = (
    *("fft", "fft2", "fftn", "fftshift", "ifft", "ifft2", "ifftn", "ifftshift"),
    *("irfft", "irfft2", "irfftn", "rfft", "rfft2", "rfftn"),
)

# The names under which torch hands over its operators and what it calls otherwise elsewhere.
ALIASES = {
    "radd": "add", "rmul": "mul", "multiply": "mul", "subtract": "sub", "divide": "div", "truediv": "div",
    "rtruediv": "rdiv", "floordiv": "floor_divide", "mod": "remainder", "and": "bitwise_and", "or": "bitwise_or",
    "xor": "bitwise_xor", "invert": "bitwise_not", "negative": "neg", "absolute": "abs", "greater": "gt",
    "greater_equal": "ge", "less": "lt", "less_equal": "le", "not_equal": "ne", "swapaxes": "transpose",
    "swapdims": "transpose", "moveaxis": "movedim", "concatenate": "cat", "row_stack": "vstack",
    "unsafe_chunk": "chunk", "unsafe_split": "split", "unsafe_split_with_sizes": "split",
    "native_channel_shuffle": "channel_shuffle", "fix": "trunc", "special_expit": "sigmoid",
    "log_sigmoid": "logsigmoid", "linalg_inv": "inverse", "_grouped_mm": "grouped_mm", "conj_physical": "conj",
    "_threshold": "threshold",
    # Functions that give uninitialized memory; zeros replace its values.
    "empty": "zeros", "empty_like": "zeros_like", "new_empty": "new_zeros",
}  # fmt: skip
IN_PLACE = ("add", "sub", "mul", "div", "truediv", "floordiv", "mod", "pow", "lshift", "rshift", "and", "or")
ALIASES |= {f"i{name}": ALIASES.get(name, name) for name in IN_PLACE}
ALIASES |= {f"arc{name}": f"a{name}" for name in ("cos", "sin", "tan", "tan2")}
ALIASES |= {
    f"{space}_{name}": name
    for space, names in {
        "fft": FOURIER,
        "special": ("logit", "erf", "log_softmax", "softmax", "logsumexp", "entr", "ndtr", "xlog1py"),
        "linalg": (
            *("vector_norm", "matrix_norm", "multi_dot", "cross", "vecdot", "diagonal", "det", "slogdet", "solve"),
            *("solve_triangular", "cholesky"),
        ),
    }.items()
    for name in names
}

# Functions that do not change values: dropout outside of training, copies, and moves in memory.
UNCHANGED = {
    "contiguous", "detach", "clone", "data", "requires_grad", "cpu", "cuda", "alias", "conj", "resolve_conj",
    "resolve_neg", "dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_dropout",
    "feature_alpha_dropout",
}  # fmt: skip
VIEWS = {"view", "reshape", "flatten", "unflatten"}
"""Functions that give all elements of their operand in their order."""
SPREAD = {
    *("unsqueeze", "squeeze", "expand", "expand_as", "broadcast_to", "transpose", "permute", "movedim", "t"),
    *("repeat", "tile", "getitem", "select", "narrow", "chunk", "split", *UNCHANGED, *VIEWS),
}
"""Functions whose results have elements of their first operand alone."""
# Operations with a number that leaves a tensor as it is.
NEUTRAL = {"add": 0, "sub": 0, "mul": 1, "div": 1, "true_divide": 1, "pow": 1}
NEUTRAL |= {"bitwise_and": True, "bitwise_or": 0, "bitwise_xor": 0}
# Functions that ask for a tensor's values.
PEEKS = {
    "array", "item", "tolist", "bool", "int", "float", "index", "equal", "allclose", "is_nonzero", "numpy",
    "contains",
}  # fmt: skip
OF_SHAPE = {"zeros_like", "ones_like", "full_like", "new_zeros", "new_ones", "new_full"}
"""Functions that take a tensor for its shape and dtype, and nothing of what it holds."""
MEASURES = {"stride", "nbytes", "storage_offset", "len", "untyped_storage", "storage"}  # which follow from the shape
FOLDED = {"float64", "complex64", "complex128"}  # which TensorRT does not have
RANDOM = {"rand", "randn", "randint", "randperm", "rand_like", "randn_like", "randint_like", "bernoulli"}
RANDOM |= {"gumbel_softmax", "multinomial", "normal", "log_normal", "uniform", "exponential", "poisson", "cauchy"}
RANDOM |= {"geometric", "random"}
CONVERSIONS = {"to", "type", "float", "half", "bfloat16", "double", "int", "long", "bool", "type_as"}


def canonical(function: Any) -> tuple[str, str, str]:
    """A torch function's name here, its name as torch prints it, and its form: function, method, attribute, setitem."""
    name = getattr(function, "__name__", None) or str(function)
    if name == "__get__":
        attribute = function.__self__.__name__
        return attribute, f"torch.Tensor.{attribute}", "attribute"
    from torch.overrides import resolve_name

    qualified = resolve_name(function) or f"{getattr(function, '__module__', 'torch')}.{name}"
    if name == "__setitem__":
        return "setitem", qualified, "setitem"
    method = qualified.startswith("torch.Tensor.")
    if name in ("double", "cdouble"):
        name = name.removesuffix("double") + "float"
    plain = name.strip("_") if name.startswith("__") else name.rstrip("_")
    if name in ("__rand__", "__ror__", "__rxor__"):  # with a number on the left
        plain = plain[1:]
    plain = ALIASES.get(plain, plain)
    return plain, qualified, "method" if method else "function"


def in_place(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether the call changes its first operand."""
    name = getattr(function, "__name__", "")
    schema = getattr(function, "_schema", None)
    if schema is not None:
        return schema.is_mutable
    if name.startswith("__"):
        return name.startswith("__i") and name not in ("__invert__", "__index__", "__int__", "__iter__")
    if name.endswith("_"):
        return name not in ("requires_grad_",)
    if "inplace" in kwargs:
        return bool(kwargs["inplace"])
    if args and len(args) > 1 and inspect.isfunction(function):
        try:
            return bool(inspect.signature(function).bind(*args, **kwargs).arguments.get("inplace", False))
        except (TypeError, ValueError):
            return False
    return False


def keeps_value(op: Op, given: torch.Tensor, result: Any) -> bool:
    """Whether the result is the operand's value, so that the call needs not be written."""
    if not isinstance(result, torch.Tensor):
        return False
    if op.name == "conj" and given.is_complex():
        return False
    if op.name in CONVERSIONS:
        return narrowed(result.dtype) == narrowed(given.dtype)
    if "dropout" in op.name:
        return op.name in UNCHANGED and not _drops(op)
    if is_neutral(op.name, op.args, op.kwargs):
        return result.dtype == given.dtype
    return op.name in UNCHANGED or result is given


def drawn(op: Op) -> UnsupportedError:
    """The error for random numbers that something depends on."""
    return UnsupportedError(
        f"{op.qualified} draws random numbers, and a network computes the same each time: give them as an input",
        location=op.location,
    )


def is_neutral(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether a call computes with a number that changes nothing."""
    number = name in NEUTRAL and len(args) == 2 and not kwargs and type(args[1]) in (bool, int, float)
    if number and name == "bitwise_and" and (type(args[1]) is not bool or args[0].dtype != torch.bool):
        return False
    return number and args[1] == NEUTRAL[name]


def _drops(op: Op) -> bool:
    """Whether a call of dropout is in training; torch's functions say so by default."""
    given = {**dict(zip(("input", "p", "training", "inplace"), op.args)), **op.kwargs}
    training = given.get("training", given.get("train", True))
    return bool(training) and given.get("p", 0.5) > 0
