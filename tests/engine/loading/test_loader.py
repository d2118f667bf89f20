"""Every way in which an engine does not fit, each with an error, a code and a sentence of its own; and a fuzz test."""

import json
import random
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from safetensors.torch import save_file

import trtdsl as td
import trtdsl.functional as F
from trtdsl.core import errors
from trtdsl.core.backend import Messages, cuda_status, get_backend
from trtdsl.engine.loading import loader
from trtdsl.engine.loading.loader import open_engine, read_header
from trtdsl.engine.loading.manifest import manifest_path, parse_manifest

BACKEND = get_backend("tensorrt-rtx")


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """A tiny engine and its manifest, as `trtdsl build` leaves them."""
    folder = tmp_path_factory.mktemp("built")

    @td.network(inputs={"x": td.Input((td.Dim("N", min=1, opt=2, max=4), 3)), "k": td.Input((3,))})
    def tiny(x, k):
        return {"y": F.relu(x * k)}

    return td.build(tiny, folder / "tiny.engine", backend=BACKEND).engine


@pytest.fixture
def engine(built, tmp_path):
    """A copy that a test may spoil."""
    shutil.copy(built, tmp_path)
    shutil.copy(manifest_path(built), tmp_path)
    return tmp_path / built.name


def spoil(engine, change):
    """Changes the engine's bytes."""
    data = bytearray(engine.read_bytes())
    changed = change(data)
    engine.write_bytes(bytes(data if changed is None else changed))
    return engine


def respoil(engine, /, **changes):
    """Changes the manifest's entries."""
    path = manifest_path(engine)
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))
    return engine


def refused(kind, path, **options):
    """The message of the one error; it must be of exactly this class, with its code and one sentence."""
    with pytest.raises(td.TrtdslError) as caught:
        open_engine(path, **options)
    assert type(caught.value) is kind
    assert caught.value.code == kind.code is not None
    assert "\n" not in caught.value.message
    return caught.value.message


def test_a_sound_engine_passes(engine):
    found = open_engine(engine)
    assert found.header.product == "tensorrt-rtx"
    assert found.header.version == BACKEND.version
    assert found.header.size == len(found.data)
    assert found.header.open_targets
    assert str(found.manifest.signature) == "x: float32 (?, 3), k: float32 (3) -> y: float32 (?, 3)"
    assert found.manifest.signature.profiles[0]["x"] == ((1, 3), (2, 3), (4, 3))


def test_missing(tmp_path):
    assert "no engine" in refused(errors.EngineMissingError, tmp_path / "none.engine")
    assert "cannot be read" in refused(errors.EngineMissingError, tmp_path)


@pytest.mark.parametrize("size", [0, 1, 27, 63])
def test_empty_or_short(engine, size):
    message = refused(errors.EngineTooShortError, spoil(engine, lambda data: data[:size]))
    assert ("is empty" if size == 0 else f"has {size} bytes") in message


def test_files_that_are_no_engines_are_refused(tmp_path):
    path = tmp_path / "other.engine"
    save_file({"w": torch.ones(64)}, path)
    assert "safetensors" in refused(errors.NotAnEngineError, path)
    torch.save({"w": torch.ones(3)}, path)
    assert "checkpoint" in refused(errors.NotAnEngineError, path)
    onnx = pytest.importorskip("onnx")
    node = onnx.helper.make_node("Relu", ["x"], ["y"])
    values = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [1]) for name in "xy"]
    onnx.save(onnx.helper.make_model(onnx.helper.make_graph([node], "g", values[:1], values[1:])), path)
    assert "ONNX" in refused(errors.NotAnEngineError, path)
    for content, word in (
        (b'{"schema": 1, "network": "stgcn"}', "JSON"),
        (Path("/proc/self/exe").read_bytes()[:4096], "program"),
        (bytes(4096), "zeros"),
        (b"\x01\x02" * 64, "begins with 01 02"),
        (b"ftrtNOT A HEADER AT ALL BUT TEXT"[1:] * 9, "not an engine"),
    ):
        path.write_bytes(content)
        assert word in refused(errors.NotAnEngineError, path)


