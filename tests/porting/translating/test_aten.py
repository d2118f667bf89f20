"""Operators of aten, exported programs, graphs of fx and scripted functions port as the public functions do."""

import warnings

import pytest
import torch
from torch import nn

import trtdsl as td
from trtdsl.porting.translating.aten import public_call
from trtdsl.porting.translating.rules import RULES

aten = torch.ops.aten
X, Y = torch.linspace(-2, 2, 24).reshape(2, 3, 4), torch.linspace(1, 3, 24).reshape(2, 3, 4)
I4, I5 = torch.rand(2, 4, 6, 6), torch.rand(1, 2, 4, 6, 6)
GRID, VOLUME = torch.rand(2, 3, 3, 2) * 2 - 1, torch.rand(1, 2, 3, 3, 3) * 2 - 1
ONES, C4 = torch.ones(4), torch.linspace(0.5, 2, 4)
Q = torch.rand(1, 2, 5, 8)
INDEX = torch.tensor([[0, 2], [1, 0]])

S, MASK = torch.rand(3, 5, 8), torch.ones(3, 5, dtype=torch.bool).tril(2).logical_not()
IN, OUT = (torch.rand(24, 8) - 0.5, torch.rand(24)), (torch.rand(8, 8) - 0.5, torch.rand(8))
C8, FC = (torch.rand(8), torch.rand(8)), (torch.rand(9, 8) - 0.5, torch.rand(9), torch.rand(8, 9) - 0.5, torch.rand(8))
WAVE, WINDOW = torch.rand(2, 64), torch.hann_window(16)

