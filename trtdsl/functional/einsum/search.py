"""Finding the plan of an einsum: the order of pairs, and for each pair the layout that moves the fewest bytes."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ...core.errors import DefinitionError, UnsupportedError, UsageError
from ...sizes.dim import Dim
from ...sizes.shape import Shape, hint
from ...sizes.size import Size, SizeLike
from .draft import Costs, Draft, Value
from .equation import Equation, Labels, label_sizes, parse, text
from .plan import Axes, EinsumPlan, own_sizes, resolve

UNROLL = 4  # the longest contraction that is written product by product
BEAM = 6  # layouts of the values so far that are carried on to the next pair
Order = tuple[int, ...]
Path = Sequence[tuple[int, int]]


class Problem(NamedTuple):
    """An einsum from shapes alone.

    >>> from trtdsl.functional.einsum.equation import parse
    >>> problem = Problem(parse("nkctv,kvw->nctw", [5, 3]), ((8, 3, 64, 300, 18), (3, 18, 18)), (False, True))
    >>> [type(operation).__name__ for operation in problem.plan().operations]
    ['Shuffle', 'Shuffle', 'MatrixMultiply']
    """

    equation: Equation
    shapes: tuple[Shape, ...]
    constants: tuple[bool, ...]
    """Which operands are known when the network is written."""
    orders: tuple[Order | None, ...] = ()
    """In which order the dimensions of each lie in memory; None: as they are written.

    Where one lies channels last, as convolutions write, the result may lie channels last too: naming its dimensions in
    another order costs nothing.
    """
    integers: bool = False
    """Whether there is no matrix product."""

    def plan(self, paths: tuple[Path, ...] | None = None) -> EinsumPlan:
        """The plan that costs least. ``paths`` are the orders of pairs to choose from; None leaves them to opt_einsum.

        Raises ShapeError for sizes that disagree, UnsupportedError where more than 8 dimensions would be needed.
        """
        plan = self.plan_within(math.inf, paths)
        assert plan is not None
        return plan

    def plan_within(self, most: float, paths: tuple[Path, ...] | None = None) -> EinsumPlan | None:
        """As :meth:`plan`; None where every plan costs more than ``most``."""
        equation, shapes = self.equation, self.shapes
        found = _searched(self._replace(shapes=()), _known(equation, shapes), paths, most)
        if found is None:
            return None
        made = [value for value in found.values[len(shapes) :] if not value.constant]
        operations = [value.operation for value in found.values if value.operation is not None]
        return EinsumPlan(
            equation=equation,
            shapes=shapes,
            constants=self.constants,
            sizes=label_sizes(equation, shapes),
            operations=resolve(operations, list(zip(equation.terms, shapes, strict=True))),
            result=found.left[0],
            steps=tuple(found.steps()),
            largest=max((found.costs.elements(found.costs.labels(value.axes)) for value in made), default=0),
            cost=found.cost,
        )


Known = tuple[tuple[tuple[str, int], ...], frozenset[str], tuple[Axes, ...]]


def _known(equation: Equation, shapes: Sequence[Shape]) -> Known:
    """What a search depends on: each label's size to tune for, which are dynamic, and each operand's dimensions."""
    sizes = label_sizes(equation, shapes)
    # A dimension of size 1 is left out, unless it is one in the output too.
    ones = {label for label, size in sizes.items() if size == 1 and label in equation.output}
    operands = []
    for labels, shape in zip(equation.terms, shapes, strict=True):
        own = own_sizes(labels, shape)
        operands.append(tuple((label,) if label in own or label in ones else () for label in labels))
    dynamic = frozenset(label for label, size in sizes.items() if isinstance(size, Size))
    return tuple((label, hint(size)) for label, size in sizes.items()), dynamic, tuple(operands)


@functools.lru_cache(maxsize=512)
def _searched(problem: Problem, known: Known, paths: tuple[Path, ...] | None, most: float) -> Draft | None:
    """The draft that costs least: the same for all networks. None where it costs more than ``most``."""
    equation, start = problem.equation, _start(problem, known)
    costs, labels = start.costs, [start.labels(value) for value in start.left]
    wanted = [equation.output]
    if any(order is not None for order in problem.orders):
        wanted.insert(0, (*equation.output[:1], *equation.output[2:], *equation.output[1:2]))
    best, stuck = _Best(problem, most), None
    for prefer in wanted:
        for path in paths_of(costs, labels, equation, problem.constants) if paths is None else paths:
            try:
                _along(best, start, path, prefer)
            except UnsupportedError as error:  # this path needs too many dimensions; another may not
                stuck = error
    if best.draft is None and stuck is not None and most == math.inf:
        raise stuck
    return best.draft


class _Best:
    """The complete plan that costs least so far; ``most`` is what one may cost."""

    def __init__(self, problem: Problem, most: float):
        self.problem, self.most = problem, most
        self.draft: Draft | None = None
        self._want: Axes = tuple((label,) for label in problem.equation.output)
        self._rank: tuple[float, ...] = (math.inf,)

    def add(self, draft: Draft, prefer: Labels) -> None:
        """Takes the plan with this one value, in memory in the order ``prefer`` at the end, if it costs less."""
        before, (value,) = (draft.cost, draft.layers), draft.left
        if draft.axes(value) != self._want:
            draft = draft.copy()
            draft.step("arrange", draft.left, _arranged, tuple((label,) for label in prefer), self._want)
        rank = (draft.cost, draft.layers, *before)  # the last two decide between plans that cost the same
        if draft.cost <= self.most and rank < self._rank:
            self.draft, self.most, self._rank = draft, draft.cost, rank


def _arranged(draft: Draft, value: int, target: Axes, want: Axes) -> int:
    """The result in memory as ``target``, its dimensions then named as ``want``."""
    result = draft.arrange(value, target, "the output's order")
    return result if target == want else draft.follow(result, [target.index(axis) for axis in want])


def _start(problem: Problem, known: Known) -> Draft:
    """A draft with the operands: diagonals taken, in the order of memory, without what is in one of them alone."""
    equation, (sizes, dynamic, operands) = problem.equation, known
    draft = Draft(Costs(dict(sizes), dynamic), map(Value, operands, problem.constants))
    for k, labels in enumerate(equation.terms):
        if len(set(labels)) < len(labels):
            draft.step("diagonal", (k,), Draft.diagonal, labels)
    for value, order in zip(draft.left, problem.orders, strict=False):
        # One with a repeated label, whose diagonal has been taken, stays as it is.
        if order is not None and len(order) == len(draft.axes(value)) and order != tuple(range(len(order))):
            draft.step("follow", (value,), Draft.follow, order)
    for value in draft.left:
        others = {*equation.output}.union(*(draft.labels(other) for other in draft.left if other != value))
        lonely = tuple(label for label in draft.labels(value) if label not in others)
        if lonely:
            draft.step("sum", (value,), Draft.reduce, lonely, kinds={"contracted": lonely})
    return draft


def _along(best: _Best, start: Draft, path: Path, prefer: Labels) -> None:
    """Contracts the pairs of a path, and gives ``best`` what is complete.

    What costs more than the best complete plan is not continued. Raises UnsupportedError where every way to go on needs
    more dimensions than TensorRT has.
    """
    if not path:
        best.add(start, prefer)
    costs, equation = start.costs, best.problem.equation
    limit = greatest(costs, [start.labels(value) for value in start.left], equation, path)
    drafts = [start]
    for number, pair in enumerate(path):
        found: list[Draft] = []
        stuck: UnsupportedError | None = None
        for draft in drafts:
            a, b = (draft.left[position] for position in pair)
            one, two = draft.labels(a), draft.labels(b)
            later = (draft.labels(x) for x in draft.left if x not in (a, b))
            kinds = kinds_of(one, two, {*equation.output}.union(*later))
            cheapest: dict[Axes, Draft] = {}
            for way in ways_of(costs, one, two, kinds, prefer, limit, best.problem.integers):
                made = draft.copy()
                try:
                    made.step(way.kind, (a, b), way.append, *way.how, kinds=kinds)
                except UnsupportedError as error:
                    stuck = error
                    continue
                axes = made.axes(made.left[-1])
                known = cheapest.get(axes)
                if made.cost > best.most * (1 + 1e-9):  # with room for rounded sums
                    continue
                if known is not None and (made.cost, made.layers) >= (known.cost, known.layers):
                    continue
                cheapest[axes] = made
                if number == len(path) - 1:
                    best.add(made, prefer)
            found += cheapest.values()
        if not found and stuck is not None:
            raise stuck
        found.sort(key=lambda draft: (draft.cost, draft.layers))
        drafts = found[:BEAM]


class Way(NamedTuple):
    """A way to contract two values: what a plan calls it, the method of a Draft, and what it is given besides."""

    kind: str
    append: Callable[..., int]
    how: tuple[Any, ...]


def kinds_of(one: Labels, two: Labels, keep: Iterable[str]) -> dict[str, Labels]:
    """The labels of two operands by what becomes of them: those in both are summed unless they are to be kept."""
    both = set(one) & set(two)
    kept = both.intersection(keep)
    return {
        "batch": tuple(label for label in one if label in kept),
        "contracted": tuple(label for label in one if label in both and label not in kept),
        "left": tuple(label for label in one if label not in both),
        "right": tuple(label for label in two if label not in both),
    }


def ways_of(
    costs: Costs, one: Labels, two: Labels, kinds: Mapping[str, Labels], prefer: Labels, limit: int, integers: bool
) -> Sequence[Way]:
    """The ways to contract two values; ``prefer`` is an order of labels.

    Nothing with more than ``limit`` elements is made, except of integers where there is no other way.
    """
    contracted = kinds["contracted"]
    ways: list[Way] = []
    products = contracted and costs.core(kinds["left"]) and costs.core(kinds["right"])
    small = costs.count((*one, *kinds["right"])) <= limit
    unrolls = len(contracted) == 1 and contracted[0] not in costs.dynamic and costs.sizes[contracted[0]] <= UNROLL
    if products and not integers:
        ways += _matrix_products(one, two, *kinds.values(), prefer)
    orders = _orders((one, two, _ordered({*one, *two}, prefer)))  # that leave one of them, or the output, as it is
    if products and not small and unrolls:
        ways += [Way("products added up", Draft.unrolled, (order, *contracted)) for order in orders]
    if not products or small or (integers and not unrolls):
        kind = "multiply and sum" if contracted else "multiply"
        ways += [Way(kind, Draft.multiply, (order, contracted)) for order in orders]
    return ways


@functools.lru_cache(maxsize=4096)
def _orders(sequences: tuple[Labels, Labels, Labels]) -> list[Labels]:
    """Orders of all labels, each of which leaves one of the sequences as it is."""
    return list(dict.fromkeys([merge(order) for order in itertools.permutations(sequences)]))


@functools.lru_cache(maxsize=4096)
def merge(sequences: tuple[Labels, ...]) -> Labels:
    """All labels: in the order of the first sequence, those of the next ones put in after their predecessors there."""
    result: list[str] = []
    for sequence in sequences:
        position = 0
        for label in sequence:
            if label in result:
                position = max(position, result.index(label) + 1)
            else:
                result.insert(position, label)
                position += 1
    return tuple(result)


@functools.lru_cache(maxsize=1024)
def _matrix_products(
    one: Labels, two: Labels, both: Labels, contracted: Labels, left: Labels, right: Labels, prefer: Labels
) -> list[Way]:
    """Matrix products of both orders of operands, over the layouts that may save a transposition."""
    ways: dict[Way, None] = {}
    for swap in (False, True):
        x, y = (two, one) if swap else (one, two)
        rows, columns = (right, left) if swap else (left, right)
        inner = list(dict.fromkeys([_ordered(contracted, by) for by in (x, y)]))
        for (batch_x, m), (batch_y, n) in itertools.product(_splits(rows, x, prefer), _splits(columns, y, prefer)):
            batch = {*both, *batch_x, *batch_y}
            for order in _orders((_ordered(batch, prefer), _ordered(batch, x), _ordered(batch, y))):
                for k in inner:
                    ways[Way("matrix product", Draft.matrix_product, (swap, order, m, n, k))] = None
    return list(ways)


def _ordered(labels: Iterable[str], by: Sequence[str]) -> Labels:
    chosen = set(labels)
    return tuple([label for label in by if label in chosen])


def _splits(labels: Labels, own: Labels, prefer: Labels) -> list[tuple[Labels, Labels]]:
    """The labels of one side in two: batch dimensions over which the other side is broadcast, and the matrix's own."""
    found: dict[tuple[Labels, Labels], None] = {}
    mine, wanted = _ordered(labels, own), _ordered(labels, prefer)
    kept_first = (*wanted, *(label for label in mine if label not in wanted))  # the others are summed by a later pair
    for order in (mine, merge((wanted, mine)), kept_first):
        for cut in range(len(order)):
            found[order[:cut], order[cut:]] = None
    return list(found)


