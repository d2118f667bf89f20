"""Mistakes of everyday work are refused, and the same networks without them pass; with ``-m heavy`` in halves, too."""

import dataclasses

import pytest
from support.rare_mistakes import MISTAKES

EACH = {f"{mistake.group}: {mistake.name}": mistake for mistake in MISTAKES}
UNSEEN = {
    # A row's errors are judged together, and beside great distances (or probabilities of 1) what is small is lost.
    "quality: distances by products",
    "quality: one minus a sigmoid",
}
SAMPLE = [name for index, name in enumerate(EACH) if index % 10 == 0]


def is_told_apart(name, precision=None):
    mistake = EACH[name]
    if precision is not None:
        mistake = dataclasses.replace(mistake, precision=precision)
    mistake.check(mistake.right).raise_for_mismatch()
    assert mistake.check(mistake.wrong).passed == (name in UNSEEN)


@pytest.mark.parametrize("name", SAMPLE)
def test_a_mistake_is_told_apart(name):
    is_told_apart(name)


@pytest.mark.parametrize("name", ["values: a mean above 200", "epsilons: normalize by 1e-8"])
def test_what_a_network_of_half_precision_means_is_tried_beyond_its_range(name):
    is_told_apart(name, "fp16")


@pytest.mark.parametrize("precision", ["fp16", "bf16"])
@pytest.mark.parametrize("name", ["log1p as it is written", "logsigmoid as it is written", "the square of the mean"])
def test_what_is_computed_in_float32_is_judged_as_float32_is_whatever_was_asked_for(name, precision):
    is_told_apart(f"quality: {name}", precision)


@pytest.mark.heavy
@pytest.mark.parametrize("name", EACH)
def test_each_mistake_is_told_apart(name):
    is_told_apart(name)


@pytest.mark.heavy
@pytest.mark.parametrize("precision", ["fp16", "bf16"])
@pytest.mark.parametrize("name", [name for name, mistake in EACH.items() if mistake.precision is None])
def test_each_mistake_is_told_apart_in_half_precision(name, precision):
    is_told_apart(name, precision)


def test_every_mistake_has_a_name_of_its_own():
    assert len(EACH) == len(MISTAKES)
    assert set(EACH) >= UNSEEN
