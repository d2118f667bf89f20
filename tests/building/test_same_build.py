"""What is the same in two builds of one real network, and what is not: TensorRT numbers its own names as they come."""

import re
import subprocess
import sys
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


def in_order(plan):
    """A plan whose generated names (__mye123) are numbered in the order in which they come."""
    numbers = {}
    return re.sub(rb"mye\d+", lambda match: b"mye%07d" % numbers.setdefault(match[0], len(numbers)), plan)


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


def test_plans_of_new_processes_differ_in_the_numbers_of_generated_names_alone(elsewhere, tmp_path):
    """In a process that has built before the numbers go on, and what TensorRT sorts by names may lie elsewhere."""
    here, there = built_elsewhere(tmp_path / "again.plan")[1], elsewhere[1]
    assert len(here) == len(there)
    assert in_order(here) == in_order(there)
