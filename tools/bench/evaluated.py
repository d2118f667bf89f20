"""Engines evaluated on the CPU against the interpreter: the gallery, and the models of other libraries.

    python tools/bench/evaluated.py [NAME …]
    python tools/bench/evaluated.py --models [--only PATTERN]          # those of tools/surveyed/models.py
    python tools/bench/evaluated.py --results evaluated.jsonl --minutes 5    # goes on where it stopped
    python tools/bench/evaluated.py --results evaluated.jsonl --write        # writes the table in docs/benchmarks.md
    python tools/bench/evaluated.py --touched                          # bytes by operands beside bytes that are touched

Engines of the gallery are those that are shipped, with all sizes of their profiles; each is evaluated
(docs/engine-evaluated.md) once at the sizes that a profile is tuned for. Models of other libraries have one size and
made weights. Every row takes a process of its own. The error is the greatest difference from the interpreter, which
computes in the network's precision, and stands beside the greatest value of that output. Equal is 1e-4 of that in
float32; in half precision, twice what the interpreter itself is off from the network in float32. Where rounding decides
what is selected, the parts before and behind the selection have rows of their own. Seconds are of the evaluation, with
what is to be compiled. With ``--touched`` the bytes of every launch's operands, which td.program adds up, stand beside
those that the evaluation saw it read or write, each byte of a launch once. Weights that are not in the repository are
made by tools/make_weights.py.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path

import torch

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tools"), str(ROOT / "tools" / "bench")]

from measured import Results, alone, versions, write_part  # noqa: E402
from models import defined, feeds, subjects  # noqa: E402
from survey import declare_operators_of_torchvision  # noqa: E402

import trtdsl as td  # noqa: E402
from networks import NAMES, Networks, refused  # noqa: E402
from trtdsl.core.author import load_module  # noqa: E402
from trtdsl.engine.compiling.compiler import compile_engine  # noqa: E402
from trtdsl.engine.program import At, program_of_plan  # noqa: E402
from trtdsl.engine.running.evaluate import evaluator_of, evaluator_of_plan  # noqa: E402

DOCUMENT = ROOT / "docs" / "benchmarks.md"
PARTS = {
    "gallery": ("<!-- evaluated: python tools/bench/evaluated.py --write -->", "<!-- end of evaluated -->"),
    "models": (
        "<!-- evaluated models: python tools/bench/evaluated.py --models -->",
        "<!-- end of evaluated models -->",
    ),
    "touched": ("<!-- touched: python tools/bench/evaluated.py --touched --write -->", "<!-- end of touched -->"),
}
PRECISIONS = (None, "fp16", "bf16")
EQUAL = 1e-4  # of an output's greatest value, in float32
UNDECIDED = 0.25  # of an output's greatest value: a difference that says nothing, though rounding explains it
SECONDS = 300
SELECTING = {"yolo": "suppressed"}
"""The function of a network's file that selects; what it selects from is what another network of the file gives."""


def evaluated(spec, weights, profile, precision):
    """One engine of the gallery at the sizes that a profile is tuned for."""
    sizes = (spec.profiles[profile] if spec.profiles else td.Profile()).within(spec.dims).at("opt")
    try:
        network = spec.define(weights=weights, precision=precision)
        given = td.sample_feeds(spec, sizes, torch.Generator().manual_seed(0))
        exact = None if precision is None else spec.define(weights=weights)
        return {"sizes": sizes, **held(network, given, exact, profile)}
    except td.TrtdslError as error:
        return refused(error)


def touched(spec, weights, profile, precision):
    """The bytes of one engine's launches, by their operands and as they are touched."""
    sizes = (spec.profiles[profile] if spec.profiles else td.Profile()).within(spec.dims).at("opt")
    try:
        network = spec.define(weights=weights, precision=precision)
        plan, counted = compile_engine(network, td.BuildConfig(tf32=False)), []
        evaluate = evaluator_of_plan(
            plan.data, network, profile, lambda step, results: counted.append(sum(step.touched)), count=True
        )
        evaluate(td.sample_feeds(spec, sizes, torch.Generator().manual_seed(0)))
        by_operands = program_of_plan(plan, network, At(sizes, {}, {}, profile)).bytes
        return {"sizes": sizes, "launches": len(counted), "operands": by_operands, "touched": sum(counted)}
    except td.TrtdslError as error:
        return refused(error)


def selected(name, weights, profile, precision):
    """The part of a network that selects alone, of what its other part gives."""
    file = ROOT / "networks" / f"{name}.py"
    spec = td.load_spec(f"{file}:without_suppression")
    sizes = (spec.profiles[profile] if spec.profiles else td.Profile()).within(spec.dims).at("opt")
    try:
        whole = spec.define(weights=weights, precision=precision)
        given = td.interpret(whole, td.sample_feeds(spec, sizes, torch.Generator().manual_seed(0)))
        part = td.Network()
        with part.current():
            drawn = [part.input(f"of_{key}", tuple(value.shape), dtype=value.dtype) for key, value in given.items()]
            for key, result in getattr(load_module(file), SELECTING[name])(*drawn).items():
                part.output(result, key)
        return {"sizes": sizes, **held(part, {f"of_{key}": value for key, value in given.items()})}
    except td.TrtdslError as error:
        return refused(error)


def of_model(subject):
    """One model of another library."""
    try:
        network, given = defined(subject, "fp32"), feeds(subject, "fp32")
        return {"sizes": {}, **held(network, dict(zip(network.inputs, given.values(), strict=True)))}
    except Exception as error:  # a library's module may fail as well
        return refused(error)


