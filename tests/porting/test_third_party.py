"""Modules of transformers, timm and torchvision: ported, defined and equal, without editing."""

import importlib
import importlib.util
import warnings
from pathlib import Path

import pytest
import torch

pytestmark = pytest.mark.long

THIRD_PARTY = Path(__file__).parent / "third_party.py"
BATCH = {"N": (1, 2, 3)}
LENGTH = {**BATCH, "T": (2, 9, 16)}
SIDES = {"H": (64, 64, 96), "W": (64, 80, 96)}
IDS, IMAGE, PIXELS = {"input_ids": "N,T:int64"}, {"x": "N,3,64,64"}, {"pixel_values": "N,3,32,32"}

TRANSFORMERS = {
    "bert": (IDS, LENGTH),
    "distilbert": (IDS, LENGTH),
    "t5": (IDS, LENGTH),
    "gpt2": (IDS, LENGTH),
    "llama": (IDS, LENGTH),
    "CachedLlama": (
        {
            "tokens": "N,S:int64:0:100",
            "positions": "N,S:int64:0:64",
            **dict.fromkeys(("keys", "values"), "N,2,P,8"),
        },
        {**BATCH, "S": (1, 1, 8), "P": (1, 9, 16)},  # prefill and decode in one file
    ),
    "qwen2": (IDS, LENGTH),
    "clip_text": ({"input_ids": "N,16:int64"}, BATCH),
    "vit": (PIXELS, BATCH),
    "dinov2": ({"pixel_values": "N,3,28,28"}, BATCH),
    "swin": (PIXELS, BATCH),
    "segformer": ({"pixel_values": "1,3,H,W"}, {"H": (64, 96, 128), "W": (64, 64, 96)}),
    "wav2vec2": ({"input_values": "N,S"}, {**BATCH, "S": (400, 500, 640)}),
    "whisper_encoder": ({"input_features": "N,80,100"}, BATCH),
}
SWIN = {"img_size": 64, "window_size": 4, "embed_dim": 24, "depths": [2, 2], "num_heads": [2, 4]}
TIMM = {
    "resnet18": {},
    "convnext_atto": {},
    "mobilenetv3_small_050": {},
    "swin_tiny_patch4_window7_224": SWIN,
    "vit_tiny_patch16_224": {"img_size": 64},
}
TORCHVISION = {
    "resnet18": ("torchvision.models", {"x": "1,3,H,W"}, SIDES, {}),
    "swin_t": ("torchvision.models", IMAGE, {"N": (1, 1, 2)}, {}),
    "deeplabv3_mobilenet_v3_large": (
        "torchvision.models.segmentation",
        {"x": "1,3,64,W"},
        {"W": (64, 80, 96)},
        {"weights_backbone": None},
    ),
}


@pytest.fixture(autouse=True)
def _offline(monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the libraries, about themselves
        yield


def needs(name):
    """Skips where the library is not installed.

    PyPI's torchvision is built for CUDA's torch; its modules, which are Python, work with that of the CPU where
    the operators that its library would bring are declared.
    """
    if importlib.util.find_spec(name) is None:
        pytest.skip(f"{name} is not installed")
    if importlib.util.find_spec("torchvision") is not None and not torch.version.cuda:
        for operator in ("nms", "qnms"):
            if not hasattr(torch.ops.torchvision, operator):
                torch.library.define(f"torchvision::{operator}", "(Tensor a, Tensor b, float c) -> Tensor")
    importlib.import_module(name)


# Every run of the tests ports one of a family; -m heavy the others, too.
OFTEN = {"bert", "llama", "wav2vec2", "swin_tiny_patch4_window7_224", "swin_t"}


def some(names):
    return [name if name in OFTEN else pytest.param(name, marks=pytest.mark.heavy) for name in names]


@pytest.mark.parametrize("name", some(TRANSFORMERS))
def test_transformers(port, name):
    needs("transformers")
    inputs, dims = TRANSFORMERS[name]
    port(f"{THIRD_PARTY}:{name}", inputs, dims=dims).check()


@pytest.mark.parametrize("name", some(TIMM))
def test_timm(port, name):
    needs("timm")
    arguments = {"model_name": name, **TIMM[name]}
    port("timm:create_model", IMAGE, dims={"N": (1, 1, 2)}, arguments=arguments).check()


@pytest.mark.parametrize("name", some(TORCHVISION))
def test_torchvision(port, name):
    needs("torchvision")
    place, inputs, dims, arguments = TORCHVISION[name]
    port(f"{place}:{name}", inputs, dims=dims, arguments=arguments).check()
