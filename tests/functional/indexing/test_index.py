"""``x[index]`` with tensors of indices against torch, and what such calls move."""

from __future__ import annotations

import pytest
import torch
from support import evaluate

import trtdsl as td
import trtdsl.functional as F
from trtdsl.interpreter.interpret import Interpreter

ROWS, COLUMNS, PAIR = torch.tensor([0, 3, -1]), torch.tensor([1, 1, -4]), torch.tensor([[2, 0, 1]])
ALL = slice(None)
INDICES = {
    "neighbours in front": (ROWS, COLUMNS),
    "neighbours behind others": (ALL, ROWS, COLUMNS),
    "the last two": (ALL, ALL, ROWS, COLUMNS),
    "three": (ALL, ROWS, COLUMNS, PAIR),
    "apart": (ROWS, ALL, COLUMNS),
    "far apart": (ROWS, ALL, ALL, PAIR),
    "of two shapes": (ALL, ROWS[:, None], COLUMNS[:2]),
    "beside an int and a slice": (1, ALL, ROWS, slice(1, 3)),
    "beside None": (ALL, None, ROWS, COLUMNS),
}
DYNAMIC = (td.Dim("N", min=4, opt=4, max=6), 4, td.Dim("H", min=5, opt=5, max=7), 4)


@pytest.fixture
def x():
    return torch.arange(4 * 4 * 5 * 4, dtype=torch.float32).reshape(4, 4, 5, 4)


@pytest.mark.parametrize("shape", [None, DYNAMIC], ids=["fixed", "dynamic"])
@pytest.mark.parametrize("index", INDICES.values(), ids=INDICES)
def test_reads_and_writes_as_torch(x, index, shape):
    """Tensors of indices are constants of the first network, inputs of the second."""
    given = [each for each in index if isinstance(each, torch.Tensor)]

    def index_of(tensors):
        left = iter(tensors)
        return tuple(next(left) if isinstance(each, torch.Tensor) else each for each in index)

    written = x.clone()
    written[index] = 7.5
    summed = None
    if all(each is ALL or isinstance(each, torch.Tensor) for each in index):
        places = [each if isinstance(each, torch.Tensor) else None for each in index]
        summed = torch.ops.aten.index_put(x, places, torch.tensor(0.5), accumulate=True)

    def network(x, *tensors):
        tensors = tensors or given
        results = [x[index_of(tensors)], F.setitem(x, index_of(tensors), 7.5)]
        if summed is not None:
            left = iter(tensors)
            places = [next(left) if isinstance(each, torch.Tensor) else None for each in index]
            results.append(F.index_put(x, places, 0.5, accumulate=True))
        return tuple(results)

    expected = [each for each in (x[index], written, summed) if each is not None]
    for tensors in ((), given):
        for got, wanted in zip(
            evaluate(network, x, *tensors, dims=[shape, *(None for _ in tensors)]), expected, strict=True
        ):
            assert torch.equal(got, wanted)


def test_numbers_in_lists_and_ranges_are_indices(x):
    i = torch.tensor(2)

    def network(x, i):
        return (
            x[:, range(1, 3)],
            x[range(0)],
            x[:, []],
            x[:, [i, 0]],
            F.setitem(x, (range(4), slice(None), [i, 0, 1, 1]), 2.5),
        )

    written = x.clone()
    written[range(4), :, [2, 0, 1, 1]] = 2.5
    expected = x[:, range(1, 3)], x[range(0)], x[:, []], x[:, [i, 0]], written
    for got, wanted in zip(evaluate(network, x, i), expected, strict=True):
        assert torch.equal(got, wanted)


def moved(compute):
    net = td.Network("places")
    x, i = net.input("x", (4, 32, 64, 64)), net.input("i", (100,), "int64")
    with net.current():
        net.output(compute(x, i), "y")
    return td.program(net)


def test_places_in_the_last_dimensions_are_read_alone():
    """The features of some pixels: nothing else of (N, C, H, W) is moved, as no dimension has to."""
    program = moved(lambda x, i: x[:, :, i, i])
    assert program.launch_count == 1
    assert program.bytes < 2 * 4 * 4 * 32 * 100 + 4096  # what is read and what is written, and the indices


def test_places_behind_others_are_written_where_they_lie():
    """A copy of the tensor, and what is written: the dimensions stay in their order."""
    program = moved(lambda x, i: F.setitem(x, (slice(None), slice(None), i, i), 1.0))
    assert not [launch.name for launch in program.launches if "Tran" in launch.name]
    copied = 2 * 4 * 4 * 32 * 64 * 64
    assert program.bytes < copied * 1.35


def test_a_step_may_be_a_size():
    """Each so-many-th element, where the size of another dimension says how many."""

    def steps(x, arange, assigned):
        by, last = x.shape[0], x.shape[1] - 1
        taken = x[:, 1::by] * 2
        return taken, assigned(x + 0, (ALL, slice(None, last, by)), 7.0), x[:, arange(1, x.shape[1], by)]

    def assigned(x, index, value):
        x[index] = value
        return x

    net = td.Network()
    with net.current():
        for number, each in enumerate(steps(net.input("x", ("N", "T")), F.arange, F.setitem)):
            net.output(each, f"y{number}")
    run = Interpreter(net)
    for n in range(1, 5):
        for t in range(1, 9):
            data = torch.arange(1.0, n * t + 1).reshape(n, t)
            wanted = steps(data, torch.arange, assigned)
            for got, each in zip(run({"x": data}).values(), wanted, strict=True):
                assert torch.equal(got, each), (n, t)


def test_a_step_that_may_be_0_is_refused():
    x = td.Network().input("x", (td.Dim("N", min=0, max=4), "T"))
    with pytest.raises(td.DefinitionError, match="a slice's step must be an int other than 0, or a Size above 0"):
        x[:, :: x.shape[0]]
    with x.network.current(), pytest.raises(td.UnsupportedError, match="a step of N must be above 0"):
        F.arange(0, x.shape[1], x.shape[0])


def test_what_one_mask_chooses_of_several_tensors_has_one_size():
    x, h = torch.randn(4, 6), torch.randn(4, 6, 3)

    @td.network(inputs={"x": td.Input((4, 6)), "h": td.Input((4, 6, 3))})
    def network(x, h):
        mask = (x > -0.5) & (x < 0.5)
        inside = td.cond(F.any(mask), lambda a, b: (a[mask] * b[mask].sum(-1)).sum(), lambda a, b: a.sum() * 0, (x, h))
        both = F.masked_select(x, mask) * F.masked_select(h[..., 1], mask)
        places = F.searchsorted(h[mask].cumsum(-1).sort()[0], x[mask][:, None])
        return {"inside": inside, "sum": x[mask] + h[mask][:, 0], "both": both, "places": places}

    mask = (x > -0.5) & (x < 0.5)
    got = td.interpret(network, {"x": x, "h": h})
    assert torch.allclose(got["inside"], (x[mask] * h[mask].sum(-1)).sum())
    assert torch.equal(got["sum"], x[mask] + h[mask][:, 0])
    assert torch.equal(got["both"], x[mask] * h[..., 1][mask])
    assert torch.equal(got["places"], torch.searchsorted(h[mask].cumsum(-1).sort()[0], x[mask][:, None]))
    assert td.interpret(network, {"x": x + 5, "h": h})["inside"] == 0
