"""Tensors from nothing but a shape: constants, or computed from dynamic sizes when the network runs."""

from __future__ import annotations

import contextlib
import functools
import inspect
import math
import warnings
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from ...core.errors import DefinitionError, ShapeError, UnsupportedError
from ...definition.operation import operation, require_network
from ...layers.shape import size_tensor
from ...sizes.size import Size, SizeLike, bounds, product, size_max
from ..common import MAX_DIMS, L, Network, Tensor, as_dtype, complexes, family, np, require_one_of, require_rank, torch
from ..family import Function, describe
from ..operands import as_tensor as _tensor_of
from ..operands import as_vector, binary, choose, on_axis, result_type, stretch, varargs


def check_stored(layout: Any, requires_grad: bool) -> None:
    """UnsupportedError for what a tensor of torch may be and an engine's is not; it places its values itself."""
    if requires_grad:
        raise UnsupportedError("requires_grad=True: an engine is for inference")
    if layout is not None and layout != torch.strided:
        raise UnsupportedError(f"layout={layout}: TensorRT has dense tensors only")


def stored(function: Function) -> Function:
    """Has a function take what torch asks of how a tensor is stored: it changes nothing, or is refused."""

    def call(*args: Any, layout: Any = None, device: Any = None, requires_grad: bool = False, **how: Any) -> Any:
        check_stored(layout, requires_grad)
        return function(*args, **how)

    added = [each for each in inspect.signature(call).parameters.values() if each.kind is each.KEYWORD_ONLY]
    describe(call, function, [*inspect.signature(function).parameters.values(), *added])
    return call  # type: ignore[return-value]


def filled(network: Network, size: Sequence[SizeLike], value: Any, dtype: Any = None) -> Tensor:
    """A tensor of one value: a constant, or one element stretched by ISliceLayer where that is large or dynamic."""
    if isinstance(value, complex) or (isinstance(dtype, torch.dtype) and dtype.is_complex):
        return complexes.ComplexTensor(*(filled(network, size, float(part), None) for part in (value.real, value.imag)))
    if dtype is None and isinstance(value, float):
        dtype = torch.float32
    scalar = _tensor_of(value, network, None if dtype is None else as_dtype(dtype))
    if scalar.numel() != 1:
        raise ShapeError("a tensor is filled with one value")
    if any(isinstance(length, int) and length < 0 for length in size):
        raise ShapeError(f"a size must not be negative: {tuple(size)}")
    return stretch(L.shuffle(scalar, reshape=(1,) * len(size)), size)


@operation
@stored
def full(size: Sequence[SizeLike], fill_value: Any, *, dtype: Any = None) -> Tensor:
    """``fill_value`` in every place of a new tensor: a constant; ISliceLayer with a stride of 0 for dynamic sizes.

    ``device`` has no meaning in an engine.
    """
    return filled(require_network(*size), tuple(size), fill_value, dtype)


@stored
def _of_size(value: int, *size: Any, dtype: Any = None) -> Tensor:
    return filled(require_network(), varargs(size), value, dtype or torch.float32)


zeros, ones, empty = family(
    _of_size,
    "{} (float32 unless ``dtype`` says otherwise), as :func:`full`.",
    zeros=(0, "Zeros"),
    ones=(1, "Ones"),
    empty=(0, "Values that nobody may use, which are zeros"),
)


@operation
@stored
def full_like(input: Tensor, fill_value: Any, *, dtype: Any = None, memory_format: Any = None) -> Tensor:
    """``fill_value`` in the shape and dtype of ``input``, as :func:`full`."""
    return filled(input.network, input.shape, fill_value, dtype or input.dtype)


@stored
def _like(value: int, input: Tensor, *, dtype: Any = None, memory_format: Any = None) -> Tensor:
    return filled(input.network, input.shape, value, dtype or input.dtype)


zeros_like, ones_like, empty_like = family(
    _like,
    "{} in the shape and dtype of ``input``, as :func:`full`.",
    zeros_like=(0, "Zeros"),
    ones_like=(1, "Ones"),
    empty_like=(0, "Values that nobody may use, which are zeros,"),
)


@operation
@stored
def new_full(input: Tensor, size: Sequence[SizeLike], fill_value: Any, *, dtype: Any = None) -> Tensor:
    """``fill_value`` in a tensor of ``size`` and the dtype of ``input``, as :func:`full`."""
    return filled(input.network, tuple(size), fill_value, dtype or input.dtype)


