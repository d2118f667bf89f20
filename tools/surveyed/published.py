"""Models of libraries that nothing of trtdsl was written for: chosen by their downloads on PyPI and by field.

They need not be installed together with trtdsl: ``PYTHONPATH=FOLDER python tools/survey.py NAME …``.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from typing import Any

import torch

from .fields import FIELDS, IMAGE, Row
from .subject import BATCH, Subject

SIDES = {**BATCH, "H": (1, 2, 3), "W": (1, 2, 3)}
LENGTH = {**BATCH, "T": (2, 9, 16)}


def _of(library: str, rows: list[Row]) -> Callable[[], Iterator[Subject]]:
    """The subjects of a library; each row has the place of the class, ``module`` or ``module:name``."""

    def subjects() -> Iterator[Subject]:
        importlib.import_module(library)
        for name, make, inputs, dims in rows:
            yield Subject(name, lambda make=make: make(_imported), inputs, dims)

    return subjects


def _imported(place: str) -> Any:
    module, _, name = place.partition(":")
    return getattr(importlib.import_module(module), name)


SMALL = {"image_size": 64, "patch_size": 16, "num_classes": 5, "dim": 32, "depth": 2, "heads": 2, "mlp_dim": 32}
PATCHED, TILED = ["N,3,64,64"], ["N,3,64*H,64*W"]
STAGES = {"dim": (16, 32, 64, 128), "depth": (1, 1, 1, 1), "num_classes": 5}

VIT = [
    ("ViT", lambda at: at("vit_pytorch:ViT")(**SMALL), PATCHED, IMAGE),
    ("SimpleViT", lambda at: at("vit_pytorch:SimpleViT")(**SMALL), PATCHED, IMAGE),
    ("DeepViT", lambda at: at("vit_pytorch.deepvit:DeepViT")(**SMALL), PATCHED, IMAGE),
    ("CaiT", lambda at: at("vit_pytorch.cait:CaiT")(cls_depth=1, **SMALL), PATCHED, IMAGE),
    ("PiT", lambda at: at("vit_pytorch.pit:PiT")(**{**SMALL, "depth": (1, 1)}), PATCHED, IMAGE),
    ("XCiT", lambda at: at("vit_pytorch.xcit:XCiT")(cls_depth=1, **SMALL), PATCHED, IMAGE),
    ("ParallelViT", lambda at: at("vit_pytorch.parallel_vit:ViT")(**SMALL), PATCHED, IMAGE),
    ("ViT for small", lambda at: at("vit_pytorch.vit_for_small_dataset:ViT")(**SMALL), PATCHED, IMAGE),
    (
        "SimpleViT registers",
        lambda at: at("vit_pytorch.simple_vit_with_register_tokens:SimpleViT")(**SMALL),
        PATCHED,
        IMAGE,
    ),
    (
        "LeViT",
        lambda at: at("vit_pytorch.levit:LeViT")(
            image_size=64, num_classes=5, stages=2, dim=(16, 32), depth=1, heads=(2, 4), mlp_mult=2
        ),
        PATCHED,
        IMAGE,
    ),
    (
        "CCT",
        lambda at: at("vit_pytorch.cct:CCT")(
            img_size=64,
            embedding_dim=32,
            n_conv_layers=2,
            num_layers=2,
            num_heads=2,
            mlp_ratio=2.0,
            num_classes=5,
            positional_embedding="learnable",
        ),
        PATCHED,
        IMAGE,
    ),
    (
        "T2TViT",
        lambda at: at("vit_pytorch.t2t:T2TViT")(dim=32, image_size=64, depth=1, heads=2, mlp_dim=32, num_classes=5),
        PATCHED,
        IMAGE,
    ),
    (
        "CvT",
        lambda at: at("vit_pytorch.cvt:CvT")(
            num_classes=5, s1_emb_dim=16, s2_emb_dim=16, s2_depth=1, s3_emb_dim=16, s3_depth=1
        ),
        TILED,
        SIDES,
    ),
    (
        "TwinsSVT",
        lambda at: at("vit_pytorch.twins_svt:TwinsSVT")(
            num_classes=5,
            s1_emb_dim=16,
            s2_emb_dim=16,
            s3_emb_dim=16,
            s3_depth=1,
            s4_emb_dim=16,
            s4_depth=1,
            s1_local_patch_size=4,
            s2_local_patch_size=2,
            s3_local_patch_size=2,
            s1_global_k=4,
            s2_global_k=2,
            s3_global_k=2,
            s4_global_k=2,
        ),
        TILED,
        SIDES,
    ),
    (
        "NesT",
        lambda at: at("vit_pytorch.nest:NesT")(
            image_size=64, patch_size=4, dim=16, heads=2, num_hierarchies=3, block_repeats=(1, 1, 1), num_classes=5
        ),
        PATCHED,
        IMAGE,
    ),
    (
        "MaxViT",
        lambda at: at("vit_pytorch.max_vit:MaxViT")(
            num_classes=5, dim_conv_stem=16, dim=16, dim_head=8, depth=(1, 1), window_size=4
        ),
        TILED,
        SIDES,
    ),
    (
        "SepViT",
        lambda at: at("vit_pytorch.sep_vit:SepViT")(dim_head=8, heads=(1, 2, 4, 8), **{**STAGES, "dim": 16}),
        ["N,3,224,224"],
        IMAGE,
    ),
    (
        "MobileViT",
        lambda at: at("vit_pytorch.mobile_vit:MobileViT")(
            (64, 64), [16, 24, 32], [16, 16, 24, 24, 32, 32, 48, 48, 64, 64, 80], 5
        ),
        TILED,
        SIDES,
    ),
    ("RegionViT", lambda at: at("vit_pytorch.regionvit:RegionViT")(window_size=2, **STAGES), TILED, SIDES),
    (
        "CrossFormer",
        lambda at: at("vit_pytorch.crossformer:CrossFormer")(
            global_window_size=(4, 2, 2, 1), local_window_size=(4, 4, 2, 2), **{**STAGES, "dim": (32, 32, 64, 128)}
        ),
        TILED,
        SIDES,
    ),
    (
        "ViT 3d",
        lambda at: at("vit_pytorch.vit_3d:ViT")(
            frames=4,
            frame_patch_size=2,
            image_patch_size=16,
            **{key: item for key, item in SMALL.items() if key != "patch_size"},
        ),
        ["N,3,4,64,64"],
        IMAGE,
    ),
    (
        "SimpleViT 1d",
        lambda at: at("vit_pytorch.simple_vit_1d:SimpleViT")(
            seq_len=64, **{key: item for key, item in SMALL.items() if key != "image_size"}
        ),
        ["N,3,64"],
        IMAGE,
    ),
]


def _language(layers: str = "Decoder", **options: Any) -> Callable[[Any], Any]:
    return lambda at: at("x_transformers:TransformerWrapper")(
        num_tokens=50, max_seq_len=64, attn_layers=at(f"x_transformers:{layers}")(dim=32, depth=2, heads=2, **options)
    )


IDS = {"x": "N,T:int64:0:50"}
X = [
    ("Decoder", _language(), IDS, LENGTH),
    ("Encoder", _language("Encoder"), IDS, LENGTH),
    ("rotary", _language(rotary_pos_emb=True), IDS, LENGTH),
    ("ALiBi", _language(alibi_pos_bias=True, alibi_num_heads=1), IDS, LENGTH),
    ("T5 positions", _language(rel_pos_bias=True), IDS, LENGTH),
    ("gated", _language(ff_glu=True, ff_swish=True, use_rmsnorm=True, attn_gate_values=True), IDS, LENGTH),
    ("flash", _language(attn_flash=True), IDS, LENGTH),
    ("one key", _language(attn_one_kv_head=True, attn_qk_norm=True), IDS, LENGTH),
    ("sparse", _language(attn_sparse_topk=2), IDS, LENGTH),
    ("talking heads", _language(attn_pre_talking_heads=True, attn_post_talking_heads=True), IDS, LENGTH),
    ("shifted", _language(shift_tokens=1), IDS, LENGTH),
    (
        "ViT",
        lambda at: at("x_transformers:ViTransformerWrapper")(
            image_size=64,
            patch_size=16,
            num_classes=5,
            attn_layers=at("x_transformers:Encoder")(dim=32, depth=2, heads=2),
        ),
        PATCHED,
        IMAGE,
    ),
    (
        "continuous",
        lambda at: at("x_transformers:ContinuousTransformerWrapper")(
            dim_in=8, dim_out=8, max_seq_len=64, attn_layers=at("x_transformers:Encoder")(dim=32, depth=2, heads=2)
        ),
        {"x": "N,T,8"},
        LENGTH,
    ),
]

CUT = ["N,3,32*H,32*W"]


def _cutter(name: str, **options: Any) -> Row:
    make = lambda at: at(f"segmentation_models_pytorch:{name}")(encoder_weights=None, **options)  # noqa: E731
    encoder = options.get("encoder_name", "resnet18")
    return (f"{name} {encoder}", make, CUT, {**SIDES, "H": (1, 2, 3), "W": (2, 2, 3)})


SEGMENTATION = [
    *(
        _cutter(name, encoder_name="resnet18")
        for name in (
            "Unet",
            "UnetPlusPlus",
            "FPN",
            "Linknet",
            "PSPNet",
            "PAN",
            "MAnet",
            "DeepLabV3",
            "DeepLabV3Plus",
            "UPerNet",
            "Segformer",
        )
    ),
    *(
        _cutter("Unet", encoder_name=encoder)
        for encoder in (
            "mobilenet_v2",
            "densenet121",
            "efficientnet-b0",
            "mit_b0",
            "vgg11_bn",
            "mobileone_s0",
            "timm-efficientnet-b0",
        )
    ),
]

TIMES = {**BATCH, "H": (16, 24, 33), "W": (16, 24, 30)}
EIGHTS = ["N,3,8*H,8*W"]
EIGHT = {**BATCH, "H": (2, 3, 5), "W": (2, 3, 4)}
FREE = ["N,3,H,W"]


def _upscaler(place: str, *given: Any, inputs: Any = FREE, dims: Any = TIMES, **options: Any) -> Row:
    folder, _, name = place.partition(":")
    make = lambda at: at(f"spandrel.architectures.{folder}:{name}")(*given, **options)  # noqa: E731
    return (name, make, inputs, dims)


WINDOWED = {"embed_dim": 16, "depths": [2, 2], "num_heads": [2, 2], "window_size": 8, "img_size": 16, "mlp_ratio": 2.0}
SUPER = [
    _upscaler("SwinIR.__arch.SwinIR:SwinIR", upscale=2, upsampler="pixelshuffle", **WINDOWED),
    _upscaler("Swin2SR.__arch.Swin2SR:Swin2SR", upscale=2, upsampler="pixelshuffle", **WINDOWED),
    _upscaler(
        "HAT.__arch.HAT:HAT",
        upscale=2,
        upsampler="pixelshuffle",
        compress_ratio=3,
        squeeze_factor=4,
        conv_scale=0.01,
        overlap_ratio=0.5,
        **WINDOWED,
    ),
    _upscaler(
        "DAT.__arch.DAT:DAT",
        img_size=16,
        embed_dim=16,
        depth=[2],
        num_heads=[2],
        split_size=[4, 8],
        expansion_factor=2,
        upscale=2,
        inputs=EIGHTS,
        dims=EIGHT,
    ),
    _upscaler("ESRGAN.__arch.RRDB:RRDBNet", num_filters=8, num_blocks=1, scale=2),
    _upscaler("Compact.__arch.SRVGG:SRVGGNetCompact", num_feat=8, num_conv=2, upscale=2),
    _upscaler("SPAN.__arch.span:SPAN", num_in_ch=3, num_out_ch=3, feature_channels=16, upscale=2),
    _upscaler("OmniSR.__arch.OmniSR:OmniSR", num_feat=16, res_num=1, block_num=1, up_scale=2, window_size=8),
    _upscaler("PLKSR.__arch.PLKSR:PLKSR", dim=16, n_blocks=2, upscaling_factor=2),
    _upscaler("PLKSR.__arch.RealPLKSR:RealPLKSR", dim=16, n_blocks=2, upscaling_factor=2),
    _upscaler("SCUNet.__arch.SCUNet:SCUNet", config=[1] * 7, dim=64, inputs=["N,3,64*H,64*W"], dims=SIDES),
    _upscaler("NAFNet.__arch.NAFNet_arch:NAFNet", width=8, middle_blk_num=1, enc_blk_nums=[1, 1], dec_blk_nums=[1, 1]),
    _upscaler("DRCT.__arch.drct_arch:DRCT", upscale=2, upsampler="pixelshuffle", gc=8, **WINDOWED),
    _upscaler("SAFMN.__arch.safmn:SAFMN", dim=16, n_blocks=1, upscaling_factor=2),
    _upscaler(
        "RGT.__arch.rgt:RGT",
        img_size=16,
        embed_dim=16,
        depth=[2],
        num_heads=[2],
        split_size=[4, 8],
        upscale=2,
        inputs=EIGHTS,
        dims=EIGHT,
    ),
    _upscaler(
        "ATD.__arch.atd_arch:ATD",
        img_size=16,
        embed_dim=16,
        depths=(1,),
        num_heads=(2,),
        window_size=8,
        category_size=16,
        num_tokens=8,
        upscale=2,
    ),
    _upscaler("FBCNN.__arch.FBCNN:FBCNN", nc=[8, 8, 16, 512], nb=1, inputs=EIGHTS, dims=EIGHT),
    _upscaler(
        "RealCUGAN.__arch.upcunet_v3:UpCunet2x",
        inputs=["N,3,2*H,2*W"],
        dims={**BATCH, "H": (20, 24, 30), "W": (20, 24, 28)},
    ),
    _upscaler(
        "Uformer.__arch.Uformer:Uformer",
        img_size=64,
        embed_dim=8,
        depths=[1] * 9,
        win_size=8,
        inputs=["N,3,64,64"],
        dims=IMAGE,
    ),
    _upscaler(
        "MixDehazeNet.__arch.MixDehazeNet:MixDehazeNet",
        embed_dims=[8, 16, 32, 16, 8],
        depths=[1] * 5,
        inputs=EIGHTS,
        dims={**BATCH, "H": (6, 7, 8), "W": (6, 7, 8)},
    ),
]

WAVE = {**BATCH, "S": (400, 500, 640)}
FRAMES = {**BATCH, "T": (6, 9, 14)}
RATIOS = {"dimension": 16, "n_filters": 4, "ratios": [4, 2]}
ENCODEC = [
    ("encoder", lambda at: at("encodec.modules:SEANetEncoder")(**RATIOS), {"x": "N,1,S"}, WAVE),
    ("causal encoder", lambda at: at("encodec.modules:SEANetEncoder")(causal=True, **RATIOS), {"x": "N,1,S"}, WAVE),
    ("decoder", lambda at: at("encodec.modules:SEANetDecoder")(**RATIOS), {"z": "N,16,T"}, FRAMES),
    ("causal decoder", lambda at: at("encodec.modules:SEANetDecoder")(causal=True, **RATIOS), {"z": "N,16,T"}, FRAMES),
    (
        "transformer",
        lambda at: at("encodec.modules:StreamingTransformerEncoder")(16, num_heads=2, num_layers=1),
        {"x": "N,T,16"},
        FRAMES,
    ),
]
VOCOS = [
    ("backbone", lambda at: at("vocos.models:VocosBackbone")(16, 32, 64, 2), {"x": "N,16,T"}, FRAMES),
    ("ResNet backbone", lambda at: at("vocos.models:VocosResNetBackbone")(16, 32, 2), {"x": "N,16,T"}, FRAMES),
    ("head", lambda at: at("vocos.heads:ISTFTHead")(32, 64, 16), {"x": "N,T,32"}, FRAMES),
    ("head center", lambda at: at("vocos.heads:ISTFTHead")(32, 64, 16, padding="center"), {"x": "N,T,32"}, FRAMES),
]
SNAC = [
    ("encoder", lambda at: at("snac.layers:Encoder")(8, [2, 4], attn_window_size=None), {"x": "N,1,8*T"}, FRAMES),
    (
        "decoder",
        lambda at: at("snac.layers:Decoder")(16, 32, [4, 2], noise=False, attn_window_size=None),
        {"x": "N,16,T"},
        FRAMES,
    ),
    ("attention", lambda at: at("snac.attention:LocalMHA")(64, window_size=4), {"x": "N,64,4*T"}, FRAMES),
]
SPEECH = [
    (
        "ECAPA",
        lambda at: at("speechbrain.lobes.models.ECAPA_TDNN:ECAPA_TDNN")(
            20, lin_neurons=16, channels=[32] * 5, attention_channels=8, se_channels=8
        ),
        {"x": "N,T,20"},
        FRAMES,
    ),
    (
        "Xvector",
        lambda at: at("speechbrain.lobes.models.Xvector:Xvector")(
            in_channels=20, tdnn_channels=[16] * 5, lin_neurons=16
        ),
        {"x": "N,T,20"},
        {**BATCH, "T": (20, 24, 30)},
    ),
    (
        "CRDNN",
        lambda at: at("speechbrain.lobes.models.CRDNN:CRDNN")(
            input_size=20, cnn_channels=(4, 4), rnn_neurons=8, rnn_layers=1, dnn_neurons=8
        ),
        {"x": "N,T,20"},
        FRAMES,
    ),
    (
        "Conformer",
        lambda at: at("speechbrain.lobes.models.transformer.Conformer:ConformerEncoderLayer")(
            d_model=16, d_ffn=32, nhead=2, kernel_size=3, attention_type="regularMHA"
        ),
        {"x": "N,T,16"},
        FRAMES,
    ),
    (
        "ResNet",
        lambda at: at("speechbrain.lobes.models.ResNet:ResNet")(
            input_size=20, channels=[8, 8, 16, 16], strides=[1, 2, 2, 2], block_sizes=[1, 1, 1, 1], lin_neurons=16
        ),
        {"x": "N,T,20"},
        {**BATCH, "T": (16, 20, 24)},
    ),
    (
        "HiFi-GAN",
        lambda at: at("speechbrain.lobes.models.HifiGAN:HifiganGenerator")(
            16, 1, "1", [[1, 3, 5]], [3], [4, 4], 16, [2, 2]
        ),
        {"x": "N,16,T"},
        FRAMES,
    ),
    (
        "separator",
        lambda at: at("speechbrain.lobes.models.conv_tasnet:MaskNet")(16, 8, 16, 3, 2, 1, 2, "gLN"),
        {"mixture_w": "N,16,T"},
        FRAMES,
    ),
    ("beats pieces", lambda at: at("speechbrain.nnet.attention:RelPosEncXL")(16), {"x": "N,T,16"}, FRAMES),
]

CATALOGUE = (
    "resnet10",
    "mobilenet_wd4",
    "mobilenetv2_wd4",
    "shufflenet_g1_wd4",
    "shufflenetv2_wd2",
    "seresnet10",
    "fdmobilenet_wd4",
    "menet108_8x1_g3",
    "igcv3_wd4",
    "darknet_tiny",
    "squeezenet_v1_1",
    "sqnxt23_w1",
    "efficientnet_b0",
    "mixnet_s",
    "ghostnet",
    "hardnet39ds",
    "vovnet27s",
    "selecsls42",
    "dla34",
    "bagnet9",
    "diracnet18v2",
    "peleenet",
    "mobilenetv3_small_wd2",
    "proxylessnas_cpu",
)
PYTORCHCV = [
    (
        name,
        lambda at, name=name: at("pytorchcv.model_provider:get_model")(name, num_classes=5),
        ["N,3,32*H,32*W"],
        {**BATCH, "H": 7, "W": 7},
    )
    for name in CATALOGUE
]

TOWER = {"image_size": 32, "layers": 2, "width": 32, "patch_size": 8, "head_width": 16}
WORDS = {"context_length": 16, "vocab_size": 50, "width": 32, "heads": 2, "layers": 2}


def _coca(at: Any) -> torch.nn.Module:
    module = at("open_clip.coca_model:CoCa")(
        32,
        {"context_length": 16, "vocab_size": 50, "width": 32, "heads": 2, "layers": 1},
        {**WORDS, "embed_cls": True, "output_tokens": True},
        {**TOWER, "attentional_pool": True, "output_tokens": True},
    )
    torch.nn.init.normal_(module.text_decoder.text_projection, std=0.2)  # it is left as memory has it
    return module


CLIP = [
    (
        "CLIP",
        lambda at: at("open_clip:CLIP")(16, TOWER, WORDS),
        {"image": "N,3,32,32", "text": "N,16:int64:0:50"},
        IMAGE,
    ),
    (
        "CoCa",
        _coca,
        {"image": "N,3,32,32", "text": "N,16:int64:0:50"},
        IMAGE,
    ),
    (
        "ModifiedResNet",
        lambda at: at("open_clip.modified_resnet:ModifiedResNet")([1, 1, 1, 1], 16, 2, 64, 8),
        ["N,3,64,64"],
        IMAGE,
    ),
]

LUCID = {
    "perceiver_pytorch": [
        (
            "Perceiver",
            lambda at: at("perceiver_pytorch:Perceiver")(
                num_freq_bands=2,
                depth=1,
                max_freq=10,
                input_channels=3,
                num_latents=8,
                latent_dim=16,
                latent_heads=2,
                cross_dim_head=8,
                latent_dim_head=8,
                num_classes=5,
                self_per_cross_attn=1,
            ),
            {"data": "N,H,W,3"},
            {**BATCH, "H": (4, 6, 9), "W": (4, 6, 8)},
        ),
        (
            "PerceiverIO",
            lambda at: at("perceiver_pytorch:PerceiverIO")(
                dim=16, queries_dim=16, logits_dim=5, depth=1, num_latents=8, latent_dim=16
            ),
            {"data": "N,T,16", "queries": "7,16"},
            LENGTH,
        ),
    ],
    "performer_pytorch": [
        (
            "Performer",
            lambda at: at("performer_pytorch:Performer")(dim=16, depth=1, heads=2, dim_head=8),
            {"x": "N,T,16"},
            LENGTH,
        ),
        (
            "PerformerLM",
            lambda at: at("performer_pytorch:PerformerLM")(
                num_tokens=50, max_seq_len=16, dim=16, depth=1, heads=2, dim_head=8
            ),
            {"x": "N,T:int64:0:50"},
            LENGTH,
        ),
    ],
    "conformer": [
        (
            "Conformer",
            lambda at: at("conformer:Conformer")(dim=16, depth=1, dim_head=8, heads=2),
            {"x": "N,T,16"},
            LENGTH,
        )
    ],
    "local_attention": [
        (
            "LocalTransformer",
            lambda at: at("local_attention:LocalTransformer")(
                num_tokens=50,
                dim=16,
                depth=1,
                max_seq_len=64,
                heads=2,
                dim_head=8,
                local_attn_window_size=4,
                use_xpos=False,
            ),
            {"x": "N,T:int64:0:50"},
            LENGTH,
        ),
    ],
    "vector_quantize_pytorch": [
        (
            "VectorQuantize",
            lambda at: at("vector_quantize_pytorch:VectorQuantize")(dim=16, codebook_size=32),
            {"x": "N,T,16"},
            LENGTH,
        ),
        (
            "ResidualVQ",
            lambda at: at("vector_quantize_pytorch:ResidualVQ")(dim=16, codebook_size=32, num_quantizers=2),
            {"x": "N,T,16"},
            LENGTH,
        ),
        ("FSQ", lambda at: at("vector_quantize_pytorch:FSQ")([8, 5, 5, 5]), {"z": "N,T,4"}, LENGTH),
        ("LFQ", lambda at: at("vector_quantize_pytorch:LFQ")(codebook_size=64, dim=16), {"x": "N,T,16"}, LENGTH),
        (
            "ResidualFSQ",
            lambda at: at("vector_quantize_pytorch:ResidualFSQ")(dim=16, levels=[8, 5, 5, 3], num_quantizers=2),
            {"x": "N,T,16"},
            LENGTH,
        ),
        ("SimVQ", lambda at: at("vector_quantize_pytorch:SimVQ")(dim=16, codebook_size=32), {"x": "N,T,16"}, LENGTH),
    ],
    "tab_transformer_pytorch": [
        (
            "TabTransformer",
            lambda at: at("tab_transformer_pytorch:TabTransformer")(
                categories=(3, 4, 5), num_continuous=4, dim=16, dim_out=1, depth=1, heads=2, mlp_act=torch.nn.ReLU()
            ),
            {"x_categ": "N,3:int64:0:3", "x_cont": "N,4"},
            IMAGE,
        ),
        (
            "FTTransformer",
            lambda at: at("tab_transformer_pytorch:FTTransformer")(
                categories=(3, 4, 5), num_continuous=4, dim=16, dim_out=1, depth=1, heads=2
            ),
            {"x_categ": "N,3:int64:0:3", "x_numer": "N,4"},
            IMAGE,
        ),
    ],
    "iTransformer": [
        (
            "iTransformer",
            lambda at: at("iTransformer:iTransformer")(
                num_variates=6, lookback_len=16, dim=16, depth=1, heads=2, dim_head=8, pred_length=4
            ),
            {"x": "N,16,6"},
            IMAGE,
        ),
        (
            "iTransformer2D",
            lambda at: at("iTransformer:iTransformer2D")(
                num_variates=6, num_time_tokens=4, lookback_len=16, dim=16, depth=1, heads=2, dim_head=8, pred_length=4
            ),
            {"x": "N,16,6"},
            IMAGE,
        ),
    ],
    "denoising_diffusion_pytorch": [
        (
            "Unet",
            lambda at: at("denoising_diffusion_pytorch:Unet")(dim=8, dim_mults=(1, 2), flash_attn=False),
            {"x": "N,3,16,16", "time": "N:int64:0:100"},
            IMAGE,
        ),
        (
            "Unet1D",
            lambda at: at("denoising_diffusion_pytorch:Unet1D")(dim=8, dim_mults=(1, 2), channels=4),
            {"x": "N,4,8*T", "time": "N:int64:0:100"},
            FRAMES,
        ),
    ],
    "linear_attention_transformer": [
        (
            "LM",
            lambda at: at("linear_attention_transformer:LinearAttentionTransformerLM")(
                num_tokens=50, dim=16, heads=2, depth=1, max_seq_len=64
            ),
            {"x": "N,T:int64:0:50"},
            LENGTH,
        ),
    ],
    "nystrom_attention": [
        (
            "Nystromformer",
            lambda at: at("nystrom_attention:Nystromformer")(dim=16, dim_head=8, heads=2, depth=1, num_landmarks=4),
            {"x": "N,T,16"},
            LENGTH,
        ),
    ],
    "axial_attention": [
        (
            "AxialAttention",
            lambda at: at("axial_attention:AxialAttention")(dim=16, dim_index=1, heads=2),
            {"x": "N,16,H,W"},
            {**BATCH, "H": (4, 6, 9), "W": (4, 6, 8)},
        ),
    ],
    "g_mlp_pytorch": [
        (
            "gMLP",
            lambda at: at("g_mlp_pytorch:gMLP")(num_tokens=50, dim=16, depth=1, seq_len=16),
            {"x": "N,16:int64:0:50"},
            IMAGE,
        ),
        (
            "gMLPVision",
            lambda at: at("g_mlp_pytorch:gMLPVision")(image_size=64, patch_size=16, num_classes=5, dim=16, depth=1),
            PATCHED,
            IMAGE,
        ),
    ],
    "mlp_mixer_pytorch": [
        (
            "MLPMixer",
            lambda at: at("mlp_mixer_pytorch:MLPMixer")(
                image_size=64, channels=3, patch_size=16, dim=16, depth=1, num_classes=5
            ),
            PATCHED,
            IMAGE,
        ),
    ],
    "lambda_networks": [
        (
            "LambdaLayer",
            lambda at: at("lambda_networks:LambdaLayer")(dim=16, dim_out=16, r=3, dim_k=4, heads=2, dim_u=1),
            {"x": "N,16,H,W"},
            {**BATCH, "H": (4, 6, 9), "W": (4, 6, 8)},
        ),
    ],
    "egnn_pytorch": [
        ("EGNN", lambda at: at("egnn_pytorch:EGNN")(dim=16), {"feats": "N,T,16", "coors": "N,T,3"}, LENGTH),
    ],
    "siren_pytorch": [
        (
            "SirenNet",
            lambda at: at("siren_pytorch:SirenNet")(dim_in=2, dim_hidden=16, dim_out=3, num_layers=3),
            {"x": "T,2"},
            {"T": (2, 9, 16)},
        ),
    ],
    "soft_moe_pytorch": [
        (
            "SoftMoE",
            lambda at: at("soft_moe_pytorch:SoftMoE")(dim=16, seq_len=16, num_experts=4),
            {"x": "N,16,16"},
            IMAGE,
        ),
    ],
    "linformer": [
        (
            "LinformerLM",
            lambda at: at("linformer:LinformerLM")(num_tokens=50, dim=16, seq_len=16, depth=1, heads=2, k=4),
            {"x": "N,16:int64:0:50"},
            IMAGE,
        ),
    ],
    "sru": [("SRU", lambda at: at("sru:SRU")(8, 8, num_layers=2), {"input": "T,N,8"}, LENGTH)],
    "mambapy": [
        (
            "Mamba",
            lambda at: at("mambapy.mamba:Mamba")(at("mambapy.mamba:MambaConfig")(d_model=16, n_layers=1, pscan=False)),
            {"x": "N,T,16"},
            LENGTH,
        ),
        (
            "Mamba pscan",
            lambda at: at("mambapy.mamba:Mamba")(at("mambapy.mamba:MambaConfig")(d_model=16, n_layers=1)),
            {"x": "N,T,16"},
            LENGTH,
        ),
    ],
    "esm": [
        (
            "ESM2",
            lambda at: at("esm.model.esm2:ESM2")(num_layers=2, embed_dim=32, attention_heads=2),
            {"tokens": "N,T:int64:4:24"},
            LENGTH,
        )
    ],
    "pytorch_tabnet": [
        (
            "TabNet",
            lambda at: at("pytorch_tabnet.tab_network:TabNet")(
                6, 2, n_d=4, n_a=4, n_steps=2, group_attention_matrix=torch.eye(6)
            ),
            {"x": "N,6"},
            IMAGE,
        ),
    ],
    "facenet_pytorch": [
        ("InceptionResnetV1", lambda at: at("facenet_pytorch:InceptionResnetV1")(), ["N,3,160,160"], IMAGE)
    ],
    "lpips": [
        (
            "LPIPS",
            lambda at: at("lpips:LPIPS")(pretrained=False, pnet_rand=True, verbose=False),
            {"in0": "N,3,64,64", "in1": "N,3,64,64"},
            IMAGE,
        )
    ],
    "efficientnet_pytorch": [
        (name, lambda at, name=name: at("efficientnet_pytorch:EfficientNet").from_name(name), ["N,3,32*H,32*W"], SIDES)
        for name in ("efficientnet-b0", "efficientnet-b3")
    ],
    "pytorch_tcn": [
        (
            "TCN",
            lambda at: at("pytorch_tcn:TCN")(num_inputs=8, num_channels=[8, 8], kernel_size=3),
            {"x": "N,8,T"},
            FRAMES,
        ),
        (
            "TCN acausal",
            lambda at: at("pytorch_tcn:TCN")(
                num_inputs=8, num_channels=[8, 8], kernel_size=3, causal=False, use_norm="layer_norm"
            ),
            {"x": "N,8,T"},
            FRAMES,
        ),
    ],
    "nnAudio": [
        (
            "MelSpectrogram",
            lambda at: at("nnAudio.features:MelSpectrogram")(n_fft=64, n_mels=8, hop_length=16, verbose=False),
            {"x": "N,S"},
            WAVE,
        ),
        (
            "STFT",
            lambda at: at("nnAudio.features:STFT")(n_fft=64, hop_length=16, verbose=False, output_format="Magnitude"),
            {"x": "N,S"},
            WAVE,
        ),
    ],
    "piq": [
        (
            "SSIM",
            lambda at: at("piq:SSIMLoss")(kernel_size=5),
            {"x": "N,3,H,W:float32:0:1", "y": "N,3,H,W:float32:0:1"},
            {**BATCH, "H": (32, 40, 48), "W": (32, 40, 48)},
        ),
        (
            "GMSD",
            lambda at: at("piq:GMSDLoss")(),
            {"x": "N,3,H,W:float32:0:1", "y": "N,3,H,W:float32:0:1"},
            {**BATCH, "H": (32, 40, 48), "W": (32, 40, 48)},
        ),
    ],
    "asteroid_filterbanks": [
        (
            "Encoder",
            lambda at: at("asteroid_filterbanks:Encoder")(at("asteroid_filterbanks:FreeFB")(16, 8, stride=4)),
            {"waveform": "N,1,S"},
            WAVE,
        ),
        (
            "STFT",
            lambda at: at("asteroid_filterbanks:Encoder")(at("asteroid_filterbanks:STFTFB")(16, 8, stride=4)),
            {"waveform": "N,1,S"},
            WAVE,
        ),
    ],
    "rtdl_revisiting_models": [
        (
            "MLP",
            lambda at: at("rtdl_revisiting_models:MLP")(d_in=6, d_out=2, n_blocks=2, d_block=16, dropout=0.1),
            {"x": "N,6"},
            IMAGE,
        ),
        (
            "ResNet",
            lambda at: at("rtdl_revisiting_models:ResNet")(
                d_in=6,
                d_out=2,
                n_blocks=2,
                d_block=16,
                d_hidden=None,
                d_hidden_multiplier=2.0,
                dropout1=0.1,
                dropout2=0.0,
            ),
            {"x": "N,6"},
            IMAGE,
        ),
        (
            "FTTransformer",
            lambda at: at("rtdl_revisiting_models:FTTransformer")(
                n_cont_features=4,
                cat_cardinalities=[3, 5],
                d_out=2,
                n_blocks=1,
                d_block=16,
                attention_n_heads=2,
                attention_dropout=0.1,
                ffn_d_hidden_multiplier=2.0,
                ffn_dropout=0.1,
                residual_dropout=0.0,
            ),
            {"x_cont": "N,4", "x_cat": "N,2:int64:0:3"},
            IMAGE,
        ),
    ],
    "rtdl_num_embeddings": [
        (
            "PeriodicEmbeddings",
            lambda at: at("rtdl_num_embeddings:PeriodicEmbeddings")(6, 8, lite=False),
            {"x": "N,6"},
            IMAGE,
        ),
        (
            "PiecewiseLinearEmbeddings",
            lambda at: at("rtdl_num_embeddings:PiecewiseLinearEmbeddings")(
                [torch.linspace(-2, 2, 5)] * 6, 8, activation=True, version="B"
            ),
            {"x": "N,6"},
            IMAGE,
        ),
    ],
    "pytorch_msssim": [
        (
            "SSIM",
            lambda at: at("pytorch_msssim:SSIM")(data_range=1.0, channel=3),
            {"X": "N,3,H,W:float32:0:1", "Y": "N,3,H,W:float32:0:1"},
            {**BATCH, "H": (32, 40, 48), "W": (32, 40, 48)},
        ),
    ],
    "julius": [
        ("LowPassFilter", lambda at: at("julius:LowPassFilter")(0.2), {"input": "N,S"}, WAVE),
        ("ResampleFrac", lambda at: at("julius:ResampleFrac")(4, 3), {"x": "N,S"}, WAVE),
        ("SplitBands", lambda at: at("julius:SplitBands")(16000, n_bands=3), {"input": "N,S"}, WAVE),
    ],
    "res_mlp_pytorch": [
        (
            "ResMLP",
            lambda at: at("res_mlp_pytorch:ResMLP")(image_size=64, patch_size=16, dim=16, depth=2, num_classes=5),
            PATCHED,
            IMAGE,
        ),
    ],
    "point_transformer_pytorch": [
        (
            "PointTransformerLayer",
            lambda at: at("point_transformer_pytorch:PointTransformerLayer")(
                dim=16, pos_mlp_hidden_dim=8, attn_mlp_hidden_mult=2, num_neighbors=4
            ),
            {"x": "N,T,16", "pos": "N,T,3"},
            {**BATCH, "T": (6, 9, 14)},
        ),
    ],
    "gateloop_transformer": [
        (
            "SimpleGateLoopLayer",
            lambda at: at("gateloop_transformer:SimpleGateLoopLayer")(16),
            {"x": "N,T,16"},
            LENGTH,
        ),
    ],
    "x_mlps_pytorch": [("MLP", lambda at: at("x_mlps_pytorch:MLP")(6, 16, 2), {"x": "N,6"}, IMAGE)],
    "torch_dct": [
        ("LinearDCT", lambda at: at("torch_dct:LinearDCT")(16, "dct"), {"input": "N,16"}, IMAGE),
        ("DCT", lambda at: Applied(at("torch_dct:_dct"), "dct"), {"x": "N,16"}, IMAGE),
    ],
    "st_moe_pytorch": [
        ("MoE", lambda at: at("st_moe_pytorch:MoE")(dim=16, num_experts=4), {"x": "N,T,16"}, LENGTH),
    ],
    "rotary_embedding_torch": [
        (
            "RotaryEmbedding",
            lambda at: Applied(at("rotary_embedding_torch:RotaryEmbedding")(dim=8), "rotate_queries_or_keys"),
            {"x": "N,2,T,16"},
            LENGTH,
        ),
    ],
    "agent_attention_pytorch": [
        (
            "AgentTransformer",
            lambda at: at("agent_attention_pytorch:AgentTransformer")(
                dim=16, num_agent_tokens=4, depth=1, heads=2, dim_head=8
            ),
            {"x": "N,T,16"},
            LENGTH,
        ),
    ],
    "aft_pytorch": [
        ("AFTFull", lambda at: at("aft_pytorch:AFTFull")(max_seqlen=16, dim=16), {"x": "N,T,16"}, LENGTH),
        ("AFTLocal", lambda at: at("aft_pytorch:AFTLocal")(max_seqlen=16, dim=16, s=4), {"x": "N,T,16"}, LENGTH),
    ],
    "bottleneck_transformer_pytorch": [
        (
            "BottleStack",
            lambda at: at("bottleneck_transformer_pytorch:BottleStack")(
                dim=16, fmap_size=8, dim_out=32, num_layers=1, heads=2, dim_head=8, rel_pos_emb=True
            ),
            {"x": "N,16,8,8"},
            IMAGE,
        ),
    ],
    "halonet_pytorch": [
        (
            "HaloAttention",
            lambda at: at("halonet_pytorch:HaloAttention")(dim=16, block_size=4, halo_size=2, dim_head=8, heads=2),
            {"x": "N,16,4*H,4*W"},
            {**BATCH, "H": (1, 2, 3), "W": (1, 2, 4)},
        ),
    ],
    "glom_pytorch": [
        (
            "Glom",
            lambda at: at("glom_pytorch:Glom")(dim=16, levels=2, image_size=32, patch_size=8),
            {"img": "N,3,32,32"},
            IMAGE,
        ),
    ],
    "slot_attention": [
        (
            "SlotAttention",
            lambda at: at("slot_attention:SlotAttention")(num_slots=4, dim=16),
            {"inputs": "N,T,16"},
            LENGTH,
        ),
    ],
    "memory_efficient_attention_pytorch": [
        (
            "Transformer",
            lambda at: at("memory_efficient_attention_pytorch.transformer:Transformer")(
                num_tokens=50, max_seq_len=64, dim=16, depth=1, heads=2, dim_head=8, causal=True, use_flash_attn=False
            ),
            {"x": "N,T:int64:0:50"},
            LENGTH,
        ),
    ],
    "timesformer_pytorch": [
        (
            "TimeSformer",
            lambda at: at("timesformer_pytorch:TimeSformer")(
                dim=16, image_size=32, num_frames=4, num_classes=5, depth=1, heads=2, dim_head=8
            ),
            {"video": "N,4,3,32,32"},
            IMAGE,
        ),
    ],
    "nbeats_pytorch": [
        (
            "NBeatsNet",
            lambda at: at("nbeats_pytorch.model:NBeatsNet")(hidden_layer_units=16, nb_blocks_per_stack=2),
            {"backcast": "N,10"},
            IMAGE,
        ),
    ],
    "isab_pytorch": [
        (
            "ISAB",
            lambda at: at("isab_pytorch:ISAB")(dim=16, heads=2, num_latents=4),
            {"x": "N,T,16"},
            LENGTH,
        ),
    ],
    "segformer_pytorch": [
        (
            "Segformer",
            lambda at: at("segformer_pytorch:Segformer")(
                dims=(8, 16, 16, 16), heads=(1, 2, 2, 2), num_layers=1, decoder_dim=16
            ),
            {"x": "N,3,32*H,32*W"},
            SIDES,
        ),
    ],
    "h_transformer_1d": [
        (
            "HTransformer1D",
            lambda at: at("h_transformer_1d:HTransformer1D")(
                num_tokens=50, dim=16, depth=1, max_seq_len=16, heads=2, dim_head=8, block_size=4
            ),
            {"x": "N,T:int64:0:50"},
            {**BATCH, "T": (9, 12, 16)},
        ),
    ],
    "audio_encoders_pytorch": [
        (
            "AutoEncoder1d",
            lambda at: at("audio_encoders_pytorch:AutoEncoder1d")(
                in_channels=2, channels=8, multipliers=[1, 2], factors=[4], num_blocks=[1]
            ),
            {"x": "N,2,4*S"},
            {**BATCH, "S": (8, 16, 20)},
        ),
    ],
}


class Applied(torch.nn.Module):
    """A function as a module: a module's method, or one of a Python module."""

    def __init__(self, owner: Any, name: str):
        super().__init__()
        self.parts = torch.nn.ModuleList([owner] if isinstance(owner, torch.nn.Module) else [])
        self.function = getattr(owner, name)

    def forward(self, x: Any) -> Any:
        return self.function(x)


LIBRARIES: dict[str, Callable[[], Iterator[Subject]]] = {
    library: _of(library, rows)
    for library, rows in {
        "vit_pytorch": VIT,
        "x_transformers": X,
        "segmentation_models_pytorch": SEGMENTATION,
        "spandrel": SUPER,
        "encodec": ENCODEC,
        "vocos": VOCOS,
        "snac": SNAC,
        "speechbrain": SPEECH,
        "pytorchcv": PYTORCHCV,
        "open_clip": CLIP,
        **LUCID,
        **FIELDS,
    }.items()
}
