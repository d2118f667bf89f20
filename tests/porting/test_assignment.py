"""``x[index] = y`` in a module, for every form of index: the network is the module, and its text says what it does."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import trtdsl as td


class Assigning(torch.nn.Module):
    """Writes into a copy of x, as the function says."""

    def __init__(self, write):
        super().__init__()
        self.write = write

    def forward(self, x, i):
        y = x.clone()
        self.write(y, x, i)
        return y


def below(y, x, i):
    mask = x < 0
    y[mask] = 0.5


def rows(y, x, i):
    mask = x[:, :, 0] < 0
    y[mask] = 7.0


def chosen(y, x, i):
    mask = x < 0.3
    z = x * 2
    y[mask] = z[mask]


def chosen_rows(y, x, i):
    mask = x[:, :, 0] < 0
    z = x * 2 + 1
    y[mask] = z[mask]


def computed(y, x, i):
    mask = x < 0
    y[mask] = x[mask] * 2 + 1


def augmented(y, x, i):
    y[:, [0, 2]] *= 3


WRITES = {
    "y[:, 1] = v": lambda y, x, i: y.__setitem__((slice(None), 1), x[:, 0] * 2),
    "y[:, 1] = number": lambda y, x, i: y.__setitem__((slice(None), 1), 3.0),
    "y[..., 0] = broadcast": lambda y, x, i: y.__setitem__((..., 0), x[0, :, 1]),
    "y[:, 0:2] = broadcast": lambda y, x, i: y.__setitem__((slice(None), slice(0, 2)), x[:, :1] * 3),
    "y[:, 1:-1, ::2] = v": lambda y, x, i: y.__setitem__(
        (slice(None), slice(1, -1), slice(None, None, 2)), x[:, 1:-1, 1::2]
    ),
    "y[0, :, 1] = v": lambda y, x, i: y.__setitem__((0, slice(None), 1), x[1, :, 0]),
    "y[:, i] = v": lambda y, x, i: y.__setitem__((slice(None), i), x[:, :2] * 5),
    "y[:, :, i] = v": lambda y, x, i: y.__setitem__((slice(None), slice(None), i), x[:, :, 1:3] * 5),
    "y[:, i, i] = number": lambda y, x, i: y.__setitem__((slice(None), i, i), 1.5),
    "y[i, :, 1] = number": lambda y, x, i: y.__setitem__((i, slice(None), 1), 1.5),
    "y[0, i] = v": lambda y, x, i: y.__setitem__((0, i), x[1, :2]),
    "y[:, :, array] = x[:, :, array of truth values]": lambda y, x, i: y.__setitem__(
        (slice(None), slice(None), np.array([2, 0])), x[:, :, np.arange(6) % 3 == 0] * 5
    ),
    "y[[1, 0]] = v": lambda y, x, i: y.__setitem__([1, 0], x[:2] + 1),
    "y[mask] = number": below,
    "y[mask of rows] = number": rows,
    "y[mask] = z[mask]": chosen,
    "y[mask of rows] = z[mask of rows]": chosen_rows,
    "y[mask] = f(x[mask])": computed,
    "y[:, [0, 2]] *= 3": augmented,
    "y.diagonal(…) += v": lambda y, x, i: y.diagonal(-1, dim1=2, dim2=0).add_(x[..., 1].mT),
    "y[0].fill_diagonal_(number)": lambda y, x, i: y[:, 1].fill_diagonal_(0.5),
    "y[:, t//2:] = v": lambda y, x, i: y.__setitem__((slice(None), slice(x.shape[1] // 2, None)), -1.0),
    "y[:, -(t//2):] = v": lambda y, x, i: y.__setitem__((slice(None), slice(-(x.shape[1] // 2), None)), -1.0),
}
INPUTS = {"x": "3,T,6", "i": "2:int64:0:3"}


@pytest.mark.parametrize("name", WRITES)
def test_every_form_of_assignment_is_ported(name):
    spec = td.from_module(Assigning(WRITES[name]), INPUTS, dims={"T": (3, 5, 8)})
    report = td.check(spec)
    assert report.passed, str(report)


class Chosen(torch.nn.Module):
    def forward(self, x):
        y = x.clone()
        chosen_rows(y, x, None)
        return y


class Steps(torch.nn.Module):
    def forward(self, x):
        x = x.clone()
        x[:, 1:, ::2] = 0.0
        return x


def test_the_text_of_an_assignment():
    assert "F.where(mask[..., None], z, " in td.port(Chosen, {"x": "2,3,4"})
    assert "F.setitem(x, (slice(None), slice(1, None), slice(None, None, 2)), 0.0)" in td.port(Steps, {"x": "2,3,4"})


class InItsDtype(torch.nn.Module):
    """Calls that write to a tensor what they would give in another dtype."""

    def forward(self, x):
        above, half, whole = x * 1, x.half(), (x * 3).int()
        above.gt_(0.1)
        half.pow_(2.5).div_(x.abs() + 1)
        whole.add_((x * 10).long())
        rows = x + 1
        rows[:, :2].logical_not_()
        return above, half, whole, rows


def test_what_is_written_keeps_the_dtype_of_where_it_goes():
    spec = td.from_module(InItsDtype(), ["N,4"], dims={"N": (1, 2, 3)})
    td.check(spec).raise_for_mismatch()


def of_a_mask(x):  # as PointNet++ fills the groups of its balls
    g = torch.arange(6).view(1, 6).repeat(x.shape[0], 1)
    g[x > 0] = 6
    g = g.sort(-1)[0]
    first, mask = g[:, :1].repeat(1, 6), g == 6
    g[mask] = first[mask]
    return g


def by_a_branch(x):
    g = torch.zeros(x.shape[0], 6)
    g[:] = x
    return x * 2 if g[0, 0] > 0 else x * 3


def through_a_view(x):
    g = torch.zeros(x.shape[0], 6)
    view = g[:, 2:4]
    g[:, 1:5] = x[:, 1:5]
    other = view.view(-1, 2)
    other += 1
    other[other > 1] = 0
    return g.sum(0), view, (g > 0).nonzero().shape[0] * x


def of_numbers(x):
    g = torch.zeros(3)
    g[0] = x.sum()
    return x * g.tolist()[0] + g.argmax().item()


def by_out(x):
    g, at = torch.empty(x.size(0), 6), torch.zeros(x.size(0), dtype=torch.long)
    torch.mul(x, 2, out=g)
    torch.argmax(x, 1, out=at)
    return g[torch.arange(x.size(0)), at], g[g > 0].mean()


def by_a_loop(x):
    g = torch.zeros(2, 6)
    for i in range(2):
        row = g[i]
        row.add_(x.sum(0))
        if i and row.max() > g[0].max():
            row.mul_(2)
    out = torch.zeros_like(g)
    out[g > 1] = 1
    return g / (int(out.sum()) + 1), out


class Filled(torch.nn.Module):
    def __init__(self, made):
        super().__init__()
        self.made = made

    def forward(self, x):
        return self.made(x)


@pytest.mark.parametrize("made", [of_a_mask, by_a_branch, through_a_view, of_numbers, by_out, by_a_loop])
def test_what_inputs_are_written_to_has_values_of_inputs(made):
    dims = {"N": (1, 2, 3)}
    assert td.porting.ported(Filled(made).eval(), {"x": "N,6"}, dims=dims, check=True).verdict.passed


class ToTheEnd(torch.nn.Module):
    def forward(self, x):
        out = torch.zeros_like(x)
        out[:, 8:12] = x.mean(1, keepdim=True)
        return out


def test_what_is_written_over_a_slice_that_ends_early_is_written_over_all_of_a_longer_one():
    dims = {"N": (1, 2, 3), "T": (9, 9, 12)}  # of 9, the slice has one element, as what is written
    assert td.porting.ported(ToTheEnd(), {"x": "N,T,6"}, dims=dims, check=True).verdict.passed
