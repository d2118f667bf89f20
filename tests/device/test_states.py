"""Outputs that an engine writes where an input lies, and the states that one run hands to the next."""

import re

import numpy as np
import pytest
import torch

import trtdsl as td
import trtdsl.layers as L
from trtdsl.core.errors import FeedError, UsageError
from trtdsl.engine.arrays import to_device
from trtdsl.engine.compiling.compiler import compile_engine
from trtdsl.engine.engine import Engine


def caching(**options):
    """An engine that writes ``rows`` into a cache of six slots, from ``starts`` on, and sums what is there."""

    @td.network(
        inputs={
            "rows": td.Input((2, 1, "S", 4)),
            "starts": td.Input((2,), "int32", sample=(0, 3)),
            "cache": td.Input((2, 1, 6, 4)),
        }
    )
    def cached(rows, starts, cache):
        new = L.kv_cache_update(cache, rows, starts)
        return {"next_cache": new, "total": new.sum((1, 2, 3))}

    net = cached.define(dims={"S": (1, 1, 3)})
    return Engine(compile_engine(net).data, backend=net.backend, **options)


def rows(value, length=1):
    return np.full((2, 1, length, 4), value, np.float32)


STARTS = np.array([0, 2], np.int32)


def test_a_cache_that_is_fed_stays_as_it_is(machine):
    engine, cache = caching(), np.zeros((2, 1, 6, 4), np.float32)
    found = engine(rows=rows(1), starts=STARTS, cache=cache)
    assert not cache.any()
    assert found["next_cache"].sum(axis=(1, 3)).tolist() == [[4, 0, 0, 0, 0, 0], [0, 0, 4, 0, 0, 0]]
    assert found["total"].tolist() == [4, 4]


def test_a_cache_on_the_device_stays_as_it_is_too(machine):
    engine, cache = caching(), to_device(torch.zeros(2, 1, 6, 4), 0, 0)
    found = engine.run({"rows": rows(1), "starts": STARTS, "cache": cache}, outputs="device")
    assert not cache.numpy().any()
    assert found["next_cache"].numpy().sum() == 8


def test_an_output_that_is_its_input_is_written_in_place(machine):
    engine, cache = caching(), to_device(torch.zeros(2, 1, 6, 4), 0, 0)
    for value, starts in ((1, [0, 2]), (2, [1, 3])):
        feeds = {"rows": rows(value), "starts": np.array(starts, np.int32), "cache": cache}
        before = machine.counts["cudaMemcpyAsync"]
        engine.run(feeds, out={"next_cache": cache}, outputs="device")
        assert machine.counts["cudaMemcpyAsync"] - before == 2  # rows and starts
    assert cache.numpy().sum(axis=(1, 3)).tolist() == [[4, 8, 0, 0, 0, 0], [0, 0, 4, 8, 0, 0]]


def test_a_captured_run_takes_the_cache_that_is_fed(machine):
    engine = caching()
    feeds = {"rows": rows(1), "starts": STARTS, "cache": np.zeros((2, 1, 6, 4), np.float32)}
    captured = engine.capture(feeds)
    for value in (1.0, 3.0):
        found = captured.run({**feeds, "cache": np.full((2, 1, 6, 4), value, np.float32)})
        assert found["total"].tolist() == [20 * value + 4] * 2


def decoding(tmp_path, **dims):
    """An engine with a cache and a sum of all that it was given, in as many rows as ``N`` says."""
    n = td.Dim("N", min=1, opt=2, max=4)

    @td.network(
        inputs={
            "rows": td.Input((n, 1, 1, 2)),
            "starts": td.Input((n,), "int32", sample=(0, 3)),
            "cache": td.State((n, 1, 3, 2)),
            "sum": td.State((n, 2), "float16"),
        }
    )
    def decoder(rows, starts, cache, sum):
        new = L.kv_cache_update(cache, rows, starts)
        return {"next_cache": new, "next_sum": sum + rows.reshape(-1, 2).to(torch.float16), "seen": new.sum((1, 2, 3))}

    engine = tmp_path / "decoder.engine"
    td.build(decoder, engine, check=False, dims=dims or None)
    return td.load_engine(engine)


def step(session, value, start):
    count = session.states["sum"].shape[0]
    feeds = {"rows": np.full((count, 1, 1, 2), value, np.float32), "starts": np.full(count, start, np.int32)}
    return session.run(feeds)


