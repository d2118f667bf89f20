"""Ports and checks modules of the libraries that are installed, and writes the table in docs/porting.md.

    python tools/survey.py                      # all libraries that can be imported
    python tools/survey.py timm kornia --write  # these, into the table

Each module is made with random weights, traced, defined and compared with itself at the ends of its sizes, unedited.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import re
import signal
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

import trtdsl as td

DOCUMENT = Path(__file__).parents[1] / "docs" / "porting.md"
BEGIN, END = "<!-- survey: python tools/survey.py --write -->", "<!-- end of survey -->"
SECONDS = 120
BATCH: dict[str, Any] = {"N": (1, 2, 3)}


@dataclass(frozen=True)
class Subject:
    """A module: what makes it, its inputs by name or in order, and the ranges of their dimensions."""

    name: str
    make: Callable[[], nn.Module]
    inputs: dict[str, str] | list[str]
    dims: dict[str, Any]


def image(name: str, make: Callable[[], nn.Module], side: int = 64, channels: int = 3) -> Subject:
    """A module of one image of a fixed side, in batches."""
    return Subject(name, make, [f"N,{channels},{side},{side}"], BATCH)


COLORS = (
    "RgbToGrayscale", "RgbToHsv", "RgbToHls", "RgbToLab", "RgbToLuv", "RgbToXyz", "RgbToYcbcr", "RgbToYuv",
    "HsvToRgb", "YuvToRgb",
)  # fmt: skip
BERT_LIKE = (
    "Bert", "Roberta", "Electra", "MPNet", "Camembert", "XLMRoberta", "Ernie", "LayoutLM", "Nezha",
    "RoFormer",
)  # fmt: skip
LLAMA_LIKE = (
    "Llama", "Qwen2", "Qwen3", "Gemma", "Mistral", "Olmo", "StableLm", "Starcoder2", "Granite", "Phi", "Glm",
    "Cohere",
)  # fmt: skip


# -- libraries -----------------------------------------------------------------------------------------------------


def plain() -> Iterator[Subject]:
    text = {"T": (2, 4, 6), **BATCH}
    yield Subject("LSTM", lambda: nn.LSTM(6, 8, 2, batch_first=True, bidirectional=True), {"input": "N,T,6"}, text)
    yield Subject("GRU", lambda: nn.GRU(6, 8), {"input": "T,N,6"}, text)
    yield Subject("RNN", lambda: nn.RNN(6, 8), {"input": "T,N,6"}, text)
    layer = lambda: nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)  # noqa: E731
    yield Subject("TransformerEncoder", lambda: nn.TransformerEncoder(layer(), 2), {"src": "N,T,16"}, text)
    yield Subject(
        "Transformer",
        lambda: nn.Transformer(16, 2, 1, 1, 32, batch_first=True),
        {"src": "N,T,16", "tgt": "N,T,16"},
        text,
    )
    yield Subject("Bilinear", lambda: nn.Bilinear(3, 4, 5), {"input1": "N,3", "input2": "N,4"}, BATCH)
    yield Subject("LocalResponseNorm", lambda: nn.LocalResponseNorm(3), {"input": "N,5,4,4"}, BATCH)
    yield Subject("Unfold", lambda: nn.Unfold(3, padding=1), {"input": "N,2,6,6"}, BATCH)
    yield Subject("EmbeddingBag", lambda: nn.EmbeddingBag(10, 4), {"input": "N,5:int64:0:10"}, BATCH)
    yield Subject("CosineSimilarity", lambda: nn.CosineSimilarity(), {"x1": "N,4", "x2": "N,4"}, BATCH)


def torchvision() -> Iterator[Subject]:
    models = importlib.import_module("torchvision.models")
    names = (
        "alexnet densenet121 efficientnet_b0 efficientnet_v2_s mnasnet0_5 mobilenet_v2 mobilenet_v3_small "
        "regnet_x_400mf regnet_y_400mf resnet18 resnet50 resnext50_32x4d shufflenet_v2_x0_5 squeezenet1_1 swin_t "
        "swin_v2_t vgg11_bn convnext_tiny"
    )
    for name in names.split():
        yield image(name, lambda name=name: models.get_model(name, weights=None), 64)
    yield image("vit_b_16", lambda: models.vit_b_16(weights=None, image_size=64), 64)
    yield image("googlenet", lambda: models.googlenet(weights=None, init_weights=False, aux_logits=False), 64)
    segmentation = models.segmentation
    for name in ("deeplabv3_mobilenet_v3_large", "fcn_resnet50", "lraspp_mobilenet_v3_large"):
        made = lambda name=name: getattr(segmentation, name)(weights=None, weights_backbone=None)  # noqa: E731
        yield image(name, made, 64)
    for name in ("r3d_18", "mc3_18", "s3d"):
        made = lambda name=name: getattr(models.video, name)(weights=None)  # noqa: E731
        yield Subject(name, made, {"x": "N,3,16,64,64"}, BATCH)


def timm() -> Iterator[Subject]:
    library = importlib.import_module("timm")
    names = (
        "resnet18 resnet26d convnext_atto convnextv2_atto efficientnet_b0 efficientvit_m0 mobilenetv3_small_050 "
        "mobilenetv4_conv_small densenet121 dpn48b ghostnet_050 hardcorenas_a hrnet_w18_small inception_v4 lcnet_035 "
        "mnasnet_small nf_regnet_b0 regnetx_002 regnety_002 repvgg_a0 res2net50_14w_8s resnest14d rexnet_100 "
        "selecsls42 seresnext26d_32x4d skresnet18 spnasnet_100 tinynet_e tresnet_m vovnet39a xception41 "
        "fbnetc_100 dla34 cspresnet50 darknet53 edgenext_xx_small fastvit_t8 repghostnet_050 starnet_s1 "
        "levit_128s mobilevit_xxs mobilevitv2_050 poolformer_s12 pvt_v2_b0 ese_vovnet19b_dw tf_efficientnet_lite0"
    )
    for name in names.split():
        yield image(name, lambda name=name: library.create_model(name, pretrained=False), 128)
    for name in ("vit_tiny_patch16_224", "deit_tiny_patch16_224", "mixer_s32_224", "swin_tiny_patch4_window7_224"):
        yield image(name, lambda name=name: library.create_model(name, pretrained=False), 224)


def transformers() -> Iterator[Subject]:
    library = importlib.import_module("transformers")
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
    ids = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
    text = {**sizes, "vocab_size": 100, "max_position_embeddings": 64}
    causal = {**text, **ids, "num_key_value_heads": 1, "head_dim": 16, "use_cache": False}
    dims = {"T": (2, 5, 8), **BATCH}
    for name in BERT_LIKE:
        if hasattr(library, f"{name}Model"):
            yield _of(library, name, text, {"input_ids": "N,T:int64:3:100"}, dims)
    for name in LLAMA_LIKE:
        yield _of(library, name, causal, {"input_ids": "N,T:int64:3:100"}, dims)
    for name in ["ViT", "DeiT", "Dinov2", "BeiT", "ViTMSN", "YolosImage"]:
        if hasattr(library, f"{name}Model") and hasattr(library, f"{name}Config"):
            yield _of(library, name, {**sizes, "image_size": 32, "patch_size": 8}, {"pixel_values": "N,3,32,32"}, BATCH)
    small = {"n_embd": 32, "n_layer": 2, "n_head": 2, "vocab_size": 100, **ids, "use_cache": False}
    yield _of(library, "GPT2", {**small, "n_positions": 64}, {"input_ids": "N,T:int64:3:100"}, dims)
    t5 = {"d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4, "vocab_size": 100}
    made = lambda: library.T5EncoderModel(library.T5Config(**t5))  # noqa: E731
    yield Subject("T5", made, {"input_ids": "N,T:int64:3:100"}, dims)
    swin = {"image_size": 32, "patch_size": 2, "embed_dim": 16, "depths": [2, 2], "num_heads": [2, 4], "window_size": 4}
    yield _of(library, "Swin", swin, {"pixel_values": "N,3,32,32"}, BATCH)
    yield _of(library, "Swinv2", swin, {"pixel_values": "N,3,32,32"}, BATCH)
    yield _of(library, "ConvNext", {"hidden_sizes": [8, 16, 16, 16]}, {"pixel_values": "N,3,64,64"}, BATCH)
    yield _of(library, "ResNet", {"hidden_sizes": [8, 16, 16, 16]}, {"pixel_values": "N,3,64,64"}, BATCH)


def _of(library: Any, name: str, sizes: dict[str, Any], inputs: dict[str, str], dims: dict[str, Any]) -> Subject:
    make = lambda: getattr(library, f"{name}Model")(getattr(library, f"{name}Config")(**sizes))  # noqa: E731
    return Subject(name, make, inputs, dims)


def kornia() -> Iterator[Subject]:
    library = importlib.import_module("kornia")
    filters, color, feature = library.filters, library.color, library.feature
    sides = {"H": (16, 20, 24), **BATCH}
    blurs = {
        "GaussianBlur2d": ((3, 3), (1.5, 1.5)), "BoxBlur": ((3, 3),), "MedianBlur": ((3, 3),), "Sobel": (),
        "Laplacian": (3,), "SpatialGradient": (), "UnsharpMask": ((3, 3), (1.5, 1.5)), "MotionBlur": (3, 35.0, 0.5),
        "BilateralBlur": ((3, 3), 0.1, (1.5, 1.5)), "BlurPool2D": (3,), "MaxBlurPool2D": (3,), "GuidedBlur": (3, 0.1),
    }  # fmt: skip
    for name, arguments in blurs.items():
        inputs = ["N,3,H,20", "N,3,H,20"] if name == "GuidedBlur" else ["N,3,H,20"]
        yield Subject(name, lambda n=name, a=arguments: getattr(filters, n)(*a), inputs, sides)
    for name in COLORS:
        yield Subject(name, lambda n=name: getattr(color, n)(), ["N,3,H,20:float32:0:1"], sides)
    for name, arguments in {"CornerHarris": (0.04,), "CornerGFTT": (), "BlobHessian": ()}.items():
        yield Subject(name, lambda n=name, a=arguments: getattr(feature, n)(*a), ["N,1,H,20"], sides)
    for name in ("HardNet", "HyNet", "SOSNet", "TFeat"):
        yield image(name, lambda n=name: getattr(feature, n)(pretrained=False), 32, channels=1)
    transform = library.geometry.transform
    yield Subject("PyrDown", lambda: transform.PyrDown(), ["N,3,16,20"], BATCH)
    yield Subject("PyrUp", lambda: transform.PyrUp(), ["N,3,16,20"], BATCH)
    yield Subject("Hflip", lambda: transform.Hflip(), ["N,3,H,20"], sides)
    yield Subject("Rescale", lambda: transform.Rescale(2.0), ["N,3,H,20"], sides)
    yield Subject("SSIM", lambda: library.metrics.SSIM(5), ["N,1,H,20", "N,1,H,20"], sides)


def monai() -> Iterator[Subject]:
    nets = importlib.import_module("monai.networks.nets")
    steps = {"channels": (4, 8, 16), "strides": (2, 2)}
    ends = {"spatial_dims": 3, "in_channels": 1, "out_channels": 2}
    made: dict[str, Callable[[], nn.Module]] = {
        "UNet": lambda: nets.UNet(**ends, **steps, num_res_units=2),
        "AttentionUnet": lambda: nets.AttentionUnet(**ends, **steps),
        "BasicUNet": lambda: nets.BasicUNet(**ends, features=(4, 4, 8, 8, 8, 4)),
        "SegResNet": lambda: nets.SegResNet(**ends, init_filters=8),
        "VNet": lambda: nets.VNet(**ends),
        "HighResNet": lambda: nets.HighResNet(**ends),
        "DenseNet121": lambda: nets.DenseNet121(**ends),
        "DynUNet": lambda: nets.DynUNet(
            **ends, kernel_size=[3, 3, 3], strides=[1, 2, 2], upsample_kernel_size=[2, 2], filters=[4, 8, 8]
        ),
        "UNETR": lambda: nets.UNETR(1, 2, (32, 32, 32), 4, 24, 48, 3),
        "SwinUNETR": lambda: nets.SwinUNETR(1, 2, feature_size=12),
    }
    for name, make in made.items():
        side = 64 if name == "SwinUNETR" else 32  # what it halves five times must be more than one
        yield Subject(name, make, [f"N,1,{side},{side},{side}"], {"N": 1} if side == 64 else BATCH)


def diffusers() -> Iterator[Subject]:
    library = importlib.import_module("diffusers")
    small = {"block_out_channels": (8, 16), "norm_num_groups": 4, "layers_per_block": 1}
    blocks = {"down_block_types": ("DownBlock2D", "AttnDownBlock2D"), "up_block_types": ("AttnUpBlock2D", "UpBlock2D")}
    latent = {"sample": "N,4,16,16", "timestep": "N:int64:0:1000"}
    yield Subject(
        "UNet2DModel",
        lambda: library.UNet2DModel(
            sample_size=16, in_channels=4, out_channels=4, attention_head_dim=4, **small, **blocks
        ),
        latent,
        BATCH,
    )
    yield Subject(
        "UNet2DConditionModel",
        lambda: library.UNet2DConditionModel(
            sample_size=16, cross_attention_dim=8, attention_head_dim=4, **small,
            down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"), 
            up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"),
        ),
        {**latent, "encoder_hidden_states": "N,5,8"},
        BATCH,
    )  # fmt: skip
    coder = {"down_block_types": ("DownEncoderBlock2D",) * 2, "up_block_types": ("UpDecoderBlock2D",) * 2}
    yield image("AutoencoderKL", lambda: library.AutoencoderKL(**small, **coder), 16)
    yield image("AutoencoderTiny", lambda: library.AutoencoderTiny(
        encoder_block_out_channels=(8, 8), decoder_block_out_channels=(8, 8), num_encoder_blocks=(1, 1),
        num_decoder_blocks=(1, 1)), 16)  # fmt: skip
    yield image("VQModel", lambda: library.VQModel(**small, **coder, num_vq_embeddings=16), 16)


LIBRARIES: dict[str, Callable[[], Iterator[Subject]]] = {
    "torch": plain, "torchvision": torchvision, "timm": timm, "transformers": transformers, "kornia": kornia,
    "monai": monai, "diffusers": diffusers,
}  # fmt: skip


# -- the survey ----------------------------------------------------------------------------------------------------


def verdict(subject: Subject) -> str:
    """Empty where the module is equal; otherwise why it is not."""
    with _within(SECONDS), warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        torch.manual_seed(0)
        try:
            spec = td.from_module(subject.make().eval(), subject.inputs, dims=subject.dims)
            td.check(spec).raise_for_mismatch()
        except td.TrtdslError as error:
            return str(error).split("\n")[0]
        except Exception as error:
            line = traceback.extract_tb(error.__traceback__)[-1]
            return f"{type(error).__name__}: {error} ({Path(line.filename).name}:{line.lineno})".replace("\n", " ")
    return ""


def rows(names: list[str]) -> Iterator[str]:
    """A row of the table for each library."""
    for name in names:
        try:
            version = getattr(importlib.import_module(name), "__version__", "")
            subjects = list(LIBRARIES[name]())
        except Exception as error:
            print(f"{name} cannot be imported: {type(error).__name__}: {error}", file=sys.stderr)
            continue
        failed: dict[str, str] = {}
        for subject in subjects:
            why = verdict(subject)
            print(f"{name} {subject.name}: {why or 'equal'}", file=sys.stderr, flush=True)
            if why:
                failed[subject.name] = why
        equal = ", ".join(subject.name for subject in subjects if subject.name not in failed)
        version = version.split("+")[0]
        yield f"| {name} {version} | {len(subjects)} | {len(subjects) - len(failed)} | {equal} | {', '.join(failed)} |"


def _declare_operators_of_torchvision() -> None:
    """torchvision that is built for another torch can be imported where its operators are known by name."""
    for name in ("nms", "qnms"):
        if not hasattr(torch.ops.torchvision, name):
            torch.library.define(f"torchvision::{name}", "(Tensor a, Tensor b, float c) -> Tensor")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("libraries", nargs="*", help=f"of {', '.join(LIBRARIES)}; all of them by default")
    parser.add_argument("--write", action="store_true", help="write the rows into docs/porting.md")
    options = parser.parse_args()
    unknown = [name for name in options.libraries if name not in LIBRARIES]
    if unknown:
        parser.error(f"no library {', '.join(unknown)}")
    _declare_operators_of_torchvision()
    lines = list(rows(options.libraries or list(LIBRARIES)))
    table = "\n".join(["| modules of | tried | equal | which | not yet |", "|---|---|---|---|---|", *lines])
    print(table)
    if options.write:
        text = DOCUMENT.read_text()
        pattern = re.compile(f"{re.escape(BEGIN)}.*?{re.escape(END)}", re.DOTALL)
        DOCUMENT.write_text(pattern.sub(lambda _: f"{BEGIN}\n\n{table}\n\n{END}", text))


@contextlib.contextmanager
def _within(seconds: int) -> Iterator[None]:
    def stop(*_: Any) -> None:
        raise TimeoutError(f"more than {seconds} s")

    signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)


if __name__ == "__main__":
    main()
