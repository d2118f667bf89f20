"""Ctrl-C, which a real signal stands for here."""

import os
import signal
import threading

import pytest

import trtdsl as td
from trtdsl.core import cancel
from trtdsl.core.cancel import cancellable, noted


@pytest.fixture(autouse=True)
def nothing_noticed():
    cancel.NOTICED.clear()
    yield
    cancel.NOTICED.clear()


def press():
    os.kill(os.getpid(), signal.SIGINT)


def test_ctrl_c_is_one_error_that_says_what_was_kept():
    with pytest.raises(td.CancelledError, match="^cancelled; nothing was written$") as caught, cancellable():
        press()
    assert caught.value.exit_code == 130
    assert cancel.NOTICED.is_set()


def test_a_cancellation_keeps_its_own_words():
    with pytest.raises(td.CancelledError, match="the first half is kept"), cancellable():
        raise td.CancelledError("the first half is kept")
    assert cancel.NOTICED.is_set()


def test_other_errors_are_no_cancellations():
    with pytest.raises(ZeroDivisionError), cancellable():
        raise ZeroDivisionError
    assert not cancel.NOTICED.is_set()


def test_a_note_is_left_where_nothing_may_be_raised():
    before = signal.getsignal(signal.SIGINT)
    with noted() as pressed:
        assert not pressed()
        press()
        assert pressed()
    assert signal.getsignal(signal.SIGINT) is before
    with noted() as pressed:
        assert not pressed()


def test_a_thread_besides_the_main_one_has_no_signals():
    seen = []

    def work():
        with noted() as pressed:
            seen.append(pressed())

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [False]
