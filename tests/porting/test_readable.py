"""What a ported file reads like: names, shapes and functions, of networks as engineers write them."""

import ast
import re
import runpy
from pathlib import Path

import pytest
import torch

import trtdsl as td
from tests.support.port_oracle import assert_every_pass_keeps_the_meaning
from trtdsl import porting

pytestmark = pytest.mark.long

FILE = Path(__file__).parent / "readable_modules.py"
PORTED = runpy.run_path(str(FILE))["PORTED"]


@pytest.fixture(scope="module")
def texts():
    ported = {name: porting.ported(f"{FILE}:{name}", inputs, dims=dims) for name, (inputs, dims) in PORTED.items()}
    assert not any(each.missing or each.notes for each in ported.values())
    return {name: each.text for name, each in ported.items()}


def has(text, *lines):
    for line in lines:
        assert line in text.splitlines(), line


def test_values_are_called_after_the_part_that_makes_them(texts):
    has(
        texts["ResNetFPN"],
        "    stem = F.relu(batch_norm(F.conv2d(image, w.stem[0].weight, stride=2, padding=3), w.stem[1]))"
        "  # (N, 8, 4*H, 4*W)",
        "    stage = block_downsample(x, w.stages[1][0])  # (N, 16, H, W)",
        "    feature = block(stage, w.stages[1][1])",
    )
    has(
        texts["Detr"],
        "    q = tgt + query_pos  # (N, 10, 16)",
        "    hs = F.stack(intermediate)  # (3, N, 10, 16)",
    )
    has(texts["YoloHead"], "    anchors = F.cat(anchors).transpose(0, 1)  # (2, 21*H*W)")


def test_lists_that_are_built_in_rounds_are_loops(texts):
    has(
        texts["Detr"],
        "    intermediate: list[td.Tensor] = []",
        "    for layer in w.layers:",
        "        tgt = decoder_layer(tgt, memory, query_pos, pos, layer)",
        "        intermediate.append(F.layer_norm(tgt, (16,), w.norm.weight, w.norm.bias))",
    )
    has(
        texts["ResNetFPN"],
        "    for each, lateral, smooth in zip((feature, x), w.lateral[1::-1], w.smooth[1::-1]):",
        "        top = side + F.interpolate(top, side.shape[2:])",
        "        levels.append(F.conv2d(top, smooth.weight, smooth.bias, padding=1))",
        "    p3, p2 = levels",
    )
    has(
        texts["YoloHead"],
        "    for p, cv2, cv3 in zip((p3, p4, p5), w.cv2, w.cv3):",
        "        features = conv(p, cv2[0])",
        "        features2 = conv(p, cv3[0])",
        "    for xi, stride in zip(x, (8.0, 16.0, 32.0)):",
        "        strides.append(F.full((height * width, 1), stride))",
    )


@pytest.mark.parametrize("name", PORTED)
def test_the_loops_compute_what_the_module_computes(name):
    """Executed before and after each pass."""
    torch.manual_seed(0)
    module = runpy.run_path(str(FILE))[name]()
    inputs, _ = PORTED[name]
    sizes = {"N": 2, "H": 2, "W": 3, "T": 5}
    shapes = {key: [eval(size, {}, sizes) for size in text.split(",")] for key, text in inputs.items()}
    assert_every_pass_keeps_the_meaning(module, {key: torch.randn(shape) for key, shape in shapes.items()})


def test_outputs_have_their_own_names(texts):
    has(texts["ResNetFPN"], '    return {"p2": p2, "p3": p3, "p4": p4}')
    has(texts["Detr"], '    return {"pred_logits": pred_logits, "pred_boxes": pred_boxes}')
    has(texts["YoloHead"], "    return boxes, cls")


def test_similar_functions_are_named_by_their_difference(texts):
    functions = {name: re.findall(r"^def (\w+)", text, re.MULTILINE) for name, text in texts.items()}
    assert functions["ResNetFPN"] == ["batch_norm", "block", "block_downsample", "res_net_fpn"]
    assert functions["Detr"] == ["multihead_attention", "multihead_attention_cross_attn", "decoder_layer", "detr"]


def test_many_arguments_have_their_names_and_equal_calls_are_made_once(texts):
    has(texts["Detr"], "        num_heads=4,", "        training=False,")
    assert "\n    query = query.transpose(1, 0)  # (10, N, 16)\n    value = value.transpose(1, 0)\n" in texts["Detr"]


def test_statements_without_effect_are_left_out(texts):
    assert texts["UNet"].endswith('    return {"output": F.conv2d(x, w.outc.weight, w.outc.bias)}\n')


