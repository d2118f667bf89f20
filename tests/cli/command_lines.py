"""Random command lines, and a process that runs each in a process of its own without starting Python anew."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

LIMIT = 60  # seconds for one command line

# Files that every command line may name; "{tree}" is not among them: they are made by make_folder.
FILES = (
    *("small.py", "small.py:small", "small.engine", "small.engine.json", "small.safetensors", "x.npy", "reference.py"),
    *(
        "cut.engine",
        "cut.engine.json",
        "other.engine",
        "empty",
        "zeros.bin",
        "deep.npy",
        "pickle.npy",
        "odd.safetensors",
    ),
    *(
        "bad.json",
        "folder",
        "link",
        "nowhere/x",
        "small.py:nothing",
        "small.py:",
        ":",
        "syntax.py",
        "raises.py",
    ),
    *("exits.py", "none.py", "a" * 300, "a" * 300 + ".py", "a" * 300 + ".engine", "\u00e4\u20ac.py"),
)
WORDS = (
    *("", " ", "-", "--", "0", "-1", "1", "3", "1e3", "nan", "inf", "9" * 30, "9" * 4400, "\u00b2", "\u0663", "None"),
    *(
        "N=1",
        "N=1:2:3",
        "N=3:2:1",
        "N=0",
        "N=-1",
        "N=",
        "=1",
        "N=\u00b2",
        "N=1:2",
        "N=1:2:3:4",
        "N=99999999999999999999",
    ),
    *("N=1:2:4", "M=3", "N=2", "fp16", "bf16", "fp32", "int8", "tensorrt", "tensorrt-rtx", "auto", "interpreter"),
    *("engine", "torch", "onnx", "torch,onnx", "x=x.npy", "x=deep.npy", "x=pickle.npy", "x=", "=x.npy", "x=nowhere"),
    *("8.9", "9.9", "8.9,12.0", "../../evil", "/", "ij->ji", "ij,jk->ik", "i" * 400, "...->...", "(i j) -> i j", "2,3"),
    *(
        "\u00b2,3",
        "(2, 3)",
        "N,3",
        "2,-3",
        "a,b,c",
        "[",
        "{}",
        "\udcff",
        "%s%n",
        "*",
        "~",
        "torch.nn:ReLU",
        "reference:Model",
    ),
    *("reference.py:Model", "torch.nn.Linear", "os:system", "(((((", "1:", "-O", "matmul", "native", "broadcast"),
)
# What would do as it is told for too long, or write where a test must not.
LEFT_OUT = {"--runs"}


@dataclass(frozen=True)
class Outcome:
    """How one command line ended."""

    arguments: list[str]
    code: int
    stdout: str
    stderr: str


def commands() -> dict[tuple[str, ...], list[tuple[str, bool]]]:
    """Every command with its options, and whether each is a flag."""
    import typer.main

    from trtdsl.cli.app import app

    found: dict[tuple[str, ...], list[tuple[str, bool]]] = {}

    def walk(command: Any, path: tuple[str, ...]) -> None:
        if hasattr(command, "commands"):
            for name, inner in command.commands.items():
                walk(inner, (*path, name))
            return
        options = [
            (option, bool(getattr(parameter, "is_flag", False)))
            for parameter in command.params
            for option in (*parameter.opts, *parameter.secondary_opts)
            if option.startswith("-") and option not in LEFT_OUT
        ]
        found[path] = options

    walk(typer.main.get_command(app), ())
    return found


NETWORKS, ENGINES = ("small.py", "small.py:small"), ("small.engine", "small.engine", "cut.engine", "other.engine")
LIKELY = {  # by command, what its positional arguments are meant to be
    ("build",): (NETWORKS,),
    ("check",): (NETWORKS,),
    ("inspect",): (NETWORKS + ENGINES,),
    ("view",): (NETWORKS + ENGINES,),
    ("compare",): (NETWORKS + ENGINES, NETWORKS + ENGINES),
    ("run",): (ENGINES,),
    ("bench",): (NETWORKS + ENGINES,),
    ("port",): (("reference.py:Model", "torch.nn:ReLU"),),
    ("export", "triton"): (ENGINES, ("repository",)),
    ("weights", "derive"): (NETWORKS, ("out.safetensors",)),
    ("weights", "convert"): (("small.safetensors", "zeros.bin"), ("out.safetensors",)),
    ("weights", "list"): (("small.safetensors", "odd.safetensors"),),
    ("explain", "einsum"): (("ij,jk->ik", "ij->ji", "i,j"), ("2,3", "\u00b2,3", "N,3"), ("3,4",)),
}
VALUES = {  # by option
    "--dim": ("N=1", "N=1:2:4", "N=3:2:1", "N=\u00b2", "N=", "M=3", "N=" + "9" * 4400, "N=1,2"),
    "--profile": ("N=1", "N=1:2:3,M=2", "0", "1", "N=\u0663", "-1"),
    "--input": ("x=x.npy", "x=deep.npy", "x=pickle.npy", "x=nowhere", "x=folder", "x=pipe2", "y=x.npy", "x=zeros.bin"),
    "--weights": ("small.safetensors", "odd.safetensors", "zeros.bin", "empty", "folder", "a" * 300, "bad.json"),
    "--output": ("out", "folder", "nowhere/x", "a" * 300, "pipe", "link", "empty"),
    "-o": ("out", "folder", "nowhere/x", "a" * 300, "pipe", "link", "empty"),
    "--name": ("model", "../../evil", "", "a" * 300),
    "--precision": ("fp16", "bf16", "fp8", ""),
    "--backend": ("tensorrt", "tensorrt-rtx", "auto", "onnx"),
    "--device": ("0", "7", "-1", "9" * 30),
    "--compute-capability": ("8.9", "9.9", "8.9,12.0", ""),
}


def command_lines(count: int, seed: int) -> Iterator[list[str]]:
    """Random command lines: mostly a real command with real options, and values of every kind."""
    rng = random.Random(seed)
    known = sorted(commands().items())
    for _ in range(count):
        path, options = rng.choice(known)
        line = list(path)
        likely = LIKELY.get(path, (FILES,))
        for place in range(rng.choice((0, len(likely), len(likely), len(likely), len(likely), 1, len(likely) + 1))):
            meant = likely[min(place, len(likely) - 1)]
            line.append(rng.choice(meant) if rng.random() < 0.75 else _value(rng))
        for _ in range(rng.choice((0, 0, 1, 1, 2, 3))):
            option, flag = rng.choice(options)
            meant = VALUES.get(option, FILES)
            value = rng.choice(meant) if rng.random() < 0.75 else _value(rng)
            line += [option] if flag or rng.random() < 0.03 else [option, value]
        if rng.random() < 0.08:
            rng.shuffle(line)
        yield line


def _value(rng: random.Random) -> str:
    text = rng.choice(FILES if rng.random() < 0.5 else WORDS)
    if text and rng.random() < 0.1:
        at = rng.randrange(len(text))
        text = text[:at] + rng.choice(("", chr(rng.randrange(32, 0x2FF)), text)) + text[at + 1 :]
    return text


def is_fine(outcome: Outcome) -> bool:
    """Whether a command line ended as one may: with a code that means something, and a traceback only for -v."""
    asked = any(text in ("-v", "--verbose") for text in outcome.arguments)
    return outcome.code in range(8) and (asked or "Traceback" not in outcome.stderr)


def make_folder(folder: Path, small: Path) -> None:
    """Fills a folder with good and bad files; ``small`` has small.py, its reference and its weights."""
    import numpy as np

    import trtdsl as td

    shutil.copytree(small, folder, dirs_exist_ok=True)
    td.build(td.load_spec(str(folder / "small.py")), folder / "small.engine", check=False)
    whole, manifest = (folder / "small.engine").read_bytes(), (folder / "small.engine.json").read_text()
    (folder / "cut.engine").write_bytes(whole[:-9])
    (folder / "cut.engine.json").write_text(manifest)
    version = json.loads(manifest)
    version["backend"]["version"] = "9" * 4400
    (folder / "other.engine").write_bytes(whole)
    (folder / "other.engine.json").write_text(json.dumps(version))
    (folder / "empty").write_bytes(b"")
    (folder / "zeros.bin").write_bytes(bytes(4096))
    (folder / "bad.json").write_text("[" * 100_000)
    np.save(folder / "x.npy", np.ones((2, 3, 5, 5), np.float32))
    header = b"{'descr': '<f4', 'fortran_order': False, 'shape': " + b"(" * 3000 + b"}"
    (folder / "deep.npy").write_bytes(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header)
    np.save(folder / "pickle.npy", np.array([{}], dtype=object), allow_pickle=True)
    text = b'{"conv.weight":{"dtype":"F6_E2M3","shape":[4],"data_offsets":[0,3]}}'
    (folder / "odd.safetensors").write_bytes(len(text).to_bytes(8, "little") + text + bytes(3))
    (folder / "folder").mkdir()
    shutil.copy(folder / "small.py", folder / "caf\udce9.py")
    (folder / "link").symlink_to("link")
    os.mkfifo(folder / "pipe")
    (folder / "syntax.py").write_text("def (:\n")
    (folder / "raises.py").write_text("raise RuntimeError('on import')\n")
    (folder / "exits.py").write_text("raise SystemExit(3)\n")
    (folder / "none.py").write_text("x = 1\n")


class Runner:
    """Runs command lines, each in a process forked from one that has imported everything."""

    def __init__(self, folder: Path):
        self._process = subprocess.Popen(
            [sys.executable, __file__, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def run(self, arguments: list[str], *, closed: bool = False) -> Outcome:
        """How a command line ends; with ``closed`` nobody reads its stdout."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps([arguments, closed]) + "\n")
        self._process.stdin.flush()
        return Outcome(arguments, *json.loads(self._process.stdout.readline()))

    def __enter__(self) -> Runner:
        return self

    def __exit__(self, *error: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(60)
        assert self._process.stdout is not None
        self._process.stdout.close()


def _serve(template: Path) -> None:
    """Reads command lines from stdin, one JSON list a line, and says how each ended."""
    import tempfile

    import torch  # noqa: F401
    from safetensors.torch import load_file  # noqa: F401

    import trtdsl.building.build
    import trtdsl.cli.main
    import trtdsl.engine.bench
    import trtdsl.porting  # noqa: F401

    for line in sys.stdin:
        arguments, closed = json.loads(line)
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place) / "here"
            shutil.copytree(template, folder, symlinks=True, ignore=lambda _, names: {"pipe"}.intersection(names))
            os.mkfifo(folder / "pipe")
            pid = os.fork()
            if pid == 0:
                try:
                    _child(folder, arguments, closed, Path(place))
                finally:
                    os._exit(70)
            _, status = os.waitpid(pid, 0)
            texts = [(Path(place) / name).read_text(errors="replace") for name in ("out", "err")]
        print(json.dumps([os.waitstatus_to_exitcode(status), *texts]), flush=True)


