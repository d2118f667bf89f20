"""config.pbtxt against Triton's protobuf schema: the fields of model_config.proto that are written."""

import json

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, text_format

import trtdsl as td
import trtdsl.functional as F
import trtdsl.layers as L
from trtdsl.core.backend import get_backend
from trtdsl.engine.loading.manifest import manifest_path, parse_manifest
from trtdsl.engine.triton import export_triton, triton_config

BACKEND = get_backend("tensorrt-rtx")

# github.com/triton-inference-server/common, protobuf/model_config.proto: names, numbers and types of these fields.
ENUMS = {
    "DataType": {
        "TYPE_INVALID": 0, "TYPE_BOOL": 1, "TYPE_UINT8": 2, "TYPE_UINT16": 3, "TYPE_UINT32": 4, "TYPE_UINT64": 5,
        "TYPE_INT8": 6, "TYPE_INT16": 7, "TYPE_INT32": 8, "TYPE_INT64": 9, "TYPE_FP16": 10, "TYPE_FP32": 11,
        "TYPE_FP64": 12, "TYPE_STRING": 13, "TYPE_BF16": 14,
    },
    "Kind": {"KIND_AUTO": 0, "KIND_GPU": 1, "KIND_CPU": 2, "KIND_MODEL": 3},
}  # fmt: skip
REPEATED = "repeated"
MESSAGES = {
    "ModelTensorReshape": [("shape", 1, "int64", REPEATED)],
    "ModelInput": [
        ("name", 1, "string", ""),
        ("data_type", 2, "DataType", ""),
        ("dims", 4, "int64", REPEATED),
        ("reshape", 5, "ModelTensorReshape", ""),
    ],
    "ModelOutput": [
        ("name", 1, "string", ""),
        ("data_type", 2, "DataType", ""),
        ("dims", 3, "int64", REPEATED),
        ("label_filename", 4, "string", ""),
        ("reshape", 5, "ModelTensorReshape", ""),
    ],
    "ModelInstanceGroup": [
        ("name", 1, "string", ""),
        ("count", 2, "int32", ""),
        ("gpus", 3, "int32", REPEATED),
        ("kind", 4, "Kind", ""),
        ("profile", 5, "string", REPEATED),
    ],
    "ModelDynamicBatching": [
        ("preferred_batch_size", 1, "int32", REPEATED),
        ("max_queue_delay_microseconds", 2, "uint64", ""),
    ],
    "InitialState": [
        ("data_type", 1, "DataType", ""),
        ("dims", 2, "int64", REPEATED),
        ("zero_data", 3, "bool", ""),
        ("name", 5, "string", ""),
    ],
    "State": [
        ("input_name", 1, "string", ""),
        ("output_name", 2, "string", ""),
        ("data_type", 3, "DataType", ""),
        ("dims", 4, "int64", REPEATED),
        ("initial_state", 5, "InitialState", REPEATED),
    ],
    "ModelSequenceBatching": [("state", 5, "State", REPEATED)],
    "ModelConfig": [
        ("name", 1, "string", ""),
        ("platform", 2, "string", ""),
        ("max_batch_size", 4, "int32", ""),
        ("input", 5, "ModelInput", REPEATED),
        ("output", 6, "ModelOutput", REPEATED),
        ("instance_group", 7, "ModelInstanceGroup", REPEATED),
        ("dynamic_batching", 11, "ModelDynamicBatching", ""),
        ("sequence_batching", 13, "ModelSequenceBatching", ""),
        ("backend", 17, "string", ""),
    ],
}


def model_config():
    """The ModelConfig class of the schema above."""
    file = descriptor_pb2.FileDescriptorProto(name="model_config.proto", package="inference", syntax="proto3")
    for name, values in ENUMS.items():
        enum = file.enum_type.add(name=name)
        for member, number in values.items():
            enum.value.add(name=member, number=number)
    kinds = descriptor_pb2.FieldDescriptorProto
    scalars = {
        "string": kinds.TYPE_STRING,
        "int32": kinds.TYPE_INT32,
        "int64": kinds.TYPE_INT64,
        "uint64": 4,
        "bool": 8,
    }
    for name, entries in MESSAGES.items():
        message = file.message_type.add(name=name)
        for field, number, kind, label in entries:
            added = message.field.add(name=field, number=number)
            added.label = kinds.LABEL_REPEATED if label else kinds.LABEL_OPTIONAL
            if kind in scalars:
                added.type = scalars[kind]
            else:
                added.type = kinds.TYPE_ENUM if kind in ENUMS else kinds.TYPE_MESSAGE
                added.type_name = f".inference.{kind}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("inference.ModelConfig"))


