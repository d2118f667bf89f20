"""The runner of torch_tensorrt's converter tests: on a suite of the same form, written for this test."""

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
SUITE = """
import torch
from torch import nn
from torch_tensorrt import Input
from .harness import DispatchTestCase


class TestAdd(DispatchTestCase):
    def test_plain(self):
        class Add(nn.Module):
            def forward(self, x, y):
                return torch.ops.aten.add.Tensor(x, y, alpha=2)

        self.run_test(Add(), [torch.randn(2, 3), torch.randn(3)])

    def test_two(self):
        self.run_test(nn.ReLU(), [torch.randn(2)])
        self.run_test(nn.ReLU(), [torch.randn(3)])

    def test_ranges(self):
        class Add(nn.Module):
            def forward(self, x, y):
                return x + y

        given = Input(min_shape=(1, 2), opt_shape=(2, 2), max_shape=(3, 2), dtype=torch.float32)
        self.run_test_with_dynamic_shape(Add(), [given, given])

    def test_random(self):
        class Noise(nn.Module):
            def forward(self, x):
                return x + torch.rand(3)

        self.run_test(Noise(), [torch.randn(2, 3)])

    def test_unknown(self):
        class Fft(nn.Module):
            def forward(self, x):
                return torch.linalg.matrix_exp(x)

        self.run_test(Fft(), [torch.randn(3, 3)])

    def test_refused_there(self):
        with self.assertRaises(RuntimeError):
            self.run_test(nn.ReLU(), [torch.randn(2)])
"""


def test_every_module_of_a_suite_is_judged(tmp_path):
    (tmp_path / "suite").mkdir()
    (tmp_path / "suite" / "test_add.py").write_text(SUITE)
    command = [sys.executable, "tools/converter_suite.py", str(tmp_path / "suite"), "--results", str(tmp_path / "out")]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    last = "{'equal': 5, 'refused': 1} 6"
    assert done.stdout.splitlines()[-1] == last
    rows = [json.loads(line) for line in (tmp_path / "out").read_text().splitlines()]
    assert {row["name"].split(".")[-1]: row["verdict"] for row in rows} == {
        "test_plain": "equal", "test_ranges": "equal", "test_random": "equal", "test_unknown": "refused",
        "test_two": "equal", "test_two (2)": "equal",
    }  # fmt: skip
    again = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    assert again.stdout.splitlines()[-1] == last
    assert len((tmp_path / "out").read_text().splitlines()) == len(rows)  # nothing was judged again