def held(network, given, exact=None, profile=0):
    """An engine's program against the interpreter; ``exact`` is the same network in float32."""
    launches = []
    evaluate = evaluator_of(network, profile=profile, observe=lambda step, results: launches.append(step.index))
    start = time.perf_counter()
    found = evaluate(given)
    seconds = time.perf_counter() - start
    expected = td.interpret(network, given)
    truth = expected if exact is None else td.interpret(exact, given)
    outputs = []
    for name, value in expected.items():
        great, off = greatest(value), greatest(found[name].double() - value.double())
        room = EQUAL * great if exact is None else 2 * greatest(value.double() - truth[name].double())
        outputs.append((off / max(great, 1e-30), off, great, off <= room))
    _, error, scale, _ = max(outputs)
    equal = all(fits for *_, fits in outputs)
    return {"launches": len(launches), "error": error, "scale": scale, "equal": equal, "seconds": seconds}


def greatest(value):
    return float(value.double().abs().max()) if value.numel() else 0.0


def table(rows):
    lines = [
        "| network | precision | launches | evaluated | worst error | greatest value | seconds |",
        "|---" * 7 + "|",
    ]
    for name, precision, row in rows:
        cells = ["", row.get("refused", ""), "", "", ""]
        if not cells[1]:
            name = ", ".join([name, *(f"{key} = {size}" for key, size in row["sizes"].items())])
            said = "equal" if row["equal"] else "**not equal**"
            if row["equal"] and row["error"] > UNDECIDED * row["scale"]:
                said = "by its parts: rounding changes what is selected"
            cells = [row["launches"], said, f"{row['error']:.1e}", f"{row['scale']:.2g}", f"{row['seconds']:.1f}"]
        lines.append(f"| {name} | {precision or 'fp32'} | {' | '.join(map(str, cells))} |")
    return "\n".join(lines)


def table_of_touched(rows):
    lines = ["| network | precision | launches | MB by operands | MB touched | of them |", "|---" * 6 + "|"]
    for name, precision, row in rows:
        cells = [row.get("refused", ""), "", "", ""]
        if not cells[0]:
            name = ", ".join([name, *(f"{key} = {size}" for key, size in row["sizes"].items())])
            both = row["operands"], row["touched"]
            cells = [row["launches"], *(f"{each / 1e6:.3f}" for each in both), f"{both[1] / both[0]:.3f}"]
        lines.append(f"| {name} | {precision or 'fp32'} | {' | '.join(map(str, cells))} |")
    return "\n".join(lines)


def rows_of_touched(names, folder):
    networks = Networks(names, "", None, folder, float("inf"))
    for name in names:
        spec = dataclasses.replace(networks.specs[name], tuning=False)
        for precision in PRECISIONS[:2]:
            key = {"network": name, "profile": 0, "precision": precision, "of": "bytes"}
            yield key, lambda name=name, spec=spec, by=precision: (touched, spec, networks.weights(name), 0, by)


def rows_of_gallery(names, folder):
    """What each row is called, what it depends on, and how it is made."""
    networks = Networks(names, "", None, folder, float("inf"))
    for name in names:
        spec = dataclasses.replace(networks.specs[name], tuning=False)
        for profile in range(max(len(spec.profiles), 1)):
            for precision in PRECISIONS:
                key = {"network": name, "profile": profile, "precision": precision}
                yield (
                    key,
                    lambda key=key, spec=spec: (
                        evaluated,
                        spec,
                        networks.weights(key["network"]),
                        *list(key.values())[1:],
                    ),
                )
                if name in SELECTING and precision is not None:
                    own = {**key, "network": f"{name}, the selection alone"}
                    yield (
                        own,
                        lambda key=key: (
                            selected,
                            key["network"],
                            networks.weights(key["network"]),
                            *list(key.values())[1:],
                        ),
                    )


def rows_of_models(only):
    declare_operators_of_torchvision()
    for library, subject in subjects(only):
        key = {"network": f"{library} {subject.name}", "of": f"{version(library)}, {subject.inputs}", "precision": None}
        yield key, lambda subject=subject: (of_model, subject)


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=NAMES)
    parser.add_argument("--models", action="store_true", help="models of other libraries instead of the gallery")
    parser.add_argument("--touched", action="store_true", help="bytes that launches of the gallery touch")
    parser.add_argument("--only", default="", help="models whose library and name this pattern finds")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="what is not measured by then is named")
    parser.add_argument("--results", type=Path, help="a file of results: what it has is not measured again")
    parser.add_argument("--write", action="store_true", help="write the table into docs/benchmarks.md")
    options = parser.parse_args(arguments)
    until, kept, rows, missed = time.monotonic() + 60 * options.minutes, Results(options.results), [], []
    with tempfile.TemporaryDirectory() as folder:
        what = "models" if options.models else "touched" if options.touched else "gallery"
        of = {"gallery": rows_of_gallery, "touched": rows_of_touched}
        wanted = rows_of_models(options.only) if options.models else of[what](options.names, folder)
        for key, work in wanted:
            known = [row for row in kept.rows if key.items() <= row.items()]
            if not known and time.monotonic() > until:
                missed.append(", ".join(str(part) for part in key.values() if part is not None))
                continue
            if not known:
                try:
                    made = alone(*work(), seconds=SECONDS)
                except RuntimeError as error:
                    made = refused(error)
                kept.add({**key, **made})
                known = [{**key, **made}]
                print(f"{key}: {made}", file=sys.stderr, flush=True)
            rows.append((key["network"], key["precision"], known[-1]))
    made = table_of_touched(rows) if options.touched else table(rows)
    text = f"{versions()}.\n\n{made}" + (f"\n\nNot measured: {'; '.join(missed)}." if missed else "")
    print(text)
    if options.write:
        write_part(DOCUMENT, *PARTS[what], text)


if __name__ == "__main__":
    main()