CALLS = [
    (aten.add.Tensor, (X, Y), {"alpha": 2}),
    (aten.add, (X, 1), {}),
    (aten.rsub.Scalar, (X, 3, 2), {}),
    (aten.div.Tensor_mode, (X, Y), {"rounding_mode": "floor"}),
    (aten.pow.Scalar, (2, X), {}),
    (aten.remainder.Scalar_Tensor, (7, Y), {}),
    (aten.clamp.default, (X,), {"max": 1.0}),
    (aten.convolution.default, (I4, torch.rand(6, 2, 3, 3), None, [2], [1], [1], False, [0], 2), {}),
    (
        aten.convolution.default,
        (I4, torch.rand(4, 3, 3, 3), torch.rand(6), [2, 1], [1, 1], [1, 1], True, [1, 0], 2),
        {},
    ),
    (aten.native_layer_norm.default, (X, [4], C4, ONES, 1e-3), {}),
    (
        aten.convolution_backward.default,
        (torch.rand(2, 6, 3, 3), I4, torch.rand(6, 2, 3, 3), None, [2, 2], [1, 1], [1, 1], False, [0, 0], 2, [1, 0, 0]),
        {},
    ),
    (
        aten.convolution_backward.default,
        (
            torch.rand(2, 3, 12, 11),
            I4,
            torch.rand(4, 3, 3, 3),
            None,
            [2, 2],
            [1, 1],
            [1, 1],
            True,
            [1, 0],
            1,
            [1, 0, 0],
        ),
        {},
    ),
    (aten.avg_pool2d_backward.default, (torch.rand(2, 4, 3, 3), I4, [3, 2], [2, 2], [1, 0], False, False, None), {}),
    (aten.avg_pool2d_backward.default, (torch.rand(2, 4, 4, 3), I4, [3, 2], [2, 2], [1, 0], True, True, 5), {}),
    (aten._adaptive_avg_pool2d_backward.default, (torch.rand(2, 4, 4, 3), I4), {}),
    (aten.upsample_bilinear2d_backward.default, (torch.rand(2, 4, 9, 5), [9, 5], [2, 4, 6, 6], True), {}),
    (aten.upsample_bicubic2d_backward.default, (torch.rand(2, 4, 9, 12), [9, 12], [2, 4, 6, 6], False, 1.5, 2.0), {}),
    (aten.upsample_nearest1d_backward.default, (torch.rand(2, 3, 9), [9], [2, 3, 4]), {}),
    (aten.upsample_trilinear3d_backward.default, (torch.rand(1, 2, 3, 9, 8), [3, 9, 8], [1, 2, 4, 6, 6], False), {}),
    (aten._cdist_backward.default, (torch.rand(2, 3, 3), X, Y, 2.0, torch.cdist(X, Y)), {}),
    (aten._cdist_backward.default, (torch.rand(2, 3, 3), X, Y, 1.0, torch.cdist(X, Y, 1.0)), {}),
    (aten._trilinear.default, (X, Y[0, 0], Y[0], [], [0, 1], [0], [1]), {}),
    (aten.mode.default, (X.round(), 1), {}),
    (aten.nanmedian.dim, (torch.where(X > 1, torch.nan, X), 1, True), {}),
    (aten.nanmedian.default, (torch.where(X > 1, torch.nan, X),), {}),
    (torch.ops.prims.split_dim.default, (X, 2, 2), {}),
    (aten.linalg_cholesky_ex.default, (X[0] @ X[0].mT + 5 * torch.eye(3),), {}),
    (aten.native_group_norm.default, (I4, C4, ONES, 2, 4, 36, 2, 1e-3), {}),
    (aten._native_batch_norm_legit_no_training.default, (I4, C4, ONES, ONES, C4, 0.1, 1e-3), {}),
    (aten.batch_norm.default, (I4, C4, ONES, ONES, C4, False, 0.1, 1e-3, False), {}),
    (aten.instance_norm.default, (I4, C4, ONES, None, None, True, 0.1, 1e-3, False), {}),
    (aten.embedding.default, (C4.reshape(2, 2), torch.tensor([1, 0, 1])), {}),
    (aten._to_copy.default, (X,), {"dtype": torch.int32}),
    (aten.to.dtype, (X, torch.float16), {}),
    (aten.slice.Tensor, (X, -1, 1, 9223372036854775807, 2), {}),
    (aten.slice.Tensor, (X, 1, -2, -1), {}),
    (aten.select.int, (X, 1, -1), {}),
    (aten.index.Tensor, (X, [None, INDEX]), {}),
    (aten.index.Tensor, (X, [torch.tensor([0, 1]), None, torch.tensor([3, 1])]), {}),
    (aten.index_put.default, (X, [None, INDEX[0]], torch.tensor(5.0)), {}),
    (aten.index_put.default, (X, [INDEX[1]], Y, True), {}),
    (aten.index_put.default, (X, [None, torch.tensor([1, 1])], Y[:, :2], True), {}),
    (aten.index_put.default, (X, [None, None, torch.tensor([1, 1])], Y[:, :, :2], True), {}),
    (aten.index_put.default, (X, [torch.tensor([1, 1]), None, torch.tensor([0, 0])], Y[:, :, 0], True), {}),
    (aten.scalar_tensor.default, (3,), {}),
    (aten.constant_pad_nd.default, (X, [1, 2], 0.5), {}),
    (aten.reflection_pad2d.default, (I4, [1, 2, 0, 1]), {}),
    (aten.replication_pad3d.default, (I5, [1, 2, 0, 1, 1, 0]), {}),
    (aten._pad_circular.default, (I4, [1, 2, 0, 1]), {}),
    (aten._pad_enum.default, (X, [1, 2], 1), {}),
    (aten.grid_sampler.default, (I4, GRID, 1, 2, True), {}),
    (aten.grid_sampler_2d.default, (I4, GRID, 2, 1, False), {}),
    (aten.grid_sampler_3d.default, (I5, VOLUME, 0, 0, False), {}),
    (aten.elu.default, (X, 1.5, 1.2, 0.7), {}),
    (aten._softmax.default, (X, 1, False), {}),
    (aten.softmax.int, (X, 1), {"dtype": torch.float32}),
    (aten._log_softmax.default, (X, -1, False), {}),
    (aten.max_pool2d_with_indices.default, (I4, [2, 2], [2, 2], [1, 1]), {}),
    (aten.max_pool2d.default, (I4, [3]), {}),
    (aten.avg_pool2d.default, (I4, [2, 2], [], [1, 1], True, False), {}),
    (aten.avg_pool1d.default, (X, [2], 1), {}),
    (aten._adaptive_avg_pool2d.default, (I4, [2, 3]), {}),
    (aten.upsample_nearest2d.vec, (I4, None, [2.0, 1.5]), {}),
    (aten.upsample_nearest2d.default, (I4, [9, 12], 1.5, 2.0), {}),
    (aten.upsample_nearest2d.default, (I4, [9, 10]), {}),
    (aten.upsample_bilinear2d.vec, (I4, [8, 9], True, None), {}),
    (aten.upsample_bicubic2d.default, (I4, [8, 9], False), {}),
    (aten.upsample_linear1d.vec, (X, None, False, [1.75]), {}),
    (aten.upsample_trilinear3d.vec, (I5, [5, 8, 7], False, None), {}),
    (aten._upsample_nearest_exact2d.default, (I4, [9, 4]), {}),
    (aten._scaled_dot_product_flash_attention_for_cpu.default, (Q, Q, Q, 0.0, True), {"scale": 0.3}),
    (aten._cdist_forward.default, (X, Y, 1.0, None), {}),
    (aten.cdist.default, (X, Y), {}),
    (aten.unfold.default, (X, 2, 3, 1), {}),
    (aten.im2col.default, (I4, [2, 3], [1, 2], [1, 0], [2, 1]), {}),
    (aten.col2im.default, (torch.rand(2, 12, 25), [6, 7], [2, 3], [1, 1], [0, 0], [1, 1]), {}),
    (aten.adaptive_max_pool2d.default, (I4, [2, 3]), {}),
    (aten.broadcast_tensors.default, ([X, Y[0], ONES],), {}),
    (aten.meshgrid.indexing, ([C4, ONES],), {"indexing": "xy"}),
    (aten.tensordot.default, (X, Y, [1, 2], [1, 2]), {}),
    (aten.stft.default, (WAVE, 16, 4, None, WINDOW, True, False, True), {}),
    (aten.stft.center, (WAVE, 16, 4, 16, WINDOW, False), {"return_complex": True}),
    (aten.istft.default, (torch.stft(WAVE, 16, 4, None, WINDOW, return_complex=True), 16, 4, None, WINDOW), {}),
    (aten._native_multi_head_attention.default, (S, S, S, 8, 2, *IN, *OUT), {}),
    (aten._native_multi_head_attention.default, (S, S, S, 8, 2, *IN, *OUT, MASK, False, True, 1), {}),
    (aten._transformer_encoder_layer_fwd.default, (S, 8, 2, *IN, *OUT, True, True, 1e-3, *C8, *C8, *FC), {}),
    (aten._transformer_encoder_layer_fwd.default, (S, 8, 2, *IN, *OUT, False, False, 1e-5, *C8, *C8, *FC, MASK, 1), {}),
    (aten.zeros_like.default, (X,), {"dtype": 3, "layout": 0, "memory_format": 0}),
    (aten.to.dtype, (X, 5), {}),
    (aten.log_sigmoid_forward.default, (X,), {}),
    (aten._unsafe_view.default, (X, [6, 4]), {}),
    (aten.copy.default, (X, Y[:1]), {}),
    (aten.linalg_vector_norm.default, (X, 2.0, [1]), {}),
    (aten.special_erf.default if hasattr(aten, "special_erf") else aten.erf.default, (X,), {}),
    (aten.sum.dim_IntList, (X, [1], True), {}),
    (aten.max.dim, (X, 1), {}),
    (aten.any.dims, (X > 1, [0, 1]), {}),
    (aten.where.self, (X > 0, X, Y), {}),
    (aten.split_with_sizes.default, (X, [1, 2], 1), {}),
    (aten.topk.default, (X, 2), {}),
    (aten.var.correction, (X, [1]), {"correction": 0}),
]


