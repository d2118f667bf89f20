"""What is not there, or is called otherwise in torch: weights, dimensions, sizes in torch's constructors, scopes."""

from __future__ import annotations

import re

import pytest
import torch

import trtdsl as td
import trtdsl.functional as F
import trtdsl.layers as L

N = td.Dim("N", min=1, opt=2, max=4)
STATE = {
    "encoder.fc1.weight": torch.ones(2, 3),
    "encoder.fc2.weight": torch.ones(2, 3),
    "linear_1.weight": torch.ones(2, 3),
    "encoder.fc2.bias": torch.ones(2),
}


@pytest.mark.parametrize(
    ("take", "wanted"),
    [
        (lambda w: w.linear1, "no weight 'linear1' in the weights given (nearest: linear_1)"),
        (lambda w: w.linear1.weight, "(nearest: linear_1)"),
        (lambda w: w.linear_1.wieght, "no weight 'linear_1.wieght' in the weights given (nearest: linear_1.weight)"),
        (lambda w: w.encoder.linear1, "no weight 'encoder.linear1' in the weights given: encoder has fc1, fc2"),
        (lambda w: w.decoder, "no weight 'decoder' in the weights given"),
        (lambda w: w["encoder"]["fc3"], "in the weights given: encoder has fc1, fc2"),
        (lambda w: w.encoder.fc1.bias, "no weight 'encoder.fc1.bias' in the weights given: encoder.fc1 has weight"),
        (lambda w: w.zzz, "no weight 'zzz' in the weights given: it has encoder, linear_1"),
    ],
)
def test_weights(take, wanted):
    w = td.Network().weights(STATE)
    with pytest.raises(td.WeightsError) as caught:
        take(w)
    assert wanted in str(caught.value)
    assert "test_nearest.py:" in str(caught.value)


def test_a_network_has_weights():
    net = td.Network()
    y = F.linear(net.input("x", (N, 3)), net.weights(STATE).encoder.fc1.weight)
    net.output(y, "y")
    assert td.interpret(net, {"x": torch.ones(1, 3)})["y"].tolist() == [[3, 3]]
    assert net.layers["encoder.fc1.linear"].weights == ("encoder.fc1.weight",)
    with pytest.raises(td.WeightsError, match="no weights file"):
        net.weights("nothing.safetensors")


def test_missing_weights_are_told_by_a_path_without_dots(tmp_path):
    (tmp_path / "networks").mkdir()
    with pytest.raises(td.WeightsError, match=f"no weights file {re.escape(str(tmp_path / 'none.safetensors'))}:"):
        td.Network().weights(tmp_path / "networks" / ".." / "none.safetensors")


@pytest.mark.parametrize(
    ("sizes", "written"), [((1, 2, 4), "min=1, opt=2, max=4"), ((1, 4), "min=1, max=4"), ((7,), "min=7")]
)
def test_a_range_without_names(sizes, written):
    with pytest.raises(td.UsageError, match=rf"is given by name: td.Dim\('N', {written}\)"):
        td.Dim("N", *sizes)


@pytest.mark.parametrize("name", [3, None, "a b", ""])
def test_a_dimension_has_a_name(name):
    with pytest.raises(td.UsageError, match="a dimension's name must be an identifier"):
        td.Dim(name)


def test_a_scope_is_a_name():
    net = td.Network()
    for given, hint in ((3, ""), ("", ""), (STATE, "weights are net.weights")):
        with pytest.raises(td.UsageError, match=f"net.scope takes a module's name.*{hint}"), net.scope(given):
            pass


def sized(call):
    """What a function of a size of a network gives."""
    spec = td.network(inputs={"x": td.Input((N, 3))})(lambda x: call(x, x.shape[0]))
    return td.interpret(spec.define(), {"x": torch.ones(2, 3)})["output"]


@pytest.mark.parametrize(
    "call",
    [
        lambda x, n: torch.arange(n) + 0,
        lambda x, n: torch.zeros((n, 3)) + x,
        lambda x, n: torch.ones(n) + 0,
        lambda x, n: torch.full((n, 3), 2.0, device=x.device) * x,
        lambda x, n: torch.linspace(0, 1, n) + 0,
        lambda x, n: torch.ones(1, 3).repeat(n, 1) + x,
        lambda x, n: x + torch.arange(6).view(2, 3) * n,
        lambda x, n: x + (n - torch.arange(3)) / n,
        lambda x, n: x + n // torch.arange(1, 4),
        lambda x, n: x + torch.arange(3).eq(n) + (torch.arange(3) < n),
    ],
)
def test_torchs_constructors_take_sizes(call):
    """The expected values are torch's own, of the same call with a number."""
    wanted = call(torch.ones(2, 3), 2)
    assert torch.equal(sized(call).to(wanted.dtype), wanted)


