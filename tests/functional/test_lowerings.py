"""Every way that is registered for a function: its value, its errors, and what a version of TensorRT lacks."""

import inspect
from pathlib import Path

import pytest
import torch
import torch.nn.functional as TF

import trtdsl as td
import trtdsl.functional as F
from trtdsl.functional.lowerings import LOWERINGS

G = torch.Generator().manual_seed(0)


def rand(*shape):
    return torch.randn(shape, generator=G)


X, IMAGE, HEADS = rand(2, 4, 5), rand(2, 4, 6, 8), rand(2, 3, 6, 8)
TABLE, IDS = rand(20, 8), torch.tensor([[3, 0, 19], [7, 7, 1]])
SMALL = rand(2, 4, 2, 2)
KERNEL, MEAN, VAR, SLOPES = rand(5, 4, 3, 3), rand(5), rand(5).square() + 0.5, rand(4)
GRID = TF.affine_grid(torch.tensor([[[1.0, 0, 0], [0, 1, 0]]]), (1, 1, 6, 8), align_corners=False).expand(2, 6, 8, 2)


def decayed(a, b):
    state, out = torch.zeros(2, 4), []
    for t in range(a.shape[2]):
        state = a[:, :, t] * state + b[:, :, t]
        out.append(state)
    return torch.stack(out, 2)


def scanned(u, delta, a, b, c):
    state, out = torch.zeros(*u.shape[:2], a.shape[1]), []
    for t in range(u.shape[2]):
        step = delta[:, :, t, None]
        state = torch.exp(step * a) * state + step * b[:, None, :, t] * u[:, :, t, None]
        out.append((state * c[:, None, :, t]).sum(-1))
    return torch.stack(out, 2)


U, DELTA, A, B, C = rand(2, 3, 7), rand(2, 3, 7).abs(), -rand(3, 4).abs(), rand(2, 4, 7), rand(2, 4, 7)

GRAPH, WIDE, ADJACENCY = rand(2, 4, 6, 7), rand(48, 4, 1, 1), rand(3, 7, 7)


def spread(x, conv2d):
    return conv2d(x, WIDE).reshape(2, 3, 16, 6, 7)


# function -> (call, operands, torch's result)
CASES = {
    "amax": (
        lambda x, **how: F.amax(F.conv2d(x, KERNEL), (2, 3), **how),
        [IMAGE],
        TF.conv2d(IMAGE, KERNEL).amax((2, 3)),
    ),
    "associative_scan": (lambda x, **how: F.associative_scan(F.maximum, x, 2, **how), [X], X.cummax(2).values),
    "avg_pool": (lambda x, **how: F.avg_pool2d(x, (2, 2), **how), [SMALL], TF.avg_pool2d(SMALL, 2)),
    "batch_norm": (
        lambda x, **how: F.batch_norm(F.conv2d(x, KERNEL), MEAN, VAR, **how),
        [IMAGE],
        TF.batch_norm(TF.conv2d(IMAGE, KERNEL), MEAN, VAR),
    ),
    "einsum": (
        lambda x, **how: F.einsum("nkctv,kvw->nctw", spread(x, F.conv2d), ADJACENCY, **how),
        [GRAPH],
        torch.einsum("nkctv,kvw->nctw", spread(GRAPH, TF.conv2d), ADJACENCY),
    ),
    "grid_sample": (
        lambda x, **how: F.grid_sample(x, GRID, align_corners=False, **how),
        [IMAGE],
        TF.grid_sample(IMAGE, GRID, align_corners=False),
    ),
    "instance_norm": (
        lambda x, **how: F.instance_norm(x, weight=SLOPES, bias=MEAN[:4], **how),
        [IMAGE],
        TF.instance_norm(IMAGE, weight=SLOPES, bias=MEAN[:4]),
    ),
    "linear_recurrence": (
        lambda a, b, **how: F.linear_recurrence(a, b, 2, **how),
        [X.sigmoid(), X],
        decayed(X.sigmoid(), X),
    ),
    "max_pool": (lambda x, **how: F.max_pool2d(x, (2, 2), **how), [SMALL], TF.max_pool2d(SMALL, 2)),
    "group_norm": (
        lambda x, **how: F.group_norm(x, 2, SLOPES, MEAN[:4], **how),
        [IMAGE],
        TF.group_norm(IMAGE, 2, SLOPES, MEAN[:4]),
    ),
    "interpolate": (
        lambda x, **how: F.interpolate(x, scale_factor=2, mode="nearest", **how),
        [IMAGE],
        TF.interpolate(IMAGE, scale_factor=2, mode="nearest"),
    ),
    "mean": (
        lambda x, **how: F.mean(F.conv2d(x, KERNEL), (2, 3), True, **how),
        [IMAGE],
        TF.conv2d(IMAGE, KERNEL).mean((2, 3), True),
    ),
    "prelu": (lambda x, **how: F.prelu(x, SLOPES, **how), [X], TF.prelu(X, SLOPES)),
    "scaled_dot_product_attention": (
        lambda q, **how: F.scaled_dot_product_attention(q, q, q, is_causal=True, **how),
        [HEADS],
        TF.scaled_dot_product_attention(HEADS, HEADS, HEADS, is_causal=True),
    ),
    "silu": (F.silu, [X], TF.silu(X)),
    "selective_scan": (F.selective_scan, [U, DELTA, A, B, C], scanned(U, DELTA, A, B, C)),
}
WAYS = [(function, way) for function, ways in LOWERINGS.items() for way in ways]


