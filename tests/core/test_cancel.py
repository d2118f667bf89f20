"""Ctrl-C, which a real signal stands for here."""

import os
import signal
import threading
import time

import pytest

import trtdsl as td
from trtdsl.cli import interrupt
from trtdsl.cli.interrupt import answered
from trtdsl.core import cancel
from trtdsl.core.cancel import cancellable, noted
from trtdsl.core.files.writing import Kind, check_writable, write_all_atomically


@pytest.fixture(autouse=True)
def nothing_noticed():
    cancel.NOTICED.clear()
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # jobs in the background start with it ignored
    yield
    signal.signal(signal.SIGINT, before)
    cancel.NOTICED.clear()
    cancel.PRESSED.clear()


def press():
    signal.raise_signal(signal.SIGINT)  # in this thread, and answered before the next line, unlike os.kill


def test_ctrl_c_is_one_error_that_says_what_was_kept():
    with pytest.raises(td.CancelledError, match="^cancelled; nothing was written$") as caught, cancellable():
        press()
    assert caught.value.exit_code == 130
    assert cancel.NOTICED.is_set()


def test_several_files_are_written_whole_and_named(tmp_path, monkeypatch):
    """Ctrl-C between the first name and the second."""
    rename = os.replace

    def pressing(name, path):
        rename(name, path)
        press()

    monkeypatch.setattr(os, "replace", pressing)
    kind = Kind("a text", "a")
    files = {check_writable(tmp_path / name, kind, []): b"a" for name in ("one", "two", "three")}
    with pytest.raises(td.CancelledError, match="cancelled when .*one and 2 more were written$"), cancellable():
        write_all_atomically(files)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one", "three", "two"]
    with pytest.raises(td.CancelledError, match="^cancelled; nothing was written$"), cancellable():
        press()


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


def test_a_note_is_left_of_every_signal_that_a_command_answers():
    """Otherwise it is raised within a callback of TensorRT's, which loses it and prints a traceback."""
    before = signal.getsignal(signal.SIGTERM)
    with answered():
        with noted() as pressed:
            signal.raise_signal(signal.SIGTERM)
            assert pressed()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGTERM)
    with noted():
        assert signal.getsignal(signal.SIGTERM) is before


def test_ctrl_c_that_a_finalizer_loses_is_raised_again_at_once(capsys, monkeypatch):
    class Lost:
        def __del__(self):
            press()

    monkeypatch.setattr(interrupt, "PATIENCE", 60)

    def work():
        Lost()
        for _ in range(3000):
            time.sleep(0.01)

    with answered(), pytest.raises(KeyboardInterrupt):
        work()
    assert "Traceback" not in capsys.readouterr().err


def test_ctrl_c_again_does_not_end_the_error_that_says_so():
    with answered():
        with pytest.raises(td.CancelledError), cancellable():
            press()
        press()
    with answered(), pytest.raises(KeyboardInterrupt):  # another command of this process
        press()


def test_a_thread_besides_the_main_one_has_no_signals():
    seen = []

    def work():
        with noted() as pressed:
            seen.append(pressed())

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [False]


def lost_in_a_library():
    try:
        press()
    except KeyboardInterrupt:
        raise RuntimeError("something else") from None


def test_an_error_that_a_library_makes_of_ctrl_c_is_known_as_such_at_once():
    """The note does not wait for the thread that answers, which a busy machine may run later."""
    with answered():
        with pytest.raises(RuntimeError):
            lost_in_a_library()
        assert cancel.PRESSED.is_set()
