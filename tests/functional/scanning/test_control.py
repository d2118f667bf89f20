"""Branches and loops against plain Python."""

from __future__ import annotations

import pytest
import torch
from support import assert_close, layer_types

import trtdsl as td
import trtdsl.functional as F
from trtdsl.engine.compiling.compiler import compile_engine


def run(function, *feeds, shapes=None):
    """The outputs of ``function`` of inputs like ``feeds``, and the network."""
    net = td.Network()
    shapes = shapes or [feed.shape for feed in feeds]
    inputs = [net.input(f"x{k}", shape, feed.dtype) for k, (shape, feed) in enumerate(zip(shapes, feeds, strict=True))]
    results = function(*inputs)
    results = results if isinstance(results, tuple) else (results,)
    for k, result in enumerate(results):
        net.output(result, f"y{k}")
    got = td.interpret(net, {f"x{k}": feed for k, feed in enumerate(feeds)})
    return [got[f"y{k}"] for k in range(len(results))], net


X = torch.tensor([[1.0, -2.0, 3.0], [0.5, 4.0, -1.0]])


@pytest.mark.parametrize("sign", [1, -1])
def test_cond(sign):
    def network(x):
        weight = x.network.constant(torch.full((3,), 10.0))
        return td.cond(x.sum() > 0, lambda x: x * weight, lambda x: -x, (x,))

    (got,), net = run(network, sign * X, shapes=[("N", 3)])
    assert_close(got, X * 10 if sign > 0 else X)
    assert {"CONDITION", "CONDITIONAL_INPUT", "CONDITIONAL_OUTPUT"} <= set(layer_types(net))
    assert str(net.outputs["y0"].shape) == "(N, 3)"


@pytest.mark.parametrize("sign", [1, -1])
def test_cond_with_several_results_and_branches_that_do_nothing(sign):
    def network(x):
        found = td.cond(
            (x.sum() > 0).reshape(1),
            lambda x: {"a": x, "b": (x.network.constant(1.0), x + 1)},
            lambda x: {"a": x.relu(), "b": (x.sum(), x)},
            (x,),
        )
        return found["a"], *found["b"]

    (a, b, c), _ = run(network, sign * X)
    x = sign * X
    assert_close(a, x if sign > 0 else x.relu())
    assert_close(b, torch.tensor(1.0) if sign > 0 else x.sum())
    assert_close(c, x + 1 if sign > 0 else x)


def test_cond_that_is_known_when_the_network_is_written():
    (got,), net = run(lambda x: td.cond(True, lambda x: x + 1, lambda x: x - 1, (x,)), X)
    assert_close(got, X + 1)
    assert "CONDITION" not in layer_types(net)


def test_cond_with_branches_that_do_not_agree():
    x = td.Network().input("x", (3,))
    with pytest.raises(td.DefinitionError, match="the branches give"):
        td.cond(x.sum() > 0, lambda x: x, lambda x: (x, x), (x,))
    with pytest.raises(td.DefinitionError, match="pred must be one bool"):
        td.cond(x > 0, lambda x: x, lambda x: x, (x,))
    with pytest.raises(td.ShapeError, match="ranks and dtypes must match"):
        td.cond(x.sum() > 0, lambda x: x + 1, lambda x: x.sum(), (x,))


def test_while_loop():
    def network(x):
        return td.while_loop(lambda i, x: (x.sum() < 100) & (i < 20), lambda i, x: (i + 1, x * 2), (0, x))

    (steps, got), net = run(network, X.abs())
    x, i = X.abs(), 0
    while x.sum() < 100:
        i, x = i + 1, x * 2
    assert steps.item() == i
    assert_close(got, x)
    assert "TRIP_LIMIT" in layer_types(net)
    (steps, got), _ = run(network, X.abs() * 1000)
    assert steps.item() == 0
    assert_close(got, X.abs() * 1000)


def test_while_loop_keeps_and_swaps_values():
    def network(a, b):
        return td.while_loop(lambda i, a, b, c: i < 3, lambda i, a, b, c: (i + 1, b, a, c), (0, a, b, a))

    (i, a, b, c), _ = run(network, X, X + 1)
    assert i.item() == 3
    assert_close(a, X + 1)
    assert_close(b, X)
    assert_close(c, X)


