"""The algebra of sizes: every identity is checked by evaluating both sides at random values."""

from __future__ import annotations

import itertools
import math
import operator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trtdsl.core.errors import ShapeError, UsageError
from trtdsl.sizes.condition import SIGNS, Condition
from trtdsl.sizes.dim import Dim
from trtdsl.sizes.proof import identical
from trtdsl.sizes.shape import hint, shape_text, substitute
from trtdsl.sizes.size import (
    Size,
    bounds,
    divide_exactly,
    floor_divide,
    product,
    size_key,
    size_max,
    size_min,
    size_sqrt,
    value,
)

NAMES = ("A", "B", "C")
DIMS = {name: Dim(name, min=1, opt=5, max=9) for name in NAMES}
ENVS = st.fixed_dictionaries({name: st.integers(1, 9) for name in NAMES})


class Pair:
    """A size, and the plain function of the dimensions that it must be."""

    def __init__(self, size, of):
        self.size, self.of = size, of

    def __repr__(self):
        return str(self.size)


LEAVES = st.one_of(
    st.integers(-4, 6).map(lambda number: Pair(number, lambda env: number)),
    st.sampled_from(NAMES).map(lambda name: Pair(DIMS[name], lambda env: env[name])),
)


def _combined(children):
    def arithmetic(parts):
        a, b, op = parts
        return Pair(op(a.size, b.size), lambda env: op(a.of(env), b.of(env)))

    def divided(parts):
        a, divisor, op = parts
        return Pair(op(a.size, divisor), lambda env: op(a.of(env), divisor))

    def extreme(parts):
        a, b, ours, plain = parts
        return Pair(ours(a.size, b.size), lambda env: plain(a.of(env), b.of(env)))

    return st.one_of(
        st.tuples(children, children, st.sampled_from([operator.add, operator.sub, operator.mul])).map(arithmetic),
        st.tuples(children, st.integers(1, 5), st.sampled_from([operator.floordiv, operator.mod])).map(divided),
        st.tuples(children, children, st.sampled_from([(size_max, max), (size_min, min)])).map(
            lambda parts: extreme((parts[0], parts[1], *parts[2]))
        ),
    )


SIZES = st.recursive(LEAVES, _combined, max_leaves=6)


@settings(max_examples=150, deadline=None)
@given(SIZES, ENVS)
def test_a_size_has_the_value_of_the_arithmetic_it_stands_for(pair, env):
    assert value(pair.size, env) == pair.of(env)


@settings(max_examples=80, deadline=None)
@given(SIZES, ENVS)
def test_bounds_are_never_too_narrow(pair, env):
    low, high = bounds(pair.size)
    assert low <= pair.of(env) <= high


@settings(max_examples=80, deadline=None)
@given(SIZES, SIZES, ENVS)
def test_equal_sizes_have_equal_values_everywhere(a, b, env):
    try:
        same = bool(a.size == b.size)
    except ShapeError:  # some values of the dimensions make them equal, and others do not
        return
    assert same == (a.of(env) == b.of(env))
    if identical(a.size - b.size):
        assert hash(a.size) == hash(b.size)


@settings(max_examples=80, deadline=None)
@given(SIZES, SIZES, SIZES, ENVS)
def test_sums_and_products_have_one_form(a, b, c, env):
    a, b, c = a.size, b.size, c.size
    assert a + b == b + a
    assert a * b == b * a
    assert (a + b) + c == a + (b + c)
    assert a * (b + c) == a * b + a * c
    assert a - a == 0
    assert a - b == -1 * (b - a)


