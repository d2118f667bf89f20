"""Every function against torch, on torch's own samples, through real networks."""

from __future__ import annotations

import pytest
from functions_page import PAGE, row_of, table_of
from records import ELSEWHERE, RECORDS
from samples import MANY, run_engine, samples_of, tally_of

import trtdsl.functional as F

pytestmark = pytest.mark.long


def public_functions():
    return {name for name in dir(F) if hasattr(getattr(F, name), "__wrapped__")}


def test_every_function_has_a_record():
    assert public_functions() - ELSEWHERE == {record.function for record in RECORDS.values()}


def test_there_are_enough_functions_and_few_refusals():
    rows = table_of(PAGE.read_text())
    assert all(f"`F.{name}`" in PAGE.read_text() for name in ELSEWHERE)
    assert set(rows) == set(RECORDS), "docs/functions.md is stale: run tools/make_functions_doc.py"
    passed, refused = (sum(row[key] for row in rows.values()) for key in ("passed", "refused"))
    assert len(rows) >= 180
    assert refused / (passed + refused) < 0.02


@pytest.mark.parametrize("name", RECORDS)
def test_samples(name):
    tally = tally_of(RECORDS[name], limit=MANY)
    assert not tally.failed, f"{len(tally.failed)} of {tally.total} samples: {tally.failed[0]}"
    if tally.complete:
        row = table_of(PAGE.read_text()).get(name)
        assert row == row_of(tally), "docs/functions.md is stale: run tools/make_functions_doc.py"


@pytest.mark.heavy
@pytest.mark.parametrize("name", RECORDS)
def test_all_samples(name):
    tally = tally_of(RECORDS[name])
    assert not tally.failed, f"{len(tally.failed)} of {tally.total} samples: {tally.failed[0]}"
    assert table_of(PAGE.read_text())[name] == row_of(tally)


@pytest.mark.heavy
@pytest.mark.parametrize("name", RECORDS)
def test_a_tenth_of_the_samples_by_way_of_engines(name):
    """``CXXFLAGS=-O0`` compiles their kernels in half the time."""
    for function, _, sample in list(samples_of(RECORDS[name]))[::10]:
        run_engine(RECORDS[name], function, sample)