def test_a_foreign_prefix(engine):
    metadata = json.dumps({"stride": 32, "task": "detect"}).encode()
    prefix = len(metadata).to_bytes(4, "little") + metadata  # as Ultralytics writes its engines
    message = refused(errors.EnginePrefixError, spoil(engine, lambda data: prefix + data))
    assert f"{len(prefix)} bytes of another program" in message
    assert "Ultralytics" in message


def test_the_other_product(engine, monkeypatch):
    standard = spoil(engine, lambda data: data.__setitem__(slice(0, 4), b"ftrt"))
    message = refused(errors.WrongProductError, standard, backend=BACKEND)
    assert "built by TensorRT and cannot be loaded by TensorRT-RTX" in message
    assert "backend='tensorrt-rtx'" in message
    monkeypatch.delenv("TRTDSL_BACKEND", raising=False)
    if not loader.installed("tensorrt"):
        assert "is not installed here" in refused(errors.WrongProductError, standard)


@pytest.mark.parametrize("keep", [64, 1000, -1])
def test_truncated(engine, keep):
    whole = engine.stat().st_size
    message = refused(errors.EngineTruncatedError, spoil(engine, lambda data: data[:keep]))
    assert f"of its {whole:,} bytes" in message


def test_the_manifest_shows_a_truncated_tensorrt_engine(engine):
    """TensorRT's own format does not say its size: the manifest does."""
    header = loader.Header("tensorrt", "10.3.0.26", None, False)
    manifest = parse_manifest(manifest_path(engine).read_bytes().replace(b'"tensorrt-rtx"', b'"tensorrt"'))
    with pytest.raises(errors.EngineTruncatedError):
        loader.judge(engine.read_bytes()[:-1], manifest, header, "it")


def test_bytes_after_the_end_of_an_engine_are_refused(engine):
    assert "after the engine's end" in refused(errors.EngineDamagedError, spoil(engine, lambda data: data + b"\0"))


