"""torch's own functions and modules on Tensors: the result is torch's, or the message says what to write."""

import pytest
import torch
import torch.nn.functional as torch_F
from torch import nn

import trtdsl as td


def feeds(*shapes):
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(shape, generator=generator) for shape in shapes]


def both(function, *shapes):
    """The outputs of a function or module on a network's inputs, and on torch's tensors."""
    tensors = feeds(*shapes)
    net = td.Network()
    with torch.no_grad():
        made = function(*(net.input(f"x{index}", shape) for index, shape in enumerate(shapes)))
        expected = function(*(tensor.clone() for tensor in tensors))
    ours, theirs = (list(each) if isinstance(each, tuple) else [each] for each in (made, expected))
    for index, tensor in enumerate(ours):
        net.output(tensor, f"y{index}")
    found = td.interpret(net, {f"x{index}": tensor for index, tensor in enumerate(tensors)})
    assert len(ours) == len(theirs)
    return [found[f"y{index}"] for index in range(len(ours))], theirs


class Bottleneck(nn.Module):
    """A residual block as torchvision writes it: activations in place, and `+=`."""

    def __init__(self):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(4, 3, 1, bias=False), nn.BatchNorm2d(3)
        self.conv2, self.bn2 = nn.Conv2d(3, 3, 3, padding=1, groups=3, bias=False), nn.BatchNorm2d(3)
        self.conv3, self.bn3 = nn.Conv2d(3, 4, 1, bias=False), nn.BatchNorm2d(4)
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x):
        identity = x
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.relu(self.bn2(self.conv2(out)))
        out = self.bn3(self.conv3(out))
        out += identity
        return self.relu(out)


