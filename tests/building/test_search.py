"""How the trials of a tuning are judged: by floor, bytes and launches, and by their outputs."""

import time
from types import SimpleNamespace

import pytest
import torch

from trtdsl.building.search import Figures, Search, Trial, _close
from trtdsl.core.errors import Location
from trtdsl.definition.tuning.choices import Site, SiteKey


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


class Priced(Search):
    """The search with a price for each choice of ways, in the place of engines."""

    def __init__(self, ways, price):
        nothing = SimpleNamespace()
        super().__init__(nothing, {}, {}, nothing, "rtx-4090", time.perf_counter() + 1000, lambda *_: None)
        self.ways, self.price, self.tried = ways, price, []

    def _trial(self, choices):
        chosen = {function: ways[0] for function, ways in self.ways.items()}
        chosen |= {key.function: way for key, way in choices.items()}
        self.tried.append(chosen)
        sites = [
            Site(SiteKey("f.py", "f", function, function, 0), Location("f.py", 1), (), ways, chosen[function], False)
            for function, ways in self.ways.items()
        ]
        moved = self.price(chosen)
        network = SimpleNamespace(choices=SimpleNamespace(sites=sites))
        return Trial(network, choices, Figures(10, moved, moved * 1e-9, 1))

    def _gives_the_same(self, network, label):
        return True


def test_two_changes_that_help_only_together_are_found():
    """As an einsum that takes a convolution in, and the batch norm after it that is folded."""
    prices = {("merged", "scale"): 110, ("plain", "folded"): 105, ("merged", "folded"): 60}
    search = Priced(
        {"einsum": ("plain", "merged"), "norm": ("scale", "folded"), "pool": ("layer", "reduce")},
        lambda chosen: prices.get((chosen["einsum"], chosen["norm"]), 100) * (2 if chosen["pool"] == "reduce" else 1),
    )
    search.run()
    assert search.best.figures.bytes == 60
    assert {change.function: change.after for change in search.changes} == {"einsum": "merged", "norm": "folded"}
    assert len(search.tried) < 3 * 8  # a choice is tried again only after a change


def test_a_trial_is_expected_to_take_what_the_last_ones_did():
    """The first trial loads the builder: what it takes does not keep the others from being tried."""
    search = Priced({"einsum": ("plain", "merged")}, lambda chosen: 100)
    for lasted, expected in (
        ([], 0.0),
        ([30.0], 30.0),
        ([30.0, 1.0, 2.0], 2.0),
        ([30.0, 9.0, 1.0, 1.0, 1.0, 2.0], 2.0),
    ):
        search._lasted = lasted
        assert search._expected == expected