def parse(text):
    """The message; a name, a type or an enum member that Triton's schema does not have is an error."""
    return text_format.Parse(text, model_config()())


@pytest.fixture(scope="module")
def engine(tmp_path_factory):
    n = td.Dim("N", min=1, opt=4, max=16)

    @td.network(inputs={"x": td.Input((n, 3, 8)), "k": td.Input((n, 8), dtype="float16")})
    def served(x, k):
        return {"y": F.relu(x), "half": k * 2}

    path = tmp_path_factory.mktemp("triton") / "served.engine"
    profiles = [td.Profile(N=1), td.Profile(N=(8, 12, 16)), td.Profile()]
    return td.build(served, path, backend=BACKEND, profiles=profiles).engine


def manifest_of(engine, **changes):
    return parse_manifest(json.dumps({**json.loads(manifest_path(engine).read_text()), **changes}).encode())


def test_the_schema_refuses_what_it_does_not_have():
    with pytest.raises(text_format.ParseError, match="max_batch"):
        parse('max_batch: "3"')
    with pytest.raises(text_format.ParseError):
        parse("input { data_type: TYPE_FP8 }")


def test_names_dtypes_dims_batching_and_profiles(engine):
    config = parse(triton_config(manifest_of(engine), "served", instances=2, queue_delay_us=500))
    assert (config.name, config.platform, config.max_batch_size) == ("served", "tensorrt_plan", 16)
    types = ENUMS["DataType"]
    assert {i.name: (i.data_type, list(i.dims)) for i in config.input} == {
        "x": (types["TYPE_FP32"], [3, 8]),
        "k": (types["TYPE_FP16"], [8]),
    }
    assert {o.name: (o.data_type, list(o.dims)) for o in config.output} == {
        "y": (types["TYPE_FP32"], [3, 8]),
        "half": (types["TYPE_FP16"], [8]),
    }
    (group,) = config.instance_group
    assert (group.count, group.kind, list(group.profile)) == (2, ENUMS["Kind"]["KIND_GPU"], ["0", "1", "2"])
    assert list(config.dynamic_batching.preferred_batch_size) == [4, 12]
    assert config.dynamic_batching.max_queue_delay_microseconds == 500


def test_without_a_batch(engine):
    tensor = {"dtype": "float32", "shape": [2, "T"]}
    served = {"dims": {"T": [1, 5, 9]}, "inputs": {"x": {"min": [2, 1], "opt": [2, 5], "max": [2, 9]}}}
    scalar = {"dtype": "int32", "shape": []}
    manifest = manifest_of(engine, inputs={"x": tensor}, outputs={"s": scalar}, profiles=[served])
    config = parse(triton_config(manifest, "m"))
    assert config.max_batch_size == 0
    assert list(config.input[0].dims) == [2, -1]
    assert list(config.output[0].dims) == [1]
    assert config.output[0].HasField("reshape")
    assert not config.HasField("dynamic_batching")


def test_a_dtype_that_triton_lacks(engine):
    output = {"y": {"dtype": "float8_e4m3fn", "shape": ["N"]}}
    with pytest.raises(td.EngineError, match="no data type for float8_e4m3fn"):
        triton_config(manifest_of(engine, outputs=output), "m")


def test_the_repository(engine, tmp_path):
    with pytest.raises(td.EngineError, match="does not load engines of TensorRT-RTX"):
        export_triton(engine, tmp_path)
    folder = export_triton(engine, tmp_path, name="other", version=3, allow_rtx=True)
    assert folder == tmp_path / "other"
    assert (folder / "3" / "model.plan").read_bytes() == engine.read_bytes()
    assert parse((folder / "config.pbtxt").read_text()).name == "other"
    for wrong in ({"version": 0}, {"version": 1 << 63}, {"queue_delay_us": -1}, {"queue_delay_us": 1 << 64}):
        with pytest.raises(td.UsageError, match="Triton's versions|a queue's delay"):
            export_triton(engine, tmp_path, allow_rtx=True, **wrong)
    (tmp_path / "cut.engine").write_bytes(engine.read_bytes()[:-1])
    with pytest.raises(td.CorruptFileError):
        export_triton(tmp_path / "cut.engine", tmp_path)


