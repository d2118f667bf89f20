"""Right networks are not refused, whatever the seed; with ``-m heavy`` 1,344 of them."""

import pytest
from support.delicate import DELICATE
from support.rare_mistakes import MISTAKES

import trtdsl as td

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
