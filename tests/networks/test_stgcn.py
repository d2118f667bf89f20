"""ST-GCN: equal to torch, in few layers, and every weight matters."""

import sys
from pathlib import Path

import pytest
import torch
from support import assert_close, evaluate, layer_types

import trtdsl as td
import trtdsl.functional as F
from trtdsl.weights import Scope, Weights

ROOT = Path(__file__).parents[2]
FILE = ROOT / "networks" / "stgcn.py"


@pytest.fixture(scope="module")
def spec():
    return td.load_spec(str(FILE))


@pytest.mark.parametrize("name", ["stgcn", "stgcn_ntu"])
def test_equals_its_reference(name):
    report = td.check(td.load_spec(f"{FILE}:{name}"), dims={"N": (1, 2, 3)})
    assert report.passed
    worst = max(output.max_abs / output.scale for case in report.cases for output in case.outputs)
    assert worst < 1e-5


def test_the_default_is_the_openpose_layout(spec):
    net = spec.define()
    assert spec.name == "stgcn"
    assert str(net.inputs["x"].shape) == "(N, 3, 300, 18, 2)"
    assert str(net.outputs["logits"].shape) == "(N, 400)"
    ntu = td.load_spec(f"{FILE}:stgcn_ntu").define()
    assert str(ntu.inputs["x"].shape) == "(N, 3, 300, 25, 2)"
    assert str(ntu.outputs["logits"].shape) == "(N, 60)"


def test_layers(spec):
    net = spec.define(dims={"N": 1})
    types = layer_types(net)
    assert len(types) <= 150
    assert types.count("MATRIX_MULTIPLY") == 10  # one for each einsum
    assert "SHAPE" not in types
    assert "REDUCE" not in types[: types.index("POOLING")]  # no broadcast product to be summed
    names = [net.definition.get_layer(index).name for index in range(net.definition.num_layers)]
    assert "st_gcn_networks.0.gcn.conv2d" in names
    assert "st_gcn_networks.9.tcn.0.batch_norm" in names
    place = net.locations["st_gcn_networks.0.gcn.conv2d"]
    assert place.file == str(FILE)
    assert "F.conv2d(x, w.conv.weight, w.conv.bias)" in FILE.read_text().split("\n")[place.line - 1]


def test_state_dict_has_the_names_of_the_original_implementation(spec):
    names = set(spec.open_weights().shapes)
    assert {"A", "data_bn.running_mean", "fcn.weight", "fcn.bias", "edge_importance.9"} <= names
    for index in range(10):
        assert f"st_gcn_networks.{index}.gcn.conv.weight" in names
        assert {f"st_gcn_networks.{index}.tcn.{part}.bias" for part in (0, 2, 3)} <= names
        assert (f"st_gcn_networks.{index}.residual.0.weight" in names) == (index in (4, 7))
        assert (f"st_gcn_networks.{index}.residual.1.running_var" in names) == (index in (4, 7))
    assert spec.open_weights().shapes["A"] == (3, 18, 18)


def test_partitions_are_those_of_the_paper(spec):
    """Each joint's row of the normalised adjacency matrix is split in three, and the columns of all sum to one."""
    partitions = spec.open_weights().get("A")
    torch.testing.assert_close(partitions.sum((0, 1)), torch.ones(18))
    assert ((partitions > 0).sum(0) <= 1).all()
    assert torch.equal(partitions[0], torch.diag(torch.diag(partitions[0])))
    # openpose: the neck (1) is the centre; the elbow (3) lies farther than the shoulder (2), nearer than the wrist (4)
    assert partitions[1, 3, 2] > 0
    assert partitions[2, 2, 3] > 0
    assert partitions[1, 4, 3] > 0
    assert partitions[2, 1, 2] > 0


def test_every_weight_matters(spec):
    """Perturbs each weight tensor in turn, by a hundredth: the network must no longer equal the reference."""
    module = spec.reference_module(spec.open_weights())
    x = torch.randn(1, 3, 24, 18, 2, generator=torch.Generator().manual_seed(0))
    with torch.inference_mode():
        expected = module(x)
    opened = spec.open_weights()
    state = {name: opened.get(name) for name in opened.shapes}
    sys.path.insert(0, str(FILE.parent))
    classify = sys.modules[spec.function.__module__].classify

    def outputs(weights):
        net = td.Network()
        net.output(classify(net.input("x", x.shape), Scope(net, Weights(weights)))["logits"], "logits")
        return td.interpret(net, {"x": x})["logits"]

    assert td.compare("logits", outputs(state), expected).passed
    unnoticed = []
    for name, tensor in state.items():
        if name.endswith("num_batches_tracked"):
            continue
        if td.compare("logits", outputs({**state, name: tensor * 1.01}), expected).passed:
            unnoticed.append(name)
    assert not unnoticed


@pytest.mark.parametrize(
    ("equation", "shapes", "dims"),
    [
        ("nctw,cd->ndtw", [(2, 5, 4, 3), (5, 6)], [("N", 5, "T", 3), None]),
        ("nkctv,kvw->nctw", [(2, 3, 4, 5, 6), (3, 6, 7)], [("N", 3, 4, "T", 6), None]),
        ("bhnm,bdhm->bdhn", [(2, 3, 4, 5), (2, 6, 3, 5)], [("B", 3, "L", "M"), ("B", 6, 3, "M")]),
        ("nkctv,kcvw->nctw", [(2, 3, 4, 5, 6), (3, 4, 6, 7)], [("N", 3, 4, "T", 6), None]),
    ],
)
def test_the_four_einsum_forms(equation, shapes, dims):
    tensors = [torch.randn(shape) for shape in shapes]
    expected = torch.einsum(equation, *tensors)
    for given in (None, dims):
        assert_close(evaluate(lambda a, b: F.einsum(equation, a, b), *tensors, dims=given), expected)
