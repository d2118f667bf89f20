"""Networks that are wrong on purpose, by class, and right ones beside them: a check must tell them apart.

Each entry gives a spec and the arguments of :func:`trtdsl.check`.
"""

import copy
import dataclasses

import torch
from torch import nn

import trtdsl as td
import trtdsl.functional as F

WRONG, RIGHT = {}, {}


def wrong(function):
    WRONG[function.__name__] = function
    return function


def right(function):
    RIGHT[function.__name__] = function
    return function


class Function(nn.Module):
    """A module of a plain function."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *inputs):
        return self.function(*inputs)


def ref(function):
    return lambda: Function(function)


def net(function, reference, check=None, **inputs):
    given = {name: spec if isinstance(spec, td.Input) else td.Input(spec) for name, spec in inputs.items()}
    return td.network(inputs=given, reference=reference, name="t")(function), check or {}


def linear():
    torch.manual_seed(0)
    return nn.Linear(16, 16)


MASK = torch.tensor([True] * 4 + [False] * 4)


@dataclasses.dataclass
class Out:
    y: torch.Tensor
    more: tuple


# -- a reference that works in place -----------------------------------------------------------------------------------


class InPlace(nn.Module):
    def forward(self, x):
        x.relu_()
        return x * 2


class AddsInPlace(nn.Module):
    def forward(self, x):
        x += 1
        return x * 2


class Counts(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("c", torch.ones(3))

    def forward(self, x):
        self.c += 1
        return x * self.c


@wrong
def input_in_place():
    return net(lambda x: x * 2, InPlace, x=(2, 3))


@right
def input_in_place_right():
    return net(lambda x: (x + 1) * 2, AddsInPlace, x=(2, 3))


def counting(function):
    return td.network(inputs={"x": td.Input((2, 3))}, reference=Counts, name="t")(function), {
        "weights": {"c": torch.ones(3)}
    }


@wrong
def buffer_in_place():
    return counting(lambda x, w: x * w.c)


@right
def buffer_in_place_right():
    return counting(lambda x, w: x * (w.c + 1))


# -- outputs that vanish -----------------------------------------------------------------------------------------------


@wrong
def tuple_in_a_dict():
    return net(lambda x: {"y": x * 2}, ref(lambda x: {"y": x * 2, "hidden_states": (x,)}), x=(2, 3))


@wrong
def list_in_a_dict():
    return net(lambda x: {"y": x * 2}, ref(lambda x: {"y": x * 2, "states": [x]}), x=(2, 3))


@wrong
def dict_in_a_dict():
    return net(lambda x: {"y": x * 2}, ref(lambda x: {"y": x * 2, "a": {"b": x}}), x=(2, 3))


@wrong
def dict_in_a_tuple():
    return net(lambda x: (x * 2,), ref(lambda x: (x * 2, {"b": x})), x=(2, 3))


@wrong
def tuple_in_a_dataclass():
    return net(lambda x: {"y": x * 2}, ref(lambda x: Out(x * 2, (x,))), x=(2, 3))


@wrong
def swapped_leaves():
    return net(lambda x: {"a": x + 1, "b.0": x * 2}, ref(lambda x: {"a": x * 2, "b": (x + 1,)}), x=(2, 3))


@right
def leaves_by_name():
    return net(lambda x: {"a": x * 2, "b.0": x + 1}, ref(lambda x: {"a": x * 2, "b": (x + 1,)}), x=(2, 3))


# -- what one scale for an output hides --------------------------------------------------------------------------------


@wrong
def beside_a_mask():
    return net(lambda x: F.masked_fill(x * 1.01, MASK, -1e9), ref(lambda x: x.masked_fill(MASK, -1e9)), x=(4, 8))


@wrong
def beside_the_least_number():
    least = torch.finfo(torch.float32).min
    reference = ref(lambda x: x.masked_fill(MASK, torch.finfo(x.dtype).min))
    return net(lambda x: F.masked_fill(x * 1.01, MASK, least), reference, x=(4, 8))


@right
def the_least_number():
    least = torch.finfo(torch.float32).min
    reference = ref(lambda x: x.masked_fill(MASK, torch.finfo(x.dtype).min))
    return net(lambda x: F.masked_fill(x, MASK, least), reference, x=(4, 8))


@wrong
def another_mask_value():
    return net(lambda x: F.masked_fill(x, MASK, -1e8), ref(lambda x: x.masked_fill(MASK, -1e9)), x=(4, 8))


@wrong
def small_channel():
    right, other = torch.tensor([1e4, 1e-3, 1.0]), torch.tensor([1e4, 1.01e-3, 1.0])
    return net(lambda x: x * other.reshape(1, 3, 1), ref(lambda x: x * right.reshape(1, 3, 1)), x=(2, 3, 8))


@wrong
def scores_beside_boxes():
    def reference(x):
        return torch.cat([x[..., :4] * 640, torch.sigmoid(x[..., 4:])], -1)

    return net(lambda x: F.cat([x[..., :4] * 640, F.sigmoid(x[..., 4:]) * 1.002], -1), ref(reference), x=(1, 50, 6))


@wrong
def beside_an_outlier():
    scale = torch.tensor([1e6, 1, 1, 1.0]).reshape(4, 1)
    shift = torch.tensor([0, 1e-2, 0, 0]).reshape(4, 1)
    return net(lambda x: x * scale + shift, ref(lambda x: x * scale), x=(4, 32))


# -- half precision ----------------------------------------------------------------------------------------------------


@wrong
def bf16_without_a_small_bias():
    module = linear()
    module.bias.data *= 0.1
    return net(lambda x: F.linear(x, module.weight.detach()), lambda: module, {"precision": "bf16"}, x=(8, 16))


def gelu_of_linear(gelu):
    module = linear()

    def network(x):
        return gelu(F.linear(x, module.weight.detach(), module.bias.detach()))

    return net(network, lambda: nn.Sequential(module, nn.GELU()), {"precision": "bf16"}, x=(8, 16))


@wrong
def bf16_quick_gelu():
    return gelu_of_linear(lambda y: y * F.sigmoid(1.702 * y))


@right
def bf16_gelu():
    return gelu_of_linear(F.gelu)


@wrong
def fp16_integers_off_by_one():
    return net(lambda x: F.argmax(x, 1) + 1, ref(lambda x: x.argmax(1)), {"precision": "fp16"}, x=(4, 8))


@wrong
def fp16_that_computes_nothing_in_half():
    return net(lambda x: F.sin(x) * 1.01, ref(torch.sin), {"precision": "fp16"}, x=(4, 8))


@right
def deep_attention():
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True, activation="gelu").eval()

    class Stack(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList(copy.deepcopy(layer) for _ in range(6))

        def forward(self, x):
            for each in self.layers:
                x = each(x)
            return x

    def network(x, w):
        for each in w.layers:
            a, y = each.self_attn, x.transpose(0, 1)
            y, _ = F.multi_head_attention_forward(
                y, y, y, 32, 4, a.in_proj_weight, a.in_proj_bias, None, None, False, 0.0,
                a.out_proj.weight, a.out_proj.bias, False, need_weights=False,
            )  # fmt: skip
            x = F.layer_norm(x + y.transpose(0, 1), (32,), each.norm1.weight, each.norm1.bias)
            y = F.gelu(F.linear(x, each.linear1.weight, each.linear1.bias))
            y = F.linear(y, each.linear2.weight, each.linear2.bias)
            x = F.layer_norm(x + y, (32,), each.norm2.weight, each.norm2.bias)
        return x

    state = {name: tensor.detach() for name, tensor in Stack().state_dict().items()}
    spec = td.network(inputs={"x": td.Input(("N", 6, 32))}, reference=Stack, name="t")(network)
    return spec, {"weights": state, "dims": {"N": (1, 2, 5)}}


# -- sizes and values that are never tried -----------------------------------------------------------------------------


@wrong
def half_rounded_down():
    shape = (2, td.Dim("H", min=8, opt=16, max=64))
    return net(lambda x: x[..., : x.shape[-1] // 2], ref(lambda x: x[..., : (x.shape[-1] + 1) // 2]), x=shape)


@wrong
def relu_for_relu6():
    return net(F.relu, nn.ReLU6, x=(4, 8))


@wrong
def without_a_clamp():
    return net(lambda x: x * 1.0, ref(lambda x: x.clamp(-10, 10)), x=(4, 8))


@wrong
def without_a_where():
    return net(lambda x: x * 1.0, ref(lambda x: torch.where(x > 5, x * 2, x)), x=(4, 8))


@wrong
def eps_of_a_norm():
    reference = ref(lambda x: torch.nn.functional.layer_norm(x, (8,), eps=1e-5))
    return net(lambda x: F.layer_norm(x, (8,), eps=1e-6), reference, x=(4, 8))


@wrong
def halves_rounded_up():
    return net(lambda x: F.floor(x + 0.5), ref(torch.round), x=(4, 8))


@wrong
def sign_of_zero():
    return net(lambda x: F.where(x >= 0, 1.0, -1.0), ref(torch.sign), x=(4, 8))


@wrong
def a_masked_row():
    def network(x, m):
        return F.softmax(F.masked_fill(x, F.logical_not(m), -1e4), -1)

    reference = ref(lambda x, m: torch.softmax(x.masked_fill(~m, float("-inf")), -1))
    return net(network, reference, x=(4, 8), m=td.Input((4, 8), "bool"))


@wrong
def outside_the_image():
    def sample(grid_sample, padding_mode):
        return lambda x, g: grid_sample(x, g, padding_mode=padding_mode, align_corners=False)

    reference = ref(sample(torch.nn.functional.grid_sample, "zeros"))
    return net(sample(F.grid_sample, "border"), reference, x=(1, 2, 5, 5), g=(1, 4, 4, 2))


# -- nothing exercised -------------------------------------------------------------------------------------------------


@wrong
def nan_everywhere():
    return net(lambda x: F.log(F.abs(x) * -1 - 1), ref(lambda x: torch.sqrt(-x.abs() - 1)), x=(4, 8))


@wrong
def empty():
    return net(lambda x: x[:, :0], ref(lambda x: (x * 2)[:, :0]), x=(4, 8))


@wrong
def constant():
    return net(lambda x: F.relu(x - 1e6), ref(lambda x: torch.relu(2 * x - 1e6)), x=(4, 8))


@wrong
def weight_without_effect():
    class Reference(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Parameter(torch.ones(3)), nn.Parameter(torch.ones(3))

        def forward(self, x):
            return x * self.a

    spec = td.network(inputs={"x": td.Input((2, 3))}, reference=Reference, name="t")(lambda x, w: (x * w.a, x + w.b)[0])
    return spec, {"weights": {"a": torch.full((3,), 2.0), "b": torch.ones(3)}}
