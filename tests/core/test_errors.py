"""Messages of errors."""

import math

import numpy as np
import pytest
import torch

import trtdsl as td
import trtdsl.functional as F


def test_a_value_of_any_size_leaves_a_message_that_can_be_read():
    with pytest.raises(td.UsageError) as caught:
        td.program(bytes(1_000_000))
    assert str(caught.value).startswith("a program is that of a network")
    assert len(str(caught.value)) < 10_000


@pytest.mark.parametrize("use", [td.load_engine, td.load_spec, lambda name: td.evaluate_engine(name, {}), td.program])
def test_no_message_has_a_control_character(use):
    with pytest.raises(td.UsageError) as caught:
        use("a\0b\x1b[2J\u202e.engine")
    assert "a?b?.engine" in caught.value.message
    assert str(caught.value).isprintable()


def test_lines_and_tabs_of_a_message_stay():
    assert str(td.UsageError("a\n\tb\r")) == "a\n\tb?"


@pytest.mark.parametrize("given", [5, None, [], object(), math.nan])
def test_what_is_no_name_of_an_engine(given):
    for use in (td.load_engine, lambda name: td.evaluate_engine(name, {})):
        with pytest.raises(td.UsageError, match="an engine is the name of a file, not "):
            use(given)


@pytest.mark.parametrize(
    ("feeds", "message"),
    [
        (5, "feeds are a mapping from the inputs' names to arrays, not int"),
        (None, "not NoneType"),
        ([1.0], "not list"),
        ({"x": "a"}, "'x' cannot be read as a tensor"),
        ({"x": None}, "'x' cannot be read as a tensor"),
        ({"x": object()}, "'x' cannot be read as a tensor"),
        ({5: 1.0}, "5"),
    ],
)
def test_what_is_no_feed(feeds, message):
    net = td.Network()
    net.output(F.relu(net.input("x", (3,))), "y")
    for evaluate in (td.interpret, td.evaluate_engine):
        with pytest.raises(td.FeedError, match=message):
            evaluate(net, feeds)


@pytest.mark.parametrize("sizes", [("1", 2, 3), (1, math.nan, 3), (1.5, 2, 3), (1, 2, 3.0), ([1], 2, 3)])
def test_what_is_no_size_of_a_dimension(sizes):
    low, opt, high = sizes
    with pytest.raises(td.UsageError, match="dimension N: min, opt and max are whole numbers, not "):
        td.Dim("N", min=low, opt=opt, max=high)


def test_sizes_of_other_libraries_are_numbers():
    assert [type(size) for size in td.Dim("N", min=np.int64(1), opt=torch.tensor(2), max=3).range] == [int] * 3