@pytest.mark.parametrize(
    ("call", "wanted"),
    [
        (lambda x, n: torch.tensor([n, n * 2]), "write F.tensor(…), which takes sizes"),
        (lambda x, n: torch.zeros(n, 3), "write F.zeros(n, 3) or torch.zeros((n, 3))"),
        (lambda x, n: torch.ones(n, 3), "write F.ones(n, 3) or torch.ones((n, 3))"),
        (lambda x, n: torch.randn(2, n), "random"),
    ],
)
def test_torchs_constructors_that_refuse_sizes(call, wanted):
    with pytest.raises(td.DefinitionError) as caught:
        sized(call)
    assert wanted in str(caught.value)
    assert "test_nearest.py:" in str(caught.value)


@pytest.mark.parametrize(
    ("call", "wanted"),
    [
        (
            lambda x: F.linear(x),
            "F.linear(): missing a required argument: 'weight'; it takes (input, weight, b",
        ),
        (lambda x: F.grid_sample(x), "'grid'; it takes (input, grid, mode='bilinear', padding_mode='zeros'"),
        (
            lambda x: F.relu(x, 1, 2, 3),
            "F.relu(): too many positional arguments; it takes (input, inplace=False)",
        ),
        (lambda x: L.softmax(x), "L.softmax(): missing a required argument: 'axis'; it takes (x, axis)"),
    ],
)
def test_a_missing_argument_says_the_signature(call, wanted):
    x = td.Network().input("x", (N, 3))
    with pytest.raises(TypeError) as caught:
        call(x)
    assert wanted in str(caught.value)


def test_a_type_error_from_inside_stays_as_it_is():
    x = td.Network().input("x", (N, 3))
    with pytest.raises(TypeError) as caught:
        F.linear(x, x, dim=3)
    assert "it takes (" not in str(caught.value)


def test_numbered_parts():
    w = td.Network().weights({"blocks.0.a": torch.ones(1), "blocks.1.a": torch.ones(1)})
    with pytest.raises(IndexError, match=r"blocks has no \[2\]: it has \[0\] and \[1\]"):
        w.blocks[2]


def test_another_networks_weights_are_one_sentence(small):
    other = {f"layer.{number}.weight": torch.ones(2) for number in range(200)}
    with pytest.raises(td.WeightsError) as caught:
        td.load_spec(small / "small.py").define(weights=other)
    first, *lines = str(caught.value).split("\n")
    assert "no name in the weights given is one of the network's weights: is it another network's file?" in first
    assert len(lines) == 9 and lines[-1] == "  … (208 in all)"


def test_files_and_classes(small):
    text = (small / "small.py").read_text()
    line = 1 + text[: text.index("@td.network")].count("\n")
    (small / "typo.py").write_text(text.replace("small.safetensors", "smal.safetensors"))
    wanted = rf"typo.py:{line}: no weights file .*smal.safetensors \(nearest: small.safetensors\)"
    with pytest.raises(td.WeightsError, match=wanted):
        td.load_spec(small / "typo.py").define()
    (small / "class.py").write_text(text.replace(":Model", ":Modle"))
    wanted = rf"class.py:{line}: .*reference.py has no 'Modle' to be the reference \(nearest: Model\)"
    with pytest.raises(td.UsageError, match=wanted):
        td.load_spec(small / "class.py").define()


def test_the_suffix_of_a_missing_file_does_not_count(tmp_path):
    for name in ("stn", "stgcn", "vits"):
        (tmp_path / f"{name}.safetensors").touch()
    with pytest.raises(td.WeightsError, match=r"\(nearest: vits.safetensors\)"):
        td.Network().weights(tmp_path / "vit.safetensors")
    with pytest.raises(td.WeightsError, match=r"or in Python with .*save_file\(module.state_dict\(\), 'unet.safet"):
        td.Network().weights(tmp_path / "unet.safetensors")


def test_an_input_by_another_name_than_its_parameters():
    @td.network(inputs={"frames": td.Input((N, 3)), "lengths": td.Input((N,), "int64")})
    def asr(frames, length):
        return {"y": lengths + 1}  # noqa: F821

    with pytest.raises(td.DefinitionError, match="the input 'lengths' is the parameter 'length' here") as caught:
        asr.define()
    assert caught.value.location.line == asr.function.__code__.co_firstlineno + 2


def test_a_depthwise_kernel_without_its_groups():
    net = td.Network()
    x = net.input("x", (N, 64, 9))
    with pytest.raises(td.ShapeError, match="is for 1 channels, not 64: groups=64 fits"):
        F.conv1d(x, net.constant(torch.ones(64, 1, 7)), padding=3)
    with pytest.raises(td.ShapeError, match="is for 48 channels, not 64\n"):
        F.conv1d(x, net.constant(torch.ones(64, 48, 7)), padding=3)


def test_a_size_outside_the_programs_range():
    spec = td.network(inputs={"x": td.Input((N, 3))})(lambda x: x * 2)
    with pytest.raises(td.UsageError, match="N = 500 is not within 1 to 4"):
        td.program(spec, dims={"N": 500})
