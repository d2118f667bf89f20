"""Recurrent networks over packed sequences: what is written takes the padded ones and their lengths."""

import re

import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

import trtdsl as td

pytestmark = pytest.mark.long

INPUTS, DIMS = {"x": "N,T,4", "lengths": "N:int64:1:4"}, {"N": (1, 3, 5), "T": (3, 5, 7)}


class Recurrent(nn.Module):
    """All states of packed sequences, padded again by a number to two steps more, and the last ones."""

    def __init__(self, kind, batch_first=True, **options):
        super().__init__()
        self.net, self.batch_first = kind(4, 3, 2, batch_first=batch_first, **options), batch_first

    def forward(self, x, lengths):
        total = x.shape[int(self.batch_first)]
        packed = pack_padded_sequence(x, lengths.cpu(), batch_first=self.batch_first, enforce_sorted=False)
        y, last = self.net(packed)
        again, _ = pad_packed_sequence(packed, batch_first=True, total_length=total)
        y, ends = pad_packed_sequence(y, batch_first=self.batch_first, padding_value=-1.5, total_length=total + 2)
        return y, ends, again, *(last if isinstance(last, tuple) else (last,))


@pytest.mark.parametrize(
    "module",
    [Recurrent(nn.LSTM, bidirectional=True), Recurrent(nn.GRU, bidirectional=True), Recurrent(nn.RNN)],
    ids=lambda module: type(module.net).__name__,
)
def test_it_is_the_network_over_padded_ones_up_to_their_ends(module):
    spec = td.from_module(module, INPUTS, dims=DIMS)
    x, lengths = torch.randn(4, 6, 4), torch.tensor([2, 6, 1, 4])
    with torch.no_grad():
        expected = module(x, lengths)
    for own, its in zip(td.interpret(spec, {"x": x, "lengths": lengths}).values(), expected, strict=True):
        torch.testing.assert_close(own, its)


class OfRows(nn.Module):
    """What is computed of each row of packed sequences, before a network and after it."""

    def __init__(self):
        super().__init__()
        self.conv, self.norm, self.head = nn.Conv2d(1, 2, 3, padding=1), nn.BatchNorm1d(4), nn.Linear(3, 2)
        self.net = nn.GRU(4, 3, batch_first=True)
        self.eval()

    def forward(self, x, lengths):
        images = pack_padded_sequence(x.unflatten(-1, (1, 2, 2)), lengths, batch_first=True, enforce_sorted=False)
        rows = torch.relu_(self.conv(images.data)).amax(1).flatten(1)
        rows += 0.5 * rows[:, :1]
        states, last = self.net(images._replace(data=self.norm(rows.view(rows.shape[0], -1))))
        given = states._replace(data=self.head(states.data).softmax(-1))
        return *pad_packed_sequence(given, batch_first=True, total_length=x.shape[1], padding_value=-1.5), last


def test_rows_are_computed_alone():
    spec = td.from_module(OfRows(), INPUTS, dims=DIMS)
    td.check(spec).raise_for_mismatch()
    x, lengths = torch.randn(4, 6, 4), torch.tensor([2, 6, 1, 4])
    with torch.no_grad():
        expected = spec.reference()(x, lengths)
    for own, its in zip(td.interpret(spec, {"x": x, "lengths": lengths}).values(), expected, strict=True):
        torch.testing.assert_close(own, its)


def test_steps_may_come_first():
    module = Recurrent(nn.LSTM, batch_first=False)
    inputs = {"x": "T,N,4", "lengths": "N:int64:1:4"}
    td.check(td.from_module(module, inputs, dims=DIMS)).raise_for_mismatch()


def test_sorted_lengths_stay_as_they_are():
    class Sorted(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = nn.GRU(4, 3, batch_first=True)

        def forward(self, x):
            packed = pack_padded_sequence(x, torch.tensor([5, 3, 3]), batch_first=True)
            return pad_packed_sequence(self.net(packed)[0], batch_first=True, total_length=x.shape[1])[0]

    td.check(td.from_module(Sorted(), {"x": "3,T,4"}, dims={"T": (5, 6, 8)})).raise_for_mismatch()


@pytest.mark.parametrize(
    ("of", "why"),
    [
        (lambda packed, net: packed.data.sum(), "sum of packed sequences: a network has them padded"),
        (lambda packed, net: packed.data * int(packed.data.shape[0]), "mul of packed sequences"),
        (lambda packed, net: net(packed)[1] * packed.data.shape.numel(), "mul of packed sequences"),
        (lambda packed, net: packed.data.view(-1, 2).softmax(1), "view of packed sequences"),
        (lambda packed, net: net(packed)[1] * (len(packed.data) > 5), "the number of rows of packed sequences"),
        (lambda packed, net: net(packed)[0].data, "forward gives packed sequences, and a network has none"),
        (lambda packed, net: pad_packed_sequence(packed, batch_first=True)[0], "give pad_packed_sequence total_length"),
    ],
)
def test_what_no_network_has_is_refused(of, why):
    class Other(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = nn.GRU(4, 3, batch_first=True)

        def forward(self, x, lengths):
            return of(pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False), self.net)

    with pytest.raises(td.UnsupportedError, match=re.escape(why)):
        td.from_module(Other(), {**INPUTS, "lengths": "N:int64:0:4"}, dims=DIMS)


class ByList(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.GRU(4, 3, batch_first=True)

    def forward(self, x):
        lengths = x.gt(0).any(-1).sum(-1).tolist()
        return self.net(pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False))[1]


def test_lengths_that_values_give_may_be_a_list():
    module, x = ByList(), torch.randn(3, 5, 4)
    with torch.no_grad():
        torch.testing.assert_close(td.interpret(td.from_module(module, {"x": "N,5,4"}), {"x": x})["output"], module(x))


class ByAnotherList(ByList):
    def forward(self, x):
        lengths = x.gt(0).any(-1).sum(-1).tolist()
        lengths[0] = 5
        return self.net(pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False))[1]


def test_a_list_of_lengths_that_is_written_to_is_refused_with_the_line():
    with pytest.raises(td.UnsupportedError, match="takes a number that depends on a tensor's values") as raised:
        td.from_module(ByAnotherList(), {"x": "3,5,4"})
    assert raised.value.location.file == __file__
