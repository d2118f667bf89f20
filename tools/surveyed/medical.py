"""Networks for volumes and medical images: monai."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator

from torch import nn

from .subject import BATCH, Subject

VOLUME = {"spatial_dims": 3, "in_channels": 1, "out_channels": 2}
PLANE = {"spatial_dims": 2, "in_channels": 1, "out_channels": 2}
STEPS = {"channels": (4, 8, 16), "strides": (2, 2)}


def monai() -> Iterator[Subject]:
    """Volumes of 32, the costly ones less; then planes."""
    nets = importlib.import_module("monai.networks.nets")
    made: dict[str, Callable[[], nn.Module]] = {
        "UNet": lambda: nets.UNet(**VOLUME, **STEPS, num_res_units=2),
        "AttentionUnet": lambda: nets.AttentionUnet(**VOLUME, **STEPS),
        "BasicUNet": lambda: nets.BasicUNet(**VOLUME, features=(4, 4, 8, 8, 8, 4)),
        "SegResNet": lambda: nets.SegResNet(**VOLUME, init_filters=8),
        "VNet": lambda: nets.VNet(**VOLUME),
        "HighResNet": lambda: nets.HighResNet(**VOLUME),
        "DenseNet121": lambda: nets.DenseNet121(**VOLUME),
        "DynUNet": lambda: nets.DynUNet(
            **VOLUME, kernel_size=[3, 3, 3], strides=[1, 2, 2], upsample_kernel_size=[2, 2], filters=[4, 8, 8]
        ),
        "UNETR": lambda: nets.UNETR(1, 2, (32, 32, 32), 4, 24, 48, 3),
        "SwinUNETR": lambda: nets.SwinUNETR(1, 2, feature_size=12),
        "ResNet": lambda: nets.ResNet("basic", [1, 1, 1, 1], [4, 8, 8, 16], n_input_channels=1, num_classes=3),
        "ViT": lambda: nets.ViT(1, (32, 32, 32), (16, 16, 16), 24, 48, 2, 3, classification=True),
    }
    for name, make in made.items():
        side = 64 if name == "SwinUNETR" else 32  # what it halves five times must be more than one
        yield Subject(name, make, [f"N,1,{side},{side},{side}"], {"N": 1} if side == 64 else BATCH)
    yield from _planes(nets)


def _planes(nets) -> Iterator[Subject]:
    features = (4, 4, 8, 8, 8, 4)
    made: dict[str, Callable[[], nn.Module]] = {
        "BasicUNetPlusPlus": lambda: nets.BasicUNetPlusPlus(**PLANE, features=features),
        "FlexibleUNet": lambda: nets.FlexibleUNet(1, 2, "efficientnet-b0", spatial_dims=2),
        "EfficientNetBN": lambda: nets.EfficientNetBN("efficientnet-b0", pretrained=False, in_channels=1),
        "SegResNetDS": lambda: nets.SegResNetDS(2, 8, 1, 2, blocks_down=(1, 1, 1)),
        "SegResNet deconv": lambda: nets.SegResNet(2, 8, 1, 2, upsample_mode="deconv"),
        "AHNet": lambda: nets.AHNet((1, 1, 1, 1), 2, 1, 2, psp_block_num=0, upsample_mode="bilinear"),
        "AutoEncoder": lambda: nets.AutoEncoder(2, 1, 1, (4, 8), (2, 2)),
        "Classifier": lambda: nets.Classifier((1, 32, 32), 3, (4, 8), (2, 2)),
        "Regressor": lambda: nets.Regressor((1, 32, 32), (2,), (4, 8), (2, 2)),
        "Critic": lambda: nets.Critic((1, 32, 32), (4, 8), (2, 2)),
        "RegUNet": lambda: nets.RegUNet(2, 1, 4, 2, out_channels=2),
        "LocalNet": lambda: nets.LocalNet(2, 1, 4, (0, 1, 2), "zeros", None, 2),
        "GlobalNet": lambda: nets.GlobalNet((32, 32), 2, 1, 4, 2),
        "MedNeXt": lambda: nets.MedNeXt(2, 4, 1, 2, blocks_down=(1, 1), blocks_up=(1, 1), blocks_bottleneck=1),
        "ViTAutoEnc": lambda: nets.ViTAutoEnc(
            1, (32, 32), (16, 16), hidden_size=24, mlp_dim=48, num_layers=2, num_heads=2, spatial_dims=2
        ),
        "SENet": lambda: nets.SEResNet50(spatial_dims=2, in_channels=1, num_classes=3, layers=(1, 1, 1, 1)),
        "PatchDiscriminator": lambda: nets.PatchDiscriminator(2, 4, 1, num_layers_d=2),
        "Quicknat": lambda: nets.Quicknat(2, 1, 8),
        "VQVAE": lambda: nets.VQVAE(
            2, 1, 1, (4, 8), 1, (4, 4), ((2, 4, 1, 1), (2, 4, 1, 1)), ((2, 4, 1, 1, 0), (2, 4, 1, 1, 0)), 16, 4
        ),
    }
    made["UNETR plane"] = lambda: nets.UNETR(1, 2, (32, 32), 4, 24, 48, 3, spatial_dims=2)
    made["VNet plane"] = lambda: nets.VNet(2, 1, 2)
    made["HighResNet plane"] = lambda: nets.HighResNet(2, 1, 2)
    for name, make in made.items():
        yield Subject(name, make, ["N,1,32,32"], BATCH)
    tall = {"H": (1, 2, 3), **BATCH}
    yield Subject("BasicUNet sides", lambda: nets.BasicUNet(**PLANE, features=features), ["N,1,16*H,32"], tall)
    made_unet = lambda: nets.DiffusionModelUNet(2, 1, 1, (1, 1), (8, 16), (False, True), 4, num_head_channels=8)  # noqa: E731
    yield Subject("DiffusionModelUNet", made_unet, {"x": "N,1,16,16", "timesteps": "N:int64:0:1000"}, BATCH)
    yield Subject("FullyConnectedNet", lambda: nets.FullyConnectedNet(6, 3, (8, 8)), ["N,6"], BATCH)
    yield Subject("MILModel", lambda: nets.MILModel(3, mil_mode="att", pretrained=False), ["N,2,3,64,64"], BATCH)