@stored
def _new(value: int, input: Tensor, *size: Any, dtype: Any = None) -> Tensor:
    return new_full(input, varargs(size), value, dtype=dtype)


new_zeros, new_ones, new_empty = family(
    _new,
    "{} in shape ``size`` and the dtype of ``input``, as :func:`full`.",
    new_zeros=(0, "Zeros"),
    new_ones=(1, "Ones"),
    new_empty=(0, "Values that nobody may use, which are zeros,"),
)


@operation
def fill(input: Tensor, value: Any) -> Tensor:
    """``value`` in every place of a tensor like ``input``, as :func:`full`."""
    return filled(input.network, input.shape, value, input.dtype)


@operation
@stored
def arange(
    start: SizeLike | float, end: SizeLike | float | None = None, step: SizeLike | float = 1, *, dtype: Any = None
) -> Tensor:
    """``start``, ``start + step``, … before ``end``: a constant; IFillLayer where a size is dynamic.

    int64 for ints and Sizes, float32 when one is a float. Over a dynamic size the step must be a Size above 0, or an
    exact fraction such as 0.25.

    >>> x = net.input("x", ("N", "T"))
    >>> with x.network.current():
    ...     F.arange(x.shape[1]).shape
    (T,)
    """
    network = require_network(start, end, step)
    given: tuple[Any, Any, Any] = (0, start, step) if end is None else (start, end, step)
    low, high, by = given
    if by == 0:
        raise DefinitionError("arange: step must not be 0")
    default = torch.float32 if any(isinstance(value, float) for value in given) else torch.int64
    wanted = default if dtype is None else as_dtype(dtype)
    if not any(isinstance(value, Size) for value in given):
        if (high - low) * by < 0:
            raise DefinitionError(f"arange: a step of {by} does not lead from {low} to {high}")
        return network.constant(torch.arange(low, high, by, dtype=wanted))
    low, high, by = (int(value) if isinstance(value, float) and value.is_integer() else value for value in given)
    number = _steps(network, low, high, by) if isinstance(by, Size) or by > 0 else _steps(network, high, low, -by)
    kind = torch.float32 if any(isinstance(value, float) for value in (low, by)) else torch.int64
    if kind != torch.int64 and not wanted.is_floating_point:
        raise UnsupportedError(f"arange: ints from {low} by {by} over a dynamic size: cast the result of floats")
    delta = size_tensor(network, [by]) if isinstance(by, Size) else [by]
    return L.cast(L.linspace(network, (number,), _tensor_of(low, network, kind), delta, kind), wanted)


def _steps(network: Network, low: Any, high: Any, step: SizeLike | float) -> SizeLike:
    """``ceil((high - low) / step)`` for ints, Sizes and floats; a step that is no exact fraction is refused."""
    if isinstance(step, Size):
        if isinstance(low, float) or isinstance(high, float) or bounds(step)[0] < 1:
            raise UnsupportedError(f"arange: a step of {step} must be above 0, and between ints and Sizes")
        network.constraints.not_negative(high - low, network.current_operation)
        return (high - low + step - 1) // step
    ratio = Fraction(step)
    if ratio.denominator > 1 << 10:
        raise UnsupportedError(f"arange: {step} is no exact fraction, and how many of it fit is open: scale the result")
    whole, rest = [], Fraction(0)
    for value, sign in ((high, 1), (low, -1)):
        rest += sign * Fraction(value) if isinstance(value, float) else 0
        whole.append(0 if isinstance(value, float) else sign * value)
    network.constraints.not_negative(sum(whole) + math.ceil(rest), network.current_operation)
    span = (whole[0] + whole[1]) * ratio.denominator + math.ceil(rest * ratio.denominator)
    return (span + (ratio.numerator - 1)) // ratio.numerator


@operation
@stored
def linspace(start: Any, end: Any, steps: SizeLike, *, dtype: Any = None) -> Tensor:
    """``steps`` values from ``start`` to ``end``, both included: a constant; IFillLayer where something is computed."""
    network, wanted = require_network(start, end, steps), as_dtype(dtype or torch.float32)
    ends = _numbers(start, end)
    if isinstance(steps, int) and not any(isinstance(value, (Tensor, Size)) for value in ends):
        return network.constant(torch.linspace(*ends, steps, dtype=wanted))
    kind = torch.float32 if wanted.is_floating_point else torch.int64
    first, last = (_tensor_of(value, network, kind) for value in (start, end))
    if kind == torch.int64:  # trunc(start + (end - start) * index / (steps - 1)) in integers alone
        gaps = size_max(steps - 1, 1)
        index = L.linspace(network, (steps,), dtype=kind)
        return L.cast(binary(first * gaps + index * (last - first), gaps, "DIV"), wanted)
    index = arange(0, steps) if isinstance(steps, Size) else _tensor_of(torch.arange(steps), network)
    fraction = L.cast(index, torch.float32) / binary(_tensor_of(steps, network, torch.float32) - 1.0, 1.0, "MAX")
    return L.cast(first + fraction * (last - first), wanted)


