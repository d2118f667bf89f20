"""Operators and methods: the same expression on a Tensor of a network and on torch's."""

from __future__ import annotations

import inspect
import operator
import subprocess
import sys

import pytest
import torch
from support import assert_close, evaluate

import trtdsl as td
import trtdsl.functional as F
from trtdsl.definition.function_methods import NAMES
from trtdsl.definition.methods import ConversionMethods, ShapeMethods
from trtdsl.definition.tensor import Tensor

GENERATOR = torch.Generator().manual_seed(0)
X = torch.randn(2, 3, 4, generator=GENERATOR)
Y = torch.randn(3, 1, generator=GENERATOR)
I = torch.randint(-7, 8, (2, 3), generator=GENERATOR)  # noqa: E741
J = torch.tensor([3, -2, 5])
B = torch.tensor([[True, False, True], [False, False, True]])
C = torch.tensor([True, True, False])


def same(expression, *tensors, **options):
    """The expression, on a network's tensors and on torch's."""
    got, expected = evaluate(expression, *tensors, **options), expression(*tensors)
    for ours, theirs in zip(*(r if isinstance(r, (tuple, list)) else (r,) for r in (got, expected)), strict=True):
        assert_close(ours, theirs)


@pytest.mark.parametrize(
    "op", [operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod, operator.pow]
)
@pytest.mark.parametrize("swapped", [False, True])
def test_arithmetic_operators(op, swapped):
    def apply(a, b):
        return op(b, a) if swapped else op(a, b)

    positive = X.abs() + 0.5
    same(apply, positive, Y.abs() + 0.5)
    same(lambda a: apply(a, 3), positive)
    same(lambda a: apply(a, 2.5), positive)
    if op is not operator.pow:
        same(apply, I.where(I != 0, 1), J)
        same(lambda a: apply(a, -3), I.where(I != 0, 1))


@pytest.mark.parametrize("op", [operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne])
def test_comparisons(op):
    same(op, X, Y)
    same(op, I, J)
    same(op, B, C)
    same(lambda a: op(a, 0), I)
    same(lambda a: op(a, 0.5), X)
    same(op, X, torch.full((1,), float("nan")))


@pytest.mark.parametrize("op", [operator.and_, operator.or_, operator.xor])
def test_bit_operators(op):
    same(op, B, C)
    same(op, I, J)
    same(op, I.int(), J.int())
    same(lambda a: op(a, 6), I)
    same(lambda a: op(6, a), I)
    extremes = torch.tensor([torch.iinfo(torch.int64).min, -1, 0, torch.iinfo(torch.int64).max])
    same(op, extremes, torch.tensor([-1, 5, -8, -3]))


def test_unary_operators():
    same(operator.neg, X)
    same(operator.invert, B)
    same(operator.invert, I)
    same(abs, X)


def test_matrix_operator():
    same(operator.matmul, X, torch.randn(4, 5, generator=GENERATOR))
    same(lambda x: x @ x.mT, X)


def test_numbers_keep_the_dtype():
    for dtype in (torch.float16, torch.bfloat16, torch.int32, torch.int64):
        x = torch.ones(2, 3).to(dtype)
        same(lambda a: a + 1, x)
        same(lambda a: 2 * a - 3, x)
    assert evaluate(lambda a: a * 2.5, I).dtype == torch.float32


INDICES = [
    0,
    -1,
    slice(None),
    slice(1, None),
    slice(None, None, 2),
    slice(-2, None),
    (slice(None), -1),
    (..., 0),
    (0, ..., slice(1, 3)),
    (slice(None), None, 1),
    (None, ..., None),
    (slice(None), slice(None), slice(None, None, 3)),
    (slice(0, 0),),
    (1, 2, 3),
    [0, 1, 1],
    (slice(None), [2, 0]),
    ([0, 1], [2, 0]),
    ([0, 1], slice(None), [3, 0]),
    (slice(None), [[2, 0], [1, 1]], 0),
    (slice(None), [-1, 0], [-2, 1]),
    (..., torch.tensor([1, -1])),
    torch.tensor([True, False]),
    (slice(None), torch.tensor([True, False, True])),
    torch.tensor([[True, False, True], [False, False, True]]),
    (0, torch.tensor([[True, False, True, True], [False] * 4, [True] * 4])),
    (torch.tensor([[1], [0]]), None, torch.tensor([2, 1])),
    True,
]


@pytest.mark.parametrize("index", INDICES, ids=str)
def test_indexing(index):
    same(lambda x: x[index], X)


@pytest.mark.parametrize("index", [i for i in INDICES if "tensor" not in str(i)], ids=str)
def test_indexing_dynamic_dimensions(index):
    shape = (td.Dim("A", min=2, max=4), td.Dim("B", min=3, max=6), td.Dim("C", min=4, max=8))
    same(lambda x: x[index], X, dims=[shape])


