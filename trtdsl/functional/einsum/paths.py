"""The orders of pairs in which the operands of an einsum are contracted: found by opt_einsum."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from .costs import Costs
from .equation import Equation, Labels

Path = Sequence[tuple[int, int]]


def paths(costs: Costs, operands: Sequence[Labels], equation: Equation, constants: Sequence[bool]) -> Iterator[Path]:
    """opt_einsum's path; also with the constants contracted first, since that costs nothing."""
    terms = list(map(frozenset, operands))
    yield _optimal(terms, frozenset(equation.output), costs.sizes)
    known = [k for k, constant in enumerate(constants) if constant]
    if 1 < len(known) < len(operands):
        merged = frozenset().union(*(terms[k] for k in known))
        outside = frozenset(equation.output).union(*(terms[k] for k in range(len(terms)) if k not in known))
        if costs.count(merged & outside) > max(costs.count(terms[k]) for k in range(len(terms))):
            return
        first = _optimal([terms[k] for k in known], outside, costs.sizes)
        rest = [term for k, term in enumerate(terms) if k not in known]
        steps: list[tuple[int, int]] = []
        order = list(range(len(terms)))
        inner = list(known)
        for step, (i, j) in enumerate(first):
            a, b = inner[i], inner[j]
            steps.append((order.index(a), order.index(b)))
            new = len(terms) + step
            inner = [k for k in inner if k not in (a, b)] + [new]
            order = [k for k in order if k not in (a, b)] + [new]
        yield [*steps, *_optimal([*rest, merged & outside], frozenset(equation.output), costs.sizes)]


def _optimal(terms: Sequence[frozenset[str]], output: frozenset[str], sizes: Mapping[str, int]) -> Path:
    """Pairs of positions in a list from which both are taken and to which the result is appended."""
    if len(terms) < 3:
        return [(0, 1)] if len(terms) == 2 else []
    from opt_einsum.paths import auto_hq

    known = set().union(*terms)
    path = auto_hq(list(terms), output & known, {label: max(sizes[label], 1) for label in known})
    pairs: list[tuple[int, int]] = []
    count = len(terms)
    for step in path:
        taken = sorted(step)
        while len(taken) > 1:  # three at a time: the first two, then their product with the next
            pairs.append((taken[0], taken[1]))
            count -= 1
            taken = [k - 2 for k in taken[2:]] + ([count - 1] if len(taken) > 2 else [])
    return pairs


def greatest(costs: Costs, operands: Sequence[Labels], equation: Equation, path: Path) -> int:
    """The elements of the largest of the path's intermediates, the operands and the output."""
    terms = list(map(frozenset, operands))
    output = frozenset(equation.output)
    greatest = max(costs.count(term) for term in terms)
    for i, j in path:
        rest = [term for k, term in enumerate(terms) if k not in (i, j)]
        terms = [*rest, (terms[i] | terms[j]) & output.union(*rest)]
        greatest = max(greatest, costs.count(terms[-1]))
    return greatest
