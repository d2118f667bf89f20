"""Wrong networks by someone from outside are refused and their right twins are not; with ``-m heavy`` all of them."""

import pytest
from support.outside_networks import NETWORKS

EACH = {f"{network.kind}: {network.name}": network for network in NETWORKS}
UNSEEN: set[str] = {
    # Rounding decides them: whether a sum of probabilities is exactly a half.
    "ties and order: nucleus, inclusive",
    # Values beyond 600 (of one sign, beyond 400 or so, as the draw falls), or below 1e-12 behind other layers.
    "signed zero, NaN and infinity: power of negative",
    "signed zero, NaN and infinity: mask of -1e4",
    "dtypes and the reference's own: least number and infinity",
    "recurrence and loops: limit of a loop",
    "weights of trained values: guard of a norm behind a linear layer",
    # A weight of which a part alone is neutral.
    "weights that distinguish nothing: row of padding set to zero again",
    # A row of one token beside a first row that begins with another.
    "rows apart: row wholly one token",
    # A shift by a millionth before coordinates are rounded.
    "resampling and windows: nearest of a grid at halves",
    # Great sizes with values that only small ones are fed.
    "quality: tokens counted in fp16",
    # Constants that were rounded before they could be seen, as the report says.
    "dtypes and the reference's own: constant tensor rounded to seven digits",
}
SHOWN_BY = [
    "branches on sizes: product of two",
    "rows apart: any of a long row",
    "rows apart: exactly one is set",
    "conjunctions: leap years",
    "conjunctions: three great ones",
    "ties and order: bucketize within a sample",
    "ties and order: kth of equal, strict",
    "signed zero, NaN and infinity: fmax and maximum",
    "values of samples: sum clamped within a sample",
    "conjunctions: between two numbers that are close",
    "signed zero, NaN and infinity: mean of a row of NaN",
    "whole numbers: round half to even",
    "quality: positions in fp16",
    "quality: geometric mean by product",
    "weights that distinguish nothing: key and value copied of the query",
]
"""One for each thing that a check once did not feed or compare."""


def is_told_apart(name, precision=None):
    network = EACH[name]
    network.check(network.right, precision=precision).raise_for_mismatch()
    assert network.check(network.wrong, precision=precision).passed == (name in UNSEEN)


@pytest.mark.parametrize("name", SHOWN_BY)
def test_a_mistake_is_told_apart(name):
    is_told_apart(name)


@pytest.mark.parametrize(
    ("name", "seed"),
    [
        ("spectra: conjugate left out", 1),
        ("spectra: there and back at an odd length", 0),
        ("spectra: decibels of what an offset cancels to", 0),
    ],
)
def test_noise_moves_spectra(name, seed):
    """Signals whose spectra's zeros and ones alone are float32 numbers, and spectra much smaller than their signals."""
    EACH[name].check(EACH[name].right, seed=seed).raise_for_mismatch()


@pytest.mark.heavy
@pytest.mark.parametrize("name", EACH)
def test_each_mistake_is_told_apart(name):
    is_told_apart(name)


@pytest.mark.heavy
@pytest.mark.parametrize("precision", ["fp16", "bf16"])
@pytest.mark.parametrize(
    "name",  # a sum in fp16 is no mistake where that precision is asked for
    [name for index, name in enumerate(EACH) if index % 3 == 0 and name != "quality: sum in fp16"],
)
def test_a_third_is_told_apart_in_half_precision(name, precision):
    is_told_apart(name, precision)


@pytest.mark.heavy
@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("name", EACH)
def test_no_right_twin_is_refused(name, seed):
    EACH[name].check(EACH[name].right, seed=seed).raise_for_mismatch()


def test_every_network_has_a_name_of_its_own():
    assert len(EACH) == len(NETWORKS)
    assert set(EACH) >= UNSEEN | set(SHOWN_BY)
