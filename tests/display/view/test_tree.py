"""How a network becomes boxes: modules, loops, branches, calls; and what each box says."""

from pathlib import Path

import torch

import trtdsl as td
import trtdsl.functional as F
import trtdsl.layers as L
from trtdsl.display.view.model import make_model

ROOT = Path(__file__).parents[3]


def items(net, kind=None):
    model = make_model(net)
    return [item for item in model["items"] if kind in (None, item["kind"])]


def inside(model, label):
    """The labels of what stands in the box of that label."""
    (place,) = [index for index, item in enumerate(model["items"]) if item["label"] == label]
    return [item["label"] for item in model["items"] if item["parent"] == place]


def weights(net, *names, size=4):
    return {name: net.constant(torch.randn(size, size), source=name) for name in names}


def test_modules_are_boxes_and_calls_stand_in_them():
    net = td.Network("two")
    w = weights(net, "a.0.weight", "a.1.weight", "b.weight")
    x = net.input("x", ("N", 4))
    x = F.relu(F.linear(x, w["a.0.weight"]))
    x = F.relu(F.linear(x, w["a.1.weight"]))
    net.output(F.linear(x, w["b.weight"]), "y")
    model = make_model(net)
    assert inside(model, "two") == ["x", "a", "b.linear", "y"]
    assert inside(model, "a") == ["a.0.linear", "relu", "a.1.linear", "relu"]


def test_a_call_of_several_layers_opens_to_them():
    net = td.Network()
    x = net.input("x", (2, 3, 4))
    net.output(F.linear(x, net.constant(torch.randn(4, 4)), net.constant(torch.randn(4))), "y")
    model = make_model(net)
    assert inside(model, "linear") == ["matrix multiply", "add"]
    call = next(item for item in model["items"] if item["label"] == "linear")
    assert call["category"] == "product" and call["count"] == 4  # two of them are the constants
    assert call["line"] == f"view/test_tree.py:{model['lines'][call['line']]['line']}"


def test_costs_are_those_of_the_sizes_that_are_tuned_for():
    net = td.Network(profiles=[td.Profile(N=(1, 3, 8))])
    x = net.input("x", ("N", 5))
    net.output(F.matmul(x, net.constant(torch.randn(5, 7))), "y")
    whole = items(net)[0]
    assert whole["flops"] == 2 * 3 * 5 * 7 and whole["parameters"] == 35
    (shape,) = [tensor for tensor in make_model(net)["tensors"] if tensor["name"] == "y"]
    assert shape["shape"] == ("N", "7") and shape["sizes"] == (3, 7)


def test_without_a_range_costs_are_not_known():
    net = td.Network()
    net.output(F.exp(net.input("x", ("N", 5))), "y")
    (call,) = items(net, "call")
    assert call["flops"] is None and call["bytes"] is None


def test_a_loop_is_a_box_with_its_turns_and_what_goes_back():
    net = td.Network(profiles=[td.Profile(T=(1, 6, 8))])
    x = net.input("x", ("T", 3))

    def step(state, row):
        return state * 0.5 + row, ()

    last, _ = td.scan(step, net.constant([0.0, 0.0, 0.0]), x)
    net.output(last, "y")
    model = make_model(net)
    (loop,) = [item for item in model["items"] if item["kind"] == "loop"]
    assert (loop["label"], loop["note"]) == ("scan", "× T = 6")
    back = [edge for edge in model["edges"] if edge[3] == "back"]
    assert [(model["items"][a]["label"], model["items"][b]["label"]) for a, b, *_ in back] == [("add", "state")]
    (product,) = [item for item in model["items"] if item["label"] == "mul" and not item.get("aside")]
    assert product["times"] == 6 and product["flops"] == 6 * 3


def test_branches_of_a_conditional_are_boxes():
    net = td.Network()
    x, which = net.input("x", (3,)), net.input("which", (), "bool")
    net.output(td.cond(which, lambda x: F.exp(F.relu(x)), lambda x: F.neg(x), (x,)), "y")
    model = make_model(net)
    assert "relu" in inside(model, "then") and "neg" not in inside(model, "then")
    assert "neg" in inside(model, "else")


