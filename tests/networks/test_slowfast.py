"""SlowFast 8×8 R50, whose weights are made for the test: PySlowFast's names, equal to torch at odd sizes."""

from pathlib import Path

import pytest
import torch
from support import layer_types, unnoticed_weights

import trtdsl as td
from trtdsl.engine.compiling.compiler import compile_engine

pytestmark = pytest.mark.long

FILE = Path(__file__).parents[2] / "networks" / "slowfast.py"
CLIPS = {"N": (1, 1, 2), "T": (4, 7, 9), "H": (64, 65, 70), "W": (64, 66, 95)}

# configs/Kinetics/SLOWFAST_8x8_R50.yaml and, for the temporal kernels, the table of the paper
WIDTH, BETA_INV, FUSION_RATIO, FUSION_KERNEL, CLASSES = 64, 8, 2, 7, 400
DEPTHS = {"s2": 3, "s3": 4, "s4": 6, "s5": 3}
TEMPORAL = {"s1": (1, 5), "s2": (1, 3), "s3": (1, 3), "s4": (3, 3), "s5": (3, 3)}


@pytest.fixture(scope="module")
def spec():
    return td.load_spec(str(FILE))


@pytest.fixture(scope="module")
def weights(made_weights):
    return made_weights("slowfast")


def published():
    """The state_dict of PySlowFast's SLOWFAST_8x8_R50, name by name: the shapes, and which of them are parameters."""
    convs, norms = {}, {}
    for pathway, width in enumerate((WIDTH, WIDTH // BETA_INV)):
        stem = f"s1.pathway{pathway}_stem"
        convs[f"{stem}.conv"] = (width, 3, TEMPORAL["s1"][pathway], 7, 7)
        norms[f"{stem}.bn"] = width
        channels = width
        for index, (stage, depth) in enumerate(DEPTHS.items()):
            inner = width * 2**index
            for k in range(depth):
                block = f"{stage}.pathway{pathway}_res{k}"
                given = 4 * inner if k else channels
                if k == 0 and pathway == 0:
                    given += channels // BETA_INV * FUSION_RATIO
                sides = {"a": (inner, given, TEMPORAL[stage][pathway], 1, 1)}
                sides |= {"b": (inner, inner, 1, 3, 3), "c": (4 * inner, inner, 1, 1, 1)}
                for name, shape in sides.items():
                    convs[f"{block}.branch2.{name}"] = shape
                    norms[f"{block}.branch2.{name}_bn"] = shape[0]
                if k == 0:
                    convs[f"{block}.branch1"] = (4 * inner, given, 1, 1, 1)
                    norms[f"{block}.branch1_bn"] = 4 * inner
            channels = 4 * inner
    for stage, width in {"s1": WIDTH, "s2": 4 * WIDTH, "s3": 8 * WIDTH, "s4": 16 * WIDTH}.items():
        fast = width // BETA_INV
        convs[f"{stage}_fuse.conv_f2s"] = (FUSION_RATIO * fast, fast, FUSION_KERNEL, 1, 1)
        norms[f"{stage}_fuse.bn"] = FUSION_RATIO * fast
    features = 32 * WIDTH + 32 * WIDTH // BETA_INV
    shapes = {"head.projection.weight": (CLASSES, features), "head.projection.bias": (CLASSES,)}
    shapes |= {f"{name}.weight": shape for name, shape in convs.items()}
    shapes |= {f"{name}.{part}": (width,) for name, width in norms.items() for part in ("weight", "bias")}
    statistics = {f"{name}.running_{part}": (width,) for name, width in norms.items() for part in ("mean", "var")}
    statistics |= {f"{name}.num_batches_tracked": () for name in norms}
    return shapes, statistics


def test_names_and_shapes_are_pyslowfasts(spec, weights):
    parameters, statistics = published()
    count = sum(torch.Size(shape).numel() for shape in parameters.values())
    assert round(count / 1e6, 2) == 34.57  # as PyTorchVideo's model zoo says
    assert {name: shape for name, (shape, _) in spec.expected_weights().items()} == parameters | statistics
    assert spec.open_weights(weights).shapes == parameters | statistics


def test_slowfast_has_the_published_number_of_multiplications(spec, weights):
    """The model zoo's 65.71 G are those of the convolutions of a clip of 32 frames of 256 by 256."""
    net = spec.define(weights=weights, dims={"N": 1, "T": 32, "H": 256, "W": 256})
    flops = sum(layer.flops for layer in td.summarize(net).layers if layer.type == "CONVOLUTION")
    assert round(flops / 2e9, 2) == 65.71


def test_equals_its_reference(spec, weights):
    report = td.check(spec, weights=weights, dims=CLIPS)
    assert report.passed
    assert len(report.cases) >= 6
    for case in (case for case in report.cases if case.draw == "normal"):
        assert case.outputs[0].scale < 0.5  # no class drowns the others
        assert case.outputs[0].max_abs < 1e-5 * case.outputs[0].scale


@pytest.mark.heavy
def test_equals_its_reference_in_its_published_size(spec, weights):
    report = td.check(spec, weights=weights, dims={"N": 1, "T": 32, "H": 224, "W": 224})
    assert report.passed


def test_rounding_stays_far_below_the_tolerance(spec, weights):
    """float32 is near float64, here as in torch: the made weights do not enlarge rounding errors layer by layer."""
    dims = {"N": 1, "T": 8, "H": 64, "W": 64}
    feeds = td.sample_feeds(spec, dims, torch.Generator().manual_seed(3))
    got = td.interpret(spec.define(weights=weights, dims=dims), feeds)["scores"]
    with torch.inference_mode():
        expected = spec.reference_module(spec.open_weights(weights)).double()(feeds["x"].double())
    assert (got - expected).abs().max() < 5e-6 * expected.max()


@pytest.mark.parametrize(("precision", "dtype"), [("bf16", torch.bfloat16), ("fp16", torch.float16)])
def test_half_precision_is_as_near_to_float32_as_torchs_autocast(spec, weights, precision, dtype):
    dims = {"N": 8, "T": 8, "H": 64, "W": 64}  # of one clip the errors are from 0.8 to 1.8 of torch's
    feeds = td.sample_feeds(spec, dims, torch.Generator().manual_seed(0))
    got = td.interpret(spec.define(weights=weights, dims=dims, precision=precision), feeds)["scores"]
    reference = spec.reference_module(spec.open_weights(weights))
    with torch.inference_mode():
        exact = reference(feeds["x"])
        with torch.autocast("cpu", dtype):
            rounded = reference(feeds["x"]).float()
    assert 0 < (got - exact).norm() < 1.5 * (rounded - exact).norm()


@pytest.mark.heavy
def test_every_weight_matters(spec, weights):
    assert not unnoticed_weights(spec, weights, {"N": 1, "T": 4, "H": 32, "W": 32})


def test_the_slow_pathway_sees_every_fourth_frame(spec, weights):
    """The slow stem's result is torch's of frames 0, 4 and 8; other frames reach it only through the fast pathway."""
    dims = {"N": 2, "T": 9, "H": 64, "W": 64}
    net = spec.define(weights=weights, dims=dims)
    feeds = td.sample_feeds(spec, dims, torch.Generator().manual_seed(0))
    slow = td.interpret(net, feeds, keep="all")["s1.pathway0_stem.relu"]
    stem = spec.reference_module(spec.open_weights(weights)).s1.pathway0_stem
    with torch.inference_mode():
        expected = torch.relu(stem.bn(stem.conv(feeds["x"][:, :, [0, 4, 8]])))
    assert slow.shape == (2, 64, 3, 32, 32)
    assert torch.allclose(slow, expected, atol=2e-5)


def test_its_engine_moves_and_takes_no_more_than_the_exported_one(spec, weights):
    """The exporter's figures, of docs/benchmarks.md: 1,747.8 MB, of which 141.3 only move, and 85.3 MB of memory."""
    program = td.program(spec.define(weights=weights, dims={"N": 1, "T": 32, "H": 224, "W": 224}, profiles=[]))
    assert program.bytes < 1.00 * 1_747_832_320
    assert program.rearranged_bytes < 0.05 * program.bytes
    assert program.memory < 1.02 * 85_262_336


def test_sizes_and_layers(spec, weights):
    net = spec.define(weights=weights)
    net.check_sizes()
    assert str(net.inputs["x"].shape) == "(N, 3, T, H, W)"
    assert str(net.outputs["scores"].shape) == "(N, 400)"
    types = layer_types(net)
    assert types.count("CONVOLUTION") == 114  # with the batch norms in their weights, four of them as sums of two
    assert types.count("SCALE") == 0
    assert types.count("POOLING") == 2  # the slow stem's maxima are slices for clips of one size alone
    assert types.count("SHAPE") == 0
    assert len(types) <= 400
    names = [net.definition.get_layer(index).name for index in range(net.definition.num_layers)]
    assert "s5.pathway0_res2.branch2.c.conv3d" in names
    assert "s4_fuse.conv_f2s.conv3d" in names


def test_engine_builds(spec, weights):
    network = spec.define(weights=weights, dims=CLIPS)
    assert len(compile_engine(network).data) > 0


def test_its_engine_for_all_sizes(spec, weights):
    program = td.program(spec.define(weights=weights), dims={"N": 1, "T": 32, "H": 224, "W": 224})
    assert program.launch_count <= 124  # 127 with slices, and with means of what was copied for them
    assert program.bytes < 1_745_000_000  # 1,844 million