@settings(max_examples=80, deadline=None)
@given(SIZES, st.integers(1, 6), st.integers(1, 6), ENVS)
def test_floor_division_identities(pair, n, m, env):
    a = pair.size
    assert (a * n) // n == a
    assert (a * n + (n - 1)) // n == a
    assert (a // n) * n + a % n == a
    assert value((a // n) // m, env) == value(a // (n * m), env)
    assert value(a // n, env) == pair.of(env) // n


@settings(max_examples=80, deadline=None)
@given(SIZES, SIZES, ENVS)
def test_exact_division_is_exact(a, b, env):
    if isinstance(b.size, int) and b.size == 0:
        assert divide_exactly(a.size, b.size) is None
        return
    assert divide_exactly(a.size * b.size, b.size) == a.size
    quotient = divide_exactly(a.size, b.size)
    if quotient is not None:
        assert value(quotient, env) * b.of(env) == a.of(env)


@settings(max_examples=80, deadline=None)
@given(SIZES, SIZES, ENVS)
def test_comparisons_are_right_or_refused(a, b, env):
    for ours in (operator.lt, operator.le, operator.gt, operator.ge):
        if not isinstance(a.size, Size):
            continue
        try:
            decided = bool(ours(a.size, b.size))
        except ShapeError:
            continue
        assert decided == ours(a.of(env), b.of(env))


@settings(max_examples=50, deadline=None)
@given(st.lists(SIZES, max_size=4), ENVS)
def test_products_of_shapes(pairs, env):
    expected = 1
    for pair in pairs:
        expected *= pair.of(env)
    assert value(product(pair.size for pair in pairs), env) == expected


@settings(max_examples=50, deadline=None)
@given(SIZES)
def test_a_hint_is_the_value_at_opt(pair):
    assert hint(pair.size) == pair.of(dict.fromkeys(NAMES, 5))


@settings(max_examples=50, deadline=None)
@given(SIZES, ENVS)
def test_the_text_of_a_size_evaluates_to_its_value(pair, env):
    names = dict(env, max=max, min=min)
    assert eval(str(pair.size), {}, names) == pair.of(env)


# -- forms that are printed, and equal where they are written differently ---------------------------------------------


T, N = Dim("T"), Dim("N")


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (T // 2, "T//2"),
        ((T + 1) // 2, "(T + 1)//2"),
        (N // ((T + 1) // 2), "N//((T + 1)//2)"),
        (N // 2 // ((T + 1) // 2), "N//2//((T + 1)//2)"),
        (N * T * 6, "6*N*T"),
        (N * 2 - 1, "2*N - 1"),
        (-1 * T + 3, "-T + 3"),
        ((T // 2) * 4 + N, "N + 4*(T//2)"),
        (size_max(T - 3, 0), "max(0, T - 3)"),
        (-((T + 3) // 8), "-((T + 3)//8)"),
        (N - (T + 3) // 8, "N - (T + 3)//8"),
        (T % 32, "T % 32"),
        ((T + 1) % 4, "(T + 1) % 4"),
        (3 * (T % 4) + N, "3*(T % 4) + N"),
        (N - T % 4, "-(T % 4) + N"),
    ],
)
def test_text(size, text):
    assert str(size) == text


def test_shape_text():
    assert shape_text((N, 64, T // 2, 18)) == "(N, 64, T//2, 18)"
    assert shape_text((N,)) == "(N,)"
    assert shape_text(()) == "()"


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ((T + (4 - T % 4) % 4) // 4, (T + 3) // 4),  # windows of a side that was padded to a multiple of 4
        (T - (3 * T) // 4, (T + 3) // 4),
        ((2 * T + 1) // 4, T // 2),
        (size_min(T, T // 2), T // 2),
        (size_max(0, 2 * T - 2 * ((T + 1) // 2) + 1), 2 * T - 2 * ((T + 1) // 2) + 1),
        ((T - 1) // 2 + 1, (T + 1) // 2),  # a convolution with stride 2, written in two ways
        ((T + 2 * 1 - 3) // 2 + 1, (T + 1) // 2),
        ((N * T * 6) // (N * 3), 2 * T),
        ((T // 2) // 2, T // 4),
        ((4 * T + 6) // 2, 2 * T + 3),
        (size_max(T, T), T),
        (size_max(T + 1, T), T + 1),
        (size_min(N * T, N * T + 2), N * T),
        (T - T // 2, (T + 1) // 2),  # the rest of a half
        (T // 4 + (T + 2) // 4, T // 2),
        (T // 3 + (T + 1) // 3 + (T + 2) // 3, T),
        (-(T // 2) + N, N - T + (T + 1) // 2),
        (((T + 1) // 2 + 1) // 2 * 4 - T, -T % 4),
        (T // 2 + (T + 1) // 2 - T + 3, 3),
    ],
)
def test_equal_forms(a, b):
    assert a == b
    assert hash(a) == hash(b)


@pytest.mark.parametrize("root", [7, T, T + 1, T // 2, (T + 1) // 2 - 1, 2 * N * T, T + N, 3 * T * T + N + 5])
def test_the_root_of_a_square_is_its_side(root):
    assert size_sqrt(root * root) == root


@pytest.mark.parametrize("size", [T, 2 * T * T, N * T, 15, T * T + 1, 4 * T * T + 2 * T, -T * T, (T - N) * (T - N)])
def test_what_is_no_square_has_no_root(size):
    with pytest.raises(ShapeError, match="is no square of a size"):
        size_sqrt(size)


@pytest.mark.parametrize(
    ("a", "b"),
    [(T // 2, (T + 1) // 2), (T % 4, T % 8), (T // 4 + (T + 1) // 4, T // 2), (T // 2 + (T + 1) // 2, T + 1)],
)
def test_different_forms(a, b):
    assert not identical(a - b)


@pytest.mark.parametrize(
    ("size", "decided"),
    [
        (T // 2, None),  # 0 where T = 1
        (T // 2 + 1, True),
        (T - 9, None),
        (T - T // 2, True),
        (T * (T % 2 - 1), None),
        (T % 2 - 2, True),
        ((T * T) % 2 - T % 2, False),  # a square is as even as its root
    ],
)
def test_the_truth_of_a_size_is_whether_it_is_zero_at_every_value(size, decided):
    if decided is None:
        with pytest.raises(ShapeError, match="whether .* != 0 depends on the dynamic dimensions"):
            bool(size)
    else:
        assert bool(size) is decided


@settings(max_examples=100, deadline=None)
@given(SIZES, SIZES, st.sampled_from(["==", "!=", "<", "<=", ">", ">="]))
def test_a_comparison_is_decided_wherever_every_value_decides_it(a, b, sign):
    """All 729 values of three dimensions are tried: what they agree on is decided, and nothing else."""
    ours = SIGNS[sign](a.size, b.size)
    envs = [dict(zip(NAMES, values, strict=True)) for values in itertools.product(range(1, 10), repeat=3)]
    outcomes = {bool(SIGNS[sign](a.of(env), b.of(env))) for env in envs}
    if len(outcomes) == 1:
        assert ours is outcomes.pop()
    else:
        assert isinstance(ours, Condition)
        assert all(ours.holds(env) == bool(SIGNS[sign](a.of(env), b.of(env))) for env in envs[::7])
        assert all((~ours).holds(env) != ours.holds(env) for env in envs[::7])
        with pytest.raises(ShapeError, match="depends on the dynamic dimensions"):
            bool(ours)


def test_ranges_without_an_end_are_decided_by_remainders():
    assert T - T // 2 > 0
    assert T // 2 * 2 <= T
    assert not T // 2 * 2 > T
    assert (3 * T) // 4 <= T
    assert T % 32 < 32


@pytest.mark.parametrize(("number", "rounded"), [(13, 10), (15, 20), (25, 20), (35, 40), (20, 20)])
def test_rounding_a_size(number, rounded):
    assert round(T, -1).value({"T": number}) == round(number, -1) == rounded
    assert round(T) is T
    assert math.floor(T) is T
    assert math.ceil(T) is T
    assert math.trunc(T) is T


def test_the_magnitude_of_a_size_and_division_with_remainder():
    size = Dim("T", min=0, max=9) - 4
    assert [abs(size).value({"T": t}) for t in range(10)] == [abs(t - 4) for t in range(10)]
    whole, rest = divmod(T, 3)
    assert [(whole.value({"T": t}), rest.value({"T": t})) for t in range(10)] == [divmod(t, 3) for t in range(10)]


def test_a_size_where_other_sizes_stand_for_its_dimensions():
    size = size_max(T // 2 - N, 0) + N
    assert substitute(size, {"T": 2 * N}) == N
    assert substitute(size, {"T": 7, "N": 1}) == 3


def test_a_dim_is_its_name():
    assert Dim("T", min=1, max=5) == Dim("T")
    assert Dim("T", min=1, max=4) != 5
    assert Dim("T", min=1, max=4) != Dim("U", min=5, max=9)


def test_an_open_comparison_is_refused_where_the_author_asks():
    t = Dim("T", min=1, max=9)
    for compare in (lambda: t == 5, lambda: t != 5, lambda: t == Dim("U"), lambda: 2 * t == t + 3):
        with pytest.raises(ShapeError, match="whether .* [!=]= .* depends on the dynamic dimensions"):
            bool(compare())
    with pytest.raises(ShapeError, match=r"whether T > 3 depends on the dynamic dimensions \(T from 1 to 9\)"):
        bool(t > 3)
    with pytest.raises(ShapeError, match="whether T <= 3 depends"):
        bool(t <= 3)
    assert {t: 1}[Dim("T")] == 1


def test_division_by_zero_is_refused():
    with pytest.raises(ShapeError, match="division by zero"):
        floor_divide(T, 0)
    with pytest.raises(ShapeError, match="division by zero"):
        T // 0


def test_a_dynamic_size_is_no_int():
    for convert in (int, float, operator.index, range):
        with pytest.raises(ShapeError, match=r"T is dynamic \(T from 2 to 9\)"):
            convert(Dim("T", min=2, max=9))


def test_an_open_comparison_is_refused():
    dim = Dim("T", min=2, max=9)
    assert dim > 1
    assert dim < 10
    assert not dim > 9
    with pytest.raises(ShapeError, match=r"whether T < 5 depends on the dynamic dimensions \(T from 2 to 9\)"):
        bool(dim < 5)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"name": "2x"}, "must be an identifier"),
        ({"name": "2*T"}, "not '2\\*T': sizes are computed of dimensions, as td"),
        ({"name": "T", "min": 3}, "give min and max together"),
        ({"name": "T", "min": 3, "max": 2}, "needs 0 <= min <= opt <= max"),
        ({"name": "T", "min": 1, "opt": 9, "max": 4}, "needs 0 <= min <= opt <= max"),
        ({"name": "T", "min": -1, "max": 4}, "needs 0 <= min <= opt <= max"),
    ],
)
def test_bad_dims(arguments, message):
    with pytest.raises(UsageError, match=message):
        Dim(**arguments)


def test_the_value_of_a_dim_that_is_not_given():
    with pytest.raises(ShapeError, match="the dimension T has no value here"):
        value(T + 1, {"N": 3})


def test_a_size_of_one_value_is_a_number():
    assert list(range((Dim("N", min=1, opt=8, max=64) + 127) // 128)) == [0]
    with pytest.raises(ShapeError, match=r"it has no one value .* Leave int\(\) out"):
        range((Dim("N", min=1, opt=8, max=129) + 127) // 128)


def test_sizes_around_sizes_take_no_longer_keys():
    """Quotes within quotes took twice as many characters with each size around them: six of these were 16 MB."""
    size, least = Dim("T", min=1, max=1000), {t: t for t in (1, 7, 40)}
    for step in range(6):
        size = size * (size + 1) // (7 + step)
        least = {t: number * (number + 1) // (7 + step) for t, number in least.items()}
    assert len(size_key(size)) <= 500 and size_key(size) != size_key(size + 1)
    assert least == {t: value(size, {"T": t}) for t in least}


def test_bounds_of_sums_of_divisions_within_one_another():
    """Each sum asks for its parts three times: all of a filter bank's levels would ask without an end."""
    width = size = Dim("W", min=24, max=44)
    for _ in range(20):
        size = (size + width // 2) // 2 + size // 3
    low, high = size.bounds()
    values = [size.value({"W": each}) for each in range(24, 45)]
    assert low <= min(values) and max(values) <= high


def test_what_is_padded_level_in_level_is_bounded_by_its_values():
    length = Dim("T", min=33, max=80)
    size = length
    for _ in range(5):  # a pad to the same number of steps, as TensorFlow's convolutions have
        pad = size_max((-(size // -2) - 1) * 2 + 3 - size, 0)
        size = (size + pad - 3) // 2 + 1
    assert str(size).count("max") <= 1  # each of them would stand in the next ones three times
    assert all(substitute(size, {"T": number}) == -(-number // 32) for number in range(33, 81))
