"""The Python API of a TensorRT that cannot run here, from its bindings wheel alone.

    python tools/api_surface.py WHEEL... [--output tests/data/api]

writes PRODUCT-VERSION.json for each wheel: classes with their properties and methods (every overload's parameters), and
enums with their members. The bindings are imported against empty shared libraries that define the few functions that
they link to, so neither TensorRT nor a GPU is needed; a C compiler is, and Linux. The wheels are those of
`pip download --no-deps tensorrt-cu12-bindings==10.3.0`, tensorrt-cu13-bindings and tensorrt-rtx-cu13-bindings, for this
Python.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

FUNCTIONS = [  # all that the bindings link to
    "createInferBuilder_INTERNAL",
    "createInferRefitter_INTERNAL",
    "createInferRuntime_INTERNAL",
    "getBuilderPluginRegistry",
    "getPluginRegistry",
    "initLibNvInferPlugins",
    "createNvOnnxParser_INTERNAL",
    "createNvOnnxParserRefitter_INTERNAL",
    "getNvOnnxParserVersion",
]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("wheels", nargs="*", type=Path)
    parser.add_argument("--output", type=Path, default=Path("tests/data/api"))
    parser.add_argument("--dump", metavar="MODULE", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.dump:
        json.dump(surface(__import__(options.dump)), sys.stdout)
        return
    for wheel in options.wheels:
        found = extract(wheel)
        name = "tensorrt-rtx" if "rtx" in wheel.name else "tensorrt"
        path = options.output / f"{name}-{wheel.name.split('-')[1]}.json"
        path.write_text(json.dumps({"product": name, "version": wheel.name.split("-")[1], **found}, indent=0) + "\n")
        print(f"{path}: {len(found['classes'])} classes, {len(found['enums'])} enums")


def extract(wheel: Path) -> dict:
    """The surface of a wheel, read in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(folder)
        binding = next(Path(folder).glob("tensorrt*bindings/tensorrt*.so"))
        libraries = Path(folder) / "libraries"
        libraries.mkdir()
        source = libraries / "empty.c"
        source.write_text("".join(f"void *{name}() {{ return 0; }}\n" for name in FUNCTIONS))
        for needed in linked(binding):
            if needed.startswith(("libnv", "libtensorrt")):
                subprocess.run(
                    ["cc", "-shared", "-fPIC", f"-Wl,-soname,{needed}", "-o", libraries / needed, source], check=True
                )
        environment = {**os.environ, "LD_LIBRARY_PATH": str(libraries), "PYTHONPATH": str(binding.parent)}
        command = [sys.executable, __file__, "--dump", binding.name.partition(".")[0]]
        return json.loads(subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout)


def linked(binding: Path) -> list[str]:
    """The shared libraries that a binding names."""
    listing = subprocess.run(["readelf", "-d", binding], check=True, capture_output=True, text=True).stdout
    return re.findall(r"\(NEEDED\).*\[(.+)\]", listing)


def surface(module) -> dict:
    """Classes, enums and functions of an imported binding."""
    classes, enums = {}, {}
    for name, value in vars(module).items():
        if not isinstance(value, type):
            continue
        if hasattr(value, "__members__"):
            enums[name] = sorted(value.__members__)
        else:
            members = {each: member for each in dir(value) if keep(each) for member in [getattr(value, each)]}
            classes[name] = {
                "properties": sorted(each for each, member in members.items() if not callable(member)),
                "methods": {each: overloads(each, member) for each, member in members.items() if callable(member)},
            }
    functions = {
        name: overloads(name, value)
        for name, value in vars(module).items()
        if callable(value) and not isinstance(value, type)
    }
    return {"classes": dict(sorted(classes.items())), "enums": dict(sorted(enums.items())), "functions": functions}


def keep(name: str) -> bool:
    return name == "__init__" or not name.startswith("_")


def overloads(name: str, function) -> list[str]:
    """Each overload's parameters by name, those with a default followed by "=": what pybind11's docstring says."""
    text = function.__doc__ or ""
    found = []
    for line in text.splitlines():
        match = re.match(rf"\s*(?:\d+\. )?{re.escape(name)}\((.*)\)(?: -> .*)?$", line)
        if match and match[1] != "*args, **kwargs":
            found.append(", ".join(parameter(part) for part in split(match[1])))
    return found


def split(text: str) -> list[str]:
    """Parameters, at commas outside brackets."""
    parts, depth, start = [], 0, 0
    for index, letter in enumerate(text):
        depth += (letter in "[(<") - (letter in "])>" and text[index - 1] != "-")
        if letter == "," and depth == 0:
            parts.append(text[start:index])
            start = index + 1
    return [part.strip() for part in [*parts, text[start:]] if part.strip()]


def parameter(text: str) -> str:
    name = re.split(r"[:=]", text)[0].strip()
    return name + "=" if re.search(r"(?<![<>!=])=(?!=)", text.split(":", 1)[-1]) else name


if __name__ == "__main__":
    main()
