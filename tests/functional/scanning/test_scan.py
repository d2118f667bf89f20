"""Recurrences in a loop and by doubling, against step-by-step computations in torch."""

from __future__ import annotations

import itertools

import pytest
import torch
import torch.nn.functional as TF
from hypothesis import given, settings
from hypothesis import strategies as st
from support import assert_close, evaluate, layer_types

import trtdsl as td
import trtdsl.functional as F
from trtdsl.engine.compiling.compiler import compile_engine

LOWERINGS = ["parallel", "loop"]
SELECTIVE = ["loop", "chunked", "blocks", "pairs"]
T = td.Dim("T", min=1, opt=16, max=70)


def recurrence(a, b, dim, initial=None, reverse=False):
    """One step after the other, in float64."""
    a, b = torch.broadcast_tensors(a.double(), b.double())
    a, b = a.movedim(dim, 0), b.movedim(dim, 0)
    h = torch.zeros_like(b[0]) if initial is None else initial.double()
    result = [None] * len(a)
    for t in reversed(range(len(a))) if reverse else range(len(a)):
        h = a[t] * h + b[t]
        result[t] = h
    return torch.stack(result).movedim(0, dim).float()


@pytest.mark.parametrize("lowering", LOWERINGS)
@pytest.mark.parametrize("reverse", [False, True])
@settings(max_examples=25, deadline=None)
@given(st.integers(1, 70), st.integers(0, 2), st.booleans(), st.booleans())
def test_linear_recurrence(lowering, reverse, length, dim, dynamic, started):
    shape = [2, 3, 2]
    shape[dim] = length
    a, b = torch.rand(shape) * 1.2, torch.randn(shape)
    dims = [T if dynamic and axis == dim else size for axis, size in enumerate(shape)]
    initial = torch.randn(shape[:dim] + shape[dim + 1 :]) if started else None
    expected = recurrence(a, b, dim, initial, reverse)
    if started:
        got = evaluate(
            lambda a, b, h: F.linear_recurrence(a, b, dim, h, reverse=reverse, lowering=lowering),
            a,
            b,
            initial,
            dims=[dims, dims, None],
        )
    else:
        got = evaluate(
            lambda a, b: F.linear_recurrence(a, b, dim, reverse=reverse, lowering=lowering), a, b, dims=[dims, dims]
        )
    assert_close(got, expected)


@pytest.mark.parametrize("lowering", LOWERINGS)
def test_operands_are_broadcast_and_half_precision_is_rounded_once(lowering):
    a, b = torch.tensor([0.5, 0.9]), torch.randn(3, 7, 2)
    expected = recurrence(a, b, 1)
    assert_close(evaluate(F.linear_recurrence, a, b, dim=1, lowering=lowering), expected)
    assert_close(evaluate(F.linear_recurrence, a.reshape(1, 1, 2), b, dim=-2, lowering=lowering), expected)
    a, b = torch.rand(64).half(), torch.randn(64).half()
    got = evaluate(F.linear_recurrence, a, b, dim=0, lowering=lowering)
    assert_close(got, recurrence(a, b, 0).half(), 1e-3)


def test_the_passes_are_as_many_as_the_logarithm_of_the_greatest_length():
    def products(length):
        net = td.Network()
        shape = (2, td.Dim("T", min=1, max=length))
        F.linear_recurrence(net.input("a", shape), net.input("b", shape), 1)
        return layer_types(net).count("ELEMENTWISE")

    # Doubling up to a length of 32: in each pass a product and a sum for h, and (but for the last) one for the factor.
    assert [products(length) for length in (1, 2, 4, 32)] == [0, 2, 5, 14]
    longer = [products(32 << k) for k in range(6)]
    assert len({after - before for before, after in itertools.pairwise(longer)}) == 1


@pytest.mark.parametrize("lowering", LOWERINGS)
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("length", [1, 2, 7, 16, 70])
def test_associative_scan(lowering, reverse, length):
    x = torch.randn(3, length)
    dims = [(3, T)]
    running = x.flip(1).cummax(1).values.flip(1) if reverse else x.cummax(1).values
    arguments = {"dim": 1, "reverse": reverse, "lowering": lowering}
    got = evaluate(lambda x: F.associative_scan(F.maximum, x, **arguments), x, dims=dims)
    assert torch.equal(got, running)
    # Pairs: the recurrence as torch's associative_scan would be asked for it; not commutative.
    a = torch.rand(3, length)

    def combine(earlier, later):
        return later[0] * earlier[0], later[0] * earlier[1] + later[1]

    got = evaluate(lambda a, x: F.associative_scan(combine, (a, x), **arguments)[1], a, x, dims=dims * 2)
    assert_close(got, recurrence(a, x, 1, reverse=reverse))


