"""torch.Tensor's methods: shapes.

Each is one call into :mod:`trtdsl.functional`, where its arguments are documented.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..above import F
from ..shape import SizeLike

if TYPE_CHECKING:
    from ..tensor import Tensor


def _listed(values: tuple[Any, ...]) -> tuple[Any, ...]:
    """``x.reshape(2, 3)`` and ``x.reshape((2, 3))`` alike: the values as one tuple."""
    return tuple(values[0]) if len(values) == 1 and isinstance(values[0], (list, tuple)) else values


class ShapeMethods:
    """Other shapes, parts and arrangements."""

    __slots__ = ()

    # -- shape ---------------------------------------------------------------------------------------------------------

    def reshape(self, *shape: Any) -> Tensor:
        return F.reshape(self, _listed(shape))

    def view(self, *shape: Any) -> Any:
        return F.view(self, *shape)

    def reshape_as(self, other: Tensor) -> Tensor:
        return F.reshape_as(self, other)

    def view_as(self, other: Tensor) -> Tensor:
        return F.view_as(self, other)

    def ravel(self) -> Tensor:
        return F.ravel(self)

    def unflatten(self, dim: int, sizes: Sequence[SizeLike]) -> Tensor:
        return F.unflatten(self, dim, sizes)

    def flatten(self, start_dim: int = 0, end_dim: int = -1) -> Tensor:
        return F.flatten(self, start_dim, end_dim)

    def permute(self, *dims: Any) -> Tensor:
        return F.permute(self, _listed(dims))

    def transpose(self, dim0: int, dim1: int) -> Tensor:
        return F.transpose(self, dim0, dim1)

    def unsqueeze(self, dim: int) -> Tensor:
        return F.unsqueeze(self, dim)

    def squeeze(self, dim: int | Sequence[int] | None = None) -> Tensor:
        return F.squeeze(self, dim)

    def t(self) -> Tensor:
        return F.t(self)

    def movedim(self, source: int | Sequence[int], destination: int | Sequence[int]) -> Tensor:
        return F.movedim(self, source, destination)

    def expand(self, *size: Any) -> Tensor:
        return F.expand(self, *size)

    def expand_as(self, other: Tensor) -> Tensor:
        return F.expand_as(self, other)

    def broadcast_to(self, size: Sequence[SizeLike]) -> Tensor:
        return F.broadcast_to(self, size)

    def repeat(self, *repeats: Any) -> Tensor:
        return F.repeat(self, *repeats)

    def tile(self, *dims: Any) -> Tensor:
        return F.tile(self, _listed(dims))

    def repeat_interleave(
        self, repeats: SizeLike, dim: int | None = None, *, output_size: SizeLike | None = None
    ) -> Tensor:
        return F.repeat_interleave(self, repeats, dim, output_size=output_size)

    def split(self, split_size_or_sections: Any, dim: int = 0) -> tuple[Tensor, ...]:
        return F.split(self, split_size_or_sections, dim)

    def split_with_sizes(self, split_sizes: Sequence[SizeLike], dim: int = 0) -> tuple[Tensor, ...]:
        return F.split_with_sizes(self, split_sizes, dim)

    def chunk(self, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
        return F.chunk(self, chunks, dim)

    def tensor_split(self, indices_or_sections: Any, dim: int = 0) -> tuple[Tensor, ...]:
        return F.tensor_split(self, indices_or_sections, dim)

    def unbind(self, dim: int = 0) -> tuple[Tensor, ...]:
        return F.unbind(self, dim)

    def narrow(self, dim: int, start: SizeLike, length: SizeLike) -> Tensor:
        return F.narrow(self, dim, start, length)

    def select(self, dim: int, index: SizeLike) -> Tensor:
        return F.select(self, dim, index)

    def flip(self, *dims: Any) -> Tensor:
        return F.flip(self, _listed(dims))

    def fliplr(self) -> Tensor:
        return F.fliplr(self)

    def flipud(self) -> Tensor:
        return F.flipud(self)

    def rot90(self, k: int = 1, dims: Sequence[int] = (0, 1)) -> Tensor:
        return F.rot90(self, k, dims)

    def roll(self, shifts: Any, dims: Any = None) -> Tensor:
        return F.roll(self, shifts, dims)

    def diagonal(self, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
        return F.diagonal(self, offset, dim1, dim2)

    def diag(self, diagonal: int = 0) -> Tensor:
        return F.diag(self, diagonal)

    def diag_embed(self, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
        return F.diag_embed(self, offset, dim1, dim2)

    def diagflat(self, offset: int = 0) -> Tensor:
        return F.diagflat(self, offset)

    def trace(self) -> Tensor:
        return F.trace(self)

    def tril(self, diagonal: int = 0) -> Tensor:
        return F.tril(self, diagonal)

    def triu(self, diagonal: int = 0) -> Tensor:
        return F.triu(self, diagonal)

    def new_full(
        self,
        size: Sequence[SizeLike],
        fill_value: Any,
        *,
        dtype: Any = None,
        layout: Any = None,
        device: Any = None,
        requires_grad: bool = False,
    ) -> Tensor:
        return F.new_full(
            self, size, fill_value, dtype=dtype, layout=layout, device=device, requires_grad=requires_grad
        )

    def new_zeros(
        self, *size: Any, dtype: Any = None, layout: Any = None, device: Any = None, requires_grad: bool = False
    ) -> Tensor:
        return F.new_zeros(self, *size, dtype=dtype, layout=layout, device=device, requires_grad=requires_grad)

    def new_ones(
        self, *size: Any, dtype: Any = None, layout: Any = None, device: Any = None, requires_grad: bool = False
    ) -> Tensor:
        return F.new_ones(self, *size, dtype=dtype, layout=layout, device=device, requires_grad=requires_grad)
