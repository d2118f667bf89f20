"""ViT-Tiny of 16×16 patches (timm's vit_tiny_patch16_224): classes of an image, with a dynamic batch.

Its weights are made by `python tools/make_weights.py vit`.
"""

import trtdsl as td
import trtdsl.functional as F

N = td.Dim("N", min=1, opt=4, max=16)
HEADS = 3


def linear(x: td.Tensor, w: td.Scope):
    return F.linear(x, w.weight, w.bias)


def norm(x: td.Tensor, w: td.Scope):
    return F.layer_norm(x, w.weight.shape, w.weight, w.bias, eps=1e-6)


def attention(x: td.Tensor, w: td.Scope):
    weights = (w.qkv.weight, w.qkv.bias, None, None, False, 0.0, w.proj.weight, w.proj.bias)
    return F.multi_head_attention_forward(x, x, x, x.shape[-1], HEADS, *weights, need_weights=False)[0]


def mlp(x: td.Tensor, w: td.Scope):
    return linear(F.gelu(linear(x, w.fc1)), w.fc2)


@td.network(
    inputs={"x": td.Input((N, 3, 224, 224))},
    weights="../weights/vit.safetensors",
    reference="reference/vit.py:Model",
)
def vit(x: td.Tensor, w: td.Scope):
    patches = F.conv2d(x, w.patch_embed.proj.weight, w.patch_embed.proj.bias, stride=16)
    x = patches.flatten(2).transpose(1, 2)
    x = F.cat([w.cls_token.expand(x.shape[0], -1, -1), x], dim=1) + w.pos_embed
    x = x.transpose(0, 1)  # tokens first: the order in which the fused attention takes and gives them
    for block in w.blocks:
        x = x + attention(norm(x, block.norm1), block.attn)
        x = x + mlp(norm(x, block.norm2), block.mlp)
    return {"logits": linear(norm(x[0], w.norm), w.head)}
