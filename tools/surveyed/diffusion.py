"""UNets, autoencoders and transformers of diffusers, in small configurations."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any

from .subject import BATCH, Subject, image

SMALL = {"block_out_channels": (8, 16), "norm_num_groups": 4, "layers_per_block": 1}
CODER = {"down_block_types": ("DownEncoderBlock2D",) * 2, "up_block_types": ("UpDecoderBlock2D",) * 2}
CROSS = {
    "down_block_types": ("CrossAttnDownBlock2D", "DownBlock2D"), "up_block_types": ("UpBlock2D", "CrossAttnUpBlock2D"),
}  # fmt: skip
LATENT = {"sample": "N,4,16,16", "timestep": "N:int64:0:1000"}
HEADS = {"num_attention_heads": 2, "attention_head_dim": 8, "num_layers": 2}


def diffusers() -> Iterator[Subject]:
    """What pipelines are made of; the class's name, and what is special about it."""
    library = importlib.import_module("diffusers")

    def subject(kind: str, inputs: dict[str, str], dims: dict[str, Any] = BATCH, /, note: str = "", **sizes: Any):
        return Subject(f"{kind} {note}".strip(), lambda: getattr(library, kind)(**sizes), inputs, dims)

    yield from _unets(subject)
    yield from _autoencoders(subject, library)
    yield from _transformers(subject)
    yield from _recent(subject)


def _unets(subject: Any) -> Iterator[Subject]:
    blocks = {"down_block_types": ("DownBlock2D", "AttnDownBlock2D"), "up_block_types": ("AttnUpBlock2D", "UpBlock2D")}
    ends = {"sample_size": 16, "in_channels": 4, "out_channels": 4}
    yield subject("UNet2DModel", LATENT, attention_head_dim=4, **ends, **SMALL, **blocks)
    text = {**LATENT, "encoder_hidden_states": "N,T,8"}
    dims = {"T": (2, 5, 7), **BATCH}
    conditional = {**ends, **SMALL, **CROSS, "cross_attention_dim": 8, "attention_head_dim": 4}
    yield subject("UNet2DConditionModel", text, dims, **conditional)
    linear = {**conditional, "use_linear_projection": True, "class_embed_type": "timestep"}
    yield subject("UNet2DConditionModel", {**text, "class_labels": "N:float32:0:9"}, dims, note="linear", **linear)
    sides = {"sample": "N,4,8*H,16", "timestep": "N:int64:0:1000", "encoder_hidden_states": "N,5,8"}
    yield subject("UNet2DConditionModel", sides, {"H": (1, 2, 3), **BATCH}, note="sides", **conditional)
    single = {"sample": "N,4,16,16", "timestep": ":int64:0:1000", "encoder_hidden_states": "N,5,8"}
    yield subject("UNet2DConditionModel", single, note="one timestep", **conditional)
    control = {
        key: conditional[key] for key in conditional if key not in ("sample_size", "out_channels", "up_block_types")
    }
    control = {**control, "conditioning_embedding_out_channels": (4, 8)}
    yield subject("ControlNetModel", {**text, "controlnet_cond": "N,3,32,32"}, dims, **control)
    frames = {"sample": "N,4,3,16,16", "timestep": "N:int64:0:1000", "encoder_hidden_states": "N,5,8"}
    blocks3 = {
        "down_block_types": ("CrossAttnDownBlock3D", "DownBlock3D"),
        "up_block_types": ("UpBlock3D", "CrossAttnUpBlock3D"),
    }
    sizes = {**ends, **SMALL, **blocks3, "cross_attention_dim": 8, "attention_head_dim": 4}
    yield subject("UNet3DConditionModel", frames, **sizes)
    motion = {
        "down_block_types": ("CrossAttnDownBlockMotion", "DownBlockMotion"),
        "up_block_types": ("UpBlockMotion", "CrossAttnUpBlockMotion"),
        "motion_num_attention_heads": 2,
        "num_attention_heads": 2,
    }
    frames = {**frames, "encoder_hidden_states": "3*N,5,8"}  # for each frame
    yield subject("UNetMotionModel", frames, **ends, **SMALL, **motion, cross_attention_dim=8)
    adapter = {"in_channels": 3, "channels": [8, 16], "num_res_blocks": 1, "downscale_factor": 8}
    yield subject("T2IAdapter", {"x": "N,3,32,32"}, **adapter)