def test_indexing_with_computed_tensors():
    same(lambda x, i: x[i], X, torch.tensor([1, 0, -1]))
    same(lambda x, i, j: x[:, i, j], X, torch.tensor([[1], [-1]]), torch.tensor([0, -2, 3]))
    same(lambda x: x[x > 0.3], X)
    same(lambda x, m: x[m], X, B)


def test_indices_out_of_range():
    x = td.Network().input("x", (2, 3))
    for index in (2, -3, (0, 3)):
        with pytest.raises(td.ShapeError, match="is out of bounds"):
            x[index]
    with pytest.raises(td.ShapeError, match="3 indices for a tensor of 2 dimensions"):
        x[0, 0, 0]
    with pytest.raises(td.ShapeError, match="dimension 0 and of the mask do not match"):
        x[torch.tensor([True, False, True])]
    with pytest.raises(td.DefinitionError, match="step must be"):
        x[::0]


CALLS = {
    "reshape": (lambda x: x.reshape(6, 4), lambda x: x.reshape((2, -1)), lambda x: x.reshape(-1)),
    "view": (lambda x: x.view(3, 8), lambda x: x.view(-1, 2, 2)),
    "permute": (lambda x: x.permute(2, 0, 1), lambda x: x.permute((0, 2, 1))),
    "transpose": (lambda x: x.transpose(1, -1), lambda x: x.mT),
    "flatten": (lambda x: x.flatten(), lambda x: x.flatten(1), lambda x: x.flatten(0, 1)),
    "squeeze": (lambda x: x.unsqueeze(1).squeeze(1), lambda x: x[:1].squeeze(), lambda x: x[:1, :1].squeeze((0, 1))),
    "expand": (lambda x: x[:1].expand(5, -1, 4), lambda x: x[:, :1].expand_as(x)),
    "repeat": (lambda x: x.repeat(2, 1, 3), lambda x: x.repeat((1, 2, 1, 1)), lambda x: x.tile(2, 2)),
    "flip": (lambda x: x.flip(0), lambda x: x.flip((0, 2)), lambda x: x.flip(0, 1)),
    "split": (lambda x: x.split(3, 2), lambda x: x.chunk(2, -1), lambda x: x.unbind(1), lambda x: list(x)),
    "reductions": (
        lambda x: x.mean(),
        lambda x: x.sum((0, 2), keepdim=True),
        lambda x: x.amax(1),
        lambda x: x.std(dim=1),
        lambda x: x.var((0, 1), correction=0),
        lambda x: x.norm(p=2, dim=1, keepdim=True),
        lambda x: x.max(dim=1),
        lambda x: x.argmax(-1),
        lambda x: x.softmax(-1),
        lambda x: x.logsumexp((0, 1)),
        lambda x: x.cumsum(1),
        lambda x: (x > 0).any(1),
        lambda x: (x > 0).all(),
    ),
    "elements": (
        lambda x: x.relu().sigmoid().tanh(),
        lambda x: x.clamp(-0.5, 0.5),
        lambda x: x.clamp(min=0.1),
        lambda x: x.abs().sqrt().log(),
        lambda x: x.masked_fill(x > 0, -1.5),
        lambda x: x.where(x > 0, 0.0),
        lambda x: x.pow(2).add(x, alpha=2).div(3, rounding_mode="floor"),
        lambda x: x.round(decimals=1),
    ),
    "conversions": (
        lambda x: x.half(),
        lambda x: x.bfloat16().float(),
        lambda x: x.int(),
        lambda x: x.long(),
        lambda x: x.bool(),
        lambda x: x.to(torch.float16),
        lambda x: x.to("cpu", torch.int32),
        lambda x: x.int().type_as(x),
        lambda x: x.contiguous().clone().detach(),
    ),
    "indexing": (
        lambda x: x.select(1, 2),
        lambda x: x.narrow(2, 1, 2),
        lambda x: x.topk(2, 1)[0],
        lambda x: x.sort(-1, descending=True),
        lambda x: x.unfold(2, 2, 1),
        lambda x: x.diagonal(0, 1, 2),
        lambda x: x.roll(1, 2),
        lambda x: x.tril(),
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_methods(name):
    for expression in CALLS[name]:
        same(expression, X)
        if name != "split":
            shape = (td.Dim("A", min=2, max=4), 3, 4)
            same(expression, X, dims=[shape])


def test_transposed_matrix():
    same(lambda x: x.T, X[0])
    same(lambda x: x.t(), X[0])


def test_most_methods_are_the_functions_themselves():
    assert len(NAMES) > 190
    for name in NAMES:
        function, method = getattr(F, name), getattr(Tensor, name)
        assert method is function
        assert inspect.signature(method) == inspect.signature(function)
        assert method.__doc__ == function.__doc__


def test_the_other_methods_differ_from_the_functions_of_their_names():
    own = {name: item for mixin in (ShapeMethods, ConversionMethods) for name, item in vars(mixin).items()}
    methods = {name: item for name, item in own.items() if inspect.isfunction(item) and not name.startswith("_")}
    assert not set(methods) & set(NAMES)
    for name, method in methods.items():
        ours = list(inspect.signature(method).parameters.values())[1:]
        function = list(inspect.signature(getattr(F, name)).parameters.values())[1:] if hasattr(F, name) else None
        assert ours != function, name


def test_methods_are_torchs():
    for mixin in (ShapeMethods, ConversionMethods):
        for name in (*vars(mixin), *NAMES):
            if not name.startswith("_"):
                assert hasattr(torch.Tensor, name), name


def test_a_method_is_bound_to_its_tensor_at_the_first_use_and_later():
    code = (
        "import trtdsl as td; net = td.Network(); x = net.input('x', (2, 3)); "
        "print(x.relu().shape, x.relu().shape, x.sum(1, keepdim=True).shape)"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout == "(2, 3) (2, 3) (2, 1)\n"


def test_functions_of_functional_are_methods_without_a_list():
    """hsplit, vsplit, dsplit, select_scatter, slice_scatter: in functional, and so methods too."""
    same(lambda x: x.hsplit(2)[1], torch.randn(2, 4))
    same(lambda x: x.vsplit(2)[1], torch.randn(2, 4))
    same(lambda x: x.select_scatter(torch.zeros(2), 1, 0), torch.randn(2, 4))


def test_size_rank_and_dtype_of_a_tensor():
    net = td.Network()
    x = net.input("x", ("N", 3))
    assert x.ndim == x.dim() == 2
    assert x.size() == x.shape
    assert x.size(1) == 3
    assert str(x.numel()) == "3*N"
    assert x.is_floating_point()
    assert repr(x) == "Tensor(x: (N, 3) float32)"
    assert repr(net.constant([1, 2])) == "Tensor(constant: (2,) int64)"
    assert len(net.constant([1, 2])) == 2
    with pytest.raises(td.ShapeError, match="N is dynamic"):
        len(x)


def test_truth_and_value():
    net = td.Network()
    assert net.constant(2.5).item() == 2.5
    assert bool(net.constant(True))
    x = net.input("x", (1,))
    with pytest.raises(td.DefinitionError, match="no truth value"):
        bool(x > 0)
    with pytest.raises(td.DefinitionError, match=r"only a constant has a value .* leave .item\(\) out"):
        x.item()


def test_errors_name_the_call_the_operands_and_the_line():
    net = td.Network()
    x, y = net.input("x", (2, 3)), net.input("y", (4,))
    with pytest.raises(td.ShapeError) as caught:
        x + y
    text = str(caught.value)
    assert __file__.rpartition("/")[2] in text
    assert "in add(…)" in text
    assert "input: (2, 3) float32" in text
    assert "other: (4,) float32" in text


def test_code_that_places_its_tensors_needs_no_change():
    same(lambda x: x.cpu().to(x.device) + torch.arange(4, device=x.device).float(), X)
    net = td.Network()
    x = net.input("x", ("N", 3))
    assert x.cuda() is x
    with net.current():
        assert F.arange(x.shape[0], device=x.device).shape == (x.shape[0],)


def test_missing_attributes_give_advice():
    net = td.Network()
    x = net.input("x", (2, 3))
    with pytest.raises(AttributeError, match=r"a Tensor has no 'add_': .* write x = x.add\(…\)"):
        x.add_(1)
    with pytest.raises(AttributeError, match=r"a Tensor has no 'softplus': write F.softplus\(x, …\)"):
        x.softplus()
    with pytest.raises(AttributeError, match="a Tensor has no 'numpy': it has its value when the engine runs"):
        x.numpy()
    with pytest.raises(td.DefinitionError, match="do not change in place: F.where"):
        x[0] = 1
    assert not hasattr(x, "is_leaf")


def test_what_is_lowered_later_is_printed_by_its_call():
    x = td.Network().input("x", ("N", 3, 8, 8))
    y = F.conv2d(x, torch.ones(4, 3, 3, 3))
    assert [str(each) for each in (y, x.reshape(-1, 8), x.mT)] == [
        "Tensor(conv2d: (N, 4, 6, 6) float32)",
        "Tensor(reshape: (24*N, 8) float32)",
        "Tensor(transpose: (N, 3, 8, 8) float32)",
    ]
