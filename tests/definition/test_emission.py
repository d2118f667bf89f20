"""Layers are recorded first, and added when somebody asks for them: what that means for an author."""

import inspect

import pytest
import torch

import trtdsl as td
import trtdsl.functional as F
from trtdsl import layers as L


def test_a_network_grows_after_it_was_interpreted():
    net = td.Network()
    x = net.input("x", (3,))
    net.output(F.relu(x), "a")
    assert td.interpret(net, {"x": torch.tensor([-1.0, 0.0, 2.0])})["a"].tolist() == [0, 0, 2]
    net.output(F.relu(x) + 1, "b")
    assert td.interpret(net, {"x": torch.tensor([-1.0, 0.0, 2.0])})["b"].tolist() == [1, 1, 3]


def test_what_tensorrt_refuses_goes_with_all_that_needs_it():
    net = td.Network()
    x, n = net.input("x", (2, 3)), net.input("n", (3, 4), "int32")
    net.output(F.relu(x), "good")
    line = inspect.currentframe().f_lineno + 1
    bad = L.matrix_multiply(L.shuffle(n, (1, 0)), n)
    net.output(F.relu(bad), "bad")
    with pytest.raises(td.DefinitionError, match=r"TensorRT refuses the layer: (?s:.*)in matrix_multiply") as caught:
        td.interpret(net, {})
    assert caught.value.location == (__file__, line)
    assert list(net.outputs) == ["good"]
    assert net.definition.num_layers == 3  # TensorRT keeps the product that it refused; the relu of it is not added
    net.output(F.tanh(x) + bad[0, 0], "later")
    with pytest.raises(td.DefinitionError, match="is the result of a call that was refused before"):
        net.definition
    feeds = {"x": torch.ones(2, 3), "n": torch.ones(3, 4, dtype=torch.int32)}
    assert td.interpret(net, feeds)["good"].tolist() == [[1] * 3] * 2


def test_a_network_without_outputs_and_one_that_is_shown():
    net = td.Network()
    F.relu(net.input("x", (3,)))
    assert repr(net) == "Network(network: x: (3,) -> ; 1 layer)"
    assert "1 layers recorded, 0 emitted" in repr(net.graph)
    assert net.definition.num_layers == 1
    assert "1 layers recorded, 1 emitted" in net.graph._repr_html_()


def test_attributes_that_tensorrt_keeps_as_c_floats_are_known_as_they_were_given():
    net = td.Network()
    net.output(L.activation(net.input("x", (3,)), "LEAKY_RELU", alpha=0.1), "y")
    net.emit()
    (facts,) = net.layers.values()
    assert facts.numbers["alpha"] == 0.1  # which no float32 is


def test_an_argument_that_tensorrts_bindings_refuse_is_said_at_its_line():
    net = td.Network()
    net.output(F.sum(net.input("x", (2, 3)), 1, "yes"), "y")
    with pytest.raises(td.DefinitionError, match=r"TensorRT takes no such arguments: .*SUM.*, 2, 'yes'") as caught:
        net.definition
    assert caught.value.location.file == __file__ and "0x" not in caught.value.message
