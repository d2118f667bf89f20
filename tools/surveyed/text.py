"""Text, vision and speech models of transformers, in small configurations."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch

from .families import experts, further
from .subject import BATCH, Subject, settled

BERT_LIKE = (
    "Bert", "Roberta", "Electra", "MPNet", "Camembert", "XLMRoberta", "Ernie", "LayoutLM", "Nezha",
    "RoFormer", "Data2VecText", "ConvBert", "MegatronBert", "Splinter", "BertGeneration",
)  # fmt: skip
LLAMA_LIKE = (
    "Llama", "Qwen2", "Qwen3", "Gemma", "Mistral", "Olmo", "StableLm", "Starcoder2", "Granite", "Phi", "Glm",
    "Cohere", "Gemma2", "Phi3", "Olmo2", "Nemotron", "Persimmon", "Gemma3Text", "Cohere2", "SmolLM3", "Glm4", "Exaone4",
    "Ernie4_5", "Helium", "Arcee", "Apertus", "HunYuanDenseV1", "SeedOss", "Olmo3", "Ministral", "NanoChat", "BitNet",
    "Doge", "VaultGemma", "Lfm2",
)  # fmt: skip
SIZES = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
TOKENS = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
TEXT = {**SIZES, "vocab_size": 100, "max_position_embeddings": 64}
LENGTH = {"T": (2, 5, 8), **BATCH}
IDS = {"input_ids": "N,T:int64:3:100"}
PIXELS = {"pixel_values": "N,3,32,32"}


def transformers() -> Iterator[Subject]:
    """Encoders, decoders, both, and models of images and sound."""
    library = importlib.import_module("transformers")

    def subject(name: str, sizes: Any, inputs: Any, dims: Any, kind: str = "Model", note: str = "") -> Subject:
        make = lambda: getattr(library, f"{name}{kind}")(getattr(library, f"{name}Config")(**sizes))  # noqa: E731
        return Subject(f"{name}{'' if kind == 'Model' else kind}{note}", make, inputs, dims)

    for name in BERT_LIKE:
        if hasattr(library, f"{name}Model"):
            yield subject(name, TEXT, IDS, LENGTH)
    causal = {**TEXT, **TOKENS, "num_key_value_heads": 1, "head_dim": 16, "use_cache": False}
    for name in LLAMA_LIKE:
        if hasattr(library, f"{name}Model"):
            yield subject(name, causal, IDS, LENGTH)
    for name in ("ViT", "DeiT", "Dinov2", "ViTMSN"):
        yield subject(name, {**SIZES, "image_size": 32, "patch_size": 8}, PIXELS, BATCH)
    small = {"n_embd": 32, "n_layer": 2, "n_head": 2, "vocab_size": 100, **TOKENS, "use_cache": False}
    yield subject("GPT2", {**small, "n_positions": 64}, IDS, LENGTH)
    yield from _texts(library, subject)
    yield from experts(subject, causal, IDS, LENGTH)
    yield from further(library, subject)
    yield from _images(subject)
    yield from _sounds(subject)


def _texts(library: Any, subject: Any) -> Iterator[Subject]:
    t5 = {"d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4, "vocab_size": 100}
    yield Subject("T5", lambda: library.T5EncoderModel(library.T5Config(**t5)), IDS, LENGTH)
    both = {"input_ids": "N,T:int64:3:100", "decoder_input_ids": "N,4:int64:3:100"}
    yield subject("T5", {**t5, **TOKENS, "use_cache": False, "decoder_start_token_id": 0}, both, LENGTH, note=" both")
    masked = {**IDS, "attention_mask": "N,T:int64:0:2"}
    yield subject("Bert", TEXT, masked, LENGTH, "ForSequenceClassification")
    distil = {
        "dim": 32,
        "n_layers": 2,
        "n_heads": 2,
        "hidden_dim": 64,
        "vocab_size": 100,
        "max_position_embeddings": 64,
    }
    yield subject("DistilBert", distil, IDS, LENGTH)
    yield subject("Albert", {**TEXT, "embedding_size": 16}, IDS, LENGTH)
    yield subject("DebertaV2", {**TEXT, "relative_attention": True, "pos_att_type": ["p2c", "c2p"]}, IDS, LENGTH)
    yield subject(
        "MobileBert", {**TEXT, "embedding_size": 16, "intra_bottleneck_size": 16, "true_hidden_size": 16}, IDS, LENGTH
    )
    neo = {**TEXT, **TOKENS, "use_cache": False}
    yield subject("GPTNeoX", neo, IDS, LENGTH)
    yield subject("OPT", {**neo, "ffn_dim": 64, "word_embed_proj_dim": 32}, IDS, LENGTH)
    yield subject(
        "Bloom",
        {"hidden_size": 32, "n_layer": 2, "n_head": 2, "vocab_size": 100, **TOKENS, "use_cache": False},
        IDS,
        LENGTH,
    )
    yield subject("Falcon", neo, IDS, LENGTH)
    yield subject(
        "GPTJ",
        {"n_embd": 32, "n_layer": 2, "n_head": 2, "rotary_dim": 8, "vocab_size": 100, **TOKENS, "use_cache": False},
        IDS,
        LENGTH,
    )
    bart = {
        "d_model": 32, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 2, "vocab_size": 100,
        "decoder_attention_heads": 2, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64, "max_position_embeddings": 64,
        **TOKENS, "use_cache": False, "decoder_start_token_id": 2,
    }  # fmt: skip
    for name in ("Bart", "MBart", "Pegasus"):
        yield subject(name, bart, both, LENGTH)
    mamba = {
        "hidden_size": 16,
        "num_hidden_layers": 2,
        "state_size": 4,
        "vocab_size": 100,
        **TOKENS,
        "use_cache": False,
    }
    yield subject("Mamba", mamba, IDS, {"T": 6, **BATCH})
    clip = {**SIZES, "vocab_size": 100, "max_position_embeddings": 16, **TOKENS}
    yield subject("CLIPText", clip, {"input_ids": "N,16:int64:3:100"}, BATCH)
    yield subject("SiglipText", clip, {"input_ids": "N,16:int64:3:100"}, BATCH)
    moe = {**TEXT, **TOKENS, "num_key_value_heads": 1, "num_local_experts": 4, "use_cache": False}
    yield subject("Mixtral", moe, IDS, LENGTH)


def _images(subject: Any) -> Iterator[Subject]:
    patches = {**SIZES, "image_size": 32, "patch_size": 8}
    swin = {"image_size": 32, "patch_size": 2, "embed_dim": 16, "depths": [2, 2], "num_heads": [2, 4], "window_size": 4}
    yield subject("Swin", swin, PIXELS, BATCH)
    yield subject("Swinv2", swin, PIXELS, BATCH)
    stages, wide = {"hidden_sizes": [8, 16, 16, 16]}, {"pixel_values": "N,3,64,64"}
    for name in ("ConvNext", "ConvNextV2", "ResNet", "RegNet"):
        yield subject(name, stages if name != "RegNet" else {**stages, "groups_width": 8}, wide, BATCH)
    for name in ("CLIPVision", "SiglipVision"):
        yield subject(name, patches, PIXELS, BATCH)
    yield subject("Beit", {**patches, "use_relative_position_bias": True}, PIXELS, BATCH)
    yield subject("Yolos", {**patches, "image_size": [32, 32], "num_detection_tokens": 5}, PIXELS, BATCH)
    hiera = {
        "image_size": [32, 32], "patch_size": [7, 7], "embed_dim": 8, "num_heads": [1, 1], "depths": [1, 1],
        "patch_stride": [4, 4], "patch_padding": [3, 3], "masked_unit_size": [2, 2], "query_stride": [2, 2],
        "num_query_pool": 1,
    }  # fmt: skip
    yield subject("Hiera", hiera, PIXELS, BATCH)
    pyramid = {
        "hidden_sizes": [8, 16], "num_encoder_blocks": 2, "depths": [1, 1], "sr_ratios": [2, 1], "patch_sizes": [7, 3],
        "strides": [4, 2], "num_attention_heads": [1, 2], "mlp_ratios": [2, 2],
    }  # fmt: skip
    form = {**pyramid, "decoder_hidden_size": 8}
    yield subject(
        "Segformer", form, {"pixel_values": "N,3,32*H,32"}, {"H": (1, 2, 3), **BATCH}, "ForSemanticSegmentation"
    )
    yield subject("GLPN", form, PIXELS, BATCH)
    yield subject("PoolFormer", {"hidden_sizes": [8, 8, 16, 16], "depths": [1, 1, 1, 1]}, wide, BATCH)
    yield subject("MobileNetV2", {"depth_multiplier": 0.25}, wide, BATCH)
    narrow = {"hidden_sizes": [16, 16, 16], "neck_hidden_sizes": [8] * 7, "num_attention_heads": 2}
    scaled = {"width_coefficient": 0.25, "depth_coefficient": 0.25, "hidden_dim": 320}
    for name, sizes in (("MobileViT", {"image_size": 64, **narrow}), ("EfficientNet", scaled)):
        made = subject(name, sizes, wide, BATCH)
        yield replace(made, make=lambda make=made.make: settled(make(), torch.randn(2, 3, 64, 64)))
    yield subject(
        "Pvt",
        {"image_size": 64, "hidden_sizes": [8, 8, 16, 16], "depths": [1, 1, 1, 1], "num_attention_heads": [1, 1, 2, 2]},
        wide,
        BATCH,
    )
    yield subject("Dinov2", {**patches, "use_swiglu_ffn": True}, PIXELS, BATCH, note=" gated")
    neck = {
        "backbone_out_indices": [0, 1, 2, 3],
        "num_hidden_layers": 4,
        "neck_hidden_sizes": [8, 8, 8, 8],
        "fusion_hidden_size": 8,
    }
    yield subject("DPT", {**patches, **neck, "num_labels": 3}, PIXELS, BATCH, "ForDepthEstimation")
    yield subject("VideoMAE", {**patches, "num_frames": 4, "tubelet_size": 2}, {"pixel_values": "N,4,3,32,32"}, BATCH)
    sam = {"image_size": 64, "patch_size": 8, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2,
           "mlp_dim": 32, "output_channels": 8, "window_size": 4, "global_attn_indexes": [1]}  # fmt: skip
    yield subject("SamVision", sam, wide, BATCH)
    timesformer = {**patches, "num_frames": 2}
    yield subject("Timesformer", timesformer, {"pixel_values": "N,2,3,32,32"}, BATCH)


def _sounds(subject: Any) -> Iterator[Subject]:
    wave = {
        **SIZES, "conv_dim": [8, 8], "conv_stride": [5, 2], "conv_kernel": [10, 3], "num_feat_extract_layers": 2,
        "num_conv_pos_embeddings": 8, "num_conv_pos_embedding_groups": 2, "vocab_size": 20,
    }  # fmt: skip
    dims = {"S": (400, 500, 640), **BATCH}
    for name in ("Wav2Vec2", "Hubert", "WavLM", "UniSpeech", "SEW"):
        extra = {"squeeze_factor": 2} if name == "SEW" else {}
        yield subject(name, {**wave, **extra}, {"input_values": "N,S"}, dims)
    yield subject("Wav2Vec2", wave, {"input_values": "N,S"}, dims, "ForCTC")
    ast = {**SIZES, "patch_size": 4, "frequency_stride": 4, "time_stride": 4, "max_length": 16, "num_mel_bins": 8}
    yield subject("AST", ast, {"input_values": "N,16,8"}, BATCH)
    whisper = {
        "d_model": 32, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 2, "vocab_size": 100,
        "decoder_attention_heads": 2, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64, "max_source_positions": 50,
        "max_target_positions": 20, "num_mel_bins": 8, **TOKENS, "use_cache": False, "decoder_start_token_id": 1,
    }  # fmt: skip
    given = {"input_features": "N,8,100", "decoder_input_ids": "N,4:int64:3:100"}
    yield subject("Whisper", whisper, given, BATCH)
