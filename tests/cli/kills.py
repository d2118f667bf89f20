"""Kills a command at each of its calls of the file system in turn, or while it computes, and looks at what it leaves.

``python kills.py FOLDER WHEN SIGNAL ARGUMENTS…`` runs the command in copies of the folder, each in a forked process
that gets the signal at its k-th call there, for k = 1, 2, …, until it ends first: at calls that write where ``WHEN`` is
``writing``, and at ``every`` call. Prints one JSON object. Calls are those that Python makes: of opening, renaming,
removing, folders, modes, writing and syncing. What is inside a call, such as half of a write, is not tried.

``working`` gives it at ``MOMENTS`` of all calls of trtdsl's own functions instead, evenly spread over the time in which
signals are answered.

A command that needs a GPU runs on the simulated one.
"""

import hashlib
import importlib
import json
import os
import re
import shutil
import signal
import sys
import tempfile
import warnings
from contextlib import contextmanager, suppress
from pathlib import Path

MOMENTS = 25
ON_A_GPU = {"run", "bench", "generate"}
CANCELLED = re.compile(r"(?!.*Traceback).*^error: cancelled[^\n]*\n\Z", re.DOTALL | re.MULTILINE)
EVENTS = ("open", "os.rename", "os.remove", "os.mkdir", "os.chmod", "os.truncate", "os.link", "os.symlink", "os.utime")


@contextmanager
def machine(folder, arguments):
    """What a command runs on, with the folder's engine built there."""
    if arguments[0] not in ON_A_GPU:
        yield
        return
    sys.path.insert(0, str(Path(__file__).parents[1]))
    from device import simulated_device

    import trtdsl as td

    with simulated_device():
        engine = Path(folder, arguments[1])
        if engine.suffix == ".engine":
            engine.unlink()
            td.build(str(engine.with_suffix(".py")), engine, check=False)
            shutil.rmtree(Path(folder, "__pycache__"), ignore_errors=True)
        yield


def enter(folder, said=os.devnull):
    """Goes into a folder, with nothing on stdout, and stderr in a file."""
    os.chdir(folder)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    os.dup2(os.open(said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), 2)


def child(folder, arguments, last, when, by):
    """Runs the command, which gets a signal at its ``last``-th call. Beside the folder stands what it said."""
    from trtdsl.cli.main import main as command

    package = str(Path(sys.modules["trtdsl"].__file__).parent)
    enter(folder, f"{folder}.stderr")
    sys.argv = ["trtdsl", *arguments]
    sys.dont_write_bytecode = True
    if by != signal.SIGKILL:  # which the tests' own shell may ignore, as under nohup
        signal.signal(by, signal.default_int_handler if by == signal.SIGINT else signal.SIG_DFL)
    calls = 0

    def call():
        nonlocal calls
        calls += 1
        if calls == last:
            os.kill(os.getpid(), by)

    def hook(event, given):
        if event not in EVENTS or not isinstance(given[0], (str, bytes, os.PathLike)):
            return
        writes = event != "open" or (isinstance(given[2], int) and given[2] & (os.O_WRONLY | os.O_RDWR))
        if (when == "every" or writes) and os.path.abspath(os.fsdecode(given[0])).startswith(f"{folder}/"):
            call()

    def counted(function):
        def counting(*given):
            call()
            return function(*given)

        return counting

    def profile(frame, event, given):
        heard = signal.getsignal(by) not in (signal.SIG_DFL, signal.default_int_handler)
        if event == "call" and heard and frame.f_code.co_filename.startswith(package):
            call()

    if when != "working":
        for name in ("write", "fsync"):
            setattr(os, name, counted(getattr(os, name)))
        sys.addaudithook(hook)
    code = 0
    try:
        sys.setprofile(profile if when == "working" else None)
        command()
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 0
    except BaseException:
        code = 99
    finally:
        sys.setprofile(None)
    Path(f"{folder}.calls").write_text(str(calls))
    os._exit(code)


