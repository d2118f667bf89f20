"""The processor time of `trtdsl check` for every network of the gallery: of whole commands, one thread each.

    python tools/bench/checks.py [--root FOLDER] [NAME …]

`--root` is a checkout of another commit, with its weights.
"""

import argparse
import os
import resource
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def seconds(root: Path, name: str) -> float:
    """The user and system time of one check."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-m", "trtdsl", "check", f"networks/{name}.py", "-q"]
    env = {**os.environ, "PYTHONPATH": str(root), "OMP_NUM_THREADS": "1"}
    subprocess.run(command, cwd=root, env=env, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--root", type=Path, default=ROOT)
    given = parser.parse_args()
    whole = 0.0
    for name in given.names or sorted(file.stem for file in (given.root / "weights").glob("*.safetensors")):
        if (given.root / "networks" / f"{name}.py").is_file():
            whole += (spent := seconds(given.root, name))
            print(f"{name}: {spent:.1f} s", flush=True)
    print(f"together: {whole:.1f} s")


if __name__ == "__main__":
    main()
