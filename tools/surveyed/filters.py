"""Filters, colors, features, geometry, losses and small networks of kornia."""

from __future__ import annotations

import importlib
from collections.abc import Iterator

from .subject import BATCH, Subject, image

COLORS = (
    "RgbToGrayscale", "RgbToHsv", "RgbToHls", "RgbToLab", "RgbToLuv", "RgbToXyz", "RgbToYcbcr", "RgbToYuv",
    "HsvToRgb", "YuvToRgb", "LabToRgb", "XyzToRgb", "YcbcrToRgb", "BgrToRgb", "RgbToBgr", "RgbToLinearRgb",
)  # fmt: skip
BLURS = {
    "GaussianBlur2d": ((3, 3), (1.5, 1.5)), "BoxBlur": ((3, 3),), "MedianBlur": ((5, 5),), "Sobel": (),
    "Laplacian": (3,), "SpatialGradient": (), "UnsharpMask": ((3, 3), (1.5, 1.5)), "MotionBlur": (3, 35.0, 0.5),
    "BilateralBlur": ((3, 3), 0.1, (1.5, 1.5)), "BlurPool2D": (3,), "MaxBlurPool2D": (3,), "GuidedBlur": (3, 0.1),
    "Canny": (), "InRange": ((0.2, 0.2, 0.2), (0.7, 0.7, 0.7)),
}  # fmt: skip
ADJUSTED = {
    "AdjustBrightness": (0.2,), "AdjustContrast": (0.8,), "AdjustGamma": (2.0,), "AdjustSaturation": (1.5,),
    "AdjustHue": (0.3,), "Invert": (),
}  # fmt: skip


def kornia() -> Iterator[Subject]:
    """Modules on images of a dynamic height; a few with fixed sides."""
    library = importlib.import_module("kornia")
    filters, color, enhance = library.filters, library.color, library.enhance
    sides = {"H": (16, 20, 24), **BATCH}
    for name, arguments in BLURS.items():
        inputs = ["N,3,H,20", "N,3,H,20"] if name == "GuidedBlur" else ["N,3,H,20:float32:0:1"]
        yield Subject(name, lambda n=name, a=arguments: getattr(filters, n)(*a), inputs, sides)
    for name in COLORS:
        yield Subject(name, lambda n=name: getattr(color, n)(), ["N,3,H,20:float32:0:1"], sides)
    for name in ADJUSTED:
        given = ["N,3,H,20:float32:0:1"]
        yield Subject(name, lambda n=name: getattr(enhance, n)(*ADJUSTED[n]), given, sides)
    yield from _features(library, sides)
    yield from _geometry(library, sides)
    yield from _networks(library)


def _features(library, sides) -> Iterator[Subject]:
    feature = library.feature
    for name, arguments in {"CornerHarris": (0.04,), "CornerGFTT": (), "BlobHessian": (), "BlobDoG": ()}.items():
        given = ["N,1,5,H,20"] if name == "BlobDoG" else ["N,1,H,20"]
        yield Subject(name, lambda n=name, a=arguments: getattr(feature, n)(*a), given, sides)
    for name in ("HardNet", "HyNet", "SOSNet", "TFeat"):
        yield image(name, lambda n=name: getattr(feature, n)(pretrained=False), 32, channels=1)
    yield image("HardNet8", lambda: feature.HardNet8(False), 32, channels=1)
    yield Subject("OriNet", lambda: feature.OriNet(False), ["N,1,32,32:float32:0:1"], BATCH)
    yield image("DISK", lambda: feature.DISK(8).unet, 32)
    yield image("LoFTR backbone", lambda: feature.LoFTR(None).backbone, 32, channels=1)
    given = ["N,2,2,3", "N,1,32,32"]
    yield Subject("LAFAffNetShapeEstimator", lambda: feature.LAFAffNetShapeEstimator(False), given, BATCH)
    yield image("SIFTDescriptor", lambda: feature.SIFTDescriptor(32), 32, channels=1)
    yield image("LAFOrienter", lambda: feature.PatchDominantGradientOrientation(32), 32, channels=1)


