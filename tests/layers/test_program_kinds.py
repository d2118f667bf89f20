"""Which layer types the evaluation of engines refuses: those that docs/engine-evaluated.md names, and no other."""

import re
from pathlib import Path

import pytest
from fuzz.program import APART, RECIPES, Drawn, Step, run_many

PAGE = Path(__file__).parents[2] / "docs" / "engine-evaluated.md"


def refused(types, seeds):
    """The types of which a network of one layer is refused."""
    layers = [(type, recipe, seed) for type in types for recipe in range(len(RECIPES[type])) for seed in range(seeds)]
    networks = (Drawn(f"{type}-{seed}", (Step(type, recipe, 0),)) for type, recipe, seed in layers)
    return {drawn.steps[0].type for drawn, outcome in run_many(networks) if outcome.startswith("not evaluated")}


def named():
    """The layer types in the page's list of what is refused."""
    (line,) = (line for line in PAGE.read_text().splitlines() if line.startswith("Layer types that are refused"))
    return set(re.findall(r"`([A-Z_]+)`", line))


def test_selections_and_running_sums_are_evaluated():
    assert not refused(["CUMULATIVE", "TOPK"], 1)


@pytest.mark.heavy
def test_the_page_names_every_layer_type_that_is_refused():
    assert refused([type for type in RECIPES if type not in APART or type in named()], 6) == named()
