"""What is the same in two builds of one real network, and what is not: TensorRT numbers its own names as they come."""

import hashlib
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

import trtdsl as td
from trtdsl.interpreter.fingerprint import fingerprint

NETWORKS = Path(__file__).parents[2] / "networks"
NAMES = ("stgcn", "stn", "mobilefacenet")
PROGRAM = """
import sys
import trtdsl as td
from trtdsl.engine.compiling.compiler import compile_engine
from trtdsl.interpreter.fingerprint import fingerprint

for path in sys.argv[2:]:
    network = td.load_spec(path).define()
    print(fingerprint(network.definition, network.backend))
    if path.endswith("stgcn.py"):
        open(sys.argv[1], "wb").write(compile_engine(network).data)
"""


def lines_of(plan):
    """A plan's lines of text without generated names (__mye123) and without where host memory of a size lies."""
    lines = re.sub(rb"mye\d+|offset=\d+", b"", plan).split(b"\n")
    return Counter(line for line in lines if line.isascii() and b"\0" not in line)


def built_elsewhere(plan):
    """The definitions' hashes, and the plan of ST-GCN, of a new process."""
    files = [str(NETWORKS / f"{name}.py") for name in NAMES]
    done = subprocess.run([sys.executable, "-c", PROGRAM, plan, *files], capture_output=True, text=True, check=True)
    return done.stdout.split(), plan.read_bytes()


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory):
    return built_elsewhere(tmp_path_factory.mktemp("same") / "stgcn.plan")


def test_the_definition_has_one_hash(elsewhere):
    for name, there in zip(NAMES, elsewhere[0], strict=True):
        network = td.load_spec(str(NETWORKS / f"{name}.py")).define()
        assert fingerprint(network.definition, network.backend) == there


def test_plans_of_new_processes_differ_in_generated_names_and_their_order_alone(elsewhere, tmp_path):
    """TensorRT numbers two equal computations of sizes in either order, which changes from build to build.

    With a name's length the text's length changes, and with it what the plan says of it and fills up behind it.
    """
    here, there = built_elsewhere(tmp_path / "again.plan")[1], elsewhere[1]
    ours, theirs = lines_of(here), lines_of(there)
    assert ours.total() > 10_000 and (ours - theirs, theirs - ours) == (Counter(), Counter())
    weights = 59_000_000  # the last part of a plan
    assert hashlib.sha256(here[-weights:]).digest() == hashlib.sha256(there[-weights:]).digest()