def test_while_loop_with_values_that_change_their_shape():
    x = td.Network().input("x", (3,))
    with pytest.raises(td.DefinitionError, match="shape and dtype must stay"):
        td.while_loop(lambda x: x.sum() < 3, lambda x: (x.sum(),), (x,))
    with pytest.raises(td.DefinitionError, match="1 values are carried, but 2 follow"):
        td.while_loop(lambda x: x.sum() < 3, lambda x: (x, x), (x,))


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("dim", [0, 1])
def test_scan(reverse, dim):
    """A recurrence h = tanh(h @ w + x), all h and the last."""
    weight = torch.linspace(-1, 1, 9).reshape(3, 3)
    x = torch.randn(5, 3, generator=torch.Generator().manual_seed(0))
    x = x if dim == 0 else x.T.contiguous()

    def network(x):
        w = x.network.constant(weight)

        def step(h, x):
            h = F.tanh(h @ w + x)
            return h, h

        return td.scan(step, x.network.constant(torch.zeros(3)), x, dim=dim, reverse=reverse)

    (last, every), net = run(network, x, shapes=[("T", 3) if dim == 0 else (3, "T")])
    h, expected = torch.zeros(3), []
    for k in reversed(range(5)) if reverse else range(5):
        h = torch.tanh(h @ weight + x.select(dim, k))
        expected.append(h)
    assert_close(last, h)
    assert_close(every, torch.stack(expected[::-1] if reverse else expected))
    assert str(net.outputs["y1"].shape) == "(T, 3)"


