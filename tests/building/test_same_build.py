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


def without_names(plan):
    """A plan's lines, sorted, without generated names (__mye123) and without where host memory of a size lies."""
    return sorted(re.sub(rb"mye\d+|offset=\d+", b"", plan).split(b"\n"))


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
    """TensorRT numbers two equal computations of sizes in either order, which changes from build to build."""
    here, there = built_elsewhere(tmp_path / "again.plan")[1], elsewhere[1]
    assert len(here) == len(there)
    assert without_names(here) == without_names(there)
