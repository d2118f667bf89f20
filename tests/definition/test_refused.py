"""What TensorRT refuses by its log alone, as its setters do, ends the author's call or the definition."""

import inspect

import pytest
import torch

import trtdsl as td
import trtdsl.functional as F
from trtdsl.core.backend import get_backend
from trtdsl.engine.compiling.compiler import compile_definition

LONG = "n" * 5000
NO_BIAS = "Parameter check failed, condition: biasWeights.values"


def convolution(x):
    """A convolution by TensorRT's own API."""
    net = x.network
    weights = [net.target.buffer(torch.ones(shape)) for shape in ((4, 3, 3, 3), (4,))]
    return net.definition.add_convolution_nd(x.trt, 4, (3, 3), *weights)


def line_of(function, text):
    lines, start = inspect.getsourcelines(function)
    return start + next(index for index, line in enumerate(lines) if text in line)


def test_a_setter_in_an_authors_call_ends_it():
    net = td.Network()
    layer = convolution(net.input("x", (1, 3, 8, 8)))
    with (
        pytest.raises(td.DefinitionError, match=f"TensorRT refuses a change of the network: {NO_BIAS}") as caught,
        net.operation("fold"),
    ):
        layer.bias = net.trt.Weights()
    assert caught.value.location.file == __file__
    with net.operation("fold"):  # once alone: in a notebook the network goes on
        layer.bias = net.target.buffer(torch.zeros(4))
    assert net.backend.listening == []


def test_names_that_are_too_long():
    too_long = "has 5000 characters; TensorRT takes at most 4096"
    with pytest.raises(td.UsageError, match=f"the network's name {too_long}"):
        td.Network(LONG)
    net = td.Network()
    x = net.input("x", (3,))
    with pytest.raises(td.UsageError, match=f"the name of an output {too_long}") as caught:
        net.output(F.relu(x), LONG)
    assert caught.value.location.line == line_of(test_names_that_are_too_long, "net.output(F.relu(x), LONG)")
    assert net.outputs == {}
    with pytest.raises(td.UsageError, match=f"a module's name {too_long}"), net.scope(LONG):
        pass
    net.output(F.relu(x), "y")
    assert net.outputs["y"].trt.name == "y"


def test_a_call_of_the_author_himself_ends_at_the_next_one():
    @td.network(inputs={"x": td.Input((1, 3, 8, 8))})
    def raw(x):
        layer = convolution(x)
        layer.bias = x.network.trt.Weights()
        return F.relu(x.network.wrap(layer.get_output(0)))

    with pytest.raises(td.DefinitionError, match=f"TensorRT refused a call before this one: {NO_BIAS}") as caught:
        raw.define()
    assert caught.value.location.line == line_of(raw.function, "return F.relu")


def test_a_call_of_the_author_himself_ends_a_definition():
    net = td.Network()
    x = net.input("x", (1, 3, 8, 8))

    def define():
        with net.current():
            layer = convolution(x)
            net.output(net.wrap(layer.get_output(0)), "y")
            layer.bias = net.trt.Weights()

    with pytest.raises(td.DefinitionError, match=f"TensorRT refused a call while the network was defined: {NO_BIAS}"):
        define()
    assert net.backend.listening == []
    with net.current():
        F.relu(x)


def test_an_error_of_the_authors_own_is_not_hidden():
    net = td.Network()
    x = net.input("x", (1, 3, 8, 8))

    def define():
        with net.current(), net.operation("fold"):
            convolution(x).bias = net.trt.Weights()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        define()
    with net.current():
        F.relu(x)


def test_a_call_inside_of_itself_listens_to_the_end():
    """A product that waits is added in its own call, also where that is the current one."""
    net = td.Network()
    layer = convolution(net.input("x", (1, 3, 8, 8)))

    def define():
        with net.operation("fold") as current:
            with current:
                layer.stride_nd = (1, 1)
            layer.bias = net.trt.Weights()

    with pytest.raises(td.DefinitionError, match=NO_BIAS):
        define()
    assert net.backend.listening == []


def test_a_profile_that_is_refused_by_the_log_alone():
    net = td.Network()
    net.output(F.relu(net.input("x", ("N", 3))), "y")
    profile = {"x": {"min": (3, 3), "opt": (2, 3), "max": (1, 3)}}
    plan, messages = compile_definition(net.definition, get_backend(), [profile])
    assert plan is None
    assert messages.summary().startswith("Invalid optimization profiles for input tensors x")
