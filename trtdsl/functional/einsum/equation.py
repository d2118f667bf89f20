"""Einsum equations: parsing, ellipses, the sizes of labels."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from ...core.files.names import brief
from ..common import MAX_DIMS, DefinitionError, Shape, ShapeError, SizeLike, UnsupportedError, bounds, shape_text

Labels = tuple[str, ...]
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"  # what torch's sublists number
ELLIPSIS = "..."
ITEM = 4  # bytes of a float32, in which costs are counted
_TOKENS = [re.compile(rf"(\.\.\.|{label})| +|(.)", re.DOTALL) for label in ("[A-Za-z]", "[A-Za-z_][A-Za-z0-9_]*")]


class Equation(NamedTuple):
    """The labels of every operand's dimensions and of the result's.

    The dimensions of an ellipsis are labelled ``...0``, ``...1``, counted from the last dimension.

    >>> print(parse("b l d_in, d_in n -> b l d_in n", [3, 2]))
    b l d_in, d_in n -> b l d_in n
    >>> print(parse("i...,jk->ijk", [2, 2]))
    i ...0, j k -> i j k
    """

    terms: tuple[Labels, ...]
    output: Labels

    def __str__(self) -> str:
        return f"{', '.join(map(text, self.terms))} -> {text(self.output)}"


def text(labels: Sequence[str]) -> str:
    """Labels as they are printed: ``b l d_in``, and ``()`` for none."""
    return " ".join(labels) or "()"


def parse(equation: str, ranks: Sequence[int], *, names: bool | None = None) -> Equation:
    """The equation for operands of these ranks, in torch's letters or in einops' long names.

    ``names`` says which; None takes long names where there is an underscore or a digit, which torch never has.

    Raises DefinitionError naming the operand for whatever torch refuses, such as ranks that do not fit, and for an
    output that repeats a label or has an unknown one; UnsupportedError for a result of more than 8 dimensions.
    """
    return _parse(equation, tuple(ranks), bool(re.search(r"[0-9_]", equation)) if names is None else names)


@functools.lru_cache(maxsize=256)
def _parse(equation: str, ranks: tuple[int, ...], names: bool) -> Equation:
    inputs, arrow, output = equation.partition("->")
    if "->" in output:
        raise DefinitionError("an equation has one '->'")
    texts = inputs.split(",")
    if len(texts) != len(ranks):
        raise DefinitionError(f"the equation {equation!r} is for {len(texts)} operands, but {len(ranks)} are given")
    places = [f"operand {index} ({part.strip()})" for index, part in enumerate(texts)]
    terms = [_tokens(part, names, place) for part, place in zip(texts, places, strict=True)]
    return _with_dimensions(terms, _tokens(output, names, "the output") if arrow else None, ranks)


def of_sublists(arguments: Sequence[Any]) -> tuple[str, tuple[Any, ...]]:
    """The equation in torch's letters, and the operands, of ``operand, [0, 1], …, [0, 2]``.

    Raises DefinitionError for a number outside 0 to 51.
    """
    ends = len(arguments) - len(arguments) % 2
    output = "->" + _sublist(arguments[-1]) if len(arguments) % 2 else ""
    return ",".join(map(_sublist, arguments[1:ends:2])) + output, tuple(arguments[:ends:2])


def _sublist(labels: Any) -> str:
    if not isinstance(labels, (list, tuple)):
        raise DefinitionError(
            "the equation stands first, as F.einsum('ij,jk->ik', x, y), or a list of label numbers behind each "
            f"operand, not {type(labels).__name__}"
        )
    result = []
    for label in labels:
        if label is Ellipsis:
            result.append(ELLIPSIS)
        elif isinstance(label, int) and 0 <= label < len(LETTERS):
            result.append(LETTERS[label])
        else:
            raise DefinitionError(f"a label in a list is a number from 0 to {len(LETTERS) - 1}, or ..., not {label!r}")
    return "".join(result)


def _tokens(part: str, names: bool, place: str) -> Labels:
    labels: list[str] = []
    for label, wrong in _TOKENS[names].findall(part):
        if wrong == ".":
            raise DefinitionError(f"a '.' in {place} that is not part of an ellipsis '...'")
        if wrong:
            raise DefinitionError(f"{wrong!r} in {place}: labels are {'names' if names else 'letters'} and '...'")
        labels += [label] * bool(label)
    return tuple(labels)


def _with_dimensions(terms: Sequence[Labels], output: Labels | None, ranks: Sequence[int]) -> Equation:
    """The Equation with its ellipses as labels, and torch's implicit output where there is none."""
    expanded = []
    for index, (labels, rank) in enumerate(zip(terms, ranks, strict=True)):
        operand = f"operand {index} ({brief(text(labels))})"
        if labels.count(ELLIPSIS) > 1:
            raise DefinitionError(f"{operand} has more than one ellipsis")
        named = len(labels) - labels.count(ELLIPSIS)
        if named > rank and ELLIPSIS in labels:
            raise DefinitionError(f"{operand} has {named} labels beside the ellipsis, but only {rank} dimensions")
        if named > rank or (named < rank and ELLIPSIS not in labels):
            further = "F.einops_einsum reads long names" if named > rank else "'...' stands for the others"
            raise DefinitionError(f"{operand} has {named} labels, but {rank} dimensions; {further}")
        expanded.append(_expand(labels, rank - named))
    hidden = max(
        (rank - len(labels) + 1 for labels, rank in zip(terms, ranks, strict=True) if ELLIPSIS in labels), default=0
    )
    if output is None:
        every = [label for labels in terms for label in labels if label != ELLIPSIS]
        output = (ELLIPSIS, *sorted(label for label in set(every) if every.count(label) == 1))
    if output.count(ELLIPSIS) > 1:
        raise DefinitionError("the output has more than one ellipsis")
    known = {label for labels in expanded for label in labels}
    for label in output:
        if label != ELLIPSIS and label not in known:
            raise DefinitionError(f"the output's label {label!r} is in no operand ({', '.join(map(text, terms))})")
        if output.count(label) > 1:
            raise DefinitionError(f"the label {label!r} is more than once in the output")
    result = _expand(output, hidden)
    if len(result) > MAX_DIMS:
        raise UnsupportedError(
            f"the result {text(result)} has {len(result)} dimensions; TensorRT has at most {MAX_DIMS}"
        )
    return Equation(tuple(expanded), result)


