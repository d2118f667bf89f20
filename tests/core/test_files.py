"""Files are written whole or not at all, also when the writer is killed; names from outside stay names."""

import errno
import json
import os
import shutil
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.kinds import ARRAY, ENGINE, HTML, KINDS, MANIFEST, RUNTIME_CACHE, STUB, SVG, TIMING_CACHE, WEIGHTS

import trtdsl as td
from trtdsl.core.files import writing
from trtdsl.core.files.names import file_name, is_file
from trtdsl.core.files.writing import check_kind, check_writable, write_all_atomically, write_atomically


def output(path):
    """A file that a test may write: the kind does not matter."""
    return check_writable(path, ARRAY, (), force=True)


KILLED = """
import os, signal, sys
from trtdsl.core.files import writing

replace, renamed = os.replace, []

def die(source, target):
    if len(renamed) == int(sys.argv[2]):
        os.kill(os.getpid(), signal.SIGKILL)
    renamed.append(target)
    replace(source, target)

kind = writing.Kind("a file", "(?!)")
outputs = [writing.check_writable(sys.argv[1] + name, kind, (), force=True) for name in ("/a.engine", "/a.engine.json")]
os.replace = die
writing.write_all_atomically(dict(zip(outputs, (b"new engine", b"new manifest"))))
"""


def killed_after(renames, folder):
    """What a writer leaves that is killed after so many of its two renames."""
    done = subprocess.run([sys.executable, "-c", KILLED, str(folder), str(renames)], env=os.environ, check=False)
    assert done.returncode == -signal.SIGKILL


@pytest.mark.parametrize("renames", [0, 1])
def test_temporary_files_of_a_killed_writer_are_removed_by_the_next(tmp_path, renames):
    (tmp_path / "a.engine").write_bytes(b"old engine")
    (tmp_path / "a.engine.json").write_bytes(b"old manifest")
    killed_after(renames, tmp_path)
    found = [(tmp_path / name).read_bytes() for name in ("a.engine", "a.engine.json")]
    assert found == [b"new engine" if renames else b"old engine", b"old manifest"]  # the manifest comes last
    assert len(list(tmp_path.iterdir())) == 6 - renames  # both have a second name until both are in their places
    write_all_atomically({output(tmp_path / "a.engine"): b"engine", output(tmp_path / "a.engine.json"): b"manifest"})
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {
        "a.engine": b"engine",
        "a.engine.json": b"manifest",
    }


def test_an_engine_with_the_manifest_of_another_build_is_called_that(tmp_path):
    net = td.network(inputs={"x": td.Input((2,))})(lambda x: {"y": x * 2})
    built = td.build(net, tmp_path / "a.engine")
    other = td.build(td.network(inputs={"x": td.Input((2,))})(lambda x: {"y": x * 3}), tmp_path / "b.engine")
    built.engine.write_bytes(other.engine.read_bytes())
    with pytest.raises(td.CorruptFileError, match="are not of one build") as caught:
        td.load_engine(built.engine)
    assert caught.value.code == "engine-damaged"
    assert td.build(net, tmp_path / "a.engine").built  # it is not taken for unchanged


def test_a_file_that_another_takes_for_abandoned_before_it_is_locked_is_made_anew(tmp_path, monkeypatch):
    lock, taken = writing._lock, []

    def late(descriptor, *, wait):
        if wait and len(taken) < 3:
            (new,) = tmp_path.glob(".trtdsl-*.tmp")
            writing._remove_if_abandoned(new)
            taken.append(new)
        lock(descriptor, wait=wait)

    target = output(tmp_path / "a.npy")
    monkeypatch.setattr(writing, "_lock", late)
    write_atomically(target, b"whole")
    assert len(taken) == 3 and [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("a.npy", b"whole")]


def test_a_writer_that_is_interrupted_before_it_has_its_lock_leaves_nothing(tmp_path, monkeypatch):
    def interrupted(descriptor, *, wait):
        raise KeyboardInterrupt

    monkeypatch.setattr(writing, "_lock", interrupted)
    with pytest.raises(KeyboardInterrupt), writing._temporary(tmp_path / "a.npy"):
        pass
    assert not list(tmp_path.iterdir())


def test_a_file_that_another_process_is_writing_is_left_alone(tmp_path):
    with writing._temporary(tmp_path / "a.npy") as (descriptor, name):
        write_atomically(output(tmp_path / "a.npy"), b"other")
        assert name.exists()
        os.close(descriptor)
    write_atomically(output(tmp_path / "a.npy"), b"again")
    assert [path.name for path in tmp_path.iterdir()] == ["a.npy"]


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o444, 0o755])
def test_a_file_that_was_there_keeps_its_mode(tmp_path, mode):
    path = tmp_path / "a.npy"
    path.write_bytes(b"old")
    path.chmod(mode)
    write_atomically(output(path), b"new")
    assert stat.S_IMODE(path.stat().st_mode) == mode


