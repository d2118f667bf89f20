"""Branches and loops that are decided when the network runs, under the names that torch has for them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...core.tensors.trees import mapped
from ...sizes.condition import Condition
from ..common import DefinitionError, L, Network, ShapeError, Tensor, operation, require_network, shape_text, torch
from ..operands import as_tensor, normalize_axis
from ..pointwise import logic
from ..spectral.complex_tensor import ComplexTensor

COMPARED = {"==": logic.eq, "!=": logic.ne, "<": logic.lt, "<=": logic.le, ">": logic.gt, ">=": logic.ge}


@operation
def cond(pred: Any, true_fn: Callable[..., Any], false_fn: Callable[..., Any], operands: Sequence[Any] = ()) -> Any:
    """``true_fn(*operands)`` where ``pred`` holds, else ``false_fn(*operands)``, of which one runs: an IIfConditional.

    ``pred`` is a bool scalar (or one element), or a comparison of sizes. A Python bool, a constant, and a comparison
    that the ranges decide are decided when the network is written. TensorRT looks at the sizes of both branches,
    whichever runs, so that both must be right for all of them, and TensorRT-RTX 1.7 does not build every branch that
    slices or pads by sizes, nor a branch within a branch where the network has dynamic sizes.
    Both functions give Tensors, or tuples or dicts of them, that agree in rank and dtype. What a branch uses of the
    network besides its operands is computed whichever branch runs. https://docs.pytorch.org/docs/stable/cond.html

    >>> x = net.input("x", (td.Dim("N", min=1, max=9), 3))
    >>> td.cond(x.sum() > 0, lambda x: x * 2, lambda x: -x, (x,)).shape
    (N, 3)
    >>> td.cond(x.shape[0] % 2 == 1, lambda x: F.pad(x, (0, 0, 0, 1)), lambda x: x, (x,)).shape
    (2*N - 2*(N//2), 3)
    """
    if isinstance(pred, bool) or (isinstance(pred, Tensor) and pred.is_constant):
        return (true_fn if bool(pred) else false_fn)(*operands)
    sizes = None
    if isinstance(pred, Condition):
        network, sizes = require_network(operands), pred
        pred = COMPARED[pred.sign](*(as_tensor(each, network) for each in (pred.left, pred.right)))
    network = pred.network
    if pred.dtype != torch.bool or pred.numel() != 1:
        raise DefinitionError(f"cond: pred must be one bool, not {shape_text(pred.shape)} of {pred.dtype}")
    branch = L.Conditional(L.shuffle(pred, reshape=()), sizes)
    inside = [_map(operand, lambda x: x if x.is_constant else branch.input(x)) for operand in operands]
    given = {id(leaf) for operand in inside for leaf in _leaves(operand)}
    results = []
    for function in (true_fn, false_fn):
        with network.authors_code():
            returned = function(*inside)
        results.append(_map(returned, lambda x: _own(x, network, given)))
    leaves = [_leaves(result) for result in results]
    if _structure(results[0]) != _structure(results[1]):
        raise DefinitionError(f"cond: the branches give {_structure(results[0])} and {_structure(results[1])}")
    outputs = iter([branch.output(then, otherwise) for then, otherwise in zip(*leaves, strict=True)])
    return _map(results[0], lambda _: next(outputs))


@operation
def while_loop(cond_fn: Callable[..., Any], body_fn: Callable[..., Any], carried_inputs: Sequence[Any]) -> Any:
    """Runs ``body_fn`` on the carried values as long as ``cond_fn`` of them holds: an ILoop.

    ``cond_fn(*carried)`` gives a bool scalar, looked at before each iteration; ``body_fn(*carried)`` the next values,
    of the same shapes and dtypes. Gives the last ones, a tuple. IRecurrenceLayers, ITripLimitLayer, ILoopOutputLayers;
    IShuffleLayers around scalars that begin as constants where sizes are dynamic.

    >>> x = net.input("x", (3,))
    >>> y, = td.while_loop(lambda x: x.sum() < 100, lambda x: (x * 2,), (x,))
    >>> y.shape
    (3,)
    """
    network = require_network(carried_inputs)
    initial = [as_tensor(value, network) for value in carried_inputs]
    loop = L.Loop(network)
    held = [loop.recurrence(_held(value)) for value in initial]
    carried = [_like(value, first) for value, first in zip(held, initial, strict=True)]
    with network.authors_code():
        condition = cond_fn(*carried)
    goes_on = as_tensor(condition, network, torch.bool)
    if goes_on.numel() != 1:
        raise DefinitionError(f"while_loop: cond_fn must give one bool, not {shape_text(goes_on.shape)}")
    loop.while_(L.shuffle(goes_on, reshape=()))
    with network.authors_code():
        following = body_fn(*carried)
    following = (following,) if isinstance(following, Tensor) else tuple(following)
    _hand_over("while_loop", loop, carried, following, held)
    return tuple(_like(loop.last_value(value), first) for value, first in zip(held, initial, strict=True))


def _held(value: Tensor) -> Tensor:
    """What a loop of a network with dynamic sizes carries of a constant scalar: one element of a vector.

    TensorRT-RTX 1.7 counts with scalars on the host, where such a start is written over another constant of the loop
    (``docs/traps/builder-loops.md``).
    """
    is_hosted = bool(value.network.dims) and value.is_constant and value.ndim == 0
    return L.shuffle(value, reshape=(1,)) if is_hosted else value


def _like(value: Tensor, other: Tensor) -> Tensor:
    """A scalar as a vector of one element or back, as another is; any other tensor as it is."""
    return value if value.ndim == other.ndim else L.shuffle(value, reshape=() if other.ndim == 0 else (1,))


@operation
def scan(
    combine_fn: Callable[[Any, Any], tuple[Any, Any]], init: Any, xs: Any, *, dim: int = 0, reverse: bool = False
) -> tuple[Any, Any]:
    """Carries a value along ``dim`` of ``xs``: ``carry, y = combine_fn(carry, x)`` for each slice ``x``. An ILoop.

    Gives the last carry and all ``y``, stacked along a new dimension 0. ``init`` and ``xs`` are Tensors, or tuples or
    dicts of them; ``y`` may be None; ``reverse`` starts from the end, each ``y`` in its place. IIteratorLayers,
    IRecurrenceLayers, ITripLimitLayer and ILoopOutputLayers.

    >>> x = net.input("x", ("T", 3))
    >>> last, sums = td.scan(lambda carry, x: (carry + x, carry + x), x[0] * 0, x)
    >>> sums.shape
    (T, 3)
    """
    values = _leaves(xs)
    if not values:
        raise DefinitionError("scan needs at least one tensor to go along")
    network = values[0].network
    lengths = {value.shape[normalize_axis(dim, value.ndim)] for value in values}
    if len(lengths) > 1:
        raise ShapeError(f"scan: dimension {dim} of the tensors has the sizes {', '.join(map(str, lengths))}")
    length = lengths.pop()
    loop = L.Loop(network)
    loop.count(length)
    carry = _map(init, lambda x: loop.recurrence(as_tensor(x, network)))
    slices = _map(xs, lambda x: loop.iterator(x, normalize_axis(dim, x.ndim), reverse))
    with network.authors_code():
        result = combine_fn(carry, slices)
    if not isinstance(result, tuple) or len(result) != 2:
        raise DefinitionError("scan: combine_fn must give (carry, y)")
    following, outputs = result
    stacked = _map(outputs, lambda y: loop.concatenate(_own(y, network, set()), length, 0, reverse))
    _hand_over("scan", loop, _leaves(carry), _leaves(following))
    return _map(carry, loop.last_value), stacked


def _hand_over(
    name: str, loop: Any, carried: Sequence[Tensor], following: Sequence[Tensor], held: Sequence[Tensor] | None = None
) -> None:
    if len(carried) != len(following):
        raise DefinitionError(f"{name}: {len(carried)} values are carried, but {len(following)} follow")
    for before, after, kept in zip(carried, following, held or carried, strict=True):
        if before.network.precision is not None and before.is_floating_point() and after.is_floating_point():
            after = L.cast(after, before.dtype)  # what a precision computes low is carried as it began
        if before.dtype != after.dtype or before.ndim != after.ndim:
            raise DefinitionError(f"{name}: {before} would become {after}: shape and dtype must stay")
        loop.next(kept, _like(_own(after, before.network, {id(value) for value in carried}), kept))


def _own(x: Any, network: Network, given: set[int]) -> Tensor:
    """A value made inside: one that was handed in, or is constant, gets a layer of its own."""
    tensor = as_tensor(x, network)
    return L.identity(tensor) if id(tensor) in given or tensor.is_constant else tensor


def _map(tree: Any, change: Callable[[Any], Any]) -> Any:
    def changed(leaf: Any) -> Any:
        if isinstance(leaf, ComplexTensor):
            parts = change(leaf.real), change(leaf.imag)
            return ComplexTensor(*parts) if isinstance(parts[0], Tensor) else parts
        return None if leaf is None else change(leaf)

    return mapped(tree, changed)


def _leaves(tree: Any) -> list[Any]:
    found: list[Any] = []
    _map(tree, found.append)
    return found


def _structure(tree: Any) -> str:
    return str(_map(tree, lambda x: "Tensor")).replace("'Tensor'", "Tensor")
