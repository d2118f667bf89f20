"""The engines of the gallery, evaluated on the CPU: each network, precision and profile against the interpreter.

    python tools/bench/evaluated.py [NAME …]
    python tools/bench/evaluated.py --results evaluated.jsonl --minutes 5    # goes on where it stopped
    python tools/bench/evaluated.py --results evaluated.jsonl --write        # writes the table in docs/benchmarks.md

Engines are those that are shipped, with all sizes of their profiles. Each is evaluated (docs/engine-evaluated.md) once
at the sizes that a profile is tuned for, in a process of its own. The error is the greatest difference from the
interpreter, which computes in the network's precision, and stands beside the greatest value of that output. Equal is
1e-4 of that in float32; in half precision, twice what the interpreter itself is off from the network in float32.
Seconds are of the evaluation, with what is to be compiled. Weights that are not in the repository are made by
tools/make_weights.py.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
import tempfile
import time
from pathlib import Path

import torch

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tools"), str(ROOT / "tools" / "bench")]

from measured import Results, alone, versions, write_part  # noqa: E402

import trtdsl as td  # noqa: E402
from networks import NAMES, Networks, refused  # noqa: E402
from trtdsl.engine.running.evaluate import evaluator_of  # noqa: E402

DOCUMENT = ROOT / "docs" / "benchmarks.md"
PART = ("<!-- evaluated: python tools/bench/evaluated.py --write -->", "<!-- end of evaluated -->")
PRECISIONS = (None, "fp16", "bf16")
EQUAL = 1e-4  # of an output's greatest value, in float32
UNDECIDED = 0.25  # of an output's greatest value: a difference that says nothing, though rounding explains it
SECONDS = 120


def evaluated(spec, weights, profile, precision):
    """One engine at the sizes that a profile is tuned for."""
    sizes = (spec.profiles[profile] if spec.profiles else td.Profile()).within(spec.dims).at("opt")
    launches = []
    try:
        network = spec.define(weights=weights, precision=precision)
        feeds = td.sample_feeds(spec, sizes, torch.Generator().manual_seed(0))
        evaluate = evaluator_of(network, profile=profile, observe=lambda step, results: launches.append(step.index))
        start = time.perf_counter()
        found = evaluate(feeds)
        seconds = time.perf_counter() - start
        expected = td.interpret(network, feeds)
        exact = expected if precision is None else td.interpret(spec.define(weights=weights), feeds)
    except td.TrtdslError as error:
        return refused(error)
    outputs = []
    for name, value in expected.items():
        great, off = greatest(value), greatest(found[name].double() - value.double())
        room = EQUAL * great if precision is None else 2 * greatest(value.double() - exact[name].double())
        outputs.append((off / max(great, 1e-30), off, great, off <= room))
    _, error, scale, _ = max(outputs)
    equal = all(fits for *_, fits in outputs)
    return {
        "sizes": sizes,
        "launches": len(launches),
        "error": error,
        "scale": scale,
        "equal": equal,
        "seconds": seconds,
    }


def greatest(value):
    return float(value.double().abs().max()) if value.numel() else 0.0


def table(rows):
    lines = [
        "| network | precision | launches | evaluated | worst error | greatest value | seconds |",
        "|---" * 7 + "|",
    ]
    for name, profile, precision, row in rows:
        cells = [row.get("refused", "")] + [""] * 4
        if not cells[0]:
            name = ", ".join([name, *(f"{key} = {size}" for key, size in row["sizes"].items())])
            said = "equal" if row["equal"] else "**not equal**"
            if row["equal"] and row["error"] > UNDECIDED * row["scale"]:
                said = "undecided: rounding changes what is selected"
            cells = [row["launches"], said, f"{row['error']:.1e}", f"{row['scale']:.2g}", f"{row['seconds']:.1f}"]
        else:
            name, cells = f"{name}, profile {profile}", ["", cells[0], "", "", ""]
        lines.append(f"| {name} | {precision or 'fp32'} | {' | '.join(map(str, cells))} |")
    return "\n".join(lines)


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=NAMES)
    parser.add_argument("--minutes", type=float, default=float("inf"), help="what is not measured by then is named")
    parser.add_argument("--results", type=Path, help="a file of results: what it has is not measured again")
    parser.add_argument("--write", action="store_true", help="write the table into docs/benchmarks.md")
    options = parser.parse_args(arguments)
    until, kept, rows, missed = time.monotonic() + 60 * options.minutes, Results(options.results), [], []
    with tempfile.TemporaryDirectory() as folder:
        networks = Networks(options.names, "", None, folder, until)
        for name in options.names:
            spec = dataclasses.replace(networks.specs[name], tuning=False)
            for profile in range(max(len(spec.profiles), 1)):
                for precision in PRECISIONS:
                    key = {"network": name, "profile": profile, "precision": precision}
                    known = [row for row in kept.rows if key.items() <= row.items()]
                    if not known and time.monotonic() > until:
                        missed.append(f"{name}, {precision or 'fp32'}, profile {profile}")
                        continue
                    if not known:
                        work = (evaluated, spec, networks.weights(name), profile, precision)
                        try:
                            made = alone(*work, seconds=SECONDS)
                        except RuntimeError as error:
                            made = refused(error)
                        kept.add({**key, **made})
                        known = [{**key, **made}]
                        print(f"{key}: {made}", file=sys.stderr, flush=True)
                    rows.append((name, profile, precision, known[-1]))
    text = f"{versions()}.\n\n{table(rows)}" + (f"\n\nNot measured: {'; '.join(missed)}." if missed else "")
    print(text)
    if options.write:
        write_part(DOCUMENT, *PART, text)


if __name__ == "__main__":
    main()
