"""Every layer type against its table of cases."""

import pytest
from cases import CASES, run, trt

from trtdsl.layers.evaluation import KINDS
from trtdsl.layers.region import REGIONS

# Plugins are code that is not TensorRT's; collectives need several devices.
EXCLUDED = {"PLUGIN", "PLUGIN_V2", "PLUGIN_V3", "DIST_COLLECTIVE"}


@pytest.mark.parametrize("item", CASES, ids=str)
def test_case(item):
    run(item)


def test_every_layer_type_is_known_and_has_cases():
    types = set(trt.LayerType.__members__) - EXCLUDED
    assert types == (set(KINDS) | set(REGIONS)) - EXCLUDED
    assert types == {item.type for item in CASES}
