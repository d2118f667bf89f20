"""scaled_dot_product_attention in its forms and dtypes, against torch in float64, and fused where it can be."""

import pytest
import torch
from support import assert_close, evaluate, layer_types

import trtdsl as td
import trtdsl.functional as F
import trtdsl.layers as L

HALF = (torch.float16, torch.bfloat16)
N, S, T = (td.Dim(name, min=1, opt=opt, max=24) for name, opt in (("N", 2), ("S", 16), ("T", 20)))


def masks(kind, dtype):
    """The mask that a form of attention has, for 3 heads, 6 queries and 7 keys."""
    if kind == "float":
        return torch.randn(2, 3, 6, 7).to(dtype)
    if kind == "shared":
        return torch.randn(6, 7).to(dtype)
    if kind == "padding":
        return torch.arange(7) < torch.tensor([4, 7]).reshape(2, 1, 1, 1)
    if kind in ("bool", "ruled out"):
        mask = torch.rand(2, 3, 6, 7) < 0.6
        mask[..., 0] = True
        if kind == "ruled out":
            mask[1, 2, 3] = False
        return mask
    return None


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize(
    "kind", ["none", "causal", "float", "shared", "bool", "ruled out", "padding", "grouped", "three"]
)
@pytest.mark.parametrize("dtype", [torch.float32, *HALF])
def test_attention_equals_torchs_in_every_form(dtype, kind, dynamic):
    torch.manual_seed(0)
    heads = 6 if kind == "grouped" else 3
    q, k, v = torch.randn(2, heads, 6, 8), torch.randn(2, 3, 7, 8), torch.randn(2, 3, 7, 8)
    q, k, v = (x.to(dtype) for x in (q, k, v))
    mask = masks(kind, dtype)
    options = {"is_causal": kind == "causal", "enable_gqa": kind == "grouped", "scale": 0.3}
    shapes = [(N, heads, S, 8), (N, 3, T, 8), (N, 3, T, 8)] if dynamic else [x.shape for x in (q, k, v)]
    if kind == "three":
        q, k, v, shapes = q[0], k[0], v[0], [shape[1:] for shape in shapes]
    net = td.Network()
    feeds = dict(zip("qkv", (q, k, v), strict=True))
    inputs = [net.input(name, shape, dtype) for name, shape in zip("qkv", shapes, strict=True)]
    if mask is not None:
        names = {2: N, 6: S, 7: T}
        shape = tuple(names.get(size, size) for size in mask.shape) if dynamic else mask.shape
        options["attn_mask"], feeds["mask"] = net.input("mask", shape, mask.dtype), mask
    net.output(F.scaled_dot_product_attention(*inputs, **options), "y")
    options["attn_mask"] = mask if mask is None or mask.dtype == torch.bool else mask.double()
    want = torch.nn.functional.scaled_dot_product_attention(q.double(), k.double(), v.double(), **options)
    assert_close(
        td.interpret(net, feeds)["y"], want.to(dtype), {torch.float32: 1e-6}.get(dtype, 4 * torch.finfo(dtype).eps)
    )


def hidden_rows(kind, dtype):
    """Masks for 3 heads, 6 queries and 7 keys with rows that are hidden wholly, and rows that are not."""
    mask = torch.ones(2, 3, 6, 7, dtype=torch.bool)
    mask[0, 1, 2] = mask[1, :, :, 3:] = mask[1, :, 5] = False
    if kind == "padding":
        mask = torch.arange(7) < torch.tensor([0, 4]).reshape(2, 1, 1, 1)
    return mask if kind == "bool" else torch.zeros(mask.shape, dtype=dtype).masked_fill(~mask, -torch.inf)


