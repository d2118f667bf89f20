"""Models whose engines `tools/bench/models.py` measures: of other libraries, at fixed sizes, with made weights."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from typing import Any

from torch import nn

from .subject import Subject
from .vision import Levels

MAKERS: dict[str, Callable[[Any], Iterator[Subject]]] = {}

CLASSIFIERS = (
    "resnet18 densenet121 mobilenet_v3_small efficientnet_b0 shufflenet_v2_x1_0 convnext_tiny regnet_y_400mf "
    "squeezenet1_1 mnasnet0_5 swin_t swin_v2_t"
)
FAMILIES = {
    "legacy_seresnet18": 224, "ecaresnet26t": 224, "gcresnet33ts": 224, "skresnet18": 224, "cspresnet50": 224,
    "res2net50_14w_8s": 224, "ghostnet_050": 224, "mobilevit_xxs": 256, "levit_128s": 224, "poolformer_s12": 224,
    "mixer_s32_224": 224, "coat_lite_tiny": 224, "pvt_v2_b0": 224, "edgenext_xx_small": 256, "efficientvit_m0": 224,
    "xcit_nano_12_p16_224": 224, "hgnetv2_b0": 224, "repvit_m0_9": 224, "deit_tiny_patch16_224": 224,
}  # fmt: skip
SIZES = {"hidden_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 512}
TOKENS = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
TEXT = {**SIZES, "vocab_size": 1000, "max_position_embeddings": 256}
IDS = {"input_ids": "2,128:int64:3:1000"}
BOTH = {**IDS, "decoder_input_ids": "2,32:int64:3:1000"}


def maker(make: Callable[[Any], Iterator[Subject]]) -> Callable[[Any], Iterator[Subject]]:
    """Enters the models of a library under the library's name."""
    MAKERS[make.__name__] = make
    return make


def still(name: str, make: Callable[[], nn.Module], inputs: dict[str, str] | list[str]) -> Subject:
    """A model at one size."""
    return Subject(name, make, inputs, {})


def pixels(name: str, make: Callable[[], nn.Module], side: int = 224, channels: int = 3) -> Subject:
    """A model of one image."""
    return Subject(name, make, [f"1,{channels},{side},{side}"], {})


@maker
def torchvision(library: Any) -> Iterator[Subject]:
    models = importlib.import_module("torchvision.models")
    for name in CLASSIFIERS.split():
        yield pixels(name, lambda name=name: models.get_model(name, weights=None))
    yield pixels("googlenet", lambda: models.googlenet(weights=None, init_weights=False, aux_logits=False))
    yield pixels("vit, 4 blocks", lambda: models.VisionTransformer(224, 16, 4, 6, 384, 1536))
    yield pixels("maxvit, small", lambda: models.MaxVit((224, 224), 32, 7, [32, 64], [1, 1], 32, 0.0))
    for name in ("deeplabv3_mobilenet_v3_large", "fcn_resnet50", "lraspp_mobilenet_v3_large"):
        made = lambda name=name: getattr(models.segmentation, name)(weights=None, weights_backbone=None)  # noqa: E731
        yield pixels(name, made)
    yield still("r3d_18", lambda: models.video.r3d_18(weights=None), ["1,3,8,64,64"])
    yield still("s3d", lambda: models.video.s3d(weights=None), ["1,3,16,224,224"])
    detection = importlib.import_module("torchvision.models.detection")
    backbone = detection.backbone_utils.resnet_fpn_backbone
    yield pixels("resnet18 pyramid", lambda: backbone(backbone_name="resnet18", weights=None, trainable_layers=5))
    made = lambda: detection.ssdlite320_mobilenet_v3_large(weights=None, weights_backbone=None).backbone  # noqa: E731
    yield pixels("ssdlite backbone", made, 320)
    made = lambda: Levels(detection.retinanet.RetinaNetHead(64, 9, 91))  # noqa: E731
    yield still("RetinaNet head", made, ["1,64,32,32", "1,64,16,16"])


@maker
def timm(library: Any) -> Iterator[Subject]:
    for name, side in FAMILIES.items():
        yield pixels(name, lambda name=name: library.create_model(name, pretrained=False), side)


