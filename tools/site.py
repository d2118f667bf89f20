"""Builds the documents as a site: `python tools/site.py OUT` (`make site`), with links that must all hold.

The pages are those of `docs/`, README, CONTRIBUTING and CHANGELOG, and those made from the package: the gallery, the
reference of `td`, `F` and `L` from docstrings, and the command line. The site needs no network when it is read.
"""

from __future__ import annotations

import argparse
import ast
import inspect
import json
import posixpath
import re
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
# Files of the repository that are pages under another name.
RENAMED = {"README.md": "index.md", "CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}
# The navigation: a caption and its pages; a name with a star stands for all pages of a folder.
NAVIGATION = {
    "Start": ["start", "five-commands", "stands", "writing-a-network", "notebooks/*", "troubleshooting"],
    "Guides": [
        "command-line", "porting", "checking", "checking-in-detail", "program", "view", "lowerings", "tuning",
        "engines", "production", "einsum", "sampling", "interpreter", "engine-evaluated", "survey",
    ],
    "By task": ["cookbook/*"],
    "By trap": ["traps/*"],
    "Networks": ["gallery/*"],
    "Reference": ["functions", "layers", "reference/td/*", "reference/F/*", "reference/L", "reference/command-line"],
    "Project": ["benchmarks", "architecture", "contributing", "changelog"],
}  # fmt: skip
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\((?!https?://|#|mailto:)([^)\s#]+)(#[^)\s]*)?\)")


def assemble(folder: Path) -> None:
    """Writes every page of the site into a folder, for Sphinx to read."""
    shutil.copytree(ROOT / "docs", folder, ignore=shutil.ignore_patterns("*.ipynb"))
    pages = {path.relative_to(folder).as_posix(): path.read_text() for path in folder.rglob("*.md")}
    sources = {uri: f"docs/{uri}" for uri in pages}
    for name, uri in RENAMED.items():
        pages[uri], sources[uri] = (ROOT / name).read_text(), name
    for notebook in (ROOT / "docs").rglob("*.ipynb"):
        uri = notebook.relative_to(ROOT / "docs").with_suffix(".md").as_posix()
        pages[uri], sources[uri] = notebook_page(notebook), f"docs/{uri}"
    pages |= gallery() | reference() | {"reference/command-line.md": command_line()}
    pages["index.md"] += navigation(pages)
    for uri, text in pages.items():
        path = folder / uri
        path.parent.mkdir(parents=True, exist_ok=True)
        source = sources.get(uri)
        path.write_text(relink(text, uri, source, pages) if source else text)


def navigation(pages: dict[str, str]) -> str:
    """The tables of contents, as Sphinx reads them at the end of the first page."""
    text = ""
    for caption, names in NAVIGATION.items():
        found = []
        for name in names:
            within = [uri for uri in pages if posixpath.dirname(uri) == posixpath.dirname(name)]
            chosen = (
                sorted(within, key=lambda uri: (not uri.endswith("/index.md"), uri))
                if name.endswith("*")
                else [f"{name}.md"]
            )
            found += [uri.removesuffix(".md") for uri in chosen]
        text += "\n```{toctree}\n:hidden:\n:caption: " + caption + "\n\n" + "\n".join(found) + "\n```\n"
    return text


def relink(text: str, uri: str, source: str, pages: dict[str, str]) -> str:
    """Links to files of the repository become links to their pages, or the file's name where there is no page."""

    def target(link: re.Match[str]) -> str:
        image, label, path, anchor = link[1], link[2], link[3], link[4] or ""
        within = posixpath.normpath(posixpath.join(posixpath.dirname(source), path))
        page = RENAMED.get(within) or within.removeprefix("docs/")
        if within.startswith("networks/"):
            page = f"gallery/{Path(within).stem}.md"
        if page in pages or (image and within.startswith("docs/")):
            return f"{image}[{label}]({posixpath.relpath(page, posixpath.dirname(uri) or '.')}{anchor})"
        if not (ROOT / within).exists():
            raise SystemExit(f"{source} links to {path}, which does not exist")
        return label if label.startswith("`") else f"{label} (`{within}`)"

    return LINK.sub(target, text)


def notebook_page(notebook: Path) -> str:
    """A notebook as a page: its text, its code, and what was printed."""
    parts = []
    for cell in json.loads(notebook.read_text())["cells"]:
        source = "".join(cell["source"])
        parts.append(source if cell["cell_type"] == "markdown" else f"```python\n{source}\n```")
        for output in cell.get("outputs", ()):
            data = output.get("data", {})
            if "text/html" in data:
                parts.append("```{raw} html\n" + "".join(data["text/html"]) + "\n```")
            else:
                printed = "".join(output.get("text", data.get("text/plain", ())))
                parts.append(f"```text\n{printed.rstrip()}\n```")
    return "\n\n".join(parts) + "\n"


def gallery() -> dict[str, str]:
    """An index, and a page for each network: what it is, its picture, what an engine costs, its file and its module."""
    pages, rows = {}, []
    costs = figures()
    for path in sorted((ROOT / "networks").glob("*.py")):
        about = (ast.get_docstring(ast.parse(path.read_text())) or path.stem).replace("\n", " \n")
        files = [path, *sorted((ROOT / "networks").glob(f"*/{path.name}"))]
        parts = [f"# {path.stem}", about]
        if (ROOT / "docs" / "images" / "gallery" / f"{path.stem}.webp").is_file():
            parts.append(f"![The network as trtdsl view draws it](../images/gallery/{path.stem}.webp)")
        cost = costs.get(path.stem, [])
        if cost:
            head = "| | launches | bytes moved | activation memory | floor, ms |\n|---|---|---|---|---|"
            parts.append("\n".join([head, *(f"| {' | '.join(row)} |" for row in cost)]))
            parts.append("[The benchmarks](../benchmarks.md) have them beside other roads, and say what is counted.")
        parts.append(f"`trtdsl view networks/{path.name} --build` makes the page that can be opened and searched.")
        parts += [f"## {each.relative_to(ROOT).as_posix()}\n\n```python\n{each.read_text()}```" for each in files]
        pages[f"gallery/{path.stem}.md"] = "\n\n".join(parts) + "\n"
        first = " ".join(about.split()).partition(". ")[0].partition(": ")[0].rstrip(".")
        rows.append([f"[{path.stem}]({path.stem}.md)", first, *(cost[0][1:3] + cost[0][4:] if cost else [""] * 3)])
    head = "| network | what it is | launches | bytes moved | floor, ms |\n|---|---|---|---|---|"
    table = "\n".join([head, *(f"| {' | '.join(row)} |" for row in rows)])
    play = '<p>A view that was saved opens on <a href="../playground.html">this page</a>, without a server.</p>'
    about = "Engines in float32, by their programs, each built for the sizes that it is tuned for alone."
    pages["gallery/index.md"] = f"# Networks\n\n{about}\n\n{table}\n\n{play}\n"
    return pages


def figures() -> dict[str, list[list[str]]]:
    """What trtdsl's own engines of each network cost, from the benchmarks."""
    found: dict[str, list[list[str]]] = {}
    network = ""
    for line in (ROOT / "docs" / "benchmarks.md").read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 10 and cells[3] == "launches":
            network = cells[0].partition(",")[0]
        elif network and len(cells) == 10 and cells[0].startswith("trtdsl, "):
            row = [cells[0].removeprefix("trtdsl, "), cells[3], cells[4], cells[7], cells[9]]
            found.setdefault(network, []).append(row)
        elif not line.startswith("|"):
            network = ""
    return found


def reference() -> dict[str, str]:
    """A page for each room of the package, with what it offers under `td`, `F` or `L`."""
    import trtdsl as td
    import trtdsl.functional as F
    import trtdsl.layers as L

    pages: dict[str, str] = {}
    for short, module in (("td", td), ("F", F)):
        for room, names in rooms(module).items():
            pages[f"reference/{short}/{room}.md"] = listing(f"{short}: {room}", module, names)
    layers = [name for names in rooms(L).values() for name in names]
    return pages | {"reference/L.md": listing("L: TensorRT's layers", L, layers)}


def rooms(module: Any) -> dict[str, list[str]]:
    """The names of a module by the room of the package that they come from."""
    found: dict[str, list[str]] = {}
    for name in public_names(module):
        value = getattr(module, name)
        path = getattr(value, "__module__", "").split(".")
        if path[0] == "trtdsl":
            within = path[2:] if path[:2] == module.__name__.split(".") else path[1:]
            found.setdefault(within[0], []).append(name)
    return found


def listing(title: str, module: Any, names: list[str]) -> str:
    """A page of the reference with these names."""
    entries = "\n".join(entry(module, name) for name in sorted(names, key=str.lower))
    return f"# {title}\n\n```{{eval-rst}}\n.. currentmodule:: {module.__name__}\n\n{entries}\n```\n"


def entry(module: Any, name: str) -> str:
    """The directive that shows one name of a module."""
    value = getattr(module, name)
    if inspect.isclass(value):
        members = "" if issubclass(value, BaseException) else "   :members:\n"
        return f".. autoclass:: {name}\n{members}"
    return f".. autofunction:: {name}\n"


def public_names(module: Any) -> list[str]:
    """What a module offers and a page can describe: its version and its rooms are none of that."""
    return [name for name in module.__all__ if callable(getattr(module, name))]


def command_line() -> str:
    """All commands with their options, as typer describes them."""
    import typer.main
    from typer.cli import get_docs_for_click

    from trtdsl.cli.app import app

    command = typer.main.get_command(app)
    context: Any = command.make_context("trtdsl", [], resilient_parsing=True)  # typer names another class than it makes
    return get_docs_for_click(obj=command, ctx=context, name="trtdsl", title="Command line")


def main() -> int:
    """Assembles and builds; the exit code is Sphinx's."""
    from sphinx.cmd.build import build_main

    from trtdsl.display.view.page import page

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, help="the folder to write")
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "pages"
        out = parser.parse_args().out
        assemble(folder)
        print("building the pages, some two minutes", flush=True)
        code = build_main(["--fail-on-warning", "--keep-going", "-q", "-b", "html", str(folder), str(out)])
        (out / "playground.html").write_text(page({"name": "a saved view"}))
        print(f"{out / 'index.html'}: {sum(1 for _ in out.rglob('*.html'))} pages")
        return code


if __name__ == "__main__":
    sys.exit(main())
