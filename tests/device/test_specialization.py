"""When TensorRT-RTX compiles for the very shapes that are fed, and what its cache then holds."""

import pytest
import torch

from device.networks import doubling
from trtdsl.core.errors import UsageError
from trtdsl.engine.loading.runtime_cache import read_runtime_cache

X = torch.ones(2, 4)


def strategies(engine):
    return {context.trt._strategies[1] for context in engine._free}


def test_kernels_are_specialized_lazily_by_default(machine):
    engine = doubling()
    engine.run({"x": X})
    assert strategies(engine) == {"LAZY"}
    assert engine.capture({"x": X})._context.trt._strategies == ("WHOLE_GRAPH_CAPTURE", "EAGER")
    engine.warm_up(1)
    engine.run({"x": X})
    assert strategies(engine) == {"EAGER"}


@pytest.mark.parametrize("asked", ["lazy", "eager", "none"])
def test_every_context_gets_the_requested_specialization(machine, asked):
    engine = doubling(specialization=asked)
    engine.run({"x": X})
    engine.warm_up(1)
    assert strategies(engine) == {asked.upper()}
    assert engine.capture({"x": X})._context.trt._strategies[1] == asked.upper()


def test_an_unknown_specialization_is_refused(machine):
    with pytest.raises(UsageError, match="specialization is one of lazy, eager, none, not 'fast'"):
        doubling(specialization="fast")


def test_the_cache_is_saved_when_all_is_compiled(machine, tmp_path):
    path = tmp_path / "cache"
    engine = doubling(runtime_cache=path)
    engine.run({"x": X})
    engine.warm_up(1)
    saved = read_runtime_cache(path, engine._loaded._cache_for)
    assert b"('x', (2, 4))" in saved
    written = path.stat().st_mtime_ns
    engine.close()  # nothing new: the file is left alone
    assert path.stat().st_mtime_ns == written
    engine.run({"x": torch.ones(3, 4)})
    engine.close()
    assert b"('x', (3, 4))" in read_runtime_cache(path, engine._loaded._cache_for)
    with doubling(runtime_cache=path) as again:
        assert again.run({"x": X})["y"].tolist() == [[2.0] * 4] * 2
