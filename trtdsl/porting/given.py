"""The inputs of a port: shapes with named dimensions, dtypes, and what a check feeds."""

from __future__ import annotations

import ast
import inspect
import itertools
import math
import operator
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from ..core.caller import to_write
from ..core.dtypes import as_dtype, dtype_name
from ..core.errors import UsageError
from ..core.lazy import torch
from ..definition.input import Input, check_dims
from ..definition.spec.reference import parameters_of
from ..sizes.dim import Dim
from ..sizes.profile import as_bounds
from ..sizes.shape import linear
from ..sizes.size import Size, SizeLike, value

TAKEN = {"F", "td", "torch", "math", "reference"}  # names that a file has for something else
BATCH = (1, 4, 8)  # the range of a first dimension that was given none


Fed = Mapping[str, tuple[Any, ...]]
"""Shapes, dtypes, what gives the greatest of each input's numbers (:meth:`Given.longest`), and what is declared."""


@dataclass(frozen=True)
class Given:
    """Inputs by the names of forward's parameters, and the dimensions that they have."""

    inputs: dict[str, Input]
    dims: dict[str, Dim]
    draws: tuple[str | None, ...] = ()
    """The inputs that forward draws for itself, in order; None for what it still draws."""

    @property
    def ranges(self) -> dict[str, tuple[int, int, int]]:
        """The least, the usual and the greatest size of each dimension."""
        return {name: dim.range for name, dim in self.dims.items() if dim.range is not None}

    @property
    def usual(self) -> dict[str, int]:
        """The sizes to tune for."""
        return {name: opt for name, (_, opt, _) in self.ranges.items()}

    def at(self, env: Mapping[str, int]) -> Fed:
        """What a trace is fed where the dimensions have these values. UsageError where a size divides by 0."""
        try:
            return {
                name: (
                    tuple(value(size, env) for size in spec.shape),
                    as_dtype(spec.dtype),
                    partial(self.longest, name),
                    spec,
                )
                for name, spec in self.inputs.items()
            }
        except ZeroDivisionError:
            raise UsageError("the size of an input divides by 0") from None

    def longest(self, name: str, sized: Callable[[str, int], Any]) -> Any:
        """What the greatest of an input's numbers is, of what ``sized`` gives for an axis of an input.

        None where nothing says it.
        """
        size = self.inputs[name].longest
        axes = [(key, axis, each) for key, spec in self.inputs.items() for axis, each in enumerate(spec.shape)]
        axes.sort(key=lambda each: (each[0] == name, each[1] == 0))  # a batch that is as great by chance, last
        for key, axis, each in axes:
            if str(each) == str(size):
                return sized(key, axis)
        env: dict[str, Any] = {}
        for key, axis, each in axes if isinstance(size, Size) else ():
            for dim in each.atoms() if isinstance(each, Size) else ():
                if (found := linear(each, dim)) is not None:
                    env.setdefault(str(dim), (sized(key, axis) - found[1]) // found[0])
        return None if size is None else value(size, env)

    def within(self, name: str, low: int, high: int) -> Given:
        """The same inputs where a dimension has another range, or one size."""
        size = low if low == high else Dim(name, min=low, opt=min(max(self.usual[name], low), high), max=high)
        inputs = {key: spec.with_dims({name: size}) for key, spec in self.inputs.items()}
        dims = {key: size if key == name else dim for key, dim in self.dims.items()}
        return replace(self, inputs=inputs, dims={key: dim for key, dim in dims.items() if isinstance(dim, Dim)})

    def between(self) -> list[dict[str, int]]:
        """Sizes just above the least, where what is the same at the ends of the ranges may differ."""
        points = self.points()
        sizes = {name: [point[name] for point in points] for name in self.dims}
        point = {name: min(min(given) + 1, max(given)) for name, given in sizes.items()}
        return [point] if point not in points else []

    def further(self, count: int) -> list[dict[str, int]]:
        """All sets of sizes where they are so few, else so many of them: drawn, and the same each time."""
        ranges = {name: range(low, high + 1) for name, (low, _, high) in self.ranges.items()}
        if math.prod(map(len, ranges.values())) <= count:
            return [dict(zip(ranges, sizes)) for sizes in itertools.product(*ranges.values())]
        draw = random.Random(0)
        return [{name: draw.choice(sizes) for name, sizes in ranges.items()} for _ in range(count)] if ranges else []

    def points(self) -> list[dict[str, int]]:
        """The sizes to trace at, the one to tune for first; each dimension is once high while the others are low."""
        low, opt, high = ({name: ends[place] for name, ends in self.ranges.items()} for place in range(3))
        points = [opt, low, high, *({**low, name: high[name]} for name in low)]
        return [dict(items) for items in dict.fromkeys(tuple(point.items()) for point in points)]


def checked_inputs(module: torch.nn.Module, inputs: Mapping[str, Any] | Sequence[Any], dims: dict[str, Any]) -> Given:
    """The inputs with the ranges of their dimensions. Raises UsageError where one is missing or not forward's."""
    specs = _named(module, inputs)
    parameters = parameters_of(module)
    taken = [name for name, given in parameters.items() if given.kind is not inspect.Parameter.VAR_KEYWORD]
    wanted = [name for name in taken if parameters[name].default is inspect.Parameter.empty]
    described = ", ".join(str(parameters[name]) for name in taken)
    kind = type(module).__name__
    example = dict.fromkeys(wanted or taken[:1], "N,3,224,224")
    if not specs and example:
        given = to_write(f"inputs={example}", " ".join(f"--input {name}={shape}" for name, shape in example.items()))
        raise UsageError(f"{kind}.forward takes ({described}): give its inputs with their shapes, as {given}")
    open_ended = any(given.kind is inspect.Parameter.VAR_KEYWORD for given in parameters.values())
    any_number = inspect.Parameter.VAR_POSITIONAL
    several = [f"{name}_" for name in taken if parameters[name].kind is any_number]
    for name in specs:
        numbered = any(name.startswith(start) and name[len(start) :].isdigit() for start in several)
        if name not in parameters and not open_ended and not numbered:
            raise UsageError(f"{kind}.forward has no parameter {name!r}: it takes ({described})")
    lacking = [name for name in wanted if name not in specs and parameters[name].kind is not any_number]
    if lacking:
        raise UsageError(f"{kind}.forward needs {', '.join(lacking)}: it takes ({described})")
    for name, spec in specs.items():
        if as_dtype(spec.dtype) == torch.float64:
            raise UsageError(f"input {name!r} is float64, which TensorRT does not have: give it as float32")
        if as_dtype(spec.dtype).is_complex:
            raise UsageError(
                f"input {name!r} is complex, and an engine takes real numbers: write a module that takes its parts "
                "(…, 2) and gives forward torch.view_as_complex of them"
            )
    return _ranged(specs, dims)


def _named(module: torch.nn.Module, inputs: Mapping[str, Any] | Sequence[Any]) -> dict[str, Input]:
    """The inputs by the names of forward's parameters; those of ``*args`` by number."""
    if not isinstance(inputs, Mapping):
        names: list[str] = []
        for parameter in parameters_of(module).values():
            if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
                names += [f"{parameter.name}_{index}" for index in range(len(inputs) - len(names))]
            elif parameter.kind is not inspect.Parameter.VAR_KEYWORD:
                names.append(parameter.name)
        if len(names) < len(inputs):
            raise UsageError(
                f"{type(module).__name__}.forward takes {len(names)} inputs ({', '.join(names)}), not {len(inputs)}"
            )
        inputs = dict(zip(names, inputs))
    return {name: _spec(name, given) for name, given in inputs.items()}


def _spec(name: str, given: Any) -> Input:
    if isinstance(given, Input):
        return given
    if isinstance(given, str):
        return parsed(name, given)
    if isinstance(given, (Mapping, list, tuple)):
        kind = type(given).__name__
        raise UsageError(
            f"input {name!r} is a {kind}, and a network takes tensors: write a module that takes the tensors one by "
            f"one and gives forward the {kind}"
        )
    if not isinstance(given, torch.Tensor):
        raise UsageError(f"input {name!r} is a tensor, a td.Input(…) or a text such as 'N,3', not {given!r}")
    return Input(tuple(given.shape), dtype_name(given.dtype), _sample(given))


def _sample(given: torch.Tensor) -> tuple[float, float] | None:
    """From the least to the greatest of the tensor's values."""
    if given.dtype == torch.bool or given.dtype.is_complex or given.numel() == 0:
        return None
    low, high = given.min().item(), given.max().item()
    if not given.dtype.is_floating_point:
        return low, high + 1
    finite = given[given.isfinite()].float()
    return (finite.min().item(), finite.max().item()) if finite.numel() > 1 else None


def parsed(name: str, text: str) -> Input:
    """``SHAPE[:DTYPE[:LOW:HIGH]][:longest=SIZE][:padding=NUMBER][:descending]`` as an Input. Raises UsageError.

    >>> from trtdsl.porting.given import parsed
    >>> parsed("ids", "N,8*T:int64:0:1000").shape
    (N, 8*T)
    >>> parsed("lengths", "N:int64:longest=T").longest
    T
    """
    shape, *rest = text.split(":")
    dtype = rest[0] if rest else "float32"
    as_dtype(dtype)
    options = [each.partition("=") for each in rest if "=" in each or each == DESCENDING]
    said = {key: told for key, _, told in options}
    rest = [each for each in rest if "=" not in each and each != DESCENDING]
    if len(rest) not in (0, 1, 3) or not said.keys() <= {"longest", "padding", DESCENDING}:
        raise UsageError(
            f"{_given(name, text)}: expected SHAPE, SHAPE:DTYPE or SHAPE:DTYPE:LOW:HIGH, and of lengths "
            f"{LONGEST_IS}SIZE behind it, of padded sequences {LONGEST_IS}SIZE:{PADDING_IS}NUMBER"
        )
    try:
        padding = float(said["padding"]) if "padding" in said else None
        padding = int(padding) if padding is not None and padding.is_integer() else padding
        number = float if as_dtype(dtype).is_floating_point else int
        sample = (number(rest[1]), number(rest[2])) if len(rest) == 3 else None
    except ValueError:
        raise UsageError(f"{_given(name, text)}: LOW, HIGH and the padding are numbers") from None
    sizes = [_size(name, text, part.strip()) for part in shape.split(",")] if shape.strip() else []
    longest = _size(name, text, said["longest"]) if "longest" in said else None
    return Input(tuple(sizes), dtype, sample, longest=longest, padding=padding, descending=DESCENDING in said)


LONGEST_IS, PADDING_IS, DESCENDING = "longest=", "padding=", "descending"


def text_of(spec: Input) -> str:
    """An input as text, of which :func:`parsed` makes it.

    >>> from trtdsl.porting.given import parsed, text_of
    >>> text_of(parsed("ids", "N,8*T:int64:0:1000:longest=8*T:padding=0"))
    'N,8*T:int64:0:1000:longest=8*T:padding=0'
    """
    dtype, pair = dtype_name(as_dtype(spec.dtype)), isinstance(spec.sample, tuple)
    parts = [
        ",".join(map(str, spec.shape)),
        *([dtype] if dtype != "float32" or pair or spec.longest is not None else []),
    ]
    parts += map(str, spec.sample) if isinstance(spec.sample, tuple) else ()
    parts += [f"{LONGEST_IS}{spec.longest}"] if spec.longest is not None else []
    parts += [f"{PADDING_IS}{spec.padding}"] if spec.padding is not None else []
    parts += [DESCENDING] if spec.descending else []
    return ":".join(parts).replace(" ", "")


def _given(name: str, text: str) -> str:
    """The input as the caller gave it."""
    return to_write(f"input {name}={text!r}", f"--input {name}={text}")


def _range(name: str) -> str:
    """How the caller gives a dimension its range."""
    return to_write(f"dims={{{name!r}: (MIN, OPT, MAX)}}", f"--dim {name}=MIN:OPT:MAX")


CALCULATIONS: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
}
LONGEST = 100  # characters of a size


