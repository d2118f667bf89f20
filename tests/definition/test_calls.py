"""What a network remembers of the author's calls: which layers one call became, and their shapes in his dimensions."""

import trtdsl as td
import trtdsl.functional as F


def layers(net):
    return [net.definition.get_layer(index).name for index in range(net.definition.num_layers)]


def test_layers_of_one_call_have_one_operation():
    net = td.Network()
    x = net.input("x", ("N", 6))
    y = F.softmax(F.linear(x, net.constant([[1.0] * 6] * 4), net.constant([1.0] * 4)), 1)
    net.output(y.reshape(y.shape[0], 2, 2).permute(0, 2, 1), "y")
    names = [net.layers[name].call.name for name in layers(net)]
    assert set(names) == {"linear", "softmax", "permute"}  # the reshape is part of the last call's one shuffle
    assert len({id(net.layers[name].call) for name in layers(net)}) == 3


def test_two_calls_on_one_line_are_two():
    net = td.Network()
    x = net.input("x", (3,))
    net.output(F.exp(F.exp(x)), "y")
    first, second = (net.layers[name].call for name in layers(net))
    assert first is not second and first.location == second.location


def test_shapes_are_in_the_authors_dimensions():
    net = td.Network()
    x = net.input("x", ("N", "T"))
    values, indices = F.topk(F.cat([x, x], 1), 3)
    net.output(values, "values")
    net.output(indices, "indices")
    assert net.definition.num_outputs == 2
    assert [str(net.layers[name].results[0].shape) for name in ("cat", "topk")] == ["(N, 2*T)", "(N, 3)"]
