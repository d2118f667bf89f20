"""tools/bench/gpu.py on the simulated device: every way is one line, and nothing that fails ends the others."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from trtdsl.core.author import load_module

FILE = Path(__file__).parents[2] / "tools" / "bench" / "gpu.py"


@pytest.fixture(scope="module")
def tool():
    return load_module(FILE)


def test_the_order_is_that_of_importance(tool):
    wanted = list(tool.tasks(None, list(tool.WAYS)))
    assert wanted[0] == {"kind": "network", "network": str(tool.FOLDER / "stgcn.py"), "way": "engine"}
    networks = [task["network"] for task in wanted if task.get("way") == "engine"]
    assert [Path(name).stem for name in networks[:8]] == list(tool.ORDER)
    assert {Path(name).stem for name in networks} == {path.stem for path in tool.FOLDER.glob("*.py")} - {"llama"}
    ways = list(dict.fromkeys(task.get("way", task["kind"]) for task in wanted))
    assert ways == ["engine", "graphs", "torch", "einsum", "grid_sample", "fp16", "onnx", "compile"]
    assert {task["kind"] for task in tool.tasks([], list(tool.WAYS))} == {"einsum", "grid_sample"}


def test_networks_skipped_for_time_are_listed(tool, monkeypatch):
    clock = iter(range(0, 1000, 30))
    monkeypatch.setattr(tool.time, "monotonic", lambda: next(clock))
    limits = []

    def run(task, limit):
        limits.append(limit)
        return {**task, "done": True}

    seen = list(tool.schedule([{"n": n} for n in range(5)], 100, run))
    assert [facts.get("done", facts.get("error")) for facts in seen] == [True] * 3 + ["left out: no time was left"] * 2
    assert limits == [70, 40, 10]


def test_a_network_is_measured_in_one_way(tool, machine, small):
    task = {"kind": "network", "network": str(small / "small.py"), "way": "engine"}
    facts = tool.measured(task, 3)
    assert "error" not in facts
    assert [times["name"] for times in facts["times"]] == ["engine", "host to host"]
    assert facts["times"][0]["runs"] == 3
    assert facts["program"]["launches"] > 0
    assert facts["program"]["bytes"] > 0
    assert json.loads(json.dumps(facts)) == facts
    assert f"| small {facts['dims']} | engine | engine |" in tool.tables([facts])


@pytest.mark.filterwarnings("ignore")  # of the exporter
def test_inputs_of_the_onnx_way_are_given_by_name(tool, machine, small):
    """torch's exporter leaves out an input that the module does not use, and what follows would move up."""
    (small / "two.py").write_text(
        "import torch\nimport trtdsl as td\n\n\nclass Model(torch.nn.Module):\n"
        "    def forward(self, unused, x):\n        return x.clamp(min=0)\n\n\n"
        '@td.network(inputs={"unused": td.Input((7, 9)), "x": td.Input((2, 3))}, reference=Model)\n'
        'def two(unused, x):\n    return {"y": x.clamp(min=0), "z": unused * 1}\n'
    )
    facts = tool.measured({"kind": "network", "network": str(small / "two.py"), "way": "onnx"}, 2)
    assert "error" not in facts, facts["error"]
    assert [times["name"] for times in facts["times"]] == ["onnx"]


def test_a_measurement_that_fails_is_a_row_with_its_error(tool, machine, small):
    for way in ("torch", "compile"):
        facts = tool.measured({"kind": "network", "network": str(small / "small.py"), "way": way}, 2)
        assert "needs a torch with CUDA" in facts["error"]
        assert "needs a torch" in tool.tables([facts])
    machine.fail("create_execution_context")
    facts = tool.measured({"kind": "grid_sample", "index": 0}, 2)
    assert facts["error"].startswith("ExecutionError")


def test_lowerings(tool, machine):
    facts = tool.measured({"kind": "einsum", "index": 2}, 2)
    assert facts["medians"].keys() == {"matmul", "native"}
    assert "| `bij,bjk->bik`" in tool.tables([facts])


def test_exit_code_6_without_a_gpu():
    done = subprocess.run([sys.executable, FILE, "--networks"], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        assert done.returncode == 6
        assert "nothing measured: an engine runs on an NVIDIA GPU" in done.stderr


def test_a_task_in_a_process_of_its_own(tool):
    """Where there is no GPU its line is the error; a limit that is too short is another."""
    task = {"kind": "einsum", "index": 2}
    facts = tool.in_a_process(task, 60, runs=1)
    assert facts["kind"] == "einsum"
    assert "NoDriverError" in facts.get("error", "NoDriverError")
    assert tool.in_a_process(task, 0.05, runs=1)["error"] == "stopped after 0 s"
