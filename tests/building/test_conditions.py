"""Builds where the system is not as it usually is: links, folders that nobody may write to, no HOME, others that build
the same at the same time, a clock that went back, processes that were forked."""

import contextlib
import ctypes
import json
import multiprocessing
import os
import pickle
import py_compile
import subprocess
import sys
import tempfile
import time

import pytest
import torch
from support.kinds import ARRAY

import trtdsl as td
from trtdsl.core.files.writing import check_writable
from trtdsl.engine.loading.loader import open_engine

N = td.Dim("N", min=1, opt=2, max=400)


class Doubled(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x @ torch.full((64, 64), 2.0))


@td.network(inputs={"x": td.Input((N, 64))}, reference=Doubled)
def doubled(x):
    return {"y": td.functional.relu(x @ x.network.constant(torch.full((64, 64), 2.0)))}


@pytest.fixture
def folder(small_folder, tmp_path):
    import shutil

    return shutil.copytree(small_folder, tmp_path / "project", ignore=shutil.ignore_patterns("__pycache__"))


# -- a link in the place of the engine ---------------------------------------------------------------------------------


def test_an_engine_and_its_manifest_stand_where_a_link_leads(tmp_path):
    (tmp_path / "store").mkdir()
    link, target = tmp_path / "current.engine", tmp_path / "store" / "v1.engine"
    link.symlink_to("store/v1.engine")
    built = td.build(doubled, link, check=False)
    assert sorted(p.name for p in tmp_path.rglob("*")) == ["current.engine", "store", "v1.engine", "v1.engine.json"]
    assert link.is_symlink()
    assert (built.engine, built.manifest_path) == (target, tmp_path / "store" / "v1.engine.json")
    for path in (link, target):
        assert open_engine(path).manifest.network == "doubled"
        assert not td.build(doubled, path, check=False).built
    link.unlink()
    link.symlink_to("store/v2.engine")  # that is not there yet
    assert td.build(doubled, link, check=False).engine == tmp_path / "store" / "v2.engine"


def test_a_link_whose_manifest_would_be_another_file_is_refused(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "link.engine").symlink_to("a/x.engine")
    beside = tmp_path / "link.engine.json"
    beside.write_text("{}")
    with pytest.raises(td.UsageError, match=r"link.engine.json is another file: remove it, or make it a link"):
        td.build(doubled, tmp_path / "link.engine", check=False)
    assert not list((tmp_path / "a").iterdir())
    beside.unlink()
    beside.symlink_to("a/x.engine.json")
    td.build(doubled, tmp_path / "link.engine", check=False)
    assert beside.is_symlink() and open_engine(tmp_path / "link.engine").manifest is not None


# -- folders and variables ---------------------------------------------------------------------------------------------


def without_rights():
    """For a child that is root: files' modes hold for it, too, once it has begun another program."""
    libc = ctypes.CDLL(None)
    for capability in (1, 2, 3):  # DAC_OVERRIDE, DAC_READ_SEARCH, FOWNER
        libc.prctl(24, capability, 0, 0, 0)


def trtdsl(folder, *arguments, **environment):
    command = [sys.executable, "-m", "trtdsl.cli.main", *arguments]
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "", **environment}
    environment = {name: value for name, value in environment.items() if value is not None}
    return subprocess.run(
        command, cwd=folder, capture_output=True, text=True, env=environment, preexec_fn=without_rights
    )


@pytest.fixture
def closed(tmp_path):
    """A folder that nobody may write to."""
    path = tmp_path / "closed"
    path.mkdir(mode=0o555)
    tried = [sys.executable, "-c", f"open({os.fspath(path / 'x')!r}, 'w')"]
    if subprocess.run(tried, preexec_fn=without_rights, capture_output=True).returncode == 0:
        pytest.skip("modes do not hold for this user")
    return path


