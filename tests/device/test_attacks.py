"""What nobody would write on purpose: memory that is shared, new weights in the middle, processes that were forked."""

import json
import os
import random
import threading

import numpy as np
import pytest
import torch

import trtdsl as td
from device.networks import SIZE, doubling
from trtdsl.core.errors import ExecutionError, FeedPlaceError, TrtdslError, UsageError
from trtdsl.engine import cuda
from trtdsl.engine.arrays import to_device
from trtdsl.engine.compiling.compiler import compile_engine
from trtdsl.engine.engine import Engine
from trtdsl.engine.loading.loaded import Gate
from trtdsl.engine.loading.manifest import manifest_path, parse_manifest


def on_gpu(value, rows=2):
    return to_device(torch.full((rows, SIZE), float(value)), 0, 0)


def both_ways():
    """An engine of two outputs."""
    net = td.Network()
    x = net.input("x", (2, SIZE))
    net.output(x * 2, "y")
    net.output(x + 1, "z")
    return Engine(compile_engine(net).data, backend=net.backend)


def test_an_output_in_the_memory_of_its_input(machine):
    """In place: TensorRT gets other memory, and the result is copied when the run is done."""
    engine, stream, x = doubling(), cuda.Stream(), on_gpu(3)
    for expected in (6, 12, 24):
        result = engine.run({"x": x}, out={"y": x}, stream=stream.handle)
        assert result["y"] is x
        cuda.synchronize(stream.handle)
        assert x.numpy().tolist() == [[float(expected)] * SIZE] * 2
    array = np.full((2, SIZE), 3, np.float32)
    engine.run({"x": array}, out={"y": array})
    assert array.tolist() == [[6.0] * SIZE] * 2


def test_outputs_that_share_memory_are_refused(machine):
    engine, memory = both_ways(), on_gpu(0)
    for shared in (memory, np.zeros((2, SIZE), np.float32)):
        with pytest.raises(FeedPlaceError, match="'y' and 'z' share memory"):
            engine.run({"x": on_gpu(1)}, out={"y": shared, "z": shared})
    halves = np.zeros((4, SIZE), np.float32)
    engine.run({"x": np.ones((2, SIZE), np.float32)}, out={"y": halves[:2], "z": halves[2:]})
    assert halves.tolist() == [[2.0] * SIZE] * 4


def test_new_weights_are_not_starved_by_runs():
    """Threads that are always inside between them: who must be alone still gets in, and is alone."""
    gate, stop, inside, seen = Gate(), threading.Event(), [0], []
    overlapping = threading.Barrier(2)

    def keep_running(first):
        while not stop.is_set():
            with gate.run():
                inside[0] += 1
                if first.is_set():
                    first.clear()
                    overlapping.wait(10)  # the other one is inside too
                inside[0] -= 1

    flags = [threading.Event(), threading.Event()]
    for flag in flags:
        flag.set()
    threads = [threading.Thread(target=keep_running, args=(flag,)) for flag in flags]
    for thread in threads:
        thread.start()
    for _ in range(20):
        with gate.alone():
            seen.append(inside[0])
    stop.set()
    for thread in threads:
        thread.join()
    assert seen == [0] * 20


def test_a_run_waits_for_whoever_waits_to_be_alone():
    gate, order = Gate(), []
    entered, leave = threading.Event(), threading.Event()

    def first():
        with gate.run():
            entered.set()
            leave.wait(10)
            order.append("first")

    def alone():
        with gate.alone():
            order.append("alone")

    def late():
        with gate.run():
            order.append("late")

    threads = [threading.Thread(target=first)]
    threads[0].start()
    entered.wait(10)
    threads.append(threading.Thread(target=alone))
    threads[1].start()
    while not gate._waiting:
        pass
    threads.append(threading.Thread(target=late))
    threads[2].start()
    leave.set()
    for thread in threads:
        thread.join()
    assert order == ["first", "alone", "late"]


