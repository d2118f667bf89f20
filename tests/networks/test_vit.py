"""ViT-Tiny, whose weights are made for the test: timm's names and sizes, equal to torch, and every weight matters."""

from pathlib import Path

import pytest
import torch
from support import layer_types, unnoticed_weights

import trtdsl as td
from trtdsl.core.author import load_module
from trtdsl.engine.compiling.compiler import compile_engine

FILE = Path(__file__).parents[2] / "networks" / "vit.py"
WIDTH, DEPTH, PATCH, SIDE, CLASSES = 192, 12, 16, 224, 1000  # vit_tiny_patch16_224


@pytest.fixture(scope="module")
def spec():
    return td.load_spec(str(FILE))


@pytest.fixture(scope="module")
def weights(made_weights):
    return made_weights("vit")


def published():
    """The state_dict of timm's vit_tiny_patch16_224, name by name."""
    shapes = {"cls_token": (1, 1, WIDTH), "pos_embed": (1, (SIDE // PATCH) ** 2 + 1, WIDTH)}
    shapes |= {"patch_embed.proj.weight": (WIDTH, 3, PATCH, PATCH), "patch_embed.proj.bias": (WIDTH,)}
    linear = {"head": (CLASSES, WIDTH)}
    norms = ["norm"]
    for k in range(DEPTH):
        linear |= {f"blocks.{k}.attn.qkv": (3 * WIDTH, WIDTH), f"blocks.{k}.attn.proj": (WIDTH, WIDTH)}
        linear |= {f"blocks.{k}.mlp.fc1": (4 * WIDTH, WIDTH), f"blocks.{k}.mlp.fc2": (WIDTH, 4 * WIDTH)}
        norms += [f"blocks.{k}.norm1", f"blocks.{k}.norm2"]
    for name, shape in linear.items():
        shapes |= {f"{name}.weight": shape, f"{name}.bias": shape[:1]}
    for name in norms:
        shapes |= {f"{name}.weight": (WIDTH,), f"{name}.bias": (WIDTH,)}
    return shapes


def test_names_and_shapes_are_timms(spec, weights):
    expected = published()
    assert sum(torch.Size(shape).numel() for shape in expected.values()) == 5_717_416  # DeiT-tiny's 5.7 million
    assert spec.open_weights(weights).shapes == expected
    assert {name: shape for name, (shape, _) in spec.expected_weights().items()} == expected


def test_equals_its_reference(spec, weights):
    report = td.check(spec, weights=weights, dims={"N": (1, 2, 3)})
    assert report.passed
    for case in report.cases:
        assert case.outputs[0].scale > 1
        assert case.outputs[0].max_abs < 2e-6 * case.outputs[0].scale


@pytest.mark.parametrize(("precision", "dtype"), [("bf16", torch.bfloat16), ("fp16", torch.float16)])
def test_half_precision_is_as_near_to_float32_as_torchs_autocast(spec, weights, precision, dtype):
    feeds = td.sample_feeds(spec, {"N": 2}, torch.Generator().manual_seed(0))
    got = td.interpret(spec.define(weights=weights, dims={"N": 2}, precision=precision), feeds)["logits"]
    reference = spec.reference_module(spec.open_weights(weights))
    with torch.inference_mode():
        exact = reference(feeds["x"])
        with torch.autocast("cpu", dtype):
            rounded = reference(feeds["x"]).float()
    assert 0 < (got - exact).norm() < 1.5 * (rounded - exact).norm()


def test_every_weight_matters(spec, weights):
    assert not unnoticed_weights(spec, weights, {"N": 1})


def test_layers(spec, weights):
    net = spec.define(weights=weights)
    assert str(net.outputs["logits"].shape) == "(N, 1000)"
    types = [kind for kind in layer_types(net) if kind != "CONSTANT"]
    assert len(types) <= 30 * DEPTH
    assert types.count("MATRIX_MULTIPLY") == 4 * DEPTH + 1
    assert types.count("ATTENTION_INPUT") == DEPTH
    assert types.count("NORMALIZATION") == 2 * DEPTH + 1
    assert types.count("SHAPE") == 1  # of the dynamic batch, which all blocks share
    # The class token, and the shapes of its expansion, of q, k, v, of the keys made even and of x[0].
    assert types.count("CONCATENATION") == 5
    macs = sum(layer.flops for layer in td.summarize(spec.define(weights=weights, dims={"N": 1})).layers) / 2
    assert 1.25e9 < macs < 1.3e9  # 1.3 billion in the paper of DeiT


def test_engine_builds(spec, weights):
    network = spec.define(weights=weights, dims={"N": (1, 2, 3)})
    assert len(compile_engine(network).data) > 0


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_its_engine_in_half_precision_moves_nine_tenths_of_the_exported_ones_bytes(made_weights, dtype):
    """Weights and images of half precision at N = 4: both exporters' engines move 134,076,768 bytes."""
    halved = load_module(FILE.parents[1] / "tools" / "bench" / "networks.py").halved
    spec, weights = halved(td.load_spec(str(FILE)), made_weights("vit"), dtype)
    program = td.program(spec.define(weights=weights, dims={"N": 4}, profiles=[]))
    assert program.bytes < 0.9 * 134_076_768
    assert program.launch_count <= 101
    assert program.memory < 10_200_000  # exported: 10,098,688