def _expand(labels: Labels, hidden: int) -> Labels:
    dots = tuple(f"{ELLIPSIS}{index}" for index in reversed(range(hidden)))
    return tuple(part for label in labels for part in (dots if label == ELLIPSIS else (label,)))


def label_sizes(equation: Equation, shapes: Sequence[Shape]) -> dict[str, SizeLike]:
    """The size of every label: static where an operand says so, 1 where all do.

    Sizes of 1 are broadcast. Dynamic sizes are taken to be equal where they may be: which of them is 1 when the network
    runs is not known when it is written.

    Raises ShapeError naming the label, both operands and both sizes.
    """
    sizes: dict[str, SizeLike] = {}
    owner: dict[str, int] = {}
    for index, (labels, shape) in enumerate(zip(equation.terms, shapes, strict=True)):
        own: dict[str, SizeLike] = {}
        for label, size in zip(labels, shape, strict=True):
            if label in own and not may_equal(own[label], size):
                raise ShapeError(
                    f"label {label!r} is repeated in operand {index} ({text(labels)}), "
                    f"but with the sizes {own[label]} and {size}"
                )
            if label not in own or isinstance(size, int):
                own[label] = size
        for label, size in own.items():
            known = sizes.get(label, 1)
            if known != 1 and size != 1 and not may_equal(known, size):
                other = owner[label]
                raise ShapeError(
                    f"label {label!r} is {known} in operand {other} ({text(equation.terms[other])}: "
                    f"{shape_text(shapes[other])}), but {size} in operand {index} ({text(labels)}: {shape_text(shape)})"
                )
            if known == 1 or (isinstance(size, int) and size != 1):
                sizes[label], owner[label] = size, index
    return sizes


def may_equal(a: SizeLike, b: SizeLike) -> bool:
    """Whether two sizes can be the same for some value of their dimensions."""
    low, high = bounds(a - b)
    return low <= 0 <= high
