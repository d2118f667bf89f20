"""A CMake project in C++ around an engine: a program with its names and shapes, and the library that runs it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from ..core.caller import option
from ..core.errors import PACKAGE, UsageError
from ..core.files.names import file_name
from ..core.files.writing import Kind, check_all_writable, write_all_atomically
from .loading.loader import read_described
from .loading.manifest import Manifest, manifest_path
from .loading.signature import TensorInfo
from .running.generate import objection

PROJECT = Kind("a file of the C++ project", "(?!)")
LIBRARY = ("CMakeLists.txt", "include/trtdsl/*.hpp", "src/*.?pp", "cmake/*.in", "examples/*.cpp")

LISTS = """\
# A program that runs {engine}; README.md says how to build it.
cmake_minimum_required(VERSION 3.18)
project({project} LANGUAGES CXX)
set(TRTDSL_CPP "${{CMAKE_CURRENT_SOURCE_DIR}}/trtdsl" CACHE PATH "The sources of trtdsl's C++ library")
add_subdirectory("${{TRTDSL_CPP}}" trtdsl EXCLUDE_FROM_ALL)
add_executable(main main.cpp)
target_link_libraries(main PRIVATE trtdsl::trtdsl_engine)
"""

MAIN = """\
// {about}
#include <trtdsl/engine.hpp>

#include <iostream>

namespace {{
{helpers}
void run(std::filesystem::path const& engine_file) {{
#ifdef TRTDSL_WITH_TENSORRT
    trtdsl::LoadOptions options;
    options.runtime_cache = engine_file.string() + ".cache";  // what TensorRT-RTX compiles for this GPU
    trtdsl::Engine const engine(engine_file, options);  // one for all threads
{runs}
    engine.close();
#else  // compiled without TensorRT: what it is given is judged, and nothing is run
    auto const file = trtdsl::open_engine(engine_file, {{{product}, {version}}});
{judged}    std::cout << "not run: compiled without TensorRT\\n";
#endif
}}

}}  // namespace

int main(int count, char** values) {{
    try {{
        run(count > 1 ? values[1] : {engine_file});
        return 0;
    }} catch (trtdsl::Error const& error) {{
        std::cerr << "error: " << error.what() << " [" << error.code() << "]\\n";
        return error.exit_code();
    }} catch (std::exception const& error) {{  // no memory, or outputs that the manifest does not have
        std::cerr << "error: " << error.what() << "\\n";
        return 8;
    }}
}}
"""

ARRAYS = """
using Arrays = std::map<std::string, trtdsl::Array>;

trtdsl::Array zeros(std::string const& dtype, trtdsl::Shape const& shape) {{
    std::size_t bytes = trtdsl::item_size(dtype);
    for (auto size : shape) bytes *= static_cast<std::size_t>(size);
    return {{dtype, shape, std::string(bytes, '\\0')}};  // in C order
}}

// At the sizes that the engine is fastest at.
Arrays inputs() {{
    Arrays feeds;
{feeds}
    return feeds;
}}

void print(std::string const& name, trtdsl::Array const& array) {{
    std::cout << name << ": " << array.dtype;
    for (auto size : array.shape) std::cout << " " << size;
    std::cout << ", " << array.data.size() << " bytes\\n";
}}

"""

JUDGED = "    trtdsl::check_feeds(file.manifest->signature, inputs());\n"

RUN = """\
    engine.warm_up();
    Arrays const outputs = engine.run(inputs());
{outputs}"""

SESSION = """\
    trtdsl::Session session(engine, {{{shapes}}});  // the states begin with zeros and stay on the GPU
    for (int step = 0; step < 3; ++step) {{
        Arrays const outputs = session.run(inputs());
    {outputs}
    }}"""

GENERATOR = """\
    trtdsl::Generator const generator(engine);  // for all threads
    trtdsl::Sampling how;
    how.max_tokens = 4;
    auto const texts = generator.generate({{0}}, how);  // what follows each prompt
    for (auto token : texts.at(0)) std::cout << token << " ";
    std::cout << "\\n";"""

README = """\
# {engine}

A program in C++ that loads the engine `{engine}` and runs it. `trtdsl/` is the library that it uses, `main.cpp`
is yours.

```sh
cmake -S . -B build -DTRTDSL_BACKEND={product} -D{root}=/opt/{folder}
cmake --build build --target main
build/main
```

The engine was built by {product} {version} and runs with this version: take its headers and its library. The library in
the Python wheel does too: `trtdsl doctor --cmake` prints the options for it, and
`-D{library}_HEADERS=FOLDER` says where `NvInfer.h` is.