def test_flipped_bits(engine):
    def flip(data):
        data[len(data) // 2] ^= 1

    assert "sha256" in refused(errors.EngineDamagedError, spoil(engine, flip))


def test_version_mismatch(engine):
    def older(data):
        data[25] -= 1

    built = ".".join(map(str, [BACKEND.major, int(BACKEND.version.split(".")[1]) - 1, *BACKEND.version.split(".")[2:]]))
    message = refused(errors.VersionMismatchError, spoil(engine, older))
    assert f"built by TensorRT-RTX {built}, and here is {BACKEND.version}" in message
    assert "trtdsl build" in message
    assert "'tiny'" in message


@pytest.mark.parametrize(
    ("built", "have", "compatible", "loads"),
    [
        ("10.3.0.26", "10.3.0", False, False),  # four numbers or none: the build counts
        ("10.3.0.26", "10.3.0.26", False, True),
        ("10.3.0.26", "10.3.0.26.post1", False, True),
        ("10.3.0.26", "10.16.1.11", False, False),
        ("10.3.0.26", "10.16.1.11", True, True),
        ("10.16.1.11", "10.3.0.26", True, False),
        ("10.3.0.26", "11.4.0.106", True, True),
        ("8.6.1.6", "11.4.0.106", True, False),
        ("8.6.1.6", "10.3.0.26", True, True),
        ("11.0.0.114", "13.0.0.1", True, False),
    ],
)
def test_versions_of_tensorrt(built, have, compatible, loads):
    """TensorRT's documentation, "Engine Compatibility" and "Support Matrix": 8 to 10, and 10 to 11, if built for it."""
    check = lambda: loader.check_version(  # noqa: E731
        built, SimpleNamespace(version=have), product="tensorrt", version_compatible=compatible
    )
    if loads:
        check()
    else:
        with pytest.raises(errors.VersionMismatchError, match=f"TensorRT {built}, and here is {have}"):
            check()


def test_rtx_loads_no_other_version():
    with pytest.raises(errors.VersionMismatchError):
        loader.check_version(
            "1.6.1.120", SimpleNamespace(version="1.7.1.116"), product="tensorrt-rtx", version_compatible=True
        )


def test_manifest_missing(engine):
    manifest_path(engine).unlink()
    assert "manifest=False" in refused(errors.ManifestMissingError, engine)
    assert open_engine(engine, manifest=False).manifest is None


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"schema": 1}, "schema 1"),
        ({"schema": True}, "schema True"),
        ({"network": 3}, "network: expected str, got int"),
        ({"inputs": []}, "inputs: expected object, got array"),
        ({"compute_capabilities": [8.6]}, "compute_capabilities[0]: expected str, got float"),
        ({"backend": {"name": "onnx", "version": "1"}}, "backend.name: must be tensorrt or tensorrt-rtx"),
        ({"backend": {"name": "tensorrt", "version": "10.3.0.26"}}, "that of a TensorRT engine"),
        ({"backend": {"name": "tensorrt-rtx", "version": "1.0.0.1"}}, "says TensorRT-RTX 1.0.0.1"),
        ({"engine": {"sha256": "0", "bytes": 1}}, "engine.sha256: must be a SHA-256 hash"),
        ({"inputs": {"x": {"dtype": "complex64", "shape": []}}}, "inputs.x: the dtype must be one of"),
        ({"inputs": {"x": {"dtype": "bool", "shape": [-1]}}}, "inputs.x.shape[0]: expected int >= 0"),
        ({"profiles": []}, "profiles: expected array of length >= 1"),
        ({"profiles": [{"dims": {}}]}, "profiles[0]: object missing required field inputs"),
        (
            {"profiles": [{"inputs": {"x": {"min": [2, 3], "opt": [1, 3], "max": [1, 3]}}}]},
            "profiles[0].inputs.x: it must have min <= opt <= max",
        ),
    ],
)
def test_manifest_damaged(engine, changes, words):
    assert words in refused(errors.ManifestDamagedError, respoil(engine, **changes))


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe", b"[" * 100_000, b"null", b"3", b'"text"'])
def test_a_manifest_that_is_not_json(engine, content):
    manifest_path(engine).write_bytes(content)
    refused(errors.ManifestDamagedError, engine)


def test_compute_capability():
    loader.check_compute_capability(("8.6", "8.9"), "8.9", open_targets=False)
    loader.check_compute_capability(("8.6",), "9.0", open_targets=True)  # TensorRT-RTX judges it
    with pytest.raises(errors.ComputeCapabilityError, match=r"for compute capability 8\.6, and this GPU has 12\.0"):
        loader.check_compute_capability(("8.6",), "12.0", open_targets=False)


def test_targets_are_read_from_the_engine():
    """What the header says, against what the builder was asked for: measured, since nothing documents it."""
    net = td.Network(backend=BACKEND)
    net.output(F.relu(net.input("x", (2,))), "y")
    for asked, names in (([], None), (["8.9"], ["8.9"]), (["7.5", "12.1"], ["7.5", "12.1"])):
        data = loader_engine(net, asked)
        header = read_header(data)
        assert header.open_targets == (names is None)
        bits = int.from_bytes(data[32:40], "little")
        if names is not None:
            assert [name for index, name in enumerate(loader.RTX_TARGETS) if bits >> index & 1] == names


def loader_engine(net, capabilities):
    from trtdsl.engine.compiling.compiler import compile_engine
    from trtdsl.engine.compiling.config import BuildConfig

    return compile_engine(net, BuildConfig(compute_capabilities=tuple(capabilities))).data


@pytest.mark.skipif(cuda_status() is None, reason="there is a GPU here")
def test_no_driver_is_not_a_verdict(engine):
    with pytest.raises(errors.NoDriverError, match="was not judged") as caught:
        td.load_engine(engine)
    assert caught.value.exit_code == 6
    assert "invalid" not in str(caught.value).lower()


def test_an_old_driver():
    loader.judge_driver(13000, 13)
    loader.judge_driver(12080, None)
    with pytest.raises(
        errors.OldDriverError, match=r"serves CUDA 12\.8, and this TensorRT needs CUDA 13\.0.*not judged"
    ):
        loader.judge_driver(12080, 13)


def test_library_and_bindings():
    assert BACKEND.library_version == tuple(map(int, BACKEND.version.split(".")[:3]))
    assert BACKEND.cuda_major in (12, 13)
    loader.check_library(BACKEND)
    with pytest.raises(errors.LibraryMismatchError, match=r"1\.7\.1\.116, and the library that they loaded is 1\.6\.1"):
        loader.check_library(SimpleNamespace(name="tensorrt-rtx", version="1.7.1.116", library_version=(1, 6, 1)))


def test_missing_plugin(engine):
    respoil(engine, plugins=[{"name": "Unheard_TRT", "version": "3", "namespace": ""}])
    assert "the plugin Unheard_TRT (version 3)" in refused(errors.MissingPluginError, engine)


def test_an_engine_without_weights_is_refused(engine):
    facts = json.loads(manifest_path(engine).read_text())
    respoil(
        engine,
        config={**facts.get("config", {}), "strip_weights": True},
        refit={
            "weights": [f"block.{i}.weight" for i in range(10)],
            "values": {},
            "expected": {},
            "dims": {},
            "structure_sha256": "",
            "values_sha256": "",
        },
    )
    manifest = open_engine(engine).manifest
    with pytest.raises(errors.StrippedEngineError, match=r"block\.0\.weight, .*and 2 more"):
        loader.check_stripped(manifest, refitted=False)
    with pytest.raises(errors.StrippedEngineError):
        td.load_engine(engine)
    loader.check_stripped(manifest, refitted=True)


def test_host_code_is_off(engine):
    facts = json.loads(manifest_path(engine).read_text())
    respoil(engine, config={**facts.get("config", {}), "version_compatible": True})
    assert "allow_host_code" in refused(errors.HostCodeError, engine)
    open_engine(engine, allow_host_code=True)


@pytest.mark.parametrize(
    ("text", "kind"),
    [  # TensorRT's own messages, as users have reported them, shortened
        (
            "IPluginRegistry::getPluginCreator: (Cannot find plugin: EfficientNMS_TRT, version: 1, namespace:.)",
            errors.MissingPluginError,
        ),
        ("INVALID_ARGUMENT: getPluginCreator could not find plugin CHUNK_TRT version 1.0", errors.MissingPluginError),
        (
            "Serialization (Version tag does not match. Note: Current Version: 213, Serialized Engine: 205)",
            errors.VersionMismatchError,
        ),
        (
            "The engine plan file is not compatible, expecting library version 10.0.1.6 got 10.0.0.6, please rebuild.",
            errors.VersionMismatchError,
        ),
        (
            "The engine plan file is generated on an incompatible device, expecting compute 7.5 got compute 8.6",
            errors.ComputeCapabilityError,
        ),
        ("Error Code 2: OutOfMemory (Requested size was 1073741824 bytes.)", errors.OutOfMemoryError),
        ("Error Code 4: Internal Error (Engine deserialization failed.)", errors.EngineRefusedError),
    ],
)
def test_messages_of_tensorrt_become_errors(text, kind):
    error = loader.judge_messages(Messages([(1, text)]), size=10, free=5)
    assert type(error) is kind
    if kind is errors.MissingPluginError:
        assert any(name in error.message for name in ("EfficientNMS_TRT (version 1)", "CHUNK_TRT (version 1.0)"))
    if kind is errors.OutOfMemoryError:
        assert (error.needed, error.free) == (10, 5)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("VERSION_MISMATCH", errors.VersionMismatchError),
        ("UNSUPPORTED_CC", errors.ComputeCapabilityError),
        ("OLD_CUDA_DRIVER", errors.OldDriverError),
        ("OLD_CUDA_RUNTIME", errors.OldDriverError),
        ("INSUFFICIENT_GPU_MEMORY", errors.OutOfMemoryError),
        ("MALFORMED_ENGINE", errors.EngineDamagedError),
        ("CUDA_ERROR", errors.NoDriverError),
    ],
)
def test_diagnostics_of_tensorrt_rtx_become_errors(name, kind):
    members = {name: int(bit) for name, bit in BACKEND.trt.EngineInvalidityDiagnostics.__members__.items()}
    loader.judge_validity("VALID", 0, members, "8.9")
    loader.judge_validity("SUBOPTIMAL", members[name], members, "8.9")
    with pytest.raises(kind):
        loader.judge_validity("INVALID", members[name], members, "8.9")


