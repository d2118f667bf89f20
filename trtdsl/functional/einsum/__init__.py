"""torch.einsum, by a plan made from shapes alone: see docs/einsum.md."""

from __future__ import annotations

from typing import Any

from ...core.errors import DefinitionError
from ...definition.operation import PAIRS, operation
from ...definition.tensor import Tensor
from ..lowerings import way

# contract.py is imported where it is first needed: with the search it takes a tenth of what importing trtdsl takes.


MERGED = "as matmul, with the weights of the pointwise convolution before it as an operand"
NO_MERGE = "no pointwise convolution that it could take in for less gives an operand"
DENSE = "one IConvolutionLayer from all channels and places to all, as which what follows has them, too"
NO_DENSE = "no pointwise convolution gives its image, of which it mixes one dimension with the channels by constants"


@way("einsum", "merged", MERGED, unless=lambda *_, merge, **how: NO_MERGE if merge is None or not merge.plan else None)
def _with_weights(*tensors: Tensor, merge: Any, **_: Any) -> Tensor:
    return merge.emitted(merge.add)


@way("einsum", "matmul", "a plan of matrix products in the order in which the operands lie in memory")
def _by_products(*tensors: Tensor, equation: Any, **_: Any) -> Tensor:
    from .contract import emit, problem_of

    return emit(problem_of(equation, tensors).plan(), tensors)


@way("einsum", "dense", DENSE, unless=lambda *_, dense, **how: NO_DENSE if dense is None else None)
def _as_convolution(*tensors: Tensor, dense: Any, **_: Any) -> Tensor:
    return dense.merge.emitted(dense.add, by_value=True)


@operation
def einsum(equation: Any, *operands: Any, lowering: str = "auto") -> Tensor:
    """torch.einsum: ``einsum("ij,jk->ik", a, b)``, or ``einsum(a, [0, 1], b, [1, 2], [0, 2])``.

    https://docs.pytorch.org/docs/stable/generated/torch.einsum.html. Long names are read where the equation has an
    underscore or a digit (``"b l d_in, d_in n -> b l d_in n"``); :func:`einops_einsum` always reads them. Operands of
    different dtypes are promoted. Integers are summed in the dtype that torch gives the result.

    ``lowering="matmul"``, the default, emits for each pair of operands one IMatrixMultiplyLayer, or IElementWiseLayer
    PROD and IReduceLayer SUM, with an IShuffleLayer where the layout asks for it; :func:`trtdsl.explain_einsum` prints
    the plan. Complex operands are multiplied part by part: four such sums for two of them. Sums in another order than
    torch's have NaN elsewhere where an operand is infinite.

    Raises DefinitionError for a malformed equation, ShapeError naming the label for sizes that disagree.

    >>> F.einsum("nctw,cd->ndtw", net.input("x", ("N", 3, 5, 4)), net.constant(torch.ones(3, 7))).shape
    (N, 7, 5, 4)
    """
    from .contract import contract
    from .equation import of_sublists

    if not isinstance(equation, str):
        equation, operands = of_sublists((equation, *operands))
    elif len(operands) == 1 and isinstance(operands[0], (list, tuple)):
        operands = tuple(operands[0])
    of_pairs = next((PAIRS[type(each)] for each in operands if type(each) in PAIRS), None)
    if of_pairs is not None:
        return of_pairs("einsum", (equation, *operands), {"lowering": lowering})
    return contract(equation, operands, lowering)


@operation
def einops_einsum(*operands: Any, lowering: str = "auto") -> Tensor:
    """einops.einsum: the operands first, then the equation with names of any length, separated by spaces.

    https://einops.rocks/api/einsum. Emits what :func:`einsum` does.

    >>> F.einops_einsum(net.input("x", ("B", 3)), net.input("w", (3, 4)), "batch in, in out -> batch out").shape
    (B, 4)
    """
    if not operands or not isinstance(operands[-1], str):
        raise DefinitionError("einops_einsum takes the operands first, then the equation")
    *given, equation = operands
    if "->" not in equation:
        raise DefinitionError("einops' equations name their output: '… -> …'")
    from .contract import contract

    return contract(equation, given, lowering, names=True)
