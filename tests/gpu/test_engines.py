"""Engines on a GPU: arrays in and out, profiles, threads, graphs, refit, the runtime cache, memory."""

import json
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

import trtdsl as td
import trtdsl.functional as F
from trtdsl.core import errors
from trtdsl.core.backend import cuda_status
from trtdsl.engine import cuda
from trtdsl.engine.arrays import to_device
from trtdsl.engine.compiling.compiler import compile_engine
from trtdsl.engine.engine import Engine, engine_of
from trtdsl.engine.loading.manifest import manifest_path

torch_cuda = pytest.mark.skipif(
    cuda_status() is None and not torch.cuda.is_available(), reason=f"torch {torch.__version__} has no CUDA here"
)


def define(x, k):
    return {"y": F.relu(x @ k), "total": x.sum(dim=1)}


PROFILES = [td.Profile(N=(1, 4, 32)), td.Profile(N=(33, 48, 64))]


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    n = td.Dim("N", min=1, opt=4, max=64)
    spec = td.network(inputs={"x": td.Input((n, 32)), "k": td.Input((32, 16))})(define)
    path = tmp_path_factory.mktemp("gpu") / "small.engine"
    return td.build(spec, path, config=td.BuildConfig(tf32=False), profiles=PROFILES).engine


@pytest.fixture
def engine(built):
    return td.load_engine(built)


