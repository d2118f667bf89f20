"""Nothing is allocated and nobody waits where it is not needed; the order is made by events."""

import pytest
import torch

import trtdsl as td
from device.networks import Shared, counting, doubling, reshaping
from trtdsl.core.errors import FeedDtypeError, FeedError, FeedNameError, FeedPlaceError, FeedShapeError
from trtdsl.engine import cuda
from trtdsl.engine.arrays import DeviceArray, to_device


@pytest.fixture
def stream(machine):
    return cuda.Stream()


def spent(machine, call):
    """What a call costs: allocations and synchronizations."""
    before = machine.allocations, machine.synchronizations
    call()
    return machine.allocations - before[0], machine.synchronizations - before[1]


def test_a_run_on_a_stream_neither_allocates_nor_waits(machine, stream):
    engine = doubling()
    x = to_device(torch.ones(2, 4), 0, stream.handle)
    for _ in range(2):  # the memory of outputs that are let go is used again
        engine.run({"x": x}, outputs="device", stream=stream.handle)
        cuda.synchronize(stream.handle)
    assert spent(machine, lambda: engine.run({"x": x}, outputs="device", stream=stream.handle)) == (0, 0)
    cuda.synchronize(stream.handle)


def test_memory_that_others_have_seen_is_not_used_again(machine, stream):
    engine = doubling()
    seen = engine.run({"x": torch.ones(2, 4)}, outputs="device", stream=stream.handle)["y"]
    address = seen.__cuda_array_interface__["data"][0]
    del seen
    cuda.synchronize(stream.handle)
    again = [engine.run({"x": torch.ones(2, 4)}, outputs="device", stream=stream.handle)["y"] for _ in range(3)]
    assert address not in [array.memory.pointer for array in again]
    cuda.synchronize(stream.handle)


@pytest.mark.parametrize("place", ["numpy", "torch", "device", "unaligned"])
def test_outputs_into_memory_of_the_caller(machine, stream, place):
    engine = doubling()
    memory = cuda.Memory(1024)
    out = {
        "numpy": lambda: torch.zeros(2, 4).numpy(),
        "torch": lambda: torch.zeros(2, 4),
        "device": lambda: Shared(memory.pointer, (2, 4)),
        "unaligned": lambda: Shared(memory.pointer + 4, (2, 4)),
    }[place]()
    got = engine.run({"x": torch.ones(2, 4)}, out={"y": out}, stream=stream.handle)
    assert got["y"] is out
    if place in ("numpy", "torch"):
        assert out.tolist() == [[2.0] * 4] * 2
    else:
        cuda.synchronize(stream.handle)
        address = out.__cuda_array_interface__["data"][0]
        assert set(machine.memory.bytes(address, 32).view("float32").tolist()) == {2.0}
    x = to_device(torch.ones(2, 4), 0, stream.handle)
    if place == "device":
        again = lambda: engine.run({"x": x}, out={"y": out}, stream=stream.handle)  # noqa: E731
        assert spent(machine, again) == (0, 0)
        cuda.synchronize(stream.handle)


def test_memory_of_the_caller_that_does_not_fit(machine):
    engine = doubling()
    x = torch.ones(2, 4)
    for out, kind in (
        ({"z": torch.zeros(2, 4)}, FeedNameError),
        ({"y": torch.zeros(3, 4)}, FeedShapeError),
        ({"y": torch.zeros(2, 4).half()}, FeedDtypeError),
        ({"y": torch.zeros(4, 2).t()}, FeedError),
    ):
        with pytest.raises(kind):
            engine.run({"x": x}, out=out)
    frozen = torch.zeros(2, 4).numpy()
    frozen.flags.writeable = False
    with pytest.raises(FeedError, match="read-only"):
        engine.run({"x": x}, out={"y": frozen})
    with pytest.raises(FeedPlaceError):
        counting().run({"x": torch.ones(2, 3)}, out={"rows": Shared(0xA00000000000, (), typestr="<i8")})


def test_an_array_that_another_stream_makes_is_waited_for_on_the_device(machine, stream):
    """Its values are made late on a stream of their own; the host does not wait for them."""
    engine, other = doubling(), cuda.Stream()
    source = machine.pinned_array((2, 4))
    source[:] = 5
    memory = cuda.Memory(32)
    engine.run({"x": torch.ones(2, 4)}, outputs="device")
    cuda.copy(memory.pointer, source.ctypes.data, 32, other.handle)
    results = []

    def run():
        feed = Shared(memory.pointer, (2, 4), stream=other.handle)
        results.append(engine.run({"x": feed}, outputs="device", stream=stream.handle))

    assert spent(machine, run)[1] == 0
    assert results[0]["y"].numpy().tolist() == [[10.0] * 4] * 2


def test_an_output_taken_by_dlpack_is_ordered_after_the_run(machine, stream):
    engine, consumer = doubling(), cuda.Stream()
    x = to_device(torch.ones(2, 4), 0, stream.handle)
    result = engine.run({"x": x}, outputs="device", stream=stream.handle)["y"]
    assert spent(machine, lambda: result.__dlpack__(stream=consumer.handle)) == (0, 0)
    target = cuda.Memory(32)
    cuda.copy(target.pointer, result.memory.pointer, 32, consumer.handle)
    cuda.synchronize(consumer.handle)
    assert set(machine.memory.bytes(target.pointer, 32).view("float32").tolist()) == {2.0}


