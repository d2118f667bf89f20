"""The preparation of operands as in torch: type promotion, broadcasting of ranks, numbers as tensors."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from ..core.errors import DefinitionError, ShapeError, UnsupportedError
from ..definition.operation import PAIRS
from ..layers.base import normalize_axis as normalize_axis
from ..layers.shape import size_tensor
from .common import INFINITY, L, Network, Size, SizeLike, Tensor, bounds, np, product, require_network, torch

T = TypeVar("T")


def as_tensor(operand: Any, network: Network, dtype: torch.dtype | None = None) -> Tensor:
    """A Tensor from a Tensor, torch tensor, numpy array, number or Size; cast to ``dtype`` where one is given."""
    operand = operand.item() if isinstance(operand, np.generic) else operand
    if isinstance(operand, Size):
        operand = L.squeeze(size_tensor(network, [operand]), [0])
    elif isinstance(operand, (bool, int, float)) and dtype is not None:
        return network.plain_constant(torch.tensor(operand, dtype=dtype, device="cpu"), ())
    elif isinstance(operand, (bool, int, float, torch.Tensor, np.ndarray)):
        operand = network.constant(operand)
    elif not isinstance(operand, Tensor):
        raise _unexpected(operand)
    return operand if dtype is None or operand.dtype == dtype else L.cast(operand, dtype)


def result_type(*operands: Any) -> torch.dtype:
    """torch's promoted dtype: dimensioned tensors before 0-d tensors before numbers, the later only by their category.

    So ``float16`` beside a 0-d ``float64`` stays ``float16``, and an integer beside it becomes ``float64``
    (https://docs.pytorch.org/docs/stable/tensor_attributes.html#type-promotion-doc).
    """
    if set(map(type, operands)) == {Tensor} and len({operand.dtype for operand in operands}) == 1:
        return operands[0].dtype
    ranks: list[torch.dtype | None] = [None, None, None]
    for operand in operands:
        dtype, rank = _ranked(operand)
        before = ranks[rank]
        ranks[rank] = dtype if before is None else torch.promote_types(before, dtype)
    result = functools.reduce(_combined, ranks)
    assert result is not None
    return result


def _ranked(operand: Any) -> tuple[torch.dtype, int]:
    """An operand's dtype, and how much it counts: 0 for dimensioned tensors, 1 for 0-d ones, 2 for numbers."""
    if isinstance(operand, (Tensor, torch.Tensor)):
        return operand.dtype, 0 if operand.ndim else 1
    if isinstance(operand, np.ndarray):
        return torch.from_numpy(operand).dtype, 0 if operand.ndim else 1
    if isinstance(operand, (bool, np.bool_)):
        return torch.bool, 2
    if isinstance(operand, (int, Size, np.integer)):
        return torch.int64, 2
    if isinstance(operand, (float, np.floating)):
        return torch.get_default_dtype(), 2
    raise _unexpected(operand)


def _unexpected(operand: Any) -> DefinitionError:
    more = ": compute with its .real and .imag" if type(operand) in PAIRS else ""
    return DefinitionError(f"expected a Tensor or a number, not {type(operand).__name__}{more}")


def _combined(first: torch.dtype | None, then: torch.dtype | None) -> torch.dtype | None:
    """The common dtype of operands that count more and operands that count less."""
    if first is None or then is None:
        return first or then
    if first.is_floating_point or not (then.is_floating_point or first == torch.bool):
        return first
    return torch.promote_types(first, then)


def promote(
    *operands: Any,
    dtype: torch.dtype | None = None,
    integers_to_float: bool = False,
    network: Network | None = None,
) -> list[Tensor]:
    """The operands as Tensors of torch's common dtype and one rank.

    ``integers_to_float`` makes float32 of a common type that is not floating-point, as torch does for true division
    and the transcendental functions.
    """
    network = network or require_network(*operands)
    common = dtype or result_type(*operands)
    if integers_to_float and not common.is_floating_point:
        common = torch.float32
    return align([as_tensor(operand, network, common) for operand in operands])


def binary(a: Any, b: Any, op: str, dtype: torch.dtype | None = None) -> Tensor:
    """One IElementWiseLayer on the two operands as :func:`promote` makes them, or as ``dtype`` says.

    As in torch a number is multiplied in float32 where float16 has none of its digits.
    """
    x, y = promote(a, b, dtype=dtype)
    if x.dtype == torch.float16 and op in ("PROD", "DIV") and (_is_beyond(a) or _is_beyond(b)):
        return L.cast(L.elementwise(*promote(a, b, dtype=torch.float32), op=op), x.dtype)
    return L.elementwise(x, y, op=op)


def _is_beyond(operand: Any) -> bool:
    """Whether it is a number that is infinite in float16, or below its normal numbers."""
    if not isinstance(operand, (int, float, np.generic)) or operand == 0 or not np.isfinite(operand):
        return False
    half = torch.finfo(torch.float16)
    return not half.tiny <= float(np.abs(operand)) <= half.max


def combined(parts: Iterable[Tensor], op: str = "SUM") -> Tensor:
    """The parts, of any ranks, as one, by an IElementWiseLayer for each after the first."""
    return functools.reduce(lambda total, part: L.elementwise(*align([total, part]), op=op), parts)


def raised(x: Tensor, exponent: int, times: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    """``x`` multiplied with itself, ``exponent`` times (1 at least): the product of its powers of two."""
    result = x if exponent % 2 else None
    while exponent := exponent // 2:
        x = times(x, x)
        if exponent % 2:
            result = x if result is None else times(result, x)
    assert result is not None
    return result


def scaled(x: Tensor, factor: float | SizeLike | Tensor) -> Tensor:
    """``x * factor`` in the dtype of ``x``; ``x`` itself for a factor of 1."""
    return x if isinstance(factor, (int, float)) and factor == 1 else binary(x, factor, "PROD", x.dtype)


def choose(condition: Tensor, then: Any, otherwise: Any, dtype: torch.dtype | None = None) -> Tensor:
    """One ISelectLayer on operands of any ranks; ``then`` and ``otherwise`` are promoted to one dtype."""
    return L.select(*align([condition, *promote(then, otherwise, dtype=dtype, network=condition.network)]))


def align(tensors: Sequence[Tensor]) -> list[Tensor]:
    """The tensors with dimensions of size 1 put in front, so that all have the greatest rank."""
    rank = max([len(x.shape) for x in tensors])
    return [x if len(x.shape) == rank else L.unsqueeze(x, range(rank - len(x.shape))) for x in tensors]


def stretch(x: Tensor, shape: Sequence[SizeLike]) -> Tensor:
    """The tensor with dimensions of size 1 repeated to ``shape``, of the same rank: ISliceLayer with a stride of 0."""
    wanted = tuple(shape)
    if wanted == x.shape:
        return x
    constraints, call = x.network.constraints, x.network.current_operation
    stride = [1] * x.ndim
    for axis, (have, want) in enumerate(zip(x.shape, wanted, strict=True)):
        most = bounds(want)[1]
        if have == 1 and want != 1:
            stride[axis] = 0
        elif have != want and bounds(have)[1] <= 1 and most < INFINITY:  # where it is 0, so must be what it becomes
            stride[axis] = 0
            constraints.not_negative(have * most - want, call)
        else:
            constraints.equal(have, want, "the sizes of what is stretched", call)
    return L.slice(x, (0,) * x.ndim, wanted, stride)


def along(
    x: Tensor,
    axis: int,
    start: SizeLike,
    size: SizeLike,
    stride: int = 1,
    mode: str = "STRICT_BOUNDS",
    fill: Tensor | None = None,
) -> Tensor:
    """``size`` elements of dimension ``axis`` from ``start`` on, every ``stride``-th: ISliceLayer."""
    starts: list[SizeLike] = [0] * x.ndim
    sizes, strides = list(x.shape), [1] * x.ndim
    starts[axis], sizes[axis], strides[axis] = start, size, stride
    return L.slice(x, starts, sizes, strides, mode, fill)


def doubled(length: SizeLike, instead: str = "") -> list[int]:
    """The powers of two below the greatest value of a size: UnsupportedError, with what else helps, if it has none."""
    longest = bounds(length)[1]
    if longest >= INFINITY:
        raise UnsupportedError(
            f"the length {length} has no upper bound, which says how many passes are needed: "
            f"give the Dim a max{instead}"
        )
    return [1 << k for k in range((longest - 1).bit_length())] if longest > 1 else []


def windowed(x: Tensor, axis: int, number: SizeLike, size: int, step: int, gap: int = 1) -> Tensor:
    """Dimension ``axis`` as ``number`` windows of ``size`` elements, ``gap`` apart, every ``step``: IGatherLayer."""
    return L.gather(x, L.linspace(x.network, (number, size), 0, (step, gap), torch.int64), axis)


def on_axis(vector: Tensor, axis: int, ndim: int) -> Tensor:
    """A vector as dimension ``axis`` of ``ndim``, to be broadcast along the others."""
    return L.unsqueeze(vector, [other for other in range(ndim) if other != axis])


def with_last(x: Tensor, axis: int, compute: Callable[[Tensor], Tensor]) -> Tensor:
    """``compute`` of ``x`` with dimension ``axis`` as the last one, which then is put back."""
    order = [*(other for other in range(x.ndim) if other != axis), axis]
    return L.shuffle(compute(L.shuffle(x, order)), [order.index(other) for other in range(x.ndim)])


def numeric(x: Any) -> Tensor:
    """The operand as a Tensor on which arithmetic is defined: bool is refused, as by torch."""
    (tensor,) = promote(x)
    if tensor.dtype == torch.bool:
        raise UnsupportedError("torch defines no arithmetic of one bool tensor: cast it first")
    return tensor


def may_be_nan(x: Tensor) -> bool:
    """Whether an element may be NaN: not those of constants without one."""
    return x.dtype.is_floating_point and not (x.is_constant and not bool(x.data.isnan().any()))


def in_float32(compute: Callable[..., Tensor], *operands: Any) -> Tensor:
    """``compute`` of the operands; in float32, and rounded once, where all tensors are of the same half precision.

    That is how torch computes it: what lies between operands and result may be beyond half precision.
    """
    dtypes = {operand.dtype for operand in operands if hasattr(operand, "dtype")}
    if len(dtypes) != 1 or not dtypes <= {torch.float16, torch.bfloat16}:
        return compute(*operands)
    network = require_network(*operands)
    wide = [as_tensor(each, network, torch.float32) if hasattr(each, "dtype") else each for each in operands]
    return L.cast(compute(*wide), dtypes.pop())


def sum_in_float32(compute: Callable[[Tensor], Tensor], x: Tensor, axes: Sequence[int]) -> Tensor:
    """``compute`` of what has its powers of at most 1 summed over ``axes``; as :func:`in_float32` where they are many.

    Up to a sum of 65,504 float16 has them, and float32 would take the builder a launch more after a product.
    """
    most = bounds(product(x.shape[axis] for axis in axes))[1] if x.ndim else 1
    few = x.dtype != torch.float16 or most <= torch.finfo(torch.float16).max
    return compute(x) if few else in_float32(compute, x)


def floating(x: Any) -> Tensor:
    """The operand as a floating-point Tensor; integers and bool become float32."""
    network = require_network(x)
    tensor = as_tensor(x, network)
    return tensor if tensor.dtype.is_floating_point else L.cast(tensor, torch.float32)


def axes_of(dim: int | Sequence[int] | None, ndim: int) -> list[int]:
    """Non-negative, distinct axes; all of them for None or (). Raises DefinitionError for one named twice."""
    if dim is None or (not isinstance(dim, int) and len(dim) == 0):
        return list(range(ndim))
    axes = [axis_of(axis, ndim) for axis in ([dim] if isinstance(dim, int) else dim)]
    if len(set(axes)) != len(axes):
        raise DefinitionError(f"a dimension appears twice in {dim}")
    return sorted(axes) if ndim else []


def axis_of(dim: int, ndim: int) -> int:
    """A non-negative axis; a scalar counts as having one dimension, as in torch."""
    return normalize_axis(dim, max(ndim, 1))


def as_vector(x: Tensor) -> Tensor:
    """The tensor; a scalar as a vector of one element."""
    return x if x.ndim else L.unsqueeze(x, [0])


def with_dimension(x: Tensor, compute: Callable[[Tensor], Tensor]) -> Tensor:
    """``compute(x)``, where a scalar has one dimension during the computation."""
    return compute(x) if x.ndim else L.squeeze(compute(L.unsqueeze(x, [0])), [0])


def per_axis(value: T | Sequence[T], count: int, name: str) -> tuple[T, ...]:
    """One value for each of ``count`` spatial dimensions from a number or a sequence, as torch takes them."""
    values: tuple[Any, ...] = tuple(value) if isinstance(value, (list, tuple)) else (value,)
    if len(values) not in (1, count):
        raise ShapeError(f"{name} needs {count} values, not {len(values)}: {values}")
    return values * count if len(values) == 1 else values


def varargs(args: Sequence[Any]) -> tuple[Any, ...]:
    """``f(2, 3)`` and ``f((2, 3))`` alike: the arguments as a tuple."""
    if len(args) == 1 and isinstance(args[0], (list, tuple)):
        return tuple(args[0])
    return tuple(args)
