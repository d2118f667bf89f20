"""The check can fail: wrong networks of every class are refused, and right ones beside them pass."""

import pytest
from support import (
    aimed_networks,
    attacking_networks,
    deciding_networks,
    further_networks,
    half_networks,
    hostile_networks,
    wrong_networks,
)

import trtdsl as td

pytestmark = pytest.mark.long

MODULES = (
    wrong_networks,
    further_networks,
    attacking_networks,
    deciding_networks,
    aimed_networks,
    hostile_networks,
)
WRONG = {name: make for module in MODULES for name, make in module.WRONG.items()}
RIGHT = {name: make for module in MODULES for name, make in module.RIGHT.items()}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_network_is_caught(name):
    spec, arguments = WRONG[name]()
    assert not td.check(spec, **arguments).passed


@pytest.mark.parametrize("name", RIGHT)
def test_a_right_network_passes(name):
    spec, arguments = RIGHT[name]()
    td.check(spec, **arguments).raise_for_mismatch()


@pytest.mark.parametrize("precision", ["fp16", "bf16"])
@pytest.mark.parametrize("name", half_networks.WRONG)
def test_a_wrong_network_is_caught_in_half_precision(name, precision):
    spec, arguments = half_networks.WRONG[name]()
    assert not td.check(spec, precision=precision, **arguments).passed


@pytest.mark.parametrize("precision", ["fp16", "bf16"])
@pytest.mark.parametrize("name", half_networks.RIGHT)
def test_a_right_network_passes_in_half_precision(name, precision):
    spec, arguments = half_networks.RIGHT[name]()
    td.check(spec, precision=precision, **arguments).raise_for_mismatch()


def test_every_network_has_a_name_of_its_own():
    assert len(WRONG) == sum(len(module.WRONG) for module in MODULES)
    assert len(RIGHT) == sum(len(module.RIGHT) for module in MODULES)
