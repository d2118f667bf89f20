"""Kills a command at each of its calls of the file system in turn, and looks at what it leaves.

``python kills.py FOLDER EVERY SIGNAL ARGUMENTS…`` runs the command in copies of the folder, each in a forked process
that gets the signal at its k-th call there, for k = 1, 2, …, until it ends first; without ``EVERY`` only at calls that
write. Prints one JSON object. Calls are those that Python makes: of opening, renaming, removing, folders, modes,
writing and syncing. What is inside a call, such as half of a write, is not tried.
"""

import hashlib
import importlib
import json
import os
import shutil
import signal
import sys
import tempfile
import warnings
from contextlib import suppress
from pathlib import Path

EVENTS = ("open", "os.rename", "os.remove", "os.mkdir", "os.chmod", "os.truncate", "os.link", "os.symlink", "os.utime")


def child(folder, arguments, last, every, by):
    """Runs the command, which gets a signal at its ``last``-th call."""
    from trtdsl.cli.main import main as command

    os.chdir(folder)
    sys.argv = ["trtdsl", *arguments]
    sys.dont_write_bytecode = True
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
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
        if (every or writes) and os.path.abspath(os.fsdecode(given[0])).startswith(f"{folder}/"):
            call()

    def counted(function):
        def counting(*given):
            call()
            return function(*given)

        return counting

    for name in ("write", "fsync"):
        setattr(os, name, counted(getattr(os, name)))
    sys.addaudithook(hook)
    try:
        command()
    except SystemExit as ended:
        os._exit(ended.code if isinstance(ended.code, int) else 0)
    except BaseException:
        os._exit(99)
    os._exit(0)


def run(folder, arguments, last, every, by=signal.SIGKILL):
    """How a command ends that gets a signal at its ``last``-th call; the code, or minus the signal."""
    pid = os.fork()
    if pid == 0:
        child(folder, arguments, last, every, by)
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
            os.chdir(folder)
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, 1)
            os.dup2(nowhere, 2)
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


def main(source, every, by, arguments):
    found = {"kills": 0, "codes": [], "inputs": [], "damaged": [], "at_once": [], "left": [], "after": []}
    before = state(source)
    preload(source, arguments)
    with tempfile.TemporaryDirectory() as place:
        whole = Path(place) / "whole"
        shutil.copytree(source, whole)
        found["code"] = run(str(whole), arguments, 0, every)
        outputs = {name for name, value in state(whole).items() if before.get(name) != value}
        found["outputs"] = sorted(outputs)
        for last in range(1, 1000):
            folder = Path(place) / str(last)
            shutil.copytree(source, folder)
            code = run(str(folder), arguments, last, every, by)
            if code == 0:
                break
            found["kills"] += 1
            found["codes"] = sorted({*found["codes"], code})
            now = state(folder)
            left = [name for name in now if name not in before and name not in outputs]
            found["inputs"] += [
                [last, name] for name in before if name not in outputs and now.get(name) != before[name]
            ]
            found["damaged"] += [[last, n] for n in outputs if n in now and damaged(folder / n)]
            found["damaged"] += [[last, n] for n in outputs if n in before and n not in now]
            found["at_once"] += [[last, name] for name in left]
            if left and by == signal.SIGKILL:
                found["after"] += [[last, run(str(folder), arguments, 0, every)]]
                found["left"] += [[last, name] for name in state(folder) if name not in before and name not in outputs]
            shutil.rmtree(folder)
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2] == "every", signal.Signals[sys.argv[3]], sys.argv[4:])
