"""Modules of transformers in small configurations: what `trtdsl port FILE.py:NAME` is given."""

from torch import nn
from transformers import (
    BertConfig,
    BertModel,
    CLIPTextConfig,
    CLIPTextModel,
    Dinov2Config,
    Dinov2Model,
    DistilBertConfig,
    DistilBertModel,
    DynamicCache,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    Qwen2Config,
    Qwen2ForCausalLM,
    SegformerConfig,
    SegformerForSemanticSegmentation,
    SwinConfig,
    SwinModel,
    T5Config,
    T5EncoderModel,
    ViTConfig,
    ViTForImageClassification,
    Wav2Vec2Config,
    Wav2Vec2Model,
    WhisperConfig,
    WhisperModel,
)  # fmt: skip

SIZES = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
TEXT = {**SIZES, "vocab_size": 100, "max_position_embeddings": 64}
TOKENS = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
GROUPED = {**TEXT, **TOKENS, "num_attention_heads": 4, "num_key_value_heads": 2, "use_cache": False}


def bert():
    return BertModel(BertConfig(**TEXT))


def distilbert():
    sizes = {"dim": 32, "n_layers": 2, "n_heads": 2, "hidden_dim": 64}
    return DistilBertModel(DistilBertConfig(**sizes, vocab_size=100, max_position_embeddings=64))


def t5():
    return T5EncoderModel(T5Config(d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4, vocab_size=100))


def gpt2():
    sizes = {"n_embd": 32, "n_layer": 2, "n_head": 2, "n_positions": 64}
    return GPT2LMHeadModel(GPT2Config(**sizes, **TOKENS, vocab_size=100, use_cache=False))


def llama():
    return LlamaForCausalLM(LlamaConfig(**GROUPED))


class CachedLlama(nn.Module):
    """A step of one layer: tokens after those whose keys and values are in the cache."""

    def __init__(self):
        super().__init__()
        self.model = LlamaForCausalLM(LlamaConfig(**{**GROUPED, "num_hidden_layers": 1, "use_cache": True}))

    def forward(self, tokens, positions, keys, values):
        cache = DynamicCache()
        cache.update(keys, values, 0)
        found = self.model(input_ids=tokens, position_ids=positions, past_key_values=cache)
        (layer,) = found.past_key_values.layers
        return {"logits": found.logits, "next_keys": layer.keys, "next_values": layer.values}


def qwen2():
    return Qwen2ForCausalLM(Qwen2Config(**GROUPED))


def clip_text():
    return CLIPTextModel(CLIPTextConfig(**{**TEXT, **TOKENS, "eos_token_id": 99}))


def vit():
    return ViTForImageClassification(ViTConfig(**SIZES, image_size=32, patch_size=8))


def dinov2():
    return Dinov2Model(Dinov2Config(**SIZES, image_size=28, patch_size=7))


def swin():
    return SwinModel(
        SwinConfig(image_size=32, patch_size=2, embed_dim=16, depths=[2, 2], num_heads=[2, 4], window_size=4)
    )


def segformer():
    sizes = {"depths": [1, 1, 1, 1], "hidden_sizes": [8, 16, 24, 32], "num_attention_heads": [1, 1, 2, 2]}
    return SegformerForSemanticSegmentation(SegformerConfig(**sizes, decoder_hidden_size=16))


def wav2vec2():
    layers = {"conv_dim": (16, 16), "conv_kernel": (10, 3), "conv_stride": (5, 2), "num_feat_extract_layers": 2}
    positions = {"num_conv_pos_embeddings": 16, "num_conv_pos_embedding_groups": 4}
    return Wav2Vec2Model(Wav2Vec2Config(**SIZES, **layers, **positions))


def whisper_encoder():
    sizes = {"d_model": 32, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64, "max_source_positions": 50}
    layers = {f"{side}_{what}": 2 for side in ("encoder", "decoder") for what in ("layers", "attention_heads")}
    return WhisperModel(WhisperConfig(**sizes, **layers, **TOKENS, vocab_size=100, decoder_start_token_id=1)).encoder