| | name | dtype | shape |
|---|---|---|---|
{tensors}
"""


def export_cpp(
    engine: str | os.PathLike[str], folder: str | os.PathLike[str], *, name: str | None = None, force: bool = False
) -> Path:
    """Writes a CMake project that runs ``engine``: main.cpp, CMakeLists.txt, README.md, the engine, and the library.

    The program runs it on zeros: a decoder by a Generator, from a prompt, and one with other states by a Session.
    The engine and the program are called ``name``, the network's name by default. A project that is there is replaced
    only with ``force``.

    Raises the loader's errors, UsageError for what cannot be written, and for a name that no file can have.
    """
    data, described, manifest = read_described(engine)
    called = file_name(manifest.network if name is None else name, ".engine", "the engine's name")
    target = Path(folder)
    texts = {
        "main.cpp": main_text(manifest, called),
        "CMakeLists.txt": LISTS.format(engine=literal(called), project=re.sub(r"\W", "_", f"run_{called}", flags=re.A)),
        "README.md": readme_text(manifest, called),
        **{f"trtdsl/{place}": source.read_text(encoding="utf-8") for place, source in _library()},
    }
    contents = {place: text.encode() for place, text in texts.items()}
    contents |= {called: data, f"{called}.json": described}
    there = [target / place for place in contents if os.path.lexists(target / place)]
    if there and not force:
        raise UsageError(f"there is a {there[0]} already: give another folder, or say {option('force')} to replace it")
    reads = [("engine", engine), ("manifest", manifest_path(Path(engine)))]
    files = check_all_writable(target, dict.fromkeys(contents, PROJECT), reads, force=force)
    write_all_atomically({files[place]: content for place, content in contents.items()})
    return target


def main_text(manifest: Manifest, engine: str) -> str:
    """The program. Whatever the manifest says stands in literals and comments where it cannot be code."""
    signature, states = manifest.signature, manifest.states
    feeds, outputs = [], []
    for name, info in signature.inputs.items():
        if name in states:
            continue
        sizes = ", ".join(map(str, signature.profiles[0][name][1]))
        made = f'zeros("{info.dtype}", {{{sizes}}})'
        feeds.append(f'    feeds["{literal(name)}"] = {made};  // {_shape(manifest, info)}')
    for name, info in signature.outputs.items():
        if name not in states.values():
            outputs.append(f'    print("{literal(name)}", outputs.at("{literal(name)}"));  // {_shape(manifest, info)}')
    about = f"Runs {literal(engine)} on zeros: replace what inputs() gives, and what run() does with the results."
    helpers, judged = ARRAYS.format(feeds="\n".join(feeds)), ""
    if objection(signature.inputs, signature.outputs, states) is None:
        about = f"Generates tokens by {literal(engine)}: replace the prompt, and say how they are chosen."
        helpers, runs = "", GENERATOR
    elif states:
        opts = {name: signature.profiles[0][name][1] for name in states if -1 in signature.inputs[name].shape}
        shapes = [f'{{"{literal(name)}", {{{", ".join(map(str, sizes))}}}}}' for name, sizes in opts.items()]
        runs = SESSION.format(shapes=", ".join(shapes), outputs="\n    ".join(outputs))
    else:
        runs, judged = RUN.format(outputs="\n".join(outputs)), JUDGED
    return MAIN.format(
        about=about,
        engine_file=f'"{literal(engine)}"',
        helpers=helpers,
        runs=runs,
        judged=judged,
        product=f'"{manifest.backend.name}"',
        version=f'"{manifest.backend.version}"',
    )


def readme_text(manifest: Manifest, engine: str) -> str:
    """How to build the program, and what the engine takes and gives."""
    is_rtx = manifest.backend.name == "tensorrt-rtx"
    rows = [
        f"| {kind} | `{_code(name)}` | {info.dtype} | `{_code(_shape(manifest, info))}` |"
        for kind, tensors in (("input", manifest.signature.inputs), ("output", manifest.signature.outputs))
        for name, info in tensors.items()
    ]
    return README.format(
        engine=_code(engine),
        product=manifest.backend.name,
        version=manifest.backend.version,
        root="TRTRTX_INSTALL_DIR" if is_rtx else "TensorRT_ROOT",
        folder="TensorRT-RTX" if is_rtx else "TensorRT",
        library="tensorrt_rtx" if is_rtx else "nvinfer",
        tensors="\n".join(rows),
    )


def literal(text: str) -> str:
    r"""Text for a literal or a comment of C++ or CMake: all but plain letters as octal escapes of its bytes.

    >>> literal('a"b\n')
    'a\\042b\\012'
    """
    plain = re.compile(r"[A-Za-z0-9_./(), :+*%-]")
    data = text.encode("utf-8", "surrogatepass")
    return "".join(chr(byte) if plain.match(chr(byte)) else f"\\{byte:03o}" for byte in data)


def _code(text: str) -> str:
    """Text for a code span of Markdown."""
    return literal(text).replace("\\", "%")


def _shape(manifest: Manifest, info: TensorInfo) -> str:
    """A shape in the author's dimensions, without what could end a comment."""
    entry = manifest.inputs.get(info.name) or manifest.outputs[info.name]
    return literal(f"({', '.join(map(str, entry.shape))}){', channels last' if info.channels_last else ''}")


def _library() -> Iterator[tuple[str, Path]]:
    """The library's sources by their places: in the wheel, or beside the package."""
    for folder in (Path(PACKAGE) / "cpp", Path(PACKAGE).parent / "cpp"):
        if (folder / "CMakeLists.txt").is_file():
            for pattern in LIBRARY:
                for source in sorted(folder.glob(pattern)):
                    yield source.relative_to(folder).as_posix(), source
            return
    raise UsageError("the sources of the C++ library are not installed: they are in trtdsl's wheel and in cpp/")