def run(folder, arguments, last, when, by=signal.SIGKILL):
    """How a command ends that gets a signal at its ``last``-th call; the code, or minus the signal."""
    pid = os.fork()
    if pid == 0:
        try:
            child(folder, arguments, last, when, by)
        finally:
            os._exit(98)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def state(folder):
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(Path(folder).rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts
    }


def damaged(path):
    """Whether a file is cut off."""
    from safetensors import safe_open

    from trtdsl.engine.loading.loader import open_engine

    data = path.read_bytes()
    try:
        if path.suffix in (".engine", ".plan"):
            open_engine(path, manifest=False)
        elif path.suffix == ".safetensors":
            safe_open(path, "pt")
        elif path.suffix == ".json":
            json.loads(data)
        elif path.suffix in (".py", ".pyi"):
            compile(data, path, "exec")
        elif path.suffix == ".html":
            return not data.endswith(b"</html>\n")
        elif path.suffix == ".svg":
            return not data.rstrip().endswith(b"</svg>")
        return not data
    except Exception:
        return True


def preload(source, arguments):
    """Imports what the command does, as a child that runs it once tells, so that each fork begins with it."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place) / "folder"
            shutil.copytree(source, folder)
            enter(folder)
            from trtdsl.cli.app import app

            with suppress(BaseException):
                app(arguments, standalone_mode=False)
            os.chdir("/")
        names = [
            name for name, module in sys.modules.items() if str(folder) not in str(getattr(module, "__file__", ""))
        ]
        os.write(writing, "\n".join(names).encode()[:60_000])
        os._exit(0)
    os.close(writing)
    with open(reading) as told:
        names = told.read().split("\n")
    os.waitpid(pid, 0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in names[:-1]:
            if name not in sys.modules and not name.startswith("_"):
                with suppress(Exception):
                    importlib.import_module(name)


def main(given, when, by, arguments):
    with tempfile.TemporaryDirectory() as place:
        source = Path(place) / "source"
        shutil.copytree(given, source)
        with machine(source, arguments):
            print(json.dumps(killed(source, place, when, by, arguments)))


def killed(source, place, when, by, arguments):
    found = {"kills": 0, "codes": [], "inputs": [], "damaged": [], "at_once": [], "left": [], "after": [], "said": []}
    before = state(source)
    preload(source, arguments)
    whole = Path(place) / "whole"
    shutil.copytree(source, whole)
    found["code"] = run(str(whole), arguments, 0, when, by)
    outputs = {name for name, value in state(whole).items() if before.get(name) != value}
    found["outputs"] = sorted(outputs)
    moments = range(1, 1000)
    if when == "working":
        count = int(Path(f"{whole}.calls").read_text())
        moments = sorted({1 + count * each // MOMENTS for each in range(MOMENTS)})
    for last in moments:
        folder = Path(place) / str(last)
        shutil.copytree(source, folder)
        code = run(str(folder), arguments, last, when, by)
        if code == 0 and int(Path(f"{folder}.calls").read_text()) < last:  # it ended first
            if when == "working":  # what has a second to spend makes as many calls as it comes to
                continue
            break
        said = Path(f"{folder}.stderr").read_text(errors="replace")
        if by != signal.SIGKILL and not CANCELLED.match(said):
            found["said"] += [[last, said[-2000:]]]
        found["kills"] += 1
        found["codes"] = sorted({*found["codes"], code})
        now = state(folder)
        left = [name for name in now if name not in before and name not in outputs]
        found["inputs"] += [[last, name] for name in before if name not in outputs and now.get(name) != before[name]]
        found["damaged"] += [[last, n] for n in outputs if n in now and damaged(folder / n)]
        found["damaged"] += [[last, n] for n in outputs if n in before and n not in now]
        found["at_once"] += [[last, name] for name in left]
        if left and by == signal.SIGKILL:
            found["after"] += [[last, run(str(folder), arguments, 0, when)]]
            found["left"] += [[last, name] for name in state(folder) if name not in before and name not in outputs]
        shutil.rmtree(folder)
    return found


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], signal.Signals[sys.argv[3]], sys.argv[4:])
