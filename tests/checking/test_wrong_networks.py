"""The check can fail: wrong networks of every class are refused, and right ones beside them pass."""

import pytest
from support import wrong_networks as networks

import trtdsl as td


@pytest.mark.parametrize("name", networks.WRONG)
def test_a_wrong_network_is_caught(name):
    spec, arguments = networks.WRONG[name]()
    assert not td.check(spec, **arguments).passed


@pytest.mark.parametrize("name", networks.RIGHT)
def test_a_right_network_passes(name):
    spec, arguments = networks.RIGHT[name]()
    td.check(spec, **arguments).raise_for_mismatch()
