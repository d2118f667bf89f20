"""Right networks are not refused, whatever the seed; with ``-m heavy`` 1,344 of them."""

import pytest
import torch
from support.delicate import DELICATE
from support.rare_mistakes import MISTAKES

import trtdsl as td
import trtdsl.functional as F

SEEDS = range(10)  # of a delicate network; an everyday one has one


def is_right(network, seed):
    more = {"weights": network.weights} if network.weights else {}
    td.check(network.spec(network.right), precision=network.precision, seed=seed, **more).raise_for_mismatch()


@pytest.mark.parametrize("network", DELICATE[::12], ids=lambda network: network.name)
def test_a_delicate_network_passes(network):
    is_right(network, 0)


@pytest.mark.heavy
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("network", DELICATE, ids=lambda network: network.name)
def test_every_delicate_network_passes_with_every_seed(network, seed):
    is_right(network, seed)


@pytest.mark.heavy
@pytest.mark.parametrize("network", MISTAKES, ids=lambda network: f"{network.group}: {network.name}")
def test_every_right_twin_passes_with_another_seed(network):
    is_right(network, 11)


def warped(x, sample, stack):
    """An image that is read where it says itself, which amplifies rounding until a neighbour is another pixel."""
    y = x
    for _ in range(6):
        y = sample(x, stack((y, y), -1)[:, 0], padding_mode="border", align_corners=True)
    return y


class Warped(torch.nn.Module):
    def forward(self, x):
        return warped(x, torch.nn.functional.grid_sample, torch.stack)


def test_what_amplifies_rounding_is_judged_by_what_it_decides_itself():
    spec = td.network(inputs={"x": td.Input((1, 1, 64, 64))}, reference=Warped)(
        lambda x: warped(x, F.grid_sample, F.stack)
    )
    td.check(spec).raise_for_mismatch()
