"""The runtime cache's file: kept when it is sound and for this GPU, otherwise discarded with a warning."""

import random

import pytest

from trtdsl.core.errors import RuntimeCacheWarning
from trtdsl.engine.loading.runtime_cache import read_runtime_cache, write_runtime_cache

HERE = {"backend": "1.7.1.116", "compute_capability": "8.9"}


@pytest.fixture
def cache(tmp_path):
    path = tmp_path / "engine.cache"
    write_runtime_cache(path, b"kernels\n" * 100, HERE)
    return path


def test_an_undamaged_cache_is_used(cache, tmp_path):
    assert read_runtime_cache(cache, HERE) == b"kernels\n" * 100
    assert read_runtime_cache(tmp_path / "none", HERE) is None
    assert [path.name for path in tmp_path.iterdir()] == ["engine.cache"]


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda data: data[:-1], "damaged"),
        (lambda data: data[:-5] + b"x" + data[-4:], "damaged"),
        (lambda data: data.replace(b"1.7.1", b"1.6.1"), "another version or for another GPU"),
        (lambda data: b"", "not a runtime cache"),
        (lambda data: bytes(5000), "not a runtime cache"),
        (lambda data: b"[" * 3000 + b"\n", "not a runtime cache"),
        (lambda data: b'{"kind": 3}\n', "not a runtime cache"),
    ],
)
def test_a_bad_cache_is_discarded_with_a_warning(cache, spoil, words):
    cache.write_bytes(spoil(cache.read_bytes()))
    with pytest.warns(RuntimeCacheWarning, match=f"built anew: .*{words}"):
        assert read_runtime_cache(cache, HERE) is None


def test_a_cache_that_cannot_be_read(tmp_path):
    with pytest.warns(RuntimeCacheWarning, match="cannot be read"):
        assert read_runtime_cache(tmp_path, HERE) is None


@pytest.mark.filterwarnings("ignore::trtdsl.core.errors.RuntimeCacheWarning")
def test_fuzz(cache):
    whole = cache.read_bytes()
    rng = random.Random(3)
    for _ in range(2000):
        data = bytearray(whole)
        at = rng.randrange(len(data))
        if rng.random() < 0.5:
            data[at] ^= 1 << rng.randrange(8)
        else:
            del data[at : at + rng.randrange(1, 50)]
        cache.write_bytes(data)
        found = read_runtime_cache(cache, HERE)
        assert found is None or (found == b"kernels\n" * 100 and data != whole)
