"""The networks of this repository: the ports of their references build and equal them, without editing."""

from pathlib import Path

import pytest

import trtdsl as td

pytestmark = pytest.mark.long

REFERENCES = Path(__file__).parents[2] / "networks" / "reference"


@pytest.mark.parametrize(
    ("name", "inputs", "dims"),
    [
        ("vit", {"x": "N,3,224,224"}, {"N": (1, 1, 2)}),
        ("mobilefacenet", {"x": "N,3,112,112"}, {"N": (1, 2, 3)}),
        pytest.param("slowfast", {"x": "1,3,T,33,40"}, {"T": (4, 7, 8)}, marks=pytest.mark.heavy),
        ("crnn", {"x": "N,1,32,W"}, {"N": (1, 2, 3), "W": (32, 37, 50)}),
        ("ddrnet", {"x": "1,3,H,W"}, {"H": (64, 96, 130), "W": (64, 80, 131)}),
        ("stgcn", {"x": "N,3,30,18,2"}, {"N": (1, 2, 3)}),
        ("stn", {"x": "N,1,28,28"}, {"N": (1, 2, 4)}),
        ("mamba", {"ids": "N,7:int64"}, {"N": (1, 2, 3)}),
        pytest.param(
            "raft_small",
            {"first": "1,3,128,8*W", "second": "1,3,128,8*W"},
            {"W": (16, 16, 17)},
            marks=pytest.mark.heavy,
        ),
    ],
)
def test_a_port_of_a_reference_equals_it(port, name, inputs, dims):
    port(f"{REFERENCES / name}.py:Model", inputs, dims=dims).check()


def test_a_ported_network_builds(port, tmp_path):
    made = port(f"{REFERENCES}/vit.py:Model", {"x": "N,3,224,224"}, dims={"N": (1, 1, 2)})
    build = td.build(made.spec, tmp_path / "vit.engine")
    assert build.report is not None and build.report.passed and (tmp_path / "vit.engine").stat().st_size > 1_000_000


def test_a_mistake_in_a_ported_file_is_found(port):
    made = port(f"{REFERENCES}/stn.py:Model", {"x": "N,1,28,28"}, dims={"N": (1, 1, 2)})
    made.file.write_text(made.text.replace("F.relu(F.linear", "F.gelu(F.linear"))
    assert not td.check(td.load_spec(made.file)).passed
