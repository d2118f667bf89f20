"""Generated kernels on the host: compiled once by a C++ compiler, run in a process of their own with few rights.

The compiler gets the kernels' text behind our own headers, in ``kernel/``; the result is kept in the user's cache by
the text's hash. The process that runs them shares one memory with this one and may do nothing else.
"""

from __future__ import annotations

import hashlib
import os
import resource
import shutil
import struct
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any

from ...core.errors import ProgramFaultError, UnevaluatedProgramError
from .built_here import folder
from .sources import Kernel

OWN = Path(__file__).parent / "kernel"
OPTIONS = (
    "-std=c++17", "-O2", "-march=native", "-ffp-contract=off", "-fno-strict-aliasing", "-fwrapv", "-w",
    "-fpermissive", "-fno-math-errno", "-fno-trapping-math", "-ftree-vectorize",
)  # fmt: skip
MARKING = ("-fsanitize=thread", "-fno-threadsafe-statics", "-DMARKS=1")
SECONDS = 600  # of computing that a process of kernels may take
FEWEST = 8  # kernels for each run of the compiler, which takes a fifth of a second before the first
COMPILING = 300  # seconds of computing for one run of the compiler
COMPILERS_MEMORY = 4 << 30  # bytes
KEPT = "[(index - threadIdx.x)"
"""How a kernel names what a thread keeps, of the elements of a row that it read, for the results that it writes."""


@cache
def compiler() -> str | None:
    """The C++ compiler: ``$CXX``, g++ or clang++; None without one."""
    return next(
        (found for name in (os.environ.get("CXX"), "g++", "clang++") if name and (found := shutil.which(name))), None
    )


@cache
def _version() -> str:
    """What the result depends on beside the kernel's text: the compiler, its options, our headers and this CPU."""
    path = compiler()
    assert path is not None
    told = subprocess.run([path, "--version"], capture_output=True, check=False).stdout
    flags = next((line for line in _cpu().splitlines() if line.startswith("flags")), "")
    own = b"".join(path.read_bytes() for path in sorted(OWN.iterdir()))
    return hashlib.sha256(told + " ".join(_options()).encode() + flags.encode() + own).hexdigest()


def _cpu() -> str:
    try:
        return Path("/proc/cpuinfo").read_text("utf-8", "replace")
    except OSError:
        return ""


def _options(marks: bool = False) -> tuple[str, ...]:
    """The compiler's options, ``$CXXFLAGS`` last; with ``marks`` it puts a call at every access.

    Assemblers of today do not know what GCC makes of half precision on the newest CPUs.
    """
    own = (*OPTIONS, "-mno-avx512fp16") if "avx512_fp16" in _cpu() else OPTIONS
    return (*own, *(MARKING if marks else ()), *os.environ.get("CXXFLAGS", "").split())


def _key(kernel: Kernel) -> str:
    text = "\0".join((_version(), str(kernel.marks), kernel.name, kernel.builtins, kernel.body))
    return hashlib.sha256(text.encode()).hexdigest()