def test_a_module_that_is_used_twice_is_a_box_for_each_time():
    net = td.Network("siamese")
    w = weights(net, "encoder.one.weight", "encoder.two.weight", "middle.weight")
    x = net.input("x", ("N", 4))

    def encode(x):
        return F.linear(F.relu(F.linear(x, w["encoder.one.weight"])), w["encoder.two.weight"])

    net.output(encode(F.linear(encode(x), w["middle.weight"])), "y")
    model = make_model(net)
    uses = [item for item in model["items"] if item["label"] == "encoder"]
    assert [item["note"] for item in uses] == ["use 1 of 2", "use 2 of 2"]
    assert no_circle(model)


def test_calls_between_two_halves_of_a_module_stand_in_it():
    net = td.Network("halves")
    w = weights(net, "m.one.weight", "m.two.weight", "other.weight")
    x = net.input("x", ("N", 4))
    skipped = F.linear(x, w["other.weight"])
    y = F.linear(skipped, w["m.one.weight"])
    net.output(F.linear(skipped + y, w["m.two.weight"]), "y")  # the sum has the scope of its first operand
    model = make_model(net)
    assert inside(model, "m") == ["one.linear", "add", "two.linear"]
    assert no_circle(model)


def no_circle(model):
    """Whether the boxes of every box can be put in an order such that values go forward only."""
    items, edges = model["items"], [edge for edge in model["edges"] if edge[3] != "back"]

    def path(index):
        return path(items[index]["parent"]) + [index] if index >= 0 else []

    after = {}
    for source, target, *_ in edges:
        a, b = path(source), path(target)
        place = next(k for k, pair in enumerate(zip(a, b)) if pair[0] != pair[1])
        after.setdefault(a[place], set()).add(b[place])
    state = {}

    def visit(index):
        state[index] = "open"
        for other in after.get(index, ()):
            if state.get(other) == "open" or (other not in state and not visit(other)):
                return False
        state[index] = "done"
        return True

    return all(index in state or visit(index) for index in list(after))


def test_work_behind_a_modules_last_weight_stands_beside_it():
    net = td.Network("n")
    w = weights(net, "m.a.weight", "m.b.weight")
    x = net.input("x", ("N", 4))
    x = F.linear(F.linear(x, w["m.a.weight"]), w["m.b.weight"])
    net.output(F.einsum("ni,mi->nm", x, x), "y")
    assert inside(make_model(net), "n") == ["x", "m", "einsum", "y"]


def test_sizes_are_set_aside():
    net = td.Network()
    x = net.input("x", ("N", 4))
    with net.current():
        net.output(F.arange(x.shape[0] * 2).reshape(2, -1) + x.shape[0] * 3, "y")
    aside = {item["label"] for item in items(net, "call") if item.get("aside")}
    assert "arange" not in aside and "add" not in aside
    model = make_model(net)
    assert {edge[3] for edge in model["edges"]} == {"value", "size"}


def test_very_many_calls_of_one_module_are_shown_in_parts():
    net = td.Network()
    x = net.input("x", (3,))
    for _ in range(400):
        x = F.exp(x)
    net.output(x, "y")
    model = make_model(net)
    parts = [item for item in model["items"] if item["kind"] == "part"]
    assert [part["label"] for part in parts] == [f"boxes {k + 1} to {min(k + 64, 400)}" for k in range(0, 400, 64)]
    assert no_circle(model)


def test_a_network_of_nothing_but_its_input():
    net = td.Network("empty")
    assert [item["kind"] for item in make_model(net)["items"]] == ["network"]
    net.input("x", (2,))
    assert [item["kind"] for item in make_model(net)["items"]] == ["network", "input"]


def test_deep_modules():
    net = td.Network()
    x = net.input("x", (4, 4))
    for depth in range(30, 0, -1):
        name = ".".join(f"m{level}" for level in range(depth))
        x = F.linear(x, net.constant(torch.randn(4, 4), source=f"{name}.weight"))
    net.output(x, "y")
    model = make_model(net)
    depth = {0: 0}
    for index, item in enumerate(model["items"][1:], 1):
        depth[index] = depth[item["parent"]] + 1
    assert max(depth.values()) >= 29 and no_circle(model)


def test_a_module_that_is_unrolled_is_a_box_for_each_turn():
    net = td.Network("unrolled")
    w = weights(net, "update.a.weight", "update.b.weight")
    x = net.input("x", ("N", 4))
    for _ in range(3):
        x = F.softmax(F.linear(F.tanh(F.linear(x, w["update.a.weight"])), w["update.b.weight"]), 1)
    net.output(x, "y")
    model = make_model(net)
    uses = [item for item in model["items"] if item["label"] == "update"]
    assert [item["note"] for item in uses] == ["use 1 of 3", "use 2 of 3", "use 3 of 3"]
    assert no_circle(model)