def test_a_forked_process_is_told_to_load_its_own(machine):
    engine = doubling()
    captured = engine.capture({"x": torch.ones(2, SIZE)})
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        said = []
        for attempt in (
            lambda: engine(x=torch.ones(2, SIZE)),
            lambda: captured(x=torch.ones(2, SIZE)),
            lambda: engine.capture({"x": torch.ones(2, SIZE)}),
        ):
            try:
                attempt()
            except UsageError as error:
                said.append("spawn" in str(error))
            except BaseException:
                said.append(False)
        os.write(writer, repr(said).encode())
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(reader, 100) == b"[True, True, True]"
    assert engine(x=torch.ones(2, SIZE))["y"][0, 0] == 2  # the parent's is as it was


def test_errors_in_one_thread_leave_the_results_of_others_right(machine):
    """Random runs in threads, on shared and own streams, with failures in the middle."""
    engine, problems = doubling(), []
    shared = cuda.Stream()

    def work(seed):
        rng = random.Random(seed)
        mine = cuda.Stream()
        for _ in range(25):
            value, rows = rng.randint(1, 9), rng.randint(1, 8)
            stream = rng.choice([None, mine.handle, shared.handle])
            feed = on_gpu(value, rows) if rng.random() < 0.5 else torch.full((rows, SIZE), float(value))
            kind = rng.choice(["numpy", "torch", "device"])
            if rng.random() < 0.1:
                machine.fail(rng.choice(["execute_async_v3", "infer_shapes"]))
            try:
                result = engine.run({"x": feed}, outputs=kind, stream=stream)["y"]
            except ExecutionError:
                continue
            except TrtdslError as error:
                problems.append(repr(error))
                continue
            del feed
            if stream is not None:
                cuda.synchronize(stream)
            got = np.asarray(result.numpy() if kind != "numpy" else result)
            if got.shape != (rows, SIZE) or not (got == 2 * value).all():
                problems.append(f"{got.ravel()[:2]} for {value}")

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not problems, problems[:3]


@pytest.mark.parametrize(
    "change",
    [
        {"values": 3},
        {"values": {"a:KERNEL": [1]}},
        {"values": {"a:KERNEL": [True, "float32"]}},
        {"values": {"a:KERNEL": [-1, "float32"]}},
        {"structure_sha256": None},
        {"values_sha256": 5},
        {"expected": []},
        {"expected": {"a": [3, "float32"]}},
        {"expected": {"a": [[1.5], "float32"]}},
        {"dims": {"N": "1:2"}},
        {"dims": {"N": []}},
        {"network": 3},
        {"precision": 16},
        {"identical": "no"},
        {"weights": [3]},
        {"lowerings": 3},
        {"lowerings": [["file"]]},
    ],
)
def test_a_manifest_whose_words_on_weights_make_no_sense(change, tmp_path):
    """It is damaged, and not a KeyError in the middle of a refit."""

    @td.network(inputs={"x": td.Input((2, 3))})
    def net(x):
        return {"y": x * 2}

    facts = json.loads(manifest_path(td.build(net, tmp_path / "a.engine").engine).read_text())
    sound = {
        "structure_sha256": "5" * 64, "values_sha256": "0" * 64, "weights": ["a"], "network": None, "precision": None,
        "values": {"a:KERNEL": [1, "float32"]}, "expected": {"a": [[1], "float32"]}, "dims": {"N": [1, 2, 3], "M": 4},
        "identical": False, "lowerings": [["a.py", "net", "einsum", "einsum", 0, "matmul"]],
    }  # fmt: skip
    parse_manifest(json.dumps({**facts, "refit": sound}).encode())
    with pytest.raises(td.CorruptFileError) as caught:
        parse_manifest(json.dumps({**facts, "refit": {**sound, **change}}).encode())
    assert caught.value.code == "manifest-damaged"
