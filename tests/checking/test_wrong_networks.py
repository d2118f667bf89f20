"""The check can fail: wrong networks of every class are refused, and right ones beside them pass."""

import pytest
from support import attacking_networks, further_networks, wrong_networks

import trtdsl as td

WRONG = {**wrong_networks.WRONG, **further_networks.WRONG, **attacking_networks.WRONG}
RIGHT = {**wrong_networks.RIGHT, **further_networks.RIGHT, **attacking_networks.RIGHT}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_network_is_caught(name):
    spec, arguments = WRONG[name]()
    assert not td.check(spec, **arguments).passed


@pytest.mark.parametrize("name", RIGHT)
def test_a_right_network_passes(name):
    spec, arguments = RIGHT[name]()
    td.check(spec, **arguments).raise_for_mismatch()
