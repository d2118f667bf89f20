"""Engines of several ranks: each execution context is given NCCL's communicator, in the process of its own rank."""

import pytest

import trtdsl as td
from trtdsl.core.errors import ExecutionError, UsageError

FILE = """
import trtdsl as td

def part(rank: int = 0, ranks: int = 1) -> td.NetworkSpec:
    @td.network(inputs={"x": td.Input((4,))})
    def part(x):
        return {"y": x * (rank + 1)}

    return part
"""


@pytest.fixture
def engine(tmp_path):
    (tmp_path / "part.py").write_text(FILE)
    spec = td.load_spec(str(tmp_path / "part.py"), {"rank": 1, "ranks": 2})
    td.build(spec, tmp_path / "part.engine", check=False)
    return tmp_path / "part.engine"


def test_each_context_is_given_the_communicator(machine, engine, monkeypatch):
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    loaded = td.load_engine(engine, communicator=0x1234)
    context, _ = loaded._loaded.make_context(graphs=False, eager=False)
    assert context.communicator == 0x1234
    machine.fail("set_communicator")
    with pytest.raises(ExecutionError, match="does not take the communicator"):
        loaded._loaded.make_context(graphs=False, eager=False)


@pytest.mark.parametrize(
    ("environment", "communicator", "message"),
    [
        ({}, None, "the engine is rank 1 of 2, which exchange values by NCCL: give load_engine"),
        ({"RANK": "0", "WORLD_SIZE": "2"}, 1, "rank 1 of 2, and this process is 0 of 2, by RANK and WORLD_SIZE"),
        ({"RANK": "1", "WORLD_SIZE": "4"}, 1, "this process is 1 of 4"),
        ({"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "2"}, 1, "by OMPI_COMM_WORLD_RANK"),
        ({}, "nccl", "communicator is a pointer to an ncclComm_t, a number or a capsule, not 'nccl'"),
        ({}, 0, "communicator is a pointer"),
    ],
)
def test_what_is_no_world_of_the_engine(machine, engine, environment, communicator, message, monkeypatch):
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(UsageError, match=message):
        td.load_engine(engine, communicator=communicator)
