"""Mamba against its torch reference, in both lowerings of its scan; the published shapes; other configurations."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from support import assert_close, layer_types

import trtdsl as td
from trtdsl.engine.compiling.compiler import compile_engine

FILE = Path(__file__).parents[2] / "networks" / "mamba.py"


@pytest.fixture(scope="module")
def mamba():
    return td.load_spec(f"{FILE}:mamba")


def module_of(spec):
    """What the network's file defines."""
    return spec.function.__globals__


def made_up(shapes):
    """Random weights of these shapes: matrices that keep values of order one, vectors around one."""
    generator = torch.Generator().manual_seed(0)
    weights = {}
    for name, shape in shapes.items():
        noise = torch.randn(shape, generator=generator)
        weights[name] = 1 + 0.3 * noise if len(shape) == 1 else noise / torch.Size(shape[1:]).numel() ** 0.5
        if name.endswith("out_proj.weight"):
            weights[name] /= 7  # many layers add up, and their rounding errors with them
    return weights


@pytest.mark.parametrize("name", ["mamba", "mamba_loop"])
def test_mamba_equals_its_reference_at_every_length(name):
    report = td.check(td.load_spec(f"{FILE}:{name}"))
    assert report.passed, report.raise_for_mismatch()
    lengths = {case.dims["T"] for case in report.cases}
    assert {1, 32, 80} <= lengths


def test_both_lowerings_of_the_scan_agree(mamba):
    networks = [mamba.define(), td.load_spec(f"{FILE}:mamba_loop").define()]
    assert "RECURRENCE" not in layer_types(networks[0])
    assert layer_types(networks[1]).count("RECURRENCE") == 2
    for length in (1, 2, 33, 64, 77):
        feeds = {"input_ids": torch.randint(0, 96, (2, length))}
        parallel, loop = (td.interpret(network, feeds)["logits"] for network in networks)
        assert parallel.shape == (2, length, 96)
        assert_close(parallel, loop)


def test_a_token_depends_on_those_before_it_alone(mamba):
    network = mamba.define()
    ids = torch.randint(0, 96, (1, 40))
    changed = ids.clone()
    changed[0, 25] = (ids[0, 25] + 1) % 96
    before, after = (td.interpret(network, {"input_ids": x})["logits"] for x in (ids, changed))
    assert_close(after[:, :25], before[:, :25])
    assert (after[:, 25:] - before[:, 25:]).abs().amax(-1).min() > 1e-3  # all later ones


def test_engines_are_built_and_the_default_needs_no_more_memory_than_the_loop(mamba):
    default, loop = (compile_engine(spec.define()).statistics for spec in (mamba, td.load_spec(f"{FILE}:mamba_loop")))
    assert default.activation_memory <= loop.activation_memory
    vocabulary, hidden = 96, 64
    tied = sum(x.numel() for x in mamba.reference_class()().state_dict().values()) * 4
    # The tied head is not a second copy of the embeddings.
    assert default.weight_memory < tied + vocabulary * hidden * 4 / 2


@pytest.mark.parametrize("tied", [True, False])
def test_the_configuration_is_read_from_the_weights(mamba, tmp_path, tied):
    model = mamba.reference_class()
    config = dataclasses.replace(
        model.configuration(mamba.open_weights().shapes),
        vocabulary=30,
        hidden=24,
        layers=3,
        inner=40,
        state=5,
        rank=7,
        kernel=3,
        tied=tied,
    )
    with torch.device("meta"):
        shapes = {name: x.shape for name, x in model(config).state_dict().items()}
    assert ("lm_head.weight" in shapes) is not tied
    assert model.configuration(shapes) == config
    path = tmp_path / "model.safetensors"
    save_file(made_up(shapes), path)
    for lowering in ("blocks", "loop"):
        spec = module_of(mamba)["checkpoint"](path, lowering)
        assert td.check(spec, dims={"T": (1, 5, 40)}).raise_for_mismatch().passed


# Of the published checkpoint, as MambaForCausalLM names them.
PUBLISHED = {
    "backbone.embeddings.weight": (50280, 768),
    "backbone.norm_f.weight": (768,),
    "backbone.layers.23.norm.weight": (768,),
    "backbone.layers.23.mixer.A_log": (1536, 16),
    "backbone.layers.23.mixer.D": (1536,),
    "backbone.layers.23.mixer.conv1d.bias": (1536,),
    "backbone.layers.23.mixer.conv1d.weight": (1536, 1, 4),
    "backbone.layers.23.mixer.dt_proj.bias": (1536,),
    "backbone.layers.23.mixer.dt_proj.weight": (1536, 48),
    "backbone.layers.23.mixer.in_proj.weight": (3072, 768),
    "backbone.layers.23.mixer.out_proj.weight": (768, 1536),
    "backbone.layers.23.mixer.x_proj.weight": (80, 1536),
}


def published():
    spec = td.load_spec(f"{FILE}:mamba_130m")
    shapes = {name: shape for name, (shape, _) in spec.expected_weights().items()}
    assert {name: shape for name, shape in shapes.items() if name in PUBLISHED} == PUBLISHED
    assert len(shapes) == 24 * 10 + 2
    assert sum(torch.Size(shape).numel() for shape in shapes.values()) == 129_135_360
    return spec, made_up(shapes)


@pytest.mark.heavy
def test_the_published_size_is_built():
    spec, weights = published()
    language_model = spec.function.__globals__["language_model"]
    in_a_loop = dataclasses.replace(spec, function=lambda input_ids, w: language_model(input_ids, w, "loop"))
    network = in_a_loop.define(weights=weights)
    assert [str(size) for size in network.outputs["logits"].shape] == ["N", "T", "50280"]
    assert len(compile_engine(network).data) > 129_135_360 * 4


@pytest.mark.heavy
def test_the_published_size_is_built_with_its_parallel_scan_and_is_as_exact_as_torch():
    spec, weights = published()
    network = spec.define(weights=weights)
    assert len(compile_engine(network).data) > 129_135_360 * 4
    reference = spec.reference_module(td.Weights(weights))
    ids = torch.randint(0, 50280, (1, 48))
    with torch.inference_mode():
        eager, exact = reference(ids), reference.double()(ids)
    logits = td.interpret(network, {"input_ids": ids})["logits"]
    # After 24 layers of these weights, float32 is good for four digits, in torch as well.
    ours, theirs = ((x - exact).abs().max() / exact.abs().max() for x in (logits, eager))
    assert ours < 2 * theirs < 2e-4
