"""Modules that write torch's calls in its less usual ways; each is ported and equal to itself."""

from collections import OrderedDict

import pytest
import torch
from torch import nn

import trtdsl as td
from trtdsl.porting import ported

X = "N,4"
ROWS = {"N": (1, 2, 3)}


class Written(nn.Module):
    """A module whose forward is given."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


SPELLINGS = {
    "axis of cat": lambda x: torch.cat([x, x], axis=1),
    "concatenate": lambda x: torch.concatenate([x, x], axis=-1),
    "axis and keepdims": lambda x: x.mean(axis=1, keepdims=True) * x.argmax(axis=1, keepdims=True),
    "axis of unsqueeze": lambda x: torch.unsqueeze(x, axis=1),
    "row_stack": lambda x: torch.row_stack([x, x]),
    "sizes one by one": lambda x: x[:, None].broadcast_to(x.shape[0], 5, 4),
    "type": lambda x: (4 * x).type(torch.int32),
    "byte": lambda x: (x.sigmoid() * 255).round().byte() / 255.0,
    "short": lambda x: (x * 10).short().float() + x,
    "a result of bytes": lambda x: (x.sigmoid() * 255).round().to(torch.uint8),
    "new_tensor": lambda x: x.new_tensor([1, 2, 3, 4]) * x,
    "len": lambda x: torch.ones(len(x)) * x[:, 0],
    "int as a dtype": lambda x: torch.zeros(x.shape[0], 4, dtype=int) + x,
    "mse_loss as a distance": lambda x: -torch.log10(nn.functional.mse_loss(x, x + 0.5, reduction="sum")) * x,
    "l1_loss of each element": lambda x: nn.functional.l1_loss(x, x.flip(1), reduction="none"),
    "MSELoss": lambda x: nn.MSELoss()(x, x.flip(1)).reshape(1, 1) + x,
    "float as a dtype": lambda x: torch.ones_like(x, dtype=float).float() * x,
    "meshgrid without an indexing": lambda x: x + sum(torch.meshgrid([torch.arange(x.shape[0]), torch.arange(4)])),
    "rows of a range": lambda x: x[:, range(1, 4)],
    "a column by a list of sizes": lambda x: x[:, [4 - min(x.shape[0], 2)]],
    "columns by a list of tensors": lambda x: x[:, list(torch.tensor([2, 0]))],
    "a number of sizes as a tensor": lambda x: x[:, 4 - torch.tensor(min(x.shape[0], 2)) :],
}


@pytest.mark.parametrize("name", SPELLINGS)
def test_each_spelling_is_the_usual_call(name):
    spec = td.from_module(Written(SPELLINGS[name]), [X], dims=ROWS)
    td.check(spec).raise_for_mismatch()


class Levels(nn.Module):
    """Results by the numbers of levels, as torchvision's backbones give them."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 3)

    def forward(self, x):
        levels = [self.first(x).relu()]
        levels.append(self.second(levels[0]))
        return OrderedDict((str(number), level) for number, level in enumerate(levels))


def test_an_embedding_shortens_the_rows_that_it_looks_up():
    torch.manual_seed(0)
    spec = td.from_module(nn.Embedding(5, 4, max_norm=0.7, norm_type=1.0), ["N,3:int64:0:5"])
    td.check(spec).raise_for_mismatch()


def test_outputs_may_be_called_by_numbers():
    spec = td.from_module(Levels(), [X], dims=ROWS)
    td.check(spec).raise_for_mismatch()
    assert list(spec.define().outputs) == ["0", "1"]


class Experts(nn.Module):
    """A mixture of experts as transformers writes it: rows sorted by their expert, and one product for each."""

    def __init__(self):
        super().__init__()
        self.weights = nn.Parameter(torch.randn(3, 4, 8, generator=torch.Generator().manual_seed(0)))

    def forward(self, x, expert):
        order = expert.argsort(stable=True)
        ends = torch.histc(expert.float(), bins=3, min=0, max=2).cumsum(0, dtype=torch.int32)
        return nn.functional.grouped_mm(x[order], self.weights, offs=ends)[order.argsort()]


@pytest.mark.parametrize("rows", [(1, 2, 3), (1, 4, 9)])
def test_a_mixture_of_experts(rows):
    spec = td.from_module(Experts(), {"x": X, "expert": "N:int64:0:3"}, dims={"N": rows})
    td.check(spec).raise_for_mismatch()


def test_groups_of_columns_are_refused():
    network = td.Network()
    x, y = network.input("x", (3, 8)), network.input("y", (8, 4))
    with pytest.raises(td.UnsupportedError, match=r"groups are parts of the rows of mat_a \(S, K\)"):
        td.functional.grouped_mm(x, y, offs=network.constant([4, 8]))


