"""How the trials of a tuning are judged: by floor, bytes and launches, and by their outputs."""

import pytest
import torch

from trtdsl.building.search import Figures, _close


def figures(floor=1e-3, moved=1_000_000, launches=10):
    return Figures(launches, moved, floor, 1 << 20)


@pytest.mark.parametrize(
    ("changed", "wins"),
    [
        ({}, False),
        ({"floor": 0.9e-3}, True),
        ({"floor": 0.9e-3, "moved": 2_000_000}, True),
        ({"floor": 1.1e-3, "moved": 10, "launches": 1}, False),
        ({"moved": 900_000}, True),
        ({"moved": 1_100_000, "launches": 1}, False),
        ({"launches": 9}, True),
        ({"launches": 11}, False),
        ({"floor": 0.99999e-3, "moved": 1_100_000}, False),  # the floors are the same but for rounding
    ],
)
def test_the_floor_decides_then_the_bytes_then_the_launches(changed, wins):
    assert figures(**changed).beats(figures()) is wins


def test_outputs_are_compared_by_their_scale_and_in_their_precision():
    x = torch.tensor([1.0, -100.0, 0.0])
    for dtype, error, same in (
        (torch.float32, 0.01, True),
        (torch.float32, 1.0, False),
        (torch.float16, 1.0, True),
        (torch.bfloat16, 20.0, False),
    ):
        assert _close(x + torch.tensor([0.0, 0.0, error]), x, dtype) is same
    nothing = torch.tensor([float("nan"), float("inf")])
    assert _close(nothing, nothing, torch.float32)
    assert not _close(torch.tensor([0.0, float("inf")]), nothing, torch.float32)
    assert not _close(x[:2], x, torch.float32) and not _close(x.double(), x, torch.float32)
    flags = torch.tensor([True, False])
    assert _close(flags, flags, torch.bool) and not _close(~flags, flags, torch.bool)
    assert _close(torch.zeros(0), torch.zeros(0), torch.float32)