@pytest.mark.parametrize("constant", [False, True])
@pytest.mark.parametrize("lowering", ["auto", "layer", "products"])
@pytest.mark.parametrize("kind", ["float", "padding", "bool"])
@pytest.mark.parametrize("dtype", [torch.float32, *HALF])
def test_rows_that_a_mask_hides_wholly_are_0_as_in_torch(dtype, kind, lowering, constant):
    if kind == "bool" and lowering == "layer":
        lowering = "auto"
    torch.manual_seed(0)
    q, k, v = (torch.randn(2, 3, size, 8).to(dtype) for size in (6, 7, 7))
    mask = hidden_rows(kind, dtype)
    net = td.Network()
    inputs = [net.input(name, x.shape, dtype) for name, x in zip("qkv", (q, k, v), strict=True)]
    given = net.constant(mask) if constant else net.input("mask", mask.shape, mask.dtype)
    net.output(F.scaled_dot_product_attention(*inputs, given, lowering=lowering), "y")
    feeds = {"q": q, "k": k, "v": v} | ({} if constant else {"mask": mask})
    wide = mask if mask.dtype == torch.bool else mask.double()
    want = torch.nn.functional.scaled_dot_product_attention(q.double(), k.double(), v.double(), wide)
    assert (want == 0).all(-1).any()
    assert_close(
        td.interpret(net, feeds)["y"], want.to(dtype), {torch.float32: 1e-6}.get(dtype, 4 * torch.finfo(dtype).eps)
    )


def test_a_mask_that_overflows_in_half_precision_hides_its_row_as_in_torch():
    def attend(functional, x, hidden):
        return functional.scaled_dot_product_attention(x, x, x, (hidden * -1e9)[:, None, None])

    class Attention(torch.nn.Module):
        def forward(self, x, hidden):
            return {"y": attend(torch.nn.functional, x, hidden)}

    def sample(shape, generator):
        return torch.tensor([[1.0, 1, 1, 1], [1, 1, 0, 0]])

    @td.network(inputs={"x": td.Input((2, 2, 4, 8)), "hidden": td.Input((2, 4), sample=sample)}, reference=Attention)
    def masked(x, hidden):
        return {"y": attend(F, x, hidden)}

    assert td.check(masked, precision="fp16").passed


