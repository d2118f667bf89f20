"""Measurements of many things, each in a process of its own, kept with the commit that they were made on."""

from __future__ import annotations

import contextlib
import importlib
import json
import multiprocessing
import platform
import resource
import signal
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import trtdsl as td
from trtdsl.core.backend import get_backend

PATIENCE = 10  # of a clock on the wall, times the limit of the processor's time


def commit() -> str:
    """The commit of the package that is imported, with a plus where its files differ from it; "" outside of git."""
    folder = Path(td.__file__).parent

    def git(*arguments: str) -> str:
        done = subprocess.run(["git", *arguments], cwd=folder, capture_output=True, text=True, check=False)
        return done.stdout.strip() if done.returncode == 0 else ""

    return git("rev-parse", "HEAD") + ("+" if git("status", "--porcelain", "--", ".") else "")


def versions() -> str:
    """What a measurement depends on besides the commit."""
    backend = get_backend("auto")
    return f"{backend.name} {backend.version}, torch {version('torch')}, Python {platform.python_version()}"


def write_part(document: Path, begin: str, end: str, text: str) -> None:
    """Puts a text between two comments of a document."""
    before, comment, rest = document.read_text().partition(begin)
    _, close, after = rest.partition(end)
    if not (comment and close):
        raise ValueError(f"{document} has no {begin} … {end}")
    document.write_text(f"{before}{begin}\n\n{text}\n\n{end}{after}")


class Results:
    """A file of results, one a line; those of other commits stay in it and do not count.

    ``made_with`` is what they depend on where it is not this commit, such as another package's version.
    """

    def __init__(self, path: Path | None, made_with: str | None = None):
        self.path, self.commit = path, commit() if made_with is None else made_with
        lines = path.read_text().splitlines() if path is not None and path.exists() else []
        rows = [json.loads(line) for line in lines]
        self.rows: list[dict[str, Any]] = [
            {key: value for key, value in row.items() if key != "commit"}
            for row in rows
            if row.get("commit") == self.commit
        ]

    def add(self, row: dict[str, Any]) -> None:
        """Writes a row at once, so that what was measured outlives a run that is stopped."""
        self.rows.append(row)
        if self.path is not None:
            with self.path.open("a") as file:
                file.write(json.dumps({**row, "commit": self.commit}) + "\n")


def alone(work: Callable[..., Any], *arguments: Any, seconds: int) -> Any:
    """What ``work(*arguments)`` gives in a process of its own, a copy of this one.

    What the work imports is imported here afterwards, so that the next process has it. Raises RuntimeError where the
    process ends without a result, computes for more than its seconds, or takes ten times as long by the clock. The
    system ends it: an exception that a timer raises in the middle of torch's own code can end a process in other ways.
    """
    before = set(sys.modules)
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)

    def run() -> None:
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, resource.RLIM_INFINITY))  # of this process, which begins at 0
        result = work(*arguments)
        sender.send((result, [name for name in sys.modules if name not in before]))

    process = context.Process(target=run)
    process.start()
    sender.close()
    try:
        if not receiver.poll(PATIENCE * seconds):
            raise RuntimeError(f"more than {PATIENCE * seconds} s by the clock")
        result, imported = receiver.recv()
    except EOFError:
        process.join()
        if process.exitcode == -signal.SIGXCPU:
            raise RuntimeError(f"more than {seconds} s") from None
        raise RuntimeError(f"its process ended with exit code {process.exitcode}") from None
    finally:
        process.kill()
        process.join()
    for name in imported:
        with contextlib.suppress(Exception):
            importlib.import_module(name)
    return result
