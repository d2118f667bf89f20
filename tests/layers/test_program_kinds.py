"""Which layer types the evaluation of engines refuses: those that docs/engine-evaluated.md names, and no other."""

import re
from pathlib import Path

import pytest
from fuzz.program import RECIPES, held_against_program

PAGE = Path(__file__).parents[2] / "docs" / "engine-evaluated.md"
APART = {"KV_CACHE_UPDATE", "SHAPE"}  # one memory for two tensors, which the caller sees to; no program


def refused(types, seeds):
    """The types of which a network is refused; what differs is for tests/layers/test_program_fuzz.py."""
    found = set()
    for type in types:
        for drawn in RECIPES[type]:
            for seed in range(seeds):
                try:
                    result = held_against_program(type, drawn, f"{type}-{drawn.__name__}-{seed}")
                except AssertionError:
                    continue
                found |= {type} if result.startswith("not evaluated") else set()
    return found


def named():
    """The layer types in the page's list of what is refused."""
    (line,) = (line for line in PAGE.read_text().splitlines() if line.startswith("Layer types that are refused"))
    return set(re.findall(r"`([A-Z_]+)`", line))


def test_selections_and_running_sums_are_evaluated():
    assert not refused(["CUMULATIVE", "TOPK"], 1)


@pytest.mark.heavy
def test_the_page_names_every_layer_type_that_is_refused():
    assert refused([type for type in RECIPES if type not in APART], 6) == named()