@pytest.mark.parametrize("name", ["../../evil", "/tmp/evil", "..", ""])
def test_a_model_stays_in_the_repository(engine, tmp_path, name):
    """The manifest comes from outside, and so may the name."""
    path = tmp_path / "m.engine"
    path.write_bytes(engine.read_bytes())
    facts = json.loads(manifest_path(engine).read_text())
    manifest_path(path).write_text(json.dumps({**facts, "network": name}))
    before = sorted(tmp_path.rglob("*"))
    for given in ({}, {"name": name}):
        with pytest.raises(td.UsageError, match="a file would be called after it"):
            export_triton(path, tmp_path / "deep" / "repository", allow_rtx=True, **given)
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("batch", [1, td.Dim("N", min=1, opt=2, max=4)])
def test_states_are_implicit_ones_of_a_sequence(batch, tmp_path):
    @td.network(inputs={"x": td.Input((batch, 3)), "sum": td.State((batch, 3, 2), "float16")})
    def running(x, sum):
        return {"next_sum": sum + x.to(sum.dtype).unsqueeze(-1), "double": x * 2}

    built = td.build(running, tmp_path / "running.engine", backend=BACKEND).engine
    config = parse(triton_config(manifest_of(built), "running"))
    assert [each.name for each in config.input] == ["x"] and [each.name for each in config.output] == ["double"]
    assert config.max_batch_size == (0 if isinstance(batch, int) else 1) and not config.HasField("dynamic_batching")
    (state,) = config.sequence_batching.state
    (first,) = state.initial_state
    assert (state.input_name, state.output_name, state.data_type) == ("sum", "next_sum", ENUMS["DataType"]["TYPE_FP16"])
    assert list(state.dims) == list(first.dims) == ([1, 3, 2] if config.max_batch_size == 0 else [3, 2])
    assert first.zero_data and first.data_type == state.data_type
    assert manifest_of(built).in_place == {}
    shape = {"dtype": "float16", "shape": [1, "T", 2]}
    ranges = {"inputs": {"sum": {"min": [1, 1, 2], "opt": [1, 2, 2], "max": [1, 3, 2]}}, "dims": {"T": [1, 2, 3]}}
    grown = manifest_of(built, inputs={"sum": shape}, outputs={"next_sum": shape}, profiles=[ranges])
    with pytest.raises(td.EngineError, match="the state 'sum' has dynamic sizes"):
        triton_config(grown, "running")


def test_an_input_that_is_written_in_place_is_refused(tmp_path):
    @td.network(inputs={"x": td.Input((1, 1, 1, 2)), "at": td.Input((1,), "int32"), "c": td.Input((1, 1, 4, 2))})
    def cached(x, at, c):
        return {"after": L.kv_cache_update(c, x, at)}

    built = td.build(cached, tmp_path / "cached.engine", backend=BACKEND, check=False).engine
    with pytest.raises(td.EngineError, match="writes the input 'c' in place, at one address for input and output"):
        export_triton(built, tmp_path / "repository", allow_rtx=True)


def test_a_cache_that_is_written_in_place_is_refused(tmp_path):
    @td.network(
        inputs={"x": td.Input((1, 1, 1, 2)), "at": td.Input((1,), "int32", sample=(0, 4)), "c": td.State((1, 1, 4, 2))}
    )
    def cached(x, at, c):
        after = L.kv_cache_update(c, x, at)
        return {"next_c": after, "y": after.sum(2)}

    built = td.build(cached, tmp_path / "cached.engine", backend=BACKEND).engine
    assert manifest_of(built).in_place == {"c": "next_c"}
    with pytest.raises(td.EngineError, match="writes the state 'c' in place, at one address for input and output"):
        export_triton(built, tmp_path / "repository", allow_rtx=True)
    assert not (tmp_path / "repository").exists()
    path = manifest_path(built)
    facts = json.loads(path.read_text())
    del facts["in_place"]
    path.write_text(json.dumps(facts))
    with pytest.raises(
        td.EngineError, match="an earlier trtdsl, whose manifest does not say which states .*: build it"
    ):
        export_triton(built, tmp_path / "repository", allow_rtx=True)