@pytest.mark.parametrize("call", CALLS, ids=lambda call: f"{call[0]}".removeprefix("aten."))
def test_the_public_function_computes_what_the_operator_does(call):
    function, args, kwargs = call
    made = public_call(function, args, kwargs)
    assert made is not None
    own, its = made(), function(*args, **kwargs)
    own, its = (list(each) if isinstance(each, (tuple, list)) else [each] for each in (own, its))
    if any(name in str(function) for name in ("batch_norm", "attention", "log_sigmoid", "convolution_back")):
        own, its = own[:1], its[:1]  # what training saves has no meaning here
    for mine, theirs in zip(own, its):
        if theirs.numel():
            torch.testing.assert_close(mine, theirs, rtol=1e-5, atol=1e-5)


def test_every_rule_names_an_existing_operator():
    names = {schema.name.removeprefix("aten::") for schema in torch._C._jit_get_all_schemas()}
    for rule in RULES:
        assert rule.split(".")[0] in names or hasattr(torch.ops.prims, rule.removeprefix("prims.")), rule


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm, self.fc = nn.Conv2d(3, 4, 3, 2, 1), nn.BatchNorm2d(4), nn.Linear(4, 5)
        self.register_buffer("shift", torch.linspace(-1, 1, 5))

    def forward(self, x):
        y = nn.functional.max_pool2d(torch.relu(self.norm(self.conv(x))), 2)
        n, c = y.shape[:2]
        return nn.functional.layer_norm(self.fc(y.reshape(n, c, -1).mean(-1)), (5,)) + self.shift