def test_states_go_from_run_to_run(machine, tmp_path):
    session = decoding(tmp_path).session(N=2)
    assert [step(session, value, place)["seen"].tolist() for place, value in enumerate((1, 2, 4))] == [
        [2, 2],
        [6, 6],
        [14, 14],
    ]
    assert session.states["cache"].numpy()[0, 0].tolist() == [[1, 1], [2, 2], [4, 4]]
    assert session.states["sum"].numpy().tolist() == [[7, 7]] * 2
    session.reset()
    assert step(session, 1, 0).keys() == {"seen"}
    assert session.states["sum"].numpy().tolist() == [[1, 1]] * 2


def test_nothing_is_copied_but_what_is_fed(machine, tmp_path):
    session = decoding(tmp_path).session(N=2)
    step(session, 1, 0)
    before = machine.counts["cudaMemcpyAsync"], machine.allocations
    step(session, 2, 1)
    assert (machine.counts["cudaMemcpyAsync"] - before[0], machine.allocations - before[1]) == (3, 0)  # and one out


def test_a_fork_takes_rows_and_is_its_own(machine, tmp_path):
    session = decoding(tmp_path, N=(1, 2, 4)).session(N=2)
    session.run({"rows": np.array([1, 1, 5, 5], np.float32).reshape(2, 1, 1, 2), "starts": np.zeros(2, np.int32)})
    beams = session.fork([1, 1, 0])
    step(beams, 1, 1)
    assert beams.states["sum"].numpy().tolist() == [[6, 6], [6, 6], [2, 2]]
    assert session.states["sum"].numpy().tolist() == [[1, 1], [5, 5]]
    assert session.fork(np.array([1])).states["sum"].numpy().tolist() == [[5, 5]]
    for rows_, message in (
        ([], "rows 0 to 1, not []"),
        ([2], "rows 0 to 1, not [2]"),
        ([-1], "rows 0 to 1, not [-1]"),
        (0, "rows=0: expected list, got int"),
        (["0"], "rows=['0']: [0]: expected int, got str"),
        ([0.5], "rows=[0.5]: [0]: expected int, got float"),
    ):
        with pytest.raises(FeedError, match=re.escape(message)):
            session.fork(rows_)
    with pytest.raises(UsageError, match="N=5: expected int <= 4"):
        session.fork([0] * 5)


def test_an_engine_of_one_batch_is_forked_into_as_many_rows(machine, tmp_path):
    session = decoding(tmp_path, N=2).session()
    step(session, 1, 0)
    assert session.fork([1, 1]).states["sum"].numpy().tolist() == [[1, 1]] * 2
    with pytest.raises(FeedError, match="the engine has states of 2 rows, no fewer and no more, not 1"):
        session.fork([1])


def test_what_is_no_session(machine, tmp_path):
    engine = decoding(tmp_path)
    for sizes in ({}, {"M": 2}, {"N": 2, "M": 1}):
        with pytest.raises(UsageError, match="the states need N, and"):
            engine.session(**sizes)
    session = engine.session(N=2)
    with pytest.raises(FeedError, match="cache is a state"):
        session.run({"rows": rows(1), "starts": STARTS, "cache": np.zeros((2, 1, 3, 2), np.float32)})
    with pytest.raises(FeedError, match="input 'rows' is missing"):
        session.run({"starts": STARTS})
    with pytest.raises(FeedError, match="the state 'cache' .and 1 more. is read before anything has written it"):
        engine.run({"rows": rows(1), "starts": STARTS})
    assert step(session, 1, 0)["seen"].tolist() == [2, 2]
    with pytest.raises(UsageError, match="no states"):
        caching().session()
    for size, message in ((0, "N=0: expected int >= 1"), (8, "N=8: expected int <= 4"), ("2", "expected int, got str")):
        with pytest.raises(UsageError, match=message):
            engine.session(N=size)
    feeds = {"rows": rows(1)[:1, :, :, :2], "starts": STARTS[:1]}
    with pytest.raises(FeedError, match="input 'rows' was fed with N=1, and the session has states for N=2"):
        session.run(feeds)
    for given, message in ((None, "feeds are a mapping"), ({**feeds, "rows": None}, "not an array of numbers")):
        with pytest.raises(FeedError, match=message):
            engine.session(N=1).run(given)
    for how, message in (
        ({"profile": "0"}, "profile='0': expected int"),
        ({"stream": "x"}, "stream='x': expected int"),
    ):
        with pytest.raises(UsageError, match=message):
            engine.session(N=1).run(feeds, **how)


def test_one_run_at_a_time(machine, tmp_path):
    session = decoding(tmp_path).session(N=2)
    with session._turn(), pytest.raises(UsageError, match="two runs of one session"):
        step(session, 1, 0)
    assert step(session, 1, 0)["seen"].tolist() == [2, 2]
