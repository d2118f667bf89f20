"""The calls that can be lowered in several ways: how they are named, and who says which way they take."""

import torch

import trtdsl as td
import trtdsl.functional as F
from trtdsl.definition.tuning.choices import Choices


def slopes(net, channels=4):
    return net.constant(torch.full((channels,), 0.1))


def twice(x, w):
    return F.prelu(F.prelu(x, w), w)


def keys(net):
    assert net.definition.num_layers
    return [site.key for site in net.choices.sites]


def test_a_call_is_named_without_its_line():
    net = td.Network()
    x, w = net.input("x", ("N", 4, 5)), slopes(net)
    for _ in range(2):
        twice(x, w)
    F.prelu(x, w), F.prelu(x, w)
    assert [(key.within, key.operation, key.function, key.ordinal) for key in keys(net)] == [
        *[("twice", "prelu", "prelu", ordinal) for ordinal in range(4)],
        *[("test_a_call_is_named_without_its_line", "prelu", "prelu", ordinal) for ordinal in range(2)],
    ]
    assert {key.file for key in keys(net)} == {"test_choices.py"}
    site = net.choices.sites[0]
    assert site.operands == ("(N, 4, 5) float32",)
    assert site.ways == ("fused", "layer") and site.lowering == "fused" and not site.given
    assert site.location.line == twice.__code__.co_firstlineno + 1


def test_a_comprehension_is_part_of_the_function_around_it():
    net = td.Network()
    x, w = net.input("x", (2, 4, 5)), slopes(net)
    made = [F.prelu(x, w) for _ in "ab"], {k: F.prelu(x, w) for k in "c"}, tuple(F.prelu(x, w) for _ in "d")
    assert [len(each) for each in made] == [2, 1, 1]
    here = "test_a_comprehension_is_part_of_the_function_around_it"
    assert [(key.within, key.ordinal) for key in keys(net)] == [(here, ordinal) for ordinal in range(4)]


def test_two_functions_on_one_line_are_two_calls():
    net = td.Network()
    x, w = net.input("x", (2, 4, 5)), slopes(net)
    net.output(F.einsum("ncl,ncl->nl", F.prelu(x, w), x), "y")
    assert [key.function for key in keys(net)] == ["prelu", "einsum"]
    assert len(set(keys(net))) == 2


def test_a_function_inside_another_has_the_operation_of_the_author():
    net = td.Network()
    u, b = net.input("u", (2, 3, 5)), net.input("b", (2, 4, 5))
    net.output(F.selective_scan(u, u, net.constant(-torch.ones(3, 4)), b, b, lowering="blocks"), "y")
    found = {(key.operation, key.function) for key in keys(net)}
    assert ("selective_scan", "selective_scan") in found and ("selective_scan", "einsum") in found


def test_a_file_is_named_from_the_networks_folder_and_a_notebook_not_at_all(tmp_path):
    file = tmp_path / "parts" / "blocks.py"
    file.parent.mkdir()
    text = "import trtdsl.functional as F\ndef block(x, w):\n    return F.prelu(x, w)\n"
    file.write_text(text)
    spaces = []
    for name in (str(file), "<ipython-input-3-abc>", str(tmp_path / "ipykernel_1" / "9.py")):
        space = {}
        exec(compile(text, name, "exec"), space)
        spaces.append(space)
    net = td.Network()
    net.choices.folder = tmp_path.resolve()
    for space in spaces:
        space["block"](net.input(f"x{len(net.inputs)}", (2, 4, 5)), slopes(net))
    assert [(key.file, key.ordinal) for key in keys(net)] == [("parts/blocks.py", 0), ("", 0), ("", 1)]


def test_the_author_comes_before_a_tuning_and_a_tuning_before_a_start():
    def types(lowering, **how):
        net = td.Network()
        net.choices = Choices(**how)
        net.output(F.prelu(net.input("x", (2, 4, 5)), slopes(net), lowering=lowering), "y")
        return "PARAMETRIC_RELU" in {layer.type for layer in td.summarize(net).layers}, net.choices.sites[0]

    plain, site = types("auto")
    assert not plain
    assert types("auto", start={"prelu": "layer"})[0]
    assert types("auto", start={"prelu": "fused"}, tuned={site.key: "layer"})[0]
    fixed, site = types("fused", start={"prelu": "layer"})
    assert not fixed and site.given


def test_constants_leave_no_choice():
    net = td.Network()
    F.prelu(net.constant(torch.ones(2, 4)), slopes(net))
    assert not net.choices.sites
