"""Which launch reads what another wrote."""

import pytest

import trtdsl.functional as F


@pytest.fixture
def program(program_of, constant):
    """A transpose of an input, a convolution, a transpose, and a product of what the convolution gave."""

    def write(net):
        x = F.conv2d(net.input("x", (2, 8, 16, 16)), constant(net, 32, 8, 3, 3), padding=1)
        return F.matmul(x.reshape(2, 32, 256), constant(net, 256, 64))

    return program_of(write)


@pytest.fixture
def graph(program):
    return program.graph


def kinds(launches):
    return [launch.kind for launch in launches]


def test_neighbours_and_what_lies_between(graph):
    first, convolution, *between, product = graph.launches
    assert kinds(graph.launches)[:2] == ["rearranging", "convolution"]
    assert between and set(kinds(between)) == {"rearranging"}
    assert graph.producers(first) == []
    assert graph.consumers(first) == [convolution]
    assert graph.before(product) == [convolution]
    assert graph.after(convolution) == [product]
    assert graph.neighbours(between[0]) == (convolution, product)
    assert graph.neighbours(first) == (None, convolution)


def test_a_cause_names_the_launches_around_it(graph):
    first, convolution, between, *_ = graph.launches
    assert graph.cause(first) == f"of an input, before the convolution at {convolution.lines[-1]}"
    assert graph.cause(between).startswith(f"after the convolution at {convolution.lines[-1]}, before the product at ")


def test_a_launch_without_a_line_belongs_to_its_reader(program, graph):
    first, convolution, *_ = graph.launches
    assert first.lines == ()
    assert graph.lines(first) == convolution.lines[:1]
    shares = {share.name: share for share in program.by("line")}
    assert sum(share.bytes for share in shares.values()) == program.bytes
    assert "" not in shares


def test_a_view_stands_for_its_tensor(graph):
    views = [tensor for tensor in graph.tensors.values() if tensor.view_of is not None]
    for view in views:
        assert graph.root(view.name) == graph.root(view.view_of)
