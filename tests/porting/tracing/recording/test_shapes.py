"""What calls give of tensors without values: the same layout the second time, and anew what has an operand's memory."""

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

import trtdsl as td
from trtdsl.porting.tracing.recording import shapes

F = torch.nn.functional
WEIGHT = torch.nn.Linear(6, 5).weight
NORM = torch.nn.BatchNorm2d(3).eval()
MOMENTS = NORM.running_mean, NORM.running_var


def without_values(*shape, dtype=torch.float32):
    with FakeTensorMode(allow_non_fake_inputs=True):
        return torch.empty(shape, dtype=dtype)


class Counted:
    """A function that counts how often it runs."""

    def __init__(self, function):
        self.function, self.runs = function, 0

    def __call__(self, *args, **kwargs):
        self.runs += 1
        return self.function(*args, **kwargs)


def twice(function, *args, **kwargs):
    """What two calls give, each of operands of its own, and how often the function ran."""
    counted = Counted(function)
    results = []
    for _ in range(2):
        fresh = [without_values(*x.shape, dtype=x.dtype) if isinstance(x, FakeTensor) else x for x in args]
        with torch.no_grad():
            results.append(shapes.made(counted, tuple(fresh), kwargs))
    return results, counted.runs


def layouts(result):
    given = result if isinstance(result, (tuple, list)) else [result]
    return type(result) in (tuple, list), [(tuple(x.shape), x.stride(), x.dtype) for x in given]


IMAGE = without_values(2, 3, 8, 9)
LAST = IMAGE.to(memory_format=torch.channels_last)


@pytest.mark.parametrize(
    ("function", "args", "kwargs"),
    [
        (F.linear, (without_values(2, 4, 6), WEIGHT), {}),
        (F.batch_norm, (IMAGE, *MOMENTS, NORM.weight, NORM.bias), {"eps": 1e-5}),
        (F.interpolate, (IMAGE,), {"scale_factor": 2.0, "mode": "bilinear", "align_corners": False}),
        (F.grid_sample, (IMAGE, without_values(2, 4, 5, 2)), {"align_corners": False}),
        (torch.einsum, ("nchw,ncij->nhi", IMAGE, IMAGE), {}),
        (F.conv2d, (LAST, torch.randn(4, 3, 3, 3)), {"padding": (1, 1)}),
        (torch.var_mean, (IMAGE,), {"dim": [2, 3]}),
        (torch.cat, ([IMAGE, IMAGE], 1), {}),
        (torch.gt, (IMAGE, 0.5), {}),
        (F.max_pool2d, (IMAGE, 2), {"return_indices": True}),
    ],
)
def test_the_second_call_does_not_run_it_and_gives_the_same_layout(function, args, kwargs):
    (first, again), runs = twice(function, *args, **kwargs)
    assert layouts(first) == layouts(again)
    assert runs == 1
    for each in again if isinstance(again, (tuple, list)) else [again]:
        assert type(each) is FakeTensor and not each.requires_grad


@pytest.mark.parametrize(
    ("function", "args", "kwargs"),
    [
        (torch.Tensor.reshape, (IMAGE, 2, -1), {}),  # a view
        (torch.Tensor.contiguous, (IMAGE,), {}),  # the operand itself
        (torch.chunk, (IMAGE, 3, 1), {}),  # views of the operand
        (F.relu, (IMAGE,), {"inplace": True}),
        (torch.max, (IMAGE, 1), {}),  # a named tuple
        (lambda x: x * 2, (torch.ones(3),), {}),  # which has values
        (lambda x, index: x[index], (IMAGE, torch.tensor([0])), {}),  # whose numbers may decide the shape
        (lambda x, kind: x.to(kind), (IMAGE, float), {}),  # a type
    ],
)
def test_it_runs_each_time_where_the_layout_is_not_all_that_counts(function, args, kwargs):
    counted = Counted(function)
    for _ in range(2):
        with torch.no_grad():
            shapes.made(counted, args, kwargs)
    assert counted.runs == 2


def test_what_writes_to_an_operand_does_so_each_time():
    counted = Counted(lambda x, y: (y.add_(1), x * 2)[1])
    for _ in range(2):
        with torch.no_grad():
            shapes.made(counted, (IMAGE, without_values(3)), {})
    assert counted.runs == 2


def test_true_is_not_one_and_one_is_not_a_float():
    """As keys of a dict they would be the same."""
    counted = Counted(lambda x, flag: x.int() if flag is True else x)
    with torch.no_grad():
        whole = shapes.made(counted, (IMAGE, True), {})
        plain = shapes.made(counted, (IMAGE, 1), {})
    assert (whole.dtype, plain.dtype) == (torch.int32, torch.float32)


class Norms(torch.nn.Module):
    """Blocks that are alike, and one whose operand lies otherwise in memory."""

    def __init__(self):
        super().__init__()
        self.blocks = torch.nn.ModuleList(torch.nn.BatchNorm2d(4) for _ in range(3))

    def forward(self, x):
        for block in self.blocks:
            x = F.interpolate(block(x), scale_factor=2.0, mode="bilinear")[..., ::2, ::2]
        return x.transpose(2, 3) + self.blocks[0](x.transpose(2, 3))


def test_a_module_of_blocks_that_are_alike_is_ported():
    spec = td.from_module(Norms(), ["N,4,H,W"], dims={"N": (1, 2, 3), "H": (3, 5, 8), "W": (2, 4, 6)})
    assert td.check(spec).passed