def _child(folder: Path, arguments: list[str], closed: bool, place: Path) -> None:
    """Never returns: runs the command line as the console script does."""
    import signal

    import trtdsl.cli.main

    for name in ("out", "err"):
        (place / name).touch()
    signal.alarm(LIMIT)
    os.chdir(folder)
    os.environ["COLUMNS"] = "200"
    out = os.open(place / "out", os.O_WRONLY | os.O_CREAT, 0o600)
    if closed:
        read, out = os.pipe()
        os.close(read)
        signal.signal(signal.SIGPIPE, signal.SIG_IGN)  # as Python starts
    os.dup2(os.open(place / "err", os.O_WRONLY | os.O_CREAT, 0o600), 2)
    os.dup2(out, 1)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    sys.stdin, sys.stdout = open(0), open(1, "w")  # noqa: SIM115
    sys.stderr = open(2, "w", errors="backslashreplace")  # noqa: SIM115
    sys.argv = ["trtdsl", *arguments]
    code = 1
    try:
        trtdsl.cli.main.main()
        code = 0
    except SystemExit as leave:
        code = leave.code if isinstance(leave.code, int) else 0 if leave.code is None else 1
    except BaseException:
        import traceback

        traceback.print_exc()
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        code = 120  # what Python gives then, with a message
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    _serve(Path(sys.argv[1]))
