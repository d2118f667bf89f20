"""What is computed of all pieces of a tensor and joined is computed of the whole, where each place is alone."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import trtdsl as td
from trtdsl.interpreter.interpret import Interpreter
from trtdsl.porting import ported

LOW, HIGH = 3, 14


class Pieces(nn.Module):
    """``compute`` of the module and its input."""

    def __init__(self, compute):
        super().__init__()
        torch.manual_seed(0)
        self.linear, self.norm, self.conv = nn.Linear(6, 6), nn.LayerNorm(6), nn.Conv1d(6, 6, 3, padding=1)
        self.feed = nn.Sequential(nn.Linear(6, 12), nn.ReLU(inplace=True), nn.Linear(12, 6))
        self.batch_norm, self.prelu = nn.BatchNorm1d(6), nn.PReLU(6)
        self.places = nn.Parameter(torch.randn(1, 4, 6))
        self.compute = compute
        self.eval()

    def forward(self, x):
        return self.compute(self, x)


def heads(self, x):
    outs = []
    for piece in x.split(3, 1):
        n, t, _ = piece.shape
        outs.append(self.linear(piece).view(n, t, 2, 3).transpose(1, 2).reshape(n * 2, t, 3)[:, :, :2])
    return torch.cat(outs, dim=1)


def before(self, x):
    state, outs = x.new_zeros(x.shape[0], 6), []
    for piece in x.split(4, 1):
        piece = piece + state[:, None]
        state = piece[:, -1]
        outs.append(piece)
    return torch.cat(outs, 1)


def in_place(self, x):
    y, outs = self.linear(x), []
    for piece in y.split(4, 1):
        piece *= 2
        outs.append(piece.relu())
    return torch.cat(outs, 1) + y


def first(self, x):
    outs = [self.linear(piece) for piece in x.split(4, 1)]
    return torch.cat(outs, 1) + outs[0].sum()


def count(self, x):
    outs = [self.linear(piece) for piece in x.split(4, 1)]
    return torch.cat(outs, 1) / len(outs)


def some_count(self, x):
    outs = [self.linear(piece) for piece in x.split(2, 1)]
    return torch.cat(outs, 1) * (2 if len(outs) == 5 else 1)


def two(self, x):
    pairs = [(self.linear(piece), self.norm(piece)) for piece in x.split(4, 1)]
    return torch.cat([a for a, _ in pairs], 1) - torch.cat([b for _, b in pairs], 1)


def asked(self, x):
    return torch.cat([self.linear(p) if p.shape[1] == 4 else self.norm(p) for p in x.split(4, 1)], 1)


def queries(self, x):
    return torch.cat([torch.softmax(q @ self.linear(x).mT / 2, -1) @ x for q in x.split(4, dim=1)], dim=1)


def zipped(self, x):
    return torch.cat([torch.cat([p, q], -1) for p, q in zip(x.chunk(4, 1), self.norm(x).chunk(4, 1))], 1)


def masked(self, x):
    mask = x.sum(-1, keepdim=True) > 0
    return torch.cat([p.masked_fill(m, 0) for p, m in zip(x.split(3, 1), mask.split(3, 1))], 1)


def strided(self, x):
    y, outs = self.linear(x), []
    for start in range(0, x.shape[1], 4):
        outs.append(self.feed(y[:, start : start + 4]))
    return torch.cat(outs, 1)


def strided_to_the_end(self, x):
    rows, step = x.shape[0], 2
    return torch.cat([self.conv(x[i : min(i + step, rows)].mT) for i in range(0, rows, step)])


def filled(self, x):
    out = torch.empty_like(x)
    for start in range(0, x.shape[1], 4):
        out[:, start : start + 4] = self.linear(x[:, start : start + 4])
    return out + x


def twice(self, x):
    for layer in (self.linear, self.feed):
        x = torch.hstack([layer(x[:, i : i + 3]) for i in range(0, x.shape[1], 3)])
    return x


def filled_in_part(self, x):
    out = torch.zeros_like(x)
    for start in range(0, x.shape[1], 4):
        out[:, start : start + 4, :3] = self.linear(x[:, start : start + 4])[..., 3:]
    return out


def filled_with_one(self, x):
    out = torch.zeros_like(x)
    for start in range(0, x.shape[1], 4):
        out[:, start : start + 4] = self.linear(x[:, start : start + 4]).mean(1, keepdim=True)
    return out


def filled_and_read(self, x):
    out = torch.zeros_like(x)
    for start in range(0, x.shape[1], 4):
        out[:, start : start + 4] = self.linear(x[:, start : start + 4]) + out.sum(1, keepdim=True)
    return out


def strided_and_counted(self, x):
    outs, rounds = [], 0
    for start in range(0, x.shape[1], 4):
        outs.append(self.linear(x[:, start : start + 4]))
        rounds += 1
    return torch.cat(outs, 1) * rounds


def strided_with_more(self, x):
    outs, more = [], 0
    for start in range(0, x.shape[1], 4):
        outs.append(self.linear(x[:, start : start + 4]))
        more = more + x[:, start].sum()
    return torch.cat(outs, 1) + more


def strided_with_a_lap(self, x):
    return torch.cat([self.linear(x[:, i : i + 5]) for i in range(0, x.shape[1], 4)], 1)


def strided_beyond(self, x):
    return torch.cat([self.linear(self.linear(x)[:, i : i + 4]) for i in range(0, x.shape[1] - 2, 4)], 1)


WHOLE = [
    lambda self, x: torch.cat([self.feed(piece) for piece in x.chunk(5, dim=1)], dim=1),
    lambda self, x: torch.cat([self.feed(self.norm(p)) + p for p in x.split(4, dim=-2)], dim=-2),
    lambda self, x: torch.cat([F.pad(p.transpose(1, 2), (1, 1), mode="reflect") for p in torch.split(x, 2)]),
    lambda self, x: torch.cat([self.batch_norm(self.conv(p.transpose(1, 2))) for p in x.split(2, 0)]),
    lambda self, x: torch.cat([p.softmax(-1).mean(-1) for p in x.split(4, 1)], 1),
    lambda self, x: torch.cat([torch.einsum("bid,bjd->bij", p, x) for p in x.chunk(3, dim=1)], dim=1),
    lambda self, x: torch.cat([p[:, :, :3] * p[..., 3:] for p in x.split(4, 1)], 1),
    lambda self, x: torch.cat(list(map(self.feed, x.split(4, 1))), 1),
    lambda self, x: torch.cat(x.split(4, 1), 1) * 2,
    *(heads, two, queries, zipped, masked, strided, strided_to_the_end, filled, twice),
    lambda self, x: torch.cat([F.scaled_dot_product_attention(q, x, x) for q in x.split(4, 1)], 1),
    lambda self, x: torch.cat([p.sigmoid() for p in x.flatten().split(5)]),
]
TOGETHER = [
    lambda self, x: torch.cat([self.conv(p.transpose(1, 2)).mT for p in x.split(4, 1)], 1),
    lambda self, x: torch.cat([p.softmax(1) for p in x.split(4, 1)], 1),
    lambda self, x: torch.cat([p.cumsum(1) for p in x.split(4, 1)], 1),
    lambda self, x: torch.cat([p.flip(2, 1) for p in x.split(4, 1)], 1),
    lambda self, x: torch.cat([p.mean(1, keepdim=True) for p in x.split(4, 1)], 1),
    lambda self, x: torch.cat([p * (i + 1) for i, p in enumerate(x.split(4, 1))], 1),
    lambda self, x: torch.cat([p / p.shape[1] for p in x.split(4, 1)], 1),
    lambda self, x: torch.cat([p + torch.arange(p.shape[1])[:, None] for p in x.split(4, 1)], 1),
    lambda self, x: torch.cat([p + self.places[:, : p.shape[1]] for p in x.split(4, 1)], 1),
    lambda self, x: torch.cat([p - p.max() for p in x.split(4, 1)], 1),
    lambda self, x: torch.cat([p * p[:, :1] for p in x.split(4, 1)], 1),
    lambda self, x: torch.cat([self.linear(p) for p in x.split(4, 1)[::-1]], 1),
    lambda self, x: torch.cat([self.linear(p) for p in x.split(4, 1)[1:]] + [x[:, :1]], 1),
    lambda self, x: torch.cat([p.reshape(-1, 2, 3) for p in x.split(4, 1)], 0),
    lambda self, x: torch.cat([self.prelu(p.mT).mT for p in x.split(4, 1)], 1) + x.split(4, 1)[0].sum(),
    lambda self, x: torch.cat([p @ p.mT @ p for p in x.split(4, 1)], 1),
    *(before, in_place, first, count, some_count, asked),
    *(filled_in_part, filled_with_one, filled_and_read),
    *(strided_and_counted, strided_with_more, strided_with_a_lap, strided_beyond),
]


def served(module):
    """The networks of a port, each with the range of its size."""
    result = ported(module, ["N,T,6"], dims={"N": (1, 2, 5), "T": (LOW, 8, HIGH)})
    space = {}
    exec(compile(result.text, "ported", "exec"), space)
    specs = [each for each in space.values() if isinstance(each, td.NetworkSpec)]
    runs = [(each.inputs["x"].shape[1], Interpreter(each.define(weights=result.weights))) for each in specs]
    return result.text, [(range(dim.min, dim.max + 1) if isinstance(dim, td.Dim) else [dim], run) for dim, run in runs]


@torch.no_grad()
def assert_equal_at_all_sizes(module, networks):
    for size in range(LOW, HIGH + 1):
        run = next(run for sizes, run in networks if size in sizes)
        for batch in (1, 2, 5):
            x = torch.randn(batch, size, 6)
            (got,) = run({"x": x}).values()
            torch.testing.assert_close(got, module(x), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("place", range(len(WHOLE)))
def test_pieces_that_are_alone_are_a_whole(place):
    module = Pieces(WHOLE[place])
    text, networks = served(module)
    assert text.count("@td.network") == 1 and "split(" not in text and "chunk(" not in text
    assert_equal_at_all_sizes(module, networks)


EVERY = 4  # of these is tried in every run of the tests, the others where heavy ones are asked for


@pytest.mark.long
def test_calls_may_follow_one_another_as_many_times_as_there_are():
    def long(self, x):
        pieces = list(x.split(3, 1))
        for number in range(200):
            pieces = [piece + number for piece in pieces]
        return torch.cat([self.linear(piece) for piece in pieces], 1)

    assert "split(" not in td.port(Pieces(long), {"x": "2,6,6"})


@pytest.mark.parametrize(
    "place",
    [place if not place % EVERY else pytest.param(place, marks=pytest.mark.heavy) for place in range(len(TOGETHER))],
)
def test_pieces_whose_places_are_together_stay_pieces(place):
    module = Pieces(TOGETHER[place])
    try:
        text, networks = served(module)
    except td.UnsupportedError:
        return
    assert text.count("@td.network") > 1
    assert_equal_at_all_sizes(module, networks)


def listed(self, x):
    return torch.cat(list(self.linear(x)), dim=0)


def stacked(self, x):
    return torch.stack(tuple(x.sin()), dim=1)


def counted(self, x):
    parts = list(x)
    return torch.cat(parts, dim=1) * len(parts)


def written_between(self, x):
    y = x * 2
    parts = list(y)
    y += 1
    return torch.cat(parts)


@pytest.mark.parametrize(("compute", "networks"), [(listed, 1), (stacked, 1), (counted, 3), (written_between, 3)])
def test_a_list_of_all_parts_that_is_joined_is_the_tensor_itself(compute, networks):
    found = ported(Pieces(compute), {"x": "N,4,6"}, dims={"N": (1, 2, 3)}, check=True)
    assert found.verdict.passed, found.verdict.text
    assert max(found.text.count("part_of="), 1) == networks
