"""ST-GCN: equal to torch, in few layers, and every weight matters."""

import sys
from functools import partial
from itertools import pairwise
from pathlib import Path

import pytest
import torch
from support import assert_close, evaluate, layer_types
from torch import nn

import trtdsl as td
import trtdsl.functional as F
from trtdsl.core.author import load_module
from trtdsl.definition.weights.source import Scope, Weights

ROOT = Path(__file__).parents[2]
FILE = ROOT / "networks" / "stgcn.py"


@pytest.fixture(scope="module")
def spec():
    return td.load_spec(str(FILE))


@pytest.mark.parametrize("name", ["stgcn", pytest.param("stgcn_ntu", marks=pytest.mark.heavy)])
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
    # Each einsum has taken in the 1 x 1 convolution before it; of few channels, it is one convolution of all joints.
    assert types.count("MATRIX_MULTIPLY") == 6 * 2
    assert types.count("CONVOLUTION") == 4 + 10 + 2 + 1  # of joints, over time, of residuals, at the end
    assert types.count("SCALE") == 1  # the input's
    assert "SHAPE" not in types
    assert "REDUCE" not in types[: types.index("POOLING")]  # no broadcast product to be summed
    names = [net.definition.get_layer(index).name for index in range(net.definition.num_layers)]
    assert {"st_gcn_networks.0.tcn.2.conv2d", "st_gcn_networks.0.gcn.conv.einsum"} <= {*names}
    assert "data_bn.batch_norm" in names
    place = net.layers["st_gcn_networks.0.tcn.2.conv2d"].location
    assert place.file == str(FILE)
    assert "F.conv2d(x, conv.weight, conv.bias, **arguments)" in FILE.read_text().split("\n")[place.line - 1]


def test_state_dict_has_the_names_of_the_original_implementation(spec):
    names = set(spec.open_weights().shapes)
    assert {"A", "data_bn.running_mean", "fcn.weight", "fcn.bias", "edge_importance.9"} <= names
    for index in range(10):
        assert f"st_gcn_networks.{index}.gcn.conv.weight" in names
        assert {f"st_gcn_networks.{index}.tcn.{part}.bias" for part in (0, 2, 3)} <= names
        assert (f"st_gcn_networks.{index}.residual.0.weight" in names) == (index in (4, 7))
        assert (f"st_gcn_networks.{index}.residual.1.running_var" in names) == (index in (4, 7))
    assert spec.open_weights().shapes["A"] == (3, 18, 18)


# Joints from the body's centre outwards, bone by bone.
OPENPOSE = [  # 1 neck, 2 to 4 and 5 to 7 arms, 8 to 10 and 11 to 13 legs, 0 nose, 14 to 17 eyes and ears
    *((1, 2, 3, 4), (1, 5, 6, 7), (2, 8, 9, 10), (5, 11, 12, 13)),
    *((1, 0, 14, 16), (0, 15, 17)),
]
NTU = [  # 20 spine, 2 neck, 3 head, 4 to 7 and 8 to 11 arms, 21 to 24 fingers, 1 and 0 spine to the hips, 12 to 19 legs
    *((20, 2, 3), (20, 4, 5, 6, 7, 22, 21), (20, 8, 9, 10, 11, 24, 23)),
    *((20, 1, 0), (0, 12, 13, 14, 15), (0, 16, 17, 18, 19)),
]


@pytest.mark.parametrize(("name", "bones"), [("stgcn", OPENPOSE), ("stgcn_ntu", NTU)])
def test_partitions_are_those_of_the_paper(name, bones):
    """Section 3.3: a joint itself, its neighbours away from the centre and those towards it, all of one weight.

    In the authors' order: ``A[1, v, w]`` is what w gets from a neighbour v farther from the centre, ``A[2, v, w]`` what
    it gets from a nearer one.
    """
    spec = td.load_spec(f"{FILE}:{name}")
    joints = spec.inputs["x"].shape[3]
    expected = torch.zeros(3, joints, joints)
    expected[0] = torch.eye(joints)
    for chain in bones:
        for near, far in pairwise(chain):
            expected[1, far, near] = expected[2, near, far] = 1
    expected /= expected.sum((0, 1))
    assert int((expected[1] > 0).sum()) == joints - 1  # every joint but the centre hangs on one bone
    torch.testing.assert_close(spec.open_weights().get("A"), expected)
    torch.testing.assert_close(spec.reference_class()().A, expected)


@pytest.mark.parametrize("name", ["stgcn", pytest.param("stgcn_ntu", marks=pytest.mark.heavy)])
def test_activations_stay_of_order_one(name, made_weights):
    """Also with other input than the weights were made with: convolutions give deviations of one, batch norms have the
    statistics of what they get, and what blocks hand on neither fades nor explodes.
    """
    spec = td.load_spec(f"{FILE}:{name}")
    module = spec.reference_module(spec.open_weights(made_weights(name)))
    seen, off = [], []

    def look(path, part, given, y):
        if isinstance(part, nn.Conv2d):
            fits = 0.9 < y.std() < 1.1
        elif isinstance(part, (nn.BatchNorm1d, nn.BatchNorm2d)):
            normal = nn.functional.batch_norm(*given, part.running_mean, part.running_var).transpose(0, 1).flatten(1)
            fits = normal.mean(1).abs().max() < 0.3 and normal.std(1).min() > 0.7 and normal.std(1).max() < 1.3
        else:
            fits = 0.3 < y.std() < 3
        seen.append(path)
        if not fits:
            off.append(path)

    for path, part in module.named_modules():
        if isinstance(part, (nn.Conv2d, nn.BatchNorm1d, nn.BatchNorm2d, type(module.st_gcn_networks[0]))):
            part.register_forward_hook(partial(look, path))
    with torch.inference_mode():
        module(*td.sample_feeds(spec, {"N": 1}, torch.Generator().manual_seed(7)).values())
    assert len(seen) == 10 * (1 + 2 + 2) + 2 * (1 + 1) + 2  # blocks; two residuals; data_bn and fcn
    assert not off


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


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_the_reference_runs_in_half_precision(dtype):
    """As checks with a precision run it; autocast leaves einsum alone on the CPU."""
    reference = load_module(FILE.parent / "reference" / "stgcn.py")
    layer, x, adjacency = reference.GraphConvolution(4, 6, 3), torch.randn(2, 4, 5, 7), torch.rand(3, 7, 7)
    with torch.inference_mode():
        exact = layer(x, adjacency)
        with torch.autocast("cpu", dtype):
            rounded = layer(x, adjacency)
    assert rounded.dtype == dtype
    assert (rounded.float() - exact).abs().max() < 8 * torch.finfo(dtype).eps * exact.abs().max()
