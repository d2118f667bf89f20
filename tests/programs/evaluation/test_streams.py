"""Races between streams: two launches that use one piece of memory and that no event orders."""

import pytest

from trtdsl.core.errors import ProgramFaultError
from trtdsl.programs.evaluation.memory import Place
from trtdsl.programs.evaluation.streams import Order
from trtdsl.programs.grammar import Record


def on(stream, **fields):
    return Record({"stream": str(stream), **fields})


def place(start, length=4, stride=1):
    return Place(start, (length,), (stride,), 4)


def test_slices_between_each_other_do_not_meet():
    assert not place(0, 4, 2).meets(place(4, 4, 2))
    assert place(0, 4, 2).meets(place(8, 4, 2))
    assert not place(0, 4).meets(place(16, 4))
    assert not Place(0, (0,), (1,), 4).meets(place(0))


def test_a_read_on_another_stream_needs_an_event():
    order = Order(2)
    order.launch(on(0), "launch 0, a,", [], [place(0)])
    with pytest.raises(ProgramFaultError, match="launch 1, b, races with launch 0, a: .*streams 1 and 0"):
        order.launch(on(1), "launch 1, b,", [place(0)], [place(64)])


def test_an_event_orders_what_came_before_it_and_no_more():
    order = Order(2)
    order.launch(on(0), "launch 0, a,", [], [place(0)])
    order.note("signal", on(0, event="1"))
    order.launch(on(0), "launch 1, b,", [], [place(64)])
    order.note("wait", on(1, event="1"))
    order.launch(on(1), "launch 2, c,", [place(0)], [place(128)])
    with pytest.raises(ProgramFaultError, match="races with launch 1, b"):
        order.launch(on(1), "launch 3, d,", [place(64)], [])


def test_reading_together_is_no_race():
    order = Order(2)
    order.launch(on(0), "launch 0, a,", [place(0)], [place(64)])
    order.launch(on(1), "launch 1, b,", [place(0)], [place(128)])