def test_codes_are_unique():
    found = [kind for kind in vars(errors).values() if isinstance(kind, type) and "code" in vars(kind)]
    codes = [kind.code for kind in found if kind.code]
    assert len(codes) == len(set(codes)) > 20


# -- fuzz --------------------------------------------------------------------------------------------------------------


def mutate(data, other, rng):
    """One random change of a file: bits flipped, cut, spliced, overwritten, doubled, emptied."""
    data = bytearray(data)
    kind = rng.randrange(8)
    at = rng.choice([rng.randrange(64), rng.randrange(max(len(data), 1))]) % max(len(data), 1)
    length = rng.choice([1, 4, 64, 1000])
    if kind == 0:
        data[at] ^= 1 << rng.randrange(8)
    elif kind == 1:
        data[at : at + length] = rng.randbytes(length)
    elif kind == 2:
        del data[at:]
    elif kind == 3:
        del data[at : at + length]
    elif kind == 4:
        data[at:at] = rng.randbytes(length)
    elif kind == 5:
        data[at:at] = other[:length]
    elif kind == 6:
        data += data[at : at + length]
    else:
        data = bytearray(other[at:])
    return bytes(data)


KNOWN = tuple(
    kind
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, errors.TrtdslError) and kind.code is not None
)


def judged(data, manifest):
    """The loader's judgement without files; None when it passes."""
    try:
        header = read_header(data)
        chosen = loader.choose_backend(header.product, BACKEND)
        read = parse_manifest(manifest)
        loader.check_version(header.version, chosen, product=header.product, network=read.network)
        loader.judge(data, read, header, "it")
        loader.check_plugins(read, chosen)
        loader.check_host_code(read, allowed=False)
        loader.check_stripped(read, refitted=False)
    except errors.TrtdslError as error:
        return error
    return None


