"""Two engines evaluated on the same feeds: equal ones, and where others part. Also trtdsl.engine.running.trace."""

import inspect

import numpy as np
import pytest
import torch

import trtdsl as td
import trtdsl.functional as F
from trtdsl.core.errors import UsageError
from trtdsl.programs.evaluation import kernels

pytestmark = pytest.mark.skipif(kernels.compiler() is None, reason="needs a C++ compiler")

WEIGHT = torch.randn(6, 5, generator=torch.Generator().manual_seed(0))
INPUTS = {"x": td.Input((td.Dim("N", min=1, opt=2, max=4), 5))}


def write(x, slope=1.0, shift=0.0):
    y = F.linear(x, WEIGHT)
    y = F.softmax(y * slope, -1)
    return F.sin(y + shift)


def spec(**options):
    return td.network(inputs=INPUTS)(lambda x: write(x, **options))


def line(text):
    lines, first = inspect.getsourcelines(write)
    return first + next(number for number, each in enumerate(lines) if text in each)


@pytest.fixture(scope="module")
def engine(tmp_path_factory):
    return td.build(spec(), tmp_path_factory.mktemp("engines") / "net.engine", check=False).engine


def test_an_engine_gives_what_its_network_gives(engine):
    found = td.compare_runs(engine, spec(), dims={"N": 3})
    assert found.equal
    assert found.parting is None
    assert found.shapes == {"x": (3, 5)}
    assert [output.differ for output in found.outputs] == [0]


def test_other_precisions_are_equal_within_the_coarser_one(engine):
    low = spec().define(precision="fp16")
    found = td.compare_runs(engine, low)
    assert found.equal
    assert found.room == 2e-2
    assert found.outputs[0].differ > 0
    assert 0 < found.outputs[0].greatest < 2e-2 * found.outputs[0].scale


def test_where_two_engines_part_is_named_by_launch_and_line(engine):
    found = td.compare_runs(engine, spec(slope=1.5))
    assert not found.equal
    assert f"test_compare_runs.py:{line('softmax')}" in found.parting
    found = td.compare_runs(engine, spec(shift=0.5))
    assert not found.equal
    assert f"test_compare_runs.py:{line('sin')}" in found.parting


def test_feeds_may_be_given(engine, tmp_path):
    feed = np.ones((1, 5), np.float32)
    np.save(tmp_path / "x.npy", feed)
    for given in (feed, tmp_path / "x.npy"):
        assert td.compare_runs(engine, engine, feeds={"x": given}).shapes == {"x": (1, 5)}


def test_an_integer_input_of_an_engine_needs_a_range(tmp_path):
    inputs = {"ids": td.Input((3,), "int64", (0, 6))}
    embedding = td.network(inputs=inputs)(lambda ids: F.embedding(ids, WEIGHT))
    built = td.build(embedding, tmp_path / "net.engine", check=False).engine
    with pytest.raises(UsageError, match="say what to feed it"):
        td.compare_runs(built, built)
    assert td.compare_runs(built, built, samples={"ids": (0, 6)}).equal
    assert td.compare_runs(built, embedding).equal
    with pytest.raises(UsageError, match="there is no input 'id'"):
        td.compare_runs(built, built, samples={"id": (0, 6)})


def test_engines_of_two_networks_are_refused(engine):
    other = td.network(inputs={"z": td.Input((2, 5))})(F.relu)
    with pytest.raises(UsageError, match="no engines of one network: inputs x, and z"):
        td.compare_runs(engine, other)
    shorter = td.network(inputs=INPUTS)(lambda x: F.relu(x))
    with pytest.raises(UsageError, match="no engines of one network"):
        td.compare_runs(engine, shorter)


def test_an_engine_from_elsewhere_is_run_only_with_trust(engine, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(UsageError, match="was not built by trtdsl on this machine"):
        td.compare_runs(engine, engine)
