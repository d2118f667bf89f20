"""Manifests with one entry of another value: loaded, run, inspected and asked whether they are up to date."""

import contextlib
import copy
import json
import random
import shutil
import types
import typing
import warnings

import msgspec
import numpy as np
import pytest
from support import damage
from typer.testing import CliRunner

import trtdsl as td
from trtdsl.building.manifest import read_earlier_manifest
from trtdsl.cli.app import app
from trtdsl.engine.loading.manifest import Manifest, manifest_path, sealed

USUAL, ALL, PART = 120, 10_000, 1_000


@pytest.fixture
def folder(machine, tmp_path):
    damage.readers(tmp_path)  # the simulated device knows the engines that are built on it
    return tmp_path


@pytest.fixture
def whole(folder):
    """A manifest with every entry that the schema has."""
    facts = json.loads(manifest_path(folder / "made.engine").read_bytes())
    facts["refit"] = damage.refit_entry(folder)
    facts["refit"] |= {
        "identical": False,
        "settings": {"a": 1, "b": {"file": "w"}},
        "lowerings": [["f", "g", "h", "i", 0, "j"]],
    }
    facts["refit"]["dims"] = {"N": [2, 8], "T": 3}
    facts["program"] = {**facts.get("program", {}), "handed": {"a": "2*N"}}
    facts["precisions"] = {"calls": {"fp16": 3}, "file": "p", "sha256": "0" * 64, "data": "d", "sqnr": {"y": None}}
    facts["inputs"]["x"]["format"] = facts["outputs"]["y"]["format"] = None
    facts["inputs"]["x"]["longest"] = facts["outputs"]["y"]["longest"] = None
    facts["inputs"]["x"]["padding"] = facts["outputs"]["y"]["padding"] = None
    facts["states"], facts["in_place"], facts["slots"] = {"x": "y"}, ["x"], {"x": 1}
    facts["settings"] = {"rank": 0, "ranks": 1}
    facts["plugins"] = [{"name": "a", "version": "1", "namespace": ""}]
    facts["check"] |= {"passed": True, "statement": "s", "cases": [{"N": 2}], "max_relative_to_scale": 0.5}
    facts["check"] |= {"relaxed": ["r"], "unproven": ["u"], "reason": "", "quality": True}
    facts["source"] = facts["weights"] = {"file": "a.py", "sha256": "0" * 64}
    return facts


def kinds(kind, facts):
    """Every struct within a type, with the values of it that are there."""
    origin = typing.get_origin(kind)
    if origin is typing.Annotated:
        yield from kinds(typing.get_args(kind)[0], facts)
    elif isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        yield kind, facts
        for field in msgspec.structs.fields(kind):
            yield from kinds(field.type, [each[field.encode_name] for each in facts if field.encode_name in each])
    elif origin is dict:
        yield from kinds(
            typing.get_args(kind)[1],
            [value for each in facts for value in (each.values() if isinstance(each, dict) else ())],
        )
    elif origin is tuple:
        inner = [value for each in facts if isinstance(each, list) for value in each]
        yield from kinds(typing.get_args(kind)[0], inner)
    elif origin in (typing.Union, types.UnionType):
        for part in typing.get_args(kind):
            yield from kinds(part, [each for each in facts if each is not None])


def test_the_manifest_has_every_entry_of_the_schema(whole):
    for kind, facts in kinds(Manifest, [whole]):
        for field in msgspec.structs.fields(kind):
            assert any(field.encode_name in each for each in facts), (kind, field.name)


def changed(rng, facts):
    """With one entry of another type, out of its range, missing, or with another's value."""
    other = copy.deepcopy(facts)
    found = list(damage.places(other))
    holder, key = rng.choice(found)
    before, how = holder[key], rng.randrange(4)
    if how == 0:
        del holder[key]
    elif how == 1:
        holder[key] = rng.choice(damage.VALUES)
    elif how == 2 and isinstance(before, (int, float)):
        holder[key] = rng.choice((before + 1, -before - 1, str(before), before + 0.5, [before], None, 2**63))
    elif how == 2 and isinstance(before, str):
        holder[key] = rng.choice((before + "x", before.upper(), before[:-1], [before], 7, "", before * 300))
    else:
        holder[key] = copy.deepcopy(rng.choice([h[k] for h, k in found]))
    return other


def attempt(folder, whole, number):
    """What is wrong with what became of one manifest; and whether it was loaded."""
    # A plugin is missing here, which is said before anything else.
    facts = changed(random.Random(number), whole if number % 8 == 0 else {**whole, "plugins": []})
    engine = folder / "changed.engine"
    if not engine.exists():
        shutil.copy(folder / "made.engine", engine)
    try:
        text = json.dumps(facts)
    except ValueError:
        return None, False
    manifest_path(engine).write_text(text)
    same = sealed(facts) == whole
    assert same or read_earlier_manifest(manifest_path(engine)) == {}, "it counts as up to date"
    loaded = False
    try:
        with td.load_engine(engine) as read:
            loaded = True
            result = read.run({"x": np.ones((2, 3), np.float32), "t": np.ones((2, 6), np.float32)})
            assert result["y"].tolist() == [[3.0] * 3] * 2
    except td.TrtdslError as error:
        if len(str(error)) > 5_000:
            raise
    with contextlib.suppress(td.TrtdslError):
        repr(td.program(engine))
    done = CliRunner().invoke(app, ["inspect", str(engine), *(["--program"] if number % 2 else [])])
    assert done.exit_code in (0, 2, 5, 7), (done.exit_code, done.stderr, done.exception)
    assert "Traceback" not in done.stderr and "\x1b[2J" not in done.stdout
    return loaded


def attempts(folder, whole, numbers):
    loaded = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for number in numbers:
            try:
                loaded += bool(attempt(folder, whole, number))
            except Exception as error:
                raise AssertionError(f"manifest {number}: {type(error).__name__}: {error}") from error
    return loaded


def test_manifests_with_one_entry_changed(folder, whole):
    loaded = attempts(folder, whole, range(USUAL))
    assert USUAL // 10 < loaded < USUAL  # some entries are for the reader alone


@pytest.mark.heavy
@pytest.mark.parametrize("first", range(1_000, 1_000 + ALL, PART))
def test_many_manifests_with_one_entry_changed(folder, whole, first):
    attempts(folder, whole, range(first, first + PART))