def _geometry(library, sides) -> Iterator[Subject]:
    transform, losses = library.geometry.transform, library.losses
    yield Subject("PyrDown", lambda: transform.PyrDown(), ["N,3,16,20"], BATCH)
    yield Subject("PyrUp", lambda: transform.PyrUp(), ["N,3,16,20"], BATCH)
    yield Subject("ScalePyramid", lambda: transform.ScalePyramid(1, 1.6, 16), ["N,1,32,32"], BATCH)
    yield Subject("Hflip", lambda: transform.Hflip(), ["N,3,H,20"], sides)
    yield Subject("Vflip", lambda: transform.Vflip(), ["N,3,H,20"], sides)
    yield Subject("Rot180", lambda: transform.Rot180(), ["N,3,H,20"], sides)
    yield Subject("Rescale", lambda: transform.Rescale(2.0), ["N,3,H,20"], sides)
    yield Subject("Resize", lambda: transform.Resize((12, 14)), ["N,3,H,20"], sides)
    import torch

    yield Subject("Rotate", lambda: transform.Rotate(torch.tensor([30.0])), ["1,3,16,20"], {})
    yield Subject("Translate", lambda: transform.Translate(torch.tensor([[1.5, 2.0]])), ["1,3,16,20"], {})
    yield Subject("Scale", lambda: transform.Scale(torch.tensor([[1.5, 1.5]])), ["1,3,16,20"], {})
    two = ["N,1,H,20:float32:0:1", "N,1,H,20:float32:0:1"]
    yield Subject("SSIM", lambda: library.metrics.SSIM(5), two, sides)
    yield Subject("SSIMLoss", lambda: losses.SSIMLoss(5), two, sides)
    yield Subject("TotalVariation", lambda: losses.TotalVariation(), ["N,3,H,20"], sides)
    yield Subject("PSNRLoss", lambda: losses.PSNRLoss(1.0), two, sides)
    labels = ["N,4,H,20", "N,H,20:int64:0:4"]
    yield Subject("DiceLoss", lambda: losses.DiceLoss(), labels, sides)
    yield Subject("FocalLoss", lambda: losses.FocalLoss(0.5, reduction="mean"), labels, sides)
    yield Subject(
        "InverseDepthSmoothnessLoss", lambda: losses.InverseDepthSmoothnessLoss(), ["N,1,H,20", "N,3,H,20"], sides
    )


def _networks(library) -> Iterator[Subject]:
    contrib, feature = library.contrib, library.feature
    models = importlib.import_module("kornia.models")
    for name in ("vit_mobile", "vit", "dexined"):
        importlib.import_module(f"kornia.models.{name}")
    yield image("MobileViT", lambda: models.vit_mobile.MobileViT("xxs"), 64)
    made = lambda: models.vit.VisionTransformer(image_size=32, patch_size=8, embed_dim=16, depth=2, num_heads=2)  # noqa: E731
    yield image("VisionTransformer", made, 32)
    yield image("ExtractTensorPatches", lambda: contrib.ExtractTensorPatches(8, 4), 16)
    made = lambda: contrib.CombineTensorPatches((16, 16), 8, 8)  # noqa: E731
    yield Subject("CombineTensorPatches", made, ["N,4,3,8,8"], BATCH)
    yield image("DexiNed", lambda: models.dexined.DexiNed(pretrained=False), 32)
    yield image("KeyNet", lambda: feature.KeyNet(pretrained=False), 32, channels=1)
    yield image("DeFMO", lambda: feature.DeFMO(pretrained=False), 32, channels=6)
    yield image("ConvSoftArgmax2d", lambda: library.geometry.ConvSoftArgmax2d(), 8, channels=1)
    yield image("SpatialSoftArgmax2d", lambda: library.geometry.SpatialSoftArgmax2d(), 8, channels=2)
