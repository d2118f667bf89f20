"""TensorRT's own report of an engine as a Program: its JSON as documented, worked by hand, and a simulated engine."""

import json
from types import SimpleNamespace

import pytest

import trtdsl as td
from trtdsl.core.errors import ProgramDamagedError, UnreadableProgramError
from trtdsl.engine.inspector import program_of_inspector, program_of_report

FP32, FP16 = "Row major linear FP32", "Channel major FP16 format where channel % 8 == 0"


def tensor(name, shape, form=FP32, location="Device"):
    return {"Name": name, "Location": location, "Dimensions": shape, "Format/Datatype": form}


def layer(name, kind, inputs, outputs, **more):
    return {"Name": name, "LayerType": kind, "Inputs": inputs, "Outputs": outputs, "StreamId": 0, **more}


LAYERS = [
    layer("reformat", "Reformat", [tensor("x", [1, 8, 16, 16])], [tensor("r", [1, 8, 16, 16], FP16)], Metadata=""),
    layer(
        "conv + relu", "CaskConvolution", [tensor("r", [1, 8, 16, 16], FP16)], [tensor("c", [1, 32, 16, 16], FP16)],
        Weights={"Type": "Half", "Count": 32 * 8 * 9}, Bias={"Type": "Float", "Count": 32},
        Metadata="nets/a.py:3 in encoder\x1fnets/a.py:4 in encoder",
    ),
    layer("nothing", "NoOp", [tensor("c", [1, 32, 16, 16], FP16)], [tensor("v", [1, 8192], FP16)]),
    layer("gemm", "gemm", [tensor("v", [1, 8192], FP16), tensor("n", [1], location="Host")], [tensor("y", [1, 10])],
          Weights={"Type": "Half", "Count": 81920}),
]  # fmt: skip


@pytest.mark.parametrize(
    "ends",
    [
        {"Bindings": ["x", "y"]},
        {"I/O Tensors": [{"Name": "x", "IOMode": "Input"}, {"Name": "y", "IOMode": "Output"}]},
    ],
    ids=["10", "11"],
)
def test_a_report_worked_by_hand(ends):
    program = program_of_report(json.dumps({"Layers": LAYERS, **ends}), network="net")
    assert [launch.kind for launch in program.launches] == ["rearranging", "convolution", "product"]
    reformat, convolution, product = program.launches
    assert reformat.bytes == program.rearranged_bytes == 8 * 256 * (4 + 2)
    assert convolution.bytes == (8 * 256 + 32 * 256 + 32 * 8 * 9) * 2 + 32 * 4
    assert (convolution.lines, convolution.scopes) == (("nets/a.py:3", "nets/a.py:4"), ("encoder",))
    assert product.bytes == (8192 + 81920) * 2 + 10 * 4  # what is on the host counts nothing
    assert program.tensors["c"].order == (0, 2, 3, 1)
    assert program.source == "engine inspector"
    assert program.tensors["x"].place == "caller"
    assert td.floor_of(program).seconds > 0
    assert isinstance(td.find_hazards(program), tuple)


def test_reports_that_say_too_little():
    with pytest.raises(UnreadableProgramError, match="tells only the names .*profiling_verbosity='detailed'"):
        program_of_report('{"Layers": ["conv + relu", "gemm"], "Bindings": ["x"]}')
    for text in ("", "[]", "{}", "null", '{"Layers": [{"Name": "a", "Inputs": 3}]}', "[" * 100_000):
        with pytest.raises((ProgramDamagedError, UnreadableProgramError)):
            program_of_report(text)
    with pytest.raises(td.UsageError, match="the size of 'x' is open"):
        program_of_report(json.dumps({"Layers": [layer("a", "PointWise", [tensor("x", [-1, 3])], [])]}))
    with pytest.raises(ProgramDamagedError, match="the shape and the dtype of 'x'"):
        program_of_report(json.dumps({"Layers": [layer("a", "PointWise", [tensor("x", [1, 3], "secret")], [])]}))


def test_an_engine_is_asked_at_the_given_shapes():
    asked = {}

    class Context:
        def set_input_shape(self, name, shape):
            asked[name] = shape

    class Inspector:
        def get_engine_information(self, form):
            assert (form, self.execution_context.__class__) == ("JSON", Context)
            return json.dumps({"Layers": LAYERS, "Bindings": ["x", "y"]})

    engine = SimpleNamespace(
        name="net", device_memory_size_v2=4096, create_engine_inspector=Inspector, create_execution_context=Context
    )
    trt = SimpleNamespace(__version__="11.4.0.1", LayerInformationFormat=SimpleNamespace(JSON="JSON"))
    program = program_of_inspector(engine, trt, {"x": [1, 8, 16, 16]})
    assert asked == {"x": (1, 8, 16, 16)}
    assert (program.memory, program.backend, program.launch_count) == (4096, "tensorrt 11.4.0.1", 3)
