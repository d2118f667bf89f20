"""Modules as people write them: the ported file defines and equals the module, without editing."""

import pytest

BATCH = {"N": (1, 2, 3)}
SIDES = {"N": (1, 2, 3), "H": (4, 6, 9), "W": (5, 7, 8)}


@pytest.mark.parametrize(
    ("name", "inputs", "dims"),
    [
        ("Small", {"image": "N,3,H,W"}, SIDES),
        ("InPlace", {"x": "N,3,H,W"}, SIDES),
        ("Views", {"x": "N,2,H,W"}, SIDES),
        ("Tied", {"ids": "N,T:int64"}, {**BATCH, "T": (1, 4, 6)}),
        ("Buffers", {"x": "N,3"}, BATCH),
        ("Named", {"a": "N,3", "b": "N,3"}, BATCH),
        ("Several", {"a": "N,3", "b": "N,3"}, BATCH),
        ("Attention", {"x": "N,T,8"}, {**BATCH, "T": (1, 4, 6)}),
        ("Recurrent", {"x": "N,3,4"}, BATCH),
        ("Stages", {"x": "N,4,H,W"}, SIDES),
        ("Helpers", {"x": "N,6", "y": "N,6"}, BATCH),
        ("Positions", {"x": "N,6", "mask": "N,6:int64:0:2"}, BATCH),
    ],
)
def test_a_port_equals_its_module(port, name, inputs, dims):
    port(name, inputs, dims=dims).check()