def compile_kernels(kernels: Iterable[Kernel]) -> dict[str, tuple[Path, int]]:
    """The executable of each kernel by its name, and its number there; compiles those that no cache has.

    Raises UnevaluatedProgramError where there is no compiler, or where a kernel uses what our headers do not have.
    """
    wanted = {kernel.name: kernel for kernel in kernels}
    if wanted and compiler() is None:
        raise UnevaluatedProgramError(
            "the engine has kernels in C++, and there is no C++ compiler here: install the package g++ (or set CXX)"
        )
    try:
        cached, hashes = folder() / "kernels", cache(_hash_of)
        found = {name: place for name, kernel in wanted.items() if (place := _kept(cached, kernel, hashes)) is not None}
        missing = [kernel for name, kernel in wanted.items() if name not in found]
        workers = max(min(os.cpu_count() or 1, 4, len(missing) // FEWEST), 1)
        groups = [group for start in range(workers) if (group := missing[start::workers])]
        with ThreadPoolExecutor(workers) as pool:
            for result in pool.map(lambda group: _compile(cached, group), groups):
                found |= result
    except OSError as error:
        raise _no_cache("compiled in the user's cache, which cannot be written", error) from None
    return found


def _no_cache(what: str, error: OSError) -> UnevaluatedProgramError:
    own = "set XDG_CACHE_HOME to a folder of your own"
    return UnevaluatedProgramError(f"the engine's kernels are {what} ({error.strerror}): {own}")


def _kept(cached: Path, kernel: Kernel, hashes: Callable[[Path], str]) -> tuple[Path, int] | None:
    """Where a kernel is, as :func:`_compile` wrote it down; None where that or the executable is damaged."""
    try:
        name, number, seal = (cached / _key(kernel)).read_text("utf-8").split()
        path = cached / Path(name).name
        return (path, int(number)) if seal == _seal(hashes(path), number) else None
    except (OSError, ValueError):
        return None


def _hash_of(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _seal(executable: str, number: object) -> str:
    """A hash of what a note says: an executable by its own hash, and the number of a kernel in it."""
    return hashlib.sha256(f"{executable} {number}".encode()).hexdigest()


def _compile(cached: Path, group: Sequence[Kernel]) -> dict[str, tuple[Path, int]]:
    """Compiles kernels into one executable, and writes down which are in it."""
    text = "\n".join(_translation_unit(group))
    cached.mkdir(parents=True, exist_ok=True)
    marks = any(kernel.marks for kernel in group)
    target = cached / (hashlib.sha256((_version() + str(marks) + text).encode()).hexdigest() + ".kernels")
    with tempfile.TemporaryDirectory(dir=cached) as scratch:
        source, object_file, made = (Path(scratch) / name for name in ("kernels.cpp", "kernels.o", "kernels"))
        source.write_text(text, "utf-8")
        to_object = [*_options(marks), f"-I{OWN}", "-c", str(source), "-o", str(object_file)]
        for options in (to_object, [*_options(), str(object_file), "-o", str(made)]):
            command = [str(compiler()), *options]
            done = subprocess.run(command, capture_output=True, text=True, check=False, preexec_fn=_limit_compiler)
            if done.returncode:
                raise UnevaluatedProgramError(_not_compiled(group, done.stderr))
        os.replace(made, target)
        whole = _hash_of(target)
        for number, kernel in enumerate(group):
            note = Path(scratch) / "note"
            note.write_text(f"{target.name} {number} {_seal(whole, number)}", "utf-8")
            os.replace(note, cached / _key(kernel))
    return {kernel.name: (target, number) for number, kernel in enumerate(group)}


def _limit_compiler() -> None:
    """What a text may cost before it runs: templates are programs, too."""
    resource.setrlimit(resource.RLIMIT_CPU, (COMPILING, COMPILING))
    resource.setrlimit(resource.RLIMIT_AS, (COMPILERS_MEMORY, COMPILERS_MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _not_compiled(group: Sequence[Kernel], told: str) -> str:
    lines = [line for line in told.splitlines() if "error" in line]
    names = ", ".join(kernel.name for kernel in group[:3])
    first = lines[0].partition("error: ")[2] if lines else told[-300:]
    return f"a kernel of {names} uses what is not known on the host: {first}"


def _translation_unit(group: Sequence[Kernel]) -> Iterable[str]:
    yield from (f'#include "{header}"' for header in ("device.hpp", "reductions.hpp", "selections.hpp"))
    builtins = {kernel.builtins for kernel in group}
    if len(builtins) > 1:
        raise UnevaluatedProgramError("the kernels of one engine do not begin alike")
    yield from ("namespace builtins {", *builtins, "}", "using namespace builtins;")
    headers = dict.fromkeys(header for kernel in group for header in kernel.headers)
    yield from (f'#include "{header}"' for header in headers if header.endswith(".hpp"))
    for number, kernel in enumerate(group):
        yield f"namespace kernel_{number} {{"
        yield "#undef __FMHA_UTILS__"  # around what each kernel of attention defines itself
        yield f"constexpr bool KEEPS = {str(KEPT in kernel.body).lower()};"
        yield from (f'#include "{header}"' for header in kernel.headers if header.endswith(".inc"))
        yield kernel.body
        yield "}"
    yield "const Kernel kernels[] = {"
    for number, kernel in enumerate(group):
        caller = f"Caller<&kernel_{number}::{kernel.name}>"
        yield (
            f'    {{"{kernel.name}", {caller}::call, {caller}::block, {caller}::count, {str(kernel.barrier).lower()}}},'
        )
    yield f"}};\nconst size_t kernel_count = {len(group)};"
    yield '#include "server.cpp"'


class Server:
    """A process that runs the kernels of one executable on shared memory."""

    def __init__(self, path: Path, memory: int, size: int):
        command, pipe = [str(path), str(memory), str(size), str(SECONDS)], subprocess.PIPE
        how: dict[str, Any] = {"stdin": pipe, "stdout": pipe, "stderr": pipe, "env": {}, "bufsize": 0}
        try:
            self.process = subprocess.Popen(command, pass_fds=(memory,), **how)
        except OSError as error:
            raise _no_cache("run from the user's cache, whose files cannot be", error) from None

    def run(self, request: Sequence[int], addresses: Sequence[int], what: str) -> None:
        """Runs one kernel with the places of its arguments; raises ProgramFaultError where it does not end well.

        The request is the kernel's number, its grid and its block, its shared memory, and whether it runs backwards.
        """
        assert self.process.stdin is not None and self.process.stdout is not None and self.process.stderr is not None
        number, *launch = request
        try:
            sent = struct.pack("=10I", number, len(addresses), *launch)
            self.process.stdin.write(sent + struct.pack(f"={len(addresses)}Q", *addresses))
            done = self.process.stdout.read(1)
        except BrokenPipeError:
            done = b""
        if done != b"\1":
            told = self.process.stderr.read().decode("utf-8", "replace").strip()
            code = self.process.wait()
            if code == 3:
                raise UnevaluatedProgramError(f"{what.removesuffix(',')}: {told}")
            raise ProgramFaultError(f"{what} {ENDS.get(-code, f'ended with {code}')}{': ' + told if told else ''}")

    def close(self) -> None:
        """Ends the process."""
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            if pipe is not None:
                pipe.close()
        self.process.kill()
        self.process.wait()


ENDS = {
    4: "divides by a length of zero",
    11: "accesses memory that is not there (segmentation fault)",
    7: "accesses memory that is not there (bus error)",
    8: "divides an integer by zero",
    9: "was ended: it took too long, or did more than compute",
    24: f"did not end within {SECONDS} seconds of computing",
}
"""By the signal that ended the process."""