@pytest.mark.parametrize("kind", ["none", "causal", "constant", "float", "shared"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_hidden_rows_cost_what_the_docstring_says(dtype, kind):
    """Nothing without a mask, or with a constant one without such rows; a launch at most with another one."""

    def program(rule):
        net = td.Network()
        q, k, v = (net.input(name, (2, 4, 64, 64), dtype) for name in "qkv")
        mask = None
        if kind == "constant":
            mask = net.constant(torch.full((1, 1, 64, 64), -torch.inf, dtype=dtype).triu(1))
        elif kind in ("float", "shared"):
            mask = net.input("mask", (2, 4, 64, 64) if kind == "float" else (2, 1, 1, 64), dtype)
        if rule:
            y = F.scaled_dot_product_attention(q, k, v, mask, is_causal=kind == "causal")
        else:
            y = L.attention(q * 0.125, k, v, mask, causal="UPPER_LEFT" if kind == "causal" else "NONE")
        net.output(y, "y")
        return td.program(net)

    more = program(True).launch_count - program(False).launch_count
    assert more <= (kind == "shared" or (kind == "float" and dtype == torch.float16))


@pytest.mark.parametrize("need_weights", [False, True])
@pytest.mark.parametrize("kind", ["padding", "padding added", "rows", "rows added", "both", "both added"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_hidden_rows_of_multi_head_attention_are_torchs(dtype, kind, need_weights):
    """The function gives NaN with weights, and 0 without."""
    torch.manual_seed(0)
    x, weight, out = torch.randn(5, 2, 8).to(dtype), torch.randn(24, 8).to(dtype), torch.randn(8, 8).to(dtype)
    padding = torch.tensor([[True] * 5, [True, False, False, False, True]])
    rows = torch.ones(5, 5, dtype=torch.bool).triu(1 if "both" in kind else 0)
    added = {mask: torch.zeros(mask.shape, dtype=dtype).masked_fill(mask, -torch.inf) for mask in (padding, rows)}
    masks = {"key_padding_mask": padding} if "rows" not in kind else {}
    masks |= {"attn_mask": rows} if "padding" not in kind else {}
    masks = {name: added[mask] if "added" in kind else mask for name, mask in masks.items()}
    net = td.Network()
    given = {name: net.input(name, mask.shape, mask.dtype) for name, mask in masks.items()}
    y = net.input("x", x.shape, dtype)

    def attend(function, x, w, o, masks):
        return function(
            x, x, x, 8, 2, w, None, None, None, False, 0.0, o, None, False, need_weights=need_weights, **masks
        )[0]

    net.output(attend(F.multi_head_attention_forward, y, net.constant(weight), net.constant(out), given), "y")
    want = attend(torch.nn.functional.multi_head_attention_forward, x, weight, out, masks)
    assert want.isnan().any() == need_weights
    got = td.interpret(net, {"x": x} | masks)["y"]
    assert torch.equal(got.isnan(), want.isnan())
    assert_close(got.nan_to_num(0), want.nan_to_num(0), 1e-5 if dtype == torch.float32 else 2e-2)


@pytest.mark.parametrize("kind", ["none", "causal", "float", "shared", "bool", "padding", "grouped"])
@pytest.mark.parametrize("dtype", HALF)
def test_half_precision_is_one_fused_kernel(dtype, kind):
    net = td.Network()
    q, k, v = (net.input(name, (2, 6 if name == "q" or kind != "grouped" else 3, 64, 80), dtype) for name in "qkv")
    shapes = {"float": (2, 6, 64, 64), "shared": (64, 64), "bool": (2, 6, 64, 64), "padding": (2, 1, 1, 64)}
    mask = None
    if kind in shapes:
        mask = net.input("mask", shapes[kind], torch.bool if kind in ("bool", "padding") else dtype)
    y = F.scaled_dot_product_attention(q, k, v, mask, is_causal=kind == "causal", enable_gqa=kind == "grouped")
    net.output(y, "y")
    assert any("mha" in launch.name for launch in td.program(net).launches)


EINSUMS = {
    "heads first": ("bhqd,bhkd->bhqk", "bhqk,bhkd->bhqd"),
    "values turned": ("bhqd,bhkd->bhqk", "bhqk,bhdk->bhqd"),
    "channels first": ("bhdq,bhdk->bhqk", "bhqk,bhdk->bhdq"),
}


@pytest.mark.parametrize("equations", EINSUMS.values(), ids=EINSUMS)
@pytest.mark.parametrize("dtype", HALF)
def test_attention_of_einsums_is_one_fused_kernel_in_half_precision(dtype, equations):
    terms = [equations[0].split(",")[0], equations[0].split(",")[1][:4], equations[1].split(",")[1][:4]]
    sizes = {"b": 2, "h": 3, "q": 48, "k": 64, "d": 32}
    generator = torch.Generator().manual_seed(0)
    feeds = {
        name: torch.randn([sizes[label] for label in term], generator=generator).to(dtype)
        for name, term in zip("qkv", terms, strict=True)
    }

    def attend(einsum, q, k, v):
        return einsum(equations[1], (einsum(equations[0], q, k) * 32**-0.5).softmax(-1), v)

    net = td.Network()
    net.output(attend(F.einsum, *(net.input(name, feed.shape, dtype) for name, feed in feeds.items())), "y")
    assert any("mha" in launch.name for launch in td.program(net).launches)
    want = attend(torch.einsum, *(feed.double() for feed in feeds.values())).to(dtype)
    assert_close(td.interpret(net, feeds)["y"], want, 4e-3 if dtype == torch.float16 else 3e-2)


@pytest.mark.parametrize("length", [99, S])
@pytest.mark.parametrize("kind", ["bool", "padding", "shared", "causal"])
@pytest.mark.parametrize("dtype", HALF)
def test_between_projections_half_precision_copies_queries_keys_and_values_at_most(dtype, kind, length):
    """One launch for q, k and v, one for attention, one for its result; one each that brings q or k to it; one that
    looks for rows that are hidden wholly, and one that makes these 0."""
    net = td.Network()
    x, weight = net.input("x", (2, length, 6 * 64), dtype), net.constant(torch.ones(6 * 64, 6 * 64, dtype=dtype))
    q, k, v = (F.linear(x, weight).reshape(2, length, 6, 64).transpose(1, 2) for _ in range(3))
    shapes = {"bool": (2, 6, length, length), "padding": (2, 1, 1, length), "shared": (length, length)}
    mask = net.input("mask", shapes[kind], "bool") if kind in shapes else None
    y = F.scaled_dot_product_attention(q, k, v, mask, is_causal=kind == "causal")
    net.output(F.linear(y.transpose(1, 2).reshape(2, length, 6 * 64), weight), "y")
    launches = td.program(net).launches
    assert any("mha" in launch.name for launch in launches)
    assert len(launches) <= (5 if kind == "causal" else 7)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_last_queries_of_a_text_see_what_is_before_them(dtype):
    """The mask that torch calls lower right, as a constant: no launch looks for rows that are hidden wholly."""
    from torch.nn.attention.bias import causal_lower_right

    torch.manual_seed(0)
    q, k, v = (torch.randn(2, 6, length, 64).to(dtype) for length in (32, 96, 96))
    net = td.Network()
    given = [net.input(name, x.shape, dtype) for name, x in zip("qkv", (q, k, v), strict=True)]
    mask = net.constant(torch.ones(32, 96, dtype=torch.bool).tril(96 - 32))
    net.output(F.scaled_dot_product_attention(*given, mask), "y")
    want = torch.nn.functional.scaled_dot_product_attention(
        q.double(), k.double(), v.double(), causal_lower_right(32, 96)
    )
    found = td.interpret(net, {"q": q, "k": k, "v": v})["y"]
    assert_close(found, want.to(dtype), 1e-6 if dtype == torch.float32 else 3e-2)
    made = td.program(net)
    assert made.launch_count <= 6 and not any(launch.name.endswith("Sele") for launch in made.launches)


@pytest.mark.parametrize("kind", ["none", "padding", "padding added", "rows", "rows added", "both", "constant"])
@pytest.mark.parametrize("dtype", [torch.float32, *HALF])
@pytest.mark.parametrize(("keys", "width"), [(37, 40), (37, 64), (29, 64)])
def test_multi_head_attention_without_weights_is_torchs_and_fused_in_half_precision(dtype, kind, keys, width):
    """Of any masks and 29 queries, with biases; equal to torch, also in rows that a mask hides wholly."""
    torch.manual_seed(0)
    shapes = {"padding": ("key_padding_mask", (2, keys)), "rows": ("attn_mask", (29, keys))}
    wanted = [shape for part, shape in shapes.items() if part in kind or kind == "both"]
    masks = {name: torch.rand(shape) < 0.4 for name, shape in wanted}
    for mask in masks.values():
        mask[0] = True
    if "added" in kind:
        masks = {name: torch.zeros(mask.shape).masked_fill(mask, -torch.inf).to(dtype) for name, mask in masks.items()}
    causal = {"attn_mask": torch.ones(29, keys, dtype=torch.bool).triu(1)} if kind == "constant" else {}
    size = 2 * width
    shapes = ((3 * size, size), (3 * size,), (size, size), (size,))
    weights = [(torch.randn(shape) / (8 if len(shape) > 1 else 1)).to(dtype) for shape in shapes]
    feeds = {"q": torch.randn(29, 2, size).to(dtype), "k": torch.randn(keys, 2, size).to(dtype), **masks}

    def attend(function, weights, q, k, **masks):
        weight, bias, out, shift = weights
        k = q if keys == 29 else k
        parts = (size, 2, weight, bias, None, None, False, 0.0, out, shift, False)
        return function(q, k, k, *parts, need_weights=False, **masks)[0]

    net = td.Network()
    given = {name: net.input(name, feed.shape, feed.dtype) for name, feed in feeds.items()}
    fixed = {name: net.constant(mask) for name, mask in causal.items()}
    net.output(attend(F.multi_head_attention_forward, [net.constant(w) for w in weights], **given, **fixed), "y")
    assert dtype == torch.float32 or any("mha" in launch.name for launch in td.program(net).launches)
    want = attend(torch.nn.functional.multi_head_attention_forward, weights, **feeds, **causal)
    assert not want.isnan().any()
    assert_close(td.interpret(net, feeds)["y"], want, {torch.float32: 1e-4, torch.float16: 2e-2}.get(dtype, 2e-1))


@pytest.mark.parametrize("kind", ["none", "causal", "float", "bool"])
@pytest.mark.parametrize("dtype", HALF)
def test_half_precision_of_any_length_is_one_fused_kernel(dtype, kind):
    """Queries and keys of different, dynamic lengths, of the width that most networks have."""
    net = td.Network()
    q, k, v = (net.input(name, (N, 4, length, 64), dtype) for name, length in (("q", S), ("k", T), ("v", T)))
    mask = None
    if kind in ("float", "bool"):
        mask = net.input("mask", (N, 1, S, T), torch.bool if kind == "bool" else dtype)
    net.output(F.scaled_dot_product_attention(q, k, v, mask, is_causal=kind == "causal"), "y")
    assert any("mha" in launch.name for launch in td.program(net).launches)


@pytest.mark.parametrize("kind", ["none", "causal", "float", "bool"])
def test_an_odd_number_of_keys_takes_no_more_launches_than_an_even_one(kind):
    """The builder pads products of float32 to even sizes, in launches of their own for keys, scores and weights."""
    counts = []
    for size in (17, 18):
        net = td.Network()
        q, k, v = (net.input(name, (1, 2, size, 64)) for name in "qkv")
        mask = None
        if kind in ("float", "bool"):
            mask = net.input("mask", (1, 1, size, size), torch.bool if kind == "bool" else torch.float32)
        net.output(F.scaled_dot_product_attention(q, k, v, mask, is_causal=kind == "causal"), "y")
        counts.append(td.program(net).launch_count)
    assert counts[0] <= counts[1]


@pytest.mark.parametrize("mask", ["causal", "one column", "one row"])
def test_an_odd_number_of_keys_with_more_queries_and_with_masks_that_are_broadcast(mask):
    torch.manual_seed(0)
    q, k, v = torch.randn(2, 3, 9, 8), torch.randn(2, 3, 7, 8), torch.randn(2, 3, 7, 8)
    options = {"is_causal": True}
    if mask != "causal":
        options = {"attn_mask": torch.randn(2, 1, 9, 1) if mask == "one column" else torch.randn(1, 7)}
    net = td.Network()
    inputs = [net.input(name, x.shape) for name, x in zip("qkv", (q, k, v), strict=True)]
    given = {name: net.constant(x) if isinstance(x, torch.Tensor) else x for name, x in options.items()}
    net.output(F.scaled_dot_product_attention(*inputs, **given), "y")
    want = torch.nn.functional.scaled_dot_product_attention(q, k, v, **options)
    assert_close(td.interpret(net, dict(zip("qkv", (q, k, v), strict=True)))["y"], want, 1e-6)


def test_a_version_without_the_layer_uses_products(monkeypatch):
    net = td.Network()
    monkeypatch.delattr(net.trt.INetworkDefinition, "add_attention_v2")
    q = net.input("q", (2, 3, 6, 8))
    net.output(F.scaled_dot_product_attention(q, q, q, is_causal=True), "y")
    assert "MATRIX_MULTIPLY" in layer_types(net)
    x = torch.randn(2, 3, 6, 8)
    want = torch.nn.functional.scaled_dot_product_attention(x, x, x, is_causal=True)
    assert_close(td.interpret(net, {"q": x})["y"], want, 1e-6)


@pytest.mark.parametrize("kind", ["none", "float", "bool", "causal"])
@pytest.mark.parametrize(("scale", "width"), [(1.0, 64), (1.0, 32), (3.3, 64), (0.7, 64)])
@pytest.mark.parametrize("dtype", HALF)
def test_great_scores_are_not_rounded_to_half_precision(dtype, scale, width, kind):
    """Scores of 60 and more; with values of another width no IAttention can compute them."""

    class Attention(torch.nn.Module):
        def forward(self, q, k, v, mask=None):
            return torch.nn.functional.scaled_dot_product_attention(q, k, v, mask, 0.0, kind == "causal", scale=scale)

    inputs = {"q": td.Input((2, 2, 32, 64), dtype), "k": td.Input((2, 2, 48, 64), dtype)}
    inputs["v"] = td.Input((2, 2, 48, width), dtype)
    if kind in ("float", "bool"):
        inputs["mask"] = td.Input((2, 2, 32, 48), torch.bool if kind == "bool" else dtype)
    assert td.check(td.from_module(Attention(), inputs)).passed


def test_great_scores_cost_nothing_where_the_layer_computes_them():
    def program(scale):
        net = td.Network()
        q, k, v = (net.input(name, (2, 8, 128, 64), torch.float16) for name in "qkv")
        net.output(F.scaled_dot_product_attention(q, k, v, scale=scale), "y")
        return td.program(net)

    assert program(1.0).launch_count == program(None).launch_count
    assert program(1.0).bytes == program(None).bytes


def test_padding_that_overflows_in_half_precision_hides_its_row_of_multi_head_attention():
    """Under autocast torch's mask is float16 where the scores are: -1e9 becomes -inf."""

    def attend(function, x, padding, weight):
        options = {"key_padding_mask": padding, "need_weights": False}
        return {
            "y": function(x, x, x, 8, 2, weight, None, None, None, False, 0.0, weight[:8], None, False, **options)[0]
        }

    torch.manual_seed(0)
    weight = torch.randn(24, 8)

    class Attention(torch.nn.Module):
        def forward(self, x, padding):
            return attend(torch.nn.functional.multi_head_attention_forward, x, padding, weight.to(x.dtype))

    def sample(shape, generator):
        return torch.tensor([[-1e9] * 4, [0, 0, -1e9, -1e9]])

    @td.network(inputs={"x": td.Input((4, 2, 8)), "padding": td.Input((2, 4), sample=sample)}, reference=Attention)
    def masked(x, padding):
        return attend(F.multi_head_attention_forward, x, padding, x.network.constant(weight))

    report = td.check(masked, precision="fp16")
    assert report.passed, str(report)
    assert not any("NaN" in line for line in report.unproven)


@pytest.mark.parametrize("lowering", ["auto", "products"])
def test_heads_of_no_numbers_give_the_mean_of_the_values(lowering):
    q, v = torch.zeros(2, 3, 4, 0), torch.randn(2, 3, 4, 5)
    want = torch.nn.functional.scaled_dot_product_attention(q, q, v)
    net = td.Network()
    query, value = net.input("q", q.shape), net.input("v", v.shape)
    net.output(F.scaled_dot_product_attention(query, query, value, lowering=lowering), "y")
    torch.testing.assert_close(td.interpret(net, {"q": q, "v": v})["y"], want)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({}, None),
        ({"mask": torch.ones(6, 6).tril().bool()}, "the mask is not float"),
        ({"mask": torch.zeros(6, 6)}, None),
        ({"width": 4}, "its operands have not one width"),
        ({"dtype": "float16"}, "in half precision the builder fuses two products"),
        ({"in_loop": True}, "beside loops or branches"),
        ({"lowering": "products"}, "products are asked for"),
    ],
)
def test_a_remark_says_why_there_is_no_attention_layer(options, why):
    net = td.Network()
    q = net.input("q", (2, 3, 6, 8), options.get("dtype", "float32"))
    v = net.input("v", (2, 3, 6, options.get("width", 8)), options.get("dtype", "float32"))
    mask = net.constant(options["mask"]) if "mask" in options else None

    def attention(q):
        return F.scaled_dot_product_attention(q, q, v, mask, lowering=options.get("lowering", "auto"))

    if "in_loop" in options:
        (q,) = td.while_loop(lambda x: x.sum() < 9.0, lambda x: (attention(x),), (q,))
        net.output(q, "y")
    else:
        net.output(attention(q), "y")
    assert ("ATTENTION_INPUT" in layer_types(net)) == (why is None)
    remarks = [(each.call, each.location.file, each.text) for each in net.graph.remarks]
    assert len(remarks) == (why is not None)
    for call, file, text in remarks:
        assert (call, file) == ("scaled_dot_product_attention", __file__) and why in text


@pytest.mark.parametrize("form", ["none", "causal", "float", "grouped"])
@pytest.mark.parametrize("length", [1, 3, 8])
def test_the_program_of_a_single_key_gives_what_torch_gives(length, form):
    """In the layer's kernel, (8, 8) by one key, each thread divides a weight that only the first one computed."""
    x = {"q": torch.randn(2, 4, length, 8), "k": torch.randn(2, 4, 1, 8), "v": torch.randn(2, 4, 1, 8)}
    if form == "grouped":
        x["k"], x["v"] = x["k"][:, :2], x["v"][:, :2]
    rules = {
        "causal": {"is_causal": True},
        "float": {"attn_mask": torch.randn(length, 1)},
        "grouped": {"enable_gqa": True},
    }
    rule = rules.get(form, {})
    net = td.Network()
    with net.current():
        q, k, v = (net.input(name, tuple(value.shape)) for name, value in x.items())
        net.output(F.scaled_dot_product_attention(q, k, v, **rule), "y")
    want = torch.nn.functional.scaled_dot_product_attention(*x.values(), **rule)
    assert_close(td.evaluate_engine(net, x)["y"], want)


@pytest.mark.parametrize("between", [lambda x: x, lambda x: 0.5 * x / 3, lambda x: x.permute(2, 0, 1, 3)])
@pytest.mark.parametrize("dtype", HALF)
def test_attention_in_float32_of_a_query_in_half_precision_is_built(dtype, between):
    """TensorRT-RTX 1.7 ends with "formats.cpp:3118" there, or crashes."""
    x = torch.randn(4, 3, 6, 8)
    low = x.to(dtype).relu()
    query, key = between(low.float()), between(x)
    want = torch.nn.functional.scaled_dot_product_attention(query, key, key)
    net = td.Network()
    given = net.input("x", x.shape)
    low = F.relu(given.to(dtype))
    query, key = between(low.float()), between(given)
    net.output(F.scaled_dot_product_attention(query, key, key), "y")
    torch.testing.assert_close(td.evaluate_engine(net, {"x": x})["y"], want, rtol=1e-4, atol=1e-5)


def test_a_scale_that_is_computed_is_an_operand():
    """Its sigmoid is a factor, too, so that ``y * sigmoid(y)`` cannot become one activation without it."""
    torch.manual_seed(0)
    x, weight, tokens = torch.randn(1, 1, 1, 1), torch.randn(1, 1, 1, 1), torch.randn(1, 2, 6, 8)

    def network(x, tokens):
        y = F.conv2d(x, weight)
        scale = F.sigmoid(y)
        return F.scaled_dot_product_attention(tokens, tokens, tokens, scale=scale), y * scale

    y = x * weight
    scale = y.sigmoid()
    got = evaluate(network, x, tokens)
    assert_close(got[0], ((tokens @ tokens.mT) * scale).softmax(-1) @ tokens)
    assert_close(got[1], y * scale)
