"""The author's call: its name, place and scope go to the layers and errors below it, and the outermost call counts."""

import inspect
from pathlib import Path

import pytest
import torch

import trtdsl as td
import trtdsl.functional as F
from trtdsl.definition.operation import Operation, operation

HERE = Path(__file__).name


def line_of(net, name):
    place = net.layers[name].location
    return Path(place.file).name, place.line


def here():
    return inspect.currentframe().f_back.f_lineno


def test_the_outermost_call_names_the_layers_and_their_line():
    net = td.Network()
    x = net.input("x", (2, 3))
    line = here() + 1
    y = F.softplus(x)  # several layers, by calls of its own
    assert net.definition.num_layers > 1
    assert y.name.startswith("softplus")
    for index in range(net.definition.num_layers):
        name = net.definition.get_layer(index).name
        assert name.startswith(("softplus", "constant"))
        assert line_of(net, name) == (HERE, line)


def test_an_error_gets_the_line_and_the_operands_of_the_outermost_call_once():
    net = td.Network()
    a, b = net.input("a", (2, 3)), net.input("b", (4, 5))
    line = here() + 2
    with pytest.raises(td.ShapeError) as caught:
        F.linear(a, b)
    assert (Path(caught.value.location.file).name, caught.value.location.line) == (HERE, line)
    assert caught.value.context == ["in linear(…)", "input: (2, 3) float32", "weight: (4, 5) float32"]


def test_operands_in_lists_and_keywords_are_named_by_where_they_stand():
    net = td.Network()
    a, b = net.input("a", (2, 3)), net.input("b", (4, 5))
    with pytest.raises(td.DefinitionError) as caught:
        F.cat([a, b], dim=0)
    assert caught.value.context[0] == "in cat(…)"
    assert caught.value.context[1].endswith("[0]: (2, 3) float32")
    assert caught.value.context[2].endswith("[1]: (4, 5) float32")
    with pytest.raises(td.ShapeError) as caught:
        F.conv2d(a, weight=b)
    assert caught.value.context == ["in conv2d(…)", "input: (2, 3) float32", "weight: (4, 5) float32"]


def test_an_operation_ends_with_its_call_and_after_an_error():
    net = td.Network()
    x = net.input("x", (2, 3))
    F.relu(x)
    assert net.current_operation is None
    with pytest.raises(td.ShapeError):
        F.reshape(x, (7,))
    assert net.current_operation is None


def test_the_outermost_operation_stays_current():
    net = td.Network()
    with net.operation("outer", td.core.errors.Location("file.py", 7)) as outer:
        assert net.current_operation is outer
        with net.operation("inner"):
            assert net.current_operation is outer
        with Operation(net, "resumed"):  # entered by itself it counts: a shuffle that is added later
            assert net.current_operation.name == "resumed"
        assert net.current_operation is outer
        with outer:  # and the current one can be entered again
            assert net.current_operation is outer
        assert net.current_operation is outer
    assert net.current_operation is None
    assert (outer.name, outer.location.line) == ("outer", 7)


def test_a_shuffle_is_added_later_in_the_name_scope_and_line_of_its_own_call():
    net = td.Network()
    x = net.input("x", (2, 3))
    with net.scope("encoder"):
        line = here() + 1
        y = x.transpose(0, 1)
    assert net.definition.num_layers == 0
    with net.scope("decoder"):
        F.relu(y)
    names = [net.definition.get_layer(index).name for index in range(net.definition.num_layers)]
    assert names == ["encoder.transpose", "decoder.relu"]
    assert line_of(net, "encoder.transpose") == (HERE, line)


def test_a_call_does_not_keep_its_operands_when_its_layers_are_added():
    net = td.Network()
    y = F.relu(net.input("x", (2, 3)))
    assert net.definition.num_layers == 1
    assert y.node.operation._call is None and y.node.operands == ()


def test_arrays_become_constants_in_the_authors_call_alone():
    seen = []

    @operation
    def inner(x, y):
        seen.append(type(y))
        return x

    @operation
    def outer(x, y):
        inner(x, torch.ones(1))
        seen.append(type(y))
        return x

    x = td.Network().input("x", (2,))
    outer(x, torch.ones(1))
    assert seen == [torch.Tensor, type(x)]


