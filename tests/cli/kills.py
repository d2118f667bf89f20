"""Kills a command at each of its calls of the file system in turn, and looks at what it leaves.

``python kills.py FOLDER EVERY ARGUMENTS…`` runs the command in copies of the folder, each in a forked process that is
killed at its k-th call there, for k = 1, 2, …; without ``EVERY`` only at calls that write. Prints one JSON object.
"""

import hashlib
import json
import os
import shutil
import signal
import sys
import tempfile
from pathlib import Path

EVENTS = ("open", "os.rename", "os.remove", "os.mkdir", "os.chmod", "os.truncate", "os.link", "os.symlink", "os.utime")


def child(folder, arguments, last, every):
    """Runs the command and dies at its ``last``-th call."""
    from trtdsl.cli.app import app

    os.chdir(folder)
    sys.dont_write_bytecode = True
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    calls = 0

    def call():
        nonlocal calls
        calls += 1
        if calls == last:
            os.kill(os.getpid(), signal.SIGKILL)

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
        app(arguments, standalone_mode=False)
    except SystemExit as error:
        os._exit(error.code or 0)
    except BaseException:
        os._exit(99)
    os._exit(0)


def run(folder, arguments, last, every):
    """How a command ends that is killed at its ``last``-th call; the code, or minus the signal."""
    pid = os.fork()
    if pid == 0:
        child(folder, arguments, last, every)
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


def main(source, every, arguments):
    found = {"kills": 0, "inputs": [], "damaged": [], "left": [], "after": []}
    before = state(source)
    with tempfile.TemporaryDirectory() as place:
        whole = Path(place) / "whole"
        shutil.copytree(source, whole)
        found["code"] = run(str(whole), arguments, 0, every)
        outputs = {name for name, value in state(whole).items() if before.get(name) != value}
        found["outputs"] = sorted(outputs)
        for last in range(1, 1000):
            folder = Path(place) / str(last)
            shutil.copytree(source, folder)
            code = run(str(folder), arguments, last, every)
            if code != -signal.SIGKILL:
                found["code"] = found["code"] or code
                break
            found["kills"] += 1
            now = state(folder)
            left = [name for name in now if name not in before and name not in outputs]
            found["inputs"] += [
                [last, name] for name in before if name not in outputs and now.get(name) != before[name]
            ]
            found["damaged"] += [[last, n] for n in outputs if n in now and damaged(folder / n)]
            found["damaged"] += [[last, n] for n in outputs if n in before and n not in now]
            if left:
                found["after"] += [[last, run(str(folder), arguments, 0, every)]]
                found["left"] += [[last, name] for name in state(folder) if name not in before and name not in outputs]
            shutil.rmtree(folder)
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2] == "every", sys.argv[3:])