def test_associative_scan_over_different_dimensions_of_integers():
    x = torch.randint(-9, 9, (4, 5), dtype=torch.int32)
    for lowering in LOWERINGS:
        got = evaluate(lambda x, how=lowering: F.associative_scan(F.minimum, x, 0, lowering=how), x)
        assert torch.equal(got, x.cummin(0).values)


# -- the selective scan ------------------------------------------------------------------------------------------------


def reference(u, delta, A, B, C, D=None, z=None, delta_bias=None, delta_softplus=False):
    """The published definition, one step at a time: for each channel d and each time l the state is a vector of n."""
    if delta_bias is not None:
        delta = delta + delta_bias[:, None]
    if delta_softplus:
        delta = TF.softplus(delta)
    batch, channels, length = u.shape
    state = torch.zeros(batch, channels, A.shape[1])
    y = torch.empty_like(u)
    for t in range(length):
        b, c = (at_time(x, t, batch, channels) for x in (B, C))
        state = torch.exp(delta[:, :, t, None] * A) * state + delta[:, :, t, None] * b * u[:, :, t, None]
        y[:, :, t] = (state * c).sum(-1)
    if D is not None:
        y = y + u * D[:, None]
    return (y if z is None else y * TF.silu(z)), state


def at_time(x, t, batch, channels):
    """(batch, channels, state) whatever the form of B or C."""
    if x.ndim == 2:
        return x.expand(batch, *x.shape)
    if x.ndim == 3:
        return x[:, None, :, t].expand(batch, channels, x.shape[1])
    return x[..., t].repeat_interleave(channels // x.shape[1], 1)


FORMS = {"fixed": lambda n, t: (6, n), "by time": lambda n, t: (2, n, t), "by group": lambda n, t: (2, 3, n, t)}


@pytest.mark.parametrize("lowering", SELECTIVE)
@pytest.mark.parametrize("form_b", FORMS)
@pytest.mark.parametrize("form_c", FORMS)
def test_selective_scan(lowering, form_b, form_c):
    length, state = 13, 4
    u, delta, z = torch.randn(3, 2, 6, length)
    values = {
        "u": u,
        "delta": 0.5 * delta,
        "A": -torch.rand(6, state),
        "B": torch.randn(FORMS[form_b](state, length)),
        "C": torch.randn(FORMS[form_c](state, length)),
        "D": torch.randn(6),
        "z": z,
        "delta_bias": torch.randn(6),
    }
    dims = [tuple(T if size == length else size for size in x.shape) for x in values.values()]

    def scan(*arguments):
        return F.selective_scan(*arguments, delta_softplus=True, return_last_state=True, lowering=lowering)

    y, last = evaluate(scan, *values.values(), dims=dims)
    expected, state = reference(**values, delta_softplus=True)
    assert_close(y, expected)
    assert_close(last, state)


@pytest.mark.parametrize("lowering", SELECTIVE)
def test_selective_scan_without_its_options(lowering):
    u, delta = torch.randn(1, 4, 5), torch.rand(1, 4, 5)
    A, B, C = -torch.rand(4, 3), torch.randn(1, 3, 5), torch.randn(1, 3, 5)
    got = evaluate(lambda *x: F.selective_scan(*x, lowering=lowering), u, delta, A, B, C)
    assert_close(got, reference(u, delta, A, B, C)[0])
    half = evaluate(lambda *x: F.selective_scan(*x, lowering=lowering), u.half(), delta, A, B, C)
    assert half.dtype == torch.float16


@pytest.mark.parametrize("lowering", SELECTIVE)
def test_engines_are_built(lowering):
    net = td.Network()
    n, t = td.Dim("N", min=1, opt=2, max=4), td.Dim("T", min=1, opt=16, max=40)
    u, delta = net.input("u", (n, 8, t)), net.input("delta", (n, 8, t))
    b, c = net.input("b", (n, 4, t)), net.input("c", (n, 4, t))
    a = net.constant(-torch.rand(8, 4))
    y, last = F.selective_scan(u, delta, a, b, c, delta_softplus=True, return_last_state=True, lowering=lowering)
    net.output(y, "y")
    net.output(last, "last")
    for way in LOWERINGS if lowering == "loop" else ():
        net.output(F.associative_scan(F.maximum, u, 2, lowering=way), f"running {way}")
    assert compile_engine(net).data


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("length", [1, 63, 64, 65, 150])
def test_chunks_of_any_length(length, dynamic):
    u, delta = torch.randn(2, 4, length), torch.rand(2, 4, length)
    A, B, C = -torch.rand(4, 3), torch.randn(2, 3, length), torch.randn(2, 3, length)
    values = (u, delta, A, B, C)
    dims = [tuple("T" if axis == 2 else size for axis, size in enumerate(x.shape)) for x in values] if dynamic else None

    def scan(*arguments):
        return F.selective_scan(*arguments, return_last_state=True, lowering="chunked" if not dynamic else "auto")

    y, last = evaluate(scan, *values, dims=dims)
    expected, state = reference(*values)
    assert_close(y, expected)
    assert_close(last, state)


@pytest.mark.parametrize("lowering", SELECTIVE)
def test_a_scan_is_exact_where_one_step_is_much_greater_than_those_after_it(lowering):
    """Sums of steps from the first one differ by less than their rounding there."""
    u, delta = torch.randn(1, 4, 64), torch.rand(1, 4, 64) * 0.02
    delta[:, :, 5] = 3000.0
    values = (u, delta, -torch.rand(4, 3) * 16, torch.randn(1, 3, 64), torch.randn(1, 3, 64))
    got = evaluate(lambda *x: F.selective_scan(*x, lowering=lowering), *values).double()
    exact, own = (reference(*(x.to(dtype) for x in values))[0].double() for dtype in (torch.float64, torch.float32))
    error, torchs = ((y - exact)[:, :, 6:].abs().max() for y in (got, own))
    assert error <= 4 * torchs


def test_short_scans_are_pairs_of_few_kernels_at_every_length():
    """Fewer bytes than the steps' states alone, which are written once and read once."""
    net = td.Network()
    t = td.Dim("T", min=1, opt=32, max=80)
    u, b = net.input("u", (1, 128, t)), net.input("b", (1, 16, t))
    net.output(F.selective_scan(u, F.sigmoid(u), net.constant(-torch.rand(128, 16)), b, b), "y")
    for length in (1, 32, 80):
        program = td.program(net, dims={"T": length})
        assert program.launch_count <= 4
        assert program.bytes < 2 * 4 * 128 * 16 * max(length, 8)


def test_pairs_of_a_long_scan_are_refused():
    net = td.Network()
    t = td.Dim("T", min=1, opt=32, max=100)
    u, b = net.input("u", (1, 1536, t)), net.input("b", (1, 16, t))
    a = net.constant(-torch.ones(1536, 16))
    with pytest.raises(
        td.UnsupportedError, match=r"'pairs' cannot express this: length \* length \* dim \* state may be"
    ):
        F.selective_scan(u, u, a, b, b, lowering="pairs")


@pytest.mark.parametrize(("longest", "loops"), [(1024, False), (1025, True)])
def test_long_lengths_are_computed_in_chunks(longest, loops):
    net = td.Network()
    t = td.Dim("T", min=1, opt=16, max=longest)
    u, b = net.input("u", (1, 8, t)), net.input("b", (1, 4, t))
    net.output(F.selective_scan(u, u, net.constant(-torch.rand(8, 4)), b, b), "y")
    assert ("RECURRENCE" in layer_types(net)) == loops


def test_refusals():
    net = td.Network()
    x = net.input("x", (2, "L"))
    with pytest.raises(td.UnsupportedError, match=r"no upper bound.*lowering='loop'"):
        F.linear_recurrence(x, x, 1)
    with pytest.raises(td.UnsupportedError, match="unknown lowering 'fast'; there are auto, parallel, loop"):
        F.linear_recurrence(x, x, 1, lowering="fast")
    w, b = net.input("w", (1, 8, 5)), net.input("projection", (1, 4, 5))
    with pytest.raises(
        td.UnsupportedError, match="unknown lowering 'fast'; there are auto, pairs, blocks, chunked, loop"
    ):
        F.selective_scan(w, w, net.constant(-torch.ones(8, 4)), b, b, lowering="fast")
    with pytest.raises(td.UnsupportedError, match="combine_mode"):
        F.associative_scan(F.maximum, x, 1, combine_mode="generic")
    with pytest.raises(td.ShapeError, match="sizes of dimension 1 differ"):
        F.associative_scan(lambda a, b: a, (x, net.input("other", (2, 3))), 1)
    with pytest.raises(td.ShapeError, match="must give what it takes"):
        F.associative_scan(lambda a, b: F.sum(a, 0), net.input("y", (2, 3)), 1)
    u = net.input("u", (1, 4, 5))
    b = net.input("b", (1, 3, 5))
    with pytest.raises(td.ShapeError, match=r"A of \(dim, state\)"):
        F.selective_scan(u, u, u, b, b)
    with pytest.raises(td.ShapeError, match="label 'd' is 4 in operand 0"):
        F.selective_scan(u, u, net.constant(torch.ones(5, 3)), b, b)
    with pytest.raises(td.ShapeError, match="elements; .* would have"):
        F.selective_scan(u, u, net.constant(torch.ones(4, 3)), net.input("g", (1, 3, 3, 5)), b)