@pytest.mark.parametrize("mask", [0o022, 0o077])
def test_a_new_file_has_the_mode_of_any_other_and_the_mask_is_not_touched(tmp_path, mask, monkeypatch):
    before = os.umask(mask)
    try:
        monkeypatch.setattr(os, "umask", lambda mask: pytest.fail("another thread would see this"))
        write_atomically(output(tmp_path / "a.npy"), b"new")
    finally:
        monkeypatch.undo()
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "a.npy").stat().st_mode) == 0o666 & ~mask


def test_files_and_folders_are_synced(tmp_path, monkeypatch):
    synced, sync = [], os.fsync
    monkeypatch.setattr(os, "fsync", lambda descriptor: (synced.append(os.fstat(descriptor).st_mode), sync(descriptor)))
    write_all_atomically({output(tmp_path / "a"): b"1", output(tmp_path / "b"): b"2"})
    assert [stat.S_ISDIR(mode) for mode in synced] == [False, False, True]


@pytest.mark.parametrize("length", [240, 255])
def test_a_name_as_long_as_a_name_can_be(tmp_path, length):
    write_atomically(output(tmp_path / ("a" * length)), b"new")
    with pytest.raises(td.UsageError, match="cannot write"):
        output(tmp_path / ("a" * 256))
    assert not is_file(tmp_path / ("a" * 300))
    assert not is_file("a\0b")


PAGE = b'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
DRAWING = b'<svg xmlns="http://www.w3.org/2000/svg" class="canvas" width="1"><title>a</title>'


@pytest.mark.parametrize(
    ("kind", "name", "own", "foreign"),
    [
        (ENGINE, "a.engine", b"vtrt\0\0", b"VTRT"),
        (MANIFEST, "a.engine.json", b'{"schema": 3, "network": "\\"", "source": nu', b'{"schema": 3, "network": "a"}'),
        (WEIGHTS, "a.safetensors", b"\x08" + bytes(7) + b'{"a":', b"dear me {"),
        (ARRAY, "a.npy", b"\x93NUMPY", b"half of an array"),
        (STUB, "a.pyi", b'"""The weights of a.pt: written by `trtdsl stubs`, for', b'"""The weights of a.pt."""'),
        (HTML, "a.html", PAGE + b'<meta name="generator" content="trtdsl">\n', PAGE),
        (HTML, "a.html", PAGE + b"<title>a</title>\n<style>/* trtdsl view 00", PAGE + b"<title>trtdsl view</title>"),
        (SVG, "a.svg", DRAWING + b"<style>.canvas text{", DRAWING),
    ],
)
def test_a_kind_is_known_by_how_it_begins_and_not_by_its_name(tmp_path, kind, name, own, foreign):
    """Also where the file was cut off."""
    path = tmp_path / name
    for content in (own, b""):
        path.write_bytes(content)
        check_kind(path, kind)
    for content in (foreign, bytes(64)):
        path.write_bytes(content)
        with pytest.raises(td.UsageError, match=f"is not {kind.label}, and would be replaced"):
            check_kind(path, kind)


@pytest.mark.parametrize("name", ["", ".", "..", "../x", "a/b", "/etc/passwd", "a\\b", "a\0b", "a\nb", "x" * 252])
def test_names_that_are_no_files(name):
    with pytest.raises(td.UsageError, match="a file would be called after it"):
        file_name(name, ".npy")


@given(st.text(max_size=300))
def test_a_file_name_stays_in_its_folder(name):
    try:
        made = file_name(name, ".npy")
    except td.UsageError:
        return
    assert (Path("/folder") / made).resolve().parent == Path("/folder")
    assert len(os.fsencode(made)) <= 255


@pytest.mark.skipif(sys.platform != "linux", reason="files with holes")
def test_a_file_of_another_kind_is_judged_by_its_beginning_alone(tmp_path):
    """It may be larger than the memory."""
    with open(tmp_path / "config.pbtxt", "wb") as file:
        file.truncate(1 << 42)
    for kind in KINDS:
        if kind not in (RUNTIME_CACHE, TIMING_CACHE):  # which may have been lost, and are any bytes
            with pytest.raises(td.UsageError, match="the file that is there is not"):
                check_kind(tmp_path / "config.pbtxt", kind)


def test_two_files_of_one_folder_of_which_one_is_named_by_a_link(tmp_path):
    (tmp_path / "old.json").write_text("{}")
    (tmp_path / "link.json").symlink_to("old.json")
    targets = [
        check_writable(tmp_path / name, writing.Kind("a text", r"\{"), [], force=True)
        for name in ("a.json", "link.json")
    ]
    write_all_atomically(dict.fromkeys(targets, b"{1}"))
    assert (tmp_path / "old.json").read_text() == (tmp_path / "a.json").read_text() == "{1}"


