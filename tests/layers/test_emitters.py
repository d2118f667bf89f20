"""The functions that add layers: every argument reaches the layer, dynamic sizes are known by name, constants fold."""

import math
import sys

import numpy as np
import pytest
import torch
from cases import compare

import trtdsl as td
import trtdsl.layers as L
from trtdsl.core.errors import DefinitionError, ShapeError, UnsupportedError

i32 = torch.int32


def signed(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def check(function, feeds, *expected, dynamic=False, types=(), tolerance=1e-5):
    """The layers of ``function(network, *tensors)`` are of ``types`` and give what is expected, with inferred sizes."""
    net = td.Network()
    inputs = []
    for index, feed in enumerate(feeds):
        shape = [f"x{index}_{axis}" for axis in range(feed.ndim)] if dynamic else feed.shape
        inputs.append(net.input(f"x{index}", shape, feed.dtype))
    with net.current():
        results = function(net, *inputs)
    results = results if isinstance(results, tuple) else (results,)
    names = [tensor.name for tensor in results]
    for index, tensor in enumerate(results):
        net.output(L.identity(tensor), f"y{index}")
    interpreter = td.Interpreter(net)
    if types:
        assert {node.type for node in interpreter.nodes} - {"IDENTITY", "CONSTANT"} == set(types)
    values = interpreter({f"x{index}": feed for index, feed in enumerate(feeds)}, keep=[n for n in names if n])
    env = {f"x{index}_{axis}": size for index, feed in enumerate(feeds) for axis, size in enumerate(feed.shape)}
    for index, (tensor, want) in enumerate(zip(results, expected, strict=True)):
        compare(values[f"y{index}"], want, tolerance)
        for size, have in zip(tensor.shape, values[f"y{index}"].shape, strict=True):
            if isinstance(size, int) or all(str(atom) in env for atom in size.atoms()):
                assert (size if isinstance(size, int) else size.value(env)) == have


X = signed(2, 3, 4)


def test_top_k_and_its_kin():
    values, indices = torch.sort(X, dim=2, stable=True)
    check(lambda n, x: L.topk(x, 2, -1, "MIN", "int64"), [X], values[..., :2], indices[..., :2], types=["TOPK"])
    k = torch.tensor(3, dtype=i32)
    values, indices = torch.sort(X, dim=1, descending=True)
    check(lambda n, x, k: L.topk(x, k, 1), [X, k], values, indices.int())
    check(
        lambda n, x: L.topk(x, x.shape[0], 2),
        [X],
        *(t.to(d) for t, d in zip(torch.topk(X, 2), (torch.float32, i32), strict=True)),
        dynamic=True,
    )
    with pytest.raises(ShapeError, match="k = 5 is more than the 4 elements"):
        check(lambda n, x: L.topk(x, 5, 2), [X])
    with pytest.raises(ShapeError, match="between 1 and 3840"):
        check(lambda n, x: L.topk(x, 0, 2), [X])
    check(lambda n, x: L.non_zero(x, "int64"), [(X > 0)], np.stack(np.nonzero(X.numpy() > 0)), types=["NON_ZERO"])


def test_scatter_and_one_hot():
    index, updates = torch.tensor([[[1, 0, 2, 1]], [[0, 0, 1, 2]]]), signed(2, 1, 4, seed=1)
    want = X.numpy().copy()
    np.put_along_axis(want, index.numpy(), updates.numpy(), 1)
    check(lambda n, x, i, u: L.scatter(x, i, u, "ELEMENT", -2), [X, index, updates], want, types=["SCATTER"])
    rows = torch.tensor([[1], [0]])
    check(lambda n, x, i, u: L.scatter(x, i, u, "ND"), [X, rows, X], X.flip(0))
    with pytest.raises(ShapeError, match="must have one rank"):
        check(lambda n, x, i, u: L.scatter(x, i, u), [X, rows, X])
    labels = torch.tensor([2, 0], dtype=i32)
    check(lambda n, i: L.one_hot(i, n.constant([-1.0, 2.0]), 3, 0), [labels], [[-1.0, 2.0], [-1.0, -1.0], [2.0, -1.0]])


@pytest.mark.parametrize("add", ["gather", "scatter"])
def test_indices_of_an_unknown_number_of_dimensions_are_refused(add):
    """TensorRT cannot build these: it does not know what a row of the indices stands for."""
    net = td.Network()
    x, i = net.input("x", (3, 4)), net.input("i", (2, td.Dim("K", min=1, opt=1, max=2)), "int32")
    with pytest.raises(ShapeError, match="the last dimension of the indices must be static"):
        L.gather(x, i, mode="ND") if add == "gather" else L.scatter(x, i, net.input("u", (2, 4)), "ND")


def test_normalizations():
    x = signed(2, 4, 3, 2)
    scale, bias = signed(1, 4, 1, 1, seed=1), signed(1, 4, 1, 1, seed=2)
    want = torch.nn.functional.group_norm(x, 2, scale.flatten(), bias.flatten(), 0.1)
    check(lambda n, x: L.normalization(x, n.constant(scale), n.constant(bias), [2, 3], 0.1, 2), [x], want)
    group = scale[:, :2]
    want = torch.nn.functional.group_norm(x, 2, group.flatten().repeat_interleave(2), None, 1e-5)
    zero = torch.zeros(1, 2, 1, 1)
    check(lambda n, x: L.normalization(x, n.constant(group), n.constant(zero), [2, 3], groups=2, version=1), [x], want)
    with pytest.raises(DefinitionError, match="versions 1 and 2, not 3"):
        check(lambda n, x: L.normalization(x, n.constant(scale), n.constant(bias), [2, 3], version=3), [x])
    want = torch.nn.functional.local_response_norm(x, 3, 0.5, 0.6, 2.0)
    check(lambda n, x: L.lrn(x, 3, 0.5, 0.6, 2.0), [x], want, types=["LRN"])


def test_running_sums_and_reversed_sequences():
    want = torch.flip(torch.cumsum(torch.flip(X, [1]), 1), [1]) - X
    check(lambda n, x: L.cumulative(x, -2, exclusive=True, reverse=True), [X], want, dynamic=True)
    lengths = torch.tensor([1, 3])
    want = X.clone()
    want[1] = X[1].flip(0)
    check(lambda n, x, m: L.reverse_sequence(x, m, 0, 1), [X, lengths], want, dynamic=True)
    with pytest.raises(ShapeError, match="must be two dimensions"):
        check(lambda n, x, m: L.reverse_sequence(x, m, 1, 1), [X, lengths])


@pytest.mark.parametrize("equation", ["ad,abd->b", "da,dba", "dca,dba->cb"])
def test_an_einsum_that_the_builder_gets_wrong_is_refused(equation, monkeypatch):
    sizes = {"a": 2, "b": 4, "c": 5, "d": 3}
    x, y = (torch.randn([sizes[label] for label in term]) for term in equation.partition("-")[0].split(","))
    with pytest.raises(UnsupportedError, match="sums the wrong products"):
        check(lambda n, x, y: L.einsum(equation, x, y), [x, y], None)
    net, feeds = td.Network(), {"x": x, "y": y}
    with net.current(), monkeypatch.context() as patch:
        patch.setattr(sys.modules["trtdsl.layers.matrix_multiply"], "_are_apart", lambda inputs, output: False)
        net.output(L.einsum(equation, net.input("x", x.shape), net.input("y", y.shape)), "z")
    got, want = td.evaluate_engine(net, feeds)["z"], torch.einsum(equation, x, y)
    assert float((got - want).abs().max()) > 1e-3  # where this fails, the builder is mended
    with pytest.raises(UnsupportedError, match="sums the wrong products"):
        td.interpret(net, feeds)


@pytest.mark.parametrize(
    "equation", ["da,abd->b", "abd,ad->b", "ad,abfd->bf", "nad,nabd->nb", "ade,adbe->b", "ad,adb->b"]
)
def test_the_builder_gets_its_neighbours_right(equation):
    sizes = {"a": 2, "b": 4, "d": 3, "e": 2, "f": 2, "n": 3}
    x, y = (torch.randn([sizes[label] for label in term]) for term in equation.partition("-")[0].split(","))
    net = td.Network()
    with net.current():
        net.output(L.einsum(equation, net.input("x", x.shape), net.input("y", y.shape)), "z")
    torch.testing.assert_close(td.evaluate_engine(net, {"x": x, "y": y})["z"], torch.einsum(equation, x, y))


def test_einsum_knows_dynamic_sizes():
    other = signed(4, 5, seed=1)
    check(lambda n, x, y: L.einsum("bij,jk->kbi", x, y), [X, other], (X @ other).permute(2, 0, 1), dynamic=True)
    check(lambda n, x: L.einsum("b...j->...b", x), [X], X.sum(2).T)
    with pytest.raises(ShapeError, match="has 2 operands, not 1"):
        check(lambda n, x: L.einsum("ij,jk", x), [X])
    with pytest.raises(ShapeError, match="does not fit an operand of 3 dimensions"):
        check(lambda n, x: L.einsum("ij->ji", x), [X])


def test_padding_and_parametric_relu():
    x = signed(1, 2, 3, 4)
    check(lambda n, x: L.padding(x, (1, -1), (0, 2)), [x], torch.nn.functional.pad(x, (-1, 2, 1, 0)), types=["PADDING"])
    slope = signed(1, 2, 1, 1, seed=1)
    want = torch.where(x >= 0, x, slope * x)
    check(lambda n, x: L.parametric_relu(x, n.constant(slope)), [x], want, types=["PARAMETRIC_RELU"])


def test_quantization_is_not_folded_away():
    x = torch.tensor([[0.3, -0.8], [1.6, 900.0]])
    want = torch.tensor([[1, -2], [3, 127]], dtype=torch.int8)
    scale = torch.tensor([0.4, 0.5])

    def there(n, x):
        return L.quantize(x, n.constant(scale), "int8", axis=0)

    check(there, [x], want, types=["QUANTIZE"])
    back = want.float() * scale[:, None]
    check(lambda n, x: L.dequantize(there(n, x), n.constant(scale), "float32", 0), [x], back)
    check(
        lambda n, z: L.dequantize(there(n, n.constant(x)), n.constant(scale), axis=0),
        [torch.zeros(1)],
        back,
        types=["QUANTIZE", "DEQUANTIZE"],
    )
    with pytest.raises(ShapeError, match="needs axis="):
        check(lambda n, x: L.quantize(x, n.constant(scale)), [x])
    rows = torch.tensor([[4.0, 448.0, 0.0, 1.0]])
    check(lambda n, x: L.dynamic_quantize(x, (1, -1), "float8_e4m3fn", "float32"), [rows], rows, [[1.0]], tolerance=0.0)


def test_ragged_softmax():
    x, bounds = signed(1, 2, 3), torch.tensor([[[1], [2]]], dtype=i32)
    want = torch.zeros(1, 2, 3)
    want[0, 0, 0] = 1
    want[0, 1, :2] = torch.softmax(x[0, 1, :2], 0)
    check(L_ragged, [x, bounds], want, types=["RAGGED_SOFTMAX"])


def L_ragged(n, x, bounds):
    return L.ragged_softmax(x, bounds)


def test_attention_takes_all_its_arguments():
    q, k, v = signed(2, 4, 3, 8), signed(2, 2, 5, 8, seed=1), signed(2, 2, 5, 8, seed=2)
    sdpa = torch.nn.functional.scaled_dot_product_attention

    def plain(mask=None, **more):
        return sdpa(q, k, v, mask, scale=1.0, enable_gqa=True, **more)

    check(lambda n, *x: L.attention(*x), [q, k, v], plain(), types=["ATTENTION_INPUT", "ATTENTION_OUTPUT"])
    mask = signed(2, 1, 3, 5, seed=3)
    check(lambda n, *x: L.attention(*x), [q, k, v, mask], plain(mask))
    check(lambda n, *x: L.attention(*x), [q, k, v, mask > 0], plain(mask > 0), tolerance=1e-4)
    check(lambda n, *x: L.attention(*x, causal="UPPER_LEFT"), [q, k, v], plain(is_causal=True))
    lower = torch.ones(3, 5, dtype=torch.bool).tril(2)
    check(lambda n, *x: L.attention(*x, causal="LOWER_RIGHT"), [q, k, v], plain(lower))
    with pytest.raises(UnsupportedError, match="write the two products"):
        check(lambda n, *x: L.attention(*x, normalization="NONE"), [q, k, v])
    lengths = torch.tensor([4, 2], dtype=i32)
    short = (torch.arange(5) < lengths[:, None])[:, None, None].expand(2, 1, 3, 5)
    check(lambda n, q, k, v, m: L.attention(q, k, v, key_value_lengths=m), [q, k, v, lengths], plain(short))

    def quantized(n, *x):
        return L.attention(*x, quantize_scale=n.constant(1 / 127), quantize_dtype="int8")

    check(quantized, [q, k, v], plain(), tolerance=3e-2)
    ends_q, ends_k = torch.tensor([0, 1, 3], dtype=i32), torch.tensor([0, 2, 5], dtype=i32)
    packed = [q[0].transpose(0, 1).contiguous(), *(t[0].transpose(0, 1).contiguous() for t in (k, v))]

    def of(a, b, c, d):
        return sdpa(q[:1, :, a:b], k[:1, :, c:d], v[:1, :, c:d], scale=1.0, enable_gqa=True)[0].transpose(0, 1)

    want = torch.cat((of(0, 1, 0, 2), of(1, 3, 2, 5)))
    check(
        lambda n, q, k, v, a, b: L.attention(q, k, v, query_lengths=a, key_value_lengths=b),
        [*packed, ends_q, ends_k],
        want,
    )
    with pytest.raises(UnsupportedError, match="together"):
        check(lambda n, *x: L.attention(*x, quantize_dtype="int8"), [q, k, v])
    with pytest.raises(UnsupportedError, match="unknown causal mask 'DIAGONAL'"):
        check(lambda n, *x: L.attention(*x, causal="DIAGONAL"), [q, k, v])


@pytest.mark.parametrize(("heads", "groups"), [(4, "G"), ("H", "G"), ("2G", "G")])
def test_attention_with_an_unknown_number_of_query_heads_for_a_key_is_refused(heads, groups):
    """TensorRT cannot build these: it asks whether this is MHA, MQA or GQA."""
    net = td.Network()
    size = td.Dim("G", min=1, opt=2, max=4)
    sizes = {"G": size, "2G": 2 * size, "H": td.Dim("H", min=1, opt=2, max=4), 4: 4}
    q, k = net.input("q", (1, sizes[heads], 5, 8)), net.input("k", (1, sizes[groups], 7, 8))
    with pytest.raises(td.UnsupportedError, match="query heads share G key heads"):
        L.attention(q, k, k)
    assert L.attention(k, k, k).shape == k.shape


def test_rotary_embedding_and_cache():
    x, angle = signed(1, 2, 3, 6), signed(4, 2, seed=1)
    positions = torch.tensor([[3, 0, 1]])
    c, s = angle.cos()[positions][:, None], angle.sin()[positions][:, None]
    a, b = x[..., 0:4:2], x[..., 1:4:2]
    want = torch.cat((torch.stack((a * c - b * s, a * s + b * c), -1).flatten(-2), x[..., 4:]), -1)
    feeds = [x, angle.cos(), angle.sin(), positions]
    check(lambda n, *t: L.rotary_embedding(*t, interleaved=True, rotary_dim=4), feeds, want, types=["ROTARY_EMBEDDING"])
    cache, update, at = signed(2, 1, 5, 3), signed(2, 1, 2, 3, seed=1), torch.tensor([3, 0], dtype=i32)
    want = cache.clone()
    want[0, :, 3:], want[1, :, :2] = update[0], update[1]
    check(lambda n, *t: L.kv_cache_update(*t), [cache, update, at], want, types=["KV_CACHE_UPDATE"], tolerance=0.0)
    flat, ends = signed(3, 1, 3, seed=2), torch.tensor([0, 1, 3], dtype=i32)
    want = cache.clone()
    want[0, :, 3:4], want[1, :, :2] = flat[:1].transpose(0, 1), flat[1:].transpose(0, 1)
    check(lambda n, *t: L.kv_cache_update(*t), [cache, flat, at, ends], want, tolerance=0.0)


def test_mixture_of_experts():
    h = signed(1, 2, 3).half()
    experts, scores = torch.tensor([[[0], [1]]], dtype=i32), torch.tensor([[[0.5], [2.0]]]).half()
    gate, up, down = (signed(2, *shape, seed=seed).half() for shape, seed in (((3, 4), 1), ((3, 4), 2), ((4, 3), 3)))
    biases = [signed(2, size, seed=seed).half() for size, seed in ((4, 4), (4, 5), (3, 6))]

    def expert(x, e):
        g, u = x @ gate[e].float() + biases[0][e], x @ up[e].float() + biases[1][e]
        g, u = g.clamp(max=1.5), u.clamp(-1.5, 1.5)
        return (g * torch.sigmoid(1.25 * g) * (u + 0.5)) @ down[e].float() + biases[2][e]

    want = torch.stack((0.5 * expert(h[0, 0].float(), 0), 2.0 * expert(h[0, 1].float(), 1)))[None]

    def build(n, *x):
        return L.moe(*x, [n.constant(b) for b in biases], limit=1.5, alpha=1.25, beta=0.5)

    check(build, [h, experts, scores, gate, up, down], want, types=["MOE"], tolerance=2e-3)
    with pytest.raises(ShapeError, match="all three or none"):
        check(lambda n, *x: L.moe(*x, [n.constant(biases[0])]), [h, experts, scores, gate, up, down])


def test_suppression_and_assertions():
    boxes = torch.tensor([[[0.5, 0.5, 1.0, 1.0], [0.6, 0.5, 1.0, 1.0], [3.0, 3.0, 1.0, 1.0]]])
    scores = torch.tensor([[[0.5], [0.6], [0.2]]])

    def build(n, b, s):
        return L.nms(b, s, 2, 0.5, 0.1, box_format="CENTER_SIZES", topk_box_limit=3, indices_dtype="int64")

    check(build, [boxes, scores], [[0, 0, 1], [0, 0, 2]], np.int32(2), types=["NMS"])
    net = td.Network()
    x = net.input("x", ("N", 2))
    L.assertion(L.elementwise(L.shape(x), net.constant([5, 3]), "LESS"), "at most four rows")
    net.output(L.identity(x), "y")
    assert td.interpret(net, {"x": torch.zeros(4, 2)})["y"].shape == (4, 2)
    with pytest.raises(DefinitionError, match="at most four rows"):
        td.interpret(net, {"x": torch.zeros(5, 2)})


def test_random_fills_differ_and_have_their_dtype():
    net = td.Network()
    x = net.input("x", ("N", 4))
    zero, one = net.constant(0.0), net.constant(1.0)
    net.output(L.random(net, x.shape, zero, one), "uniform")
    net.output(L.random(net, (1000,), zero, one, normal=True), "normal")
    a, b = (td.interpret(net, {"x": torch.zeros(3, 4)}) for _ in range(2))
    assert a["uniform"].shape == (3, 4)
    assert not torch.equal(a["uniform"], b["uniform"])
    assert 0 <= float(a["uniform"].min()) <= float(a["uniform"].max()) < 1
    assert abs(float(a["normal"].std()) - 1) < 0.2
    assert math.isfinite(float(b["normal"].mean()))


@pytest.mark.parametrize(
    ("function", "operands", "want"),
    [
        (lambda n, x: L.cumulative(x, 0), [[1.0, 2.0, 3.0]], [1.0, 3.0, 6.0]),
        (lambda n, x: L.topk(x, 1, 1)[0], [[[1.0, 5.0]]], [[5.0]]),
        (lambda n, x: L.one_hot(x, n.constant([0, 1]), 2), [torch.tensor([1], dtype=i32)], [[0, 1]]),
        (lambda n, a, b: L.einsum("i,i->", a, b), [[1.0, 2.0], [3.0, 4.0]], 11.0),
        (lambda n, x: L.padding(x, (0, 1), (0, 0)), [[[[[1.0]]]]], [[[[0.0, 1.0]]]]),
    ],
)
def test_work_on_constants_alone_is_done_when_the_network_is_written(function, operands, want):
    net = td.Network()
    result = function(net, *(net.constant(torch.as_tensor(value)) for value in operands))
    assert result.is_constant
    assert result.data.tolist() == want
    assert net.definition.num_layers == 0
