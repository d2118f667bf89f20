"""Several networks built in worker processes: one failure does not hide the others."""

from __future__ import annotations

import math
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import msgspec

from ..core import exit_codes
from ..core.cancel import ENDING, SIGNALS, Progress, cancellable, noted, untold
from ..core.errors import CancelledError, TrtdslError, UsageError, told
from ..core.files.names import file_name
from ..core.files.writing import Output, check_writable, make_folder, write_atomically
from ..definition.spec.load import load_spec, open_file
from ..engine.loading.manifest import ENGINES, read_manifest
from .build import build, engine_file
from .manifest import dump
from .tune import tune, tune_options


@dataclass(frozen=True)
class Outcome:
    """What became of one network."""

    network: str
    engine: str | None = None
    built: bool = False
    bytes: int | None = None
    error: str | None = None
    kind: str | None = None
    """The error's class."""
    exit_code: int = exit_codes.FINE
    tuning: dict[str, Any] | None = None
    """What tuning it won, as :class:`~trtdsl.TuneReport` has it in JSON."""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def build_several(
    networks: Sequence[str],
    folder: str | Path | None = None,
    *,
    jobs: int = 1,
    ranks: int = 1,
    settings: Mapping[str, Any] | None = None,
    tuning: bool | str | Path = True,
    tune_seconds: float | None = None,
    done: Callable[[Outcome], None] | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> list[Outcome]:
    """Builds each of ``networks`` (``FILE.py[:NAME]``) into ``folder``, ``jobs`` at a time, each in a process.

    With ``ranks`` each is several engines, ``NAME.rank0.engine`` and so on: one for each rank that its settings name.
    A file that has a network in parts, each for some of the sizes (``part_of=``), is all of them, and gets their
    manifest, ``NAME.engines.json``. ``settings`` are those of each (:func:`~trtdsl.load_spec`), ``options`` those of
    :func:`~trtdsl.build`. With ``tune_seconds`` each is tuned first (:func:`~trtdsl.tune`); ``tuning=False`` leaves out
    what was tuned earlier.
    Outcomes come in the order of ``networks``; ``done`` sees each as it comes, and ``progress`` how many
    came. Raises UsageError for two networks of
    one name or no folder, CancelledError after Ctrl-C, and with ``ranks`` what opening a network's first one does.
    """
    target = Path(folder) if folder is not None else Path()
    wholes: dict[str, list[str]] = {}
    called: dict[str, str] = {}  # the engines of the networks that can be opened
    paths = [*sys.path]
    for name in networks:
        whole, parts = name, []
        with suppress(TrtdslError):  # its own build says what is wrong with it, and the others are built
            file = open_file(name)
            whole, parts = file.parts()
            made = {f"{spec.file}:{spec.name}": spec for spec in parts} or {name: file.spec(settings)}
            called |= {place: file_name(spec.name, ".engine") for place, spec in made.items()}
        if parts and whole in wholes:
            raise UsageError(f"two networks would be written as {whole}.engines.json: build them apart")
        wholes[whole if parts else name] = [f"{spec.file}:{spec.name}" for spec in parts] or [name]
    networks = [name for names in wholes.values() for name in names]
    names = {name: (name, settings) for name in networks}
    if ranks > 1:
        shared = {**(settings or {}), "ranks": ranks}
        for name in names:
            load_spec(name, {**shared, "rank": 0})  # what refuses ranks does so once
        names = {f"{name} rank {rank}": (name, {**shared, "rank": rank}) for name in names for rank in range(ranks)}
    sys.path[:] = paths  # processes begin with it, and files that were opened here may have added to it
    if os.path.lexists(target) and not os.path.isdir(target):  # Path.is_dir raises for a name that is too long
        raise UsageError(f"several networks are built into a directory, and {target} is none")
    make_folder(target)
    manifests = {
        whole: engines_output(target, whole)
        for whole, parts in wholes.items()
        if parts != [whole] and not options.get("dry_run")
    }
    labels = list(called.values())
    twice = sorted({label for label in labels if labels.count(label) > 1})
    if twice:
        raise UsageError(f"two networks would be written as {twice[0]}: build them apart")
    if jobs < 1:
        raise UsageError(f"-j must be at least 1, not {jobs}")
    outcomes: dict[str, Outcome] = {}
    tell, phase = progress or untold, f"building {len(names)} networks"
    tell(phase, 0, len(names))
    work = [(name, *given, str(target), tuning, tune_seconds, options) for name, given in names.items()]
    try:
        with cancellable():
            for outcome in _each_apart(work, jobs):
                outcomes[outcome.network] = outcome
                if done is not None:
                    done(outcome)
                tell(phase, len(outcomes), len(names))
    except CancelledError:
        raise CancelledError("cancelled; what was not complete was not written") from None
    for whole, output in manifests.items():
        built = [outcomes[each] for each in wholes[whole]]
        if not any(each.exit_code for each in built):
            write_engines(output, whole, [Path(each.engine or "") for each in built])
    return [outcomes[name] for name in names]


def engines_output(folder: Path, name: str) -> Output:
    """The manifest of a network in parts. Raises UsageError where none can be written."""
    return check_writable(folder / file_name(name, ".engines.json", "the network's name"), ENGINES, [])


def write_engines(output: Output, name: str, engines: Sequence[Path]) -> None:
    """The manifest of several engines that are one network, each for some of the sizes."""
    parts = [(engine, read_manifest(engine)) for engine in engines]
    kinds = [
        [
            (each, info.dtype, len(info.shape))
            for tensors in (part.inputs, part.outputs)
            for each, info in tensors.items()
        ]
        for _, part in parts
    ]
    if any(kind != kinds[0] for kind in kinds):
        raise UsageError(
            f"the parts of {name} are no one network: their inputs or outputs differ in name, dtype or rank"
        )
    facts: dict[str, Any] = {"schema": 1, "kind": "engines", "network": name}
    facts["engines"] = [
        {"engine": engine.name, "sha256": part.engine.sha256, "profiles": msgspec.to_builtins(part.profiles)}
        for engine, part in parts
    ]
    write_atomically(output, dump(facts))


def _each_apart(work: Sequence[tuple[Any, ...]], jobs: int) -> Iterator[Outcome]:
    """What :func:`_build_one` gives for each of these arguments, as it comes, in a process of its own.

    What a file imports, such as a module of a name that others have, too, is not there for the next one; and a process
    that dies takes no other's work with it.
    """
    import multiprocessing  # slow to import, and needed only here
    from multiprocessing import resource_tracker
    from multiprocessing.connection import wait
    from pickle import PicklingError

    resource_tracker.ensure_running()  # as the first process would, which would let signals through again
    context = multiprocessing.get_context("spawn")  # TensorRT's threads and CUDA do not survive a fork
    waiting, running = [*reversed(work)], dict[Any, tuple[str, Any]]()
    try:
        while waiting or running:
            while waiting and len(running) < jobs:
                with noted() as pressed:  # none is started that is not known of
                    given, (end, other) = waiting.pop(), context.Pipe(duplex=False)
                    process = context.Process(target=_work, args=(other, *given))
                    try:
                        with _held():  # one that is told to end while it begins would print where
                            process.start()
                    except (TypeError, AttributeError, PicklingError) as error:
                        text = f"several networks are built in processes of their own, which take files: {error}"
                        raise UsageError(text) from None
                    other.close()
                    running[end] = given[0], process
                if pressed():
                    raise KeyboardInterrupt
            ended: list[Any] = wait([*running])
            for end in ended:
                name, process = running[end]
                try:
                    outcome = end.recv()
                except EOFError:  # TensorRT's own crash, or no memory
                    process.join()
                    text = f"the process that built it died, with the exit code {process.exitcode}"
                    outcome = Outcome(name, error=text, kind="ProcessError", exit_code=exit_codes.RUNTIME)
                process.join()
                del running[end]
                yield outcome
    finally:
        with noted():
            _end([process for _, process in running.values()])


@contextmanager
def _held() -> Iterator[None]:
    """Inside, Ctrl-C waits, as it does in a process that is started here until that leaves this, too."""
    mask = getattr(signal, "pthread_sigmask", lambda how, signals: None)  # which Windows lacks
    mask(getattr(signal, "SIG_BLOCK", 0), {signal.SIGINT})
    try:
        yield
    finally:
        mask(getattr(signal, "SIG_UNBLOCK", 0), {signal.SIGINT})


def _end(processes: Sequence[Any]) -> None:
    """Ends processes as Ctrl-C would, which a library may lose, and in the end in any case."""
    for again in range(4):
        for process in processes:
            if process.is_alive():
                process.kill() if again == 3 else os.kill(process.pid, signal.SIGINT)
        for process in processes:
            process.join(MOMENT)


MOMENT = 1.2
"""Seconds until a process that was told to end is told again, which is more than it takes two signals for one."""


def _work(end: Any, *given: Any) -> None:
    """Sends what became of a network; ends where it is told to, with nothing half-written."""
    told_at = [-MOMENT]

    def cancel(number: int, frame: FrameType | None) -> None:
        if time.monotonic() - told_at[0] > 1:  # a terminal's Ctrl-C comes from there, and from the process above
            told_at[0] = time.monotonic()
            raise KeyboardInterrupt

    with suppress(KeyboardInterrupt, BrokenPipeError):  # nobody is left to be told
        with _held():
            for each in SIGNALS:
                ENDING.setdefault(each, ENDING[signal.SIGINT])
                signal.signal(each, cancel)
        sys.stdout = sys.stderr  # what the author's code prints is no result: these are printed together
        try:
            end.send(_build_one(*given))
        finally:
            told_at[0] = math.inf  # it ends by itself: what runs at its end would print that it was interrupted


def _build_one(
    name: str,
    network: str,
    settings: Mapping[str, Any] | None,
    folder: str,
    tuning: bool | str | Path,
    tune_seconds: float | None,
    options: dict[str, Any],
) -> Outcome:
    try:
        spec = load_spec(network, settings).tuned(tuning)
        tuned = None if tune_seconds is None else tune(spec, seconds=tune_seconds, **tune_options(options))
        if tuned is not None and tuned.cancelled:
            raise CancelledError("cancelled while it was tuned; what was found until then is kept")
        result = build(spec, engine_file(spec.name, os.path.join(folder, "")), **options)
    except TrtdslError as error:
        return Outcome(name, error=str(error), kind=type(error).__name__, exit_code=error.exit_code)
    except Exception as error:
        return Outcome(name, error=told(error), kind=type(error).__name__, exit_code=exit_codes.RUNTIME)
    size = result.manifest.get("engine", {}).get("bytes")
    return Outcome(name, str(result.engine), result.built, size, tuning=None if tuned is None else tuned.to_json())