@pytest.mark.heavy
def test_a_folder_that_cannot_be_written_to_is_said_before_any_work(folder, closed):
    done = trtdsl(folder, "build", "small.py", "-o", str(closed / "a.engine"))
    assert (done.returncode, list(closed.iterdir())) == (2, [])
    assert done.stderr == f"error: cannot write {closed / 'a.engine'}: Permission denied\n"


@pytest.mark.parametrize(
    "place",
    ["closed", pytest.param("/nonexistent", marks=pytest.mark.heavy), pytest.param(None, marks=pytest.mark.heavy)],
)
def test_a_project_that_is_read_only_without_home_and_temporary_folder(folder, closed, tmp_path, place):
    folder.chmod(0o555)
    given = str(closed) if place == "closed" else place
    variables = dict.fromkeys(("HOME", "TMPDIR", "XDG_CACHE_HOME"), given)
    try:
        done = trtdsl(folder, "build", "small.py", "-q", "-o", str(tmp_path / "a.engine"), **variables)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
        assert not (folder / "__pycache__").exists()
        left = {path.name for path in tmp_path.iterdir()}
        assert left == {"a.engine", "a.engine.json", "closed", "project"}
    finally:
        folder.chmod(0o755)


REFUSED = """
import trtdsl as td
from trtdsl.core.files.writing import check_writable
from trtdsl.definition.spec.load import load_spec
from trtdsl.engine.loading.loader import ENGINE

def said(call, *given):
    try:
        call(*given)
    except td.UsageError as error:
        print(error)
    except Exception as error:
        print(repr(error))
"""


def refusals(folder, calls):
    """What is said of calls, one a line, to someone for whom files' modes hold."""
    script = "\n".join([REFUSED, *(f"said({each})" for each in calls)])
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, preexec_fn=without_rights)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_files_and_folders_that_may_not_be_read_are_said(closed, tmp_path):
    """``secret`` may be entered and not listed, ``shut`` listed and not entered."""
    for name in ("secret", "shut"):
        (tmp_path / name / "inner").mkdir(parents=True)
    (tmp_path / "a.engine").write_bytes(b"an engine")
    (tmp_path / "unread.py").write_text("")
    for name in ("a.engine", "unread.py"):
        (tmp_path / name).chmod(0o000)
    unread = (
        "cannot be read (Permission denied), may not be an engine, and would be replaced by one: give another name, "
    )
    unread += "or remove it"
    (tmp_path / "secret").chmod(0o333)
    (tmp_path / "shut").chmod(0o444)
    try:
        assert refusals(
            tmp_path,
            [
                "check_writable, 'a.engine', ENGINE, ()",
                "check_writable, 'secret/b.engine', ENGINE, ()",
                "load_spec, 'shut/net.py'",
                "load_spec, 'shut/net.py:net'",
                "td.Weights, 'shut/inner/net.safetensors'",
                "td.Weights, 'secret'",
                "load_spec, 'unread.py'",
            ],
        ) == [
            f"cannot write a.engine: the file that is there {unread}",
            "cannot write secret/b.engine: Permission denied",
            "shut/net.py cannot be read: Permission denied",
            "shut/net.py:net cannot be read: Permission denied",
            "the weights file shut/inner/net.safetensors cannot be read: Permission denied",
            "the folder secret cannot be read: Permission denied",
            f"{tmp_path}/unread.py:1: {tmp_path}/unread.py cannot be read: Permission denied",
        ]
    finally:
        for name in ("secret", "shut"):
            (tmp_path / name).chmod(0o755)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root becomes another user")
def test_another_users_file_in_a_folder_as_tmp_is_refused_before_any_work():
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o1777)
        for name, owner in (("theirs.npy", 0), ("own.npy", 65534)):
            with open(f"{folder}/{name}", "wb"):
                os.chown(f"{folder}/{name}", owner, owner)
        pid = os.fork()
        if pid == 0:
            code = 1
            with contextlib.suppress(BaseException):
                os.setuid(65534)
                check_writable(f"{folder}/own.npy", ARRAY, ())
                try:
                    check_writable(f"{folder}/theirs.npy", ARRAY, ())
                except td.UsageError as error:
                    code = 0 if "another user's" in str(error) else 2
            os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