@pytest.mark.parametrize("precision", [None, "fp16", "bf16"])
def test_what_a_precision_computes_low_is_carried_as_it_began(precision):
    """A cell's state begins in float32, and the cell gives it in half."""

    class Cells(torch.nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(0)
            self.cell = torch.nn.GRUCell(4, 4)

        def forward(self, x):
            h, found = x.new_zeros(x.shape[0], 4), []
            for t in range(x.shape[1]):
                h = self.cell(x[:, t], h)
                found.append(h)
            return torch.stack(found, 1)

    spec = td.from_module(Cells().eval(), inputs={"x": "N,T,4"}, dims={"N": (1, 2, 3), "T": (1, 4, 9)})
    assert td.check(spec, precision=precision, sizes="quick").passed


def test_scan_over_several_tensors():
    a, b = torch.rand(4, 3), torch.rand(4, 3)

    def network(a, b):
        def step(carry, x):
            total, count = carry
            total = total * x["a"] + x["b"]
            return (total, count + 1), {"total": total, "twice": total * 2}

        (total, count), every = td.scan(step, (a[0] * 0, 0), {"a": a, "b": b})
        return total, count, every["total"], every["twice"]

    (total, count, every, twice), _ = run(network, a, b)
    h, expected = torch.zeros(3), []
    for k in range(4):
        h = h * a[k] + b[k]
        expected.append(h)
    assert_close(total, h)
    assert count.item() == 4
    assert_close(every, torch.stack(expected))
    assert_close(twice, 2 * torch.stack(expected))


def test_scan_with_sizes_that_differ():
    net = td.Network()
    a, b = net.input("a", (4, 3)), net.input("b", (5, 3))
    with pytest.raises(td.ShapeError, match="has the sizes"):
        td.scan(lambda carry, x: (carry, x[0]), a[0], (a, b))


def test_scan_without_results_of_each_step():
    (total,), _ = run(lambda x: td.scan(lambda carry, row: (carry + row, None), x[0] * 0, x)[0], X)
    assert_close(total, X.sum(0))


def test_complex_values_go_through_branches_and_loops():
    def network(x):
        z = F.view_as_complex(x)
        z = td.cond(x.sum() > 0, lambda z: z * 1j, lambda z: z, (z,))
        last, products = td.scan(lambda carry, row: (carry * row, carry + row), z[0], z[1:])
        return F.view_as_real(last), F.view_as_real(products)

    x = torch.linspace(0.5, 2.0, 16).reshape(4, 2, 2)
    (last, products), _ = run(network, x)
    z = torch.view_as_complex(x) * 1j
    assert_close(last, torch.view_as_real(z.prod(0)))
    states = torch.stack([z[:1].prod(0), z[:2].prod(0), z[:3].prod(0)])
    assert_close(products, torch.view_as_real(states + z[1:]))


def looped(function, x):
    return td.while_loop(lambda i, x: i < 2, lambda i, x: (i + 1, function(x)), (0, x))[1]


OUTSIDE = {
    "in a loop": lambda end, y: looped(lambda y: y + end, y),
    "twice in a loop": lambda end, y: looped(lambda y: y * end - end, y),
    "in a branch": lambda end, y: td.cond(y.sum() > 0, lambda y: y * 0.5, lambda y: end - y, (y,)),
    "in a scan": lambda end, y: td.scan(lambda carry, row: (carry + end[0], carry * row), y[0], y)[1],
    "in a branch in a loop": lambda end, y: looped(
        lambda y: td.cond(y.sum() > 0, lambda y: y - end, lambda y: y + end, (y,)), y
    ),
    "as its start": lambda end, y: looped(lambda x: x + y, end),
}
EXPECTED = {
    "in a loop": lambda end, y: y + end + end,
    "twice in a loop": lambda end, y: (y * end - end) * end - end,
    "in a branch": lambda end, y: y * 0.5 if y.sum() > 0 else end - y,
    "in a scan": lambda end, y: torch.stack([y[0] * y[0], (y[0] + end[0]) * y[1]]),
    "in a branch in a loop": lambda end, y: (
        z - end if (z := y - end if y.sum() > 0 else y + end).sum() > 0 else z + end
    ),
    "as its start": lambda end, y: end + y + y,
}


def branched(x):
    return td.cond(x.sum() > 0, F.tanh, F.relu, (x,))


@pytest.mark.parametrize("use", OUTSIDE)
@pytest.mark.parametrize(
    ("before", "end"), [(lambda x: looped(F.tanh, x), X.tanh().tanh()), (branched, X.tanh())], ids=["loop", "branch"]
)
def test_the_result_of_a_loop_or_a_branch_in_another_one(use, before, end):
    """TensorRT builds such a network only where a layer lies between them."""
    got, net = run(lambda x, y: OUTSIDE[use](before(x), y), X, X.flip(1))
    assert_close(got[0], EXPECTED[use](end, X.flip(1)))
    assert compile_engine(net).data
    assert layer_types(net).count("IDENTITY") == (use != "as its start")


def attended(use, x, **options):
    """Attention in a loop or a branch; in the branch also over what the branch takes in from the outside."""

    def attend(h):
        keys = F.relu(h)
        return F.tanh(F.scaled_dot_product_attention(F.sigmoid(h), keys, keys, **options))

    if use == "loop":
        return td.while_loop(lambda i, _: i < 2, lambda i, h: (i + 1, attend(h)), (0, x))[1]
    if use == "scan":
        return td.scan(lambda h, row: (attend(h + row), None), x * 0, x)[0]
    return td.cond(x.mean() < 10, attend, F.relu, (x,))


@pytest.mark.parametrize("use", ["loop", "scan", "branch"])
@pytest.mark.parametrize(("dtype", "causal"), [("float32", False), ("float32", True), ("float16", True)])
def test_attention_in_a_body_builds(use, dtype, causal):
    """TensorRT-RTX 1.7 builds no IAttention there, but in half precision without a mask."""
    x = torch.randn(2, 3, 4, 8, generator=torch.Generator().manual_seed(0)).to(getattr(torch, dtype))
    (got,), net = run(lambda x: attended(use, x, is_causal=causal), x)
    assert compile_engine(net).data

    def attend(h):
        keys = h.relu()
        return torch.nn.functional.scaled_dot_product_attention(h.sigmoid(), keys, keys, is_causal=causal).tanh()

    want = x.double()
    if use == "scan":
        want = attend(attend(0 * want + want[0]) + want[1])
    else:
        want = attend(attend(want)) if use == "loop" else attend(want)
    assert_close(got, want.to(x.dtype), 4e-3 if dtype == "float16" else 1e-5)


def loops(x):
    """Two loops."""
    return looped(F.tanh, looped(F.sigmoid, x))


AMONG = {
    "before": lambda attend, x: loops(attend(x)),
    "beside": lambda attend, x: (attend(x), loops(x)),
    "with a branch": lambda attend, x: (attend(x), branched(looped(F.tanh, x))),
    "between": lambda attend, x: looped(F.tanh, attend(looped(F.sigmoid, x))),
    "after": lambda attend, x: attend(loops(x)),
}


@pytest.mark.parametrize("place", AMONG)
def test_attention_among_loops_or_branches_is_products(place):
    """TensorRT-RTX 1.7 ends the process where it builds IAttention in front of two loops, or beside them,
    or beside a loop and a branch."""

    def attend(x):
        return F.scaled_dot_product_attention(x, x, x)

    @td.network(inputs={"x": td.Input((2, 4, 8, 8))})
    def among(x):
        return AMONG[place](attend, x)

    net = among.define()
    assert "ATTENTION_INPUT" not in layer_types(net)
    assert [site.lowering for site in net.choices.sites] == ["products"]
    assert compile_engine(net).data


def test_a_network_whose_loops_came_after_an_attention_is_not_built():
    """What was emitted is not changed; the builder would end the process."""
    net = td.Network()
    x = net.input("x", (2, 4, 8, 8))
    y = F.scaled_dot_product_attention(x, x, x)
    assert y.trt.name
    net.output(loops(y), "y")
    with pytest.raises(
        td.BuildError, match=r"test_control\.py:\d+: .* with 2 loops and branches, .* lowering='products'"
    ):
        compile_engine(net)
    net = td.Network()
    x = net.input("x", (2, 4, 8, 8))
    net.output(loops(F.scaled_dot_product_attention(x, x, x)), "y")
    assert compile_engine(net).data


def test_attention_before_one_scan_is_products():
    """The builder ends the process where a scan over all rows follows IAttention, though it is the only region."""
    n, t = td.Dim("N", min=1, opt=2, max=4), td.Dim("T", min=2, opt=4, max=6)

    @td.network(inputs={"x": td.Input((n, t, 32))})
    def one(x):
        heads = x.view((x.shape[0], x.shape[1], 2, 16)).transpose(1, 2)
        rows = F.scaled_dot_product_attention(heads, heads, heads).transpose(1, 2).reshape(x.shape)
        _, sums = td.scan(lambda carry, row: (carry * 0.5 + row, carry * 0.5 + row), rows[:, 0], rows, dim=1)
        return sums

    net = one.define()
    assert [site.lowering for site in net.choices.sites] == ["products"]
    assert compile_engine(net).data


def test_attention_before_a_recurrent_net_of_two_layers_builds():
    torch.manual_seed(0)
    module = torch.nn.LSTM(8, 8, 2, batch_first=True)

    class Reference(torch.nn.Module):
        def forward(self, x):
            return module(torch.nn.functional.scaled_dot_product_attention(x, x, x))[0]

    @td.network(inputs={"x": td.Input((2, 6, 8))}, reference=Reference)
    def encoder(x):
        start = x.network.constant(torch.zeros(2, 2, 8))
        weights = [x.network.constant(weight.detach()) for weight in module._flat_weights]
        x = F.scaled_dot_product_attention(x, x, x)
        return F.lstm(x, (start, start), weights, True, 2, 0.0, False, False, True)[0]

    assert td.check(encoder).passed
    assert compile_engine(encoder.define()).data


def test_a_branch_on_a_size_gives_sizes_that_are_known():
    """Both sides at every size; what follows needs the joined size."""

    @td.network(inputs={"x": td.Input((2, td.Dim("T", min=3, opt=9, max=12)))})
    def short(x):
        longer = td.cond(x.shape[1] < 7, lambda x: F.pad(x, (0, 7 - x.shape[1])), lambda x: x, (x,))
        halved = td.cond(x.shape[1] % 2 == 1, lambda x: F.pad(x, (0, 1)), lambda x: x, (x,))
        assert str(longer.shape) == "(2, max(7, T))"
        return {"longer": F.max_pool1d(longer, 7, 1), "halved": halved.reshape(2, -1, 2)}

    network = short.define()
    network.check_sizes()
    for size in range(3, 13):
        x = torch.randn(2, size)
        got = td.interpret(network, {"x": x})
        pad = torch.nn.functional.pad
        assert torch.equal(got["longer"], torch.nn.functional.max_pool1d(pad(x, (0, max(7 - size, 0))), 7, 1))
        assert torch.equal(got["halved"], pad(x, (0, size % 2)).reshape(2, -1, 2))
    assert td.cond(True, lambda: 1, lambda: 2) == 1
