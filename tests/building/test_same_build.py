"""What is the same in two builds of one real network, and what is not: TensorRT numbers its own names as they come."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import trtdsl as td
from trtdsl.compiling.compiler import compile_engine
from trtdsl.interpreter.fingerprint import fingerprint

NETWORKS = Path(__file__).parents[2] / "networks"
NAMES = ("stgcn", "stn", "mobilefacenet")
PROGRAM = """
import sys
import trtdsl as td
from trtdsl.compiling.compiler import compile_engine
from trtdsl.interpreter.fingerprint import fingerprint

for path in sys.argv[2:]:
    network = td.load_spec(path).define()
    print(fingerprint(network.definition, network.backend))
    if path.endswith("stgcn.py"):
        open(sys.argv[1], "wb").write(compile_engine(network).data)
"""


def in_order(plan):
    """A plan whose generated names (__mye123) are numbered in the order in which they come."""
    numbers = {}
    return re.sub(rb"mye\d+", lambda match: b"mye%07d" % numbers.setdefault(match[0], len(numbers)), plan)


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory):
    """The definitions' hashes, and the plan of ST-GCN, of another process."""
    plan = tmp_path_factory.mktemp("same") / "stgcn.plan"
    files = [str(NETWORKS / f"{name}.py") for name in NAMES]
    done = subprocess.run([sys.executable, "-c", PROGRAM, plan, *files], capture_output=True, text=True, check=True)
    return done.stdout.split(), plan.read_bytes()


def test_the_definition_has_one_hash(elsewhere):
    for name, there in zip(NAMES, elsewhere[0], strict=True):
        network = td.load_spec(str(NETWORKS / f"{name}.py")).define()
        assert fingerprint(network.definition, network.backend) == there


def test_plans_differ_in_the_numbers_of_generated_names_alone(elsewhere):
    here = compile_engine(td.load_spec(str(NETWORKS / "stgcn.py")).define()).data
    there = elsewhere[1]
    assert len(here) == len(there)
    assert in_order(here) == in_order(there)