@pytest.mark.parametrize("name", sorted(PORTED.keys() - {"Cache"}))  # whose author writes to the input
def test_an_input_is_not_the_name_of_something_else(texts, name):
    """An input's name may stay with what is only another form of it, and with nothing else."""
    function = ast.parse(texts[name]).body[-1]
    inputs = {argument.arg for argument in function.args.args} - {"x", "w"}
    for node in ast.walk(function):
        if isinstance(node, ast.Assign):
            targets = {each.id for each in ast.walk(node.targets[0]) if isinstance(each, ast.Name)}
            read = {each.id for each in ast.walk(node.value) if isinstance(each, ast.Name)}
            assert not (targets & inputs) - read, ast.unparse(node)


class Overwriting(torch.nn.Module):
    """``b`` is a size first, and a tensor afterwards."""

    def forward(self, x):
        b = x.shape[0]
        y, z = x.view(b, -1, 2), (x + 1).view(b, -1, 2)
        a, b = y.softmax(-1), z.softmax(-1)
        return (a * b).sum((1, 2))


def test_a_tensor_does_not_get_the_name_of_a_size():
    inputs = {"x": td.Input((td.Dim("N", min=1, opt=2, max=4), 8))}
    text = porting.ported(Overwriting(), inputs, check=False).text
    assigned = re.findall(r"^    (\w+) = ", text, re.MULTILINE)
    assert "b" in assigned and len(assigned) == len(set(assigned))


def test_shapes_are_written_where_they_change(texts):
    """Worked by hand: two halvings and two doublings of a side of 4*H, and widths 4, 8, 16, 8, 4."""
    network = texts["UNet"][texts["UNet"].index("def u_net") :]
    assert re.findall(r"  # (\(.*\))$", network, re.MULTILINE) == [
        "(N, 4, 4*H, 4*W)", "(N, 4, 2*H, 2*W)", "(N, 8, 2*H, 2*W)", "(N, 8, H, W)", "(N, 16, H, W)",
        "(N, 8, 2*H, 2*W)", "(N, 4, 4*H, 4*W)",
    ]  # fmt: skip


def test_a_function_with_two_shapes_has_no_comment(texts):
    double = texts["UNet"][texts["UNet"].index("def double") : texts["UNet"].index("def up")]
    assert "#" not in double


def body_of(text, name):
    """The lines of a function of a ported file, without comments on shapes."""
    start = text.index(f"\ndef {name}(")
    lines = text[start:].strip().split("\n\n\n")[0].splitlines()[1:]
    return [re.sub(r"  # \(.*\)$", "", line).strip() for line in lines]


GOLDEN = {
    ("Rotary", "rotate"): """
        half = x.shape[3] // 2
        x1 = x[..., :half]
        x2 = x[..., half:]
        return x * cos + F.cat((-x2, x1), dim=-1) * sin
    """,
    ("Windows", "windows"): """
        n, c, height, width = x.shape
        y = F.batch_norm(x, w.norm.running_mean, w.norm.running_var, w.norm.weight, w.norm.bias)
        rows = height // 4
        columns = width // 4
        y = y.view(n, c, rows, 4, columns, 4).permute(0, 1, 2, 4, 3, 5)
        y = F.linear(y.reshape(n, c, rows * columns, -1), w.mix.weight, w.mix.bias)
        y = y.view(n, c, rows, columns, 4, 4).permute(0, 1, 2, 4, 3, 5).reshape((n, c, height, width))
        keep = F.ones(height, width, dtype=torch.bool)
        keep = F.setitem(keep, slice(4), False)
        return {"output": F.where(keep, y + x, x)}
    """,
    ("Cache", "cache"): """
        keys, values = state.chunk(2, dim=-1)
        here = place.long()
        keys = F.setitem(keys, (slice(None), here), F.linear(x, w.key.weight, w.key.bias)[:, None])
        values = F.setitem(values, (slice(None), here), F.linear(x, w.value.weight, w.value.bias)[:, None])
        state = F.cat([keys, values], dim=-1)
        scores = F.einsum("nd,ntd->nt", x, keys) / x.shape[1] ** 0.5
        product = F.einsum("nt,ntd->nd", scores.softmax(-1), values)
        return product, state
    """,
    ("Dense", "dense"): """
        early = F.linear(x.mean(-1), w.exit.weight, w.exit.bias)
        for block in w.blocks:
        x = F.cat([x, F.relu(F.conv1d(x, block.weight, block.bias, padding=1))], dim=1)
        late = F.linear(x.amax(-1), w.head.weight, w.head.bias)
        return {"early": early, "late": late}
    """,
}


@pytest.mark.parametrize(("name", "function"), GOLDEN)
def test_sizes_and_values_have_the_authors_names_and_nothing_is_idle(texts, name, function):
    assert body_of(texts[name], function) == [line.strip() for line in GOLDEN[name, function].strip().splitlines()]
