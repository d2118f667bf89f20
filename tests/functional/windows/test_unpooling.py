"""What maxima are of is written back to their places, at dynamic sizes and with a given size, too."""

import pytest
import torch
from torch import nn

import trtdsl as td
import trtdsl.functional as F


class Both(nn.Module):
    """The two halves of a SegNet; the places are of odd sizes, too."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.down, self.up = nn.Conv2d(3, 4, 3, padding=1), nn.Conv2d(4, 2, 3, padding=1)
        self.pool, self.unpool = nn.MaxPool2d(2, 2, return_indices=True), nn.MaxUnpool2d(2, 2)

    def forward(self, x):
        y = self.down(x)
        z, places = self.pool(y)
        return self.up(self.unpool(z.relu() + 1, places, output_size=y.size()))


def test_a_network_that_unpools_is_ported():
    sizes = {"N": (1, 2, 3), "H": (5, 8, 9), "W": (4, 7, 8)}
    td.check(td.from_module(Both(), ["N,3,H,W"], dims=sizes)).raise_for_mismatch()


@pytest.mark.parametrize("ndim", [1, 2, 3])
@pytest.mark.parametrize("batch", [(), ("N",)])
def test_places_of_dynamic_sizes(ndim, batch):
    pool, unpool = (getattr(torch.nn.functional, f"max_{name}{ndim}d") for name in ("pool", "unpool"))
    net = td.Network()
    x = net.input("x", (*batch, 3, "L", *[5] * (ndim - 1)))
    y, places = getattr(F, pool.__name__)(x, 3, 2, 1, return_indices=True)
    net.output(getattr(F, unpool.__name__)(y, places, 3, 2, 1), "y")
    for length in (5, 7):
        feed = torch.randn(*[2] * len(batch), 3, length, *[5] * (ndim - 1))
        torch.testing.assert_close(
            td.interpret(net, {"x": feed})["y"], unpool(*pool(feed, 3, 2, 1, return_indices=True), 3, 2, 1)
        )


def test_sizes_that_are_not_pooled_to_the_input_are_refused():
    x, places = torch.ones(1, 2, 3, 3), torch.zeros(1, 2, 3, 3, dtype=torch.int64)
    net = td.Network()
    given = net.constant(x), net.constant(places)
    with pytest.raises(td.ShapeError, match="output_size 8 is not pooled to this: .* between 4 and 8"):
        F.max_unpool2d(*given, 2, output_size=(7, 8))
    with pytest.raises(td.ShapeError, match="output_size has 3 sizes: torch takes 2, or 4"):
        F.max_unpool2d(*given, 2, output_size=(2, 6, 6))
    with pytest.raises(td.ShapeError, match="indices are"):
        F.max_unpool2d(given[0], net.constant(places[:, :1]), 2)