# -- several processes -------------------------------------------------------------------------------------------------

WRITER = """
import os, sys
from trtdsl.building.manifest import MANIFEST
from trtdsl.engine.loading.loader import ENGINE
from trtdsl.core.files.writing import check_writable, write_all_atomically

folder, mark = sys.argv[1:]
outputs = [check_writable(f"{folder}/{name}", kind, (), force=True)
           for name, kind in (("a.engine", ENGINE), ("a.engine.json", MANIFEST))]
replace, renamed = os.replace, []

def slowly(*given):
    replace(*given)
    renamed.append(given)
    if mark == "slow" and len(renamed) == 1:
        print("renamed", flush=True)
        sys.stdin.readline()

os.replace = slowly
print("ready", flush=True)
write_all_atomically({output: mark.encode() for output in outputs})
"""


def test_files_of_several_writers_are_of_one_of_them(tmp_path):
    """One that is between its two renames when another comes."""

    def writer(mark):
        command = [sys.executable, "-c", WRITER, tmp_path, mark]
        started = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert started.stdout.readline() == b"ready\n"
        return started

    slow = writer("slow")
    assert slow.stdout.readline() == b"renamed\n"
    quick = writer("quick")
    with contextlib.suppress(subprocess.TimeoutExpired):  # it waits for the other
        quick.wait(0.5)
    slow.communicate(b"\n"), quick.communicate()
    assert (slow.returncode, quick.returncode) == (0, 0)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {
        "a.engine": b"quick",
        "a.engine.json": b"quick",
    }


@pytest.mark.heavy
def test_processes_that_build_one_output_leave_the_files_of_one(folder):
    """Two networks, since what one network makes is the same but for a few bytes."""
    (folder / "other.py").write_text((folder / "small.py").read_text().replace("def small(", "def other("))
    commands = [["build", f"{name}.py", "--force", "--no-check", "-o", "a.engine"] for name in ("small", "other")]
    started = [
        subprocess.Popen([sys.executable, "-m", "trtdsl.cli.main", *each], cwd=folder, stderr=subprocess.PIPE)
        for each in commands
    ]
    for process in started:
        said = process.communicate()[1].decode()
        assert process.returncode == 0, said
    assert open_engine(folder / "a.engine").manifest.network in ("small", "other")
    assert not list(folder.glob(".trtdsl*"))


def test_a_build_that_finds_its_engine_there_writes_no_manifest_beside_anothers(folder, monkeypatch):
    """Another build ends while this one checks the engine that is there: what stays is the other's."""
    from trtdsl.building import build as module

    network, engine, check = str(folder / "small.py"), folder / "a.engine", module.check
    td.build(network, engine, check=False)

    def checking(*given, **options):
        monkeypatch.setattr(module, "check", check)
        td.build(network, engine, dims={"N": (1, 2, 3)})
        return check(*given, **options)

    monkeypatch.setattr(module, "check", checking)
    with pytest.raises(td.UsageError, match="another build wrote .*a.engine meanwhile, whose files stay"):
        td.build(network, engine)
    assert open_engine(engine).manifest.profiles[0].dims == {"N": (1, 2, 3)}
    assert not list(folder.glob(".trtdsl*"))


# -- clocks ------------------------------------------------------------------------------------------------------------