def _autoencoders(subject: Any, library: Any) -> Iterator[Subject]:
    pixels = {"sample": "N,3,16,16"}
    yield subject("AutoencoderKL", pixels, **SMALL, **CODER)
    yield subject("AutoencoderKL", {"sample": "N,3,4*H,16"}, {"H": (2, 4, 5), **BATCH}, note="sides", **SMALL, **CODER)
    tiny = {"encoder_block_out_channels": (8, 8), "decoder_block_out_channels": (8, 8)}
    yield subject("AutoencoderTiny", pixels, **tiny, num_encoder_blocks=(1, 1), num_decoder_blocks=(1, 1))
    yield subject("VQModel", pixels, **SMALL, **CODER, num_vq_embeddings=16)
    made = lambda: _decoder(library.AutoencoderKL(**SMALL, **CODER))  # noqa: E731
    yield image("AutoencoderKL decoder", made, 8, channels=4)
    asymmetric = {
        "down_block_out_channels": (8, 16), "layers_per_down_block": 1, "up_block_out_channels": (8, 16),
        "layers_per_up_block": 1, "norm_num_groups": 4,
    }  # fmt: skip
    yield subject("AsymmetricAutoencoderKL", pixels, **asymmetric, **CODER)
    temporal = {"block_out_channels": (32, 32), "layers_per_block": 1, "down_block_types": CODER["down_block_types"]}
    made = lambda: library.AutoencoderKLTemporalDecoder(**temporal).encoder  # noqa: E731
    yield image("AutoencoderKLTemporalDecoder encoder", made, 16)
    deep = {
        "latent_channels": 4, "encoder_block_types": ("ResBlock", "EfficientViTBlock"), "attention_head_dim": 2,
        "decoder_block_types": ("ResBlock", "EfficientViTBlock"), "encoder_block_out_channels": (8, 8),
        "decoder_block_out_channels": (8, 8), "encoder_layers_per_block": (1, 1), "decoder_layers_per_block": (1, 1),
        "encoder_qkv_multiscales": ((), (5,)), "decoder_qkv_multiscales": ((), (5,)),
    }  # fmt: skip
    yield subject("AutoencoderDC", pixels, **deep)


def _decoder(coder: Any) -> Any:
    from torch import nn

    return nn.Sequential(coder.post_quant_conv, coder.decoder)