def test_a_device_a_pipe_or_a_socket_is_no_output(tmp_path, monkeypatch):
    """Nor by a link: the rename would put a file in its place."""
    import socket

    monkeypatch.chdir(tmp_path)
    os.mkfifo("pipe")
    with socket.socket(socket.AF_UNIX) as made:
        made.bind("socket")
    os.symlink("/dev/null", "link")
    for name in ("pipe", "socket", "link", "/dev/null", "/dev/full"):
        before = os.stat(name)
        for kind in KINDS:
            with pytest.raises(td.UsageError, match="it is not a regular file"):
                check_writable(name, kind, (), force=True)
        assert os.path.samestat(before, os.stat(name))


@pytest.mark.parametrize("name", ["", "new/", "new.json/", "there/new/"])
def test_a_name_of_no_file_is_refused(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "there").mkdir()
    with pytest.raises(td.UsageError, match="cannot write: its name (new|there.*/ ends as a folder's|is empty)"):
        check_writable(name, ENGINE, ())


def test_json_has_no_number_that_is_none():
    def refuse(name):
        raise AssertionError(name)

    value = {"a": [float("nan"), (float("inf"), -1.5)], "b": {"c": float("-inf"), "d": None}, "e": True}
    text = writing.as_json(value, sort_keys=True)
    read = json.loads(text, parse_constant=refuse)
    assert read == {"a": ["nan", ["inf", -1.5]], "b": {"c": "-inf", "d": None}, "e": True}


@pytest.mark.skipif(os.name == "nt", reason="a shell of POSIX")
@pytest.mark.parametrize("redirected", ["> kept", ">> kept", "2> kept", "< kept", "> kept # /dev/stdout"])
def test_what_a_process_prints_into_is_no_output(tmp_path, redirected):
    """``-o /dev/stdout`` of a file too: the rename would take its name away from what is printed."""
    kept = tmp_path / "kept"
    kept.write_bytes(b"")
    name = redirected.rpartition("# ")[2] if "#" in redirected else "kept"
    code = (
        "import os; from trtdsl.core.files.writing import Kind, check_writable\n"
        f"try: check_writable({name!r}, Kind('x', 'x'), ())\n"
        "except Exception as error: open('said', 'w').write(str(error))"
    )
    given = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "CODE": code}
    subprocess.run(["sh", "-c", f'{sys.executable} -c "$CODE" {redirected}'], cwd=tmp_path, env=given, check=True)
    said = (tmp_path / "said").read_text()
    assert said == f"cannot write {name}: what this command prints, or is fed, is in it"


def test_a_folder_that_another_command_removes_is_made_again(tmp_path, monkeypatch):
    """The command that made it failed, and this one, which found it there, is not to fail at its end."""
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "new" / "inner"
    folder.mkdir(parents=True)
    writing.make_folder("new/inner")
    output = check_writable("new/inner/a.html", HTML, ())
    shutil.rmtree("new")
    write_atomically(output, b"<html>")
    assert (folder / "a.html").read_bytes() == b"<html>"
    writing.make_folder("other/inner")
    writing.make_folder("other/full")
    (tmp_path / "other/full/file").write_bytes(b"")
    writing.remove_made()
    assert sorted(os.listdir("other")) == ["full"] and folder.is_dir()


def test_a_file_system_that_syncs_no_folders_is_written_to(tmp_path, monkeypatch):
    """As shared folders of virtual machines: the file was there, and was said not to be."""
    sync = os.fsync

    def syncing(descriptor):
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "Invalid argument")
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", syncing)
    write_atomically(check_writable(tmp_path / "a.npy", ARRAY, ()), b"\x93NUMPY")
    assert (tmp_path / "a.npy").read_bytes() == b"\x93NUMPY"


@pytest.mark.parametrize("there", ["both", "second"])
@pytest.mark.parametrize("removed", [False, True])
def test_where_one_of_two_files_cannot_take_its_place_both_are_as_they_were(tmp_path, there, removed):
    """As where the second one is a mount or may not be changed: it becomes a folder after it was judged."""
    first, second = tmp_path / "net.engine", tmp_path / "net.engine.json"
    for path, text in ((first, b"ftrt old"), (second, b"{}")):
        if there == "both" or path is second:
            path.write_bytes(text)
    outputs = [check_writable(path, ENGINE, (), force=True) for path in (first, second)]

    def judge():
        second.unlink()
        second.mkdir()

    with pytest.raises(td.UsageError, match=r"cannot (write|remove) .*net\.engine\.json.*: Is a directory"):
        write_all_atomically({outputs[0]: b"ftrt new", outputs[1]: None if removed else b"{}"}, judge)
    assert first.read_bytes() == b"ftrt old" if there == "both" else not first.exists()
    assert not list(tmp_path.glob(".trtdsl-*"))
