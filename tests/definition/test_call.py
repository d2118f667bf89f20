"""Where a call stands, and who calls the function around it."""

import torch

import trtdsl as td
import trtdsl.functional as F


def test_a_layers_metadata_says_who_calls_a_helper():
    def helper(x):
        return [F.relu(each) for each in [x]]

    net = td.Network()
    x = net.input("x", (2, 3))
    helper(x)
    here, line = "definition/test_call.py", helper.__code__.co_firstlineno
    assert net.definition.get_layer(0).metadata == f"{here}:{line + 1} relu from {here}:{line + 5}"


def test_a_library_that_calls_the_authors_function_is_no_caller():
    def body(total):
        return (F.relu(total) + 1,)

    net = td.Network()
    td.while_loop(lambda total: total.sum() < 10, body, (net.input("x", (3,)),))
    assert net.definition.num_layers and {facts.call.caller for facts in net.layers.values()} == {None}


def test_a_call_in_a_comprehension_is_the_functions():
    def twice(x):
        return [each.exp() for each in (x, x)]

    net = td.Network()
    x = net.input("x", (2,))
    y, z = twice(x)
    net.output(torch.add(y, z), "y")
    assert net.definition.num_layers == 3
    lines = {facts.call.caller.line for facts in net.layers.values() if facts.call.name == "exp"}
    assert lines == {twice.__code__.co_firstlineno + 5}
