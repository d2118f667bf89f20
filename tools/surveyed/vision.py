"""Classifiers, segmentation, video, optical flow and heads: torchvision and timm."""

from __future__ import annotations

import importlib
from collections.abc import Iterator

from torch import nn

from .subject import BATCH, Subject, image

CLASSIFIERS = (
    "alexnet densenet121 efficientnet_b0 efficientnet_v2_s mnasnet0_5 mobilenet_v2 mobilenet_v3_small "
    "regnet_x_400mf regnet_y_400mf resnet18 resnet50 resnext50_32x4d shufflenet_v2_x0_5 squeezenet1_1 swin_t "
    "swin_v2_t vgg11_bn convnext_tiny mobilenet_v3_large shufflenet_v2_x1_0 squeezenet1_0 regnet_y_800mf resnet34"
)
FAMILIES = (
    "resnet18 resnet26d convnext_atto convnextv2_atto efficientnet_b0 efficientvit_m0 mobilenetv3_small_050 "
    "mobilenetv4_conv_small densenet121 dpn48b ghostnet_050 hardcorenas_a lcnet_035 regnetx_002 regnety_002 repvgg_a0 "
    "res2net50_14w_8s resnest14d rexnet_100 selecsls42 seresnext26d_32x4d skresnet18 tinynet_e xception41 dla34 "
    "edgenext_xx_small repghostnet_050 mobilevit_xxs mobilevitv2_050 poolformer_s12 pvt_v2_b0 "
    "ese_vovnet19b_dw hgnetv2_b0 mambaout_femto repvit_m0_9 eca_nfnet_l0 coatnet_nano_rw_224 "
    "maxvit_rmlp_pico_rw_256 davit_tiny cs3darknet_s focalnet_tiny_srf gcresnet33ts inception_next_tiny "
    "legacy_seresnet18 mobilenetv1_100 cspresnet50 convmixer_768_32"
)
PATCHES = {
    "vit_tiny_patch16_224": {"img_size": 64}, "deit_tiny_patch16_224": {"img_size": 64}, "mixer_s32_224": {},
    "swin_tiny_patch4_window7_224": {}, "beit_base_patch16_224": {"depth": 2, "img_size": 64},
    "cait_xxs24_224": {"depth": 2, "img_size": 64}, "eva02_tiny_patch14_224": {"depth": 2, "img_size": 56},
    "crossvit_tiny_240": {}, "xcit_nano_12_p16_224": {"depth": 2, "img_size": 64}, "gmixer_24_224": {},
    "resmlp_12_224": {}, "twins_pcpvt_small": {}, "efficientformerv2_s0": {}, "volo_d1_224": {}, "levit_128s": {},
    "vit_small_patch16_dinov3": {"depth": 2, "img_size": 64},
}  # fmt: skip


def torchvision() -> Iterator[Subject]:
    """Classifiers, then what has other inputs or outputs than they."""
    models = importlib.import_module("torchvision.models")
    for name in CLASSIFIERS.split():
        yield image(name, lambda name=name: models.get_model(name, weights=None), 64)
    yield image("inception_v3", lambda: models.inception_v3(weights=None, init_weights=False, aux_logits=False), 96)
    yield image("vit_b_16", lambda: models.VisionTransformer(64, 16, 2, 4, 64, 128), 64)
    yield image("maxvit_t", lambda: models.MaxVit((64, 64), 16, 2, [16, 16], [1, 1], 8, 0.0), 64)
    yield image("googlenet", lambda: models.googlenet(weights=None, init_weights=False, aux_logits=False), 64)
    segmentation = models.segmentation
    for name in ("deeplabv3_mobilenet_v3_large", "fcn_resnet50", "lraspp_mobilenet_v3_large"):
        made = lambda name=name: getattr(segmentation, name)(weights=None, weights_backbone=None)  # noqa: E731
        yield Subject(name, made, ["N,3,H,64"], {"H": (33, 48, 64), **BATCH})
    for name in ("r3d_18", "mc3_18"):
        made = lambda name=name: getattr(models.video, name)(weights=None)  # noqa: E731
        yield Subject(name, made, {"x": "N,3,16,64,64"}, {"N": 1})
    video = models.video.swin_transformer.SwinTransformer3d
    made = lambda: video([2, 4, 4], 12, [1, 1], [2, 2], [2, 4, 4], num_classes=5)  # noqa: E731
    yield Subject("swin3d", made, {"x": "N,3,4,32,32"}, BATCH)
    frames = {"image1": "N,3,128,128", "image2": "N,3,128,128"}
    made = lambda: _updates(models.optical_flow.raft_small(weights=None), 2)  # noqa: E731
    yield Subject("raft_small", made, frames, {"N": 1})
    yield from _heads()