class Bounded(nn.Module):
    """A clamp whose bound is a size: what a check names it by differs from size to size."""

    def forward(self, x):
        return x.clamp(0, x.shape[0] / 2)


def test_a_bound_that_is_a_size_is_checked_at_all_sizes():
    assert td.check(td.from_module(Bounded(), [X], dims=ROWS)).passed


def _corners(x):
    return torch.tensor([[x.max(), 0.5], [2.0, x.min()]]) * x[:1, :2]


def _filled(x):
    y = torch.ones(1, 4)
    y[0, 2] = 1 / (x.shape[0] + 1)
    y[..., 1] = x.shape[0]
    return y * x


def _windows(x):
    padded, rows = nn.functional.pad(x, (0, 0, 2, 2)), x.shape[0]
    return torch.stack([padded[start : start + rows] for start in range(5)], 1)


@pytest.mark.parametrize("function", [_corners, _filled, _windows], ids=lambda function: function.__name__)
def test_numbers_of_every_origin_are_written(function):
    spec = td.from_module(Written(function), [X], dims=ROWS)
    td.check(spec).raise_for_mismatch()


def _complex_parts(x):
    z = torch.fft.rfft(x)
    z = nn.functional.pad(z, (1, 0, 0, 0))
    joined = torch.cat([z, 2 * z], -1)
    return torch.view_as_real(torch.stack([joined, joined.flip(0)], dim=1)), torch.stack([z, z], -1).abs()


def test_complex_values_are_joined_and_padded():
    td.check(td.from_module(Written(_complex_parts), [X], dims=ROWS)).raise_for_mismatch()


class ByName(nn.Module):
    """Calls whose operands are all given by name, some by names that only torch has for them."""

    def forward(self, x):
        number, length, width = x.shape
        made = torch.zeros(size=(length, 1)) + x.new_full(size=(length, 1), fill_value=1.5)
        places = torch.arange(end=length, dtype=x.dtype) + torch.arange(start=0, end=length)
        moved = x.permute(dims=(0, 2, 1)).swapaxes(axis0=1, axis1=2).flip(dims=[1]).tile(dims=(1, 1, 2))
        greatest = torch.max(input=x, other=-x).max(other=x * 0.5)
        chosen = x.scatter(dim=1, index=torch.zeros(1, 1, 1, dtype=torch.long), value=3.0)
        half = torch.chunk(input=x, chunks=2, dim=2)[0] + torch.unbind(input=x, dim=2)[1][:, :, None]
        parts = x.tensor_split(sections=2, dim=2)[0] + x.tensor_split(indices=(2,), dim=2)[1]
        parts = parts + x.split(split_size=2, dim=2)[1] + half
        spread = x[:, :1].expand(size=(number, length, width)).repeat(repeats=(1, 2, 1))
        positive = x.where(condition=x > 0, other=torch.tensor(data=[0.0]))
        return {
            "sum": x + made + places[:, None] + greatest + chosen + positive,
            "moved": moved.view(size=(number, length, 4, -1)),
            "parts": parts,
            "spread": spread.reshape(shape=(number, -1)),
        }


def test_operands_that_are_given_by_name():
    spec = td.from_module(ByName(), ["N,T,4"], dims={**ROWS, "T": (2, 5, 9)})
    assert td.check(spec).passed


FORMER = {
    "add": lambda x: torch.add(x, 2, x * x),
    "add_": lambda x: x.clone().add_(3, x * x),
    "sub": lambda x: x.sub(0.5, x * x),
    "addcmul": lambda x: torch.addcmul(x, 2, x, x),
    "addcdiv_": lambda x: x.clone().addcdiv_(-2, x, x.abs() + 1),
    "addmm": lambda x: torch.addmm(0.5, x, 2, x, x.mT @ x),
    "addmm of one number": lambda x: torch.addmm(0.5, x, x, x.mT @ x),
    "addmm_": lambda x: x.clone().addmm_(0.5, 2, x, x.mT @ x),
    "baddbmm": lambda x: torch.baddbmm(0.5, x[None], 2, x[None], (x.mT @ x)[None]),
}


@pytest.mark.filterwarnings("ignore:This overload")
@pytest.mark.parametrize("name", FORMER)
def test_numbers_before_tensors_are_the_ones_that_torch_takes_them_for(name):
    text = td.port(Written(FORMER[name]), {"x": X}, dims=ROWS)
    assert "td.require" not in text
    td.check(td.from_module(Written(FORMER[name]), [X], dims=ROWS)).raise_for_mismatch()


def test_a_cross_product_is_of_the_first_dimension_of_three():
    module = Written(lambda x: torch.cross(x[:, :3], x[:, 1:] + 1))
    assert ported(module, {"x": X}, dims=ROWS, check=True).verdict.passed