def test_fuzz(built):
    """Thousands of spoiled engines and manifests: always one of the errors, or the very bytes that were built."""
    engine, manifest = built.read_bytes(), manifest_path(built).read_bytes()
    assert judged(engine, manifest) is None
    rng = random.Random(0)
    seen = set()
    for round_ in range(6000):
        data, description = engine, manifest
        if round_ % 3 != 1:
            data = mutate(engine, manifest, rng)
        if round_ % 3 != 0:
            for _ in range(rng.randrange(1, 4)):
                description = mutate(description, engine, rng) if description else b""
        error = judged(data, description)
        if error is None:
            assert data == engine  # whatever in the manifest was changed, the hash of the bytes was not
        else:
            assert type(error) in KNOWN
            assert error.message
            seen.add(error.code)
    assert {"engine-damaged", "engine-truncated", "engine-too-short", "not-an-engine", "manifest-damaged"} <= seen


def test_fuzz_of_values(built):
    """Manifests that stay JSON, with one value after another replaced by every other kind of value."""
    engine, manifest = built.read_bytes(), json.loads(manifest_path(built).read_bytes())

    def places(value, path=()):
        yield path
        children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        for key, child in children:
            yield from places(child, (*path, key))

    def put(value, path, new):
        if not path:
            return new
        copy = dict(value) if isinstance(value, dict) else list(value)
        copy[path[0]] = put(value[path[0]], path[1:], new)
        return copy

    for path in places(manifest):
        for new in (None, True, -1, 0, 1.5, 10**30, "", "x", [], [[]], {}, {"a": {}}):
            error = judged(engine, json.dumps(put(manifest, path, new)).encode())
            assert error is None or type(error) in KNOWN, f"{path} = {new!r}: {error!r}"
