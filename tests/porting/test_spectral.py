"""Ports of modules with complex numbers inside equal them, unedited."""

from pathlib import Path

import pytest

MODULES = Path(__file__).parent / "spectral_modules.py"


@pytest.mark.parametrize(
    ("name", "shape", "dims"),
    [
        ("Rotary", "N,S,8", {"N": (1, 2, 3), "S": (2, 5, 9)}),
        ("Power", "N,T", {"N": (1, 2, 3), "T": (64, 100, 200)}),
        ("Mixing", "N,8,16", {"N": (1, 2, 3)}),
        ("FourierLayer", "N,2,H,W", {"N": (1, 2, 3), "H": (8, 12, 15), "W": (8, 10, 16)}),
        ("FourierLayer", "N,2,16,16", {"N": (1, 2, 3)}),
        ("ComplexUnits", "N,T,4", {"N": (1, 2, 3), "T": (2, 5, 9)}),
        ("Turned", "N,S,4", {"N": (1, 2, 3), "S": (2, 5, 9)}),
        ("Turning", "N,8", {"N": (1, 2, 3)}),
        ("Magnitudes", "N,8", {"N": (1, 2, 3)}),
        ("Shifted", "N,T,4", {"N": (1, 2, 3), "T": (2, 5, 9)}),
        ("Spectra", "N,T,4", {"N": (1, 2, 3), "T": (2, 5, 9)}),
        ("Vocoder", "N,18,T", {"N": (1, 2, 3), "T": (2, 5, 9)}),
    ],
)
def test_a_port_equals_its_module(port, name, shape, dims):
    port(f"{MODULES}:{name}", {"x": shape}, dims=dims).check()
