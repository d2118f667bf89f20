"""Finding the plan of an einsum: the order of pairs, and for each pair the layout that moves the fewest bytes."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence

from ...core.errors import UnsupportedError
from ...sizes.shape import Shape, hint
from ...sizes.size import Size
from .draft import Draft, TooDear, shape_layers
from .equation import Equation, Labels, label_sizes
from .paths import Path, greatest
from .paths import paths as paths_of
from .plan import Axes, EinsumPlan, Step, own_sizes, resolve

BEAM = 6  # layouts of the values so far that are carried on to the next pair
UNROLL = 4  # the longest contraction that is written product by product
Order = tuple[int, ...]


def make_plan(
    equation: Equation,
    shapes: Sequence[Shape],
    constants: Sequence[bool] | None = None,
    *,
    integers: bool = False,
    orders: Sequence[Order | None] | None = None,
    paths: Sequence[Path] | None = None,
) -> EinsumPlan:
    """The plan for operands of these shapes, from the shapes alone.

    ``constants`` says which operands are known when the network is written. ``integers``: there is no matrix product.
    ``orders`` says in which order the dimensions of each operand lie in memory (None: as they are written). Where one
    lies channels last, as convolutions write, the result may lie channels last too: naming its dimensions in another
    order costs nothing. ``paths`` are the orders of pairs to choose from; None leaves them to opt_einsum.

    Raises ShapeError for sizes that disagree, UnsupportedError where more than 8 dimensions would be needed.

    >>> from trtdsl.functional.einsum.equation import parse
    >>> plan = make_plan(parse("nkctv,kvw->nctw", [5, 3]), [(8, 3, 64, 300, 18), (3, 18, 18)], [False, True])
    >>> [type(operation).__name__ for operation in plan.operations]
    ['Shuffle', 'Shuffle', 'MatrixMultiply']
    """
    plan = plan_within(math.inf, equation, shapes, constants, integers=integers, orders=orders, paths=paths)
    assert plan is not None
    return plan


def plan_within(
    most: float,
    equation: Equation,
    shapes: Sequence[Shape],
    constants: Sequence[bool] | None = None,
    *,
    integers: bool = False,
    orders: Sequence[Order | None] | None = None,
    paths: Sequence[Path] | None = None,
) -> EinsumPlan | None:
    """As :func:`make_plan`; None where every plan costs more than ``most``."""
    shapes = tuple(tuple(shape) for shape in shapes)
    constants = tuple(constants) if constants is not None else (False,) * len(shapes)
    known = _known(equation, shapes)
    chosen = (tuple(orders) if orders is not None else None, tuple(paths) if paths is not None else None)
    found = _searched(equation, known, constants, integers, *chosen, most)
    if found is None:
        return None
    draft, result = found
    return _finished(draft, result, equation, shapes, constants)


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
    orders: tuple[Order | None, ...] | None,
    paths: tuple[Path, ...] | None,
    most: float,
) -> tuple[Draft, int] | None:
    """The draft that costs least, and its result: the same for all networks. None where it costs more than ``most``."""
    draft, values, want = _start(equation, known, constants)
    wanted = [(equation.output, want)]
    if orders is not None and any(order is not None for order in orders):
        values = [_follow(draft, value, order) for value, order in zip(values, orders, strict=True)]
        last = (*equation.output[:1], *equation.output[2:], *equation.output[1:2])
        wanted.insert(0, (last, tuple((label,) for label in last)))
    values = [_alone(draft, equation, value, values) for value in values]
    draft.bound[0] = most
    complete: list[tuple[tuple[float, ...], Draft, int]] = []
    problem: UnsupportedError | None = None
    for prefer, target in wanted:
        for path in paths_of(draft, values, equation, constants) if paths is None else paths:
            finish = functools.partial(_finished_for, complete, target, want)
            try:
                _along(draft, values, equation, path, integers, prefer, finish)
            except UnsupportedError as error:  # this path needs too many dimensions; another may not
                problem = error
    if not complete:
        if problem is not None:
            raise problem
        return None
    _, best, result = min(complete, key=lambda plan: plan[0])
    best.tried = {}
    return best, result


def _finished_for(
    complete: list[tuple[tuple[float, ...], Draft, int]], target: Axes, want: Axes, draft: Draft, value: int
) -> None:
    """Adds the plan that a draft becomes to those that are complete, unless it costs more than one of them."""
    rank = (draft.cost, draft.layers)  # decides between plans that cost the same
    try:
        draft, value = _finish(draft, value, target, want)
    except TooDear:
        return
    draft.bound[0] = min(draft.bound[0], draft.cost)
    complete.append(((draft.cost, draft.layers, *rank, len(complete)), draft, value))


def _start(equation: Equation, known: Known, constants: Sequence[bool]) -> tuple[Draft, list[int], Axes]:
    """A draft with the operands, diagonals taken, and the dimensions that the result will have."""
    sizes, dynamic, operands = known
    draft = Draft(dict(sizes), dynamic)
    values = [draft.operand(axes, constant) for axes, constant in zip(operands, constants, strict=True)]
    for k, labels in enumerate(equation.terms):
        if len(set(labels)) < len(labels):
            recorder = _Recorder(draft, "diagonal", (k,))
            values[k] = draft.diagonal(k, labels)
            recorder.done(values[k])
    return draft, values, tuple((label,) for label in equation.output)


def _finished(
    draft: Draft, result: int, equation: Equation, shapes: Sequence[Shape], constants: Sequence[bool]
) -> EinsumPlan:
    return EinsumPlan(
        equation=equation,
        shapes=tuple(shapes),
        constants=tuple(constants),
        sizes=label_sizes(equation, shapes),
        operations=resolve(draft.operations, list(zip(equation.terms, shapes, strict=True))),
        result=result,
        steps=tuple(draft.steps),
        largest=draft.largest,
        cost=draft.cost,
    )


def naive_plan(equation: Equation, shapes: Sequence[Shape], constants: Sequence[bool]) -> EinsumPlan:
    """The usual rewrite, for comparison: all operands reshaped to all labels, multiplied, and summed at the end."""
    draft, values, want = _start(equation, _known(equation, shapes), constants)
    summed = {label for value in values for label in draft.labels(value)} - set(equation.output)
    order = merge((equation.output, *(draft.labels(value) for value in values)))
    order = tuple(label for label in order if label not in summed) + tuple(label for label in order if label in summed)
    order = tuple(label for label in order if any(label in draft.labels(value) for value in values))
    recorder = _Recorder(draft, "multiply everything and sum", tuple(values), contracted=tuple(sorted(summed)))
    result = values[0]
    for value in values[1:]:
        result = draft.multiply(result, value, order, wide=bool(summed))
    result = draft.reduce(result, summed) if summed else result
    result = draft.arrange(result, want)
    recorder.done(result)
    return _finished(draft, result, equation, shapes, constants)


# -- one operand alone -------------------------------------------------------------------------------------------------


def _alone(draft: Draft, equation: Equation, value: int, values: Sequence[int]) -> int:
    """The operand without the labels that are in no other operand and not in the output."""
    others = set(equation.output).union(*(draft.labels(other) for other in values if other != value))
    lonely = tuple(label for label in draft.labels(value) if label not in others)
    if lonely:
        recorder = _Recorder(draft, "sum", (value,), contracted=lonely)
        value = draft.reduce(value, lonely)
        recorder.done(value)
    return value


def _follow(draft: Draft, value: int, order: Order | None) -> int:
    """The operand as it lies in memory; one with a repeated label, whose diagonal has been taken, as it is."""
    if order is None or len(order) != len(draft.axes[value]) or order == tuple(range(len(order))):
        return value
    recorder = _Recorder(draft, "follow", (value,))
    value = draft.follow(value, order)
    recorder.done(value)
    return value


def _finish(draft: Draft, value: int, target: Axes, want: Axes) -> tuple[Draft, int]:
    """The result in memory as ``target``, its dimensions then named as ``want``."""
    if draft.axes[value] != want:
        draft = draft.copy()
        recorder = _Recorder(draft, "arrange", (value,))
        value = draft.arrange(value, target, "the output's order")
        if target != want:
            value = draft.follow(value, [target.index(axis) for axis in want])
        recorder.done(value)
    return draft, value


class _Recorder:
    """Makes a Step of the operations that are appended while it is open; once."""

    def __init__(self, draft: Draft, kind: str, operands: tuple[int, ...], **labels: Labels):
        self.draft, self.kind, self.operands, self.kinds = draft, kind, operands, labels
        self.start, self.flops, self.moved = len(draft.operations), draft.flops, draft.moved
        draft.notes = []
        self.open = True

    def done(self, result: int) -> None:
        draft = self.draft
        if not self.open:
            return
        self.open = False
        made = range(len(draft.axes) - (len(draft.operations) - self.start), len(draft.axes))
        draft.steps.append(
            Step(
                kind=self.kind,
                operands=self.operands,
                result=result,
                labels=tuple(draft.labels(value) for value in (*self.operands, result)),
                operations=range(self.start, len(draft.operations)),
                notes=tuple(draft.notes),
                flops=draft.flops - self.flops,
                bytes=draft.moved - self.moved,
                elements=max((draft.count(draft.labels(value)) for value in made), default=0),
                **self.kinds,
            )
        )


# -- the order of pairs ------------------------------------------------------------------------------------------------


def _along(
    draft: Draft,
    values: list[int],
    equation: Equation,
    path: Path,
    integers: bool,
    prefer: Labels,
    finish: Callable[[Draft, int], None],
) -> None:
    """Contracts the pairs of a path, and finishes what may cost least."""
    if not path:
        finish(draft, values[0])
    limit = greatest(draft, values, equation, path)
    states = [(draft, list(values))]
    for number, (i, j) in enumerate(path):
        final = number == len(path) - 1
        found: list[tuple[Draft, list[int]]] = []
        problem: UnsupportedError | None = None
        for state, current in states:
            a, b = current[i], current[j]
            rest = [value for value in current if value not in (a, b)]
            keep = set(equation.output).union(*(state.labels(value) for value in rest))
            try:
                made = contract(state, a, b, keep, prefer, limit, integers)
            except UnsupportedError as error:
                problem = error
                continue
            found += [(next_state, [*rest, value]) for next_state, value in made]
            if final:  # at once, since what costs more than a complete plan need not be tried
                for next_state, value in made:
                    finish(next_state, value)
        if not found and problem is not None:
            raise problem
        found.sort(key=lambda item: (item[0].cost, item[0].layers))
        states = found[:BEAM]


# -- one pair ----------------------------------------------------------------------------------------------------------


def contract(
    draft: Draft, a: int, b: int, keep: set[str], prefer: Labels, limit: int, integers: bool
) -> list[tuple[Draft, int]]:
    """The cheapest ways to contract two values, one for each layout of the result; ``prefer`` is an order of labels.

    Labels in both that are not in ``keep`` are summed. Nothing with more than ``limit`` elements is made, except of
    integers where there is no other way.
    """
    one, two = draft.labels(a), draft.labels(b)
    both = set(one) & set(two)
    kinds = {
        "batch": tuple(label for label in one if label in both and label in keep),
        "contracted": tuple(label for label in one if label in both and label not in keep),
        "left": tuple(label for label in one if label not in both),
        "right": tuple(label for label in two if label not in both),
    }
    contracted = kinds["contracted"]
    every = [*one, *kinds["right"]]
    options: list[tuple[str, functools.partial[int]]] = []
    products = contracted and draft.core(kinds["left"]) and draft.core(kinds["right"])
    small = draft.count(every) <= limit
    if products and not integers:
        options += [
            ("matrix product", functools.partial(layout, a=a, b=b))
            for layout in _layouts(one, two, *kinds.values(), prefer)
        ]
    if products and not small and _unrolls(draft, contracted):
        options += [
            ("products added up", functools.partial(_unrolled, a=a, b=b, order=order, label=contracted[0]))
            for order in _orders(one, two, prefer)
        ]
    if not products or small or (integers and not _unrolls(draft, contracted)):
        kind = "multiply and sum" if contracted else "multiply"
        options += [
            (kind, functools.partial(_multiplied, a=a, b=b, order=order, contracted=contracted))
            for order in _orders(one, two, prefer)
        ]
    return _cheapest(draft, (a, b), options, kinds)


def _unrolls(draft: Draft, contracted: Labels) -> bool:
    return len(contracted) == 1 and contracted[0] not in draft.dynamic and draft.sizes[contracted[0]] <= UNROLL


def _multiplied(draft: Draft, a: int, b: int, order: Labels, contracted: Labels) -> int:
    return draft.multiply(a, b, order, contracted, wide=bool(contracted))


def _unrolled(draft: Draft, a: int, b: int, order: Labels, label: str) -> int:
    return draft.unrolled(a, b, order, label)


def _cheapest(
    draft: Draft,
    pair: tuple[int, int],
    options: Sequence[tuple[str, functools.partial[int]]],
    kinds: Mapping[str, Labels],
) -> list[tuple[Draft, int]]:
    best: dict[Axes, tuple[tuple[float, int], _Recorder, int]] = {}
    problem: UnsupportedError | None = None
    for kind, option in options:
        way = (kind, option.func, *option.keywords.values())
        found = draft.tried.get(way)
        if found is None:
            found = draft.tried[way] = _tried(_Recorder(draft.copy(), kind, pair, **kinds), option)
        if not isinstance(found, tuple):
            problem = found if isinstance(found, UnsupportedError) else problem
            continue
        recorder, value = found
        state = recorder.draft
        key = (state.cost, state.layers)
        known = best.get(state.axes[value])
        if known is None or key < known[0]:
            best[state.axes[value]] = (key, recorder, value)
    if not best and problem is not None:
        raise problem
    kept = sorted(best.values(), key=lambda item: item[0])
    for _, recorder, value in kept:
        recorder.done(value)
    return [(recorder.draft, value) for _, recorder, value in kept]


def _tried(recorder: _Recorder, option: functools.partial[int]) -> tuple[_Recorder, int] | UnsupportedError | TooDear:
    try:
        return recorder, option(recorder.draft)
    except (UnsupportedError, TooDear) as error:
        return error


def _orders(one: Labels, two: Labels, prefer: Labels) -> list[Labels]:
    """Orders of all labels of two values that leave one of them, or the output, as it is."""
    every = set(one) | set(two)
    wanted = tuple(label for label in prefer if label in every)
    return list(dict.fromkeys(merge(order) for order in itertools.permutations((one, two, wanted))))


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
def _layouts(
    one: Labels, two: Labels, both: Labels, contracted: Labels, left: Labels, right: Labels, prefer: Labels
) -> list[Callable[..., int]]:
    """Matrix products of both orders of operands, over the layouts that may save a transposition."""
    layouts: dict[tuple[object, ...], Callable[..., int]] = {}
    for swap in (False, True):
        x, y = (two, one) if swap else (one, two)
        rows, columns = (right, left) if swap else (left, right)
        for (batch_x, m), (batch_y, n) in itertools.product(_splits(rows, x, prefer), _splits(columns, y, prefer)):
            batch = {*both, *batch_x, *batch_y}
            for order in _orders_of(batch, x, y, prefer):
                for k in dict.fromkeys(_ordered(contracted, by) for by in (x, y)):
                    key = (swap, order, m, n, k)
                    layouts[key] = functools.partial(_product, swap=swap, batch=order, m=m, n=n, k=k)
    return list(layouts.values())


def _orders_of(labels: set[str], x: Labels, y: Labels, prefer: Labels) -> list[Labels]:
    parts = [tuple(label for label in sequence if label in labels) for sequence in (prefer, x, y)]
    return list(dict.fromkeys(merge(order) for order in itertools.permutations(parts)))


def _ordered(labels: Iterable[str], by: Sequence[str]) -> Labels:
    chosen = set(labels)
    return tuple(label for label in by if label in chosen)


def _splits(labels: Labels, own: Labels, prefer: Labels) -> list[tuple[Labels, Labels]]:
    """The labels of one side in two: batch dimensions over which the other side is broadcast, and the matrix's own."""
    found: dict[tuple[Labels, Labels], None] = {}
    mine, wanted = _ordered(labels, own), _ordered(labels, prefer)
    kept_first = (*wanted, *(label for label in mine if label not in wanted))  # the others are summed by a later pair
    for order in (mine, merge((wanted, mine)), kept_first):
        for cut in range(len(order)):
            found[order[:cut], order[cut:]] = None
    return list(found)