def _numbers(start: Any, end: Any) -> tuple[Any, Any]:
    """Constants as torch's tensors; others as they are."""
    first, last = (value.data if isinstance(value, Tensor) and value.is_constant else value for value in (start, end))
    return first, last


@operation
@stored
def eye(n: SizeLike, m: SizeLike | None = None, *, dtype: Any = None) -> Tensor:
    """Ones on the diagonal of zeros (n, m): a constant; IFillLayers and IElementWiseLayer EQUAL for dynamic sizes."""
    network = require_network(n, m)
    rows, columns = indices_of(network, n, n if m is None else m)
    return L.cast(rows == columns, as_dtype(dtype or torch.float32))


def counted(network: Network, length: SizeLike, dtype: torch.dtype | None = None) -> Tensor:
    """0, 1, … up to ``length``, as int64 or another dtype: :func:`arange` where no network is the current one."""
    with network.current():
        return arange(length, dtype=dtype)


def indices_of(
    network: Network, rows: SizeLike, columns: SizeLike, *, dtype: torch.dtype | str = "int64"
) -> tuple[Tensor, Tensor]:
    """The row numbers (rows, 1) and the column numbers (1, columns)."""
    return L.linspace(network, (rows, 1), 0, (1, 0), dtype), L.linspace(network, (1, columns), 0, (0, 1), dtype)


@operation
def meshgrid(*tensors: Any, indexing: str | None = None) -> tuple[Tensor, ...]:
    """Each vector along a dimension of its own, stretched over those of the others: ISliceLayers with a stride of 0.

    ``indexing="xy"`` exchanges the first two dimensions; ``"ij"`` and None leave them as they are.
    """
    require_one_of("meshgrid: indexing", indexing, (None, "ij", "xy"))
    given = list(map(as_vector, varargs(tensors)))
    axes = list(range(len(given)))
    if indexing == "xy":
        axes[:2] = axes[:2][::-1]
    for vector in given:
        require_rank(vector, "meshgrid takes vectors and scalars", 1)
    shape = [given[axis].shape[0] for axis in axes]
    return tuple(stretch(on_axis(vector, axis, len(given)), shape) for vector, axis in zip(given, axes, strict=True))


@operation
def cartesian_prod(*tensors: Tensor) -> Tensor:
    """All combinations of the vectors' elements, one in a row: ISliceLayers and IConcatenationLayer.

    A single vector is given back as it is.
    """
    if len(tensors) == 1:
        return tensors[0]
    columns = [L.shuffle(grid, reshape=(product(grid.shape), 1)) for grid in meshgrid(*tensors)]
    dtype = result_type(*columns)
    return L.concatenation([L.cast(column, dtype) for column in columns], 1)


def _has_arrays(data: Any) -> bool:
    """Whether lists, however nested, have numpy arrays with dimensions in them."""
    return any(
        _has_arrays(item) if isinstance(item, (list, tuple)) else isinstance(item, np.ndarray) and item.ndim > 0
        for item in data
    )


def _listed(function: Function) -> Function:
    """Reads numpy arrays in a list as lists, as torch does; :func:`operation` would make a constant of each."""

    @functools.wraps(function)
    def call(data: Any, *args: Any, **kwargs: Any) -> Tensor:
        if isinstance(data, (list, tuple)) and _has_arrays(data):
            with contextlib.suppress(TypeError, ValueError), warnings.catch_warnings():  # `function` refuses these
                warnings.simplefilter("ignore", UserWarning)  # lists of arrays are slow
                data = torch.tensor(data)
        return function(data, *args, **kwargs)

    return call  # type: ignore[return-value]