# -- orders of pairs, found by opt_einsum ------------------------------------------------------------------------------


def paths_of(costs: Costs, operands: Sequence[Labels], equation: Equation, constants: Sequence[bool]) -> Iterator[Path]:
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
        inner, order = known, [*range(len(terms))]
        for new, (i, j) in enumerate(first, len(terms)):
            a, b = inner[i], inner[j]
            steps.append((order.index(a), order.index(b)))
            inner, order = ([*(k for k in each if k not in (a, b)), new] for each in (inner, order))
        yield [*steps, *_optimal([*rest, merged & outside], frozenset(equation.output), costs.sizes)]


def _optimal(terms: Sequence[frozenset[str]], output: frozenset[str], sizes: Mapping[str, int]) -> Path:
    """Pairs of positions in a list from which both are taken and to which the result is appended."""
    if len(terms) < 3:
        return [(0, 1)] if len(terms) == 2 else []
    from opt_einsum.paths import auto_hq

    known = set().union(*terms)
    path = auto_hq(list(terms), output & known, {label: max(sizes[label], 1) for label in known})
    return [(min(a, b), max(a, b)) for a, b in path]


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


# -- from shapes alone -------------------------------------------------------------------------------------------------


def explain_einsum(
    equation: str,
    *shapes: Sequence[SizeLike | str],
    constants: Iterable[int] = (),
    names: bool | None = None,
    integers: bool = False,
    orders: Mapping[int, str | Sequence[int]] | None = None,
) -> EinsumPlan:
    """The plan by which F.einsum would compute ``equation``, from the operands' shapes alone; ``print`` it.

    A size is an int, a :class:`Dim` or a name. ``constants`` are the numbers of the operands that are known when the
    network is written, ``names`` reads einops' long names even where the equation has no underscore or digit,
    ``integers`` plans for operands that IMatrixMultiplyLayer does not take. ``orders`` says of an operand, by its
    number, in which order its dimensions lie in memory: as labels, ``"ntvkc"``, or as axes; F.einsum knows it
    (:attr:`Tensor.order`). Needs neither TensorRT nor data.

    Raises DefinitionError for a malformed equation, ShapeError for sizes that disagree, UsageError for a bad size or
    order.

    >>> plan = td.explain_einsum("nkctv,kvw->nctw", ("N", 3, 64, 300, 18), (3, 18, 18), constants=[1])
    >>> [step.kind for step in plan.steps], plan.steps[0].contracted
    (['matrix product'], ('k', 'v'))
    >>> after_a_convolution = td.explain_einsum(
    ...     "nkctv,kvw->nctw", ("N", 3, 64, 300, 18), (3, 18, 18), constants=[1], orders={0: "ntvkc"}
    ... )
    >>> plan.bytes > after_a_convolution.bytes
    True
    """
    known = tuple(tuple(_size(size) for size in shape) for shape in shapes)
    chosen, given, numbers = set(constants), orders or {}, range(len(known))
    if not known:
        raise DefinitionError("einsum needs at least one operand")
    if not chosen <= set(numbers):
        raise UsageError(f"constants are numbers of operands, from 0 to {len(known) - 1}: {sorted(chosen)}")
    parsed = parse(equation, [len(shape) for shape in known], names=names)
    if not given.keys() <= set(numbers):
        raise UsageError(f"orders are of operands, from 0 to {len(known) - 1}: {sorted(given)}")
    lies = tuple(_order(given.get(k), labels) for k, labels in enumerate(parsed.terms))
    return Problem(parsed, known, tuple(k in chosen for k in numbers), lies, integers).plan()


def _order(order: str | Sequence[int] | None, labels: Sequence[str]) -> tuple[int, ...] | None:
    if order is None:
        return None
    names = order.split() if isinstance(order, str) and " " in order else order
    axes = tuple(labels.index(x) if isinstance(x, str) and x in labels else x for x in names)
    if sorted(map(str, axes)) != sorted(map(str, range(len(labels)))):
        raise UsageError(f"the order {order!r} does not name each dimension of {text(tuple(labels))} once")
    return axes  # type: ignore[return-value]


def _size(size: SizeLike | str) -> SizeLike:
    if isinstance(size, str):
        return Dim(size)
    if isinstance(size, bool) or not isinstance(size, (int, Size)) or (isinstance(size, int) and size < 0):
        raise UsageError(f"a size is an int from 0 on, a Dim or a name, not {size!r}")
    return size
