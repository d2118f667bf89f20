"""A small vision transformer: classes of an image, with a dynamic batch."""

import trtdsl as td
import trtdsl.functional as F

N = td.Dim("N", min=1, opt=4, max=16)
WIDTH, DEPTH, HEADS = 96, 4, 3


def norm(x, w):
    return F.layer_norm(x, (WIDTH,), w.weight, w.bias, eps=1e-6)


def attention(x, w):
    n, length, width = x.shape
    qkv = F.linear(x, w.qkv.weight, w.qkv.bias).reshape(n, length, 3, HEADS, width // HEADS)
    q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)
    x = F.scaled_dot_product_attention(q, k, v)
    return F.linear(x.transpose(1, 2).reshape(n, length, width), w.proj.weight, w.proj.bias)


def mlp(x, w):
    return F.linear(F.gelu(F.linear(x, w.fc1.weight, w.fc1.bias)), w.fc2.weight, w.fc2.bias)


@td.network(
    inputs={"x": td.Input((N, 3, 96, 96))},
    weights="../weights/vit.safetensors",
    reference="reference/vit.py:Model",
)
def vit(x, w):
    patches = F.conv2d(x, w.patch_embed.proj.weight, w.patch_embed.proj.bias, stride=16)
    x = patches.flatten(2).transpose(1, 2)
    x = F.cat([w.cls_token.expand(x.shape[0], -1, -1), x], dim=1) + w.pos_embed
    for k in range(DEPTH):
        block = w.blocks[k]
        x = x + attention(norm(x, block.norm1), block.attn)
        x = x + mlp(norm(x, block.norm2), block.mlp)
    x = norm(x, w.norm)[:, 0]
    return {"logits": F.linear(x, w.head.weight, w.head.bias)}
