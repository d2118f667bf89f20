"""The gallery in half precision: what a check of each network allows there, at small sizes."""

from pathlib import Path

import pytest
import torch

import trtdsl as td
from trtdsl.core.author import load_module

pytestmark = pytest.mark.long

NETWORKS = Path(__file__).parents[2] / "networks"
SIZES = {
    "stn": {"N": 2},
    "mamba": {"N": 1, "T": 8},
    "crnn": {"N": 1, "W": 64},
    "mobilefacenet": {"N": 1},
    "vit": {"N": 1},
    "ddrnet": {"N": 1, "H": 64, "W": 128},
    "slowfast": {"N": 1, "T": 8, "H": 64, "W": 64},
    "stgcn": {"N": 1},
    "raft_small": {"N": 1, "H8": 16, "W8": 16},
    "yolo": {"N": 1, "H32": 4, "W32": 4},
}
LIGHT = ("stn", "mamba", "crnn", "mobilefacenet", "yolo")


@pytest.mark.parametrize("precision", ["fp16", "bf16"])
@pytest.mark.parametrize("name", [pytest.param(n, marks=() if n in LIGHT else pytest.mark.heavy) for n in SIZES])
def test_is_as_accurate_as_torch_in_half_precision(made_weights, name, precision):
    spec = td.load_spec(str(NETWORKS / f"{name}.py"))
    weights = None if spec.weights.exists() else made_weights(name)
    report = td.check(spec, weights=weights, dims=SIZES[name], precision=precision)
    assert report.passed, str(report)
    assert report.cases


@pytest.fixture(scope="module")
def yolo():
    return load_module(NETWORKS / "yolo.py"), load_module(NETWORKS / "reference" / "yolo.py")


@pytest.mark.parametrize("precision", ["fp16", "bf16"])
@pytest.mark.parametrize("seed", [0, pytest.param(2, marks=pytest.mark.heavy)])
def test_yolo_keeps_the_boxes_of_several_images_as_torch_does(made_weights, precision, seed):
    dims = {"N": 2, "H32": 4, "W32": 5}
    report = td.check(NETWORKS / "yolo.py", weights=made_weights("yolo"), dims=dims, precision=precision, seed=seed)
    assert report.passed, str(report)


@pytest.mark.heavy
@pytest.mark.parametrize("precision", ["fp16", "bf16"])
def test_yolo_predicts_as_accurately_as_torch_in_half_precision(yolo, made_weights, precision):
    """All boxes and scores, before the best of them are chosen."""
    file, reference = yolo

    class Predictions(reference.Detector):
        def forward(self, x):
            return dict(zip(("boxes", "scores"), super().forward(x), strict=True))

    def predictions(x: td.Tensor, w: td.Scope):
        return dict(zip(("boxes", "scores"), file.detected(x, w), strict=True))

    spec = td.network(inputs=file.yolo.inputs, reference=Predictions)(predictions)
    report = td.check(spec, weights=made_weights("yolo"), dims={"N": 2, "H32": 4, "W32": 5}, precision=precision)
    assert report.passed, str(report)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_yolo_suppresses_scores_of_half_precision_as_torch_does(yolo, dtype):
    """Every best score of an image is another number of that dtype, so that rounding decides nothing."""
    file, reference = yolo
    model = reference.Model()

    class Suppression(torch.nn.Module):
        def forward(self, candidates, ratings):
            results = [model.suppressed(*item) for item in zip(candidates, ratings, strict=True)]
            names = ("boxes", "scores", "classes", "number")
            return {name: torch.stack(parts) for name, parts in zip(names, zip(*results, strict=True), strict=True)}

    def suppression(candidates: td.Tensor, ratings: td.Tensor):
        return file.suppressed(candidates, ratings)

    inputs = {"candidates": td.Input((2, 120, 4)), "ratings": td.Input((2, 120, file.CLASSES), dtype=dtype)}
    spec = td.network(inputs=inputs, reference=Suppression)(suppression)
    random = torch.Generator().manual_seed(0)
    low = 60 * torch.rand(2, 120, 2, generator=random)
    best = torch.stack([torch.randperm(120, generator=random) + 129 for _ in range(2)]) / 256
    classes = torch.randint(3, (2, 120, 1), generator=random)
    scores = (0.5 * torch.rand(2, 120, file.CLASSES, generator=random)).scatter(2, classes, best.unsqueeze(2))
    boxes = torch.cat([low, low + 20 + 20 * torch.rand(2, 120, 2, generator=random)], 2)
    report = td.check(spec, feeds={"candidates": boxes, "ratings": scores.to(dtype)})
    assert report.passed, str(report)
    assert len(report.cases) == 1


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_raft_with_weights_and_frames_of_half_precision_keeps_its_points_in_float32(dtype):
    """The flow after 12 updates beside torch's in float32, of the same rounded weights and frames."""
    halved = load_module(NETWORKS.parent / "tools" / "bench" / "networks.py").halved
    spec, sizes = td.load_spec(str(NETWORKS / "raft_small.py")), {"N": 1, "H8": 16, "W8": 16}
    low, weights = halved(spec, None, dtype)
    feeds = {name: x.to(dtype) for name, x in td.sample_feeds(spec, sizes, torch.Generator().manual_seed(0)).items()}
    module = spec.reference_module(spec.open_weights({name: x.float() for name, x in weights.items()}))
    with torch.no_grad():
        want = module(*(x.float() for x in feeds.values()))
    net = low.define(weights=weights, dims=sizes)
    got = td.interpret(net, feeds)["flow"]
    assert got.dtype == torch.float32  # pixels: float16 has no fractions of them above 1024
    assert (got - want).abs().max() < 16 * torch.finfo(dtype).eps * want.abs().max()