class Attention(nn.Module):
    """Self-attention as timm writes it: sizes, unbind, operators with numbers."""

    def __init__(self):
        super().__init__()
        self.qkv, self.proj, self.drop = nn.Linear(16, 48), nn.Linear(16, 16), nn.Dropout(0.1)

    def forward(self, x):
        batch, length, width = x.shape
        qkv = self.qkv(x).reshape(batch, length, 3, 4, width // 4).permute(2, 0, 3, 1, 4)
        q, k, v = qkv.unbind(0)
        scores = (q @ k.transpose(-2, -1)) * (width // 4) ** -0.5
        scores = self.drop(scores.softmax(dim=-1))
        return self.proj((scores @ v).transpose(1, 2).reshape(batch, length, width))


class SelfAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(16, 4, batch_first=True)

    def forward(self, x):
        return self.attention(x, x, x)


class SqueezeExcitation(nn.Module):
    def __init__(self):
        super().__init__()
        self.pool, self.fc1, self.fc2 = nn.AdaptiveAvgPool2d(1), nn.Conv2d(4, 2, 1), nn.Conv2d(2, 4, 1)

    def forward(self, x):
        scale = torch.sigmoid(self.fc2(torch_F.silu(self.fc1(self.pool(x)), inplace=True)))
        return scale * x


MODULES = {
    "bottleneck": (Bottleneck, (2, 4, 6, 6)),
    "attention": (Attention, (2, 5, 16)),
    "multi-head attention": (SelfAttention, (2, 5, 16)),
    "squeeze and excitation": (SqueezeExcitation, (2, 4, 6, 6)),
    "encoder layer": (lambda: nn.TransformerEncoderLayer(16, 4, 32, batch_first=True, norm_first=True), (2, 5, 16)),
    "decoder layer": (lambda: nn.TransformerDecoderLayer(16, 4, 32, batch_first=True), (2, 5, 16), (2, 6, 16)),
    "upsampling": (
        lambda: nn.Sequential(nn.Upsample(scale_factor=2, mode="bilinear"), nn.PixelShuffle(2)),
        (1, 4, 3, 3),
    ),
    "transposed": (lambda: nn.ConvTranspose2d(3, 4, 3, stride=2, padding=1, output_padding=1), (2, 3, 4, 4)),
    "norms": (lambda: nn.Sequential(nn.InstanceNorm2d(4, affine=True), nn.GroupNorm(2, 4), nn.PReLU(4)), (2, 4, 5, 5)),
}


@pytest.mark.parametrize("name", MODULES)
def test_a_modules_own_forward(name):
    make, *shapes = MODULES[name]
    torch.manual_seed(0)
    ours, theirs = both(make().eval(), *shapes)
    for found, expected in zip(ours, theirs, strict=True):
        torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-4)


CALLS = {
    "size": lambda x: x.view(x.size(0), -1) * x.size()[1],
    "unpacked shape": lambda x: torch.full((*x.shape[:-1], 1), 2.0) + x,
    "zeros_like": lambda x: torch.zeros_like(x) + torch.ones_like(x) * x + torch.full_like(x, 2.0),
    "stack": lambda x: torch.stack([x, x * 2], dim=1),
    "constants on the left": lambda x: torch.arange(6.0) * x + (torch.eye(6) @ x.t()).t() - 2 * x / torch.tensor(3.0),
    "constants' methods": lambda x: torch.ones(6).mul(x) + torch.ones(6).add(x) + torch.ones(2, 1).expand_as(x),
    "where": lambda x: torch.where(x > 0, x, torch.tensor(0.0)) + torch.where(x > 0, 1.0, 0.0),
    "a list for einsum": lambda x: torch.einsum("ij,kj->ik", [x, x]),
    "keywords": lambda x: torch_F.softmax(input=x, dim=-1, dtype=torch.float32) + torch_F.gelu(x, approximate="tanh"),
    "pad": lambda x: torch_F.pad(x, (1, 2), mode="constant", value=1.0),
    "topk": lambda x: torch.topk(x, 2, dim=1)[0] + torch.sort(x, dim=1).values[:, :2],
    "max": lambda x: torch.max(x, dim=1)[0] + torch.max(x, 1).values + x.amax(1),
    "norms": lambda x: x / x.norm(dim=1, keepdim=True) + torch.linalg.vector_norm(x, dim=1, keepdim=True),
    "special": lambda x: torch.special.expit(x) + torch.special.erf(x),
    "indices": lambda x: x[:, None, ..., :2] + x[..., 1:3].unsqueeze(1) + x[:, torch.tensor([0, 1])].unsqueeze(1),
    "a mask": lambda x: x.masked_fill(torch.triu(torch.ones(2, 6), diagonal=1).bool(), float("-inf")).softmax(-1),
    "compared": lambda x: ((x > 0) & (x < 1) | ~(x > 2)).float() + torch.logical_and(x > 0, torch.ones(6).bool()),
    "split": lambda x: torch.cat(torch.chunk(x, 2, dim=1)[::-1], dim=1) + torch.cat(x.split([2, 4], dim=1), 1),
    "rolled": lambda x: torch.roll(x, shifts=(1, -1), dims=(0, 1)) + torch.flip(x, [0, 1]),
    "grid": lambda x: torch.stack(torch.meshgrid(x[0], x[1], indexing="ij")),
    "dtypes": lambda x: x.to(torch.float16).to(x.dtype) + torch.arange(x.shape[1], device=x.device, dtype=x.dtype),
    "in place, its result used": lambda x: torch.relu_(x * 1) + torch_F.leaky_relu(x * 1, 0.1, inplace=True),
    "facts": lambda x: x * 1 if not (x.is_cuda or x.requires_grad or x.is_nested) else None,
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_torchs_functions_on_a_tensor(name):
    ours, theirs = both(CALLS[name], (2, 6))
    torch.testing.assert_close(ours, theirs)


def alias(x):
    y = x * 1
    z = y
    y += 1
    return z


def in_place(x):
    y = x * 1
    return torch_F.relu(y, inplace=True) + y


def dropped(x):
    y = x * 1
    torch.relu_(y)
    return y


@pytest.mark.parametrize("function", [alias, in_place, dropped])
def test_a_tensor_that_was_changed_in_place_is_not_used_again(function):
    """torch gives each name of it the new value, and a network would give it the old one."""
    before = function(feeds((2, 3))[0])
    assert not before.equal(feeds((2, 3))[0])
    with pytest.raises(td.DefinitionError, match=r"\(2, 3\) float32, was changed in place before .*write x = x \+ y"):
        both(function, (2, 3))


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda x: torch.add(x, 1, out=torch.zeros(2, 3)), r"torch\.add\(…, out=\) writes into a tensor"),
        (lambda x: torch.svd(x), "torch's own svd does not take a trtdsl Tensor"),
        (lambda x: torch.linalg.norm(x, 2, 1), "torch's own linalg_norm does not take a trtdsl Tensor"),
        (lambda x: (x * 1).add_(1), r"do not change in place, write x = x\.add"),
        (lambda x: torch.sum(x, initial=3), "sum"),
    ],
)
def test_calls_of_torch_that_are_refused(function, message):
    with pytest.raises((td.DefinitionError, AttributeError, TypeError), match=message):
        both(function, (2, 3))