def _product(draft: Draft, a: int, b: int, *, swap: bool, batch: Labels, m: Labels, n: Labels, k: Labels) -> int:
    x, y = (b, a) if swap else (a, b)
    left, turn_left, left_moved = _matrix(draft, x, batch, m, k, "rows and contracted together")
    right, stays, right_moved = _matrix(draft, y, batch, n, k, "columns and contracted together")
    result = draft.matrix_multiply(left, right, turn_left, not stays)
    # An operand that was moved anyway can be moved once more in the same go.
    draft.flag(result, [left] * (turn_left and not left_moved) + [right] * (not stays and not right_moved))
    return result


def _matrix(draft: Draft, value: int, batch: Labels, free: Labels, inner: Labels, why: str) -> tuple[int, bool, bool]:
    """The value as (batch, free, inner), or (batch, inner, free) and True; whichever is there already.

    The last bool says whether it had to be moved.
    """
    target, inner_first, moves = _placed(draft.axes[value], batch, free, inner, draft.dynamic, draft.trivial)
    return draft.arrange(value, target, why), inner_first, moves


@functools.lru_cache(maxsize=4096)
def _placed(
    axes: Axes, batch: Labels, free: Labels, inner: Labels, dynamic: frozenset[str], trivial: frozenset[str]
) -> tuple[Axes, bool, bool]:
    """The dimensions that a matrix gets, whether ``inner`` comes first, and whether elements move."""

    def core(labels: Iterable[str]) -> Labels:
        return tuple(label for label in labels if label not in trivial)

    labels = {label for axis in axes for label in axis}
    own = tuple((label,) if label in labels else () for label in batch)
    before = tuple(label for label in batch if label in labels)
    straight, turned = (*own, free, inner), (*own, inner, free)
    lies = core(label for axis in axes for label in axis)
    inner_first = lies == core((*before, *inner, *free))
    moves = not inner_first and lies != core((*before, *free, *inner))
    if moves:  # without a shape tensor where one way needs none; then so that what lies closest together stays so
        ways = [(shape_layers(axes, target, dynamic, trivial), target is not straight) for target in (straight, turned)]
        inner_first = min(ways, key=lambda way: (way[0], way[1] is not (lies[-1] in free)))[1]
    return turned if inner_first else straight, inner_first, moves