def test_a_file_of_the_same_size_and_time_is_read_again(tmp_path, command_line):
    """As after a clock that went back, or a copy that keeps times: Python would run the old bytecode."""
    run = command_line(tmp_path)
    network = 'import torch\nimport trtdsl as td\nfrom model import Model\n\n@td.network(inputs={"x": td.Input((2,))},'
    network += ' reference=Model)\ndef net(x):\n    return {"y": x * 2}\n'
    model = "import torch\nclass Model(torch.nn.Module):\n    def forward(self, x):\n        return x * 2\n"
    for name, text in (("net.py", network), ("model.py", model)):
        (tmp_path / name).write_text(text)
        os.utime(tmp_path / name, (1e9, 1e9))
        py_compile.compile(tmp_path / name)
    run("build", "net.py")
    for name, text in (("model.py", model), ("net.py", network)):
        (tmp_path / name).write_text(text.replace("x * 2", "x * 3"))
        os.utime(tmp_path / name, (1e9, 1e9))
        sys.modules.pop("model", None)
        run("build", "net.py", code=1 if name == "model.py" else 0)
    assert json.loads((tmp_path / "net.engine.json").read_text())["check"]["passed"]
    sys.modules.pop("model", None)


def test_an_engine_from_the_future_or_the_past_is_up_to_date(tmp_path):
    """That is told by contents alone."""
    engine = tmp_path / "a.engine"
    td.build(doubled, engine, check=False)
    for when in (time.time() + 1e8, 0):
        for path in tmp_path.iterdir():
            os.utime(path, (when, when))
        assert not td.build(doubled, engine, check=False).built


# -- forked and spawned processes --------------------------------------------------------------------------------------


def child(what, given, folder, pipe):
    try:
        if what == "check":
            pipe.send(td.check(doubled, sizes="quick").passed)
        else:
            pipe.send(td.build(given, folder / "a.engine").built)
    except BaseException as error:
        pipe.send(repr(error))


FORKED = """
import sys, os, multiprocessing, pathlib
sys.path[:0] = {path!r}
import torch
from support.kinds import ARRAY
from building import test_conditions as tests
torch.set_num_threads(4)
torch.ones(800, 800) @ torch.ones(800, 800)  # torch has threads now, which a child has not
defined = tests.doubled.define()
for what, given in (("check", None), ("build", defined), ("build", tests.doubled)):
    near, far = multiprocessing.Pipe()
    process = multiprocessing.get_context("fork").Process(
        target=tests.child, args=(what, given, pathlib.Path(sys.argv[1]), far))
    process.start()
    print(near.recv() if near.poll(60) else "hangs", flush=True)
    process.kill()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_forked_children_check_and_build(tmp_path):
    path = [os.path.dirname(os.path.dirname(__file__)), *sys.path]
    script = FORKED.format(path=path)
    environment = {**os.environ, "OMP_NUM_THREADS": "4"}
    done = subprocess.run([sys.executable, "-c", script, tmp_path], capture_output=True, text=True, env=environment)
    assert done.stdout.split() == ["True", "True", "False"], done.stderr


def test_spawned_children_take_a_spec_and_no_network(folder):
    spec = td.load_spec(str(folder / "small.py"))
    context = multiprocessing.get_context("spawn")
    with context.Pool(1) as pool:
        assert pool.apply(td.build, (spec, folder / "a.engine"), {"check": False}).built
    with pytest.raises(td.UsageError, match="give other processes what"):
        pickle.dumps(doubled.define())


# -- a working directory that the author's code leaves -----------------------------------------------------------------


def test_paths_of_a_command_are_relative_to_where_it_began(folder, command_line):
    """Where the network's file, or its reference, goes to the folder of its data, as many scripts do."""
    run = command_line(folder)
    (folder / "data").mkdir()
    (folder / "data" / "small.engine").write_text("another's")
    for file, line in (("small.py", "N ="), ("reference.py", "class")):
        text = (folder / file).read_text()
        move = f"import os\nos.chdir({str(folder / 'data')!r})\n"
        (folder / file).write_text(text.replace(line, move + line, 1))
        run("build", "small.py", "--weights", "small.safetensors", "--force", "-q")
        assert (folder / "small.engine.json").exists() and os.listdir(folder / "data") == ["small.engine"]
        (folder / file).write_text(text)