def feeds(n=4, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return {"x": torch.randn(n, 32, generator=generator), "k": torch.randn(32, 16, generator=generator)}


def expected(given):
    return {"y": torch.relu(given["x"] @ given["k"]), "total": given["x"].sum(1)}


def assert_right(got, given):
    for name, value in expected(given).items():
        torch.testing.assert_close(torch.as_tensor(got[name]).cpu(), value, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("n", [1, 4, 33, 64])
def test_host_arrays(engine, n):
    given = feeds(n)
    assert_right(engine(**given), given)
    arrays = engine(**{name: tensor.numpy() for name, tensor in given.items()})
    assert all(isinstance(array, np.ndarray) for array in arrays.values())
    assert_right(arrays, given)


@torch_cuda
def test_torch_on_the_gpu_without_copies(engine):
    given = feeds(8)
    got = engine(**{name: tensor.cuda() for name, tensor in given.items()})
    assert all(tensor.is_cuda for tensor in got.values())
    assert_right(got, given)
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        got = engine(**{name: tensor.cuda() for name, tensor in given.items()})
    stream.synchronize()
    assert_right(got, given)


def test_other_arrays_on_the_gpu(engine):
    given = feeds(8)
    stream = cuda.Stream()
    arrays = {name: to_device(tensor, 0, stream.handle) for name, tensor in given.items()}
    got = engine(**arrays)
    assert_right({name: array.numpy() for name, array in got.items()}, given)
    again = engine(**{**arrays, "x": arrays["x"]})
    assert again["y"].__cuda_array_interface__["shape"] == (8, 16)


def test_feeds_that_do_not_fit(engine):
    with pytest.raises(errors.FeedProfileError):
        engine(**feeds(65))
    with pytest.raises(errors.FeedDtypeError):
        engine(**{**feeds(), "k": torch.ones(32, 16, dtype=torch.float64)})


def test_signature_is_that_of_the_manifest(engine):
    assert engine.signature.inputs.keys() == engine.manifest.signature.inputs.keys()
    assert engine.signature.outputs == engine.manifest.signature.outputs
    assert engine.signature.profiles == engine.manifest.signature.profiles


@pytest.mark.parametrize(("n", "profile"), [(1, 0), (32, 0), (33, 1), (64, 1)])
def test_each_profile_serves_its_sizes(engine, n, profile):
    given = feeds(n)
    assert_right(engine.run(given, profile=profile), given)
    assert_right(engine.run(given), given)
    with pytest.raises(errors.FeedProfileError, match=f"in profile {1 - profile}"):
        engine.run(given, profile=1 - profile)


def test_bench_measures_the_profile_that_it_is_asked_for(built):
    for profile in range(len(PROFILES)):
        assert td.bench(built, runs=2, warm_up=0, profile=profile).times[0].runs == 2
    with pytest.raises(td.UsageError, match="no profile 2: there are 2"):
        td.bench(built, profile=2)


def test_threads(engine, simulated):
    """8 threads, 1,000 runs each (100 on the simulated device): every result is that of one thread alone."""
    cases = [feeds(n, seed=n) for n in (1, 3, 40, 64)]
    alone = [engine(**given) for given in cases]
    failures = []

    def work(number):
        for index in range(1000 if simulated is None else 100):
            which = (number + index) % len(cases)
            got = engine(**cases[which])
            if any(not torch.equal(got[name], alone[which][name]) for name in got):
                failures.append((number, index))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    assert not failures


def test_two_engines_at_once(built):
    engines = [td.load_engine(built), td.load_engine(built)]
    given = feeds(16)
    results = [None, None]

    def work(index):
        for _ in range(100):
            results[index] = engines[index](**given)

    threads = [threading.Thread(target=work, args=(index,)) for index in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for result in results:
        assert_right(result, given)


def test_cuda_graphs_give_the_same_results(engine, built):
    captured = engine.capture(feeds(8))
    for seed in range(3):
        given = feeds(8, seed)
        assert_right(captured.run(given), given)
    with pytest.raises(errors.FeedShapeError):
        captured.run(feeds(9))
    assert_right(td.load_engine(built, cuda_graphs=True)(**feeds(8)), feeds(8))


def test_shapes_that_depend_on_values():
    net = td.Network()
    x = net.input("x", (8,))
    net.output(F.nonzero(x), "where")
    value = torch.tensor([0.0, 1, 0, 2, 3, 0, 0, 4])
    assert torch.equal(engine_of(net)({"x": value})["where"].long(), torch.nonzero(value))


def test_runtime_cache(built, tmp_path):
    path = tmp_path / "small.cache"
    with td.load_engine(built, runtime_cache=path) as engine:
        if not engine.backend.is_rtx:
            pytest.skip("TensorRT has no runtime cache")
        engine.warm_up()
    assert path.stat().st_size > 100
    with td.load_engine(built, runtime_cache=path) as engine:
        assert_right(engine(**feeds()), feeds())
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.warns(errors.RuntimeCacheWarning), td.load_engine(built, runtime_cache=path) as engine:
        assert_right(engine(**feeds()), feeds())


def test_out_of_memory():
    free = cuda.free_memory()
    with pytest.raises(td.OutOfMemoryError) as caught:
        cuda.Memory(free * 2)
    assert caught.value.needed == free * 2
    assert caught.value.free is not None


@pytest.mark.parametrize("strip", [False, True])
def test_refit(small, tmp_path, strip):
    spec = td.load_spec(str(small / "small.py"))
    config = td.BuildConfig(tf32=False, refit=True, strip_weights=strip)
    path = td.build(spec, tmp_path / "r.engine", config=config).engine
    generator = torch.Generator().manual_seed(1)
    others = {
        name: torch.rand(tensor.shape, generator=generator) + 0.1 if tensor.is_floating_point() else tensor
        for name, tensor in load_file(spec.weights).items()
    }
    save_file(others, tmp_path / "others.safetensors")
    if strip:
        with pytest.raises(errors.StrippedEngineError):
            td.load_engine(path)
    with pytest.raises(td.UsageError, match="trust_network_file"):
        td.load_engine(path, weights=tmp_path / "others.safetensors")
    engine = td.load_engine(path, weights=tmp_path / "others.safetensors", trust_network_file=True)
    feed = td.sample_feeds(spec, {"N": 2}, generator)
    with torch.inference_mode():
        wanted = spec.reference_module(spec.open_weights(others))(*feed.values())
    (got,) = engine(**feed).values()
    torch.testing.assert_close(got, wanted, rtol=1e-4, atol=1e-4 * float(wanted.abs().max()))
    with pytest.raises(td.WeightsError):
        engine.refit({})


def test_damage_and_mismatch_are_found_here_too(built, tmp_path):
    path = tmp_path / "spoiled.engine"
    facts = json.loads(manifest_path(built).read_text())
    path.write_bytes(built.read_bytes())
    manifest_path(path).write_text(json.dumps({**facts, "compute_capabilities": ["7.5"]}))
    header = td.load_engine(built).backend
    if header.is_rtx:
        pytest.skip("an engine for no GPU in particular is judged by TensorRT-RTX itself")
    with pytest.raises(errors.ComputeCapabilityError):
        td.load_engine(path)


def test_an_engine_for_another_gpu(tmp_path):
    net = td.Network()
    if not net.backend.is_rtx:
        pytest.skip("TensorRT builds for this GPU alone")
    net.output(F.relu(net.input("x", (2,))), "y")
    here = cuda.compute_capability(0)
    other = "12.0" if here != "12.0" else "8.9"
    data = compile_engine(net, td.BuildConfig(compute_capabilities=(other,))).data
    with pytest.raises(errors.ComputeCapabilityError):
        Engine(data)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_in_and_out(dtype):
    net = td.Network()
    net.output(F.relu(net.input("x", (4, 8), dtype)) * 2, "y")
    x = torch.randn(4, 8).to(getattr(torch, dtype))
    got = engine_of(net)({"x": x})["y"]
    assert got.dtype == x.dtype
    torch.testing.assert_close(got, torch.relu(x) * 2)


def test_new_weights_and_what_was_made_before_them(small, tmp_path, simulated):
    """Runs after a refit use them; a graph that was captured before says so."""
    spec = td.load_spec(str(small / "small.py"))
    path = td.build(spec, tmp_path / "r.engine", config=td.BuildConfig(tf32=False, refit=True)).engine
    engine = td.load_engine(path)
    feed = td.sample_feeds(spec, {"N": 2}, torch.Generator().manual_seed(1))
    engine(**feed)
    captured = engine.capture(feed)
    before = captured.run(feed)["scores"]
    engine.refit({name: tensor * 2 for name, tensor in load_file(spec.weights).items()}, network=f"{spec.file}")
    with pytest.raises(td.UsageError, match="capture it again"):
        captured.run(feed)
    after = engine(**feed)["scores"]
    assert not torch.equal(after, before)
    assert torch.equal(engine.capture(feed).run(feed)["scores"], after)
    if simulated is not None:
        assert simulated.counts["create_execution_context"] >= 4  # of the pool, captured, and both again
