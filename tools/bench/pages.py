"""Figures of the gallery in README.md, docs/program.md and docs/view.md: measured, printed and written.

    python tools/bench/pages.py [NAME …] [--to FOLDER] [--write]

NAMEs are networks of the gallery, all by default; --to keeps weights that are made. Programs are those of the networks
with all their sizes, at the sizes that they are tuned for, in float32. README has what `trtdsl build` prints.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tools"), str(Path(__file__).parent)]

from measured import write_part  # noqa: E402

import trtdsl as td  # noqa: E402
from networks import NAMES, Networks  # noqa: E402
from trtdsl.display.view.page import page  # noqa: E402
from trtdsl.programs.program import megabytes  # noqa: E402

PARTS = {"build": "README.md", "gallery": "docs/program.md", "page sizes": "docs/view.md"}
PAGES = ("stgcn", "raft_small")


def programs(names, folder):
    """A row for each network: launches, bytes, and its hazards by the author's line."""
    networks = Networks(names, "rtx-4090", None, folder, float("inf"))
    rows = ["| network | launches | MB | hazards |", "|---|---|---|---|"]
    for name in names:
        program = td.program(networks.specs[name].define(weights=networks.weights(name)))
        at = ", ".join(f"{key} = {size}" for key, size in networks.sizes(name).items())
        found = "; ".join(
            f"{each.name}: {place(each.line)}, {megabytes(each.bytes)}" for each in td.find_hazards(program)
        )
        rows.append(f"| {name}, {at} | {program.launch_count} | {program.bytes / 1e6:,.1f} | {found or 'none'} |")
        print(rows[-1], file=sys.stderr, flush=True)
    return "\n".join(rows)


def place(line):
    """A line by its number; of several, those."""
    return f"line {line.rpartition(':')[2]}" if line else "no line"


def pages(folder):
    """A sentence with the size of a page of each of PAGES, and of the page without a network."""
    networks = Networks(PAGES, "rtx-4090", None, folder, float("inf"))
    made = []
    for name in PAGES:
        view = td.view(networks.specs[name], weights=networks.weights(name), build=True)
        made.append(f"{len(view.html.encode()) / 1e3:.0f} kB for {name}")
    empty = len(page({"name": ""}).encode()) / 1e3
    text = f"A page is as large as its network: {' and '.join(made)}, each with its program, "
    return f"{text}of which {empty:.0f} kB are the page itself."


def build(*options):
    """What `trtdsl build` prints of ST-GCN."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "trtdsl.cli.main", "build", str(ROOT / "networks" / "stgcn.py"), *options]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    return "\n".join(["```text", "$ trtdsl build networks/stgcn.py", *done.stdout.splitlines(), "```"])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=[name for name in NAMES if ":" not in name])
    parser.add_argument("--to", type=Path, metavar="FOLDER")
    parser.add_argument("--write", action="store_true", help="write the parts into the documents")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        made = {"gallery": programs(options.names, options.to or folder), "page sizes": pages(options.to or folder)}
    made["build"] = build()
    for name, text in made.items():
        print(f"\n{text}")
        if options.write:
            write_part(
                ROOT / PARTS[name],
                f"<!-- {name}: python tools/bench/pages.py --write -->",
                f"<!-- end of {name} -->",
                text,
            )


if __name__ == "__main__":
    main()