@pytest.mark.parametrize(("length", "type"), [(8, "SOFTMAX"), (5, "UNARY")])
def test_a_composed_function_leaves_precision_to_its_parts(length, type):
    """torch.autocast runs the products of an attention low, and its softmax in float32."""
    net = td.Network(precision="fp16")
    x, w = net.input("x", (length, 2, 8)), net.constant(torch.ones(24, 8))
    F.multi_head_attention_forward(
        x, x, x, 8, 2, w, None, None, None, False, 0.0, net.constant(torch.ones(8, 8)), None, False
    )
    kinds = {}
    for index in range(net.definition.num_layers):
        layer = net.definition.get_layer(index)
        kinds.setdefault(layer.type.name, set()).add(layer.get_output(0).dtype.name)
    assert kinds["MATRIX_MULTIPLY"] == {"HALF"}
    assert kinds[type] == {"FLOAT"}
    assert net.precision == torch.float16


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda x: F.relu(0), "F.relu takes a Tensor as 'input', not int: 0"),
        (lambda x: x.mean("N"), "F.mean takes int | Sequence[int] | None as 'dim', not str: 'N'"),
        (lambda x: F.relu((x, 1)), "F.relu takes a Tensor as 'input', not tuple"),
        (lambda x: F.linear((x, 1), x), "F.linear takes a Tensor as 'input', not tuple"),
        (
            lambda x: F.relu(torch.ones(2)),
            "F.relu takes a Tensor as 'input', not torch's outside of a network: tensor(",
        ),
        (lambda x: F.softmax(0, 1), "F.softmax takes a Tensor as 'input', not int: 0"),
        (
            lambda x: F.view(x, "6"),
            "F.view takes int | Size | Sequence[int | Size] | torch.dtype as 'shape', not str: '6'",
        ),
        (lambda x: F.pad(x, 1), "F.pad takes Sequence[int | Size] as 'pad', not int: 1"),
        (
            lambda x: F.max_pool1d(x, 2, stride="2"),
            "F.max_pool1d takes int | Size | Sequence[int | Size] | None as 'stride', not str: '2'",
        ),
        (
            lambda x: F.conv1d(x, torch.ones(2, 2, 1), stride="2"),
            "F.conv1d takes int | Sequence[int] as 'stride', not str: '2'",
        ),
        (lambda x: F.cat(x), "F.cat takes Sequence[Tensor] as 'tensors', not Tensor: Tensor(x: (2, 3) float32)"),
        (lambda x: F.stack(x, x), "F.stack takes Sequence[Tensor] as 'tensors', not Tensor: Tensor(x"),
        (lambda x: F.arange(x.sum()), "F.arange takes int | Size | float as 'start', not Tensor: Tensor(sum: ()"),
        (lambda x: F.linspace(0, 1, x.sum()), "F.linspace takes int | Size as 'steps', not Tensor: Tensor(sum: ()"),
    ],
)
def test_an_argument_of_another_type_is_named(call, words):
    with pytest.raises(td.DefinitionError) as caught:
        call(td.Network().input("x", (2, 3)))
    assert words in str(caught.value)
    assert caught.value.location.file == __file__


def test_what_no_annotation_tells_is_said_of_the_call():
    with pytest.raises(TypeError, match=r"F.split does not take \('a', dim=1\): unsupported operand"):
        F.split(td.Network().input("x", (2, 3)), "a", dim=1)


def test_a_module_for_a_weight_leaves_the_errors_own_message():
    net = td.Network()
    w, x = net.weights({"fc.weight": torch.ones(2, 3)}), net.input("x", (5, 3))
    with pytest.raises(td.UnsupportedError, match="unknown lowering") as caught:
        F.prelu(x, torch.ones(1), lowering=w.fc)
    assert "input: (5, 3) float32" in str(caught.value)


def test_a_mistake_in_a_function_that_is_called_often_says_from_where():
    def twice(x, w):
        return F.conv2d(x, w)

    net = td.Network()
    x = net.input("x", (1, 4, 8, 8))
    twice(x, torch.ones(8, 4, 1, 1))
    with pytest.raises(td.ShapeError) as caught:
        twice(x, torch.ones(8, 3, 1, 1))  # told
    line = next(n for n, text in enumerate(Path(__file__).read_text().splitlines(), 1) if text.endswith("# told"))
    assert caught.value.context[0] == f"in conv2d(…), from definition/test_operation.py:{line}"