def made_of(kind):
    net = Net().eval()
    for buffer in (net.norm.running_mean, net.norm.running_var):
        buffer.uniform_(0.5, 1.5)
    if kind == "exported":
        n, h = torch.export.Dim("n", min=1, max=4), torch.export.Dim("h", min=8, max=14)
        shapes = {"x": {0: n, 2: h}}
        return torch.export.export(net, (torch.rand(2, 3, 8, 10),), dynamic_shapes=shapes).module()
    if kind == "decomposed":
        program = torch.export.export(net, (torch.rand(2, 3, 8, 10),))
        return program.run_decompositions().module()
    if kind == "graph":
        return torch.fx.symbolic_trace(net)
    return net


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")  # of torch.export itself
@pytest.mark.parametrize("kind", ["plain", "exported", "decomposed", "graph"])
def test_one_network_in_every_form(kind):
    fixed = kind == "decomposed"
    inputs = {"x": "2,3,8,10"} if fixed else {"x": "N,3,H,10"}
    dims = {} if fixed else {"N": (1, 2, 4), "H": (9, 10, 13)}
    td.check(td.from_module(made_of(kind), inputs, dims=dims)).raise_for_mismatch()


def gate(a, b):
    return torch.sigmoid(a) * b.tanh() + a[:, 1:].sum(1, keepdim=True)


class Scripted(nn.Module):
    def __init__(self):
        super().__init__()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            self.gate = torch.jit.script(gate)

    def forward(self, a, b):
        return self.gate(a + 1, b) - a


def test_scripted_functions_port():
    td.check(td.from_module(Scripted(), {"a": X[0], "b": Y[0]})).raise_for_mismatch()


def flattened(x):
    shape = x.shape
    return torch.sin(x.reshape(shape[0], -1)).reshape(shape)


with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    SCRIPTED = torch.jit.script(flattened)


class Flattened(nn.Module):
    def forward(self, x):
        return SCRIPTED(x) + 1


def test_scripted_functions_keep_sizes():
    td.check(td.from_module(Flattened(), ["N,3,T"], dims={"N": (1, 2, 3), "T": (2, 5, 9)})).raise_for_mismatch()
