"""Sparse tensors: a trace has the dense ones that they stand for, whose elements are 0 elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ....core.errors import UnsupportedError
from ....core.lazy import torch
from ...calls import rebuilt
from ..frames import here
from ..modes import torch_tensors

PRODUCTS = {"_sparse_mm": "mm", "spmm": "mm", "dsmm": "mm", "hspmm": "mm", "smm": "mm", "sspaddmm": "addmm"}
PRODUCTS |= {"_sparse_addmm": "addmm", "_sparse_sum": "sum"}
"""Functions that torch has of sparse tensors besides those of dense ones."""
MADE = "sparse_coo_tensor"
KEPT = {"coalesce", "to_dense", "to_sparse", "to_sparse_coo", "to_sparse_csr", "to_sparse_csc"}
SAME = {*PRODUCTS.values(), "matmul", "rmatmul", "bmm", "mv", "mul", "rmul", "add", "sub", "index_select"}
"""Functions that give of a sparse tensor what they give of the dense one."""


class SparseTensors:
    """The dense tensors of a Recorder's trace that stand for sparse ones."""

    def __init__(self, known: Callable[[torch.Tensor], bool], ends: Callable[[str, torch.Tensor], None]):
        self._ends = ends
        """Notes that the record of the sizes behind a tensor ends with a call."""
        self._known = known
        """Whether a tensor has its values, and no input and no weight a part in it."""
        self._dense: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}  # by the identity of the sparse one, beside it

    def called(
        self, function: Any, name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> Callable[[], Any] | None:
        """What gives the result of a call of sparse tensors, by dense ones; None for others."""
        tensors = torch_tensors((args, kwargs))
        if name not in {*PRODUCTS, *KEPT, MADE} and not any(map(_is_sparse, tensors)):
            return None
        if all(_is_sparse(each) or self._known(each) for each in tensors):
            for each in tensors:
                self._ends(name, each)
            found = function(*args, **kwargs)
            return lambda: found
        if name == MADE:
            return lambda: _scattered(*args, **kwargs)
        given, named = rebuilt((args, dict(kwargs)), lambda leaf: self._of(leaf) if _is_sparse(leaf) else leaf)
        if name in KEPT:
            return lambda: given[0]
        if name not in PRODUCTS and name not in SAME:
            raise UnsupportedError(
                f"{name} of a sparse tensor: a network has dense ones, so compute it of the dense one (to_dense())",
                location=here(),
            )
        dense = getattr(torch, PRODUCTS.get(name, name), None) or getattr(torch.Tensor, name)
        return lambda: dense(*given, **named)

    def _of(self, tensor: torch.Tensor) -> torch.Tensor:
        if id(tensor) not in self._dense:
            self._dense[id(tensor)] = tensor, tensor.detach().to_dense()
        return self._dense[id(tensor)][1]


def _is_sparse(leaf: Any) -> bool:
    return type(leaf) in (torch.Tensor, torch.nn.Parameter) and leaf.layout != torch.strided


def _scattered(indices: Any, values: Any, size: Any = None, **options: Any) -> torch.Tensor:
    """``torch.sparse_coo_tensor`` as the dense tensor."""
    indices, values = torch.as_tensor(indices), torch.as_tensor(values, dtype=options.get("dtype"))
    if size is None:
        raise UnsupportedError(
            "a sparse tensor without a size is as great as its greatest index, which is a value: give its size",
            location=here(),
        )
    found = torch.zeros(tuple(size), dtype=values.dtype)
    return found.index_put(tuple(indices.unbind(0)), values, accumulate=True)