def test_parts_of_one_weight_are_one_use():
    net = td.Network("parts")
    w = net.constant(torch.randn(12, 4), source="m.qkv.weight")
    x = net.input("x", ("N", 4))
    q, k, v = (F.linear(x, w[4 * part : 4 * part + 4]) for part in range(3))
    net.output(q + k + v, "y")
    assert all("use" not in item.get("note", "") for item in make_model(net)["items"])


def test_the_sum_that_ends_a_residual_block_stands_in_it():
    net = td.Network("residual")
    w = weights(net, *(f"blocks.{block}.{name}.weight" for block in range(2) for name in "ab"))
    x = net.input("x", ("N", 4))
    for block in range(2):
        y = F.relu(F.linear(x, w[f"blocks.{block}.a.weight"]))
        x = F.relu(x + F.linear(y, w[f"blocks.{block}.b.weight"]))  # the sum has the scope of the block before
    net.output(x, "y")
    model = make_model(net)
    assert inside(model, "blocks") == ["blocks.0", "blocks.1"]
    for block in range(2):
        assert inside(model, f"blocks.{block}") == ["a.linear", "relu", "b.linear", "add", "relu"]
    assert no_circle(model)


def test_two_branches_that_give_each_other_what_they_computed_are_in_no_circle():
    net = td.Network("exchange")
    w = weights(
        net, *(f"{branch}.{name}.weight" for branch in ("high", "low") for name in "ab"), "up.weight", "down.weight"
    )
    x = net.input("x", ("N", 4))
    high, low = (F.linear(F.relu(F.linear(x, w[f"{at}.a.weight"])), w[f"{at}.b.weight"]) for at in ("high", "low"))
    fused = F.relu(high + F.linear(low, w["up.weight"]))  # the sums have the scopes of the branches
    net.output(fused + F.relu(low + F.linear(high, w["down.weight"])), "y")
    model = make_model(net)
    assert no_circle(model)
    assert inside(model, "high")[:3] == inside(model, "low")[:3] == ["a.linear", "relu", "b.linear"]


def test_calls_have_the_names_that_the_author_wrote():
    net = td.Network()
    x = net.input("x", (2, 6, 4))
    a, b = x[:, :3], x[:, 3:]
    c = x[0]
    net.output(L.elementwise(a, b, "PROD") + c[:3], "y")
    labels = [item["label"] for item in td.view(net).model["network"]["items"] if item["kind"] == "call"]
    assert set(labels) == {"x[:, :3]", "x[:, 3:]", "x[0]", "mul", "c[:3]", "add"}


def test_the_loops_of_a_call_stand_in_its_box_and_are_called_after_what_they_are():
    net = td.Network("speech")
    module = torch.nn.GRU(4, 3, num_layers=2, bidirectional=True)
    weights = [net.constant(weight.detach(), source=f"gru.{name}") for name, weight in module.named_parameters()]
    x, first = net.input("x", ("T", 2, 4)), net.input("h", (4, 2, 3))
    output, _ = F.gru(x, first, weights, True, 2, 0.0, False, True, False)
    net.output(output, "y")
    model = make_model(net)
    labels = [item["label"] for item in model["items"] if item["kind"] not in ("layer", "input", "output")]
    assert labels == ["speech", "gru", "layer 0 forward and backward", "layer 1 forward and backward"]
    loops = [index for index, item in enumerate(model["items"]) if item["kind"] == "loop"]
    gru = next(index for index, item in enumerate(model["items"]) if item["kind"] == "call")
    assert all(model["items"][index]["parent"] == gru for index in loops)
    for loop in loops:
        assert {"state", "matrix multiply"} <= {item["label"] for item in model["items"] if item["parent"] == loop}
    assert no_circle(model)


def test_a_product_whose_weights_were_folded_stands_in_its_module():
    items = td.view(str(ROOT / "networks" / "stgcn.py")).model["network"]["items"]
    (first,) = [
        each
        for each in items
        if each["kind"] == "call" and "st_gcn_networks.0.gcn.conv.weight" in (each.get("weights") or ())
    ]
    assert items[first["parent"]]["scope"].startswith("st_gcn_networks.0")
    top = [each["label"] for each in items if each["kind"] == "call" and each["parent"] == 0]
    assert "einsum" not in top
