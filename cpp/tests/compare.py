"""Compares the declarations of the doubles in double/ with those of real headers.

    python cpp/tests/compare.py --tensorrt FOLDER --cuda FOLDER

FOLDER has NvInfer.h (of TensorRT or TensorRT-RTX) and cuda_runtime_api.h; by default they are include/ of
$TensorRT_ROOT (or $TRTRTX_INSTALL_DIR) and of $CUDA_HOME (or /usr/local/cuda). Each function, member, enumerator and
constant of the doubles becomes a line of a program that the compiler accepts only if the real headers declare it alike;
a function may be noexcept there that is not here. Exit code 1 names what differs.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

DOUBLES = Path(__file__).parent / "double"
HEADERS = ("NvInfer.h", "cuda_runtime_api.h")
SAME = "std::is_same_v<{}, {}>"
AS = "template <typename T> using as = T;"  # a cast would take a function that may throw for one that may not
NOT_NEEDED = (  # engine.cpp does without them
    "nvinfer1::ICudaEngine::getProfileTensorValuesV2",
    "nvinfer1::ICudaEngine::getAliasedInputTensor",
    "nvinfer1::IExecutionContext::setCommunicator",
)


def statements(text: str, defined: set[str]) -> list[str]:
    """The lines of a double, without comments and what its conditions leave out."""
    kept, live = [], [True]
    for line in (line.split("//")[0].strip() for line in text.splitlines()):
        word, _, rest = line.partition(" ")
        if word in ("#ifdef", "#ifndef"):
            live.append(live[-1] and (rest in defined) == (word == "#ifdef"))
        elif word == "#else":
            live[-1] = live[-2] and not live[-1]
        elif word == "#endif":
            live.pop()
        elif live[-1] and line:
            kept.append(line)
    return kept


def parameters(text: str) -> str:
    """The types of a parameter list, without names and defaults."""
    parts = [part.split("=")[0].strip() for part in text.split(",") if part.strip()]
    return ", ".join(re.sub(r"(?<=[\s*&])\w+$", "", part).strip() if " " in part else part for part in parts)


def checks(text: str, defined: set[str]) -> dict[str, str]:
    """For each declaration of a double a statement that compiles where the real one is the same, by its name."""
    found: dict[str, str] = {}
    owner, space = "", ""
    for line in statements(text, defined):
        if match := re.fullmatch(r"namespace (\w+) \{", line):
            space = f"{match[1]}::"
        elif line.startswith("}  ") or line == "}":
            space = ""
        elif match := re.fullmatch(r"enum (class )?(\w+)(?: : [\w:]+)? \{ (.*) \};", line):
            scope = (f"{owner}::" if owner else space) + (f"{match[2]}::" if match[1] else "")
            for name, value in re.findall(r"(\w+) = (\d+)", match[3]):
                found[f"{scope}{name}"] = f"static_assert(static_cast<unsigned long long>({scope}{name}) == {value});"
        elif match := re.fullmatch(r"(?:class|struct) (\w+) \{", line):
            owner = f"{space}{match[1]}"
        elif line == "};":
            owner = ""
        elif match := re.fullmatch(r"#define (cuda\w+) (.+)", line):
            found[match[1]] = f"static_assert({match[1]} == {match[2]});" if "(" not in match[2] else (
                f"inline bool const of_{match[1]} = {match[1]} == {match[2]};"
            )  # fmt: skip
        elif match := re.fullmatch(r"(?:virtual )?([\w:*& ]+?)(\w+)\(([^()]*)\)( const)?( noexcept)?(?: = 0)?;", line):
            result, name, given, const, noexcept = match.groups()
            kind = (
                f"{result.strip()} ({owner + '::' if owner else ''}*)({parameters(given)}){const or ''}{noexcept or ''}"
            )
            place = f"{owner or space.rstrip(':')}::{name}" if owner or space else name
            found[place] = f"inline as<{kind}> const of_{place.replace(':', '_')} = &{place};"
        elif owner and (
            match := re.fullmatch(r"(?:static constexpr )?([\w:*& ]+?)(\w+)(\[\w+\])?(?:\{(\d+)\})?;", line)
        ):
            name, kind = match[2], match[1].strip() + (f"[{owner}::{match[3][1:]}" if match[3] else "")
            found[f"{owner}::{name}"] = (
                f"static_assert({owner}::{name} == {match[4]});" if match[4]
                else f"static_assert({SAME.format(f'decltype({owner}::{name})', kind)});"
            )  # fmt: skip
    return found


def real_defines(folder: Path) -> set[str]:
    """What the doubles' conditions ask of the real headers."""
    is_rtx = any("TRT_MAJOR_RTX" in path.read_text(errors="replace") for path in folder.glob("NvInfer*.h"))
    return {"TRT_MAJOR_RTX"} if is_rtx else {"DOUBLE_STANDARD"}


def compare(tensorrt: Path, cuda: Path, doubles: Path = DOUBLES) -> tuple[int, list[str]]:
    """How many declarations were compared, and the names of those that differ."""
    defined = real_defines(tensorrt)
    found: dict[str, str] = {}
    for header in HEADERS:
        found |= checks((doubles / header).read_text(), defined)
    names = list(found)
    head = [
        "#include <type_traits>",
        "#include <NvInfer.h>",
        "#include <cuda_runtime_api.h>",
        "using namespace nvinfer1;",
        AS,
    ]
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "check.cpp"
        source.write_text("\n".join([*head, *found.values()]) + "\n")
        command = ["g++", "-std=c++17", "-fsyntax-only", "-fmax-errors=0", "-w", "-I", str(tensorrt), "-I", str(cuda)]
        done = subprocess.run([*command, str(source)], capture_output=True, text=True)
    lines = {int(number) for number in re.findall(r"check\.cpp:(\d+):\d+: error", done.stderr)}
    differing = [names[line - len(head) - 1] for line in sorted(lines) if line > len(head)]
    if done.returncode and not differing:
        raise SystemExit(done.stderr)
    return len(names), differing


def main() -> int:
    root = next((os.environ[name] for name in ("TensorRT_ROOT", "TRTRTX_INSTALL_DIR") if name in os.environ), "")
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--tensorrt", type=Path, default=Path(root) / "include")
    parser.add_argument("--cuda", type=Path, default=Path(os.environ.get("CUDA_HOME", "/usr/local/cuda")) / "include")
    parser.add_argument("--doubles", type=Path, default=DOUBLES)
    given = parser.parse_args()
    for folder, header in ((given.tensorrt, HEADERS[0]), (given.cuda, HEADERS[1])):
        if not (folder / header).is_file():
            parser.error(f"there is no {header} in {folder}")
    count, differing = compare(given.tensorrt, given.cuda, given.doubles)
    for name in differing:
        print(f"{'lacks, and does without' if name in NOT_NEEDED else 'differs'}: {name}")
    print(f"{count - len(differing)} of {count} declarations are those of {given.tensorrt}")
    return 0 if set(differing) <= set(NOT_NEEDED) else 1


if __name__ == "__main__":
    sys.exit(main())