def test_the_default_stream_has_another_number_for_other_libraries(machine):
    result = doubling().run({"x": torch.ones(2, 4)}, outputs="device", stream=0)["y"]
    assert result.__cuda_array_interface__["stream"] == 1  # the interface forbids 0
    assert result.numpy()[0, 0] == 2


def test_a_run_on_the_default_stream_works_on_another_between_events(machine):
    """TensorRT synchronizes around the default stream, and captures no graph from it."""
    engine = doubling(cuda_graphs=True)
    source, memory = machine.pinned_array((2, 4)), cuda.Memory(32)
    source[:] = 3
    cuda.copy(memory.pointer, source.ctypes.data, 32, 0)
    target = cuda.Memory(32)
    result = engine.run({"x": Shared(memory.pointer, (2, 4), stream=1)}, outputs="device", stream=0)
    cuda.copy(target.pointer, result["y"].memory.pointer, 32, 0)  # in its order, without waiting
    cuda.synchronize(0)
    assert set(machine.memory.bytes(target.pointer, 32).view("float32").tolist()) == {6.0}
    assert machine.counts["run without the graph that was asked for"] == 0


def test_memory_that_the_callers_stream_still_reads_is_not_written_before(machine):
    engine, out, target, ones = doubling(), cuda.Memory(32), cuda.Memory(32), machine.pinned_array((2, 4))
    ones[:] = 1
    cuda.copy(out.pointer, ones.ctypes.data, 32, 0)
    cuda.copy(target.pointer, out.pointer, 32, 0)  # reads what the run then writes
    engine.run({"x": torch.full((2, 4), 5.0)}, out={"y": Shared(out.pointer, (2, 4))}, stream=0)
    engine.run({"x": torch.ones(2, 4)})  # on the same stream of the engine's, and waited for
    cuda.synchronize(0)
    assert set(machine.memory.bytes(target.pointer, 32).view("float32").tolist()) == {1.0}
    assert set(machine.memory.bytes(out.pointer, 32).view("float32").tolist()) == {10.0}


@pytest.mark.parametrize("offset", [4, 16, 128])
def test_an_address_that_is_not_aligned_is_copied(machine, stream, offset):
    engine, memory = doubling(), cuda.Memory(1024)
    feed = torch.arange(8.0).reshape(2, 4)
    cuda.copy(memory.pointer + offset, feed.data_ptr(), 32, stream.handle)
    cuda.synchronize(stream.handle)
    got = engine.run({"x": Shared(memory.pointer + offset, (2, 4))}, outputs="numpy")
    assert got["y"].tolist() == (feed * 2).tolist()


def test_a_captured_value_of_a_shape(machine):
    engine = reshaping()
    shape = torch.tensor([2, 3])
    captured = engine.capture({"x": torch.arange(6.0), "shape": shape})
    shape[:] = torch.tensor([3, 2])  # the caller's own; what was captured does not change with it
    with pytest.raises(FeedShapeError, match=r"captured as \[2, 3\], and \[3, 2\] was fed"):
        captured.run({"x": torch.arange(6.0), "shape": shape})
    got = captured.run({"x": torch.arange(6.0), "shape": torch.tensor([2, 3])})
    assert got["y"].tolist() == [[0, 1, 2], [3, 4, 5]]
    assert engine.run({"x": torch.arange(6.0), "shape": shape})["y"].shape == (3, 2)


@pytest.mark.parametrize("kind", ["numpy", "torch", "device"])
def test_an_output_on_the_host_has_its_shape(machine, kind):
    rows = counting().run({"x": torch.ones(5, 3)}, outputs=kind)["rows"]
    assert tuple(rows.shape) == ()
    assert int(rows) == 5


def test_the_bench_times_the_engine_and_nothing_besides(machine, tmp_path):
    """A kernel takes a millisecond on the simulated device; allocations and waits would add to it."""
    n = td.Dim("N", min=1, opt=4, max=8)
    spec = td.network(inputs={"x": td.Input((n, 4))})(lambda x: {"y": x * 2})
    path = td.build(spec, tmp_path / "e.engine").engine
    report = td.bench(path, runs=5, warm_up=2)
    engine, whole = report.times
    assert engine.name == "engine"
    assert whole.name == "host to host"
    assert 1.0 <= engine.minimum <= engine.p99 < 1.05
    begin = len(machine.log) - 1 - machine.log[::-1].index("cudaEventElapsedTime")
    between = machine.log[: begin + 1]
    last = len(between) - 1 - between[::-1].index("execute_async_v3")
    assert between[last - 1 : last + 2] == ["cudaEventRecord", "execute_async_v3", "cudaEventRecord"]


def test_device_arrays_are_read_in_the_order_of_their_stream(machine, stream):
    memory, source = cuda.Memory(16), machine.pinned_array((4,))
    source[:] = 4
    cuda.copy(memory.pointer, source.ctypes.data, 16, stream.handle)
    assert DeviceArray(memory, (4,), "float32", 0, stream.handle).numpy().tolist() == [4] * 4