def _transformers(subject: Any) -> Iterator[Subject]:
    label = {"hidden_states": "N,4,8,8", "timestep": "N:int64:0:1000", "class_labels": "N:int64:0:5"}
    image_sizes = {"in_channels": 4, "sample_size": 8, "patch_size": 2, "norm_num_groups": 4}
    yield subject("DiTTransformer2DModel", label, **image_sizes, **HEADS, num_embeds_ada_norm=5)
    text = {"hidden_states": "N,4,8,8", "timestep": "N:int64:0:1000", "encoder_hidden_states": "N,5,8"}
    pixart = {
        **HEADS,
        "in_channels": 4,
        "sample_size": 8,
        "patch_size": 2,
        "cross_attention_dim": 16,
        "caption_channels": 8,
    }
    yield subject("PixArtTransformer2DModel", text, **pixart, use_additional_conditions=False)
    plain = {"hidden_states": "N,8,8,8", "encoder_hidden_states": "N,5,8"}
    yield subject("Transformer2DModel", plain, **HEADS, in_channels=8, norm_num_groups=4, cross_attention_dim=8)
    stable = {
        "hidden_states": "N,4,8,8",
        "encoder_hidden_states": "N,5,8",
        "pooled_projections": "N,16",
        "timestep": "N:int64:0:1000",
    }
    sizes = {"sample_size": 8, "patch_size": 2, "in_channels": 4, "out_channels": 4, "joint_attention_dim": 8}
    three = {**sizes, **HEADS, "caption_projection_dim": 16, "pooled_projection_dim": 16, "pos_embed_max_size": 8}
    yield subject("SD3Transformer2DModel", stable, **three)
    flux = {
        "hidden_states": "N,16,4", "encoder_hidden_states": "N,5,8", "pooled_projections": "N,8",
        "timestep": "N:float32:0:1", "img_ids": "16,3:float32:0:8", "txt_ids": "5,3:float32:0:8",
    }  # fmt: skip
    one = {"in_channels": 4, "num_layers": 1, "num_single_layers": 1, "attention_head_dim": 8, "num_attention_heads": 2}
    joint = {"joint_attention_dim": 8, "pooled_projection_dim": 8, "axes_dims_rope": (2, 2, 4)}
    yield subject("FluxTransformer2DModel", flux, **one, **joint)
    sana = {**HEADS, "in_channels": 4, "out_channels": 4, "num_cross_attention_heads": 2, "cross_attention_head_dim": 8}
    sana = {**sana, "cross_attention_dim": 16, "caption_channels": 8, "sample_size": 8, "patch_size": 1}
    yield subject("SanaTransformer2DModel", text, **sana)
    prior = {
        "hidden_states": "N,8",
        "timestep": "N:int64:0:1000",
        "proj_embedding": "N,8",
        "encoder_hidden_states": "N,7,8",
    }
    yield subject("PriorTransformer", prior, **HEADS, embedding_dim=8, num_embeddings=7, additional_embeddings=4)
    aura = {
        **sizes,
        "num_mmdit_layers": 1,
        "num_single_dit_layers": 1,
        "attention_head_dim": 8,
        "num_attention_heads": 2,
    }
    yield subject("AuraFlowTransformer2DModel", {k: v for k, v in stable.items() if k != "pooled_projections"}, **aura,
                  caption_projection_dim=16, pos_embed_max_size=16)  # fmt: skip
    video = {"hidden_states": "N,3,4,8,8", "encoder_hidden_states": "N,5,8", "timestep": "N:int64:0:1000"}
    cog = {**HEADS, "in_channels": 4, "out_channels": 4, "time_embed_dim": 4, "text_embed_dim": 8, "sample_width": 8}
    cog = {**cog, "sample_height": 8, "sample_frames": 9, "patch_size": 2, "max_text_seq_length": 5}
    yield subject("CogVideoXTransformer3DModel", video, **cog)
    wan = {"hidden_states": "N,4,2,8,8", "timestep": "N:int64:0:1000", "encoder_hidden_states": "N,5,8"}
    sizes = {
        "patch_size": (1, 2, 2),
        "num_attention_heads": 2,
        "attention_head_dim": 12,
        "in_channels": 4,
        "out_channels": 4,
    }
    yield subject("WanTransformer3DModel", wan, **sizes, text_dim=8, freq_dim=16, ffn_dim=32, num_layers=2)