def defined(function, lowering):
    call, operands, _ = CASES[function]
    net = td.Network()
    inputs = [net.input(f"x{k}", tuple(operand.shape), operand.dtype) for k, operand in enumerate(operands)]
    with net.current():
        net.output(call(*inputs, lowering=lowering), "y")
    assert net.definition.num_outputs == 1
    return net, {f"x{k}": operand for k, operand in enumerate(operands)}


@pytest.mark.parametrize(("function", "way"), WAYS)
def test_each_way_gives_torchs_values(function, way):
    net, feeds = defined(function, way)
    torch.testing.assert_close(td.interpret(net, feeds)["y"], CASES[function][2], rtol=1e-4, atol=1e-5)
    site = next(site for site in net.choices.sites if site.key.function == function)
    assert site.lowering == way and site.given


@pytest.mark.parametrize("function", LOWERINGS)
def test_an_unknown_way_is_refused_with_those_that_there_are(function):
    with pytest.raises(td.UnsupportedError) as caught:
        defined(function, "fast")
    assert f"{function}: unknown lowering 'fast'; there are auto, {', '.join(LOWERINGS[function])}" in str(caught.value)
    assert Path(__file__).name in str(caught.value)


@pytest.mark.parametrize("function", LOWERINGS)
def test_auto_takes_a_way_that_is_registered(function):
    net, _ = defined(function, "auto")
    site = next(site for site in net.choices.sites if site.key.function == function)
    assert site.lowering == site.ways[0] and site.lowering in LOWERINGS[function] and not site.given


def test_each_function_that_takes_a_lowering_has_ways():
    functions = {name: getattr(F, name) for name in dir(F) if inspect.isfunction(getattr(F, name))}
    taking = {name for name, function in functions.items() if "lowering" in inspect.signature(function).parameters}
    rows = {"einops_einsum": "einsum", "amin": "amax", "upsample": "interpolate"} | {
        f"{kind}_pool{ndim}d": f"{kind}_pool" for kind in ("avg", "max") for ndim in (1, 2, 3)
    }
    assert {rows.get(name, name) for name in taking} == set(LOWERINGS)


def test_a_way_that_cannot_express_a_call_is_refused_with_the_reason():
    net = td.Network()
    x, grid, one = net.input("x", (2, 4, 6, 8)), net.input("g", (2, 3, 3, 2)), net.constant(torch.ones(4))
    with pytest.raises(td.UnsupportedError, match="'resize' cannot express this: the grid is not known.*use 'taps'"):
        F.grid_sample(x, grid, lowering="resize")
    with pytest.raises(td.UnsupportedError, match="'folded' cannot express this: no convolution.*use 'scale'"):
        F.batch_norm(x, one, one, lowering="folded")


def test_a_layer_that_the_version_lacks_is_noted_and_another_way_taken(monkeypatch):
    net = td.Network()
    monkeypatch.delattr(net.trt.INetworkDefinition, "add_attention_v2")
    for lowering in ("auto", "layer", "products"):
        q = net.input(lowering, (2, 3, 6, 8))
        net.output(F.scaled_dot_product_attention(q, q, q, is_causal=True, lowering=lowering), f"y_{lowering}")
    summary = td.summarize(net)
    assert "ATTENTION_INPUT" not in {layer.type for layer in summary.layers}
    assert len(summary.fallbacks) == 2
    for text in summary.fallbacks:
        assert "is lowered as 'products' instead of 'layer'" in text and "has no attention layer" in text
        assert f"{Path(__file__).name}:" in text
    assert summary.to_json()["fallbacks"] == summary.fallbacks
    assert "has no attention layer" in str(summary)
