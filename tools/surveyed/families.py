"""Further families of transformers: mixtures of experts, state spaces, pairs of encoder and decoder, rare encoders."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .subject import BATCH, Subject

SIZES = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
TOKENS = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
TEXT = {**SIZES, "vocab_size": 100, "max_position_embeddings": 64}
LENGTH = {"T": (2, 5, 8), **BATCH}
IDS = {"input_ids": "N,T:int64:3:100"}
BOTH = {**IDS, "decoder_input_ids": "N,4:int64:3:100"}
PIXELS, WIDE = {"pixel_values": "N,3,32,32"}, {"pixel_values": "N,3,64,64"}
PATCHES = {**SIZES, "image_size": 32, "patch_size": 8}
DECODER = {"n_embd": 32, "n_layer": 2, "n_head": 2, "n_positions": 64, "vocab_size": 100, **TOKENS, "use_cache": False}


def experts(subject: Any, causal: dict[str, Any], inputs: Any, dims: Any) -> Iterator[Subject]:
    """Decoders whose layers choose among four experts."""
    sizes = {"num_experts": 4, "num_local_experts": 4, "moe_intermediate_size": 16, "num_experts_per_tok": 2}
    sizes["shared_expert_intermediate_size"] = 16
    for name in ("Qwen2Moe", "Qwen3Moe", "Olmoe", "GraniteMoe", "MiniMax", "GptOss", "Llama4Text", "Jamba"):
        yield subject(name, {**causal, **sizes}, inputs, dims)
    latent = {
        "n_routed_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16, "kv_lora_rank": 16,
        "q_lora_rank": 16, "qk_rope_head_dim": 8, "qk_nope_head_dim": 8, "v_head_dim": 16, "head_dim": 8,
        "num_key_value_heads": 2, "topk_group": 1, "n_group": 1, "first_k_dense_replace": 1,
    }  # fmt: skip
    yield subject("DeepseekV2", {**causal, **latent}, inputs, dims)


def further(library: Any, subject: Any) -> Iterator[Subject]:
    """Encoders, decoders and pairs that are built otherwise than BERT and Llama."""
    yield subject("Deberta", {**TEXT, "relative_attention": True, "pos_att_type": ["p2c", "c2p"]}, IDS, LENGTH)
    yield subject("ModernBert", {**TEXT, **TOKENS, "cls_token_id": 1, "sep_token_id": 2}, IDS, LENGTH)
    yield subject("FNet", TEXT, IDS, {"T": 6, **BATCH})
    landmarks = {**TEXT, "num_landmarks": 8, "segment_means_seq_len": 8}
    yield subject("Nystromformer", landmarks, IDS, {"T": 8, **BATCH})
    groups = dict.fromkeys(("q_groups", "k_groups", "v_groups", "intermediate_groups", "output_groups"), 2)
    squeeze = {**TEXT, **groups, "embedding_size": 32, "post_attention_groups": 1}
    yield subject("SqueezeBert", squeeze, IDS, LENGTH)
    yield subject("RemBert", {**TEXT, "input_embedding_size": 16}, IDS, LENGTH)
    yield subject("XLNet", {"d_model": 32, "n_layer": 2, "n_head": 2, "d_inner": 64, "vocab_size": 100}, IDS, LENGTH)
    funnel = {"vocab_size": 100, "block_sizes": [1, 1], "d_model": 32, "n_head": 2, "d_head": 16, "d_inner": 64}
    yield subject("Funnel", {**funnel, "num_decoder_layers": 1}, IDS, {"T": 8, **BATCH})
    boxes = {**TEXT, "coordinate_size": 5, "shape_size": 6, "max_2d_position_embeddings": 64, "visual_embed": False}
    yield subject("LayoutLMv3", boxes, {**IDS, "bbox": "N,T,4:int64:1:2"}, LENGTH)
    yield subject("BigBird", {**TEXT, "attention_type": "original_full"}, IDS, LENGTH)
    window = {**TEXT, **TOKENS, "attention_window": 4}
    yield subject("Longformer", window, {"input_ids": "N,8:int64:3:100"}, BATCH)
    yield subject("XLM", {"emb_dim": 32, "n_layers": 2, "n_heads": 2, "vocab_size": 100, "n_words": 100}, IDS, LENGTH)
    rotary = {**TEXT, **TOKENS, "position_embedding_type": "rotary", "mask_token_id": 4}
    yield subject("Esm", rotary, IDS, LENGTH)
    local = {"num_layers": 2, "num_heads": 2, "attention_types": [[["global", "local"], 1]], "window_size": 4}
    yield subject("GPTNeo", {**TEXT, **TOKENS, **local, "use_cache": False}, IDS, LENGTH)
    yield subject("CTRL", {**DECODER, "dff": 64}, IDS, LENGTH)
    yield subject("CodeGen", {**DECODER, "n_head": 4, "rotary_dim": 4}, IDS, LENGTH)
    yield subject("GPTBigCode", DECODER, IDS, LENGTH)
    plain = {"vocab_size": 100, **TOKENS, "use_cache": False}
    yield subject("Mpt", {**plain, "d_model": 32, "n_layers": 2, "n_heads": 2, "max_seq_len": 64}, IDS, LENGTH)
    yield subject("XGLM", {**plain, "d_model": 32, "num_layers": 2, "attention_heads": 2, "ffn_dim": 64}, IDS, LENGTH)
    state = {**plain, "hidden_size": 16, "num_hidden_layers": 1, "state_size": 4}
    heads = {"num_heads": 4, "head_dim": 8, "n_groups": 1, "chunk_size": 4}
    yield subject("Mamba2", {**state, **heads}, IDS, {"T": 6, **BATCH})
    yield subject("FalconMamba", state, IDS, {"T": 6, **BATCH})
    bart = {
        **plain, "d_model": 32, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 2,
        "decoder_attention_heads": 2, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64, "max_position_embeddings": 64,
        "decoder_start_token_id": 2,
    }  # fmt: skip
    for name in ("Marian", "Blenderbot", "M2M100", "PLBart", "Mvp"):
        yield subject(name, bart, BOTH, LENGTH)
    t5 = {**plain, "d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4, "decoder_start_token_id": 0}
    for name in ("MT5", "UMT5"):
        yield subject(name, t5, BOTH, LENGTH)
    yield subject("Bert", TEXT, IDS, LENGTH, "ForMaskedLM")
    yield subject("Roberta", TEXT, {**IDS, "attention_mask": "N,T:int64:0:2"}, LENGTH, "ForTokenClassification")
    yield from _images(library, subject)


def _images(library: Any, subject: Any) -> Iterator[Subject]:
    levels = {"hidden_sizes": [8, 16], "focal_levels": [2, 2], "focal_windows": [3, 3], "depths": [1, 1]}
    yield subject("FocalNet", {"image_size": 32, "patch_size": 4, "embed_dim": 8, **levels}, PIXELS, BATCH)
    for name in ("Data2VecVision", "Dinov2WithRegisters"):
        yield subject(name, PATCHES, PIXELS, BATCH)
    sizes = {"embedding_size": 8, "hidden_sizes": [8, 8, 16, 16], "depths": [1, 1, 1, 1]}
    boxes = {
        "backbone_config": library.ResNetConfig(**sizes, out_features=["stage4"]), "use_timm_backbone": False,
        "use_pretrained_backbone": False, "backbone": None, "d_model": 32, "encoder_layers": 1, "decoder_layers": 1,
        "encoder_attention_heads": 2, "decoder_attention_heads": 2, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64,
        "num_queries": 5, "num_labels": 3,
    }  # fmt: skip
    for name in ("Detr", "ConditionalDetr", "TableTransformer"):
        yield subject(name, boxes, WIDE, BATCH, "ForObjectDetection")