@maker
def transformers(library: Any) -> Iterator[Subject]:
    def subject(name: str, sizes: Any, inputs: Any, kind: str = "Model") -> Subject:
        make = lambda: getattr(library, f"{name}{kind}")(getattr(library, f"{name}Config")(**sizes))  # noqa: E731
        return still(name if kind == "Model" else name + kind, make, inputs)

    for name in ("Bert", "Roberta", "Electra"):
        yield subject(name, TEXT, IDS)
    yield subject("DebertaV2", {**TEXT, "relative_attention": True, "pos_att_type": ["p2c", "c2p"]}, IDS)
    decoder = {"n_embd": 128, "n_layer": 2, "n_head": 4, "vocab_size": 1000, **TOKENS, "use_cache": False}
    yield subject("GPT2", {**decoder, "n_positions": 256}, IDS)
    causal = {**TEXT, **TOKENS, "num_key_value_heads": 2, "head_dim": 32, "use_cache": False}
    for name in ("Llama", "Qwen3", "Gemma2"):
        yield subject(name, causal, IDS)
    t5 = {"d_model": 128, "d_kv": 32, "d_ff": 512, "num_layers": 2, "num_heads": 4, "vocab_size": 1000}
    yield subject("T5", {**t5, **TOKENS, "use_cache": False, "decoder_start_token_id": 0}, BOTH)
    bart = {
        "d_model": 128, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4,
        "decoder_attention_heads": 4, "encoder_ffn_dim": 512, "decoder_ffn_dim": 512, **TOKENS, "use_cache": False,
        "vocab_size": 1000,
    }  # fmt: skip
    yield subject("Bart", {**bart, "max_position_embeddings": 256, "decoder_start_token_id": 2}, BOTH)
    whisper = {**bart, "max_source_positions": 100, "max_target_positions": 40, "decoder_start_token_id": 1}
    sound = {"input_features": "1,80,200", "decoder_input_ids": "1,16:int64:3:1000"}
    yield subject("Whisper", {**whisper, "num_mel_bins": 80}, sound)
    wave = {**SIZES, "num_conv_pos_embeddings": 32, "num_conv_pos_embedding_groups": 4, "vocab_size": 32}
    narrow = {"conv_dim": [64] * 7}
    yield subject("Wav2Vec2", {**wave, **narrow}, {"input_values": "1,16000"}, "ForCTC")
    state = {"hidden_size": 128, "num_hidden_layers": 2, "state_size": 8, "vocab_size": 1000, **TOKENS}
    yield subject("Mamba", {**state, "use_cache": False}, {"input_ids": "1,16:int64:3:1000"})
    image_of = {"pixel_values": "1,3,224,224"}
    yield subject("CLIPVision", {**SIZES, "image_size": 224, "patch_size": 16}, image_of)
    pyramid = {"hidden_sizes": [16, 32, 64, 128], "decoder_hidden_size": 64}
    yield subject("Segformer", pyramid, image_of, "ForSemanticSegmentation")
    boxes = {
        "backbone_config": library.ResNetConfig(
            embedding_size=16, hidden_sizes=[16, 32, 64, 128], depths=[1, 1, 1, 1], out_features=["stage4"]
        ),
        "use_timm_backbone": False, "use_pretrained_backbone": False, "backbone": None, "num_queries": 50,
        **{key: value for key, value in bart.items() if key not in (*TOKENS, "use_cache", "vocab_size")},
    }  # fmt: skip
    yield subject("Detr", boxes, image_of, "ForObjectDetection")
    sam = {"image_size": 224, "patch_size": 16, "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2,
           "mlp_dim": 256, "output_channels": 32, "window_size": 7, "global_attn_indexes": [1]}  # fmt: skip
    yield subject("SamVision", sam, image_of)


@maker
def diffusers(library: Any) -> Iterator[Subject]:
    small = {"block_out_channels": (32, 64), "norm_num_groups": 8, "layers_per_block": 1}
    cross = {
        "down_block_types": ("CrossAttnDownBlock2D", "DownBlock2D"),
        "up_block_types": ("UpBlock2D", "CrossAttnUpBlock2D"),
    }
    sizes = {**small, **cross, "sample_size": 32, "in_channels": 4, "out_channels": 4, "cross_attention_dim": 64}
    latent = {"sample": "2,4,32,32", "timestep": "2:int64:0:1000", "encoder_hidden_states": "2,16,64"}
    made = lambda: library.UNet2DConditionModel(**sizes, attention_head_dim=4)  # noqa: E731
    yield still("UNet2DConditionModel", made, latent)
    coder = {"down_block_types": ("DownEncoderBlock2D",) * 2, "up_block_types": ("UpDecoderBlock2D",) * 2}

    def decoder() -> nn.Module:
        whole = library.AutoencoderKL(**small, **coder)
        return nn.Sequential(whole.post_quant_conv, whole.decoder)

    yield pixels("AutoencoderKL decoder", decoder, 32, 4)
    heads = {"num_attention_heads": 4, "attention_head_dim": 32, "num_layers": 2, "norm_num_groups": 32}
    made = lambda: library.DiTTransformer2DModel(**heads, in_channels=4, sample_size=32, patch_size=2)  # noqa: E731
    label = {"hidden_states": "2,4,32,32", "timestep": "2:int64:0:1000", "class_labels": "2:int64:0:1000"}
    yield still("DiTTransformer2DModel", made, label)


@maker
def torchaudio(library: Any) -> Iterator[Subject]:
    models = library.models
    yield still("DeepSpeech", lambda: models.DeepSpeech(40, 256, 30), {"x": "1,1,50,40"})
    yield still("ConvTasNet", lambda: models.ConvTasNet(2, 16, 128, 3, 64, 128, 4, 2), {"input": "1,1,4000"})
    conformer = importlib.import_module("torchaudio.models.conformer")
    layer = lambda: conformer.ConformerLayer(128, 512, 4, 31)  # noqa: E731
    yield still("ConformerLayer", layer, {"input": "100,2,128", "key_padding_mask": "2,100:bool"})


@maker
def monai(library: Any) -> Iterator[Subject]:
    nets = importlib.import_module("monai.networks.nets")
    volume = {"spatial_dims": 3, "in_channels": 1, "out_channels": 2}
    steps = {"channels": (16, 32, 64), "strides": (2, 2)}
    given = ["1,1,48,48,48"]
    yield still("UNet, 3D", lambda: nets.UNet(**volume, **steps, num_res_units=2), given)
    yield still("AttentionUnet, 3D", lambda: nets.AttentionUnet(**volume, **steps), given)
    yield still("SegResNet, 3D", lambda: nets.SegResNet(**volume, init_filters=8), given)


@maker
def ultralytics(library: Any) -> Iterator[Subject]:
    tasks = importlib.import_module("ultralytics.nn.tasks")
    for name in ("yolov8n", "yolo11n"):
        yield pixels(name, lambda name=name: tasks.DetectionModel(f"{name}.yaml", verbose=False), 256)


@maker
def torch(library: Any) -> Iterator[Subject]:
    layers = library.nn
    made = lambda: layers.LSTM(64, 128, 2, batch_first=True, bidirectional=True)  # noqa: E731
    yield still("LSTM", made, {"input": "2,32,64"})
    yield still("GRU", lambda: layers.GRU(64, 128), {"input": "32,2,64"})
