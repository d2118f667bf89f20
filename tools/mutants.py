"""Measures which changes of the gallery's networks their checks see, as a table.

    python tools/mutants.py NAME … --to FILE [--stop SECONDS]

Each change's verdict is appended to FILE as a line of JSON when it is known, with the processor time that it took.
Started again, only the changes without a line are tried; `--stop` ends a run after some seconds, within a change too,
to be continued. The changes that are tried first lie evenly over the network.
`python tools/mutants.py --table FILE …` prints the table.
"""

import argparse
import contextlib
import json
import math
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tools")]

import make_weights  # noqa: E402

import trtdsl as td  # noqa: E402
from trtdsl.checking.check import Run  # noqa: E402
from trtdsl.checking.judging.evidence import Rules  # noqa: E402
from trtdsl.checking.mutation.mutate import SURVIVING, hunt_of  # noqa: E402
from trtdsl.core.author import load_module  # noqa: E402

# name -> the sizes to which a network is limited; the others are changed at all of the sizes of their checks.
SIZES = {
    "stgcn": {},
    "mamba": {},
    "stn": {},
    "mobilefacenet": {},
    "slowfast": {"N": 1, "T": 4, "H": 64, "W": 64},
    "vit": {"N": 1},
    "ddrnet": {"N": 1, "H": 64, "W": 64},
    "crnn": {"N": 2, "W": 64},
    "yolo": {"N": 1, "H32": 4, "W32": 4},
    "raft_small": {"N": 1, "H8": 16, "W8": 16},
}


def spec_of(name: str) -> Any:
    """A network's spec. RAFT's has 2 updates, not 12: its loop holds the same layers, in fewer turns."""
    file = ROOT / "networks" / f"{name}.py"
    if name != "raft_small":
        return td.load_spec(file)
    raft, reference = load_module(file), load_module(ROOT / "networks" / "reference" / f"{name}.py")

    class TwoUpdates(reference.Model):
        def __init__(self) -> None:
            super().__init__(updates=2)

    def raft_small(image1: td.Tensor, image2: td.Tensor, w: td.Scope) -> dict[str, td.Tensor]:
        return {"flow": raft.raft(image1, image2, w, updates=2)}

    return td.network(inputs=raft.frames(), reference=TwoUpdates)(raft_small)


def spread(count: int) -> list[int]:
    """The numbers below ``count`` in an order whose first ones lie evenly between them."""
    step = next(step for step in range(round(count * 0.618), count + 2) if math.gcd(step, count) == 1)
    return [index * step % count for index in range(count)]


class Stopped(BaseException):
    """Raised where a run is when its time is over."""


def stop(number: int, frame: Any) -> None:
    raise Stopped


def measure(name: str, file: Path) -> None:
    """Tries the changes of a network that the file has no line of."""
    before = time.process_time()
    found = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
    known = {line["number"] for line in found if line["network"] == name}
    with tempfile.TemporaryDirectory() as folder, file.open("a") as out:
        spec, weights = spec_of(name), make_weights.make(name, Path(folder))
        network = spec.define(weights=weights, dims=SIZES[name] or None, exact=True)
        hunt = hunt_of(Run(spec, network, "interpreter", 0, Rules(), spec.open_weights(weights)))
        changes = list(hunt.mutants())
        for number in spread(len(changes)):
            if number in known:
                continue
            place, mutant = changes[number]
            reason = hunt.passes(place, mutant)
            now = time.process_time()
            line = {"network": name, "number": number, "of": len(changes), "cases": len(hunt.cases)}
            line |= {"type": mutant.node.type, "change": mutant.change, "seconds": now - before, "reason": reason}
            line["at"] = str(hunt.network.layers[mutant.node.name].location or "").removeprefix(f"{ROOT}/")
            out.write(json.dumps(line) + "\n")
            out.flush()
            before = now


def table(lines: list[dict]) -> str:
    """A table of the networks, and every change that passes and should not."""
    rows, left = [], []
    for name, sizes in SIZES.items():
        own = [line for line in lines if line["network"] == name]
        if not own:
            continue
        reasons = Counter(line["reason"] for line in own)
        caught, unseen = reasons[None], sum(reasons[reason] for reason in SURVIVING)
        at = ", ".join(f"{dim} = {size}" for dim, size in sizes.items()) or "its own"
        whole = "" if len(own) == own[0]["of"] else f" (only {len(own)} of {own[0]['of']} were tried)"
        excused = len(own) - caught - unseen
        seconds = sum(line["seconds"] for line in own)
        rows.append(f"| {name} | {at} | {caught} of {caught + unseen}{whole} | {excused} | {seconds:.0f} |")
        survivors = [line for line in own if line["reason"] in SURVIVING]
        left += [f"{name}: {line['at']}: {line['type']}: {line['change']}: {line['reason']}" for line in survivors]
    head = ["| network | sizes | caught, of decidable | change nothing | processor seconds |", "|---|---|---|---|---|"]
    return "\n".join([*head, *rows, "", *left])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--to", type=Path)
    parser.add_argument("--stop", type=float, default=0.0, help="seconds; 0: none")
    parser.add_argument("--table", type=Path, nargs="+")
    given = parser.parse_args()
    signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, given.stop)
    with contextlib.suppress(Stopped):
        for name in given.names:
            measure(name, given.to)
    signal.setitimer(signal.ITIMER_REAL, 0)
    if given.table:
        print(table([json.loads(line) for file in given.table for line in file.read_text().splitlines()]))


if __name__ == "__main__":
    main()
