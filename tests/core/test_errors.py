"""Messages of errors."""

import pytest

import trtdsl as td


def test_a_value_of_any_size_leaves_a_message_that_can_be_read():
    with pytest.raises(td.UsageError) as caught:
        td.program(bytes(1_000_000))
    assert str(caught.value).startswith("a program is that of a network")
    assert len(str(caught.value)) < 10_000
