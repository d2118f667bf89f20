"""`trtdsl run` on the simulated device: files in, files out, and nothing elsewhere."""

import json

import numpy as np
import pytest

import trtdsl as td
from trtdsl.engine.loading.manifest import manifest_path


@pytest.fixture
def built(machine, tmp_path):
    n = td.Dim("N", min=1, opt=2, max=8)
    spec = td.network(inputs={"x": td.Input((n, 4))})(lambda x: {"../y": x * 2, "z": x + 1})
    folder = tmp_path / "in"
    folder.mkdir()
    return td.build(spec, folder / "e.engine")


def save(folder):
    np.save(folder / "x.npy", np.ones((2, 4), np.float32))
    return {"x": folder / "x.npy"}


def test_outputs_become_files(machine, tmp_path):
    spec = td.network(inputs={"x": td.Input((2, 4))})(lambda x: {"y": x * 2})
    engine = td.build(spec, tmp_path / "e.engine").engine
    paths = td.run_files(engine, save(tmp_path), tmp_path / "out")
    assert np.load(paths["y"]).tolist() == [[2.0] * 4] * 2


def test_a_link_does_not_lead_out_of_the_folder(machine, tmp_path):
    spec = td.network(inputs={"x": td.Input((2, 4))})(lambda x: {"y": x * 2})
    engine, out = td.build(spec, tmp_path / "e.engine").engine, tmp_path / "out"
    out.mkdir()
    np.save(tmp_path / "mine.npy", np.ones(3))
    (out / "y.npy").symlink_to("../mine.npy")
    with pytest.raises(td.UsageError, match=r"y\.npy: a link leads out of .*out, to .*mine\.npy; remove it"):
        td.run_files(engine, save(tmp_path), out)
    assert np.load(tmp_path / "mine.npy").tolist() == [1, 1, 1] and machine.counts["execute_async_v3"] == 0


@pytest.mark.parametrize("with_manifest", [True, False])
def test_an_outputs_name_does_not_lead_out_of_the_folder(built, machine, tmp_path, with_manifest):
    inputs = save(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(td.UsageError, match=r"the output's name '\.\./y' would lead to another place"):
        td.run_files(built.engine, inputs, tmp_path / "out", manifest=with_manifest)
    assert sorted(tmp_path.rglob("*")) == before
    assert machine.counts["execute_async_v3"] == 0


def test_a_pickle_is_never_opened(built, tmp_path):
    trace = tmp_path / "was run"

    class Evil:
        def __reduce__(self):
            return open, (str(trace), "w")

    np.save(tmp_path / "x.npy", np.array([Evil()], dtype=object), allow_pickle=True)
    with pytest.raises(td.FeedError, match=r"x\.npy is not an array that can be fed: its type is \|O"):
        td.run_files(built.engine, {"x": tmp_path / "x.npy"}, tmp_path / "out")
    assert not trace.exists()


def test_the_manifests_outputs_are_not_taken_on_trust(machine, tmp_path):
    """A manifest that names its outputs otherwise than the engine does: the engine's names are looked at too."""
    spec = td.network(inputs={"x": td.Input((2, 4))})(lambda x: {"../y": x * 2})
    engine = td.build(spec, tmp_path / "e.engine").engine
    facts = json.loads(manifest_path(engine).read_text())
    facts["outputs"] = {"y": facts["outputs"]["../y"]}
    manifest_path(engine).write_text(json.dumps(facts))
    with pytest.raises(td.UsageError, match="would lead to another place"):
        td.run_files(engine, save(tmp_path), tmp_path / "out")
