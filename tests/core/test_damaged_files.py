"""Damaged files: each reader takes them or refuses them with an error of trtdsl's, in 2 s and with 1 GiB at most."""

import json
import os
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
from support import damage

import trtdsl as td

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/clear_refs").exists(), reason="memory is measured as Linux tells it"
)
USUAL, ALL, PART = 500, 100_000, 5_000


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("damaged")


@pytest.fixture(scope="module")
def readers(folder):
    return damage.readers(folder)


def test_whole_files_are_taken(readers, folder):
    for reader in readers:
        for index, whole in enumerate(reader.whole):
            path = folder / f"whole{index}{reader.suffix}"
            path.write_bytes(whole)
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                reader.read(path)


def test_damaged_files(readers, folder):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # torch's, of a pickle's version
        *findings, counts = damage.attempts(readers, folder, 0, USUAL)
    assert findings == []
    refused = [reader.name for reader in readers if f"{reader.name}: refused" in counts["counts"]]
    assert len(refused) > len(readers) - 5  # caches, earlier manifests and kinds refuse nothing


@pytest.mark.heavy
@pytest.mark.parametrize("seed", range(1_000_000, 1_000_000 + ALL, PART))
def test_many_damaged_files(tmp_path, seed):
    """In processes of their own: one that crashes is named by its last seed."""
    harness = Path(damage.__file__)
    tests = harness.parents[1]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": f"{tests}{os.pathsep}{tests.parent}"}
    done = subprocess.run(
        [sys.executable, harness, tmp_path, str(seed), str(PART)], capture_output=True, text=True, env=environment
    )
    *findings, counts = map(json.loads, done.stdout.splitlines() or ['{"counts": {}}'])
    assert done.returncode == 0, done.stderr[-2000:]
    assert findings == []
    assert sum(counts["counts"].values()) == PART


def test_a_reader_that_is_wrong_is_found(folder, monkeypatch):
    """The harness itself: an untyped error, much time, much memory, a message as long as a file."""

    def untyped(path):
        raise KeyError("x")

    def long(path):
        sum(range(1_000_000))

    def much(path):
        return bytes(range(256)) * (1 << 19)

    def said(path):
        raise td.UsageError("x " * 5_000)

    bytearray(31 << 20)  # from here on malloc keeps as much on its heap, where 160 MiB become free
    freed, last = [bytearray(20 << 20) for _ in range(8)], bytearray(200 << 10)
    del freed
    monkeypatch.setattr(damage, "SECONDS", 1e-3)
    monkeypatch.setattr(damage, "BYTES", 64 << 20)
    for read, words in ((untyped, "KeyError"), (long, " s"), (much, " MiB"), (said, "message")):
        reader = damage.Reader("r", (b"x" * 100,), read, damage.JSON)
        *findings, _ = damage.attempts([reader], folder, 0, 1)
        assert any(words in finding["why"] for finding in findings)
    assert last
