"""Finding the plan of an einsum: the order of pairs, and for each pair the layout that moves the fewest bytes."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import NamedTuple, TypeVar

from ...sizes.shape import Shape, hint
from ...sizes.size import Size, is_static
from .costs import Costs
from .draft import Draft
from .equation import Equation, Labels, label_sizes
from .paths import Path, greatest
from .paths import paths as paths_of
from .plan import Axes, EinsumPlan, Step, own_sizes, resolve
from .ways import Value, Way, kinds_of, price_of, ways_of

BEAM = 6  # layouts of the values so far that are carried on to the next pair
Order = tuple[int, ...]
T = TypeVar("T")


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

    @property
    def is_static(self) -> bool:
        """Whether its sizes are numbers, and belong to no network."""
        return all(map(is_static, self.shapes))

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
        found = _searched(equation, _known(equation, shapes), self.constants, self.integers, self.orders, paths, most)
        if found is None:
            return None
        draft, result = found
        return EinsumPlan(
            equation=equation,
            shapes=shapes,
            constants=self.constants,
            sizes=label_sizes(equation, shapes),
            operations=resolve(draft.operations, list(zip(equation.terms, shapes, strict=True))),
            result=result,
            steps=tuple(draft.steps),
            largest=draft.largest,
            cost=draft.cost,
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
def _searched(
    equation: Equation,
    known: Known,
    constants: tuple[bool, ...],
    integers: bool,
    orders: tuple[Order | None, ...],
    paths: tuple[Path, ...] | None,
    most: float,
) -> tuple[Draft, int] | None:
    """The draft that costs least, and its result: the same for all networks. None where it costs more than ``most``.

    Only prices are compared, and what costs more than the best complete plan is not continued; the operations of the
    best plan alone are drafted.
    """
    draft, operands, want = _start(equation, known, constants)
    wanted = [(equation.output, want)]
    if any(order is not None for order in orders):
        operands = [_follow(draft, value, order) for value, order in zip(operands, orders, strict=True)]
        last = (*equation.output[:1], *equation.output[2:], *equation.output[1:2])
        wanted.insert(0, (last, tuple((label,) for label in last)))
    operands = [_alone(draft, equation, value, operands) for value in operands]
    costs, labels = draft.costs, [draft.labels(value) for value in operands]
    values = tuple(Value(draft.axes[value], draft.constant[value]) for value in operands)
    best = _Best(costs, want, most)
    problem: _State | None = None
    for prefer, target in wanted:
        for path in paths_of(costs, labels, equation, constants) if paths is None else paths:
            try:
                _along(best, _State(values, draft.cost, draft.layers), equation, path, integers, prefer, target)
            except _TooManyDimensions as stuck:  # this path needs them; another may not
                problem = stuck.state
    if best.state is not None:
        return draft, _finish(draft, _drafted(draft, operands, best.state, equation), best.target, want)
    if problem is not None and most == math.inf:
        _drafted(draft, operands, problem, equation)  # raises UnsupportedError, which says what needs them
    return None


class _State(NamedTuple):
    """The values of a plan so far, what they cost, and how they came about: by a way to contract two of those before.

    ``pair`` are the positions of these two; their product is the last value.
    """

    values: tuple[Value, ...]
    cost: float
    layers: int
    pair: tuple[int, int] = (0, 0)
    way: Way | None = None
    before: _State | None = None


class _TooManyDimensions(Exception):
    """Every way to go on needs more dimensions than TensorRT has; ``state`` goes on in one of them all the same."""

    def __init__(self, state: _State):
        super().__init__()
        self.state = state


class _Best:
    """The complete plan that costs least so far; ``most`` is what one may cost."""

    def __init__(self, costs: Costs, want: Axes, most: float):
        self.costs, self.want, self.most = costs, want, most
        self.state: _State | None = None
        self.target: Axes = ()
        self._rank: tuple[float, ...] = (math.inf,)

    def add(self, state: _State, target: Axes) -> None:
        """Takes the plan with this one value, in memory as ``target`` at the end, if it costs less."""
        (value,) = state.values
        cost, layers = state.cost, state.layers
        if value.axes != self.want and not value.constant:
            moves = self.costs.moves(value.axes, target)
            cost += sum(move.price.cost for move in moves)
            layers += len(moves) + (target != self.want)
        rank = (cost, layers, state.cost, state.layers)  # the last two decide between plans that cost the same
        if cost <= self.most and rank < self._rank:
            self.state, self.target, self.most, self._rank = state, target, cost, rank

    def rest(self, state: _State) -> float:
        """What the next pair may cost, with room for rounded sums."""
        return self.most * (1 + 1e-9) - state.cost


def _drafted(draft: Draft, operands: Sequence[int], last: _State, equation: Equation) -> int:
    """Appends the operations of a state to a draft of the operands alone; the number of the last result."""
    states: list[_State] = []
    state: _State | None = last
    while state is not None:
        states.append(state)
        state = state.before
    values = list(operands)
    for state in reversed(states):
        if state.way is None:
            continue
        (a, b), values = _taken(values, state.pair)
        kinds = kinds_of(draft.labels(a), draft.labels(b), _kept(equation, map(draft.labels, values)))
        values.append(_step(draft, state.way.kind, (a, b), partial(state.way.draft, draft, a, b), kinds))
    return values[0]


def _taken(values: Sequence[T], pair: tuple[int, int]) -> tuple[tuple[T, T], list[T]]:
    """The values of a pair, and the others."""
    i, j = pair
    return (values[i], values[j]), [value for k, value in enumerate(values) if k not in pair]


def _kept(equation: Equation, others: Iterable[Iterable[str]]) -> set[str]:
    """The labels that are needed later."""
    return set(equation.output).union(*others)


def _start(equation: Equation, known: Known, constants: Sequence[bool]) -> tuple[Draft, list[int], Axes]:
    """A draft with the operands, diagonals taken, and the dimensions that the result will have."""
    sizes, dynamic, operands = known
    draft = Draft(Costs(dict(sizes), dynamic))
    values = [draft.operand(axes, constant) for axes, constant in zip(operands, constants, strict=True)]
    for k, labels in enumerate(equation.terms):
        if len(set(labels)) < len(labels):
            values[k] = _step(draft, "diagonal", (k,), partial(draft.diagonal, k, labels))
    return draft, values, tuple((label,) for label in equation.output)


# -- one operand alone -------------------------------------------------------------------------------------------------


def _alone(draft: Draft, equation: Equation, value: int, values: Sequence[int]) -> int:
    """The operand without the labels that are in no other operand and not in the output."""
    others = set(equation.output).union(*(draft.labels(other) for other in values if other != value))
    lonely = tuple(label for label in draft.labels(value) if label not in others)
    if not lonely:
        return value
    return _step(draft, "sum", (value,), lambda: draft.reduce(value, lonely), {"contracted": lonely})


def _follow(draft: Draft, value: int, order: Order | None) -> int:
    """The operand as it lies in memory; one with a repeated label, whose diagonal has been taken, as it is."""
    if order is None or len(order) != len(draft.axes[value]) or order == tuple(range(len(order))):
        return value
    return _step(draft, "follow", (value,), lambda: draft.follow(value, order))


def _finish(draft: Draft, value: int, target: Axes, want: Axes) -> int:
    """The result in memory as ``target``, its dimensions then named as ``want``."""

    def arranged() -> int:
        result = draft.arrange(value, target, "the output's order")
        return result if target == want else draft.follow(result, [target.index(axis) for axis in want])

    return value if draft.axes[value] == want else _step(draft, "arrange", (value,), arranged)


def _step(
    draft: Draft, kind: str, operands: tuple[int, ...], append: Callable[[], int], kinds: Mapping[str, Labels] = {}
) -> int:
    """What ``append`` gives, with a Step of the operations that it appends; ``kinds`` are the labels by kind."""
    start, flops, moved, values = len(draft.operations), draft.flops, draft.moved, len(draft.axes)
    draft.notes = notes = []
    result = append()
    draft.notes = None
    draft.steps.append(
        Step(
            kind=kind,
            operands=operands,
            result=result,
            labels=tuple(draft.labels(value) for value in (*operands, result)),
            operations=range(start, len(draft.operations)),
            notes=tuple(notes),
            flops=draft.flops - flops,
            bytes=draft.moved - moved,
            elements=max((draft.costs.elements(draft.labels(k)) for k in range(values, len(draft.axes))), default=0),
            **kinds,
        )
    )
    return result


# -- the order of pairs ------------------------------------------------------------------------------------------------


def _along(
    best: _Best, start: _State, equation: Equation, path: Path, integers: bool, prefer: Labels, target: Axes
) -> None:
    """Contracts the pairs of a path, and gives ``best`` what is complete."""
    if not path:
        best.add(start, target)
    costs = best.costs
    terms = [costs.labels(value.axes) for value in start.values]
    limit = greatest(costs, terms, equation, path)
    states = [start]
    for number, pair in enumerate(path):
        if not states:  # nothing costs little enough
            return
        final = number == len(path) - 1
        found: list[_State] = []
        stuck: _State | None = None
        for state in states:
            (a, b), rest = _taken(state.values, pair)
            one, two = costs.labels(a.axes), costs.labels(b.axes)
            kinds = kinds_of(one, two, _kept(equation, [costs.labels(value.axes) for value in rest]))
            cheapest: dict[Axes, _State] = {}
            for way in ways_of(costs, one, two, kinds, prefer, limit, integers):
                price = price_of(way, costs, a, b)
                if price is None:
                    stuck = _State((), 0, 0, pair, way, state)
                    continue
                cost, layers, axes = state.cost + price[0], state.layers + price[1], price[2]
                known = cheapest.get(axes)
                if price[0] > best.rest(state) or (known is not None and (cost, layers) >= known[1:3]):
                    continue
                value = Value(axes, a.constant and b.constant)
                made = cheapest[axes] = _State((*rest, value), cost, layers, pair, way, state)
                if final:
                    best.add(made, target)
            found += cheapest.values()
        if not found and stuck is not None:
            raise _TooManyDimensions(stuck)
        found.sort(key=lambda state: (state.cost, state.layers))
        states = found[:BEAM]