@_listed
@operation
def tensor(
    data: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False, pin_memory: bool = False
) -> Tensor:
    """A constant of numbers in (nested) lists and numpy arrays; a shape tensor where dynamic sizes are among them.

    Tensors of one element may be among them: IConcatenationLayer of all, in the dtype that torch promotes them to.
    ``device`` and ``pin_memory`` have no meaning in an engine.

    >>> x = net.input("x", ("N", 3))
    >>> with net.current():
    ...     F.tensor([x.shape[0] - 1, 2], dtype="float32").shape
    (2,)
    """
    check_stored(None, requires_grad)
    wanted = None if dtype is None else as_dtype(dtype)
    if isinstance(data, Tensor):  # an array is one here
        return _tensor_of(data, data.network, wanted)
    shape, numbers = _nested(data)
    network, kinds = require_network(*numbers), set(map(type, numbers))
    if not any(isinstance(number, (Tensor, Size)) for number in numbers):
        return network.constant(torch.tensor(data, dtype=wanted))
    if all(issubclass(kind, (int, Size)) for kind in kinds):
        row = size_tensor(network, numbers)
        return L.shuffle(row if wanted is None else L.cast(row, wanted), reshape=shape)
    dtypes = [x.dtype if isinstance(x, Tensor) else result_type(x) for x in numbers]
    tensors = [_tensor_of(x, network, wanted or functools.reduce(torch.promote_types, dtypes)) for x in numbers]
    if any(x.numel() != 1 for x in tensors):
        raise ShapeError("tensor takes arrays of one shape or Tensors of one element: F.stack takes greater Tensors")
    return L.shuffle(L.concatenation([L.shuffle(x, reshape=(1,)) for x in tensors], 0), reshape=shape)


def _nested(data: Any) -> tuple[tuple[int, ...], list[Any]]:
    """The shape of nested lists, and the numbers in them. Raises ShapeError where the lists differ in length."""
    if not isinstance(data, (list, tuple)):
        return (), [data]
    parts = [_nested(item) for item in data]
    if len({shape for shape, _ in parts}) > 1:
        raise ShapeError("tensor takes lists of equal lengths")
    return (len(parts), *(parts[0][0] if parts else ())), [number for _, numbers in parts for number in numbers]


def _triangle(upper: bool, input: Tensor, diagonal: SizeLike = 0) -> Tensor:
    require_rank(input, "a triangle is taken of two dimensions at least", 2, MAX_DIMS)
    rows, columns = indices_of(input.network, *input.shape[-2:])
    kept = columns - rows > diagonal - 1 if upper else columns - rows < diagonal + 1
    return input & kept if input.dtype == torch.bool else choose(kept, input, 0, input.dtype)


tril, triu = family(
    _triangle,
    "The {} ``diagonal``: ISelectLayer with a constant mask.",
    tril=(False, "lower triangle of the last two dimensions, zeros above"),
    triu=(True, "upper triangle of the last two dimensions, zeros below"),
)


@operation
@stored
def empty_strided(size: Sequence[SizeLike], stride: Sequence[SizeLike], *, dtype: Any = None) -> Tensor:
    """As :func:`empty`; ``stride`` is about torch's memory and has no meaning in an engine."""
    return full(size, 0, dtype=dtype or torch.float32)


@operation
@stored
def scalar_tensor(s: Any, *, dtype: Any = None) -> Tensor:
    """A number as a tensor without dimensions, float32 unless ``dtype`` says otherwise: a constant."""
    return _tensor_of(s, require_network(s), as_dtype(dtype or torch.float32))


@_listed
@operation
def as_tensor(data: Any, dtype: Any = None, device: Any = None) -> Tensor:
    """``data`` as a Tensor: itself, cast to ``dtype``, or a constant of numbers in nested lists, as :func:`tensor`."""
    return tensor(data, dtype=dtype)


@operation
@stored
def logspace(start: Any, end: Any, steps: int, base: float = 10.0, *, dtype: Any = None) -> Tensor:
    """``base`` to the powers of :func:`linspace`: a constant; IElementWiseLayer POW where something is dynamic."""
    wanted = as_dtype(dtype or torch.float32)
    ends = _numbers(start, end)
    if not any(isinstance(value, (Tensor, Size)) for value in (*ends, steps)):
        return require_network().constant(torch.logspace(*ends, steps, base, dtype=wanted))
    if not wanted.is_floating_point:
        raise UnsupportedError("logspace: integers between computed ends: cast the result of floats")
    powers = linspace(*ends, steps, dtype=torch.float32)
    return L.cast(binary(powers.network.constant(float(base)), powers, "POW"), wanted)