def _size(name: str, text: str, part: str) -> SizeLike:
    """A number, a name, or a calculation with these: ``21*H*W``, ``(T+1)//2``."""
    try:
        return _calculated(ast.parse(part, mode="eval").body) if len(part) <= LONGEST else _calculated(None)
    except (SyntaxError, ValueError, ZeroDivisionError):
        raise UsageError(
            f"{_given(name, text)}: a size is a number, a name, or a calculation such as 8*H or 21*H*W, not {part!r}"
        ) from None


def _calculated(node: ast.expr | None) -> SizeLike:
    """The size that an expression says. ValueError for what is none."""
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return node.value
    if isinstance(node, ast.Name):
        return Dim(node.id)
    if isinstance(node, ast.BinOp) and type(node.op) in CALCULATIONS:
        return CALCULATIONS[type(node.op)](_calculated(node.left), _calculated(node.right))
    raise ValueError


def _ranged(specs: dict[str, Input], dims: dict[str, Any]) -> Given:
    batches = {str(spec.shape[0]) for spec in specs.values() if spec.shape and isinstance(spec.shape[0], Dim)}
    known: dict[str, Dim | int] = {}
    lacking: dict[str, str] = {}
    for spec in specs.values():
        for atom in (atom for size in spec.shape if isinstance(size, Size) for atom in size.atoms()):
            assert isinstance(atom, Dim)
            given = dims.get(atom.name, atom.range or (BATCH if atom.name in batches else None))
            if given is None:
                lacking[atom.name] = _range(atom.name)
                continue
            low, opt, high = as_bounds(atom.name, given)
            name = f"{atom.name}_" if atom.name in TAKEN else atom.name
            known[atom.name] = low if isinstance(given, int) else Dim(name, min=low, opt=opt, max=high)
    if lacking:
        have = "dimension {} has no range" if len(lacking) == 1 else "dimensions {} have no ranges"
        raise UsageError(f"{have.format(', '.join(lacking))}: give {' and '.join(lacking.values())}")
    unknown = [name for name in dims if name not in known]
    if unknown:
        raise UsageError(f"no input has a dimension {', '.join(unknown)}: they have {', '.join(known) or 'none'}")
    plain = {
        name: Input(
            each.shape, each.dtype, each.sample, None, None, each.longest, each.padding, each.descending, each.below
        )
        for name, each in specs.items()
    }
    check_dims(plain)
    inputs = {name: spec.with_dims(known) for name, spec in plain.items()}
    return Given(inputs, {dim.name: dim for dim in known.values() if isinstance(dim, Dim)})