def _updates(module, count):
    """RAFT with fewer updates than its 12."""
    forward = module.forward
    module.forward = lambda image1, image2: forward(image1, image2, num_flow_updates=count)
    return module


class Levels(nn.Module):
    """A head that takes a list of levels."""

    def __init__(self, head):
        super().__init__()
        self.head = head

    def forward(self, fine, coarse):
        return self.head([fine, coarse])


class Pyramid(nn.Module):
    """A pyramid that takes levels by name."""

    def __init__(self, pyramid):
        super().__init__()
        self.pyramid = pyramid

    def forward(self, fine, coarse):
        return self.pyramid({"fine": fine, "coarse": coarse})


def _heads() -> Iterator[Subject]:
    """Parts of detectors: the pyramid, and heads on regions."""
    detection = importlib.import_module("torchvision.models.detection")
    pyramid = importlib.import_module("torchvision.ops.feature_pyramid_network")
    backbone = detection.backbone_utils.resnet_fpn_backbone
    made = lambda: backbone(backbone_name="resnet18", weights=None, trainable_layers=5)  # noqa: E731
    yield Subject("resnet_fpn_backbone", made, {"x": "N,3,H,64"}, {"H": (33, 48, 64), **BATCH})
    slim = detection.backbone_utils.mobilenet_backbone
    made = lambda: slim(backbone_name="mobilenet_v3_large", weights=None, fpn=True, norm_layer=nn.BatchNorm2d)  # noqa: E731
    yield image("mobilenet_fpn_backbone", made, 64)
    made = lambda: detection.ssdlite320_mobilenet_v3_large(weights=None, weights_backbone=None).backbone  # noqa: E731
    yield image("ssdlite backbone", made, 96)
    heads = detection.keypoint_rcnn
    made = lambda: nn.Sequential(heads.KeypointRCNNHeads(8, (16, 16)), heads.KeypointRCNNPredictor(16, 5))  # noqa: E731
    yield Subject("KeypointRCNN head", made, ["N,8,14,14"], BATCH)
    masks = detection.mask_rcnn
    made = lambda: nn.Sequential(masks.MaskRCNNHeads(8, (16, 16), 1), masks.MaskRCNNPredictor(16, 8, 5))  # noqa: E731
    yield Subject("MaskRCNN head", made, ["N,8,14,14"], BATCH)
    boxes = detection.faster_rcnn
    made = lambda: nn.Sequential(boxes.TwoMLPHead(8 * 49, 32), boxes.FastRCNNPredictor(32, 5))  # noqa: E731
    yield Subject("FasterRCNN head", made, ["N,8,7,7"], BATCH)
    made = lambda: Levels(detection.retinanet.RetinaNetHead(8, 3, 5))  # noqa: E731
    yield Subject("RetinaNet head", made, ["N,8,16,16", "N,8,8,8"], BATCH)
    made = lambda: Levels(detection.fcos.FCOSHead(32, 1, 5, 1))  # noqa: E731
    yield Subject("FCOS head", made, ["N,32,16,16", "N,32,8,8"], BATCH)
    made = lambda: Levels(detection.rpn.RPNHead(8, 3))  # noqa: E731
    yield Subject("RPN head", made, ["N,8,16,16", "N,8,8,8"], BATCH)
    made = lambda: Pyramid(pyramid.FeaturePyramidNetwork([4, 8], 8))  # noqa: E731
    yield Subject("FeaturePyramidNetwork", made, ["N,4,16,16", "N,8,8,8"], BATCH)


def timm() -> Iterator[Subject]:
    """A small model of each family."""
    library = importlib.import_module("timm")
    for name in FAMILIES.split():
        side = {"coatnet_nano_rw_224": 224, "maxvit_rmlp_pico_rw_256": 256}.get(name, 64)
        yield image(name, lambda name=name: library.create_model(name, pretrained=False), side)
    for name, options in PATCHES.items():
        side = options.get("img_size", 240 if name.endswith("240") else 224)
        yield image(name, lambda n=name, o=options: library.create_model(n, pretrained=False, **o), side)