def _recent(subject: Any) -> Iterator[Subject]:
    """Models of sound, video and large images."""
    times = "N:int64:0:1000"
    blocks = {
        "down_block_types": ("DownResnetBlock1D",) * 4, "up_block_types": ("UpResnetBlock1D",) * 3,
        "mid_block_type": "MidResTemporalBlock1D", "out_block_type": "OutConv1DBlock", "act_fn": "swish",
        "time_embedding_type": "positional", "use_timestep_embedding": True, "downsample_each_block": False,
        "flip_sin_to_cos": False, "freq_shift": 1, "block_out_channels": (8, 8, 16, 16), "layers_per_block": 1,
    }  # fmt: skip
    path = {"sample": "N,14,16", "timestep": times}
    yield subject("UNet1DModel", path, **blocks, in_channels=14, out_channels=14, norm_num_groups=4)
    latte = {"hidden_states": "N,4,2,8,8", "timestep": times, "encoder_hidden_states": "N,5,8"}
    small = {"num_attention_heads": 2, "attention_head_dim": 8, "num_layers": 1}
    sizes = {"sample_size": 8, "patch_size": 2, "in_channels": 4, "cross_attention_dim": 16, "caption_channels": 8}
    norms = {"norm_type": "ada_norm_single", "attention_bias": True, "num_embeds_ada_norm": 1000, "video_length": 2}
    yield subject("LatteTransformer3DModel", latte, **small, **sizes, **norms)
    sound = {
        "hidden_states": "N,4,8", "timestep": "N:float32:0:1", "encoder_hidden_states": "N,5,4",
        "global_hidden_states": "N,1,8",
    }  # fmt: skip
    heads = {"num_attention_heads": 2, "attention_head_dim": 16, "num_layers": 1, "num_key_value_attention_heads": 1}
    widths = {"cross_attention_dim": 4, "time_proj_dim": 8, "global_states_input_dim": 8}
    ends = {"in_channels": 4, "out_channels": 4}
    widths["cross_attention_input_dim"] = 4
    yield subject("StableAudioDiTModel", sound, sample_size=8, **ends, **heads, **widths)
    pairs = dict.fromkeys(("original_size", "target_size", "crop_coords"), "N,2:float32:0:9")
    text = {"hidden_states": "N,4,8,8", "encoder_hidden_states": "N,5,8", "timestep": times, **pairs}
    view = {"text_embed_dim": 8, "time_embed_dim": 8, "condition_dim": 2, "patch_size": 2, "sample_size": 8}
    yield subject("CogView3PlusTransformer2DModel", text, **ends, **small, **view, pos_embed_max_size=8)
    control = {
        "hidden_states": "N,4,8,8", "controlnet_cond": "N,4,8,8", "encoder_hidden_states": "N,5,8",
        "pooled_projections": "N,8", "timestep": times,
    }  # fmt: skip
    stable = {"sample_size": 8, "patch_size": 2, "joint_attention_dim": 8, "caption_projection_dim": 16}
    yield subject("SD3ControlNetModel", control, **ends, **small, **stable, pooled_projection_dim=8)
    video = {
        "hidden_states": "N,4,1,8,8", "timestep": times, "encoder_hidden_states": "N,5,8", "guidance": "N:float32:0:1",
        "encoder_attention_mask": "N,5:bool", "pooled_projections": "N,8",
    }  # fmt: skip
    layers = {"num_layers": 1, "num_single_layers": 1, "num_refiner_layers": 1, "patch_size": 2, "patch_size_t": 1}
    embeds = {"guidance_embeds": True, "text_embed_dim": 8, "pooled_projection_dim": 8, "rope_axes_dim": (2, 4, 4)}
    heads = {"num_attention_heads": 2, "attention_head_dim": 10}
    yield subject("HunyuanVideoTransformer3DModel", video, **ends, **heads, **layers, **embeds)
    coder = {"block_out_channels": (8, 8), "layers_per_block": 1, "norm_num_groups": 2, "latent_channels": 4}
    kinds = {"down_block_types": ("CogVideoXDownBlock3D",) * 2, "up_block_types": ("CogVideoXUpBlock3D",) * 2}
    clip = {"sample": "N,3,5,16,16"}
    yield subject("AutoencoderKLCogVideoX", clip, **coder, **kinds, temporal_compression_ratio=2)
    oobleck = {"downsampling_ratios": [2, 4], "channel_multiples": [1, 2], "encoder_hidden_size": 8}
    audio = {"decoder_channels": 4, "decoder_input_channels": 4, "audio_channels": 2}
    yield subject("AutoencoderOobleck", {"sample": "N,2,64"}, **oobleck, **audio)
