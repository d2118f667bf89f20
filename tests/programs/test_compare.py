"""Two programs side by side."""

import pytest

import trtdsl as td
import trtdsl.functional as F


def test_a_program_is_compared_with_one_that_moves_twice_as_much(program_of):
    one = program_of(lambda net: F.exp(net.input("x", (64, 256))))
    two = program_of(lambda net: F.exp(net.input("x", (128, 256))))
    comparison = td.compare_programs(one, two)
    rows = {row.name: row for row in comparison.rows}
    assert (rows["bytes"].before, rows["bytes"].after, rows["bytes"].ratio) == (2 * 64 * 256 * 4, 2 * 128 * 256 * 4, 2)
    assert rows["launches"].ratio == 1
    assert [row.name for row in comparison.worse_than(1.99)] == ["bytes"]
    assert comparison.worse_than(2.0) == ()
    assert td.compare_programs(two, one).worse_than(1.0) == ()
    (first, second) = comparison.lines
    assert {first.before, second.before} == {0, 2 * 64 * 256 * 4}


def test_growth_from_zero_is_reported(program_of):
    one = program_of(lambda net: F.exp(net.input("x", (64, 256))))
    two = program_of(
        lambda net: F.matmul(net.input("x", (64, 256)).permute(1, 0).reshape(64, 256), net.input("z", (256, 4)))
    )
    comparison = td.compare_programs(one, two)
    assert "memory" in [row.name for row in comparison.worse_than(100.0)]
    assert {row.name: row for row in comparison.rows}["memory"].ratio is None


def test_an_onnx_file_takes_the_sizes_of_the_other(tmp_path):
    onnx = pytest.importorskip("onnx")
    node = onnx.helper.make_node("Exp", ["input"], ["output"])
    values = [
        onnx.helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, ["batch", 256]) for n in ("input", "output")
    ]
    onnx.save(onnx.helper.make_model(onnx.helper.make_graph([node], "g", values[:1], values[1:])), tmp_path / "m.onnx")
    net = td.Network()
    net.output(F.exp(net.input("x", (td.Dim("N", min=1, opt=4, max=8), 256))), "y")
    mine, theirs = td.programs_alike([net, tmp_path / "m.onnx"], dims={"N": 3})
    assert mine.bytes == theirs.bytes == 2 * 3 * 256 * 4
    assert theirs.inputs == {"input": (3, 256)}
    alone = td.program(tmp_path / "m.onnx", dims={"batch": 5})
    assert alone.bytes == 2 * 5 * 256 * 4
    with pytest.raises(td.UsageError, match="has dynamic dimensions: give sizes of batch"):
        td.program(tmp_path / "m.onnx")
    with pytest.raises(td.UsageError, match="no ONNX file"):
        td.program(tmp_path / "none.onnx")
    with pytest.raises(td.UsageError, match="none of them has a dimension 'M'"):
        td.programs_alike([net, net], dims={"M": 3})
